"""Judges `rl.step_time` by steps measured on a GPU: the tables of docs/howto/python.md, "Against measured steps".

    python accuracy/judge_steps.py [tests/measured/steps.csv] [--gpu h100-sxm] [--rows]

The file is one that accuracy/measure_steps.py wrote. `--rows` prints every step with the errors of its parts.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import roofline as rl
from roofline.physics.passes import Pass, decode_pass, prefill_pass
from roofline.questions.step import _attention  # what `step_time` itself adds up
from roofline.serving.load.equations import server_of
from roofline.serving.prediction import Prediction
from roofline.specs.model import Group
from roofline.support.records import replace

STEPS = Path(__file__).parents[1] / "tests" / "measured" / "steps.csv"


class Step(NamedTuple):
    """A measured step, and what is predicted [us]."""

    row: dict[str, str]
    decode: tuple[int, ...]  # cached tokens of each sequence
    prefill: tuple[tuple[int, int], ...]  # new and cached tokens of each chunk
    predicted: float

    def measured(self, column: str = "us") -> float | None:
        return float(self.row[column]) if self.row[column] else None

    def error(self, column: str = "us") -> float | None:
        """Predicted over measured, less one [%]."""
        measured = self.measured(column)
        return None if measured is None else 100.0 * (self.predicted / measured - 1.0)

    @property
    def tokens(self) -> int:
        return sum(new for new, _ in self.prefill)


@cache
def predicted(model: str, layers: int, dtype: str, gpu: str) -> Prediction:
    """The model with so many of its layers, kernels alone, and a KV cache of 16 bits as measured."""
    options = {"engine": "none", "kv_cache_dtype": "bf16", "isl": 1, "osl": 1}
    if dtype != "bf16":
        options["quantization"] = dtype
    record = rl.load_model(model)
    if layers != record.layers:
        (group,) = record.groups
        record = replace(record, groups=(Group(layers // len(group.layers), group.layers),))
    return rl.predict(record, gpu, **options)


def several(text: str) -> list[str]:
    """Items of a cell: 2x512 1x64 is 512, 512, 64."""
    pairs = (word.split("x") for word in text.split())
    return [item for count, item in pairs for _ in range(int(count))]


def read(path: Path, gpu: str) -> list[Step]:
    with path.open(newline="") as file:
        rows = [*csv.DictReader(line for line in file if not line.startswith("#"))]
    steps = []
    for row in rows:
        decode = tuple(map(int, several(row["decode"])))
        prefill = tuple(
            (int(new), int(cached)) for new, cached in (chunk.split("+") for chunk in several(row["prefill"]))
        )
        case = predicted(row["model"], int(row["layers"]), row["dtype"], gpu)
        steps.append(Step(row, decode, prefill, 1e6 * rl.step_time(case, decode=decode, prefill=prefill)))
    return steps


def parts(step: Step, gpu: str) -> dict[str, float]:
    """Predicted times of GEMMs, attention and the rest, as `step_time` adds them up [us]."""
    case = predicted(step.row["model"], int(step.row["layers"]), step.row["dtype"], gpu)
    server = server_of(case.deployment, case.workload)

    def split(passed: Pass) -> dict[str, float]:
        found = {"gemm": 0.0, "attention": 0.0, "rest": 0.0}
        for kernel in passed.kernels:
            kind = "attention" if kernel.kind.is_per_sequence else "gemm" if kernel.kind.name == "gemm" else "rest"
            found[kind] += 1e6 * kernel.time
        return found

    deployment, batch = case.deployment, len(step.decode) * 1.0
    found = dict.fromkeys(("gemm", "attention", "rest"), 0.0)
    for context in step.decode:
        for name, time in split(decode_pass(deployment, batch, context * 1.0)).items():
            found[name] += time / batch
    if step.prefill:
        both, one = split(prefill_pass(deployment, 1.0, batch + step.tokens)), {}
        if batch:
            one = split(prefill_pass(deployment, 1.0, batch))
        found |= {name: found[name] + both[name] - one.get(name, 0.0) for name in ("gemm", "rest")}
        count = len(step.prefill) * 1.0
        works, onces = zip(
            *(_attention(server, count, new * 1.0, cached * 1.0) for new, cached in step.prefill), strict=True
        )
        found["attention"] += 1e6 * (sum(works) + max(onces))
    return found


def _one(step: Step) -> bool:
    return len(step.prefill) == 1 and step.prefill[0][1] == 0


#: Steps by what is in them.
REGIONS: dict[str, Callable[[Step], bool]] = {
    "up to 64 sequences": lambda s: not s.prefill and len(s.decode) <= 64,
    "128 or 256 sequences": lambda s: not s.prefill and len(s.decode) > 64,
    "a prompt, up to 128 tokens": lambda s: not s.decode and _one(s) and s.tokens <= 128,
    "a prompt, to 1,024": lambda s: not s.decode and _one(s) and 128 < s.tokens <= 1024,
    "a prompt, to 16,384": lambda s: not s.decode and _one(s) and s.tokens > 1024,
    "sequences and a prompt, up to 128 tokens": lambda s: bool(s.decode) and _one(s) and s.tokens <= 128,
    "sequences and a prompt, to 1,024": lambda s: bool(s.decode) and _one(s) and 128 < s.tokens <= 1024,
    "sequences and a prompt, to 8,192": lambda s: bool(s.decode) and _one(s) and s.tokens > 1024,
    "several prompts": lambda s: len(s.prefill) > 1 and not any(cached for _, cached in s.prefill),
    "chunks after cached tokens": lambda s: any(cached for _, cached in s.prefill),
}
ALL = "all steps"


def region(step: Step) -> str:
    """The one region of a step."""
    (name,) = (name for name, holds in REGIONS.items() if holds(step))
    return name


class Score(NamedTuple):
    """Errors of steps [%]."""

    count: int
    mean: float  # of the errors' magnitudes
    bias: float  # mean of the errors
    worst: float  # the largest, with its sign


def score(steps: Iterable[Step], column: str = "us") -> Score | None:
    errors = [error for step in steps if (error := step.error(column)) is not None]
    if not errors:
        return None
    return Score(len(errors), statistics.fmean(map(abs, errors)), statistics.fmean(errors), max(errors, key=abs))


def of_region(steps: list[Step], name: str) -> list[Step]:
    return steps if name == ALL else [step for step in steps if region(step) == name]


def error_table(steps: list[Step]) -> list[str]:
    """Errors by region: under load, and on a GPU that rested before each step."""
    lines = [
        "| steps | count | mean error | bias | worst | rested: count | mean error | bias |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in (*REGIONS, ALL):
        some = of_region(steps, name)
        hot, rested = score(some), score(some, "rested")
        cells = [name, f"{hot.count}", f"{hot.mean:.1f} %", f"{hot.bias:+.1f}", f"{hot.worst:+.1f}"]
        cells += ["-"] * 3 if rested is None else [f"{rested.count}", f"{rested.mean:.1f} %", f"{rested.bias:+.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def added_table(steps: list[Step], batch: int = 32, context: int = 1024) -> list[str]:
    """What a prompt adds to a step of sequences, measured and predicted, and what it takes alone; Llama-3.1-8B in bf16."""
    own = [step for step in steps if step.row["model"] == "llama-3.1-8b" and step.row["dtype"] == "bf16"]

    def times(decode: tuple[int, ...], new: int) -> tuple[float, float] | None:
        """Of that step: mean of what was measured, and predicted [ms]."""
        prefill = ((new, 0),) if new else ()
        same = [step for step in own if (step.decode, step.prefill) == (decode, prefill)]
        if not same:
            return None
        return statistics.fmean(step.measured() or 0.0 for step in same) / 1e3, same[0].predicted / 1e3

    sequences = (context,) * batch
    step, guess = times(sequences, 0) or (0.0, 0.0)
    lines = ["| tokens | adds, measured | predicted | takes alone, measured | predicted |", "|---|---|---|---|---|"]
    for new in sorted({step.tokens for step in own if step.decode == sequences and _one(step)}):
        both, alone = times(sequences, new), times((), new)
        if both is None or alone is None:
            continue
        cells = [f"{new:,}", *(f"{time:.2f} ms" for time in (both[0] - step, both[1] - guess, *alone))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=STEPS)
    parser.add_argument("--gpu", default="h100-sxm")
    parser.add_argument("--rows", action="store_true")
    args = parser.parse_args()
    steps = read(args.file, args.gpu)
    for step in steps if args.rows else ():
        shares = {
            name: 100.0 * (time / (step.measured(name) or time) - 1.0) for name, time in parts(step, args.gpu).items()
        }
        label = " ".join(step.row[name][:16] for name in ("model", "dtype", "decode", "prefill"))
        print(
            f"{label:50} {step.row['us']:>9} us {step.error():+6.1f} %", *(f"{k} {v:+.0f}" for k, v in shares.items())
        )
    print(*error_table(steps), "", *added_table(steps), sep="\n")
    repeated = [[*same] for _, same in itertools.groupby(sorted(steps, key=_case), key=_case)]
    apart = [
        max(times) / min(times) - 1.0
        for same in repeated
        if len(times := [step.measured() or 0.0 for step in same]) > 1
    ]
    if apart:
        print(
            f"\n{len(apart)} steps measured twice: {100 * statistics.fmean(apart):.1f} % apart, {100 * max(apart):.1f} at most"
        )


def _case(step: Step) -> tuple[str, ...]:
    return tuple(step.row[name] for name in ("model", "dtype", "decode", "prefill"))


if __name__ == "__main__":
    main()
