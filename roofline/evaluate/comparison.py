"""A measurement beside its prediction: ratios, how much of the machine was used, and what would explain the gap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from roofline.errors import BadInput, DoesNotFit
from roofline.evaluate.measured import Measured
from roofline.physics.forward import Pass
from roofline.physics.plan import Deployment
from roofline.physics.work import Kernel, LinkRoof, Roof
from roofline.quantity import GIGA
from roofline.serving.closed_loop import closed_loop
from roofline.serving.latency import e2el
from roofline.serving.prediction import Prediction

__all__ = [
    "MOST_PLAUSIBLE",
    "Comparison",
    "Expected",
    "Part",
    "comparison",
    "mbu",
    "mfu",
    "parts",
    "predicted",
]

#: A part of a step may be off by this factor; beyond it, something else is going on.
MOST_PLAUSIBLE = 10.0

_KINDS = {
    "gemm": "linear layers",
    "moe": "experts",
    "elementwise": "element-wise passes",
    "indexer": "attention",
    "host": "host overhead",
}
_BEGINNINGS = {"attention": "attention", "mla": "attention", "state": "recurrence"}
_BESIDE = "queue and other prompts"
_ROUNDING = 2.0**-30  # of a sum over kernels
_TOO_FAST = {"ttft": "prompts were cached, or GPU, plan, formats", "tpot": "GPU, plan, formats, requests in flight"}


class Expected(NamedTuple):
    """What is predicted for a measurement: its times, and the passes that they stand for."""

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

    def holds(self, metric: str, time: float) -> bool | None:
        """Whether the 80 % interval holds a measured time; None where there is none."""
        ends = {"ttft": self.ttft_interval, "tpot": self.tpot_interval}.get(metric)
        return None if ends is None else ends[0] <= time <= ends[1]


class Part(NamedTuple):
    """A group of kernels of a pass, and what it would take for it alone to explain a measured time."""

    name: str
    time: float  # [s] predicted
    share: float  # of the predicted pass
    factor: float | None  # on its time; None where no positive one would do

    @property
    def is_plausible(self) -> bool:
        """Whether the factor is one that a part may be off by."""
        return self.factor is not None and 1.0 / MOST_PLAUSIBLE <= self.factor <= MOST_PLAUSIBLE


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measurement, its prediction and the speed of light; None where a time was not measured."""

    measured: Measured
    expected: Expected
    light: Expected  # the same on the ideal basis
    mfu: float | None  # of the prefill
    mbu: float | None  # of the mean decode step
    prefill_parts: tuple[Part, ...]  # most plausible first
    decode_parts: tuple[Part, ...]

    def ratio(self, metric: str) -> float | None:
        """Measured over predicted time [1]."""
        return _over(getattr(self.measured, metric), getattr(self.expected, metric))

    def light_share(self, metric: str) -> float | None:
        """Time at the speed of light over the measured one [1]."""
        return _over(getattr(self.light, metric), getattr(self.measured, metric))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know."""
        said = [
            f"{metric} is shorter than light takes: {cause} or lengths are not those stated"
            for metric, cause in _TOO_FAST.items()
            if (self.light_share(metric) or 0.0) > 1.0
        ]
        return tuple(dict.fromkeys((*self.expected.notes, *said)))


def predicted(
    measurement: Measured, predict: Callable[..., Prediction], *, batch: float | None = None, **options: Any
) -> Expected:
    """What is predicted for a measurement: the one place that says which case a measurement stands for.

    A static batch is that batch. Several requests in flight are a server under a closed loop; at light
    speed, one static batch of them, and for the first token the prefill of one prompt.

    Args:
        measurement: complete: model, GPU, tp, lengths and a load are stated.
        predict: `roofline.predict`, which an inner ring may not import [function].
        batch: sequences that decode together; None for what the load says [sequences].
        options: further keyword arguments of it, such as `basis` and `specs`.

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
    steps = predict(measurement.model, measurement.gpu, batch=batch, **case)
    first = steps if prompts == batch else predict(measurement.model, measurement.gpu, batch=prompts, **case)
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


def comparison(measurement: Measured, predict: Callable[..., Prediction], **options: Any) -> Comparison:
    """A measurement beside its prediction and the speed of light.

    Args:
        measurement: complete: model, GPU, tp, lengths and a load are stated.
        predict: `roofline.predict`, which an inner ring may not import [function].
        options: further keyword arguments of it, such as `basis` and `specs`.

    Returns:
        Ratios, shares and what would explain the gap.

    Raises:
        BadInput: a rate without the requests in flight, or a case that cannot be.
        DoesNotFit: the weights alone exceed the memory.
        UnknownName: no such model or GPU.
    """
    expected = predicted(measurement, predict, **options)
    light = predicted(measurement, predict, batch=expected.batch, **{**options, "basis": "ideal"})
    ttft, tpot, bandwidth = measurement.ttft, measurement.tpot, float(expected.deployment.gpu.bandwidth)
    return Comparison(
        measured=measurement,
        expected=expected,
        light=light,
        mfu=None if ttft is None else mfu(expected.prefill, ttft),
        mbu=None if tpot is None or expected.tpot is None else mbu(expected.decode, bandwidth, tpot),
        prefill_parts=() if ttft is None else parts(expected.prefill, expected.ttft, ttft),
        decode_parts=() if tpot is None or expected.tpot is None else parts(expected.decode, expected.tpot, tpot),
    )


def mfu(passed: Pass, time: float) -> float:
    r"""Share of the peak arithmetic rate that a pass reached, each kernel at the peak of its own compute dtype.

    .. math:: MFU = \frac{1}{t} \sum_k \frac{F_k}{P_k}

    With one dtype this is the usual F / (t P). With pipeline parallelism it is that of the stage at work.

    Args:
        passed: the kernels of one GPU.
        time: that the pass took [s].

    Returns:
        The share [1]; above one the time cannot be that of this pass.

    Source:
        Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B, here with the arithmetic of attention.
    """
    at_peak = sum(
        kernel.count * kernel.work.flop / kernel.roof.peak for kernel in passed.kernels if isinstance(kernel.roof, Roof)
    )
    return float(at_peak) / time


def mbu(passed: Pass, bandwidth: float, time: float) -> float:
    r"""Share of the HBM bandwidth that a pass reached.

    .. math:: MBU = \frac{Q}{t W}

    Args:
        passed: the kernels of one GPU.
        bandwidth: HBM rate W [B/s].
        time: that the pass took [s].

    Returns:
        The share [1]; above one the time cannot be that of this pass.

    Source:
        Databricks, "LLM Inference Performance Engineering: Best Practices", 2023, here with all traffic
        of the pass, activations included.

    >>> mbu(Pass(()), 1.0, 1.0)
    0.0
    """
    return float(passed.nbytes) / (time * bandwidth)


def parts(passed: Pass, expected: float, measured: float) -> tuple[Part, ...]:
    r"""Groups of kernels of a pass, each with the factor on its time that would by itself explain the measured time.

    .. math:: t - t_i + x_i t_i = t_{measured} \quad\Rightarrow\quad x_i = 1 + (t_{measured} - t) / t_i

    Args:
        passed: the kernels of the pass.
        expected: its predicted time t; what exceeds the kernels is a part, too [s].
        measured: the time that was measured [s].

    Returns:
        The groups, the factor nearest to one first; those without a positive factor last.
    """
    times: dict[str, float] = {}
    for kernel in passed.kernels:
        name = _group(kernel)
        times[name] = times.get(name, 0.0) + float(kernel.time)
    beside = expected - sum(times.values())
    if beside > _ROUNDING * expected:
        times[_BESIDE] = beside
    found = [
        Part(name, time, time / expected, _factor(time, measured - expected))
        for name, time in times.items()
        if time > 0.0
    ]
    return tuple(sorted(found, key=lambda part: math.inf if part.factor is None else abs(math.log(part.factor))))


def _factor(time: float, gap: float) -> float | None:
    factor = 1.0 + gap / time
    return factor if factor > 0.0 else None


def _group(kernel: Kernel) -> str:
    """What a reader calls the part of a step that a kernel belongs to."""
    if isinstance(kernel.roof, LinkRoof):
        return "collectives"
    if kernel.name == "head":
        return "head"
    return _KINDS.get(kernel.kind) or _BEGINNINGS.get(kernel.kind.split("_")[0], kernel.kind)


def _loaded(measurement: Measured, one: Prediction, notes: tuple[str, ...]) -> Expected:
    """A server on which the stated number of requests is always in flight."""
    concurrency, osl = measurement.concurrency or 1.0, max(measurement.osl or 1.0, 2.0)
    burst = measurement.burst or 0.0
    loop = closed_loop(one.deployment, one.workload.isl, osl, concurrency, burst, prefix=one.workload.prefix)
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


def _static_load(measurement: Measured) -> tuple[float, float, tuple[str, ...]]:
    """Decode batch and prompts prefilled together that stand for a load; pp batches are in flight."""
    if measurement.batch is not None:
        return measurement.batch, measurement.batch, ()
    if measurement.concurrency is None:
        raise BadInput(_rate_alone(measurement))
    return max(measurement.concurrency / (measurement.pp or 1), 1.0), 1.0, ()


def _rate_alone(measurement: Measured) -> str:
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


def _over(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below
