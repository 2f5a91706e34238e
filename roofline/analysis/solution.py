"""Answer of an inverse question: the value of one input at which latency targets are just met."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from roofline.formulas.inputs import inputs
from roofline.number_types import Json
from roofline.quantity import MILLI, NANO, rounded, to_text
from roofline.records import dataclass, field
from roofline.serving.latency import RATE, USERS
from roofline.serving.prediction import Prediction
from roofline.serving.row import row
from roofline.serving.traffic.domain import restated
from roofline.serving.verdict import FAIL, Verdict
from roofline.specs.slo import LATENCIES as SLO_KEYS
from roofline.specs.slo import limits_words

if TYPE_CHECKING:
    from roofline.formulas.closed_form import Formula


#: Relative tolerance of a target.
MET = NANO

#: What limits a value where no target does: full slots or a full memory, no steady state, or the end of the search.
SLOTS, MEMORY, LONGEST, SATURATION, SEARCH = "max_num_seqs", "memory", "max_model_len", "saturation", "search range"

#: What limits a value beyond which a target's percentile is not known.
NOT_KNOWN = "not known beyond"

#: Inputs of which there are whole numbers.
COUNTED = ("batch", "isl", "osl", USERS)
_PREFIXED = ("B/s", "FLOP/s", "exp/s", "B", "s")  # units that take a prefix


@dataclass(frozen=True, repr=False)
class Solution:
    """The value of an input at which all targets are met, one of them exactly.

    >>> import roofline as rl
    >>> result = rl.solve("llama-3.1-8b", "h100-sxm", "tp", tpot=0.003, basis="ideal")
    >>> result
    <Solution tp = 2 (now 1) for TPOT <= 3 ms on h100-sxm>
    >>> result.to_dict()["value"]
    2.0
    """

    unknown: str  # name of the input
    unit: str
    meaning: str
    targets: Mapping[str, float]  # [s] by result
    value: float | None  # SI; None where no value meets the targets
    binding: str  # result whose target binds
    values: Mapping[str, float | None]  # required by each target alone
    method: str  # closed form, root, step, bound or search
    reason: str  # why no value meets the targets, or a remark on the one that does; may be empty
    regime: str  # at the solution
    formula: Formula | None = field(repr=False)  # closed form of the value, where there is one
    prediction: Prediction | None = field(repr=False)  # at the solution
    base: Prediction = field(repr=False)  # the case as asked
    limited_by: str | None = None  # target, or one of the limits below; None where any value will do
    judged: Verdict | None = field(default=None, repr=False)  # on the targets, at the value or its whole part

    @property
    def _latency_keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*SLO_KEYS, *self.targets)))

    @property
    def is_met(self) -> bool:
        return self.value is not None

    @property
    def is_open(self) -> bool:
        """Whether the search ended before the target did: the value that just meets it lies beyond."""
        return self.limited_by == SEARCH

    @property
    def is_known(self) -> bool:
        """Whether the targets are known to be missed beyond the value; otherwise a percentile is not known there."""
        return self.limited_by != NOT_KNOWN

    @property
    def verdict(self) -> str | None:
        """Verdict on the targets at the solution: fail where no value meets them, None where that is not known."""
        if self.judged is None:
            return FAIL if self.is_known else None
        return None if self.judged.word is None else str(self.judged.word)

    @property
    def whole(self) -> int | None:
        """Largest whole batch, number of users or length that meets the targets; None for other inputs."""
        if self.value is None or self.unknown not in COUNTED:
            return None
        return math.floor(self.value * (1.0 + MET))

    @property
    def present(self) -> float:
        """Value of the input in the case as asked, SI."""
        return float(self.base.deployment.plan.tp) if self.unknown == "tp" else inputs(self.base)[self.unknown].value

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the case; under a load, of the domain of its equations at the solution."""
        solved = self.prediction
        return (
            self.base.warnings
            if solved is None
            else restated(self.base.warnings, solved.deployment, solved.workload, solved.served)
        )

    def to_dict(self) -> dict[str, Json]:
        """Flat row of the JSON contract."""
        base, solved = self.base.deployment, self.prediction
        return {
            "model": base.model.short_name,
            "gpu": base.gpu.name,
            "num_gpus": int((base if solved is None else solved.deployment).num_gpus),
            "tp": int((base if solved is None else solved.deployment).plan.tp),
            "unknown": self.unknown,
            "unit": self.unit,
            "value": self.value,
            "present": self.present,
            "binding": self.binding,
            **{f"target_{name}_ms": _milliseconds(self.targets.get(name)) for name in self._latency_keys},
            **{f"value_for_{name}": self.values.get(name) for name in self._latency_keys},
            **{
                f"{name}_ms": None if solved is None else row(solved, (f"{name}_ms",))[f"{name}_ms"]
                for name in SLO_KEYS
            },
            "fits": None if solved is None else solved.fits,
            "method": self.method,
            "formula": None if self.formula is None else self.formula.flat,
            "symbols": None if self.formula is None else self.formula.to_dict()["symbols"],
            "regime": self.regime,
            "reason": self.reason,
            "limited_by": self.limited_by,
            "slo_binding": None if self.judged is None else self.judged.binding,
            "slo_verdict": self.verdict,
            "slo_reason": self.reason if self.judged is None else self.judged.reason,
            "basis": self.base.basis,
            "warnings": list(self.warnings),
        }

    @property
    def is_mean(self) -> bool:
        """Whether a target without a percentile is on the mean over requests."""
        return self.unknown in (RATE, USERS) or self.base.workload.is_mean

    def __repr__(self) -> str:
        if self.value is None:
            return f"<Solution {self.unknown}: {self.reason.partition(';')[0]}>"
        targets = limits_words(self.targets, is_mean=self.is_mean)
        value, present = (_with_unit(number, self.unit) for number in (self.value, self.present))
        sign = "beyond" if self.is_open else "="
        end = "" if self.is_known else f", {NOT_KNOWN}"
        gpu = self.base.deployment.gpu.name
        return f"<Solution {self.unknown} {sign} {value} (now {present}) for {targets} on {gpu}{end}>"

    def __str__(self) -> str:
        gpu = self.base.deployment.gpu.name
        if self.value is None:
            return f"{gpu}: {self.reason}"
        unit = "" if self.unit == "1" else f" {self.unit}"
        sign = "beyond" if self.is_open else "="
        text = f"{gpu}: {self.unknown} {sign} {self.value:.6g}{unit} (now {self.present:.6g}), by {self.method}"
        whole = (
            ""
            if self.whole is None or self.is_open or self.limited_by == NOT_KNOWN
            else f"; at most {self.whole} whole"
        )
        whole += "" if self.verdict is None else f"; SLO {self.verdict}"
        return text + whole + (f"; {self.reason}" if self.reason else "")


def _with_unit(number: float, unit: str) -> str:
    if unit == "1":
        return rounded(number)
    return to_text(number, unit) if unit in _PREFIXED else f"{rounded(number)} {unit}"


def _milliseconds(time: float | None) -> float | None:
    return None if time is None else time / MILLI
