"""Notebooks: those of the examples run and answer as their text says, and long questions show how far they are."""

import json
import os
import re
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from every_case import each
from nbclient import NotebookClient

import roofline as rl
from roofline.support import progress

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = ("users_that_double", "check_a_benchmark", "sweeps_and_arrays")
FAULTS = Path(__file__).parents[1] / "fixtures" / "faults"
#: Appended to one of them: a loop that is shown at once.
SLOW = """
from roofline.support import progress

progress.PATIENCE = progress.PERIOD = 0.0
for letter in progress.each("abc", "letters"):
    pass
"""


def read(name):
    return nbformat.read(EXAMPLES / f"{name}.ipynb", 4)


@cache
def executed(name):
    """Outputs of the code cells, in order, as a kernel gives them; of one notebook also those of `SLOW`."""
    notebook = read(name)
    nbformat.validate(notebook)
    if name == "sweeps_and_arrays":
        notebook.cells.append(nbformat.v4.new_code_cell(SLOW))
    resources = {"metadata": {"path": str(EXAMPLES)}}
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:  # nothing is left at home
        for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
            patch.setenv(variable, folder)
        for variable in (progress.OFF, "ROOFLINE_SPECS"):
            patch.delenv(variable, raising=False)
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def own(name):
    """Outputs of the notebook as it is stored."""
    return executed(name)[: sum(cell.cell_type == "code" for cell in read(name).cells)]


def printed(name):
    """What cells print and show as plain text."""
    outputs = [output for cell in own(name) for output in cell]
    return "\n".join(output["data"]["text/plain"] if "data" in output else output["text"] for output in outputs)


def test_they_are_all_the_notebooks_there_are():
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(NOTEBOOKS)


@each("name", NOTEBOOKS)
def test_a_notebook_is_stored_without_outputs_and_its_links_lead_somewhere(name):
    for cell in read(name).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        for link in re.findall(r"\]\(([^)]+)\)", cell.source if cell.cell_type == "markdown" else ""):
            assert (EXAMPLES / link).exists(), link


@each("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_its_answers_as_tables(name):
    shown = [output["data"] for cell in own(name) for output in cell if output["output_type"] == "execute_result"]
    answers = [data for data in shown if re.match(r"<[A-Z]|\[[<{]", data["text/plain"])]
    assert len(answers) >= 3
    assert all(data["text/html"].startswith("<table>") for data in answers)
    assert {output["name"] for cell in own(name) for output in cell if output["output_type"] == "stream"} == {"stdout"}


def test_the_planner_learns_what_twice_the_users_cost():
    text = printed("users_that_double")
    factors = [float(factor) for factor in re.findall(r"([\d.]+) times as much", text)]
    assert len(factors) == 4
    assert all(1.5 < factor < 2.5 for factor in factors)
    assert "up to 400 users: " in text


def test_the_engineer_finds_the_fault_that_the_server_had():
    source = "".join(cell.source for cell in read("check_a_benchmark").cells)
    for stem, users in (("seqs_4", (1, 8, 32)), ("healthy", (8, 32))):  # measured, not made up
        runs = {run["max_concurrency"]: run for run in json.loads((FAULTS / f"{stem}.json").read_text())}
        for each_users in users:
            run = runs[each_users]
            assert f"{each_users}: ({run['completed']}, {run['mean_ttft_ms']}, {run['mean_tpot_ms']})" in source
    text = printed("check_a_benchmark")
    assert "too few slots (limited to about 4 requests)" in text
    assert "batch no longer limited" in text
    assert text.count("look at --max-num-seqs") == 2


def test_the_researcher_gets_arrays_a_frame_and_a_formula():
    text = printed("sweeps_and_arrays")
    for words in ("4 x 64 cases", "array([[ 6.56", "weight_dtype", "regime: decode memory-bound", "<Knees ridge"):
        assert words in text


# --- progress ------------------------------------------------------------------------------------


def test_a_kernel_shows_how_far_a_loop_is_and_clears_the_line():
    text = "".join(output["text"] for output in executed("sweeps_and_arrays")[-1])
    assert "\r1 of 3 letters ..." in text
    assert text.endswith(f"\r{' ' * len('2 of 3 letters ...')}\r")


@pytest.fixture
def _kernel(monkeypatch):
    """As in a kernel, with lines that are shown at once."""
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())))
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.0)
    monkeypatch.delenv(progress.OFF, raising=False)


@pytest.mark.usefixtures("_kernel")
def test_a_question_tells_its_outermost_loop_and_nothing_afterwards(capsys):
    rl.plan("llama-3.1-8b", ["h100-sxm", "h200-sxm", "b200"], slo="tpot:25", isl=1000, osl=200, users=8)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.split("\r")
    assert [line for line in lines if "2 of 3" in line]
    assert lines[-1] == ""
    assert lines[-2].isspace()


@pytest.mark.usefixtures("_kernel")
def test_the_line_is_cleared_after_an_error(capsys):
    with pytest.raises(ZeroDivisionError):
        for _ in progress.each("abc", "letters"):
            if "1 of 3" in progress.progress_text():
                raise ZeroDivisionError
    assert progress.progress_text() == ""
    assert capsys.readouterr().err.endswith(" \r")


@each("name", ["off", "no kernel", "patience", "no stream"])
def test_without_a_reason_nothing_is_shown(name):
    with pytest.MonkeyPatch.context() as patch:
        text = []
        stream = SimpleNamespace(write=text.append, flush=lambda: None)
        patch.setattr(sys, "stderr", None if name == "no stream" else stream)
        patch.setattr(progress, "PATIENCE", 60.0 if name == "patience" else 0.0)
        patch.setitem(os.environ, progress.OFF, "0" if name == "off" else "")
        shell = SimpleNamespace() if name == "no kernel" else SimpleNamespace(kernel=object())
        patch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        assert len(list(progress.each("abc", "letters"))) == 3
        assert "".join(text) == ""
