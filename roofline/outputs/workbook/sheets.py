"""A sizing workbook whose cells are the formulas of a prediction: one case in full, and a row for each of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roofline.numbers.operations import where
from roofline.numbers.quantity import BILLION, GIGA, HOUR, MILLI, MONTH
from roofline.outputs.workbook.answer import (
    Figure,
    colour_words,
    figures_of,
    range_figures,
    write_answer,
    write_details,
    write_engine,
)
from roofline.outputs.workbook.case import (
    CHOICE_NOTES,
    CHOICES,
    TEXTS,
    Contents,
    LookupCase,
    Trial,
    Trials,
    at_batches,
    case_inputs,
    curve_point,
    knees_of,
    limits,
    lookup_case,
    name_of,
    one_trial,
)
from roofline.outputs.workbook.catalogs import write_notes, write_tables
from roofline.outputs.workbook.cells import Cell, CellPool, homes, named, shared
from roofline.outputs.workbook.inputs import choice_rule, number_rule
from roofline.outputs.workbook.judged import NO_LIMIT, words_on
from roofline.outputs.workbook.loads import asked_case, typed_loads
from roofline.outputs.workbook.planning import Answered, pair_formulas, write_fleet, write_summary
from roofline.outputs.workbook.plans import PlannedAnswer, write_plans
from roofline.outputs.workbook.rounds import Rounds, placed, write_rounds
from roofline.outputs.workbook.tables import (
    COLLECTIVE,
    EFFICIENCY,
    joined,
)
from roofline.outputs.workbook.typed import FORMS
from roofline.outputs.workbook.writer import Book, Sheet, address
from roofline.physics.equation import Kernel, Roof
from roofline.physics.memory import largest_batch
from roofline.serving.prediction import Prediction
from roofline.specs.gpu import HOST
from roofline.specs.workload import OF_REQUESTS as SLO_KEYS
from roofline.support.records import NamedTuple

# The answer of a workbook: one case with every kernel, look-up and trial row behind its answer.

_FAR = 22  # column of the first formula behind the curves
_TALL, _WIDE = 16, 7  # rows and columns of a chart
_INK = "#0072B2"
_GRID = {"visible": True, "line": {"color": "#E0E0E0", "width": 0.75}}
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_PROMPTS = tuple(2**power for power in range(7, 17))


#: Sheets that people read, in order, with the colour of their tab; then the sheets behind them.
READ = {
    **dict.fromkeys(("Answer", "Fleet", "Summary", "Scenarios", "Curves", "Details"), "#2E7D32"),
    **dict.fromkeys(("GPUs", "Models", "Engine", "About"), "#1565C0"),
    "Behind": "#9E9E9E",
}
BEHIND = ("Sources", "Kernels", "Lookups", "Rounds", "Knees", "Stages", "Formats", "Efficiency", "Read", "Pairs")
SHEETS = (*READ, *BEHIND)


def write_answers(book: Book, sheets: Mapping[str, Sheet], contents: Contents, start: Prediction) -> None:
    """Write the sheets Answer, Details, Engine, Kernels, Lookups, Rounds, Knees and Curves."""
    pool = CellPool()
    cells = {name: pool.input(name_of(name), contents.case[name]) for name in CHOICES}
    typed = typed_loads(contents, pool)
    case = lookup_case(contents.catalog, case_inputs(contents, pool, cells)._replace(loads=typed))
    slo = limits(contents, pool)
    rows = list(kernel_lines(case))
    lines = {name: 2 + place for place, name in enumerate(Trial._fields)}
    trials = Trials(
        case,
        lambda batch: one_trial(start, batch, contents.slo),
        lambda place, name: address(lines[name], 1 + place, "Knees"),
    )
    knees = knees_of(trials)  # before loops become rows: they have rows of their own
    rounds = Rounds("Rounds")
    asked = asked_case(contents, case, typed, rounds)
    results = list(figures_of(asked, asked.words(typed), knees))
    for result in results:
        result.name_cell()
    asked_at = pool.input("batch of a trial", np.array([_plain(batch) for batch in trials.batches]))
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
    roots = [*shown, *trials.batches, *(cell for row in rows for cell in row.cells), *rounds.roots]
    staged = shared(roots, known, shown, [asked_at, batches, prompts, *rounds.rows])
    steps = homes(roots)
    of_rows = asked_at.reach | batches.reach | prompts.reach | sum(cell.reach for cell in rounds.rows)
    of_trial = [cell for cell in staged if cell.reach & asked_at.reach]
    of_curve = [cell for cell in staged if cell.reach & (batches.reach | prompts.reach)]
    looked_up = [cell for cell in staged if not cell.reach & of_rows]
    places |= {id(asked_at): _own_column(1), id(batches): address(None, 0), id(prompts): address(None, 1)}
    places |= {id(cell): _own_column(2 + len(trial) + place) for place, cell in enumerate(of_trial)}
    places |= {id(cell): address(None, _FAR + place) for place, cell in enumerate(of_curve)}
    places |= {id(cell): address(1 + place, 1, "Lookups") for place, cell in enumerate(looked_up)}
    places |= placed(rounds, staged)

    write_answer(book, sheets["Answer"], contents, write_details(sheets["Details"], results, places))
    write_engine(book, sheets["Engine"], contents)
    _write_kernels(sheets["Kernels"], rows, places)
    _write_lookups(sheets["Lookups"], looked_up, places, steps)
    _write_knees(sheets["Knees"], trials, [*trial, *of_trial], places, steps)
    write_rounds(sheets["Rounds"], rounds, staged, places, steps)
    _write_curves(book, sheets["Curves"], [*drawn, *of_curve], places, steps, start)


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


def _own_column(row: int) -> str:
    """Address of a cell of the same trial."""
    return f"\0${row + 1}"


def _write_knees(
    sheet: Sheet, trials: Trials, cells: Sequence[Any], places: Mapping[int, str], steps: Mapping[int, str]
) -> None:
    """Write a column for each trial.

    So its formulas can be shared: LibreOffice calculates those of a column together, and a trial follows from others.
    """
    headings = ("trial", "batch", "decode step [s]", "weights' compute [s]", "weights' memory [s]", "share of the SLO")
    for line, heading in enumerate((*headings, *(steps[id(cell)] for cell in cells[len(headings) - 2 :]))):
        sheet.text(line, 0, heading)
    for place, batch in enumerate(trials.batches, 1):
        sheet.value(0, place, place, "bold")
        sheet.cell(1, place, batch, places, "number")
    rows = [(2 + place, cell, "small") for place, cell in enumerate(cells)]
    sheet.across(1, rows, places, len(trials.batches))
    sheet.head(2, 1)
    sheet.widen(0, 0, 22)
    sheet.widen(1, len(trials.batches), 12)


def _write_curves(
    book: Book,
    sheet: Sheet,
    cells: Sequence[Any],
    places: Mapping[int, str],
    steps: Mapping[int, str],
    start: Prediction,
) -> None:
    """Four charts and their points, whose formulas stand far to the right."""
    sheet.texts(0, ("batch", "isl [tokens]", "TTFT [ms]", "TPOT [ms]"))
    sheet.texts(0, (steps[id(cell)] for cell in cells[2:]), first=_FAR)
    points = [values for _, values in _curve_points(start)]
    for line, (batch, isl) in enumerate(zip(*points, strict=True), 1):
        varies, name, value = (0, "isl", isl) if line <= len(_BATCHES) else (1, "batch", batch)
        sheet.value(line, varies, batch if varies == 0 else isl, "input")
        sheet.formula(line, 1 - varies, FORMS["read count"].pattern.format(name_of(name)), value)
    first, last = len(_BATCHES), len(points[0])
    for column, name, begin, end in ((0, "batch", 1, first), (1, "isl", first + 1, last)):
        sheet.rule(begin, end, column, number_rule(name, f"A {name} to draw, a number of at least 1.", 1, BILLION))
    columns = [(place if place < 4 else _FAR - 4 + place, cell) for place, cell in enumerate(cells, 2)]
    sheet.rows(1, [(column, cell, "number" if column < 4 else "small") for column, cell in columns], places, last)
    sheet.head(1, 2)
    sheet.widen(0, 3, 12)
    sheet.widen(_FAR, _FAR + len(cells) - 2, 12, folded=True)
    for place, (label, title, column, begin, end) in enumerate((
        ("batch [sequences]", "batch", 0, 1, first), ("isl [tokens]", "prompt length", 1, first + 1, last),
    )):  # fmt: skip
        for values, name in ((2, "TTFT [ms]"), (3, "TPOT [ms]")):
            chart = _chart(book, f"{name[:4]} against {title}", (label, name), (column, begin, end), values)
            sheet.sheet.insert_chart(1 + place * _TALL, 5 + (values - 2) * _WIDE, chart)
    sheet.prints(2 + 2 * _TALL, 5 + 2 * _WIDE, pages=1)


def _chart(book: Book, title: str, axes: tuple[str, str], points: tuple[int, int, int], values: int) -> Any:
    """One figure against one input: a line with markers."""
    column, begin, end = points
    chart = book.book.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
    chart.add_series(
        {
            "name": axes[1],
            "categories": ["Curves", begin, column, end, column],
            "values": ["Curves", begin, values, end, values],
            "line": {"color": _INK, "width": 2},
            "marker": {"type": "circle", "size": 5, "fill": {"color": _INK}, "border": {"color": _INK}},
        }
    )
    chart.set_x_axis({"name": axes[0], "log_base": 2, "num_format": "#,##0", "major_gridlines": _GRID})
    chart.set_y_axis({"name": axes[1], "num_format": "#,##0.##", "min": 0, "major_gridlines": _GRID})
    chart.set_title({"name": title, "name_font": {"size": 12}})
    chart.set_legend({"none": True})
    chart.set_size({"width": 436, "height": 300})
    return chart


# The sheet Scenarios: a row for each case, with its own look-ups, kernels and answer.


#: Widths of the choices [characters].
_WIDTHS = (18, 13, 12, 14, 5, 5, 5, 5, 8, 7, 7, 7, 7, 10)
_PRINTED = {
    "reason": 18,
    "SLO": 7,
    "TTFT [ms]": 9,
    "TPOT [ms]": 9,
    "GPUs": 7,
    "USD/month": 11,
    "USD/M output tok": 9,
    "HBM used": 7,
}  # widths of the answers that are printed, which come first


def write_scenarios(sheet: Sheet, pairs: Sheet, contents: Contents) -> tuple[Answered, Answered]:
    """Write a row for each scenario, and one for each GPU behind Fleet, with the same formulas.

    Returns the answers of both sheets.
    """
    count, others = len(contents.scenarios) + contents.spare, len(contents.catalog.gpus.rows)
    pool = CellPool()
    cells = {name: pool.input(address(None, place), _column(contents, name)) for place, name in enumerate(CHOICES)}
    case = lookup_case(contents.catalog, case_inputs(contents, pool, cells))
    answers = list(_answers(case))
    for answer in answers:
        answer.name_cell()
    key = named("key", where(case.is_asked, joined(case.choices["model"], *_after(case)), ""))
    roots = [*(answer.cell for answer in answers), key]
    staged, steps = shared(roots, shown=[answer.cell for answer in answers]), homes(roots)
    behind = [*((steps[id(cell)], cell) for cell in staged), ("key", key)]
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
    sheet.rows(1, columns, places, count, total=count + others)
    for column, name in enumerate(CHOICES):
        pairs.text(0, column, name, "head")
    for line, formulas in enumerate(pair_formulas(others)):
        for column, (cell, formula) in enumerate(zip(cells.values(), formulas, strict=True)):
            pairs.formula(1 + line, column, formula, _shown(cell.value[count + line]))
    pairs.texts(0, headings, first=len(CHOICES))
    pairs.rows(1, columns, places, others, total=count + others, start=count)
    pairs.head(1, 2)
    for column, name in enumerate(CHOICES):
        sheet.rule(1, count, column, choice_rule(name))
    sheet.head(1, 2, (count, first))
    verdicts = len(CHOICES) + list(_PRINTED).index("SLO")
    colour_words(sheet, (1, verdicts, count, verdicts))
    sheet.prints(1 + count, len(CHOICES) + len(_PRINTED))
    for column, width in enumerate(_WIDTHS):
        sheet.widen(column, column, width)
    sheet.widen(len(CHOICES), first - 1, 9)
    for column, width in enumerate(_PRINTED.values(), len(CHOICES)):
        sheet.widen(column, column, width)
    sheet.widen(first, first + len(behind) - 1, 11, folded=True)
    at = {answer.label: len(CHOICES) + place for place, answer in enumerate(answers)}
    at["key"] = first + len(behind) - 1
    held = {answer.label: _values(answer.cell, count + others) for answer in answers}
    held["key"] = _values(key, count + others)
    return (
        Answered(sheet.name, at, {label: values[:count] for label, values in held.items()}),
        Answered(pairs.name, at, {label: values[count:] for label, values in held.items()}),
    )


def _after(case: LookupCase) -> Iterator[Any]:
    """What follows the model in the key of a scenario."""
    for name in ("gpu", "quantization", "isl", "osl", "batch"):
        yield "|"
        yield case.choices[name]


def _shown(value: Any) -> Any:
    """A choice as a sheet shows it."""
    return "" if isinstance(value, float) and np.isnan(value) else value


def _values(cell: Any, count: int) -> list[Any]:
    values = cell.value if isinstance(cell, Cell) else cell
    return list(np.broadcast_to(np.asarray(values).reshape(-1), (count,)).tolist())


def _answers(case: LookupCase) -> Iterator[Figure]:
    prediction = case.prediction
    reason = where(case.is_asked, case.reason, "")
    yield Figure("reason", reason, "general")
    ok = case.is_asked & (reason == "")

    def shown(cell: Any) -> Any:
        return where(ok, cell, "")

    several: Any = prediction.workload.osl > 1.0
    step: Any = prediction.tpot
    word, why = words_on(prediction, SLO_KEYS)
    hourly: Any = prediction.usd_per_hour
    per_token = prediction.usd_per_m_output_tok
    is_priced = hourly > 0
    used = where(case.is_asked, where(case.impossible == "", prediction.memory.used_fraction, ""), "")
    length = prediction.workload.isl + prediction.workload.osl
    yield Figure("SLO", shown(where(word == NO_LIMIT, "", word)), "word")
    yield Figure("TTFT [ms]", shown(named("time", prediction.ttft) / MILLI), "result")
    yield Figure("TPOT [ms]", shown(where(several, named("time", step) / MILLI, "")), "result")
    yield Figure("GPUs", shown(prediction.deployment.num_gpus), "whole")
    yield Figure("USD/month", shown(where(is_priced, hourly * (MONTH / HOUR), "")), "money")
    yield Figure("USD/M output tok", shown(where(is_priced, per_token, "")), "number")
    yield Figure("HBM used", used, "share")
    yield Figure("E2EL [ms]", shown(prediction.e2el / MILLI), "number")
    yield Figure("tok/s/user", shown(where(several, prediction.tok_s_user, "")), "number")
    yield Figure("output tok/s", shown(prediction.output_tok_s), "number")
    yield Figure("tok/s/GPU", shown(prediction.output_tok_s_gpu), "number")
    yield Figure("weights [GB/GPU]", shown(prediction.memory.weights / GIGA), "number")
    yield Figure("largest batch", shown(largest_batch(prediction.deployment, length)), "whole")
    yield Figure("USD/h", shown(where(is_priced, hourly, "")), "number")
    yield from range_figures(lambda metric, read: shown(read(prediction, metric)), several, in_words=False)
    yield Figure("SLO reason", shown(why), "general")
    yield Figure("note", shown(case.note), "general")


def _column(contents: Contents, name: str) -> Any:
    """A choice in all rows, those behind Fleet included; blanks are empty texts, or NaN among numbers."""
    known: list[Any] = [row[name] for row in contents.scenarios]
    gpus = [row[0] for row in contents.catalog.gpus.rows]
    alone: dict[str, Any] = {**contents.case, **dict.fromkeys(("pp", "ep", "dp", "replicas"), 1.0), "tp": float("nan")}
    behind = gpus if name == "gpu" else [alone[name]] * len(gpus)
    blank = "" if name in TEXTS else float("nan")
    return np.array([*known, *[blank] * contents.spare, *behind], dtype=object if name in TEXTS else float)


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
_LINK = (
    "link [B/s]", "ranks", "least share", "doublings", "a0 [s]", "a1 [s]", "a2 [s]", "q [s]", "eta", "eta_switch",
    "sigma of the link",
)  # fmt: skip

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


def write_workbook(path: Path, contents: Contents, start: Prediction, planned: PlannedAnswer | None = None) -> None:
    """Write a workbook; with an answer of `plan` its first sheet is Plans."""
    book = Book(path, "Sizing of LLM inference")
    ranked = {} if planned is None else {"Plans": book.sheet("Plans", READ["Answer"])}
    sheets = {name: book.sheet(name, colour) for name, colour in READ.items()}
    sheets |= {name: book.sheet(name, READ["Behind"], is_read=False) for name in BEHIND}
    if planned is not None:
        write_plans(book, ranked["Plans"], book.sheet("Planned", READ["Behind"], is_read=False), planned)
    write_tables(book, sheets, contents.catalog)
    write_answers(book, sheets, contents, start)
    scenarios, pairs = write_scenarios(sheets["Scenarios"], sheets["Pairs"], contents)
    write_fleet(book, sheets["Fleet"], contents, pairs)
    write_summary(book, sheets["Summary"], contents, scenarios)
    write_notes(sheets, contents)
    book.close()
