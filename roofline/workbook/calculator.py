"""The calculator of a workbook: one case with every kernel, look-up and trial row behind its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from roofline.formulas.inputs import HOST_TIMES
from roofline.ops import where
from roofline.quantity import GIGA, MILLI
from roofline.records import NamedTuple
from roofline.serving.prediction import Prediction
from roofline.specs.slo import LATENCIES as SLO_KEYS
from roofline.workbook.case import CENTRAL_NOTE, CHOICES, LookupCase, central_verdict, lookup_case
from roofline.workbook.cell import INFINITE, Cell, CellPool, named, scope
from roofline.workbook.cell_text import homes, shared
from roofline.workbook.inputs import CHOICE_NOTES, OFFERED, TEXTS, Contents, case_inputs, limits, name_of, times_shown
from roofline.workbook.kernels import HEADINGS, KNOWN, ROOF, SAME_ROW, SUMMED, TIME, USES, KernelRow, kernel_lines
from roofline.workbook.trials import Trial, Trials, at_batches, curve_point, knees_of, one_trial
from roofline.workbook.writer import Book, Sheet, address

_FIRST = 3  # row of the first input and of the first result
_VALUE, _LABEL, _RESULT = 1, 4, 5  # columns
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_PROMPTS = tuple(2**power for power in range(7, 17))


class _Result(NamedTuple):
    """One line of the answer."""

    label: str
    cell: Any
    style: str
    note: str = ""


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
        named(result.label.partition(" [")[0], result.cell)
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
    for column, heading in enumerate(HEADINGS):
        sheet.text(0, column, heading, "head")
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
    sheet.text(0, 0, "step", "head")
    sheet.text(0, 1, "value", "head")
    sheet.text(
        0,
        2,
        "Intermediate values shared by several formulas; step names the part of the answer that uses each first.",
        "note",
    )
    for line, cell in enumerate(cells, 1):
        sheet.text(line, 0, steps[id(cell)])
        sheet.cell(line, 1, cell, places)
    sheet.widen(0, 1, 26)


def _write_knees(
    sheet: Sheet, trials: Trials, cells: Sequence[Any], places: Mapping[int, str], steps: Mapping[int, str]
) -> None:
    headings = ("trial", "batch", "decode step [s]", "weights' compute [s]", "weights' memory [s]", "share of the SLO")
    for column, heading in enumerate(headings):
        sheet.text(0, column, heading, "head")
    for line, batch in enumerate(trials.batches, 1):
        sheet.value(line, 0, line)
        sheet.cell(line, 1, batch, places, "number")
    columns = [(2 + place, cell, "small") for place, cell in enumerate(cells)]
    for column, cell, _ in columns[len(headings) - 2 :]:
        sheet.text(0, column, steps[id(cell)], "head")
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
    for column, heading in enumerate(("batch", "isl [tokens]", "TTFT [ms]", "TPOT [ms]")):
        sheet.text(0, column, heading, "head")
    points = [values for _, values in _curve_points(start)]
    for line, (batch, isl) in enumerate(zip(*points, strict=True), 1):
        varies_batch = line <= len(_BATCHES)
        if varies_batch:
            sheet.value(line, 0, batch, "input")
            sheet.formula(line, 1, name_of("isl"), isl)
        else:
            sheet.formula(line, 0, name_of("batch"), batch)
            sheet.value(line, 1, isl, "input")
    columns = [(2 + place, cell, "number" if place < 2 else "small") for place, cell in enumerate(cells)]
    for column, cell, _ in columns[2:]:
        sheet.text(0, column, steps[id(cell)], "head")
    sheet.rows(1, columns, places, len(points[0]), share=False)
    sheet.head(1, 2)
    sheet.widen(0, len(cells) + 1, 12)
    first, last = len(_BATCHES), len(_BATCHES) + len(_PROMPTS)
    for place, (label, column, begin, end) in enumerate(
        (("batch [sequences]", 0, 1, first), ("isl [tokens]", 1, first + 1, last))
    ):
        _chart(book, sheets["Calculator"], label, (column, begin, end), _FIRST + 17 * place)


def _chart(book: Book, sheet: Sheet, label: str, points: tuple[int, int, int], row: int) -> None:
    column, begin, end = points
    chart = book.book.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
    for name, values, second in (("TTFT [ms]", 2, False), ("TPOT [ms]", 3, True)):
        chart.add_series(
            {
                "name": name,
                "categories": ["Curves", begin, column, end, column],
                "values": ["Curves", begin, values, end, values],
                "y2_axis": second,
            }
        )
    chart.set_x_axis({"name": label, "log_base": 2})
    chart.set_y_axis({"name": "TTFT [ms]"})
    chart.set_y2_axis({"name": "TPOT [ms]"})
    chart.set_title({"name": f"TTFT and TPOT against {label.split(maxsplit=1)[0]}"})
    sheet.sheet.insert_chart(row, _RESULT + 3, chart)
