"""Percentiles of a prediction, and its latencies over their limits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Generic

from roofline.number_types import Flag, Number
from roofline.ops import Real, always, never, where
from roofline.specs.slo import LATENCIES, metric_and_level

if TYPE_CHECKING:
    from roofline.physics.memory import Memory
    from roofline.physics.plan import Deployment
    from roofline.serving.latency import Workload
    from roofline.serving.served import Served
    from roofline.serving.traffic.tails import Tails


_NOT_APPLICABLE = float("nan")
_LENGTHS = ("isl", "osl", "batch", "prefix", "concurrency", "request_rate", "num_prompts")


class Percentiles(Generic[Number, Flag]):
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

        None where it does not apply: TPOT of a single token, a percentile of a finite run (`num_prompts`).
        """
        if key not in self._latencies:
            self._latencies[key] = self._latency(key)
        return self._latencies[key]

    def latency_interval(self, key: str) -> tuple[Number, Number] | None:
        """Ends of the 80 % interval of such a latency [s]: relative errors of percentiles equal those of the mean."""
        metric = metric_and_level(key)[0]
        ends, time, mean = getattr(self, f"{metric}_interval", None), self.latency(key), getattr(self, metric, None)
        return None if ends is None or time is None else (ends[0] * time / mean, ends[1] * time / mean)

    @cached_property
    def slo_shares(self) -> dict[str, Number]:
        """Latency over limit, by the keys of the SLO [1]; it is met where none exceeds one."""
        shares: dict[str, Number] = {}
        for key, limit in self.slo.items():
            time = self.latency(key)
            if time is not None and key.startswith("tpot"):  # a single token has no TPOT
                time = where(self.workload.osl > 1.0, time, 0.0)
            if time is not None:
                shares[key] = time / limit
        return shares

    @cached_property
    def slo_met(self) -> Flag | None:
        """Whether the central estimate meets every limit of the SLO; None without one."""
        if not self.slo:
            return None
        met: Real = True if self.served is None else self.served.is_stable  # overload misses every limit
        for share in self.slo_shares.values():
            met = met & (share <= 1.0)
        return met

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
        from roofline.serving.targets import of_tails

        means = {name: getattr(self, name) for name in LATENCIES}
        if self.tails is None:
            return mean if metric in LATENCIES else of_tails(None, None, means, key)
        return self._where_fits(of_tails(self.tails, self.served, means, key))

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
