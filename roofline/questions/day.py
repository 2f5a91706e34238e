"""A day of a plan: replicas by hour as the request rate changes, what starting them late costs, and the bill."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roofline.numbers.operations import Json
from roofline.numbers.quantity import HOUR, MILLI, MINUTE, rounded, to_text
from roofline.questions.inputs.arguments import number, scalar
from roofline.questions.inputs.rates import HOURS, rates_of_day
from roofline.questions.plan import plan as planned
from roofline.questions.ranking import GpuPlan
from roofline.serving.answers import Answer, selected_rows
from roofline.serving.prediction import Prediction
from roofline.support.errors import BadInput, shown
from roofline.support.records import NamedTuple, dataclass

_LONGEST_START = 6.0 * HOUR
_LEAST = MILLI  # requests/s, for which an empty hour is planned


class Span(NamedTuple):
    """Hours with one rate, and the replicas that meet the SLO at it."""

    start: float  # [h] of the day
    hours: float  # [h]
    rate: float  # [1/s]
    plan: GpuPlan
    backlog: float  # requests that wait when the replicas that were missing have started
    late: float  # [s] from the start of the span until the backlog is gone

    @property
    def prediction(self) -> Prediction:
        prediction = self.plan.prediction
        assert prediction is not None  # noqa: S101 - checked where a span is made
        return prediction

    @property
    def num_gpus(self) -> int:
        return int(self.prediction.deployment.num_gpus)

    def to_dict(self) -> dict[str, Json]:
        prediction = self.prediction
        return {
            "hour": self.start,
            "hours": self.hours,
            "request_rate": self.rate,
            "replicas": int(prediction.deployment.replicas),
            "num_gpus": self.num_gpus,
            "ttft_ms": float(prediction.ttft) / MILLI,
            "tpot_ms": None if prediction.tpot is None else float(prediction.tpot) / MILLI,
            "slo_verdict": prediction.verdict,
            "usd_per_hour": prediction.usd_per_hour,
            "backlog": self.backlog,
            "late_s": self.late,
        }


@dataclass(frozen=True, repr=False)
class Day(Answer[dict[str, Json]]):
    """A day of one plan, whose replicas follow the rate.

    >>> import roofline as rl
    >>> best = rl.plan("llama-3.1-8b", "h100-sxm", slo="ttft:300,tpot:15", request_rate=60).best
    >>> day = rl.day(best, "8:5,12:60,20:8", start_up="3m")
    >>> day.gpu_hours < day.fixed_gpu_hours, len(day.to_dict(["hour"])["rows"]), day.bill(0.0)
    (True, 3, 0.0)
    """

    gpu: str
    spans: tuple[Span, ...]  # from the first hour stated on, around the clock
    start_up: float  # [s] until a new replica answers

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of a day in which replicas start when the rate rises, and stop when it falls."""
        return sum(span.num_gpus * span.hours for span in self.spans)

    @property
    def gpu_hours_ahead(self) -> float:
        """The same where replicas start early enough that none is late."""
        return self.gpu_hours + sum(added for _, added in self._started) * self.start_up / HOUR

    @property
    def fixed_gpu_hours(self) -> float:
        """GPU-hours of a fleet for the busiest hour, all day."""
        return max(span.num_gpus for span in self.spans) * HOURS

    @property
    def usd_per_gpu_hour(self) -> float | None:
        """Typical rent of one GPU [USD/h]; None where it is not known."""
        first = self.spans[0].prediction
        return None if first.usd_per_hour is None else float(first.usd_per_hour) / self.spans[0].num_gpus

    @property
    def late_share(self) -> float:
        """Share of the requests of the day that arrive while replicas start or a backlog drains [1]."""
        requests = sum(span.rate * span.hours * HOUR for span in self.spans)
        late = sum(span.rate * min(span.late, span.hours * HOUR) for span in self.spans)
        return late / requests if requests else 0.0

    @property
    def _started(self) -> list[tuple[Span, int]]:
        """Spans at whose start GPUs are added, and how many."""
        before = [self.spans[-1], *self.spans[:-1]]
        pairs = zip(self.spans, before, strict=True)
        return [(span, span.num_gpus - last.num_gpus) for span, last in pairs if span.num_gpus > last.num_gpus]

    def bill(self, gpu_hours: float) -> float | None:
        """Rent of GPU-hours [USD]; None where it is not known."""
        return None if self.usd_per_gpu_hour is None else gpu_hours * self.usd_per_gpu_hour

    def __str__(self) -> str:
        saved = 1.0 - self.gpu_hours / self.fixed_gpu_hours
        text = f"{_amount(self, self.gpu_hours)} a day, against {_amount(self, self.fixed_gpu_hours)} for a fixed fleet"
        text += f" ({100.0 * saved:.0f} % less)" if saved > 0.0 else ""
        if not self._started or not self.start_up:
            return text
        worst = max(self.spans, key=lambda span: span.late)
        late = (
            f"{100.0 * self.late_share:.2g} % of the requests arrive before the replicas that they need have caught up"
        )
        most = f"at {worst.start:g} h {worst.backlog:,.0f} requests wait, gone after {to_text(worst.late, 's')}"
        most = most if worst.backlog >= 1.0 else "no backlog builds up"
        ahead = f"started {to_text(self.start_up, 's')} ahead, {_amount(self, self.gpu_hours_ahead)} and none is late"
        return f"{text}; {late}, {most}; {ahead}"

    def __repr__(self) -> str:
        return f"<Day {self.gpu}: {self}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Rows of the hours, and totals.

        Args:
            keys: the keys to keep; None for all.
        """
        rows: list[Any] = selected_rows((span.to_dict() for span in self.spans), keys)
        totals: dict[str, Json] = {
            "gpu_hours": self.gpu_hours,
            "gpu_hours_ahead": self.gpu_hours_ahead,
            "fixed_gpu_hours": self.fixed_gpu_hours,
            "usd_per_day": self.bill(self.gpu_hours),
            "usd_per_day_ahead": self.bill(self.gpu_hours_ahead),
            "fixed_usd_per_day": self.bill(self.fixed_gpu_hours),
            "late_share": self.late_share,
        }
        return {"rows": rows, **totals}


def day(
    plan: GpuPlan,
    rate_by_hour: str | Path | Mapping[float, float] | Sequence[float],
    *,
    start_up: float | str = 0.0,
) -> Day:
    """Replicas of a plan by hour, as many as meet its SLO at the rate of the hour, and the bill of the day.

    .. math:: B = \\max(0, \\lambda - r_0 \\mu) S,\\quad \\text{gone after } S + \\frac{B}{r_1 \\mu - \\lambda}

    Where the rate rises, replicas start then and answer after `start_up`; what the old ones cannot answer waits.

    Args:
        plan: one that `plan` returned; its degrees and formats stay, its number of replicas follows the rate.
        rate_by_hour: requests per second from an hour on, ``8:5,12:20,20:8`` or a mapping; 24 numbers, one an hour; or
            the path of a CSV file with columns hour and rate and all 24 hours [1/s].
        start_up: time until a new replica answers, such as ``5m`` [s].

    Returns:
        The hours with their replicas, GPU-hours and rent, beside those of a fleet for the busiest hour.

    Raises:
        BadInput: rates with gaps, an hour stated twice, or a rate that the plan serves with no number of replicas.

    Valid:
        Quasi-static: each hour is in the steady state of its rate; at least one replica always runs.

    Source:
        The fluid limit of a queue, as in Newell, "Applications of Queueing Theory", 2nd edition, 1982, chapter 2.

    >>> import roofline as rl
    >>> best = rl.plan("llama-3.1-8b", "h100-sxm", slo="ttft:300,tpot:15", request_rate=60).best
    >>> [row["hours"] for row in rl.day(best, "8:5,12:60,20:8").to_rows()]
    [4.0, 8.0, 12.0]
    """
    if plan.prediction is None:
        raise BadInput(f"no plan for the day: {plan.reason}")
    if not plan.prediction.workload.load.is_open:
        raise BadInput("a day follows a request rate; plan for the rate of its busiest hour")
    rates = rates_of_day(rate_by_hour)
    delay = scalar(start_up)
    delay = number("start_up", _delay(delay) if isinstance(delay, str) else delay, 0.0, _LONGEST_START)
    case: dict[str, Any] = {
        name: value for name, value in plan.options.items() if name not in ("model", "gpu", "num_gpus", "request_rate")
    }
    by_rate: dict[float, GpuPlan] = {}
    for _, rate in rates:
        if rate in by_rate:
            continue
        (found, *_) = planned(plan.model, plan.gpu, request_rate=max(rate, _LEAST), **case).plans
        if found.prediction is None:
            raise BadInput(f"{rounded(rate)} requests/s: {found.reason}")
        by_rate[rate] = found
    spans = []
    for place, (hour, rate) in enumerate(rates):
        following = rates[(place + 1) % len(rates)][0]
        hours = (following - hour) % HOURS or HOURS
        before = by_rate[rates[place - 1][1]]
        backlog, late = _late(before, by_rate[rate], rate, delay)
        spans.append(Span(hour, hours, rate, by_rate[rate], backlog, late))
    return Day(plan.gpu.name, tuple(spans), delay)


def _late(before: GpuPlan, after: GpuPlan, rate: float, delay: float) -> tuple[float, float]:
    """Requests that wait when the missing replicas have started, and the time until they are served [s]."""
    old, new = before.prediction, after.prediction
    if old is None or new is None or delay == 0.0 or new.deployment.num_gpus <= old.deployment.num_gpus:
        return 0.0, 0.0
    most_before, most_after = float(old.max_request_rate or 0.0), float(new.max_request_rate or 0.0)
    backlog = max(rate - most_before, 0.0) * delay
    return backlog, delay + backlog / (most_after - rate)


def _delay(text: str) -> float:
    """A delay [s] from a text such as ``90s``, ``5m`` or ``0.5h``."""
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(s|sec|m|min|h)", text.strip().lower())
    if match is None:
        raise BadInput(f"start_up = {shown(text)} must be a time such as 90s, 5m or 0.5h")
    return float(match[1]) * {"s": 1.0, "m": MINUTE, "h": HOUR}[match[2][0]]


def _amount(answer: Day, gpu_hours: float) -> str:
    bill = answer.bill(gpu_hours)
    return f"{rounded(gpu_hours)} GPU-hours" + ("" if bill is None else f" ({bill:,.0f} USD)")
