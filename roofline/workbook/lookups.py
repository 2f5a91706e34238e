"""What formulas of a sheet look up: rows of tables by a text, and what stands in them."""

from __future__ import annotations

from roofline.workbook.cell import Cell, Column

__all__ = ["found", "is_number", "joined", "match", "picked", "rounded_to"]


def match(wanted: Cell, keys: Column) -> Cell:
    """Row of a table in which a text stands; the first one where it stands in none.

    Args:
        wanted: the text.
        keys: of the table.

    Returns:
        The row, from 1 on.
    """
    return wanted.graph.node("row", wanted, keys)


def found(wanted: Cell, keys: Column) -> Cell:
    """Whether a text stands in a table.

    Args:
        wanted: the text.
        keys: of the table.

    Returns:
        The condition.
    """
    return wanted.graph.node("found", wanted, keys)


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
        return row.graph.node("at row", column, row)
    return row.graph.node("at row and column", column, row, place)


def joined(first: Cell, *others: Cell | str) -> Cell:
    """Texts one after the other.

    Args:
        first: the first text.
        others: further cells and texts [text].

    Returns:
        The text.
    """
    for other in others:
        first = first.graph.node("&", first, other)
    return first


def is_number(cell: Cell) -> Cell:
    """Whether a number was typed into a cell.

    Args:
        cell: the cell.

    Returns:
        The condition.
    """
    return cell.graph.node("is number", cell)


def rounded_to(cell: Cell, digits: int) -> Cell:
    """A number, rounded.

    Args:
        cell: the number.
        digits: after the point [1].

    Returns:
        The rounded number.
    """
    return cell.graph.node("round", cell, digits)
