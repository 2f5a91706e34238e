"""A prediction as a flat row for programs and as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.ops import Real
from roofline.quantity import GIGA, MILLI, to_text
from roofline.serving.precision import summary

if TYPE_CHECKING:
    from roofline.serving.prediction import Prediction

__all__ = ["ROW_KEYS", "row", "text"]

#: Keys of a row of the JSON contract, in order.
ROW_KEYS = (
    "model",
    "model_id",
    "gpu",
    "num_gpus",
    "tp",
    "pp",
    "ep",
    "dp",
    "isl",
    "osl",
    "prefix",
    "batch",
    "weight_dtype",
    "kv_dtype",
    "compute_dtype",
    "basis",
    "engine",
    "fits",
    "ttft_ms",
    "tpot_ms",
    "itl_ms",
    "e2el_ms",
    "tok_s_user",
    "output_tok_s",
    "output_tok_s_gpu",
    "prefill_bound",
    "decode_bound",
    "ridge_knee",
    "half_knee",
    "memory_knee",
    "slo_knee",
    "knee",
    "knee_bound",
    "weights_gb",
    "kv_cache_gb",
    "hbm_used_frac",
    "usd_per_hour",
    "warnings",
)


def row(prediction: Prediction) -> dict[str, Any]:
    """Flat row of the JSON contract.

    Args:
        prediction: the prediction.

    Returns:
        Values by `ROW_KEYS`; keys carry their unit, what does not apply is None, arrays are lists.
    """
    deployment, workload, plan = prediction.deployment, prediction.workload, prediction.deployment.plan
    weight_dtype, kv_dtype, compute_dtype = summary(deployment.model, deployment.precision)
    found = prediction.knees
    return {
        "model": deployment.model.short_name,
        "model_id": deployment.model.name,
        "gpu": deployment.gpu.name,
        "num_gpus": deployment.num_gpus,
        "tp": plan.tp,
        "pp": plan.pp,
        "ep": plan.ep,
        "dp": plan.dp,
        "isl": _whole(workload.isl),
        "osl": _whole(workload.osl),
        "prefix": _whole(workload.prefix),
        "batch": _whole(workload.batch),
        "weight_dtype": weight_dtype,
        "kv_dtype": kv_dtype,
        "compute_dtype": compute_dtype,
        "basis": prediction.basis,
        "engine": prediction.engine,
        "fits": _plain(prediction.fits),
        "ttft_ms": _plain(prediction.ttft, MILLI),
        "tpot_ms": _plain(prediction.tpot, MILLI),
        "itl_ms": _plain(prediction.itl, MILLI),
        "e2el_ms": _plain(prediction.e2el, MILLI),
        "tok_s_user": _plain(prediction.tok_s_user),
        "output_tok_s": _plain(prediction.output_tok_s),
        "output_tok_s_gpu": _plain(prediction.output_tok_s_gpu),
        "prefill_bound": _plain(prediction.prefill.bound),
        "decode_bound": _plain(prediction.decode.bound),
        "ridge_knee": _plain(found.ridge),
        "half_knee": _plain(found.half),
        "memory_knee": _whole(found.memory),
        "slo_knee": None if found.slo is None else _whole(found.slo),
        "knee": _plain(prediction.knee),
        "knee_bound": _plain(prediction.knee_bound),
        "weights_gb": _plain(prediction.memory.weights, GIGA),
        "kv_cache_gb": _plain(prediction.memory.kv_cache, GIGA),
        "hbm_used_frac": _plain(prediction.memory.used_fraction),
        "usd_per_hour": _plain(prediction.usd_per_hour),
        "warnings": list(prediction.warnings),
    }


def text(prediction: Prediction) -> str:
    """Readable answer; arrays show their shape.

    Args:
        prediction: the prediction.

    Returns:
        Some lines [text].
    """
    deployment, workload, memory = prediction.deployment, prediction.workload, prediction.memory
    plan, knees = deployment.plan, prediction.knees
    weights, kv, compute = summary(deployment.model, deployment.precision)
    lines = {
        "plan": f"tp {plan.tp}, pp {plan.pp}, ep {plan.ep}, dp {plan.dp}, replicas {deployment.replicas}",
        "formats": f"weights {weights}, KV cache {kv}, compute {compute}",
        "workload": f"isl {_said(workload.isl)}, osl {_said(workload.osl)}, batch {_said(workload.batch)}, "
        f"prefix {_said(workload.prefix)}",
        "TTFT": f"{_said(prediction.ttft, 's')}  ({prediction.prefill.bound}-bound)",
        "TPOT": f"{_said(prediction.tpot, 's')}  ({prediction.decode.bound}-bound)",
        "E2EL": _said(prediction.e2el, "s"),
        "output": f"{_said(prediction.tok_s_user)} tok/s/user, {_said(prediction.output_tok_s)} tok/s, "
        f"{_said(prediction.output_tok_s_gpu)} tok/s/GPU",
        "knee": f"{_said(prediction.knee)} sequences, set by {prediction.knee_bound} (ridge {_said(knees.ridge)}, "
        f"half {_said(knees.half)}, memory {_said(knees.memory)}, SLO {_said(knees.slo)})",
        "memory": f"weights {_said(memory.weights, 'B')}, KV cache {_said(memory.kv_cache, 'B')} of "
        f"{_said(memory.usable, 'B')} per GPU; fits: {_said(prediction.fits)}",
        "cost": f"{_said(prediction.usd_per_hour)} USD/h",
        "basis": f"{prediction.basis}, engine {prediction.engine}",
    }
    title = f"{deployment.model.short_name} ({deployment.model.name}) on {deployment.num_gpus} x {deployment.gpu.name}"
    return "\n".join([title, *(f"  {label:<10} {line}" for label, line in lines.items())])


def _said(value: Real, unit: str | None = None) -> str:
    """Value for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (float, int)):
        return f"array{value.shape}"
    if unit is not None:
        return to_text(value, unit)
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def _plain(value: Real, unit: float = 1.0) -> Any:
    """Value as JSON has it: floats, texts, lists; None for what is not a finite number."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (float, int)):
        number = value / unit
        return number if number - number == 0.0 else None
    return [_plain(item, unit) for item in value.tolist()] if value.ndim == 1 else value.tolist()


def _whole(value: Real) -> Any:
    """Value as JSON has it, whole numbers as integers."""
    number = _plain(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number
