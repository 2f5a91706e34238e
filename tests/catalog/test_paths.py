"""Paths in the place of names: a config.json, its folder, a specification; none of them hides a catalog's name."""

import json

import pytest
from configurations import LLAMA
from every_case import each
from spec_texts import GPU, MODEL

import roofline as rl
from roofline.catalog import find as reader
from roofline.catalog.huggingface import config as huggingface

CONFIG = LLAMA | {"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with a configuration, alone and in folders."""
    for folder in ("my-model", "h100", "llama-3.1-8b", "org/name"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "other.json").write_text(json.dumps(CONFIG))
    (tmp_path / "gpu.yaml").write_text(GPU)
    (tmp_path / "model.yml").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@each("path", ["my-model/config.json", "my-model", "./my-model", "my-model/", "other.json", "org/name", " other.json "])
def test_a_configuration_or_its_folder_serves_as_a_model(here, path):
    model = rl.load_model(path)
    assert (model.layers, model.hidden) == (4, 2048)
    assert rl.predict(path, "h100-sxm", isl=100, osl=10).ttft > 0.0


def test_a_tilde_leads_home_and_a_folder_called_like_an_entry_does_not_hide_it(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    assert rl.load_model("~/my-model").hidden == 2048
    assert rl.load_gpu("h100").name == "h100-sxm"
    assert rl.load_model("llama-3.1-8b").hidden == 4096
    assert rl.load_model("./llama-3.1-8b").hidden == 2048


def test_a_specification_serves_as_a_gpu_or_a_model_and_keeps_the_schema(here):
    assert rl.load_model("model.yml").name == "acme/Tiny-1B"
    assert reader.document("model.yml", "model")["name"] == "acme/Tiny-1B"
    for path in ["gpu.yaml", "./gpu.yaml"]:
        gpu = rl.load_gpu(path)
        assert (gpu.name, gpu.bandwidth) == ("my-gpu", 4e12)
        assert rl.predict("llama-3.1-8b", path, isl=100, osl=10).basis == "inherited"
    (here / "bad.yaml").write_text(GPU.replace("96 GB", "96"))
    with pytest.raises(rl.BadSpec, match=r"bad\.yaml:10: memory\.label"):
        rl.load_gpu("bad.yaml")


@pytest.mark.parametrize(
    ("load", "path", "words"),
    [
        (rl.load_gpu, "model.yml", "is a model specification, not a GPU"),
        (rl.load_model, "gpu.yaml", "is a GPU specification, not a model"),
        (rl.load_gpu, "missing.yaml", "cannot be read"),
        (rl.load_model, "missing.json", "cannot be read"),
        (rl.load_model, "a\0b.yaml", "cannot be read"),
    ],
)
def test_a_path_that_leads_to_nothing_of_the_kind_is_refused_by_its_name(here, load, path, words):
    with pytest.raises(rl.BadSpec, match=words) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_changed_configuration_is_read_anew_and_amounts_to_a_specification(here):
    content = reader.document("my-model", "model")
    assert content["groups"][0]["mixer"]["kv_heads"] == 4
    assert content["sources"]
    assert rl.load_model("my-model").layers == 4
    (here / "my-model" / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 6}))
    assert rl.load_model("my-model").layers == 6


def test_an_unknown_model_is_told_what_else_serves_with_or_without_the_client_of_the_hub(monkeypatch):
    with pytest.raises(rl.UnknownName, match=r"or give the path of a Hugging Face config\.json"):
        rl.load_model("no-such-model-at-all")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(rl.UnknownName, match=r"pip install 'roofline\[hub\]'"):
        rl.load_model("acme/Unheard-Of-7B")


def test_an_id_that_the_catalog_lacks_comes_from_the_hub_where_its_client_is_installed(here, monkeypatch):
    asked = []

    def fetched(model_id):
        asked.append(model_id)
        return "my-model/config.json"

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(huggingface, "hub_config", fetched)
    assert rl.load_model("acme/Unheard-Of-7B").layers == 4
    assert rl.load_model("meta-llama/Llama-3.1-8B").layers == 32
    assert asked == ["acme/Unheard-Of-7B"]


def test_an_id_that_the_hub_refuses_is_refused_with_the_nearest_and_the_reason(monkeypatch):
    def refused(model_id):
        raise rl.UnknownName("the hub cannot be reached")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(huggingface, "hub_config", refused)
    with pytest.raises(rl.UnknownName, match=r"did you mean .*llama-3\.1-8b.*; the hub cannot be reached"):
        rl.load_model("meta-llama/Llama-3.1-8C")
