"""`roofline check`: files in, tables, rows and reasons out."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from asking import answered, ask, csv_rows, document, rows, shown
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.cli.main import cli

pytestmark = pytest.mark.usefixtures("_figures_predicted_once")

FOLDER = Path(__file__).parents[1] / "fixtures" / "results"
VLLM = str(FOLDER / "vllm.json")
PASSES = str(FOLDER / "passes.csv")
COMMAND = Path(sys.executable).with_name("roofline")


def piped(data, *arguments):
    """Result of a command that reads the data from standard input."""
    return CliRunner().invoke(cli, ["check", "-", *arguments], input=data)


def changed(**figures):
    """The fixture of vLLM with other figures."""
    return json.dumps({**json.loads(Path(VLLM).read_text()), **figures})


def test_a_result_is_shown_measured_beside_predicted():
    heading, first, steps = shown("check", VLLM)
    assert heading[1:] == ["measured ms", "predicted ms", "80 % range", "ratio", "MFU %", "MBU %", "SOL %"]
    assert first[:2] == ["TTFT", "120"]
    assert steps[:2] == ["TPOT", "9.5"]
    assert float(steps[4]) == pytest.approx(float(steps[1]) / float(steps[2]), rel=0.01)
    assert (first[6], steps[5]) == ("-", "-")


def test_the_answer_begins_with_a_verdict_for_each_metric_and_its_range():
    (row,) = rows("check", VLLM)
    lines = answered("check", VLLM).split("\n")
    for line, metric in zip(lines, ("ttft", "tpot"), strict=False):
        low, high = row[f"predicted_{metric}_low_ms"], row[f"predicted_{metric}_high_ms"]
        place = "inside" if low <= row[f"measured_{metric}_ms"] <= high else "outside"
        percent = abs(row[f"{metric}_ratio"] - 1.0) * 100.0
        word = "slower" if row[f"{metric}_ratio"] > 1.0 else "faster"
        said = rf"{metric.upper()} ([\d.]+) % {word} than predicted: {place} the 80 % range"
        verdict = re.fullmatch(rf"{said}, ([\d.]+) ms \(([\d.]+)-([\d.]+)\)", line)
        assert [float(text) for text in verdict.groups()] == pytest.approx(
            [percent, row[f"predicted_{metric}_ms"], low, high], rel=0.05
        )
        assert (row[f"{metric}_inside"], row[f"{metric}_verdict"]) == (place == "inside", line[5:])


@pytest.mark.parametrize(
    "arguments", [("vllm.json",), ("passes.csv",), ("vllm.json", "passes.csv"), ("vllm.json",) * 2]
)
def test_no_line_is_wider_than_a_terminal_of_80_columns(arguments, monkeypatch):
    monkeypatch.chdir(FOLDER)  # the path of a file is never broken
    assert max(map(len, answered("check", *arguments).split("\n"))) <= 80


def test_a_time_much_longer_is_so_many_times_as_long():
    text = piped(changed(median_ttft_ms=1000.0)).stdout
    assert re.match(r"TTFT \d\.\d+ x as long as predicted: outside the 80 % range, ", text)


def test_at_most_two_suspects_are_named_with_what_each_explains():
    text = piped(changed(median_ttft_ms=190.0, median_tpot_ms=13.6)).stdout
    lines = [" ".join(line.split()) for line in re.findall(r"^\d\. .*(?:\n  .*)*", text, re.MULTILINE)]
    sentence = r"(\d)\. (.+): ([\d.]+)x its predicted time \(([\d.]+) times its uncertainty\); explains (.+)"
    suspects = [re.fullmatch(sentence, line).groups() for line in lines]
    assert [rank for rank, *_ in suspects] == ["1", "2"]
    assert "TTFT and TPOT" in {explained for *_, explained in suspects}
    page = (Path(__file__).parents[2] / "docs" / "measurements.md").read_text("utf-8")
    assert text.split("\n\n")[0] in page
    found = json.loads(piped(changed(median_ttft_ms=190.0, median_tpot_ms=13.6), "-f", "json").stdout)
    assert [(each["rank"], each["part"]) for each in found["suspects"]] == [(int(r), part) for r, part, *_ in suspects]
    assert [f"{rank}. {text}" for rank, text in enumerate(found["rows"][0]["suspects"], 1)] == [
        " ".join(line.split()) for line in re.findall(r"^\d\. .*(?:\n  .*)*", text, re.MULTILINE)
    ]


def test_a_time_that_the_hardware_does_not_allow_is_said():
    text = piped(changed(median_tpot_ms=1.0)).stdout
    assert "TPOT faster than the hardware allows, " in text


def test_the_title_says_what_was_compared():
    case, *basis = answered("check", VLLM).split("\n\n")[1].split("\n")
    assert case == "llama-3.1-8b on 1x h100-sxm, isl 2000, osl 300, concurrency 16"
    assert " ".join(basis) == (  # the path may be longer than the line
        f"(median, calibrated, engine vllm, {VLLM}) median compared with the mean of the steady state; of the run of "
        "200 requests only means are predicted (statistic = mean)"
    )


def test_a_gap_that_no_part_explains_is_said_so():
    text = piped(changed(median_ttft_ms=10000.0)).stdout
    assert re.search(r"No single part explains TTFT: [\d.]+ s more than the kernels", text)
    below = " ".join(answered("check", VLLM, "--concurrency", "9000", "--num-prompts", "90000").split())
    assert "No single part explains TTFT and TPOT: check GPU, plan, formats, lengths, requests in flight" in below


def test_answers_of_another_length_show_in_the_end_to_end_latency_alone():
    (row,) = rows("check", VLLM)
    times = {"median_ttft_ms": row["predicted_ttft_ms"], "median_tpot_ms": row["predicted_tpot_ms"]}
    text = piped(changed(**times, median_e2el_ms=3.0 * row["predicted_e2el_ms"])).stdout
    assert re.search(r"\nE2EL 3 x as long as predicted: outside the 80 % range, ", text)
    assert "\nE2EL alone is outside: the answers may be longer or shorter than stated.\n" in text


def test_a_prediction_that_agrees_needs_no_explanation():
    (row,) = rows("check", VLLM)
    measured = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "tp": 1, "isl": 2000, "osl": 300, "concurrency": 16}
    measured["engine"] = "vllm"
    times = {"ttft_ms": row["predicted_ttft_ms"] * 1.01, "tpot_ms": row["predicted_tpot_ms"] * 0.99}
    table = [",".join(map(str, {**measured, **times})), ",".join(map(str, {**measured, **times}.values()))]
    text = piped("\n".join(table)).stdout
    assert text.startswith("TTFT as predicted (1 % slower): inside the 80 % range, ")
    assert "\nTPOT as predicted (1 % faster): inside the 80 % range, " in text
    assert "\nNothing needs explaining.\n" in text


def test_the_json_has_a_row_a_measurement_and_the_parts_of_both_passes():
    found = document("check", VLLM)
    (row,) = found["rows"]
    assert (row["model"], row["gpu"], row["concurrency"], row["statistic"]) == (
        "llama-3.1-8b",
        "h100-sxm",
        16,
        "median",
    )
    assert row["tpot_ratio"] == pytest.approx(row["measured_tpot_ms"] / row["predicted_tpot_ms"])
    assert 0.0 < row["decode_mbu"] <= row["tpot_light_frac"] * (1.0 + 1e-12) <= 1.0
    parts = [part for part in found["parts"] if part["pass"] == "decode"]
    assert row["decode_suspect"] == parts[0]["part"]
    assert sum(part["predicted_ms"] for part in parts) == pytest.approx(row["predicted_tpot_ms"])
    gap = row["measured_tpot_ms"] - row["predicted_tpot_ms"]
    assert any(part["factor"] is not None for part in parts)
    for part in parts:
        if part["factor"] is None:
            assert part["predicted_ms"] <= -gap  # all of it would not be enough
            continue
        assert (part["factor"] - 1.0) * part["predicted_ms"] == pytest.approx(gap)


def test_the_csv_has_the_same_keys_as_the_json():
    heading, lines = csv_rows(answered("check", PASSES, "-f", "csv"))
    assert heading == list(rows("check", PASSES)[0])
    assert len(lines) == 3


def test_markdown_is_a_table_a_measurement():
    text = answered("check", PASSES, "-f", "markdown")
    assert text.count("|   measured ms |") == 3
    assert "\nTPOT " in text


def test_several_files_are_several_measurements_and_notes_say_which():
    result = ask("check", VLLM, PASSES, "--all")
    assert result.exit_code == 0
    assert result.stdout.count("predicted ms") == 4
    (heading, *rows, _) = answered("check", VLLM, PASSES).splitlines()
    assert "predicted ms (80 %)" in heading
    assert len(rows) == 8
    assert f"{VLLM}: 16 requests in flight" in ask("check", VLLM, PASSES, "--notes").output
    assert f"{VLLM}: 16 requests in flight" not in ask("check", VLLM, "--notes").output
    assert "16 requests in flight" in ask("check", VLLM, "--notes").output


def test_equal_notes_of_several_files_are_one():
    assert ask("check", VLLM, VLLM, VLLM, "--notes").output.count("16 requests in flight") == 1


@pytest.mark.parametrize("data", [Path(VLLM).read_bytes(), b"\xef\xbb\xbf" + Path(VLLM).read_bytes()])
def test_a_dash_reads_standard_input(data):
    result = piped(data)
    assert result.exit_code == 0
    assert "(median, calibrated, engine vllm, stdin)" in result.stdout
    assert piped(b"").exit_code == 1
    assert "stdin: the file is empty" in piped(b"").stderr


def test_common_spellings_of_lengths_and_shares_are_understood():
    (row,) = rows("check", VLLM, "--isl", "4k", "--concurrency", "1k", "--prefix", "50%", "--osl", "1K")
    assert (row["isl"], row["concurrency"], row["prefix"], row["osl"]) == (4096, 1024, 2048, 1024)


def test_options_override_the_file():
    (row,) = rows(
        "check", VLLM, "-g", "b200", "--tp", 2, "--isl", 1000, "--batch", 8, "-q", "fp8", "--statistic", "mean"
    )
    assert (row["gpu"], row["tp"], row["isl"], row["batch"], row["concurrency"]) == ("b200", 2, 1000, 8, None)
    assert (row["quantization"], row["statistic"], row["measured_ttft_ms"]) == ("fp8", "mean", 130.0)


def test_the_basis_can_be_the_ideal_one():
    (row,) = rows("check", VLLM, "--batch", "16", "--basis", "ideal")
    assert row["basis"] == "ideal"
    assert row["tpot_ratio"] == pytest.approx(1.0 / row["tpot_light_frac"])


def test_at_light_speed_a_request_among_others_still_meets_their_prompts():
    (row,) = rows("check", VLLM, "--basis", "ideal")
    assert (row["basis"], row["concurrency"]) == ("ideal", 16)
    assert 0.7 < row["tpot_ratio"] * row["tpot_light_frac"] < 1.0
    assert row["tpot_ratio"] > rows("check", VLLM)[0]["tpot_ratio"]


def test_what_is_missing_is_asked_for_in_one_message():
    result = ask("check", str(FOLDER / "genai_perf.json"))
    assert result.exit_code == 1
    assert "genai_perf.json: the result states no GPU and no tp: give gpu and tp" in result.stderr
    assert result.stdout == ""


def test_every_fixture_can_be_compared_once_the_rest_is_said():
    missing = {"sglang.jsonl": ("-m", "deepseek-r1"), "guidellm.json": ("-m", "qwen3-8b")}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix != ".md":
            found = rows("check", path, "-g", "h200", "--tp", 8, *missing.get(path.name, ()))
            assert all(row["tpot_ratio"] > 0.0 for row in found)


def test_what_can_be_compared_is_shown_though_the_rest_fails():
    result = ask("check", VLLM, "no-such-file.json", str(FOLDER / "inferencex.json"), "--all")
    assert result.exit_code == 1
    assert "llama-3.1-8b on 1x h100-sxm" in result.stdout
    assert "deepseek-r1 on 8x h200-sxm" in result.stdout
    assert "no-such-file.json: cannot be read: No such file" in result.stderr
    assert "inferencex.json[2]: the result states no tp: give tp" in result.stderr


def test_a_name_that_no_catalog_knows_is_asked_for():
    data = json.dumps({**json.loads(Path(VLLM).read_text()), "model_id": "/models/llama"})
    result = piped(data)
    assert result.exit_code == 1
    assert "stdin: unknown model '/models/llama'" in result.stderr
    assert "or give model" in result.stderr
    assert piped(data, "-m", "llama-3.1-8b").exit_code == 0
    assert "or give model" not in piped(data, "-m", "lama").stderr


def test_a_rate_alone_is_predicted_as_random_arrivals():
    data = json.dumps({**json.loads(Path(VLLM).read_text()), "max_concurrency": None, "request_rate": 5.0})
    result = piped(data, "-f", "json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["batch"], row["concurrency"], row["request_rate"]) == (None, None, 5.0)
    direct = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, request_rate=5, engine="vllm")
    assert [row["predicted_ttft_ms"], row["predicted_tpot_ms"]] == pytest.approx([direct.ttft * 1e3, direct.tpot * 1e3])
    assert "5 requests/s: predicted as Poisson arrivals" in piped(data, "--notes").output


def test_a_rate_that_cannot_be_answered_is_refused_unless_those_in_flight_are_said():
    data = json.dumps({**json.loads(Path(VLLM).read_text()), "max_concurrency": None, "request_rate": 500.0})
    result = piped(data)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.search(r"Error: stdin: .*at most [\d.]+ ", result.stderr)
    assert piped(data, "--concurrency", "14.8").exit_code == 0


@pytest.mark.parametrize("arguments", [
    (), (VLLM, "--statistic", "p90"), (VLLM, "--tp", "two"), (VLLM, "--basis", "real"), (VLLM, "--format", "xml"),
])  # fmt: skip
def test_a_command_that_cannot_be_is_a_usage_error(arguments):
    assert ask("check", *arguments).exit_code == 2


@each("arguments", [
    ("--tp", "9" * 400),
    ("--isl", "9" * 400),
    ("--isl", "nan"),
    ("--batch", "inf"),
    ("--concurrency", "1e300"),
    ("--concurrency", "0"),
    ("--request-rate", "0"),
    ("--request-rate", "nan"),
    ("--num-prompts", "-1"),
    ("--num-prompts", "8"),
    ("--concurrency", "2", "--request-rate", "2"),
    ("--osl", "-5"),
    ("--prefix", "1e9"),
    ("--batch", "2", "--concurrency", "2"),
    ("-q", "fp2"),
    ("--kv-cache-dtype", "fp3"),
    ("-g", ""),
    ("-m", "/"),
])  # fmt: skip
def test_odd_options_are_refused_in_one_message(arguments):
    result = ask("check", VLLM, *arguments)
    assert result.exit_code in (1, 2)  # 2: what is no number at all
    assert "Error: " in result.stderr
    assert result.stdout == ""


def shell(script, **environment):
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **environment}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60, env=env)


@pytest.mark.parametrize("arguments", ["", "-f json", "-f csv"])
def test_a_pipe_that_is_closed_early_prints_no_traceback(arguments):
    done = shell(f"roofline check {PASSES} {arguments} 2>/dev/null | head -1")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in shell(f"roofline check {PASSES} {arguments} | head -1").stderr


def test_a_closed_standard_input_is_one_message():
    done = shell("roofline check - <&-")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: stdin: ")
    assert "Traceback" not in done.stderr


def test_a_file_name_that_is_no_text_is_no_traceback(tmp_path):
    odd = os.fsencode(tmp_path) + b"/\xff\xe9.json"
    done = subprocess.run([COMMAND, b"check", odd], capture_output=True, check=False, timeout=60)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    Path(os.fsdecode(odd)).write_bytes(Path(VLLM).read_bytes())
    done = subprocess.run(
        [COMMAND, b"check", odd], capture_output=True, check=False, timeout=60, env={**os.environ, "LC_ALL": "C"}
    )
    assert done.returncode == 0, done.stderr


# --- what changed --------------------------------------------------------------------------------


def run_of(folder, name, **figures):
    path = folder / name
    path.write_text(json.dumps({**json.loads(Path(VLLM).read_text()), **figures}))
    return str(path)


@pytest.fixture(name="sweeps", scope="module")
def fixture_sweeps(tmp_path_factory):
    """Results of one server at 4 and 64 users, and of the same server with a slower host."""
    from dataclasses import replace

    from roofline.questions.predict import predict
    from roofline.serving.load.equations import served

    folder = tmp_path_factory.mktemp("sweeps")
    sides = ([], [])
    for users in (4, 64):
        found = predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, engine="vllm", concurrency=users)
        slower = replace(found.deployment, engine=replace(found.deployment.engine, step=0.005))
        for side, deployment in zip(sides, (found.deployment, slower), strict=True):
            times = served(deployment, found.workload)
            figures = {
                "max_concurrency": users,
                "median_ttft_ms": times.ttft * 1e3,
                "median_tpot_ms": times.tpot * 1e3,
                "request_throughput": times.request_rate,
            }
            side.append(run_of(folder, f"{'after' if side is sides[1] else 'before'}-{users}.json", **figures))
    return sides


def test_two_sweeps_say_what_changed_and_by_how_much(sweeps):
    before, after = sweeps
    text = answered("check", *before, "--after", *after, "--all")
    assert re.match(r"What changed: host: 4\.[5-9] ms more a step\n", text)
    assert re.match(r"What changed: host: 4\.[5-9] ms more a step\n", answered("check", *before, "--after", *after))
    assert text.count("the 80 % range, ") == 8  # each run has its own verdict
    found = document("check", *before, "--after", *after, "-g", "h100")
    assert (found["changed"]["answer"], found["changed"]["loads"]) == ("host", 2)
    assert found["changed"]["causes"][0]["size"] == pytest.approx(0.005 - 0.000218, rel=0.1)
    assert len(found["rows"]) == 4
    assert "What changed: host: " in ask("check", *before, "--after", *after, "-f", "csv").stderr


def test_two_files_are_compared_and_three_are_not(sweeps):
    before, after = sweeps
    moved, changed, *_ = answered("check", before[0], after[0]).split("\n")
    assert re.fullmatch(r"TTFT [\d.]+ -> [\d.]+ ms \([+-]\d+ %\), TPOT [\d.]+ -> [\d.]+ ms \([+-]\d+ %\).*", moved)
    assert changed.startswith("What changed: ")
    assert "What changed" not in answered("check", *before, after[0])
    assert document("check", *before, after[0])["changed"] is None
    assert "one load only: a second would tell" in answered("check", before[0], after[0])


def test_a_run_compared_with_itself_has_not_changed(sweeps):
    moved, changed, *_ = answered("check", sweeps[0][1], sweeps[0][1]).split("\n")
    assert moved.count("(+0 %)") == moved.count(" -> ") >= 2
    assert changed.startswith("What changed: nothing beyond the scatter of ")


def test_what_the_results_state_is_known_to_differ(sweeps, tmp_path):
    newer = run_of(tmp_path, "newer.json", engine_version="0.30.0")
    text = answered("check", VLLM, newer)
    assert "the results state: engine version 0.24.0, then 0.30.0" in text


def test_runs_that_cannot_be_compared_are_said_so(sweeps):
    assert "runs of different models" in ask("check", VLLM, PASSES, "--notes").output
    result = ask("check", VLLM, "--after", PASSES)
    assert result.exit_code == 1
    assert "what changed cannot be told: runs of different models" in result.stderr
    assert ask("check", VLLM, "--after").exit_code == 2
