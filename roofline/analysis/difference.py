"""Why two passes take different times: the exact difference by kernel, and its wording."""

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

_SAME = 0.005  # relative change below which a part counts as unchanged
_WORTH_SAYING = 0.02  # share of a pass
_ORDERS = (10.0, 100.0)  # ratios from here on are given with one decimal place, and none
_SMALL = 0.1  # ratios below are given with two significant digits


@dataclass(frozen=True, slots=True)
class KernelDifference:
    """One kernel in two passes, with zero time in a pass that lacks it."""

    name: str
    part: str  # label of its part of the pass
    bound: str  # in the reference, or in the other pass if the reference lacks it
    other_bound: str
    cause: str  # term of its time that changed most; its bound where only one pass has it
    before: float  # [s] in the reference
    after: float  # [s] in the other pass
    contribution: float  # to speed-up - 1: time saved over the total time of the other pass [1]


@dataclass(frozen=True, slots=True)
class Difference:
    before: float  # [s] the reference
    after: float  # [s] the other pass
    kernels: tuple[KernelDifference, ...] = field(repr=False)

    @property
    def speedup(self) -> float:
        """Reference time over the other pass's: 1 + the sum of all contributions [1]."""
        return self.before / self.after


@dataclass(frozen=True, slots=True)
class Share:
    """Contribution of the kernels of one part of a pass that have the same cause."""

    part: str
    cause: str  # compute, memory, exponentials, link or latency
    contribution: float  # to speed-up - 1 [1]


class TermTimes(NamedTuple):
    """Time of some kernels by term of their equation, each term on its own."""

    compute: float  # [s]
    serial_latency: float  # [s] serial depth, which overlaps with traffic as arithmetic does
    memory: float  # [s] traffic that overlaps with arithmetic
    serial: float  # [s] traffic that does not
    exponentials: float  # [s]
    link: float  # [s]
    latency: float  # [s]
    order: float  # p of the norm [1]

    @property
    def slopes(self) -> tuple[float, float]:
        """Partial derivatives of the norm with respect to arithmetic and traffic [1]."""
        sides = self.compute + self.serial_latency, self.memory
        if self.order == inf:
            return float(sides[0] >= sides[1]), float(sides[1] >= sides[0])
        total = norm(*sides, self.order)
        if total == 0.0:
            return 1.0, 1.0
        return (sides[0] / total) ** (self.order - 1.0), (sides[1] / total) ** (self.order - 1.0)


def difference(reference: Pass, other: Pass) -> Difference:
    r"""Difference of two passes, exact: the contributions of the kernels add up to it.

    .. math:: \frac{T_0}{T_1} - 1 = \sum_k \frac{t_{0k} - t_{1k}}{T_1}

    Kernels are matched by name; those of the same name in different groups of layers count as one.

    Args:
        reference: the pass to compare with.
        other: the pass that may be faster.

    Returns:
        Times [s] and contributions [1].

    Valid:
        Passes of single cases, not of arrays. The whole gain of a kernel goes to the term that changed most, which need
        not be its bound; smaller changes of other terms are ignored.
    """
    before_by_name, after_by_name = _by_name(reference), _by_name(other)
    after = fsum(kernel.time for kernel in other.kernels)
    kernels = []
    for name in dict.fromkeys((*before_by_name, *after_by_name)):
        first, second = before_by_name.get(name, []), after_by_name.get(name, [])
        times = [fsum(kernel.time for kernel in side) for side in (first, second)]
        kernels.append(
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
    return Difference(fsum(kernel.time for kernel in reference.kernels), after, tuple(kernels))


def shares(change: Difference) -> list[Share]:
    """Contributions by part of the pass and cause, largest first."""
    grouped: dict[tuple[str, str], list[float]] = {}
    for kernel in change.kernels:
        grouped.setdefault((kernel.part, kernel.cause), []).append(kernel.contribution)
    summed = [Share(part, cause, fsum(parts)) for (part, cause), parts in grouped.items()]
    return sorted(summed, key=lambda share: -abs(share.contribution))


def term_times(kernels: Sequence[Kernel]) -> TermTimes:
    """Time of kernels whose equations have the same form, at least one; pipeline fill counts as link."""
    roof = kernels[0].roof
    order = inf if isinstance(roof, LinkRoof) else roof.efficiency.p
    summed = _terms(kernels[0]) if len(kernels) == 1 else map(fsum, zip(*map(_terms, kernels), strict=True))
    compute, serial_latency, memory, serial, exponentials, link, latency = summed
    return TermTimes(compute, serial_latency, memory, serial, exponentials, link, latency, order)


def effects(before: Sequence[Kernel], after: Sequence[Kernel]) -> dict[str, float]:
    r"""Time that some kernels gain, by term of their equation.

    .. math:: g_i = \bar w_i (t_{0i} - t_{1i}),\quad w_i = \left(\frac{t_i}{\lVert t \rVert_p}\right)^{p - 1}

    Arithmetic and traffic overlap: w is the slope of the norm, averaged over both passes. Others count in full.

    Args:
        before: kernels of one name in the reference.
        after: the same kernels in the other pass.

    Returns:
        Time gained by compute, memory, serial (traffic without overlap), exponentials, link and latency [s].

    Valid:
        Kernels are paired in the order of the passes; if their numbers differ, each side counts as one. The sum
        approximates the time gained; it is exact without overlap.
    """
    if len(before) == len(after):
        pairs = [_gains(term_times([old]), term_times([new])) for old, new in zip(before, after, strict=True)]
        return {term: fsum(pair[term] for pair in pairs) for term in pairs[0]}
    return _gains(term_times(before), term_times(after))


def unchanged(change: Difference) -> list[tuple[str, float]]:
    """Parts of a pass that take as long as before, with their shares of the other pass [1], largest first."""
    parts: dict[str, list[KernelDifference]] = {}
    for kernel in change.kernels:
        parts.setdefault(kernel.part, []).append(kernel)
    shares_by_part = []
    for part, kernels in parts.items():
        before, after = fsum(kernel.before for kernel in kernels), fsum(kernel.after for kernel in kernels)
        moved = fsum(abs(kernel.before - kernel.after) for kernel in kernels)
        if moved <= _SAME * before and after >= _WORTH_SAYING * change.after:
            shares_by_part.append((part, after / change.after))
    return sorted(shares_by_part, key=lambda entry: -entry[1])


def unchanged_text(change: Difference, pass_name: str) -> str:
    """Text such as ``unchanged: the all-reduces (8 % of the new step)``, two parts at most; empty where all change."""
    texts = [f"{the(part)} ({100.0 * share:.0f} %" for part, share in unchanged(change)[:2]]
    return f"unchanged: {'), '.join([f'{texts[0]} of the new {pass_name}', *texts[1:]])})" if texts else ""


def difference_rows(change: Difference, **labels: str) -> list[dict[str, Json]]:
    """Kernels as flat rows that begin with the labels; contributions add up to speed-up - 1."""
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
        for kernel in change.kernels
    ]


def ratio_text(ratio: float) -> str:
    """A ratio at three significant digits; two below 0.1.

    >>> ratio_text(1.8349), ratio_text(12.349), ratio_text(0.0249)
    ('1.83x', '12.3x', '0.025x')
    """
    if ratio < _SMALL:
        return f"{rounded(ratio, 2)}x"
    return f"{ratio:.{decimals(ratio)}f}x"


def decimals(ratio: float) -> int:
    """Decimal places that give a ratio at most three significant digits.

    >>> decimals(2.41), decimals(24.1), decimals(241.0)
    (2, 1, 0)
    """
    return sum(ratio < limit for limit in _ORDERS)


def _by_name(pass_: Pass) -> dict[str, list[Kernel]]:
    by_name: dict[str, list[Kernel]] = {}
    for kernel in pass_.kernels:
        by_name.setdefault(kernel.name, []).append(kernel)
    return by_name


def _gains(old: TermTimes, new: TermTimes) -> dict[str, float]:
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
    """Terms of all runs, in the order of `TermTimes` [s]."""
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
    """The term that contributed most to the change of total time."""
    if not before or not after:
        return _bound(before or after)
    saved = fsum(kernel.time for kernel in before) - fsum(kernel.time for kernel in after)
    if saved == 0.0:
        return _bound(before)
    gains = effects(before, after)
    gains["memory"] += gains.pop("serial")
    cause = max(gains, key=lambda term: copysign(1.0, saved) * gains[term])
    return cause if saved * gains[cause] > 0.0 else _bound(before)


def _bound(kernels: Sequence[Kernel]) -> str:
    return str(kernels[0].terms.bound if len(kernels) == 1 else Pass(tuple(kernels)).bound)
