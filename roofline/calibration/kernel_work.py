"""Work of timed kernels, counted as in a prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.arrays import as_array
from roofline.errors import BadInput
from roofline.physics.collectives import sent_bytes
from roofline.physics.layers.gqa import gqa_decode, gqa_prefill
from roofline.physics.layers.mla import mla_decode, mla_prefill
from roofline.physics.layers.moe import experts
from roofline.physics.linear import gemm
from roofline.physics.one_equation import Work
from roofline.physics.plan import DEFAULT_SKEW, Plan, Scheme
from roofline.specs import kernels
from roofline.specs.formats import FORMATS
from roofline.specs.gpu import Gpu
from roofline.specs.kernels import KINDS, KernelKind
from roofline.specs.layers import Gqa, Mla, MoeFfn
from roofline.specs.timed_kernels import KernelGroup

#: DeepSeek's latent attention, whose kernels the tables time: rank 512, 128 + 64 per head for keys, 128 for values.
_LATENT = {"kv_rank": 512, "nope": 128, "rope": 64, "v": 128}

#: dtype key -> (weight format, bytes of an activation, compute dtype, quantized on the fly)
_KEYS = {
    "bf16": ("bf16", 2.0, "16-bit", False),
    "fp8": ("fp8", 1.0, "fp8", True),
    "fp8_static": ("fp8_static", 1.0, "fp8", False),
    "fp8_block": ("fp8_block", 1.0, "fp8", True),
    "int8": ("int8", 1.0, "int8", True),
    "nvfp4": ("nvfp4", 0.5 + 1.0 / 16, "fp4", True),
    "int4": ("int4", 2.0, "16-bit", False),
    "mxfp4": ("mxfp4", 2.0, "16-bit", False),
    "mxfp4_fp8": ("mxfp4", 1.0, "fp8", False),
    "weight_only_8bit": ("int8", 2.0, "16-bit", False),
    "weight_only_4bit": ("int4", 2.0, "16-bit", False),
}


def compute_dtype(gpu: Gpu, kind: KernelKind, dtype: str) -> str:
    """Compute dtype of a kernel on a GPU; for attention, `dtype` is the format of the KV cache."""
    sixteen_bit = "bf16" if "bf16" in gpu.peaks else "fp16"
    if kind.is_attention:
        return "fp8" if dtype == "fp8" and "fp8" in gpu.peaks else sixteen_bit
    if kind is kernels.ELEMENTWISE or kind.is_collective:
        return sixteen_bit
    if dtype not in _KEYS:
        raise BadInput(f"unknown dtype {dtype!r} of {kind.name} kernels; choose from {', '.join(_KEYS)}")
    peak = _KEYS[dtype][2]
    peak = sixteen_bit if peak == "16-bit" else peak
    if peak not in gpu.peaks:
        raise BadInput(f"{gpu.name} has no {peak} peak, which {dtype} {kind.name} kernels need")
    return peak


def kernel_work(group: KernelGroup, gpu: Gpu) -> Work:
    """Work [FLOP, B] of a group, each field an array with an element for each row."""
    column = {name: as_array(name, values) for name, values in group.columns.items()}
    kind = KINDS[group.kind]
    compute_dtype(gpu, kind, group.dtype)
    kv_nbytes = 1.0 if group.dtype == "fp8" else 2.0
    match kind:
        case kernels.GEMM:
            return gemm(column["m"], column["n"], column["k"], _scheme(gpu, kind, group.dtype))
        case kernels.ATTENTION_PREFILL:
            return gqa_prefill(_heads(column), column["batch"], column["seq"], 0.0, kv_nbytes, 1)
        case kernels.ATTENTION_DECODE:
            return gqa_decode(_heads(column), column["batch"], 1.0, column["seq"] - 1.0, kv_nbytes, 1)
        case kernels.MLA_PREFILL:
            return mla_prefill(_latent(column), column["batch"], column["seq"], 0.0, 1)
        case kernels.MLA_DECODE:
            return mla_decode(_latent(column), column["batch"], 1.0, column["seq"] - 1.0, kv_nbytes, 1)
        case kernels.MOE:
            return _moe_work(group, column, _scheme(gpu, kind, group.dtype))
        case kernels.ELEMENTWISE:
            return Work(activation_bytes=column["nbytes"])
        case _:
            return Work(link_bytes=sent_bytes(kind, column["nbytes"], column["ranks"]))


def _heads(column: dict[str, Any]) -> Gqa:
    return Gqa(column["heads"], column["kv_heads"], column["head_dim"], column["head_dim"])


def _latent(column: dict[str, Any]) -> Mla:
    return Mla(heads=column["heads"], **_LATENT)  # type: ignore[arg-type]


def _scheme(gpu: Gpu, kind: KernelKind, dtype: str) -> Scheme:
    stored, activation_nbytes, _, dynamic = _KEYS[dtype]
    peak = compute_dtype(gpu, kind, dtype)
    return Scheme(stored, FORMATS[stored].nbytes, activation_nbytes, peak, dtype, dynamic)


def _moe_work(group: KernelGroup, column: dict[str, Any], scheme: Scheme) -> Work:
    """Work of expert kernels; balanced routing touches min(E, T k) experts."""
    size = len(group.routing)
    fields = {name: np.zeros(size) for name in ("flop", "weight_bytes", "serial_bytes", "serial_depth", "items")}
    routing = np.asarray(group.routing)
    kinds = {*zip(column["top_k"], column["experts"], column["tp"], column["ep"], group.routing, strict=True)}
    for top_k, number, tp, ep, routed in sorted(kinds):
        rows = (column["top_k"] == top_k) & (column["experts"] == number) & (column["tp"] == tp)
        rows = rows & (column["ep"] == ep) & (routing == routed)
        tokens = column["tokens"][rows]
        ffn: Any = MoeFfn(experts=int(number), top_k=int(top_k), width=column["width"][rows])
        routing_skew = DEFAULT_SKEW if routed == "skewed" else None
        work = experts(
            ffn, column["hidden"][rows], tokens, tokens, Plan(tp=int(tp * ep), ep=int(ep)), routing_skew, scheme
        )
        if routed == "balanced":
            touched = np.maximum(np.minimum(number, tokens * top_k) / ep, 1.0)
            work = work._replace(weight_bytes=work.weight_bytes / work.items * touched, items=touched)
        for name, values in fields.items():
            values[rows] = getattr(work, name)
    return Work(**fields)
