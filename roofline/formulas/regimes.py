"""Where a regime ends: the nearest change of an input at which two sides of a choice are equal."""

from __future__ import annotations

import math
from collections.abc import Iterable

from roofline.formulas.inputs import Input
from roofline.ops import Real, plain
from roofline.records import NamedTuple
from roofline.roots import narrowed
from roofline.symbolic.gradient import gradient
from roofline.symbolic.graph import Node
from roofline.symbolic.traced import Trace
from roofline.symbolic.values import Values

__all__ = ["NOWHERE", "Boundary", "End", "Regime", "nearer"]

_FARTHEST = math.log(1000.0)
_ROUNDS = 60
_EXACT = 2.0**-40
_DIGITS = 9  # of a first guess: equally near boundaries keep their order
_ALL_BUT = 1.0 - 2.0**-20

#: The relative change of an input at which a regime ends, None where none is near, and what happens there.
End = tuple[float | None, str]
NOWHERE: End = (None, "")


class Boundary(NamedTuple):
    """Two positive sides of a choice; where they are equal, the regime ends."""

    left: Real
    right: Real
    label: str  # what happens there
    reach: int  # bits of the inputs that they came from

    @property
    def gap(self) -> float:
        """How far the sides are apart, signed."""
        return plain(self.left) - plain(self.right)

    @property
    def is_tie(self) -> bool:
        """Whether both sides are equal to rounding."""
        return abs(self.gap) <= _EXACT * max(plain(self.left), plain(self.right))


class Regime:
    """The sides that the choices of a traced case took, and how far an input may move before one changes."""

    def __init__(self, trace: Trace, boundaries: Iterable[tuple[Real, Real, str]]) -> None:
        self._trace = trace
        self._boundaries = [
            Boundary(left, right, label, _reach(left) | _reach(right))
            for left, right, label in dict.fromkeys(boundaries)
            if plain(left) > 0.0 and plain(right) > 0.0
        ]
        self._slopes: dict[int, dict[str, float]] = {}  # of the sides, by place

    def nearest(self, entry: Input) -> End:
        """The nearest boundary along an input, every choice staying as it was until there.

        A first guess from values and slopes; then every boundary is looked at as far as that, to both sides: those
        whose sides have changed places on the way are nearer.

        Args:
            entry: the input.

        Returns:
            The change, relative to the input and signed; None where there is none within a factor of a thousand [1].
            What happens there [text].
        """
        name, bit = entry.name, self._trace.bit(entry.name)
        moved = [boundary for boundary in self._boundaries if boundary.reach & bit]
        for boundary in moved:
            if boundary.is_tie and self._slope(boundary.left, name) != self._slope(boundary.right, name):
                return 0.0, boundary.label
        moved = [boundary for boundary in moved if not boundary.is_tie]
        if not moved:
            return NOWHERE
        guesses = {place: self._guess(boundary, entry) for place, boundary in enumerate(moved)}
        values = Values([side for boundary in moved for side in boundary[:2]], [self._trace.input(name)])
        gaps = [boundary.gap for boundary in moved]

        def changed(share: float) -> list[tuple[float, int]]:
            """Ends, at a share of the reach, and places of boundaries whose sides have changed places there."""
            found = []
            for end in _ends(share * reach, entry):
                sides = values(entry.value * math.exp(end))
                found += [
                    (end, place)
                    for place, (gap, left, right) in enumerate(zip(gaps, sides[::2], sides[1::2], strict=True))
                    if (left - right) * gap < 0.0 and place in guesses
                ]
            return found

        reach = math.expm1(min(guesses.values()))
        best = NOWHERE
        for _ in range(_ROUNDS):
            crossed = changed(1.0) or changed(0.5)  # half way, too: sides may change places and back
            if crossed:
                end, place = min(crossed, key=lambda candidate: round(guesses[candidate[1]], _DIGITS))
                change = self._crossing(moved[place], entry, end)
                if change is None or abs(change) > reach:
                    del guesses[place]
                else:
                    best, reach = (change, moved[place].label), abs(change) * (1.0 - _EXACT)
            elif best[0] is None and reach < math.inf:
                reach = reach * 4.0 if reach < math.expm1(_FARTHEST) else math.inf  # the guess was short
            else:
                break
        return best

    def _slope(self, number: Real, name: str) -> float:
        if not isinstance(number, Node):
            return 0.0
        found = self._slopes.get(number.place)
        if found is None:
            found = self._slopes[number.place] = gradient(number)
        return found.get(name, 0.0)

    def _guess(self, boundary: Boundary, entry: Input) -> float:
        """Distance in the logarithm of the input from values and slopes, the nearer of two; infinite where it is far.

        One takes both sides for power laws, as they are of rates, the other for straight lines, as they are of amounts.
        """
        left, right = plain(boundary.left), plain(boundary.right)
        one, other = (self._slope(side, entry.name) * entry.value for side in boundary[:2])
        guesses = []
        if one / left != other / right:
            guesses.append(abs(math.log(left / right) / (one / left - other / right)))
        if one != other and (right - left) / (one - other) > -1.0:
            guesses.append(abs(math.log1p((right - left) / (one - other))))
        near = min(guesses, default=math.inf)
        return near if near <= _FARTHEST else math.inf

    def _crossing(self, boundary: Boundary, entry: Input, end: float) -> float | None:
        """Relative change at which both sides are equal, between here and an end beyond."""
        values = Values(boundary[:2], [self._trace.input(entry.name)])

        def gap(distance: float) -> float:
            left, right = values(entry.value * math.exp(distance))
            return float(left - right)

        distance = narrowed(gap, (0.0, boundary.gap), (end, gap(end)))
        return None if math.isnan(distance) else math.expm1(distance)


def nearer(one: End, other: End) -> End:
    """The nearer of two ends of a regime.

    Args:
        one: an end.
        other: another.

    Returns:
        The nearer; the first where both are equally near.
    """
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    return other if abs(other[0]) < abs(one[0]) * (1.0 - _EXACT) else one


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


def _reach(number: Real) -> int:
    return number.reach if isinstance(number, Node) else 0
