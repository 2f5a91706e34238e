"""Inputs of a workbook: what they are called, their units, and the prompts and limits of their cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.formulas.case import HOST_TIMES
from roofline.numbers.quantity import BILLION, HOUR, MEGA, MILLI
from roofline.outputs.workbook.case import CHOICE_NOTES, OFFERED, TEXTS, TYPED, Contents, name_of, times_shown
from roofline.outputs.workbook.typed import LEVELS
from roofline.outputs.workbook.writer import Book, Rule, Sheet, address
from roofline.physics.plan import LEAST_SKEW, MOST_SKEW
from roofline.specs.workload import OF_REQUESTS as SLO_KEYS
from roofline.support.records import NamedTuple

#: Groups of the choices on the sheet Answer.
GROUPS = (
    ("Model and GPU", ("model", "gpu", "quantization", "kv_cache_dtype")),
    ("Plan", ("tp", "pp", "ep", "dp", "replicas")),
    ("Requests", ("isl", "osl", "prefix")),
)
_UNITS = {
    "replicas": "replicas", "isl": "tokens", "osl": "tokens", "batch": "sequences", "prefix": "tokens",
    **dict.fromkeys(("tp", "pp", "ep", "dp"), "ranks"),
}  # fmt: skip
_OF_LIMITS = {
    "ttft": "time to first token", "tpot": "time per output token after the first",
    "e2el": "whole request, until its last token",
}  # fmt: skip
_OF_LOADS = {
    "users": ("users", "of all replicas, each asks again when answered; blank: none"),
    "request_rate": ("requests/s", "random arrivals at all replicas; blank: none"),
}
_LOOSE = "A name in the list, or another spelling of the catalog in any case."
_K = "Numbers, or text such as 2k (2048)."
NUMBER = "IF(ISNUMBER({{0}}),AND({{0}}>={least:.15g},{{0}}<={most:.15g}),{text})"
_ENDS_IN_K = 'OR(RIGHT(TRIM({0}),1)="k",RIGHT(TRIM({0}),1)="m")'
_RATES = "Numbers, or text such as 3/s, 180/min or 10k/h."
_IS_RATE = f'OR({_ENDS_IN_K},LEFT(RIGHT(TRIM({{0}}),2),1)="/",RIGHT(TRIM({{0}}),4)="/min")'
_ENDS_IN_S = 'RIGHT(TRIM({0}),1)="s"'


class Input(NamedTuple):
    """A cell to fill in."""

    name: str
    label: str
    value: Any
    unit: str
    note: str
    rule: Rule


def choice_rule(name: str) -> Rule:
    """Prompt and limits of a choice of a case."""
    note = _sentence(CHOICE_NOTES[name])
    if name == "basis":
        return Rule(name, note, OFFERED[name])
    if name in TEXTS:
        return Rule(name, f"{note} {_LOOSE}", OFFERED[name], severity="information")
    if name in OFFERED:
        return Rule(name, f"{note} A whole number from 1 to {MEGA:.0f}.", OFFERED[name], severity="warning")
    if name == "replicas":
        return Rule(name, f"{note} A whole number from 1 to {MEGA:.0f}.", allowed=_number(1, MEGA, "FALSE"))
    least = 0 if name == "prefix" else 1
    limits = "0, or from 1 to isl." if name == "prefix" else f"From 1 to {BILLION:,.0f}."
    return Rule(name, f"{note} {limits} {_K}", allowed=_number(least, BILLION, _ENDS_IN_K))


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _number(least: float, most: float, text: str) -> str:
    return NUMBER.format(least=least, most=most, text=text)


def number_rule(title: str, message: str, least: float, most: float) -> Rule:
    """A number between two bounds, both included."""
    return Rule(title, message, allowed=_number(least, most, "FALSE"))


def choice_inputs(contents: Contents) -> Iterator[tuple[str, list[Input]]]:
    """Inputs of the sheet Answer, in groups."""
    for group, names in GROUPS:
        yield group, [_choice(contents, name) for name in names]
    yield "Load", [_choice(contents, "batch"), *_loads(contents)]
    limits = []
    for key in SLO_KEYS:
        limit = contents.slo.get(key)
        known = None if limit is None else limit / MILLI
        label = f"SLO {key}"
        message = f"Largest {_OF_LIMITS[key]}. Above 0 ms, or text such as 0.5 s; blank: no limit."
        rule = Rule(label, message, allowed=_number(MILLI * MILLI, BILLION, _ENDS_IN_S))
        limits.append(Input(f"slo_{key}", label, known, "ms", f"largest {_OF_LIMITS[key]}; blank: no limit", rule))
    note = "what the limits hold for: the mean, or a percentile of requests"
    rule = Rule("SLO level", f"{_sentence(note)} Blank: the mean.", [*LEVELS], severity="information")
    yield "Limits", [*limits, Input("slo_level", "SLO level", contents.level, "", note, rule)]
    yield "Basis", [_choice(contents, "basis")]


def _loads(contents: Contents) -> Iterator[Input]:
    """Loads that are typed instead of a burst."""
    for name, (unit, note) in _OF_LOADS.items():
        kind = TYPED[name]
        texts, allowed = (_RATES, _IS_RATE) if kind.is_open else (_K, _ENDS_IN_K)
        message = f"{_sentence(note)} {_sentence(kind.bound)} {texts}"
        rule = Rule(name, message, allowed=_number(kind.least, BILLION, allowed))
        yield Input(name, name, contents.loads.get(name), unit, note, rule)


def _choice(contents: Contents, name: str) -> Input:
    return Input(name, name, contents.case[name], _UNITS.get(name, ""), CHOICE_NOTES[name], choice_rule(name))


def engine_inputs(contents: Contents) -> Iterator[Input]:
    """Inputs of the sheet Engine, which hold for every case of the workbook."""
    engine = contents.engine
    for name in times_shown(engine):
        message = f"{_sentence(HOST_TIMES[name])} At least 0 ms, or text such as 20us."
        rule = Rule(name, message, allowed=_number(0, HOUR / MILLI, _ENDS_IN_S))
        yield Input(name, name, getattr(engine, name) / MILLI, "ms", HOST_TIMES[name], rule)
    if contents.routing_skew is not None:
        note = "how unevenly tokens choose experts; 0.66 as measured"
        rule = number_rule("routing skew", _sentence(note), LEAST_SKEW, MOST_SKEW)
        yield Input("routing", "routing skew", contents.routing_skew, "", note, rule)


def write_input(book: Book, sheet: Sheet, line: int, entry: Input, *, first: int = 0, note: int = 3) -> None:
    """Write a label, the cell to fill in, its unit and, so many columns on, its note; name the cell."""
    sheet.text(line, first, entry.label)
    sheet.value(line, first + 1, entry.value, "input")
    sheet.text(line, first + 2, entry.unit, "unit")
    sheet.text(line, first + note, entry.note, "said")
    book.define(name_of(entry.name), address(line, first + 1, sheet.name))
    sheet.rule(line, line, first + 1, entry.rule)
