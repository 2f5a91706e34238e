"""The model in a file or folder: a configuration, or a checkpoint with its headers."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from roofline.catalog.huggingface.blocks import Shape
from roofline.catalog.huggingface.config import (
    Described,
    Imported,
    completed,
    config_document,
    described_model,
    read_config,
)
from roofline.catalog.huggingface.headers import (
    BESIDE,
    BITS_ALONE,
    DRAFT,
    INDEX,
    MATRICES,
    Checkpoint,
    Held,
    Index,
    Packing,
    Tensor,
    formats_of_names,
    held_weights,
    read_index,
    safetensors_checkpoint,
    section_of,
    shards,
)
from roofline.catalog.huggingface.quantization import native_formats
from roofline.numbers.quantity import BILLION, BITS_PER_BYTE, MILLI, counted
from roofline.physics.memory import ParameterCount, parameters
from roofline.specs.build import model_record
from roofline.specs.formats import at_bits, number_format
from roofline.specs.model import Model
from roofline.specs.names import name_fault
from roofline.support.errors import BadSpec, printable, shown
from roofline.support.reading import HEADER_BYTES, Unreadable, excerpt
from roofline.support.records import NamedTuple, dataclass, field, replace

_ENDINGS = (".safetensors", ".gguf", ".safetensors.index.json")
_CONFIG = "config.json"
_SIXTEEN_BIT = ("bf16", "fp16")
_CLOSE = 0.02  # relative difference allowed between the sizes of index and configuration, such as draft modules


def is_checkpoint_name(path: str) -> bool:
    """Whether a path ends like a file of weights or its index.

    >>> is_checkpoint_name("model-00001-of-00004.safetensors"), is_checkpoint_name("config.json")
    (True, False)
    """
    return path.endswith(_ENDINGS)


def file_document(path: str, name: str | None = None, assume: str | None = None) -> Imported:
    """Specification of the model in a ``config.json``, a file of weights, its index, or a folder with any of these.

    Without `name` the model is called as its files say; `assume` is as for `config_document`.
    """
    files = checkpoint_at(path) if is_checkpoint_name(path) or os.path.isdir(path) else []
    if files:
        return checkpoint_document(files, name, assume)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    config_path = os.path.join(folder, _CONFIG) if is_checkpoint_name(path) or os.path.isdir(path) else path
    config, quantization, stated_name = read_config(config_path)
    imported = config_document(config, name or stated_name, quantization, config_path, assume)
    index = os.path.join(folder, INDEX)
    if config_path == path or not os.path.isfile(index):
        return imported
    return _add_index(read_index(index), imported, config, config_path, assume)


def file_model(path: str, assume: str | None = None) -> Model:
    document, cautions = file_document(path, assume=assume)
    return replace(model_record(document), cautions=tuple(cautions))


def _add_index(index: Index, imported: Imported, config: Mapping[str, Any], where: str, assume: str | None) -> Imported:
    """Add to a specification what an index without its files states: unstated formats, and a caution about the size."""
    document, cautions = imported
    formats = document["native"]
    if all(formats.get(section, "bf16") in _SIXTEEN_BIT for section in MATRICES):
        described = described_model(config, document["name"], where, assume)
        quantised = formats_of_names(index.names, described.shape)
        if quantised:
            listed = " and ".join(f"{section} {stored}" for section, stored in quantised.items())
            cautions = (*described.cautions, f"formats as the names of tensors in {INDEX} tell them: {listed}")
            unquantised = dict.fromkeys(("attention", "shared", "experts"), formats["linear"])
            document, cautions = completed(described, {**formats, **unquantised, **quantised}, cautions, where)
    if index.nbytes is None:
        return Imported(document, cautions)
    model = model_record(document)
    counts = parameters(model)._asdict().items()
    counted = sum(count * number_format(model.native[section]).nbytes for section, count in counts if count)
    sizes = f"{index.nbytes / BILLION:.4g} GB, the formats counted here make {counted / BILLION:.4g} GB"
    if abs(counted / index.nbytes - 1.0) > _CLOSE:
        cautions = (*cautions, f"{INDEX} states {sizes}; the files of weights, or their headers, would tell why")
    return Imported(document, cautions)


# The model in a checkpoint: layers from its configuration, number formats and bytes from its headers.

GGUF, SAFETENSORS = ".gguf", ".safetensors"

_TOLERANCE = MILLI  # share of all weights by which tensors and layers may disagree
_NO_MODELS = ("adapter_", "consolidated", "optimizer", "mmproj", "vocab")
_SHOWN = 4


@dataclass(slots=True)
class Weighed:
    """Bytes and weights of one part of a checkpoint."""

    nbytes: int = 0  # [B]
    weights: int = 0
    formats: dict[str, int] = field(default_factory=dict)  # weights by number format

    def add(self, held: Held) -> None:
        self.nbytes += held.nbytes
        self.weights += held.weights
        if held.weights:
            self.formats[held.format] = self.formats.get(held.format, 0) + held.weights


def checkpoint_at(path: str) -> list[str]:
    """Files of weights at a path, be it a file, an index or a folder; empty where there are none."""
    if path.endswith(GGUF):
        return [path]
    if path.endswith(SAFETENSORS):
        index = os.path.join(os.path.dirname(path), INDEX)
        named = read_index(index).files if os.path.isfile(index) else []
        return _present(index, named) if path in named else [path]
    if os.path.isdir(path):
        index = os.path.join(path, INDEX)
        if os.path.isfile(index):
            return _present(index, read_index(index).files)
        names = sorted(name for name in os.listdir(path) if not name.startswith(_NO_MODELS))
        for ending in (SAFETENSORS, GGUF):
            files = [os.path.join(path, name) for name in names if name.endswith(ending)]
            if files:
                return files
        return []
    return _present(path, read_index(path).files) if path.endswith(f"{SAFETENSORS}.index.json") else []


def checkpoint_document(files: list[str], name: str | None = None, assume: str | None = None) -> Imported:
    """Specification of the model in a checkpoint, with the bits per weight of its headers.

    Without `name` the model is called as its files say; `assume` is as for `config_document`.
    """
    checkpoint, described, quantization, packing = _described(files, name, assume)
    parts = weighed(checkpoint, described.shape, packing)
    count = parameters(model_record({**described.document, "native": {}}))
    if count.shared and not count.linear and "linear" in parts:  # Gemma-4: a dense FFN alongside the experts
        parts["shared"] = parts.pop("linear")
    _check_counts(checkpoint, parts, count)
    formats = _formats(parts, count, tied=described.shape.tied)
    formats["kv"] = _cache(described, quantization, checkpoint)
    cautions = (*described.cautions, *_cautions(checkpoint, parts))
    return completed(described, formats, cautions, checkpoint.path, "headers of the weights")


def weighed(checkpoint: Checkpoint, shape: Shape, packing: Packing) -> dict[str, Weighed]:
    """Bytes and weights by section of a specification, of `DRAFT` and of `BESIDE`."""
    names, layers = {tensor.name for tensor in checkpoint.tensors}, len(shape.layers)
    parts: dict[str, Weighed] = {}
    unknown: list[Held] = []
    for held in _held_weights(checkpoint, packing):
        section = section_of(held.name, layers, shape.mtp, is_vector=held.is_vector)
        is_copy = (shape.tied and section == "head") or (
            held.name.endswith("attn_kv_b.weight") and held.name.replace("_kv_b.", "_k_b.") in names
        )
        if section is None:
            unknown.append(held)
        parts.setdefault(BESIDE if is_copy else section or "norm", Weighed()).add(held)
    total = sum(part.weights for part in parts.values())
    if sum(held.weights for held in unknown) > _TOLERANCE * total:
        examples = ", ".join(printable(held.name[:100]) for held in unknown[:_SHOWN])
        raise BadSpec(f"{checkpoint.path}:1: tensors: {len(unknown)} belong to no known part of a model: {examples}")
    return parts


def _present(index: str, named: list[str]) -> list[str]:
    """The files of an index if all exist; empty if none does."""
    missing = [path for path in named if not os.path.isfile(path)]
    if len(missing) == len(named):
        return []
    if missing:
        first = printable(os.path.basename(missing[0]))
        raise BadSpec(f"{index}:1: weight_map: {len(missing)} of {len(named)} files are missing, first {first}")
    return named


def _described(
    files: list[str], name: str | None, assume: str | None
) -> tuple[Checkpoint, Described, Mapping[str, Any] | None, Packing]:
    """Tensors, layers of the configuration beside them, ``hf_quant_config.json`` or None, and packed integers."""
    folder = os.path.dirname(files[0])
    config_path = os.path.join(folder, _CONFIG)
    is_gguf = files[0].endswith(GGUF)
    checkpoint = gguf_checkpoint(files[0]) if is_gguf else safetensors_checkpoint(files)
    if is_gguf and len(files) > checkpoint.files:
        raise BadSpec(f"{folder}:1: file: holds {len(files)} GGUF files; name the one that is meant")
    if is_gguf and not os.path.isfile(config_path):
        model_name = name or gguf_name(checkpoint.metadata)
        if model_name is None or (name is None and name_fault(model_name) is not None):
            model_name = os.path.basename(files[0]).removesuffix(GGUF)
        return checkpoint, described_model(gguf_config(checkpoint), model_name, checkpoint.path), None, Packing()
    if not os.path.isfile(config_path):
        raise BadSpec(f"{config_path}:1: file: missing; it says which layers the tensors beside it belong to")
    config, quantization, stated_name = read_config(config_path)
    model_name = name or (os.path.basename(files[0]).removesuffix(GGUF) if is_gguf else stated_name)
    return checkpoint, described_model(config, model_name, config_path, assume), quantization, _packing(config)


def _held_weights(checkpoint: Checkpoint, packing: Packing) -> Iterable[Held]:
    """Matrices and vectors of a GGUF or safetensors checkpoint."""
    if not checkpoint.metadata:
        return held_weights(checkpoint.tensors, packing)
    return (
        Held(tensor.name, FLOATS.get(tensor.dtype, BITS_ALONE), tensor.values, tensor.nbytes, tensor.is_vector)
        for tensor in checkpoint.tensors
    )


def _packing(config: Mapping[str, Any]) -> Packing:
    """Bits and group size of packed integers, wherever the configuration states them."""
    packing: dict[str, int] = {}
    for field_name in ("quantization_config", "compression_config", "quantization"):
        text = json.dumps(config.get(field_name)) if isinstance(config.get(field_name), dict) else "{}"
        for document in _mappings(json.loads(text)):
            for key, names in (("bits", ("bits", "w_bit", "num_bits")), ("group", ("group_size", "q_group_size"))):
                value = next((document[name] for name in names if type(document.get(name)) is int), None)
                if value is not None and 0 < value <= 1 << 16:
                    packing.setdefault(key, value)
    bits = packing.get("bits")
    return Packing(bits if bits is not None and bits <= 16 else None, packing.get("group"))


def _mappings(value: Any) -> Iterable[dict[str, Any]]:
    """A mapping and all nested ones, outermost first."""
    level = [value] if isinstance(value, dict) else []
    while level:
        yield from level
        level = [inner for item in level for inner in item.values() if isinstance(inner, dict)]


def _check_counts(checkpoint: Checkpoint, parts: Mapping[str, Weighed], count: ParameterCount) -> None:
    """Refuse tensors that disagree with the layers of the configuration."""
    expected, total = count._asdict(), count.total
    stored = {name: parts[name].weights if name in parts else 0 for name in expected}
    wrong = [name for name, weights in stored.items() if abs(weights - expected[name]) > _TOLERANCE / 2 * total]
    held = sum(stored.values())
    if wrong or abs(held - total) > _TOLERANCE * total:
        sizes = [(name, stored[name] / BILLION, expected[name] / BILLION) for name in wrong]
        gaps = [f"{name} {found:.4g} instead of {counted:.4g} billion" for name, found, counted in sizes]
        raise BadSpec(
            f"{checkpoint.path}:1: tensors: hold {held / BILLION:.4g} billion weights, the layers of the configuration "
            f"{total / BILLION:.4g}: {'; '.join(gaps) or 'small parts differ'}"
        )


def _formats(parts: Mapping[str, Weighed], count: ParameterCount, *, tied: bool) -> dict[str, str]:
    """Number format of every section, with the bits per weight of its tensors."""
    expected = count._asdict()
    formats: dict[str, str] = {}
    spare = sum(  # bytes of sections that the model counts elsewhere
        part.nbytes for section, part in parts.items() if section in expected and not expected[section]
    )
    for section, weights in expected.items():
        part = parts.get(section, Weighed())
        if weights and part.formats:
            nbytes = part.nbytes + (spare if section == "norm" else 0)
            base = max(part.formats, key=lambda name: part.formats[name])
            formats[section] = at_bits(base, nbytes * BITS_PER_BYTE / weights)
    if tied and "embed" in formats:
        formats["head"] = formats["embed"]
    usual = next((formats[section] for section in ("linear", "attention", "experts") if section in formats), "bf16")
    return {"linear": usual} | formats


def _cache(described: Described, quantization: Mapping[str, Any] | None, checkpoint: Checkpoint) -> str:
    """Format of the KV cache: as the configuration states, else 16 bits."""
    if checkpoint.metadata:
        return "fp16"  # default of llama.cpp, --cache-type-k
    try:
        return native_formats(described.fields, described.shape, quantization).formats["kv"]
    except BadSpec:  # a quantization that only the headers describe
        return "bf16"


def _cautions(checkpoint: Checkpoint, parts: Mapping[str, Weighed]) -> tuple[str, ...]:
    files = counted(checkpoint.files, "file")
    unused = {"draft modules": parts.get(DRAFT), "what is beside the language model": parts.get(BESIDE)}
    sizes = [f"{part.nbytes / BILLION:.4g} GB of {name}" for name, part in unused.items() if part is not None]
    left_out = f", of which {' and '.join(sizes)} are left out" if sizes else ""
    cautions = [f"formats and bytes as the headers of {files} state them: {checkpoint.held / BILLION:.5g} GB{left_out}"]
    if checkpoint.present < (1.0 - _TOLERANCE) * checkpoint.stated:
        share = f"{checkpoint.present / BILLION:.4g} of {checkpoint.stated / BILLION:.4g} GB"
        cautions.append(f"the files hold {share}: they are cut off, and counted whole")
    matrices = [parts[name] for name in MATRICES if name in parts]
    if sum(part.formats.get("fp32", 0) for part in matrices) > sum(part.weights for part in matrices) / 2:
        cautions.append("stored as float32; engines serve such weights as bf16: choose -q bf16")
    return tuple(cautions)


# Headers of GGUF files: metadata, and the type and shape of every tensor.

#: Tensor type -> name, values per block, bytes per block. ggml/include/ggml.h (enum ggml_type) and
#: ggml/src/ggml-common.h (block layouts) of https://github.com/ggml-org/llama.cpp; gguf-py/gguf/constants.py has both.
TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36),
}  # fmt: skip

#: Types that are number formats of their own; the others are known by their bits alone.
FLOATS: Mapping[str, str] = {
    "F64": "fp32", "F32": "fp32", "F16": "fp16", "BF16": "bf16", "MXFP4": "mxfp4", "NVFP4": "nvfp4",
}  # fmt: skip

_MAGIC, _VERSIONS = b"GGUF", (2, 3)
_STRING, _ARRAY = 8, 9
#: Metadata type -> letter for `struct`.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MOST_TENSORS, _MOST_FIELDS, _MOST_DIMENSIONS = 200_000, 10_000, 8
_MOST_STRINGS = 2_000_000  # in all lists together: tokens and merges
_LONGEST_LIST, _LONGEST_TEXT = 4096, 10_000  # longer ones are not kept
_LONGEST_NAME, _LONGEST = 1 << 16, 1 << 50
_PIECE = 1 << 20
_ALIGNMENT = 32  # bytes, where the file states none


def gguf_checkpoint(path: str) -> Checkpoint:
    """Tensors and metadata of a file, or of all parts of a split one, without reading weights.

    Args:
        path: the file, or one of its parts.

    Returns:
        The tensors of all parts, and the metadata of the first.

    Raises:
        BadSpec: a file cannot be read, is damaged or hostile.

    Source:
        https://github.com/ggml-org/ggml, docs/gguf.md.
    """
    tensors: list[Tensor] = []
    metadata: dict[str, Any] = {}
    stated_size = present_size = 0
    files = shards(path)
    for part in files:
        reader = _Reader(part)
        part_metadata, part_tensors, end = reader.header()
        metadata = metadata or part_metadata
        tensors += part_tensors
        stated_size += end
        present_size += reader.size
    return Checkpoint(path, tuple(tensors), stated_size, present_size, len(files), metadata)


class _Reader:
    """Reads the header of one file piece by piece."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._data = bytearray()
        self._position = 0
        self._strings = 0
        self.size = 0

    def header(self) -> tuple[dict[str, Any], list[Tensor], int]:
        """Metadata, tensors, and the offset at which the last tensor ends [B]."""
        if self._take(4) != _MAGIC:
            raise self._fault("this is no GGUF file")
        version = self._number("I")
        if version not in _VERSIONS:
            raise self._fault(f"version {version} is not supported; only {' and '.join(map(str, _VERSIONS))}")
        count, field_count = self._number("Q"), self._number("Q")
        if count > _MOST_TENSORS or field_count > _MOST_FIELDS:
            raise self._fault(f"{count} tensors and {field_count} fields of metadata are more than any model has")
        metadata: dict[str, Any] = {}
        for _ in range(field_count):
            name = self._text(_LONGEST_NAME)
            metadata[name] = self._value(self._number("I"), 0)
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or not 0 < alignment <= _PIECE:
            raise self._fault("general.alignment must be a small whole number")
        tensors, end = [], 0
        for _ in range(count):
            tensor, offset = self._tensor()
            tensors.append(tensor)
            end = max(end, offset + tensor.nbytes)
        return metadata, tensors, -(-self._position // alignment) * alignment + end

    def _tensor(self) -> tuple[Tensor, int]:
        """One tensor, and its offset within the data [B]."""
        name = self._text(_LONGEST_NAME)
        dimensions = self._number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise self._fault(f"tensor {printable(name[:100])} has {dimensions} dimensions")
        shape = tuple(self._number("Q") for _ in range(dimensions))
        kind, offset = self._number("I"), self._number("Q")
        if kind not in TYPES:
            raise self._fault(f"tensor {printable(name[:100])}: type {kind} is not known")
        label, block, nbytes = TYPES[kind]
        values = Tensor(name, label, shape, 0).values
        if values > _LONGEST or offset > _LONGEST or (shape and shape[0] % block):
            raise self._fault(f"tensor {printable(name[:100])}: {values} values of {label} at {offset} cannot be")
        return Tensor(name, label, shape, values // block * nbytes), offset

    def _value(self, kind: int, depth: int) -> Any:
        """One value of metadata; a long list, or one of texts, becomes a range of its length."""
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._text(None)
        if kind != _ARRAY or depth > 1:
            raise self._fault(f"metadata of type {kind} cannot be read")
        inner, length = self._number("I"), self._number("Q")
        if inner in _SCALARS:
            return self._numbers(_SCALARS[inner], length)
        self._strings += length
        if self._strings > _MOST_STRINGS:
            raise self._fault(f"more than {_MOST_STRINGS} texts in its metadata")
        if inner == _STRING:
            self._skip_texts(length)
            return range(length)
        return [self._value(inner, depth + 1) for _ in range(length)]

    def _numbers(self, letter: str, length: int) -> Any:
        nbytes = struct.calcsize(f"<{letter}")
        if length > HEADER_BYTES // nbytes:
            raise self._fault(f"a list of {length} numbers in its metadata is too long")
        data = self._take(length * nbytes)
        return range(length) if length > _LONGEST_LIST else list(struct.unpack(f"<{length}{letter}", data))

    def _skip_texts(self, length: int) -> None:
        """Skip texts fast: a vocabulary has hundreds of thousands."""
        data, position, unpack = self._data, self._position, struct.Struct("<Q").unpack_from
        for _ in range(length):
            if position + 8 > len(data):
                self._position = position
                self._read_ahead(8)
            position += 8 + unpack(data, position)[0]
            if position > len(data):
                self._position = position
                self._read_ahead(0)
        self._position = position

    def _text(self, most: int | None) -> str:
        length = self._number("Q")
        if most is not None and length > most:
            raise self._fault(f"a name of {length} bytes is too long")
        return self._take(length)[: most or _LONGEST_TEXT].decode("utf-8", "replace")

    def _number(self, letter: str) -> Any:
        return struct.unpack(f"<{letter}", self._take(struct.calcsize(f"<{letter}")))[0]

    def _take(self, length: int) -> bytes:
        self._read_ahead(length)
        start, self._position = self._position, self._position + length
        return bytes(self._data[start : self._position])

    def _read_ahead(self, length: int) -> None:
        """Read on until `length` bytes follow the position."""
        end = self._position + length
        if end > HEADER_BYTES:
            raise self._fault(f"its header exceeds the limit of {HEADER_BYTES} bytes")
        while len(self._data) < end:
            try:
                piece, self.size = excerpt(self._path, len(self._data), max(_PIECE, end - len(self._data)), "GGUF file")
            except Unreadable as fault:
                raise self._fault(str(fault)) from None
            if not piece:
                raise self._fault("its header is cut off")
            self._data += piece

    def _fault(self, text: str) -> BadSpec:
        return BadSpec(f"{self._path}:1: header: {text}")


# Metadata of a GGUF file as the fields of a Hugging Face configuration.

#: GGUF field -> field of a configuration. Names on the left: llama.cpp, src/llama-arch.cpp, LLM_KV_NAMES; on the
#: right: transformers, src/transformers/integrations/ggml.py, GGUF_CONFIG_MAPPING.
_FIELDS: Mapping[str, str] = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
}
_EXPERTS: Mapping[str, str] = {
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "nextn_predict_layers": "num_nextn_predict_layers",
}
_LATENT: Mapping[str, str] = {
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "rope.dimension_count": "qk_rope_head_dim",
}

_LENGTHS = ("key_length", "value_length")  # of keys and values per head; no fields of a configuration

_Fields = dict[str, Any]


class _Architecture(NamedTuple):
    """How files of one architecture of llama.cpp are read."""

    model_type: str
    flags: tuple[str, ...] = ()  # fields that follow from the tensors and that the family's configuration has
    finish: Callable[[_Fields], None] | None = None  # adapts the fields in place


def _llama(fields: _Fields) -> None:
    """Llama, Mistral and Mixtral share one architecture; `feed_forward_length` is the width of an expert of Mixtral."""
    experts = fields.pop("num_experts", None)
    if experts:
        fields |= {"model_type": "mixtral", "num_local_experts": experts}


def _deepseek(fields: _Fields) -> None:
    """DeepSeek-V2, V3, R1 and Kimi-K2: key lengths are per head; routers have a bias from V3 on."""
    has_bias = fields.pop("use_routing_bias", False)
    fields["model_type"] = "deepseek_v3" if has_bias else "deepseek_v2"
    fields["topk_method"] = "noaux_tc" if has_bias else "greedy"
    key, value, rope = fields.get("key_length"), fields.get("value_length"), fields.get("qk_rope_head_dim")
    if type(key) is int and type(rope) is int and type(value) is int:
        fields |= {"qk_nope_head_dim": key - rope, "v_head_dim": value}
    for name in ("head_dim", "num_key_value_heads"):  # of the latent, which all heads share
        fields.pop(name, None)
    _name_routed_experts(fields)


def _name_routed_experts(fields: _Fields) -> None:
    fields["n_routed_experts"] = fields.pop("num_experts", None)


def _name_local_experts(fields: _Fields) -> None:
    """Rename the fields for families in which `intermediate_size` is the width of an expert."""
    fields["intermediate_size"] = fields.pop("moe_intermediate_size", None) or fields.get("intermediate_size")
    fields["num_local_experts"] = fields.pop("num_experts", None)


_BIAS = ("attention_bias",)
_BIASES = ("attention_bias", "mlp_bias")

_ARCHITECTURES: Mapping[str, _Architecture] = {
    "command-r": _Architecture("cohere", (*_BIAS, "use_qk_norm")),
    "deepseek2": _Architecture("deepseek_v3", ("use_routing_bias",), _deepseek),
    "ernie4_5": _Architecture("ernie4_5", ("use_bias",)),
    "gemma": _Architecture("gemma"),
    "gemma2": _Architecture("gemma2"),
    "gemma3": _Architecture("gemma3_text"),
    "glm4": _Architecture("glm4", _BIAS),
    "glm4moe": _Architecture("glm4_moe", (*_BIAS, "use_qk_norm"), _name_routed_experts),
    "gpt-oss": _Architecture("gpt_oss", (), _name_local_experts),
    "granite": _Architecture("granite", _BIASES),
    "llama": _Architecture("llama", _BIASES, _llama),
    "minimax-m2": _Architecture("minimax_m2", ("use_routing_bias", "use_qk_norm"), _name_local_experts),
    "mistral3": _Architecture("mistral"),
    "nemotron": _Architecture("nemotron", _BIASES),
    "olmo2": _Architecture("olmo2", _BIAS),
    "phi3": _Architecture("phi3"),
    "qwen2": _Architecture("qwen2"),
    "qwen2moe": _Architecture("qwen2_moe"),
    "qwen2vl": _Architecture("qwen2"),
    "qwen3": _Architecture("qwen3", _BIAS),
    "qwen3moe": _Architecture("qwen3_moe", _BIAS),
    "qwen3vl": _Architecture("qwen3", _BIAS),
    "qwen3vlmoe": _Architecture("qwen3_moe", _BIAS),
    "seed_oss": _Architecture("seed_oss", _BIAS),
    "starcoder2": _Architecture("starcoder2", ("use_bias",)),
}


def gguf_config(checkpoint: Checkpoint) -> dict[str, Any]:
    """Configuration of the model in a GGUF file; biases, ties and the vocabulary follow from its tensors.

    Args:
        checkpoint: the tensors and metadata of a GGUF file.

    Returns:
        Fields as in a ``config.json``.

    Raises:
        BadSpec: the architecture is not supported without a ``config.json``.

    Source:
        https://github.com/ggml-org/llama.cpp, src/llama-arch.cpp; convert_hf_to_gguf.py for the meaning of a field.
    """
    metadata, where = checkpoint.metadata, checkpoint.path
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in _ARCHITECTURES:
        raise BadSpec(
            f"{where}:1: general.architecture: {shown(architecture)} is not read from metadata; put the config.json of "
            f"the model beside the file (read: {', '.join(sorted(_ARCHITECTURES))})"
        )
    reading = _ARCHITECTURES[architecture]
    names = {**_FIELDS, **_EXPERTS, **_LATENT}
    fields: _Fields = {names[key]: _single(metadata.get(f"{architecture}.{key}")) for key in names}
    fields |= {"model_type": reading.model_type, "torch_dtype": "float16"}
    fields["num_experts"] = metadata.get(f"{architecture}.expert_count") or None
    for length in _LENGTHS:
        key = f"{architecture}.attention.{length}"
        fields[length] = metadata.get(f"{key}_mla") or metadata.get(key)
    fields |= _fields_of_tensors(checkpoint, reading.flags)
    if reading.finish is not None:
        reading.finish(fields)
    drafts, layers = fields.get("num_nextn_predict_layers") or 0, fields.get("num_hidden_layers")
    if type(layers) is int and type(drafts) is int:
        fields["num_hidden_layers"] = layers - drafts  # block_count includes the draft modules
    return {name: value for name, value in fields.items() if value is not None and name not in _LENGTHS}


def gguf_name(metadata: Mapping[str, Any]) -> str | None:
    """Name of the model; None where the metadata has none."""
    name = metadata.get("general.name")
    return name.strip()[:100].strip() if isinstance(name, str) and name.strip() else None


def _fields_of_tensors(checkpoint: Checkpoint, flags: tuple[str, ...]) -> _Fields:
    """Fields that tensors state more reliably than metadata: size of the vocabulary, tie, biases and norms."""
    names = {tensor.name: tensor for tensor in checkpoint.tensors}
    table = names.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise BadSpec(f"{checkpoint.path}:1: token_embd.weight: missing; this is not a whole language model")
    has_biases = any(name.endswith(("attn_q.bias", "attn_qkv.bias")) for name in names)
    traits = {
        "attention_bias": has_biases,
        "use_bias": has_biases,
        "mlp_bias": any(name.endswith("ffn_up.bias") for name in names),
        "use_qk_norm": any(".attn_q_norm." in name for name in names),
        "use_routing_bias": any(".exp_probs_b" in name for name in names),
    }
    fields = {"vocab_size": table.shape[1], "tie_word_embeddings": "output.weight" not in names}
    return fields | {name: traits[name] for name in flags}


def _single(value: Any) -> Any:
    """The number itself, or that of a list with the same number for every layer."""
    if isinstance(value, list) and value and len(set(map(repr, value))) == 1:
        return value[0]
    return value
