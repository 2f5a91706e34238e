"""Configuration files: reading them, naming models by them, fetching them, and any damage to them."""

import copy
import json
import sys
from pathlib import Path

import pytest
from configurations import IDS, LLAMA, config_of
from hypothesis import given
from hypothesis import strategies as st

from roofline.catalog.huggingface import config as huggingface
from roofline.catalog.huggingface.config import config_document, hub_config, read_config
from roofline.catalog.huggingface.files import file_model
from roofline.catalog.schema import ModelSpec
from roofline.physics.memory import parameters
from roofline.specs.build import model_record
from roofline.support.errors import BadSpec, UnknownName


def written(folder, content, name="config.json"):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def test_the_name_is_the_stated_id_the_folder_or_the_file_and_cautions_travel_with_the_model(tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    written(folder, LLAMA)
    written(folder, {"quantization": {"quant_algo": "NVFP4"}}, "hf_quant_config.json")
    _, quantization, name = read_config(str(folder))
    assert (name, quantization["quantization"]["quant_algo"]) == ("my-model", "NVFP4")
    loaded = file_model(str(folder))
    assert (loaded.name, loaded.native["linear"]) == ("my-model", "nvfp4")
    assert read_config(written(tmp_path, LLAMA | {"_name_or_path": "Qwen/Qwen3-8B"}))[2] == "Qwen/Qwen3-8B"
    assert read_config(written(tmp_path, LLAMA | {"_name_or_path": "/data/checkpoints"}))[2] == tmp_path.name
    assert read_config(written(tmp_path, LLAMA, "other.json"))[2] == "other"
    loaded = file_model(written(tmp_path, LLAMA | {"model_type": "newcomer"}), assume="llama")
    assert any("read as llama, as assumed" in caution for caution in loaded.cautions)


def test_a_file_in_the_cache_of_the_hub_is_cited_with_its_commit(tmp_path):
    folder = tmp_path / "models--Qwen--Qwen3-8B" / "snapshots" / "abc123"
    folder.mkdir(parents=True)
    path = written(folder, LLAMA)
    config, quantization, name = read_config(path)
    source = config_document(config, name, quantization, path).document["sources"]["config"]
    assert name == "Qwen/Qwen3-8B"
    assert source["url"] == "https://huggingface.co/Qwen/Qwen3-8B/blob/abc123/config.json"


def test_a_file_that_is_no_mapping_in_json_is_refused_on_its_line(tmp_path, monkeypatch):
    for text, line, words in [
        ('{\n "hidden_size": 64,\n oops\n}', 3, "not JSON"),
        ("[1, 2]", 1, "mapping"),
        ("", 1, "not JSON"),
        ("{" * 3 + '"a":' * 9, 1, "not JSON"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", 1, "unreadable JSON"),
        ('{"a": ' + "9" * 5000 + "}", 1, "unreadable JSON"),
    ]:
        path = written(tmp_path, text)
        with pytest.raises(BadSpec, match=words) as fault:
            read_config(path)
        assert str(fault.value).startswith(f"{path}:{line}: ")
    path = tmp_path / "config.json"
    path.write_bytes(b'{\n"a": "\xff"}')
    with pytest.raises(BadSpec, match=r":2: not UTF-8"):
        read_config(str(path))
    with pytest.raises(BadSpec, match="cannot be read"):
        read_config(str(tmp_path / "nothing.json"))
    monkeypatch.setattr(huggingface, "_MOST_BYTES", 4)
    with pytest.raises(BadSpec, match="too large for a configuration"):
        read_config(str(path))
    for name in ["", "a\nb", "x" * 300, None, "\ud800"]:
        with pytest.raises(BadSpec, match="`name`"):
            config_document(LLAMA, name)


def test_a_model_of_the_hub_is_fetched_and_what_hinders_it_is_said(monkeypatch, tmp_path):
    with pytest.raises(UnknownName, match="is not a Hugging Face id"):
        hub_config("not an id")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UnknownName, match=r"pip install roofline\[hub\]"):
        hub_config("Qwen/Qwen3-8B")
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub())
    with pytest.raises(UnknownName, match=r"cannot fetch .* of Qwen/Qwen3-8B from https://huggingface.co: 404[^\n]*$"):
        hub_config("Qwen/Qwen3-8B")
    path = written(tmp_path, LLAMA)
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub(str(tmp_path)))
    assert hub_config("Qwen/Qwen3-8B") == path


class Hub:
    """The package with one repository, or with none that can be reached."""

    def __init__(self, folder=None):
        self.folder = folder

    def hf_hub_download(self, model_id, name):
        path = self.folder and Path(self.folder) / name
        if not path or not path.exists():
            raise OSError(f"404 Client Error: {name} of {model_id}\nand much more")
        return str(path)


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.sampled_from(
        [10**9, 10**10, 10**400, 1.5, float("nan"), float("inf"), "", "x", "64", [], [0], [None], {}, {1: 2}]
    ),
)


def places(value, where=()):
    """Where something can be damaged."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, item in items:
        yield (*where, key)
        yield from places(item, (*where, key))


@given(model_id=st.sampled_from(IDS), data=st.data())
def test_any_damage_gives_a_valid_specification_or_a_refusal(model_id, data):
    config, quantization = config_of(model_id)
    whole = copy.deepcopy({"config": config, "beside": quantization} if quantization else {"config": config})
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from(list(places(whole))))
        parent = whole
        for key in path:
            parent = parent[key]
        if data.draw(st.booleans()) and isinstance(parent, dict) and path:
            del parent[last]
        else:
            parent[last] = data.draw(ODD)
    try:
        content = config_document(whole["config"], "org/model", whole.get("beside")).document
    except BadSpec as fault:
        assert str(fault).startswith("config.json:1: ")
    else:
        ModelSpec.model_validate(content)
        assert parameters(model_record(content)).total > 0
