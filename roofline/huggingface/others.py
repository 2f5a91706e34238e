"""Dense families with unusual layers or field names: Falcon, MPT, PaLM, Phi-2, Puzzle, StableLM."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.layers import (
    SIZES,
    Block,
    LayerList,
    Shape,
    attention_biases,
    dense,
    gqa,
    part,
    shape,
    uniform,
)

_PUZZLE_MULTIPLE = 256  # Llama-Nemotron rounds the width of a feed-forward network up to a multiple of this


def _falcon(fields: Fields) -> Shape:
    """Falcon: one norm before both halves of a layer; the newer decoder of 40B and 180B has two."""
    fields.require(*SIZES)
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    is_newer = fields.flag("new_decoder_architecture")
    kv_heads = fields.optional("num_key_value_heads")
    if kv_heads is None:
        multi_query = fields.flag("multi_query", default=True)
        kv_heads = fields.count("num_kv_heads", default=heads) if is_newer else 1 if multi_query else heads
    elif not fields.has("new_decoder_architecture"):
        is_newer = 1 < kv_heads < heads
    fields.pass_over("num_kv_heads", "multi_query", "parallel_attn")
    bias = fields.flag("bias")
    parallel = is_newer or fields.flag("parallel_attn", default=True)
    norms = fields.count("num_ln_in_parallel_attn", default=2 if is_newer else 1) if parallel else 2
    ffn = dense(
        fields, width=fields.optional("ffn_hidden_size", "intermediate_size") or 4 * hidden, gated=False, bias=bias
    )
    mixer = gqa(fields, kv_heads=kv_heads, qkv_bias=bias, o_bias=bias)
    return shape(
        fields,
        "falcon",
        uniform(fields.layers(), mixer, ffn),
        tied=True,
        norms=min(norms, 16),
        norm_bias=True,
        parallel=parallel,
    )


def _mpt(fields: Fields) -> Shape:
    fields.require("d_model", "n_heads", "n_layers", "vocab_size")
    hidden, heads = fields.count("d_model"), fields.count("n_heads")
    bias = not fields.flag("no_bias", default=True)
    attention, network = fields.section("attn_config"), fields.section("ffn_config")
    kv_heads = attention.optional("kv_n_heads") if attention else None
    if attention and attention.flag("qk_ln"):
        raise fields.fault("attn_config.qk_ln", "query and key norms are not supported for this family")
    if network and network.text("ffn_type") not in (None, "mptmlp"):
        raise fields.fault("ffn_config.ffn_type", "only mptmlp is supported")
    width = network.optional("ffn_hidden_size") if network else None
    head_dim = fields.divided("n_heads", hidden, heads)
    mixer = gqa(fields, heads=heads, kv_heads=kv_heads or heads, head_dim=head_dim, qkv_bias=bias, o_bias=bias)
    ffn = dense(fields, width=width or hidden * fields.count("expansion_ratio", default=4), gated=False, bias=bias)
    if ffn["width"] > LARGEST:
        raise fields.fault("expansion_ratio", "implausibly wide feed-forward network")
    return Shape(
        "mpt",
        hidden,
        fields.count("vocab_size"),
        fields.flag("tie_word_embeddings", default=True),
        uniform(fields.layers("n_layers"), mixer, ffn),
        norm_bias=bias,
    )


def _palm(fields: Fields) -> Shape:
    fields.require("d_model", "n_heads", "n_layers", "head_dim", "ffn", "vocab_size")
    heads = fields.count("n_heads")
    kv_heads = 1 if fields.flag("multi_query", default=True) else heads
    ffn = dense(fields, "ffn", gated=fields.flag("swiglu", default=True))
    return Shape(
        "palm",
        fields.count("d_model"),
        fields.count("vocab_size"),
        fields.flag("tie_word_embeddings", default=True),
        uniform(fields.layers("n_layers"), gqa(fields, heads=heads, kv_heads=kv_heads), ffn),
        norms=1 if fields.flag("parallel", default=True) else 2,
        parallel=fields.flag("parallel", default=True),
    )


def _phi(fields: Fields) -> Shape:
    """Phi-1, 1.5 and 2: biases everywhere, one norm before both halves of a layer."""
    fields.require("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
    if fields.flag("qk_layernorm"):
        raise fields.fault("qk_layernorm", "query and key norms are not supported for this family")
    ffn = dense(fields, gated=False, bias=True)
    return shape(
        fields,
        "phi",
        uniform(fields.layers(), gqa(fields, qkv_bias=True, o_bias=True), ffn),
        norms=1,
        norm_bias=True,
        head_bias=True,
        parallel=True,
    )


def _stablelm(fields: Fields) -> Shape:
    fields.require("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
    qk_norm = "full" if fields.flag("qk_layernorm") else None
    return shape(
        fields,
        "stablelm",
        uniform(fields.layers(), gqa(fields, qkv_bias=fields.flag("use_qkv_bias"), qk_norm=qk_norm), dense(fields)),
        norms=1 if fields.flag("use_parallel_residual") else 2,
        norm_bias=True,
        parallel=fields.flag("use_parallel_residual"),
    )


def _puzzle(fields: Fields) -> Shape:
    """Llama-Nemotron: Llama with halves of single layers dropped, thinned or replaced (Puzzle)."""
    fields.require("hidden_size", "num_hidden_layers", "num_attention_heads", "block_configs", "vocab_size")
    layers: LayerList = []
    for block in fields.sections("block_configs", fields.layers()):
        attention, network = block.section("attention"), block.section("ffn")
        if attention is None or network is None:
            raise block.fault("attention" if attention is None else "ffn", "missing")
        mixer, ffn = _puzzle_mixer(fields, attention), _puzzle_ffn(fields, network)
        if mixer["kind"] == ffn["kind"] == "none":
            raise block.fault("attention.no_op", "a layer must have attention, a feed-forward network or both")
        layers.append((mixer, ffn))
    return shape(fields, "nemotron", layers)


def _puzzle_mixer(fields: Fields, attention: Fields) -> Block:
    for name in ("window_length", "num_sink_tokens", "sparsify", "llama4", "mamba"):
        if attention.has(name):
            raise attention.fault(name, "not supported")
    if attention.flag("no_op"):
        return part("none")
    if attention.flag("replace_with_linear"):
        return part("linear")
    heads = fields.count("num_attention_heads")
    group = attention.count("n_heads_in_group")
    biases = attention_biases(fields)
    return gqa(fields, kv_heads=attention.divided("n_heads_in_group", heads, group), **biases)


def _puzzle_ffn(fields: Fields, network: Fields) -> Block:
    for name in ("moe", "sparsify"):
        if network.has(name):
            raise network.fault(name, "not supported")
    if network.flag("no_op"):
        return part("none")
    if network.flag("replace_with_linear"):
        return part("linear")
    bias = fields.flag("mlp_bias")
    if network.has("intermediate_size"):
        return dense(network, bias=bias)
    if not network.has("ffn_mult"):
        raise network.fault("ffn_mult", "missing")
    width = int(2 * network.number("ffn_mult", 1.0) * fields.count("hidden_size") / 3)
    width = max(1, -(-width // _PUZZLE_MULTIPLE)) * _PUZZLE_MULTIPLE
    if width > LARGEST:
        raise network.fault("ffn_mult", "implausibly wide feed-forward network")
    return dense(network, width=width, bias=bias)


OTHERS: Mapping[str, Callable[[Fields], Shape]] = {
    "falcon": _falcon,
    "mpt": _mpt,
    "nemotron-nas": _puzzle,
    "palm": _palm,
    "phi": _phi,
    "stablelm": _stablelm,
}
