"""Cells as the text of spreadsheet formulas, and which of them get a place of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from roofline.errors import BadInput, printable
from roofline.symbolic.graph import INPUT, Node, nodes_of
from roofline.symbolic.languages import SPREADSHEET, Form, text_of

__all__ = ["LONGEST", "homes", "shared", "spreadsheet_formula", "text_literal"]

#: Characters of a formula that Excel takes.
LONGEST = 8192

_PLACE = 7  # characters of an address
_DEEP = 30  # operations inside each other, likewise: Excel takes 64 functions, LibreOffice and others fewer
_LONG = 1500  # characters after which a formula goes on in another cell
_WORTH = 100  # characters that a cell of its own must save
_LONG_SUM = 8  # terms
_ADDRESS = re.compile(r"((?:\w+!)?\$[A-Z]+)\$(\d+)")

#: LibreOffice has no result where a power would be next to 0.
_POWER = "IF(({1})*LN({0})<-700,0,POWER({0},{1}))"


def spreadsheet_formula(cell: Any, places: Mapping[int, str]) -> str:
    """Text of a formula, without its equal sign.

    Unary minus binds tighter than powers in spreadsheets and powers to the left, so that neither sign nor caret
    is written: differences from zero and POWER are.

    Args:
        cell: the cell, or a plain number or text.
        places: addresses of cells that have a place, by id; the cell's own is not used.

    Returns:
        The text [text].

    Raises:
        BadInput: it is longer than spreadsheets take.
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
    """Cells that deserve a place, arguments before their use.

    Those used several times whose text is long, and what many rows would compute again and again.

    Args:
        roots: cells that formulas are written for.
        placed: those of them that have an address already.
        shown: those of them that stand somewhere, without an address for others.
        rows: inputs that differ from row to row, where some cells fill many rows.

    Returns:
        The cells, oldest first.
    """
    cells = nodes_of(roots)
    varying = sum(row.reach for row in rows)
    addressed = {id(cell) for cell in placed}
    kept = {id(cell) for cell in shown}
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
        own = sum(lengths[id(arg)] if isinstance(arg, Node) else len(text_of(arg, _FORMULA)) for arg in cell.args)
        length = lengths[id(cell)] = own + len(_FORMULA.form(cell).pattern) - 2 * len(cell.args)
        is_worth = (
            length > _LONG or depths[id(cell)] > _DEEP or (uses.get(id(cell), 0) - 1) * (length - _PLACE) > _WORTH
        )
        if (id(cell) in repeated and length > 2 * _PLACE) or (is_worth and id(cell) not in kept):
            chosen.append(cell)
            lengths[id(cell)], depths[id(cell)] = _PLACE, 0
    return chosen


def homes(roots: Iterable[Any]) -> dict[int, str]:
    """Steps of the answer that cells belong to, by id: their own, or else that of the first cell made of them.

    Args:
        roots: cells that formulas are written for.

    Returns:
        Names of the steps; empty where no cell that is made of it belongs to any [text].
    """
    cells = nodes_of(roots)
    found = {id(cell): cell.home for cell in cells}
    for cell in reversed(cells):  # the oldest one that is made of it comes last
        home = found[id(cell)]
        for arg in cell.args:
            if isinstance(arg, Node) and not arg.home and home:
                found[id(arg)] = home
    return found


def text_literal(text: str) -> str:
    """A text as it stands in a formula.

    Args:
        text: what it says [text].

    Returns:
        It in quotes [text].

    >>> print(text_literal('say "a" now'))
    "say ""a"" now"
    """
    return '"' + printable(text, lines=True).replace('"', '""') + '"'


def _summed(cell: Node, places: Mapping[int, str], elsewhere: Callable[[Node], str | None]) -> str | None:
    """A long sum as a function, over a range where its terms stand side by side."""
    terms: list[Any] = []
    first: Any = cell
    while getattr(first, "operation", "") == "+" and (first is cell or id(first) not in places):
        first, last = first.args
        terms.insert(0, last)
    if len(terms) + 1 < _LONG_SUM:
        return None
    return f"SUM({','.join(_ranges([text_of(term, _FORMULA, elsewhere) for term in (first, *terms)]))})"


def _ranges(addresses: Sequence[str]) -> list[str]:
    """Cells below each other as ranges; those of a row LibreOffice 7.4 may read before they are calculated."""
    found: list[list[str]] = []
    for address in addresses:
        if found and _follows(found[-1][-1], address):
            found[-1].append(address)
        else:
            found.append([address])
    return [run[0] if len(run) == 1 else f"{run[0]}:{run[-1].rpartition('!')[2]}" for run in found]


def _follows(before: str, after: str) -> bool:
    """Whether an address is the lower neighbour of another."""
    left, right = _ADDRESS.fullmatch(before), _ADDRESS.fullmatch(after)
    return left is not None and right is not None and left[1] == right[1] and int(right[2]) - int(left[2]) == 1


_FORMULA = SPREADSHEET._replace(
    forms={
        **SPREADSHEET.forms,
        "row": Form("IFERROR(MATCH({0},{1},0),1)"),
        "found": Form("ISNUMBER(MATCH({0},{1},0))"),
        "at row": Form("INDEX({0},{1})"),
        "at row and column": Form("INDEX({0},{1},{2})"),
        "is number": Form("ISNUMBER({0})"),
        "round": Form("ROUND({0},{1})"),
    },
    quoted=text_literal,
)
