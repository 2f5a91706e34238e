"""Configuration files: reading them, naming models by them, fetching them, and any damage to them."""

import json
import sys
from pathlib import Path

import pytest
from configurations import LLAMA

from roofline.catalog.huggingface import config as huggingface
from roofline.catalog.huggingface.config import config_document, hub_config, read_config
from roofline.catalog.huggingface.files import file_model
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
