"""A profile of an engine fitted to results of one of its servers, as a file that predictions read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from roofline.catalog.checks import document_faults
from roofline.catalog.entries import yaml_date, yaml_quoted, yaml_scalar
from roofline.catalog.find import load_engine, profile_of
from roofline.measurements.tables import is_kernel_table
from roofline.numbers.operations import Json
from roofline.numbers.quantity import GIBI, MICRO, counted, rounded, to_text
from roofline.questions.check import MeasurementCheck, check_readings, of_command, read_each, reading_of, stated_of_run
from roofline.questions.diagnosis import NOISE, Observed
from roofline.questions.inputs.arguments import scalar
from roofline.questions.posterior import (
    KNOWN,
    METRICS,
    PRIORS,
    REMAINS,
    Likeliest,
    Runs,
    likeliest,
    pass_factors,
    telling_loads,
    usual_sigma,
    value_at,
    widths,
)
from roofline.serving.answers import Answer, listed_keys, selected
from roofline.serving.verdict import HALF_WIDTH, deployment_name
from roofline.specs.engine import Engine
from roofline.specs.names import declared
from roofline.support.dates import days_since, today
from roofline.support.errors import BadInput, RooflineError, printable
from roofline.support.records import dataclass, field

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import CheckOptions

_OUT = 2.5  # sigma beyond which a figure does not fit the others
_SAME = 4.0 * NOISE  # ln of the ratio of two times at one load, beyond which the runs contradict each other
_DISAGREE = 1.5  # scatter over the usual one, as of one in twenty development servers: then they do as a whole
_MOST_RUNS = 300


@dataclass(frozen=True, slots=True)
class FittedConstant:
    """A constant of a profile before and after the fit; times in seconds, factors as they are."""

    constant: str
    meaning: str
    shipped: float
    fitted: float
    low: float  # ends of its 80 % range
    high: float
    narrowed: float  # width of the range over that before the fit
    telling: str | None = None  # the run that would tell it, where these do not and one would

    @property
    def known(self) -> bool:
        """Whether the runs tell it."""
        return self.narrowed < KNOWN

    def text(self, value: float) -> str:
        """A value of it for people."""
        return to_text(value, "s") if PRIORS[self.constant].least else f"x {rounded(value)}"

    @property
    def range_text(self) -> str:
        """Its 80 % range for people."""
        if not PRIORS[self.constant].least:
            return f"{rounded(self.low)}-{rounded(self.high)}"
        (low, unit), (high, other) = (to_text(end, "s").split() for end in (self.low, self.high))
        return f"{low}-{high} {other}" if unit == other or not self.low else f"{low} {unit}-{high} {other}"


@dataclass(frozen=True, slots=True)
class FittedRun:
    """A figure of a run beside the predictions of the shipped and of the fitted profile."""

    source: str
    metric: str
    measured: float  # [s]
    shipped: float  # [s]
    fitted: float  # [s]
    weight: float  # in the fit, over that of a figure that fits perfectly [1]


_OF_CONSTANT = ("constant", "meaning", "shipped", "fitted", "low", "high", "narrowed", "known", "telling")


@dataclass(frozen=True, repr=False)
class EngineFit(Answer[dict[str, Json]]):
    """A profile fitted to runs of a server; its file is `text`.

    >>> import roofline as rl
    >>> run = {"mean_ttft_ms": 30.0, "mean_tpot_ms": 7.0}
    >>> fit = rl.calibrate_engine(run, model="llama-3.1-8b", gpu="h100", tp=1, isl=1000, osl=100, batch=1)
    >>> fit.to_dict(["constant", "known"])["rows"][-2:], fit.notes, fit.refused
    ([{'constant': 'memory', 'known': True}, {'constant': 'attention', 'known': False}], (), ())
    """

    name: str
    base: str  # the profile that it was fitted from
    text: str = field(repr=False)  # YAML
    constants: tuple[FittedConstant, ...]
    runs: tuple[FittedRun, ...]
    count: int  # of the runs
    deployments: tuple[str, ...]  # that they are of
    scatter: Mapping[str, float]  # metric -> what remains of the sigma of its predictions there [1]
    passes: Mapping[str, tuple[float, float, float]]  # prefill and decode: factor on its kernels, ends of its range [1]
    notes: tuple[str, ...] = ()
    refused: tuple[RooflineError, ...] = ()  # why other runs were left out

    def __repr__(self) -> str:
        known = [f"{each.constant} {each.text(each.fitted)}" for each in self.constants if each.known]
        told = ", ".join(known) or "nothing new"
        return f"<EngineFit {self.name}: {told}; {counted(self.count, 'run')}, from {self.base}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The constants as rows, the runs, and the factor on the kernels of each pass.

        Args:
            keys: the keys to keep; None for all.
        """
        columns = None if keys is None else listed_keys(keys)
        return {
            "rows": [selected({name: getattr(row, name) for name in _OF_CONSTANT}, columns) for row in self.constants],
            "runs": [{name: getattr(run, name) for name in FittedRun.__dataclass_fields__} for run in self.runs],
            "scatter": dict(self.scatter),
            "passes": {name: list(factor) for name, factor in self.passes.items()},
            "notes": list(self.notes),
        }


def calibrate_engine(
    results: str | PathLike[str] | Mapping[str, object] | Iterable[str | PathLike[str] | Mapping[str, object]],
    *,
    name: str = "mine",
    statistic: str | None = None,
    specs: str | None = None,
    command: str | None = None,
    **options: Unpack[CheckOptions],
) -> EngineFit:
    """The profile of an engine fitted to results of one of its servers.

    The constants are the likeliest given the runs and the shipped profile, whose values are their prior: what the runs
    do not tell stays where it was. Predictions with the new profile have narrower ranges on the deployments that were
    measured, and the ranges of the shipped one elsewhere.

    Args:
        results: as in `check`; of one engine, model and GPU.
        name: name of the profile.
        statistic: as in `check`.
        specs: folder of your own specifications; default $ROOFLINE_SPECS.
        command: launch command of the server, as `command_case` reads it; options come before it.
        options: what a result does not state, or what replaces what it states, as in `check`.

    Returns:
        The profile as the text of a YAML file, each constant with its 80 % range, and what the runs do not tell.

    Raises:
        BadInput: results that cannot be read, or of several engines, models or GPUs.
        RooflineError: no run can be compared with a prediction.

    Valid:
        Ranges are those of a normal distribution about the likeliest point, in logarithms.

    Source:
        `roofline.questions.posterior.likeliest`; docs/measurements.md.

    >>> import roofline as rl
    >>> run = {"mean_ttft_ms": 30.0, "mean_tpot_ms": 7.0}
    >>> rl.calibrate_engine(run, model="llama-3.1-8b", gpu="h100", tp=1, isl="1k", osl=100, batch=1, engine="vllm")
    <EngineFit mine: request 6.22 ms, memory x 1.04; 1 run, from vllm>
    """
    stated, settings = of_command(command, options)
    plain = stated_of_run(stated)
    readings, unread = read_each(results, lambda source: reading_of(source, scalar(statistic)))
    checks, failures = check_readings(readings, plain, basis="calibrated", specs=specs, **settings)
    return fitted_engine(checks, name=scalar(name), specs=specs, refused=(*unread, *failures))


def fitted_engine(
    checks: Sequence[MeasurementCheck],
    *,
    name: str = "mine",
    specs: str | None = None,
    refused: Sequence[RooflineError] = (),
) -> EngineFit:
    """As `calibrate_engine`, of runs that are already beside their predictions."""
    if not checks:
        raise (list(refused) or [BadInput("calibrate needs results of a server")])[0]
    if len(checks) > _MOST_RUNS:
        raise BadInput(f"{len(checks)} runs; a profile is fitted to at most {_MOST_RUNS}: leave some out")
    base = _the_only("engines", (profile_of(run.measured.engine, run.measured.engine_version) for run in checks))
    _the_only("models", (run.expected.deployment.model.short_name for run in checks))
    _the_only("GPUs", (run.expected.deployment.gpu.name for run in checks))
    profile = load_engine(base, specs)
    runs = Runs(checks, profile)
    fit = likeliest(runs)
    constants = tuple(_constants(runs, fit))
    document = _document(name, base, profile, runs, fit, constants)
    faults = document_faults(document, "engine")
    if faults:
        raise BadInput(f"the fitted profile is not valid: {'; '.join(faults)}")
    return EngineFit(
        name,
        base,
        _text(document, constants),
        constants,
        tuple(_fitted_runs(runs, fit)),
        len(runs.checks),
        runs.names,
        fit.scatter,
        pass_factors(runs, fit),
        tuple(_notes(runs, fit)),
        tuple(refused),
    )


def are_kernel_tables(paths: Sequence[str]) -> bool:
    """Whether files are tables of timed kernels, which `calibrate` fits, rather than results of servers."""
    tables = [path for path in paths if is_kernel_table(path)]
    if tables and len(tables) < len(paths):
        others = [path for path in paths if path not in tables]
        raise BadInput(
            f"{tables[0]} is a table of kernels and {others[0]} is not: kernels and results of servers are fitted "
            "one after the other"
        )
    return bool(tables)


def _the_only(what: str, names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    if len(known) > 1:
        raise BadInput(
            f"results of {len(known)} {what}: {', '.join(known)}; a profile is fitted to those of one: calibrate them "
            "one by one"
        )
    return known[0]


# What the fit says of each constant and of each run.


def _constants(runs: Runs, fit: Likeliest) -> Iterator[FittedConstant]:
    profile = runs.observed[0].deployment.engine
    telling = telling_loads(runs, fit)
    for name, middle, width in zip(runs.constants, map(float, fit.point), widths(fit), strict=True):
        sides = (middle, middle - HALF_WIDTH * width, middle + HALF_WIDTH * width)
        fitted, low, high = (value_at(profile, name, side) for side in sides)
        narrowed = width / PRIORS[name].sigma
        load = telling[name] if narrowed >= KNOWN else None
        yield FittedConstant(
            name, PRIORS[name].meaning, value_at(profile, name, 0.0), fitted, low, high, narrowed, load and _told(load)
        )


def _told(run: Observed) -> str:
    """A load in words."""
    workload = run.workload
    return f"{workload.load.brief}, isl {workload.text:g}, osl {workload.osl:g}"


def _fitted_runs(runs: Runs, fit: Likeliest) -> Iterator[FittedRun]:
    for place, figure in enumerate(runs.figures):
        yield FittedRun(
            runs.checks[figure.run].measured.source,
            figure.metric,
            math.exp(figure.measured),
            math.exp(runs.at_shipped[place]),
            math.exp(figure.measured - fit.residuals[place]),
            float(fit.weights[place]),
        )


def _notes(runs: Runs, fit: Likeliest) -> Iterator[str]:
    """Runs that were left out, figures that do not fit the others, runs that contradict each other."""
    yield from runs.notes
    if len(runs.names) > 1:
        yield f"one profile for {len(runs.names)} deployments: {'; '.join(runs.names)}"
    for place, figure in enumerate(runs.figures):
        residual, sigma = float(fit.residuals[place]), fit.scatter[figure.metric] * figure.sigma
        if abs(residual) > max(_OUT * sigma, 2.0 * NOISE):
            yield (
                f"{runs.checks[figure.run].measured.source}: {figure.metric.upper()} is "
                f"{rounded(math.exp(residual))} x what the other runs and the profile imply; it weighs "
                f"{fit.weights[place]:.0%} in the fit: check its warm-up, and what it states"
            )
    for metric, first, second, ratio in _contradictions(runs):
        yield (
            f"{first} and {second}: the same load, but {metric.upper()} differs by "
            f"{rounded(100.0 * (ratio - 1.0), 2)} %: no constant explains that"
        )
    for metric, usual in REMAINS.items():
        if metric in fit.scatter and fit.remains[metric] > _DISAGREE * usual:
            off = math.expm1(fit.scatter[metric] * usual_sigma(runs, metric))
            yield (
                f"{metric.upper()}: the runs disagree with each other by more than any constants explain, "
                f"{rounded(100.0 * off, 2)} % (one sigma): check that all are of one server, and the lengths, loads "
                "and numbers of requests that they state"
            )


def _contradictions(runs: Runs) -> Iterator[tuple[str, str, str, float]]:
    """Runs of one deployment at one load whose times differ by more than the scatter of a server."""
    for place, run in enumerate(runs.observed):
        for other, before in enumerate(runs.observed[:place]):
            if run.workload != before.workload or deployment_name(run.deployment) != deployment_name(before.deployment):
                continue
            pair = runs.checks[other].measured, runs.checks[place].measured
            for metric in METRICS:
                times = [getattr(one, metric) for one in pair]
                if None not in times and max(times) > min(times) * math.exp(_SAME):
                    yield metric, pair[0].source, pair[1].source, max(times) / min(times)


# The profile as a file.

_UNITS = {"Seconds": ("us", MICRO), "Bytes": ("GiB", GIBI)}
#: Fields of a profile that no file states, and those that a fitted one states anew.
_STATED_ANEW = (
    "name", "stated", "by_gpu", "network", "runs", "versions", "year", "fitted_on", "scatter_ttft", "scatter_tpot",
    "tunings", "start_up",
)  # fmt: skip
_LONGEST_TITLE = 1900


def _document(
    name: str, base: str, profile: Engine, runs: Runs, fit: Likeliest, constants: Sequence[FittedConstant]
) -> dict[str, Any]:
    """The profile with the fitted constants, as a file states it."""
    dates = sorted(date for run in runs.checks if (date := run.measured.date) and days_since(date) is not None)
    sources = ", ".join(dict.fromkeys(run.measured.source for run in runs.checks))
    date = dates[-1].strip() if dates else today().isoformat()
    return {
        "name": name,
        "title": f"{base}, fitted to {counted(len(runs.checks), 'run')} of {'; '.join(runs.names)}"[:_LONGEST_TITLE],
        "fitted_on": list(runs.names),
        **{f"scatter_{metric}": float(f"{share:.3g}") for metric, share in fit.scatter.items()},
        **profile_fields(runs.engine_at(profile, fit.point), profile),
        "ranges": {each.constant: [_end(each, end) for end in (each.low, each.high)] for each in constants},
        "sources": {
            "runs": {"title": f"own runs: {sources}"[:_LONGEST_TITLE], "date": date},
            "profile": {"title": f"the profile {base}: prior of the constants in ranges, and all others", "date": date},
        },
    }


def profile_fields(engine: Engine, base: Engine) -> dict[str, Any]:
    """What a file states of an engine that runs the kernels of another profile, but for its name."""
    return {
        "versions": f"{base.name}, fitted to own runs",
        "runs": base.runs or base.name,
        **_stated(engine, _STATED_ANEW),
        **{setting: [_stated(each, ("before",)) for each in defaults] for setting, defaults in engine.by_gpu},
        "start_up": [_stated(each, ("before",)) for each in engine.start_up],
        "tunings": [_stated(each, ("before",)) for each in engine.tunings],
    }


def _stated(record: Any, without: Sequence[str]) -> dict[str, Any]:
    """Fields of a record that differ from their defaults, as a file states them."""
    kind: Any = type(record)
    types = declared(kind)
    return {
        name: _stated_value(types[name], getattr(record, name))
        for name, each in kind.__dataclass_fields__.items()
        if name not in without and getattr(record, name) != each.default
    }


def _stated_value(kind: str, value: Any) -> Any:
    if kind in _UNITS:
        unit, size = _UNITS[kind]
        return f"{float(f'{value / size:.6g}'):.12g} {unit}"
    if isinstance(value, tuple):
        return list(value)
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _end(constant: FittedConstant, value: float) -> Any:
    return _stated_value("Seconds", value) if PRIORS[constant.constant].least else float(f"{value:.4g}")


def _text(document: Mapping[str, Any], constants: Iterable[FittedConstant]) -> str:
    """YAML that reads back as the document, with remarks on the constants."""
    lines = ["# A profile fitted by `roofline calibrate`: --engine FILE uses it.\n"]
    for each in constants:
        told = "" if each.known else "; the runs do not tell it"
        lines.append(
            f"# {each.constant}: {each.text(each.fitted)}, 80 % range {each.range_text}, before "
            f"{each.text(each.shipped)}{told}\n"
        )
    for key, value in document.items():
        if isinstance(value, Mapping):
            lines.append(f"{key}:\n")
            lines += [f"  {yaml_scalar(name)}: {_flow(name, entry)}\n" for name, entry in value.items()]
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            lines.append(f"{key}:\n")
            lines += [f"  - {_flow(key, entry)}\n" for entry in value]
        elif value != []:
            lines.append(f"{key}: {_flow(key, value)}\n")
    return "".join(lines)


def _flow(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{yaml_scalar(name)}: {_flow(name, entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(key, entry) for entry in value) + "]"
    if key == "date":
        return yaml_date(value)
    return yaml_quoted(printable(value)) if key in ("title", "note") else yaml_scalar(value)
