"""What the catalogs hold: names, records, and faults in their files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from roofline.catalog import find
from roofline.catalog.files import shipped_root
from roofline.catalog.find import find_gpu, find_model, load_gpu, load_model
from roofline.questions.inputs.arguments import flag, folder, scalars
from roofline.specs.gpu import ANNOUNCED, ROUGH
from roofline.specs.names import LABELS
from roofline.support.reading import only_below

if TYPE_CHECKING:
    from roofline.catalog.checks import Report

__all__ = ["ANNOUNCED", "ROUGH", "find_gpu", "find_model", "load_gpu", "load_model"]


def gpus(
    specs: str | None = None,
    *,
    vendor: str | None = None,
    generation: str | None = None,
    status: str | None = None,
) -> tuple[str, ...]:
    """Canonical names of GPUs in the catalog, filtered.

    Args:
        specs: folder of your own specifications; default $ROOFLINE_SPECS.
        vendor: name of the vendor, or its beginning.
        generation: name or its beginning; ``blackwell`` includes ``blackwell-ultra``.
        status: shipping, announced, pre-release or end-of-life, or the beginning.

    Returns:
        Names, sorted.

    Raises:
        UnknownName: no GPU has this vendor, generation or status.
        BadSpec: a specification has faults.

    >>> import roofline as rl
    >>> rl.gpus(vendor="nvidia", generation="rubin")
    ('rubin-cpx', 'rubin-ultra-nvl576', 'vr200-nvl72')
    """
    specs = folder(specs)
    if all(value is None for value in (vendor, generation, status)):
        return find.gpu_names(specs)
    from roofline.catalog.entries import chosen_gpus

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
    """Short names of models in the catalog, filtered.

    Args:
        specs: folder of your own specifications; default $ROOFLINE_SPECS.
        family: name of the family, or its beginning.
        min_parameters: fewest parameters, counted from the layers [1].
        max_parameters: most parameters [1].
        moe: True for mixtures of experts, False for dense models, None for both.

    Returns:
        Names, sorted.

    Raises:
        UnknownName: no model has this family.
        BadInput: bounds that are not numbers, or an empty range.
        BadSpec: a specification has faults.

    >>> import roofline as rl
    >>> rl.models(family="llama", min_parameters=1e11)
    ('llama-3.1-405b', 'llama-4-maverick', 'llama-4-scout')
    """
    specs = folder(specs)
    min_parameters, max_parameters = scalars(min_parameters=min_parameters, max_parameters=max_parameters)
    moe = None if moe is None else flag("moe", moe)
    if all(value is None for value in (family, min_parameters, max_parameters, moe)):
        return find.model_names(specs)
    from roofline.catalog.entries import chosen_models

    records = (entry.record for entry in find.listed("model", specs))
    return tuple(model.short_name for model in chosen_models(records, family, min_parameters, max_parameters, moe))


def check_specs(path: str | None = None) -> list[str]:
    """Faults in specification files: schema, units, impossible figures, counts, names and sources.

    Args:
        path: a folder or a file; None for the shipped catalogs.

    Returns:
        Each as ``file:line: field: fault``.

    Raises:
        BadSpec: there is nothing to check.

    >>> import roofline as rl
    >>> rl.check_specs()
    []
    """
    return list(spec_report(path).faults)


def reading_only(folders: Iterable[str], how: str) -> AbstractContextManager[None]:
    """Read nothing but the shipped catalogs and what lies below some folders, $ROOFLINE_SPECS among them.

    Args:
        folders: that whoever starts the process allows.
        how: how a further one is allowed, for the messages.
    """
    specs = os.environ.get("ROOFLINE_SPECS")
    shipped = [shipped_root(kind) for kind in ("gpu", "model", "engine", "workload")]
    return only_below([*folders, *([specs] if specs else [])], shipped, how)


def spec_report(path: str | None = None) -> Report:
    """What `check_specs` finds, with the number of files of each kind; None checks the shipped catalogs."""
    from roofline.catalog.checks import audit, spec_files

    report = audit(spec_files(folder(path)))
    return report._replace(counts={LABELS.get(kind, kind): number for kind, number in report.counts.items()})
