"""Layers from shapes of tensors: those that a reader makes of the fields, to the unit what torch holds, or refused."""

import json
import re
from math import prod

import pytest
from configurations import FIXTURES, imported
from every_case import each

from roofline.catalog.huggingface.blocks import Fields, Shape, groups
from roofline.catalog.huggingface.config import config_document
from roofline.catalog.huggingface.dense import FAMILIES
from roofline.catalog.huggingface.traced import class_tensors, shape_of_tensors
from roofline.physics.memory import parameters
from roofline.specs.build import model_record
from roofline.support.errors import BadSpec

ROWS = {row["type"]: row for row in json.loads((FIXTURES / "oracle" / "shapes.json").read_text("utf-8"))["rows"]}
#: Types whose shapes leave something open, and the word that says what.
OPEN = {
    "afmoe": "self_attn.gate_proj", "deepseek_v3": "queries, keys and values", "gpt2": "wpe", "helium": "do not fit",
    "hrm_text": "cycles", "lfm2_moe": "conv", "mamba": "mixer", "mistral": "which layers slide",
    "qwen3_next": "queries, keys and values",
}  # fmt: skip
CLEAR = sorted(set(ROWS) - set(OPEN))


def facts_of(model_type, **changes):
    return Fields(ROWS[model_type]["facts"] | changes, "config.json")


def tensors_of(model_type):
    return {name: tuple(sizes) for name, sizes in ROWS[model_type]["tensors"].items()}


def grouped(model_type):
    return shape_of_tensors(facts_of(model_type), tensors_of(model_type))


def held(shape: Shape):
    """Parameters of a shape."""
    fields = ("family", "hidden", "vocab", "tied", "norms", "norm_bias", "head_bias")
    content = {"name": "model", "aliases": ["model"], **{field: getattr(shape, field) for field in fields}}
    native = dict.fromkeys(("linear", "embed", "head", "norm", "kv"), "bf16")
    return parameters(model_record(content | {"groups": groups(shape.layers), "native": native})).total


@each("model_type", CLEAR)
def test_every_value_of_every_tensor_is_counted_once_and_one_more_or_less_is_noticed(model_type):
    assert held(grouped(model_type)) == sum(map(prod, tensors_of(model_type).values()))
    tensors = tensors_of(model_type)
    with pytest.raises(BadSpec, match="exactly"):
        shape_of_tensors(facts_of(model_type), tensors | {"model.layers.0.self_attn.extra.weight": (7, 7)})
    needed = re.compile(r"(\b[qkvo]|up|down)_proj\b|\.gate\.weight$|query_key_value|c_proj|fc_in")
    matrices = [
        name for name in tensors if re.search(r"\b1\.", name) and len(tensors[name]) > 1 and needed.search(name)
    ]
    assert matrices
    for name in matrices:
        with pytest.raises(BadSpec):
            shape_of_tensors(facts_of(model_type), {each: tensors[each] for each in tensors if each != name})


@each("model_type", [name for name in CLEAR if name in FAMILIES])
def test_shapes_and_fields_say_the_same_layers(model_type):
    by_fields, by_shapes = FAMILIES[model_type](facts_of(model_type)), grouped(model_type)
    biased = [ffn.pop("router_bias", None) for _, ffn in by_shapes.layers if model_type == "minimax_m2"]
    assert all(biased)  # which minimax_m2 states nowhere
    assert by_shapes.layers == by_fields.layers
    assert (by_shapes.tied, by_shapes.norms, by_shapes.norm_bias, by_shapes.parallel) == (
        by_fields.tied, by_fields.norms, by_fields.norm_bias, by_fields.parallel,
    )  # fmt: skip


@each("model_type", OPEN)
def test_what_shapes_leave_open_is_refused_with_the_exact_count(model_type):
    with pytest.raises(BadSpec, match=OPEN[model_type]) as fault:
        grouped(model_type)
    assert f"has exactly {sum(map(prod, tensors_of(model_type).values()))} parameters" in str(fault.value)


def test_without_torch_and_transformers_nothing_is_traced(monkeypatch):
    monkeypatch.setattr("roofline.catalog.huggingface.traced.find_spec", lambda _: None)
    assert class_tensors(Fields({"model_type": "dots1"}, "config.json")) is None


def test_a_class_of_transformers_answers_for_a_type_without_a_reader(monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    monkeypatch.setattr("roofline.catalog.huggingface.config.FAMILIES", {})
    config = {"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1000}
    content, cautions = imported(config)
    assert parameters(model_record(content)).total == 2 * 64_000 + 64 + 3 * (
        2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64 + 32
    )
    assert any("read by its class in transformers" in caution for caution in cautions)
    with pytest.raises(BadSpec, match="refuses this configuration"):
        config_document(config | {"hidden_size": "wide"}, "org/model")
