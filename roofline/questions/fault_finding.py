"""What is wrong with one server: the faults that explain all of its runs best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import mul
from typing import TYPE_CHECKING

from roofline.numbers.operations import Json
from roofline.numbers.quantity import rounded
from roofline.questions.diagnosis import (
    HEALTHY,
    MOST_SERVERS,
    NOISE,
    UNCLEAR,
    Observed,
    golden_section,
    most_chi2,
    predicted_figures,
)
from roofline.questions.faults import FAULTS, FIGURES, Fault, Form, Supposed, figures
from roofline.questions.inputs.flags import cause_flags
from roofline.serving.answers import Answer
from roofline.serving.latency import Workload
from roofline.serving.quantization import summary
from roofline.serving.verdict import HALF_WIDTH
from roofline.specs.load import RUN
from roofline.specs.workload import OF_REQUESTS
from roofline.specs.written import DEGREES
from roofline.support.records import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    from roofline.questions.step_line import Run

# Errors of predictions of one server, as shares of their variance: common to all of its runs; alike at loads that are
# near each other, within a factor of e to the power of `_REACH`; of TTFT and TPOT together.
_COMMON, _SMOOTH, _REACH, _BOTH = 0.75, 0.22, 3.0, 0.3
_SHAPE = 0.1  # of ln(figure with a fault / without)
_SCATTER = 0.3  # of ln(TTFT) of single requests
_MEDIAN = 0.2  # sigma of ln(median / mean of TTFT) beside what is predicted
_LEAST_SIGMA = 0.02  # of any figure
_MET = 0.25  # sigma of ln(load that was met): requests in flight by Little's law, or requests per second

# In units of chi-square.
_PRIOR = 6.0  # how much likelier no fault is than one of them: some twenty, together as likely as none
_AGAIN = 2.0  # and one than two: who set one option amiss did not set it with care
_REAL = 8.0  # lag behind the best up to which a set of faults counts
_NOTHING_OFF = 1.0  # what is unexplained of a server that is as predicted
_MORE = 2.0  # most that a fault may leave beyond what none leaves
_OUT = 25.0  # lag behind the best at which a fault is given up

# Likelihoods: of no fault, from which on a server is healthy; the same where all times are inside their ranges; of each
# of the likeliest faults, from which on they are named.
_HEALTHY, _INSIDE, _NAMED = 0.1, 0.01, 0.4
_MOSTLY = 0.2  # share of what is unexplained without faults, up to which they explain it
_UNLIKELY = 0.03  # likelihood below which a fault is not listed
_SURE = 0.99  # most that is said
_HINT = 0.15  # likelihood from which on a fault is mentioned for a healthy server
_MOST_RUNS = 8  # of a server: the others add time, not knowledge
_MOST_FAULTS = 3  # listed
_FIGURES = 6  # from which on two faults can be told
_FIRSTS = 4  # faults that are tried beside every other


class Seen(NamedTuple):
    """A run of a server: what was measured, what was expected, and how far off that may be."""

    supposed: Supposed  # the run as it is stated
    measured: Mapping[str, float]  # by `FIGURES`
    expected: Mapping[str, float]
    sigmas: Mapping[str, float]  # of ln(measured / expected)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault at the size that explains the runs best."""

    fault: str
    part: str  # of the answer: prefill, decode, queue, host, link, experts, cache, drafts or client
    text: str  # with its size
    likelihood: float  # against all others and against none [1]
    chi2: float  # that it leaves, alone or with the one before it
    confirm: str  # what would confirm it
    flags: tuple[str, ...]  # options of the engine that decide it
    size: float = 1.0

    def to_dict(self) -> dict[str, Json]:
        """The finding as plain values."""
        return {
            "fault": self.fault,
            "part": self.part,
            "text": self.text,
            "likelihood": self.likelihood,
            "confirm": self.confirm,
            "flags": list(self.flags),
        }


@dataclass(frozen=True, repr=False)
class Findings(Answer[dict[str, Json]]):
    """What is wrong with one server, by all of its runs.

    >>> import roofline as rl
    >>> runs = rl.check({"mean_ttft_ms": 30.0}, model="llama-3.1-8b", gpu="h100-sxm", tp=1, isl="1k", batch=1)
    >>> runs.findings[0].answer
    'healthy'
    """

    server: str  # model, GPUs and engine
    sources: tuple[str, ...]  # of its runs
    answer: str  # `HEALTHY`, `UNCLEAR`, or the fault, two joined by " and "
    found: tuple[Finding, ...]  # likeliest first; with two faults at once, both come first
    together: int  # findings that explain the runs only together, else 1; 0 where nothing is named
    unexplained: float  # chi-square without any fault
    figures: int  # that were compared
    ratio: float  # measured over expected of the figure that is off most [1]

    @property
    def direction(self) -> str:
        """Whether it is slower or faster than it should be."""
        if self.answer == HEALTHY:
            return "as expected"
        return "slower than expected" if self.ratio >= 1.0 else "faster than expected"

    @property
    def text(self) -> str:
        """The answer in words."""
        if self.answer == HEALTHY:
            hint = next((one for one in self.found if one.likelihood >= _HINT), None)
            known = "healthy: no fault explains the runs clearly better than the uncertainty of the prediction"
            return known if hint is None else f"{known}; if anything, {hint.fault} ({hint.text})"
        if not self.found:
            return f"{self.direction}; no fault that is known explains it"
        first = self.found[: max(self.together, 1)]
        named = " and ".join(f"{one.fault} ({one.text})" for one in first)
        if self.answer == UNCLEAR:
            return f"{self.direction}; cannot tell; closest: {named}"
        least = min(one.likelihood for one in first)
        likely = "99 % or more" if least >= _SURE else f"{rounded(100.0 * least, 2)} %"
        return f"{self.direction}: {named}; {likely} likely"

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, what would confirm it with the options to look at, and what is less likely."""
        if self.answer == HEALTHY or not self.found:
            return (self.text,)
        named = self.found[: max(self.together, 1)]
        confirmed = []
        for one in named:
            of = f" {one.fault}" if len(named) > 1 else ""
            flags = f"; set by {' or '.join(one.flags)}" if one.flags else ""
            confirmed.append(f"to confirm{of}: {one.confirm}{flags}")
        others = [
            f"{one.fault} ({one.text}) {rounded(100.0 * one.likelihood, 2)} %" for one in self.found[len(named) :]
        ]
        return (self.text, *confirmed, *([f"less likely: {', '.join(others)}"] if others else []))

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The answer and its findings as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        whole: dict[str, Json] = {
            "server": self.server,
            "sources": list(self.sources),
            "answer": self.answer,
            "direction": self.direction,
            "text": self.text,
            "ratio": self.ratio,
            "unexplained": self.unexplained,
            "figures": self.figures,
            "together": self.together,
            "found": [one.to_dict() for one in self.found],
        }
        return whole if keys is None else {key: whole[key] for key in keys}

    def __repr__(self) -> str:
        return f"<Findings on {self.server}: {self.text}>"


class _Fit(NamedTuple):
    fault: Fault
    form: Form
    size: float
    chi2: float  # at that size
    evidence: float  # chi-square over all forms and sizes, each as likely as it is usual

    def moved(self, supposed: Supposed) -> Supposed | None:
        return self.form.moved(supposed, self.size)


def findings(server: str, sources: Sequence[str], seen: Sequence[Seen]) -> Findings:
    """The faults that explain the runs of a server best.

    Each fault at its likeliest size, and pairs of them where none alone is enough.

    Args:
        server: its name in the answer.
        sources: of its runs.
        seen: the runs.

    Returns:
        The answer.

    Source:
        Maximum likelihood of one or two faults with log-normal errors, whose sigmas are those of the predicted ranges,
        correlated over the loads of a server: docs/measurements.md.
    """
    compared = _Weighed(_most_telling(seen))
    none = compared.cost(()) or 0.0
    ratio = compared.worst_ratio()
    singles = _singles(compared, none) if none > _NOTHING_OFF else []
    supposed = [_Set((), none), *(_Set((fit,), fit.evidence + _PRIOR) for fit in singles)]
    if compared.count >= _FIGURES:
        supposed += _pairs(compared, singles[:_FIRSTS], min(one.cost for one in supposed))
    shares = _shares(supposed)
    best = max(zip(shares, supposed, strict=True), key=lambda pair: pair[0])[1]
    included: dict[str, float] = {}
    for share, one in zip(shares, supposed, strict=True):
        for fit in one.fits:
            included[fit.fault.name] = included.get(fit.fault.name, 0.0) + share
    fits = {fit.fault.name: fit for fit in (*reversed(singles), *best.fits)}
    ranked = sorted(fits.values(), key=lambda fit: -included[fit.fault.name])
    is_explained = bool(best.fits) and best.fits[-1].chi2 < max(most_chi2(compared.count), _MOSTLY * none)
    if shares[0] > (_INSIDE if compared.is_inside() else _HEALTHY):
        answer = HEALTHY
    elif is_explained and min(included[fit.fault.name] for fit in best.fits) > _NAMED:
        named = sorted(best.fits, key=lambda fit: -included[fit.fault.name])
        ranked = [*named, *(fit for fit in ranked if fit not in named)]
        answer = " and ".join(fit.fault.name for fit in named)
    else:
        answer = UNCLEAR
    listed = [fit for fit in ranked[:_MOST_FAULTS] if included[fit.fault.name] > _UNLIKELY]
    engine = seen[0].supposed.run.deployment.engine.name
    bases = [one.supposed for one in compared.seen]
    return Findings(
        server,
        tuple(sources),
        answer,
        tuple(_finding(fit, included[fit.fault.name], engine, bases) for fit in listed),
        len(best.fits) if answer not in (HEALTHY, UNCLEAR) else 0,
        none,
        compared.count,
        ratio,
    )


class _Set(NamedTuple):
    """Faults that a server may have at once."""

    fits: tuple[_Fit, ...]  # the last one's chi-square is that of all
    cost: float  # in units of chi-square: what they leave, and how unusual they are


def _shares(supposed: Sequence[_Set]) -> list[float]:
    """How likely each set is."""
    least = min(one.cost for one in supposed)
    weights = [math.exp(-0.5 * (one.cost - least)) for one in supposed]
    return [weight / sum(weights) for weight in weights]


def _finding(fit: _Fit, share: float, engine: str, bases: Sequence[Supposed]) -> Finding:
    flags = tuple(cause_flags(engine, fit.fault.flags)) if fit.fault.flags else ()
    text = fit.form.text(bases, fit.size)
    return Finding(fit.fault.name, fit.fault.part, text, share, fit.chi2, fit.fault.confirm, flags, fit.size)


def _most_telling(seen: Sequence[Seen]) -> list[Seen]:
    """At most so many runs, spread over their loads, the busiest first."""
    ranked = sorted(seen, key=lambda one: -one.expected.get("load", 1.0))
    if len(ranked) <= _MOST_RUNS:
        return ranked
    return [ranked[round(place * (len(ranked) - 1) / (_MOST_RUNS - 1))] for place in range(_MOST_RUNS)]


class _Weighed:
    """Runs of a server, and how well they are explained where each is moved by some faults."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        self.seen = [one for one in seen if figures(one.supposed) is not None]
        # As waves, and as users who are not in step: a fault may part them.
        self.plain = [
            {waves: figures(one.supposed._replace(in_step=waves)) for waves in {one.supposed.comes_at_once, False}}
            for one in self.seen
        ]
        self.names = [[name for name in FIGURES if name in one.measured] for one in self.seen]
        self.count = sum(map(len, self.names))
        pairs = [(one, name) for one, names in zip(self.seen, self.names, strict=True) for name in names]
        self.residuals = [math.log(one.measured[name] / one.expected[name]) for one, name in pairs]
        self.covariance = _covariance(pairs)
        stated = _Likelihood(self.covariance)
        for residual in self.residuals:
            stated.add(residual, 0.0)
        self.widths = stated.widths

    def cost(self, moves: Sequence[Callable[[Supposed], Supposed | None]], limit: float = math.inf) -> float | None:
        """Chi-square that is left; infinite beyond the limit, None where nothing moves or a run cannot be so."""
        likelihood = _Likelihood(self.covariance)
        place = 0
        is_moved = False
        for one, plains, names in zip(self.seen, self.plain, self.names, strict=True):
            supposed: Supposed | None = one.supposed
            for move in moves:
                supposed = None if supposed is None else move(supposed)
            plain = None if supposed is None else plains.get(supposed.comes_at_once)
            if supposed is None or plain is None:
                return None
            found = figures(supposed, plain.state) if moves else plain
            if found is None:
                return None
            is_moved = is_moved or found.values != plain.values
            for name in names:
                shift = math.log(found.values[name] / plain.values[name])
                likelihood.add(self.residuals[place] - shift, (_SHAPE * shift) ** 2)
                place += 1
            if self._left(likelihood) > limit:
                return math.inf
        return self._left(likelihood) if is_moved or not moves else None

    def _left(self, likelihood: _Likelihood) -> float:
        """Chi-square of the figures so far, and how much wider their errors are than stated."""
        wider = sum(likelihood.widths) - sum(self.widths[: len(likelihood.widths)])
        return likelihood.chi2 + 2.0 * wider

    def is_inside(self) -> bool:
        """Whether every time lies inside its 80 % range."""
        pairs = ((one, name) for one, names in zip(self.seen, self.names, strict=True) for name in names)
        return all(
            name not in OF_REQUESTS or abs(residual) <= HALF_WIDTH * one.sigmas[name]
            for residual, (one, name) in zip(self.residuals, pairs, strict=True)
        )

    def worst_ratio(self) -> float:
        """Measured over expected of the figure that is off most, in sigmas; 1 without figures [1]."""
        if not self.count:
            return 1.0
        sigmas = [math.sqrt(row[place]) for place, row in enumerate(self.covariance)]
        worst = max(zip(self.residuals, sigmas, strict=True), key=lambda one: abs(one[0]) / one[1])
        return math.exp(worst[0])


class _Likelihood:
    """Chi-square of residuals that are added one by one, each with a variance of its own beside the covariance."""

    def __init__(self, covariance: Sequence[Sequence[float]]) -> None:
        self.covariance = covariance
        self.rows: list[list[float]] = []  # of the Cholesky factor
        self.whitened: list[float] = []
        self.widths: list[float] = []  # ln of its diagonal
        self.chi2 = 0.0

    def add(self, residual: float, variance: float) -> None:
        """Another residual."""
        place = len(self.rows)
        own = self.covariance[place]
        row: list[float] = []
        for column, other in enumerate(self.rows):
            row.append((own[column] - sum(map(mul, row, other))) / other[column])
        last = math.sqrt(own[place] + variance - sum(map(mul, row, row)))
        left = (residual - sum(map(mul, row, self.whitened))) / last
        row.append(last)
        self.rows.append(row)
        self.whitened.append(left)
        self.widths.append(math.log(last))
        self.chi2 += left * left


#: Errors common to the runs of a server, of TTFT and of TPOT, which have something in common: shares of each.
_DIRECTIONS = {
    "ttft": (1.0, 0.0),
    "ttft_median": (1.0, 0.0),
    "tpot": (_BOTH, math.sqrt(1.0 - _BOTH**2)),
    "e2el": (math.sqrt(0.5 * (1.0 + _BOTH)), math.sqrt(0.5 * (1.0 - _BOTH))),
    "load": (0.0, 0.0),
}


def _covariance(pairs: Sequence[tuple[Seen, str]]) -> list[list[float]]:
    """Covariance of the errors of the figures."""
    loads = [math.log(max(one.expected.get("load", 1.0), 1.0)) for one, _ in pairs]
    rows = []
    for place, (one, name) in enumerate(pairs):
        sigma = max(one.sigmas[name], _LEAST_SIGMA)
        row = []
        for other, (another, of) in enumerate(pairs[: place + 1]):
            alike = sum(map(mul, _DIRECTIONS[name], _DIRECTIONS[of]))
            near = math.exp(-abs(loads[place] - loads[other]) / _REACH)
            correlation = 1.0 if other == place else alike * (_COMMON + _SMOOTH * near)
            row.append(correlation * sigma * max(another.sigmas[of], _LEAST_SIGMA))
        is_first = name in ("ttft", "ttft_median")
        row[place] += NOISE**2 + (_SCATTER**2 / (one.supposed.requests or math.inf) if is_first else 0.0)
        rows.append(row)
    return rows


def _singles(compared: _Weighed, none: float) -> list[_Fit]:
    """Every fault that may be likelier than none, likeliest first."""
    fits: list[_Fit] = []
    lowest = none
    for fault in FAULTS:
        fit = _best_form(compared, fault, (), min(none + _MORE, lowest + _OUT))
        if fit is not None:
            fits.append(fit)
            lowest = min(lowest, fit.chi2)
    return sorted(fits, key=lambda fit: fit.evidence)


def _best_form(
    compared: _Weighed, fault: Fault, others: Sequence[Callable[[Supposed], Supposed | None]], limit: float
) -> _Fit | None:
    """A fault in the form and at the size that leave least, beside other faults; None beyond the limit."""
    best: tuple[Form, float, float] | None = None
    weights = 0.0
    for form in fault.forms:

        def left(size: float, form: Form = form) -> float | None:
            return compared.cost((*others, lambda supposed: form.moved(supposed, size)), limit)

        tried = [(size, left(size)) for size in form.sizes_for([one.supposed for one in compared.seen])]
        sizes = [size for size, cost in tried if cost is not None]
        costs = [cost for _, cost in tried if cost is not None]
        place = min(range(len(costs)), key=costs.__getitem__, default=-1)
        if place < 0 or not math.isfinite(costs[place]):
            continue
        low, size, high = sizes[max(place - 1, 0)], sizes[place], sizes[min(place + 1, len(costs) - 1)]
        if costs[place] < limit - _MORE:
            size, costs[place] = golden_section(partial(_or_infinite, left), low, size, high, costs[place])
        usual = [math.exp(-0.5 * form.penalty(each)) for each in sizes]
        shares = [weight / sum(usual) / len(fault.forms) for weight in usual]
        weights += sum(share * math.exp(-0.5 * cost) for share, cost in zip(shares, costs, strict=True))
        if best is None or costs[place] < best[2]:
            best = form, size, costs[place]
    if best is None or weights <= 0.0:
        return None
    return _Fit(fault, *best, fault.rarity - 2.0 * math.log(weights))


def _or_infinite(left: Callable[[float], float | None], size: float) -> float:
    cost = left(size)
    return math.inf if cost is None else cost


def _pairs(compared: _Weighed, firsts: Sequence[_Fit], least: float) -> list[_Set]:
    """Pairs of faults that may be likelier than the likeliest set so far."""
    found: dict[frozenset[str], _Set] = {}
    for first in firsts:
        chosen = first.evidence - first.chi2 + _PRIOR + _AGAIN
        for fault in FAULTS:
            names = frozenset((first.fault.name, fault.name))
            limit = least + _REAL - chosen
            if len(names) == 1 or names in found or limit <= 0.0:
                continue
            fit = _best_form(compared, fault, (first.moved,), limit)
            if fit is not None:
                found[names] = _Set((first, fit), fit.evidence + chosen)
                least = min(least, found[names].cost)
    return list(found.values())


def seen_run(
    run: Observed,
    sigmas: Mapping[str, float],
    *,
    requests: float | None,
    median: tuple[float, float] | None = None,
    waves: Mapping[str, float] | None = None,
) -> Seen | None:
    """A run as faults are judged by it; None where it has no steady state.

    Args:
        run: with mean times as measured [s].
        sigmas: of ln(measured / predicted), by figure [1].
        requests: of the run [requests].
        median: of TTFT, as measured and as predicted [s].
        waves: predicted times of a run whose users stay in step [s].
    """
    supposed = Supposed(run, requests=requests, in_step=waves is not None)
    shown = figures(supposed)
    if shown is None:
        return None
    expected = {**shown.values, **(waves or {})}
    measured = {name: value for name, value in run.measured.items() if name in sigmas and value}
    sigmas = {**sigmas, "load": _MET}
    if "ttft" in measured and "tpot" in measured:
        measured.pop("e2el", None)
    met = _load_met(run, requests)
    if met is not None:
        measured["load"], expected["load"] = met
    if median is not None:
        measured["ttft_median"], expected["ttft_median"] = median
        sigmas["ttft_median"] = math.hypot(sigmas["ttft"], _MEDIAN)
    return Seen(supposed, measured, expected, sigmas)


def of_checks(runs: Iterable[Run]) -> tuple[Findings, ...]:
    """What is wrong with each of the first servers among compared runs.

    A server is a model on GPUs with an engine and its formats.
    """
    servers: dict[str, list[Run]] = {}
    for run in runs:
        servers.setdefault(_server(run), []).append(run)
    answers = []
    for server, own in islice(servers.items(), MOST_SERVERS):
        seen = [(run.measured.source, one) for run in own if (one := _seen(run)) is not None]
        if seen:
            answers.append(findings(server, [source for source, _ in seen], [one for _, one in seen]))
    return tuple(answers)


def _server(run: Run) -> str:
    """Name of the server of a run."""
    deployment, measured = run.expected.deployment, run.measured
    plan = deployment.plan
    degrees = [f"{name} {getattr(plan, name)}" for name in DEGREES if getattr(plan, name) > 1]
    weights, cache, _ = summary(deployment.model, deployment.quantization)
    name, version = deployment.effective_engine.name, measured.engine_version
    engine = name if "@" in name or version is None else f"{name} {version}"
    where = f"{deployment.model.short_name} on {deployment.num_gpus}x {deployment.gpu.name}"
    return ", ".join([where, *degrees, weights, f"KV {cache}", engine])


def _seen(run: Run) -> Seen | None:
    """A compared run by its means where it states them; None where the prediction has no range to judge by."""
    stated, names = run.measured, OF_REQUESTS
    if run.expected.workload is None or all(run.expected.interval(name) is None for name in names):
        return None
    sigmas = {name: run.expected.sigma(name) for name in names}
    is_mean = stated.statistic in (None, "mean")
    means = {name: getattr(stated, f"{name}_mean") for name in names}
    times = {name: getattr(stated, name) for name in names} if is_mean or means["ttft"] is None else means
    workload, median, waves = run.expected.workload, None, run.expected.in_step
    if not is_mean and means["ttft"] is not None:
        workload = _as_run(workload, stated.num_prompts)
    if waves is not None:
        median = None if stated.ttft_median is None else (stated.ttft_median, waves["median"]["ttft"])
    elif stated.ttft_median is not None and (stated.statistic == "median" or workload.load.is_run):
        steady = run.expected.ttft if stated.statistic == "median" else _steady(run)
        median = None if steady is None else (stated.ttft_median, steady)
    figures_of = {**times, "answered_rate": stated.answered_rate}
    observed = Observed(run.expected.deployment, workload, {name: value for name, value in figures_of.items() if value})
    waves_of = None if waves is None else waves["mean" if is_mean or times is means else stated.statistic or "mean"]
    if stated.is_queue:
        waves_of = {"e2el": run.expected.e2el}
    return seen_run(observed, sigmas, requests=stated.num_prompts, median=median, waves=waves_of)


def _as_run(workload: Workload, requests: float | None) -> Workload:
    """The load of a run that begins with all users at once, whose means are predicted."""
    load = workload.load
    if requests is None or load.is_burst or load.is_open or load.amount <= 1.0:
        return workload
    return replace(workload, load=load.having({load.option: load.amount, RUN: max(requests, float(load.amount))}))


def _steady(run: Run) -> float | None:
    """Mean TTFT of the steady state, near which the median of a run is [s]."""
    workload = run.expected.workload
    if workload is None:
        return None
    load = workload.load.having({RUN: None}) if workload.load.is_run else workload.load
    found = predicted_figures(Observed(run.expected.deployment, replace(workload, load=load), {}))
    return None if found is None else float(found.values["ttft"])


def _load_met(run: Observed, requests: float | None) -> tuple[float, float] | None:
    """Requests in flight by Little's law or per second, as measured and as stated; None where the run does not say."""
    load, measured = run.workload.load, run.measured
    rate, ttft, tpot = (measured.get(name) for name in ("answered_rate", "ttft", "tpot"))
    if load.is_burst or not rate or not ttft or (not tpot and run.workload.osl > 1.0):
        return None
    whole = measured.get("e2el") or ttft + (tpot or 0.0) * max(run.workload.osl - 1.0, 0.0)
    if load.is_open:
        amount = float(load.amount)
        stated = amount if requests is None else requests / (requests / amount + whole)
        return rate, stated
    users = float(load.amount)
    ends = 1.0 if requests is None else max(1.0 - 0.5 * users / requests, 0.5)
    return rate * whole, users * ends
