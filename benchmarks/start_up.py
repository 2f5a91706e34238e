"""Start-up of the command: CPU time of the whole process over that of `python -c "import click, yaml"`, in turn."""

from __future__ import annotations

import csv
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import ENVIRONMENT, HERE, Missed, Section, judged, number, process_cpu, roofline_command, spread

REFERENCE = [sys.executable, "-c", "import click, yaml"]
CASE = "-m llama-3.1-8b -g h100-sxm"
#: Main questions -> budget.
MAIN = {
    "ttft -m llama-3.1-70b -g h100-sxm": 1.5,
    "ttft -m llama-3.1-70b": 2.3,
    "ttft -m llama-3.1-70b --format json": 2.5,
    "--help": 1.3,
    f"sweep {CASE}": 2.0,
}
#: The smallest question of every other command; {folder} is a temporary one, {tests} holds results and kernels.
OTHERS = (
    "--version",
    f"predict {CASE}",
    f"tpot {CASE}",
    f"knee {CASE}",
    f"plan {CASE} --slo ttft:1s -c 8",
    f"goodput {CASE} --slo ttft:1s",
    f"curve {CASE}",
    f"budgets --over max-num-seqs {CASE} -c 8",
    f"fits {CASE}",
    f"pareto {CASE}",
    f"cost {CASE}",
    "compare -m llama-3.1-8b -g h100-sxm,h200-sxm",
    f"quantize {CASE}",
    f"sensitivity {CASE}",
    f"solve --for batch --slo tpot:25 {CASE}",
    f"formula ttft {CASE}",
    f"levers {CASE} -c 8",
    f"cache {CASE} --prefix 50% -c 8",
    f"speculate {CASE} --draft ngram --acceptance 0.6",
    "disaggregate -m llama-3.1-8b --prefill h100 --decode h100 --rate 1",
    f"sheet {{folder}}/sizing.xlsx --force {CASE}",
    f"page {{folder}}/roofline.html --force {CASE}",
    "check {tests}/fixtures/results/vllm.json -g h100-sxm --tp 1",
    "calibrate {folder}/kernels.csv -g b300",
    "mcp --help",
    "gpus",
    "gpus show h100-sxm",
    "models",
    "models show llama-3.1-8b",
    "workloads",
    "check-specs {tests}/../hardware_specs/nvidia/h100-sxm.yaml",
)
OTHER = 1.6
HEAVY = ("numpy", "sympy", "pydantic", "scipy", "xlsxwriter", "yaml")
TEXT = """\
CPU time of a whole process over that of `python -c "import click, yaml"`, which runs right after it; bytecode is
cached. {package} The other commands are asked the smallest question that they answer. Their budget is {other}, plus
the ratio of a process that imports numpy alone ({numpy}) or sympy alone ({sympy}) where the command imports it."""


def command(question: str, folder: str) -> list[str]:
    words = shlex.split(question.format(folder=folder, tests=HERE.parent / "tests"))
    return [*roofline_command(), *words]


def shown(question: str) -> str:
    return "roofline " + " ".join(Path(word).name if "{" in word else word for word in question.split())


def imported(asked: list[str]) -> set[str]:
    """Heavy packages that a command imports."""
    done = subprocess.run(
        [asked[0], "-X", "importtime", *asked[1:]], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    names = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    return names & set(HEAVY)


def kernels(folder: str) -> None:
    """A table of timed kernels, as one would write it."""
    with (HERE.parent / "tests" / "measured" / "kernels.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    chosen = [row for row in rows if row["gpu"] == "b300" and row["kind"] == "gemm"]
    with Path(folder, "kernels.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, chosen[0])
        writer.writeheader()
        writer.writerows(chosen)


def measure(rounds: int, package: str, others: tuple[str, ...] = OTHERS) -> Section:
    missed: list[Missed] = []
    with tempfile.TemporaryDirectory() as folder:
        kernels(folder)
        alone = {name: [sys.executable, "-c", f"import {name}"] for name in ("numpy", "sympy")}
        asked = {question: command(question, folder) for question in (*MAIN, *others)}
        loads = {question: imported(each) for question, each in asked.items()}  # and bytecode is written
        ratios: dict[str, list[float]] = {name: [] for name in (*alone, *asked)}
        for turn in range(rounds):
            for name, each in (alone | asked).items():
                if name in MAIN or 2 * turn < rounds:  # half the rounds for what is no main question
                    ratios[name].append(process_cpu(each) / process_cpu(REFERENCE))
    numpy, sympy = (spread(ratios[name]) for name in alone)
    rows = []
    for question in asked:
        figure = spread(ratios[question])
        needed = sum(each.median for name, each in (("numpy", numpy), ("sympy", sympy)) if name in loads[question])
        budget = MAIN.get(question, OTHER + needed)
        verdict = judged(shown(question), figure, budget, ("start_up", question), missed)
        heavy = ", ".join(name for name in HEAVY if name in loads[question]) or "-"
        rows.append((f"`{shown(question)}`", str(figure), *verdict, heavy))
    text = TEXT.format(package=package, other=number(OTHER), numpy=numpy, sympy=sympy)
    head = ("command", "ratio, median (min-max)", "budget", "met", "imports")
    return Section("Start-up", text, head, rows, missed)
