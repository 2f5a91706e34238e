"""Mixtures of experts of 2024 to 2026: dots1, EXAONE, Hunyuan, Ling, LongCat, Phi-MoE, DBRX and others.

Defaults that configurations leave out are those of Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models); for Ling and Hunyuan also of SGLang
(https://github.com/sgl-project/sglang, python/sglang/srt/models/bailing_moe.py) and vLLM
(https://github.com/vllm-project/vllm, vllm/model_executor/models/hunyuan_v1.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.layers import (
    SIZES,
    Block,
    LayerList,
    Shape,
    attention_biases,
    dense,
    drafts,
    gqa,
    gqa_by_window,
    is_sparse,
    mla,
    moe,
    networks,
    part,
    shape,
    uniform,
    windows,
)


def attention_windows(fields: Fields) -> list[int | None]:
    """Window of each layer of EXAONE [tokens]; the pattern is a period or letters such as LLLG."""
    layers, pattern = fields.layers(), fields.values.get("sliding_window_pattern")
    if not fields.has("sliding_window"):
        fields.pass_over("layer_types")
        return [None] * layers
    if isinstance(pattern, str):
        letters = fields.text("sliding_window_pattern") or "G"
        return windows(fields, layers, lambda index: letters[index % len(letters)] == "L")
    period = fields.count("sliding_window_pattern", default=4)
    return windows(fields, layers, lambda index: (index + 1) % period != 0)


def _with_dense_layers(
    fields: Fields, family: str, mixers: list[Block], experts: Block, sparse: list[bool], **more: Any
) -> Shape:
    """A model with mixtures of experts on sparse layers and dense FFNs, `intermediate_size` wide, on the others."""
    ffns = networks(fields, experts, sparse)
    return shape(fields, family, list(zip(mixers, ffns, strict=True)), **more)


def _dots1(fields: Fields) -> Shape:
    """dots.llm1: the first layers are dense; a window, if stated, applies from layer `max_window_layers` on."""
    fields.require(*SIZES, "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok")
    layers, biases = fields.layers(), attention_biases(fields)
    first = fields.count("max_window_layers", default=layers, least=0)
    layer_windows: list[int | None] = [None] * layers
    if fields.has("sliding_window"):
        layer_windows = windows(fields, layers, lambda index: index >= first)
    mixers = gqa_by_window(fields, layer_windows, **biases, qk_norm="head")
    return _with_dense_layers(fields, "dots", mixers, moe(fields, router_bias=True), is_sparse(fields, layers))


def _exaone_moe(fields: Fields) -> Shape:
    fields.require(*SIZES, "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    mixers = gqa_by_window(fields, attention_windows(fields), qk_norm="head")
    experts = moe(fields, router_bias=True)
    sparse = is_sparse(fields, len(mixers))
    return _with_dense_layers(fields, "exaone", mixers, experts, sparse, mtp=drafts(fields))


def _solar_open(fields: Fields) -> Shape:
    fields.require(*SIZES, "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    mixer = gqa(fields, qkv_bias=bias, qk_norm="head" if fields.flag("use_qk_norm") else None)
    mixers = [mixer] * fields.layers()
    return _with_dense_layers(fields, "solar", mixers, moe(fields, router_bias=True), is_sparse(fields, len(mixers)))


def _bailing(fields: Fields) -> Shape:
    """Ling and Ring, 1 and 2: shared experts are as wide as the routed ones unless a field says otherwise."""
    fields.require(*SIZES, "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    if fields.flag("use_bias"):
        raise fields.fault("use_bias", "biases are not supported for this family")
    shared = fields.count("num_shared_experts", default=0, least=0)
    shared *= fields.count("moe_shared_expert_intermediate_size", "moe_intermediate_size")
    if shared > LARGEST:
        raise fields.fault("num_shared_experts", "implausibly wide shared experts")
    experts = moe(fields, shared_width=shared, router_bias=fields.flag("moe_router_enable_expert_bias"))
    qk_norm = "head" if fields.flag("use_qk_norm") else None
    mixer = gqa(fields, qkv_bias=fields.flag("use_qkv_bias"), qk_norm=qk_norm)
    mixers, sparse = [mixer] * fields.layers(), is_sparse(fields, fields.layers())
    return _with_dense_layers(fields, "ling", mixers, experts, sparse, mtp=drafts(fields))


def _same_in_all_layers(fields: Fields, name: str, default: int | None = None) -> int | None:
    """A number, or a list with the same number for every layer."""
    if not isinstance(fields.values.get(name), list):
        return fields.optional(name, least=0) if fields.has(name) else default
    numbers = set(fields.counts(name, fields.layers()) or ())
    if len(numbers) != 1:
        raise fields.fault(name, "numbers that differ from layer to layer are not supported")
    return numbers.pop()


def _hunyuan(fields: Fields) -> Shape:
    """Hunyuan-A13B and Hunyuan-Large: an FFN alongside the experts; some layers share the previous layer's KV cache."""
    fields.require(*SIZES, "intermediate_size", "num_experts", "moe_topk")
    layers, biases = fields.layers(), attention_biases(fields)
    experts, top_k = _same_in_all_layers(fields, "num_experts") or 1, _same_in_all_layers(fields, "moe_topk") or 1
    width = fields.count("intermediate_size")
    expert_width = _same_in_all_layers(fields, "moe_intermediate_size") or width
    has_shared = fields.flag("use_mixed_mlp_moe", default=True)
    shared = (_same_in_all_layers(fields, "num_shared_expert", 1) or 0) * width if has_shared else 0
    if shared > LARGEST:
        raise fields.fault("num_shared_expert", "implausibly wide shared experts")
    fields.pass_over("num_experts_per_tok", "num_local_experts")
    values = {"num_experts": experts, "moe_topk": top_k, "moe_intermediate_size": expert_width}
    ffn = moe(Fields(values, fields.where), shared_width=shared)
    every = fields.count("cla_share_factor", default=1) if fields.flag("use_cla") else 1
    is_newer = fields.text("model_type") == "hunyuan_v1_moe"
    qk_norm = "head" if fields.flag("use_qk_norm", default=is_newer) else None
    caching, sharing = (gqa(fields, kv_shared=is_shared, **biases, qk_norm=qk_norm) for is_shared in (False, True))
    layer_blocks = [(sharing if index % every else caching, ffn) for index in range(layers)]
    return shape(fields, "hunyuan", layer_blocks)


def _longcat(fields: Fields) -> Shape:
    """LongCat-Flash: a layer has two pairs of attention and dense FFN, with experts alongside the first FFN.

    Experts and first FFN read the same normalized input, so the FFN is counted as a shared expert. Zero
    experts return their input.
    """
    fields.require("hidden_size", "num_attention_heads", "vocab_size", "num_layers|num_hidden_layers")
    fields.require("ffn_hidden_size", "expert_ffn_hidden_size", "n_routed_experts", "moe_topk")
    pairs = fields.layers("num_layers") if fields.has("num_layers") else fields.layers() // 2
    fields.pass_over("num_hidden_layers")
    width, zeros = fields.count("ffn_hidden_size"), fields.count("zero_expert_num", default=0, least=0)
    kind = fields.text("zero_expert_type")
    if zeros and kind not in (None, "identity"):
        raise fields.fault("zero_expert_type", f"{kind!r} is not supported; only identity")
    experts = moe(
        fields,
        "expert_ffn_hidden_size",
        shared_width=width,
        router_bias=fields.flag("router_bias"),
        zero_experts=zeros,
    )
    mixer, network = mla(fields), dense(fields, width=width)
    pair: LayerList = [(mixer, experts), (mixer, network)]
    return shape(fields, "longcat", pair * max(1, pairs), mtp=drafts(fields))


def _phimoe(fields: Fields) -> Shape:
    """Phi-3.5-MoE: norms with biases; `intermediate_size` is the width of an expert."""
    fields.require(*SIZES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    biases = attention_biases(fields)
    mixers = gqa_by_window(fields, windows(fields, fields.layers()), **biases)
    ffn = moe(fields, "intermediate_size", shared_width=0)
    layer_blocks = [(mixer, ffn) for mixer in mixers]
    return shape(fields, "phi", layer_blocks, norm_bias=True, head_bias=fields.flag("lm_head_bias"))


def _dbrx(fields: Fields) -> Shape:
    fields.require("d_model", "n_heads", "n_layers", "vocab_size", "attn_config", "ffn_config")
    attention, network = fields.section("attn_config"), fields.section("ffn_config")
    if attention is None or network is None:
        raise fields.fault("attn_config" if attention is None else "ffn_config", "missing")
    network.require("ffn_hidden_size", "moe_num_experts", "moe_top_k")
    fields.pass_over("num_key_value_heads")  # transformers copies it from attn_config
    hidden, heads = fields.count("d_model"), fields.count("n_heads")
    head_dim = fields.divided("n_heads", hidden, heads)
    mixer = gqa(fields, heads=heads, kv_heads=attention.count("kv_n_heads", default=1), head_dim=head_dim)
    ffn = moe(network, "ffn_hidden_size", shared_width=0)
    layers = uniform(fields.layers("n_layers"), mixer, ffn)
    return Shape("dbrx", hidden, fields.count("vocab_size"), fields.flag("tie_word_embeddings"), layers)


def _afmoe(fields: Fields) -> Shape:
    """Trinity: gated attention, four norms per layer, the first layers dense."""
    fields.require(*SIZES, "intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    layers = fields.layers()
    period = fields.count("global_attn_every_n_layers", default=4)
    layer_windows = windows(fields, layers, lambda index: (index + 1) % period != 0)
    mixers = gqa_by_window(fields, layer_windows, qk_norm="head", out_gate=True)
    first = fields.count("num_dense_layers", default=1, least=0)
    sparse = [index >= first for index in range(layers)]
    return _with_dense_layers(fields, "trinity", mixers, moe(fields, router_bias=True), sparse, norms=4)


def _granite_shared(fields: Fields) -> Shape:
    """Granite with a shared FFN alongside the experts."""
    fields.require(*SIZES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    biases = attention_biases(fields)
    shared = fields.count("shared_intermediate_size", default=0, least=0)
    ffn = moe(fields, "intermediate_size", shared_width=shared)
    return shape(fields, "granite", uniform(fields.layers(), gqa(fields, **biases), ffn))


def _mla_dense(fields: Fields) -> Shape:
    """MiniCPM3 and Youtu: latent attention and dense FFNs."""
    fields.require(*SIZES, "intermediate_size", "kv_lora_rank", "q_lora_rank")
    family = "minicpm" if fields.text("model_type") == "minicpm3" else "youtu"
    return shape(fields, family, uniform(fields.layers(), mla(fields), dense(fields)), tied=True)


def _mllama(fields: Fields) -> Shape:
    """Language model of Llama-3.2-Vision: Llama with layers of cross-attention to an image.

    A request without an image skips these layers: they take memory but no time. The embedding has eight rows more than
    the head; they are left out.
    """
    fields.require(*SIZES, "intermediate_size", "cross_attention_layers")
    layers = fields.layers()
    cross_layers = frozenset(fields.counts("cross_attention_layers") or ())
    if not cross_layers <= set(range(layers)):
        raise fields.fault("cross_attention_layers", f"has layers beyond the {layers} there are")
    attention, network = gqa(fields), dense(fields)
    sizes = {name: attention[name] for name in ("heads", "kv_heads", "head_dim")}
    cross = (part("cross", **sizes, width=network["width"]), part("none"))
    plain = (attention, network)
    return shape(fields, "llama", [cross if index in cross_layers else plain for index in range(layers)])


MIXTURES: Mapping[str, Callable[[Fields], Shape]] = {
    "afmoe": _afmoe,
    "bailing_moe": _bailing,
    "bailing_moe_v2": _bailing,
    "dbrx": _dbrx,
    "dots1": _dots1,
    "exaone_moe": _exaone_moe,
    "granitemoeshared": _granite_shared,
    "hunyuan": _hunyuan,
    "hunyuan_v1_moe": _hunyuan,
    "longcat_flash": _longcat,
    "minicpm3": _mla_dense,
    "mllama_text_model": _mllama,
    "phimoe": _phimoe,
    "solar_open": _solar_open,
    "youtu": _mla_dense,
}
