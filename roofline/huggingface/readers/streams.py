"""Families of late 2026 with several residual streams, or gated ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.hybrids import gated_deltas
from roofline.huggingface.latents import streams
from roofline.huggingface.layers import (
    SIZES,
    Block,
    Shape,
    attention_biases,
    drafts,
    gqa_by_window,
    is_sparse,
    mla,
    moe,
    networks,
    part,
    shape,
    windows,
)

_INDEXER = ("indexer_n_heads", "indexer_head_dim", "indexer_budget", "indexer_compress_ratio")
_SPARSE = ("deepseek_sparse_attention", "indexed_attention", "full_attention")  # as published, and as saved again
_MOST_TABLES = 512  # of n-grams
_WITNESSES = (2, 3, 5, 7)  # enough to prove primes below 3.2 billion (Pomerance, Selfridge and Wagstaff, 1980)


def _qwen4_exp(fields: Fields) -> Shape:
    """Qwen3.8-Flash-Next: delta nets, attention to the best pools of tokens, gated streams, n-gram embeddings."""
    fields.require(*SIZES, "num_experts", "num_experts_per_tok", "moe_intermediate_size")
    count, ngrams = fields.count("hc_count", default=4, least=2), _ngrams(fields)
    return gated_deltas(
        fields,
        "qwen3.8",
        drafts(fields),
        _pooled_indexer(fields),
        streams=streams(fields, "hc_count", count),
        extras={"stream_rank": fields.count("hc_lowrank", default=320)}
        | ({} if ngrams is None else {"ngrams": ngrams}),
    )


def _pooled_indexer(fields: Fields) -> Block | None:
    """Indexer that scores the mean key of a pool of tokens; None where the model has none."""
    if not fields.has(*_INDEXER):
        return None
    fields.require(*_INDEXER)
    if fields.count("indexer_kv_heads", default=1) != 1:
        raise fields.fault("indexer_kv_heads", "only one head of index keys is supported")
    ratio, budget = fields.count("indexer_compress_ratio"), fields.count("indexer_budget")
    fields.divided("indexer_compress_ratio", budget, ratio)
    heads, dim = fields.count("indexer_n_heads"), fields.count("indexer_head_dim")
    return {"heads": heads, "dim": dim, "top_k": budget, "block": ratio, "ratio": ratio}


def _ngrams(fields: Fields) -> Block | None:
    """Tables of n-grams: one per listed layer, with a prime number of rows for each head of each n."""
    tables = len(set(fields.counts("ple_layer_ids", least=1) or ()))
    if not tables:
        return None
    base = fields.count("ngram_vocab_size_base", default=20_000_000)
    heads = (fields.count("ngram_size", default=3, least=2) - 1) * fields.count("heads_per_ngram", default=8)
    if heads * tables > _MOST_TABLES:
        raise fields.fault("heads_per_ngram", f"{heads * tables} tables exceed the limit of {_MOST_TABLES}")
    multiple = fields.count("make_ngram_vocab_size_divisible_by", default=128)
    width = fields.divided("ple_embed_dim", fields.count("ple_embed_dim", "hidden_size"), heads)
    primes = _primes(base, heads * tables)
    rows = sum(-(-sum(primes[table * heads : (table + 1) * heads]) // multiple) * multiple for table in range(tables))
    if rows > LARGEST:
        raise fields.fault("ngram_vocab_size_base", f"{rows} rows of n-grams exceed the limit of {LARGEST}")
    conv = fields.count("ple_conv_kernel_size", default=4)
    ngrams: Block = {"rows": rows, "width": width, "lookups": heads}
    return ngrams | ({"tables": tables} if tables > 1 else {}) | ({"conv": conv} if conv != 4 else {})


def _primes(start: int, count: int) -> list[int]:
    """The first `count` primes from `start` on."""
    return list(itertools.islice(filter(_is_prime, itertools.count(start)), count))


def _is_prime(number: int) -> bool:
    """Whether a number below 3.2 billion is prime: a strong probable prime to four bases."""
    if number < 2:
        return False
    if number in _WITNESSES or any(number % witness == 0 for witness in _WITNESSES):
        return number in _WITNESSES
    twos = ((number - 1) & -(number - 1)).bit_length() - 1
    odd = (number - 1) >> twos
    for witness in _WITNESSES:
        powers = [pow(witness, odd << shift, number) for shift in range(twos)]
        if powers[0] != 1 and number - 1 not in powers:
            return False
    return True


def _glm5_next(fields: Fields) -> Shape:
    """GLM-5.3-Flash: delta attention, latent attention to the best pools of tokens, averaged residual streams."""
    fields.require(*SIZES, "kv_lora_rank", "q_lora_rank", "n_routed_experts", "moe_intermediate_size")
    fields.require("index_n_heads", "index_head_dim", "index_topk")
    layers = fields.layers()
    config = fields.section("linear_attn_config") or Fields({}, fields.where, "linear_attn_config.")
    linear = part(
        "kda",
        heads=config.count("num_heads", default=fields.count("linear_num_heads", default=64)),
        dim=config.count("head_dim", default=fields.count("linear_head_dim", default=128)),
        conv=config.count("short_conv_kernel_size", default=fields.count("linear_conv_kernel_dim", default=4)),
    )
    kinds = fields.choices("layer_types", {"linear_attention", *_SPARSE}, layers)
    is_linear = [kind == "linear_attention" for kind in kinds] if kinds else [index % 4 != 3 for index in range(layers)]
    has_indexer = _indexer_owners(fields, is_linear)
    indexer = _indexer(fields)
    owner, follower = mla(fields, indexer=indexer), mla(fields, indexer=indexer | {"own": False})
    sparse, experts = is_sparse(fields, layers, dense_first=3), moe(fields, router_bias=True)
    mixers = [
        linear if skips else owner if owns else follower for skips, owns in zip(is_linear, has_indexer, strict=True)
    ]
    layer_blocks = list(zip(mixers, networks(fields, experts, sparse), strict=True))
    number = streams(fields, "hc_mult", 4)
    number = number if fields.flag("mhc", default=True) else 1
    extras = {"stream_average": True} if number > 1 else {}
    return shape(fields, "glm", layer_blocks, streams=number, extras=extras, mtp=drafts(fields))


def _indexer_owners(fields: Fields, is_linear: list[bool]) -> list[bool]:
    """Whether each layer has its own indexer; the first layer with attention must."""
    kinds = fields.choices("indexer_types", {"full", "shared"}, len(is_linear)) or ["full"] * len(is_linear)
    if next((kind for skips, kind in zip(is_linear, kinds, strict=True) if not skips), "full") != "full":
        raise fields.fault("indexer_types", "the first layer that attends cannot share an earlier layer's choice")
    return [kind == "full" for kind in kinds]


def _indexer(fields: Fields) -> Block:
    ratio, top_k = fields.count("index_kpool", default=16), fields.count("index_topk")
    fields.divided("index_kpool", top_k, ratio)
    indexer: Block = {"heads": fields.count("index_n_heads"), "dim": fields.count("index_head_dim"), "top_k": top_k}
    if fields.flag("index_kpool_compress", default=True):  # transformers has this gate even where pools are one token
        indexer["learned_pool"] = True
    return indexer | ({"block": ratio, "ratio": ratio} if ratio > 1 else {})


def _muse_spark(fields: Fields) -> Shape:
    """Muse-Spark: gated attention, a window on three layers in four, experts in a latent, gated residual."""
    fields.require(*SIZES, "num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "moe_hidden_size")
    layers, biases = fields.layers(), attention_biases(fields)
    layer_windows = windows(fields, layers, lambda index: (layers - 1 - index) % 4 != 0, default=2048)
    mixers = gqa_by_window(fields, layer_windows, **biases, out_gate=True)
    experts = moe(fields, router_bias=True, latent=fields.count("moe_hidden_size"), latent_norms=2)
    kinds = fields.choices("mlp_layer_types", {"dense", "sparse"}, layers) or ["sparse"] * layers
    ffns = networks(fields, experts, [kind == "sparse" for kind in kinds])
    layer_blocks = list(zip(mixers, ffns, strict=True))
    return shape(fields, "muse", layer_blocks, norms=5)  # three norms with weights, and a gate per half


STREAMS: Mapping[str, Callable[[Fields], Shape]] = {
    "glm5_next_text": _glm5_next,
    "muse_spark_text": _muse_spark,
    "qwen3_8_flash_next_text": _qwen4_exp,
    "qwen4_exp_text": _qwen4_exp,
}
