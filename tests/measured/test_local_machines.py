"""Machines whose CPU and GPU share memory, and weights in host memory, against public figures of tokens per second.

`local.csv` holds them with their sources; nothing was fitted to them but the share of its memory that a CPU reaches.
"""

import csv
import re
import statistics
from pathlib import Path

import pytest

import roofline as rl

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "method" / "adapters-and-offload.md"
with (FOLDER / "local.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))


def prediction(row):
    options = dict(part.split("=") for part in row["options"].split())
    if row["formats"]:
        options["quantization"] = row["formats"]
    lengths = {name: int(row[column]) for name, column in (("isl", "prompt"), ("osl", "answer"), ("batch", "batch"))}
    return rl.predict(row["model"], row["gpu"], tp=1, **lengths, **options)


@pytest.fixture(scope="module")
def answers():
    return [(row, prediction(row)) for row in ROWS]


def errors(answers, part):
    """Relative errors of tokens per second."""
    return [
        int(row["batch"]) / float(p.tpot) / float(row["measured"]) - 1.0 for row, p in answers if row["part"] == part
    ]


@pytest.mark.parametrize(
    ("part", "least", "median", "worst"), [("unified", 15, 0.20, 0.51), ("offload", 6, 0.15, 0.60)]
)
def test_errors_are_no_worse_than_the_page_says(answers, part, least, median, worst):
    missed = [abs(error) for error in errors(answers, part)]
    assert len(missed) >= least
    assert statistics.median(missed) <= median
    assert max(missed) <= worst


def test_every_row_is_on_the_page_with_its_figures_and_has_a_source(answers):
    page = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    for row, p in answers:
        predicted = int(row["batch"]) / float(p.tpot)
        measured = float(row["measured"])
        figures = f"| {measured:.3g} | {predicted:.3g} | {100 * (predicted / measured - 1):+.0f} % |"
        assert figures in page, f"{row['model']} on {row['gpu']}: {figures}"
        assert row["source"]
        assert row["date"]


def test_answers_of_these_machines_are_marked_as_those_of_gpus_that_nobody_timed(answers):
    assert {p.basis for row, p in answers if row["part"] == "unified"} == {"generic"}
    assert {p.basis for row, p in answers if row["part"] == "offload"} == {"inherited"}
    assert all(p.fits for _, p in answers)
