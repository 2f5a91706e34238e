"""A model in several number formats: what fits, how fast it is, and why."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum
from typing import Any, cast

from roofline.analysis.difference import Difference, difference, ratio_text, unchanged_text
from roofline.analysis.side_by_side import SideBySide, latencies, speedups
from roofline.number_types import Json
from roofline.physics.forward import Pass
from roofline.physics.one_equation import IDEAL, Kernel, Roof, kernel_time
from roofline.physics.parameters import parameters
from roofline.physics.plan import ModelQuantization
from roofline.quantity import GIGA, rounded
from roofline.records import NamedTuple, dataclass, replace
from roofline.serving.latency import load_text
from roofline.serving.limits import assumed_kernels
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import QuantizedRow
from roofline.specs.kernels import GEMM, HOST, MOE
from roofline.specs.model import Model

#: Presets compared, widest first.
FORMATS = ("bf16", "fp8", "fp8_static", "int8", "int4", "mxfp4", "nvfp4")

# Least shares of a pass worth mentioning.
_SAID = 0.05
_COSTS = 0.005
# Relative changes.
_SAME = 0.005  # of an amount that counts as unchanged
_CLOSE = 0.02  # around a ratio that has a word, such as doubles
_SAME_RATE = 0.03  # of a rate that counts as unchanged
_OTHER_RATE = 0.05  # of a rate worth mentioning beside a changed amount
_SECTIONS = {
    "attention": "attention",
    "linear": "dense networks",
    "shared": "shared experts",
    "experts": "experts",
    "router": "router",
    "embed": "embedding",
    "head": "head",
}
_WORDS = {0.25: "falls to a quarter", 0.5: "halves", 2.0: "doubles"}


@dataclass(frozen=True, repr=False)
class Quantized(SideBySide):
    """Number formats of weights and KV cache compared with the baseline."""

    quantization: str  # preset of the weights
    largest: Prediction | None  # at the largest batch that fits; None where none does
    num_gpus_smallest: int | None  # None where the case does not fit a scale-up domain

    def __str__(self) -> str:
        prediction = self.prediction
        kv = prediction.deployment.quantization.kv_format
        weights = (
            f"{rounded(prediction.memory.weights / GIGA)} GB of weights{'' if prediction.fits else ', does not fit'}"
        )
        ratios = speedups(self.prefill, self.decode, "the baseline")
        return f"{self.quantization}, KV {kv}: {latencies(prediction)}, {weights}{ratios}"

    def to_dict(self) -> QuantizedRow:
        row = self.row(
            num_gpus_smallest=self.num_gpus_smallest,
            largest_batch=self.prediction.to_dict(("memory_knee",))["memory_knee"],
            output_tok_s_largest_batch=None if self.largest is None else self.largest.output_tok_s,
            assumed=list(assumed_kernels(self.prediction.deployment, self.prediction.prefill, self.prediction.decode)),
        )
        return cast("QuantizedRow", {"quantization": self.quantization, **row})


@dataclass(frozen=True, repr=False)
class Quantization:
    """One case in several number formats at the same plan.

    >>> import roofline as rl
    >>> result = rl.quantize("llama-3.1-8b", "h100-sxm", basis="ideal")
    >>> result.baseline, result.formats[2].quantization
    ('bf16', 'fp8')
    >>> result.to_records()[2]["quantization"], result.kernel_records()[0]["baseline"], sorted(result.to_dict())
    ('fp8', 'bf16', ['kernels', 'notes', 'rows'])
    """

    formats: tuple[Quantized, ...]
    baseline: str  # preset of the reference, with a 16-bit KV cache
    notes: tuple[str, ...] = ()  # sections that stay as they are, choices, basis of slow kernels

    def __str__(self) -> str:
        """Heading, one line per pair of formats, and notes."""
        first = self.formats[0].prediction
        deployment, workload = first.deployment, first.workload
        heading = (
            f"{deployment.model.short_name} on {deployment.num_gpus} x {deployment.gpu.name}, isl {workload.isl:g}, "
            f"osl {workload.osl:g}, {load_text(workload)}, baseline {self.baseline}"
        )
        lines = [*map(str, self.formats), *(f"note: {note}" for note in self.notes)]
        return "\n".join([heading, *(f"  {line}" for line in lines)])

    def __repr__(self) -> str:
        """The deployment and the format with the fastest decode."""
        deployment = self.formats[0].prediction.deployment
        where = f"{deployment.model.short_name} on {deployment.num_gpus}x {deployment.gpu.name}"
        steps = [(entry.decode.speedup, entry.quantization) for entry in self.formats if entry.decode is not None]
        fastest = f", fastest decode {max(steps)[1]} ({ratio_text(max(steps)[0])})" if steps else ""
        return f"<Quantization {where} against {self.baseline}: {len(self.formats)} pairs of formats{fastest}>"

    def to_records(self) -> list[QuantizedRow]:
        """Flat rows, one per pair of formats."""
        return [{**entry.to_dict(), "baseline": self.baseline} for entry in self.formats]

    def kernel_records(self) -> list[dict[str, Json]]:
        """Contribution of every kernel to every speed-up, as flat rows."""
        return [
            row
            for entry in self.formats
            for row in entry.kernel_records(
                quantization=entry.quantization,
                kv_cache_dtype=entry.prediction.deployment.quantization.kv_format,
                baseline=self.baseline,
            )
        ]

    def to_dict(self) -> dict[str, Json]:
        """Rows, kernels and notes as plain values."""
        rows: list[Any] = self.to_records()
        return {"rows": rows, "kernels": self.kernel_records(), "notes": list(self.notes)}


def quantized(
    quantization: str,
    prediction: Prediction,
    baseline: Prediction,
    largest: Prediction | None,
    num_gpus_smallest: int | None,
) -> Quantized:
    prefill, decode = difference(baseline.prefill, prediction.prefill), None
    why_prefill, why_decode = why_quantized(prefill, baseline.prefill, prediction.prefill, "pass"), None
    if prediction.tpot is not None:
        decode = difference(baseline.decode, prediction.decode)
        why_decode = why_quantized(decode, baseline.decode, prediction.decode, "step")
    if prediction is baseline:
        why_prefill, why_decode = "the baseline", None if decode is None else "the baseline"
    return Quantized(prediction, prefill, decode, why_prefill, why_decode, quantization, largest, num_gpus_smallest)


def kept_sections(model: Model, quantizations: list[ModelQuantization]) -> dict[str, list[str]]:
    """Sections with the same weights in all quantizations, by format; norms, which are small, are left out."""
    sections: dict[str, list[str]] = {}
    for section, count in parameters(model)._asdict().items():
        formats = {quantization.sections[section].format for quantization in quantizations}
        if count and section in _SECTIONS and len(formats) == 1:
            sections.setdefault(formats.pop(), []).append(_SECTIONS[section])
    return sections


def why_quantized(change: Difference, before: Pass, after: Pass, pass_name: str) -> str:
    """Text such as ``1.83x: 92 % of the step is weight traffic, which halves``: shares of the baseline, then costs."""
    parts = sorted(
        ((share, text) for share, text in _sides(before, after, change.before) if share >= _SAID), reverse=True
    )
    clauses = [
        f"{100.0 * share:.0f} %{'' if i else f' of the {pass_name}'} is {text}" for i, (share, text) in enumerate(parts)
    ]
    clauses += _costs(before, after, change.after, pass_name)
    unchanged = unchanged_text(change, pass_name)
    return f"{ratio_text(change.speedup)}: " + "; ".join([*clauses, *([unchanged] if unchanged else [])])


class _Side(NamedTuple):
    """An amount of work of some kernels, and the time it takes alone."""

    amount: float  # [B or FLOP]
    time: float  # [s]
    at_peak: float  # [s] at full rates of the GPU
    evidence: str  # what the reached share of the peak rests on


def _sides(before: Pass, after: Pass, total: float) -> list[tuple[float, str]]:
    """Weight traffic, KV traffic and arithmetic: share of the baseline [1] where it binds, and how it changes."""
    reading = {kernel.name for kernel in before.kernels if _is_reading(kernel)}
    sides = []
    for label, amount, rates, chosen in (
        ("weight traffic", _weight_traffic, _reading_rates, lambda k: k.kind.bears_weights and k.name in reading),
        ("KV and state traffic", _kv_traffic, _reading_rates, lambda k: k.name in reading),
        ("arithmetic", _flop, _arithmetic_rates, lambda k: k.name not in reading),
    ):
        old, new = _side(before, amount, rates, chosen), _side(after, amount, rates, chosen)
        if old.time > 0.0 and new.time > 0.0:
            sides.append((old.time / total, f"{label}, {_change_clause(old, new)}"))
    return sides


def _change_clause(old: _Side, new: _Side) -> str:
    """How an amount and its rate change, as a relative clause."""
    ratio, rate = new.amount / old.amount, new.amount / new.time * old.time / old.amount
    stays = abs(ratio - 1.0) <= _SAME
    if stays and abs(rate - 1.0) <= _SAME_RATE:
        return "which stays the same"
    if stays and abs(new.at_peak / old.at_peak - 1.0) <= _SAME:
        return f"at the same peak, reached {ratio_text(rate)} as far ({new.evidence})"
    if stays:
        return f"at {ratio_text(rate)} the rate"
    word = next((word for near, word in _WORDS.items() if abs(ratio / near - 1.0) <= _CLOSE), None)
    moved = f"{'falls' if ratio < 1.0 else 'grows'} to {100.0 * ratio:.0f} %"
    clause = f"which {word or moved}"
    return clause if abs(rate - 1.0) <= _OTHER_RATE else f"{clause} at {ratio_text(rate)} the rate"


def _costs(before: Pass, after: Pass, total: float, pass_name: str) -> list[str]:
    """What quantization costs or saves besides: passes over the activations, and kernel latencies."""
    clauses = []
    for label, cost in (
        ("quantising activations", _quantising),
        ("moving routed activations", _routing),
        ("launching and filling kernels", _latency),
    ):
        added = (fsum(map(cost, after.kernels)) - fsum(map(cost, before.kernels))) / total
        if abs(added) >= _COSTS:
            verb = "costs" if added > 0.0 else "saves"
            clauses.append(f"{label} {verb} {100.0 * abs(added):.0f} % of the new {pass_name}")
    return clauses


def _side(
    pass_: Pass,
    amount: Callable[..., float],
    rates: Callable[..., tuple[float, float]],
    chosen: Callable[..., bool],
) -> _Side:
    kernels = [kernel for kernel in pass_.kernels if isinstance(kernel.roof, Roof) and chosen(kernel)]
    kernels = [kernel for kernel in kernels if amount(kernel)]
    return _Side(
        fsum(amount(kernel) for kernel in kernels),
        fsum(amount(kernel) / rates(kernel)[0] for kernel in kernels),
        fsum(amount(kernel) / rates(kernel)[1] for kernel in kernels),
        _evidence(kernels),
    )


def _evidence(kernels: list[Kernel]) -> str:
    """What the rates of kernels rest on; roofs of stand-ins have no residuals."""
    is_timed = {kernel.roof.efficiency.is_measured and kernel.roof.efficiency.sigma is not None for kernel in kernels}
    return {frozenset({True}): "as timed", frozenset({False}): "as assumed"}.get(frozenset(is_timed), "partly assumed")


def _is_reading(kernel: Kernel) -> bool:
    """Whether traffic takes longer than the arithmetic it overlaps with."""
    if not isinstance(kernel.roof, Roof) or kernel.kind is HOST:
        return True
    return bool(kernel.terms.overlapped >= kernel.terms.compute)


def _weight_traffic(kernel: Kernel) -> float:
    return float(kernel.count * kernel.work.weight_bytes)


def _kv_traffic(kernel: Kernel) -> float:
    return float(kernel.count * kernel.work.kv_bytes)


def _flop(kernel: Kernel) -> float:
    return float(kernel.count * kernel.work.flop)


def _reading_rates(kernel: Kernel) -> tuple[float, float]:
    """Reached and full memory bandwidth [B/s]."""
    roof: Any = kernel.roof
    return float(roof.efficiency.eta_m * roof.bandwidth), float(roof.bandwidth)


def _arithmetic_rates(kernel: Kernel) -> tuple[float, float]:
    """Reached and peak arithmetic rate [FLOP/s]."""
    roof: Any = kernel.roof
    return float(roof.efficiency.eta_c * roof.peak), float(roof.peak)


def _quantising(kernel: Kernel) -> float:
    """Time to quantize activations of matrix multiplications [s]."""
    return _serial(kernel) if kernel.kind is GEMM else 0.0


def _routing(kernel: Kernel) -> float:
    """Time to move activations to and from the experts, which depends on the format [s]."""
    return _serial(kernel) if kernel.kind is MOE else 0.0


def _serial(kernel: Kernel) -> float:
    return float(kernel.count * kernel.terms.serial)


def _latency(kernel: Kernel) -> float:
    """Time beyond arithmetic and traffic: launches, serial depth, items [s]."""
    roof = kernel.roof
    if not isinstance(roof, Roof) or kernel.kind is HOST:
        return 0.0
    if not (kernel.work.depth or kernel.work.serial_depth or kernel.work.items):
        return float(kernel.count * roof.efficiency.t0)
    work = kernel.work._replace(depth=0.0, serial_depth=0.0, items=0.0)
    bare = roof if roof.efficiency is IDEAL else roof._replace(efficiency=replace(roof.efficiency, t0=0.0))
    return float(kernel.time - kernel.count * kernel_time(work, bare).total)
