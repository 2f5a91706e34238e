"""Work of recurrent mixers: linear attention and state-space layers, whose state does not grow."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics.cache import conv_channels, state_bytes, state_values
from roofline.physics.geometry import Span
from roofline.physics.one_equation import Work
from roofline.specs.layers import Gdn, Kda, Lightning, Mamba1, Mamba2, Recurrent

__all__ = ["CHUNK", "output_width", "recurrence", "short_conv"]

#: Tokens that a chunked scan treats as one block of matrix multiplications (flash-linear-attention,
#: 2026: 64 for delta rules; 64 to 256 elsewhere).
CHUNK = 64.0

_ACTIVATION_NBYTES = 2.0
# Arithmetic of one step on one value of the state: decay, read-out and update; the delta rule reads
# the old value first (Yang et al., arXiv:2412.06464; Dao and Gu, arXiv:2405.21060).
_STEP_FLOP = {Gdn: 7.0, Kda: 7.0, Mamba1: 7.0, Lightning: 5.0, Mamba2: 5.0}


def output_width(mixer: Recurrent, tp: Real = 1) -> Real:
    """Width of what a recurrent mixer hands to its output projection on one GPU.

    Args:
        mixer: recurrent mixer.
        tp: tensor-parallel degree [1].

    Returns:
        Values per token [1].

    Source:
        Shapes of the checkpoints' tensors.
    """
    match mixer:
        case Gdn():
            return mixer.v_heads * mixer.v_dim / tp
        case Kda() | Lightning():
            return mixer.heads * mixer.dim / tp
        case Mamba2():
            return mixer.heads * mixer.head_dim / tp
        case Mamba1():
            return mixer.inner / tp


def short_conv(mixer: Recurrent, tokens: Real, tp: Real) -> Work:
    r"""Work of the short convolution over the last inputs of each channel.

    .. math:: F = 2 k c T,\quad Q_w = 2 k c,\quad Q_a = 4 c T

    Args:
        mixer: recurrent mixer with c channels and a convolution of k tokens.
        tokens: tokens T of the pass [tokens].
        tp: tensor-parallel degree [1].

    Returns:
        The work per pass [FLOP, B]; its state counts with the recurrence.

    Source:
        Arithmetic.
    """
    if isinstance(mixer, Lightning):
        return Work()
    channels = conv_channels(mixer, tp)
    return Work(
        flop=2.0 * mixer.conv * channels * tokens,
        weight_bytes=_ACTIVATION_NBYTES * mixer.conv * channels,
        activation_bytes=2.0 * _ACTIVATION_NBYTES * channels * tokens,
    )


def recurrence(mixer: Recurrent, batch: Real, span: Span, tp: Real) -> Work:
    r"""Work of carrying the state over the tokens of a pass.

    .. math:: F = f\, s\ \text{(decode)},\quad
              F = N (4 s + C w)\ \text{(prompt, in chunks of } C),\quad Q_{kv} = 2\, \text{state}

    per sequence. w is the width of the keys and values of all heads. A delta rule also multiplies the keys of a
    chunk with each other and solves for them: three times C w. Mamba-1 has a scan instead: N f s. What the
    recurrence reads and writes per token adds to Q.

    Args:
        mixer: recurrent mixer whose state has s values.
        batch: sequences on this rank [sequences].
        span: tokens N computed; a decode step computes one [tokens].
        tp: tensor-parallel degree [1].

    Returns:
        The work; the state is read and written once a pass [FLOP, B].

    Valid:
        An estimate for prompts, within some 30 % of the state's share; that share is a few per cent of a layer.

    Source:
        Yang et al., arXiv:2412.06464 (gated delta net); Dao and Gu, arXiv:2405.21060 (Mamba-2);
        Gu and Dao, arXiv:2312.00752 (Mamba-1); Qin et al., arXiv:2401.04658 (lightning attention).
    """
    values = state_values(mixer, tp)
    tokens = batch if span.is_decode else batch * span.new
    per_token = _STEP_FLOP[type(mixer)] * values if span.is_decode else _chunked_flop(mixer, values, tp)
    width = output_width(mixer, tp) + (0.0 if isinstance(mixer, Lightning) else conv_channels(mixer, tp))
    if isinstance(mixer, Lightning):
        width = 4.0 * output_width(mixer, tp)
    decays = (
        values + 2.0 * mixer.inner / tp if isinstance(mixer, Mamba1) else 0.0
    )  # a matrix, elsewhere a value per head
    return Work(
        flop=tokens * per_token,
        weight_bytes=_ACTIVATION_NBYTES * decays,
        kv_bytes=2.0 * batch * state_bytes(mixer, tp),
        activation_bytes=_ACTIVATION_NBYTES * tokens * width,
        serial_depth=1.0 if span.is_decode else span.new,
    )


def _chunked_flop(mixer: Recurrent, values: float, tp: Real) -> Real:
    """Arithmetic per token of a prompt [FLOP]."""
    match mixer:
        case Gdn():
            return 4.0 * values + 3.0 * CHUNK * mixer.v_heads / tp * (mixer.k_dim + mixer.v_dim)
        case Kda():
            return 4.0 * values + 3.0 * CHUNK * mixer.heads / tp * 2 * mixer.dim
        case Lightning():
            return 4.0 * values + CHUNK * mixer.heads / tp * 2 * mixer.dim
        case Mamba2():
            return 4.0 * values + CHUNK * mixer.heads / tp * (mixer.state + mixer.head_dim)
        case Mamba1():
            return _STEP_FLOP[Mamba1] * values
