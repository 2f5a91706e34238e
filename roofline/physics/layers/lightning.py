"""Lightning attention: linear attention with a fixed decay."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real
from roofline.physics.layers.recurrent import CHUNK, IN, OUT, State, recurrent_kind
from roofline.physics.projection import Matrices, Projection, Sharded
from roofline.specs.layers import Lightning

_STEP_FLOP = 5.0  # decay, update and read-out of one value (Qin et al., arXiv:2401.04658)
_STREAMS = ("q", "k", "v", "gate")


@Matrices
def _projections(mixer: Lightning, hidden: Real) -> Iterator[Projection]:
    width = Sharded(mixer.heads, mixer.dim, "heads")
    for name in _STREAMS:
        yield Projection(name, IN, width, hidden)
    yield Projection("o", OUT, hidden, width)


def _vectors(mixer: Lightning, tp: Real) -> Real:
    """Norm of the output."""
    return mixer.heads * mixer.dim / tp


def lightning_state(mixer: Lightning, tp: Real) -> State:
    """State of lightning attention: a square matrix for each head on one rank.

    Args:
        mixer: the mixer.
        tp: tensor-parallel degree, which divides the heads [1].

    Returns:
        Values, widths and arithmetic [1, FLOP].

    Source:
        Qin et al., arXiv:2401.04658.
    """
    values, width = mixer.heads * mixer.dim * mixer.dim / tp, mixer.heads * mixer.dim / tp
    products = CHUNK * mixer.heads / tp * 2 * mixer.dim
    return State(values, width, _STEP_FLOP, 4.0 * values + products, len(_STREAMS) * width)


LIGHTNING = recurrent_kind(_projections, _vectors, lightning_state)
