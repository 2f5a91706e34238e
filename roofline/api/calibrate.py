"""Calibrating: from tables of timed kernels to the file that predictions of a GPU stand on."""

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

__all__ = ["CalibrationFit", "calibrate"]

_KEPT = "kept"


@dataclass(frozen=True)
class CalibrationFit:
    """A fitted calibration, and how far its kernels were off before and after."""

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
    """Calibration of a GPU from tables of its timed kernels.

    Args:
        paths: CSV files of kernels (docs/measurements.md) [path].
        gpu: name, alias or record of the GPU that was measured; rows of others are left out [text].
        name: of the calibration, which is the generation that will use it; default the GPU's own [text].
        title: what the tables are, for the sources of the file [text].
        url: where they are public, if they are [text].
        keep: keep the present sets of kinds and dtypes that were not measured [bool].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The YAML of the calibration, and the residuals of every set before and after.

    Raises:
        BadInput: a faulty table, no rows of this GPU, too few rows, a name that is none, scipy not installed.
        UnknownName: no such GPU.
    """
    from roofline.calibration.sets import calibrated_sets, judged

    paths = [path("paths", each) for each in several("paths", paths)]
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
                "median_before": None if before is None else _median(before.log_ratios),
                "median_after": entry["residual"],
                "sigma": entry["sigma"],
            }
        )
    called = name or record.generation
    document = _document(called, record, sets, sources, base if keep else None)
    faults = document_faults(document, "calibration")
    if faults:
        raise BadInput(f"the fitted calibration is not valid: {'; '.join(faults)}")
    heading = f"Kernel-time and collective constants of the {called} generation, fitted on {record.name}."
    return CalibrationFit(called, calibration_text(document, heading), tuple(rows))


def _document(
    name: str,
    gpu: Gpu,
    sets: Mapping[str, Mapping[str, Any]],
    sources: Mapping[str, Any],
    base: Calibration | None,
) -> dict[str, Any]:
    """Document of the calibration; what was not measured is kept from the present one, and says so."""
    kernels = {kind: dict(entries) for kind, entries in sets.items() if not KINDS[kind].is_collective}
    links = {kind: entries["bf16"] for kind, entries in sets.items() if KINDS[kind].is_collective}
    used = dict(sources)
    if base is not None:
        for (kind, dtype), efficiency in base.kernels.items():
            if dtype not in kernels.get(kind, {}):
                kernels.setdefault(kind, {})[dtype] = _kept(efficiency, of_this_gpu=gpu.name in base.measured_on)
        for collective, constants in base.collectives.items():
            links.setdefault(collective, _kept(constants, of_this_gpu=gpu.name in base.measured_on))
        kept = f"kept from the shipped calibration {base.name}, not measured again"
        used[_KEPT] = {"title": kept, "date": max(str(source["date"]) for source in sources.values())}
    named = {entry["source"] for kinds in (*kernels.values(), links) for entry in kinds.values()}
    dates = [str(source["date"]) for source in sources.values()]
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
        "sources": {key: source for key, source in used.items() if key in named},
    }


def _link(gpu: Gpu, sets: Mapping[str, Any], base: Calibration | None) -> str:
    """Link that the collectives were timed on: this GPU's if any was measured, else that of those kept."""
    if ALL_REDUCE.name in sets or base is None:
        return "pcie" if gpu.link.kind == "pcie" else "nvlink"
    return base.link


def _kept(constants: Any, *, of_this_gpu: bool) -> dict[str, Any]:
    """A set of the present calibration as a file states it."""
    stated = {name: getattr(constants, name) for name in constants.__dataclass_fields__}
    plain = type(constants)()
    given = {
        name: value
        for name, value in stated.items()
        if name not in ("is_measured", "sigma")
        and value is not None
        and (value != getattr(plain, name) or name == "eta")
    }
    measured = of_this_gpu and constants.is_measured and constants.sigma is not None
    evidence = {"residual": constants.sigma, "sigma": constants.sigma} if measured else {}
    return {**parameter_texts(given), **evidence, "source": _KEPT}


def _median(log_ratios: Any) -> float:
    from roofline.calibration.sets import median_error

    return median_error(log_ratios)
