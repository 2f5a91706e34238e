"""Readers of models with latent attention, streams or layers of their own."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from roofline.catalog.huggingface.blocks import (
    LARGEST,
    SIZES,
    Block,
    Family,
    Fields,
    LayerList,
    Shape,
    attention_biases,
    dense,
    drafts,
    gqa,
    gqa_by_window,
    is_sparse,
    mla,
    moe,
    networks,
    part,
    shape,
    uniform,
    windows,
)
from roofline.catalog.huggingface.hybrids import gated_deltas

# Families that cache a latent of keys and values, plain or compressed: DeepSeek, Kimi-K2, GLM.

_MOST_STREAMS = 64
_UNBIASED = ("deepseek_v2", "mistral4")  # softmax routers without a bias


def _with_experts(fields: Fields, family: str, mixers: list[Block], *, router_bias: bool) -> Shape:
    """Dense layers first, `intermediate_size` wide, then experts, `moe_intermediate_size` wide."""
    fields.refuse("mlp_bias", "experts with biases are not supported for this family")
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


# Families of late 2026 with several residual streams, or gated ones.

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
    indexer = _streams_indexer(fields)
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


def _streams_indexer(fields: Fields) -> Block:
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
    ffn = dense(
        fields, width=fields.optional("ffn_hidden_size", "intermediate_size") or 4 * hidden, gated=False, bias=bias
    )
    mixer = gqa(fields, kv_heads=kv_heads, qkv_bias=bias, o_bias=bias)
    return shape(
        fields,
        "falcon",
        uniform(fields.layers(), mixer, ffn),
        tied=True,
        norms=min(norms, 16),
        norm_bias=True,
        parallel=parallel,
    )


def _mpt(fields: Fields) -> Shape:
    fields.require("d_model", "n_heads", "n_layers", "vocab_size")
    hidden, heads = fields.count("d_model"), fields.count("n_heads")
    bias = not fields.flag("no_bias", default=True)
    attention, network = fields.section("attn_config"), fields.section("ffn_config")
    kv_heads = attention.optional("kv_n_heads") if attention else None
    if attention and attention.flag("qk_ln"):
        raise fields.fault("attn_config.qk_ln", "query and key norms are not supported for this family")
    if network and network.text("ffn_type") not in (None, "mptmlp"):
        raise fields.fault("ffn_config.ffn_type", "only mptmlp is supported")
    width = network.optional("ffn_hidden_size") if network else None
    head_dim = fields.divided("n_heads", hidden, heads)
    mixer = gqa(fields, heads=heads, kv_heads=kv_heads or heads, head_dim=head_dim, qkv_bias=bias, o_bias=bias)
    ffn = dense(fields, width=width or hidden * fields.count("expansion_ratio", default=4), gated=False, bias=bias)
    if ffn["width"] > LARGEST:
        raise fields.fault("expansion_ratio", "implausibly wide feed-forward network")
    return Shape(
        "mpt",
        hidden,
        fields.count("vocab_size"),
        fields.flag("tie_word_embeddings", default=True),
        uniform(fields.layers("n_layers"), mixer, ffn),
        norm_bias=bias,
    )


def _palm(fields: Fields) -> Shape:
    fields.require("d_model", "n_heads", "n_layers", "head_dim", "ffn", "vocab_size")
    heads = fields.count("n_heads")
    kv_heads = 1 if fields.flag("multi_query", default=True) else heads
    ffn = dense(fields, "ffn", gated=fields.flag("swiglu", default=True))
    return Shape(
        "palm",
        fields.count("d_model"),
        fields.count("vocab_size"),
        fields.flag("tie_word_embeddings", default=True),
        uniform(fields.layers("n_layers"), gqa(fields, heads=heads, kv_heads=kv_heads), ffn),
        norms=1 if fields.flag("parallel", default=True) else 2,
        parallel=fields.flag("parallel", default=True),
    )


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


def _puzzle_mixer(fields: Fields, attention: Fields) -> Block:
    for name in ("window_length", "num_sink_tokens", "sparsify", "llama4", "mamba"):
        if attention.has(name):
            raise attention.fault(name, "not supported")
    if attention.flag("no_op"):
        return part("none")
    if attention.flag("replace_with_linear"):
        return part("linear")
    heads = fields.count("num_attention_heads")
    group = attention.count("n_heads_in_group")
    biases = attention_biases(fields)
    return gqa(fields, kv_heads=attention.divided("n_heads_in_group", heads, group), **biases)


def _puzzle_ffn(fields: Fields, network: Fields) -> Block:
    for name in ("moe", "sparsify"):
        if network.has(name):
            raise network.fault(name, "not supported")
    if network.flag("no_op"):
        return part("none")
    if network.flag("replace_with_linear"):
        return part("linear")
    bias = fields.flag("mlp_bias")
    if network.has("intermediate_size"):
        return dense(network, bias=bias)
    if not network.has("ffn_mult"):
        raise network.fault("ffn_mult", "missing")
    width = int(2 * network.number("ffn_mult", 1.0) * fields.count("hidden_size") / 3)
    width = max(1, -(-width // _PUZZLE_MULTIPLE)) * _PUZZLE_MULTIPLE
    if width > LARGEST:
        raise network.fault("ffn_mult", "implausibly wide feed-forward network")
    return dense(network, width=width, bias=bias)


LATENTS: Mapping[str, Family] = {
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "mistral4"), _deepseek),
    "deepseek_v32": _sparse_deepseek,
    "glm_moe_dsa": _sparse_deepseek,
    "deepseek_v4": _deepseek_v4,
    "falcon": _falcon,
    "glm4_moe": _glm_moe,
    "glm4v_moe_text": _glm_moe,
    "glm5_next_text": _glm5_next,
    "mpt": _mpt,
    "muse_spark_text": _muse_spark,
    "nemotron-nas": _puzzle,
    "palm": _palm,
    "qwen3_8_flash_next_text": _qwen4_exp,
    "qwen4_exp_text": _qwen4_exp,
}
