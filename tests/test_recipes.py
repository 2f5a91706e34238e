"""The recipes: right figures in the right cells, whatever else was there as it was, and fleets that keep their SLO."""

import csv
import io
import math
import runpy
import sys
import tempfile
import typing
from pathlib import Path
from types import ModuleType, SimpleNamespace

import openpyxl
import pytest
import xlsxwriter

import roofline as rl

ROOT = Path(__file__).parents[1]
RECIPES = ("fill_workbook", "google_sheets", "sizing_with_pandas", "users_within_slo", "xlwings_lite")
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
        sheet.write_row(2, 0, ["note", " Model", "GPU ", "Batch", "ISL", "OSL", "TTFT [ms]", "tp", "Precision"])
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
    assert "None" in results(tmp_path / "filled.xlsx")[4]["reason"]


def test_a_workbook_is_overwritten_only_when_asked(plan, monkeypatch, capsys):
    before = plan.read_bytes()
    run(monkeypatch, "fill_workbook", plan)
    filled = plan.with_name("plan-filled.xlsx")
    assert results(filled)[4]["fits"] is True
    assert str(filled) in capsys.readouterr().out
    for arguments in ([plan], [plan, "-o", plan]):
        with pytest.raises(SystemExit, match="--force"):
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
    assert [row["fits"] for row in found.values()] == [True, False, None]
    assert len(printed) == 4


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
    with pytest.raises(SystemExit, match="--force"):
        run(monkeypatch, "google_sheets", path)
    run(monkeypatch, "google_sheets", path, "--force")


@pytest.mark.parametrize("text", HOSTILE)
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


def test_functions_of_excel_answer_as_the_calculator_does():
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
    with pytest.raises(rl.RooflineError, match="nearest: llama"):
        excel.ttft("lama-3.1-8b", "h100-sxm", 2000, 300)
    with pytest.raises(rl.RooflineError, match="osl"):
        excel.tpot("llama-3.1-8b", "h100-sxm", 2000, 0)


def test_a_function_of_excel_fills_a_table():
    excel = recipe("xlwings_lite")
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
    assert printed in (ROOT / "docs" / "recipes.md").read_text()
    assert found.fleets["b200"].usd_per_hour < found.fleets["h100-sxm"].usd_per_hour


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_short_and_on_the_page(name):
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) <= 80
    assert f"](../examples/{name}.py)" in (ROOT / "docs" / "recipes.md").read_text()
