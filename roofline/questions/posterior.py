"""The likeliest constants of an engine, given runs of a server and the shipped profile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from roofline.numbers.quantity import MICRO, MILLI
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Deployment
from roofline.questions.check import MeasurementCheck
from roofline.questions.diagnosis import Observed, predicted_figures
from roofline.serving.prediction import predict_deployment
from roofline.serving.verdict import HALF_WIDTH, deployment_name, remaining_share
from roofline.specs.engine import Engine, KernelOverride
from roofline.specs.gpu import CALIBRATED, HOST
from roofline.specs.load import Users
from roofline.support.errors import BadInput, RooflineError
from roofline.support.records import NamedTuple, replace

# What is fitted, and what is believed of it before any run.


class Prior(NamedTuple):
    """The prior of a constant: log-normal about the value in the profile."""

    sigma: float  # of its logarithm
    least: float  # [s] scale of the prior of shorter times; 0 for factors
    meaning: str


#: Constant -> its prior. The widths are those with which five runs of a development server predict its others best
#: (accuracy/judge_learning.py); host times of the shipped engines differ by factors of two to three.
PRIORS: Mapping[str, Prior] = {
    "request": Prior(1.0, 1.0 * MILLI, "host, per request"),
    "arrival": Prior(0.5, 1.0 * MILLI, "host, per request that comes while others are decoded"),
    "prefill": Prior(1.0, 0.5 * MILLI, "host, per prefill pass"),
    "prefill_slowdown": Prior(0.3, 0.0, "factor on a prompt's steps while others are decoded"),
    "step": Prior(1.0, 300.0 * MICRO, "host, per decode step"),
    "sequence": Prior(1.0, 1.0 * MICRO, "host, per sequence of a decode step"),
    "arithmetic": Prior(0.3, 0.0, "factor on the time of arithmetic"),
    "memory": Prior(0.15, 0.0, "factor on the time of memory traffic"),
    "attention": Prior(0.2, 0.0, "factor on attention, beside both"),
}
#: Constants that are factors on kernels, which a profile states as overrides of their rates.
FACTORS = ("arithmetic", "memory", "attention")
METRICS = ("ttft", "tpot")
#: Scale of the residuals of a fitted deployment over the sigma of its shipped predictions, before any run is seen, and
#: the number of figures that it is worth: chosen for coverage on the development servers.
REMAINS: Mapping[str, float] = {"ttft": 0.36, "tpot": 0.33}
_BELIEVED = 4.0
#: Width of the posterior over that of the prior, below which the runs tell a constant; and below which it moves at all.
KNOWN, _UNTOLD = 0.8, 0.95

#: Degrees of freedom of Student's distribution of the residuals: a run that is far off hardly pulls.
_FREEDOM = 2.0
#: Sigma of the normal distribution whose 80 % range is as wide as that of Student's, over the scale of the latter.
_AS_NORMAL = 1.886 / HALF_WIDTH
#: Information of a figure that fits, over that of a normal one with the scale as its sigma.
_INFORMATION = (_FREEDOM + 1.0) / (_FREEDOM + 3.0)
_WAVES = (
    "left out: all its lengths are equal, so that users stay in step and the steady state, which constants are fitted "
    "in, is never reached; let lengths differ (vllm bench serve --random-range-ratio 0.3)"
)
_TOO_FAST = 1.02  # time at the hardware limit over a measured one, beyond which a run is not what it states

_STEP = 0.05  # of a logarithm, in differences
_WIDENED = (4.0, 1.0)  # scales of the residuals, one fit after the other: the first finds its way from far off
_ROUNDS, _TURNS, _HALVINGS = 2, 8, 6
_SETTLED = 0.001  # change of the cost below which a fit has settled

#: Loads that may tell a constant: users, tokens of prompt and answer.
_LOADS = tuple(
    (users, isl, osl)
    for users in (1.0, 8.0, 64.0, 256.0)
    for isl, osl in ((128.0, 128.0), (128.0, 1000.0), (512.0, 512.0), (8192.0, 128.0))
)


class Likeliest(NamedTuple):
    """The likeliest point, and what is left."""

    point: Any  # logarithms of the constants over the profile's
    covariance: Any
    residuals: Any  # ln(measured / predicted) of the figures
    weights: Any  # of the figures, 1 where they fit perfectly
    remains: Mapping[str, float]  # of the shipped sigma of a metric: scale of Student's distribution
    scatter: Mapping[str, float]  # the same as a normal sigma, of a run that was not fitted


def engine_at(engine: Engine, point: Mapping[str, float]) -> Engine:
    """A profile whose constants are moved, each by the exponential of a logarithm.

    A time that is shorter than the scale of its prior moves by that scale, so that it may grow.
    """
    changes: dict[str, Any] = {}
    for name, logarithm in point.items():
        if name not in FACTORS:
            known, least = getattr(engine, name), PRIORS[name].least
            moved = known + max(known, least) * math.expm1(logarithm)
            changes[name] = max(moved, 0.0 if least else 1.0)
    arithmetic, memory, attention = (math.exp(-point.get(name, 0.0)) for name in FACTORS)
    tunings = tuple(
        KernelOverride(
            kind.name,
            compute=arithmetic * (attention if kind.is_attention else 1.0),
            memory=memory * (attention if kind.is_attention else 1.0),
        )
        for kind in CALIBRATED
    )
    return replace(engine, tunings=(*engine.tunings, *tunings), **changes)


def value_at(engine: Engine, name: str, logarithm: float) -> float:
    """A constant of a profile, moved: in seconds, or as a factor."""
    if name in FACTORS:
        return math.exp(logarithm)
    return float(getattr(engine_at(engine, {name: logarithm}), name))


class Figure(NamedTuple):
    run: int
    metric: str
    measured: float  # ln [s]
    sigma: float  # of ln(predicted / measured), as shipped


class Runs:
    """Figures of the runs, and their predictions at any point: logarithms of constants over the profile's."""

    def __init__(self, checks: Iterable[MeasurementCheck], profile: Engine) -> None:
        self.checks: list[MeasurementCheck] = []
        self.observed: list[Observed] = []
        self.figures: list[Figure] = []
        self.notes: list[str] = []  # why runs were left out
        for check in checks:
            self._add(check)
        if not self.figures:
            raise BadInput("; ".join(self.notes) or "no run has a TTFT or TPOT that a prediction can be compared with")
        self.names = tuple(dict.fromkeys(deployment_name(run.deployment) for run in self.observed))
        self.constants = [name for name in PRIORS if name in FACTORS or getattr(profile, name)]
        self.sigmas = np.asarray([PRIORS[name].sigma for name in self.constants])
        self.metrics = np.asarray([figure.metric for figure in self.figures])
        self.measured = np.asarray([figure.measured for figure in self.figures])
        self.shipped = np.asarray([figure.sigma for figure in self.figures])
        self.at_shipped = self.predicted(np.zeros(len(self.constants)))

    def _add(self, check: MeasurementCheck) -> None:
        source, expected = check.measured.source, check.expected
        if check.expected.in_step is not None:
            self.notes.append(f"{source}: {_WAVES}")
            return
        if check.measured.statistic == "p99":
            self.notes.append(f"{source}: left out: constants are fitted to medians or means, not to a p99")
            return
        known = None if expected.workload is None else predicted_figures(_observed(check))
        if known is None:
            self.notes.append(f"{source}: left out: no steady state as predicted")
            return
        figures = []
        for metric in METRICS:
            time, ends = getattr(check.measured, metric), expected.interval(metric)
            if time is None or ends is None:
                continue
            if (check.ideal_share(metric) or 0.0) > _TOO_FAST:
                self.notes.append(f"{source}: left out: its {metric.upper()} is below the hardware limit")
                return
            sigma = _sigma(expected.deployment, ends, getattr(expected, metric), metric)
            figures.append(Figure(len(self.observed), metric, math.log(time), sigma))
        self.figures += figures
        self.checks.append(check)
        self.observed.append(_observed(check)._replace(near=known.state))

    def engine_at(self, engine: Engine, point: Any) -> Engine:
        return engine_at(engine, dict(zip(self.constants, map(float, point), strict=True)))

    def predicted(self, point: Any) -> Any:
        """Logarithm of every figure; NaN where a server has no steady state."""
        known = [self.of_run(run, point) for run in self.observed]
        return np.asarray([known[figure.run].get(figure.metric, math.nan) for figure in self.figures])

    def of_run(self, run: Observed, point: Any) -> dict[str, float]:
        """Logarithms of TTFT and TPOT of a run; empty where there is no steady state."""
        engine = self.engine_at(run.deployment.engine, point)
        figures = predicted_figures(run._replace(deployment=replace(run.deployment, engine=engine)))
        values = {} if figures is None else figures.values
        return {name: math.log(value) for name, value in values.items() if name in METRICS and value > 0.0}

    def moved(self, point: Any, free: Any = None) -> Iterator[tuple[int, Any]]:
        """Points a step away from one, each along another constant; `free` says along which, None along all."""
        for place in range(len(self.constants)):
            if free is None or free[place]:
                further = point.copy()
                further[place] += _STEP
                yield place, further

    def slopes(self, point: Any, centre: Any, free: Any = None) -> Any:
        """Change of every figure by a change of every free constant, both in logarithms."""
        slopes = np.zeros((len(self.figures), len(self.constants)))
        for place, further in self.moved(point, free):
            change = (self.predicted(further) - centre) / _STEP
            slopes[:, place] = np.where(np.isfinite(change), change, 0.0)
        return slopes


def _observed(check: MeasurementCheck) -> Observed:
    return Observed(check.expected.deployment, check.expected.workload, {})  # type: ignore[arg-type]


def likeliest(runs: Runs) -> Likeliest:
    r"""Constants at their likeliest, and the scatter about them; what the runs cannot tell stays as shipped.

    .. math:: \min_\theta \sum_i \frac{\nu + 1}{2} \ln\left(1 + \frac{r_i^2}{\nu s_i^2}\right)
              + \sum_k \frac{\theta_k^2}{2 w_k^2}

    Residuals r are ln(measured / predicted), scales s are a share of the sigma that the shipped profile states for the
    figure, theta the logarithms of constants over the profile's, w the widths of their priors.

    Args:
        runs: figures of runs.

    Returns:
        The point, its covariance, and what remains of the sigma of predictions.

    Source:
        Maximum a posteriori by Gauss-Newton steps with the weights of Student's distribution: Lange, Little and Taylor,
        JASA 84, 1989; the same paper has the expected information of the covariance.
    """
    free = np.ones(len(runs.constants), dtype=bool)
    fit = _settled(runs, free)
    told = np.sqrt(np.diag(fit.covariance)) < _UNTOLD * runs.sigmas
    return fit if np.all(told) else _settled(runs, told)


def _settled(runs: Runs, free: Any) -> Likeliest:
    """The likeliest point and the scatter about it, each given the other; only free constants move."""
    remains = dict(REMAINS)
    point = np.zeros(len(runs.constants))
    widened: tuple[float, ...] = _WIDENED
    for _ in range(_ROUNDS):
        scale = runs.shipped * np.asarray([remains[metric] for metric in runs.metrics])
        for factor in widened:
            point, centre = _nearest(runs, factor * scale, point, free)
        residuals = runs.measured - centre
        weights = _FREEDOM / (_FREEDOM + (residuals / scale) ** 2)
        informing = runs.slopes(point, centre) / scale[:, None] * np.sqrt(_INFORMATION * weights)[:, None]
        covariance = np.linalg.inv(informing.T @ informing + np.diag(runs.sigmas**-2.0))
        used = np.sum((informing @ covariance) * informing, axis=1)
        remains = _remaining(runs, residuals, used, remains)
        widened = _WIDENED[-1:]
    scatter = {}
    for metric in METRICS:
        of_metric = runs.metrics == metric
        if np.any(of_metric):
            scatter[metric] = _AS_NORMAL * remains[metric] * math.sqrt(1.0 + float(np.mean(used[of_metric])))
    return Likeliest(point, covariance, residuals, weights, remains, scatter)


def _nearest(runs: Runs, scale: Any, point: Any, free: Any) -> tuple[Any, Any]:
    """The likeliest point from a start, along the free constants, and the figures there."""
    centre = runs.predicted(point)
    cost = _cost(runs, centre, scale, point)
    for _ in range(_TURNS):
        slopes = runs.slopes(point, centre, free)[:, free]
        residuals = (runs.measured - centre) / scale
        weights = (_FREEDOM + 1.0) / (_FREEDOM + residuals**2)
        scaled, sigmas = slopes / scale[:, None], runs.sigmas[free]
        curvature = (scaled * weights[:, None]).T @ scaled + np.diag(sigmas**-2.0)
        step = np.zeros(len(point))
        step[free] = np.linalg.solve(curvature, (scaled * weights[:, None]).T @ residuals - point[free] / sigmas**2)
        for halving in range(_HALVINGS):
            trial = point + step * 0.5**halving
            figures = runs.predicted(trial)
            lower = _cost(runs, figures, scale, trial)
            if lower < cost:
                break
        else:
            break
        gain, point, centre, cost = cost - lower, trial, figures, lower
        if gain < _SETTLED:
            break
    return point, centre


def _cost(runs: Runs, figures: Any, scale: Any, point: Any) -> float:
    """Negative logarithm of the posterior; infinite where a run has no steady state."""
    if not np.all(np.isfinite(figures)):
        return math.inf
    residuals = (runs.measured - figures) / scale
    likelihood = 0.5 * (_FREEDOM + 1.0) * float(np.sum(np.log1p(residuals**2 / _FREEDOM)))
    return likelihood + 0.5 * float(np.sum((point / runs.sigmas) ** 2))


def _remaining(runs: Runs, residuals: Any, used: Any, before: Mapping[str, float]) -> dict[str, float]:
    """What remains of the shipped sigma of each metric, by the residuals and what is believed beforehand."""
    remains = {}
    for metric, usual in REMAINS.items():
        of_metric = runs.metrics == metric
        scaled = (residuals[of_metric] / runs.shipped[of_metric]) ** 2
        free = max(float(np.sum(of_metric) - np.sum(used[of_metric])), 0.0)
        squares = float(np.sum((_FREEDOM + 1.0) / (_FREEDOM + scaled / before[metric] ** 2) * scaled))
        remains[metric] = math.sqrt((_BELIEVED * usual**2 + squares) / (_BELIEVED + free))
    return remains


def widths(fit: Likeliest) -> list[float]:
    """Standard deviations of the logarithms of the constants."""
    return [float(width) for width in np.sqrt(np.diag(fit.covariance))]


def usual_sigma(runs: Runs, metric: str) -> float:
    """Median sigma of a metric over the runs, as shipped; of the other one where none was measured."""
    of_metric = runs.metrics == metric
    return float(np.median(runs.shipped[of_metric] if np.any(of_metric) else runs.shipped))


def telling_loads(runs: Runs, fit: Likeliest) -> dict[str, Observed | None]:
    """The load whose run would narrow each constant most; None where no single run tells it."""
    first = runs.observed[0]
    known = np.linalg.inv(fit.covariance)
    best: dict[str, tuple[float, Observed | None]] = dict.fromkeys(runs.constants, (KNOWN, None))
    for users, isl, osl in _LOADS:
        load = Users(users * first.deployment.replicas)
        run = Observed(first.deployment, replace(first.workload, isl=isl, osl=osl, prefix=0.0, load=load), {})
        sigmas, centre = _shipped_sigmas(run), runs.of_run(run, fit.point)
        if sigmas is None or len(centre) < len(METRICS):
            continue
        scale = np.asarray([sigma * fit.remains[metric] for metric, sigma in zip(METRICS, sigmas, strict=True)])
        slopes = np.zeros((len(METRICS), len(runs.constants)))
        for place, further in runs.moved(fit.point):
            figures = runs.of_run(run, further)
            slopes[:, place] = [(figures.get(name, centre[name]) - centre[name]) / _STEP for name in METRICS]
        informing = slopes / scale[:, None] * math.sqrt(_INFORMATION)
        narrowed = np.sqrt(np.diag(np.linalg.inv(known + informing.T @ informing))) / runs.sigmas
        for name, width in zip(runs.constants, narrowed, strict=True):
            if width < best[name][0]:
                best[name] = float(width), run
    return {name: run for name, (_, run) in best.items()}


def _shipped_sigmas(run: Observed) -> tuple[float, ...] | None:
    """Sigma of each metric of a run that was not measured; None where the server cannot have it."""
    try:
        prediction = predict_deployment(run.deployment, run.workload)
    except RooflineError:
        return None
    return tuple(_sigma(run.deployment, prediction.latency_interval(name), prediction.latency(name), name)
                 for name in METRICS)  # fmt: skip


def _sigma(deployment: Deployment, ends: Any, time: Any, metric: str) -> float:
    """Sigma of a shipped prediction, by the high end of its range: the hardware limit may cut the low one."""
    return math.log(float(ends[1]) / float(time)) / HALF_WIDTH / remaining_share(deployment, metric)


def pass_factors(runs: Runs, fit: Likeliest) -> dict[str, tuple[float, float, float]]:
    """Factor on the kernels of a prefill and of a decode pass of the middle run, with the ends of its 80 % range."""
    middle = sorted(range(len(runs.checks)), key=lambda place: runs.checks[place].expected.batch)[len(runs.checks) // 2]
    batch, run = runs.checks[middle].expected.batch, runs.observed[middle]
    prompt, cached = max(run.workload.isl - run.workload.prefix, 1.0), run.workload.prefix
    steps = max(run.workload.osl - 1.0, 1.0)

    def times(point: Any) -> Any:
        at = replace(run.deployment, engine=runs.engine_at(run.deployment.engine, point))
        passes = prefill_pass(at, 1.0, prompt, cached), decode_pass(at, batch, run.workload.isl, steps)
        kernels = [[kernel.time for kernel in one.kernels if kernel.kind is not HOST] for one in passes]
        return np.log([float(sum(of_pass)) for of_pass in kernels])

    shipped, fitted = times(np.zeros(len(fit.point))), times(fit.point)
    slopes = np.zeros((len(fitted), len(fit.point)))
    for place, further in runs.moved(fit.point, [name in FACTORS for name in runs.constants]):
        slopes[:, place] = (times(further) - fitted) / _STEP
    half = HALF_WIDTH * np.sqrt(np.sum((slopes @ fit.covariance) * slopes, axis=1))
    ends = [(change, change - width, change + width) for change, width in zip(fitted - shipped, half, strict=True)]
    return {
        name: (math.exp(middle), math.exp(low), math.exp(high))
        for name, (middle, low, high) in zip(("prefill", "decode"), ends, strict=True)
    }
