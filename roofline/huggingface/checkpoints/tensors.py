"""Tensors of a checkpoint, from the headers of its files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from math import prod
from typing import Any

from roofline.errors import BadSpec, printable
from roofline.records import NamedTuple, dataclass, field

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
        raise BadSpec(f"{path}:1: file: {printable(name)} is no part of {count} files")
    paths = [
        os.path.join(folder, f"{numbered[1]}-{part:05d}-of-{count:05d}{numbered[4]}") for part in range(1, count + 1)
    ]
    missing = [part for part in paths if not os.path.isfile(part)]
    if missing:
        first = printable(os.path.basename(missing[0]))
        raise BadSpec(f"{path}:1: file: {len(missing)} of its {count} parts are missing, first {first}")
    return paths
