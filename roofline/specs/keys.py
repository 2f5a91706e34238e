"""One key of a row of the JSON contract: its kind, unit and meaning, and how an answer gives its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from roofline.support.records import NamedTuple

Answer = TypeVar("Answer")
Value: TypeAlias = Callable[[Answer], Any] | None  # of a key, from an answer; None: the attribute of its name


class Key(NamedTuple, Generic[Answer]):
    kind: str  # text, number, integer, flag, texts, mapping, or value: a number or a text with unit
    unit: str | None  # None for what has none
    meaning: str
    of: Value[Answer] = None
    is_open: bool = True  # may be null

    @classmethod
    def text(cls, meaning: str, of: Value[Answer] = None, *, is_open: bool = True) -> Key[Answer]:
        return cls("text", None, meaning, of, is_open)

    @classmethod
    def number(cls, unit: str, meaning: str, of: Value[Answer] = None, *, is_open: bool = True) -> Key[Answer]:
        return cls("number", unit, meaning, of, is_open)

    @classmethod
    def integer(cls, unit: str, meaning: str, of: Value[Answer] = None) -> Key[Answer]:
        return cls("integer", unit, meaning, of)

    @classmethod
    def flag(cls, meaning: str, of: Value[Answer] = None, *, is_open: bool = True) -> Key[Answer]:
        return cls("flag", None, meaning, of, is_open)

    @classmethod
    def texts(cls, meaning: str, of: Value[Answer] = None) -> Key[Answer]:
        return cls("texts", None, meaning, of, is_open=False)


Keys: TypeAlias = dict[str, Key[Answer]]  # of a row, in order


def cells(keys: Mapping[str, Key[Answer]], answer: Answer) -> dict[str, Any]:
    """Values of an answer by the keys of its row."""
    return {name: getattr(answer, name) if key.of is None else key.of(answer) for name, key in keys.items()}


#: Side of a figure that is better, by its unit: less of times and prices, more of rates.
_BETTER = {"ms": -1.0, "USD": -1.0, "USD/h": -1.0, "1/s": 1.0}


def better(key: Key[Any]) -> float | None:
    """1.0 where more of a figure is better, -1.0 where less is; None where neither is."""
    return _BETTER.get(key.unit or "")


def taken(keys: Mapping[str, Key[Any]], **of: Value[Answer]) -> Keys[Answer]:
    """Keys of another row by their names, each with the way to its value here."""
    return {name: keys[name]._replace(of=value) for name, value in of.items()}


#: Latencies by the beginning of their keys.
LATENCY_NAMES = {
    "ttft": "Time to first token",
    "tpot": "Mean time per output token after the first",
    "itl": "Inter-token latency",
    "e2el": "End-to-end latency",
}
#: What their means and percentiles are over.
OVER = {"ttft": "requests", "tpot": "requests", "itl": "gaps of all requests", "e2el": "requests"}
#: Keys that rows of several questions have and a prediction has not.
SHARED: Keys[Any] = {
    "reason": Key.text("Why there is no answer, or why it is not known; null or empty otherwise."),
    "goodput": Key.number("1/s", "The largest request rate at which the SLO is met; null without one."),
    "quantization": Key.text("Preset of number formats; null for the checkpoint's own."),
    "result": Key.text("Latency or throughput that is asked about.", is_open=False),
    "kind": Key.text("Kind of the input or of the kernel.", is_open=False),
    "value": Key("value", "as `unit`", "Value of the input, of the result or of the figure."),
    "unit": Key.text("Unit of the value.", is_open=False),
    "formula": Key.text("Closed form."),
    "regime": Key.text("What bounds the case, and until when."),
    "symbols": Key("mapping", None, "Values of the symbols of the formula."),
    "pass": Key.text("Prefill or decode.", is_open=False),
    "kernel": Key.text("Name of the kernel.", is_open=False),
    "part": Key.text("Part of the model or of the time.", is_open=False),
    "share": Key.number("1", "Share of the time, or of the requests; null where limits are on means."),
    "bound": Key.text("What it waits for."),
    "total_us": Key.number("us", "Time of all runs.", is_open=False),
    "factor": Key.number("1", "How many times as long the part would take to explain the gap."),
    "slo": Key.text("Its limits."),
    "flags": Key.texts(
        "Options of the serving engine that do it, as they are typed; those of vLLM where the case names none."
    ),
    "source": Key.text("File, or where a figure comes from."),
    "url": Key.text("Address of the source."),
    "why": Key.text("Why."),
    "date": Key.text("Date of the measurement or of the source."),
    "note": Key.text("How the figure was worked out."),
    "aliases": Key.texts("Further names that look-up takes."),
    "options": Key("mapping", None, "Keyword arguments of predict (or of disaggregate) that make the case."),
}
