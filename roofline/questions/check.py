"""Measurements compared with predictions, and runs before and after a change compared with each other."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from roofline.catalog import find
from roofline.catalog.files import names_a_file
from roofline.catalog.find import profile_of
from roofline.measurements.results import STATISTICS, Reading, check_complete, override, read_results, results
from roofline.numbers.operations import Json
from roofline.numbers.quantity import GIGA, MILLI, rounded, to_text
from roofline.physics.passes import Pass
from roofline.physics.plan import Deployment
from roofline.questions.commands import command_case
from roofline.questions.diagnosis import (
    METRICS,
    NOTHING,
    UNCLEAR,
    UNMEASURED,
    Diagnosis,
    Observed,
    PartOf,
    Suspect,
    Timed,
    diagnosis,
    paired_runs,
    ranked_suspects,
)
from roofline.questions.in_step import Times, in_step
from roofline.questions.inputs.arguments import path, plain_options, scalar, tokens_of_prefix
from roofline.questions.inputs.deployment import POOLED, choice, pool_of
from roofline.questions.inputs.flags import cause_flags
from roofline.questions.inputs.options import ALL, SPELLINGS
from roofline.questions.lookup_tables import model_beside_tables
from roofline.questions.measured_passes import BESIDE, ROUNDING, Part, mbu, mfu, parts, times_of
from roofline.questions.predict import predict
from roofline.questions.slow_versions import slow_version_notes, stated_differences
from roofline.questions.sweeps import BeyondSaturation, MeasuredSweep, named_apart, rows_of_sweeps, sweeps_of
from roofline.serving.answers import Answer, Answers, selected
from roofline.serving.latency import BENCHMARK, Workload, e2el
from roofline.serving.prediction import Prediction
from roofline.serving.shown import KEYS
from roofline.serving.verdict import HALF_WIDTH, basis_of_kernels
from roofline.specs.keys import LATENCY_NAMES, SHARED, Key, Keys, cells, taken
from roofline.specs.load import KIND_OF, RUN, Load, Queue
from roofline.specs.names import name_fault
from roofline.specs.workload import OF_REQUESTS, Measurement, key_of
from roofline.specs.written import DEGREES, Pool, pool_text
from roofline.support.errors import BadInput, DoesNotFit, Overloaded, RooflineError, UnknownName, check_known, shown
from roofline.support.progress import each
from roofline.support.reading import RESULT_BYTES
from roofline.support.records import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    from roofline.questions.fault_finding import Findings
    from roofline.questions.inputs.signatures import CheckOptions

__all__ = ["NOTHING", "RESULT_BYTES", "STATISTICS", "UNCLEAR", "Diagnosis", "Reading", "read_results", "results"]


_MOST_COMPARED = 32  # runs: a second each
_STATED = (
    "model", "gpu", "engine", "engine_version", "tp", "pp", "ep", "dp", "cp", "dcp", "quantization", "kv_cache_dtype",
    "isl", "osl", "prefix", "batch", "concurrency", "request_rate",
)  # fmt: skip
_LIMITS = ("max_num_seqs", "max_num_batched_tokens")
_TAIL, _TAIL_LEVEL = "p99", 99.0
_IN_STEP = (
    "all lengths are equal, so that users stay in step and prompts come in waves: compared with a simulation of the run"
)
_MOSTLY = 0.5  # share of the requests of a run that decides its median


def check(
    results: str | PathLike[str] | Mapping[str, object] | Iterable[str | PathLike[str] | Mapping[str, object]],
    after: str | PathLike[str] | Mapping[str, object] | Iterable[str | PathLike[str] | Mapping[str, object]] = (),
    *,
    statistic: str | None = None,
    basis: str = "calibrated",
    specs: str | None = None,
    command: str | None = None,
    **options: Unpack[CheckOptions],
) -> Checks:
    """Measured latencies of a server beside the expected ones, and what explains the difference.

    Args:
        results: of ``vllm bench serve``, ``sglang.bench_serving``, AIPerf, genai-perf, GuideLLM or InferenceX, or CSV:
            the path of a file, what ``json.load`` reads from one, or several of these.
        after: results after a change, which are compared with `results`.
        statistic: mean, median or p99 over the requests; None for the median where a run has it, else the mean.
        basis: ``calibrated``, or ``ideal`` for the hardware limit.
        specs: folder of your own specifications; default $ROOFLINE_SPECS.
        command: launch command of the server, as `command_case` reads it; options come before it.
        options: what a result does not state, or what replaces what it states: model, gpu, engine, tp, pp, ep, dp,
            quantization, kv_cache_dtype, isl, osl, prefix, batch, concurrency, request_rate, num_prompts.

    Returns:
        A comparison for each run, with the parts that explain a time outside its 80 % range; in `changed` what changed
        between the runs before and after, in `refused` why other runs could not be compared; in `sweeps`, those of one
        server at several loads.

    Raises:
        UnknownName: no such model, GPU or option.
        BadInput: results that cannot be read, or runs before and after that cannot be compared.
        RooflineError: no run can be compared.

    >>> import roofline as rl
    >>> rl.check({"mean_ttft_ms": 30.0}, model="llama-3.1-8b", gpu="h100-sxm", tp=1, isl="1k", batch=1)
    [<MeasurementCheck result: TTFT 4.6 % faster than predicted: inside the 80 % range, 31.4 ms (18.3-54)>]
    """
    stated, settings = of_command(command, options)
    plain = stated_of_run(stated)
    refused: list[RooflineError] = []
    sides: list[list[MeasurementCheck]] = []
    sweeps: list[MeasuredSweep] = []
    for side in (results, after):
        readings, unread = read_each(side, lambda source: reading_of(source, scalar(statistic)))
        checks, failures = check_readings(readings, plain, basis=basis, specs=specs, **settings)
        sides.append(checks)
        sweeps += sweeps_of(checks, failures)
        refused += [*unread, *failures]
    before, later = sides
    if not before or (after and not later):
        none = BadInput("check needs results: paths of files, or what json.load reads from them")
        raise (refused or [none])[0] if len(refused) < 2 else RooflineError("\n".join(map(str, refused)))
    return Checks((*before, *later), what_changed(before, later) if later else None, refused, sweeps)


def of_command(command: str | None, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a launch command and options say of a run: what a result may state, and settings of the engine."""
    if command is None:
        return dict(options), {}
    case: dict[str, Any] = dict(command_case(command))
    engine, _, version = case.pop("engine").partition("@")
    case = {**case, "engine": engine, **({"engine_version": version} if version else {})}
    if case.get("ep") == ALL:
        case["ep"] = int(case.get("tp", 1)) * int(case.get("dp", 1)) * int(case.get("cp", 1))
    case.pop("num_gpus", None)
    stated = {SPELLINGS.get(name, name): value for name, value in options.items() if value is not None}
    known = {name: value for name, value in case.items() if name in _STATED}
    return {**known, **stated}, {name: value for name, value in case.items() if name not in _STATED}


def stated_of_run(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a caller states of a run, as plain values under our names."""
    stated = {SPELLINGS.get(name, name): value for name, value in options.items()}
    for name in stated:
        check_known("option", name, (*_STATED, RUN), start="check: ")
    plain = plain_options(stated)
    if plain.get("ep") == ALL:
        raise BadInput(f"ep = {ALL!r}: check takes the degree that ran, a whole number")
    return plain


def read_each(results: Any, read: Callable[[Any], Reading]) -> tuple[list[Reading], list[RooflineError]]:
    """What files and contents, one or several, hold, and the faults of those that cannot be read."""
    is_one = isinstance(results, Mapping) or isinstance(scalar(results), str) or not isinstance(results, Iterable)
    readings: list[Reading] = []
    unread: list[RooflineError] = []
    for source in each([results] if is_one else list(results), "files"):
        try:
            readings.append(read(source))
        except RooflineError as error:
            unread.append(error)
    return readings, unread


def reading_of(source: Any, statistic: str | None) -> Reading:
    """What a file holds, or what `json.load` reads from one."""
    if not isinstance(source, Mapping):
        return read_results(path("results", source), statistic)
    try:
        data = json.dumps(source, default=float).encode()
    except (TypeError, ValueError, RecursionError):
        raise BadInput(f"result = {shown(source)} must be what json.load reads from a file of results") from None
    return results(data, "result", statistic)


def check_readings(
    readings: Iterable[Reading], overrides: Mapping[str, Any], **options: Any
) -> tuple[list[MeasurementCheck], list[RooflineError]]:
    """Comparisons of the usable measurements, and the errors of the others; `overrides` replace fields of the files."""
    checks: list[MeasurementCheck] = []
    failures: list[RooflineError] = []
    overrides = _with_plan_of_pool(overrides, options.get("specs"))
    for reading in readings:
        failures += reading.faults
        for measurement in each(reading.measurements, "results"):
            try:
                _check_names(measurement, overrides)
                stated = replace(measurement, **_with_plan_of_pool(asdict(measurement), options.get("specs")))
                complete = override(stated, **_with_prefix_tokens(stated, overrides))
                check_complete(complete)
                engine = profile_of(complete.engine, complete.engine_version)
                checks.append(check_measurement(complete, engine=engine, **options))
            except RooflineError as error:
                failures.append(_with_source(error, measurement, overrides))
    return checks, failures


def _with_plan_of_pool(fields: Mapping[str, Any], specs: str | None) -> dict[str, Any]:
    """Fields of a measurement in which plan and format of a pool such as ``h100:tp4:fp8`` stand on their own."""
    pool = pool_of(fields.get("gpu"), specs)
    if pool is None:
        return dict(fields)
    stated = {name: fields[name] for name in POOLED if fields.get(name) is not None}
    plan = {name: value for name, value in choice(pool, stated).options.items() if name in POOLED}
    return {**fields, **plan, "gpu": pool_text(Pool(pool.gpu, num_gpus=pool.num_gpus, replicas=pool.replicas))}


def _with_prefix_tokens(measurement: Measurement, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides in which a prefix given as a share of the prompt is in tokens."""
    isl = overrides.get("isl") or measurement.isl
    prefix = overrides.get("prefix")
    if prefix is None or isl is None:
        return dict(overrides)
    return {**overrides, "prefix": tokens_of_prefix(prefix, float(isl))}


def what_changed(before: Sequence[MeasurementCheck], after: Sequence[MeasurementCheck]) -> Diagnosis:
    """What explains the difference between runs of a server before and after; runs are paired by their load."""
    models = {run.expected.deployment.model.short_name for run in (*before, *after)}
    if len(models) > 1:
        raise BadInput(f"what changed cannot be told: runs of different models, {' and '.join(sorted(models))}")
    if len(after) > _MOST_COMPARED:
        raise BadInput(f"what changed cannot be told: {len(after)} runs after; give at most {_MOST_COMPARED}")
    limits = tuple(
        name for name in _LIMITS if len({getattr(run.measured, name) for run in (*before, *after)}) > 1
    )  # a stated difference is what is asked for, so it is not accounted for
    paired = paired_runs([_observed(run, limits) for run in before], [_observed(run, limits) for run in after])
    if not paired:
        raise BadInput(
            "what changed cannot be told: no run before has the kind of load (concurrency, request rate or batch) "
            "of one after"
        )
    stated = stated_differences(before, after)
    known = (*_changed_settings(before, after), *(one.text for one in stated))
    return replace(diagnosis(paired, stated), known=known)


def _observed(run: MeasurementCheck, without: Sequence[str] = ()) -> Observed:
    """A run as measured; on a server with the limits that its engine has by itself."""
    figures = {name: getattr(run.measured, name) for name in METRICS}
    workload = run.expected.workload
    if workload is None:
        raise BadInput(f"{run.measured.source}: its load is not known")
    waves = None if run.expected.in_step is None else run.expected.in_step[run.measured.statistic or "mean"]
    measured = {key: value for key, value in figures.items() if value}
    deployment = run.expected.deployment
    if without:
        try:
            usual = find.load_engine(deployment.engine.name).on(deployment.gpu)
        except RooflineError:  # a profile from a file
            usual = deployment.engine
        limits: dict[str, Any] = {name: getattr(usual, name) for name in without}
        deployment, waves = replace(deployment, engine=replace(deployment.engine, **limits)), None
    return Observed(deployment, workload, measured, expected=waves)


def _changed_settings(before: Sequence[MeasurementCheck], after: Sequence[MeasurementCheck]) -> tuple[str, ...]:
    """Settings that differ between all runs before and all runs after."""
    changes = []
    for name in (*_STATED, "statistic"):
        first, last = ({_setting(run, name) for run in side} for side in (before, after))
        if first != last and len(first) == len(last) == 1:
            changes.append(f"{name.replace('_', ' ')} {first.pop()}, then {last.pop()}")
    return tuple(changes)


def _setting(run: MeasurementCheck, name: str) -> str:
    deployment = run.expected.deployment
    names = {"model": deployment.model.short_name, "gpu": deployment.gpu.name}
    value = names.get(name, getattr(run.measured, name))
    return "not stated" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def check_measurement(measurement: Measurement, **options: Any) -> MeasurementCheck:
    """A complete measurement compared with its prediction and the hardware limit."""
    predicted = expected(measurement, **options)
    ideal = _at_hardware_limit(measurement, predicted, options)
    return measurement_check(measurement, predicted, ideal)


def _at_hardware_limit(measurement: Measurement, predicted: Expected, options: dict[str, Any]) -> Expected:
    """The same work at the hardware limit: a burst, or the prefill of one request and the decode step it joins."""
    ideal = {**options, "basis": "ideal"}
    steps = expected(measurement, batch=predicted.batch, **ideal)
    if _kind(measurement).is_burst:
        return steps
    first = expected(measurement, batch=1.0, **ideal)
    whole = float(e2el(first.ttft, steps.tpot or 0.0, measurement.osl or 1.0))
    return steps._replace(prefill=first.prefill, ttft=first.ttft, e2el=whole)


def expected(measurement: Measurement, *, batch: float | None = None, **options: Any) -> Expected:
    """Prediction of the case that a measurement stands for; `batch` replaces its load by a burst.

    Requests that started together are a burst. Requests in flight are users in a closed loop, for a run of
    `num_prompts` requests where the result states it. A rate alone means Poisson arrivals. Lengths are those of the
    mean request.
    """
    osl = 1.0 if measurement.osl is None else measurement.osl
    case = {
        "isl": measurement.isl,
        "osl": osl,
        "prefix": measurement.prefix or 0.0,
        "tp": measurement.tp,
        "pp": measurement.pp or 1,
        "ep": measurement.ep or 1,
        "dp": measurement.dp or 1,
        "cp": measurement.cp or 1,
        "dcp": measurement.dcp or 1,
        "quantization": measurement.quantization,
        "kv_cache_dtype": measurement.kv_cache_dtype,
        "allow_oversize": True,  # it ran: see _oversize_notes
        **{name: limit for name in _LIMITS if (limit := getattr(measurement, name)) is not None},
        **options,
    }
    load, notes = ({"batch": batch}, ()) if batch is not None else _load_options(measurement)
    is_queue = measurement.is_queue and batch is None
    try:
        prediction = predict(measurement.model or "", measurement.gpu or "", **{**case, **load})
        slimmer = model_beside_tables(prediction)
        if slimmer is not None:
            prediction, notes = predict(slimmer[0], measurement.gpu or "", **{**case, **load}), (*notes, slimmer[1])
    except Overloaded as error:
        raise type(error)(
            f"{str(error).partition(';')[0]}, but it was measured; give the requests in flight (concurrency) instead"
        ) from None
    keys, tail_notes = _latency_keys(measurement, prediction)
    latencies = {metric: prediction.latency(key) for metric, key in keys.items()}
    times = {metric: None if time is None else float(time) for metric, time in latencies.items()}
    ends = {metric: prediction.latency_interval(key) for metric, key in keys.items()}
    against = _against(measurement, prediction.workload, keys["ttft"] != "ttft")
    together = None
    if batch is None and prediction.served is not None:
        together = in_step(measurement, prediction.deployment, prediction.workload, times, ends)
    if is_queue:
        times, ends = _in_step_times({"e2el": float(prediction.workload.load.duration(prediction))}, times, ends)
        against = ""
    if together is not None and together.holds:
        times, ends = _in_step_times(together.times[measurement.statistic or "mean"], times, ends)
        against, notes = "", (*notes, _IN_STEP)
    return Expected(
        deployment=prediction.deployment,
        prefill=prediction.prefill,
        decode=prediction.decode,
        ttft=times["ttft"] or 0.0,
        tpot=times["tpot"],
        e2el=times["e2el"] or 0.0,
        batch=float(prediction.decode_batch),
        notes=(*notes, *tail_notes, *_warnings(measurement, prediction), *_oversize_notes(prediction)),
        ttft_interval=ends["ttft"],
        tpot_interval=ends["tpot"],
        e2el_interval=ends["e2el"],
        workload=prediction.workload,
        against=against,
        in_step=together.times if together is not None and together.holds else None,
    )


def _in_step_times(
    found: Mapping[str, float], times: Mapping[str, float | None], ends: Mapping[str, tuple[float, float] | None]
) -> tuple[dict[str, float | None], dict[str, tuple[float, float] | None]]:
    """Times of a run in step, with ranges that are as wide as those of the prediction."""
    ranges: dict[str, tuple[float, float] | None] = {}
    for metric, interval in ends.items():
        usual, time = times[metric], found.get(metric)
        ranges[metric] = None
        if interval is not None and usual and time:
            ranges[metric] = interval[0] / usual * time, interval[1] / usual * time
    return {metric: found.get(metric, times[metric]) for metric in times}, ranges


def _warnings(measurement: Measurement, prediction: Prediction) -> tuple[str, ...]:
    """Warnings on the prediction; a measurement that states its run needs no guess of what a run would report."""
    is_run = measurement.num_prompts is not None
    return tuple(text for text in prediction.warnings if not (is_run and text.startswith(BENCHMARK)))


def _against(measurement: Measurement, workload: Workload, is_tail: bool) -> str:
    """What the predicted times are of, in words; empty for a burst."""
    if _kind(measurement).is_burst:
        return ""
    if workload.load.is_run:
        return f"the mean over the run of {workload.num_prompts:g} requests, its start included"
    steady = f"the {_TAIL if is_tail else 'mean'} of the steady state"
    if measurement.num_prompts is None or measurement.statistic in ("mean", None) or RUN not in workload.load.options:
        return steady
    return f"{steady}; of the run of {measurement.num_prompts:g} requests only means are predicted (statistic = mean)"


def _latency_keys(measurement: Measurement, prediction: Prediction) -> tuple[dict[str, str], tuple[str, ...]]:
    """Keys of the predicted latencies to compare with, by metric, and notes."""
    means = {metric: metric for metric in OF_REQUESTS}
    if measurement.statistic != _TAIL or prediction.served is None:
        return means, ()
    if prediction.workload.load.is_run:
        return means, (f"{_TAIL}: compared with the predicted mean of the run",)
    return {metric: key_of(metric, _TAIL_LEVEL) for metric in means}, ()


def _kind(measurement: Measurement) -> type[Load]:
    """The kind of load that is predicted: a burst or requests in flight rather than the rate that they come to."""
    if measurement.is_queue:
        return Queue
    for name, kind in KIND_OF.items():
        if getattr(measurement, name, None) is not None:
            return kind
    raise BadInput("no load given; add concurrency, request_rate or batch")


def _load_options(measurement: Measurement) -> tuple[dict[str, float], tuple[str, ...]]:
    """Load of a measurement as keyword arguments of `predict`, and notes."""
    if measurement.is_queue:
        return {RUN: measurement.num_prompts or 1.0}, ()
    kind = _kind(measurement)
    amount = getattr(measurement, kind.option)
    if RUN not in kind.options:
        notes = (f"{kind.words(f'{amount:g}')}: predicted as Poisson arrivals",) if kind.is_open else ()
        return {kind.option: amount}, notes
    users = max(amount, 1.0)
    note = f"{users:g} request{'s' if users > 1.0 else ''} in flight: predicted as a closed loop of users"
    prompts = measurement.num_prompts
    is_median = measurement.statistic == "median"  # unmoved by the start of a run, unless most requests belong to it
    if prompts is None or users <= 1.0 or (is_median and users < _MOSTLY * prompts):
        return {kind.option: users}, (note,)
    return {kind.option: users, RUN: prompts}, (
        f"{note}, in a run of {prompts:g} requests that starts all users at once",
    )


def _oversize_notes(prediction: Prediction) -> tuple[str, ...]:
    """Notes on a case that ran although it does not fit by our count."""
    memory = prediction.memory
    if memory.fits:
        return ()
    gpu, plan = prediction.deployment.gpu, prediction.deployment.plan
    if memory.weights > memory.usable:
        raise DoesNotFit(
            f"the weights of {prediction.deployment.model.short_name} alone, {memory.weights / GIGA:.1f} GB per GPU at "
            f"tp {plan.tp}, pp {plan.pp}, exceed the usable {memory.usable / GIGA:.1f} GB of {gpu.name}: this is not "
            "what was measured; check tp, gpu and quantization"
        )
    batch = rounded(prediction.decode_batch)
    note = f"a batch of {batch} takes {memory.used_fraction:.0%} of the usable memory as computed"
    return (f"{note}: the server ran a smaller batch, or stores less per request",)


def _check_names(measurement: Measurement, overrides: Mapping[str, Any]) -> None:
    """Refuse invalid names, and paths: only the command line may say which further file is read."""
    for name in ("model", "gpu", "engine"):
        text = getattr(measurement, name)
        if overrides.get(name) is not None or text is None:
            continue
        if names_a_file(text):
            raise BadInput(
                f"{measurement.source}: {name} = {shown(text)} is a path, which a result must not choose; "
                f"if it is right, give {name}"
            )
        fault = None if name == "engine" else name_fault(text)  # parts of an engine's name are enough
        if fault is not None:
            raise BadInput(f"{measurement.source}: {name} = {shown(text)}: {fault}; give {name}")


def _with_source(error: RooflineError, measurement: Measurement, overrides: Mapping[str, Any]) -> RooflineError:
    """The error with the file it is about, and a way out where the file names something unknown."""
    text = str(error)
    if isinstance(error, Overloaded):
        return BeyondSaturation(f"{measurement.source}: {text}", measurement)
    hint = ""
    if isinstance(error, UnknownName):
        from_file = [name for name in ("model", "gpu") if overrides.get(name) is None]
        unknown = [name for name in from_file if getattr(measurement, name) in text]
        hint = f"; or give {unknown[0]}" if unknown else ""
    return RooflineError(text if text.startswith(measurement.source) else f"{measurement.source}: {text}{hint}")


# A measurement compared with its prediction: ratios, utilization, and what would explain the gap.

#: Relative run-to-run scatter of one server.
AGREES = 0.02

_LONG = 10.0  # [s] beyond which times are in seconds
_TIMES = 2.0  # ratio from which a verdict gives a factor instead of a percentage
_COMMON = (
    1.6  # ratio of the slowest latency over the fastest, each over its prediction, up to which one factor is named
)
_TOO_FAST = {"ttft": "prompts were cached, or GPU, plan, formats", "tpot": "GPU, plan, formats, requests in flight"}


class Expected(NamedTuple):
    """Prediction for a measurement."""

    deployment: Deployment
    prefill: Pass
    decode: Pass
    ttft: float  # [s]
    tpot: float | None  # [s]
    e2el: float  # [s]
    batch: float  # [sequences] of the decode step
    notes: tuple[str, ...] = ()
    ttft_interval: tuple[float, float] | None = None  # [s] 80 %
    tpot_interval: tuple[float, float] | None = None
    e2el_interval: tuple[float, float] | None = None
    workload: Workload | None = None
    against: str = ""  # what the times are of, beside the statistic of the measurement; empty for a burst
    in_step: Times | None = None  # of a run whose users stay in step, by statistic and metric [s]

    def interval(self, metric: str) -> tuple[float, float] | None:
        """80 % range of a time [s]; None where there is none."""
        return {"ttft": self.ttft_interval, "tpot": self.tpot_interval, "e2el": self.e2el_interval}[metric]

    def sigma(self, metric: str) -> float:
        """Sigma of ln(measured / predicted) of a time, by its range [1]."""
        ends = self.interval(metric)
        return UNMEASURED if ends is None else math.log(ends[1] / ends[0]) / (2.0 * HALF_WIDTH)

    def holds(self, metric: str, time: float) -> bool | None:
        """Whether a time lies inside the 80 % range; None without a range."""
        ends = self.interval(metric)
        return None if ends is None else ends[0] <= time <= ends[1]


@dataclass(frozen=True, repr=False)
class MeasurementCheck(Answer[dict[str, Json]]):
    """A measurement, its prediction and the hardware limit; None for times not measured.

    >>> import roofline as rl
    >>> (run,) = rl.check({"mean_ttft_ms": 30.0}, model="llama-3.1-8b", gpu="h100-sxm", tp=1, isl="1k", batch=1)
    >>> run.inside("ttft"), round(run.ratio("ttft"), 2), run.ideal_share("ttft") < 1.0
    (True, 0.95, True)
    >>> run.verdict("ttft") == run.to_dict(["ttft_verdict"])["ttft_verdict"]
    True
    """

    measured: Measurement
    expected: Expected
    ideal: Expected  # the same on the ideal basis
    mfu: float | None  # of the prefill
    mbu: float | None  # of the mean decode step
    prefill_parts: tuple[Part, ...]  # most plausible first
    decode_parts: tuple[Part, ...]

    def ratio(self, metric: str) -> float | None:
        """Measured over predicted time [1]."""
        return _ratio(getattr(self.measured, metric), getattr(self.expected, metric))

    def ideal_share(self, metric: str) -> float | None:
        """Time at the hardware limit over the measured one [1]."""
        return _ratio(getattr(self.ideal, metric), getattr(self.measured, metric))

    def inside(self, metric: str) -> bool | None:
        """Whether a measured time lies inside the 80 % range; None where either is missing."""
        time = getattr(self.measured, metric)
        return None if time is None else self.expected.holds(metric, time)

    def verdict(self, metric: str) -> str:
        """How a measured time compares with its prediction and the 80 % range, in words."""
        ratio, ends = self.ratio(metric), self.expected.interval(metric)
        if ratio is None:
            return "not predicted"
        off = f"{rounded(100.0 * abs(ratio - 1.0), 2)} %"
        word = "slower" if ratio > 1.0 else "faster"
        if (self.ideal_share(metric) or 0.0) > 1.0 + ROUNDING:
            return f"faster than the hardware allows, {to_text(getattr(self.ideal, metric), 's')}: not what was stated"
        if ends is None:
            return f"{rounded(ratio)} x the hardware limit (no range: basis {self.expected.deployment.basis})"
        if abs(ratio - 1.0) <= AGREES:
            compared = f"as predicted ({off} {word})"
        elif ratio >= _TIMES:
            compared = f"{rounded(ratio)} x as long as predicted"
        else:
            compared = f"{off} {word} than predicted"
        place = "inside" if self.inside(metric) else "outside"
        time = getattr(self.expected, metric)
        unit, second = ("ms", MILLI) if max(time, *ends) <= _LONG else ("s", 1.0)
        low, high = (rounded(end / second) for end in ends)
        return f"{compared}: {place} the 80 % range, {rounded(time / second)} {unit} ({low}-{high})"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Flat row: stated values, then measured and predicted times and how they compare.

        Args:
            keys: the keys to keep; None for all.
        """
        return cells(selected(CHECK_KEYS, keys), self)

    def __repr__(self) -> str:
        metrics = (metric for metric in OF_REQUESTS if getattr(self.measured, metric) is not None)
        verdicts = "; ".join(f"{metric.upper()} {self.verdict(metric)}" for metric in metrics)
        return f"<MeasurementCheck {self.measured.source}: {verdicts}>"

    @property
    def warnings(self) -> tuple[str, ...]:
        """The note of the result, and those on the comparison."""
        return (*([self.measured.note] if self.measured.note else []), *self.notes)

    @property
    def part_rows(self) -> list[dict[str, Json]]:
        """Groups of kernels of both passes as flat rows."""
        passes = (("prefill", self.prefill_parts), ("decode", self.decode_parts))
        source = {"source": self.measured.source}
        return [{**source, "pass": name, **cells(PART_KEYS, part)} for name, parts in passes for part in parts]

    @property
    def suspect_rows(self) -> list[dict[str, Json]]:
        """Suspects as flat rows, the most plausible first."""
        source = {"source": self.measured.source}
        return [
            {**source, **cells(SUSPECT_KEYS, (place, suspect, self._flags(suspect)))}
            for place, suspect in enumerate(self.suspects, start=1)
        ]

    def _flags(self, suspect: Suspect) -> list[str]:
        """Options of the engine that decide the time of a part."""
        cause = "queue" if suspect.part == BESIDE else suspect.part
        return cause_flags(self.expected.deployment.engine.name, cause)

    def _told(self, suspect: Suspect) -> str:
        """These options, to follow the suspect."""
        flags = self._flags(suspect)
        return f"; look at {' or '.join(flags)}" if flags else ""

    @property
    def suspect_texts(self) -> tuple[str, ...]:
        return tuple(
            f"{suspect.part}: {rounded(suspect.factor)}x its predicted time ({rounded(suspect.sigmas, 2)} times its "
            f"uncertainty); explains {' and '.join(metric.upper() for metric in suspect.explains)}{self._told(suspect)}"
            for suspect in self.suspects
        )

    @property
    def unexplained(self) -> str | None:
        """What to check for times outside their range without a suspect; None where there are none."""
        explained = {metric for suspect in self.suspects for metric in suspect.explains}
        gaps = {
            metric: getattr(self.measured, metric) - getattr(self.expected, metric)
            for metric in ("ttft", "tpot")
            if self.inside(metric) is False and metric not in explained
        }
        if not gaps and not explained and self.inside("e2el") is False:
            return "E2EL alone is outside: the answers may be longer or shorter than stated."
        if not gaps:
            return None
        problem = f"No single part explains {' and '.join(metric.upper() for metric in gaps)}"
        more = [to_text(gap, "s") for gap in gaps.values() if gap > 0.0]
        if more:
            return (
                f"{problem}: {' and '.join(more)} more than the kernels, host and queue may take; check GPU, plan, "
                f"formats, lengths and load.{self._common_factor}"
            )
        cached = ", cached prompts" if "ttft" in gaps else ""
        return f"{problem}: check GPU, plan, formats, lengths, requests in flight{cached} and engine."

    @property
    def _common_factor(self) -> str:
        """A sentence on TTFT and TPOT that are too slow by about the same factor; empty where they are not."""
        ratios = [self.ratio(metric) for metric in ("ttft", "tpot", "e2el") if self.inside(metric) is False]
        known = [ratio for ratio in ratios if ratio is not None]
        is_both = self.inside("ttft") is False and self.inside("tpot") is False
        if not is_both or min(known) <= 1.0 or max(known) > _COMMON * min(known):
            return ""
        factor = math.exp(sum(map(math.log, known)) / len(known))
        return (
            f" All latencies are slow by a common factor of about {rounded(factor, 2)}, as with lower clocks, "
            "another GPU, a GPU that is shared, or a debug build."
        )

    @cached_property
    def suspects(self) -> tuple[Suspect, ...]:
        """Possible explanations of times outside their range, the most plausible first."""
        metrics = (("ttft", self.prefill_parts, self.ideal.prefill), ("tpot", self.decode_parts, self.ideal.decode))
        times = [
            self._timed(metric, predicted, times_of(fastest)) for metric, predicted, fastest in metrics if predicted
        ]
        return ranked_suspects(times) if any(timed.is_outside for timed in times) else ()

    def _timed(self, metric: str, predicted: tuple[Part, ...], fastest: dict[str, float]) -> Timed:
        sigma = self.expected.sigma(metric)
        parts = tuple(  # without residuals, a part carries the whole uncertainty of the time
            PartOf(part.name, part.time, part.sigma or sigma / part.share, fastest.get(part.name, 0.0))
            for part in predicted
        )
        time, middle = getattr(self.measured, metric), getattr(self.expected, metric)
        return Timed(metric, time, middle, parts, sigma, self.inside(metric) is False)

    @property
    def notes(self) -> tuple[str, ...]:
        too_fast = [
            f"{metric} is below the hardware limit: {cause} or lengths differ from what is stated"
            for metric, cause in _TOO_FAST.items()
            if (self.ideal_share(metric) or 0.0) > 1.0
        ]
        late = [m for m in OF_REQUESTS if self.inside(m) is False and (self.ratio(m) or 0.0) > 1.0]
        slow = slow_version_notes(self.measured.engine, self.measured.engine_version, self.expected.deployment, late)
        return tuple(dict.fromkeys((*self.expected.notes, *too_fast, *slow)))


class Checks(Answers[MeasurementCheck, dict[str, Json]]):
    """Measurements beside their predictions, what changed between them, and what could not be compared.

    >>> import roofline as rl
    >>> runs = rl.check({"mean_ttft_ms": 30.0}, model="llama-3.1-8b", gpu="h100-sxm", tp=1, isl="1k", batch=1)
    >>> runs.to_dict(["gpu", "measured_ttft_ms"])["rows"], runs.changed, runs.refused
    ([{'gpu': 'h100-sxm', 'measured_ttft_ms': 30.0}], None, ())
    """

    def __init__(
        self,
        runs: Iterable[MeasurementCheck] = (),
        changed: Diagnosis | None = None,
        refused: Iterable[RooflineError] = (),
        sweeps: Iterable[MeasuredSweep] = (),
    ) -> None:
        super().__init__(runs)
        self.changed = changed  # from the runs before to those after; None without runs after
        self.refused = tuple(refused)  # why other runs were not compared
        self.sweeps = named_apart(sweeps)  # runs of one deployment at several loads

    @cached_property
    def findings(self) -> tuple[Findings, ...]:
        """What is wrong with each server, by all of its runs; empty where runs before and after were compared."""
        from roofline.questions.fault_finding import of_checks

        return of_checks(self) if self.changed is None else ()

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Rows, parts of passes, suspects and what changed, as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        return {
            "rows": self.to_rows(keys),
            "parts": [row for run in self for row in run.part_rows],
            "suspects": [row for run in self for row in run.suspect_rows],
            "findings": [finding.to_dict() for finding in self.findings],
            "changed": None if self.changed is None else self.changed.to_dict(),
            **rows_of_sweeps(self.sweeps),
        }

    def _further(self) -> str:
        changed = "" if self.changed is None else f"; changed: {self.changed.text}"
        return changed + (f"; {len(self.refused)} refused" if self.refused else "")


def measurement_check(measurement: Measurement, expected: Expected, ideal: Expected) -> MeasurementCheck:
    ttft, tpot, bandwidth = measurement.ttft, measurement.tpot, float(expected.deployment.gpu.bandwidth)
    basis = basis_of_kernels(expected.deployment)
    return MeasurementCheck(
        measured=measurement,
        expected=expected,
        ideal=ideal,
        mfu=None if ttft is None else mfu(expected.prefill, ttft),
        mbu=None if tpot is None or expected.tpot is None else mbu(expected.decode, bandwidth, tpot),
        prefill_parts=() if ttft is None else parts(expected.prefill, expected.ttft, ttft, basis),
        decode_parts=()
        if tpot is None or expected.tpot is None
        else parts(expected.decode, expected.tpot, tpot, basis),
    )


def _of_metric(metric: str) -> Keys[MeasurementCheck]:
    """Measured and predicted times of one metric, and how they compare."""
    name, text = metric.upper(), LATENCY_NAMES[metric]

    def end(run: MeasurementCheck, place: int) -> float | None:
        ends = None if getattr(run.expected, metric) is None else run.expected.interval(metric)
        return None if ends is None else ends[place] / MILLI

    def time(timed: Measurement | Expected) -> float | None:
        seconds = getattr(timed, metric)
        return None if seconds is None else seconds / MILLI

    return {
        f"measured_{metric}_ms": Key.number("ms", f"{text} as measured.", lambda r: time(r.measured)),
        f"predicted_{metric}_ms": Key.number(
            "ms", f"{text} as predicted for the measurement.", lambda r: time(r.expected)
        ),
        f"{metric}_ratio": Key.number("1", f"{name}, measured over predicted.", lambda r: r.ratio(metric)),
        f"{metric}_light_frac": Key.number(
            "1", f"Share of the hardware limit that {name} reaches.", lambda r: r.ideal_share(metric)
        ),
        f"predicted_{metric}_low_ms": Key.number("ms", "Low end of the 80 % interval of it.", lambda r: end(r, 0)),
        f"predicted_{metric}_high_ms": Key.number("ms", "High end of the 80 % interval of it.", lambda r: end(r, 1)),
        f"{metric}_inside": Key.flag(
            f"Whether {name} as measured lies in the 80 % interval.", lambda r: r.inside(metric)
        ),
        f"{metric}_verdict": Key.text(
            f"How {name} as measured compares with the prediction.",
            lambda r: None if getattr(r.measured, metric) is None else r.verdict(metric),
        ),
    }


def _stated(keys: Keys[Any], *names: str) -> Keys[MeasurementCheck]:
    """Keys of what a measurement states; null where it does not."""
    return {name: keys[name]._replace(of=_value_stated(name), is_open=True) for name in names}


def _value_stated(name: str) -> Callable[[MeasurementCheck], Any]:
    return lambda r: getattr(r.measured, name, None)


def _degree(name: str) -> Callable[[MeasurementCheck], Any]:
    return lambda r: getattr(r.expected.deployment.plan, name)


def _suspect_keys(name: str, metric: str) -> Keys[MeasurementCheck]:
    def part(run: MeasurementCheck) -> Part | None:
        return next((part for part in getattr(run, f"{name}_parts") if part.is_plausible), None)

    return {
        f"{name}_suspect": Key.text(
            f"What would explain the gap of {metric} best.", lambda r: getattr(part(r), "name", None)
        ),
        f"{name}_suspect_factor": Key.number(
            "1", "How many times as long it would take.", lambda r: getattr(part(r), "factor", None)
        ),
    }


#: Keys of a row of a run: stated values, then measured and predicted times and how they compare.
CHECK_KEYS: Keys[MeasurementCheck] = {
    **taken(SHARED, source=lambda r: r.measured.source),
    **taken(
        KEYS,
        model=lambda r: r.expected.deployment.model.short_name,
        gpu=lambda r: r.expected.deployment.gpu.name,
    ),
    **_stated(KEYS, "engine"),
    "engine_version": Key.text("Version of the engine that was measured.", _value_stated("engine_version")),
    **taken(KEYS, **{name: _degree(name) for name in DEGREES}),
    **_stated(SHARED, "quantization"),
    **_stated(KEYS, "kv_cache_dtype", "isl", "osl", "prefix", "batch", "concurrency", "request_rate"),
    "num_prompts": Key.number("requests", "Requests of the run.", _value_stated("num_prompts")),
    "statistic": Key.text("Of the requests: mean, median or a percentile.", _value_stated("statistic")),
    **_stated(SHARED, "date"),
    **taken(KEYS, num_gpus=lambda r: r.expected.deployment.num_gpus, basis=lambda r: r.expected.deployment.basis),
    **{name: key for metric in OF_REQUESTS for name, key in _of_metric(metric).items()},
    "prefill_mfu": Key.number("1", "Achieved over peak compute in prefill.", lambda r: r.mfu),
    "decode_mbu": Key.number("1", "Achieved over peak bandwidth in decode.", lambda r: r.mbu),
    **_suspect_keys("prefill", "TTFT"),
    **_suspect_keys("decode", "TPOT"),
    "suspects": Key.texts("What would explain the gaps, the most plausible first.", lambda r: list(r.suspect_texts)),
    **taken(KEYS, warnings=lambda r: list(r.warnings)),
}


#: Keys of a row of a part of a pass, after its source and pass.
PART_KEYS: Keys[Part] = {
    **taken(SHARED, part=lambda p: p.name),
    "predicted_ms": Key.number("ms", "Predicted time of the part.", lambda p: p.time / MILLI, is_open=False),
    **taken(SHARED, share=None, factor=None),
    "plausible": Key.flag("Whether that is plausible.", lambda p: p.is_plausible, is_open=False),
    "sigma": Key.number("1", "Standard deviation of ln(predicted / measured) of the part."),
}


#: Keys of a row of a suspect and its rank, after its source.
SUSPECT_KEYS: Keys[tuple[int, Suspect, list[str]]] = {
    "rank": Key.integer("1", "Place among the suspects, the most plausible first.", lambda s: s[0]),
    **taken(SHARED, part=lambda s: s[1].part, factor=lambda s: s[1].factor),
    "sigmas": Key.number("1", "How many standard deviations away that factor is.", lambda s: s[1].sigmas),
    "explains": Key.texts("Latencies that the suspect explains.", lambda s: list(s[1].explains)),
    "flags": SHARED["flags"]._replace(of=lambda s: list(s[2])),
}


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below
