"""Answers under a load, one by one and in arrays.

As a script, a worker: loads.py prints all of one process; loads.py PLACE one, or many, only one case (for its profile).
"""

from __future__ import annotations

import json
import statistics
import sys
from functools import partial

from measuring import Missed, Section, judged, loop_step, number, per_step, seconds, spread, worker

CASES = {
    "Llama-3.1-8B on H100": ("llama-3.1-8b", "h100-sxm", {"tp": 1}),
    "Llama-3.1-8B on H100, prompts first": ("llama-3.1-8b", "h100-sxm", {"tp": 1, "engine": "sglang"}),
    "DeepSeek-V3 on 8 H200": ("deepseek-v3", "h200-sxm", {"tp": 8}),
}
LOADS = {"3 requests/s": {"request_rate": 3.0}, "32 users": {"concurrency": 32}}
KEYS = {"means": (), "with two p99": ("ttft_p99", "tpot_p99")}
BURST = {"batch": 8}
#: Name, model, GPU, what is asked, and percentiles of each row.
ROWS = [
    *((case, "a burst of 8", *of[:2], of[2] | BURST, "means") for case, of in CASES.items()),
    *(
        (case, name, *of[:2], of[2] | load, keys)
        for case, of in CASES.items()
        for name, load in LOADS.items()
        for keys in KEYS
    ),
]
#: Warm bursts of Llama-3.1-8B that an answer may take: 150 and 250 us where one takes 26.
BUDGETS = {"means": 5.8, "with two p99": 9.6}
#: Points a second of arrays, in loop steps of 38 ns a point; half as many for DeepSeek-V3.
ARRAY_BUDGETS = {"means": 1.5e6, "with two p99": 0.4e6}
LARGER = 2.0
STEP_S = 38e-9
WARM, ASKED, POINTS = 260, 60, 100_000
TEXT = """\
Means of TTFT and TPOT of a server under a load, and with the p99 of both, of prompt lengths that were never asked for:
after {warm} answers of the kind, in *warm bursts* (an answer of Llama-3.1-8B on an idle server in the same process) and
in loop steps ({step} ns here), and as one call with {points:,} prompt lengths, in loop steps a point. Budgets: {one}
warm bursts for means and {two} with percentiles (150 and 250 us where a warm burst takes 26); for arrays {means:,.0f}
and {tails:,.0f} points a second where a loop step takes 38 ns; twice the time for DeepSeek-V3. Bursts are listed for
comparison; their own budgets are above."""


def measure(rounds: int) -> Section:
    runs = [worker("loads") for _ in range(rounds)]
    step = statistics.median(run["step"] for run in runs)
    missed: list[Missed] = []
    rows = []
    for place, (case, load, *_, keys) in enumerate(ROWS):
        found = [run["answers"][place] for run in runs]
        factor = LARGER if case.startswith("DeepSeek") else 1.0
        name = f"{case}, {load}, {keys}"
        bursts = spread(each["one"] / run["burst"] for each, run in zip(found, runs, strict=True))
        one, many = (spread(each[form] for each in found) for form in ("one", "many"))
        allowed = None if load == "a burst of 8" else BUDGETS[keys] * factor
        limits = judged(name, bursts, allowed, ("loads", str(place), "one"), missed)
        budget = factor / (ARRAY_BUDGETS[keys] * STEP_S)
        limits_of_arrays = judged(f"{name}, array", many, budget, ("loads", str(place), "many"), missed)
        micro, rate = one.median * step * 1e6, 1.0 / (many.median * step)
        alone = (str(bursts), *limits, f"{micro:,.0f}", str(one))
        rows.append((name, *alone, str(many), *limits_of_arrays, f"{rate:,.0f}"))
    head = (
        "case", "warm bursts", "budget", "met", "us here", "loop steps", "array: loop steps a point", "budget", "met",
        "points a second here",
    )  # fmt: skip
    text = TEXT.format(
        warm=WARM, points=POINTS, one=BUDGETS["means"], two=BUDGETS["with two p99"], means=ARRAY_BUDGETS["means"],
        tails=ARRAY_BUDGETS["with two p99"], step=number(step * 1e9),
    )  # fmt: skip
    return Section("Answers under a load", text, head, rows, missed)


def ask(place: int, isl: object) -> None:
    """One question of a row; isl may be an array."""
    import roofline as rl

    _, _, model, gpu, asked, keys = ROWS[place]
    answer = rl.predict(model, gpu, isl=isl, osl=200, **asked)
    _ = answer.ttft, answer.tpot, [answer.latency(key) for key in KEYS[keys]]


def alone(place: int) -> float:
    """Loop steps of one answer after many."""
    for turn in range(WARM):
        ask(place, 1000.0 + turn)
    asked = [partial(ask, place, 1500.0 + turn) for turn in range(ASKED)]
    return statistics.median(per_step(loop_step, lambda: [seconds(each) for each in asked]))


def together(place: int) -> float:
    """Loop steps a point of an array, the second time."""
    import numpy as np

    call = partial(ask, place, np.linspace(500.0, 4000.0, POINTS))
    call()
    return min(per_step(loop_step, lambda: [seconds(call), seconds(call)])) / POINTS


def main(place: str = "", form: str = "") -> None:
    """Loop steps of a warm burst, and of each row alone and in an array."""
    if place:
        print(json.dumps({"one": alone, "many": together}[form](int(place))))
        return
    answers = [{"one": alone(row), "many": together(row)} for row in range(len(ROWS))]
    print(json.dumps({"answers": answers, "burst": alone(0), "step": loop_step()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
