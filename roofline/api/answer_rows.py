"""Flat rows of answers on several GPUs, and of GPUs that cannot run the case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from roofline.api.inputs import pools, shape, texts
from roofline.api.inputs.case import LOADS
from roofline.api.predict import DEFAULT_ENGINE, DEFAULTS
from roofline.catalog import find
from roofline.errors import DoesNotFit, Overloaded, RooflineError
from roofline.serving.latency import BURST
from roofline.serving.prediction import Prediction
from roofline.serving.row import ROW_KEYS, check_keys, listed_keys, row
from roofline.specs.model import Model


def answer_row(
    keys: Iterable[str] | None,
    own_keys: Iterable[str],
    prediction: Prediction | None,
    asked: Mapping[str, Any],
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """Columns `keys` of a prediction, or of `asked` without one, and the question's own `values`; others are None."""
    known = tuple(dict.fromkeys((*ROW_KEYS, *own_keys)))
    columns = known if keys is None else listed_keys(keys)
    check_keys(columns, known)
    columns_of_prediction = tuple(key for key in columns if key in ROW_KEYS)
    values = {**(asked if prediction is None else row(prediction, columns_of_prediction)), **values}
    return {key: values.get(key) for key in columns}


def refused_row(model: str | Model, gpu: str, error: RooflineError, **options: Any) -> dict[str, Any]:
    """Row of the JSON contract with nulls and the reason; `fits` is false where memory is the reason, else null."""
    catalog_options = options.get("specs"), options.get("assume")
    record: Model = model if isinstance(model, Model) else find.find_model(model, *catalog_options).record
    options = texts.plain_options(pools.choice(gpu, {"isl": DEFAULTS["isl"], **options}).options)
    values = {name: options.get(name, DEFAULTS.get(name)) for name in ("tp", "pp", "ep", "dp", *DEFAULTS, *LOADS)}
    if any(values[name] is not None for name in LOADS[1:]):
        values["batch"] = options.get("batch")
    values["prefix"] = texts.tokens_of_prefix(values["prefix"], values["isl"])
    load = next((name for name in LOADS[1:] if values[name] is not None), BURST)
    return {
        **dict.fromkeys(ROW_KEYS),
        **values,
        **{name: options.get(name) for name in shape.TRAFFIC[:2]},
        "load": load,
        "model": record.short_name,
        "model_id": record.name,
        "gpu": pools.gpu_of(gpu, options.get("specs")).name,
        "engine": options.get("engine", DEFAULT_ENGINE),
        "fits": False if isinstance(error, DoesNotFit) else True if isinstance(error, Overloaded) else None,
        "warnings": [f"{type(error).__name__}: {error}"],
    }
