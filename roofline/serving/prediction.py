"""The answer: what a deployment does under a workload, with the figures behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast, overload

from roofline.numbers.operations import (
    Flag,
    Json,
    Number,
    Real,
    Word,
    always,
    comparable,
    is_nan,
    maximum,
    minimum,
    negated,
    never,
    where,
)
from roofline.numbers.quantity import HOUR
from roofline.physics.equation import basis_of, evidence
from roofline.physics.memory import Memory, memory
from roofline.physics.passes import Pass, decode_pass
from roofline.physics.plan import Deployment
from roofline.serving.answers import Answer, rows_of_cases
from roofline.serving.cost import ByPhase, TokenPrices, token_prices, usd_per_m_output_tok
from roofline.serving.knee import Knees, held_at_once, knees, longest_context
from roofline.serving.latency import (
    UNCORRECTED,
    Correction,
    Served,
    Workload,
    e2el,
    lanes,
    mean_gap,
    prefill,
    request_passes,
    steps_of_answer,
    time_per_token,
)
from roofline.serving.phases import cached_time, tokens_by_phase
from roofline.serving.prompts import is_a_mixture, prompt_kinds
from roofline.serving.shown import row
from roofline.serving.verdict import (
    AT_HARDWARE_LIMIT,
    IN_RANGE,
    NOT_KERNELS,
    NOT_TIMED,
    Limited,
    Verdict,
    assumptions,
    basis_of_range,
    best_of,
    ends_of_gaps,
    ends_of_percentile,
    limited_by,
    load_sigma,
    pass_sigma,
    remaining_share,
    served_sigma,
    spread,
    unanswered,
    unchecked,
    verdict,
    wider,
)
from roofline.specs.gpu import ROUGH
from roofline.specs.workload import (
    BETWEEN_TOKENS,
    LATENCIES,
    LEVELS,
    P99_WITHIN,
    Limits,
    check_limits,
    key_of,
    metric_and_level,
)
from roofline.support.records import dataclass, field, replace

if TYPE_CHECKING:
    from roofline.numbers.arrays import Array, Flags, Words
    from roofline.serving.energy import Energy
    from roofline.serving.load.sessions import SessionTimes
    from roofline.serving.load.tails import Tails
    from roofline.serving.row_types import Row
    from roofline.specs.gpu import Price


# A deployment under a workload: latencies, throughput, percentiles, verdict and cost.

_NOT_APPLICABLE = float("nan")
_RATIO_ERROR = 1.15  # of a p99 over its median: nine in ten are as near to the simulation (docs/load.md)
_TINY = 2.0**-200  # of a time, against division by zero

#: Sigma of whole passes beyond the kernels' own, where the engine profile states none.
DEFAULT_SIGMA = 0.15

#: Regime in which a time scaled by a measurement would beat the hardware limit.
LIMIT_BINDS = "the hardware limit binds"


@comparable
@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Answer["Row"], Generic[Number, Flag, Word]):
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
    >>> p = rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, request_rate=2)
    >>> p.load_region, 0.0 < p.load_error("ttft") < 0.2
    ('random arrivals, decode first, 20 tokens and more, inside', True)
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
    added: tuple[str | Callable[[Any], Iterable[str]], ...] = ()  # warnings about the answer, or what finds them

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the case, the assumptions made for it, and the answer."""
        added = (text for each in self.added for text in ([each] if isinstance(each, str) else each(self)))
        known = [*self.said, *assumptions(self.deployment, self.prefill, self.decode), *added]
        if self.served is not None:
            from roofline.serving.load.steady import benchmark_note

            known += benchmark_note(self.deployment, self.workload, self.served)
        return tuple(known)

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
        """Load: burst, concurrency (users, closed loop), request_rate (Poisson arrivals) or num_prompts (a queue)."""
        return self.workload.load.name

    @property
    def concurrency(self) -> Number | None:
        """Mean requests in flight on the whole deployment [requests]; None for a burst."""
        return self.workload.load.in_flight(self)

    @property
    def request_rate(self) -> Number | None:
        """Requests per second of the whole deployment [1/s]; None for a burst."""
        return self.workload.load.answered(self)

    @property
    def duration(self) -> Number | None:
        """Time from the start of a run to its last answer [s]; None without `num_prompts`."""
        return self.workload.load.duration(self)

    @property
    def max_request_rate(self) -> Number | None:
        """Largest request rate of the whole deployment [1/s]; None for a burst."""
        if self.served is None:
            return None
        most = self.served.max_request_rate
        return most if self.workload.load.is_open else maximum(most, self.request_rate)

    @property
    def util(self) -> Number | None:
        """Request rate over the saturation rate [1]; None for a burst."""
        return None if self.served is None else self.workload.load.answered(self) / self.max_request_rate

    @property
    def queue(self) -> Number | None:
        """Mean TTFT beyond request, network and the request's own prefill [s]; None for a burst."""
        return None if self.served is None else self._where_fits(self.correction.ttft * self.served.queue)

    @property
    def waiting(self) -> Number | None:
        """Mean requests of the whole deployment that wait [requests]; None for a burst."""
        return None if self.served is None else self.workload.load.answered(self) * self.queue

    @property
    def running(self) -> Number | None:
        """Mean requests of the whole deployment in service [requests]; None for a burst."""
        return None if self.served is None else self.workload.load.in_flight(self) - self.waiting

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
        from roofline.serving.load.steady import served

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
    def itl_interval(self) -> tuple[Number, Number] | None:
        """Ends of the 80 % interval of `itl` [s], off by the same factors as `tpot`."""
        ends, mean, step = self.tpot_interval, self.itl, self.tpot
        if ends is None or mean is None or step is None:
            return None
        return ends[0] * (mean / step), ends[1] * (mean / step)

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
        """Mean inter-token latency [s]: of the gaps of all requests; a gap ends with a step, whatever its tokens."""
        step: Real | None = self.tpot
        return None if step is None else mean_gap(self.deployment, self.workload, step, self._decoding(step))

    def _per_token(self, step: Real) -> Real:
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
        return first + self._decoding(step)

    def _decoding(self, step: Real) -> Real:
        """Mean time from the first token to the last, given the mean TPOT [s]."""
        if self.served is None:
            return e2el(0.0, step, self.workload.osl)
        raw = self.served.tpot
        return self.served.decode * where(raw > 0.0, step / maximum(raw, _TINY), 1.0)  # single tokens have none

    @property
    def tok_s_user(self) -> Number | None:
        """Output tokens per second that one user sees while decoding [1/s]; None for a single output token."""
        step: Real | None = self.tpot
        return None if step is None else 1.0 / step

    @property
    def output_tok_s(self) -> Number:
        """Output tokens per second of all replicas [1/s]."""
        if self.served is not None:
            return self._where_fits(self.request_rate) * self.workload.osl
        return self.workload.batch * self.deployment.plan.pp * self.deployment.replicas * self.workload.osl / self.e2el

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

        All None under a request rate, which determines the batch, and of users who think, who are not all in flight.
        That of the SLO is None, NaN in arrays, where a
        percentile is not known beyond it.
        """
        if self.workload.load.is_open or self.workload.think:
            return Knees(None, None, None, None)
        limited = [metric_and_level(key)[0] for key in self.slo]
        applies = any(metric not in BETWEEN_TOKENS or not never(self.workload.osl > 1.0) for metric in limited)
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

    @cached_property
    def tails(self) -> Tails | None:
        """Latency distributions over requests; None for a burst of equal requests, and for a finite run."""
        if self.served is None:
            if not is_a_mixture(self.workload.cache):
                return None
            from roofline.serving.load.limits import burst_tails

            return burst_tails(self.deployment, self.workload)
        if self.workload.load.is_run:
            return None
        from roofline.serving.load.steady import tails

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
        """Ends of the 80 % interval of a `latency` [s]; relative errors of percentiles equal those of the mean.

        For ITL, see `ends_of_gaps`; for a p99 over its median [1], errors seen in simulations. None on the ideal basis.
        """
        (metric, level), time = metric_and_level(key), self.latency(key)
        if metric == P99_WITHIN and self.deployment.basis != "ideal":
            return None if time is None else (maximum(time / _RATIO_ERROR, 1.0), time * _RATIO_ERROR)
        ends, mean = getattr(self, f"{metric}_interval", None), getattr(self, metric, None)
        if ends is None or time is None:
            return None
        low, high = ends_of_gaps(self._latency, time, level) if metric == "itl" and level is not None else (time, time)
        return ends_of_percentile(ends, mean, (low, high))

    @cached_property
    def session_times(self) -> SessionTimes | None:
        """Of sessions (`turns`): what turns find of their context, and the times of each turn and of a session.

        Before `correction`; None without sessions.
        """
        if self.served is None or self.workload.sessions is None:
            return None
        from roofline.serving.load.sessions import session_times

        return session_times(self.deployment, self.workload, self.served)

    @cached_property
    def load_region(self) -> Word | None:
        """The cases like this one of which docs/load.md states the errors; None for a burst and under overload."""
        if self.served is None:
            return None
        from roofline.serving.load.regions import region

        return region(self.deployment, self.workload, self.served)

    def load_error(self, key: str) -> Number | None:
        """Error of the closed form against simulation that nine in ten cases of the region stay within [1].

        For ``ttft``, ``tpot`` and their p99, ``ttft_p99`` and ``tpot_p99``; both sides use the same step times. None,
        NaN in arrays, where that does not apply.
        """
        if self.served is None:
            return None
        from roofline.serving.load.regions import by_region, error_of

        case = self.deployment, self.workload, self.served
        error = by_region(*case, lambda name: error_of(name, key), _NOT_APPLICABLE)
        return None if type(error) is float and is_nan(error) else error

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
        return self._verdict_on(self._limited) if self.slo else None

    def _verdict_on(self, limited: Sequence[Limited]) -> Verdict:
        """The verdict on some limits together."""
        doubts = self._unchecked, unanswered(self.workload, self.served, self._memory_fits), self._in_range
        is_timed, why = self._is_timed, self._estimate
        return verdict(limited, *doubts, is_mean=self.workload.is_mean, is_timed=is_timed, estimate=why)

    @property
    def _is_timed(self) -> Real:
        """Whether kernels of the GPU's generation were timed; the hardware limit needs none."""
        return self.basis not in ROUGH

    @property
    def _estimate(self) -> Any:
        """Why a verdict is not certain where they were not."""
        return NOT_KERNELS if self.basis == "served" else NOT_TIMED

    @property
    def _in_range(self) -> Any:
        """Why a verdict is not certain where the range includes the limit."""
        return AT_HARDWARE_LIMIT if self.basis == "ideal" else IN_RANGE

    @property
    def _unchecked(self) -> list[tuple[Real, str]]:
        """Conditions outside what was checked, with words for them; the hardware limit needs no check."""
        return [] if self.basis == "ideal" else unchecked(self.deployment, self.workload, self.served)

    @property
    def holds(self) -> bool:
        """Whether the closed forms of a single case hold: its load is inside the validated range, and all are known."""
        if self.served is None:
            return True
        from roofline.serving.load.equations import outside

        if any(fails for fails, _ in outside(self.deployment, self.workload, self.served)):
            return False
        metrics = [metric for metric in LATENCIES if metric != "tpot" or self.tpot is not None]
        keys = [] if self.workload.load.is_run else [key_of(name, level) for name in metrics for level in LEVELS]
        return all(self.latency(key) is not None for key in keys)

    @property
    def verdict(self) -> Word | None:
        """``pass``, ``pass?``, ``fail?`` or ``fail``; None without an SLO, or where the case cannot be judged.

        It cannot be judged where a percentile with a limit is not known, or where no limit applies: one token has no
        TPOT.

        ``pass`` needs timed kernels, a load inside the validated range, and 80 % ranges that end below every limit.
        """
        return None if self.slo_verdict is None else self.slo_verdict.word

    @property
    def price(self) -> Price | None:
        """Rent of one GPU [USD/s], with its range and source; None if unknown."""
        return self.deployment.gpu.price

    @property
    def price_source(self) -> str | None:
        """Where the price comes from: ``given``, or the catalog with its date; None if unknown."""
        return None if self.price is None else self.price.source

    @property
    def usd_per_hour(self) -> float | None:
        """Typical rent of all GPUs [USD/h]; None where no price is known."""
        return None if self.price is None else self.price.typical * HOUR * self.deployment.num_gpus

    @property
    def usd_per_hour_range(self) -> tuple[float, float] | None:
        """Lowest and highest rent of all GPUs [USD/h]; None where no price is known."""
        if self.price is None:
            return None
        return self.price.low * HOUR * self.deployment.num_gpus, self.price.high * HOUR * self.deployment.num_gpus

    @property
    def usd_per_m_output_tok(self) -> Number | None:
        """Typical rent if the GPUs are busy all the time [USD per million output tokens].

        None where no price is known; `roofline.serving.cost` lists the assumptions.
        """
        if self.price is None:
            return None
        return usd_per_m_output_tok(self.price.typical * self.deployment.num_gpus, self.output_tok_s)

    @property
    def usd_per_request(self) -> Number | None:
        """Typical rent of all GPUs per request [USD]; None where no price is known."""
        if self.price is None:
            return None
        return self.price.typical * self.deployment.num_gpus / (self.output_tok_s / self.workload.osl)

    @cached_property
    def token_prices(self) -> TokenPrices | None:
        """Price per million tokens of each kind [USD], by the time each takes; None where no price is known."""
        if self.usd_per_request is None:
            return None
        return token_prices(self.usd_per_request, tokens_by_phase(self.deployment, self.workload), self.phase_times)

    @cached_property
    def phase_times(self) -> ByPhase:
        """Time that the phases of a request take on a busy server [s].

        For a burst, of all its requests; under a load, of one request on its rank.
        """
        times = self._burst_times() if self.served is None else self._load_times(self.served)
        first, later = self.correction.ttft, self.correction.tpot
        scaled = (first * times.input, first * times.cached, later * times.output)
        return ByPhase(*(self._where_fits(time) for time in scaled))

    @cached_property
    def energy(self) -> Energy | None:
        """Power and energy of the boards; None on the ideal basis, and where the GPU states no power."""
        from roofline.serving.energy import energy_of

        return energy_of(self)

    @overload
    def to_dict(self: Prediction, keys: Iterable[str] | None = None) -> Row: ...
    @overload
    def to_dict(self: Predictions, keys: Iterable[str] | None = None) -> dict[str, Json]: ...
    def to_dict(self, keys: Iterable[str] | None = None) -> Row | dict[str, Json]:
        """Flat row of the JSON contract, or some of its keys; what does not apply is None."""
        return row(self, keys)

    def to_rows(self, keys: Iterable[str] | None = None) -> list[Row]:
        """Flat rows of the JSON contract, one for each case.

        Args:
            keys: the keys to keep; None for all.
        """
        whole: Any = self
        shape = getattr(self.ttft, "shape", ())
        return cast("list[Row]", rows_of_cases(whole.to_dict(keys), shape) if shape else [whole.to_dict(keys)])

    def __hash__(self) -> int:
        deployment = self.deployment  # fields that are never arrays; equality compares all fields
        return hash((deployment.model.name, deployment.gpu.name, deployment.plan, deployment.basis, self.said))

    def __str__(self) -> str:
        from roofline.serving.summary import prediction_text

        return prediction_text(self)

    def __repr__(self) -> str:
        from roofline.serving.summary import prediction_line

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
        gap = mean_gap(self.deployment, self.workload, step, self._decoding(step))
        return {"ttft": first, "tpot": step, "itl": gap, "e2el": self._end_to_end(first, step)}

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
        alone_pass = self.prefill if result == "ttft" else self.decode
        alone = sigma = pass_sigma(alone_pass, basis_of_range(self.deployment), self._idle_sigma(result))
        if self.served is not None:
            of = "tpot" if self.workload.load.is_queue else result  # first tokens wait for the steps of others
            loaded = load_sigma(
                self.decode, basis_of_range(self.deployment), of, self.served, self._users, engine.sigma_loaded_ttft
            )
            sigma = where(self._users <= 1.0, alone, loaded)
        sigma = self._with_factor(sigma, result)
        measured = correction.sigma_ttft if result == "ttft" else correction.sigma_tpot
        return remaining_share(self.deployment, result) * (sigma if measured is None else minimum(sigma, measured))

    def _with_factor(self, sigma: Real, result: str) -> Real:
        """A sigma with that of the factor of the pass, where servers told one."""
        own = served_sigma(self.deployment, result)
        return wider(sigma, own) if own else sigma

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
        from roofline.serving.load.limits import excess

        return excess(self.deployment, self._with(number), self.slo, self.correction) <= 1.0

    def _with(self, number: Real) -> Workload:
        """The workload at a batch, or with a number of users."""
        return replace(self.workload, load=self.workload.load.at(number))

    def _known_knee(self, knee: Real) -> Real | None:
        """Most users who meet the SLO; None, or NaN in arrays, where it is not known whether one more would."""
        from roofline.serving.load.limits import latencies_of_limits

        beyond = latencies_of_limits(self.deployment, self._with(knee + 1.0), self.slo, self.correction)
        is_open: Real = False
        missed: Real = False  # by a limit that is known, which decides
        for key, limit in self.slo.items():
            is_open, missed = is_open | is_nan(beyond.known[key]), missed | (beyond.known[key] > limit)
        known = where(is_open & negated(missed), _NOT_APPLICABLE, knee)
        return None if never(known == known) else known  # noqa: PLR0124

    @cached_property
    def _limited(self) -> list[Limited]:
        """Each limited latency over its limit, with its 80 % range."""
        limited = []
        least = {} if always(self._is_timed) else self._least
        for key, limit in self.slo.items():
            metric, level = metric_and_level(key)
            is_run = self.workload.load.is_run and (level is not None or metric not in LATENCIES)
            known = self.latency(key)
            if known is None and is_run:
                continue  # refused where a limit is given
            applies: Real = metric not in BETWEEN_TOKENS or (self.workload.osl > 1.0) & (self._zero == 0.0)
            time: Real = _NOT_APPLICABLE if known is None else known
            ends = self.latency_interval(key) or (time, float("inf") if self.deployment.basis == "ideal" else time)
            at_best: Real = 0.0
            if metric in least and known is not None:
                at_best = best_of(time, getattr(self, metric), least[metric])
            limited.append(limited_by(key, limit, time, ends, at_best, applies))
        return limited

    @cached_property
    def _latencies(self) -> dict[str, Real | None]:
        """Cache of `latency`."""
        return {}

    def _latency(self, key: str) -> Real | None:
        metric, level = metric_and_level(key)
        mean: Real | None = getattr(self, metric, None)
        is_of_means = level is None and metric in LATENCIES
        is_run = self.workload.load.is_run
        if (mean is None and metric in LATENCIES) or (is_run and not is_of_means):
            return None
        if is_of_means:
            return mean
        from roofline.serving.load.limits import equal_steps, of_tails

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
        return sum((0.0 * length for length in case.numbers.values() if getattr(length, "shape", ())), start=0.0)

    def _broadcast(self, time: Real) -> Real:
        """A time, broadcast to one element per case."""
        return time if type(self._zero) is float else time + self._zero

    def _where_fits(self, time: Real) -> Real:
        """NaN in arrays where a case does not fit or is overloaded; a single case keeps its time."""
        fits, time = self._memory_fits, self._broadcast(time)
        if self.served is not None and not (always(self.served.is_stable) or never(self.served.is_stable)):
            time = where(self.served.is_stable, time, _NOT_APPLICABLE)
        return time if always(fits) or never(fits) or self.allow_oversize else where(fits, time, _NOT_APPLICABLE)

    def _burst_times(self) -> ByPhase:
        """Prefill without request and network time, and all decode steps of a burst [s]."""
        workload, host = self.workload, self.deployment.effective_engine
        output = steps_of_answer(self.deployment, workload.osl) * self.decode.time
        before = host.network + host.request
        prefilled = self.prefill.time - before
        if type(workload.prefix) is float and workload.prefix == 0.0:
            return ByPhase(prefilled, 0.0, output)
        uncached: Real = 0.0
        for kind in prompt_kinds(self.deployment, workload.isl, workload.prefix, workload.cache):
            alone = replace(workload, isl=kind.computed, prefix=0.0, cache=None)
            uncached = uncached + kind.weight * (prefill(self.deployment, alone).time - before)
        cached = maximum(prefilled - uncached, 0.0)
        return ByPhase(prefilled - cached, cached, output)

    def _load_times(self, under_load: Served) -> ByPhase:
        r"""Under a load: the time that a prompt adds to the steps of others, and a request's share of decode time.

        .. math:: t_s = (1 - p_0)\, p + p_0\, A,\quad t_o = \frac{(1 - \rho)\, B}{l},\quad
                  B = 1 - e^{-b}\ \text{or}\ 1 - (1 - q)^c

        A rank decodes in a share B of the time that prompts, rho, leave; l requests per second share it.
        """
        from roofline.serving.load.equations import server_of
        from roofline.serving.load.server import prompt_of

        server = server_of(self.deployment, self.workload)
        prompt = prompt_of(server)
        prefilled = under_load.nobody * prompt.alone + (1.0 - under_load.nobody) * under_load.prompt
        rate = under_load.request_rate / lanes(self.deployment)
        busy, users = 1.0 - under_load.nobody, self.workload.load.users_on(lanes(self.deployment))
        if users is not None:
            inside = maximum((1.0 - under_load.waiting_share) * users, 1.0)
            busy = 1.0 - (1.0 - minimum(rate * under_load.decode / inside, 1.0)) ** inside
        cached = cached_time(server, prompt, under_load.nobody, prefilled)
        return ByPhase(prefilled - cached, cached, busy * (1.0 - under_load.rho) / rate)


#: A prediction of many cases, for a type checker: its times are arrays.
Predictions: TypeAlias = Prediction["Array", "Flags", "Words"]


# From a deployment and its load to a prediction.

_SAMPLE = Workload(1000.0, 100.0)


def predict_deployment(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float] | None = None,
    warnings: tuple[str, ...] = (),
    *,
    allow_oversize: bool = False,
    correction: Correction = UNCORRECTED,
) -> Prediction:
    """The prediction; workload numbers may be arrays that broadcast together.

    `allow_oversize`: arrays have times for cases that do not fit too. `correction`: by a measurement of this
    deployment.
    """
    if slo:
        from roofline.serving.load.limits import check_percentiles

        check_limits(slo)
        check_percentiles(workload, slo)
    under_load = None
    if not workload.load.is_burst:
        from roofline.serving.load.steady import served

        under_load = served(deployment, workload)
    prefill, step = request_passes(deployment, workload, under_load)
    if predict_deployment not in deployment.memo:  # errors surface here, not where a time is first read
        is_plain = under_load is None and all(type(number) is float for number in workload.numbers.values())
        for passed in (prefill, step) if is_plain else request_passes(deployment, _SAMPLE, None):
            passed.kernels  # noqa: B018  evaluated for its errors
        deployment.memo[predict_deployment] = True
    return Prediction(
        deployment=deployment,
        workload=workload,
        prefill=prefill,
        decode=step,
        memory=memory_of(deployment, workload, under_load),
        slo=Limits(slo or {}),
        said=warnings,
        allow_oversize=allow_oversize,
        correction=correction,
        served=under_load,
    )


def memory_of(deployment: Deployment, workload: Workload, under_load: Served | None) -> Memory:
    """Memory [B] of a burst at full length, or of the sequences that run under a load."""
    return memory(deployment, *held_at_once(deployment, workload, under_load))
