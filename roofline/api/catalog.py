"""What the catalogs hold: names, records, rows for a table, and whether their files are sound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.catalog import find
from roofline.catalog.find import Found, Listed, document, find_gpu, find_model, load_gpu, load_model
from roofline.catalog.provenance import figures, si_value, sources, with_si
from roofline.catalog.selection import chosen_gpus, chosen_models
from roofline.physics.efficiency import basis_of
from roofline.physics.footprint import kv_bytes_per_token, kv_growth_per_token, state_bytes_per_sequence
from roofline.physics.parameters import CONVENTIONS, active_parameters, parameters
from roofline.quantity import BILLION, GIGA, HOUR, TERA
from roofline.specs.gpu import Gpu
from roofline.specs.layers import Ffn, Indexer, Mixer
from roofline.specs.model import Model
from roofline.specs.names import LABELS

if TYPE_CHECKING:
    from roofline.catalog.audit import Report

__all__ = [
    "Ffn",
    "Found",
    "Gpu",
    "Indexer",
    "Mixer",
    "Model",
    "basis",
    "check_specs",
    "document",
    "figures",
    "find_gpu",
    "find_model",
    "gpu_rows",
    "gpus",
    "load_gpu",
    "load_model",
    "model_counts",
    "model_rows",
    "models",
    "si_value",
    "sources",
    "spec_report",
    "with_si",
]


def gpus(
    specs: str | None = None,
    *,
    vendor: str | None = None,
    generation: str | None = None,
    status: str | None = None,
) -> tuple[str, ...]:
    """Canonical names of the GPUs of the catalog, all of them or those of a kind.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].
        vendor: name of the vendor, or the beginning of it [text].
        generation: likewise; ``blackwell`` takes in ``blackwell-ultra`` [text].
        status: likewise; shipping, announced, pre-release or end-of-life [text].

    Returns:
        Names, sorted [text].

    Raises:
        UnknownName: no GPU at all is of such a vendor, generation or status.
        BadSpec: a specification has faults.
    """
    if all(wanted is None for wanted in (vendor, generation, status)):
        return find.gpu_names(specs)
    records = (entry.record for entry in find.listed("gpu", specs))
    return tuple(gpu.name for gpu in chosen_gpus(records, vendor, generation, status))


def models(
    specs: str | None = None,
    *,
    family: str | None = None,
    min_parameters: float | None = None,
    max_parameters: float | None = None,
    moe: bool | None = None,
) -> tuple[str, ...]:
    """Short names of the models of the catalog, all of them or those of a kind.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].
        family: name of the family, or the beginning of it [text].
        min_parameters: fewest parameters, counted from the layers [1].
        max_parameters: most parameters [1].
        moe: mixtures of experts alone, dense models alone, or both where None [bool].

    Returns:
        Names, sorted [text].

    Raises:
        UnknownName: no model at all is of such a family.
        BadInput: bounds that are no numbers, or nothing between them.
        BadSpec: a specification has faults.
    """
    if all(wanted is None for wanted in (family, min_parameters, max_parameters, moe)):
        return find.model_names(specs)
    records = (entry.record for entry in find.listed("model", specs))
    return tuple(model.short_name for model in chosen_models(records, family, min_parameters, max_parameters, moe))


def check_specs(path: str | None = None) -> list[str]:
    """Faults of specification files: schema, units, figures that cannot be, counts, names and sources.

    Args:
        path: a folder or a file; None for the shipped catalogs [path].

    Returns:
        Each as ``file:line: field: fault``; none where all is well [text].

    Raises:
        BadSpec: nothing is there to check.
    """
    return list(spec_report(path).faults)


def spec_report(path: str | None = None) -> Report:
    """What `check_specs` found, with the number of files of each kind.

    Args:
        path: a folder or a file; None for the shipped catalogs [path].

    Returns:
        Files by what people call their kind, and the faults.

    Raises:
        BadSpec: nothing is there to check.
    """
    from roofline.catalog.audit import audit, spec_files

    report = audit(spec_files(path))
    return report._replace(counts={LABELS.get(kind, kind): number for kind, number in report.counts.items()})


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
