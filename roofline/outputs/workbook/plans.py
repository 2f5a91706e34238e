"""The sheet Plans: deployments as `roofline plan` ranked them, whose GPUs, costs and order follow from its cells.

Latencies and verdicts are values: the sheet Answer alone has rows for the rounds of a load.
What a plan takes and costs at another load, price or headroom are formulas of the sheet Planned, behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from roofline.numbers.operations import ceil, maximum, minimum, where
from roofline.numbers.quantity import BILLION, DAY, HOUR, MEGA, MONTH, rounded
from roofline.outputs.workbook.answer import colour_words
from roofline.outputs.workbook.cells import INFINITE, CellPool
from roofline.outputs.workbook.inputs import Input, number_rule, write_input
from roofline.outputs.workbook.tables import is_number, joined, rounded_to
from roofline.outputs.workbook.writer import Book, Sheet, address
from roofline.serving.verdict import LIKELY, NOT_KNOWN
from roofline.support.records import NamedTuple

PERCENT = 100.0
_FAR = 40  # column of the first formula that people do not read
_DIGITS = 9  # to which a number of replicas is rounded before it is rounded up
_LONGEST_MONTH = 31 * DAY / HOUR
_NO_PRICE = "no price"
_NONE = f"{INFINITE!r}".replace("e", "E")


class PoolOfPlan(NamedTuple):
    """Replicas of one kind: all of a plan, or one of its two pools."""

    gpu: str
    plan: str  # of a replica
    quantization: str
    num_gpus: float  # of a replica
    replicas: float


class PlannedRow(NamedTuple):
    """A deployment as it was planned."""

    case: int  # place of its case
    pools: tuple[PoolOfPlan, ...]
    times: tuple[tuple[float | None, float | None, float | None], ...]  # latencies with the ends of their ranges [ms]
    verdict: str | None
    meets: bool
    binding: str
    remark: str  # announced, or not timed
    largest: float  # load at which it is known to meet the SLO
    output_tok_s: float
    scenario: str  # its rows of the sheet Scenarios
    group: float  # what comes before every figure: plans that meet the SLO, case by case, then the others
    figure: float | None  # by which the objective ranks before the rent; None: output tokens per GPU
    tie: int  # its place among plans that are equal otherwise
    lead: int  # 0: it may be named first; 1: only where no such does; 2: only where no GPU on sale does


class PlannedCase(NamedTuple):
    """A case, and the load that it was planned for."""

    label: str
    amount: float
    unit: str
    least: float


class PlannedAnswer(NamedTuple):
    """An answer of `plan`."""

    slo: str
    times: Sequence[str]  # names of the latencies
    cases: Sequence[PlannedCase]
    plans: Sequence[PlannedRow]
    pools: Sequence[PlannedRow]  # prefill and decode pools
    misses: Sequence[tuple[str, str, str]]  # GPU, verdict, reason
    prices: Mapping[str, float | None]  # of a GPU-hour [USD], by GPU
    keeps_replicas: bool  # of the fastest plans, which take all that the budget allows
    leads_by_price: bool  # whether a plan without a known price may not be named first
    notes: Sequence[str]


def write_plans(book: Book, sheet: Sheet, behind: Sheet, answer: PlannedAnswer) -> None:
    """Write the ranked plans, and the formulas behind them."""
    sheet.text(0, 0, "Which deployment meets the SLO, and what does it cost?", "title")
    sheet.text(1, 0, f"SLO: {answer.slo}. Change the yellow cells: GPUs, costs, verdicts and the order follow.", "note")
    asked, line = _write_inputs(book, sheet, answer, 4)
    planned = _write_planned(behind, answer, asked)
    columns = _shown_columns(answer)
    sheet.text(2, 0, "First", "verdict")
    for place in range(len(answer.cases)):
        said, value = planned.first(place)
        formula = f'IF({asked.fault}="",{said},{asked.fault})'
        if place == 0:
            sheet.wide(2, 1, len(columns) - 1, formula, value, "verdict", 1.5)
        else:
            sheet.formula(asked.lines[place], _CASE_FIRST, formula, value)
    first = line + 1
    line = _write_ranked(sheet, planned, columns, first, asked, range(len(answer.plans)))
    if answer.pools:
        sheet.text(line + 1, 0, "Two pools, prefill + decode; a row has both", "bold")
        pools = range(len(answer.plans), len(answer.plans) + len(answer.pools))
        line = _write_ranked(sheet, planned, columns, line + 2, asked, pools)
    line = _write_below(sheet, answer, line + 1, len(columns))
    for column, (_, _, _, width) in enumerate(columns):
        sheet.widen(column, column, width)
    sheet.widen(_FAR, _FAR + 2, 12, folded=True)
    sheet.sheet.freeze_panes(3, 0)
    sheet.sheet.repeat_rows(first + 1)
    sheet.prints(line, len(columns), pages=1 if line < _LONG_PAGE else 0)


_LONG_PAGE = 45  # lines
_CASE_FIRST = 9  # column of the first plan of any further case


# What people fill in.


class _PlanInputs(NamedTuple):
    """Inputs as formulas take them: address and value of each; of a load by the place of its case, a price by GPU."""

    at: Mapping[Any, str]
    values: Mapping[Any, Any]
    lines: Mapping[Any, int]
    fault: str  # address of what is wrong with an input; blank: nothing


class _Entry(NamedTuple):
    key: Any
    name: str
    label: str
    value: float | None
    unit: str
    note: str
    least: float
    most: float


def _entries(answer: PlannedAnswer) -> Iterator[tuple[str, list[_Entry]]]:
    """Inputs in groups."""
    loads = [
        _Entry(place, f"load_{place + 1}", "load", case.amount, case.unit, case.label, case.least, BILLION)
        for place, case in enumerate(answer.cases)
    ]
    free = "share of each replica's capacity that stays free"
    paid = f"for which the GPUs are paid; {MONTH / HOUR:g} is the mean month"
    others = [
        _Entry("headroom", "headroom", "headroom", 0.0, "%", free, 0.0, PERCENT - 1.0),
        _Entry("hours", "hours", "hours a month", MONTH / HOUR, "h", paid, 0.0, _LONGEST_MONTH),
    ]
    yield "Demand", [*loads, *others]
    prices = enumerate(answer.prices.items(), 1)
    note = "price of a GPU-hour; blank: not known"
    yield (
        "Prices",
        [_Entry(gpu, f"price_{place}", gpu, price, "USD/h", note, 0.0, BILLION) for place, (gpu, price) in prices],
    )


def _write_inputs(book: Book, sheet: Sheet, answer: PlannedAnswer, line: int) -> tuple[_PlanInputs, int]:
    """Write the inputs, and far to the right their numbers as formulas take them; returns the line below.

    In place of a number that cannot be, formulas take the one that was planned for.
    """
    at: dict[Any, str] = {}
    values: dict[Any, Any] = {}
    lines: dict[Any, int] = {}
    first = line
    for group, entries in _entries(answer):
        sheet.texts(line, ("", group, *[""] * (len(_shown_columns(answer)) - 2)), "group")
        for entry in entries:
            line += 1
            message = f"{entry.note[0].upper()}{entry.note[1:]}. From {entry.least:g} to {entry.most:g}."
            rule = number_rule(entry.label, message, entry.least, entry.most)
            name, key = f"plan_{entry.name}", entry.key
            write_input(book, sheet, line, Input(name, entry.label, entry.value, entry.unit, "", rule), first=1)
            sheet.text(line, 4, entry.note, "note")
            typed, value = address(line, 2), "" if entry.value is None else entry.value
            is_good = f"AND({typed}>={entry.least:.15g},{typed}<={entry.most:.15g})"
            blank = "TRUE" if key in answer.prices else "FALSE"
            is_good = f'IF(ISNUMBER({typed}),{is_good},IF(TRIM({typed})="",{blank},FALSE))'
            used = f'IF({typed}="","",{typed})' if key in answer.prices else typed
            sheet.formula(line, _FAR, f"IF({is_good},{used},{_literal(value)})", value)
            sheet.formula(line, _FAR + 1, f"IF({is_good},0,1)", 0)
            sheet.text(line, _FAR + 2, f"{entry.label} must be a number from {entry.least:g} to {entry.most:g}")
            at[key], values[key], lines[key] = address(line, _FAR, sheet.name), value, line
        line += 1
    broken, texts = (f"{address(first, column)}:{address(line, column)}" for column in (_FAR + 1, _FAR + 2))
    sheet.formula(line + 1, _FAR, f'IFERROR(INDEX({texts},MATCH(1,{broken},0)),"")', "")
    return _PlanInputs(at, values, lines, address(line + 1, _FAR, sheet.name)), line


def _literal(value: Any) -> str:
    return '""' if value == "" else f"{value:.15g}"


# The sheet Planned: what was planned, and what follows from it.


class _Planned:
    """Columns of the sheet Planned, by their headings, with the values of their rows."""

    def __init__(self, sheet: Sheet, plans: int, rows: int) -> None:
        self.sheet, self.plans, self.rows = sheet, plans, rows
        self.columns: dict[str, int] = {}
        self.values: dict[str, list[Any]] = {}

    def add(self, heading: str, values: Sequence[Any]) -> int:
        """A column more."""
        self.columns[heading], self.values[heading] = len(self.columns), list(values)
        self.sheet.text(0, self.columns[heading], heading, "head")
        return self.columns[heading]

    def at(self, heading: str, row: int) -> str:
        return address(1 + row, self.columns[heading])

    def range(self, heading: str, rows: range, *, elsewhere: bool = True) -> str:
        """Addresses of some rows of a column."""
        column, sheet = self.columns[heading], self.sheet.name if elsewhere else ""
        return f"{address(1 + rows[0], column, sheet)}:{address(1 + rows[-1], column)}"

    def first(self, case: int) -> tuple[str, str]:
        """Formula and value of the sentence about the plan that leads a case."""
        rows, heading = range(self.plans), f"lead {case + 1}"
        leads = self.range(heading, rows)
        place = f"MATCH(MIN({leads}),{leads},0)"

        def picked(name: str) -> str:
            return f"INDEX({self.range(name, rows)},{place})"

        month = picked("USD/month")
        cost = f'IF(ISNUMBER({month}),ROUND({month},0)&" USD a month","{_NO_PRICE}")'
        said = (
            f'{picked("GPU")}&", "&{picked("plan")}&": "&{picked("GPUs")}&" GPUs, "&{cost}&", SLO "&{picked("verdict")}'
        )
        none = "no plan is known to meet the SLO"
        least = min(self.values[heading])
        if least >= INFINITE:
            return f'IF(MIN({leads})<{_NONE},{said},"{none}")', none
        row = self.values[heading].index(least)
        value = {name: self.values[name][row] for name in ("GPU", "plan", "GPUs", "USD/month", "verdict")}
        rent = _NO_PRICE if value["USD/month"] == _NO_PRICE else f"{round(value['USD/month']):d} USD a month"
        text = f"{value['GPU']}, {value['plan']}: {value['GPUs']:.15g} GPUs, {rent}, SLO {value['verdict']}"
        return f'IF(MIN({leads})<{_NONE},{said},"{none}")', text


def _write_planned(sheet: Sheet, answer: PlannedAnswer, asked: _PlanInputs) -> _Planned:
    rows = [*answer.plans, *answer.pools]
    planned = _Planned(sheet, len(answer.plans), len(rows))
    nothing = PoolOfPlan("", "", "", 0.0, 0.0)
    pairs = [(row.pools[0], row.pools[1] if len(row.pools) > 1 else nothing) for row in rows]
    constants: dict[str, list[Any]] = {
        "case": [answer.cases[row.case].label for row in rows],
        "number of the case": [float(row.case + 1) for row in rows],
        "GPU": [" + ".join(pool.gpu for pool in row.pools) for row in rows],
        "plan": [" + ".join(pool.plan for pool in row.pools) for row in rows],
        "format": [" + ".join(dict.fromkeys(pool.quantization for pool in row.pools)) for row in rows],
        **_times(answer.times, rows),
        "verdict as planned": [row.verdict or NOT_KNOWN for row in rows],
        "what binds": [row.binding for row in rows],
        "remark": [row.remark for row in rows],
        "row of Scenarios": [row.scenario for row in rows],
        "meets": [float(row.meets) for row in rows],
        "planned for": [answer.cases[row.case].amount for row in rows],
        "holds up to": [row.largest for row in rows],
        "output tok/s as planned": [row.output_tok_s for row in rows],
        "tie": [float(row.tie) for row in rows],
        "may lead": [float(row.lead) for row in rows],
        "figure": [0.0 if row.figure is None else row.figure for row in rows],
    }
    for side, pools in enumerate(zip(*pairs, strict=True), 1):
        constants[f"replicas {side} as planned"] = [pool.replicas for pool in pools]
        constants[f"GPUs of a replica {side}"] = [pool.num_gpus for pool in pools]
    for heading, values in constants.items():
        column = planned.add(heading, values)
        for line, value in enumerate(values, 1):
            sheet.value(line, column, value)
    _write_read(planned, asked, [row.case for row in rows], pairs)
    _write_live(planned, asked, answer)
    _write_order(planned, answer)
    sheet.head(1, 2)
    sheet.widen(0, len(planned.columns) - 1, 14)
    return planned


def _times(names: Sequence[str], rows: Sequence[PlannedRow]) -> dict[str, list[Any]]:
    """Columns of latencies, of the ends of their ranges, and of these as people read them."""
    columns: dict[str, list[Any]] = {}
    for place, name in enumerate(names):
        times, lows, highs = zip(*(row.times[place] for row in rows), strict=True)
        ranges = [
            "" if low is None or high is None else f"{rounded(low)} to {rounded(high)}"
            for low, high in zip(lows, highs, strict=True)
        ]
        columns |= {name: list(times), f"{name}, from": list(lows), f"{name}, to": list(highs)}
        columns[f"{name}, range"] = ranges
    return columns


def _write_read(
    planned: _Planned, asked: _PlanInputs, cases: Sequence[int], pairs: Sequence[tuple[PoolOfPlan, PoolOfPlan]]
) -> None:
    """Write the load and the prices of each plan, from the inputs."""
    wanted: dict[str, list[Any]] = {"load": list(cases)}
    wanted |= {f"price {side + 1}": [pair[side].gpu for pair in pairs] for side in (0, 1)}
    for heading, keys in wanted.items():
        values = [asked.values[key] if key != "" else 0.0 for key in keys]
        column = planned.add(heading, [float("nan") if value == "" else value for value in values])
        for line, (key, value) in enumerate(zip(keys, values, strict=True), 1):
            cell = "" if key == "" else asked.at[key]
            planned.sheet.formula(line, column, f'IF({cell}="","",{cell})' if cell else "0", value)


def _write_live(planned: _Planned, asked: _PlanInputs, answer: PlannedAnswer) -> None:
    """Write what a plan takes and costs at the load, the prices and the headroom that are asked for."""
    pool = CellPool()

    def cell(heading: str) -> Any:
        values = planned.values[heading]
        kind = object if isinstance(values[0], str) else float
        return pool.input(address(None, planned.columns[heading]), np.array(values, dtype=kind))

    def named(key: str) -> Any:
        return pool.input(asked.at[key], np.array([asked.values[key]]))

    load, planned_for, largest = cell("load"), cell("planned for"), cell("holds up to")
    needed: Any = load / (1.0 - named("headroom") / PERCENT)
    counts, gpus, rent, priced = [], 0.0, 0.0, True
    for side in (1, 2):
        before, price = cell(f"replicas {side} as planned"), cell(f"price {side}")
        least = before if answer.keeps_replicas else where(needed >= planned_for, before, minimum(before, 1.0))
        count = maximum(least, ceil(rounded_to(before * (needed / largest), _DIGITS)))
        counts.append((before, count))
        gpus = gpus + count * cell(f"GPUs of a replica {side}")
        rent = rent + count * cell(f"GPUs of a replica {side}") * where(is_number(price), price, 0.0)
        priced = priced & is_number(price)
    (before, count), (other_before, other) = counts
    growth = where(other_before > 0.0, minimum(count / before, other / maximum(other_before, 1.0)), count / before)
    tokens: Any = cell("output tok/s as planned") * (load / planned_for)
    as_planned: Any = rounded_to(load / (planned_for * growth), _DIGITS) <= 1.0
    word = cell("verdict as planned")
    written = {
        "replicas": where(other_before > 0.0, joined(count, " + ", other), count),
        "GPUs": gpus,
        "verdict": where(cell("meets") > 0.0, where(as_planned, word, LIKELY), word),
        "spare load": largest * growth / load - 1.0,
        "output tok/s": tokens,
        "tok/s/GPU": tokens / gpus,
        "USD/h": where(priced, rent, _NO_PRICE),
        "USD/month": where(priced, rent * named("hours"), _NO_PRICE),
        "USD/M output tok": where(priced, rent / (tokens * (HOUR / MEGA)), _NO_PRICE),
        "is unpriced": where(priced, 0.0, 1.0),
        "rent": where(priced, rent, 0.0),
    }
    places: dict[int, str] = {}
    columns = []
    for heading, made in written.items():
        values = np.broadcast_to(np.asarray(made.value).reshape(-1), (planned.rows,)).tolist()
        column = planned.add(heading, values)
        columns.append((column, made, "general"))
        places.setdefault(id(made), address(None, column))
    planned.sheet.rows(1, columns, places, planned.rows)


def _write_order(planned: _Planned, answer: PlannedAnswer) -> None:
    """Write the rank of each plan among those of its block, as `plan` ranks, and which may lead its case."""
    blocks = [range(planned.plans), range(planned.plans, planned.rows)]
    rows = [*answer.plans, *answer.pools]
    known = planned.values
    by_tokens = any(row.figure is None for row in rows)
    figure = [-value for value in known["tok/s/GPU"]] if by_tokens else known["figure"]
    group = planned.add("group", [row.group for row in rows])
    for line, value in enumerate(known["group"], 1):
        planned.sheet.value(line, group, value)
    ordered = planned.add("ordered by", figure)
    for line, value in enumerate(figure):
        source = planned.at("tok/s/GPU" if by_tokens else "figure", line)
        planned.sheet.formula(1 + line, ordered, f"0-{source}" if by_tokens else source, value)
    keys = ("group", "ordered by", "is unpriced", "rent", "GPUs", "tie")
    order = [tuple(known[key][row] for key in keys) for row in range(planned.rows)]
    ranks = [1 + sum(order[other] < order[row] for other in block) for block in blocks for row in block]
    column = planned.add("rank", ranks)
    for block in blocks:
        for row in block:
            before = ""
            for key in reversed(keys):
                area, own = planned.range(key, block, elsewhere=False), planned.at(key, row)
                before = f"({area}<{own})" + (f"+({area}={own})*({before})" if before else "")
            planned.sheet.formula(1 + row, column, f"1+SUMPRODUCT({before})", ranks[row], "whole")
    for case in range(len(answer.cases)):
        _write_leads(planned, answer, case)


def _write_leads(planned: _Planned, answer: PlannedAnswer, case: int) -> None:
    """Write the order in which the plans of a case may be named first."""
    rows, known = range(planned.plans), planned.values

    def lead(row: int) -> float:
        if known["number of the case"][row] != case + 1 or not known["meets"][row]:
            return INFINITE
        unpriced = known["is unpriced"][row] if answer.leads_by_price else 0.0
        return float(max(known["may lead"][row], unpriced) * MEGA + known["rank"][row])

    values = [lead(row) for row in rows]
    column = planned.add(f"lead {case + 1}", values)
    for row, value in zip(rows, values, strict=True):
        at = {key: planned.at(key, row) for key in ("meets", "may lead", "is unpriced", "rank")}
        digit = f"MAX({at['may lead']},{at['is unpriced']})" if answer.leads_by_price else at["may lead"]
        is_asked = f"AND({planned.at('number of the case', row)}={case + 1},{at['meets']}>0)"
        planned.sheet.formula(1 + row, column, f"IF({is_asked},{digit}*{MEGA:.0f}+{at['rank']},{_NONE})", value)


# What people read.


def _shown_columns(answer: PlannedAnswer) -> list[tuple[str, str, str, float]]:
    """Heading, column of the sheet Planned, style and width of what is shown of each plan."""
    case = [("case", "case", "wrapped", 22.0)] if len(answer.cases) > 1 else []
    times = [
        shown
        for name in answer.times
        for shown in ((f"{name} [ms]", name, "result", 9.0), ("its range", f"{name}, range", "unit", 13.0))
    ]
    return [
        ("rank", "rank", "whole", 6.0),
        ("GPU", "GPU", "wrapped", 20.0),
        ("plan of a replica", "plan", "wrapped", 15.0),
        ("format", "format", "wrapped", 9.0),
        ("replicas", "replicas", "word", 8.0),
        ("GPUs", "GPUs", "whole", 7.0),
        *case,
        *times,
        ("verdict", "verdict", "word", 8.0),
        ("USD/month", "USD/month", "money", 11.0),
        ("USD/M output tok", "USD/M output tok", "result", 10.0),
        ("USD/h", "USD/h", "number", 9.0),
        ("spare load", "spare load", "share", 7.0),
        ("what binds", "what binds", "said", 28.0),
        ("remark", "remark", "unit", 11.0),
        ("row of Scenarios", "row of Scenarios", "word", 10.0),
    ]


def _write_ranked(
    sheet: Sheet,
    planned: _Planned,
    columns: Sequence[tuple[str, str, str, float]],
    line: int,
    asked: _PlanInputs,
    rows: range,
) -> int:
    """Write plans in their order; returns the line below."""
    live = {"rank", "replicas", "GPUs", "verdict", "spare load", "USD/h", "USD/month", "USD/M output tok"}
    sheet.texts(line, ("live" if key in live else "" for _, key, _, _ in columns), "unit")
    sheet.texts(line + 1, (heading for heading, _, _, _ in columns))
    ranks = planned.range("rank", rows)
    order = sorted(rows, key=lambda row: planned.values["rank"][row])
    for place, row in enumerate(order, 1):
        at = line + 1 + place
        found = address(at, _FAR)
        sheet.formula(at, _FAR, f"MATCH({place},{ranks},0)", row - rows[0] + 1)
        for column, (_, key, style, _) in enumerate(columns):
            value = planned.values[key][row]
            picked = f"INDEX({planned.range(key, rows)},{found})"
            shown = f'IF({picked}="","",{picked})'
            sheet.formula(at, column, f'IF({asked.fault}="",{shown},"")', "" if value is None else value, style)
    last = line + 1 + len(rows)
    for column, (_, key, style, _) in enumerate(columns):
        if style in ("wrapped", "said"):  # in any order, so every row is as high as the longest text needs
            longest = max((str(planned.values[key][row]) for row in rows), key=len, default="")
            sheet.wrapped += [(at, column, longest) for at in range(line + 2, last + 1)]
    verdict = next(column for column, (_, key, _, _) in enumerate(columns) if key == "verdict")
    colour_words(sheet, (line + 2, verdict, last, verdict))
    return last + 1


def _write_below(sheet: Sheet, answer: PlannedAnswer, line: int, columns: int) -> int:
    """Write the GPUs without a plan, with the reasons, and the notes; returns the line below."""
    below = line
    if answer.misses:
        sheet.texts(line, ("", "No plan", "verdict", "reason", *[""] * (columns - 4)), "group")
        for place, texts in enumerate(answer.misses, line + 1):
            sheet.texts(place, texts, "label", first=1)
        below = line + 2 + len(answer.misses)
    for place, note in enumerate(answer.notes, below):
        sheet.text(place, 0, note, "note")
    return below + len(answer.notes)
