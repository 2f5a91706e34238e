"""Kernels of a layer's mixer: attention over keys and values, and what stands in its place."""

from __future__ import annotations

from roofline.ops import Real, where
from roofline.physics import attention, elementwise
from roofline.physics.assembly import Assembly
from roofline.physics.cache import index_nbytes, kv_values, local_kv_heads
from roofline.physics.geometry import Span
from roofline.physics.latent_mixers import add_csa, add_mla
from roofline.physics.recurrent_mixers import add_recurrent
from roofline.physics.sparse import index_scores
from roofline.specs.kernels import ATTENTION_DECODE, ATTENTION_PREFILL, INDEXER
from roofline.specs.layers import Csa, Gqa, Linear, Mixer, Mla, NoMixer

__all__ = ["add_mixer"]


def add_mixer(assembly: Assembly, count: Real, mixer: Mixer, span: Span) -> None:
    """Add the kernels of one mixer, its projections and its all-reduce.

    Args:
        assembly: the pass so far.
        count: layers that have it [1].
        mixer: the mixer.
        span: tokens computed per sequence [tokens].
    """
    match mixer:
        case Gqa():
            _add_gqa(assembly, count, mixer, span)
        case Mla():
            add_mla(assembly, count, mixer, span)
        case Csa():
            add_csa(assembly, count, mixer, span)
        case NoMixer():
            return
        case Linear():
            assembly.gemm("linear", count, assembly.hidden, assembly.hidden / assembly.tp, "attention")
            assembly.all_reduce("linear all-reduce", count)
        case _:
            add_recurrent(assembly, count, mixer, span)


def _add_gqa(assembly: Assembly, count: Real, mixer: Gqa, span: Span) -> None:
    tp, hidden, tag = assembly.tp, assembly.hidden, _tag(mixer)
    heads, kv_heads = mixer.heads / tp, local_kv_heads(mixer, tp)
    appended = kv_values(mixer, tp)
    index_heads = 0.0 if mixer.indexer is None else mixer.indexer.heads * kv_heads / mixer.kv_heads
    columns = heads * mixer.head_dim + appended - (kv_heads * mixer.v_head_dim if mixer.k_eq_v else 0.0)
    if mixer.out_gate:
        columns += heads * mixer.v_head_dim
    if mixer.indexer is not None:
        columns += (index_heads + 1.0) * mixer.indexer.dim
    assembly.gemm("qkv" + tag, count, columns, hidden, "attention", mixer.qkv_bias)
    norms = (2 * mixer.head_dim if mixer.qk_norm else 0) + (heads if mixer.sinks else 0)
    nbytes = assembly.precision.kv_nbytes
    written = appended * nbytes + index_nbytes(mixer, nbytes)
    assembly.elementwise("rope, append" + tag, count, elementwise.rope_append(assembly.tokens, written, norms))
    if mixer.indexer is not None:
        keys = index_nbytes(mixer, nbytes)
        scores = index_scores(mixer.indexer, index_heads, assembly.sequences, span, keys)
        assembly.wide("index scores", count, INDEXER, scores)
    if span.is_decode:
        work = attention.gqa_decode(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
    else:
        work = attention.gqa_prefill(mixer, assembly.sequences, span.new, span.cached, nbytes, tp)
    assembly.attention("attention" + tag, count, ATTENTION_DECODE if span.is_decode else ATTENTION_PREFILL, work)
    if mixer.out_gate:
        gated = elementwise.activation(assembly.tokens, heads * mixer.v_head_dim, gated=True)
        assembly.elementwise("output gate" + tag, count, gated)
    assembly.gemm("o" + tag, count, hidden, heads * mixer.v_head_dim, "attention", mixer.o_bias)
    if assembly.model.parallel is not True:  # else the network's all-reduce sums both
        assembly.all_reduce("attention all-reduce" + tag, where(assembly.model.parallel, 0, count))


def _tag(mixer: Gqa) -> str:
    if mixer.window is not None:
        return f" (window {mixer.window})"
    if mixer.indexer is not None:
        return f" (top {mixer.indexer.top_k})"
    return f" (chunk {mixer.chunk})" if mixer.chunk is not None else ""
