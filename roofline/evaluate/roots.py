"""Roots of monotone functions of one number."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["root"]

_EXACT = 2.0**-50
_MOST_STEPS = 200
_STRIDE = 4.0


def root(surplus: Callable[[float], float], start: float, best: float, worst: float) -> float:
    """Value at which a monotone surplus vanishes: at most zero towards `best`, positive towards `worst`.

    Brackets by factors from a start, then regula falsi with the Illinois step.

    Args:
        surplus: of the value [any].
        start: a value to begin at [any].
        best: end of the range where the surplus is at most zero [any].
        worst: end where it is positive [any].

    Returns:
        The value, to some 15 digits; of a surplus that jumps, the last value at which it is at most zero [any].

    Source:
        Dowell and Jarratt, BIT 11, 1971.

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
    side = 0
    for _ in range(_MOST_STEPS):
        if below == 0.0 or abs(bad - good) <= _EXACT * max(good, bad):
            break
        middle = (good * above - bad * below) / (above - below)
        if not min(good, bad) < middle < max(good, bad):
            middle = 0.5 * (good + bad)
        here = surplus(middle)
        if here <= 0.0:
            good, below = middle, here
            above = 0.5 * above if side == 1 else above
            side = 1
        else:
            bad, above = middle, here
            below = 0.5 * below if side == -1 else below
            side = -1
        if abs(here) <= _EXACT:
            return middle
    return good
