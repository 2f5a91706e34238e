"""Multi-head latent attention: one latent per token for all heads, with or without an indexer (DSA)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roofline.numbers.operations import Real, below, maximum, minimum, negated, never, where
from roofline.physics import kernels
from roofline.physics.assembly import (
    ACTIVATION_NBYTES,
    Assembly,
    Matrices,
    MixerKind,
    Multiplication,
    Projection,
    Sharded,
)
from roofline.physics.equation import Kernel, Work
from roofline.physics.kernels import WINDOW_FILLED, Span, causal_pairs, gemm, grouped_gemm, pairs, windowed_pairs
from roofline.physics.layers.attention import add_gates, add_scores, index_scores, own_indexer, own_scores
from roofline.specs.gpu import ATTENTION_PREFILL, GEMM, MLA_CHOSEN, MLA_DECODE, MLA_PREFILL, KernelKind
from roofline.specs.model import Csa, Csa2, Mla

_SWITCHES = "MLA switches between absorbed and expanded"
_CHOOSES = "a prompt exceeds what its indexer keeps"
_INDEX_NBYTES = 1.0 + 4.0 / 128  # index keys of DSA: fp8 with an fp32 scale per 128 (DeepSeek-V3.2 report, 2025-12)


def mla_prefill(mixer: Mla, batch: Real, new: Real, cached: Real, tp: Real) -> Work:
    r"""Work of multi-head latent attention over prompts, with keys and values expanded per head.

    .. math:: F = 2 h (nope + rope + v) b\, \text{pairs},\quad X = h b\, \text{pairs},\quad
              Q = 2 h (nope + rope + v) b (2 N + P),\quad d_s = N + P

    The expansion of the latents (`kv_b`), those of the cached prefix included, is a separate multiplication.

    Args:
        mixer: attention.
        batch: prompts b on this rank [sequences].
        new: tokens N computed per prompt [tokens].
        cached: tokens P of each prompt already cached [tokens].
        tp: tensor-parallel degree [1].

    Returns:
        The work [FLOP, B].

    Valid:
        Flash attention: no score matrix in HBM; the expanded prefix is read once.

    Source:
        DeepSeek-V2, arXiv:2405.04434, section 2.1.
    """
    heads = mixer.heads / tp
    width = mixer.nope + mixer.rope + mixer.v
    seen = batch * pairs(new, cached, mixer)
    return Work(
        flop=2.0 * heads * width * seen,
        activation_bytes=ACTIVATION_NBYTES * heads * width * batch * (2.0 * new + cached),
        exponentials=heads * seen,
        serial_depth=cached + new,
    )


def mla_decode(mixer: Mla, batch: Real, steps: Real, context: Real, kv_nbytes: float, tp: Real) -> Work:
    r"""Work of multi-head latent attention in the latent (absorbed), averaged over a generation.

    .. math:: s = \text{pairs}(n, \text{context}) / n,\quad F = 2 h (2 r + rope) b s,\quad
              Q = (r + rope) w_{kv} b s + 2 b h (2 r + rope),\quad d_s = s

    Args:
        mixer: attention.
        batch: sequences b on this rank [sequences].
        steps: decode steps n averaged over [1].
        context: tokens in the cache before the first step [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree, which divides the heads, not the latent [1].

    Returns:
        The work of the mean step [FLOP, B].

    Valid:
        Exact in the mean where the time is affine in the KV length.

    Source:
        DeepSeek-V2, arXiv:2405.04434, section 2.1.2 and appendix C (absorption).
    """
    seen = pairs(steps, context, mixer) / steps
    return _latent_attention(mixer, batch, batch * seen, batch * seen, seen, kv_nbytes, tp)


def mla_extend(mixer: Mla, batch: Real, new: Real, cached: Real, kv_nbytes: float, tp: Real) -> Work:
    r"""Work of multi-head latent attention in the latent for several new tokens after a cached prefix.

    .. math:: F = 2 h (2 r + rope) b\, \text{pairs},\quad Q = (r + rope) w_{kv} b (N + P) + 2 b N h (2 r + rope)

    Args:
        mixer: attention.
        batch: prompts b on this rank [sequences].
        new: tokens N computed per prompt [tokens].
        cached: tokens P of each prompt already cached [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree, which divides the heads, not the latent [1].

    Returns:
        The work [FLOP, B].

    Valid:
        Each cached token is read once for all new tokens.

    Source:
        DeepSeek-V2, arXiv:2405.04434, appendix C (absorption).
    """
    length = cached + new
    seen = batch * pairs(new, cached, mixer)
    return _latent_attention(mixer, batch * new, seen, batch * length, length, kv_nbytes, tp)


def mla_chosen(mixer: Mla, batch: Real, new: Real, cached: Real, kv_nbytes: float, tp: Real) -> Work:
    r"""Work of multi-head latent attention over prompts each of whose tokens sees its own choice of earlier ones.

    .. math:: F = 2 h (2 r + rope) b\, \text{pairs},\quad
              Q = (r + rope) w_{kv} b\, \text{pairs} + 2 b N h (2 r + rope),\quad d_s = \text{pairs} / N

    No two tokens share their choice, so nothing can be expanded for all of them, and none reads what another has read:
    N tokens are N decode steps of one token each. The latents are counted at the rate of the memory although most of
    them come from a cache of the GPU.

    Args:
        mixer: attention with an indexer.
        batch: prompts b on this rank [sequences].
        new: tokens N computed per prompt [tokens].
        cached: tokens P of each prompt already cached [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree, which divides the heads, not the latent [1].

    Returns:
        The work [FLOP, B].

    Valid:
        Prompts longer than what the indexer keeps; shorter ones choose everything and run as without it.

    Source:
        Kernels of FlashMLA (`flash_mla_sparse_fwd`) and FlashInfer (sparse MLA), which take queries and the indices of
        their keys; measured modules in docs/forecasts.md.
    """
    seen = batch * pairs(new, cached, mixer)
    length = pairs(new, cached, mixer) / maximum(new, 1.0)
    return _latent_attention(mixer, batch * new, seen, seen, length, kv_nbytes, tp)


def mla_absorb(mixer: Mla, rows: Real, width: int, weight_nbytes: float, tp: Real) -> Work:
    """Work of multiplying queries into, or outputs out of, the latent: one small matrix per head.

    Args:
        mixer: attention.
        rows: tokens [tokens].
        width: `nope` for the queries, `v` for the outputs [1].
        weight_nbytes: bytes per weight [B].
        tp: tensor-parallel degree [1].

    Returns:
        The work [FLOP, B].

    Source:
        DeepSeek-V2, arXiv:2405.04434, appendix C.
    """
    heads = mixer.heads / tp
    return Work(
        flop=2.0 * rows * heads * mixer.kv_rank * width,
        weight_bytes=heads * mixer.kv_rank * width * weight_nbytes,
        activation_bytes=ACTIVATION_NBYTES * rows * heads * (mixer.kv_rank + width),
        depth=1.0 * minimum(width, mixer.kv_rank),
    )


def mla_crossover(mixer: Mla) -> float:
    r"""New tokens after a long cached prefix below which absorbed attention does less arithmetic.

    .. math:: N^* = \frac{r (nope + v)}{2 r - nope - v}

    Args:
        mixer: attention.

    Returns:
        Tokens, 171 for DeepSeek [tokens].

    Valid:
        N much smaller than the prefix.

    Source:
        2 h N P (2r - nope - v) of extra scores against 2 r h (nope + v) P of re-expansion.
    """
    expanded = mixer.nope + mixer.v
    return mixer.kv_rank * expanded / (2.0 * mixer.kv_rank - expanded)


def _latent_attention(mixer: Mla, queries: Real, seen: Real, read: Real, depth: Real, w_kv: Real, tp: Real) -> Work:
    """Absorbed attention of `queries` tokens over `seen` pairs; reads `read` cached tokens of `w_kv` [B] per value."""
    heads = mixer.heads / tp
    width = 2.0 * mixer.kv_rank + mixer.rope
    return Work(
        flop=2.0 * heads * width * seen,
        kv_bytes=read * _latent(mixer) * w_kv,
        activation_bytes=ACTIVATION_NBYTES * queries * heads * width,
        serial_depth=depth,
    )


def _latent(mixer: Mla) -> Real:
    """Cached values per token, on every rank: all heads share the latent."""
    return 1.0 * (mixer.kv_rank + mixer.rope)


@Matrices
def _mla_projections(mixer: Mla, hidden: Real) -> Iterator[Projection]:
    queries = Sharded(mixer.heads, mixer.nope + mixer.rope, "heads")
    values, indexer = Sharded(mixer.heads, mixer.v, "heads"), own_indexer(mixer)
    down = _down(mixer)
    if not mixer.kv_shared:
        yield Projection("kv_a", down, _latent(mixer), hidden)
    yield Projection("q_a", down, queries if mixer.q_rank is None else mixer.q_rank, hidden)
    if mixer.out_gate:
        yield Projection("gate", down, values, hidden)
    if mixer.head_gate:
        yield Projection("head gate", down, Sharded(mixer.heads, 1, "heads"), hidden)
    if indexer is not None:
        yield Projection("index k, weights", down, indexer.dim + indexer.heads, hidden)
    if indexer is not None and indexer.learned_pool:
        yield Projection("index pool", down, indexer.dim, hidden)
    if mixer.q_rank is not None:
        yield Projection("q_b", "q_b", queries, mixer.q_rank)
    if indexer is not None:
        width = hidden if mixer.q_rank is None else mixer.q_rank  # the stream, normalized again, or the query latent
        yield Projection("index q", "index q", indexer.heads * indexer.dim, width)
        if mixer.q_rank is None:
            yield Projection("index q norm", "index q norm", 2, hidden, "norm")
    yield Projection("kv_b", "kv_b", Sharded(mixer.heads, mixer.nope + mixer.v, "heads"), mixer.kv_rank)
    yield Projection("o", "o", hidden, values)


def _down(mixer: Mla) -> str:
    """Name of the multiplication that reads the residual stream."""
    return "q, kv_a" if mixer.q_rank is None else "q_a, kv_a"


def _mla_vectors(mixer: Mla, tp: Real) -> Real:
    """Norms of the latents, of which every rank has all, and of the index key, position biases of pooled keys."""
    indexer = own_indexer(mixer)
    latents = 1.0 * ((mixer.q_rank or 0) + (0 if mixer.kv_shared else mixer.kv_rank))
    if mixer.log_scale:
        latents = latents + 2.0 * mixer.heads / tp + (0.0 if indexer is None else 2.0 * indexer.heads)
    if indexer is None:
        return latents
    return latents + (2.0 + (indexer.ratio if indexer.learned_pool else 0)) * indexer.dim


def _index_nbytes(mixer: Mla) -> Real:
    """Index key of one token, regardless of the format of the cache [B]."""
    indexer = own_indexer(mixer)
    return 0.0 if indexer is None else indexer.dim * _INDEX_NBYTES / indexer.ratio


def _mla_cache_bytes(mixer: Mla, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001  every rank has the latents
    nbytes = (0.0 if mixer.kv_shared else _latent(mixer) * kv_nbytes) * tokens
    return nbytes if own_indexer(mixer) is None else nbytes + _index_nbytes(mixer) * tokens


def _mla_add_kernels(assembly: Assembly, count: Real, mixer: Mla, span: Span) -> None:
    matrices = _mla_projections.on_rank(mixer, assembly.hidden, assembly.tp)
    _add_down(assembly, count, mixer, span, matrices)
    nbytes, tp = assembly.quantization.kv_nbytes, assembly.tp
    if assembly.plan.splits_context:
        _add_shared(assembly, count, mixer, span, matrices["kv_b"])
    elif span.is_decode:
        latent = mla_decode(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
        assembly.kernels += _absorbed(assembly, count, mixer, latent)
    else:
        _add_prompt(assembly, count, mixer, span, matrices["kv_b"])
    add_gates(assembly, count, mixer, mixer.heads / tp * mixer.v)
    assembly.multiply("o", count, matrices["o"])
    assembly.all_reduce("attention all-reduce", count)


def _add_down(assembly: Assembly, count: Real, mixer: Mla, span: Span, matrices: Mapping[str, Multiplication]) -> None:
    """Add projections to the latents (replicated over tp) and of the queries, and the indexer."""
    tokens, indexer, nbytes = assembly.tokens, own_indexer(mixer), assembly.quantization.kv_nbytes
    down = _down(mixer)
    assembly.multiply(down, count, matrices[down])
    if mixer.q_rank is not None:
        assembly.multiply("q_b", count, matrices["q_b"])
        assembly.elementwise("q latent norm", count, kernels.latent_norm(tokens, mixer.q_rank))
    index = _index_nbytes(mixer)
    if mixer.kv_shared:
        norms, written = 1 * (mixer.q_rank or 0), index
    else:
        assembly.elementwise("kv latent norm", count, kernels.latent_norm(tokens, mixer.kv_rank))
        norms, written = (mixer.q_rank or 0) + mixer.kv_rank, _latent(mixer) * nbytes + index
    assembly.elementwise("rope, append", count, kernels.rope_append(tokens, written, norms))
    if indexer is not None:
        assembly.multiply("index q", count, matrices["index q"])
        scores = index_scores(indexer, indexer.heads, assembly.sequences, span, index, indexer.ratio)
        add_scores(assembly, count, own_scores(assembly, span, scores))


def _add_shared(assembly: Assembly, count: Real, mixer: Mla, span: Span, kv_b: Multiplication) -> None:
    """Add attention whose tokens are on several ranks, and what it exchanges with them: latents, or latent queries."""
    from roofline.physics.context import Shared, add_after, add_before, decode_tp, of_shard

    plan, tp, nbytes, indexer = assembly.plan, assembly.tp, assembly.quantization.kv_nbytes, own_indexer(mixer)
    latent = _latent(mixer)
    fresh = latent if indexer is None else latent + indexer.dim / indexer.ratio
    if mixer.kv_shared:
        fresh = fresh - latent
    shared = Shared(mixer.heads / tp, latent, mixer.kv_rank, fresh, latent * nbytes, gathers=True)
    add_before(assembly, count, shared, span)
    if span.is_decode:
        work = mla_decode(mixer, assembly.sequences, span.new, span.cached, nbytes, decode_tp(plan, shared, tp))
        assembly.kernels += _absorbed(assembly, count, mixer, of_shard(plan, shared, work))
    else:
        _add_prompt(assembly, count, mixer, span, kv_b)
    add_after(assembly, count, shared, span)


def _add_prompt(assembly: Assembly, count: Real, mixer: Mla, span: Span, kv_b: Multiplication) -> None:
    """Add attention over prompts: expanded per head, or absorbed where a prefix makes that faster or tokens choose."""
    tp, quantization, new, cached = assembly.tp, assembly.quantization, span.new, span.cached
    exceeds: Real = False if mixer.indexer is None else below(1.0 * mixer.indexer.top_k, cached + new, _CHOOSES)
    scheme = quantization.sections["attention"]
    expand = gemm(assembly.sequences * (cached + new), kv_b.columns, kv_b.inner, scheme)
    scores = mla_prefill(mixer, assembly.sequences, new, cached, tp)
    if assembly.plan.cp != 1:
        scores = _own_prompt(assembly, scores, span, mixer.heads * (mixer.nope + mixer.rope + mixer.v))
    expanded = [
        assembly.matrix_kernel("kv_b", count, expand, "attention"),
        assembly.attention_kernel("attention", count, MLA_PREFILL, scores),
    ]
    if not never(exceeds):
        chooses = _chooses(assembly, exceeds)
        chosen = mla_chosen(mixer, assembly.sequences, new, cached, quantization.kv_nbytes, tp)
        if assembly.plan.cp != 1:
            chosen = _own_prompt(assembly, chosen, span, mixer.heads * (2.0 * mixer.kv_rank + mixer.rope))
        assembly.kernels += _absorbed(assembly, where(chooses, count, 0), mixer, chosen, MLA_CHOSEN)
        count = where(chooses, 0, count)
        expanded = [kernel._replace(count=count) for kernel in expanded]
    if type(cached) in (float, int) and cached == 0.0:  # no prefix: nothing to re-expand
        assembly.kernels += expanded
        return
    latent = mla_extend(mixer, assembly.sequences, new, cached, quantization.kv_nbytes, tp)
    if assembly.plan.cp != 1:
        latent = _own_prompt(assembly, latent, span, mixer.heads * (2.0 * mixer.kv_rank + mixer.rope))
    absorbed = _absorbed(assembly, count, mixer, latent)
    with_prefix = where(cached > 0.0, sum(kernel.time for kernel in expanded), 0.0)
    is_absorbed = below(sum(kernel.time for kernel in absorbed), with_prefix, _SWITCHES)
    assembly.kernels += [kernel._replace(count=where(is_absorbed, 0, count)) for kernel in expanded]
    assembly.kernels += [kernel._replace(count=where(is_absorbed, count, 0)) for kernel in absorbed]


def _chooses(assembly: Assembly, exceeds: Real) -> Real:
    """Whether each token of a prompt reads a choice of its own; at the hardware limit tokens may share one."""
    is_bound = assembly.is_bound
    if is_bound is True:
        return False
    return exceeds if is_bound is False else exceeds & negated(is_bound)


def _own_prompt(assembly: Assembly, work: Work, span: Span, width: Real) -> Work:
    """Attention of the tokens of this rank; query and output of a token have so many values in all heads."""
    from roofline.physics.context import of_prompt

    queries = ACTIVATION_NBYTES * width / assembly.tp * assembly.sequences * span.new
    return of_prompt(assembly.plan, work, queries)


def _absorbed(assembly: Assembly, count: Real, mixer: Mla, latent: Work, kind: KernelKind = MLA_DECODE) -> list[Kernel]:
    """Attention in the latent, with the multiplications into and out of it, in 16 bits."""
    nbytes, tp = assembly.quantization.sections["attention"].weight_nbytes, assembly.tp
    peak = assembly.quantization.sixteen_bit_peak
    into = mla_absorb(mixer, assembly.tokens, mixer.nope, nbytes, tp)
    out = mla_absorb(mixer, assembly.tokens, mixer.v, nbytes, tp)
    return [
        assembly.kernel("absorb k", GEMM, "bf16", peak, count, into),
        assembly.attention_kernel("attention, absorbed", count, kind, latent),
        assembly.kernel("absorb v", GEMM, "bf16", peak, count, out),
    ]


MLA = MixerKind(_mla_projections, _mla_vectors, _mla_cache_bytes, _mla_add_kernels, (MLA_PREFILL, MLA_DECODE))


# Compressed attention of DeepSeek-V4: a window of shared key-values, and entries that compress several tokens.

_CHOSEN_OVERLAP = 2  # entries that an indexer chooses from overlap: each token contributes to two


def csa_pairs(mixer: Csa | Csa2, span: Span) -> tuple[Real, Real]:
    r"""Query-key pairs of compressed attention: within the window, and with compressed entries.

    .. math:: \sum \min(t, window),\quad \frac{1}{ratio} \sum \min(t, ratio\, k)

    Args:
        mixer: attention; without an indexer a token sees all entries.
        span: tokens computed [tokens].

    Returns:
        Two numbers of pairs, over all steps [1].

    Valid:
        Every token counts as its share of an entry, also before the entry is complete.

    Source:
        DeepSeek-V4 configuration and its published implementations (transformers, vLLM), 2026.
    """
    in_window = windowed_pairs(span.new, span.cached, mixer.window)
    if not mixer.ratio:
        return in_window, 0.0 * in_window
    if mixer.indexer is None:
        return in_window, causal_pairs(span.new, span.cached) / mixer.ratio
    limit = mixer.indexer.top_k * mixer.ratio
    return in_window, windowed_pairs(span.new, span.cached, limit) / mixer.ratio


def csa_attention(mixer: Csa | Csa2, batch: Real, span: Span, kv_nbytes: Real, tp: Real) -> Work:
    r"""Work of compressed attention over the window and the entries; keys are values.

    .. math:: F = 4 h d b\, \text{pairs},\quad X = h b\, \text{pairs (prompt)},\quad Q = d\, w_{kv} b s + 4 b N h d

    Args:
        mixer: attention with h heads of width d.
        batch: sequences b on this rank [sequences].
        span: tokens N computed; of several decode steps, the mean [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree, which divides the heads, not the keys [1].

    Returns:
        The work; Q reads s cached positions once for all heads: those that a decode step sees, or that a prompt could
        see [FLOP, B].

    Valid:
        A prompt reads the window and all entries of the cached prefix once.

    Source:
        Arithmetic over `csa_pairs`.
    """
    heads = mixer.heads / tp
    in_window, in_entries = csa_pairs(mixer, span)
    seen = (in_window + in_entries) / span.steps
    queries = span.new / span.steps
    entries = 0.0 if not mixer.ratio else span.cached / mixer.ratio
    cached = minimum(span.cached, 1.0 * mixer.window, WINDOW_FILLED) + entries
    return Work(
        flop=4.0 * heads * mixer.head_dim * batch * seen,
        kv_bytes=batch * mixer.head_dim * kv_nbytes * (seen if span.is_decode else cached),
        activation_bytes=2.0 * ACTIVATION_NBYTES * batch * queries * heads * mixer.head_dim,
        exponentials=0.0 if span.is_decode else heads * batch * seen,
        serial_depth=seen if span.is_decode else cached + span.new,
    )


def compressed_values(mixer: Csa) -> int:
    """Values per token that are projected for compressed entries and their index keys.

    Args:
        mixer: compressed attention.

    Returns:
        Contents and gates together [1].

    Source:
        DeepSeek-V4 implementations (transformers, vLLM), 2026: entries that an indexer chooses from
        overlap, so each token contributes to two of them.
    """
    return 2 * _overlap(mixer) * _entry_width(mixer) if mixer.ratio else 0


def _overlap(mixer: Csa) -> int:
    """Entries that each token contributes to."""
    return 1 if mixer.indexer is None else _CHOSEN_OVERLAP


def _entry_values(mixer: Csa) -> Real:
    """Cached values of compressed entries and index keys per token."""
    return _entry_width(mixer) / mixer.ratio if mixer.ratio else 0.0


def _entry_width(mixer: Csa) -> int:
    """Values of a compressed entry and its index key."""
    indexer = own_indexer(mixer)
    return mixer.head_dim + (0 if indexer is None else indexer.dim)


@Matrices
def _csa_projections(mixer: Csa, hidden: Real) -> Iterator[Projection]:
    groups, indexer = Sharded(mixer.o_groups, mixer.o_rank, "groups of the output projection"), own_indexer(mixer)
    yield Projection("q_a", "q_a, kv", mixer.q_rank, hidden)
    yield Projection("kv", "q_a, kv", mixer.head_dim, hidden)
    yield Projection("entries", "q_a, kv", compressed_values(mixer), hidden)
    if indexer is not None:
        yield Projection("index weights", "q_a, kv", indexer.heads, hidden)
    yield Projection("q_b", "q_b", Sharded(mixer.heads, mixer.head_dim, "heads"), mixer.q_rank)
    if indexer is not None:
        yield Projection("index q", "index q", indexer.heads * indexer.dim, mixer.q_rank)
    yield Projection("o_a", "o_a", groups, mixer.heads * mixer.head_dim / mixer.o_groups)
    yield Projection("o_b", "o_b", hidden, groups)


def _csa_vectors(mixer: Csa, tp: Real) -> Real:
    """Norms of query and key, sinks; norms and position biases of the entries and of their index keys."""
    values, width = 1.0 * (mixer.q_rank + mixer.head_dim) + mixer.heads / tp, _entry_width(mixer)
    return values + width + _overlap(mixer) * mixer.ratio * width if mixer.ratio else values


def _csa_cache_bytes(mixer: Csa, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001  every rank has the keys
    in_window = minimum(tokens, 1.0 * mixer.window, WINDOW_FILLED)
    return kv_nbytes * (mixer.head_dim * in_window + _entry_values(mixer) * tokens)


def _csa_add_kernels(assembly: Assembly, count: Real, mixer: Csa, span: Span) -> None:
    """Latent queries, one shared key-value per token, compressed entries, grouped output projection."""
    tokens, nbytes, indexer = assembly.tokens, assembly.quantization.kv_nbytes, own_indexer(mixer)
    tag = f" (1/{mixer.ratio})" if mixer.ratio else " (window)"
    matrices = _csa_projections.on_rank(mixer, assembly.hidden, assembly.tp)
    assembly.multiply("q_a, kv" + tag, count, matrices["q_a, kv"])
    assembly.multiply("q_b" + tag, count, matrices["q_b"])
    assembly.elementwise("q latent norm" + tag, count, kernels.latent_norm(tokens, mixer.q_rank))
    written = (mixer.head_dim + _entry_values(mixer)) * nbytes
    assembly.elementwise("rope, append" + tag, count, kernels.rope_append(tokens, written, mixer.q_rank))
    compressed = compressed_values(mixer)
    if compressed:
        assembly.elementwise("compress" + tag, count, kernels.activation(tokens, compressed / 2, gated=True))
    if indexer is not None:
        assembly.multiply("index q" + tag, count, matrices["index q"])
        keys = indexer.dim * nbytes / mixer.ratio
        add_scores(assembly, count, index_scores(indexer, indexer.heads, assembly.sequences, span, keys, mixer.ratio))
    work = csa_attention(mixer, assembly.sequences, span, nbytes, assembly.tp)
    assembly.attention("attention" + tag, count, CSA.reading[span.is_decode], work)
    scheme, grouped, groups = assembly.quantization.sections["attention"], matrices["o_a"], mixer.o_groups / assembly.tp
    work = grouped_gemm(tokens, groups, mixer.o_rank, grouped.inner, scheme)
    assembly.matrix("o_a" + tag, count, work, "attention")
    assembly.multiply("o_b" + tag, count, matrices["o_b"])
    assembly.all_reduce("attention all-reduce" + tag, count)


CSA = MixerKind(_csa_projections, _csa_vectors, _csa_cache_bytes, _csa_add_kernels, (ATTENTION_PREFILL, MLA_DECODE))
