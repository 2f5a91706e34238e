"""Goodput: the largest rate at which enough requests meet their SLO, and the limit that binds there."""

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
from roofline.serving.traffic.mixture import percentile, survival
from roofline.serving.traffic.prompts import prompt_of
from roofline.serving.traffic.slots import saturation
from roofline.serving.traffic.tails import Tails, tails
from roofline.specs.slo import LATENCIES, P99_WITHIN, metric_and_level

#: What binds where every limit is met up to saturation.
SATURATION = "saturation"

#: Share of the saturation rate at which a server counts as idle.
LEAST = 2.0**-12

_MOST = 0.999  # share of the saturation rate up to which rates are tried
_CLOSE = 2.0**-30
_SLACK = 2.0**-12  # relative, of a limit and of a rate, within which it binds


class Goodput(NamedTuple):
    rate: float  # [1/s] of the whole deployment; 0 where even an idle server misses a limit
    util: float  # rate / max_request_rate [1]
    max_request_rate: float  # [1/s] saturation
    binding: str  # key of the limit just met, or missed on an idle server; or `SATURATION`
    attained: Mapping[str, float]  # share of requests within each limit; for `p99_within` the multiple [1]
    joint: float  # share of requests within all limits without a percentile [1]


class WithinLimits(NamedTuple):
    shares: dict[str, float]  # of requests within each limit by its key; for `p99_within` the multiple of the median
    joint: float  # share of requests within all limits without a percentile

    def shortfall(self, key: str, limit: float, share: float) -> float:
        """Share of requests missing for a limit to be met; negative where more than enough meet it."""
        metric, level = metric_and_level(key)
        if metric == P99_WITHIN:
            return self.shares[key] / limit - 1.0
        return share - self.joint if level is None else level / 100.0 - self.shares[key]


def attained(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    means: Served,
    correction: Correction = UNCORRECTED,
) -> WithinLimits:
    r"""Shares of requests that meet their limits.

    .. math:: s = \min\left(P(TTFT \le t)\, P(TPOT \le g),\ P(E2EL \le e)\right)

    TTFT and TPOT of a request are taken as independent; its E2EL depends on both.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths and load.
        slo: limits by their keys [s].
        means: mean latencies under the load.
        correction: from a measurement of this deployment.

    Returns:
        Share within each limit by its key, for `p99_within` the multiple of the median; and the share s within all
        limits without a percentile [1].

    Source:
        Goodput and SLO attainment: Zhong et al., "DistServe", OSDI 2024.
    """
    factors = None
    if correction != UNCORRECTED:
        corrected = limited_latencies(deployment, workload, LATENCIES, correction)
        raw = {"ttft": means.ttft, "tpot": means.tpot, "e2el": means.ttft + means.decode}
        factors = {name: float(corrected[name] / raw[name]) for name in LATENCIES}
    return shares_within(tails(deployment, workload, means), slo, float(workload.osl), factors)


def shares_within(
    tails: Tails, slo: Mapping[str, float], osl: float, factors: Mapping[str, float] | None = None
) -> WithinLimits:
    """Shares as `attained` returns them, from the distributions of the latencies; factors correct each latency."""
    shares: dict[str, float] = {}
    joint = end_to_end = 1.0
    for key, limit in slo.items():
        metric, level = metric_and_level(key)
        if metric == P99_WITHIN:
            limited = [tails.ttft] if osl <= 1.0 else [tails.ttft, tails.tpot]
            shares[key] = max(float(percentile(tail, 99.0) / percentile(tail, 50.0)) for tail in limited)
        elif metric == "tpot" and osl <= 1.0:
            shares[key] = 1.0
        else:
            bound = limit if factors is None else limit / factors[metric]
            shares[key] = 1.0 - float(survival(getattr(tails, metric), bound))
            if level is None and metric == "e2el":
                end_to_end = min(end_to_end, shares[key])
            elif level is None:
                joint *= shares[key]
    return WithinLimits(shares, min(joint, end_to_end))


def largest_rate(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float,
    correction: Correction = UNCORRECTED,
) -> Goodput:
    """Largest rate of Poisson arrivals at which enough requests meet their limits.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths; its load is ignored.
        slo: limits by their keys, at least one; a limit on a percentile must be met by that share of requests [s].
        share: of requests that must meet all other limits together [1].
        correction: from a measurement of this deployment.

    Returns:
        The rate, and what binds.

    Valid:
        As `roofline.serving.traffic.tails`.

    Source:
        docs/method.md, "Goodput".
    """
    idle = replace(workload, batch=1.0, concurrency=None, num_prompts=None, request_rate=1.0)
    server = server_of(deployment, idle)
    saturation_rate = float(saturation(server, prompt_of(server)).rate * lanes(deployment))
    unstable = 1.0  # smallest share of the saturation rate at which there is no steady state
    seen: dict[float, tuple[WithinLimits, str]] = {}

    def shortfall(util: float) -> float:
        nonlocal unstable
        loaded = replace(idle, request_rate=util * saturation_rate)
        means = served(deployment, loaded)
        if not means.is_stable:
            unstable = min(unstable, util)
            seen[util] = (WithinLimits({}, 0.0), SATURATION)
            return 1.0
        within = attained(deployment, loaded, slo, means, correction)
        shortfalls = {key: within.shortfall(key, slo[key], share) for key in slo}
        worst = max(shortfalls, key=lambda key: shortfalls[key])
        seen[util] = (within, _most_missed(slo, within.shares, worst))
        return shortfalls[worst]

    def answer(util: float, rate: float) -> Goodput:
        within, binding = seen[util]
        return Goodput(rate, rate / saturation_rate, saturation_rate, binding, *within)

    idle_shortfall = shortfall(LEAST)
    if idle_shortfall > 0.0:
        return answer(LEAST, 0.0)
    last_met = (LEAST, idle_shortfall)
    for util in (0.1, 0.3, 0.5, 0.7, 0.85, 0.95, _MOST):
        missing = shortfall(util)
        if missing > 0.0:
            break
        last_met = (util, missing)
    else:
        return answer(_MOST, _MOST * saturation_rate)._replace(binding=SATURATION)
    util = narrowed(shortfall, last_met, (util, missing))
    missing = shortfall(util)
    if missing > 0.0:
        util *= 1.0 - _CLOSE
        missing = shortfall(util)
    best = answer(util, util * saturation_rate)
    is_full = missing < -_SLACK and unstable < util * (1.0 + _SLACK)
    return best._replace(binding=SATURATION) if is_full else best


def is_met(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float,
    correction: Correction = UNCORRECTED,
) -> bool:
    """Whether enough requests meet their limits, as for a goodput; False beyond saturation."""
    means = served(deployment, workload)
    if not means.is_stable:
        return False
    within = attained(deployment, workload, slo, means, correction)
    return all(within.shortfall(key, limit, share) <= _SLACK for key, limit in slo.items())


def _most_missed(slo: Mapping[str, float], shares: Mapping[str, float], worst: str) -> str:
    """`worst`, or, of the limits to be met together, the one that most requests miss."""
    if metric_and_level(worst)[1] is not None or worst == P99_WITHIN:
        return worst
    together = [key for key in slo if key != P99_WITHIN and metric_and_level(key)[1] is None]
    return min(together, key=lambda key: shares[key])
