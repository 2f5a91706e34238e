"""Number formats whose kernels are slower than those of another, and whether that was timed or assumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import Any

from roofline.analysis.difference import Difference, Spent, effects, ratio_text, spent
from roofline.physics.efficiency import calibrated_set
from roofline.physics.forward import Pass
from roofline.physics.one_equation import Kernel, Roof
from roofline.physics.plan import Deployment
from roofline.quantity import to_text
from roofline.serving.prediction import Prediction
from roofline.specs.kernels import HOST, the

__all__ = ["slow_kernels"]

_SLOWER = 1.1  # times as long in a part of a pass, from which it is said
_WORTH_SAYING = 0.02  # share of the other pass that this adds at least
_CAUSE = 0.2  # share of what is added from which a cause is named
_LOWER = 0.95  # relative rate that is called lower

_WIDE_NBYTES = 2.0  # [B] of a weight in 16 bits

#: Term of a kernel's time -> what kernels do at its rate, and how much of it.
_DONE: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "compute": ("multiply", lambda work: work.flop),
    "memory": ("read", lambda work: work.overlapped_bytes),
    "serial": ("move activations", lambda work: work.serial_bytes),
    "exponentials": ("take exponentials", lambda work: work.exponentials),
}


def slow_kernels(
    found: Prediction, other: Prediction, differences: Mapping[str, Difference | None], called: str
) -> list[str]:
    """Parts of a pass that take longer in some formats because their kernels are slower, and what that stands on.

    Args:
        found: in these formats; a single case.
        other: of the same case and plan in the formats that are compared with.
        differences: of prefill and decode, the other formats as the reference; None for no decode.
        called: what the other formats are called [text].

    Returns:
        Texts such as ``prefill takes 5.6x as long in the experts as with bf16: its kernels multiply at 0.13x the rate
        (weight-only; timed on blackwell)``; none where only the amounts grow, at the rates of before [text].
    """
    said: dict[str, list[str]] = {}
    slower: dict[str, list[Kernel]] = {}
    for name, gap in differences.items():
        if gap is None:
            continue
        for part in dict.fromkeys(kernel.part for kernel in gap.kernels):
            moved = [kernel for kernel in gap.kernels if kernel.part == part]
            before, after = fsum(kernel.before for kernel in moved), fsum(kernel.after for kernel in moved)
            if after <= max(_SLOWER * before, before + _WORTH_SAYING * gap.before) or not before:
                continue
            longer = [kernel.name for kernel in moved if kernel.after > kernel.before > 0.0]
            old, new = (_on_gpu(getattr(prediction, name), longer) for prediction in (other, found))
            causes = _causes(old, new)
            if causes:
                how_long = f"{name} takes {ratio_text(after / before)} as long in {the(part)} as with {called}"
                said.setdefault(part, []).append(f"{how_long}: its kernels {' and '.join(causes)}")
                slower.setdefault(part, []).extend(kernel for kernels in new.values() for kernel in kernels)
    return [f"{'; '.join(texts)} ({_basis(found.deployment, slower[part])})" for part, texts in said.items()]


def _on_gpu(passed: Pass, names: Sequence[str]) -> dict[str, list[Kernel]]:
    """Kernels of a pass by name that multiply or read; links and the host do not depend on formats."""
    found: dict[str, list[Kernel]] = {}
    for kernel in passed.kernels:
        if kernel.name in names and isinstance(kernel.roof, Roof) and kernel.kind is not HOST:
            found.setdefault(kernel.name, []).append(kernel)
    return found


def _causes(before: Mapping[str, list[Kernel]], after: Mapping[str, list[Kernel]]) -> list[str]:
    """What kernels do more slowly than those of the other formats, the costliest first."""
    added: dict[str, float] = {}
    for name in (name for name in before if name in after):
        for term, gained in effects(before[name], after[name]).items():
            added[term] = added.get(term, 0.0) - gained
    old, new = ([kernel for kernels in side.values() for kernel in kernels] for side in (before, after))
    worth = [term for term in added if added[term] > 0.0 and added[term] >= _CAUSE * fsum(added.values())]
    said = [_cause(term, old, new) for term in sorted(worth, key=lambda term: -added[term])]
    return [text for text, _ in said if text] if any(is_slower for _, is_slower in said) else []


def _cause(term: str, old: Sequence[Kernel], new: Sequence[Kernel]) -> tuple[str, bool]:
    """One term in words, and whether kernels are slower at it; more work at the same rate is no fault of theirs."""
    first, second = _spent(term, old), _spent(term, new)
    if term not in _DONE:
        return f"launch and fill in {f'{ratio_text(second / first)} the time' if first else to_text(second, 's')}", True
    verb, amount = _DONE[term]
    amounts = [fsum(float(kernel.count * amount(kernel.work)) for kernel in side) for side in (old, new)]
    if not amounts[0]:
        return f"{verb} in a separate pass", True
    more = amounts[1] / amounts[0]
    rate = more * first / second
    said = [f"{ratio_text(more)} as much"] if more * _LOWER > 1.0 else []
    if rate < _LOWER:
        said.append(f"at {ratio_text(rate)} the rate")
    peak = more * _at_peak(old) / _at_peak(new) if term == "compute" else 1.0
    if peak < _LOWER:
        said.append(f"and {ratio_text(peak)} the peak")
    return f"{verb} {' '.join(said)}" if said else "", rate < _LOWER


def _spent(term: str, kernels: Sequence[Kernel]) -> float:
    """Time of some kernels on one term [s]."""
    parts: list[Spent] = [spent([kernel]) for kernel in kernels]
    return fsum(getattr(part, term) + (part.serial_latency if term == "latency" else 0.0) for part in parts)


def _at_peak(kernels: Sequence[Kernel]) -> float:
    """Time of the arithmetic of some kernels at the full rates of the tensor cores [s]."""
    return fsum(float(kernel.count * kernel.work.flop / kernel.roof.peak) for kernel in kernels)  # type: ignore[union-attr]  # no link


def _basis(deployment: Deployment, kernels: Sequence[Kernel]) -> str:
    """What the constants of some kernels stand on."""
    generation, calibration = deployment.gpu.generation, deployment.gpu.calibration
    sets = {} if calibration is None else calibration.kernels
    precision = deployment.precision
    narrow = {
        scheme.key
        for scheme in precision.sections.values()
        if scheme.peak == precision.sixteen_bit_peak and scheme.weight_nbytes < _WIDE_NBYTES
    }
    is_weight_only = all(kernel.kind.bears_weights and kernel.dtype in narrow for kernel in kernels)
    said = ["weight-only"] if is_weight_only else []
    if deployment.basis == "ideal":
        return "; ".join([*said, "at the hardware limit"])
    timed = {sets[key].is_measured if key in sets else None for key in ((k.kind.name, k.dtype) for k in kernels)}
    if deployment.basis == "generic":
        said.append(f"medians of other generations: {generation} not timed")
    elif timed == {True}:
        said.append(f"timed on {generation}")
    elif True in timed:
        said.append(f"partly timed on {generation}, partly assumed")
    else:
        said.append(f"not timed on {generation}: {'other formats stand in' if timed == {None} else 'assumed'}")
    if any(_is_tuned(kernel, sets) for kernel in kernels):
        said.append(f"adjusted for {deployment.engine.name}")
    return "; ".join(said)


def _is_tuned(kernel: Kernel, sets: Mapping[tuple[str, str], Any]) -> bool:
    """Whether the profile of the engine changes the efficiency of a kernel."""
    plain, _ = calibrated_set(sets, kernel.kind, kernel.dtype)
    found = kernel.roof.efficiency
    return (found.eta_c, found.eta_m) != (plain.eta_c, plain.eta_m)  # type: ignore[union-attr]  # no link
