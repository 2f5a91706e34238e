"""What every question promises: rows alike in the shell and in Python, in every format, with the reason where there is
no answer, within the schema; a data frame and one line; and that questions take predictions.
"""

import copy
import inspect
import json
import pickle
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
import tiers
from cli.asking import ask, cells, csv_rows, strict_json
from every_case import each

import roofline as rl
from roofline.serving.shown import ROW_KEYS
from roofline.support.records import replace

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
CASE = {"isl": 1000, "osl": 200}
pytestmark = pytest.mark.usefixtures("_figures_predicted_once")
SHELL = ["-m", MODEL, "-g", GPU, "--isl", 1000, "--osl", 200]
ROOT = Path(__file__).parents[2]
RESULT, GUIDE = ROOT / "tests" / "fixtures" / "results" / "vllm.json", ROOT / "docs" / "howto" / "python.md"
BESIDE = ["-m", MODEL, "-g", f"{GPU},h200", "--isl", 1000, "--osl", 200]
RATE, BY_RATE = {"request_rate": 2}, ["--request-rate", 2]
POOLS = f"disaggregate -m {MODEL} --isl 1000 --osl 200 --prefill h100 --decode h100"
LIMITS, LIMITED = {"slo": "ttft:300@p95,tpot:25"}, ["--slo", "ttft:300@p95,tpot:25"]

#: Question -> how Python asks it, and the command with the same rows; None where a command has others or there is none.
QUESTIONS = {
    "predict": (lambda: rl.predict(MODEL, GPU, **CASE), ["predict", *SHELL]),
    "predict, users": (lambda: rl.predict(MODEL, GPU, **CASE, concurrency=4), ["predict", *SHELL, "-c", 4]),
    "predict, arrays": (lambda: rl.predict(MODEL, GPU, isl=[500, 1000], osl=200, batch=[[1], [2]]), None),
    "predict, plans": (lambda: rl.predict(MODEL, GPU, isl=[500, 1000], concurrency=[1, 500]), None),
    "knee": (lambda: rl.knee(MODEL, GPU, **CASE), ["predict", *SHELL, "--knee"]),
    "knee, users": (
        lambda: rl.knee(MODEL, GPU, slo="tpot:9", users=4, **CASE),
        ["knee", *SHELL, "-c", 4, "--slo", "tpot:9"],
    ),
    "knee, arrays": (lambda: rl.knee(MODEL, GPU, isl=[500, 1000], osl=200), None),
    "table": (
        lambda: rl.table(MODEL, [GPU, "h200"], isl=[500, 1000], osl=200),
        ["sweep", "-m", MODEL, "-g", f"{GPU},h200", "--isl", "500,1000", "--osl", 200],
    ),
    "plan": (lambda: rl.plan(MODEL, [GPU, "h200"], slo="tpot:25", **CASE), ["plan", *BESIDE, "--slo", "tpot:25"]),
    "goodput": (
        lambda: rl.goodput(MODEL, [GPU, "h200"], slo="tpot:25", **CASE),
        ["goodput", *BESIDE, "--slo", "tpot:25"],
    ),
    "plan, lists": (
        lambda: rl.plan(MODEL, [GPU, "l40s"], slo="ttft:80", users=[4, 8], isl="2k,1k", osl=200),
        ["plan", *BESIDE[:3], f"{GPU},l40s", "--slo", "ttft:80", "-c", "4,8", "--isl", "2k,1k", "--osl", 200],
    ),
    "plan, models": (
        lambda: rl.plan([MODEL, "qwen3-8b"], GPU, slo="tpot:5", **CASE),
        ["plan", "-m", f"{MODEL},qwen3-8b", *SHELL[2:], "--slo", "tpot:5"],
    ),
    "goodput, lists": (
        lambda: rl.goodput(MODEL, [GPU, "l40s"], slo="tpot:12", tp=(1, 2), quantization=["bf16", "fp8"], **CASE),
        ["goodput", *BESIDE[:3], f"{GPU},l40s", *BESIDE[4:], "--slo", "tpot:12", "--tp", "1,2", "-q", "bf16,fp8"],
    ),
    "cost, lists": (
        lambda: rl.cost(MODEL, [GPU, "h200"], rate=np.array([30, 1]), prefix="0,50%", slo="ttft:90", **CASE),
        ["cost", *BESIDE, "--rate", "30,1", "--prefix", "0,50%", "--slo", "ttft:90"],
    ),
    "prompt_cache, models": (
        lambda: rl.prompt_cache(f"{MODEL},qwen3-8b", [GPU, "h200"], prefix=800, **CASE),
        ["cache", "-m", f"{MODEL},qwen3-8b", *BESIDE[2:], "--prefix", 800],
    ),
    "curve": (lambda: rl.curve(MODEL, GPU, **CASE), ["curve", *SHELL]),
    "budgets": (
        lambda: rl.budgets(MODEL, GPU, over="max_num_seqs", values="16,64", engine="vllm", **CASE, **RATE, **LIMITS),
        ["curve", *SHELL, "--over", "max-num-seqs", "--values", "16,64", "--engine", "vllm", *BY_RATE, *LIMITED],
    ),
    "fits": (
        lambda: rl.fits(MODEL, [GPU, "l4"], engine="vllm@0.19", max_model_len="8k"),
        ["fits", *SHELL[:4], "-g", "l4", "--engine", "vllm@0.19", "--max-model-len", "8k"],
    ),
    "launch": (lambda: rl.launch(MODEL, GPU, to="vllm", tp=2, **CASE), None),
    "dynamo": (lambda: rl.dynamo(rl.predict(MODEL, GPU, engine="vllm", **CASE), to="vllm"), None),
    "pareto": (
        lambda: rl.pareto(MODEL, [GPU, "h200"], tp=[1, 2], batch=[1, 8, 64], **CASE),
        ["pareto", *BESIDE, "--tp", "1,2", "-b", "1,8,64"],
    ),
    "cost": (lambda: rl.cost(MODEL, [GPU, "h200"], request_rate=2, **CASE), ["cost", *BESIDE, "--request-rate", 2]),
    "compare": (lambda: rl.compare(MODEL, [GPU, "h200"], **CASE), ["compare", *BESIDE]),
    "quantize": (lambda: rl.quantize(MODEL, GPU, **CASE), ["quantize", *SHELL]),
    "sensitivity": (lambda: rl.sensitivity(MODEL, GPU, of="tpot", **CASE), ["sensitivity", *SHELL, "--of", "tpot"]),
    "solve": (
        lambda: rl.solve(MODEL, GPU, "bandwidth", tpot=0.005, **CASE),
        ["solve", *SHELL, "--for", "bandwidth", "--tpot", "5ms"],
    ),
    "formula": (
        lambda: rl.formula(MODEL, GPU, "tpot", basis="ideal", **CASE),
        ["formula", "tpot", *SHELL, "--basis", "ideal"],
    ),
    "levers": (lambda: rl.levers(MODEL, GPU, request_rate=2, **CASE), ["levers", *SHELL, "--request-rate", 2]),
    "prompt_cache": (lambda: rl.prompt_cache(MODEL, GPU, prefix=800, **CASE), ["cache", *SHELL, "--prefix", 800]),
    "speculate": (
        lambda: rl.speculate(MODEL, GPU, draft="ngram", acceptance=0.6, draft_tokens=2, batch=[1, 64], **CASE),
        ["speculate", *SHELL, "--draft", "ngram", "--acceptance", "0.6", "--draft-tokens", 2, "-b", "1,64"],
    ),
    "disaggregate": (
        lambda: rl.disaggregate(MODEL, "h100:tp1x2", "h100:tp1", request_rate=2, **CASE),
        f"disaggregate -m {MODEL} --isl 1000 --osl 200 --request-rate 2 --prefill h100:tp1x2 --decode h100:tp1".split(),
    ),
    "simulate": (
        lambda: rl.simulate(MODEL, GPU, request_rate=2, requests=50, **CASE),
        ["predict", *SHELL, "--request-rate", 2, "--simulate", "--requests", 50],
    ),
    "check": (lambda: rl.check(RESULT), ["check", RESULT]),
    "check, after": (lambda: rl.check(RESULT, after=[RESULT, RESULT]), ["check", RESULT, "--after", RESULT, RESULT]),
    "calibrate_engine": (lambda: rl.calibrate_engine(RESULT), None),
    "calibrate_once": (lambda: rl.calibrate_once(MODEL, GPU, {"tpot": 0.01}, **CASE), None),
}
#: The same with other loads and options.
FURTHER = {
    "predict, a rate": (lambda: rl.predict(MODEL, GPU, **CASE, **RATE, **LIMITS), ["ttft", *SHELL, *BY_RATE, *LIMITED]),
    "predict, a run": (
        lambda: rl.predict(MODEL, GPU, **CASE, concurrency=8, num_prompts=80),
        ["tpot", *SHELL, "-c", 8, "--num-prompts", 80],
    ),
    "predict, a burst": (lambda: rl.predict(MODEL, GPU, **CASE, batch=8), ["knee", *SHELL, "--batch", 8]),
    "curve, users": (
        lambda: rl.curve(MODEL, GPU, against="users", max_num_seqs=64, **CASE, **LIMITS),
        ["curve", *SHELL, "--against", "users", "--max-num-seqs", 64, *LIMITED],
    ),
    "pareto, users": (
        lambda: rl.pareto(
            MODEL, GPU, quantization="bf16,fp8", x="ttft_p99", y="usd_per_m_output_tok", **CASE, **LIMITS
        ),
        ["curve", "--pareto", *SHELL, "-q", "bf16,fp8", "--x", "ttft_p99", "--y", "usd_per_m_output_tok", *LIMITED],
    ),
    "goodput, a share": (
        lambda: rl.goodput(MODEL, GPU, share=0.95, **CASE, **LIMITS),
        ["goodput", *SHELL, "--share", "95%", *LIMITED],
    ),
    "cost, an API": (
        lambda: rl.cost(MODEL, [GPU, "a100"], gpu_price=(2, 4), api_price={"in": 0.05, "out": 0.2}, **RATE, **CASE),
        ["cost", *SHELL, "-g", "a100", *BY_RATE, "--gpu-price", "2-4", "--api-price", "in:0.05,out:0.2"],
    ),
    "disaggregate, layers": (
        lambda: rl.disaggregate(MODEL, "h100", "h100", kv_link="25 GB/s", layerwise=True, **RATE, **CASE),
        [*POOLS.split(), *BY_RATE, "--kv-link", "25 GB/s", "--layerwise"],
    ),
}
CASES = {**QUESTIONS, **tiers.times({}, FURTHER)}
SHELLS = {name: command for name, (_, command) in CASES.items() if command}
#: Questions of which some cases have no answer -> the command, how many of its rows have a reason, and a word of it.
#: Where the exit code is 1, a message says it as well.
WITHOUT = {
    "ttft": (["ttft", *BESIDE, "-g", "l40s", "--batch", 200, "--tp", 1], 1, 1, "does not fit"),
    "sweep": (["sweep", *SHELL, "-b", "1,100000", "--tp", 1], 1, 0, "does not fit"),
    "plan": (["plan", *BESIDE, "-g", "l40s", "--slo", "ttft:40"], 1, 0, "misses"),
    "plan, none": (["plan", *SHELL, "--slo", "ttft:1"], 1, 1, "misses"),
    "goodput": (["goodput", *BESIDE, "-g", "b200", "--slo", "ttft:30", "--tp", 1], 2, 0, "mean TTFT"),
    "goodput, none": (["goodput", *BESIDE, "--slo", "ttft:1", "--tp", 1], 2, 1, "mean TTFT"),
    "cost": (["cost", "-m", "llama-3.1-405b", "-g", "b200:tp8,h100:tp1"], 1, 0, "does not fit"),
    "compare": (["compare", *BESIDE, "-g", "l40s", "--batch", 200, "--tp", 1], 1, 1, "does not fit"),
    "solve": (["solve", *BESIDE, "--for", "bandwidth", "--ttft", "27ms", "-g", "b200"], 2, 1, "TTFT"),
    "levers": (["levers", *SHELL, "-q", "fp8", "--tp", 1, "--request-rate", 2], 4, 0, "-"),
    "cache": (["cache", "-m", "llama-3.1-70b", "-g", "b200,l4", "--prefix", 900, "--tp", 1], 1, 0, "does not fit"),
}
#: What `--format json` has beside the answer.
SCHEMA = "schema_version"


@pytest.fixture(scope="module")
def answers():
    return {name: ask_one() for name, (ask_one, _) in CASES.items()}


@cache
def document(name):
    """JSON of the command of a question, read strictly."""
    result = ask(*SHELLS[name], "--format", "json")
    assert result.exit_code == 0, result.output
    return strict_json(result.stdout)


def plain(value):
    """As JSON holds it."""
    return json.loads(json.dumps(value, allow_nan=False))


@each("name", CASES, few=12)
def test_rows_are_those_of_the_shell(answers, name):
    answer, command = answers[name], CASES[name][1]
    rows, whole = answer.to_rows(), plain(answer.to_dict())
    assert rows
    assert all(list(row) == list(rows[0]) for row in rows)
    assert whole["rows"] == plain(rows) if "rows" in whole else "arrays" in name or "plans" in name or [whole] == rows
    if command is None:
        return
    shell = copy.deepcopy(document(name))
    assert [list(row) for row in rows] == [list(row) for row in shell["rows"]]
    for row in (*rows, *shell["rows"]) if name == "levers" else ():
        row["options"] = None  # as stated, and a shell states defaults, too
    assert plain(rows) == shell["rows"]
    of_python = ("rows", "refused")  # of GPUs that cannot run a case, the shell has rows
    if "rows" in whole:
        assert {key: value for key, value in whole.items() if key not in of_python} == {
            key: value for key, value in shell.items() if key not in (SCHEMA, "rows")
        }


def assert_written(header, body, rows):
    """Rows of a CSV file hold the keys and values of rows."""
    assert header == list(rows[0])
    for line, row in zip(body, rows, strict=True):
        for (key, value), cell in zip(row.items(), line, strict=True):
            if isinstance(value, bool):
                assert cell == str(value).lower(), key
            elif isinstance(value, (int, float)):
                assert float(cell) == value, key
            elif isinstance(value, list):
                assert re.sub(r"(^|; )'", r"\1", cell) == "; ".join(value), key
            elif not isinstance(value, dict):
                assert cell.removeprefix("'") == ("" if value is None else value), key


IN_FILES = [name for name in SHELLS if name != "formula"]  # which has programs in place of tables


@each("name", IN_FILES, few=4)
def test_a_file_has_the_keys_and_values_of_the_rows(name, tmp_path):
    path = tmp_path / f"{name}.csv"
    result = ask(*SHELLS[name], "-o", path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"wrote {len(document(name)['rows'])} row" in result.stderr
    assert_written(*csv_rows(path.read_text(encoding="utf-8")), document(name)["rows"])


@each("name", ["predict", "table", "curve"])
def test_a_file_that_is_there_is_overwritten_by_force_alone(name, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("mine")
    refused = ask(*SHELLS[name], "-o", path)
    assert (refused.exit_code, refused.stdout, path.read_text()) == (1, "", "mine")
    assert "--force" in refused.stderr
    assert ask(*SHELLS[name], "-o", path, "--force").exit_code == 0
    assert csv_rows(path.read_text())[0] == list(document(name)["rows"][0])


@each("name", WITHOUT, few=3)
def test_where_there_is_no_answer_every_format_has_the_reason(name):
    command, count, code, word = WITHOUT[name]
    results = {output: ask(*command, "--format", output) for output in ("json", "csv", "markdown", "table")}
    assert {result.exit_code for result in results.values()} == {code}
    assert {result.stderr.count("Error: ") for result in results.values()} == {code}
    rows = strict_json(results["json"].stdout)["rows"]
    assert_written(*csv_rows(results["csv"].stdout), rows)
    assert all(list(row) == list(rows[0]) for row in rows)
    without = [row for row in rows if reason_of(row)]
    assert len(without) == count
    assert [row for row in without if row.get("ttft_ms") is not None] == []
    heading, *lines = cells(results["markdown"].stdout)
    assert all(len(line) == len(heading) for line in lines)
    assert results["markdown"].stdout.count(word) >= count
    assert word in results["table"].output


def reason_of(row):
    """Why a row has no answer."""
    errors = [text for text in row["warnings"] if re.match(r"[A-Z]\w+: ", text)] if "warnings" in row else []
    return row.get("reason") if "reason" in row else "; ".join(errors)


@tiers.has_more_cases
@each("name", CASES)
def test_keys_choose_columns_in_their_order(answers, name):
    answer = answers[name]
    rows = answer.to_rows()
    keys = list(reversed(list(rows[0])[:3]))
    assert answer.to_rows(iter(keys)) == [{key: row[key] for key in keys} for row in rows]
    with pytest.raises(rl.UnknownName, match="unknown key 'nonsense'; choose from "):
        answer.to_rows(["nonsense"])
    with pytest.raises(rl.BadInput, match="must be a list of keys"):
        answer.to_rows("ttft_ms")


@tiers.has_more_cases
@each("name", CASES)
def test_a_data_frame_has_a_column_for_each_key(answers, name):
    rows, frame = answers[name].to_rows(), answers[name].to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert (len(frame), list(frame.columns)) == (len(rows), list(rows[0]))
    key = next(iter(rows[0]))
    assert list(frame[key]) == [row[key] for row in rows]
    assert list(answers[name].to_pandas([key]).columns) == [key]


@tiers.has_more_cases
@each("name", CASES)
def test_an_answer_shows_itself_on_one_line(answers, name):
    text = repr(answers[name])
    assert "\n" not in text
    assert 10 < len(text) < 500


#: Cases that have a picture -> the panels of it.
DRAWN = {
    "predict": 4, "predict, users": 4, "predict, a rate": 4, "predict, a run": 4, "predict, a burst": 4, "curve": 3,
    "curve, users": 3, "pareto": 1, "pareto, users": 1, "sensitivity": 1,
}  # fmt: skip
#: Cases of answers that have pictures, but not of this -> why.
NOT_DRAWN = {
    "predict, arrays": "a picture takes one case",
    "check": "a sweep needs runs of one server at two loads or more",
    "check, after": "a sweep needs two or more",
}


@tiers.has_more_cases
@each("name", CASES)
def test_an_answer_is_drawn_or_says_that_it_has_no_picture(answers, name):
    if name in DRAWN:
        picture = answers[name].plot()
        assert isinstance(picture, rl.plot.Picture)
        assert len(picture.panels) == DRAWN[name]
        assert MODEL in picture.title
        assert picture == rl.plot.of(answers[name])
        return
    with pytest.raises(rl.BadInput, match=NOT_DRAWN.get(name, "^[A-Z]\\w+ has no picture; these have: Prediction, ")):
        answers[name].plot()


def test_several_answers_are_drawn_together_and_others_are_named_in_the_refusal():
    ranked = rl.Answers(rl.predict(MODEL, gpu, **CASE) for gpu in (GPU, "b200"))
    assert ranked.plot() == rl.plot.ranking(ranked)
    curves = rl.Answers([rl.curve(MODEL, GPU, **CASE)] * 2)
    assert curves.plot() == rl.plot.curve(curves)
    sweep = rl.check(ROOT / "tests" / "fixtures" / "faults" / "healthy.json")
    assert sweep.plot() == rl.plot.measured(sweep)
    service = rl.equal_service(MODEL, [GPU, "b200"], **CASE)
    assert service.plot() == rl.plot.equal_service(service)
    for answer, name in (
        (rl.goodput(MODEL, GPU, slo="tpot:25", **CASE), "GpuGoodput"),
        (rl.knee(MODEL, GPU, **CASE), "Knees"),
        (rl.Answers(), "Answers"),
        (rl.Answers([ranked[0], curves[0]]), "Curve or Prediction"),
    ):
        with pytest.raises(rl.BadInput, match=f"^{name} has no picture"):
            answer.plot()


def notebook(answer):
    """Title, texts of cells by line, and lines below the table that a notebook shows; of a single case a line each."""
    shown = ET.fromstring(f"<div>{answer._repr_html_()}</div>")
    lines = [["\n".join(cell.itertext()) for cell in line] for line in shown.iter("tr")]
    return shown.findtext("table/caption"), lines, [note.text for note in shown.iter("p")]


def in_three_digits(milliseconds):
    for unit, size in (("s", 1000.0), ("ms", 1.0), ("us", 0.001)):
        if milliseconds >= size:
            figure = float(f"{milliseconds / size:.3g}")
            return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}", unit
    return "0", "ms"


@tiers.has_more_cases
@each("name", CASES)
def test_a_notebook_shows_what_the_line_says_and_how_sure_it_is(answers, name):
    answer, (title, lines, notes) = answers[name], notebook(answers[name])
    texts = [text for line in lines for text in line]
    assert not {"None", "nan", "inf", "[]", "{}"} & set(texts)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 20
    lists = isinstance(answer, (list, rl.Table))
    line = repr(answer)
    assert title.startswith(str(len(answer))) if lists else title in (line[1:-1], f"{line[1:298]}...")
    row, words = answer.to_rows()[0], " ".join([*texts, *notes])
    for key in ("basis", "slo_verdict", "slo_reason"):
        assert str(row.get(key) or "") in words, key
    if row.get("ttft_low_ms") is not None:
        assert row.get("prefill_bound", "") in words  # points of a curve have none
        for time in ("ttft", "tpot"):
            for end in ("", "_low", "_high"):
                assert in_three_digits(row[f"{time}{end}_ms"])[0] in words, (time, end)


def test_a_notebook_shows_the_first_rows_and_how_many_more_there_are():
    p = rl.predict(MODEL, GPU, isl=np.arange(100.0, 100100.0), osl=200)
    title, lines, notes = notebook(p)
    assert (title, len(lines)) == (repr(p)[1:-1], 11)
    assert [line[0] for line in lines] == ["isl", *map(str, range(100, 110))]
    assert notes[0] == "... 99,990 more"
    assert notes[1].startswith(
        "In all of these rows: model: llama-3.1-8b; GPU: 1x h100-sxm; plan: tp 1, bf16; osl: 200"
    )
    assert notebook(rl.knee(MODEL, GPU, isl=np.arange(100.0, 200.0), osl=200))[2][0] == "... 90 more"
    many = rl.prompt_cache(f"{MODEL},qwen3-8b", [GPU, "h200"], prefix=800, **CASE)
    assert (notebook(many)[0], notebook(many)[2][0]) == ("12 answers", "... 2 more")
    assert notebook(many[:1])[0] == "1 answer"


def test_without_rows_a_notebook_has_nothing_to_show():
    assert rl.Answers([3, 1, 2])._repr_html_() is None
    assert notebook(rl.Answers())[0] == "0 answers"


HOSTILE = '<img src="x" onerror="alert(1)">&amp;'


def test_names_are_text_in_a_notebook(tmp_path):
    gpu = replace(rl.load_gpu(GPU), name=HOSTILE)
    model = replace(rl.load_model(MODEL), name=HOSTILE, short_name=HOSTILE)
    p = rl.predict(model, gpu, tp=1, users=2, slo="ttft:9", **CASE)
    path = tmp_path / HOSTILE.replace("/", "")
    path.write_text(RESULT.read_text())
    answers = (
        p, rl.goodput(model, gpu, tp=1, slo="ttft:300", **CASE), rl.table(model, gpu, isl=[100, 200], tp=1),
        rl.predict(model, gpu, tp=1, isl=[100, 200]), rl.check(path), rl.Answers([{HOSTILE: HOSTILE}]),
    )  # fmt: skip
    for answer in answers:
        title, lines, notes = notebook(answer)  # of HTML as it is read
        assert HOSTILE in f"{title} {lines} {notes}"
        assert "<img" not in answer._repr_html_()


def test_the_table_of_a_notebook_costs_nothing_before_it_is_asked_for():
    code = "import roofline as rl, sys; repr(rl.predict('llama-3.1-8b', 'h100'))"
    code += "; assert not {'html', 'roofline.serving.notebook'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@each("name", [name for name in CASES if name.partition(",")[0] not in ("knee", "calibrate_once")])
def test_every_answer_is_of_the_family(answers, name):
    assert isinstance(answers[name], rl.Answer)  # the others are named tuples, with the same methods


def test_every_public_question_is_asked_here():
    asked = {name.partition(",")[0] for name in CASES}
    numbers, records, names = (
        {"ttft", "tpot", "sheet", "page", "step_time"},
        {"load_gpu", "load_model", "load_workload"},
        {"check_specs"},
    )
    names |= {"gpus", "models", "workloads", "workload_options"}
    names |= {"size", "turning_points", "next_measurement", "check_plan", "day"}  # plan again; about its answer
    names |= {"load_case", "command_case", "equal_service"}
    public = {name for name in rl.__all__ if inspect.isfunction(getattr(rl, name))}
    assert asked == public - numbers - records - names


def test_without_pandas_the_error_says_what_to_install(monkeypatch, answers):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(rl.BadInput, match="to_pandas needs pandas: pip install pandas; to_rows gives the same rows"):
        answers["predict"].to_pandas()


def test_importing_an_answer_imports_no_pandas():
    code = (
        "import roofline as rl, sys; rl.predict('llama-3.1-8b', 'h100').to_rows(); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- lists ---------------------------------------------------------------------------------------

LISTS = ("goodput", "cost", "prompt_cache", "check, after")


@each("name", LISTS)
def test_a_list_of_answers_is_still_a_list(answers, name):
    answer = answers[name]
    items = [*answer]
    assert isinstance(answer, list)
    assert answer == items
    assert (answer[0], answer[-1], len(answer)) == (items[0], items[-1], len(items))
    assert isinstance(answer[1:], rl.Answers)
    assert answer[1:] == items[1:]
    assert answer[1:].to_rows() == answer.to_rows()[1:]
    assert sorted(answer, key=str) == sorted(items, key=str)
    assert [*reversed(answer)] == items[::-1]
    assert items[0] in answer
    assert [*answer, 1] == [*items, 1]
    for twin in (copy.copy(answer), pickle.loads(pickle.dumps(answer))):
        assert type(twin) is type(answer)
        assert twin.to_rows() == answer.to_rows()


def test_a_table_does_not_flood_a_notebook():
    rows = rl.table(MODEL, GPU, isl=range(100, 600))
    assert len(repr(rows)) < 400
    assert repr(rows).endswith(", ... 499 more]")
    assert str(rows) == repr(rows)
    assert repr(rl.table(MODEL, GPU, isl=[100], keys=["isl"])) == "[{'isl': 100, 'reason': None}]"
    assert json.loads(json.dumps(rows[:1]))[0]["isl"] == 100


def test_an_empty_list_has_no_rows():
    assert (repr(rl.Answers()), rl.Answers().to_rows(), rl.Answers().to_dict()) == ("[]", [], {"rows": []})
    assert rl.Answers().to_pandas().empty


# --- arrays --------------------------------------------------------------------------------------


@each("name", ["predict, arrays", "predict, plans"])
def test_rows_of_arrays_are_those_of_each_case(answers, name):
    prediction = answers[name]
    cases = (
        [{"isl": isl, "osl": 200, "batch": batch, "tp": 1} for batch in (1, 2) for isl in (500, 1000)]
        if name == "predict, arrays"
        else [{"isl": 500, "concurrency": 1}, {"isl": 1000, "concurrency": 500}]
    )
    rows = prediction.to_rows()
    assert len(rows) == prediction.ttft.size == len(cases)
    for row, case in zip(rows, cases, strict=True):
        alone = rl.predict(MODEL, GPU, **case).to_rows(ROW_KEYS[:-1])[0]
        for key, value in alone.items():
            if isinstance(value, float):
                assert row[key] == pytest.approx(value, rel=1e-12), key
            else:
                assert row[key] == value, key


# --- predictions in place of a model, a GPU and options -------------------------------------------

USERS = {**CASE, "tp": 1, "concurrency": 8, "slo": "ttft:300,tpot:25"}
LIMITED = {**CASE, "tp": 1, "slo": "ttft:300,tpot:25"}
ENGINE = {
    "engine": "vllm",
    "max_num_seqs": 100,
    "network": "20ms",
    "derate": "bandwidth:5%",
    "gpu_price": "2-4",
    "tp": 2,
}
TAKING = {
    "sensitivity": (CASE, lambda *case, **options: rl.sensitivity(*case, of="tpot", **options)),
    "sensitivity, users": (USERS, lambda *case, **options: rl.sensitivity(*case, of=["ttft"], **options)),
    "knee": (CASE, rl.knee),
    "knee, users": (USERS, rl.knee),
    "knee, arrays": ({"isl": [500, 1000]}, rl.knee),
    "formula": ({**CASE, "basis": "ideal"}, lambda *case, **options: rl.formula(*case, "tpot", **options)),
    "formula, ttft": (CASE, rl.formula),
    "solve": (CASE, lambda *case, **options: rl.solve(*case, "isl", ttft="200ms", **options)),
    "solve, SLO": (USERS, lambda *case, **options: rl.solve(*case, "bandwidth", **options)),
    "solve, tp": (CASE, lambda *case, **options: rl.solve(*case, "tp", tpot=0.004, **options)),
    "solve, no load": ({**CASE, "tp": 1}, lambda *case, **options: rl.solve(*case, "users", tpot=0.02, **options)),
    "solve, no load but an SLO": (LIMITED, lambda *case, **options: rl.solve(*case, "rate", **options)),
    "simulate": (USERS, lambda *case, **options: rl.simulate(*case, requests=50, **options)),
    "goodput": (LIMITED, rl.goodput),
    "goodput, share": (
        {**LIMITED, **ENGINE, "isl_cv": 0.5, "request_rate": 3},
        lambda *case, request_rate=None, **options: rl.goodput(*case, share=0.9, **options),
    ),
    "plan": ({**USERS, "isl_cv": 0.5, "weights": "fp8"}, rl.plan),
    "plan, other GPUs": (USERS, lambda model, *_, **options: rl.plan(model, ["h200", "l40s"], **options)),
    "cost": (USERS, lambda *case, **options: rl.cost(*case, api_price="in:0.5,out:1.5", **options)),
    "cost, no load": ({**CASE, **ENGINE}, lambda *case, **options: rl.cost(*case, headroom="20%", **options)),
    "cost, bursts": ({**CASE, "tp": 1, "batch": 1}, rl.cost),
    "levers": (USERS, lambda *case, **options: rl.levers(*case, goal="cost", **options)),
    "pareto": ({**LIMITED, "weights": "fp8"}, rl.pareto),
    "quantize": ({**USERS, **ENGINE}, lambda *case, **options: rl.quantize(*case, baseline="fp8", **options)),
    "prompt_cache": ({**CASE, "tp": 1, "prefix": "80%", "cache_hit": 0.5}, rl.prompt_cache),
    "speculate": (
        {**CASE, "tp": 1, "draft": "ngram", "acceptance": 0.6, "draft_tokens": 2, "concurrency": 4},
        rl.speculate,
    ),
    "speculate, another draft": (
        {**CASE, "tp": 1},
        lambda *case, **options: rl.speculate(*case, draft="eagle", acceptance=0.7, batch=[1, 64], **options),
    ),
}


@each("name", TAKING, few=4)
def test_a_prediction_asks_as_its_options_do(name):
    options, ask = TAKING[name]
    by_prediction, by_options = ask(rl.predict(MODEL, GPU, **options)), ask(MODEL, GPU, **options)
    assert by_prediction.to_dict() == by_options.to_dict()
    assert repr(by_prediction) == repr(by_options)
    assert str(by_prediction) == str(by_options)


def test_a_question_takes_what_it_varies_out_of_a_prediction():
    p = rl.predict(MODEL, "2xh100:fp8", isl=1000, osl=200, slo="tpot:25", allow_oversize=True)
    assert (
        rl.quantize(p).to_dict()
        == rl.quantize(MODEL, "2xh100:tp1", allow_oversize=True, slo="tpot:25", **CASE).to_dict()
    )
    assert rl.plan(p).to_dict() == rl.plan(MODEL, "h100", quantization="fp8", slo="tpot:25", **CASE).to_dict()
    loaded = rl.predict(MODEL, "h100:tp2x2", request_rate=3, num_prompts=None, slo="tpot:9", **CASE)
    assert rl.goodput(loaded).to_dict() == rl.goodput(MODEL, "h100:tp2x2", slo="tpot:9", **CASE).to_dict()
    assert rl.goodput(loaded, slo="tpot:8")[0].rate < rl.goodput(loaded)[0].rate
    slo = {"tpot": 0.009}
    kept = rl.predict(MODEL, "h100:tp2x2", slo=slo, **CASE)
    slo["tpot"] = 0.001
    for twin in (kept, pickle.loads(pickle.dumps(kept)), copy.deepcopy(kept)):
        assert rl.goodput(twin).to_dict() == rl.goodput(MODEL, "h100:tp2x2", slo={"tpot": 0.009}, **CASE).to_dict()


@each("question", ["goodput", "cost", "levers", "quantize", "speculate"], few=2)
def test_the_plan_of_a_prediction_is_kept(question):
    wide = rl.predict(MODEL, "4xh100", rate=2, slo="ttft:60,tpot:3", draft="ngram", acceptance=[0.6, 0.6], **CASE)
    row = getattr(rl, question)(wide).to_rows(["tp", "num_gpus"])[0]
    assert (row["tp"], row["num_gpus"]) == (wide.deployment.plan.tp, 4) == (2, 4)  # chosen for the SLO


def test_a_curve_of_a_deployment_that_does_not_fit_is_hypothetical():
    p = rl.predict("llama-3.1-70b", GPU, tp=1, allow_oversize=True, slo="tpot:60", **CASE)
    for curve in (rl.curve(p), rl.curve(p, against="users")):
        assert len(curve.rows) > 3
        assert {row["slo_verdict"] for row in curve.rows} == {"fail"}
        assert curve.goodput is None
        assert any("times are hypothetical" in text for text in curve.prediction.warnings)
        point = curve.rows[3]
        alone = rl.predict(
            "llama-3.1-70b", GPU, tp=1, allow_oversize=True, **CASE, **{curve.against: point[curve.against]}
        )
        assert point["tpot_ms"] == pytest.approx(alone.tpot * 1e3, rel=1e-12)


@each("against", ["rate", "users"])
def test_a_curve_takes_deployment_and_limits_from_a_prediction(against):
    options = {**CASE, "tp": 1, "slo": "tpot:25"}
    for load in ({}, {"concurrency": 9}, {"request_rate": 1}):  # it varies
        taken = rl.curve(rl.predict(MODEL, GPU, **options, **load), against=against)
        asked = rl.curve(MODEL, GPU, against=against, **options)
        assert (taken.rows, taken.goodput, taken.saturation, taken.slo) == (
            asked.rows, asked.goodput, asked.saturation, asked.slo,
        )  # fmt: skip


def test_predictions_are_compared_as_gpus_are():
    first, second = (rl.predict(MODEL, gpu, **USERS) for gpu in (GPU, "h200"))
    by_options = rl.compare(MODEL, [GPU, "h200"], **USERS)
    for by_prediction in (rl.compare(first, second), rl.compare(first, [second])):
        assert by_prediction.to_dict() == by_options.to_dict()
        assert str(by_prediction) == str(by_options)


def test_a_gpu_is_compared_with_itself_by_plan_and_format():
    cases = [{}, {"tp": 2}, {"tp": 1, "quantization": "fp8"}]
    answer = rl.compare(*(rl.predict(MODEL, GPU, **CASE, **case) for case in cases))
    assert [row["label"] for row in answer.to_rows()] == ["h100-sxm:tp1:bf16", "h100-sxm:tp2:bf16", "h100-sxm:tp1:fp8"]
    assert answer.reference.label == "h100-sxm:tp1:bf16"


LABELS = {
    "engine": ([{"engine": "vllm"}, {"engine": "sglang"}], ["h100-sxm (vllm)", "h100-sxm (sglang)"]),
    "setting": ([{}, {"max_num_seqs": 8}], ["h100-sxm", "h100-sxm (max_num_seqs 8)"]),
    "basis": ([{}, {"basis": "ideal", "gpu": "h200"}], ["h100-sxm", "h200-sxm (ideal)"]),
    "draft": (
        [{}, {"draft": "ngram", "acceptance": 0.5, "draft_tokens": 3}],
        ["h100-sxm", "h100-sxm (ngram, 1.88 tokens per step)"],
    ),
    "routing": ([{}, {"routing": "uniform"}], ["h100-sxm (routing 0.66)", "h100-sxm (uniform routing)"]),
    "plan, too": (
        [{}, {"engine": "vllm"}, {"engine": "vllm", "tp": 2}],
        ["h100-sxm (generic)", "h100-sxm:tp1:bf16 (vllm)", "h100-sxm:tp2:bf16 (vllm)"],
    ),
    "not what follows from the GPU": ([{}, {"gpu": "mi300x"}], ["h100-sxm", "mi300x"]),
}


@each("name", LABELS)
def test_labels_of_a_comparison_say_what_differs(name):
    cases, labels = LABELS[name]
    answer = rl.compare(*(rl.predict(MODEL, **{"gpu": GPU, **CASE, **case}) for case in cases))
    assert [row["label"] for row in answer.to_rows()] == labels
    assert all(label in repr(answer) for label in labels)


REFUSED = {
    "GPU beside": (lambda p: rl.knee(p, GPU), "knee takes its case from the prediction; leave out gpu, or give it to"),
    "option beside": (lambda p: rl.sensitivity(p, isl=5), "leave out isl, or give it to predict"),
    "limits beside": (lambda p: rl.curve(p, slo="tpot:25"), "curve takes its case from the prediction; leave out slo"),
    "no GPU": (lambda p: rl.sensitivity(MODEL), "sensitivity needs a model and a GPU, or a prediction alone"),
    "no GPU of a curve": (lambda p: rl.curve(MODEL), "curve needs a model and a GPU, or a prediction alone"),
    "another load": (
        lambda p: rl.solve(rl.predict(MODEL, GPU, concurrency=1), "request_rate", tpot=0.1),
        "the prediction has a concurrency; give request_rate",
    ),
    "no target": (lambda p: rl.solve(p, "bandwidth"), "solve needs a target"),
    "a burst": (rl.simulate, "a burst is exact without simulation"),
    "arrays": (lambda p: rl.curve(rl.predict(MODEL, GPU, isl=[1, 2])), "a curve takes one case"),
    "rate": (lambda p: rl.knee(rl.predict(MODEL, GPU, request_rate=1)), "a knee is a batch"),
    "one": (rl.compare, "compare needs two GPUs or more"),
    "alike": (lambda p: rl.compare(p, p), "h100-sxm:tp1:bf16 is named twice"),
    "a name beside": (lambda p: rl.compare(p, "h200"), "not 'h200'; give rl.predict"),
    "two ways": (lambda p: rl.compare(MODEL, p), "or predictions alone"),
    "options beside": (lambda p: rl.compare(p, p, isl=5), "leave out isl"),
    "lengths": (lambda p: rl.compare(p, rl.predict(MODEL, "h200")), "these predictions differ in lengths or load"),
    "models": (lambda p: rl.compare(p, rl.predict("qwen3-8b", GPU, **CASE)), "these predictions differ in model"),
    "limits": (lambda p: rl.compare(p, rl.predict(MODEL, "h200", slo="tpot:9", **CASE)), "differ in SLO"),
    "GPUs beside": (lambda p: rl.goodput(p, GPU, slo="tpot:25"), "goodput takes its case from the prediction; leave"),
    "options beside a size": (lambda p: rl.plan(p, slo="tpot:25", isl=5), "plan takes its case from the prediction"),
    "no SLO of a goodput": (rl.goodput, "goodput needs an SLO"),
    "no SLO of a size": (rl.plan, "plan needs an SLO"),
    "no SLO at all": (lambda p: rl.plan(MODEL, GPU), "plan needs an SLO"),
    "no load of levers": (rl.levers, "levers need a load"),
    "no prefix": (rl.prompt_cache, "a prompt cache needs a prefix"),
    "no draft": (rl.speculate, "speculate needs a draft"),
    **{
        f"no GPU of {question.__name__}": (
            lambda p, ask=question: ask(MODEL),
            f"{question.__name__} needs a model and a GPU",
        )
        for question in (rl.levers, rl.quantize, rl.speculate)
    },
    **{
        f"arrays of {question.__name__}": (
            lambda p, ask=question: ask(rl.predict(MODEL, GPU, isl=[1, 2])),
            f"{question.__name__} takes one case; lengths must be numbers, not arrays; of several, table makes a row",
        )
        for question in (rl.goodput, rl.plan, rl.cost, rl.levers, rl.quantize, rl.prompt_cache, rl.speculate)
    },
    "measured levers": (
        lambda p: rl.levers(rl.predict(MODEL, GPU, concurrency=2, measured={"ttft": 0.1})),
        "levers takes no measured: a measurement is of one deployment only",
    ),
    "oversize": (
        lambda p: rl.goodput(rl.predict(MODEL, GPU, allow_oversize=True, slo="tpot:25")),
        "goodput takes no allow_oversize: what does not fit serves nobody",
    ),
    "of another question": (
        lambda p: rl.cost(rl.solve(p, "bandwidth", tpot=0.005).prediction),
        "cost takes a prediction as rl.predict gave it",
    ),
    "used up": (
        lambda p: rl.cost(rl.predict(MODEL, GPU, draft="ngram", acceptance=iter([0.6, 0.5]))),
        "cost takes a prediction as rl.predict gave it",
    ),
    "a load that was stated": (
        lambda p: rl.solve(rl.predict(MODEL, GPU, batch=1), "users", tpot=0.1),
        "the prediction has a batch; give concurrency",
    ),
    "a list of another option": (
        lambda p: rl.predict(MODEL, GPU, tp=[1, 2]),
        "tp = [1, 2] must be a single number or text; of",
    ),
    "a list of lengths": (lambda p: rl.curve(MODEL, GPU, isl=[1, 2]), "must be numbers, not arrays; of several, table"),
    "a list of rates": (lambda p: rl.levers(MODEL, GPU, rate=[1, 2]), "not an array; of several, table makes a row of"),
    "predict": (lambda p: rl.predict(p, GPU), "a model and a GPU are needed here, not a prediction"),
    "measured": (
        lambda p: rl.compare(rl.predict(MODEL, GPU, measured={"tpot": 0.01}, **CASE), p),
        "a measurement is of one deployment only",
    ),
}


@each("name", REFUSED)
def test_what_a_prediction_does_not_tell_is_refused(name):
    ask, words = REFUSED[name]
    with pytest.raises(rl.RooflineError) as error:
        ask(rl.predict(MODEL, GPU, **CASE))
    assert words in str(error.value)


# --- check ---------------------------------------------------------------------------------------


def test_results_are_paths_or_what_json_reads():
    content = json.loads(RESULT.read_text())
    (by_path,), (by_content,), (by_list,) = rl.check(str(RESULT)), rl.check(content), rl.check([RESULT])
    assert {**by_content.to_dict(), "source": by_path.measured.source} == by_path.to_dict() == by_list.to_dict()


def test_runs_that_cannot_be_compared_are_told_beside_the_others():
    answer = rl.check([RESULT, "none.json"])
    assert len(answer) == 1
    assert "none.json: cannot be read" in str(answer.refused[0])
    assert repr(answer).endswith("; 1 refused")


def test_a_change_is_told():
    answer = rl.check(RESULT, after=RESULT)
    assert (answer.changed.answer, answer.to_dict()["changed"]["text"]) == ("nothing changed", answer.changed.text)
    assert f"; changed: {answer.changed.text}" in repr(answer)
    assert rl.check(RESULT).changed is None


@each("given, options, words", [
    ("none.json", {}, "none.json: cannot be read"),
    ([], {}, "check needs results"),
    (3, {}, "results = 3 must be the path of a file"),
    ({"a": object()}, {}, "must be what json.load reads from a file of results"),
    (RESULT, {"batchsize": 3}, "unknown option 'batchsize'"),
    (RESULT, {"after": "none.json"}, "none.json: cannot be read"),
    ([RESULT, "a.json"], {"after": ["b.json", "c.json"]}, "c.json: cannot be read"),
])  # fmt: skip
def test_results_that_say_nothing_are_refused(given, options, words):
    with pytest.raises(rl.RooflineError) as error:
        rl.check(given, **options)
    assert words in str(error.value)


def test_the_python_of_the_guide_runs_and_answers():
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    exec("".join(blocks), names := {})
    assert names["p"].deployment.plan == names["q"].deployment.plan
