"""Cells as spreadsheet formulas, and the choice of those that get an address of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from roofline.errors import BadInput, printable
from roofline.symbolic.graph import INPUT, Node, nodes_of
from roofline.symbolic.languages import SPREADSHEET, Form, text_of

#: Longest formula that Excel accepts [characters].
LONGEST = 8192

_PLACE = 7  # characters of an address
_DEEP = 30  # nested operations: Excel accepts 64 functions, LibreOffice and others fewer
_LONG = 1500  # characters beyond which a formula is split
_WORTH = 100  # characters that an address must save
_LONG_SUM = 8  # terms
_ADDRESS = re.compile(r"((?:\w+!)?\$[A-Z]+)\$(\d+)")

#: LibreOffice fails where a power underflows.
_POWER = "IF(({1})*LN({0})<-700,0,POWER({0},{1}))"


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
        if node.operation == "**" and getattr(node.args[1], "operation", "neg") != "neg":
            return _POWER.format(*(text_of(arg, _FORMULA, elsewhere) for arg in node.args))
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
        "round": Form("ROUND({0},{1})"),
    },
    quoted=text_literal,
)
