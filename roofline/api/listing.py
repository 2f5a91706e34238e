"""Entries of the catalogs as rows of a table, and one entry in full: its figures with their sources, its counts."""

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
    """What predictions for a GPU stand on.

    Args:
        gpu: the record.

    Returns:
        ``calibrated``, ``inherited``, ``generic`` or ``ideal`` [text].
    """
    return basis_of(gpu, "calibrated")


def gpu_rows(
    specs: str | None = None, vendor: str | None = None, generation: str | None = None, status: str | None = None
) -> list[dict[str, Any]]:
    """GPUs of the catalog as flat rows.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].
        vendor: as `gpus` takes it [text].
        generation: likewise [text].
        status: likewise [text].

    Returns:
        Rows in the order of the names; keys carry their unit.

    Raises:
        UnknownName: no GPU at all is of such a vendor, generation or status.
        BadSpec: a specification has faults.
    """
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
    """Models of the catalog as flat rows.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].
        family: as `models` takes it [text].
        min_parameters: likewise [1].
        max_parameters: likewise [1].
        moe: likewise [bool].

    Returns:
        Rows in the order of the names; keys carry their unit.

    Raises:
        UnknownName: no model at all is of such a family.
        BadInput: bounds that are no numbers, or nothing between them.
        BadSpec: a specification has faults.
    """
    records = (entry.record for entry in find.listed("model", specs))
    chosen = chosen_models(records, family, min_parameters, max_parameters, moe)
    return [_model_row(model) for model in chosen]


def model_counts(model: Model) -> dict[str, Any]:
    """What a program wants to know of a model beside its document.

    Args:
        model: the record.

    Returns:
        Counts [1] and sizes [B] from the layers.
    """
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
