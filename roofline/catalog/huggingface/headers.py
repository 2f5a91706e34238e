"""Headers of weight files: safetensors, their index and sections, and the packing of quantised tensors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import prod
from typing import Any

from roofline.catalog.huggingface.blocks import Shape, json_kind
from roofline.numbers.quantity import BITS_PER_BYTE
from roofline.support.errors import BadSpec, printable, shown
from roofline.support.reading import (
    CONFIG_BYTES,
    HEADER_BYTES,
    Unreadable,
    check_json_amount,
    check_json_depth,
    content,
    excerpt,
)
from roofline.support.records import NamedTuple, dataclass, field

# Tensors of a checkpoint, from the headers of its files.

_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.\w+)", re.ASCII)
_MOST_SHARDS = 5000


class Tensor(NamedTuple):
    name: str
    dtype: str  # as the file calls it: BF16, F8_E4M3, Q4_K
    shape: tuple[int, ...]
    nbytes: int  # [B]

    @property
    def values(self) -> int:
        """Number of stored values; several weights packed into one value count once."""
        return prod(self.shape)

    @property
    def is_vector(self) -> bool:
        return sum(length > 1 for length in self.shape) <= 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The headers of all files of one checkpoint."""

    path: str
    tensors: tuple[Tensor, ...]
    stated: int  # size of the files according to their headers, headers included [B]
    present: int  # actual size of the files, less where weights were not copied [B]
    files: int
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of a GGUF file

    @property
    def held(self) -> int:
        """Size of all tensors [B]."""
        return sum(tensor.nbytes for tensor in self.tensors)


def shards(path: str) -> list[str]:
    """All files of the checkpoint that a file such as ``...-00002-of-00004...`` is part of, in order."""
    folder, name = os.path.split(path)
    numbered = _SHARD.fullmatch(name)
    if numbered is None:
        return [path]
    count = int(numbered[3])
    if not 1 <= int(numbered[2]) <= count <= _MOST_SHARDS:
        raise BadSpec(f"{path}:1: file: {printable(name)} is not one of {count} files")
    paths = [
        os.path.join(folder, f"{numbered[1]}-{part:05d}-of-{count:05d}{numbered[4]}") for part in range(1, count + 1)
    ]
    missing = [part for part in paths if not os.path.isfile(part)]
    if missing:
        first = printable(os.path.basename(missing[0]))
        raise BadSpec(f"{path}:1: file: {len(missing)} of its {count} parts are missing, first {first}")
    return paths


# Weights of a checkpoint: unpacked counts, with the bytes of their scales.

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
    endings = [ending for ending in _AUXILIARY if name.endswith(ending)]
    owners = ((name.removesuffix(ending) + partner, ending) for ending in endings for partner in _PARTNERS)
    return next(((owner, ending) for owner, ending in owners if owner in names), (None, ""))


def _held(tensor: Tensor, auxiliary: Mapping[str, Tensor], packing: Packing) -> Held:
    nbytes = tensor.nbytes + sum(other.nbytes for other in auxiliary.values())
    stored, weights = _format(tensor, auxiliary, packing)
    if tensor.name.endswith(_KV_SCALES):
        weights = 0
    return Held(tensor.name, stored, weights, nbytes, tensor.is_vector and tensor.dtype in _FLOATS)


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


# Headers of safetensors files: eight bytes of length, then JSON with dtype, shape and offsets of every tensor.

#: The file that maps tensors to shards.
INDEX = "model.safetensors.index.json"

_LENGTH = 8  # bytes that state the length of the header
_MOST_TENSORS = 1_000_000
_MOST_DIMENSIONS, _LONGEST_NAME = 8, 1000
_LONGEST = 1 << 50  # of one dimension, and the end of a tensor [B]
# Bits of a value; https://github.com/huggingface/safetensors, safetensors/src/tensor.rs, Dtype::bitsize.
_BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


def safetensors_checkpoint(paths: list[str]) -> Checkpoint:
    """Tensors of one or several files, without reading weights.

    Args:
        paths: the files; of a split file, all parts are read.

    Returns:
        The tensors in the order of the files.

    Raises:
        BadSpec: a file cannot be read, is damaged or hostile.

    Source:
        https://github.com/huggingface/safetensors, README, "Format".
    """
    files = list(dict.fromkeys(part for path in paths for part in shards(path)))
    tensors: dict[str, Tensor] = {}
    stated_size = present_size = 0
    for path in files:
        header, length, size = _header(path)
        end = 0
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            tensor, stop = _tensor(path, name, entry)
            if name in tensors or len(name) > _LONGEST_NAME:
                raise _fault(path, name, "is in two files" if name in tensors else "its name is too long")
            tensors[name] = tensor
            end = max(end, stop)
        if len(tensors) > _MOST_TENSORS:
            raise BadSpec(f"{path}:1: header: more than {_MOST_TENSORS} tensors")
        stated_size += _LENGTH + length + end
        present_size += size
    return Checkpoint(paths[0], tuple(tensors.values()), stated_size, present_size, len(files))


class Index(NamedTuple):
    """The index of a checkpoint in several files."""

    files: list[str]  # paths, whether the files exist or not
    names: frozenset[str]  # of all tensors
    nbytes: int | None  # size of all tensors [B]; None where it is not stated


def read_index(path: str) -> Index:
    try:
        document = _parsed(path, content(path, CONFIG_BYTES << 2, "index"))
    except Unreadable as fault:
        raise BadSpec(f"{path}:1: {fault}") from None
    table, metadata = document.get("weight_map"), document.get("metadata")
    if not isinstance(table, dict) or not table or not all(isinstance(name, str) for name in table.values()):
        raise BadSpec(f"{path}:1: weight_map: must map tensors to files")
    if len(table) > _MOST_TENSORS or max(map(len, table)) > _LONGEST_NAME:
        raise BadSpec(f"{path}:1: weight_map: more tensors, or a longer name, than any model has")
    names = list(dict.fromkeys(table.values()))
    for name in names:
        if name != os.path.basename(name) or not name.endswith(".safetensors"):
            raise BadSpec(f"{path}:1: weight_map: {shown(name)} is not a safetensors file beside the index")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    is_size = isinstance(size, (int, float)) and not isinstance(size, bool) and 0 < size < _LONGEST
    nbytes = int(size) if size is not None and is_size else None
    return Index([os.path.join(os.path.dirname(path), name) for name in names], frozenset(table), nbytes)


def _header(path: str) -> tuple[dict[str, Any], int, int]:
    """Content of a header, its length [B] and the size of the file [B]."""
    try:
        start, size = excerpt(path, 0, _LENGTH, "safetensors file")
        length = int.from_bytes(start, "little")
        if len(start) < _LENGTH or length < 2:
            raise BadSpec(f"{path}:1: header: this is not a safetensors file")
        if length > HEADER_BYTES:
            raise BadSpec(f"{path}:1: header: {length} bytes exceed the limit of {HEADER_BYTES}: no safetensors file")
        text, _ = excerpt(path, _LENGTH, length, "safetensors file")
        if len(text) < length:
            raise BadSpec(f"{path}:1: header: ends after {len(text)} of {length} bytes: the file is cut off")
        return _parsed(path, text), length, size
    except Unreadable as fault:
        raise BadSpec(f"{path}:1: {fault}") from None


def _parsed(path: str, data: bytes) -> dict[str, Any]:
    try:
        text = data.decode("utf-8")
        check_json_amount(text)
        document = json.loads(text)
        check_json_depth(document)
    except (Unreadable, ValueError, RecursionError) as fault:
        raise BadSpec(f"{path}:1: header: not JSON: {printable(str(fault)[:100])}") from None
    if not isinstance(document, dict):
        raise BadSpec(f"{path}:1: header: must be a mapping, not {json_kind(document)}")
    return document


def _tensor(path: str, name: str, entry: Any) -> tuple[Tensor, int]:
    """One entry of a header, and the offset at which its values end [B]."""
    if not isinstance(entry, dict):
        raise _fault(path, name, "must be a mapping")
    dtype: Any = entry.get("dtype")
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise _fault(path, name, f"dtype {shown(dtype)} is not known")
    if not _is_counts(shape, _MOST_DIMENSIONS) or not _is_counts(offsets, 2) or len(offsets) != 2:
        raise _fault(path, name, "needs a shape and two data_offsets, all whole numbers")
    nbytes = offsets[1] - offsets[0]
    tensor = Tensor(name, dtype, tuple(shape), nbytes)
    if nbytes * BITS_PER_BYTE != tensor.values * _BITS[dtype]:
        raise _fault(path, name, f"{nbytes} bytes do not hold {shown(shape)} values of {dtype}")
    return tensor, offsets[1]


def _is_counts(value: Any, most: int) -> bool:
    if not isinstance(value, list) or len(value) > most:
        return False
    return all(type(item) is int and 0 <= item <= _LONGEST for item in value)


def _fault(path: str, name: str, text: str) -> BadSpec:
    return BadSpec(f"{path}:1: tensor {printable(name[:100])}: {text}")


# Number formats of a checkpoint from its index alone, by the names of its tensors.

#: Sections of the matrices of the layers.
MATRICES = ("linear", "attention", "shared", "experts")

# Ending of an auxiliary tensor -> format of the matrix that it belongs to; the first match decides.
_FORMATS = (
    (".weight_scale_2", "nvfp4"),
    (".weight_global_scale", "nvfp4"),
    (".weight_scale_inv", "fp8_block"),
    ("_weight_scale_inv", "fp8_block"),
    ("_scale_inv", "fp8_block"),
    (".qzeros", "int4"),
    (".g_idx", "int4"),
    (".weight_shape", "int4"),
    (".weight.absmax", "int4"),
    ("_scales", "mxfp4"),
    (".input_scale", "fp8_static"),
    (".weight_scale", "fp8"),
)


def formats_of_names(names: Collection[str], shape: Shape) -> Mapping[str, str]:
    """Number format of each section in which most matrices have scales, by the names of the scales."""
    known = set(names)
    endings: dict[str, set[str]] = {}
    for name in known:
        owner, ending = owner_of(name, known)
        if owner is not None:
            endings.setdefault(owner, set()).add(ending)
    votes: dict[str, dict[str, int]] = {}
    for name in known:
        if owner_of(name, known)[0] is not None:
            continue
        section = section_of(name, len(shape.layers), shape.mtp, is_vector=False)
        if section in MATRICES:
            stored = next((stored for ending, stored in _FORMATS if ending in endings.get(name, ())), "")
            votes.setdefault(section, {})[stored] = votes.get(section, {}).get(stored, 0) + 1
    most = {section: max(counts, key=lambda stored: counts[stored]) for section, counts in votes.items()}
    return {section: stored for section, stored in most.items() if stored}


# The part of a model that a tensor belongs to, by its name.

#: Parts that no pass of the language model reads: draft modules; encoders and tables beside the model.
DRAFT, BESIDE = "draft", "beside"

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|blk)\.(\d{1,6})\.", re.ASCII)
_TOWER = re.compile(
    r"(?:^|\.)(?:visual|vision\w*|audio\w*|speech\w*|image\w*|multi_modal_projector|mm_projector|mlp1|connector"
    r"|embed_vision|embed_audio|patch\w*|perceiver|resampler|vit\w*|aligner|projector|merger|vpm)\.",
    re.ASCII,
)
_DRAFT = re.compile(
    r"(?:^|\.)(?:mtp\w*|nextn\w*|eh_proj|enorm|hnorm|eagle\w*|medusa\w*|draft\w*|shared_head)(?:\.|$)", re.ASCII
)
_NO_WEIGHTS = re.compile(r"rotary_emb|inv_freq|rope_freqs|rope_factors|masked_bias|attn\.bias$|tid2eid", re.ASCII)
_EMBED = re.compile(
    r"(?:^|\.)(?:embed_tokens|embed|wte|embed_in|word_embeddings|tok_embeddings|embeddings|token_embd)\.", re.ASCII
)
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|head|output|embed_out)\.(?:weight|qweight|bias)", re.ASCII)
_NORM = re.compile(
    r"norm|(?:^|\.)ln_|\.bias$|_bias$|sinks|hc_|_hc\.|hyper|conv1d|A_log|\.D$|dt_bias|\.ssm_(?:a|d)$|position_bias|\.ape$",
    re.ASCII,
)

#: Sections within a layer, the first that has a pattern in the name of a tensor; vectors of all but routers are norms.
_IN_LAYER = tuple(
    (section, re.compile(pattern, re.ASCII))
    for section, pattern in (
        ("router", r"\.(?:gate|router|gate_inp)\.(?:(?:(?:wg|layer|proj|linear)\.)?weight|qweight|weight_packed)$"),
        ("router", r"\.ffn_gate_inp(?:_shexp)?\.|\.shared_expert_gate\."),
        ("norm", _NORM.pattern),
        ("shared", r"\.(?:shared_\w+|share_expert|\w+_shexp|fc[12]_latent_proj|latent_\w+|ffn_latent_\w+)(?:\.|$)"),
        ("experts", r"\.experts(?:\.|_)|\.moe\.(?:up|gate|down)_proj|\w_exps\.|\.ffn_(?:gate|up|down)\.\d+\."),
        ("attention", r"\.(?:self_attn|attention|self_attention|linear_attn|mamba|conv|temporal_block|compressor)\."),
        ("attention", r"\.(?:attn|ssm|indexer|shortconv)[_.]"),
        ("linear", r"\.mixer\.(?:up_proj|down_proj|gate_proj|gate_up_proj)\."),
        ("attention", r"\.mixer\."),
        ("linear", r"\.(?:mlp|feed_forward|ffn|block_sparse_moe|moe)\.|\.ffn_(?:gate|up|down)\."),
    )
)


def section_of(name: str, layers: int, drafts: int, *, is_vector: bool) -> str | None:
    """Section of a specification that counts a tensor, by its name on the Hugging Face hub or in a GGUF file.

    Args:
        name: of the tensor.
        layers: number of layers of the model.
        drafts: number of draft modules, whose layers come after those.
        is_vector: whether the tensor has one dimension.

    Returns:
        The section, `DRAFT` or `BESIDE`; None for an unknown name.

    Source:
        Names in transformers, src/transformers/models; of GGUF files https://github.com/ggml-org/llama.cpp,
        src/llama-arch.cpp, LLM_TENSOR_NAMES.

    >>> section_of("model.layers.3.self_attn.q_proj.weight", 32, 0, is_vector=False)
    'attention'
    """
    if _TOWER.search(name) or _NO_WEIGHTS.search(name):
        return BESIDE
    layer = _LAYER.search(name)
    if _DRAFT.search(name) or (layer is not None and layers <= int(layer[1]) < layers + drafts):
        return DRAFT
    if layer is not None and int(layer[1]) >= layers:
        return None
    if layer is None:
        if _HEAD.search(name) and not name.endswith("bias"):
            return "head"
        if _EMBED.search(name) and not (is_vector or _NORM.search(name)):
            return "embed"
        return "norm" if is_vector or _NORM.search(name) else None
    section = next((section for section, pattern in _IN_LAYER if pattern.search(name)), None)
    return "norm" if is_vector and section != "router" else section
