"""Look-ups and other operations that only cells have."""

from __future__ import annotations

from roofline.workbook.cell import Cell, Column


def match(text: Cell, keys: Column) -> Cell:
    """Row of a text in a table; the first row where it is not listed."""
    return text.graph.node("row", text, keys)


def is_listed(text: Cell, keys: Column) -> Cell:
    return text.graph.node("is listed", text, keys)


def picked(column: Column, row: Cell, place: Cell | None = None) -> Cell:
    """Entry of a row, from one column or, by `place`, from adjacent columns."""
    if place is None:
        return row.graph.node("at row", column, row)
    return row.graph.node("at row and column", column, row, place)


def joined(first: Cell, *others: Cell | str) -> Cell:
    for other in others:
        first = first.graph.node("&", first, other)
    return first


def is_number(cell: Cell) -> Cell:
    """Whether a cell holds a number."""
    return cell.graph.node("is number", cell)


def rounded_to(cell: Cell, digits: int) -> Cell:
    return cell.graph.node("round", cell, digits)
