"""Other calculators on the same points, from PyPI, in an environment of their own that is made when it is missing."""

from __future__ import annotations

import inspect
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import calls
from answers import COLD, COUNT_OF_SLOW, WARM
from arrays import growth
from measuring import ENVIRONMENT, HERE, Section, number, process_cpu, spread, worker

HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "roofline" / "peers"
PYTHON = HOME / "bin" / "python"
PINNED = {
    "servcalc": "servcalc==0.1.0",
    "aiconfigurator": "aiconfigurator-core==0.12.0",
    "aisimulate": "aisimulate==0.13.0.dev202610270000000085",
    "llm-analysis": "llm-analysis==0.2.2",
    "genz": "genz-llm==0.0.16",
}
CASES = tuple(calls.CASES)[:3]
SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
LONGEST_S = 2.0
REFERENCE = [sys.executable, "-c", "import click, yaml"]
TEXT = """\
{installed} Each tool answers the same drawn points ({points} of prompts of 500 to 4,000 tokens, answers of 100 to
400 and batches of 1 to 32), one after the other, in a process of its own that has answered 40 points of another
case before; the tools take turns. {slow} is asked {few} of them after 4. *First* and *after many* are those of the
scalar answers above. *Process* is the CPU time of a process that imports the tool and answers one point, over
`python -c "import click, yaml"`. What a tool answers is not compared here ([accuracy.md](accuracy.md) has roofline
against measurements); the first two answers show that the calls are alike."""
AFTER = """\
### How each was called

All in `benchmarks/calls.py`; `LLAMA` holds the sizes of the two models from their config.json.

```python
{source}```
"""


def installed() -> dict[str, str | None]:
    """Tool -> why it cannot be asked, or None; what is missing is installed."""
    if not PYTHON.exists():
        made = subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=False, env=_elsewhere())
        if made.returncode:
            return dict.fromkeys(PINNED, "no environment for it could be made")
    return {tool: _missing(pin) for tool, pin in PINNED.items()}


def _missing(pin: str) -> str | None:
    name, version = pin.split("==")
    has = f"import importlib.metadata as m; assert m.version({name!r}) == {version!r}"
    if subprocess.run([PYTHON, "-c", has], check=False, capture_output=True, env=_elsewhere()).returncode == 0:
        return None
    asked = [PYTHON, "-m", "pip", "install", "-q", "--retries", "1", "--disable-pip-version-check", pin]
    done = subprocess.run(asked, check=False, capture_output=True, text=True, env=_elsewhere())
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if line.lower().startswith("error")]
    return re.sub(r"(/[\w.+-]+){2,}", "...", (errors or ["ERROR: pip failed"])[-1].partition(":")[2].strip())


def _elsewhere() -> dict[str, str]:
    return {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}


def asked_in(tool: str) -> dict[str, str]:
    """Where workers of a tool run."""
    return {} if tool == "roofline" else {"python": str(PYTHON), "path": ""}


def process(tool: str) -> list[str]:
    """A process that answers one point."""
    python = sys.executable if tool == "roofline" else str(PYTHON)
    code = f"import calls; calls.TOOLS[{tool!r}](calls.CASES[{CASES[0]!r}])(2000, 300, 16)"
    return [python, "-c", f"import sys; sys.path.insert(0, {str(HERE)!r}); {code}"]


def measure(rounds: int, sizes: tuple[int, ...] = SIZES) -> Section:
    refused = installed()
    tools = ["roofline", *(tool for tool, reason in refused.items() if reason is None)]
    unable: dict[tuple[str, str], str] = {}
    found: dict[tuple[str, str], list[dict]] = {(tool, case): [] for case in CASES for tool in tools}
    started: dict[str, list[float]] = {tool: [] for tool in tools}
    for _ in range(rounds):
        for tool in tools:
            started[tool].append(process_cpu(process(tool)) / process_cpu(REFERENCE))
        for (tool, case), runs in found.items():
            if (tool, case) not in unable:
                try:
                    runs.append(worker("answers", tool, case, **asked_in(tool)))
                except RuntimeError as error:
                    unable[tool, case] = str(error).rpartition("Error: ")[2]
    rows = []
    for (tool, case), runs in found.items():
        if (tool, case) in unable:
            rows.append((case, tool, f"not asked: {unable[tool, case]}", "-", "-", "-", "-"))
            continue
        first = spread(statistics.median(each["times"][COLD]) for each in runs)
        later = spread(statistics.median(each["times"][WARM] or each["times"][COLD.stop :]) for each in runs)
        rate = 1 / (later.median * statistics.median(each["step"] for each in runs))
        said = "; ".join(f"{ttft * 1000:.0f} and {tpot * 1000:.1f}" for *_, ttft, tpot in runs[0]["answers"])
        rows.append((case, tool, str(first), str(later), f"{rate:,.0f}", str(spread(started[tool])), said))
    head = (
        "case",
        "tool",
        "first, loop steps",
        "after many, loop steps",
        "a second here",
        "process",
        "TTFT and TPOT of two points [ms]",
    )
    good = ", ".join(f"{tool} ({PINNED[tool]})" for tool in tools[1:])
    said = [f"Installed from PyPI: {good}."] if good else []
    said += [f"{tool} ({PINNED[tool]}) did not install: {reason}." for tool, reason in refused.items() if reason]
    text = TEXT.format(
        installed=" ".join(said),
        points=len(found["roofline", CASES[0]][0]["times"]),
        slow=", ".join(calls.SLOW),
        few=COUNT_OF_SLOW,
    )
    return Section("Peers", text, head, rows, [], _growth(tools, sizes) + AFTER.format(source=_source(tools)))


def _growth(tools: list[str], sizes: tuple[int, ...]) -> str:
    """Table of loop steps a point and of memory, by number of points."""
    columns = {
        tool: growth(tool, CASES[0], 1, sizes, LONGEST_S if tool != "roofline" else 60.0, **asked_in(tool))
        for tool in tools
    }
    lines = [
        f"### From 10 points to 10 million: {CASES[0]}\n",
        "Loop steps a point, and memory beyond what the process held before. roofline takes arrays, the others a loop",
        f"whose answers are kept; a size that would take a peer more than {LONGEST_S:g} s of CPU time is left out.\n",
        "| points | " + " | ".join(tools) + " |",
        "|---:|" + "---|" * len(tools),
    ]
    for size in sizes:
        cells = []
        for tool in tools:
            runs = columns[tool][size]
            cells.append(
                runs if isinstance(runs, str) else f"{number(runs[0]['loop'])} steps, {number(runs[0]['mib'])} MiB"
            )
        lines.append(f"| {size:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n"


def _source(tools: list[str]) -> str:
    asked = [calls.TOOLS[tool] for tool in tools] + [calls.session] * ("aiconfigurator" in tools)
    return "\n\n".join(inspect.getsource(each) for each in asked)
