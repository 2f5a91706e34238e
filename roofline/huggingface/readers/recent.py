"""Mixtures of experts of 2025 and 2026: Hunyuan-3, Laguna, Mellum, FlexOlmo, Granite with windows, Command, Ling-2.5.

What their configurations leave unsaid is in their modelling classes in Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.fields import Fields
from roofline.huggingface.layers import (
    Block,
    Shape,
    conv_bias,
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

__all__ = ["RECENT"]

_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def _networks(fields: Fields, experts: Block, sparse: list[bool], **traits: Any) -> list[Block]:
    """A mixture where a layer is sparse, else a dense network as wide as `intermediate_size`."""
    network = experts if all(sparse) else dense(fields, **traits)
    return [experts if mixed else network for mixed in sparse]


def _sparse_from(fields: Fields, first: int) -> list[bool]:
    """Which layers are mixtures where the first ones are dense and only `mlp_layer_types` may say otherwise."""
    layers = fields.layers()
    if fields.has("mlp_layer_types") or fields.has("first_k_dense_replace"):
        return is_sparse(fields, layers)
    return [index >= first for index in range(layers)]


def _hunyuan3(fields: Fields) -> Shape:
    """Hunyuan-3: the first layer is dense, norms on queries and keys of each head."""
    fields.require(*_NAMES, "intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    if fields.flag("mlp_bias"):
        raise fields.fault("mlp_bias", "networks with biases are not supported for this family")
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias, qk_norm="head")
    ffns = _networks(fields, moe(fields, router_bias=True), _sparse_from(fields, 1))
    return shape(fields, "hunyuan", [(mixer, ffn) for ffn in ffns], mtp=drafts(fields))


def _laguna(fields: Fields) -> Shape:
    """Laguna: as many heads as each layer says, a gate of one value a head, or one as wide as the output."""
    fields.require(*_NAMES, "intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    is_narrow = fields.values.get("gating", True) in (True, "per-head")
    usual = fields.count("num_attention_heads")
    heads = fields.counts("num_attention_heads_per_layer", layers, least=1) or [usual] * layers
    sliding = windows(fields, layers, lambda _: False)
    traits: dict[str, Any] = {"qkv_bias": bias, "o_bias": bias, "qk_norm": "head"}
    traits |= {"head_gate": is_narrow, "out_gate": not is_narrow}
    mixers = [gqa(fields, heads=own, window=window, **traits) for own, window in zip(heads, sliding, strict=True)]
    shared = fields.count("shared_expert_intermediate_size", default=0, least=0)
    ffns = _networks(fields, moe(fields, shared_width=shared, router_bias=True), _sparse_from(fields, 1))
    return shape(fields, "laguna", list(zip(mixers, ffns, strict=True)))


def _mellum(fields: Fields) -> Shape:
    """Mellum: attention of Qwen3, windows on the layers that say so."""
    fields.require(*_NAMES, "moe_intermediate_size", "num_local_experts|num_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    sliding = windows(fields, fields.layers(), lambda _: False)
    mixers = {window: gqa(fields, window=window, qkv_bias=bias, o_bias=bias, qk_norm="head") for window in sliding}
    ffns = _networks(fields, moe(fields, shared_width=0), _sparse_from(fields, 0))
    rows = [(mixers[window], ffn) for window, ffn in zip(sliding, ffns, strict=True)]
    return shape(fields, "mellum", rows, mtp=drafts(fields))


def _flex_olmo(fields: Fields) -> Shape:
    """FlexOlmo: Olmo-2 with mixtures; norms over all heads of queries and of keys."""
    fields.require(*_NAMES, "intermediate_size", "num_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias, qk_norm="full")
    return shape(fields, "olmo", uniform(fields.layers(), mixer, moe(fields, "intermediate_size", shared_width=0)))


def _granite_windows(fields: Fields) -> Shape:
    """Granite's mixtures with windows and sinks: the first layer of four sees everything."""
    fields.require(*_NAMES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    bias = fields.flag("attention_bias")
    sliding = windows(fields, fields.layers(), lambda index: index % 4 != 0, default=128)
    mixers = {window: gqa(fields, window=window, qkv_bias=bias, o_bias=bias, sinks=True) for window in sliding}
    shared = fields.count("shared_intermediate_size", default=0, least=0)
    ffn = moe(fields, "intermediate_size", shared_width=shared)
    return shape(fields, "granite", [(mixers[window], ffn) for window in sliding])


def _cohere2_moe(fields: Fields) -> Shape:
    """Command with mixtures: attention and experts side by side behind one norm, three layers of four slide."""
    fields.require(*_NAMES, "intermediate_size", "num_experts", "num_experts_per_tok")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    if fields.optional("prefix_dense_intermediate_size") is not None:
        raise fields.fault("prefix_dense_intermediate_size", "dense layers of their own width are not supported")
    sliding = windows(fields, layers, lambda index: (index + 1) % 4 != 0, default=4096)
    mixers = {window: gqa(fields, window=window, qkv_bias=bias, o_bias=bias) for window in sliding}
    ffns = _networks(fields, moe(fields, "intermediate_size"), _sparse_from(fields, 0))
    rows = [(mixers[window], ffn) for window, ffn in zip(sliding, ffns, strict=True)]
    return shape(fields, "command-r", rows, tied=True, norms=1, parallel=True)


def _bailing_hybrid(fields: Fields) -> Shape:
    """Ling-2.5 and Ring-2.5: delta attention whose decay is a full matrix, and latent attention with a gate a head."""
    fields.require(*_NAMES, "kv_lora_rank", "num_experts|num_local_experts", "moe_intermediate_size")
    layers, heads = fields.layers(), fields.count("num_attention_heads")
    kinds = fields.choices("layer_types", {"linear_attention", "full_attention"}, layers)
    every = fields.count("layer_group_size", default=6)
    full = [kind == "full_attention" for kind in kinds] if kinds else [(i + 1) % every == 0 for i in range(layers)]
    fields.pass_over("linear_num_heads", "linear_conv_kernel_dim")
    linear = part(
        "kda",
        heads=heads,
        dim=fields.count("linear_head_dim", "head_dim"),
        conv=fields.count("short_conv_kernel_size", "linear_conv_kernel_dim", default=4),
        full_rank_gate=True,
        full_rank_decay=True,
    )
    latent = mla(fields, head_gate=True)
    ffns = _networks(fields, moe(fields, router_bias=True), _sparse_from(fields, 2))
    rows = [(latent if whole else linear, ffn) for whole, ffn in zip(full, ffns, strict=True)]
    return shape(fields, "ling", rows, mtp=drafts(fields))


def _bamba(fields: Fields) -> Shape:
    """Bamba: state spaces, and attention on the layers that are listed."""
    fields.require(*_NAMES, "intermediate_size", "mamba_n_heads", "mamba_d_state")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    if fields.flag("mamba_proj_bias"):
        raise fields.fault("mamba_proj_bias", "biases of the projections of a state space are not supported")
    conv_bias(fields, "mamba_conv_bias")
    listed = frozenset(fields.counts("attn_layer_indices") or ())
    heads, groups = fields.count("mamba_n_heads"), fields.count("mamba_n_groups", default=1)
    fields.divided("mamba_n_groups", heads, groups)
    hidden = fields.count("hidden_size") * fields.count("mamba_expand", default=2)
    fields.pass_over("mamba_d_head")
    state = part(
        "mamba2",
        heads=heads,
        head_dim=fields.divided("mamba_n_heads", hidden, heads),
        groups=groups,
        state=fields.count("mamba_d_state"),
        conv=fields.count("mamba_d_conv", default=4),
    )
    attention, ffn = gqa(fields, qkv_bias=bias, o_bias=bias), dense(fields, bias=fields.flag("mlp_bias"))
    return shape(fields, "bamba", [(attention if index in listed else state, ffn) for index in range(layers)])


RECENT: Mapping[str, Callable[[Fields], Shape]] = {
    "bailing_hybrid": _bailing_hybrid,
    "bamba": _bamba,
    "cohere2_moe": _cohere2_moe,
    "flex_olmo": _flex_olmo,
    "granitemoe_swa": _granite_windows,
    "hy_v3": _hunyuan3,
    "laguna": _laguna,
    "mellum": _mellum,
}
