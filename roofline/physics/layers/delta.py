"""Delta rules, linear attention that corrects its state: gated delta net (GDN) and Kimi delta attention (KDA)."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real
from roofline.physics.layers.recurrent import CHUNK, IN, OUT, State, channels, recurrent_kind
from roofline.physics.projection import Matrices, Projection, Sharded
from roofline.specs.layers import Gdn, Kda

_STEP_FLOP = 7.0  # decay, read-out, correction and update of one value (Yang et al., arXiv:2412.06464)
_CHUNK_PRODUCTS = 3.0  # times C w: the keys of a chunk are multiplied with each other, and the system is solved


def _gdn_streams(mixer: Gdn) -> tuple[tuple[str, Sharded], ...]:
    keys, values = Sharded(mixer.k_heads, mixer.k_dim, "key heads"), Sharded(mixer.v_heads, mixer.v_dim, "value heads")
    return ("q", keys), ("k", keys), ("v", values)


@Matrices
def _gdn_projections(mixer: Gdn, hidden: Real) -> Iterator[Projection]:
    for name, width in _gdn_streams(mixer):
        yield Projection(name, IN, width, hidden)
    values = Sharded(mixer.v_heads, mixer.v_dim, "value heads")
    yield Projection("gate", IN, values, hidden)
    yield Projection("decay, step", IN, Sharded(mixer.v_heads, 2, "value heads"), hidden)
    yield Projection("o", OUT, hidden, values)


def _gdn_vectors(mixer: Gdn, tp: Real) -> Real:
    """Filters of the convolution, decay and step of each head, norm of the output."""
    return mixer.conv * channels(_gdn_streams(mixer), tp) + 2 * mixer.v_heads / tp + mixer.v_dim


def gdn_state(mixer: Gdn, tp: Real) -> State:
    """State of a gated delta net: a matrix of k_dim x v_dim for each value head on one rank.

    Args:
        mixer: the mixer.
        tp: tensor-parallel degree, which divides the heads [1].

    Returns:
        Values, widths and arithmetic [1, FLOP].

    Source:
        Yang et al., arXiv:2412.06464: the keys of a chunk are multiplied with each other, and the system is solved.
    """
    values, convolved = mixer.v_heads * mixer.k_dim * mixer.v_dim / tp, channels(_gdn_streams(mixer), tp)
    width = mixer.v_heads * mixer.v_dim / tp
    products = _CHUNK_PRODUCTS * CHUNK * mixer.v_heads / tp * (mixer.k_dim + mixer.v_dim)
    return State(values, width, _STEP_FLOP, 4.0 * values + products, width + convolved, convolved, mixer.conv)


def _kda_streams(mixer: Kda) -> tuple[tuple[str, Sharded], ...]:
    width = Sharded(mixer.heads, mixer.dim, "heads")
    return ("q", width), ("k", width), ("v", width)


@Matrices
def _kda_projections(mixer: Kda, hidden: Real) -> Iterator[Projection]:
    width = Sharded(mixer.heads, mixer.dim, "heads")
    for name, stream in _kda_streams(mixer):
        yield Projection(name, IN, stream, hidden)
    yield Projection(
        "gate" if mixer.full_rank_gate else "gate_a", IN, width if mixer.full_rank_gate else 1.0 * mixer.dim, hidden
    )
    yield Projection("decay_a", IN, width if mixer.full_rank_decay else mixer.dim, hidden)
    yield Projection("step", IN, Sharded(mixer.heads, 1, "heads"), hidden)
    if not mixer.full_rank_decay:
        yield Projection("decay_b", "decay", width, mixer.dim)
    if not mixer.full_rank_gate:
        yield Projection("gate_b", "gate", width, mixer.dim)
    yield Projection("o", OUT, hidden, width)


def _kda_vectors(mixer: Kda, tp: Real) -> Real:
    """Filters of the convolution, decay of each head, bias of each channel's decay, norm of the output."""
    heads = mixer.heads / tp
    return mixer.conv * channels(_kda_streams(mixer), tp) + heads + heads * mixer.dim + mixer.dim


def kda_state(mixer: Kda, tp: Real) -> State:
    """State of Kimi delta attention: a square matrix for each head on one rank.

    Args:
        mixer: the mixer.
        tp: tensor-parallel degree, which divides the heads [1].

    Returns:
        Values, widths and arithmetic [1, FLOP].

    Source:
        Kimi Linear, arXiv:2510.26692; Yang et al., arXiv:2412.06464.
    """
    values, convolved = mixer.heads * mixer.dim * mixer.dim / tp, channels(_kda_streams(mixer), tp)
    width = mixer.heads * mixer.dim / tp
    products = _CHUNK_PRODUCTS * CHUNK * mixer.heads / tp * 2 * mixer.dim
    return State(values, width, _STEP_FLOP, 4.0 * values + products, width + convolved, convolved, mixer.conv)


GDN = recurrent_kind(_gdn_projections, _gdn_vectors, gdn_state)
KDA = recurrent_kind(_kda_projections, _kda_vectors, kda_state)
