"""One case on several GPUs: speed-ups, and the kernels behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from roofline.analysis.difference import (
    Difference,
    Share,
    decimals,
    difference,
    ratio_text,
    shares,
    unchanged_text,
)
from roofline.analysis.side_by_side import SideBySide, latencies, speedups
from roofline.errors import RooflineError
from roofline.number_types import Json
from roofline.quantity import rounded
from roofline.records import dataclass, field
from roofline.serving.latency import load_text
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import ComparedRow
from roofline.specs.kernels import HOST, the

#: Keys of a row in addition to those of a prediction.
COMPARED_KEYS = ("label", "reference", "prefill_speedup", "decode_speedup", "why_prefill", "why_decode")

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
        return cast("ComparedRow", self.row(label=self.label, reference=self.reference))


@dataclass(frozen=True, repr=False)
class Comparison:
    """One case on several GPUs at the same plan, one of which is the reference; with an SLO, those that meet it first.

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
        case = f"isl {workload.isl:g}, osl {workload.osl:g}, {load_text(workload)}{plan}"
        heading = f"{model}, {case}, against {self.gpus[0].reference}"
        refused = [f"{name}: {str(error).partition(';')[0]}" for name, error in self.refused.items()]
        lines = [*map(str, self.gpus), *refused, *(f"note: {note}" for note in self.notes)]
        return "\n".join([heading, *(f"  {line}" for line in lines)])

    def __repr__(self) -> str:
        """Decode speed-up of every GPU."""
        first = self.reference.prediction
        ratios = ", ".join(
            f"{entry.prediction.deployment.gpu.name} {ratio_text(entry.decode.speedup)}"
            for entry in self.gpus
            if entry.decode is not None
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

    def to_records(self) -> list[ComparedRow]:
        """Flat rows, one per GPU that can run the case."""
        return [entry.to_dict() for entry in self.gpus]

    def kernel_records(self) -> list[dict[str, Json]]:
        """Contribution of every kernel to every speed-up, as flat rows."""
        return [
            row
            for entry in self.gpus
            for row in entry.kernel_records(
                gpu=entry.prediction.deployment.gpu.name, label=entry.label, reference=entry.reference
            )
        ]

    def to_dict(self) -> dict[str, Json]:
        """Rows, kernels, notes and refusals as plain values."""
        refused = {name: f"{type(error).__name__}: {error}" for name, error in self.refused.items()}
        return {
            "rows": [entry.row(reference=entry.reference) for entry in self.gpus],
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
