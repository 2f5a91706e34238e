"""Measurements compared with predictions, and runs before and after a change compared with each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roofline.analysis.causes import METRICS, Observed
from roofline.analysis.diagnosis import NOTHING, UNCLEAR, Diagnosis, diagnosis, paired_runs
from roofline.analysis.measurement import Expected, MeasurementCheck, measurement_check
from roofline.api.inputs.texts import tokens_of_prefix
from roofline.api.predict import predict
from roofline.catalog.engines import profile_of
from roofline.catalog.files import names_a_file
from roofline.errors import BadInput, DoesNotFit, Overloaded, RooflineError, UnknownName, shown
from roofline.measurements.fields import STATISTICS
from roofline.measurements.results import Reading, check_complete, override, read_results, results
from roofline.quantity import GIGA, rounded
from roofline.reading import RESULT_BYTES
from roofline.records import replace
from roofline.serving.latency import Workload, e2el
from roofline.serving.prediction import Prediction
from roofline.serving.served import BENCHMARK
from roofline.specs.measurement import Measurement
from roofline.specs.names import name_fault
from roofline.specs.slo import LATENCIES, key_of

__all__ = [
    "NOTHING",
    "RESULT_BYTES",
    "STATISTICS",
    "UNCLEAR",
    "Diagnosis",
    "MeasurementCheck",
    "Reading",
    "check_measurement",
    "check_readings",
    "expected",
    "read_results",
    "results",
    "what_changed",
]


_MOST_COMPARED = 32  # runs: a second each
_SETTINGS = (
    "model", "gpu", "engine", "engine_version", "tp", "pp", "ep", "dp", "quantization", "kv_cache_dtype", "isl", "osl",
    "prefix", "batch", "concurrency", "request_rate", "statistic",
)  # fmt: skip
_TAIL, _TAIL_LEVEL = "p99", 99.0
_MOSTLY = 0.5  # share of the requests of a run that decides its median


def check_readings(
    readings: Iterable[Reading], overrides: Mapping[str, Any], **options: Any
) -> tuple[list[MeasurementCheck], list[RooflineError]]:
    """Comparisons of the usable measurements, and the errors of the others; `overrides` replace fields of the files."""
    checks: list[MeasurementCheck] = []
    failures: list[RooflineError] = []
    for reading in readings:
        failures += reading.faults
        for measurement in reading.measurements:
            try:
                _check_names(measurement, overrides)
                complete = override(measurement, **_with_prefix_tokens(measurement, overrides))
                check_complete(complete)
                engine = profile_of(complete.engine, complete.engine_version)
                checks.append(check_measurement(complete, engine=engine, **options))
            except RooflineError as error:
                failures.append(_with_source(error, measurement, overrides))
    return checks, failures


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
    paired = paired_runs([_observed(run) for run in before], [_observed(run) for run in after])
    if not paired:
        raise BadInput(
            "what changed cannot be told: no run before has the kind of load (concurrency, request rate or batch) "
            "of one after"
        )
    return replace(diagnosis(paired), known=_changed_settings(before, after))


def _observed(run: MeasurementCheck) -> Observed:
    figures = {name: getattr(run.measured, name) for name in METRICS}
    workload = run.expected.workload
    if workload is None:
        raise BadInput(f"{run.measured.source}: its load is not known")
    return Observed(run.expected.deployment, workload, {key: value for key, value in figures.items() if value})


def _changed_settings(before: Sequence[MeasurementCheck], after: Sequence[MeasurementCheck]) -> tuple[str, ...]:
    """Settings that differ between all runs before and all runs after."""
    changes = []
    for name in _SETTINGS:
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
    if measurement.batch is not None:
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
        "quantization": measurement.quantization,
        "kv_cache_dtype": measurement.kv_cache_dtype,
        "allow_oversize": True,  # it ran: see _oversize_notes
        **options,
    }
    load, notes = ({"batch": batch}, ()) if batch is not None else _load_options(measurement)
    try:
        prediction = predict(measurement.model or "", measurement.gpu or "", **{**case, **load})
    except Overloaded as error:
        raise Overloaded(
            f"{str(error).partition(';')[0]}, but it was measured; give the requests in flight (--concurrency) instead"
        ) from None
    keys, tail_notes = _latency_keys(measurement, prediction)
    latencies = {metric: prediction.latency(key) for metric, key in keys.items()}
    times = {metric: None if time is None else float(time) for metric, time in latencies.items()}
    return Expected(
        deployment=prediction.deployment,
        prefill=prediction.prefill,
        decode=prediction.decode,
        ttft=times["ttft"] or 0.0,
        tpot=times["tpot"],
        e2el=times["e2el"] or 0.0,
        batch=float(prediction.decode_batch),
        notes=(*notes, *tail_notes, *_warnings(measurement, prediction), *_oversize_notes(prediction)),
        ttft_interval=prediction.latency_interval(keys["ttft"]),
        tpot_interval=prediction.latency_interval(keys["tpot"]),
        e2el_interval=prediction.latency_interval(keys["e2el"]),
        workload=prediction.workload,
        against=_against(measurement, prediction.workload, keys["ttft"] != "ttft"),
    )


def _warnings(measurement: Measurement, prediction: Prediction) -> tuple[str, ...]:
    """Warnings on the prediction; a measurement that states its run needs no guess of what a run would report."""
    is_run = measurement.num_prompts is not None
    return tuple(text for text in prediction.warnings if not (is_run and text.startswith(BENCHMARK)))


def _against(measurement: Measurement, workload: Workload, is_tail: bool) -> str:
    """What the predicted times are of, in words; empty for a burst."""
    if measurement.batch is not None:
        return ""
    if workload.num_prompts is not None:
        return f"the mean over the run of {workload.num_prompts:g} requests, its start included"
    steady = f"the {_TAIL if is_tail else 'mean'} of the steady state"
    if measurement.num_prompts is None or measurement.statistic in ("mean", None) or workload.concurrency is None:
        return steady
    return f"{steady}; of the run of {measurement.num_prompts:g} requests only means are predicted (--statistic mean)"


def _latency_keys(measurement: Measurement, prediction: Prediction) -> tuple[dict[str, str], tuple[str, ...]]:
    """Keys of the predicted latencies to compare with, by metric, and notes."""
    means = {metric: metric for metric in LATENCIES}
    if measurement.statistic != _TAIL or prediction.served is None:
        return means, ()
    if prediction.workload.num_prompts is not None:
        return means, (f"{_TAIL}: compared with the predicted mean of the run",)
    return {metric: key_of(metric, _TAIL_LEVEL) for metric in means}, ()


def _load_options(measurement: Measurement) -> tuple[dict[str, float], tuple[str, ...]]:
    """Load of a measurement as keyword arguments of `predict`, and notes."""
    if measurement.batch is not None:
        return {"batch": measurement.batch}, ()
    if measurement.concurrency is None:
        if measurement.request_rate is None:
            raise BadInput("no load given; add --concurrency, --request-rate or --batch")
        return {"request_rate": measurement.request_rate}, (
            f"{measurement.request_rate:g} requests/s: predicted as Poisson arrivals",
        )
    users = max(measurement.concurrency, 1.0)
    note = f"{users:g} request{'s' if users > 1.0 else ''} in flight: predicted as a closed loop of users"
    prompts = measurement.num_prompts
    is_median = measurement.statistic == "median"  # unmoved by the start of a run, unless most requests belong to it
    if prompts is None or users <= 1.0 or (is_median and users < _MOSTLY * prompts):
        return {"concurrency": users}, (note,)
    return {"concurrency": users, "num_prompts": prompts}, (
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
            "what was measured; check --tp, --gpu and --quantization"
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
                f"if it is right, give --{name}"
            )
        fault = None if name == "engine" else name_fault(text)  # parts of an engine's name are enough
        if fault is not None:
            raise BadInput(f"{measurement.source}: {name} = {shown(text)}: {fault}; give --{name}")


def _with_source(error: RooflineError, measurement: Measurement, overrides: Mapping[str, Any]) -> RooflineError:
    """The error with the file it is about, and a way out where the file names something unknown."""
    text = str(error)
    hint = ""
    if isinstance(error, UnknownName):
        from_file = [name for name in ("model", "gpu") if overrides.get(name) is None]
        unknown = [name for name in from_file if getattr(measurement, name) in text]
        hint = f"; or give --{unknown[0]}" if unknown else ""
    return RooflineError(text if text.startswith(measurement.source) else f"{measurement.source}: {text}{hint}")
