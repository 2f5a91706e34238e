"""What the catalogs hold: names and records, and whether their files are sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.api.inputs.arguments import flag, folder, scalars
from roofline.catalog import find
from roofline.catalog.find import Found, find_gpu, find_model, load_gpu, load_model
from roofline.specs.names import LABELS

if TYPE_CHECKING:
    from roofline.catalog.audit import Report

__all__ = [
    "Found",
    "check_specs",
    "find_gpu",
    "find_model",
    "gpus",
    "load_gpu",
    "load_model",
    "models",
    "spec_report",
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

    >>> import roofline as rl
    >>> rl.gpus(vendor="nvidia", generation="rubin")
    ('rubin-cpx', 'vr200-nvl72')
    """
    specs = folder(specs)
    if all(wanted is None for wanted in (vendor, generation, status)):
        return find.gpu_names(specs)
    from roofline.catalog.selection import chosen_gpus

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

    >>> import roofline as rl
    >>> rl.models(family="llama", min_parameters=1e11)
    ('llama-3.1-405b', 'llama-4-maverick', 'llama-4-scout')
    """
    specs = folder(specs)
    min_parameters, max_parameters = scalars(min_parameters=min_parameters, max_parameters=max_parameters)
    moe = None if moe is None else flag("moe", moe)
    if all(wanted is None for wanted in (family, min_parameters, max_parameters, moe)):
        return find.model_names(specs)
    from roofline.catalog.selection import chosen_models

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

    >>> import roofline as rl
    >>> rl.check_specs()
    []
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

    report = audit(spec_files(folder(path)))
    return report._replace(counts={LABELS.get(kind, kind): number for kind, number in report.counts.items()})
