"""Work of attention: which tokens see which (`pairs`), and what that costs in arithmetic and bytes."""

from __future__ import annotations

from roofline.catalog.records import Gqa, Mixer, Mla
from roofline.ops import Real, floor, minimum
from roofline.physics.work import Work

__all__ = [
    "gqa_decode",
    "gqa_prefill",
    "kv_values",
    "local_kv_heads",
    "mla_absorb",
    "mla_crossover",
    "mla_decode",
    "mla_extend",
    "mla_prefill",
    "pairs",
    "reach",
    "visible_pairs",
]

_ACTIVATION_NBYTES = 2.0  # queries, keys, values and outputs are 16-bit between kernels
_TILE = 128.0  # head width in units of which the serial walk of prefill attention is calibrated


def visible_pairs(tokens: Real, mixer: Mixer) -> Real:
    r"""Query-key pairs of a sequence computed from its start, A(n).

    .. math:: A(n) = \frac{n (n + 1)}{2}\ \text{(full)},\quad
              \frac{w (w + 1)}{2} + (n - w) w\ \text{(window, } n > w),\quad
              \lfloor n / c \rfloor \frac{c (c + 1)}{2} + \frac{r (r + 1)}{2}\ \text{(chunk)}

    Args:
        tokens: length n of the sequence [tokens].
        mixer: attention whose `window` or `chunk` limits what a token sees.

    Returns:
        Pairs, every token seeing itself [1].

    Source:
        Sum over the tokens of what each sees (causal masks of arXiv:1706.03762, windows of
        arXiv:2310.06825, chunks of the Llama 4 model card).

    >>> visible_pairs(4.0, Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1))
    10.0
    >>> visible_pairs(4.0, Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1, window=2))
    7.0
    """
    window = getattr(mixer, "window", None)
    chunk = getattr(mixer, "chunk", None)
    if window is not None:
        ramp = minimum(tokens, float(window))
        return ramp * (ramp + 1.0) / 2.0 + (tokens - ramp) * window
    if chunk is not None:
        full = floor(tokens / chunk)
        rest = tokens - full * chunk
        return full * (chunk * (chunk + 1.0) / 2.0) + rest * (rest + 1.0) / 2.0
    return tokens * (tokens + 1.0) / 2.0


def pairs(new: Real, cached: Real, mixer: Mixer) -> Real:
    r"""Query-key pairs of `new` tokens after `cached` ones: the one source of attention geometry.

    .. math:: \text{pairs}(N, P) = A(P + N) - A(P)

    Over chunks of a prompt it sums exactly to the whole; divided by N it is the mean length that
    a generation of N tokens sees.

    Args:
        new: tokens N computed now [tokens].
        cached: tokens P already in the cache [tokens].
        mixer: attention whose `window` or `chunk` limits what a token sees.

    Returns:
        Pairs [1].

    Source:
        Difference of `visible_pairs`.

    >>> pairs(1.0, 1023.0, Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1))
    1024.0
    """
    return visible_pairs(cached + new, mixer) - visible_pairs(cached, mixer)


def reach(tokens: Real, mixer: Mixer) -> Real:
    """Tokens that the last of a sequence sees at most, and so must be kept: its length, window or chunk.

    Args:
        tokens: length of the sequence [tokens].
        mixer: attention whose `window` or `chunk` limits what a token sees.

    Returns:
        Tokens [tokens].
    """
    window = getattr(mixer, "window", None)
    limit = getattr(mixer, "chunk", None) if window is None else window
    return tokens if limit is None else minimum(tokens, float(limit))


def kv_values(mixer: Mixer, tp: int = 1) -> float:
    """Values that one token leaves in the KV cache of one layer on one GPU.

    KV heads beyond their number are replicated, the latent of MLA always is.

    Args:
        mixer: attention.
        tp: tensor-parallel degree [1].

    Returns:
        Values [1].

    >>> kv_values(Gqa(heads=32, kv_heads=8, head_dim=128, v_head_dim=128))
    2048.0
    """
    if isinstance(mixer, Mla):
        return float(mixer.kv_rank + mixer.rope)
    return local_kv_heads(mixer, tp) * (mixer.head_dim + mixer.v_head_dim)


def local_kv_heads(mixer: Gqa, tp: int) -> float:
    """KV heads on one GPU: shared out over tp, replicated where tp exceeds them.

    Args:
        mixer: attention.
        tp: tensor-parallel degree [1].

    Returns:
        Heads [1].

    >>> local_kv_heads(Gqa(heads=32, kv_heads=8, head_dim=128, v_head_dim=128), 16)
    1.0
    """
    return mixer.kv_heads / tp if tp <= mixer.kv_heads else 1.0


def gqa_prefill(mixer: Gqa, batch: Real, new: Real, cached: Real, kv_nbytes: float, tp: int) -> Work:
    r"""Work of grouped-query attention over prompts.

    .. math:: F = 2 h (d + d_v) \text{pairs},\quad X = h\, \text{pairs},\quad d_s = (N + P) d / 128

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
        activation_bytes=_ACTIVATION_NBYTES * batch * new * width * (heads + kv_heads),
        exponentials=heads * seen,
        serial_depth=reach(cached + new, mixer) * mixer.head_dim / _TILE,
    )


def gqa_decode(mixer: Gqa, batch: Real, steps: Real, context: Real, kv_nbytes: float, tp: int) -> Work:
    r"""Work of grouped-query attention for one new token per sequence, averaged over a generation.

    .. math:: s = \text{pairs}(n, \text{context}) / n,\quad F = 2 h (d + d_v) b s,\quad
              Q = g (d + d_v) w_{kv} b s + 2 b h (d + d_v),\quad d_s = s

    Args:
        mixer: attention.
        batch: sequences b on this rank [sequences].
        steps: decode steps n averaged over [1].
        context: tokens in the cache before the first of them [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree [1].

    Returns:
        The work of the mean step [FLOP, B].

    Source:
        Arithmetic; heads in the scores, kv_heads in the bytes (Ainslie et al., arXiv:2305.13245).
    """
    heads = mixer.heads / tp
    width = mixer.head_dim + mixer.v_head_dim
    seen = pairs(steps, context, mixer) / steps
    return Work(
        flop=2.0 * heads * width * batch * seen,
        kv_bytes=batch * seen * local_kv_heads(mixer, tp) * width * kv_nbytes,
        activation_bytes=_ACTIVATION_NBYTES * batch * heads * width,
        serial_depth=seen,
    )


def mla_prefill(mixer: Mla, batch: Real, new: Real, cached: Real, tp: int) -> Work:
    r"""Work of multi-head latent attention over prompts, keys and values expanded per head.

    .. math:: F = 2 h (nope + rope + v) \text{pairs},\quad d_s = N + P

    The expansion of the latent (`kv_b`), of the cached prefix too, is a multiplication of its own.

    Args:
        mixer: attention.
        batch: prompts on this rank [sequences].
        new: tokens N computed per prompt [tokens].
        cached: tokens P of each prompt already cached [tokens].
        tp: tensor-parallel degree [1].

    Returns:
        The work [FLOP, B].

    Source:
        DeepSeek-V2, arXiv:2405.04434, section 2.1.
    """
    heads = mixer.heads / tp
    width = mixer.nope + mixer.rope + mixer.v
    seen = batch * pairs(new, cached, mixer)
    return Work(
        flop=2.0 * heads * width * seen,
        activation_bytes=_ACTIVATION_NBYTES * heads * width * batch * (2.0 * new + cached),
        exponentials=heads * seen,
        serial_depth=cached + new,
    )


def mla_decode(mixer: Mla, batch: Real, steps: Real, context: Real, kv_nbytes: float, tp: int) -> Work:
    r"""Work of multi-head latent attention in the latent (absorbed), averaged over a generation.

    .. math:: s = \text{pairs}(n, \text{context}) / n,\quad F = 2 h (2 r + rope) b s,\quad
              Q = (r + rope) w_{kv} b s + 2 b h (2 r + rope),\quad d_s = s

    Args:
        mixer: attention.
        batch: sequences b on this rank [sequences].
        steps: decode steps n averaged over [1].
        context: tokens in the cache before the first of them [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree; it divides the heads, not the latent [1].

    Returns:
        The work of the mean step [FLOP, B].

    Source:
        DeepSeek-V2, arXiv:2405.04434, section 2.1.2 and appendix C (absorption).
    """
    seen = pairs(steps, context, mixer) / steps
    return _latent_attention(mixer, batch, batch * seen, batch * seen, seen, kv_nbytes, tp)


def mla_extend(mixer: Mla, batch: Real, new: Real, cached: Real, kv_nbytes: float, tp: int) -> Work:
    r"""Work of multi-head latent attention in the latent for several new tokens after a cached prefix.

    .. math:: F = 2 h (2 r + rope) b\, \text{pairs},\quad Q = (r + rope) w_{kv} b (N + P) + 2 b N h (2 r + rope)

    Args:
        mixer: attention.
        batch: prompts on this rank [sequences].
        new: tokens N computed per prompt [tokens].
        cached: tokens P of each prompt already cached [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree; it divides the heads, not the latent [1].

    Returns:
        The work [FLOP, B].

    Source:
        DeepSeek-V2, arXiv:2405.04434, appendix C (absorption).
    """
    length = cached + new
    seen = batch * pairs(new, cached, mixer)
    return _latent_attention(mixer, batch * new, seen, batch * length, length, kv_nbytes, tp)


def mla_absorb(mixer: Mla, rows: Real, width: int, weight_nbytes: float, tp: int) -> Work:
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
        activation_bytes=_ACTIVATION_NBYTES * rows * heads * (mixer.kv_rank + width),
        depth=float(min(width, mixer.kv_rank)),
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


def _latent_attention(mixer: Mla, queries: Real, seen: Real, read: Real, walk: Real, kv_nbytes: float, tp: int) -> Work:
    """Absorbed attention of `queries` tokens over `seen` pairs, reading `read` cached tokens once."""
    heads = mixer.heads / tp
    width = 2.0 * mixer.kv_rank + mixer.rope
    return Work(
        flop=2.0 * heads * width * seen,
        kv_bytes=read * kv_values(mixer) * kv_nbytes,
        activation_bytes=_ACTIVATION_NBYTES * queries * heads * width,
        serial_depth=walk,
    )
