"""Weights of a checkpoint: unpacked counts, with the bytes of their scales."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from roofline.huggingface.checkpoints.tensors import Tensor
from roofline.quantity import BITS_PER_BYTE
from roofline.records import NamedTuple

#: Format of weights of which only the stored bits are known; they are multiplied in 16 bits.
BITS_ALONE = ""

_WORD = 32  # bits of the integers into which AWQ, GPTQ, compressed-tensors and MLX pack
_FLOATS = {"F64": "fp32", "F32": "fp32", "F16": "fp16", "BF16": "bf16"}
_GROUP = 128  # default weights per scale
_MLX_GROUP = 64  # the same for MLX, https://github.com/ml-explore/mlx-lm, mlx_lm/utils.py
_SMALL_GROUP = 32

# Endings of auxiliary tensors, such as scales, longest first: of compressed-tensors, ModelOpt, DeepSeek, AWQ and GPTQ,
# gpt-oss, MLX and bitsandbytes.
_AUXILIARY = (
    ".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4", ".weight.nested_quant_map",
    ".weight.nested_absmax", ".weight.quant_map", ".weight.absmax", ".weight_format", ".SCB",
    ".weight_scale_inv", ".weight_scale_2", ".weight_global_scale", ".weight_zero_point", ".weight_scale",
    ".weight_shape", ".weight_g_idx", ".input_global_scale", ".input_zero_point", ".input_scale", ".pre_quant_scale",
    ".output_scale", ".scales", ".biases", ".qzeros", ".g_idx", ".scale",
    "_weight_scale_inv", "_weight_scale_2", "_weight_scale", "_input_scale", "_scale_inv", "_scale_2", "_scales",
    "_scale",
)  # fmt: skip
_KV_SCALES = (".k_scale", ".v_scale", ".q_scale", ".kv_scale", ".prob_output_scale", ".k_zero_point", ".v_zero_point")
_PARTNERS = (".weight", ".weight_packed", ".qweight", "_blocks", "_packed", "")
_SCALES: tuple[str, ...] = (
    ".weight_scale_inv", ".weight_scale", ".scale", "_weight_scale_inv", "_weight_scale", "_scale_inv", "_scale",
    "_scales", ".scales",
)  # fmt: skip


class Packing(NamedTuple):
    """Packed integers as the configuration describes them; None where it does not."""

    bits: int | None = None
    group: int | None = None  # weights per scale


class Held(NamedTuple):
    """One matrix or vector with its scales."""

    name: str
    format: str  # key of the number formats, or `BITS_ALONE`
    weights: int  # unpacked
    nbytes: int  # scales included [B]
    is_vector: bool


def held_weights(tensors: Iterable[Tensor], packing: Packing) -> Iterator[Held]:
    """Matrices and vectors of a safetensors checkpoint; auxiliary tensors are counted with their owners."""
    by_name = {tensor.name: tensor for tensor in tensors}
    auxiliary: dict[str, dict[str, Tensor]] = {}
    for name, tensor in by_name.items():
        owner, ending = owner_of(name, by_name)
        if owner is not None:
            auxiliary.setdefault(owner, {})[ending] = tensor
    owned = {tensor.name for others in auxiliary.values() for tensor in others.values()}
    for name, tensor in by_name.items():
        if name not in owned:
            yield _held(tensor, auxiliary.get(name, {}), packing)


def owner_of(name: str, names: Collection[str]) -> tuple[str | None, str]:
    """Owner of an auxiliary tensor, such as a scale, and the ending of its name; None without an owner.

    >>> owner_of("a.weight_scale_inv", {"a.weight", "a.weight_scale_inv"})
    ('a.weight', '.weight_scale_inv')
    """
    if not name.endswith(_AUXILIARY):
        return None, ""
    for ending in _AUXILIARY:
        if name.endswith(ending):
            stem = name.removesuffix(ending)
            for partner in _PARTNERS:
                if stem + partner in names:
                    return stem + partner, ending
    return None, ""


def _held(tensor: Tensor, auxiliary: Mapping[str, Tensor], packing: Packing) -> Held:
    nbytes = tensor.nbytes + sum(other.nbytes for other in auxiliary.values())
    stored, weights = _format(tensor, auxiliary, packing)
    if tensor.name.endswith(_KV_SCALES):
        weights = 0
    is_vector = sum(length > 1 for length in tensor.shape) <= 1 and tensor.dtype in _FLOATS
    return Held(tensor.name, stored, weights, nbytes, is_vector)


def _format(tensor: Tensor, auxiliary: Mapping[str, Tensor], packing: Packing) -> tuple[str, int]:
    """Number format of a tensor and its number of weights."""
    if tensor.dtype in _FLOATS:
        return _FLOATS[tensor.dtype], tensor.values
    scale = next((auxiliary[ending] for ending in _SCALES if ending in auxiliary), None)
    if tensor.dtype.startswith(("F8_E4M3", "F8_E5M2")):
        return _fp8_format(scale, auxiliary), tensor.values
    if tensor.dtype in ("I32", "U32") and scale is not None:
        return _packed_words(tensor, scale, auxiliary, packing)
    is_nibbles = scale is not None and scale.dtype in ("U8", "F8_E8M0", "F8_E4M3")
    if tensor.dtype == "F4" or (tensor.dtype in ("U8", "I8") and is_nibbles):
        stored = "nvfp4" if scale is not None and scale.dtype == "F8_E4M3" else "mxfp4"
        return stored, tensor.values * (1 if tensor.dtype == "F4" else 2)
    if tensor.dtype == "U8" and ".weight.absmax" in auxiliary:
        return "int4", 2 * tensor.values
    if tensor.dtype in ("I8", "U8"):
        return "int8", tensor.values
    return BITS_ALONE, tensor.values


def _fp8_format(scale: Tensor | None, auxiliary: Mapping[str, Tensor]) -> str:
    """FP8 with a scale per block, per channel, or static for weights and inputs."""
    if scale is not None and len(scale.shape) > 1 and min(scale.shape[-2:]) > 1:
        return "fp8_block"
    return "fp8_static" if any(ending.endswith("input_scale") for ending in auxiliary) else "fp8"


def _packed_words(tensor: Tensor, scale: Tensor, auxiliary: Mapping[str, Tensor], packing: Packing) -> tuple[str, int]:
    """Number format and number of weights of integers packed into 32-bit words."""
    if ".biases" in auxiliary:  # MLX
        return BITS_ALONE, scale.values * (packing.group or _MLX_GROUP)
    bits = packing.bits or 4
    weights = tensor.values * (_WORD // bits)
    group = packing.group or _GROUP
    if ".qzeros" in auxiliary or ".g_idx" in auxiliary:
        columns = scale.shape[-1] if scale.shape else 1
        if tensor.shape and columns > tensor.shape[-1] > 0:  # AWQ packs along the outputs
            weights = tensor.values * (columns // tensor.shape[-1])
        elif ".g_idx" in auxiliary:  # GPTQ along the inputs
            weights = auxiliary[".g_idx"].values * columns
        bits = round(tensor.nbytes * BITS_PER_BYTE / max(weights, 1))
    if bits != 4:
        return BITS_ALONE, weights
    return ("int4_g32" if group == _SMALL_GROUP else "int4"), weights
