"""Arrivals of a trace: times of its requests, and how far their number varies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from roofline.measurements.tables import csv_file
from roofline.numbers.quantity import BILLION, MEGA
from roofline.specs.arrivals import Point, Process
from roofline.support.errors import BadInput, shown

#: Names of the column: ours, then those of public traces.
_TIMES = ("timestamp", "time", "arrival", "arrival_time", "arrived_at")
_FEWEST = 200  # requests, whose number varies by chance alone by a tenth
_WINDOWS = 20  # at least, of a trace
_LATEST = MEGA * BILLION  # [s]
_SHORTEST = 8.0  # part of a mean gap: the shortest window


def read_arrivals(path: str) -> Process:
    """Arrivals of the requests of a CSV with a column of times, in seconds or as dates with times of day.

    Names of columns in public traces: TIMESTAMP, Azure/AzurePublicDataset (AzureLLMInferenceTrace); Timestamp,
    HPMLL/BurstGPT; arrived_at, microsoft/vidur; read 2026-11.
    """
    heading, rows = csv_file(path, "trace of requests")
    names = [name.lower() for name in heading]
    place = next((names.index(name) for name in _TIMES if name in names), None)
    if place is None:
        columns = ", ".join(heading) or "not there"
        raise BadInput(f"{path}: no column {_TIMES[0]} (or {', '.join(_TIMES[1:])}); its columns are {columns}")
    times = sorted(_time(path, line, row[place].strip() if place < len(row) else "") for line, row in rows)
    if len(times) < _FEWEST or times[-1] <= times[0]:
        raise BadInput(f"{path}: {len(times)} requests are too few to tell how they arrive; at least {_FEWEST} are")
    since = tuple(time - times[0] for time in times)
    return Process(dispersion(since), (len(since) - 1) / since[-1], since, path)


def dispersion(times: Sequence[float]) -> tuple[Point, ...]:
    """Index of dispersion of arrivals, in windows that double from an eighth of the mean gap to a twentieth of all.

    Args:
        times: of the requests, in order [s].

    Returns:
        The points.

    Source:
        Arithmetic: counts in two rows of windows, the second later by half a window.
    """
    span, points = times[-1] - times[0], []
    window = span / len(times) / _SHORTEST
    while span / window >= _WINDOWS:
        number = total = squares = 0
        for start in (times[0], times[0] + window / 2.0):
            whole = int((times[-1] - start) / window)
            counts = Counter([int((time - start) / window) for time in times if time >= start])
            counted = [count for place, count in counts.items() if place < whole]
            number, total = number + whole, total + sum(counted)
            squares += sum(count * count for count in counted)
        mean = total / number
        points.append(Point(window, (squares / number - mean * mean) / mean))
        window *= 2.0
    return tuple(points)


def _time(path: str, line: int, text: str) -> float:
    try:
        time = float(text)
    except ValueError:
        try:
            time = datetime.fromisoformat(_to_microseconds(text)).timestamp()
        except (ValueError, OverflowError, OSError):
            raise BadInput(f"{path}:{line}: {shown(text)} is neither a time in seconds nor a date and a time") from None
    if not abs(time) < _LATEST:
        raise BadInput(f"{path}:{line}: {shown(text)} is not a time in seconds")
    return time


def _to_microseconds(text: str) -> str:
    """A date and a time with at most six digits of a second, and UTC where no zone is given."""
    whole, point, rest = text.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    zone = rest[digits:].strip().replace("Z", "+00:00") or "+00:00"
    if not point:
        return text if text.endswith("Z") or "+" in text else f"{text}+00:00"
    return f"{whole}.{rest[: min(digits, 6)]:0<6}{zone}"
