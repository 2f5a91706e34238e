"""Capacity within an SLO: the largest rate that a deployment, or a pair of pools, sustains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from roofline.numbers.operations import Json, is_nan
from roofline.numbers.roots import narrowed
from roofline.physics.plan import Deployment
from roofline.serving.latency import UNCORRECTED, Correction, Served, Workload, lanes, mean_gap
from roofline.serving.load.equations import saturation, served, server_of
from roofline.serving.load.joint import joint_share, share_within
from roofline.serving.load.pools import Pooled, Pools, pool_tails, pooled
from roofline.serving.load.server import prompt_of
from roofline.serving.load.tails import (
    Tails,
    equal_steps,
    latency_over_requests,
    limited_latencies,
    tails,
)
from roofline.serving.verdict import FAIL, IN_RANGE, LIKELY, UNKNOWN, UNLIKELY
from roofline.specs.load import Rate
from roofline.specs.workload import BETWEEN_TOKENS, LATENCIES, OF_REQUESTS, P99_WITHIN, metric_and_level
from roofline.support.errors import Overloaded
from roofline.support.records import NamedTuple, replace

# Goodput: the largest rate at which an SLO is met, and the limit that binds there.
#
# A limit means what it means in a prediction: on the mean, or on the percentile that it names. A share of requests,
# where one is asked for, replaces the mean: so many must meet all limits without a percentile together.

#: What binds where every limit is met up to saturation.
SATURATION = "saturation"

#: What binds where a limited percentile is not known beyond.
NOT_KNOWN = "not known beyond"

#: Share of the saturation rate at which a server counts as idle.
LEAST = 2.0**-12

#: Share of the saturation rate below which a goodput is next to nothing.
IDLE = 0.05
#: Share of the saturation rate up to which rates are tried.
MOST = 0.999

_CLOSE = 2.0**-30
_SLACK = 2.0**-12  # relative, of a limit and of a rate, within which it binds


class Goodput(NamedTuple):
    rate: float  # [1/s] of the whole deployment; 0 where even an idle server misses a limit
    util: float  # rate / max_request_rate [1]
    max_request_rate: float  # [1/s] saturation
    binding: str  # key of the limit just met, or missed on an idle server; `SATURATION` or `NOT_KNOWN`
    attained: Mapping[str, float]  # share of requests within each limit; for `p99_within` the multiple [1]
    joint: float  # share of requests within all limits without a percentile [1]

    @property
    def is_idle(self) -> bool:
        """Whether next to nothing is answered, so that a price, or a change in percent, says nothing."""
        return self.util < IDLE

    @property
    def is_known(self) -> bool:
        """Whether it is the largest; otherwise a limited percentile is not known beyond."""
        return self.binding != NOT_KNOWN


class WithinLimits(NamedTuple):
    shares: dict[str, float]  # of requests within each limit by its key; for `p99_within` the multiple of the median
    joint: float  # share of requests within all limits without a percentile


def attained(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    means: Served,
    share: float | None = None,
    correction: Correction = UNCORRECTED,
) -> WithinLimits:
    r"""Shares of requests that meet their limits.

    .. math:: s = P(TTFT \le t,\ TPOT \le g,\ E2EL \le e)

    TTFT and TPOT of a request are taken as independent; its E2EL depends on both (`joint_share`).

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths and load.
        slo: limits by their keys [s].
        means: mean latencies under the load.
        share: that is required, at which the distributions must hold; None: at their medians [1].
        correction: from a measurement of this deployment.

    Returns:
        Share within each limit by its key, for `p99_within` the multiple of the median; and the share s within all
        limits without a percentile [1]. NaN where the distribution contradicts its mean (`latency_percentile`).

    Source:
        Goodput and SLO attainment: Zhong et al., "DistServe", OSDI 2024.
    """
    raw = _latencies(deployment, workload, means)
    factors = None
    if correction != UNCORRECTED:
        corrected = limited_latencies(deployment, workload, OF_REQUESTS, correction)
        factors = {name: float(corrected[name] / raw[name]) for name in OF_REQUESTS}
        factors["itl"] = factors["tpot"]
    return shares_within(tails(deployment, workload, means), slo, workload, raw, share, factors)


def shares_within(
    tails: Tails,
    slo: Mapping[str, float],
    workload: Workload,
    means: Mapping[str, float],
    share: float | None = None,
    factors: Mapping[str, float] | None = None,
) -> WithinLimits:
    """Shares as `attained` returns them, from the distributions of the latencies; factors correct each latency.

    `means` are those that the distributions stand for [s].
    """
    is_single = workload.osl <= 1.0
    means = {**means, "tpot": 0.0} if is_single else means
    steps, usual = equal_steps(workload), 50.0 if share is None else 100.0 * share

    def is_unknown(metric: str, level: float | None) -> bool:
        return bool(is_nan(latency_over_requests(tails, means, steps, metric, usual if level is None else level)))

    shares: dict[str, float] = {}
    together: dict[str, float] = {}
    for key, limit in slo.items():
        metric, level = metric_and_level(key)
        if metric == P99_WITHIN:
            shares[key] = float(latency_over_requests(tails, means, steps, metric, level))
        elif metric in BETWEEN_TOKENS and is_single:
            shares[key] = 1.0
        else:
            bound = limit if factors is None else limit / factors[metric]
            shares[key] = share_within(tails, metric, bound)
            if is_unknown(metric, level):
                shares[key] = float("nan")
            if level is None and metric in OF_REQUESTS:
                together[metric] = bound
    unknown = any(is_nan(share) for key, share in shares.items() if key in LATENCIES)
    return WithinLimits(shares, float("nan") if unknown else joint_share(tails, together))


def largest_rate(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float | None = None,
    correction: Correction = UNCORRECTED,
) -> Goodput:
    """Largest rate of Poisson arrivals at which an SLO is met.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths; its load is ignored.
        slo: limits by their keys, at least one [s].
        share: of requests that must meet all limits without a percentile together; None for limits on means [1].
        correction: from a measurement of this deployment.

    Returns:
        The rate, and what binds.

    Valid:
        As `roofline.serving.load.tails`.

    Source:
        docs/method.md, "Goodput".
    """
    idle = replace(workload, load=Rate(1.0))
    server = server_of(deployment, idle)
    saturation_rate = float(saturation(server, prompt_of(server)).rate * lanes(deployment))

    def excesses(util: float) -> dict[str, float] | None:
        loaded = replace(idle, load=Rate(util * saturation_rate))
        means = served(deployment, loaded)
        return _excesses(deployment, loaded, slo, share, correction, means) if means.is_stable else None

    def within(util: float) -> WithinLimits:
        loaded = replace(idle, load=Rate(util * saturation_rate))
        means = served(deployment, loaded)
        if not means.is_stable:
            return WithinLimits({}, 0.0)
        return attained(deployment, loaded, slo, means, share, correction)

    return largest_within(excesses, within, saturation_rate)


def largest_within(
    excesses: Callable[[float], dict[str, float] | None], within: Callable[[float], WithinLimits], most: float
) -> Goodput:
    """The largest share of a saturation rate at which no limit is exceeded, as a goodput.

    `excesses` gives by how much each limit is exceeded at a share, infinite where that is not known, None without a
    steady state; `within` the shares of requests there; `most` is the saturation rate [1/s].
    """
    unknown = float("inf")  # smallest share above the answer at which a limited percentile is not known
    unstable = 1.0  # smallest share of the saturation rate at which there is no steady state
    seen: dict[float, str] = {}

    def shortfall(util: float) -> float:
        nonlocal unstable, unknown
        exceeded = excesses(util)
        if exceeded is None:
            unstable = min(unstable, util)
            seen[util] = SATURATION
            return 1.0
        seen[util] = max(exceeded, key=lambda key: exceeded[key])
        if exceeded[seen[util]] == float("inf") and util > last_met[0]:
            unknown = min(unknown, util)
        return exceeded[seen[util]]

    def answer(util: float, rate: float) -> Goodput:
        return Goodput(rate, rate / most, most, seen[util], *within(util))

    last_met = (0.0, 0.0)
    idle_shortfall = shortfall(LEAST)
    if idle_shortfall > 0.0 and seen[LEAST] != P99_WITHIN:
        return answer(LEAST, 0.0)
    last_met = (LEAST, idle_shortfall)
    for util in (0.1, 0.3, 0.5, 0.7, 0.85, 0.95, MOST):
        missing = shortfall(util)
        if missing > 0.0 >= last_met[1]:
            break
        last_met = (util, missing)
    if last_met[1] > 0.0:
        return answer(LEAST, 0.0)
    if missing <= 0.0:
        return answer(MOST, MOST * most)._replace(binding=SATURATION)
    util = narrowed(shortfall, last_met, (util, missing))
    missing = shortfall(util)
    if missing > 0.0:
        util *= 1.0 - _CLOSE
        missing = shortfall(util)
    if missing > 0.0:  # a limit that comes and goes
        util = last_met[0]
        missing = shortfall(util)
    best = answer(util, util * most)
    if missing < -_SLACK:  # a jump: what is exceeded just above it
        best = best._replace(binding=seen[min(above for above in seen if above > util)])
    is_full = missing < -_SLACK and unstable < util * (1.0 + _SLACK)
    if unknown < util * (1.0 + _SLACK) and not is_full:
        return best._replace(binding=NOT_KNOWN)
    return best._replace(binding=SATURATION) if is_full else best


def share_verdict(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float,
    correction: Correction = UNCORRECTED,
) -> dict[str, Json]:
    """Whether a share of requests meets all limits without a percentile together, as keys of a row.

    Empty where no limit applies.
    """
    if workload.osl <= 1.0 and all(metric_and_level(key)[0] in BETWEEN_TOKENS for key in slo):
        return {}
    means = served(deployment, workload)
    if not means.is_stable:
        return {"slo_met": False, "slo_verdict": FAIL, "slo_reason": Overloaded.short}
    over = _excesses(deployment, workload, slo, share, correction, means).values()
    if any(excess > 0.0 for excess in over if excess != float("inf")):
        return {"slo_met": False, "slo_verdict": UNLIKELY, "slo_reason": IN_RANGE}
    if float("inf") in over:
        return {"slo_met": False, "slo_verdict": None, "slo_reason": UNKNOWN}
    return {"slo_met": True, "slo_verdict": LIKELY, "slo_reason": IN_RANGE}


def _excesses(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float | None,
    correction: Correction,
    means: Served,
) -> dict[str, float]:
    """By how much each limit is exceeded [1]; with a share, limits without a percentile by the requests missing."""
    together = () if share is None else tuple(key for key in slo if key in OF_REQUESTS)
    single = {key: limit for key, limit in slo.items() if key not in together}
    times = limited_latencies(deployment, workload, single, correction, means)
    exceeded = {key: float(times[key]) / limit - 1.0 for key, limit in single.items()}
    if share is not None and together:
        limits = {key: slo[key] for key in together}
        exceeded |= _missing(attained(deployment, workload, limits, means, share, correction), share)
    return exceeded


def _latencies(decoding: Deployment, workload: Workload, means: Served | Pooled) -> dict[str, float]:
    """Mean latencies, not corrected by a measurement [s]."""
    gap = mean_gap(decoding, workload, means.tpot, means.decode)
    return {"ttft": means.ttft, "tpot": means.tpot, "itl": gap, "e2el": means.ttft + means.decode}


def _missing(within: WithinLimits, share: float) -> dict[str, float]:
    """Share of requests missing under the limit that fewest meet [1]; infinite where that is not known."""
    unknown = [key for key, met in within.shares.items() if is_nan(met)]
    if unknown:
        return {unknown[0]: float("inf")}
    return {min(within.shares, key=lambda key: within.shares[key]): share - within.joint}


# Goodput of separate prefill and decode pools, and the TPOT limits at which one pool overtakes them.

# Shares of the largest rate.
_CURVE = (LEAST, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Crossover(NamedTuple):
    """A TPOT limit at which one way of serving overtakes the other."""

    tpot: float  # [s]
    rate: float  # [1/s] of both
    to_pools: bool  # separate pools answer more at looser limits


def pool_goodput(pools: Pools, workload: Workload, slo: Mapping[str, float], share: float | None = None) -> Goodput:
    """Largest rate of Poisson arrivals at which two pools meet an SLO.

    Args:
        pools: both deployments and the link.
        workload: lengths; its load is ignored.
        slo: limits by their keys, at least one [s].
        share: of requests that must meet all limits without a percentile together; None for limits on means [1].

    Returns:
        The rate, and what binds.

    Valid:
        As `roofline.serving.load.pools.pool_tails`.

    Source:
        docs/method.md, "Goodput".
    """
    idle = replace(workload, load=Rate(1.0))
    saturation_rate = float(pooled(pools, idle).max_request_rate)
    together = () if share is None else tuple(key for key in slo if key in OF_REQUESTS)

    def tails_at(util: float) -> tuple[Pooled, Tails] | None:
        loaded = replace(idle, load=Rate(util * saturation_rate))
        means = pooled(pools, loaded)
        return (means, pool_tails(pools, loaded, means)) if means.is_stable else None

    def excesses(util: float) -> dict[str, float] | None:
        known = tails_at(util)
        if known is None:
            return None
        times = pool_latencies(pools, *known, idle, [key for key in slo if key not in together])
        exceeded = {key: time / slo[key] - 1.0 for key, time in times.items()}
        if share is not None and together:
            limits = {key: slo[key] for key in together}
            exceeded |= _missing(
                shares_within(known[1], limits, idle, _latencies(pools.decode, idle, known[0]), share), share
            )
        return exceeded

    def within(util: float) -> WithinLimits:
        known = tails_at(util)
        return (
            WithinLimits({}, 0.0)
            if known is None
            else shares_within(known[1], slo, idle, _latencies(pools.decode, idle, known[0]), share)
        )

    return largest_within(excesses, within, saturation_rate)


def pool_latencies(
    pools: Pools, means: Pooled, tails: Tails, workload: Workload, keys: Iterable[str]
) -> dict[str, float]:
    """Latencies of two pools by the keys of limits [s], infinite where not known; p99 over median [1]."""
    tpot = means.tpot if workload.osl > 1.0 else 0.0
    means_of = {**_latencies(pools.decode, workload, means), "tpot": tpot}
    steps = equal_steps(workload)
    known = {key: float(latency_over_requests(tails, means_of, steps, *metric_and_level(key))) for key in keys}
    if workload.osl <= 1.0:
        known |= {key: 0.0 for key in known if metric_and_level(key)[0] in BETWEEN_TOKENS}  # one token has none
    return {key: float("inf") if is_nan(time) else time for key, time in known.items()}


def crossovers(
    pools: Pools, replica: Deployment, workload: Workload, replicas: float, width: float = 1.0
) -> tuple[list[Crossover], float, float]:
    """Limits on the mean TPOT at which two pools and one pool of the same price have the same throughput.

    Args:
        pools: both deployments and the link.
        replica: of the single pool.
        workload: lengths.
        replicas: of the single pool; may be a fraction [1].
        width: high over low end of the 80 % interval of TPOT [1].

    Returns:
        The crossings by rising TPOT, without ranges of limits that are narrower than that interval; the largest rates
        of the two pools and of the single pool [1/s].

    Source:
        Linear interpolation of both curves of TPOT over the rate.
    """
    idle = replace(workload, load=Rate(1.0))
    server = server_of(replica, idle)
    one_pool_rate = float(saturation(server, prompt_of(server)).rate * lanes(replica)) * replicas
    two_pools_rate = float(pooled(pools, idle).max_request_rate)

    def of_one(rate: float) -> float:
        means = served(replica, replace(idle, load=Rate(rate / replicas)))
        return float(means.tpot) if means.is_stable else float("inf")

    def of_pools(rate: float) -> float:
        means = pooled(pools, replace(idle, load=Rate(rate)))
        return float(means.tpot) if means.is_stable else float("inf")

    two_pools, one_pool = _tpot_curve(of_pools, two_pools_rate), _tpot_curve(of_one, one_pool_rate)
    if not two_pools or not one_pool:
        return [], two_pools_rate, one_pool_rate
    ends = sorted({tpot for tpot, _ in (*two_pools, *one_pool)})
    crossings: list[Crossover] = []
    for low, high in pairwise(ends):
        before, after = (_rate_within(two_pools, end) - _rate_within(one_pool, end) for end in (low, high))
        if (before > 0.0) != (after > 0.0) and after != before:
            share = before / (before - after)
            tpot = low + share * (high - low)
            crossings.append(Crossover(tpot, _rate_within(two_pools, tpot), after > 0.0))
    return wide_ranges(crossings, ends[0], width), two_pools_rate, one_pool_rate


def wide_ranges(crossings: Sequence[Crossover], least: float, width: float) -> list[Crossover]:
    """Crossings between ranges of limits [s] whose ends differ by a factor of at least `width`; `least`: the lowest.

    A narrower range falls to the way of serving that answers more on both sides of it; the first, to the next one.

    >>> narrow = [Crossover(2.0, 1.0, True), Crossover(8.0, 1.0, False), Crossover(8.1, 1.0, True)]
    >>> [crossing.tpot for crossing in wide_ranges(narrow, 1.0, 1.5)]
    [2.0]
    >>> wide_ranges(narrow[:1], 1.9, 1.5)
    []
    """
    kept = list(crossings)
    while kept:
        ends = [least, *(crossing.tpot for crossing in kept)]
        narrowest = min(range(len(kept)), key=lambda place: ends[place + 1] / ends[place])
        if ends[narrowest + 1] / ends[narrowest] >= width:
            break
        del kept[max(narrowest - 1, 0) : narrowest + 1]
    return kept


def _tpot_curve(tpot_at: Callable[[float], float], largest_rate: float) -> list[tuple[float, float]]:
    """Pairs of mean TPOT [s] and rate [1/s], both rising."""
    points: list[tuple[float, float]] = []
    for share in _CURVE:
        tpot = tpot_at(share * largest_rate)
        if tpot == float("inf"):
            break
        if not points or tpot > points[-1][0]:
            points.append((tpot, share * largest_rate))
    return points


def _rate_within(points: Sequence[tuple[float, float]], limit: float) -> float:
    """Rate at which the mean TPOT just meets a limit; 0 if an idle server misses it."""
    if limit < points[0][0]:
        return 0.0
    for (low, near), (high, far) in pairwise(points):
        if limit <= high:
            return near + (limit - low) / (high - low) * (far - near)
    return points[-1][1]
