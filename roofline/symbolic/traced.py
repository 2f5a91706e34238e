"""A graph of one case: its nodes have values, choices are settled by them and put on record.

The formulas of the inner rooms run on its nodes unchanged. A maximum keeps the larger side by value and records how
close the other was, so that what remains is smooth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from roofline.ops import Real, plain
from roofline.records import NamedTuple
from roofline.roots import turned
from roofline.symbolic.gradient import FINE, follows, implicit
from roofline.symbolic.graph import INPUT, LINEAR, Graph, Node, nodes_of
from roofline.symbolic.values import OPERATIONS

__all__ = ["Switch", "Trace", "depends", "is_rational"]


class Switch(NamedTuple):
    """A choice that a formula made by value: it changes where both sides are equal."""

    left: Real
    right: Real
    meaning: str  # what happens there, as the formula said it
    section: str  # part of the answer it was made for

    @property
    def is_tie(self) -> bool:
        """Whether both sides are equal to rounding."""
        left, right = plain(self.left), plain(self.right)
        return abs(left - right) <= _ROUNDING * max(abs(left), abs(right))


class Trace(Graph):
    """Nodes of a calculation with their values, and the choices made on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.switches: list[Switch] = []
        self.stepped = 0  # bits of inputs that were rounded up: an answer moves in steps with them

    def bit(self, name: str) -> int:
        """The bit of an input in the `reach` of nodes.

        Args:
            name: of the input [text].

        Returns:
            The bit; 0 where there is no such input.
        """
        known = self._known.get((INPUT, name))
        return 0 if known is None else known.reach

    def node(self, operation: str, *args: Any) -> Any:
        """The node of an operation. A magnitude is settled by value; a share of an infinite rate is infinite, too."""
        if operation == "abs":
            return args[0] if args[0].value >= 0.0 else -args[0]
        found = super().node(operation, *args)
        return math.inf if operation == "*" and found.value == math.inf else found

    def value_of(self, operation: str, args: tuple[Any, ...]) -> Any:
        """Value of an operation on arguments."""
        return OPERATIONS[operation](*[arg.value if isinstance(arg, Node) else arg for arg in args])

    def maximum(self, a: Any, b: Any, meaning: str = "") -> Any:
        """The larger of two numbers, by value."""
        self._chose(a, b, meaning)
        return a if plain(a) >= plain(b) else b

    def minimum(self, a: Any, b: Any, meaning: str = "") -> Any:
        """The smaller of two numbers, by value."""
        self._chose(a, b, meaning)
        return a if plain(a) <= plain(b) else b

    def compared(self, relation: str, a: Any, b: Any, meaning: str = "") -> Any:
        """Whether a condition holds, by value."""
        if relation not in ("==", "!="):
            self._chose(a, b, meaning)
        return OPERATIONS[relation](plain(a), plain(b))

    def ceil(self, a: Any, meaning: str = "") -> Any:
        """A number rounded up."""
        raised = self.node("ceil", a)
        if raised.value <= FINE:
            self._chose(a, raised.value, meaning)
            self._chose(a, raised.value - 1.0, meaning)
        if not follows(raised):
            self.stepped |= raised.reach
        return raised

    def repeated(
        self,
        turn: Callable[[tuple[Any, ...]], tuple[tuple[Any, ...], Any]],
        start: tuple[Any, ...],
        most: int,
        begins: Any = True,
    ) -> tuple[Any, ...]:
        """Numbers that are replaced together, again and again, as often as their values ask for."""
        return turned(turn, start, most, begins)

    def settled(self, round_: Callable[[tuple[Any, ...]], tuple[Any, ...]], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Numbers where a calculation stands still, with slopes."""
        bound = [self.input(f"{_OWN}{len(self.nodes)}", value) for value in values]
        before, self.switches = self.switches, []  # the round was traced already; its choices count once
        slopes = implicit(bound, round_(tuple(bound)))
        self.switches = before
        found = []
        for value, row in zip(values, slopes, strict=True):
            inputs = [self.input(name) for name in row]
            reach = 0
            for node in inputs:
                reach |= node.reach
            found.append(self._made(LINEAR, (*inputs, tuple(row.values())), value, reach))
        return tuple(found)

    def _chose(self, left: Real, right: Real, meaning: str) -> None:
        """Record a choice between two finite numbers."""
        if math.isfinite(plain(left)) and math.isfinite(plain(right)):
            self.switches.append(Switch(left, right, meaning, self._scope))


def depends(number: Real, name: str) -> bool:
    """Whether a number came from an input, whatever its slope.

    Args:
        number: a node, or a plain number [any].
        name: of the input [text].

    Returns:
        Whether it did [bool].
    """
    return bool(_bit_of(number, name))


def is_rational(number: Real, name: str) -> bool:
    """Whether a number came from an input by addition, multiplication and division alone.

    Args:
        number: a node, or a plain number [any].
        name: of the input [text].

    Returns:
        False where a power, a root or rounding lies between [bool].
    """
    bit = _bit_of(number, name)
    return not bit or all(node.operation in _RATIONAL for node in nodes_of([number], bit))


def _bit_of(number: Real, name: str) -> int:
    """The bit of an input in the reach of a number; 0 where it did not come from it."""
    return number.reach & number.graph.bit(name) if isinstance(number, Node) and isinstance(number.graph, Trace) else 0


_OWN = "@"  # no input of a case is called so
_ROUNDING = 2.0**-40
_RATIONAL = (INPUT, "+", "-", "*", "/", "neg")
