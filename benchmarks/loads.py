"""Answers under a load. As a script, a worker: loads.py prints all of one process."""

from __future__ import annotations

import json
import statistics
import sys
from functools import partial

from measuring import Section, loop_step, per_step, seconds, spread, worker

CASES = (
    ("llama-3.1-8b", "h100-sxm", {"tp": 1, "isl": 1000, "osl": 200}),
    ("llama-3.3-70b", "h100-sxm", {"tp": 8, "isl": 4096, "osl": 500, "quantization": "fp8"}),
    ("deepseek-r1", "b200", {"tp": 8, "isl": 1024, "osl": 1024}),
)
LOADS = ({"concurrency": 8}, {"concurrency": 64}, {"concurrency": 500}, {"request_rate": 1.0}, {"request_rate": 3.0})
KEYS = tuple(f"{name}_p{level}" for name in ("ttft", "tpot", "e2el") for level in (50, 90, 95, 99))
TURNS = 6
SPREAD = {"isl_cv": 0.3, "osl_cv": 0.5}
TEXT = """\
Means, all percentiles, and all percentiles of lengths that spread, of a server under a load, over one answer of the
same case on an idle server in the same process; and the means in loop steps. There is no budget."""


def measure(rounds: int) -> Section:
    runs = [worker("loads") for _ in range(rounds)]
    rows = []
    for place, ((model, gpu, _), load) in enumerate((case, load) for case in CASES for load in LOADS):
        ((name, value),) = load.items()
        idle, *loaded = zip(*(run[place] for run in runs), strict=True)
        ratios = [str(spread(a / b for a, b in zip(each, idle, strict=True))) for each in loaded]
        rows.append((f"{model} on {gpu}, {name} {value:g}", *ratios, str(spread(loaded[0]))))
    head = ("case", "means, over an idle answer", "with percentiles", "of lengths that spread", "means, loop steps")
    return Section("Answers under a load", TEXT, head, rows, [])


def main() -> None:
    """Loop steps of each case, a list of four for each load: idle, means, percentiles, those of spread lengths."""
    import roofline as rl

    def ask(model: str, gpu: str, asked: dict[str, object], keys: tuple[str, ...], turn: int) -> None:
        answer = rl.predict(model, gpu, **asked | {"isl": asked["isl"] + turn})
        for key in keys:
            answer.latency(key)
        if not keys:
            _ = answer.e2el

    def turns(model: str, gpu: str, asked: list[tuple[dict[str, object], tuple[str, ...]]], count: int) -> list[float]:
        return [
            seconds(lambda each=each, keys=keys, turn=turn: ask(model, gpu, each, keys, turn))
            for turn in range(count)
            for each, keys in asked
        ]

    found = []
    for model, gpu, case in CASES:
        for load in LOADS:
            asked = [(case, ()), (case | load, ()), (case | load, KEYS), (case | load | SPREAD, KEYS)]
            times = per_step(loop_step, partial(turns, model, gpu, asked, TURNS))
            found.append([statistics.median(times[place + 4 :: 4]) for place in range(4)])  # the first turn is skipped
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
