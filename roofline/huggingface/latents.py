"""Families whose keys and values are kept as a latent, plain or compressed: DeepSeek, Kimi-K2, GLM."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roofline.huggingface.fields import Fields
from roofline.huggingface.layers import Block, Shape, dense, drafts, gqa, is_sparse, mla, moe, part, shape

__all__ = ["LATENTS"]

_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def _with_experts(fields: Fields, family: str, mixers: list[Block], *, router_bias: bool) -> Shape:
    """The first layers are dense and `intermediate_size` wide, the experts of the others `moe_intermediate_size`."""
    layers = len(mixers)
    sparse = is_sparse(fields, layers)
    experts = moe(fields, router_bias=router_bias) if any(sparse) else part("none")
    network = experts if all(sparse) else dense(fields)
    ffns = [experts if mixed else network for mixed in sparse]
    return shape(fields, family, list(zip(mixers, ffns, strict=True)), mtp=drafts(fields))


def _deepseek(fields: Fields) -> Shape:
    """DeepSeek-V2 and V3, and Kimi-K2; a bias a router where experts are chosen without an auxiliary loss."""
    fields.require(*_NAMES, "kv_lora_rank", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
    second = fields.text("model_type") == "deepseek_v2"
    method = fields.text("topk_method") or ("greedy" if second else "noaux_tc")
    mixers = [mla(fields)] * fields.layers()
    return _with_experts(fields, _latent_family(fields), mixers, router_bias=method == "noaux_tc")


def _sparse_deepseek(fields: Fields) -> Shape:
    """DeepSeek-V3.2 and GLM-5: an indexer chooses the tokens that are attended to; GLM-5.2 shares its choice."""
    fields.require(*_NAMES, "kv_lora_rank", "q_lora_rank", "n_routed_experts", "moe_intermediate_size")
    fields.require("index_n_heads", "index_head_dim", "index_topk")
    layers = fields.layers()
    indexer = {
        "heads": fields.count("index_n_heads"),
        "dim": fields.count("index_head_dim"),
        "top_k": fields.count("index_topk"),
    }
    kinds = fields.choices("indexer_types", {"full", "shared"}, layers) or ["full"] * layers
    if kinds[0] == "shared":
        raise fields.fault("indexer_types", "the first layer cannot share an earlier layer's choice")
    mixer = {"full": mla(fields, indexer=indexer), "shared": mla(fields, indexer=indexer | {"own": False})}
    return _with_experts(fields, _latent_family(fields), [mixer[kind] for kind in kinds], router_bias=True)


def _latent_family(fields: Fields) -> str:
    model_type = fields.text("model_type") or ""
    return next((name for name in ("kimi", "glm") if model_type.startswith(name)), "deepseek")


def _deepseek_v4(fields: Fields) -> Shape:
    """DeepSeek-V4: a window of shared key-values, and entries compressed by 4 (indexed) or 128 (all read)."""
    fields.require(*_NAMES, "head_dim", "q_lora_rank", "o_lora_rank", "o_groups", "sliding_window", "compress_ratios")
    fields.require("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
    layers = fields.layers()
    ratios = fields.counts("compress_ratios") or []
    if len(ratios) < layers:  # those beyond belong to the draft modules
        raise fields.fault("compress_ratios", f"has {len(ratios)} entries for {layers} layers")
    hashed = fields.count("num_hash_layers", default=0, least=0)
    mixers = {ratio: _compressed(fields, ratio) for ratio in dict.fromkeys(ratios[:layers])}
    routed = {biased: moe(fields, router_bias=biased) for biased in (False, True)}
    return shape(
        fields,
        "deepseek",
        [(mixers[ratio], routed[index >= hashed]) for index, ratio in enumerate(ratios[:layers])],
        streams=_streams(fields),
        mtp=drafts(fields),
    )


_INDEXED_RATIO = 4  # DeepSeek-V4 has an indexer where one entry stands for so many tokens


def _compressed(fields: Fields, ratio: int) -> Block:
    heads, groups = fields.count("num_attention_heads"), fields.count("o_groups")
    fields.divided("o_groups", heads, groups)
    indexer = None
    if ratio == _INDEXED_RATIO:
        fields.require("index_n_heads", "index_head_dim", "index_topk")
        indexer = {
            "heads": fields.count("index_n_heads"),
            "dim": fields.count("index_head_dim"),
            "top_k": fields.count("index_topk"),
        }
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


def _streams(fields: Fields) -> int:
    streams = fields.count("hc_mult", default=1)
    if streams > 64:
        raise fields.fault("hc_mult", f"{streams} residual streams exceed the limit of 64")
    return streams


def _glm_moe(fields: Fields) -> Shape:
    fields.require(*_NAMES, "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok")
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
}
