"""Stated parameter counts of a model against those of its layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.physics.footprint import attends, kv_bytes_per_token
from roofline.physics.parameters import CONVENTIONS, active_parameters, parameters
from roofline.quantity import BILLION, MEGA, rounded
from roofline.specs.model import Model

_TOTAL_TOLERANCE = 0.01
_ACTIVE_TOLERANCE = 0.025  # publishers round to two digits
_MOST_KV_PER_TOKEN = 10 * MEGA  # [B]; 4.5 MB for models like MPT-30B without shared KV heads


def stated_faults(model: Model, data: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Stated counts that the layers contradict, unless a note explains them, and an implausible KV cache."""
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
        nbytes = kv_bytes_per_token(model)
        if not 0.0 < nbytes < _MOST_KV_PER_TOKEN:
            text = f"a KV cache of {rounded(nbytes / MEGA)} MB per token is implausible; check heads and layers"
            yield ("groups",), text


def _disagreement(stated: float, counted: float, tolerance: float) -> str:
    gap = f"{counted / stated - 1.0:+.1%}"
    return (
        f"{rounded(stated / BILLION, 4)} B stated, but the layers add up to {rounded(counted / BILLION, 4)} B "
        f"({gap}, beyond {tolerance:.1%}); correct it or explain it in a note"
    )
