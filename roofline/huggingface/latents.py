"""Families that cache a latent of keys and values, plain or compressed: DeepSeek, Kimi-K2, GLM."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roofline.huggingface.fields import Fields
from roofline.huggingface.layers import SIZES, Block, Shape, drafts, gqa, is_sparse, mla, moe, networks, part, shape

_MOST_STREAMS = 64
_UNBIASED = ("deepseek_v2", "mistral4")  # softmax routers without a bias


def _with_experts(fields: Fields, family: str, mixers: list[Block], *, router_bias: bool) -> Shape:
    """Dense layers first, `intermediate_size` wide, then experts, `moe_intermediate_size` wide."""
    if fields.flag("mlp_bias"):
        raise fields.fault("mlp_bias", "experts with biases are not supported for this family")
    sparse = is_sparse(fields, len(mixers))
    experts = moe(fields, router_bias=router_bias) if any(sparse) else part("none")
    ffns = networks(fields, experts, sparse)
    return shape(fields, family, list(zip(mixers, ffns, strict=True)), mtp=drafts(fields))


def _deepseek(fields: Fields) -> Shape:
    """DeepSeek-V2 and V3, Kimi-K2, Mistral 4; routers trained without an auxiliary loss (noaux_tc) have a bias."""
    fields.require(*SIZES, "kv_lora_rank", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
    unbiased = fields.text("model_type") in _UNBIASED
    method = fields.text("topk_method") or ("greedy" if unbiased else "noaux_tc")
    mixers = [mla(fields)] * fields.layers()
    return _with_experts(fields, _latent_family(fields), mixers, router_bias=method == "noaux_tc")


def _sparse_deepseek(fields: Fields) -> Shape:
    """DeepSeek-V3.2 and GLM-5: an indexer picks the tokens to attend to; layers of GLM-5.2 may share its pick."""
    fields.require(*SIZES, "kv_lora_rank", "q_lora_rank", "n_routed_experts", "moe_intermediate_size")
    fields.require("index_n_heads", "index_head_dim", "index_topk")
    fields.pass_over("mlp_bias")  # FFNs have no biases, whatever the field says
    layers = fields.layers()
    indexer = _indexer(fields)
    kinds = fields.choices("indexer_types", {"full", "shared"}, layers) or ["full"] * layers
    if kinds[0] == "shared":
        raise fields.fault("indexer_types", "the first layer cannot share an earlier layer's choice")
    mixer = {"full": mla(fields, indexer=indexer), "shared": mla(fields, indexer=indexer | {"own": False})}
    return _with_experts(fields, _latent_family(fields), [mixer[kind] for kind in kinds], router_bias=True)


def _latent_family(fields: Fields) -> str:
    model_type = fields.text("model_type") or ""
    return next((name for name in ("kimi", "glm", "mistral") if model_type.startswith(name)), "deepseek")


def _deepseek_v4(fields: Fields) -> Shape:
    """DeepSeek-V4: a window of shared keys and values, and cache entries of 4 tokens (indexed) or 128 (all read)."""
    fields.require(*SIZES, "head_dim", "q_lora_rank", "o_lora_rank", "o_groups", "sliding_window")
    fields.require("compress_ratios|layer_types", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
    layers = fields.layers()
    ratios = _ratios(fields, layers)
    mixers = {ratio: _compressed(fields, ratio) for ratio in dict.fromkeys(ratios)}
    hash_routed, routed = (moe(fields, router_bias=is_biased) for is_biased in (False, True))
    by_hash = _routed_by_hash(fields, layers)
    return shape(
        fields,
        "deepseek",
        [
            (mixers[ratio], hash_routed if is_hashed else routed)
            for ratio, is_hashed in zip(ratios, by_hash, strict=True)
        ],
        streams=streams(fields, "hc_mult"),
        mtp=drafts(fields),
    )


def _ratios(fields: Fields, layers: int) -> list[int]:
    """Tokens per cache entry of each layer; transformers states a kind per layer instead."""
    ratios = fields.counts("compress_ratios")
    if ratios is None:
        rates = fields.section("compress_rates") or Fields({}, fields.where)
        ratio_of = {kind: rates.count(kind, default=default) for kind, default in _RATES.items()} | {
            "sliding_attention": 0
        }
        ratios = [ratio_of[kind] for kind in fields.choices("layer_types", ratio_of) or ()]
        if len(ratios) < layers:
            raise fields.fault("layer_types", f"has {len(ratios)} entries for {layers} layers")
    if len(ratios) < layers:  # further entries belong to the draft modules
        raise fields.fault("compress_ratios", f"has {len(ratios)} entries for {layers} layers")
    return ratios[:layers]


def _routed_by_hash(fields: Fields, layers: int) -> list[bool]:
    """Whether the experts of each layer are chosen by a hash of the token; such routers have no bias."""
    kinds = fields.choices("mlp_layer_types", {"hash_moe", "moe"}, layers)
    if kinds is not None:
        return [kind == "hash_moe" for kind in kinds]
    first = fields.count("num_hash_layers", default=0, least=0)
    return [index < first for index in range(layers)]


_RATES = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
_INDEXED_RATIO = 4  # tokens per cache entry at which DeepSeek-V4 has an indexer


def _indexer(fields: Fields) -> Block:
    return {
        "heads": fields.count("index_n_heads"),
        "dim": fields.count("index_head_dim"),
        "top_k": fields.count("index_topk"),
    }


def _compressed(fields: Fields, ratio: int) -> Block:
    heads, groups = fields.count("num_attention_heads"), fields.count("o_groups")
    fields.divided("o_groups", heads, groups)
    fields.pass_over("num_key_value_heads", "qk_rope_head_dim", "attention_bias")
    indexer = None
    if ratio == _INDEXED_RATIO:
        fields.require("index_n_heads", "index_head_dim", "index_topk")
        indexer = _indexer(fields)
    return part(
        "csa",
        heads=heads,
        head_dim=fields.count("head_dim"),
        q_rank=fields.count("q_lora_rank"),
        o_rank=fields.count("o_lora_rank"),
        o_groups=groups,
        window=fields.count("sliding_window"),
        ratio=ratio or None,
        indexer=indexer,
    )


def streams(fields: Fields, name: str, default: int = 1) -> int:
    """Number of residual streams that hyper-connections mix."""
    number = fields.count(name, default=default)
    if number > _MOST_STREAMS:
        raise fields.fault(name, f"{number} residual streams exceed the limit of {_MOST_STREAMS}")
    return number


def _glm_moe(fields: Fields) -> Shape:
    fields.require(*SIZES, "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok")
    qk_norm = "head" if fields.flag("use_qk_norm") else None
    mixers = [gqa(fields, qkv_bias=fields.flag("attention_bias"), qk_norm=qk_norm)] * fields.layers()
    return _with_experts(fields, "glm", mixers, router_bias=True)


LATENTS: Mapping[str, Callable[[Fields], Shape]] = {
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "deepseek_v32": _sparse_deepseek,
    "deepseek_v4": _deepseek_v4,
    "glm4_moe": _glm_moe,
    "glm4_moe_lite": _deepseek,
    "glm4v_moe_text": _glm_moe,
    "glm_moe_dsa": _sparse_deepseek,
    "kimi_k2": _deepseek,
    "mistral4": _deepseek,
}
