"""Answers under a load, one by one and in arrays. As a script, a worker: loads.py prints all of one process."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from functools import partial

from measuring import Missed, Section, judged, loop_step, per_step, seconds, spread, worker

CASES = {
    "Llama-3.1-8B on H100": ("llama-3.1-8b", "h100-sxm", {"tp": 1}),
    "Llama-3.1-8B on H100, prompts first": ("llama-3.1-8b", "h100-sxm", {"tp": 1, "engine": "sglang"}),
    "DeepSeek-V3 on 8 H200": ("deepseek-v3", "h200-sxm", {"tp": 8}),
}
LOADS = {"3 requests/s": {"request_rate": 3.0}, "32 users": {"concurrency": 32}}
KEYS = {"means": (), "with two p99": ("ttft_p99", "tpot_p99")}
#: Warm bursts of Llama-3.1-8B that an answer may take: 150 and 250 us where one takes 26.
BUDGETS = {"means": 5.8, "with two p99": 9.6}
#: Points a second of arrays, in loop steps of 38 ns a point; half as many for DeepSeek-V3.
ARRAY_BUDGETS = {"means": 1.5e6, "with two p99": 0.4e6}
LARGER = 2.0
STEP_S = 38e-9
WARM, ASKED, POINTS = 260, 60, 100_000
TEXT = """\
Means of TTFT and TPOT of a server under a load, and with the p99 of both, of prompt lengths that were never asked for:
after {warm} answers of the kind, in *warm bursts* (an answer of Llama-3.1-8B on an idle server in the same process),
and as one call with {points:,} prompt lengths, in loop steps a point. Budgets: {one} warm bursts for means and {two}
with percentiles; for arrays {means:,.0f} and {tails:,.0f} points a second where a loop step takes 38 ns, half of that
for DeepSeek-V3."""


def measure(rounds: int) -> Section:
    runs = [worker("loads") for _ in range(rounds)]
    missed: list[Missed] = []
    rows = []
    for place, (case, load, keys) in enumerate((c, ld, k) for c in CASES for ld in LOADS for k in KEYS):
        found = [run["answers"][place] for run in runs]
        factor = LARGER if case.startswith("DeepSeek") else 1.0
        name = f"{case}, {load}, {keys}"
        one = spread(each["one"] / run["burst"] for each, run in zip(found, runs, strict=True))
        many = spread(each["array"] for each in found)
        budget = factor / (ARRAY_BUDGETS[keys] * STEP_S)
        micro = statistics.median(each["one"] * run["step"] for each, run in zip(found, runs, strict=True)) * 1e6
        rate = 1.0 / statistics.median(each["array"] * run["step"] for each, run in zip(found, runs, strict=True))
        limits = judged(name, one, BUDGETS[keys] * factor, ("loads",), missed)
        limits_of_arrays = judged(f"{name}, array", many, budget, ("loads",), missed)
        rows.append((name, str(one), *limits, f"{micro:,.0f}", str(many), *limits_of_arrays, f"{rate:,.0f}"))
    head = (
        "case", "warm bursts", "budget", "met", "us here", "array: loop steps a point", "budget", "met",
        "points a second here",
    )  # fmt: skip
    text = TEXT.format(
        warm=WARM, points=POINTS, one=BUDGETS["means"], two=BUDGETS["with two p99"], means=ARRAY_BUDGETS["means"],
        tails=ARRAY_BUDGETS["with two p99"],
    )  # fmt: skip
    return Section("Answers under a load", text, head, rows, missed)


def main() -> None:
    """Loop steps of a warm burst, and of each case alone and in an array."""
    import numpy as np

    import roofline as rl

    def ask(model: str, gpu: str, asked: dict[str, object], keys: tuple[str, ...]) -> None:
        answer = rl.predict(model, gpu, **asked)
        _ = answer.ttft, answer.tpot, [answer.latency(key) for key in keys]

    def turns(of: Callable[[float], None]) -> list[float]:
        for turn in range(WARM):
            of(1000.0 + turn)
        return [seconds(lambda turn=turn: of(1500.0 + turn)) for turn in range(ASKED)]

    def alone(model: str, gpu: str, asked: dict[str, object], keys: tuple[str, ...]) -> float:
        times = per_step(loop_step, lambda: turns(lambda isl: ask(model, gpu, asked | {"isl": isl}, keys)))
        return statistics.median(times)

    isl = np.linspace(500.0, 4000.0, POINTS)

    def together(model: str, gpu: str, asked: dict[str, object], keys: tuple[str, ...]) -> float:
        call = partial(ask, model, gpu, asked | {"isl": isl}, keys)
        call()
        return min(per_step(loop_step, lambda: [seconds(call), seconds(call)])) / POINTS

    answers = []
    for model, gpu, options in CASES.values():
        for load in LOADS.values():
            for keys in KEYS.values():
                case = options | load | {"osl": 200}
                one, many = alone(model, gpu, case, keys), together(model, gpu, case, keys)
                answers.append({"one": one, "array": many})
    burst = alone("llama-3.1-8b", "h100-sxm", {"tp": 1, "osl": 200, "batch": 8}, ())
    print(json.dumps({"answers": answers, "burst": burst, "step": loop_step()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
