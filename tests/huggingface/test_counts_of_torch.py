"""Importers against torch: counts that transformers' own classes give, made by accuracy/build_oracle.py and stored."""

import copy
import json
from collections import defaultdict
from functools import cache

import pytest
from configurations import FIXTURES, LLAMA, config_of, document, imported, imported_fixture, layers, refusal
from every_case import each

from roofline.catalog.huggingface.config import config_document
from roofline.physics.memory import parameters
from roofline.specs.build import model_record
from roofline.support.errors import BadSpec


@cache
def oracle(name):
    return json.loads((FIXTURES / "oracle" / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def drawn():
    """Draws by model type."""
    found = defaultdict(list)
    for row in oracle("drawn"):
        found[row["type"]].append(row)
    return found


CATALOG = {row["model"]: row for row in oracle("catalog")}
RESAVED = [name for name, row in CATALOG.items() if "resaved" in row]
DRAWN = drawn()

#: Vectors of a thousandth of a hundredth that are left out, as a share of all parameters, and which.
LEFT_OUT = {
    "google/gemma-4-26B-A4B": (2e-5, "norms around the experts and scales of the router"),
    "stepfun-ai/Step-3.7-Flash": (1e-4, "the gate of one value a head"),
    "step3p7": (5e-3, "the gate of one value a head: much of a small model, little of a large one"),
    "apertus": (2e-5, "two scalars of the activation a layer"),
    "gemma4": (1e-5, "a scale a layer"),
}


#: Vectors that are counted and that the model lacks, likewise.
BEYOND = {"axk1": (1e-3, "a norm of the dense layers, which only mixtures have")}


def disagreement(content, row, name):
    """By how much an imported document is beyond what torch holds: its parameters, with or without what it buffers."""
    count = parameters(model_record(content)).total
    least = row["parameters"] - never_stored(row)
    most = least + row["buffers"]
    least -= LEFT_OUT.get(name, (0.0, ""))[0] * least
    most += BEYOND.get(name, (0.0, ""))[0] * most
    return 0 if least <= count <= most else count - row["parameters"]


def never_stored(row):
    """What transformers allocates and no checkpoint has: matrices of LongCat's experts that return their input."""
    config = row.get("config", {})
    if row.get("type") != "longcat_flash":
        return 0
    return (
        2 * config["num_layers"] * config["zero_expert_num"] * config["expert_ffn_hidden_size"] * config["hidden_size"]
    )


def merged(values, patch):
    """A JSON merge patch (RFC 7396), applied."""
    values = copy.deepcopy(values)
    for name, change in patch.items():
        if change is None:
            values.pop(name, None)
        elif isinstance(change, dict) and isinstance(values.get(name), dict):
            values[name] = merged(values[name], change)
        else:
            values[name] = change
    return values


def test_torch_has_a_word_on_most_of_the_catalog_and_the_importer_on_most_types():
    assert len(CATALOG) >= 95
    assert len(RESAVED) >= 95
    assert len(DRAWN) >= 60
    refused, answered = set(), set()
    for row, found in read_rows():
        if found is None:
            refused.add(row["type"])
        elif not any("is unknown" in caution for caution in found[1]):
            answered.add(row["type"])
    assert len(answered) >= 55
    assert len(answered - refused) >= 45


@each("model_id", CATALOG)
def test_a_catalog_configuration_has_the_parameters_that_torch_counts(model_id):
    assert disagreement(imported_fixture(model_id), CATALOG[model_id], model_id) == 0


@each("model_id", RESAVED)
def test_saved_again_by_transformers_it_is_the_same_model(model_id):
    config, quantization = config_of(model_id)
    before = imported_fixture(model_id)
    after = config_document(merged(config, CATALOG[model_id]["resaved"]), model_id, quantization).document
    if "max_context" not in before:  # a fixture without it; the class states its own
        after.pop("max_context", None)
    assert {name: after.get(name) for name in before | after if name not in ("notes", "sources")} == {
        name: before.get(name) for name in before | after if name not in ("notes", "sources")
    }


@cache
def read_rows():
    """Every row of drawn sizes and switches with what the importer makes of it, or None where it refuses."""

    def read(row):
        try:
            return imported(row["config"])
        except BadSpec:
            return None

    return [(row, read(row)) for row in oracle("drawn")]


@each("model_type", DRAWN)
def test_drawn_sizes_and_switches_are_counted_as_torch_counts_or_refused(model_type):
    for row, found in read_rows():
        if row["type"] != model_type or found is None:
            continue
        content, cautions = found
        if not any("is unknown" in caution for caution in cautions):
            assert disagreement(content, row, model_type) == 0, f"seed {row['seed']}"


@pytest.mark.parametrize("tied", [True, False])
def test_the_ends_of_a_wrapped_model_are_tied_if_the_whole_says_so(tied):
    text = LLAMA | {"model_type": "qwen3_vl_text", "tie_word_embeddings": not tied}
    assert document({"model_type": "qwen3_vl", "text_config": text, "tie_word_embeddings": tied})["tied"] is tied


SOME = LLAMA | {"head_dim": 8}


def test_layers_have_settings_of_their_own_which_are_refused_where_they_cannot_be():
    own = {"1": {"intermediate_size": 64, "num_key_value_heads": 4}, "03": {"head_dim": 16}}
    found = layers(document(SOME | {"per_layer_config": own}))
    usual = layers(document(SOME))[0]
    assert found[0] == found[2] == usual
    assert (found[1][0]["kv_heads"], found[1][1]["width"]) == (4, 64)
    assert found[3] == (usual[0] | {"head_dim": 16}, usual[1])
    assert document(SOME | {"per_layer_config": {}}) == document(SOME)
    config = {name: value for name, value in SOME.items() if name != "intermediate_size"}
    own = {str(layer): {"intermediate_size": 64 + 8 * layer} for layer in range(4)}
    assert [ffn["width"] for _, ffn in layers(document(config | {"per_layer_config": own}))] == [64, 72, 80, 88]
    for own, field in [
        ([], "per_layer_config"), ({"one": {}}, "per_layer_config"), ({"1": 7}, "per_layer_config.1"),
        ({"4": {"head_dim": 16}}, "per_layer_config"), ({"1": {"hidden_size": 128}}, "per_layer_config.1"),
        ({"1": {"num_hidden_layers": 1}}, "per_layer_config.1"), ({"1": {"skip": ["mlp"]}}, "per_layer_config.1.skip"),
        ({"1": {"head_dim": "wide"}}, "head_dim"),
    ]:  # fmt: skip
        assert f" {field}: " in refusal(SOME | {"per_layer_config": own})
    own = {str(layer): {"intermediate_size": 64 + layer} for layer in range(500)}
    text = refusal(SOME | {"num_hidden_layers": 500, "per_layer_config": own})
    assert "kinds of layers" in text


def test_the_caches_of_gemma_4_are_narrow_in_its_global_layers_also_when_saved_again():
    name = "nvidia/Gemma-4-31B-IT-NVFP4"
    config, _ = config_of(name)
    again = merged(config, CATALOG[name]["resaved"])
    text = again["text_config"]
    assert "per_layer_config" in text
    assert "global_head_dim" not in text
    mixers = [mixer for mixer, _ in layers(document(again))]
    wide = [(mixer["kv_heads"], mixer["head_dim"]) for mixer in mixers if "window" not in mixer]
    assert set(wide) == {(4, 512)}
    assert len(wide) == 10
