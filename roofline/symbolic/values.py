"""Values of a graph's nodes at values of its inputs: floats or arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from roofline import ops
from roofline.elements import any_of
from roofline.ops import Real, plain
from roofline.symbolic.gradient import follows
from roofline.symbolic.graph import INPUT, LINEAR, LOOP, OF_LOOP, Loop, Node, nodes_of

_Step = tuple[int, Callable[..., Any], Callable[[list[Any]], Sequence[Any]]]


def _power(base: Any, order: Any) -> Any:
    value = base**order
    return math.nan if type(value) is complex else value


OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "neg": operator.neg,
    "**": _power,
    "mod": operator.mod,
    "abs": abs,
    "max": ops.maximum,
    "min": ops.minimum,
    "ceil": ops.ceil,
    "floor": ops.floor,
    "where": ops.where,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
    OF_LOOP: lambda state, place: state[int(place)],
    "not": lambda condition: not condition if type(condition) is bool else ~condition,
}


class Values:
    """Values of some numbers as a function of some inputs; NaN where arithmetic has no result.

    What does not depend on these inputs keeps its value in the graph, and so does a rounded number, like every choice
    that the graph settled.

    >>> from roofline.symbolic.graph import Graph
    >>> graph = Graph()
    >>> a, b = graph.input("a"), graph.input("b")
    >>> Values([a + 1.0, (a * a + b * b) ** 0.5], [a, b])(3.0, 4.0)
    [4.0, 5.0]
    """

    def __init__(self, numbers: Sequence[Real], inputs: Sequence[Node]) -> None:
        nodes = nodes_of(numbers, sum(node.reach for node in inputs))
        self._slots = {node.place: slot for slot, node in enumerate(nodes)}
        self._known: list[Any] = [node.value for node in nodes]
        self._bound = sum(bound.reach for node in nodes if node.operation == LOOP for bound in node.args[-1].bound)
        self._steps = self._steps_of(nodes, 0)
        self._inputs = [self._slot(node) for node in inputs]
        self._numbers = [self._slot(number) for number in numbers]

    def __call__(self, *values: Any) -> list[Any]:
        known = self._known
        for slot, value in zip(self._inputs, values, strict=True):
            known[slot] = value
        self._run(self._steps)
        return [known[slot] for slot in self._numbers]

    def of(self, number: Real) -> Any:
        """Value of a node at the last call."""
        slot = self._slots.get(number.place) if isinstance(number, Node) else None
        return plain(number) if slot is None else self._known[slot]

    def _run(self, steps: Iterable[_Step]) -> None:
        known = self._known
        for slot, apply, pick in steps:
            try:
                known[slot] = apply(*pick(known))
            except (ArithmeticError, ValueError):
                known[slot] = math.nan

    def _steps_of(self, nodes: Iterable[Node], scope: int) -> list[_Step]:
        """Steps of the nodes that can be computed inside the loops whose bits are in `scope`."""
        return [
            (self._slots[node.place], *self._step(node, scope))
            for node in nodes
            if node.operation != INPUT and not (node.reach & self._bound) & ~scope and not _is_frozen(node)
        ]

    def _step(self, node: Node, scope: int) -> tuple[Callable[..., Any], Callable[[list[Any]], Sequence[Any]]]:
        args: Sequence[Any] = node.args
        if node.operation == LOOP:
            *state, begins, loop = args
            args = (begins, *state)
            apply: Callable[..., Any] = self._loop(loop, scope)
        elif node.operation == LINEAR:
            *args, slopes = args
            apply = partial(_along_slopes, node.value, [plain(arg) for arg in args], slopes)
        else:
            apply = OPERATIONS[node.operation]
        slots = [self._slot(arg) for arg in args]
        return apply, operator.itemgetter(*slots) if len(slots) > 1 else partial(_as_tuple, slots[0])

    def _slot(self, number: Real) -> int:
        slot = self._slots.get(number.place) if isinstance(number, Node) else None
        if slot is None:
            slot = len(self._known)
            self._known.append(plain(number))
        return slot

    def _loop(self, loop: Loop, scope: int) -> Callable[..., Sequence[Any]]:
        turn_bits = sum(node.reach for node in loop.bound)
        turning = [node for node in nodes_of([*loop.after, loop.goes_on]) if node.reach & turn_bits]
        steps, known = self._steps_of(turning, scope | turn_bits), self._known
        bound, after = [self._slot(node) for node in loop.bound], [self._slot(number) for number in loop.after]
        goes_on = self._slot(loop.goes_on)

        def repeated(begins: Any, *state: Any) -> Sequence[Any]:
            for _ in range(loop.most if any_of(begins) else 0):
                for slot, value in zip(bound, state, strict=True):
                    known[slot] = value
                self._run(steps)
                state = tuple(known[slot] for slot in after)
                if not any_of(known[goes_on]):
                    break
            return state

        return repeated


def _is_frozen(node: Node) -> bool:
    """Whether a rounded number keeps its value."""
    return node.operation in ("ceil", "floor") and node.value is not None and not follows(node)


def _along_slopes(value: float, origin: Sequence[float], slopes: Sequence[float], *inputs: float) -> float:
    return value + sum(slope * (new - old) for slope, new, old in zip(slopes, inputs, origin, strict=True))


def _as_tuple(slot: int, known: list[Any]) -> Sequence[Any]:
    return (known[slot],)
