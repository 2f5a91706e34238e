"""Rows to text: tables for people, Markdown for documents, CSV and JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from roofline.api.outputs import SCHEMA_VERSION, csv_text, json_text
from roofline.cli.screen import (
    Screen,
    cell_text,
    encodable,
    flags,
    joined_cell,
    notes_footer,
    says,
    screen_text,
    styled,
)
from roofline.errors import DoesNotFit, Overloaded, UnsupportedPrecision, printable
from roofline.quantity import rounded, to_text

__all__ = [
    "REASONS",
    "SCHEMA_VERSION",
    "digits",
    "echo",
    "labelled",
    "notes",
    "one_line",
    "print_rows",
    "print_table",
    "show",
    "with_unit",
]

#: Why a GPU cannot run a case, in a word or two; `refused` for what is not listed.
REASONS = {DoesNotFit: "does not fit", Overloaded: "overloaded", UnsupportedPrecision: "unsupported"}

_MARKDOWN = r"[\\|]|<(?=[a-zA-Z/!?])"  # what ends a cell, or begins a tag
_PREFIXED = ("s", "B/s", "FLOP/s", "exp/s")
_DIGITS = 6
_NAME = "NAME"  # of a row, in a note that several rows share


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


def show(
    screen: Screen,
    output_format: str,
    rows: Sequence[Mapping[str, Any]] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Print an answer: its first screen for people, every row and note for documents and programs.

    Args:
        screen: what people see.
        output_format: table, markdown, csv or json [text].
        rows: flat rows for programs; None for those of the screen.
        extra: further top-level keys of the JSON.
    """
    everything = [*screen.rows, *screen.others]
    if output_format in ("csv", "json"):
        print_rows(everything if rows is None else rows, output_format, {}, extra)
        return
    if output_format == "markdown":
        columns = [column for column in screen.columns if says(column, everything)]
        cells = [[joined_cell(column, row) for column in columns] for row in everything]
        print_table([column.heading for column in columns], cells, output_format)
        for line in screen.lines:
            echo(line)
        _print_notes(screen.notes)
        return
    asked = flags()
    click.echo(screen_text(screen, asked), color=None)
    if asked.with_notes:
        _print_notes(screen.notes)


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
        shown = [[cell_text(row[key]) for key in columns] for row in rows]
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
        cells = [[re.sub(_MARKDOWN, r"\\\g<0>", cell) for cell in row] for row in cells]
        echo(tabulate(cells, headers=headings, tablefmt="github", colalign=alignment, disable_numparse=True))
        return
    # Plain columns without tabulate: its import reads package metadata, a fifth of the time of an answer.
    table = [headings, *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    for row in table:
        padded = (
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        )
        line = "  ".join(padded).rstrip()
        click.echo(styled(line, bold=True) if row is headings else line)


def notes(texts: Iterable[str]) -> None:
    """Print notes to stderr, each once; where a first screen was asked for, how many there are.

    Args:
        texts: what the reader should know [text].
    """
    several = list(dict.fromkeys(map(one_line, texts)))
    if several and not flags().with_notes:
        click.echo(styled(encodable(notes_footer(len(several))), dim=True))
        return
    _print_notes(several)


def _print_notes(texts: Iterable[str]) -> None:
    for text in dict.fromkeys(map(one_line, texts)):
        echo(f"note: {text}", err=True)


def labelled(warnings: Iterable[tuple[str, Iterable[str]]], *, named: bool = True) -> list[str]:
    """Notes of several rows, each once: those of all rows as they are, others with the rows that they belong to.

    Notes of rows that are `named` alike but for the name are one.

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
                own = rf"(?<![\w-]){re.escape(label)}(?![\w-])"
                alike = re.sub(own, _NAME, text.removeprefix(f"{label}: "))
            owners.setdefault(alike, {})[label] = text
    notes = []
    for alike, found in owners.items():
        if len(found) == 1:
            ((label, text),) = found.items()
            notes.append(text if text.startswith(f"{label}: ") or len(labels) == 1 else f"{label}: {text}")
        else:
            is_of_all = len(found) == len(labels) and len(set(found.values())) == 1
            notes.append(alike if is_of_all else f"{', '.join(found)}: {alike}")
    return notes


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
    return cell_text(value)


def _is_numeric(cells: Iterable[str]) -> bool:
    return all(cell == "-" or cell.replace(".", "", 1).replace("e-", "").replace("e+", "").isdigit() for cell in cells)
