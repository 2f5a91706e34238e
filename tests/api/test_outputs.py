"""Files are written whole or not at all, and text in them never becomes a formula."""

import csv
import json

import openpyxl
import pyarrow.parquet as pq
import pytest
from every_case import each

import roofline as rl
from roofline.outputs.files import SUFFIXES, csv_text, write_rows, write_whole

ROWS = [
    {"model": "=1+1", "gpu": "@sum", "ttft_ms": 1.5, "fits": True, "reason": None, "warnings": ["-a", "+b"]},
    {"model": "plain", "gpu": "b200", "ttft_ms": None, "fits": False, "reason": "does not fit", "warnings": []},
]


def test_a_sheet_holds_the_rows_and_text_stays_text(tmp_path):
    path = tmp_path / "rows.xlsx"
    write_rows(ROWS, str(path), force=False)
    sheet = openpyxl.load_workbook(path).active
    cells = [[cell.value for cell in line] for line in sheet.iter_rows()]
    assert cells[0] == list(ROWS[0])
    assert cells[1] == ["=1+1", "@sum", 1.5, True, None, "-a; +b"]
    assert [cell.data_type for cell in sheet[2]][:2] == ["s", "s"]  # not "f", a formula
    assert cells[2][2] is None


def test_csv_json_and_parquet_hold_the_same_rows(tmp_path):
    for suffix in (".csv", ".json", ".parquet"):
        write_rows(ROWS, str(tmp_path / f"rows{suffix}"), force=False)
    with (tmp_path / "rows.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["ttft_ms"] for row in read] == ["1.5", ""]
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == ROWS
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == ROWS


def test_predictions_go_into_every_format(tmp_path):
    rows = rl.table("llama-3.1-70b", ["h100-sxm", "a30"], isl=[100, 1000])
    for suffix in SUFFIXES:
        write_rows(rows, str(tmp_path / f"rows{suffix}"), force=False)
    assert pq.read_table(tmp_path / "rows.parquet").column("ttft_ms").to_pylist() == [row["ttft_ms"] for row in rows]


def test_a_file_is_overwritten_only_when_forced_and_is_never_half_written(tmp_path):
    path = tmp_path / "rows.csv"
    write_rows(ROWS, str(path), force=False)
    before = path.read_bytes()
    with pytest.raises(rl.BadInput, match="`force`"):
        write_rows(ROWS[:1], str(path), force=False)
    assert path.read_bytes() == before

    def half(beside):
        beside.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(rl.BadInput, match="No space left on device"):
        write_whole(str(path), half, force=True)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.csv"]
    write_rows(ROWS[:1], str(path), force=True)
    assert path.read_bytes() != before


@pytest.mark.parametrize("name, said", [
    ("rows.pdf", "end the name"), ("rows", "end the name"), ("x" * 300 + ".csv", "too long"),
    ("file/rows.csv", "cannot be written"),
])  # fmt: skip
def test_a_place_that_cannot_be_written_gets_one_message(tmp_path, name, said):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(rl.BadInput, match=said):
        write_rows(ROWS, str(tmp_path / name), force=False)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(rl.BadInput, match="is a folder"):
        write_rows(ROWS, str(tmp_path / "rows.csv"), force=True)


@pytest.mark.parametrize(("name", "library"), [("rows.xlsx", "xlsxwriter"), ("rows.parquet", "pyarrow")])
def test_a_library_that_is_not_installed_is_named(tmp_path, monkeypatch, name, library):
    modules = __import__("sys").modules
    monkeypatch.setitem(modules, library, None)
    monkeypatch.delitem(modules, "roofline.outputs.workbook.writer", raising=False)
    with pytest.raises(rl.BadInput, match="pip install"):
        write_rows(ROWS, str(tmp_path / name), force=False)


@each("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "a\r=1+1"])
def test_no_text_of_a_csv_file_is_calculated(text):
    import csv
    import io

    line = csv_text([{"model": text, "ttft_ms": -1.5}]).splitlines()
    (row,) = csv.DictReader(io.StringIO(csv_text([{"model": text, "ttft_ms": -1.5}])))
    assert line[0] == "model,ttft_ms"
    assert row["ttft_ms"] == "-1.5", "a number stays one"
    assert not row["model"].lstrip().startswith(("=", "+", "-", "@"))
    assert "\r" not in row["model"]
    assert text.strip().replace("\r", "\n") in row["model"]
