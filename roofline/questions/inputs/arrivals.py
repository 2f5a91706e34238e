"""Arrivals of a request rate as callers write them: a text, a trace or a mapping; and the router of its replicas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from roofline.numbers.quantity import HOUR, KILO, MICRO
from roofline.questions.inputs.arguments import number
from roofline.specs.arrivals import POISSON, RANDOM, ROUTERS, Point, Process
from roofline.specs.written import read_as, time_of_text
from roofline.support.errors import BadInput, check_known, shown
from roofline.support.records import replace

_INDEX = "idc"
_EXAMPLE = "poisson, idc:1s=1.4,10s=3.9 (variance over mean of the requests in 1 s and in 10 s), or a trace.csv"
_MOST_INDEX = 100.0 * KILO
_MOST_POINTS = 100


def process_of(arrivals: Any, router: Any) -> Process | None:
    """How requests arrive at replicas; None for Poisson arrivals that are split at random.

    >>> process_of("idc:1s=1.4,10s=3.9", None).points
    (Point(window=1.0, dispersion=1.4), Point(window=10.0, dispersion=3.9))
    >>> process_of("poisson", "random") is None
    True
    """
    process = _process(arrivals)
    if router is not None:
        check_known("router", router, ROUTERS)
        process = replace(process, router=router)
    return None if process.is_poisson and process.router == RANDOM else process


def _process(arrivals: Any) -> Process:
    if arrivals is None or isinstance(arrivals, Process):
        return arrivals or Process()
    if isinstance(arrivals, Mapping):
        return _with_points(arrivals.items(), arrivals)
    if not (isinstance(arrivals, str) or hasattr(arrivals, "__fspath__")):
        raise BadInput(f"arrivals = {shown(arrivals)} must be {_EXAMPLE}")
    text = str(arrivals).strip()
    kind, colon, rest = text.partition(":")
    if kind.strip().lower() == _INDEX and colon:
        return _with_points([_pair(part, text) for part in rest.split(",")], text)
    if text.lower() == POISSON:
        return Process()
    if isinstance(arrivals, str) and not re.search(r"[./\\]", text):
        raise BadInput(f"arrivals = {shown(arrivals)} must be {_EXAMPLE}")
    from roofline.measurements.arrivals import read_arrivals

    return read_arrivals(text)


def _pair(part: str, whole: str) -> tuple[Any, Any]:
    window, equals, index = part.strip().partition("=")
    if not equals:
        raise BadInput(f"arrivals = {shown(whole)}: {shown(part)} has no index; write {_EXAMPLE}")
    return read_as(f"arrivals = {shown(whole)}: ", partial(time_of_text, needs_unit=True), window), index


def _with_points(pairs: Any, written: Any) -> Process:
    """A process with an index of dispersion by window [s]."""
    known: dict[float, float] = {}
    for given, value in pairs:
        window = (
            read_as("arrivals: ", partial(time_of_text, needs_unit=True), given) if isinstance(given, str) else given
        )
        window = number("the window of arrivals", window, MICRO, 24.0 * HOUR)
        try:
            index = float(value)
        except (TypeError, ValueError):
            raise BadInput(f"arrivals = {shown(written)}: {shown(value)} is not an index; write {_EXAMPLE}") from None
        if window in known:
            raise BadInput(f"arrivals = {shown(written)} state {window:g} s twice")
        known[window] = number("the index of dispersion", index, 0.0, _MOST_INDEX)
    if not known or len(known) > _MOST_POINTS:
        raise BadInput(f"arrivals = {shown(written)} must have from 1 to {_MOST_POINTS} windows; write {_EXAMPLE}")
    return Process(tuple(Point(*each) for each in sorted(known.items())), source=_INDEX)
