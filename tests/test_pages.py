"""The pages of the site: short lines, a method read in one sitting, code that runs, a reference that is whole."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.cli.main import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
METHOD = (DOCS / "method.md").read_text(encoding="utf-8")
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


def headings(page):
    return {line.lstrip("# ") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("#")}


def is_broken(line):
    """Whether a line has a place to break before column 120: tables, addresses and the equations of code have none."""
    return len(line) > 120 and not line.startswith(("|", "    ")) and " " in line[4:118]


@each("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))])
def test_lines_of_pages_are_at_most_120_characters(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert [line for line in prose.splitlines() if is_broken(line)] == []


#: Pages that scripts write, and the glossary, which is for looking things up: their tables sort.
_LONG_ROWS = {
    "accuracy",
    "changelog",
    "cli",
    "diagnosis",
    "equations",
    "faults",
    "glossary",
    "load",
    "pairs",
    "performance",
}


@each("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))])
def test_rows_of_tables_written_by_hand_are_at_most_120_characters(page):
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert page.stem in _LONG_ROWS or [row for row in rows if len(row) > 120] == []


def test_the_method_is_read_in_one_sitting_and_every_section_that_code_cites_is_there():
    assert len(METHOD.split()) < 12_000
    assert max(map(len, METHOD.splitlines())) <= 120
    assert METHOD.count("$$") >= 50
    there = headings(DOCS / "method.md")
    for folder in ("roofline", "accuracy", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            for section in re.findall(r"docs/method\.md,\s+\"([\w -]+)\"", path.read_text(encoding="utf-8")):
                assert section in there, f"{path.name}: {section}"


def test_every_page_behind_the_method_is_linked_from_it():
    behind = {page.name for page in (DOCS / "method").glob("*.md")}
    assert set(re.findall(r"\(method/([\w-]+\.md)", METHOD)) == behind


@each("page", TUTORIALS)
def test_the_python_of_a_tutorial_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    code = "".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    exec(compile(code, page.name, "exec"), names := {})
    if page.stem == "embedder":
        assert names["row"]["ttft_ms"] == pytest.approx(names["p"].ttft * 1e3, rel=1e-9)
        assert "llama-3.1-8b" in names["answer"]("lama-3.1-8b", "h100", 16)["reason"]
        assert names["answer"]("llama-3.1-405b", "l4", 16)["what"].startswith("a larger GPU")
    if page.stem == "researcher":
        one = rl.predict("llama-3.1-8b", "h100", tp=1, isl=8192, osl=256, batch=16)
        assert names["p"].tpot[1, 15] == pytest.approx(one.tpot, rel=1e-9)
        assert {path.name for path in tmp_path.iterdir()} == {"roofline.svg", "parts.pdf"}


def test_the_reference_has_every_public_name_once():
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^\.\. auto(?:function|class|exception|module):: roofline\.(\w+)$", page, re.MULTILINE)
    assert sorted(named) == sorted(rl.__all__)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("ttft llama-3.1-8b h100 --slo ttft:1", 0),
        ("predict -m nope -g h100", 1),
        ("fits -m gpt-oss-120b -g h100 --engine vllm@0.19", 1),
        ("predict -m llama-3.1-8b -g h100 --no-such-option", 2),
        ("check {file} --fail-above ttft:+1%", 3),
    ],
)
def test_exit_codes_are_those_of_the_page(command, code, tmp_path):
    page = (DOCS / "stability.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| {code} \|", page, re.MULTILINE)
    file = tmp_path / "slow.csv"
    file.write_text("gpu,model,tp,isl,osl,batch,ttft_ms,date\nh100-sxm,llama-3.1-8b,1,1000,100,1,500,2026-11-20\n")
    assert CliRunner().invoke(cli, command.format(file=file).split()).exit_code == code
