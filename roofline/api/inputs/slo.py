"""Limits on latencies as a caller writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.api.inputs.arguments import number, scalar
from roofline.errors import BadInput, shown
from roofline.grammar.numbers import time_of_text
from roofline.quantity import BILLION, MILLI, MINUTE, rounded
from roofline.specs.slo import (
    P99_WITHIN,
    SLO_EXAMPLE,
    Limits,
    check_limits,
    key_of,
    limits_of_text,
    metric_and_level,
    ratio_of_text,
)

__all__ = ["Limits", "ratio_of_text", "slo_limits", "time_limit", "with_p99_within"]


def slo_limits(slo: Any) -> Limits | None:
    """Limits on latencies in seconds.

    Args:
        slo: a text such as ``ttft:300@p95,tpot:25ms``, bare numbers in ms as in the shell; or a mapping such as
            ``{"ttft@p95": 0.3, "e2el": "8 s", "p99_within": 2}``, bare numbers in seconds [s].

    Returns:
        The limits; None where there are none at all.

    Raises:
        UnknownName: a key that is none.
        BadInput: neither, a limit that is not positive, one so long that milliseconds must be meant, a percentile
            that is none.
    """
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
    found = Limits()
    for given, limit in slo.items():
        metric, level = metric_and_level(scalar(given))
        text = scalar(limit)
        if isinstance(text, str) and "@" in text and level is None:
            text, _, level_text = text.partition("@")
            _, level = metric_and_level(f"{metric}@{level_text.strip()}")
        key = key_of(metric, level)
        if key in found:
            raise BadInput(f"{key!r} is limited twice in {shown(slo)}; keep one")
        if key == P99_WITHIN:
            found[key] = ratio_of_text(text) if isinstance(text, str) else number(key, text, 1.0, BILLION)
        else:
            found[key] = time_limit(f"SLO {given}", text)
    check_limits(found)
    return found


def with_p99_within(slo: Limits | None, within: float) -> Limits:
    """Limits, and one on the p99 over the median.

    Args:
        slo: limits by their keys; None for none [s].
        within: multiple of the median [1].

    Returns:
        All of them.

    Raises:
        BadInput: the limits state such a multiple themselves.
    """
    if slo is not None and P99_WITHIN in slo:
        raise BadInput("the SLO already limits the p99 over the median; state it once")
    return Limits({**(slo or {}), P99_WITHIN: within})


def time_limit(name: str, value: Any) -> float:
    """A limit on a latency: a bare number is in seconds.

    Args:
        name: of the limit, for the message [text].
        value: the limit; a text may say its unit, such as ``300 ms`` [s].

    Returns:
        The limit [s].

    Raises:
        BadInput: not positive, or so long that milliseconds must be meant.
    """
    found = scalar(value)
    if isinstance(found, str):
        return _stated(name, found)
    if type(found) not in (float, int) or not 0.0 < found <= BILLION:
        raise BadInput(f"{name} = {shown(value)} must be a positive, finite time in seconds")
    if MINUTE < found < BILLION:  # a billion, the most, is no limit at all
        said = shown(found)
        raise BadInput(
            f"{name} = {said} is over a minute (bare numbers are seconds); write {rounded(found * MILLI)} for "
            f"{said} ms, or {said + ' s'!r} if that is meant"
        )
    return float(found)


def _stated(name: str, text: str) -> float:
    """A limit that says its unit."""
    try:
        found = time_of_text(text, needs_unit=True)
    except BadInput:
        found = 0.0
    if not 0.0 < found <= BILLION:
        raise BadInput(f"{name} = {shown(text)} must be a time in seconds, such as 0.3 or '300 ms'")
    return found
