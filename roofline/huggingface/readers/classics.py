"""Older dense families, many with learned positions: GPT-2, GPT-J, OPT, BLOOM, ChatGLM and relatives.

Defaults that configurations leave out are those of Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models); for ChatGLM of vLLM
(https://github.com/vllm-project/vllm, vllm/model_executor/models/chatglm.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.layers import SIZES, Shape, attention_biases, dense, gqa, shape, uniform

_OFFSET = 2  # rows before the first position in the tables of OPT and BioGPT


def _plain(
    fields: Fields,
    family: str,
    *,
    hidden: tuple[str, ...] = ("hidden_size",),
    layers: tuple[str, ...] = ("num_hidden_layers",),
    heads: tuple[str, ...] = ("num_attention_heads",),
    width: tuple[str, ...] = ("intermediate_size",),
    vocab: str = "vocab_size",
    kv_heads: int | None = None,
    bias: bool = True,
    mlp_bias: bool = True,
    tied: bool = True,
    traits: Mapping[str, Any] | None = None,
    **more: Any,
) -> Shape:
    """Decoder with ungated FFNs; parameters in the plural are the fields that may state a size."""
    fields.require("|".join(hidden), "|".join(layers), "|".join(heads), vocab)
    size, number = fields.count(*hidden), fields.count(*heads)
    head_dim = fields.divided(next(name for name in heads if fields.has(name)), size, number)
    attention = {"qkv_bias": bias, "o_bias": bias} | dict(traits or {})
    mixer = gqa(fields, heads=number, kv_heads=kv_heads or number, head_dim=head_dim, **attention)
    ffn = dense(fields, width=_width(fields, width, size), gated=False, bias=mlp_bias)
    blocks = uniform(fields.layers(next((name for name in layers if fields.has(name)), layers[0])), mixer, ffn)
    is_tied = fields.flag("tie_word_embeddings", default=tied)
    return Shape(family, size, fields.count(vocab), is_tied, blocks, **{"norm_bias": True} | more)


def _width(fields: Fields, names: tuple[str, ...], hidden: int) -> int:
    """Width of an FFN: as stated, else four times `hidden`."""
    width = fields.optional(*names) or 4 * hidden
    if width > LARGEST:
        raise fields.fault(names[0], "implausibly wide feed-forward network")
    return width


def _gpt2(fields: Fields) -> Shape:
    return _gpt2_like(fields, "gpt2")


def _gpt_bigcode(fields: Fields) -> Shape:
    """StarCoder (first generation) and SantaCoder: GPT-2 with one KV head."""
    kv_heads = 1 if fields.flag("multi_query", default=True) else None
    fields.pass_over("num_key_value_heads")
    return _gpt2_like(fields, "starcoder", kv_heads=kv_heads)


def _gpt2_like(fields: Fields, family: str, kv_heads: int | None = None) -> Shape:
    if fields.flag("add_cross_attention"):
        raise fields.fault("add_cross_attention", "cross-attention is not supported for this family")
    return _plain(
        fields,
        family,
        hidden=("n_embd", "hidden_size"),
        layers=("n_layer", "num_hidden_layers"),
        heads=("n_head", "num_attention_heads"),
        width=("n_inner",),
        kv_heads=kv_heads,
        extras={"positions": fields.count("n_positions", "n_ctx", "max_position_embeddings")},
    )


def _gptj(fields: Fields) -> Shape:
    """GPT-J and CodeGen: attention without biases in parallel to an FFN with biases, after one norm."""
    return _plain(
        fields,
        "gpt-j",
        hidden=("n_embd", "hidden_size"),
        layers=("n_layer", "num_hidden_layers"),
        heads=("n_head", "num_attention_heads"),
        width=("n_inner",),
        bias=False,
        tied=False,
        norms=1,
        parallel=True,
        head_bias=True,
    )


def _opt(fields: Fields) -> Shape:
    fields.require(*SIZES, "ffn_dim", "max_position_embeddings")
    hidden = fields.count("hidden_size")
    if fields.count("word_embed_proj_dim", default=hidden) != hidden:
        raise fields.fault("word_embed_proj_dim", "an embedding narrower than the model is not supported")
    has_final_norm = fields.flag("do_layer_norm_before", default=True) and not fields.flag("_remove_final_layer_norm")
    bias = fields.flag("enable_bias", default=True)
    has_norm_weights = fields.flag("layer_norm_elementwise_affine", default=True)
    extras: dict[str, Any] = {"positions": fields.count("max_position_embeddings") + _OFFSET}
    if not has_final_norm:
        extras["final_norms"] = 0
    if not has_norm_weights:
        extras["norm_weights"] = False
    return _plain(fields, "opt", width=("ffn_dim",), bias=bias, mlp_bias=bias, extras=extras)


def _biogpt(fields: Fields) -> Shape:
    fields.require(*SIZES, "intermediate_size", "max_position_embeddings")
    return _plain(fields, "biogpt", extras={"positions": fields.count("max_position_embeddings") + _OFFSET})


def _bloom(fields: Fields) -> Shape:
    """BLOOM: ALiBi slopes instead of positions, and a norm after the embedding."""
    return _plain(
        fields,
        "bloom",
        hidden=("hidden_size", "n_embed"),
        layers=("n_layer", "num_hidden_layers"),
        heads=("n_head", "num_attention_heads"),
        width=("n_inner",),
        extras={"final_norms": 2},
    )


def _persimmon(fields: Fields) -> Shape:
    """Persimmon and the language model of Fuyu: norms with biases on the queries and keys of each head."""
    fields.require(*SIZES, "intermediate_size")
    traits = {"qk_norm": "head", "qk_norm_bias": True} if fields.flag("qk_layernorm", default=True) else {}
    return _plain(fields, "persimmon", tied=False, traits=traits)


def _chatglm(fields: Fields) -> Shape:
    """ChatGLM2 and 3, CodeGeeX4 and GLM-4-9B: few KV heads, biases on queries, keys and values."""
    fields.require("hidden_size", "num_layers", "num_attention_heads", "ffn_hidden_size", "padded_vocab_size")
    if fields.has("inner_hidden_size", "position_encoding_2d"):
        raise fields.fault("position_encoding_2d", "the first ChatGLM is not supported")
    heads, linear = fields.count("num_attention_heads"), fields.flag("add_bias_linear")
    grouped = fields.flag("multi_query_attention")
    kv_heads = fields.count("multi_query_group_num", default=1) if grouped else heads
    mixer = gqa(
        fields,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=fields.optional("kv_channels"),
        qkv_bias=linear or fields.flag("add_qkv_bias"),
        o_bias=linear,
    )
    return Shape(
        "glm",
        fields.count("hidden_size"),
        fields.count("padded_vocab_size"),
        fields.flag("tie_word_embeddings"),
        uniform(fields.layers("num_layers"), mixer, dense(fields, "ffn_hidden_size", bias=linear)),
        norm_bias=not fields.flag("rmsnorm", default=True),
        extras={} if fields.flag("post_layer_norm", default=True) else {"final_norms": 0},
    )


def _olmo(fields: Fields) -> Shape:
    """OLMo (first generation): norms without parameters."""
    fields.require(*SIZES, "intermediate_size")
    mixer = gqa(fields, **attention_biases(fields))
    return shape(fields, "olmo", uniform(fields.layers(), mixer, dense(fields)), extras={"norm_weights": False})


def _nanochat(fields: Fields) -> Shape:
    """nanochat: norms without parameters, ungated FFNs."""
    fields.require(*SIZES, "intermediate_size")
    mixer = gqa(fields, **attention_biases(fields))
    ffn = dense(fields, gated=False)
    return shape(fields, "nanochat", uniform(fields.layers(), mixer, ffn), extras={"norm_weights": False})


CLASSICS: Mapping[str, Callable[[Fields], Shape]] = {
    "biogpt": _biogpt,
    "bloom": _bloom,
    "chatglm": _chatglm,
    "codegen": _gptj,
    "gpt-sw3": _gpt2,
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "gptj": _gptj,
    "nanochat": _nanochat,
    "olmo": _olmo,
    "opt": _opt,
    "persimmon": _persimmon,
}
