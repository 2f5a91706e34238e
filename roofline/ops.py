"""The few operations beyond ``+ - * / **`` that a formula may use, over every kind of number.

A formula written with these runs unchanged on floats, numpy arrays, symbols and whatever kind of
number comes later. Each kind registers its operations from its own home (`register`), so that this
module imports none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from roofline.errors import BadInput

__all__ = [
    "Operations",
    "Real",
    "always",
    "ceil",
    "floor",
    "maximum",
    "minimum",
    "never",
    "norm",
    "register",
    "where",
]

#: A number of any kind: float, numpy array, symbol, spreadsheet cell.
Real = Any

_PLAIN = frozenset({float, int})


class Operations(NamedTuple):
    """What one kind of number can do."""

    maximum: Callable[[Real, Real], Real]
    minimum: Callable[[Real, Real], Real]
    ceil: Callable[[Real], Real]
    where: Callable[[Real, Real, Real], Real]


_REGISTRY: dict[type, Operations] = {}


def register(kind: type, operations: Operations) -> None:
    """Make a type a kind of number: its operations serve it and its subclasses.

    Args:
        kind: type of the numbers, or of the conditions that comparing them gives [type].
        operations: how to do each operation on them [record].
    """
    _REGISTRY[kind] = operations


def maximum(a: Real, b: Real) -> Real:
    """Larger of two numbers, element by element.

    Args:
        a: number [any].
        b: number [any].

    Returns:
        The larger [any].

    >>> maximum(2.0, 3.0)
    3.0
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a if a >= b else b
    return _operations(a, b).maximum(a, b)


def minimum(a: Real, b: Real) -> Real:
    """Smaller of two numbers, element by element.

    Args:
        a: number [any].
        b: number [any].

    Returns:
        The smaller [any].

    >>> minimum(2.0, 3.0)
    2.0
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a if a <= b else b
    return _operations(a, b).minimum(a, b)


def ceil(a: Real) -> Real:
    """Smallest whole number not below a number.

    Args:
        a: number [any].

    Returns:
        The whole number, of the kind of `a` (a float for a float) [any].

    >>> ceil(2.1)
    3.0
    """
    if type(a) in _PLAIN:
        return float(math.ceil(a)) if math.isfinite(a) else a
    return _operations(a).ceil(a)


def floor(a: Real) -> Real:
    """Largest whole number not above a number.

    Args:
        a: number [any].

    Returns:
        The whole number [any].

    >>> floor(2.9)
    2.0
    """
    return 0.0 - ceil(-a)


def where(condition: Real, a: Real, b: Real) -> Real:
    """One of two numbers, by a condition, element by element.

    Args:
        condition: what a comparison of two numbers gives [condition].
        a: number where it holds [any].
        b: number where it does not [any].

    Returns:
        `a` or `b` [any].

    >>> where(1.0 < 2.0, 3.0, 4.0)
    3.0
    """
    if condition is True:
        return a
    if condition is False:
        return b
    return _operations(condition).where(condition, a, b)


def never(condition: Real) -> bool:
    """Whether a condition is settled and fails: what depends on it need not be written down.

    Args:
        condition: what a comparison of two numbers gives [condition].

    Returns:
        True where a comparison of floats, or of traced numbers by their values, fails. Not where it is open: a cell
        may be asked another case, a symbol has no value yet, and the cases of an array share one list of kernels,
        whatever its elements say [bool].

    >>> never(1.0 > 2.0), never(1.0 < 2.0)
    (True, False)
    """
    return condition is False


def always(condition: Real) -> bool:
    """Whether a condition is settled and holds: what its failure would bring need not be written down.

    Args:
        condition: what a comparison of two numbers gives [condition].

    Returns:
        True where a comparison of floats, or of traced numbers by their values, holds; not where it is open, as with
        `never` [bool].

    >>> always(1.0 < 2.0), always(1.0 > 2.0)
    (True, False)
    """
    return condition is True


def norm(a: Real, b: Real, p: float) -> Real:
    r"""Smooth maximum :math:`\lVert a, b \rVert_p = (a^p + b^p)^{1/p}` of two non-negative numbers.

    Args:
        a: non-negative number [any].
        b: non-negative number [any].
        p: order: 1 is the sum, infinity the maximum [1].

    Returns:
        A number between the maximum and the sum [any].

    >>> norm(3.0, 4.0, 2.0)
    5.0
    """
    if p == 1.0:
        return a + b
    if p == math.inf:
        return maximum(a, b)
    return (a**p + b**p) ** (1.0 / p)


def _operations(*values: Real) -> Operations:
    for value in values:
        for base in type(value).__mro__:
            found = _REGISTRY.get(base)
            if found is not None and base not in _PLAIN:
                return found
    if all(isinstance(value, (float, int)) for value in values):
        return _FLOATS
    kinds = ", ".join(type(value).__name__ for value in values)
    raise BadInput(
        f"no operations are registered for {kinds}; for numpy arrays import roofline.arrays, "
        "for sympy expressions roofline.symbolic.symbols"
    )


_FLOATS = Operations(
    maximum=max,
    minimum=min,
    ceil=lambda a: float(math.ceil(a)),
    where=lambda condition, a, b: a if condition else b,
)
