"""Levers of a case under load: the effect of each alone, and of the best few together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast, overload

from roofline.numbers.operations import Json, is_nan
from roofline.numbers.quantity import HOUR
from roofline.questions.alternatives import (
    POOLS,
    SAME_ANSWERS,
    Kernels,
    both_qualities,
    is_free,
    kernels_of,
    reason_of,
    reason_of_pools,
    split_options,
)
from roofline.questions.disaggregate import Disaggregation, disaggregate
from roofline.questions.goodput import GOODPUT_KEYS, check_share
from roofline.questions.inputs.arguments import (
    named_records,
    plain_options,
    required_limits,
    scalar,
    single_numbers,
    slo_limits,
    without,
)
from roofline.questions.inputs.deployment import choice
from roofline.questions.inputs.flags import cache_flags, changed_flags, pool_flags
from roofline.questions.inputs.options import understood
from roofline.questions.lever_choices import Lever, Start, candidates
from roofline.questions.predict import DEFAULT_ENGINE, asked_case, given_gpu, meeting_first, meets, predict
from roofline.serving import answers
from roofline.serving.capacity import Goodput, largest_rate, share_verdict
from roofline.serving.comparison import SPEEDUP_KEYS
from roofline.serving.cost import usd_per_m_output_tok
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import LeverRow
from roofline.serving.shown import ROW_KEYS, gpus_text, times_text
from roofline.serving.shown import row as row_of
from roofline.serving.verdict import UNKNOWN
from roofline.specs.engine import HBM
from roofline.specs.gpu import Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.load import LASTING
from roofline.specs.model import Model
from roofline.specs.workload import BETWEEN_TOKENS, metric_and_level
from roofline.support.errors import BadInput, RooflineError, shown
from roofline.support.progress import each
from roofline.support.records import NamedTuple, dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Case


#: Name of the reference row.
AS_IT_IS = "as it is"

_TOGETHER = "together"
_MOST_TOGETHER = 3  # levers
_TRIED = 3  # levers to combine with those already pulled, where each needs a goodput search
_MOST_WAYS = 2  # to pull one lever that need a goodput search: the nearest to the SLO at this load
_DIGITS = 6  # significant, in a comparison of scores
_NUMBERS = ("isl", "osl", "prefix", *LASTING)


@overload
def levers(model: Prediction, *, goal: str | None = None, share: float | str | None = None) -> Levers: ...
@overload
def levers(
    model: str | Model,
    gpu: str | Gpu,
    *,
    goal: str | None = None,
    share: float | str | None = None,
    **options: Unpack[Case],
) -> Levers: ...
@understood
def levers(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    goal: str | None = None,
    share: float | str | None = None,
    **options: Unpack[Case],
) -> Levers:
    """Every lever of a case under a load: alone, and the best few together.

    All levers keep the plan and the number of GPUs of the unchanged case. Combinations grow greedily: each step adds
    the most effective lever of another kind, up to three. Separate pools have their own plans, and are not combined.

    Args:
        model: name, alias or record; or a prediction under a load, in place of GPU and options.
        gpu: name, alias, pool or record.
        goal: ``ttft`` (its p99), ``tpot``, ``goodput``, or ``cost`` of a request, at the goodput where there is an SLO,
            else at this load; None for ``tpot`` where the unchanged case misses an SLO mostly by its TPOT, else
            ``ttft``.
        share: share of requests that must meet all limits without a percentile at once, as in `goodput` [1].
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
    asked = asked_case("levers", model, gpu, options)
    pooled = choice(given_gpu("levers", asked.gpu), _plain_case(asked.options))
    slo = pooled.options.get("slo")
    limits = required_limits("goodput", slo) if goal_name == "goodput" else slo_limits(slo)
    case = {**pooled.options, **({} if limits is None else {"slo": limits})}
    first = predict(asked.model, pooled.gpu, **case)
    goal_name = goal_name or _goal_of_limits(first)
    plan = {"tp": first.deployment.plan.tp, "num_gpus": first.deployment.num_gpus}
    gpu_name = pooled.gpu if isinstance(pooled.gpu, (str, Gpu)) else pooled.gpu.gpu
    session = _Session(goal_name, check_share(share, limits), {"model": asked.model, "gpu": gpu_name, **case, **plan})
    start = session.start
    if start.score(goal_name) == float("inf"):
        raise BadInput(_no_goal(goal_name, start))
    alone, refused = [], {}
    for lever in each(list(candidates(Start(start.prediction, start.options))), "levers"):
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
        shared: Mapping[str, Json] = {}
        if self.share is not None and isinstance(answer, Prediction) and answer.slo:
            shared = share_verdict(answer.deployment, answer.workload, answer.slo, self.share, answer.correction)
        return Pulled(name, kind, parts, options, answer, None, quality, assumption, place, before, shared)


def _deployed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without the load, on which a goodput does not depend."""
    return {name: value for name, value in options.items() if name not in LASTING}


def _place(score: float, than: float) -> float:
    """Sort key of a score, rounded so that ties keep their order."""
    return round(score / abs(than), _DIGITS) if than else score


def _plain_case(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a single case under a load; others are refused."""
    options = without("levers", options)
    plain = {name: value for name, value in plain_options(options).items() if value is not None}
    if not LASTING.keys() & set(plain):
        raise BadInput("levers need a load: give `request_rate` or `concurrency`")
    single_numbers("levers", plain, _NUMBERS)
    return plain


def _goal_of_limits(start: Prediction) -> str:
    """The goal where none is stated: TPOT where the case misses its SLO, and its limit binds; else TTFT."""
    shares = start.slo_shares
    binding = max(shares, key=lambda key: float(shares[key]), default=None)
    is_tpot = binding is not None and metric_and_level(binding)[0] in BETWEEN_TOKENS
    return "tpot" if is_tpot and not start.slo_met else "ttft"


def _no_goal(goal: str, start: Pulled) -> str:
    """Why the goal has no value."""
    if goal == "cost":
        gpu = start.prediction.deployment.gpu.name
        if start.goodput is not None and start.prediction.usd_per_hour is not None:
            return "next to no request meets the SLO as it is, so that none has a cost; rank by goodput"
        return f"no rental price of {gpu} is known; give `gpu_price`, or rank by ttft, tpot or goodput"
    return "an answer of one token has no TPOT; rank by ttft"


def _notes(goal: str, start: Pulled) -> tuple[str, ...]:
    deployment = start.prediction.deployment
    where = f"{gpus_text(deployment.gpu.name, deployment.num_gpus)}, tp {deployment.plan.tp}"
    notes = [f"all levers at {where}, unless a lever says otherwise"]
    if start.goal_figure(goal) == "ttft":
        notes.append(f"ranked by the mean TTFT, as the p99 is not known: {UNKNOWN}")
    if goal == "cost" and start.goodput is None:
        notes.append(
            "without an SLO the cost is that of this load, which at a given rate the GPUs alone decide; give `slo` for "
            "the cost at the goodput"
        )
    return tuple(notes)


# A case with levers pulled, compared with the unchanged case; and all levers of a case.

#: Goals that levers are ranked by, and their names.
GOALS = {"ttft": "TTFT p99", "tpot": "TPOT", "goodput": "goodput", "cost": "the cost of requests"}

#: Answer for a changed case: of one pool of GPUs, or of two.
Answer: TypeAlias = Prediction | Disaggregation

#: Least relative change that counts; smaller ones are within the rounding of a figure.
WORTH = 0.02


class _Ranked(NamedTuple):
    """A case with levers pulled, what its levers are ranked by, and the changes of its kernels."""

    pulled: Pulled
    goal: str
    kernels: Kernels | None


def _change(figure: str, words: str) -> Key[_Ranked]:
    return Key.number("1", f"Relative change of {words} against the case as it is.", lambda r: r.pulled.change(figure))


#: Keys of a row in addition to those of a prediction.
LEVER_KEYS: Keys[_Ranked] = {
    "lever": Key.text("What is changed, in words.", lambda r: r.pulled.name, is_open=False),
    "lever_kind": Key.text(
        "Kind of lever, reference for the case as it is, or together.", lambda r: r.pulled.kind, is_open=False
    ),
    "levers": Key.texts("Levers that are pulled together; one of a lever alone.", lambda r: list(r.pulled.parts)),
    **taken(SHARED, options=lambda r: named_records(r.pulled.options)),
    "ttft_p50_change": _change("ttft_p50", "TTFT p50"),
    "ttft_p99_change": _change("ttft_p99", "TTFT p99"),
    "tpot_change": _change("tpot", "TPOT"),
    "goodput": Key.number("1/s", GOODPUT_KEYS["goodput"].meaning, lambda r: r.pulled.figure("goodput")),
    **taken(GOODPUT_KEYS, goodput_binding=lambda r: None if r.pulled.goodput is None else r.pulled.goodput.binding),
    "goodput_change": _change("goodput", "the goodput"),
    "goodput_usd_per_m_output_tok": Key.number(
        "USD",
        "All of the rental per million output tokens at the goodput.",
        lambda r: r.pulled.goodput_usd_per_m_output_tok,
    ),
    "lever_usd_per_request": Key.number(
        "USD", "Rental per request, at the goodput where there is an SLO.", lambda r: r.pulled.cost
    ),
    "cost_change": _change("cost", "the rent per request, at the goodput where there is an SLO, else at this load"),
    "helps": Key.flag("Whether the lever moves the goal to the better.", lambda r: r.pulled.helps(r.goal)),
    **taken(
        SPEEDUP_KEYS,
        prefill_speedup=lambda r: None if r.kernels is None else r.kernels.prefill.speedup,
        decode_speedup=lambda r: None if r.kernels is None or r.kernels.decode is None else r.kernels.decode.speedup,
        why_prefill=lambda r: None if r.kernels is None else r.kernels.why_prefill,
        why_decode=lambda r: None if r.kernels is None else r.kernels.why_decode,
    ),
    **taken(SHARED, why=lambda r: r.pulled.why(r.goal)),
    "quality": Key.text("What the lever costs in the quality of answers, with the source.", lambda r: r.pulled.quality),
    "assumption": Key.text("What the lever assumes of the case.", lambda r: r.pulled.assumption),
    **taken(SHARED, flags=lambda r: r.pulled.flags),
    **taken(SHARED, reason=lambda _: None),
}
_ROW = (*(key for key in ROW_KEYS if key != "warnings"), *LEVER_KEYS, "warnings")

#: What the whole answer says.
GOAL_KEYS: Keys[Levers] = {
    "goal": Key.text("What the levers are ranked by: ttft, tpot, goodput or cost.", is_open=False),
}


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
    shared: Mapping[str, Json] = field(default_factory=dict, repr=False)  # keys of a verdict on the share asked for

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
        word = self.shared["slo_verdict"] if self.shared else self.answer.verdict
        return None if word is None else str(word)

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
            raise BadInput(f"{self.name} is not a prediction of one pool; its answer is that of disaggregate")
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

    def to_dict(self, goal: str = "ttft", keys: Iterable[str] | None = None) -> LeverRow:
        """Flat row of the JSON contract: the keys of a prediction, and what the lever changes.

        Args:
            goal: what the levers are ranked by.
            keys: the keys to keep; None for all.
        """
        columns = _ROW if keys is None else answers.listed_keys(keys)
        answers.check_keys(columns, _ROW)
        changes = {key: LEVER_KEYS[key] for key in LEVER_KEYS if key in columns}
        row = {
            **self._row([key for key in ROW_KEYS if key in columns and key != "warnings"]),
            "slo_verdict": self.verdict,
            **self.shared,
            **cells(changes, _Ranked(self, goal, self.kernels)),
            "warnings": list(self.answer.warnings),
        }
        return cast("LeverRow", {key: row[key] for key in columns})

    @property
    def flags(self) -> list[str]:
        """Options of the engine that pull the levers, as they are typed."""
        if self.before is None:
            return []
        if not isinstance(self.answer, Prediction):
            return pool_flags(str(self.options.get("engine", DEFAULT_ENGINE)))
        then = self.before.prediction.deployment
        cached = (
            []
            if self.options.get("prefix") == self.before.options.get("prefix")
            else cache_flags(then.engine.name, HBM)
        )
        return [*changed_flags(then, self.answer.deployment), *cached]

    def _row(self, keys: Sequence[str]) -> dict[str, Any]:
        """Keys of a prediction, as far as the answer has them."""
        if isinstance(self.answer, Prediction):
            return row_of(self.answer, keys)
        whole: Mapping[str, Any] = self.answer.to_dict()
        start = {} if self.before is None else row_of(self.before.prediction, ("gpu", "engine"))
        return {**dict.fromkeys(keys), **start, **{key: whole[key] for key in keys if key in whole}}

    @property
    def _times(self) -> str:
        return times_text({name: self.figure(name) for name in ("ttft_p50", "ttft_p99", "tpot")}, is_mean=True)


@dataclass(frozen=True, repr=False)
class Levers(answers.Answer[LeverRow]):
    """Every lever of a case, the most effective first; with an SLO, those that meet it come before the others.

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
        """The goal in words."""
        return "mean TTFT" if self.start.goal_figure(self.goal) == "ttft" else GOALS[self.goal]

    @property
    def best(self) -> Pulled | None:
        """The most effective single lever, one that meets the SLO if any does; None where none helps."""
        return next((lever for lever in self.alone if lever.helps(self.goal)), None)

    @property
    def best_alike(self) -> Pulled | None:
        """The best of all that keep answers the same: a single lever if it meets the SLO; None where none helps."""
        alike = [row for row in (*self.alone, *self.together) if is_free(row.quality) and row.helps(self.goal)]
        return next(iter(meeting_first(alike, lambda row: row.verdict)), None)

    @property
    def nearest(self) -> Pulled | None:
        """What comes nearest to the SLO where nothing meets it; None where something does, or without an SLO."""
        rows = (self.start, *self.together, *self.alone)
        if not self.start.answer.slo or any(row.meets_slo for row in rows):
            return None
        return min(rows, key=lambda row: row.excess)

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The goal, the notes, and rows: the unchanged case, combinations, single levers, those that cannot be pulled.

        Args:
            keys: the keys to keep; None for all.
        """
        columns = _ROW if keys is None else answers.listed_keys(keys)
        rows: list[Any] = [row.to_dict(self.goal, columns) for row in (self.start, *self.together, *self.alone)]
        kept = ("model", "model_id", "gpu", "isl", "osl", "prefix", "load", "engine")
        nothing = {**dict.fromkeys(_ROW), **{key: rows[0][key] for key in kept if key in columns}}
        for name, why in self.refused.items():
            named = {"lever": name, "lever_kind": name, "levers": [name], "reason": why}
            row = {**nothing, **named, "flags": [], "warnings": []}
            rows.append({key: row[key] for key in columns})
        return {"goal": self.goal, "rows": rows, "notes": list(self.notes)}


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
