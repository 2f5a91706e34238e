"""A sizing workbook whose cells are the formulas of a prediction: one case in full, and a row for each of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from roofline.formulas.case import HOST_TIMES
from roofline.numbers.operations import maximum, where
from roofline.numbers.quantity import GIGA, MILLI
from roofline.outputs.workbook.case import (
    CENTRAL_NOTE,
    CHOICE_NOTES,
    CHOICES,
    OFFERED,
    TEXTS,
    Contents,
    LookupCase,
    Trial,
    Trials,
    at_batches,
    case_inputs,
    central_verdict,
    curve_point,
    knees_of,
    limits,
    lookup_case,
    name_of,
    one_trial,
    times_shown,
)
from roofline.outputs.workbook.catalogs import write_notes, write_tables
from roofline.outputs.workbook.cells import INFINITE, Cell, CellPool, homes, named, scope, shared, unmarked
from roofline.outputs.workbook.tables import (
    COLLECTIVE,
    EFFICIENCY,
)
from roofline.outputs.workbook.writer import Book, Sheet, address
from roofline.physics.equation import Kernel, Roof
from roofline.physics.memory import largest_batch
from roofline.serving.prediction import Prediction
from roofline.specs.gpu import HOST
from roofline.specs.workload import OF_REQUESTS as SLO_KEYS
from roofline.support.records import NamedTuple

# The calculator of a workbook: one case with every kernel, look-up and trial row behind its answer.

_FIRST = 3  # row of the first input and of the first result
_VALUE, _LABEL, _RESULT = 1, 4, 5  # columns
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_PROMPTS = tuple(2**power for power in range(7, 17))


#: Sheets in order.
SHEETS = (
    "Calculator", "Scenarios", "Kernels", "Curves", "GPUs", "Models", "Sources", "About",
    "Lookups", "Knees", "Stages", "Formats", "Efficiency", "Read",
)  # fmt: skip


class _Result(NamedTuple):
    """One line of the answer, or one column of a scenario's."""

    label: str
    cell: Any
    style: str
    note: str = ""

    def name_cell(self) -> None:
        named(self.label.partition(" [")[0], self.cell)


def write_calculator(book: Book, sheets: Mapping[str, Sheet], contents: Contents, start: Prediction) -> None:
    """Write the sheets Calculator, Kernels, Lookups, Knees and Curves."""
    pool = CellPool()
    cells = {name: pool.input(name_of(name), np.array([contents.case[name]])) for name in CHOICES}
    case = lookup_case(contents.catalog, case_inputs(contents, pool, cells))
    slo = limits(contents, pool)
    rows = list(kernel_lines(case))
    columns = {name: 2 + place for place, name in enumerate(Trial._fields)}
    trials = Trials(
        case,
        lambda batch: one_trial(start, batch, contents.slo),
        lambda line, name: address(1 + line, columns[name], "Knees"),
    )
    results = [*_results(case, trials), *_within(case, slo)]
    for result in results:
        result.name_cell()
    asked_at = pool.input(address(None, 1, "Knees"), np.array([_plain(batch) for batch in trials.batches]))
    trial = at_batches(case, asked_at, slo)
    batches, prompts = (
        pool.input(address(None, column, "Curves"), np.array(values)) for column, values in _curve_points(start)
    )
    bent = curve_point(case, batches, prompts)
    drawn = [
        named(name, where(bent.fits, time / MILLI, float("nan")))
        for name, time in (("TTFT", bent.ttft), ("TPOT", bent.tpot))
    ]

    places, known, taken = _kernel_places(rows)
    shown = [*(result.cell for result in results), *trial, *drawn, *taken]
    roots = [*shown, *trials.batches, *(cell for row in rows for cell in row.cells)]
    staged = shared(roots, known, shown, [asked_at, batches, prompts])
    steps = homes(roots)
    of_trial = [cell for cell in staged if cell.reach & asked_at.reach]
    of_curve = [cell for cell in staged if cell.reach & (batches.reach | prompts.reach)]
    looked_up = [cell for cell in staged if not cell.reach & (asked_at.reach | batches.reach | prompts.reach)]
    places |= {id(asked_at): address(None, 1), id(batches): address(None, 0), id(prompts): address(None, 1)}
    places |= {id(cell): address(None, 2 + len(trial) + place) for place, cell in enumerate(of_trial)}
    places |= {id(cell): address(None, 4 + place) for place, cell in enumerate(of_curve)}
    places |= {id(cell): address(1 + place, 1, "Lookups") for place, cell in enumerate(looked_up)}

    _write_inputs(book, sheets["Calculator"], contents)
    _write_results(sheets["Calculator"], results, places)
    _write_kernels(sheets["Kernels"], rows, places)
    _write_lookups(sheets["Lookups"], looked_up, places, steps)
    _write_knees(sheets["Knees"], trials, [*trial, *of_trial], places, steps)
    _write_curves(book, sheets, [*drawn, *of_curve], places, steps, start)


def _results(case: LookupCase, trials: Trials) -> Iterator[_Result]:
    prediction, memory = case.prediction, case.prediction.memory
    ok = case.reason == ""

    def shown(cell: Any) -> Any:
        return where(ok, cell, "")

    def held(cell: Any) -> Any:
        return where(case.impossible == "", cell, "")

    def finite(cell: Any) -> Any:
        return where(ok, where(cell < INFINITE, cell, "none"), "")

    several: Any = prediction.workload.osl > 1.0
    step: Any = prediction.tpot
    ideal = prediction.ideal
    yield _Result("answer", where(ok, "ok", case.reason), "word")
    yield _Result("note", shown(case.note), "word", "where the case is beyond the timed kernels")
    yield _Result("TTFT [ms]", shown(prediction.ttft / MILLI), "result", "time to first token")
    yield _Result(
        "TPOT [ms]", shown(where(several, step / MILLI, "")), "result", "time per output token after the first"
    )
    yield _Result("E2EL [ms]", shown(prediction.e2el / MILLI), "result", "request until last token")
    yield _Result("tok/s/user", shown(where(several, prediction.tok_s_user, "")), "result", "one user, while decoding")
    yield _Result("output tok/s", shown(prediction.output_tok_s), "result", "of all replicas")
    yield _Result("output tok/s/GPU", shown(prediction.output_tok_s_gpu), "result")
    yield _Result("prefill bound", shown(named("bound", prediction.prefill.bound)), "word")
    yield _Result("decode bound", shown(where(several, named("bound", prediction.decode.bound), "")), "word")
    yield _Result("TTFT, hardware limit [ms]", shown(ideal[0].time / MILLI), "number", "full rates, no host")
    yield _Result("TPOT, hardware limit [ms]", shown(where(several, ideal[1].time / MILLI, "")), "number")
    yield _Result("GPUs", shown(prediction.deployment.num_gpus), "whole", "of all replicas")
    yield _Result("weights [GB/GPU]", held(memory.weights / GIGA), "number")
    yield _Result("KV cache [GB/GPU]", held(memory.kv_cache / GIGA), "number")
    yield _Result("activations [GB/GPU]", held(memory.activations / GIGA), "number")
    yield _Result("reserve [GB/GPU]", held(memory.reserve / GIGA), "number")
    yield _Result("HBM used", held(memory.used_fraction), "share", "of the usable memory")
    yield _Result("fits", held(where(memory.fits, "yes", "no")), "word")
    knees = knees_of(trials)
    with scope("smallest"):
        smallest, name = knees.smallest
    yield _Result("knee [sequences]", shown(smallest), "number", "batch beyond which decode stops being cheap")
    yield _Result("knee set by", shown(name), "word")
    yield _Result("ridge knee", finite(knees.ridge), "number", "weights turn compute-bound")
    yield _Result("half knee", finite(knees.half), "number", "half of the peak throughput")
    yield _Result("memory knee", shown(knees.memory), "whole", "largest batch that fits")
    yield _Result("SLO knee", shown(knees.slo), "whole", "largest batch that fits and meets the limits")
    hourly: Any = prediction.usd_per_hour
    per_token = prediction.usd_per_m_output_tok
    priced = hourly > 0
    yield _Result("USD/h", shown(where(priced, hourly, "no price")), "number", "typical price of all GPUs")
    yield _Result("USD/M output tok", shown(where(priced, per_token, "no price")), "result", "at full utilisation")


def _within(case: LookupCase, slo: Mapping[str, Any]) -> Iterator[_Result]:
    """Whether each limit is met."""
    ok = case.reason == ""
    for key in SLO_KEYS:
        verdict = where(slo[key] < INFINITE, central_verdict(case, {key: slo[key]}), "no limit")
        yield _Result(f"SLO {key.upper()}", where(ok, verdict, ""), "word", CENTRAL_NOTE)


def _plain(batch: Any) -> float:
    return float(np.ravel(batch.value)[0]) if isinstance(batch, Cell) else float(batch)


def _curve_points(start: Prediction) -> tuple[tuple[int, list[float]], tuple[int, list[float]]]:
    """Column and values of batches and prompts in the curves: first the batch varies, then the prompt."""
    batch, isl = start.workload.batch, start.workload.isl
    return (
        (0, [*map(float, _BATCHES), *[batch] * len(_PROMPTS)]),
        (1, [*[isl] * len(_BATCHES), *map(float, _PROMPTS)]),
    )


def _kernel_places(rows: Sequence[KernelRow]) -> tuple[dict[int, str], list[Cell], list[Cell]]:
    """Addresses on the sheet Kernels that any formula may use, the cells there, and the cells for their own row."""
    places: dict[int, str] = {}
    known: list[Cell] = []
    taken: list[Cell] = []
    for line, row in enumerate(rows, 1):
        for column, cell in enumerate(row.cells):
            if isinstance(cell, Cell) and HEADINGS[column] in KNOWN:
                places.setdefault(id(cell), address(line, column, "Kernels"))
                known.append(cell)
            elif isinstance(cell, Cell) and HEADINGS[column] not in ROOF:
                taken.append(cell)
    return places, known, taken


def _write_inputs(book: Book, sheet: Sheet, contents: Contents) -> None:
    sheet.text(0, 0, "roofline: how fast does this model run on this GPU?", "title")
    sheet.text(
        1, 0, "Change the yellow cells. Everything else is a formula; the sheet Kernels breaks the answer down.", "note"
    )
    lines = [(name, name, contents.case[name], note) for name, note in CHOICE_NOTES.items()]
    for key in SLO_KEYS:
        limit = contents.slo.get(key)
        known = None if limit is None else limit / MILLI
        lines.append((f"slo_{key}", f"SLO {key} [ms]", known, "upper limit; blank: none"))
    if contents.routing_skew is not None:
        lines.append(("routing", "routing skew", contents.routing_skew, "routing skew c; 0.66 as measured"))
    engine = contents.engine
    for name in times_shown(engine):
        note = f"{HOST_TIMES[name]} (engine {engine.name})"
        lines.append((name, f"{name} [ms]", getattr(engine, name) / MILLI, note))
    for line, (name, label, value, note) in enumerate(lines, _FIRST):
        sheet.text(line, 0, label)
        sheet.value(line, _VALUE, value, "input")
        sheet.text(line, _VALUE + 1, note, "note")
        book.define(name_of(name), address(line, _VALUE, "Calculator"))
        if name in OFFERED:
            sheet.choices(line, line, _VALUE, OFFERED[name], strict=name in TEXTS)
    sheet.widen(0, 0, 16)
    sheet.widen(_VALUE, _VALUE, 24)
    sheet.widen(_VALUE + 1, _VALUE + 1, 46)
    sheet.widen(_LABEL, _LABEL, 24)
    sheet.widen(_RESULT, _RESULT, 18)
    sheet.widen(_RESULT + 1, _RESULT + 1, 40)


def _write_results(sheet: Sheet, results: Sequence[_Result], places: Mapping[int, str]) -> None:
    for line, result in enumerate(results, _FIRST):
        sheet.text(line, _LABEL, result.label)
        sheet.cell(line, _RESULT, result.cell, places, result.style)
        sheet.text(line, _RESULT + 1, result.note, "note")
    last = _FIRST + len(results)
    for text, colour in (
        ("fail", "#F8CBAD"), ("fail?", "#F8CBAD"), ("no", "#F8CBAD"), ("pass?", "#C6E0B4"), ("yes", "#C6E0B4"),
    ):  # fmt: skip
        chosen = sheet.book.book.add_format({"bg_color": colour})
        sheet.sheet.conditional_format(
            _FIRST, _RESULT, last, _RESULT, {"type": "cell", "criteria": "==", "value": f'"{text}"', "format": chosen}
        )


def _write_kernels(sheet: Sheet, rows: Sequence[KernelRow], places: Mapping[int, str]) -> None:
    of_pass: dict[int, str] = {}
    sheet.texts(0, HEADINGS)
    for line, row in enumerate(rows, 1):
        in_row = {
            id(cell): address(line, column)
            for column, cell in enumerate(row.cells)
            if isinstance(cell, Cell) and HEADINGS[column] in SAME_ROW
        }
        for column, cell in enumerate(row.cells):
            if cell is None:
                continue
            around = {**places, **in_row} if HEADINGS[column] in USES else places
            if HEADINGS[column] in SUMMED:
                if row.is_total:
                    around = of_pass  # sums only the rows above
                else:
                    of_pass[id(cell)] = address(line, column)
            sheet.cell(line, column, cell, around, _kernel_style(HEADINGS[column], is_total=row.is_total))
        if row.is_total:
            of_pass = {}
    sheet.head(1, 2, (len(rows), len(HEADINGS)))
    sheet.widen(0, 0, 8)
    sheet.widen(1, 1, 30)
    sheet.widen(2, len(HEADINGS) - 1, 12)
    grey = sheet.book.book.add_format({"font_color": "#AAAAAA"})
    absent = {"type": "formula", "criteria": f'=AND(${_letter(TIME)}2=0,$A2<>"")', "format": grey}
    sheet.sheet.conditional_format(1, 0, len(rows), len(HEADINGS) - 1, absent)


def _letter(column: int) -> str:
    return address(0, column).split("$")[1]


def _kernel_style(heading: str, *, is_total: bool) -> str:
    if heading == "share":
        return "share"
    if heading in ("pass", "kernel", "kind", "bound"):
        return "bold" if is_total else "general"
    return "small"


def _write_lookups(sheet: Sheet, cells: Sequence[Cell], places: Mapping[int, str], steps: Mapping[int, str]) -> None:
    sheet.texts(0, ("step", "value"))
    note = "Intermediate values shared by several formulas; step names the part of the answer that uses each first."
    sheet.text(0, 2, note, "note")
    for line, cell in enumerate(cells, 1):
        sheet.text(line, 0, steps[id(cell)])
        sheet.cell(line, 1, cell, places)
    sheet.widen(0, 1, 26)


def _write_knees(
    sheet: Sheet, trials: Trials, cells: Sequence[Any], places: Mapping[int, str], steps: Mapping[int, str]
) -> None:
    headings = ("trial", "batch", "decode step [s]", "weights' compute [s]", "weights' memory [s]", "share of the SLO")
    sheet.texts(0, (*headings, *(steps[id(cell)] for cell in cells[len(headings) - 2 :])))
    for line, batch in enumerate(trials.batches, 1):
        sheet.value(line, 0, line)
        sheet.cell(line, 1, batch, places, "number")
    columns = [(2 + place, cell, "small") for place, cell in enumerate(cells)]
    sheet.rows(1, columns, places, len(trials.batches), share=False)
    sheet.head(1, 2)
    sheet.widen(0, len(cells) + 1, 12)


def _write_curves(
    book: Book,
    sheets: Mapping[str, Sheet],
    cells: Sequence[Any],
    places: Mapping[int, str],
    steps: Mapping[int, str],
    start: Prediction,
) -> None:
    """Rows of the curves, and the two charts on the calculator."""
    sheet = sheets["Curves"]
    sheet.texts(0, ("batch", "isl [tokens]", "TTFT [ms]", "TPOT [ms]", *(steps[id(cell)] for cell in cells[2:])))
    points = [values for _, values in _curve_points(start)]
    for line, (batch, isl) in enumerate(zip(*points, strict=True), 1):
        if line <= len(_BATCHES):
            sheet.value(line, 0, batch, "input")
            sheet.formula(line, 1, name_of("isl"), isl)
        else:
            sheet.formula(line, 0, name_of("batch"), batch)
            sheet.value(line, 1, isl, "input")
    columns = [(2 + place, cell, "number" if place < 2 else "small") for place, cell in enumerate(cells)]
    sheet.rows(1, columns, places, len(points[0]), share=False)
    sheet.head(1, 2)
    sheet.widen(0, len(cells) + 1, 12)
    first, last = len(_BATCHES), len(_BATCHES) + len(_PROMPTS)
    _chart(book, sheets["Calculator"], "batch [sequences]", (0, 1, first), _FIRST)
    _chart(book, sheets["Calculator"], "isl [tokens]", (1, first + 1, last), _FIRST + 17)


def _chart(book: Book, sheet: Sheet, label: str, points: tuple[int, int, int], row: int) -> None:
    column, begin, end = points
    chart = book.book.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
    places = ["Curves", begin, column, end, column]
    for name, values, second in (("TTFT [ms]", 2, False), ("TPOT [ms]", 3, True)):
        heights = ["Curves", begin, values, end, values]
        chart.add_series({"name": name, "categories": places, "values": heights, "y2_axis": second})
    chart.set_x_axis({"name": label, "log_base": 2})
    chart.set_y_axis({"name": "TTFT [ms]"})
    chart.set_y2_axis({"name": "TPOT [ms]"})
    chart.set_title({"name": f"TTFT and TPOT against {label.split(maxsplit=1)[0]}"})
    sheet.sheet.insert_chart(row, _RESULT + 3, chart)


# The sheet Scenarios: a row for each case, with its own look-ups, kernels and answer.

_HEAD = 32  # points: two lines of headings


def write_scenarios(sheet: Sheet, contents: Contents) -> None:
    count = len(contents.scenarios) + contents.spare
    pool = CellPool()
    cells = {name: pool.input(address(None, place), _column(contents, name)) for place, name in enumerate(CHOICES)}
    case = lookup_case(contents.catalog, case_inputs(contents, pool, cells))
    answers = list(_answers(case, limits(contents, pool)))
    for answer in answers:
        answer.name_cell()
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
    headings = [*(answer.label for answer in answers), *(heading for heading, _ in behind)]
    sheet.texts(0, headings, first=len(CHOICES))
    sheet.rows(1, columns, places, count)
    _offer(sheet, count)
    sheet.sheet.set_row(0, _HEAD)
    sheet.head(1, 2, (count, first))
    sheet.widen(0, 1, 18)
    sheet.widen(2, first - 1, 11)
    sheet.widen(len(CHOICES), len(CHOICES), 30)
    sheet.widen(first, first + len(behind) - 1, 11, folded=True)


def _answers(case: LookupCase, slo: Mapping[str, Any]) -> Iterator[_Result]:
    prediction = case.prediction
    reason = where(case.is_asked, case.reason, "")
    yield _Result("reason", reason, "general")
    ok = case.is_asked & (reason == "")

    def shown(cell: Any) -> Any:
        return where(ok, cell, "")

    several: Any = prediction.workload.osl > 1.0
    step: Any = prediction.tpot
    yield _Result("TTFT [ms]", shown(named("time", prediction.ttft) / MILLI), "result")
    yield _Result("TPOT [ms]", shown(where(several, named("time", step) / MILLI, "")), "result")
    yield _Result("E2EL [ms]", shown(prediction.e2el / MILLI), "number")
    yield _Result("tok/s/user", shown(where(several, prediction.tok_s_user, "")), "number")
    yield _Result("output tok/s", shown(prediction.output_tok_s), "number")
    yield _Result("tok/s/GPU", shown(prediction.output_tok_s_gpu), "number")
    yield _Result("GPUs", shown(prediction.deployment.num_gpus), "whole")
    yield _Result("weights [GB/GPU]", shown(prediction.memory.weights / GIGA), "number")
    used = where(case.is_asked, where(case.impossible == "", prediction.memory.used_fraction, ""), "")
    yield _Result("HBM used", used, "share")
    length = prediction.workload.isl + prediction.workload.osl
    yield _Result("largest batch", shown(largest_batch(prediction.deployment, length)), "whole")
    hourly: Any = prediction.usd_per_hour
    per_token = prediction.usd_per_m_output_tok
    yield _Result("USD/h", shown(where(hourly > 0, hourly, "")), "number")
    yield _Result("USD/M output tok", shown(where(hourly > 0, per_token, "")), "number")
    has_limit = reduce(maximum, (where(limit < INFINITE, 1, 0) for limit in slo.values()))
    within = central_verdict(case, slo)
    yield _Result("SLO", shown(where(has_limit > 0, within, "")), "general")
    yield _Result("note", shown(case.note), "general")


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


# Rows of the sheet Kernels: work, roof, terms and time of each kernel of a pass.

_ANSWER = (
    "pass", "kernel", "kind", "bound", "share", "time [s]", "runs", "hardware limit [s]", "one run [s]",
    "compute [s]", "memory [s]", "latency [s]", "exponentials [s]", "link [s]",
)  # fmt: skip
_WORK = (
    "FLOP", "weight bytes", "KV bytes", "activation bytes", "serial bytes", "exponentials", "depth",
    "serial depth", "items", "link bytes",
)  # fmt: skip
_CONSTANTS = tuple(name for name in EFFICIENCY if name != "t0_ep")  # t0 already depends on the plan
_ROOF = ("peak [FLOP/s]", "HBM [B/s]", "exp/s", *("t0 [s]" if name == "t0" else name for name in _CONSTANTS))
_LINK = ("link [B/s]", "ranks", "least share", "doublings", "a0 [s]", "a1 [s]", "a2 [s]", "q [s]", "eta", "eta_switch")

#: Columns of the sheet.
HEADINGS = (*_ANSWER, *_WORK, *_ROOF, *_LINK)
TIME = HEADINGS.index("time [s]")

_TERMS = ("one run [s]", "compute [s]", "memory [s]", "latency [s]", "exponentials [s]", "link [s]")

#: Columns with a sum; those that any formula may refer to; those that formulas of their row may refer to, and of these
#: the columns of the roof; columns whose formulas refer to others of their row.
SUMMED = frozenset({"time [s]", "hardware limit [s]"})
KNOWN = SUMMED | {"bound"}
SAME_ROW = frozenset({*_WORK, *_ROOF, *_LINK, *_TERMS, "runs"})
ROOF = frozenset({*_ROOF, *_LINK})
USES = frozenset({*_TERMS, "time [s]", "hardware limit [s]", "bound", "share"})


class KernelRow(NamedTuple):
    cells: tuple[Any, ...]
    is_total: bool = False


def kernel_lines(case: LookupCase) -> Iterator[KernelRow]:
    """Kernels of the prefill and of the mean decode step, each with a total."""
    prediction = case.prediction
    for name, passed, ideal in zip(
        ("prefill", "decode"), (prediction.prefill, prediction.decode), prediction.ideal, strict=True
    ):
        others = iter(ideal.kernels)
        for kernel in passed.kernels:
            other = None if kernel.kind is HOST else next(others)
            answer = (
                name, case.pool.text_formula(kernel.name), kernel.kind.name, named("bound", kernel.terms.bound),
                named("time", kernel.time) / named("time", passed.time),
                kernel.time, kernel.count, 0.0 if other is None else named("time", other.time), *_terms(kernel),
            )  # fmt: skip
            yield KernelRow((*answer, *kernel.work, *_roof(kernel)))
        total = (
            f"{name}, all", "", "", named("bound", passed.bound), 1.0, passed.time, None, named("time", ideal.time),
        )  # fmt: skip
        yield KernelRow((*total, *(None,) * (len(HEADINGS) - len(total))), is_total=True)


def _terms(kernel: Kernel) -> tuple[Any, ...]:
    terms = kernel.terms
    return terms.total, terms.compute, terms.memory, terms.latency, terms.exponentials, terms.link


def _roof(kernel: Kernel) -> tuple[Any, ...]:
    if kernel.kind is HOST:
        return (None,) * (len(_ROOF) + len(_LINK))
    under = kernel.roof
    if isinstance(under, Roof):
        constants = (getattr(under.efficiency, name) for name in _CONSTANTS)
        return under.peak, under.bandwidth, under.exp_rate, *constants, *(None,) * len(_LINK)
    constants = (getattr(under.efficiency, name) for name in COLLECTIVE)
    return (*(None,) * len(_ROOF), under.bandwidth, under.ranks, under.least, under.doublings, *constants)


def write_workbook(path: Path, contents: Contents, start: Prediction) -> None:
    book = Book(path)
    sheets = {name: book.sheet(name) for name in SHEETS}
    write_tables(book, sheets, contents.catalog)
    write_calculator(book, sheets, contents, start)
    write_scenarios(sheets["Scenarios"], contents)
    write_notes(sheets, contents)
    book.close()
