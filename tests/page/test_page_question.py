"""`roofline page` and `rl.page` write one file that loads nothing, of the models and GPUs that were asked for."""

import gzip
import json
import re
from dataclasses import replace

import pytest
from cli.asking import ask
from every_case import each
from spec_texts import GPU, MODEL

import roofline as rl

MODEL_NAME, GPU_NAME = "llama-3.1-8b", "h100-sxm"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    size = rl.page(path, MODEL_NAME, [GPU_NAME, "b200"])
    assert path.stat().st_size == size
    return path.read_text(encoding="utf-8")


def contents(text):
    return json.loads(re.search(r'<script type="application/json" id="contents">(.*?)</script>', text, re.DOTALL)[1])


def test_a_page_is_one_file_that_names_no_other_and_is_small(text):
    assert not re.findall(
        r"""<(?:link|script|img|iframe)[^>]*\s(?:src|href)=|\burl\((?!['"]?(?:#|data:))|@import""", text
    )
    assert "unsafe" not in re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert len(gzip.compress(text.encode(), 9)) < 500_000
    assert [model["name"] for model in contents(text)["models"]] == [MODEL_NAME]
    assert [gpu["name"] for gpu in contents(text)["gpus"]] == [GPU_NAME, "b200"]


def test_a_page_holds_the_catalog_by_default_and_ones_own_files(tmp_path):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "my-gpu.yaml").write_text(GPU, encoding="utf-8")
    (tmp_path / "specs" / "tiny.yaml").write_text(MODEL, encoding="utf-8")
    path = tmp_path / "all.html"
    done = ask("page", path, "--specs", tmp_path / "specs")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"note: wrote {path}; open it in a browser\n"
    held = contents(path.read_text(encoding="utf-8"))
    assert {gpu["name"] for gpu in held["gpus"]} == {*rl.gpus(), "my-gpu"}
    assert {model["name"] for model in held["models"]} == {
        *rl.models(),
        rl.load_model("tiny-1b", tmp_path / "specs").short_name,
    }


def test_records_may_stand_for_names_and_one_name_has_one_record(tmp_path):
    gpu = rl.load_gpu(GPU_NAME)
    own = replace(gpu, name="h100-own", bandwidth=2 * gpu.bandwidth)
    assert rl.page(tmp_path / "a.html", rl.load_model(MODEL_NAME), [gpu, GPU_NAME, own]) > 100_000
    assert [one["name"] for one in contents((tmp_path / "a.html").read_text())["gpus"]] == [GPU_NAME, "h100-own"]
    with pytest.raises(rl.BadInput, match="two GPUs are called h100-sxm; give one of them another name"):
        rl.page(tmp_path / "b.html", MODEL_NAME, [gpu, replace(own, name=GPU_NAME)])
    assert not (tmp_path / "b.html").exists()


@each("words, said", [
    (("a.txt",), "a.txt: the file name must end in .html"),
    (("-o", "a.html.gz"), "a.html.gz: the file name must end in .html"),
    (("there.html",), "there.html exists; overwrite it with --force"),
    (("a.html", "-m", "lama-3.1-8b"), "unknown model 'lama-3.1-8b'"),
    (("a.html", "-g", "h1000"), "unknown GPU 'h1000'"),
    (("a.html", "-g", "8xh100"), "8xh100"),
    (("a.html", "--specs", "nowhere"), "nowhere"),
])  # fmt: skip
def test_what_cannot_be_written_is_one_message_and_no_file(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.html").write_text("kept")
    done = ask("page", "-m", MODEL_NAME, *words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there.html"]
    assert (tmp_path / "there.html").read_text() == "kept"


def test_force_overwrites_and_the_default_name_is_roofline_html(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roofline.questions.page._text", lambda models, gpus, specs: text)
    (tmp_path / "roofline.html").write_text("old")
    asked = ("page", "-m", MODEL_NAME, "-g", f"{GPU_NAME},b200")
    assert ask(*asked).exit_code == 1
    assert (tmp_path / "roofline.html").read_text() == "old"
    assert ask(*asked, "--force").exit_code == 0
    assert (tmp_path / "roofline.html").read_text(encoding="utf-8") == text
