"""What every part measures with: units of the same run, spreads, CPU time, and workers in fresh processes."""

from __future__ import annotations

import contextlib
import cProfile
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
cpu = time.process_time
#: Environment of every child. Bytecode is cached, as it is after pip install, and no peer asks the network.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
    "HF_HUB_OFFLINE": "1"
}
#: A worker with this variable profiles what it measures and leaves the statistics in the file that it names.
PROFILE = "BENCHMARK_PROFILE"
LOOP, BLOCK = 20_000, 16_384


class Spread(NamedTuple):
    """What several rounds found."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.low)}-{number(self.high)})"


class Missed(NamedTuple):
    """A figure above its budget, and the worker (a module and its arguments) whose profile says why."""

    name: str
    spread: Spread
    budget: float
    worker: tuple[str, ...]


class Section(NamedTuple):
    """A part of the page."""

    title: str
    text: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    missed: list[Missed]
    after: str = ""


def spread(values: Iterable[float]) -> Spread:
    values = list(values)
    return Spread(statistics.median(values), min(values), max(values))


def number(value: float) -> str:
    """Three digits: what a reader compares."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}".removesuffix(".")


def judged(
    name: str, found: Spread, budget: float | None, worker: tuple[str, ...], missed: list[Missed]
) -> tuple[str, str]:
    """Budget and verdict as cells; a median above its budget is noted."""
    if budget is None:
        return "-", "-"
    if found.median > budget:
        missed.append(Missed(name, found, budget, worker))
    return number(budget), "yes" if found.median <= budget else "**no**"


def seconds(call: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = cpu()
    call()
    return cpu() - start


def loop_step() -> float:
    """CPU time of one `x * 1.0000001 + 0.5` of a list comprehension over a range."""
    return statistics.median(seconds(lambda: [x * 1.0000001 + 0.5 for x in range(LOOP)]) for _ in range(9)) / LOOP


def numpy_step() -> float:
    """CPU time an element of one multiply-add on a block of 16,384 float64, into a buffer."""
    import numpy as np

    block, out = np.linspace(0.0, 1.0, BLOCK), np.empty(BLOCK)

    def multiply_add() -> None:
        for _ in range(50):
            np.multiply(block, 1.0000001, out=out)
            np.add(out, 0.5, out=out)

    return statistics.median(seconds(multiply_add) for _ in range(15)) / (50 * BLOCK)


def per_step(step: Callable[[], float], measure: Callable[[], list[float]]) -> list[float]:
    """Times in units that are measured before and after them, profiled if the parent wants to know."""
    before = step()
    with watched():
        times = measure()
    unit = (before + step()) / 2
    return [taken / unit for taken in times]


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Profile what runs inside where the environment names a file for it."""
    if PROFILE not in os.environ:
        yield
        return
    with cProfile.Profile(cpu) as profile:
        yield
    profile.dump_stats(os.environ[PROFILE])


def memory_mib() -> float:
    """Memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20


def worker(*arguments: str, python: str = sys.executable, path: str | None = None, **extra: str) -> Any:
    """What a module of this folder prints as JSON, run as a script in a process of its own."""
    module, *rest = arguments
    environment = ENVIRONMENT | extra | ({} if path is None else {"PYTHONPATH": path})
    done = subprocess.run(
        [python, str(HERE / f"{module}.py"), *rest], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def process_cpu(command: list[str]) -> float:
    """User and system time of a whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def roofline_command() -> list[str]:
    """The command of the package that is measured."""
    for folder in (*ENVIRONMENT.get("PYTHONPATH", "").split(os.pathsep), str(Path(sys.executable).parent)):
        for script in (Path(folder, "bin", "roofline"), Path(folder, "roofline")):
            if script.is_file():
                return [sys.executable, str(script)]
    return [sys.executable, "-c", "from roofline.cli.main import main; main()"]
