"""How requests arrive, and which replica answers each: bunching by its index of dispersion, and the router."""

from __future__ import annotations

from roofline.numbers.operations import Real, maximum, minimum
from roofline.numbers.quantity import rounded, to_text
from roofline.support.records import NamedTuple, dataclass

#: Which replica gets a request: any at random; each in turn; the one with the fewest in flight; the one that keeps its
#: prefix.
RANDOM, ROUND_ROBIN, LEAST_BUSY, PREFIX = "random", "round-robin", "least-busy", "prefix"
ROUTERS = (RANDOM, ROUND_ROBIN, LEAST_BUSY, PREFIX)
#: Word for arrivals that are independent of each other.
POISSON = "poisson"

_SHOWN = 3  # points of a trace in words


class Point(NamedTuple):
    """Index of dispersion of the arrivals within a time."""

    window: float  # [s]
    dispersion: float  # variance of their number over its mean [1]; 1 for Poisson arrivals


@dataclass(frozen=True, slots=True)
class Process:
    """Arrivals as a load meets them: how far their number varies more than a Poisson process, by the time it counts.

    >>> process = Process((Point(1.0, 1.4), Point(10.0, 3.9)))
    >>> process.index(1.0, 5.0), round(process.index(5.5, 5.0), 2), round(process.index(0.5, 5.0), 2)
    (1.4, 2.65, 1.2)
    """

    points: tuple[Point, ...] = ()  # by window; none: Poisson arrivals
    rate: float | None = None  # [1/s] of the trace that they are of; None: as they are, at any rate
    times: tuple[float, ...] = ()  # [s] of the requests of a trace
    source: str = POISSON  # in words
    router: str = RANDOM

    @property
    def is_poisson(self) -> bool:
        """Whether arrivals at all replicas together are independent of each other."""
        return not self.points

    def index(self, window: Real, rate: Real) -> Real:
        r"""Index of dispersion of the arrivals within a time.

        .. math:: I(w) = \frac{\mathrm{Var}\, N(w)}{E\, N(w)}

        Linear between the points, and from 1 at no time at all; beyond the last point as there. A trace at another
        rate is the same trace, faster or slower.

        Args:
            window: w [s].
            rate: of the arrivals [1/s].

        Returns:
            Index [1].

        Source:
            Cox and Lewis, "The Statistical Analysis of Series of Events", 1966.
        """
        if self.rate is not None:
            window = window * (rate / self.rate)
        value: Real = 1.0
        start = Point(0.0, 1.0)
        for point in self.points:
            span = point.window - start.window
            value = value + (point.dispersion - start.dispersion) / span * minimum(
                maximum(window - start.window, 0.0), span
            )
            start = point
        return value

    def __str__(self) -> str:
        """The process in words.

        >>> print(Process((Point(1.0, 1.4), Point(10.0, 3.9)), source="idc", router=ROUND_ROBIN))
        arrivals that bunch (dispersion 1.4 in 1 s, 3.9 in 10 s), router round-robin
        """
        words = []
        if self.points:
            step = max(len(self.points) // _SHOWN, 1)
            chosen = self.points if self.rate is None else self.points[step - 1 :: step]
            index = ", ".join(f"{rounded(point.dispersion)} in {to_text(point.window, 's')}" for point in chosen)
            of = "" if self.rate is None else f" of {self.source}"
            words.append(f"arrivals{of} that bunch (dispersion {index})")
        if self.router != RANDOM:
            words.append(f"router {self.router}")
        return ", ".join(words)
