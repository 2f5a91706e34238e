"""A plan judged by a run of it: whether it meets its SLO as measured, and the GPUs that it then takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from roofline.numbers.operations import Json
from roofline.questions.check import (
    MeasurementCheck,
    Reading,
    check_readings,
    read_each,
    reading_of,
    stated_of_run,
)
from roofline.questions.inputs.case import BASES
from roofline.questions.inputs.deployment import gpu_of
from roofline.questions.plan import plan as planned
from roofline.questions.predict import predict
from roofline.questions.ranking import GpuPlan
from roofline.serving.answers import Answer, Answers, selected
from roofline.serving.prediction import Prediction
from roofline.serving.shown import beside_limit
from roofline.specs.load import KIND_OF
from roofline.specs.workload import P99_WITHIN, Measurement, key_text, metric_and_level
from roofline.support.errors import BadInput, RooflineError
from roofline.support.reading import RESULT_BYTES, Unreadable, content
from roofline.support.records import dataclass, field

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import CheckOptions

_DEGREES = ("tp", "pp", "ep", "dp", "cp", "dcp")
#: What a plan states of its deployment that a result may leave out.
_OF_PLAN = ("model", "gpu", "engine", *_DEGREES, "quantization", "kv_cache_dtype", "isl", "osl", "prefix")
_LOADS = tuple(KIND_OF)
_WHOLE = 1.5  # of one replica's share, from which a load is that of all replicas


@dataclass(frozen=True, repr=False)
class PlanCheck(Answer[dict[str, Json]]):
    """A plan beside a run of one of its replicas.

    >>> import roofline as rl
    >>> row = rl.plan("llama-3.1-8b", "h100-sxm", slo="ttft:200,tpot:12", concurrency=16).best.to_dict()
    >>> judged = rl.check_plan(row, {"mean_ttft_ms": 110.0, "mean_tpot_ms": 11.0})[0]
    >>> judged.meets, judged.needed is None, judged.to_dict(["gpu", "meets"])
    (True, True, {'gpu': 'h100-sxm', 'meets': True})
    """

    plan: Prediction  # as it was planned
    run: MeasurementCheck
    latencies: Mapping[str, float | None]  # key of a limit -> latency with the measured error [s]; None: not measured
    needed: GpuPlan | None = field(default=None, repr=False)  # the same plan with as many GPUs as it then takes
    notes: tuple[str, ...] = ()

    @property
    def meets(self) -> bool | None:
        """Whether every limit holds as measured; None where none is missed but some were not measured."""
        known = {key: time for key, time in self.latencies.items() if time is not None}
        if any(time > self.plan.slo[key] for key, time in known.items()):
            return False
        return True if known and len(known) == len(self.plan.slo) else None

    def __str__(self) -> str:
        is_mean = self.plan.workload.is_mean
        measured = [key for key, time in self.latencies.items() if time is not None]
        limits = ", ".join(
            beside_limit(key, self.latencies[key], self.plan.slo[key], is_mean=is_mean) for key in measured
        )
        others = ", ".join(key_text(key, is_mean=is_mean) for key in self.plan.slo if key not in measured)
        unknown = f"; not measured: {others}" if others else ""
        if not measured:
            return f"the plan cannot be judged{unknown}"
        if self.meets is not False:
            word = "holds" if self.meets else "holds as far as it was measured"
            return f"as measured, the plan {word}: {limits}{unknown}"
        text = f"as measured, the plan misses its SLO: {limits}{unknown}"
        if self.needed is None or self.needed.prediction is None:
            why = "" if self.needed is None else f" ({self.needed.reason})"
            return f"{text}; no number of replicas of this plan meets it{why}"
        before, after = self.plan.deployment.num_gpus, self.needed.prediction.deployment.num_gpus
        return f"{text}; it takes {after} GPUs instead of {before}"

    def __repr__(self) -> str:
        return f"<PlanCheck {self}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Plain values: plan, whether it meets its SLO as measured, latencies, and the GPUs that it then takes."""
        needed = None if self.needed is None else self.needed.prediction
        values: dict[str, Json] = {
            "model": self.plan.deployment.model.short_name,
            "gpu": self.plan.deployment.gpu.name,
            "num_gpus": self.plan.deployment.num_gpus,
            "meets": self.meets,
            "latencies_s": dict(self.latencies),
            "limits_s": dict(self.plan.slo),
            "num_gpus_needed": None if needed is None else needed.deployment.num_gpus,
            "usd_per_hour_needed": None if needed is None else needed.usd_per_hour,
            "text": str(self),
            "notes": list(self.notes),
        }
        return selected(values, keys)


def check_plan(
    plan: str | PathLike[str] | Mapping[str, object],
    results: str | PathLike[str] | Mapping[str, object] | Iterable[str | PathLike[str] | Mapping[str, object]],
    *,
    statistic: str | None = None,
    specs: str | None = None,
    **options: Unpack[CheckOptions],
) -> Answers[PlanCheck, dict[str, Json]]:
    """Whether a plan meets its SLO, given a measurement of one of its replicas, and the GPUs that it takes if not.

    The latencies of the plan are scaled by measured over predicted time of the run, at the load of the run. Where they
    miss a limit, the same plan is given as many replicas as meet the limits divided by these factors.

    Args:
        plan: what ``roofline plan --format json`` printed, a path, or one of its rows. Of several rows, the one of the
            measured GPU counts; where the result names none, the one that led the screen.
        results: of a benchmark tool, as in `check`. What they do not state is as planned; a load as large as that of
            all replicas is shared among them.
        statistic: over the requests, as in `check`.
        specs: folder of your own specifications.
        options: as in `check`; they replace what results and plan state.

    Returns:
        An answer for each run.

    Raises:
        BadInput: the file is no plan, or no result can be read.

    Valid:
        Errors of percentiles are taken to be those of the statistic that was measured.

    Source:
        docs/method.md, "Plans".

    >>> import roofline as rl
    >>> row = rl.plan("llama-3.1-8b", "h100-sxm", slo="ttft:200,tpot:12", concurrency=16).best.to_dict()
    >>> rl.check_plan(row, {"mean_ttft_ms": 110.0, "mean_tpot_ms": 13.0})[0].meets
    False
    """
    readings, unread = read_each(results, lambda source: reading_of(source, statistic))
    answers, refused = judged_by(plan, readings, options, specs=specs)
    if not answers:
        raise next(iter((*unread, *refused, BadInput("no result to judge the plan by"))))
    return Answers(answers)


def judged_by(
    plan: str | PathLike[str] | Mapping[str, object],
    readings: Iterable[Reading],
    options: Mapping[str, Any],
    *,
    specs: str | None = None,
) -> tuple[list[PlanCheck], list[RooflineError]]:
    """A plan beside every usable run of some results, and the errors of the others."""
    rows = rows_of_plan(plan)
    own = stated_of_run({name: value for name, value in options.items() if value is not None})
    answers: list[PlanCheck] = []
    refused: list[RooflineError] = []
    for reading in readings:
        refused += reading.faults
        for measurement in reading.measurements:
            case = _case_for(rows, own.get("gpu") or measurement.gpu, specs)
            prediction = predict(**case)
            filled, notes = _filled(prediction, case, measurement, own)
            runs, failures = check_readings([Reading((measurement,))], {**filled, **own}, basis=BASES[0], specs=specs)
            answers += [_judged(prediction, case, run, notes) for run in runs]
            refused += failures
    return answers, refused


def is_plan(path: str) -> bool:
    """Whether a file is what ``roofline plan --format json`` printed; pipes, which can be read once, are not."""
    try:
        return Path(path).is_file() and bool(rows_of_plan(path))
    except (RooflineError, ValueError):  # ValueError: a zero byte in the name
        return False


def rows_of_plan(plan: str | PathLike[str] | Mapping[str, object]) -> list[Mapping[str, Any]]:
    """Rows of a plan that meet its SLO."""
    source = "the plan"
    document: Any = plan
    if not isinstance(plan, Mapping):
        source = str(plan)
        try:
            document = json.loads(content(source, RESULT_BYTES, "plan"))
        except Unreadable as fault:
            raise BadInput(f"{source}: {fault}") from None
        except ValueError:
            raise BadInput(f"{source} is no JSON; write the plan with roofline plan --format json") from None
    rows = document.get("rows", [document]) if isinstance(document, Mapping) else []
    rows = rows if isinstance(rows, list) else []
    if not rows or any(not isinstance(row, Mapping) or not {"options", "meets"} <= set(row) for row in rows):
        raise BadInput(f"{source} is not a plan; write it with roofline plan --format json")
    met = [row for row in rows if isinstance(row["options"], Mapping) and row["options"].get("slo")]
    if not met:
        raise BadInput(f"{source}: no GPU meets the SLO of the plan, so there is nothing to judge")
    return met


def _case_for(rows: Sequence[Mapping[str, Any]], gpu: Any, specs: str | None) -> dict[str, Any]:
    """Keyword arguments of `predict` of the row that a run is about; that of the first plan where it names no GPU."""
    row = next((each for each in rows if each.get("leads")), rows[0])
    if gpu is not None:
        name = gpu_of(gpu, specs).name
        row = next((each for each in rows if each.get("gpu") == name), row)
    return {str(name): value for name, value in row["options"].items()}


def _filled(
    prediction: Prediction, case: Mapping[str, Any], measurement: Measurement, own: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a result leaves out, as planned, and notes on what it states otherwise."""
    said = {name: getattr(measurement, name, None) for name in (*_OF_PLAN, *_LOADS)}
    numbers, plan = prediction.workload.numbers, prediction.deployment.plan
    planned_values = {
        **case,
        **{name: getattr(plan, name) for name in _DEGREES},
        **{name: float(numbers[name]) for name in ("isl", "osl", "prefix") if numbers.get(name)},
    }
    filled: dict[str, Any] = {}
    notes = []
    for name in _OF_PLAN:
        value, run = planned_values.get(name), own.get(name, said.get(name))
        if run is None and value is not None:
            filled[name] = value
        elif name in _DEGREES and value is not None and run != value:
            notes.append(f"the plan has {name} {value}, the run {name} {run}")
    load, replicas = prediction.workload.load, prediction.deployment.replicas
    of_one = float(load.amount) / (1.0 if load.is_burst else replicas)
    stated_loads = [name for name in _LOADS if own.get(name, said.get(name)) is not None]
    if not stated_loads:
        filled[load.option] = of_one
    elif load.option not in own and replicas > 1 and float(said.get(load.option) or 0.0) > _WHOLE * of_one:
        filled[load.option] = float(said[load.option] or 0.0) / replicas
        notes.append(f"the load of the run is taken as that of all {replicas} replicas")
    return filled, tuple(notes)


def _judged(
    prediction: Prediction, case: Mapping[str, Any], run: MeasurementCheck, notes: tuple[str, ...]
) -> PlanCheck:
    """A run beside its plan."""
    latencies: dict[str, float | None] = {}
    factors: dict[str, float] = {}
    for key in prediction.slo:
        if key == P99_WITHIN:
            continue
        metric, _ = metric_and_level(key)
        time, ratio = prediction.latency(key), run.ratio(metric if metric != "itl" else "tpot")
        latencies[key] = None if time is None or ratio is None else float(time) * ratio
        if ratio is not None:
            factors[key] = ratio
    answer = PlanCheck(prediction, run, latencies, notes=notes)
    if answer.meets is not False:
        return answer
    limits = {key: limit / factors.get(key, 1.0) for key, limit in prediction.slo.items()}
    again = {name: value for name, value in case.items() if name not in ("model", "gpu", "num_gpus", "slo")}
    (needed, *_) = planned(case["model"], case["gpu"], slo=limits, **again).plans
    return PlanCheck(prediction, run, latencies, needed, notes)
