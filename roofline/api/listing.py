"""Catalog entries as table rows, and the figures and sources of a single entry."""

from __future__ import annotations

from typing import Any

from roofline.catalog import find
from roofline.catalog.find import Listed, document
from roofline.catalog.provenance import figures, si_value, sources, with_si
from roofline.catalog.selection import chosen_gpus, chosen_models
from roofline.physics.efficiency import basis_of
from roofline.physics.footprint import kv_bytes_per_token, kv_growth_per_token, state_bytes_per_sequence
from roofline.physics.parameters import CONVENTIONS, active_parameters, parameters
from roofline.quantity import BILLION, GIGA, HOUR, TERA
from roofline.specs.gpu import Gpu
from roofline.specs.layers import Ffn, Indexer, Mixer
from roofline.specs.model import Model

__all__ = [
    "Ffn",
    "Gpu",
    "Indexer",
    "Mixer",
    "Model",
    "basis",
    "document",
    "figures",
    "gpu_rows",
    "model_counts",
    "model_rows",
    "si_value",
    "sources",
    "with_si",
]


def basis(gpu: Gpu) -> str:
    """Default basis of predictions for a GPU: ``calibrated``, ``inherited``, ``generic`` or ``ideal``."""
    return basis_of(gpu, "calibrated")


def gpu_rows(
    specs: str | None = None, vendor: str | None = None, generation: str | None = None, status: str | None = None
) -> list[dict[str, Any]]:
    """GPUs as flat rows, in the order of their names; keys carry their unit."""
    listed = {entry.record.name: entry for entry in find.listed("gpu", specs)}
    chosen = chosen_gpus((entry.record for entry in listed.values()), vendor, generation, status)
    return [_gpu_row(gpu, listed[gpu.name]) for gpu in chosen]


def model_rows(
    specs: str | None = None,
    family: str | None = None,
    min_parameters: float | None = None,
    max_parameters: float | None = None,
    *,
    moe: bool | None = None,
) -> list[dict[str, Any]]:
    """Models as flat rows, in the order of their names; keys carry their unit."""
    records = (entry.record for entry in find.listed("model", specs))
    chosen = chosen_models(records, family, min_parameters, max_parameters, moe)
    return [_model_row(model) for model in chosen]


def model_counts(model: Model) -> dict[str, Any]:
    """Counts [1] and sizes [B] of a model, from its layers."""
    return {
        "parameters": parameters(model).total,
        "active": {name: active_parameters(model, name) for name in CONVENTIONS},
        "layers": model.layers,
        "kv_bytes_per_token": kv_bytes_per_token(model),
        "kv_growth_bytes_per_token": kv_growth_per_token(model),
        "state_bytes_per_sequence": state_bytes_per_sequence(model),
        "native": dict(model.native),
    }


def _gpu_row(gpu: Gpu, entry: Listed) -> dict[str, Any]:
    priced = [] if gpu.price is None else figures(entry.content)
    rates = {f"{dtype}_tflop_s": _scaled(gpu.peaks.get(dtype), TERA) for dtype in ("bf16", "fp8", "int8", "fp4")}
    return {
        "gpu": gpu.name,
        "aliases": list(gpu.aliases),
        "vendor": gpu.vendor,
        "generation": gpu.generation,
        "status": gpu.status,
        **rates,
        "bandwidth_tb_s": gpu.bandwidth / TERA,
        "memory_gb": gpu.memory / GIGA,
        "link": gpu.link.kind,
        "link_gb_s": gpu.link.bandwidth / GIGA,
        "domain": gpu.link.domain,
        "power_w": gpu.power,
        "usd_per_hour": None if gpu.price is None else gpu.price.typical * HOUR,
        "price_date": next((figure.date for figure in priced if figure.field == "price"), None),
        "basis": basis(gpu),
    }


def _model_row(model: Model) -> dict[str, Any]:
    return {
        "model": model.short_name,
        "model_id": model.name,
        "aliases": list(model.aliases),
        "family": model.family,
        "layers": model.layers,
        "parameters_b": parameters(model).total / BILLION,
        "active_b": active_parameters(model) / BILLION,
        "stated_parameters_b": _scaled(model.stated_total, BILLION),
        "stated_active_b": _scaled(model.stated_active, BILLION),
        "weight_dtype": model.native["experts" if model.is_moe else "linear"],
        "max_context": model.max_context,
    }


def _scaled(value: Any, unit: float) -> float | None:
    return None if value is None else value / unit
