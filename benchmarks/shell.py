"""Questions over the catalog from the shell: CPU time of the whole process."""

from __future__ import annotations

import shlex
import sys

from measuring import Missed, Section, judged, process_cpu, roofline_command, spread

#: Question -> CPU time that it may take [s].
BUDGETS = {
    "goodput -m llama-3.3-70b -q fp8 --workload chat": 1.5,
    "plan -m llama-3.3-70b -q fp8 --isl 4k --osl 500 -c 64 --slo ttft:500@p95": 0.5,
    "plan -m deepseek-r1 --slo tpot:25 -c 64": 0.4,
    "levers -m llama-3.3-70b -q fp8 -g h100 --workload chat --rate 1": 0.8,
    "pareto -m llama-3.3-70b -g h100,h200,b200,mi300x": 1.0,
}
REFERENCE = [sys.executable, "-c", "import click, yaml"]
TEXT = """\
CPU time of a whole process, start included, in seconds here, and over that of `python -c "import click, yaml"`. The
first three look at every GPU of the catalog; all of them search plans, and most of them loads."""


def measure(rounds: int) -> Section:
    missed: list[Missed] = []
    rows = []
    for question, budget in BUDGETS.items():
        command = [*roofline_command(), *shlex.split(question)]
        times, ratios = [], []
        for _ in range(rounds):
            times.append(process_cpu(command))
            ratios.append(times[-1] / process_cpu(REFERENCE))
        found = spread(times)
        verdict = judged(f"roofline {question}", found, budget, ("start_up", question), missed)
        rows.append((f"`roofline {question}`", f"{found} s", *verdict, str(spread(ratios))))
    head = ("question", "CPU time, median (min-max)", "budget [s]", "met", "over the import")
    return Section("Questions over the catalog", TEXT, head, rows, missed)
