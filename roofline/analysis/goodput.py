"""Goodput: the largest rate at which an SLO is met, and the limit that binds there.

A limit means what it means in a prediction: on the mean, or on the percentile that it names. A share of requests, where
one is asked for, replaces the mean: so many must meet all limits without a percentile together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
        As `roofline.serving.traffic.tails`.

    Source:
        docs/method.md, "Goodput".
    """
    idle = replace(workload, batch=1.0, concurrency=None, num_prompts=None, request_rate=1.0)
    server = server_of(deployment, idle)
    saturation_rate = float(saturation(server, prompt_of(server)).rate * lanes(deployment))

    def excesses(util: float) -> dict[str, float] | None:
        loaded = replace(idle, request_rate=util * saturation_rate)
        means = served(deployment, loaded)
        return _excesses(deployment, loaded, slo, share, correction, means) if means.is_stable else None

    def within(util: float) -> WithinLimits:
        loaded = replace(idle, request_rate=util * saturation_rate)
        means = served(deployment, loaded)
        return attained(deployment, loaded, slo, means, correction) if means.is_stable else WithinLimits({}, 0.0)

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
    is_full = missing < -_SLACK and unstable < util * (1.0 + _SLACK)
    if unknown < util * (1.0 + _SLACK) and not is_full:
        return best._replace(binding=NOT_KNOWN)
    return best._replace(binding=SATURATION) if is_full else best


def share_is_met(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float,
    correction: Correction = UNCORRECTED,
) -> bool | None:
    """Whether a share of requests meets all limits without a percentile together; False beyond saturation.

    None where no limit applies.
    """
    if workload.osl <= 1.0 and all(metric_and_level(key)[0] == "tpot" for key in slo):
        return None
    means = served(deployment, workload)
    if not means.is_stable:
        return False
    return all(over <= 0.0 for over in _excesses(deployment, workload, slo, share, correction, means).values())


def _excesses(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float | None,
    correction: Correction,
    means: Served,
) -> dict[str, float]:
    """By how much each limit is exceeded [1]; with a share, limits without a percentile by the requests missing."""
    together = () if share is None else tuple(key for key in slo if key in LATENCIES)
    single = {key: limit for key, limit in slo.items() if key not in together}
    times = limited_latencies(deployment, workload, single, correction, means)
    exceeded = {key: float(times[key]) / limit - 1.0 for key, limit in single.items()}
    if share is not None and together:
        within = attained(deployment, workload, {key: slo[key] for key in together}, means, correction)
        exceeded[min(together, key=lambda key: within.shares[key])] = share - within.joint
    return exceeded
