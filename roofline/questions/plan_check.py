"""A plan judged by a run of it: whether it meets its SLO as measured, and the GPUs that it then takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from roofline.numbers.operations import Json
from roofline.questions.check import MeasurementCheck, check, reading_of
from roofline.questions.inputs.deployment import gpu_of
from roofline.questions.plan import plan as planned
from roofline.questions.predict import predict
from roofline.questions.ranking import GpuPlan
from roofline.serving.answers import Answer, Answers, selected
from roofline.serving.prediction import Prediction
from roofline.serving.shown import beside_limit
from roofline.specs.load import KIND_OF
from roofline.specs.workload import P99_WITHIN, metric_and_level
from roofline.support.errors import BadInput, RooflineError
from roofline.support.reading import RESULT_BYTES, Unreadable, content
from roofline.support.records import dataclass, field

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import CheckOptions

_DEGREES = ("tp", "pp", "ep", "dp")
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
        """Whether every limit that was measured holds; None where none was."""
        known = {key: time for key, time in self.latencies.items() if time is not None}
        return all(time <= self.plan.slo[key] for key, time in known.items()) if known else None

    def __str__(self) -> str:
        is_mean = self.plan.workload.is_mean
        limits = ", ".join(
            beside_limit(key, time, self.plan.slo[key], is_mean=is_mean) for key, time in self.latencies.items()
        )
        if self.meets is None:
            return f"the plan cannot be judged: the result has none of {', '.join(self.latencies)}"
        word = "holds" if self.meets else "misses its SLO"
        text = f"as measured, the plan {word}: {limits}"
        if self.meets:
            return text
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
    **options: Unpack[CheckOptions],
) -> Answers[PlanCheck, dict[str, Json]]:
    """Whether a plan meets its SLO as one of its replicas was measured, and the GPUs that it takes otherwise.

    The latencies of the plan are scaled by measured over predicted time of the run, at the load of the run. Where they
    miss a limit, the same plan is given as many replicas as meet the limits divided by these factors.

    Args:
        plan: what ``roofline plan --format json`` printed, a path, or one of its rows. Of several rows that of the GPU
            that was measured counts; where the result names none, the one that led the screen.
        results: of a benchmark tool, as in `check`. What they do not state is as planned; a load as large as that of
            all replicas is shared among them.
        options: of `check`, in place of what results and plan state.

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
    rows = rows_of_plan(plan)
    answers: list[PlanCheck] = []
    for source in [results] if isinstance(results, (str, PathLike, Mapping)) else list(results):
        own = {name: value for name, value in options.items() if value is not None}
        case = _case_for(rows, own.get("gpu"), source)
        prediction = predict(**case)
        filled, notes = _filled(prediction, case, source, own)
        answers += [_judged(prediction, case, run, notes) for run in check(source, **{**filled, **own})]
    return Answers(answers)


def is_plan(path: str) -> bool:
    """Whether a file is what ``roofline plan --format json`` printed."""
    try:
        return bool(rows_of_plan(path))
    except RooflineError:
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
        raise BadInput(f"{source} is no plan; write it with roofline plan --format json")
    met = [row for row in rows if isinstance(row["options"], Mapping) and row["options"].get("slo")]
    if not met:
        raise BadInput(f"{source}: no GPU meets the SLO of the plan, so there is nothing to judge")
    return met


def _case_for(rows: Sequence[Mapping[str, Any]], gpu: Any, source: Any) -> dict[str, Any]:
    """Keyword arguments of `predict` of the row that a result is about."""
    measurements = reading_of(source, None).measurements
    stated = gpu or (measurements[0].gpu if measurements else None)
    row: Mapping[str, Any] | None = None
    if isinstance(stated, str):
        with suppress(RooflineError):
            name = gpu_of(stated).name
            row = next((each for each in rows if each.get("gpu") == name), None)
    known = (each for each in rows if _leads(each))
    row = row or next(known, rows[0])
    return {str(name): value for name, value in row["options"].items()}


def _leads(row: Mapping[str, Any]) -> bool:
    """Whether a row stands above the rule of a screen."""
    is_timed = row.get("basis") != "generic"
    return is_timed and row.get("gpu_status") == "shipping" and row.get("usd_per_hour") is not None


def _filled(
    prediction: Prediction, case: Mapping[str, Any], source: Any, own: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a result leaves out, as planned, and notes on what it states otherwise."""
    measurements = reading_of(source, None).measurements
    said = {name: getattr(measurements[0], name, None) for name in (*_OF_PLAN, *_LOADS)} if measurements else {}
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
