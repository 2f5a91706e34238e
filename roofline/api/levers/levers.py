"""The levers of one case under load: what each does alone, and the best few together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from roofline.analysis.goodput import largest_rate
from roofline.api.goodput import DEFAULT_SHARE, check_share
from roofline.api.inputs.arguments import scalar, values_of
from roofline.api.inputs.pools import choice
from roofline.api.inputs.slo import slo_limits
from roofline.api.inputs.texts import plain_options
from roofline.api.levers.candidates import Lever, Start, candidates
from roofline.api.levers.pool_answer import Disaggregation
from roofline.api.levers.pulled import GOALS, Levers, Pulled, is_better
from roofline.api.levers.quality import SAME_ANSWERS, both_qualities, is_free
from roofline.api.levers.splits import POOLS, pooled_answer, split_options
from roofline.api.predict import predict
from roofline.errors import BadInput, RooflineError, shown
from roofline.records import replace
from roofline.serving.latency import RATE, USERS
from roofline.serving.prediction import Prediction
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

if TYPE_CHECKING:
    from roofline.api.inputs.options import CompareOptions

__all__ = ["AS_IT_IS", "levers"]

#: Name of the row that the others are compared with.
AS_IT_IS = "as it is"

_TOGETHER = "together"
_MOST_TOGETHER = 3  # levers that are pulled together
_TRIED = 3  # levers that are tried beside those already pulled, where each costs a goodput
_MOST_WAYS = 2  # to pull one lever whose goodput is looked for: those nearest to the SLO at this load
_DIGITS = 6  # of a ratio that are told apart
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
    goal: str = "ttft",
    share: float | str = DEFAULT_SHARE,
    **options: Unpack[CompareOptions],
) -> Levers:
    """Every lever of a case under a load: alone, and the best few together.

    All levers are pulled at the plan and the number of GPUs of the case as it is. Together are, step by step, the lever
    that moves the goal most beside those already pulled, up to three of different kinds. Separate pools have plans of
    their own, and stand alone.

    Args:
        model: name, alias or record [text].
        gpu: name, alias, pool or record [text].
        goal: what is to be made better: ``ttft`` (its p99), ``tpot``, ``goodput``, or ``cost`` of a request, at the
            goodput where there is an SLO, else at this load [text].
        share: of the requests that must meet the SLO, as of `goodput` [1].
        options: keyword arguments of `predict` with `concurrency` or `request_rate`; lengths and load are single
            numbers.

    Returns:
        The case as it is, its levers by how far they move the goal, and those that cannot be pulled with the reason.

    Raises:
        BadInput: no load, another goal, one that needs an SLO or a price that is not there, or as `predict` raises.
        RooflineError: what is wrong with the case as it is.

    Valid:
        A lever's gain is that of this load; another load has another order.

    >>> import roofline as rl
    >>> rl.levers("llama-3.1-8b", "h100-sxm", goal="tpot", request_rate=4, basis="ideal").best.name
    'smaller: llama-3.2-3b'
    """
    wanted = scalar(goal)
    if not isinstance(wanted, str) or wanted not in GOALS:
        raise BadInput(f"goal = {shown(goal)} must be one of {', '.join(GOALS)}")
    pooled = choice(gpu, _plain_case(dict(options)))
    limits = slo_limits(pooled.options["slo"]) if pooled.options.get("slo") is not None else None
    if wanted == "goodput" and not limits:
        raise BadInput("goodput needs an SLO: --slo ttft:300,tpot:25, slo='ttft:300ms@p95,tpot:25ms'")
    case = {**pooled.options, **({} if limits is None else {"slo": limits})}
    first = predict(model, pooled.gpu, **case)
    plan = {"tp": first.deployment.plan.tp, "num_gpus": first.deployment.num_gpus}
    gpu_name = pooled.gpu if isinstance(pooled.gpu, (str, Gpu)) else pooled.gpu.gpu
    session = _Session(wanted, check_share(share), {"model": model, "gpu": gpu_name, **case, **plan})
    start = session.start
    if start.score(wanted) == float("inf"):
        raise BadInput(_no_goal(wanted, start))
    alone, refused = [], {}
    for lever in candidates(Start(start.prediction, start.options)):
        pulled = session.best_of(lever)
        if isinstance(pulled, str):
            refused[lever.kind] = pulled
        else:
            alone.append(pulled)
    alone.sort(key=lambda one: _place(one.score(wanted), start.score(wanted)))
    together = list(session.together(alone))
    if together and not is_free(together[-1].quality):
        together += list(session.together([one for one in alone if is_free(one.quality)]))[-1:]
    return Levers(wanted, start, tuple(alone), tuple(together), refused, _notes(wanted, start))


class _Session:
    """Predictions of changed cases of one start."""

    def __init__(self, goal: str, share: float, options: Mapping[str, Any]) -> None:
        self.goal, self.share = goal, share
        start = self._pulled(AS_IT_IS, "reference", (), options, None)
        self.start = self.with_goodput(start)
        self.of_goodput = bool(start.answer.slo) and goal in ("goodput", "cost")

    def best_of(self, lever: Lever) -> Pulled | str:
        """The best way to pull a lever; why there is none."""
        tried, errors = [], []
        for way in lever.choices:
            try:
                tried.append(self.pull(way.name, lever.kind, (way.name,), way.changes, lever, is_trial=True))
            except RooflineError as error:
                errors.append(str(error))
        if not tried:
            return lever.reason or errors[0]
        if self.of_goodput:
            nearest = sorted(tried, key=_excess)[:_MOST_WAYS]
            return min(map(self.with_goodput, nearest), key=lambda one: one.score(self.goal))
        return self.with_goodput(min(tried, key=lambda one: one.score(self.goal)))

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
        """The case with other options; a trial is without its goodput."""
        options = {**self.start.options, **changes}
        if POOLS[0] in changes:
            options = {**split_options(self.start.options), **changes}
        found = self._pulled(name, kind, parts, options, lever)
        return found if is_trial else self.with_goodput(found)

    def with_goodput(self, one: Pulled) -> Pulled:
        """The same with the largest rate within the SLO, where there is one."""
        found = one.answer
        if not found.slo:
            return one
        before = one.before
        if before is not None and _deployed(one.options) == _deployed(before.options):
            return replace(one, goodput=before.goodput)
        if isinstance(found, Prediction):
            return replace(
                one, goodput=largest_rate(found.deployment, found.workload, found.slo, self.share, found.correction)
            )
        return replace(one, goodput=found.goodput(share=self.share))

    def together(self, alone: Sequence[Pulled]) -> Iterator[Pulled]:
        """The best levers pulled together, one more each time."""
        helpful = [one for one in alone if one.helps(self.goal) and isinstance(one.answer, Prediction)]
        if not helpful:
            return
        pulled, places = helpful[0], [helpful[0].place]
        while len(places) < _MOST_TOGETHER:
            others = [one for one in helpful if one.place not in places]
            others = others[:_TRIED] if self.of_goodput else others
            tried = [found for one in others if (found := self._beside(pulled, one)) is not None]
            best = min(tried, key=lambda pair: pair[0].score(self.goal), default=None)
            if best is None or not is_better(best[0].score(self.goal), pulled.score(self.goal)):
                return
            pulled = self.with_goodput(best[0]) if best[0].goodput is None else best[0]
            places.append(best[1].place)
            yield pulled

    def _beside(self, pulled: Pulled, one: Pulled) -> tuple[Pulled, Pulled] | None:
        """A lever pulled beside others; None where that cannot be."""
        start = self.start.options
        changes = {name: value for name, value in one.options.items() if value != start.get(name)}
        parts = (*pulled.parts, *one.parts)
        quality = both_qualities(pulled.quality, one.quality)
        lever = Lever(_TOGETHER, (), quality, _joined(pulled.assumption, one.assumption))
        kept = {name: value for name, value in pulled.options.items() if value != start.get(name)}
        try:
            is_trial = not self.of_goodput
            return self.pull(" + ".join(parts), _TOGETHER, parts, {**kept, **changes}, lever, is_trial=is_trial), one
        except RooflineError:
            return None

    def _pulled(
        self, name: str, kind: str, parts: tuple[str, ...], options: Mapping[str, Any], lever: Lever | None
    ) -> Pulled:
        found: Prediction | Disaggregation = predict(**options) if POOLS[0] not in options else pooled_answer(options)
        before: Pulled | None = getattr(self, "start", None)
        quality = SAME_ANSWERS if lever is None else lever.quality
        assumption = None if lever is None else lever.assumption
        place = kind if lever is None or lever.beside is None else lever.beside
        return Pulled(name, kind, parts, options, found, None, quality, assumption, place, before)


def _excess(one: Pulled) -> float:
    """Largest share that a latency takes of its limit [1]."""
    return max((float(share) for share in one.answer.slo_shares.values()), default=0.0)


def _deployed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without the load, which a goodput does not depend on."""
    return {name: value for name, value in options.items() if name not in (RATE, USERS)}


def _place(score: float, than: float) -> float:
    """Where a score stands among others; those that differ by less than rounding stand together."""
    return round(score / abs(than), _DIGITS) if than else score


def _plain_case(options: dict[str, Any]) -> dict[str, Any]:
    """Options of one case under a load; what does not belong here refused."""
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


def _no_goal(goal: str, start: Pulled) -> str:
    """Why a goal has no figure."""
    if goal == "cost":
        gpu = start.prediction.deployment.gpu.name
        if start.goodput is not None and start.prediction.usd_per_hour is not None:
            return "no request meets the SLO as it is, so that none has a cost; rank by goodput"
        return f"no rental price of {gpu} is known; give --gpu-price, or rank by ttft, tpot or goodput"
    return "an answer of one token has no TPOT; rank by ttft"


def _notes(goal: str, start: Pulled) -> tuple[str, ...]:
    """What holds for all rows."""
    plan = start.prediction.deployment
    said = [f"all levers at {plan.num_gpus} x {plan.gpu.name}, tp {plan.plan.tp}, unless a lever says otherwise"]
    if goal == "cost" and start.goodput is None:
        said.append(
            "without an SLO the cost is that of this load, which at a given rate the GPUs alone decide; give --slo for "
            "the cost at the goodput"
        )
    return tuple(said)


def _joined(*texts: str | None) -> str | None:
    said = [text for text in dict.fromkeys(texts) if text is not None]
    return "; ".join(said) or None
