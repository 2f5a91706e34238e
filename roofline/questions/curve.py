"""The load curve of a deployment: latencies and throughput from an idle server to a saturated one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from roofline.numbers.operations import Json
from roofline.numbers.quantity import MILLI, rounded
from roofline.outputs.panels import Panel, Series
from roofline.outputs.pictures import Picture
from roofline.questions.goodput import best_at_saturation, best_within, check_measured, check_share
from roofline.questions.inputs.arguments import one_case, plain_options, scalar, slo_limits, without
from roofline.questions.inputs.case import LEAST_RATE
from roofline.questions.inputs.deployment import choice, is_open_pool
from roofline.questions.inputs.load import user_counts
from roofline.questions.inputs.options import understood
from roofline.questions.predict import at_load, given_gpu, predict, predicted
from roofline.questions.table import split_rows
from roofline.serving.answers import Answer, selected_rows
from roofline.serving.capacity import Goodput, share_verdict
from roofline.serving.load.equations import capacity
from roofline.serving.load.steady import served
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import Row
from roofline.serving.shown import ROW_KEYS, deployed_text
from roofline.specs.gpu import Gpu
from roofline.specs.load import LASTING, Load, Rate, lasting_named
from roofline.specs.model import Model
from roofline.specs.workload import key_text, metric_and_level
from roofline.support.errors import BadInput
from roofline.support.records import dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Slo, WithoutLoad


#: Keys of a point of a curve.
CURVE_KEYS = (
    "model", "gpu", "num_gpus", "tp", "concurrency", "request_rate", "util", "ttft_ms", "ttft_p50_ms", "ttft_p99_ms",
    "tpot_ms", "tpot_p50_ms", "tpot_p99_ms", "e2el_ms", "ttft_low_ms", "ttft_high_ms", "tpot_low_ms", "tpot_high_ms",
    "ttft_p50_low_ms", "ttft_p50_high_ms", "ttft_p99_low_ms", "ttft_p99_high_ms", "tpot_p50_low_ms",
    "tpot_p50_high_ms", "tpot_p99_low_ms", "tpot_p99_high_ms", "tok_s_user", "output_tok_s_gpu",
    "usd_per_m_output_tok", "slo_met", "slo_verdict", "slo_reason",
)  # fmt: skip

_RATES = (0.01, *(place / 20.0 for place in range(1, 20)), 0.97, 0.985)  # of the saturation rate
_ROUNDS = 5  # in which a picture gets points where its lines bend
_BEND = 0.004  # of the height of a picture, that a line may leave its chord by
_FEW = 3  # curves that show their ranges
_BEYOND = 1.5  # last number of users, over the slots
_USUAL, _ABOVE = 0.75, 2.0  # an axis ends at _ABOVE times this quantile of the values


@dataclass(frozen=True, repr=False)
class Curve(Answer[Row]):
    """Latencies and throughput of one deployment as its load grows.

    >>> import roofline as rl
    >>> result = rl.curve("llama-3.1-8b", "h100-sxm", against="users", basis="ideal")
    >>> result.title, result.rows[0]["concurrency"], result.at_goodput
    ('llama-3.1-8b on 1x h100-sxm (tp 1)', 1, None)
    >>> result.to_dict(["gpu", "concurrency"])["rows"][0]
    {'gpu': 'h100-sxm', 'concurrency': 1}
    """

    prediction: Prediction = field(repr=False)  # of the deployment on an idle server
    against: str  # `request_rate` or `concurrency`
    rows: tuple[Row, ...] = field(repr=False)  # points with a steady state, by load
    saturation: float  # largest request rate [1/s]; for users, the number of slots
    slo: Mapping[str, float]  # limits by their keys [s]
    goodput: Goodput | None  # where the SLO is just met; None without an SLO, and where it does not fit

    def __repr__(self) -> str:
        unit = LASTING[self.against].unit
        last: Mapping[str, Any] = self.rows[-1]
        ends = f"{len(self.rows)} points, up to {rounded(last[self.against])} {unit}"
        known = "" if self.goodput is None else f"; goodput {rounded(self.goodput.rate)} requests/s"
        return f"<Curve {self.title}: {ends}{known}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The rows as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        return {"rows": selected_rows(self.rows, keys)}

    @property
    def title(self) -> str:
        deployment = self.prediction.deployment
        return f"{deployed_text(deployment)} (tp {deployment.plan.tp})"

    @property
    def at_goodput(self) -> tuple[float, float] | None:
        """Tokens per second of one user and of one GPU at the goodput [1/s]; None without a goodput."""
        if self.goodput is None or not self.goodput.rate:
            return None
        start = self.prediction
        workload = replace(start.workload, load=Rate(self.goodput.rate))
        loaded = replace(start, workload=workload, served=served(start.deployment, workload))
        return None if loaded.tok_s_user is None else (float(loaded.tok_s_user), float(loaded.output_tok_s_gpu))


@overload
def curve(model: Prediction, *, against: str = Rate.option, share: float | str | None = None) -> Curve: ...
@overload
def curve(
    model: str | Model,
    gpu: str | Gpu,
    *,
    against: str = Rate.option,
    slo: Slo | None = None,
    share: float | str | None = None,
    **options: Unpack[WithoutLoad],
) -> Curve: ...
@understood
def curve(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    against: str = Rate.option,
    slo: Slo | None = None,
    share: float | str | None = None,
    **options: Unpack[WithoutLoad],
) -> Curve:
    """Latencies and throughput of a deployment over its load.

    Without `tp`, the degree with the most requests per GPU: within the SLO, as in `goodput`, else at saturation.

    Args:
        model: name, alias or record; or a prediction, in place of GPU, options and limits: it keeps its plan, even one
            that does not fit (`allow_oversize`), and its load is what varies.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        against: ``request_rate`` (or ``rate``) for Poisson arrivals, ``concurrency`` (or ``users``) for a closed loop.
        slo: limits as in `predict`; they add the goodput to the curve [s].
        share: share of requests that must meet all limits without a percentile at once, as in `goodput` [1].
        options: keyword arguments of `predict` without a load.

    Returns:
        The points, up to saturation.

    Raises:
        BadInput: a load, another `against`, arrays, or as `predict` raises.

    >>> import roofline as rl
    >>> rl.curve("llama-3.1-8b", "h100-sxm", slo="tpot:25", basis="ideal")
    <Curve llama-3.1-8b on 1x h100-sxm (tp 1): 22 points, up to 41.4 requests/s; goodput 38.7 requests/s>
    >>> len(rl.curve(rl.predict("llama-3.1-8b", "h100-sxm", slo="tpot:25", basis="ideal")).to_rows(["ttft_ms"]))
    22
    """
    kind = lasting_named(scalar(against))
    limits: Mapping[str, float] = slo_limits(slo) or {}
    required = check_share(share, limits)
    if isinstance(model, Prediction):
        case = predicted("curve", model, gpu, {**options, **({} if slo is None else {"slo": slo})})
        one_case("a curve", case.ttft)
        start = at_load(case, Rate(LEAST_RATE))
        goodput = None
        if case.slo and start.fits:
            goodput, _ = best_within(start, {"tp": start.deployment.plan.tp}, case.slo, required)
        return _curve(start, kind, required, goodput)
    gpu = given_gpu("curve", gpu)
    given = plain_options(without("curve", options))
    plain: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    check_measured(plain)
    start = predict(model, gpu, **plain, request_rate=LEAST_RATE)
    one_case("a curve", start.served and start.served.max_request_rate)
    pooled, goodput = choice(gpu, plain), None
    options_of_plan = {**pooled.options, "tp": start.deployment.plan.tp} if is_open_pool(pooled) else pooled.options
    if limits:
        goodput, best = best_within(start, options_of_plan, limits, required)
    else:
        best = best_at_saturation(start, options_of_plan)
    plan = {"tp": best.deployment.plan.tp, **({"slo": limits} if limits else {})}
    return _curve(predict(model, gpu, **{**plain, **plan}, request_rate=LEAST_RATE), kind, required, goodput)


def _curve(start: Prediction, kind: type[Load], required: float | None, goodput: Goodput | None) -> Curve:
    """The points of a deployment, from its prediction at next to no load."""
    from roofline.numbers.arrays import as_array

    most = float(capacity(start.deployment, replace(start.workload, load=kind.of(1.0))))
    loads = [place * most for place in _RATES] if kind.is_open else user_counts(max(_BEYOND * most, 8.0))
    limits = start.slo
    rows: list[Any] = list(split_rows(at_load(start, kind.of(as_array(kind.option, loads))), CURVE_KEYS))
    answered = [row for row in rows if row["reason"] is None or (start.allow_oversize and row["ttft_ms"] is not None)]
    if not answered:
        raise BadInput(f"{start.deployment.gpu.name}: no point of the curve can be computed: {rows[0]['reason']}")
    points: tuple[Any, ...] = tuple({key: row[key] for key in CURVE_KEYS} for row in answered)
    for row in points:
        if not limits or required is None:
            break
        load = replace(start.workload, load=kind.of(row[kind.option]))  # by a share of the requests, as in `goodput`
        row.update(share_verdict(start.deployment, load, limits, required, start.correction))
    return Curve(start, kind.option, points, most, limits, goodput)


def curve_picture(curves: Sequence[Curve], *, with_ranges: bool = True) -> Picture:
    """TTFT and TPOT against the load, with their limits; throughput against speed, with the goodput.

    Of a latency with limits the limited percentiles are drawn, else the median and the p99. The loads lie closer to
    each other where a line bends.
    """
    from roofline.outputs.footer import case_footer

    title = "; ".join(dict.fromkeys(f"{curve.title}" for curve in curves))
    is_open = LASTING[curves[0].against].is_open
    arrivals = "requests at random times" if is_open else "users that ask again when they are answered"
    footer = case_footer([curve.prediction for curve in curves], ("load",), [arrivals])
    return Picture(f"{title}: from idle to full", _panels(curves, with_ranges=with_ranges), footer)


def drawn_keys(slo: Mapping[str, float], metric: str) -> list[str]:
    """Keys of a latency in the order of its lines: those that have a limit, else the median and the p99.

    >>> drawn_keys({"ttft_p95": 1.0, "tpot": 0.04}, "ttft"), drawn_keys({"ttft_p95": 1.0}, "tpot")
    (['ttft_p95_ms'], ['tpot_p50_ms', 'tpot_p99_ms'])
    """
    limited = [f"{key}_ms" for key in slo if metric_and_level(key)[0] == metric and f"{key}_ms" in ROW_KEYS]
    return limited or [f"{metric}_p50_ms", f"{metric}_p99_ms"]


def _panels(curves: Sequence[Curve], *, with_ranges: bool) -> list[Panel]:
    first = curves[0]
    kind = LASTING[first.against]
    x_label = kind.unit
    names = _labels(curves)
    ends: dict[str, float] = {}
    if len({curve.saturation for curve in curves}) == 1:
        ends[kind.end] = first.saturation
    for name, curve in zip(names, curves, strict=True):
        if curve.saturation not in ends.values():
            ends[f"{name} {kind.end}".strip()] = curve.saturation
    keys = {metric: drawn_keys(first.slo, metric) for metric in ("ttft", "tpot")}
    every = [key for names in keys.values() for key in names]
    tops = dict.fromkeys(keys, 0.0)
    rows_of = []
    for curve in curves:
        points: Sequence[Mapping[str, Any]] = curve.rows
        few = _rows_at(curve, [row[curve.against] for row in points], every)
        rows_of.append(_bent_rows(curve, few, every))
        for metric, shown in keys.items():
            tops[metric] = max(tops[metric], _picture_top([row[key] for row in few for key in shown], ()))
    panels = []
    for metric, shown in keys.items():
        series = []
        for number, (name, rows) in enumerate(zip(names, rows_of, strict=True)):
            for place, key in enumerate(shown):
                points = [row for row in rows if row[key] is not None]
                if not points:
                    continue
                low, high = ([row[f"{key.removesuffix('_ms')}_{end}_ms"] for row in points] for end in ("low", "high"))
                has_range = with_ranges and not place and len(curves) <= _FEW and None not in (*low, *high)
                places, values = [row[first.against] for row in points], [row[key] for row in points]
                label = f"{name} {_line_text(key)}".strip()
                band = (low, high) if has_range else None
                series.append(Series(label, places, values, number, is_dashed=bool(place), band=band))
        levels = {
            f"{key_text(key)} limit": limit / MILLI
            for key, limit in first.slo.items()
            if metric_and_level(key)[0] == metric
        }
        title = f"{metric.upper()} [ms] against {x_label}"
        if series:
            top = max(tops[metric], _ABOVE * max(levels.values(), default=0.0))
            label = f"{metric.upper()} [ms]"
            panels.append(Panel(title, x_label, label, series, levels, ends, not kind.is_open, top))
    series = []
    for number, (name, curve, rows) in enumerate(zip(names, curves, rows_of, strict=True)):
        speeds = [(row["tok_s_user"], row["output_tok_s_gpu"]) for row in rows if row["tok_s_user"] is not None]
        if not speeds:
            continue
        slower, output = zip(*speeds, strict=True)
        series.append(Series(name or "along the load", slower, output, number))
        point = curve.at_goodput
        if point is not None:
            series.append(Series(f"{name} goodput".strip(), [point[0]], [point[1]], number, is_point=True))
    if series:
        heading = "output tokens/s per GPU against tokens/s per user"
        panels.append(Panel(heading, "tokens/s per user", "tokens/s per GPU", series))
    return panels


def _line_text(key: str) -> str:
    """What a line is of: ``median``, ``p95`` or ``mean``."""
    level = key.removesuffix("_ms").partition("_")[2]
    return {"": "mean", "p50": "median"}.get(level, level)


def _rows_at(curve: Curve, loads: Sequence[float], shown: Sequence[str]) -> list[Mapping[str, Any]]:
    """Rows of loads with the keys that are drawn and their ranges, where there is an answer."""
    from roofline.numbers.arrays import as_array

    start, against = curve.prediction, curve.against
    ends = [f"{key.removesuffix('_ms')}_{end}_ms" for key in shown for end in ("low", "high")]
    many = at_load(start, LASTING[against].of(as_array(against, loads)))
    rows: Any = split_rows(many, (against, *shown, *ends, "tok_s_user", "output_tok_s_gpu"))
    return [row for row in rows if row["reason"] is None or (start.allow_oversize and row[shown[0]] is not None)]


def _bent_rows(curve: Curve, few: Sequence[Mapping[str, Any]], shown: Sequence[str]) -> list[Mapping[str, Any]]:
    """Rows along the load, closer to each other where one of the lines would have a kink."""
    rows = {float(row[curve.against]): row for row in few}
    ends = [f"{shown[0].removesuffix('_ms')}_{end}_ms" for end in ("low", "high")]
    tops = {key: _picture_top([row[key] for row in few], ()) for key in (*shown, *ends, "output_tok_s_gpu")}
    for _ in range(_ROUNDS):
        loads = _between_bends(rows, tops, is_whole=not LASTING[curve.against].is_open)
        if not loads:
            break
        rows |= {float(row[curve.against]): row for row in _rows_at(curve, loads, shown)}
    return [rows[place] for place in sorted(rows)]


def _between_bends(
    rows: Mapping[float, Mapping[str, Any]], tops: Mapping[str, float], *, is_whole: bool
) -> list[float]:
    """Loads in the middle of pieces at whose ends a line turns."""
    places = sorted(rows)
    turned: set[int] = set()
    for key, top in tops.items():
        values = [rows[place][key] for place in places]
        for number in range(1, len(places) - 1):
            before, here, after = values[number - 1 : number + 2]
            if before is None or here is None or after is None or before > top:
                continue
            share = (places[number] - places[number - 1]) / (places[number + 1] - places[number - 1])
            if abs(before + share * (after - before) - here) > _BEND * top:
                turned |= {number - 1, number}
    middles = {(places[number] + places[number + 1]) / 2.0 for number in turned}
    return sorted({float(int(middle)) for middle in middles} - set(places) if is_whole else middles)


def _labels(curves: Sequence[Curve]) -> list[str]:
    """What tells curves apart: the GPU where that is enough, else the deployment; empty for a single curve."""
    if len(curves) == 1:
        return [""]
    gpus = [curve.prediction.deployment.gpu.name for curve in curves]
    return gpus if len(set(gpus)) == len(gpus) else [curve.title for curve in curves]


def _picture_top(values: Sequence[float | None], limits: Sequence[float]) -> float:
    """Where the axis of latencies ends, which grow without bound near saturation."""
    known = sorted(value for value in values if value is not None)
    usual = known[int(_USUAL * (len(known) - 1))] if known else 0.0
    return max(_ABOVE * max(limits, default=0.0), _ABOVE * usual)
