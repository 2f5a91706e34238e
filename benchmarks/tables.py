"""Tables: rows a second, and memory. As a script, a worker: tables.py NAME asks for one, in a process of its own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from arrays import peak_mib
from measuring import (
    ENVIRONMENT,
    Missed,
    Section,
    Spread,
    judged,
    number,
    roofline_command,
    seconds,
    spread,
    watched,
    worker,
)

TWO = ("ttft_ms", "tpot_ms")


class Asked(NamedTuple):
    """A table of one model on one GPU, or of the first models of the catalog on all GPUs."""

    rows: int | None  # of prompt and answer lengths; None: of the catalog
    keys: tuple[str, ...] | None  # None: all
    load: dict[str, float]
    budget: float  # rows a second that are asked for


TABLES = {
    "one GPU, 100,000 lengths, two keys": Asked(100_000, TWO, {}, 2e6),
    "one GPU, 1,000,000 lengths, two keys": Asked(1_000_000, TWO, {}, 2e6),
    "one GPU, 100,000 lengths, all keys": Asked(100_000, None, {}, 200e3),
    "one GPU, 1,000,000 lengths, all keys": Asked(1_000_000, None, {}, 200e3),
    "one GPU, 100,000 lengths under a rate, two keys": Asked(100_000, TWO, {"request_rate": 0.5}, 100e3),
    "20 models on all GPUs, two keys, the first time": Asked(None, TWO, {}, 5e3),
}
#: Ending of a file -> rows a second that the shell writes of all keys.
FILES = {"csv": 100e3, "parquet": 100e3}
SWEEP = "sweep -m llama-3.1-8b -g h100-sxm --isl 1:{isl}:1 --osl 1:100:1 --force -o {file}"
MODELS = 20
LENGTHS = {"100,000": 1000, "1,000,000": 10_000}  # rows -> prompt lengths, with a hundred answer lengths
TEXT = """\
Rows a second of CPU time here: of `roofline.table` from Python, in a process that has answered a small table of the
kind before, except for the one that is asked for the first time; and of `roofline sweep -o FILE` from the shell, all
keys, start included. Memory is the largest of the process; one that has imported numpy and roofline takes {idle:.0f}
MiB."""


def measure(rounds: int) -> Section:
    missed: list[Missed] = []
    rows = []
    for name, asked in TABLES.items():
        runs = [worker("tables", name) for _ in range(rounds)]
        rates, memory = (spread(run[figure] for run in runs) for figure in ("rows", "mib"))
        verdict = _judged(name, rates, asked.budget, ("tables", name), missed)
        rows.append((name, str(rates), *verdict, f"{number(memory.median)} MiB"))
    for ending, budget in FILES.items():
        for count, isl in LENGTHS.items():
            name = f"`roofline sweep -o rows.{ending}`, {count} rows"
            try:
                rate, memory = _written(ending, isl)
            except subprocess.CalledProcessError as error:
                last = (error.stderr.strip().splitlines() or ["no message"])[-1]
                rows.append((name, f"not written: {last}", "-", "-", "-"))
                continue
            profiled = ("start_up", SWEEP.format(isl=min(LENGTHS.values()), file=f"{{folder}}/rows.{ending}"))
            whole = isl == max(LENGTHS.values())
            verdict = _judged(name, spread([rate]), budget, profiled, missed) if whole else ("-", "-")
            rows.append((name, f"{rate:,.0f}", *verdict, f"{memory:,.0f} MiB"))
    head = ("table", "rows a second here", "budget", "met", "memory")
    return Section("Tables", TEXT.format(idle=worker("tables")["mib"]), head, rows, missed)


def _judged(
    name: str, rates: Spread, budget: float, profiled: tuple[str, ...], missed: list[Missed]
) -> tuple[str, str]:
    """Budget and verdict; fewer rows a second than it are a miss, noted by the time of a row [us]."""
    row = Spread(*(1e6 / each for each in (rates.median, rates.high, rates.low)))
    return number(budget), judged(f"{name}, us a row", row, 1e6 / budget, profiled, missed)[1]


def _written(ending: str, isl: int) -> tuple[float, float]:
    """Rows a second of a file that the shell writes, and the memory of the process [MiB]."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"rows.{ending}"
        question = SWEEP.format(isl=isl, file=file)
        code = (
            "import json, resource, subprocess, sys\n"
            "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)\n"
            "sys.stderr.write(done.stderr)\n"
            "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
            "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))\n"
            "sys.exit(done.returncode)"
        )
        command = [sys.executable, "-c", code, *roofline_command(), *shlex.split(question)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
    took, memory = json.loads(done.stdout.splitlines()[-1])
    return 100 * isl / took, memory


def main(name: str = "") -> None:
    """Rows a second and memory of a table; without a name, the memory of a process that asks for none."""
    import numpy as np

    import roofline as rl

    if not name:
        print(json.dumps({"mib": peak_mib()}))
        return
    asked = TABLES[name]
    tables = []

    def ask(count: int) -> None:
        lengths = {"isl": np.arange(1.0, 1001.0), "osl": np.arange(2.0, 2.0 + count // 1000)}
        tables.append(rl.table("llama-3.1-8b", "h100-sxm", keys=asked.keys, **lengths, **asked.load))

    def ask_of_catalog() -> None:
        tables.append(rl.table(rl.models()[:MODELS], keys=asked.keys, **asked.load))

    if asked.rows is not None:
        ask(20_000)
    with watched():
        took = seconds(ask_of_catalog if asked.rows is None else lambda: ask(asked.rows))
    print(json.dumps({"rows": len(tables[-1]) / took, "mib": peak_mib()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
