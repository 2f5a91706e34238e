"""Charts of sweeps: measured times and throughput as marks, predicted ones as lines in their ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofline.numbers.quantity import MILLI
from roofline.outputs.panels import HARDWARE, MEASURED, PREDICTED, Panel, Series
from roofline.outputs.pictures import Picture, panels_beside, panels_text
from roofline.questions.step_line import SweepPoint
from roofline.questions.sweeps import MeasuredSweep, Saturated, named_apart
from roofline.support.errors import BadInput

_BESIDE = 2  # charts in a row
_MOST_PICTURED = 4  # sweeps in a picture
_FAR = 3.0  # times the most that was measured: a saturation that would leave no room for the rest
_WIDE = 30.0  # ratio of times from which on their axis is logarithmic
_ABOVE = 1.3  # of the highest time, where an axis ends although a range goes on


def sweeps_text(sweeps: Sequence[MeasuredSweep], width: int, height: int) -> str:
    """Charts of all sweeps for a terminal, one below the other; height is in rows each."""
    return "\n\n".join(f"{sweep.title}\n{panels_text(_panels(sweep), width, height)}" for sweep in named_apart(sweeps))


def first_sweep_text(sweep: MeasuredSweep, width: int, most: int) -> str:
    """The first two charts of a sweep side by side, in at most so many lines."""
    return panels_beside(_panels(sweep)[:_BESIDE], width, most)


def sweep_picture(sweeps: Sequence[MeasuredSweep]) -> Picture:
    """Charts of some sweeps for a file, with the whole case below."""
    from roofline.outputs.footer import Shown, case_footer

    if len(sweeps) > _MOST_PICTURED:
        raise BadInput(
            f"{len(sweeps)} sweeps are too many for one picture; give the results of {_MOST_PICTURED} at most"
        )
    panels = [
        panel._replace(title=f"{number}: {panel.title}") if len(sweeps) > 1 else panel
        for number, sweep in enumerate(sweeps, start=1)
        for panel in _panels(sweep)
    ]
    titles = [sweep.title for sweep in named_apart(sweeps)]
    numbered = [f"{number}: {title}" for number, title in enumerate(titles, start=1)]
    title = "\n".join(numbered if len(titles) > 1 else titles)
    runs = [point.run.expected for sweep in sweeps for point in sweep.points if point.run is not None]
    known = [Shown(run.deployment, run.workload) for run in runs if run.workload is not None]
    footer = case_footer(known, ("load",)) if known else ""
    return Picture(title, panels, footer)


def _panels(sweep: MeasuredSweep) -> list[Panel]:
    """TTFT and TPOT against the load, throughput against the load, TPOT against the sequences of a step."""
    unit = sweep.kind.unit
    panels = [
        panel
        for metric in ("ttft", "tpot")
        if (panel := _latency_panel(sweep, metric, unit, lambda point: (point.load, point.load))) is not None
    ]
    known = [(point.load, point.rate * (point.measured.osl or 1.0)) for point in sweep.points if point.rate is not None]
    if sweep.saturation is not None and known:
        expected = [
            (point.load, point.predicted_rate * (point.measured.osl or 1.0))
            for point in sweep.points
            if point.predicted_rate is not None
        ]
        series = [*([_series("predicted", expected, PREDICTED)] if expected else []), _measured_series(known)]
        series += _saturation_series(sweep.saturation, [load for load, _ in known], max(value for _, value in known))
        heading = f"output tokens/s against {unit}"
        panels.append(Panel(heading, unit, "tokens/s", series, is_logarithmic=not sweep.kind.is_open))
    if sweep.step is not None:
        both = [(point.sequences, point.predicted_sequences) for point in sweep.points]
        panel = _latency_panel(
            sweep, "tpot", "sequences in a step", lambda point: (point.sequences, point.predicted_sequences)
        )
        if panel is not None:
            ends = [min(one for one, _ in both if one), max(one for one, _ in both if one)]
            a, b = sweep.step.fixed.measured, sweep.step.each.measured
            line = Series(
                "a + b n", ends, [(a + b * end) / MILLI for end in ends], MEASURED, is_dashed=True, is_bare=True
            )
            panels.append(panel._replace(series=[*panel.series, line], is_logarithmic=False))
    return panels


def _latency_panel(
    sweep: MeasuredSweep,
    metric: str,
    x_label: str,
    places: Callable[[SweepPoint], tuple[float | None, float | None]],
) -> Panel | None:
    """Measured times of a latency as marks, predicted ones as a line in their range; `places` are those of both."""
    measured, predicted = [], []
    for point in sweep.points:
        there, expected = places(point)
        time = getattr(point.measured, metric)
        if time is not None and there is not None:
            measured.append((there, time / MILLI))
        if point.run is not None and getattr(point.run.expected, metric) is not None and expected is not None:
            time = getattr(point.run.expected, metric)
            predicted.append((expected, time, *(point.run.expected.interval(metric) or (time, time))))
    if not measured or not predicted:
        return None
    nodes, times, low, high = zip(*sorted(predicted), strict=True)
    middle, *band = ([time / MILLI for time in column] for column in (times, low, high))
    has_range = low != times
    series = [
        Series("predicted", nodes, middle, PREDICTED, band=(band[0], band[1]) if has_range else None),
        _measured_series(measured),
    ]
    name = f"{metric.upper()} [ms]"
    is_logarithmic = not sweep.kind.is_open
    values = [*middle, *(value for _, value in measured)]
    is_wide = max(values) > _WIDE * min(values)
    title = f"{name} against {x_label}"
    return Panel(
        title, x_label, name, series, is_logarithmic=is_logarithmic, top=_ABOVE * max(values), is_y_logarithmic=is_wide
    )


def _saturation_series(found: Saturated, loads: Sequence[float], most: float) -> list[Series]:
    """The predicted saturation across the loads; none where it is far above what was measured."""
    if found.predicted_tokens > _FAR * most:
        return []
    band = None
    if found.predicted_low is not None and found.predicted_high is not None:
        ends = (found.predicted_tokens * end / found.predicted for end in (found.predicted_low, found.predicted_high))
        low, high = ([end, end] for end in ends)
        band = (low, high)
    across = [loads[0], loads[-1]]
    return [
        Series(
            "predicted saturation",
            across,
            [found.predicted_tokens] * 2,
            HARDWARE,
            is_dashed=True,
            band=band,
            is_bare=True,
        )
    ]


def _measured_series(points: Sequence[tuple[float, float]]) -> Series:
    return _series("measured", points, MEASURED)._replace(is_point=True)


def _series(label: str, points: Sequence[tuple[float, float]], colour: int) -> Series:
    places, values = zip(*points, strict=True)
    return Series(label, places, values, colour)
