"""Limits on latencies, as callers write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.api.inputs.arguments import number, scalar
from roofline.errors import BadInput, shown
from roofline.grammar.numbers import time_of_text
from roofline.quantity import BILLION, MILLI, MINUTE, rounded
from roofline.specs.slo import (
    LATENCIES,
    P99_WITHIN,
    SLO_EXAMPLE,
    Limits,
    check_limits,
    is_stated,
    key_of,
    key_text,
    limits_of_text,
    limits_words,
    metric_and_level,
    ratio_of_text,
)

__all__ = [
    "LATENCIES",
    "P99_WITHIN",
    "Limits",
    "key_text",
    "limits_words",
    "ratio_of_text",
    "slo_limits",
    "with_p99_within",
]


def slo_limits(slo: Any) -> Limits | None:
    """Limits in seconds; bare numbers are ms in a text, seconds in a mapping."""
    slo = scalar(slo) if not isinstance(slo, Mapping) else slo
    if slo is None:
        return None
    if isinstance(slo, str):
        return limits_of_text(slo)
    if type(slo) is Limits:
        check_limits(slo)
        return slo
    if not isinstance(slo, Mapping):
        example = "{'ttft': 0.3}"
        raise BadInput(
            f"slo = {shown(slo)} must be a mapping of limits in seconds, such as {example}, or {SLO_EXAMPLE!r}"
        )
    limits = Limits()
    for name, limit in slo.items():
        metric, level = metric_and_level(scalar(name))
        text = scalar(limit)
        if isinstance(text, str) and "@" in text and not is_stated(str(scalar(name))):
            text, _, level_text = text.partition("@")
            _, level = metric_and_level(f"{metric}@{level_text.strip()}")
        key = key_of(metric, level)
        if key in limits:
            raise BadInput(f"{key!r} is limited twice in {shown(slo)}; keep one")
        if key == P99_WITHIN:
            limits[key] = ratio_of_text(text) if isinstance(text, str) else number(key, text, 1.0, BILLION)
        else:
            limits[key] = _time_limit(f"SLO {name}", text)
    check_limits(limits)
    return limits


def with_p99_within(slo: Limits | None, within: float) -> Limits:
    """Limits with one on the p99 over the median added [1]."""
    if slo is not None and P99_WITHIN in slo:
        raise BadInput("the SLO already limits the p99 over the median; state it once")
    return Limits({**(slo or {}), P99_WITHIN: within})


def _time_limit(name: str, value: Any) -> float:
    """A limit on a latency [s]; a bare number over a minute is refused as milliseconds."""
    time = scalar(value)
    if isinstance(time, str):
        return _parsed_time(name, time)
    if type(time) not in (float, int) or not 0.0 < time <= BILLION:
        raise BadInput(f"{name} = {shown(value)} must be a positive, finite time in seconds")
    if MINUTE < time < BILLION:  # a billion, the largest number, is no limit at all
        text = shown(time)
        raise BadInput(
            f"{name} = {text} is over a minute (bare numbers are seconds); write {rounded(time * MILLI)} for "
            f"{text} ms, or {text + ' s'!r} if that is meant"
        )
    return float(time)


def _parsed_time(name: str, text: str) -> float:
    try:
        time = time_of_text(text, needs_unit=True)
    except BadInput:
        time = 0.0
    if not 0.0 < time <= BILLION:
        raise BadInput(f"{name} = {shown(text)} must be a time in seconds, such as 0.3 or '300 ms'")
    return time
