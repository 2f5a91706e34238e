"""What people type is read as Python reads it, by the formulas of a workbook and by the values beside them."""

import math

import numpy as np
import pytest
from recalculation import Live, libreoffice_is_installed, recalculated

import roofline as rl
from roofline.outputs.workbook.case import CHOICES
from roofline.outputs.workbook.cells import CellPool
from roofline.outputs.workbook.tables import read_count, read_rate, read_time
from roofline.outputs.workbook.typed import UNREADABLE
from roofline.outputs.workbook.writer import Book
from roofline.specs.written import rate_of_text

#: Text, what it is as a count, and what it is as a time [ms].
TYPED = (
    ("2000", 2000.0, 2000.0),
    ("2k", 2048.0, UNREADABLE),
    (" 1.5 K ", 1536.0, UNREADABLE),
    ("1M", 1048576.0, UNREADABLE),
    (".5k", 512.0, UNREADABLE),
    ("2 000", 2000.0, 2000.0),
    ("7.25", 7.25, 7.25),
    ("300 ms", UNREADABLE, 300.0),
    ("0.3s", UNREADABLE, 300.0),
    ("250us", UNREADABLE, 0.25),
    ("-3", -3.0, -3.0),
    ("", "", ""),
    ("   ", "", ""),
    *((text, UNREADABLE, UNREADABLE) for text in (
        "1,5", "1,000", "2kk", "k", "ms", "1.2.3", "1-2", "1/2", "12:30", "5%", "1e5", "two", "2k tokens", "--1", ".",
    )),
)  # fmt: skip


def test_numbers_with_a_k_or_a_unit_are_read_and_other_texts_are_not(tmp_path):
    pool = CellPool()
    texts = np.array([text for text, _, _ in TYPED], dtype=object)
    both = [
        [read(pool.input(f"$A${row}", texts[row - 1 : row])) for row in range(1, len(TYPED) + 1)]
        for read in (read_count, read_time)
    ]
    book = Book(tmp_path / "typed.xlsx")
    sheet = book.sheet("Typed")
    for row, text in enumerate(texts):
        sheet.value(row, 0, text)
        for column, cells in enumerate(both, 1):
            sheet.cell(row, column, cells[row], {})
    book.close()
    engines = ["betteroffice", *(["libreoffice"] if libreoffice_is_installed() else [])]
    for engine in engines:
        anew = recalculated(tmp_path / "typed.xlsx", engine)
        for row, (text, *known) in enumerate(TYPED):
            for column, (cells, value) in enumerate(zip(both, known, strict=True)):
                assert cells[row].value.tolist() == [value], text
                shown = anew.value("Typed", f"{'BC'[column]}{row + 1}")
                assert shown in (value, None if value == "" else value), (engine, text)


#: A rate as people type it, and its requests per second.
TYPED_RATES = (
    ("3", 3.0), ("3/s", 3.0), (" 180 / min ", 3.0), ("36k/h", 10.0), ("1.5K", 1500.0), ("", ""),
    *((text, UNREADABLE) for text in ("3/d", "3/", "/s", "fast", "1/2/s", "3 a second", "2kk/s")),
)  # fmt: skip


def test_rates_are_read_as_the_command_line_reads_them(tmp_path):
    pool = CellPool()
    texts = np.array([text for text, _ in TYPED_RATES], dtype=object)
    cells = [read_rate(pool.input(f"$A${row}", texts[row - 1 : row])) for row in range(1, len(texts) + 1)]
    book = Book(tmp_path / "rates.xlsx")
    sheet = book.sheet("Typed")
    for row, text in enumerate(texts):
        sheet.value(row, 0, text)
        sheet.cell(row, 1, cells[row], {})
    book.close()
    anew = recalculated(tmp_path / "rates.xlsx")
    for row, (text, value) in enumerate(TYPED_RATES):
        assert cells[row].value.tolist() == [value], text
        assert anew.value("Typed", f"B{row + 1}") in (value, None if value == "" else value), text
        if isinstance(value, float):
            assert rate_of_text(text) == value, text


def test_numbers_and_blanks_stay_what_they_are():
    pool = CellPool()
    column = read_count(pool.input("$A$1", np.array([3.5, math.nan])))
    assert column.value[0] == 3.5
    assert math.isnan(column.value[1])


#: What is typed, and what Python is asked instead.
SPELLED = (
    ({"model": " LLAMA-3.1-8B "}, {}),
    ({"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H100"}, {}),
    ({"model": "llama 3.1 8b", "gpu": "h100_sxm"}, {}),
    ({"quantization": "FP8_E4M3", "kv_cache_dtype": "fp8_e5m2"}, {"quantization": "fp8", "kv_cache_dtype": "fp8"}),
    ({"quantization": "awq"}, {"quantization": "int4"}),
    ({"basis": "Ideal"}, {"basis": "ideal"}),
    ({"isl": "2k", "osl": "0.25k", "batch": "16"}, {"isl": 2048, "osl": 256, "batch": 16}),
    ({"tp": "4"}, {"tp": 4}),
    ({"tp": " "}, {"tp": None}),
    ({"model": "gpt-oss", "tp": ""}, None),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    path = tmp_path_factory.mktemp("typed") / "sizing.xlsx"
    rl.sheet(str(path), ["llama-3.1-8b", "gpt-oss-20b"], ["h100-sxm", "l40s"], isl=1000, spare=len(SPELLED))
    return Live(path)


def test_names_in_any_spelling_and_numbers_as_typed_give_the_answer_that_python_gives(live):
    plain = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "isl": 1000, "osl": 100, "batch": 2}
    changes = {}
    for row, (typed, _) in enumerate(SPELLED, 6):
        for name, value in {**plain, **typed}.items():
            changes["Scenarios", f"{'ABCDEFGHIJKLMN'[CHOICES.index(name)]}{row}"] = value
    live.set_many(changes)
    heads = {live.value("Scenarios", f"{column}1"): column for column in "OPQRSTUVW"}
    for row, (typed, meant) in enumerate(SPELLED, 6):
        shown = live.value("Scenarios", f"{heads['TTFT [ms]']}{row}")
        if meant is None:
            assert live.value("Scenarios", f"{heads['reason']}{row}").startswith("unknown model gpt-oss"), typed
            continue
        known = rl.predict(**{**plain, **meant})
        assert math.isclose(shown, known.ttft * 1000, rel_tol=1e-9), (typed, live.value("Scenarios", f"O{row}"))


#: Column of GPUs, what is typed, and its number in SI units.
RATES = (
    ("HBM bandwidth [B/s]", "12 TB/s", 12e12),
    ("HBM bandwidth [B/s]", "3.35TB/s", 3.35e12),
    ("usable HBM [B]", "72 GiB", 72 * 1024.0**3),
    ("usable HBM [B]", "80 GB", 80e9),
    ("bf16 peak, dense [FLOP/s]", "2.5 PFLOP/s", 2.5e15),
    ("fp8 peak, dense [FLOP/s]", "1979 TFLOPS", 1979e12),
    ("link per direction [B/s]", "450 GB/s", 450e9),
    ("network per GPU [B/s]", "400 Gbit/s", 50e9),
    ("typical price [USD/h]", "2.5", 2.5),
    ("typical price [USD/h]", " 2.5 USD/h", 2.5),
    ("network per GPU [B/s]", "", 0.0),
    *(("HBM bandwidth [B/s]", text, 0.0) for text in ("fast", "12 TB", "12 Tb/s", "12,5 TB/s", "1.2.3 TB/s", "TB/s")),
)  # fmt: skip


def test_figures_of_ones_own_gpu_are_read_with_their_units(live):
    heads = {live.value("GPUs", f"{column}1"): column for column in "ABCDEFGHIJKLMNOPQRS"}
    read = {live.value("Read", f"{column}2"): column for column in "JKLMNOPQRSTUVWXY"}
    letters = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *(f"A{letter}" for letter in "ABCDEFGH")]
    checks = next(column for column in letters if live.value("GPUs", f"{column}1") == "check")
    rounds = []  # each a text a heading, so that one recalculation reads them all; one that is refused stands alone
    for heading, text, number in RATES:
        place = next((known for known in rounds if heading not in known and (number or not text)), None)
        if place is None:
            rounds.append(place := {})
        place[heading] = text, number
    assert len(rounds) < len(RATES)
    for known in rounds:
        live.set_many({("GPUs", f"{heads[heading]}4"): text for heading, (text, _) in known.items()})
        for heading, (text, number) in known.items():
            assert live.value("Read", f"{read[heading]}5") == number, text
        check = live.value("GPUs", f"{checks}4")
        assert (check == "ok") == all(number or not text for text, number in known.values()), (known, check)
