"""Work of attention over keys and values (grouped-query) and over a latent (multi-head latent)."""

from __future__ import annotations

from roofline.ops import Real, minimum
from roofline.physics.cache import kv_values, local_kv_heads, reach
from roofline.physics.geometry import pairs
from roofline.physics.one_equation import Work
from roofline.specs.layers import Gqa, Mla

__all__ = ["gqa_decode", "gqa_prefill", "mla_absorb", "mla_crossover", "mla_decode", "mla_extend", "mla_prefill"]

_ACTIVATION_NBYTES = 2.0  # queries, keys, values and outputs are 16-bit between kernels
_TILE = 128.0  # head width in units of which the serial walk of prefill attention is calibrated


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
        activation_bytes=_ACTIVATION_NBYTES * batch * new * width * (heads + kv_heads),
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
        context: tokens in the cache before the first of them [tokens].
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
        activation_bytes=_ACTIVATION_NBYTES * batch * heads * width,
        serial_depth=seen,
    )


def mla_prefill(mixer: Mla, batch: Real, new: Real, cached: Real, tp: Real) -> Work:
    r"""Work of multi-head latent attention over prompts, keys and values expanded per head.

    .. math:: F = 2 h (nope + rope + v) b\, \text{pairs},\quad X = h b\, \text{pairs},\quad
              Q = 2 h (nope + rope + v) b (2 N + P),\quad d_s = N + P

    The expansion of the latent (`kv_b`), of the cached prefix too, is a multiplication of its own.

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
        activation_bytes=_ACTIVATION_NBYTES * heads * width * batch * (2.0 * new + cached),
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
        context: tokens in the cache before the first of them [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree; it divides the heads, not the latent [1].

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
        tp: tensor-parallel degree; it divides the heads, not the latent [1].

    Returns:
        The work [FLOP, B].

    Valid:
        Each cached token is read once for all new ones.

    Source:
        DeepSeek-V2, arXiv:2405.04434, appendix C (absorption).
    """
    length = cached + new
    seen = batch * pairs(new, cached, mixer)
    return _latent_attention(mixer, batch * new, seen, batch * length, length, kv_nbytes, tp)


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
        activation_bytes=_ACTIVATION_NBYTES * rows * heads * (mixer.kv_rank + width),
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


def _latent_attention(mixer: Mla, queries: Real, seen: Real, read: Real, walk: Real, kv_nbytes: Real, tp: Real) -> Work:
    """Absorbed attention of `queries` tokens over `seen` pairs, reading `read` cached tokens once."""
    heads = mixer.heads / tp
    width = 2.0 * mixer.kv_rank + mixer.rope
    return Work(
        flop=2.0 * heads * width * seen,
        kv_bytes=read * kv_values(mixer) * kv_nbytes,
        activation_bytes=_ACTIVATION_NBYTES * queries * heads * width,
        serial_depth=walk,
    )
