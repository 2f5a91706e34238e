"""Request rates by hour of a day: from a text, a mapping, 24 numbers or a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from roofline.numbers.quantity import HOUR, MEGA
from roofline.questions.inputs.arguments import number
from roofline.specs.written import rate_of_text
from roofline.support.errors import BadInput, shown
from roofline.support.reading import RESULT_BYTES, Unreadable, content

#: Hours of a day.
HOURS = 24.0

_MOST_RATE = MEGA  # requests/s
_EXAMPLE = "8:5,12:20,20:8 (from 8 h 5 requests/s, from 12 h 20, from 20 h 8)"


def rates_of_day(rates: Any) -> tuple[tuple[float, float], ...]:
    """Hours of the day with the rate from then on, in order [h, 1/s].

    >>> rates_of_day("20:8,8:5"), rates_of_day({0: 2.0})
    (((8.0, 5.0), (20.0, 8.0)), ((0.0, 2.0),))
    """
    if isinstance(rates, Path) or (isinstance(rates, str) and rates.strip().lower().endswith(".csv")):
        pairs = _of_file(str(rates))
    elif isinstance(rates, str):
        pairs = [_pair(part) for part in rates.split(",")]
    elif isinstance(rates, Mapping):
        pairs = list(rates.items())
    elif isinstance(rates, Iterable):
        pairs = list(enumerate(rates))
        if len(pairs) != HOURS:
            raise BadInput(f"rate_by_hour has {len(pairs)} numbers; a day has 24, or write {_EXAMPLE}")
    else:
        raise BadInput(f"rate_by_hour = {shown(rates)} must be rates by hour, such as {_EXAMPLE}")
    known: dict[float, float] = {}
    for hour, rate in pairs:
        start = number("hour", hour, 0.0, HOURS - 1.0 / HOUR)
        if start in known:
            raise BadInput(f"rate_by_hour states {start:g} h twice")
        known[start] = number("rate", rate, 0.0, _MOST_RATE)
    if not known or not any(known.values()):
        raise BadInput(f"rate_by_hour has no requests all day; write {_EXAMPLE}")
    return tuple(sorted(known.items()))


def mean_rate(rates: Sequence[tuple[float, float]]) -> float:
    """Mean over a day of rates from an hour on [1/s].

    >>> mean_rate(((8.0, 6.0), (20.0, 2.0)))
    4.0
    """
    ends = [hour for hour, _ in rates[1:]] + [rates[0][0] + HOURS]
    return sum(rate * (end - hour) for (hour, rate), end in zip(rates, ends, strict=True)) / HOURS


def _pair(text: str) -> tuple[float, float]:
    hour, colon, rate = text.strip().partition(":")
    try:
        return float(hour.strip().removesuffix("h")), rate_of_text(rate)
    except (ValueError, BadInput):
        what = "" if colon else " has no hour"
        raise BadInput(f"{shown(text)}{what or ' is not an hour and a rate'}; write {_EXAMPLE}") from None


def _of_file(path: str) -> list[tuple[float, float]]:
    """Rates of a CSV file that has all hours of a day."""
    try:
        reader = csv.DictReader(StringIO(content(path, RESULT_BYTES, "rates by hour").decode("utf-8-sig")))
        rows = list(reader)
    except Unreadable as fault:
        raise BadInput(f"{path}: {fault}") from None
    except (UnicodeDecodeError, csv.Error) as fault:
        raise BadInput(f"{path}: not a CSV file: {fault}") from None
    names = [name for name in ("rate", "request_rate") if name in (reader.fieldnames or ())]
    if "hour" not in (reader.fieldnames or ()) or not names:
        raise BadInput(f"{path} needs columns hour and rate")
    pairs = [_pair(f"{row['hour']}:{row[names[0]]}") for row in rows]
    missing = sorted(set(range(int(HOURS))) - {int(hour) for hour, _ in pairs if float(hour).is_integer()})
    if missing:
        raise BadInput(f"{path} has no rate for hour {', '.join(map(str, missing))}")
    return pairs
