"""Mixtures of experts of 2025 and 2026: Hunyuan-3, Laguna, Mellum, Granite with windows, Command, Ling-2.5, and Bamba.

Defaults that configurations leave out are those of Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.fields import Fields
from roofline.huggingface.layers import (
    SIZES,
    Shape,
    attention_biases,
    conv_bias,
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
    windows,
)


def _sparse_from(fields: Fields, first: int) -> list[bool]:
    """Whether each layer is a mixture: all from `first` on, unless a field says otherwise."""
    layers = fields.layers()
    if fields.has("mlp_layer_types") or fields.has("first_k_dense_replace"):
        return is_sparse(fields, layers)
    return [index >= first for index in range(layers)]


def _hunyuan3(fields: Fields) -> Shape:
    """Hunyuan-3: the first layer is dense; norms on the queries and keys of each head."""
    fields.require(*SIZES, "intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    biases = attention_biases(fields)
    if fields.flag("mlp_bias"):
        raise fields.fault("mlp_bias", "networks with biases are not supported for this family")
    mixer = gqa(fields, **biases, qk_norm="head")
    ffns = networks(fields, moe(fields, router_bias=True), _sparse_from(fields, 1))
    return shape(fields, "hunyuan", [(mixer, ffn) for ffn in ffns], mtp=drafts(fields))


def _laguna(fields: Fields) -> Shape:
    """Laguna: a number of heads per layer; the gate has one value per head, or is as wide as the output."""
    fields.require(*SIZES, "intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    layers, biases = fields.layers(), attention_biases(fields)
    is_narrow = fields.values.get("gating", True) in (True, "per-head")
    default = fields.count("num_attention_heads")
    heads = fields.counts("num_attention_heads_per_layer", layers, least=1) or [default] * layers
    layer_windows = windows(fields, layers, lambda _: False)
    traits: dict[str, Any] = {**biases, "qk_norm": "head", "head_gate": is_narrow, "out_gate": not is_narrow}
    mixers = [
        gqa(fields, heads=number, window=window, **traits) for number, window in zip(heads, layer_windows, strict=True)
    ]
    shared = fields.count("shared_expert_intermediate_size", default=0, least=0)
    ffns = networks(fields, moe(fields, shared_width=shared, router_bias=True), _sparse_from(fields, 1))
    return shape(fields, "laguna", list(zip(mixers, ffns, strict=True)))


def _mellum(fields: Fields) -> Shape:
    """Mellum: attention as in Qwen3, with windows where `layer_types` says so."""
    fields.require(*SIZES, "moe_intermediate_size", "num_local_experts|num_experts", "num_experts_per_tok")
    biases = attention_biases(fields)
    layer_windows = windows(fields, fields.layers(), lambda _: False)
    mixers = gqa_by_window(fields, layer_windows, **biases, qk_norm="head")
    ffns = networks(fields, moe(fields, shared_width=0), _sparse_from(fields, 0))
    return shape(fields, "mellum", list(zip(mixers, ffns, strict=True)), mtp=drafts(fields))


def _granite_windows(fields: Fields) -> Shape:
    """Granite with experts and sinks: a window on all layers but the first of four."""
    fields.require(*SIZES, "intermediate_size", "num_local_experts", "num_experts_per_tok")
    biases = attention_biases(fields)
    layer_windows = windows(fields, fields.layers(), lambda index: index % 4 != 0, default=128)
    mixers = gqa_by_window(fields, layer_windows, **biases, sinks=True)
    shared = fields.count("shared_intermediate_size", default=0, least=0)
    ffn = moe(fields, "intermediate_size", shared_width=shared)
    return shape(fields, "granite", [(mixer, ffn) for mixer in mixers])


def _cohere2_moe(fields: Fields) -> Shape:
    """Command with experts: attention and experts in parallel after one norm, a window on three layers in four."""
    fields.require(*SIZES, "intermediate_size", "num_experts", "num_experts_per_tok")
    layers, biases = fields.layers(), attention_biases(fields)
    if fields.optional("prefix_dense_intermediate_size") is not None:
        raise fields.fault("prefix_dense_intermediate_size", "dense layers of their own width are not supported")
    layer_windows = windows(fields, layers, lambda index: (index + 1) % 4 != 0, default=4096)
    mixers = gqa_by_window(fields, layer_windows, **biases)
    ffns = networks(fields, moe(fields, "intermediate_size"), _sparse_from(fields, 0))
    return shape(fields, "command-r", list(zip(mixers, ffns, strict=True)), tied=True, norms=1, parallel=True)


def _bailing_hybrid(fields: Fields) -> Shape:
    """Ling-2.5 and Ring-2.5: delta attention with a full-rank decay, and latent attention with a gate per head."""
    fields.require(*SIZES, "kv_lora_rank", "num_experts|num_local_experts", "moe_intermediate_size")
    layers, heads = fields.layers(), fields.count("num_attention_heads")
    kinds = fields.choices("layer_types", {"linear_attention", "full_attention"}, layers)
    every = fields.count("layer_group_size", default=6)
    is_latent = [kind == "full_attention" for kind in kinds] if kinds else [(i + 1) % every == 0 for i in range(layers)]
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
    ffns = networks(fields, moe(fields, router_bias=True), _sparse_from(fields, 2))
    layer_blocks = [(latent if attends else linear, ffn) for attends, ffn in zip(is_latent, ffns, strict=True)]
    return shape(fields, "ling", layer_blocks, mtp=drafts(fields))


def _bamba(fields: Fields) -> Shape:
    """Bamba: state spaces, and attention on the listed layers."""
    fields.require(*SIZES, "intermediate_size", "mamba_n_heads", "mamba_d_state")
    layers, biases = fields.layers(), attention_biases(fields)
    if fields.flag("mamba_proj_bias"):
        raise fields.fault("mamba_proj_bias", "biases of the projections of a state space are not supported")
    conv_bias(fields, "mamba_conv_bias")
    attention_layers = frozenset(fields.counts("attn_layer_indices") or ())
    heads, groups = fields.count("mamba_n_heads"), fields.count("mamba_n_groups", default=1)
    fields.divided("mamba_n_groups", heads, groups)
    inner = fields.count("hidden_size") * fields.count("mamba_expand", default=2)
    fields.pass_over("mamba_d_head")
    state = part(
        "mamba2",
        heads=heads,
        head_dim=fields.divided("mamba_n_heads", inner, heads),
        groups=groups,
        state=fields.count("mamba_d_state"),
        conv=fields.count("mamba_d_conv", default=4),
    )
    attention, ffn = gqa(fields, **biases), dense(fields, bias=fields.flag("mlp_bias"))
    layer_blocks = [(attention if index in attention_layers else state, ffn) for index in range(layers)]
    return shape(fields, "bamba", layer_blocks)


RECENT: Mapping[str, Callable[[Fields], Shape]] = {
    "bailing_hybrid": _bailing_hybrid,
    "bamba": _bamba,
    "cohere2_moe": _cohere2_moe,
    "granitemoe_swa": _granite_windows,
    "hy_v3": _hunyuan3,
    "laguna": _laguna,
    "mellum": _mellum,
}
