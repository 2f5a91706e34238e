"""Where the figures of a specification come from: each with its value, source, date, note and confidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.errors import BadInput
from roofline.quantity import DIMENSIONS, count_from_text, from_text
from roofline.records import NamedTuple

__all__ = ["Figure", "figures", "si_value", "sources", "with_si"]

_PROVENANCE = ("source", "note", "confidence")


class Figure(NamedTuple):
    """One stated figure of a specification, with where it comes from."""

    field: str
    value: str
    source: str  # title
    url: str
    date: str
    note: str
    confidence: str


def figures(content: Mapping[str, Any]) -> list[Figure]:
    """Every figure of a specification with its source and date, in the order of the file.

    Args:
        content: the mapping of the file.

    Returns:
        The figures.
    """
    return list(_walk("", content, content.get("sources", {})))


def sources(content: Mapping[str, Any]) -> list[Figure]:
    """The sources that a specification names.

    Args:
        content: the mapping of the file.

    Returns:
        One entry a source; its key is in `field`.
    """
    return [
        Figure(key, "", str(entry["title"]), str(entry.get("url", "")), str(entry["date"]), "", "")
        for key, entry in content.get("sources", {}).items()
    ]


def si_value(field: str, text: object) -> tuple[float, str] | None:
    """SI value of what a figure states.

    Args:
        field: where the figure is, e.g. ``memory.bandwidth`` [text].
        text: the value as it is written, e.g. ``3.35 TB/s`` [text].

    Returns:
        Value and unit; None for what is neither a quantity nor a count [any].

    >>> si_value("memory.bandwidth", "3.35 TB/s")
    (3350000000000.0, 'B/s')
    """
    whole = int(text) if isinstance(text, str) and text.isdecimal() else text
    if field.startswith("parameters."):
        return count_from_text(whole), "1"
    if isinstance(whole, int) and not isinstance(whole, bool):
        return float(whole), "1"
    for dimension in DIMENSIONS:
        try:
            return from_text(text, dimension), dimension
        except BadInput:  # the units of the dimensions are disjoint
            continue
    return None


def with_si(content: Mapping[str, Any]) -> dict[str, Any]:
    """A specification as it is written, with SI values beside its texts.

    Args:
        content: the mapping of the file.

    Returns:
        The mapping; figures have ``si_value`` and ``si_unit``, a price has both for each of its three.
    """
    return {key: item if key == "sources" else _beside(str(key), item) for key, item in content.items()}


def _beside(field: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_beside(field, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "source" not in value:
        return {key: _beside(f"{field}.{key}", item) for key, item in value.items()}
    if "value" in value:
        found = si_value(field, value["value"])
        return {**value, **({} if found is None else {"si_value": found[0], "si_unit": found[1]})}
    read = {key: si_value(key, item) for key, item in value.items() if key not in _PROVENANCE}
    numbers = {key: found[0] for key, found in read.items() if found is not None}
    units = {found[1] for found in read.values() if found is not None}
    return {**value, **({"si_value": numbers, "si_unit": units.pop()} if len(units) == 1 else {})}


def _walk(prefix: str, value: Any, known: Mapping[str, Any]) -> Iterator[Figure]:
    """Figures below a value: mappings that name a source."""
    if not isinstance(value, Mapping):
        return
    if "source" in value and value["source"] in known:
        source = known[value["source"]]
        stated = value.get("value")
        if stated is None:
            rest = {key: item for key, item in value.items() if key not in _PROVENANCE}
            stated = ", ".join(f"{key} {item}" for key, item in rest.items())
        yield Figure(
            prefix,
            str(stated),
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
