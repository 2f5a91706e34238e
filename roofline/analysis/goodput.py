"""Goodput: the largest rate at which requests still meet their limits, and which limit binds there."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.physics.plan import Deployment
from roofline.records import NamedTuple, replace
from roofline.roots import narrowed
from roofline.serving.correction import UNCORRECTED, Correction
from roofline.serving.latency import Workload
from roofline.serving.served import Served, lanes
from roofline.serving.targets import limited_latencies
from roofline.serving.traffic.load import served, server_of
from roofline.serving.traffic.mixture import Component, percentile, survival
from roofline.serving.traffic.prompts import prompt_of
from roofline.serving.traffic.slots import saturation
from roofline.serving.traffic.tails import tails
from roofline.specs.slo import LATENCIES, P99_WITHIN, metric_and_level

__all__ = ["LEAST", "SATURATION", "Goodput", "attained", "is_met", "largest_rate"]

#: What binds where every limit is met up to the largest rate.
SATURATION = "saturation"

#: Share of the saturation at which a server counts as idle.
LEAST = 2.0**-12

_MOST = 0.999  # of the saturation, up to which rates are looked at
_CLOSE = 2.0**-30
_SLACK = 2.0**-12  # of a limit, and of a rate, within which it binds


class Goodput(NamedTuple):
    """The largest rate of a deployment that meets its limits."""

    rate: float  # [1/s] of the whole deployment; 0 where an idle server misses a limit
    util: float  # of the saturation [1]
    max_request_rate: float  # [1/s] that can be answered at most
    binding: str  # key of the limit that is just met, or missed on an idle server; or `SATURATION`
    attained: Mapping[str, float]  # share of the requests within each limit there; of `p99_within` the multiple [1]
    joint: float  # share of the requests within all limits that name no percentile [1]


def attained(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    found: Served,
    correction: Correction = UNCORRECTED,
) -> tuple[dict[str, float], float]:
    r"""Shares of the requests of a load that keep within their limits.

    .. math:: s = \min\left(P(TTFT \le t)\, P(TPOT \le g),\ P(E2EL \le e)\right)

    TTFT and TPOT of a request hardly know of each other; its E2EL is made of both.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths and load.
        slo: limits by their keys [s].
        found: means under the load.
        correction: by a measurement of this very deployment.

    Returns:
        Share within each limit, by its key, of `p99_within` the multiple of the median; and the share s within all
        limits that name no percentile [1].

    Source:
        Goodput and SLO attainment: Zhong et al., "DistServe", OSDI 2024.
    """
    spread = tails(deployment, workload, found)
    parts: dict[str, tuple[Component, ...]] = spread._asdict()
    factors = dict.fromkeys(LATENCIES, 1.0)
    if correction != UNCORRECTED:
        means = limited_latencies(deployment, workload, LATENCIES, correction)
        raw = {"ttft": found.ttft, "tpot": found.tpot, "e2el": found.ttft + found.decode}
        factors = {name: float(means[name] / raw[name]) for name in LATENCIES}
    shares: dict[str, float] = {}
    joint = 1.0
    ends = 1.0
    for key, limit in slo.items():
        metric, level = metric_and_level(key)
        if metric == P99_WITHIN:
            named = [spread.ttft] if workload.osl <= 1.0 else [spread.ttft, spread.tpot]
            shares[key] = max(float(percentile(each, 99.0) / percentile(each, 50.0)) for each in named)
            continue
        if metric == "tpot" and workload.osl <= 1.0:
            shares[key] = 1.0
            continue
        shares[key] = 1.0 - float(survival(parts[metric], limit / factors[metric]))
        if level is None and metric == "e2el":
            ends = min(ends, shares[key])
        elif level is None:
            joint *= shares[key]
    return shares, min(joint, ends)


def largest_rate(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float,
    correction: Correction = UNCORRECTED,
) -> Goodput:
    """The largest rate of Poisson arrivals at which enough requests meet their limits.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths, of whatever load.
        slo: limits by their keys, at least one; one on a percentile must be met by as many requests as that says [s].
        share: of the requests that must meet all other limits together [1].
        correction: by a measurement of this very deployment.

    Returns:
        The rate, and what binds.

    Valid:
        As `roofline.serving.traffic.tails`.

    Source:
        docs/method.md, "Goodput".
    """
    wanted = replace(workload, batch=1.0, concurrency=None, num_prompts=None, request_rate=1.0)
    server = server_of(deployment, wanted)
    most = float(saturation(server, prompt_of(server)).rate * lanes(deployment))
    unstable = 1.0  # smallest share of the saturation at which there is no steady state
    seen: dict[float, tuple[dict[str, float], float, str]] = {}

    def shortfall(util: float) -> float:
        nonlocal unstable
        at = replace(wanted, request_rate=util * most)
        found = served(deployment, at)
        if not found.is_stable:
            unstable = min(unstable, util)
            seen[util] = ({}, 0.0, SATURATION)
            return 1.0
        shares, joint = attained(deployment, at, slo, found, correction)
        lacks = {key: _shortfall(key, slo[key], shares[key], joint, share) for key in slo}
        worst = max(lacks, key=lambda key: lacks[key])
        seen[util] = (shares, joint, _tightest(slo, shares, worst))
        return lacks[worst]

    def answer(util: float, rate: float) -> Goodput:
        shares, joint, binding = seen[util]
        return Goodput(rate, rate / most, most, binding, shares, joint)

    at_least = shortfall(LEAST)
    if at_least > 0.0:
        return answer(LEAST, 0.0)
    near = (LEAST, at_least)
    far = None
    for util in (0.1, 0.3, 0.5, 0.7, 0.85, 0.95, _MOST):
        lack = shortfall(util)
        if lack > 0.0:
            far = (util, lack)
            break
        near = (util, lack)
    if far is None:
        found = answer(near[0], near[0] * most)
        return found._replace(binding=SATURATION)
    util = narrowed(shortfall, near, far)
    lack = shortfall(util)
    if lack > 0.0:
        util *= 1.0 - _CLOSE
        lack = shortfall(util)
    best = answer(util, util * most)
    is_full = lack < -_SLACK and unstable < util * (1.0 + _SLACK)
    return best._replace(binding=SATURATION) if is_full else best


def is_met(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float,
    correction: Correction = UNCORRECTED,
) -> bool:
    """Whether enough requests of a load meet their limits, as a goodput asks for.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths and load.
        slo: limits by their keys [s].
        share: of the requests that must meet all limits without a percentile together [1].
        correction: by a measurement of this very deployment.

    Returns:
        Whether they do; not where more requests come than can be answered.
    """
    found = served(deployment, workload)
    if not found.is_stable:
        return False
    shares, joint = attained(deployment, workload, slo, found, correction)
    return all(_shortfall(key, limit, shares[key], joint, share) <= _SLACK for key, limit in slo.items())


def _shortfall(key: str, limit: float, share: float, joint: float, wanted: float) -> float:
    """By how much too few requests meet a limit; negative where more than enough do."""
    metric, level = metric_and_level(key)
    if metric == P99_WITHIN:
        return share / limit - 1.0
    return wanted - joint if level is None else level / 100.0 - share


def _tightest(slo: Mapping[str, float], shares: Mapping[str, float], worst: str) -> str:
    """Of limits that must be met together, the one that most requests miss."""
    if metric_and_level(worst)[1] is not None or worst == P99_WITHIN:
        return worst
    together = [key for key in slo if key != P99_WITHIN and metric_and_level(key)[1] is None]
    return min(together, key=lambda key: shares[key])
