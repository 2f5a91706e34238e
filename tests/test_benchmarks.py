"""The benchmarks run, name what the command answers, and their page says what they found."""

import importlib
import sys
from pathlib import Path

import pytest
from every_case import each

from roofline.cli.main import cli

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PAGE = (BENCHMARKS.parent / "docs" / "performance.md").read_text(encoding="utf-8")
CASE = "Llama-3.1-8B on H100"


@pytest.fixture(scope="module")
def part():
    """A module of the benchmarks by its name, which only a script of the same folder imports so."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module
    sys.path.remove(str(BENCHMARKS))
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def test_workers_are_timed_and_a_median_above_its_budget_is_missed(part):
    found = part("measuring").worker("answers", "roofline", CASE, "first")
    assert len(found["times"]) == 3
    assert all(10 < steps < 1e6 for steps in found["times"])
    assert all(0 < tpot < ttft < 10 for *_, ttft, tpot in found["answers"])
    found = part("arrays").growth("roofline", CASE, 1, (1, 2, 10_000_000), longest=1e-3)
    assert found[1][0]["numpy"] > 0
    assert found[10_000_000].startswith("not asked: about ")
    measuring, run = part("measuring"), part("run")
    missed = []
    cells = [
        measuring.judged("fast", measuring.spread([1, 2, 3]), 2.0, (), missed),
        measuring.judged("slow", measuring.spread([1, 2.5, 3]), 2.0, (), missed),
        measuring.judged("free", measuring.spread([1, 2.5, 3]), None, (), missed),
    ]
    assert [verdict for _, verdict in cells] == ["yes", "**no**", "-"]
    assert [(each.name, str(each.spread)) for each in missed] == [("slow", "2.50 (1.00-3.00)")]
    section = measuring.Section("Part", "Text.", ("budget", "met"), cells, missed)
    assert run.verdict([section]) == "**1 of 2 budgets are met.**"
    assert "## Part\n\nText.\n\n| budget | met |\n| --- | --- |\n| 2.00 | yes |\n" in run.rendered(section)


def test_every_command_is_timed_and_each_part_on_the_page(part):
    start_up = part("start_up")
    asked = {question.split()[0] for question in (*start_up.MAIN, *start_up.OTHERS)}
    assert set(cli.list_commands(None)) | {"--help", "--version"} <= asked
    for question in (*start_up.MAIN, *start_up.OTHERS):
        assert f"| `{start_up.shown(question)}` |" in PAGE, "run: python benchmarks/run.py"
    for title in (
        "Start-up",
        "Scalar answers",
        "Questions of many predictions",
        "Answers under a load",
        "Questions over the catalog",
        "Tables",
        "Tables in blocks",
        "A page",
        "Arrays and growth",
        "Peers",
    ):
        assert f"\n## {title}\n" in PAGE
    for name, load, *_, keys in part("loads").ROWS:
        assert f"| {name}, {load}, {keys} |" in PAGE
    for row in (
        *part("tables").TABLES,
        *part("questions").FRONTIERS,
        *part("pages").BUDGETS,
        *map("`roofline {}`".format, part("shell").BUDGETS),
    ):
        assert f"| {row} |" in PAGE
    assert "\n## What was missed" in PAGE
    for tool in part("calls").TOOLS:
        assert f"def {tool.replace('-', '_')}(case: Case) -> Ask:" in PAGE or f"{tool} did not install" in PAGE


def test_fewer_rows_a_second_than_asked_for_are_missed_and_their_profile_is_written(part, tmp_path):
    measuring, tables, missed = part("measuring"), part("tables"), []
    worker = ("tables", "one GPU, 100,000 lengths, two keys")
    rates = measuring.spread([100e3, 200e3, 400e3])
    assert tables._judged("fast", rates, 100e3, worker, missed) == ("100,000", "yes")
    assert tables._judged("slow", rates, 400e3, worker, missed) == ("400,000", "**no**")
    assert [(each.name, str(each.spread), each.budget) for each in missed] == [
        ("slow, us a row", "5.00 (2.50-10.0)", 2.5)
    ]
    found = measuring.worker(*worker, **{measuring.PROFILE: str(tmp_path / "profile")})
    assert found["rows"] > 1e4
    assert 10 < found["mib"] < 4096
    assert "`questions/table.py:table`" in part("profiles").functions(str(tmp_path / "profile"))


@each(
    ("path", "name", "label"),
    [
        ("/home/a/lib/python3.11/site-packages/roofline/serving/shown.py", "row", "`serving/shown.py:row`"),
        ("/home/a/roofline/roofline/numbers/operations.py", "norm", "`numbers/operations.py:norm`"),
        ("/home/a/roofline/.venv/lib/python3.11/site-packages/click/core.py", "main", "`click/core.py:main`"),
        ("/home/a/roofline/benchmarks/answers.py", "timed", "`answers.py:timed`"),
        ("/home/a/lib/python3.11/site-packages/yaml/scanner.py", "peek", "`yaml/scanner.py:peek`"),
        ("~", "<built-in method builtins.exec>", "`built-in method builtins.exec`"),
    ],
)
def test_a_profile_names_files_without_the_folders_of_a_machine(part, path, name, label):
    assert part("profiles").label(path, name) == label
