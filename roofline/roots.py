"""Where a monotone function of one number changes sign: every search of the tool.

| | of which numbers | finds |
|---|---|---|
| `root` | floats, from a start, the range as wide as it may be | the zero of a surplus |
| `narrowed` | floats, between two places | the zero, or the place of a jump |
| `crossing` | any kind, between zero and a limit | the zero of a surplus that starts positive |
| `largest_that_holds` | any kind, from one to a limit | the last whole number for which a condition holds |
| `fixed_point` | several of any kind, from a start | where a round gives what it was given |

Two loops narrow a bracket, by the one step that they share. Of floats there is one case: the loop looks at every value
and stops at 15 digits. Of other kinds there are many: elements of an array settle at different steps, and a sheet is
asked cases that nobody has seen yet. So their loop looks at none, chooses by `ops.where`, keeps what has settled, and
takes a number of steps that is known before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

from roofline import ops
from roofline.elements import all_of, any_of
from roofline.ops import Real, floor, maximum, minimum, plain, where

__all__ = ["Settled", "crossing", "fixed_point", "largest_that_holds", "narrowed", "root"]

_EXACT = 2.0**-50
_MOST_STEPS = 200  # of floats
_STRIDE = 4.0
_USUAL_STEPS = 100  # of any kind of number; a dozen are usual
_MOST_HALVINGS = 64  # of a range of whole numbers
_PRECISION = 4e-13  # relative, of what `crossing` finds
_SETTLED = 2.0**-40  # relative, between a round and the next
_MOST_ROUNDS = 120
_FAR, _NEAR = 4.0, 0.25  # times the last value that a round's may be
_TINY = 2.0**-100


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
        if not any_of(is_open):
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
        if not any_of(low < high):
            break
        middle = floor((low + high + 1.0) / 2.0)
        good, is_open = holds(maximum(middle, 1.0)), low < high
        high = where(is_open, where(good, high, middle - 1.0), high)
        low = where(is_open, where(good, middle, low), low)
    return low


class Settled(NamedTuple):
    """Where a round gives what it was given."""

    values: tuple[Real, ...]
    is_found: Real  # whether they stand still [condition]


def fixed_point(round_: Callable[[tuple[Real, ...]], tuple[Real, ...]], start: tuple[Real, ...]) -> Settled:
    """Positive numbers that a round of a calculation leaves as they are.

    Anderson's mixing of the last three rounds; where it leads astray, half a step.

    Args:
        round_: gives the next numbers for some [function].
        start: numbers to begin at [any].

    Returns:
        The numbers to some 12 digits, and whether they were found: elements of an array settle one by one.

    Source:
        Anderson, J. ACM 12(4), 1965; Walker and Ni, SIAM J. Numer. Anal. 49(4), 2011.

    >>> half = fixed_point(lambda x: (0.5 * (x[0] + 2.0 / x[0]),), (1.0,))
    >>> round(half.values[0], 12), half.is_found
    (1.414213562373, True)
    """
    here = tuple(map(plain, start))
    kind: Any = here[0]
    before: list[tuple[tuple[Real, ...], tuple[Real, ...]]] = []  # results and residuals, the last first
    last: Real = float("inf")
    settled: Real = False
    for _ in range(_MOST_ROUNDS):
        results = round_(here)
        kind = next((each for each in results if type(each) is not float), kind)
        found = tuple(map(plain, results))
        residual = tuple(new - old for new, old in zip(found, here, strict=True))
        weights = tuple(1.0 / (abs(new) + _TINY) for new in found)
        size = reduce(maximum, (abs(each) * weight for each, weight in zip(residual, weights, strict=True)))
        settled = size <= _SETTLED
        if all_of(settled):
            here = found
            break
        mixed = _mixed(found, residual, weights, before[:2])
        astray = size > 1.5 * last
        halfway = tuple(old + 0.5 * each for old, each in zip(here, residual, strict=True))
        towards = tuple(where(astray, half, best) for half, best in zip(halfway, mixed, strict=True))
        limited = (
            minimum(maximum(new, _NEAR * old), _FAR * maximum(old, result))
            for new, old, result in zip(towards, here, found, strict=True)
        )
        here = tuple(where(settled, result, new) for result, new in zip(found, limited, strict=True))
        before.insert(0, (found, residual))
        last = size
    return Settled(ops.settled(round_, here, kind), settled)


def _mixed(
    found: tuple[Real, ...],
    residual: tuple[Real, ...],
    weights: tuple[Real, ...],
    before: list[tuple[tuple[Real, ...], tuple[Real, ...]]],
) -> tuple[Real, ...]:
    """Combination of the last rounds whose residual would be the least, were the calculation linear."""
    if not before:
        return tuple(new - 0.5 * each for new, each in zip(found, residual, strict=True))
    results = [found, *(result for result, _ in before)]
    residuals = [residual, *(each for _, each in before)]
    moved = [tuple(a - b for a, b in zip(*pair, strict=True)) for pair in pairwise(results)]
    turned = [tuple((a - b) * w for a, b, w in zip(*pair, weights, strict=True)) for pair in pairwise(residuals)]
    weighted = tuple(each * weight for each, weight in zip(residual, weights, strict=True))
    one = _dot(turned[0], turned[0])
    share = _dot(turned[0], weighted)
    if len(turned) == 1:
        shares = [_over(share, one)]
    else:
        both, other, rest = _dot(turned[0], turned[1]), _dot(turned[1], turned[1]), _dot(turned[1], weighted)
        other = other * (1.0 + _SETTLED)  # two rounds that moved alike
        spread = one * other - both * both
        shares = [_over(share * other - rest * both, spread), _over(one * rest - both * share, spread)]
    return tuple(
        new - sum(share * move[place] for share, move in zip(shares, moved, strict=True))
        for place, new in enumerate(found)
    )


def _dot(left: tuple[Real, ...], right: tuple[Real, ...]) -> Real:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _over(above: Real, below: Real) -> Real:
    """A quotient, zero where there is nothing to divide by."""
    none = abs(below) < _TINY * _TINY
    return where(none, 0.0, above / where(none, 1.0, below))
