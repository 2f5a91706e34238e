"""Readers of families that came with transformers 5.24 or live inside multimodal wrappers, and of GPT-1 and GPT-Neo.

Defaults that configurations leave out are those of Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.catalog.huggingface.blocks import (
    BIASES,
    HEAD_NORMS,
    SIZES,
    Block,
    Declared,
    Family,
    Fields,
    Shape,
    biases_of,
    dense,
    drafts,
    flag,
    gqa,
    is_sparse,
    mla,
    moe,
    networks,
    shape,
    size,
    windows,
)
from roofline.catalog.huggingface.experts import qwen_sparse, qwen_windows

_EXPERTS = ("moe_intermediate_size", "num_experts_per_tok")
_TOO_WIDE = "implausibly wide feed-forward network"
_LOCAL, _GLOBAL = "local", "global"  # layers of GPT-Neo
_WINDOW = 256  # of GPT-Neo [tokens]


def _shared(fields: Fields) -> int:
    """Width of the shared experts, of which a class has one where the field is absent."""
    width = fields.count("moe_intermediate_size") * fields.count("n_shared_experts", default=1, least=0)
    return fields.bounded("n_shared_experts", width, "implausibly wide shared experts")


def _latent_experts(fields: Fields) -> Shape:
    """Sarvam (MLA) and A.X-K1: latent attention, dense layers first, routers with a bias.

    A.X-K1 has one more norm in each mixture of experts. Its dense layers, usually one, are counted as if they had it.
    """
    fields.require(*SIZES, "kv_lora_rank", "n_routed_experts", *_EXPERTS)
    layers, is_axk = fields.layers(), fields.text("model_type") == "axk1"
    sparse = is_sparse(fields, layers, dense_first=1)
    ffns = networks(fields, moe(fields, shared_width=_shared(fields), router_bias=True), sparse)
    mixers = [mla(fields)] * layers
    family, norms = ("axk", 3) if is_axk else ("sarvam", 2)
    return shape(fields, family, list(zip(mixers, ffns, strict=True)), norms=norms, mtp=drafts(fields))


def _aria(fields: Fields) -> Shape:
    fields.require(*SIZES, "intermediate_size", "moe_num_experts", "moe_topk")
    fields.refuse("mlp_bias", "experts with biases are not supported for this family")
    shared = fields.count("intermediate_size") * fields.count("moe_num_shared_experts", default=2, least=0)
    fields.bounded("moe_num_shared_experts", shared, "implausibly wide shared experts")
    bias = fields.flag("attention_bias")
    layer = (gqa(fields, qkv_bias=bias, o_bias=bias), moe(fields, "intermediate_size", shared_width=shared))
    return shape(fields, "aria", [layer] * fields.layers())


def _gpt_neo(fields: Fields) -> Shape:
    """GPT-Neo: learned positions, a window on every other layer, a bias on the output of attention alone."""
    fields.require("hidden_size", "num_layers", "num_heads", "vocab_size", "max_position_embeddings")
    fields.require("attention_types|attention_layers")
    hidden, heads, layers = fields.count("hidden_size"), fields.count("num_heads"), fields.layers("num_layers")
    kinds = fields.choices("attention_layers", {_LOCAL, _GLOBAL}, layers) or _neo_kinds(fields, layers)
    fields.pass_over("attention_types")
    head_dim = fields.divided("num_heads", hidden, heads)
    sizes: dict[str, Any] = {"heads": heads, "kv_heads": heads, "head_dim": head_dim, "o_bias": True}
    window = fields.count("window_size", default=_WINDOW)
    width = fields.bounded("intermediate_size", fields.optional("intermediate_size") or 4 * hidden, _TOO_WIDE)
    ffn = dense(fields, width=width, gated=False, bias=True)
    mixers = {_LOCAL: gqa(fields, window=window, **sizes), _GLOBAL: gqa(fields, **sizes)}
    extras = {"positions": fields.count("max_position_embeddings")}
    return shape(fields, "gpt-neo", [(mixers[kind], ffn) for kind in kinds], tied=True, norm_bias=True, extras=extras)


def _neo_kinds(fields: Fields, layers: int) -> list[str]:
    """Kinds of layers from pairs of a pattern and how often it occurs."""
    kinds: list[str] = []
    pairs = fields.values["attention_types"]
    for pair in pairs if isinstance(pairs, list) else ():
        is_pair = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], list)
        if not is_pair or type(pair[1]) is not int or not 0 < pair[1] <= layers or len(kinds) > layers:
            raise fields.fault("attention_types", "must be pairs of kinds of layers and a number")
        kinds += pair[0] * pair[1]
    if len(kinds) != layers or any(kind not in (_LOCAL, _GLOBAL) for kind in kinds):
        raise fields.fault("attention_types", f"must name {layers} layers, each local or global")
    return kinds


def _openai_gpt(fields: Fields) -> Shape:
    """GPT: learned positions, norms after both halves, none at the end."""
    fields.require("n_embd", "n_layer", "n_head", "vocab_size", "n_positions")
    hidden, heads = fields.count("n_embd"), fields.count("n_head")
    head_dim = fields.divided("n_head", hidden, heads)
    mixer = gqa(fields, heads=heads, kv_heads=heads, head_dim=head_dim, qkv_bias=True, o_bias=True)
    width = fields.bounded("n_embd", 4 * hidden, _TOO_WIDE)
    layers = [(mixer, dense(fields, width=width, gated=False, bias=True))] * fields.layers("n_layer")
    extras = {"positions": fields.count("n_positions"), "final_norms": 0}
    return shape(fields, "gpt", layers, hidden=("n_embd",), tied=True, norm_bias=True, extras=extras)


def _xglm(fields: Fields) -> Shape:
    """XGLM: positions without parameters."""
    fields.require("d_model", "num_layers", "attention_heads", "ffn_dim", "vocab_size")
    hidden, heads = fields.count("d_model"), fields.count("attention_heads")
    head_dim = fields.divided("attention_heads", hidden, heads)
    mixer = gqa(fields, heads=heads, kv_heads=heads, head_dim=head_dim, qkv_bias=True, o_bias=True)
    ffn: Block = dense(fields, "ffn_dim", gated=False, bias=True)
    layers = [(mixer, ffn)] * fields.layers("num_layers")
    return shape(fields, "xglm", layers, hidden=("d_model",), tied=True, norm_bias=True)


_TIED = {"tied": True}
_SANDWICH = {"norms": 4}
_QKV_BIAS = {"qkv_bias": True}

INSIDE_WRAPPERS: Mapping[str, Family] = {
    "apertus1p5_text": Declared("apertus", BIASES | HEAD_NORMS, {"gated": False}, window=None),
    "aria_text": _aria,
    **dict.fromkeys(("axk1", "sarvam_mla"), _latent_experts),
    "cosmos3_edge_text": Declared("cosmos", BIASES, {"gated": False, "bias": flag("mlp_bias")}, window=None),
    "flint": Declared(
        "flint",
        BIASES | HEAD_NORMS | {"sinks": True},
        needs=("intermediate_size", *_EXPERTS, "num_experts", "layer_types", "mlp_only_layers"),
        window=windows,
        experts={"shared_width": size("shared_expert_intermediate_size")},
        sparse=qwen_sparse,
    ),
    "glm4v_text": Declared("glm", _QKV_BIAS, model=_SANDWICH, window=None),
    "glm_ocr_text": Declared("glm", model=_SANDWICH, window=None),
    "gpt_neo": _gpt_neo,
    "granite_docling_text": Declared("granite", BIASES, {"bias": flag("mlp_bias")}, _TIED, window=None),
    "hunyuan_vl_text": Declared("hunyuan", BIASES | HEAD_NORMS, model=_TIED, window=None),
    "kolibri1": Declared(
        "kolibri",
        HEAD_NORMS,
        model=_SANDWICH,
        needs=(*_EXPERTS, "num_local_experts|num_experts", "layer_types"),
        experts={"router_bias": True, "shared_width": size("shared_expert_intermediate_size")},
    ),
    "openai-gpt": _openai_gpt,
    "paddleocr_vl_text": Declared("ernie", biases_of("use_bias"), {"bias": flag("use_bias")}, _TIED, window=None),
    "qwen2_5_omni_text": Declared("qwen2", _QKV_BIAS, window=qwen_windows),
    "qwen3_omni_moe_text": Declared(
        "qwen3",
        BIASES | HEAD_NORMS,
        needs=(*_EXPERTS, "num_experts|num_local_experts"),
        window=qwen_windows,
        experts={"shared_width": 0},
        sparse=qwen_sparse,
    ),
    "sarvam_moe": Declared(
        "sarvam",
        BIASES | {"qk_norm": flag("use_qk_norm", "head", None, default=True)},
        model={"mtp": drafts},
        needs=("intermediate_size", *_EXPERTS, "n_routed_experts"),
        window=None,
        experts={"router_bias": True, "shared_width": _shared},
        sparse=lambda fields, layers: is_sparse(fields, layers, dense_first=1),
    ),
    "xglm": _xglm,
}
