"""The command sweep."""

import csv
import io
import json

import pytest
from click.testing import CliRunner

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


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--isl", "1e3"), 2, "no whole number"),
        (("--isl", "500,"), 2, "no whole number"),
        (("-q", "bf16,"), 2, "empty word"),
        (("-q", "bf16,fp9"), 1, "fp9"),
        (("--isl", "0"), 1, "between 1 and"),
        (("--tp", "3"), 0, "BadInput: tp = 3"),
        (("-o", "rows.pdf"), 1, "end the name"),
    ],
)
def test_what_cannot_be_swept_gets_one_message(words, code, said):
    done = run(*words)
    assert done.exit_code == code
    assert said in done.output
