"""Indexer of sparse attention: scores all cached tokens and keeps the best for attention."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.geometry import Span, causal_pairs
from roofline.physics.one_equation import Work
from roofline.specs.gpu import Gpu
from roofline.specs.kernels import INDEXER
from roofline.specs.layers import Csa, Gqa, Indexer, Mla

_SCORE_NBYTES = 4.0  # scores are fp32, written by the indexer and read by the selection


def own_indexer(mixer: Gqa | Mla | Csa) -> Indexer | None:
    """The indexer that a layer runs; None where it has none or reuses the choice of another layer."""
    return mixer.indexer if mixer.indexer is not None and mixer.indexer.own else None


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
    seen = batch * causal_pairs(span.new, span.cached) / span.steps
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
