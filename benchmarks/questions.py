"""Questions that ask for many predictions. As a script, a worker: questions.py NAME asks one, once."""

from __future__ import annotations

import json
import sys

from measuring import Missed, Section, judged, loop_step, number, per_step, seconds, spread, worker

#: Name -> loop steps of one question when every answer was computed operation by operation.
BEFORE = {
    "sensitivity of DeepSeek-V3": 4.1e6,
    "size of DeepSeek-R1 over all GPUs": 92e6,
    "quantize of Llama-3.1-70B": 0.93e6,
}
BUDGET = 1 / 3
TEXT = """\
CPU time of one question from Python, in loop steps, each in a process that has asked the same of Llama-3.1-8B
before, so that imports and files do not count. The budget is a third of what it took when every answer was computed
operation by operation: {before}."""


def measure(rounds: int, against: str | None = None) -> Section:
    missed: list[Missed] = []
    found: dict[str, list[float]] = {name: [] for name in BEFORE}
    ratios: dict[str, list[float]] = {name: [] for name in BEFORE}
    for _ in range(rounds):
        for name, before in BEFORE.items():
            found[name].append(worker("questions", name))
            then = before if against is None else worker("questions", name, path=against)
            ratios[name].append(found[name][-1] / then)
    rows = []
    for name, values in found.items():
        ratio = spread(ratios[name])
        rows.append(
            (name, f"{spread(values)} steps", str(ratio), *judged(name, ratio, BUDGET, ("questions", name), missed))
        )
    stored = ", ".join(f"{number(steps)} steps" for steps in BEFORE.values())
    text = TEXT.format(
        before=stored if against is None else "a checkout of that version, which took turns with this one"
    )
    head = ("question", "median (min-max)", "over the version before", "budget", "met")
    return Section("Questions of many predictions", text, head, rows, missed)


def ask(name: str, model: str, gpus: str | None, tp: int | None) -> None:
    import roofline as rl

    lengths = {"isl": 2000, "osl": 300}
    if name.startswith("sensitivity"):
        rl.sensitivity(model, gpus or "h200-sxm", tp=tp, batch=16, **lengths)
    elif name.startswith("size"):
        rl.size(model, gpus, slo="ttft:1s,tpot:40ms", concurrency=64, **lengths)
    else:
        rl.quantize(model, gpus or "h100-sxm", **lengths)


def main(name: str) -> None:
    ask(name, "llama-3.1-8b", "h100-sxm", None)
    model = {"s": "deepseek-v3", "q": "llama-3.1-70b"}[name[0]] if not name.startswith("size") else "deepseek-r1"
    tp = 8 if name.startswith("sensitivity") else None
    print(json.dumps(per_step(loop_step, lambda: [seconds(lambda: ask(name, model, None, tp))])[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
