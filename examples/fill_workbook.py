"""Fill a workbook of one's own with predictions, row by row; whatever else is in it stays as it is.

One row of a sheet holds the headings model, gpu, isl, osl and a load (batch, users or req/s), perhaps those of CHOICES;
each row below it with a model and a GPU is a case. Results go below the headings of RESULTS that are there; those of
ALWAYS, and a verdict where there is an SLO, are added at the right where they are missing.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from zipfile import BadZipFile

import roofline as rl
from roofline.outputs.files import write_whole

try:
    from openpyxl import Workbook, load_workbook
    from openpyxl.utils.exceptions import InvalidFileException
except ImportError:
    sys.exit("this recipe needs openpyxl: pip install openpyxl")

NEEDED = {"model": "models", "gpu": "gpus", "isl": "isl", "osl": "osl"}  # heading: option of rl.table
CHOICES = {name: name for name in ("quantization", "tp", "num_gpus", "slo")} | {"precision": "quantization"}
LOADS = {"batch": "batch"} | dict.fromkeys(("users", "concurrent users", "concurrency"), "concurrency")
LOADS |= dict.fromkeys(("req/s", "requests/s", "request rate", "request rate [req/s]", "request_rate"), "request_rate")
ALWAYS = ("TTFT [ms]", "TPOT [ms]", "GPUs", "fits", "reason")
RESULTS = {"gpus": "num_gpus", "fits": "fits", "reason": "reason", "slo met": "slo_verdict"}  # heading: key of a row
RESULTS |= {"tok/s": "output_tok_s", "usd/h": "usd_per_hour"}
RESULTS |= dict.fromkeys(("usd/m tok", "usd/m output tok", "usd/m output tokens"), "usd_per_m_output_tok")
for _time in ("ttft", "tpot", "e2el"):
    RESULTS[f"{_time} [ms]"] = f"{_time}_ms"
    RESULTS |= {f"{_time} {part} [ms]": f"{_time}_{part}_ms" for part in ("p50", "p90", "p95", "p99")}
EXAMPLE = (
    ("model", "GPU", "ISL", "OSL", "users", "SLO", "TTFT p95 [ms]", "TPOT [ms]", "USD/M output tok", "SLO met"),
    ("llama-3.1-8b", "h100", 2000, 300, 64, "ttft:500@p95,tpot:40"),
    ("llama-3.3-70b", "b200:tp2:fp8", 4000, 500, 64, "ttft:500@p95,tpot:40"),
    ("llama-3.3-70b", "4xl4", 4000, 500, 64, "ttft:500@p95,tpot:40"),
    ("llama-3.1-8b", "h100", 2000, 300),
)


def fill(source: Path, target: Path, *, force: bool = False) -> None:
    """Write a copy of a workbook with predictions in it; `force` overwrites a file that exists."""
    book = load_workbook(source, keep_vba=source.suffix == ".xlsm", rich_text=True)
    values, top, columns = headings(load_workbook(source, data_only=True))  # what formulas came to when it was saved
    sheet = book[values.title]
    last = max(cell.column for row in sheet.iter_rows() for cell in row if cell.value is not None)
    wanted = (*ALWAYS, "SLO met") if "slo" in columns else ALWAYS
    for column, heading in enumerate((name for name in wanted if name.lower() not in columns), last + 1):
        columns[heading.lower()] = sheet.cell(top, column, heading).column
    filled = sorted(RESULTS.keys() & columns.keys(), key=columns.__getitem__)
    for line in range(top + 1, sheet.max_row + 1):
        typed = {name: sheet.cell(line, column).value for name, column in columns.items()}
        if typed["model"] is None or typed["gpu"] is None:
            continue  # a gap, a total, a note
        is_count = typed["gpus"] is not None and typed["fits"] is None  # a run would have filled both
        try:
            if is_count:
                raise rl.BadInput("GPUs is a result; state how many under num_gpus, or write the GPU as 8xh100")
            options = case(typed, {name: values.cell(line, column).value for name, column in columns.items()})
            row, *others = rl.table(**options, keys=sorted({RESULTS[name] for name in filled} - {"reason"}))
            if others:
                raise rl.BadInput("a row is one case: keep one model and one GPU")
        except rl.RooflineError as fault:
            row = {"reason": f"{type(fault).__name__}: {fault}"}
        shown = {RESULTS[name]: row.get(RESULTS[name]) for name in filled}
        rounded = {key: f"{value:.2f}" if isinstance(value, float) else value for key, value in shown.items()}
        print(f"row {line}:", *(f"{key} {value}" for key, value in rounded.items() if value is not None), sep="  ")
        for name in filled:
            cell = sheet.cell(line, columns[name])
            if is_count and name == "gpus":
                continue  # stays until it is moved
            cell.value = row.get(RESULTS[name])
            if isinstance(cell.value, str):
                cell.data_type = "s"  # text, never a formula, whatever it begins with
    write_whole(str(target), book.save, force=force)


def headings(book: Workbook) -> tuple:
    """The first sheet with a row of the headings, that row, and the column of each heading."""
    for sheet in book:
        for row in sheet.iter_rows():
            columns = {" ".join(str(cell.value).lower().split()): cell.column for cell in reversed(row) if cell.value}
            if NEEDED.keys() <= columns.keys() and LOADS.keys() & columns.keys():
                return sheet, row[0].row, columns
    needed = f"{', '.join(NEEDED)} and a load column: batch, users or req/s"
    raise rl.BadInput(f"no sheet has a row with the headings {needed}")


def case(typed: dict, values: dict) -> dict:
    """Options of `rl.table` for one row, from what was typed into its cells and what that comes to."""
    stated = [name for name in (*CHOICES, *LOADS) if values.get(name) is not None and str(values[name]).strip()]
    for name in (*NEEDED, *CHOICES, *LOADS):
        if typed.get(name) is not None and values[name] is None:
            raise rl.BadInput(f"{name} is a formula without a stored value; let Excel or LibreOffice save the file")
    loads = [name for name in stated if name in LOADS]
    if len(loads) != 1:
        what = f"{' and '.join(loads)} are filled in; clear all but one" if loads else "fill in batch, users or req/s"
        raise rl.BadInput(f"a row needs one load: {what}")
    return {(NEEDED | CHOICES | LOADS)[name]: [values[name]] for name in (*NEEDED, *stated)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workbook", nargs="?", type=Path, help="default: a small example")
    parser.add_argument("-o", "--output", type=Path, help="default: WORKBOOK-filled.xlsx, beside it")
    parser.add_argument("--force", action="store_true", help="overwrite a file that exists, be it the workbook itself")
    asked = parser.parse_args()
    source = asked.workbook or Path(tempfile.mkdtemp(), "plan.xlsx")
    if asked.workbook is None:
        plan = Workbook()
        for row in EXAMPLE:
            plan.active.append(row)
        plan.save(source)
    target = asked.output or source.with_stem(f"{source.stem}-filled")
    try:
        fill(source, target, force=asked.force)
        print(target)
    except (rl.RooflineError, OSError, BadZipFile, InvalidFileException, AttributeError) as fault:  # a merged cell
        sys.exit(f"{source}: {fault}")
