"""The longest context of a configuration, by the rules of servers, and what careless files are told."""

import json

import pytest
from configurations import LLAMA

from roofline.catalog.huggingface.config import config_document, read_config
from roofline.support.errors import BadSpec

BASE = LLAMA | {"max_position_embeddings": 32_768}
YARN = {"factor": 4, "original_max_position_embeddings": 32_768}


def context(**fields):
    return config_document(BASE | fields, "org/model").document["max_context"]


@pytest.mark.parametrize("field", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("name", ["type", "rope_type"])
def test_yarn_multiplies_the_length_before_scaling_and_others_the_stated_one(field, name):
    assert context(**{field: {name: "yarn", **YARN}}) == 131_072
    assert context(**{field: {name: "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}}) == 32_768
    assert context(**{field: {name: "linear", "factor": 2.5}}) == context(**{field: {name: "dynamic", "factor": 2.5}})
    assert context(**{field: {name: "linear", "factor": 2.5}}) == 81_920
    for kind in ("llama3", "longrope", "su", "mrope", "default"):
        assert context(**{field: {name: kind, **YARN}}) == 32_768


def test_scaling_of_one_kind_of_layer_counts_and_none_changes_nothing():
    kinds = {"full_attention": {"rope_type": "yarn", **YARN}, "sliding_attention": {"rope_type": "default"}}
    assert context(rope_parameters=kinds) == 131_072
    assert context(rope_scaling=None) == context(rope_scaling={}) == context() == 32_768


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        ("yes", "rope_scaling: 'yes' must be a mapping"),
        ({"type": "yarn", "factor": "4"}, "rope_scaling.factor: '4' must be a number"),
        ({"type": "linear", "factor": 1e8}, "rope_scaling: scales the context to 3276800000000"),
    ],
)
def test_a_malformed_scaling_is_refused(scaling, words):
    with pytest.raises(BadSpec, match=words):
        context(rope_scaling=scaling)


def test_an_unknown_wrapper_is_named_and_one_with_an_encoder_says_that_it_is_left_out():
    assert "the wrapper 'brandnew' is unknown: only its text_config is read" in noted(model_type="brandnew")
    assert "encoders are left out" in noted(model_type="brandnew", vision_config={"model_type": "other"})
    assert "encoders are left out" in noted(model_type="llava")


def noted(**outer):
    return " ".join(config_document({**outer, "text_config": BASE}, "org/model").cautions)


def test_a_window_that_the_class_of_llama_does_not_have_is_noted():
    assert "sliding_window 4096 is counted" in config_document(BASE | {"sliding_window": 4096}, "org/model").cautions[0]
    for harmless in ({"sliding_window": None}, {"sliding_window": 4096, "use_sliding_window": False}):
        assert not config_document(BASE | harmless, "org/model").cautions


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("null", "not null"), ("[]", "not a list"), ("1", "not a number"), ('"x"', "not text"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is there twice, with two values"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_mapping_or_contradicts_itself_is_refused_in_words(tmp_path, text, words):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadSpec, match=words):
        read_config(str(path))
    path.write_text(json.dumps(BASE)[:-1] + ', "hidden_size": ' + f"{BASE['hidden_size']}}}", encoding="utf-8")
    assert read_config(str(path))[0] == BASE


def test_bits_that_no_format_has_are_refused_with_those_that_are_known():
    with pytest.raises(BadSpec, match="0 bits: not supported; only 2, 3, 4, 8"):
        context(quantization_config={"quant_method": "gptq", "bits": 0})
