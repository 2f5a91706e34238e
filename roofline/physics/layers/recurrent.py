"""Recurrent mixers: what linear attention and state-space layers have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from roofline.ops import Real
from roofline.physics import elementwise
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.geometry import Span
from roofline.physics.layers.kind import MixerKind
from roofline.physics.one_equation import Work
from roofline.physics.projection import Matrices, Sharded, local
from roofline.records import NamedTuple
from roofline.specs.kernels import STATE_DECODE, STATE_PREFILL

#: Tokens per block of matrix multiplications of a chunked scan (flash-linear-attention,
#: 2026: 64 for delta rules; 64 to 256 elsewhere).
CHUNK = 64.0

_STATE_NBYTES = 4.0  # recurrent states are kept in fp32 (mamba_ssm_cache_dtype of the Nemotron configurations)
_CONV_NBYTES = 2.0  # cached inputs of the short convolution are 16-bit

#: Multiplications that read the residual stream, and write to it.
IN, OUT = "in", "out"


class State(NamedTuple):
    """State of a recurrent mixer on one rank, and the cost of updating it."""

    values: Real  # s, of the state of one sequence
    width: Real  # values per token that the output projection reads
    step_flop: float  # [FLOP] of one decode step on one value of the state
    prompt_flop: Real  # [FLOP] of one token of a prompt
    token_values: Real  # that the recurrence reads and writes per token
    channels: Real = 0.0  # of the short convolution
    conv: Real = None  # [tokens] its width; None: no convolution
    decays: Real = 0.0  # parameters that the recurrence reads, where they are a matrix


def channels(streams: Iterable[tuple[str, Sharded]], tp: Real) -> Real:
    """Channels of a short convolution on one rank.

    Args:
        streams: names and widths of its inputs [1].
        tp: tensor-parallel degree [1].

    Returns:
        Channels [1].

    Source:
        Shapes of the checkpoints' tensors.
    """
    return sum(local(width, tp) for _, width in streams)


def state_bytes(state: State) -> Real:
    """Bytes of the state of one sequence in one layer on one GPU, the convolution's last inputs included.

    Args:
        state: the state.

    Returns:
        Bytes, regardless of the length [B].

    Source:
        States in fp32 (mamba_ssm_cache_dtype of the Nemotron configurations), inputs in 16 bits.
    """
    inputs = 0.0 if state.conv is None else state.channels * (state.conv - 1)
    return _STATE_NBYTES * state.values + _CONV_NBYTES * inputs


def short_conv(state: State, tokens: Real) -> Work:
    r"""Work of the short convolution over the last inputs of each channel.

    .. math:: F = 2 k c T,\quad Q_w = 2 k c,\quad Q_a = 4 c T

    Args:
        state: of a mixer with c channels and a convolution of k tokens.
        tokens: tokens T of the pass [tokens].

    Returns:
        The work per pass [FLOP, B]; cached inputs count with the recurrence.

    Source:
        Arithmetic.
    """
    return Work(
        flop=2.0 * state.conv * state.channels * tokens,
        weight_bytes=ACTIVATION_NBYTES * state.conv * state.channels,
        activation_bytes=2.0 * ACTIVATION_NBYTES * state.channels * tokens,
    )


def recurrence(state: State, batch: Real, span: Span) -> Work:
    r"""Work of updating the state over the tokens of a pass.

    .. math:: F = f\, s\ \text{(decode)},\quad F = N f_{prompt},\quad Q_{kv} = 2\, \text{state}

    per sequence. Values that the recurrence reads and writes per token add to Q.

    Args:
        state: of s values; a decode step does f operations on each, a token of a prompt f_prompt in all.
        batch: sequences on this rank [sequences].
        span: tokens N computed; a decode step computes one [tokens].

    Returns:
        The work; the state is read and written once per pass [FLOP, B].

    Valid:
        An estimate for prompts, within about 30 % of the state's share, which is a few percent of a layer.

    Source:
        Yang et al., arXiv:2412.06464 (gated delta net); Dao and Gu, arXiv:2405.21060 (Mamba-2);
        Gu and Dao, arXiv:2312.00752 (Mamba-1); Qin et al., arXiv:2401.04658 (lightning attention).
    """
    tokens = batch if span.is_decode else batch * span.new
    return Work(
        flop=tokens * (state.step_flop * state.values if span.is_decode else state.prompt_flop),
        weight_bytes=ACTIVATION_NBYTES * state.decays,
        kv_bytes=2.0 * batch * state_bytes(state),
        activation_bytes=ACTIVATION_NBYTES * tokens * state.token_values,
        serial_depth=1.0 if span.is_decode else span.new,
    )


def recurrent_kind(
    matrices: Matrices,
    vectors: Callable[[Any, Real], Real],
    state: Callable[[Any, Real], State],
) -> MixerKind:
    """Kind of a recurrent mixer: projections, short convolution, recurrence, gated norm, output.

    Multiplications run in the order of the matrices, `OUT` last.
    """

    def cache_bytes(mixer: Any, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001  kept in fp32
        return state_bytes(state(mixer, tp)) + 0.0 * tokens

    def add_kernels(assembly: Assembly, count: Real, mixer: Any, span: Span) -> None:
        carried, tag = state(mixer, assembly.tp), f" ({type(mixer).__name__.lower()})"
        on_rank = matrices.on_rank(mixer, assembly.hidden, assembly.tp)
        for kernel, matrix in on_rank.items():
            if kernel != OUT:
                assembly.multiply(kernel + tag, count, matrix)
        if carried.conv is not None:
            assembly.elementwise("conv" + tag, count, short_conv(carried, assembly.tokens))
        kind = STATE_DECODE if span.is_decode else STATE_PREFILL
        assembly.sixteen_bit("recurrence" + tag, count, kind, recurrence(carried, assembly.sequences, span))
        gated = elementwise.activation(assembly.tokens, carried.width, gated=True)
        assembly.elementwise("gated norm" + tag, count, gated)
        assembly.multiply(OUT + tag, count, on_rank[OUT])
        assembly.all_reduce("mixer all-reduce" + tag, count)

    return MixerKind(matrices, vectors, cache_bytes, add_kernels, (STATE_PREFILL, STATE_DECODE))
