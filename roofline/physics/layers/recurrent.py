"""Recurrent mixers: what linear attention and state-space layers have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from roofline.numbers.operations import Real
from roofline.physics import kernels
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly, Matrices, MixerKind, Projection, Sharded, local
from roofline.physics.equation import Work
from roofline.physics.kernels import Span
from roofline.specs.gpu import STATE_DECODE, STATE_PREFILL
from roofline.specs.model import Gdn, Kda, Lightning, Mamba1, Mamba2, ShortConv
from roofline.support.records import NamedTuple

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
        gated = kernels.activation(assembly.tokens, carried.width, gated=True)
        assembly.elementwise("gated norm" + tag, count, gated)
        assembly.multiply(OUT + tag, count, on_rank[OUT])
        assembly.all_reduce("mixer all-reduce" + tag, count)

    return MixerKind(matrices, vectors, cache_bytes, add_kernels, (STATE_PREFILL, STATE_DECODE))


# Delta rules, linear attention that corrects its state: gated delta net (GDN) and Kimi delta attention (KDA).

_DELTA_FLOP = 7.0  # decay, read-out, correction and update of one value (Yang et al., arXiv:2412.06464)
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
    return State(values, width, _DELTA_FLOP, 4.0 * values + products, width + convolved, convolved, mixer.conv)


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
    return State(values, width, _DELTA_FLOP, 4.0 * values + products, width + convolved, convolved, mixer.conv)


GDN = recurrent_kind(_gdn_projections, _gdn_vectors, gdn_state)
KDA = recurrent_kind(_kda_projections, _kda_vectors, kda_state)


# State-space layers: Mamba-1 (a scan over channels) and Mamba-2 (heads, in chunks).

_SCAN_FLOP = 7.0  # of one value of Mamba-1, whose decay is computed per value (Gu and Dao, arXiv:2312.00752)
_MAMBA2_FLOP = 5.0  # decay, update and read-out of one value of Mamba-2 (Dao and Gu, arXiv:2405.21060)


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
    return State(values, width, _MAMBA2_FLOP, 4.0 * values + products, width + convolved, convolved, mixer.conv)


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


# Gated short convolution, in place of attention in most layers of LFM2.

_NBYTES = 2.0  # inputs, outputs, weights and cached inputs are 16-bit
_CONV_STREAMS = ("B", "C", "x")


def conv_bytes(mixer: ShortConv, tp: Real) -> Real:
    r"""Bytes of the last inputs of one sequence, which one GPU keeps.

    .. math:: 2 (k - 1) c / tp

    Args:
        mixer: convolution over k tokens of c channels.
        tp: tensor-parallel degree [1].

    Returns:
        Bytes, regardless of the length [B].

    Source:
        `Lfm2ShortConv` of Hugging Face transformers, src/transformers/models/lfm2/modeling_lfm2.py.
    """
    return _NBYTES * (mixer.conv - 1) * mixer.width / tp


def gated_conv(mixer: ShortConv, sequences: Real, tokens: Real, tp: Real) -> Work:
    r"""Work of the gate, the short convolution and the second gate.

    .. math:: F = (2 k + 2) c T,\quad Q_w = 2 k c,\quad Q_a = 8 c T,\quad Q_{kv} = 4 (k - 1) c\, b

    with c / tp channels on a GPU.

    Args:
        mixer: convolution over k tokens of c channels.
        sequences: sequences b on this rank [sequences].
        tokens: tokens T of the pass [tokens].
        tp: tensor-parallel degree [1].

    Returns:
        The work [FLOP, B]: reads three inputs, writes an output, reads and writes the last inputs.

    Source:
        y = C (conv(B x)), `Lfm2ShortConv` of Hugging Face transformers, src/transformers/models/lfm2/modeling_lfm2.py.
    """
    channels = mixer.width / tp
    return Work(
        flop=(2.0 * mixer.conv + 2.0) * channels * tokens,
        weight_bytes=_NBYTES * mixer.conv * channels,
        kv_bytes=2.0 * sequences * conv_bytes(mixer, tp),
        activation_bytes=(1.0 + len(_CONV_STREAMS)) * _NBYTES * channels * tokens,
    )


@Matrices
def _conv_projections(mixer: ShortConv, hidden: Real) -> Iterator[Projection]:
    channels = Sharded(mixer.width, 1, "channels")
    for name in _CONV_STREAMS:
        yield Projection(name, IN, channels, hidden, bias=mixer.bias)
    yield Projection("o", OUT, hidden, channels, bias=mixer.bias)


def _conv_vectors(mixer: ShortConv, tp: Real) -> Real:
    """Filters of the channels, and their biases."""
    return (mixer.conv + int(mixer.bias)) * mixer.width / tp


def _cache_bytes(mixer: ShortConv, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001  kept in 16 bits
    return conv_bytes(mixer, tp) + 0.0 * tokens


def _add_kernels(assembly: Assembly, count: Real, mixer: ShortConv, span: Span) -> None:  # noqa: ARG001
    matrices, tag = _conv_projections.on_rank(mixer, assembly.hidden, assembly.tp), " (short conv)"
    assembly.multiply(IN + tag, count, matrices[IN])
    work = gated_conv(mixer, assembly.sequences, assembly.tokens, assembly.tp)
    assembly.elementwise("conv" + tag, count, work)
    assembly.multiply(OUT + tag, count, matrices[OUT])
    assembly.all_reduce("mixer all-reduce" + tag, count)


SHORT_CONV = MixerKind(_conv_projections, _conv_vectors, _cache_bytes, _add_kernels)


# Lightning attention: linear attention with a fixed decay.

_LIGHTNING_FLOP = 5.0  # decay, update and read-out of one value (Qin et al., arXiv:2401.04658)
_LIGHTNING_STREAMS = ("q", "k", "v", "gate")


@Matrices
def _lightning_projections(mixer: Lightning, hidden: Real) -> Iterator[Projection]:
    width = Sharded(mixer.heads, mixer.dim, "heads")
    for name in _LIGHTNING_STREAMS:
        yield Projection(name, IN, width, hidden)
    yield Projection("o", OUT, hidden, width)


def _lightning_vectors(mixer: Lightning, tp: Real) -> Real:
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
    return State(values, width, _LIGHTNING_FLOP, 4.0 * values + products, len(_LIGHTNING_STREAMS) * width)


LIGHTNING = recurrent_kind(_lightning_projections, _lightning_vectors, lightning_state)
