"""Rows as text: tables for people, Markdown for documents, CSV and JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from roofline.api.outputs import SCHEMA_VERSION, csv_text, json_text
from roofline.cli.options import FOR_PROGRAMS
from roofline.cli.screen import (
    Screen,
    cell_text,
    encodable,
    flags,
    has_values,
    joined_cell,
    notes_footer,
    pressing_first,
    pressing_line,
    screen_text,
    styled,
)
from roofline.errors import DoesNotFit, Overloaded, UnsupportedPrecision, printable
from roofline.quantity import rounded, to_text

__all__ = [
    "REASONS",
    "SCHEMA_VERSION",
    "echo",
    "labelled",
    "notes",
    "one_line",
    "print_rows",
    "print_table",
    "show",
    "with_unit",
]

#: Error -> why a GPU cannot run a case; `refused` for others.
REASONS = {DoesNotFit: "does not fit", Overloaded: "overloaded", UnsupportedPrecision: "unsupported"}

_MARKDOWN = r"[\\|]|<(?=[a-zA-Z/!?])"  # ends a cell, or starts a tag
_PREFIXED = ("s", "B/s", "FLOP/s", "exp/s")
_DIGITS = 6
_NAME = "NAME"  # stands for the name in notes that several rows share


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text with unprintable characters except line ends escaped."""
    click.echo(printable(text, lines=True), err=err, nl=nl)


def one_line(text: str) -> str:
    return printable(" ".join(line.strip() for line in text.strip().split("\n")))


def show(
    screen: Screen,
    output_format: str,
    rows: Sequence[Mapping[str, Any]] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Print the first screen for people, all rows for documents and programs; `extra` adds keys to the JSON."""
    everything = [*screen.rows, *screen.others]
    if output_format in FOR_PROGRAMS:
        print_rows(everything if rows is None else rows, output_format, {}, extra)
        return
    if output_format == "markdown":
        columns = [column for column in screen.columns if has_values(column, everything)]
        cells = [[joined_cell(column, row) for column in columns] for row in everything]
        print_table([column.heading for column in columns], cells, output_format)
        for line in screen.lines:
            echo(line)
        _print_notes(screen.notes)
        return
    asked_flags = flags()
    click.echo(screen_text(screen, asked_flags), color=None)
    if asked_flags.with_notes:
        _print_notes(pressing_first(screen.notes)[1])


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    output_format: str,
    columns: Mapping[str, str],
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Print rows with all keys for programs, with `columns` (key -> heading) for people."""
    if output_format == "json":
        echo(json_text(rows, extra), nl=False)
    elif output_format == "csv":
        echo(csv_text(rows), nl=False)
    else:
        shown = [[cell_text(row[key]) for key in columns] for row in rows]
        print_table(list(columns.values()), shown, output_format)


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
        click.echo(styled(line, bold=True) if row is headings else line)


def notes(texts: Iterable[str]) -> None:
    """Print notes to stderr, each once; without ``--notes`` only their number."""
    pressing, unique = pressing_first(map(one_line, texts))
    for text in pressing:
        click.echo(pressing_line(text))
    if unique and not flags().with_notes:
        click.echo(styled(encodable(notes_footer(len(unique))), dim=True))
        return
    _print_notes(unique)


def _print_notes(texts: Iterable[str]) -> None:
    for text in dict.fromkeys(map(one_line, texts)):
        echo(f"note: {text}", err=True)


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
        from roofline.api.inputs.load import BENCHMARK

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
    return all(cell == "-" or cell.replace(".", "", 1).replace("e-", "").replace("e+", "").isdigit() for cell in cells)
