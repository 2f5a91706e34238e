"""What `check` says of sweeps: of simulated servers with a hidden fault, and of measured servers. Prints markdown.

    python accuracy/judge_sweeps.py [--cases 100] [--seed 9000]       simulations, two minutes
    python accuracy/judge_sweeps.py --measured                        needs the wheel of serving_rows.py

A simulated server is as predicted, or its host takes 5 ms more a step, or its attention takes two or three times as long
in decode steps, or it runs fewer sequences at once than the load asks for. Nothing is fitted here; the sigma of slopes in
`questions/step_line.py` was chosen on the measured sweeps that are not held out.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import roofline as rl
from roofline.questions.check import check_measurement
from roofline.questions.simulate import simulation
from roofline.questions.sweeps import MeasuredSweep, sweeps_of
from roofline.serving.latency import lanes
from roofline.serving.load.equations import capacity
from roofline.specs.engine import KernelOverride
from roofline.specs.load import Users
from roofline.specs.workload import Measurement
from roofline.support.records import replace

DEPLOYMENTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("llama-3.1-8b", "h100-sxm", {"tp": 1}),
    ("llama-3.1-8b", "a100-sxm-80gb", {"tp": 1}),
    ("qwen3-8b", "l40s", {"tp": 1}),
    ("qwen3-30b-a3b", "h100-sxm", {"tp": 1}),
    ("qwen3-32b", "h100-sxm", {"tp": 2, "quantization": "fp8"}),
    ("gpt-oss-120b", "h100-sxm", {"tp": 2}),
    ("llama-3.1-70b", "a100-sxm-80gb", {"tp": 4}),
    ("llama-3.3-70b", "b200", {"tp": 2, "quantization": "fp8_static"}),
    ("deepseek-r1", "b200", {"tp": 8}),
)
FAULTS = ("none", "host", "attention", "slots")
HOST = 5e-3  # [s] more a step
TOP = (32, 64, 128)  # users
LOW, HIGH = (0.05, 0.15), (0.6, 0.8)  # of the saturation rate
FULLEST = 0.85  # of the saturation rate of the server that is simulated
LONG = {"isl": (2000, 12000), "osl": (400, 1500)}  # where attention takes a good share of a step
USUAL = {"isl": (200, 6000), "osl": (60, 800)}
NOISE = 0.05  # of figures of a benchmark, where there is any


@dataclass(frozen=True)
class Case:
    fault: str
    size: float  # [s], factor or sequences
    sweep: MeasuredSweep


def simulated_cases(fault: str, first: int, count: int, noise: float = 0.0) -> Iterator[Case]:
    """Sweeps of simulated servers, one a seed."""
    for seed in range(first, first + count):
        for attempt in range(50):
            try:
                yield _case(random.Random(1000 * seed + attempt), seed, fault, noise)
                break
            except rl.RooflineError:
                continue


def _case(draw: random.Random, seed: int, fault: str, noise: float) -> Case:
    model, gpu, plan = draw.choice(DEPLOYMENTS)
    spans = LONG if fault == "attention" else USUAL
    lengths = {name: round(math.exp(draw.uniform(*map(math.log, span)))) for name, span in spans.items()}
    case = {**plan, **lengths, "engine": draw.choice(("vllm", "sglang", "trtllm"))}
    kind, loads = _loads(draw, rl.predict(model, gpu, **case, request_rate=1e-6, allow_oversize=True), fault)
    size = {"none": 0.0, "host": HOST, "attention": draw.choice((2.0, 3.0)), "slots": 0.0}[fault]
    if fault == "slots":
        size = float(max(round(loads[-1] * draw.uniform(0.2, 0.5)), 1))
    results = []
    for number, load in enumerate(loads):
        stated = rl.predict(model, gpu, **case, **{kind: load}, allow_oversize=True)
        server = replace(stated, deployment=_with_fault(stated.deployment, fault, size))
        if kind == "request_rate" and load > FULLEST * float(capacity(server.deployment, server.workload)):
            raise rl.BadInput("the faulty server is overloaded")
        found = simulation(server, requests=max(1000, 15 * round(load)), seed=100 * seed + number)
        figures = {"mean_ttft_ms": 1e3 * found.ttft, "mean_tpot_ms": 1e3 * (found.tpot or 0.0)}
        figures["request_throughput"] = found.request_rate
        noisy = {name: value * math.exp(draw.gauss(0.0, noise)) for name, value in figures.items()}
        users = {"max_concurrency": load, "request_rate": "inf"}
        results.append({**noisy, **(users if kind == "concurrency" else {"request_rate": load})})
    (sweep,) = rl.check(results, model=model, gpu=gpu, **case).sweeps
    return Case(fault, size, sweep)


def _loads(draw: random.Random, idle: rl.Prediction, fault: str) -> tuple[str, list[float]]:
    """Three to six loads, users or rates."""
    count = draw.choice((3, 4, 5, 6))
    if fault == "slots" or draw.random() < 0.5:
        slots = float(capacity(idle.deployment, replace(idle.workload, load=Users(1.0))))
        top = min(slots, draw.choice(TOP))
        return "concurrency", sorted({max(round(top ** (place / (count - 1))), 1) for place in range(count)})
    full = float(capacity(idle.deployment, idle.workload))
    low, high = draw.uniform(*LOW), draw.uniform(*HIGH)
    return "request_rate", [full * (low + (high - low) * place / (count - 1)) for place in range(count)]


def _with_fault(deployment: Any, fault: str, size: float) -> Any:
    engine = deployment.engine
    if fault == "host":
        engine = replace(engine, step=engine.step + size)
    if fault == "attention":
        slower = (
            KernelOverride(kind, memory=1 / size, compute=1 / size) for kind in ("attention_decode", "mla_decode")
        )
        engine = replace(engine, tunings=(*engine.tunings, *slower))
    if fault == "slots":
        engine = replace(engine, max_num_seqs=int(size) * deployment.plan.pp)
    return replace(deployment, engine=engine)


def simulated_page(first: int, count: int) -> str:
    """Counts of simulated sweeps."""
    lines = [
        f"Seeds {first} to {first + count - 1}.",
        "",
        "| server | sweeps | a inside | b inside | TTFT inside throughout | TPOT | fewer slots said |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    found = {fault: list(simulated_cases(fault, first, count)) for fault in FAULTS}
    found["none, figures off by 5 %"] = list(simulated_cases("none", first, count, NOISE))
    for name, cases in found.items():
        counts = _counts([case.sweep for case in cases])
        lines.append(f"| {name} | {' | '.join(str(counts[key]) for key in _COLUMNS)} |")
    extra = [
        (case.sweep.step.fixed.measured - case.sweep.step.fixed.predicted) / case.size
        for case in found["host"]
        if case.sweep.step is not None
    ]
    slower = [pair for case in found["attention"] if (pair := _slope(case)) is not None]
    large = [case.sweep.step.each.inside for case in found["attention"] if (_slope(case) or (0.0, 0.0))[0] > 0.5]  # type: ignore[union-attr]
    running = [
        (case.sweep.saturation.running or 0.0) / float(lanes(case.sweep.deployment)) / case.size
        for case in found["slots"]
        if case.sweep.saturation is not None
    ]
    return "\n".join([
        *lines,
        "",
        f"- host: a more by {_span(extra)} times what was hidden",
        f"- attention: where b should be more by a quarter or more ({len(slower)} sweeps), it is by {_span([got / want for want, got in slower])}"
        f" times that; where by half or more ({len(large)}), b is outside in {large.count(False)}",
        f"- slots: sequences that run at once are {_span(running)} times the hidden limit",
    ])  # fmt: skip


_COLUMNS = ("sweeps", "a", "b", "ttft", "tpot", "limited")


def _counts(sweeps: Sequence[MeasuredSweep]) -> Counter[str]:
    counts: Counter[str] = Counter(dict.fromkeys(_COLUMNS, 0))
    for sweep in sweeps:
        counts["sweeps"] += 1
        if sweep.step is not None:
            counts["lines"] += 1
            counts["a"] += bool(sweep.step.fixed.inside)
            counts["b"] += bool(sweep.step.each.inside)
        for one in sweep.leaving:
            counts[one.metric] += one.inside
        if sweep.saturation is not None:
            counts["limited"] += sweep.saturation.is_limited
            counts["reached"] += sweep.saturation.is_reached
            counts["saturation"] += bool(sweep.saturation.inside)
    return counts


def _slope(case: Case) -> tuple[float, float] | None:
    """By how much b should be more with the hidden factor on attention, and by how much it is [1]; None where little."""
    step = case.sweep.step
    if step is None:
        return None
    share = sum(part.each for part in step.parts if part.name == "attention") / step.each.predicted
    wanted = (case.size - 1.0) * share
    return (wanted, step.each.measured / step.each.predicted - 1.0) if wanted > 0.25 else None


def _span(values: Sequence[float]) -> str:
    """Median, and the span of nine in ten values."""
    ordered = sorted(values)
    low, middle, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.05, 0.5, 0.95))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def measured_page() -> str:
    """Counts of the sweeps of `serving_rows`, held out and not."""
    from cases import is_impossible
    from serving_rows import ServingRow, serving_rows

    groups: dict[tuple[Any, ...], list[ServingRow]] = defaultdict(list)
    for row in serving_rows(impossible=is_impossible):
        if row.excluded is None:
            groups[
                row.split, row.source, row.measured, row.gpu, row.model, row.quantization, row.kv_cache_dtype, row.engine,
                row.engine_version, row.tp, row.pp, row.ep, row.dp, row.isl, row.osl,
            ].append(row)  # fmt: skip
    found: dict[str, list[MeasuredSweep]] = defaultdict(list)
    for key, rows in groups.items():
        if len({row.concurrency for row in rows}) > 2:
            runs = [check_measurement(_measurement(row), engine=row.profile, **row.settings) for row in rows]
            found[str(key[0])] += sweeps_of(runs)
    lines = [
        "| sweeps | lines | a inside | b inside | TTFT inside throughout | TPOT | saturation reached | inside |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for split, sweeps in sorted(found.items()):
        counts = _counts(sweeps)
        columns = ("lines", "a", "b", "ttft", "tpot", "reached", "saturation")
        lines.append(f"| {split} | {' | '.join(str(counts[key]) for key in columns)} |")
    return "\n".join(lines)


def _measurement(row: Any) -> Measurement:
    return Measurement(
        row.name, gpu=row.gpu, model=row.model, engine=row.engine, engine_version=row.engine_version, tp=row.tp,
        pp=row.pp, ep=row.ep, dp=row.dp, quantization=row.quantization, kv_cache_dtype=row.kv_cache_dtype,
        isl=row.mean_isl, osl=row.mean_osl, concurrency=row.concurrency, ttft=row.ttft, tpot=row.tpot,
        num_prompts=row.prompts_per_user * row.concurrency if row.states_prompts else None, statistic="mean",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=9000)
    parser.add_argument("--measured", action="store_true")
    options = parser.parse_args()
    print(measured_page() if options.measured else simulated_page(options.seed, options.cases))


if __name__ == "__main__":
    main()
