"""Kernels of a layer whose mixer carries a state: linear attention and state-space layers."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics import elementwise
from roofline.physics.assembly import Assembly
from roofline.physics.cache import conv_channels
from roofline.physics.geometry import Span
from roofline.physics.state import output_width, recurrence, short_conv
from roofline.specs.kernels import STATE_DECODE, STATE_PREFILL
from roofline.specs.layers import Gdn, Kda, Lightning, Mamba1, Mamba2, Recurrent

__all__ = ["add_recurrent"]


def add_recurrent(assembly: Assembly, count: Real, mixer: Recurrent, span: Span) -> None:
    """Add the kernels of one recurrent mixer: projections, short convolution, recurrence, gated norm, output.

    Args:
        assembly: the pass so far.
        count: layers that have it [1].
        mixer: the mixer.
        span: tokens computed per sequence [tokens].
    """
    tp, hidden = assembly.tp, assembly.hidden
    width = output_width(mixer, tp)
    tag = f" ({type(mixer).__name__.lower()})"
    assembly.gemm("in" + tag, count, _input_columns(mixer, tp), hidden, "attention")
    _add_low_rank(assembly, count, mixer, tag)
    if not isinstance(mixer, Lightning):
        assembly.elementwise("conv" + tag, count, short_conv(mixer, assembly.tokens, tp))
    kind = STATE_DECODE if span.is_decode else STATE_PREFILL
    assembly.wide("recurrence" + tag, count, kind, recurrence(mixer, assembly.sequences, span, tp))
    assembly.elementwise("gated norm" + tag, count, elementwise.activation(assembly.tokens, width, gated=True))
    assembly.gemm("out" + tag, count, hidden, width, "attention")
    assembly.all_reduce("mixer all-reduce" + tag, count)


def _input_columns(mixer: Recurrent, tp: Real) -> Real:
    """Outputs of the projections that read the stream, fused into one multiplication."""
    width = output_width(mixer, tp)
    match mixer:
        case Gdn():  # q, k, v; gate; two scalars per value head
            return conv_channels(mixer, tp) + width + 2 * mixer.v_heads / tp
        case Kda():  # q, k, v; gate or its latent; latent of the decay; one scalar per head
            gate = width if mixer.full_rank_gate else 1.0 * mixer.dim
            return 3 * width + gate + mixer.dim + mixer.heads / tp
        case Lightning():  # q, k, v, gate
            return 4 * width
        case Mamba2():  # gate; x, B, C; time step
            return width + conv_channels(mixer, tp) + mixer.heads / tp
        case Mamba1():  # x and gate
            return 2 * width


def _add_low_rank(assembly: Assembly, count: Real, mixer: Recurrent, tag: str) -> None:
    """Projections that do not read the stream: from latents, or from the convolution's output."""
    tp, width = assembly.tp, output_width(mixer, assembly.tp)
    if isinstance(mixer, Kda):
        assembly.gemm("decay" + tag, count, width, mixer.dim, "attention")
        if not mixer.full_rank_gate:
            assembly.gemm("gate" + tag, count, width, mixer.dim, "attention")
    if isinstance(mixer, Mamba1):
        assembly.gemm("x_proj" + tag, count, mixer.dt_rank + 2 * mixer.state, mixer.inner / tp, "attention")
        assembly.gemm("dt_proj" + tag, count, width, mixer.dt_rank, "attention")
