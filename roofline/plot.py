"""Pictures of answers as `rl.plot`: what each shows, for a file, a terminal and a notebook.

>>> import roofline as rl
>>> answers = [rl.predict("llama-3.1-8b", gpu, basis="ideal") for gpu in ("h100-sxm", "b200")]
>>> [bar.label for bar in rl.plot.ranking(answers).panels[0].bars]
['1x b200 (tp 1)', '1x h100-sxm (tp 1)']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from roofline.numbers.arrays import as_array
from roofline.numbers.quantity import MILLI, TERA, to_text
from roofline.outputs.footer import case_footer
from roofline.outputs.panels import HARDWARE, Bar, Bars, Cells, Panel, Series
from roofline.outputs.pictures import Picture
from roofline.physics.passes import Pass
from roofline.questions.curve import Curve, curve_picture
from roofline.questions.inputs.arguments import one_case
from roofline.questions.predict import prediction_passes
from roofline.serving.prediction import Prediction, predict_deployment
from roofline.serving.shown import deployed_text, gpus_text, plan_text
from roofline.serving.shown import row as row_of
from roofline.specs.gpu import ANNOUNCED
from roofline.specs.workload import key_text, metric_and_level
from roofline.support.errors import BadInput

if TYPE_CHECKING:
    from roofline.formulas.sensitivity import Sensitivities
    from roofline.questions.check import MeasurementCheck
    from roofline.questions.equal_service import EqualService
    from roofline.questions.pareto import Pareto

__all__ = ["Picture"]


_TOP = 10  # bars of a tornado for each result
_MOST_RANKED = 16  # bars of a ranking
_NAMED = 4  # kernels with their names in a roofline, by their time
_SHARES = (0.0625, 0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)  # of the prompt, on an axis of lengths
_FINE = 4  # points between two of them
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the prompt and the load, in a heat map


def curve(answers: Curve | Sequence[Curve]) -> Picture:
    """TTFT, TPOT and throughput along the load; of latencies the percentiles that the SLO limits."""
    return curve_picture([answers] if isinstance(answers, Curve) else list(answers))


def frontier(answer: Pareto) -> Picture:
    """A Pareto frontier over plans and loads, with ranges and the knee."""
    from roofline.questions.pareto import pareto_picture

    return pareto_picture(answer)


def equal_service(answer: EqualService) -> Picture:
    """Costs of several GPUs within the same limit, and their ratio."""
    from roofline.questions.equal_service import equal_service_picture

    return equal_service_picture(answer)


def tornado(answer: Sensitivities, top: int = _TOP) -> Picture:
    """Elasticities as bars; `top` of each result."""
    from roofline.questions.why import tornado_picture

    rows = [row for result in answer.of for row in [row for row in answer if row.result == result][:top]]
    return tornado_picture(answer, rows)


def measured(checks: Iterable[MeasurementCheck]) -> Picture:
    """Measured times and throughput of sweeps against predicted ones in their ranges.

    Raises:
        BadInput: no two results at different loads, or too many sweeps.
    """
    from roofline.questions.sweep_pictures import sweep_picture
    from roofline.questions.sweeps import no_sweep_text, sweeps_of

    runs = list(checks)
    sweeps = sweeps_of(runs)
    if not sweeps:
        raise BadInput(f"nothing to draw: {no_sweep_text(runs)}")
    return sweep_picture(sweeps)


def ranking(predictions: Iterable[Prediction]) -> Picture:
    """TTFT and TPOT of several deployments as bars with their ranges, the fastest first; limits as lines.

    GPUs that are only announced never lead. Of very many, the first ones are drawn.
    """
    answers = list(predictions)
    if not answers:
        raise BadInput("nothing to draw: no prediction")
    panels = []
    for metric in ("ttft", "tpot"):
        key = shown_key(answers[0], metric)
        known = [(row_of(answer, (key, *_ends(key))), answer) for answer in answers]
        ranked = sorted(
            ((row, answer) for row, answer in known if row[key] is not None),
            key=lambda pair: (pair[1].deployment.gpu.status in ANNOUNCED, float(pair[0][key])),
        )
        bars = []
        for row, answer in ranked[:_MOST_RANKED]:
            low, high = (row[end] for end in _ends(key))
            span = None if low is None or high is None else (float(low), float(high))
            bars.append(Bar(_deployment(answer, answers), [float(row[key])], span))
        stem = key.removesuffix("_ms")
        levels = {} if stem not in answers[0].slo else {"limit": answers[0].slo[stem] / MILLI}
        has_span = any(bar.span for bar in bars)
        name = key_text(stem, is_mean=answers[0].workload.is_mean)
        if bars:
            panels.append(Bars(f"{name}{', 80 % range' if has_span else ''}", "ms", ("",), bars, levels))
    models = ", ".join(dict.fromkeys(str(answer.deployment.model.short_name) for answer in answers))
    few = f", {_MOST_RANKED} of {len(answers)}" if len(answers) > _MOST_RANKED else ""
    return Picture(f"{models}: the fastest first{few}", panels, case_footer(answers, ("plan",)))


def shown_key(prediction: Prediction, metric: str) -> str:
    """Key of a row for a latency: the first percentile that the SLO limits, else the mean."""
    limited = [key for key in prediction.slo if metric_and_level(key)[0] == metric]
    return f"{limited[0] if limited else metric}_ms"


def _ends(key: str) -> tuple[str, str]:
    stem = key.removesuffix("_ms")
    return f"{stem}_low_ms", f"{stem}_high_ms"


def _deployment(prediction: Prediction, others: Sequence[Prediction]) -> str:
    deployment = prediction.deployment
    plan = plan_text(deployment.plan, replicas=deployment.replicas)
    text = f"{gpus_text(deployment.gpu.name, deployment.num_gpus)} ({plan})"
    text += ", announced" if deployment.gpu.status in ANNOUNCED else ""
    models = {str(other.deployment.model.short_name) for other in others}
    return f"{deployment.model.short_name}, {text}" if len(models) > 1 else text


def case(prediction: Prediction) -> Picture:
    """One case on a slide: its kernels under the roofline, its parts, prompts of other lengths, users by length."""
    one_case("a picture", prediction.ttft)
    panels = [*roofline(prediction).panels, *parts(prediction).panels]
    shown = "tpot" if prediction.tpot is not None else "ttft"
    panels += [*prompt_length(prediction).panels, *heat_map(prediction, shown).panels]
    return Picture(f"{deployed_text(prediction.deployment)}: where the time goes", panels, case_footer([prediction]))


def roofline(prediction: Prediction) -> Picture:
    """Achieved arithmetic against intensity, both logarithmic: every kernel under the roofs of its GPU."""
    one_case("a roofline", prediction.ttft)
    points: dict[str, list[tuple[float, float]]] = {}
    roofs: dict[str, tuple[float, float]] = {}
    named: list[tuple[float, float, float, str]] = []
    for name, passed in prediction_passes(prediction):
        for kernel in passed.kernels:
            peak = getattr(kernel.roof, "peak", None)
            flop, moved, time = float(kernel.work.flop), float(kernel.work.nbytes), float(kernel.terms.total)
            if peak is None or not (flop > 0.0 and moved > 0.0 and time > 0.0):
                continue
            roofs[kernel.dtype] = (float(peak), float(kernel.roof.bandwidth))
            point = (flop / moved, flop / time / TERA)
            points.setdefault(kernel.label, []).append(point)
            named.append((float(kernel.time), *point, f"{kernel.name} ({name})"))
    if not points:
        raise BadInput("nothing to draw: no kernel with arithmetic")
    intensities = [x for found in points.values() for x, _ in found]
    ends = min(intensities) * 0.5, max(max(intensities) * 2.0, *(2.0 * peak / rate for peak, rate in roofs.values()))
    series = []
    for number, (dtype, (peak, rate)) in enumerate(sorted(roofs.items(), key=lambda roof: -roof[1][0])):
        places = sorted({ends[0], min(max(peak / rate, ends[0]), ends[1]), ends[1]})
        heights = [min(peak, place * rate) / TERA for place in places]
        series.append(Series(f"{dtype} roof", places, heights, HARDWARE, is_dashed=bool(number), is_bare=True))
    for place, (label, found) in enumerate(points.items()):
        xs, ys = zip(*found, strict=True)
        colour = _KERNEL_COLOURS[place % len(_KERNEL_COLOURS)]
        series.append(Series(label, xs, ys, colour, is_point=True))
    texts = [(x, y, text) for _, x, y, text in sorted(named, reverse=True)[:_NAMED]]
    panel = Panel(
        "kernels under the roofline", "FLOP per byte of HBM", "TFLOP/s of one GPU", series, is_logarithmic=True,
        is_y_logarithmic=True, texts=texts,
    )  # fmt: skip
    title = f"{deployed_text(prediction.deployment)}: kernels under the roofline"
    return Picture(title, [panel], case_footer([prediction]))


_KERNEL_COLOURS = (0, 1, 3, 5, 4, 6)


def parts(prediction: Prediction) -> Picture:
    """What the TTFT and a decode step consist of: waiting, kernels by their kind, host."""
    one_case("a picture of parts", prediction.ttft)
    passes = dict(prediction_passes(prediction))
    groups = {name: _by_label(passed) for name, passed in passes.items()}
    waiting = {} if prediction.queue is None else {"queue": float(prediction.queue)}
    names = list(dict.fromkeys([*waiting, *(label for group in groups.values() for label in group)]))
    totals = {"TTFT": {**waiting, **groups.get("prefill", {})}, "decode step": groups.get("decode", {})}
    bars = []
    for title, own in totals.items():
        whole = sum(own.values())
        if whole:
            shares = [100.0 * own.get(name, 0.0) / whole for name in names]
            bars.append(Bar(f"{title}, {to_text(whole, 's')}", shares))
    title = f"{deployed_text(prediction.deployment)}: what TTFT and a step consist of"
    panel = Bars("parts of TTFT and of a step", "% of the time", names, bars, has_values=False)
    return Picture(title, [panel], case_footer([prediction]))


def _by_label(passed: Pass) -> Mapping[str, float]:
    times: dict[str, float] = {}
    for kernel in passed.kernels:
        label = kernel.label or kernel.name
        times[label] = times.get(label, 0.0) + float(kernel.time)
    return times


def prompt_length(prediction: Prediction) -> Picture:
    """TTFT against the length of the prompt, in its range, with the limit of the SLO."""
    one_case("a picture over prompts", prediction.ttft)
    key = shown_key(prediction, "ttft")
    stem = key.removesuffix("_ms")
    isl, prefix = float(prediction.workload.isl), float(prediction.workload.prefix)
    lengths = [float(round(isl * share)) for share in _finer(_SHARES)]
    lengths = sorted({length for length in lengths if length > prefix and length >= 1.0})
    rows = _answered(prediction, {"isl": as_array("isl", lengths)}, (key, *_ends(key)))
    known = [(length, row) for length, row in zip(lengths, rows, strict=True) if row[key] is not None]
    if not known:
        raise BadInput("nothing to draw: no prompt has a TTFT here")
    low, high = ([row[end] for _, row in known] for end in _ends(key))
    band = None if None in (*low, *high) else (low, high)
    name = key_text(stem, is_mean=prediction.workload.is_mean)
    line = Series(name, [length for length, _ in known], [row[key] for _, row in known], band=band)
    here = Series("this case", [isl], [float(row_of(prediction, (key,))[key])], 1, is_point=True)
    levels = {f"{key_text(name)} limit": limit / MILLI for name, limit in prediction.slo.items() if name == stem}
    panel = Panel(f"{name} against the prompt", "prompt [tokens]", f"{name} [ms]", [line, here], levels)
    title = f"{deployed_text(prediction.deployment)}: {name} against the length of the prompt"
    return Picture(title, [panel], case_footer([prediction], ("lengths",)))


def _finer(shares: Sequence[float]) -> list[float]:
    return [first + (second - first) * part / _FINE for first, second in pairwise(shares) for part in range(_FINE)] + [
        shares[-1]
    ]


def heat_map(prediction: Prediction, metric: str = "tpot") -> Picture:
    """A latency over loads and lengths of the prompt around a case, against its limit.

    Args:
        prediction: the case in the middle; its load varies in kind as it is: users, a rate or a burst.
        metric: ``ttft`` or ``tpot``.
    """
    one_case("a heat map", prediction.ttft)
    key = shown_key(prediction, metric)
    stem = key.removesuffix("_ms")
    load = prediction.workload.load
    isl, amount = float(prediction.workload.isl), float(load.amount)
    lengths = sorted({float(max(round(isl * factor), 1)) for factor in _FACTORS})
    lengths = [length for length in lengths if length > float(prediction.workload.prefix)]
    scaled = [amount * factor for factor in _FACTORS]
    amounts = sorted({many if load.is_open else float(max(round(many), 1)) for many in scaled})
    pairs = [(length, many) for many in amounts for length in lengths]
    numbers = {
        "isl": as_array("isl", [length for length, _ in pairs]),
        load.option: as_array(load.option, [many for _, many in pairs]),
    }
    rows = _answered(prediction, numbers, (key,))
    values = [None if row[key] is None else float(row[key]) for row in rows]
    grid = [values[place : place + len(lengths)] for place in range(0, len(values), len(lengths))]
    if all(value is None for value in values):
        raise BadInput(f"nothing to draw: no case here has a {metric.upper()}")
    limits = [limit / MILLI for name, limit in prediction.slo.items() if name == stem]
    name = key_text(stem, is_mean=prediction.workload.is_mean)
    unit = load.unit
    cells = Cells(
        "over load and length", "prompt [tokens]", unit, lengths, amounts, grid, f"{name} [ms]",
        limits[0] if limits else None,
    )  # fmt: skip
    title = f"{deployed_text(prediction.deployment)}: {name} over load and length"
    return Picture(title, [cells], case_footer([prediction], ("lengths", "load")))


def _answered(prediction: Prediction, numbers: Mapping[str, Any], keys: Sequence[str]) -> list[Any]:
    """Rows of the deployment with other numbers; without times where there is no answer."""
    from roofline.questions.table import split_rows

    many = predict_deployment(
        prediction.deployment,
        prediction.workload.at(numbers),
        prediction.slo,
        allow_oversize=prediction.allow_oversize,
        correction=prediction.correction,
    )
    return list(split_rows(many, keys))


#: What draws an answer, by the name of its type.
_DRAWN: Mapping[str, Callable[[Any], Picture]] = {
    "Prediction": case,
    "Curve": curve,
    "Pareto": frontier,
    "EqualService": equal_service,
    "Sensitivities": tornado,
    "Checks": measured,
}
_DRAWN_TOGETHER: Mapping[str, Callable[[Any], Picture]] = {"Prediction": ranking, "Curve": curve}


def of(answer: Any) -> Picture:
    """The picture of an answer by its type.

    Raises:
        BadInput: it has none.
    """
    name = _public_name(answer)
    if name in _DRAWN:
        return _DRAWN[name](answer)
    is_list = isinstance(answer, list) or type(answer) is tuple
    names = sorted({_public_name(each) for each in answer}) if is_list else []
    if len(names) == 1 and names[0] in _DRAWN_TOGETHER:
        return _DRAWN_TOGETHER[names[0]](answer)
    known = f"{', '.join(_DRAWN)}, and several of {' or '.join(_DRAWN_TOGETHER)}"
    raise BadInput(f"{' or '.join(names) or name} has no picture; these have: {known}")


def _public_name(answer: Any) -> str:
    """Of its type, or of what a private type is one of."""
    return next(kind.__name__ for kind in type(answer).__mro__ if not kind.__name__.startswith("_"))
