"""What changed between two runs of a server, each cause at the size that fits best; suspects of an unexpected time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from roofline.formulas.case import HOST_TIMES
from roofline.measurements.settings import Stated
from roofline.numbers.operations import Json, Real
from roofline.numbers.quantity import rounded, to_text
from roofline.physics.plan import Deployment
from roofline.questions.inputs.flags import cause_flags
from roofline.serving.latency import Workload, e2el, lanes
from roofline.serving.load.steady import mean_latencies, served
from roofline.specs.engine import Engine
from roofline.support.records import NamedTuple, dataclass, replace

#: Run-to-run standard deviation of ln(measured figure) on one server.
NOISE = 0.05
#: Answers other than a cause.
NOTHING, UNCLEAR, HEALTHY = "nothing changed", "cannot tell", "healthy"
#: Servers that are looked into for faults; each takes up to a second.
MOST_SERVERS = 8

# Relative errors of predictions.
_SHAPE = 0.15  # of a predicted change (docs/load.md)
_OFF = 0.04  # of kernel times; amplified close to saturation
_GPUS = 0.12  # sigma of ln(kernel time of one GPU over another's); docs/accuracy.md
_ENGINES = 0.5  # sigma of ln(host time of one engine over another's)
_FIRST = 0.15  # of TTFT under load
_KERNELS_PRIOR, _HOST_PRIOR = 0.2, 0.5  # sigma of ln(actual / predicted time)

_STEEP = 10.0  # most that a figure moves per relative slowdown of the kernels, as at saturation
# Thresholds in chi-square.
_SOME = 5.0  # gain below which nothing changed
_REAL = 10.0  # least gain of a cause
_AHEAD = 4.0  # least lead over the next cause
_OUT = 20.0  # lag behind the best at which a cause is given up
_NAMED = 4.0  # least gain of a cause that a stated difference names in advance: two standard deviations
_MOST_SCALE = 9.0  # of the variances: errors of figures three times as large as stated
_SMALL = 0.15  # mean change of the latencies that "nothing changed" must rule out at one standard deviation
_WORST = 3.1  # standard deviations beyond which even the best cause explains too little

_OTHER_LOADS = (0.25, 0.5, 2.0, 4.0)  # beside a load of 1, over that of a run

# Iterations.
_TURNS = 8
_REFINED = 5  # between the sizes tried
_ROUNDS, _STEP = 4, 0.02
_GOLDEN = 0.381966


class Pair(NamedTuple):
    before: Observed
    after: Observed


@dataclass(frozen=True, slots=True)
class Explanation:
    """A cause at its best-fitting size."""

    cause: str
    text: str
    size: float  # factor, seconds, sequences or share, as in the text
    chi2: float  # unexplained remainder, in variances of the noise


@dataclass(frozen=True, slots=True)
class Diagnosis:
    answer: str  # one of `CAUSES`, `NOTHING` or `UNCLEAR`
    explanations: tuple[Explanation, ...]  # best first, one per cause
    unexplained: float  # chi-square without any cause
    figures: int  # number compared
    loads: int  # number compared
    known: tuple[str, ...] = ()  # stated differences, accounted for
    flags: tuple[str, ...] = ()  # options of the engine that decide what the answer names
    grounds: tuple[str, ...] = ()  # stated differences that name the answer
    telling: str | None = (
        None  # the load at which the two likeliest causes differ most, where they cannot be told apart
    )

    @property
    def best(self) -> Explanation | None:
        """The explanation behind the answer; None for `NOTHING` and `UNCLEAR`."""
        return self.explanations[0] if self.explanations and self.explanations[0].cause == self.answer else None

    @property
    def text(self) -> str:
        """The answer in words."""
        if self.best is not None:
            if self.grounds:
                return f"{self.best.text}; stated: {', '.join(self.grounds)}"
            return f"{self.best.text}; look at {' or '.join(self.flags)}" if self.flags else self.best.text
        if self.answer == NOTHING:
            return f"nothing beyond the scatter of {self.figures} figures"
        if not self.explanations:
            return f"{UNCLEAR}: no single cause explains the difference"
        closest = " or ".join(explanation.text for explanation in self.explanations[:2])
        more = f"; both sides measured at {self.telling} would tell" if self.telling else ""
        return f"{UNCLEAR}; closest: {closest}{more}"

    def to_dict(self) -> dict[str, Json]:
        """The answer and its causes as plain values."""
        return {
            "answer": self.answer,
            "text": self.text,
            "unexplained": self.unexplained,
            "figures": self.figures,
            "loads": self.loads,
            "known": list(self.known),
            "flags": list(self.flags),
            "telling": self.telling,
            "causes": [
                {"cause": cause.cause, "text": cause.text, "size": cause.size, "chi2": cause.chi2}
                for cause in self.explanations
            ],
        }


def paired_runs(before: Sequence[Observed], after: Sequence[Observed]) -> list[Pair]:
    """Each later run with the earlier one of the nearest load; those without one (same kind of load) are left out."""
    pairs = []
    for run in after:
        alike = [other for other in before if type(other.workload.load) is type(run.workload.load)]
        if alike:
            pairs.append(Pair(min(alike, key=lambda other: _load_distance(other, run)), run))
    return pairs


def diagnosis(pairs: Sequence[Pair], stated: Sequence[Stated] = ()) -> Diagnosis:
    """Most likely cause of the difference between runs.

    The two predictions account for the stated differences; the best cause leaves the least of the rest unexplained over
    all loads and figures.

    Args:
        pairs: earlier and later runs.
        stated: differences that no prediction accounts for, each with the part that it can have changed.

    Returns:
        The answer, and how well each cause explains the difference.

    Source:
        Least squares in the logarithms at the noise of a measurement, one parameter a cause: docs/measurements.md.
    """
    pairs = _corrected_runs(pairs)
    predictions = [(predicted_figures(pair.before), predicted_figures(pair.after)) for pair in pairs]
    usable = [
        (pair, before, after)
        for pair, (before, after) in zip(pairs, predictions, strict=True)
        if before is not None and after is not None
    ]
    compared = _Compared(usable)
    unexplained = compared.cost(None, 0.0)
    lowest = unexplained
    explanations: dict[str, Explanation] = {}
    causes: dict[str, Cause] = {}
    for cause in SUSPECTED:
        explained = _best_fit(cause, compared, lowest + _OUT)
        if explained is not None and (cause.name not in explanations or explained.chi2 < explanations[cause.name].chi2):
            explanations[cause.name], causes[cause.name] = explained, cause
            lowest = min(lowest, explained.chi2)
    loads = len({_load(pair.after) for pair, _, _ in usable})
    if loads == 1 and "host" in causes and causes["host"].moved is _longer_steps:
        of_all = explanations.get("kernels")
        explanations["kernels"] = _of_decode(explanations["host"], of_all)
        if explanations["kernels"] is not of_all:
            causes.clear()  # no load is named: how slower kernels of decode grow with it is not known
    ranked = tuple(sorted(explanations.values(), key=lambda explanation: explanation.chi2))
    answer = _answer(ranked, unexplained, compared.count)
    mean, sigma = compared.drift()
    if answer == NOTHING and abs(mean) + sigma > _SMALL:
        answer = UNCLEAR
    named_cause = _named_cause(ranked, unexplained, compared.count, [one for one in stated if one.sign * mean >= 0.0])
    grounds: tuple[str, ...] = ()
    if named_cause is not None:
        answer, ranked = named_cause.cause, (named_cause, *(each for each in ranked if each is not named_cause))
        grounds = tuple(one.text for one in stated if one.part == answer)
    named = next((pair.after.deployment.engine.name for pair, _, _ in usable), None)
    flags = () if named is None else tuple(cause_flags(named, answer))
    telling = None
    if answer == UNCLEAR and len(ranked) > 1 and causes:
        telling = _telling(usable[0][0].after, [(causes[each.cause], each.size) for each in ranked[:2]])
    return Diagnosis(answer, ranked, unexplained, compared.count, loads, flags=flags, grounds=grounds, telling=telling)


def _telling(run: Observed, suspected: Sequence[tuple[Cause, float]]) -> str | None:
    """The load at which two causes move the figures apart most; None where none tells them apart."""
    apart: list[tuple[float, str]] = []
    amount = float(run.workload.load.amount or 0.0)
    for factor in (1.0 / amount, *_OTHER_LOADS) if amount > 0.0 and not run.workload.load.is_burst else ():
        other = with_workload(run, load=run.workload.load.scaled(factor))._replace(near=None)
        shifts = [_shift(cause, size, other) for cause, size in suspected]
        if None in shifts:
            continue
        first, second = (shift or {} for shift in shifts)
        squares = (((first[name] - second[name]) / NOISE) ** 2 / 2.0 for name in first if name in second)
        apart.append((sum(squares), other.workload.load.brief))
    best = max(apart, default=(0.0, ""))
    return best[1] if best[0] >= _REAL else None


def _shift(cause: Cause, size: float, run: Observed) -> dict[str, float] | None:
    """What a cause adds to ln(figure after / figure before) of a run; None where it is impossible."""
    plain, changed = predicted_figures(run), cause.moved(run, size)
    moved = None if changed is None else predicted_figures(changed)
    if plain is None or moved is None:
        return None
    sign = -1.0 if cause.is_before else 1.0
    return {
        name: sign * math.log(moved.values[name] / plain.values[name]) for name in moved.values if name in plain.values
    }


def _answer(ranked: tuple[Explanation, ...], unexplained: float, count: int) -> str:
    if not ranked or not count:
        return UNCLEAR
    best = ranked[0].chi2
    if unexplained - best < _REAL:
        return NOTHING if unexplained - best < _SOME and unexplained < most_chi2(count) else UNCLEAR
    scale = _birge(best, count)
    lead = (ranked[1].chi2 - best) / scale if len(ranked) > 1 else math.inf
    is_close = lead < (_AHEAD if scale == 1.0 else _REAL) or (unexplained - best) / scale < _REAL
    return UNCLEAR if is_close or scale > _MOST_SCALE else ranked[0].cause


def _birge(best: float, count: int) -> float:
    """Factor on all variances where even the best cause leaves more than they say; 1 where it does not.

    Source:
        Birge, "The calculation of errors by the method of least squares", Phys. Rev. 40, 207 (1932).
    """
    return best / max(count - 1, 1) if best > most_chi2(count - 1) else 1.0


def _of_decode(host: Explanation, kernels: Explanation | None) -> Explanation:
    """Slower kernels of decode steps alone, where they explain more than slower kernels of all passes.

    At one load they are the same number as a host that takes longer a step: a time that each step has more.
    """
    if kernels is not None and kernels.chi2 <= host.chi2:
        return kernels
    return Explanation(
        "kernels", host.text.replace("host: ", "kernels: ").replace("a step", "a decode step"), host.size, host.chi2
    )


def _named_cause(
    ranked: tuple[Explanation, ...], unexplained: float, count: int, stated: Sequence[Stated]
) -> Explanation | None:
    """The one cause that a stated difference names and the figures bear out; None where there is none, or several.

    Named in advance, it needs no lead over the others: two standard deviations of gain, as likely as the best.
    """
    parts = {one.part for one in stated}
    most = min(unexplained - _NAMED, most_chi2(count - 1), ranked[0].chi2 + _AHEAD) if ranked else -math.inf
    fitting = [each for each in ranked if each.cause in parts and each.chi2 <= most]
    return fitting[0] if len(fitting) == 1 else None


def most_chi2(count: int) -> float:
    """Chi-square that `count` figures rarely exceed (Wilson-Hilferty approximation)."""
    few = 2.0 / (9.0 * max(count, 1))
    return max(count, 1) * (1.0 - few + _WORST * math.sqrt(few)) ** 3


class _Compared:
    """Measured differences of all pairs, and what a cause of some size predicts for them."""

    def __init__(self, usable: Iterable[tuple[Pair, Figures, Figures]]) -> None:
        # The busiest server first: it tells causes apart best, so that most are ruled out early.
        self.usable = sorted(usable, key=lambda entry: -entry[2].values["e2el"])
        sides = [(p.before.measured, p.after.measured, before.values, after.values) for p, before, after in self.usable]
        self.names = [[name for name in METRICS if all(name in side for side in known)] for known in sides]
        self.count = sum(map(len, self.names))
        self.gains = [_gains(pair.after, after) for pair, _, after in self.usable]
        self.nuisances = self._nuisances()

    def _nuisances(self) -> list[list[float]]:
        """Prediction errors of one sigma that differ between the two sides: other GPUs, other engines."""
        directions = []
        deployments = [(pair.before.deployment, pair.after.deployment) for pair, _, _ in self.usable]
        is_other_gpu = any(
            (a.gpu, a.model, a.quantization, a.plan) != (b.gpu, b.model, b.quantization, b.plan) for a, b in deployments
        )
        is_other_engine = any(a.engine.name != b.engine.name for a, b in deployments)
        others = ((SLOWER_KERNELS, _GPUS, is_other_gpu), (SLOWER_HOST, _ENGINES, is_other_engine))
        for cause, sigma in ((cause, sigma) for cause, sigma, differs in others if differs):
            shifts = [self.shift(cause, math.exp(sigma), pair) for pair in range(len(self.usable))]
            if all(step is not None for step in shifts):
                steps = zip(self.names, shifts, strict=True)
                directions.append([step[name] for names, step in steps for name in names if step is not None])
        return directions

    def runs(self, cause: Cause) -> list[Observed]:
        """The runs that a cause would have changed."""
        return [pair.before if cause.is_before else pair.after for pair, _, _ in self.usable]

    def shift(self, cause: Cause, size: float, place: int) -> dict[str, float] | None:
        """What a cause adds to ln(figure) of a pair; None where it is impossible."""
        pair, before, after = self.usable[place]
        changed = cause.moved(pair.before if cause.is_before else pair.after, size)
        plain, sign = (before, -1.0) if cause.is_before else (after, 1.0)
        moved = None if changed is None else predicted_figures(changed._replace(near=plain.state))
        if moved is None:
            return None
        names = [name for name in moved.values if name in plain.values]
        return {name: sign * math.log(moved.values[name] / plain.values[name]) for name in names}

    def cost(self, cause: Cause | None, size: float, limit: float = math.inf) -> float:
        """Chi-square that a cause leaves; infinite beyond the limit."""
        residuals: list[float] = []
        variances: list[float] = []
        total = 0.0
        for place in range(len(self.usable)):
            shifts = {} if cause is None else self.shift(cause, size, place)
            if shifts is None:
                return math.inf
            for name in self.names[place]:
                residual, variance = self._term(place, name, shifts.get(name, 0.0))
                residuals.append(residual)
                variances.append(variance)
            total = _least_chi2(residuals, variances, self.nuisances)
            if total > limit:
                return math.inf
        return total

    def _term(self, place: int, name: str, shift: float) -> tuple[float, float]:
        """What a shift leaves unexplained of a figure, ln(after / before), and its variance."""
        pair, before, after = self.usable[place]
        new, old = ((run.expected or {}) for run in (pair.after, pair.before))
        known = name in new and name in old
        expected = math.log(new[name] / old[name] if known else after.values[name] / before.values[name])
        measured = math.log(pair.after.measured[name] / pair.before.measured[name])
        changes = (_SHAPE * shift) ** 2 + (_SHAPE * expected) ** 2
        variance = 2.0 * NOISE**2 + changes + (_OFF * self.gains[place][name]) ** 2
        return measured - expected - shift, variance

    def drift(self) -> tuple[float, float]:
        """Mean unexplained change of the latencies, ln(after / before), and its standard deviation."""
        terms = [
            self._term(place, name, 0.0)
            for place, names in enumerate(self.names)
            for name in names
            if name != "answered_rate"
        ]
        weight = sum(1.0 / variance for _, variance in terms)
        return (sum(r / v for r, v in terms) / weight, weight**-0.5) if terms else (0.0, 0.0)


def _gains(run: Observed, plain: Figures) -> dict[str, float]:
    """Relative change of each figure per relative slowdown of the kernels."""
    slower = predicted_figures(run._replace(kernels=run.kernels * (1.0 + _STEP), near=plain.state))
    if slower is None:
        return dict.fromkeys(plain.values, _STEEP)
    return {
        name: min(abs(math.log(value / plain.values[name])) / _STEP, _STEEP) for name, value in slower.values.items()
    }


def _least_chi2(residuals: list[float], variances: list[float], nuisances: list[list[float]]) -> float:
    """Chi-square with each nuisance at its likeliest, plus ln(variance / noise variance)."""
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


def _best_fit(cause: Cause, compared: _Compared, limit: float) -> Explanation | None:
    """A cause at its best size; None where its chi-square exceeds the limit."""
    runs = compared.runs(cause)
    sizes = cause.sizes(runs) if runs else ()
    costs = [compared.cost(cause, size, limit) for size in sizes]
    place = min(range(len(sizes)), key=costs.__getitem__, default=0)
    if not costs or not math.isfinite(costs[place]):
        return None
    low, high = sizes[max(place - 1, 0)], sizes[min(place + 1, len(sizes) - 1)]
    size, cost = golden_section(lambda size: compared.cost(cause, size, limit), low, sizes[place], high, costs[place])
    return Explanation(cause.name, cause.text(runs, size), size, cost)


def golden_section(
    cost: Callable[[float], float], low: float, size: float, high: float, lowest: float
) -> tuple[float, float]:
    """Golden-section search for the minimum between two sizes."""
    for _ in range(_REFINED):
        right = high - size > size - low
        candidate = size + _GOLDEN * (high - size) if right else size - _GOLDEN * (size - low)
        value = cost(candidate)
        if value < lowest:
            low, high = (size, high) if right else (low, size)
            size, lowest = candidate, value
        elif right:
            high = candidate
        else:
            low = candidate
    return size, lowest


def _corrected_runs(pairs: Sequence[Pair]) -> list[Pair]:
    """The runs with kernel and host times corrected as on the side that is nearer to its prediction.

    An error common to both sides is no change, but close to saturation it decides how much a change moves.
    """
    sides = [_baseline([pair.before for pair in pairs]), _baseline([pair.after for pair in pairs])]
    _, kernels, host = min(sides)
    return [Pair(_scaled_run(pair.before, kernels, host), _scaled_run(pair.after, kernels, host)) for pair in pairs]


def _baseline(runs: list[Observed]) -> tuple[float, float, float]:
    """Remaining chi-square, and the likeliest ln(factor) on kernel and host times (Gauss-Newton)."""
    factors = (0.0, 0.0)
    residuals = _residuals(runs, factors)
    cost = math.inf if residuals is None else _chi2(residuals, factors)
    for _ in range(_ROUNDS):
        steps = ((factors[0] + _STEP, factors[1]), (factors[0], factors[1] + _STEP))
        shifted = [_residuals(runs, step) for step in steps]
        if residuals is None or shifted[0] is None or shifted[1] is None:
            break
        rows = [
            (here, (more - here) / _STEP, (host - here) / _STEP, variance)
            for (here, variance), (more, _), (host, _) in zip(residuals, shifted[0], shifted[1], strict=True)
        ]
        kk = sum(k * k / v for _, k, _, v in rows) + 1.0 / _KERNELS_PRIOR**2
        hh = sum(h * h / v for _, _, h, v in rows) + 1.0 / _HOST_PRIOR**2
        kh = sum(k * h / v for _, k, h, v in rows)
        k0 = -sum(k * r / v for r, k, _, v in rows) - factors[0] / _KERNELS_PRIOR**2
        h0 = -sum(h * r / v for r, _, h, v in rows) - factors[1] / _HOST_PRIOR**2
        determinant = kk * hh - kh**2
        candidate = (factors[0] + (hh * k0 - kh * h0) / determinant, factors[1] + (kk * h0 - kh * k0) / determinant)
        moved = _residuals(runs, candidate)
        if moved is None or _chi2(moved, candidate) >= cost:
            break
        residuals, factors, cost = moved, candidate, _chi2(moved, candidate)
    return cost, *factors


def _chi2(residuals: list[tuple[float, float]], factors: tuple[float, float]) -> float:
    prior = (factors[0] / _KERNELS_PRIOR) ** 2 + (factors[1] / _HOST_PRIOR) ** 2
    return prior + sum(off * off / variance for off, variance in residuals)


def _scaled_run(run: Observed, kernels: float, host: float) -> Observed:
    engine = run.deployment.engine
    names = ("request", "prefill", "step", "layer", "sequence")
    scaled = with_engine(run, **{name: getattr(engine, name) * math.exp(host) for name in names})
    return scaled._replace(kernels=math.exp(kernels))


def _residuals(runs: list[Observed], factors: tuple[float, float]) -> list[tuple[float, float]] | None:
    """ln(predicted / measured) and variance of every figure; None where a run has no prediction."""
    residuals = []
    for run in runs:
        predicted = predicted_figures(_scaled_run(run, *factors))
        if predicted is None:
            return None
        for name in METRICS:
            if name in run.measured and name in predicted.values:
                variance = NOISE**2 + (_FIRST if name == "ttft" else _OFF) ** 2
                residuals.append((math.log(predicted.values[name] / run.measured[name]), variance))
    return residuals


def _load(run: Observed) -> tuple[object, ...]:
    workload = run.workload
    return workload.load.name, workload.load.amount, workload.text, workload.osl


def _load_distance(run: Observed, other: Observed) -> float:
    first, second = run.workload, other.workload
    names = "isl", "osl", first.load.option
    return sum(abs(math.log(getattr(first, name) / getattr(second, name))) for name in names)


# Causes that may explain why two runs of a server differ, each with one number for its size.

#: Causes that a diagnosis can name.
CAUSES = ("kernels", "host", "batch limit", "cache", "load")
#: Figures of a run: times [s] and answered requests [1/s].
METRICS = ("ttft", "tpot", "e2el", "answered_rate")

#: Engine times that a faster GPU does not shorten: all but the all-reduces, which run on the GPU.
_HOST = tuple(name for name in HOST_TIMES if name != "all_reduce")
# Sizes that are tried.
_SLOWER = (0.25, 0.45, 0.65, 0.82, 0.93, 1.08, 1.22, 1.55, 2.2, 4.0)
_HOSTS = (0.1, 0.35, 0.7, 1.3, 2.1, 3.5, 6.0, 10.0)
_MORE = (-1.0, -0.4, -0.15, -0.05, 0.05, 0.12, 0.25, 0.5, 1.0, 3.0)  # of the shortest predicted TPOT
_SHARES = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.88, 0.97)
_REQUESTS = (0.3, 0.5, 0.7, 0.88, 1.12, 1.35, 1.8, 3.3)
_ANSWERS = (0.35, 0.55, 0.75, 0.9, 1.12, 1.35, 1.8, 2.9)
_LIMITS = (0.03, 0.08, 0.16, 0.27, 0.4, 0.53, 0.66, 0.8, 0.93)  # of the sequences that run


class Observed(NamedTuple):
    deployment: Deployment
    workload: Workload
    measured: Mapping[str, float]  # of `METRICS`
    kernels: float = 1.0  # factor on predicted GPU time [1]
    near: tuple[Real, ...] | None = None  # steady state of a similar run, where the solver starts
    expected: Mapping[str, float] | None = None  # of `METRICS`, where they are not those of its load's steady state


class Figures(NamedTuple):
    values: Mapping[str, float]  # predicted, by `METRICS`
    state: tuple[Real, ...] | None = None  # steady state of the load


class Cause(NamedTuple):
    """One possible change, parametrized by its size."""

    name: str  # one of `CAUSES`
    sizes: Callable[[list[Observed]], tuple[float, ...]]  # to try on these runs; ascending
    moved: Callable[[Observed, float], Observed | None]  # the run with this change; None where it cannot have it
    text: Callable[[list[Observed], float], str]
    is_before: bool = False  # the run before had it, the run after lost it


def predicted_figures(run: Observed) -> Figures | None:
    """Figures of a run; None where there is no steady state.

    Kernels k times slower are computed as a host k times faster and a request rate k times higher, times scaled by k.
    """
    factor = run.kernels
    deployment, workload = run.deployment, run.workload
    if factor != 1.0:
        engine = replace(deployment.engine, **{name: getattr(deployment.engine, name) / factor for name in _HOST})
        deployment = replace(deployment, engine=engine)
        workload = replace(workload, load=workload.load.sped_up(factor))
    if workload.load.is_burst:
        ttft, tpot = (float(time) for time in mean_latencies(deployment, workload))
        total = float(e2el(ttft, tpot, workload.osl))
        return Figures(_scaled(factor, ttft, tpot, total, None))
    means = served(deployment, workload, run.near)
    if not means.is_stable or not math.isfinite(means.ttft):
        return None
    total = float(means.ttft + means.decode)
    values = _scaled(factor, float(means.ttft), float(means.tpot), total, float(means.request_rate))
    return Figures(values, means.state)


def in_flight(run: Observed) -> float:
    """Most sequences that one data-parallel rank runs at once, as predicted."""
    workload, ranks = run.workload, float(lanes(run.deployment))
    users = workload.load.users_on(ranks)
    if users is not None:
        return float(users)
    figures = predicted_figures(run)
    mean = 1.0 if figures is None else float(workload.request_rate or 0.0) * figures.values["e2el"] / ranks
    return mean + 2.0 * math.sqrt(mean) + 1.0  # Poisson: rarely more


def _scaled(factor: float, ttft: float, tpot: float, e2e: float, rate: float | None) -> dict[str, float]:
    times = {"ttft": factor * ttft, "tpot": factor * tpot, "e2el": factor * e2e}
    return times if rate is None else {**times, "answered_rate": rate / factor}


def with_engine(run: Observed, **changes: float) -> Observed:
    engine: Engine = replace(run.deployment.engine, **changes)  # type: ignore[arg-type]
    return run._replace(deployment=replace(run.deployment, engine=engine))


def with_workload(run: Observed, **changes: object) -> Observed:
    return run._replace(workload=replace(run.workload, **changes))  # type: ignore[arg-type]


def slower_kernels(run: Observed, size: float) -> Observed:
    return run._replace(kernels=run.kernels * size)


def _slower_rates(run: Observed, size: float) -> Observed:
    gpu = run.deployment.gpu
    link = replace(gpu.link, bandwidth=gpu.link.bandwidth / size)
    peaks = {name: peak / size for name, peak in gpu.peaks.items()}
    exp_rate = None if gpu.exp_rate is None else gpu.exp_rate / size
    slower = replace(gpu, bandwidth=gpu.bandwidth / size, peaks=peaks, exp_rate=exp_rate, link=link)
    return run._replace(deployment=replace(run.deployment, gpu=slower))


def _slower_host(run: Observed, size: float) -> Observed:
    engine = run.deployment.engine
    return with_engine(run, **{name: getattr(engine, name) * size for name in _HOST if name != "network"})


def _longer_steps(run: Observed, size: float) -> Observed | None:
    step = run.deployment.engine.step + size
    return None if step < 0.0 else with_engine(run, step=step)


def _step_sizes(runs: list[Observed]) -> tuple[float, ...]:
    predicted = filter(None, map(predicted_figures, runs))
    shortest = min((figures.values["tpot"] for figures in predicted), default=0.0)
    least = -min(float(run.deployment.engine.step) for run in runs)
    return tuple(sorted({max(share * shortest, least) for share in _MORE}))


def limited(run: Observed, size: float) -> Observed | None:
    if run.workload.load.is_burst:
        return None
    stages = float(run.deployment.plan.pp)
    present = run.deployment.engine.max_num_seqs
    limit = max(size, 1.0) * stages
    return run if present is not None and present <= limit else with_engine(run, max_num_seqs=limit)


def _limits(runs: list[Observed]) -> tuple[float, ...]:
    most = max(map(in_flight, runs))
    return tuple(sorted({max(share * most, 1.0) for share in _LIMITS}))


def cached(run: Observed, size: float) -> Observed:
    workload = run.workload
    return with_workload(run, prefix=workload.prefix + size * (workload.isl - workload.prefix))


def uncached(run: Observed, size: float) -> Observed | None:
    prefix = run.workload.prefix
    return with_workload(run, prefix=(1.0 - size) * prefix) if prefix else None


def _more_requests(run: Observed, size: float) -> Observed | None:
    return with_workload(run, load=run.workload.load.scaled(size))


def _longer_answers(run: Observed, size: float) -> Observed:
    return with_workload(run, osl=max(run.workload.osl * size, 1.0))


def _always(*sizes: float) -> Callable[[list[Observed]], tuple[float, ...]]:
    return lambda _: sizes


def _percent(factor: float) -> str:
    return f"{rounded(abs(factor - 1.0) * 100.0, 2)} %"


def _kernels_text(_: list[Observed], size: float) -> str:
    return f"kernels {_percent(size)} {'slower' if size > 1.0 else 'faster'}"


def _host_text(runs: list[Observed], size: float) -> str:
    engine, layers = runs[0].deployment.engine, runs[0].deployment.model.layers
    word = "more" if size > 1.0 else "less"
    step = abs(float(engine.step + engine.layer * layers) * (size - 1.0))
    others = 0.0 if runs[0].workload.load.is_burst else max(in_flight(runs[0]) - 1.0, 0.0)
    late = float(engine.arrival) * math.sqrt(others)  # of most of those that decode
    request = abs((float(engine.request + engine.prefill) + late) * (size - 1.0))
    return f"host: {to_text(step, 's', 2)} {word} a step, {to_text(request, 's', 2)} {word} a request"


def _step_text(_: list[Observed], size: float) -> str:
    return f"host: {to_text(abs(size), 's', 2)} {'more' if size > 0.0 else 'less'} a step"


def _cached_text(runs: list[Observed], size: float, since: str = "newly") -> str:
    share = max(size * (1.0 - run.workload.prefix / run.workload.isl) for run in runs)
    return f"cache: about {_percent(1.0 + share)} of the prompt was {since} cached"


def _uncached_text(runs: list[Observed], size: float) -> str:
    share = max(size * run.workload.prefix / run.workload.isl for run in runs)
    return f"cache: about {_percent(1.0 + share)} of the prompt was no longer cached"


def _requests_text(runs: list[Observed], size: float) -> str:
    stated = "request rate that is" if runs[0].workload.load.is_open else "requests in flight that are"
    return f"load: {rounded(size, 2)} x the {stated} stated"


def _answers_text(_: list[Observed], size: float) -> str:
    return f"load: answers {_percent(size)} {'longer' if size > 1.0 else 'shorter'} than stated"


def _limit_text(runs: list[Observed], size: float) -> str:
    return f"batch limited to about {_sequences(runs, size)}"


def _lifted_text(runs: list[Observed], size: float) -> str:
    return f"batch no longer limited to about {_sequences(runs, size)}"


def _sequences(runs: list[Observed], size: float) -> str:
    plan = runs[0].deployment.plan
    return rounded(max(size, 1.0) * float(plan.dp * plan.pp), 2)


SLOWER_KERNELS = Cause("kernels", _always(*_SLOWER), slower_kernels, _kernels_text)
SLOWER_HOST = Cause("host", _always(*_HOSTS), _slower_host, _host_text)
SUSPECTED = (
    SLOWER_KERNELS,
    Cause("kernels", _always(*_SLOWER), _slower_rates, _kernels_text),
    Cause("host", _step_sizes, _longer_steps, _step_text),
    Cause("host", _step_sizes, _longer_steps, lambda runs, size: _step_text(runs, -size), is_before=True),
    SLOWER_HOST,
    Cause("batch limit", _limits, limited, _limit_text),
    Cause("batch limit", _limits, limited, _lifted_text, is_before=True),
    Cause("cache", _always(*_SHARES), cached, _cached_text),
    Cause("cache", _always(*_SHARES), uncached, _uncached_text),
    Cause("cache", _always(*_SHARES), cached, partial(_cached_text, since="no longer"), is_before=True),
    Cause("load", _always(*_REQUESTS), _more_requests, _requests_text),
    Cause("load", _always(*_ANSWERS), _longer_answers, _answers_text),
)


# Which part of a pass best explains a measured time outside its 80 % range.

#: Largest plausible error of the time of a part; beyond this factor the cause is something else.
MOST_PLAUSIBLE = 10.0
MOST_SUSPECTS = 2
#: Sigma of a part without residuals.
UNMEASURED = 0.5

_NEAR = 2.0  # standard deviations within which a time counts as explained
_BEYOND = 4.0  # most standard deviations that a part may be off by
_TRIED = 400  # factors between the smallest and the largest plausible


class PartOf(NamedTuple):
    name: str
    time: float  # [s]
    sigma: float  # of ln(predicted / measured) of its time
    fastest: float  # [s] at full rates of the hardware


class Timed(NamedTuple):
    """A measured time with its prediction and the parts of that."""

    metric: str
    measured: float  # [s]
    predicted: float  # [s]
    parts: tuple[PartOf, ...]
    sigma: float  # of ln(predicted / measured) of the whole time
    is_outside: bool  # outside its 80 % range


class Suspect(NamedTuple):
    """A part that explains times outside their range if off by a factor."""

    part: str
    factor: float  # on its predicted time
    sigmas: float  # ln(factor) over the uncertainty of its time
    explains: tuple[str, ...]  # metrics
    cost: float  # implausibility of the factor plus what it leaves unexplained, in variances


def ranked_suspects(times: Sequence[Timed]) -> tuple[Suspect, ...]:
    r"""Parts that explain the times outside their range, the most plausible first, two at most.

    The second one explains what the first leaves where any does, else it is the next most plausible.

    .. math:: \min_{x, M} \left(\frac{\ln x}{\sigma_i}\right)^2
              + \sum_m \left(\frac{1}{s_m} \ln \frac{t_m}{\hat t_m + [m \in M]\, (x - 1)\, \hat t_{m,i}}\right)^2

    One factor x on part i of TTFT, TPOT or both (M), at most `MOST_PLAUSIBLE` and four sigma, makes no part faster than
    the hardware limit. A time outside its range must be met within the scatter of measurements (s), one inside within
    the sigma of its prediction, so that explaining both is more plausible than explaining one.

    Args:
        times: each measured time with its parts.

    Returns:
        The suspects; none where no single part explains any of the times.

    Source:
        Maximum likelihood of a single cause with log-normal residuals; docs/measurements.md.
    """
    names = dict.fromkeys(part.name for timed in times for part in timed.parts)
    suspects = [suspect for name in names if (suspect := _suspect(name, times)) is not None]
    ranked = sorted(suspects, key=lambda suspect: suspect.cost)
    if not ranked:
        return ()
    others = sorted(ranked[1:], key=lambda suspect: set(suspect.explains) <= set(ranked[0].explains))
    return (ranked[0], *others[: MOST_SUSPECTS - 1])


def _suspect(name: str, times: Sequence[Timed]) -> Suspect | None:
    """A part at its likeliest factor on one or both times; None where it explains none."""
    affected = [(timed, part) for timed in times for part in timed.parts if part.name == name]
    choices = [affected] if len(affected) == 1 else [affected, affected[:1], affected[1:]]
    candidates = [candidate for parts in choices if (candidate := _best_factor(parts, times)) is not None]
    return min(candidates, key=lambda suspect: suspect.cost, default=None)


def _best_factor(parts: list[tuple[Timed, PartOf]], times: Sequence[Timed]) -> Suspect | None:
    """A part at its likeliest factor on all of these times; None where it explains none."""
    limit = max(part.fastest / part.time for _, part in parts)  # no part is faster than the hardware
    low = math.log(min(max(limit, 1.0 / MOST_PLAUSIBLE), 1.0))
    width = math.log(MOST_PLAUSIBLE) - low
    sigma = min(part.sigma for _, part in parts)
    factors = [math.exp(low + step / _TRIED * width) for step in range(_TRIED + 1)]
    cost, factor = min((_cost(factor, sigma, parts, times), factor) for factor in factors)
    explains = tuple(
        timed.metric
        for timed, part in parts
        if timed.is_outside and abs(_remaining_gap(timed, part, factor)) <= _NEAR * NOISE
    )
    sigmas = abs(math.log(factor)) / sigma
    return Suspect(parts[0][1].name, factor, sigmas, explains, cost) if explains and sigmas <= _BEYOND else None


def _cost(factor: float, sigma: float, affected: list[tuple[Timed, PartOf]], times: Sequence[Timed]) -> float:
    """Implausibility of a factor plus what it leaves unexplained, in variances."""
    parts = {timed.metric: part for timed, part in affected}
    remainders = (
        _remaining_gap(timed, parts.get(timed.metric), factor) / (NOISE if timed.is_outside else timed.sigma)
        for timed in times
    )
    return (math.log(factor) / sigma) ** 2 + sum(remainder * remainder for remainder in remainders)


def _remaining_gap(timed: Timed, part: PartOf | None, factor: float) -> float:
    """ln(measured / predicted) with the factor on one part."""
    predicted = timed.predicted + (0.0 if part is None else (factor - 1.0) * part.time)
    return math.log(timed.measured / predicted)
