"""A prediction as a flat row for programs and as text for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from roofline.errors import BadInput, UnknownName, shown
from roofline.ops import Real
from roofline.quantity import GIGA, MILLI, rounded, to_text
from roofline.serving.latency import RATE, Workload
from roofline.serving.precision import summary
from roofline.serving.traffic.tails import LEVELS
from roofline.specs.slo import LATENCIES, P99_WITHIN, key_of, key_text

if TYPE_CHECKING:
    from roofline.serving.prediction import Prediction

__all__ = ["ROW_KEYS", "check_keys", "listed_keys", "prediction_text", "row"]


_MOST_KEYS = 1000  # more are none of these
_INDENT = " " * 13  # of a second line of a readable answer


def row(prediction: Prediction, keys: Iterable[str] | None = None) -> dict[str, Any]:
    """Flat row of the JSON contract.

    Args:
        prediction: the prediction.
        keys: which of `ROW_KEYS`; None for all [text].

    Returns:
        Values by key; keys carry their unit, what does not apply is None, arrays are lists.

    Raises:
        UnknownName: a key that is none.
        BadInput: keys that are no list.
    """
    if keys is None:
        return {key: value(prediction) for key, value in _VALUES.items()}
    wanted = keys if type(keys) is tuple else listed_keys(keys)
    check_keys(wanted)
    return {key: _VALUES[key](prediction) for key in wanted}


def check_keys(keys: Iterable[str], known: Iterable[str] | None = None) -> None:
    """Refuse what are no keys of a row.

    Args:
        keys: those asked for [text].
        known: those that there are; None for `ROW_KEYS` [text].

    Raises:
        UnknownName: a key that is none.
    """
    there = ROW_KEYS if known is None else tuple(known)
    for key in keys:
        if not isinstance(key, str) or key not in there:
            raise UnknownName(f"no key {shown(key)} of a row; it may be {', '.join(there)}")


def prediction_text(prediction: Prediction) -> str:
    """Readable answer; arrays show their shape.

    Args:
        prediction: the prediction.

    Returns:
        Some lines [text].
    """
    deployment, workload, memory = prediction.deployment, prediction.workload, prediction.memory
    plan = deployment.plan
    weights, kv, compute = summary(deployment.model, deployment.precision)
    lines = {
        "plan": f"tp {plan.tp}, pp {plan.pp}, ep {plan.ep}, dp {plan.dp}, replicas {deployment.replicas}",
        "formats": f"weights {weights}, KV cache {kv}, compute {compute}",
        "workload": f"isl {_said(workload.isl)}, osl {_said(workload.osl)}, {_burst(prediction)}"
        f"prefix {_said(workload.prefix)}{_shape(workload)}",
        **_load(prediction),
        "TTFT": f"{_with_interval(prediction, 'ttft')}  ({_said(prediction.prefill.bound)}-bound"
        f"{_prompts(workload.batch)}){_percentiles(prediction, 'ttft')}",
        "TPOT": f"{_with_interval(prediction, 'tpot')}  ({_said(prediction.decode.bound)}-bound)"
        f"{_percentiles(prediction, 'tpot')}",
        "E2EL": _with_interval(prediction, "e2el") + _percentiles(prediction, "e2el"),
        **_slo(prediction),
        "light": f"{'calibrated kernels and host reach' if prediction.basis == 'ideal' else 'reaches'} "
        f"{_percent(prediction.light_share['prefill'])} of light speed in prefill, "
        f"{_percent(prediction.light_share['decode'])} in decode",
        "output": f"{_said(prediction.tok_s_user)} tok/s/user, {_said(prediction.output_tok_s)} tok/s, "
        f"{_said(prediction.output_tok_s_gpu)} tok/s/GPU",
        **_knee(prediction),
        "memory": f"weights {_said(memory.weights, 'B')}, KV cache {_said(memory.kv_cache, 'B')} of "
        f"{_said(memory.usable, 'B')} per GPU; fits: {_said(prediction.fits)}; "
        f"longest context {_said(prediction.longest_context)} tokens",
        "cost": _cost(prediction),
        "basis": prediction.basis_detail,
        "engine": _engine(prediction),
        **_measured(prediction),
    }
    title = f"{deployment.model.short_name} ({deployment.model.name}) on {deployment.num_gpus} x {deployment.gpu.name}"
    return "\n".join([title, *(f"  {label:<10} {line}" for label, line in lines.items())])


def listed_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """Keys of a row as a tuple.

    Args:
        keys: some iterable of them [text].

    Returns:
        The keys [text].

    Raises:
        BadInput: a single text, or nothing to iterate over.
    """
    found: tuple[str, ...] | None = None
    if not isinstance(keys, (str, bytes, AbstractSet, Mapping)):
        with suppress(TypeError):  # nothing to iterate over
            found = tuple(islice(keys, _MOST_KEYS))
    if found is None:
        raise BadInput(f"keys = {shown(keys)} must be a list of keys of a row, such as ['ttft_ms', 'tpot_ms']")
    return found


def _burst(prediction: Prediction) -> str:
    """The batch of a burst; of another load a line of its own speaks."""
    return f"batch {_said(prediction.workload.batch)}, " if prediction.served is None else ""


def _shape(workload: Workload) -> str:
    """How lengths spread, and who starts cold."""
    said = "" if workload.lengths is None else f"; lengths {workload.lengths}"
    if workload.cold_start is None:
        return said
    share, time = workload.cold_start
    return f"{said}; {100.0 * share:.3g} % start cold, {to_text(time, 's')} later"


def _load(prediction: Prediction) -> dict[str, str]:
    """Users or requests per second, what they keep busy, and how long they wait."""
    if prediction.served is None:
        return {}
    who = f"{_said(prediction.concurrency)} users who ask again"
    if prediction.load == RATE:
        who = f"{_said(prediction.request_rate)} requests/s at random, {_said(prediction.concurrency)} in flight"
    else:
        who += f", {_said(prediction.request_rate)} requests/s"
    run = prediction.workload.num_prompts
    who += "" if run is None else f", a run of {_said(run)} requests that all begin together"
    most = f"{_percent(prediction.util)} of at most {_said(prediction.max_request_rate)} requests/s"
    return {
        "load": f"{who}; {most}",
        "queue": f"{_said(prediction.queue, 's')} of the TTFT; {_said(prediction.running)} requests are worked on, "
        f"{_said(prediction.waiting)} wait",
    }


def _percentiles(prediction: Prediction, metric: str) -> str:
    """Percentiles under a load, of one case, on a line of their own."""
    times = [prediction.latency(key_of(metric, level)) for level in LEVELS] if prediction.tails is not None else []
    if not times or not all(isinstance(time, float) for time in times):
        return ""
    said = ", ".join(f"p{level:g} {_said(time, 's')}" for level, time in zip(LEVELS, times, strict=True))
    return f"\n{_INDENT}{said}"


def _slo(prediction: Prediction) -> dict[str, str]:
    """Each limit, what it is compared with, and whether it is met."""
    shares = prediction.slo_shares
    if not shares or not all(isinstance(share, float) for share in shares.values()):
        return {}
    said = []
    for key, share in shares.items():
        unit = None if key == P99_WITHIN else "s"
        times = [
            f"{_said(time, unit)}{'' if unit else 'x'}" for time in (share * prediction.slo[key], prediction.slo[key])
        ]
        sign, verdict = ("<=", "pass") if share <= 1.0 else (">", "fail")
        said.append(f"{key_text(key)} {times[0]} {sign} {times[1]}: {verdict}")
    return {"SLO": "; ".join(said)}


def _knee(prediction: Prediction) -> dict[str, str]:
    """The batch, or the users, at which decode stops being cheap; none under a rate."""
    knees, of = prediction.knees, "sequences" if prediction.served is None else "users"
    if knees.memory is None:
        return {}
    four = f"ridge {_said(knees.ridge)}, half {_said(knees.half)}, memory {_said(knees.memory)}, SLO {_said(knees.slo)}"
    return {"knee": f"{_said(prediction.knee)} {of}, set by {_said(prediction.knee_bound)} ({four})"}


def _with_interval(prediction: Prediction, result: str) -> str:
    """A time, and the interval that holds it in four of five cases."""
    time, ends = getattr(prediction, result), getattr(prediction, f"{result}_interval")
    if time is None or ends is None or not isinstance(time, float):
        return _said(time, "s")
    return f"{_said(time, 's')}  [{_said(ends[0], 's')} .. {_said(ends[1], 's')}]"


def _cost(prediction: Prediction) -> str:
    """Rent by the hour, and what it makes of a million output tokens."""
    hourly = f"{_said(prediction.usd_per_hour)} USD/h"
    if prediction.usd_per_m_output_tok is None:
        return hourly
    return f"{hourly}, {_said(prediction.usd_per_m_output_tok)} USD per million output tokens at this load"


def _percent(share: Real) -> str:
    return f"{100.0 * share:.0f} %" if isinstance(share, float) else _said(share)


def _prompts(batch: Real) -> str:
    """That the first token of a batch waits for all of its prompts."""
    return f"; a burst: all {batch:g} prompts together" if isinstance(batch, float) and batch > 1.0 else ""


def _measured(prediction: Prediction) -> dict[str, str]:
    """What a measurement of the deployment did to the answer."""
    known = {"TTFT": prediction.correction.ttft, "TPOT": prediction.correction.tpot}
    factors = ", ".join(f"{name} x {rounded(factor)}" for name, factor in known.items() if factor != 1.0)
    return {"measured": f"scaled by a measurement of this deployment: {factors}"} if factors else {}


def _engine(prediction: Prediction) -> str:
    """Engine, and the versions that its constants were fitted on."""
    engine = prediction.deployment.engine
    if prediction.engine == "none":
        return "none: kernels alone"
    fitted = ", ".join(part for part in (engine.versions, engine.year) if part)
    return f"{engine.name}" + (f" ({fitted})" if fitted else "")


def _said(value: Real, unit: str | None = None) -> str:
    """Value for people."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (float, int)):
        known = (item for item in value.ravel().tolist() if not (isinstance(item, float) and math.isnan(item)))
        flat = sorted(set(known))  # NaN is what does not fit
        if not flat:
            return "-"
        ends = dict.fromkeys(_said(item, unit) for item in (flat[0], flat[-1]))
        return " .. ".join(ends) + f" ({value.size} cases)"
    if unit is not None:
        return to_text(value, unit)
    return rounded(value) if math.isfinite(value) else "-"


def _plain(value: Real, unit: float = 1.0) -> Any:
    """Value as JSON has it: floats, texts, lists; None for what is not a finite number."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (float, int)):
        number = value / unit
        return number if number - number == 0.0 else None
    return [_plain(item, unit) for item in (value if isinstance(value, list) else value.tolist())]


def _whole(value: Real) -> Any:
    """Value as JSON has it, whole numbers as integers."""
    number = _plain(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _interval(result: str) -> dict[str, Callable[[Prediction], Any]]:
    """Both ends of an 80 % interval; None on the ideal basis, which is a bound."""

    def end(prediction: Prediction, which: int) -> Any:
        found = getattr(prediction, f"{result}_interval")
        return None if found is None else _plain(found[which], MILLI)

    return {f"{result}_low_ms": lambda p: end(p, 0), f"{result}_high_ms": lambda p: end(p, 1)}


def _percentile(key: str) -> dict[str, Callable[[Prediction], Any]]:
    """A percentile and both ends of its 80 % interval; None for a burst."""

    def value(prediction: Prediction) -> Any:
        return None if prediction.tails is None else _plain(prediction.latency(key), MILLI)

    def end(prediction: Prediction, which: int) -> Any:
        found = None if prediction.tails is None else prediction.latency_interval(key)
        return None if found is None else _plain(found[which], MILLI)

    return {
        f"{key}_ms": value,
        f"{key}_low_ms": lambda p: end(p, 0),
        f"{key}_high_ms": lambda p: end(p, 1),
    }


def _met(prediction: Prediction) -> Any:
    """Whether every limit of the SLO is met; None without one."""
    shares = list(prediction.slo_shares.values())
    if not prediction.slo:
        return None
    if all(isinstance(share, float) for share in shares):
        return all(share <= 1.0 for share in shares)
    met = shares[0] <= 1.0
    for share in shares[1:]:
        met = met & (share <= 1.0)
    return _plain(met)


def _binding(prediction: Prediction) -> Any:
    """Key of the limit that is taken up most; None without one, and in arrays."""
    shares = prediction.slo_shares
    if not shares or not all(isinstance(share, float) for share in shares.values()):
        return None
    return max(shares, key=lambda key: shares[key])


_VALUES: dict[str, Callable[[Prediction], Any]] = {
    "model": lambda p: p.deployment.model.short_name,
    "model_id": lambda p: p.deployment.model.name,
    "gpu": lambda p: p.deployment.gpu.name,
    "num_gpus": lambda p: p.deployment.num_gpus,
    "tp": lambda p: p.deployment.plan.tp,
    "pp": lambda p: p.deployment.plan.pp,
    "ep": lambda p: p.deployment.plan.ep,
    "dp": lambda p: p.deployment.plan.dp,
    "isl": lambda p: _whole(p.workload.isl),
    "osl": lambda p: _whole(p.workload.osl),
    "prefix": lambda p: _whole(p.workload.prefix),
    "isl_cv": lambda p: 0.0 if p.workload.lengths is None else p.workload.lengths.prompts.cv,
    "osl_cv": lambda p: 0.0 if p.workload.lengths is None else p.workload.lengths.answers.cv,
    "batch": lambda p: _whole(p.workload.batch) if p.served is None else None,
    "load": lambda p: p.load,
    "concurrency": lambda p: _whole(p.concurrency),
    "request_rate": lambda p: _plain(p.request_rate),
    "util": lambda p: _plain(p.util),
    "running": lambda p: _plain(p.running),
    "waiting": lambda p: _plain(p.waiting),
    "queue_ms": lambda p: _plain(p.queue, MILLI),
    "max_request_rate": lambda p: _plain(p.max_request_rate),
    "weight_dtype": lambda p: summary(p.deployment.model, p.deployment.precision)[0],
    "kv_dtype": lambda p: summary(p.deployment.model, p.deployment.precision)[1],
    "compute_dtype": lambda p: summary(p.deployment.model, p.deployment.precision)[2],
    "basis": lambda p: p.basis,
    "basis_detail": lambda p: p.basis_detail,
    "engine": lambda p: p.engine,
    "fits": lambda p: _plain(p.fits),
    "ttft_ms": lambda p: _plain(p.ttft, MILLI),
    "tpot_ms": lambda p: _plain(p.tpot, MILLI),
    "itl_ms": lambda p: _plain(p.itl, MILLI),
    "e2el_ms": lambda p: _plain(p.e2el, MILLI),
    **_interval("ttft"),
    **_interval("tpot"),
    **_interval("e2el"),
    **{
        key: value
        for metric in LATENCIES
        for level in LEVELS
        for key, value in _percentile(key_of(metric, level)).items()
    },
    "slo_met": _met,
    "slo_binding": _binding,
    "ttft_light_frac": lambda p: _plain(p.light_share["prefill"]),
    "tpot_light_frac": lambda p: None if p.tpot is None else _plain(p.light_share["decode"]),
    "tok_s_user": lambda p: _plain(p.tok_s_user),
    "output_tok_s": lambda p: _plain(p.output_tok_s),
    "output_tok_s_gpu": lambda p: _plain(p.output_tok_s_gpu),
    "prefill_bound": lambda p: _plain(p.prefill.bound),
    "decode_bound": lambda p: None if p.tpot is None else _plain(p.decode.bound),
    "ridge_knee": lambda p: _plain(p.knees.ridge),
    "half_knee": lambda p: _plain(p.knees.half),
    "memory_knee": lambda p: _whole(p.knees.memory),
    "slo_knee": lambda p: _whole(p.knees.slo),
    "knee": lambda p: _plain(p.knee),
    "knee_bound": lambda p: _plain(p.knee_bound),
    "weights_gb": lambda p: _plain(p.memory.weights, GIGA),
    "kv_cache_gb": lambda p: _plain(p.memory.kv_cache, GIGA),
    "hbm_used_frac": lambda p: _plain(p.memory.used_fraction),
    "usd_per_hour": lambda p: _plain(p.usd_per_hour),
    "usd_per_m_output_tok": lambda p: _plain(p.usd_per_m_output_tok),
    "warnings": lambda p: list(p.warnings),
}

#: Keys of a row of the JSON contract, in order.
ROW_KEYS = tuple(_VALUES)
