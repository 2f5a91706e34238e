"""Plans as rows of a workbook: what was answered under the load, and the case of one replica of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import is_nan
from roofline.numbers.quantity import HOUR, MEGA, MILLI
from roofline.physics.plan import Deployment
from roofline.questions import catalog
from roofline.questions.predict import meets
from roofline.questions.ranking import GpuPlan, Plans, what_binds
from roofline.serving.latency import Workload
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import NATIVE
from roofline.serving.shown import degrees_text
from roofline.serving.verdict import FAIL, ends_of_percentile
from roofline.specs.gpu import ROUGH, Gpu
from roofline.specs.model import Model
from roofline.specs.workload import P99_WITHIN, key_text, limits_text, metric_and_level
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple

if TYPE_CHECKING:
    from roofline.outputs.workbook.plans import PlannedAnswer, PlannedCase, PlannedRow, PoolOfPlan
    from roofline.questions.disaggregate import Disaggregation

#: Options of a plan that records of GPUs hold, or that the sheet Plans has in its rows.
_HELD = ("derate", "set", "gpu_price", "price_file", "num_gpus", "model", "gpu", "slo")
_AFTER = MEGA  # before the cases of plans that are not known to meet the SLO


class ReplicaCase(NamedTuple):
    """One replica of a plan as a burst: a row of the sheet Scenarios."""

    model: Model
    gpu: Gpu
    choices: Mapping[str, Any]  # options of `predict`


class PlannedBook(NamedTuple):
    """What a workbook of plans holds."""

    answer: PlannedAnswer
    cases: Sequence[ReplicaCase]
    options: Mapping[str, Any]  # of `predict`, that all of its cases share
    slo: Mapping[str, float]  # [s]
    load: Mapping[str, float]  # of the first plan, by its option; none where pools come first
    replicas: int = 1  # of it


def planned_book(plans: Plans, allowed: Sequence[str]) -> PlannedBook:
    """A workbook of plans; `allowed` are the options that its cells express."""
    from roofline.outputs.workbook.plans import PlannedAnswer

    live = [plan for plan in plans.plans if plan.prediction is not None]
    if not live and not plans.pools:
        nearest = next(iter(plans.plans), None)
        why = "" if nearest is None else f"; nearest: {nearest}"
        raise BadInput(f"no plan meets the SLO, so that there is nothing to put into a workbook{why}")
    options = dict(live[0].options) if live else dict(getattr(plans.question, "options", {}))
    first: Any = live[0].prediction if live else plans.pools[0]
    slo, is_mean = first.slo, first.workload.is_mean
    keys = _times(slo)
    table = _Table(options)
    rows = [table.plan(plan, keys, plans) for plan in live]
    pools = [table.two_pools(pair, keys) for pair in plans.pools]
    prices = {gpu.name: None if gpu.price is None else gpu.price.typical * HOUR for gpu in table.gpus}
    answer = PlannedAnswer(
        slo=limits_text(slo),
        times=[key_text(key, is_mean=is_mean) for key in keys],
        cases=list(table.cases.values()),
        plans=_with_ties(rows, [(_excess(plan.prediction), plan.gpu.name) for plan in live]),
        pools=_with_ties(pools, [(sum(pair.slo_shares.values()), "") for pair in plans.pools]),
        misses=[
            (plan.gpu.name, plan.verdict or FAIL, str(plan.reason)) for plan in plans.plans if plan.prediction is None
        ],
        prices=prices,
        keeps_replicas=plans.objective == "latency",
        leads_by_price=not plans.is_named,
        notes=list(_notes(plans, options, allowed)),
    )
    if not live:
        return PlannedBook(answer, table.replicas, options, slo, {})
    load, replicas = first.workload.load, first.deployment.replicas
    return PlannedBook(answer, table.replicas, options, slo, {load.option: load.amount}, replicas)


def _times(slo: Mapping[str, float]) -> list[str]:
    """Keys of the latencies that are shown: those that are limited, and TTFT and TPOT in any case."""
    limited = [key for key in slo if key != P99_WITHIN]
    plain = [name for name in ("ttft", "tpot") if all(metric_and_level(key)[0] != name for key in limited)]
    order = ("ttft", "tpot", "itl", "e2el")
    return sorted([*plain, *limited], key=lambda key: order.index(metric_and_level(key)[0]))


def _notes(plans: Plans, options: Mapping[str, Any], allowed: Sequence[str]) -> Iterator[str]:
    yield (
        "Columns under live follow from the yellow cells; the others are as planned when this was written: a load is "
        "solved in rounds that cells do not hold. Ranges are 80 %."
    )
    yield (
        "Replicas are the fewest of the same kind that carry the load with its headroom, none of them more than it was "
        "found to hold within the SLO (spare load). No other plan is searched: run roofline sheet --plan again."
    )
    yield (
        "Verdicts are those of the plan up to the load per replica that it was planned for, pass? above it. Output "
        "tokens follow the load in proportion. The budget of GPUs and rent is that of the plan."
    )
    yield "Row of Scenarios: one replica of the plan as a burst on an idle server, whose cells are all live."
    left = [name for name, value in options.items() if value is not None and name not in (*allowed, *_HELD)]
    loads = {plan.prediction.workload.load.option for plan in plans.plans if plan.prediction is not None}
    left = [name for name in left if name not in loads]
    if left:
        yield f"The rows of Scenarios are without what cells do not express: {', '.join(left)}."
    yield from dict.fromkeys(plans.notes)
    if plans.steps:
        yield "As the load grows, searched anew when this was written:"
        yield from (f"  {step}" for step in plans.steps)


def _excess(prediction: Prediction | None) -> float:
    shares = {} if prediction is None else prediction.slo_shares
    return sum(float(share) for share in shares.values() if not is_nan(share))


def _with_ties(rows: Sequence[PlannedRow], keys: Sequence[tuple[float, str]]) -> list[PlannedRow]:
    """Rows with their place among plans that are equal in rent and GPUs."""
    order = sorted(range(len(rows)), key=lambda place: keys[place])
    return [row._replace(tie=order.index(place)) for place, row in enumerate(rows)]


class _Table:
    """Rows of plans, and what they refer to: cases, GPUs, and replicas as scenarios."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.cases: dict[tuple[Any, ...], PlannedCase] = {}
        self.gpus: list[Gpu] = []
        self.replicas: list[ReplicaCase] = []

    def plan(self, plan: GpuPlan, keys: Sequence[str], plans: Plans) -> PlannedRow:
        prediction = plan.prediction
        assert prediction is not None  # noqa: S101 - it has an answer
        deployment, workload = prediction.deployment, prediction.workload
        case = self._case(plan.model, workload)
        is_timed, is_sold = prediction.basis not in ROUGH, plan.gpu.status not in catalog.ANNOUNCED
        remarks = ["" if is_sold else plan.gpu.status, "" if is_timed else "not timed"]
        is_known = plans.is_named or (is_timed and plan.gpu.status == "shipping")
        shares = [float(share) for share in prediction.slo_shares.values() if not is_nan(share)]
        figures = {"latency": max(shares, default=0.0), "throughput": None}
        batch = float(math.ceil(prediction.decode_batch))
        return _row(
            case=case,
            pools=(self._pool(deployment, plan.quantization),),
            times=tuple(_time_and_ends(keys, prediction.latency, prediction.latency_interval)),
            verdict=plan.verdict,
            meets=bool(plan.meets),
            binding=what_binds(prediction),
            remark=", ".join(filter(None, remarks)),
            largest=max(plan.largest_load or 0.0, float(workload.load.amount)),
            output_tok_s=float(prediction.output_tok_s),
            scenario=self._replica(deployment, workload, batch, plan.quantization, plan.options),
            group=float(case) if meets(plan.verdict) else _AFTER + 2.0 * case + (plan.meets is None),
            figure=figures.get(plans.objective, 0.0),
            lead=(0 if is_known else 1) if is_sold else 2,
        )

    def two_pools(self, pair: Disaggregation, keys: Sequence[str]) -> PlannedRow:
        first, second = pair.pools.prefill, pair.pools.decode
        case = self._case(pair.model, pair.workload)
        amount, load = float(pair.workload.load.amount), pair.workload.load
        held = pair.goodput().rate if load.is_open and pair.slo_met else 0.0
        decoding = pair.request_rate * float(pair.found.decode) / second.replicas
        rows = [
            self._replica(pool, pair.workload, batch, pair.formats.get(role), self.options)
            for role, pool, batch in (("prefill", first, 1.0), ("decode", second, float(max(1, math.ceil(decoding)))))
        ]

        def ends(key: str) -> tuple[float, float] | None:
            metric, time = metric_and_level(key)[0], pair.latency(key)
            known, mean = (pair.intervals or {}).get(metric), getattr(pair, metric)
            return None if known is None or time is None else ends_of_percentile(known, mean, (time, time))

        judged = pair.slo_verdict
        return _row(
            case=case,
            pools=tuple(
                self._pool(pool, pair.formats.get(role)) for role, pool in (("prefill", first), ("decode", second))
            ),
            times=tuple(_time_and_ends(keys, pair.latency, ends)),
            verdict=pair.verdict,
            meets=bool(pair.slo_met),
            binding=what_binds(pair) if judged is not None else "",
            remark="two pools",
            largest=max(held, amount),
            output_tok_s=pair.output_tok_s,
            scenario=" + ".join(rows),
            group=float(case),
            figure=0.0,
            lead=2,
        )

    def _case(self, model: Model, workload: Workload) -> int:
        """Place of a case, added if there is none."""
        from roofline.outputs.workbook.plans import PlannedCase

        load, lengths = workload.load, f"isl {workload.isl:g}, osl {workload.osl:g}"
        key = (model.short_name, *workload.numbers.values(), load.name)
        prefix = f", prefix {workload.prefix:g}" if workload.prefix else ""
        case = PlannedCase(f"{model.short_name}, {lengths}{prefix}", float(load.amount), load.unit, load.least)
        self.cases.setdefault(key, case)
        return list(self.cases).index(key)

    def _pool(self, deployment: Deployment, preset: str | None) -> PoolOfPlan:
        from roofline.outputs.workbook.plans import PoolOfPlan

        gpu, plan = deployment.gpu, deployment.plan
        if all(gpu.name != other.name for other in self.gpus):
            self.gpus.append(gpu)
        text = degrees_text(plan, ("tp",))
        return PoolOfPlan(gpu.name, text, preset or NATIVE, float(plan.num_gpus), float(deployment.replicas))

    def _replica(
        self, deployment: Deployment, workload: Workload, batch: float, preset: str | None, options: Mapping[str, Any]
    ) -> str:
        """Row of the sheet Scenarios with one replica, added if there is none."""
        plan = deployment.plan
        choices = {
            **{degree: getattr(plan, degree) for degree in ("tp", "pp", "ep", "dp")},
            **{name: float(getattr(workload, name)) for name in ("isl", "osl", "prefix")},
            "batch": batch,
            "quantization": preset,
            "kv_cache_dtype": options.get("kv_cache_dtype"),
            "basis": options.get("basis") or "calibrated",
        }
        case = ReplicaCase(deployment.model, deployment.gpu, choices)
        same = (place for place, other in enumerate(self.replicas) if other == case)
        place = next(same, len(self.replicas))
        if place == len(self.replicas):
            self.replicas.append(case)
        return str(place + 2)  # below the headings


def _row(**fields: Any) -> PlannedRow:
    from roofline.outputs.workbook.plans import PlannedRow

    return PlannedRow(**fields, tie=0)


def _time_and_ends(
    keys: Sequence[str],
    latency: Callable[[str], Any],
    interval: Callable[[str], Any],
) -> Iterator[tuple[float | None, float | None, float | None]]:
    """Each latency and the ends of its range [ms]."""

    def ms(time: Any) -> float | None:
        return None if time is None else float(time) / MILLI

    for key in keys:
        low, high = interval(key) or (None, None)
        yield ms(latency(key)), ms(low), ms(high)
