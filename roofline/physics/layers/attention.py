"""Attention over keys and values: grouped-query, cross, over what an indexer chooses; and what replaces it."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.numbers.operations import Real, always, where
from roofline.physics import kernels
from roofline.physics.assembly import (
    ACTIVATION_NBYTES,
    Assembly,
    Matrices,
    MixerKind,
    NetworkKind,
    Projection,
    Sharded,
    absent,
    replicated,
)
from roofline.physics.equation import Work
from roofline.physics.kernels import Span, causal_pairs, pairs, reach, windowed_pairs
from roofline.physics.plan import Plan
from roofline.specs.gpu import ATTENTION_DECODE, ATTENTION_PREFILL, INDEXER, Gpu
from roofline.specs.model import CrossAttention, Csa, Csa2, Gqa, Indexer, Linear, LinearFfn, Mla, NoFfn, NoMixer

# Cross-attention to an image: in memory, but skipped by text-only requests.


@Matrices
def _cross_projections(mixer: CrossAttention, hidden: Real) -> Iterator[Projection]:
    """Of the attention, and of the FFN after it, which is skipped too."""
    queries = Sharded(mixer.heads, mixer.head_dim, "heads")
    keys = Sharded(mixer.kv_heads, mixer.head_dim, "KV heads", is_replicated=True)
    inner = Sharded(mixer.width, 1, "ffn width")
    yield Projection("q", "q", queries, hidden)
    yield Projection("k", "kv", keys, hidden)
    yield Projection("v", "kv", keys, hidden)
    yield Projection("o", "o", hidden, queries)
    yield Projection("gate", "gate, up", inner, hidden)
    yield Projection("up", "gate, up", inner, hidden)
    yield Projection("down", "down", hidden, inner)


def _cross_vectors(mixer: CrossAttention, tp: Real) -> Real:  # noqa: ARG001  every rank has them
    """Norms of queries and keys, and a gate for each half of the layer."""
    return 2.0 * mixer.head_dim + 2.0


def _cross_cache_bytes(mixer: CrossAttention, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001
    return 0.0 * tokens


def _cross_add_kernels(assembly: Assembly, count: Real, mixer: CrossAttention, span: Span) -> None:
    """Nothing: the layer is skipped."""


CROSS = MixerKind(_cross_projections, _cross_vectors, _cross_cache_bytes, _cross_add_kernels, is_idle=True)


# Indexer of sparse attention: scores all cached tokens and keeps the best for attention.

_SCORE_NBYTES = 4.0  # scores are fp32, written by the indexer and read by the selection


def own_indexer(mixer: Gqa | Mla | Csa | Csa2) -> Indexer | None:
    """The indexer that a layer runs; None where it has none or reuses the choice of another layer."""
    return mixer.indexer if mixer.indexer is not None and mixer.indexer.own else None


def scored_pairs(indexer: Indexer, span: Span, ratio: Real) -> Real:
    r"""Pairs of a token and an earlier one whose entry an indexer scores.

    .. math:: \sum_t t,\quad \sum_t \min(t,\ c \cdot ratio)\ \text{(within c candidates)}

    Args:
        indexer: the indexer; `candidates` are those that an earlier layer's published, c entries.
        span: tokens computed [tokens].
        ratio: tokens of an entry [tokens].

    Returns:
        Pairs, over all steps; divided by the ratio, those with entries [1].

    Valid:
        The kernel scores candidates alone, as DeepGEMM's sparse MQA logits do; others score all and mask them.

    Source:
        DeepSeek-V4.1 configuration, 2026-09 (`candidate_topk_blocks`, `candidate_block_size`); vLLM pull request
        56254.

    >>> scored_pairs(Indexer(32, 128, 512, candidates=16384), Span(1.0, 99_999.0, is_decode=True), 1)
    16384.0
    """
    if absent(indexer.candidates):
        return causal_pairs(span.new, span.cached)
    return windowed_pairs(span.new, span.cached, 1.0 * indexer.candidates * ratio)


def index_scores(indexer: Indexer, heads: Real, batch: Real, span: Span, key_nbytes: Real, ratio: int = 1) -> Work:
    r"""Work of scoring every cached token or compressed entry.

    .. math:: F = 2 h_i d_i \frac{\text{pairs}}{ratio},\quad
              Q = w_i s + 8 \frac{\text{pairs}}{ratio} + 2 h_i d_i N

    per sequence; a prompt of N tokens reads s = P + N keys, a decode step the mean length.

    Args:
        indexer: the indexer.
        heads: index heads h_i on this rank [1].
        batch: sequences b on this rank [sequences].
        span: tokens N computed; of several decode steps, the mean [tokens].
        key_nbytes: bytes of index keys per token w_i [B].
        ratio: tokens per compressed entry or pooled index key [tokens].

    Returns:
        The work [FLOP, B].

    Valid:
        Selecting the best counts as one read of the scores.

    Source:
        DeepSeek-V3.2 report (lightning indexer), 2025-12: every earlier token is scored; pooled keys as in the
        classes Qwen4Exp and Glm5Next of transformers 5.23, 2026.
    """
    seen = batch * scored_pairs(indexer, span, ratio) / span.steps
    read = seen if span.is_decode else batch * (span.cached + span.new)
    queries = batch * span.new / span.steps
    return Work(
        flop=2.0 * heads * indexer.dim * seen / ratio,
        kv_bytes=key_nbytes * read,
        activation_bytes=2.0 * _SCORE_NBYTES * seen / ratio + ACTIVATION_NBYTES * heads * indexer.dim * queries,
        depth=1.0 * indexer.dim,
    )


def add_scores(assembly: Assembly, count: Real, scores: Work) -> None:
    """Add the scores of an indexer over fp8 keys."""
    peak = score_dtype(assembly.gpu, assembly.quantization.sixteen_bit_peak)
    assembly.kernels.append(assembly.kernel("index scores", INDEXER, peak, peak, count, scores))


def score_dtype(gpu: Gpu, sixteen_bit: str) -> str:
    """Dtype of scores over fp8 keys: fp8, or the dtype `sixteen_bit` where the GPU has no fp8."""
    return "fp8" if "fp8" in gpu.peaks else sixteen_bit


# Grouped-query attention: full, windowed, chunked, or over the tokens that an indexer chooses.

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
def _gqa_projections(mixer: Gqa, hidden: Real) -> Iterator[Projection]:
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


def _gqa_vectors(mixer: Gqa, tp: Real) -> Real:
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


def _gqa_cache_bytes(mixer: Gqa, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:
    nbytes = _kv_nbytes(mixer, kv_nbytes, tp) * reach(tokens, mixer)
    return nbytes if own_indexer(mixer) is None else nbytes + _index_nbytes(mixer, kv_nbytes) * tokens


def _gqa_add_kernels(assembly: Assembly, count: Real, mixer: Gqa, span: Span) -> None:
    tp, tokens, tag = assembly.tp, assembly.tokens, _tag(mixer)
    matrices = _gqa_projections.on_rank(mixer, assembly.hidden, tp)
    heads, nbytes, indexer = mixer.heads / tp, assembly.quantization.kv_nbytes, own_indexer(mixer)
    assembly.multiply("qkv" + tag, count, matrices["qkv"])
    norms = (2 * mixer.head_dim if mixer.qk_norm else 0) + (heads if mixer.sinks else 0)
    written = _kv_nbytes(mixer, nbytes, tp) + _index_nbytes(mixer, nbytes)
    assembly.elementwise("rope, append" + tag, count, kernels.rope_append(tokens, written, norms))
    if indexer is not None:
        index_heads = indexer.heads * local_kv_heads(mixer, tp) / mixer.kv_heads
        keys = _index_nbytes(mixer, nbytes)
        scores = index_scores(indexer, index_heads, assembly.sequences, span, keys, indexer.ratio)
        assembly.sixteen_bit("index scores", count, INDEXER, own_scores(assembly, span, scores))
    if assembly.plan.splits_context:
        _add_shared(assembly, count, mixer, span)
    else:
        if span.is_decode:
            work = gqa_decode(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
        else:
            work = gqa_prefill(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
        assembly.attention("attention" + tag, count, GQA.reading[span.is_decode], work)
    add_gates(assembly, count, mixer, heads * mixer.v_head_dim, tag)
    assembly.multiply("o" + tag, count, matrices["o"])
    if not always(assembly.model.parallel):  # in parallel layers, the network's all-reduce sums both
        assembly.all_reduce("attention all-reduce" + tag, where(assembly.model.parallel, 0, count))


def own_scores(assembly: Assembly, span: Span, scores: Work) -> Work:
    """Index scores of the tokens of this rank; in a decode step every rank scores the whole context."""
    if assembly.plan.cp == 1 or span.is_decode:
        return scores
    from roofline.physics.context import of_prompt

    return of_prompt(assembly.plan, scores, scores.activation_bytes)


def is_kept_whole(mixer: Gqa) -> bool:
    """Whether all ranks of a sequence keep the same tokens, as only the last ones are needed."""
    return mixer.window is not None or mixer.chunk is not None


def _add_shared(assembly: Assembly, count: Real, mixer: Gqa, span: Span) -> None:
    """Add attention whose tokens are on several ranks, and what it exchanges with them."""
    from roofline.physics.context import Shared, add_after, add_before, decode_tp, of_prompt, of_shard

    plan, tp, nbytes, indexer = assembly.plan, assembly.tp, assembly.quantization.kv_nbytes, own_indexer(mixer)
    heads, width = mixer.heads / tp, mixer.head_dim + mixer.v_head_dim
    fresh = 0.0 if mixer.kv_shared else local_kv_heads(mixer, tp) * width
    fresh = fresh if indexer is None else fresh + indexer.dim / indexer.ratio
    cached = _kv_nbytes(mixer, nbytes, tp)
    shared = Shared(heads, mixer.head_dim, mixer.v_head_dim, fresh, cached, _tag(mixer), not is_kept_whole(mixer))
    add_before(assembly, count, shared, span)
    if span.is_decode:
        ranks = decode_tp(plan, shared, tp)
        work = gqa_decode(mixer, assembly.sequences, span.new, span.cached, nbytes, ranks)
        work = of_shard(plan, shared, work)
    else:
        work = gqa_prefill(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
        work = of_prompt(plan, work, ACTIVATION_NBYTES * assembly.sequences * span.new * heads * width)
    assembly.attention("attention" + shared.tag, count, GQA.reading[span.is_decode], work)
    add_after(assembly, count, shared, span)


def add_gates(assembly: Assembly, count: Real, mixer: Gqa | Mla, width: Real, tag: str = "") -> None:
    """Add the gates of attention's outputs, `width` values of each token on this rank: by value, and by head."""
    if mixer.out_gate:
        assembly.elementwise("output gate" + tag, count, kernels.activation(assembly.tokens, width, gated=True))
    if mixer.head_gate:
        assembly.elementwise("head gate" + tag, count, kernels.activation(assembly.tokens, width, gated=False))


def _tag(mixer: Gqa) -> str:
    if mixer.window is not None:
        return f" (window {mixer.window})"
    if mixer.indexer is not None:
        return f" (top {mixer.indexer.top_k})"
    return f" (chunk {mixer.chunk})" if mixer.chunk is not None else ""


GQA = MixerKind(
    _gqa_projections, _gqa_vectors, _gqa_cache_bytes, _gqa_add_kernels, (ATTENTION_PREFILL, ATTENTION_DECODE)
)


# Replacements of a mixer or a network: one square matrix (Puzzle), or nothing.

_NAME = "linear"


@Matrices
def _mixer_projections(mixer: Linear, hidden: Real) -> Iterator[Projection]:  # noqa: ARG001  it has no fields
    yield Projection(_NAME, _NAME, hidden, Sharded(hidden, 1, "columns"))


@Matrices
def _network_projections(ffn: LinearFfn, hidden: Real) -> Iterator[Projection]:  # noqa: ARG001  it has no fields
    yield Projection(_NAME, _NAME, hidden, Sharded(hidden, 1, "columns"), "linear")


@Matrices
def _nothing(part: NoMixer | NoFfn, hidden: Real) -> tuple[Projection, ...]:  # noqa: ARG001
    return ()


def _no_vectors(mixer: Linear | NoMixer, tp: Real) -> Real:  # noqa: ARG001
    return 0.0


def _no_cache(mixer: Linear | NoMixer, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001
    return 0.0 * tokens


def _add_mixer(assembly: Assembly, count: Real, mixer: Linear, span: Span) -> None:  # noqa: ARG001
    _add(assembly, count, _mixer_projections, mixer)


def _add_network(assembly: Assembly, count: Real, ffn: LinearFfn) -> None:
    _add(assembly, count, _network_projections, ffn)


def _add(assembly: Assembly, count: Real, matrices: Matrices, record: Linear | LinearFfn) -> None:
    assembly.multiply(_NAME, count, matrices.on_rank(record, assembly.hidden, assembly.tp)[_NAME])
    assembly.all_reduce("linear all-reduce", count)


def _add_no_mixer(assembly: Assembly, count: Real, mixer: NoMixer, span: Span) -> None:
    """Nothing: the layer is only a feed-forward network."""


def _add_no_network(assembly: Assembly, count: Real, ffn: NoFfn) -> None:
    """Nothing: the layer is only a mixer."""


def _model_width(ffn: LinearFfn | NoFfn, hidden: Real, plan: Plan) -> Real:  # noqa: ARG001
    return 1.0 * hidden


LINEAR = MixerKind(_mixer_projections, _no_vectors, _no_cache, _add_mixer)
NO_MIXER = MixerKind(_nothing, _no_vectors, _no_cache, _add_no_mixer)
LINEAR_NETWORK = NetworkKind(_network_projections, _model_width, _add_network)
NO_NETWORK = NetworkKind(_nothing, _model_width, _add_no_network)
