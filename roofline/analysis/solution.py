"""The answer of an inverse question: the value of one input at which latency targets are just met."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from roofline.formulas.inputs import inputs
from roofline.number_types import Json
from roofline.quantity import MILLI, NANO, rounded, to_text
from roofline.records import dataclass, field
from roofline.serving.latency import USERS
from roofline.serving.prediction import Prediction
from roofline.serving.row import row
from roofline.serving.traffic.domain import restated
from roofline.specs.slo import LATENCIES as SLO_KEYS
from roofline.specs.slo import P99_WITHIN, key_text

if TYPE_CHECKING:
    from roofline.formulas.closed_form import Formula

__all__ = ["MET", "Solution"]

#: How close to a target a time counts as at it, relative.
MET = NANO

_COUNTED = ("batch", "isl", "osl", USERS)
_PREFIXED = ("B/s", "FLOP/s", "exp/s", "B", "s")  # units that take a prefix


@dataclass(frozen=True, repr=False)
class Solution:
    """The value of an input at which every target is met, and one of them just so.

    >>> import roofline as rl
    >>> found = rl.solve("llama-3.1-8b", "h100-sxm", "tp", tpot=0.003, basis="ideal")
    >>> found
    <Solution tp = 2 (now 1) for TPOT <= 3 ms on h100-sxm>
    >>> found.to_dict()["value"]
    2.0
    """

    unknown: str  # name of the input
    unit: str
    meaning: str
    targets: Mapping[str, float]  # [s] by result
    value: float | None  # SI; None where no value meets the targets
    binding: str  # result whose target decides
    values: Mapping[str, float | None]  # what each target alone asks for
    method: str  # closed form, root, step, bound or search
    reason: str  # why it cannot be met, or what else is to be known; empty where there is nothing
    regime: str  # at the solution
    formula: Formula | None = field(repr=False)  # of the value, where there is a closed form
    prediction: Prediction | None = field(repr=False)  # at the solution
    base: Prediction = field(repr=False)  # the case that was asked about

    @property
    def _limited(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*SLO_KEYS, *self.targets)))

    @property
    def is_met(self) -> bool:
        """Whether any value meets the targets."""
        return self.value is not None

    @property
    def whole(self) -> int | None:
        """Largest whole number that still meets the targets, of a batch, users or a length; None of other inputs."""
        if self.value is None or self.unknown not in _COUNTED:
            return None
        return math.floor(self.value * (1.0 + MET))

    @property
    def present(self) -> float:
        """Value of the input in the case that was asked about, SI."""
        return float(self.base.deployment.plan.tp) if self.unknown == "tp" else inputs(self.base)[self.unknown].value

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know: of a load, whether that of the solution lies inside the checked domain."""
        at = self.prediction
        return self.base.warnings if at is None else restated(self.base.warnings, at.deployment, at.workload, at.served)

    def to_dict(self) -> dict[str, Json]:
        """Flat row of the JSON contract."""
        base, at = self.base.deployment, self.prediction
        return {
            "model": base.model.short_name,
            "gpu": base.gpu.name,
            "num_gpus": int((base if at is None else at.deployment).num_gpus),
            "tp": int((base if at is None else at.deployment).plan.tp),
            "unknown": self.unknown,
            "unit": self.unit,
            "value": self.value,
            "present": self.present,
            "binding": self.binding,
            **{f"target_{name}_ms": _milliseconds(self.targets.get(name)) for name in self._limited},
            **{f"value_for_{name}": self.values.get(name) for name in self._limited},
            **{f"{name}_ms": None if at is None else row(at, (f"{name}_ms",))[f"{name}_ms"] for name in SLO_KEYS},
            "fits": None if at is None else at.fits,
            "method": self.method,
            "formula": None if self.formula is None else self.formula.flat,
            "symbols": None if self.formula is None else self.formula.to_dict()["symbols"],
            "regime": self.regime,
            "reason": self.reason,
            "basis": self.base.basis,
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        """The value, the present one and the targets in one line."""
        if self.value is None:
            return f"<Solution {self.unknown}: {self.reason.partition(';')[0]}>"
        targets = ", ".join(
            f"{key_text(name)} <= {to_text(time, 's') if name != P99_WITHIN else f'{rounded(time)}x'}"
            for name, time in self.targets.items()
        )
        value, present = (_with_unit(number, self.unit) for number in (self.value, self.present))
        return f"<Solution {self.unknown} = {value} (now {present}) for {targets} on {self.base.deployment.gpu.name}>"

    def __str__(self) -> str:
        """The answer in a line or two."""
        gpu = self.base.deployment.gpu.name
        if self.value is None:
            return f"{gpu}: {self.reason}"
        unit = "" if self.unit == "1" else f" {self.unit}"
        said = f"{gpu}: {self.unknown} = {self.value:.6g}{unit} (now {self.present:.6g}), by {self.method}"
        whole = "" if self.whole is None else f"; at most {self.whole} whole"
        return said + whole + (f"; {self.reason}" if self.reason else "")


def _with_unit(number: float, unit: str) -> str:
    """A value with its unit, prefixed where the unit takes a prefix."""
    if unit == "1":
        return rounded(number)
    return to_text(number, unit) if unit in _PREFIXED else f"{rounded(number)} {unit}"


def _milliseconds(time: float | None) -> float | None:
    return None if time is None else time / MILLI
