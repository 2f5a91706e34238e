"""Grouped-query attention: full, windowed, chunked, or over the tokens that an indexer chooses."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real, always, where
from roofline.physics import elementwise
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.geometry import Span, pairs, reach
from roofline.physics.layers.indexer import index_scores, own_indexer
from roofline.physics.layers.kind import MixerKind
from roofline.physics.one_equation import Work
from roofline.physics.projection import Matrices, Projection, Sharded, replicated
from roofline.specs.kernels import ATTENTION_DECODE, ATTENTION_PREFILL, INDEXER
from roofline.specs.layers import Gqa

_KV_HEADS = "KV heads"
_TILE = 128.0  # head width at which the serial depth of prefill attention is calibrated


def local_kv_heads(mixer: Gqa, tp: Real) -> Real:
    """KV heads on one GPU: sharded over tp, replicated where tp exceeds them.

    Args:
        mixer: attention.
        tp: tensor-parallel degree [1].

    Returns:
        Heads [1].

    Source:
        Tensor parallelism of vLLM and TensorRT-LLM, which replicate KV heads likewise.

    >>> local_kv_heads(Gqa(heads=32, kv_heads=8, head_dim=128, v_head_dim=128), 16)
    1.0
    """
    return replicated(mixer.kv_heads, tp, _KV_HEADS)


def gqa_prefill(mixer: Gqa, batch: Real, new: Real, cached: Real, kv_nbytes: float, tp: Real) -> Work:
    r"""Work of grouped-query attention over prompts.

    .. math:: F = 2 h (d + d_v) b\, \text{pairs},\quad X = h b\, \text{pairs},\quad
              Q = 2 b N (d + d_v)(h + g) + g (d + d_v) w_{kv} b\, \text{reach}(P),\quad
              d_s = \text{reach}(N + P)\, d / 128

    Args:
        mixer: attention.
        batch: prompts b on this rank [sequences].
        new: tokens N computed per prompt [tokens].
        cached: tokens P of each prompt already cached [tokens].
        kv_nbytes: bytes per cached value [B].
        tp: tensor-parallel degree [1].

    Returns:
        The work [FLOP, B]; Q counts queries, keys, values and outputs once, and the cached prefix.

    Valid:
        Flash attention: no score matrix in HBM; re-reads of keys by later tiles hit the L2 cache.

    Source:
        Dao et al., FlashAttention-2, arXiv:2307.08691; one exponential per pair and head.
    """
    heads = mixer.heads / tp
    kv_heads = local_kv_heads(mixer, tp)
    width = mixer.head_dim + mixer.v_head_dim
    seen = batch * pairs(new, cached, mixer)
    return Work(
        flop=2.0 * heads * width * seen,
        kv_bytes=batch * reach(cached, mixer) * kv_heads * width * kv_nbytes,
        activation_bytes=ACTIVATION_NBYTES * batch * new * width * (heads + kv_heads),
        exponentials=heads * seen,
        serial_depth=reach(cached + new, mixer) * mixer.head_dim / _TILE,
    )


def gqa_decode(mixer: Gqa, batch: Real, steps: Real, context: Real, kv_nbytes: float, tp: Real) -> Work:
    r"""Work of grouped-query attention for one new token per sequence, averaged over a generation.

    .. math:: s = \text{pairs}(n, \text{context}) / n,\quad F = 2 h (d + d_v) b s,\quad
              Q = g (d + d_v) w_{kv} b s + 2 b h (d + d_v),\quad d_s = s

    Args:
        mixer: attention.
        batch: sequences b on this rank [sequences].
        steps: decode steps n averaged over [1].
        context: tokens in the cache before the first step [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree [1].

    Returns:
        The work of the mean step [FLOP, B].

    Valid:
        Exact in the mean where the time is affine in the KV length.

    Source:
        Arithmetic; heads in the scores, kv_heads in the bytes (Ainslie et al., arXiv:2305.13245).
    """
    heads = mixer.heads / tp
    width = mixer.head_dim + mixer.v_head_dim
    seen = pairs(steps, context, mixer) / steps
    return Work(
        flop=2.0 * heads * width * batch * seen,
        kv_bytes=batch * seen * local_kv_heads(mixer, tp) * width * kv_nbytes,
        activation_bytes=ACTIVATION_NBYTES * batch * heads * width,
        serial_depth=seen,
    )


def _kv_heads(mixer: Gqa, width: Real) -> Sharded:
    return Sharded(mixer.kv_heads, width, _KV_HEADS, is_replicated=True)


@Matrices
def _projections(mixer: Gqa, hidden: Real) -> Iterator[Projection]:
    bias, indexer = mixer.qkv_bias, own_indexer(mixer)
    output = Sharded(mixer.heads, mixer.v_head_dim, "heads")
    yield Projection("q", "qkv", Sharded(mixer.heads, mixer.head_dim, "heads"), hidden, bias=bias)
    if not mixer.kv_shared:
        yield Projection("k", "qkv", _kv_heads(mixer, mixer.head_dim), hidden, bias=bias)
    if not (mixer.k_eq_v or mixer.kv_shared):
        yield Projection("v", "qkv", _kv_heads(mixer, mixer.v_head_dim), hidden, bias=bias)
    if mixer.out_gate:
        yield Projection("gate", "qkv", output, hidden)
    if mixer.head_gate:
        yield Projection("head gate", "qkv", Sharded(mixer.heads, 1, "heads"), hidden)
    if indexer is not None:  # its queries are sharded like the KV heads, its key is on all ranks
        yield Projection("index q", "qkv", _kv_heads(mixer, indexer.heads * indexer.dim / mixer.kv_heads), hidden)
        yield Projection("index k", "qkv", 1.0 * indexer.dim, hidden)
    yield Projection("o", "o", hidden, output, bias=mixer.o_bias)


def _vectors(mixer: Gqa, tp: Real) -> Real:
    """Norms of queries and keys (one vector, or one per head), sinks, norms of an indexer."""
    heads, indexer = mixer.heads / tp, own_indexer(mixer)
    sinks = heads if mixer.sinks else 0.0
    index = 0.0 if indexer is None else 2.0 * indexer.dim
    if mixer.qk_norm is None:
        return sinks + index
    vectors = 2.0 if mixer.qk_norm_bias else 1.0
    return mixer.head_dim * vectors * _normed_heads(mixer, tp) + sinks + index


def _normed_heads(mixer: Gqa, tp: Real) -> Real:
    """Norms of queries and keys: one per head, or one each that all heads share."""
    if mixer.qk_norm == "head":
        return 1.0 if mixer.kv_shared else 2.0
    return mixer.heads / tp + (0.0 if mixer.kv_shared else local_kv_heads(mixer, tp))


def _kv_nbytes(mixer: Gqa, kv_nbytes: Real, tp: Real) -> Real:
    """KV cache of one token; none where the layer reuses that of an earlier one [B]."""
    return 0.0 if mixer.kv_shared else local_kv_heads(mixer, tp) * (mixer.head_dim + mixer.v_head_dim) * kv_nbytes


def _index_nbytes(mixer: Gqa, kv_nbytes: Real) -> Real:
    """Index key of one token, in the format of the cache (MiniMax-M3 configuration, 2026) [B]."""
    indexer = own_indexer(mixer)
    return 0.0 if indexer is None else indexer.dim * kv_nbytes / indexer.ratio


def _cache_bytes(mixer: Gqa, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:
    nbytes = _kv_nbytes(mixer, kv_nbytes, tp) * reach(tokens, mixer)
    return nbytes if own_indexer(mixer) is None else nbytes + _index_nbytes(mixer, kv_nbytes) * tokens


def _add_kernels(assembly: Assembly, count: Real, mixer: Gqa, span: Span) -> None:
    tp, tokens, tag = assembly.tp, assembly.tokens, _tag(mixer)
    matrices = _projections.on_rank(mixer, assembly.hidden, tp)
    heads, nbytes, indexer = mixer.heads / tp, assembly.quantization.kv_nbytes, own_indexer(mixer)
    assembly.multiply("qkv" + tag, count, matrices["qkv"])
    norms = (2 * mixer.head_dim if mixer.qk_norm else 0) + (heads if mixer.sinks else 0)
    written = _kv_nbytes(mixer, nbytes, tp) + _index_nbytes(mixer, nbytes)
    assembly.elementwise("rope, append" + tag, count, elementwise.rope_append(tokens, written, norms))
    if indexer is not None:
        index_heads = indexer.heads * local_kv_heads(mixer, tp) / mixer.kv_heads
        keys = _index_nbytes(mixer, nbytes)
        scores = index_scores(indexer, index_heads, assembly.sequences, span, keys, indexer.ratio)
        assembly.sixteen_bit("index scores", count, INDEXER, scores)
    if span.is_decode:
        work = gqa_decode(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
    else:
        work = gqa_prefill(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
    assembly.attention("attention" + tag, count, GQA.reading[span.is_decode], work)
    if mixer.out_gate:
        gated = elementwise.activation(tokens, heads * mixer.v_head_dim, gated=True)
        assembly.elementwise("output gate" + tag, count, gated)
    if mixer.head_gate:
        gated = elementwise.activation(tokens, heads * mixer.v_head_dim, gated=False)
        assembly.elementwise("head gate" + tag, count, gated)
    assembly.multiply("o" + tag, count, matrices["o"])
    if not always(assembly.model.parallel):  # in parallel layers, the network's all-reduce sums both
        assembly.all_reduce("attention all-reduce" + tag, where(assembly.model.parallel, 0, count))


def _tag(mixer: Gqa) -> str:
    if mixer.window is not None:
        return f" (window {mixer.window})"
    if mixer.indexer is not None:
        return f" (top {mixer.indexer.top_k})"
    return f" (chunk {mixer.chunk})" if mixer.chunk is not None else ""


GQA = MixerKind(_projections, _vectors, _cache_bytes, _add_kernels, (ATTENTION_PREFILL, ATTENTION_DECODE))
