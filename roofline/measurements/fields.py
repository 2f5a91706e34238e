"""Fields of a benchmark result: numbers, texts and times under the keys of its document.

A field that is not there is None; one that cannot be right is refused with its file and key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from roofline.errors import BadInput, shown

#: Statistic -> its names in result files; without a choice, the first that a result has.
STATISTICS: Mapping[str, tuple[str, ...]] = {"median": ("median", "p50"), "mean": ("mean", "avg"), "p99": ("p99",)}

Fields = dict[str, Any]

_Value = TypeVar("_Value")


class JsonNode:
    """A mapping inside a document, with its place for messages."""

    def __init__(self, data: object, source: str, path: str = "") -> None:
        self.data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        self.source, self.path = source, path

    def at(self, *keys: str) -> JsonNode:
        """The mapping under some keys; empty where there is none."""
        node = self
        for key in keys:
            node = JsonNode(node.data.get(key), self.source, f"{node.path}{key}.")
        return node

    def number(self, key: str) -> float | None:
        """Finite number, at least 0; None where absent or null."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            raise BadInput(f"{self.source}: {self.path}{key} = {shown(value)} must be a number, not text")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BadInput(f"{self.source}: {self.path}{key} = {shown(value)} must be a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise BadInput(f"{self.source}: {self.path}{key} = {shown(value)} must be finite")
        if number < 0.0:
            raise BadInput(f"{self.source}: {self.path}{key} = {shown(value)} must not be negative")
        return number

    def rate(self, key: str) -> float | None:
        """Number that may be infinite, also as text; None where absent or null."""
        value = self.data.get(key)
        if value in ("inf", "Infinity") or value == math.inf:
            return math.inf
        return self.number(key)

    def whole(self, key: str) -> int | None:
        """Whole number, also as text, as in the metadata of vLLM; None where absent, null or empty."""
        value = self.data.get(key)
        if isinstance(value, str):
            if not value.strip():
                return None
            if re.fullmatch(r"\d{1,9}", value.strip()):
                return int(value)
            raise BadInput(f"{self.source}: {self.path}{key} = {shown(value)} must be a whole number")
        number = self.number(key)
        if number is not None and not number.is_integer():
            raise BadInput(f"{self.source}: {self.path}{key} = {shown(value)} must be a whole number")
        return None if number is None else int(number)

    def text(self, key: str) -> str | None:
        """Text; None where absent, null, empty or no text."""
        value = self.data.get(key)
        return value.strip() or None if isinstance(value, str) else None

    def first_text(self, *keys: str) -> str | None:
        """First of several texts that is present."""
        return first(map(self.text, keys))


def measured_times(
    result: JsonNode, statistic: str | None, time: Callable[[str, str], float | None], unit: float = 1.0
) -> dict[str, Any]:
    """TTFT, TPOT and E2EL [s] at a statistic, by default the first that the result has.

    `time` gives a metric at a statistic in multiples of `unit` [s], or None.
    """
    for name in STATISTICS if statistic is None else (statistic,):
        times = {metric: time(name, metric) for metric in ("ttft", "tpot", "e2el")}
        if times["ttft"] is not None or times["tpot"] is not None:
            return {"statistic": name, **{key: None if value is None else value * unit for key, value in times.items()}}
    raise BadInput(
        f"{result.source}: {result.path.rstrip('.') or 'the result'} has neither ttft nor tpot"
        + ("; measure with streaming" if statistic is None else f" ({statistic})")
    )


def first(values: Iterable[_Value | None]) -> _Value | None:
    """First value that is not None.

    >>> first([None, 0.0, 1.0])
    0.0
    """
    return next((value for value in values if value is not None), None)


def the_one(names: Iterable[str | None]) -> str | None:
    """The one name among the texts; None where there is none or several.

    >>> the_one(["h100", None, "h100"]), the_one(["h100", "h200"])
    ('h100', None)
    """
    distinct = {name for name in names if name}
    return distinct.pop() if len(distinct) == 1 else None


def as_list(value: object) -> list[Any]:
    """A list as it is, a text as a list of one, anything else as an empty list.

    >>> as_list("h100"), as_list(None)
    (['h100'], [])
    """
    return value if isinstance(value, list) else [value] if isinstance(value, str) and value else []


def day(stamp: str | None) -> str | None:
    """ISO date at the beginning of a time stamp, or None.

    >>> day("20261121-101500")
    '2026-11-21'
    """
    match = re.match(r"(\d{4})-?(\d\d)-?(\d\d)", stamp or "")
    return "-".join(match.groups()) if match else None
