"""Rows to text: tables for people, Markdown for documents, CSV and JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from roofline.api.outputs import SCHEMA_VERSION, csv_text, json_text
from roofline.api.predict import ROW_KEYS
from roofline.errors import DoesNotFit, Overloaded, UnsupportedPrecision, printable
from roofline.quantity import rounded, to_text

__all__ = [
    "REASONS",
    "SCHEMA_VERSION",
    "digits",
    "echo",
    "load_columns",
    "notes",
    "one_line",
    "print_rows",
    "print_table",
    "with_unit",
]

#: Why a GPU cannot run a case, in a word or two; `refused` for what is not listed.
REASONS = {DoesNotFit: "does not fit", Overloaded: "overloaded", UnsupportedPrecision: "unsupported"}

_MARKDOWN = re.compile(r"[\\|]|<(?=[a-zA-Z/!?])")  # what ends a cell, or begins a tag
_PREFIXED = ("s", "B/s", "FLOP/s", "exp/s")
_DIGITS = 6
_MET = "slo_met"


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text; the one way to a terminal: what is not printable is escaped, line ends apart.

    Args:
        text: what to print, of several lines [text].
        err: to stderr [bool].
        nl: end the line [bool].
    """
    click.echo(printable(text, lines=True), err=err, nl=nl)


def one_line(text: str) -> str:
    """Prose of a file as one line.

    Args:
        text: of several lines [text].

    Returns:
        The line [text].
    """
    return printable(" ".join(line.strip() for line in text.strip().split("\n")))


def load_columns(columns: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    """Columns of a table with the load that was asked for: a burst where there is none.

    Args:
        columns: key and heading of what people see [text].
        options: keyword arguments of the API.

    Returns:
        Key and heading; users or requests per second, and how much of the saturation they are, after the plan [text].
    """
    headings = {"concurrency": "users", "request_rate": "req/s"}
    load = next((name for name in headings if options.get(name) is not None), None)
    if load is None:
        kept = {key: "burst" if key == "batch" else heading for key, heading in columns.items()}
        return _with_verdict(kept, options)
    own = {load: headings[load], "util": "util"}
    kept = {}
    for key, heading in columns.items():
        kept |= own if key == "batch" else {key: heading}
        if key == "tp" and "batch" not in columns:
            kept |= own
        metric = key.removesuffix("_ms")
        limited = [limit for limit in options.get("slo") or () if limit.startswith(f"{metric}_p")]
        kept |= {f"{limit}_ms": limit.removeprefix(f"{metric}_") for limit in limited if f"{limit}_ms" in ROW_KEYS}
    return _with_verdict(kept, options)


def _with_verdict(columns: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    """Columns with whether the SLO is met, and which limit is taken up most, before what it costs."""
    if not options.get("slo"):
        return dict(columns)
    kept: dict[str, str] = {}
    for key, heading in columns.items():
        if key == "usd_per_hour":
            kept |= {"slo_met": "SLO", "slo_binding": "binds"}
        kept[key] = heading
    return kept


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    output_format: str,
    columns: Mapping[str, str],
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Print rows: all keys for programs, chosen columns for people.

    Args:
        rows: flat rows that share their keys.
        output_format: table, markdown, csv or json [text].
        columns: key and heading of what people see [text].
        extra: further top-level keys of the JSON.
    """
    if output_format == "json":
        echo(json_text(rows, extra), nl=False)
    elif output_format == "csv":
        echo(csv_text(rows), nl=False)
    else:
        shown = [[_verdict(row[key]) if key == _MET else _cell(row[key]) for key in columns] for row in rows]
        print_table(list(columns.values()), shown, output_format)


def print_table(headings: Sequence[str], cells: Sequence[Sequence[str]], output_format: str = "table") -> None:
    """Print a table of texts, numbers to the right.

    Args:
        headings: of the columns [text].
        cells: rows of texts [text].
        output_format: table or markdown [text].
    """
    cells = [[printable(cell) for cell in row] for row in cells]
    right = [_is_numeric(row[column] for row in cells) for column in range(len(headings))]
    if output_format == "markdown":
        from tabulate import tabulate

        alignment = ["right" if numeric else "left" for numeric in right]
        cells = [[_MARKDOWN.sub(r"\\\g<0>", cell) for cell in row] for row in cells]
        echo(tabulate(cells, headers=headings, tablefmt="github", colalign=alignment, disable_numparse=True))
        return
    # Plain columns without tabulate: its import reads package metadata, a fifth of the time of an answer.
    table = [headings, *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    for row in (headings, ["-" * width for width in widths], *cells):
        padded = (
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        )
        echo("  ".join(padded).rstrip())


def notes(texts: Iterable[str]) -> None:
    """Print notes to stderr, each once.

    Args:
        texts: what the reader should know [text].
    """
    for text in dict.fromkeys(texts):
        echo(f"note: {one_line(text)}", err=True)


def with_unit(value: float, unit: str, digits: int = 3) -> str:
    """A quantity for people: with a decimal prefix where its unit takes one.

    Args:
        value: SI value [any].
        unit: SI unit [text].
        digits: significant digits of values whose unit takes a prefix [1].

    Returns:
        Text [text].

    >>> with_unit(3.35e12, "B/s"), with_unit(1684.6, "tokens")
    ('3.35 TB/s', '1684.6')
    """
    return to_text(value, unit, digits) if unit in _PREFIXED else rounded(value, _DIGITS)


def digits(value: Any) -> str:
    """Value for people: three significant digits, a dash for what does not apply.

    Args:
        value: number, text or None [any].

    Returns:
        Text [text].

    >>> digits(0.04432), digits(2677.8), digits(None)
    ('0.0443', '2678', '-')
    """
    return _cell(value)


def _verdict(is_met: Any) -> str:
    return "-" if is_met is None else "pass" if is_met else "fail"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, (list, tuple)):
        return "; ".join(map(str, value))
    return str(value)


def _is_numeric(cells: Iterable[str]) -> bool:
    return all(cell == "-" or cell.replace(".", "", 1).replace("e-", "").replace("e+", "").isdigit() for cell in cells)
