"""The recipes: right figures in the right cells, whatever else was there as it was, and fleets that keep their SLO."""

import csv
import io
import math
import re
import runpy
import sys
import tempfile
import typing
from pathlib import Path
from types import ModuleType, SimpleNamespace

import openpyxl
import pytest
import xlsxwriter
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.cli.main import cli

ROOT = Path(__file__).parents[1]
RECIPES = (
    "fill_workbook", "google_sheets", "own_scheduler", "pull_levers", "sizing_with_pandas", "users_within_slo",
    "xlwings_lite",
)  # fmt: skip
HOW_TO = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "howto").glob("*.md"))
RESULTS = ("TTFT [ms]", "TPOT [ms]", "GPUs", "fits", "reason")
HOSTILE = ("=1+1", "+1+1", "-1+1", "@SUM(1)", '=HYPERLINK("https://x.example","y")', "\t=1+1", "a\r=1+1", "\n=1+1")


def recipe(name):
    return SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / f"{name}.py")))


def run(monkeypatch, name, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")


@pytest.fixture
def plan(tmp_path):
    """A planner's workbook as Excel would save it: formulas have the values that they came to."""
    path = tmp_path / "plan.xlsx"
    with xlsxwriter.Workbook(path) as book:
        money = book.add_format({"num_format": "#,##0.00 $", "bold": True, "bg_color": "#FFEE99"})
        short = book.add_format({"num_format": "0"})
        given = book.add_worksheet("Assumptions")
        given.write_row(0, 0, ["sequences", 8])
        given.write_formula("B2", "=B1*2", money, 16)
        given.write_string("A3", "=not a formula")
        given.set_column(0, 0, 33)
        given.data_validation("B1", {"validate": "list", "source": [8, 16]})
        given.hide()
        sheet = book.add_worksheet("Demand")
        sheet.merge_range("A1:C1", "Demand of 2027", money)
        sheet.write_row(2, 0, ["note", " Model", "GPU ", "Batch", "ISL", "OSL", "TTFT [ms]", "tp", "Quantization"])
        sheet.write_row(3, 0, ["chat", "llama-3.1-8b", "h100-sxm"])
        sheet.write_formula("D4", "=Assumptions!B2", None, 16)
        sheet.write_row(3, 4, [2000, 300, "old", None, "fp8"])
        sheet.write_row(4, 0, ["typo", "lama-3.1-8b", "h100-sxm", 16, 2000, 300, "old"])
        sheet.write_row(5, 0, ["small", "llama-3.1-70b", "a10", 64, 2000, 300, 1.0])
        sheet.write_row(6, 0, ["split", "llama-3.1-70b", "h100-sxm", 16, 2000, 300, None, 4])
        for column, text in enumerate(["evil", "=1+1", "@sum"]):
            sheet.write_string(7, column, text)
        sheet.write_row(7, 3, [16, 2000, 300])
        sheet.write_row(8, 0, ["empty", "llama-3.1-8b", "h100-sxm", 16])
        sheet.write_formula("G11", "=MAX(G4:G9)", money, 1)
        sheet.activate()
        sheet.set_column(0, 0, 21)
        sheet.set_column(6, 6, 17, short)
        sheet.freeze_panes(3, 1)
        sheet.data_validation("C4:C9", {"validate": "list", "source": ["h100-sxm", "a10"]})
        sheet.conditional_format("G4:G9", {"type": "cell", "criteria": ">", "value": 500, "format": money})
        sheet.write_comment("A4", "asked for by sales")
        sheet.set_row(3, 30)
        chart = book.add_chart({"type": "column"})
        chart.add_series({"values": "=Demand!$G$4:$G$9"})
        sheet.insert_chart("N2", chart)
        book.define_name("batch_size", "=Assumptions!$B$2")
    return path


def cells(path, title="Demand"):
    return {cell.coordinate: cell for row in openpyxl.load_workbook(path)[title].iter_rows() for cell in row}


def looks(cell):
    style = (cell.number_format, cell.font.b, cell.fill.fgColor.rgb, cell.alignment.horizontal)
    return cell.value, cell.data_type, *style, cell.comment and cell.comment.text


def results(path, title="Demand"):
    """Results by row, where there are any."""
    sheet = openpyxl.load_workbook(path)[title]
    top, columns = next(
        (row[0].row, {cell.value: cell.column for cell in row if cell.value in RESULTS})
        for row in sheet.iter_rows()
        if any(cell.value == "reason" for cell in row)
    )
    lines = range(top + 1, sheet.max_row + 1)
    found = {line: {name: sheet.cell(line, column).value for name, column in columns.items()} for line in lines}
    return {line: row for line, row in found.items() if any(value is not None for value in row.values())}


def test_each_row_of_a_workbook_gets_its_prediction_or_the_reason(plan, tmp_path):
    recipe("fill_workbook").fill(plan, tmp_path / "filled.xlsx")
    found = results(tmp_path / "filled.xlsx")
    case = {"isl": 2000, "osl": 300, "batch": 16}
    for line, p in {
        4: rl.predict("llama-3.1-8b", "h100-sxm", quantization="fp8", **case),  # the batch is a formula
        7: rl.predict("llama-3.1-70b", "h100-sxm", tp=4, **case),
    }.items():
        assert found[line]["TTFT [ms]"] == pytest.approx(p.ttft * 1e3, rel=1e-12)
        assert found[line]["TPOT [ms]"] == pytest.approx(p.tpot * 1e3, rel=1e-12)
        assert (found[line]["GPUs"], found[line]["fits"], found[line]["reason"]) == (p.deployment.num_gpus, True, None)
    assert found[5]["TTFT [ms]"] is None, "a figure of an earlier run stayed"
    assert "llama-3.1-8b" in found[5]["reason"]
    assert (found[6]["TTFT [ms]"], found[6]["fits"]) == (None, False)
    assert "does not fit" in found[6]["reason"]
    assert "=1+1" in found[8]["reason"]
    assert "isl" in found[9]["reason"], "an empty cell must not become a default"
    assert found.keys() == {4, 5, 6, 7, 8, 9, 11}


def test_filling_leaves_the_rest_of_the_workbook_as_it_was(plan, tmp_path):
    filled = tmp_path / "filled.xlsx"
    before = plan.read_bytes()
    recipe("fill_workbook").fill(plan, filled)
    assert plan.read_bytes() == before
    assert {at: looks(cell) for at, cell in cells(plan, "Assumptions").items()} == {
        at: looks(cell) for at, cell in cells(filled, "Assumptions").items()
    }
    own, made = cells(plan), cells(filled)
    written = {f"G{line}" for line in range(4, 10)}
    for at in own.keys() - written:
        assert looks(own[at]) == looks(made[at]), at
    assert made["G11"].value == "=MAX(G4:G9)"
    assert made["G4"].number_format == "0"
    assert {cell.column_letter for at, cell in made.items() if at not in own} == {"J", "K", "L", "M"}
    old, new = openpyxl.load_workbook(plan), openpyxl.load_workbook(filled)
    assert new.sheetnames == old.sheetnames
    assert new["Assumptions"].sheet_state == "hidden"
    assert new.defined_names["batch_size"].attr_text == "Assumptions!$B$2"
    for title in old.sheetnames:
        assert layout(new[title]) == layout(old[title])
    assert new["Demand"].column_dimensions["A"].width == pytest.approx(21, abs=1)
    assert len(new["Demand"].data_validations.dataValidation) == 1
    assert len(new["Demand"]._charts) == 1


def layout(sheet):
    return {
        "widths": {name: column.width for name, column in sheet.column_dimensions.items()},
        "heights": {line: row.height for line, row in sheet.row_dimensions.items()},
        "validations": [(str(rule.sqref), rule.type, rule.formula1) for rule in sheet.data_validations.dataValidation],
        "conditions": [str(area.sqref) for area in sheet.conditional_formatting],
        "merged": [str(area) for area in sheet.merged_cells.ranges],
        "frozen": sheet.freeze_panes,
    }


def test_a_second_run_fills_the_same_cells(plan, tmp_path):
    fill = recipe("fill_workbook").fill
    fill(plan, tmp_path / "once.xlsx")
    book = openpyxl.load_workbook(tmp_path / "once.xlsx")
    book["Demand"]["D4"] = 16  # openpyxl keeps no values of formulas: to be read again, Excel has to save them
    book.save(tmp_path / "once.xlsx")
    fill(tmp_path / "once.xlsx", tmp_path / "twice.xlsx")
    assert results(tmp_path / "twice.xlsx") == results(tmp_path / "once.xlsx")
    assert cells(tmp_path / "twice.xlsx").keys() == cells(tmp_path / "once.xlsx").keys()


@pytest.mark.parametrize("text", ['=HYPERLINK("https://x.example")', "@sum(1)", "+1", "-1", "#REF!"])
def test_text_never_becomes_a_formula_in_a_workbook(plan, tmp_path, monkeypatch, text):
    module = recipe("fill_workbook")
    monkeypatch.setattr(rl, "table", lambda **_: [{"reason": text, "num_gpus": text}], raising=False)
    module.fill(plan, tmp_path / "filled.xlsx")
    found = cells(tmp_path / "filled.xlsx")
    formulas = {at for at, cell in found.items() if cell.data_type == "f"}
    assert formulas == {at for at, cell in cells(plan).items() if cell.data_type == "f"}
    assert [cell.data_type for cell in found.values() if cell.value == text] == ["s"] * 12


def test_a_formula_that_was_never_calculated_is_no_default(plan, tmp_path):
    book = openpyxl.load_workbook(plan)
    book["Demand"]["C4"] = "=Assumptions!A1"
    book.save(plan)  # openpyxl stores no values
    recipe("fill_workbook").fill(plan, tmp_path / "filled.xlsx")
    assert results(tmp_path / "filled.xlsx")[4]["TTFT [ms]"] is None
    assert "gpu is a formula without a stored value" in results(tmp_path / "filled.xlsx")[4]["reason"]
    for heading in ("I", "H", "D"):  # quantization, tp and batch: no preset, no smallest tp, no load in their place
        book["Demand"]["C4"], book["Demand"][f"{heading}4"] = "h100-sxm", "=Assumptions!A1"
        book.save(plan)
        recipe("fill_workbook").fill(plan, tmp_path / "filled.xlsx", force=True)
        assert "without a stored value" in results(tmp_path / "filled.xlsx")[4]["reason"], heading
        book["Demand"][f"{heading}4"] = None


def filled(tmp_path, head, *lines):
    """Rows of a sheet once the recipe has filled it: what stands below each heading."""
    book = openpyxl.Workbook()
    for row in (head, *lines):
        book.active.append(row)
    book.save(tmp_path / "sheet.xlsx")
    recipe("fill_workbook").fill(tmp_path / "sheet.xlsx", tmp_path / "filled.xlsx", force=True)
    top, *rows = openpyxl.load_workbook(tmp_path / "filled.xlsx").active.iter_rows(values_only=True)
    return [dict(zip(top, row, strict=True)) for row in rows]


CASE = ("llama-3.1-8b", "h100", 2000, 300)
INPUTS = ("model", "GPU", "ISL", "OSL")


@pytest.mark.parametrize(
    ("heading", "option"),
    [
        ("batch", "batch"),
        ("Users", "concurrency"),
        ("concurrent users", "concurrency"),
        ("Concurrency", "concurrency"),
        ("req/s", "request_rate"),
        ("requests/s", "request_rate"),
        ("Request\nrate", "request_rate"),
        ("request rate [req/s]", "request_rate"),
    ],
)
def test_a_column_of_a_workbook_is_the_load_that_its_heading_says(tmp_path, heading, option):
    (row,) = filled(tmp_path, (*INPUTS, heading), (*CASE, 6))
    p = rl.predict(*CASE[:2], isl=2000, osl=300, **{option: 6})
    assert (row["TTFT [ms]"], row["TPOT [ms]"]) == pytest.approx((p.ttft * 1e3, p.tpot * 1e3), rel=1e-12)
    assert row["reason"] is None


def test_a_planner_s_sheet_of_users_gets_percentiles_prices_and_a_verdict(tmp_path):
    slo, strict = "ttft:500@p95,tpot:40", "ttft:250@p95,tpot:40"
    times = ("TTFT [ms]", "TTFT p95 [ms]", "TPOT [ms]", "TPOT p99 [ms]", "E2EL [ms]")
    money = ("tok/s", "USD/h", "USD/M tok", "USD/M output tok")
    head = (*INPUTS, "users", "SLO", "quantization", "tp", "num_gpus", *times, "GPUs", *money, "SLO met")
    rows = filled(tmp_path, head, (*CASE, 64, slo), (*CASE, 64, strict), (*CASE, 64, slo, "fp8", 2, 8), (*CASE, 64))
    chosen = {"quantization": "fp8", "tp": 2, "num_gpus": 8}
    for row, options in zip(rows, ({"slo": slo}, {"slo": strict}, {"slo": slo, **chosen}, {}), strict=True):
        p = rl.predict(*CASE[:2], isl=2000, osl=300, concurrency=64, **options)
        by_hand = (p.ttft, p.latency("ttft@p95"), p.tpot, p.latency("tpot@p99"), p.e2el)
        assert [row[name] for name in times] == pytest.approx([time * 1e3 for time in by_hand], rel=1e-12)
        assert row["GPUs"] == p.deployment.num_gpus
        assert row["tok/s"] == pytest.approx(p.output_tok_s, rel=1e-12)
        price = p.usd_per_hour / (p.output_tok_s * 3600) * 1e6
        assert [row[name] for name in money[1:]] == pytest.approx([p.usd_per_hour, price, price], rel=1e-12)
    assert [row["SLO met"] for row in rows] == ["pass?", "fail?", "pass", None]
    assert rows[0]["TTFT p95 [ms]"] > 250, "the mean keeps the strict limit; its p95 does not"
    assert rows[0]["TTFT [ms]"] < 250


def test_a_slo_brings_its_verdict_and_an_overloaded_server_fails_it(tmp_path):
    (row,) = filled(tmp_path, (*INPUTS, "req/s", "slo"), (*CASE, 5, "tpot:40"))
    assert list(row) == [*INPUTS, "req/s", "slo", *RESULTS, "SLO met"]
    assert row["SLO met"] == "pass"
    (row,) = filled(tmp_path, (*INPUTS, "req/s"), (*CASE, 5))
    assert list(row) == [*INPUTS, "req/s", *RESULTS]
    head = (*INPUTS, "req/s", "slo")
    rows = filled(tmp_path, head, (*CASE, 500, "ttft:500"), ("llama-3.1-8b", "h100", 2000, 1, 500, "tpot:40"))
    assert [row["SLO met"] for row in rows] == ["fail", "fail"]
    assert all("overloaded" in row["reason"] for row in rows)
    assert [row["TTFT [ms]"] for row in rows] == [None, None]


def test_a_row_without_one_load_and_a_sheet_without_a_load_column_say_so(tmp_path):
    head = (*INPUTS, "batch", "users", "req/s", "concurrency")
    rows = filled(
        tmp_path, head, CASE, (*CASE, 16, 64), (*CASE, None, 64, 5), (*CASE, None, 64, None, 64), (*CASE, " ", 64)
    )
    reasons = [row["reason"] for row in rows]
    assert reasons[0] == "BadInput: a row needs one load: fill in batch, users or req/s"
    assert reasons[1] == "BadInput: a row needs one load: batch and users are filled in; clear all but one"
    assert "users and req/s are filled in" in reasons[2]
    assert "users and concurrency are filled in" in reasons[3]
    assert reasons[4] is None
    assert [row["TTFT [ms]"] is None for row in rows] == [True, True, True, True, False]
    with pytest.raises(rl.BadInput, match="model, gpu, isl, osl and a load column: batch, users or req/s"):
        filled(tmp_path, (*INPUTS, "sessions"), (*CASE, 64))


def test_pools_of_gpus_are_read_in_a_workbook(tmp_path):
    head, load = (*INPUTS, "users", "tp", "num_gpus"), (2000, 300, 64)
    pools = ("8xh100", "b200:tp4:fp8", "b200:tp4:fp8x2")
    rows = filled(tmp_path, head, *(("llama-3.1-8b", pool, *load) for pool in pools))
    for pool, row in zip(pools, rows, strict=True):
        p = rl.predict("llama-3.1-8b", pool, isl=2000, osl=300, concurrency=64)
        assert row["TTFT [ms]"] == pytest.approx(p.ttft * 1e3, rel=1e-12)
    assert [row["GPUs"] for row in rows] == [8, 4, 8]
    rows = filled(
        tmp_path,
        head,
        ("llama-3.1-8b", "8xh100", *load, None, 4),
        ("llama-3.1-8b", "b200:tp4", *load, 2),
        ("llama-3.1-8b", "h100,b200", *load),
    )
    assert [row["TTFT [ms]"] for row in rows] == [None] * 3
    assert "num_gpus is stated twice" in rows[0]["reason"]
    assert "tp is stated twice" in rows[1]["reason"]
    assert "one GPU" in rows[2]["reason"]


def test_a_number_of_gpus_is_an_input_where_typed_and_none_from_an_earlier_run(tmp_path):
    (row,) = filled(tmp_path, (*INPUTS, "req/s"), (*CASE, 15))  # two GPUs: one cannot keep up
    assert row["GPUs"] == 2
    fill = recipe("fill_workbook").fill
    fill(tmp_path / "filled.xlsx", tmp_path / "again.xlsx")
    assert results(tmp_path / "again.xlsx", "Sheet") == results(tmp_path / "filled.xlsx", "Sheet")
    (row,) = filled(tmp_path, (*INPUTS, "users", "GPUs"), (*CASE, 64, "=4*2"))
    assert (row["GPUs"], row["TTFT [ms]"]) == ("=4*2", None)
    assert "num_gpus" in row["reason"]
    book = openpyxl.load_workbook(tmp_path / "filled.xlsx")
    assert book.active["F2"].data_type == "f", "a formula became text"
    book.active["F2"] = 8
    book.save(tmp_path / "filled.xlsx")
    fill(tmp_path / "filled.xlsx", tmp_path / "again.xlsx", force=True)  # not the result of a run
    assert results(tmp_path / "again.xlsx", "Sheet")[2]["GPUs"] == 8
    assert "num_gpus" in results(tmp_path / "again.xlsx", "Sheet")[2]["reason"]


def test_a_workbook_is_overwritten_only_when_asked(plan, monkeypatch, capsys):
    before = plan.read_bytes()
    run(monkeypatch, "fill_workbook", plan)
    filled = plan.with_name("plan-filled.xlsx")
    assert results(filled)[4]["fits"] is True
    assert str(filled) in capsys.readouterr().out
    for arguments in ([plan], [plan, "-o", plan]):
        with pytest.raises(SystemExit, match="`force`"):
            run(monkeypatch, "fill_workbook", *arguments)
    assert plan.read_bytes() == before
    run(monkeypatch, "fill_workbook", plan, "-o", plan, "--force")
    assert results(plan) == results(filled)
    assert sorted(path.name for path in plan.parent.iterdir()) == ["plan-filled.xlsx", "plan.xlsx"]


@pytest.mark.parametrize("name", ["absent.xlsx", "old.xls", "text.xlsx", "bare.xlsx", "blank.xlsx", "merged.xlsx"])
def test_what_cannot_be_filled_gets_one_message(tmp_path, monkeypatch, name):
    (tmp_path / "old.xls").write_text("")
    (tmp_path / "text.xlsx").write_text("text")
    openpyxl.Workbook().save(tmp_path / "blank.xlsx")
    book = openpyxl.Workbook()
    book.active.append(["model", "gpu"])
    book.save(tmp_path / "bare.xlsx")
    book.active.append(["isl", "osl", "batch", "model", "gpu", "fits"])
    book.active.append([2000, 300, 16, "llama-3.1-8b", "h100-sxm"])
    book.active.merge_cells("E3:F3")
    book.save(tmp_path / "merged.xlsx")
    with pytest.raises(SystemExit, match=name):
        run(monkeypatch, "fill_workbook", tmp_path / name)


def test_the_example_of_a_workbook_is_filled(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run(monkeypatch, "fill_workbook")
    printed = capsys.readouterr().out.splitlines()
    found = results(Path(printed[-1]), "Sheet")
    assert [row["fits"] for row in found.values()] == [True, True, False, None]
    assert "\n".join(printed[:-1]) in HOW_TO


def test_pandas_finds_the_cheapest_fleet(monkeypatch, capsys):
    pd = pytest.importorskip("pandas")
    found = SimpleNamespace(**run(monkeypatch, "sizing_with_pandas"))
    assert found.cases["ttft"].isna().tolist() == [False, False, True]
    assert found.cases["tpot"].isna().tolist() == [False, False, True]
    case = rl.predict("llama-3.1-70b", "h100-sxm", tp=4, isl=8000, batch=8)
    assert (found.cases["ttft"][1], found.cases["tpot"][1]) == pytest.approx((case.ttft, case.tpot), rel=1e-12)
    times = found.table["ttft_ms"]
    assert times.isna().any()
    assert found.table.loc[times.isna(), "reason"].str.len().min() > 10
    assert found.table.loc[times.notna(), "reason"].isna().all()
    best = {}  # by hand
    for row in found.rows:
        meets = row["ttft_ms"] and row["ttft_ms"] <= 2000 and row["tpot_ms"] <= 30 and row["usd_per_hour"] is not None
        if meets:
            replicas = math.ceil(row["requests_per_s"] / (row["batch"] / (row["e2el_ms"] / 1000)))
            best.setdefault(row["workload"], []).append(replicas * row["usd_per_hour"])
    assert found.fleet["fleet_usd_per_hour"].to_dict() == pytest.approx(
        {name: min(cost) for name, cost in best.items()}
    )
    for load in found.demand.itertuples():
        won = found.fleet.loc[load.workload]
        p = rl.predict(load.model, won["gpu"], tp=int(won["tp"]), isl=load.isl, osl=load.osl, batch=int(won["batch"]))
        assert (won["ttft_ms"], won["tpot_ms"]) == pytest.approx((p.ttft * 1e3, p.tpot * 1e3))
        assert won["replicas"] * won["batch"] / p.e2el >= load.requests_per_s
        assert won["fleet_gpus"] == won["replicas"] * p.deployment.num_gpus
    assert not pd.isna(found.fleet["fleet_usd_per_hour"]).any()
    assert "does not fit" in capsys.readouterr().out


def test_google_sheets_get_the_rows_of_the_table(monkeypatch, capsys, tmp_path):
    module = run(monkeypatch, "google_sheets")
    printed = capsys.readouterr().out
    read = list(csv.DictReader(io.StringIO(printed)))
    rows = rl.table(module["MODELS"], module["GPUS"], isl=[1000, 8000], osl=300, batch=[1, 16])
    assert len(read) == len(rows)
    assert [line["ttft_ms"] for line in read] == ["" if row["ttft_ms"] is None else str(row["ttft_ms"]) for row in rows]
    assert [line["reason"] for line in read] == [row["reason"] or "" for row in rows]
    assert "" in {line["ttft_ms"] for line in read}
    path = tmp_path / "predictions.csv"
    run(monkeypatch, "google_sheets", path)
    assert path.read_text(encoding="utf-8") == printed
    with pytest.raises(SystemExit, match="`force`"):
        run(monkeypatch, "google_sheets", path)
    run(monkeypatch, "google_sheets", path, "--force")


@each("text", HOSTILE)
def test_text_never_becomes_a_formula_in_csv(text):
    written = recipe("google_sheets").sheet_csv(
        [{"model": text, "warnings": [text, "b"], "change": -5.5, "fits": True}]
    )
    assert written.isprintable() or written.count("\n") == 2
    assert "\r" not in written
    (line,) = csv.DictReader(io.StringIO(written))
    assert not line["model"].startswith(("=", "+", "-", "@", "\t", " "))
    assert not line["warnings"].startswith(("=", "+", "-", "@", "\t", " "))
    assert (line["change"], line["fits"]) == ("-5.5", "true")  # numbers stay numbers


def test_functions_of_excel_answer_as_the_calculator_does_and_fill_a_table():
    excel = recipe("xlwings_lite")
    p = rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=16, quantization="fp8", tp=2)
    case = ("llama-3.1-8b", "h100-sxm", 2000, 300.0, 16, "fp8", 2)
    assert excel.ttft(*case) == pytest.approx(p.ttft * 1e3, rel=1e-12)
    assert excel.tpot(*case) == pytest.approx(p.tpot * 1e3, rel=1e-12)
    assert excel.reason(*case) == "ok"
    one = excel.ttft("llama-3.1-8b", "h100-sxm", 2000, 300)
    for blank in (None, "", 0):  # a cell that holds nothing
        assert excel.ttft("llama-3.1-8b", "h100-sxm", 2000, 300, 1, blank, blank) == one
    assert "does not fit" in excel.reason("llama-3.1-70b", "a10", 2000, 300, 64)
    with pytest.raises(rl.RooflineError, match="did you mean llama"):
        excel.ttft("lama-3.1-8b", "h100-sxm", 2000, 300)
    with pytest.raises(rl.RooflineError, match="osl"):
        excel.tpot("llama-3.1-8b", "h100-sxm", 2000, 0)
    head = ["Note", "model", "GPU", "isl", "osl", "batch", "tp"]
    filled = excel.fill(
        [
            head,
            ["a", "llama-3.1-8b", "h100-sxm", 2000, 300, 16, None],
            ["", "", "", "", "", "", ""],
            ["b", "=1+1", "h100-sxm", 2000, 300, 16, 0],
            ["c", "llama-3.1-8b", "h100-sxm", None, 300, 16, 0],
            ["d", "llama-3.1-70b", "h100-sxm", 2000, 300, 16, 4],
        ]
    )
    assert [len(row) for row in filled] == [5] * 6
    assert filled[0] == ["ttft_ms", "tpot_ms", "num_gpus", "fits", "reason"]
    p = rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=16)
    assert filled[1] == [pytest.approx(p.ttft * 1e3), pytest.approx(p.tpot * 1e3), 1, True, None]
    assert filled[2] == [""] * 5
    assert filled[3][:4] == filled[4][:4] == [None] * 4
    assert "=1+1" in filled[3][4]
    assert "isl" in filled[4][4]
    assert filled[5][2:] == [4, True, None]
    with pytest.raises(rl.BadInput, match="osl"):
        excel.fill([["model", "gpu", "isl", "batch"], ["a", "b", 1, 1]])


def test_xlwings_is_offered_functions_that_it_takes(monkeypatch):
    offered = {}

    def func(namespace):
        return lambda function: offered.setdefault(f"{namespace}.{function.__name__}".upper(), function)

    xlwings = ModuleType("xlwings")
    xlwings.func = func
    monkeypatch.setitem(sys.modules, "xlwings", xlwings)
    recipe("xlwings_lite")
    assert list(offered) == ["ROOFLINE.TTFT", "ROOFLINE.TPOT", "ROOFLINE.REASON", "ROOFLINE.FILL"]
    for function in offered.values():
        assert function.__doc__  # Excel shows it
        assert function.__kwdefaults__ is None  # xlwings refuses keyword-only arguments
        hints = typing.get_type_hints(function, include_extras=True)
        assert {typing.get_origin(hint) or hint for hint in hints.values()} <= {str, float, int, list, typing.Annotated}


@pytest.mark.parametrize(("name", "library"), [("fill_workbook", "openpyxl"), ("sizing_with_pandas", "pandas")])
def test_a_library_that_is_missing_is_named(monkeypatch, name, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, name)
    assert stopped.value.code == f"this recipe needs {library}: pip install {library}"  # exit code 1, on stderr


def test_a_fleet_keeps_the_slo_for_all_users_and_a_replica_less_does_not(monkeypatch, capsys):
    found = SimpleNamespace(**run(monkeypatch, "users_within_slo"))
    printed = capsys.readouterr().out
    assert found.fleets.keys() == set(found.GPUS)
    for name, fleet in found.fleets.items():
        tp, gpus = fleet.deployment.plan.tp, fleet.deployment.num_gpus
        assert f"{name}, tp {tp}: " in printed
        assert f"{found.USERS} users: {gpus} GPUs" in printed
        assert fleet.slo_shares["p99_within"] <= 1.0
        assert fleet.request_rate * (found.PAUSE + fleet.e2el) == pytest.approx(found.USERS, rel=0.05)
        case = {**found.CASE, "tp": tp, "request_rate": fleet.request_rate}
        fewer = rl.predict(found.MODEL, name, num_gpus=gpus - tp, **case)
        assert max(fewer.slo_shares.values()) > 1.0
    assert printed in HOW_TO
    assert found.fleets["b200"].usd_per_hour < found.fleets["h100-sxm"].usd_per_hour


def test_the_levers_of_the_recipe_are_what_their_options_predict(monkeypatch, capsys):
    found = SimpleNamespace(**run(monkeypatch, "pull_levers"))
    assert capsys.readouterr().out in HOW_TO
    for goal, figure in found.GOALS.items():
        best = found.answers[goal].best
        if figure != "cost":
            assert rl.predict(**best.options).latency(figure) == pytest.approx(best.figure(figure), rel=1e-12)


def test_a_recipe_is_short_and_on_the_page_which_prints_what_the_command_prints():
    for name in RECIPES:
        most = 125 if name == "fill_workbook" else 80
        assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) <= most
        assert f"](../../examples/{name}.py)" in HOW_TO
    command = re.search(r"^`roofline (cache .*?)` prints", HOW_TO, re.MULTILINE)[1]
    assert CliRunner().invoke(cli, command.split(), env={"COLUMNS": "80"}).stdout.rstrip() in HOW_TO


#: Examples that no test above runs as they are.
OTHERS = sorted({path.stem for path in (ROOT / "examples").glob("*.py")} - (set(RECIPES) - {"xlwings_lite"}))


@each("name", OTHERS)
def test_every_example_runs_and_prints_something(name, capsys, monkeypatch):
    try:
        run(monkeypatch, name)
    except SystemExit as end:
        assert not end.code
    assert capsys.readouterr().out.strip()


def test_the_shortest_prompts_first_wait_less_on_average_and_the_longest_more(monkeypatch, capsys):
    found = SimpleNamespace(**run(monkeypatch, "own_scheduler"))
    assert capsys.readouterr().out in HOW_TO
    in_order, shortest_first = map(found.times_to_first_token, (False, True))
    assert len(in_order) == len(shortest_first) == len(found.requests)
    assert sum(shortest_first) < 0.95 * sum(in_order)
    assert shortest_first[-1] > in_order[-1]
