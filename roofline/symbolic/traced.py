"""A graph of one case: nodes have values, which settle choices.

A maximum keeps the larger side and records both, so that the rest is smooth.
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


class Switch(NamedTuple):
    """A choice that a formula made by value; it changes where both sides are equal."""

    left: Real
    right: Real
    meaning: str  # what happens there, in the formula's words
    section: str  # part of the answer that the choice belongs to

    @property
    def is_tie(self) -> bool:
        """Whether both sides are equal up to rounding."""
        left, right = plain(self.left), plain(self.right)
        return abs(left - right) <= _ROUNDING * max(abs(left), abs(right))


class Trace(Graph):
    """Nodes with values, and the choices made on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.switches: list[Switch] = []
        self.stepped = 0  # bits of inputs that were rounded: the answer moves in steps with them

    def bit(self, name: str) -> int:
        """The bit of an input in the `reach` of nodes; 0 where there is no such input."""
        node = self._known.get((INPUT, name))
        return 0 if node is None else node.reach

    def node(self, operation: str, *args: Any) -> Any:
        """The node of an operation; a share of an infinite rate is a plain infinity."""
        if operation == "abs":
            return args[0] if args[0].value >= 0.0 else -args[0]
        node = super().node(operation, *args)
        return math.inf if operation == "*" and node.value == math.inf else node

    def value_of(self, operation: str, args: tuple[Any, ...]) -> Any:
        return OPERATIONS[operation](*[arg.value if isinstance(arg, Node) else arg for arg in args])

    def maximum(self, a: Any, b: Any, meaning: str = "") -> Any:
        self._record_choice(a, b, meaning)
        return a if plain(a) >= plain(b) else b

    def minimum(self, a: Any, b: Any, meaning: str = "") -> Any:
        self._record_choice(a, b, meaning)
        return a if plain(a) <= plain(b) else b

    def compared(self, relation: str, a: Any, b: Any, meaning: str = "") -> Any:
        if relation not in ("==", "!="):
            self._record_choice(a, b, meaning)
        return OPERATIONS[relation](plain(a), plain(b))

    def ceil(self, a: Any, meaning: str = "") -> Any:
        raised = self.node("ceil", a)
        if raised.value <= FINE:
            self._record_choice(a, raised.value, meaning)
            self._record_choice(a, raised.value - 1.0, meaning)
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
        """The numbers after as many turns as their values require."""
        return turned(turn, start, most, begins)

    def settled(self, round_: Callable[[tuple[Any, ...]], tuple[Any, ...]], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The numbers at a fixed point, with slopes by implicit differentiation."""
        bound = [self.input(f"{_UNNAMED}{len(self.nodes)}", value) for value in values]
        before, self.switches = self.switches, []  # the round was traced before: its choices count once
        slopes = implicit(bound, round_(tuple(bound)))
        self.switches = before
        nodes = []
        for value, row in zip(values, slopes, strict=True):
            inputs = [self.input(name) for name in row]
            nodes.append(self._new_node(LINEAR, (*inputs, tuple(row.values())), value, sum(x.reach for x in inputs)))
        return tuple(nodes)

    def _record_choice(self, left: Real, right: Real, meaning: str) -> None:
        if math.isfinite(plain(left)) and math.isfinite(plain(right)):
            self.switches.append(Switch(left, right, meaning, self._scope))


def depends(number: Real, name: str) -> bool:
    """Whether a number depends on an input, even with a slope of zero."""
    return bool(_bit_of(number, name))


def is_rational(number: Real, name: str) -> bool:
    """Whether a number depends on an input through addition, multiplication and division alone."""
    bit = _bit_of(number, name)
    return not bit or all(node.operation in _RATIONAL for node in nodes_of([number], bit))


def _bit_of(number: Real, name: str) -> int:
    """The bit of an input; 0 where the number does not depend on it."""
    return number.reach & number.graph.bit(name) if isinstance(number, Node) and isinstance(number.graph, Trace) else 0


_UNNAMED = "@"  # no input of a case has this name
_ROUNDING = 2.0**-40
_RATIONAL = (INPUT, "+", "-", "*", "/", "neg")
