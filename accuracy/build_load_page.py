"""Judges the closed forms of a server under a load by a simulation of every step, and writes docs/load.md.

    python accuracy/build_load_page.py [--cases 240] [--requests 20000]

Deployments, lengths, budgets and loads are drawn at random from seeds that were not used while the forms were written.
Both sides read the same step times, so that what is judged is the algebra alone. Takes some ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import roofline as rl
from roofline.serving.domain import outside
from roofline.serving.latency import Workload
from roofline.serving.load import served, server_of
from roofline.serving.queueing import prompt_of, saturation
from roofline.serving.simulation import Arrivals, simulated

PAGE = Path(__file__).parent.parent / "docs" / "load.md"
DEPLOYMENTS = (
    ("llama-3.1-8b", "h100-sxm", 1, None), ("llama-3.1-8b", "a100-sxm-80gb", 1, None),
    ("llama-3.1-70b", "a100-sxm-80gb", 4, None), ("llama-3.3-70b", "h100-sxm", 8, "fp8"),
    ("llama-3.3-70b", "h100-sxm", 4, "fp8"), ("qwen3-32b", "b200", 1, "fp8"), ("mixtral-8x7b", "h100-sxm", 2, None),
    ("gpt-oss-120b", "b200", 1, None), ("qwen3-235b-a22b", "b200", 8, "fp8"), ("deepseek-r1", "b200", 8, None),
)  # fmt: skip
SCHEDULERS = {"decode": ("vllm", "trtllm", "generic"), "prompts": ("sglang",)}
LOADS = (0.1, 0.3, 0.5, 0.7, 0.8)  # of the saturation
USERS = (2, 4, 8, 16, 32, 64, 128)
USERS_SPREAD = 0.3


@dataclass(frozen=True)
class Judged:
    """One case: how far its closed forms are off."""

    kind: str  # of scheduler and load
    inside: bool
    fails: tuple[str, ...]
    ttft: float  # closed form / simulation - 1
    tpot: float
    what: str
    is_answered: bool = True  # whether the closed forms have a steady state where the simulation has one


def drawn(seed: int, engines: tuple[str, ...]) -> tuple[Any, Workload]:
    """A deployment and lengths at random."""
    draw = random.Random(seed)
    model, gpu, tp, quantization = draw.choice(DEPLOYMENTS)
    isl = float(round(math.exp(draw.uniform(math.log(128), math.log(12_000)))))
    osl = float(round(math.exp(draw.uniform(math.log(32), math.log(1500)))))
    one = rl.predict(
        model, gpu, isl=isl, osl=osl, tp=tp, quantization=quantization, engine=draw.choice(engines),
        max_num_batched_tokens=draw.choice((1024, 2048, 8192, 16_384)), max_num_seqs=draw.choice((64, 256, 1024)),
    )  # fmt: skip
    return one.deployment, one.workload


def judged_rate(task: tuple[int, int, str]) -> Judged:
    """A case of random arrivals."""
    seed, requests, first = task
    deployment, lengths = drawn(seed, SCHEDULERS[first])
    server = server_of(deployment, replace(lengths, request_rate=1.0))
    share = random.Random(seed + 1).choice(LOADS)
    rate = share * saturation(server, prompt_of(server)).rate
    return _judged(
        deployment, replace(lengths, request_rate=rate), Arrivals(requests, rate=rate, seed=seed),
        f"{first} first, rate", f"u {share}",
    )  # fmt: skip


def judged_users(task: tuple[int, int, str]) -> Judged:
    """A case of users who ask again."""
    seed, requests, first = task
    deployment, lengths = drawn(seed, SCHEDULERS[first])
    users = random.Random(seed + 1).choice(USERS)
    return _judged(
        deployment, replace(lengths, concurrency=float(users)),
        Arrivals(max(requests // 4, 30 * users), users=users, spread=USERS_SPREAD, seed=seed),
        f"{first} first, users", f"{users} users",
    )  # fmt: skip


def _judged(deployment: Any, workload: Workload, arrivals: Arrivals, kind: str, load: str) -> Judged:
    found = served(deployment, workload)
    real = simulated(server_of(deployment, workload), arrivals)
    fails = tuple(said for is_outside, said in outside(deployment, workload, found) if is_outside)
    ttft, tpot = statistics.fmean(r.ttft for r in real), statistics.fmean(r.tpot for r in real)
    what = (
        f"{deployment.model.short_name} on {deployment.gpu.name}, {deployment.engine.name}, isl {workload.isl:g}, "
        f"osl {workload.osl:g}, budget {deployment.engine.max_num_batched_tokens}, {load}"
    )
    off = found.ttft / ttft - 1.0, found.tpot / tpot - 1.0
    return Judged(kind, not fails, fails, *off, what, is_answered=bool(found.is_stable))


def judged_saturation(task: tuple[int, int, str]) -> Judged:
    """The saturation rate beside what a loop of three times the slots answers."""
    seed, _, first = task
    deployment, lengths = drawn(seed, SCHEDULERS[first])
    deployment = replace(deployment, engine=replace(deployment.engine, max_num_seqs=64))
    server = server_of(deployment, replace(lengths, concurrency=192.0))
    most = saturation(server, prompt_of(server)).rate
    real = simulated(server, Arrivals(2000, users=192, spread=USERS_SPREAD, seed=seed))
    off = most / (192.0 / statistics.fmean(r.e2el for r in real)) - 1.0
    kind = f"{first} first, saturation"
    return Judged(kind, inside=True, fails=(), ttft=off, tpot=off, what=deployment.model.short_name)


def line(name: str, cases: Iterable[Judged]) -> str:
    """A row of the table."""
    found = list(cases)
    if not found:
        return f"| {name} | 0 | - | - | - | - |"
    cells = []
    for metric in ("tpot", "ttft"):
        errors = sorted(100.0 * abs(getattr(case, metric)) for case in found)
        p90 = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
        cells.append(f"{statistics.median(errors):.1f} / {statistics.fmean(errors):.1f} / {p90:.1f} / {errors[-1]:.1f}")
    near = [
        100.0 * sum(abs(getattr(case, metric)) <= limit for case in found) / len(found)
        for metric, limit in (("tpot", 0.05), ("ttft", 0.10))
    ]
    return f"| {name} | {len(found)} | {cells[0]} | {cells[1]} | {near[0]:.0f} % | {near[1]:.0f} % |"


def page(cases: list[Judged], full: list[Judged], requests: int, seed: int) -> str:
    """The Markdown of docs/load.md."""
    text = [
        "# Closed forms of a server under a load, and a simulation of every step\n",
        "Generated by `python accuracy/build_load_page.py`. Both sides read the same step times, so this judges the "
        'algebra of docs/method.md, "A server under load", alone; how far step times are from measured ones is in '
        "accuracy.md. Ten deployments from Llama-8B on one A100 to DeepSeek-R1 on eight B200, prompts of 128 to 12,000 "
        "tokens, answers of 32 to 1,500, budgets of 1,024 to 16,384 tokens, 64 to 1,024 sequences at most, at 10 to 80 % "
        f"of the saturation or with 2 to 128 users; {requests:,} requests a case at a rate, seeds from {seed}. Lengths are "
        f"equal at a rate, and within {100 * USERS_SPREAD:.0f} % of the mean with users.\n",
        "Errors are |closed form / simulation - 1| in per cent: median / mean / 90th percentile / worst.\n",
        "| cases | n | TPOT | TTFT | TPOT within 5 % | TTFT within 10 % |",
        "|---|---|---|---|---|---|",
    ]
    unanswered = [case for case in cases if not case.is_answered]
    cases = [case for case in cases if case.is_answered]
    kinds = list(dict.fromkeys(case.kind for case in cases))
    for kind in kinds:
        mine = [case for case in cases if case.kind == kind]
        text.append(line(f"{kind}, all", mine))
        text.append(line(f"{kind}, inside the domain", (case for case in mine if case.inside)))
        for fault in dict.fromkeys(said for case in mine for said in case.fails):
            text.append(line(f"{kind}, {fault}", (case for case in mine if fault in case.fails)))
    text.append(line("**all, inside the domain**", (case for case in cases if case.inside)))
    text.append(line("**all, outside**", (case for case in cases if not case.inside)))
    text.append(
        f"\nCases left out, in which the closed forms refuse a rate that the simulation answers, all of them outside the "
        f"domain: {len(unanswered)}.\n"
        if unanswered
        else ""
    )
    text.append("The saturation rate, against what a loop of three times as many users as slots answers:\n")
    text += ["| cases | n | median / mean / p90 / worst |", "|---|---|---|"]
    for kind in dict.fromkeys(case.kind for case in full):
        errors = sorted(100.0 * abs(case.tpot) for case in full if case.kind == kind)
        p90 = errors[math.ceil(0.9 * len(errors)) - 1]
        text.append(
            f"| {kind} | {len(errors)} | {statistics.median(errors):.1f} / {statistics.fmean(errors):.1f} / {p90:.1f} / "
            f"{errors[-1]:.1f} |"
        )
    text.append("\nThe worst inside the domain:\n")
    worst = sorted((case for case in cases if case.inside), key=lambda case: -max(abs(case.ttft) / 2.0, abs(case.tpot)))
    text += [
        f"- {case.kind}: {case.what}: TPOT {100 * case.tpot:+.1f} %, TTFT {100 * case.ttft:+.1f} %"
        for case in worst[:8]
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    """Draw, simulate, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=240, help="of the largest group")
    parser.add_argument("--requests", type=int, default=20_000, help="of a case at a rate")
    parser.add_argument("--seed", type=int, default=20_261_122)
    options = parser.parse_args()
    groups: tuple[tuple[Callable[[Any], Judged], int, str], ...] = (
        (judged_rate, options.cases, "decode"), (judged_rate, options.cases // 2, "prompts"),
        (judged_users, options.cases // 2, "decode"), (judged_users, options.cases // 3, "prompts"),
    )  # fmt: skip
    with ProcessPoolExecutor() as pool:
        cases = [
            case
            for place, (judge, count, first) in enumerate(groups)
            for case in pool.map(
                judge, [(options.seed + 10_000 * place + i, options.requests, first) for i in range(count)]
            )
        ]
        full = [
            case
            for first in SCHEDULERS
            for case in pool.map(
                judged_saturation, [(options.seed + 90_000 + i, 0, first) for i in range(options.cases // 6)]
            )
        ]
    PAGE.write_text(page(cases, full, options.requests, options.seed), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
