"""Kernels of attention whose keys and values are latents shared by all heads: MLA, with DSA, and CSA."""

from __future__ import annotations

from roofline.ops import Real, where
from roofline.physics import attention, elementwise
from roofline.physics.assembly import Assembly
from roofline.physics.cache import index_nbytes, kv_values
from roofline.physics.geometry import Span
from roofline.physics.linear import gemm, grouped_gemm
from roofline.physics.mixer_parameters import compressed_values
from roofline.physics.one_equation import Kernel, Work
from roofline.physics.sparse import csa_attention, index_scores
from roofline.specs.gpu import Gpu
from roofline.specs.kernels import ATTENTION_PREFILL, GEMM, INDEXER, MLA_DECODE, MLA_PREFILL
from roofline.specs.layers import Csa, Mla

__all__ = ["add_csa", "add_mla", "score_dtype"]


def add_mla(assembly: Assembly, count: Real, mixer: Mla, span: Span) -> None:
    """Add multi-head latent attention: absorbed for decoding; for prompts expanded, or absorbed where faster.

    Args:
        assembly: the pass so far.
        count: layers that have it [1].
        mixer: the mixer.
        span: tokens computed per sequence [tokens].
    """
    _add_down(assembly, count, mixer, span)
    nbytes, tp = assembly.precision.kv_nbytes, assembly.tp
    if span.is_decode:
        latent = attention.mla_decode(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
        assembly.kernels += _absorbed(assembly, count, mixer, latent)
    else:
        _add_prompt(assembly, count, mixer, span)
    if mixer.out_gate:
        gated = elementwise.activation(assembly.tokens, mixer.heads / tp * mixer.v, gated=True)
        assembly.elementwise("output gate", count, gated)
    assembly.gemm("o", count, assembly.hidden, mixer.heads / tp * mixer.v, "attention")
    assembly.all_reduce("attention all-reduce", count)


def add_csa(assembly: Assembly, count: Real, mixer: Csa, span: Span) -> None:
    """Add compressed attention: latent queries, one shared key-value per token, entries, grouped output.

    Args:
        assembly: the pass so far.
        count: layers that have it [1].
        mixer: the mixer.
        span: tokens computed per sequence [tokens].
    """
    tp, hidden, tokens = assembly.tp, assembly.hidden, assembly.tokens
    heads, indexer = mixer.heads / tp, mixer.indexer
    nbytes = assembly.precision.kv_nbytes
    tag = f" (1/{mixer.ratio})" if mixer.ratio else " (window)"
    compressed = compressed_values(mixer)
    weights = 0 if indexer is None else indexer.heads
    assembly.gemm("q_a, kv" + tag, count, mixer.q_rank + mixer.head_dim + compressed + weights, hidden, "attention")
    assembly.gemm("q_b" + tag, count, heads * mixer.head_dim, mixer.q_rank, "attention")
    assembly.elementwise("q latent norm" + tag, count, elementwise.latent_norm(tokens, mixer.q_rank))
    entry = 0.0 if not mixer.ratio else (mixer.head_dim + (0 if indexer is None else indexer.dim)) / mixer.ratio
    written = (mixer.head_dim + entry) * nbytes
    assembly.elementwise("rope, append" + tag, count, elementwise.rope_append(tokens, written, mixer.q_rank))
    if compressed:
        assembly.elementwise("compress" + tag, count, elementwise.activation(tokens, compressed / 2, gated=True))
    if indexer is not None:
        assembly.gemm("index q" + tag, count, indexer.heads * indexer.dim, mixer.q_rank, "attention")
        keys = indexer.dim * nbytes / mixer.ratio
        scores = index_scores(indexer, indexer.heads, assembly.sequences, span, keys, mixer.ratio)
        _add_scores(assembly, count, scores)
    kind = MLA_DECODE if span.is_decode else ATTENTION_PREFILL
    assembly.attention("attention" + tag, count, kind, csa_attention(mixer, assembly.sequences, span, nbytes, tp))
    groups, scheme = mixer.o_groups / tp, assembly.precision.sections["attention"]
    inner = mixer.heads * mixer.head_dim / mixer.o_groups
    assembly.matrix("o_a" + tag, count, grouped_gemm(tokens, groups, mixer.o_rank, inner, scheme), "attention")
    assembly.gemm("o_b" + tag, count, hidden, groups * mixer.o_rank, "attention")
    assembly.all_reduce("attention all-reduce" + tag, count)


def score_dtype(gpu: Gpu, wide: str) -> str:
    """Dtype in which an indexer scores: fp8 where the GPU has it.

    Args:
        gpu: the GPU.
        wide: its 16-bit dtype [text].

    Returns:
        The dtype [text].
    """
    return "fp8" if "fp8" in gpu.peaks else wide


def _add_down(assembly: Assembly, count: Real, mixer: Mla, span: Span) -> None:
    """Projections to the query and KV latents (replicated over tp), of the queries, and the indexer."""
    tp, hidden, tokens = assembly.tp, assembly.hidden, assembly.tokens
    indexer = mixer.indexer if mixer.indexer is not None and mixer.indexer.own else None
    query = mixer.heads / tp * (mixer.nope + mixer.rope)
    columns: float = mixer.kv_rank + mixer.rope + (query if mixer.q_rank is None else mixer.q_rank)
    if mixer.out_gate:
        columns += mixer.heads / tp * mixer.v
    if indexer is not None:
        columns += indexer.dim + indexer.heads
    assembly.gemm("q, kv_a" if mixer.q_rank is None else "q_a, kv_a", count, columns, hidden, "attention")
    if mixer.q_rank is not None:
        assembly.gemm("q_b", count, query, mixer.q_rank, "attention")
        assembly.elementwise("q latent norm", count, elementwise.latent_norm(tokens, mixer.q_rank))
    assembly.elementwise("kv latent norm", count, elementwise.latent_norm(tokens, mixer.kv_rank))
    nbytes = assembly.precision.kv_nbytes
    index = index_nbytes(mixer, nbytes)
    written = kv_values(mixer) * nbytes + index
    norms = (mixer.q_rank or 0) + mixer.kv_rank
    assembly.elementwise("rope, append", count, elementwise.rope_append(tokens, written, norms))
    if indexer is not None:
        assembly.gemm("index q", count, indexer.heads * indexer.dim, mixer.q_rank or 0, "attention")
        _add_scores(assembly, count, index_scores(indexer, indexer.heads, assembly.sequences, span, index))


def _add_scores(assembly: Assembly, count: Real, scores: Work) -> None:
    """Scores of an indexer, in fp8 where the GPU has it."""
    peak = score_dtype(assembly.gpu, assembly.precision.wide_peak)
    assembly.kernels.append(assembly.kernel("index scores", INDEXER, peak, peak, count, scores))


def _add_prompt(assembly: Assembly, count: Real, mixer: Mla, span: Span) -> None:
    """Attention over prompts: expanded per head, or absorbed where a cached prefix makes that faster."""
    tp, precision, new, cached = assembly.tp, assembly.precision, span.new, span.cached
    width = mixer.heads / tp * (mixer.nope + mixer.v)
    scheme = precision.sections["attention"]
    expand = gemm(assembly.sequences * (cached + new), width, mixer.kv_rank, scheme)
    scores = attention.mla_prefill(mixer, assembly.sequences, new, cached, tp)
    expanded = [
        assembly.matrix_kernel("kv_b", count, expand, "attention"),
        assembly.attention_kernel("attention", count, MLA_PREFILL, scores),
    ]
    if type(cached) in (float, int) and cached == 0.0:  # no prefix: nothing to re-expand
        assembly.kernels += expanded
        return
    latent = attention.mla_extend(mixer, assembly.sequences, new, cached, precision.kv_nbytes, tp)
    absorbed = _absorbed(assembly, count, mixer, latent)
    with_prefix = where(cached > 0.0, sum(kernel.time for kernel in expanded), 0.0)
    is_absorbed = sum(kernel.time for kernel in absorbed) < with_prefix
    assembly.kernels += [kernel._replace(count=where(is_absorbed, 0, count)) for kernel in expanded]
    assembly.kernels += [kernel._replace(count=where(is_absorbed, count, 0)) for kernel in absorbed]


def _absorbed(assembly: Assembly, count: Real, mixer: Mla, latent: Work) -> list[Kernel]:
    """Attention in the latent, with the multiplications into and out of it, on 16-bit activations."""
    nbytes, tp = assembly.precision.sections["attention"].weight_nbytes, assembly.tp
    wide = assembly.precision.wide_peak
    into = attention.mla_absorb(mixer, assembly.tokens, mixer.nope, nbytes, tp)
    out = attention.mla_absorb(mixer, assembly.tokens, mixer.v, nbytes, tp)
    return [
        assembly.kernel("absorb k", GEMM, "bf16", wide, count, into),
        assembly.attention_kernel("attention, absorbed", count, MLA_DECODE, latent),
        assembly.kernel("absorb v", GEMM, "bf16", wide, count, out),
    ]
