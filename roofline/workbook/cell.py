"""Numbers that are spreadsheet cells: nodes of a graph, with a value for each case.

The formulas of physics and serving run on them unchanged. Equal computations are one node, which a sheet can hold once.
Texts and look-ups, which only spreadsheets have, are further operations of the graph.
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

#: Stands for infinity, which spreadsheets lack.
INFINITE = 2.0**1000

_MARK = "\1"

_SCOPE: ContextVar[str] = ContextVar("scope", default="")


class Column(NamedTuple):
    """A named range of a table."""

    name: str
    values: np.ndarray[Any, Any]


class CellPool(Graph):
    """Cells of a sheet, each with a value for each case."""

    conditions = CONDITIONS | {"is listed", "is number"}

    def input(self, name: str, value: Any = None) -> Cell:
        """A cell that a user fills in, or that another sheet looks up."""
        cell: Cell = super().input(name, value)  # type: ignore[assignment]  # of its kind
        return cell

    def node(self, operation: str, *args: Any) -> Cell:
        """The cell of an operation; infinities and columns become what a sheet can hold."""
        cell: Cell = super().node(operation, *map(self._plain, args))  # type: ignore[assignment]  # of its kind
        return cell

    def _plain(self, arg: Any) -> Any:
        if isinstance(arg, Column):
            return self.input(*arg)
        return INFINITE if isinstance(arg, float) and arg == float("inf") else arg

    def value_of(self, operation: str, args: tuple[Any, ...]) -> Any:
        """Values of an operation, case by case."""
        with np.errstate(all="ignore"):
            return _VALUES[operation](*(arg.value if isinstance(arg, Node) else arg for arg in args))

    def repeated(self, turn: Callable[..., Any], start: tuple[Any, ...], most: int, begins: Any = True) -> Any:
        """A loop, unrolled: a sheet cannot end one early, and a turn keeps what has settled."""
        del begins
        for _ in range(most):
            start, _ = turn(start)
        return start

    def text_formula(self, text: str) -> Any:
        """A formula for a text that mentions cells; see `Cell.__format__`."""
        parts = re.split(f"{_MARK}(\\d+){_MARK}", text)
        pieces = [self.nodes[int(part)] if place % 2 else part for place, part in enumerate(parts)]
        pieces = [piece for piece in pieces if isinstance(piece, Node) or piece]
        return text if len(parts) == 1 else reduce(lambda left, right: self.node("&", left, right), pieces)

    def _new_node(self, operation: str, args: tuple[Any, ...], value: Any, reach: int) -> Node:
        node = super()._new_node(operation, args, value, reach)
        node.home = _SCOPE.get()
        return node

    @property
    def kind(self) -> type[Node]:
        return Cell


class Cell(Node):
    """The formula of a cell, with its values.

    `home` names the step of the answer that it belongs to; empty: the step of the first cell that uses it.
    """

    __slots__ = ()

    graph: CellPool

    def __format__(self, spec: str) -> str:
        """A mark in a text that `CellPool.text_formula` replaces by the cell."""
        return f"{_MARK}{self.place}{_MARK}"


@contextmanager
def scope(home: str) -> Iterator[None]:
    """A step of the answer, to which cells made inside belong; also a decorator."""
    before = _SCOPE.set(home)
    try:
        yield
    finally:
        _SCOPE.reset(before)


def named(home: str, cell: Any) -> Any:
    """A number as the result of a step of the answer, with the cells it is made of."""
    if isinstance(cell, Cell) and not cell.home:
        cell.home = home
    return cell


def unmarked(text: str) -> str:
    """A text from a format string with an n in place of each cell."""
    return "n".join(text.split(_MARK)[::2])


def _chosen(condition: Any, left: Any, right: Any) -> Any:
    kinds = {np.asarray(side).dtype.kind for side in (left, right)}
    if kinds <= {"f", "i", "b"}:
        return np.where(condition, left, right)
    return np.where(condition, np.asarray(left, dtype=object), np.asarray(right, dtype=object))


def _joined(left: Any, right: Any) -> Any:
    return np.char.add(_texts(left), _texts(right)).astype(object)


def _texts(values: Any) -> Any:
    """Values as texts, as a sheet writes them."""
    shown = [f"{value:.15g}" if isinstance(value, float) else str(value) for value in np.atleast_1d(values).tolist()]
    return np.array(shown, dtype=str)


def _is_typed(values: Any) -> Any:
    """Which values are numbers; a blank among numbers is NaN."""
    flat = np.atleast_1d(values).tolist()
    return np.array([isinstance(value, (float, int)) and value == value for value in flat])  # noqa: PLR0124


def _same(left: Any, right: Any) -> Any:
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype.kind == "f" and right.dtype.kind in "UO":  # blank = "", and no number equals a text
        return np.isnan(left) & (right == "")
    return left == right


def _rows(texts: Any, keys: Any) -> Any:
    """Row of each text, from 1, the first of several; 0 for none. Like sheets, it ignores case."""
    rows: dict[str, int] = {}
    for row, key in enumerate(keys.tolist(), 1):
        rows.setdefault(str(key).lower(), row)
    return np.array([rows.get(str(text).lower(), 0) for text in np.atleast_1d(texts).tolist()])


_VALUES: dict[str, Callable[..., Any]] = {
    **{operation: getattr(np, name) for operation, name in FUNCTIONS.items()},
    "**": lambda a, b: np.power(np.asarray(a, dtype=float), b),
    "where": _chosen,
    "==": _same,
    "!=": lambda a, b: np.logical_not(_same(a, b)),
    "&": _joined,
    "is number": _is_typed,
    "round": np.round,
    "is listed": lambda texts, keys: _rows(texts, keys) > 0,
    "row": lambda texts, keys: np.maximum(_rows(texts, keys), 1),
    "at row": lambda column, row: column[row.astype(int) - 1],
    "at row and column": lambda columns, row, place: columns[row.astype(int) - 1, place.astype(int) - 1],
}
