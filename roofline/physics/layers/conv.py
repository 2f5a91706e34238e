"""Gated short convolution, in place of attention in most layers of LFM2."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real
from roofline.physics.assembly import Assembly
from roofline.physics.geometry import Span
from roofline.physics.layers.kind import MixerKind
from roofline.physics.layers.recurrent import IN, OUT
from roofline.physics.one_equation import Work
from roofline.physics.projection import Matrices, Projection, Sharded
from roofline.specs.layers import ShortConv

_NBYTES = 2.0  # inputs, outputs, weights and cached inputs are 16-bit
_STREAMS = ("B", "C", "x")


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
        activation_bytes=(1.0 + len(_STREAMS)) * _NBYTES * channels * tokens,
    )


@Matrices
def _projections(mixer: ShortConv, hidden: Real) -> Iterator[Projection]:
    channels = Sharded(mixer.width, 1, "channels")
    for name in _STREAMS:
        yield Projection(name, IN, channels, hidden, bias=mixer.bias)
    yield Projection("o", OUT, hidden, channels, bias=mixer.bias)


def _vectors(mixer: ShortConv, tp: Real) -> Real:
    """Filters of the channels, and their biases."""
    return (mixer.conv + int(mixer.bias)) * mixer.width / tp


def _cache_bytes(mixer: ShortConv, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001  kept in 16 bits
    return conv_bytes(mixer, tp) + 0.0 * tokens


def _add_kernels(assembly: Assembly, count: Real, mixer: ShortConv, span: Span) -> None:  # noqa: ARG001
    matrices, tag = _projections.on_rank(mixer, assembly.hidden, assembly.tp), " (short conv)"
    assembly.multiply(IN + tag, count, matrices[IN])
    work = gated_conv(mixer, assembly.sequences, assembly.tokens, assembly.tp)
    assembly.elementwise("conv" + tag, count, work)
    assembly.multiply(OUT + tag, count, matrices[OUT])
    assembly.all_reduce("mixer all-reduce" + tag, count)


SHORT_CONV = MixerKind(_projections, _vectors, _cache_bytes, _add_kernels)
