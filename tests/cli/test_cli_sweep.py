"""The command sweep."""

import csv
import io
import json

import pytest
from asking import ask, row, rows
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.cli.main import cli

CASE = ["sweep", "-m", "llama-3.1-8b", "-g", "h100-sxm"]


def run(*words):
    return CliRunner().invoke(cli, [*CASE, *words])


def test_every_combination_is_a_row():
    rows = json.loads(
        run("--isl", "500,2k", "--batch", "1,8", "--tp", "1,2", "-q", "bf16,fp8", "--format", "json").stdout
    )["rows"]
    assert len(rows) == 16
    assert {(row["isl"], row["batch"], row["tp"], row["weight_dtype"]) for row in rows} == {
        (isl, batch, tp, weights)
        for isl in (500, 2048)
        for batch in (1, 8)
        for tp in (1, 2)
        for weights in ("bf16", "fp8")
    }
    assert rows == rl.table(
        "llama-3.1-8b", "h100-sxm", isl=[500, 2048], batch=[1, 8], tp=[1, 2], quantization=["bf16", "fp8"]
    )


def test_the_table_and_the_csv_hold_the_same_cases():
    lines = run("--batch", "1,100000").stdout.splitlines()
    assert "does not fit" in lines[-1]
    read = list(csv.DictReader(io.StringIO(run("--batch", "1,100000", "--format", "csv").stdout)))
    assert [row["batch"] for row in read] == ["1", "100000"]
    assert read[1]["ttft_ms"] == ""
    assert "does not fit" in read[1]["reason"]


def test_rows_are_written_to_a_file_and_counted(tmp_path):
    path = tmp_path / "rows.xlsx"
    done = run("--isl", "500,2000", "-o", str(path))
    assert done.stdout == ""
    assert f"wrote 2 rows to {path}" in done.stderr
    assert path.read_bytes().startswith(b"PK")
    again = run("--isl", "500,2000", "-o", str(path))
    assert again.exit_code == 1
    assert "--force" in again.stderr


@each("words, code, said", [
    (("--isl", "1e3"), 2, "not a whole number"),
    (("--isl", "500,"), 2, "not a whole number"),
    (("-q", "bf16,"), 2, "empty word"),
    (("-q", "bf16,fp9"), 1, "fp9"),
    (("--isl", "0"), 1, "must be at least 1"),
    (("--tp", "3"), 0, "BadInput: tp = 3"),
    (("-o", "rows.pdf"), 1, "end the name"),
])  # fmt: skip
def test_what_cannot_be_swept_gets_one_message(words, code, said):
    done = run(*words)
    assert done.exit_code == code
    assert said in done.output


# --- one way to write a number -----------------------------------------------------------------


@pytest.mark.parametrize("written, meant", [("4096", 4096), ("4k", 4096), ("32K", 32768), ("+5", 5)])
def test_a_single_length_is_written_as_those_of_a_list_are(written, meant):
    assert row("predict", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", written)["isl"] == meant


@each("written, meant", [
    ("1:16:x2", [1, 2, 4, 8, 16]), ("1:20:x3", [1, 3, 9]), ("1:4", [1, 2, 3, 4]), ("8:32:8", [8, 16, 24, 32]),
    ("1:4:x2,6,8:9", [1, 2, 4, 6, 8, 9]), ("1k:4k:x2", [1024, 2048, 4096]),
])  # fmt: skip
def test_lists_take_ranges_by_steps_and_by_factors(written, meant):
    found = rows("sweep", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--batch", written)
    assert [entry["batch"] for entry in found] == meant


@each("written", ["1:16:x1", "1:16:0", "16:1", "1:2:3:4", "1:", ":4", "-1:4", "0:8:x2", "1:1q", "x2", ""])
def test_what_is_no_range_is_refused(written):
    result = ask("sweep", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--batch", written)
    assert result.exit_code == 2
    assert "1:256:x2" in " ".join(result.stderr.split())


def test_names_of_models_and_gpus_may_stand_in_one_option():
    together = rows("predict", "-m", "llama-3.1-8b,qwen3-8b", "-g", "h100,b200")
    apart = rows("predict", "-m", "llama-3.1-8b", "-m", "qwen3-8b", "-g", "h100", "-g", "b200")
    assert together == apart
    assert len(together) == 4


def test_users_prefixes_and_shares_take_the_same_words():
    case = ("predict", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", "4k")
    assert row(*case, "-c", "1k") == row(*case, "-c", "1024")
    assert row(*case, "--prefix", "1k")["prefix"] == 1024
    assert row(*case, "-c", "8", "--isl-cv", "30%")["isl_cv"] == 0.3
    assert row(*case, "--gpu-memory-utilization", "80%") == row(*case, "--gpu-memory-utilization", "0.8")
