"""Goodput, load curves, workloads and percentiles at the command line."""

import re
from itertools import groupby

import pytest
from asking import answered, ask, cells, csv_rows, document, noted, row, rows, shown
from every_case import each

import roofline as rl
from roofline.questions.curve import CURVE_KEYS
from roofline.questions.goodput import GOODPUT_KEYS
from roofline.questions.listing import WORKLOAD_KEYS
from roofline.serving.shown import ROW_KEYS

MODEL = ("-m", "llama-3.1-8b")
CASE = (*MODEL, "-g", "h100-sxm", "--isl", "1000", "--osl", "300")
PLAIN = {"isl": 1000, "osl": 300}
SLO = ("--slo", "ttft:150,tpot:15@p99")


# --- goodput -----------------------------------------------------------------------------------


def test_the_command_gives_the_goodput_of_the_api():
    found = rows("goodput", *CASE, "-g", "b200", *SLO, "--share", "95%")
    wanted = rl.goodput("llama-3.1-8b", ["h100-sxm", "b200"], slo="ttft:150,tpot:15@p99", share=0.95, **PLAIN)
    assert found == [one.to_dict() for one in wanted]
    assert all(list(entry) == [*ROW_KEYS, *GOODPUT_KEYS] for entry in found)
    heading, lines = csv_rows(answered("goodput", *CASE, *SLO, "-f", "csv"))
    assert heading == [*ROW_KEYS, *GOODPUT_KEYS]
    assert len(lines) == 1


def test_a_table_of_goodputs_names_what_binds_and_a_note_the_limits():
    heading, line = shown("goodput", *CASE, *SLO)
    assert heading[:4] == ["", "GPU", "plan", "req/s"]
    assert line[heading.index("limited by")] in ("mean TTFT", "TPOT p99")
    found = row("goodput", *CASE, *SLO)
    assert float(line[3]) == pytest.approx(found["goodput"], rel=0.00501)
    assert float(line[3]) <= found["goodput"]  # rounded down, so that it is met when it is typed back
    assert "reason" not in heading
    text = answered("goodput", *CASE, *SLO)
    above = " ".join(text.split("\n   GPU")[0].split())
    assert "mean TTFT <= 150 ms, TPOT p99 <= 15 ms" in above
    shared = " ".join(answered("goodput", *CASE, *SLO, "--share", "95%").split())
    assert "TTFT <= 150 ms for 95 % of requests, TPOT p99 <= 15 ms" in shared
    assert f"{line[1]} answers {line[3]} requests/s" in above


def test_a_table_of_goodputs_has_the_reason_where_there_is_none():
    result = ask("goodput", *CASE, "-g", "b200", "--slo", "ttft:1", "--tp", "1")
    assert result.exit_code == 1
    everything = ask("goodput", *CASE, "-g", "b200", "--slo", "ttft:1", "--tp", "1", "-f", "markdown")
    heading, *lines = cells(everything.stdout)
    assert len(lines) == 2
    reasons = [line[heading.index("reason")] for line in lines]
    assert all(reason.startswith("misses: mean TTFT ") and "ms > 1 ms even on an idle" in reason for reason in reasons)
    assert [line.split(":")[0] for line in result.stdout.split("\n")[1:3]] == ["fail b200", "fail h100-sxm"]
    assert "no request meets the SLO on h100-sxm, b200" in result.stderr
    mixed = ask("goodput", *CASE, "-g", "b200", "--slo", "ttft:33", "--tp", "1", "-f", "markdown")
    heading, *lines = cells(mixed.stdout)
    assert [line[1] for line in lines] == ["1x b200", "1x h100-sxm"]
    assert [line[heading.index("SLO")] for line in lines] == [
        "pass?",
        "-",
    ]  # at the goodput a limit is just met; without one nothing
    assert [line[heading.index("reason")].partition(":")[0] for line in lines] == ["-", "misses"]
    assert mixed.exit_code == 0


def test_a_named_workload_brings_its_limits_its_lengths_and_its_share():
    chat = rl.load_workload("chat")
    found = row("goodput", *MODEL, "-g", "h200-sxm", "--workload", "chat")
    (wanted,) = rl.goodput("llama-3.1-8b", "h200-sxm", share=chat.share, **rl.workload_options("chat"))
    assert found == wanted.to_dict()
    own = row("goodput", *MODEL, "-g", "h200-sxm", "--workload", "chat", "--share", "50%", "--slo", "ttft:300")
    assert own["goodput_share"] == 0.5
    assert own["goodput_binding"] == "ttft"


def test_a_derated_gpu_says_so_and_answers_less():
    full = row("goodput", *CASE, *SLO)["goodput"]
    lost = row("goodput", *CASE, *SLO, "--derate", "bandwidth:10%,peak:10%")
    assert lost["goodput"] < full
    assert "derated: HBM bandwidth 10 % below the specification" in lost["warnings"]
    assert "derated: dense peaks 10 %" in noted("goodput", *CASE, *SLO, "--derate", "peak:10%")


# --- curves ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("against", "key"), [("rate", "request_rate"), ("users", "concurrency")])
def test_a_curve_is_a_row_a_load(against, key):
    found = rows("curve", *CASE, "--max-num-seqs", "64", "--against", against, *SLO)
    wanted = rl.curve("llama-3.1-8b", "h100-sxm", against=key, slo=SLO[1], max_num_seqs=64, **PLAIN)
    assert found == [dict(one) for one in wanted.rows]
    heading, lines = csv_rows(answered("curve", *CASE, "--max-num-seqs", "64", "--against", against, "-f", "csv"))
    assert heading == list(CURVE_KEYS)
    assert len(lines) == len(found)


def test_a_table_of_a_curve_says_at_which_loads_the_slo_is_met_and_where_it_ends():
    heading, *lines = shown("curve", *CASE, *SLO, "--tp", "1")
    verdicts = [line[heading.index("SLO")] for line in lines]
    runs = [word for word, _ in groupby(verdicts)]
    assert runs == ["pass", "pass?", "fail?", "fail", "fail?"]  # near saturation the load is not validated
    found = row("goodput", *CASE, *SLO, "--tp", "1")
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


def test_a_curve_is_drawn_in_the_terminal_and_into_a_file(tmp_path):
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


def test_workloads_are_listed_and_told_apart():
    found = rows("workloads")
    assert [entry["workload"] for entry in found] == list(rl.workloads())
    assert all(list(entry) == list(WORKLOAD_KEYS) for entry in found)
    heading, *lines = shown("workloads")
    assert [line[0] for line in lines] == list(rl.workloads())
    assert "waits for" in heading
    assert all(f"\n{name} " in answered("workloads") for name in rl.workloads())
    heading, lines = csv_rows(answered("workloads", "chat", "rag", "-f", "csv"))
    assert heading == list(WORKLOAD_KEYS)
    assert [line[0] for line in lines] == ["chat", "rag"]


def test_one_workload_says_why_and_where_its_figures_come_from():
    chat = rl.load_workload("chat")
    text = answered("workloads", "chat", *MODEL, "-g", "b200", env={"COLUMNS": "400"})
    assert "on 1x b200 with llama-3.1-8b" in text
    assert chat.source in text
    notes = noted("workloads", "chat", *MODEL, "-g", "b200")
    assert chat.url in notes
    assert all(" ".join(note.split()) in notes for note in chat.notes)


def test_a_workload_by_name_with_and_without_a_load():
    burst = row("predict", *MODEL, "-g", "h200-sxm", "--workload", "chat")
    loaded = row("predict", *MODEL, "-g", "h200-sxm", "--workload", "chat", "--rate", "4")
    options = rl.workload_options("chat")
    assert burst == rl.predict("llama-3.1-8b", "h200-sxm", **rl.workload_options("chat", loaded=False)).to_dict()
    assert loaded == rl.predict("llama-3.1-8b", "h200-sxm", request_rate=4.0, **options).to_dict()
    assert burst["ttft_p99_ms"] is None
    assert loaded["slo_met"] in (True, False)
    text = answered("predict", *MODEL, "-g", "h200-sxm", "--workload", "chat", "--rate", "4")
    assert f"cv {options['isl_cv']} and {options['osl_cv']}" in text
    own = row(
        "predict", *MODEL, "-g", "h200-sxm", "--workload", "chat", "--rate", "4", "--prefix", "50%", "--osl-cv", "0"
    )
    assert own["prefix"] == round(options["isl"] / 2)
    assert own["e2el_p99_ms"] < loaded["e2el_p99_ms"]


# --- percentiles, limits, lengths --------------------------------------------------------------


def test_percentiles_and_verdicts_stand_in_the_answer():
    text = answered("predict", *CASE, "--rate", "6", "--slo", "ttft:1@p95,tpot:1000,e2el:60s@p99")
    assert text.count("p50 ") >= 3
    assert "TTFT p95 " in text
    limits = r"TTFT p95 [\d.]+ ms > 1 ms, mean TPOT [\d.]+ ms <= 1 s, E2EL p99 [\d.]+ s <= 60 s: fail limit"
    assert re.search(limits, " ".join(text.split()))
    heading, line = shown("ttft", *CASE, "--rate", "6", "--slo", "ttft:1@p95,tpot:1000")
    assert line[heading.index("SLO")] == "fail"
    assert line[heading.index("binds")] == "TTFT p95"
    assert "TTFT p95 ms (80 %)" in heading
    assert "TPOT ms" in heading
    assert "SLO" not in shown("ttft", *CASE, "--rate", "6")[0]


VERDICT = ("slo_verdict", "slo_reason", "slo_binding", "slo_met")


def test_a_sweep_says_what_predict_says_on_either_side_of_a_figure():
    plain = rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, osl=300, tp=1)
    low, high = plain.ttft_interval
    for limit, word in ((0.99 * low, "fail"), (1.01 * plain.ttft, "pass?"), (1.01 * high, "pass")):
        words = ("-m", "llama-3.1-8b", "-g", "h100-sxm", "--osl", "300", "--tp", "1", "--slo", f"ttft:{1e3 * limit!r}")
        first, second = rows("sweep", *words, "--isl", "1000,2000")
        assert (first["isl"], second["isl"], first["slo_verdict"]) == (1000, 2000, word)
        alone = row("predict", *words, "--isl", "1000")
        assert [first[key] for key in VERDICT] == [alone[key] for key in VERDICT]


def test_no_command_passes_for_certain_a_load_that_was_not_validated():
    most = rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, osl=300, tp=1, request_rate=1.0).max_request_rate
    for share, word in ((0.5, "pass"), (0.9, "pass?")):
        words = (*CASE, "--tp", "1", "--slo", "ttft:1000s", "--request-rate", f"{share * most}")
        assert row("predict", *words)["slo_verdict"] == word
        heading, line = shown("ttft", *words)
        assert line[heading.index("SLO")] == word


def test_a_percentile_that_is_not_known_is_null_and_has_a_reason_instead_of_a_verdict():
    words = ("--isl", "141", "--osl", "1", "-c", "256", "--tp", "2", "--slo", "ttft:2s@p99")
    found = row("predict", "-m", "llama-3.1-70b", "-g", "h200", *words)
    assert found["ttft_p99_ms"] is found["slo_verdict"] is None
    assert found["slo_reason"].startswith("this percentile is not known for this load")


def test_a_multiple_of_the_median_is_an_option_of_its_own_and_a_key_of_the_slo():
    one = row("predict", *CASE, "--rate", "6", "--p99-within", "2x")
    assert one == row("predict", *CASE, "--rate", "6", "--slo", "p99:2x")
    assert one["slo_binding"] == "p99_within"
    both = row("predict", *CASE, "--rate", "6", "--slo", "ttft:1", "--p99-within", "2")
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
    found = row("predict", *MODEL, "-g", "h100-sxm", "--rate", "4", "--lengths", trace)
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


def test_cold_starts_and_coefficients_are_options():
    shape = ("--isl-cv", "0.5", "--osl-cv", "0.8", "--lengths", "lognormal", "--cold-start", "2%:2s")
    wanted = rl.predict(
        "llama-3.1-8b", "h100-sxm", request_rate=4.0, isl_cv=0.5, osl_cv=0.8, cold_start=(0.02, 2.0), **PLAIN
    )
    assert row("predict", *CASE, "--rate", "4", *shape) == wanted.to_dict()
    assert "2 % start cold, 2 s later" in " ".join(answered("predict", *CASE, "--rate", "4", *shape).split())


# --- slips -------------------------------------------------------------------------------------


@each("arguments, code, said", [
    (("goodput", *CASE), 2, "--slo ttft:300,tpot:25"),
    (("goodput", *MODEL, "-g", "h100", "--workload", "batch"), 2, "goodput needs"),
    (("goodput", *CASE, *SLO, "--rate", "4"), 2, "goodput takes no --rate: the load is the answer"),
    (("goodput", *CASE, *SLO, "--share", "100%"), 2, "share = '100%' must"),
    (("goodput", *CASE, *SLO, "--share", "-1"), 2, "between 0 and 1"),
    (("goodput", *CASE, "--slo", "ttfd:300"), 2, "'ttfd'; choose from ttft, tpot, e2el"),
    (("goodput", *CASE, "--slo", "ttft:300@p0"), 2, "p0 is not a percentile"),
    (("goodput", *CASE, "--p99-within", "1x"), 2, "of the median"),
    (("goodput", *MODEL, "-g", "h1000", *SLO), 1, "GPU 'h1000'; did you mean h100"),
    (("predict", *MODEL, "-g", "h100", "--workload", "chatt"), 1, "workload 'chatt'; did you mean chat"),
    (("predict", *MODEL, "-g", "h100", "--workload", "./none.yaml"), 1, "none.yaml"),
    (("predict", *MODEL, "-g", "h100", "--workload", "chat", "--isl", "5"), 2, "--workload sets both lengths"),
    (("predict", *CASE, "--derate", "bandwith:5%"), 1, "rate 'bandwith' to derate; choose from bandwidth, peak"),
    (("predict", *CASE, "--derate", "bandwidth:5"), 1, "derate bandwidth = 5"),
    (("predict", *CASE, "--derate", "bandwidth"), 1, "share such as"),
    (("predict", *CASE, "--isl-cv", "0.5"), 1, "give concurrency or request_rate"),
    (("predict", *CASE, "--rate", "4", "--isl-cv", "-1"), 1, "isl_cv = -1"),
    (("predict", *CASE, "--rate", "4", "--isl-cv", "0.9", "--lengths", "uniform"), 1, "between 0 and 0.577"),
    (("predict", *CASE, "--rate", "4", "--lengths", "gauss"), 1, "'gauss'; choose from lognormal, uniform"),
    (("predict", *CASE, "--rate", "4", "--lengths", "none.csv"), 1, "none.csv"),
    (("predict", *CASE, "--rate", "4", "--cold-start", "1%"), 1, "must be a share and a time, such as 1%:2s"),
    (
        ("predict", *CASE, "-c", "8", "--num-prompts", "80", "--slo", "ttft:300@p95"),
        1,
        "percentiles need a steady state",
    ),
    (("curve", *MODEL), 2, "e.g. -g h100"),
    (("curve", *CASE, "--against", "batch"), 2, "'batch' is not one of"),
    (("curve", *CASE, "-o", "curve"), 1, ".svg"),
    (("workloads", "chatt"), 1, "workload 'chatt'; did you mean chat"),
], ids=lambda value: " ".join(map(str, value))[-45:] if isinstance(value, tuple) else "")  # fmt: skip
def test_a_slip_has_one_clear_message(arguments, code, said):
    result = ask(*arguments)
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("load", [{"concurrency": 4}, {"request_rate": 2.0}, {"isl_cv": 0.5}, {"cold_start": "1%:2s"}])
def test_a_workbook_refuses_loads_and_says_who_answers_them(tmp_path, load):
    with pytest.raises(rl.BadInput, match=f"sheet takes no {next(iter(load))}: a workbook "):
        rl.sheet(tmp_path / "case.xlsx", "llama-3.1-8b", "h100-sxm", **load)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("slo", ["ttft:300@p95", "p99:2x"])
def test_a_workbook_limits_means_alone(tmp_path, slo):
    with pytest.raises(rl.BadInput, match="a sheet limits means"):
        rl.sheet(tmp_path / "case.xlsx", "llama-3.1-8b", "h100-sxm", slo=slo)


def test_the_headroom_of_a_multiple_is_a_note_and_no_row():
    entry = document("predict", *CASE, "--rate", "6", "--p99-within", "2x")["rows"][0]
    assert list(entry) == list(ROW_KEYS)


# --- what the first users stumbled over --------------------------------------------------------


@pytest.mark.parametrize("unknown", ["batch", "peak", "isl"])
def test_solve_takes_percentiles_of_a_burst_whose_requests_are_all_alike(unknown):
    of_mean = row("solve", "--for", unknown, *CASE, "--slo", "ttft:100")
    of_p95 = row("solve", "--for", unknown, *CASE, "--slo", "ttft:100@p95")
    assert of_p95["value"] == of_mean["value"]
    assert of_p95["binding"] == "ttft_p95"


def test_solve_for_a_load_takes_the_lengths_of_a_named_workload_as_they_spread():
    named = row("solve", "--for", "request-rate", *MODEL, "-g", "h100-sxm", "--workload", "rag")
    lengths = rl.workload_options("rag")
    written = rl.solve("llama-3.1-8b", "h100-sxm", "request_rate", **lengths)
    assert named["value"] == written.value
    equal = rl.solve("llama-3.1-8b", "h100-sxm", "request_rate", **rl.workload_options("rag", loaded=False))
    assert named["value"] != equal.value


def test_solve_judges_a_multiple_of_the_median_that_it_does_not_solve_for():
    case = ("solve", "--for", "request-rate", *MODEL, "-g", "h100-sxm")
    found = row(*case, "--workload", "chat")
    there = row("predict", *MODEL, "-g", "h100-sxm:tp1", "--workload", "chat", "--rate", found["value"])
    assert found["slo_verdict"] == there["slo_verdict"] == "fail?"
    assert there["slo_binding"] == "p99_within"
    assert "SLO fail?: p99/median" in " ".join(answered(*case, "--workload", "chat").split())
    times = row(*case, "--workload", "chat", "--slo", "ttft:300,tpot:25")
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
    verdict = row("predict", *CASE, "--tp", tp, "--request-rate", rate, "--p99-within", "2x")
    assert verdict["slo_met"] is True
