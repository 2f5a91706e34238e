"""A model on several GPUs side by side: how many times faster, and which kernels make it so."""

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

__all__ = ["COMPARED_KEYS", "Compared", "Comparison", "compared", "why_faster"]

#: Keys of a row beside those of a prediction.
COMPARED_KEYS = ("label", "reference", "prefill_speedup", "decode_speedup", "why_prefill", "why_decode")

_MOST_NAMED = 3  # parts that one sentence names
_WORTH_NAMING = 0.05  # share of the gain
_CLOSE = 0.1  # speed-ups nearer to 1 get one more decimal place
_TERMS = {"memory": "bandwidth", "link": "the link"}


@dataclass(frozen=True, repr=False)
class Compared(SideBySide):
    """One GPU beside the reference, which has no speed-ups itself."""

    label: str  # what tells it apart: the GPU, with what its pool states of plan and format
    reference: str  # label of the one that it is compared with

    def __str__(self) -> str:
        """One line: latencies, throughput, and how many times faster than the reference."""
        found = self.prediction
        said = f"{self.label}: {latencies(found)}, {rounded(found.output_tok_s_gpu)} tok/s/GPU"
        return said + speedups(self.prefill, self.decode, self.reference)

    def to_dict(self) -> ComparedRow:
        """Flat row: the keys of a prediction, and how many times faster than the reference."""
        return cast("ComparedRow", self.row(label=self.label, reference=self.reference))


@dataclass(frozen=True, repr=False)
class Comparison:
    """One case on several GPUs at the same plan; the first is the reference.

    >>> import roofline as rl
    >>> found = rl.compare("llama-3.1-8b", ["h100-sxm", "h200"], basis="ideal")
    >>> found
    <Comparison llama-3.1-8b, decode against h100-sxm: h200-sxm 1.43x>
    >>> [round(row["decode_speedup"] or 1.0, 2) for row in found.to_records()]
    [1.0, 1.43]
    >>> found.kernel_records()[0]["reference"], sorted(found.to_dict())
    ('h100-sxm', ['kernels', 'notes', 'refused', 'rows'])
    """

    gpus: tuple[Compared, ...]
    notes: tuple[str, ...] = ()  # what was chosen
    refused: Mapping[str, RooflineError] = field(default_factory=dict)  # GPU -> why it cannot run the case

    def __str__(self) -> str:
        """A heading, a line a GPU, refusals and notes."""
        first = self.gpus[0].prediction
        model, workload = first.deployment.model.short_name, first.workload
        plans = {entry.prediction.deployment.plan.tp for entry in self.gpus}
        plan = f", tp {self.tp}" if len(plans) == 1 else ""
        case = f"isl {workload.isl:g}, osl {workload.osl:g}, {load_text(workload)}{plan}"
        heading = f"{model}, {case}, against {self.gpus[0].reference}"
        refused = [f"{name}: {str(error).partition(';')[0]}" for name, error in self.refused.items()]
        lines = [*map(str, self.gpus), *refused, *(f"note: {note}" for note in self.notes)]
        return "\n".join([heading, *(f"  {line}" for line in lines)])

    def __repr__(self) -> str:
        """How many times faster than the reference each GPU decodes, in one line."""
        first = self.gpus[0].prediction
        each = ", ".join(
            f"{entry.prediction.deployment.gpu.name} {ratio_text(entry.decode.speedup)}"
            for entry in self.gpus
            if entry.decode is not None
        )
        against = f"decode against {self.gpus[0].reference}: {each}" if each else f"{len(self.gpus)} GPUs"
        return f"<Comparison {first.deployment.model.short_name}, {against}>"

    @property
    def tp(self) -> int:
        """Tensor-parallel degree of the reference, and of all whose pools state none [1]."""
        return self.gpus[0].prediction.deployment.plan.tp

    def to_records(self) -> list[ComparedRow]:
        """Flat rows, one a GPU that runs the case."""
        return [entry.to_dict() for entry in self.gpus]

    def kernel_records(self) -> list[dict[str, Json]]:
        """Every kernel's part in every ratio, as flat rows."""
        return [
            row
            for entry in self.gpus
            for row in entry.kernel_records(
                gpu=entry.prediction.deployment.gpu.name, label=entry.label, reference=entry.reference
            )
        ]

    def to_dict(self) -> dict[str, Json]:
        """All of it as plain values."""
        refused = {name: f"{type(error).__name__}: {error}" for name, error in self.refused.items()}
        return {
            "rows": [entry.row(reference=entry.reference) for entry in self.gpus],
            "kernels": self.kernel_records(),
            "notes": list(self.notes),
            "refused": refused,
        }


def compared(prediction: Prediction, reference: Prediction, label: str, of: str) -> Compared:
    """A GPU beside the reference.

    Args:
        prediction: of the GPU; a single case.
        reference: of the same case on the GPU to compare with.
        label: what the GPU and its plan are called [text].
        of: the same of the reference [text].

    Returns:
        Ratios, and the kernels that make them; none where it is the reference itself.
    """
    if prediction is reference:
        return Compared(prediction, None, None, None, None, label, of)
    first = difference(reference.prefill, prediction.prefill)
    step = None if prediction.tpot is None else difference(reference.decode, prediction.decode)
    why = None if step is None else why_faster(step, "step")
    return Compared(prediction, first, step, why_faster(first, "pass"), why, label, of)


def why_faster(found: Difference, of: str) -> str:
    """Which parts of a pass gain the time, in one sentence whose figures add up.

    Args:
        found: the difference of two passes.
        of: what the pass is called: ``step`` or ``pass`` [text].

    Returns:
        Text such as ``2.41x: 1.12 of the 1.41 gained come from bandwidth in the experts, 0.29 from the rest``;
        contributions are relative to the reference, whose speed is 1, and a kernel's goes to the term of its time that
        moved it most, not to what it waits for [text].
    """
    places = decimals(found.speedup) + (abs(found.speedup - 1.0) < _CLOSE)
    total = round(found.speedup - 1.0, places)
    clauses = [
        _clause(what, part, total, places, is_first=not position)
        for position, (what, part) in enumerate(_named(shares(found), total, places))
    ]
    said = ", ".join(clauses) or "no kernel changes much"
    end = unchanged_text(found, of)
    return f"{found.speedup:.{places}f}x: {said}" + (f"; {end}" if end else "")


def _named(listed: list[Share], total: float, places: int) -> list[tuple[str, float]]:
    """The largest contributions, rounded, those that go with the total first, and what is left of it [1]."""
    largest = max([abs(total), *(abs(share.contribution) for share in listed)])
    worth = [share for share in listed if abs(share.contribution) >= _WORTH_NAMING * largest][:_MOST_NAMED]
    rounded = [(_what(share), round(share.contribution, places)) for share in worth]
    rounded.sort(key=lambda term: -math.copysign(1.0, total) * term[1])
    rest = round(total - math.fsum(part for _, part in rounded), places)
    return [(what, part) for what, part in (*rounded, ("the rest", rest)) if part != 0.0]


def _clause(what: str, part: float, total: float, places: int, *, is_first: bool) -> str:
    """One contribution in words."""
    size, whole, is_gain = f"{abs(part):.{places}f}", f"{abs(total):.{places}f}", part > 0.0
    if part * total <= 0.0 or abs(part) > abs(total):
        return f"{size} {'gained from' if is_gain else 'lost to'} {what}"
    if is_first:
        return f"{size} of the {whole} {'gained come from' if is_gain else 'lost go to'} {what}"
    return f"{size} {'from' if is_gain else 'to'} {what}"


def _what(share: Share) -> str:
    """What a contribution comes from: the term of the time that moved, and the part of the pass."""
    part = the(share.part)
    return part if share.part == HOST.label else f"{_TERMS.get(share.cause, share.cause)} in {part}"
