"""A model in several number formats: what fits, how fast it is, and why it is faster or slower."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum
from typing import Any, cast

from roofline.analysis.difference import Difference, difference, ratio_text, unchanged_text
from roofline.analysis.side_by_side import SideBySide, latencies, speedups
from roofline.number_types import Json
from roofline.physics.forward import Pass
from roofline.physics.one_equation import LIGHT, Kernel, Roof, kernel_time
from roofline.physics.parameters import parameters
from roofline.physics.plan import Precision
from roofline.quantity import GIGA, rounded
from roofline.records import NamedTuple, dataclass, replace
from roofline.serving.latency import load_text
from roofline.serving.limits import assumed_kernels
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import QuantizedRow
from roofline.specs.kernels import GEMM, HOST, MOE
from roofline.specs.model import Model

__all__ = ["FORMATS", "Quantization", "Quantized", "kept_sections", "quantized", "why_quantized"]

#: Presets that are compared, widest first.
FORMATS = ("bf16", "fp8", "fp8_static", "int8", "int4", "mxfp4", "nvfp4")

_SAID = 0.05  # share of a pass from which a sentence mentions it
_COSTS = 0.005  # share of a pass from which a cost is mentioned
_SAME = 0.005  # relative change of an amount that is said to stay
_CLOSE = 0.02  # relative deviation at which a word stands for a ratio
_SAME_RATE = 0.03  # relative change of a rate at which an amount that stays is worked off as before
_OTHER_RATE = 0.05  # relative change of a rate that is mentioned beside that of an amount
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
    """One pair of number formats, of weights and KV cache, beside the baseline."""

    quantization: str  # preset of the weights
    largest: Prediction | None  # at the largest batch that fits; None where not even one sequence does
    num_gpus_smallest: int | None  # fewest GPUs at which the case fits; None where the scale-up domain is too small

    def __str__(self) -> str:
        """One line: formats, latencies, memory, and how many times faster than the baseline."""
        found = self.prediction
        kv = found.deployment.precision.kv_format
        held = f"{rounded(found.memory.weights / GIGA)} GB of weights{'' if found.fits else ', does not fit'}"
        said = speedups(self.prefill, self.decode, "the baseline")
        return f"{self.quantization}, KV {kv}: {latencies(found)}, {held}{said}"

    def to_dict(self) -> QuantizedRow:
        """Flat row: the keys of a prediction, what its formats allow, and speed-ups against the baseline."""
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
    >>> found = rl.quantize("llama-3.1-8b", "h100-sxm", basis="ideal")
    >>> found.baseline, found.formats[2].quantization
    ('bf16', 'fp8')
    >>> found.to_records()[2]["quantization"], found.kernel_records()[0]["baseline"], sorted(found.to_dict())
    ('fp8', 'bf16', ['kernels', 'notes', 'rows'])
    """

    formats: tuple[Quantized, ...]
    baseline: str  # preset whose weights, with a 16-bit KV cache, are the reference
    notes: tuple[str, ...] = ()  # what stays in all formats, what was chosen, what slow kernels stand on

    def __str__(self) -> str:
        """A heading, a line a pair of formats, and notes."""
        first = self.formats[0].prediction
        deployment, workload = first.deployment, first.workload
        heading = (
            f"{deployment.model.short_name} on {deployment.num_gpus} x {deployment.gpu.name}, isl {workload.isl:g}, "
            f"osl {workload.osl:g}, {load_text(workload)}, baseline {self.baseline}"
        )
        lines = [*map(str, self.formats), *(f"note: {note}" for note in self.notes)]
        return "\n".join([heading, *(f"  {line}" for line in lines)])

    def __repr__(self) -> str:
        """The deployment and the format that decodes fastest, in one line."""
        deployment = self.formats[0].prediction.deployment
        where = f"{deployment.model.short_name} on {deployment.num_gpus}x {deployment.gpu.name}"
        steps = [(entry.decode.speedup, entry.quantization) for entry in self.formats if entry.decode is not None]
        fastest = f", fastest decode {max(steps)[1]} ({ratio_text(max(steps)[0])})" if steps else ""
        return f"<Quantization {where} against {self.baseline}: {len(self.formats)} pairs of formats{fastest}>"

    def to_records(self) -> list[QuantizedRow]:
        """Flat rows, one a pair of formats."""
        return [{**entry.to_dict(), "baseline": self.baseline} for entry in self.formats]

    def kernel_records(self) -> list[dict[str, Json]]:
        """Every kernel's part in every speed-up, as flat rows."""
        return [
            row
            for entry in self.formats
            for row in entry.kernel_records(
                quantization=entry.quantization,
                kv_cache_dtype=entry.prediction.deployment.precision.kv_format,
                baseline=self.baseline,
            )
        ]

    def to_dict(self) -> dict[str, Json]:
        """All of it as plain values."""
        rows: list[Any] = self.to_records()
        return {"rows": rows, "kernels": self.kernel_records(), "notes": list(self.notes)}


def quantized(
    quantization: str,
    prediction: Prediction,
    baseline: Prediction,
    largest: Prediction | None,
    num_gpus_smallest: int | None,
) -> Quantized:
    """A pair of formats beside the baseline.

    Args:
        quantization: preset of the weights [text].
        prediction: in these formats; a single case.
        baseline: of the same case and plan in the formats to compare with.
        largest: in these formats at the largest batch that fits, if any does.
        num_gpus_smallest: fewest GPUs at which the case fits, if it does [1].

    Returns:
        Speed-ups, and why.
    """
    first, step = difference(baseline.prefill, prediction.prefill), None
    why_step = None
    if prediction.tpot is not None:
        step = difference(baseline.decode, prediction.decode)
        why_step = why_quantized(step, baseline.decode, prediction.decode, "step")
    why_first = why_quantized(first, baseline.prefill, prediction.prefill, "pass")
    if prediction is baseline:
        why_first, why_step = "the baseline", None if step is None else "the baseline"
    return Quantized(prediction, first, step, why_first, why_step, quantization, largest, num_gpus_smallest)


def kept_sections(model: Model, precisions: list[Precision]) -> dict[str, list[str]]:
    """Sections of a model whose weights are the same in all formats, by the format they stay in.

    Args:
        model: the model.
        precisions: its precision in each of the formats.

    Returns:
        Names of sections by format; norms, which are small, and what the model lacks are left out.
    """
    kept: dict[str, list[str]] = {}
    for section, count in parameters(model)._asdict().items():
        formats = {chosen.sections[section].format for chosen in precisions}
        if count and section in _SECTIONS and len(formats) == 1:
            kept.setdefault(formats.pop(), []).append(_SECTIONS[section])
    return kept


def why_quantized(found: Difference, before: Pass, after: Pass, of: str) -> str:
    """What the time of the baseline goes to, what becomes of it, what it costs and what stays, in one sentence.

    Args:
        found: the difference of the two passes.
        before: the pass in the baseline's formats.
        after: the pass in other formats.
        of: what the pass is called: ``step`` or ``pass`` [text].

    Returns:
        Text such as ``1.83x: 92 % of the step is weight traffic, which halves`` [text].
    """
    parts = [(share, text) for share, text in _sides(before, after, found.before) if share >= _SAID]
    parts.sort(reverse=True)
    clauses = []
    for i, (share, text) in enumerate(parts):
        clauses.append(f"{100.0 * share:.0f} %{'' if i else f' of the {of}'} is {text}")
    clauses += _costs(before, after, found.after, of)
    end = unchanged_text(found, of)
    return f"{ratio_text(found.speedup)}: " + "; ".join([*clauses, *([end] if end else [])])


class _Side(NamedTuple):
    """What some kernels spend their time on: an amount, and how long it takes alone."""

    amount: float  # [B or FLOP]
    time: float  # [s]
    at_peak: float  # [s] at the full rates of the GPU
    evidence: str  # what the share of them stands on


def _sides(before: Pass, after: Pass, whole: float) -> list[tuple[float, str]]:
    """Weight traffic, KV traffic and arithmetic of the kernels that they bind: share of the baseline, and its fate."""
    reading = {kernel.name for kernel in before.kernels if _is_reading(kernel)}
    found = []
    for label, amount, rates, chosen in (
        ("weight traffic", _weights, _reading_rates, lambda k: k.kind.bears_weights and k.name in reading),
        ("KV and state traffic", _cached, _reading_rates, lambda k: k.name in reading),
        ("arithmetic", _flop, _arithmetic_rates, lambda k: k.name not in reading),
    ):
        old, new = _side(before, amount, rates, chosen), _side(after, amount, rates, chosen)
        if old.time > 0.0 and new.time > 0.0:
            found.append((old.time / whole, f"{label}, {_fate(old, new)}"))
    return found


def _fate(old: _Side, new: _Side) -> str:
    """What becomes of an amount, and of the rate at which it is worked off."""
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
    said = f"which {word or moved}"
    return said if abs(rate - 1.0) <= _OTHER_RATE else f"{said} at {ratio_text(rate)} the rate"


def _costs(before: Pass, after: Pass, whole: float, of: str) -> list[str]:
    """What quantising costs or saves besides: passes over the activations, and latencies of the kernels."""
    said = []
    for label, cost in (
        ("quantising activations", _quantising),
        ("moving routed activations", _routing),
        ("launching and filling kernels", _latency),
    ):
        more = (fsum(map(cost, after.kernels)) - fsum(map(cost, before.kernels))) / whole
        if abs(more) >= _COSTS:
            verb = "costs" if more > 0.0 else "saves"
            said.append(f"{label} {verb} {100.0 * abs(more):.0f} % of the new {of}")
    return said


def _side(
    passed: Pass,
    amount: Callable[..., float],
    rates: Callable[..., tuple[float, float]],
    chosen: Callable[..., bool],
) -> _Side:
    kernels = [kernel for kernel in passed.kernels if isinstance(kernel.roof, Roof) and chosen(kernel)]
    kernels = [kernel for kernel in kernels if amount(kernel)]
    return _Side(
        fsum(amount(kernel) for kernel in kernels),
        fsum(amount(kernel) / rates(kernel)[0] for kernel in kernels),
        fsum(amount(kernel) / rates(kernel)[1] for kernel in kernels),
        _evidence(kernels),
    )


def _evidence(kernels: list[Kernel]) -> str:
    """What the rates of kernels stand on; a stand-in's residuals are left out of its roof."""
    timed = {kernel.roof.efficiency.is_measured and kernel.roof.efficiency.sigma is not None for kernel in kernels}
    return {frozenset({True}): "as timed", frozenset({False}): "as assumed"}.get(frozenset(timed), "partly assumed")


def _is_reading(kernel: Kernel) -> bool:
    """Whether reading takes longer than the arithmetic that overlaps with it."""
    if not isinstance(kernel.roof, Roof) or kernel.kind is HOST:
        return True
    return bool(kernel.terms.overlapped >= kernel.terms.compute)


def _weights(kernel: Kernel) -> float:
    return float(kernel.count * kernel.work.weight_bytes)


def _cached(kernel: Kernel) -> float:
    return float(kernel.count * kernel.work.kv_bytes)


def _flop(kernel: Kernel) -> float:
    return float(kernel.count * kernel.work.flop)


def _reading_rates(kernel: Kernel) -> tuple[float, float]:
    """Rate at which a kernel reads, and that of the memory [B/s]."""
    roof: Any = kernel.roof
    return float(roof.efficiency.eta_m * roof.bandwidth), float(roof.bandwidth)


def _arithmetic_rates(kernel: Kernel) -> tuple[float, float]:
    """Rate at which a kernel multiplies, and its peak [FLOP/s]."""
    roof: Any = kernel.roof
    return float(roof.efficiency.eta_c * roof.peak), float(roof.peak)


def _quantising(kernel: Kernel) -> float:
    """Time of the passes that quantise the activations of multiplications [s]."""
    return _serial(kernel) if kernel.kind is GEMM else 0.0


def _routing(kernel: Kernel) -> float:
    """Time in which activations move to and from the experts; how well that is done depends on the format [s]."""
    return _serial(kernel) if kernel.kind is MOE else 0.0


def _serial(kernel: Kernel) -> float:
    return float(kernel.count * kernel.terms.serial)


def _latency(kernel: Kernel) -> float:
    """What launches, walked depths and items add to a kernel's arithmetic and traffic [s]."""
    roof = kernel.roof
    if not isinstance(roof, Roof) or kernel.kind is HOST:
        return 0.0
    if not (kernel.work.depth or kernel.work.serial_depth or kernel.work.items):
        return float(kernel.count * roof.efficiency.t0)
    work = kernel.work._replace(depth=0.0, serial_depth=0.0, items=0.0)
    bare = roof if roof.efficiency is LIGHT else roof._replace(efficiency=replace(roof.efficiency, t0=0.0))
    return float(kernel.time - kernel.count * kernel_time(work, bare).total)
