"""Tables in blocks: rows a second of one worker and of all cores, memory of each, and what 1e8 points cost.

As a script, a worker: blocks.py ROWS JOBS KIND asks for one table, with processes of its own. Memory and CPU time are
those of every process of its session, which Linux lists below /proc.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from measuring import ENVIRONMENT, HERE, Missed, Section, Spread, judged, number, spread, worker

KINDS = {
    "two keys": "ttft_ms, tpot_ms",
    "all keys": "all keys",
    "frontier": "a frontier of two figures, no rows",
    "load": "ttft_ms, tpot_ms under a load",
    "fleet": "a frontier of many deployments",
}
#: Kind -> rows of a table, growing by tens.
SIZES = {
    "two keys": (100_000, 1_000_000, 10_000_000, 100_000_000),
    "frontier": (1_000_000, 10_000_000, 100_000_000),
    "all keys": (100_000, 1_000_000),
    "load": (100_000, 1_000_000),
    "fleet": (100_000,),
}
SCALED = 10_000_000  # rows of the tables that are computed by one process and by all
SHORT = 1_000_000  # rows that are measured where not all are asked for
MOST_MIB = 300.0  # of a worker
#: Of one vCPU: half an m7i.large of AWS in Ohio, on demand, 2026-11; https://aws.amazon.com/ec2/pricing/on-demand/
USD_CPU_HOUR = 0.0504
POLL = 0.1  # time between two looks at the processes [s]
TEXT = """\
`rl.table` with `out` or `reduce`: rows in numbered blocks, each computed by one process. A rate is rows by CPU time of
all processes, start included; the wall rate also depends on what else the machine does. Memory is the largest that
Linux saw any one process use, the one that asks included; a worker may take {most:.0f} MiB. The table of a frontier has
80 deployments (2 models, 5 GPUs, 4 plans, 2 formats) of 1.25 million lengths and batches at its largest; many
deployments are {models} models on all GPUs in 8 plans and formats, 20 rows of each; the others are of one GPU."""
AFTER = """\
1e8 points, at these rates and at {usd} USD for an hour of a vCPU (AWS m7i, on demand):

{costs}

A folder of 1e8 points has {size} GB with two keys, and {all_size} GB with all. Scaling efficiency from 1 to {cores}
processes: {by_cpu} by rows a CPU second, {by_wall} by rows a second. Of {killed} rows by two processes, one of which
was killed after the first block, the sums of both keys differ by {differing} of those of one process."""
HEAD = (
    "rows", "kept", "processes", "rows a CPU second", "rows a second", "of each process", "memory", "budget", "met",
)  # fmt: skip
MODELS = 15


class Found(NamedTuple):
    """What one table took."""

    rows: int
    wall: float
    cpu: float
    mib: float  # the largest process
    size: int  # of the folder [B]

    @property
    def rate(self) -> float:
        """Rows a second of CPU time."""
        return self.rows / self.cpu


def measure(rounds: int, largest: int | None = None) -> Section:
    """All tables, or those of at most so many rows."""
    missed: list[Missed] = []
    rows, found = [], {}
    cores = len(os.sched_getaffinity(0))
    largest = largest or max(max(sizes) for sizes in SIZES.values())
    for kind, sizes in SIZES.items():
        for count in (size for size in sizes if size <= largest):
            repeats = rounds if count <= SHORT else 1
            runs = [asked(count, cores, kind) for _ in range(repeats)]
            found[kind] = runs[-1]
            rows.append(_row(kind, runs[-1].rows, cores, runs, missed))
    steps = sorted({1, *(2**power for power in range(10) if 2**power < cores), cores})
    scaled = {jobs: asked(min(SCALED, largest), jobs, "two keys") for jobs in steps}
    for jobs, run in scaled.items():
        rows.append(_row("two keys", run.rows, jobs, [run], missed))
    with tempfile.TemporaryDirectory() as folder:
        lost = worker("blocks", str(min(SCALED, largest)), "2", "killed", str(Path(folder, "rows")))
    one, whole = scaled[1], scaled[max(scaled)]
    costs = [
        f"* {KINDS[kind]}: {number(_hours(run))} core hours, {number(USD_CPU_HOUR * _hours(run))} USD"
        for kind, run in found.items()
    ]
    after = AFTER.format(
        usd=USD_CPU_HOUR,
        costs="\n".join(costs),
        size=number(1e8 * found["two keys"].size / found["two keys"].rows / 1e9),
        all_size=number(1e8 * found["all keys"].size / found["all keys"].rows / 1e9),
        cores=max(scaled),
        by_cpu=f"{100.0 * whole.rate / one.rate:.0f} %",
        killed=f"{lost['rows']:,}",
        differing=f"{lost['differing']:.0e}" if lost["differing"] else "0",
        by_wall=f"{100.0 * one.wall / (max(scaled) * whole.wall):.0f} %",
    )
    return Section("Tables in blocks", TEXT.format(most=MOST_MIB, models=MODELS), HEAD, rows, missed, after)


def _hours(run: Found) -> float:
    """Core hours of 1e8 points."""
    return 1e8 / run.rate / 3600.0


def _row(kind: str, count: int, jobs: int, runs: list[Found], missed: list[Missed]) -> tuple[str, ...]:
    memory = spread(run.mib for run in runs)
    name = f"{count:,} rows in blocks, {KINDS[kind]}, {jobs} processes"
    profiled = ("blocks", str(min(count, SHORT)), "1", kind)
    budget = judged(name, Spread(*memory), MOST_MIB, profiled, missed)
    wall = spread(run.rows / run.wall for run in runs).median
    rate = spread(run.rate for run in runs)
    text = str(rate) if len(runs) > 1 else number(rate.median)
    cells = (text, number(wall), number(wall / jobs), f"{number(memory.median)} MiB")
    return (f"{count:,}", KINDS[kind], str(jobs), *cells, *budget)


def asked(rows: int, jobs: int, kind: str) -> Found:
    """One table in a session of its own, whose processes are looked at meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(HERE / "blocks.py"), str(rows), str(jobs), kind, str(Path(folder, "rows"))]
        start = time.perf_counter()
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, start_new_session=True)
        used: dict[int, tuple[float, float]] = {}
        while process.poll() is None:
            used.update(_used(process.pid))
            time.sleep(POLL)
        wall = time.perf_counter() - start
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} failed")
        text = process.stdout.read() if process.stdout is not None else ""
        said = json.loads(text.splitlines()[-1])
        cpu = sum(seconds for seconds, _ in used.values())
        return Found(said["rows"], wall, max(cpu, said["cpu"]), max(mib for _, mib in used.values()), said["size"])


def _used(session: int) -> dict[int, tuple[float, float]]:
    """CPU time [s] and peak memory [MiB] of the processes of a session, by their numbers."""
    found = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, StopIteration):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) != session:
                continue
            status = (place / "status").read_text().splitlines()
            peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
            found[int(place.name)] = ((int(fields[11]) + int(fields[12])) / ticks, int(peak) / 1024)
    return found


def killed(count: int, folder: str) -> None:
    """The same rows by one process, and by two of which one is killed after the first block; prints how sums differ."""
    import signal

    import roofline as rl
    from roofline.outputs import dataset
    from roofline.questions import workers

    grid = {"isl": range(1, 10_001), "osl": range(2, 2 + count // 10_000), "keys": ["ttft_ms", "tpot_ms"]}
    alone = rl.table("llama-3.1-8b", "h100-sxm", **grid, out=f"{folder}-alone")
    pools, pool, write = [], workers._pool, dataset.Folder.write  # noqa: SLF001 - whom to kill, and when

    def then_kill(self: dataset.Folder, number: int, data: bytes) -> None:
        write(self, number, data)
        if len(pools) == 1 and pools[0]._processes:  # noqa: SLF001
            with contextlib.suppress(OSError):
                os.kill(min(pools[0]._processes), signal.SIGKILL)  # noqa: SLF001

    workers._pool = lambda jobs: pools.append(pool(jobs)) or pools[-1]  # noqa: SLF001
    dataset.Folder.write = then_kill
    found = rl.table("llama-3.1-8b", "h100-sxm", **grid, out=folder, jobs=2)
    one, other = ({key: table[key].to_numpy().sum() for key in grid["keys"]} for table in map(read, (alone, found)))
    differing = max(abs(other[key] / one[key] - 1.0) for key in one)
    print(json.dumps({"rows": found.rows, "pools": len(pools), "differing": float(differing)}))


def read(found: Any) -> Any:
    return found.to_arrow(["ttft_ms", "tpot_ms"])


def main(rows: str, jobs: str, kind: str, folder: str = "") -> None:
    """Ask for one table."""
    import roofline as rl

    count = int(rows)
    if kind == "killed":
        killed(count, folder)
        return
    osl = max(count // 10_000, 1)
    grid = {"isl": range(1, count // osl + 1), "osl": range(2, 2 + osl)}
    case = ("llama-3.1-8b", "h100-sxm")
    how = {"jobs": int(jobs), "out": folder or None, "keys": ["ttft_ms", "tpot_ms"]}
    if kind == "all keys":
        how["keys"] = None
    elif kind == "load":
        grid["concurrency"] = [8, 64]
        grid["isl"] = range(1, count // osl // 2 + 1)
    elif kind == "frontier":
        case = (["llama-3.1-8b", "qwen3-32b"], ["h100-sxm", "h200", "b200", "l40s", "mi300x"])
        of_each = count // 80
        batches = [1, 4, 16, 64, 256]
        osl = max(of_each // 5 // 10_000, 1)
        grid = {"isl": range(1, of_each // 5 // osl + 1), "osl": range(2, 2 + osl), "batch": batches}
        grid |= {"tp": [1, 2, 4, 8], "quantization": ["bf16", "fp8"]}
        how = {"jobs": int(jobs), "reduce": ["frontier:ttft,output_tok_s_gpu", "best:usd_per_m_output_tok:gpu"]}
    elif kind == "fleet":
        case = (rl.models()[:MODELS],)
        grid = {"isl": range(1000, 11_000, 1000), "batch": [1, 16], "tp": [1, 2, 4, 8], "quantization": ["bf16", "fp8"]}
        how = {"jobs": int(jobs), "reduce": ["frontier:ttft,output_tok_s_gpu", "best:usd_per_m_output_tok:gpu"]}
    found = rl.table(*case, **grid, **{name: value for name, value in how.items() if value is not None})
    print(
        json.dumps(
            {"rows": found.rows, "cpu": time.process_time(), "size": found.nbytes if folder and "out" in how else 0}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
