"""Families of models by the `model_type` of their configuration, and what each makes of its fields.

A family states what its configuration leaves unsaid: whether the head is tied where the field is absent, which
projections have biases, which layers slide. These defaults are those of the family's configuration and modelling
classes in Hugging Face transformers (https://github.com/huggingface/transformers, src/transformers/models).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from roofline.huggingface.experts import EXPERTS
from roofline.huggingface.fields import Fields
from roofline.huggingface.hybrids import HYBRIDS
from roofline.huggingface.latents import LATENTS
from roofline.huggingface.layers import Shape, dense, drafts, gqa, shape, uniform, windows
from roofline.huggingface.others import OTHERS

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
    "granite": _Traits("granite", qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias"),
    "ministral3": _Traits("mistral"),
    "mistral": _Traits("mistral"),
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
    "seed_oss": _Traits("seed", qkv_bias="attention_bias=true", o_bias="attention_out_bias"),
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
    **EXPERTS,
    **LATENTS,
    **HYBRIDS,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "mimo": _mimo,
    "qwen2": _qwen2,
    "qwen2_5_vl": _qwen2,
    "qwen2_5_vl_text": _qwen2,
    "qwen2_vl": _qwen2,
    "qwen2_vl_text": _qwen2,
    "qwen3": _qwen3,
    "qwen3_vl_text": _qwen3,
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
