"""Building blocks of layers, in the words of a specification, from the fields of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline.huggingface.fields import Fields
from roofline.quantity import BILLION
from roofline.records import dataclass, field

Block = dict[str, Any]
LayerList = list[tuple[Block, Block]]

#: Fields that nearly every configuration has.
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")

_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_top_k",
    "moe_k",
    "moe_topk",
)
_SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
_MOST_DRAFTS = 100
_SLIDING = {"sliding_attention": True, "full_attention": False}


@dataclass(frozen=True, slots=True)
class Shape:
    """A model as its family reads it from a configuration."""

    family: str
    hidden: int
    vocab: int
    tied: bool
    layers: LayerList  # one mixer and one feed-forward network each
    norms: int = 2
    norm_bias: bool = False
    head_bias: bool = False
    parallel: bool = False
    streams: int = 1
    mtp: int = 0
    extras: Mapping[str, Any] = field(default_factory=dict)  # other fields of the specification


def shape(fields: Fields, family: str, layers: LayerList, *, tied: bool = False, **more: Any) -> Shape:
    """Shape of a model whose configuration names width, vocabulary and tie as usual."""
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    return Shape(family, hidden, vocab, fields.flag("tie_word_embeddings", default=tied), layers, **more)


def conv_bias(fields: Fields, name: str) -> None:
    """Refuse a state-space layer whose short convolution has no bias; a missing field means that it has one."""
    if not fields.flag(name, default=True):
        raise fields.fault(name, "a short convolution without biases is not supported")


def drafts(fields: Fields) -> int:
    """Number of draft modules for speculative decoding."""
    count = fields.count("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", default=0, least=0)
    if count > _MOST_DRAFTS:
        raise fields.fault("num_nextn_predict_layers", f"{count} draft modules exceed the limit of {_MOST_DRAFTS}")
    return count


def part(kind: str, **fields: Any) -> Block:
    """A mixer or feed-forward network; fields that are None or False are left out."""
    return {"kind": kind} | {name: value for name, value in fields.items() if value is not None and value is not False}


def uniform(count: int, mixer: Block, ffn: Block) -> LayerList:
    return [(mixer, ffn)] * count


def gqa(fields: Fields, *, heads: int | None = None, kv_heads: int | None = None, **traits: Any) -> Block:
    """Grouped-query attention; without a stated number of KV heads, every query head has its own."""
    heads = heads or fields.count("num_attention_heads")
    kv_heads = kv_heads or fields.count("num_key_value_heads", default=heads)
    fields.divided("num_key_value_heads", heads, kv_heads)
    head_dim = traits.pop("head_dim", None) or fields.optional("head_dim")
    if head_dim is None:
        head_dim = fields.divided("num_attention_heads", fields.count("hidden_size"), heads)
    return part("gqa", heads=heads, kv_heads=kv_heads, head_dim=head_dim, **traits)


def gqa_by_window(fields: Fields, layer_windows: Sequence[int | None], **traits: Any) -> list[Block]:
    """Grouped-query attention of each layer, which differs by its window alone."""
    mixers = {window: gqa(fields, window=window, **traits) for window in dict.fromkeys(layer_windows)}
    return [mixers[window] for window in layer_windows]


def attention_biases(fields: Fields, name: str = "attention_bias", *, default: bool = False) -> dict[str, bool]:
    """Traits of attention whose projections all have biases, or none."""
    bias = fields.flag(name, default=default)
    return {"qkv_bias": bias, "o_bias": bias}


def mla(fields: Fields, **traits: Any) -> Block:
    """Multi-head latent attention (MLA)."""
    fields.require("num_attention_heads", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    if fields.flag("attention_bias"):
        raise fields.fault("attention_bias", "latent attention with biases is not supported")
    fields.pass_over("head_dim", "num_key_value_heads", "qk_head_dim")  # the last is the sum of two that are read
    return part(
        "mla",
        heads=fields.count("num_attention_heads"),
        q_rank=fields.optional("q_lora_rank"),
        kv_rank=fields.count("kv_lora_rank"),
        nope=fields.count("qk_nope_head_dim"),
        rope=fields.count("qk_rope_head_dim", least=0),
        v=fields.count("v_head_dim"),
        **traits,
    )


def dense(fields: Fields, *names: str, width: int | None = None, gated: bool = True, bias: bool = False) -> Block:
    """Dense feed-forward network; `names` are the fields that may state its width."""
    width = width or fields.count(*(names or ("intermediate_size",)))
    return {"kind": "dense", "width": width, "gated": gated} | ({"bias": True} if bias else {})


def moe(fields: Fields, *names: str, shared_width: int | None = None, gated: bool = True, **traits: Any) -> Block:
    """Mixture of experts; `names` are the fields that may state the width of one.

    Without `shared_width`, the configuration says how many shared experts of that width there are.
    """
    experts, top_k = fields.count(*_EXPERTS), fields.count(*_TOP_K)
    other = next((name for name in _EXPERTS if fields.optional(name, least=0) not in (None, experts)), None)
    if other is not None:
        raise fields.fault(other, f"contradicts the {experts} experts that another field states")
    if top_k > experts:
        name = next(name for name in _TOP_K if fields.has(name))
        raise fields.fault(name, f"top {top_k} of {experts} experts is impossible")
    width = fields.count(*(names or ("moe_intermediate_size",)))
    if shared_width is None:
        shared_width = width * fields.count(*_SHARED, default=0, least=0)
    if shared_width > BILLION:
        raise fields.fault(" or ".join(_SHARED), "implausibly wide shared experts")
    block: Block = {"kind": "moe", "experts": experts, "top_k": top_k, "width": width}
    if shared_width:
        block["shared_width"] = shared_width
    return block | {"gated": gated} | {name: value for name, value in traits.items() if value}


def is_sparse(fields: Fields, layers: int, *, dense_first: int = 0) -> list[bool]:
    """Whether each layer is a mixture of experts, from the fields that DeepSeek, GLM and Kimi share."""
    kinds = fields.choices("mlp_layer_types", {"dense", "sparse"}, layers)
    if kinds is not None:
        fields.pass_over("first_k_dense_replace", "moe_layer_freq")
        return [kind == "sparse" for kind in kinds]
    first = fields.count("first_k_dense_replace", default=dense_first, least=0)
    if isinstance(fields.values.get("moe_layer_freq"), list):
        marks = fields.counts("moe_layer_freq", layers) or []
        return [index >= first and mark > 0 for index, mark in enumerate(marks)]
    every = fields.count("moe_layer_freq", default=1)
    return [index >= first and index % every == 0 for index in range(layers)]


def networks(fields: Fields, experts: Block, sparse: Sequence[bool], **traits: Any) -> list[Block]:
    """Feed-forward network of each layer: the mixture of experts where it is sparse, else a dense FFN."""
    network = experts if all(sparse) else dense(fields, **traits)
    return [experts if is_mixture else network for is_mixture in sparse]


def windows(
    fields: Fields,
    layers: int,
    slides: Callable[[int], bool] = lambda _: True,
    *,
    default: int | None = None,
) -> list[int | None]:
    """Window of each layer [tokens]; None where a layer attends to the whole context.

    `slides` says which layers have a window where `layer_types` does not. A window as long as the longest context
    counts as none, and `use_sliding_window: false` switches it off.
    """
    kinds = fields.choices("layer_types", set(_SLIDING), layers)
    window = fields.optional("sliding_window", least=0)
    window = default if window is None else window
    longest = fields.optional("max_position_embeddings")
    if not fields.flag("use_sliding_window", default=True) or (window and longest and window >= longest):
        return [None] * layers
    if kinds is not None:
        if not window and "sliding_attention" in kinds:
            raise fields.fault("sliding_window", "missing; layer_types has sliding attention")
        return [window if _SLIDING[kind] else None for kind in kinds]
    return [(window or None) if slides(index) else None for index in range(layers)]
