"""TTFT, TPOT and end-to-end latency of a static batch, and the record that holds a prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from roofline.errors import BadInput, UnknownName
from roofline.ops import Real, maximum, where
from roofline.physics.forward import Pass, decode_pass, prefill_pass
from roofline.physics.memory import Memory, memory
from roofline.physics.plan import Deployment
from roofline.quantity import GIGA, HOUR, MILLI, to_text
from roofline.serving.knee import Knees, knees
from roofline.serving.precision import summary

__all__ = ["ROW_KEYS", "SLO_KEYS", "Prediction", "Workload", "decode", "e2el", "predict", "prefill"]

SLO_KEYS = ("ttft", "tpot", "e2el")
_NOT_APPLICABLE = float("nan")

#: Keys of a row of the JSON contract, in order.
ROW_KEYS = (
    "model",
    "model_id",
    "gpu",
    "num_gpus",
    "tp",
    "pp",
    "ep",
    "dp",
    "isl",
    "osl",
    "prefix",
    "batch",
    "weight_dtype",
    "kv_dtype",
    "compute_dtype",
    "basis",
    "engine",
    "fits",
    "ttft_ms",
    "tpot_ms",
    "itl_ms",
    "e2el_ms",
    "tok_s_user",
    "output_tok_s",
    "output_tok_s_gpu",
    "prefill_bound",
    "decode_bound",
    "ridge_knee",
    "half_knee",
    "memory_knee",
    "slo_knee",
    "knee",
    "knee_bound",
    "weights_gb",
    "kv_cache_gb",
    "hbm_used_frac",
    "usd_per_hour",
    "warnings",
)


@dataclass(frozen=True, slots=True)
class Workload:
    """One static batch: equal requests that start together on one replica."""

    isl: Real  # [tokens] prompt
    osl: Real  # [tokens] answer
    batch: Real = 1.0  # [sequences]
    prefix: Real = 0.0  # [tokens] of the prompt whose KV is cached already


def prefill(deployment: Deployment, workload: Workload) -> Pass:
    """Prefill pass of the batch; at least one prompt token is always computed.

    Args:
        deployment: model, GPU, plan, precision and basis.
        workload: lengths and batch.

    Returns:
        The kernels; their time is the TTFT of an idle server.
    """
    new = maximum(workload.isl - workload.prefix, 1.0)
    return prefill_pass(deployment, workload.batch, new, workload.isl - new)


def decode(deployment: Deployment, workload: Workload) -> Pass:
    """Mean decode step over the generation: attention at the mean KV length of its steps.

    Args:
        deployment: model, GPU, plan, precision and basis.
        workload: lengths and batch.

    Returns:
        The kernels; their time is the TPOT.
    """
    return decode_pass(deployment, workload.batch, workload.isl, maximum(workload.osl - 1.0, 1.0))


def e2el(ttft: Real, tpot: Real, osl: Real) -> Real:
    """End-to-end latency of a request.

    .. math:: e2el = ttft + (osl - 1)\\, tpot

    Args:
        ttft: time to first token [s].
        tpot: mean time per output token after the first [s].
        osl: output tokens [tokens].

    Returns:
        Time from request to last token [s].

    Source:
        vLLM, benchmarks/serve.py (TPOT = (E2EL - TTFT) / (output tokens - 1)).

    >>> e2el(0.25, 0.02, 300.0)
    6.23
    """
    return ttft + (osl - 1.0) * tpot


@dataclass(frozen=True)
class Prediction:
    """Latencies of a deployment under a workload, with what they are made of.

    Times in seconds, sizes in bytes; numbers may be arrays, one element a case. What does not
    apply is None (NaN in arrays).
    """

    deployment: Deployment
    workload: Workload
    prefill: Pass = field(repr=False)
    decode: Pass = field(repr=False)
    memory: Memory
    engine: str = "none"
    slo: Mapping[str, float] = field(default_factory=dict)  # [s]
    warnings: tuple[str, ...] = ()

    @cached_property
    def ttft(self) -> Real:
        """Time to first token [s]."""
        return _where_fits(self.fits, self.prefill.time)

    @cached_property
    def _step(self) -> Real:
        return _where_fits(self.fits, self.decode.time)

    @property
    def tpot(self) -> Real | None:
        """Mean time per output token after the first [s]; None for a single output token."""
        several = self.workload.osl > 1.0
        if several is False:
            return None
        return self._step if several is True else where(several, self._step, _NOT_APPLICABLE)

    @property
    def itl(self) -> Real | None:
        """Mean inter-token latency [s]: the same as `tpot` without speculation."""
        return self.tpot

    @property
    def tpot_first(self) -> Real:
        """Time of the first decode step [s]."""
        return decode_pass(self.deployment, self.workload.batch, self.workload.isl).time

    @property
    def tpot_last(self) -> Real:
        """Time of the last decode step [s]."""
        context = self.workload.isl + maximum(self.workload.osl - 2.0, 0.0)
        return decode_pass(self.deployment, self.workload.batch, context).time

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
    def basis(self) -> str:
        """What the figures stand on: ideal, calibrated or inherited."""
        return self.deployment.basis

    @property
    def bound(self) -> dict[str, Real]:
        """What binds prefill and decode: compute, memory, latency, exponentials or link."""
        return {"prefill": self.prefill.bound, "decode": self.decode.bound}

    @property
    def breakdown(self) -> dict[str, dict[str, Real]]:
        """Time of every kernel of the prefill and of the mean decode step [s]."""
        return {
            name: {kernel.name: kernel.time for kernel in passed.kernels}
            for name, passed in (("prefill", self.prefill), ("decode", self.decode))
        }

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

    def to_dict(self) -> dict[str, Any]:
        """Flat row of the JSON contract; keys carry their unit, what does not apply is None."""
        deployment, workload, plan = self.deployment, self.workload, self.deployment.plan
        weight_dtype, kv_dtype, compute_dtype = summary(deployment.model, deployment.precision)
        found = self.knees
        return {
            "model": deployment.model.short_name,
            "model_id": deployment.model.name,
            "gpu": deployment.gpu.name,
            "num_gpus": deployment.num_gpus,
            "tp": plan.tp,
            "pp": plan.pp,
            "ep": plan.ep,
            "dp": plan.dp,
            "isl": _whole(workload.isl),
            "osl": _whole(workload.osl),
            "prefix": _whole(workload.prefix),
            "batch": _whole(workload.batch),
            "weight_dtype": weight_dtype,
            "kv_dtype": kv_dtype,
            "compute_dtype": compute_dtype,
            "basis": self.basis,
            "engine": self.engine,
            "fits": _plain(self.fits),
            "ttft_ms": _plain(self.ttft, MILLI),
            "tpot_ms": _plain(self.tpot, MILLI),
            "itl_ms": _plain(self.itl, MILLI),
            "e2el_ms": _plain(self.e2el, MILLI),
            "tok_s_user": _plain(self.tok_s_user),
            "output_tok_s": _plain(self.output_tok_s),
            "output_tok_s_gpu": _plain(self.output_tok_s_gpu),
            "prefill_bound": _plain(self.prefill.bound),
            "decode_bound": _plain(self.decode.bound),
            "ridge_knee": _plain(found.ridge),
            "half_knee": _plain(found.half),
            "memory_knee": _whole(found.memory),
            "slo_knee": None if found.slo is None else _whole(found.slo),
            "knee": _plain(self.knee),
            "knee_bound": _plain(self.knee_bound),
            "weights_gb": _plain(self.memory.weights, GIGA),
            "kv_cache_gb": _plain(self.memory.kv_cache, GIGA),
            "hbm_used_frac": _plain(self.memory.used_fraction),
            "usd_per_hour": _plain(self.usd_per_hour),
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        """Readable answer of a single case; arrays show their shape."""
        deployment, plan, workload = self.deployment, self.deployment.plan, self.workload
        weights, kv, compute = summary(deployment.model, deployment.precision)
        lines = [
            f"{deployment.model.short_name} ({deployment.model.name}) on {deployment.num_gpus} x {deployment.gpu.name}",
            (
                f"  plan       tp {plan.tp}, pp {plan.pp}, ep {plan.ep}, dp {plan.dp}, replicas {deployment.replicas}; "
                f"weights {weights}, KV cache {kv}, compute {compute}"
            ),
            (
                f"  workload   isl {_said(workload.isl)}, osl {_said(workload.osl)}, batch {_said(workload.batch)}, "
                f"prefix {_said(workload.prefix)}"
            ),
            f"  TTFT       {_said(self.ttft, 's')}  ({self.prefill.bound}-bound)",
            f"  TPOT       {_said(self.tpot, 's')}  ({self.decode.bound}-bound), {_said(self.tok_s_user)} tok/s/user",
            f"  E2EL       {_said(self.e2el, 's')}",
            f"  output     {_said(self.output_tok_s)} tok/s, {_said(self.output_tok_s_gpu)} tok/s/GPU",
            (
                f"  knee       {_said(self.knee)} sequences, set by {self.knee_bound}; "
                f"ridge {_said(self.knees.ridge)}, half {_said(self.knees.half)}, "
                f"memory {_said(self.knees.memory)}, SLO {_said(self.knees.slo)}"
            ),
            (
                f"  memory     weights {_said(self.memory.weights, 'B')}, KV cache {_said(self.memory.kv_cache, 'B')} "
                f"of {_said(self.memory.usable, 'B')} per GPU; fits: {_said(self.fits)}"
            ),
            f"  cost       {_said(self.usd_per_hour)} USD/h",
            f"  basis      {self.basis}, engine {self.engine}",
        ]
        return "\n".join(lines)

    def _meets(self, batch: Real) -> Real:
        """Whether a batch meets every limit of the SLO."""
        workload = Workload(self.workload.isl, self.workload.osl, batch, self.workload.prefix)
        first, step = prefill(self.deployment, workload).time, decode(self.deployment, workload).time
        times = {"ttft": first, "tpot": step, "e2el": e2el(first, step, workload.osl)}
        excess: Real = 0.0
        for key, limit in self.slo.items():
            excess = maximum(excess, times[key] / limit)
        return excess <= 1.0


def predict(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float] | None = None,
    warnings: tuple[str, ...] = (),
) -> Prediction:
    """Latencies of one static batch on one deployment.

    Args:
        deployment: model, GPU, plan, precision and basis.
        workload: lengths and batch; numbers may be arrays that broadcast together.
        slo: limits on ttft, tpot or e2el [s].
        warnings: what the reader should know.

    Returns:
        The prediction.

    Raises:
        UnknownName: an SLO key that is none.
        BadInput: an SLO limit that is not positive.

    Valid:
        The whole prompt in one pass, no other requests; no host, network or queue time.
    """
    for key, limit in (slo or {}).items():
        if key not in SLO_KEYS:
            raise UnknownName(f"no SLO on {key!r}; it may limit {', '.join(SLO_KEYS)}")
        if not 0.0 < limit < float("inf"):
            raise BadInput(f"SLO {key} = {limit} must be positive and finite")
    return Prediction(
        deployment=deployment,
        workload=workload,
        prefill=prefill(deployment, workload),
        decode=decode(deployment, workload),
        memory=memory(deployment, workload.batch, workload.isl + workload.osl),
        slo=dict(slo or {}),
        warnings=warnings,
    )


def _where_fits(fits: Real, time: Real) -> Real:
    """A time where it exists: arrays have NaN where the case does not fit; a single case was asked for."""
    return time if fits is True or fits is False else where(fits, time, _NOT_APPLICABLE)


def _said(value: Real, unit: str | None = None) -> str:
    """Value for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (float, int)):
        return f"array{value.shape}"
    if unit is not None:
        return to_text(value, unit)
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def _plain(value: Real, unit: float = 1.0) -> Any:
    """Value as JSON has it: floats, texts, lists; None for what is not a finite number."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (float, int)):
        number = value / unit
        return number if number - number == 0.0 else None
    return [_plain(item, unit) for item in value.tolist()] if value.ndim == 1 else value.tolist()


def _whole(value: Real) -> Any:
    """Value as JSON has it, whole numbers as integers."""
    number = _plain(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number
