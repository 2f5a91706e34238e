"""Which part of a pass best explains a measured time outside its 80 % range."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofline.records import NamedTuple

#: Largest plausible error of the time of a part; beyond this factor the cause is something else.
MOST_PLAUSIBLE = 10.0
MOST_SUSPECTS = 2
#: Sigma of a part without residuals.
UNMEASURED = 0.5

_SCATTER = 0.05  # run-to-run sigma of ln(measured time)
_NEAR = 2.0  # standard deviations within which a time counts as explained
_BEYOND = 4.0  # most standard deviations that a part may be off by
_TRIED = 400  # factors between the smallest and the largest plausible


class PartOf(NamedTuple):
    name: str
    time: float  # [s]
    sigma: float  # of ln(predicted / measured) of its time
    fastest: float  # [s] at full rates of the hardware


class Timed(NamedTuple):
    """A measured time with its prediction and the parts of that."""

    metric: str
    measured: float  # [s]
    predicted: float  # [s]
    parts: tuple[PartOf, ...]
    sigma: float  # of ln(predicted / measured) of the whole time
    is_outside: bool  # outside its 80 % range


class Suspect(NamedTuple):
    """A part that explains times outside their range if off by a factor."""

    part: str
    factor: float  # on its predicted time
    sigmas: float  # ln(factor) over the uncertainty of its time
    explains: tuple[str, ...]  # metrics
    cost: float  # implausibility of the factor plus what it leaves unexplained, in variances


def ranked_suspects(times: Sequence[Timed]) -> tuple[Suspect, ...]:
    r"""Parts that explain the times outside their range, the most plausible first, two at most.

    The second one explains what the first leaves where any does, else it is the next most plausible.

    .. math:: \min_{x, M} \left(\frac{\ln x}{\sigma_i}\right)^2
              + \sum_m \left(\frac{1}{s_m} \ln \frac{t_m}{\hat t_m + [m \in M]\, (x - 1)\, \hat t_{m,i}}\right)^2

    One factor x on part i of TTFT, TPOT or both (M), at most `MOST_PLAUSIBLE` and four sigma, makes no part faster than
    the hardware limit. A time outside its range must be met within the scatter of measurements (s), one inside within
    the sigma of its prediction, so that explaining both is more plausible than explaining one.

    Args:
        times: each measured time with its parts.

    Returns:
        The suspects; none where no single part explains any of the times.

    Source:
        Maximum likelihood of a single cause with log-normal residuals; docs/measurements.md.
    """
    names = dict.fromkeys(part.name for timed in times for part in timed.parts)
    suspects = [suspect for name in names if (suspect := _suspect(name, times)) is not None]
    ranked = sorted(suspects, key=lambda suspect: suspect.cost)
    if not ranked:
        return ()
    others = sorted(ranked[1:], key=lambda suspect: set(suspect.explains) <= set(ranked[0].explains))
    return (ranked[0], *others[: MOST_SUSPECTS - 1])


def _suspect(name: str, times: Sequence[Timed]) -> Suspect | None:
    """A part at its likeliest factor on one or both times; None where it explains none."""
    affected = [(timed, part) for timed in times for part in timed.parts if part.name == name]
    choices = [affected] if len(affected) == 1 else [affected, affected[:1], affected[1:]]
    candidates = [candidate for parts in choices if (candidate := _best_factor(parts, times)) is not None]
    return min(candidates, key=lambda suspect: suspect.cost, default=None)


def _best_factor(parts: list[tuple[Timed, PartOf]], times: Sequence[Timed]) -> Suspect | None:
    """A part at its likeliest factor on all of these times; None where it explains none."""
    limit = max(part.fastest / part.time for _, part in parts)  # no part is faster than the hardware
    low = math.log(min(max(limit, 1.0 / MOST_PLAUSIBLE), 1.0))
    width = math.log(MOST_PLAUSIBLE) - low
    sigma = min(part.sigma for _, part in parts)
    factors = [math.exp(low + step / _TRIED * width) for step in range(_TRIED + 1)]
    cost, factor = min((_cost(factor, sigma, parts, times), factor) for factor in factors)
    explains = tuple(
        timed.metric
        for timed, part in parts
        if timed.is_outside and abs(_remaining_gap(timed, part, factor)) <= _NEAR * _SCATTER
    )
    sigmas = abs(math.log(factor)) / sigma
    return Suspect(parts[0][1].name, factor, sigmas, explains, cost) if explains and sigmas <= _BEYOND else None


def _cost(factor: float, sigma: float, affected: list[tuple[Timed, PartOf]], times: Sequence[Timed]) -> float:
    """Implausibility of a factor plus what it leaves unexplained, in variances."""
    parts = {timed.metric: part for timed, part in affected}
    remainders = (
        _remaining_gap(timed, parts.get(timed.metric), factor) / (_SCATTER if timed.is_outside else timed.sigma)
        for timed in times
    )
    return (math.log(factor) / sigma) ** 2 + sum(remainder * remainder for remainder in remainders)


def _remaining_gap(timed: Timed, part: PartOf | None, factor: float) -> float:
    """ln(measured / predicted) with the factor on one part."""
    predicted = timed.predicted + (0.0 if part is None else (factor - 1.0) * part.time)
    return math.log(timed.measured / predicted)
