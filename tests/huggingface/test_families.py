"""Families that people run: their counts against torch's (transformers 5.23, on the meta device), and their kernels.

The drawn configurations are those of tests/fixtures/oracle, which accuracy/build_oracle.py writes; the others were
counted in the same way. Stated counts are those of publishers.
"""

import json

import pytest
from configurations import FIXTURES, LATENT, LLAMA, MOE, document, layers, model, refusal
from every_case import each

import roofline as rl
from roofline.numbers.quantity import BILLION
from roofline.physics.layers.networks import distinct_experts
from roofline.physics.memory import active_parameters, kv_bytes_per_token, parameters, state_bytes_per_sequence
from roofline.physics.passes import decode_pass
from roofline.specs.gpu import GEMM
from roofline.specs.gpu import MOE as EXPERTS
from roofline.support.errors import BadInput

DRAWN = json.loads((FIXTURES / "oracle" / "drawn.json").read_text())["rows"]
TYPES = (
    "afmoe", "bailing_hybrid", "bamba", "biogpt", "bloom", "codegen", "cohere2_moe", "cwm", "dbrx", "dots1",
    "ernie4_5", "ernie4_5_moe", "exaone4", "exaone_moe", "falcon_h1", "falcon_mamba", "flex_olmo", "gemma3n_text",
    "gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text", "gpt-sw3", "gpt2", "gpt_bigcode", "gptj",
    "granite_swa", "granitemoe_swa", "granitemoeshared", "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3",
    "hyperclovax", "internlm3", "iquestcoder", "jais2", "laguna", "lfm2", "lfm2_moe", "lfm3", "mamba", "mamba2",
    "mellum", "minicpm3", "ministral", "nanochat", "olmo", "opt", "persimmon", "phimoe", "qwen3_vl", "smollm3",
    "solar_open", "vaultgemma", "youtu",
)  # fmt: skip
#: What is refused in some draws, and the field that says so.
REFUSED = ("attention_bias", "use_bias", "mamba_proj_bias")
SMALL = {"hidden_size": 64, "vocab_size": 600, "intermediate_size": 96, "num_attention_heads": 4}
TINY = SMALL | {"num_hidden_layers": 3, "num_key_value_heads": 2, "tie_word_embeddings": False}
FEW_EXPERTS = {
    "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}  # fmt: skip
#: Configurations that are not drawn: type, fields, torch's count.
COUNTED = [
    ("mamba", {"vocab_size": 1000, "hidden_size": 96, "num_hidden_layers": 3, "state_size": 8, "expand": 3,
               "conv_kernel": 3, "time_step_rank": 5}, 379_776),
    ("falcon_mamba", {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 4, "time_step_rank": 9}, 200_000),
    ("falcon_mamba", {"vocab_size": 500, "hidden_size": 160, "num_hidden_layers": 2}, 435_680),
    ("helium", {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
                "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 200}, 634_752),
    ("muse_glimmer_text", SMALL | {"num_hidden_layers": 5, "num_key_value_heads": 2, "head_dim": 24,
                                   "sliding_window": 32}, 293_184),
    ("mllama_text_model", SMALL | {"num_hidden_layers": 5, "num_key_value_heads": 2, "cross_attention_layers": [1, 3]},
     231_684 - 8 * 64),  # the eight rows that the embedding has more than the head
    ("glm4v_text", TINY, 170_176),
    ("glm_ocr_text", TINY | {"head_dim": 16}, 169_792),
    ("paddleocr_vl_text", TINY | {"head_dim": 24, "tie_word_embeddings": True}, 149_440),
    ("hunyuan_vl_text", TINY | {"head_dim": 24, "tie_word_embeddings": True}, 149_584),
    ("apertus1p5_text", TINY, 151_078 - 6),  # scalars of the activation
    ("sarvam_moe", TINY | FEW_EXPERTS | {"head_dim": 16}, 244_256 + 16),  # biases that correct a router's choice
    ("sarvam_mla", TINY | FEW_EXPERTS | {
        "kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
    }, 230_456 + 16),
]  # fmt: skip


def test_a_configuration_has_the_parameters_that_torch_counts():
    for name in TYPES:
        rows = [row for row in DRAWN if row["type"] == name]
        assert rows
        counted = 0
        for row in rows:
            refused = next((field for field in REFUSED if row["config"].get(field)), None)
            try:
                count = parameters(model(row["config"])).total
            except rl.RooflineError as fault:
                assert f" {refused}: " in str(fault)
                continue
            counted += 1
            assert (
                row["parameters"] <= count <= row["parameters"] + row["buffers"]
            )  # biases that correct a router's choice
        assert counted
    for name, fields, count in COUNTED:
        assert parameters(model({"model_type": name} | fields)).total == count


def test_large_models_are_as_large_as_stated_and_share_caches():
    config = LATENT | {
        "model_type": "longcat_flash", "hidden_size": 6144, "num_layers": 28, "num_attention_heads": 64,
        "vocab_size": 131_072, "ffn_hidden_size": 12_288, "expert_ffn_hidden_size": 2048, "n_routed_experts": 512,
        "zero_expert_num": 256, "moe_topk": 12, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "num_experts_per_tok": 12,
    }  # fmt: skip
    for name in (
        "num_hidden_layers", "num_key_value_heads", "intermediate_size", "n_shared_experts", "moe_intermediate_size",
    ):  # fmt: skip
        config.pop(name)
    config.pop("first_k_dense_replace")
    longcat = model(config)
    assert parameters(longcat).total == pytest.approx(560 * BILLION, rel=2e-3)  # 560 B, arXiv:2509.01322
    assert active_parameters(longcat) == pytest.approx(27 * BILLION, rel=0.01)  # 18.6 B to 31.3 B, 27 B in the mean
    assert kv_bytes_per_token(longcat) == 56 * (512 + 64) * 2
    ffn = next(ffn for _, ffn in longcat.ffns if hasattr(ffn, "zero_experts"))
    assert ffn.chosen == 8
    assert distinct_experts(ffn, 1.0, None) == pytest.approx(8.0)
    config = {
        "model_type": "hunyuan", "hidden_size": 6400, "num_hidden_layers": 64, "num_attention_heads": 80,
        "num_key_value_heads": 8, "intermediate_size": 18_304, "vocab_size": 129_024, "num_experts": 16, "moe_topk": 1,
        "num_shared_expert": 1, "use_mixed_mlp_moe": True, "use_cla": True, "cla_share_factor": 2, "use_qk_norm": True,
        "tie_word_embeddings": True,
    }  # fmt: skip
    assert parameters(model(config)).total == pytest.approx(389 * BILLION, rel=2e-3)  # arXiv:2411.02265
    assert kv_bytes_per_token(model(config)) == 32 * 2 * 8 * 80 * 2
    assert kv_bytes_per_token(model(config | {"use_cla": False})) == 64 * 2 * 8 * 80 * 2
    ling = {
        "model_type": "bailing_moe", "hidden_size": 5376, "num_hidden_layers": 88, "num_attention_heads": 56,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12_288, "moe_intermediate_size": 3072,
        "num_experts": 64, "num_experts_per_tok": 4, "num_shared_experts": 1, "vocab_size": 126_464, "use_bias": False,
    }  # fmt: skip
    assert parameters(model(ling)).total == pytest.approx(290 * BILLION, rel=0.01)
    glm = {
        "model_type": "chatglm", "hidden_size": 4096, "num_layers": 40, "num_attention_heads": 32, "kv_channels": 128,
        "ffn_hidden_size": 13_696, "padded_vocab_size": 151_552, "multi_query_attention": True,
        "multi_query_group_num": 2, "add_qkv_bias": True, "add_bias_linear": False, "rmsnorm": True,
    }  # fmt: skip
    assert parameters(model(glm)).total == pytest.approx(9.4 * BILLION, rel=1e-3)  # 9.40 B


def test_layers_share_caches_attend_to_images_or_keep_inputs_by_hand(tmp_path):
    config = LLAMA | {
        "model_type": "gemma3n_text", "head_dim": 8, "num_key_value_heads": 2, "layer_types": ["full_attention"] * 4,
        "sliding_window": 512, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 16, "laurel_rank": 4,
        "vocab_size_per_layer_input": 900,
    }  # fmt: skip
    own = config | {"num_kv_shared_layers": 0}
    assert kv_bytes_per_token(model(own)) == 2 * kv_bytes_per_token(model(config)) == 4 * 2 * 2 * 8 * 2
    read = [_kernels(each)["attention"].work.kv_bytes for each in (config, own)]
    assert read[0] == read[1] > 0
    config = LLAMA | {"model_type": "lfm2", "layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 5}
    found = model(config | {"block_auto_adjust_ff_dim": False})
    assert state_bytes_per_sequence(found) == 2 * (5 - 1) * 64 * 2
    conv = _kernels(config)["conv (short conv)"].work
    assert (conv.flop, conv.kv_bytes) == ((2 * 5 + 2) * 64, 2 * 4 * 64 * 2)
    assert (conv.weight_bytes, conv.activation_bytes) == (5 * 64 * 2, 4 * 64 * 2)
    config = LLAMA | {"model_type": "mllama_text_model", "cross_attention_layers": [1]}
    alone = LLAMA | {"num_hidden_layers": 3}
    assert parameters(model(config)).total > parameters(model(alone)).total
    assert _pass(config).time == _pass(alone).time
    assert kv_bytes_per_token(model(config)) == kv_bytes_per_token(model(alone))
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 500}
    kernels = _kernels(config)
    assert kernels["positions"].work.weight_bytes == kernels["embedding"].work.weight_bytes == 64 * 2
    with pytest.raises(BadInput, match="learned positions"):
        rl.sheet(str(tmp_path / "a.xlsx"), [model(config)], ["h100-sxm"])


@each("name", ["lfm2_moe", "falcon_h1", "gemma4_text", "hunyuan_v1_moe", "gpt2", "lfm3", "phimoe"])
def test_every_matrix_is_multiplied_with_once_a_token(name):
    config = next(row["config"] for row in DRAWN if row["type"] == name)
    found = model(config)
    count = parameters(found)
    idle = parameters(found).total - active_parameters(found, "all")
    wanted = count.linear + count.attention + count.shared + count.router + count.experts - idle
    wanted += found.vocab * found.hidden
    done = sum(kernel.count * kernel.work.flop for kernel in _pass(config).kernels if kernel.kind in (GEMM, EXPERTS))
    assert done == pytest.approx(2.0 * wanted, rel=1e-9)


def test_windows_of_exaone_follow_a_text_or_a_number_and_what_cannot_be_counted_is_refused():
    config = LLAMA | {"model_type": "exaone4", "sliding_window": 512}
    for pattern in ("LLLG", 4):
        mixers = [mixer for mixer, _ in layers(document(config | {"sliding_window_pattern": pattern}))]
        assert [mixer.get("window") for mixer in mixers] == [512, 512, 512, None]
    for config, words in [
        ({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 9, "vocab_size": 9}
         | {"add_cross_attention": True}, "add_cross_attention"),
        ({"model_type": "opt", "num_hidden_layers": 2, "ffn_dim": 9, "max_position_embeddings": 9}
         | SMALL | {"word_embed_proj_dim": 32}, "word_embed_proj_dim"),
        (MOE | {"model_type": "bailing_moe", "use_bias": True}, "use_bias"),
        (MOE | {"model_type": "hunyuan", "moe_topk": [1, 1, 2, 2]}, "moe_topk"),
    ]:  # fmt: skip
        assert f" {words}: " in refusal(config)


def _pass(config):
    deployment = rl.predict(model(config), "h100-sxm", basis="ideal", engine="none", tp=1).deployment
    return decode_pass(deployment, 1.0, 8.0)


def _kernels(config):
    return {kernel.name: kernel for kernel in _pass(config).kernels}
