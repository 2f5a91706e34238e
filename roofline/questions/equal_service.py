"""What a token costs on several GPUs at the same SLO, along one of its limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from roofline.numbers.operations import Json
from roofline.numbers.quantity import MILLI, rounded
from roofline.outputs.panels import Panel, Series
from roofline.outputs.pictures import Picture
from roofline.questions.inputs.arguments import key_text, listed_names, named_records, scalar, slo_limits
from roofline.questions.inputs.case import LOADS
from roofline.questions.inputs.options import understood
from roofline.questions.pareto import Pareto, pareto
from roofline.questions.predict import at_load, predict
from roofline.questions.ranking import growth_factor, largest_load
from roofline.serving.answers import Answer, check_keys, listed_keys
from roofline.serving.prediction import Prediction
from roofline.serving.shown import KEYS, ROW_KEYS, gpus_text, plan_text
from roofline.serving.shown import row as row_of
from roofline.specs.gpu import Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.model import Model
from roofline.specs.workload import LATENCIES, Limits, metric_and_level
from roofline.support.errors import BadInput, RooflineError, UnknownName, shown
from roofline.support.progress import each
from roofline.support.records import NamedTuple, dataclass, field

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Many, ParetoOptions

_COST = "usd_per_m_output_tok"
_WIDE = 30.0  # ratio of costs from which on their axis is logarithmic
_PLACES = 8  # limits that are tried where none are given
_NEAR = 2  # plans on either side of a limit that are followed to it
_A_DIGIT = 1.005  # raises the last of three digits
_HALVINGS = 7  # of the range in which a claim begins to hold


class AtLimit(NamedTuple):
    """The least cost on one GPU within one limit."""

    gpu: str  # as it was asked for
    limit: float  # [s]
    prediction: Prediction | None  # at the largest load within the limit; None where no plan meets it
    options: Mapping[str, Any]  # of `predict`, that make it
    ratio: float | None = None  # cost on the first GPU over the cost on this one [1]

    @property
    def cost(self) -> float | None:
        """Rent per million output tokens [USD]."""
        return None if self.prediction is None else self.prediction.usd_per_m_output_tok


#: Keys of a row in addition to those of a prediction.
AT_LIMIT_KEYS: Keys[AtLimit] = {
    "asked_gpu": Key.text("GPU as it was asked for, with its formats.", lambda a: a.gpu, is_open=False),
    "limit_ms": Key.number("ms", "Limit within which the cost is the least.", lambda a: a.limit / MILLI, is_open=False),
    "cost_ratio": Key.number("1", "Cost on the first GPU over the cost on this one.", lambda a: a.ratio),
    **taken(SHARED, options=lambda a: named_records(a.options) if a.options else None),
}


@dataclass(frozen=True, repr=False)
class EqualService(Answer[dict[str, Json]]):
    """Costs at the same SLO, along one limit.

    >>> import roofline as rl
    >>> answer = rl.equal_service("llama-3.1-8b", ["h100-sxm", "b200"], basis="ideal", isl=1000, osl=200, tp=1)
    >>> len({row["limit_ms"] for row in answer.to_dict()["rows"]}) == len(answer.limits)
    True
    >>> [point.gpu for point in answer.at(answer.limits[0])]
    ['h100-sxm', 'b200']
    """

    model: str
    key: str  # of the limit that varies
    gpus: tuple[str, ...]
    limits: tuple[float, ...]  # [s], the loosest first
    points: tuple[AtLimit, ...] = field(repr=False)  # by limit, then by GPU
    claim: float | None = None  # ratio that was asked about [1]
    claim_limit: float | None = None  # the loosest limit at which the last GPU is so much cheaper [s]; None: nowhere
    notes: tuple[str, ...] = ()

    def at(self, limit: float) -> list[AtLimit]:
        """Points at one limit [s], in the order of the GPUs."""
        return [point for point in self.points if point.limit == limit]

    def __str__(self) -> str:
        name, first, last = key_text(self.key), self.gpus[0], self.gpus[-1]
        known = [point for point in self.points if point.gpu == last and point.ratio is not None]
        if known:
            most = max(known, key=lambda point: point.ratio or 0.0)
            ends = [known[0], known[-1], *([most] if most not in (known[0], known[-1]) else [])]
            texts = [f"{rounded(point.ratio or 0.0)}x at {name} {rounded(point.limit / MILLI)} ms" for point in ends]
            texts[2:] = [f"at most {text}" for text in texts[2:]]
            said = f"a token on {first} costs, over one on {last}: {', '.join(dict.fromkeys(texts))}"
        else:
            said = f"{first} and {last} share no limit that both meet"
        if self.claim is None:
            return said
        claimed = f"{rounded(self.claim)}x"
        true = sum((point.ratio or 0.0) >= self.claim for point in known)
        where = (
            f"{claimed} is reached at no limit that both meet"
            if self.claim_limit is None
            else f"{claimed} is first reached at {name} {rounded(self.claim_limit / MILLI)} ms, and holds at {true} of "
            f"the {len(known)} limits that both meet"
        )
        return f"{said}; {where}"

    def __repr__(self) -> str:
        return f"<EqualService {self.model}: {self}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Rows, the claim and notes as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        known = (*ROW_KEYS, *AT_LIMIT_KEYS)
        columns = known if keys is None else listed_keys(keys)
        check_keys(columns, known)
        own = {key: AT_LIMIT_KEYS[key] for key in columns if key in AT_LIMIT_KEYS}
        shared = tuple(key for key in columns if key in ROW_KEYS)
        rows: list[Any] = []
        for point in self.points:
            values = dict.fromkeys(shared) if point.prediction is None else row_of(point.prediction, shared)
            values |= {} if point.prediction is not None or "model" not in shared else {"model": self.model}
            values |= cells(own, point)
            rows.append({key: values[key] for key in columns})
        claim = None if self.claim_limit is None else self.claim_limit / MILLI
        return {"rows": rows, "claim": self.claim, "claim_limit_ms": claim, "notes": list(self.notes)}


@understood
def equal_service(
    model: str | Model,
    gpus: Many[str | Gpu],
    *,
    limit: str = "tpot",
    claim: float | str | None = None,
    **options: Unpack[ParetoOptions],
) -> EqualService:
    """The least cost of an output token on each GPU within the same SLO, along one of its limits.

    For every limit each GPU runs the plan and the number of users that cost least and meet it: users grow until the
    limit is met exactly. Plans are those of `pareto`; for each GPU, those whose points lie next to the limit are
    followed to it.

    Args:
        model: name, alias or record.
        gpus: names, pools with formats such as ``h200:fp8`` or records; the first is the reference.
        limit: key of the limit that varies: ``tpot``, ``ttft_p95`` and the like; from that of the SLO down.
        claim: a ratio of costs, such as ``15x``: the loosest limit at which it is true [1].
        options: keyword arguments of `predict`, as `pareto` takes them, without a load; other limits of the SLO hold
            all along.

    Returns:
        For every limit, the loosest first, the deployment of each GPU with its cost and its ratio to the reference.

    Raises:
        UnknownName: no such model, GPU or limit.
        BadInput: fewer than two GPUs, no rent, or no plan that meets the other limits.

    Valid:
        Users in a closed loop, in the steady state. A plan that lies on neither side of a limit among the tried loads
        is not followed to it.

    Source:
        docs/method.md, "Plans".

    >>> import roofline as rl
    >>> rl.equal_service("llama-3.1-8b", ["h100-sxm", "b200"], basis="ideal", isl=1000, osl=200, tp=1).key
    'tpot'
    """
    names = listed_names("gpus", gpus)
    if len(names) < 2:
        raise BadInput("costs at the same SLO need two GPUs or more, the reference first")
    load = next((name for name in LOADS if options.get(name) is not None), None)
    if load is not None:
        raise BadInput(f"users grow until a limit is met; leave out {load}")
    limits = Limits(slo_limits(options.get("slo")) or {})
    key = _key(limit)
    loosest = limits.pop(key, None)
    ratio = None if claim is None else growth_factor(claim, "claim")
    labels = [name if isinstance(name, str) else name.name for name in names]
    case: dict[str, Any] = {**options, "slo": limits or None}
    frontiers = [pareto(model, name, x=key, y=_COST, **case) for name in each(names, "GPUs")]
    for label, frontier in zip(labels, frontiers, strict=True):
        if not frontier.points:
            raise BadInput(f"{label}: {frontier.reason}")
    reference = [point.figures[0] * MILLI for point in frontiers[0].points]
    shared = min(max(point.figures[0] for point in frontier.points) for frontier in frontiers) * MILLI
    least = min(reference)
    most = (shared if shared > least else max(reference)) if loosest is None else loosest
    tightest = min(min(point.figures[0] for point in frontier.points) for frontier in frontiers) * MILLI
    least = min(least, most)
    places = [most * (least / most) ** (place / (_PLACES - 1)) for place in range(_PLACES)]
    if tightest < least:
        places.append(math.sqrt(tightest * least))
    places = list(dict.fromkeys(_rounded_up(place) for place in places))

    def at(place: float) -> list[AtLimit]:
        found = [
            _cheapest(label, frontier, Limits({**limits, key: place}), key)
            for label, frontier in zip(labels, frontiers, strict=True)
        ]
        reference = found[0].cost
        return [
            point._replace(ratio=None if reference is None or point.cost is None else reference / point.cost)
            for point in found
        ]

    points = [point for place in places for point in at(place)]
    where = None if ratio is None else _claimed(at, places, ratio)
    notes = tuple(dict.fromkeys(note for frontier in frontiers for note in frontier.notes))
    return EqualService(frontiers[0].model, key, tuple(labels), tuple(places), tuple(points), ratio, where, notes)


def _rounded_up(time: float) -> float:
    """A time in three digits, no smaller than it is [s]."""
    shown = float(f"{time:.3g}")
    return shown if shown >= time else float(f"{time * _A_DIGIT:.3g}")


def _key(limit: Any) -> str:
    """The key of a limit on a latency."""
    name = scalar(limit)
    text = name.strip().lower().removesuffix("_ms") if isinstance(name, str) else ""
    text = text.replace("@", "_").replace(" ", "_")
    known = f"{text}_ms" in KEYS and metric_and_level(text)[0] in LATENCIES if text else False
    if not known:
        raise UnknownName(f"limit = {shown(limit)} is not a latency; write tpot, ttft, e2el, ttft_p95 and the like")
    return text


def _cheapest(label: str, frontier: Pareto, limits: Limits, key: str) -> AtLimit:
    """The least cost within limits: plans near the limit, each with as many users as it allows."""
    limit = limits[key]
    inside = [point for point in frontier.points if point.figures[0] * MILLI <= limit]
    beyond = [point for point in frontier.points if point.figures[0] * MILLI > limit]
    near = [
        *sorted(inside, key=lambda point: -point.figures[0])[:_NEAR],
        *sorted(beyond, key=lambda point: point.figures[0])[:_NEAR],
    ]
    best: tuple[float, Prediction, dict[str, Any]] | None = None
    seen = []
    for point in near:
        case = {name: value for name, value in point.options.items() if name not in ("concurrency", "slo")}
        if case in seen:
            continue
        seen.append(case)
        try:
            start = predict(**case, concurrency=1, slo=limits)
            if not start.slo_met:
                continue
            users = largest_load(start)
            at_limit = at_load(start, start.workload.load.at(users))
        except RooflineError:
            continue
        cost = at_limit.usd_per_m_output_tok
        if cost is not None and (best is None or cost < best[0]):
            best = float(cost), at_limit, {**case, "concurrency": users, "slo": limits}
    return AtLimit(label, limit, None if best is None else best[1], {} if best is None else best[2])


def _claimed(at: Any, places: Sequence[float], ratio: float) -> float | None:
    """The loosest limit at which the last GPU is so many times cheaper than the first; None where it is nowhere."""
    before: float | None = None
    for place in places:
        found = at(place)[-1].ratio
        if found is not None and found >= ratio:
            low, high = place, before
            if high is None:
                return place
            for _ in range(_HALVINGS):
                middle = math.sqrt(low * high)
                between = at(middle)[-1].ratio
                if between is not None and between >= ratio:
                    low = middle
                else:
                    high = middle
            return low
        before = place
    return None


def deployment_text(point: AtLimit) -> str:
    """Plan and users of a point: text such as ``8x b200:tp1dp8ep8, 91 users``."""
    if point.prediction is None:
        return "no plan"
    deployment, load = point.prediction.deployment, point.prediction.workload.load
    plan = plan_text(deployment.plan)
    return f"{gpus_text(deployment.gpu.name, deployment.num_gpus)} ({plan}), {load.words(rounded(float(load.amount)))}"


def equal_service_picture(answer: EqualService) -> Picture:
    """Costs and their ratio against the limit."""
    from roofline.outputs.footer import case_footer

    name = f"{key_text(answer.key)} limit [ms]"
    series, ratios = [], []
    for number, gpu in enumerate(answer.gpus):
        known = [point for point in answer.points if point.gpu == gpu and point.cost is not None]
        known.sort(key=lambda point: point.limit)
        places = [point.limit / MILLI for point in known]
        series.append(Series(gpu, places, [float(point.cost or 0.0) for point in known], number))
        shared = [point for point in known if point.ratio is not None]
        if number:
            over = [float(point.ratio or 0.0) for point in shared]
            ratios.append(
                Series(f"{answer.gpus[0]} over {gpu}", [point.limit / MILLI for point in shared], over, number)
            )
    costs = [cost for line in series for cost in line.values]
    is_wide = bool(costs) and max(costs) > _WIDE * min(costs)
    levels = {} if answer.claim is None else {f"{rounded(answer.claim)}x": answer.claim}
    panels = [
        Panel(
            "Cost within the limit",
            name,
            "USD per million output tokens",
            series,
            is_logarithmic=True,
            is_y_logarithmic=is_wide,
        ),
        Panel("Cost over cost", name, "times", ratios, levels, is_logarithmic=True),
    ]
    cases = [point.prediction for point in answer.points if point.prediction is not None]
    title = f"{answer.model}: cost of a token at the same SLO"
    return Picture(title, panels, case_footer(cases, ("plan", "load", "slo")) if cases else "")
