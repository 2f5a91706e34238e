"""Slopes of a graph that has values: from one number back to every input that it came from.

A choice has the slope of the side that it takes. What is rounded up is flat between whole numbers; at one, and where
steps are fine, it follows what is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from roofline.errors import BadInput
from roofline.ops import Real, plain
from roofline.symbolic.graph import CONDITIONS, INPUT, LINEAR, Node, nodes_of

__all__ = ["FINE", "follows", "gradient", "implicit"]

#: Beyond this many, a step of rounding up is below 1 % and no change of regime.
FINE = 100.0

_Value = Callable[[Any], Any]


def follows(node: Node, value: _Value = plain) -> bool:
    """Whether a rounded number moves with what was rounded.

    Args:
        node: a number rounded up or down.
        value: of a number [function].

    Returns:
        False where it is flat [bool].
    """
    whole: float = value(node)
    return bool(whole == value(node.args[0]) or (whole if node.operation == "ceil" else -whole) > FINE)


def gradient(number: Real, value: _Value = plain) -> dict[str, float]:
    """Slopes of a number.

    Args:
        number: a node, or a plain number [any].
        value: of a number that the number came from; by default what the graph keeps [function].

    Returns:
        Slope by name of each input that it came from.

    Raises:
        BadInput: it came from an iteration.

    Source:
        The chain rule, backward (Linnainmaa, BIT 16(2), 1976).

    >>> from roofline.symbolic.traced import Trace
    >>> trace = Trace()
    >>> gradient(trace.input("a", 3.0) / trace.input("b", 2.0))
    {'b': -0.75, 'a': 0.5}
    """
    found: dict[str, float] = {}
    if not isinstance(number, Node):
        return found
    weights = {number.place: 1.0}
    for node in reversed(nodes_of((number,))):
        weight = weights.get(node.place, 0.0)
        if node.operation == INPUT:
            found[node.args[0]] = weight
        elif weight:
            for arg, slope in zip(node.args, _slopes(node, value), strict=False):
                if isinstance(arg, Node):
                    weights[arg.place] = weights.get(arg.place, 0.0) + weight * slope
    return found


def implicit(bound: Sequence[Node], results: Sequence[Real]) -> list[dict[str, float]]:
    """Slopes of numbers that a calculation leaves as they are: x = g(x, p) makes dx/dp = (1 - dg/dx)^-1 dg/dp.

    Args:
        bound: inputs that stand for the numbers.
        results: of the calculation on them [any].

    Returns:
        Of each number, slope by name of every other input.
    """
    slopes = [gradient(result) for result in results]
    own = [node.args[0] for node in bound]
    names = sorted({name for slope in slopes for name in slope} - set(own))
    matrix = [
        [float(row == column) - slope.get(name, 0.0) for column, name in enumerate(own)]
        for row, slope in enumerate(slopes)
    ]
    solved = _solved(matrix, [[slope.get(name, 0.0) for name in names] for slope in slopes])
    return [dict(zip(names, row, strict=True)) for row in solved]


def _slopes(node: Node, value: _Value) -> Sequence[float]:
    """Slopes of an operation to its arguments."""
    operation = node.operation
    if operation == LINEAR:
        slopes: Sequence[float] = node.args[-1]
        return slopes
    if operation in CONDITIONS:
        return ()
    if operation in ("ceil", "floor"):
        return (float(follows(node, value)),)
    if operation not in _SLOPES:
        raise BadInput(f"a {operation} has no slopes; those of a fixed point are implicit where values are traced")
    return _SLOPES[operation](*map(value, node.args))


def _power(base: float, order: float) -> Sequence[float]:
    slope = order * base ** (order - 1.0) if base or order > 1.0 else 0.0
    return slope, base**order * math.log(base) if base > 0.0 else 0.0


_SLOPES: dict[str, Callable[..., Sequence[float]]] = {
    "+": lambda *_: (1.0, 1.0),
    "-": lambda *_: (1.0, -1.0),
    "*": lambda a, b: (b, a),
    "/": lambda a, b: (1.0 / b, -a / b**2),
    "neg": lambda _: (-1.0,),
    "**": _power,
    "abs": lambda a: (1.0 if a >= 0.0 else -1.0,),
    "mod": lambda a, b: (1.0, -float(a // b)),
    "max": lambda a, b: (1.0, 0.0) if a >= b else (0.0, 1.0),
    "min": lambda a, b: (1.0, 0.0) if a <= b else (0.0, 1.0),
    "where": lambda condition, *_: (0.0, 1.0, 0.0) if condition else (0.0, 0.0, 1.0),
}


def _solved(matrix: list[list[float]], sides: list[list[float]]) -> list[list[float]]:
    """Solution of some linear equations with several right-hand sides, by elimination with pivots."""
    rows = [[*left, *right] for left, right in zip(matrix, sides, strict=True)]
    size = len(rows)
    for place in range(size):
        best = max(range(place, size), key=lambda row: abs(rows[row][place]))
        rows[place], rows[best] = rows[best], rows[place]
        pivot = rows[place][place]
        rows[place] = [value / pivot for value in rows[place]]
        for other in range(size):
            factor = rows[other][place]
            if other != place and factor:
                rows[other] = [value - factor * lead for value, lead in zip(rows[other], rows[place], strict=True)]
    return [row[size:] for row in rows]
