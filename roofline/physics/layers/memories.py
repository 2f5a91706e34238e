"""Lookup memories: tables of which a token reads a few rows: hashed n-grams (Engram), product keys."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.numbers.operations import Real, minimum
from roofline.physics import kernels
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly, Matrices, NetworkKind, Projection, Sharded
from roofline.physics.equation import Work
from roofline.physics.plan import Plan
from roofline.specs.model import MemoryFfn, Model, Ngrams

#: Kernel that reads the rows of n-grams.
NGRAM_ROWS = "n-gram embedding"
_SECTION = "linear"
_SCORE_NBYTES = 4.0  # scores of keys are fp32, written and read by the selection


# Embeddings of n-grams: before a layer with a gate (Engram, per-layer embeddings), or added to the input (LongCat).


def row_nbytes(ngrams: Ngrams, embed_nbytes: Real) -> Real:
    """Bytes of a value of a row.

    Args:
        ngrams: the tables.
        embed_nbytes: those of the embedding's format [B].

    Returns:
        Bytes, block scales included [B].

    Source:
        DeepSeek-V4.1-Flash: `engram.embed.weight` F8_E4M3 with `engram.embed.scale` F8_E8M0 for each 32 values.

    >>> row_nbytes(Ngrams(rows=100, width=256, lookups=24, packed=True), 2.0)
    1.03125
    """
    return 1.0 + 1.0 / 32 if ngrams.packed else embed_nbytes


def ngram_columns(model: Model, ngrams: Ngrams) -> Real:
    r"""Outputs of the projection of the rows that a token looks up.

    .. math:: (s + 1) H\ \text{(keys of s streams and a value)},\quad H\ \text{(without a gate)}

    Args:
        model: the model with s streams of width H.
        ngrams: its tables.

    Returns:
        Columns [1].

    Source:
        `engram.wkv` of DeepSeek-V4.1; Qwen4Exp (transformers 5.23); `ngram_proj` of LongCat-Flash-Lite.
    """
    return model.streams * model.hidden + model.hidden if ngrams.gated else 1.0 * model.hidden


def ngram_values(model: Model, ngrams: Ngrams, tp: Real = 1) -> tuple[Real, Real, Real]:
    r"""Parameters of n-gram embeddings on one rank.

    .. math:: T q e (s + 1) H,\quad T (m + k) s H,\quad \frac{R e}{tp}

    Args:
        model: the model with s streams of width H.
        ngrams: T tables of R rows of e values together, of which a token reads q each; m norms, a convolution over k
            tokens.
        tp: tensor-parallel degree, which divides the columns of the tables [1].

    Returns:
        Of projections, of norms and convolutions, and of the tables [1].

    Source:
        Shapes of the checkpoints' tensors (DeepSeek-V4.1-Flash, Qwen3.8-Flash-Next, LongCat-Flash-Lite).
    """
    row_width, width = ngrams.lookups * ngrams.width, model.streams * model.hidden
    return (
        1.0 * ngrams.tables * row_width * ngram_columns(model, ngrams),
        ngrams.tables * (1.0 * ngrams.norms + ngrams.conv) * width,
        ngrams.rows * ngrams.width / tp,
    )


def add_ngrams(assembly: Assembly, ngrams: Ngrams) -> None:
    """Add a look-up, one key per stream and one value, gates and a short convolution; or a projection to the input."""
    tokens, count = assembly.tokens, ngrams.tables
    nbytes = row_nbytes(ngrams, assembly.quantization.sections["embed"].weight_nbytes)
    row_width, width = ngrams.lookups * ngrams.width, assembly.model.streams * assembly.hidden
    assembly.elementwise(NGRAM_ROWS, count, kernels.embedding(tokens, row_width, nbytes))
    columns = ngram_columns(assembly.model, ngrams)
    if not ngrams.gated:
        assembly.gemm("n-gram projection", count, columns, row_width, _SECTION)
        assembly.elementwise("n-gram add", count, kernels.add(tokens, assembly.hidden))
        return
    assembly.gemm("n-gram key, value", count, columns, row_width, _SECTION)
    assembly.elementwise("n-gram gate", count, kernels.activation(tokens, width, gated=True))
    if ngrams.conv:
        assembly.elementwise("n-gram conv", count, kernels.activation(tokens, width, gated=False))


# Product keys: a feed-forward network whose rows are the pairs of two small sets of keys.


def memory_rows(ffn: MemoryFfn) -> Real:
    """Rows of the table.

    Args:
        ffn: the memory.

    Returns:
        The count [1].

    Source:
        Lample et al., arXiv:1907.05242, section 3.1: a row for each pair of sub-keys.

    >>> memory_rows(MemoryFfn(keys=1024, heads=4, key_dim=512, top_k=32, width=4096))
    1048576.0
    """
    return 1.0 * ffn.keys * ffn.keys


def idle_memory(ffn: MemoryFfn) -> Real:
    r"""Values of the table that a token does not read.

    .. math:: \max(K^2 - h k,\ 0)\, w

    Args:
        ffn: memory of K x K rows of w values, of which each of h heads reads k.

    Returns:
        The count; zero where the rows are another layer's [1].

    Source:
        Arithmetic.

    >>> idle_memory(MemoryFfn(keys=4, heads=2, key_dim=8, top_k=3, width=10))
    100.0
    """
    if ffn.shared:
        return 0.0
    rows = memory_rows(ffn)
    return (rows - minimum(1.0 * ffn.heads * ffn.top_k, rows)) * ffn.width


def memory_scores(ffn: MemoryFfn, tokens: Real) -> Work:
    r"""Work of scoring the sub-keys of both halves of every query, and of choosing the best pairs.

    .. math:: F = 2 h K d\, t,\quad Q = w_k h K d + 8 h (2 K + k^2)\, t + 2 h d\, t

    Args:
        ffn: memory with h heads, queries of d values in two halves, K keys for each half, k rows per head.
        tokens: tokens t of the pass [tokens].

    Returns:
        The work [FLOP, B]; sub-keys take two bytes a value.

    Valid:
        The best pairs are among the k x k sums of the best k of each half.

    Source:
        Lample et al., arXiv:1907.05242, section 3.1; Berges et al. (Memory Layers at Scale), arXiv:2412.09764.
    """
    queries = ffn.heads * tokens
    return Work(
        flop=2.0 * queries * ffn.keys * ffn.key_dim,
        weight_bytes=ACTIVATION_NBYTES * ffn.heads * ffn.keys * ffn.key_dim,
        activation_bytes=2.0 * _SCORE_NBYTES * queries * (2.0 * ffn.keys + ffn.top_k**2)
        + ACTIVATION_NBYTES * queries * ffn.key_dim,
        depth=ffn.key_dim / 2.0,
    )


def memory_read(ffn: MemoryFfn, tokens: Real, weight_nbytes: Real, tp: Real) -> Work:
    r"""Work of reading the rows that the heads chose, and of their weighted sum.

    .. math:: F = \frac{2 h k w\, t}{tp},\quad Q_w = \frac{w_w w}{tp} \min(h k t,\ K^2),\quad Q_a = \frac{2 w t}{tp}

    Args:
        ffn: memory whose h heads read k rows of w values each.
        tokens: tokens t of the pass [tokens].
        weight_nbytes: bytes w_w per value of a row [B].
        tp: tensor-parallel degree, which divides the columns [1].

    Returns:
        The work [FLOP, B]; no row is read twice in a pass.

    Source:
        Berges et al. (Memory Layers at Scale), arXiv:2412.09764, section 3: bandwidth bounds the look-up.
    """
    width, chosen = ffn.width / tp, ffn.heads * ffn.top_k * tokens
    read = minimum(1.0 * chosen, memory_rows(ffn), "a pass reads every row of a memory")
    return Work(
        flop=2.0 * chosen * width,
        weight_bytes=read * width * weight_nbytes,
        activation_bytes=ACTIVATION_NBYTES * tokens * width,
    )


@Matrices
def _projections(ffn: MemoryFfn, hidden: Real) -> Iterator[Projection]:
    width = Sharded(ffn.width, 1, "memory width")
    yield Projection("memory q", "memory q", 1.0 * ffn.heads * ffn.key_dim, hidden, _SECTION)
    yield Projection("sub-keys", "sub-keys", 2.0 * ffn.keys, ffn.heads * ffn.key_dim / 2.0, "norm")
    if not ffn.shared:
        yield Projection("rows", "rows", width, memory_rows(ffn), _SECTION)
    if ffn.gated:
        yield Projection("memory gate", "memory gate", width, hidden, _SECTION)
        yield Projection("memory out", "memory out", hidden, width, _SECTION)


def _inner_width(ffn: MemoryFfn, hidden: Real, plan: Plan) -> Real:  # noqa: ARG001
    """Queries, scores of the sub-keys, and the sum before and after its gate."""
    return 1.0 * ffn.heads * (ffn.key_dim + 2.0 * ffn.keys) + 2.0 * ffn.width / plan.tp


def _add_kernels(assembly: Assembly, count: Real, ffn: MemoryFfn) -> None:
    matrices, tokens, tp = _projections.on_rank(ffn, assembly.hidden, assembly.tp), assembly.tokens, assembly.tp
    assembly.multiply("memory q", count, matrices["memory q"])
    assembly.elementwise("memory scores", count, memory_scores(ffn, tokens))
    nbytes = assembly.quantization.sections[_SECTION].weight_nbytes
    assembly.elementwise("memory rows", count, memory_read(ffn, tokens, nbytes, tp))
    if ffn.gated:
        assembly.multiply("memory gate", count, matrices["memory gate"])
        assembly.elementwise("memory activation", count, kernels.activation(tokens, ffn.width / tp, gated=True))
        assembly.multiply("memory out", count, matrices["memory out"])
    assembly.all_reduce("memory all-reduce", count)


MEMORY = NetworkKind(_projections, _inner_width, _add_kernels)
