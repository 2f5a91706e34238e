"""Options that commands share, types of their values, and the formats of an answer."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.main import completions
from roofline.cli.progress import end_progress
from roofline.cli.screen import (
    Screen,
    cell_text,
    encodable,
    flags,
    has_values,
    in_seconds,
    joined_cell,
    notes_footer,
    old_prices,
    pressing_first,
    pressing_line,
    prose,
    room,
    screen_text,
    set_flag,
    shell_words,
    styled,
    terminal_width,
)
from roofline.numbers.quantity import count_from_text, counted, rounded, to_text
from roofline.outputs.files import (
    SUFFIXES,
    InColumns,
    csv_parts,
    csv_text,
    is_stream,
    json_parts,
    json_text,
    write_blocks,
    write_rows,
)
from roofline.questions import catalog
from roofline.questions.inputs import arguments
from roofline.support.errors import BadInput, RooflineError, printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from roofline.plot import Picture
    from roofline.questions.inputs.options import Value

FOR_PEOPLE, FOR_PROGRAMS = ("table", "markdown"), ("csv", "json")
OUTPUT_FORMATS = (*FOR_PEOPLE, *FOR_PROGRAMS)

#: Where reasons are that a screen leaves out.
EVERY_REASON = ": --format json has every reason"

Command = Callable[..., Any]


# Options that commands share beside those of a case.


def specs_option(function: Command) -> Command:
    return click.option(
        "--specs",
        type=PathName(),
        help="Folder of your own GPU and model files.  [default: $ROOFLINE_SPECS]",
    )(function)


def workbook_options(function: Command) -> Command:
    """Decorator: the file of a workbook, and the blank rows in it."""
    for option in (
        click.option("--force", is_flag=True, help="Overwrite the file."),
        click.option("--spare", type=int, default=20, show_default=True, help="Blank rows below the scenarios."),
        click.option("-o", "--output", type=PathName(), help="The same as OUTPUT: the file to write."),
        click.argument("output", type=PathName()),
    ):
        function = option(function)
    return function


def share_option(function: Command) -> Command:
    return click.option(
        "--share",
        type=SHARE_OF_REQUESTS,
        help="Share of requests that must meet all limits without a percentile.  [default: these limit means]",
    )(function)


def output_options(function: Command, formats: tuple[str, ...] = OUTPUT_FORMATS) -> Command:
    """Add ``--format``, ``--output``, ``--force``, ``--all`` and ``--notes``."""
    for name, flag, text in (
        ("force", "--force", "Overwrite the file."),
        ("with_notes", "--notes", "Print the notes: assumptions, and what was not checked."),
        ("is_full", "--all", "Print every row and line, not just a first screen."),
    ):
        function = click.option(
            flag, name, is_flag=True, expose_value=False, callback=partial(set_flag, name=name), help=text
        )(function)
    function = click.option(
        "-o",
        "--output",
        "output",
        type=PathName(),
        expose_value=False,
        callback=partial(set_flag, name="output"),
        help=f"Write the rows to a file instead: {', '.join(SUFFIXES)}; - prints.",
    )(function)
    return format_option(function, formats)


def format_option(function: Command, formats: tuple[str, ...]) -> Command:
    return click.option(
        "-f",
        "--format",
        "output_format",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="For people, documents or programs; csv and json have every row and key.",
    )(function)


def format_of_file(file: str, formats: Mapping[str, str], output_format: str, usual: str) -> str:
    """The format that the suffix of a file names, of a pipe the one asked for; another one than `usual` must agree."""
    from pathlib import Path

    suffix = Path(file).suffix.lower()
    if suffix not in formats and not is_stream(file):
        raise BadInput(f"{file}: no known format; end the name in {', '.join(formats)}")
    named = formats.get(suffix, output_format)
    if output_format not in (named, usual):
        raise BadInput(f"-o {file} is {suffix}, but --format {output_format} is asked for; leave out one of them")
    return named


def for_people(output_format: str) -> bool:
    """Whether an answer is read on a screen or in a document, not by a program or from a file."""
    return output_format in FOR_PEOPLE and flags().output is None


def is_picture_asked() -> bool:
    """Whether the file of ``--output`` is not a file of rows."""
    file = flags().output
    return file is not None and not file.lower().endswith(SUFFIXES) and not is_stream(file)


def picture_file() -> str | None:
    """The file of ``--output`` where it names a picture, which then takes no rows."""
    file = flags().output
    if not is_picture_asked():
        return None
    set_flag(click.get_current_context(), None, "-", name="output")
    return file


TERMINAL = "terminal"
_PICTURES = (".svg", ".png", ".pdf", ".jpg", ".jpeg", ".webp", ".eps")


def _picture_named(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """The value of ``--plot``, which may not be the result file that follows it."""
    if value is None or value.lower() == TERMINAL:
        return value and TERMINAL
    if not value.lower().endswith(_PICTURES):
        raise BadInput(f"{value}: not a picture; end the name in .svg, .png or .pdf, or write --plot {TERMINAL}")
    return value


def plot_option(function: Command) -> Command:
    """Add ``--plot``, which has one meaning in every command that draws."""
    return click.option(
        "--plot",
        is_flag=False,
        flag_value=TERMINAL,
        type=PathName(dir_okay=False, allow_dash=True),
        metavar="FILE|terminal",
        callback=_picture_named,
        help="Draw to FILE (.svg, .png, .pdf; x.dark.svg is dark) or, alone, in the terminal; needs the extra plot.",
    )(function)


def save_plot(plot: str | None, picture: Callable[[], Picture], *, is_of_rows: bool = False) -> None:
    """Save the picture where ``--plot FILE`` or ``-o FILE`` asks for one.

    `is_of_rows`: ``-o`` names a file of rows unless its suffix is that of a picture.
    """
    output = flags().output
    file = None if is_of_rows and not str(output).lower().endswith(_PICTURES) else picture_file()
    for path in dict.fromkeys(path for path in (file, plot) if path not in (None, TERMINAL)):
        picture().save(str(path), force=flags().force)
        echo(f"wrote {path}", err=True)


def plotted(
    plot: str | None, picture: Callable[[], Picture], *, is_of_rows: bool = False, texts: Sequence[str] = ()
) -> bool:
    """Save the picture, or draw it in the terminal in place of the table; whether it did.

    A line below says how many charts had no room, and how many notes there are of `texts`.
    """
    save_plot(plot, picture, is_of_rows=is_of_rows)
    if plot != TERMINAL:
        return False
    drawn, lines, width = picture(), room(flags()), terminal_width() - 1
    if lines is None:
        echo(drawn.text(width, HIGH))
        notes(texts)
        return True
    text, shown = drawn.first_text(width, lines - 1)
    echo(text)
    whole = len(drawn.panels)
    notes(texts, *([f"{shown} of {whole} charts: --all or --plot FILE draws all"] if shown < whole else []))
    return True


HIGH = 20  # rows of a chart that need not share a screen


# Types of option values: counts, times, lengths, limits, names.

#: Where a context holds the texts that were typed, by the name of their option.
TEXTS = "roofline.texts"


class PathName(click.Path):
    """A path; texts that cannot be one, such as with a zero byte, are usage errors."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except ValueError:
            self.fail(f"{value!r} is not a path", param, ctx)


class Parsed(click.ParamType):
    """A text that a parser of the API reads, completed from names; `name` is its placeholder in help."""

    def __init__(self, name: str, read: Callable[[str], Any] = str, names: Callable[[], Iterable[str]] = tuple) -> None:
        self.name = name
        self._read = read
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if ctx is not None and param is not None:
            ctx.meta.setdefault(TEXTS, {}).setdefault(param.name, []).append(value)
        try:
            return self._read(value)
        except RooflineError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        return completions(self._names, incomplete)


def suggested(name: str, names: Callable[[], Iterable[str]]) -> Parsed:
    """A text completed from names; others are accepted too."""
    return Parsed(name, names=names)


def _parameters(text: str) -> float:
    number = text.strip().upper()
    try:
        return count_from_text(int(number) if number.isdecimal() else number)
    except (BadInput, ValueError):
        raise BadInput(f"{text!r} is not a number of parameters such as 7B, 350M or 1.5T") from None


def _share_of_requests(text: str) -> float | None:
    from roofline.questions.goodput import check_share

    return check_share(text)


def read(value: Value) -> Parsed:
    """How a command reads values of a kind in an option of its own."""
    return Parsed(value.name, value.in_shell or value.read or str)


GPU = Parsed("gpu", names=catalog.gpus)  # h100, 8xh100, b200:tp4
MODEL = Parsed("model", names=catalog.models)
API_PRICE = Parsed("key:USD", arguments.api_price_of_text)  # in:0.5,out:1.5,cached:0.05
SHARE_OF_REQUESTS = Parsed("share", _share_of_requests)  # 99%
PARAMETERS = Parsed("count", _parameters)  # 7B


def split_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names separated by commas, one each; paths stay whole.

    >>> split_names(("h100,b200", "l40s"))
    ('h100', 'b200', 'l40s')
    """
    return tuple(arguments.listed_names("names", list(names))) if names else ()


# Rows as text: tables for people, Markdown for documents, CSV and JSON for programs.

_OF_SUFFIX = {suffix: suffix[1:] for suffix in SUFFIXES}
_MARKDOWN = r"[\\|]|<(?=[a-zA-Z/!?])"  # ends a cell, or starts a tag
_PREFIXED = ("s", "B/s", "FLOP/s", "exp/s")
_DIGITS = 6
_MOST_REASONS = 4  # on a screen
NOT_ANSWERED = "not answered"  # in place of a number
_NAME = "NAME"  # stands for the name in notes that several rows share


def _put(text: str, **options: Any) -> None:
    end_progress()
    click.echo(text, **options)


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text with unprintable characters except line ends escaped; without `nl` it is a document of data."""
    _put(printable(shell_words(text) if nl else text, lines=True), err=err, nl=nl)


def reasons_text(failures: Iterable[RooflineError], more: str = "") -> str:
    """Errors of several GPUs, each message once and a line; of many the first, and how many `more` there are."""
    messages = list(dict.fromkeys(map(str, failures)))
    if len(messages) <= _MOST_REASONS:
        return "\n".join(messages)
    return "\n".join([*messages[: _MOST_REASONS - 1], f"and {len(messages) - _MOST_REASONS + 1} more{more}"])


def one_line(text: str) -> str:
    return printable(shell_words(" ".join(line.strip() for line in text.strip().split("\n"))))


def show(
    screen: Screen,
    output_format: str,
    rows: Sequence[Mapping[str, Any]] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Print the first screen for people, all rows for documents and programs; `extra` adds keys to the JSON."""
    everything = [*screen.rows, *screen.others]
    if output_format in FOR_PROGRAMS or flags().output is not None:
        print_rows(everything if rows is None else rows, output_format, {}, extra)
        return
    if output_format == "markdown":
        columns = in_seconds([column for column in screen.columns if has_values(column, everything)], everything)
        cells = [[joined_cell(column, row) for column in columns] for row in everything]
        print_table([column.heading for column in columns], cells, output_format)
        for line in (*screen.lines, *old_prices(screen.columns, everything)):
            echo(line)
        _print_notes(screen.notes)
        return
    asked_flags = flags()
    _put(screen_text(screen, asked_flags), color=None)
    if asked_flags.with_notes:
        _print_notes(pressing_first(screen.notes)[1])


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    output_format: str,
    columns: Mapping[str, str],
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Print rows with all keys for programs, or write them to a file; with `columns` (key -> heading) for people."""
    file = flags().output
    if file is not None:
        name = format_of_file(file, _OF_SUFFIX, output_format, OUTPUT_FORMATS[0])
        write_rows(rows, file, force=flags().force, piped=".json" if name == "json" else ".csv")
        echo(f"wrote {counted(len(rows), 'row')} to {file}", err=True)
    elif output_format == "json":
        echo(json_text(rows, extra), nl=False)
    elif output_format == "csv":
        echo(csv_text(rows), nl=False)
    else:
        shown = [[cell_text(row[key]) for key in columns] for row in rows]
        print_table(list(columns.values()), shown, output_format)


def print_blocks(blocks: Iterable[InColumns], output_format: str) -> None:
    """Print blocks of rows with all keys for programs, or write them to a file, one after the other."""
    file = flags().output
    if file is not None:
        name = format_of_file(file, _OF_SUFFIX, output_format, OUTPUT_FORMATS[0])
        rows = write_blocks(blocks, file, force=flags().force, piped=".json" if name == "json" else ".csv")
        echo(f"wrote {counted(rows, 'row')} to {file}", err=True)
        return
    for text in json_parts(blocks) if output_format == "json" else csv_parts(blocks):
        _put(text, nl=False)


def print_table(headings: Sequence[str], cells: Sequence[Sequence[str]], output_format: str = "table") -> None:
    """Print a table, numbers aligned right."""
    cells = [[printable(cell) for cell in row] for row in cells]
    right = [_is_numeric(row[column] for row in cells) for column in range(len(headings))]
    if output_format == "markdown":
        from tabulate import tabulate

        alignment = ["right" if numeric else "left" for numeric in right]
        cells = [[re.sub(_MARKDOWN, r"\\\g<0>", cell) for cell in row] for row in cells]
        echo(tabulate(cells, headers=headings, tablefmt="github", colalign=alignment, disable_numparse=True))
        return
    # Not tabulate, whose import takes a fifth of the time of an answer.
    table = [headings, *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    for row in table:
        padded = (
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        )
        line = "  ".join(padded).rstrip()
        _put(styled(line, bold=True) if row is headings else line)


def notes(texts: Iterable[str], *more: str) -> None:
    """Print notes to stderr, each once; without ``--notes`` only their number, behind what `more` there is."""
    pressing, unique = pressing_first(map(one_line, texts))
    for text in pressing:
        _put(pressing_line(text))
    with_notes = flags().with_notes
    footer = [*more, *([notes_footer(len(unique))] if unique and not with_notes else [])]
    if footer:
        _put(styled(encodable(" \u00b7 ".join(footer)), dim=True))
    if with_notes:
        _print_notes(unique)


def _print_notes(texts: Iterable[str]) -> None:
    for text in dict.fromkeys(map(one_line, texts)):
        line = f"note: {text}"
        echo(prose(line, indent="  ") if sys.stderr is not None and sys.stderr.isatty() else line, err=True)


def labelled(warnings: Iterable[tuple[str, Iterable[str]]], *, named: bool = True) -> list[str]:
    """Notes of several rows, each once, with the rows concerned unless all are.

    With `named`, notes that differ only in the name of their row are merged.

    >>> labelled([("a", ["all", "a: old (show a)"]), ("b", ["all", "b: old (show b)"]), ("c", ["all"])])
    ['all', 'a, b: old (show NAME)']
    """
    owners: dict[str, dict[str, str]] = {}
    labels: dict[str, None] = {}
    for label, texts in warnings:
        labels[label] = None
        for text in texts:
            alike = text
            if named and label in text:
                whole_name = rf"(?<![\w-]){re.escape(label)}(?![\w-])"
                alike = re.sub(whole_name, _NAME, text.removeprefix(f"{label}: "))
            owners.setdefault(alike, {})[label] = text
    notes = []
    if len(labels) > 1:  # what differs from row to row with the figures is noise here
        from roofline.questions.inputs.load import BENCHMARK

        owners = {alike: texts for alike, texts in owners.items() if not alike.startswith(BENCHMARK)}
    for alike, texts_by_label in owners.items():
        if len(texts_by_label) == 1:
            ((label, text),) = texts_by_label.items()
            notes.append(text if text.startswith(f"{label}: ") or len(labels) == 1 else f"{label}: {text}")
        else:
            is_of_all = len(texts_by_label) == len(labels) and len(set(texts_by_label.values())) == 1
            notes.append(alike if is_of_all else f"{', '.join(texts_by_label)}: {alike}")
    return notes


def with_unit(value: float, unit: str, digits: int = 3) -> str:
    """A quantity with its prefixed unit, or a bare number for units without prefixes.

    >>> with_unit(3.35e12, "B/s"), with_unit(1684.6, "tokens")
    ('3.35 TB/s', '1684.6')
    """
    return to_text(value, unit, digits) if unit in _PREFIXED else rounded(value, _DIGITS)


def _is_numeric(cells: Iterable[str]) -> bool:
    return all(
        cell in ("-", NOT_ANSWERED) or cell.replace(".", "", 1).replace("e-", "").replace("e+", "").isdigit()
        for cell in cells
    )
