"""Readers of mixtures of experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.catalog.huggingface.blocks import (
    BIASES,
    HEAD_NORMS,
    SIZES,
    WIDE,
    WIDE_SHARED,
    Block,
    Declared,
    Family,
    Fields,
    LayerList,
    Shape,
    attention_biases,
    biases_of,
    dense,
    drafts,
    flag,
    gqa,
    gqa_by_window,
    is_sparse,
    mla,
    moe,
    networks,
    part,
    period_of,
    shape,
    size,
    sliding,
    uniform,
    windows,
)
from roofline.catalog.huggingface.recent import input_ngrams

# Mixture-of-experts families whose layers all have attention.


LOCAL = ("intermediate_size", "num_local_experts", "num_experts_per_tok")
_OLMOE = Declared(
    "olmo",
    BIASES | {"qk_norm": "full"},
    needs=("intermediate_size", "num_experts", "num_experts_per_tok"),
    window=None,
    experts=WIDE,
)
_QWEN = ("moe_intermediate_size", "num_experts|num_local_experts", "num_experts_per_tok")
#: Shared experts with a gate, in the words of Qwen.
GATED_SHARED = {
    "shared_width": size("shared_expert_intermediate_size"),
    "shared_gate": lambda fields: fields.count("shared_expert_intermediate_size", default=0, least=0) > 0,
}


def qwen_sparse(fields: Fields, layers: int) -> list[bool]:
    """Which layers of Qwen have experts: every `decoder_sparse_step`-th except `mlp_only_layers`."""
    step = fields.count("decoder_sparse_step", default=1)
    dense_layers = frozenset(fields.counts("mlp_only_layers") or ())
    return [index not in dense_layers and (index + 1) % step == 0 for index in range(layers)]


def qwen_windows(fields: Fields, layers: int) -> list[int | None]:
    """Window of each layer of Qwen2 and Qwen3 [tokens]: where enabled, from `max_window_layers` on."""
    first = fields.count("max_window_layers", default=28, least=0)
    if not fields.flag("use_sliding_window"):
        return [None] * layers
    return windows(fields, layers, lambda index: index >= first, default=4096)


_QWEN3_MOE = Declared(
    "qwen3", BIASES | HEAD_NORMS, needs=_QWEN, window=qwen_windows, experts={"shared_width": 0}, sparse=qwen_sparse
)


def _qwen3_moe(fields: Fields) -> Shape:
    """Qwen3 with experts; Qwen3-Coder says that it has norms, which every Qwen3 has."""
    fields.refuse("use_qk_norm", "Qwen3 without norms of queries and keys is not supported", value=False)
    return _QWEN3_MOE(fields)


def _ernie_moe(fields: Fields) -> Shape:
    fields.require(*SIZES, "intermediate_size", "moe_num_experts", "moe_k", "moe_intermediate_size")
    fields.refuse("use_bias", "experts with biases are not supported for this family")
    layers = fields.layers()
    first = fields.count("moe_layer_start_index", default=1, least=0)
    last = fields.optional("moe_layer_end_index", least=-1)
    last = layers - 1 if last is None or last < 0 else last
    every = fields.count("moe_layer_interval", default=1)
    experts = moe(fields, router_bias=True)
    mixer = gqa(fields)
    sparse = [first <= index <= last and (index + 1) % every == 0 for index in range(layers)]
    ffns = networks(fields, experts, sparse)
    return shape(fields, "ernie", [(mixer, ffn) for ffn in ffns], tied=True)


def _llama4(fields: Fields) -> Shape:
    """Llama-4: three layers in four attend within chunks; `intermediate_size` is the width of every expert."""
    fields.require(*SIZES, "intermediate_size", "intermediate_size_mlp", "num_local_experts", "num_experts_per_tok")
    layers, biases = fields.layers(), attention_biases(fields)
    chunk = fields.optional("attention_chunk_size")
    fields.pass_over("use_qk_norm")  # the norm has no parameters
    rotary = fields.counts("no_rope_layers") or [int((index + 1) % 4 != 0) for index in range(layers)]
    chunked = fields.marks("layer_types", layers, "chunked_attention", "full_attention")
    chunked = [mark > 0 for mark in rotary] if chunked is None else chunked
    if len(chunked) != layers:
        raise fields.fault("no_rope_layers", f"has {len(chunked)} entries for {layers} layers")
    step = fields.count("interleave_moe_layer_step", default=1)
    moe_layers = fields.counts("moe_layers")
    sparse = frozenset(moe_layers if moe_layers is not None else range(step - 1, layers, step))
    local, full = (gqa(fields, chunk=size, **biases) for size in (chunk, None))
    experts = moe(fields, "intermediate_size", shared_width=fields.count("intermediate_size"))
    network = dense(fields, "intermediate_size_mlp")
    mixers = [local if is_chunked else full for is_chunked in chunked]
    ffns = [experts if index in sparse else network for index in range(layers)]
    return shape(fields, "llama", list(zip(mixers, ffns, strict=True)))


def _minimax_norm(fields: Fields) -> str | None:
    if not fields.flag("use_qk_norm", default=True):
        return None
    usual = "per_layer" if fields.text("model_type") == "minimax_m2" else "per_head"
    return "head" if (fields.text("qk_norm_type") or usual) == "per_head" else "full"


def _minimax_m3(fields: Fields) -> Shape:
    """MiniMax-M3: dense layers first, then experts; attention reads the highest-scoring blocks of tokens alone."""
    fields.require(*SIZES, "dense_intermediate_size", "num_local_experts", "num_experts_per_tok")
    layers = fields.layers()
    qk_norm = _minimax_norm(fields)
    fields.pass_over("n_shared_experts", "index_n_heads", "index_head_dim")
    plain = gqa(fields, qk_norm=qk_norm)
    mixers = [plain] * layers
    config, kinds = _minimax_indexer(fields, layers)
    if config is not None and config.flag("use_sparse_attention", default=True):
        marks = kinds or config.counts("sparse_attention_freq", layers) or [1] * layers
        config.require("sparse_num_index_heads", "sparse_index_dim", "sparse_block_size", "sparse_topk_blocks")
        block = config.count("sparse_block_size")
        top_k = block * config.count("sparse_topk_blocks")
        config.bounded("sparse_topk_blocks", top_k, "exceeds any context length")
        heads, dim = config.count("sparse_num_index_heads"), config.count("sparse_index_dim")
        indexer = {"heads": heads, "dim": dim, "top_k": top_k, "block": block}
        sparse = gqa(fields, qk_norm=qk_norm, indexer=indexer)
        mixers = [sparse if mark else plain for mark in marks]
    experts = moe(
        fields,
        "moe_intermediate_size|intermediate_size",
        shared_width=fields.optional("shared_intermediate_size", least=0),
        router_bias=fields.flag("use_routing_bias", default=True),
    )
    network = dense(fields, "dense_intermediate_size")
    ffns = [experts if is_mixture else network for is_mixture in is_sparse(fields, layers)]
    return shape(fields, "minimax", list(zip(mixers, ffns, strict=True)), mtp=drafts(fields))


def _minimax_indexer(fields: Fields, layers: int) -> tuple[Fields | None, list[bool] | None]:
    """Settings of the indexer, and which layers have one, as published or as transformers saves them."""
    marks = fields.marks("layer_types", layers, "minimax_m3_sparse", "full_attention")
    if fields.has("sparse_attention_config") or marks is None:
        return fields.section("sparse_attention_config"), None
    if not any(marks):
        return None, marks
    renamed = {
        "sparse_num_index_heads": "index_n_heads",
        "sparse_index_dim": "index_head_dim",
        "sparse_block_size": "index_block_size",
        "sparse_topk_blocks": "index_topk_blocks",
    }
    fields.require(*renamed.values())
    return Fields({old: fields.values[new] for old, new in renamed.items()}, fields.where), marks


def _mimo_v2(fields: Fields) -> Shape:
    """MiMo-V2: keys wider than values; layers with a window have their own numbers of heads, and sinks."""
    fields.require(*SIZES, "intermediate_size", "moe_intermediate_size", "head_dim")
    fields.require("hybrid_layer_pattern|layer_types")
    layers, bias = fields.layers(), fields.flag("attention_bias")
    marks: Sequence[int] | None = fields.counts("hybrid_layer_pattern", layers)
    window_kv_heads = None  # of layers with a window, where the configuration does not state them
    if marks is None:
        marks = fields.marks("layer_types", layers, "sliding_attention", "full_attention") or ()
        window_kv_heads = 2 * fields.count("num_key_value_heads")
    full = gqa(
        fields,
        v_head_dim=fields.optional("v_head_dim"),
        qkv_bias=bias,
        sinks=fields.flag("add_full_attention_sink_bias"),
    )
    sliding = gqa(
        fields,
        heads=fields.optional("swa_num_attention_heads"),
        kv_heads=fields.optional("swa_num_key_value_heads") or window_kv_heads,
        head_dim=fields.optional("swa_head_dim"),
        v_head_dim=fields.optional("swa_v_head_dim", "v_head_dim"),
        window=fields.count("sliding_window_size", "sliding_window"),
        qkv_bias=bias,
        sinks=fields.flag("add_swa_attention_sink_bias", default=window_kv_heads is not None),
    )
    ffns = networks(fields, moe(fields, router_bias=True), is_sparse(fields, layers))
    mixers = [sliding if mark else full for mark in marks]
    return shape(fields, "mimo", list(zip(mixers, ffns, strict=True)), mtp=drafts(fields))


def _step3(fields: Fields) -> Shape:
    """Step-3.5 and 3.7: layers with a window have more heads; the gate of one value per head is left out."""
    fields.require(*SIZES, "moe_intermediate_size", "intermediate_size", "layer_types", "sliding_window")
    layers = fields.layers()
    kinds = fields.choices("layer_types", {"sliding_attention", "full_attention"}) or []
    if len(kinds) < layers:  # further entries belong to the draft modules
        raise fields.fault("layer_types", f"has {len(kinds)} entries for {layers} layers")
    kv_heads = fields.optional("num_attention_groups", "num_key_value_heads")
    fields.pass_over("n_shared_experts")  # share_expert_dim is the width of all of them
    window = fields.count("sliding_window")
    window_heads = fields.section("attention_other_setting")
    mixers = {
        "full_attention": gqa(fields, kv_heads=kv_heads, qk_norm="head"),
        "sliding_attention": gqa(
            fields,
            heads=window_heads.optional("num_attention_heads") if window_heads else None,
            kv_heads=(window_heads.optional("num_attention_groups") if window_heads else None) or kv_heads,
            window=window,
            qk_norm="head",
        ),
    }
    experts = moe(
        fields,
        shared_width=fields.count("share_expert_dim", default=0, least=0),
        router_bias=fields.flag("use_moe_router_bias"),
    )
    ffns = networks(fields, experts, _step3_sparse(fields, layers))
    layer_mixers = [mixers[kind] for kind in kinds[:layers]]
    return shape(fields, "step", list(zip(layer_mixers, ffns, strict=True)), mtp=drafts(fields))


def _step3_sparse(fields: Fields, layers: int) -> list[bool]:
    """Whether each layer is a mixture: published files list the mixtures, re-saved ones count the dense layers."""
    if not isinstance(fields.values.get("moe_layers_enum"), str):
        return is_sparse(fields, layers)
    moe_layers = frozenset((fields.text("moe_layers_enum") or "").replace(" ", "").split(","))
    return [str(index) in moe_layers for index in range(layers)]


# Mixtures of experts of 2024 to 2026: dots1, EXAONE, Hunyuan, Ling, LongCat, Phi-MoE, DBRX and others.
#
# Defaults that configurations leave out are those of Hugging Face transformers
# (https://github.com/huggingface/transformers, src/transformers/models); for Ling and Hunyuan also of SGLang
# (https://github.com/sgl-project/sglang, python/sglang/srt/models/bailing_moe.py) and vLLM (https://github.com/vllm-
# project/vllm, vllm/model_executor/models/hunyuan_v1.py).


def attention_windows(fields: Fields, layers: int) -> list[int | None]:
    """Window of each layer of EXAONE [tokens]; the pattern is a period or letters such as LLLG."""
    pattern = fields.values.get("sliding_window_pattern")
    if not fields.has("sliding_window"):
        fields.pass_over("layer_types")
        return [None] * layers
    if isinstance(pattern, str):
        letters = fields.text("sliding_window_pattern") or "G"
        return windows(fields, layers, lambda index: letters[index % len(letters)] == "L")
    period = fields.count("sliding_window_pattern", default=4)
    return windows(fields, layers, lambda index: (index + 1) % period != 0)


def _same_in_all_layers(fields: Fields, name: str, default: int | None = None) -> int | None:
    """A number, or a list with the same number for every layer."""
    if not isinstance(fields.values.get(name), list):
        return fields.optional(name, least=0) if fields.has(name) else default
    numbers = set(fields.counts(name, fields.layers()) or ())
    if len(numbers) != 1:
        raise fields.fault(name, "numbers that differ from layer to layer are not supported")
    return numbers.pop()


def _hunyuan(fields: Fields) -> Shape:
    """Hunyuan-A13B and Hunyuan-Large: an FFN alongside the experts; some layers share the previous layer's KV cache."""
    fields.require(*SIZES, "intermediate_size", "num_experts", "moe_topk")
    layers, biases = fields.layers(), attention_biases(fields)
    experts, top_k = _same_in_all_layers(fields, "num_experts") or 1, _same_in_all_layers(fields, "moe_topk") or 1
    width = fields.count("intermediate_size")
    expert_width = _same_in_all_layers(fields, "moe_intermediate_size") or width
    has_shared = fields.flag("use_mixed_mlp_moe", default=True)
    shared = (_same_in_all_layers(fields, "num_shared_expert", 1) or 0) * width if has_shared else 0
    fields.bounded("num_shared_expert", shared, "implausibly wide shared experts")
    fields.pass_over("num_experts_per_tok", "num_local_experts")
    values = {"num_experts": experts, "moe_topk": top_k, "moe_intermediate_size": expert_width}
    ffn = moe(Fields(values, fields.where), shared_width=shared)
    every = fields.count("cla_share_factor", default=1) if fields.flag("use_cla") else 1
    is_newer = fields.text("model_type") == "hunyuan_v1_moe"
    qk_norm = "head" if fields.flag("use_qk_norm", default=is_newer) else None
    caching, sharing = (gqa(fields, kv_shared=is_shared, **biases, qk_norm=qk_norm) for is_shared in (False, True))
    layer_blocks = [(sharing if index % every else caching, ffn) for index in range(layers)]
    return shape(fields, "hunyuan", layer_blocks)


def _longcat(fields: Fields) -> Shape:
    """LongCat-Flash: a layer has two pairs of attention and dense FFN, with experts alongside the first FFN.

    Experts and first FFN read the same normalized input, so the FFN is counted as a shared expert. Zero
    experts return their input.
    """
    fields.require("hidden_size", "num_attention_heads", "vocab_size", "num_layers|num_hidden_layers")
    fields.require("ffn_hidden_size", "expert_ffn_hidden_size", "n_routed_experts", "moe_topk")
    pairs = fields.layers("num_layers") if fields.has("num_layers") else fields.layers() // 2
    fields.pass_over("num_hidden_layers")
    width, zeros = fields.count("ffn_hidden_size"), fields.count("zero_expert_num", default=0, least=0)
    kind = fields.text("zero_expert_type")
    if zeros and kind not in (None, "identity"):
        raise fields.fault("zero_expert_type", f"{kind!r} is not supported; only identity")
    experts = moe(
        fields,
        "expert_ffn_hidden_size",
        shared_width=width,
        router_bias=fields.flag("router_bias"),
        zero_experts=zeros,
    )
    mixer, network = mla(fields), dense(fields, width=width)
    pair: LayerList = [(mixer, experts), (mixer, network)]
    ngrams = input_ngrams(fields)
    extras = {} if ngrams is None else {"ngrams": ngrams}
    return shape(fields, "longcat", pair * max(1, pairs), extras=extras, mtp=drafts(fields))


def _dbrx(fields: Fields) -> Shape:
    fields.require("d_model", "n_heads", "n_layers", "vocab_size", "attn_config", "ffn_config")
    attention, network = fields.section("attn_config"), fields.section("ffn_config")
    if attention is None or network is None:
        raise fields.fault("attn_config" if attention is None else "ffn_config", "missing")
    network.require("ffn_hidden_size", "moe_num_experts", "moe_top_k")
    fields.pass_over("num_key_value_heads")  # transformers copies it from attn_config
    heads = fields.count("n_heads")
    head_dim = fields.divided("n_heads", fields.count("d_model"), heads)
    mixer = gqa(fields, heads=heads, kv_heads=attention.count("kv_n_heads", default=1), head_dim=head_dim)
    ffn = moe(network, "ffn_hidden_size", shared_width=0)
    return shape(fields, "dbrx", uniform(fields.layers("n_layers"), mixer, ffn), hidden=("d_model",))


def _mllama(fields: Fields) -> Shape:
    """Language model of Llama-3.2-Vision: Llama with layers of cross-attention to an image.

    A request without an image skips these layers: they take memory but no time. The embedding has eight rows more than
    the head; they are left out.
    """
    fields.require(*SIZES, "intermediate_size", "cross_attention_layers")
    layers = fields.layers()
    cross_layers = frozenset(fields.counts("cross_attention_layers") or ())
    if not cross_layers <= set(range(layers)):
        raise fields.fault("cross_attention_layers", f"has layers beyond the {layers} there are")
    attention, network = gqa(fields), dense(fields)
    sizes = {name: attention[name] for name in ("heads", "kv_heads", "head_dim")}
    cross = (part("cross", **sizes, width=network["width"]), part("none"))
    plain = (attention, network)
    return shape(fields, "llama", [cross if index in cross_layers else plain for index in range(layers)])


def _bailing(fields: Fields) -> Shape:
    """Ling and Ring, 1 and 2: shared experts are as wide as the routed ones unless a field says otherwise."""
    fields.require(*SIZES, "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    fields.refuse("use_bias", "biases are not supported for this family")
    shared = fields.count("num_shared_experts", default=0, least=0)
    shared *= fields.count("moe_shared_expert_intermediate_size", "moe_intermediate_size")
    fields.bounded("num_shared_experts", shared, "implausibly wide shared experts")
    experts = moe(fields, shared_width=shared, router_bias=fields.flag("moe_router_enable_expert_bias"))
    qk_norm = "head" if fields.flag("use_qk_norm") else None
    mixer = gqa(fields, qkv_bias=fields.flag("use_qkv_bias"), qk_norm=qk_norm)
    ffns = networks(fields, experts, is_sparse(fields, fields.layers()))
    return shape(fields, "ling", [(mixer, ffn) for ffn in ffns], mtp=drafts(fields))


def _dots_windows(fields: Fields, layers: int) -> list[int | None]:
    """A window, if stated, applies from layer `max_window_layers` on."""
    first = fields.count("max_window_layers", default=layers, least=0)
    return windows(fields, layers, lambda index: index >= first) if fields.has("sliding_window") else [None] * layers


def _afmoe_sparse(fields: Fields, layers: int) -> list[bool]:
    first = fields.count("num_dense_layers", default=1, least=0)
    return [index >= first for index in range(layers)]


def _mla_dense(fields: Fields) -> Shape:
    """MiniCPM3 and Youtu: latent attention and dense FFNs."""
    fields.require(*SIZES, "intermediate_size", "kv_lora_rank", "q_lora_rank")
    family = "minicpm" if fields.text("model_type") == "minicpm3" else "youtu"
    return shape(fields, family, uniform(fields.layers(), mla(fields), dense(fields)), tied=True)


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
    fields.pass_over("mlp_bias", "layer_types")  # FFNs have no biases and all layers an indexer, whatever they say
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
    if fields.count("n_shared_experts", default=1, least=0) != 1:
        raise fields.fault("n_shared_experts", "only one shared expert is supported for this family")
    ratios = _ratios(fields, layers)
    mixers = {ratio: _compressed(fields, ratio) for ratio in dict.fromkeys(ratios)}
    hash_routed, routed = (moe(fields, router_bias=is_biased) for is_biased in (False, True))
    by_hash = _routed_by_hash(fields, layers)
    ffns = [hash_routed if is_hashed else routed for is_hashed in by_hash]
    layer_blocks = list(zip(map(mixers.__getitem__, ratios), ffns, strict=True))
    return shape(fields, "deepseek", layer_blocks, streams=streams(fields, "hc_mult"), mtp=drafts(fields))


def _ratios(fields: Fields, layers: int) -> list[int]:
    """Tokens per cache entry of each layer; transformers states a kind per layer instead."""
    ratios = fields.counts("compress_ratios")
    if ratios is None:
        rates = fields.section("compress_rates") or Fields({}, fields.where)
        ratio_of = {kind: rates.count(kind, default=default) for kind, default in _RATES.items()}
        ratio_of["sliding_attention"] = 0
        ratios = [ratio_of[kind] for kind in fields.choices("layer_types", ratio_of) or ()]
        if len(ratios) < layers:
            raise fields.fault("layer_types", f"has {len(ratios)} entries for {layers} layers")
    if len(ratios) < layers:  # further entries belong to the draft modules
        raise fields.fault("compress_ratios", f"has {len(ratios)} entries for {layers} layers")
    return ratios[:layers]


def _routed_by_hash(fields: Fields, layers: int) -> list[bool]:
    """Whether the experts of each layer are chosen by a hash of the token; such routers have no bias."""
    by_hash = fields.marks("mlp_layer_types", layers, "hash_moe", "moe")
    if by_hash is not None:
        return by_hash
    first = fields.count("num_hash_layers", default=0, least=0)
    return [index < first for index in range(layers)]


_RATES = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
_INDEXED_RATIO = 4  # tokens per cache entry at which DeepSeek-V4 has an indexer


def _indexer(fields: Fields) -> Block:
    heads, dim = fields.count("index_n_heads"), fields.count("index_head_dim")
    return {"heads": heads, "dim": dim, "top_k": fields.count("index_topk")}


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
    return fields.limited(name, fields.count(name, default=default), _MOST_STREAMS, "residual streams")


def _glm_moe(fields: Fields) -> Shape:
    fields.require(*SIZES, "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok")
    qk_norm = "head" if fields.flag("use_qk_norm") else None
    mixers = [gqa(fields, qkv_bias=fields.flag("attention_bias"), qk_norm=qk_norm)] * fields.layers()
    return _with_experts(fields, "glm", mixers, router_bias=True)


def _muse_spark(fields: Fields) -> Shape:
    """Muse-Spark: gated attention, a window on three layers in four, experts in a latent, gated residual."""
    fields.require(*SIZES, "num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "moe_hidden_size")
    layers, biases = fields.layers(), attention_biases(fields)
    layer_windows = windows(fields, layers, lambda index: (layers - 1 - index) % 4 != 0, default=2048)
    mixers = gqa_by_window(fields, layer_windows, **biases, out_gate=True)
    experts = moe(fields, router_bias=True, latent=fields.count("moe_hidden_size"), latent_norms=2)
    sparse = fields.marks("mlp_layer_types", layers, "sparse", "dense") or [True] * layers
    ffns = networks(fields, experts, sparse)
    layer_blocks = list(zip(mixers, ffns, strict=True))
    return shape(fields, "muse", layer_blocks, norms=5)  # three norms with weights, and a gate per half


_BIASED = {"router_bias": True}

EXPERTS: Mapping[str, Family] = {
    "afmoe": Declared(
        "trinity",
        HEAD_NORMS | {"out_gate": True},
        model={"norms": 4},
        needs=("intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok"),
        window=period_of("global_attn_every_n_layers", default=4),
        experts=_BIASED,
        sparse=_afmoe_sparse,
    ),
    "bailing_moe": _bailing,
    "bailing_moe_v2": _bailing,
    "dbrx": _dbrx,
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "mistral4"), _deepseek),
    "deepseek_v32": _sparse_deepseek,
    "deepseek_v4": _deepseek_v4,
    "dots1": Declared(
        "dots",
        BIASES | HEAD_NORMS,
        needs=("moe_intermediate_size", "n_routed_experts", "num_experts_per_tok"),
        window=_dots_windows,
        experts=_BIASED,
        sparse=is_sparse,
    ),
    "ernie4_5_moe": _ernie_moe,
    "exaone_moe": Declared(
        "exaone",
        HEAD_NORMS,
        model={"mtp": drafts},
        needs=("moe_intermediate_size", "num_experts", "num_experts_per_tok"),
        window=attention_windows,
        experts=_BIASED,
        sparse=is_sparse,
    ),
    "flex_olmo": _OLMOE,
    "glm4_moe": _glm_moe,
    "glm4v_moe_text": _glm_moe,
    "glm_moe_dsa": _sparse_deepseek,
    "gpt_oss": Declared(  # a window on every other layer, one learned sink per head, experts `intermediate_size` wide
        "gpt-oss",
        biases_of("attention_bias", default=True) | {"sinks": True},
        needs=("intermediate_size", "num_local_experts|num_experts", "num_experts_per_tok|experts_per_token"),
        window=sliding(lambda index: index % 2 == 0, 128),
        experts=WIDE | {"router_bias": True, "expert_bias": True},
    ),
    "granitemoe": Declared("granite", BIASES, needs=LOCAL, window=None, experts=WIDE),
    "llama4": _llama4,
    "llama4_text": _llama4,
    "minimax_m2": Declared(
        "minimax",
        {"qk_norm": _minimax_norm},
        model={"mtp": lambda fields: drafts(fields) if fields.flag("use_mtp") else 0},
        needs=LOCAL,
        window=None,
        experts=WIDE_SHARED | {"router_bias": flag("use_routing_bias")},
    ),
    "granitemoeshared": Declared("granite", BIASES, needs=LOCAL, window=None, experts=WIDE_SHARED),
    "hunyuan": _hunyuan,
    "hunyuan_v1_moe": _hunyuan,
    "longcat_flash": _longcat,
    "minicpm3": _mla_dense,
    "mllama_text_model": _mllama,
    "phimoe": Declared(
        "phi", BIASES, model={"norm_bias": True, "head_bias": flag("lm_head_bias")}, needs=LOCAL, experts=WIDE
    ),
    "mimo_v2_flash": _mimo_v2,
    **dict.fromkeys(("minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text"), _minimax_m3),
    "mixtral": Declared("mixtral", needs=LOCAL, experts=WIDE),
    "muse_spark_text": _muse_spark,
    "olmoe": _OLMOE,
    "qwen2_moe": Declared(
        "qwen2",
        {"qkv_bias": flag("qkv_bias", default=True)},
        needs=_QWEN,
        window=qwen_windows,
        experts=GATED_SHARED,
        sparse=qwen_sparse,
    ),
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_moe_text": _qwen3_moe,
    "solar_open": Declared(
        "solar",
        {
            "qkv_bias": flag("attention_bias"),
            "qk_norm": flag("use_qk_norm", "head", None),
        },
        needs=("moe_intermediate_size", "n_routed_experts", "num_experts_per_tok"),
        window=None,
        experts=_BIASED,
        sparse=is_sparse,
    ),
    "step3p5": _step3,
    "step3p7": _step3,
    "youtu": _mla_dense,
}
