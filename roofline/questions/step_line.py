"""Time of a step against its sequences: the line through measured times beside the one through predicted times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from roofline.numbers.quantity import counted, rounded
from roofline.questions.diagnosis import NOISE
from roofline.serving.latency import lanes
from roofline.serving.verdict import HALF_WIDTH, basis_of_kernels, pass_sigma
from roofline.specs.load import KIND_OF, Load, Users
from roofline.specs.workload import Measurement
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple, dataclass

if TYPE_CHECKING:
    from typing import Protocol

    class Run(Protocol):
        """A measurement beside its prediction."""

        @property
        def measured(self) -> Measurement: ...
        @property
        def expected(self) -> Any: ...
        @property
        def decode_parts(self) -> Sequence[Any]: ...
        @property
        def suspects(self) -> Sequence[Any]: ...
        def ratio(self, metric: str) -> float | None: ...
        def inside(self, metric: str) -> bool | None: ...


#: Sigma of ln(b) beyond what is known of the parts. It was chosen so that 80 % of the slopes of measured development
#: sweeps lie in their range; those of a need none (docs/measurements.md, "A sweep").
_SLOPE = 0.15
_FEWEST, _MOST_RUNS = 3, 500  # loads of a line; runs
_APART = 1.5  # ratio of the most sequences over the fewest, from which on a line has a slope
SAME = 1.02  # ratio up to which loads, or numbers of sequences, are one
_FAR, _ROUNDS = 2.0, 20  # standard deviations from which on a point counts less; rounds of that
_LEAST = 0.1  # of the shortest predicted time
_GAP = 0.8  # of the most sequences: the next point for a slope beyond them
_OTHERS = "queue and other prompts"  # what a TPOT exceeds the kernels by


class SweepPoint(NamedTuple):
    """A load of a sweep."""

    measured: Measurement
    run: Run | None  # None where no steady state is predicted
    load: float  # users, 1/s or sequences
    sequences: float | None  # [sequences] of a step as a request sees it, itself included, on one rank
    predicted_sequences: float | None
    rate: float | None  # [1/s] answered by the whole deployment
    predicted_rate: float | None


class Coefficient(NamedTuple):
    """One number of a step line."""

    measured: float  # [s]
    low: float  # [s] 80 % range by the scatter of measurements
    high: float
    predicted: float  # [s] through the predicted times at the same sequences
    predicted_low: float | None = None  # [s] 80 % range, scatter included; None on the ideal basis
    predicted_high: float | None = None

    @property
    def inside(self) -> bool | None:
        """Whether the measured number lies in the range of the predicted one."""
        if self.predicted_low is None or self.predicted_high is None:
            return None
        return self.predicted_low <= self.measured <= self.predicted_high


class LinePart(NamedTuple):
    """What a part of the step adds to the predicted line."""

    name: str
    fixed: float  # [s]
    each: float  # [s]


@dataclass(frozen=True, slots=True)
class StepLine:
    r"""Measured TPOT against the sequences of a step, as a line, beside the predicted one.

    .. math:: t = a + b\, n
    """

    fixed: Coefficient  # a: weights and host of a step
    each: Coefficient  # b: cache, work of a sequence, prompts of the others
    parts: tuple[LinePart, ...]  # of the predicted line
    bend: float  # most that the predicted line is off the predicted times [1]

    @property
    def off(self) -> tuple[str, ...]:
        """Names of the numbers outside their range."""
        return tuple(name for name, one in (("a", self.fixed), ("b", self.each)) if one.inside is False)


def point_of(measured: Measurement, run: Run | None) -> SweepPoint:
    """A run with its sequences and answers, by Little's law where they are not stated."""
    kind, load = load_of_run(measured)
    if run is None:
        return SweepPoint(measured, None, load, None, None, measured.answered_rate, None)
    expected, is_mean = run.expected, measured.statistic != "p99"
    steps = max((measured.osl or 1.0) - 1.0, 0.0)
    ranks = float(lanes(expected.deployment)) / (expected.deployment.replicas if kind.is_burst else 1.0)
    first = measured.ttft
    if first is None and measured.e2el is not None and measured.tpot is not None:
        first = max(measured.e2el - steps * measured.tpot, 0.0)
    answered = measured.answered_rate
    if answered is None and kind is Users and first is not None and (measured.tpot is not None or not steps):
        answered = load / (first + steps * (measured.tpot or 0.0))
    sequences = predicted = predicted_rate = None
    if expected.tpot is not None and is_mean:
        decode = steps * expected.tpot
        predicted_rate = load if kind.is_open else None if kind.is_burst else load / (expected.ttft + decode)
        predicted = _sequences(kind, load / ranks, predicted_rate or 0.0, ranks, expected.ttft, decode)
        if measured.tpot is not None:
            times = (expected.ttft if first is None else first, steps * measured.tpot)
            sequences = _sequences(kind, load / ranks, answered or load, ranks, *times)
    return SweepPoint(measured, run, load, sequences, predicted, answered, predicted_rate)


def load_of_run(measured: Measurement) -> tuple[type[Load], float]:
    """Kind and amount of a load, as it is predicted."""
    for name, kind in KIND_OF.items():
        amount = getattr(measured, name, None)
        if amount is not None:
            return kind, float(max(amount, 1.0) if kind is Users else amount)
    raise BadInput(f"{measured.source}: no load given; add concurrency, request_rate or batch")


def distinct(loads: Iterable[float]) -> list[float]:
    """Loads in order, those that are nearly the same once."""
    found: list[float] = []
    for load in sorted(loads):
        if not found or load > SAME * found[-1]:
            found.append(load)
    return found


def _sequences(kind: type[Load], share: float, rate: float, ranks: float, first: float, decode: float) -> float:
    """Sequences of a step as a request sees it: itself, and those that decode besides [sequences].

    Of Poisson arrivals a request sees the mean number (Little's law), of users in a closed loop that of the others.
    """
    if kind.is_burst:
        return max(share, 1.0)
    if kind.is_open:
        return 1.0 + rate / ranks * decode
    return 1.0 + max(share - 1.0, 0.0) * decode / (first + decode)


def step_line(points: Sequence[SweepPoint]) -> tuple[StepLine | None, str]:
    """Lines through the measured TPOTs and through the predicted ones at the same sequences, or why there are none."""
    timed = [point for point in points if point.run is not None and point.sequences and point.predicted_sequences]
    if not timed:
        is_p99 = any(point.measured.statistic == "p99" for point in points)
        return None, "means or medians are needed" if is_p99 else "no TPOT was measured"
    loads = distinct([point.load for point in timed])
    if len(loads) < _FEWEST:
        return None, f"{counted(len(loads), 'load')} of the {_FEWEST} that it needs"
    if len(timed) > _MOST_RUNS:
        return None, f"{len(timed)} runs; give at most {_MOST_RUNS}"
    places = [point.sequences or 1.0 for point in timed]
    if max(places) < _APART * min(places):
        return None, f"{rounded(min(places))} to {rounded(max(places))} sequences in a step: too few to tell a slope"
    nodes = [point.predicted_sequences or 1.0 for point in timed]
    runs = [point.run for point in timed if point.run is not None]

    def line_of(values: Sequence[float], variances: Sequence[float]) -> tuple[float, float]:
        """Line through what is predicted at the loads, read at the measured sequences."""
        fit = weighted_line(places, [_between(nodes, values, place) for place in places], variances)
        return fit.fixed, fit.each

    times = [run.measured.tpot or 0.0 for run in runs]
    predicted_times = [run.expected.tpot for run in runs]
    least = _LEAST * min(predicted_times)  # where sequences are so few that a line through the others would pass zero
    middle = [max(_between(nodes, predicted_times, place), least) for place in places]
    alone = [NOISE**2 * time * expected for time, expected in zip(times, middle, strict=True)]
    _, each = line_of(predicted_times, alone)
    # What makes a TPOT longer makes a rate's sequences more, which moves its point along the line, not off it.
    moved = [
        1.0 - each * (place - 1.0) * _response(point) / time
        for point, place, time in zip(timed, places, middle, strict=True)
    ]
    variances = [variance * max(share, NOISE) ** 2 for variance, share in zip(alone, moved, strict=True)]
    # Where both lines bend alike, what a measured time differs by from the predicted one is straight.
    gaps = [time - expected for time, expected in zip(times, middle, strict=True)]
    variances = outlying(places, gaps, variances)
    fixed, each = line_of(predicted_times, variances)
    gap = weighted_line(places, gaps, variances)
    measured = _without_negative(places, times, variances, fixed + gap.fixed, each + gap.each)
    bend = max(abs(fixed + each * place - time) / time for place, time in zip(places, middle, strict=True))
    deviations = _deviations(runs, line_of, variances, each)
    names = dict.fromkeys(part.name for run in runs for part in run.decode_parts)
    parts = tuple(LinePart(name, *line_of([_time(run, name) for run in runs], variances)) for name in names)
    return StepLine(
        _coefficient(measured[0], gap.fixed_sigma, fixed, None if deviations is None else deviations[0]),
        _coefficient(measured[1], gap.each_sigma, each, None if deviations is None else deviations[1]),
        parts,
        bend,
    ), ""


class FittedLine(NamedTuple):
    """A line with the standard deviations of its numbers."""

    fixed: float
    each: float
    fixed_sigma: float
    each_sigma: float


def weighted_line(places: Sequence[float], values: Sequence[float], variances: Sequence[float]) -> FittedLine:
    r"""Line of least squares through points of known variances.

    .. math:: \min_{a, b} \sum_i \frac{(y_i - a - b x_i)^2}{v_i}

    Residuals larger than their variances widen the standard deviations; smaller ones, as of three points by chance, do
    not narrow them.

    Args:
        places: x, at least two different ones.
        values: y.
        variances: v, of the values.

    Returns:
        The line and the standard deviations of a and b.

    Source:
        Linear regression with known variances and the Birge ratio, at least one (Birge, Phys. Rev. 40, 207, 1932).

    >>> weighted_line([1.0, 2.0, 3.0], [3.0, 5.0, 7.0], [1.0, 1.0, 1.0])[:2]
    (1.0, 2.0)
    """
    weights = [1.0 / variance for variance in variances]
    total = sum(weights)
    middle = sum(weight * place for weight, place in zip(weights, places, strict=True)) / total
    level = sum(weight * value for weight, value in zip(weights, values, strict=True)) / total
    spread = sum(weight * (place - middle) ** 2 for weight, place in zip(weights, places, strict=True))
    each = sum(w * (x - middle) * (y - level) for w, x, y in zip(weights, places, values, strict=True)) / spread
    fixed = level - each * middle
    left = sum(w * (y - fixed - each * x) ** 2 for w, x, y in zip(weights, places, values, strict=True))
    birge = max(left / (len(places) - 2), 1.0) if len(places) > 2 else 1.0
    return FittedLine(fixed, each, (birge * (1.0 / total + middle**2 / spread)) ** 0.5, (birge / spread) ** 0.5)


def outlying(places: Sequence[float], values: Sequence[float], variances: Sequence[float]) -> list[float]:
    """Variances that a line should take its points by, larger for those far off it.

    Args:
        places: x.
        values: y.
        variances: of the values without outliers.

    Returns:
        The variances, times the distance from the line over two standard deviations where that is more.

    Source:
        Iterated weights of Huber, Ann. Math. Statist. 35, 73, 1964.

    >>> outlying([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    [1.0, 1.0, 1.0]
    """
    taken = list(variances)
    for _ in range(_ROUNDS):
        fit = weighted_line(places, values, taken)
        distances = [
            abs(value - fit.fixed - fit.each * place) / variance**0.5
            for place, value, variance in zip(places, values, variances, strict=True)
        ]
        taken = [variance * max(distance / _FAR, 1.0) for variance, distance in zip(variances, distances, strict=True)]
    return taken


def _without_negative(
    places: Sequence[float], values: Sequence[float], variances: Sequence[float], fixed: float, each: float
) -> tuple[float, float]:
    """Both numbers of a line; where one is negative, it is zero, and the other fits best with that."""
    weights = [1.0 / variance for variance in variances]
    if each < 0.0:
        return sum(w * y for w, y in zip(weights, values, strict=True)) / sum(weights), 0.0
    if fixed < 0.0:
        slope = sum(w * x * y for w, x, y in zip(weights, places, values, strict=True))
        return 0.0, slope / sum(w * x * x for w, x in zip(weights, places, strict=True))
    return fixed, each


def _between(nodes: Sequence[float], values: Sequence[float], place: float) -> float:
    """Value at a place: linear between the nodes, and beyond them."""
    found: list[tuple[float, float]] = []
    for node, value in sorted(zip(nodes, values, strict=True)):
        if not found or node > SAME * found[-1][0]:
            found.append((node, value))
    if len(found) == 1:
        return found[0][1]
    above = next((number for number, (node, _) in enumerate(found) if node >= place), len(found) - 1)
    right = found[max(above, 1)]
    left = found[max(above, 1) - 1]
    if place > right[0]:  # two nodes that are close say little about the slope beyond them
        left = next((one for one in reversed(found[:-1]) if one[0] <= _GAP * right[0]), found[0])
    return left[1] + (right[1] - left[1]) * (place - left[0]) / (right[0] - left[0])


def _response(point: SweepPoint) -> float:
    """Relative change of the other sequences of a step per relative change of its TPOT."""
    kind, _ = load_of_run(point.measured)
    if kind.is_burst or point.run is None:
        return 0.0
    if kind.is_open:
        return 1.0
    decode = ((point.measured.osl or 1.0) - 1.0) * (point.measured.tpot or 0.0)
    first = point.run.expected.ttft if point.measured.ttft is None else point.measured.ttft
    return float(first / (first + decode))


def _deviations(
    runs: Sequence[Run],
    line_of: Callable[[Sequence[float], Sequence[float]], tuple[float, float]],
    variances: Sequence[float],
    each: float,
) -> tuple[float, float] | None:
    """Standard deviations of the predicted numbers [s]; None on the ideal basis.

    A part is off by one factor at every load; a line is linear in its times, so that each part has a line of its own,
    and so has what the step as a whole may be off by beyond its parts.
    """
    if any(run.expected.tpot_interval is None for run in runs):
        return None
    names = dict.fromkeys(part.name for run in runs for part in run.decode_parts)
    fixed_variance, each_variance = 0.0, (_SLOPE * each) ** 2
    deviations = [[_sigma(run, name) * _time(run, name) for run in runs] for name in names]
    for times in (*deviations, [_common_sigma(run) * run.expected.tpot for run in runs]):
        one, other = line_of(times, variances)
        fixed_variance, each_variance = fixed_variance + one**2, each_variance + other**2
    return fixed_variance**0.5, each_variance**0.5


def _time(run: Run, name: str) -> float:
    """Time of a part of the step [s]."""
    return float(sum(part.time for part in run.decode_parts if part.name == name))


def _sigma(run: Run, name: str) -> float:
    """Sigma of ln(time) of a part; prompts of others are as sure as a prompt of one's own."""
    if name == _OTHERS:
        return float(pass_sigma(run.expected.prefill, basis_of_kernels(run.expected.deployment), 0.0))
    return float(max((part.sigma or 0.0 for part in run.decode_parts if part.name == name), default=0.0))


def _common_sigma(run: Run) -> float:
    """Sigma of ln(time) of a step beyond that of its parts: of layers of new kinds (docs/method.md, "Intervals")."""
    parts = [part for part in run.decode_parts if part.name != _OTHERS]
    total = sum(part.time for part in parts)
    known = sum(((part.sigma or 0.0) * part.time / total) ** 2 for part in parts)
    whole = float(pass_sigma(run.expected.decode, basis_of_kernels(run.expected.deployment), 0.0))
    return math.sqrt(max(whole**2 - known, 0.0))


def _coefficient(measured: float, scatter: float, predicted: float, sigma: float | None) -> Coefficient:
    ends = (max(measured - HALF_WIDTH * scatter, 0.0), measured + HALF_WIDTH * scatter)
    if sigma is None:
        return Coefficient(measured, *ends, predicted)
    width = HALF_WIDTH * (sigma**2 + scatter**2) ** 0.5
    return Coefficient(measured, *ends, predicted, max(predicted - width, 0.0), predicted + width)
