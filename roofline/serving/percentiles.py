"""Percentiles of a prediction, and its latencies over their limits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Generic

from roofline.elements import is_nan, negated
from roofline.number_types import Flag, Number, Word
from roofline.ops import Real, always, maximum, minimum, never, where
from roofline.serving.verdict import AT_HARDWARE_LIMIT, DOES_NOT_FIT, IN_RANGE, OVERLOADED, Limited, Verdict, verdict
from roofline.specs.slo import LATENCIES, P99_WITHIN, metric_and_level

if TYPE_CHECKING:
    from roofline.physics.memory import Memory
    from roofline.physics.plan import Deployment
    from roofline.serving.latency import Workload
    from roofline.serving.served import Served
    from roofline.serving.traffic.tails import Tails


_NOT_APPLICABLE = float("nan")
_RATIO_ERROR = 1.15  # of a p99 over its median: nine in ten are as near to the simulation (docs/load.md)
_LENGTHS = ("isl", "osl", "batch", "prefix", "concurrency", "request_rate", "num_prompts")


class Percentiles(Generic[Number, Flag, Word]):
    """The part of a prediction about the distribution of latencies over requests."""

    deployment: Deployment
    workload: Workload
    served: Served | None
    slo: Mapping[str, float]  # [s]
    memory: Memory[Number, Flag]
    allow_oversize: bool

    @cached_property
    def tails(self) -> Tails | None:
        """Latency distributions over requests; None for a burst of equal requests, and for a finite run."""
        if self.served is None:
            from roofline.serving.targets import burst_tails

            return burst_tails(self.deployment, self.workload)
        if self.workload.num_prompts is not None:
            return None
        from roofline.serving.traffic.tails import tails

        return tails(self.deployment, self.workload, self.served)

    def latency(self, key: str) -> Number | None:
        """A latency by the key of a limit, such as ``ttft``, ``ttft_p95`` [s] or ``p99_within`` [1].

        None where it does not apply: TPOT of a single token, a percentile of a finite run (`num_prompts`); and where
        the closed form of a percentile contradicts its mean, NaN in arrays.
        """
        if key not in self._latencies:
            time = self._latency(key)
            self._latencies[key] = None if type(time) is float and is_nan(time) else time
        return self._latencies[key]

    def latency_interval(self, key: str) -> tuple[Number, Number] | None:
        """Ends of the 80 % interval of such a latency [s]: relative errors of percentiles equal those of the mean.

        Of a p99 over its median [1], the errors that the simulation found; None on the ideal basis.
        """
        metric = metric_and_level(key)[0]
        if metric == P99_WITHIN and self.deployment.basis != "ideal":
            ratio = self.latency(key)
            return None if ratio is None else (maximum(ratio / _RATIO_ERROR, 1.0), ratio * _RATIO_ERROR)
        ends, time, mean = getattr(self, f"{metric}_interval", None), self.latency(key), getattr(self, metric, None)
        return None if ends is None or time is None else (ends[0] * time / mean, ends[1] * time / mean)

    @cached_property
    def slo_shares(self) -> dict[str, Number]:
        """Latency over limit, by the keys of the SLO [1]; it is met where none exceeds one, NaN where not known.

        A limit that applies to none of the cases is left out; where it applies to some, the others have 0.
        """
        limited = (each for each in self._limited if not never(each.applies))
        return {each.key: where(each.applies, each.central, 0.0) for each in limited}

    @cached_property
    def slo_met(self) -> Flag | None:
        """Whether the central estimate meets every limit of the SLO; None without one that applies."""
        if not self._limited:
            return None
        met: Real = True if self.served is None else self.served.is_stable  # overload misses every limit
        says: Real = negated(met)  # whether there is an answer
        for each in self._limited:
            met, says = met & ((each.central <= 1.0) | negated(each.applies)), says | each.applies
        return met if always(says) else where(says, met, None)

    @cached_property
    def slo_verdict(self) -> Verdict | None:
        """The verdict on the SLO with its reason and the limit that binds; None without an SLO."""
        if not self.slo:
            return None
        from roofline.serving.limits import beyond, is_within

        unchecked = [] if is_within(self.deployment, self.workload) else [*beyond(self.deployment, self.workload)]
        without_times = [(negated(self._memory_fits), DOES_NOT_FIT)]
        if self.served is not None:
            from roofline.serving.traffic.domain import outside

            unchecked = [*outside(self.deployment, self.workload, self.served), *unchecked]
            without_times.append((negated(self.served.is_stable), OVERLOADED))
        in_range = IN_RANGE
        if self.deployment.basis == "ideal":
            unchecked, in_range = [], AT_HARDWARE_LIMIT
        is_timed = self.deployment.basis != "generic"
        return verdict(
            self._limited, unchecked, without_times, in_range, is_mean=self.workload.is_mean, is_timed=is_timed
        )

    @property
    def verdict(self) -> Word | None:
        """``pass``, ``pass?``, ``fail?`` or ``fail``; None without an SLO, or where the case cannot be judged by it.

        It cannot where a limited percentile is not known, and where no limit applies: one token has no TPOT.

        ``pass`` needs timed kernels, a load inside the validated range, and 80 % ranges that end below every limit.
        """
        return None if self.slo_verdict is None else self.slo_verdict.word

    @cached_property
    def _limited(self) -> list[Limited]:
        """Each limited latency over its limit, with its 80 % range."""
        limited = []
        least = self._least if self.deployment.basis == "generic" else {}
        for key, limit in self.slo.items():
            metric, level = metric_and_level(key)
            is_run = self.workload.num_prompts is not None and (level is not None or metric not in LATENCIES)
            known = self.latency(key)
            if known is None and is_run:
                continue  # refused where a limit is given
            applies: Real = True if metric != "tpot" else (self.workload.osl > 1.0) & (self._zero == 0.0)
            time: Real = _NOT_APPLICABLE if known is None else known
            ends = (time, float("inf")) if self.deployment.basis == "ideal" else (time, time)
            if known is not None:
                ends = self.latency_interval(key) or ends
            at_best: Real = 0.0
            if metric in least and known is not None:  # percentiles below the mean scale with it
                at_best = least[metric] * minimum(time / getattr(self, metric), 1.0)
            low, high = (end / limit for end in ends)
            limited.append(Limited(key, time / limit, low, high, at_best / limit, applies))
        return limited

    @property
    def _least(self) -> Mapping[str, Real]:
        """Mean latencies at the hardware limit, by their metrics [s]."""
        raise NotImplementedError  # pragma: no cover - of the whole prediction

    @cached_property
    def _latencies(self) -> dict[str, Real | None]:
        """Cache of `latency`."""
        return {}

    def _latency(self, key: str) -> Real | None:
        metric, level = metric_and_level(key)
        mean: Real | None = getattr(self, metric, None)
        is_of_means = level is None and metric in LATENCIES
        is_run = self.workload.num_prompts is not None
        if (mean is None and metric in LATENCIES) or (is_run and not is_of_means):
            return None
        if is_of_means:
            return mean
        from roofline.serving.targets import equal_steps, of_tails

        means = {name: getattr(self, name) for name in LATENCIES}
        if self.tails is None:
            return mean if metric in LATENCIES else of_tails(None, None, means, 0.0, key)
        return self._where_fits(of_tails(self.tails, self.served, means, equal_steps(self.workload), key))

    @cached_property
    def _memory_fits(self) -> Real:
        return self.memory.fits

    @cached_property
    def _zero(self) -> Real:
        """0.0 in the shape of the case: a float, or an array for many cases."""
        case = self.workload
        if self.served is None and type(case.isl) is type(case.osl) is type(case.batch) is type(case.prefix) is float:
            return 0.0
        lengths = (getattr(case, name) for name in _LENGTHS)
        return sum((0.0 * length for length in lengths if getattr(length, "shape", ())), start=0.0)

    def _broadcast(self, time: Real) -> Real:
        """A time, broadcast to one element per case."""
        return time if type(self._zero) is float else time + self._zero

    def _where_fits(self, time: Real) -> Real:
        """NaN in arrays where a case does not fit or is overloaded; a single case keeps its time."""
        fits = self._memory_fits
        time = self._broadcast(time)
        if self.served is not None and not (always(self.served.is_stable) or never(self.served.is_stable)):
            time = where(self.served.is_stable, time, _NOT_APPLICABLE)
        return time if always(fits) or never(fits) or self.allow_oversize else where(fits, time, _NOT_APPLICABLE)
