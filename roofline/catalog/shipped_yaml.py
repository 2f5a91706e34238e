"""Fast reader of the YAML subset of the shipped files: texts, whole numbers, decimals, true, false and null.

PyYAML's safe loader spends half of its time on resolving and constructing scalars. The tests compare both on every
shipped file; users' files go through `yaml_lines`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)").fullmatch
_DECIMAL = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?").fullmatch
_DATED = r"^  {}:\n(?:    .*\n)*?    date: (\S+)"  # of a source


def content_of_text(text: str) -> dict[str, Any]:
    """Content of a shipped specification; dates stay text.

    >>> content_of_text("name: a\\ndomain: {value: 8, source: sheet}")
    {'name': 'a', 'domain': {'value': 8, 'source': 'sheet'}}
    """
    loader = _LOADER(text)
    try:
        loader.get_event()  # of the stream
        loader.get_event()  # of the document
        content: dict[str, Any] = _value(loader.get_event(), loader.get_event, {})
    finally:
        loader.dispose()
    return content


def figures_of_text(text: str) -> dict[str, Any]:
    """Content of a shipped specification without its sources, half of the file; only the date of a price is kept."""
    figures, _, sources = text.partition("\nsources:\n")
    content = content_of_text(figures)
    price = content.get("price")
    if price is not None:
        dated = re.search(_DATED.format(re.escape(price["source"])), sources, re.MULTILINE)
        content["sources"] = {} if dated is None else {price["source"]: {"date": dated[1]}}
    return content


def _value(event: Any, following: Callable[[], Any], anchors: dict[str, Any]) -> Any:
    """Value that begins with an event; `following` returns the next one."""
    kind = type(event)
    if kind is yaml.ScalarEvent:
        return event.value if event.style else _plain(event.value)
    if kind is yaml.AliasEvent:
        return anchors[event.anchor]
    value: Any = {} if kind is yaml.MappingStartEvent else []
    if event.anchor is not None:
        anchors[event.anchor] = value
    if kind is yaml.MappingStartEvent:
        while type(key := following()) is yaml.ScalarEvent:
            value[key.value] = _value(following(), following, anchors)
    else:
        while type(item := following()) is not yaml.SequenceEndEvent:
            value.append(_value(item, following, anchors))
    return value


def _plain(text: str) -> Any:
    """Value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-0123456789":
        if _WHOLE(text):
            return int(text)
        if _DECIMAL(text):
            return float(text)
    return text
