"""Readers of models that mix attention with recurrent layers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from roofline.catalog.huggingface.blocks import (
    BIASES,
    HEAD_NORMS,
    LARGEST,
    MOST_LAYERS,
    SIZES,
    WIDE_SHARED,
    Block,
    Declared,
    Family,
    Fields,
    LayerList,
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
    sliding,
    uniform,
    windows,
)
from roofline.catalog.huggingface.experts import LOCAL, qwen_sparse, streams

# Families that mix attention with recurrent layers, whose state does not grow with the context.

_HALVES = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-", "linear_attention": "M", "full_attention": "*"}
_ATTENDS = ("attention", "full_attention")  # layers of Granite-4 in the words of its publisher and of transformers


def _qwen3_next(fields: Fields) -> Shape:
    """Qwen3-Next; its checkpoints hold one draft module that the configuration does not mention."""
    fields.require(*SIZES, "num_experts", "num_experts_per_tok", "moe_intermediate_size")
    return _gated_deltas(fields, "qwen3-next", drafts(fields) or 1)


def _qwen3_5(fields: Fields) -> Shape:
    fields.require(*SIZES, "num_experts|intermediate_size")
    return _gated_deltas(fields, "qwen3.5", drafts(fields))


def _gated_deltas(fields: Fields, family: str, mtp: int, indexer: Block | None = None, **more: Any) -> Shape:
    """Gated delta nets, with gated attention on every fourth layer; `mtp` is the number of draft modules."""
    layers, bias = fields.layers(), fields.flag("attention_bias")
    fields.require("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    k_heads, v_heads = fields.count("linear_num_key_heads"), fields.count("linear_num_value_heads")
    fields.divided("linear_num_key_heads", v_heads, k_heads)
    linear = part(
        "gdn",
        k_heads=k_heads,
        v_heads=v_heads,
        k_dim=fields.count("linear_key_head_dim"),
        v_dim=fields.count("linear_value_head_dim"),
        conv=fields.count("linear_conv_kernel_dim", default=4),
    )
    is_gated = fields.flag("attn_output_gate", default=True)
    if is_gated and bias:
        raise fields.fault("attention_bias", "attention with biases and a gate of its output is not supported")
    attention = gqa(fields, qkv_bias=bias, o_bias=bias, qk_norm="head", out_gate=is_gated, indexer=indexer)
    is_linear = fields.marks("layer_types", layers, "linear_attention", "full_attention", "indexed_attention")
    every = fields.count("full_attention_interval", default=4)
    is_linear = is_linear or [(index + 1) % every != 0 for index in range(layers)]
    if fields.has("num_experts"):
        shared = fields.count("shared_expert_intermediate_size", default=0, least=0)
        experts = moe(fields, shared_width=shared, shared_gate=shared > 0)
        ffns = networks(fields, experts, qwen_sparse(fields, layers))
    else:
        ffns = [dense(fields)] * layers
    mixers = [linear if skips else attention for skips in is_linear]
    return shape(fields, family, list(zip(mixers, ffns, strict=True)), mtp=mtp, **more)


def _jamba(fields: Fields) -> Shape:
    """Jamba: selective state spaces with inner norms; attention and experts recur at periods of their own."""
    fields.require(*SIZES, "intermediate_size")
    layers, hidden = fields.layers(), fields.count("hidden_size")
    conv_bias(fields, "mamba_conv_bias")
    state = _selective_state(fields, hidden, "mamba_expand", "mamba_d_state", "mamba_dt_rank", "mamba_d_conv")
    linear = {**state, "inner_norms": True}
    attention, network = gqa(fields), dense(fields)
    experts = network
    if fields.count("num_experts", default=16) > 1:
        fields.require("num_experts", "num_experts_per_tok")
        experts = moe(fields, "intermediate_size", shared_width=0)
    attends = _periodic(fields, layers, "attn_layer_period", 8, "attn_layer_offset", 4)
    sparse = _periodic(fields, layers, "expert_layer_period", 2, "expert_layer_offset", 1)
    mixers = [attention if is_attention else linear for is_attention in attends]
    ffns = [experts if is_mixture else network for is_mixture in sparse]
    return shape(fields, "jamba", list(zip(mixers, ffns, strict=True)))


def _periodic(fields: Fields, layers: int, period: str, default: int, offset: str, first: int) -> list[bool]:
    every, start = fields.count(period, default=default), fields.count(offset, default=first, least=0)
    return [(index - start) % every == 0 for index in range(layers)]


def _state(
    fields: Fields,
    heads: str,
    head_dim: int,
    state: str,
    groups: tuple[str, int] = ("mamba_n_groups", 1),
    conv: str = "mamba_d_conv",
    **traits: Any,
) -> Block:
    """State space of Mamba-2, from the fields of its sizes; `groups` are a field and its default."""
    number, parts = fields.count(heads), fields.count(groups[0], default=groups[1])
    fields.divided(groups[0], number, parts)
    size, width = fields.count(state, default=256), fields.count(conv, default=4)
    return part("mamba2", heads=number, head_dim=head_dim, groups=parts, state=size, conv=width, **traits)


def _selective_state(fields: Fields, hidden: int, expand: str, state: str, rank: str, conv: str) -> Block:
    """State space of Mamba-1, from the fields of its sizes."""
    inner = fields.bounded(expand, fields.count(expand, default=2) * hidden, "implausibly many channels")
    return part(
        "mamba1",
        inner=inner,
        state=fields.count(state, default=16),
        dt_rank=-(-hidden // 16) if fields.values.get(rank) in (None, "auto") else fields.count(rank),
        conv=fields.count(conv, default=4),
    )


def _granite_hybrid(fields: Fields) -> Shape:
    """Granite-4: state spaces and attention; one shared FFN, in some models with routed experts alongside it."""
    fields.require(*SIZES, "shared_intermediate_size", "mamba_n_heads", "mamba_d_head")
    layers, biases = fields.layers(), attention_biases(fields)
    fields.pass_over("mamba_expand")
    conv_bias(fields, "mamba_conv_bias")
    name = "layers_block_type" if fields.has("layers_block_type") else "layer_types"
    kinds = fields.choices(name, {"mamba", "linear_attention", *_ATTENDS}, layers) or ["mamba"] * layers
    state = _state(fields, "mamba_n_heads", fields.count("mamba_d_head"), "mamba_d_state")
    attention = gqa(fields, **biases)
    width = fields.count("shared_intermediate_size")
    experts = fields.count("num_local_experts", default=0, least=0)
    ffn = moe(fields, "intermediate_size", shared_width=width) if experts else dense(fields, width=width)
    return shape(fields, "granite", [(attention if kind in _ATTENDS else state, ffn) for kind in kinds])


def _nemotron_h(fields: Fields) -> Shape:
    """Nemotron-H: each layer is one half, a letter each: M state space, * attention, E experts, - dense FFN."""
    fields.require("hidden_size", "vocab_size", "hybrid_override_pattern|layers_block_type", "num_attention_heads")
    letters = fields.text("hybrid_override_pattern")
    if letters is None:
        kinds = fields.choices("layers_block_type", set(_HALVES)) or []
        letters = "".join(_HALVES[kind] for kind in kinds)
    layers = fields.count("num_hidden_layers", default=max(1, len(letters)))
    fields.pass_over("attention_head_dim", "moe_intermediate_size", "n_routed_experts", "n_shared_experts")
    fields.pass_over("moe_shared_expert_intermediate_size", "moe_latent_size")  # of models without experts
    name = "hybrid_override_pattern" if fields.has("hybrid_override_pattern") else "layers_block_type"
    if len(letters) != layers or not 0 < len(letters) <= MOST_LAYERS:
        raise fields.fault(name, f"has {len(letters)} entries for {layers} layers")
    halves: dict[str, tuple[Block, Block]] = {}
    for letter in dict.fromkeys(letters):
        if letter not in _HALVES.values():
            raise fields.fault(name, f"{letter!r} is not supported; only {', '.join(dict.fromkeys(_HALVES.values()))}")
        halves[letter] = _nemotron_half(fields, letter)
    return shape(fields, "nemotron", [halves[letter] for letter in letters], norms=1, mtp=drafts(fields))


def _nemotron_half(fields: Fields, letter: str) -> tuple[Block, Block]:
    none = part("none")
    if letter == "M":
        return _state_space(fields), none
    if letter == "*":
        biases = attention_biases(fields)
        return gqa(fields, head_dim=fields.optional("head_dim", "attention_head_dim"), **biases), none
    for name in ("use_bias", "mamba_proj_bias"):
        fields.refuse(name, "biases of the state space and of experts are not supported")
    if letter == "-":
        return none, dense(fields, gated=False, bias=fields.flag("mlp_bias"))
    fields.require("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
    fields.refuse("mlp_bias", "experts with biases are not supported for this family")
    shared = fields.count("n_shared_experts", default=0, least=0)
    shared *= fields.count("moe_shared_expert_intermediate_size", "moe_intermediate_size")
    latent = fields.optional("moe_latent_size")
    return none, moe(fields, shared_width=shared, gated=False, router_bias=True, latent=latent)


def _state_space(fields: Fields) -> Block:
    fields.require("mamba_num_heads", "mamba_head_dim", "ssm_state_size")
    fields.pass_over("expand", "time_step_rank")  # of Mamba-1
    conv_bias(fields, "use_conv_bias")
    head_dim = fields.count("mamba_head_dim")
    return _state(fields, "mamba_num_heads", head_dim, "ssm_state_size", ("n_groups", 8), "conv_kernel")


def _kimi_linear(fields: Fields) -> Shape:
    """Kimi-Linear and Kimi-K3: delta attention and latent attention; the configuration counts layers from one."""
    fields.require(*SIZES, "kv_lora_rank", "num_experts|num_local_experts", "moe_intermediate_size")
    fields.refuse("tie_word_embeddings", "the head of this family has a matrix of its own")
    layers = fields.layers()
    config = fields.section("linear_attn_config") or _linear_attn_config(fields, layers)
    config.require("num_heads", "head_dim", "full_attn_layers")
    linear = part(
        "kda",
        heads=config.count("num_heads"),
        dim=config.count("head_dim"),
        conv=config.count("short_conv_kernel_size", default=4),
        full_rank_gate=config.flag("use_full_rank_gate"),
    )
    latent = mla(fields, out_gate=fields.flag("mla_use_output_gate"))
    latent_layers = frozenset(config.counts("full_attn_layers", least=1) or ())
    linear_layers = config.counts("kda_layers", least=1)
    if linear_layers is not None and latent_layers.union(linear_layers) != frozenset(range(1, layers + 1)):
        raise config.fault("kda_layers", f"with full_attn_layers must cover all {layers} layers")
    experts = moe(fields, router_bias=True, latent=fields.optional("routed_expert_hidden_size"))
    sparse = is_sparse(fields, layers, dense_first=0 if fields.has("linear_attn_config") else 1)
    mixers = [latent if index in latent_layers else linear for index in range(1, layers + 1)]
    layer_blocks = list(zip(mixers, networks(fields, experts, sparse), strict=True))
    return shape(fields, "kimi", layer_blocks, mtp=drafts(fields))


def _linear_attn_config(fields: Fields, layers: int) -> Fields:
    """Kimi's `linear_attn_config` from the fields that transformers saves in its place."""
    fields.require("linear_attn_config|linear_num_heads", "linear_attn_config|linear_head_dim")
    attends = fields.marks("layer_types", layers, "full_attention", "linear_attention")
    if attends is None:  # the default of the class in transformers
        attends = [index > 0 and index % 4 == 0 for index in range(layers)]
    values = {
        "num_heads": fields.values["linear_num_heads"],
        "head_dim": fields.values["linear_head_dim"],
        "short_conv_kernel_size": fields.values.get("linear_conv_kernel_dim"),
        "full_attn_layers": [index + 1 for index, is_latent in enumerate(attends) if is_latent],
    }
    return Fields(values, fields.where)


def _minimax_m1(fields: Fields) -> Shape:
    """MiniMax-Text-01 and M1: lightning attention, and softmax attention every eighth layer."""
    fields.require(*SIZES, *LOCAL, "attn_type_list|layer_types")
    layers = fields.layers()
    stated = fields.marks("layer_types", layers, "full_attention", "linear_attention") or ()
    marks = fields.counts("attn_type_list", layers)
    attends = [mark > 0 for mark in marks] if marks else stated
    attention = gqa(fields)
    linear = part("lightning", heads=attention["heads"], dim=attention["head_dim"])
    shared = fields.count("shared_intermediate_size", default=0, least=0)
    ffn = moe(fields, "intermediate_size", shared_width=shared)
    return shape(fields, "minimax", [(attention if is_attention else linear, ffn) for is_attention in attends])


# Families of state spaces and short convolutions: Mamba, Falcon-Mamba, Falcon-H1, LFM2.
#
# Defaults that configurations leave out are those of Hugging Face transformers
# (https://github.com/huggingface/transformers, src/transformers/models).


def _no_bias(fields: Fields, *names: str) -> None:
    for name in names:
        fields.refuse(name, "biases of the projections of a state space are not supported")


def _mamba(fields: Fields) -> Shape:
    """Mamba and Falcon-Mamba: state spaces alone, one norm per layer; their inner norms have no parameters."""
    fields.require("hidden_size|d_model", "num_hidden_layers|n_layer", "vocab_size")
    hidden = fields.count("hidden_size", "d_model")
    _no_bias(fields, "use_bias")
    conv_bias(fields, "use_conv_bias")
    mixer = _selective_state(fields, hidden, "expand", "state_size", "time_step_rank", "conv_kernel")
    mixer["inner"] = fields.count("intermediate_size", default=mixer["inner"])
    layers = fields.layers("num_hidden_layers" if fields.has("num_hidden_layers") else "n_layer")
    blocks = uniform(layers, mixer, part("none"))
    return shape(fields, "mamba", blocks, hidden=("hidden_size", "d_model"), tied=True, norms=1)


def _mamba2(fields: Fields) -> Shape:
    fields.require("hidden_size", "num_hidden_layers", "vocab_size", "num_heads", "head_dim", "state_size")
    _no_bias(fields, "use_bias")
    conv_bias(fields, "use_conv_bias")
    fields.pass_over("expand", "time_step_rank", "intermediate_size")  # of Mamba-1, or implied by the heads
    mixer = _state(fields, "num_heads", fields.count("head_dim"), "state_size", ("n_groups", 8), "conv_kernel")
    return shape(fields, "mamba", uniform(fields.layers(), mixer, part("none")), norms=1)


def _falcon_h1(fields: Fields) -> Shape:
    """Falcon-H1: a state space and attention side by side after one norm, then an FFN after another.

    Each layer is described as two, with one mixer and one norm each: parameters, arithmetic, traffic, state and cache
    add up to the same.
    """
    fields.require(*SIZES, "intermediate_size", "mamba_n_heads", "mamba_d_state")
    _no_bias(fields, "mamba_proj_bias", "projectors_bias")
    conv_bias(fields, "mamba_conv_bias")
    inner = fields.optional("mamba_d_ssm") or fields.count("mamba_expand", default=2) * fields.count("hidden_size")
    fields.bounded("mamba_expand", inner, "implausibly many channels")
    fields.pass_over("mamba_expand", "mamba_d_head")  # the latter follows from the heads, even where it is stated
    head_dim = fields.divided("mamba_n_heads", inner, fields.count("mamba_n_heads"))
    no_norm = not fields.flag("mamba_rms_norm")
    state = _state(fields, "mamba_n_heads", head_dim, "mamba_d_state", no_norm=no_norm)
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
    fields.require(*SIZES, "intermediate_size", "layer_types|full_attn_idxs")
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


# Mixtures of experts of 2025 and 2026: Hunyuan-3, Laguna, Mellum, Granite with windows, Command, Ling-2.5, and Bamba.
#
# Defaults that configurations leave out are those of Hugging Face transformers
# (https://github.com/huggingface/transformers, src/transformers/models).


def _sparse_from(first: int) -> Callable[[Fields, int], list[bool]]:
    """Which layers are mixtures: all from `first` on, unless a field says otherwise."""

    def read(fields: Fields, layers: int) -> list[bool]:
        if fields.has("mlp_layer_types") or fields.has("first_k_dense_replace"):
            return is_sparse(fields, layers)
        return [index >= first for index in range(layers)]

    return read


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
    ffns = networks(fields, moe(fields, shared_width=shared, router_bias=True), _sparse_from(1)(fields, layers))
    return shape(fields, "laguna", list(zip(mixers, ffns, strict=True)))


def _cohere2_moe(fields: Fields) -> Shape:
    """Command with experts: attention and experts in parallel after one norm, a window on three layers in four."""
    fields.require(*SIZES, "intermediate_size", "num_experts", "num_experts_per_tok")
    layers, biases = fields.layers(), attention_biases(fields)
    if fields.optional("prefix_dense_intermediate_size") is not None:
        raise fields.fault("prefix_dense_intermediate_size", "dense layers of their own width are not supported")
    layer_windows = windows(fields, layers, lambda index: (index + 1) % 4 != 0, default=4096)
    mixers = gqa_by_window(fields, layer_windows, **biases)
    ffns = networks(fields, moe(fields, "intermediate_size"), _sparse_from(0)(fields, layers))
    return shape(fields, "command-r", list(zip(mixers, ffns, strict=True)), tied=True, norms=1, parallel=True)


def _bailing_hybrid(fields: Fields) -> Shape:
    """Ling-2.5 and Ring-2.5: delta attention with a full-rank decay, and latent attention with a gate per head."""
    fields.require(*SIZES, "kv_lora_rank", "num_experts|num_local_experts", "moe_intermediate_size")
    layers, heads = fields.layers(), fields.count("num_attention_heads")
    is_latent = fields.marks("layer_types", layers, "full_attention", "linear_attention")
    every = fields.count("layer_group_size", default=6)
    is_latent = is_latent or [(index + 1) % every == 0 for index in range(layers)]
    fields.refuse("tie_word_embeddings", "the head of this family has a matrix of its own")
    fields.pass_over("short_conv_kernel_size")
    linear = part(
        "kda",
        heads=fields.count("linear_num_heads", default=heads),
        dim=fields.count("linear_head_dim", "head_dim"),
        conv=fields.count("linear_conv_kernel_dim", "short_conv_kernel_size", default=4),
        full_rank_gate=True,
        full_rank_decay=True,
    )
    latent = mla(fields, head_gate=True)
    ffns = networks(fields, moe(fields, router_bias=True), _sparse_from(2)(fields, layers))
    layer_blocks = [(latent if attends else linear, ffn) for attends, ffn in zip(is_latent, ffns, strict=True)]
    return shape(fields, "ling", layer_blocks, mtp=drafts(fields))


def _bamba(fields: Fields) -> Shape:
    """Bamba: state spaces, and attention on the listed layers."""
    fields.require(*SIZES, "intermediate_size", "mamba_n_heads", "mamba_d_state")
    layers, biases = fields.layers(), attention_biases(fields)
    _no_bias(fields, "mamba_proj_bias")
    conv_bias(fields, "mamba_conv_bias")
    attention_layers = frozenset(fields.counts("attn_layer_indices") or ())
    inner = fields.count("hidden_size") * fields.count("mamba_expand", default=2)
    fields.pass_over("mamba_d_head")
    head_dim = fields.divided("mamba_n_heads", inner, fields.count("mamba_n_heads"))
    state = _state(fields, "mamba_n_heads", head_dim, "mamba_d_state")
    attention, ffn = gqa(fields, **biases), dense(fields, bias=fields.flag("mlp_bias"))
    layer_blocks = [(attention if index in attention_layers else state, ffn) for index in range(layers)]
    return shape(fields, "bamba", layer_blocks)


# Families of late 2026 that mix such layers with attention to pools of tokens, and several residual streams.

_INDEXER = ("indexer_n_heads", "indexer_head_dim", "indexer_budget", "indexer_compress_ratio")
_SPARSE = ("deepseek_sparse_attention", "indexed_attention", "full_attention")  # as published, and as saved again
_MOST_TABLES = 512  # of n-grams
_WITNESSES = (2, 3, 5, 7)  # enough to prove primes below 3.2 billion (Pomerance, Selfridge and Wagstaff, 1980)


def _qwen4_exp(fields: Fields) -> Shape:
    """Qwen3.8-Flash-Next: delta nets, attention to the best pools of tokens, gated streams, n-gram embeddings."""
    fields.require(*SIZES, "num_experts", "num_experts_per_tok", "moe_intermediate_size")
    count, ngrams = fields.count("hc_count", default=4, least=2), _ngrams(fields)
    extras: Block = {"stream_rank": fields.count("hc_lowrank", default=320)}
    if ngrams is not None:
        extras["ngrams"] = ngrams
    number = streams(fields, "hc_count", count)
    return _gated_deltas(fields, "qwen3.8", drafts(fields), _pooled_indexer(fields), streams=number, extras=extras)


def _pooled_indexer(fields: Fields) -> Block | None:
    """Indexer that scores the mean key of a pool of tokens; None where the model has none."""
    if not fields.has(*_INDEXER):
        return None
    fields.require(*_INDEXER)
    if fields.count("indexer_kv_heads", default=1) != 1:
        raise fields.fault("indexer_kv_heads", "only one head of index keys is supported")
    ratio, budget = fields.count("indexer_compress_ratio"), fields.count("indexer_budget")
    fields.divided("indexer_compress_ratio", budget, ratio)
    heads, dim = fields.count("indexer_n_heads"), fields.count("indexer_head_dim")
    return {"heads": heads, "dim": dim, "top_k": budget, "block": ratio, "ratio": ratio}


def _ngrams(fields: Fields) -> Block | None:
    """Tables of n-grams: one per listed layer, with a prime number of rows for each head of each n."""
    tables = len(set(fields.counts("ple_layer_ids", least=1) or ()))
    if not tables:
        return None
    base = fields.count("ngram_vocab_size_base", default=20_000_000)
    heads = (fields.count("ngram_size", default=3, least=2) - 1) * fields.count("heads_per_ngram", default=8)
    fields.limited("heads_per_ngram", heads * tables, _MOST_TABLES, "tables")
    multiple = fields.count("make_ngram_vocab_size_divisible_by", default=128)
    width = fields.divided("ple_embed_dim", fields.count("ple_embed_dim", "hidden_size"), heads)
    primes = _primes(base, heads * tables)
    rows = sum(-(-sum(primes[table * heads : (table + 1) * heads]) // multiple) * multiple for table in range(tables))
    fields.limited("ngram_vocab_size_base", rows, LARGEST, "rows of n-grams")
    conv = fields.count("ple_conv_kernel_size", default=4)
    ngrams: Block = {"rows": rows, "width": width, "lookups": heads}
    return ngrams | ({"tables": tables} if tables > 1 else {}) | ({"conv": conv} if conv != 4 else {})


def _primes(start: int, count: int) -> list[int]:
    """The first `count` primes from `start` on."""
    return list(itertools.islice(filter(_is_prime, itertools.count(start)), count))


def _is_prime(number: int) -> bool:
    """Whether a number below 3.2 billion is prime: a strong probable prime to four bases."""
    if number < 2:
        return False
    if number in _WITNESSES or any(number % witness == 0 for witness in _WITNESSES):
        return number in _WITNESSES
    twos = ((number - 1) & -(number - 1)).bit_length() - 1
    odd = (number - 1) >> twos
    for witness in _WITNESSES:
        powers = [pow(witness, odd << shift, number) for shift in range(twos)]
        if powers[0] != 1 and number - 1 not in powers:
            return False
    return True


def _glm5_next(fields: Fields) -> Shape:
    """GLM-5.3-Flash: delta attention, latent attention to the best pools of tokens, averaged residual streams."""
    fields.require(*SIZES, "kv_lora_rank", "q_lora_rank", "n_routed_experts", "moe_intermediate_size")
    fields.require("index_n_heads", "index_head_dim", "index_topk")
    layers = fields.layers()
    config = fields.section("linear_attn_config") or Fields({}, fields.where, "linear_attn_config.")
    linear = part(
        "kda",
        heads=config.count("num_heads", default=fields.count("linear_num_heads", default=64)),
        dim=config.count("head_dim", default=fields.count("linear_head_dim", default=128)),
        conv=config.count("short_conv_kernel_size", default=fields.count("linear_conv_kernel_dim", default=4)),
    )
    is_linear = fields.marks("layer_types", layers, "linear_attention", *_SPARSE)
    is_linear = is_linear or [index % 4 != 3 for index in range(layers)]
    has_indexer = _indexer_owners(fields, is_linear)
    indexer = _streams_indexer(fields)
    owner, follower = mla(fields, indexer=indexer), mla(fields, indexer=indexer | {"own": False})
    sparse, experts = is_sparse(fields, layers, dense_first=3), moe(fields, router_bias=True)
    mixers = [
        linear if skips else owner if owns else follower for skips, owns in zip(is_linear, has_indexer, strict=True)
    ]
    layer_blocks = list(zip(mixers, networks(fields, experts, sparse), strict=True))
    number = streams(fields, "hc_mult", 4)
    number = number if fields.flag("mhc", default=True) else 1
    extras = {"stream_average": True} if number > 1 else {}
    return shape(fields, "glm", layer_blocks, streams=number, extras=extras, mtp=drafts(fields))


def _indexer_owners(fields: Fields, is_linear: list[bool]) -> list[bool]:
    """Whether each layer has its own indexer; the first layer with attention must."""
    kinds = fields.choices("indexer_types", {"full", "shared"}, len(is_linear)) or ["full"] * len(is_linear)
    if next((kind for skips, kind in zip(is_linear, kinds, strict=True) if not skips), "full") != "full":
        raise fields.fault("indexer_types", "the first layer that attends cannot share an earlier layer's choice")
    return [kind == "full" for kind in kinds]


def _streams_indexer(fields: Fields) -> Block:
    ratio, top_k = fields.count("index_kpool", default=16), fields.count("index_topk")
    fields.divided("index_kpool", top_k, ratio)
    indexer: Block = {"heads": fields.count("index_n_heads"), "dim": fields.count("index_head_dim"), "top_k": top_k}
    if fields.flag("index_kpool_compress", default=True):  # transformers has this gate even where pools are one token
        indexer["learned_pool"] = True
    return indexer | ({"block": ratio, "ratio": ratio} if ratio > 1 else {})


def _hy_v3_shared(fields: Fields) -> int:
    """Width of the shared experts of Hunyuan-3, which the class has even where the field says none."""
    width = fields.count("moe_intermediate_size") * fields.count("num_shared_experts", default=1)
    return fields.bounded("num_shared_experts", width, "implausibly wide shared experts")


HYBRIDS: Mapping[str, Family] = {
    "bailing_hybrid": _bailing_hybrid,
    "bamba": _bamba,
    "cohere2_moe": _cohere2_moe,
    "falcon_h1": _falcon_h1,
    "falcon_mamba": _mamba,
    "mamba": _mamba,
    "glm5_next_text": _glm5_next,
    "granitemoe_swa": Declared(  # a window on all layers but the first of four
        "granite",
        BIASES | {"sinks": True},
        needs=LOCAL,
        window=sliding(lambda index: index % 4 != 0, 128),
        experts=WIDE_SHARED,
    ),
    "granitemoehybrid": _granite_hybrid,
    "hy_v3": Declared(
        "hunyuan",
        BIASES | HEAD_NORMS,
        model={"mtp": drafts},
        needs=("intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok"),
        refuses={"mlp_bias": "networks with biases are not supported for this family"},
        window=None,
        experts={"router_bias": True, "shared_width": _hy_v3_shared},
        sparse=_sparse_from(1),
    ),
    "jamba": _jamba,
    "kimi_linear": _kimi_linear,
    "laguna": _laguna,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2_moe,
    "lfm3": _lfm3,
    "mamba2": _mamba2,
    "mellum": Declared(  # attention as in Qwen3, with windows where `layer_types` says so
        "mellum",
        BIASES | HEAD_NORMS,
        model={"mtp": drafts},
        needs=("moe_intermediate_size", "num_local_experts|num_experts", "num_experts_per_tok"),
        window=sliding(lambda _: False),
        experts={"shared_width": 0},
        sparse=_sparse_from(0),
    ),
    **dict.fromkeys(("minimax", "minimax_m1", "minimax_text_01"), _minimax_m1),
    "nemotron_h": _nemotron_h,
    "qwen3_5_moe_text": _qwen3_5,
    "qwen3_5_text": _qwen3_5,
    "qwen3_8_flash_next_text": _qwen4_exp,
    "qwen3_next": _qwen3_next,
    "qwen4_exp_text": _qwen4_exp,
}
