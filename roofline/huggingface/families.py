"""Reader of each `model_type`.

A reader knows what configurations leave out: whether the head is tied, which projections have biases, which layers
have a window. These defaults are those of Hugging Face transformers
(https://github.com/huggingface/transformers, src/transformers/models); for Baichuan, EXAONE-3, InternLM2 and MiniCPM of
vLLM (https://github.com/vllm-project/vllm, vllm/model_executor/models).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.experts import EXPERTS, qwen_windows
from roofline.huggingface.fields import Fields
from roofline.huggingface.hybrids import HYBRIDS
from roofline.huggingface.latents import LATENTS
from roofline.huggingface.layers import (
    Shape,
    attention_biases,
    dense,
    drafts,
    gqa,
    gqa_by_window,
    shape,
    uniform,
    windows,
)
from roofline.huggingface.others import OTHERS
from roofline.huggingface.readers.classics import CLASSICS
from roofline.huggingface.readers.gemma import GEMMAS
from roofline.huggingface.readers.mixtures import MIXTURES, attention_windows
from roofline.huggingface.readers.recent import RECENT
from roofline.huggingface.readers.states import STATES
from roofline.huggingface.readers.streams import STREAMS
from roofline.records import dataclass, replace

Family = Callable[[Fields], Shape]

_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


@dataclass(frozen=True, slots=True)
class _Traits:
    """What sets dense families apart; a text names the field that states a trait, its default after `=`."""

    family: str
    tied: bool = False
    norms: int = 2
    norm_bias: bool = False
    bias: str | bool = False  # of all projections of attention
    qkv_bias: str | bool = False
    o_bias: str | bool = False
    mlp_bias: str | bool = False
    head_bias: str | bool = False
    qk_norm: str | None = None  # head or full
    gated: bool = True
    parallel: str | bool = False
    sinks: bool = False
    out_gate: bool = False
    slides: Callable[[int], bool] = lambda _: True  # which layers have a window, where layer_types does not say
    window: int | None = None  # tokens, where no field says


def _holds(trait: str | bool, fields: Fields) -> bool:
    if isinstance(trait, bool):
        return trait
    name, _, default = trait.partition("=")
    return fields.flag(name, default=default == "true")


def _dense_family(traits: _Traits) -> Family:
    def read(fields: Fields) -> Shape:
        fields.require(*_NAMES)
        layer_windows = windows(fields, fields.layers(), traits.slides, default=traits.window)
        ffn = dense(fields, gated=traits.gated, bias=_holds(traits.mlp_bias, fields))
        mixers = gqa_by_window(
            fields,
            layer_windows,
            qkv_bias=_holds(traits.bias, fields) or _holds(traits.qkv_bias, fields),
            o_bias=_holds(traits.bias, fields) or _holds(traits.o_bias, fields),
            qk_norm=traits.qk_norm,
            sinks=traits.sinks,
            out_gate=traits.out_gate,
        )
        return shape(
            fields,
            traits.family,
            [(mixer, ffn) for mixer in mixers],
            tied=traits.tied,
            norms=traits.norms,
            norm_bias=traits.norm_bias,
            parallel=_holds(traits.parallel, fields),
            head_bias=_holds(traits.head_bias, fields),
        )

    return read


_LLAMA = _Traits("llama", bias="attention_bias", mlp_bias="mlp_bias")
_GEMMA2 = _Traits(
    "gemma",
    tied=True,
    norms=4,
    bias="attention_bias",
    slides=lambda index: index % 2 == 0,
    window=4096,
)

_DENSE: Mapping[str, _Traits] = {
    "llama": _LLAMA,
    "apertus": _Traits("apertus", bias="attention_bias", qk_norm="head", gated=False),
    "baichuan": _Traits("baichuan"),
    "arcee": _Traits("arcee", bias="attention_bias", mlp_bias="mlp_bias", gated=False),
    "cwm": _Traits("cwm", mlp_bias="mlp_bias", slides=lambda index: index % 4 != 0, window=8192),
    "ernie4_5": _Traits("ernie", tied=True, bias="use_bias", mlp_bias="use_bias"),
    "gemma": _Traits("gemma", tied=True, bias="attention_bias"),
    "gemma2": _GEMMA2,
    "glm": _Traits("glm", qkv_bias="attention_bias"),
    "glm4": _Traits("glm", norms=4, qkv_bias="attention_bias"),
    "gpt_neox": _Traits(
        "gpt-neox",
        parallel="use_parallel_residual=true",
        norm_bias=True,
        bias="attention_bias=true",
        mlp_bias=True,
        gated=False,
    ),
    "emu3_text_model": _LLAMA,
    "granite": _Traits("granite", bias="attention_bias", mlp_bias="mlp_bias"),
    "granite_swa": _Traits(
        "granite",
        tied=True,
        bias="attention_bias",
        mlp_bias="mlp_bias",
        sinks=True,
        slides=lambda index: index % 4 != 0,
    ),
    "hunyuan_v1_dense": _Traits("hunyuan", bias="attention_bias", qk_norm="head"),
    "internlm2": _Traits("internlm"),
    "iquestcoder": _LLAMA,
    "jais2": _Traits("jais", norm_bias=True, bias="attention_bias=true", mlp_bias="mlp_bias=true", gated=False),
    "ministral": _Traits("mistral"),
    "ministral3": _Traits("mistral"),
    "mistral": _Traits("mistral"),
    "muse_glimmer_text": _Traits("muse", norms=4, bias="attention_bias", out_gate=True),
    "nemotron": _Traits("nemotron", norm_bias=True, bias="attention_bias", mlp_bias="mlp_bias", gated=False),
    "olmo2": _Traits("olmo", bias="attention_bias", qk_norm="full"),
    "olmo3": _Traits("olmo", bias="attention_bias", qk_norm="full", slides=lambda index: (index + 1) % 4 != 0),
    "phi3": _Traits("phi"),
    "seed_oss": _Traits("seed", qkv_bias="attention_bias=true", o_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "smollm3": _Traits("smollm", tied=True, bias="attention_bias", mlp_bias="mlp_bias"),
    "starcoder2": _Traits(
        "starcoder",
        tied=True,
        norm_bias=True,
        bias="use_bias=true",
        mlp_bias="use_bias=true",
        gated=False,
    ),
    "vaultgemma": replace(_GEMMA2, norms=2),
}


def llama_like(fields: Fields) -> Shape:
    """Shape of a model whose unknown type has the fields of Llama."""
    return _dense_family(_LLAMA)(fields)


def _qwen2(fields: Fields) -> Shape:
    return _qwen(fields, "qwen2", qkv_bias=True)


def _qwen3(fields: Fields) -> Shape:
    return _qwen(fields, "qwen3", **attention_biases(fields), qk_norm="head")


def _mimo(fields: Fields) -> Shape:
    return _qwen(fields, "mimo", qkv_bias=fields.flag("attention_bias", default=True))


def _qwen(fields: Fields, family: str, **traits: Any) -> Shape:
    fields.require(*_NAMES)
    layers, ffn = fields.layers(), dense(fields)
    mixers = gqa_by_window(fields, qwen_windows(fields, layers), **traits)
    return shape(fields, family, [(mixer, ffn) for mixer in mixers], mtp=drafts(fields))


def _exaone4(fields: Fields) -> Shape:
    """EXAONE-4: norms after both halves of a layer; a window, if stated, on three layers in four."""
    fields.require(*_NAMES)
    mixers = gqa_by_window(fields, attention_windows(fields), qk_norm="head")
    ffn = dense(fields)
    return shape(fields, "exaone", [(mixer, ffn) for mixer in mixers])


def _internlm3(fields: Fields) -> Shape:
    """InternLM3: any one of its bias fields turns on all biases."""
    fields.require(*_NAMES)
    bias = True in {fields.flag(name) for name in ("attention_bias", "qkv_bias", "mlp_bias", "bias")}
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias)
    return shape(fields, "internlm", uniform(fields.layers(), mixer, dense(fields, bias=bias)))


def _helium(fields: Fields) -> Shape:
    """Helium: the output projection is square."""
    fields.require(*_NAMES)
    mixer = gqa(fields, qkv_bias=fields.flag("attention_bias"))
    if mixer["heads"] * mixer["head_dim"] != fields.count("hidden_size"):
        raise fields.fault("head_dim", "heads that are not as wide as the model are not supported for this family")
    return shape(fields, "helium", uniform(fields.layers(), mixer, dense(fields, bias=fields.flag("mlp_bias"))))


def _llama_by_statement(fields: Fields) -> Shape:
    """EXAONE-3 and MiniCPM: Llama that must state whether the head is tied, because engines disagree on the default."""
    fields.require("hidden_size", "num_hidden_layers|num_layers", "num_attention_heads", "intermediate_size")
    fields.require("vocab_size", "tie_word_embeddings")
    bias = fields.flag("attention_bias") or fields.flag("bias")
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias)
    layers = fields.layers("num_hidden_layers" if fields.has("num_hidden_layers") else "num_layers")
    family = fields.text("model_type") or "llama"
    return shape(fields, family, uniform(layers, mixer, dense(fields, bias=fields.flag("mlp_bias"))))


def _hyperclovax(fields: Fields) -> Shape:
    """HyperCLOVA X: Llama with a norm before and after both halves of a layer."""
    norms = 4 if fields.flag("use_post_norm", default=True) else 2
    return replace(llama_like(fields), family="hyperclova", norms=norms)


def _gemma3(fields: Fields) -> Shape:
    """Gemma-3: a window on five layers in six."""
    period = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return _dense_family(replace(_GEMMA2, qk_norm="head", slides=lambda index: (index + 1) % period != 0))(fields)


def _cohere(fields: Fields) -> Shape:
    """Command-R: attention and feed-forward network in parallel after one norm without biases."""
    fields.require(*_NAMES)
    layers, biases = fields.layers(), attention_biases(fields)
    qk_norm = "full" if fields.flag("use_qk_norm") else None
    mixer = gqa(fields, **biases, qk_norm=qk_norm)
    return shape(fields, "command-r", uniform(layers, mixer, dense(fields)), tied=True, norms=1, parallel=True)


def _cohere2(fields: Fields) -> Shape:
    """Command-R7B and Command-A: a window on three layers in four."""
    fields.require(*_NAMES)
    layers, biases = fields.layers(), attention_biases(fields)
    period = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=4)
    layer_windows = windows(fields, layers, lambda index: (index + 1) % period != 0, default=4096)
    mixers = gqa_by_window(fields, layer_windows, **biases)
    ffn = dense(fields)
    return shape(fields, "command-r", [(mixer, ffn) for mixer in mixers], tied=True, norms=1, parallel=True)


#: Reader of each model_type; multimodal wrappers are read by the type of their language model.
FAMILIES: Mapping[str, Family] = {
    **{name: _dense_family(traits) for name, traits in _DENSE.items()},
    **OTHERS,
    **CLASSICS,
    **EXPERTS,
    **MIXTURES,
    **RECENT,
    **LATENTS,
    **HYBRIDS,
    **STATES,
    **GEMMAS,
    **STREAMS,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "exaone": _llama_by_statement,
    "exaone4": _exaone4,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "helium": _helium,
    "hyperclovax": _hyperclovax,
    "internlm3": _internlm3,
    "mimo": _mimo,
    "minicpm": _llama_by_statement,
    "qwen2": _qwen2,
    "qwen2_5_vl": _qwen2,
    "qwen2_5_vl_text": _qwen2,
    "qwen2_vl": _qwen2,
    "qwen2_vl_text": _qwen2,
    "qwen3": _qwen3,
    "qwen3_vl_text": _qwen3,
}

#: Values that files of a family may leave out, from its configuration class in transformers.
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gemma3_text": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
    },
}
