"""Levers of a case under load: the effect of each alone, and of the best few together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

from roofline.analysis.goodput import largest_rate, share_is_met
from roofline.api.goodput import check_share
from roofline.api.inputs.arguments import scalar, values_of
from roofline.api.inputs.pools import choice
from roofline.api.inputs.slo import slo_limits
from roofline.api.inputs.texts import plain_options
from roofline.api.levers.candidates import Lever, Start, candidates
from roofline.api.levers.disaggregate import disaggregate
from roofline.api.levers.pool_answer import Disaggregation
from roofline.api.levers.pulled import GOALS, Levers, Pulled, is_better
from roofline.api.levers.quality import SAME_ANSWERS, both_qualities, is_free
from roofline.api.levers.splits import POOLS, split_options
from roofline.api.predict import predict
from roofline.api.ranking import meeting_first
from roofline.errors import BadInput, RooflineError, shown
from roofline.records import replace
from roofline.serving.latency import RATE, USERS
from roofline.serving.prediction import Prediction
from roofline.serving.verdict import UNKNOWN
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.slo import metric_and_level

if TYPE_CHECKING:
    from roofline.api.inputs.options import CompareOptions


#: Name of the reference row.
AS_IT_IS = "as it is"

_TOGETHER = "together"
_MOST_TOGETHER = 3  # levers
_TRIED = 3  # levers to combine with those already pulled, where each needs a goodput search
_MOST_WAYS = 2  # to pull one lever that need a goodput search: the nearest to the SLO at this load
_DIGITS = 6  # significant, in a comparison of scores
_NOT_HERE = {
    "batch": "a burst on an idle server has no queue and no percentiles",
    "num_prompts": "percentiles need a steady state",
    "measured": "a measurement is of one deployment only",
    "allow_oversize": "a lever that does not fit is listed with the reason",
}
_NUMBERS = ("isl", "osl", "prefix", RATE, USERS)


def levers(
    model: str | Model,
    gpu: str | Gpu,
    *,
    goal: str | None = None,
    share: float | str | None = None,
    **options: Unpack[CompareOptions],
) -> Levers:
    """Every lever of a case under a load: alone, and the best few together.

    All levers keep the plan and the number of GPUs of the unchanged case. Combinations grow greedily: each step adds
    the most effective lever of another kind, up to three. Separate pools have their own plans, and are not combined.

    Args:
        model: name, alias or record.
        gpu: name, alias, pool or record.
        goal: ``ttft`` (its p99), ``tpot``, ``goodput``, or ``cost`` of a request, at the goodput where there is an SLO,
            else at this load; None for ``tpot`` where the unchanged case misses an SLO by its TPOT most, else ``ttft``.
        share: of the requests that must meet the limits without a percentile together, as in `goodput` [1].
        options: keyword arguments of `predict` with `concurrency` or `request_rate`; lengths and load are single
            numbers.

    Returns:
        The unchanged case, its levers by their effect on the goal, with an SLO those that meet it at this load first,
        and those that cannot be pulled, with the reason.

    Raises:
        BadInput: no load, another goal, a goal without its SLO or price, or as `predict` raises.
        RooflineError: the unchanged case cannot be run.

    Valid:
        Gains hold at this load; the order may differ at another.

    >>> import roofline as rl
    >>> rl.levers("llama-3.1-8b", "h100-sxm", goal="tpot", request_rate=4, basis="ideal").best.name
    'smaller: llama-3.2-3b'
    """
    goal_name = scalar(goal)
    if goal_name is not None and (not isinstance(goal_name, str) or goal_name not in GOALS):
        raise BadInput(f"goal = {shown(goal)} must be one of {', '.join(GOALS)}")
    pooled = choice(gpu, _plain_case(dict(options)))
    limits = slo_limits(pooled.options["slo"]) if pooled.options.get("slo") is not None else None
    if goal_name == "goodput" and not limits:
        raise BadInput("goodput needs an SLO: --slo ttft:300,tpot:25, slo='ttft:300ms@p95,tpot:25ms'")
    case = {**pooled.options, **({} if limits is None else {"slo": limits})}
    first = predict(model, pooled.gpu, **case)
    goal_name = goal_name or _goal_of_limits(first)
    plan = {"tp": first.deployment.plan.tp, "num_gpus": first.deployment.num_gpus}
    gpu_name = pooled.gpu if isinstance(pooled.gpu, (str, Gpu)) else pooled.gpu.gpu
    session = _Session(goal_name, check_share(share), {"model": model, "gpu": gpu_name, **case, **plan})
    start = session.start
    if start.score(goal_name) == float("inf"):
        raise BadInput(_no_goal(goal_name, start))
    alone, refused = [], {}
    for lever in candidates(Start(start.prediction, start.options)):
        pulled = session.best_of(lever)
        if isinstance(pulled, str):
            refused[lever.kind] = pulled
        else:
            alone.append(pulled)
    alone.sort(key=lambda row: (not row.meets_slo, _place(row.score(goal_name), start.score(goal_name))))
    together = list(session.together(alone))
    if together and not is_free(together[-1].quality):
        together += list(session.together([row for row in alone if is_free(row.quality)]))[-1:]
        together = meeting_first(together, lambda row: row.verdict)
    return Levers(goal_name, start, tuple(alone), tuple(together), refused, _notes(goal_name, start))


class _Session:
    """Predictions of a case with levers pulled."""

    def __init__(self, goal: str, share: float | None, options: Mapping[str, Any]) -> None:
        self.goal, self.share = goal, share
        start = self._pulled(AS_IT_IS, "reference", (), options, None)
        self.start = self.with_goodput(start)
        self.of_goodput = bool(start.answer.slo) and goal in ("goodput", "cost")

    def best_of(self, lever: Lever) -> Pulled | str:
        """The best way to pull a lever, or why there is none."""
        tried, errors = [], []
        for way in lever.choices:
            try:
                tried.append(self.pull(way.name, lever.kind, (way.name,), way.changes, lever, is_trial=True))
            except RooflineError as error:
                errors.append(str(error))
        if not tried:
            return lever.reason or errors[0]
        if self.of_goodput:
            nearest = sorted(tried, key=lambda row: row.excess)[:_MOST_WAYS]
            return min(map(self.with_goodput, nearest), key=self._rank)
        return self.with_goodput(min(tried, key=self._rank))

    def _rank(self, row: Pulled) -> tuple[bool, float]:
        """What meets the SLO first, then by the goal."""
        return not row.meets_slo, row.score(self.goal)

    def pull(
        self,
        name: str,
        kind: str,
        parts: tuple[str, ...],
        changes: Mapping[str, Any],
        lever: Lever | None = None,
        *,
        is_trial: bool = False,
    ) -> Pulled:
        """The case with changed options; a trial has no goodput."""
        options = {**self.start.options, **changes}
        if POOLS[0] in changes:
            options = {**split_options(self.start.options), **changes}
        row = self._pulled(name, kind, parts, options, lever)
        return row if is_trial else self.with_goodput(row)

    def with_goodput(self, row: Pulled) -> Pulled:
        """The row with its goodput, where there is an SLO."""
        answer = row.answer
        if not answer.slo:
            return row
        before = row.before
        if before is not None and _deployed(row.options) == _deployed(before.options):
            return replace(row, goodput=before.goodput)
        if isinstance(answer, Prediction):
            return replace(
                row, goodput=largest_rate(answer.deployment, answer.workload, answer.slo, self.share, answer.correction)
            )
        return replace(row, goodput=answer.goodput(share=self.share))

    def together(self, alone: Sequence[Pulled]) -> Iterator[Pulled]:
        """The best levers pulled together, one more each time."""
        helpful = [row for row in alone if row.helps(self.goal) and isinstance(row.answer, Prediction)]
        if not helpful:
            return
        pulled, places = helpful[0], [helpful[0].place]
        while len(places) < _MOST_TOGETHER:
            others = [row for row in helpful if row.place not in places]
            others = others[:_TRIED] if self.of_goodput else others
            tried = [combined for row in others if (combined := self._combined(pulled, row)) is not None]
            best = min(tried, key=lambda pair: self._rank(pair[0]), default=None)
            if best is None or (pulled.meets_slo and not best[0].meets_slo):
                return
            meets_now = best[0].meets_slo and not pulled.meets_slo
            if not meets_now and not is_better(best[0].score(self.goal), pulled.score(self.goal)):
                return
            pulled = self.with_goodput(best[0]) if best[0].goodput is None else best[0]
            places.append(best[1].place)
            yield pulled

    def _combined(self, pulled: Pulled, other: Pulled) -> tuple[Pulled, Pulled] | None:
        """A row with the levers of another added, and that other; None where they do not combine."""
        start = self.start.options
        options = (*pulled.options.items(), *other.options.items())
        changes = {name: value for name, value in options if value != start.get(name)}
        parts = (*pulled.parts, *other.parts)
        quality = both_qualities(pulled.quality, other.quality)
        assumptions = dict.fromkeys(filter(None, (pulled.assumption, other.assumption)))
        lever = Lever(_TOGETHER, (), quality, "; ".join(assumptions) or None)
        with suppress(RooflineError):
            name, is_trial = " + ".join(parts), not self.of_goodput
            return self.pull(name, _TOGETHER, parts, changes, lever, is_trial=is_trial), other
        return None

    def _pulled(
        self, name: str, kind: str, parts: tuple[str, ...], options: Mapping[str, Any], lever: Lever | None
    ) -> Pulled:
        answer: Prediction | Disaggregation = disaggregate(**options) if POOLS[0] in options else predict(**options)
        before: Pulled | None = getattr(self, "start", None)
        quality = SAME_ANSWERS if lever is None else lever.quality
        assumption = None if lever is None else lever.assumption
        place = kind if lever is None or lever.excludes is None else lever.excludes
        shared = None
        if self.share is not None and isinstance(answer, Prediction) and answer.slo:
            shared = share_is_met(answer.deployment, answer.workload, answer.slo, self.share, answer.correction)
        return Pulled(name, kind, parts, options, answer, None, quality, assumption, place, before, shared)


def _deployed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without the load, on which a goodput does not depend."""
    return {name: value for name, value in options.items() if name not in (RATE, USERS)}


def _place(score: float, than: float) -> float:
    """Sort key of a score, rounded so that ties keep their order."""
    return round(score / abs(than), _DIGITS) if than else score


def _plain_case(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a single case under a load; others are refused."""
    for name, why in _NOT_HERE.items():
        value = scalar(options.pop(name, None))
        if value is not None and value is not False:
            raise BadInput(f"levers takes no {name}: {why}")
    plain = {name: value for name, value in plain_options(options).items() if value is not None}
    if not {RATE, USERS} & set(plain):
        raise BadInput("levers need a load: give --request-rate or --concurrency (request_rate=2 in Python)")
    for name in _NUMBERS:
        if values_of(name, plain.get(name)) is not None:
            raise BadInput(
                f"levers takes one case: {name} = {shown(plain[name])} must be a single number, not an array"
            )
    return plain


def _goal_of_limits(start: Prediction) -> str:
    """The goal where none is stated: TPOT where the case misses its SLO, and its limit binds; else TTFT."""
    shares = start.slo_shares
    binding = max(shares, key=lambda key: float(shares[key]), default=None)
    is_tpot = binding is not None and metric_and_level(binding)[0] == "tpot"
    return "tpot" if is_tpot and not start.slo_met else "ttft"


def _no_goal(goal: str, start: Pulled) -> str:
    """Why the goal has no value."""
    if goal == "cost":
        gpu = start.prediction.deployment.gpu.name
        if start.goodput is not None and start.prediction.usd_per_hour is not None:
            return "next to no request meets the SLO as it is, so that none has a cost; rank by goodput"
        return f"no rental price of {gpu} is known; give --gpu-price, or rank by ttft, tpot or goodput"
    return "an answer of one token has no TPOT; rank by ttft"


def _notes(goal: str, start: Pulled) -> tuple[str, ...]:
    deployment = start.prediction.deployment
    where = f"{deployment.num_gpus} x {deployment.gpu.name}, tp {deployment.plan.tp}"
    notes = [f"all levers at {where}, unless a lever says otherwise"]
    if start.goal_figure(goal) == "ttft":
        notes.append(f"ranked by the mean TTFT, as the p99 is not known: {UNKNOWN}")
    if goal == "cost" and start.goodput is None:
        notes.append(
            "without an SLO the cost is that of this load, which at a given rate the GPUs alone decide; give --slo for "
            "the cost at the goodput"
        )
    return tuple(notes)
