"""Refusals: models that are not decoders, unknown model types, and fields that the reader of a family ignored."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from roofline.errors import shown
from roofline.huggingface.fields import Fields
from roofline.huggingface.layers import Shape

_LONGEST_NAME = 200  # characters of a field name that are examined
_NEAREST = 3

# Model types that are not decoder language models. Most are encoders, some of which transformers also lists as causal
# models because they can be run as decoders.
_NO_DECODERS = (  # compiled on use
    r"albert|bart|beit|bert|big_?bird|blenderbot|blip|canine|clip|convnext|data2vec|deberta|deit|detr|distil|dinov|dit\b"
    r"|dream|electra|^ernie$|ernie_m|esm|flux|funnel|^git$|llada|longformer|m2m|marian|mbart|mpnet|mt5|mvp|nystromformer"
    r"|opt_encoder|pegasus|perceiver|prophetnet|reformer|roberta|roformer|segformer|siglip|swin|t5|trocr|unet|vae|vit"
    r"|wav2vec|whisper|xlm|xlnet|xmod|yoso"
)
_DECODER = "decoder"  # of ModernBERT and the like

# Fields that the reader of Llama ignores, but that say that the layers are something else.
_FOREIGN = (
    r"altup|attn_type|block_config|block_type|cross_attention_layers|expert|hybrid|index_|kda|kv_shared|latent|laurel"
    r"|layer_pattern|linear_attn|linear_num|lora_rank|mamba|moe|parallel|per_layer_input|recurren|rwkv|shared_layers|ssm"
    r"|sliding_window_pattern|state_size|swa_|time_step"
)

#: Fields that change the parameter count of some class in transformers 5.23, found by varying each on the meta device.
_COUNTED = frozenset((
    "adapter_rank", "add_bias_linear", "add_cross_attention", "altup_num_inputs", "attention_bias",
    "attention_head_dim", "attention_hidden_size", "attention_k_eq_v", "attention_out_bias", "bias",
    "block_auto_adjust_ff_dim", "block_ffn_dim_multiplier", "block_multiple_of", "block_types", "cca_time0",
    "cca_time1", "conv1d_width", "conv_L_cache", "conv_bias", "conv_kernel", "conv_kernel_size",
    "cross_attention_layers", "d_inner", "d_model", "d_rel", "decoder_sparse_step", "dff", "dim_ff", "dim_head",
    "do_layer_norm_before", "embedding_dim", "embedding_size", "enable_bias", "enable_moe_block", "expand",
    "expert_ffn_hidden_size", "expert_layer_offset", "expert_layer_period", "ffn_dim", "ffn_hidden_size",
    "ffn_proj_factor", "first_k_dense_replace", "gated_norm_rank", "gating", "global_head_dim", "hc_mult", "head_dim",
    "hidden_size", "hidden_size_per_layer_input", "index_head_dim", "index_n_heads", "input_embedding_size",
    "interleave_moe_layer_step", "intermediate_multiple_size", "intermediate_size_mlp", "is_moe", "kv_channels",
    "kv_lora_rank", "laurel_rank", "layer_group_size", "layer_norm_elementwise_affine", "linear_conv_kernel_dim",
    "linear_head_dim", "linear_key_head_dim", "linear_num_heads", "linear_num_key_heads", "linear_num_value_heads",
    "linear_value_head_dim", "lm_head_bias", "lru_width", "mamba_conv_bias", "mamba_d_conv", "mamba_d_head",
    "mamba_d_ssm", "mamba_d_state", "mamba_dt_rank", "mamba_expand", "mamba_head_dim", "mamba_n_groups",
    "mamba_n_heads", "mamba_ngroups", "mamba_num_heads", "mamba_proj_bias", "mamba_rms_norm", "mlp_bias",
    "mlp_layer_types", "mlp_only_layers", "moe_intermediate_size", "moe_latent_size", "moe_layer_end_index",
    "moe_layer_freq", "moe_layer_interval", "moe_layer_start_index", "moe_layers", "moe_num_experts",
    "moe_num_shared_experts", "moe_shared_expert_intermediate_size", "multi_query", "n_embd", "n_groups", "n_head",
    "n_inner", "n_layer", "n_layers", "n_mamba_heads", "n_positions", "n_routed_experts", "n_shared_experts",
    "new_decoder_architecture", "norm_bias", "num_attention_heads", "num_blocks", "num_dense_layers", "num_experts",
    "num_heads", "num_hidden_layers", "num_key_value_heads", "num_kv_heads", "num_kv_shared_layers", "num_layers",
    "num_layers_per_stack", "num_ln_in_parallel_attn", "num_local_experts", "num_mem_blocks", "num_shared_expert",
    "num_shared_experts", "o_groups", "o_lora_rank", "output_embedding_size", "parallel_attn",
    "position_bias_num_buckets", "projectors_bias", "q_lora_rank", "qk_head_dim", "qk_layernorm", "qk_nope_head_dim",
    "qk_rope_head_dim", "qkv_bias", "rel_extent", "router_hidden_size", "shared_expert_intermediate_size",
    "shared_experts_intermediate_size", "shared_intermediate_size", "short_conv_kernel_size", "ssm_state_size",
    "state_size", "swa_head_dim", "swa_num_attention_heads", "swa_num_key_value_heads", "time_step_rank",
    "type_vocab_size", "use_attention_gate", "use_bias", "use_cla", "use_conv_bias", "use_double_wide_mlp",
    "use_gate", "use_parallel_residual", "use_post_norm", "use_qk_norm", "use_qkv_bias", "use_sandwich_norm",
    "use_shared_attention_adapter", "v_head_dim", "vocab_size", "vocab_size_per_layer_input", "word_embed_proj_dim",
    "zero_expert_num",
))  # fmt: skip

#: Those that change nothing at a value of one.
_NEUTRAL_AT_ONE = frozenset(
    ("decoder_sparse_step", "hc_mult", "moe_layer_freq", "moe_layer_interval", "n_groups", "num_experts",
     "num_local_experts", "num_ln_in_parallel_attn", "zero_expert_num")
)  # fmt: skip


class _Noted(Mapping[str, Any]):
    """A mapping that records in `seen` which fields are read."""

    def __init__(self, values: Mapping[str, Any], seen: set[str]) -> None:
        self._values, self._seen = values, seen

    def __getitem__(self, name: str) -> Any:
        self._seen.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def noting(read: Callable[[Fields], Shape], seen: set[str]) -> Callable[[Fields], Shape]:
    """The reader, wrapped to record in `seen` the fields that it reads."""
    return lambda fields: read(Fields(_Noted(fields.values, seen), fields.where))


def refuse_no_decoder(fields: Fields, known: Collection[str]) -> None:
    """Refuse encoders, diffusion models and adapters."""
    model_type = fields.text("model_type") or ""
    if fields.flag("is_encoder_decoder"):
        raise fields.fault(
            "is_encoder_decoder", "encoder-decoder models are not supported; only decoder language models are"
        )
    if fields.has("_class_name", "_diffusers_version"):
        raise fields.fault("_class_name", "diffusion models are not supported; only decoder language models are")
    if fields.has("peft_type"):
        raise fields.fault("peft_type", "this is an adapter; give the configuration of its base model")
    lower = model_type.lower()
    if family_of(model_type, known) is None and re.search(_NO_DECODERS, lower) and _DECODER not in lower:
        raise fields.fault("model_type", f"{shown(model_type)} is not supported; only decoder language models are")


def family_of(model_type: str, known: Collection[str]) -> str | None:
    """Known type of a model or, for a multimodal wrapper, of its language model; None where neither is known."""
    return next((name for name in (model_type, f"{model_type}_text") if name in known), None)


def unknown_type(fields: Fields, known: Collection[str]) -> Exception:
    """Error for an unknown model type, with the nearest known ones."""
    model_type = fields.text("model_type")
    accept = "--assume llama (assume='llama') reads it as Llama, and says so in every answer"
    if model_type is None:
        return fields.fault("model_type", f"missing; write which family the layers are of; {accept}")
    from difflib import get_close_matches

    near = get_close_matches(model_type.lower()[:_LONGEST_NAME], known, _NEAREST, 0.6)
    stem = re.match(r"[a-z]+", model_type.lower())
    near += [name for name in sorted(known) if stem and name.startswith(stem[0]) and name not in near]
    advice = f"nearest known: {', '.join(near[:_NEAREST])}" if near else "no known family has such a name"
    return fields.fault("model_type", f"{shown(model_type)} is unknown; {advice}; {accept}")


def check_foreign(fields: Fields, seen: Collection[str]) -> None:
    """Refuse to read an unknown type as another family if an unread field contradicts it."""
    model_type = fields.text("model_type")
    for name in _unread(fields, seen):
        if name in _COUNTED or re.search(_FOREIGN, name[:_LONGEST_NAME]):
            raise fields.fault(
                name, f"not a field of the assumed family; model_type {shown(model_type)} is not supported"
            )


def check_unread(fields: Fields, family: str, seen: Collection[str]) -> None:
    """Refuse a known family with an unread field that changes the parameter count of other families."""
    for name in _unread(fields, seen):
        if name in _COUNTED:
            raise fields.fault(
                name, f"the reader of {family} does not know this field, which changes the layers of other families"
            )


def _unread(fields: Fields, seen: Collection[str]) -> Iterator[str]:
    """Fields that the reader did not read and whose values mean something."""
    for name, value in fields.values.items():
        is_neutral = not value or (type(value) is int and value == 1 and name in _NEUTRAL_AT_ONE)
        if isinstance(name, str) and not is_neutral and not name.startswith("_") and name not in seen:
            yield name
