"""How a deployment, a plan, a latency beside its limit and a verdict read, wherever an answer is put into words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.numbers.operations import Real, span_text
from roofline.numbers.quantity import distinct_texts, to_text
from roofline.physics.plan import Deployment
from roofline.serving.latency import Workload, load_text
from roofline.serving.verdict import FAIL, PASS, Verdict
from roofline.specs.workload import P99_WITHIN, key_text, limits_words

_DEGREES = ("tp", "pp", "ep", "dp")


def gpus_text(gpu: str, count: Real | None) -> str:
    """GPUs of one kind and their number, where it is known.

    >>> gpus_text("h100-sxm", 8), gpus_text("h100-sxm", None)
    ('8x h100-sxm', 'h100-sxm')
    """
    return gpu if count is None else f"{span_text(count)}x {gpu}"


def deployed_text(deployment: Deployment, formats: str = "") -> str:
    """Text such as ``llama-3.1-8b on 2x h100-sxm``; `formats` follow the model."""
    model = f"{deployment.model.short_name} {formats}".rstrip()
    return f"{model} on {gpus_text(deployment.gpu.name, deployment.num_gpus)}"


def degrees_text(degrees: Any, always: tuple[str, ...] = ()) -> str:
    """Parallel degrees that are stated and not 1, and those that are `always` said: text such as ``tp 8, ep 8``."""
    texts = {name: span_text(getattr(degrees, name)) for name in _DEGREES}
    return ", ".join(f"{name} {text}" for name, text in texts.items() if name in always or text not in ("1", "-"))


def plan_text(plan: Any, preset: str | None = None, replicas: Real = 1) -> str:
    """Text such as ``tp 8, ep 8, fp8, 2 replicas``: tp always, other degrees and replicas only above 1.

    >>> from roofline.physics.plan import Plan
    >>> plan_text(Plan(tp=8, ep=8), "fp8"), plan_text(Plan(tp=1), replicas=2)
    ('tp 8, ep 8, fp8', 'tp 1, 2 replicas')
    """
    copies = "" if span_text(replicas) == "1" else f"{span_text(replicas)} replicas"
    return ", ".join(part for part in (degrees_text(plan, ("tp",)), preset, copies) if part)


def case_text(workload: Workload) -> str:
    """Lengths and load of one case: text such as ``isl 2000, osl 300, 64 users``."""
    return f"isl {workload.isl:g}, osl {workload.osl:g}, {load_text(workload)}"


def times_text(times: Mapping[str, Real | None], *, is_mean: bool = False) -> str:
    """Latencies by their keys [s]: text such as ``TTFT 98.3 ms, TPOT 9.12 ms``; None: left out."""
    known = {key_text(key, is_mean=is_mean): time for key, time in times.items() if time is not None}
    return ", ".join(f"{name} {to_text(float(time), 's')}" for name, time in known.items())


def beside_limit(key: str, time: float | None, limit: float, *, is_mean: bool = True, least: str = "") -> str:
    """A latency beside its limit, in as many digits as tell them apart; None: it is not known.

    >>> beside_limit("ttft_p95", 0.3004, 0.3), beside_limit("tpot", 0.02, 0.025), beside_limit("p99_within", None, 2.0)
    ('TTFT p95 300.4 ms > 300 ms', 'mean TPOT 20 ms <= 25 ms', 'p99/median not known, against 2x')
    """
    name, unit = key_text(key, is_mean=is_mean), None if key == P99_WITHIN else "s"
    if time is None or time != time:  # noqa: PLR0124 - NaN
        return f"{name} not known, against {distinct_texts(limit, limit, unit)[1]}"
    figure, most = distinct_texts(time, limit, unit)
    return f"{name} {least}{figure} {'<=' if time <= limit else '>'} {most}"


def verdict_text(
    judged: Verdict,
    slo: Mapping[str, float],
    times: Mapping[str, float | None],
    *,
    is_mean: bool = True,
    reason: str | None = None,
) -> str:
    """The limits of an SLO that apply, with the latencies beside them, and the verdict; `reason` in place of its own.

    >>> verdict_text(Verdict("pass?", "not validated", "ttft"), {"ttft": 0.3}, {"ttft": 0.25})
    'mean TTFT 250 ms <= 300 ms: pass? (not validated)'
    """
    if judged.binding is None:
        return f"{limits_words(slo, is_mean=is_mean)}: {judged.reason}"
    limits = ", ".join(beside_limit(key, time, slo[key], is_mean=is_mean) for key, time in times.items())
    why = reason or judged.reason
    return f"{limits}: {judged.text}" + (f" ({why})" if why and judged.word not in (PASS, FAIL) else "")
