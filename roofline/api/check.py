"""A measurement beside its prediction: which case it stands for, and how the two compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from roofline.analysis.measurement import Expected, MeasurementCheck, Part, measurement_check
from roofline.api.predict import predict
from roofline.catalog.engines import profile_of
from roofline.catalog.files import names_a_file
from roofline.errors import BadInput, DoesNotFit, RooflineError, UnknownName, shown
from roofline.measurements.fields import STATISTICS
from roofline.measurements.results import Reading, check_complete, override, read_results, results
from roofline.quantity import GIGA
from roofline.reading import RESULT_BYTES
from roofline.serving.closed_loop import steady_loop
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
        BadInput: a rate without the requests in flight, or a case that cannot be.
        DoesNotFit: the weights alone exceed the memory.
        UnknownName: no such model or GPU.
    """
    predicted = expected(measurement, **options)
    light = expected(measurement, batch=predicted.batch, **{**options, "basis": "ideal"})
    return measurement_check(measurement, predicted, light)


def expected(measurement: Measurement, *, batch: float | None = None, **options: Any) -> Expected:
    """What is predicted for a measurement: the one place that says which case a measurement stands for.

    A static batch is that batch. Several requests in flight are a server under a closed loop; at light
    speed, one static batch of them, and for the first token the prefill of one prompt.

    Args:
        measurement: complete: model, GPU, tp, lengths and a load are stated.
        batch: sequences that decode together; None for what the load says [sequences].
        options: keyword arguments of `predict`, such as `basis` and `specs`.

    Returns:
        The times and their passes.

    Raises:
        BadInput: a rate without the requests in flight, or a case that cannot be.
        DoesNotFit: the weights alone exceed the memory.
        UnknownName: no such model or GPU.

    Valid:
        Lengths are taken to be those of the mean request; prompts arrive one by one.
    """
    stated, prompts, notes = _static_load(measurement)
    batch = stated if batch is None else batch
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
    model, gpu = measurement.model or "", measurement.gpu or ""
    steps = predict(model, gpu, batch=batch, **case)
    first = steps if prompts == batch else predict(model, gpu, batch=prompts, **case)
    if (measurement.concurrency or 1.0) > 1.0 and steps.basis != "ideal":
        return _loaded(measurement, first, (*notes, *first.warnings))
    return Expected(
        deployment=steps.deployment,
        prefill=first.prefill,
        decode=steps.decode,
        ttft=float(first.ttft),
        tpot=None if steps.tpot is None else float(steps.tpot),
        e2el=float(e2el(first.ttft, steps.tpot or 0.0, osl)),
        batch=batch,
        notes=(*notes, *steps.warnings, *_oversize_notes(steps)),
        ttft_interval=first.ttft_interval,
        tpot_interval=steps.tpot_interval,
    )


def _loaded(measurement: Measurement, one: Prediction, notes: tuple[str, ...]) -> Expected:
    """A server on which the stated number of requests is always in flight."""
    concurrency, osl = measurement.concurrency or 1.0, max(measurement.osl or 1.0, 2.0)
    burst = measurement.burst or 0.0
    loop = steady_loop(one.deployment, one.workload.isl, osl, concurrency, burst, prefix=one.workload.prefix)
    said = (
        f"{concurrency:g} requests in flight: predicted as a closed loop, {loop.running:.3g} of them decoding on a rank"
    )
    if loop.slot_time > 0.0:
        said += ", the rest waiting for memory"
    return Expected(
        deployment=one.deployment,
        prefill=one.prefill,
        decode=loop.step,
        ttft=float(loop.ttft),
        tpot=None if (measurement.osl or 1.0) <= 1.0 else float(loop.tpot),
        e2el=float(e2el(loop.ttft, loop.tpot, measurement.osl or 1.0)),
        batch=min(float(loop.running) * one.deployment.plan.dp, concurrency / one.deployment.plan.pp),
        notes=(said, *notes),
        ttft_interval=loop.ttft_interval,
        tpot_interval=loop.tpot_interval,
    )


def _static_load(measurement: Measurement) -> tuple[float, float, tuple[str, ...]]:
    """Decode batch and prompts prefilled together that stand for a load; pp batches are in flight."""
    if measurement.batch is not None:
        return measurement.batch, measurement.batch, ()
    if measurement.concurrency is None:
        raise BadInput(_rate_alone(measurement))
    return max(measurement.concurrency / (measurement.pp or 1), 1.0), 1.0, ()


def _rate_alone(measurement: Measurement) -> str:
    """Refusal of a rate whose requests in flight are not known, with what Little's law makes of the measured times."""
    rate, latency = measurement.request_rate, measurement.e2el
    if rate is None:
        return "no load is stated: give --concurrency or --batch"
    if latency is None and measurement.ttft is not None:
        latency = e2el(measurement.ttft, measurement.tpot or 0.0, measurement.osl or 1.0)
    hint = "" if latency is None else f" (rate x measured latency makes some {rate * latency:.3g})"
    return (
        f"a rate of {rate:g} requests/s is stated, but not how many were in flight, which decides the batch; "
        f"give --concurrency{hint}"
    )


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
    said = f"a batch of {steps.workload.batch:g} takes {memory.used_fraction:.0%} of the usable memory by this count"
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
