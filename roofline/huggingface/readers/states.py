"""Families of state spaces and short convolutions: Mamba, Falcon-Mamba, Falcon-H1, LFM2.

Defaults that configurations leave out are those of Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models).
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
    conv_bias,
    dense,
    gqa,
    moe,
    part,
    shape,
    uniform,
)


def _no_bias(fields: Fields, *names: str) -> None:
    for name in names:
        if fields.flag(name):
            raise fields.fault(name, "biases of the projections of a state space are not supported")


def _mamba(fields: Fields) -> Shape:
    """Mamba and Falcon-Mamba: state spaces alone, one norm per layer; their inner norms have no parameters."""
    fields.require("hidden_size|d_model", "num_hidden_layers|n_layer", "vocab_size")
    hidden = fields.count("hidden_size", "d_model")
    _no_bias(fields, "use_bias")
    conv_bias(fields, "use_conv_bias")
    rank = fields.values.get("time_step_rank")
    inner = fields.count("expand", default=2) * hidden
    if inner > LARGEST:
        raise fields.fault("expand", "implausibly many channels")
    mixer = part(
        "mamba1",
        inner=fields.count("intermediate_size", default=inner),
        state=fields.count("state_size", default=16),
        dt_rank=-(-hidden // 16) if rank in (None, "auto") else fields.count("time_step_rank"),
        conv=fields.count("conv_kernel", default=4),
    )
    layers = fields.layers("num_hidden_layers" if fields.has("num_hidden_layers") else "n_layer")
    tied = fields.flag("tie_word_embeddings", default=True)
    vocab = fields.count("vocab_size")
    return Shape("mamba", hidden, vocab, tied, uniform(layers, mixer, part("none")), norms=1)


def _mamba2(fields: Fields) -> Shape:
    fields.require("hidden_size", "num_hidden_layers", "vocab_size", "num_heads", "head_dim", "state_size")
    _no_bias(fields, "use_bias")
    conv_bias(fields, "use_conv_bias")
    fields.pass_over("expand", "time_step_rank", "intermediate_size")  # of Mamba-1, or implied by the heads
    heads, groups = fields.count("num_heads"), fields.count("n_groups", default=8)
    fields.divided("n_groups", heads, groups)
    mixer = part(
        "mamba2",
        heads=heads,
        head_dim=fields.count("head_dim"),
        groups=groups,
        state=fields.count("state_size"),
        conv=fields.count("conv_kernel", default=4),
    )
    return shape(fields, "mamba", uniform(fields.layers(), mixer, part("none")), norms=1)


def _falcon_h1(fields: Fields) -> Shape:
    """Falcon-H1: a state space and attention side by side after one norm, then an FFN after another.

    Each layer is described as two, with one mixer and one norm each: parameters, arithmetic, traffic, state and cache
    add up to the same.
    """
    fields.require(*SIZES, "intermediate_size", "mamba_n_heads", "mamba_d_state")
    _no_bias(fields, "mamba_proj_bias", "projectors_bias")
    conv_bias(fields, "mamba_conv_bias")
    heads, groups = fields.count("mamba_n_heads"), fields.count("mamba_n_groups", default=1)
    fields.divided("mamba_n_groups", heads, groups)
    inner = fields.optional("mamba_d_ssm") or fields.count("mamba_expand", default=2) * fields.count("hidden_size")
    if inner > LARGEST:
        raise fields.fault("mamba_expand", "implausibly many channels")
    fields.pass_over("mamba_expand", "mamba_d_head")  # the latter follows from the heads, even where it is stated
    state = part(
        "mamba2",
        heads=heads,
        head_dim=fields.divided("mamba_n_heads", inner, heads),
        groups=groups,
        state=fields.count("mamba_d_state"),
        conv=fields.count("mamba_d_conv", default=4),
        no_norm=not fields.flag("mamba_rms_norm"),
    )
    attention = gqa(fields, **attention_biases(fields))
    pair: LayerList = [(state, part("none")), (attention, dense(fields, bias=fields.flag("mlp_bias")))]
    return shape(fields, "falcon", pair * fields.layers(), norms=1)


def _lfm2(fields: Fields) -> Shape:
    """LFM2: short convolutions and a few attention layers; the width of the FFN follows from a multiplier."""
    fields.require(*SIZES, "intermediate_size|block_ff_dim")
    width = fields.count("block_ff_dim", "intermediate_size")
    fields.pass_over("intermediate_size", "num_heads")  # older names of other fields
    if fields.flag("block_auto_adjust_ff_dim", default=True):
        width = int(2 * width / 3)
        width = int(fields.number("block_ffn_dim_multiplier", 1.0) * width)
        multiple = fields.count("block_multiple_of", default=256)
        width = -(-width // multiple) * multiple
    if not 0 < width <= LARGEST:
        raise fields.fault("intermediate_size", "implausible width of the feed-forward network")
    network = dense(fields, width=width)
    return _with_convolutions(fields, [network] * fields.layers(), qk_norm="head")


def _lfm2_moe(fields: Fields) -> Shape:
    """LFM2 with experts: the first layers are dense."""
    fields.require(*SIZES, "intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    layers, first = fields.layers(), fields.count("num_dense_layers", default=2, least=0)
    experts = moe(fields, shared_width=0, router_bias=fields.flag("use_expert_bias", default=True))
    network = dense(fields)
    ffns = [network if index < first else experts for index in range(layers)]
    return _with_convolutions(fields, ffns, qk_norm="head")


def _lfm3(fields: Fields) -> Shape:
    """LFM3: windows on some attention layers, a gate of one value per head, and norms after both halves."""
    fields.require(*SIZES, "intermediate_size")
    norms = 4 if fields.flag("use_sandwich_norm", default=True) else 2
    has_gate, biases = fields.flag("use_attention_gate", default=True), attention_biases(fields)
    ffns = [dense(fields)] * fields.layers()
    return _with_convolutions(fields, ffns, norms, qk_norm="head", head_gate=has_gate, **biases)


def _with_convolutions(fields: Fields, ffns: list[Block], norms: int = 2, **traits: Any) -> Shape:
    """Layers with convolutions or attention, as `layer_types` says; older files list the attention layers alone."""
    layers = len(ffns)
    kinds = fields.choices("layer_types", {"conv", "full_attention", "sliding_attention"}, layers)
    attention_layers = fields.counts("full_attn_idxs")
    if kinds is None:
        attends = frozenset(range(layers) if attention_layers is None else attention_layers)
        kinds = ["full_attention" if index in attends else "conv" for index in range(layers)]
    conv = part(
        "short_conv",
        width=fields.count("hidden_size"),
        conv=fields.count("conv_L_cache", default=3),
        bias=fields.flag("conv_bias"),
    )
    window = fields.optional("sliding_window")
    if window is None and "sliding_attention" in kinds:
        raise fields.fault("sliding_window", "missing; layer_types has sliding attention")
    mixers = {
        "conv": conv,
        "full_attention": gqa(fields, **traits),
        "sliding_attention": gqa(fields, window=window, **traits),
    }
    tied = fields.flag("tie_embedding", default=True)
    layer_blocks = [(mixers[kind], ffn) for kind, ffn in zip(kinds, ffns, strict=True)]
    return shape(fields, "lfm", layer_blocks, tied=tied, norms=norms)


STATES: Mapping[str, Callable[[Fields], Shape]] = {
    "falcon_h1": _falcon_h1,
    "falcon_mamba": _mamba,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2_moe,
    "lfm3": _lfm3,
    "mamba": _mamba,
    "mamba2": _mamba2,
}
