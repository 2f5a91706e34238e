"""Cross-attention to an image: in memory, but skipped by text-only requests."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real
from roofline.physics.assembly import Assembly
from roofline.physics.geometry import Span
from roofline.physics.layers.kind import MixerKind
from roofline.physics.projection import Matrices, Projection, Sharded
from roofline.specs.layers import CrossAttention


@Matrices
def _projections(mixer: CrossAttention, hidden: Real) -> Iterator[Projection]:
    """Of the attention, and of the FFN after it, which is skipped too."""
    queries = Sharded(mixer.heads, mixer.head_dim, "heads")
    keys = Sharded(mixer.kv_heads, mixer.head_dim, "KV heads", is_replicated=True)
    inner = Sharded(mixer.width, 1, "ffn width")
    yield Projection("q", "q", queries, hidden)
    yield Projection("k", "kv", keys, hidden)
    yield Projection("v", "kv", keys, hidden)
    yield Projection("o", "o", hidden, queries)
    yield Projection("gate", "gate, up", inner, hidden)
    yield Projection("up", "gate, up", inner, hidden)
    yield Projection("down", "down", hidden, inner)


def _vectors(mixer: CrossAttention, tp: Real) -> Real:  # noqa: ARG001  every rank has them
    """Norms of queries and keys, and a gate for each half of the layer."""
    return 2.0 * mixer.head_dim + 2.0


def _cache_bytes(mixer: CrossAttention, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001
    return 0.0 * tokens


def _add_kernels(assembly: Assembly, count: Real, mixer: CrossAttention, span: Span) -> None:
    """Nothing: the layer is skipped."""


CROSS = MixerKind(_projections, _vectors, _cache_bytes, _add_kernels, is_idle=True)
