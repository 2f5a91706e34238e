"""How request lengths vary around their means: not at all, by a law, or as in a trace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

from roofline.errors import BadInput, UnknownName, shown
from roofline.quantity import to_text
from roofline.records import dataclass
from roofline.specs.workload import LAWS

if TYPE_CHECKING:
    from random import Random

__all__ = [
    "EQUAL",
    "LAWS",
    "LOG_NORMAL",
    "MOST_CV",
    "TRACE",
    "UNIFORM",
    "Lengths",
    "Spread",
    "cold_start_text",
    "lengths_by_law",
    "lengths_of_rows",
]

#: Laws of lengths, and the name for a trace.
LOG_NORMAL, UNIFORM, TRACE = *LAWS, "trace"

#: Largest coefficients of variation: uniform lengths start at zero; log-normal ones are limited by the nodes below.
MOST_CV = {LOG_NORMAL: 3.0, UNIFORM: 3.0**-0.5}

_NODES = {LOG_NORMAL: 9, UNIFORM: 3}  # Gauss nodes: third moments of a time that grows with the length squared
#: Ends of the slices of a length distribution for percentiles, finer towards long requests.
_ENDS = (0.0, 0.15, 0.3, 0.45, 0.55, 0.7, 0.8, 0.88, 0.92, 0.94, 0.96, 0.98, 0.988, 0.992, 0.997, 1.0)
_BINS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)  # bins of a trace, for its moments
_LEAST = 2.0**-30  # shortest length drawn, over the mean


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of one length; weights and lengths in multiples of the mean."""

    law: str = UNIFORM
    cv: float = 0.0  # standard deviation over mean [1]
    nodes: tuple[tuple[float, float], ...] = ((1.0, 1.0),)  # quadrature nodes with its moments
    slices: tuple[tuple[float, float], ...] = ((1.0, 1.0),)  # median of each slice

    @property
    def is_fixed(self) -> bool:
        return self.cv == 0.0

    @property
    def biased(self) -> float:
        """Length-biased mean over the mean [1]."""
        return 1.0 + self.cv * self.cv


@dataclass(frozen=True, slots=True)
class Lengths:
    """How prompts and answers vary around their means, independently except in a trace."""

    prompts: Spread = Spread()
    answers: Spread = Spread()
    product: float = 1.0  # mean of prompt times answer, over the product of their means [1]
    rows: tuple[tuple[float, float], ...] | None = None  # of a trace, in multiples of the means
    source: str = ""  # of a trace

    @property
    def is_fixed(self) -> bool:
        return self.prompts.is_fixed and self.answers.is_fixed

    def draw(self, generator: Random) -> tuple[float, float]:
        """Prompt and answer of a random request, in multiples of their means."""
        if self.rows is not None:
            return self.rows[int(generator.random() * len(self.rows))]
        return _random_length(self.prompts, generator), _random_length(self.answers, generator)

    def __str__(self) -> str:
        if self.rows is not None:
            return f"{len(self.rows):,} requests of {self.source}, cv {self.prompts.cv:.2g} and {self.answers.cv:.2g}"
        if self.is_fixed:
            return "all equal"
        return f"{self.prompts.law}, cv {self.prompts.cv:.3g} and {self.answers.cv:.3g}"


EQUAL = Lengths()


def cold_start_text(share: float, time: float) -> str:
    """Cold starts in words: share of the requests [1] and their extra wait [s].

    >>> cold_start_text(0.01, 2.0)
    '1 % start cold, 2 s later'
    """
    return f"{100.0 * share:.3g} % start cold, {to_text(time, 's')} later"


def lengths_by_law(law: str, isl_cv: float, osl_cv: float) -> Lengths:
    """Lengths that follow a law.

    Args:
        law: one of `LAWS` [text].
        isl_cv: standard deviation of prompts over their mean [1].
        osl_cv: the same for answers [1].

    Returns:
        The lengths.

    Raises:
        UnknownName: no such law.
        BadInput: a coefficient below zero, or too large for the law.

    Source:
        Nodes of Gauss and Hermite, Gauss and Legendre: Abramowitz and Stegun, 25.4.46 and 25.4.29.
    """
    if law not in LAWS:
        raise UnknownName(
            f"unknown length distribution {shown(law)}; choose from {', '.join(LAWS)}, or give the path of a trace"
        )
    for name, cv in (("isl_cv", isl_cv), ("osl_cv", osl_cv)):
        if type(cv) not in (float, int) or not 0.0 <= cv <= MOST_CV[law] + _LEAST:
            raise BadInput(f"{name} = {shown(cv)} must be between 0 and {MOST_CV[law]:.3g} for {law} lengths")
    return Lengths(_spread_by_law(law, float(isl_cv)), _spread_by_law(law, float(osl_cv)))


def lengths_of_rows(rows: Sequence[tuple[float, float]], source: str) -> tuple[float, float, Lengths]:
    """Mean prompt, mean answer [tokens] and lengths of a trace; `rows` are prompts and answers [tokens]."""
    from statistics import fmean

    isl, osl = fmean(prompt for prompt, _ in rows), fmean(answer for _, answer in rows)
    relative = tuple((prompt / isl, answer / osl) for prompt, answer in rows)
    prompts, answers = (_histogram(sorted(column)) for column in zip(*relative, strict=True))
    mean_product = fmean(prompt * answer for prompt, answer in relative)
    return isl, osl, Lengths(prompts, answers, mean_product, relative, source)


@lru_cache(maxsize=64)
def _spread_by_law(law: str, cv: float) -> Spread:
    if cv == 0.0:
        return Spread(law)
    from roofline.arrays import gauss_nodes

    width, sigma = cv * 3.0**0.5, _log_sigma(cv)
    points = gauss_nodes("hermite" if law == LOG_NORMAL else "legendre", _NODES[law])
    if law == LOG_NORMAL:
        nodes = tuple((weight, 2.718281828459045 ** (sigma * point - sigma * sigma / 2.0)) for weight, point in points)
    else:
        nodes = tuple((weight, 1.0 + width * point) for weight, point in points)
    middles = [((low + high) / 2.0, high - low) for low, high in pairwise(_ENDS)]
    return Spread(law, cv, nodes, tuple((weight, _quantile(law, cv, median)) for median, weight in middles))


def _log_sigma(cv: float) -> float:
    """Sigma of a log-normal distribution, from its coefficient of variation."""
    return float(log(1.0 + cv * cv) ** 0.5)


def _quantile(law: str, cv: float, share: float) -> float:
    """Length over the mean below which a share of the requests lies."""
    if law == UNIFORM:
        return float(max(1.0 + cv * 3.0**0.5 * (2.0 * share - 1.0), _LEAST))
    from statistics import NormalDist

    sigma = _log_sigma(cv)
    return float(2.718281828459045 ** (sigma * NormalDist().inv_cdf(share) - sigma * sigma / 2.0))


def _histogram(values: list[float]) -> Spread:
    """Nodes and slices of sorted values whose mean is one."""
    from statistics import fmean

    count = len(values)
    cv = (fmean(value * value for value in values) - 1.0) if count > 1 else 0.0
    if cv <= _LEAST:
        return Spread(TRACE)
    nodes = []
    for low, high in pairwise(dict.fromkeys(round(end * count) for end in _BINS)):
        nodes.append(((high - low) / count, fmean(values[low:high])))
    middles = [((low + high) / 2.0, high - low) for low, high in pairwise(_ENDS)]
    slices = tuple((weight, values[min(int(median * count), count - 1)]) for median, weight in middles)
    return Spread(TRACE, cv**0.5, tuple(nodes), slices)


def _random_length(spread: Spread, generator: Random) -> float:
    if spread.is_fixed:
        return 1.0
    share = generator.random()
    if spread.law == UNIFORM:
        return _quantile(UNIFORM, spread.cv, share)
    sigma = _log_sigma(spread.cv)
    return generator.lognormvariate(-sigma * sigma / 2.0, sigma)
