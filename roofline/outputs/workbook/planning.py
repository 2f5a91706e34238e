"""Sheets that compare: Summary, models by GPUs at one length, and Fleet, what a demand takes on every GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from roofline.numbers.quantity import BILLION, DAY, HOUR, MONTH
from roofline.outputs.workbook.answer import colour_words
from roofline.outputs.workbook.case import CHOICES, TYPED, Contents, name_of
from roofline.outputs.workbook.cells import INFINITE
from roofline.outputs.workbook.inputs import Input, choice_rule, number_rule, write_input
from roofline.outputs.workbook.typed import FORMS, JOINT
from roofline.outputs.workbook.writer import Book, Rule, Sheet, address
from roofline.support.records import NamedTuple

PERCENT = 100.0
_FAR = 14  # column of the first formula that people do not read
_BEYOND = 214  # likewise, where a column for each model or GPU may be read
_MONTHLY = f"{MONTH / DAY:.15g}"  # days
_NONE = f"{INFINITE!r}".replace("e", "E")


class Answered(NamedTuple):
    """Answers of the cases of a sheet: columns and values of each figure, by its label."""

    sheet: str
    columns: Mapping[str, int]
    values: Mapping[str, Sequence[Any]]


def pair_formulas(rows: int) -> list[list[str]]:
    """Formulas of the choices of the cases behind Fleet: the case of the sheet Answer on every GPU, on one replica."""
    alone = dict.fromkeys(("pp", "ep", "dp", "replicas"), "1") | {"tp": '""'}
    kept = {name: f'IF({name_of(name)}="","",{name_of(name)})' for name in CHOICES}
    return [
        [(alone | {"gpu": address(1 + row, 0, "GPUs")}).get(name, kept[name]) for name in CHOICES]
        for row in range(rows)
    ]


_DEMAND = (
    ("fleet_rate", "requests", 10.0, "1/s", "requests per second at the busiest hour; blank: none", 0.0, BILLION),
    ("fleet_users", "users", None, "", "users at a time, each with one request in flight; blank: none", 0.0, BILLION),
    ("fleet_growth", "growth", 0.0, "% a year", "of requests and users", 0.0, PERCENT * PERCENT),
    ("fleet_years", "years", 1.0, "years", "from now until the growth is served", 0.0, PERCENT),
    ("fleet_headroom", "headroom", 20.0, "%", "share of the replicas' capacity that stays free", 0.0, PERCENT - 1.0),
    ("fleet_hours", "hours", 24.0, "h a day", "for which the GPUs are paid", 0.0, DAY / HOUR),
)
_LOAD_OF = {"fleet_rate": "request_rate", "fleet_users": "users"}  # demands that a load of Answer states
_FLEET = ("GPU", "verdict", "TTFT [ms]", "TPOT [ms]", "GPUs of a replica", "requests/s of a replica", "replicas",
          "GPUs", "USD/month")  # fmt: skip


#: What is said where a load is typed on Answer, for which no row of Fleet has its rounds.
_BURSTS = (
    "Fleet counts bursts of that batch, not the users or requests/s typed there: type the demand below, and compare "
    "verdicts with Answer."
)


class _Demand(NamedTuple):
    """What a fleet has to serve: addresses of the numbers as read, and their values."""

    at: Mapping[str, str]
    values: Mapping[str, float]
    fault: str  # address of what is wrong with an input; blank: nothing


def write_fleet(book: Book, sheet: Sheet, contents: Contents, pairs: Answered) -> None:
    """Write what a demand takes on every GPU; `pairs` are the cases behind, a row for each GPU."""
    sheet.text(0, 0, "How many GPUs does the demand take, and what do they cost?", "title")
    about = "The case of Answer on every GPU, at the smallest tp that holds its batch."
    typed = [f'TRIM({name_of(name)})<>""' for name in TYPED]
    aside = f" {_BURSTS}" if contents.loads else ""
    sheet.wide(1, 0, 8, f'"{about}"&IF(OR({",".join(typed)})," {_BURSTS}","")', about + aside, "note", 2.0)
    demand = _write_demand(book, sheet, contents)
    start = 6 + len(_DEMAND)
    sheet.texts(start, _FLEET)
    sheet.sheet.repeat_rows(start)
    names = [row[0] for row in contents.catalog.gpus.rows]
    first, last = start + 1, start + len(names)
    best = [_write_fleet_row(sheet, first + row, row, name, pairs, demand) for row, name in enumerate(names)]
    costs = f"{address(first, _FAR)}:{address(last, _FAR)}"
    gpus, fleets, months = (f"{address(first, column)}:{address(last, column)}" for column in (0, 7, 8))
    place = f"MATCH(MIN({costs}),{costs},0)"
    month = f"ROUND(INDEX({months},{place}),0)"
    said = f'INDEX({gpus},{place})&": "&INDEX({fleets},{place})&" GPUs, "&{month}&" USD a month"'
    none = "no GPU with a price meets the limits"
    cheapest = f'IF(MIN({costs})<{_NONE},{said},"{none}")'
    row = best.index(min(best))
    count = f"{_replicas(pairs, row, demand) * pairs.values['GPUs'][row]:.15g}" if best[row] < INFINITE else ""
    shown = f"{names[row]}: {count} GPUs, {round(best[row]):.15g} USD a month" if count else none
    sheet.text(2, 0, "Cheapest", "verdict")
    sheet.wide(2, 1, 8, f'IF({demand.fault}="",{cheapest},{demand.fault})', shown, "verdict", 1.5)
    sheet.text(
        last + 2,
        0,
        "A replica answers one batch, then takes the next: latencies and verdicts are those of bursts.",
        "note",
    )
    sheet.text(
        last + 3, 0, "Queues need more GPUs; batches that are refilled need fewer. `roofline plan` counts both.", "note"
    )
    for column, width in enumerate((18, 22, 12, 12, 12, 14, 11, 11, 14)):
        sheet.widen(column, column, width)
    sheet.widen(_FAR, _FAR, 12, folded=True)
    sheet.sheet.freeze_panes(3, 0)
    sheet.prints(last + 4, 9, pages=1 if last < _LONG_PAGE else 0)
    colour_words(sheet, (first, 1, last, 1))


def _write_demand(book: Book, sheet: Sheet, contents: Contents) -> _Demand:
    """Write the inputs of a fleet, and far to the right their numbers as read."""
    sheet.texts(4, ("demand", *("" for _ in _FLEET[1:])), "group")
    at, values, faults = {}, {}, []
    for line, (name, label, usual, unit, note, least, most) in enumerate(_DEMAND, 5):
        value = contents.loads.get(_LOAD_OF[name]) if contents.loads and name in _LOAD_OF else usual
        rule = number_rule(label, f"{note[0].upper()}{note[1:]}. From {least:g} to {most:g}.", least, most)
        write_input(book, sheet, line, Input(name, label, value, unit, "", rule))
        sheet.text(line, 3, note, "note")
        reading = "read rate" if name == "fleet_rate" else "read count"
        formula = FORMS[reading].pattern.format(name_of(name))
        sheet.formula(line, _FAR, f'IF(TRIM({name_of(name)})="",0,{formula})', value or 0.0)
        cell = at[name] = address(line, _FAR)
        values[name] = value or 0.0
        is_bad = f"IF(ISNUMBER({cell}),OR({cell}<{least:g},{cell}>{most:g}),TRUE)"
        faults.append((is_bad, f"{label} must be a number from {least:g} to {most:g}"))
    wrong = '""'
    for condition, message in reversed(faults):
        wrong = f'IF({condition},"{message}",{wrong})'
    end = 5 + len(_DEMAND)
    fault = address(end, _FAR)
    sheet.formula(end, _FAR, wrong, "")
    growth, years, headroom = (at[name] for name in ("fleet_growth", "fleet_years", "fleet_headroom"))
    factor = f'IF({fault}="",POWER(1+{growth}/100,{years})/(1-{headroom}/100),1)'
    grown = (1.0 + values["fleet_growth"] / PERCENT) ** values["fleet_years"]
    values["factor"] = grown / (1.0 - values["fleet_headroom"] / PERCENT)
    for line, (name, formula) in enumerate((
        ("factor", factor), *((name, FORMS["read count"].pattern.format(name_of(name))) for name in ("osl", "batch")),
    )):  # fmt: skip
        values.setdefault(name, contents.case.get(name, 0.0))
        sheet.formula(line, _FAR, formula, values[name])
        at[name] = address(line, _FAR)
    return _Demand(at, values, fault)


def _replicas(pairs: Answered, row: int, demand: _Demand) -> int:
    """Replicas for the busiest hour of the demand."""
    values = demand.values
    rate = pairs.values["output tok/s"][row] / values["osl"]
    needed: float = max(values["fleet_rate"] / rate, values["fleet_users"] / values["batch"]) * values["factor"]
    return max(1, ceil(needed))


def _write_fleet_row(sheet: Sheet, line: int, row: int, name: str, pairs: Answered, demand: _Demand) -> float:
    """Write the line of a GPU; returns its cost a month where it meets the limits."""
    at = {label: address(1 + row, column, pairs.sheet) for label, column in pairs.columns.items()}
    value = {label: values[row] for label, values in pairs.values.items()}
    asked = demand.at
    answered, verdict = value["reason"] == "", value["SLO"] or "no limit"

    def shown(column: int, formula: str, known: Any, style: str) -> None:
        condition = f'AND({at["reason"]}="",{demand.fault}="")'
        sheet.formula(line, column, f'IF({condition},{formula},"")', known if answered else "", style)

    sheet.formula(line, 0, address(1 + row, 0, "GPUs"), name)
    limit = f'IF({at["SLO"]}="","no limit",{at["SLO"]})'
    sheet.formula(line, 1, f'IF({at["reason"]}="",{limit},{at["reason"]})', verdict if answered else value["reason"])
    for column, label, style in ((2, "TTFT [ms]", "number"), (3, "TPOT [ms]", "number"), (4, "GPUs", "whole")):
        shown(column, at[label], value[label], style)
    rate, count = address(line, 5), address(line, 6)
    shown(
        5, f"{at['output tok/s']}/{asked['osl']}", answered and value["output tok/s"] / demand.values["osl"], "number"
    )
    needed = f"MAX({asked['fleet_rate']}/{rate},{asked['fleet_users']}/{asked['batch']})*{asked['factor']}"
    replicas = _replicas(pairs, row, demand) if answered else 0
    shown(6, f"MAX(1,0-INT(0-{needed}))", replicas, "whole")
    shown(7, f"{count}*{at['GPUs']}", answered and replicas * value["GPUs"], "whole")
    is_priced = answered and value["USD/h"] != ""
    cost = replicas * value["USD/h"] * demand.values["fleet_hours"] * (MONTH / DAY) if is_priced else "no price"
    month = f"{count}*{at['USD/h']}*{asked['fleet_hours']}*{_MONTHLY}"
    shown(8, f'IF(ISNUMBER({at["USD/h"]}),{month},"no price")', cost, "money")
    meets = f'AND(ISNUMBER({address(line, 8)}),LEFT({address(line, 1)},4)<>"fail")'
    counted = cost if is_priced and not verdict.startswith("fail") else INFINITE
    sheet.formula(line, _FAR, f"IF({meets},{address(line, 8)},{_NONE})", counted)
    return float(counted)


_SUMMED = (
    ("verdict", "SLO", "word"), ("TTFT [ms]", "TTFT [ms]", "number"), ("TPOT [ms]", "TPOT [ms]", "number"),
    ("output tok/s per GPU", "tok/s/GPU", "number"), ("GPUs", "GPUs", "whole"),
    ("USD per million output tokens", "USD/M output tok", "number"),
)  # fmt: skip
_CHOSEN = ("quantization", "isl", "osl", "batch")


def scenario_key(model: str, gpu: str, chosen: Sequence[Any]) -> str:
    """Key of a scenario in Python."""
    return JOINT.join([model, gpu, *(f"{each:.15g}" if isinstance(each, float) else str(each) for each in chosen)])


def write_summary(book: Book, sheet: Sheet, contents: Contents, scenarios: Answered) -> None:
    """Write models by GPUs: the figures of the first scenario of each pair at one length."""
    sheet.text(0, 0, "How do the models compare on the GPUs?", "title")
    note = "The first row of the sheet Scenarios for each model and GPU at these lengths; blank: there is none."
    sheet.text(1, 0, note, "note")
    after, chosen = _write_chosen(book, sheet, contents)
    models = [
        (address(1 + row, 0, "Models"), model.short_name) for row, model in enumerate(contents.catalog.chosen_models)
    ]
    gpus = [(address(1 + row, 0, "GPUs"), gpu.name) for row, gpu in enumerate(contents.catalog.chosen_gpus)]
    is_long = len(gpus) >= len(models)
    down, across = (gpus, models) if is_long else (models, gpus)
    keys: dict[str, int] = {}
    for place, key in enumerate(scenarios.values["key"], 1):
        keys.setdefault(key, place)
    column = scenarios.columns["key"]
    lines = f"{address(1, column, scenarios.sheet)}:{address(len(scenarios.values['key']), column)}"
    places: dict[tuple[int, int], tuple[str, int]] = {}
    top = 8
    for row, (at_row, name) in enumerate(down):
        for column, (at_column, other) in enumerate(across):
            pair = (other, name) if is_long else (name, other)
            order = (at_column, at_row) if is_long else (at_row, at_column)
            place = keys.get(scenario_key(*pair, chosen), 0)
            formula = f'IFERROR(MATCH({order[0]}&"|"&{order[1]}&{after},{lines},0),0)'
            sheet.formula(top + row, _BEYOND + column, formula, place)
            places[row, column] = address(top + row, _BEYOND + column), place
    is_beside = len(across) <= _FEW
    for block, (heading, label, style) in enumerate(_SUMMED):
        line = top if is_beside else top + block * (len(down) + 3)
        first = 1 + block * len(across) if is_beside else 1
        if not is_beside or block == 0:
            sheet.text(line + 1, 0, "", "group")
            for row, (cell, name) in enumerate(down, 2):
                sheet.formula(line + row, 0, cell, name)
        sheet.text(line, first, heading, "head")
        for column, (cell, name) in enumerate(across):
            sheet.formula(line + 1, first + column, cell, name, "group")
            for row in range(len(down)):
                at, place = places[row, column]
                _write_summed(sheet, (line + 2 + row, first + column), (at, place), scenarios, label, style)
    columns = 1 + max(3, len(across) * (len(_SUMMED) if is_beside else 1))
    rows = top + 2 + len(down) + (0 if is_beside else (len(_SUMMED) - 1) * (len(down) + 3))
    sheet.widen(0, 0, 28)
    sheet.widen(1, columns - 1, 18)
    sheet.sheet.freeze_panes(2, 1)
    if is_beside:
        sheet.sheet.repeat_rows(top, top + 1)
    sheet.prints(rows, columns, pages=1 if rows < _LONG_PAGE else 0)
    sheet.widen(_BEYOND, _BEYOND + len(across), 9, folded=True)
    colour_words(sheet, (top + 2, 1, top + 1 + len(down), len(across)))


def _write_chosen(book: Book, sheet: Sheet, contents: Contents) -> tuple[str, list[Any]]:
    """Write the inputs of Summary; returns the address of the end of a scenario's key, and its parts."""
    start, parts = contents.scenarios[0], []
    for line, name in enumerate(_CHOSEN, 3):
        listed = list(dict.fromkeys(row[name] for row in contents.scenarios))
        rule = choice_rule(name)
        offered = [each if isinstance(each, str) else f"{each:.15g}" for each in listed]
        if sum(len(each) + 1 for each in offered) < _LONGEST_LIST:
            rule = Rule(rule.title, rule.message, offered, severity="information")
        unit = "" if name == "quantization" else "sequences" if name == "batch" else "tokens"
        cell = name_of(f"summary_{name}")
        write_input(book, sheet, line, Input(f"summary_{name}", name, start[name], unit, "", rule))
        if name == "quantization":
            clean = address(4, _BEYOND)
            sheet.formula(4, _BEYOND, FORMS["clean"].pattern.format(cell), start[name])
            parts.append(FORMS["known"].pattern.format(clean, f'"{name}"', "n_key", "n_name"))
        else:
            parts.append(FORMS["read count"].pattern.format(cell))
    chosen = [start[name] for name in _CHOSEN]
    suffix = JOINT + JOINT.join(scenario_key("", "", chosen).split(JOINT)[2:])
    sheet.formula(3, _BEYOND, '"|"&' + '&"|"&'.join(parts), suffix)
    return address(3, _BEYOND), chosen


_FEW = 2  # columns of a block, up to which the figures stand beside each other
_LONGEST_LIST = 255  # characters of the entries of a drop-down
_LONG_PAGE = 60  # lines


def _write_summed(
    sheet: Sheet, to: tuple[int, int], where: tuple[str, int], scenarios: Answered, label: str, style: str
) -> None:
    """Write a figure of the scenario in a row; a verdict without limits is `ok`, without an answer its reason."""
    at, place = where

    def picked(name: str) -> str:
        column = scenarios.columns[name]
        area = f"{address(1, column, scenarios.sheet)}:{address(len(scenarios.values['key']), column)}"
        return f"INDEX({area},{at})"

    value: Any = "" if place == 0 else scenarios.values[label][place - 1]
    formula = picked(label)
    if label == "SLO":
        reason = "" if place == 0 else scenarios.values["reason"][place - 1]
        value = "" if place == 0 else reason or value or "no limit"
        no_limit = f'IF({formula}="","no limit",{formula})'
        formula = f'IF({picked("reason")}="",{no_limit},{picked("reason")})'
    sheet.formula(*to, f'IF({at}=0,"",{formula})', value, style)
