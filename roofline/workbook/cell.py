"""Numbers that are spreadsheet cells: a formula, and the values that it has in a column of cases.

The formulas of the inner rings run on them unchanged. What is computed twice is one cell: equal
operations on equal arguments are the same object, so that a sheet can hold it once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from roofline.ops import Operations, Real, always, never, register

__all__ = ["INFINITE", "Cell", "CellPool", "Column", "named", "node", "scope", "unmarked"]

#: Stands for infinity, which a sheet does not know.
INFINITE = 2.0**1000

_MARK = "\1"

_SCOPE: ContextVar[str] = ContextVar("scope", default="")


class Column(NamedTuple):
    """Cells of a table under a name of the workbook."""

    name: str
    values: np.ndarray[Any, Any]


class CellPool:
    """Cells of one sheet: those made from the same are the same."""

    def __init__(self) -> None:
        self._cells: dict[tuple[Any, ...], Cell] = {}
        self._made: list[Cell] = []

    def input(self, address: str, values: Any, sheet: str = "") -> Cell:
        """A cell that is typed in or looked up elsewhere.

        Args:
            address: of the cell, or its name [text].
            values: one for each case.
            sheet: whose rows the address belongs to, where it names none itself [text].

        Returns:
            The cell.
        """
        return self.cell("input", (address, sheet), lambda: np.asarray(values))

    def cell(self, operation: str, args: tuple[Any, ...], value: Callable[[], Any]) -> Cell:
        """The cell of an operation on arguments.

        Args:
            operation: an operator, or a function of spreadsheets [text].
            args: cells, numbers, texts or columns.
            value: computes what it has, where it is new.

        Returns:
            The cell.
        """
        key = (operation, *(id(arg) if isinstance(arg, (Cell, Column)) else (type(arg), arg) for arg in args))
        found = self._cells.get(key)
        if found is None:
            with np.errstate(all="ignore"):
                found = Cell(self, operation, args, value(), len(self._cells), _SCOPE.get())
            self._cells[key] = found
            self._made.append(found)
        return found

    def said(self, text: str) -> Any:
        """A text with cells in it, as a formula that follows them.

        Args:
            text: made with cells in a format string [text].

        Returns:
            The cell; the text itself where no cell is in it.
        """
        parts = re.split(f"{_MARK}(\\d+){_MARK}", text)
        pieces = [self._made[int(part)] if place % 2 else part for place, part in enumerate(parts)]
        pieces = [piece for piece in pieces if isinstance(piece, Cell) or piece]
        return text if len(parts) == 1 else reduce(lambda left, right: node("&", left, right), pieces)


class Cell:
    """Formula of a cell, with its values."""

    __slots__ = ("args", "home", "operation", "pool", "serial", "value")

    def __init__(
        self, pool: CellPool, operation: str, args: tuple[Any, ...], value: Any, serial: int, home: str
    ) -> None:
        self.pool = pool
        self.operation = operation
        self.args = args
        self.value = value
        self.serial = serial  # arguments are older than what is made of them
        self.home = home  # step of the answer that it belongs to; empty: that of what is made of it

    def __repr__(self) -> str:
        return f"Cell({self.operation}, {self.value!r})"

    def __format__(self, spec: str) -> str:
        """A mark in a text, which `CellPool.said` makes a formula of."""
        return f"{_MARK}{self.serial}{_MARK}"

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        """A number of a sheet is there, whatever it is; what a condition says is not known before it is asked."""
        if self.operation in _CONDITIONS:
            raise TypeError(f"a condition of cells has no truth of its own: {self.operation}")
        return True

    def any(self) -> bool:
        """Whether a loop goes on: always, as the sheet may be asked other cases."""
        return True

    def __add__(self, other: Real) -> Real:
        if _is(other, 0.0):
            return self
        return node("+", self, other)

    def __radd__(self, other: Real) -> Real:
        return self if _is(other, 0.0) else node("+", other, self)

    def __sub__(self, other: Real) -> Real:
        if _is(other, 0.0):
            return self
        if isinstance(other, Cell) and other.operation == "neg":
            return node("+", self, other.args[0])
        return node("-", self, other)

    def __rsub__(self, other: Real) -> Real:
        return -self if _is(other, 0.0) else node("-", other, self)

    def __neg__(self) -> Real:
        return self.args[0] if self.operation == "neg" else node("neg", self)

    def __mul__(self, other: Real) -> Real:
        if _is(other, 0.0):
            return 0.0
        return self if _is(other, 1.0) else node("*", self, other)

    def __rmul__(self, other: Real) -> Real:
        if _is(other, 0.0):
            return 0.0
        return self if _is(other, 1.0) else node("*", other, self)

    def __truediv__(self, other: Real) -> Real:
        return self if _is(other, 1.0) else node("/", self, other)

    def __rtruediv__(self, other: Real) -> Real:
        return 0.0 if _is(other, 0.0) else node("/", other, self)

    def __mod__(self, other: Real) -> Real:
        return node("MOD", self, other)

    def __rmod__(self, other: Real) -> Real:
        return node("MOD", other, self)

    def __pow__(self, other: Real) -> Real:
        if _is(other, 1.0):
            return self
        return node("SQRT", self) if _is(other, 0.5) else node("POWER", self, other)

    def __rpow__(self, other: Real) -> Real:
        return node("POWER", other, self)

    def __abs__(self) -> Real:
        return node("ABS", self)

    def __lt__(self, other: Real) -> Any:
        return node("<", self, other)

    def __le__(self, other: Real) -> Any:
        return node("<=", self, other)

    def __gt__(self, other: Real) -> Any:
        return node(">", self, other)

    def __ge__(self, other: Real) -> Any:
        return node(">=", self, other)

    def __eq__(self, other: object) -> Any:
        return node("=", self, other)

    def __ne__(self, other: object) -> Any:
        return node("<>", self, other)

    def __invert__(self) -> Any:
        return node("NOT", self)

    def __and__(self, other: Real) -> Any:
        return self if always(other) else node("AND", self, other)

    __rand__ = __and__

    def __or__(self, other: Real) -> Any:
        return self if never(other) else node("OR", self, other)

    __ror__ = __or__


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


def node(operation: str, *args: Any) -> Any:
    """The cell of an operation.

    Args:
        operation: an operator, or a function of spreadsheets [text].
        args: cells, one at least, and plain numbers or texts [any].

    Returns:
        The cell.
    """
    pool = next(arg.pool for arg in args if isinstance(arg, Cell))
    plain = tuple(INFINITE if isinstance(arg, float) and arg == float("inf") else arg for arg in args)
    return pool.cell(operation, plain, lambda: _VALUES[operation](*map(_value, plain)))


def _value(arg: Any) -> Any:
    return arg.value if isinstance(arg, Cell) else arg


def _is(other: Any, number: float) -> bool:
    return type(other) in (float, int) and other == number


def _where(condition: Any, left: Any, right: Any) -> Any:
    """A choice; conditions that are no cells were settled before."""
    if left is right or (type(left) in (float, int, str, bool) and type(left) is type(right) and left == right):
        return left
    return node("IF", condition, left, right)


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


_CONDITIONS = frozenset({"<", "<=", ">", ">=", "=", "<>", "NOT", "AND", "OR", "ISNUMBER", "found"})

_VALUES: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": np.divide,
    "neg": lambda a: -a,
    "MOD": np.mod,
    "POWER": lambda a, b: np.power(np.asarray(a, dtype=float), b),
    "SQRT": np.sqrt,
    "ABS": np.abs,
    "INT": np.floor,
    "ROUND": np.round,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "IF": _chosen,
    "NOT": np.logical_not,
    "AND": np.logical_and,
    "OR": np.logical_or,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": _same,
    "<>": lambda a, b: np.logical_not(_same(a, b)),
    "&": _joined,
    "ISNUMBER": _is_typed,
}


register(
    Cell,
    Operations(
        maximum=lambda a, b, _: node("MAX", a, b),
        minimum=lambda a, b, _: node("MIN", a, b),
        ceil=lambda a, _: -node("INT", -a),
        where=_where,
    ),
)
