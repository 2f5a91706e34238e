"""The Pareto frontier of two figures over GPUs, number formats, plans and loads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.numbers.operations import Json, element
from roofline.numbers.quantity import MEGA, counted, rounded
from roofline.outputs.panels import Marked, Scatter
from roofline.outputs.pictures import Picture, scatter_text
from roofline.questions.inputs.arguments import (
    COUNTS,
    all_values,
    key_text,
    listed_names,
    named_records,
    plain_options,
    scalar,
    single_numbers,
    slo_limits,
    without,
)
from roofline.questions.inputs.case import LEAST_RATE, LENGTHS, LOADS, RUN, TRAFFIC
from roofline.questions.inputs.deployment import check_settings, choice, found_gpu, found_model
from roofline.questions.inputs.figures import figure_key
from roofline.questions.inputs.load import MOST_USERS, user_counts
from roofline.questions.inputs.options import ALL, LISTED, QUESTIONS, understood
from roofline.questions.predict import answer_row, asked_case, predict
from roofline.serving.answers import Answer, check_keys, listed_keys
from roofline.serving.fewest import Degrees, possible_plans
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import ParetoRow
from roofline.serving.shown import KEYS, ROW_KEYS, plan_text, row
from roofline.specs.gpu import Gpu
from roofline.specs.keys import SHARED, Key, Keys, better, cells, taken
from roofline.specs.load import Load, Users, lasting_named, stated
from roofline.specs.model import Model
from roofline.specs.what_if import CHANGED
from roofline.specs.workload import LATENCIES
from roofline.specs.written import Pool
from roofline.support.errors import (
    BadInput,
    DoesNotFit,
    NoSteadyState,
    Overloaded,
    RooflineError,
    UnknownName,
    shown,
)
from roofline.support.progress import each
from roofline.support.records import NamedTuple, dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Many, ParetoOptions

#: Figures by default: what one user gets, and what one GPU gives.
X, Y = "tok_s_user", "output_tok_s_gpu"

_PLAN = ("tp", "pp", "ep", "dp", "cp", "dcp")
_COUNTED = ("pp", "dp", "cp", "dcp")
_FORMATS = ("quantization", "weights", "kv_cache_dtype")
_LABELS = {
    "tok_s_user": "tokens/s per user",
    "output_tok_s_gpu": "output tokens/s per GPU",
    "output_tok_s": "output tokens/s",
    "usd_per_m_output_tok": "USD per million output tokens",
    "usd_per_request": "USD per request",
    "usd_per_hour": "USD per hour",
    "request_rate": "requests/s",
    "max_request_rate": "requests/s at most",
}
_SHARES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, *(place / 20.0 for place in range(4, 20)), 0.97, 0.985)
_MOST_POINTS = int(2 * MEGA)
_DIGITS = 10  # that tell figures apart: those of equal cases differ in the last ones
_ROUNDING = 2.0**-30  # of the distance from the chord
_FEWEST = 3  # points of a frontier with a knee
_KNEE = "knee: the point farthest from the chord of the frontier, on log axes"
_RANGES = (
    "ranges: 80 % of measured cases; those of throughput and cost follow from the range of E2EL at the same users or "
    "batch, that of cost from the range of the rent too"
)
_MISSES, _UNKNOWN = "misses the SLO", "has a percentile that is not known"
#: Why no point is left -> what to do.
_TODO = {
    DoesNotFit.short: "try more GPUs a replica, GPUs with more memory, or narrower formats",
    Overloaded.short: "lower the rate, or add GPUs",
    NoSteadyState.short: "lower the load, or add GPUs",
    _UNKNOWN: "limit another percentile or a mean, or ask `simulate`",
    _MISSES: "loosen the SLO, lower the load, or try other GPUs, formats or plans",
}
_NO_FIGURE = (
    "choose another figure: a single token has no TPOT, a burst or a finite run no percentiles, and some GPUs have no "
    "rent in the catalog (gpu_price states it)"
)


# Pure functions: the frontier of some points, and its knee.


def maxima(points: Sequence[tuple[float, float]]) -> list[int]:
    """Places of the points that no other one dominates, the largest first figure first.

    A point dominates another if it is as large in both figures and larger in one. Of equal points the first stays.

    Args:
        points: pairs of figures of which more is better; of those where less is better, the negative [any].

    Source:
        The maxima of Kung, Luccio and Preparata, "On finding the maxima of a set of vectors", JACM 22(4), 1975.

    >>> maxima([(1.0, 5.0), (3.0, 2.0), (2.0, 2.0), (3.0, 2.0)])
    [1, 0]
    """
    kept: list[int] = []
    highest = -math.inf
    for place in sorted(range(len(points)), key=lambda place: (-points[place][0], -points[place][1], place)):
        if points[place][1] > highest:
            highest = points[place][1]
            kept.append(place)
    return kept


def frontier_knee(points: Sequence[tuple[float, float]]) -> int | None:
    """Place of the knee of a frontier: the point farthest beyond the chord between its ends, on log axes.

    .. math:: u = \\frac{\\ln(x / x_1)}{\\ln(x_n / x_1)},\\quad v = \\frac{\\ln(y / y_n)}{\\ln(y_1 / y_n)},\\quad
              \\max\\, u + v - 1

    An axis with a figure that is not positive is linear.

    Args:
        points: figures of a frontier in its order, in their own units [any].

    Returns:
        The place; None of fewer than three points, and where none lies beyond the chord.

    Source:
        Das, "On characterizing the 'knee' of the Pareto curve", Structural Optimization 18, 1999; on axes from 0 to 1
        as in Satopaa et al., "Finding a 'Kneedle' in a haystack", ICDCS Workshops 2011. Log axes, so that u + v is
        the logarithm of a Nash product, and no unit matters.

    >>> frontier_knee([(100.0, 1.0), (50.0, 50.0), (1.0, 100.0)]), frontier_knee([(4.0, 1.0), (2.0, 2.0), (1.0, 4.0)])
    (1, None)
    """
    if len(points) < _FEWEST:
        return None
    xs, ys = (_scaled([point[axis] for point in points]) for axis in (0, 1))
    beyond = [
        (x - xs[-1]) / (xs[0] - xs[-1]) + (y - ys[0]) / (ys[-1] - ys[0]) - 1.0 for x, y in zip(xs, ys, strict=True)
    ]
    place = max(range(len(points)), key=beyond.__getitem__)
    return place if beyond[place] > _ROUNDING else None


def _scaled(values: Sequence[float]) -> Sequence[float]:
    return [math.log(value) for value in values] if min(values) > 0.0 else values


# The answer.


@dataclass(frozen=True, repr=False)
class ParetoPoint(Answer[ParetoRow]):
    """A point of a frontier, and the keyword arguments of `predict` that make it."""

    options: Mapping[str, Any]  # of `predict`, with model and GPU
    keys: tuple[str, str]  # of both figures
    figures: tuple[float, float]  # in the units of their keys
    is_knee: bool = False

    @cached_property
    def prediction(self) -> Prediction:
        """The prediction of this case alone."""
        return predict(**self.options)

    @cached_property
    def ranges(self) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
        """Ends of the ranges of both figures, in the units of their keys; None where there is none."""
        return figure_range(self.prediction, self.keys[0]), figure_range(self.prediction, self.keys[1])

    @property
    def plan(self) -> str:
        """Plan and format, such as ``tp 4, fp8``; the checkpoint's own format is not named."""
        deployment = self.prediction.deployment
        return plan_text(deployment.plan, self.options.get("quantization"), deployment.replicas)

    def __repr__(self) -> str:
        deployment = self.prediction.deployment
        values = ", ".join(f"{key} {rounded(value)}" for key, value in zip(self.keys, self.figures, strict=True))
        load = self.prediction.workload.load.brief
        return f"<ParetoPoint {deployment.num_gpus}x {deployment.gpu.name} ({self.plan}), {load}: {values}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> ParetoRow:
        """Flat row of the JSON contract: the prediction, its place on the frontier and its options.

        Args:
            keys: the keys to keep; None for all.
        """
        columns = None if keys is None else listed_keys(keys)
        wanted = PARETO_KEYS if columns is None else {key: PARETO_KEYS[key] for key in columns if key in PARETO_KEYS}
        return cast("ParetoRow", answer_row(columns, PARETO_KEYS, self.prediction, {}, cells(wanted, self)))


def _end(axis: int, end: int) -> Key[ParetoPoint]:
    def value(point: ParetoPoint) -> float | None:
        ends = point.ranges[axis]
        return None if ends is None else ends[end]

    what = f"{('Lower', 'Upper')[end]} end of the range of the figure on the {'xy'[axis]} axis"
    return Key.number("as its key", f"{what}; null where it has none.", value)


#: Keys of a row of `pareto` beside those of a prediction.
PARETO_KEYS: Keys[ParetoPoint] = {
    **taken(SHARED, quantization=lambda p: p.options.get("quantization")),
    "x": Key.text("Key of the figure on the x axis.", lambda p: p.keys[0], is_open=False),
    "y": Key.text("Key of the figure on the y axis.", lambda p: p.keys[1], is_open=False),
    "x_low": _end(0, 0),
    "x_high": _end(0, 1),
    "y_low": _end(1, 0),
    "y_high": _end(1, 1),
    "frontier_knee": Key.flag(
        "Whether the point is the knee of the frontier: farthest from its chord on log axes.",
        lambda p: p.is_knee,
        is_open=False,
    ),
    **taken(SHARED, options=lambda p: named_records(p.options)),
}


@dataclass(frozen=True, repr=False)
class Pareto(Answer[ParetoRow]):
    """The points that no other point beats in both of two figures.

    >>> import roofline as rl
    >>> answer = rl.pareto("llama-3.1-8b", ["h100-sxm", "h200"], tp=[1, 2], batch="1:64:x4", basis="ideal")
    >>> answer.points[0], answer.points[-1].options["batch"]
    (<ParetoPoint 2x h200-sxm (tp 2), batch 1: tok_s_user 632, output_tok_s_gpu 304>, 64)
    >>> answer.to_dict(["gpu", "batch"])["rows"][0], answer.reason
    ({'gpu': 'h200-sxm', 'batch': 1}, None)
    """

    model: str
    keys: tuple[str, str]  # of the figures on the x and the y axis
    points: tuple[ParetoPoint, ...] = field(repr=False)  # by the first figure, the best first
    by_gpu: Mapping[str, tuple[tuple[float, float], ...]] = field(repr=False)  # figures of each GPU's own frontier
    count: int  # points tried
    left_out: Mapping[str, int] = field(repr=False)  # why, and how many of them
    refused: Mapping[str, str] = field(repr=False)  # deployment -> why it cannot run the case
    notes: tuple[str, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        best = "" if self.knee is None else f"; knee {repr(self.knee).removeprefix('<ParetoPoint ').removesuffix('>')}"
        return f"<Pareto {self.model}: {len(self.points)} of {counted(self.count, 'point')}{best}>"

    @property
    def knee(self) -> ParetoPoint | None:
        """The point farthest from the chord of the frontier on log axes; None where none lies beyond it."""
        return next((point for point in self.points if point.is_knee), None)

    @property
    def reason(self) -> str | None:
        """Why there is no point; None where there is one."""
        if self.points:
            return None
        why = max(self.left_out, key=self.left_out.__getitem__)
        tried = "the only point is left out" if self.count == 1 else f"none of {self.count} points is left"
        tried = f"{tried} ({self.left_out_text})"
        return f"{self.model}: {tried}; {_TODO.get(why, _NO_FIGURE)}"

    @property
    def left_out_text(self) -> str:
        """Why points are left out, and how many: text such as ``does not fit: 6, misses the SLO: 12``."""
        return ", ".join(f"{text}: {count}" for text, count in self.left_out.items())

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Rows and notes as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        columns = None if keys is None else listed_keys(keys)
        check_keys(columns or (), (*ROW_KEYS, *PARETO_KEYS))
        rows: list[Any] = [point.to_dict(columns) for point in self.points]
        return {"rows": rows, "notes": list(self.notes)}


@overload
def pareto(model: Prediction, gpus: None = None, *, x: str = X, y: str = Y, against: str | None = None) -> Pareto: ...
@overload
def pareto(
    model: str | Model,
    gpus: Many[str | Gpu],
    *,
    x: str = X,
    y: str = Y,
    against: str | None = None,
    **options: Unpack[ParetoOptions],
) -> Pareto: ...
@understood
def pareto(
    model: str | Model | Prediction,
    gpus: Many[str | Gpu] | None = None,
    *,
    x: str = X,
    y: str = Y,
    against: str | None = None,
    **options: Unpack[ParetoOptions],
) -> Pareto:
    """The Pareto frontier of two figures over GPUs, number formats, plans and loads.

    A point is on it if no other one is as good in both figures and better in one. Points that do not fit, have no
    steady state or miss the SLO by the central estimate are not on it. Which side is better follows from the unit of
    a figure: less of a time or of a price, more of a rate.

    Args:
        model: name, alias or record; or a prediction, in place of GPUs and options: plan and load are what varies.
        gpus: names, aliases, pools such as ``b200:tp4:fp8`` or records, one or several.
        x: key of a row, such as ``tok_s_user``, ``ttft_p99_ms`` or ``usd_per_m_output_tok``.
        y: another key.
        against: the load that varies where none is given: ``users`` (the default), from one to as many as a deployment
            has slots, or ``rate``, up to its saturation.
        options: keyword arguments of `predict`. Load, degrees, formats and `draft_tokens` may have several values;
            every combination is tried. Without `tp`, every plan within the scale-up domain is: all tp that divide the
            model, and for mixtures of experts dp in powers of two, with ep 1 and on all ranks.

    Returns:
        The points by the first figure, the best first, each with its options, ranges and prediction; with the knee.

    Raises:
        UnknownName: no such model, GPU, key or format.
        BadInput: a key without a better side, one key twice, several lengths, or a case that is impossible everywhere.

    >>> import roofline as rl
    >>> rl.pareto("llama-3.1-8b", "h100-sxm", tp=1, batch=[1, 8, 64], basis="ideal")
    <Pareto llama-3.1-8b: 3 of 3 points; knee 1x h100-sxm (tp 1), batch 8: tok_s_user 206, output_tok_s_gpu 1373>
    """
    keys = figure_key("x", x, X, Y), figure_key("y", y, X, Y)
    if keys[0] == keys[1]:
        raise BadInput(f"x and y are both {keys[0]}; a frontier needs two figures")
    asked = asked_case("pareto", model, None, options, LOADS, keeps_plan=False)
    gpus = asked.gpu if gpus is None else gpus
    if gpus is None:
        raise BadInput("pareto needs a model and one GPU or several, or a prediction alone: rl.pareto(rl.predict(...))")
    plain = _plain_case(asked.options)
    kind = stated(plain)
    if against is not None or kind.is_queue or kind.option not in plain:  # users of a run vary
        kind = _varied(against, plain)
    record, model_notes = found_model(asked.model, plain)
    loads = plain.pop(kind.option, None)
    odd = [load for load in loads or () if type(load) not in (int, float)]
    if odd:
        raise BadInput(f"{kind.option} = {shown(odd[0])} must be a number or a list of numbers")
    cases = _deployments(asked.model, record, gpus, plain)
    if loads is not None and len(cases) * len(loads) > _MOST_POINTS:
        raise BadInput(f"{len(cases) * len(loads)} points exceed the limit of {_MOST_POINTS}; use fewer values")
    found = _Found(keys)
    for case in each(cases, "deployments"):
        found.add(case, kind, loads)
    return found.answer(record.short_name, model_notes)


def _plain_case(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as plain values, and those of which several may be given as lists."""
    given = {name: value for name, value in without("pareto", options).items() if value is not None}
    several = QUESTIONS["pareto"].several
    single_numbers("pareto", given, [name for name in LENGTHS if name in LISTED and name not in several])
    lists = {name: list(dict.fromkeys(all_values(name, given[name]))) for name in several if name in given}
    plain = plain_options({name: value for name, value in given.items() if name not in lists})
    limits = {"slo": slo_limits(plain["slo"])} if plain.get("slo") else {}
    return {**plain, **limits, **lists}


def _varied(against: Any, options: Mapping[str, Any]) -> type[Load]:
    """The kind of load that varies where none is given."""
    name = scalar(against)
    kind = Users if name is None else lasting_named(name)
    other = next((name for name in LOADS if name != kind.option and name in options), None)
    if other is not None:
        raise BadInput(f"against = {shown(against)} and {other} are two loads; leave out one of them")
    return kind


# What is tried.


class _Case(NamedTuple):
    """A deployment to try, without its load."""

    gpu: str  # canonical name
    options: dict[str, Any]  # of `predict`


def _deployments(model: Any, record: Model, gpus: Any, options: Mapping[str, Any]) -> list[_Case]:
    """Every GPU in every combination of the values given, and in every plan where none is."""
    several = [name for name in QUESTIONS["pareto"].several if name in options]
    cases = []
    names = listed_names("gpus", gpus)
    check_settings(names, options)
    for name in names:
        for values in product(*(options[option] for option in several)):
            chosen = choice(name, {**options, **dict(zip(several, values, strict=True))})
            kind = chosen.gpu.gpu if isinstance(chosen.gpu, Pool) else chosen.gpu
            gpu, _ = found_gpu(kind, chosen.options)
            replicas = chosen.gpu.replicas if isinstance(chosen.gpu, Pool) else None
            for plan in _plans(record, gpu, chosen.options):
                named = {"model": model, "gpu": kind if isinstance(kind, Gpu) else gpu.name.rstrip(CHANGED), **plan}
                case = {**named, **chosen.options, **plan}
                if replicas is not None:
                    case["num_gpus"] = replicas * math.prod(plan.get(name, 1) for name in ("tp", "pp", "dp", "cp"))
                cases.append(_Case(gpu.name, {option: value for option, value in case.items() if value is not None}))
    return cases


def _plans(model: Model, gpu: Gpu, options: Mapping[str, Any]) -> list[dict[str, int]]:
    """Degrees to try: every plan within the scale-up domain where no tp is stated, else none but those stated."""
    degrees = {name: options.get(name) for name in _PLAN}
    ep, num_gpus = degrees["ep"], options.get("num_gpus")
    if degrees["tp"] is not None or not COUNTS.issuperset(map(type, (*(degrees[name] for name in _COUNTED), num_gpus))):
        return [{}]  # as stated, to be judged by `predict`
    if any(count is not None and count < 1 for count in (*(degrees[name] for name in _COUNTED), num_gpus)):
        return [{"tp": 1}]  # likewise
    fixed = Degrees(
        None, degrees["pp"] or 1, None if ep == ALL else ep, degrees["dp"], degrees["cp"] or 1, degrees["dcp"] or 1
    )
    plans = []
    for plan in possible_plans(model, gpu.node, math.inf, fixed):
        ranks = plan.expert_ranks
        is_even = num_gpus is None or num_gpus % plan.num_gpus == 0
        is_asked = plan.ep in (1, ranks) if ep is None else plan.ep == (ranks if ep == ALL else ep)
        if is_even and is_asked:
            plans.append({name: getattr(plan, name) for name in _PLAN if name == "tp" or getattr(plan, name) > 1})
    return plans or [{"tp": 1}]  # which `predict` refuses


class _Found:
    """Points of the deployments tried so far."""

    def __init__(self, keys: tuple[str, str]) -> None:
        self.keys = keys
        self.points: list[tuple[tuple[float, float], _Case, str, float]] = []  # figures, deployment, load
        self.count = 0
        self.left_out: Counter[str] = Counter()
        self.errors: dict[str, RooflineError] = {}

    def add(self, case: _Case, kind: type[Load], loads: Sequence[float] | None) -> None:
        """The points of a deployment under every load: the given ones, or those from an idle server to a full one."""
        amounts: Sequence[float] = loads or (1.0,)
        try:
            amounts = loads or _loads(case, kind)
            prediction = predict(**{**case.options, kind.option: [float(amount) for amount in amounts]})
        except UnknownName:
            raise
        except (DoesNotFit, Overloaded) as error:
            self.count += len(amounts)
            self.left_out[error.short] += len(amounts)
            return
        except RooflineError as error:
            self.errors[_label(case)] = error
            return
        self._take(case, kind, amounts, prediction)

    def _take(self, case: _Case, kind: type[Load], amounts: Sequence[float], prediction: Any) -> None:
        size = len(amounts)
        columns = row(prediction, tuple(dict.fromkeys((*self.keys, "fits", "slo_met"))))
        lists = {key: value if isinstance(value, list) else [value] * size for key, value in columns.items()}
        stable = [True] * size
        if prediction.served is not None:
            known: Any = prediction.served.is_stable
            stable = known.tolist() if hasattr(known, "tolist") else [known] * size
        self.count += size
        for place, amount in enumerate(amounts):
            first, second = (lists[key][place] for key in self.keys)
            if not lists["fits"][place]:
                self.left_out[DoesNotFit.short] += 1
            elif not stable[place]:
                self.left_out[Overloaded.short if kind.is_open else NoSteadyState.short] += 1
            elif lists["slo_met"][place] is False:
                exceeds = any(element(share, place) > 1.0 for share in prediction.slo_shares.values())
                self.left_out[_MISSES if exceeds else _UNKNOWN] += 1
            elif first is None or second is None:
                self.left_out[f"has no {self.keys[0] if first is None else self.keys[1]}"] += 1
            else:
                self.points.append(((first, second), case, kind.option, amount))

    def _compared(self, figures: tuple[float, float]) -> tuple[float, float]:
        """Figures to compare: more is better, and equal cases are equal."""
        x, y = (
            float(f"{(better(KEYS[key]) or 1.0) * value:.{_DIGITS}g}")
            for key, value in zip(self.keys, figures, strict=True)
        )
        return x, y

    def answer(self, model: str, notes: Iterable[str]) -> Pareto:
        if self.errors and not self.count:
            raise next(iter(self.errors.values()))
        figures = [self._compared(point[0]) for point in self.points]
        on_frontier = [self.points[place] for place in maxima(figures)]
        turn = frontier_knee([point[0] for point in on_frontier])
        points = tuple(
            ParetoPoint({**case.options, load: _whole(amount)}, self.keys, values, number == turn)
            for number, (values, case, load, amount) in enumerate(on_frontier)
        )
        own: dict[str, list[int]] = {}
        for place, point in enumerate(self.points):
            own.setdefault(point[1].gpu, []).append(place)
        by_gpu = {
            gpu: tuple(self.points[places[kept]][0] for kept in maxima([figures[place] for place in places]))
            for gpu, places in own.items()
        }
        refused = {name: str(error) for name, error in self.errors.items()}
        said = [
            *notes,
            *dict.fromkeys(refused.values()),
            *([] if turn is None else [_KNEE]),
            *([_RANGES] if points else []),
        ]
        return Pareto(model, self.keys, points, by_gpu, self.count, dict(self.left_out), refused, tuple(said))


def _label(case: _Case) -> str:
    """GPU, plan and formats of a deployment, as text."""
    stated_options = {name: case.options[name] for name in (*_PLAN, *_FORMATS) if name in case.options}
    return " ".join([case.gpu, *(f"{name} {value}" for name, value in stated_options.items())])


def _loads(case: _Case, kind: type[Load]) -> list[float]:
    """Loads of a deployment from an idle server to a full one."""
    from roofline.serving.load.equations import capacity

    options = {name: value for name, value in case.options.items() if name not in ("slo", RUN)}
    if any(name in options for name in TRAFFIC):  # which a burst has no use for
        options["request_rate"] = LEAST_RATE
    start = predict(**options)
    most = float(capacity(start.deployment, replace(start.workload, load=kind.of(1.0))))
    if kind.is_open:
        return [share * most for share in _SHARES]
    slots = min(float(math.floor(most)), MOST_USERS, case.options.get(RUN, MOST_USERS))
    return sorted({*user_counts(slots), max(slots, 1.0)})


def _whole(amount: float) -> float:
    return int(amount) if float(amount).is_integer() else amount


# Ranges of figures.


def figure_range(prediction: Prediction, key: str) -> tuple[float, float] | None:
    """Ends of the 80 % range of a figure of a single case, in the unit of its key; None where it has none.

    With a given number of users, or requests of a burst, throughput is that number over E2EL, and cost per request in
    proportion to it: their ranges are those of E2EL. With a given rate they have none but that of the rent.
    """
    stem = key.removesuffix("_ms")
    pairs = ((f"{stem}_low_ms", f"{stem}_high_ms"), (f"{key}_low", f"{key}_high"))
    ends = next((pair for pair in pairs if pair[0] in KEYS), None)
    if ends is not None:
        low, high = row(prediction, ends).values()
        return None if low is None or high is None else (low, high)
    if key == "tok_s_user":
        times = prediction.tpot_interval
        return None if times is None else (1.0 / times[1], 1.0 / times[0])
    is_cost = key in ("usd_per_m_output_tok", "usd_per_request")
    if not is_cost and key not in ("output_tok_s", "output_tok_s_gpu", "request_rate"):
        return None
    value, price = row(prediction, (key,))[key], prediction.price
    times = None if prediction.workload.load.is_open else prediction.e2el_interval
    if value is None or (times is None and (not is_cost or price is None)):
        return None
    shorter, longer = (1.0, 1.0) if times is None else (times[0] / prediction.e2el, times[1] / prediction.e2el)
    if not is_cost or price is None:
        return value / longer, value / shorter
    return value * shorter * price.low / price.typical, value * longer * price.high / price.typical


# Pictures.


def figure_text(key: str) -> str:
    """A key of a figure as an axis is labelled: text such as ``TTFT p99 [ms]``."""
    if key in _LABELS:
        return _LABELS[key]
    stem = key.removesuffix("_ms")
    is_latency = key.endswith("_ms") and stem.partition("_")[0] in LATENCIES and not stem.endswith(("_low", "_high"))
    if is_latency:
        return f"{key_text(stem)} [ms]"
    unit = KEYS[key].unit
    return f"{stem if unit == 'ms' else key} [{unit}]"


def pareto_text(answer: Pareto, width: int, height: int) -> str:
    """The picture for a terminal."""
    return scatter_text(_scatter(answer, with_ranges=False), width, height)


def pareto_picture(answer: Pareto, *, with_ranges: bool = True) -> Picture:
    """The frontier with plans and ranges, with the whole case below.

    Raises:
        BadInput: there is no point.
    """
    from roofline.outputs.footer import case_footer

    if not answer.points:
        raise BadInput(str(answer.reason))
    scatter = _scatter(answer, with_ranges=with_ranges)
    footer = case_footer([point.prediction for point in answer.points], ("plan", "load"))
    return Picture(scatter.title, [scatter], footer)


def _scatter(answer: Pareto, *, with_ranges: bool) -> Scatter:
    """Own frontiers of all GPUs, the points of the common one with plans and ranges, and its knee."""
    marked = []
    for point in answer.points:
        ranges = point.ranges if with_ranges else (None, None)
        owner = point.prediction.deployment.gpu.name
        marked.append(Marked(*point.figures, owner, point.plan if with_ranges else "", *ranges))
    turn = next((place for place, point in enumerate(answer.points) if point.is_knee), None)
    x_label, y_label = map(figure_text, answer.keys)
    x_least, y_least = (min(point[axis] for points in answer.by_gpu.values() for point in points) for axis in (0, 1))
    workload = answer.points[0].prediction.workload
    lengths = f"{rounded(float(workload.text))} in, {rounded(float(workload.osl))} out"
    title = f"{answer.model}, {lengths}: {y_label} against {x_label}"
    sides = better(KEYS[answer.keys[0]]) or 1.0, better(KEYS[answer.keys[1]]) or 1.0
    return Scatter(title, x_label, y_label, answer.by_gpu, marked, turn, x_least > 0.0, y_least > 0.0, sides)
