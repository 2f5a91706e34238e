"""The sheet Scenarios: a row for each case, with its own look-ups, kernels and answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np

from roofline.ops import maximum, where
from roofline.physics.memory import largest_batch
from roofline.quantity import GIGA, MILLI
from roofline.records import NamedTuple
from roofline.workbook.case import CHOICES, LookupCase, central_verdict, lookup_case
from roofline.workbook.cell import INFINITE, Cell, CellPool, named, unmarked
from roofline.workbook.cell_text import homes, shared
from roofline.workbook.inputs import CHOICE_NOTES, OFFERED, TEXTS, Contents, case_inputs, limits
from roofline.workbook.writer import Sheet, address

_HEAD = 32  # points: two lines of headings


class _Answer(NamedTuple):
    heading: str
    cell: Any
    style: str


def write_scenarios(sheet: Sheet, contents: Contents) -> None:
    count = len(contents.scenarios) + contents.spare
    pool = CellPool()
    cells = {name: pool.input(address(None, place), _column(contents, name)) for place, name in enumerate(CHOICES)}
    case = lookup_case(contents.catalog, case_inputs(contents, pool, cells))
    answers = list(_answers(case, limits(contents, pool)))
    for answer in answers:
        named(answer.heading.partition(" [")[0], answer.cell)
    prediction = case.prediction
    kernels = [
        (f"{name}: {unmarked(kernel.name)} [s]", kernel.time)
        for name, passed in (("prefill", prediction.prefill), ("decode", prediction.decode))
        for kernel in passed.kernels
    ]
    kernels = [(heading, cell) for heading, cell in kernels if isinstance(cell, Cell)]
    times = [cell for _, cell in kernels]
    roots = [*(answer.cell for answer in answers), *times]
    staged, steps = shared(roots, times, [answer.cell for answer in answers]), homes(roots)
    behind = [*((steps[id(cell)], cell) for cell in staged), *kernels]
    first = len(CHOICES) + len(answers)
    places: dict[int, str] = {}
    for place, (_, cell) in enumerate(behind):
        places.setdefault(id(cell), address(None, first + place))
    for place, answer in enumerate(answers):
        if isinstance(answer.cell, Cell) and place == 0:
            places.setdefault(id(answer.cell), address(None, len(CHOICES) + place))

    for column, name in enumerate(CHOICES):
        sheet.text(0, column, name, "head")
        sheet.sheet.write_comment(0, column, CHOICE_NOTES[name])
        for line in range(count):
            known = contents.scenarios[line][name] if line < len(contents.scenarios) else None
            sheet.value(1 + line, column, known, "input")
    columns = [(len(CHOICES) + place, answer.cell, answer.style) for place, answer in enumerate(answers)]
    columns += [(first + place, cell, "small") for place, (_, cell) in enumerate(behind)]
    for (column, _, _), heading in zip(
        columns, [*(answer.heading for answer in answers), *(heading for heading, _ in behind)], strict=True
    ):
        sheet.text(0, column, heading, "head")
    sheet.rows(1, columns, places, count)
    _offer(sheet, count)
    sheet.sheet.set_row(0, _HEAD)
    sheet.head(1, 2, (count, first))
    sheet.widen(0, 1, 18)
    sheet.widen(2, first - 1, 11)
    sheet.widen(len(CHOICES), len(CHOICES), 30)
    sheet.widen(first, first + len(behind) - 1, 11, folded=True)


def _answers(case: LookupCase, slo: Mapping[str, Any]) -> Iterator[_Answer]:
    prediction = case.prediction
    reason = where(case.is_asked, case.reason, "")
    yield _Answer("reason", reason, "general")
    ok = case.is_asked & (reason == "")

    def shown(cell: Any) -> Any:
        return where(ok, cell, "")

    several: Any = prediction.workload.osl > 1.0
    step: Any = prediction.tpot
    yield _Answer("TTFT [ms]", shown(named("time", prediction.ttft) / MILLI), "result")
    yield _Answer("TPOT [ms]", shown(where(several, named("time", step) / MILLI, "")), "result")
    yield _Answer("E2EL [ms]", shown(prediction.e2el / MILLI), "number")
    yield _Answer("tok/s/user", shown(where(several, prediction.tok_s_user, "")), "number")
    yield _Answer("output tok/s", shown(prediction.output_tok_s), "number")
    yield _Answer("tok/s/GPU", shown(prediction.output_tok_s_gpu), "number")
    yield _Answer("GPUs", shown(prediction.deployment.num_gpus), "whole")
    yield _Answer("weights [GB/GPU]", shown(prediction.memory.weights / GIGA), "number")
    used = where(case.is_asked, where(case.impossible == "", prediction.memory.used_fraction, ""), "")
    yield _Answer("HBM used", used, "share")
    length = prediction.workload.isl + prediction.workload.osl
    yield _Answer("largest batch", shown(largest_batch(prediction.deployment, length)), "whole")
    hourly: Any = prediction.usd_per_hour
    per_token = prediction.usd_per_m_output_tok
    yield _Answer("USD/h", shown(where(hourly > 0, hourly, "")), "number")
    yield _Answer("USD/M output tok", shown(where(hourly > 0, per_token, "")), "number")
    has_limit = reduce(maximum, (where(limit < INFINITE, 1, 0) for limit in slo.values()))
    within = central_verdict(case, slo)
    yield _Answer("SLO", shown(where(has_limit > 0, within, "")), "general")
    yield _Answer("note", shown(case.note), "general")


def _column(contents: Contents, name: str) -> Any:
    """A choice in all rows; blanks are empty texts, or NaN among numbers."""
    known = [row[name] for row in contents.scenarios]
    if name in TEXTS:
        return np.array([*known, *[""] * contents.spare], dtype=object)
    return np.array([*known, *[float("nan")] * contents.spare], dtype=float)


def _offer(sheet: Sheet, count: int) -> None:
    for column, name in enumerate(CHOICES):
        if name in OFFERED:
            sheet.choices(1, count, column, OFFERED[name], strict=name in TEXTS)
