"""Which part of a pass explains a time outside its range: what needs the least that its own residuals do not allow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofline.records import NamedTuple

__all__ = ["MOST_PLAUSIBLE", "MOST_SUSPECTS", "UNMEASURED", "PartOf", "Suspect", "Timed", "ranked_suspects"]

#: A part of a step may be off by this factor; beyond it, something else is going on.
MOST_PLAUSIBLE = 10.0
#: More than so many suspects are no help.
MOST_SUSPECTS = 2
#: Sigma of a part of which nothing says how uncertain it is.
UNMEASURED = 0.5

_SCATTER = 0.05  # sigma of the logarithm of a measured time, from run to run of one server
_NEAR = 2.0  # standard deviations within which a time is explained
_BEYOND = 4.0  # standard deviations of its own residuals that no part is off by
_TRIED = 400  # factors between the smallest and the largest plausible one


class PartOf(NamedTuple):
    """A part of a predicted time."""

    name: str
    time: float  # [s]
    sigma: float  # of ln(predicted / measured) of its time
    fastest: float  # [s] at full rates of the hardware


class Timed(NamedTuple):
    """A measured time, its prediction, and the parts of it."""

    metric: str
    measured: float  # [s]
    predicted: float  # [s]
    parts: tuple[PartOf, ...]
    sigma: float  # of ln(predicted / measured) of the whole time
    is_outside: bool  # whether it is outside its 80 % range


class Suspect(NamedTuple):
    """A part that explains times outside their range, and by how much it would have to be off."""

    part: str
    factor: float  # on its time
    sigmas: float  # ln(factor) over the uncertainty of its time
    explains: tuple[str, ...]  # metrics
    cost: float  # what is left unexplained and what the factor takes, in variances


def ranked_suspects(times: Sequence[Timed]) -> tuple[Suspect, ...]:
    r"""Parts that explain the times outside their range, the most plausible first, two at most.

    The second is the next most plausible that explains what the first leaves, else the next most plausible.

    .. math:: \min_{x, M} \left(\frac{\ln x}{\sigma_i}\right)^2
              + \sum_m \left(\frac{1}{s_m} \ln \frac{t_m}{\hat t_m + [m \in M]\, (x - 1)\, \hat t_{m,i}}\right)^2

    One factor x on part i of TTFT, of TPOT or of both (M); it leaves no part faster than the hardware, and is at most
    `MOST_PLAUSIBLE` and four sigma. A time outside its range must be met within the scatter of a measurement (s), one
    inside it within the sigma of its prediction: what explains both is more plausible than what explains one.

    Args:
        times: each measured time with its parts.

    Returns:
        The suspects; none where no part alone explains any of the times.

    Source:
        The likeliest single cause, with residuals taken to be log-normal; docs/measurements.md.
    """
    names = dict.fromkeys(part.name for timed in times for part in timed.parts)
    ranked = sorted(
        (suspect for name in names if (suspect := _suspect(name, times)) is not None), key=lambda each: each.cost
    )
    if not ranked:
        return ()
    others = sorted(ranked[1:], key=lambda each: set(each.explains) <= set(ranked[0].explains))  # what is left first
    return (ranked[0], *others[: MOST_SUSPECTS - 1])


def _suspect(name: str, times: Sequence[Timed]) -> Suspect | None:
    """A part at its likeliest factor, on whichever of the times; None where it explains none."""
    having = [(timed, part) for timed in times for part in timed.parts if part.name == name]
    tried = [having] if len(having) == 1 else [having, having[:1], having[1:]]
    ways = [way for held in tried if (way := _way(held, times)) is not None]
    return min(ways, key=lambda suspect: suspect.cost, default=None)


def _way(held: list[tuple[Timed, PartOf]], times: Sequence[Timed]) -> Suspect | None:
    """A part of some times at the likeliest factor on all of them."""
    limit = max(part.fastest / part.time for _, part in held)  # no part is faster than the hardware
    low = math.log(min(max(limit, 1.0 / MOST_PLAUSIBLE), 1.0))
    wide = math.log(MOST_PLAUSIBLE) - low
    sigma = min(part.sigma for _, part in held)
    factors = [math.exp(low + step / _TRIED * wide) for step in range(_TRIED + 1)]
    cost, factor = min((_cost(factor, sigma, held, times), factor) for factor in factors)
    explains = tuple(
        timed.metric for timed, part in held if timed.is_outside and abs(_left(timed, part, factor)) <= _NEAR * _SCATTER
    )
    sigmas = abs(math.log(factor)) / sigma
    return Suspect(held[0][1].name, factor, sigmas, explains, cost) if explains and sigmas <= _BEYOND else None


def _cost(factor: float, sigma: float, held: list[tuple[Timed, PartOf]], times: Sequence[Timed]) -> float:
    """What a factor takes, and what it leaves, in variances."""
    parts = {timed.metric: part for timed, part in held}
    left = (
        _left(timed, parts.get(timed.metric), factor) / (_SCATTER if timed.is_outside else timed.sigma)
        for timed in times
    )
    return (math.log(factor) / sigma) ** 2 + sum(each * each for each in left)


def _left(timed: Timed, part: PartOf | None, factor: float) -> float:
    """ln(measured / predicted) once a part takes so many times as long."""
    predicted = timed.predicted + (0.0 if part is None else (factor - 1.0) * part.time)
    return math.log(timed.measured / predicted)
