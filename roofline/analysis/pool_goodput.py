"""Goodput of two pools: the largest rate at which enough requests meet an SLO, and what one pool answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from roofline.analysis.goodput import LEAST, SATURATION, Goodput
from roofline.physics.plan import Deployment
from roofline.records import NamedTuple, replace
from roofline.roots import narrowed
from roofline.serving.disaggregation import Pools
from roofline.serving.latency import Workload
from roofline.serving.served import lanes
from roofline.serving.traffic.load import served, server_of
from roofline.serving.traffic.mixture import percentile, survival
from roofline.serving.traffic.pools import pool_tails, pooled
from roofline.serving.traffic.prompts import prompt_of
from roofline.serving.traffic.slots import saturation
from roofline.serving.traffic.tails import Tails
from roofline.specs.slo import P99_WITHIN, metric_and_level

__all__ = ["Crossover", "crossovers", "pool_goodput", "rates_by_tpot", "shares_within"]

_MOST = 0.999  # of the largest rate, up to which rates are looked at
_STEPS = (0.1, 0.3, 0.5, 0.7, 0.85, 0.95, _MOST)  # of the largest rate
_CURVE = (LEAST, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_SLACK = 2.0**-12


class Crossover(NamedTuple):
    """A limit on TPOT at which one way to serve overtakes the other."""

    tpot: float  # [s]
    rate: float  # [1/s] that both answer there
    to_pools: bool  # whether separate pools answer more just above it


def shares_within(tails: Tails, slo: Mapping[str, float], osl: float) -> tuple[dict[str, float], float]:
    """Shares of the requests of a load that keep within their limits.

    Args:
        tails: distributions of the latencies.
        slo: limits by their keys [s].
        osl: mean answer [tokens].

    Returns:
        Share within each limit, of `p99_within` the multiple of the median; and the share within all limits that name
        no percentile [1].

    Source:
        As `roofline.analysis.goodput.attained`.
    """
    shares: dict[str, float] = {}
    joint = ends = 1.0
    for key, limit in slo.items():
        metric, level = metric_and_level(key)
        if metric == P99_WITHIN:
            named = [tails.ttft] if osl <= 1.0 else [tails.ttft, tails.tpot]
            shares[key] = max(float(percentile(each, 99.0) / percentile(each, 50.0)) for each in named)
        elif metric == "tpot" and osl <= 1.0:
            shares[key] = 1.0
        else:
            shares[key] = 1.0 - float(survival(getattr(tails, metric), limit))
            if level is None and metric == "e2el":
                ends = min(ends, shares[key])
            elif level is None:
                joint *= shares[key]
    return shares, min(joint, ends)


def pool_goodput(pools: Pools, workload: Workload, slo: Mapping[str, float], share: float) -> Goodput:
    """The largest rate of Poisson arrivals at which enough requests to two pools meet their limits.

    Args:
        pools: both deployments and the link.
        workload: lengths, of whatever load.
        slo: limits by their keys, at least one [s].
        share: of the requests that must meet all limits without a percentile together [1].

    Returns:
        The rate, and what binds.

    Valid:
        As `roofline.serving.traffic.pools.pool_tails`.

    Source:
        docs/method.md, "Goodput".
    """
    wanted = replace(workload, batch=1.0, concurrency=None, num_prompts=None, request_rate=1.0)
    most = float(pooled(pools, wanted).max_request_rate)
    seen: dict[float, tuple[dict[str, float], float, str]] = {}

    def shortfall(util: float) -> float:
        at = replace(wanted, request_rate=util * most)
        found = pooled(pools, at)
        if not found.is_stable:
            seen[util] = ({}, 0.0, SATURATION)
            return 1.0
        shares, joint = shares_within(pool_tails(pools, at, found), slo, float(wanted.osl))
        lacks = {key: _lack(key, slo[key], shares[key], joint, share) for key in slo}
        binding = max(lacks, key=lambda key: lacks[key])
        seen[util] = (shares, joint, binding)
        return lacks[binding]

    def answer(util: float, rate: float) -> Goodput:
        shares, joint, binding = seen[util]
        return Goodput(rate, rate / most, most, binding, shares, joint)

    near = (LEAST, shortfall(LEAST))
    if near[1] > 0.0:
        return answer(LEAST, 0.0)
    for util in _STEPS:
        lack = shortfall(util)
        if lack > 0.0:
            best = narrowed(shortfall, near, (util, lack))
            if shortfall(best) > 0.0:
                best *= 1.0 - _SLACK
                shortfall(best)
            return answer(best, best * most)
        near = (util, lack)
    return answer(_MOST, _MOST * most)._replace(binding=SATURATION)


def rates_by_tpot(
    tpot_at: Callable[[float], float], most: float, shares: Sequence[float] = _CURVE
) -> list[tuple[float, float]]:
    """Rates that are answered within limits on the mean TPOT.

    Args:
        tpot_at: mean time per output token at a rate [function].
        most: the largest rate [1/s].
        shares: of it, at which to look [1].

    Returns:
        Pairs of TPOT [s] and rate [1/s], both rising.
    """
    points: list[tuple[float, float]] = []
    for share in shares:
        tpot = tpot_at(share * most)
        if tpot == float("inf"):
            break
        if not points or tpot > points[-1][0]:
            points.append((tpot, share * most))
    return points


def crossovers(
    pools: Pools, one: Deployment, workload: Workload, replicas: float
) -> tuple[list[Crossover], float, float]:
    """Limits on the mean TPOT at which two pools and one pool of as high a price answer as much.

    Args:
        pools: both deployments and the link.
        one: a replica of the one pool.
        workload: lengths.
        replicas: of the one pool, whole or not [1].

    Returns:
        The crossings, by rising TPOT; the largest rates of the two pools and of the one pool [1/s].

    Source:
        Arithmetic on both curves of TPOT over the rate.
    """
    wanted = replace(workload, batch=1.0, concurrency=None, num_prompts=None, request_rate=1.0)
    server = server_of(one, wanted)
    together = float(saturation(server, prompt_of(server)).rate * lanes(one)) * replicas
    apart = float(pooled(pools, wanted).max_request_rate)

    def of_one(rate: float) -> float:
        found = served(one, replace(wanted, request_rate=rate / replicas))
        return float(found.tpot) if found.is_stable else float("inf")

    def of_pools(rate: float) -> float:
        found = pooled(pools, replace(wanted, request_rate=rate))
        return float(found.tpot) if found.is_stable else float("inf")

    first, second = rates_by_tpot(of_pools, apart), rates_by_tpot(of_one, together)
    if not first or not second:
        return [], apart, together
    ends = sorted({tpot for tpot, _ in (*first, *second)})
    found: list[Crossover] = []
    for low, high in pairwise(ends):
        before, after = (_rate_within(first, end) - _rate_within(second, end) for end in (low, high))
        if (before > 0.0) != (after > 0.0) and after != before:
            share = before / (before - after)
            tpot = low + share * (high - low)
            found.append(Crossover(tpot, _rate_within(first, tpot), after > 0.0))
    return found, apart, together


def _rate_within(points: Sequence[tuple[float, float]], limit: float) -> float:
    """Rate at which the mean TPOT just meets a limit; 0 where an idle server misses it."""
    if limit < points[0][0]:
        return 0.0
    for (low, near), (high, far) in pairwise(points):
        if limit <= high:
            return near + (limit - low) / (high - low) * (far - near)
    return points[-1][1]


def _lack(key: str, limit: float, share: float, joint: float, wanted: float) -> float:
    """By how much too few requests meet a limit; negative where more than enough do."""
    metric, level = metric_and_level(key)
    if metric == P99_WITHIN:
        return share / limit - 1.0
    return wanted - joint if level is None else level / 100.0 - share
