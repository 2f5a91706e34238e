"""Multi-head latent attention: one latent per token for all heads, with or without an indexer (DSA)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roofline.ops import Real, below, minimum, where
from roofline.physics import elementwise
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.geometry import Span, pairs
from roofline.physics.layers.indexer import add_scores, index_scores, own_indexer
from roofline.physics.layers.kind import MixerKind
from roofline.physics.linear import gemm
from roofline.physics.one_equation import Kernel, Work
from roofline.physics.projection import Matrices, Multiplication, Projection, Sharded
from roofline.specs.kernels import GEMM, MLA_DECODE, MLA_PREFILL
from roofline.specs.layers import Mla

_SWITCHES = "MLA switches between absorbed and expanded"
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
def _projections(mixer: Mla, hidden: Real) -> Iterator[Projection]:
    queries = Sharded(mixer.heads, mixer.nope + mixer.rope, "heads")
    values, indexer = Sharded(mixer.heads, mixer.v, "heads"), own_indexer(mixer)
    down = _down(mixer)
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
        yield Projection("index q", "index q", indexer.heads * indexer.dim, mixer.q_rank or 0)
    yield Projection("kv_b", "kv_b", Sharded(mixer.heads, mixer.nope + mixer.v, "heads"), mixer.kv_rank)
    yield Projection("o", "o", hidden, values)


def _down(mixer: Mla) -> str:
    """Name of the multiplication that reads the residual stream."""
    return "q, kv_a" if mixer.q_rank is None else "q_a, kv_a"


def _vectors(mixer: Mla, tp: Real) -> Real:  # noqa: ARG001  every rank has the latents
    """Norms of the latents and of the index key, position biases of pooled keys."""
    indexer = own_indexer(mixer)
    latents = 1.0 * ((mixer.q_rank or 0) + mixer.kv_rank)
    if indexer is None:
        return latents
    return latents + (2.0 + (indexer.ratio if indexer.learned_pool else 0)) * indexer.dim


def _index_nbytes(mixer: Mla) -> Real:
    """Index key of one token, regardless of the format of the cache [B]."""
    indexer = own_indexer(mixer)
    return 0.0 if indexer is None else indexer.dim * _INDEX_NBYTES / indexer.ratio


def _cache_bytes(mixer: Mla, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001  every rank has the latents
    nbytes = _latent(mixer) * kv_nbytes * tokens
    return nbytes if own_indexer(mixer) is None else nbytes + _index_nbytes(mixer) * tokens


def _add_kernels(assembly: Assembly, count: Real, mixer: Mla, span: Span) -> None:
    matrices = _projections.on_rank(mixer, assembly.hidden, assembly.tp)
    _add_down(assembly, count, mixer, span, matrices)
    nbytes, tp = assembly.quantization.kv_nbytes, assembly.tp
    if span.is_decode:
        latent = mla_decode(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
        assembly.kernels += _absorbed(assembly, count, mixer, latent)
    else:
        _add_prompt(assembly, count, mixer, span, matrices["kv_b"])
    if mixer.out_gate:
        gated = elementwise.activation(assembly.tokens, mixer.heads / tp * mixer.v, gated=True)
        assembly.elementwise("output gate", count, gated)
    if mixer.head_gate:
        gated = elementwise.activation(assembly.tokens, mixer.heads / tp * mixer.v, gated=False)
        assembly.elementwise("head gate", count, gated)
    assembly.multiply("o", count, matrices["o"])
    assembly.all_reduce("attention all-reduce", count)


def _add_down(assembly: Assembly, count: Real, mixer: Mla, span: Span, matrices: Mapping[str, Multiplication]) -> None:
    """Add projections to the latents (replicated over tp) and of the queries, and the indexer."""
    tokens, indexer, nbytes = assembly.tokens, own_indexer(mixer), assembly.quantization.kv_nbytes
    down = _down(mixer)
    assembly.multiply(down, count, matrices[down])
    if mixer.q_rank is not None:
        assembly.multiply("q_b", count, matrices["q_b"])
        assembly.elementwise("q latent norm", count, elementwise.latent_norm(tokens, mixer.q_rank))
    assembly.elementwise("kv latent norm", count, elementwise.latent_norm(tokens, mixer.kv_rank))
    index = _index_nbytes(mixer)
    norms = (mixer.q_rank or 0) + mixer.kv_rank
    written = _latent(mixer) * nbytes + index
    assembly.elementwise("rope, append", count, elementwise.rope_append(tokens, written, norms))
    if indexer is not None:
        assembly.multiply("index q", count, matrices["index q"])
        scores = index_scores(indexer, indexer.heads, assembly.sequences, span, index, indexer.ratio)
        add_scores(assembly, count, scores)


def _add_prompt(assembly: Assembly, count: Real, mixer: Mla, span: Span, kv_b: Multiplication) -> None:
    """Add attention over prompts: expanded per head, or absorbed where a cached prefix makes that faster."""
    tp, quantization, new, cached = assembly.tp, assembly.quantization, span.new, span.cached
    scheme = quantization.sections["attention"]
    expand = gemm(assembly.sequences * (cached + new), kv_b.columns, kv_b.inner, scheme)
    scores = mla_prefill(mixer, assembly.sequences, new, cached, tp)
    expanded = [
        assembly.matrix_kernel("kv_b", count, expand, "attention"),
        assembly.attention_kernel("attention", count, MLA_PREFILL, scores),
    ]
    if type(cached) in (float, int) and cached == 0.0:  # no prefix: nothing to re-expand
        assembly.kernels += expanded
        return
    latent = mla_extend(mixer, assembly.sequences, new, cached, quantization.kv_nbytes, tp)
    absorbed = _absorbed(assembly, count, mixer, latent)
    with_prefix = where(cached > 0.0, sum(kernel.time for kernel in expanded), 0.0)
    is_absorbed = below(sum(kernel.time for kernel in absorbed), with_prefix, _SWITCHES)
    assembly.kernels += [kernel._replace(count=where(is_absorbed, 0, count)) for kernel in expanded]
    assembly.kernels += [kernel._replace(count=where(is_absorbed, count, 0)) for kernel in absorbed]


def _absorbed(assembly: Assembly, count: Real, mixer: Mla, latent: Work) -> list[Kernel]:
    """Attention in the latent, with the multiplications into and out of it, in 16 bits."""
    nbytes, tp = assembly.quantization.sections["attention"].weight_nbytes, assembly.tp
    peak = assembly.quantization.sixteen_bit_peak
    into = mla_absorb(mixer, assembly.tokens, mixer.nope, nbytes, tp)
    out = mla_absorb(mixer, assembly.tokens, mixer.v, nbytes, tp)
    return [
        assembly.kernel("absorb k", GEMM, "bf16", peak, count, into),
        assembly.attention_kernel("attention, absorbed", count, MLA_DECODE, latent),
        assembly.kernel("absorb v", GEMM, "bf16", peak, count, out),
    ]


MLA = MixerKind(_projections, _vectors, _cache_bytes, _add_kernels, (MLA_PREFILL, MLA_DECODE))
