"""What a layer multiplies with: its weight matrices as data, and how tensor parallelism splits them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from roofline.ops import Real, maximum
from roofline.records import NamedTuple

__all__ = ["Matrices", "Multiplication", "Projection", "Sharded", "local", "replicated"]


class Sharded(NamedTuple):
    """A width that tensor parallelism deals out by heads, groups or channels."""

    number: Real  # of them
    each: Real  # values of one
    of: str  # what people call them
    is_replicated: bool = False  # where there are more ranks than they are; else tp divides their number


class Projection(NamedTuple):
    """One weight matrix of a layer."""

    name: str
    kernel: str  # multiplication that it is part of: matrices that read the same input may share one
    columns: Sharded | Real  # outputs; a plain number where every rank has all of them
    inner: Sharded | Real  # inputs that an output sums over, likewise
    section: str = "attention"  # of the model, whose number format it has
    bias: bool = False  # a value for each output is added
    copies: Real = None  # experts that have such a matrix each, spread over ranks; None: one matrix for all


class Multiplication(NamedTuple):
    """The matrices of one kernel, side by side, as one rank multiplies with them."""

    columns: Real
    inner: Real
    section: str
    bias: bool


def local(width: Sharded | Real, tp: Real) -> Real:
    r"""Part of a width that one rank has.

    .. math:: \frac{n}{tp} w,\quad \max\left(\frac{n}{tp}, 1\right) w\ \text{(replicated beyond } n)

    Args:
        width: n heads of w values, or a number that no rank shares [1].
        tp: tensor-parallel degree [1].

    Returns:
        Values [1].

    Source:
        Tensor parallelism of vLLM and TensorRT-LLM, which replicate KV heads that are fewer than the ranks.

    >>> local(Sharded(8, 128, "KV heads", is_replicated=True), 16)
    128.0
    """
    if type(width) is not Sharded:
        return width
    return (replicated(width.number, tp, width.of) if width.is_replicated else width.number / tp) * width.each


def replicated(number: Real, tp: Real, of: str) -> Real:
    """Heads or groups that one rank has, of which each is on several ranks where there are more ranks.

    Args:
        number: heads or groups of the layer [1].
        tp: tensor-parallel degree [1].
        of: what people call them [text].

    Returns:
        Heads or groups [1].

    Source:
        Tensor parallelism of vLLM and TensorRT-LLM, which replicate KV heads likewise.

    >>> replicated(8, 16, "KV heads")
    1.0
    """
    return maximum(number / tp, 1.0, f"{of} start or stop being replicated")


class Matrices:
    """The matrices of a kind of layer: whole, on one rank, and by what tensor parallelism deals out.

    What a record of whole numbers amounts to is remembered; other kinds of number are counted anew.
    """

    def __init__(self, declare: Callable[[Any, Real], Iterable[Projection]]) -> None:
        self._declare = declare  # yields the matrices of a record, at a model width
        self._remembered = lru_cache(maxsize=512)(self._whole)
        self._remembered_rank = lru_cache(maxsize=2048)(self._rank)
        self._remembered_values = lru_cache(maxsize=2048)(self._values)
        self._remembered_widths = lru_cache(maxsize=512)(self._widths)

    def whole(self, record: Any, hidden: Real) -> tuple[Projection, ...]:
        """Matrices of a layer.

        Args:
            record: the mixer or the network.
            hidden: model width [1].

        Returns:
            The matrices.
        """
        return self._remembered(record, hidden) if type(hidden) is int else self._whole(record, hidden)

    def on_rank(self, record: Any, hidden: Real, tp: Real) -> dict[str, Multiplication]:
        """Multiplications of a layer by name, matrices that share one side by side.

        Args:
            record: the mixer or the network.
            hidden: model width [1].
            tp: tensor-parallel degree [1].

        Returns:
            Outputs and inner width on one rank, in the order of the matrices [1].
        """
        is_plain = type(hidden) is int and type(tp) is int
        return (self._remembered_rank if is_plain else self._rank)(record, hidden, tp)

    def values(self, record: Any, hidden: Real, tp: Real = 1, expert_ranks: Real = 1) -> Mapping[str, Real]:
        """Parameters of the matrices on one rank, and of their biases.

        Args:
            record: the mixer or the network.
            hidden: model width [1].
            tp: tensor-parallel degree [1].
            expert_ranks: ranks over which experts are spread [1].

        Returns:
            Counts by section of the model; biases under `norm`, for they are kept in 16 bits [1].

        Source:
            Shapes of the checkpoints' tensors.
        """
        is_plain = type(hidden) is int and type(tp) is int and type(expert_ranks) is int
        return (self._remembered_values if is_plain else self._values)(record, hidden, tp, expert_ranks)

    def dealt(self, record: Any, hidden: Real) -> tuple[Sharded, ...]:
        """What tensor parallelism deals out of a layer.

        Args:
            record: the mixer or the network.
            hidden: model width [1].

        Returns:
            Heads, groups or channels, each once, in the order of the matrices.
        """
        return self._remembered_widths(record, hidden) if type(hidden) is int else self._widths(record, hidden)

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

    def _widths(self, record: Any, hidden: Real) -> tuple[Sharded, ...]:
        dealt: dict[str, Sharded] = {}
        for matrix in self.whole(record, hidden):
            for width in (matrix.columns, matrix.inner):
                if isinstance(width, Sharded):
                    dealt.setdefault(width.of, width)
        return tuple(dealt.values())
