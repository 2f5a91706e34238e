"""Metadata of a GGUF file as the fields of a Hugging Face configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.errors import BadSpec, shown
from roofline.huggingface.checkpoints.tensors import Checkpoint
from roofline.records import NamedTuple

__all__ = ["gguf_config", "gguf_name"]

#: Field of every architecture -> field of a configuration. Names of llama.cpp: src/llama-arch.cpp, LLM_KV_NAMES;
#: of configurations: transformers, src/transformers/integrations/ggml.py, GGUF_CONFIG_MAPPING.
_FIELDS: Mapping[str, str] = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
}
_EXPERTS: Mapping[str, str] = {
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "nextn_predict_layers": "num_nextn_predict_layers",
}
_LATENT: Mapping[str, str] = {
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "rope.dimension_count": "qk_rope_head_dim",
}

_Fields = dict[str, Any]


class _Architecture(NamedTuple):
    """What files of one architecture of llama.cpp are read as."""

    model_type: str
    flags: tuple[str, ...] = ()  # fields that tensors tell and that the family's configuration has
    finish: Callable[[_Fields], None] | None = None


def _llama(fields: _Fields) -> None:
    """Llama, Mistral and Mixtral are one architecture: the experts of the last are as wide as `feed_forward_length`."""
    experts = fields.pop("num_experts", None)
    if experts:
        fields |= {"model_type": "mixtral", "num_local_experts": experts}


def _deepseek(fields: _Fields) -> None:
    """DeepSeek-V2, V3, R1 and Kimi-K2: key lengths of single heads, a bias a router from V3 on."""
    biased = fields.pop("use_routing_bias", False)
    fields["model_type"] = "deepseek_v3" if biased else "deepseek_v2"
    fields["topk_method"] = "noaux_tc" if biased else "greedy"
    key, value, rope = fields.get("key_length"), fields.get("value_length"), fields.get("qk_rope_head_dim")
    if type(key) is int and type(rope) is int and type(value) is int:
        fields |= {"qk_nope_head_dim": key - rope, "v_head_dim": value}
    for absent in ("head_dim", "num_key_value_heads"):  # those of the latent that all heads share
        fields.pop(absent, None)
    _routed(fields)


def _routed(fields: _Fields) -> None:
    fields["n_routed_experts"] = fields.pop("num_experts", None)


def _local(fields: _Fields) -> None:
    """Experts are as wide as `intermediate_size`."""
    fields["intermediate_size"] = fields.pop("moe_intermediate_size", None) or fields.get("intermediate_size")
    fields["num_local_experts"] = fields.pop("num_experts", None)


_BIAS = ("attention_bias",)
_BIASES = ("attention_bias", "mlp_bias")

#: Architecture -> how its files are read.
_ARCHITECTURES: Mapping[str, _Architecture] = {
    "command-r": _Architecture("cohere", (*_BIAS, "use_qk_norm")),
    "deepseek2": _Architecture("deepseek_v3", ("use_routing_bias",), _deepseek),
    "ernie4_5": _Architecture("ernie4_5", ("use_bias",)),
    "gemma": _Architecture("gemma"),
    "gemma2": _Architecture("gemma2"),
    "gemma3": _Architecture("gemma3_text"),
    "glm4": _Architecture("glm4", _BIAS),
    "glm4moe": _Architecture("glm4_moe", (*_BIAS, "use_qk_norm"), _routed),
    "gpt-oss": _Architecture("gpt_oss", (), _local),
    "granite": _Architecture("granite", _BIASES),
    "llama": _Architecture("llama", _BIASES, _llama),
    "minimax-m2": _Architecture("minimax_m2", ("use_routing_bias", "use_qk_norm"), _local),
    "mistral3": _Architecture("mistral"),
    "nemotron": _Architecture("nemotron", _BIASES),
    "olmo2": _Architecture("olmo2", _BIAS),
    "phi3": _Architecture("phi3"),
    "qwen2": _Architecture("qwen2"),
    "qwen2moe": _Architecture("qwen2_moe"),
    "qwen2vl": _Architecture("qwen2"),
    "qwen3": _Architecture("qwen3", _BIAS),
    "qwen3moe": _Architecture("qwen3_moe", _BIAS),
    "qwen3vl": _Architecture("qwen3", _BIAS),
    "qwen3vlmoe": _Architecture("qwen3_moe", _BIAS),
    "seed_oss": _Architecture("seed_oss", _BIAS),
    "starcoder2": _Architecture("starcoder2", ("use_bias",)),
}


def gguf_config(checkpoint: Checkpoint) -> dict[str, Any]:
    """Configuration of the model that a GGUF file holds; biases, ties and the vocabulary by its tensors.

    Args:
        checkpoint: of a GGUF file [record].

    Returns:
        Fields as ``config.json`` would hold them [record].

    Raises:
        BadSpec: an architecture that is not read from metadata.

    Source:
        https://github.com/ggml-org/llama.cpp, src/llama-arch.cpp; convert_hf_to_gguf.py for what goes into a field.
    """
    metadata, where = checkpoint.metadata, checkpoint.path
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in _ARCHITECTURES:
        raise BadSpec(
            f"{where}:1: general.architecture: {shown(architecture)} is not read from metadata; put the config.json of "
            f"the model beside the file (read: {', '.join(sorted(_ARCHITECTURES))})"
        )
    known = _ARCHITECTURES[architecture]
    names = {**_FIELDS, **_EXPERTS, **_LATENT}
    said = {names[key]: _single(metadata.get(f"{architecture}.{key}")) for key in names}
    fields: _Fields = said | {"model_type": known.model_type, "torch_dtype": "float16"}
    fields["num_experts"] = metadata.get(f"{architecture}.expert_count") or None
    for length in ("key_length", "value_length"):
        key = f"{architecture}.attention.{length}"
        fields[length] = metadata.get(f"{key}_mla") or metadata.get(key)
    fields |= _by_tensors(checkpoint, known.flags)
    if known.finish is not None:
        known.finish(fields)
    drafts, layers = fields.get("num_nextn_predict_layers") or 0, fields.get("num_hidden_layers")
    if type(layers) is int and type(drafts) is int:
        fields["num_hidden_layers"] = layers - drafts  # blocks of draft modules are counted with the layers
    unread = ("key_length", "value_length")
    return {name: value for name, value in fields.items() if value is not None and name not in unread}


def gguf_name(metadata: Mapping[str, Any]) -> str | None:
    """Name of the model as a GGUF file states it.

    Args:
        metadata: of the file [record].

    Returns:
        The name, if there is one [text].
    """
    name = metadata.get("general.name")
    return name.strip()[:100].strip() if isinstance(name, str) and name.strip() else None


def _by_tensors(checkpoint: Checkpoint, flags: tuple[str, ...]) -> _Fields:
    """What tensors say better than metadata: the size of the vocabulary, the tie, biases and norms."""
    names = {tensor.name: tensor for tensor in checkpoint.tensors}
    table = names.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise BadSpec(f"{checkpoint.path}:1: token_embd.weight: missing; this is no language model, or not all of it")
    biased = any(name.endswith(("attn_q.bias", "attn_qkv.bias")) for name in names)
    found = {
        "attention_bias": biased,
        "use_bias": biased,
        "mlp_bias": any(name.endswith("ffn_up.bias") for name in names),
        "use_qk_norm": any(".attn_q_norm." in name for name in names),
        "use_routing_bias": any(".exp_probs_b" in name for name in names),
    }
    said = {"vocab_size": table.shape[1], "tie_word_embeddings": "output.weight" not in names}
    return said | {name: found[name] for name in flags}


def _single(value: Any) -> Any:
    """A number, also where it is stated a layer at a time and is the same in all."""
    if isinstance(value, list) and value and len(set(map(repr, value))) == 1:
        return value[0]
    return value
