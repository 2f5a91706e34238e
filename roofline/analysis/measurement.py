"""A measurement beside its prediction: ratios, how much of the machine was used, and what would explain the gap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from roofline.physics.forward import Pass
from roofline.physics.one_equation import Kernel, Roof
from roofline.physics.plan import Deployment
from roofline.specs.kernels import HEAD
from roofline.specs.measurement import Measurement

__all__ = [
    "MOST_PLAUSIBLE",
    "Expected",
    "MeasurementCheck",
    "Part",
    "mbu",
    "measurement_check",
    "mfu",
    "parts",
]

#: A part of a step may be off by this factor; beyond it, something else is going on.
MOST_PLAUSIBLE = 10.0

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
class MeasurementCheck:
    """A measurement, its prediction and the speed of light; None where a time was not measured."""

    measured: Measurement
    expected: Expected
    light: Expected  # the same on the ideal basis
    mfu: float | None  # of the prefill
    mbu: float | None  # of the mean decode step
    prefill_parts: tuple[Part, ...]  # most plausible first
    decode_parts: tuple[Part, ...]

    def ratio(self, metric: str) -> float | None:
        """Measurement over predicted time [1]."""
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


def measurement_check(measurement: Measurement, expected: Expected, light: Expected) -> MeasurementCheck:
    """A measurement beside its prediction and the speed of light.

    Args:
        measurement: with the times that were measured.
        expected: what was predicted for it.
        light: the same at the speed of light.

    Returns:
        Ratios, shares and what would explain the gap.
    """
    ttft, tpot, bandwidth = measurement.ttft, measurement.tpot, float(expected.deployment.gpu.bandwidth)
    return MeasurementCheck(
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
    return HEAD if kernel.label == HEAD else kernel.kind.group or kernel.kind.label


def _over(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below
