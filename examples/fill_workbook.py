"""Fill a workbook of one's own with predictions, row by row; whatever else is in it stays as it is.

One row of a sheet holds the headings model, gpu, isl, osl and batch, perhaps precision and tp; each row below it with a
model and a GPU is a case. Results go below the headings of WRITTEN that are there, else into new columns at the right.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from zipfile import BadZipFile

import roofline as rl
from roofline.api.outputs import write_whole

try:
    from openpyxl import Workbook, load_workbook
    from openpyxl.utils.exceptions import InvalidFileException
except ImportError:
    sys.exit("this recipe needs openpyxl: pip install openpyxl")

NEEDED = {"model": "models", "gpu": "gpus", "isl": "isl", "osl": "osl", "batch": "batch"}  # heading: option of rl.table
READ = {**NEEDED, "precision": "quantization", "tp": "tp"}
WRITTEN = {"TTFT [ms]": "ttft_ms", "TPOT [ms]": "tpot_ms", "GPUs": "num_gpus", "fits": "fits", "reason": "reason"}
CASES = (("llama-3.1-8b", "h100", 2000, 300, 16), ("llama-3.1-70b", "a10", 2000, 300, 64), ("lama", "b200", 9, 9, 9))


def fill(source: Path, target: Path, *, force: bool = False) -> None:
    """Write a copy of a workbook with predictions in it; `force` overwrites a file that exists."""
    book = load_workbook(source, keep_vba=source.suffix == ".xlsm", rich_text=True)
    values, top, columns = headings(load_workbook(source, data_only=True))  # what formulas came to when it was saved
    sheet = book[values.title]
    last = max(cell.column for row in sheet.iter_rows() for cell in row if cell.value is not None)
    for column, heading in enumerate((name for name in WRITTEN if name.lower() not in columns), last + 1):
        columns[heading.lower()] = sheet.cell(top, column, heading).column
    for line in range(top + 1, sheet.max_row + 1):
        if sheet.cell(line, columns["model"]).value is None or sheet.cell(line, columns["gpu"]).value is None:
            continue  # a gap, a total, a note
        case = {READ[name]: [values.cell(line, columns[name]).value] for name in READ if name in columns}
        try:
            row = rl.table(**case, keys=list(WRITTEN.values())[:-1])[0]  # the reason comes with every row
        except rl.RooflineError as fault:
            row = {"reason": f"{type(fault).__name__}: {fault}"}
        print(f"row {line}:", *(f"{heading} {row.get(key)}" for heading, key in WRITTEN.items()), sep="  ")
        for heading, key in WRITTEN.items():
            cell = sheet.cell(line, columns[heading.lower()])
            cell.value = row.get(key)
            if isinstance(cell.value, str):
                cell.data_type = "s"  # text, never a formula, whatever it begins with
    write_whole(str(target), book.save, force=force)


def headings(book: Workbook) -> tuple:
    """The first sheet with a row of the headings, that row, and the column of each heading."""
    for sheet in book:
        for row in sheet.iter_rows():
            columns = {str(cell.value).strip().lower(): cell.column for cell in reversed(row) if cell.value is not None}
            if NEEDED.keys() <= columns.keys():
                return sheet, row[0].row, columns
    raise rl.BadInput(f"no sheet has a row with the headings {', '.join(NEEDED)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workbook", nargs="?", type=Path, help="default: a small example")
    parser.add_argument("-o", "--output", type=Path, help="default: WORKBOOK-filled.xlsx, beside it")
    parser.add_argument("--force", action="store_true", help="overwrite a file that exists, be it the workbook itself")
    asked = parser.parse_args()
    source = asked.workbook or Path(tempfile.mkdtemp(), "plan.xlsx")
    if asked.workbook is None:
        plan = Workbook()
        for row in (tuple(NEEDED), *CASES):
            plan.active.append(row)
        plan.save(source)
    target = asked.output or source.with_stem(f"{source.stem}-filled")
    try:
        fill(source, target, force=asked.force)
        print(target)
    except (rl.RooflineError, OSError, BadZipFile, InvalidFileException, AttributeError) as fault:  # a merged cell
        sys.exit(f"{source}: {fault}")
