"""The commands sensitivity, formula and solve, as a person or a program runs them."""

import csv
import io
import json
import math
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.cli.main import cli

CASE = ["-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", "2000", "--osl", "300"]


def run(*words):
    return CliRunner().invoke(cli, list(words))


def rows(*words):
    done = run(*words, "--format", "json")
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["schema_version"] == 1
    return answer["rows"]


# --- sensitivity -------------------------------------------------------------------------------


def test_sensitivity_says_first_what_to_buy_and_then_what_moves_the_answer_most():
    done = run("sensitivity", *CASE, "--of", "tpot", "--top", "4")
    case, answer, heading, *table = done.stdout.splitlines()
    assert case.startswith("llama-3.1-8b \u00b7 2000 in, 300 out \u00b7 ")
    slope = next(row for row in rows("sensitivity", *CASE, "--of", "tpot") if row["input"] == "bandwidth")
    assert answer.startswith("TPOT ")
    assert f": {slope['elasticity']:+.2f} % per 1 % more bandwidth, " in answer
    assert heading.split()[:3] == ["result", "input", "value"]
    lines = [line.split() for line in table if line.startswith("tpot")]
    assert len(lines) == 4
    assert lines[0][1] == "bandwidth"
    assert float(lines[0][-2]) == pytest.approx(slope["elasticity"], abs=5e-4)
    bars = [line[-1].count("#") for line in lines]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] > 10
    regime = table.index("regime: decode memory-bound")
    assert re.fullmatch(r"\d+ more: --all or --top N", table[regime + 1])
    whole = run("sensitivity", *CASE, "--of", "tpot", "--all").stdout
    assert whole.count("\ntpot ") == len(rows("sensitivity", *CASE, "--of", "tpot"))


def test_sensitivity_as_json_holds_every_row_of_the_contract_with_formulas_that_give_their_values():
    found = rows("sensitivity", *CASE, "--of", "ttft")
    assert list(found[0])[:9] == [
        "result", "input", "kind", "value", "elasticity", "derivative", "formula", "regime", "margin"
    ]  # fmt: skip
    values = {row["input"]: row["value"] for row in found}
    names = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}
    for row in found:
        assert math.isclose(eval(row["formula"], dict(names), values), row["derivative"], rel_tol=1e-12)


def test_sensitivity_as_csv_has_the_same_rows():
    done = run("sensitivity", *CASE, "--of", "ttft", "--format", "csv")
    read = list(csv.DictReader(io.StringIO(done.stdout)))
    found = rows("sensitivity", *CASE, "--of", "ttft")
    assert [row["input"] for row in read] == [row["input"] for row in found]
    assert float(read[0]["elasticity"]) == found[0]["elasticity"]


def test_sensitivity_prints_its_formulas_as_text_and_as_latex():
    text = run("sensitivity", *CASE, "--of", "tpot", "--top", "2", "--formula").stdout
    assert "d tpot / d bandwidth =" in text
    assert "where\n  compute_decode_qkv = " in text or "compute_decode_qkv" in text
    latex = run("sensitivity", *CASE, "--of", "tpot", "--top", "2", "--format", "latex").stdout
    assert r"\frac{\partial \mathrm{tpot}}{\partial \mathrm{bandwidth}} &=" in latex
    assert latex.count("{") == latex.count("}")


def test_a_tornado_chart_is_written_where_it_is_asked_for(tmp_path):
    path = tmp_path / "chart.png"
    done = run("sensitivity", *CASE, "--of", "ttft", "--of", "tpot", "--plot", str(path))
    assert done.exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert f"wrote {path}" in done.stderr
    for wrong in (tmp_path / "missing" / "chart.png", tmp_path / "chart.docx"):
        failed = run("sensitivity", *CASE, "--plot", str(wrong))
        assert failed.exit_code == 1
        assert "cannot write a chart" in failed.stderr


def test_a_chart_without_matplotlib_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = run("sensitivity", *CASE, "--plot", str(tmp_path / "chart.png"))
    assert done.exit_code == 1
    assert "pip install" in done.stderr


# --- formula -----------------------------------------------------------------------------------


def test_formula_prints_symbols_numbers_and_the_result():
    first = run("formula", "ttft", *CASE, "--basis", "ideal")
    assert "bandwidth = " not in first.stdout
    assert first.stdout.rstrip().endswith("more lines: --all")
    done = run("formula", "ttft", *CASE, "--basis", "ideal", "--all")
    assert done.exit_code == 0
    assert done.stdout.startswith(first.stdout[: first.stdout.index("ttft = ")])
    assert "ttft = " in done.stdout
    value = rl.ttft("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, basis="ideal")
    assert f"ttft = {value:.6g} s" in done.stdout
    assert f"ttft = {value:.6g} s" in first.stdout
    assert "bandwidth = 3.35e+12 B/s" in done.stdout


def test_formula_as_json_gives_the_result_when_read_back():
    (row,) = rows("formula", "tpot", *CASE)
    names = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}
    assert math.isclose(eval(row["formula"], names, row["symbols"]), row["value"], rel_tol=1e-12)


def test_formula_as_python_is_a_program():
    source = run("formula", "e2el", *CASE, "--format", "python").stdout
    done = subprocess.run([sys.executable, "-"], input=source, capture_output=True, text=True, check=True)
    assert math.isclose(
        float(done.stdout), rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300).e2el, rel_tol=1e-12
    )


def test_a_knee_without_a_closed_form_says_so():
    done = run("formula", "knee", *CASE)
    assert any(line.startswith("0 = ") for line in done.stdout.splitlines())
    assert "half_knee has no closed form" in done.stderr


@each("words, code, said", [
    (("formula", "speed", *CASE), 2, "'speed' is not one of"),
    (("formula", "ttft", "-m", "llama-3.1-8b"), 2, "one GPU"),
    (("formula", "ttft", *CASE, "-g", "b200"), 2, "one GPU"),
    (("formula", "tpot", *CASE[:-1], "1"), 1, "tpot needs at least two output tokens"),
    (("sensitivity", "-m", "lama", "-g", "h100-sxm"), 1, "model 'lama'; did you mean"),
    (("sensitivity", *CASE, "--of", "speed"), 2, "'speed' is not one of"),
    (("solve", *CASE, "--for", "batch"), 2, "solve needs a target"),
    (("solve", *CASE, "--ttft", "300ms"), 2, "--for"),
    (("solve", *CASE, "--for", "bandwith", "--ttft", "300ms"), 1, "did you mean bandwidth"),
    (("solve", *CASE, "--for", "batch", "--ttft", "fast"), 2, "'fast' is not a time"),
    (("solve", *CASE, "--for", "batch", "--ttft", "-3"), 2, "must be positive and finite"),
    (("solve", *CASE, "--for", "bandwidth", "--ttft", "1us"), 1, "cannot be met"),
    (("solve", *CASE, "--for", "batch", "--ttft", "1" + "0" * 400), 2, "must be positive and finite"),
])  # fmt: skip
def test_what_cannot_be_asked_gets_one_clear_message(words, code, said):
    done = run(*words)
    assert done.exit_code == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# --- solve -------------------------------------------------------------------------------------


def test_solve_gives_the_value_on_each_gpu_and_predict_confirms_it():
    found = rows("solve", "--for", "isl", "--ttft", "300ms", *CASE, "-g", "b200")
    assert [row["gpu"] for row in found] == ["h100-sxm", "b200"]
    for row in found:
        assert math.isclose(rl.ttft("llama-3.1-8b", row["gpu"], isl=row["value"], osl=300), 0.3, rel_tol=1e-9)
        assert math.isclose(row["ttft_ms"], 300.0, rel_tol=1e-9)


def test_solve_shows_the_closed_form_where_there_is_one():
    done = run("solve", "--for", "bandwidth", "--tpot", "10ms", *CASE, "--basis", "ideal")
    assert "no closed form" not in done.stdout
    assert "bandwidth = over_bandwidth/" in done.stdout
    other = run("solve", "--for", "bandwidth", "--tpot", "10ms", *CASE)
    assert "no closed form: root of tpot(bandwidth) = target; regime: decode memory-bound" in other.stdout


def test_a_bare_number_is_milliseconds_as_elsewhere():
    assert run("solve", "--for", "batch", "--ttft", "300", *CASE).stdout == run(
        "solve", "--for", "batch", "--ttft", "0.3s", *CASE
    ).stdout  # fmt: skip


def test_gpus_that_cannot_meet_a_target_are_rows_beside_those_that_can():
    done = run("solve", "--for", "bandwidth", "--ttft", "150ms", "-m", "llama-3.1-8b", "--isl", "4000")
    assert done.exit_code == 0
    assert "cannot be met" in done.stdout
    assert re.search(r"^\* +1x b200 +tp1 +[\d.]+ [GT]B/s +pass\?", done.stdout, re.MULTILINE)
    named = run(
        "solve",
        "--for",
        "bandwidth",
        "--ttft",
        "150ms",
        "-m",
        "llama-3.1-8b",
        "-g",
        "l4",
        "-g",
        "b200",
        "--isl",
        "4000",
    )
    assert named.exit_code == 1
    assert "l4: ttft = 150 ms cannot be met" in named.stderr
    assert "b200" in named.stdout


def test_that_no_gpu_of_the_catalog_meets_a_target_is_said_in_a_few_lines():
    done = run("solve", "--for", "peak", "--ttft", "1ms", "-m", "llama-3.1-8b")
    assert done.exit_code == 1
    errors = done.stderr[done.stderr.index("Error:") :]
    assert len(errors.splitlines()) <= 5
    assert "more" in errors


# --- what a screen may not leave out ------------------------------------------------------------


def test_a_file_of_sensitivities_has_all_rows(tmp_path):
    target = tmp_path / "all.csv"
    assert run("sensitivity", *CASE, "--of", "tpot", "-o", str(target)).exit_code == 0
    written = list(csv.reader(io.StringIO(target.read_text(encoding="utf-8"))))
    assert len(written) == 1 + len(rows("sensitivity", *CASE, "--of", "tpot"))


def test_solve_shows_the_whole_plan():
    done = run("solve", "-m", "llama-3.1-8b", "-g", "h100:tp2", "--pp", "2", "--for", "users", "--slo", "tpot:30")
    assert " tp2 pp2 " in done.stdout


def test_curves_of_several_models_name_them():
    done = run("curve", "-m", "llama-3.1-8b,qwen3-8b", "-g", "h100")
    for name in ("llama-3.1-8b", "qwen3-8b"):
        assert f"{name} on 1x h100-sxm: " in done.stdout
        assert f"\n{name} " in done.stdout.partition("model ")[2]


def test_rents_of_pools_are_written_like_any_rent():
    case = ("disaggregate", "-m", "llama-3.1-8b", "--prefill", "h100", "--decode", "h100", "-c", "3")
    monthly = rows(*case, "--prefill-gpu-price", "1460/month", "--decode-gpu-price", "1-3")
    assert monthly == rows(*case, "--prefill-gpu-price", "2", "--decode-gpu-price", "2")
