"""Limits on latencies: one grammar for the command line, Python and files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from roofline.errors import BadInput, UnknownName, shown
from roofline.quantity import BILLION, MILLI, duration, rounded, to_text

#: Latencies that may be limited, in the mean or at a percentile.
LATENCIES = ("ttft", "tpot", "e2el")

#: Percentiles in answers [%].
LEVELS = (50.0, 90.0, 95.0, 99.0)

#: Key of the limit on tail latency: p99 over median, of TTFT and TPOT [1].
P99_WITHIN = "p99_within"

SLO_EXAMPLE = "ttft:300@p95,tpot:25,e2el:8s@p99"

_BENCHMARKS = {"time_to_first_token": "ttft", "inter_token_latency": "tpot", "request_latency": "e2el"}  # AIPerf's
_ALIASES = {
    **_BENCHMARKS,
    "itl": "tpot",
    "e2e": "e2el",
    "latency": "e2el",
    "p99": P99_WITHIN,
    "p99-within": P99_WITHIN,
}
_KEY = rf"({'|'.join(_BENCHMARKS)}|[a-z0-9]+)(?:[_@]?p([0-9.]+))?"
_PART = r"([a-z0-9_\-]+(?:@p[0-9.]+)?)\s*:\s*([^@]*?)\s*(?:@\s*(\S+))?"
_BETWEEN = r"\s*,\s*|\s+(?=[A-Za-z][\w\-@.]*\s*:)"
_SLOW = ("ttft", "e2el")  # a bare fraction of a millisecond must have been meant as seconds
_MOST = 200  # characters of an SLO
_DIGITS = 6  # significant, of a limit


class Limits(dict[str, float]):
    """Limits [s] by key, such as `ttft`, `ttft_p95` or `p99_within` [1]."""


def key_of(metric: str, level: float | None = None) -> str:
    """Key of a limit on a latency or its alias, at a percentile [%]; None for the mean.

    >>> key_of("itl"), key_of("ttft", 95.0)
    ('tpot', 'ttft_p95')
    """
    known = _ALIASES.get(metric, metric)
    if known == P99_WITHIN and level is None:
        return known
    if known not in LATENCIES:
        raise UnknownName(
            f"unknown SLO key {shown(metric)}; choose from {', '.join(LATENCIES)}, as in {SLO_EXAMPLE}, or {P99_WITHIN}"
        )
    if level is None:
        return known
    if not 0.0 < level < 100.0:
        raise BadInput(f"p{level:g} is not a percentile; it must be between p0 and p100, such as p95")
    return f"{known}_p{_level_text(level)}"


def metric_and_level(key: str) -> tuple[str, float | None]:
    """Latency (or `P99_WITHIN`) and percentile [%] of a key; None for the mean.

    >>> metric_and_level("ttft_p95"), metric_and_level("e2el")
    (('ttft', 95.0), ('e2el', None))
    """
    if not isinstance(key, str):
        raise UnknownName(f"unknown SLO key {shown(key)}; choose from {', '.join(LATENCIES)}")
    name = key.strip().lower()
    if name == P99_WITHIN or _ALIASES.get(name) == P99_WITHIN:
        return P99_WITHIN, None
    match = re.fullmatch(_KEY, name)
    if match is None:
        key_of(name)
        raise UnknownName(f"unknown SLO key {shown(key)}; choose from {', '.join(LATENCIES)}")
    level = None if match[2] is None else _percentile(match[2], key)
    key_of(match[1], level)
    return _ALIASES.get(match[1], match[1]), level


def limits_of_text(text: str) -> Limits:
    """Limits [s] from text; bare numbers are milliseconds.

    >>> limits_of_text("ttft:300@p95, e2el:8s, p99:2x")
    {'ttft_p95': 0.3, 'e2el': 8.0, 'p99_within': 2.0}
    """
    limits = Limits()
    if len(text) > _MOST:
        raise BadInput(f"{text[:20]!r}... is not an SLO: {len(text)} characters; write it as {SLO_EXAMPLE}")
    for part in re.split(_BETWEEN, text.strip()):
        match = re.fullmatch(_PART, part.strip().lower())
        if match is None:
            raise BadInput(f"{part!r} is not a limit; write an SLO as {SLO_EXAMPLE} (bare numbers: ms)")
        metric, level = metric_and_level(match[1])
        if match[3] is not None and level is not None:
            raise BadInput(f"{part!r} has two percentiles; keep one")
        level = level if match[3] is None else _percentile(match[3].removeprefix("p").removesuffix("%"), part)
        key = key_of(metric, level)
        if key in limits:
            raise BadInput(f"{key!r} is limited twice in {text!r}; keep one")
        limits[key] = ratio_of_text(match[2]) if key == P99_WITHIN else _seconds(match[2], part)
        if metric in _SLOW and limits[key] < MILLI and _is_bare(match[2]):
            raise BadInput(f"{part!r} is {match[2]} ms; write {metric}:{match[2]}s for seconds, or {match[2]}ms")
    return limits


def check_limits(slo: Mapping[str, object]) -> None:
    """Refuse limits that are not positive, finite times."""
    for key, limit in slo.items():
        metric_and_level(key)
        if type(limit) not in (float, int) or not 0.0 < limit <= BILLION:  # type: ignore[operator]
            raise BadInput(f"SLO {key} = {shown(limit)} must be a positive, finite time in seconds")
        if key == P99_WITHIN and not limit > 1.0:  # type: ignore[operator]
            raise BadInput(f"{P99_WITHIN} = {shown(limit)} must be above 1, as a p99 exceeds its median")


def key_text(key: str) -> str:
    """Key of a limit as people read it.

    >>> key_text("ttft_p95"), key_text("p99_within")
    ('TTFT p95', 'p99 over median')
    """
    metric, level = metric_and_level(key)
    if metric == P99_WITHIN:
        return "p99 over median"
    return metric.upper() + ("" if level is None else f" p{_level_text(level)}")


def limits_text(limits: Mapping[str, float]) -> str:
    """Limits in the syntax of the command line.

    >>> limits_text({"ttft_p95": 0.3, "e2el": 8.0, "p99_within": 2.0})
    'ttft:300ms@p95,e2el:8s,p99:2x'
    """
    parts = []
    for key, limit in limits.items():
        metric, level = metric_and_level(key)
        if metric == P99_WITHIN:
            parts.append(f"p99:{rounded(limit, _DIGITS)}x")
        else:
            percentile = "" if level is None else f"@p{_level_text(level)}"
            parts.append(f"{metric}:{to_text(limit, 's', _DIGITS).replace(' ', '')}{percentile}")
    return ",".join(parts)


def ratio_of_text(text: str) -> float:
    """A ratio above 1 from text.

    >>> ratio_of_text("2x")
    2.0
    """
    try:
        ratio = float(text.strip().lower().removesuffix("x"))
    except ValueError:
        ratio = 0.0
    if not 1.0 < ratio <= BILLION:
        raise BadInput(f"{text!r} is not a multiple above 1 of the median; write it as 2x")
    return ratio


def _level_text(level: float) -> str:
    return f"{level:.9f}".rstrip("0").rstrip(".")


def _percentile(text: str, part: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{text!r} in {part!r} is not a percentile; write it as p95") from None


def _is_bare(text: str) -> bool:
    return text.strip()[-1:] in ("", ".") or text.strip()[-1].isdigit()


def _seconds(text: str, part: str) -> float:
    """Seconds from a time with its unit, or from a bare number of milliseconds."""
    try:
        time = duration(text)
    except BadInput:
        time = 0.0
    if not 0.0 < time <= BILLION:
        raise BadInput(f"{part!r}: {text!r} is not a time; write it as 300, 300ms or 0.3s")
    return time
