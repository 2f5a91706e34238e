"""Power of timed kernels of the public wheels `aisimulate` and `aiconfigurator-core`: what is fitted, and how far off.

    python accuracy/kernel_power.py                     the rows of the installed wheel
    python accuracy/kernel_power.py power.csv           rows of a table of your own
    python accuracy/kernel_power.py --write power.csv   writes the rows of the wheel instead

The wheel (Apache-2.0, extra `accuracy`) states the mean board power while one kernel repeats on a B200, in the columns
`power` and `power_limit`. Constants (`roofline/physics/power.py`) are fitted on rows of vLLM on that GPU; TensorRT-LLM's
are judged only, but for kinds that vLLM did not time. Rows of an H200, which older tables of github.com/ai-dynamo/aiconfigurator hold, are held out: they
judge how shares of the TDP carry over to a GPU that the fit has not seen.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import kernel_rows
import numpy as np

import roofline as rl
from roofline.physics import power
from roofline.physics.equation import kernel_time, roof
from roofline.questions.calibrate import compute_dtype, kernel_work
from roofline.serving.verdict import HALF_WIDTH
from roofline.specs.gpu import KINDS, SHAPES, KernelGroup

#: GPU that is fitted, and the engine whose rows are.
FITTED = ("b200", "vllm")
#: Kinds that are fitted on the engine that timed them, as vLLM did not.
_OF_ANY_ENGINE = ("mla_decode", "elementwise")
#: Shorter kernels measure the gaps between launches [us].
LEAST_US = 30.0
_KEPT = 300  # rows of a kind, dtype and engine
_TRIED = 12  # times as many are looked at
#: Tables of kernels that run alone; others are whole modules.
_TABLES = (
    "gemm_perf", "context_attention_perf", "generation_attention_perf", "generation_mla_perf", "moe_perf",
    "scale_matrix_perf",
)  # fmt: skip
COLUMNS = (*kernel_rows.COLUMNS[:21], "latency_us", "engine", "engine_version", "power_w", "power_limit_w")


def wheel_rows() -> Iterator[dict[str, Any]]:
    """Rows of the wheel that state a power, thinned by a hash of their shape."""
    import pandas as pd

    root = kernel_rows.tables()
    for folder, gpu in kernel_rows.GPUS.items():
        for path in sorted((root / folder).glob("*/*/*/*.parquet")):
            if path.stem not in _TABLES:
                continue
            reader = kernel_rows.READERS[path.stem]
            table = pd.read_parquet(path)
            if "power" not in table:
                continue
            engine, version = path.parts[-3:-1]
            table = table[(table.latency * 1000.0 >= LEAST_US) & (table.power > 0.0)]
            order = sorted(range(len(table)), key=lambda place: crc32(repr(place).encode()))
            counts: Counter[str] = Counter()
            for place in order[: _TRIED * _KEPT]:
                one = table.iloc[[place]]  # alone, as readers pass over rows and do not pass on the power
                for row in reader(one, engine):
                    if counts[row["dtype"]] >= _KEPT or kernel_rows.is_artefact(row, rl.load_gpu(gpu)):
                        continue
                    counts[row["dtype"]] += 1
                    stated = {"power_w": float(one.power.iloc[0]), "power_limit_w": float(one.power_limit.iloc[0])}
                    yield {**row, "gpu": gpu, "engine": engine, "engine_version": version, **stated}


class Sample:
    """Rows of one kind, dtype, GPU and engine, with what the power follows from."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        first = rows[0]
        self.gpu_name, self.kind, self.dtype, self.engine = (first[name] for name in ("gpu", "kind", "dtype", "engine"))
        gpu, kind = rl.load_gpu(self.gpu_name), KINDS[self.kind]
        latency = [float(row["latency_us"]) * 1e-6 for row in rows]
        columns = {name: [float(row[name]) for row in rows] for name in SHAPES[self.kind]}
        routing = tuple(str(row.get("routing") or "") for row in rows)
        group = KernelGroup(
            self.gpu_name, self.kind, self.dtype, {**columns, "latency": latency}, routing, routing, (), ()
        )
        self.work, peak = kernel_work(group, gpu), compute_dtype(gpu, kind, self.dtype)
        self.roof = roof(gpu, "calibrated", kind, self.dtype, peak)
        terms = kernel_time(self.work, self.roof)
        self.terms = terms._replace(total=np.asarray(latency))  # what is done in the time that was measured
        self.measured = np.asarray([float(row["power_w"]) / float(row["power_limit_w"]) for row in rows])
        demand = power.demand_parts(self.work, self.roof, self.terms)
        ideal = np.maximum(self.work.flop / self.roof.peak, self.work.nbytes / self.roof.bandwidth)
        self.kept = np.broadcast_to(ideal <= self.terms.total, self.measured.shape)  # others were not what they say
        self.parts = [np.broadcast_to(np.asarray(part, float), self.measured.shape)[self.kept] for part in demand]
        self.measured = self.measured[self.kept]

    def off(self, constants: Any = None) -> Any:
        """ln(predicted / measured) of each row."""
        values = power.CONSTANTS if constants is None else constants
        return np.log(np.minimum(power.demand(self.parts, values), power.MOST) / self.measured)


def samples(rows: Iterable[dict[str, Any]]) -> list[Sample]:
    """Rows by GPU, engine, kind and dtype."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if float(row["latency_us"]) >= LEAST_US:
            groups.setdefault(tuple(row[name] for name in ("gpu", "engine", "kind", "dtype")), []).append(row)
    found = [Sample(group) for _, group in sorted(groups.items())]
    return [sample for sample in found if len(sample.measured)]


def fitted(chosen: list[Sample]) -> Any:
    """Constants fitted on samples, each kind of kernel with the same weight as a whole, whatever its rows, to 1/2."""
    from scipy.optimize import least_squares

    number: dict[str, int] = {}
    for sample in chosen:
        number[sample.kind] = number.get(sample.kind, 0) + len(sample.measured)

    def residuals(values: Any) -> Any:
        return np.concatenate([number[sample.kind] ** -0.25 * sample.off(values) for sample in chosen])

    return least_squares(residuals, power.CONSTANTS, loss="soft_l1", f_scale=0.03, bounds=(0.0, 5.0)).x


def report(found: list[Sample]) -> Iterator[str]:
    """Errors by GPU and engine, and of the kinds of kernel."""
    yield "GPU | engine | rows | median | p90 | worst kind (median, rows)"
    for gpu, engine in sorted({(sample.gpu_name, sample.engine) for sample in found}):
        own = [sample for sample in found if (sample.gpu_name, sample.engine) == (gpu, engine)]
        errors = np.abs(np.expm1(np.concatenate([sample.off() for sample in own])))
        by_kind = {
            kind: np.abs(np.expm1(np.concatenate([sample.off() for sample in own if sample.kind == kind])))
            for kind in {sample.kind for sample in own}
        }
        worst = max(by_kind, key=lambda kind: float(np.median(by_kind[kind])))
        yield (
            f"{gpu} | {engine} | {len(errors)} | {np.median(errors):.1%} | {np.percentile(errors, 90):.0%} | "
            f"{worst} ({np.median(by_kind[worst]):.0%}, {len(by_kind[worst])})"
        )


def main() -> None:
    """Print constants and errors, or write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="*", type=Path, help="tables of rows; none: those of the wheel")
    parser.add_argument("--write", type=Path, help="write the rows of the wheel here")
    asked = parser.parse_args()
    rows = (
        list(wheel_rows())
        if not asked.table
        else [row for path in asked.table for row in csv.DictReader(path.open(encoding="utf-8"))]
    )
    if asked.write:
        with asked.write.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        return
    found = samples(rows)
    own = [
        sample
        for sample in found
        if sample.gpu_name == FITTED[0] and (sample.engine == FITTED[1] or sample.kind in _OF_ANY_ENGINE)
    ]
    if own:
        print("fitted:", dict(zip(power.NAMES, fitted(own).round(3).tolist(), strict=True)))
        for kind in sorted({sample.kind for sample in own}):
            rest, left = ([s for s in own if (s.kind == kind) is is_left] for is_left in (False, True))
            errors = np.abs(np.expm1(np.concatenate([sample.off(fitted(rest)) for sample in left])))
            print(f"  without {kind}: {np.median(errors):.1%} on its {len(errors)} rows")
        off = np.abs(np.concatenate([sample.off() for sample in found if sample.gpu_name == FITTED[0]]))
        print(f"sigma of all rows: {np.percentile(off, 80) / HALF_WIDTH:.2f}")
    print("\n".join(report(found)))


if __name__ == "__main__":
    sys.exit(main())
