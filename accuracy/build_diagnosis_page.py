"""Judges `roofline check before after` by simulations with a hidden cause, and writes docs/diagnosis.md.

    python accuracy/build_diagnosis_page.py [--cases 200] [--seed N]

A server is simulated before and after a hidden change, at two to four loads; every figure that a benchmark would write
is multiplied by exp(N(0, 0.05)); what is asked for a diagnosis is what a result file would hold. Takes some minutes.
"""

from __future__ import annotations

import argparse
import math
import pickle
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from build_load_page import SCHEDULERS, drawn
from prose import wrapped

from roofline.formulas.case import HOST_TIMES
from roofline.questions.diagnosis import (
    CAUSES,
    METRICS,
    NOISE,
    NOTHING,
    UNCLEAR,
    Diagnosis,
    Observed,
    diagnosis,
    paired_runs,
    predicted_figures,
)
from roofline.serving.latency import Workload, lanes, lengths_by_law
from roofline.serving.load.equations import saturation, server_of
from roofline.serving.load.server import prompt_of
from roofline.serving.load.simulation import Arrivals, simulated
from roofline.serving.load.steady import served
from roofline.specs.load import Rate, Users

PAGE = Path(__file__).parent.parent / "docs" / "diagnosis.md"
SEED = 20_281_000  # of the page; those below were used while the method was written
#: Times of the host: neither of the network nor of the GPU, which runs an engine's all-reduces.
HOST = tuple(name for name in HOST_TIMES if name not in ("network", "all_reduce"))
HIDDEN = (*CAUSES, NOTHING)
LEAST_EFFECT = 0.15  # of ln(after / before) of the figure that a hidden change moves most
UTIL = {"low": (0.08, 0.3), "high": (0.6, 0.85), "any": (0.1, 0.85)}  # of the saturation
USERS = {"low": (1, 4), "high": (32, 128), "any": (2, 96)}
KERNELS_OFF, HOST_OFF = 0.1, 0.3  # sigma of how far the server itself, before and after, is from its prediction
FULLEST = 0.93  # of the saturation, of a server that is measured


@dataclass(frozen=True)
class Case:
    """A change that was hidden, and what the diagnosis made of it."""

    seed: int
    cause: str
    what: str  # that was hidden
    loads: int
    found: Diagnosis

    @property
    def is_right(self) -> bool:
        return self.found.answer == self.cause


def hidden(
    draw: random.Random, cause: str, deployment: Any, workloads: list[Workload]
) -> tuple[Any, Any, list[Workload], list[Workload], str]:
    """Deployments and loads of the server before and after, and what was changed."""
    before, after = deployment, deployment
    first, last = list(workloads), list(workloads)
    what = "nothing"
    if cause == "kernels":
        factor = math.exp(draw.uniform(0.1, 0.5) * draw.choice((-1.0, 1.0, 1.0)))
        if draw.random() < 0.5:
            after, what = replace(deployment, gpu=slower(deployment.gpu, factor)), f"rates / {factor:.2f}"
        else:
            after, what = (deployment, factor), f"steps x {factor:.2f}"
    elif cause == "host":
        engine = deployment.engine
        step = float(predicted_figures(Observed(deployment, workloads[0], {})).values["tpot"])
        if draw.random() < 0.5:
            more = draw.uniform(0.1, 0.6) * step
            after, what = (
                replace(deployment, engine=replace(engine, step=engine.step + more)),
                f"step + {1e3 * more:.2f} ms",
            )
        else:
            factor = draw.uniform(1.5, 4.0)
            after, what = hosted(deployment, factor), f"host x {factor:.2f}"
        if draw.random() < 0.3:
            before, after, what = after, before, f"{what}, before"
    elif cause == "batch limit":
        held = [served(deployment, w) for w in workloads]
        most = max(float(s.concurrency) / float(lanes(deployment)) for s in held)
        limit = max(int(draw.uniform(0.25, 0.8) * most), 1) * deployment.plan.pp
        after = replace(deployment, engine=replace(deployment.engine, max_num_seqs=limit))
        what = f"at most {limit} of {most:.0f}"
        if draw.random() < 0.3:
            before, after, what = after, before, f"{what}, before"
    elif cause == "cache":
        share = draw.uniform(0.15, 0.9)
        if workloads[0].prefix and draw.random() < 0.7:
            last = [replace(w, prefix=0.0) for w in workloads]
            what = f"lost {workloads[0].prefix / workloads[0].isl:.0%}"
        else:
            last = [replace(w, prefix=float(round(w.prefix + share * (w.isl - w.prefix)))) for w in workloads]
            what = f"gained {share:.0%}"
            if draw.random() < 0.3:
                first, last, what = last, first, f"lost {share:.0%} that were not stated"
    elif cause == "load":
        factor = math.exp(draw.uniform(0.15, 0.5) * draw.choice((-1.0, 1.0)))
        if draw.random() < 0.6:
            last = [more_requests(w, factor, deployment) for w in workloads]
            what = f"{factor:.2f} x requests"
        else:
            last = [replace(w, osl=float(round(w.osl * factor))) for w in workloads]
            what = f"{factor:.2f} x answers"
    return before, after, first, last, what


def slower(gpu: Any, factor: float) -> Any:
    """A GPU whose every rate is divided by a factor; what its kernels need to start stays."""
    return replace(
        gpu, bandwidth=gpu.bandwidth / factor, exp_rate=gpu.exp_rate and gpu.exp_rate / factor,
        peaks={name: rate / factor for name, rate in gpu.peaks.items()},
        link=replace(gpu.link, bandwidth=gpu.link.bandwidth / factor),
    )  # fmt: skip


def more_requests(workload: Workload, factor: float, deployment: Any) -> Workload:
    ranks = float(lanes(deployment))
    if workload.concurrency is not None:
        return replace(workload, load=Users(max(round(workload.concurrency * factor / ranks), 1) * ranks))
    return replace(workload, load=Rate(workload.request_rate * factor))


def loads(draw: random.Random, deployment: Any, workload: Workload) -> list[Workload]:
    """A low load, a high one, and up to two others."""
    kinds = ["low", "high", *draw.choice(((), (), ("any",), ("any", "any")))]
    ranks = float(lanes(deployment))
    if draw.random() < 0.5:
        users = {max(round(math.exp(draw.uniform(*map(math.log, USERS[kind])))), 1) for kind in kinds}
        return [replace(workload, load=Users(n * ranks)) for n in sorted(users)]
    server = server_of(deployment, replace(workload, load=Rate(1.0)))
    full = saturation(server, prompt_of(server)).rate * ranks
    return [replace(workload, load=Rate(full * share)) for share in sorted(draw.uniform(*UTIL[kind]) for kind in kinds)]


def biased(deployment: Any, kernels: float, host: float) -> Any:
    """A server whose kernels and host are not quite as predicted."""
    return replace(hosted(deployment, host), gpu=slower(deployment.gpu, kernels))


def hosted(deployment: Any, factor: float) -> Any:
    """A server whose host takes so many times as long."""
    engine = deployment.engine
    changes = {n: getattr(engine, n) * factor for n in HOST}
    return replace(deployment, engine=replace(engine, **changes))


def measured(deployment: Any, workload: Workload, requests: int, seed: int) -> dict[str, float]:
    """What a benchmark of the server writes, without noise."""
    if isinstance(deployment, tuple):  # kernels k times as slow: a host k times as fast, in a time k times as long
        deployment, factor = deployment
        rate = workload.request_rate
        faster = workload if rate is None else replace(workload, load=Rate(rate * factor))
        times = measured(hosted(deployment, 1.0 / factor), faster, requests, seed)
        return {name: value / factor if name == "answered_rate" else value * factor for name, value in times.items()}
    ranks = float(lanes(deployment))
    users = None if workload.concurrency is None else max(round(workload.concurrency / ranks), 1)
    spread = 0.3 / 3**0.5
    arrivals = Arrivals(
        max(requests, 12 * (users or 1)), rate=None if users else workload.request_rate / ranks, users=users or 1,
        lengths=lengths_by_law("uniform", spread, spread), seed=seed,
    )  # fmt: skip
    found = simulated(server_of(deployment, workload), arrivals)
    e2el = statistics.fmean(r.e2el for r in found)
    return {
        "ttft": statistics.fmean(r.ttft for r in found),
        "tpot": statistics.fmean(r.tpot for r in found if not math.isnan(r.tpot)),
        "e2el": e2el,
        "answered_rate": users * ranks / e2el if users else workload.request_rate,
    }


def case(task: tuple[int, int]) -> Case:
    """One hidden change, measured and diagnosed."""
    seed, requests = task
    draw = random.Random(seed)
    cause = HIDDEN[seed % len(HIDDEN)]
    for attempt in range(200):
        stated, workload = drawn(1_000 * seed + attempt, (*SCHEDULERS["decode"], *SCHEDULERS["prompts"]))
        prefix = draw.choice((0.0, 0.0, float(round(draw.uniform(0.3, 0.8) * workload.isl))))
        workload = replace(workload, prefix=prefix)
        workloads = loads(draw, stated, workload)
        if len(workloads) < 2:
            continue
        real = biased(stated, math.exp(draw.gauss(0.0, KERNELS_OFF)), math.exp(draw.gauss(0.0, HOST_OFF)))
        if any(not is_answered(real, w) for w in workloads):
            continue
        before, after, first, last, what = hidden(draw, cause, real, workloads)
        runs = [(before, w) for w in first], [(after, w) for w in last]
        if not all(is_answered(*run) for side in runs for run in side):
            continue
        if cause == NOTHING or effect(*runs) >= LEAST_EFFECT:
            break
    else:
        raise RuntimeError(f"seed {seed}: no case")
    sides = []
    for number, side in enumerate(runs):
        figures_of = [measured(*run, requests, seed + 17 * place + number) for place, run in enumerate(side)]
        noisy = [{name: value * math.exp(draw.gauss(0.0, NOISE)) for name, value in f.items()} for f in figures_of]
        sides.append([Observed(stated, w, f) for w, f in zip(workloads, noisy, strict=True)])
    text = f"{stated.model.short_name} on {stated.plan.tp} x {stated.gpu.name}, {stated.engine.name}, isl {workload.isl:g}, osl {workload.osl:g}, {'users' if workloads[0].concurrency else 'rates'}; {what}"
    return Case(seed, cause, text, len(workloads), diagnosis(paired_runs(*sides)))


def is_answered(deployment: Any, workload: Workload) -> bool:
    if isinstance(deployment, tuple):
        deployment, factor = deployment
        rate = workload.request_rate
        return is_answered(
            hosted(deployment, 1.0 / factor),
            workload if rate is None else replace(workload, load=Rate(rate * factor)),
        )
    found = served(deployment, workload)
    return bool(found.is_stable) and (workload.concurrency is not None or float(found.util) < FULLEST)


def observed(deployment: Any, workload: Workload) -> Observed:
    return (
        Observed(*deployment[:1], workload, {}, deployment[1])
        if isinstance(deployment, tuple)
        else Observed(deployment, workload, {})
    )


def effect(before: Sequence[Any], after: Sequence[Any]) -> float:
    """The largest change of a figure, by the closed forms."""
    return max(
        abs(math.log(new.values[name] / old.values[name]))
        for one, other in zip(before, after, strict=True)
        for old, new in [(predicted_figures(observed(*one)), predicted_figures(observed(*other)))]
        for name in METRICS
    )


def percent(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.0f} %" if whole else "-"


def page(cases: list[Case], requests: int, seed: int) -> str:
    """The Markdown of docs/diagnosis.md."""
    answers = (*CAUSES, NOTHING, UNCLEAR)
    table = Counter((each.cause, each.found.answer) for each in cases)
    given = [each for each in cases if each.found.answer != UNCLEAR]
    right = [each for each in given if each.is_right]
    changed = [each for each in cases if each.cause != NOTHING]
    named = [each for each in given if each.found.answer != NOTHING]
    first = [each for each in changed if each.found.explanations and each.found.explanations[0].cause == each.cause]
    text = [
        "# What changed between two runs: judged on simulations\n",
        "Generated by `python accuracy/build_diagnosis_page.py`. A server is simulated token by token before and after a "
        "hidden change, at two to four loads (a low and a high one among them); every figure that a benchmark writes (TTFT, "
        f"TPOT, E2EL, requests answered per second) is multiplied by exp(N(0, {NOISE})), and `roofline check before --after "
        "after` is asked what changed ([What changed](measurements.md#what-changed)). It sees what a result file states, never the change.\n",
        f"{len(cases)} seeds from {seed}, which were not used while the method was written; {requests:,} requests a run. Ten "
        "deployments from Llama-8B on one A100 to DeepSeek-R1 on eight B200, prompts of 128 to 12,000 tokens, answers of 32 to "
        "1,500, all server profiles, half of the cases with users, half with request rates up to 85 % of the saturation. The server itself is off its prediction, by the same factors in every run: kernels by exp(N(0, {KERNELS_OFF})), host by exp(N(0, "
        f"{HOST_OFF})).\n",
        "The changes: kernels 10 to 65 % slower or 10 to 40 % faster (rates, or all of their time); 10 to 60 % of a "
        "step more host time per step, or 1.5 to 4 times all of the host time; the batch limited to 25 to 80 % of the "
        "requests in flight; 15 to 90 % of the prompt newly cached, or no longer; requests or answers 15 to 65 % more "
        "or 15 to 40 % fewer than stated. Some of each are there before and gone after. Each moves at least one "
        f"figure by {100 * LEAST_EFFECT:.0f} % or more at one load; none overloads the server.\n",
        f"| hidden | {' | '.join(answers)} |",
        "|---|" + "---:|" * len(answers),
        *(f"| {cause} | {' | '.join(str(table[cause, answer]) for answer in answers)} |" for cause in HIDDEN),
        "",
        f"- answered: {len(given)} of {len(cases)} ({percent(len(given), len(cases))}); "
        f"`{UNCLEAR}`: {len(cases) - len(given)}",
        f"- right, of the answers: {len(right)} of {len(given)} ({percent(len(right), len(given))})",
        f"- right, of the causes that were named: {sum(each.is_right for each in named)} of {len(named)} "
        f"({percent(sum(each.is_right for each in named), len(named))})",
        f"- closest cause right, answered or not, where something changed: {len(first)} of {len(changed)} "
        f"({percent(len(first), len(changed))})",
        "\nBy loads that were measured:\n",
        "| loads | cases | answered | right, of the answers |",
        "|---:|---:|---:|---:|",
    ]
    for number in sorted({each.loads for each in cases}):
        mine = [each for each in cases if each.loads == number]
        told = [each for each in mine if each.found.answer != UNCLEAR]
        text.append(
            f"| {number} | {len(mine)} | {percent(len(told), len(mine))} | "
            f"{percent(sum(each.is_right for each in told), len(told))} |"
        )
    wrong = [each for each in given if not each.is_right]
    text += ["\nThe wrong answers:\n" if wrong else "\nNo answer was wrong."]
    text += [f"- {each.cause}, answered {each.found.answer}: {each.what}" for each in wrong]
    return "\n".join(text) + "\n"


def main() -> None:
    """Draw, simulate, diagnose, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--requests", type=int, default=3000, help="of each run")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--keep", help="file for the cases themselves")
    options = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        tasks = [(options.seed + number, options.requests) for number in range(options.cases)]
        cases = list(pool.map(case, tasks, chunksize=2))
    if options.keep:
        Path(options.keep).write_bytes(pickle.dumps(cases))
    PAGE.write_text(wrapped(page(cases, options.requests, options.seed)), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
