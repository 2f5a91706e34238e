"""Reading config.json: the traps of its field names, what a family leaves unsaid, refusals that name the field."""

import pytest
from configurations import LATENT, LLAMA, MOE, config_of, document, imported, layers, model, refusal, without
from every_case import each

from roofline.catalog.huggingface.config import config_document
from roofline.physics.memory import parameters
from roofline.specs.build import model_record
from roofline.support.errors import BadSpec, UnknownName


def mixers(config):
    return [mixer for mixer, _ in layers(document(config))]


def ffns(config):
    return [ffn for _, ffn in layers(document(config))]


def test_heads_and_biases_are_those_that_are_stated_or_of_the_family():
    # attention 64*64 + 2*64*16 + 64*64, network 3*64*192, norms 2*64: 47232 a layer; two tables and a norm
    assert parameters(model(LLAMA)).total == 4 * (4096 + 2 * 1024 + 4096 + 36_864 + 128) + 2 * 64_000 + 64
    assert mixers(without(LLAMA, "num_key_value_heads"))[0]["kv_heads"] == 8
    assert mixers(LLAMA)[0]["head_dim"] == 8
    assert mixers(LLAMA | {"head_dim": 128})[0]["head_dim"] == 128
    assert "qkv_bias" not in mixers(LLAMA)[0]
    assert mixers(LLAMA | {"attention_bias": True})[0] == mixers(LLAMA)[0] | {"qkv_bias": True, "o_bias": True}
    assert mixers(LLAMA | {"model_type": "qwen2"})[0] == mixers(LLAMA)[0] | {"qkv_bias": True}
    assert mixers(LLAMA | {"model_type": "qwen3", "head_dim": 8})[0] == mixers(LLAMA)[0] | {"qk_norm": "head"}


@each(
    ("model_type", "tied"),
    [("llama", False), ("qwen2", False), ("gemma2", True), ("cohere", True), ("granite", False), ("starcoder2", True)],
)
def test_each_family_has_its_own_default_for_a_tied_head(model_type, tied):
    config = LLAMA | {"model_type": model_type}
    assert document(config)["tied"] is tied
    assert document(config | {"tie_word_embeddings": not tied})["tied"] is not tied


def test_a_window_that_is_switched_off_or_as_long_as_the_longest_context_is_none():
    config = LLAMA | {"model_type": "qwen2", "sliding_window": 512, "max_window_layers": 2}
    assert {mixer.get("window") for mixer in mixers(config)} == {None}
    windows = [mixer.get("window") for mixer in mixers(config | {"use_sliding_window": True})]
    assert windows == [None, None, 512, 512]
    for window in [2048, 262_145]:
        assert mixers(LLAMA | {"model_type": "mistral", "sliding_window": window})[0].get("window") is None
        assert mixers(LLAMA | {"model_type": "mistral", "sliding_window": 512})[0]["window"] == 512


def test_layer_types_say_which_layers_slide_or_the_family_does():
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    config = LLAMA | {"model_type": "gemma3_text", "sliding_window": 512, "layer_types": kinds, "head_dim": 8}
    assert [mixer.get("window") for mixer in mixers(config)] == [None, 512, 512, None]
    config = LLAMA | {"num_hidden_layers": 8, "sliding_window": 512, "head_dim": 8}
    second, third = (mixers(config | {"model_type": name}) for name in ("gemma2", "gemma3_text"))
    assert [mixer.get("window") for mixer in second] == [512, None] * 4
    assert [mixer.get("window") for mixer in third] == [512] * 5 + [None] + [512] * 2


def test_which_layers_are_mixtures_is_a_step_a_list_a_frequency_or_what_the_family_says():
    mixtral = LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    assert ffns(mixtral)[0] == {"kind": "moe", "experts": 8, "top_k": 2, "width": 192, "gated": True}
    assert ffns(MOE)[0] == {"kind": "moe", "experts": 16, "top_k": 4, "width": 32, "gated": True}
    kinds = [ffn["kind"] for ffn in ffns(MOE | {"decoder_sparse_step": 2})]
    assert kinds == ["dense", "moe", "dense", "moe"]
    assert [ffn["kind"] for ffn in ffns(MOE | {"mlp_only_layers": [0, 3]})] == ["dense", "moe", "moe", "dense"]
    for frequency, sparse in [(1, [1, 2, 3]), (2, [2]), ([0, 1, 0, 1], [1, 3])]:
        found = ffns(LATENT | {"moe_layer_freq": frequency})
        assert [index for index, ffn in enumerate(found) if ffn["kind"] == "moe"] == sparse
    content = document(LATENT)
    (first, first_ffn), (_, second_ffn) = layers(content)[:2]
    assert first == {"kind": "mla", "heads": 8, "q_rank": 24, "kv_rank": 16, "nope": 8, "rope": 4, "v": 8}
    assert first_ffn == {"kind": "dense", "width": 192, "gated": True}
    assert second_ffn["shared_width"] == 2 * 32
    assert second_ffn["router_bias"] is True
    assert [group["repeat"] for group in content["groups"]] == [1, 3]
    assert "router_bias" not in ffns(LATENT | {"model_type": "deepseek_v2", "topk_method": "greedy"})[1]


def test_a_shared_indexer_belongs_to_the_layer_before_and_kimis_layers_are_counted_from_one():
    index = {"index_n_heads": 4, "index_head_dim": 8, "index_topk": 256}
    config = LATENT | index | {"model_type": "glm_moe_dsa", "indexer_types": ["full", "shared", "shared", "full"]}
    assert [mixer["indexer"].get("own", True) for mixer in mixers(config)] == [True, False, False, True]
    config = LATENT | {
        "model_type": "kimi_linear",
        "num_experts": 16,
        "linear_attn_config": {"num_heads": 4, "head_dim": 16, "full_attn_layers": [4], "kda_layers": [1, 2, 3]},
    }
    assert [mixer["kind"] for mixer in mixers(config)] == ["kda"] * 3 + ["mla"]


def test_a_step_of_one_makes_every_layer_of_llama_4_a_mixture_and_three_of_four_see_a_chunk():
    config = LLAMA | {
        "model_type": "llama4_text", "intermediate_size_mlp": 384, "num_local_experts": 16, "num_experts_per_tok": 1,
        "attention_chunk_size": 512,
    }  # fmt: skip
    assert {ffn["kind"] for ffn in ffns(config | {"interleave_moe_layer_step": 1})} == {"moe"}
    found = ffns(config | {"interleave_moe_layer_step": 2})
    assert [(ffn["kind"], ffn["width"]) for ffn in found] == [("dense", 384), ("moe", 192)] * 2
    assert [mixer.get("chunk") for mixer in mixers(config)] == [512, 512, 512, None]


def test_the_letters_of_nemotron_h_are_halves_of_layers():
    config = without(LLAMA, "num_hidden_layers") | {
        "model_type": "nemotron_h", "hybrid_override_pattern": "M-M*E", "mamba_num_heads": 8, "mamba_head_dim": 16,
        "n_groups": 2, "ssm_state_size": 32, "n_routed_experts": 16, "num_experts_per_tok": 4,
        "moe_intermediate_size": 32, "n_shared_experts": 2, "moe_shared_expert_intermediate_size": 48,
        "moe_latent_size": 24,
    }  # fmt: skip
    found = layers(document(config))
    assert [(mixer["kind"], ffn["kind"]) for mixer, ffn in found] == [
        ("mamba2", "none"), ("none", "dense"), ("mamba2", "none"), ("gqa", "none"), ("none", "moe"),
    ]  # fmt: skip
    assert found[1][1]["gated"] is False
    assert (found[4][1]["shared_width"], found[4][1]["latent"]) == (96, 24)


def test_a_wrapper_is_read_inside_and_what_its_file_leaves_out_is_taken_from_its_class_and_said():
    inner = LLAMA | {"model_type": "qwen3"}
    content, cautions = imported({"model_type": "qwen3_vl", "text_config": inner, "tie_word_embeddings": True})
    assert layers(content) == layers(document(inner))
    assert content["tied"] is True
    assert "only the language model" in cautions[0]
    text = {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 34,
        "sliding_window": 1024,
    }  # fmt: skip
    content, cautions = imported({"model_type": "gemma3", "text_config": text})
    assert (content["vocab"], layers(content)[0][0]["heads"]) == (262_208, 8)
    assert any("vocab_size missing: 262208 assumed" in caution for caution in cautions)
    assert parameters(model_record(content)).total == 3_880_099_328 + 64 * 2560  # padded by 64 rows


def test_draft_modules_are_counted_apart():
    for name in ["num_nextn_predict_layers", "mtp_num_hidden_layers"]:
        assert document(LATENT | {name: 2})["mtp"] == {"layers": 2}
        assert parameters(model(LATENT | {name: 2})) == parameters(model(LATENT))
    config, _ = config_of("Qwen/Qwen3-Next-80B-A3B-Instruct")
    groups = document(config)["groups"]
    assert [(group["repeat"], len(group["pattern"])) for group in groups] == [(12, 4)]
    assert [layer["mixer"]["kind"] for layer in groups[0]["pattern"]] == ["gdn"] * 3 + ["gqa"]


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("google/gemma-3-27b-it", [(10, 6), (2, 1)]),
        ("openai/gpt-oss-120b", [(18, 2)]),
        ("deepseek-ai/DeepSeek-V3", [(3, 1), (58, 1)]),
        ("moonshotai/Kimi-K3", [(1, 1), (2, 1), (22, 4), (2, 1)]),
    ],
)
def test_groups_are_as_short_as_a_reader_would_write_them(model_id, expected):
    groups = document(*config_of(model_id))["groups"]
    assert [(group["repeat"], len(group.get("pattern", [1]))) for group in groups] == expected


def test_a_field_that_cannot_be_is_refused_by_its_name():
    for field in ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]:
        for value in [-1, 0, 1.5, "64", True, [64], 10**12, float("nan"), {}]:
            assert f" {field}: " in refusal(LLAMA | {field: value})
    for change, field in [
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"num_attention_heads": 7, "num_key_value_heads": 7}, "num_attention_heads"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"), ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["full_attention"] * 3 + ["rotating"]}, "layer_types"),
        ({"torch_dtype": "int3"}, "torch_dtype"), ({"model_type": 7}, "model_type"),
        ({"num_hidden_layers": 5000}, "num_hidden_layers"), ({"text_config": "inner"}, "text_config"),
    ]:  # fmt: skip
        assert f" {field}: " in refusal(LLAMA | change)
    text = refusal(without(LLAMA, "hidden_size", "vocab_size"))
    assert "hidden_size" in text
    assert "vocab_size" in text
    assert "num_experts_per_tok: top 20 of 16 experts" in refusal(MOE | {"num_experts_per_tok": 20})
    assert "num_local_experts: contradicts the 16 experts" in refusal(LATENT | {"num_local_experts": 8})


def test_what_is_no_language_decoder_is_refused_in_a_plain_sentence():
    for config, words in [
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"model_type": "bert", "hidden_size": 768}, "only decoder language models"),
        ({"model_type": "whisper"}, "only decoder language models"),
        ({"_class_name": "FluxTransformer2DModel"}, "diffusion"),
        ({"peft_type": "LORA"}, "adapter"),
    ]:
        assert words in refusal(config)
    for name in ["roformer", "big_bird", "data2vec-text", "ernie", "xmod", "git", "xlnet", "trocr"]:
        assert f"'{name}' is not supported; only decoder language models are" in refusal(LLAMA | {"model_type": name})


def test_an_unknown_type_is_refused_and_read_only_as_what_is_assumed():
    config = LLAMA | {"model_type": "qwen9"}
    text = refusal(config)
    assert "model_type: 'qwen9' is unknown; nearest known: qwen" in text
    assert "`assume` llama" in text
    content, cautions = config_document(config, "org/model", assume="llama")
    assert layers(content) == layers(document(LLAMA))
    assert "model_type 'qwen9' is unknown: read as llama, as assumed; its counts may be wrong" in cautions
    with pytest.raises(UnknownName, match="did you mean llama"):
        config_document(config, "org/model", assume="lama")
    for field, value in [
        ("num_experts", 64), ("kv_lora_rank", 512), ("mamba_d_state", 16), ("linear_attn_config", {"a": 1}),
        ("index_topk", 2048), ("sliding_window_pattern", 6), ("cross_attention_layers", [3]),
    ]:  # fmt: skip
        with pytest.raises(BadSpec, match=f" {field}: not a field of the assumed family"):
            config_document(LLAMA | {"model_type": "newcomer", field: value}, "org/model", assume="llama")
    content, cautions = config_document(MOE, "org/model", assume="llama")
    assert (content, cautions) == imported(MOE)


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_experts", 64), ("kv_lora_rank", 512), ("use_qk_norm", True), ("mamba_d_state", 16), ("n_shared_experts", 1)],
)
def test_a_field_that_changes_other_families_and_that_nobody_read_is_refused(field, value):
    assert f" {field}: the reader of llama does not know this field" in refusal(LLAMA | {field: value})
    assert document(LLAMA | {field: None}) == document(LLAMA)
