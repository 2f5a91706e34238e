"""Fields of a benchmark's result: what a document says under its own keys, as numbers, texts and seconds.

What a document does not state is None here; what it states in a form that cannot be is refused with the
file and the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from roofline.errors import BadInput, shown

__all__ = ["STATISTICS", "Fields", "JsonNode", "as_list", "day", "first", "measured_times", "the_one"]

#: Statistic -> what tools call it; without a choice the first that a result states.
STATISTICS: Mapping[str, tuple[str, ...]] = {"median": ("median", "p50"), "mean": ("mean", "avg"), "p99": ("p99",)}

Fields = dict[str, Any]

_Value = TypeVar("_Value")


class JsonNode:
    """A mapping of a document, and where it stands, for messages."""

    def __init__(self, data: object, source: str, path: str = "") -> None:
        self.data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        self.source, self.path = source, path

    def at(self, *keys: str) -> JsonNode:
        """Mapping below; an empty one where there is none."""
        node = self
        for key in keys:
            node = JsonNode(node.data.get(key), self.source, f"{node.path}{key}.")
        return node

    def number(self, key: str) -> float | None:
        """Finite number that is not negative; None where it is absent or null."""
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
        """Number that may be infinite, in JSON or in words; None where it is absent or null."""
        value = self.data.get(key)
        if value in ("inf", "Infinity") or value == math.inf:
            return math.inf
        return self.number(key)

    def whole(self, key: str) -> int | None:
        """Whole number, also one in words, as the metadata of vLLM has it; None where it is absent, null or empty."""
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
        """Text; None where it is absent, null, empty or something else."""
        value = self.data.get(key)
        return value.strip() or None if isinstance(value, str) else None

    def first_text(self, *keys: str) -> str | None:
        """First of several texts that is there."""
        return first(map(self.text, keys))


def measured_times(
    result: JsonNode, statistic: str | None, time: Callable[[str, str], float | None], unit: float = 1.0
) -> dict[str, Any]:
    """Measured times at the statistic that was asked for, else at the first that the result states.

    Args:
        result: where they stand, for the message.
        statistic: one of `STATISTICS`; None for the first that is there [text].
        time: the value of a metric (ttft, tpot, e2el) at a statistic, or None [function].
        unit: what the values are in [s].

    Returns:
        `ttft`, `tpot` and `e2el` in seconds, and the `statistic`.

    Raises:
        BadInput: neither ttft nor tpot is there.
    """
    for name in STATISTICS if statistic is None else (statistic,):
        found = {metric: time(name, metric) for metric in ("ttft", "tpot", "e2el")}
        if found["ttft"] is not None or found["tpot"] is not None:
            return {"statistic": name, **{key: None if value is None else value * unit for key, value in found.items()}}
    raise BadInput(
        f"{result.source}: {result.path.rstrip('.') or 'the result'} has neither ttft nor tpot"
        + ("; measure with streaming" if statistic is None else f" ({statistic})")
    )


def first(values: Iterable[_Value | None]) -> _Value | None:
    """The first value that is there.

    Args:
        values: candidates, None where there is none [any].

    Returns:
        The value, or None [any].

    >>> first([None, 0.0, 1.0])
    0.0
    """
    return next((value for value in values if value is not None), None)


def the_one(names: Iterable[str | None]) -> str | None:
    """The name on which all agree.

    Args:
        names: candidates, None where there is none [text].

    Returns:
        The name; None where there is none or several differ [text].

    >>> the_one(["h100", None, "h100"]), the_one(["h100", "h200"])
    ('h100', None)
    """
    found = {name for name in names if name}
    return found.pop() if len(found) == 1 else None


def as_list(value: object) -> list[Any]:
    """What is a list, or a text that stands for a list of one.

    Args:
        value: of a document [any].

    Returns:
        The list; empty for anything else [any].

    >>> as_list("h100"), as_list(None)
    (['h100'], [])
    """
    return value if isinstance(value, list) else [value] if isinstance(value, str) and value else []


def day(stamp: str | None) -> str | None:
    """Date at the beginning of a time stamp.

    Args:
        stamp: such as ``2026-11-21T10:15:00`` or ``20261121-101500`` [text].

    Returns:
        ISO date, or None [text].

    >>> day("20261121-101500")
    '2026-11-21'
    """
    match = re.match(r"(\d{4})-?(\d\d)-?(\d\d)", stamp or "")
    return "-".join(match.groups()) if match else None
