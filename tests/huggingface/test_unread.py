"""Fields that a reader does not know, fields that a file leaves out, and files without a model_type."""

import json

import pytest
from configurations import FIXTURES, IDS, LATENT, LLAMA, config_of, document, imported, layers, model, refusal, without

from roofline.catalog.huggingface.absent import _ASSUMED, assumed
from roofline.catalog.huggingface.blocks import Fields
from roofline.catalog.huggingface.config import config_document
from roofline.catalog.huggingface.unread import _COUNTED, _KNOWN
from roofline.physics.memory import parameters
from roofline.support.errors import BadSpec

DRAWN = json.loads((FIXTURES / "oracle" / "drawn.json").read_text(encoding="utf-8"))["rows"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_memory_layers", 4),
        ("memory_config", {"slots": 8}),
        ("kv_sharing_groups", [[0, 1]]),
        ("use_conv_ffn", True),
    ],
)
def test_a_field_that_no_model_has_is_refused_if_its_name_speaks_of_layers_and_its_value_means_something(field, value):
    text = refusal(LLAMA | {field: value})
    assert f" {field}: unknown to the reader of llama" in text
    assert "specification" in text
    for nothing in (0, None, False, [], {}):
        assert document(LLAMA | {field: nothing}) == document(LLAMA)


def test_other_unknown_fields_are_named_and_known_ones_are_not():
    _, cautions = imported(LLAMA | {"favourite_colour": "blue", "rope_theta": 1e6, "attention_dropout": 0.1})
    assert [text for text in cautions if "not read" in text] == [
        "not read, as no known model has them: favourite_colour"
    ]
    many = {f"favourite_colour_{number}": 1 for number in range(20)}
    assert "and 12 more" in imported(LLAMA | many)[1][-1]
    assert not _COUNTED & _KNOWN
    for name in IDS[::12]:
        config, quantization = config_of(name)
        assert not [text for text in config_document(config, name, quantization).cautions if "not read" in text]


def test_kinds_of_layers_that_a_reader_does_not_look_at_are_refused():
    config = LLAMA | {"model_type": "granite_docling_text", "layer_types": ["linear_attention"] * 4}
    assert " layer_types: " in refusal(config)
    full = ["full_attention"] * 4
    assert document(config | {"layer_types": full}) == document(without(config, "layer_types"))


def test_a_field_that_is_left_out_has_the_value_that_its_class_assumes_and_the_answer_says_so():
    found = 0
    for row in [row for row in DRAWN if row["seed"] == 1]:
        config = row["config"]
        for name, values in _ASSUMED.items():
            value = next((value for value, types in values if config["model_type"] in types.split()), None)
            if value is None or name not in config or "per_layer_config" in config:
                continue
            try:
                wanted = document(config | {name: value})
            except BadSpec:  # heads that cannot share as many
                continue
            got, cautions = imported(without(config, name))
            assert got["groups"] == wanted["groups"], (row["type"], name)
            found += any(text.startswith(f"{name} missing: {value} assumed") for text in cautions)
    assert found > 40


@pytest.mark.parametrize(
    ("model_type", "field", "count"),
    [
        ("gpt_oss", "head_dim", 2_042_568), ("laguna", "shared_expert_intermediate_size", 6_777_226),
        ("dots1", "num_key_value_heads", 1_198_336), ("glm", "head_dim", 12_376_224), ("gemma", "head_dim", 3_520_640),
        ("exaone_moe", "num_shared_experts", 8_540_832), ("deepseek_v2", "q_lora_rank", 3_425_808),
        ("gemma3n_text", "hidden_size_per_layer_input", 3_178_880), ("lfm3", "head_dim", 1_616_128),
    ],
)  # fmt: skip
def test_what_torch_holds_of_a_file_without_a_field(model_type, field, count):
    config = next(row["config"] for row in DRAWN if row["type"] == model_type)
    config = without(config, field)
    if model_type == "dots1":  # the class has 32 of them, which these heads cannot share
        assert "num_key_value_heads: 32 does not divide" in refusal(config)
        return
    got = parameters(model(config)).total
    assert count <= got <= count * 1.0001


def test_null_is_not_absence():
    stated = Fields({"model_type": "deepseek_v3", "q_lora_rank": None}, "config.json")
    assert "q_lora_rank" not in assumed("deepseek_v3", stated)
    assert assumed("deepseek_v3", Fields({}, "config.json"))["q_lora_rank"] == 1536
    config = without(LATENT, "q_lora_rank")
    assert layers(document(config))[0][0]["q_rank"] == 1536
    assert "q_rank" not in layers(document(config | {"q_lora_rank": None}))[0][0]


def test_a_missing_model_type_is_the_one_that_architectures_names():
    config = without(LLAMA, "model_type")
    got, cautions = imported(config | {"architectures": ["LlamaForCausalLM"]})
    assert got["groups"] == document(LLAMA)["groups"]
    assert "model_type missing: read as llama, as architectures says" in cautions
    for names in (["MysteryForCausalLM"], ["LlamaForCausalLM", "Qwen2ForCausalLM"], "LlamaForCausalLM", [7], []):
        assert "model_type: missing" in refusal(config | {"architectures": names})


@pytest.mark.parametrize(
    ("wrapper", "outer", "inner", "tied"),
    [
        ("blip-2", True, False, False), ("blip-2", False, True, True), ("llava_onevision", False, True, True),
        ("omniasr", True, True, False), ("llava", True, False, True), ("nemotron_h_omni", True, False, False),
    ],
)  # fmt: skip
def test_who_says_whether_a_wrapped_head_is_tied(wrapper, outer, inner, tied):
    config = {
        "model_type": wrapper,
        "tie_word_embeddings": outer,
        "text_config": LLAMA | {"tie_word_embeddings": inner},
    }
    assert document(config)["tied"] is tied


def test_a_wrapper_that_does_not_say_whether_the_head_is_tied_is_doubted_where_its_class_disagrees():
    wrapped = {"model_type": "mistral3", "text_config": LLAMA}
    found, cautions = imported(wrapped)
    assert found["tied"] is False
    assert [
        text for text in cautions if text.startswith("tie_word_embeddings missing: head and embedding are separate")
    ]
    for config in (wrapped | {"tie_word_embeddings": False}, wrapped | {"model_type": "qwen3_vl"}):
        assert not [text for text in imported(config)[1] if "tie_word_embeddings" in text]


def test_the_thinker_of_a_speaking_model_is_read_and_the_talker_left_out():
    text = LLAMA | {"model_type": "qwen2_5_omni_text"}
    config = {
        "model_type": "qwen2_5_omni",
        "thinker_config": {"text_config": text},
        "talker_config": {"hidden_size": 7},
    }
    got, cautions = imported(config)
    assert got["groups"] == document(LLAMA | {"model_type": "qwen2"})["groups"]
    assert any("thinker" in text for text in cautions)


def test_the_heads_of_some_families_are_never_tied():
    config = next(row["config"] for row in DRAWN if row["type"] == "bailing_hybrid")
    assert " tie_word_embeddings: " in refusal(config | {"tie_word_embeddings": True})


def test_gpt_neo_has_a_window_on_its_local_layers():
    config = next(row["config"] for row in DRAWN if row["type"] == "gpt_neo")
    config = without(config, "attention_layers") | {"attention_types": [[["global", "local"], 3]]}
    assert [mixer.get("window") for mixer, _ in layers(document(config))] == [None, 256] * 3
    for pairs in ([[["global"], 2]], [[["global", "narrow"], 3]], [["global", 6]], "global", [[["global"], 10**9]]):
        assert " attention_types: " in refusal(config | {"attention_types": pairs})
