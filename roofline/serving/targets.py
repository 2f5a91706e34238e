"""Latencies by the keys of limits: means, percentiles, and p99 over median."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roofline.errors import BadInput
from roofline.ops import Real, maximum, never, where
from roofline.physics.plan import Deployment
from roofline.serving.correction import UNCORRECTED, Correction
from roofline.serving.latency import BURST, Workload, decode, e2el, prefill, prefill_of_kinds, time_per_token
from roofline.serving.prompt_cache import is_a_mixture
from roofline.serving.served import Served, request_passes
from roofline.serving.traffic.load import served
from roofline.serving.traffic.mixture import Component, percentile
from roofline.serving.traffic.tails import Tails, tails
from roofline.specs.slo import LATENCIES, P99_WITHIN, metric_and_level

#: Message: why a run has no percentiles.
NO_PERCENTILE = "percentiles need a steady state; a run of num_prompts, which includes its start, has only means"

_NO_TPOT = 0.0  # of a single token, so that it meets any limit


def check_percentiles(workload: Workload, slo: Mapping[str, float]) -> None:
    """Refuse limits on percentiles of a run (`num_prompts`)."""
    if workload.num_prompts is not None and any(key not in LATENCIES for key in slo):
        raise BadInput(f"{NO_PERCENTILE}: leave out num_prompts, or limit the mean")


def limited_latencies(
    deployment: Deployment, workload: Workload, keys: Iterable[str], correction: Correction = UNCORRECTED
) -> dict[str, Real]:
    """Latencies by the keys of limits [s], infinite under overload; p99 over median [1]."""
    load = None if workload.load == BURST else served(deployment, workload)
    if load is None:
        step = time_per_token(deployment, workload.osl, decode(deployment, workload).time)
        first = prefill(deployment, workload).time
    else:
        first, step = load.ttft, load.tpot
    if correction != UNCORRECTED:
        ideal = request_passes(deployment.on("ideal"), workload, load)
        first = maximum(correction.ttft * first, ideal[0].time + deployment.effective_engine.network)
        step = maximum(correction.tpot * step, time_per_token(deployment, workload.osl, ideal[1].time))
    end_to_end = e2el(first, step, workload.osl) if load is None else first + load.decode * (step / load.tpot)
    means = {"ttft": first, "tpot": where(workload.osl > 1.0, step, _NO_TPOT), "e2el": end_to_end}
    limits = {key: metric_and_level(key) for key in keys}
    spread: Tails | None = None
    if any(level is not None or name == P99_WITHIN for name, level in limits.values()):
        spread = burst_tails(deployment, workload) if load is None else tails(deployment, workload, load)
    return {key: _limited_latency(means, load, spread, *limit) for key, limit in limits.items()}


def burst_tails(deployment: Deployment, workload: Workload) -> Tails | None:
    """Latency distributions of a burst with cache hits and misses; None where all requests take the same time."""
    if not is_a_mixture(workload.cache):
        return None
    step = decode(deployment, workload).time
    first = tuple(Component(weight, time, 0.0, 0.0) for weight, time in prefill_of_kinds(deployment, workload))
    end_to_end = tuple(part._replace(least=e2el(part.least, step, workload.osl)) for part in first)
    return Tails(first, (Component(1.0, step, 0.0, 0.0),), end_to_end)


def of_tails(spread: Tails | None, under_load: Served | None, means: Mapping[str, Real], key: str) -> Real:
    """A latency by the key of a limit [s], or p99 over median [1]; None stands for a burst.

    `means` are corrected by a measurement, `under_load` and its distributions are not.
    """
    return _limited_latency(means, under_load, spread, *metric_and_level(key))


def limit_shares(
    deployment: Deployment, workload: Workload, slo: Mapping[str, Real], correction: Correction = UNCORRECTED
) -> dict[str, Real]:
    """Latency over limit, by key [1]."""
    times = limited_latencies(deployment, workload, slo, correction)
    return {key: times[key] / limit for key, limit in slo.items()}


def excess(
    deployment: Deployment, workload: Workload, slo: Mapping[str, Real], correction: Correction = UNCORRECTED
) -> Real:
    """Largest ratio of a latency to its limit [1]: the SLO is met where it is at most one."""
    largest: Real = 0.0
    for share in limit_shares(deployment, workload, slo, correction).values():
        largest = maximum(largest, share)
    return largest


def _limited_latency(
    means: Mapping[str, Real], under_load: Served | None, spread: Tails | None, metric: str, level: float | None
) -> Real:
    """A mean, a percentile, or the larger p99 over median of TTFT and TPOT."""
    if metric == P99_WITHIN:
        if spread is None:
            return 0.0 * means["ttft"] + 1.0
        ratio = percentile(spread.ttft, 99.0) / percentile(spread.ttft, 50.0)
        if means["tpot"] is not None and not never(means["tpot"] > 0.0):  # a single token has none
            ratio = maximum(ratio, percentile(spread.tpot, 99.0) / percentile(spread.tpot, 50.0))
        return ratio if under_load is None else where(under_load.is_stable, ratio, float("inf"))
    if level is None or spread is None:
        return means[metric]
    if under_load is None:
        parts = getattr(spread, metric)
        return percentile(parts, level) * (means[metric] / sum(part.weight * part.least for part in parts))
    raw = {"ttft": under_load.ttft, "tpot": under_load.tpot, "e2el": under_load.ttft + under_load.decode}[metric]
    scale = where(under_load.is_stable, means[metric] / where(under_load.is_stable, raw, 1.0), float("inf"))
    return percentile(getattr(spread, metric), level) * scale
