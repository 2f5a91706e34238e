"""Arrays of random points, and how time and memory grow with their number.

As a script, a worker: numbers/arrays.py TOOL CASE COUNT asks for COUNT points in a process of its own.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from calls import CASES, TOOLS, points
from measuring import Missed, Section, judged, loop_step, memory_mib, number, numpy_step, spread, watched, worker

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
MILLION = 1_000_000
#: Case -> numpy operations a point.
BUDGETS = {"Llama-3.1-8B on H100": 700.0, "DeepSeek-V3 on 8 H200": 1800.0}
#: A size is left out where the one before says that it would take longer or more memory than this.
LONGEST_S, MOST_OF_MEMORY = 60.0, 0.4
TEXT = """\
Time to first token and time per output token of random prompt lengths, answer lengths and batches, as numpy arrays
in one call of `roofline.predict`, each figure in a process of its own that has answered 100 points before. The unit
of time is the *numpy operation a point*: one multiply-add on a block of 16,384 float64 into a buffer
(`numpy.multiply`, then `numpy.add`), divided by 16,384, measured in the same process ({step} ns here). Memory is
the peak of the process beyond its three inputs and two results."""


def growth(
    tool: str, case: str, rounds: int, sizes: tuple[int, ...] = SIZES, longest: float = LONGEST_S, **where: str
) -> dict[int, list[dict[str, float]] | str]:
    """What workers found for each size, or why it was not asked for."""
    found: dict[int, list[dict[str, float]] | str] = {}
    for place, size in enumerate(sizes):
        if place > 1:  # the first two say more about starting than about growth
            before, factor = found[sizes[place - 1]], size / sizes[place - 1]
            if isinstance(before, str):
                found[size] = "-"
                continue
            took = factor * min(each["s"] for each in before)
            memory = factor * min(each["mib"] for each in before)
            if took > longest or memory > MOST_OF_MEMORY * memory_mib():
                found[size] = f"not asked: about {took:.0f} s and {memory / 1024:.1f} GiB"
                continue
        times = 1 if size > MILLION else rounds
        found[size] = [worker("arrays", tool, case, str(size), **where) for _ in range(times)]
    return found


def measure(rounds: int, sizes: tuple[int, ...] = SIZES) -> Section:
    missed: list[Missed] = []
    rows, steps = [], []
    for case, budget in BUDGETS.items():
        for size, runs in growth("roofline", case, rounds, sizes).items():
            if isinstance(runs, str):
                rows.append((case, f"{size:,}", runs, "-", "-", "-", "-"))
                continue
            figure = spread(each["numpy"] for each in runs)
            worker_of = ("arrays", "roofline", case, str(size))
            limit = budget if size == MILLION else None
            verdict = judged(f"{case}, {size:,} points", figure, limit, worker_of, missed)
            steps += [each["numpy_step"] for each in runs]
            rate = f"{size / spread(each['s'] for each in runs).median:,.0f}"
            memory = f"{spread(each['mib'] for each in runs)} MiB"
            rows.append((case, f"{size:,}", f"{figure} operations", *verdict, memory, rate))
    head = ("case", "points", "a point, median (min-max)", "budget", "met", "memory", "points a second here")
    return Section("Arrays and growth", TEXT.format(step=number(spread(steps).median * 1e9)), head, rows, missed)


def peak_mib() -> float:
    """Largest memory of this process so far [MiB]: its own, for `ru_maxrss` counts the process that started it too."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return float(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def arrays(case: str, count: int) -> dict[str, float]:
    """One call of roofline with arrays."""
    import numpy as np

    import roofline as rl

    model, gpu, tp = CASES[case]

    def drawn(size: int) -> list[np.ndarray]:
        draw = np.random.default_rng(1)
        values = [draw.random(size) for _ in range(3)]
        for each, (low, high) in zip(values, ((500, 4000), (100, 400), (1, 32)), strict=True):
            np.multiply(each, high - low + 1, out=each)
            np.floor(np.add(each, low, out=each), out=each)
        return values

    def ask(isl: np.ndarray, osl: np.ndarray, batch: np.ndarray) -> tuple[object, object]:
        answer = rl.predict(model, gpu, tp=tp, isl=isl, osl=osl, batch=batch)
        return answer.ttft, answer.tpot

    ask(*drawn(100))
    before = numpy_step()
    asked = drawn(count)
    held = peak_mib()
    start = time.process_time()
    with watched():
        results = ask(*asked)
    took = time.process_time() - start
    memory = peak_mib() - held - sum(each.nbytes for each in results) / 2**20
    step = (before + numpy_step()) / 2
    return {"s": took, "mib": max(memory, 0.0), "numpy_step": step, "numpy": took / count / step}


def loop(tool: str, case: str, count: int) -> dict[str, float]:
    """One call of a tool after the other; its answers are kept as two numbers each."""
    ask = TOOLS[tool](CASES[case])
    for question in points(10):
        ask(*question)
    asked = points(count)
    held = peak_mib()
    start = time.process_time()
    with watched():
        answers = [ask(*each) for each in asked]
    took = time.process_time() - start
    assert len(answers) == count
    return {"s": took, "mib": peak_mib() - held}


def main(tool: str, case: str, size: str) -> None:
    before = loop_step()
    found = (arrays if tool == "roofline" else lambda *of: loop(tool, *of))(case, int(size))
    print(json.dumps(found | {"loop": found["s"] / int(size) / ((before + loop_step()) / 2)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
