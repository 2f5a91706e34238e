"""Whether speculative decoding pays off, by load and by the number of draft tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from roofline.numbers.operations import Json
from roofline.numbers.quantity import BILLION, rounded, to_text
from roofline.physics.plan import Draft
from roofline.questions.inputs.arguments import all_values, number, one_case, plain_options, without
from roofline.questions.inputs.case import LOADS
from roofline.questions.inputs.deployment import draft_of, draft_warnings, is_single_rate
from roofline.questions.inputs.flags import changed_flags
from roofline.questions.inputs.options import understood
from roofline.questions.predict import asked_case, given_gpu, predict
from roofline.serving.answers import Answer, selected
from roofline.serving.prediction import Prediction, predict_deployment
from roofline.serving.shown import KEYS, deployed_text
from roofline.specs.gpu import Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells
from roofline.specs.load import KIND_OF
from roofline.specs.model import Model
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple, dataclass, field, replace

if TYPE_CHECKING:
    from roofline.numbers.operations import Numbers
    from roofline.questions.inputs.signatures import Unloaded
    from roofline.serving.prediction import Predictions


class _Drafted(NamedTuple):
    """A load with a number of draft tokens."""

    tokens: int  # proposed before each decode step
    speedup: float  # NaN where it does not fit or is overloaded
    best: int  # number of draft tokens with the lowest TPOT at this load
    flags: tuple[str, ...] = ()  # options of the engine that propose so many


_OF_A_PREDICTION = (
    "model", "gpu", "num_gpus", "tp", "pp", "ep", "dp", "cp", "dcp", "batch", "concurrency", "request_rate", "draft",
    "draft_tokens",
    "tokens_per_step", "ttft_ms", "tpot_ms", "itl_ms", "tok_s_user", "output_tok_s_gpu",
)  # fmt: skip
_OWN: Keys[_Drafted] = {
    "draft_speedup": Key.number(
        "1", "TPOT without drafts over TPOT with them.", lambda d: None if math.isnan(d.speedup) else d.speedup
    ),
    "is_best": Key.flag(
        "Whether this number of proposed tokens has the least TPOT at its load.", lambda d: d.tokens == d.best
    ),
    "flags": SHARED["flags"]._replace(of=lambda d: list(d.flags)),
}
#: Keys of a row: a load and a number of draft tokens.
SPECULATION_KEYS: Keys[Any] = {**{key: KEYS[key] for key in _OF_A_PREDICTION}, **_OWN}

_USUAL = tuple(2.0**place for place in range(11))  # batches, or users
_USUAL_DRAFTS = 5
_HALVINGS = 30


@dataclass(frozen=True, repr=False)
class Speculation(Answer[dict[str, Json]]):
    """Decoding with draft tokens compared with decoding without them, at several loads.

    >>> import roofline as rl
    >>> result = rl.speculate("llama-3.1-8b", "h100-sxm", draft="ngram", acceptance=0.3, draft_tokens=3, batch=[1, 256])
    >>> result.best(1.0), result.best(256.0), round(result.stops_paying(3))
    (3, 1, 132)
    >>> [round(gain, 2) for gain in result.speedup(3)], result.tpot(0)[0] > result.tpot(3)[0], len(result.to_rows())
    ([1.41, 0.86], True, 8)
    >>> result.to_dict(["batch", "draft_tokens", "is_best"])["rows"][3]
    {'batch': 1.0, 'draft_tokens': 3, 'is_best': True}
    """

    along: str  # batch, concurrency or request_rate
    values: tuple[float, ...]  # loads
    draft: Draft  # with the largest number of draft tokens
    predictions: tuple[Predictions, ...] = field(repr=False)  # with 0, 1, 2, ... draft tokens
    warnings: tuple[str, ...] = ()

    def tpot(self, tokens: int) -> list[float]:
        """TPOT with this many draft tokens, at each load [s]; NaN where it does not fit or is overloaded."""
        times: Any = self.predictions[tokens].tpot
        return [float(time) for time in times]

    def speedup(self, tokens: int) -> list[float]:
        """TPOT without draft tokens over TPOT with this many, at each load [1]."""
        pairs = zip(self.tpot(0), self.tpot(tokens), strict=True)
        return [without / drafted for without, drafted in pairs]

    def best(self, value: float) -> int:
        """Number of draft tokens with the lowest TPOT at a load; 0 where drafts do not pay off [tokens]."""
        place = self.values.index(value)
        times = [self.tpot(tokens)[place] for tokens in range(len(self.predictions))]
        return min(range(len(times)), key=lambda tokens: math.inf if math.isnan(times[tokens]) else times[tokens])

    def stops_paying(self, tokens: int) -> float | None:
        """Load above which this many draft tokens cost time; None where they always pay off.

        Args:
            tokens: draft tokens per decode step [tokens].

        Returns:
            Batch [sequences], users [requests] or rate [1/s] where the last gain ends; the first load where there is
            no gain.
        """
        gains = self.speedup(tokens)
        paying = [place for place, gain in enumerate(gains) if gain > 1.0]
        known = [place for place, gain in enumerate(gains) if not math.isnan(gain)]
        if not known:
            return None
        if not paying:
            return self.values[known[0]]
        if paying[-1] == known[-1]:
            return None
        low, high = self.values[paying[-1]], self.values[paying[-1] + 1]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self._gain(tokens, middle) > 1.0 else (low, middle)
        return low

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The rows as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        return {"rows": self.to_rows(keys)}

    def to_rows(self, keys: Iterable[str] | None = None) -> list[dict[str, Json]]:
        """A flat row for each load and number of draft tokens; 0 is decoding without drafts.

        Args:
            keys: the keys to keep; None for all.
        """
        chosen = selected(SPECULATION_KEYS, keys)
        rows = []
        columns = [prediction.to_dict(_OF_A_PREDICTION) for prediction in self.predictions]
        plain = self.predictions[0].deployment
        told = [tuple(changed_flags(plain, prediction.deployment)) for prediction in self.predictions]
        for place, value in enumerate(self.values):
            best = self.best(value)
            for tokens, column in enumerate(columns):
                of_load = ((key, cell[place] if isinstance(cell, list) else cell) for key, cell in column.items())
                row: dict[str, Any] = dict(of_load)
                row |= {"draft": columns[-1]["draft"], "draft_tokens": tokens}
                row |= cells(_OWN, _Drafted(tokens, self.speedup(tokens)[place], best, told[tokens]))
                rows.append({key: row[key] for key in chosen})
        return rows

    def _gain(self, tokens: int, value: float) -> float:
        """Speed-up at any load."""
        times = []
        for prediction in (self.predictions[0], self.predictions[tokens]):
            workload = prediction.workload.at({self.along: value})
            times.append(float(predict_deployment(prediction.deployment, workload).tpot or math.nan))
        return times[0] / times[1]

    def __str__(self) -> str:
        first = self.values[0]
        best, where = self.best(first), f"at {self._load(first)}"
        if not best:
            return f"drafts do not pay {where}"
        times = [to_text(self.tpot(tokens)[0], "s") for tokens in (best, 0)]
        proposed = "1 proposed token is" if best == 1 else f"{best} proposed tokens are"
        text = f"{proposed} fastest {where}: TPOT {times[0]} instead of {times[1]} ({self.speedup(best)[0]:.2f}x)"
        return f"{text}; {self._end(best)}"

    def _end(self, tokens: int) -> str:
        """Where this many draft tokens stop paying off, in words."""
        end = self.stops_paying(tokens)
        if end is None:
            gains = zip(self.values, self.speedup(tokens), strict=True)
            known = [value for value, gain in gains if not math.isnan(gain)]
            return f"they pay at every load looked at, up to {self._load(known[-1])}"
        return f"they stop paying at {self._load(end)}"

    def _load(self, value: float) -> str:
        return KIND_OF[self.along].words(rounded(value))

    def __repr__(self) -> str:
        return f"<Speculation {deployed_text(self.predictions[0].deployment)}, {self.draft.method}: {self}>"


@overload
def speculate(
    model: Prediction,
    *,
    draft: str | Model | None = None,
    acceptance: float | str | Iterable[float] | None = None,
    draft_tokens: int | str | None = None,
    batch: Numbers | None = None,
    concurrency: Numbers | None = None,
    request_rate: Numbers | None = None,
) -> Speculation: ...
@overload
def speculate(
    model: str | Model,
    gpu: str | Gpu,
    *,
    draft: str | Model,
    acceptance: float | str | Iterable[float],
    draft_tokens: int | str | None = None,
    batch: Numbers | None = None,
    concurrency: Numbers | None = None,
    request_rate: Numbers | None = None,
    **options: Unpack[Unloaded],
) -> Speculation: ...
@understood
def speculate(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    draft: str | Model | None = None,
    acceptance: float | str | Iterable[float] | None = None,
    draft_tokens: int | str | None = None,
    batch: Numbers | None = None,
    concurrency: Numbers | None = None,
    request_rate: Numbers | None = None,
    **options: Unpack[Unloaded],
) -> Speculation:
    """Speculative decoding by load and number of draft tokens: which number is best, and where it stops paying off.

    Args:
        model: name, alias or record; or a prediction, in place of GPU and options: it keeps its plan, and its draft and
            its load where none is given.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        draft: source of draft tokens, as in `predict`.
        acceptance: probability that a draft token is accepted, as in `predict` [1].
        draft_tokens: most draft tokens per step; None for the number of acceptances, or 5 for a single one [tokens].
        batch: bursts to compare; powers of 2 where no load is given [sequences].
        concurrency: numbers of users to compare instead [requests].
        request_rate: Poisson arrivals to compare instead [1/s].
        options: keyword arguments of `predict`, without a load.

    Returns:
        The comparison.

    Raises:
        BadInput: several loads, or as `predict` raises.
        RooflineError: as `predict` raises.

    >>> import roofline as rl
    >>> result = rl.speculate("llama-3.1-8b", "h100-sxm", draft="ngram", acceptance=0.3, draft_tokens=3, batch=[1, 256])
    >>> print(result)  # doctest: +NORMALIZE_WHITESPACE
    3 proposed tokens are fastest at batch 1: TPOT 4.65 ms instead of 6.58 ms (1.41x);
    they stop paying at batch 132
    """
    loads = {"batch": batch, "concurrency": concurrency, "request_rate": request_rate}
    case = asked_case("speculate", model, gpu, options, ("slo", "gpu_price"))
    plain = case.options
    if isinstance(model, Prediction):
        plain = without("speculate", plain)
        of_case = {name: plain.pop(name, None) for name in (*loads, "draft", "acceptance", "draft_tokens")}
        if all(value is None for value in loads.values()):
            loads = {name: of_case[name] for name in loads}
        if draft is None:
            draft, acceptance, draft_tokens = (
                of_case["draft"],
                of_case["acceptance"] if acceptance is None else acceptance,
                of_case["draft_tokens"] if draft_tokens is None else draft_tokens,
            )
    load_names = [name for name, value in loads.items() if value is not None]
    if len(load_names) > 1:
        raise BadInput(f"{' and '.join(load_names)} are given; keep one")
    along = load_names[0] if load_names else LOADS[0]
    plain = {name: value for name, value in plain_options(plain).items() if value is not None}
    values = list(_USUAL)
    if load_names:
        values = [number(along, value, 0.0, BILLION) for value in all_values(along, loads[along])]
    kind = KIND_OF[along]
    plain[along] = kind.start if kind.is_burst or kind.is_open else values[-1]
    start: Prediction[Any, Any, Any] = predict(case.model, given_gpu("speculate", case.gpu), **plain)
    one_case("speculate", start.ttft)
    if start.tpot is None:
        raise BadInput("osl = 1: drafts quicken the tokens after the first; give an osl of 2 or more")
    drafts = draft_of(start.deployment, draft, draft_tokens or _most(acceptance), acceptance, plain.get("specs"))
    if drafts is None:
        raise BadInput("speculate needs a draft: mtp, eagle, ngram, or the name of a smaller model")
    values = _within(start, values, is_given=bool(load_names))
    predictions = [_prediction(start, along, values, None)]
    predictions += [
        _prediction(start, along, values, replace(drafts, acceptance=drafts.acceptance.of(tokens)))
        for tokens in range(1, drafts.tokens + 1)
    ]
    notes = [text for text in start.warnings if not text.startswith(("under load", "tp ="))]
    notes += draft_warnings(predictions[-1].deployment)
    return Speculation(along, tuple(values), drafts, tuple(predictions), tuple(notes))


def _most(acceptance: Any) -> int | None:
    """Number of draft tokens to try, where a single acceptance holds for all of them."""
    is_text_of_one = isinstance(acceptance, str) and is_single_rate(acceptance)
    return _USUAL_DRAFTS if is_text_of_one or isinstance(acceptance, (int, float)) else None


def _within(start: Prediction[Any, Any, Any], values: Sequence[float], *, is_given: bool) -> list[float]:
    """Loads to predict: the given ones, or the usual ones that fit in memory."""
    if is_given:
        return sorted(set(values))
    held = float(start.knees.memory or math.inf)
    return [value for value in values if value <= held] or [1.0]


def _prediction(
    start: Prediction[Any, Any, Any], along: str, values: Sequence[float], draft: Draft | None
) -> Prediction[Any, Any, Any]:
    from roofline.numbers.arrays import as_array

    deployment = replace(start.deployment, draft=draft)
    workload = start.workload.at({along: as_array(along, list(values))})
    return predict_deployment(deployment, workload, start.slo, allow_oversize=start.allow_oversize)
