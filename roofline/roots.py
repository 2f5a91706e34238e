"""Roots of monotone functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["narrowed", "root"]

_EXACT = 2.0**-50
_MOST_STEPS = 200
_STRIDE = 4.0


def root(surplus: Callable[[float], float], start: float, best: float, worst: float) -> float:
    """Value at which a monotone surplus vanishes: at most zero towards `best`, positive towards `worst`.

    Brackets by factors from a start, then narrows.

    Args:
        surplus: of the value [any].
        start: a value to begin at [any].
        best: end of the range where the surplus is at most zero [any].
        worst: end where it is positive [any].

    Returns:
        The value, to some 15 digits; of a surplus that jumps, the last value at which it is at most zero [any].

    >>> round(root(lambda value: value**2 - 2.0, 8.0, 0.0, 100.0), 12)
    1.414213562373
    """
    low, high = min(best, worst), max(best, worst)
    good = bad = min(max(start, low), high)
    below = above = here = surplus(good)
    factor = _STRIDE if (best > worst) == (here > 0.0) else 1.0 / _STRIDE
    while below > 0.0 and good != best:  # towards the best until the target is met
        bad, above = good, below
        good = min(max(good * factor, low), high)
        below = surplus(good)
    while above <= 0.0 and bad != worst:  # or away from it until it is missed
        good, below = bad, above
        bad = min(max(bad * factor, low), high)
        above = surplus(bad)
    return narrowed(surplus, (good, below), (bad, above))


def narrowed(function: Callable[[float], float], near: tuple[float, float], far: tuple[float, float]) -> float:
    """Zero of a function between two places where it has different signs: regula falsi with the Illinois step.

    Args:
        function: of the place [any].
        near: a place, and the function there [any].
        far: a place where it has the other sign, and the function there [any].

    Returns:
        The place, to some 15 digits, on the side of `near` where the function jumps; NaN where it has no value [any].

    Source:
        Dowell and Jarratt, BIT 11, 1971.

    >>> round(narrowed(lambda value: value**2 - 2.0, (0.0, -2.0), (2.0, 2.0)), 12)
    1.414213562373
    """
    (one, here), (other, there) = near, far
    side = 0
    for _ in range(_MOST_STEPS):
        if here == 0.0 or abs(other - one) <= _EXACT * max(abs(one), abs(other)):
            break
        middle = (one * there - other * here) / (there - here)
        if not min(one, other) < middle < max(one, other):
            middle = 0.5 * (one + other)
        value = function(middle)
        if math.isnan(value):
            return math.nan
        if (value < 0.0) == (near[1] < 0.0) or value == 0.0:
            one, here = middle, value
            there = 0.5 * there if side == 1 else there
            side = 1
        else:
            other, there = middle, value
            here = 0.5 * here if side == -1 else here
            side = -1
    return one
