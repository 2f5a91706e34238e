"""A measurement beside its prediction: which case it stands for, and how the two compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roofline.analysis.causes import METRICS, Observed
from roofline.analysis.diagnosis import NOTHING, UNCLEAR, Diagnosis, diagnosis, paired_runs
from roofline.analysis.measurement import Expected, MeasurementCheck, Part, measurement_check
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
from roofline.serving.latency import e2el
from roofline.serving.prediction import Prediction
from roofline.specs.measurement import Measurement
from roofline.specs.names import name_fault
from roofline.specs.slo import LATENCIES, key_of

__all__ = [
    "NOTHING",
    "RESULT_BYTES",
    "STATISTICS",
    "UNCLEAR",
    "Diagnosis",
    "Measurement",
    "MeasurementCheck",
    "Part",
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
_MOSTLY = 0.5  # share of the requests of a run that makes its median


def check_readings(
    readings: Iterable[Reading], stated: Mapping[str, Any], **options: Any
) -> tuple[list[MeasurementCheck], list[RooflineError]]:
    """Measurements of several files, each beside its prediction.

    Args:
        readings: what the files hold.
        stated: fields of a measurement that override what the files say; None for those that do not [any].
        options: keyword arguments of `predict`, such as `basis` and `specs`; the engine is the measurement's.

    Returns:
        The comparisons, and the errors of those that cannot be compared, each with its file.
    """
    found: list[MeasurementCheck] = []
    failures: list[RooflineError] = []
    for reading in readings:
        failures += reading.faults
        for measurement in reading.measurements:
            try:
                _check_names(measurement, stated)
                complete = override(measurement, **_resolved(measurement, stated))
                check_complete(complete)
                engine = profile_of(complete.engine, complete.engine_version)
                found.append(check_measurement(complete, engine=engine, **options))
            except RooflineError as error:
                failures.append(_placed(error, measurement, stated))
    return found, failures


def _resolved(measurement: Measurement, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with a share of the prompt as its tokens."""
    isl = stated.get("isl") or measurement.isl
    prefix = stated.get("prefix")
    if prefix is None or isl is None:
        return dict(stated)
    return {**stated, "prefix": tokens_of_prefix(prefix, float(isl))}


def what_changed(before: Sequence[MeasurementCheck], after: Sequence[MeasurementCheck]) -> Diagnosis:
    """What explains the difference between runs of a server before and after.

    Args:
        before: the runs before.
        after: the runs after, each compared with the one before whose load is nearest.

    Returns:
        The answer: a cause with its size, that nothing changed, or that it cannot be told.

    Raises:
        BadInput: no two runs have one kind of load.
    """
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
    return replace(diagnosis(paired), known=_known(before, after))


def _observed(run: MeasurementCheck) -> Observed:
    """A run as a diagnosis reads it: what is known of it, and its figures."""
    figures = {name: getattr(run.measured, name) for name in METRICS}
    workload = run.expected.workload
    if workload is None:
        raise BadInput(f"{run.measured.source}: its load is not known")
    return Observed(run.expected.deployment, workload, {key: value for key, value in figures.items() if value})


def _known(before: Sequence[MeasurementCheck], after: Sequence[MeasurementCheck]) -> tuple[str, ...]:
    """What the results themselves say differs between all runs before and all after."""
    said = []
    for name in _SETTINGS:
        first, last = ({_setting(run, name) for run in side} for side in (before, after))
        if first != last and len(first) == len(last) == 1:
            said.append(f"{name.replace('_', ' ')} {first.pop()}, then {last.pop()}")
    return tuple(said)


def _setting(run: MeasurementCheck, name: str) -> str:
    deployment = run.expected.deployment
    found = {"model": deployment.model.short_name, "gpu": deployment.gpu.name}
    value = found.get(name, getattr(run.measured, name))
    return "not stated" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def check_measurement(measurement: Measurement, **options: Any) -> MeasurementCheck:
    """A measurement beside its prediction and the speed of light.

    Args:
        measurement: complete: model, GPU, tp, lengths and a load are stated.
        options: keyword arguments of `predict`, such as `basis` and `specs`.

    Returns:
        Ratios, shares and what would explain the gap.

    Raises:
        BadInput: no load, or a case that cannot be.
        Overloaded: a rate that is predicted not to be answered.
        DoesNotFit: the weights alone exceed the memory.
        UnknownName: no such model or GPU.
    """
    predicted = expected(measurement, **options)
    light = _at_light_speed(measurement, predicted, options)
    return measurement_check(measurement, predicted, light)


def _at_light_speed(measurement: Measurement, predicted: Expected, options: dict[str, Any]) -> Expected:
    """The same work at light speed: a burst, or the prompt of one request and the step that it decodes in."""
    ideal = {**options, "basis": "ideal"}
    steps = expected(measurement, batch=predicted.batch, **ideal)
    if measurement.batch is not None:
        return steps
    first = expected(measurement, batch=1.0, **ideal)
    whole = float(e2el(first.ttft, steps.tpot or 0.0, measurement.osl or 1.0))
    return steps._replace(prefill=first.prefill, ttft=first.ttft, e2el=whole)


def expected(measurement: Measurement, *, batch: float | None = None, **options: Any) -> Expected:
    """What is predicted for a measurement: the one place that says which case a measurement stands for.

    Requests that started together are a burst; requests in flight are users who ask again, in a run of as many requests
    as the result states; a rate alone is that of Poisson arrivals.

    Args:
        measurement: complete: model, GPU, tp, lengths and a load are stated.
        batch: of a burst, whatever the load; None for what the measurement states [sequences].
        options: keyword arguments of `predict`, such as `basis` and `specs`.

    Returns:
        The times and their passes.

    Raises:
        BadInput: no load, or a case that cannot be.
        Overloaded: a rate that is predicted not to be answered.
        DoesNotFit: the weights alone exceed the memory.
        UnknownName: no such model or GPU.

    Valid:
        Lengths are taken to be those of the mean request.
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
    load, notes = ({"batch": batch}, ()) if batch is not None else _load(measurement)
    try:
        found = predict(measurement.model or "", measurement.gpu or "", **{**case, **load})
    except Overloaded as error:
        raise Overloaded(
            f"{str(error).partition(';')[0]}, but it was measured; give the requests in flight (--concurrency) instead"
        ) from None
    keys, said = _keys(measurement, found)
    latencies = {metric: found.latency(key) for metric, key in keys.items()}
    times = {metric: None if time is None else float(time) for metric, time in latencies.items()}
    return Expected(
        deployment=found.deployment,
        prefill=found.prefill,
        decode=found.decode,
        ttft=times["ttft"] or 0.0,
        tpot=times["tpot"],
        e2el=times["e2el"] or 0.0,
        batch=float(found.decode_batch),
        notes=(*notes, *said, *found.warnings, *_oversize_notes(found)),
        ttft_interval=found.latency_interval(keys["ttft"]),
        tpot_interval=found.latency_interval(keys["tpot"]),
        e2el_interval=found.latency_interval(keys["e2el"]),
        workload=found.workload,
    )


def _keys(measurement: Measurement, found: Prediction) -> tuple[dict[str, str], tuple[str, ...]]:
    """Which latencies of a prediction a measurement is compared with, by metric, and what to say of it."""
    means = {metric: metric for metric in LATENCIES}
    if measurement.statistic != _TAIL or found.served is None:
        return means, ()
    if found.workload.num_prompts is not None:
        return means, (f"{_TAIL}: compared with the predicted mean of the run",)
    return {metric: key_of(metric, _TAIL_LEVEL) for metric in means}, ()


def _load(measurement: Measurement) -> tuple[dict[str, float], tuple[str, ...]]:
    """Load of a measurement as keyword arguments of `predict`, and what to say of it."""
    if measurement.batch is not None:
        return {"batch": measurement.batch}, ()
    if measurement.concurrency is None:
        if measurement.request_rate is None:
            raise BadInput("no load given; add --concurrency, --request-rate or --batch")
        return {"request_rate": measurement.request_rate}, (
            f"{measurement.request_rate:g} requests/s: predicted as Poisson arrivals",
        )
    users = max(measurement.concurrency, 1.0)
    said = f"{users:g} request{'s' if users > 1.0 else ''} in flight: predicted as a closed loop of users"
    prompts = measurement.num_prompts
    if prompts is None or users <= 1.0 or (_is_median(measurement) and users < _MOSTLY * prompts):
        return {"concurrency": users}, (said,)
    return {"concurrency": users, "num_prompts": prompts}, (
        f"{said}, in a run of {prompts:g} requests that starts all users at once",
    )


def _is_median(measurement: Measurement) -> bool:
    """Whether the times are medians: of those the start of a run moves none, unless most requests belong to it."""
    return measurement.statistic == "median"


def _oversize_notes(steps: Prediction) -> tuple[str, ...]:
    """What to make of a case that ran, and does not fit by our count."""
    memory = steps.memory
    if memory.fits:
        return ()
    gpu, plan = steps.deployment.gpu, steps.deployment.plan
    if memory.weights > memory.usable:
        raise DoesNotFit(
            f"the weights of {steps.deployment.model.short_name} alone, {memory.weights / GIGA:.1f} GB per GPU at "
            f"tp {plan.tp}, pp {plan.pp}, exceed the usable {memory.usable / GIGA:.1f} GB of {gpu.name}: this is not "
            "what was measured; check --tp, --gpu and --quantization"
        )
    said = f"a batch of {rounded(steps.decode_batch)} takes {memory.used_fraction:.0%} of the usable memory as computed"
    return (f"{said}: the server ran a smaller batch, or stores less per request",)


def _check_names(measurement: Measurement, stated: Mapping[str, Any]) -> None:
    """Refuse names that are none, and files: which further file is read is for the command line alone to say."""
    for name in ("model", "gpu", "engine"):
        text = getattr(measurement, name)
        if stated.get(name) is not None or text is None:
            continue
        if names_a_file(text):
            raise BadInput(
                f"{measurement.source}: {name} = {shown(text)} is a path, which a result must not choose; "
                f"if it is right, give --{name}"
            )
        fault = None if name == "engine" else name_fault(text)  # engines go by parts of what they are called
        if fault is not None:
            raise BadInput(f"{measurement.source}: {name} = {shown(text)}: {fault}; give --{name}")


def _placed(error: RooflineError, measurement: Measurement, given: Mapping[str, Any]) -> RooflineError:
    """The error with the file that it is about, and the way out where the file names what no catalog knows."""
    text = str(error)
    hint = ""
    if isinstance(error, UnknownName):
        unsaid = [name for name in ("model", "gpu") if given.get(name) is None and getattr(measurement, name) in text]
        hint = f"; or give --{unsaid[0]}" if unsaid else ""
    return RooflineError(text if text.startswith(measurement.source) else f"{measurement.source}: {text}{hint}")
