"""A measurement compared with its prediction: ratios, utilization, and what would explain the gap."""

from __future__ import annotations

import math
from functools import cached_property

from roofline.analysis.suspects import MOST_PLAUSIBLE, UNMEASURED, PartOf, Suspect, Timed, ranked_suspects
from roofline.physics.forward import Pass
from roofline.physics.one_equation import Kernel, Roof
from roofline.physics.plan import Deployment
from roofline.quantity import MILLI, rounded, to_text
from roofline.records import NamedTuple, dataclass
from roofline.serving.interval import HALF_WIDTH, pass_sigma
from roofline.serving.latency import Workload
from roofline.specs.kernels import HEAD, NETWORK
from roofline.specs.measurement import Measurement

__all__ = [
    "AGREES",
    "MOST_PLAUSIBLE",
    "Expected",
    "MeasurementCheck",
    "Part",
    "mbu",
    "measurement_check",
    "mfu",
    "parts",
]

#: Relative run-to-run scatter of one server.
AGREES = 0.02

_TIMES = 2.0  # ratio from which a verdict gives a factor instead of a percentage
_BESIDE = "queue and other prompts"
_COMMON = (
    1.6  # ratio of the slowest latency over the fastest, each over its prediction, up to which one factor is named
)
_ROUNDING = 2.0**-30  # relative error of a sum over kernels
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

    def interval(self, metric: str) -> tuple[float, float] | None:
        """80 % range of a time [s]; None where there is none."""
        return {"ttft": self.ttft_interval, "tpot": self.tpot_interval, "e2el": self.e2el_interval}[metric]

    def holds(self, metric: str, time: float) -> bool | None:
        """Whether a time lies inside the 80 % range; None without a range."""
        ends = self.interval(metric)
        return None if ends is None else ends[0] <= time <= ends[1]


class Part(NamedTuple):
    """A group of kernels, with the factor on its time that alone would explain a measured time."""

    name: str
    time: float  # [s] predicted
    share: float  # of the predicted pass
    factor: float | None  # None where no positive one would do
    sigma: float | None = None  # of ln(predicted / measured) of such kernels; None without residuals

    @property
    def is_plausible(self) -> bool:
        return self.factor is not None and 1.0 / MOST_PLAUSIBLE <= self.factor <= MOST_PLAUSIBLE


@dataclass(frozen=True)
class MeasurementCheck:
    """A measurement, its prediction and the hardware limit; None for times not measured."""

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
        if (self.ideal_share(metric) or 0.0) > 1.0 + _ROUNDING:
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
        low, high = (rounded(end / MILLI) for end in ends)
        time = rounded(getattr(self.expected, metric) / MILLI)
        return f"{compared}: {place} the 80 % range, {time} ms ({low}-{high})"

    @property
    def suspect_texts(self) -> tuple[str, ...]:
        return tuple(
            f"{suspect.part}: {rounded(suspect.factor)}x its predicted time ({rounded(suspect.sigmas, 2)} times its "
            f"uncertainty); explains {' and '.join(metric.upper() for metric in suspect.explains)}"
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
        times = [self._timed(metric, predicted, _times(fastest)) for metric, predicted, fastest in metrics if predicted]
        return ranked_suspects(times) if any(timed.is_outside for timed in times) else ()

    def _timed(self, metric: str, predicted: tuple[Part, ...], fastest: dict[str, float]) -> Timed:
        ends = self.expected.interval(metric)
        sigma = UNMEASURED if ends is None else math.log(ends[1] / ends[0]) / (2.0 * HALF_WIDTH)
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
        return tuple(dict.fromkeys((*self.expected.notes, *too_fast)))


def measurement_check(measurement: Measurement, expected: Expected, ideal: Expected) -> MeasurementCheck:
    ttft, tpot, bandwidth = measurement.ttft, measurement.tpot, float(expected.deployment.gpu.bandwidth)
    basis = expected.deployment.basis
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


def mfu(pass_: Pass, time: float) -> float:
    r"""Share of the peak arithmetic rate that a pass reached, each kernel at the peak of its own compute dtype.

    .. math:: MFU = \frac{1}{t} \sum_k \frac{F_k}{P_k}

    With one dtype this is the usual F / (t P). With pipeline parallelism it is the share of the active stage.

    Args:
        pass_: the kernels of one GPU.
        time: measured time of the pass [s].

    Returns:
        The share [1]; above one, the time cannot belong to this pass.

    Source:
        Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B, here with the arithmetic of attention.
    """
    at_peak = sum(
        kernel.count * kernel.work.flop / kernel.roof.peak for kernel in pass_.kernels if isinstance(kernel.roof, Roof)
    )
    return float(at_peak) / time


def mbu(pass_: Pass, bandwidth: float, time: float) -> float:
    r"""Share of the HBM bandwidth that a pass reached.

    .. math:: MBU = \frac{Q}{t W}

    Args:
        pass_: the kernels of one GPU.
        bandwidth: HBM rate W [B/s].
        time: measured time of the pass [s].

    Returns:
        The share [1]; above one, the time cannot belong to this pass.

    Source:
        Databricks, "LLM Inference Performance Engineering: Best Practices", 2023, here with all traffic
        of the pass, including activations.

    >>> mbu(Pass(()), 1.0, 1.0)
    0.0
    """
    return float(pass_.nbytes) / (time * bandwidth)


def parts(pass_: Pass, expected: float, measured: float, basis: str = "calibrated") -> tuple[Part, ...]:
    r"""Groups of kernels of a pass, each with the factor on its time that alone would explain the measured time.

    .. math:: t - t_i + x_i t_i = t_{measured} \quad\Rightarrow\quad x_i = 1 + (t_{measured} - t) / t_i

    Args:
        pass_: the kernels of the pass.
        expected: its predicted time t; what exceeds the kernels forms a part of its own [s].
        measured: measured time [s].
        basis: calibrated, inherited, generic or ideal; sets how uncertain kernel times are.

    Returns:
        The groups, those with a factor nearest to one first and those without a positive factor last.
    """
    times = _times(pass_)
    beside = expected - sum(times.values())
    if beside > _ROUNDING * expected:
        times[_BESIDE] = beside
    groups = [
        Part(name, time, time / expected, _factor(time, measured - expected), _sigma(pass_, name, basis))
        for name, time in times.items()
        if time > 0.0
    ]
    return tuple(sorted(groups, key=lambda part: math.inf if part.factor is None else abs(math.log(part.factor))))


def _times(pass_: Pass) -> dict[str, float]:
    """Time by group of kernels [s]."""
    times: dict[str, float] = {}
    for kernel in pass_.kernels:
        name = _group(kernel)
        times[name] = times.get(name, 0.0) + float(kernel.time)
    return times


def _sigma(pass_: Pass, group: str, basis: str) -> float | None:
    """Sigma of ln(time) of a group of kernels; None for an empty group or the ideal basis."""
    kernels = tuple(kernel for kernel in pass_.kernels if _group(kernel) == group and kernel.part != NETWORK)
    if basis == "ideal" or not sum(float(kernel.time) for kernel in kernels) > 0.0:
        return None
    return float(pass_sigma(Pass(kernels), basis, 0.0))


def _factor(time: float, gap: float) -> float | None:
    factor = 1.0 + gap / time
    return factor if factor > 0.0 else None


def _group(kernel: Kernel) -> str:
    return HEAD if kernel.label == HEAD else kernel.kind.group or kernel.kind.label


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below
