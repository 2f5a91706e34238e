"""The first screen of an answer: the case, the answer, ten rows that fit the terminal, and one footer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

import click

from roofline.errors import printable
from roofline.quantity import rounded
from roofline.records import NamedTuple, dataclass, field

__all__ = [
    "MARK",
    "MARKS",
    "MOST_ROWS",
    "Flags",
    "Screen",
    "ScreenColumn",
    "cell_text",
    "encodable",
    "flags",
    "joined_cell",
    "keys_of",
    "notes_footer",
    "prose",
    "says",
    "screen_text",
    "set_flag",
    "styled",
    "terminal_width",
]

#: Rows of a first screen; `--all` prints the others.
MOST_ROWS = 10
#: Mark of what a figure stands on, and its meaning in the footer.
MARKS = {"calibrated": ("*", "calibrated"), "inherited": ("+", "same generation"), "generic": ("?", "not timed")}

_OTHERS = 3  # rows under the rule, where both groups have many
_GAP = "  "
_USUAL = (80, 24)  # columns and lines where there is no terminal
_NARROWEST = 40  # columns; a narrower terminal wraps
_DOT, _PLAIN_DOT = " \u00b7 ", " | "
_MORE = "..."
_PROMPTS = 2  # lines of the terminal that the command and the next prompt take
_FEWEST_ROWS = 4  # where lines below the table need the room
_AROUND_A_LIST = 5  # lines of the terminal that heading, footer and prompt take
_LEAST_TEXT = 8  # characters that a shortened text keeps

Row = Mapping[str, Any]
Cell = str | tuple[str, str]


class Flags(NamedTuple):
    """What `--all` and `--notes` ask of a screen."""

    is_full: bool = False
    with_notes: bool = False


@dataclass(frozen=True, slots=True)
class ScreenColumn:
    """A column for people: heading, where its cells come from, and how early a narrow terminal leaves it out."""

    heading: str
    key: str
    rank: int = 0  # 0 is never left out
    interval: tuple[str, str] | None = None  # keys of the ends of the 80 % interval, shown as 224 (146-344)
    cell: Callable[[Row], str] | None = None  # text of a row, where it is not simply that of the key
    also: tuple[str, ...] = ()  # further keys that `cell` reads


#: What the figures of a row stand on, as a mark.
MARK = ScreenColumn("", "basis", cell=lambda row: MARKS.get(str(row.get("basis")), ("",))[0])


@dataclass(frozen=True)
class Screen:
    """What a table says to people."""

    columns: Sequence[ScreenColumn]
    rows: Sequence[Row]
    case: str = ""  # one line: what was asked
    answer: str = ""  # the answer in a sentence
    others: Sequence[Row] = ()  # rows under a rule
    rule: str = ""  # what tells them from the first ones
    lines: Sequence[str] = ()  # further lines below the table
    hidden: int = 0  # how many more of these there are
    legend: str = ""  # what a mark of this table means
    notes: Sequence[str] = field(default_factory=tuple)
    is_list: bool = False  # rows are looked up, not ranked: pipes get all of them
    is_whole: bool = False  # all rows are shown, whatever was asked
    is_curve: bool = False  # rows are points of a curve: some of all its parts are shown


def flags() -> Flags:
    """What the command that runs was asked to show; everything where it has no such options."""
    context = click.get_current_context(silent=True)
    found = None if context is None else context.meta.get(__name__)
    return found if isinstance(found, Flags) else Flags(is_full=False, with_notes=True)


def set_flag(context: click.Context, _: click.Parameter, value: bool, *, name: str) -> None:
    """Keep the value of a flag for `flags`."""
    found = context.meta.get(__name__, Flags())
    context.meta[__name__] = found._replace(**{name: value or getattr(found, name)})


def terminal_width() -> int:
    """Columns of the terminal; 80 in a pipe, or $COLUMNS."""
    return max(_terminal()[0], _NARROWEST)


def prose(text: str, width: int | None = None, indent: str = "") -> str:
    """Prose broken into lines that fit the terminal.

    Args:
        text: one paragraph [text].
        width: columns; None for the terminal's [1].
        indent: of the lines after the first [text].

    Returns:
        The lines [text].
    """
    most = terminal_width() if width is None else width
    if len(text) <= most and text.isprintable():
        return text.rstrip(" ")
    import textwrap

    return "\n".join(
        textwrap.wrap(text, most, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
    )


def styled(text: str, **style: Any) -> str:
    """Text in colour where the terminal has it: no pipe, no NO_COLOR, no dumb terminal."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not _is_terminal()
    return text if is_plain else click.style(text, **style)


def cell_text(value: Any) -> str:
    """Value for people: three significant digits, a dash for what does not apply."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, (list, tuple)):
        return "; ".join(map(str, value))
    return str(value)


def keys_of(columns: Iterable[ScreenColumn]) -> tuple[str, ...]:
    """Keys that the cells of columns are made of, each once."""
    keys: dict[str, None] = {}
    for column in columns:
        own = () if column.cell is not None and column.also else (column.key,)
        keys |= dict.fromkeys((*own, *(column.interval or ()), *column.also))
    return tuple(keys)


def screen_text(screen: Screen, asked: Flags, width: int | None = None) -> str:
    """A screen as text: case, answer, table, rule, other rows, footer.

    Args:
        screen: what it says.
        asked: rows and notes that are wanted.
        width: columns; None for the terminal's [1].

    Returns:
        Lines that fit the width, in colour where the terminal has it [text].
    """
    wide = terminal_width() if width is None else width
    most = _most_rows(screen, asked)
    lines = _lines(screen, asked, most, wide)
    over = sum(line.count("\n") + 1 for line in lines) - (_height() - _PROMPTS)
    if over > 0 and not (asked.is_full or screen.is_list or screen.is_whole) and most > _FEWEST_ROWS:
        lines = _lines(screen, asked, max(most - over, _FEWEST_ROWS), wide)
    return "\n".join(lines)


def _lines(screen: Screen, asked: Flags, most: int, width: int) -> list[str]:
    """Lines of a screen with at most so many rows."""
    first, others = _chosen(screen, most)
    columns = _fitting([c for c in screen.columns if says(c, (*first, *others))], (*first, *others), width)
    lines = [styled(_by_parts(encodable(printable(screen.case)), width), bold=True)] if screen.case else []
    if screen.answer:
        answers = printable(encodable(screen.answer), lines=True).split("\n")
        lines.append(styled("\n".join(prose(answer, width) for answer in answers), fg="cyan"))
    if first or others:
        lines += _table(columns, first, others, encodable(screen.rule), width)
    lines += [prose(printable(encodable(line)), width, "  ") for line in screen.lines]
    hidden = screen.hidden + len(screen.rows) + len(screen.others) - len(first) - len(others)
    notes = 0 if asked.with_notes else len(dict.fromkeys(screen.notes))
    footer = _footer(hidden, notes, (*first, *others), columns, width, screen.legend)
    return [*lines, *([styled(footer, dim=True)] if footer else [])]


def encodable(text: str) -> str:
    """Text without the letters that the terminal's encoding lacks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.replace(_DOT, _PLAIN_DOT)
    return text


def notes_footer(count: int) -> str:
    """What stands for notes that are not printed."""
    return f"{count} note{'' if count == 1 else 's'}: --notes"


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _most_rows(screen: Screen, asked: Flags) -> int:
    """Rows that may be printed: ten, or as many of a list as the terminal has lines for."""
    if asked.is_full or screen.is_whole or (screen.is_list and not _is_terminal()):
        return len(screen.rows) + len(screen.others)
    return max(_height() - _AROUND_A_LIST, MOST_ROWS) if screen.is_list else MOST_ROWS


def _chosen(screen: Screen, most: int) -> tuple[Sequence[Row], Sequence[Row]]:
    """Rows to print, of both groups."""
    if len(screen.rows) + len(screen.others) <= most:
        return screen.rows, screen.others
    if screen.is_curve:
        last = len(screen.rows) - 1
        return [screen.rows[round(place * last / (most - 1))] for place in range(most)], ()
    under = min(len(screen.others), max(min(_OTHERS, most // 2), most - len(screen.rows)))
    return screen.rows[: most - under], screen.others[:under]


def _by_parts(text: str, width: int) -> str:
    """A line of parts between dots, broken at dots where it is too long."""
    dot = encodable(_DOT)
    lines = [""]
    for part in text.split(dot):
        longer = f"{lines[-1]}{dot}{part}" if lines[-1] else part
        if len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(part)
    return "\n".join(prose(line, width) for line in lines)


def _terminal() -> tuple[int, int]:
    """Columns and lines, as `shutil.get_terminal_size` finds them: its import would cost a tenth of an answer."""
    stated = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    try:
        found = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except (AttributeError, ValueError, OSError):
        found = os.terminal_size(_USUAL)
    columns, lines = (
        int(text) if text.isdigit() and int(text) else own for text, own in zip(stated, found, strict=True)
    )
    return columns or _USUAL[0], lines or _USUAL[1]


def _height() -> int:
    return max(_terminal()[1], _USUAL[1])


def says(column: ScreenColumn, rows: Sequence[Row]) -> bool:
    """Whether a column says anything."""
    return any(_cell(column, row) not in ("-", "", ("-", "")) for row in rows)


def joined_cell(column: ScreenColumn, row: Row) -> str:
    """Text of a cell, an interval behind its value."""
    cell = _cell(column, row)
    return cell if isinstance(cell, str) else " ".join(part for part in cell if part)


def _cell(column: ScreenColumn, row: Row) -> Cell:
    if column.cell is not None:
        return printable(column.cell(row))
    value = printable(cell_text(row.get(column.key)))
    if column.interval is None:
        return value
    low, high = (row.get(key) for key in column.interval)
    return (value, "") if low is None or high is None else (value, f"({cell_text(low)}-{cell_text(high)})")


def _fitting(columns: list[ScreenColumn], rows: Sequence[Row], width: int) -> list[ScreenColumn]:
    """Columns that fit side by side, those of the lowest rank first."""
    wide = [len(_padded(column, rows)[0]) + len(_GAP) for column in columns]
    kept = [column.rank == 0 for column in columns]
    for place in sorted(range(len(columns)), key=lambda place: columns[place].rank):
        if not kept[place] and sum(compress(wide, kept)) + wide[place] - len(_GAP) <= width:
            kept[place] = True
    return list(compress(columns, kept))


def _padded(column: ScreenColumn, rows: Sequence[Row]) -> list[str]:
    """Heading and cells of a column, all as wide: numbers to the right, texts and intervals to the left."""
    cells = [_cell(column, row) for row in rows]
    pairs = [cell for cell in cells if isinstance(cell, tuple)]
    if pairs:
        left, right = (max(len(pair[side]) for pair in pairs) for side in (0, 1))
        texts = [f"{pair[0].rjust(left)} {pair[1].ljust(right)}".rstrip(" " if not right else "") for pair in pairs]
        width = max(len(column.heading), *map(len, texts))
        return [column.heading.ljust(width), *(text.ljust(width) for text in texts)]
    texts = [str(cell) for cell in cells]
    width = max(len(column.heading), *map(len, texts), 0)
    if all(map(_is_number, texts)):
        return [column.heading.rjust(width), *(text.rjust(width) for text in texts)]
    return [column.heading.ljust(width), *(text.ljust(width) for text in texts)]


def _is_number(text: str) -> bool:
    digits = text.replace(".", "", 1).replace("e-", "").replace("e+", "").removesuffix("%").removesuffix("x")
    return text == "-" or digits.strip().removeprefix("-").removeprefix("+").isdigit()


def _table(
    columns: Sequence[ScreenColumn], first: Sequence[Row], others: Sequence[Row], rule: str, width: int
) -> Iterator[str]:
    """Lines of a table: heading, first rows, a rule, others."""
    cells = [_padded(column, (*first, *others)) for column in columns]
    over = sum(len(column[0]) for column in cells) + len(_GAP) * (len(cells) - 1) - width
    if over > 0:
        cells = _shortened(cells, over)
    heading, *lines = (_GAP.join(parts).rstrip() for parts in zip(*cells, strict=True))
    yield styled(heading, bold=True)
    for place, line in enumerate(lines):
        if place == len(first) and rule:
            yield styled(_ruled(rule, min(width, max(map(len, (heading, *lines))))), dim=True)
        yield _coloured(line)


def _shortened(cells: list[list[str]], over: int) -> list[list[str]]:
    """Columns of which the widest text is cut, so that a line fits."""
    widest = max(range(len(cells)), key=lambda place: len(cells[place][0]))
    width = max(len(cells[widest][0]) - over, _LEAST_TEXT)
    cut = [text if len(text.rstrip()) <= width else f"{text[: width - len(_MORE)]}{_MORE}" for text in cells[widest]]
    return [*cells[:widest], [text[:width].ljust(width) for text in cut], *cells[widest + 1 :]]


def _ruled(text: str, width: int) -> str:
    return f"-- {text} ".ljust(width, "-")[:width]


def _coloured(line: str) -> str:
    """A line whose verdicts stand out."""
    parts = line.split(" ")
    colours = {"pass": "green", "pass?": "yellow", "fail": "red"}
    return " ".join(styled(part, fg=colours[part]) if part in colours else part for part in parts)


def _footer(
    hidden: int, notes: int, rows: Sequence[Row], columns: Sequence[ScreenColumn], width: int, more: str
) -> str:
    """How to see the rest, and what the marks mean."""
    parts = [f"{hidden} more: --all"] if hidden else []
    parts += [notes_footer(notes)] if notes else []
    if any(column.key == "basis" and not column.heading for column in columns):
        there = {row.get("basis") for row in rows}
        legend = "  ".join(f"{mark} {meaning}" for basis, (mark, meaning) in MARKS.items() if basis in there)
        parts += [legend] if legend else []
    parts += [more] if more else []
    return _by_parts(encodable(_DOT.join(parts)), width)
