"""Goodput of separate prefill and decode pools, and the TPOT limits at which one pool overtakes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from roofline.analysis.goodput import LEAST, Goodput, WithinLimits, largest_within, shares_within
from roofline.elements import is_nan
from roofline.physics.plan import Deployment
from roofline.records import NamedTuple, replace
from roofline.serving.disaggregation import Pools
from roofline.serving.latency import Workload
from roofline.serving.served import lanes
from roofline.serving.targets import equal_steps, latency_over_requests
from roofline.serving.traffic.load import served, server_of
from roofline.serving.traffic.pools import Pooled, pool_tails, pooled
from roofline.serving.traffic.prompts import prompt_of
from roofline.serving.traffic.slots import saturation
from roofline.serving.traffic.tails import Tails
from roofline.specs.slo import LATENCIES, metric_and_level

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
        As `roofline.serving.traffic.pools.pool_tails`.

    Source:
        docs/method.md, "Goodput".
    """
    idle = replace(workload, batch=1.0, concurrency=None, num_prompts=None, request_rate=1.0)
    saturation_rate = float(pooled(pools, idle).max_request_rate)
    together = () if share is None else tuple(key for key in slo if key in LATENCIES)

    def tails_at(util: float) -> tuple[Pooled, Tails] | None:
        loaded = replace(idle, request_rate=util * saturation_rate)
        means = pooled(pools, loaded)
        return (means, pool_tails(pools, loaded, means)) if means.is_stable else None

    def excesses(util: float) -> dict[str, float] | None:
        known = tails_at(util)
        if known is None:
            return None
        times = pool_latencies(*known, idle, [key for key in slo if key not in together])
        exceeded = {key: time / slo[key] - 1.0 for key, time in times.items()}
        if share is not None and together:
            attained = shares_within(known[1], {key: slo[key] for key in together}, float(idle.osl))
            exceeded[min(together, key=lambda key: attained.shares[key])] = share - attained.joint
        return exceeded

    def within(util: float) -> WithinLimits:
        known = tails_at(util)
        return WithinLimits({}, 0.0) if known is None else shares_within(known[1], slo, float(idle.osl))

    return largest_within(excesses, within, saturation_rate)


def pool_latencies(means: Pooled, tails: Tails, workload: Workload, keys: Iterable[str]) -> dict[str, float]:
    """Latencies of two pools by the keys of limits [s], infinite where not known; p99 over median [1]."""
    tpot = means.tpot if workload.osl > 1.0 else 0.0
    means_of = {"ttft": means.ttft, "tpot": tpot, "e2el": means.ttft + means.decode}
    steps = equal_steps(workload)
    known = {key: float(latency_over_requests(tails, means_of, steps, *metric_and_level(key))) for key in keys}
    if workload.osl <= 1.0:
        known |= {key: 0.0 for key in known if metric_and_level(key)[0] == "tpot"}  # one token has none
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
    idle = replace(workload, batch=1.0, concurrency=None, num_prompts=None, request_rate=1.0)
    server = server_of(replica, idle)
    one_pool_rate = float(saturation(server, prompt_of(server)).rate * lanes(replica)) * replicas
    two_pools_rate = float(pooled(pools, idle).max_request_rate)

    def of_one(rate: float) -> float:
        means = served(replica, replace(idle, request_rate=rate / replicas))
        return float(means.tpot) if means.is_stable else float("inf")

    def of_pools(rate: float) -> float:
        means = pooled(pools, replace(idle, request_rate=rate))
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
