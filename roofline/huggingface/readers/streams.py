"""Families of late 2026 whose residual streams are several, or gated."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.hybrids import gated_deltas
from roofline.huggingface.latents import streams
from roofline.huggingface.layers import Block, Shape, dense, drafts, gqa, is_sparse, mla, moe, part, shape, windows

__all__ = ["STREAMS"]

_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_INDEXER = ("indexer_n_heads", "indexer_head_dim", "indexer_budget", "indexer_compress_ratio")
_SPARSE = ("deepseek_sparse_attention", "indexed_attention", "full_attention")  # as published, and as saved again
_MOST_TABLES = 512  # of n-grams, each with a number of rows of its own
_WITNESSES = (2, 3, 5, 7)  # they tell primes below 3.2 billion (Pomerance, Selfridge and Wagstaff, 1980)


def _qwen4_exp(fields: Fields) -> Shape:
    """Qwen3.8-Flash-Next: delta nets, attention to the best pools of tokens, gated streams, embeddings of n-grams."""
    fields.require(*_NAMES, "num_experts", "num_experts_per_tok", "moe_intermediate_size")
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
    """Indexer that scores the mean key of a few tokens, and keeps them or drops them together."""
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
    """Tables of n-grams: one a layer, with a prime number of rows for each head of each length."""
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
    found: Block = {"rows": rows, "width": width, "lookups": heads}
    return found | ({"tables": tables} if tables > 1 else {}) | ({"conv": conv} if conv != 4 else {})


def _primes(start: int, count: int) -> list[int]:
    """So many primes from a number on."""
    found: list[int] = []
    number = start
    while len(found) < count:
        if _is_prime(number):
            found.append(number)
        number += 1
    return found


def _is_prime(number: int) -> bool:
    """Whether a number below 3.2 billion is prime, by strong probable primes to four bases."""
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
    fields.require(*_NAMES, "kv_lora_rank", "q_lora_rank", "n_routed_experts", "moe_intermediate_size")
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
    recurrent = [kind == "linear_attention" for kind in kinds] if kinds else [index % 4 != 3 for index in range(layers)]
    owns = _owners(fields, recurrent)
    indexer, followed = _kpool(fields), _kpool(fields) | {"own": False}
    latent = {True: mla(fields, indexer=indexer), False: mla(fields, indexer=followed)}
    sparse, experts = is_sparse(fields, layers, dense_first=3), moe(fields, router_bias=True)
    network = experts if all(sparse) else dense(fields)
    rows = [
        (linear if skips else latent[own], experts if mixed else network)
        for skips, own, mixed in zip(recurrent, owns, sparse, strict=True)
    ]
    several = streams(fields, "hc_mult", 4)
    several = several if fields.flag("mhc", default=True) else 1
    extras = {"stream_average": True} if several > 1 else {}
    return shape(fields, "glm", rows, streams=several, extras=extras, mtp=drafts(fields))


def _owners(fields: Fields, recurrent: list[bool]) -> list[bool]:
    """Whether each layer has an indexer of its own; the first that attends cannot follow another."""
    kinds = fields.choices("indexer_types", {"full", "shared"}, len(recurrent)) or ["full"] * len(recurrent)
    owns = [kind == "full" for kind in kinds]
    first = next((own for skips, own in zip(recurrent, owns, strict=True) if not skips), True)
    if not first:
        raise fields.fault("indexer_types", "the first layer that attends cannot share an earlier layer's choice")
    return owns


def _kpool(fields: Fields) -> Block:
    ratio, kept = fields.count("index_kpool", default=16), fields.count("index_topk")
    fields.divided("index_kpool", kept, ratio)
    indexer: Block = {"heads": fields.count("index_n_heads"), "dim": fields.count("index_head_dim"), "top_k": kept}
    if fields.flag("index_kpool_compress", default=True):  # its class has the gate even where it pools nothing
        indexer["learned_pool"] = True
    return indexer | ({"block": ratio, "ratio": ratio} if ratio > 1 else {})


def _muse_spark(fields: Fields) -> Shape:
    """Muse-Spark: gated attention, three layers of four slide, experts in a latent, gates on the residual."""
    fields.require(*_NAMES, "num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "moe_hidden_size")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    sliding = windows(fields, layers, lambda index: (layers - 1 - index) % 4 != 0, default=2048)
    mixers = {window: gqa(fields, window=window, qkv_bias=bias, o_bias=bias, out_gate=True) for window in sliding}
    experts = moe(fields, router_bias=True, latent=fields.count("moe_hidden_size"), latent_norms=2)
    kinds = fields.choices("mlp_layer_types", {"dense", "sparse"}, layers) or ["sparse"] * layers
    ffns = {"sparse": experts, "dense": dense(fields) if "dense" in kinds else experts}
    rows = [(mixers[window], ffns[kind]) for window, kind in zip(sliding, kinds, strict=True)]
    return shape(fields, "muse", rows, norms=5)  # three norms with weights, and a gate a half


STREAMS: Mapping[str, Callable[[Fields], Shape]] = {
    "glm5_next_text": _glm5_next,
    "muse_spark_text": _muse_spark,
    "qwen3_8_flash_next_text": _qwen4_exp,
    "qwen4_exp_text": _qwen4_exp,
}
