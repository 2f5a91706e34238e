"""Compressed attention of DeepSeek-V4: a window of shared key-values, and entries that compress several tokens."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real, minimum
from roofline.physics import elementwise
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.geometry import WINDOW_FILLED, Span, causal_pairs, windowed_pairs
from roofline.physics.layers.indexer import add_scores, index_scores, own_indexer
from roofline.physics.layers.kind import MixerKind
from roofline.physics.linear import grouped_gemm
from roofline.physics.one_equation import Work
from roofline.physics.projection import Matrices, Projection, Sharded
from roofline.specs.kernels import ATTENTION_PREFILL, MLA_DECODE
from roofline.specs.layers import Csa

_CHOSEN_OVERLAP = 2  # entries that an indexer chooses from overlap: each token contributes to two


def csa_pairs(mixer: Csa, span: Span) -> tuple[Real, Real]:
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


def csa_attention(mixer: Csa, batch: Real, span: Span, kv_nbytes: float, tp: Real) -> Work:
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
    if not mixer.ratio:
        return 0
    indexer = own_indexer(mixer)
    return 2 * _overlap(mixer) * (mixer.head_dim + (0 if indexer is None else indexer.dim))


def _overlap(mixer: Csa) -> int:
    """Entries that each token contributes to."""
    return 1 if mixer.indexer is None else _CHOSEN_OVERLAP


def _entry_values(mixer: Csa) -> Real:
    """Cached values of compressed entries and index keys per token."""
    if not mixer.ratio:
        return 0.0
    indexer = own_indexer(mixer)
    return (mixer.head_dim + (0 if indexer is None else indexer.dim)) / mixer.ratio


@Matrices
def _projections(mixer: Csa, hidden: Real) -> Iterator[Projection]:
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


def _vectors(mixer: Csa, tp: Real) -> Real:
    """Norms of query and key, sinks; norms and position biases of the entries and of their index keys."""
    values = 1.0 * (mixer.q_rank + mixer.head_dim) + mixer.heads / tp
    if not mixer.ratio:
        return values
    indexer = own_indexer(mixer)
    width = mixer.head_dim + (0 if indexer is None else indexer.dim)
    return values + width + _overlap(mixer) * mixer.ratio * width


def _cache_bytes(mixer: Csa, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001  every rank has the keys
    in_window = minimum(tokens, 1.0 * mixer.window, WINDOW_FILLED)
    return kv_nbytes * (mixer.head_dim * in_window + _entry_values(mixer) * tokens)


def _add_kernels(assembly: Assembly, count: Real, mixer: Csa, span: Span) -> None:
    """Latent queries, one shared key-value per token, compressed entries, grouped output projection."""
    tokens, nbytes, indexer = assembly.tokens, assembly.quantization.kv_nbytes, own_indexer(mixer)
    tag = f" (1/{mixer.ratio})" if mixer.ratio else " (window)"
    matrices = _projections.on_rank(mixer, assembly.hidden, assembly.tp)
    assembly.multiply("q_a, kv" + tag, count, matrices["q_a, kv"])
    assembly.multiply("q_b" + tag, count, matrices["q_b"])
    assembly.elementwise("q latent norm" + tag, count, elementwise.latent_norm(tokens, mixer.q_rank))
    written = (mixer.head_dim + _entry_values(mixer)) * nbytes
    assembly.elementwise("rope, append" + tag, count, elementwise.rope_append(tokens, written, mixer.q_rank))
    compressed = compressed_values(mixer)
    if compressed:
        assembly.elementwise("compress" + tag, count, elementwise.activation(tokens, compressed / 2, gated=True))
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


CSA = MixerKind(_projections, _vectors, _cache_bytes, _add_kernels, (ATTENTION_PREFILL, MLA_DECODE))
