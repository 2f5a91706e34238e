"""Times of single kernels, as a table holds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from roofline.records import dataclass, replace
from roofline.specs.kernels import KINDS
from roofline.specs.names import fold

__all__ = ["SHAPES", "KernelGroup", "of_gpu"]

#: kind of kernel -> columns that state its shape.
SHAPES: Mapping[str, tuple[str, ...]] = {kind.name: kind.columns for kind in KINDS.values() if kind.columns}


@dataclass(frozen=True)
class KernelGroup:
    """Measurements of one kind of kernel at one dtype on one GPU."""

    gpu: str
    kind: str
    dtype: str
    columns: Mapping[str, list[float]]  # of `SHAPES`, and `latency` [s]
    routing: tuple[str, ...]  # of each row; empty where it does not apply
    engines: tuple[str, ...]  # engine of each row, or empty text
    versions: tuple[str, ...]  # engines with their versions, sorted, each once
    dates: tuple[str, ...]  # sorted, each once


def of_gpu(groups: Iterable[KernelGroup], names: Collection[str], gpu: str) -> list[KernelGroup]:
    """Groups of one GPU under its canonical name, those of the same kind and dtype joined.

    Args:
        groups: measurements.
        names: names under which tables may list the GPU, folded [text].
        gpu: its canonical name [text].

    Returns:
        One group a kind and dtype.
    """
    found: dict[tuple[str, str], KernelGroup] = {}
    for group in groups:
        if fold(group.gpu) not in names:
            continue
        other = found.get((group.kind, group.dtype))
        found[group.kind, group.dtype] = replace(group, gpu=gpu) if other is None else _joined(other, group)
    return list(found.values())


def _joined(one: KernelGroup, other: KernelGroup) -> KernelGroup:
    return replace(
        one,
        columns={name: [*values, *other.columns[name]] for name, values in one.columns.items()},
        routing=(*one.routing, *other.routing),
        engines=(*one.engines, *other.engines),
        versions=tuple(sorted({*one.versions, *other.versions})),
        dates=tuple(sorted({*one.dates, *other.dates})),
    )
