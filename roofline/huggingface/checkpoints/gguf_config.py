"""Metadata of a GGUF file as the fields of a Hugging Face configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.errors import BadSpec, shown
from roofline.huggingface.checkpoints.tensors import Checkpoint
from roofline.records import NamedTuple

#: GGUF field -> field of a configuration. Names on the left: llama.cpp, src/llama-arch.cpp, LLM_KV_NAMES; on the
#: right: transformers, src/transformers/integrations/ggml.py, GGUF_CONFIG_MAPPING.
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

_LENGTHS = ("key_length", "value_length")  # of keys and values per head; no fields of a configuration

_Fields = dict[str, Any]


class _Architecture(NamedTuple):
    """How files of one architecture of llama.cpp are read."""

    model_type: str
    flags: tuple[str, ...] = ()  # fields that follow from the tensors and that the family's configuration has
    finish: Callable[[_Fields], None] | None = None  # adapts the fields in place


def _llama(fields: _Fields) -> None:
    """Llama, Mistral and Mixtral share one architecture; `feed_forward_length` is the width of an expert of Mixtral."""
    experts = fields.pop("num_experts", None)
    if experts:
        fields |= {"model_type": "mixtral", "num_local_experts": experts}


def _deepseek(fields: _Fields) -> None:
    """DeepSeek-V2, V3, R1 and Kimi-K2: key lengths are per head; routers have a bias from V3 on."""
    has_bias = fields.pop("use_routing_bias", False)
    fields["model_type"] = "deepseek_v3" if has_bias else "deepseek_v2"
    fields["topk_method"] = "noaux_tc" if has_bias else "greedy"
    key, value, rope = fields.get("key_length"), fields.get("value_length"), fields.get("qk_rope_head_dim")
    if type(key) is int and type(rope) is int and type(value) is int:
        fields |= {"qk_nope_head_dim": key - rope, "v_head_dim": value}
    for name in ("head_dim", "num_key_value_heads"):  # of the latent, which all heads share
        fields.pop(name, None)
    _name_routed_experts(fields)


def _name_routed_experts(fields: _Fields) -> None:
    fields["n_routed_experts"] = fields.pop("num_experts", None)


def _name_local_experts(fields: _Fields) -> None:
    """Rename the fields for families in which `intermediate_size` is the width of an expert."""
    fields["intermediate_size"] = fields.pop("moe_intermediate_size", None) or fields.get("intermediate_size")
    fields["num_local_experts"] = fields.pop("num_experts", None)


_BIAS = ("attention_bias",)
_BIASES = ("attention_bias", "mlp_bias")

_ARCHITECTURES: Mapping[str, _Architecture] = {
    "command-r": _Architecture("cohere", (*_BIAS, "use_qk_norm")),
    "deepseek2": _Architecture("deepseek_v3", ("use_routing_bias",), _deepseek),
    "ernie4_5": _Architecture("ernie4_5", ("use_bias",)),
    "gemma": _Architecture("gemma"),
    "gemma2": _Architecture("gemma2"),
    "gemma3": _Architecture("gemma3_text"),
    "glm4": _Architecture("glm4", _BIAS),
    "glm4moe": _Architecture("glm4_moe", (*_BIAS, "use_qk_norm"), _name_routed_experts),
    "gpt-oss": _Architecture("gpt_oss", (), _name_local_experts),
    "granite": _Architecture("granite", _BIASES),
    "llama": _Architecture("llama", _BIASES, _llama),
    "minimax-m2": _Architecture("minimax_m2", ("use_routing_bias", "use_qk_norm"), _name_local_experts),
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
    """Configuration of the model in a GGUF file; biases, ties and the vocabulary follow from its tensors.

    Args:
        checkpoint: the tensors and metadata of a GGUF file.

    Returns:
        Fields as in a ``config.json``.

    Raises:
        BadSpec: the architecture is not supported without a ``config.json``.

    Source:
        https://github.com/ggml-org/llama.cpp, src/llama-arch.cpp; convert_hf_to_gguf.py for the meaning of a field.
    """
    metadata, where = checkpoint.metadata, checkpoint.path
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in _ARCHITECTURES:
        raise BadSpec(
            f"{where}:1: general.architecture: {shown(architecture)} is not read from metadata; put the config.json of "
            f"the model beside the file (read: {', '.join(sorted(_ARCHITECTURES))})"
        )
    reading = _ARCHITECTURES[architecture]
    names = {**_FIELDS, **_EXPERTS, **_LATENT}
    fields: _Fields = {names[key]: _single(metadata.get(f"{architecture}.{key}")) for key in names}
    fields |= {"model_type": reading.model_type, "torch_dtype": "float16"}
    fields["num_experts"] = metadata.get(f"{architecture}.expert_count") or None
    for length in _LENGTHS:
        key = f"{architecture}.attention.{length}"
        fields[length] = metadata.get(f"{key}_mla") or metadata.get(key)
    fields |= _fields_of_tensors(checkpoint, reading.flags)
    if reading.finish is not None:
        reading.finish(fields)
    drafts, layers = fields.get("num_nextn_predict_layers") or 0, fields.get("num_hidden_layers")
    if type(layers) is int and type(drafts) is int:
        fields["num_hidden_layers"] = layers - drafts  # block_count includes the draft modules
    return {name: value for name, value in fields.items() if value is not None and name not in _LENGTHS}


def gguf_name(metadata: Mapping[str, Any]) -> str | None:
    """Name of the model; None where the metadata has none."""
    name = metadata.get("general.name")
    return name.strip()[:100].strip() if isinstance(name, str) and name.strip() else None


def _fields_of_tensors(checkpoint: Checkpoint, flags: tuple[str, ...]) -> _Fields:
    """Fields that tensors state more reliably than metadata: size of the vocabulary, tie, biases and norms."""
    names = {tensor.name: tensor for tensor in checkpoint.tensors}
    table = names.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise BadSpec(f"{checkpoint.path}:1: token_embd.weight: missing; this is no language model, or not all of it")
    has_biases = any(name.endswith(("attn_q.bias", "attn_qkv.bias")) for name in names)
    traits = {
        "attention_bias": has_biases,
        "use_bias": has_biases,
        "mlp_bias": any(name.endswith("ffn_up.bias") for name in names),
        "use_qk_norm": any(".attn_q_norm." in name for name in names),
        "use_routing_bias": any(".exp_probs_b" in name for name in names),
    }
    fields = {"vocab_size": table.shape[1], "tie_word_embeddings": "output.weight" not in names}
    return fields | {name: traits[name] for name in flags}


def _single(value: Any) -> Any:
    """The number itself, or that of a list with the same number for every layer."""
    if isinstance(value, list) and value and len(set(map(repr, value))) == 1:
        return value[0]
    return value
