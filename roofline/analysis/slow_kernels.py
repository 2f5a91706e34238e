"""Number formats with slower kernels than a reference format, and whether that was timed or assumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import Any

from roofline.analysis.difference import Difference, effects, ratio_text, term_times
from roofline.physics.efficiency import calibrated_set
from roofline.physics.forward import Pass
from roofline.physics.one_equation import Kernel, Roof
from roofline.physics.plan import Deployment
from roofline.quantity import to_text
from roofline.serving.prediction import Prediction
from roofline.specs.kernels import HOST, the

_SLOWER = 1.1  # least ratio of times of a part worth saying
_WORTH_SAYING = 0.02  # least added time, as a share of the reference pass
_CAUSE = 0.2  # least share of the added time of a cause
_LOWER = 0.95  # relative rate below which a rate counts as lower

_SIXTEEN_BIT_NBYTES = 2.0  # [B] of a weight in 16 bits

#: Term of a kernel's time -> what the kernel does at its rate, and the amount.
_DONE: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "compute": ("multiply", lambda work: work.flop),
    "memory": ("read", lambda work: work.overlapped_bytes),
    "serial": ("move activations", lambda work: work.serial_bytes),
    "exponentials": ("take exponentials", lambda work: work.exponentials),
}


def slow_kernels(
    prediction: Prediction, other: Prediction, changes: Mapping[str, Difference | None], reference_name: str
) -> list[str]:
    """Parts of a pass that take longer because their kernels are slower at the same work, and what that rests on.

    Such as ``prefill takes 5.6x as long in the experts as with bf16: its kernels multiply at 0.13x the rate
    (weight-only; timed on blackwell)``. Changes are from the reference, by pass; None without a decode pass.
    """
    clauses: dict[str, list[str]] = {}
    slower: dict[str, list[Kernel]] = {}
    for name, change in changes.items():
        if change is None:
            continue
        for part in dict.fromkeys(kernel.part for kernel in change.kernels):
            moved = [kernel for kernel in change.kernels if kernel.part == part]
            before, after = fsum(kernel.before for kernel in moved), fsum(kernel.after for kernel in moved)
            if after <= max(_SLOWER * before, before + _WORTH_SAYING * change.before) or not before:
                continue
            longer = [kernel.name for kernel in moved if kernel.after > kernel.before > 0.0]
            before_kernels, after_kernels = (_gpu_kernels(getattr(side, name), longer) for side in (other, prediction))
            causes = _causes(before_kernels, after_kernels)
            if causes:
                how_long = f"{name} takes {ratio_text(after / before)} as long in {the(part)} as with {reference_name}"
                clauses.setdefault(part, []).append(f"{how_long}: its kernels {' and '.join(causes)}")
                slower.setdefault(part, []).extend(kernel for kernels in after_kernels.values() for kernel in kernels)
    return [f"{'; '.join(texts)} ({_basis(prediction.deployment, slower[part])})" for part, texts in clauses.items()]


def _gpu_kernels(pass_: Pass, names: Sequence[str]) -> dict[str, list[Kernel]]:
    """Kernels by name, without links and the host, which do not depend on formats."""
    by_name: dict[str, list[Kernel]] = {}
    for kernel in pass_.kernels:
        if kernel.name in names and isinstance(kernel.roof, Roof) and kernel.kind is not HOST:
            by_name.setdefault(kernel.name, []).append(kernel)
    return by_name


def _causes(before: Mapping[str, list[Kernel]], after: Mapping[str, list[Kernel]]) -> list[str]:
    """Why the kernels take longer, the costliest reason first; empty where none is slower at the same work."""
    added: dict[str, float] = {}
    for name in (name for name in before if name in after):
        for term, gained in effects(before[name], after[name]).items():
            added[term] = added.get(term, 0.0) - gained
    before_all, after_all = ([kernel for kernels in side.values() for kernel in kernels] for side in (before, after))
    significant = [term for term in added if added[term] > 0.0 and added[term] >= _CAUSE * fsum(added.values())]
    causes = [_cause(term, before_all, after_all) for term in sorted(significant, key=lambda term: -added[term])]
    return [text for text, _ in causes if text] if any(is_slower for _, is_slower in causes) else []


def _cause(term: str, before_kernels: Sequence[Kernel], after_kernels: Sequence[Kernel]) -> tuple[str, bool]:
    """One term in words, and whether its rate is lower (more work at the same rate is not slower)."""
    before, after = _term_time(term, before_kernels), _term_time(term, after_kernels)
    if term not in _DONE:
        return f"launch and fill in {f'{ratio_text(after / before)} the time' if before else to_text(after, 's')}", True
    verb, amount = _DONE[term]
    old, new = (
        fsum(float(kernel.count * amount(kernel.work)) for kernel in side) for side in (before_kernels, after_kernels)
    )
    if not old:
        return f"{verb} in a separate pass", True
    growth = new / old
    rate = growth * before / after
    words = [f"{ratio_text(growth)} as much"] if growth * _LOWER > 1.0 else []
    if rate < _LOWER:
        words.append(f"at {ratio_text(rate)} the rate")
    peak_ratio = growth * _peak_time(before_kernels) / _peak_time(after_kernels) if term == "compute" else 1.0
    if peak_ratio < _LOWER:
        words.append(f"and {ratio_text(peak_ratio)} the peak")
    return f"{verb} {' '.join(words)}" if words else "", rate < _LOWER


def _term_time(term: str, kernels: Sequence[Kernel]) -> float:
    parts = [term_times([kernel]) for kernel in kernels]
    return fsum(getattr(part, term) + (part.serial_latency if term == "latency" else 0.0) for part in parts)


def _peak_time(kernels: Sequence[Kernel]) -> float:
    """Time of the arithmetic at full tensor-core rates [s]."""
    return fsum(float(kernel.count * kernel.work.flop / kernel.roof.peak) for kernel in kernels)  # type: ignore[union-attr]  # no link


def _basis(deployment: Deployment, kernels: Sequence[Kernel]) -> str:
    """What the efficiencies of the kernels rest on, in words."""
    generation, calibration = deployment.gpu.generation, deployment.gpu.calibration
    sets = {} if calibration is None else calibration.kernels
    quantization = deployment.quantization
    narrow = {
        scheme.key
        for scheme in quantization.sections.values()
        if scheme.peak == quantization.sixteen_bit_peak and scheme.weight_nbytes < _SIXTEEN_BIT_NBYTES
    }
    is_weight_only = all(kernel.kind.bears_weights and kernel.dtype in narrow for kernel in kernels)
    words = ["weight-only"] if is_weight_only else []
    if deployment.basis == "ideal":
        return "; ".join([*words, "at the hardware limit"])
    timed = {sets[key].is_measured if key in sets else None for key in ((k.kind.name, k.dtype) for k in kernels)}
    if deployment.basis == "generic":
        words.append(f"medians of other generations: {generation} not timed")
    elif timed == {True}:
        words.append(f"timed on {generation}")
    elif True in timed:
        words.append(f"partly timed on {generation}, partly assumed")
    else:
        words.append(f"not timed on {generation}: {'other formats stand in' if timed == {None} else 'assumed'}")
    if any(_is_tuned(kernel, sets) for kernel in kernels):
        words.append(f"adjusted for {deployment.engine.name}")
    return "; ".join(words)


def _is_tuned(kernel: Kernel, sets: Mapping[tuple[str, str], Any]) -> bool:
    """Whether the engine profile changes the efficiency of a kernel."""
    plain, _ = calibrated_set(sets, kernel.kind, kernel.dtype)
    tuned = kernel.roof.efficiency
    return (tuned.eta_c, tuned.eta_m) != (plain.eta_c, plain.eta_m)  # type: ignore[union-attr]  # no link
