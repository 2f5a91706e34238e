"""Why two passes take different times: the exact difference, kernel by kernel, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, fsum, inf

from roofline.number_types import Json
from roofline.ops import norm
from roofline.physics.forward import Pass
from roofline.physics.one_equation import Kernel, LinkRoof
from roofline.quantity import MICRO, rounded
from roofline.records import NamedTuple, dataclass, field
from roofline.specs.kernels import the

__all__ = [
    "Difference",
    "KernelDifference",
    "Share",
    "Spent",
    "decimals",
    "difference",
    "difference_rows",
    "effects",
    "ratio_text",
    "shares",
    "spent",
    "unchanged",
    "unchanged_text",
]

_SAME = 0.005  # relative; what moves less is said not to change
_WORTH_SAYING = 0.02  # share of a pass
_ORDERS = (10.0, 100.0)  # from which a ratio has one decimal place, and none
_SMALL = 0.1  # below it a ratio has two significant digits


@dataclass(frozen=True, slots=True)
class KernelDifference:
    """One kernel of two passes; where one of them lacks it, it takes no time there."""

    name: str
    part: str  # label of the part of the pass that it belongs to
    bound: str  # what it waits for in the reference, or in the other pass where the reference lacks it
    other_bound: str
    cause: str  # term of its time whose change moved it most; its bound where only one of the passes has it
    before: float  # [s] in the reference
    after: float  # [s] in the other pass
    contribution: float  # to speed-up - 1: time saved over the time of the whole other pass [1]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two passes, and every kernel's part in the difference of their times."""

    before: float  # [s] the reference
    after: float  # [s] the other pass
    kernels: tuple[KernelDifference, ...] = field(repr=False)

    @property
    def speedup(self) -> float:
        """How many times faster the other pass is: 1 + the sum of all contributions [1]."""
        return self.before / self.after


@dataclass(frozen=True, slots=True)
class Share:
    """Contribution of the kernels of one part of a pass that the same term moved."""

    part: str
    cause: str  # compute, memory, exponentials, link or latency
    contribution: float  # to speed-up - 1 [1]


class Spent(NamedTuple):
    """What some kernels of a pass spend on each term of their equation, every term alone."""

    compute: float  # [s]
    serial_latency: float  # [s] serial depth that hides behind traffic as arithmetic does
    memory: float  # [s] traffic that may hide behind arithmetic
    serial: float  # [s] traffic that may not
    exponentials: float  # [s]
    link: float  # [s]
    latency: float  # [s]
    order: float  # p of the norm [1]

    @property
    def slopes(self) -> tuple[float, float]:
        """By how much the norm grows with its arithmetic and with its traffic [1]."""
        sides = self.compute + self.serial_latency, self.memory
        if self.order == inf:
            return float(sides[0] >= sides[1]), float(sides[1] >= sides[0])
        whole = norm(*sides, self.order)
        if whole == 0.0:
            return 1.0, 1.0
        return (sides[0] / whole) ** (self.order - 1.0), (sides[1] / whole) ** (self.order - 1.0)


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
        Passes of single cases, not of arrays. A kernel's whole gain goes to one term of its time, the one whose change
        moved it most: what it waits for may be another, and other terms may have moved it a little.
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
                part=(first or second)[0].label,
                bound=_bound(first or second),
                other_bound=_bound(second or first),
                cause=_cause(first, second),
                before=times[0],
                after=times[1],
                contribution=(times[0] - times[1]) / after,
            )
        )
    return Difference(fsum(kernel.time for kernel in reference.kernels), after, tuple(found))


def shares(found: Difference) -> list[Share]:
    """Contributions by part of the pass and by the term that moved its kernels, largest first.

    Args:
        found: the difference of two passes.

    Returns:
        Shares whose contributions add up to speed-up - 1.
    """
    grouped: dict[tuple[str, str], list[float]] = {}
    for kernel in found.kernels:
        grouped.setdefault((kernel.part, kernel.cause), []).append(kernel.contribution)
    summed = [Share(part, cause, fsum(parts)) for (part, cause), parts in grouped.items()]
    return sorted(summed, key=lambda share: -abs(share.contribution))


def spent(kernels: Sequence[Kernel]) -> Spent:
    """What some kernels spend on each term of their equation.

    Args:
        kernels: of one pass, at least one, whose equations have the same form.

    Returns:
        Times of all runs, every term alone [s].

    Valid:
        The pipeline of a collective fills at the rate of its link, and counts as link.
    """
    roof = kernels[0].roof
    order = inf if isinstance(roof, LinkRoof) else roof.efficiency.p
    summed = _terms(kernels[0]) if len(kernels) == 1 else map(fsum, zip(*map(_terms, kernels), strict=True))
    compute, serial_latency, memory, serial, exponentials, link, latency = summed
    return Spent(compute, serial_latency, memory, serial, exponentials, link, latency, order)


def effects(before: Sequence[Kernel], after: Sequence[Kernel]) -> dict[str, float]:
    r"""How much of the time that some kernels gain each term of their equation gives.

    .. math:: g_i = \bar w_i (t_{0i} - t_{1i}),\quad w_i = \left(\frac{t_i}{\lVert t \rVert_p}\right)^{p - 1}

    Arithmetic and traffic hide behind each other, so that w is the slope of the norm there, the mean of both sides;
    terms outside the norm count in full.

    Args:
        before: kernels of one name in the reference.
        after: the same kernels in the other pass.

    Returns:
        Time gained by compute, memory, serial (traffic that hides behind nothing), exponentials, link and latency [s].

    Valid:
        Kernels are paired in the order of the passes; where a pass has more of them, each side counts as one. The sum
        is about the time gained; it is exact where no term hides another.
    """
    if len(before) == len(after):
        pairs = [_effects(spent([old]), spent([new])) for old, new in zip(before, after, strict=True)]
        return {term: fsum(pair[term] for pair in pairs) for term in pairs[0]}
    return _effects(spent(before), spent(after))


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
    kept = [f"{the(part)} ({100.0 * share:.0f} %" for part, share in unchanged(found)[:2]]
    return f"unchanged: {'), '.join([f'{kept[0]} of the new {of}', *kept[1:]])})" if kept else ""


def difference_rows(found: Difference, **labels: str) -> list[dict[str, Json]]:
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
            "cause": kernel.cause,
            "reference_us": kernel.before / MICRO,
            "total_us": kernel.after / MICRO,
            "gain_us": (kernel.before - kernel.after) / MICRO,
            "contribution": kernel.contribution,
        }
        for kernel in found.kernels
    ]


def ratio_text(ratio: float) -> str:
    """A ratio for people.

    Args:
        ratio: how many times [1].

    Returns:
        Text [text].

    >>> ratio_text(1.8349), ratio_text(12.349), ratio_text(0.0249)
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


def _effects(old: Spent, new: Spent) -> dict[str, float]:
    """Time that each term of one kernel gives [s]."""
    arithmetic, traffic = (sum(slopes) / 2.0 for slopes in zip(old.slopes, new.slopes, strict=True))
    return {
        "compute": arithmetic * (old.compute - new.compute),
        "memory": traffic * (old.memory - new.memory),
        "serial": old.serial - new.serial,
        "exponentials": old.exponentials - new.exponentials,
        "link": old.link - new.link,
        "latency": old.latency - new.latency + arithmetic * (old.serial_latency - new.serial_latency),
    }


def _terms(kernel: Kernel) -> tuple[float, ...]:
    """Terms of all runs of a kernel, in the order of `Spent` [s]."""
    terms = kernel.terms
    parts = (
        terms.compute,
        terms.serial_latency,
        terms.overlapped,
        terms.serial,
        terms.exponentials,
        terms.link + terms.pipeline_latency,
        terms.latency - terms.serial_latency - terms.pipeline_latency,
    )
    return tuple(kernel.count * part for part in parts)


def _cause(before: Sequence[Kernel], after: Sequence[Kernel]) -> str:
    """The term that moved some kernels most in the direction in which they moved."""
    if not before or not after:
        return _bound(before or after)
    gained = fsum(kernel.time for kernel in before) - fsum(kernel.time for kernel in after)
    if gained == 0.0:
        return _bound(before)
    moved = effects(before, after)
    moved["memory"] += moved.pop("serial")
    cause = max(moved, key=lambda term: copysign(1.0, gained) * moved[term])
    return cause if gained * moved[cause] > 0.0 else _bound(before)


def _bound(kernels: Sequence[Kernel]) -> str:
    """What most of the time of some kernels is spent waiting for."""
    return str(kernels[0].terms.bound if len(kernels) == 1 else Pass(tuple(kernels)).bound)
