"""Times at which requests arrive in a simulation: of a Poisson process, of a trace, or with an index of dispersion."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count
from math import exp

from roofline.numbers.quantity import MICRO
from roofline.specs.arrivals import Point, Process
from roofline.support.records import NamedTuple

_SWEEPS = 2000  # over the parts of a fit
_NOBODY = MICRO * MICRO  # [1/s] of a rate, below which nobody comes
_TIMES = (0.25, 1.0, 4.0)  # times of parts, over the windows of the points


class _Part(NamedTuple):
    """A part of the rate, which is drawn anew from time to time."""

    time: float  # [s] mean, from one draw to the next
    share: float  # of the mean rate [1]


class _Fit(NamedTuple):
    """A process with an index of dispersion: a rate that varies, and requests that come together."""

    parts: tuple[_Part, ...]
    variance: float  # of each part, over its square [1]
    bunch: float  # requests that come together, mean


def arriving(process: Process, rate: float, generator: random.Random) -> Iterator[float]:
    """Times of requests, without end.

    Args:
        process: how they arrive.
        rate: mean [1/s].
        generator: of random numbers.

    Returns:
        Times, in order [s]. Those of a trace are its own, at the rate asked for, again and again from a random one on;
        others have the index of dispersion of the process.

    Source:
        Doubly stochastic Poisson processes: Cox, Journal of the Royal Statistical Society B 17(2), 1955.
    """
    if process.times:
        return _again(process.times, rate, generator)
    return _varying(_fitted(process, rate), rate, generator)


def _again(times: Sequence[float], rate: float, generator: random.Random) -> Iterator[float]:
    first, number = times[0], len(times)
    span = (times[-1] - first) * number / (number - 1)
    faster, start = number / span / rate, generator.randrange(number)
    begin = times[start] - first
    for turn in count():
        for place in range(start if turn == 0 else 0, number):
            yield (times[place] - first + turn * span - begin) * faster


def _varying(fit: _Fit, rate: float, generator: random.Random) -> Iterator[float]:
    now, ends = 0.0, [0.0] * len(fit.parts)
    shares = [part.share for part in fit.parts]
    rest, fewest = 1.0 - sum(shares), 1.0 - 1.0 / fit.bunch
    while True:
        for place, part in enumerate(fit.parts):
            if ends[place] <= now:
                ends[place] = now + generator.expovariate(1.0 / part.time)
                shares[place] = part.share * generator.gammavariate(1.0 / fit.variance, fit.variance)
        here = rate / fit.bunch * (rest + sum(shares))
        end = min(ends, default=float("inf"))
        later = now + generator.expovariate(here) if here > _NOBODY else float("inf")
        if later >= end:
            now = end
            continue
        now = later
        yield now
        while generator.random() < fewest:
            yield now


def _fitted(process: Process, rate: float) -> _Fit:
    r"""A process whose index of dispersion is that of the points.

    .. math:: I(w) = 1 + c_0 + \sum_i c_i \left(1 - \frac{1 - e^{-w / \tau_i}}{w / \tau_i}\right),\qquad
              v_i = \frac{c_i}{2\, l\, \tau_i}

    The parts c are the least squares of relative differences, none below 0; v is the variance of a part of the rate,
    over the square of the mean rate.
    """
    scale = 1.0 if process.rate is None else process.rate / rate
    points = [Point(point.window * scale, point.dispersion) for point in process.points]
    times = [factor * point.window for point in points for factor in _TIMES]
    columns = [[1.0 / point.dispersion for point in points]]
    columns += [[_counted(point.window / time) / point.dispersion for point in points] for time in times]
    wanted = [max(point.dispersion - 1.0, 0.0) / point.dispersion for point in points]
    amounts = _least_squares(columns, wanted)
    variances = [amount / (2.0 * rate * time) for amount, time in zip(amounts[1:], times, strict=True)]
    total = sum(each**0.5 for each in variances)
    parts = tuple(_Part(time, each**0.5 / total) for time, each in zip(times, variances, strict=True) if each > 0.0)
    return _Fit(parts, total * total, 1.0 + (amounts[0] if amounts else 0.0) / 2.0)


def _counted(ratio: float) -> float:
    """Share of the dispersion of a rate in a window, over the time for which the rate lasts."""
    return 1.0 - (1.0 - exp(-ratio)) / ratio


def _least_squares(columns: Sequence[Sequence[float]], wanted: Sequence[float]) -> list[float]:
    """Amounts of columns, none below 0, whose sum differs least from what is wanted: coordinate descent."""
    amounts, left = [0.0] * len(columns), list(wanted)
    for _ in range(_SWEEPS if wanted else 0):
        for place, column in enumerate(columns):
            change = sum(each * rest for each, rest in zip(column, left, strict=True)) / sum(
                each * each for each in column
            )
            new = max(amounts[place] + change, 0.0)
            if new != amounts[place]:
                left = [rest - (new - amounts[place]) * each for each, rest in zip(column, left, strict=True)]
                amounts[place] = new
    return amounts
