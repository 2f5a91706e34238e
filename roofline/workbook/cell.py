"""Numbers that are spreadsheet cells: nodes of a graph that keeps the values that they have in a column of cases.

The formulas of the inner rings run on them unchanged. What is computed twice is one node, so that a sheet can hold it
once. What spreadsheets alone can do (texts, look-ups) are further operations of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any

import numpy as np

from roofline.records import NamedTuple
from roofline.symbolic.array_program import FUNCTIONS
from roofline.symbolic.graph import CONDITIONS, Graph, Node

__all__ = ["INFINITE", "Cell", "CellPool", "Column", "named", "scope", "unmarked"]

#: Stands for infinity, which a sheet does not know.
INFINITE = 2.0**1000

_MARK = "\1"

_SCOPE: ContextVar[str] = ContextVar("scope", default="")


class Column(NamedTuple):
    """Cells of a table under a name of the workbook."""

    name: str
    values: np.ndarray[Any, Any]


class CellPool(Graph):
    """Cells of a sheet, each with a value for each case."""

    conditions = CONDITIONS | {"found", "is number"}

    def input(self, name: str, value: Any = None) -> Cell:
        """A cell that is typed in or looked up elsewhere.

        Args:
            name: address of the cell, or its name [text].
            value: what it has in each case [any].

        Returns:
            The cell; the same for the same name.
        """
        made: Cell = super().input(name, value)  # type: ignore[assignment]  # of its kind
        return made

    def node(self, operation: str, *args: Any) -> Cell:
        """The cell of an operation, without infinities, with tables as inputs.

        Args:
            operation: an operator or a function [text].
            args: cells, columns of tables, plain numbers and texts [any].

        Returns:
            The cell; the same for the same operation on the same arguments.
        """
        made: Cell = super().node(operation, *map(self._plain, args))  # type: ignore[assignment]  # of its kind
        return made

    def _plain(self, arg: Any) -> Any:
        if isinstance(arg, Column):
            return self.input(*arg)
        return INFINITE if isinstance(arg, float) and arg == float("inf") else arg

    def value_of(self, operation: str, args: tuple[Any, ...]) -> Any:
        """Values of an operation on arguments.

        Args:
            operation: an operator or a function [text].
            args: cells, and plain numbers and texts [any].

        Returns:
            One for each case.
        """
        with np.errstate(all="ignore"):
            return _VALUES[operation](*(arg.value if isinstance(arg, Node) else arg for arg in args))

    def repeated(self, turn: Callable[..., Any], start: tuple[Any, ...], most: int, begins: Any = True) -> Any:
        """Every turn as formulas of its own: a turn keeps what need not change.

        Args:
            turn: from some numbers to those that replace them, and whether there is another turn [function].
            start: the numbers at first [any].
            most: turns [1].
            begins: whether there is a first turn: a sheet may be asked cases that need it [condition].

        Returns:
            The numbers at last.
        """
        del begins
        for _ in range(most):
            start, _ = turn(start)
        return start

    def said(self, text: str) -> Any:
        """A text with cells in it, as a formula that follows them.

        Args:
            text: made with cells in a format string [text].

        Returns:
            The cell; the text itself where no cell is in it.
        """
        parts = re.split(f"{_MARK}(\\d+){_MARK}", text)
        pieces = [self.nodes[int(part)] if place % 2 else part for place, part in enumerate(parts)]
        pieces = [piece for piece in pieces if isinstance(piece, Node) or piece]
        return text if len(parts) == 1 else reduce(lambda left, right: self.node("&", left, right), pieces)

    def _made(self, operation: str, args: tuple[Any, ...], value: Any, reach: int) -> Node:
        made = super()._made(operation, args, value, reach)
        made.home = _SCOPE.get()
        return made

    @property
    def kind(self) -> type[Node]:
        """Class of its nodes."""
        return Cell


class Cell(Node):
    """Formula of a cell, with its values. Its home is the step of the answer; empty: that of what is made of it."""

    __slots__ = ()

    graph: CellPool

    def __format__(self, spec: str) -> str:
        """A mark in a text, which `CellPool.said` makes a formula of."""
        return f"{_MARK}{self.place}{_MARK}"


@contextmanager
def scope(home: str) -> Iterator[None]:
    """A step of the answer: cells that are made within belong to it. A decorator of functions, too.

    Args:
        home: name of the step; empty within what names its cells afterwards (`named`) [text].

    Returns:
        What `with` enters; it hands nothing over.
    """
    before = _SCOPE.set(home)
    try:
        yield
    finally:
        _SCOPE.reset(before)


def named(home: str, cell: Any) -> Any:
    """A number as the result of a step of the answer, to which what it is made of belongs, too.

    Args:
        home: name of the step [text].
        cell: the number; what is no cell, or belongs to a step already, stays as it is [any].

    Returns:
        The number [any].
    """
    if isinstance(cell, Cell) and not cell.home:
        cell.home = home
    return cell


def unmarked(text: str) -> str:
    """A text made with cells in a format string, an n for each of their numbers.

    Args:
        text: the text [text].

    Returns:
        It without marks [text].
    """
    return "n".join(text.split(_MARK)[::2])


def _chosen(condition: Any, left: Any, right: Any) -> Any:
    kinds = {np.asarray(side).dtype.kind for side in (left, right)}
    if kinds <= {"f", "i", "b"}:
        return np.where(condition, left, right)
    return np.where(condition, np.asarray(left, dtype=object), np.asarray(right, dtype=object))


def _joined(left: Any, right: Any) -> Any:
    return np.char.add(_texts(left), _texts(right)).astype(object)


def _texts(values: Any) -> Any:
    """Values as a sheet joins them to a text."""
    shown = [f"{value:.15g}" if isinstance(value, float) else str(value) for value in np.atleast_1d(values).tolist()]
    return np.array(shown, dtype=str)


def _is_typed(values: Any) -> Any:
    """Where a number stands; a blank among numbers is NaN."""
    flat = np.atleast_1d(values).tolist()
    return np.array([isinstance(value, (float, int)) and value == value for value in flat])  # noqa: PLR0124


def _same(left: Any, right: Any) -> Any:
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype.kind == "f" and right.dtype.kind in "UO":  # a blank is the empty text, a number no text
        return np.isnan(left) & (right == "")
    return left == right


def _rows(wanted: Any, keys: Any) -> Any:
    """Row of each text from 1 on, the first where there are several, 0 for none; sheets do not tell capitals."""
    rows: dict[str, int] = {}
    for row, key in enumerate(keys.tolist(), 1):
        rows.setdefault(str(key).lower(), row)
    return np.array([rows.get(str(text).lower(), 0) for text in np.atleast_1d(wanted).tolist()])


_VALUES: dict[str, Callable[..., Any]] = {
    **{operation: getattr(np, name) for operation, name in FUNCTIONS.items()},
    "**": lambda a, b: np.power(np.asarray(a, dtype=float), b),
    "where": _chosen,
    "==": _same,
    "!=": lambda a, b: np.logical_not(_same(a, b)),
    "&": _joined,
    "is number": _is_typed,
    "round": np.round,
    "found": lambda wanted, keys: _rows(wanted, keys) > 0,
    "row": lambda wanted, keys: np.maximum(_rows(wanted, keys), 1),
    "at row": lambda column, row: column[row.astype(int) - 1],
    "at row and column": lambda columns, row, place: columns[row.astype(int) - 1, place.astype(int) - 1],
}
