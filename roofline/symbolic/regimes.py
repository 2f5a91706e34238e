"""Where a regime ends: the nearest change of an input at which two sides of a choice are equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from roofline.ops import Real, plain
from roofline.roots import narrowed
from roofline.symbolic.inputs import Input
from roofline.symbolic.traced import Traced, replayed

__all__ = ["Boundary", "moves", "nearest"]

_FARTHEST = math.log(1000.0)
_ROUNDS = 60
_EXACT = 2.0**-40
_ALL_BUT = 1.0 - 2.0**-20


class Boundary(NamedTuple):
    """Two sides of a choice; where they are equal, the regime ends."""

    left: Real
    right: Real
    label: str  # what happens there


def moves(left: Real, right: Real, name: str) -> bool:
    """Whether an input moves one number against another.

    Args:
        left: traced, or a plain float [any].
        right: likewise [any].
        name: of the input [text].

    Returns:
        Whether it does [bool].
    """
    return _slope(left, name) != _slope(right, name)


def nearest(boundaries: Sequence[Boundary], entry: Input) -> tuple[float | None, str]:
    """The nearest boundary along an input, every choice staying as it was until there.

    A first guess from values and slopes; then every boundary is looked at as far as that, to both sides: those whose
    sides have changed places on the way are nearer.

    Args:
        boundaries: sides that the input may move against each other.
        entry: the input.

    Returns:
        The change, relative to the input and signed; None where there is none within a factor of a thousand [1]. What
        happens there [text].
    """
    moved = [
        boundary
        for boundary in boundaries
        if plain(boundary.left) > 0.0 and plain(boundary.right) > 0.0 and _may_move(boundary, entry.name)
    ]
    tied = next((boundary for boundary in moved if _is_tie(boundary) and moves(*boundary[:2], entry.name)), None)
    if tied is not None:
        return 0.0, tied.label
    moved = [boundary for boundary in moved if not _is_tie(boundary)]
    guesses = {id(boundary): _guess(boundary, entry) for boundary in moved}
    reach = math.expm1(min(guesses.values(), default=math.inf))
    best: tuple[float | None, str] = (None, "")
    for _ in range(_ROUNDS):
        crossed = next(
            (
                found
                for share in (1.0, 0.5)  # half way, too: sides may change places and back
                if (
                    found := [
                        (end, side) for end in _ends(share * reach, entry) for side in _changed(moved, entry, end)
                    ]
                )
            ),
            [],
        )
        if crossed:
            end, boundary = min(crossed, key=lambda candidate: guesses[id(candidate[1])])
            change = _crossing(boundary, entry, end)
            if change is None or abs(change) > reach:
                moved.remove(boundary)
            else:
                best, reach = (change, boundary.label), abs(change) * (1.0 - _EXACT)
        elif best[0] is None and reach < math.inf:
            reach = reach * 4.0 if reach < math.expm1(_FARTHEST) else math.inf  # the guess was short
        else:
            break
    return best


def _ends(reach: float, entry: Input) -> list[float]:
    """Logarithms of an input as far as a relative change reaches, up and down, and as it can be at all."""
    up = min(math.log1p(reach), _FARTHEST)
    down = max(math.log1p(-reach) if reach < 1.0 else -_FARTHEST, -_FARTHEST)
    if entry.kind == "efficiency" and entry.name.startswith(
        ("eta_c", "eta_m", "eta_s", "eta_all", "eta_red", "eta_p2p")
    ):
        up = min(up, -math.log(entry.value))  # no share is beyond one
    if entry.name == "cache_hit":
        up = min(up, -math.log(entry.value))
    elif entry.kind in ("workload", "plan") and entry.name not in ("skew", "prefix"):
        down = max(down, -math.log(entry.value) * _ALL_BUT)  # nor a count below one, where collectives vanish
    return [end for end in (up, down) if abs(end) > _EXACT]


def _changed(boundaries: Sequence[Boundary], entry: Input, distance: float) -> list[Boundary]:
    """Boundaries whose sides have changed places at a distance."""
    sides = [side for boundary in boundaries for side in boundary[:2]]
    values = replayed(sides, {entry.name: entry.value * math.exp(distance)})
    return [
        boundary
        for boundary, left, right in zip(boundaries, values[::2], values[1::2], strict=True)
        if (left - right) * (plain(boundary.left) - plain(boundary.right)) < 0.0
    ]


def _crossing(boundary: Boundary, entry: Input, end: float) -> float | None:
    """Relative change at which both sides are equal, between here and an end beyond."""

    def gap(distance: float) -> float:
        left, right = replayed(boundary[:2], {entry.name: entry.value * math.exp(distance)})
        return left - right

    here = plain(boundary.left) - plain(boundary.right)
    distance = narrowed(gap, (0.0, here), (end, gap(end)))
    return None if math.isnan(distance) else math.expm1(distance)


def _guess(boundary: Boundary, entry: Input) -> float:
    """Distance in the logarithm of the input from values and slopes, the nearer of two; infinite where both are far.

    One takes both sides for power laws, as they are of rates, the other for straight lines, as they are of amounts.
    """
    left, right = plain(boundary.left), plain(boundary.right)
    one, other = (_slope(side, entry.name) * entry.value for side in boundary[:2])
    guesses = []
    if one / left != other / right:
        guesses.append(abs(math.log(left / right) / (one / left - other / right)))
    if one != other and (right - left) / (one - other) > -1.0:
        guesses.append(abs(math.log1p((right - left) / (one - other))))
    near = min(guesses, default=math.inf)
    return near if near <= _FARTHEST else math.inf


def _is_tie(boundary: Boundary) -> bool:
    left, right = plain(boundary.left), plain(boundary.right)
    return abs(left - right) <= _EXACT * max(left, right)


def _may_move(boundary: Boundary, name: str) -> bool:
    """Whether either side came from an input, whatever its slope here."""
    return any(type(side) is Traced and name in side.gradient for side in boundary[:2])


def _slope(number: Real, name: str) -> float:
    return float(number.gradient.get(name, 0.0)) if type(number) is Traced else 0.0
