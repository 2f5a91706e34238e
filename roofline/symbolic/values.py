"""Values of a graph's numbers at values of its inputs: floats, or arrays of them."""

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

__all__ = ["OPERATIONS", "Values"]

_Step = tuple[int, Callable[..., Any], Callable[[list[Any]], Sequence[Any]]]


def _power(base: Any, order: Any) -> Any:
    found = base**order
    return math.nan if type(found) is complex else found


#: What an operation of a graph computes.
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
    """Values of some numbers as a function of some inputs.

    What does not come from these keeps the value that the graph has for it, and so does what was rounded to whole
    numbers: a graph that settles choices keeps them.

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
        self._bound = sum(each.reach for node in nodes if node.operation == LOOP for each in node.args[-1].bound)
        self._steps = self._steps_of(nodes, 0)
        self._inputs = [self._slot(node) for node in inputs]
        self._numbers = [self._slot(number) for number in numbers]

    def __call__(self, *values: Any) -> list[Any]:
        """The numbers at some values of the inputs.

        Args:
            values: of the inputs, in their order [any].

        Returns:
            The values; NaN where arithmetic has no result [any].
        """
        known = self._known
        for slot, value in zip(self._inputs, values, strict=True):
            known[slot] = value
        self._run(self._steps)
        return [known[slot] for slot in self._numbers]

    def of(self, number: Real) -> Any:
        """Value that a number had when the values were asked for the last time.

        Args:
            number: a node that one of the numbers is made of, or a plain number [any].

        Returns:
            The value [any].
        """
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
        """Steps of the nodes that can be computed where some numbers of loops are known."""
        return [
            (self._slots[node.place], *self._step(node, scope))
            for node in nodes
            if node.operation != INPUT and not (node.reach & self._bound) & ~scope and not _is_kept(node)
        ]

    def _step(self, node: Node, scope: int) -> tuple[Callable[..., Any], Callable[[list[Any]], Sequence[Any]]]:
        args: Sequence[Any] = node.args
        if node.operation == LOOP:
            *state, begins, loop = args
            args = (begins, *state)
            apply: Callable[..., Any] = self._loop(loop, scope)
        elif node.operation == LINEAR:
            *args, slopes = args
            apply = partial(_along, node.value, [plain(arg) for arg in args], slopes)
        else:
            apply = OPERATIONS[node.operation]
        slots = [self._slot(arg) for arg in args]
        return apply, operator.itemgetter(*slots) if len(slots) > 1 else partial(_only, slots[0])

    def _slot(self, number: Real) -> int:
        found = self._slots.get(number.place) if isinstance(number, Node) else None
        if found is None:
            found = len(self._known)
            self._known.append(plain(number))
        return found

    def _loop(self, loop: Loop, scope: int) -> Callable[..., Sequence[Any]]:
        own = sum(node.reach for node in loop.bound)
        turning = [node for node in nodes_of([*loop.after, loop.goes_on]) if node.reach & own]
        steps, known = self._steps_of(turning, scope | own), self._known
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


def _is_kept(node: Node) -> bool:
    """Whether a number was rounded to a whole one that stays."""
    return node.operation in ("ceil", "floor") and node.value is not None and not follows(node)


def _along(value: float, at: Sequence[float], slopes: Sequence[float], *inputs: float) -> float:
    return value + sum(slope * (new - old) for slope, new, old in zip(slopes, inputs, at, strict=True))


def _only(slot: int, known: list[Any]) -> Sequence[Any]:
    return (known[slot],)
