"""Scalar answers: the first ones of a new case, the ones after many, and everything that an answer holds.

As a script, a worker: answers.py TOOL CASE times 150 answers of one tool in a process of its own.
"""

from __future__ import annotations

import json
import statistics
import sys

from calls import CASES, SLOW, TOOLS, WARM_UP, points
from measuring import Missed, Section, judged, loop_step, number, per_step, seconds, spread, worker

COUNT, COLD, WARM = 150, slice(1, 4), slice(50, None)
COUNT_OF_SLOW = 12
#: Case -> loop steps of an answer among the first, and of one after many.
BUDGETS = {"Llama-3.1-8B on H100": (2000.0, 800.0), "DeepSeek-V3 on 8 H200": (4000.0, 1600.0)}
ALL_KEYS = 5.0
TEXT = """\
Time to first token and time per output token of one case, asked of `roofline.predict` with lengths and a batch that
were not asked before. **First** is the median of the second to fourth answer of a case in a process whose interpreter
has worked on another model; **after many** is the median of the 51st to the 150th. The unit is the
*loop step*, one `x * 1.0000001 + 0.5` of a list comprehension over a range, measured in the same process before and
after ({step} ns here). `to_dict` writes every key of a prediction that nothing has been asked of yet; its unit is
one answer of the same process, among the first or after many. What is learnt along the way is paid for once: the
second to fiftieth answers together took longer than as many later ones, by the time of so many first answers."""


def measure(rounds: int) -> Section:
    missed: list[Missed] = []
    found = {case: [worker("answers", "roofline", case) for _ in range(rounds)] for case in BUDGETS}
    step = statistics.median(each["step"] for runs in found.values() for each in runs)
    rows = []
    for case, runs in found.items():
        first = [statistics.median(each["times"][COLD]) for each in runs]
        later = [statistics.median(each["times"][WARM]) for each in runs]
        for name, values, budget in zip(("first", "after many"), (first, later), BUDGETS[case], strict=True):
            figure = spread(values)
            verdict = judged(f"{case}, {name}", figure, budget, ("answers", "roofline", case, name), missed)
            took = figure.median * step
            rows.append((f"{case}, {name}", f"{figure} steps", *verdict, f"{took * 1e6:.0f}", f"{1 / took:,.0f}"))
        extra = spread((sum(each["times"][1:50]) - 49 * b) / a for each, a, b in zip(runs, first, later, strict=True))
        rows.append((f"{case}, the first fifty over fifty later", f"{extra} first answers", "-", "-", "-", "-"))
        everything = [statistics.median(each["to_dict"]) for each in runs]
        for name, of in (("first", first), ("after many", later)):
            figure = spread(each / one for each, one in zip(everything, of, strict=True))
            title = f"{case}, `to_dict` over an answer {name}"
            verdict = judged(title, figure, ALL_KEYS, ("answers", "roofline", case, "to_dict"), missed)
            took = statistics.median(everything) * step
            rows.append((title, f"{figure} answers", *verdict, f"{took * 1e6:.0f}", f"{1 / took:,.0f}"))
    head = ("answer", "median (min-max)", "budget", "met", "us here", "a second here")
    return Section("Scalar answers", TEXT.format(step=number(step * 1e9)), head, rows, missed)


def timed(tool: str, case: str, asked: list[tuple[int, int, int]], skipped: int) -> dict[str, object]:
    """Loop steps of answers of a case after those of another, and the first two of them."""
    other = TOOLS[tool](CASES[WARM_UP.get(tool) or WARM_UP.get(case) or next(iter(CASES))])
    for question in points(4 if tool in SLOW else 40):
        other(*question)
    ask = TOOLS[tool](CASES[case])
    for question in asked[:skipped]:
        ask(*question)
    times = per_step(loop_step, lambda: [seconds(lambda each=each: ask(*each)) for each in asked[skipped:]])
    return {"times": times, "step": loop_step(), "answers": [(*each, *ask(*each)) for each in asked[:2]]}


def all_keys(case: str) -> dict[str, object]:
    """Loop steps of `to_dict` on new predictions."""
    import roofline as rl

    model, gpu, tp = CASES[case]
    new = [rl.predict(model, gpu, tp=tp, isl=isl, osl=osl, batch=batch) for isl, osl, batch in points(40)]
    return {"to_dict": per_step(loop_step, lambda: [seconds(each.to_dict) for each in new])[10:]}


def main(tool: str, case: str, phase: str = "") -> None:
    """Print what one process measured: all of it, or one phase for its profile."""
    if phase == "to_dict":
        found = all_keys(case)
    elif phase:
        found = timed(tool, case, points(COUNT)[: 4 if phase == "first" else None], 1 if phase == "first" else 50)
    else:
        count = COUNT_OF_SLOW if tool in SLOW else COUNT
        found = timed(tool, case, points(count), 0) | (all_keys(case) if tool == "roofline" else {})
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
