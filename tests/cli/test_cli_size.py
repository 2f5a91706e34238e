"""How many GPUs: what the command prints, in which format, and what it says beside it."""

import pytest
from asking import answered, ask, cells, csv_rows, document, noted, row, rows, shown, strict_json

import roofline as rl
from roofline.questions.size import SIZE_KEYS, size
from roofline.serving.shown import ROW_KEYS

CASE = ("--isl", "2000", "--osl", "300")
SLO = ("--slo", "ttft:300,tpot:25")
ONE = ("size", "-m", "llama-3.1-70b", "-g", "h100-sxm", *CASE, *SLO)


def test_the_json_rows_are_those_of_the_api_with_the_keys_of_the_contract():
    found = document("size", "-m", "llama-3.1-70b", "-g", "h100-sxm", "-g", "l40s", *CASE, *SLO)
    expected = size("llama-3.1-70b", ("h100-sxm", "l40s"), slo={"ttft": 0.3, "tpot": 0.025}, isl=2000, osl=300)
    assert list(found["rows"][0]) == [*ROW_KEYS, *SIZE_KEYS]
    assert [line["gpu"] for line in found["rows"]] == ["h100-sxm", "l40s"]
    for line, record in zip(found["rows"], expected.to_records(), strict=True):
        assert {**line, "ttft_ms": None} == {**record, "ttft_ms": None}
        assert line["ttft_ms"] == pytest.approx(record["ttft_ms"])
    assert found["notes"] == list(expected.notes)


def test_the_table_shows_plan_times_cost_and_whether_it_is_sure():
    heading, line = shown(*ONE)
    times = ["TTFT ms (80 %)", "TPOT ms"]
    assert heading[:5] == ["", "GPU", "plan", *times]
    assert set(heading) >= {"USD/h", "USD/M out", "SLO", "HBM"}
    cell = dict(zip(heading, line, strict=True))
    exact = row(*ONE)
    assert cell["GPU"] == f"{exact['num_gpus']}x h100-sxm"
    assert cell["plan"].split()[0] == f"tp{exact['tp']}"
    assert float(cell["USD/M out"]) == pytest.approx(exact["usd_per_m_output_tok"], rel=0.00501)
    assert cell["SLO"] == ("pass" if exact["meets_high"] else "pass?")
    by = "" if exact["meets_high"] else " by the central estimate"
    first, second, *_ = answered(*ONE, env={"COLUMNS": "200"}).split("\n")
    limits = "TTFT <= 300 ms, TPOT <= 25 ms"
    assert first == f"llama-3.1-70b \u00b7 2000 in, 300 out \u00b7 1 request, idle server \u00b7 {limits}"
    assert second == f"{cell['GPU']} meets it{by} at {cell['USD/h']} USD/h, {cell['USD/M out']} USD/M output tokens"


def test_the_plan_shows_experts_and_stages_where_there_are_some():
    heading, line = shown("size", "-m", "deepseek-r1", "-g", "h200", *CASE, "--batch", "16", "--slo", "ttft:1000")
    found = row("size", "-m", "deepseek-r1", "-g", "h200", *CASE, "--batch", "16", "--slo", "ttft:1000")
    degrees = [f"{name}{found[name]}" for name in ("tp", "pp", "ep", "dp") if name == "tp" or found[name] > 1]
    assert line[heading.index("plan")].split()[: len(degrees)] == degrees
    assert any(degree.startswith("ep") for degree in degrees)
    heading, line = shown(*ONE, "--pp", "2")
    assert "pp2" in line[heading.index("plan")].split()


def test_gpus_that_cannot_have_a_reason_in_place_of_figures_and_an_error_where_there_is_no_other():
    result = ask("size", "-m", "llama-3.1-70b", "-g", "l40s", *CASE, *SLO)
    assert result.exit_code == 1
    assert result.stderr.count("Error: ") == 1
    assert "Error: llama-3.1-70b: no plan on l40s meets --slo ttft:300ms,tpot:25ms" in result.stderr
    assert "\nfail l40s: TTFT 786 ms > 300 ms" in result.stdout
    heading, line = cells(ask("size", "-m", "llama-3.1-70b", "-g", "l40s", *CASE, *SLO, "-f", "markdown").stdout)
    cell = dict(zip(heading, line, strict=True))
    assert (cell["GPU"], cell["SLO"]) == ("l40s", "fail")
    assert not [name for name in heading if name.startswith("TTFT")]  # a column of dashes says nothing
    assert cell["reason"].startswith("misses")
    assert "TTFT " in cell["reason"]


def test_of_the_catalog_those_that_meet_it_are_rows_and_the_nearest_misses_lines_below():
    of_users = ("--isl", "4k", "--osl", "500", "-c", "64", "--slo", "ttft:300")
    case = ("size", "-m", "llama-3.3-70b", "-q", "fp8", *of_users)
    exact = rows(*case)
    text = answered(*case)
    rule = "\n-- nearest misses --\n"
    table, below = text.split(rule)
    misses = [line for line in below.split("\n") if line.startswith("fail ")]
    nearest = sorted((line for line in exact if line["excess"] is not None), key=lambda line: line["excess"])
    assert [line.split()[1].rstrip(":") for line in misses] == [line["gpu"] for line in nearest[:3]]
    hidden = int(below.split(" more: --all")[0].split("\n")[-1])
    assert hidden == len(exact) - 10 - 3  # ten rows and three misses are shown
    assert table.count("  pass") == 10
    assert "  fail" not in table
    everything = answered(*case, "--all")
    assert sum(line.startswith("fail ") for line in everything.split("\n")) == sum(not line["meets"] for line in exact)
    assert ": --all" not in everything


def test_one_gpu_that_meets_the_slo_is_enough_for_success_and_none_for_a_model_is_not():
    assert ask(*ONE, "-g", "l40s").exit_code == 0
    both = ask(
        "size", "-m", "llama-3.1-8b", "-m", "llama-3.1-70b", "-g", "l40s", *CASE, "--slo", "ttft:300", "-f", "json"
    )
    assert both.exit_code == 1
    assert [line["meets"] for line in strict_json(both.stdout)["rows"]] == [True, False]
    assert both.stderr.startswith("Error: llama-3.1-70b: no plan")


def test_notes_of_a_row_say_which_gpu_they_belong_to():
    formats = ("-q", "mxfp4", "-q", "fp8", "-q", "bf16")
    notes = noted("size", "-m", "llama-3.1-70b", "-g", "h100", "-g", "b200", "--slo", "ttft:3000", *formats)
    assert "note: h100-sxm: --quantization fp8: " in notes
    assert "note: b200: --quantization mxfp4: " in notes
    models = ("-m", "llama-3.1-70b", "-m", "llama-3.1-8b")
    several = noted("size", *models, "-g", "h100", "-g", "b200", "--slo", "ttft:3000", "-q", "int4")
    assert "note: llama-3.1-70b on b200, llama-3.1-8b on b200: assumed, not measured on blackwell" in several


def test_without_an_slo_the_message_is_in_the_words_of_the_command_line():
    result = ask("size", "-m", "llama-3.1-70b", "-g", "h100-sxm")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--slo ttft:300,tpot:25" in result.stderr
    assert "slo=" not in result.stderr


def test_the_note_says_what_the_estimate_meets():
    assert "central estimate" in noted(*ONE)


def test_formats_may_be_several_and_the_row_says_which_is_taken():
    assert row(*ONE, "-q", "bf16", "-q", "fp8")["quantization"] == "fp8"
    assert row(*ONE, "-q", "bf16")["quantization"] == "bf16"
    assert row(*ONE)["quantization"] is None


def test_degrees_are_searched_unless_given():
    free = row("size", "-m", "gpt-oss-120b", "-g", "b200", *CASE, *SLO, "--batch", "64")
    assert (free["ep"], free["dp"]) != (1, 1)
    fixed = row("size", "-m", "gpt-oss-120b", "-g", "b200", *CASE, "--slo", "ttft:900", "--batch", "64", "--dp", "1")
    assert fixed["dp"] == 1


def test_without_a_gpu_the_whole_catalog_is_answered():
    heading, *body = shown("size", "-m", "gemma-3-27b", *CASE, *SLO)
    assert sorted(line[1].rpartition("x ")[2] for line in body) == list(rl.gpus())
    prices = [float(line[heading.index("USD/h")]) for line in body if line[heading.index("USD/h")] != "-"]
    assert len(prices) > 1
    assert prices == sorted(prices)


def test_several_models_are_answered_one_after_the_other():
    found = rows("size", "-m", "llama-3.1-8b", "-m", "gemma-3-27b", "-g", "h100-sxm", *CASE, *SLO)
    assert [line["model"] for line in found] == ["llama-3.1-8b", "gemma-3-27b"]


def test_csv_and_markdown_have_the_same_rows():
    heading, (line,) = csv_rows(answered(*ONE, "--format", "csv"))
    assert heading == [*ROW_KEYS, *SIZE_KEYS]
    assert line[heading.index("meets")] == "true"
    assert answered(*ONE, "--format", "markdown").split("|")[2].strip() == "GPU"


@pytest.mark.parametrize("arguments, words", [
    (("-g", "x100", *SLO), ("GPU 'x100'", "did you mean")),
    (("-g", "h100-sxm", *SLO, "-q", "bf16", "-q", "fp9"), ("'fp9'", "did you mean fp8")),
    (("-g", "h100-sxm", *SLO, "--tp", "3"), ("tp = 3 does not divide",)),
])  # fmt: skip
def test_the_users_slips_have_one_clear_message(arguments, words):
    result = ask("size", "-m", "llama-3.1-8b", *arguments)
    assert result.exit_code == 1
    assert not result.stdout
    message = result.stderr.strip().splitlines()
    assert len(message) == 1
    assert all(word in message[0] for word in words)


@pytest.mark.parametrize("option", ["--measured", "--allow-oversize", "--num-gpus"])
def test_options_of_another_question_are_none_of_this_one(option):
    assert ask(*ONE, option, "1").exit_code == 2
    assert option not in answered("size", "--help")
    assert option in answered("predict", "--help")
