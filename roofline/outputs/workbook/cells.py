"""Numbers that are spreadsheet cells: nodes of a graph, with a value for each case.

The formulas of physics and serving run on them unchanged. Equal computations are one node, which a sheet can hold
once.
Texts and look-ups, which only spreadsheets have, are further operations of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from math import log
from typing import Any

import numpy as np

from roofline.outputs.workbook.typed import FORMS, READINGS
from roofline.support.errors import BadInput, printable
from roofline.support.records import NamedTuple
from roofline.symbolic.array_programs import FUNCTIONS
from roofline.symbolic.graph import CONDITIONS, INPUT, OPERATIONS, Graph, Node, nodes_of
from roofline.symbolic.programs import SPREADSHEET, Form, text_of

#: Stands for infinity, which spreadsheets lack.
INFINITE = 2.0**1000

_MARK = "\1"
_NUMBERS = frozenset({float, int, bool})

_SCOPE: ContextVar[str] = ContextVar("scope", default="")


class Column(NamedTuple):
    """A named range of a table."""

    name: str
    values: np.ndarray[Any, Any]


class CellPool(Graph):
    """Cells of a sheet, each with a value for each case."""

    conditions = CONDITIONS | {"is listed", "is number", "is error"}
    rows: Any = None  # where loops become rows of a sheet; see `rounds`

    def __init__(self) -> None:
        super().__init__()
        self._figures: dict[Any, Any] = {}

    def input(self, name: str, value: Any = None) -> Cell:
        """A cell that a user fills in, or that another sheet looks up."""
        cell: Cell = super().input(name, value)  # type: ignore[assignment]  # of its kind
        return cell

    def node(self, operation: str, *args: Any) -> Cell:
        """The cell of an operation; infinities, columns, blanks and texts with cells become what a sheet can hold."""
        if operation == "!=" and args[0] is args[1]:  # only what is not a number differs from itself
            operation, args = "is error", args[:1]
        cell: Cell = super().node(operation, *map(self._plain, args))  # type: ignore[assignment]  # of its kind
        return cell

    def _plain(self, arg: Any) -> Any:
        if isinstance(arg, Column):
            return self.input(*arg)
        if isinstance(arg, str) and _MARK in arg:
            return self.text_formula(arg)
        if arg is None:
            return ""
        return INFINITE if isinstance(arg, float) and arg == float("inf") else arg

    def variable(self, name: str, value: Any) -> Cell:
        """A cell whose name others may have: it is in the row of the formula that reads it."""
        cell: Cell = self._new_node(INPUT, (name,), value, self._variable())  # type: ignore[assignment]  # of its kind
        return cell

    def value_of(self, operation: str, args: tuple[Any, ...]) -> Any:
        """Values of an operation, case by case."""
        return computed(operation, [arg.value if isinstance(arg, Node) else arg for arg in args])

    def compared(self, relation: str, a: Any, b: Any, meaning: str = "") -> Any:
        """A comparison; no number of a burst is NaN, which alone differs from itself: a sheet has errors instead."""
        is_known = relation == "!=" and a is b and self.rows is None
        return False if is_known else super().compared(relation, a, b, meaning)

    def repeated(self, turn: Callable[..., Any], start: tuple[Any, ...], most: int, begins: Any = True) -> Any:
        """A loop, in rows or unrolled: a sheet cannot end one early, and a turn keeps what has settled."""
        if self.rows is not None:
            return self.rows.repeated(self, turn, start, most, begins)
        for _ in range(most):
            start, _ = turn(start)
        return start

    def outlined(self, name: str, compute: Callable[..., Any], values: Sequence[Any]) -> Any:
        """`compute(*values)`; a search that needs more turns than its rows has no result."""
        if self.rows is None or name != "percentile":
            return compute(*values)
        return self.rows.searched(compute, values)

    def calls(self, home: Any) -> bool:  # noqa: ARG002
        """Whether figures of a deployment are kept: rows ask for the same ones again and again."""
        return self.rows is not None

    def call_of(self, home: Any, figures: Any, args: Sequence[Any]) -> Any:
        """Figures of a deployment, once for the same numbers."""
        key = id(home), figures, *(arg.key if isinstance(arg, Node) else arg for arg in args)
        if key not in self._figures:
            self._figures[key] = figures.of(home, args), home  # which is kept, as its identity is
        return self._figures[key][0]

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
    stands_for_others = True  # its value is that of the case in the file

    def __format__(self, spec: str) -> str:
        """A mark in a text that `CellPool.text_formula` replaces by the cell."""
        return f"{_MARK}{self.place}{_MARK}"


def computed(operation: str, values: Sequence[Any]) -> Any:
    """The value of an operation on numbers, texts and arrays of them, one for each case; NaN where it has none."""
    if operation in OPERATIONS and _NUMBERS.issuperset(map(type, values)):  # of a single case
        try:
            return OPERATIONS[operation](*values)
        except (ArithmeticError, ValueError):
            return float("nan")
    with np.errstate(all="ignore"):
        found = _VALUES[operation](*values)
    if any(isinstance(values[place], np.ndarray) for place in _OF_CASE.get(operation, range(len(values)))):
        return found
    single = found.reshape(-1)[0] if isinstance(found, np.ndarray) else found
    return single.item() if isinstance(single, np.generic) else single


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


def _places(rows: Any) -> Any:
    """Rows, which count from 1, as places of an array."""
    return np.asarray(rows).astype(int) - 1


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
    **READINGS,
    "is number": _is_typed,
    "is error": np.isnan,
    "round": np.round,
    "is listed": lambda texts, keys: _rows(texts, keys) > 0,
    "row": lambda texts, keys: np.maximum(_rows(texts, keys), 1),
    "at row": lambda column, row: column[_places(row)],
    "at row and column": lambda columns, row, place: columns[_places(row), _places(place)],
}


#: Arguments of a look-up that belong to a case; others are columns of a table.
_OF_CASE = {"is listed": (0,), "known": (0,), "row": (0,), "at row": (1,), "at row and column": (1, 2)}


# Cells as spreadsheet formulas, and the choice of those that get an address of their own.

#: Longest formula that Excel accepts [characters].
LONGEST = 8192

_PLACE = 7  # characters of an address
_DEEP = 30  # nested operations: Excel accepts 64 functions, LibreOffice and others fewer
_LONG = 1500  # characters beyond which a formula is split
_WORTH = 300  # characters that an address must save: it costs a value in every row, a text costs its length once
_LONG_SUM = 8  # terms
_UNDERFLOW = 700.0  # of which e to the minus is still a number
_ADDRESS = re.compile(r"((?:\w+!)?\$[A-Z]+)\$(\d+)")

#: LibreOffice fails where a power underflows; each number is written once, as formulas are nested.
_POWER = "IFERROR(POWER({0},{1}),0)"
_POWER_OF_NUMBER = "POWER({0},MAX({1},{least!r}))"  # of one above 1


def spreadsheet_formula(cell: Any, places: Mapping[int, str]) -> str:
    """Text of a formula, without the equal sign; `places` are addresses by the id of a cell.

    In spreadsheets a unary minus binds tighter than a power, and powers bind to the left, so signs are written as
    differences from zero and powers as POWER.
    """

    def elsewhere(node: Node) -> str | None:
        place = places.get(id(node)) if node is not cell else None
        if place is not None:
            return place
        if node.operation == "+":
            return _summed(node, places, elsewhere)
        if node.operation == "**" and isinstance(node.args[1], Node):
            base, texts = node.args[0], [text_of(arg, _FORMULA, elsewhere) for arg in node.args]
            if isinstance(base, Node) or base <= 1.0:
                return _POWER.format(*texts)
            return _POWER_OF_NUMBER.format(*texts, least=-_UNDERFLOW / log(base))
        return None

    text = text_of(cell, _FORMULA, elsewhere)
    if len(text) >= LONGEST:
        raise BadInput(f"a formula of {len(text)} characters exceeds the spreadsheet limit; choose fewer models")
    return text


def shared(
    roots: Iterable[Any], placed: Iterable[Any] = (), shown: Iterable[Any] = (), rows: Sequence[Node] = ()
) -> list[Any]:
    """Cells to give an address, arguments first: long ones that are used often, and those that every row would repeat.

    `placed` have an address already, `shown` are results, and `rows` are cells with many values.
    """
    cells = nodes_of(roots)
    varying = sum(row.reach for row in rows)
    addressed = {id(cell) for cell in placed}
    results = {id(cell) for cell in shown}
    uses: dict[int, int] = {}
    repeated: set[int] = set()
    for cell in cells:
        for arg in cell.args:
            if isinstance(arg, Node):
                uses[id(arg)] = uses.get(id(arg), 0) + 1
                if cell.reach & varying and not arg.reach & varying:
                    repeated.add(id(arg))
    lengths: dict[int, int] = {}
    depths: dict[int, int] = {}
    chosen: list[Any] = []
    for cell in cells:
        if cell.operation == INPUT or id(cell) in addressed:
            lengths[id(cell)], depths[id(cell)] = _PLACE, 0
            continue
        depths[id(cell)] = 1 + max((depths[id(arg)] for arg in cell.args if isinstance(arg, Node)), default=0)
        inner = sum(lengths[id(arg)] if isinstance(arg, Node) else len(text_of(arg, _FORMULA)) for arg in cell.args)
        length = lengths[id(cell)] = inner + len(_FORMULA.form(cell).pattern) - 2 * len(cell.args)
        is_worth = (
            length > _LONG or depths[id(cell)] > _DEEP or (uses.get(id(cell), 0) - 1) * (length - _PLACE) > _WORTH
        )
        if (id(cell) in repeated and length > 2 * _PLACE) or (is_worth and id(cell) not in results):
            chosen.append(cell)
            lengths[id(cell)], depths[id(cell)] = _PLACE, 0
    return chosen


def homes(roots: Iterable[Any]) -> dict[int, str]:
    """Step of the answer of each cell, by id: its own, or that of the first cell that uses it."""
    cells = nodes_of(roots)
    steps = {id(cell): cell.home for cell in cells}
    for cell in reversed(cells):  # so the first user comes last
        home = steps[id(cell)]
        for arg in cell.args:
            if isinstance(arg, Node) and not arg.home and home:
                steps[id(arg)] = home
    return steps


def text_literal(text: str) -> str:
    """A quoted text for a formula.

    >>> print(text_literal('say "a" now'))
    "say ""a"" now"
    """
    return '"' + printable(text, lines=True).replace('"', '""') + '"'


def _summed(cell: Node, places: Mapping[int, str], elsewhere: Callable[[Node], str | None]) -> str | None:
    """A long sum as SUM, over ranges where its terms are neighbours."""
    terms: list[Any] = []
    first: Any = cell
    while getattr(first, "operation", "") == "+" and (first is cell or id(first) not in places):
        first, last = first.args
        terms.insert(0, last)
    if len(terms) + 1 < _LONG_SUM:
        return None
    return f"SUM({','.join(_ranges([text_of(term, _FORMULA, elsewhere) for term in (first, *terms)]))})"


def _ranges(addresses: Sequence[str]) -> list[str]:
    """Addresses, vertical neighbours as ranges; LibreOffice 7.4 may read ranges of a row before calculating them."""
    runs: list[list[str]] = []
    for address in addresses:
        if runs and _follows(runs[-1][-1], address):
            runs[-1].append(address)
        else:
            runs.append([address])
    return [run[0] if len(run) == 1 else f"{run[0]}:{run[-1].rpartition('!')[2]}" for run in runs]


def _follows(before: str, after: str) -> bool:
    """Whether an address lies just below another."""
    left, right = _ADDRESS.fullmatch(before), _ADDRESS.fullmatch(after)
    return left is not None and right is not None and left[1] == right[1] and int(right[2]) - int(left[2]) == 1


_FORMULA = SPREADSHEET._replace(
    forms={
        **SPREADSHEET.forms,
        "row": Form("IFERROR(MATCH({0},{1},0),1)"),
        "is listed": Form("ISNUMBER(MATCH({0},{1},0))"),
        "at row": Form("INDEX({0},{1})"),
        "at row and column": Form("INDEX({0},{1},{2})"),
        "is number": Form("ISNUMBER({0})"),
        "is error": Form("ISERROR({0})"),
        "round": Form("ROUND({0},{1})"),
        **FORMS,
    },
    quoted=text_literal,
)
