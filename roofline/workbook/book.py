"""A sizing workbook whose cells are the formulas of a prediction: one case in full, and a row for each of many."""

from __future__ import annotations

from pathlib import Path

from roofline.serving.prediction import Prediction
from roofline.workbook.calculator import write_calculator
from roofline.workbook.inputs import Contents
from roofline.workbook.scenarios import write_scenarios
from roofline.workbook.sheets import SHEETS, write_notes, write_tables
from roofline.workbook.writer import Book


def write_workbook(path: Path, contents: Contents, start: Prediction) -> None:
    book = Book(path)
    sheets = {name: book.sheet(name) for name in SHEETS}
    write_tables(book, sheets, contents.catalog)
    write_calculator(book, sheets, contents, start)
    write_scenarios(sheets["Scenarios"], contents)
    write_notes(sheets, contents)
    book.close()
