"""Families of models by the `model_type` of their configuration, and what each makes of its fields.

A family states what its configuration leaves unsaid: whether the head is tied where the field is absent, which
projections have biases, which layers slide. These defaults are those of the family's configuration and modelling
classes in Hugging Face transformers (https://github.com/huggingface/transformers, src/transformers/models). Those of
Baichuan, EXAONE-3, InternLM2 and MiniCPM are in vLLM (https://github.com/vllm-project/vllm,
vllm/model_executor/models).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.huggingface.experts import EXPERTS
from roofline.huggingface.fields import Fields
from roofline.huggingface.hybrids import HYBRIDS
from roofline.huggingface.latents import LATENTS
from roofline.huggingface.layers import Shape, dense, drafts, gqa, shape, uniform, windows
from roofline.huggingface.others import OTHERS
from roofline.huggingface.readers.classics import CLASSICS
from roofline.huggingface.readers.gemma import GEMMAS
from roofline.huggingface.readers.mixtures import MIXTURES, attention_windows
from roofline.huggingface.readers.recent import RECENT
from roofline.huggingface.readers.states import STATES
from roofline.huggingface.readers.streams import STREAMS
from roofline.records import dataclass, replace

__all__ = ["DEFAULTS", "FAMILIES", "llama_like"]

Family = Callable[[Fields], Shape]

_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


@dataclass(frozen=True, slots=True)
class _Traits:
    """What sets one dense family apart from another; a text is the field that says it, with its default after `=`."""

    family: str
    tied: bool = False
    norms: int = 2
    norm_bias: bool = False
    qkv_bias: str | bool = False
    o_bias: str | bool = False
    mlp_bias: str | bool = False
    head_bias: str | bool = False
    qk_norm: str | None = None  # head or full
    gated: bool = True
    parallel: str | bool = False
    sinks: bool = False
    out_gate: bool = False
    slides: Callable[[int], bool] = lambda _: True  # where layer_types does not say


def _said(fields: Fields, trait: str | bool) -> bool:
    """A trait that holds always, never, or where a field says so."""
    if isinstance(trait, bool):
        return trait
    name, _, default = trait.partition("=")
    return fields.flag(name, default=default == "true")


def _dense_family(traits: _Traits) -> Family:
    """Reader of one dense family."""

    def read(fields: Fields) -> Shape:
        fields.require(*_NAMES)
        sliding = windows(fields, fields.layers(), traits.slides)
        ffn = dense(fields, gated=traits.gated, bias=_said(fields, traits.mlp_bias))
        mixers = {
            window: gqa(
                fields,
                window=window,
                qkv_bias=_said(fields, traits.qkv_bias),
                o_bias=_said(fields, traits.o_bias),
                qk_norm=traits.qk_norm,
                sinks=traits.sinks,
                out_gate=traits.out_gate,
            )
            for window in sliding
        }
        return shape(
            fields,
            traits.family,
            [(mixers[window], ffn) for window in sliding],
            tied=traits.tied,
            norms=traits.norms,
            norm_bias=traits.norm_bias,
            parallel=_said(fields, traits.parallel),
            head_bias=_said(fields, traits.head_bias),
        )

    return read


_LLAMA = _Traits("llama", qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")

#: Dense families that differ in traits alone.
_DENSE: Mapping[str, _Traits] = {
    "llama": _LLAMA,
    "apertus": _Traits("apertus", qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head", gated=False),
    "baichuan": _Traits("baichuan"),
    "arcee": _Traits("arcee", qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias", gated=False),
    "ernie4_5": _Traits("ernie", tied=True, qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"),
    "gemma": _Traits("gemma", tied=True, qkv_bias="attention_bias", o_bias="attention_bias"),
    "glm": _Traits("glm", qkv_bias="attention_bias"),
    "glm4": _Traits("glm", norms=4, qkv_bias="attention_bias"),
    "gpt_neox": _Traits(
        "gpt-neox",
        parallel="use_parallel_residual=true",
        norm_bias=True,
        qkv_bias="attention_bias=true",
        o_bias="attention_bias=true",
        mlp_bias=True,
        gated=False,
    ),
    "emu3_text_model": _LLAMA,
    "granite": _Traits("granite", qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias"),
    "granite_swa": _Traits(
        "granite",
        tied=True,
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        mlp_bias="mlp_bias",
        sinks=True,
        slides=lambda index: index % 4 != 0,
    ),
    "hunyuan_v1_dense": _Traits("hunyuan", qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head"),
    "internlm2": _Traits("internlm"),
    "iquestcoder": _LLAMA,
    "jais2": _Traits(
        "jais",
        norm_bias=True,
        qkv_bias="attention_bias=true",
        o_bias="attention_bias=true",
        mlp_bias="mlp_bias=true",
        gated=False,
    ),
    "ministral": _Traits("mistral"),
    "ministral3": _Traits("mistral"),
    "mistral": _Traits("mistral"),
    "muse_glimmer_text": _Traits("muse", norms=4, qkv_bias="attention_bias", o_bias="attention_bias", out_gate=True),
    "nemotron": _Traits(
        "nemotron",
        norm_bias=True,
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        mlp_bias="mlp_bias",
        gated=False,
    ),
    "olmo2": _Traits("olmo", qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="full"),
    "olmo3": _Traits(
        "olmo",
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="full",
        slides=lambda index: (index + 1) % 4 != 0,
    ),
    "phi3": _Traits("phi"),
    "seed_oss": _Traits("seed", qkv_bias="attention_bias=true", o_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "smollm3": _Traits("smollm", tied=True, qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias"),
    "starcoder2": _Traits(
        "starcoder",
        tied=True,
        norm_bias=True,
        qkv_bias="use_bias=true",
        o_bias="use_bias=true",
        mlp_bias="use_bias=true",
        gated=False,
    ),
}


def llama_like(fields: Fields) -> Shape:
    """Reader for a model type that is not known but has the fields of Llama.

    Args:
        fields: of the configuration [record].

    Returns:
        The shape.
    """
    return _dense_family(_LLAMA)(fields)


def _qwen2(fields: Fields) -> Shape:
    """Qwen2 and Qwen2.5: biases on queries, keys and values; a window on the layers from `max_window_layers` on."""
    return _qwen(fields, "qwen2", qkv_bias=True)


def _qwen3(fields: Fields) -> Shape:
    bias = fields.flag("attention_bias")
    return _qwen(fields, "qwen3", qkv_bias=bias, o_bias=bias, qk_norm="head")


def _mimo(fields: Fields) -> Shape:
    return _qwen(fields, "mimo", qkv_bias=fields.flag("attention_bias", default=True))


def _qwen(fields: Fields, family: str, **traits: Any) -> Shape:
    fields.require(*_NAMES)
    layers = fields.layers()
    ffn = dense(fields)
    first = fields.count("max_window_layers", default=28, least=0)
    if fields.flag("use_sliding_window"):
        sliding = windows(fields, layers, lambda index: index >= first, default=4096)
    else:
        sliding = [None] * layers
    mixers = {window: gqa(fields, window=window, **traits) for window in sliding}
    return shape(fields, family, [(mixers[window], ffn) for window in sliding], mtp=drafts(fields))


def _exaone4(fields: Fields) -> Shape:
    """EXAONE-4: norms behind both halves of a layer; three layers of four slide where a window is given."""
    fields.require(*_NAMES)
    sliding = attention_windows(fields)
    mixers = {window: gqa(fields, window=window, qk_norm="head") for window in sliding}
    ffn = dense(fields)
    return shape(fields, "exaone", [(mixers[window], ffn) for window in sliding])


def _internlm3(fields: Fields) -> Shape:
    """InternLM3: `qkv_bias` and `bias` are one."""
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


def _untold(fields: Fields) -> Shape:
    """EXAONE-3 and MiniCPM: Llama whose files must say whether the head is tied, for their classes disagree."""
    fields.require("hidden_size", "num_hidden_layers|num_layers", "num_attention_heads", "intermediate_size")
    fields.require("vocab_size", "tie_word_embeddings")
    bias = fields.flag("attention_bias") or fields.flag("bias")
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias)
    layers = fields.layers("num_hidden_layers" if fields.has("num_hidden_layers") else "num_layers")
    family = fields.text("model_type") or "llama"
    return shape(fields, family, uniform(layers, mixer, dense(fields, bias=fields.flag("mlp_bias"))))


def _hyperclovax(fields: Fields) -> Shape:
    """HyperCLOVA X: Llama with norms behind both halves of a layer, too."""
    norms = 4 if fields.flag("use_post_norm", default=True) else 2
    return replace(llama_like(fields), family="hyperclova", norms=norms)


def _cwm(fields: Fields) -> Shape:
    """Code World Model: the first layer of four sees everything."""
    fields.require(*_NAMES)
    sliding = windows(fields, fields.layers(), lambda index: index % 4 != 0, default=8192)
    mixers = {window: gqa(fields, window=window) for window in sliding}
    ffn = dense(fields, bias=fields.flag("mlp_bias"))
    return shape(fields, "cwm", [(mixers[window], ffn) for window in sliding])


def _vaultgemma(fields: Fields) -> Shape:
    """VaultGemma: Gemma-2 with two norms a layer."""
    return replace(_gemma2(fields), norms=2)


def _gemma2(fields: Fields) -> Shape:
    """Every other layer slides, the first one does."""
    return _gemma(fields, lambda index: index % 2 == 0, qk_norm=None)


def _gemma3(fields: Fields) -> Shape:
    """Five layers slide, the sixth does not."""
    period = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return _gemma(fields, lambda index: (index + 1) % period != 0, qk_norm="head")


def _gemma(fields: Fields, slides: Callable[[int], bool], qk_norm: str | None) -> Shape:
    fields.require(*_NAMES)
    layers, bias = fields.layers(), fields.flag("attention_bias")
    sliding = windows(fields, layers, slides, default=4096)
    mixers = {window: gqa(fields, window=window, qkv_bias=bias, o_bias=bias, qk_norm=qk_norm) for window in sliding}
    ffn = dense(fields)
    return shape(fields, "gemma", [(mixers[window], ffn) for window in sliding], tied=True, norms=4)


def _cohere(fields: Fields) -> Shape:
    """Command-R: attention and feed-forward network work side by side behind one norm without biases."""
    fields.require(*_NAMES)
    layers, bias = fields.layers(), fields.flag("attention_bias")
    qk_norm = "full" if fields.flag("use_qk_norm") else None
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias, qk_norm=qk_norm)
    return shape(fields, "command-r", uniform(layers, mixer, dense(fields)), tied=True, norms=1, parallel=True)


def _cohere2(fields: Fields) -> Shape:
    """Command-R7B and Command-A: three layers slide, the fourth does not."""
    fields.require(*_NAMES)
    layers, bias = fields.layers(), fields.flag("attention_bias")
    period = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=4)
    sliding = windows(fields, layers, lambda index: (index + 1) % period != 0, default=4096)
    mixers = {window: gqa(fields, window=window, qkv_bias=bias, o_bias=bias) for window in sliding}
    ffn = dense(fields)
    return shape(fields, "command-r", [(mixers[window], ffn) for window in sliding], tied=True, norms=1, parallel=True)


#: model_type -> reader. Wrappers of other modalities are listed with the type of their language model.
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
    "cwm": _cwm,
    "exaone": _untold,
    "exaone4": _exaone4,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "helium": _helium,
    "hyperclovax": _hyperclovax,
    "internlm3": _internlm3,
    "mimo": _mimo,
    "minicpm": _untold,
    "qwen2": _qwen2,
    "qwen2_5_vl": _qwen2,
    "qwen2_5_vl_text": _qwen2,
    "qwen2_vl": _qwen2,
    "qwen2_vl_text": _qwen2,
    "qwen3": _qwen3,
    "qwen3_vl_text": _qwen3,
    "vaultgemma": _vaultgemma,
}

#: Values that files of a family leave out because they are those of its configuration class.
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gemma3_text": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
    },
}
