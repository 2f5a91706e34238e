"""Predictions side by side: why two passes take different times, and how GPUs compare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from math import copysign, fsum, inf
from typing import Any, cast

from roofline.numbers.operations import Json, norm
from roofline.numbers.quantity import MICRO, rounded
from roofline.physics.equation import Kernel, LinkRoof
from roofline.physics.passes import Pass
from roofline.serving.answers import Answer, selected_rows
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import ComparedRow
from roofline.serving.shown import ROW_KEYS, case_text, times_text
from roofline.serving.shown import row as row_of
from roofline.specs.gpu import HOST, the
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.support.errors import RooflineError
from roofline.support.records import NamedTuple, dataclass, field

# Why two passes take different times: the exact difference by kernel, and its wording.

#: Relative change below which a figure counts as unchanged.
UNCHANGED = 0.005
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

    Source:
        Arithmetic.
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

    Source:
        Arithmetic: the gradient of the norm in `kernel_time`.
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
        if moved <= UNCHANGED * before and after >= _WORTH_SAYING * change.after:
            shares_by_part.append((part, after / change.after))
    return sorted(shares_by_part, key=lambda entry: -entry[1])


def unchanged_text(change: Difference, pass_name: str) -> str:
    """Text such as ``unchanged: the all-reduces (8 % of the new step)``, two parts at most; empty where all change."""
    texts = [f"{the(part)} ({100.0 * share:.0f} %" for part, share in unchanged(change)[:2]]
    return f"unchanged: {'), '.join([f'{texts[0]} of the new {pass_name}', *texts[1:]])})" if texts else ""


#: Keys of a kernel in two passes; contributions add up to speed-up - 1.
DIFFERENCE_KEYS: Keys[KernelDifference] = {
    **taken(SHARED, kernel=lambda k: k.name, part=None, bound=None),
    "other_bound": Key.text("What it waits for in the reference."),
    "cause": Key.text("Term of its time that moved most."),
    "reference_us": Key.number("us", "Time in the reference.", lambda k: k.before / MICRO),
    **taken(SHARED, total_us=lambda k: k.after / MICRO),
    "gain_us": Key.number("us", "Time gained.", lambda k: (k.before - k.after) / MICRO, is_open=False),
    "contribution": Key.number("1", "Part of the speed-up that it makes.", is_open=False),
}


def difference_rows(change: Difference, **labels: str) -> list[dict[str, Json]]:
    """Kernels as flat rows that begin with the labels."""
    return [{**labels, **cells(DIFFERENCE_KEYS, kernel)} for kernel in change.kernels]


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


# A prediction next to that of a reference.

#: Keys of a row that is compared with another.
SPEEDUP_KEYS: Keys[Any] = {
    "prefill_speedup": Key.number(
        "1",
        "How many times faster the prefill is than that of the reference.",
        lambda s: None if s.prefill is None else s.prefill.speedup,
    ),
    "decode_speedup": Key.number(
        "1", "How many times faster a decode step is.", lambda s: None if s.decode is None else s.decode.speedup
    ),
    "why_prefill": Key.text("Which kernels make the prefill faster or slower."),
    "why_decode": Key.text("Which kernels make a decode step faster or slower."),
}


@dataclass(frozen=True)
class SideBySide:
    prediction: Prediction
    prefill: Difference | None  # None for the reference itself
    decode: Difference | None  # None also for a single output token
    why_prefill: str | None
    why_decode: str | None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def row(self, keys: Keys[Any]) -> dict[str, Any]:
        """Flat row: a prediction, further keys and the warnings."""
        return {
            **row_of(self.prediction, (key for key in ROW_KEYS if key != "warnings")),
            **cells(keys, self),
            "warnings": list(self.prediction.warnings),
        }

    def kernel_records(self, **labels: str) -> list[dict[str, Json]]:
        """Contribution of every kernel to both speed-ups, as flat rows that begin with the labels."""
        return [
            row
            for name, change in (("prefill", self.prefill), ("decode", self.decode))
            if change is not None
            for row in difference_rows(change, **labels, **{"pass": name})
        ]


def latencies(prediction: Prediction) -> str:
    """Text such as ``TTFT 98.3 ms, TPOT 9.12 ms``: percentiles where the SLO limits them, else means."""
    limited = [key for key in prediction.slo if key.startswith(("ttft_p", "tpot_p"))]
    keys = [next((key for key in limited if key.startswith(metric)), metric) for metric in ("ttft", "tpot")]
    return times_text({key: prediction.latency(key) for key in keys}, is_mean=prediction.workload.is_mean)


def speedups(prefill: Difference | None, decode: Difference | None, reference: str) -> str:
    """Text such as ``; 2.41x as fast as h100-sxm in prefill, 1.83x in decode``; empty for the reference itself."""
    known = {"prefill": prefill, "decode": decode}
    ratios = [(name, ratio_text(change.speedup)) for name, change in known.items() if change is not None]
    named = [f"{ratio}{'' if i else f' as fast as {reference}'} in {name}" for i, (name, ratio) in enumerate(ratios)]
    return f"; {', '.join(named)}" if named else ""


# One case on several GPUs: speed-ups, and the kernels behind them.

#: Keys of a row in addition to those of a prediction.
COMPARED_KEYS: Keys[Compared] = {
    "label": Key.text("GPU with what its pool states of plan and format, such as h100-sxm:tp4:fp8.", is_open=False),
    "reference": Key.text("Label of the row that this one is compared with.", is_open=False),
    **SPEEDUP_KEYS,
}

_MOST_NAMED = 3  # parts in one sentence
_WORTH_NAMING = 0.05  # share of the gain
_CLOSE = 0.1  # speed-ups this close to 1 get one more decimal place
_TERMS = {"memory": "bandwidth", "link": "the link"}


@dataclass(frozen=True, repr=False)
class Compared(SideBySide):
    """One GPU compared with the reference; the reference itself has no speed-ups."""

    label: str  # GPU, with the plan and formats of its pool
    reference: str  # label of the reference

    def __str__(self) -> str:
        prediction = self.prediction
        text = f"{self.label}: {latencies(prediction)}, {rounded(prediction.output_tok_s_gpu)} tok/s/GPU"
        return text + speedups(self.prefill, self.decode, self.reference)

    def to_dict(self) -> ComparedRow:
        return cast("ComparedRow", self.row(COMPARED_KEYS))


@dataclass(frozen=True, repr=False)
class Comparison(Answer[ComparedRow]):
    """One case on several GPUs at the same plan, compared with one of them; with an SLO, those that meet it come first.

    >>> import roofline as rl
    >>> result = rl.compare("llama-3.1-8b", ["h100-sxm", "h200"], basis="ideal")
    >>> result
    <Comparison llama-3.1-8b, decode against h100-sxm: h200-sxm 1.43x>
    >>> [round(row["decode_speedup"] or 1.0, 2) for row in result.to_records()]
    [1.0, 1.43]
    >>> result.kernel_records()[0]["reference"], sorted(result.to_dict())
    ('h100-sxm', ['kernels', 'notes', 'refused', 'rows'])
    """

    gpus: tuple[Compared, ...]
    notes: tuple[str, ...] = ()  # what was chosen
    refused: Mapping[str, RooflineError] = field(default_factory=dict)  # GPU -> why it cannot run the case

    def __str__(self) -> str:
        """Heading, one line per GPU, refusals and notes."""
        first = self.reference.prediction
        model, workload = first.deployment.model.short_name, first.workload
        plans = {entry.prediction.deployment.plan.tp for entry in self.gpus}
        plan = f", tp {self.tp}" if len(plans) == 1 else ""
        heading = f"{model}, {case_text(workload)}{plan}, against {self.gpus[0].reference}"
        refused = [f"{name}: {str(error).partition(';')[0]}" for name, error in self.refused.items()]
        lines = [*map(str, self.gpus), *refused, *(f"note: {note}" for note in self.notes)]
        return "\n".join([heading, *(f"  {line}" for line in lines)])

    def __repr__(self) -> str:
        """Decode speed-up of every GPU."""
        first = self.reference.prediction
        ratios = ", ".join(
            f"{entry.label} {ratio_text(entry.decode.speedup)}" for entry in self.gpus if entry.decode is not None
        )
        against = f"decode against {self.gpus[0].reference}: {ratios}" if ratios else f"{len(self.gpus)} GPUs"
        return f"<Comparison {first.deployment.model.short_name}, {against}>"

    @property
    def reference(self) -> Compared:
        """The GPU that the others are compared with."""
        return next(entry for entry in self.gpus if entry.label == entry.reference)

    @property
    def tp(self) -> int:
        """Tensor-parallel degree of the reference, and of every pool that states none."""
        return self.reference.prediction.deployment.plan.tp

    def kernel_records(self) -> list[dict[str, Json]]:
        """Contribution of every kernel to every speed-up, as flat rows."""
        return [
            row
            for entry in self.gpus
            for row in entry.kernel_records(
                gpu=entry.prediction.deployment.gpu.name, label=entry.label, reference=entry.reference
            )
        ]

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Rows, kernels, notes and refusals as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        refused = {name: f"{type(error).__name__}: {error}" for name, error in self.refused.items()}
        return {
            "rows": selected_rows((cast("Any", entry.to_dict()) for entry in self.gpus), keys),
            "kernels": self.kernel_records(),
            "notes": list(self.notes),
            "refused": refused,
        }


def compared(prediction: Prediction, reference: Prediction, label: str, reference_label: str) -> Compared:
    """A GPU compared with a reference; no speed-ups where it is the reference itself."""
    if prediction is reference:
        return Compared(prediction, None, None, None, None, label, reference_label)
    prefill = difference(reference.prefill, prediction.prefill)
    decode = None if prediction.tpot is None else difference(reference.decode, prediction.decode)
    why_decode = None if decode is None else why_faster(decode, "step")
    return Compared(prediction, prefill, decode, why_faster(prefill, "pass"), why_decode, label, reference_label)


def why_faster(change: Difference, pass_name: str) -> str:
    """Text such as ``2.41x: 1.12 of the 1.41 gained come from bandwidth in the experts, 0.29 from the rest``.

    Contributions are relative to the reference, whose speed is 1.
    """
    places = decimals(change.speedup) + (abs(change.speedup - 1.0) < _CLOSE)
    total = round(change.speedup - 1.0, places)
    clauses = [
        _clause(what, part, total, places, is_first=not position)
        for position, (what, part) in enumerate(_largest_contributions(shares(change), total, places))
    ]
    clauses_text = ", ".join(clauses) or "no kernel changes much"
    unchanged = unchanged_text(change, pass_name)
    return f"{change.speedup:.{places}f}x: {clauses_text}" + (f"; {unchanged}" if unchanged else "")


def _largest_contributions(all_shares: list[Share], total: float, places: int) -> list[tuple[str, float]]:
    """Largest contributions, rounded, those with the sign of the total first; then the rest [1]."""
    largest = max([abs(total), *(abs(share.contribution) for share in all_shares)])
    significant = [share for share in all_shares if abs(share.contribution) >= _WORTH_NAMING * largest][:_MOST_NAMED]
    rounded = [(_source_text(share), round(share.contribution, places)) for share in significant]
    rounded.sort(key=lambda term: -math.copysign(1.0, total) * term[1])
    rest = round(total - math.fsum(part for _, part in rounded), places)
    return [(what, part) for what, part in (*rounded, ("the rest", rest)) if part != 0.0]


def _clause(what: str, part: float, total: float, places: int, *, is_first: bool) -> str:
    size, whole, is_gain = f"{abs(part):.{places}f}", f"{abs(total):.{places}f}", part > 0.0
    if part * total <= 0.0 or abs(part) > abs(total):
        return f"{size} {'gained from' if is_gain else 'lost to'} {what}"
    if is_first:
        return f"{size} of the {whole} {'gained come from' if is_gain else 'lost go to'} {what}"
    return f"{size} {'from' if is_gain else 'to'} {what}"


def _source_text(share: Share) -> str:
    """Text such as ``bandwidth in the experts``."""
    part = the(share.part)
    return part if share.part == HOST.label else f"{_TERMS.get(share.cause, share.cause)} in {part}"
