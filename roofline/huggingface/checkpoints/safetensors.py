"""Headers of safetensors files: eight bytes of length, then JSON with dtype, shape and offsets of every tensor."""

from __future__ import annotations

import json
import os
from typing import Any

from roofline.errors import BadSpec, printable, shown
from roofline.huggingface.checkpoints.tensors import Checkpoint, Tensor, shards
from roofline.quantity import BITS_PER_BYTE
from roofline.reading import (
    CONFIG_BYTES,
    HEADER_BYTES,
    Unreadable,
    check_json_amount,
    check_json_depth,
    content,
    excerpt,
)
from roofline.records import NamedTuple

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
            raise BadSpec(f"{path}:1: weight_map: {shown(name)} is no safetensors file beside the index")
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
            raise BadSpec(f"{path}:1: header: this is no safetensors file")
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
        raise BadSpec(f"{path}:1: header: must be a mapping, not a {type(document).__name__}")
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
