"""Figures that callers name: keys of a row, and which side of them is better."""

from __future__ import annotations

from typing import Any

from roofline.questions.inputs.arguments import scalar
from roofline.serving.shown import KEYS
from roofline.specs.keys import better
from roofline.support.errors import BadInput, UnknownName, did_you_mean, shown


def figure_key(name: str, key: Any, x: str, y: str) -> str:
    """A key of a row with a better side; latencies may leave out their unit. `x` and `y` are examples."""
    plain = scalar(key)
    if not isinstance(plain, str):
        raise BadInput(f"{name} = {shown(key)} must be a key of a row, such as {x}")
    known = with_unit(plain)
    if known not in KEYS:
        raise UnknownName(f"unknown key {shown(key)} of a figure{near_figures(plain)}")
    if better(KEYS[known]) is None:
        sides = "a latency or a price (less is better), or a rate (more is better)"
        raise BadInput(f"{name} = {known} has no better side; choose {sides}, such as ttft_p99_ms or {y}")
    return known


def with_unit(key: str) -> str:
    """A key of a row; those of latencies may leave out ``_ms``."""
    return f"{key}_ms" if key not in KEYS and f"{key}_ms" in KEYS else key


def near_figures(key: str) -> str:
    """The end of a message about an unknown key of a figure."""
    from difflib import get_close_matches

    near = did_you_mean(get_close_matches(key, [key for key in KEYS if better(KEYS[key]) is not None]))
    return f"{near}; docs/glossary.md has those of rows"
