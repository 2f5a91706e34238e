"""Users, rates, limits, workloads by name and curves in the shell, and the options that a workload stands for."""

import inspect
import re
from itertools import groupby, pairwise

import pytest
from cli.asking import answered, ask, document, noted, once, rows, shown
from cli.asking import row as shell_row
from conftest import close
from every_case import each

import roofline as rl
from roofline.questions.listing import WORKLOAD_KEYS, workload_rows
from roofline.specs.workload import LATENCIES, limits_of_text, metric_and_level

MODEL = ("-m", "llama-3.1-8b")
CASE = (*MODEL, "-g", "h100-sxm", "--isl", "1000", "--osl", "300")
PLAIN = {"isl": 1000, "osl": 300}
SLO = ("--slo", "ttft:150,tpot:15@p99")


# --- goodput -----------------------------------------------------------------------------------


def test_a_named_workload_brings_its_limits_its_lengths_and_its_share():
    chat = rl.load_workload("chat")
    found = shell_row("goodput", *MODEL, "-g", "h200-sxm", "--workload", "chat")
    (wanted,) = rl.goodput("llama-3.1-8b", "h200-sxm", share=chat.share, **rl.workload_options("chat"))
    assert found == wanted.to_dict()
    own = shell_row("goodput", *MODEL, "-g", "h200-sxm", "--workload", "chat", "--share", "50%", "--slo", "ttft:300")
    assert own["goodput_share"] == 0.5
    assert own["goodput_binding"] == "ttft"


def test_a_derated_gpu_says_so_and_answers_less():
    full = shell_row("goodput", *CASE, *SLO)["goodput"]
    lost = shell_row("goodput", *CASE, *SLO, "--derate", "bandwidth:10%,peak:10%")
    assert lost["goodput"] < full
    assert "derated: HBM bandwidth 10 % below the specification" in lost["warnings"]
    assert "derated: dense peaks 10 %" in noted("goodput", *CASE, *SLO, "--derate", "peak:10%")


# --- curves ------------------------------------------------------------------------------------


def test_a_table_of_a_curve_says_at_which_loads_the_slo_is_met_and_where_it_ends():
    heading, *lines = shown("curve", *CASE, *SLO, "--tp", "1")
    verdicts = [line[heading.index("SLO")] for line in lines]
    runs = [word for word, _ in groupby(verdicts)]
    assert runs == ["pass", "pass?", "fail?", "fail", "fail?"]  # near saturation the load is not validated
    found = shell_row("goodput", *CASE, *SLO, "--tp", "1")
    above = " ".join(re.split(r"\n *req/s", answered("curve", *CASE, *SLO, "--tp", "1"))[0].split())
    assert re.search(r"1x h100-sxm: [\d.]+ requests/s at most; within the SLO [\d.]+ requests/s", above)
    assert found["goodput_binding"] == "tpot_p99"
    assert above.endswith(f"({100.0 * found['util']:.0f} %), limited by TPOT p99")
    assert "SLO" not in shown("curve", *CASE)[0]
    assert "none within the SLO: mean TTFT" in answered("curve", *CASE, "--slo", "ttft:1")
    two = shown("curve", *CASE, "-g", "b200")
    assert {line[two[0].index("GPU")] for line in two[1:]} == {"h100-sxm", "b200"}


def test_ten_points_of_a_curve_reach_from_its_first_to_its_last():
    every = [line[0] for line in shown("curve", *CASE)[1:]]
    brief = answered("curve", *CASE).split("\n")
    start = next(n for n, line in enumerate(brief) if line.lstrip().startswith("req/s"))
    few = [line.split()[0] for line in brief[start + 1 : start + 11]]
    assert few[0] == every[0]
    assert few[-1] == every[-1]
    assert [load for load in every if load in few] == few
    assert f"{len(every) - 10} more: --all" in brief[start + 11]


def test_a_curve_is_drawn_in_the_terminal_and_into_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("roofline.questions.curve.curve", once(rl.curve))
    pytest.importorskip("plotext")
    pytest.importorskip("matplotlib")
    path = tmp_path / "curve.svg"
    result = ask("curve", *CASE, *SLO, "--plot", "-o", path, env={"COLUMNS": "90", "LINES": "30"})
    assert result.exit_code == 0
    assert "TTFT [ms] against requests/s" in result.stdout
    assert "tokens/s per user" not in result.stdout
    lines = result.stdout.splitlines()
    assert (max(map(len, lines)) < 90, len(lines) <= 28) == (True, True)
    whole = ask("curve", *CASE, *SLO, "--plot", "--all", env={"COLUMNS": "90", "LINES": "30"}).stdout
    assert "tokens/s per user" in whole
    assert max(map(len, whole.splitlines())) < 90
    assert f"wrote {path}" in result.stderr
    assert path.read_bytes().startswith(b"<?xml")
    again = ask("curve", *CASE, "-o", path)
    assert again.exit_code == 1
    assert "--force" in again.stderr
    assert ask("curve", *CASE, "-o", path, "--force").exit_code == 0


# --- workloads ---------------------------------------------------------------------------------


def test_a_workload_by_name_with_and_without_a_load():
    burst = shell_row("predict", *MODEL, "-g", "h200-sxm", "--workload", "chat")
    loaded = shell_row("predict", *MODEL, "-g", "h200-sxm", "--workload", "chat", "--rate", "4")
    options = rl.workload_options("chat")
    assert burst == rl.predict("llama-3.1-8b", "h200-sxm", **rl.workload_options("chat", loaded=False)).to_dict()
    assert loaded == rl.predict("llama-3.1-8b", "h200-sxm", request_rate=4.0, **options).to_dict()
    assert burst["ttft_p99_ms"] is None
    assert loaded["slo_met"] in (True, False)
    text = answered("predict", *MODEL, "-g", "h200-sxm", "--workload", "chat", "--rate", "4")
    assert f"cv {options['isl_cv']} and {options['osl_cv']}" in text
    own = shell_row(
        "predict", *MODEL, "-g", "h200-sxm", "--workload", "chat", "--rate", "4", "--prefix", "50%", "--osl-cv", "0"
    )
    assert own["prefix"] == round(options["isl"] / 2)
    assert own["e2el_p99_ms"] < loaded["e2el_p99_ms"]


# --- percentiles, limits, lengths --------------------------------------------------------------


VERDICT = ("slo_verdict", "slo_reason", "slo_binding", "slo_met")


def test_a_sweep_says_what_predict_says_on_either_side_of_a_figure():
    plain = rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, osl=300, tp=1)
    low, high = plain.ttft_interval
    for limit, word in ((0.99 * low, "fail"), (1.01 * plain.ttft, "pass?"), (1.01 * high, "pass")):
        words = ("-m", "llama-3.1-8b", "-g", "h100-sxm", "--osl", "300", "--tp", "1", "--slo", f"ttft:{1e3 * limit!r}")
        first, second = rows("sweep", *words, "--isl", "1000,2000")
        assert (first["isl"], second["isl"], first["slo_verdict"]) == (1000, 2000, word)
        alone = shell_row("predict", *words, "--isl", "1000")
        assert [first[key] for key in VERDICT] == [alone[key] for key in VERDICT]


def test_no_command_passes_for_certain_a_load_that_was_not_validated():
    most = rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, osl=300, tp=1, request_rate=1.0).max_request_rate
    for share, word in ((0.5, "pass"), (0.9, "pass?")):
        words = (*CASE, "--tp", "1", "--slo", "ttft:1000s", "--request-rate", f"{share * most}")
        assert shell_row("predict", *words)["slo_verdict"] == word
        heading, line = shown("ttft", *words)
        assert line[heading.index("SLO")] == word


def test_a_percentile_that_is_not_known_is_null_and_has_a_reason_instead_of_a_verdict():
    words = ("--engine", "sglang", "--isl", "18000", "--osl", "11", "--rate", "0.9", "--slo", "ttft:20s@p99")
    found = shell_row("predict", "-m", "llama-3.1-8b", "-g", "h100:tp1", *words)
    assert found["ttft_p99_ms"] is found["slo_verdict"] is None
    assert found["slo_reason"].startswith("this percentile is not known for this load")


def test_a_multiple_of_the_median_is_an_option_of_its_own_and_a_key_of_the_slo():
    one = shell_row("predict", *CASE, "--rate", "6", "--p99-within", "2x")
    assert one == shell_row("predict", *CASE, "--rate", "6", "--slo", "p99:2x")
    assert one["slo_binding"] == "p99_within"
    both = shell_row("predict", *CASE, "--rate", "6", "--slo", "ttft:1", "--p99-within", "2")
    assert (both["slo_met"], both["slo_binding"]) == (False, "ttft")
    said = noted("predict", *CASE, "--rate", "6", "--p99-within", "2x")
    assert "the p99 stays within 2x of the median up to " in said
    assert ask("predict", *CASE, "--rate", "6", "--p99-within", "2x", "--slo", "p99:3x").exit_code == 1


def test_a_size_that_no_plan_meets_repeats_the_limits_as_they_are_written():
    result = ask("size", *CASE, "--rate", "40", "--isl-cv", "0.5", "--slo", "p99:1.01x,ttft:900@p95")
    assert result.exit_code == 1
    limits = re.split(r"[,;]", result.stderr.split("meets --slo ")[1])
    assert limits[0] == "p99:1.01x"
    assert limits[1] in ("ttft:900@p95", "ttft_p95:900", "ttft:900ms@p95")


def test_lengths_come_from_a_trace(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("ContextTokens,GeneratedTokens\n" + "500,20\n1500,60\n" * 5, encoding="utf-8")
    found = shell_row("predict", *MODEL, "-g", "h100-sxm", "--rate", "4", "--lengths", trace)
    assert (found["isl"], found["osl"]) == (1000, 40)
    columns = {"isl": [500, 1500] * 5, "osl": [20, 60] * 5}
    assert found["ttft_p99_ms"] == rl.predict(
        "llama-3.1-8b", "h100-sxm", request_rate=4.0, lengths=columns
    ).to_dict(["ttft_p99_ms"])["ttft_p99_ms"]  # fmt: skip
    assert "10 requests of" in answered("predict", *MODEL, "-g", "h100-sxm", "--rate", "4", "--lengths", trace)
    trace.write_text("isl,osl\n500,20\n-1,20\n", encoding="utf-8")
    result = ask("predict", *MODEL, "-g", "h100-sxm", "--rate", "4", "--lengths", trace)
    assert result.exit_code == 1
    assert "trace.csv:3: isl = '-1'" in result.stderr


# --- slips -------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [{"isl_cv": 0.5}, {"cold_start": "1%:2s"}])
def test_a_workbook_refuses_what_spreads_a_load_and_says_who_answers_it(tmp_path, option):
    with pytest.raises(rl.BadInput, match=f"sheet takes no {next(iter(option))}: a workbook "):
        rl.sheet(tmp_path / "case.xlsx", "llama-3.1-8b", "h100-sxm", **option)
    assert list(tmp_path.iterdir()) == []


def test_a_workbook_limits_no_multiple_of_the_median(tmp_path):
    with pytest.raises(rl.BadInput, match=r"a sheet limits TTFT, TPOT and E2EL, .* not p99_within: ask predict"):
        rl.sheet(tmp_path / "case.xlsx", "llama-3.1-8b", "h100-sxm", slo="p99:2x")
    assert list(tmp_path.iterdir()) == []


# --- what the first users stumbled over --------------------------------------------------------


@pytest.mark.parametrize("unknown", ["batch", "peak", "isl"])
def test_solve_takes_percentiles_of_a_burst_whose_requests_are_all_alike(unknown):
    of_mean = shell_row("solve", "--for", unknown, *CASE, "--slo", "ttft:100")
    of_p95 = shell_row("solve", "--for", unknown, *CASE, "--slo", "ttft:100@p95")
    assert of_p95["value"] == of_mean["value"]
    assert of_p95["binding"] == "ttft_p95"


def test_solve_for_a_load_takes_the_lengths_of_a_named_workload_as_they_spread():
    named = shell_row("solve", "--for", "request-rate", *MODEL, "-g", "h100-sxm", "--workload", "rag")
    lengths = rl.workload_options("rag")
    written = rl.solve("llama-3.1-8b", "h100-sxm", "request_rate", **lengths)
    assert named["value"] == written.value
    equal = rl.solve("llama-3.1-8b", "h100-sxm", "request_rate", **rl.workload_options("rag", loaded=False))
    assert named["value"] != equal.value


def test_solve_judges_a_multiple_of_the_median_that_it_does_not_solve_for():
    slo = ("--workload", "chat", "--slo", "tpot:25,p99_within:1.3x")
    case = ("solve", "--for", "request-rate", *MODEL, "-g", "h100-sxm")
    found = shell_row(*case, *slo)
    there = shell_row("predict", *MODEL, "-g", "h100-sxm:tp1", *slo, "--rate", found["value"])
    assert found["slo_verdict"] == there["slo_verdict"] == "fail?"
    assert there["slo_binding"] == "p99_within"
    assert "SLO fail?: p99/median" in " ".join(answered(*case, *slo).split())
    times = shell_row(*case, "--workload", "chat", "--slo", "ttft:300,tpot:25")
    assert (times["value"], times["slo_verdict"]) == (found["value"], "pass?")


@pytest.mark.parametrize("command", [("curve",), ("sweep", "--request-rate", "1,4")])
def test_curves_and_sweeps_take_a_trace(command, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("isl,osl\n1000,100\n600,300\n1400,50\n", encoding="utf-8")
    found = rows(*command, *MODEL, "-g", "h100-sxm", "--lengths", str(trace))
    assert all(entry["ttft_ms"] > 0.0 for entry in found)


def test_a_curve_passes_up_to_the_goodput_and_no_further():
    found = rl.curve("llama-3.1-8b", "h100-sxm", slo="ttft:150,tpot:15", **PLAIN)
    verdicts = {entry["request_rate"] <= found.goodput.rate: entry["slo_met"] for entry in found.rows}
    assert verdicts == {True: True, False: False}
    assert all(entry["slo_met"] == (entry["request_rate"] <= found.goodput.rate) for entry in found.rows)


def test_a_printed_goodput_is_met_when_it_is_typed_back():
    heading, line = shown("goodput", *CASE, "--slo", "p99:2x")
    tp, rate = line[heading.index("plan")].removeprefix("tp"), line[heading.index("req/s")]
    verdict = shell_row("predict", *CASE, "--tp", tp, "--request-rate", rate, "--p99-within", "2x")
    assert verdict["slo_met"] is True


SHORT = ("-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", "1000", "--osl", "200")


def test_a_curve_of_loads_is_one_command():
    found = rows("sweep", *SHORT, "--concurrency", ",".join(map(str, range(1, 101))))
    assert [entry["concurrency"] for entry in found] == list(range(1, 101))
    assert all(more["tpot_ms"] >= fewer["tpot_ms"] for fewer, more in pairwise(found))


def test_what_was_checked_is_said_of_the_load_that_solves_the_question_and_of_those_of_a_sweep():
    said = noted("solve", *SHORT, "--for", "request-rate", "--tpot", "40ms")
    assert "outside the" in said
    assert "inside the" not in said
    said = noted("sweep", *SHORT, "--request-rate", "1,19")
    assert "inside the" in said
    assert re.search(r"outside the .*\(utili[sz]ation above (0.8|80)", said)


def test_a_simulation_stands_beside_the_closed_forms():
    text = answered("predict", *SHORT, "--rate", "5", "--simulate")
    assert "closed form" in text
    assert "requests of one rank, seed 0" in text
    found = shell_row("tpot", *SHORT, "--rate", "5", "--simulate")
    assert found["simulated_tpot_ms"] == pytest.approx(found["tpot_ms"], rel=0.05)


def test_compare_quantize_and_sensitivity_take_a_load():
    compared = rows("compare", *SHORT, "-g", "b200", "-c", "32")
    assert compared[1]["tpot_ms"] < compared[0]["tpot_ms"]
    formats = rows("quantize", *SHORT, "-c", "32")
    assert {entry["load"] for entry in formats} == {"concurrency"}
    slopes = document("sensitivity", *SHORT, "--rate", "4", "--of", "ttft")["rows"]
    assert next(entry for entry in slopes if entry["input"] == "request_rate")["elasticity"] > 0.0


def test_a_simulation_takes_a_seed_and_a_number_of_requests():
    case = ("ttft", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--request-rate", "4", "--simulate", "--requests", "600")
    first, again, other = (shell_row(*case, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again
    assert first["simulated_requests"] == 600
    assert first["simulated_ttft_p99_ms"] != other["simulated_ttft_p99_ms"]


LLAMA, H200 = "llama-3.1-8b", "h200"
NAMES = rl.workloads()
OWN = """\
name: mine
isl: 1800
osl: 240
isl_cv: 0.9
prefix: 600
slo: "ttft:1s@p95,p99:3x"
share: 0.95
sources: {logs: {title: Our gateway, date: 2026-10-08}}
"""


@each("name", NAMES)
def test_every_workload_is_answered_under_a_rate(name):
    workload, options = rl.load_workload(name), rl.workload_options(name)
    assert set(options) <= set(inspect.signature(rl.predict).parameters)
    found = rl.predict(LLAMA, H200, request_rate=0.05, **options)
    assert (found.workload.isl, found.workload.osl) == (workload.isl, workload.osl)
    assert found.workload.prefix == workload.prefix
    lengths = found.workload.lengths
    spread = (0.0, 0.0) if lengths is None else (lengths.prompts.cv, lengths.answers.cv)
    assert spread == (workload.isl_cv, workload.osl_cv)
    assert dict(found.slo) == (limits_of_text(workload.slo) if workload.slo else {})
    row = found.to_dict()
    assert row["slo_met"] in ((True, False) if workload.slo else (None,))
    assert 0.0 < row["ttft_p50_ms"] < row["ttft_p99_ms"] < row["e2el_p99_ms"]


@each("name", NAMES)
def test_a_burst_of_a_workload_has_its_means_alone(name):
    options = rl.workload_options(name, loaded=False)
    assert not {"isl_cv", "osl_cv", "lengths"} & set(options)
    assert rl.predict(LLAMA, H200, **options).workload.lengths is None


def test_a_workload_is_found_by_file_record_and_alias(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(OWN, encoding="utf-8")
    record = rl.load_workload(str(path))
    by_path, by_record = rl.workload_options(str(path)), rl.workload_options(record)
    assert by_path == by_record == rl.workload_options("mine", specs=str(tmp_path))
    assert by_path == {
        "isl": 1800, "osl": 240, "prefix": 600, "slo": {"ttft_p95": 1.0, "p99_within": 3.0},
        "isl_cv": 0.9, "osl_cv": 0.0, "lengths": "lognormal",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["chatt", "", "1k1k", 5, None])
def test_an_unknown_workload_is_refused(name):
    with pytest.raises(rl.UnknownName, match="workload"):
        rl.workload_options(name)


def test_rows_say_which_latency_dominates_and_which_limit_is_tightest():
    rows = workload_rows(LLAMA, H200)
    assert [row["workload"] for row in rows] == list(NAMES)
    assert all(list(row) == list(WORKLOAD_KEYS) for row in rows)
    for row in rows:
        alone = rl.predict(LLAMA, H200, **rl.workload_options(row["workload"], loaded=False))
        share = alone.ttft / alone.e2el
        assert close(row["ttft_share"], share)
        assert row["dominates"] == ("TPOT" if share < 1 / 3 else "TTFT" if share > 2 / 3 else "both")
        limited = {key: part for key, part in alone.slo_shares.items() if metric_and_level(key)[0] in LATENCIES}
        worst = max(limited, key=limited.get) if limited else None
        assert (row["tightest"] is None) == (worst is None)
        assert worst is None or row["tightest"].lower().startswith(metric_and_level(worst)[0])
        assert "llama-3.1-8b" in row["why"]


def test_a_row_says_what_somebody_waits_for_and_how_long():
    rows = {row["workload"]: row for row in workload_rows(LLAMA, H200)}
    awaited = {name: row["waits_for"] for name, row in rows.items()}
    assert awaited["chat"] == awaited["rag"] == "first token"
    assert awaited["agent-turn"] == awaited["structured-output"] == awaited["code-completion"] == "whole answer"
    assert awaited["batch"] == "nothing"
    alone = rl.predict(LLAMA, H200, **rl.workload_options("chat", loaded=False))
    assert f"the reader waits for the first token, {1e3 * alone.ttft:.3g} ms" in rows["chat"]["why"]
    # 238 words a minute at 0.75 words a token are 5.29 tokens/s.
    assert f"{alone.tok_s_user / 5.29:.3g}x reading speed" in rows["chat"]["why"]
    assert rows["batch"]["why"].startswith("nobody waits for a single answer, throughput counts")
    agent = rl.predict(LLAMA, H200, **rl.workload_options("agent-turn", loaded=False))
    assert f"the caller waits for the whole answer, {agent.e2el:.3g} s" in rows["agent-turn"]["why"]


def test_where_a_workload_cannot_run_its_row_says_why_and_the_others_stand():
    (row,) = workload_rows("llama-3.1-405b", "l40s", ("chat",))
    assert row["dominates"] is row["ttft_share"] is row["tightest"] is None
    assert row["why"]
    assert row["isl"] == rl.load_workload("chat").isl
