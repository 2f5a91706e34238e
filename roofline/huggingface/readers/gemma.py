"""Gemma-3n and Gemma-4: per-layer embeddings, KV caches shared between layers, alternating residual streams.

Defaults that configurations leave out are those of Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models/gemma3n and gemma4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.layers import SIZES, Block, Shape, attention_biases, dense, gqa, moe, shape, windows

_LAYER_VOCAB = 262_144  # default rows of the per-layer embeddings


def _first_shared(fields: Fields, layers: int) -> int:
    """Index of the first layer that uses the KV cache of an earlier one; all later layers do too."""
    shared = fields.count("num_kv_shared_layers", default=0, least=0)
    if shared >= layers:
        raise fields.fault("num_kv_shared_layers", f"{shared} of {layers} layers cannot share the caches of others")
    return layers - shared


def _layer_inputs(fields: Fields) -> dict[str, Any]:
    """Width and rows of the per-layer embeddings; empty without them."""
    width = fields.count("hidden_size_per_layer_input", default=0, least=0)
    rows = fields.count("vocab_size_per_layer_input", default=_LAYER_VOCAB)
    return {"layer_input": width, "layer_vocab": rows} if width else {}


def _gemma4(fields: Fields) -> Shape:
    """Gemma-4: layers without a window use keys as values; experts work in parallel to a dense FFN.

    The E models have per-layer embeddings, and their last layers use the KV caches of earlier ones.
    """
    fields.require(*SIZES, "intermediate_size", "head_dim", "layer_types", "sliding_window")
    layers = fields.layers()
    local: dict[str, Any] = {**attention_biases(fields), "qk_norm": "head"}
    k_eq_v = fields.flag("attention_k_eq_v")
    full = local | {
        "kv_heads": fields.optional("num_global_key_value_heads") if k_eq_v else None,
        "head_dim": fields.optional("global_head_dim"),
        "k_eq_v": k_eq_v,
    }
    first, layer_windows = _first_shared(fields, layers), windows(fields, layers)
    mixers = {
        (window, is_shared): gqa(fields, window=window, kv_shared=is_shared, **(local if window else full))
        for window in dict.fromkeys(layer_windows)
        for is_shared in (False, True)
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
    blocks = [(mixers[window, index >= first], ffns[index]) for index, window in enumerate(layer_windows)]
    return shape(fields, "gemma", blocks, tied=True, norms=5 if inputs else 4, extras=inputs)


def _gemma3n(fields: Fields) -> Shape:
    """Gemma-3n: per-layer embeddings, a learned residual connection, and four streams of which a layer updates one."""
    fields.require(*SIZES, "intermediate_size", "head_dim", "num_key_value_heads")
    layers, biases = fields.layers(), attention_biases(fields)
    first = _first_shared(fields, layers)
    layer_windows = windows(fields, layers, lambda index: (index + 1) % 5 != 0, default=512)
    mixers = {
        (window, is_shared): gqa(fields, window=window, kv_shared=is_shared, **biases, qk_norm="head")
        for window in dict.fromkeys(layer_windows)
        for is_shared in (False, True)
    }
    is_list = isinstance(fields.values.get("intermediate_size"), list)
    widths = fields.counts("intermediate_size", layers, least=1) if is_list else None
    ffns = [dense(fields, width=width) for width in widths] if widths else [dense(fields)] * layers
    blocks = [(mixers[window, index >= first], ffns[index]) for index, window in enumerate(layer_windows)]
    if not fields.flag("altup_correct_scale", default=True):
        raise fields.fault("altup_correct_scale", "streams without a scale of their correction are not supported")
    extras = {
        **_layer_inputs(fields),
        "altup": fields.count("altup_num_inputs", default=4),
        "laurel": fields.count("laurel_rank", default=64),
    }
    if extras["altup"] > 64:
        raise fields.fault("altup_num_inputs", f"{extras['altup']} streams exceed the limit of 64")
    return shape(fields, "gemma", blocks, tied=True, norms=5 if "layer_input" in extras else 4, extras=extras)


GEMMAS: Mapping[str, Callable[[Fields], Shape]] = {
    "gemma3n": _gemma3n,
    "gemma3n_text": _gemma3n,
    "gemma4": _gemma4,
    "gemma4_text": _gemma4,
    "gemma4_unified": _gemma4,
    "gemma4_unified_text": _gemma4,
}
