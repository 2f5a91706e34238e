"""Configurations that say nothing of quantisation while their name does."""

from __future__ import annotations

import os
from collections.abc import Mapping

from roofline.specs.name_formats import format_in_name

__all__ = ["unstated_format"]

_WIDE = ("bf16", "fp16")
_MATRICES = ("linear", "attention", "shared", "experts")


def unstated_format(name: str, where: str, formats: Mapping[str, str]) -> tuple[str, ...]:
    """What to say of a model whose name or folder states a number format that its configuration does not.

    Args:
        name: of the model [text].
        where: its configuration [path].
        formats: what the configuration makes of its sections [text].

    Returns:
        One sentence, or none [text].
    """
    if any(formats.get(section, _WIDE[0]) not in _WIDE for section in _MATRICES):
        return ()
    path = os.path.abspath(where) if where else ""
    folder, stem = os.path.basename(os.path.dirname(path)), os.path.splitext(os.path.basename(path))[0]
    for called in (name, folder, stem):
        stated = format_in_name(called)
        if stated is not None and stated.preset not in _WIDE:
            preset = "int4" if stated.preset == "bitsandbytes" else stated.preset
            said = f"the name {called} says {stated.preset}, the configuration states no quantisation"
            advice = f"choose -q {preset}, or put hf_quant_config.json or the weights beside it"
            return (f"{said}: counted as {formats['linear']}; {advice}",)
    return ()
