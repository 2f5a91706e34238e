"""Interface of a kind of layer: its matrices, its cache or state, and its kernels."""

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


class MixerKind(NamedTuple):
    """A kind of mixer; the functions take the mixer's record."""

    matrices: Matrices
    vectors: Callable[[Any, Real], Real]  # (mixer, tp): values of norms, sinks, ... on one rank, without biases
    cache_bytes: Callable[[Any, Real, Real, Real], Real]  # (mixer, tokens, bytes per cached value, tp) [B]
    add_kernels: Callable[[Assembly, Real, Any, Span], None]  # (assembly, layers, mixer, span)
    reading: tuple[KernelKind, ...] = ()  # kernels that read the cache or state: in prefill, in decode
    is_idle: bool = False  # text-only requests skip the layer, its norms included

    @property
    def is_attention(self) -> bool:
        """Whether it has a KV cache."""
        return any(kind.is_attention for kind in self.reading)


class NetworkKind(NamedTuple):
    """A kind of feed-forward network; the functions take the network's record."""

    matrices: Matrices
    inner_width: Callable[[Any, Real, Plan], Real]  # (network, model width, plan): values per token inside, on one rank
    add_kernels: Callable[[Assembly, Real, Any], None]  # (assembly, layers, network)
