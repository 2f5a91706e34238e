"""`roofline check`: files in, tables, rows and reasons out."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from asking import answered, ask, cells, csv_rows, document, rows
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli

FOLDER = Path(__file__).parents[1] / "fixtures" / "results"
VLLM = str(FOLDER / "vllm.json")
PASSES = str(FOLDER / "passes.csv")
COMMAND = Path(sys.executable).with_name("roofline")


def piped(data, *arguments):
    """Result of a command that reads the data from standard input."""
    return CliRunner().invoke(cli, ["check", "-", *arguments], input=data)


def test_a_result_is_shown_measured_beside_predicted():
    heading, first, steps = cells(answered("check", VLLM).split("\n\n", 1)[1])
    assert heading[1:] == [
        "measured [ms]", "predicted [ms]", "ratio", "MFU [%]", "MBU [%]", "of light speed [%]",
    ]  # fmt: skip
    assert first[:2] == ["TTFT", "120"]
    assert steps[:2] == ["TPOT", "9.5"]
    assert float(steps[3]) == pytest.approx(float(steps[1]) / float(steps[2]), rel=0.01)
    assert (first[5], steps[4]) == ("-", "-")


def test_the_title_says_what_was_compared():
    title = answered("check", VLLM).split("\n")[0]
    assert title.startswith("llama-3.1-8b on 1 x h100-sxm, isl 2000, osl 300, concurrency 16 (median, calibrated, ")


def test_the_gap_is_explained_part_by_part():
    text = answered("check", VLLM)
    assert "TTFT is " in text
    assert "the prediction" in text
    assert "any one of these would explain it:\n- " in text
    assert "beside the kernels" in text


def test_a_gap_that_no_part_explains_is_said_so():
    text = piped(json.dumps({**json.loads(Path(VLLM).read_text()), "median_ttft_ms": 10000.0})).stdout
    assert "no single part explains it, but this would:\n- beside the kernels" in text
    below = answered("check", VLLM, "--concurrency", "9000", "--num-prompts", "90000")
    assert below.rstrip().endswith("below the prediction; no single part explains it")


def test_a_prediction_that_agrees_needs_no_explanation():
    (row,) = rows("check", VLLM)
    measured = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "tp": 1, "isl": 2000, "osl": 300, "concurrency": 16}
    measured["engine"] = "vllm"
    times = {"ttft_ms": row["predicted_ttft_ms"] * 1.01, "tpot_ms": row["predicted_tpot_ms"] * 0.99}
    table = [",".join(map(str, {**measured, **times})), ",".join(map(str, {**measured, **times}.values()))]
    text = piped("\n".join(table)).stdout
    assert "TTFT agrees with the prediction within 2%." in text
    assert "TPOT agrees with the prediction within 2%." in text


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
    assert 0.0 < row["decode_mbu"] <= row["tpot_light_share"] * (1.0 + 1e-12) <= 1.0
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
    assert text.count("|   measured [ms] |") == 3
    assert "\n\nTPOT is " in text


def test_several_files_are_several_measurements_and_notes_say_which():
    result = ask("check", VLLM, PASSES)
    assert result.exit_code == 0
    assert result.stdout.count("predicted [ms]") == 4
    assert f"note: {VLLM}: 16 requests in flight" in result.stderr
    assert "note: 16 requests in flight" in ask("check", VLLM).stderr


@pytest.mark.parametrize("data", [Path(VLLM).read_bytes(), b"\xef\xbb\xbf" + Path(VLLM).read_bytes()])
def test_a_dash_reads_standard_input(data):
    result = piped(data)
    assert result.exit_code == 0
    assert "(median, calibrated, engine vllm, stdin)" in result.stdout
    assert piped(b"").exit_code == 1
    assert "stdin: the file is empty" in piped(b"").stderr


def test_options_override_the_file():
    (row,) = rows(
        "check", VLLM, "-g", "b200", "--tp", 2, "--isl", 1000, "--batch", 8, "-q", "fp8", "--statistic", "mean"
    )
    assert (row["gpu"], row["tp"], row["isl"], row["batch"], row["concurrency"]) == ("b200", 2, 1000, 8, None)
    assert (row["quantization"], row["statistic"], row["measured_ttft_ms"]) == ("fp8", "mean", 130.0)


def test_the_basis_can_be_the_ideal_one():
    (row,) = rows("check", VLLM, "--batch", "16", "--basis", "ideal")
    assert row["basis"] == "ideal"
    assert row["tpot_ratio"] == pytest.approx(1.0 / row["tpot_light_share"])


def test_at_light_speed_a_request_among_others_still_meets_their_prompts():
    (row,) = rows("check", VLLM, "--basis", "ideal")
    assert (row["basis"], row["concurrency"]) == ("ideal", 16)
    assert 0.7 < row["tpot_ratio"] * row["tpot_light_share"] < 1.0
    assert row["tpot_ratio"] > rows("check", VLLM)[0]["tpot_ratio"]


def test_what_is_missing_is_asked_for_in_one_message():
    result = ask("check", str(FOLDER / "genai_perf.json"))
    assert result.exit_code == 1
    assert "genai_perf.json: the result states no GPU and no tp: give --gpu and --tp" in result.stderr
    assert result.stdout == ""


def test_every_fixture_can_be_compared_once_the_rest_is_said():
    missing = {"sglang.jsonl": ("-m", "deepseek-r1"), "guidellm.json": ("-m", "qwen3-8b")}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix != ".md":
            found = rows("check", path, "-g", "h200", "--tp", 8, *missing.get(path.name, ()))
            assert all(row["tpot_ratio"] > 0.0 for row in found)


def test_what_can_be_compared_is_shown_though_the_rest_fails():
    result = ask("check", VLLM, "no-such-file.json", str(FOLDER / "inferencex.json"))
    assert result.exit_code == 1
    assert "llama-3.1-8b on 1 x h100-sxm" in result.stdout
    assert "deepseek-r1 on 8 x h200-sxm" in result.stdout
    assert "no-such-file.json: cannot be read: No such file" in result.stderr
    assert "inferencex.json[2]: the result states no tp: give --tp" in result.stderr


def test_a_name_that_no_catalog_knows_is_asked_for():
    data = json.dumps({**json.loads(Path(VLLM).read_text()), "model_id": "/models/llama"})
    result = piped(data)
    assert result.exit_code == 1
    assert "stdin: no model named '/models/llama'" in result.stderr
    assert "or say what was measured with --model" in result.stderr
    assert piped(data, "-m", "llama-3.1-8b").exit_code == 0
    assert "or say what was" not in piped(data, "-m", "lama").stderr


def test_a_rate_alone_is_predicted_as_random_arrivals():
    data = json.dumps({**json.loads(Path(VLLM).read_text()), "max_concurrency": None, "request_rate": 5.0})
    result = piped(data, "-f", "json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["batch"], row["concurrency"], row["request_rate"]) == (None, None, 5.0)
    direct = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, request_rate=5, engine="vllm")
    assert (row["predicted_ttft_ms"], row["predicted_tpot_ms"]) == (direct.ttft * 1e3, direct.tpot * 1e3)
    assert "note: 5 requests/s: predicted as Poisson arrivals" in piped(data).stderr


def test_a_rate_that_cannot_be_answered_is_refused_unless_those_in_flight_are_said():
    data = json.dumps({**json.loads(Path(VLLM).read_text()), "max_concurrency": None, "request_rate": 500.0})
    result = piped(data)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.search(r"Error: stdin: .*at most [\d.]+ ", result.stderr)
    assert piped(data, "--concurrency", "14.8").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [(), (VLLM, "--statistic", "p90"), (VLLM, "--tp", "two"), (VLLM, "--basis", "real"), (VLLM, "--format", "xml")],
)
def test_a_command_that_cannot_be_is_a_usage_error(arguments):
    assert ask("check", *arguments).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
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
    ],
)
def test_odd_options_are_refused_in_one_message(arguments):
    result = ask("check", VLLM, *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
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
