"""Relative attention: scores get a learned bias of their distance in place of rotated queries and keys."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.numbers.operations import Real
from roofline.physics import kernels
from roofline.physics.assembly import (
    ACTIVATION_NBYTES,
    Assembly,
    Matrices,
    MixerKind,
    Projection,
    Sharded,
    absent,
)
from roofline.physics.equation import Work
from roofline.physics.kernels import Span, pairs, reach, windowed_pairs
from roofline.physics.layers.attention import GQA, gqa_decode, gqa_prefill, local_kv_heads
from roofline.specs.gpu import ATTENTION_DECODE, ATTENTION_PREFILL, GEMM
from roofline.specs.model import Gqa, Relative

_NBYTES = 2.0  # of the last inputs of a convolution, and of its weights


def without_bias(mixer: Relative) -> Gqa:
    """The attention without its bias."""
    return Gqa(mixer.heads, mixer.kv_heads, mixer.head_dim, mixer.v_head_dim, mixer.window, qk_norm=mixer.qk_norm)


def bias_profiles(mixer: Relative, tokens: Real, tp: Real) -> Work:
    r"""Work of a bias for each token, head and distance, from the token's mixture of profiles.

    .. math:: F = 2 h r e\, t,\quad Q = 2 h t (r + e) + 2 r e

    Args:
        mixer: attention with h heads, r values per head that mix profiles of e distances.
        tokens: tokens t of the pass [tokens].
        tp: tensor-parallel degree, which divides the heads [1].

    Returns:
        The work [FLOP, B]; attention reads what is written.

    Valid:
        All e distances are computed for every token, also before so many tokens are there.

    Source:
        `InklingRelativeLogits` of Hugging Face transformers 5.24, models/inkling/modeling_inkling.py; SGLang's
        `RelLogitsProj`.
    """
    rows = mixer.heads / tp * tokens
    return Work(
        flop=2.0 * rows * mixer.rank * mixer.extent,
        weight_bytes=_NBYTES * mixer.rank * mixer.extent,
        activation_bytes=ACTIVATION_NBYTES * rows * (mixer.rank + mixer.extent),
        depth=1.0 * mixer.rank,
    )


def biased_attention(mixer: Relative, batch: Real, span: Span, kv_nbytes: Real, tp: Real) -> Work:
    r"""Work of attention whose scores have a bias of their distance.

    .. math:: F = F_{gqa} + h b\, \text{pairs}_e + 2 h d b\, \text{pairs (a key per distance)},\quad
              Q = Q_{gqa} + 2 h e b N\ \text{(mixed profiles)} + 2 h d\, \text{reach}

    one addition for each pair within the e distances that have a bias.

    Args:
        mixer: attention.
        batch: sequences b on this rank [sequences].
        span: tokens N computed; of several decode steps, the mean [tokens].
        kv_nbytes: bytes per cached value [B].
        tp: tensor-parallel degree, which divides the heads [1].

    Returns:
        The work [FLOP, B]; the table of a bias without mixtures stays in the L2 cache.

    Source:
        `gqa_prefill`, `gqa_decode`; Inkling (transformers 5.24); T5, arXiv:1910.10683, section 2.1; Transformer-XL,
        arXiv:1901.02860, section 3.3.
    """
    plain, heads = without_bias(mixer), mixer.heads / tp
    if span.is_decode:
        work = gqa_decode(plain, batch, span.new, span.cached, kv_nbytes, tp)
    else:
        work = gqa_prefill(plain, batch, span.new, span.cached, kv_nbytes, tp)
    seen = batch * pairs(span.new, span.cached, plain) / span.steps
    if absent(mixer.rank):
        return _with_distances(mixer, work._replace(flop=work.flop + heads * seen), seen, span, heads)
    near = mixer.extent if mixer.window is None else mixer.window
    biased = batch * windowed_pairs(span.new, span.cached, 1.0 * near) / span.steps
    profiles = ACTIVATION_NBYTES * heads * mixer.extent * batch * span.new / span.steps
    work = work._replace(flop=work.flop + heads * biased, activation_bytes=work.activation_bytes + profiles)
    return _with_distances(mixer, work, seen, span, heads)


def _with_distances(mixer: Relative, work: Work, seen: Real, span: Span, heads: Real) -> Work:
    """Attention whose queries also multiply a key of the distance, if they do."""
    if not mixer.pair_keys:
        return work
    read = reach(span.cached + (1.0 if span.is_decode else span.new), without_bias(mixer))
    return work._replace(
        flop=work.flop + 2.0 * heads * mixer.head_dim * seen,
        activation_bytes=work.activation_bytes + ACTIVATION_NBYTES * heads * mixer.head_dim * read,
    )


def conv_channels(mixer: Relative, tp: Real) -> Real:
    """Channels that the short convolutions of a layer run over: keys, values, and the outputs of mixer and network.

    Args:
        mixer: attention.
        tp: tensor-parallel degree, which divides the KV heads [1].

    Returns:
        Channels on one rank [1].

    Source:
        `InklingShortConvolution` of Hugging Face transformers 5.24: four in each layer.
    """
    return local_kv_heads(without_bias(mixer), tp) * (mixer.head_dim + mixer.v_head_dim) + 1.0 * mixer.conv_out


def convolutions(mixer: Relative, sequences: Real, tokens: Real, tp: Real) -> Work:
    r"""Work of the short convolutions of a layer, each with its residual connection.

    .. math:: F = (2 k + 1) c\, t,\quad Q_w = 2 k c,\quad Q_a = 4 c\, t,\quad Q_{kv} = 4 (k - 1) c\, b

    Args:
        mixer: attention with convolutions over k tokens.
        sequences: sequences b on this rank [sequences].
        tokens: tokens t of the pass [tokens].
        tp: tensor-parallel degree [1].

    Returns:
        The work of all four, of c channels together [FLOP, B]: a read, a write, and the last inputs.

    Source:
        `InklingShortConvolution` of Hugging Face transformers 5.24.
    """
    channels = conv_channels(mixer, tp)
    return Work(
        flop=(2.0 * mixer.conv + 1.0) * channels * tokens,
        weight_bytes=_NBYTES * mixer.conv * channels,
        kv_bytes=2.0 * _NBYTES * (mixer.conv - 1) * channels * sequences,
        activation_bytes=2.0 * ACTIVATION_NBYTES * channels * tokens,
    )


@Matrices
def _projections(mixer: Relative, hidden: Real) -> Iterator[Projection]:
    *inputs, output = GQA.matrices.whole(without_bias(mixer), hidden)
    yield from inputs
    if not absent(mixer.rank):
        yield Projection("relative", "qkv", Sharded(mixer.heads, mixer.rank, "heads"), hidden)
        yield Projection("profiles", "profiles", mixer.extent, mixer.rank)
    if mixer.pair_keys:
        yield Projection("distance keys", "distance keys", Sharded(mixer.heads, mixer.head_dim, "heads"), hidden)
    if not absent(mixer.conv):
        keys = Sharded(mixer.kv_heads, mixer.head_dim + mixer.v_head_dim, "KV heads", is_replicated=True)
        yield Projection("convolutions, k, v", "convolutions, k, v", keys, mixer.conv, "norm")
        yield Projection("convolutions, out", "convolutions, out", 1.0 * mixer.conv_out, mixer.conv, "norm")
    yield output


def _vectors(mixer: Relative, tp: Real) -> Real:
    """Norms of queries and keys, the table of a bias without mixtures, and biases that distances add to queries."""
    values = GQA.vectors(without_bias(mixer), tp)
    if absent(mixer.rank):
        values = values + mixer.heads / tp * mixer.extent
    return values + 2.0 * mixer.heads / tp * mixer.head_dim if mixer.pair_keys else values


def _cache_bytes(mixer: Relative, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:
    """Keys and values, and the last inputs of the convolutions."""
    plain = without_bias(mixer)
    nbytes = local_kv_heads(plain, tp) * (mixer.head_dim + mixer.v_head_dim) * kv_nbytes * reach(tokens, plain)
    return nbytes if absent(mixer.conv) else nbytes + _NBYTES * (mixer.conv - 1) * conv_channels(mixer, tp)


def _add_kernels(assembly: Assembly, count: Real, mixer: Relative, span: Span) -> None:
    tp, tokens, nbytes = assembly.tp, assembly.tokens, assembly.quantization.kv_nbytes
    matrices, tag = _projections.on_rank(mixer, assembly.hidden, tp), _tag(mixer)
    assembly.multiply("qkv" + tag, count, matrices["qkv"])
    norms = 2 * mixer.head_dim if mixer.qk_norm else 0
    written = local_kv_heads(without_bias(mixer), tp) * (mixer.head_dim + mixer.v_head_dim) * nbytes
    assembly.elementwise("append" + tag, count, kernels.rope_append(tokens, written, norms))
    if not absent(mixer.rank):
        assembly.sixteen_bit("relative bias" + tag, count, GEMM, bias_profiles(mixer, tokens, tp))
    work = biased_attention(mixer, assembly.sequences, span, nbytes, tp)
    assembly.attention("attention" + tag, count, RELATIVE.reading[span.is_decode], work)
    assembly.multiply("o" + tag, count, matrices["o"])
    if not absent(mixer.conv):
        work = convolutions(mixer, assembly.sequences, tokens, tp)
        assembly.elementwise("convolutions" + tag, count, work)
    assembly.all_reduce("attention all-reduce" + tag, count)


def _tag(mixer: Relative) -> str:
    return " (relative)" if mixer.window is None else f" (relative, window {mixer.window})"


RELATIVE = MixerKind(_projections, _vectors, _cache_bytes, _add_kernels, (ATTENTION_PREFILL, ATTENTION_DECODE))
