"""Why two passes take different times: the exact difference, kernel by kernel, and what it is called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from typing import Any

from roofline.physics.forward import Pass
from roofline.physics.work import Kernel
from roofline.quantity import MICRO, rounded

__all__ = [
    "Difference",
    "KernelDifference",
    "Share",
    "decimals",
    "difference",
    "kernel_rows",
    "shares",
    "times",
    "unchanged",
    "unchanged_text",
]

_SAME = 0.005  # relative; what moves less is said not to change
_WORTH_SAYING = 0.02  # share of a pass
_ORDERS = (10.0, 100.0)  # from which a ratio has one decimal place, and none
_SMALL = 0.1  # below it a ratio has two significant digits

#: Kind of kernel -> the part of a pass that a sentence names.
_PARTS = {
    "moe": "the experts",
    "all_reduce": "the all-reduces",
    "all_gather": "the gathers",
    "reduce_scatter": "the reduce-scatters",
    "moe_dispatch": "the expert exchange",
    "moe_combine": "the expert exchange",
    "p2p": "the stage hand-overs",
    "state_prefill": "the recurrence",
    "state_decode": "the recurrence",
    "indexer": "the index scores",
    "elementwise": "the element-wise passes",
    "host": "the host",
}
_NAMED = {"head": "the head", "router": "the router", "network": "the network"}


@dataclass(frozen=True, slots=True)
class KernelDifference:
    """One kernel of two passes; where one of them lacks it, it takes no time there."""

    name: str
    part: str  # of the pass that it belongs to, for sentences
    bound: str  # what it waits for in the reference, or in the other pass where the reference lacks it
    other_bound: str
    before: float  # [s] in the reference
    after: float  # [s] in the other pass
    contribution: float  # to speed-up - 1: time saved over the time of the whole other pass [1]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two passes, and every kernel's part in the difference of their times."""

    before: float  # [s] the reference
    after: float  # [s] the other pass
    kernels: tuple[KernelDifference, ...]

    @property
    def speedup(self) -> float:
        """How many times faster the other pass is: 1 + the sum of all contributions [1]."""
        return self.before / self.after


@dataclass(frozen=True, slots=True)
class Share:
    """Contribution of the kernels of one part of a pass that the same thing binds."""

    part: str
    bound: str
    contribution: float  # to speed-up - 1 [1]


def difference(reference: Pass, other: Pass) -> Difference:
    r"""Difference of two passes, exact: the contributions of the kernels add up to it.

    .. math:: \frac{T_0}{T_1} - 1 = \sum_k \frac{t_{0k} - t_{1k}}{T_1}

    Kernels are matched by name; those of different groups of layers that share one count together.

    Args:
        reference: the pass to compare with.
        other: the pass that may be faster.

    Returns:
        Times [s] and contributions [1].

    Valid:
        Passes of single cases, not of arrays. A kernel's whole gain goes to what bound it in the reference.
    """
    old, new = _named(reference), _named(other)
    after = fsum(kernel.time for kernel in other.kernels)
    found = []
    for name in dict.fromkeys((*old, *new)):
        first, second = old.get(name, []), new.get(name, [])
        times = [fsum(kernel.time for kernel in side) for side in (first, second)]
        found.append(
            KernelDifference(
                name=name,
                part=_part((first or second)[0]),
                bound=_bound(first or second),
                other_bound=_bound(second or first),
                before=times[0],
                after=times[1],
                contribution=(times[0] - times[1]) / after,
            )
        )
    return Difference(fsum(kernel.time for kernel in reference.kernels), after, tuple(found))


def shares(found: Difference) -> list[Share]:
    """Contributions by part of the pass and by what binds it, largest first.

    Args:
        found: the difference of two passes.

    Returns:
        Shares whose contributions add up to speed-up - 1.
    """
    grouped: dict[tuple[str, str], list[float]] = {}
    for kernel in found.kernels:
        grouped.setdefault((kernel.part, kernel.bound), []).append(kernel.contribution)
    summed = [Share(part, bound, fsum(parts)) for (part, bound), parts in grouped.items()]
    return sorted(summed, key=lambda share: -abs(share.contribution))


def unchanged(found: Difference) -> list[tuple[str, float]]:
    """Parts of a pass that take as long as before, with their share of the other pass, largest first.

    Args:
        found: the difference of two passes.

    Returns:
        Parts worth naming, and shares [1].
    """
    parts: dict[str, list[KernelDifference]] = {}
    for kernel in found.kernels:
        parts.setdefault(kernel.part, []).append(kernel)
    kept = []
    for part, kernels in parts.items():
        before, after = fsum(kernel.before for kernel in kernels), fsum(kernel.after for kernel in kernels)
        moved = fsum(abs(kernel.before - kernel.after) for kernel in kernels)
        if moved <= _SAME * before and after >= _WORTH_SAYING * found.after:
            kept.append((part, after / found.after))
    return sorted(kept, key=lambda entry: -entry[1])


def unchanged_text(found: Difference, of: str) -> str:
    """The two largest parts that do not change, as the end of a sentence.

    Args:
        found: the difference of two passes.
        of: what the pass is called: ``step`` or ``pass`` [text].

    Returns:
        Text such as ``unchanged: the all-reduces (8 % of the new step)``, empty where all change [text].
    """
    kept = [f"{part} ({100.0 * share:.0f} %" for part, share in unchanged(found)[:2]]
    return f"unchanged: {'), '.join([f'{kept[0]} of the new {of}', *kept[1:]])})" if kept else ""


def kernel_rows(found: Difference, **labels: Any) -> list[dict[str, Any]]:
    """Kernels of a difference as flat rows.

    Args:
        found: the difference of two passes.
        labels: first keys of every row, such as `gpu` [any].

    Returns:
        Rows with microseconds; `contribution` adds up to speed-up - 1.
    """
    return [
        {
            **labels,
            "kernel": kernel.name,
            "part": kernel.part,
            "bound": kernel.bound,
            "other_bound": kernel.other_bound,
            "reference_us": kernel.before / MICRO,
            "total_us": kernel.after / MICRO,
            "gain_us": (kernel.before - kernel.after) / MICRO,
            "contribution": kernel.contribution,
        }
        for kernel in found.kernels
    ]


def times(ratio: float) -> str:
    """A ratio for people.

    Args:
        ratio: how many times [1].

    Returns:
        Text [text].

    >>> times(1.8349), times(12.349), times(0.0249)
    ('1.83x', '12.3x', '0.025x')
    """
    if ratio < _SMALL:
        return f"{rounded(ratio, 2)}x"
    return f"{ratio:.{decimals(ratio)}f}x"


def decimals(ratio: float) -> int:
    """Decimal places at which a ratio of two times has three significant digits or fewer.

    Args:
        ratio: how many times [1].

    Returns:
        Places [1].

    >>> decimals(2.41), decimals(24.1), decimals(241.0)
    (2, 1, 0)
    """
    return sum(ratio < limit for limit in _ORDERS)


def _named(passed: Pass) -> dict[str, list[Kernel]]:
    found: dict[str, list[Kernel]] = {}
    for kernel in passed.kernels:
        found.setdefault(kernel.name, []).append(kernel)
    return found


def _part(kernel: Kernel) -> str:
    """What a sentence calls the part of a pass that a kernel belongs to."""
    if kernel.name in _NAMED:
        return _NAMED[kernel.name]
    return _PARTS.get(kernel.kind) or ("the linear layers" if kernel.kind == "gemm" else "attention")


def _bound(kernels: Iterable[Kernel]) -> str:
    """What most of the time of some kernels is spent waiting for."""
    return str(Pass(tuple(kernels)).bound)
