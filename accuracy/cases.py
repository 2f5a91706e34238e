"""Measured cases beside their predictions: what the scoreboard and the tests judge."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from serving_rows import HELD_OUT_MODELS

import roofline as rl
from roofline.catalog.find import profile_of
from roofline.numbers.quantity import MILLI
from roofline.serving.latency import SIGMA_TPOT, SIGMA_TTFT
from roofline.serving.verdict import spread

PUBLISHED = Path(__file__).parent.parent / "tests" / "measured" / "published.csv"
OFFLINE = PUBLISHED.with_name("offline.csv")
#: Publications that a profile was fitted on as a whole.
FITTED_SOURCES = ("TensorRT-LLM 0.9.0 static sweep", "NVIDIA NIM sweep")
HELD_OUT_GPUS = ("h200-sxm", "gb200-nvl72", "b300", "gb300-nvl72")


@dataclass(frozen=True)
class Case:
    """One figure: measured, predicted with its interval, and at the hardware limit; times in seconds."""

    dataset: str
    split: str  # fit, held out or, of published rows, not fitted
    metric: str  # ttft, tpot or e2el
    measured: float
    predicted: float
    ideal: float
    low: float
    high: float
    gpu: str
    model: str
    kind: str  # dense, MoE, MLA or hybrid
    dtype: str
    engine: str
    tp: int
    batch: float
    basis: str
    load: str  # static, concurrency 1 or loaded
    source: str = ""
    ep: int = 1

    @property
    def log_ratio(self) -> float:
        """ln(predicted / measured)."""
        return math.log(self.predicted / self.measured)


@dataclass(frozen=True)
class Score:
    """How far a set of cases is off."""

    count: int
    median: float  # |predicted/measured - 1| [%]
    mean: float
    p90: float
    bias: float  # median of ln(predicted/measured) [%]
    coverage: float | None  # share inside the 80 % interval [%]; None where the prediction states none
    ideal: float  # median error of the ideal roofline [%]


def score(cases: Iterable[Case]) -> Score:
    """Errors of some cases."""
    found = list(cases)
    errors = sorted(100.0 * abs(case.predicted / case.measured - 1.0) for case in found)
    inside = sum(case.low <= case.measured <= case.high for case in found)
    return Score(
        count=len(found),
        median=statistics.median(errors),
        mean=statistics.fmean(errors),
        p90=errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)],
        bias=100.0 * statistics.median(case.log_ratio for case in found),
        coverage=None if math.isnan(found[0].low) else 100.0 * inside / len(found),
        ideal=statistics.median(100.0 * abs(case.ideal / case.measured - 1.0) for case in found),
    )


def table_rows(path: Path = PUBLISHED) -> list[dict[str, str]]:
    """Rows of a table of measurements; lines that begin with # are remarks."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def published_cases(path: Path = PUBLISHED) -> list[Case]:
    """Static batches and concurrency-1 servers of public pages, predicted."""
    return [case for row in table_rows(path) for case in _published(row)]


def published_prediction(row: dict[str, str]) -> rl.Prediction:
    """A row of `PUBLISHED`, predicted with the profile of its engine."""
    known = profile_of(row["engine"], row["engine_version"])
    return rl.predict(
        row["model"],
        row["gpu"],
        isl=float(row["isl"]),
        osl=max(float(row["osl"] or 1.0), 1.0),
        batch=float(row["batch"] or 1.0),
        prefix=float(row["prefix"] or 0.0),
        tp=int(row["tp"] or 1),
        pp=int(row["pp"] or 1),
        ep=int(row["ep"] or 1),
        dp=int(row["dp"] or 1),
        quantization=row["quantization"] or None,
        kv_cache_dtype=row["kv_cache_dtype"] or None,
        engine="none" if known == "generic" and row["load"] == "static" else known,  # no server starts a static batch
        allow_oversize=True,
    )


def _published(row: dict[str, str]) -> Iterator[Case]:
    prediction = published_prediction(row)
    for metric in ("ttft", "tpot", "e2el"):
        text = row[f"{metric}_ms"]
        if not text or (metric == "e2el" and (row["ttft_ms"] or row["tpot_ms"])):
            continue
        yield _case(
            prediction,
            metric,
            float(text) * MILLI,
            "published",
            _split(row, metric, prediction),
            row["load"],
            row["source"],
        )


def offline_cases(path: Path = OFFLINE) -> list[Case]:
    """Servers with every request queued at once: time per output token of a GPU, the inverse of its throughput."""
    return [_offline(row) for row in table_rows(path)]


def _offline(row: dict[str, str]) -> Case:
    found = rl.predict(
        row["model"],
        row["gpu"],
        isl=float(row["isl"]),
        osl=float(row["osl"]),
        num_prompts=float(row["num_prompts"]),
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        ep=int(row["ep"]),
        dp=int(row["dp"]),
        quantization=row["quantization"] or None,
        kv_cache_dtype=row["kv_cache_dtype"] or None,
        engine="trtllm",
        max_num_seqs=2048,
        gpu_memory_utilization=0.95,
        allow_oversize=True,
    )
    assert found.served is not None
    each = found.deployment.num_gpus / float(row["osl"])
    predicted = each / float(found.served.request_rate)
    first, step = found.ideal
    slots = float(found.served.batch) * found.deployment.plan.pp
    low, high = found.tpot_interval
    light = each * (step.time / slots + first.time)
    model = found.deployment.model
    return Case(
        dataset="offline",
        split="held out" if is_held_out(found) else "not fitted",
        metric="time per token",
        measured=1.0 / float(row["output_tok_s_per_gpu"]),
        predicted=predicted,
        ideal=light,
        low=predicted * float(low / found.tpot),  # a step's interval: a full server computes nothing else
        high=predicted * float(high / found.tpot),
        gpu=found.deployment.gpu.name,
        model=model.short_name,
        kind=kind(model),
        dtype=found.deployment.quantization.sections["experts" if model.is_moe else "linear"].format,
        engine="trtllm",
        tp=found.deployment.plan.tp * found.deployment.plan.dp,
        batch=slots,
        basis=found.basis,
        load="offline",
        ep=int(row["ep"]),
    )


def is_held_out(prediction: rl.Prediction) -> bool:
    """Whether the GPU or the model of a case is held out: no constant was ever fitted on it."""
    deployment = prediction.deployment
    return deployment.gpu.name in HELD_OUT_GPUS or deployment.model.short_name.startswith(HELD_OUT_MODELS)


def is_idle_evidence(row: dict[str, str], prediction: rl.Prediction) -> bool:
    """Whether the TTFT of a single request shows what an idle server takes: a known engine, kernels that were timed."""
    return (
        row["load"] == "concurrency-1"
        and bool(row["ttft_ms"])
        and not is_held_out(prediction)
        and prediction.basis == "calibrated"
        and prediction.deployment.gpu.vendor == "NVIDIA"  # on whose GPUs hosts were fitted
        and prediction.deployment.engine.family in ("trtllm", "vllm", "sglang")
    )


def _split(row: dict[str, str], metric: str, prediction: rl.Prediction) -> str:
    if is_held_out(prediction):
        return "held out"
    is_fitted = row["source"].startswith(FITTED_SOURCES) or (
        prediction.deployment.engine.name == "eager" and metric in ("ttft", "tpot")
    )
    return "fit" if is_fitted or (metric == "ttft" and is_idle_evidence(row, prediction)) else "not fitted"


def _case(p: rl.Prediction, metric: str, measured: float, dataset: str, split: str, load: str, source: str) -> Case:
    first, step = p.ideal
    osl = p.workload.osl
    light = {"ttft": first.time, "tpot": step.time, "e2el": first.time + (osl - 1.0) * step.time}[metric]
    low, high = getattr(p, f"{metric}_interval")
    deployment = p.deployment
    return Case(
        dataset=dataset,
        split=split,
        metric=metric,
        measured=measured,
        predicted=getattr(p, metric),
        ideal=light,
        low=low,
        high=high,
        gpu=deployment.gpu.name,
        model=deployment.model.short_name,
        kind=kind(deployment.model),
        dtype=deployment.quantization.sections["experts" if deployment.model.is_moe else "linear"].format,
        engine=deployment.engine.family,
        tp=deployment.plan.tp * deployment.plan.dp,
        batch=p.workload.batch,
        basis=p.basis,
        load=load,
        source=source,
    )


def kind(model: rl.Model) -> str:
    """What sort of model it is, by its first mixer and its networks."""
    mixers = {type(mixer).__name__ for _, mixer in model.mixers}
    if mixers & {"Gdn", "Kda", "Lightning", "Mamba1", "Mamba2"}:
        return "hybrid"
    if mixers & {"Mla", "Csa"}:
        return "MLA"
    return "MoE" if model.is_moe else "dense"


def server_cases(
    rows: Iterable[Any], engine: str | None = None, corrected: bool = False, prompts_per_user: float | None = None
) -> list[Case]:
    """Servers with users, predicted.

    Args:
        rows: usable rows of `serving_rows`.
        engine: profile for all rows; None for each row's own.
        prompts_per_user: as of `options_of`.
        corrected: multiply every deployment by one constant of its own, the median of its rows (an oracle).
    """
    found: list[Case] = []
    keys: list[tuple[Any, ...]] = []
    for row in rows:
        for case in _server(row, engine, prompts_per_user):
            found.append(case)
            keys.append((row.gpu, row.model, row.engine, row.engine_version, row.quantization, row.tp, row.dp, row.ep,
                         row.isl, row.osl, case.metric))  # fmt: skip
    if not corrected:
        return found
    groups: dict[tuple[Any, ...], list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    for members in groups.values():
        factor = math.exp(-statistics.median(found[i].log_ratio for i in members))
        for i in members:
            once = found[i].predicted * factor
            low, high = spread(once, SIGMA_TTFT if found[i].metric == "ttft" else SIGMA_TPOT)
            found[i] = replace(found[i], predicted=once, low=low, high=high)
    return [found[i] for members in groups.values() if len(members) > 2 for i in members]


def options_of(row: Any, engine: str | None = None, prompts_per_user: float | None = None) -> dict[str, Any]:
    """Options of `predict` for a row of `serving_rows`, as users in a run.

    Args:
        row: usable.
        engine: profile; None for the row's own.
        prompts_per_user: requests of the run for each in flight; None for what the row has, infinite for the steady state.
    """
    each = row.prompts_per_user if prompts_per_user is None else prompts_per_user
    return {
        "isl": row.mean_isl, "osl": max(row.mean_osl, 2.0), "tp": row.tp, "pp": row.pp, "ep": row.ep, "dp": row.dp,
        "quantization": row.quantization, "kv_cache_dtype": row.kv_cache_dtype, "engine": engine or row.profile,
        "concurrency": row.concurrency, "num_prompts": each * row.concurrency if math.isfinite(each) else None,
        "allow_oversize": True, **row.settings,
    }  # fmt: skip


def predicted(row: Any, engine: str | None = None, prompts_per_user: float | None = None, **more: Any) -> rl.Prediction:
    """A row of `serving_rows`, predicted with `options_of` it."""
    return rl.predict(row.model, row.gpu, **options_of(row, engine, prompts_per_user), **more)


def is_impossible(row: Any) -> bool:
    """Whether requests take less time than at the hardware limit with as many in flight: in the run, if that is stated.

    Compared is the whole request: a scheduler may serve first tokens at the expense of the others, or the reverse.
    """
    limit = predicted(row, prompts_per_user=None if row.states_prompts else math.inf, basis="ideal")
    gaps = limit.workload.osl - 1.0
    return bool(row.ttft + gaps * row.tpot < limit.ttft + gaps * limit.tpot)


def _server(row: Any, engine: str | None, prompts_per_user: float | None = None) -> Iterator[Case]:
    found = predicted(row, engine, prompts_per_user)
    first, step = found.ideal
    ideal = {"ttft": first.time, "tpot": step.time}
    model = found.deployment.model
    for metric in ("ttft", "tpot"):
        low, high = getattr(found, f"{metric}_interval")
        yield Case(
            dataset="servers",
            split=row.split,
            metric=metric,
            measured=getattr(row, metric),
            predicted=getattr(found, metric),
            ideal=ideal[metric],
            low=low,
            high=high,
            gpu=row.gpu,
            model=row.model,
            kind=kind(model),
            dtype=found.deployment.quantization.sections["experts" if model.is_moe else "linear"].format,
            engine=row.engine,
            tp=row.tp * row.dp,
            batch=row.concurrency,
            basis=found.basis,
            load="concurrency 1" if row.concurrency == 1 else "loaded",
            source=row.source,
            ep=row.ep,
        )


def sliced(cases: Iterable[Case], by: Callable[[Case], str]) -> dict[str, list[Case]]:
    """Cases by a slice, in the order of its names."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(by(case), []).append(case)
    return dict(sorted(found.items()))
