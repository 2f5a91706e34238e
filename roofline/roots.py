"""Where a monotone function of one number changes sign: every search of the tool.

| | of which numbers | finds |
|---|---|---|
| `root` | floats, from a start, the range as wide as it may be | the zero of a surplus |
| `narrowed` | floats, between two places | the zero, or the place of a jump |
| `crossing` | any kind, between zero and a limit | the zero of a surplus that starts positive |
| `largest_that_holds` | any kind, from one to a limit | the last whole number for which a condition holds |

Two loops narrow a bracket, by the one step that they share. Of floats there is one case: the loop looks at every value
and stops at 15 digits. Of other kinds there are many: elements of an array settle at different steps, and a sheet is
asked cases that nobody has seen yet. So their loop looks at none, chooses by `ops.where`, keeps what has settled, and
takes a number of steps that is known before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from roofline.ops import Real, floor, maximum, where

__all__ = ["crossing", "largest_that_holds", "narrowed", "root"]

_EXACT = 2.0**-50
_MOST_STEPS = 200  # of floats
_STRIDE = 4.0
_USUAL_STEPS = 100  # of any kind of number; a dozen are usual
_MOST_HALVINGS = 64  # of a range of whole numbers
_PRECISION = 4e-13  # relative, of what `crossing` finds


class _Bracket(NamedTuple):
    """Two places between which a function changes sign."""

    near: Real
    at_near: Real  # the function there, or less of it
    far: Real
    at_far: Real
    side: Real = 0.0  # which end moved last: 1 the near one, -1 the far one

    @property
    def secant(self) -> Real:
        """Where the line through both ends is zero."""
        return (self.near * self.at_far - self.far * self.at_near) / (self.at_far - self.at_near)

    def narrowed(self, middle: Real, value: Real, is_near: Real) -> _Bracket:
        """The bracket with a place inside as one of its ends: the Illinois step.

        Args:
            middle: the place [any].
            value: of the function there [any].
            is_near: whether it has the sign of the near end [condition].

        Returns:
            The bracket; an end that stays twice counts for half of its value.

        Source:
            Dowell and Jarratt, BIT 11, 1971.
        """
        side = where(is_near, 1.0, -1.0)
        again = side == self.side
        near, far = where(is_near, middle, self.near), where(is_near, self.far, middle)
        at_near = where(is_near, value, where(again, 0.5 * self.at_near, self.at_near))
        at_far = where(is_near, where(again, 0.5 * self.at_far, self.at_far), value)
        return _Bracket(near, at_near, far, at_far, side)


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
    """Zero of a function between two places where it has different signs, by regula falsi.

    Args:
        function: of the place [any].
        near: a place, and the function there [any].
        far: a place where it has the other sign, and the function there [any].

    Returns:
        The place, to some 15 digits, on the side of `near` where the function jumps; NaN where it has no value [any].

    >>> round(narrowed(lambda value: value**2 - 2.0, (0.0, -2.0), (2.0, 2.0)), 12)
    1.414213562373
    """
    bracket = _Bracket(*near, *far)
    for _ in range(_MOST_STEPS):
        one, other = bracket.near, bracket.far
        if bracket.at_near == 0.0 or abs(other - one) <= _EXACT * max(abs(one), abs(other)):
            break
        middle = bracket.secant
        if not min(one, other) < middle < max(one, other):
            middle = 0.5 * (one + other)
        value = function(middle)
        if math.isnan(value):
            return math.nan
        bracket = bracket.narrowed(middle, value, (value < 0.0) == (near[1] < 0.0) or value == 0.0)
    return float(bracket.near)


def crossing(surplus: Callable[[Real], Real], limit: Real, steps: int = _USUAL_STEPS) -> Real:
    """Number at which a surplus that starts positive at zero vanishes, by regula falsi; infinite beyond a limit.

    One step where the surplus is affine, as it nearly is, and a bracket that only narrows where it is not.

    Args:
        surplus: of the number [any].
        limit: largest number to try [any].
        steps: steps taken at most [1].

    Returns:
        The number to some 12 digits, zero where the surplus is never positive [any].

    >>> crossing(lambda value: 6.0 - 2.0 * value, 100.0)
    3.0
    >>> crossing(lambda value: 6.0 - 2.0 * value, 2.0)
    inf
    """
    low = 0.0
    above, below = surplus(low), surplus(limit)
    always, never = above <= 0.0, below > 0.0
    above, below = where(always, 1.0, above), where(never, -1.0, below)
    bracket = _Bracket(low, above, limit, below)
    middle, found, is_open = low, low, True
    for _ in range(steps):
        before = middle
        middle = bracket.secant
        found = where(is_open, middle, found)  # what has settled stays: rounding would lead it away
        here = surplus(middle)
        bracket = bracket.narrowed(middle, here, here > 0.0)
        moves = abs(middle - before) > _PRECISION * middle
        is_open = where(is_open, moves, is_open)
        if not _any(is_open):
            break
    return where(never, float("inf"), where(always, 0.0, found))


def largest_that_holds(holds: Callable[[Real], Real], limit: Real, steps: int = _MOST_HALVINGS) -> Real:
    """Largest whole number from 1 to a limit for which a monotone condition holds, else 0, by bisection.

    Args:
        holds: the condition, of a number [condition].
        limit: largest number to try [1].
        steps: halvings of the range that are done at most [1].

    Returns:
        The number [1].

    >>> largest_that_holds(lambda n: n * n <= 50, 100.0)
    7.0
    """
    low, high = limit * 0.0, limit
    for _ in range(steps):
        if not _any(low < high):
            break
        middle = floor((low + high + 1.0) / 2.0)
        good, is_open = holds(maximum(middle, 1.0)), low < high
        high = where(is_open, where(good, high, middle - 1.0), high)
        low = where(is_open, where(good, middle, low), low)
    return low


def _any(condition: Real) -> bool:
    """Whether a condition holds for any element."""
    return bool(condition.any()) if hasattr(condition, "any") else bool(condition)
