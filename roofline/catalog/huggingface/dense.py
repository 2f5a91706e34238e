"""Reader of each `model_type`.

A reader knows what configurations leave out: whether the head is tied, which projections have biases, which layers
have a window. These defaults are those of Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models); for Baichuan, EXAONE-3, InternLM2 and MiniCPM
of
vLLM (https://github.com/vllm-project/vllm, vllm/model_executor/models).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from roofline.catalog.huggingface.blocks import (
    BIASES,
    DENSE,
    HEAD_NORMS,
    SIZES,
    Block,
    Declared,
    Family,
    Fields,
    LayerList,
    Shape,
    attention_biases,
    biases_of,
    dense,
    drafts,
    flag,
    gqa,
    moe,
    part,
    period_of,
    shape,
    sliding,
    uniform,
    windows,
)
from roofline.catalog.huggingface.experts import EXPERTS, attention_windows, qwen_windows
from roofline.catalog.huggingface.hybrids import HYBRIDS
from roofline.catalog.huggingface.inside_wrappers import INSIDE_WRAPPERS
from roofline.catalog.huggingface.recent import RECENT, minicpm
from roofline.support.records import replace

# Older dense families, many with learned positions: GPT-2, GPT-J, OPT, BLOOM, ChatGLM and relatives.
#
# Defaults that configurations leave out are those of Hugging Face transformers
# (https://github.com/huggingface/transformers, src/transformers/models); for ChatGLM of vLLM (https://github.com/vllm-
# project/vllm, vllm/model_executor/models/chatglm.py).

_TOO_WIDE = "implausibly wide feed-forward network"
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
    return shape(fields, family, blocks, tied=tied, hidden=hidden, vocab=vocab, **{"norm_bias": True} | more)


def _width(fields: Fields, names: tuple[str, ...], hidden: int) -> int:
    """Width of an FFN: as stated, else four times `hidden`."""
    return fields.bounded(names[0], fields.optional(*names) or 4 * hidden, _TOO_WIDE)


#: Words of GPT-2 for the sizes.
_GPT2: dict[str, Any] = {
    "hidden": ("n_embd", "hidden_size"),
    "layers": ("n_layer", "num_hidden_layers"),
    "heads": ("n_head", "num_attention_heads"),
    "width": ("n_inner",),
}


def _gpt_bigcode(fields: Fields) -> Shape:
    """StarCoder (first generation) and SantaCoder: GPT-2 with one KV head."""
    kv_heads = 1 if fields.flag("multi_query", default=True) else None
    fields.pass_over("num_key_value_heads")
    return _gpt2(fields, "starcoder", kv_heads=kv_heads)


def _gpt2(fields: Fields, family: str = "gpt2", kv_heads: int | None = None) -> Shape:
    fields.refuse("add_cross_attention", "cross-attention is not supported for this family")
    extras = {"positions": fields.count("n_positions", "n_ctx", "max_position_embeddings")}
    return _plain(fields, family, **_GPT2, kv_heads=kv_heads, extras=extras)


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
    return shape(
        fields,
        "glm",
        uniform(fields.layers("num_layers"), mixer, dense(fields, "ffn_hidden_size", bias=linear)),
        vocab="padded_vocab_size",
        norm_bias=not fields.flag("rmsnorm", default=True),
        extras={} if fields.flag("post_layer_norm", default=True) else {"final_norms": 0},
    )


_DENSE_LAST = ("intermediate_size",)
_NO_WEIGHTS = {"extras": {"norm_weights": False}}  # of norms


# Gemma-3n and Gemma-4: per-layer embeddings, KV caches shared between layers, alternating residual streams.
#
# Defaults that configurations leave out are those of Hugging Face transformers
# (https://github.com/huggingface/transformers, src/transformers/models/gemma3n and gemma4).

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


def _sharing(
    fields: Fields, layer_windows: list[int | None], first: int, local: dict[str, Any], full: dict[str, Any]
) -> list[Block]:
    """Attention of each layer, of which those from `first` on use the KV caches of earlier ones."""
    mixers = {
        (window, is_shared): gqa(fields, window=window, kv_shared=is_shared, **(local if window else full))
        for window in dict.fromkeys(layer_windows)
        for is_shared in (False, True)
    }
    return [mixers[window, index >= first] for index, window in enumerate(layer_windows)]


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
    mixers = _sharing(fields, layer_windows, first, local, full)
    network = dense(fields)
    ffns: list[Block] = [network] * layers
    if fields.flag("use_double_wide_mlp"):
        width = fields.bounded("intermediate_size", 2 * network["width"], _TOO_WIDE)
        ffns[first:] = [dense(fields, width=width)] * (layers - first)
    if fields.flag("enable_moe_block"):
        if first < layers:
            raise fields.fault("num_kv_shared_layers", "shared caches beside experts are not supported")
        width = fields.count("intermediate_size")
        ffns = [moe(fields, "moe_intermediate_size|expert_intermediate_size", shared_width=width)] * layers
    fields.pass_over("num_experts", "top_k_experts", "moe_intermediate_size")
    inputs = _layer_inputs(fields)
    blocks = list(zip(mixers, ffns, strict=True))
    return shape(fields, "gemma", blocks, tied=True, norms=5 if inputs else 4, extras=inputs)


def _gemma3n(fields: Fields) -> Shape:
    """Gemma-3n: per-layer embeddings, a learned residual connection, and four streams of which a layer updates one."""
    fields.require(*SIZES, "intermediate_size", "head_dim", "num_key_value_heads")
    layers, biases = fields.layers(), attention_biases(fields)
    layer_windows = windows(fields, layers, lambda index: (index + 1) % 5 != 0, default=512)
    traits = {**biases, "qk_norm": "head"}
    mixers = _sharing(fields, layer_windows, _first_shared(fields, layers), traits, traits)
    is_list = isinstance(fields.values.get("intermediate_size"), list)
    widths = fields.counts("intermediate_size", layers, least=1) if is_list else None
    ffns = [dense(fields, width=width) for width in widths] if widths else [dense(fields)] * layers
    blocks = list(zip(mixers, ffns, strict=True))
    fields.refuse("altup_correct_scale", "streams without a scale of their correction are not supported", value=False)
    extras = {
        **_layer_inputs(fields),
        "altup": fields.limited("altup_num_inputs", fields.count("altup_num_inputs", default=4), 64, "streams"),
        "laurel": fields.count("laurel_rank", default=64),
    }
    return shape(fields, "gemma", blocks, tied=True, norms=5 if "layer_input" in extras else 4, extras=extras)


# Dense families with unusual layers or field names: Falcon, MPT, PaLM, Puzzle.

_PUZZLE_MULTIPLE = 256  # Llama-Nemotron rounds the width of a feed-forward network up to a multiple of this


def _falcon(fields: Fields) -> Shape:
    """Falcon: one norm before both halves of a layer; the newer decoder of 40B and 180B has two."""
    fields.require(*SIZES)
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    is_newer = fields.flag("new_decoder_architecture")
    kv_heads = fields.optional("num_key_value_heads")
    if kv_heads is None:
        multi_query = fields.flag("multi_query", default=True)
        kv_heads = fields.count("num_kv_heads", default=heads) if is_newer else 1 if multi_query else heads
    elif not fields.has("new_decoder_architecture"):
        is_newer = 1 < kv_heads < heads
    fields.pass_over("num_kv_heads", "multi_query", "parallel_attn")
    bias = fields.flag("bias")
    parallel = is_newer or fields.flag("parallel_attn", default=True)
    norms = fields.count("num_ln_in_parallel_attn", default=2 if is_newer else 1) if parallel else 2
    norms = 2 if norms == 2 else 1  # whatever else the field says
    ffn = dense(
        fields, width=fields.optional("ffn_hidden_size", "intermediate_size") or 4 * hidden, gated=False, bias=bias
    )
    mixer = gqa(fields, kv_heads=kv_heads, qkv_bias=bias, o_bias=bias)
    return shape(
        fields,
        "falcon",
        uniform(fields.layers(), mixer, ffn),
        tied=True,
        norms=norms,
        norm_bias=True,
        parallel=parallel,
    )


def _mpt(fields: Fields) -> Shape:
    fields.require("d_model", "n_heads", "n_layers", "vocab_size")
    hidden, heads = fields.count("d_model"), fields.count("n_heads")
    fields.refuse("no_bias", "biases are not supported for this family, whose class has none", value=False)
    bias = False
    attention, network = fields.section("attn_config"), fields.section("ffn_config")
    kv_heads = attention.optional("kv_n_heads") if attention else None
    if attention and attention.flag("qk_ln"):
        raise fields.fault("attn_config.qk_ln", "query and key norms are not supported for this family")
    if network and network.text("ffn_type") not in (None, "mptmlp"):
        raise fields.fault("ffn_config.ffn_type", "only mptmlp is supported")
    width = network.optional("ffn_hidden_size") if network else None
    head_dim = fields.divided("n_heads", hidden, heads)
    mixer = gqa(fields, heads=heads, kv_heads=kv_heads or heads, head_dim=head_dim, qkv_bias=bias, o_bias=bias)
    width = width or hidden * fields.count("expansion_ratio", default=4)
    width = fields.bounded("expansion_ratio", width, _TOO_WIDE)
    layers = uniform(fields.layers("n_layers"), mixer, dense(fields, width=width, gated=False, bias=bias))
    return shape(fields, "mpt", layers, hidden=("d_model",), tied=True, norm_bias=bias)


def _palm(fields: Fields) -> Shape:
    fields.require("d_model", "n_heads", "n_layers", "head_dim", "ffn", "vocab_size")
    heads = fields.count("n_heads")
    kv_heads = 1 if fields.flag("multi_query", default=True) else heads
    ffn = dense(fields, "ffn", gated=fields.flag("swiglu", default=True))
    layers = uniform(fields.layers("n_layers"), gqa(fields, heads=heads, kv_heads=kv_heads), ffn)
    parallel = fields.flag("parallel", default=True)
    norms = 1 if parallel else 2
    return shape(fields, "palm", layers, hidden=("d_model",), tied=True, norms=norms, parallel=parallel)


def _puzzle(fields: Fields) -> Shape:
    """Llama-Nemotron: Llama with halves of single layers dropped, thinned or replaced (Puzzle)."""
    fields.require("hidden_size", "num_hidden_layers", "num_attention_heads", "block_configs", "vocab_size")
    layers: LayerList = []
    for block in fields.sections("block_configs", fields.layers()):
        attention, network = block.section("attention"), block.section("ffn")
        if attention is None or network is None:
            raise block.fault("attention" if attention is None else "ffn", "missing")
        mixer, ffn = _puzzle_mixer(fields, attention), _puzzle_ffn(fields, network)
        if mixer["kind"] == ffn["kind"] == "none":
            raise block.fault("attention.no_op", "a layer must have attention, a feed-forward network or both")
        layers.append((mixer, ffn))
    return shape(fields, "nemotron", layers)


def _puzzle_stand_in(half: Fields, *unsupported: str) -> Block | None:
    """What stands for half of a layer; None where the half is there."""
    for name in unsupported:
        if half.has(name):
            raise half.fault(name, "not supported")
    if half.flag("no_op"):
        return part("none")
    return part("linear") if half.flag("replace_with_linear") else None


def _puzzle_mixer(fields: Fields, attention: Fields) -> Block:
    stand_in = _puzzle_stand_in(attention, "window_length", "num_sink_tokens", "sparsify", "llama4", "mamba")
    if stand_in is not None:
        return stand_in
    heads = fields.count("num_attention_heads")
    group = attention.count("n_heads_in_group")
    biases = attention_biases(fields)
    return gqa(fields, kv_heads=attention.divided("n_heads_in_group", heads, group), **biases)


def _puzzle_ffn(fields: Fields, network: Fields) -> Block:
    stand_in = _puzzle_stand_in(network, "moe", "sparsify")
    if stand_in is not None:
        return stand_in
    bias = fields.flag("mlp_bias")
    if network.has("intermediate_size"):
        return dense(network, bias=bias)
    if not network.has("ffn_mult"):
        raise network.fault("ffn_mult", "missing")
    width = int(2 * network.number("ffn_mult", 1.0) * fields.count("hidden_size") / 3)
    width = max(1, -(-width // _PUZZLE_MULTIPLE)) * _PUZZLE_MULTIPLE
    return dense(network, width=network.bounded("ffn_mult", width, _TOO_WIDE), bias=bias)


#: ALiBi slopes instead of positions, and a norm after the embedding.
_BLOOM = partial(_plain, family="bloom", **_GPT2 | {"hidden": ("hidden_size", "n_embed")}, extras={"final_norms": 2})
#: Attention without biases in parallel to an FFN with biases, after one norm.
_GPTJ = partial(_plain, family="gpt-j", **_GPT2, bias=False, tied=False, norms=1, parallel=True, head_bias=True)
_TIED = {"tied": True}
_UNGATED = {"gated": False}
_QKV_BIAS = {"qkv_bias": flag("attention_bias")}
_MLP_BIAS = {"bias": flag("mlp_bias")}
_LLAMA = Declared("llama", BIASES, _MLP_BIAS)
_MISTRAL = Declared("mistral")
_GEMMA2 = Declared("gemma", BIASES, {}, {"tied": True, "norms": 4}, window=sliding(lambda index: index % 2 == 0, 4096))
_GEMMA3 = replace(
    _GEMMA2,
    attention=BIASES | HEAD_NORMS,
    window=period_of("sliding_window_pattern", "_sliding_window_pattern", default=6, window=4096),
)
_QWEN2 = Declared("qwen2", {"qkv_bias": True}, model={"mtp": drafts}, window=qwen_windows)
_QWEN3 = replace(_QWEN2, family="qwen3", attention=BIASES | HEAD_NORMS)
#: One norm without biases before attention and feed-forward network in parallel.
_COMMAND = {"tied": True, "norms": 1, "parallel": True}


def llama_like(fields: Fields) -> Shape:
    """Shape of a model whose unknown type has the fields of Llama."""
    return _LLAMA(fields)


def _internlm3(fields: Fields) -> Shape:
    """InternLM3: any one of its bias fields turns on all biases."""
    fields.require(*DENSE)
    bias = True in {fields.flag(name) for name in ("attention_bias", "qkv_bias", "mlp_bias", "bias")}
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias)
    return shape(fields, "internlm", uniform(fields.layers(), mixer, dense(fields, bias=bias)))


def _helium(fields: Fields) -> Shape:
    """Helium: the output projection is square."""
    fields.require(*DENSE)
    mixer = gqa(fields, qkv_bias=fields.flag("attention_bias"))
    if mixer["heads"] * mixer["head_dim"] != fields.count("hidden_size"):
        raise fields.fault("head_dim", "heads that are not as wide as the model are not supported for this family")
    return shape(fields, "helium", uniform(fields.layers(), mixer, dense(fields, bias=fields.flag("mlp_bias"))))


def _llama_by_statement(fields: Fields) -> Shape:
    """EXAONE-3: Llama that must state whether the head is tied, because engines disagree on the default."""
    fields.require("hidden_size", "num_hidden_layers|num_layers", "num_attention_heads", "intermediate_size")
    fields.require("vocab_size", "tie_word_embeddings")
    bias = fields.flag("attention_bias") or fields.flag("bias")
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias)
    layers = fields.layers("num_hidden_layers" if fields.has("num_hidden_layers") else "num_layers")
    family = fields.text("model_type") or "llama"
    return shape(fields, family, uniform(layers, mixer, dense(fields, bias=fields.flag("mlp_bias"))))


#: Reader of each model_type; multimodal wrappers are read by the type of their language model.
FAMILIES: Mapping[str, Family] = {
    **EXPERTS,
    **HYBRIDS,
    **RECENT,
    **INSIDE_WRAPPERS,
    "biogpt": _biogpt,
    "bloom": _BLOOM,
    "chatglm": _chatglm,
    "codegen": _GPTJ,
    "gptj": _GPTJ,
    "cwm": Declared("cwm", {}, _MLP_BIAS, window=sliding(lambda index: index % 4 != 0, 8192)),
    "ernie4_5": Declared("ernie", biases_of("use_bias"), {"bias": flag("use_bias")}, _TIED),
    "exaone4": Declared("exaone", HEAD_NORMS, window=attention_windows),
    "gemma": Declared("gemma", BIASES, {}, _TIED),
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "glm": Declared("glm", _QKV_BIAS),
    "glm4": Declared("glm", _QKV_BIAS, {}, {"norms": 4}),
    "gpt_neox": Declared(
        "gpt-neox",
        biases_of("attention_bias", default=True),
        {"gated": False, "bias": True},
        {"norm_bias": True, "parallel": flag("use_parallel_residual", default=True)},
    ),
    "emu3_text_model": _LLAMA,
    "gpt-sw3": _gpt2,
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "granite": replace(_LLAMA, family="granite"),
    "granite_swa": Declared(
        "granite", BIASES | {"sinks": True}, _MLP_BIAS, _TIED, window=sliding(lambda index: index % 4 != 0)
    ),
    "hunyuan_v1_dense": Declared("hunyuan", BIASES | HEAD_NORMS),
    "hyperclovax": replace(_LLAMA, family="hyperclova", model={"norms": flag("use_post_norm", 4, 2, default=True)}),
    "internlm2": Declared("internlm"),
    "iquestcoder": _LLAMA,
    "jais2": Declared(
        "jais",
        biases_of("attention_bias", default=True),
        {"gated": False, "bias": flag("mlp_bias", default=True)},
        {"norm_bias": True},
    ),
    "mimo": replace(_QWEN2, family="mimo", attention={"qkv_bias": flag("attention_bias", default=True)}),
    "ministral": _MISTRAL,
    "ministral3": _MISTRAL,
    "mistral": _MISTRAL,
    "muse_glimmer_text": Declared(
        "muse",
        BIASES | {"out_gate": True},
        {},
        {"norms": 4},
        window=lambda fields, layers: windows(fields, layers, lambda index: (layers - 1 - index) % 4 != 0),
    ),
    "nemotron": Declared("nemotron", BIASES, _UNGATED | _MLP_BIAS, {"norm_bias": True}),
    "olmo2": Declared("olmo", BIASES | {"qk_norm": "full"}),
    "olmo3": Declared("olmo", BIASES | {"qk_norm": "full"}, window=sliding(lambda index: (index + 1) % 4 != 0)),
    "phi": Declared(
        "phi",
        {"qkv_bias": True, "o_bias": True},
        {"gated": False, "bias": True},
        {"norms": 1, "norm_bias": True, "head_bias": True, "parallel": True},
        refuses={"qk_layernorm": "query and key norms are not supported for this family"},
        window=None,
    ),
    "nanochat": Declared("nanochat", BIASES, {"gated": False}, _NO_WEIGHTS, needs=_DENSE_LAST, window=None),
    "olmo": Declared("olmo", BIASES, {}, _NO_WEIGHTS, needs=_DENSE_LAST, window=None),
    "opt": _opt,
    "persimmon": _persimmon,
    "gemma3n": _gemma3n,
    "gemma3n_text": _gemma3n,
    "gemma4": _gemma4,
    "gemma4_text": _gemma4,
    "gemma4_unified": _gemma4,
    "gemma4_unified_text": _gemma4,
    "exaone": _llama_by_statement,
    "falcon": _falcon,
    "helium": _helium,
    "mpt": _mpt,
    "nemotron-nas": _puzzle,
    "palm": _palm,
    "internlm3": _internlm3,
    "minicpm": minicpm,
    "llama": _LLAMA,
    "apertus": Declared("apertus", BIASES | HEAD_NORMS, _UNGATED),
    "baichuan": Declared("baichuan"),
    "arcee": Declared("arcee", BIASES, _UNGATED | _MLP_BIAS),
    "cohere": Declared("command-r", BIASES | {"qk_norm": flag("use_qk_norm", "full", None)}, {}, _COMMAND, window=None),
    "cohere2": Declared(
        "command-r",
        BIASES,
        model=_COMMAND,
        window=period_of("sliding_window_pattern", "_sliding_window_pattern", default=4, window=4096),
    ),
    "phi3": Declared("phi"),
    "qwen2": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "seed_oss": Declared(
        "seed", {"qkv_bias": flag("attention_bias", default=True), "o_bias": flag("attention_out_bias")}, _MLP_BIAS
    ),
    "smollm3": Declared("smollm", BIASES, _MLP_BIAS, _TIED),
    "stablelm": Declared(
        "stablelm",
        {"qkv_bias": flag("use_qkv_bias"), "qk_norm": flag("qk_layernorm", "full", None)},
        {},
        {"norms": flag("use_parallel_residual", 1, 2), "norm_bias": True, "parallel": flag("use_parallel_residual")},
        window=None,
    ),
    "starcoder2": Declared(
        "starcoder",
        biases_of("use_bias", default=True),
        {"gated": False, "bias": flag("use_bias", default=True)},
        {"tied": True, "norm_bias": True},
    ),
    "vaultgemma": replace(_GEMMA2, model=_TIED),
}
