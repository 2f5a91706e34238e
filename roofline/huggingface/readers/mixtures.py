"""Mixtures of experts with attention of 2024 to 2026: dots1, EXAONE, Hunyuan, Ling, LongCat, Phi-MoE, DBRX and others.

What their configurations leave unsaid is in their modelling classes in Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models). Some of Ling and Hunyuan are not there, but in
SGLang (https://github.com/sgl-project/sglang, python/sglang/srt/models/bailing_moe.py) and in vLLM
(https://github.com/vllm-project/vllm, vllm/model_executor/models/hunyuan_v1.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.layers import (
    Block,
    LayerList,
    Shape,
    dense,
    drafts,
    gqa,
    is_sparse,
    mla,
    moe,
    part,
    shape,
    uniform,
    windows,
)

__all__ = ["MIXTURES", "attention_windows"]

_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def attention_windows(fields: Fields, default: int | None = 4) -> list[int | None]:
    """Window of each layer of EXAONE and its like, whose pattern is a number or a text such as LLLG.

    Args:
        fields: of the configuration [record].
        default: every so many layers one sees everything, where nothing is said [1].

    Returns:
        One value a layer, null where a layer sees everything [tokens].
    """
    layers, pattern = fields.layers(), fields.values.get("sliding_window_pattern")
    if not fields.has("sliding_window"):
        fields.pass_over("layer_types")
        return [None] * layers
    if isinstance(pattern, str):
        letters = fields.text("sliding_window_pattern") or "G"
        return windows(fields, layers, lambda index: letters[index % len(letters)] == "L")
    period = fields.count("sliding_window_pattern", default=default or 1)
    return windows(fields, layers, lambda index: (index + 1) % period != 0)


def _with_dense_layers(
    fields: Fields, family: str, mixers: list[Block], experts: Block, sparse: list[bool], **more: Any
) -> Shape:
    """Some layers are dense and `intermediate_size` wide, the others are mixtures."""
    network = experts if all(sparse) else dense(fields)
    ffns = [experts if mixed else network for mixed in sparse]
    return shape(fields, family, list(zip(mixers, ffns, strict=True)), **more)


def _dots1(fields: Fields) -> Shape:
    """dots.llm1: the first layers are dense; those from `max_window_layers` on slide where a window is given."""
    fields.require(*_NAMES, "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    first = fields.count("max_window_layers", default=layers, least=0)
    sliding: list[int | None] = [None] * layers
    if fields.has("sliding_window"):
        sliding = windows(fields, layers, lambda index: index >= first)
    traits: dict[str, Any] = {"qkv_bias": bias, "o_bias": bias, "qk_norm": "head"}
    mixers = {window: gqa(fields, window=window, **traits) for window in sliding}
    rows = [mixers[window] for window in sliding]
    return _with_dense_layers(fields, "dots", rows, moe(fields, router_bias=True), is_sparse(fields, layers))


def _exaone_moe(fields: Fields) -> Shape:
    fields.require(*_NAMES, "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    sliding = attention_windows(fields)
    mixers = {window: gqa(fields, window=window, qk_norm="head") for window in sliding}
    rows = [mixers[window] for window in sliding]
    experts = moe(fields, router_bias=True)
    sparse = is_sparse(fields, len(rows))
    return _with_dense_layers(fields, "exaone", rows, experts, sparse, mtp=drafts(fields))


def _solar_open(fields: Fields) -> Shape:
    fields.require(*_NAMES, "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    mixer = gqa(fields, qkv_bias=bias, qk_norm="head" if fields.flag("use_qk_norm") else None)
    rows = [mixer] * fields.layers()
    return _with_dense_layers(fields, "solar", rows, moe(fields, router_bias=True), is_sparse(fields, len(rows)))


def _bailing(fields: Fields) -> Shape:
    """Ling and Ring, 1 and 2: shared experts as wide as the routed ones unless said; biases where `use_bias` says."""
    fields.require(*_NAMES, "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    bias = fields.flag("use_bias")
    if bias:
        raise fields.fault("use_bias", "biases are not supported for this family")
    shared = fields.count("num_shared_experts", default=0, least=0)
    shared *= fields.count("moe_shared_expert_intermediate_size", "moe_intermediate_size")
    if shared > LARGEST:
        raise fields.fault("num_shared_experts", "implausibly wide shared experts")
    experts = moe(fields, shared_width=shared, router_bias=fields.flag("moe_router_enable_expert_bias"))
    qk_norm = "head" if fields.flag("use_qk_norm") else None
    mixer = gqa(fields, qkv_bias=fields.flag("use_qkv_bias"), qk_norm=qk_norm)
    rows, sparse = [mixer] * fields.layers(), is_sparse(fields, fields.layers())
    return _with_dense_layers(fields, "ling", rows, experts, sparse, mtp=drafts(fields))


def _same_in_all_layers(fields: Fields, name: str, default: int | None = None) -> int | None:
    """A number that some files state once for every layer: it must be the same for all."""
    if not isinstance(fields.values.get(name), list):
        return fields.optional(name, least=0) if fields.has(name) else default
    numbers = set(fields.counts(name, fields.layers()) or ())
    if len(numbers) != 1:
        raise fields.fault(name, "numbers that differ from layer to layer are not supported")
    return numbers.pop()


def _hunyuan(fields: Fields) -> Shape:
    """Hunyuan-A13B and Hunyuan-Large: a network beside the experts; some layers share the cache of the one before."""
    fields.require(*_NAMES, "intermediate_size", "num_experts", "moe_topk")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    experts, top_k = _same_in_all_layers(fields, "num_experts") or 1, _same_in_all_layers(fields, "moe_topk") or 1
    width = fields.count("intermediate_size")
    single = _same_in_all_layers(fields, "moe_intermediate_size") or width
    beside = fields.flag("use_mixed_mlp_moe", default=True)
    shared = (_same_in_all_layers(fields, "num_shared_expert", 1) or 0) * width if beside else 0
    if shared > LARGEST:
        raise fields.fault("num_shared_expert", "implausibly wide shared experts")
    fields.pass_over("num_experts_per_tok", "num_local_experts")
    values = {"num_experts": experts, "moe_topk": top_k, "moe_intermediate_size": single}
    ffn = moe(Fields(values, fields.where), shared_width=shared)
    every = fields.count("cla_share_factor", default=1) if fields.flag("use_cla") else 1
    newer = fields.text("model_type") == "hunyuan_v1_moe"
    qk_norm = "head" if fields.flag("use_qk_norm", default=newer) else None
    traits: dict[str, Any] = {"qkv_bias": bias, "o_bias": bias, "qk_norm": qk_norm}
    mixers = {own: gqa(fields, kv_shared=not own, **traits) for own in (True, False)}
    return shape(fields, "hunyuan", [(mixers[index % every == 0], ffn) for index in range(layers)])


def _longcat(fields: Fields) -> Shape:
    """LongCat-Flash: a layer is two of attention and a dense network; its experts work beside the first network.

    Both read the same normalised input, so the first network stands with the experts like a shared expert. Some of the
    router's choices are experts that return their input.
    """
    fields.require("hidden_size", "num_attention_heads", "vocab_size", "num_layers|num_hidden_layers")
    fields.require("ffn_hidden_size", "expert_ffn_hidden_size", "n_routed_experts", "moe_topk")
    halves = fields.layers("num_layers") if fields.has("num_layers") else fields.layers() // 2
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
    rows: LayerList = [(mixer, experts), (mixer, network)]
    return shape(fields, "longcat", rows * max(1, halves), mtp=drafts(fields))


def _phimoe(fields: Fields) -> Shape:
    """Phi-3.5-MoE: norms with biases; `intermediate_size` is the width of an expert."""
    fields.require(*_NAMES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    sliding = windows(fields, fields.layers())
    mixers = {window: gqa(fields, window=window, qkv_bias=bias, o_bias=bias) for window in sliding}
    ffn = moe(fields, "intermediate_size", shared_width=0)
    rows = [(mixers[window], ffn) for window in sliding]
    return shape(fields, "phi", rows, norm_bias=True, head_bias=fields.flag("lm_head_bias"))


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
    rows = uniform(fields.layers("n_layers"), mixer, ffn)
    return Shape("dbrx", hidden, fields.count("vocab_size"), fields.flag("tie_word_embeddings"), rows)


def _afmoe(fields: Fields) -> Shape:
    """Trinity: gates on the outputs of attention, four norms a layer, the first layers dense."""
    fields.require(*_NAMES, "intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    layers = fields.layers()
    period = fields.count("global_attn_every_n_layers", default=4)
    sliding = windows(fields, layers, lambda index: (index + 1) % period != 0)
    mixers = {window: gqa(fields, window=window, qk_norm="head", out_gate=True) for window in sliding}
    first = fields.count("num_dense_layers", default=1, least=0)
    rows = [mixers[window] for window in sliding]
    sparse = [index >= first for index in range(layers)]
    return _with_dense_layers(fields, "trinity", rows, moe(fields, router_bias=True), sparse, norms=4)


def _granite_shared(fields: Fields) -> Shape:
    """Granite's mixtures with a shared network beside the experts."""
    fields.require(*_NAMES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    shared = fields.count("shared_intermediate_size", default=0, least=0)
    ffn = moe(fields, "intermediate_size", shared_width=shared)
    return shape(fields, "granite", uniform(fields.layers(), gqa(fields, qkv_bias=bias, o_bias=bias), ffn))


def _mla_dense(fields: Fields) -> Shape:
    """MiniCPM3 and Youtu: latent attention and a dense network."""
    fields.require(*_NAMES, "intermediate_size", "kv_lora_rank", "q_lora_rank")
    family = "minicpm" if fields.text("model_type") == "minicpm3" else "youtu"
    return shape(fields, family, uniform(fields.layers(), mla(fields), dense(fields)), tied=True)


def _mllama(fields: Fields) -> Shape:
    """Language model of Llama-3.2-Vision: Llama, and layers between that attend to an image and nothing else.

    A request of text alone passes those over, so that they are kept in memory and take no time. The embedding has eight
    rows more than the head; they are left out.
    """
    fields.require(*_NAMES, "intermediate_size", "cross_attention_layers")
    layers = fields.layers()
    listed = frozenset(fields.counts("cross_attention_layers") or ())
    if not listed <= set(range(layers)):
        raise fields.fault("cross_attention_layers", f"has layers beyond the {layers} there are")
    attention, network = gqa(fields), dense(fields)
    sizes = {name: attention[name] for name in ("heads", "kv_heads", "head_dim")}
    cross = (part("cross", **sizes, width=network["width"]), part("none"))
    own = (attention, network)
    return shape(fields, "llama", [cross if index in listed else own for index in range(layers)])


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
