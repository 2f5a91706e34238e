"""Kernel measurements of AMD's AITER, in the columns that `roofline calibrate` reads.

    git clone https://github.com/ROCm/aiter && python accuracy/amd_kernel_rows.py aiter kernels/

writes kernels/<gpu>/aiter.csv. AITER (MIT) ships a table of the fastest variant of each shape that it was tuned for:
sums of GPU kernel time, without launch gaps, and of experts without gate and sorting. The tables name a target and a
number of compute units, not a product: gfx942 with 304 units is MI300X or MI325X, with 80 MI308X, gfx950 with 256
MI350X or MI355X. Rows beyond the peak or the memory bandwidth are dropped. One row in `EVERY` is kept, by a hash of its
shape, so the choice is the same on every machine.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from kernel_rows import COLUMNS, Row

import roofline as rl
from roofline.measurements.tables import kernel_groups
from roofline.questions.calibrate import kernel_sample, log_ratio

#: (target, compute units) -> GPU; tables of experts without a target name the units alone.
PARTS = {("gfx942", 304): "mi300x", ("gfx942", 80): "mi308x", ("gfx950", 256): "mi355x"}
UNITS = {units: gpu for (_, units), gpu in PARTS.items()}
EVERY = 9
DATE = "2026-08"  # of the tables, AITER @e404860

#: Start of a file's name, without that of a model -> dtype of its multiplications.
GEMMS = {
    "a4w4_blockscale": "mxfp4_fp4",
    "a8w8_blockscale": "fp8_block",
    "a8w8_bpreshuffle": "fp8_static",  # per-token scales, inputs quantised before
    "a8w8": "fp8_static",
    "bf16": "bf16",
}
_INT8 = "torch.int8"
_FORMATS = {"bfloat16": "bf16", "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "float4_e2m1fn_x2": "mxfp4",
            "int4": "int4", "int8": "int8"}  # fmt: skip
#: Format of weights and activations, and scales of experts -> dtype.
EXPERTS = {
    ("bf16", "bf16", "No"): "bf16",
    ("fp8", "fp8", "per_1x128"): "fp8_block",
    ("fp8", "fp8", "per_Token"): "fp8",
    ("fp8", "fp8", "per_Tensor"): "fp8_static",
    ("int4", "bf16", "per_1x32"): "int4",
    ("mxfp4", "bf16", "per_1x32"): "mxfp4",
    ("mxfp4", "fp8", "per_1x32"): "mxfp4_fp8",
    ("mxfp4", "mxfp4", "per_1x32"): "mxfp4_fp4",
}


def rows(checkout: Path) -> Iterator[Row]:
    """Rows of every table of tuned shapes, the fastest of each shape [us]."""
    fastest: dict[tuple[Any, ...], Row] = {}
    for path in sorted((checkout / "aiter" / "configs").rglob("*tuned*.csv")):
        if "untuned" in path.name or "batched" in path.name:
            continue
        with path.open(newline="") as file:
            for raw in csv.DictReader(file):
                row = _experts(raw) if "fmoe" in path.name else _gemm(raw, path.name)
                if row is None:
                    continue
                shape = tuple(value for name, value in row.items() if name != "latency_us")
                if shape not in fastest or row["latency_us"] < fastest[shape]["latency_us"]:
                    fastest[shape] = row
    yield from (row for shape, row in fastest.items() if crc32(repr(shape).encode()) % EVERY == 0)


def _gemm(raw: dict[str, str], name: str) -> Row | None:
    gpu = PARTS.get((raw.get("gfx", ""), int(raw.get("cu_num") or 0)))
    known = next((dtype for start, dtype in GEMMS.items() if f"{start}_" in name), None)
    time = _time(raw)
    if gpu is None or known is None or time is None:
        return None
    dtype = "int8" if raw.get("q_dtype_w") == _INT8 else known
    sizes = {size.lower(): int(raw[size]) for size in ("M", "N", "K")}
    return {"gpu": gpu, "kind": "gemm", "dtype": dtype, **sizes, "latency_us": time}


def _experts(raw: dict[str, str]) -> Row | None:
    units = int(raw.get("cu_num") or 0)
    gpu = PARTS.get((raw["gfx"], units)) if raw.get("gfx") else UNITS.get(units)
    formats = [_FORMATS.get((raw.get(name) or "").removeprefix("torch."), "") for name in ("q_dtype_w", "q_dtype_a")]
    dtype = EXPERTS.get((formats[0], formats[1], (raw.get("q_type") or "").removeprefix("QuantType.")))
    time = _time(raw)
    if gpu is None or dtype is None or time is None or raw.get("use_g1u1") != "1":
        return None
    sizes = {"tokens": "token", "hidden": "model_dim", "width": "inter_dim", "top_k": "topk", "experts": "expert"}
    shape = {name: int(raw[column]) for name, column in sizes.items()}
    return {"gpu": gpu, "kind": "moe", "dtype": dtype, **shape, "routing": "uniform", "latency_us": time}


def _time(raw: dict[str, str]) -> float | None:
    try:
        time = float(raw.get("us") or 0)
    except ValueError:
        return None
    return time if 0.0 < time < float("inf") else None


def is_possible(path: Path, gpu: str) -> list[bool]:
    """Whether each row of a file takes at least the time of the hardware limit, in the order of its kinds."""
    record = rl.load_gpu(gpu)
    return [
        bool(off <= 0.0)
        for group in kernel_groups([str(path)])
        for off in log_ratio(kernel_sample(group, record), {"t0": 0.0, "eta_c": 1.0, "eta_m": 1.0})
    ]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows of `COLUMNS` as CSV."""
    with path.open("w", newline="") as file:
        file.write("# Extract of the tuned tables of ROCm/aiter (MIT, Copyright (c) Advanced Micro Devices, Inc.).\n")
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Write the rows of each GPU, those within the hardware limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="clone of ROCm/aiter")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    found: dict[str, list[Row]] = {}
    for row in rows(options.checkout):
        found.setdefault(row["gpu"], []).append({**row, "engine": "aiter", "date": DATE})
    for gpu, mine in found.items():
        path = options.folder / gpu / "aiter.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        mine.sort(key=lambda row: (row["kind"], row["dtype"]))  # as groups are read
        write_rows(path, mine)
        write_rows(path, [row for row, keep in zip(mine, is_possible(path, gpu), strict=True) if keep])
        print(f"{gpu}: {len(mine)} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
