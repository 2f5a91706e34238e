"""Work of sparse attention: indexers that score the cache, and attention over compressed entries."""

from __future__ import annotations

from roofline.ops import Real, minimum
from roofline.physics.geometry import WINDOW_FILLED, Span, causal_pairs, windowed_pairs
from roofline.physics.one_equation import Work
from roofline.specs.layers import Csa, Indexer

__all__ = ["csa_attention", "csa_pairs", "index_scores"]

_ACTIVATION_NBYTES = 2.0  # queries, keys, values and outputs are 16-bit between kernels
_SCORE_NBYTES = 4.0  # scores are fp32, written by the indexer and read by the selection


def index_scores(indexer: Indexer, heads: Real, batch: Real, span: Span, key_nbytes: Real, ratio: int = 1) -> Work:
    r"""Work of scoring every cached token, or compressed entry, and of keeping the best.

    .. math:: F = 2 h_i d_i \frac{\text{pairs}}{ratio},\quad
              Q = w_i s + 8 \frac{\text{pairs}}{ratio} + 2 h_i d_i N

    per sequence, where s = P + N keys are read for the N tokens of a prompt, and the mean length in a decode step.

    Args:
        indexer: the indexer.
        heads: index heads h_i on this rank [1].
        batch: sequences b on this rank [sequences].
        span: tokens N computed; of several decode steps the mean is taken [tokens].
        key_nbytes: bytes of index keys per token w_i [B].
        ratio: tokens that one compressed entry stands for [tokens].

    Returns:
        The work [FLOP, B].

    Valid:
        The choice of the best is not counted beyond one reading of the scores.

    Source:
        DeepSeek-V3.2 report (lightning indexer), 2025-12: every earlier token is scored.
    """
    seen = batch * causal_pairs(span.new, span.cached) / span.steps
    read = seen if span.is_decode else batch * (span.cached + span.new)
    queries = batch * span.new / span.steps
    return Work(
        flop=2.0 * heads * indexer.dim * seen / ratio,
        kv_bytes=key_nbytes * read,
        activation_bytes=2.0 * _SCORE_NBYTES * seen / ratio + _ACTIVATION_NBYTES * heads * indexer.dim * queries,
        depth=1.0 * indexer.dim,
    )


def csa_pairs(mixer: Csa, span: Span) -> tuple[Real, Real]:
    r"""Query-key pairs of compressed attention: within the window, and with compressed entries.

    .. math:: \sum \min(t, window),\quad \frac{1}{ratio} \sum \min(t, ratio\, k)

    Args:
        mixer: attention; without an indexer all entries are seen.
        span: tokens computed [tokens].

    Returns:
        Two numbers of pairs, over all steps [1].

    Valid:
        Entries are counted as if each token completed its share of one.

    Source:
        DeepSeek-V4 configuration and its published implementations (transformers, vLLM), 2026.
    """
    start, end = span.cached, span.cached + span.new
    near = windowed_pairs(end, mixer.window) - windowed_pairs(start, mixer.window)
    if not mixer.ratio:
        return near, 0.0 * near
    if mixer.indexer is None:
        return near, causal_pairs(span.new, span.cached) / mixer.ratio
    limit = mixer.indexer.top_k * mixer.ratio
    return near, (windowed_pairs(end, limit) - windowed_pairs(start, limit)) / mixer.ratio


def csa_attention(mixer: Csa, batch: Real, span: Span, kv_nbytes: float, tp: Real) -> Work:
    r"""Work of compressed attention: scores and values of the window and of the entries, keys being values.

    .. math:: F = 4 h d b\, \text{pairs},\quad X = h b\, \text{pairs (prompt)},\quad Q = d\, w_{kv} b s + 4 b N h d

    Args:
        mixer: attention with h heads of width d.
        batch: sequences b on this rank [sequences].
        span: tokens N computed; of several decode steps the mean is taken [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree; it divides the heads, not the keys [1].

    Returns:
        The work; Q reads s cached positions once for all heads: those that a decode step sees, those that a prompt
        could [FLOP, B].

    Valid:
        Of a prompt the window and all entries of the cached prefix are read once.

    Source:
        Arithmetic over `csa_pairs`.
    """
    heads = mixer.heads / tp
    near, far = csa_pairs(mixer, span)
    seen = (near + far) / span.steps
    queries = span.new / span.steps
    entries = 0.0 if not mixer.ratio else span.cached / mixer.ratio
    kept = minimum(span.cached, 1.0 * mixer.window, WINDOW_FILLED) + entries
    return Work(
        flop=4.0 * heads * mixer.head_dim * batch * seen,
        kv_bytes=batch * mixer.head_dim * kv_nbytes * (seen if span.is_decode else kept),
        activation_bytes=2.0 * _ACTIVATION_NBYTES * batch * queries * heads * mixer.head_dim,
        exponentials=0.0 if span.is_decode else heads * batch * seen,
        serial_depth=seen if span.is_decode else kept + span.new,
    )
