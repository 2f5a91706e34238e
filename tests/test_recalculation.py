"""The harness that proves workbooks live: what it must catch, and what both engines make of every function in use."""

import itertools
import math
from zipfile import ZipFile

import pytest
import recalculation
import xlsxwriter
from recalculation import POISON, Cells, Live, edit, libreoffice_is_installed, poison, recalculated, recalculated_many

needs_libreoffice = pytest.mark.skipif(not libreoffice_is_installed(), reason="LibreOffice is not installed")
ENGINES = ["betteroffice", pytest.param("libreoffice", marks=needs_libreoffice)]

PARTS = (("slow", 2.5, 4), ("H100", 7.25, 8), ("1e5", 40.0, 8))
#: An address or a text, a factor, a size: what the tests edit.
START = {"B1": "H100", "B2": 3.5, "B3": 10}
SHEET = "Calculator"


def nested(name, size):
    """Nested IFs as a generator writes them: more than 500 characters."""
    branches = (
        f'IF(AND(in_size>{limit},in_name<>"{name}{limit}"),MAX({limit}*in_factor,in_rate)' for limit in range(12)
    )
    return ",".join(branches) + f",POWER(in_factor,{size})" + ")" * 12


def by_hand(name, factor, size):
    """Every formula of the workbook with the value it must have."""
    rates = {part: rate for part, rate, _ in PARTS}
    rate = rates.get(name)
    known = rate if rate is not None else math.nan
    tail = max(0.0, known) if size > 0 else factor**2
    return {
        "=INDEX(tbl_rate,MATCH(in_name,tbl_name,0))": rate if rate is not None else "#N/A",
        '=IF(in_name="H100","fast","")': "fast" if name == "H100" else "",
        "=MIN(in_factor,in_size,4)": min(factor, size, 4),
        "=MAX(in_factor,Parts!B1)": max(factor, 2.5),
        "=POWER(in_factor,0.5)": factor**0.5,
        "=ROUNDUP(in_factor/in_size,0)": math.ceil(factor / size),
        "=INT(in_factor*3)": math.floor(factor * 3),
        "=MOD(in_size,4)": size % 4,
        "=SUM(Parts!B:B)": 49.75,
        "=SUM(Parts!$B$1:$B$3,in_factor)": 49.75 + factor,
        "=SUMIF(tbl_name,in_name,tbl_rate)": rates.get(name, 0.0),
        "=SUMIF(tbl_size,8,tbl_rate)": 47.25,
        "=SUMPRODUCT(tbl_rate,tbl_size)": 388.0,
        "=SUMPRODUCT((tbl_name=in_name)*tbl_size)": {part: count for part, _, count in PARTS}.get(name, 0),
        "=AND(in_factor>1,in_size>9)": factor > 1 and size > 9,
        '=OR(in_factor>100,in_name="slow")': factor > 100 or name == "slow",
        "=ISNA(MATCH(in_name,tbl_name,0))": rate is None,
        '=IFERROR(INDEX(tbl_rate,MATCH(in_name,tbl_name,0)),"no such part")': rates.get(name, "no such part"),
        '=in_name&" x "&TEXT(in_size,"0")&" <on> "': f"{name} x {size} <on> ",
        '=""': "",
        "=NA()": "#N/A",
        "=IF(in_size>1E6,NA(),in_size/0.3)": size / 0.3,
        "=" + nested("x", 2): "#N/A" if rate is None else tail,
        "=in_name": name,
        "=B2*2": factor * 2,
    }


def formulas():
    return list(by_hand(*START.values()))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A small workbook as the project writes them: inputs, defined names, look-ups and cached values."""
    path = tmp_path_factory.mktemp("workbook") / "small.xlsx"
    with xlsxwriter.Workbook(path) as book:
        calculator, parts = book.add_worksheet(SHEET), book.add_worksheet("Parts")
        percent = book.add_format({"num_format": "0%"})
        for place, row in enumerate(PARTS):
            parts.write_row(place, 0, row)
        for place, column in enumerate(("name", "rate", "size")):
            letter = "ABC"[place]
            assert book.define_name(f"tbl_{column}", f"=Parts!${letter}$1:${letter}$3") == 0
        for place, (name, value) in enumerate(zip(("in_name", "in_factor", "in_size"), START.values(), strict=True)):
            calculator.write(place, 0, f"label of {name}")
            calculator.write(place, 1, value, percent)
            assert book.define_name(name, f"={SHEET}!$B${place + 1}") == 0
        calculator.write_blank("B4", None, percent)
        calculator.data_validation("B1", {"validate": "list", "source": "=tbl_name"})
        assert book.define_name("in_rate", "=Parts!$B$1*0+INDEX(tbl_rate,MATCH(in_name,tbl_name,0))") == 0
        for place, (formula, value) in enumerate(by_hand(*START.values()).items()):
            calculator.write_formula(place, 2, formula, None, value)
    return path


def assert_by_hand(workbook, name, factor, size):
    for place, (formula, value) in enumerate(by_hand(name, factor, size).items()):
        found = workbook.value(SHEET, f"C{place + 1}")
        assert isinstance(found, bool) == isinstance(value, bool), formula
        assert isinstance(found, str) == isinstance(value, str), formula
        # LibreOffice writes 15 digits.
        assert found == value if isinstance(value, str) else math.isclose(found, value, rel_tol=1e-14), formula


def test_every_formula_is_poisoned_whatever_its_cached_value_and_nothing_else_changes(path, tmp_path):
    assert poison(path, tmp_path / "poisoned.xlsx") == len(formulas())
    before, after = Cells(path), Cells(tmp_path / "poisoned.xlsx")
    assert len(after.formulas) == len(formulas())
    assert {after.value(*place) for place in after.formulas} == {POISON}
    assert {type(before.value(*place)) for place in before.formulas} == {float, str, bool}
    assert after.inputs == before.inputs
    assert all(after.value(*place) == before.value(*place) for place in before.inputs)
    with ZipFile(path) as one, ZipFile(tmp_path / "poisoned.xlsx") as two:
        assert one.namelist() == two.namelist()
        assert [n for n in one.namelist() if one.read(n) != two.read(n)] == ["xl/worksheets/sheet1.xml"]


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_agree_with_values_by_hand_before_and_after_edits(path, tmp_path, engine):
    cases = [tuple(START.values()), ("slow", 0.7, 12), ("1e5", 250.0, 1), ("none <of> & 'these' \"parts\" ", 1.25, 7)]
    copies = [tmp_path / f"{place}.xlsx" for place in range(len(cases))]
    for case, copy in zip(cases, copies, strict=True):
        edit(path, copy, {(SHEET, address): value for address, value in zip(START, case, strict=True)})
        assert Cells(copy).value(SHEET, "C4") == Cells(path).value(SHEET, "C4")  # an edit calculates nothing
    for case, workbook in zip(cases, recalculated_many(copies, engine), strict=True):
        assert_by_hand(workbook, *case)
        assert workbook.value(SHEET, "B1") == case[0]
        assert workbook.value(SHEET, "B4") is None


def test_live_edits_give_what_files_edited_and_recalculated_anew_give(path, tmp_path):
    live = Live(path)
    for case in itertools.product(("slow", "H100", "1e5", "none"), (0.35, 4, 1e-7), (1, 10)):
        for address, value in zip(START, case, strict=True):
            live.set(SHEET, address, value)
        assert_by_hand(live, *case)
        edit(path, tmp_path / "edited.xlsx", {(SHEET, a): v for a, v in zip(START, case, strict=True)})
        anew = recalculated(tmp_path / "edited.xlsx")
        assert all(live.value(*place) == anew.value(*place) for place in live.formulas)


def test_empty_cells_and_truth_values_can_be_set_and_others_are_no_inputs(path, tmp_path):
    edit(path, tmp_path / "edited.xlsx", {(SHEET, "B1"): None, (SHEET, "B4"): True})
    live = Live(path)
    live.set(SHEET, "B1", None)
    live.set(SHEET, "B4", True)
    for workbook in (live, recalculated(tmp_path / "edited.xlsx")):
        assert workbook.value(SHEET, "B1") is None
        assert workbook.value(SHEET, "B4") is True
        assert workbook.value(SHEET, "C1") == "#N/A"
    for address in ["C1", "Z99"]:
        with pytest.raises(AssertionError, match=f"no input in {address}"):
            edit(path, tmp_path / "edited.xlsx", {(SHEET, address): 1})
        with pytest.raises(AssertionError, match=f"no input in {address}"):
            Live(path).set(SHEET, address, 1)


def test_workbooks_and_formulas_that_prove_nothing_are_caught(path, monkeypatch, tmp_path):
    assert len(nested("x", 2)) > 500
    for formula in ["=NOSUCHFUNCTION(1)", "=SUM(1", "=" + "+".join(["1"] * 101), "=TODAY()"]:
        with xlsxwriter.Workbook(tmp_path / "one.xlsx") as book:
            sheet = book.add_worksheet()
            sheet.write_formula("A1", "=1+1", None, 2)
            sheet.write_formula("A2", formula, None, 2)
        with pytest.raises(AssertionError, match=r"1 of 2 formulas not recalculated: \['Sheet1!A2'\]"):
            recalculated(tmp_path / "one.xlsx")
    for write, message in [
        (lambda sheet: sheet.write("A1", 1), "no formulas"),
        (lambda sheet: sheet.write_formula("A1", "=A1+1"), "on a circle"),
        (lambda sheet: sheet.write_array_formula("A1:A2", "{=B1:B2}"), "the array in A1"),
    ]:
        with xlsxwriter.Workbook(tmp_path / "one.xlsx") as book:
            write(book.add_worksheet())
        with pytest.raises(AssertionError, match=message):
            recalculated(tmp_path / "one.xlsx")
    monkeypatch.setattr(recalculation.Workbook, "open_recalculated", recalculation.Workbook.open)
    with pytest.raises(AssertionError, match=f"{len(formulas())} of {len(formulas())} formulas not recalculated"):
        recalculated(path)


@needs_libreoffice
def test_a_workbook_that_libreoffice_did_not_recalculate_is_caught(path):
    with pytest.raises(AssertionError, match=r"\d+ of \d+ formulas not recalculated"):
        recalculation._libreoffice([path], mode=1)
