"""Latencies by the keys of limits: means, percentiles, and p99 over median."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roofline.numbers.operations import Real, is_nan, maximum, never, where
from roofline.physics.plan import Deployment
from roofline.serving.latency import (
    UNCORRECTED,
    Correction,
    Served,
    Workload,
    decode,
    e2el,
    mean_gap,
    prefill,
    prefill_of_kinds,
    request_passes,
    time_per_token,
)
from roofline.serving.load.mixtures import Component, mean_of, percentile
from roofline.serving.load.steady import served, tails
from roofline.serving.load.tails import Tails, latency_percentile
from roofline.serving.prompts import is_a_mixture
from roofline.specs.workload import BETWEEN_TOKENS, LATENCIES, P99_WITHIN, metric_and_level
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple

#: Message: why a run has no percentiles.
NO_PERCENTILE = "percentiles need a steady state; a run of num_prompts, which includes its start, has only means"

_NO_TPOT = 0.0  # of a single token, so that it meets any limit


class LimitedLatencies(NamedTuple):
    """Latencies by the keys of limits [s], p99 over median [1]; infinite under overload."""

    known: dict[str, Real]  # NaN where a percentile is not known
    least: dict[str, Real]  # there the mean, below which no upper percentile of latencies lies

    @property
    def known_or_infinite(self) -> dict[str, Real]:
        """What is not known as infinite, so that it meets no limit."""
        return {key: where(is_nan(time), float("inf"), time) for key, time in self.known.items()}


def check_percentiles(workload: Workload, slo: Mapping[str, float]) -> None:
    """Refuse limits on percentiles of a run (`num_prompts`)."""
    if workload.load.is_run and any(key not in LATENCIES for key in slo):
        raise BadInput(f"{NO_PERCENTILE}: leave out num_prompts, or limit the mean")


def limited_latencies(
    deployment: Deployment,
    workload: Workload,
    keys: Iterable[str],
    correction: Correction = UNCORRECTED,
    load: Served | None = None,
) -> dict[str, Real]:
    """Latencies by the keys of limits [s], infinite under overload or where not known; p99 over median [1].

    `load`: its means, where they are known already.
    """
    return latencies_of_limits(deployment, workload, keys, correction, load).known_or_infinite


def latencies_of_limits(
    deployment: Deployment,
    workload: Workload,
    keys: Iterable[str],
    correction: Correction = UNCORRECTED,
    load: Served | None = None,
) -> LimitedLatencies:
    """As `limited_latencies`, with what is known of a percentile that is not."""
    if load is None and not workload.load.is_burst:
        load = served(deployment, workload)
    if load is None:
        step = time_per_token(deployment, workload.osl, decode(deployment, workload).time)
        first = prefill(deployment, workload).time
    else:
        first, step = load.ttft, load.tpot
    if correction != UNCORRECTED:
        ideal = request_passes(deployment.on("ideal"), workload, load)
        first = maximum(correction.ttft * first, ideal[0].time + deployment.effective_engine.network)
        step = maximum(correction.tpot * step, time_per_token(deployment, workload.osl, ideal[1].time))
    answer = e2el(0.0, step, workload.osl) if load is None else load.decode * (step / load.tpot)
    gap = mean_gap(deployment, workload, step, answer)
    between = {name: where(workload.osl > 1.0, time, _NO_TPOT) for name, time in (("tpot", step), ("itl", gap))}
    means = {"ttft": first, **between, "e2el": first + answer}
    limits = {key: metric_and_level(key) for key in keys}
    spread: Tails | None = None
    if any(level is not None or name == P99_WITHIN for name, level in limits.values()):
        spread = burst_tails(deployment, workload) if load is None else tails(deployment, workload, load)
    times = {key: _limited_latency(means, load, spread, equal_steps(workload), *limit) for key, limit in limits.items()}
    for key, time in times.items():
        if limits[key][0] in BETWEEN_TOKENS:
            times[key] = where(workload.osl > 1.0, time, _NO_TPOT)
    least = {key: means.get(limits[key][0], 1.0) for key in times}
    return LimitedLatencies(times, {key: where(is_nan(time), least[key], time) for key, time in times.items()})


def equal_steps(workload: Workload) -> Real:
    """Tokens after the first where all answers are equal, else 0 [tokens]."""
    is_equal = workload.lengths is None or workload.lengths.answers.is_fixed
    return workload.osl - 1.0 if is_equal else 0.0


def burst_tails(deployment: Deployment, workload: Workload) -> Tails | None:
    """Latency distributions of a burst with cache hits and misses; None where all requests take the same time."""
    if not is_a_mixture(workload.cache):
        return None
    step = decode(deployment, workload).time
    single = (Component(1.0, step, 0.0, 0.0),)
    first = tuple(Component(weight, time, 0.0, 0.0) for weight, time in prefill_of_kinds(deployment, workload))
    end_to_end = tuple(part._replace(least=e2el(part.least, step, workload.osl)) for part in first)
    return Tails(first, single, end_to_end, single)


def of_tails(spread: Tails | None, under_load: Served | None, means: Mapping[str, Real], steps: Real, key: str) -> Real:
    """A latency by the key of a limit [s], or p99 over median [1]; None stands for a burst, NaN for what is not known.

    `means` are corrected by a measurement, `under_load` and its distributions are not; `steps`: `equal_steps`.
    """
    return _limited_latency(means, under_load, spread, steps, *metric_and_level(key))


def limit_shares(
    deployment: Deployment, workload: Workload, slo: Mapping[str, Real], correction: Correction = UNCORRECTED
) -> dict[str, Real]:
    """Latency over limit, by key [1]; infinite where it is not known."""
    times = limited_latencies(deployment, workload, slo, correction)
    return {key: times[key] / limit for key, limit in slo.items()}


def least_shares(deployment: Deployment, workload: Workload, slo: Mapping[str, Real]) -> tuple[dict[str, Real], bool]:
    """Latency over limit, by key [1], and whether all are known: the mean stands for a percentile that is not."""
    times = latencies_of_limits(deployment, workload, slo)
    is_known = not any(is_nan(time) for time in times.known.values())
    return {key: times.least[key] / limit for key, limit in slo.items()}, is_known


def excess(
    deployment: Deployment, workload: Workload, slo: Mapping[str, Real], correction: Correction = UNCORRECTED
) -> Real:
    """Largest ratio of a latency to its limit [1]: the SLO is met where it is at most one."""
    largest: Real = 0.0
    for share in limit_shares(deployment, workload, slo, correction).values():
        largest = maximum(largest, share)
    return largest


def _limited_latency(
    means: Mapping[str, Real],
    under_load: Served | None,
    spread: Tails | None,
    steps: Real,
    metric: str,
    level: float | None,
) -> Real:
    """A mean, a percentile, or the larger p99 over median of TTFT and TPOT; NaN where not known."""
    if spread is None:
        return 0.0 * means["ttft"] + 1.0 if metric == P99_WITHIN else means[metric]
    if under_load is None:
        if metric == P99_WITHIN:
            return percentile(spread.ttft, 99.0) / percentile(spread.ttft, 50.0)
        parts = getattr(spread, metric)
        return means[metric] if level is None else percentile(parts, level) * (means[metric] / mean_of(parts))
    raw = {"ttft": under_load.ttft, "tpot": under_load.tpot, "e2el": under_load.ttft + under_load.decode}
    if metric == "itl":
        several = means["tpot"] > 0.0
        raw["itl"] = under_load.tpot * where(several, means["itl"] / where(several, means["tpot"], 1.0), 1.0)
    if metric == P99_WITHIN:
        ratio = latency_over_requests(spread, {**raw, "tpot": means["tpot"]}, steps, metric, level)
        return where(under_load.is_stable, ratio, float("inf"))
    if level is None:
        return means[metric]
    scale = where(under_load.is_stable, means[metric] / where(under_load.is_stable, raw[metric], 1.0), float("inf"))
    return latency_over_requests(spread, raw, steps, metric, level) * scale


def latency_over_requests(
    spread: Tails, means: Mapping[str, Real], steps: Real, metric: str, level: float | None
) -> Real:
    """A mean or a percentile [s], or the larger p99 over median of TTFT and TPOT [1]; NaN where not known.

    `means` are those that the distributions stand for, `steps` as `equal_steps`; a TPOT of None or 0 is that of single
    tokens.
    """
    if metric == P99_WITHIN:
        metrics = ["ttft"]
        if means["tpot"] is not None and not never(means["tpot"] > 0.0):  # a single token has none
            metrics.append("tpot")
        largest: Real = 1.0
        is_unknown: Real = False
        for name in metrics:
            high, median = (latency_percentile(spread, means, 0.0, name, percent) for percent in (99.0, 50.0))
            ratio = where(means["tpot"] > 0.0, high / median, 1.0) if name == "tpot" else high / median
            largest, is_unknown = maximum(largest, ratio), is_unknown | is_nan(ratio)
        return where(is_unknown, float("nan"), largest)
    return means[metric] if level is None else latency_percentile(spread, means, steps, metric, level)
