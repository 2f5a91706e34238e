"""Caches that layers share: compressed attention of DeepSeek-V4.1 (CSA2), and layers that skip most of a prompt."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.numbers.operations import Real, minimum, where
from roofline.physics import kernels
from roofline.physics.assembly import FEWER_THAN_LAST, Assembly, Matrices, MixerKind, Projection, Sharded, absent
from roofline.physics.kernels import WINDOW_FILLED, Span, gemm, grouped_gemm
from roofline.physics.layers.attention import add_scores, index_scores, own_indexer
from roofline.physics.layers.latent import csa_attention
from roofline.specs.gpu import ATTENTION_PREFILL, MLA_DECODE
from roofline.specs.model import Csa2

_ENTRY_NBYTES = 0.5 + 1.0 / 16  # of a value of an entry in FP4, with an 8-bit scale for each 16
_KEY_NBYTES = 0.5 + 1.0 / 32  # of a value of an index key in FP4, with one for each 32


def computed(span: Span, last: Real) -> Span:
    """Tokens of a sequence that a late layer computes: the last ones of a prompt, or those of decode steps.

    Args:
        span: tokens of the pass [tokens].
        last: most tokens of a prompt that the layer computes; 0 for all [tokens].

    Returns:
        The span; what it leaves out counts as cached.

    Valid:
        Bounded replay: what the layer keeps of the tokens before, it never needs again.

    Source:
        DeepSeek-V4.1 report, 2026-09, section 3.2.2; vLLM pull request 58132; YOCO, arXiv:2405.05254.

    >>> computed(Span(1000.0, 24.0), 128)
    Span(new=128.0, cached=896.0, is_decode=False)
    """
    if absent(last) or span.is_decode:
        return span
    new = minimum(span.new, 1.0 * last, FEWER_THAN_LAST)
    return Span(new, span.cached + span.new - new)


def entry_bytes(mixer: Csa2, kv_nbytes: Real) -> Real:
    r"""Entries and index keys that one token leaves in a layer that owns them.

    .. math:: \frac{d\, w_e + d_i\, w_i}{ratio}

    Args:
        mixer: attention with entries of width d and index keys of width d_i.
        kv_nbytes: bytes per cached value [B].

    Returns:
        Bytes; zero in a layer that reads those of an earlier one [B].

    Source:
        DeepSeek-V4.1 report, 2026-09: 890 B per token in FP4, of three layers at ratio 2 and one at ratio 1.

    >>> entry_bytes(Csa2(64, 512, 1280, 1024, 8, 128, ratio=1, packed=True), 1.0)
    288.0
    """
    if not _owns_entries(mixer):
        return 0.0
    entry, key = (_ENTRY_NBYTES, _KEY_NBYTES) if mixer.packed else (kv_nbytes, kv_nbytes)
    return (mixer.head_dim * entry + _key_width(mixer) * key) / mixer.ratio


def csa2_cache_bytes(mixer: Csa2, tokens: Real, kv_nbytes: Real) -> Real:
    r"""Cache of one sequence in one layer, on every rank.

    .. math:: d\, w_{kv} \min(n, window) + n \frac{d\, w_e + d_i\, w_i}{ratio}

    Args:
        mixer: attention with one key-value of width d.
        tokens: length n of the sequence [tokens].
        kv_nbytes: bytes per cached value w_kv [B].

    Returns:
        Bytes; without the second term in a layer that reads the entries of an earlier one [B].

    Source:
        DeepSeek-V4.1 configuration and report, 2026-09.
    """
    in_window = minimum(tokens, 1.0 * mixer.window, WINDOW_FILLED)
    return mixer.head_dim * kv_nbytes * in_window + entry_bytes(mixer, kv_nbytes) * tokens


def _owns_entries(mixer: Csa2) -> bool:
    return not (mixer.kv_shared or absent(mixer.ratio))


def _key_width(mixer: Csa2) -> Real:
    """Values of the index key that a layer derives from an entry."""
    indexer = own_indexer(mixer)
    return 0.0 if indexer is None else 1.0 * indexer.dim


@Matrices
def _projections(mixer: Csa2, hidden: Real) -> Iterator[Projection]:
    groups, indexer = Sharded(mixer.o_groups, mixer.o_rank, "groups of the output projection"), own_indexer(mixer)
    owns = _owns_entries(mixer)
    yield Projection("q_a", "q_a, kv", mixer.q_rank, hidden)
    yield Projection("kv", "q_a, kv", mixer.head_dim, hidden)
    if owns:  # entries of several tokens are pooled by a gate
        yield Projection("entries", "q_a, kv", mixer.head_dim * where(mixer.ratio > 1, 2, 1), hidden)
    if indexer is not None:
        yield Projection("index weights", "q_a, kv", indexer.heads, hidden)
    yield Projection("q_b", "q_b", Sharded(mixer.heads, mixer.head_dim, "heads"), mixer.q_rank)
    if indexer is not None:
        yield Projection("index q", "index q", indexer.heads * indexer.dim, mixer.q_rank)
        if owns:
            yield Projection("index k", "index k", indexer.dim, mixer.head_dim)
    yield Projection("o_a", "o_a", groups, mixer.heads * mixer.head_dim / mixer.o_groups)
    yield Projection("o_b", "o_b", hidden, groups)


def _vectors(mixer: Csa2, tp: Real) -> Real:
    """Norms of query and key, sinks; norms of the entries and of their index keys."""
    values = 1.0 * (mixer.q_rank + mixer.head_dim) + mixer.heads / tp
    return values + mixer.head_dim + _key_width(mixer) if _owns_entries(mixer) else values


def _cache_bytes(mixer: Csa2, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001  every rank has the keys
    return csa2_cache_bytes(mixer, tokens, kv_nbytes)


def _add_kernels(assembly: Assembly, count: Real, mixer: Csa2, span: Span) -> None:
    if absent(mixer.last):
        _add(assembly, count, mixer, span)
        return
    with assembly.last_tokens(mixer.last):
        _add(assembly, count, mixer, computed(span, mixer.last))


def _add(assembly: Assembly, count: Real, mixer: Csa2, span: Span) -> None:
    """Latent queries, one key-value per token, entries of this layer or of another, grouped output projection."""
    tokens, nbytes, indexer = assembly.tokens, assembly.quantization.kv_nbytes, own_indexer(mixer)
    tag, owns = _tag(mixer), _owns_entries(mixer)
    scheme = assembly.quantization.sections["attention"]
    matrices = _projections.on_rank(mixer, assembly.hidden, assembly.tp)
    assembly.multiply("q_a, kv" + tag, count, matrices["q_a, kv"])
    assembly.multiply("q_b" + tag, count, matrices["q_b"])
    assembly.elementwise("q latent norm" + tag, count, kernels.latent_norm(tokens, mixer.q_rank))
    written = mixer.head_dim * nbytes + entry_bytes(mixer, nbytes)
    assembly.elementwise("rope, append" + tag, count, kernels.rope_append(tokens, written, mixer.q_rank))
    if owns:
        assembly.elementwise("compress" + tag, count, kernels.activation(tokens, mixer.head_dim, gated=True))
    if indexer is not None:
        assembly.multiply("index q" + tag, count, matrices["index q"])
        if owns:
            keys = gemm(tokens / mixer.ratio, indexer.dim, mixer.head_dim, scheme)
            assembly.matrix("index k" + tag, count, keys, "attention")
        width = indexer.dim * (_KEY_NBYTES if mixer.packed else nbytes) / mixer.ratio
        scores = index_scores(indexer, indexer.heads, assembly.sequences, span, width, mixer.ratio)
        add_scores(assembly, count, scores)
    work = csa_attention(mixer, assembly.sequences, span, _read_nbytes(mixer, nbytes), assembly.tp)
    assembly.attention("attention" + tag, count, CSA2.reading[span.is_decode], work)
    grouped, groups = matrices["o_a"], mixer.o_groups / assembly.tp
    work = grouped_gemm(tokens, groups, mixer.o_rank, grouped.inner, scheme)
    assembly.matrix("o_a" + tag, count, work, "attention")
    assembly.multiply("o_b" + tag, count, matrices["o_b"])
    assembly.all_reduce("attention all-reduce" + tag, count)


def _read_nbytes(mixer: Csa2, kv_nbytes: Real) -> Real:
    """Mean bytes of a value that attention reads: of the window in the format of the cache, of the entries in theirs.

    Both parts at their most, as in any context longer than what an indexer chooses.
    """
    if not mixer.packed or absent(mixer.ratio):
        return kv_nbytes
    entries: Real = 0.0 if mixer.indexer is None else 1.0 * mixer.indexer.top_k
    return (mixer.window * kv_nbytes + entries * _ENTRY_NBYTES) / (mixer.window + entries)


def _tag(mixer: Csa2) -> str:
    """What a layer reads beyond its window, and what it computes for that: all, an index, or nothing."""
    if absent(mixer.ratio):
        return " (window)"
    role = "full" if not mixer.kv_shared else "reuse" if own_indexer(mixer) is None else "reindex"
    return f" ({role} 1/{mixer.ratio})"


CSA2 = MixerKind(_projections, _vectors, _cache_bytes, _add_kernels, (ATTENTION_PREFILL, MLA_DECODE))
