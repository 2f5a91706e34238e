"""Predictions as CSV for Google Sheets: imported by hand, or hosted and read by =IMPORTDATA("https://...")."""

import argparse
import sys
from pathlib import Path
from typing import Any

import roofline as rl
from roofline.outputs.files import csv_text, write_whole

MODELS = ["llama-3.1-8b", "llama-3.1-70b"]
GPUS = ["h100-sxm", "b200", "a10"]
KEYS = ["model", "gpu", "num_gpus", "isl", "osl", "batch", "ttft_ms", "tpot_ms", "usd_per_hour", "fits", "basis"]
FORMULA = ("=", "+", "-", "@")  # how a text begins that a spreadsheet may take for a formula


def inert(value: Any) -> Any:
    """The value of a cell; text is one line, and an apostrophe keeps it from being a formula."""
    if isinstance(value, list):
        value = "; ".join(map(str, value))
    if not isinstance(value, str):
        return value
    text = " ".join(value.split())  # after a line break inside it, a new cell might begin, which is a formula
    return f"'{text}" if text.startswith(FORMULA) else text


def sheet_csv(rows: list[dict[str, Any]]) -> str:
    """Rows of `rl.table` as CSV; nothing stands for what does not apply."""
    return csv_text([{key: inert(value) for key, value in row.items()} for row in rows])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", help="file to write; default: print")
    parser.add_argument("--force", action="store_true", help="overwrite a file that exists")
    asked = parser.parse_args()
    try:
        text = sheet_csv(rl.table(MODELS, GPUS, isl=[1000, 8000], osl=300, batch=[1, 16], keys=KEYS))
        if asked.path is None:
            print(text, end="")
        else:
            write_whole(asked.path, lambda beside: Path(beside).write_text(text, encoding="utf-8"), force=asked.force)
    except rl.RooflineError as fault:
        sys.exit(str(fault))
