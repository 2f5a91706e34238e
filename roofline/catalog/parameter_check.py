"""Whether what a model's file states agrees with what its layers add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.physics.footprint import attends, kv_bytes_per_token
from roofline.physics.parameters import CONVENTIONS, active_parameters, parameters
from roofline.quantity import BILLION, MEGA, rounded
from roofline.specs.model import Model

__all__ = ["stated_faults"]

_TOTAL_TOLERANCE = 0.01
_ACTIVE_TOLERANCE = 0.025  # publishers round to two digits
_MOST_KV_PER_TOKEN = 10 * MEGA  # [B]; 4.5 MB for MPT-30B and its like without shared heads


def stated_faults(model: Model, data: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Counts that a file states and its layers contradict, and a KV cache that cannot be.

    Args:
        model: the record of the file.
        data: the mapping of the file.

    Returns:
        Where each fault is, and what is wrong there; a note on a figure answers it.
    """
    figures = data.get("parameters") or {}
    if model.stated_total is not None and not figures["total"].get("note"):
        counted = parameters(model).total
        if abs(counted / model.stated_total - 1.0) > _TOTAL_TOLERANCE:
            yield ("parameters", "total"), _disagreement(model.stated_total, counted, _TOTAL_TOLERANCE)
    if model.stated_active is not None and not figures["active"].get("note"):
        convention = figures["active"].get("convention")
        allowed = (convention,) if convention else CONVENTIONS
        counts = [active_parameters(model, name) for name in allowed]
        nearest = min(counts, key=lambda count: abs(count - (model.stated_active or 0.0)))
        if abs(nearest / model.stated_active - 1.0) > _ACTIVE_TOLERANCE:
            yield ("parameters", "active"), _disagreement(model.stated_active, nearest, _ACTIVE_TOLERANCE)
    if attends(model):
        kept = kv_bytes_per_token(model)
        if not 0.0 < kept < _MOST_KV_PER_TOKEN:
            yield (
                ("groups",),
                f"a KV cache of {rounded(kept / MEGA)} MB per token is implausible; check heads and layers",
            )


def _disagreement(stated: float, counted: float, tolerance: float) -> str:
    gap = f"{counted / stated - 1.0:+.1%}"
    return (
        f"{rounded(stated / BILLION, 4)} B stated, but the layers add up to {rounded(counted / BILLION, 4)} B "
        f"({gap}, beyond {tolerance:.1%}); correct it or explain it in a note"
    )
