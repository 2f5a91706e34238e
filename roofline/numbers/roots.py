"""Roots, largest arguments and fixed points: every search of the tool.

| | numbers | finds |
|---|---|---|
| `root` | floats, from a start, over any range | the zero of a surplus |
| `narrowed` | floats, between two places | the zero, or the jump |
| `crossing` | any kind, between zero and a limit | the zero of a surplus that starts positive |
| `largest_that_holds` | any kind, from one to a limit | the last whole number for which a condition holds |
| `fixed_point` | several of any kind, from a start | numbers that a round leaves unchanged |
| `repeated` | several of any kind, from a start | numbers after the last turn of a loop |

Two loops narrow a bracket with the same step. Floats are one case: the loop looks at every value and stops at 15
digits. Other kinds stand for many cases: elements of an array settle at different steps, a sheet is asked cases that
come later, and a graph holds the loop itself. Those loops choose by `where`, keep what has settled, and run in
`repeated`, the one loop whose end depends on its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

from roofline.numbers.operations import (
    Real,
    all_of,
    any_of,
    floor,
    maximum,
    minimum,
    negated,
    operations_of,
    plain,
    where,
)
from roofline.support.records import NamedTuple

_EXACT = 2.0**-50
_MOST_STEPS = 200  # of floats
_STRIDE = 4.0
_USUAL_STEPS = 100  # of any kind of number; a dozen are usual
_MOST_HALVINGS = 64  # of a range of whole numbers
_PRECISION = 2e-14  # relative, of what `crossing` finds
_SETTLED = 2.0**-40  # relative, between a round and the next
_MOST_ROUNDS = 120
_FAR, _NEAR = 4.0, 0.25  # times the last value that a round's may be
_TINY = 2.0**-100

_State = tuple[Any, ...]
_Turn = Callable[[_State], tuple[_State, Any]]


def _secant(bracket: _State) -> Real:
    """Where the line through both ends of a bracket is zero."""
    near, at_near, far, at_far, _ = bracket
    return (near * at_far - far * at_near) / (at_far - at_near)


def _illinois(bracket: _State, middle: Real, value: Real, is_near: Real) -> _State:
    """The Illinois step: a place inside the bracket becomes one of its ends.

    Args:
        bracket: near end and function there, or part of it; far end likewise; which moved last: 1 near, -1 far.
        middle: a place inside.
        value: the function there.
        is_near: whether it has the sign of the near end.

    Returns:
        The bracket; an end that stays twice counts for half of its value.

    Source:
        Dowell and Jarratt, BIT 11, 1971.
    """
    near, at_near, far, at_far, last = bracket
    side = where(is_near, 1.0, -1.0)
    again = side == last
    return (
        where(is_near, middle, near),
        where(is_near, value, where(again, 0.5 * at_near, at_near)),
        where(is_near, far, middle),
        where(is_near, where(again, 0.5 * at_far, at_far), value),
        side,
    )


def root(surplus: Callable[[float], float], start: float, best: float, worst: float) -> float:
    """Value at which a monotone surplus vanishes: at most zero towards `best`, positive towards `worst`.

    Brackets by factors from a start, then narrows to about 15 digits. Where the surplus jumps, the result is the last
    value at which it is at most zero.

    >>> round(root(lambda value: value**2 - 2.0, 8.0, 0.0, 100.0), 12)
    1.414213562373
    """
    low, high = min(best, worst), max(best, worst)
    good = bad = min(max(start, low), high)
    below = above = here = surplus(good)
    factor = _STRIDE if (best > worst) == (here > 0.0) else 1.0 / _STRIDE
    while below > 0.0 and good != best:  # towards the best until the surplus is gone
        bad, above = good, below
        good = min(max(good * factor, low), high)
        below = surplus(good)
    while above <= 0.0 and bad != worst:  # or away from it until there is one
        good, below = bad, above
        bad = min(max(bad * factor, low), high)
        above = surplus(bad)
    return narrowed(surplus, (good, below), (bad, above))


def narrowed(
    function: Callable[[float], float], near: tuple[float, float], far: tuple[float, float], enough: float = 0.0
) -> float:
    """Zero of a function between two places where its signs differ, to about 15 digits, by regula falsi.

    Places come with the function there; one at which it is at most `enough` away from zero ends the search. A jump
    gives its side towards `near`; NaN where the function has no value.

    >>> round(narrowed(lambda value: value**2 - 2.0, (0.0, -2.0), (2.0, 2.0)), 12)
    1.414213562373
    """
    place = near[0]
    for place, _ in narrowing(function, near, far, enough):  # noqa: B007  the last
        pass
    return place


def narrowing(
    function: Callable[[float], float], near: tuple[float, float], far: tuple[float, float], enough: float = 0.0
) -> Iterator[tuple[float, float]]:
    """The brackets of `narrowed`, near end first, each within the one before.

    >>> [far for _, far in narrowing(lambda value: value - 1.0, (0.0, -1.0), (2.0, 1.0))]
    [2.0, 1.0]
    """
    bracket: _State = (*near, *far, 0.0)
    yield near[0], far[0]
    for _ in range(_MOST_STEPS):
        one, at_one, other = bracket[:3]
        if at_one == 0.0 or abs(other - one) <= _EXACT * max(abs(one), abs(other)):
            break
        middle = _secant(bracket)
        if not min(one, other) < middle < max(one, other):
            middle = 0.5 * (one + other)
        value = function(middle)
        if math.isnan(value):
            yield math.nan, math.nan
            break
        if abs(value) <= enough:
            yield middle, middle
            break
        bracket = _illinois(bracket, middle, value, (value < 0.0) == (near[1] < 0.0) or value == 0.0)
        yield bracket[0], bracket[2]


def repeated(turn: _Turn, start: _State, most: int, among: _State = (), begins: Real = True) -> _State:
    """Numbers after repeated turns, until no case continues, or after `most` turns.

    A turn gives the next numbers and whether another turn follows. Elements of an array take as many turns as the
    slowest, so a turn keeps what has settled. `among` are further numbers of the kind, if those at first are floats;
    `begins` says whether there is a first turn.

    >>> repeated(lambda x: ((x[0] * 2.0,), x[0] < 50.0), (3.0,), 100)
    (192.0,)
    """
    loop = operations_of(*start, *among).repeated
    return turned(turn, start, most, begins) if loop is None else loop(turn, start, most, among, begins)


def turned(turn: _Turn, start: _State, most: int, begins: Real = True) -> _State:
    """`repeated` by a loop in Python, for kinds whose conditions have a value.

    >>> turned(lambda x: ((x[0] + 1.0,), True), (3.0,), 2), turned(lambda x: ((x[0] + 1.0,), True), (3.0,), 2, False)
    ((5.0,), (3.0,))
    """
    state, goes_on = start, begins
    for _ in range(most):
        if goes_on is not True and not any_of(goes_on):
            break
        state, goes_on = turn(state)
    return state


def crossing(surplus: Callable[[Real], Real], limit: Real, steps: int = _USUAL_STEPS, low: Real = 0.0) -> Real:
    """Number at which a surplus that starts positive at `low` vanishes, by regula falsi; infinite beyond a limit.

    Found to about 12 digits: in one step where the surplus is affine, as it nearly is, else by a narrowing bracket.
    `low` where the surplus is never positive.

    >>> crossing(lambda value: 6.0 - 2.0 * value, 100.0)
    3.0
    >>> crossing(lambda value: 6.0 - 2.0 * value, 2.0)
    inf
    """
    return carried_crossing(lambda number, _: (surplus(number), ()), limit, (), steps, low)[0]


def carried_crossing(
    surplus: Callable[[Real, _State], tuple[Real, _State]],
    limit: Real,
    carried: _State,
    steps: int = _USUAL_STEPS,
    low: Real = 0.0,
) -> tuple[Real, _State]:
    """`crossing` of a surplus that carries numbers from one evaluation to the next, and those numbers at the end."""
    above, carried = surplus(low, carried)
    below, carried = surplus(limit, carried)
    always, never = above <= 0.0, below > 0.0

    def step(state: _State) -> tuple[_State, Real]:
        bracket, (before, settled, is_open) = state[:5], state[5:8]
        middle = _secant(bracket)
        settled = where(is_open, middle, settled)  # rounding must not move it again
        here, after = surplus(middle, state[8:])
        moves = abs(middle - before) > _PRECISION * middle
        is_open = where(is_open, moves, is_open)
        return (*_illinois(bracket, middle, here, here > 0.0), middle, settled, is_open, *after), is_open

    start = (low, where(always, 1.0, above), limit, where(never, -1.0, below), 0.0, low, low, True, *carried)
    state = repeated(step, start, steps, (above, below))
    return where(never, float("inf"), where(always, low, state[6])), state[8:]


def largest_that_holds(holds: Callable[[Real], Real], limit: Real, steps: int = _MOST_HALVINGS) -> Real:
    """Largest whole number from 1 to a limit for which a monotone condition holds, else 0, by bisection.

    >>> largest_that_holds(lambda n: n * n <= 50, 100.0)
    7.0
    """

    def halved(state: _State) -> tuple[_State, Real]:
        low, high = state
        middle = floor((low + high + 1.0) / 2.0)
        good, is_open = holds(maximum(middle, 1.0)), low < high
        high = where(is_open, where(good, high, middle - 1.0), high)
        low = where(is_open, where(good, middle, low), low)
        return (low, high), low < high

    low = limit * 0.0
    return repeated(halved, (low, limit), steps, begins=low < limit)[0]


class Settled(NamedTuple):
    """A fixed point."""

    values: tuple[Real, ...]
    is_found: Real  # whether they are a fixed point


def fixed_point(round_: Callable[[tuple[Real, ...]], tuple[Real, ...]], start: tuple[Real, ...]) -> Settled:
    """Positive numbers that a round of a calculation leaves unchanged.

    Anderson mixing of as many rounds as there are numbers, or half a step where that leads astray.

    Args:
        round_: gives the next numbers.
        start: where to begin.

    Returns:
        The numbers to about 12 digits, and whether they were found; elements of an array settle one by one.

    Source:
        Anderson, J. ACM 12(4), 1965; Walker and Ni, SIAM J. Numer. Anal. 49(4), 2011.

    >>> half = fixed_point(lambda x: (0.5 * (x[0] + 2.0 / x[0]),), (1.0,))
    >>> round(half.values[0], 12), half.is_found
    (1.414213562373, True)
    """
    size = len(start)
    kind: Any = plain(start[0])

    def round_of(state: _State) -> tuple[_State, Real]:
        """State: numbers, results and residuals of earlier rounds, length of the last step, whether another follows."""
        nonlocal kind
        here, last, was_open = state[:size], *state[-2:]
        before = [state[place : place + size] for place in range(size, len(state) - 2, size)]
        results = round_(here)
        kind = next((each for each in results if type(each) is not float), kind)
        new_results = tuple(map(plain, results))
        residual = tuple(new - old for new, old in zip(new_results, here, strict=True))
        weights = tuple(1.0 / (abs(new) + _TINY) for new in new_results)
        far = reduce(maximum, (abs(each) * weight for each, weight in zip(residual, weights, strict=True)))
        settled = far <= _SETTLED
        if all_of(settled):
            return (*_kept(was_open, new_results, here), *state[size:-2], far, False), False
        mixed = _mixed(new_results, residual, weights, before)
        astray = far > 1.5 * last
        halfway = tuple(old + 0.5 * each for old, each in zip(here, residual, strict=True))
        towards = tuple(where(astray, half, best) for half, best in zip(halfway, mixed, strict=True))
        limited = (
            minimum(maximum(new, _NEAR * old), _FAR * maximum(old, result))
            for new, old, result in zip(towards, here, new_results, strict=True)
        )
        following = (where(settled, result, new) for result, new in zip(new_results, limited, strict=True))
        kept = _kept(was_open, following, here)  # rounding must not move what has settled
        is_open = where(was_open, negated(settled), was_open)
        return (*kept, *new_results, *residual, *state[size:-2][: 2 * size * (size - 1)], far, is_open), is_open

    state = turned(round_of, (*map(plain, start), float("inf"), True), size)  # with fewer rounds before
    state = repeated(round_of, state, _MOST_ROUNDS - size, (kind,), begins=state[-1])
    implicit = operations_of(kind).settled  # derivatives by the implicit function theorem
    values = state[:size] if implicit is None else implicit(round_, state[:size], kind)
    return Settled(values, negated(state[-1]))


def _kept(is_open: Real, numbers: Iterable[Real], settled: _State) -> _State:
    """Numbers of what is open, and those of what has settled."""
    if is_open is True:
        return tuple(numbers)
    return tuple(where(is_open, number, before) for number, before in zip(numbers, settled, strict=True))


def _mixed(
    results: tuple[Real, ...],
    residual: tuple[Real, ...],
    weights: tuple[Real, ...],
    before: list[tuple[Real, ...]],
) -> tuple[Real, ...]:
    """The combination of the last rounds with the least residual, if the calculation were linear."""
    if not before:
        return results
    last_results, residuals = [results, *before[::2]], [residual, *before[1::2]]
    known: list[tuple[tuple[Real, ...], tuple[Real, ...], Real]] = []
    rest = tuple(each * weight for each, weight in zip(residual, weights, strict=True))
    for place in range(len(last_results) - 1):
        moved = tuple(a - b for a, b in zip(last_results[place], last_results[place + 1], strict=True))
        pairs = zip(residuals[place], residuals[place + 1], weights, strict=True)
        changed = tuple((a - b) * weight for a, b, weight in pairs)
        whole = _dot(changed, changed)
        for other_moved, other_changed, square in known:  # what is new, by Gram and Schmidt
            share = _dot(changed, other_changed) * square
            moved, changed = _less(moved, share, other_moved), _less(changed, share, other_changed)
        square = whole if not known else _dot(changed, changed)
        is_new = square > _SETTLED * whole
        known.append((moved, changed, where(is_new, 1.0 / where(is_new, square, 1.0), 0.0)))
    for moved, changed, square in known:
        results = _less(results, _dot(changed, rest) * square, moved)
    return results


def _less(numbers: tuple[Real, ...], share: Real, others: tuple[Real, ...]) -> tuple[Real, ...]:
    return tuple(number - share * other for number, other in zip(numbers, others, strict=True))


def _dot(left: tuple[Real, ...], right: tuple[Real, ...]) -> Real:
    return sum(a * b for a, b in zip(left, right, strict=True))
