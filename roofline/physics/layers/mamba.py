"""State-space layers: Mamba-1 (a scan over channels) and Mamba-2 (heads, in chunks)."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real
from roofline.physics.layers.recurrent import CHUNK, IN, OUT, State, channels, recurrent_kind
from roofline.physics.projection import Matrices, Projection, Sharded
from roofline.specs.layers import Mamba1, Mamba2

_SCAN_FLOP = 7.0  # of one value of Mamba-1, whose decay is computed per value (Gu and Dao, arXiv:2312.00752)
_STEP_FLOP = 5.0  # decay, update and read-out of one value of Mamba-2 (Dao and Gu, arXiv:2405.21060)


def _mamba2_streams(mixer: Mamba2) -> tuple[tuple[str, Sharded], ...]:
    """Inputs of the convolution: x, and the matrices B and C that a group of heads shares."""
    shared = Sharded(mixer.groups, 2 * mixer.state, "groups", is_replicated=True)
    return ("x", Sharded(mixer.heads, mixer.head_dim, "heads")), ("B, C", shared)


@Matrices
def _mamba2_projections(mixer: Mamba2, hidden: Real) -> Iterator[Projection]:
    width = Sharded(mixer.heads, mixer.head_dim, "heads")
    yield Projection("gate", IN, width, hidden)
    for name, stream in _mamba2_streams(mixer):
        yield Projection(name, IN, stream, hidden)
    yield Projection("time step", IN, Sharded(mixer.heads, 1, "heads"), hidden)
    yield Projection("o", OUT, hidden, width)


def _mamba2_vectors(mixer: Mamba2, tp: Real) -> Real:
    """Filters and biases of the convolution; decay, skip and step of each head; norm of the output, if any."""
    heads = mixer.heads / tp
    norm = 0.0 if mixer.no_norm else heads * mixer.head_dim
    return (mixer.conv + 1) * channels(_mamba2_streams(mixer), tp) + 3 * heads + norm


def mamba2_state(mixer: Mamba2, tp: Real) -> State:
    """State of Mamba-2: `state` values for each channel of a head on one rank.

    Args:
        mixer: the mixer.
        tp: tensor-parallel degree, which divides the heads [1].

    Returns:
        Values, widths and arithmetic [1, FLOP].

    Source:
        Dao and Gu, arXiv:2405.21060.
    """
    values, convolved = mixer.heads * mixer.head_dim * mixer.state / tp, channels(_mamba2_streams(mixer), tp)
    width = mixer.heads * mixer.head_dim / tp
    products = CHUNK * mixer.heads / tp * (mixer.state + mixer.head_dim)
    return State(values, width, _STEP_FLOP, 4.0 * values + products, width + convolved, convolved, mixer.conv)


@Matrices
def _mamba1_projections(mixer: Mamba1, hidden: Real) -> Iterator[Projection]:
    inner = Sharded(mixer.inner, 1, "channels")
    yield Projection("x", IN, inner, hidden)
    yield Projection("gate", IN, inner, hidden)
    yield Projection("x_proj", "x_proj", mixer.dt_rank + 2 * mixer.state, inner)
    yield Projection("dt_proj", "dt_proj", inner, mixer.dt_rank)
    yield Projection("o", OUT, hidden, inner)


def _mamba1_vectors(mixer: Mamba1, tp: Real) -> Real:
    """Filters and biases of the convolution, bias of the time step, decays, skip, norms of the projections."""
    inner = mixer.inner / tp
    norms = mixer.dt_rank + 2 * mixer.state if mixer.inner_norms else 0
    return (mixer.conv + 1) * inner + inner + inner * mixer.state + inner + norms


def mamba1_state(mixer: Mamba1, tp: Real) -> State:
    """State of Mamba-1: `state` values for each channel on one rank.

    Args:
        mixer: the mixer.
        tp: tensor-parallel degree, which divides the channels [1].

    Returns:
        Values, widths and arithmetic [1, FLOP].

    Source:
        Gu and Dao, arXiv:2312.00752.
    """
    inner = mixer.inner / tp
    values = inner * mixer.state
    return State(values, inner, _SCAN_FLOP, _SCAN_FLOP * values, 2.0 * inner, inner, mixer.conv, values + 2.0 * inner)


MAMBA2 = recurrent_kind(_mamba2_projections, _mamba2_vectors, mamba2_state)
MAMBA1 = recurrent_kind(_mamba1_projections, _mamba1_vectors, mamba1_state)
