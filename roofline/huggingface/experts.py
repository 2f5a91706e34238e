"""Families whose layers are mixtures of experts, all with attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.layers import Block, Shape, dense, drafts, gqa, is_sparse, moe, shape, uniform, windows

__all__ = ["EXPERTS", "qwen_ffns"]

_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def _mixtral(fields: Fields) -> Shape:
    """Mixtral: `intermediate_size` is the width of an expert."""
    fields.require(*_NAMES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    ffn = moe(fields, "intermediate_size", shared_width=0)
    sliding = windows(fields, fields.layers())
    mixers = {window: gqa(fields, window=window) for window in sliding}
    return shape(fields, "mixtral", [(mixers[window], ffn) for window in sliding])


def _granite_moe(fields: Fields) -> Shape:
    fields.require(*_NAMES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias)
    return shape(fields, "granite", uniform(fields.layers(), mixer, moe(fields, "intermediate_size", shared_width=0)))


def _olmoe(fields: Fields) -> Shape:
    fields.require(*_NAMES, "intermediate_size", "num_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias, qk_norm="full")
    return shape(fields, "olmo", uniform(fields.layers(), mixer, moe(fields, "intermediate_size", shared_width=0)))


def _gpt_oss(fields: Fields) -> Shape:
    """gpt-oss: every other layer slides, a learnt sink a head, biases everywhere; experts `intermediate_size` wide."""
    fields.require(
        *_NAMES, "intermediate_size", "num_local_experts|num_experts", "num_experts_per_tok|experts_per_token"
    )
    bias = fields.flag("attention_bias", default=True)
    sliding = windows(fields, fields.layers(), lambda index: index % 2 == 0, default=128)
    mixers = {window: gqa(fields, window=window, qkv_bias=bias, o_bias=bias, sinks=True) for window in sliding}
    ffn = moe(fields, "intermediate_size", shared_width=0, router_bias=True, expert_bias=True)
    return shape(fields, "gpt-oss", [(mixers[window], ffn) for window in sliding])


def qwen_ffns(fields: Fields, layers: int, experts: Block) -> list[Block]:
    """Feed-forward networks of Qwen's mixtures: every `decoder_sparse_step`-th layer, `mlp_only_layers` excepted.

    Args:
        fields: of the configuration [record].
        layers: number of layers [1].
        experts: the mixture [record].

    Returns:
        One feed-forward network a layer.
    """
    step = fields.count("decoder_sparse_step", default=1)
    plain = frozenset(fields.counts("mlp_only_layers") or ())
    sparse = [index not in plain and (index + 1) % step == 0 for index in range(layers)]
    if all(sparse):
        return [experts] * layers
    network = dense(fields)
    return [experts if mixed else network for mixed in sparse]


def _qwen2_moe(fields: Fields) -> Shape:
    fields.require(*_NAMES, "moe_intermediate_size", "num_experts|num_local_experts", "num_experts_per_tok")
    shared = fields.count("shared_expert_intermediate_size", default=0, least=0)
    return _qwen_moe(fields, "qwen2", shared, {"qkv_bias": fields.flag("qkv_bias", default=True)})


def _qwen3_moe(fields: Fields) -> Shape:
    fields.require(*_NAMES, "moe_intermediate_size", "num_experts|num_local_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    if not fields.flag("use_qk_norm", default=True):  # the files of Qwen3-Coder say it, though there is no other Qwen3
        raise fields.fault("use_qk_norm", "Qwen3 without norms of queries and keys is not supported")
    return _qwen_moe(fields, "qwen3", 0, {"qkv_bias": bias, "o_bias": bias, "qk_norm": "head"})


def _qwen_moe(fields: Fields, family: str, shared: int, traits: Mapping[str, Any]) -> Shape:
    layers = fields.layers()
    ffns = qwen_ffns(fields, layers, moe(fields, shared_width=shared, shared_gate=shared > 0))
    first = fields.count("max_window_layers", default=28, least=0)
    sliding: list[int | None] = [None] * layers
    if fields.flag("use_sliding_window"):
        sliding = windows(fields, layers, lambda index: index >= first, default=4096)
    mixers = {window: gqa(fields, window=window, **traits) for window in sliding}
    return shape(fields, family, [(mixers[window], ffn) for window, ffn in zip(sliding, ffns, strict=True)])


def _ernie_moe(fields: Fields) -> Shape:
    fields.require(*_NAMES, "intermediate_size", "moe_num_experts", "moe_k", "moe_intermediate_size")
    layers, bias = fields.layers(), fields.flag("use_bias")
    first = fields.count("moe_layer_start_index", default=1, least=0)
    last = fields.optional("moe_layer_end_index", least=-1)
    last = layers - 1 if last is None or last < 0 else last
    every = fields.count("moe_layer_interval", default=1)
    experts = moe(fields, router_bias=True)
    network = dense(fields, bias=bias)
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias)
    sparse = [first <= index <= last and (index + 1) % every == 0 for index in range(layers)]
    return shape(fields, "ernie", [(mixer, experts if mixed else network) for mixed in sparse], tied=True)


def _llama4(fields: Fields) -> Shape:
    """Llama-4: three layers of four see their chunk; `intermediate_size` is the experts' width and the shared one's."""
    fields.require(*_NAMES, "intermediate_size", "intermediate_size_mlp", "num_local_experts", "num_experts_per_tok")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    chunk = fields.optional("attention_chunk_size")
    fields.pass_over("use_qk_norm")  # a norm without parameters
    rotary = fields.counts("no_rope_layers") or [int((index + 1) % 4 != 0) for index in range(layers)]
    kinds = fields.choices("layer_types", {"chunked_attention", "full_attention"}, layers)
    chunked = [kind == "chunked_attention" for kind in kinds] if kinds else [mark > 0 for mark in rotary]
    if len(chunked) != layers:
        raise fields.fault("no_rope_layers", f"has {len(chunked)} entries for {layers} layers")
    step = fields.count("interleave_moe_layer_step", default=1)
    listed = fields.counts("moe_layers")
    sparse = frozenset(listed if listed is not None else range(step - 1, layers, step))
    mixers = {limit: gqa(fields, chunk=limit, qkv_bias=bias, o_bias=bias) for limit in (chunk, None)}
    experts = moe(fields, "intermediate_size", shared_width=fields.count("intermediate_size"))
    network = dense(fields, "intermediate_size_mlp")
    return shape(
        fields,
        "llama",
        [
            (mixers[chunk if limited else None], experts if index in sparse else network)
            for index, limited in enumerate(chunked)
        ],
    )


def _minimax_m2(fields: Fields) -> Shape:
    """MiniMax-M2: `intermediate_size` is the width of an expert; norms over all heads of queries and of keys."""
    fields.require(*_NAMES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
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
    """MiniMax-M3: dense layers, then mixtures whose attention keeps the best blocks of tokens."""
    fields.require(*_NAMES, "dense_intermediate_size", "num_local_experts", "num_experts_per_tok")
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
        chosen = block * config.count("sparse_topk_blocks")
        if chosen > LARGEST:
            raise config.fault("sparse_topk_blocks", "exceeds any context length")
        indexer = {
            "heads": config.count("sparse_num_index_heads"),
            "dim": config.count("sparse_index_dim"),
            "top_k": chosen,
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
    ffns = [experts if mixed else network for mixed in is_sparse(fields, layers)]
    return shape(fields, "minimax", list(zip(mixers, ffns, strict=True)), mtp=drafts(fields))


def _minimax_indexer(fields: Fields, layers: int) -> tuple[Fields | None, list[int] | None]:
    """Settings of the indexer, and which layers have one: as published, or as transformers saves both."""
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
    """MiMo-V2: keys wider than values; sliding layers have heads and sinks of their own."""
    fields.require(*_NAMES, "intermediate_size", "moe_intermediate_size", "head_dim")
    fields.require("hybrid_layer_pattern|layer_types")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    marks = fields.counts("hybrid_layer_pattern", layers)
    usual = None  # KV heads of sliding layers, where the file of the class alone says nothing of them
    if marks is None:
        kinds = fields.choices("layer_types", {"full_attention", "sliding_attention"}, layers) or ()
        marks = [int(kind == "sliding_attention") for kind in kinds]
        usual = 2 * fields.count("num_key_value_heads")
    full = gqa(
        fields,
        v_head_dim=fields.optional("v_head_dim"),
        qkv_bias=bias,
        sinks=fields.flag("add_full_attention_sink_bias"),
    )
    sliding = gqa(
        fields,
        heads=fields.optional("swa_num_attention_heads"),
        kv_heads=fields.optional("swa_num_key_value_heads") or usual,
        head_dim=fields.optional("swa_head_dim"),
        v_head_dim=fields.optional("swa_v_head_dim", "v_head_dim"),
        window=fields.count("sliding_window_size", "sliding_window"),
        qkv_bias=bias,
        sinks=fields.flag("add_swa_attention_sink_bias", default=usual is not None),
    )
    experts, network = moe(fields, router_bias=True), dense(fields)
    ffns = [experts if mixed else network for mixed in is_sparse(fields, layers)]
    listed = [sliding if mark else full for mark in marks]
    return shape(fields, "mimo", list(zip(listed, ffns, strict=True)), mtp=drafts(fields))


def _step3(fields: Fields) -> Shape:
    """Step-3.5 and 3.7: sliding layers have more heads than full ones. The gate of one value a head is left out."""
    fields.require(*_NAMES, "moe_intermediate_size", "intermediate_size", "layer_types", "sliding_window")
    layers = fields.layers()
    kinds = fields.choices("layer_types", {"sliding_attention", "full_attention"}) or []
    if len(kinds) < layers:  # those beyond belong to the draft modules
        raise fields.fault("layer_types", f"has {len(kinds)} entries for {layers} layers")
    kv_heads = fields.optional("num_attention_groups", "num_key_value_heads")
    fields.pass_over("n_shared_experts")  # share_expert_dim is the width of all
    window = fields.count("sliding_window")
    other = fields.section("attention_other_setting")
    mixers = {
        "full_attention": gqa(fields, kv_heads=kv_heads, qk_norm="head"),
        "sliding_attention": gqa(
            fields,
            heads=other.optional("num_attention_heads") if other else None,
            kv_heads=(other.optional("num_attention_groups") if other else None) or kv_heads,
            window=window,
            qk_norm="head",
        ),
    }
    experts = moe(
        fields,
        shared_width=fields.count("share_expert_dim", default=0, least=0),
        router_bias=fields.flag("use_moe_router_bias"),
    )
    network, sparse = dense(fields), _step3_sparse(fields, layers)
    ffns = [experts if mixed else network for mixed in sparse]
    listed = [mixers[kind] for kind in kinds[:layers]]
    return shape(fields, "step", list(zip(listed, ffns, strict=True)), mtp=drafts(fields))


def _step3_sparse(fields: Fields, layers: int) -> list[bool]:
    """Whether each layer is a mixture: the file lists them in a text, copies of it count the dense ones."""
    if not isinstance(fields.values.get("moe_layers_enum"), str):
        return is_sparse(fields, layers)
    listed = frozenset((fields.text("moe_layers_enum") or "").replace(" ", "").split(","))
    return [str(index) in listed for index in range(layers)]


EXPERTS: Mapping[str, Callable[[Fields], Shape]] = {
    "ernie4_5_moe": _ernie_moe,
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
