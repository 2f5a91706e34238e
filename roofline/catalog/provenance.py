"""Figures of a specification, each with its source, date, note and confidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.errors import BadInput
from roofline.quantity import DIMENSIONS, count_from_text, from_text
from roofline.records import NamedTuple

_PROVENANCE = ("source", "note", "confidence")


class Figure(NamedTuple):
    """One figure of a specification and its provenance."""

    field: str
    value: str
    source: str  # title of the source
    url: str
    date: str
    note: str
    confidence: str


def figures(content: Mapping[str, Any]) -> list[Figure]:
    """All figures of a specification in the order of the file."""
    return list(_walk("", content, content.get("sources", {})))


def sources(content: Mapping[str, Any]) -> list[Figure]:
    """The sources of a specification, with their keys as `field`."""
    return [
        Figure(key, "", str(entry["title"]), str(entry.get("url", "")), str(entry["date"]), "", "")
        for key, entry in content.get("sources", {}).items()
    ]


def si_value(field: str, text: object) -> tuple[float, str] | None:
    """SI value and unit of a figure; None if it is neither a quantity nor a count.

    >>> si_value("memory.bandwidth", "3.35 TB/s")
    (3350000000000.0, 'B/s')
    """
    value = int(text) if isinstance(text, str) and text.isdecimal() else text
    if field.startswith("parameters."):
        return count_from_text(value), "1"
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value), "1"
    for dimension in DIMENSIONS:
        try:
            return from_text(text, dimension), dimension
        except BadInput:  # the units of the dimensions are disjoint
            continue
    return None


def with_si(content: Mapping[str, Any]) -> dict[str, Any]:
    """A specification with `si_value` and `si_unit` added to its figures; those of a price are by key."""
    return {key: item if key == "sources" else _add_si(str(key), item) for key, item in content.items()}


def _add_si(field: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_add_si(field, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "source" not in value:
        return {key: _add_si(f"{field}.{key}", item) for key, item in value.items()}
    if "value" in value:
        quantity = si_value(field, value["value"])
        return {**value, **({} if quantity is None else {"si_value": quantity[0], "si_unit": quantity[1]})}
    quantities = {key: si_value(key, item) for key, item in value.items() if key not in _PROVENANCE}
    numbers = {key: quantity[0] for key, quantity in quantities.items() if quantity is not None}
    units = {quantity[1] for quantity in quantities.values() if quantity is not None}
    return {**value, **({"si_value": numbers, "si_unit": units.pop()} if len(units) == 1 else {})}


def _walk(prefix: str, value: Any, known: Mapping[str, Any]) -> Iterator[Figure]:
    """Figures below a value: the mappings that name a source."""
    if not isinstance(value, Mapping):
        return
    if "source" in value and value["source"] in known:
        source = known[value["source"]]
        figure = value.get("value")
        if figure is None:
            figure = ", ".join(f"{key} {item}" for key, item in value.items() if key not in _PROVENANCE)
        yield Figure(
            prefix,
            str(figure),
            str(source["title"]),
            str(source.get("url", "")),
            str(source["date"]),
            str(value.get("note", "")),
            str(value.get("confidence", "")),
        )
        return
    for key, item in value.items():
        if key != "sources":
            yield from _walk(f"{prefix}.{key}" if prefix else str(key), item, known)
