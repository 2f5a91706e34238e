"""Processes of arrivals that bunch, at random: by which docs/load.md judges arrivals that are not Poisson."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import islice

REQUESTS = 30_000  # of a trace
LAWS = (
    "random", "random", "random", "one rate that varies", "one rate that varies", "two rates that vary", "batches",
    "gamma gaps", "two states",
)  # fmt: skip


def drawn(draw: random.Random, rate: float, ttft: float, e2el: float) -> tuple[str | None, tuple[float, ...]]:
    """A law in words, None for Poisson arrivals, and the times of its requests [s].

    `ttft` and `e2el`: of Poisson arrivals, by which the times of the law are drawn [s].
    """
    if not (math.isfinite(ttft) and math.isfinite(e2el)):
        ttft, e2el = 1.0, 10.0
    law = draw.choice(LAWS)
    if law == "random":
        return None, ()
    if law == "one rate that varies":
        time, variance = _between(draw, ttft / 3.0, 20.0 * e2el), draw.choice((0.02, 0.05, 0.1, 0.2))
        words, process = (
            f"a rate that varies by {variance**0.5:.2f} over {time / e2el:.2g} E2EL",
            varying(draw, rate, ((time, variance),)),
        )
    elif law == "two rates that vary":
        parts = (
            (_between(draw, ttft / 3.0, 3.0 * ttft), draw.choice((0.3, 1.0))),
            (_between(draw, e2el, 30.0 * e2el), draw.choice((0.1, 0.2))),
        )
        words, process = (
            f"two rates that vary over {parts[0][0] / e2el:.2g} and {parts[1][0] / e2el:.2g} E2EL",
            varying(draw, rate, parts),
        )
    elif law == "batches":
        mean = draw.choice((1.5, 2.0, 4.0))
        words, process = f"batches of {mean:g}", batches(draw, rate, mean)
    elif law == "gamma gaps":
        cv = draw.choice((1.5, 2.0, 3.0))
        words, process = f"gamma gaps of cv {cv:g}", renewal(draw, rate, cv)
    else:
        time = _between(draw, e2el / 5.0, 5.0 * e2el)
        words, process = f"two states over {time / e2el:.2g} E2EL", two_states(draw, rate, time)
    return words, tuple(islice(process, REQUESTS))


def varying(draw: random.Random, rate: float, parts: tuple[tuple[float, float], ...]) -> Iterator[float]:
    """Cox process: the mean of gamma-distributed rates, each drawn anew after an exponential time.

    `parts`: mean time between draws [s], and variance over the square of the mean [1].
    """
    now, ends, values = 0.0, [0.0] * len(parts), [1.0] * len(parts)
    while True:
        for place, (time, variance) in enumerate(parts):
            if ends[place] <= now:
                ends[place] = now + draw.expovariate(1.0 / time)
                values[place] = draw.gammavariate(1.0 / variance, variance)
        here = rate * sum(values) / len(values)
        later = now + (draw.expovariate(here) if here > 1e-9 * rate else math.inf)
        now = min(later, *ends)
        if now == later:
            yield now


def batches(draw: random.Random, rate: float, mean: float) -> Iterator[float]:
    """A Poisson process of batches with a geometric number of requests."""
    now = 0.0
    while True:
        now += draw.expovariate(rate / mean)
        yield now
        while draw.random() < 1.0 - 1.0 / mean:
            yield now


def renewal(draw: random.Random, rate: float, cv: float) -> Iterator[float]:
    """Independent gaps with a gamma distribution."""
    now, shape = 0.0, 1.0 / cv**2
    while True:
        now += draw.gammavariate(shape, 1.0 / (shape * rate))
        yield now


def two_states(draw: random.Random, rate: float, time: float) -> Iterator[float]:
    """A rate that is 1.7 times as high in one state, of mean `time`, as in the other, which lasts four times as long."""
    low, now, is_high = rate * 5.0 / (1.7 + 4.0), 0.0, False
    end = draw.expovariate(0.25 / time)
    while True:
        later = now + draw.expovariate(low * (1.7 if is_high else 1.0))
        if later < end:
            now = later
            yield now
        else:
            now, is_high = end, not is_high
            end = now + draw.expovariate((1.0 if is_high else 0.25) / time)


def _between(draw: random.Random, low: float, high: float) -> float:
    """Evenly on a log scale."""
    return math.exp(draw.uniform(math.log(low), math.log(high)))
