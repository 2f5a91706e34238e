"""Weight matrices of a layer as data, and how tensor parallelism shards them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from roofline.ops import Real, maximum
from roofline.records import NamedTuple


class Sharded(NamedTuple):
    """A width that tensor parallelism shards by heads, groups or channels."""

    number: Real  # of heads, groups or channels
    each: Real  # values of one
    of: str  # their name
    is_replicated: bool = False  # over ranks that exceed their number; else tp divides it


class Projection(NamedTuple):
    """One weight matrix of a layer."""

    name: str
    kernel: str  # multiplication that it is part of; matrices with the same input may be fused
    columns: Sharded | Real  # outputs; a plain number where every rank has all of them
    inner: Sharded | Real  # inputs of an output, likewise
    section: str = "attention"  # of the model; decides the number format
    bias: bool = False
    copies: Real = None  # experts with such a matrix each, spread over ranks; None: one matrix


class Multiplication(NamedTuple):
    """The fused matrices of one kernel, on one rank."""

    columns: Real
    inner: Real
    section: str
    bias: bool


def local(width: Sharded | Real, tp: Real) -> Real:
    r"""Part of a width on one rank.

    .. math:: \frac{n}{tp} w,\quad \max\left(\frac{n}{tp}, 1\right) w\ \text{(replicated beyond } n)

    Args:
        width: n heads of w values, or a number that is not sharded [1].
        tp: tensor-parallel degree [1].

    Returns:
        Values [1].

    Source:
        Tensor parallelism of vLLM and TensorRT-LLM, which replicate KV heads where there are more ranks.

    >>> local(Sharded(8, 128, "KV heads", is_replicated=True), 16)
    128.0
    """
    if type(width) is not Sharded:
        return width
    return (replicated(width.number, tp, width.of) if width.is_replicated else width.number / tp) * width.each


def replicated(number: Real, tp: Real, of: str) -> Real:
    """Heads or groups on one rank; where there are more ranks, each is on several.

    Args:
        number: heads or groups of the layer [1].
        tp: tensor-parallel degree [1].
        of: their name [text].

    Returns:
        Heads or groups [1].

    Source:
        Tensor parallelism of vLLM and TensorRT-LLM, which replicate KV heads likewise.

    >>> replicated(8, 16, "KV heads")
    1.0
    """
    return maximum(number / tp, 1.0, f"{of} start or stop being replicated")


class Matrices:
    """The matrices of a kind of layer, whole and on one rank; results for whole numbers are cached."""

    def __init__(self, declare: Callable[[Any, Real], Iterable[Projection]]) -> None:
        self._declare = declare  # yields the matrices of a record, at a model width
        self._cached_whole = lru_cache(maxsize=512)(self._whole)
        self._cached_rank = lru_cache(maxsize=2048)(self._rank)
        self._cached_values = lru_cache(maxsize=2048)(self._values)

    def whole(self, record: Any, hidden: Real) -> tuple[Projection, ...]:
        """Matrices of a layer, which `record` specifies."""
        return self._cached_whole(record, hidden) if type(hidden) is int else self._whole(record, hidden)

    def on_rank(self, record: Any, hidden: Real, tp: Real) -> dict[str, Multiplication]:
        """Multiplications of a layer on one rank, by name, in the order of the matrices."""
        is_plain = type(hidden) is int and type(tp) is int
        return (self._cached_rank if is_plain else self._rank)(record, hidden, tp)

    def values(self, record: Any, hidden: Real, tp: Real = 1, expert_ranks: Real = 1) -> Mapping[str, Real]:
        """Parameters on one rank by section; biases count as `norm`, since both are 16-bit."""
        is_plain = type(hidden) is int and type(tp) is int and type(expert_ranks) is int
        return (self._cached_values if is_plain else self._values)(record, hidden, tp, expert_ranks)

    def sharded_widths(self, record: Any, hidden: Real) -> tuple[Sharded, ...]:
        """Heads, groups and channels that tensor parallelism shards, each once, in the order of the matrices."""
        shards: dict[str, Sharded] = {}
        for matrix in self.whole(record, hidden):
            for width in (matrix.columns, matrix.inner):
                if isinstance(width, Sharded):
                    shards.setdefault(width.of, width)
        return tuple(shards.values())

    def _whole(self, record: Any, hidden: Real) -> tuple[Projection, ...]:
        return tuple(self._declare(record, hidden))

    def _rank(self, record: Any, hidden: Real, tp: Real) -> dict[str, Multiplication]:
        fused: dict[str, Multiplication] = {}
        for matrix in self.whole(record, hidden):
            before, columns = fused.get(matrix.kernel), local(matrix.columns, tp)
            fused[matrix.kernel] = (
                Multiplication(columns, local(matrix.inner, tp), matrix.section, matrix.bias)
                if before is None
                else before._replace(columns=before.columns + columns, bias=before.bias or matrix.bias)
            )
        return fused

    def _values(self, record: Any, hidden: Real, tp: Real, expert_ranks: Real) -> Mapping[str, Real]:
        count: dict[str, Real] = {}
        for matrix in self.whole(record, hidden):
            columns = local(matrix.columns, tp)
            if matrix.copies is not None:
                columns = matrix.copies / expert_ranks * columns
            count[matrix.section] = count.get(matrix.section, 0.0) + columns * local(matrix.inner, tp)
            if matrix.bias:
                count["norm"] = count.get("norm", 0.0) + columns
        return count
