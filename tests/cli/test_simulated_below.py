"""Where no closed form holds, the answer to one case on a terminal ends with a simulation of it."""

import json
import re
import subprocess
import sys

import pytest
from asking import ask
from every_case import each

import roofline as rl
from roofline.cli import predict as command
from roofline.questions.simulate import QUICK
from roofline.serving.load import tails

CASE = ("-m", "llama-3.1-8b", "-g", "h100", "--tp", "1", "--engine", "vllm")
CALM = ("--request-rate", "2")
#: Loads of each kind that are outside the validated range, with the arguments of Python.
OUTSIDE = {
    ("--request-rate", "2", "--isl-cv", "0.8"): {"request_rate": 2.0, "isl_cv": 0.8},
    ("--concurrency", "4", "--isl-cv", "0.8"): {"concurrency": 4, "isl_cv": 0.8},
    ("--request-rate", "2", "--osl", "1"): {"request_rate": 2.0, "osl": 1},
}


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setattr(command, "is_terminal", lambda: True)


def below(*words):
    """The simulation at the end of an answer, on one line; empty without one."""
    text = ask("predict", *CASE, *words).stdout
    found = re.search(r"^  simulated  (.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


@each(("words", "options"), list(OUTSIDE.items()))
def test_outside_the_validated_range_the_answer_ends_with_the_simulation_that_python_makes(words, options):
    case = {"tp": 1, "engine": "vllm", **options}
    simulated = rl.simulate("llama-3.1-8b", "h100", **case)
    line = below(*words)
    assert line == " ".join(simulated.brief.split())
    assert f"({simulated.requests} requests, seed 0; 95 % intervals)" in line
    assert line.startswith("TTFT ")
    assert ("TPOT" in line) == ("osl" not in case)
    assert line == below(*words)  # drawn alike


def test_inside_it_a_percentile_that_is_not_known_calls_for_one(monkeypatch):
    assert below(*CALM) == ""
    monkeypatch.setattr(tails, "_SAME_MEAN", -1.0)
    assert below(*CALM).startswith("TTFT ")


def test_a_run_has_means_alone():
    line = below("--concurrency", "4", "--num-prompts", "40")
    assert re.fullmatch(r"TTFT [\d.]+ ms; TPOT [\d.]+ ms \(40 requests, seed 0\)", line)


def test_what_takes_too_many_events_says_how_to_ask_for_it():
    line = below("--concurrency", "4000")
    assert re.fullmatch(
        r"not here: a simulation of 80000 requests of 4000 users takes about [\d.e+]+ events, more than 2e\+05; "
        r"ask for it with --simulate",
        line,
    ), line
    assert QUICK == 200_000
    assert "give fewer requests (--requests)" in below("--concurrency", "1e6", "--isl", "16", "--osl", "1")
    assert "whole users on each rank" in below("--concurrency", "7", "--num-gpus", "2", "--isl-cv", "0.8")


@each("words", [
    ("-b", "8"),
    CALM,
    ("--request-rate", "2", "--isl-cv", "0.8", "--format", "markdown"),
    ("--request-rate", "2", "--isl-cv", "0.8", "-g", "b200"),
    ("--request-rate", "2,3", "--isl-cv", "0.8"),
])  # fmt: skip
def test_no_other_answer_has_one(words):
    assert "simulated" not in ask("predict", *CASE, *words).stdout


def test_programs_get_one_only_if_they_ask_for_it():
    words = ("--request-rate", "2", "--isl-cv", "0.8", "--format", "json")
    (row,) = json.loads(ask("predict", *CASE, *words).stdout)["rows"]
    assert not any(key.startswith("simulated") for key in row)
    (row,) = json.loads(ask("predict", *CASE, *words, "--simulate", "--requests", "50").stdout)["rows"]
    assert row["simulated_requests"] == 50


def test_a_pipe_gets_none(monkeypatch):
    monkeypatch.setattr(command, "is_terminal", lambda: False)
    assert below("--request-rate", "2", "--isl-cv", "0.8") == ""


def test_where_the_closed_forms_hold_no_simulation_is_loaded():
    script = (
        "import sys; from click.testing import CliRunner; from roofline.cli import predict; from roofline.cli.main "
        f"import cli; predict.is_terminal = lambda: True; r = CliRunner().invoke(cli, {['predict', *CASE, *CALM]!r}); "
        "assert 'TTFT' in r.output, r.output; assert 'roofline.serving.load.simulation' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
