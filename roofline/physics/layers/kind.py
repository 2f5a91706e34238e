"""What a kind of layer has to say of itself: its matrices, what it keeps, and the kernels that it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.ops import Real
from roofline.physics.assembly import Assembly
from roofline.physics.geometry import Span
from roofline.physics.plan import Plan
from roofline.physics.projection import Matrices
from roofline.records import NamedTuple
from roofline.specs.kernels import KernelKind

__all__ = ["MixerKind", "NetworkKind"]


class MixerKind(NamedTuple):
    """A kind of mixer; every function takes the mixer's record first."""

    matrices: Matrices
    vectors: Callable[[Any, Real], Real]  # of tp: values of norms, sinks and the like on one rank, biases apart
    cache_bytes: Callable[[Any, Real, Real, Real], Real]  # of tokens, bytes per cached value and tp [B]
    add_kernels: Callable[[Assembly, Real, Any, Span], None]  # to a pass, so many layers of them
    reading: tuple[KernelKind, ...] = ()  # kernels that read what each sequence keeps: of a prompt, of a decode step
    is_idle: bool = False  # requests of text alone pass the layer over, its norms included

    @property
    def is_attention(self) -> bool:
        """Whether it keeps something of every token, at least of the latest."""
        return any(kind.is_attention for kind in self.reading)


class NetworkKind(NamedTuple):
    """A kind of feed-forward network; every function takes the network's record first."""

    matrices: Matrices
    inner_width: Callable[[Any, Real, Plan], Real]  # of the model width: values per token inside it on one rank
    add_kernels: Callable[[Assembly, Real, Any], None]  # to a pass, so many layers of them
