"""Number formats: how many bytes a stored value takes, scales included, and what can multiply it."""

from __future__ import annotations

from typing import NamedTuple

from roofline.errors import UnknownName, shown

__all__ = ["COMPUTE", "FORMATS", "KV_FORMATS", "PEAKS", "Format", "number_format"]

#: dtypes at which weights can be multiplied.
COMPUTE = ("fp32", "bf16", "fp16", "fp8", "int8", "fp4")

#: dtypes at which a GPU states a dense peak; those beyond `COMPUTE` are shown and not used.
PEAKS = (*COMPUTE, "tf32", "fp6", "int4")

#: formats in which a KV cache may be kept.
KV_FORMATS = ("bf16", "fp16", "fp8", "int8")


class Format(NamedTuple):
    """One number format of stored values."""

    name: str
    nbytes: float  # [B] per value, block scales included
    compute: str | None  # peak dtype of the tensor cores that multiply it natively; None: weight-only
    needs: str | None = None  # peak dtype that a GPU must have for that, where it is not `compute`
    dynamic: bool = False  # activations are quantised at run time, which is a pass of its own
    also: tuple[str, ...] = ()  # other dtypes that kernels exist for (W4A8)
    kin: str | None = None  # format whose kernels multiply it, where it has none of its own


# Bytes per weight: 8-bit formats with per-tensor or per-channel scales count 1 (scales < 0.1 %); fp8
# blocks of 128 x 128 carry an fp32 scale (DeepSeek-V3 report, arXiv:2412.19437, section 3.3); OCP
# Microscaling (MX) v1.0: blocks of 32 with an 8-bit scale; NVFP4: blocks of 16 with an fp8 scale
# (NVIDIA, "Introducing NVFP4", 2025-06); INT4 AWQ/GPTQ: groups of 128, Kimi-K2.5: of 32,
# with a 16-bit scale.
FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format("fp32", 4.0, "bf16"),  # routers kept in fp32 are multiplied at the 16-bit rate
        Format("bf16", 2.0, "bf16"),
        Format("fp16", 2.0, "fp16"),
        Format("fp8", 1.0, "fp8", dynamic=True),
        Format("fp8_static", 1.0, "fp8"),
        Format("fp8_block", 1.0 + 4.0 / (128 * 128), "fp8", dynamic=True),
        Format("int8", 1.0, "int8", dynamic=True),
        Format("int4", 0.5 + 2.0 / 128, None, also=("fp8",)),
        Format("int4_g32", 0.5 + 2.0 / 32, None, also=("fp8",), kin="int4"),
        Format("mxfp4", 0.5 + 1.0 / 32, "fp8", needs="fp4", also=("fp4",)),
        Format("nvfp4", 0.5 + 1.0 / 16, "fp4", dynamic=True),
    )
}


def number_format(name: str) -> Format:
    """The format of a name.

    Args:
        name: e.g. ``bf16``, ``fp8_block``, ``nvfp4`` [text].

    Returns:
        The format [record].

    Raises:
        UnknownName: no such format.

    >>> number_format("nvfp4").nbytes
    0.5625
    """
    if not isinstance(name, str):
        raise UnknownName(f"{shown(name)} is no name of a number format")
    if name in FORMATS:
        return FORMATS[name]
    folded = name.strip().lower().replace("-", "_")
    folded = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}.get(folded, folded)
    folded = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8"}.get(folded, folded)
    if folded not in FORMATS:
        from difflib import get_close_matches

        near = ", ".join(get_close_matches(folded, FORMATS, 3, 0.3)) or ", ".join(FORMATS)
        raise UnknownName(f"no number format {shown(name)}; nearest: {near} (known: {', '.join(FORMATS)})")
    return FORMATS[folded]
