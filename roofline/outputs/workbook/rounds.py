"""Loops of a calculation as rows of a sheet: a row holds the numbers of a loop before a turn, and the turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from roofline.numbers.operations import same, where
from roofline.outputs.workbook.cells import Cell, CellPool, computed, named
from roofline.outputs.workbook.writer import Sheet, address
from roofline.support.records import NamedTuple
from roofline.symbolic.graph import INPUT, Node, nodes_of

_State = tuple[Any, ...]

#: Turns that a sheet holds of a loop; a dozen are usual. Of one with fewer numbers, such as a percentile or a sum over
#: states, it holds more.
MOST_TURNS = 64
_MOST_OF_FEWER = {4: 512, 12: 128}  # by their number at most
_FIRST = 1  # column of the condition whether a turn follows; the numbers come after it


class Block(NamedTuple):
    """The rows of a loop: its heading, a row for each turn, and one with the numbers after the last."""

    title: str
    head: int  # row of the heading
    turns: int
    bound: tuple[Cell, ...]  # stand for the condition and the numbers before a turn
    start: _State  # these before the first turn
    after: _State  # and after a turn

    def row(self, turn: int) -> int:
        return self.head + 1 + turn

    @property
    def end(self) -> int:
        """Row of the next heading."""
        return self.row(self.turns) + 2

    def own(self, cells: Sequence[Cell]) -> list[Cell]:
        """Those that differ from row to row."""
        bits = sum(cell.reach for cell in self.bound)
        return [cell for cell in cells if cell.reach & bits]


class Rounds:
    """Loops of the cells of a pool, below each other on one sheet."""

    def __init__(self, sheet: str) -> None:
        self.sheet = sheet
        self.title = ""  # of the loops that follow
        self.blocks: list[Block] = []
        self.unsettled: list[Any] = []  # conditions: loops that need more turns than their rows
        self.searches: list[Any] = []  # conditions: searches around loops, for which a sheet has no rows
        self.lacking: list[Any] = []  # conditions: percentiles whose search needs more turns than its rows
        self._found: dict[Any, Any] = {}

    @property
    def lack(self) -> str:
        """What is wrong where a loop is not over at its last row."""
        return f"takes more rounds than the sheet {self.sheet} has rows for"

    def repeated(
        self, pool: CellPool, turn: Callable[[_State], tuple[_State, Any]], start: _State, most: int, begins: Any
    ) -> _State:
        """The numbers after the last turn that has a row; `unsettled` says where another would follow."""
        if most == 1:  # a branch
            self.searches.append(begins)
            return start
        rows = next((rows for count, rows in _MOST_OF_FEWER.items() if len(start) <= count), MOST_TURNS)
        turns = min(most, rows)
        head = self.blocks[-1].end if self.blocks else 0
        columns = range(_FIRST, _FIRST + 1 + len(start))
        bound = tuple(
            pool.variable(address(None, column), _plain(number))
            for column, number in zip(columns, (begins, *start), strict=True)
        )
        numbers, goes_on = turn(bound[1:])
        for cell in (begins, *start, goes_on, *numbers):
            named(self.title, cell)
        block = Block(self.title, head, turns, bound, (begins, *start), (goes_on, *numbers))
        self.blocks.append(block)
        is_open, *last = (
            pool.input(address(block.row(turns), column, self.sheet), number)
            for column, number in zip(columns, _evaluate(block), strict=True)
        )
        if turns < most:
            self.unsettled.append(is_open & begins if isinstance(begins, Cell) else is_open)
        return tuple(last)

    def searched(self, compute: Callable[..., Any], values: Sequence[Any]) -> Any:
        """The number that a search finds, once for the same numbers; NaN where it takes more turns than its rows."""
        key = tuple(_keys(values))
        if key not in self._found:
            before, self.unsettled = self.unsettled, []
            title, self.title = self.title, "percentile"
            found = compute(*values)
            self.title = title
            for is_open in self.unsettled:
                found = where(is_open, float("nan"), found)
            self.lacking += self.unsettled
            self._found[key], self.unsettled = found, before
        return self._found[key]

    @property
    def rows(self) -> list[Cell]:
        """What stands for the numbers of a row."""
        return [cell for block in self.blocks for cell in block.bound]

    @property
    def roots(self) -> Iterator[Any]:
        """All formulas of the rows."""
        for block in self.blocks:
            yield from block.start
            yield from block.after


def _keys(numbers: Any) -> Iterator[Any]:
    """What tells nested numbers from others."""
    for number in numbers:
        if isinstance(number, (tuple, list)):
            yield from _keys(number)
        else:
            yield number.key if isinstance(number, Node) else number


def _evaluate(block: Block) -> list[Any]:
    """Give the cells of a block their values, row by row; returns the numbers after the last, one for each case."""
    bits = sum(cell.reach for cell in block.bound)
    turning = [node for node in nodes_of(block.after, bits) if node.operation != INPUT]
    known: dict[int, Any] = {}
    steps = [(node.place, node.operation, [_slot(arg, bits, known) for arg in node.args]) for node in turning]
    state = [_plain(number) for number in block.start]
    is_single = not any(isinstance(value, np.ndarray) for value in (*state, *known.values()))
    cells = (*block.bound, *turning) if is_single else ()  # what is written is a single case
    seen: dict[int, list[Any]] = {node.place: [] for node in cells}
    for _ in range(block.turns + 1):
        last = state
        known.update((cell.place, number) for cell, number in zip(block.bound, state, strict=True))
        for place, operation, args in steps:
            known[place] = computed(operation, [known[slot] for slot in args])
        for place, values in seen.items():
            values.append(known[place])
        state = [
            known[number.place] if isinstance(number, Node) and number.reach & bits else _plain(number)
            for number in block.after
        ]
        if all(map(same, last, state)):  # so are all rows that follow
            break
    for node in cells:
        values = seen[node.place]
        node.value = np.array(values + values[-1:] * (block.turns + 1 - len(values)))
    return last


def _slot(arg: Any, bits: int, known: dict[int, Any]) -> int:
    """Where the value of an argument is kept: by its place, or, of a plain number, by its identity."""
    if isinstance(arg, Node):
        if not arg.reach & bits:
            known[arg.place] = _plain(arg)
        return arg.place
    known[-1 - id(arg)] = arg
    return -1 - id(arg)


def _plain(number: Any) -> Any:
    return number.value if isinstance(number, Cell) else number


def write_rounds(
    sheet: Sheet, rounds: Rounds, staged: Sequence[Cell], places: Mapping[int, str], steps: Mapping[int, str]
) -> None:
    """Write the rows of all loops; `staged` are cells of a row with an address, see `placed`."""
    for block in rounds.blocks:
        _write_block(sheet, block, block.own(staged), places, steps)
    sheet.widen(0, 0, 8)
    sheet.widen(_FIRST, _FIRST + max((len(block.bound) for block in rounds.blocks), default=0), 12)


def _write_block(
    sheet: Sheet, block: Block, own: Sequence[Cell], places: Mapping[int, str], steps: Mapping[int, str]
) -> None:
    count = len(block.bound)
    numbers = (f"number {place}" for place in range(1, count))
    sheet.texts(block.head, (block.title, "goes on", *numbers, *(steps[id(cell)] for cell in own)))
    for turn in range(block.turns + 1):
        sheet.value(block.row(turn), 0, turn)
    for column, (number, following) in enumerate(zip(block.start, block.after, strict=True), _FIRST):
        sheet.cell(block.row(0), column, number, places, "small")
        values = np.broadcast_to(np.asarray(block.bound[column - _FIRST].value), (block.turns + 1,))
        sheet.column(block.row(1), column, following, values[1:].tolist(), places, back=1)
    for column, cell in enumerate(own, _FIRST + count):
        sheet.column(block.row(0), column, cell, cell.value[:-1].tolist(), places)


def placed(rounds: Rounds, staged: Sequence[Cell]) -> dict[int, str]:
    """Addresses of cells in their own row, by id."""
    found: dict[int, str] = {}
    for block in rounds.blocks:
        first = _FIRST + len(block.bound)
        found |= {id(cell): address(None, first + place) for place, cell in enumerate(block.own(staged))}
    return found
