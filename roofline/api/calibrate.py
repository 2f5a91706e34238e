"""Calibration of a GPU: from tables of timed kernels to the YAML file that predictions read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.api.inputs.arguments import flag, folder, path, scalars, several
from roofline.calibration.text import calibration_text, parameter_texts
from roofline.catalog import find
from roofline.catalog.checks import document_faults
from roofline.errors import BadInput
from roofline.measurements.kernel_table import kernel_groups
from roofline.records import dataclass, field
from roofline.specs.calibration import Calibration
from roofline.specs.gpu import Gpu
from roofline.specs.kernels import ALL_REDUCE, KINDS
from roofline.specs.names import fold
from roofline.specs.timed_kernels import of_gpu

_KEPT = "kept"


@dataclass(frozen=True)
class CalibrationFit:
    """A fitted calibration, with the error of every kernel set before and after."""

    name: str
    text: str = field(repr=False)  # YAML
    rows: tuple[Mapping[str, Any], ...]  # kind, dtype, measurements, medians of |ln(predicted/measured)|


def calibrate(
    paths: Sequence[str],
    gpu: str | Gpu,
    *,
    name: str | None = None,
    title: str = "own measurements",
    url: str | None = None,
    keep: bool = True,
    specs: str | None = None,
) -> CalibrationFit:
    """A calibration fitted to the timed kernels of `gpu`; `keep` copies missing sets from the present one."""
    from roofline.calibration.sets import calibrated_sets, judged, median_error

    paths = [path("paths", item) for item in several("paths", paths)]
    name, title, url = scalars(name=name, title=title, url=url)
    keep, specs = flag("keep", keep), folder(specs)
    record = gpu if isinstance(gpu, Gpu) else find.load_gpu(gpu, specs)
    names = {fold(known) for known in (record.name, *record.aliases)}
    groups = of_gpu(kernel_groups(paths), names, record.name)
    base = record.calibration
    sets, sources = calibrated_sets(groups, record, base, title, url)
    rows = []
    for group in groups:
        entry = sets[group.kind][group.dtype]
        before = None if base is None else judged(group, record, base)
        rows.append(
            {
                "kind": group.kind,
                "dtype": group.dtype,
                "measurements": entry["measurements"],
                "median_before": None if before is None else median_error(before.log_ratios),
                "median_after": entry["residual"],
                "sigma": entry["sigma"],
            }
        )
    generation = name or record.generation
    document = _document(generation, record, sets, sources, base if keep else None)
    faults = document_faults(document, "calibration")
    if faults:
        raise BadInput(f"the fitted calibration is not valid: {'; '.join(faults)}")
    heading = f"Kernel-time and collective constants of the {generation} generation, fitted on {record.name}."
    return CalibrationFit(generation, calibration_text(document, heading), tuple(rows))


def _document(
    name: str,
    gpu: Gpu,
    sets: Mapping[str, Mapping[str, Any]],
    sources: Mapping[str, Any],
    base: Calibration | None,
) -> dict[str, Any]:
    """The YAML document; sets copied from `base` say so in their source."""
    kernels = {kind: dict(entries) for kind, entries in sets.items() if not KINDS[kind].is_collective}
    links = {kind: entries["bf16"] for kind, entries in sets.items() if KINDS[kind].is_collective}
    used, dates = dict(sources), [str(source["date"]) for source in sources.values()]
    if base is not None:
        for (kind, dtype), efficiency in base.kernels.items():
            if dtype not in kernels.get(kind, {}):
                kernels.setdefault(kind, {})[dtype] = _kept_set(efficiency, of_this_gpu=gpu.name in base.measured_on)
        for collective, constants in base.collectives.items():
            links.setdefault(collective, _kept_set(constants, of_this_gpu=gpu.name in base.measured_on))
        title = f"kept from the shipped calibration {base.name}, not measured again"
        used[_KEPT] = {"title": title, "date": max(dates)}
    cited = {entry["source"] for kinds in (*kernels.values(), links) for entry in kinds.values()}
    if not links:
        raise BadInput("no collectives measured or kept; a calibration needs at least one")
    return {
        "name": name,
        "measured_on": [gpu.name],
        "engines": sorted({engine for source in sources.values() for engine in source["engines"]}),
        **({"link": "pcie"} if _link(gpu, sets, base) == "pcie" else {}),
        "date": max(dates),
        "kernels": kernels,
        "collectives": links,
        "sources": {key: source for key, source in used.items() if key in cited},
    }


def _link(gpu: Gpu, sets: Mapping[str, Any], base: Calibration | None) -> str:
    """Link of the collectives: this GPU's if any was timed, else that of the calibration they are copied from."""
    if ALL_REDUCE.name in sets or base is None:
        return "pcie" if gpu.link.kind == "pcie" else "nvlink"
    return base.link


def _kept_set(constants: Any, *, of_this_gpu: bool) -> dict[str, Any]:
    """A set of the present calibration in the form of a file."""
    defaults, parameters = type(constants)(), {}
    for name in constants.__dataclass_fields__:
        value = getattr(constants, name)
        is_stated = value is not None and (value != getattr(defaults, name) or name == "eta")
        if is_stated and name not in ("is_measured", "sigma"):
            parameters[name] = value
    measured = of_this_gpu and constants.is_measured and constants.sigma is not None
    evidence = {"residual": constants.sigma, "sigma": constants.sigma} if measured else {}
    return {**parameter_texts(parameters), **evidence, "source": _KEPT}
