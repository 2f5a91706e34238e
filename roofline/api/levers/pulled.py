"""A case with levers pulled, compared with the unchanged case; and all levers of a case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from roofline.analysis.goodput import Goodput
from roofline.api.levers.pool_answer import Disaggregation
from roofline.api.levers.quality import SAME_ANSWERS, is_free
from roofline.api.levers.reasons import Kernels, kernels_of, reason_of
from roofline.api.levers.splits import reason_of_pools
from roofline.api.ranking import meeting_first, meets
from roofline.elements import is_nan
from roofline.errors import BadInput
from roofline.number_types import Json
from roofline.quantity import HOUR, to_text
from roofline.records import dataclass, field
from roofline.serving.cost import usd_per_m_output_tok
from roofline.serving.prediction import Prediction
from roofline.serving.row import ROW_KEYS
from roofline.serving.row import row as row_of
from roofline.serving.row_types import LeverRow
from roofline.serving.verdict import IN_RANGE, LIKELY, UNLIKELY
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.slo import key_text

#: Goals that levers are ranked by, and their names.
GOALS = {"ttft": "TTFT p99", "tpot": "TPOT", "goodput": "goodput", "cost": "the cost of requests"}

#: Keys of a row in addition to those of a prediction.
LEVER_KEYS = (
    "lever", "lever_kind", "levers", "options", "ttft_p50_change", "ttft_p99_change", "tpot_change", "goodput",
    "goodput_binding", "goodput_change", "goodput_usd_per_m_output_tok", "lever_usd_per_request", "cost_change",
    "helps", "prefill_speedup", "decode_speedup", "why_prefill", "why_decode", "why", "quality", "assumption", "reason",
)  # fmt: skip

#: Answer for a changed case: of one pool of GPUs, or of two.
Answer: TypeAlias = Prediction | Disaggregation

#: Least relative change that counts; smaller ones are within the rounding of a figure.
WORTH = 0.02


@dataclass(frozen=True, repr=False)
class Pulled:
    """The case with one or more levers pulled, or none."""

    name: str
    kind: str
    parts: tuple[str, ...] = field(repr=False)  # levers that are pulled; none in the reference
    options: Mapping[str, Any] = field(repr=False)  # keyword arguments of `predict`, or of `disaggregate`
    answer: Answer = field(repr=False)
    goodput: Goodput | None = field(default=None, repr=False)  # None without an SLO
    quality: str = SAME_ANSWERS
    assumption: str | None = None
    place: str = ""  # levers with the same place are not combined
    before: Pulled | None = field(default=None, repr=False)  # the unchanged case; None for itself
    shared: bool | None = field(default=None, repr=False)  # whether the share asked for meets the SLO; None: no share

    def __str__(self) -> str:
        figures = {"TTFT p50": self.change("ttft_p50"), "p99": self.change("ttft_p99"), "TPOT": self.change("tpot")}
        figures |= {"goodput": self.change("goodput"), "cost": self.change("cost")}
        moved = [f"{name} {change_text(by)}" for name, by in figures.items() if by is not None]
        return f"{self.name}: {', '.join(moved)}" if moved else f"{self.name}: {self._times}"

    def __repr__(self) -> str:
        return f"<Pulled {self}>"

    @property
    def keeps_answers(self) -> bool:
        """Whether answers are known to stay the same."""
        return is_free(self.quality)

    @property
    def cost(self) -> float | None:
        """Rent per request [USD]: at the goodput where there is an SLO, else at this load; None without a price.

        None too where the goodput is next to nothing.
        """
        rent = self.answer.usd_per_hour
        if self.goodput is not None and self.goodput.is_idle:
            return None
        rate = self.goodput.rate if self.goodput is not None else float(self.answer.request_rate or 0.0)
        return None if rent is None or not rate else rent / HOUR / rate

    @property
    def goodput_usd_per_m_output_tok(self) -> float | None:
        """Rent per million output tokens at the goodput [USD]; None without one worth a price, or without a price."""
        rent = self.answer.usd_per_hour
        if rent is None or self.goodput is None or self.goodput.is_idle:
            return None
        return float(usd_per_m_output_tok(rent / HOUR, self.goodput.rate * self.answer.workload.osl))

    def figure(self, name: str) -> float | None:
        """TTFT percentile or TPOT [s], goodput [1/s] or cost [USD]; None where it does not apply."""
        if name == "goodput":
            return None if self.goodput is None else self.goodput.rate
        if name == "cost":
            return self.cost
        latency = self.answer.latency(name)
        return None if latency is None else float(latency)

    def change(self, name: str) -> float | None:
        """Relative change of a figure against the unchanged case [1]; None where either is unknown or near zero."""
        before = None if self.before is None else self.before.goodput
        if name == "goodput" and any(goodput is not None and goodput.is_idle for goodput in (before, self.goodput)):
            return None
        now, then = self.figure(name), None if self.before is None else self.before.figure(name)
        return None if now is None or not then else now / then - 1.0

    def helps(self, goal: str) -> bool | None:
        """Whether it improves a goal and keeps the SLO, or meets one that was missed; None for the unchanged case."""
        if self.before is None:
            return None
        if self.meets_slo != self.before.meets_slo:
            return self.meets_slo
        return is_better(self.score(goal), self.before.score(goal))

    @property
    def verdict(self) -> str | None:
        """Verdict on the SLO at this load; None without one, or where a limited percentile is not known."""
        if self.shared is not None:
            return LIKELY if self.shared else UNLIKELY
        return None if self.answer.verdict is None else str(self.answer.verdict)

    @property
    def meets_slo(self) -> bool:
        """Whether it meets the SLO by the central estimate; False without one."""
        return meets(self.verdict)

    @property
    def excess(self) -> float:
        """Largest limited latency over its limit [1], of those that are known."""
        shares = map(float, self.answer.slo_shares.values())
        return max((share for share in shares if not is_nan(share)), default=0.0)

    def goal_figure(self, goal: str) -> str:
        """Figure that a goal is about: of ``ttft`` the p99, or the mean where the unchanged case has no known p99."""
        if goal != "ttft":
            return goal
        return "ttft" if (self.before or self).figure("ttft_p99") is None else "ttft_p99"

    def score(self, goal: str) -> float:
        """Value of a goal, lower is better; infinite where there is none."""
        figure = self.figure(self.goal_figure(goal))
        if figure is None:
            return float("inf")
        return -figure if goal == "goodput" else figure

    @property
    def prediction(self) -> Prediction:
        """The answer, which must be that of one pool."""
        if not isinstance(self.answer, Prediction):
            raise BadInput(f"{self.name} is no prediction of one pool; its answer is that of disaggregate")
        return self.answer

    @property
    def kernels(self) -> Kernels | None:
        """Changes of the kernels; None for the unchanged case, and for two pools."""
        if self.before is None or not isinstance(self.answer, Prediction):
            return None
        return kernels_of(self.before.prediction, self.answer)

    def why(self, goal: str) -> str | None:
        """Why it moves a goal, in a sentence; None for the unchanged case."""
        if self.before is None:
            return None
        then = self.before.prediction, self.before.goodput
        if not isinstance(self.answer, Prediction):
            return reason_of_pools(goal, then, (self.answer, self.goodput))
        return reason_of(goal, then, (self.answer, self.goodput), kernels_of(then[0], self.answer))

    def to_dict(self, goal: str = "ttft") -> LeverRow:
        """Flat row of the JSON contract: the keys of a prediction, and what the lever changes."""
        kernels = self.kernels
        row = {
            **self._row(),
            **({} if self.shared is None else {"slo_met": self.shared, "slo_reason": IN_RANGE}),
            "slo_verdict": self.verdict,
            "lever": self.name,
            "lever_kind": self.kind,
            "levers": list(self.parts),
            "options": _plain(self.options),
            **{f"{name}_change": self.change(name) for name in ("ttft_p50", "ttft_p99", "tpot", "goodput", "cost")},
            "goodput": self.figure("goodput"),
            "goodput_binding": None if self.goodput is None else self.goodput.binding,
            "goodput_usd_per_m_output_tok": self.goodput_usd_per_m_output_tok,
            "lever_usd_per_request": self.cost,
            "helps": self.helps(goal),
            "prefill_speedup": None if kernels is None else kernels.prefill.speedup,
            "decode_speedup": None if kernels is None or kernels.decode is None else kernels.decode.speedup,
            "why_prefill": None if kernels is None else kernels.why_prefill,
            "why_decode": None if kernels is None else kernels.why_decode,
            "why": self.why(goal),
            "quality": self.quality,
            "assumption": self.assumption,
            "reason": None,
            "warnings": list(self.answer.warnings),
        }
        order = (*(key for key in ROW_KEYS if key != "warnings"), *LEVER_KEYS, "warnings")
        return cast("LeverRow", {key: row[key] for key in order})

    def _row(self) -> dict[str, Any]:
        """The keys of a prediction, as far as the answer has them."""
        keys = [key for key in ROW_KEYS if key != "warnings"]
        if isinstance(self.answer, Prediction):
            return row_of(self.answer, keys)
        whole: Mapping[str, Any] = self.answer.to_dict()
        start = {} if self.before is None else row_of(self.before.prediction, ("gpu", "engine"))
        return {**dict.fromkeys(keys), **start, **{key: whole[key] for key in keys if key in whole}}

    @property
    def _times(self) -> str:
        times = {name: self.figure(name) for name in ("ttft_p50", "ttft_p99", "tpot")}
        texts = {key_text(name, is_mean=True): time for name, time in times.items() if time is not None}
        return ", ".join(f"{name} {to_text(time, 's')}" for name, time in texts.items())


@dataclass(frozen=True, repr=False)
class Levers:
    """Every lever of a case: with an SLO those that meet it first, of these the most effective.

    >>> import roofline as rl
    >>> result = rl.levers("llama-3.1-8b", "h100-sxm", request_rate=4, basis="ideal")
    >>> result.best.name, result.best.change("ttft_p99") < 0.0
    ('smaller: llama-3.2-3b', True)
    >>> len(result.to_records()) > len(result.alone) + len(result.together), result.to_dict()["goal"]
    (True, 'ttft')
    """

    goal: str
    start: Pulled  # the unchanged case
    alone: tuple[Pulled, ...] = field(repr=False)
    together: tuple[Pulled, ...] = field(repr=False)  # combinations of two, and of three
    refused: Mapping[str, str] = field(default_factory=dict, repr=False)  # lever -> why it cannot be pulled
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [*map(str, (*self.together, *self.alone)), *(f"{name}: {why}" for name, why in self.refused.items())]
        return "\n".join(
            [str(self.start), *(f"  {line}" for line in [*lines, *(f"note: {note}" for note in self.notes)])]
        )

    def __repr__(self) -> str:
        model = self.start.prediction.deployment.model.short_name
        best = "none helps" if self.best is None else f"best {self.best}"
        return f"<Levers {model}, for {self.goal_text}: {len(self.alone)} levers, {best}>"

    @property
    def goal_text(self) -> str:
        """What is to be made better, in words."""
        return "mean TTFT" if self.start.goal_figure(self.goal) == "ttft" else GOALS[self.goal]

    @property
    def best(self) -> Pulled | None:
        """The most effective lever alone, of those that meet the SLO if any does; None where none helps."""
        return next((lever for lever in self.alone if lever.helps(self.goal)), None)

    @property
    def best_alike(self) -> Pulled | None:
        """The most effective of all that keeps answers the same, alone if that meets the SLO; None where none helps."""
        alike = [row for row in (*self.alone, *self.together) if is_free(row.quality) and row.helps(self.goal)]
        return next(iter(meeting_first(alike, lambda row: row.verdict)), None)

    @property
    def nearest(self) -> Pulled | None:
        """What comes nearest to an SLO that neither the case nor a lever meets; None where one does, or without one."""
        rows = (self.start, *self.together, *self.alone)
        if not self.start.answer.slo or any(row.meets_slo for row in rows):
            return None
        return min(rows, key=lambda row: row.excess)

    def to_records(self) -> list[LeverRow]:
        """Flat rows: the unchanged case, combinations, single levers, and those that cannot be pulled."""
        rows = [row.to_dict(self.goal) for row in (self.start, *self.together, *self.alone)]
        first: dict[str, Any] = dict(rows[0])
        kept = ("model", "model_id", "gpu", "isl", "osl", "prefix", "load", "engine")
        nothing = dict.fromkeys(first) | {key: first[key] for key in kept}
        refused: list[Any] = [
            {**nothing, "lever": name, "lever_kind": name, "levers": [name], "reason": why, "warnings": []}
            for name, why in self.refused.items()
        ]
        return [*rows, *refused]

    def to_dict(self) -> dict[str, Json]:
        return {"goal": self.goal, "rows": cast("Any", self.to_records()), "notes": list(self.notes)}


def change_text(change: float) -> str:
    """A relative change in percent.

    >>> change_text(-0.372), change_text(-0.0001), change_text(1.0)
    ('-37%', '0%', '+100%')
    """
    whole = round(100.0 * change)
    return f"{whole:+d}%" if whole else "0%"


def is_better(score: float, than: float) -> bool:
    """Whether a score is lower than another by more than the rounding of a figure.

    >>> is_better(0.97, 1.0), is_better(0.99, 1.0), is_better(-2.0, -1.0)
    (True, False, True)
    """
    return score < than - WORTH * abs(than) if than not in (0.0, float("inf")) else score < than


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON values: records by their names."""
    return {
        name: value.short_name if isinstance(value, Model) else value.name if isinstance(value, Gpu) else value
        for name, value in options.items()
    }
