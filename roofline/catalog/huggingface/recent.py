"""Families of late 2026: lookup memories, caches that layers share, pre-selected candidates, relative attention."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.catalog.huggingface.blocks import (
    LARGEST,
    SIZES,
    Block,
    Family,
    Fields,
    LayerList,
    Shape,
    dense,
    gqa,
    is_sparse,
    mla,
    moe,
    networks,
    part,
    shape,
    uniform,
)

_MOST_STREAMS = 64
_MOST_ROWS = 10 * LARGEST  # of all tables of n-grams
_HYBRID = {"hybrid": False, "hybrid_sliding": True}  # kinds of Inkling's layers: whether they have a window
_DEFAULT_SPARSE = {"kernel_stride": 16, "block_size": 64, "window_size": 2048, "topk": 64, "dense_len": 8192}


# DeepSeek-V4.1: n-gram memories, entries of four layers that all share, candidates of one indexer for those after it.


def _deepseek_v41(fields: Fields) -> Shape:
    """DeepSeek-V4.1-Flash: a causal encoder, and a decoder that reads its entries and skips all but a prompt's end."""
    fields.require(*SIZES, "head_dim", "q_lora_rank", "o_lora_rank", "o_groups", "sliding_window", "compress_ratios")
    fields.require("kv_source_layer_ids", "index_source_layer_ids", "index_n_heads", "index_head_dim", "index_topk")
    fields.require("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
    layers = fields.layers()
    ratios, owners = _ratios(fields, layers), _sources(fields, "kv_source_layer_ids", layers)
    scorers = _sources(fields, "index_source_layer_ids", layers)
    publisher, candidates = _candidates(fields)
    first_late = max(owners, default=layers) + 1
    last = fields.count("sliding_window")
    layer_blocks: LayerList = []
    for index, ratio in enumerate(ratios):
        is_late = index >= first_late
        indexer = _indexer(fields, index in scorers, candidates if publisher is not None and index > publisher else 0)
        mixer = _compressed(
            fields,
            ratio=ratio or None,
            kv_shared=bool(ratio) and index not in owners,
            indexer=indexer if ratio else None,
            last=last if is_late else None,
            packed=bool(ratio),
        )
        ffn = moe(fields, router_bias=True, last=last if is_late else 0)
        layer_blocks.append((mixer, ffn))
    _check_sharing(fields, ratios, owners, scorers)
    number = fields.limited("hc_mult", fields.count("hc_mult", default=1), _MOST_STREAMS, "residual streams")
    ngrams = _engram(fields, layers)
    fields.pass_over("num_nextn_predict_layers")  # blocks of DSpark, which have experts of their own
    extras = {} if ngrams is None else {"ngrams": ngrams}
    return shape(fields, "deepseek", layer_blocks, streams=number, extras=extras)


def _ratios(fields: Fields, layers: int) -> list[int]:
    """Tokens per entry that each layer reads; further entries belong to the draft modules."""
    ratios = fields.counts("compress_ratios") or []
    if len(ratios) < layers:
        raise fields.fault("compress_ratios", f"has {len(ratios)} entries for {layers} layers")
    return ratios[:layers]


def _sources(fields: Fields, name: str, layers: int) -> list[int]:
    """Layers that compute what later ones read."""
    sources = sorted(set(fields.counts(name) or ()))
    odd = next((source for source in sources if source >= layers), None)
    if odd is not None:
        raise fields.fault(name, f"there is no layer {odd}; the model has {layers}")
    return sources


def _check_sharing(fields: Fields, ratios: list[int], owners: list[int], scorers: list[int]) -> None:
    """Refuse a layer that reads entries or choices that no earlier layer has."""
    for name, sources in (("kv_source_layer_ids", owners), ("index_source_layer_ids", scorers)):
        if any(not ratios[source] for source in sources):
            raise fields.fault(name, "a layer without compressed entries cannot be their source")
        first = next((index for index, ratio in enumerate(ratios) if ratio), None)
        if first is not None and (not sources or sources[0] > first):
            raise fields.fault(name, f"layer {first} reads what no layer before it computes")
    for index, ratio in enumerate(ratios):
        owner = max((source for source in owners if source <= index), default=None)
        if ratio and owner is not None and ratios[owner] != ratio:
            raise fields.fault("compress_ratios", f"layer {index} reads entries of {ratios[owner]} tokens, not {ratio}")
    if not set(owners) <= set(scorers):
        raise fields.fault("kv_source_layer_ids", "each of these layers needs an indexer; see index_source_layer_ids")


def _candidates(fields: Fields) -> tuple[int | None, int]:
    """The layer whose indexer publishes blocks, and the entries in them; None without such a layer."""
    layer = fields.values.get("candidate_source_layer_id")
    if not isinstance(layer, int) or isinstance(layer, bool) or layer < 0:
        return None, 0
    blocks = fields.count("candidate_topk_blocks") * fields.count("candidate_block_size", default=1)
    return layer, fields.limited("candidate_topk_blocks", blocks, LARGEST, "candidates")


def _indexer(fields: Fields, is_own: bool, candidates: int) -> Block:
    indexer: Block = {
        "heads": fields.count("index_n_heads"),
        "dim": fields.count("index_head_dim"),
        "top_k": fields.count("index_topk"),
    }
    if not is_own:
        return indexer | {"own": False}
    return indexer | ({"candidates": candidates} if candidates else {})


def _compressed(fields: Fields, **traits: object) -> Block:
    heads, groups = fields.count("num_attention_heads"), fields.count("o_groups")
    fields.divided("o_groups", heads, groups)
    fields.pass_over("num_key_value_heads", "qk_rope_head_dim", "attention_bias")
    return part(
        "csa2",
        heads=heads,
        head_dim=fields.count("head_dim"),
        q_rank=fields.count("q_lora_rank"),
        o_rank=fields.count("o_lora_rank"),
        o_groups=groups,
        window=fields.count("sliding_window"),
        **traits,
    )


def _engram(fields: Fields, layers: int) -> Block | None:
    """Tables of n-grams, one for each listed layer, with some rows for each head of each n."""
    placed = _sources(fields, "engram_layer_ids", layers)
    if not placed:
        return None
    rows = fields.counts("engram_num_embeddings", len(placed), least=1)
    if rows is None:
        raise fields.fault("engram_num_embeddings", "missing; needed for the tables of engram_layer_ids")
    total = fields.limited("engram_num_embeddings", sum(rows), _MOST_ROWS, "rows of n-grams")
    lookups = (fields.count("engram_max_ngram_size", least=2) - 1) * fields.count("engram_n_heads")
    ngrams: Block = {"rows": total, "width": fields.count("engram_head_dim"), "lookups": lookups, "conv": 0, "norms": 2}
    return ngrams | {"packed": True} | ({"tables": len(placed)} if len(placed) > 1 else {})


# Inkling: relative attention, short convolutions, shared experts that the router weighs.


def _inkling(fields: Fields) -> Shape:
    """Inkling: biases that each token mixes from profiles of distances, windows of their own numbers of heads."""
    fields.require(*SIZES, "head_dim", "d_rel", "rel_extent", "moe_intermediate_size|intermediate_size")
    fields.require("n_routed_experts", "num_experts_per_tok")
    layers, hidden = fields.layers(), fields.count("hidden_size")
    slides = _windowed(fields, layers)
    window = fields.count("sliding_window_size", "sliding_window", default=512)
    conv = fields.count("sconv_kernel_size", "conv_kernel_size", default=4)
    rank = fields.count("d_rel")
    traits: Block = {"rank": rank, "qk_norm": "head", "conv": conv, "conv_out": 2 * hidden} if conv > 1 else {
        "rank": rank, "qk_norm": "head",
    }  # fmt: skip
    wide = gqa(fields) | {"kind": "relative", "extent": fields.count("rel_extent"), **traits}
    narrow = gqa(
        fields,
        heads=fields.count("swa_num_attention_heads", "num_attention_heads"),
        kv_heads=fields.count("swa_num_key_value_heads", "num_key_value_heads"),
        head_dim=fields.count("swa_head_dim", "head_dim"),
    ) | {"kind": "relative", "extent": window, "window": window, **traits}
    mixers = [narrow if slide else wide for slide in slides]
    sparse = _inkling_sparse(fields, layers)
    is_split = fields.has("dense_intermediate_size")  # then intermediate_size is the experts' width
    names = "intermediate_size" if is_split else "moe_intermediate_size"
    fields.pass_over("moe_intermediate_size", "intermediate_size")
    scores = (
        fields.count("n_shared_experts", default=0, least=0) if fields.flag("shared_expert_sink", default=True) else 0
    )
    experts = moe(fields, names, router_bias=True, shared_scores=scores)
    width = None if all(sparse) else fields.count("dense_intermediate_size" if is_split else "intermediate_size")
    ffns = networks(fields, experts, sparse, width=width)
    fields.pass_over("num_mtp_layers", "unpadded_vocab_size")  # drafts are dense layers, unlike the model's last
    return shape(fields, "inkling", list(zip(mixers, ffns, strict=True)), extras={"final_norms": 2})


def _windowed(fields: Fields, layers: int) -> list[bool]:
    """Whether each layer has a window: as listed, or five of six."""
    kinds = fields.choices("layer_types", _HYBRID, layers)
    if kinds is not None:
        fields.pass_over("local_layer_ids")
        return [_HYBRID[kind] for kind in kinds]
    local = fields.counts("local_layer_ids")
    if local is None:
        return [(index + 1) % 6 != 0 for index in range(layers)]
    return [index in set(local) for index in range(layers)]


def _inkling_sparse(fields: Fields, layers: int) -> list[bool]:
    """Whether each layer is a mixture of experts; without a list, all from some layer on."""
    if fields.has("mlp_layer_types"):
        fields.pass_over("dense_mlp_idx")
        return is_sparse(fields, layers)
    first = fields.count("dense_mlp_idx", default=0, least=0)
    return [index >= first for index in range(layers)]


# Mistral Large 4: latents that layers share, an indexer without a query latent.


def _mistral_large4(fields: Fields) -> Shape:
    """Mistral Large 4: each layer attends to the latents of its source; every fourth has no rotary positions."""
    fields.require(*SIZES, "kv_lora_rank", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
    fields.require("index_n_heads", "index_head_dim", "index_topk")
    layers = fields.layers()
    sources = fields.counts("kv_source_layers", layers) or list(range(layers))
    for index, source in enumerate(sources):
        if source > index or sources[source] != source:
            raise fields.fault("kv_source_layers", f"layer {index} must share with an earlier layer that has its own")
    rotates = [mark > 0 for mark in (fields.counts("no_rope_layers") or [int((i + 1) % 4 != 0) for i in range(layers)])]
    if len(rotates) < layers:
        raise fields.fault("no_rope_layers", f"has {len(rotates)} entries for {layers} layers")
    kinds = fields.choices("indexer_types", {"full", "shared"}, layers) or _index_kinds(fields, layers)
    if kinds[0] != "full":
        raise fields.fault("indexer_types", "the first layer cannot share an earlier layer's choice")
    fields.pass_over("q_lora_rank", "mlp_bias", "kv_sharing_modes", "layer_types")
    nope, rope = fields.count("qk_nope_head_dim"), fields.count("qk_rope_head_dim", least=0)
    mixers = []
    for index in range(layers):
        indexer: Block = _indexer(fields, kinds[index] == "full", 0)
        mixer = mla(fields, indexer=indexer, log_scale=True, kv_shared=sources[index] != index)
        mixer.pop("q_rank", None)
        mixers.append(mixer if rotates[index] else mixer | {"nope": nope + rope, "rope": 0})
    experts = moe(fields)
    ffns = networks(fields, experts, is_sparse(fields, layers, dense_first=1))
    return shape(fields, "mistral", list(zip(mixers, ffns, strict=True)))


def _index_kinds(fields: Fields, layers: int) -> list[str]:
    """Layers with an indexer of their own: one of so many, from an offset on."""
    every = fields.count("index_topk_freq", default=1)
    offset = fields.count("index_skip_topk_offset", default=2, least=0)
    return ["full" if max(index - offset + 1, 0) % every == 0 else "shared" for index in range(layers)]


# MiniCPM4: blocks that pooled keys select, in contexts beyond some length.


def minicpm(fields: Fields) -> Shape:
    """MiniCPM: Llama; with `sparse_config`, attention to selected blocks (InfLLM-v2)."""
    fields.require(*SIZES, "intermediate_size", "tie_word_embeddings")
    bias = fields.flag("attention_bias")
    mixer = gqa(fields, qkv_bias=bias, o_bias=bias)
    sparse = fields.section("sparse_config")
    if sparse is not None:
        mixer |= {"kind": "blocks", **_selection(sparse)}
    return shape(fields, "minicpm", uniform(fields.layers(), mixer, dense(fields, bias=fields.flag("mlp_bias"))))


def _selection(sparse: Fields) -> Block:
    """Blocks of a selection: those chosen, and the last ones, as many as fill the window."""
    sizes = {name: sparse.count(name, default=value) for name, value in _DEFAULT_SPARSE.items() if name != "dense_len"}
    block = sizes["block_size"]
    top_k = sizes["topk"] + sizes["window_size"] // block
    value = sparse.values.get("dense_len", _DEFAULT_SPARSE["dense_len"])
    dense_tokens = 0 if value in (-1, 0) else sparse.count("dense_len", default=_DEFAULT_SPARSE["dense_len"])
    if dense_tokens and dense_tokens < block * top_k:
        dense_tokens = block * top_k  # all blocks are chosen anyway
    selection: Block = {"block": block, "top_k": top_k, "stride": sizes["kernel_stride"]}
    return selection | ({"dense": dense_tokens} if dense_tokens else {})


# LongCat-Flash-Lite: n-grams in the input embedding.


def input_ngrams(fields: Fields) -> Block | None:
    """Tables of n-grams whose projected rows are added to the token's embedding; None where there are none."""
    if not fields.has("ngram_vocab_size_ratio"):
        return None
    neighbours, split = fields.count("emb_neighbor_num", least=2), fields.count("emb_split_num")
    lookups = (neighbours - 1) * split
    base = round(fields.number("ngram_vocab_size_ratio", 1.0) * fields.count("vocab_size"))
    width = fields.divided("emb_split_num", fields.count("hidden_size"), lookups)
    rows = fields.limited("ngram_vocab_size_ratio", lookups * (base + lookups), _MOST_ROWS, "rows of n-grams")
    return {"rows": rows, "width": width, "lookups": lookups, "conv": 0, "norms": 0, "gated": False}


RECENT: Mapping[str, Family] = {
    "deepseek_v41_text": _deepseek_v41,
    "inkling_text": _inkling,
    "mistral_large4_text": _mistral_large4,
}
