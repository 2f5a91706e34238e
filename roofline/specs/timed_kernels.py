"""Timings of single kernels, as a table holds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from roofline.records import dataclass, replace
from roofline.specs.kernels import KINDS
from roofline.specs.names import fold

#: Kind of kernel -> columns of its shape.
SHAPES: Mapping[str, tuple[str, ...]] = {kind.name: kind.columns for kind in KINDS.values() if kind.columns}


@dataclass(frozen=True)
class KernelGroup:
    """Timings of one kind of kernel at one dtype on one GPU."""

    gpu: str
    kind: str
    dtype: str
    columns: Mapping[str, list[float]]  # of `SHAPES`, and `latency` [s]
    routing: tuple[str, ...]  # per row; empty where it does not apply
    engines: tuple[str, ...]  # per row; may be empty texts
    versions: tuple[str, ...]  # engines with versions, sorted, unique
    dates: tuple[str, ...]  # sorted, unique


def of_gpu(groups: Iterable[KernelGroup], names: Collection[str], gpu: str) -> list[KernelGroup]:
    """Groups of one GPU (`names`: its folded names), one per kind and dtype."""
    merged: dict[tuple[str, str], KernelGroup] = {}
    for group in groups:
        if fold(group.gpu) not in names:
            continue
        other = merged.get((group.kind, group.dtype))
        merged[group.kind, group.dtype] = replace(group, gpu=gpu) if other is None else _joined(other, group)
    return list(merged.values())


def _joined(first: KernelGroup, second: KernelGroup) -> KernelGroup:
    return replace(
        first,
        columns={name: [*values, *second.columns[name]] for name, values in first.columns.items()},
        routing=(*first.routing, *second.routing),
        engines=(*first.engines, *second.engines),
        versions=tuple(sorted({*first.versions, *second.versions})),
        dates=tuple(sorted({*first.dates, *second.dates})),
    )
