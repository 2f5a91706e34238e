"""Candidate pre-selection of blocks: pooled keys say which blocks of tokens the full attention reads."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.numbers.operations import Real, at_most, minimum, where
from roofline.physics import kernels
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly, Matrices, MixerKind, Projection, absent
from roofline.physics.equation import Work
from roofline.physics.kernels import Span, causal_pairs, windowed_pairs
from roofline.physics.layers.attention import GQA, local_kv_heads
from roofline.specs.gpu import ATTENTION_DECODE, ATTENTION_PREFILL, INDEXER
from roofline.specs.model import Blocks, Gqa
from roofline.support.records import NamedTuple

_SCORE_NBYTES = 4.0  # scores are fp32, written by the first stage and read by the selection
_SELECTS = "the context is so long that blocks are selected"


class Selection(NamedTuple):
    """Pairs of a pass: of queries with pooled keys, each counted as its tokens, and of queries with tokens."""

    scored: Real
    attended: Real


def selected_pairs(mixer: Blocks, span: Span) -> Selection:
    r"""Query-key pairs of block-sparse attention: what the first stage scores, and what the second attends to.

    .. math:: \sum_{t > D} t,\quad \sum_{t \le D} t + \sum_{t > D} \min(t,\ k B)

    Args:
        mixer: attention to at most k blocks of B tokens; contexts up to D tokens are attended to whole.
        span: tokens computed; of a prompt, its whole length decides whether blocks are selected [tokens].

    Returns:
        Two numbers of pairs, over all steps [1].

    Source:
        MiniCPM4 report, arXiv:2506.07900, and InfLLM-v2, arXiv:2509.24663 (`dense_len`, `topk`, `block_size`,
        `window_size`); MoBA, arXiv:2502.13189.

    >>> selected_pairs(Blocks(32, 2, 128, 128, block=64, top_k=96, stride=16, dense=8192), Span(1.0, 8191.0, True))
    Selection(scored=0.0, attended=8192.0)
    >>> selected_pairs(Blocks(32, 2, 128, 128, block=64, top_k=96, stride=16, dense=8192), Span(1.0, 8192.0, True))
    Selection(scored=8193.0, attended=6144.0)
    """
    whole, most = causal_pairs(span.new, span.cached), 1.0 * mixer.block * mixer.top_k
    sparse = windowed_pairs(span.new, span.cached, most)
    if absent(mixer.dense):
        return Selection(whole, sparse)
    limit = 1.0 * mixer.dense
    if span.is_decode:
        start, end = minimum(span.cached, limit, _SELECTS), minimum(span.cached + span.new, limit, _SELECTS)
        filling = end - start
        dense = filling * (end + start + 1.0) / 2.0
        return Selection(whole - dense, dense + (span.new - filling) * most)
    is_whole = at_most(span.cached + span.new, limit, _SELECTS)
    return Selection(where(is_whole, 0.0, whole), where(is_whole, whole, sparse))


def block_scores(mixer: Blocks, batch: Real, span: Span, kv_nbytes: Real, tp: Real) -> Work:
    r"""Work of the first stage: every query head scores the pooled keys of its KV head.

    .. math:: F = \frac{2 h d\, \text{pairs}}{s},\quad X = \frac{h\, \text{pairs}}{s},\quad
              Q = \frac{g d w_{kv} b n}{s} + \frac{8 g\, \text{pairs}}{s}

    Args:
        mixer: attention whose keys are pooled, one for each s tokens.
        batch: sequences b on this rank [sequences].
        span: tokens computed, after which a sequence has n; of several decode steps, the mean [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree [1].

    Returns:
        The work [FLOP, B]; heads of a group add up their scores, which are written and read once.

    Valid:
        Pooled keys overlap where a pool has more tokens than the stride; only their number counts. The second, coarser
        pooling that estimates the softmax's sum (MiniCPM4.1) is not counted: a quarter more.

    Source:
        InfLLM-v2, arXiv:2509.24663, section 3; OpenBMB/infllmv2_cuda_impl (stage 1).
    """
    heads, kv_heads = mixer.heads / tp, local_kv_heads(without_blocks(mixer), tp)
    scored = batch * selected_pairs(mixer, span).scored / span.steps / mixer.stride
    read = scored if span.is_decode else where(scored > 0.0, batch * (span.cached + span.new) / mixer.stride, 0.0)
    return Work(
        flop=2.0 * heads * mixer.head_dim * scored,
        kv_bytes=kv_heads * mixer.head_dim * kv_nbytes * read,
        activation_bytes=2.0 * _SCORE_NBYTES * kv_heads * scored,
        exponentials=heads * scored,
        depth=1.0 * mixer.head_dim,
    )


def block_attention(mixer: Blocks, batch: Real, span: Span, kv_nbytes: Real, tp: Real) -> Work:
    r"""Work of the second stage: attention to the selected blocks.

    .. math:: F = 2 h (d + d_v) b\, \text{pairs},\quad X = h b\, \text{pairs (prompt)},\quad
              Q = g (d + d_v) w_{kv} b s + 2 b N (d + d_v)(h + g)

    Args:
        mixer: attention.
        batch: sequences b on this rank [sequences].
        span: tokens N computed; of several decode steps, the mean [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree [1].

    Returns:
        The work [FLOP, B]; s tokens are read: those that a decode step attends to, or the cached ones of a prompt,
        between whose tokens all blocks are chosen.

    Valid:
        Flash attention: no score matrix in HBM; blocks of neighbouring queries hit the L2 cache.

    Source:
        InfLLM-v2, arXiv:2509.24663, section 3; heads in the scores, KV heads in the bytes.
    """
    heads, kv_heads = mixer.heads / tp, local_kv_heads(without_blocks(mixer), tp)
    width = mixer.head_dim + mixer.v_head_dim
    attended = selected_pairs(mixer, span).attended / span.steps
    seen = batch * attended
    read = seen if span.is_decode else batch * span.cached
    queries = batch * span.new / span.steps
    return Work(
        flop=2.0 * heads * width * seen,
        kv_bytes=kv_heads * width * kv_nbytes * read,
        activation_bytes=ACTIVATION_NBYTES * queries * width * (heads if span.is_decode else heads + kv_heads),
        exponentials=0.0 if span.is_decode else heads * seen,
        serial_depth=attended if span.is_decode else span.cached + span.new,
    )


def without_blocks(mixer: Blocks) -> Gqa:
    """The attention without its selection."""
    return Gqa(
        mixer.heads,
        mixer.kv_heads,
        mixer.head_dim,
        mixer.v_head_dim,
        qkv_bias=mixer.qkv_bias,
        o_bias=mixer.o_bias,
        qk_norm=mixer.qk_norm,
    )


@Matrices
def _projections(mixer: Blocks, hidden: Real) -> Iterator[Projection]:
    yield from GQA.matrices.whole(without_blocks(mixer), hidden)


def _vectors(mixer: Blocks, tp: Real) -> Real:
    return GQA.vectors(without_blocks(mixer), tp)


def _token_bytes(mixer: Blocks, kv_nbytes: Real, tp: Real) -> Real:
    """Keys and values of one token, and its share of a pooled key [B]."""
    width = mixer.head_dim + mixer.v_head_dim + mixer.head_dim / mixer.stride
    return local_kv_heads(without_blocks(mixer), tp) * width * kv_nbytes


def _cache_bytes(mixer: Blocks, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:
    return _token_bytes(mixer, kv_nbytes, tp) * tokens


def _add_kernels(assembly: Assembly, count: Real, mixer: Blocks, span: Span) -> None:
    tp, tokens, nbytes = assembly.tp, assembly.tokens, assembly.quantization.kv_nbytes
    matrices, tag = _projections.on_rank(mixer, assembly.hidden, tp), " (blocks)"
    assembly.multiply("qkv" + tag, count, matrices["qkv"])
    norms = 2 * mixer.head_dim if mixer.qk_norm else 0
    written = _token_bytes(mixer, nbytes, tp)
    assembly.elementwise("rope, append" + tag, count, kernels.rope_append(tokens, written, norms))
    scores = block_scores(mixer, assembly.sequences, span, nbytes, tp)
    runs = where(scores.flop > 0.0, count, 0)
    assembly.sixteen_bit("block scores", runs, INDEXER, scores)
    work = block_attention(mixer, assembly.sequences, span, nbytes, tp)
    assembly.attention("attention" + tag, count, BLOCKS.reading[span.is_decode], work)
    assembly.multiply("o" + tag, count, matrices["o"])
    assembly.all_reduce("attention all-reduce" + tag, count)


BLOCKS = MixerKind(_projections, _vectors, _cache_bytes, _add_kernels, (ATTENTION_PREFILL, ATTENTION_DECODE))
