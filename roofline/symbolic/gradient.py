"""Gradients of a graph that has values, by reverse accumulation from one number to all its inputs.

A choice has the slope of the side taken. A rounded number is flat between whole numbers; at a whole number, and where
the steps are fine, it follows its argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from roofline.errors import BadInput
from roofline.ops import Real, plain
from roofline.symbolic.graph import CONDITIONS, INPUT, LINEAR, Node, nodes_of

#: Above this value, a rounding step is below 1 % and not a change of regime.
FINE = 100.0

_Value = Callable[[Any], Any]


def follows(node: Node, value: _Value = plain) -> bool:
    """Whether a rounded number moves with its argument; else it is flat."""
    whole: float = value(node)
    return bool(whole == value(node.args[0]) or (whole if node.operation == "ceil" else -whole) > FINE)


def gradient(number: Real, value: _Value = plain) -> dict[str, float]:
    """Slope by name of every input that a number depends on; reverse-mode chain rule (Linnainmaa, BIT 16(2), 1976).

    >>> from roofline.symbolic.traced import Trace
    >>> trace = Trace()
    >>> gradient(trace.input("a", 3.0) / trace.input("b", 2.0))
    {'b': -0.75, 'a': 0.5}
    """
    slopes: dict[str, float] = {}
    if not isinstance(number, Node):
        return slopes
    weights = {number.place: 1.0}
    for node in reversed(nodes_of((number,))):
        weight = weights.get(node.place, 0.0)
        if node.operation == INPUT:
            slopes[node.args[0]] = weight
        elif weight:
            for arg, slope in zip(node.args, _slopes(node, value), strict=False):
                if isinstance(arg, Node):
                    weights[arg.place] = weights.get(arg.place, 0.0) + weight * slope
    return slopes


def implicit(bound: Sequence[Node], results: Sequence[Real]) -> list[dict[str, float]]:
    """Slopes of a fixed point x = g(x, p) to its other inputs: dx/dp = (1 - dg/dx)^-1 dg/dp; `bound` stand for x."""
    slopes = [gradient(result) for result in results]
    bound_names = [node.args[0] for node in bound]
    names = sorted({name for slope in slopes for name in slope} - set(bound_names))
    matrix = [
        [float(row == column) - slope.get(name, 0.0) for column, name in enumerate(bound_names)]
        for row, slope in enumerate(slopes)
    ]
    solution = _linear_solution(matrix, [[slope.get(name, 0.0) for name in names] for slope in slopes])
    return [dict(zip(names, row, strict=True)) for row in solution]


def _slopes(node: Node, value: _Value) -> Sequence[float]:
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


def _linear_solution(matrix: list[list[float]], sides: list[list[float]]) -> list[list[float]]:
    """Solution of linear equations with several right-hand sides, by Gauss-Jordan elimination with pivoting."""
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
