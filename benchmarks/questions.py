"""Questions that ask for many predictions. As a script, a worker: questions.py NAME asks one, once."""

from __future__ import annotations

import json
import sys

from measuring import Missed, Section, judged, loop_step, number, per_step, seconds, spread, worker

#: Name -> loop steps of one question when every answer was computed operation by operation.
BEFORE = {
    "sensitivity of DeepSeek-V3": 4.1e6,
    "plan of DeepSeek-R1 over all GPUs": 92e6,
    "quantize of Llama-3.1-70B": 0.93e6,
}
BUDGET = 1 / 3
GPUS = (
    "h100-sxm", "h200-sxm", "b200", "b300", "gb200-nvl72", "a100-sxm-80gb", "l40s", "h100-pcie", "mi300x", "mi325x",
)  # fmt: skip
#: Name -> what the frontier spans.
FRONTIERS = {
    "pareto of Llama-3.3-70B, batches of bursts": {"batch": list(range(1, 40))},
    "pareto of Llama-3.3-70B, up to the largest load": {},
    "pareto of Llama-3.3-70B, users, ttft:2s@p95": {"concurrency": list(range(1, 39)), "slo": "ttft:2s@p95"},
}
TEXT = """\
CPU time of one question from Python, in loop steps, each in a process that has asked the same of Llama-3.1-8B
before, so that imports and files do not count. The budget is a third of what it took when every answer was computed
operation by operation: {before}. Frontiers are those of {gpus} GPUs, tp 1, 2, 4 and 8, and two number formats;
they were not asked before."""


def measure(rounds: int, against: str | None = None) -> Section:
    missed: list[Missed] = []
    found: dict[str, list[float]] = {name: [] for name in (*BEFORE, *FRONTIERS)}
    ratios: dict[str, list[float]] = {name: [] for name in BEFORE}
    for _ in range(rounds):
        for name, before in BEFORE.items():
            found[name].append(worker("questions", name))
            then = before if against is None else worker("questions", name, path=against)
            ratios[name].append(found[name][-1] / then)
        for name in FRONTIERS:
            found[name].append(worker("questions", name))
    step = loop_step()
    rows = []
    for name, values in found.items():
        figure, verdict = spread(values), ("-", "-", "-")
        if name in ratios:
            ratio = spread(ratios[name])
            verdict = (str(ratio), *judged(name, ratio, BUDGET, ("questions", name), missed))
        rows.append((name, f"{figure} steps", *verdict, f"{figure.median * step:.2g}"))
    stored = ", ".join(f"{number(steps)} steps" for steps in BEFORE.values())
    text = TEXT.format(
        before=stored if against is None else "a checkout of that version, which took turns with this one",
        gpus=len(GPUS),
    )
    head = ("question", "median (min-max)", "over the version before", "budget", "met", "s here")
    return Section("Questions of many predictions", text, head, rows, missed)


def ask(name: str, model: str, gpus: str | None, tp: int | None) -> None:
    import roofline as rl

    lengths = {"isl": 2000, "osl": 300}
    if name in FRONTIERS:
        rl.pareto(model, gpus or GPUS, tp=[1, 2, 4, 8], quantization=[None, "fp8"], **lengths, **FRONTIERS[name])
    elif name.startswith("sensitivity"):
        rl.sensitivity(model, gpus or "h200-sxm", tp=tp, batch=16, **lengths)
    elif name.startswith("plan"):
        rl.plan(model, gpus, slo="ttft:1s,tpot:40ms", concurrency=64, **lengths)
    else:
        rl.quantize(model, gpus or "h100-sxm", **lengths)


def main(name: str) -> None:
    ask(name, "llama-3.1-8b", "h100-sxm", None)
    word = name.split(maxsplit=1)[0]
    models = {"sensitivity": "deepseek-v3", "plan": "deepseek-r1", "quantize": "llama-3.1-70b"}
    model, tp = models.get(word, "llama-3.3-70b"), 8 if word == "sensitivity" else None
    print(json.dumps(per_step(loop_step, lambda: [seconds(lambda: ask(name, model, None, tp))])[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
