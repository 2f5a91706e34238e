"""Writes the table of docs/method/context.md: published runs with context parallelism, and what is predicted of them.

python accuracy/build_context_page.py
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PAGE = ROOT / "docs" / "method" / "context.md"
RUNS = Path(__file__).with_name("context_parallel.csv")
START, END = "<!-- written by accuracy/build_context_page.py -->", "<!-- end of what it writes -->"
#: Hosts of the runs of arXiv:2411.01783 have an H100 with HBM2e.
_SET = {"h100-sxm": "memory.bandwidth=2.4TB/s"}
_NAMES = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "gather": "gather of queries, one layer",
    "capacity": "tokens kept, over dcp 1",
}
_UNITS = {"ttft": (1.0, "s"), "tpot": (1e3, "ms"), "gather": (1e6, "us"), "capacity": (1.0, "x")}


class Run(NamedTuple):
    """A published figure, and the prediction of it [s, or a ratio]."""

    model: str
    gpu: str
    options: dict[str, int]
    figure: str
    measured: float
    source: str
    predicted: float

    @property
    def error(self) -> float:
        """Relative [1]."""
        return self.predicted / self.measured - 1.0

    @property
    def plan(self) -> str:
        """Degrees in words."""
        return " ".join(f"{name}{self.options[name]}" for name in ("tp", "cp", "dcp") if name in self.options)

    @property
    def case(self) -> str:
        """Lengths in words."""
        lengths = [self.options[name] for name in ("isl", "prefix") if name in self.options]
        return " after ".join(
            str(number) for number in ([lengths[0] - lengths[1], lengths[1]] if lengths[1:] else lengths)
        )


def runs() -> list[Run]:
    """All published figures with their predictions."""
    found = []
    with RUNS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            options = {name: int(value) for name, value in (part.split("=") for part in row["options"].split(";"))}
            predicted = _predicted(row["model"], row["gpu"], options, row["figure"])
            found.append(
                Run(row["model"], row["gpu"], options, row["figure"], float(row["measured"]), row["source"], predicted)
            )
    return found


def _predicted(model: str, gpu: str, options: dict[str, int], figure: str) -> float:
    import roofline as rl

    if figure == "capacity":
        kept = [rl.fits(model, gpu, **{**options, "dcp": dcp})[0].to_dict()["kv_tokens"] for dcp in (options["dcp"], 1)]
        return float(kept[0] / kept[1])
    formats = {} if figure == "gather" else {"quantization": "fp8", "kv_cache_dtype": "bf16"}
    answer = rl.predict(model, gpu, osl=32, engine="none", allow_oversize=True, set=_SET.get(gpu), **formats, **options)
    if figure == "gather":
        gather = next(kernel for kernel in answer.decode.kernels if kernel.name == "queries all-gather")
        return float(gather.time / gather.count)
    return float(getattr(answer, figure))


def speed_ups(found: list[Run]) -> list[tuple[Run, float, float]]:
    """Runs with cp, each with what is measured and predicted of the same prompt without it, over it."""
    alone = {(run.model, run.options["tp"], run.options["isl"], run.figure): run for run in found if _is_plain(run)}
    pairs = []
    for run in found:
        key = run.model, run.options["tp"], run.options.get("isl"), run.figure
        if "cp" in run.options and "prefix" not in run.options and key in alone:
            pairs.append((run, alone[key].measured / run.measured, alone[key].predicted / run.predicted))
    return pairs


def _is_plain(run: Run) -> bool:
    return not {"cp", "dcp", "prefix"} & run.options.keys()


def table(found: list[Run]) -> str:
    """The section between both comments."""
    lines = ["| model, GPU | plan | prompt | figure | measured | predicted | error |", "|---|---|---|---|---|---|---|"]
    for run in found:
        scale, unit = _UNITS[run.figure]
        lines.append(
            f"| {run.model}, {run.gpu} | {run.plan} | {run.case or '-'} | {_NAMES[run.figure]} | "
            f"{scale * run.measured:.4g} {unit} | {scale * run.predicted:.3g} {unit} | {100.0 * run.error:+.0f} % |"
        )
    split = [run for run in found if {"cp", "dcp"} & run.options.keys()]
    slices = [
        ("all", [abs(run.error) for run in found]),
        ("with cp or dcp", [abs(run.error) for run in split]),
        ("without, the same servers", [abs(run.error) for run in found if run not in split]),
        ("TTFT with cp", [abs(run.error) for run in split if run.figure == "ttft"]),
        ("TPOT with cp", [abs(run.error) for run in split if run.figure == "tpot"]),
        (
            "speed-up of TTFT by cp",
            [abs(after / before - 1.0) for run, before, after in speed_ups(found) if run.figure == "ttft"],
        ),
    ]
    lines += ["", "| figures | count | median error | worst |", "|---|---|---|---|"]
    for name, errors in slices:
        lines.append(f"| {name} | {len(errors)} | {100.0 * median(errors):.0f} % | {100.0 * max(errors):.0f} % |")
    return "\n".join(lines)


def page() -> str:
    """The page with its table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return f"{before}{START}\n\n{table(runs())}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
