"""Headers of GGUF files: metadata, and the type and shape of every tensor."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from roofline.errors import BadSpec, printable
from roofline.huggingface.checkpoints.tensors import Checkpoint, Tensor, shards
from roofline.reading import HEADER_BYTES, Unreadable, excerpt

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
