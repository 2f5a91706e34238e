"""Cells as the text of spreadsheet formulas, and which of them get a place of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roofline.errors import BadInput, printable
from roofline.workbook.cell import Cell, Column

__all__ = ["LONGEST", "dependent", "homes", "shared", "spreadsheet_formula", "text_literal"]

#: Characters of a formula that Excel takes.
LONGEST = 8192

_COMPARISON, _CONCATENATION, _SUM, _PRODUCT, _ATOM = range(5)
_LEVELS = {
    "=": _COMPARISON,
    "<>": _COMPARISON,
    "<": _COMPARISON,
    "<=": _COMPARISON,
    ">": _COMPARISON,
    ">=": _COMPARISON,
    "&": _CONCATENATION,
    "+": _SUM,
    "-": _SUM,
    "neg": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
}
_FLAT = ("MAX", "MIN", "AND", "OR")  # MAX(MAX(a, b), c) is MAX(a, b, c)
_UNDERFLOW = 700  # e to the minus of it is the smallest number, nearly
_PLACE = 7  # characters of an address
_WHOLE = 2.0**50  # below it whole numbers are written without a point
_DEEP = 30  # operations inside each other, likewise: Excel takes 64 functions, LibreOffice and others fewer
_LONG = 1500  # characters after which a formula goes on in another cell
_WORTH = 100  # characters that a cell of its own must save
_LONG_SUM = 8  # terms
_ADDRESS = re.compile(r"((?:\w+!)?\$[A-Z]+)\$(\d+)")


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
    text = _text(cell, places)[0] if isinstance(cell, Cell) else _literal(cell)
    if len(text) >= LONGEST:
        raise BadInput(f"a formula of {len(text)} characters exceeds the spreadsheet limit; choose fewer models")
    return text


def dependent(roots: Iterable[Any], inputs: Sequence[Cell]) -> set[int]:
    """Cells that depend on some inputs, by id.

    Args:
        roots: cells that are looked through.
        inputs: the inputs.

    Returns:
        Their ids [1].
    """
    found = {id(cell) for cell in inputs}
    for cell in _all(roots):
        if any(id(arg) in found for arg in cell.args):
            found.add(id(cell))
    return found


def shared(
    roots: Iterable[Any], placed: Iterable[Any] = (), shown: Iterable[Any] = (), rows: Sequence[Cell] = ()
) -> list[Cell]:
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
    roots = list(roots)
    cells, varying = _all(roots), dependent(roots, rows)
    addressed = {id(cell) for cell in placed}
    kept = {id(cell) for cell in shown}
    uses: dict[int, int] = {}
    repeated: set[int] = set()
    for cell in cells:
        for arg in cell.args:
            if isinstance(arg, Cell):
                uses[id(arg)] = uses.get(id(arg), 0) + 1
                if id(cell) in varying and id(arg) not in varying:
                    repeated.add(id(arg))
    lengths: dict[int, int] = {}
    depths: dict[int, int] = {}
    chosen: list[Cell] = []
    for cell in cells:
        depths[id(cell)] = 1 + max((depths[id(arg)] for arg in cell.args if isinstance(arg, Cell)), default=0)
        own = sum(lengths[id(arg)] if isinstance(arg, Cell) else len(_literal(arg)) for arg in cell.args)
        length = lengths[id(cell)] = own + len(cell.operation) + len(cell.args) + 1
        if cell.operation == "input" or id(cell) in addressed:
            lengths[id(cell)], depths[id(cell)] = _PLACE, 0
            continue
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
    cells = _all(roots)
    found = {id(cell): cell.home for cell in cells}
    for cell in reversed(cells):  # the oldest one that is made of it comes last
        home = found[id(cell)]
        for arg in cell.args:
            if isinstance(arg, Cell) and not arg.home and home:
                found[id(arg)] = home
    return found


def _all(roots: Iterable[Any]) -> list[Cell]:
    """Cells that others are made of, oldest first."""
    cells: dict[int, Cell] = {}
    open_ = [cell for cell in roots if isinstance(cell, Cell)]
    while open_:
        cell = open_.pop()
        if id(cell) not in cells:
            cells[id(cell)] = cell
            open_ += [arg for arg in cell.args if isinstance(arg, Cell)]
    return sorted(cells.values(), key=lambda cell: cell.serial)


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


def _text(cell: Cell, places: Mapping[int, str]) -> tuple[str, int]:
    """Text of a cell's own formula, and how tightly its outermost operation binds."""
    operation, args = cell.operation, cell.args
    if operation == "input":
        return args[0], _ATOM
    if operation == "row":
        return f"IFERROR(MATCH({_argument(args[0], places)},{args[1].name},0),1)", _ATOM
    if operation == "found":
        return f"ISNUMBER(MATCH({_argument(args[0], places)},{args[1].name},0))", _ATOM
    if operation == "neg":
        return f"0-{_operand(args[0], places, _PRODUCT)}", _SUM
    if operation == "POWER" and isinstance(args[1], Cell) and args[1].operation != "neg":
        base, order = (_argument(arg, places) for arg in args)  # LibreOffice has no result where it would be next to 0
        return f"IF(({order})*LN({base})<-{_UNDERFLOW},0,POWER({base},{order}))", _ATOM
    level = _LEVELS.get(operation)
    if operation == "+":
        function = _summed(cell, places)
        if function is not None:
            return function, _ATOM
    if level is not None:
        return f"{_operand(args[0], places, level)}{operation}{_operand(args[1], places, level + 1)}", level
    inner = _flattened(cell, places, operation) if operation in _FLAT else args
    return f"{operation}({','.join(_argument(arg, places) for arg in inner)})", _ATOM


def _flattened(cell: Cell, places: Mapping[int, str], operation: str) -> Sequence[Any]:
    """Arguments of a nest of the same operation, in order."""
    found: list[Any] = []
    open_: list[Any] = [*reversed(cell.args)]
    while open_:
        arg = open_.pop()
        if isinstance(arg, Cell) and arg.operation == operation and id(arg) not in places:
            open_ += reversed(arg.args)
        else:
            found.append(arg)
    return found


def _summed(cell: Cell, places: Mapping[int, str]) -> str | None:
    """A long sum as a function, over a range where its terms stand side by side."""
    terms, inner = [], cell
    while True:
        terms.append(inner.args[1])
        first = inner.args[0]
        if not isinstance(first, Cell) or first.operation != "+" or id(first) in places:
            break
        inner = first
    terms.append(first)
    if len(terms) < _LONG_SUM:
        return None
    texts = [_argument(term, places) for term in reversed(terms)]
    return f"SUM({','.join(_ranges(texts))})"


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


def _argument(arg: Any, places: Mapping[int, str]) -> str:
    """An argument of a function, or a whole formula."""
    if not isinstance(arg, Cell):
        return _literal(arg)
    place = places.get(id(arg))
    return _text(arg, places)[0] if place is None else place


def _operand(arg: Any, places: Mapping[int, str], least: int) -> str:
    """An operand, in brackets where it binds less tightly than what is around it."""
    if not isinstance(arg, Cell):
        text = _literal(arg)
        return f"({text})" if text.startswith("-") else text
    place = places.get(id(arg))
    if place is not None:
        return place
    text, level = _text(arg, places)
    return text if level >= least else f"({text})"


def _literal(value: Any) -> str:
    if isinstance(value, Column):
        return value.name
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return text_literal(value)
    number = float(value)
    if number != number:  # noqa: PLR0124
        return "NA()"
    return str(int(number)) if number.is_integer() and abs(number) < _WHOLE else repr(number).upper()
