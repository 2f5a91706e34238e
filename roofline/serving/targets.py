"""Latencies as limits ask for them: means, percentiles, and how far a p99 lies above its median."""

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

__all__ = [
    "NO_PERCENTILE",
    "burst_tails",
    "check_percentiles",
    "excess",
    "limit_shares",
    "limited_latencies",
    "of_tails",
]

#: Why a run has no percentiles.
NO_PERCENTILE = "percentiles need a steady state; a run of num_prompts, which includes its start, has only means"

_NO_TPOT = 0.0  # of a single token, which no limit concerns


def check_percentiles(workload: Workload, slo: Mapping[str, float]) -> None:
    """Refuse limits on percentiles of a run, which has none.

    Args:
        workload: lengths and load.
        slo: limits by their keys [s].

    Raises:
        BadInput: a limit on a percentile, with `num_prompts`.
    """
    if workload.num_prompts is not None and any(key not in LATENCIES for key in slo):
        raise BadInput(f"{NO_PERCENTILE}: leave out num_prompts, or limit the mean")


def limited_latencies(
    deployment: Deployment, workload: Workload, keys: Iterable[str], correction: Correction = UNCORRECTED
) -> dict[str, Real]:
    """Latencies of a deployment under whatever load, by the keys of limits.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths and load.
        keys: such as ``ttft``, ``ttft_p95`` or ``p99_within`` [text].
        correction: by a measurement of this very deployment.

    Returns:
        Latencies [s], infinite where more requests come than can be answered; multiples of the median [1].

    Valid:
        All requests of a burst take the same time, but for the prompts that a cache holds.
    """
    found = None if workload.load == BURST else served(deployment, workload)
    if found is None:
        step = time_per_token(deployment, workload.osl, decode(deployment, workload).time)
        first = prefill(deployment, workload).time
    else:
        first, step = found.ttft, found.tpot
    if correction != UNCORRECTED:
        light = request_passes(deployment.on("ideal"), workload, found)
        first = maximum(correction.ttft * first, light[0].time + deployment.host.network)
        step = maximum(correction.tpot * step, time_per_token(deployment, workload.osl, light[1].time))
    whole = e2el(first, step, workload.osl) if found is None else first + found.decode * (step / found.tpot)
    means = {"ttft": first, "tpot": where(workload.osl > 1.0, step, _NO_TPOT), "e2el": whole}
    wanted = {key: metric_and_level(key) for key in keys}
    spread: Tails | None = None
    if any(level is not None or name == P99_WITHIN for name, level in wanted.values()):
        spread = burst_tails(deployment, workload) if found is None else tails(deployment, workload, found)
    return {key: _asked(means, found, spread, *asked) for key, asked in wanted.items()}


def burst_tails(deployment: Deployment, workload: Workload) -> Tails | None:
    """Distributions of the latencies of a burst: those of requests that find their prefix, and of others.

    Args:
        deployment: model, GPU, plan, precision, basis and engine.
        workload: lengths and batch.

    Returns:
        Two points, or one; None where all requests of a burst take the same time.

    Valid:
        Of bursts in which all prompts hit, or all miss.
    """
    if not is_a_mixture(workload.cache):
        return None
    step = decode(deployment, workload).time
    first = tuple(Component(weight, time, 0.0, 0.0) for weight, time in prefill_of_kinds(deployment, workload))
    whole = tuple(part._replace(least=e2el(part.least, step, workload.osl)) for part in first)
    return Tails(first, (Component(1.0, step, 0.0, 0.0),), whole)


def of_tails(spread: Tails | None, found: Served | None, means: Mapping[str, Real], key: str) -> Real:
    """A latency by the key of a limit.

    Args:
        spread: distributions under a load; None for a burst, whose requests all take the same time.
        found: means under the load, which the distributions belong to; None for a burst.
        means: latencies as they are answered, corrected where a measurement says so [s].
        key: such as ``ttft``, ``ttft_p95`` or ``p99_within`` [text].

    Returns:
        The latency [s], or a multiple of the median [1].
    """
    return _asked(means, found, spread, *metric_and_level(key))


def limit_shares(
    deployment: Deployment, workload: Workload, slo: Mapping[str, Real], correction: Correction = UNCORRECTED
) -> dict[str, Real]:
    """What latencies take of their limits.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths and load.
        slo: limits by their keys [s].
        correction: by a measurement of this very deployment.

    Returns:
        Latency over limit, by the keys of the limits [1].
    """
    times = limited_latencies(deployment, workload, slo, correction)
    return {key: times[key] / limit for key, limit in slo.items()}


def excess(
    deployment: Deployment, workload: Workload, slo: Mapping[str, Real], correction: Correction = UNCORRECTED
) -> Real:
    """Largest share that a latency takes of its limit: within the SLO where it is at most one.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths and load.
        slo: limits by their keys [s].
        correction: by a measurement of this very deployment.

    Returns:
        The share [1].
    """
    largest: Real = 0.0
    for share in limit_shares(deployment, workload, slo, correction).values():
        largest = maximum(largest, share)
    return largest


def _asked(
    means: Mapping[str, Real], found: Served | None, spread: Tails | None, metric: str, level: float | None
) -> Real:
    """A mean, a percentile, or the larger of how far TTFT and TPOT reach above their medians."""
    if metric == P99_WITHIN:
        if spread is None:
            return 0.0 * means["ttft"] + 1.0
        first = percentile(spread.ttft, 99.0) / percentile(spread.ttft, 50.0)
        if means["tpot"] is not None and not never(means["tpot"] > 0.0):  # a single token has none
            first = maximum(first, percentile(spread.tpot, 99.0) / percentile(spread.tpot, 50.0))
        return first if found is None else where(found.is_stable, first, float("inf"))
    if level is None or spread is None:
        return means[metric]
    if found is None:
        parts = getattr(spread, metric)
        return percentile(parts, level) * (means[metric] / sum(part.weight * part.least for part in parts))
    raw = {"ttft": found.ttft, "tpot": found.tpot, "e2el": found.ttft + found.decode}[metric]
    scale = where(found.is_stable, means[metric] / where(found.is_stable, raw, 1.0), float("inf"))
    return percentile(getattr(spread, metric), level) * scale
