"""The answer: a record of what a deployment does under a workload, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, overload

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

if TYPE_CHECKING:
    from roofline.arrays import Array, Flags, Words
    from roofline.serving.row_types import Row

__all__ = ["DEFAULT_SIGMA", "LIGHT_BINDS", "Prediction", "Predictions"]

_NOT_APPLICABLE = float("nan")

#: Of ln(predicted / measured) of whole passes, kernels apart, where the engine's profile states none.
DEFAULT_SIGMA = 0.15

#: What it means that a time scaled by a measurement is that at light speed.
LIGHT_BINDS = "the hardware limit binds"


@comparable
@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Percentiles[Number, Flag], Priced[Number], Generic[Number, Flag, Word]):
    """Latencies of a deployment under a workload, with what they are made of.

    Times in seconds, sizes in bytes; numbers may be arrays, one element a case. What does not
    apply is None (NaN in arrays).

    >>> import roofline as rl
    >>> p = rl.predict("llama-3.1-8b", "h100-sxm", isl=900, osl=300, basis="ideal", slo="ttft:300")
    >>> p
    <Prediction llama-3.1-8b bf16 on 1x h100-sxm: TTFT 14.6 ms, TPOT 4.52 ms; isl 900, osl 300, batch 1, ideal, SLO met>
    >>> p.slo_met, p.latency("ttft") == p.ttft, p.latency_interval("ttft")  # a bound has no interval
    (True, True, None)
    >>> p.to_dict(["gpu", "slo_met", "decode_bound"])
    {'gpu': 'h100-sxm', 'slo_met': True, 'decode_bound': 'memory'}
    """

    deployment: Deployment = field(repr=False)
    workload: Workload
    prefill: Pass = field(repr=False)
    decode: Pass = field(repr=False)
    memory: Memory[Number, Flag] = field(repr=False)
    slo: Mapping[str, float] = field(default_factory=dict)  # [s]
    said: tuple[str, ...] = ()  # what the reader should know of the case
    allow_oversize: bool = False  # whether arrays have times for cases that do not fit, too
    correction: Correction = UNCORRECTED  # by a measurement of this very deployment
    served: Served | None = field(default=None, repr=False)  # under users or a rate; None for a burst
    added: tuple[str, ...] = ()  # what the reader should know of the answer

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the reader should know: of the case, of what was assumed for it, of the answer [text]."""
        return (*self.said, *assumptions(self.deployment, self.prefill, self.decode), *self.added)

    @cached_property
    def ttft(self) -> Number:
        """Time to first token [s]: of a burst, or the mean over requests under a load."""
        time = self.prefill.time if self.served is None else self.served.ttft
        return self._where_fits(self._corrected(time, self.correction.ttft, 0))

    @cached_property
    def _step(self) -> Real:
        time = self._per_token(self.decode.time) if self.served is None else self.served.tpot
        return self._where_fits(self._corrected(time, self.correction.tpot, 1))

    @cached_property
    def ideal(self) -> tuple[Pass, Pass]:
        """Prefill and mean decode step at light speed: what the same work takes at full rates, without a host."""
        return request_passes(self.deployment.on("ideal"), self.workload, self.served)

    @property
    def load(self) -> str:
        """Which load: burst, concurrency (users who ask again) or request_rate (Poisson arrivals)."""
        return self.workload.load

    @property
    def concurrency(self) -> Number | None:
        """Requests in flight on the whole deployment, on average [requests]; None for a burst."""
        if self.workload.request_rate is not None:
            return self.workload.request_rate * self.e2el
        return self.workload.concurrency

    @property
    def request_rate(self) -> Number | None:
        """Requests that the whole deployment answers, or that come to it [1/s]; None for a burst."""
        if self.workload.concurrency is not None:
            return self.workload.concurrency / self.e2el
        return self.workload.request_rate

    @property
    def max_request_rate(self) -> Number | None:
        """Requests that the whole deployment can answer at most [1/s]; None for a burst."""
        if self.served is None:
            return None
        most = self.served.max_request_rate
        return most if self.workload.concurrency is None else maximum(most, self.request_rate)

    @property
    def util(self) -> Number | None:
        """Requests answered, over those that can be answered at most [1]; None for a burst."""
        return None if self.request_rate is None else self.request_rate / self.max_request_rate

    @property
    def queue(self) -> Number | None:
        """Time to first token less request, network and one's own prefill [s]; None for a burst."""
        return None if self.served is None else self._where_fits(self.correction.ttft * self.served.queue)

    @property
    def waiting(self) -> Number | None:
        """Requests of the whole deployment that wait, on average [requests]; None for a burst."""
        return None if self.queue is None or self.request_rate is None else self.request_rate * self.queue

    @property
    def running(self) -> Number | None:
        """Requests of the whole deployment that are worked on, on average [requests]; None for a burst."""
        return None if self.concurrency is None else self.concurrency - self.waiting

    @cached_property
    def light_share(self) -> dict[str, Number]:
        """Share of light speed that prefill and decode reach, host included [1].

        On the ideal basis, what the calibrated kernels with the same engine reach of it.
        """
        first, step = self.ideal
        if self.basis != "ideal":
            return {"prefill": first.time / self.ttft, "decode": self._per_token(step.time) / self._step}
        real = self.deployment.on(basis_of(self.deployment.gpu, "calibrated"))
        if self.served is None:
            real_first, real_step = request_passes(real, self.workload, None)
            return {"prefill": first.time / real_first.time, "decode": step.time / real_step.time}
        from roofline.serving.traffic.load import served

        means = served(real, self.workload)
        return {"prefill": first.time / means.ttft, "decode": self._per_token(step.time) / means.tpot}

    @cached_property
    def ttft_interval(self) -> tuple[Number, Number] | None:
        """Ends of the 80 % interval of `ttft` [s]; None on the ideal basis, which is a bound."""
        sigma = self._sigma("ttft")
        if sigma is None:
            return None
        network = self.deployment.host.network  # given, not guessed; cold starts likewise
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
        """Ends of the 80 % interval of `e2el` [s], as if both parts were off together."""
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
        """Mean inter-token latency [s]: of a step, which with drafts hands out several tokens at once."""
        step: Real | None = self.tpot
        return step if step is None or self.deployment.draft is None else step / self._per_token(1.0)

    def _per_token(self, step: Real) -> Real:
        """Time per token from that of a step [s]."""
        return time_per_token(self.deployment, self.workload.osl, step)

    @property
    def tpot_first(self) -> Number:
        """Time of the first decode step, without any prompt beside it [s]."""
        step = decode_pass(self.deployment, self.decode_batch, self.workload.isl)
        return self._each(self.correction.tpot * self._per_token(step.time))

    @property
    def tpot_last(self) -> Number:
        """Time of the last decode step, without any prompt beside it [s]."""
        context = self.workload.isl + maximum(self.workload.osl - 2.0, 0.0)
        step = decode_pass(self.deployment, self.decode_batch, context)
        return self._each(self.correction.tpot * self._per_token(step.time))

    @property
    def e2el(self) -> Number:
        """End-to-end latency [s]."""
        return self._end_to_end(self.ttft, self._step)

    def _end_to_end(self, first: Real, step: Real) -> Real:
        """End-to-end latency from a TTFT and a TPOT [s]: long answers weigh more in it where answers differ."""
        if self.served is None or self.workload.lengths is None:
            return e2el(first, step, self.workload.osl)
        return first + self.served.decode * (step / self.served.tpot)

    @property
    def tok_s_user(self) -> Number | None:
        """Output tokens per second that one user sees while decoding, 1 / tpot [1/s]."""
        step: Real | None = self.tpot
        return None if step is None else 1.0 / step

    @property
    def output_tok_s(self) -> Number:
        """Output tokens per second of all replicas: the requests in flight, over their latency [1/s]."""
        if self.request_rate is not None:
            return self._where_fits(self.request_rate) * self.workload.osl
        in_flight = self.workload.batch * self.deployment.plan.pp * self.deployment.replicas
        return in_flight * self.workload.osl / self.e2el

    @property
    def output_tok_s_gpu(self) -> Number:
        """Output tokens per second and GPU [1/s]."""
        return self.output_tok_s / self.deployment.num_gpus

    @property
    def decode_batch(self) -> Number | float:
        """Sequences that a replica decodes together [sequences]: of a burst all, under a load when a request does."""
        return self.workload.batch if self.served is None else self.served.batch

    @property
    def fits(self) -> Flag:
        """Whether weights, KV cache, activations and the reserve fit the GPUs' memory."""
        fits: Any = self._memory_fits
        return fits if type(self._zero) is float else fits & (self._zero == 0.0)

    @property
    def longest_context(self) -> Number | float:
        """Longest sequences, prompt and answer, of which this batch fits [tokens]."""
        return longest_context(self.deployment, self.decode_batch)

    @property
    def engine(self) -> str:
        """Engine whose host time is included; `none` on the ideal basis."""
        return self.deployment.host.name

    @property
    def basis(self) -> str:
        """What the figures stand on: ideal, calibrated, inherited or generic."""
        return self.deployment.basis

    @property
    def basis_detail(self) -> str:
        """The basis with its evidence: generation, kernels timed, engines, year."""
        return evidence(self.deployment)

    @property
    def bound(self) -> dict[str, Word | str]:
        """What binds prefill and decode: compute, memory, latency, exponentials or link."""
        return {"prefill": self.prefill.bound, "decode": self.decode.bound}

    @property
    def breakdown(self) -> dict[str, dict[str, Number]]:
        """Time of every kernel of the prefill and of the mean decode step, as predicted without `correction` [s]."""
        found: dict[str, dict[str, Real]] = {"prefill": {}, "decode": {}}
        for name, passed in (("prefill", self.prefill), ("decode", self.decode)):
            for kernel in passed.kernels:  # kernels of different groups of layers may share a name
                found[name][kernel.name] = found[name].get(kernel.name, 0.0) + kernel.time
        return found

    @cached_property
    def knees(self) -> Knees[Number, Word]:
        """The four knees: of the batch of a burst [sequences], or of the users of the whole deployment [requests].

        None of any under a request rate, which sets the batch itself.
        """
        if self.workload.request_rate is not None:
            return Knees(None, None, None, None)
        meets = self._meets if self.slo else None
        found: Knees[Any, Any] = knees(self.deployment, self.workload.isl, self.workload.osl, meets)
        if self.served is None:
            return found
        turns = self.deployment.replicas * self.deployment.plan.pp
        ridge, half = (None if knee is None else knee * turns for knee in (found.ridge, found.half))
        return Knees(ridge, half, self.served.slots * lanes(self.deployment), found.slo)

    @property
    def knee(self) -> Number | float | None:
        """The smallest knee: the batch or users beyond which decode stops being cheap [sequences]."""
        return self.knees.smallest[0]

    @property
    def knee_bound(self) -> Word | str | None:
        """Which knee that is: memory, slo, half or ridge."""
        return self.knees.smallest[1]

    @overload
    def to_dict(self: Prediction, keys: Iterable[str] | None = None) -> Row: ...
    @overload
    def to_dict(self: Predictions, keys: Iterable[str] | None = None) -> dict[str, Json]: ...
    def to_dict(self, keys: Iterable[str] | None = None) -> Row | dict[str, Json]:
        """Flat row of the JSON contract, or some of its keys; what does not apply is None."""
        return row(self, keys)

    def __hash__(self) -> int:
        """Of what is never an array; equal predictions are equal in all of their fields."""
        deployment = self.deployment
        return hash((deployment.model.name, deployment.gpu.name, deployment.plan, deployment.basis, self.said))

    def __str__(self) -> str:
        """A summary of one case, a small table of many."""
        from roofline.serving.answer_text import prediction_text

        return prediction_text(self)

    def __repr__(self) -> str:
        """The answer in one line."""
        from roofline.serving.answer_text import prediction_line

        return f"<Prediction {prediction_line(self)}>"

    def _corrected(self, time: Real, factor: Real, part: int) -> Real:
        """A time scaled by a measurement of the deployment, never faster than light and the way there and back."""
        if factor == 1.0:
            return time
        least = self._per_token(self.ideal[1].time) if part else self.ideal[0].time
        return maximum(factor * time, least if part else least + self.deployment.host.network, LIGHT_BINDS)

    def _interval(self, time: Real, ends: tuple[Real, Real], part: int) -> tuple[Real, Real]:
        """Ends of an interval of a time, the low one no faster than light; the time itself lies in it."""
        least = self._per_token(self.ideal[1].time) if part else self.ideal[0].time
        return minimum(maximum(ends[0], least), time), maximum(ends[1], time)

    def _sigma(self, result: str) -> Real | None:
        """Standard deviation of the logarithm of a result, None on the ideal basis."""
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
        """Requests in flight on a replica [requests]."""
        return 1.0 if self.served is None else self.served.concurrency / self.deployment.replicas

    def _idle_sigma(self, result: str) -> float:
        """Sigma of a pass on an idle server, kernels apart."""
        stated = self.deployment.engine.sigma_ttft if result == "ttft" else self.deployment.engine.sigma_tpot
        return DEFAULT_SIGMA if stated is None else stated

    def _meets(self, number: Real) -> Real:
        """Whether a batch, or so many users, meet every limit of the SLO."""
        from roofline.serving.targets import excess

        workload = replace(self.workload, **{"batch" if self.served is None else USERS: number})
        return excess(self.deployment, workload, self.slo, self.correction) <= 1.0


#: A prediction of many cases, whose times are arrays, for a type checker.
Predictions: TypeAlias = Prediction["Array", "Flags", "Words"]
