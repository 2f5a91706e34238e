"""Values that a class assumes where a configuration leaves a field out.

From the configuration classes of transformers 5.24 (https://github.com/huggingface/transformers,
src/transformers/models): every field whose absence changes the layers, unless a reader requires it or knows better.
"""

from __future__ import annotations

from collections.abc import Mapping

from roofline.catalog.huggingface.blocks import Fields

#: Field -> the values it has where absent, each with the model types whose classes say so.
_ASSUMED: Mapping[str, tuple[tuple[int, str], ...]] = {
    "attention_bias": ((True, "glm glm4 glm4v_moe_text"),),
    "attention_chunk_size": ((8192, "llama4 llama4_text"),),
    "conv_L_cache": ((7, "lfm3"),),
    "first_k_dense_replace": (
        (1, "glm4_moe glm4_moe_lite glm4v_moe_text mimo_v2_flash"),
        (3, "deepseek_v3 step3p5 step3p7"),
    ),
    "global_head_dim": ((512, "gemma4 gemma4_text gemma4_unified gemma4_unified_text"),),
    "hc_mult": ((4, "deepseek_v4"),),
    "head_dim": (
        (64, "gpt_oss muse_spark_text sarvam_moe"),
        (
            128,
            (
                "afmoe cohere2_moe cwm ernie4_5 flint glm glm4 hy_v3 internlm3 iquestcoder kolibri1 laguna lfm3 "
                "llama4 llama4_text mellum minimax_m2 minimax_m3_vl_text ministral3 muse_glimmer_text "
                "paddleocr_vl_text qwen3 qwen3_vl_text seed_oss solar_open step3p5"
            ),
        ),
        (256, "gemma gemma2 gemma3_text qwen3_5_moe_text qwen3_5_text qwen3_next qwen4_exp_text vaultgemma"),
    ),
    "hidden_size_per_layer_input": ((256, "gemma3n gemma3n_text gemma4 gemma4_text"),),
    "max_position_embeddings": ((131_072, "gemma3_text"),),
    "moe_num_shared_experts": ((2, "ernie4_5_moe"),),
    "n_shared_experts": (
        (
            1,
            (
                "deepseek_v3 deepseek_v32 deepseek_v4 glm4_moe glm4_moe_lite glm4v_moe_text glm5_next_text "
                "glm_moe_dsa mistral4 solar_open"
            ),
        ),
        (2, "deepseek_v2"),
    ),
    "num_attention_heads": ((8, "gemma3_text"),),
    "num_key_value_heads": (
        (
            2,
            (
                "ernie4_5 glm glm4 glm4v_text internlm3 muse_glimmer_text paddleocr_vl_text qwen3_5_moe_text "
                "qwen3_next qwen4_exp_text starcoder2"
            ),
        ),
        (
            4,
            (
                "ernie4_5_moe flint gemma2 gemma3_text gemma4 gemma4_text gemma4_unified gemma4_unified_text "
                "granite_docling_text granite_swa kolibri1 lfm3 mellum minimax_m3_vl_text qwen2_5_omni_text "
                "qwen3_5_text qwen3_moe qwen3_omni_moe_text sarvam_moe smollm3 vaultgemma"
            ),
        ),
        (
            8,
            (
                "cosmos3_edge_text cwm emu3_text_model exaone glm4_moe glm4v_moe_text glm_ocr_text gpt_oss hy_v3 "
                "iquestcoder jamba laguna lfm2 lfm2_moe llama4 llama4_text minimax minimax_m2 ministral ministral3 "
                "mistral mixtral mllama_text_model phimoe qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text seed_oss "
                "solar_open step3p5"
            ),
        ),
        (16, "gemma muse_spark_text qwen2_moe qwen3_vl_moe_text"),
        (32, "dots1 exaone4 exaone_moe qwen2 qwen3 qwen3_vl_text stablelm"),
    ),
    "num_kv_shared_layers": ((15, "gemma3n gemma3n_text"),),
    "num_shared_experts": (
        (1, "bailing_hybrid exaone_moe kimi_linear"),
        (2, "afmoe"),
    ),
    "q_lora_rank": (
        (768, "glm4_moe_lite"),
        (1_024, "mistral4"),
        (1536, "axk1 deepseek_v2 deepseek_v3 longcat_flash"),
    ),
    "share_expert_dim": ((1280, "step3p5 step3p7"),),
    "shared_expert_intermediate_size": (
        (512, "kolibri1 laguna qwen3_5_moe_text qwen3_next qwen4_exp_text"),
        (1_024, "flint"),
        (5632, "qwen2_moe"),
    ),
    "shared_intermediate_size": ((3072, "minimax_m3_vl_text"),),
    "v_head_dim": ((128, "mimo_v2_flash"),),
    "vocab_size": ((262_208, "gemma3_text"),),
    "zero_expert_num": ((256, "longcat_flash"),),
}

#: Fields that say the same as one that is absent.
_INSTEAD: Mapping[str, tuple[str, ...]] = {
    "first_k_dense_replace": ("mlp_layer_types", "moe_layer_freq", "moe_layers_enum", "mlp_only_layers"),
    "num_key_value_heads": ("num_attention_groups", "num_global_key_value_heads"),
    "shared_expert_intermediate_size": ("shared_expert_dim",),
    "head_dim": ("attention_head_dim",),
}
#: Settings of single layers, in place of those that differ between kinds of layers.
_BY_LAYER, _OF_LAYERS = "per_layer_config", "global_head_dim"
#: Fields that publishers and tools leave out to say none, where the class would assume a value.
_READ_AS_NONE: Mapping[str, tuple[tuple[int, str], ...]] = {"sliding_window": ((4096, "mistral"),)}


def assumed(family: str, fields: Fields) -> dict[str, int]:
    """Values that the class of a family assumes for the fields that a configuration leaves out; null is no absence."""
    by_layer = fields.values.get(_BY_LAYER)
    found = {}
    for name, values in _ASSUMED.items():
        is_stated = name in fields.values or (by_layer is not None and name == _OF_LAYERS)
        if is_stated or fields.has(*_INSTEAD.get(name, ())):
            continue
        value = next((value for value, types in values if family in types.split()), None)
        if value is not None:
            found[name] = value
    return found


def read_as_none(family: str, fields: Fields) -> tuple[str, ...]:
    """Cautions about fields that are absent and read as none, though the class would assume a value."""
    return tuple(
        f"{name} missing: none assumed, where the class in transformers would take {value}"
        for name, values in _READ_AS_NONE.items()
        for value, types in values
        if name not in fields.values and family in types.split()
    )
