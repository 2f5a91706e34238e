"""Rows of GPUs that cannot run a case."""

from __future__ import annotations

from typing import Any

from roofline.api.inputs import pools, shape, texts
from roofline.api.inputs.case import LOADS
from roofline.api.predict import DEFAULT_ENGINE, DEFAULTS
from roofline.catalog import find
from roofline.errors import DoesNotFit, Overloaded, RooflineError
from roofline.serving.latency import BURST
from roofline.serving.row import ROW_KEYS
from roofline.specs.model import Model

__all__ = ["refused_row"]


def refused_row(model: str | Model, gpu: str, error: RooflineError, **options: Any) -> dict[str, Any]:
    """Row of the JSON contract for a GPU that cannot run a case: the reason, and nulls.

    Args:
        model: name, alias or record [text].
        gpu: name or alias of the GPU [text].
        error: why it was refused.
        options: keyword arguments of `predict`.

    Returns:
        The row; `fits` is false where memory is the reason, else null.
    """
    named = options.get("specs"), options.get("assume")
    record: Model = model if isinstance(model, Model) else find.find_model(model, *named).record
    options = texts.plain_options(pools.choice(gpu, {"isl": DEFAULTS["isl"], **options}).options)
    asked = {name: options.get(name, DEFAULTS.get(name)) for name in ("tp", "pp", "ep", "dp", *DEFAULTS, *LOADS)}
    if any(asked[name] is not None for name in LOADS[1:]):
        asked["batch"] = options.get("batch")
    asked["prefix"] = texts.tokens_of_prefix(asked["prefix"], asked["isl"])
    load = next((name for name in LOADS[1:] if asked[name] is not None), BURST)
    return {
        **dict.fromkeys(ROW_KEYS),
        **asked,
        **{name: options.get(name) for name in shape.TRAFFIC[:2]},
        "load": load,
        "model": record.short_name,
        "model_id": record.name,
        "gpu": pools.gpu_of(gpu, options.get("specs")).name,
        "engine": options.get("engine", DEFAULT_ENGINE),
        "fits": False if isinstance(error, DoesNotFit) else True if isinstance(error, Overloaded) else None,
        "warnings": [f"{type(error).__name__}: {error}"],
    }
