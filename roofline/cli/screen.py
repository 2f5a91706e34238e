"""The first screen of an answer: the case, the answer, ten rows that fit the terminal, and one footer."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

import click

from roofline.numbers.quantity import GROUPING, MILLI, counted, rounded
from roofline.questions.catalog import ANNOUNCED
from roofline.support.dates import OLD, price_age
from roofline.support.errors import printable
from roofline.support.records import NamedTuple, dataclass, field, replace

#: Rows of a first screen.
MOST_ROWS = 10
#: Milliseconds; longer times are in seconds.
MOST_MS = 10_000.0
#: Mark of GPUs that nobody can buy or rent yet, and its meaning.
_ANNOUNCED_MARK = ("~", "announced")
#: Basis -> mark in a table, meaning in the footer.
MARKS = {
    "calibrated": ("*", "calibrated"), "inherited": ("+", "same generation"), "served": ("#", "servers alone"),
    "generic": ("?", "not timed"),
}  # fmt: skip

#: Options of single commands.
_OWN = frozenset(
    {
        "simulate",
        "seed",
        "requests",
        "force",
        "plot",
        "name",
        "baseline",
        "ttft",
        "out",
        "resume",
        "reduce",
        "jobs",
        "dask",
    }
)
_OF_BLOCKS = ("reduce", "jobs", "dask")  # of those, before their value in a refusal
_OTHERWISE = {"min_parameters": "min-size", "max_parameters": "max-size"}  # Python's name -> option of the shell
# Names of options in a refusal: before a value that was typed ("44 ms at batch = 1" and "isl + osl =" are computed, a
# file states "trace.csv:3: isl ="); alone where no language has such a word, but in a list of inputs or for a field of
# a file; and joined to one of those.
_WITH_VALUE = r"(?<!s at )(?<!\+ )(?<!\d: )([a-z]\w*) = (?:(-?\d+)\.0\b|(?=\S))"
_ALONE = r"(?<!for )(?<![:,] )([a-z]+_\w+)(?![\w`'\":/=-]|\.\S)"
_JOINED = r"([a-z]+)(?= (?:or|and) (?:\w+ (?:or|and) )*[a-z]+_)"
_NAMED_OPTION = rf"(?<![\w`'\"./-])(?:{_WITH_VALUE}|{_ALONE}|{_JOINED})"
_OTHERS = 3  # rows below the rule, where both groups are long
_GAP = "  "
_USUAL = (80, 24)  # columns and lines without a terminal
_NARROWEST = 40  # columns; a narrower terminal wraps
_DOT, _PLAIN_DOT = " \u00b7 ", " | "
_PLAIN_LINES = str.maketrans("\u2500\u2502\u250c\u2510\u2514\u2518\u251c\u2524\u252c\u2534\u253c", "-|+++++++++")
_MORE = "..."
_TYPED = "$ roofline"  # begins the line of a command
_FEWEST_ROWS = 4  # left in a table that makes room for the lines below it
_AROUND_A_LIST = 5  # terminal lines of heading, footer and prompt
_RULE = "-- "  # begins a line above those that it names
_LEAST_TEXT = 8  # characters of a shortened text

Row = Mapping[str, Any]
Cell = str | tuple[str, str]


class Flags(NamedTuple):
    """``--all``, ``--notes``, ``--output`` and ``--force``."""

    is_full: bool = False
    with_notes: bool = False
    output: str | None = None  # file that takes the rows
    force: bool = False


@dataclass(frozen=True, slots=True)
class ScreenColumn:
    heading: str
    key: str
    rank: int = 0  # narrow terminals leave out high ranks first, 0 never
    interval: tuple[str, str] | None = None  # keys of both ends of the 80 % interval, shown as 224 (146-344)
    cell: Callable[[Row], str] | None = None  # text, where it is not just the value of the key
    also: tuple[str, ...] = ()  # all keys that `cell` reads, where not only `key`
    factor: float = 1.0  # from the unit of the key to that of the heading


def mark_of(row: Row) -> str:
    """The basis of a row as a mark, or that its GPU is only announced."""
    if row.get("gpu_status", row.get("status")) in ANNOUNCED:
        return _ANNOUNCED_MARK[0]
    return MARKS.get(str(row.get("basis")), ("",))[0]


#: The basis of a row as a mark, or that its GPU is only announced.
MARK = ScreenColumn("", "basis", cell=mark_of, also=("basis", "gpu_status"))


@dataclass(frozen=True)
class Screen:
    columns: Sequence[ScreenColumn]
    rows: Sequence[Row]
    case: str = ""  # the question in a line
    answer: str = ""  # in a sentence
    picture: str = ""  # below it, as drawn
    others: Sequence[Row] = ()  # below a rule
    rule: str = ""  # text of the rule
    lines: Sequence[str] = ()  # below the table
    hidden: int = 0  # number of lines left out
    legend: str = ""  # of marks, in the footer
    notes: Sequence[str] = field(default_factory=tuple)
    needed: Sequence[Row] = ()  # of the rows, those to which others refer: they stay where some are left out
    is_list: bool = False  # rows are looked up, not ranked: pipes get all
    is_whole: bool = False  # show all rows
    is_curve: bool = False  # rows are points of a curve: show a selection from end to end
    is_long: bool = False  # explained: no screen holds it
    below: str = ""  # printed after the screen, with room for it
    cut: int = 0  # number of its lines left out


class Quoted(str):
    """What another program prints, shown as it is."""

    __slots__ = ()


def shell_words(text: str) -> str:
    """A text with names of options, which stand in ticks, as they are typed.

    >>> shell_words("add GPUs (`num_gpus`), or `weights` fp8; `model_type` is another thing")
    'add GPUs (--num-gpus), or --weights fp8; `model_type` is another thing'
    """
    if "`" not in text or isinstance(text, Quoted):
        return text
    from roofline.questions.inputs.options import OPTIONS

    def typed(name: re.Match[str]) -> str:
        return f"--{name[1].replace('_', '-')}" if name[1] in OPTIONS or name[1] in _OWN else name[0]

    return re.sub(r"`(\w+)`", typed, text)


def refusal_words(text: str) -> str:
    """A refusal in the words of the shell: options as `shell_words` has them, and with their values as they are typed.

    >>> refusal_words("request_rate = 0 must be above 0 requests/s; lower it, or add GPUs (`num_gpus`)")
    '--request-rate 0 must be above 0 requests/s; lower it, or add GPUs (--num-gpus)'
    """
    from roofline.questions.inputs.options import OPTIONS

    def typed(name: re.Match[str]) -> str:
        word = name[1] or name[3] or name[4]
        is_known = word in OPTIONS or (name[1] and word in _OF_BLOCKS)
        flag = _OTHERWISE.get(word, word if is_known else None)
        return name[0] if flag is None else f"--{flag.replace('_', '-')}{' ' if name[1] else ''}{name[2] or ''}"

    return re.sub(_NAMED_OPTION, typed, shell_words(text))


def flags() -> Flags:
    """Flags of the running command; notes are shown where it has no such options."""
    context = click.get_current_context(silent=True)
    stored = None if context is None else context.meta.get(__name__)
    return stored if isinstance(stored, Flags) else Flags(is_full=False, with_notes=True)


def set_flag(context: click.Context, param: click.Parameter | None, value: Any, *, name: str) -> None:
    """Callback of an option: store its value for `flags`, unless it is left out; a file named - is the screen."""
    stored = context.meta.get(__name__, Flags())
    if value == "":
        raise click.BadParameter("the path is empty; give the name of a file, or - to print", context, param)
    if value:
        context.meta[__name__] = stored._replace(**{name: None if value == "-" else value})
    else:
        context.meta[__name__] = stored


def terminal_width() -> int:
    """Terminal columns: $COLUMNS, else those of the terminal, else 80."""
    return max(_terminal()[0], _NARROWEST)


def prose(text: str, width: int | None = None, indent: str = "") -> str:
    """Prose wrapped to the width of the terminal."""
    most = terminal_width() if width is None else width
    if len(text) <= most and text.isprintable():
        return text.rstrip(" ")
    import textwrap

    return "\n".join(
        textwrap.wrap(text, most, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
    )


def styled(text: str, **style: Any) -> str:
    """Text with colour, unless in a pipe, with $NO_COLOR or on a dumb terminal."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not is_terminal()
    return text if is_plain else click.style(text, **style)


def cell_text(value: Any) -> str:
    """Three significant digits; a dash for None.

    >>> cell_text(0.04432), cell_text(2677.8), cell_text(None)
    ('0.0443', '2678', '-')
    """
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
    """Keys that the columns read, each once."""
    keys: dict[str, None] = {}
    for column in columns:
        keys_of_cell = () if column.cell is not None and column.also else (column.key,)
        keys |= dict.fromkeys((*keys_of_cell, *(column.interval or ()), *column.also))
    return tuple(keys)


def lines_of(text: str) -> int:
    """Lines that a text takes on a terminal, wrapped at words."""
    return sum(prose(line).count("\n") + 1 for line in text.split("\n")) if text else 0


def room(requested: Flags, below: str = "") -> int | None:
    """Lines of an answer between the command as it was typed and the next prompt; None where all is asked for."""
    if requested.is_full:
        return None
    typed = len(" ".join((_TYPED, *sys.argv[1:]))) if is_terminal() else 0
    return _height() - max(-(-typed // terminal_width()), 1) - 1 - lines_of(below)


def screen_text(screen: Screen, requested: Flags, width: int | None = None) -> str:
    """Case, answer, table, rule, other rows, lines, footer; fewer rows, then fewer lines, where the screen ends."""
    columns = terminal_width() if width is None else width
    most = _most_rows(screen, requested)
    lines = _lines(screen, requested, most, columns)
    is_open = screen.is_long or (screen.is_list and not is_terminal())
    left = None if is_open else room(requested, screen.below)
    if left is None:
        return "\n".join(lines)
    over = _taken(lines) - left
    shown = min(most, len(screen.rows) + len(screen.others))
    while over > 0 and not screen.is_whole and shown > _FEWEST_ROWS:  # a footer that says so may take a line more
        shown = max(shown - over, _FEWEST_ROWS)
        lines = _lines(screen, requested, shown, columns)
        over = _taken(lines) - left
    for count in reversed(range(len(screen.lines) if over > 0 else 0)):
        if count and screen.lines[count - 1].startswith(_RULE):
            continue  # a rule with nothing below it
        shorter = replace(screen, lines=screen.lines[:count], cut=len(screen.lines) - count)
        lines = _lines(shorter, requested, most if screen.is_whole else _FEWEST_ROWS, columns)
        if _taken(lines) <= left:
            break
    return "\n".join(lines)


def _taken(lines: Iterable[str]) -> int:
    return sum(line.count("\n") + 1 for line in lines)


def in_seconds(columns: Iterable[ScreenColumn], rows: Sequence[Row]) -> list[ScreenColumn]:
    """Columns; those of milliseconds are in seconds where half of the times are above ten."""
    return [_in_seconds(column) if _is_long(column, rows) else column for column in columns]


def _is_long(column: ScreenColumn, rows: Sequence[Row]) -> bool:
    if column.cell is not None or not (column.key.endswith("_ms") or "ms" in column.heading.split()):
        return False
    highest = column.interval[-1] if column.interval else column.key
    times = [float(row[highest]) for row in rows if isinstance(row.get(highest), float)]
    return 2 * len([time for time in times if time > MOST_MS]) > len(times)


def _in_seconds(column: ScreenColumn) -> ScreenColumn:
    words = column.heading.split()
    heading = " ".join("s" if word == "ms" else word for word in words) if "ms" in words else f"{column.heading} s"
    return replace(column, heading=heading, factor=MILLI)


def _lines(screen: Screen, requested: Flags, most: int, width: int) -> list[str]:
    first, others = _selected_rows(screen, most)
    rows = (*first, *others)
    columns = _fitting_columns(in_seconds([c for c in screen.columns if has_values(c, rows)], rows), rows, width)
    lines = [styled(_wrapped_at_dots(encodable(printable(screen.case)), width), bold=True)] if screen.case else []
    if screen.answer:
        answers = printable(encodable(shell_words(screen.answer)), lines=True).split("\n")
        lines.append(styled("\n".join(prose(answer, width) for answer in answers), fg="cyan"))
    lines += [pressing_line(text, width) for text in pressing_first(screen.notes)[0]]
    lines += encodable(screen.picture).split("\n") if screen.picture else []
    if first or others:
        lines += _table(columns, first, others, encodable(screen.rule), width)
    below = (*screen.lines, *old_prices(columns, rows))
    lines += [prose(printable(encodable(shell_words(line))), width, "  ") for line in below]
    hidden = screen.hidden + len(screen.rows) + len(screen.others) - len(first) - len(others)
    notes = 0 if requested.with_notes else len(dict.fromkeys(pressing_first(screen.notes)[1]))
    footer = _footer(_more(hidden, screen.cut), notes, rows, columns, width, screen.legend)
    return [*lines, *([styled(footer, dim=True)] if footer else [])]


def old_prices(columns: Iterable[ScreenColumn], rows: Iterable[Row]) -> list[str]:
    """A line on rents of the catalog that are old, where a table shows what GPUs cost."""
    if not any(column.key.startswith("usd_") for column in columns):
        return []
    priced = [row for row in rows if row.get("price_source")]
    old = dict.fromkeys(str(row.get("gpu")) for row in priced if (price_age(row["price_source"]) or 0) > OLD)
    return [f"rents over {OLD} days old: {', '.join(old)} (roofline gpus --prices)"] if old else []


def encodable(text: str) -> str:
    """Text with plain dots, bars and corners where the encoding of stdout lacks those of prose and pictures."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.replace(_DOT, _PLAIN_DOT).translate(_PLAIN_LINES)
    return text


def pressing_first(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Warnings that belong on the first screen, and the other notes, each once."""
    unique = dict.fromkeys(texts)
    if not unique:
        return [], []
    from roofline.questions.inputs.case import is_pressing

    return [text for text in unique if is_pressing(text)], [text for text in unique if not is_pressing(text)]


def pressing_line(text: str, width: int | None = None) -> str:
    return styled(prose(f"warning: {printable(encodable(shell_words(text)))}", width, "  "), fg="yellow")


def notes_footer(count: int) -> str:
    return f"{counted(count, 'note')}: --notes"


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _most_rows(screen: Screen, requested: Flags) -> int:
    """Ten rows, or for a list as many as fit the terminal."""
    if requested.is_full or screen.is_whole or (screen.is_list and not is_terminal()):
        return len(screen.rows) + len(screen.others)
    return max(_height() - _AROUND_A_LIST, MOST_ROWS) if screen.is_list else MOST_ROWS


def _selected_rows(screen: Screen, most: int) -> tuple[Sequence[Row], Sequence[Row]]:
    """Rows to print, above and below the rule."""
    if len(screen.rows) + len(screen.others) <= most:
        return screen.rows, screen.others
    if screen.is_curve:
        last = len(screen.rows) - 1
        places = [round(place * last / (most - 1)) for place in range(most)]
        for row in screen.needed:  # in place of the nearest, but for the ends
            place = next(place for place, other in enumerate(screen.rows) if other is row)
            if place not in places:
                near = min(range(1, most - 1), key=lambda number: abs(places[number] - place))
                places[near] = place
        return [screen.rows[place] for place in places], ()
    under = min(len(screen.others), max(min(_OTHERS, most // 2), most - len(screen.rows)))
    needed = {id(row) for row in screen.needed}
    ranked = sorted(screen.rows, key=lambda row: id(row) not in needed)[: max(most - under, len(needed))]
    left = {id(row) for row in ranked}
    return [row for row in screen.rows if id(row) in left], screen.others[:under]


def _wrapped_at_dots(text: str, width: int) -> str:
    """A line of parts separated by dots, wrapped at the dots."""
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
    """Columns and lines as of `shutil.get_terminal_size`, whose import takes a tenth of the time of an answer."""
    variables = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    try:
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except (AttributeError, ValueError, OSError):
        size = os.terminal_size(_USUAL)
    columns, lines = (
        int(text) if text.isdigit() and int(text) else detected for text, detected in zip(variables, size, strict=True)
    )
    return columns or _USUAL[0], lines or _USUAL[1]


def _height() -> int:
    return max(_terminal()[1], _USUAL[1])


def has_values(column: ScreenColumn, rows: Sequence[Row]) -> bool:
    """Whether any cell of a column has a value."""
    return any(_cell(column, row) not in ("-", "", ("-", "")) for row in rows)


def joined_cell(column: ScreenColumn, row: Row) -> str:
    """Text of a cell, the interval after the value."""
    cell = _cell(column, row)
    return cell if isinstance(cell, str) else " ".join(part for part in cell if part)


def _cell(column: ScreenColumn, row: Row) -> Cell:
    if column.cell is not None:
        return printable(shell_words(column.cell(row)))
    value, *ends = (_converted(row.get(key), column.factor) for key in (column.key, *(column.interval or ())))
    text = printable(shell_words(cell_text(value)))
    if not ends:
        return text
    low, high = ends
    return (text, "") if low is None or high is None else (text, f"({cell_text(low)}-{cell_text(high)})")


def _converted(value: Any, factor: float) -> Any:
    return value * factor if factor != 1.0 and isinstance(value, float) else value


def _fitting_columns(columns: list[ScreenColumn], rows: Sequence[Row], width: int) -> list[ScreenColumn]:
    """Columns that fit the width, lowest ranks first."""
    widths = [len(_padded(column, rows)[0]) + len(_GAP) for column in columns]
    is_shown = [column.rank == 0 for column in columns]
    for place in sorted(range(len(columns)), key=lambda place: columns[place].rank):
        if not is_shown[place] and sum(compress(widths, is_shown)) + widths[place] - len(_GAP) <= width:
            is_shown[place] = True
    return list(compress(columns, is_shown))


def _padded(column: ScreenColumn, rows: Sequence[Row]) -> list[str]:
    """Heading and cells padded to one width: numbers aligned right, texts and intervals left."""
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
    digits = re.sub(GROUPING, "", text).replace(".", "", 1).replace("e-", "").replace("e+", "")
    digits = digits.removesuffix("%").removesuffix("x")
    return text == "-" or digits.strip().removeprefix("-").removeprefix("+").isdigit()


def _table(
    columns: Sequence[ScreenColumn], first: Sequence[Row], others: Sequence[Row], rule: str, width: int
) -> Iterator[str]:
    cells = [_padded(column, (*first, *others)) for column in columns]
    over = sum(len(column[0]) for column in cells) + len(_GAP) * (len(cells) - 1) - width
    if over > 0:
        cells = _shortened(cells, over)
    heading, *lines = (_GAP.join(parts).rstrip() for parts in zip(*cells, strict=True))
    yield styled(heading, bold=True)
    for place, line in enumerate(lines):
        if place == len(first) and rule:
            yield styled(_rule_line(rule, min(width, max(map(len, (heading, *lines))))), dim=True)
        yield _coloured(line)


def _shortened(cells: list[list[str]], over: int) -> list[list[str]]:
    """Columns with the widest one cut by `over` characters."""
    widest = max(range(len(cells)), key=lambda place: len(cells[place][0]))
    width = max(len(cells[widest][0]) - over, _LEAST_TEXT)
    cut = [text if len(text.rstrip()) <= width else f"{text[: width - len(_MORE)]}{_MORE}" for text in cells[widest]]
    return [*cells[:widest], [text[:width].ljust(width) for text in cut], *cells[widest + 1 :]]


def _rule_line(text: str, width: int) -> str:
    return f"{_RULE}{text} ".ljust(width, "-")[:width]


def _coloured(line: str) -> str:
    """A line with verdicts in colour."""
    parts = line.split(" ")
    colours = {"pass": "green", "pass?": "yellow", "fail": "red"}
    return " ".join(styled(part, fg=colours[part]) if part in colours else part for part in parts)


def _more(rows: int, lines: int) -> str:
    """How many rows and lines are left out."""
    if not rows:
        return counted(lines, "more line") if lines else ""
    return f"{rows} more" + (f", {counted(lines, 'line')}" if lines else "")


def _footer(
    more: str, notes: int, rows: Sequence[Row], columns: Sequence[ScreenColumn], width: int, legend: str
) -> str:
    parts = [f"{more}: --all"] if more else []
    parts += [notes_footer(notes)] if notes else []
    if any(column.key == "basis" and not column.heading for column in columns):
        used = {mark_of(row) for row in rows}
        known = (*MARKS.values(), _ANNOUNCED_MARK)
        marks = "  ".join(f"{mark} {meaning}" for mark, meaning in known if mark in used)
        parts += [marks] if marks else []
    parts += [legend] if legend else []
    return _wrapped_at_dots(encodable(_DOT.join(parts)), width)
