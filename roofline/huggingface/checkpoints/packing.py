"""What the tensors of a checkpoint hold: weights by the number, unpacked, with the scales that belong to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from roofline.huggingface.checkpoints.tensors import Tensor
from roofline.quantity import BITS_PER_BYTE
from roofline.records import NamedTuple

__all__ = ["BITS_ALONE", "Held", "Packing", "held_weights", "owner_of"]

#: Format of weights that are stored in so many bits and multiplied in 16.
BITS_ALONE = ""

_WORD = 32  # bits of the integers into which AWQ, GPTQ, compressed-tensors and MLX pack
_FLOATS = {"F64": "fp32", "F32": "fp32", "F16": "fp16", "BF16": "bf16"}
_GROUP = 128  # weights a scale, where nothing says
_MLX_GROUP = 64  # the same of MLX, https://github.com/ml-explore/mlx-lm, mlx_lm/utils.py
_SMALL_GROUP = 32

# Endings of tensors that say how to read another one, longest first: of compressed-tensors, ModelOpt, DeepSeek, AWQ and
# GPTQ, gpt-oss, MLX and bitsandbytes.
_ASIDE = (
    ".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4", ".weight.nested_quant_map",
    ".weight.nested_absmax", ".weight.quant_map", ".weight.absmax", ".weight_format", ".SCB",
    ".weight_scale_inv", ".weight_scale_2", ".weight_global_scale", ".weight_zero_point", ".weight_scale",
    ".weight_shape", ".weight_g_idx", ".input_global_scale", ".input_zero_point", ".input_scale", ".pre_quant_scale",
    ".output_scale", ".scales", ".biases", ".qzeros", ".g_idx", ".scale",
    "_weight_scale_inv", "_weight_scale_2", "_weight_scale", "_input_scale", "_scale_inv", "_scale_2", "_scales",
    "_scale",
)  # fmt: skip
_OF_CACHES = (".k_scale", ".v_scale", ".q_scale", ".kv_scale", ".prob_output_scale", ".k_zero_point", ".v_zero_point")
_PARTNERS = (".weight", ".weight_packed", ".qweight", "_blocks", "_packed", "")
_SCALES: tuple[str, ...] = (
    ".weight_scale_inv", ".weight_scale", ".scale", "_weight_scale_inv", "_weight_scale", "_scale_inv", "_scale",
    "_scales", ".scales",
)  # fmt: skip


class Packing(NamedTuple):
    """What a configuration says of packed integers."""

    bits: int | None = None
    group: int | None = None  # weights that share a scale


class Held(NamedTuple):
    """One matrix or vector, with the scales that belong to it."""

    name: str
    format: str  # key of the number formats, or `BITS_ALONE`
    weights: int  # unpacked
    nbytes: int  # scales included [B]
    is_vector: bool


def held_weights(tensors: Iterable[Tensor], packing: Packing) -> Iterator[Held]:
    """Weights of a checkpoint in the safetensors format.

    Args:
        tensors: all of them [record].
        packing: what the configuration says of packed integers [record].

    Returns:
        Matrices and vectors one by one; what only says how to read another one is counted with it.
    """
    by_name = {tensor.name: tensor for tensor in tensors}
    aside: dict[str, dict[str, Tensor]] = {}
    for name, tensor in by_name.items():
        owner, ending = owner_of(name, by_name)
        if owner is not None:
            aside.setdefault(owner, {})[ending] = tensor
    extra = {tensor.name for others in aside.values() for tensor in others.values()}
    for name, tensor in by_name.items():
        if name not in extra:
            yield _held(tensor, aside.get(name, {}), packing)


def owner_of(name: str, names: Collection[str]) -> tuple[str | None, str]:
    """The tensor that another one says how to read: its scales, zero points, an order.

    Args:
        name: of a tensor [text].
        names: of all tensors [text].

    Returns:
        The name of that tensor, None where this one stands for itself, and how the name of this one ends [text].

    >>> owner_of("a.weight_scale_inv", {"a.weight", "a.weight_scale_inv"})
    ('a.weight', '.weight_scale_inv')
    """
    if not name.endswith(_ASIDE):
        return None, ""
    for ending in _ASIDE:
        if name.endswith(ending):
            stem = name.removesuffix(ending)
            for partner in _PARTNERS:
                if stem + partner in names:
                    return stem + partner, ending
    return None, ""


def _held(tensor: Tensor, aside: Mapping[str, Tensor], packing: Packing) -> Held:
    nbytes = tensor.nbytes + sum(other.nbytes for other in aside.values())
    stored, weights = _format(tensor, aside, packing)
    if tensor.name.endswith(_OF_CACHES):
        weights = 0
    is_vector = sum(length > 1 for length in tensor.shape) <= 1 and tensor.dtype in _FLOATS
    return Held(tensor.name, stored, weights, nbytes, is_vector)


def _format(tensor: Tensor, aside: Mapping[str, Tensor], packing: Packing) -> tuple[str, int]:
    """Number format of a tensor and how many weights it holds."""
    if tensor.dtype in _FLOATS:
        return _FLOATS[tensor.dtype], tensor.values
    scale = next((aside[ending] for ending in _SCALES if ending in aside), None)
    if tensor.dtype.startswith(("F8_E4M3", "F8_E5M2")):
        return _eight_bits(scale, aside), tensor.values
    if tensor.dtype in ("I32", "U32") and scale is not None:
        return _packed_words(tensor, scale, aside, packing)
    is_nibbles = scale is not None and scale.dtype in ("U8", "F8_E8M0", "F8_E4M3")
    if tensor.dtype == "F4" or (tensor.dtype in ("U8", "I8") and is_nibbles):
        stored = "nvfp4" if scale is not None and scale.dtype == "F8_E4M3" else "mxfp4"
        return stored, tensor.values * (1 if tensor.dtype == "F4" else 2)
    if tensor.dtype == "U8" and ".weight.absmax" in aside:
        return "int4", 2 * tensor.values
    if tensor.dtype in ("I8", "U8"):
        return "int8", tensor.values
    return BITS_ALONE, tensor.values


def _eight_bits(scale: Tensor | None, aside: Mapping[str, Tensor]) -> str:
    """FP8 with a scale for a block, for a channel, or for a tensor whose inputs have one, too."""
    if scale is not None and len(scale.shape) > 1 and min(scale.shape[-2:]) > 1:
        return "fp8_block"
    return "fp8_static" if any(ending.endswith("input_scale") for ending in aside) else "fp8"


def _packed_words(tensor: Tensor, scale: Tensor, aside: Mapping[str, Tensor], packing: Packing) -> tuple[str, int]:
    """Integers packed into words of 32 bits, in whichever order."""
    if ".biases" in aside:  # MLX
        return BITS_ALONE, scale.values * (packing.group or _MLX_GROUP)
    bits = packing.bits or 4
    weights = tensor.values * (_WORD // bits)
    group = packing.group or _GROUP
    if ".qzeros" in aside or ".g_idx" in aside:
        columns = scale.shape[-1] if scale.shape else 1
        if tensor.shape and columns > tensor.shape[-1] > 0:  # AWQ packs along the outputs
            weights = tensor.values * (columns // tensor.shape[-1])
        elif ".g_idx" in aside:  # GPTQ along the inputs
            weights = aside[".g_idx"].values * columns
        bits = round(tensor.nbytes * BITS_PER_BYTE / max(weights, 1))
    if bits != 4:
        return BITS_ALONE, weights
    return ("int4_g32" if group == _SMALL_GROUP else "int4"), weights
