"""Keyword arguments of `disaggregate` for a type checker: those of `predict` that concern both pools."""

from __future__ import annotations

from roofline.api.inputs.options import OnceOptions

__all__ = ["PoolCase"]


class PoolCase(OnceOptions, total=False):
    """Load, lengths, formats and settings; plans and numbers of GPUs are part of the pools."""
