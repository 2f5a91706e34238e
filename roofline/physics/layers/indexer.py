"""An indexer: small attention that scores what is cached and keeps the best for the attention proper."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics.assembly import Assembly
from roofline.physics.geometry import Span, causal_pairs
from roofline.physics.one_equation import Work
from roofline.specs.gpu import Gpu
from roofline.specs.kernels import INDEXER
from roofline.specs.layers import Csa, Gqa, Indexer, Mla

__all__ = ["add_scores", "index_scores", "own_indexer", "score_dtype"]

_ACTIVATION_NBYTES = 2.0  # queries, keys, values and outputs are 16-bit between kernels
_SCORE_NBYTES = 4.0  # scores are fp32, written by the indexer and read by the selection


def own_indexer(mixer: Gqa | Mla | Csa) -> Indexer | None:
    """Indexer that a layer runs: one that reuses the choice of another layer has no matrices, keys and scores.

    Args:
        mixer: attention, with an indexer or none.

    Returns:
        The indexer; None where there is none, or where it is another layer's.
    """
    return mixer.indexer if mixer.indexer is not None and mixer.indexer.own else None


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
        ratio: tokens that one compressed entry, or one pooled index key, stands for [tokens].

    Returns:
        The work [FLOP, B].

    Valid:
        The choice of the best is not counted beyond one reading of the scores.

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
        activation_bytes=2.0 * _SCORE_NBYTES * seen / ratio + _ACTIVATION_NBYTES * heads * indexer.dim * queries,
        depth=1.0 * indexer.dim,
    )


def add_scores(assembly: Assembly, count: Real, scores: Work) -> None:
    """Add scores of an indexer over fp8 keys, in fp8 where the GPU has it.

    Args:
        assembly: the pass so far.
        count: layers that have them [1].
        scores: what they do.
    """
    peak = score_dtype(assembly.gpu, assembly.precision.sixteen_bit_peak)
    assembly.kernels.append(assembly.kernel("index scores", INDEXER, peak, peak, count, scores))


def score_dtype(gpu: Gpu, wide: str) -> str:
    """Dtype in which an indexer over fp8 keys scores: fp8 where the GPU has it.

    Args:
        gpu: the GPU.
        wide: its 16-bit dtype [text].

    Returns:
        The dtype [text].
    """
    return "fp8" if "fp8" in gpu.peaks else wide
