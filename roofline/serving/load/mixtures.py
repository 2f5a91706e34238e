"""Distributions of times as mixtures of gamma distributions, each shifted by a minimum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from math import log

from roofline.numbers.operations import Real, comparable, cube_root, maximum, minimum, never, outlined, where
from roofline.numbers.quantity import MICRO, MILLI, NANO
from roofline.numbers.roots import crossing, narrowed
from roofline.serving.latency import Spread
from roofline.serving.load.programs import LARGE, Programs
from roofline.support.records import NamedTuple

_E = 2.718281828459045
_TINY = 2.0**-200  # of a time or its square, against division by zero
_MOST_STEPS = 200  # of a percentile; a dozen are usual, more where the distribution jumps
_FARTHEST = 9.0  # of a standard normal variable
_SIZES = (1, 2, 4, 8, 16, 32)  # components of a program for percentiles
_PROGRAMS = Programs(few=48)  # by numbers of components; as many percentiles cost as much as compiling one
_GROUPS = (0.55, 0.92, 1.0)  # ends of the groups of prompts, as shares


@comparable
class Component(NamedTuple):
    """A share of the requests with a shifted gamma distribution of their time."""

    weight: Real  # share of requests [1]
    least: Real  # [s]
    mean: Real  # [s] beyond `least`
    variance: Real  # [s^2]
    most: Real = float("inf")  # [s] upper bound beyond `least`

    def later(self, time: Real, share: Real) -> Component:
        """A share of these requests, later by `time` [s]."""
        return self._replace(weight=share * self.weight, least=self.least + time)


def survival(parts: Sequence[Component], time: Real) -> Real:
    r"""Share of requests that take longer than a time.

    .. math:: S(t) = \sum_i w_i\, S_{gamma}(t - a_i;\ \mu_i, v_i)

    Args:
        parts: components of the distribution.
        time: t [s].

    Returns:
        Share [1].

    Source:
        Arithmetic.
    """
    total: Real = 0.0
    for part in parts:
        rest = time - part.least
        if type(rest) is float:
            beyond = gamma_survival(rest, part.mean, part.variance)
        else:
            beyond = outlined("gamma_survival", gamma_survival, rest, rest, part.mean, part.variance)
        if not never(part.most < float("inf")):
            beyond = where(rest < part.most, beyond, 0.0)
        total = total + part.weight * beyond
    return total


def percentile(parts: Sequence[Component], level: float) -> Real:
    """Time within which a share of the requests is answered.

    Args:
        parts: components of the distribution.
        level: percentile [%].

    Returns:
        Time [s]; where the share is reached at every time between two groups of requests, such as warm and cold
        starts, the time of the slower group.

    Source:
        Arithmetic: the percentile lies between those of the components, of which there are closed forms.
    """
    tail = _tail_of(level)
    size = next((size for size in _SIZES if size >= len(parts)), None)
    if size is not None:
        more = [parts[0]._replace(weight=0.0)] * (size - len(parts))  # which add nothing: few sizes, few programs
        numbers = [number for part in (*parts, *more) for number in part]
        program = _percentile_program(numbers)
        if program is not None:
            return program(*tail, *numbers)[0]
        among = next((number for number in numbers if type(number) is not float), 0.0)
        return outlined("percentile", _percentile, among, (*parts, *more), tail)
    return _percentile(parts, tail)


class _Tail(NamedTuple):
    """Share of the requests beyond a percentile."""

    share: Real  # [1]
    near: Real  # of a standard normal variable that exceeds it with a slightly larger probability
    far: Real  # with a slightly smaller one: weights do not sum to one exactly
    exponent: Real  # likewise of an exponential one, over its mean


@cache
def _tail_of(level: float) -> _Tail:
    share = (1.0 - level / 100.0) * (1.0 - MICRO)
    return _Tail(
        share, _normal_place(share * (1.0 + MILLI)), _normal_place(share / (1.0 + MILLI)), log(1.0 / share) + MILLI
    )


def _normal_place(share: float) -> float:
    """What a standard normal variable exceeds with some probability."""

    def surplus(place: float) -> float:
        return float(_normal_survival(place)) - share

    return narrowed(surplus, (_FARTHEST, surplus(_FARTHEST)), (-_FARTHEST, surplus(-_FARTHEST)))


def _percentile(parts: Sequence[Component], tail: _Tail) -> Real:
    """Between the percentiles of the components."""
    ends = [_bounds(part, tail) for part in parts]
    low = reduce(
        minimum, (where(part.weight > 0.0, near, float("inf")) for part, (near, _) in zip(parts, ends, strict=True))
    )
    high = reduce(maximum, (where(part.weight > 0.0, far, 0.0) for part, (_, far) in zip(parts, ends, strict=True)))
    return crossing(
        lambda time: survival(parts, time) - tail.share, high * (1.0 + NANO) + _TINY, _MOST_STEPS, low * (1.0 - NANO)
    )


def _bounds(part: Component, tail: _Tail) -> tuple[Real, Real]:
    """Two times between which a component's percentile lies [s]; see `gamma_survival`."""
    shape = part.mean * part.mean / maximum(part.variance, _TINY)
    is_rare, near, far = shape <= 1.0, usual_time(part, tail.near), usual_time(part, tail.far)
    low, high = where(is_rare, 0.0, near), where(is_rare, rare_time(part, tail.exponent), far)
    if not never(part.most < float("inf")):
        low, high = minimum(low, part.most), minimum(high, part.most)
    return part.least + low, part.least + high


def usual_time(part: Component, place: Real) -> Real:
    """Time that a gamma of k >= 1 exceeds as a standard normal variable exceeds `place`; inverse of `gamma_survival`.

    Args:
        part: mean and variance; `least` and `most` are left to the caller.
        place: of the standard normal variable [1].

    Returns:
        Time beyond `least` [s].

    Source:
        Wilson and Hilferty, PNAS 17(12), 1931.
    """
    width = 3.0 * maximum(part.mean * part.mean / maximum(part.variance, _TINY), 1.0) ** 0.5
    side = maximum(1.0 - 1.0 / (width * width) + place / width, 0.0)
    return part.mean * (side * side * side)


def rare_time(part: Component, exponent: Real) -> Real:
    """Time that a gamma of k < 1 exceeds with a share of e^-exponent of those who wait; inverse of `gamma_survival`.

    Args:
        part: mean and variance; `least` and `most` are left to the caller.
        exponent: over the mean of the exponential time [1].

    Returns:
        Time beyond `least` [s].

    Source:
        Arithmetic.
    """
    return (part.variance + part.mean * part.mean) / (2.0 * maximum(part.mean, _TINY)) * exponent


def _percentile_program(numbers: Sequence[Real]) -> Callable[..., tuple[Real, ...]] | None:
    """A program for percentiles of so many numbers of components; None as long as there were few."""
    arrays = tuple(bool(getattr(number, "shape", ())) for number in numbers)
    if any(type(number) is not float and not is_array for number, is_array in zip(numbers, arrays, strict=True)):
        return None
    if any(arrays) and max(getattr(number, "size", 1) for number in numbers) < LARGE:
        return None
    key = len(numbers), arrays if any(arrays) else None
    known: Callable[..., tuple[Real, ...]] | None = _PROGRAMS.get(key, lambda: _compiled(*key), at_once=any(arrays))
    return known


def _compiled(size: int, arrays: tuple[bool, ...] | None) -> Callable[..., tuple[Real, ...]]:
    from roofline.symbolic.graph import Graph

    graph = Graph()
    tail = _Tail(*map(graph.input, _Tail._fields))
    numbers = [graph.input(f"number{place}") for place in range(size)]
    width = len(Component._fields)
    outputs = [_percentile([Component(*numbers[at : at + width]) for at in range(0, size, width)], tail)]
    if arrays is None:
        from roofline.symbolic.programs import python_program

        return python_program(outputs, graph.inputs)
    from roofline.symbolic.array_programs import array_program

    return array_program(outputs, graph.inputs, (*(False for _ in tail), *arrays))


def gamma_survival(time: Real, mean: Real, variance: Real) -> Real:
    r"""Probability that a gamma-distributed time exceeds t.

    .. math:: k = \frac{\mu^2}{v},\quad S = \begin{cases} 1 - \Phi\left(3 \sqrt{k} \left[(t / \mu)^{1/3} - 1 +
              \frac{1}{9 k}\right]\right) & k \ge 1 \\ \frac{2 k}{1 + k}\, e^{-2 t \mu / (v + \mu^2)} & k < 1
              \end{cases}

    For k < 1 a part of the requests waits an exponential time and the others not at all, as in a queue, with the same
    mean and variance.

    Args:
        time: t [s].
        mean: mu [s].
        variance: v [s^2].

    Returns:
        Probability [1].

    Source:
        Wilson and Hilferty, PNAS 17(12), 1931; Phi by Abramowitz and Stegun, 26.2.17.

    >>> round(gamma_survival(2.0, 2.0, 0.04), 2), round(gamma_survival(3.0, 1.0, 1.0), 2)
    (0.49, 0.05)
    """
    square = mean * mean
    shape = square / maximum(variance, _TINY)
    beyond = maximum(time, 0.0)
    both = variance + square
    share = 2.0 * square / maximum(both, _TINY)
    rare = share * _E ** (-2.0 * beyond * mean / maximum(both, _TINY))
    root = 3.0 * maximum(shape, 1.0) ** 0.5
    place = (cube_root(beyond / maximum(mean, _TINY)) - 1.0) * root + 1.0 / root
    return where(time < 0.0, 1.0, where(shape <= 1.0, rare, _normal_survival(place)))


def _normal_survival(z: Real) -> Real:
    """Probability that a standard normal variable exceeds `place`."""
    away = maximum(z, 0.0 - z)
    t = 1.0 / (1.0 + 0.2316419 * away)
    series = t * (
        0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )  # fmt: skip
    tail = 0.3989422804014327 * _E ** (0.0 - minimum(away * away / 2.0, 700.0)) * series
    return where(z > 0.0, tail, 1.0 - tail)


def merged(parts: Sequence[Component]) -> Component:
    """One component with the mean and variance of several.

    Args:
        parts: components to merge.

    Returns:
        The component, with their total weight.

    Source:
        Law of total variance.
    """
    weight = sum(part.weight for part in parts)
    divisor = maximum(weight, _TINY)
    mean = mean_of(parts) / divisor
    square = sum(part.weight * (part.variance + (part.least + part.mean) ** 2) for part in parts) / divisor
    least = reduce(minimum, (where(part.weight >= NANO * weight, part.least, float("inf")) for part in parts))
    return Component(weight, least, maximum(mean - least, 0.0), maximum(square - mean * mean, 0.0))


def by_prompt_length(parts: Sequence[Component], prompts: Spread) -> list[Component]:
    """Merge the components of prompt slices into the shorter half, most of the longer half, and the longest.

    The components of one slice must be adjacent, and in the same order in each: requests that find the server idle are
    not merged with those that find others.
    """
    parts_per_slice = len(parts) // len(prompts.slices)
    groups: dict[tuple[float, int], list[Component]] = {}
    cumulative = 0.0
    for place, (weight, _) in enumerate(prompts.slices):
        cumulative += weight
        end = next(end for end in _GROUPS if cumulative <= end + NANO)
        for number, part in enumerate(parts[parts_per_slice * place : parts_per_slice * (place + 1)]):
            groups.setdefault((end, number), []).append(part)
    return [merged(group) for group in groups.values()]


def mean_of(parts: Sequence[Component]) -> Real:
    """Mean time over all requests [s]."""
    return sum(part.weight * (part.least + part.mean) for part in parts)
