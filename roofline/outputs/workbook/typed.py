"""What people type into a cell: names in any spelling, numbers with a k or a unit, read by formulas and by Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roofline.numbers.quantity import HOUR, KIBI, KILO, MILLI, MINUTE
from roofline.symbolic.programs import Form

#: Stands for a text that is no number.
UNREADABLE = "?"
#: Wildcards of look-ups; the sign that joins names, which no name has, takes their place.
WILDCARDS, JOINT = "*?~", "|"
#: What a limit may hold for: the mean, or a percentile.
LEVELS: Mapping[str, float | None] = {"mean": None, "p95": 95.0, "p99": 99.0}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_TIMES = {"ms": 1.0, "us": MILLI, "s": KILO}  # factor to milliseconds, the longest unit first
_PERIODS = {"/s": 1.0, "/min": MINUTE, "/h": HOUR}  # [s]


def name_key(kind: str, name: str) -> str:
    """Key of a name in the table of names: kind, and the name in lower case with hyphens.

    >>> name_key("gpu", "H100_SXM")
    'gpu|h100-sxm'
    """
    return f"{kind}{JOINT}{name.strip().lower().replace(' ', '-').replace('_', '-')}"


def _each(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A reading of texts for columns, in which numbers and blanks stay."""

    def column(values: Any) -> Any:
        array = np.asarray(values)
        if array.dtype.kind in "fiu":
            return array
        entries = [read(entry) if isinstance(entry, str) else entry for entry in array.reshape(-1).tolist()]
        is_plain = all(isinstance(entry, (float, int)) for entry in entries)
        return np.array(entries, dtype=float if is_plain else object)

    return column


def _count(text: str) -> Any:
    text = text.replace(" ", "")
    power = {"k": 1, "m": 2}.get(text[-1:].lower(), 0)
    return _value(text[: len(text) - min(power, 1)], float(KIBI**power), text)


def _rate(text: str) -> Any:
    text = text.replace(" ", "")
    period = next((period for period in _PERIODS if text.lower().endswith(period)), "")
    bare = text[: len(text) - len(period)]
    power = {"k": 1, "m": 2}.get(bare[-1:].lower(), 0)
    factor = float(KILO**power) / _PERIODS.get(period, 1.0)
    return _value(bare[: len(bare) - min(power, 1)], factor, text)


def _time(text: str) -> Any:
    text = text.replace(" ", "")
    unit = next((unit for unit in _TIMES if text.lower().endswith(unit)), "")
    return _value(text[: len(text) - len(unit)], _TIMES.get(unit, 1.0), text)


def _value(number: str, factor: float, text: str) -> Any:
    if not text:
        return ""
    return float(number) * factor if _NUMBER.fullmatch(number) else UNREADABLE


def _clean(texts: Any) -> Any:
    signs = str.maketrans(dict.fromkeys(WILDCARDS, JOINT))
    flat = np.asarray(texts, dtype=object).reshape(-1).tolist()
    return np.array([" ".join(str(text).split(" ")).strip().translate(signs) for text in flat], dtype=object)


def _known(texts: Any, kind: str, keys: Any, names: Any) -> Any:
    """The catalog's name of each text, or the text where none is known by it."""
    places = {key: place for place, key in reversed(list(enumerate(keys.tolist())))}
    found = [(text, places.get(name_key(kind, text))) for text in np.asarray(texts).reshape(-1).tolist()]
    return np.array([text if place is None else names[place] for text, place in found], dtype=object)


#: Values of the operations, by name.
READINGS: Mapping[str, Callable[..., Any]] = {
    "clean": _clean, "known": _known, "read count": _each(_count), "read rate": _each(_rate),
    "read time": _each(_time),
}  # fmt: skip


def number_formula(bare: str) -> str:
    """Formula for the number of a text without its unit; an error where it is none.

    The point is taken out and divided away, and an exponent added, so that the formula reads the same in countries
    with a decimal comma and takes no text for a date.
    """
    point = f'FIND(".",{bare})'
    digits = f'VALUE(SUBSTITUTE({bare},".","")&"E0")'
    plain = f"{digits}/POWER(10,IFERROR(LEN({bare})-{point},0))"
    several = f'LEN({bare})-LEN(SUBSTITUTE({bare},".",""))>1'
    plainer = f'SUBSTITUTE(SUBSTITUTE(SUBSTITUTE({bare},",",""),":",""),"/","")'
    return f"IF(LEN({plainer})<LEN({bare}),NA(),IF({several},NA(),{plain}))"


def reading(typed: str, bare: str, factor: str) -> str:
    """Formula for a cell that is a number, a blank or a text; the text without its unit, and the unit's factor."""
    number = f'IFERROR({number_formula(bare)}*{factor},"{UNREADABLE}")'
    return f'IF(ISNUMBER({typed}),{typed},IF(TRIM({typed})="","",{number}))'


_TYPED = 'SUBSTITUTE({0}," ","")'
_PREFIX = f'IFERROR(FIND(RIGHT({_TYPED},1),"kKmM"),0)'
_COUNT_OF = f"LEFT({_TYPED},LEN({_TYPED})-MIN({_PREFIX},1))"
_PERIOD = f'IF(RIGHT({_TYPED},2)="/s",2,IF(RIGHT({_TYPED},2)="/h",3,IF(RIGHT({_TYPED},4)="/min",4,0)))'
_PER = f"LEFT({_TYPED},LEN({_TYPED})-CHOOSE({_PERIOD}+1,0,0,2,2,4))"
_RATE_PREFIX = f'IFERROR(FIND(RIGHT({_PER},1),"kKmM"),0)'
_RATE_OF = f"LEFT({_PER},LEN({_PER})-MIN({_RATE_PREFIX},1))"
_SECONDS = f"CHOOSE({_PERIOD}+1,1,1,1,{HOUR:.0f},{MINUTE:.0f})"
_UNIT = f'IF(RIGHT({_TYPED},2)="ms",2,IF(RIGHT({_TYPED},2)="us",3,IF(RIGHT({_TYPED},1)="s",1,0)))'
_TIME_OF = f"LEFT({_TYPED},LEN({_TYPED})-MIN({_UNIT},2))"

#: Formulas of the operations.
FORMS: Mapping[str, Form] = {
    "clean": Form('SUBSTITUTE(SUBSTITUTE(SUBSTITUTE(TRIM({0}),"*","|"),"?","|"),"~","|")'),
    "known": Form('IFERROR(INDEX({3},MATCH({1}&"|"&SUBSTITUTE(SUBSTITUTE({0}," ","-"),"_","-"),{2},0)),{0})'),
    "read count": Form(reading("{0}", _COUNT_OF, f"POWER({KIBI},0-INT(0-{_PREFIX}/2))")),
    "read rate": Form(reading("{0}", _RATE_OF, f"POWER({KILO:.0f},0-INT(0-{_RATE_PREFIX}/2))/{_SECONDS}")),
    "read time": Form(reading("{0}", _TIME_OF, f"IF({_UNIT}=1,1000,IF({_UNIT}=3,0.001,1))")),
}
