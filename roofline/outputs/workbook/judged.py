"""Ranges and verdict of a case in cells: those of a prediction whose basis and evidence are looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from roofline.numbers.operations import Real, where
from roofline.numbers.quantity import MILLI
from roofline.outputs.workbook.cells import INFINITE, CellPool, scope
from roofline.outputs.workbook.tables import rounded_to
from roofline.physics.passes import Pass
from roofline.serving.prediction import Prediction
from roofline.serving.verdict import (
    AT_HARDWARE_LIMIT,
    DOES_NOT_APPLY,
    NOT_KNOWN,
    NOT_TIMED,
    Limited,
    Verdict,
    _variance,
    kernel_sigma,
    variance_of_groups,
    wider,
)
from roofline.specs.gpu import LOADING, NETWORK, KernelKind
from roofline.specs.workload import metric_and_level
from roofline.support.records import NamedTuple, dataclass, field

#: What stands for a verdict without a limit.
NO_LIMIT = "no limit"

_BOUND = "none: a bound"


class RangedPass(Pass):
    """A pass of cells; kernels of one kind err together where their constants are those of one dtype."""

    __slots__ = ("_dtypes",)

    def __init__(self, passed: Pass, dtypes: Mapping[tuple[str, str], Any]) -> None:
        super().__init__(passed.kernels)
        self._dtypes = dtypes  # of the constants, by kind and key of a kernel

    def like(self, passed: Pass) -> RangedPass:
        """Another pass of the same kernels."""
        return RangedPass(passed, self._dtypes)

    def figures(self, read: Callable[[Pass], tuple[Real, ...]]) -> tuple[Real, ...]:
        """`read` of the pass."""
        return super().figures(read) if read is not _variance else (self._variance(),)

    @scope("variance")
    def _variance(self) -> Real:
        """Variance of the logarithm of its time."""
        times: dict[tuple[KernelKind, str], Real] = {}
        sigmas: dict[tuple[KernelKind, str], Real] = {}
        is_novel: Any = False
        for kernel in self.kernels:
            if kernel.part in (NETWORK, LOADING):  # stated by the user
                continue
            key = kernel.kind, kernel.dtype
            runs = kernel.count > 0.0
            sigma = kernel_sigma(kernel.kind, kernel.roof.efficiency.sigma)
            times[key] = times.get(key, 0.0) + kernel.time
            sigmas[key] = where(runs, sigma, sigmas.get(key, sigma))  # over which link, if over any
            is_novel = is_novel | runs if kernel.kind.is_novel else is_novel
        groups = [(time, sigmas[key]) for key, time in self._joined(times).items()]
        return variance_of_groups(groups, is_novel=is_novel)

    def _joined(self, times: Mapping[tuple[KernelKind, str], Real]) -> dict[tuple[KernelKind, str], Real]:
        """Times of groups, each with those of later groups whose constants are the same, which then have none."""
        joined = dict(times)
        for place, later in enumerate(times):
            for earlier in list(times)[:place]:
                if earlier[0] is not later[0]:
                    continue
                ours, theirs = (self._dtypes[kind.name, key] for kind, key in (earlier, later))
                moved = where(ours == theirs, joined[later], 0.0)
                joined[earlier], joined[later] = joined[earlier] + moved, joined[later] - moved
        return joined


@dataclass(frozen=True, eq=False, repr=False)
class _Based(Prediction[Any, Any, Any]):
    """A prediction of cells, with what `Deployment.basis` says of a single case."""

    is_ideal: Any = False  # whether times are the hardware limit, which has no range
    is_timed: Any = True  # whether kernels of the GPU's generation were timed
    widths: Mapping[str, Any] = field(default_factory=dict)  # factors on the sigma of `ttft` and `tpot`
    served_sigmas: Mapping[str, Any] = field(default_factory=dict)  # of the factors on their passes, if any has one
    estimate: Any = NOT_TIMED  # why a verdict is not certain where kernels were not timed


class Judged(_Based):
    """A prediction of cells, with the ranges and the verdict of the basis that a case chooses."""

    @property
    def tpot(self) -> Any:
        """TPOT [s], also of a single token, where no cell shows it: a sheet has no NaN."""
        return self._step

    def verdict_on(self, *keys: str) -> Verdict:
        """The verdict on some of the limits, as if there were no others."""
        return self._verdict_on([each for each in self._limited if each.key in keys])

    def _sigma_of(self, result: str) -> Any:
        sigma: Any = super()._sigma_of(result)
        sigma = sigma * self.widths.get(result, 1.0)
        own: Any = self.served_sigmas.get(result)
        return sigma if own is None else where(own > 0.0, wider(sigma, own), sigma)

    @cached_property
    def _limited(self) -> list[Limited]:
        return [
            each._replace(
                low=where(self.is_ideal, each.central, each.low),
                high=where(self.is_ideal, INFINITE, each.high),
                applies=each.applies & (self.slo[each.key] < INFINITE),  # a blank limit is infinite
            )
            for each in super()._limited
        ]

    @property
    def _is_timed(self) -> Any:
        return self.is_timed  # the hardware limit never passes, and misses what it misses for certain

    @property
    def _estimate(self) -> Any:
        return self.estimate

    @property
    def _in_range(self) -> Any:
        return where(self.is_ideal, AT_HARDWARE_LIMIT, super()._in_range)

    @property
    def _unchecked(self) -> list[tuple[Real, str]]:
        return [(fails & ~self.is_ideal, text) for fails, text in super()._unchecked]


class Range(NamedTuple):
    """An 80 % range as cells show it."""

    low: Any  # [ms]; blank at the hardware limit
    high: Any
    text: Any


@scope("range")
def range_of(prediction: Judged, key: str) -> Range:
    """The 80 % range of a latency, by the key of a limit."""
    metric, level = metric_and_level(key)
    ends: Any = getattr(prediction, f"{metric}_interval") if level is None else prediction.latency_interval(key)
    low, high = (end / MILLI for end in ends)
    pool: CellPool = low.graph
    text = pool.text_formula(f"{_shortened(low)} to {_shortened(high)}")
    is_ideal = prediction.is_ideal
    return Range(where(is_ideal, "", low), where(is_ideal, "", high), where(is_ideal, _BOUND, text))


def _shortened(time: Any) -> Any:
    """A time with some three digits [ms]."""
    whole, tenths, hundredths = (rounded_to(time, digits) for digits in (0, 1, 2))
    return where(time < 10.0, hundredths, where(time < 100.0, tenths, whole))


@scope("verdict")
def words_on(prediction: Judged, keys: Sequence[str]) -> tuple[Any, Any]:
    """The verdict on some limits, and why it is not `pass`."""
    has_limit: Any = False
    for key in keys:
        has_limit = has_limit | (prediction.slo[key] < INFINITE)
    word, reason, binding = prediction.verdict_on(*keys)
    absent = where(binding == "", DOES_NOT_APPLY, NOT_KNOWN)
    word = where(has_limit, where(word == "", absent, word), NO_LIMIT)
    return word, where(has_limit, reason, "")
