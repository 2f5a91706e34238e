"""The answer: what a deployment does under a workload, with the figures behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, overload

from roofline.elements import is_nan, negated
from roofline.number_types import Flag, Json, Number, Word
from roofline.ops import Real, always, comparable, maximum, minimum, never, where
from roofline.physics.efficiency import basis_of, evidence
from roofline.physics.forward import Pass, decode_pass
from roofline.physics.memory import Memory
from roofline.physics.plan import Deployment
from roofline.records import dataclass, field, replace
from roofline.serving.correction import UNCORRECTED, Correction
from roofline.serving.interval import load_sigma, pass_sigma, spread
from roofline.serving.knee import Knees, knees
from roofline.serving.latency import USERS, Workload, e2el, time_per_token
from roofline.serving.limits import assumptions
from roofline.serving.percentiles import Percentiles
from roofline.serving.priced import Priced
from roofline.serving.row import row
from roofline.serving.served import Served, lanes, request_passes
from roofline.serving.sizing import longest_context
from roofline.specs.slo import LATENCIES, metric_and_level

if TYPE_CHECKING:
    from roofline.arrays import Array, Flags, Words
    from roofline.serving.row_types import Row


_NOT_APPLICABLE = float("nan")
_TINY = 2.0**-200  # of a time, against division by zero

#: Sigma of whole passes beyond the kernels' own, where the engine profile states none.
DEFAULT_SIGMA = 0.15

#: Regime in which a time scaled by a measurement would beat the hardware limit.
LIMIT_BINDS = "the hardware limit binds"


@comparable
@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Percentiles[Number, Flag, Word], Priced[Number], Generic[Number, Flag, Word]):
    """Latencies of a deployment under a workload, with the figures behind them.

    Times in seconds, sizes in bytes. Numbers may be arrays with one element per case. What does not apply is None
    (NaN in arrays).

    >>> import roofline as rl
    >>> p = rl.predict("llama-3.1-8b", "h100-sxm", isl=900, osl=300, basis="ideal", slo="ttft:300")
    >>> p
    <Prediction llama-3.1-8b bf16 on 1x h100-sxm: TTFT 14.6 ms, TPOT 4.52 ms; isl 900, osl 300, batch 1, ideal, SLO \
pass?>
    >>> p.verdict, p.slo_verdict.reason
    ('pass?', 'times are the hardware limit, which no GPU reaches')
    >>> p.latency("ttft") == p.ttft, p.latency_interval("ttft")  # a bound has no interval
    (True, None)
    >>> p.to_dict(["gpu", "slo_met", "decode_bound"])
    {'gpu': 'h100-sxm', 'slo_met': True, 'decode_bound': 'memory'}
    """

    deployment: Deployment = field(repr=False)
    workload: Workload
    prefill: Pass = field(repr=False)
    decode: Pass = field(repr=False)
    memory: Memory[Number, Flag] = field(repr=False)
    slo: Mapping[str, float] = field(default_factory=dict)  # [s]
    said: tuple[str, ...] = ()  # warnings about the case
    allow_oversize: bool = False  # arrays have times for cases that do not fit too
    correction: Correction = UNCORRECTED  # by a measurement of this deployment
    served: Served | None = field(default=None, repr=False)  # under users or a rate; None for a burst
    added: tuple[str, ...] = ()  # warnings about the answer

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the case, the assumptions made for it, and the answer."""
        known = (*self.said, *assumptions(self.deployment, self.prefill, self.decode), *self.added)
        if self.served is None:
            return known
        from roofline.serving.traffic.domain import benchmark_note

        return (*known, *benchmark_note(self.deployment, self.workload, self.served))

    @cached_property
    def ttft(self) -> Number:
        """Time to first token [s]: of a burst, or the mean over requests under a load."""
        time = self.prefill.time if self.served is None else self.served.ttft
        return self._where_fits(self._corrected(time, self.correction.ttft, 0))

    @cached_property
    def _step(self) -> Real:
        """TPOT, also for a single output token [s]."""
        time = self._per_token(self.decode.time) if self.served is None else self.served.tpot
        return self._where_fits(self._corrected(time, self.correction.tpot, 1))

    @cached_property
    def ideal(self) -> tuple[Pass, Pass]:
        """Prefill and mean decode step at the hardware limit: the same work at full rates, without host time."""
        return request_passes(self.deployment.on("ideal"), self.workload, self.served)

    @property
    def load(self) -> str:
        """Load: burst, concurrency (users, closed loop) or request_rate (Poisson arrivals, open loop)."""
        return self.workload.load

    @property
    def concurrency(self) -> Number | None:
        """Mean requests in flight on the whole deployment [requests]; None for a burst."""
        if self.workload.request_rate is not None:
            return self.workload.request_rate * self.e2el
        return self.workload.concurrency

    @property
    def request_rate(self) -> Number | None:
        """Requests per second of the whole deployment [1/s]; None for a burst."""
        if self.workload.concurrency is not None:
            return self.workload.concurrency / self.e2el
        return self.workload.request_rate

    @property
    def max_request_rate(self) -> Number | None:
        """Largest request rate of the whole deployment [1/s]; None for a burst."""
        if self.served is None:
            return None
        most = self.served.max_request_rate
        return most if self.workload.concurrency is None else maximum(most, self.request_rate)

    @property
    def util(self) -> Number | None:
        """Request rate over the largest one [1]; None for a burst."""
        return None if self.request_rate is None else self.request_rate / self.max_request_rate

    @property
    def queue(self) -> Number | None:
        """Mean TTFT beyond request, network and the request's own prefill [s]; None for a burst."""
        return None if self.served is None else self._where_fits(self.correction.ttft * self.served.queue)

    @property
    def waiting(self) -> Number | None:
        """Mean requests of the whole deployment that wait [requests]; None for a burst."""
        return None if self.queue is None or self.request_rate is None else self.request_rate * self.queue

    @property
    def running(self) -> Number | None:
        """Mean requests of the whole deployment in service [requests]; None for a burst."""
        return None if self.concurrency is None else self.concurrency - self.waiting

    @cached_property
    def ideal_share(self) -> dict[str, Number]:
        """Share of the hardware limit that prefill and decode reach, host time included [1].

        On the ideal basis, the share that the calibrated kernels with the same engine would reach.
        """
        ideal_first, ideal_step = self.ideal
        if self.basis != "ideal":
            return {"prefill": ideal_first.time / self.ttft, "decode": self._per_token(ideal_step.time) / self._step}
        real = self.deployment.on(basis_of(self.deployment.gpu, "calibrated"))
        if self.served is None:
            real_first, real_step = request_passes(real, self.workload, None)
            return {"prefill": ideal_first.time / real_first.time, "decode": ideal_step.time / real_step.time}
        from roofline.serving.traffic.load import served

        means = served(real, self.workload)
        return {"prefill": ideal_first.time / means.ttft, "decode": self._per_token(ideal_step.time) / means.tpot}

    @cached_property
    def ttft_interval(self) -> tuple[Number, Number] | None:
        """Ends of the 80 % interval of `ttft` [s]; None on the ideal basis, which is a bound."""
        sigma = self._sigma("ttft")
        if sigma is None:
            return None
        network = self.deployment.effective_engine.network  # stated by the user, like cold starts: no uncertainty
        if self.workload.cold_start is not None:
            network = network + self.workload.cold_start[0] * self.workload.cold_start[1]
        ends = spread(self.ttft - network, sigma)
        return self._interval(self.ttft, (ends[0] + network, ends[1] + network), 0)

    @cached_property
    def tpot_interval(self) -> tuple[Number, Number] | None:
        """Ends of the 80 % interval of `tpot` [s]; None on the ideal basis and for a single output token."""
        sigma = self._sigma("tpot")
        if sigma is None or self.tpot is None:
            return None
        return self._interval(self.tpot, spread(self.tpot, sigma), 1)

    @cached_property
    def e2el_interval(self) -> tuple[Number, Number] | None:
        """Ends of the 80 % interval of `e2el` [s], with errors of TTFT and TPOT fully correlated."""
        first, sigma = self.ttft_interval, self._sigma("tpot")
        if first is None or sigma is None:
            return None
        step = self._interval(self._step, spread(self._step, sigma), 1)
        return self._end_to_end(first[0], step[0]), self._end_to_end(first[1], step[1])

    @property
    def tpot(self) -> Number | None:
        """Mean time per output token after the first [s]; None for a single output token."""
        several = self.workload.osl > 1.0
        if never(several):
            return None
        return self._step if always(several) else where(several, self._step, _NOT_APPLICABLE)

    @property
    def itl(self) -> Number | None:
        """Mean inter-token latency [s]: of a decode step, which yields several tokens with drafts."""
        step: Real | None = self.tpot
        return step if step is None or self.deployment.draft is None else step / self._per_token(1.0)

    def _per_token(self, step: Real) -> Real:
        """Time per token [s] from the time of a step."""
        return time_per_token(self.deployment, self.workload.osl, step)

    @property
    def tpot_first(self) -> Number:
        """TPOT of the first decode step, without prefill in the same step [s]."""
        step = decode_pass(self.deployment, self.decode_batch, self.workload.isl)
        return self._broadcast(self.correction.tpot * self._per_token(step.time))

    @property
    def tpot_last(self) -> Number:
        """TPOT of the last decode step, without prefill in the same step [s]."""
        context = self.workload.isl + maximum(self.workload.osl - 2.0, 0.0)
        step = decode_pass(self.deployment, self.decode_batch, context)
        return self._broadcast(self.correction.tpot * self._per_token(step.time))

    @property
    def e2el(self) -> Number:
        """End-to-end latency [s]."""
        return self._end_to_end(self.ttft, self._step)

    def _end_to_end(self, first: Real, step: Real) -> Real:
        """End-to-end latency [s] from TTFT and TPOT; where answers vary in length, long ones weigh more."""
        if self.served is None or self.workload.lengths is None:
            return e2el(first, step, self.workload.osl)
        raw = self.served.tpot
        return first + self.served.decode * where(raw > 0.0, step / maximum(raw, _TINY), 1.0)  # single tokens have none

    @property
    def tok_s_user(self) -> Number | None:
        """Output tokens per second that one user sees while decoding [1/s]; None for a single output token."""
        step: Real | None = self.tpot
        return None if step is None else 1.0 / step

    @property
    def output_tok_s(self) -> Number:
        """Output tokens per second of all replicas [1/s]."""
        if self.request_rate is not None:
            return self._where_fits(self.request_rate) * self.workload.osl
        in_flight = self.workload.batch * self.deployment.plan.pp * self.deployment.replicas
        return in_flight * self.workload.osl / self.e2el

    @property
    def output_tok_s_gpu(self) -> Number:
        """Output tokens per second per GPU [1/s]."""
        return self.output_tok_s / self.deployment.num_gpus

    @property
    def decode_batch(self) -> Number | float:
        """Sequences that a replica decodes together, as a request sees it [sequences]."""
        return self.workload.batch if self.served is None else self.served.batch

    @property
    def fits(self) -> Flag:
        """Whether weights, KV cache, activations and the reserve fit the GPUs' memory."""
        fits: Any = self._memory_fits
        return fits if type(self._zero) is float else fits & (self._zero == 0.0)

    @property
    def longest_context(self) -> Number | float:
        """Longest sequences, prompt and answer, at which this batch fits [tokens]."""
        return longest_context(self.deployment, self.decode_batch)

    @property
    def engine(self) -> str:
        """Engine whose host time is included; `none` on the ideal basis."""
        return self.deployment.effective_engine.name

    @property
    def basis(self) -> str:
        """Basis of the figures: ideal, calibrated, inherited or generic."""
        return self.deployment.basis

    @property
    def basis_detail(self) -> str:
        """The basis with its evidence: generation, timed kernels, engines, year."""
        return evidence(self.deployment)

    @property
    def bound(self) -> dict[str, Word | str]:
        """What bounds prefill and decode: compute, memory, latency, exponentials or link."""
        return {"prefill": self.prefill.bound, "decode": self.decode.bound}

    @property
    def breakdown(self) -> dict[str, dict[str, Number]]:
        """Time of each kernel of the prefill and of the mean decode step, before `correction` [s]."""
        times: dict[str, dict[str, Real]] = {"prefill": {}, "decode": {}}
        for name, passed in (("prefill", self.prefill), ("decode", self.decode)):
            for kernel in passed.kernels:  # layer groups may share kernel names
                times[name][kernel.name] = times[name].get(kernel.name, 0.0) + kernel.time
        return times

    @cached_property
    def knees(self) -> Knees[Number, Word]:
        """The four knees: in sequences for a burst, in users of the whole deployment [requests] under users.

        All None under a request rate, which determines the batch. That of the SLO is None, NaN in arrays, where a
        percentile is not known beyond it.
        """
        if self.workload.request_rate is not None:
            return Knees(None, None, None, None)
        limited = [metric_and_level(key)[0] for key in self.slo]
        applies = any(metric != "tpot" or not never(self.workload.osl > 1.0) for metric in limited)
        meets = self._meets if applies else None
        slots = None if self.served is None else self.served.slots * lanes(self.deployment)
        result: Knees[Any, Any] = knees(self.deployment, self.workload.isl, self.workload.osl, meets, slots)
        if result.slo is not None and self.served is not None and any(key not in LATENCIES for key in self.slo):
            result = result._replace(slo=self._known_knee(result.slo))
        if slots is None:
            return result
        turns = self.deployment.replicas * self.deployment.plan.pp
        ridge, half = (None if knee is None else knee * turns for knee in (result.ridge, result.half))
        return Knees(ridge, half, slots, result.slo)

    @property
    def knee(self) -> Number | float | None:
        """Smallest knee: the batch or number of users beyond which decode stops being cheap [sequences]."""
        return self.knees.smallest[0]

    @property
    def knee_bound(self) -> Word | str | None:
        """Which knee is the smallest: memory, slo, half or ridge."""
        return self.knees.smallest[1]

    @overload
    def to_dict(self: Prediction, keys: Iterable[str] | None = None) -> Row: ...
    @overload
    def to_dict(self: Predictions, keys: Iterable[str] | None = None) -> dict[str, Json]: ...
    def to_dict(self, keys: Iterable[str] | None = None) -> Row | dict[str, Json]:
        """Flat row of the JSON contract, or some of its keys; what does not apply is None."""
        return row(self, keys)

    def __hash__(self) -> int:
        # Fields that are never arrays; equality compares all fields.
        deployment = self.deployment
        return hash((deployment.model.name, deployment.gpu.name, deployment.plan, deployment.basis, self.said))

    def __str__(self) -> str:
        from roofline.serving.answer_text import prediction_text

        return prediction_text(self)

    def __repr__(self) -> str:
        from roofline.serving.answer_text import prediction_line

        return f"<Prediction {prediction_line(self)}>"

    def _corrected(self, time: Real, factor: Real, part: int) -> Real:
        """A time scaled by a measurement, never below the hardware limit plus the network."""
        if factor == 1.0:
            return time
        least = self._least_of(part)
        return maximum(factor * time, least if part else least + self.deployment.effective_engine.network, LIMIT_BINDS)

    def _interval(self, time: Real, ends: tuple[Real, Real], part: int) -> tuple[Real, Real]:
        """Ends of an interval that contains the time, the low end no faster than the hardware limit."""
        return minimum(maximum(ends[0], self._least_of(part)), time), maximum(ends[1], time)

    def _least_of(self, part: int) -> Real:
        """Time at the hardware limit [s]: of the prefill, or per token after it."""
        return self._per_token(self.ideal[1].time) if part else self.ideal[0].time

    @property
    def _least(self) -> Mapping[str, Real]:
        first, step = self._least_of(0), self._least_of(1)
        return {"ttft": first, "tpot": step, "e2el": self._end_to_end(first, step)}

    def _sigma(self, result: str) -> Real | None:
        """Standard deviation of the logarithm of a latency; None on the ideal basis."""
        if result not in self._sigmas:
            self._sigmas[result] = self._sigma_of(result)
        return self._sigmas[result]

    @cached_property
    def _sigmas(self) -> dict[str, Real | None]:
        return {}

    def _sigma_of(self, result: str) -> Real | None:
        if self.basis == "ideal":
            return None
        engine, correction = self.deployment.engine, self.correction
        alone = pass_sigma(self.prefill if result == "ttft" else self.decode, self.basis, self._idle_sigma(result))
        if self.served is not None:
            sigma = load_sigma(self.decode, self.basis, result, self.served, self._users, engine.sigma_loaded_ttft)
            sigma = where(self._users <= 1.0, alone, sigma)
        else:
            sigma = alone
        measured = correction.sigma_ttft if result == "ttft" else correction.sigma_tpot
        return sigma if measured is None else minimum(sigma, measured)

    @property
    def _users(self) -> Real:
        """Requests in flight per replica [requests]."""
        return 1.0 if self.served is None else self.served.concurrency / self.deployment.replicas

    def _idle_sigma(self, result: str) -> float:
        """Sigma of a pass on an idle server, beyond the kernels' own."""
        stated = self.deployment.engine.sigma_ttft if result == "ttft" else self.deployment.engine.sigma_tpot
        return DEFAULT_SIGMA if stated is None else stated

    def _meets(self, number: Real) -> Real:
        """Whether every limit of the SLO is met at a batch, or with a number of users."""
        from roofline.serving.targets import excess

        return excess(self.deployment, self._with(number), self.slo, self.correction) <= 1.0

    def _with(self, number: Real) -> Workload:
        """The workload at a batch, or with a number of users."""
        return replace(self.workload, **{"batch" if self.served is None else USERS: number})

    def _known_knee(self, knee: Real) -> Real | None:
        """Most users who meet the SLO; None, or NaN in arrays, where it is not known whether one more would."""
        from roofline.serving.targets import latencies_of_limits

        beyond = latencies_of_limits(self.deployment, self._with(knee + 1.0), self.slo, self.correction)
        is_open: Real = False
        missed: Real = False  # by a limit that is known, which decides
        for key, limit in self.slo.items():
            is_open, missed = is_open | is_nan(beyond.known[key]), missed | (beyond.known[key] > limit)
        known = where(is_open & negated(missed), _NOT_APPLICABLE, knee)
        return None if never(known == known) else known  # noqa: PLR0124


#: A prediction of many cases, for a type checker: its times are arrays.
Predictions: TypeAlias = Prediction["Array", "Flags", "Words"]
