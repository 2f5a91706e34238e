"""What changed between two runs of a server: each cause re-predicted at the size that explains the difference best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from roofline.analysis.causes import METRICS, SUSPECTED, Cause, Figures, Observed, predicted_figures
from roofline.records import NamedTuple, dataclass, replace

__all__ = ["NOISE", "NOTHING", "UNCLEAR", "Diagnosis", "Explanation", "Pair", "diagnosis", "paired_runs"]

#: Standard deviation of the logarithm of a measured figure, from run to run of one server.
NOISE = 0.05
#: Answers besides the causes.
NOTHING, UNCLEAR = "nothing changed", "cannot tell"

_SHAPE = 0.15  # of the size of a predicted change, or of what is known to differ: forms are that far off (docs/load.md)
_OFF = 0.04  # of the kernels, of which a server close to saturation makes much more
_GPUS = 0.12  # sigma of ln(one GPU's kernels over another's), predicted; docs/accuracy.md
_ENGINES = 0.5  # the same of the host's time of two engines
_FIRST = 0.15  # what forms of a TTFT under a load may be off by
_STEEP = 10.0  # gain of a figure at saturation
_SOME = 5.0  # gain in chi-square below which nothing changed
_REAL = 10.0  # gain in chi-square that a cause must bring to be one at all
_AHEAD = 4.0  # gain over the next cause
_WORST = 3.1  # standard deviations beyond which even the best cause explains too little
_OUT = 20.0  # chi-square above the best of what is looked at no further
_TURNS = 8
_REFINED = 5  # steps between the sizes that are tried
_GOLDEN = 0.381966


class Pair(NamedTuple):
    """A run, and the one before it whose load is nearest."""

    before: Observed
    after: Observed


@dataclass(frozen=True, slots=True)
class Explanation:
    """A cause at the size that explains the difference best."""

    cause: str
    text: str
    size: float  # factor, seconds, sequences or share, as the text says
    chi2: float  # what remains unexplained, in variances of the noise


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What explains the difference between the runs."""

    answer: str  # one of `CAUSES`, `NOTHING` or `UNCLEAR`
    explanations: tuple[Explanation, ...]  # best first, one of each cause
    unexplained: float  # chi-square where nothing changed
    figures: int  # that were compared
    loads: int  # that were compared
    known: tuple[str, ...] = ()  # what is known to differ

    @property
    def best(self) -> Explanation | None:
        """The answer with its size; None where there is none."""
        return self.explanations[0] if self.explanations and self.explanations[0].cause == self.answer else None


def paired_runs(before: Sequence[Observed], after: Sequence[Observed]) -> list[Pair]:
    """Each run after with the run before whose load is nearest.

    Args:
        before: the runs before.
        after: the runs after.

    Returns:
        Pairs of one kind of load; none where no such are there.
    """
    found = []
    for run in after:
        alike = [other for other in before if other.workload.load == run.workload.load]
        if alike:
            found.append(Pair(min(alike, key=lambda other: _apart(other, run)), run))
    return found


def diagnosis(paired: Sequence[Pair]) -> Diagnosis:
    """What explains the difference between runs.

    What is known to differ is taken out by the two predictions; a cause is then the better the less of the rest it
    leaves, over all loads and figures.

    Args:
        paired: runs after, each with the run before that it is compared with.

    Returns:
        The answer, and how well each cause explains the difference.

    Source:
        Least squares in the logarithms at the noise of a measurement, one parameter a cause: docs/measurements.md.
    """
    paired = _at_baseline(paired)
    plain = [(predicted_figures(pair.before), predicted_figures(pair.after)) for pair in paired]
    usable = [
        (pair, before, after)
        for pair, (before, after) in zip(paired, plain, strict=True)
        if before is not None and after is not None
    ]
    compared = _Compared(usable)
    unexplained = compared.cost(None, 0.0)
    least = unexplained
    found: dict[str, Explanation] = {}
    for cause in SUSPECTED:
        explained = _explained(cause, compared, least + _OUT)
        if explained is not None and (cause.name not in found or explained.chi2 < found[cause.name].chi2):
            found[cause.name] = explained
            least = min(least, explained.chi2)
    ranked = tuple(sorted(found.values(), key=lambda one: one.chi2))
    loads = len({_load(pair.after) for pair, _, _ in usable})
    return Diagnosis(_answer(ranked, unexplained, compared.count), ranked, unexplained, compared.count, loads)


def _answer(ranked: tuple[Explanation, ...], unexplained: float, count: int) -> str:
    if not ranked or not count:
        return UNCLEAR
    best = ranked[0].chi2
    if unexplained - best < _REAL:
        return NOTHING if unexplained - best < _SOME and unexplained < _limit(count) else UNCLEAR
    if best > _limit(count - 1):
        return UNCLEAR
    if len(ranked) > 1 and ranked[1].chi2 - best < _AHEAD:
        return UNCLEAR
    return ranked[0].cause


def _limit(count: int) -> float:
    """Chi-square that so many figures rarely exceed: Wilson and Hilferty's approximation."""
    few = 2.0 / (9.0 * max(count, 1))
    return max(count, 1) * (1.0 - few + _WORST * math.sqrt(few)) ** 3


class _Compared:
    """Differences of all pairs beside what a cause at a size makes of them."""

    def __init__(self, usable: Iterable[tuple[Pair, Figures, Figures]]) -> None:
        # The fullest first: it tells most, and a cause that it rules out needs no other.
        self.usable = sorted(usable, key=lambda each: -each[2].values["e2el"])
        self.names = [
            [
                name
                for name in METRICS
                if all(
                    name in side for side in (pair.before.measured, pair.after.measured, before.values, after.values)
                )
            ]
            for pair, before, after in self.usable
        ]
        self.count = sum(map(len, self.names))
        self.gains = [_gains(pair.after, after) for pair, _, after in self.usable]
        self.nuisances = self._nuisances()

    def _nuisances(self) -> list[list[float]]:
        """Directions in which the predictions themselves may differ, a sigma long: other GPUs, other engines."""
        found = []
        deployments = [(pair.before.deployment, pair.after.deployment) for pair, _, _ in self.usable]
        kinds = (
            (
                0,
                _GPUS,
                any(
                    (a.gpu, a.model, a.precision, a.plan) != (b.gpu, b.model, b.precision, b.plan)
                    for a, b in deployments
                ),
            ),
            (4, _ENGINES, any(a.engine.name != b.engine.name for a, b in deployments)),
        )
        for place, sigma, differs in kinds:
            if not differs:
                continue
            moved = [self.shift(SUSPECTED[place], math.exp(sigma), pair) for pair in range(len(self.usable))]
            if all(step is not None for step in moved):
                steps = zip(self.names, moved, strict=True)
                found.append([step[name] for names, step in steps for name in names if step is not None])
        return found

    def runs(self, cause: Cause) -> list[Observed]:
        """The runs that would have a cause."""
        return [pair.before if cause.is_before else pair.after for pair, _, _ in self.usable]

    def shift(self, cause: Cause, size: float, place: int) -> dict[str, float] | None:
        """What a cause adds to the logarithm of each figure of a pair; None where it cannot be."""
        pair, before, after = self.usable[place]
        changed = cause.moved(pair.before if cause.is_before else pair.after, size)
        plain, sign = (before, -1.0) if cause.is_before else (after, 1.0)
        found = None if changed is None else predicted_figures(changed._replace(near=plain.state))
        if found is None:
            return None
        return {
            name: sign * math.log(value / plain.values[name])
            for name, value in found.values.items()
            if name in plain.values
        }

    def cost(self, cause: Cause | None, size: float, most: float = math.inf) -> float:
        """What a cause leaves unexplained, in variances; where it is more than the most that matters, infinite."""
        residuals: list[float] = []
        variances: list[float] = []
        total = 0.0
        for place, (pair, before, after) in enumerate(self.usable):
            shifts = {} if cause is None else self.shift(cause, size, place)
            if shifts is None:
                return math.inf
            for name in self.names[place]:
                known = math.log(after.values[name] / before.values[name])
                measured = math.log(pair.after.measured[name] / pair.before.measured[name])
                shift = shifts.get(name, 0.0)
                changes = (_SHAPE * shift) ** 2 + (_SHAPE * known) ** 2
                variances.append(2.0 * NOISE**2 + changes + (_OFF * self.gains[place][name]) ** 2)
                residuals.append(measured - known - shift)
            total = _least(residuals, variances, self.nuisances)
            if total > most:
                return math.inf
        return total


def _gains(run: Observed, plain: Figures) -> dict[str, float]:
    """What a figure moves by where kernels are a little slower, over what they are slower by."""
    slower = predicted_figures(run._replace(kernels=run.kernels * (1.0 + _STEP), near=plain.state))
    if slower is None:
        return dict.fromkeys(plain.values, _STEEP)
    return {
        name: min(abs(math.log(value / plain.values[name])) / _STEP, _STEEP) for name, value in slower.values.items()
    }


def _least(residuals: list[float], variances: list[float], nuisances: list[list[float]]) -> float:
    """Chi-square with each nuisance at its likeliest, and the logarithms of the variances over that of the noise."""
    left, amounts = residuals, [0.0] * len(nuisances)
    for _ in range(_TURNS if len(nuisances) > 1 else 1):
        for number, direction in enumerate(nuisances):
            without = [r + amounts[number] * d for r, d in zip(left, direction, strict=False)]
            terms = list(zip(without, direction, variances, strict=False))
            amounts[number] = sum(r * d / v for r, d, v in terms) / (1.0 + sum(d * d / v for _, d, v in terms))
            left = [r - amounts[number] * d for r, d, _ in terms]
    return (
        sum(amount**2 for amount in amounts)
        + sum(r * r / v for r, v in zip(left, variances, strict=True))
        + sum(math.log(v / (2.0 * NOISE**2)) for v in variances)
    )


def _explained(cause: Cause, compared: _Compared, most: float) -> Explanation | None:
    """A cause at its best size; None where it leaves more than the most that matters."""
    runs = compared.runs(cause)
    sizes = cause.sizes(runs) if runs else ()
    costs = [compared.cost(cause, size, most) for size in sizes]
    place = min(range(len(sizes)), key=costs.__getitem__, default=0)
    if not costs or not math.isfinite(costs[place]):
        return None
    low, high = sizes[max(place - 1, 0)], sizes[min(place + 1, len(sizes) - 1)]
    size, least = _refined(lambda size: compared.cost(cause, size, most), low, sizes[place], high, costs[place])
    return Explanation(cause.name, cause.text(runs, size), size, least)


def _refined(cost: Callable[[float], float], low: float, size: float, high: float, least: float) -> tuple[float, float]:
    """The least of a function between two of the places where it was tried: golden section."""
    for _ in range(_REFINED):
        right = high - size > size - low
        tried = size + _GOLDEN * (high - size) if right else size - _GOLDEN * (size - low)
        value = cost(tried)
        if value < least:
            low, high = (size, high) if right else (low, size)
            size, least = tried, value
        elif right:
            high = tried
        else:
            low = tried
    return size, least


_KERNELS_PRIOR, _HOST_PRIOR = 0.2, 0.5  # sigma of what a prediction may be off by, in logarithms
_ROUNDS, _STEP = 4, 0.02


def _at_baseline(paired: Sequence[Pair]) -> list[Pair]:
    """The runs with kernels and host as the side has them that is nearer to its prediction.

    What is off in both alike is no change, yet close to saturation it decides how much a change moves.
    """
    sides = [_baseline([pair.before for pair in paired]), _baseline([pair.after for pair in paired])]
    _, kernels, host = min(sides)
    return [Pair(_biased(pair.before, kernels, host), _biased(pair.after, kernels, host)) for pair in paired]


def _baseline(runs: list[Observed]) -> tuple[float, float, float]:
    """What remains of the differences to the predictions, and the likeliest ln of the factors on kernels and host."""
    place = (0.0, 0.0)
    at = _off(runs, place)
    cost = math.inf if at is None else _remaining(at, place)
    for _ in range(_ROUNDS):
        along = [_off(runs, (place[0] + _STEP, place[1])), _off(runs, (place[0], place[1] + _STEP))]
        if at is None or along[0] is None or along[1] is None:
            break
        rows = [
            (here, (more - here) / _STEP, (host - here) / _STEP, variance)
            for (here, variance), (more, _), (host, _) in zip(at, along[0], along[1], strict=True)
        ]
        kk = sum(k * k / v for _, k, _, v in rows) + 1.0 / _KERNELS_PRIOR**2
        hh = sum(h * h / v for _, _, h, v in rows) + 1.0 / _HOST_PRIOR**2
        kh = sum(k * h / v for _, k, h, v in rows)
        k0 = -sum(k * r / v for r, k, _, v in rows) - place[0] / _KERNELS_PRIOR**2
        h0 = -sum(h * r / v for r, _, h, v in rows) - place[1] / _HOST_PRIOR**2
        whole = kk * hh - kh**2
        tried = (place[0] + (hh * k0 - kh * h0) / whole, place[1] + (kk * h0 - kh * k0) / whole)
        there = _off(runs, tried)
        if there is None or _remaining(there, tried) >= cost:
            break
        at, place, cost = there, tried, _remaining(there, tried)
    return cost, *place


def _remaining(at: list[tuple[float, float]], place: tuple[float, float]) -> float:
    prior = (place[0] / _KERNELS_PRIOR) ** 2 + (place[1] / _HOST_PRIOR) ** 2
    return prior + sum(off * off / variance for off, variance in at)


def _biased(run: Observed, kernels: float, host: float) -> Observed:
    engine = run.deployment.engine
    times = {
        name: getattr(engine, name) * math.exp(host) for name in ("request", "prefill", "step", "layer", "sequence")
    }
    deployment = replace(run.deployment, engine=replace(engine, **times))
    return run._replace(deployment=deployment, kernels=math.exp(kernels))


def _off(runs: list[Observed], place: tuple[float, float]) -> list[tuple[float, float]] | None:
    """ln(predicted / measured) of every figure, with its variance; None where there is no prediction."""
    found = []
    for run in runs:
        predicted = predicted_figures(_biased(run, *place))
        if predicted is None:
            return None
        found += [
            (
                math.log(predicted.values[name] / run.measured[name]),
                NOISE**2 + (_FIRST if name == "ttft" else _OFF) ** 2,
            )
            for name in METRICS
            if name in run.measured and name in predicted.values
        ]
    return found


def _load(run: Observed) -> tuple[object, ...]:
    workload = run.workload
    return workload.load, workload.concurrency, workload.request_rate, workload.batch, workload.isl, workload.osl


def _apart(one: Observed, other: Observed) -> float:
    """How far the loads of two runs are from each other."""
    names = (
        "isl",
        "osl",
        "concurrency" if one.workload.concurrency else "request_rate" if one.workload.request_rate else "batch",
    )
    return sum(abs(math.log(getattr(one.workload, name) / getattr(other.workload, name))) for name in names)
