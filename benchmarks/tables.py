"""Tables: rows a second, and memory. As a script, a worker: tables.py NAME asks for one, in a process of its own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import ENVIRONMENT, Missed, Section, judged, roofline_command, spread, watched, worker

TWO = ("ttft_ms", "tpot_ms")
#: Name -> rows a second that are asked for.
BUDGETS = {
    "one GPU, a million lengths, two keys": 2e6,
    "one GPU, 200,000 lengths, all keys": 200e3,
    "one GPU, 100,000 lengths under a rate, two keys": 100e3,
    "20 models on all GPUs, two keys, the first time": 5e3,
}
#: Ending of a file -> rows a second that the shell writes of all keys.
FILES = {"csv": 100e3, "parquet": 100e3}
QUESTION = "sweep -m llama-3.1-8b -g h100-sxm --isl 1:{isl}:1 --osl 1:100:1 -o {file}"
MODELS = 20
LENGTHS = {"100,000": 1000, "1,000,000": 10_000}  # rows -> prompt lengths, with a hundred answer lengths
TEXT = """\
Rows a second of CPU time here: of `roofline.table` from Python, in a process that has answered a small table of the
kind before, but for the one that is asked the first time; and of `roofline sweep -o rows.csv` from the shell, all keys,
start included, with the largest memory of that process."""


def measure(rounds: int) -> Section:
    missed: list[Missed] = []
    rows = []
    for name, budget in BUDGETS.items():
        found = spread(worker("tables", name) for _ in range(max(2, rounds // 2)))
        rows.append((name, str(found), *_judged(name, found.median, budget, ("tables", name), missed), "-"))
    for ending, budget in FILES.items():
        for count, isl in LENGTHS.items():
            name = f"`roofline sweep -o rows.{ending}`, {count} rows"
            try:
                rate, memory = _written(ending, isl)
            except subprocess.CalledProcessError as error:
                last = (error.stderr or "no message").strip().splitlines()[-1]
                rows.append((name, f"not written: {last}", "-", "-", "-"))
                continue
            limit = budget if isl == max(LENGTHS.values()) else None
            asked = ("start_up", QUESTION.format(isl=isl, file=f"{{folder}}/rows.{ending}"))
            verdict = ("-", "-") if limit is None else _judged(name, rate, limit, asked, missed)
            rows.append((name, f"{rate:,.0f}", *verdict, f"{memory:,.0f} MiB"))
    return Section("Tables", TEXT, ("table", "rows a second here", "budget", "met", "memory"), rows, missed)


def _judged(name: str, rate: float, budget: float, asked: tuple[str, ...], missed: list[Missed]) -> tuple[str, str]:
    """Budget and verdict; fewer rows than it are a miss."""
    _, verdict = judged(f"{name}, the budget over the rate", spread([budget / rate]), 1.0, asked, missed)
    return f"{budget:,.0f}", verdict


def _written(ending: str, isl: int) -> tuple[float, float]:
    """Rows a second of a file that the shell writes, and the memory of the process [MiB]."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"rows.{ending}"
        question = QUESTION.format(isl=isl, file=file)
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


def main(name: str) -> None:
    """Rows a second."""
    import numpy as np

    import roofline as rl

    def rate(count: int, asked: dict[str, object], keys: tuple[str, ...] | None) -> float:
        lengths = {"isl": np.arange(1.0, 1001.0), "osl": np.arange(2.0, 2.0 + count // 1000)}
        start = time.process_time()
        with watched():
            rows = rl.table("llama-3.1-8b", "h100-sxm", keys=keys, **lengths, **asked)
        assert len(rows) == count
        return count / (time.process_time() - start)

    if name.startswith("20 models"):
        start = time.process_time()
        with watched():
            rows = rl.table(rl.models()[:MODELS], keys=TWO)
        print(json.dumps(len(rows) / (time.process_time() - start)))
        return
    keys = None if "all keys" in name else TWO
    asked = {"request_rate": 0.5} if "rate" in name else {}
    count = 1_000_000 if "million" in name else 200_000 if "200,000" in name else 100_000
    rate(20_000, asked, keys)
    print(json.dumps(rate(count, asked, keys)))


if __name__ == "__main__":
    main(*sys.argv[1:])
