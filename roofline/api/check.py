"""A measurement beside its prediction: which case it stands for, and how the two compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from roofline.analysis.measurement import Expected, MeasurementCheck, Part, measurement_check
from roofline.api.predict import predict
from roofline.catalog.engines import profile_of
from roofline.catalog.files import names_a_file
from roofline.errors import BadInput, DoesNotFit, Overloaded, RooflineError, UnknownName, shown
from roofline.measurements.fields import STATISTICS
from roofline.measurements.results import Reading, check_complete, override, read_results, results
from roofline.quantity import GIGA, rounded
from roofline.reading import RESULT_BYTES
from roofline.serving.latency import e2el
from roofline.serving.prediction import Prediction
from roofline.specs.measurement import Measurement
from roofline.specs.names import name_fault

__all__ = [
    "RESULT_BYTES",
    "STATISTICS",
    "Measurement",
    "MeasurementCheck",
    "Part",
    "Reading",
    "check_measurement",
    "check_readings",
    "expected",
    "read_results",
    "results",
]


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
                complete = override(measurement, **stated)
                check_complete(complete)
                engine = profile_of(complete.engine, complete.engine_version)
                found.append(check_measurement(complete, engine=engine, **options))
            except RooflineError as error:
                failures.append(_placed(error, measurement, stated))
    return found, failures


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
            f"{str(error).partition(';')[0]}, yet that was measured; give --concurrency, the requests in flight"
        ) from None
    return Expected(
        deployment=found.deployment,
        prefill=found.prefill,
        decode=found.decode,
        ttft=float(found.ttft),
        tpot=None if found.tpot is None else float(found.tpot),
        e2el=float(found.e2el),
        batch=float(found.decode_batch),
        notes=(*notes, *found.warnings, *_oversize_notes(found)),
        ttft_interval=found.ttft_interval,
        tpot_interval=found.tpot_interval,
    )


def _load(measurement: Measurement) -> tuple[dict[str, float], tuple[str, ...]]:
    """Load of a measurement as keyword arguments of `predict`, and what to say of it."""
    if measurement.batch is not None:
        return {"batch": measurement.batch}, ()
    if measurement.concurrency is None:
        if measurement.request_rate is None:
            raise BadInput("no load is stated: give --concurrency, --request-rate or --batch")
        return {"request_rate": measurement.request_rate}, (
            f"{measurement.request_rate:g} requests/s: predicted as Poisson arrivals",
        )
    users = max(measurement.concurrency, 1.0)
    said = f"{users:g} request{'s' if users > 1.0 else ''} in flight: predicted as users who ask again"
    prompts = measurement.num_prompts
    if prompts is None or users <= 1.0 or (_is_median(measurement) and users < _MOSTLY * prompts):
        return {"concurrency": users}, (said,)
    return {"concurrency": users, "num_prompts": prompts}, (
        f"{said}, in a run of {prompts:g} requests that all of them begin together",
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
    said = (
        f"a batch of {rounded(steps.decode_batch)} takes {memory.used_fraction:.0%} of the usable memory by this count"
    )
    return (f"{said}: the server ran fewer at a time, or keeps less of them",)


def _check_names(measurement: Measurement, stated: Mapping[str, Any]) -> None:
    """Refuse names that are none, and files: which further file is read is for the command line alone to say."""
    for name in ("model", "gpu", "engine"):
        text = getattr(measurement, name)
        if stated.get(name) is not None or text is None:
            continue
        if names_a_file(text):
            raise BadInput(
                f"{measurement.source}: {name} = {shown(text)} is a file, which no result may choose; "
                f"if it is what was measured, give --{name}"
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
        hint = f"; or say what was measured with --{unsaid[0]}" if unsaid else ""
    return RooflineError(text if text.startswith(measurement.source) else f"{measurement.source}: {text}{hint}")
