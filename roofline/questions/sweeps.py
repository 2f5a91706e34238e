"""Runs of one server at several loads: its step line, its saturation, and where it leaves the prediction."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Json
from roofline.numbers.quantity import MILLI, counted, rounded, to_text
from roofline.questions.inputs.flags import cause_flags
from roofline.questions.step_line import (
    SAME,
    Coefficient,
    LinePart,
    StepLine,
    SweepPoint,
    distinct,
    load_of_run,
    point_of,
    step_line,
)
from roofline.serving.answers import Answer, selected
from roofline.serving.latency import lanes
from roofline.serving.shown import KEYS, deployed_text
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.load import Load, Rate, Users
from roofline.specs.workload import Measurement
from roofline.specs.written import DEGREES
from roofline.support.errors import Overloaded, RooflineError
from roofline.support.records import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    from roofline.physics.plan import Deployment
    from roofline.questions.step_line import Run


_ALIKE = 1.1  # ratio up to which mean lengths are those of one workload
_BENT = 0.1  # error of a line, over the time, that is told
_FLAT = 0.2  # ln(throughput) over ln(load) up to which a curve is flat: less than 15 % more at twice the load
_BEYOND = 1.5  # load over that from which on a curve is flat, at least
_FEWER = 1.3  # predicted sequences over those that decode, from which on something limits them
_SHORT = 0.9  # answered requests over those that came, below which a queue may grow
_BUSY = 0.8  # utilization from which on the closed forms are least sure (docs/load.md)
_MOST_SAID = 4  # loads in a sentence
_METRICS = ("ttft", "tpot")
_LENGTHS = ("isl", "osl", "prefix")
_STATED = (
    "gpu", "model", "engine", "engine_version", "tp", "pp", "ep", "dp", "quantization", "kv_cache_dtype", "statistic",
    *_LENGTHS,
)  # fmt: skip


class BeyondSaturation(Overloaded):
    """A run at a rate that its deployment cannot answer as predicted, though it was measured."""

    def __init__(self, text: str, measured: Measurement) -> None:
        super().__init__(text)
        self.measured = measured


@dataclass(frozen=True, slots=True)
class Saturated:
    """The most that a sweep answered, beside the prediction."""

    rate: float  # [1/s] requests, the most
    tokens: float  # [1/s] output tokens, the most
    load: float  # where
    flat_from: float | None  # load from which on throughput no longer rises; None: it rises to the end
    rising_at: float | None  # the load before
    predicted_there: float | None  # [1/s] requests at the load of the most
    predicted: float  # [1/s] requests at saturation
    predicted_low: float | None  # [1/s] 80 % range
    predicted_high: float | None
    predicted_tokens: float  # [1/s]
    predicted_flat_from: float | None  # likewise of the predicted rates at the loads of the sweep
    running: float | None  # [sequences] at the highest load, on the whole deployment
    predicted_running: float | None
    slots: float  # [sequences] predicted, of the whole deployment
    is_limited: bool  # fewer sequences run at once than predicted, and requests wait for that

    @property
    def is_reached(self) -> bool:
        return self.flat_from is not None

    @property
    def inside(self) -> bool | None:
        """Whether the most lies in the range of the predicted saturation; None where it was not reached."""
        if not self.is_reached or self.predicted_low is None or self.predicted_high is None:
            return None
        return self.predicted_low <= self.rate <= self.predicted_high


class AtLoad(NamedTuple):
    """A latency at one load."""

    load: float
    ratio: float  # measured over predicted, of several runs their geometric mean [1]
    is_outside: bool  # of the 80 % range, most runs at this load


class Leaving(NamedTuple):
    """From which load on a latency is outside its 80 % range."""

    metric: str
    judged: tuple[AtLoad, ...]  # by load
    differs: tuple[str, ...]  # where it leaves its range, from the load before

    @property
    def inside(self) -> bool:
        """Whether it is inside throughout."""
        return not any(one.is_outside for one in self.judged)

    @property
    def place(self) -> int | None:
        """Place of the first load from which on it is outside to the end; None where it is inside at the highest."""
        place = len(self.judged)
        while place and self.judged[place - 1].is_outside:
            place -= 1
        return place if place < len(self.judged) else None

    @property
    def load(self) -> float | None:
        """That load."""
        return None if self.place is None else self.judged[self.place].load

    @property
    def before(self) -> float | None:
        """The load before it, at which it is inside."""
        return self.judged[self.place - 1].load if self.place else None

    def text(self, kind: type[Load]) -> str:
        """Where it leaves its range, in a few words."""

        def at(one: AtLoad) -> str:
            return kind.words(f"{one.load:g}")

        name, first, last = self.metric.upper(), self.judged[0], self.judged[-1]
        if self.inside:
            return f"{name} inside throughout"
        place = self.place
        if place == 0:
            ratios = f"{_times(first)} at {at(first)}" + (f", {_times(last)} at {last.load:g}" if first != last else "")
            return f"{name} outside throughout: {ratios}"
        if place is not None:
            others = [f"{one.load:g}" for one in self.judged[:place] if one.is_outside]
            also = f", and at {_few(others)}" if others else ""
            there, before = self.judged[place], self.judged[place - 1]
            since = f"{name} outside from {at(there)} on{also}"
            return f"{since}: {_times(there)}; before, at {before.load:g}, {_times(before)}"
        within = next(number for number, one in enumerate(self.judged) if not one.is_outside)
        if not any(one.is_outside for one in self.judged[within:]):
            inside = f"inside from {self.judged[within].load:g} on"
            return f"{name} outside up to {at(self.judged[within - 1])}: {_times(first)} at {first.load:g}; {inside}"
        others = [f"{_times(one)} at {at(one)}" for one in self.judged if one.is_outside]
        return f"{name} inside, but for {_few(others)}"


def _few(texts: Sequence[str]) -> str:
    """Texts in a row; of many the first, and how many more there are."""
    return ", ".join(texts[:_MOST_SAID]) + (f" and {len(texts) - _MOST_SAID} more" if len(texts) > _MOST_SAID else "")


def _times(one: AtLoad) -> str:
    return f"{rounded(one.ratio)}x"


@dataclass(frozen=True, repr=False)
class MeasuredSweep(Answer[dict[str, Json]]):
    """Runs of one deployment that differ in their load alone, by load.

    >>> import roofline as rl
    >>> case = {"gpu": "h100-sxm", "model": "llama-3.1-8b", "tp": 1, "isl": 2000, "osl": 300}
    >>> results = [
    ...     {"max_concurrency": c, "median_ttft_ms": ttft, "median_tpot_ms": tpot, "request_rate": "inf"}
    ...     for c, ttft, tpot in ((1, 60.0, 6.8), (8, 99.0, 8.7), (32, 150.0, 15.0))
    ... ]
    >>> (sweep,) = rl.check(results, **case).sweeps
    >>> sweep, sweep.step.fixed.inside, sweep.saturation.is_reached
    (<MeasuredSweep of 3 loads, 1 to 32 users: TTFT inside throughout; TPOT inside throughout>, True, False)
    """

    points: tuple[SweepPoint, ...]  # by load
    kind: type[Load]
    step: StepLine | None
    step_reason: str  # why there is no line
    saturation: Saturated | None
    saturation_reason: str  # why nothing is said about it
    leaving: tuple[Leaving, ...]  # of TTFT and TPOT, where measured
    home: str = ""  # file or folder, where others hold the same loads

    @property
    def runs(self) -> list[Run]:
        """Those with a prediction."""
        return [point.run for point in self.points if point.run is not None]

    @property
    def loads(self) -> list[float]:
        """Each once."""
        return distinct([point.load for point in self.points])

    @property
    def deployment(self) -> Deployment:
        deployment: Deployment = self.runs[0].expected.deployment
        return deployment

    @property
    def title(self) -> str:
        """Deployment, lengths and loads."""
        first, plan = self.runs[0].measured, self.deployment.plan
        names = DEGREES
        degrees = [f"{name} {getattr(plan, name)}" for name in names if name == "tp" or getattr(plan, name) > 1]
        lengths = [f"{name} {getattr(first, name):g}" for name in ("isl", "osl") if getattr(first, name) is not None]
        named = f"{self.span} ({self.home})" if self.home else self.span
        return ", ".join([f"{named}: {deployed_text(self.deployment)}", *degrees, *lengths])

    @property
    def span(self) -> str:
        """Number of loads, the first and the last."""
        loads = self.loads
        if self.kind.is_burst:
            return f"{counted(len(loads), 'load')}, batch {loads[0]:g} to {loads[-1]:g}"
        return f"{counted(len(loads), 'load')}, {loads[0]:g} to {self.kind.words(f'{loads[-1]:g}')}"

    @property
    def lines(self) -> list[str]:
        """The summary in words: title, step line, saturation, and where latencies leave their range."""
        return [f"sweep of {self.title}", *(f"  {line}" for line in _lines(self))]

    @property
    def brief(self) -> str:
        """The summary in a sentence."""
        off = () if self.step is None else self.step.off
        line = f"{' and '.join(off)} of the step line {'is' if len(off) == 1 else 'are'} off; " if off else ""
        return f"sweep of {self.title}: {line}{'; '.join(one.text(self.kind) for one in self.leaving)}"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Flat row: what was measured, then each figure beside the predicted one.

        Args:
            keys: the keys to keep; None for all.
        """
        return selected(cells(SWEEP_KEYS, self), keys)

    def __repr__(self) -> str:
        return f"<MeasuredSweep of {self.span}: {'; '.join(one.text(self.kind) for one in self.leaving)}>"

    @property
    def point_rows(self) -> list[dict[str, Json]]:
        """The loads as flat rows."""
        return [cells(POINT_KEYS, (self, point)) for point in self.points]

    @property
    def part_rows(self) -> list[dict[str, Json]]:
        """Parts of the predicted step line as flat rows."""
        parts = () if self.step is None else self.step.parts
        source = {"source": self.points[0].measured.source}
        return [{**source, **cells(LINE_KEYS, part)} for part in parts]


def sweeps_of(runs: Sequence[Run], refused: Iterable[RooflineError] = ()) -> tuple[MeasuredSweep, ...]:
    """Sweeps among runs: of one deployment and workload each, at two loads or more.

    Args:
        runs: measurements beside their predictions.
        refused: why others have none; those beyond the predicted saturation are points all the same.

    Returns:
        The sweeps, those with the most loads first.
    """
    stated: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        if run.expected.workload is not None and not run.measured.is_queue:
            stated.setdefault(_conditions(run), []).append(run)
    groups = [group for alike in stated.values() for group in _of_lengths(alike)]
    beyond = [error.measured for error in refused if isinstance(error, BeyondSaturation)]
    sweeps = []
    for home, members in [part for group in groups for part in _apart(group)]:
        first = members[0].measured
        named = [measured for measured in beyond if home in ("", _home(measured))]
        others = [one for measured in named if (one := _completed(measured, first)) is not None]
        loads = [load_of_run(one)[1] for one in (*(run.measured for run in members), *others)]
        if len(distinct(loads)) > 1:
            sweeps.append(_sweep(members, others, home))
    return tuple(sorted(sweeps, key=lambda sweep: -len(sweep.loads)))


def named_apart(sweeps: Iterable[MeasuredSweep]) -> tuple[MeasuredSweep, ...]:
    """The sweeps, those of one server and kind of load with their file or folder."""
    given = tuple(sweeps)
    servers = [(sweep.kind, sweep.title.partition(": ")[2]) for sweep in given]
    return tuple(
        sweep if servers.count(server) == 1 else replace(sweep, home=_home(sweep.points[0].measured))
        for sweep, server in zip(given, servers, strict=True)
    )


def rows_of_sweeps(sweeps: Sequence[MeasuredSweep]) -> dict[str, Json]:
    """Sweeps, their loads and the parts of their lines, as flat rows."""
    return {
        "sweeps": [sweep.to_dict() for sweep in sweeps],
        "sweep_points": [row for sweep in sweeps for row in sweep.point_rows],
        "sweep_parts": [row for sweep in sweeps for row in sweep.part_rows],
    }


def no_sweep_text(runs: Sequence[Run]) -> str:
    """Why there is none, and what would make one."""
    if len(runs) == 1:
        return f"{runs[0].measured.source} is one load; a sweep needs runs of one server at two loads or more"
    return "no two runs are of one deployment and workload at different loads; a sweep needs two or more"


def _apart(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Runs by their file or folder, where several hold the same load: of one server at different times; else all."""
    homes: dict[str, list[Run]] = {}
    for run in runs:
        homes.setdefault(_home(run.measured), []).append(run)
    loads = [load for part in homes.values() for load in distinct(load_of_run(run.measured)[1] for run in part)]
    return [("", list(runs))] if len(distinct(loads)) == len(loads) else list(homes.items())


def _home(measured: Measurement) -> str:
    """File of several runs, or folder of files of one."""
    file = re.sub(r"(:\d+|\[\d+\])+$", "", measured.source)
    return file if file != measured.source else file.rpartition("/")[0]


def _conditions(run: Run) -> tuple[object, ...]:
    """All that runs of a sweep have in common but lengths."""
    deployment, measured = run.expected.deployment, run.measured
    names = "engine", "engine_version", "quantization", "kv_cache_dtype", "statistic"
    return (
        load_of_run(measured)[0], deployment.model.short_name, deployment.gpu.name, deployment.plan,
        deployment.replicas, *(getattr(measured, name) for name in names),
    )  # fmt: skip


def _of_lengths(runs: Sequence[Run], names: tuple[str, ...] = _LENGTHS) -> list[list[Run]]:
    """Runs whose mean lengths are nearly the same."""
    if not names:
        return [list(runs)]
    groups: list[list[Run]] = []
    name, *others = names
    for run in sorted(runs, key=lambda run: getattr(run.measured, name) or 0.0):
        length = getattr(run.measured, name) or 0.0
        if not groups or length > _ALIKE * (getattr(groups[-1][0].measured, name) or 0.0):
            groups.append([])
        groups[-1].append(run)
    return [part for group in groups for part in _of_lengths(group, tuple(others))]


def _completed(measured: Measurement, other: Measurement) -> Measurement | None:
    """A run without a prediction as one of a sweep; None where it states something else than the others."""
    if getattr(measured, load_of_run(other)[0].option) is None:
        return None
    filled = {name: getattr(other, name) for name in _STATED if getattr(measured, name) is None}
    complete = replace(measured, **filled)
    is_same = all(getattr(complete, name) == getattr(other, name) for name in _STATED if name not in _LENGTHS)
    return complete if is_same and _same_lengths(complete, other) else None


def _same_lengths(measured: Measurement, other: Measurement) -> bool:
    pairs = ((getattr(measured, name) or 0.0, getattr(other, name) or 0.0) for name in _LENGTHS)
    return all(max(pair) <= _ALIKE * min(pair) for pair in pairs)


def _sweep(runs: Sequence[Run], beyond: Sequence[Measurement], home: str) -> MeasuredSweep:
    points = [*(point_of(run.measured, run) for run in runs), *(point_of(one, None) for one in beyond)]
    points.sort(key=lambda point: point.load)
    kind, _ = load_of_run(runs[0].measured)
    step, step_reason = step_line(points)
    saturation, saturation_reason = _saturation(points, kind)
    plain = MeasuredSweep(tuple(points), kind, step, step_reason, saturation, saturation_reason, (), home)
    leaving = (_leaving(plain, metric) for metric in _METRICS)
    return replace(plain, leaving=tuple(one for one in leaving if one is not None))


# Saturation.


def _saturation(points: Sequence[SweepPoint], kind: type[Load]) -> tuple[Saturated | None, str]:
    """The most that was answered, and from which load on throughput is flat; or why that is not known."""
    from roofline.serving.load.equations import capacity

    if kind.is_burst:
        return None, "bursts end: they have no saturation"
    known = [point for point in points if point.rate is not None]
    if len(distinct([point.load for point in known])) < 2:
        both = "" if kind.is_open else ", nor TTFT and TPOT"
        return None, f"the results do not state how many requests were answered per second{both}"
    loads, rates = _means([(point.load, point.rate or 0.0) for point in known])
    most = max(range(len(rates)), key=rates.__getitem__)
    flat = _flat_from(loads, rates)
    if kind.is_open:
        late = _late_from(known)
        places = [place for place, load in enumerate(loads) if late is not None and load >= late]
        flat = min([*([] if flat is None else [flat]), *places[:1]], default=None)
    last = next(point.run for point in reversed(points) if point.run is not None)
    expected, osl = last.expected, last.measured.osl or 1.0
    full = float(capacity(expected.deployment, replace(expected.workload, load=Rate(1.0))))
    slots = float(capacity(expected.deployment, replace(expected.workload, load=Users(1.0))))
    predicted_points = [(point.load, point.predicted_rate) for point in points if point.predicted_rate is not None]
    predicted_loads, predicted_rates = _means(predicted_points)
    full = max([full, *predicted_rates])
    low = high = None
    if expected.tpot_interval is not None:
        slow, fast = expected.tpot_interval[1] / expected.tpot, expected.tpot / expected.tpot_interval[0]
        low, high = full / slow, full * fast
    predicted_flat = _flat_from(predicted_loads, predicted_rates)
    ranks = float(lanes(expected.deployment))
    top = next((point for point in reversed(points) if point.sequences is not None), None)
    return Saturated(
        rate=rates[most],
        tokens=rates[most] * osl,
        load=loads[most],
        flat_from=None if flat is None else loads[flat],
        rising_at=loads[flat - 1] if flat else None,
        predicted_there=dict(zip(predicted_loads, predicted_rates, strict=True)).get(loads[most]),
        predicted=full,
        predicted_low=low,
        predicted_high=high,
        predicted_tokens=full * osl,
        predicted_flat_from=None if predicted_flat is None else predicted_loads[predicted_flat],
        running=None if top is None or top.sequences is None else top.sequences * ranks,
        predicted_running=None if top is None or top.predicted_sequences is None else top.predicted_sequences * ranks,
        slots=slots,
        is_limited=top is not None and _is_limited(top),
    ), ""


def _means(pairs: Iterable[tuple[float, float | None]]) -> tuple[list[float], list[float]]:
    """Loads in order, each once, and the mean of their values."""
    values: dict[float, list[float]] = {}
    near = 0.0
    for load, value in sorted((load, value or 0.0) for load, value in pairs):
        near = near if values and load <= SAME * near else load
        values.setdefault(near, []).append(value)
    return list(values), [sum(found) / len(found) for found in values.values()]


def _flat_from(loads: Sequence[float], values: Sequence[float]) -> int | None:
    """Place of the first load from which on a value hardly rises with the load; None where it rises to the end."""
    later = list(accumulate(reversed(values), max))[::-1]  # the most from each place on
    for place, (load, value) in enumerate(zip(loads, values, strict=True)):
        beyond = loads[-1] / load
        if beyond < _BEYOND:
            return None
        if value > 0.0 and math.log(later[place + 1] / value) <= _FLAT * math.log(beyond):
            return place
    return None


def _late_from(points: Sequence[SweepPoint]) -> float | None:
    """First rate from which on fewer requests are answered than come, and a queue grows; None where none is."""
    first = None
    for point in reversed(points):
        is_late = point.run is None or point.run.inside("ttft") is False
        if point.rate is None or point.rate >= _SHORT * point.load or not is_late:
            break
        first = point.load
    return first


def _is_limited(last: SweepPoint) -> bool:
    """Whether requests wait at the highest load while fewer sequences decode than predicted, none of them slower."""
    if last.run is None or not last.sequences or not last.predicted_sequences:
        return False
    first, each = last.run.ratio("ttft"), last.run.ratio("tpot")
    is_late = first is not None and first > 1.0 and last.run.inside("ttft") is False
    is_less = last.rate is not None and last.predicted_rate is not None and last.rate < last.predicted_rate
    fewer = last.predicted_sequences > _FEWER * last.sequences
    return is_late and is_less and fewer and each is not None and each <= 1.0


# Where latencies leave their range.


def _leaving(sweep: MeasuredSweep, metric: str) -> Leaving | None:
    """From which load on a latency is outside its range; None where none has one."""
    at: dict[float, list[SweepPoint]] = {}
    near = 0.0
    for point in sweep.points:
        if point.run is not None and point.run.inside(metric) is not None:
            near = near if at and point.load <= SAME * near else point.load
            at.setdefault(near, []).append(point)
    if not at:
        return None
    judged = []
    for load, points in at.items():
        runs = [point.run for point in points if point.run is not None]
        ratio = math.exp(sum(math.log(run.ratio(metric) or 1.0) for run in runs) / len(runs))
        outside = sum(run.inside(metric) is False for run in runs)
        judged.append(AtLoad(load, ratio, 2 * outside > len(runs)))
    leaving = Leaving(metric, tuple(judged), ())
    place = 0 if judged[0].is_outside else leaving.place
    if place is None:
        return leaving
    there = at[judged[place].load][0]
    before = at[judged[place - 1].load][0] if place else None
    return leaving._replace(differs=_differences(sweep, metric, there, before))


def _differences(sweep: MeasuredSweep, metric: str, there: SweepPoint, before: SweepPoint | None) -> tuple[str, ...]:
    """What is different at the load where a latency leaves its range."""
    if there.run is None:
        return ()
    found = []
    saturation, step = sweep.saturation, sweep.step
    ranks = float(lanes(sweep.deployment))
    if there.sequences and there.predicted_sequences and there.predicted_sequences > _FEWER * there.sequences:
        measured, predicted = (rounded(number * ranks, 2) for number in (there.sequences, there.predicted_sequences))
        found.append(f"{measured} sequences decode at once, predicted {predicted}")
    is_slower = (there.run.ratio(metric) or 1.0) > 1.0
    if saturation is not None and saturation.flat_from is not None and is_slower and there.load >= saturation.flat_from:
        found.append("throughput no longer rises")
    if metric == "tpot" and step is not None and step.off:
        found.append(f"{' and '.join(step.off)} of the step line {'is' if len(step.off) == 1 else 'are'} off")
    if before is not None and before.run is not None:
        known = {suspect.part for suspect in before.run.suspects}
        suspects = [one for one in there.run.suspects if metric in one.explains and one.part not in known]
        found += [f"{one.part} {rounded(one.factor, 2)}x as long would explain it" for one in suspects[:1] if not found]
        less, util = _util(before.run), _util(there.run)
        if less is not None and util is not None and less < _BUSY <= util:
            found.append(f"at {100.0 * util:.0f} % of the predicted saturation, where closed forms are least sure")
    return tuple(found)


def _util(run: Run) -> float | None:
    """Rate over the largest one, as predicted [1]; None but for arrivals."""
    from roofline.serving.load.equations import capacity

    workload = run.expected.workload
    if not workload.load.is_open:
        return None
    return float(workload.request_rate / capacity(run.expected.deployment, workload))


# The summary in words.


def _lines(sweep: MeasuredSweep) -> list[str]:
    return [
        *_step_lines(sweep),
        _saturation_text(sweep),
        *("; ".join([one.text(sweep.kind), *one.differs]) for one in sweep.leaving),
    ]


def _step_lines(sweep: MeasuredSweep) -> list[str]:
    if sweep.step is None:
        return [f"step line: none ({sweep.step_reason}){_rise_text(sweep)}"]
    step = sweep.step
    bent = f"; a line is off the predicted times by up to {100.0 * step.bend:.0f} %" if step.bend > _BENT else ""
    places = [point.sequences for point in sweep.points if point.sequences is not None]
    return [
        f"step line: TPOT = a + b n, n from {rounded(min(places))} to {rounded(max(places))} sequences in a step{bent}",
        f"  a, weights and host: {_coefficient_text(step.fixed)}",
        f"  b, cache and other prompts: {_coefficient_text(step.each)}",
    ]


def _coefficient_text(one: Coefficient) -> str:
    unit, second = ("ms", MILLI) if max(one.measured, one.predicted) >= 0.1 * MILLI else ("us", 0.001 * MILLI)
    text = f"{rounded(one.measured / second)} {unit}, predicted {rounded(one.predicted / second)}"
    if one.predicted_low is None or one.predicted_high is None:
        return text
    text += f" ({rounded(one.predicted_low / second)}-{rounded(one.predicted_high / second)})"
    if one.inside:
        return f"{text}: inside"
    gap = one.measured - one.predicted
    times = f", {rounded(one.measured / one.predicted, 2)}x" if one.predicted > 0.0 else ""
    return f"{text}: {to_text(abs(gap), 's', 2)} {'more' if gap > 0.0 else 'less'}{times}"


def _rise_text(sweep: MeasuredSweep) -> str:
    """How much more each time is at the last load than at the first, in words."""
    parts = [
        f"{metric.upper()} {rounded(rises[0])}x, predicted {rounded(rises[1])}x"
        for metric in _METRICS
        if (rises := _rises(sweep, metric)) is not None
    ]
    if not parts:
        return ""
    return f"; from {sweep.loads[0]:g} to {sweep.kind.words(f'{sweep.loads[-1]:g}')}: {'; '.join(parts)}"


def _rises(sweep: MeasuredSweep, metric: str) -> tuple[float, float] | None:
    """Time at the last load over that at the first, measured and predicted [1]."""
    runs = [run for run in sweep.runs if run.ratio(metric) is not None]
    if len(runs) < 2:
        return None
    first, last = runs[0], runs[-1]
    measured = getattr(last.measured, metric) / getattr(first.measured, metric)
    return measured, getattr(last.expected, metric) / getattr(first.expected, metric)


def _saturation_text(sweep: MeasuredSweep) -> str:
    found = sweep.saturation
    if found is None:
        return f"saturation: not known ({sweep.saturation_reason})"
    words = sweep.kind.words
    most = f"{rounded(found.rate)} requests/s, {rounded(found.tokens)} output tokens/s"
    ends = (
        ""
        if found.predicted_low is None
        else f" ({rounded(found.predicted_low)}-{rounded(found.predicted_high or 0.0)})"
    )
    predicted = f"predicted {rounded(found.predicted)}{ends} requests/s"
    limit = _limit_text(sweep, found)
    if found.flat_from is None:
        there = "" if found.predicted_there is None else f" (predicted {rounded(found.predicted_there)})"
        where = f"{words(f'{found.load:g}')}{there}"
        return f"saturation: not reached; {most} at {where}, still rising; {predicted} at most{limit}"
    since = "from the lowest load on" if found.rising_at is None else f"flat from {words(f'{found.flat_from:g}')} on"
    rising = "" if found.rising_at is None else f" (still rising at {found.rising_at:g})"
    verdict = {True: ": inside", False: f": {rounded(found.rate / found.predicted, 2)}x", None: ""}[found.inside]
    return f"saturation: {most}, {since}{rising}; {predicted}{verdict}{limit}{_beyond_text(sweep)}"


def _beyond_text(sweep: MeasuredSweep) -> str:
    """Loads for which no steady state is predicted, in words."""
    beyond = distinct([point.load for point in sweep.points if point.run is None])
    if not beyond:
        return ""
    return f"; no steady state is predicted at {_few([f'{load:g}' for load in beyond])} {sweep.kind.unit}"


def _limit_text(sweep: MeasuredSweep, found: Saturated) -> str:
    """How many sequences run at once, where fewer do than predicted."""
    if not found.is_limited or found.running is None or found.predicted_running is None:
        return ""
    flags = cause_flags(sweep.deployment.engine.name, "batch limit")
    look = f", look at {' or '.join(flags)}" if flags else ""
    running, predicted = rounded(found.running, 2), rounded(found.predicted_running, 2)
    return f"; about {running} sequences run at once, predicted {predicted}: fewer slots or less memory{look}"


# Keys of rows.


def _of_line(name: str, place: str, one: Callable[[StepLine], Coefficient], what: str) -> Keys[MeasuredSweep]:
    """Keys of a number of the step line, measured and predicted."""

    def of(field: str) -> Callable[[MeasuredSweep], float | None]:
        def value(sweep: MeasuredSweep) -> float | None:
            number = None if sweep.step is None else getattr(one(sweep.step), field)
            return None if number is None else number / MILLI

        return value

    return {
        f"measured_{name}_ms": Key.number("ms", f"{place} of the measured step line: {what}.", of("measured")),
        f"measured_{name}_low_ms": Key.number("ms", "Low end of its 80 % range by the scatter of runs.", of("low")),
        f"measured_{name}_high_ms": Key.number("ms", "High end of its 80 % range by the scatter of runs.", of("high")),
        f"predicted_{name}_ms": Key.number("ms", f"{place} of the predicted step line.", of("predicted")),
        f"predicted_{name}_low_ms": Key.number("ms", "Low end of its 80 % range.", of("predicted_low")),
        f"predicted_{name}_high_ms": Key.number("ms", "High end of its 80 % range.", of("predicted_high")),
        f"{name}_inside": Key.flag(
            f"Whether {place} of the measured step line lies in the range of the predicted one.",
            lambda sweep: None if sweep.step is None else one(sweep.step).inside,
        ),
    }


def _of_saturation(name: str) -> Callable[[MeasuredSweep], Any]:
    return lambda sweep: None if sweep.saturation is None else getattr(sweep.saturation, name)


def _of_leaving(metric: str) -> Keys[MeasuredSweep]:
    name = metric.upper()

    def of(sweep: MeasuredSweep) -> Leaving | None:
        return next((one for one in sweep.leaving if one.metric == metric), None)

    def text(sweep: MeasuredSweep) -> str | None:
        one = of(sweep)
        return None if one is None else one.text(sweep.kind)

    return {
        f"{metric}_leaves": Key.text(f"Where {name} leaves its 80 % range and stays outside.", text),
        f"{metric}_leaves_at": Key.number(
            "as `load`", f"First load from which on {name} is outside.", lambda s: getattr(of(s), "load", None)
        ),
        f"{metric}_leaves_after": Key.number(
            "as `load`", f"Load before, at which {name} is inside.", lambda s: getattr(of(s), "before", None)
        ),
        f"{metric}_differs": Key.texts(
            f"What is different where {name} leaves its range.", lambda s: list(getattr(of(s), "differs", ()))
        ),
    }


def _value_stated(name: str) -> Callable[[MeasuredSweep], Any]:
    return lambda sweep: getattr(sweep.runs[0].measured, name)


def _degree(name: str) -> Callable[[MeasuredSweep], Any]:
    return lambda sweep: getattr(sweep.deployment.plan, name)


#: Keys of a row of a sweep: the deployment, then its step line, its saturation, and where it leaves the prediction.
SWEEP_KEYS: Keys[MeasuredSweep] = {
    "sources": Key.texts("Runs of the sweep, by load.", lambda s: [point.measured.source for point in s.points]),
    **taken(KEYS, model=lambda s: s.deployment.model.short_name, gpu=lambda s: s.deployment.gpu.name),
    **taken(KEYS, num_gpus=lambda s: s.deployment.num_gpus),
    **taken(KEYS, **{name: _degree(name) for name in DEGREES}),
    **taken(KEYS, isl=_value_stated("isl"), osl=_value_stated("osl")),
    **taken(KEYS, load=lambda s: s.kind.name),
    "loads": Key.integer("1", "Number of different loads of the sweep.", lambda s: len(s.loads)),
    "first_load": Key.number("as `load`", "Lowest load of the sweep.", lambda s: s.loads[0]),
    "last_load": Key.number("as `load`", "Highest load of the sweep.", lambda s: s.loads[-1]),
    **_of_line("step_fixed", "a", lambda step: step.fixed, "weights and host of a step, whatever its sequences"),
    **_of_line("step_each", "b", lambda step: step.each, "what each sequence of a step adds, other prompts included"),
    "step_bend": Key.number(
        "1",
        "Most that the predicted line is off the predicted times.",
        lambda s: None if s.step is None else s.step.bend,
    ),
    "step_reason": Key.text("Why there is no step line; null where there is.", lambda s: s.step_reason or None),
    "saturated": Key.flag(
        "Whether the sweep reached saturation.", lambda s: None if s.saturation is None else s.saturation.is_reached
    ),
    "saturated_reason": Key.text(
        "Why it is not known whether saturation was reached; null where it is.", lambda s: s.saturation_reason or None
    ),
    "most_request_rate": Key.number(
        "1/s", "Requests answered per second, the most of the sweep.", _of_saturation("rate")
    ),
    "most_output_tok_s": Key.number(
        "1/s", "Output tokens answered per second, the most of the sweep.", _of_saturation("tokens")
    ),
    "most_at": Key.number("as `load`", "Load at which the most were answered.", _of_saturation("load")),
    "flat_from": Key.number(
        "as `load`", "First load from which on throughput hardly rises.", _of_saturation("flat_from")
    ),
    "rising_at": Key.number("as `load`", "Highest load at which throughput still rises.", _of_saturation("rising_at")),
    "predicted_flat_from": Key.number(
        "as `load`",
        "First of these loads from which on predicted throughput hardly rises.",
        _of_saturation("predicted_flat_from"),
    ),
    "predicted_max_request_rate": Key.number(
        "1/s", "The largest rate that can be answered, as predicted.", _of_saturation("predicted")
    ),
    "predicted_max_request_rate_low": Key.number(
        "1/s", "Low end of the 80 % range of it.", _of_saturation("predicted_low")
    ),
    "predicted_max_request_rate_high": Key.number(
        "1/s", "High end of the 80 % range of it.", _of_saturation("predicted_high")
    ),
    "predicted_max_output_tok_s": Key.number(
        "1/s", "Output tokens per second at the predicted saturation.", _of_saturation("predicted_tokens")
    ),
    "saturated_inside": Key.flag(
        "Whether the most that were answered lie in the range of the predicted saturation; null where not reached.",
        _of_saturation("inside"),
    ),
    "measured_running": Key.number(
        "sequences", "Sequences that decode at once at the highest load.", _of_saturation("running")
    ),
    "predicted_running": Key.number(
        "sequences",
        "Sequences that decode at once at the highest load, as predicted.",
        _of_saturation("predicted_running"),
    ),
    "predicted_slots": Key.number(
        "sequences", "Sequences that run at once at most, as predicted.", _of_saturation("slots")
    ),
    **{name: key for metric in _METRICS for name, key in _of_leaving(metric).items()},
    "summary": Key.texts("The sweep in words.", lambda s: s.lines),
}


#: Keys of a row of a load of a sweep.
POINT_KEYS: Keys[tuple[MeasuredSweep, SweepPoint]] = {
    **taken(SHARED, source=lambda e: e[1].measured.source),
    "amount": Key.number("as `load`", "Amount of the load of a run.", lambda e: e[1].load),
    "sequences": Key.number(
        "sequences", "Sequences in a step of a rank, as a request sees it.", lambda e: e[1].sequences
    ),
    "predicted_sequences": Key.number(
        "sequences",
        "Sequences in a step of a rank as a request sees it, as predicted.",
        lambda e: e[1].predicted_sequences,
    ),
    "answered_rate": Key.number("1/s", "Requests answered per second.", lambda e: e[1].rate),
    "predicted_answered_rate": Key.number(
        "1/s", "Requests answered per second, as predicted.", lambda e: e[1].predicted_rate
    ),
}


#: Keys of a row of a part of a predicted step line, after the source of the first run.
LINE_KEYS: Keys[LinePart] = {
    **taken(SHARED, part=lambda p: p.name),
    "fixed_ms": Key.number("ms", "What the part adds to a of the step line.", lambda p: p.fixed / MILLI),
    "each_ms": Key.number("ms", "What the part adds to b of the step line.", lambda p: p.each / MILLI),
}
