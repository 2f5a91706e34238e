"""The parsed catalog says what the YAML says, and is silent about files that are not those that it was made of."""

import os
import shutil
from pathlib import Path

import pytest
import yaml

from roofline.catalog import files
from roofline.catalog.yaml import content_of_text, figures_of_text
from roofline.support.errors import BadSpec

KINDS = ("gpu", "model", "engine", "workload")
PATHS = [path for kind in KINDS for path in files.yaml_files(files.shipped_root(kind))]


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    """A catalog of copies of all files beside its parsed form, as a wheel has both, and no reader of YAML."""
    home = Path(files.shipped_root("gpu")).parent
    for kind in KINDS:
        shutil.copytree(files.shipped_root(kind), tmp_path / Path(files.shipped_root(kind)).name)
    (tmp_path / "compiled.jsonl").write_bytes(files.compiled(PATHS))
    monkeypatch.setattr(files, "COMPILED", str(tmp_path / "compiled.jsonl"))
    monkeypatch.setattr(files, "_home_length", lambda: len(str(tmp_path)) + 1)
    read = []
    text_of_spec = files.spec_text
    monkeypatch.setattr(files, "spec_text", lambda path: read.append(path) or text_of_spec(path))
    files._catalog.cache_clear()
    yield (lambda path: str(tmp_path / Path(path).relative_to(home))), read
    files._catalog.cache_clear()


def text_of(path):
    return Path(path).read_text(encoding="utf-8")


def test_a_checkout_has_no_parsed_catalog_that_could_be_of_other_files():
    assert not Path(files.COMPILED).exists()
    assert files._parsed(PATHS[0]) is None


def test_every_file_is_read_as_from_yaml_with_and_without_its_sources_and_anew_each_time(parsed):
    copy_of, read = parsed
    assert len(PATHS) > 200
    for path in PATHS:
        assert files.shipped_document(copy_of(path)) == content_of_text(text_of(path)), path
    assert read == []
    for path in PATHS:
        assert files.shipped_figures(copy_of(path)) == figures_of_text(text_of(path)), path
    assert read == []
    copy_of, _ = parsed
    path = copy_of(PATHS[0])
    files.shipped_document(path)["name"] = "another"
    assert files.shipped_document(path)["name"] == yaml.safe_load(text_of(path))["name"]


def test_an_edited_file_is_read_anew_whatever_its_size_and_its_date(parsed):
    copy_of, read = parsed
    path = copy_of(next(path for path in PATHS if path.endswith("h100-sxm.yaml")))
    text, before = text_of(path), Path(path).stat()
    edited = text.replace("bandwidth: {value: 3.35 TB/s", "bandwidth: {value: 3.36 TB/s")
    Path(path).write_text(edited, encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert Path(path).stat().st_size == before.st_size
    assert files.shipped_figures(path)["memory"]["bandwidth"]["value"] == "3.36 TB/s"
    assert files.shipped_document(path)["memory"]["bandwidth"]["value"] == "3.36 TB/s"
    assert read == [path, path]


def test_a_file_that_was_added_is_read_and_one_that_is_gone_is_missed(parsed):
    copy_of, read = parsed
    path = copy_of(PATHS[0])
    added = str(Path(path).with_name("added.yaml"))
    shutil.copy(path, added)
    assert files.shipped_document(added) == content_of_text(text_of(path))
    assert read == [added]
    Path(path).unlink()
    with pytest.raises(BadSpec, match="cannot be read"):
        files.shipped_document(path)
