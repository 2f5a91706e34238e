"""Work of kernels: matrix multiplications, element-wise operations, collectives, and the tokens that attention sees."""

from __future__ import annotations

from roofline.numbers.operations import Real, comparable, floor, minimum, where
from roofline.physics.equation import Work
from roofline.physics.plan import Scheme
from roofline.specs.gpu import ALL_REDUCE, P2P, KernelKind
from roofline.specs.model import Gqa, Mla
from roofline.support.records import NamedTuple

# Work of matrix multiplications with weights.

_OUTPUT_NBYTES = 2.0  # outputs are 16-bit
_QUANTISE_NBYTES = 3.0  # dynamic quantization reads 16-bit and writes 8-bit values


def gemm(rows: Real, columns: Real, inner: Real, scheme: Scheme, bias: bool = False) -> Work:
    r"""Work of rows x inner times inner x columns.

    .. math:: F = 2 m n k,\quad Q = w n k + a m k + 2 m n,\quad Q_s = 3 m k,\quad d = k

    Args:
        rows: tokens m [tokens].
        columns: outputs n on this GPU [1].
        inner: summed-over width k on this GPU [1].
        scheme: weight and activation bytes w, a [B], and whether activations are quantized.
        bias: whether a bias vector is read too [bool].

    Returns:
        The work [FLOP, B].

    Valid:
        Each operand is read and each result written once; re-reads hit the L2 cache.

    Source:
        Arithmetic; the terms d and Q_s are explained in docs/method.md.

    >>> gemm(1, 2, 3, Scheme("bf16", 2.0, 2.0, "bf16", "bf16")).flop
    12.0
    """
    return Work(
        flop=2.0 * rows * columns * inner,
        weight_bytes=columns * inner * scheme.weight_nbytes + (_OUTPUT_NBYTES * columns if bias else 0.0),
        activation_bytes=rows * inner * scheme.activation_nbytes + _OUTPUT_NBYTES * rows * columns,
        serial_bytes=where(scheme.dynamic, _QUANTISE_NBYTES * rows * inner, 0.0),
        depth=inner,
    )


def grouped_gemm(rows: Real, groups: Real, columns: Real, inner: Real, scheme: Scheme) -> Work:
    """Work of several multiplications of the same shape in one kernel, each with its own weights.

    Args:
        rows: tokens [tokens].
        groups: multiplications on this GPU [1].
        columns: outputs of each [1].
        inner: summed-over width of each [1].
        scheme: weight and activation bytes [B], and whether activations are quantized.

    Returns:
        The work [FLOP, B].

    Source:
        `gemm`, once per group; a tile still walks one inner width.
    """
    group = gemm(rows, columns, inner, scheme)
    return Work(
        flop=groups * group.flop,
        weight_bytes=groups * group.weight_bytes,
        activation_bytes=groups * group.activation_bytes,
        serial_bytes=groups * group.serial_bytes,
        depth=group.depth,
    )


# Work of memory-bound kernels: norms, activations, embedding, sampling.

_NBYTES = 2.0  # activations and norm weights are 16-bit
_LOGIT_NBYTES = 4.0  # logits are widened to fp32 for sampling


def norm_add(tokens: Real, hidden: int, streams: int = 1) -> Work:
    """Work of a norm fused with the residual addition: the streams and one layer's input, read and written.

    Args:
        tokens: tokens of the pass [tokens].
        hidden: model width [1].
        streams: residual streams; more than one with hyper-connections [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(weight_bytes=_NBYTES * hidden, activation_bytes=(2.0 * streams + 2.0) * _NBYTES * tokens * hidden)


def rope_append(tokens: Real, cached_nbytes: Real, norm_values: float) -> Work:
    """Work of rotating queries and keys (and of their norms, if any) and appending to the KV cache.

    The traffic of queries and keys counts with the attention kernel.

    Args:
        tokens: tokens of the pass [tokens].
        cached_nbytes: bytes appended per token [B].
        norm_values: weights of query, key or latent norms [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(weight_bytes=_NBYTES * norm_values, kv_bytes=tokens * cached_nbytes)


def activation(tokens: Real, width: Real, gated: bool) -> Work:
    """Work of the activation between the two halves of a feed-forward network.

    Args:
        tokens: tokens of the pass [tokens].
        width: width of the network on this GPU [1].
        gated: whether gate and up are multiplied: two reads and a write; else one of each [bool].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=(3.0 if gated else 2.0) * _NBYTES * tokens * width)


def latent_norm(tokens: Real, rank: int) -> Work:
    """Work of normalizing a query or KV latent: a read and a write; its weights count with `rope_append`.

    Args:
        tokens: tokens of the pass [tokens].
        rank: width of the latent [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=2.0 * _NBYTES * tokens * rank)


def top_k(tokens: Real, experts: int) -> Work:
    """Work of choosing experts: one read of the router's fp32 scores.

    Args:
        tokens: tokens of the pass [tokens].
        experts: scores per token [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=_LOGIT_NBYTES * tokens * experts)


def add(tokens: Real, hidden: int) -> Work:
    """Work of adding two activations, such as the outputs of shared and routed experts: two reads and a write.

    Args:
        tokens: tokens of the pass [tokens].
        hidden: model width [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=3.0 * _NBYTES * tokens * hidden)


def embedding(tokens: Real, hidden: int, weight_nbytes: float) -> Work:
    """Work of the input embedding: a gather of one row per token.

    Args:
        tokens: tokens of the pass [tokens].
        hidden: model width [1].
        weight_nbytes: bytes per weight [B].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(weight_bytes=tokens * hidden * weight_nbytes, activation_bytes=_NBYTES * tokens * hidden)


def sample(sequences: Real, vocab: Real) -> Work:
    """Work of sampling a token from fp32 logits.

    Args:
        sequences: sequences [sequences].
        vocab: logits per sequence [1].

    Returns:
        The work [B].

    Valid:
        Each rank reads all logits, after they were gathered.

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=_LOGIT_NBYTES * sequences * vocab)


# Bytes that one GPU sends over the link in one direction, by collective.


def all_reduce_bytes(tensor: Real, ranks: Real) -> Real:
    r"""Bytes sent to sum a tensor over ranks, on a ring.

    .. math:: V = \frac{2 (n - 1)}{n} S

    In-switch reduction needs S only (`LinkRoof.least`).

    Args:
        tensor: size S of the tensor [B].
        ranks: GPUs n [1].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009 (a ring is bandwidth-optimal
        without a reducing switch); Klenk et al., ISCA 2020 (in-switch reduction).

    >>> all_reduce_bytes(8.0, 4)
    12.0
    """
    return 2.0 * (ranks - 1) / ranks * tensor


def all_gather_bytes(tensor: Real, ranks: Real) -> Real:
    """Bytes sent to collect the shards of a tensor on every rank, to sum it and leave each a shard, or to exchange it.

    Args:
        tensor: size of the gathered or summed tensor, or of what one rank holds before the exchange [B].
        ranks: GPUs [1].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        Chan et al., Concurrency and Computation 19, 2007: what must be sent whatever the algorithm; a reduce-scatter is
        the reverse of an all-gather. In an exchange a rank sends all but its own part; parts are equally large.

    >>> all_gather_bytes(8.0, 4)
    6.0
    """
    return (ranks - 1) / ranks * tensor


def sent_bytes(collective: KernelKind, tensor: Real, ranks: Real) -> Real:
    """Bytes that a collective sends.

    Args:
        collective: its kind.
        tensor: size of what is summed, gathered, scattered, exchanged or handed over [B].
        ranks: GPUs that take part [1].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        The function of the collective; a hand-over to the next pipeline stage sends the tensor.

    >>> sent_bytes(ALL_REDUCE, 8.0, 4)
    12.0
    """
    if collective is P2P:
        return tensor
    return all_reduce_bytes(tensor, ranks) if collective is ALL_REDUCE else all_gather_bytes(tensor, ranks)


# Attention geometry: how many query-key pairs a pass computes.

WINDOW_FILLED = "the attention window fills"


@comparable
class Span(NamedTuple):
    """Tokens of a sequence that a pass computes: those of a prompt, or one in each of several decode steps."""

    new: Real  # [tokens]
    cached: Real  # [tokens] in the cache before them
    is_decode: bool = False  # the pass is the mean of `new` decode steps

    @property
    def steps(self) -> Real:
        """Passes that the tokens take [1]."""
        return self.new if self.is_decode else 1.0


def pairs(new: Real, cached: Real, mixer: Gqa | Mla) -> Real:
    r"""Query-key pairs of `new` tokens after `cached` ones.

    .. math:: \text{pairs}(N, P) = N P + \frac{N (N + 1)}{2}\ \text{(full)},\quad
              \text{windowed}(N, P)\ \text{(window)},\quad
              (k_1 - k_0) \frac{c (c + 1)}{2} + \frac{(r_1 - r_0) (r_1 + r_0 + 1)}{2}\ \text{(chunk)}

    with :math:`P = k_0 c + r_0` and :math:`P + N = k_1 c + r_1`. An indexer that keeps the best k tokens counts as a
    window of k. The pairs of the chunks of a prompt sum exactly to those of the prompt; divided by N they are the mean
    length that attention sees while N tokens are generated. No form subtracts squares of lengths: for a few tokens
    after a long context their difference would be rounding error.

    Args:
        new: tokens N computed now [tokens].
        cached: tokens P already in the cache [tokens].
        mixer: attention whose `window`, `chunk` or `indexer` limits what a token sees.

    Returns:
        Pairs; every token sees itself [1].

    Source:
        Sum over the tokens of what each sees (causal masks of arXiv:1706.03762, windows of
        arXiv:2310.06825, chunks of the Llama 4 model card).

    >>> pairs(1.0, 1023.0, Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1))
    1024.0
    >>> pairs(4.0, 0.0, Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1, window=2))
    7.0
    """
    indexer = mixer.indexer
    window = getattr(mixer, "window", None) if indexer is None else indexer.top_k
    chunk = getattr(mixer, "chunk", None)
    if window is not None:
        return windowed_pairs(new, cached, window)
    if chunk is not None:
        complete = _chunks(cached + new, chunk) - _chunks(cached, chunk)
        start, end = _rest(cached, chunk), _rest(cached + new, chunk)
        return complete * (chunk * (chunk + 1.0) / 2.0) + (end - start) * (end + start + 1.0) / 2.0
    return causal_pairs(new, cached)


def windowed_pairs(new: Real, cached: Real, window: Real) -> Real:
    r"""Query-key pairs of `new` tokens, each of which sees at most the last `window` ones.

    .. math:: \text{windowed}(N, P) = \frac{(r_1 - r_0) (r_1 + r_0 + 1)}{2} + (N - (r_1 - r_0)) w,\quad
              r_0 = \min(P, w),\ r_1 = \min(P + N, w)

    The first r_1 - r_0 tokens fill the window, each seeing one token more; the others see a full window.

    Args:
        new: tokens N computed now [tokens].
        cached: tokens P already in the cache [tokens].
        window: most tokens w that a token sees, itself included [tokens].

    Returns:
        Pairs [1].

    Source:
        Sum over the tokens of what each sees (windows of arXiv:2310.06825).

    >>> windowed_pairs(4.0, 0.0, 2.0)
    7.0
    """
    start, end = _filled(cached, window), _filled(cached + new, window)
    filling = end - start
    return filling * (end + start + 1.0) / 2.0 + (new - filling) * window


def causal_pairs(new: Real, cached: Real) -> Real:
    """Query-key pairs of `new` tokens that see all tokens before them, and themselves.

    Args:
        new: tokens computed now [tokens].
        cached: tokens already in the cache [tokens].

    Returns:
        Pairs [1].

    Source:
        Sum over the tokens of what each sees (causal masks of arXiv:1706.03762).

    >>> causal_pairs(2.0, 3.0)
    9.0
    """
    return new * cached + new * (new + 1.0) / 2.0


def reach(tokens: Real, mixer: Gqa | Mla) -> Real:
    """Tokens that must stay cached, since the last one may see them: the sequence, the window or the chunk.

    Args:
        tokens: length of the sequence [tokens].
        mixer: attention whose `window` or `chunk` limits what a token sees.

    Returns:
        Tokens [tokens].

    Source:
        Windows of arXiv:2310.06825, chunks of the Llama 4 model card.
    """
    window = getattr(mixer, "window", None)
    limit = getattr(mixer, "chunk", None) if window is None else window
    return tokens if limit is None else minimum(tokens, 1.0 * limit, WINDOW_FILLED)


def _filled(tokens: Real, window: Real) -> Real:
    return minimum(tokens, 1.0 * window, WINDOW_FILLED)


def _chunks(tokens: Real, chunk: Real) -> Real:
    """Complete chunks of a sequence [1]."""
    return floor(tokens / chunk, "the next attention chunk begins")


def _rest(tokens: Real, chunk: Real) -> Real:
    """Tokens in the incomplete chunk of a sequence [tokens]."""
    return tokens - _chunks(tokens, chunk) * chunk
