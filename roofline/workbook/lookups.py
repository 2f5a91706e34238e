"""What formulas of a sheet look up: rows of tables by a text, and what stands in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.workbook.cell import Cell, Column, node

__all__ = ["found", "is_number", "joined", "match", "picked", "rounded_to"]


def match(wanted: Cell, keys: Column) -> Cell:
    """Row of a table in which a text stands; the first one where it stands in none.

    Args:
        wanted: the text.
        keys: of the table.

    Returns:
        The row, from 1 on.
    """
    rows = _rows(keys)
    return wanted.pool.cell(
        "row", (wanted, keys), lambda: np.array([rows.get(str(text).lower(), 1) for text in _flat(wanted)])
    )


def found(wanted: Cell, keys: Column) -> Cell:
    """Whether a text stands in a table.

    Args:
        wanted: the text.
        keys: of the table.

    Returns:
        The condition.
    """
    rows = _rows(keys)
    return wanted.pool.cell(
        "found", (wanted, keys), lambda: np.array([str(text).lower() in rows for text in _flat(wanted)])
    )


def picked(column: Column, row: Cell, place: Cell | None = None) -> Cell:
    """What stands in a row of a column, or of several columns side by side.

    Args:
        column: the column, or columns.
        row: from 1 on.
        place: which of the columns, from 1 on; None for a single one.

    Returns:
        The cell.
    """
    if place is None:
        return row.pool.cell("INDEX", (column, row), lambda: column.values[row.value.astype(int) - 1])
    return row.pool.cell(
        "INDEX", (column, row, place), lambda: column.values[row.value.astype(int) - 1, place.value.astype(int) - 1]
    )


def joined(first: Cell, *others: Cell | str) -> Cell:
    """Texts one after the other.

    Args:
        first: the first text.
        others: further cells and texts [text].

    Returns:
        The text.
    """
    for other in others:
        first = node("&", first, other)
    return first


def is_number(cell: Cell) -> Cell:
    """Whether a number was typed into a cell.

    Args:
        cell: the cell.

    Returns:
        The condition.
    """
    typed: Cell = node("ISNUMBER", cell)
    return typed


def rounded_to(cell: Cell, digits: int) -> Cell:
    """A number, rounded.

    Args:
        cell: the number.
        digits: after the point [1].

    Returns:
        The rounded number.
    """
    rounded: Cell = node("ROUND", cell, digits)
    return rounded


def _flat(cell: Cell) -> list[Any]:
    return list(np.atleast_1d(cell.value).tolist())


def _rows(keys: Column) -> dict[str, int]:
    """Rows by key, the first where there are several; spreadsheets do not tell capitals."""
    rows: dict[str, int] = {}
    for row, key in enumerate(keys.values.tolist(), 1):
        rows.setdefault(str(key).lower(), row)
    return rows
