"""Fields of a configuration that a reader did not read: harmless, said, or a reason to refuse.

No field may be passed over that could change the layers. Which do was found by varying each on torch's meta device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from roofline.catalog.huggingface.blocks import Fields, Shape
from roofline.support.errors import printable, shown

_LONGEST_NAME = 200  # characters of a name that are examined
_MOST_NAMED = 8  # fields that one caution lists

# Fields that the reader of Llama ignores, but that say that the layers are something else.
_FOREIGN = (
    r"altup|attn_type|block_config|block_type|cross_attention_layers|expert|hybrid|index_|kda|kv_shared|latent|laurel"
    r"|layer_pattern|linear_attn|linear_num|lora_rank|mamba|moe|parallel|per_layer_input|recurren|rwkv|shared_layers|ssm"
    r"|sliding_window_pattern|state_size|swa_|time_step"
)

#: Fields that change the parameter count of some class in transformers 5.24, found by varying each on the meta device.
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
    "num_shared_experts", "o_groups", "o_lora_rank", "output_embedding_size",
    "output_vocab_size", "parallel_attn",
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

#: Words of fields that change no layer: tokens, training, activations, positions, scales, number formats, software.
_HARMLESS = re.compile(
    r"_token|token_i|_ids?$|_plan$|dropout|prob(s|$)|eps$|epsilon|coeff?|_loss|_act(_fn)?$|activation|dtype|fp32|version|label"
    r"|^output_|^return_|cache$|cache_|temperature|beam|penalty|pdrop|^summary_|jitter|pretraining|gradient|checkpoint"
    r"|architectures|auto_map|^afn$|^is_|^_|attn_implementation|flash_attn|kernels?$|logit|softmax|softcap|deterministic|debug"
    r"|^(top_[kp]|typical_p|(max|min)_(new_)?(length|tokens)|seed|scoring_func|seq_aux|time_step_(floor|max|min)|rotary_dim)$"
    r"|^(query_pre_attn_scalar|kda_lower_bound|linear_lower_bound|learned_pos_emb|mup_enabled|use_associative_scan)$"
    r"|^(vision|audio|speech|quantization|compression|generation|talker|code2wav|image|video|sound)_|tokenizer|license"
)
#: The same, unless a word says that it is a size.
_SCALES = re.compile(r"init|theta|rope|rotary|scal(e|ing)|multiplier|factor|clip|alpha|beta|std$|range$|limit$|method$")
_SIZED = re.compile(r"dim|size|rank|width|hidden|ffn|mlp|head|layer|expert|expan|num_|memor|lookup|table")

#: Words of fields that may change layers.
_STRUCTURAL = re.compile(
    r"layer|head|dim|size|rank|width|expert|moe|kv|mem|lookup|sparse|shar|window|block|table|stream|loop|recur|adapter"
    r"|latent|rout|hidden|num_|n_|pattern|mixer|ffn|mlp|ssm|mamba|conv|gat(e|ing)|state|attn|attention|hash|gram|index"
    r"|compress|bias|norm|embed|group|depth|every|interval|period|freq|mtp|nextn|draft|vocab|tie|proj|residual|altup"
    r"|laurel|qk|lora|chunk|slid|local|global|type|cycle|expan|engram|pool|hyper|skip|cross|encoder|bank|slot|config"
)

#: Fields with such words that change no layer of any class in transformers 5.24, or of the models that state them.
_KNOWN = frozenset((
    "aggregate_tokens", "alignment_intermediate_size", "apply_query_key_layer_scaling",
    "apply_residual_connection_post_layernorm", "attention_method", "attention_multiplier", "attention_value_scale",
    "attn_res_block_size", "attn_scale", "attn_temperature_tuning", "bias_dropout_fusion", "block_dim", "block_size",
    "block_use_swiglu", "chunk_size", "chunk_size_feed_forward", "classifier_bias", "classifier_pooling",
    "compress_rope_theta", "conv_dim", "conv_dim_out", "decoder_start_token_id", "dim_model_base",
    "drop_vision_last_layer", "embedding_fraction", "embedding_multiplier", "embedding_scale",
    "dspark_block_size", "dspark_n_routed_experts", "dspark_num_experts_per_tok",  # of the draft
    "engram_compressed_vocab_size", "engram_head_dim", "engram_max_ngram_size", "engram_n_heads",
    "engram_num_embeddings", "engram_vocab_size", "ep_size",
    "expert_selection_fn", "experts_per_token", "force_image_size", "group_limited_greedy", "hc_sinkhorn_iters",
    "heads_per_ngram", "hidden_act", "hidden_activation", "image_text_hidden_size", "index_kpool_always_select_tail",
    "index_local_blocks", "index_share_for_mtp_iteration", "index_skip_topk_offset", "index_topk_freq",
    "indexer_rope_interleave", "initial_context_length", "input_scale", "insert_layer_id", "intermediate_size",
    "interleaved_qkv", "kda_safe_gate", "latent_moe_use_norm", "layer_rope_theta", "layerdrop", "layernorm_epsilon",
    "lm_head_multiplier", "logits_scaling", "make_ngram_vocab_size_divisible_by", "mamba_chunk_size",
    "mamba_norm_before_gate", "max_window_layers", "merge_kernel_size", "merged_hidden_size", "mla_scale_kv_lora",
    "mla_scale_q_lora", "mla_use_nope", "mlp_alpha_factor", "mlp_beta_factor", "mlp_hidden_act", "mlp_kind",
    "mlp_multipliers", "model_type", "moe_apply_router_weight_on_input", "moe_drop_tokens", "moe_k",
    "moe_norm_min", "moe_random_routing_dropped_token", "moe_renormalize", "moe_routed_scaling_factor",
    "moe_router_activation_func", "moe_router_dtype", "moe_router_scaling_factor", "moe_shared_expert_overlap",
    "moe_topk", "mtp", "mtp_hybrid_override_pattern", "mtp_layer_types", "mtp_layers_block_type",
    "mtp_mlp_layer_types", "mtp_num_hidden_layers", "mtp_transformer_layers", "multimodal_projector_bias", "n_ctx",
    "n_group", "ngram_size", "ngram_vocab_size_base", "no_rope_layer_interval", "no_rope_layers", "norm_head",
    "norm_topk_prob", "norm_type", "num_beam_groups", "num_beams", "num_channels", "num_expert_group",
    "num_experts_per_tok", "num_experts_per_token", "num_labels", "num_logits_to_keep", "num_media_embeds",
    "num_mtp_layers", "num_mtp_modules", "num_nextn_predict_layers", "num_return_sequences",
    "num_sliding_attention_heads", "number_of_conv_states", "original_max_position_embeddings", "output_gate_type",
    "partial_rotary_factor", "patch_size", "per_layer_config", "ple_conv_kernel_size", "ple_embed_dim", "pool_type",
    "position_embedding_type", "position_embedding_xdrope",
    "problem_type", "prefix_dense_sliding_window_pattern", "projection_dim",
    "projection_hidden_size", "projector_bias", "projector_hidden_act", "projector_hidden_size",
    "projector_use_layernorm", "qk_norm", "qk_scale_factor", "reorder_and_upcast_attn", "residual_gate_temperature",
    "residual_in_fp32", "rope_head_dim", "rope_interleave", "rope_parameters", "rope_scaling", "scale_embedding",
    "rescale_layers", "rescale_prenorm_residual", "scale_attn_by_inverse_layer_idx", "scale_attn_weights",
    "scale_depth",
    "shared_expert_combination_strategy", "sliding_window", "sliding_window_pattern", "_sliding_window_pattern",
    "spatial_merge_size", "split_ngram_parts", "ssm_multipliers", "swiglu_limits_shared", "tie_encoder_decoder",
    "token_classification_bias", "top_k_experts", "topk_group", "torch_dtype", "unsloth_fixed",
    "use_bidirectional_attention", "use_cache", "use_dynamic_ntk", "use_expert_bias", "use_gemma_norm",
    "use_grouped_topk", "use_logn_attn", "use_mamba_kernels", "use_mambapy", "use_pos_enc", "use_rmsnorm",
    "use_sliding_window", "window_size",
))  # fmt: skip
#: Kinds of layers that any reader may pass over.
_PLAIN = ("full_attention", "deepseek_sparse_attention")


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


def check_foreign(fields: Fields, seen: Collection[str]) -> None:
    """Refuse to read an unknown type as another family if an unread field contradicts it."""
    unsupported = f"model_type {shown(fields.text('model_type'))} is not supported"
    for name in _unread(fields, seen):
        if name in _COUNTED or re.search(_FOREIGN, name[:_LONGEST_NAME]):
            raise fields.fault(name, f"not a field of the assumed family; {unsupported}")


def check_unread(fields: Fields, family: str, seen: Collection[str]) -> tuple[str, ...]:
    """Cautions about fields of a known family that its reader did not read.

    Raises:
        BadSpec: one of them changes the layers of other families, or by its name may change these.
    """
    unknown = []
    for name in _unread(fields, seen):
        if name in _COUNTED:
            what = "this field, which changes the layers of other families"
            raise fields.fault(name, f"the reader of {family} does not know {what}")
        if name == "layer_types":
            _check_kinds(fields, family)
        elif name in _KNOWN or _is_harmless(name):
            continue
        elif _STRUCTURAL.search(name[:_LONGEST_NAME]):
            way = "describe the model as a specification, or delete the field if it changes no layer"
            raise fields.fault(name, f"unknown to the reader of {family} and to every class in transformers; {way}")
        else:
            unknown.append(printable(name[:_LONGEST_NAME]))
    if not unknown:
        return ()
    more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
    return (f"not read, as no known model has them: {', '.join(unknown[:_MOST_NAMED])}{more}",)


def _is_harmless(name: str) -> bool:
    name = name[:_LONGEST_NAME]
    return bool(_HARMLESS.search(name)) or bool(_SCALES.search(name) and not _SIZED.search(name))


def _check_kinds(fields: Fields, family: str) -> None:
    """Refuse kinds of layers that the reader of a family does not look at."""
    kinds = fields.values["layer_types"]
    other = next((kind for kind in kinds if kind not in _PLAIN), None) if isinstance(kinds, list) else kinds
    if other is not None:
        raise fields.fault("layer_types", f"the reader of {family} does not know layers of the kind {shown(other)}")


def _unread(fields: Fields, seen: Collection[str]) -> Iterator[str]:
    """Fields that the reader did not read and whose values mean something."""
    for name, value in fields.values.items():
        is_neutral = not value or (type(value) is int and value == 1 and name in _NEUTRAL_AT_ONE)
        if isinstance(name, str) and not is_neutral and not name.startswith("_") and name not in seen:
            yield name
