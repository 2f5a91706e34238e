"""How sure the latencies of two pools are: their 80 % intervals, and the verdict on an SLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roofline.ops import Real, maximum, minimum
from roofline.quantity import distinct_texts
from roofline.records import replace
from roofline.serving.disaggregation import Pools
from roofline.serving.interval import POOLED_TPOT, load_sigma, pass_sigma, spread
from roofline.serving.latency import Workload, decode, prefill, time_per_token
from roofline.serving.limits import beyond
from roofline.serving.traffic.pool_domain import outside_pools
from roofline.serving.traffic.pools import Pooled
from roofline.serving.verdict import AT_HARDWARE_LIMIT, FAIL, IN_RANGE, PASS, Limited, Verdict, verdict
from roofline.specs.slo import P99_WITHIN, key_text, metric_and_level

_Interval = tuple[float, float]


def pool_intervals(pools: Pools, workload: Workload, load: Pooled) -> dict[str, _Interval] | None:
    """Ends of the 80 % intervals of the mean latencies [s]; None on the ideal basis, which is a bound."""
    if is_ideal(pools):
        return None
    single = replace(workload, batch=1.0, concurrency=None, request_rate=None, num_prompts=None)
    batched = replace(single, batch=load.batch)
    users = load.concurrency / pools.prefill.replicas
    engine, cold = pools.prefill.engine, workload.cold_start
    stated = pools.prefill.effective_engine.network  # by the user, like cold starts: no uncertainty
    stated = stated if cold is None else stated + cold[0] * cold[1]
    own = prefill(pools.prefill, single)
    sigma = load_sigma(own, pools.prefill.basis, "ttft", load, users, engine.sigma_loaded_ttft)
    low, high = spread(load.ttft - stated, sigma)
    least = _least(pools, workload, load)
    first = _around(load.ttft, (low + stated, high + stated), least["ttft"])
    if workload.osl <= 1.0:
        return {"ttft": first, "e2el": first}
    ends = spread(load.tpot, pass_sigma(decode(pools.decode, batched), pools.decode.basis, POOLED_TPOT))
    step = _around(load.tpot, ends, least["tpot"])
    low, high = (float(begin + load.decode * (each / load.tpot)) for begin, each in zip(first, step, strict=True))
    return {"ttft": first, "tpot": step, "e2el": (low, high)}


def _least(pools: Pools, workload: Workload, load: Pooled) -> dict[str, Real]:
    """Mean latencies at the hardware limit [s]."""
    single = replace(workload, batch=1.0, concurrency=None, request_rate=None, num_prompts=None)
    first = prefill(pools.prefill.on("ideal"), single).time
    if workload.osl <= 1.0:
        return {"ttft": first, "e2el": first}
    fastest = decode(pools.decode.on("ideal"), replace(single, batch=load.batch)).time
    step = time_per_token(pools.decode, workload.osl, fastest)
    return {"ttft": first, "tpot": step, "e2el": first + load.decode * (step / load.tpot)}


def is_ideal(pools: Pools) -> bool:
    """Whether the figures are a hardware limit, of either pool."""
    return "ideal" in (pools.prefill.basis, pools.decode.basis)


def pool_verdict(
    pools: Pools,
    workload: Workload,
    load: Pooled,
    slo: Mapping[str, float],
    latency: Callable[[str], float | None],
    intervals: Mapping[str, _Interval] | None,
) -> Verdict:
    """The verdict on an SLO."""
    limited = []
    is_timed = "generic" not in (pools.prefill.basis, pools.decode.basis)
    least: Mapping[str, Real] = {} if is_timed or is_ideal(pools) else _least(pools, workload, load)
    for key, limit in slo.items():
        metric = metric_and_level(key)[0]
        if metric == "tpot" and workload.osl <= 1.0:
            continue  # does not apply
        time = latency(key)
        if time is None:  # the percentile is not known
            time = float("nan")
        low, high = time, float("inf") if is_ideal(pools) else time
        mean = float(latency(metric) or time) if metric in least or metric in (intervals or ()) else time
        if intervals is not None and metric in intervals:
            low, high = (end * time / mean for end in intervals[metric])
        at_best = least.get(metric, 0.0) * minimum(time / mean, 1.0)
        limited.append(Limited(key, *(share / limit for share in (time, low, high, at_best))))
    if is_ideal(pools):
        return verdict(limited, in_range=AT_HARDWARE_LIMIT, is_mean=True)
    single = replace(workload, batch=1.0, concurrency=None, request_rate=None, num_prompts=None)
    unchecked = [*outside_pools(pools, workload, load), *beyond(pools.prefill, single)]
    return verdict(limited, unchecked, in_range=IN_RANGE, is_mean=True, is_timed=is_timed)


def verdict_text(judged: Verdict) -> str:
    """A verdict in a few words: its word, and why where that is not plain."""
    if judged.binding is None:
        return str(judged.reason)
    why = f" ({judged.reason})" if judged.reason and judged.word not in (PASS, FAIL) else ""
    return f"{judged.text}{why}"


def limits_beside_latencies(slo: Mapping[str, float], latency: Callable[[str], float | None]) -> str:
    """Each latency beside its limit; a limit without a percentile is one on the mean."""
    texts = []
    for key, limit in slo.items():
        metric, level = metric_and_level(key)
        name = key_text(key) if metric == P99_WITHIN or level is not None else f"mean {key_text(key)}"
        time = latency(key)
        unit = None if metric == P99_WITHIN else "s"
        if time is None:
            unknown = "none" if metric == "tpot" and latency("tpot") is None else "not known"
            texts.append(f"{name} {unknown}, against {distinct_texts(limit, limit, unit)[1]}")
            continue
        figure, most = distinct_texts(time, limit, unit)
        texts.append(f"{name} {figure} {'<=' if time <= limit else '>'} {most}")
    return ", ".join(texts)


def _around(time: Real, ends: tuple[Real, Real], least: Real) -> _Interval:
    """Ends of an interval that contains the time, the low end no faster than the hardware limit."""
    return float(minimum(maximum(ends[0], least), time)), float(maximum(ends[1], time))
