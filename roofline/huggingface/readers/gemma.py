"""Gemma-3n and Gemma-4: inputs of every layer's own, caches that layers share, alternating streams.

What their configurations leave unsaid is in their modelling classes in Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models/gemma3n and gemma4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.layers import Block, LayerList, Shape, dense, gqa, moe, shape, windows

__all__ = ["GEMMAS"]

_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_LAYER_VOCAB = 262_144  # rows of the tables of Gemma-3n and Gemma-4 where a file does not say


def _first_shared(fields: Fields, layers: int) -> int:
    """The first of the last layers, which use the keys and values of an earlier one."""
    shared = fields.count("num_kv_shared_layers", default=0, least=0)
    if shared >= layers:
        raise fields.fault("num_kv_shared_layers", f"{shared} of {layers} layers cannot share the caches of others")
    return layers - shared


def _layer_inputs(fields: Fields) -> dict[str, Any]:
    """Width of the inputs of every layer's own, and rows of their table; nothing where there are none."""
    width = fields.count("hidden_size_per_layer_input", default=0, least=0)
    rows = fields.count("vocab_size_per_layer_input", default=_LAYER_VOCAB)
    return {"layer_input": width, "layer_vocab": rows} if width else {}


def _gemma4(fields: Fields) -> Shape:
    """Gemma-4: global layers have heads of their own and take keys as values; experts work beside a dense network.

    Of the E models every layer has inputs of its own, and the last layers use the caches of earlier ones.
    """
    fields.require(*_NAMES, "intermediate_size", "head_dim", "layer_types", "sliding_window")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    same = fields.flag("attention_k_eq_v")
    local: dict[str, Any] = {"qkv_bias": bias, "o_bias": bias, "qk_norm": "head"}
    whole = local | {
        "kv_heads": fields.optional("num_global_key_value_heads") if same else None,
        "head_dim": fields.optional("global_head_dim"),
        "k_eq_v": same,
    }
    first, sliding = _first_shared(fields, layers), windows(fields, layers)
    mixers = {
        (window, shared): gqa(fields, window=window, kv_shared=shared, **(local if window else whole))
        for window in dict.fromkeys(sliding)
        for shared in (False, True)
    }
    network = dense(fields)
    ffns: list[Block] = [network] * layers
    if fields.flag("use_double_wide_mlp"):
        if 2 * network["width"] > LARGEST:
            raise fields.fault("intermediate_size", "implausibly wide feed-forward network")
        ffns[first:] = [dense(fields, width=2 * network["width"])] * (layers - first)
    if fields.flag("enable_moe_block"):
        if first < layers:
            raise fields.fault("num_kv_shared_layers", "shared caches beside experts are not supported")
        width = fields.count("intermediate_size")
        ffns = [moe(fields, "moe_intermediate_size", "expert_intermediate_size", shared_width=width)] * layers
    fields.pass_over("num_experts", "top_k_experts", "moe_intermediate_size")
    inputs = _layer_inputs(fields)
    rows = [(mixers[window, index >= first], ffns[index]) for index, window in enumerate(sliding)]
    return shape(fields, "gemma", rows, tied=True, norms=5 if inputs else 4, extras=inputs)


def _gemma3n(fields: Fields) -> Shape:
    """Gemma-3n: every layer has inputs of its own and a learnt residual connection; it updates one of four streams."""
    fields.require(*_NAMES, "intermediate_size", "head_dim", "num_key_value_heads")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    first = _first_shared(fields, layers)
    sliding = windows(fields, layers, lambda index: (index + 1) % 5 != 0, default=512)
    traits: dict[str, Any] = {"qkv_bias": bias, "o_bias": bias, "qk_norm": "head"}
    mixers = {
        (window, shared): gqa(fields, window=window, kv_shared=shared, **traits)
        for window in dict.fromkeys(sliding)
        for shared in (False, True)
    }
    listed = isinstance(fields.values.get("intermediate_size"), list)
    widths = fields.counts("intermediate_size", layers, least=1) if listed else None
    ffns = [dense(fields, width=width) for width in widths] if widths else [dense(fields)] * layers
    rows: LayerList = [(mixers[window, index >= first], ffns[index]) for index, window in enumerate(sliding)]
    if not fields.flag("altup_correct_scale", default=True):
        raise fields.fault("altup_correct_scale", "streams without a scale of their correction are not supported")
    extras = {
        **_layer_inputs(fields),
        "altup": fields.count("altup_num_inputs", default=4),
        "laurel": fields.count("laurel_rank", default=64),
    }
    if extras["altup"] > 64:
        raise fields.fault("altup_num_inputs", f"{extras['altup']} streams exceed the limit of 64")
    return shape(fields, "gemma", rows, tied=True, norms=5 if "layer_input" in extras else 4, extras=extras)


GEMMAS: Mapping[str, Callable[[Fields], Shape]] = {
    "gemma3n": _gemma3n,
    "gemma3n_text": _gemma3n,
    "gemma4": _gemma4,
    "gemma4_text": _gemma4,
    "gemma4_unified": _gemma4,
    "gemma4_unified_text": _gemma4,
}
