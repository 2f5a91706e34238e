"""The part of a model that a tensor belongs to, by its name."""

from __future__ import annotations

import re

#: Parts that no pass of the language model reads: draft modules; encoders and tables beside the model.
DRAFT, BESIDE = "draft", "beside"

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|blk)\.(\d{1,6})\.", re.ASCII)
_TOWER = re.compile(
    r"(?:^|\.)(?:visual|vision\w*|audio\w*|speech\w*|image\w*|multi_modal_projector|mm_projector|mlp1|connector"
    r"|embed_vision|embed_audio|patch\w*|perceiver|resampler|vit\w*|aligner|projector|merger|vpm)\.",
    re.ASCII,
)
_DRAFT = re.compile(
    r"(?:^|\.)(?:mtp\w*|nextn\w*|eh_proj|enorm|hnorm|eagle\w*|medusa\w*|draft\w*|shared_head)(?:\.|$)", re.ASCII
)
_NO_WEIGHTS = re.compile(r"rotary_emb|inv_freq|rope_freqs|rope_factors|masked_bias|attn\.bias$|tid2eid", re.ASCII)
_EMBED = re.compile(
    r"(?:^|\.)(?:embed_tokens|embed|wte|embed_in|word_embeddings|tok_embeddings|embeddings|token_embd)\.", re.ASCII
)
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|head|output|embed_out)\.(?:weight|qweight|bias)", re.ASCII)
_ROUTER = re.compile(
    r"\.(?:gate|router|gate_inp)(?:\.(?:weight|wg\.weight|layer\.weight|proj\.weight|linear\.weight|qweight|weight_packed))$"
    r"|\.ffn_gate_inp(?:_shexp)?\.|\.shared_expert_gate\.",
    re.ASCII,
)
_SHARED = re.compile(
    r"\.(?:shared_\w+|share_expert|\w+_shexp|fc[12]_latent_proj|latent_\w+|ffn_latent_\w+)(?:\.|$)", re.ASCII
)
_EXPERTS = re.compile(
    r"\.experts(?:\.|_)|\.moe\.(?:up|gate|down)_proj|\w_exps\.|\.ffn_(?:gate|up|down)\.\d+\.", re.ASCII
)
_ATTENTION = re.compile(
    r"\.(?:self_attn|attn|attention|self_attention|linear_attn|mamba|conv|temporal_block|indexer|compressor)\."
    r"|\.(?:attn|ssm|indexer|shortconv)[_.]",
    re.ASCII,
)
_MIXER_NETWORK = re.compile(r"\.mixer\.(?:up_proj|down_proj|gate_proj|gate_up_proj)\.", re.ASCII)
_MIXER = re.compile(r"\.mixer\.", re.ASCII)
_NETWORK = re.compile(r"\.(?:mlp|feed_forward|ffn|block_sparse_moe|moe)\.|\.ffn_(?:gate|up|down)\.", re.ASCII)
_NORM = re.compile(
    r"norm|(?:^|\.)ln_|\.bias$|_bias$|sinks|hc_|_hc\.|hyper|conv1d|A_log|\.D$|dt_bias|\.ssm_(?:a|d)$|position_bias|\.ape$",
    re.ASCII,
)


def section_of(name: str, layers: int, drafts: int, *, is_vector: bool) -> str | None:
    """Section of a specification that counts a tensor, by its name on the Hugging Face hub or in a GGUF file.

    Args:
        name: of the tensor.
        layers: number of layers of the model.
        drafts: number of draft modules, whose layers come after those.
        is_vector: whether the tensor has one dimension.

    Returns:
        The section, `DRAFT` or `BESIDE`; None for an unknown name.

    Source:
        Names in transformers, src/transformers/models; of GGUF files https://github.com/ggml-org/llama.cpp,
        src/llama-arch.cpp, LLM_TENSOR_NAMES.

    >>> section_of("model.layers.3.self_attn.q_proj.weight", 32, 0, is_vector=False)
    'attention'
    """
    if _TOWER.search(name) or _NO_WEIGHTS.search(name):
        return BESIDE
    layer = _LAYER.search(name)
    if _DRAFT.search(name) or (layer is not None and layers <= int(layer[1]) < layers + drafts):
        return DRAFT
    if layer is not None and int(layer[1]) >= layers:
        return None
    if layer is None:
        if _HEAD.search(name) and not name.endswith("bias"):
            return "head"
        if _EMBED.search(name) and not (is_vector or _NORM.search(name)):
            return "embed"
        return "norm" if is_vector or _NORM.search(name) else None
    return _section_in_layer(name, is_vector=is_vector)


def _section_in_layer(name: str, *, is_vector: bool) -> str | None:
    if _ROUTER.search(name):
        return "router"
    if is_vector or _NORM.search(name):
        return "norm"
    if _SHARED.search(name):
        return "shared"
    if _EXPERTS.search(name):
        return "experts"
    if _ATTENTION.search(name):
        return "attention"
    if _MIXER.search(name):
        return "linear" if _MIXER_NETWORK.search(name) else "attention"
    return "linear" if _NETWORK.search(name) else None
