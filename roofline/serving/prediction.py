"""The answer: a record of what a deployment does under a workload, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from roofline.errors import BadInput, UnknownName, shown
from roofline.ops import Real, always, comparable, maximum, minimum, never, where
from roofline.physics.efficiency import basis_of, evidence
from roofline.physics.forward import Pass, decode_pass
from roofline.physics.memory import Memory, memory
from roofline.physics.plan import Deployment
from roofline.quantity import BILLION, HOUR
from roofline.serving.correction import UNCORRECTED, Correction
from roofline.serving.cost import usd_per_m_output_tok
from roofline.serving.interval import pass_sigma, spread
from roofline.serving.knee import Knees, knees
from roofline.serving.latency import SLO_KEYS, Limits, Workload, decode, e2el, prefill, slo_excess
from roofline.serving.row import prediction_text, row
from roofline.serving.sizing import longest_context

__all__ = ["DEFAULT_SIGMA", "LIGHT_BINDS", "Prediction", "check_slo", "predict_deployment"]

_NOT_APPLICABLE = float("nan")

#: Of ln(predicted / measured) of whole passes, kernels apart, where the engine's profile states none.
DEFAULT_SIGMA = 0.15

#: What it means that a time scaled by a measurement is that at light speed.
LIGHT_BINDS = "light speed binds"


@comparable
@dataclass(frozen=True, eq=False)
class Prediction:
    """Latencies of a deployment under a workload, with what they are made of.

    Times in seconds, sizes in bytes; numbers may be arrays, one element a case. What does not
    apply is None (NaN in arrays).
    """

    deployment: Deployment = field(repr=False)
    workload: Workload
    prefill: Pass = field(repr=False)
    decode: Pass = field(repr=False)
    memory: Memory = field(repr=False)
    slo: Mapping[str, float] = field(default_factory=dict)  # [s]
    warnings: tuple[str, ...] = ()
    allow_oversize: bool = False  # whether arrays have times for cases that do not fit, too
    correction: Correction = UNCORRECTED  # by a measurement of this very deployment

    @cached_property
    def ttft(self) -> Real:
        """Time to first token [s]."""
        return self._where_fits(self._corrected(self.prefill.time, self.correction.ttft, 0))

    @cached_property
    def _step(self) -> Real:
        return self._where_fits(self._corrected(self.decode.time, self.correction.tpot, 1))

    @cached_property
    def ideal(self) -> tuple[Pass, Pass]:
        """Prefill and mean decode step at light speed: what the same work takes at full rates, without a host."""
        light = replace(self.deployment, basis="ideal")
        return prefill(light, self.workload), decode(light, self.workload)

    @cached_property
    def light_share(self) -> dict[str, Real]:
        """Share of light speed that prefill and decode reach, host included [1].

        On the ideal basis, what the calibrated kernels with the same engine reach of it.
        """
        first, step = self.ideal
        if self.basis != "ideal":
            return {"prefill": first.time / self.ttft, "decode": step.time / self._step}
        real = replace(self.deployment, basis=basis_of(self.deployment.gpu, "calibrated"))
        times = prefill(real, self.workload).time, decode(real, self.workload).time
        return {"prefill": first.time / times[0], "decode": step.time / times[1]}

    @property
    def ttft_interval(self) -> tuple[Real, Real] | None:
        """Ends of the 80 % interval of `ttft` [s]; None on the ideal basis, which is a bound."""
        sigma = self._sigma("ttft")
        if sigma is None:
            return None
        network = self.deployment.host.network  # given, not guessed
        ends = spread(self.ttft - network, sigma)
        return self._interval(self.ttft, (ends[0] + network, ends[1] + network), 0)

    @property
    def tpot_interval(self) -> tuple[Real, Real] | None:
        """Ends of the 80 % interval of `tpot` [s]; None on the ideal basis and for a single output token."""
        sigma = self._sigma("tpot")
        if sigma is None or self.tpot is None:
            return None
        return self._interval(self.tpot, spread(self.tpot, sigma), 1)

    @property
    def e2el_interval(self) -> tuple[Real, Real] | None:
        """Ends of the 80 % interval of `e2el` [s], as if both parts were off together."""
        first, sigma = self.ttft_interval, self._sigma("tpot")
        if first is None or sigma is None:
            return None
        step = self._interval(self._step, spread(self._step, sigma), 1)
        return e2el(first[0], step[0], self.workload.osl), e2el(first[1], step[1], self.workload.osl)

    @property
    def tpot(self) -> Real | None:
        """Mean time per output token after the first [s]; None for a single output token."""
        several = self.workload.osl > 1.0
        if never(several):
            return None
        return self._step if always(several) else where(several, self._step, _NOT_APPLICABLE)

    @property
    def itl(self) -> Real | None:
        """Mean inter-token latency [s]: the same as `tpot` without speculation."""
        return self.tpot

    @property
    def tpot_first(self) -> Real:
        """Time of the first decode step [s]."""
        return self.correction.tpot * decode_pass(self.deployment, self.workload.batch, self.workload.isl).time

    @property
    def tpot_last(self) -> Real:
        """Time of the last decode step [s]."""
        context = self.workload.isl + maximum(self.workload.osl - 2.0, 0.0)
        return self.correction.tpot * decode_pass(self.deployment, self.workload.batch, context).time

    @property
    def e2el(self) -> Real:
        """End-to-end latency [s]."""
        return e2el(self.ttft, self._step, self.workload.osl)

    @property
    def tok_s_user(self) -> Real | None:
        """Output tokens per second that one user sees while decoding, 1 / tpot [1/s]."""
        return None if self.tpot is None else 1.0 / self.tpot

    @property
    def output_tok_s(self) -> Real:
        """Output tokens per second of all replicas: the batches in flight, over their latency [1/s]."""
        in_flight = self.workload.batch * self.deployment.plan.pp * self.deployment.replicas
        return in_flight * self.workload.osl / self.e2el

    @property
    def output_tok_s_gpu(self) -> Real:
        """Output tokens per second and GPU [1/s]."""
        return self.output_tok_s / self.deployment.num_gpus

    @property
    def fits(self) -> Real:
        """Whether weights, KV cache, activations and the reserve fit the GPUs' memory."""
        return self.memory.fits

    @property
    def longest_context(self) -> Real:
        """Longest sequences, prompt and answer, of which this batch fits [tokens]."""
        return longest_context(self.deployment, self.workload.batch)

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
    def bound(self) -> dict[str, Real]:
        """What binds prefill and decode: compute, memory, latency, exponentials or link."""
        return {"prefill": self.prefill.bound, "decode": self.decode.bound}

    @property
    def breakdown(self) -> dict[str, dict[str, Real]]:
        """Time of every kernel of the prefill and of the mean decode step, as predicted without `correction` [s]."""
        found: dict[str, dict[str, Real]] = {"prefill": {}, "decode": {}}
        for name, passed in (("prefill", self.prefill), ("decode", self.decode)):
            for kernel in passed.kernels:  # kernels of different groups of layers may share a name
                found[name][kernel.name] = found[name].get(kernel.name, 0.0) + kernel.time
        return found

    @cached_property
    def knees(self) -> Knees:
        """The four knees of the decode batch [sequences]."""
        return knees(self.deployment, self.workload.isl, self.workload.osl, self._meets if self.slo else None)

    @property
    def knee(self) -> Real:
        """The smallest knee: the batch beyond which decode stops being cheap [sequences]."""
        return self.knees.smallest[0]

    @property
    def knee_bound(self) -> Real:
        """Which knee that is: memory, slo, half or ridge."""
        return self.knees.smallest[1]

    @property
    def usd_per_hour(self) -> Real | None:
        """Typical rental of all GPUs [USD/h]; None where no price is known."""
        price = self.deployment.gpu.price
        return None if price is None else price.typical * HOUR * self.deployment.num_gpus

    @property
    def usd_per_m_output_tok(self) -> Real | None:
        """Typical rental of all GPUs, busy with such batches, over their output [USD per million output tokens].

        None where no price is known; `roofline.serving.cost` says what it assumes.
        """
        price = self.deployment.gpu.price
        if price is None:
            return None
        return usd_per_m_output_tok(price.typical * self.deployment.num_gpus, self.output_tok_s)

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Any]:
        """Flat row of the JSON contract, or some of its keys; what does not apply is None."""
        return row(self, keys)

    def __hash__(self) -> int:
        """Of what is never an array; equal predictions are equal in all of their fields."""
        deployment = self.deployment
        return hash((deployment.model.name, deployment.gpu.name, deployment.plan, deployment.basis, self.warnings))

    def __str__(self) -> str:
        """Readable answer of a single case; arrays show their shape."""
        return prediction_text(self)

    def _corrected(self, time: Real, factor: Real, part: int) -> Real:
        """A time scaled by a measurement of the deployment, never faster than light and the way there and back."""
        if factor == 1.0:
            return time
        least = self.ideal[part].time
        return maximum(factor * time, least if part else least + self.deployment.host.network, LIGHT_BINDS)

    def _interval(self, time: Real, ends: tuple[Real, Real], part: int) -> tuple[Real, Real]:
        """Ends of an interval of a time, the low one no faster than light; the time itself lies in it."""
        return minimum(maximum(ends[0], self.ideal[part].time), time), maximum(ends[1], time)

    def _sigma(self, result: str) -> Real | None:
        """Standard deviation of the logarithm of a result, None on the ideal basis."""
        if self.basis == "ideal":
            return None
        engine, correction = self.deployment.engine, self.correction
        if result == "ttft":
            passed, whole, measured = self.prefill, engine.sigma_ttft, correction.sigma_ttft
        else:
            passed, whole, measured = self.decode, engine.sigma_tpot, correction.sigma_tpot
        sigma = pass_sigma(passed, self.basis, DEFAULT_SIGMA if whole is None else whole)
        return sigma if measured is None else minimum(sigma, measured)

    def _where_fits(self, time: Real) -> Real:
        """A time where it exists: arrays have NaN where a case does not fit; a single case was asked for."""
        fits = self.fits
        return time if always(fits) or never(fits) or self.allow_oversize else where(fits, time, _NOT_APPLICABLE)

    def _meets(self, batch: Real) -> Real:
        """Whether a batch meets every limit of the SLO."""
        workload = Workload(self.workload.isl, self.workload.osl, batch, self.workload.prefix)
        first, step = (
            factor * part(self.deployment, workload).time
            for factor, part in ((self.correction.ttft, prefill), (self.correction.tpot, decode))
        )
        if self.correction != UNCORRECTED:
            light = replace(self.deployment, basis="ideal")
            first = maximum(first, prefill(light, workload).time + self.deployment.host.network)
            step = maximum(step, decode(light, workload).time)
        return slo_excess(first, step, workload.osl, self.slo) <= 1.0


def predict_deployment(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float] | None = None,
    warnings: tuple[str, ...] = (),
    *,
    allow_oversize: bool = False,
    correction: Correction = UNCORRECTED,
) -> Prediction:
    """Latencies of one static batch on one deployment.

    Args:
        deployment: model, GPU, plan, precision and basis.
        workload: lengths and batch; numbers may be arrays that broadcast together.
        slo: limits on ttft, tpot or e2el [s].
        warnings: what the reader should know [text].
        allow_oversize: whether arrays have times for cases that do not fit, too [bool].
        correction: by a measurement of this very deployment.

    Returns:
        The prediction.

    Raises:
        UnknownName: an SLO key that is none.
        BadInput: an SLO limit that is not positive.

    Valid:
        The whole prompt in one pass, no other requests: no queue.
    """
    check_slo(slo)
    passes = prefill(deployment, workload), decode(deployment, workload)
    return Prediction(
        deployment=deployment,
        workload=workload,
        prefill=passes[0],
        decode=passes[1],
        memory=memory(deployment, workload.batch, workload.isl + workload.osl),
        slo=Limits(slo or {}),
        warnings=(*warnings, *_assumptions(deployment, *passes)),
        allow_oversize=allow_oversize,
        correction=correction,
    )


def check_slo(slo: object) -> None:
    """Refuse what are no limits on latencies.

    Args:
        slo: limits on ttft, tpot or e2el, or None [s].

    Raises:
        UnknownName: an SLO key that is none.
        BadInput: no mapping, or a limit that is not positive.
    """
    if not isinstance(slo, Mapping | None):
        raise BadInput(f"slo = {shown(slo)} must be a mapping of limits in seconds, such as {{'ttft': 0.3}}")
    for key, limit in (slo or {}).items():
        if key not in SLO_KEYS:
            raise UnknownName(f"no SLO on {shown(key)}; it may limit {', '.join(SLO_KEYS)}")
        if type(limit) not in (float, int) or not 0.0 < limit <= BILLION:
            raise BadInput(f"SLO {key} = {shown(limit)} must be positive, in seconds, and finite")


def _assumptions(deployment: Deployment, *passes: Pass) -> list[str]:
    """Kernels whose constants were assumed instead of measured; element-wise passes and hand-overs always are."""
    if deployment.basis == "generic":
        return []
    found = dict.fromkeys(
        kernel.kind.name if kernel.kind.is_collective else f"{kernel.dtype} {kernel.kind.name}"
        for passed in passes
        for kernel in passed.kernels
        if not kernel.roof.efficiency.is_measured and not kernel.kind.is_minor
    )
    if not found:
        return []
    generation = deployment.gpu.generation
    return [f"assumed, not measured on {generation}: {', '.join(found)} (its calibration file says from what)"]
