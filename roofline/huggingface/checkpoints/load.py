"""The model in a checkpoint: layers from its configuration, number formats and bytes from its headers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from roofline.errors import BadSpec, printable
from roofline.huggingface.checkpoints.gguf import FLOATS, gguf_checkpoint
from roofline.huggingface.checkpoints.gguf_config import gguf_config, gguf_name
from roofline.huggingface.checkpoints.index import MATRICES
from roofline.huggingface.checkpoints.packing import BITS_ALONE, Held, Packing, held_weights
from roofline.huggingface.checkpoints.safetensors import INDEX, read_index, safetensors_checkpoint
from roofline.huggingface.checkpoints.sections import BESIDE, DRAFT, section_of
from roofline.huggingface.checkpoints.tensors import Checkpoint
from roofline.huggingface.config import Described, Imported, completed, described_model, read_config
from roofline.huggingface.layers import Shape
from roofline.huggingface.quantization import native_formats
from roofline.physics.parameters import ParameterCount, parameters
from roofline.quantity import BILLION, BITS_PER_BYTE, MILLI
from roofline.records import dataclass, field
from roofline.specs.build import model_record
from roofline.specs.formats import at_bits
from roofline.specs.names import name_fault

GGUF, SAFETENSORS = ".gguf", ".safetensors"

_CONFIG = "config.json"
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
    for held in _held(checkpoint, packing):
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


def _held(checkpoint: Checkpoint, packing: Packing) -> Iterable[Held]:
    """Matrices and vectors of a GGUF or safetensors checkpoint."""
    if not checkpoint.metadata:
        return held_weights(checkpoint.tensors, packing)
    return (
        Held(
            tensor.name,
            FLOATS.get(tensor.dtype, BITS_ALONE),
            tensor.values,
            tensor.nbytes,
            sum(length > 1 for length in tensor.shape) <= 1,
        )
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
    level = [value]
    while level:
        yield from (item for item in level if isinstance(item, dict))
        level = [
            inner for item in level if isinstance(item, dict) for inner in item.values() if isinstance(inner, dict)
        ]


def _check_counts(checkpoint: Checkpoint, parts: Mapping[str, Weighed], count: ParameterCount) -> None:
    """Refuse tensors that disagree with the layers of the configuration."""
    expected, total = count._asdict(), count.total
    stored = {name: parts[name].weights if name in parts else 0 for name in expected}
    wrong = [name for name, weights in stored.items() if abs(weights - expected[name]) > _TOLERANCE / 2 * total]
    held = sum(stored.values())
    if wrong or abs(held - total) > _TOLERANCE * total:
        gaps = [
            f"{name} {stored[name] / BILLION:.4g} instead of {expected[name] / BILLION:.4g} billion" for name in wrong
        ]
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
    files = "1 file" if checkpoint.files == 1 else f"{checkpoint.files} files"
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
