"""Where a regime ends: the nearest value of an input at which two sides of a choice are equal."""

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

_FARTHEST = math.log(1000.0)
_ROUNDS = 60
_EXACT = 2.0**-40
_DIGITS = 9  # of a guess: boundaries at equal distance keep their order
_ALL_BUT = 1.0 - 2.0**-20

#: Signed relative change of an input at which a regime ends, None for none within a factor of 1000; what happens there.
End = tuple[float | None, str]
NOWHERE: End = (None, "")


class Boundary(NamedTuple):
    """Two positive sides of a choice; where they are equal, the regime ends."""

    left: Real
    right: Real
    label: str  # what happens there
    reach: int  # bits of the inputs that the sides depend on

    @property
    def gap(self) -> float:
        return plain(self.left) - plain(self.right)

    @property
    def is_tie(self) -> bool:
        """Whether both sides are equal up to rounding."""
        return abs(self.gap) <= _EXACT * max(plain(self.left), plain(self.right))


class Regime:
    """The choices of a traced case, and how far an input may move before one changes."""

    def __init__(self, trace: Trace, boundaries: Iterable[tuple[Real, Real, str]]) -> None:
        self._trace = trace
        self._boundaries = [
            Boundary(left, right, label, _reach(left) | _reach(right))
            for left, right, label in dict.fromkeys(boundaries)
            if plain(left) > 0.0 and plain(right) > 0.0
        ]
        self._slopes: dict[int, dict[str, float]] = {}  # of the sides, by place

    def nearest(self, entry: Input) -> End:
        """The nearest boundary along an input, all choices unchanged up to there.

        Values and slopes give a first guess of the distance. Boundaries whose sides have changed places within it, up
        or down, are nearer.
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

        def crossed_at(share: float) -> list[tuple[float, int]]:
            """Boundaries whose sides have changed places at a share of the reach: which end, and which boundary."""
            crossed = []
            for end in _ends(share * reach, entry):
                sides = values(entry.value * math.exp(end))
                crossed += [
                    (end, place)
                    for place, (gap, left, right) in enumerate(zip(gaps, sides[::2], sides[1::2], strict=True))
                    if (left - right) * gap < 0.0 and place in guesses
                ]
            return crossed

        reach = math.expm1(min(guesses.values()))
        best = NOWHERE
        for _ in range(_ROUNDS):
            crossed = crossed_at(1.0) or crossed_at(0.5)  # halfway as well: sides may cross twice
            if crossed:
                end, place = min(crossed, key=lambda candidate: round(guesses[candidate[1]], _DIGITS))
                change = self._crossing(moved[place], entry, end)
                if change is None or abs(change) > reach:
                    del guesses[place]
                else:
                    best, reach = (change, moved[place].label), abs(change) * (1.0 - _EXACT)
            elif best[0] is None and reach < math.inf:
                reach = reach * 4.0 if reach < math.expm1(_FARTHEST) else math.inf  # the guess fell short
            else:
                break
        return best

    def _slope(self, number: Real, name: str) -> float:
        if not isinstance(number, Node):
            return 0.0
        slopes = self._slopes.get(number.place)
        if slopes is None:
            slopes = self._slopes[number.place] = gradient(number)
        return slopes.get(name, 0.0)

    def _guess(self, boundary: Boundary, entry: Input) -> float:
        """Distance in the input's logarithm, from values and slopes; infinite where it is far.

        The nearer of two: with both sides as power laws (right for rates), and as straight lines (right for amounts).
        """
        left, right = plain(boundary.left), plain(boundary.right)
        rise, other = (self._slope(side, entry.name) * entry.value for side in boundary[:2])
        guesses = []
        if rise / left != other / right:
            guesses.append(abs(math.log(left / right) / (rise / left - other / right)))
        if rise != other and (right - left) / (rise - other) > -1.0:
            guesses.append(abs(math.log1p((right - left) / (rise - other))))
        near = min(guesses, default=math.inf)
        return near if near <= _FARTHEST else math.inf

    def _crossing(self, boundary: Boundary, entry: Input, end: float) -> float | None:
        """Relative change at which both sides are equal, between here and `end`; None where there is none."""
        values = Values(boundary[:2], [self._trace.input(entry.name)])

        def gap(distance: float) -> float:
            left, right = values(entry.value * math.exp(distance))
            return float(left - right)

        distance = narrowed(gap, (0.0, boundary.gap), (end, gap(end)))
        return None if math.isnan(distance) else math.expm1(distance)


def nearer(first: End, second: End) -> End:
    """The nearer of two ends of a regime; the first where they are at equal distance."""
    if first[0] is None or second[0] is None:
        return second if first[0] is None else first
    return second if abs(second[0]) < abs(first[0]) * (1.0 - _EXACT) else first


def _ends(reach: float, entry: Input) -> list[float]:
    """Ends up and down, in the input's logarithm, of a relative change, within the input's own range."""
    up = min(math.log1p(reach), _FARTHEST)
    down = max(math.log1p(-reach) if reach < 1.0 else -_FARTHEST, -_FARTHEST)
    if entry.kind == "efficiency" and entry.name.startswith(
        ("eta_c", "eta_m", "eta_s", "eta_all", "eta_red", "eta_p2p")
    ):
        up = min(up, -math.log(entry.value))  # a share is at most one
    if entry.name == "cache_hit":
        up = min(up, -math.log(entry.value))
    elif entry.kind in ("workload", "plan") and entry.name not in ("routing_skew", "prefix"):
        down = max(down, -math.log(entry.value) * _ALL_BUT)  # a count is at least one; below, collectives vanish
    return [end for end in (up, down) if abs(end) > _EXACT]


def _reach(number: Real) -> int:
    return number.reach if isinstance(number, Node) else 0
