"""What a person sees: prompts, limits, protection, print, tabs and charts of a workbook."""

import re
import zipfile

import openpyxl
import pytest
from openpyxl.utils import range_boundaries
from recalculation import Live, opened

import roofline as rl
from roofline.outputs.workbook.sheets import BEHIND, READ, SHEETS


@pytest.fixture(scope="module")
def sheets(shared_book):
    return opened(shared_book)


def ruled(sheet):
    """Addresses under a prompt, with its rule."""
    cells = {}
    for rule in sheet.data_validations.dataValidation:
        for area in str(rule.sqref).split():
            first, top, last, bottom = range_boundaries(area)
            cells |= {(row, column): rule for row in range(top, bottom + 1) for column in range(first, last + 1)}
    return cells


def test_inputs_alone_are_open_and_each_has_its_prompt_and_limit(sheets):
    inputs = 0
    for sheet in sheets:
        assert sheet.protection.sheet, sheet.title
        assert not sheet.protection.password, sheet.title
        rules = ruled(sheet)
        for row in sheet.iter_rows():
            for cell in row:
                if cell.protection.locked:
                    continue
                assert cell.data_type != "f", (sheet.title, cell.coordinate)
                inputs += 1
                rule = rules.get((cell.row, cell.column))
                assert rule is not None, (sheet.title, cell.coordinate)
                assert 0 < len(rule.promptTitle) <= 32, cell.coordinate
                assert 0 < len(rule.prompt) <= 255, cell.coordinate
                assert rule.type in ("list", "custom", None), cell.coordinate
                if rule.type is None:
                    assert rule.promptTitle in ("name", "model id"), cell.coordinate
                assert len(rule.formula1 or "") <= 257, cell.coordinate
    assert inputs > 100


def test_sheets_that_people_read_print_on_pages_of_their_own_and_the_others_do_not(sheets):
    assert tuple(sheets.sheetnames) == SHEETS
    for sheet in sheets:
        area = sheet.print_area.replace("$", "").rpartition("!")[2]
        assert sheet.page_setup.orientation == "landscape"
        assert sheet.page_setup.fitToWidth in (None, 1)  # 1 where it is not written
        assert sheet.sheet_properties.pageSetUpPr.fitToPage
        if sheet.title in BEHIND:
            assert area == "XFD1048576", sheet.title
            continue
        first, top, last, bottom = range_boundaries(area)
        assert (first, top) == (1, 1)
        rows = sheet.iter_rows(max_row=bottom, max_col=last)
        filled = [cell.row for row in rows for cell in row if cell.value is not None]
        if sheet.title != "Curves":  # whose charts reach further down
            assert max(filled) >= bottom - 4, sheet.title
        assert sheet.sheet_properties.tabColor.rgb.endswith(READ[sheet.title].removeprefix("#")), sheet.title
    assert sheets.properties.creator == "roofline"
    assert sheets.properties.title == "Sizing of LLM inference"
    assert sheets["Scenarios"].print_title_rows == "$1:$1"


def test_texts_have_the_lines_that_they_need(sheets):
    about = sheets["About"]
    long = [row for row in range(1, about.max_row + 1) if len(str(about[f"B{row}"].value)) > 130]
    assert long
    for row in long:
        assert about.row_dimensions[row].height >= 15 * (len(str(about[f"B{row}"].value)) // 125 + 1)


def test_a_chart_has_one_figure_and_one_axis_for_it(shared_book):
    with zipfile.ZipFile(shared_book) as archive:
        charts = [archive.read(part).decode() for part in archive.namelist() if part.startswith("xl/charts/chart")]
    assert len(charts) == 4
    titles = set()
    for chart in charts:
        assert len(re.findall("<c:ser>", chart)) == 1
        assert len(re.findall("<c:valAx>", chart)) == 2  # what varies, and the figure
        titles.add("".join(re.findall("<a:t>([^<]*)</a:t>", chart)[:1]))
    assert titles == {f"{name} against {by}" for name in ("TTFT", "TPOT") for by in ("batch", "prompt length")}


def test_the_verdict_stands_first_in_words(tmp_path):
    book, met = tmp_path / "verdict.xlsx", "pass: every limit is met, by the whole 80 % range"
    rl.sheet(str(book), "llama-3.1-8b", "h100-sxm", spare=0)
    shown = openpyxl.load_workbook(book, data_only=True)["Answer"]
    assert shown["A4"].value == "Verdict"
    assert shown["B4"].value == "no limit is set; type one under Limits"
    live = Live(book)
    inputs = {live.value("Answer", f"A{row}"): f"B{row}" for row in range(19, 50)}
    for typed, said in (
        ({"SLO ttft": 5000, "SLO tpot": 100}, met),
        ({"SLO ttft": 5000, "SLO tpot": 5}, "fail? (the 80 % range includes the limit)"),
        ({"SLO ttft": None, "SLO tpot": 1}, "fail (TPOT exceeds its limit)"),
        ({"batch": 100_000}, "no answer: does "),
        ({"batch": 1, "SLO tpot": "0.1 s"}, met),
        ({"basis": "ideal"}, "pass? (times are the hardware limit, which no GPU reaches)"),
    ):
        live.set_many({("Answer", inputs[name]): value for name, value in typed.items()})
        assert live.value("Answer", "B4").partition("not fit: ")[0] == said
    rl.sheet(str(book), "llama-3.1-8b", "h100-sxm", spare=0, slo={"tpot": 0.001}, force=True)
    written = openpyxl.load_workbook(book, data_only=True)["Answer"]["B4"].value
    assert written == "fail (TPOT exceeds its limit)"
