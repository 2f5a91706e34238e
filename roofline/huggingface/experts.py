"""Mixture-of-experts families whose layers all have attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.layers import (
    SIZES,
    Block,
    Shape,
    attention_biases,
    dense,
    drafts,
    gqa,
    gqa_by_window,
    is_sparse,
    moe,
    networks,
    shape,
    uniform,
    windows,
)


def _mixtral(fields: Fields) -> Shape:
    """Mixtral: `intermediate_size` is the width of an expert."""
    fields.require(*SIZES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    ffn = moe(fields, "intermediate_size", shared_width=0)
    mixers = gqa_by_window(fields, windows(fields, fields.layers()))
    return shape(fields, "mixtral", [(mixer, ffn) for mixer in mixers])


def _granite_moe(fields: Fields) -> Shape:
    fields.require(*SIZES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    mixer = gqa(fields, **attention_biases(fields))
    return shape(fields, "granite", uniform(fields.layers(), mixer, moe(fields, "intermediate_size", shared_width=0)))


def _olmoe(fields: Fields) -> Shape:
    """OLMoE and FlexOlmo: norms over all heads of queries and of keys."""
    fields.require(*SIZES, "intermediate_size", "num_experts", "num_experts_per_tok")
    mixer = gqa(fields, **attention_biases(fields), qk_norm="full")
    return shape(fields, "olmo", uniform(fields.layers(), mixer, moe(fields, "intermediate_size", shared_width=0)))


def _gpt_oss(fields: Fields) -> Shape:
    """gpt-oss: a window on every other layer, one learned sink per head, biases, experts `intermediate_size` wide."""
    fields.require(
        *SIZES, "intermediate_size", "num_local_experts|num_experts", "num_experts_per_tok|experts_per_token"
    )
    biases = attention_biases(fields, default=True)
    layer_windows = windows(fields, fields.layers(), lambda index: index % 2 == 0, default=128)
    mixers = gqa_by_window(fields, layer_windows, **biases, sinks=True)
    ffn = moe(fields, "intermediate_size", shared_width=0, router_bias=True, expert_bias=True)
    return shape(fields, "gpt-oss", [(mixer, ffn) for mixer in mixers])


def qwen_ffns(fields: Fields, layers: int, experts: Block) -> list[Block]:
    """Feed-forward networks of Qwen: experts on every `decoder_sparse_step`-th layer except `mlp_only_layers`."""
    step = fields.count("decoder_sparse_step", default=1)
    dense_layers = frozenset(fields.counts("mlp_only_layers") or ())
    return networks(fields, experts, [index not in dense_layers and (index + 1) % step == 0 for index in range(layers)])


def qwen_windows(fields: Fields, layers: int) -> list[int | None]:
    """Window of each layer of Qwen2 and Qwen3 [tokens]: where enabled, from `max_window_layers` on."""
    first = fields.count("max_window_layers", default=28, least=0)
    if not fields.flag("use_sliding_window"):
        return [None] * layers
    return windows(fields, layers, lambda index: index >= first, default=4096)


def _qwen2_moe(fields: Fields) -> Shape:
    fields.require(*SIZES, "moe_intermediate_size", "num_experts|num_local_experts", "num_experts_per_tok")
    shared = fields.count("shared_expert_intermediate_size", default=0, least=0)
    return _qwen_moe(fields, "qwen2", shared, {"qkv_bias": fields.flag("qkv_bias", default=True)})


def _qwen3_moe(fields: Fields) -> Shape:
    fields.require(*SIZES, "moe_intermediate_size", "num_experts|num_local_experts", "num_experts_per_tok")
    biases = attention_biases(fields)
    if not fields.flag("use_qk_norm", default=True):  # a field of Qwen3-Coder, although every Qwen3 has these norms
        raise fields.fault("use_qk_norm", "Qwen3 without norms of queries and keys is not supported")
    return _qwen_moe(fields, "qwen3", 0, {**biases, "qk_norm": "head"})


def _qwen_moe(fields: Fields, family: str, shared: int, traits: Mapping[str, Any]) -> Shape:
    layers = fields.layers()
    ffns = qwen_ffns(fields, layers, moe(fields, shared_width=shared, shared_gate=shared > 0))
    mixers = gqa_by_window(fields, qwen_windows(fields, layers), **traits)
    return shape(fields, family, list(zip(mixers, ffns, strict=True)))


def _ernie_moe(fields: Fields) -> Shape:
    fields.require(*SIZES, "intermediate_size", "moe_num_experts", "moe_k", "moe_intermediate_size")
    layers, bias = fields.layers(), fields.flag("use_bias")
    first = fields.count("moe_layer_start_index", default=1, least=0)
    last = fields.optional("moe_layer_end_index", least=-1)
    last = layers - 1 if last is None or last < 0 else last
    every = fields.count("moe_layer_interval", default=1)
    experts = moe(fields, router_bias=True)
    network = dense(fields, bias=bias)
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias)
    sparse = [first <= index <= last and (index + 1) % every == 0 for index in range(layers)]
    layer_blocks = [(mixer, experts if is_mixture else network) for is_mixture in sparse]
    return shape(fields, "ernie", layer_blocks, tied=True)


def _llama4(fields: Fields) -> Shape:
    """Llama-4: three layers in four attend within chunks; `intermediate_size` is the width of every expert."""
    fields.require(*SIZES, "intermediate_size", "intermediate_size_mlp", "num_local_experts", "num_experts_per_tok")
    layers, biases = fields.layers(), attention_biases(fields)
    chunk = fields.optional("attention_chunk_size")
    fields.pass_over("use_qk_norm")  # the norm has no parameters
    rotary = fields.counts("no_rope_layers") or [int((index + 1) % 4 != 0) for index in range(layers)]
    kinds = fields.choices("layer_types", {"chunked_attention", "full_attention"}, layers)
    chunked = [kind == "chunked_attention" for kind in kinds] if kinds else [mark > 0 for mark in rotary]
    if len(chunked) != layers:
        raise fields.fault("no_rope_layers", f"has {len(chunked)} entries for {layers} layers")
    step = fields.count("interleave_moe_layer_step", default=1)
    moe_layers = fields.counts("moe_layers")
    sparse = frozenset(moe_layers if moe_layers is not None else range(step - 1, layers, step))
    local, full = (gqa(fields, chunk=size, **biases) for size in (chunk, None))
    experts = moe(fields, "intermediate_size", shared_width=fields.count("intermediate_size"))
    network = dense(fields, "intermediate_size_mlp")
    return shape(
        fields,
        "llama",
        [
            (local if is_chunked else full, experts if index in sparse else network)
            for index, is_chunked in enumerate(chunked)
        ],
    )


def _minimax_m2(fields: Fields) -> Shape:
    """MiniMax-M2: `intermediate_size` is the width of an expert; norms over all heads of queries and of keys."""
    fields.require(*SIZES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    shared = fields.count("shared_intermediate_size", default=0, least=0)
    ffn = moe(fields, "intermediate_size", shared_width=shared, router_bias=fields.flag("use_routing_bias"))
    mixer = gqa(fields, qk_norm=_minimax_norm(fields))
    mtp = drafts(fields) if fields.flag("use_mtp") else 0
    return shape(fields, "minimax", uniform(fields.layers(), mixer, ffn), mtp=mtp)


def _minimax_norm(fields: Fields) -> str | None:
    if not fields.flag("use_qk_norm", default=True):
        return None
    usual = "per_layer" if fields.text("model_type") == "minimax_m2" else "per_head"
    return "head" if (fields.text("qk_norm_type") or usual) == "per_head" else "full"


def _minimax_m3(fields: Fields) -> Shape:
    """MiniMax-M3: dense layers first, then experts; attention reads the highest-scoring blocks of tokens alone."""
    fields.require(*SIZES, "dense_intermediate_size", "num_local_experts", "num_experts_per_tok")
    layers = fields.layers()
    qk_norm = _minimax_norm(fields)
    fields.pass_over("n_shared_experts", "index_n_heads", "index_head_dim")
    plain = gqa(fields, qk_norm=qk_norm)
    mixers = [plain] * layers
    config, kinds = _minimax_indexer(fields, layers)
    if config is not None and config.flag("use_sparse_attention", default=True):
        marks = kinds or config.counts("sparse_attention_freq", layers) or [1] * layers
        config.require("sparse_num_index_heads", "sparse_index_dim", "sparse_block_size", "sparse_topk_blocks")
        block = config.count("sparse_block_size")
        top_k = block * config.count("sparse_topk_blocks")
        if top_k > LARGEST:
            raise config.fault("sparse_topk_blocks", "exceeds any context length")
        indexer = {
            "heads": config.count("sparse_num_index_heads"),
            "dim": config.count("sparse_index_dim"),
            "top_k": top_k,
            "block": block,
        }
        sparse = gqa(fields, qk_norm=qk_norm, indexer=indexer)
        mixers = [sparse if mark else plain for mark in marks]
    experts = moe(
        fields,
        "moe_intermediate_size",
        "intermediate_size",
        shared_width=fields.optional("shared_intermediate_size", least=0),
        router_bias=fields.flag("use_routing_bias", default=True),
    )
    network = dense(fields, "dense_intermediate_size")
    ffns = [experts if is_mixture else network for is_mixture in is_sparse(fields, layers)]
    return shape(fields, "minimax", list(zip(mixers, ffns, strict=True)), mtp=drafts(fields))


def _minimax_indexer(fields: Fields, layers: int) -> tuple[Fields | None, list[int] | None]:
    """Settings of the indexer, and which layers have one, as published or as transformers saves them."""
    kinds = fields.choices("layer_types", {"full_attention", "minimax_m3_sparse"}, layers)
    if fields.has("sparse_attention_config") or kinds is None:
        return fields.section("sparse_attention_config"), None
    marks = [int(kind == "minimax_m3_sparse") for kind in kinds]
    if not any(marks):
        return None, marks
    renamed = {
        "sparse_num_index_heads": "index_n_heads",
        "sparse_index_dim": "index_head_dim",
        "sparse_block_size": "index_block_size",
        "sparse_topk_blocks": "index_topk_blocks",
    }
    fields.require(*renamed.values())
    return Fields({old: fields.values[new] for old, new in renamed.items()}, fields.where), marks


def _mimo_v2(fields: Fields) -> Shape:
    """MiMo-V2: keys wider than values; layers with a window have their own numbers of heads, and sinks."""
    fields.require(*SIZES, "intermediate_size", "moe_intermediate_size", "head_dim")
    fields.require("hybrid_layer_pattern|layer_types")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    marks = fields.counts("hybrid_layer_pattern", layers)
    window_kv_heads = None  # of layers with a window, where the configuration does not state them
    if marks is None:
        kinds = fields.choices("layer_types", {"full_attention", "sliding_attention"}, layers) or ()
        marks = [int(kind == "sliding_attention") for kind in kinds]
        window_kv_heads = 2 * fields.count("num_key_value_heads")
    full = gqa(
        fields,
        v_head_dim=fields.optional("v_head_dim"),
        qkv_bias=bias,
        sinks=fields.flag("add_full_attention_sink_bias"),
    )
    sliding = gqa(
        fields,
        heads=fields.optional("swa_num_attention_heads"),
        kv_heads=fields.optional("swa_num_key_value_heads") or window_kv_heads,
        head_dim=fields.optional("swa_head_dim"),
        v_head_dim=fields.optional("swa_v_head_dim", "v_head_dim"),
        window=fields.count("sliding_window_size", "sliding_window"),
        qkv_bias=bias,
        sinks=fields.flag("add_swa_attention_sink_bias", default=window_kv_heads is not None),
    )
    experts, network = moe(fields, router_bias=True), dense(fields)
    ffns = [experts if is_mixture else network for is_mixture in is_sparse(fields, layers)]
    mixers = [sliding if mark else full for mark in marks]
    return shape(fields, "mimo", list(zip(mixers, ffns, strict=True)), mtp=drafts(fields))


def _step3(fields: Fields) -> Shape:
    """Step-3.5 and 3.7: layers with a window have more heads; the gate of one value per head is left out."""
    fields.require(*SIZES, "moe_intermediate_size", "intermediate_size", "layer_types", "sliding_window")
    layers = fields.layers()
    kinds = fields.choices("layer_types", {"sliding_attention", "full_attention"}) or []
    if len(kinds) < layers:  # further entries belong to the draft modules
        raise fields.fault("layer_types", f"has {len(kinds)} entries for {layers} layers")
    kv_heads = fields.optional("num_attention_groups", "num_key_value_heads")
    fields.pass_over("n_shared_experts")  # share_expert_dim is the width of all of them
    window = fields.count("sliding_window")
    window_heads = fields.section("attention_other_setting")
    mixers = {
        "full_attention": gqa(fields, kv_heads=kv_heads, qk_norm="head"),
        "sliding_attention": gqa(
            fields,
            heads=window_heads.optional("num_attention_heads") if window_heads else None,
            kv_heads=(window_heads.optional("num_attention_groups") if window_heads else None) or kv_heads,
            window=window,
            qk_norm="head",
        ),
    }
    experts = moe(
        fields,
        shared_width=fields.count("share_expert_dim", default=0, least=0),
        router_bias=fields.flag("use_moe_router_bias"),
    )
    network = dense(fields)
    ffns = [experts if is_mixture else network for is_mixture in _step3_sparse(fields, layers)]
    layer_mixers = [mixers[kind] for kind in kinds[:layers]]
    return shape(fields, "step", list(zip(layer_mixers, ffns, strict=True)), mtp=drafts(fields))


def _step3_sparse(fields: Fields, layers: int) -> list[bool]:
    """Whether each layer is a mixture: published files list the mixtures, re-saved ones count the dense layers."""
    if not isinstance(fields.values.get("moe_layers_enum"), str):
        return is_sparse(fields, layers)
    moe_layers = frozenset((fields.text("moe_layers_enum") or "").replace(" ", "").split(","))
    return [str(index) in moe_layers for index in range(layers)]


EXPERTS: Mapping[str, Callable[[Fields], Shape]] = {
    "ernie4_5_moe": _ernie_moe,
    "flex_olmo": _olmoe,
    "gpt_oss": _gpt_oss,
    "granitemoe": _granite_moe,
    "llama4": _llama4,
    "llama4_text": _llama4,
    "minimax_m2": _minimax_m2,
    "mimo_v2_flash": _mimo_v2,
    "minimax_m3": _minimax_m3,
    "minimax_m3_vl": _minimax_m3,
    "minimax_m3_vl_text": _minimax_m3,
    "mixtral": _mixtral,
    "olmoe": _olmoe,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_moe_text": _qwen3_moe,
    "step3p5": _step3,
    "step3p7": _step3,
}
