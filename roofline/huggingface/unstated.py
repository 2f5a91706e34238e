"""Models whose name states a quantization and whose configuration does not."""

from __future__ import annotations

import os
from collections.abc import Mapping

from roofline.specs.name_formats import format_in_name

_SIXTEEN_BIT = ("bf16", "fp16")
_MATRICES = ("linear", "attention", "shared", "experts")


def unstated_format(name: str, where: str, formats: Mapping[str, str]) -> tuple[str, ...]:
    """Caution where the name, folder or file states a number format that the configuration does not; else empty."""
    if any(formats.get(section, _SIXTEEN_BIT[0]) not in _SIXTEEN_BIT for section in _MATRICES):
        return ()
    path = os.path.abspath(where) if where else ""
    folder, stem = os.path.basename(os.path.dirname(path)), os.path.splitext(os.path.basename(path))[0]
    for label in (name, folder, stem):
        named = format_in_name(label)
        if named is not None and named.preset not in _SIXTEEN_BIT:
            preset = "int4" if named.preset == "bitsandbytes" else named.preset
            mismatch = f"the name {label} says {named.preset}, the configuration states no quantisation"
            advice = f"choose -q {preset}, or put hf_quant_config.json or the weights beside it"
            return (f"{mismatch}: counted as {formats['linear']}; {advice}",)
    return ()
