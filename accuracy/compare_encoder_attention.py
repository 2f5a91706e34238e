"""Encoder attention against timed kernels: prompt attention's constants, with every pair in place of half of them.

    python accuracy/compare_encoder_attention.py WHEEL

WHEEL is aisimulate 0.13.0.dev202610270000000085 of https://pypi.org/project/aisimulate/ (Apache-2.0). Nothing is fitted; the table is that of
docs/method/encoders.md.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterator

import numpy as np
import pyarrow.parquet

import roofline as rl
from roofline.physics.encoders import encoder_attention
from roofline.physics.equation import kernel_time, roof
from roofline.specs.gpu import ENCODER_ATTENTION
from roofline.specs.media import Tower

#: Folder of the wheel -> GPU, and whether no constant may come from it.
GPUS = {
    "l40s": ("l40s", False), "h100_sxm": ("h100-sxm", False), "h200_sxm": ("h200-sxm", True), "b200_sxm": ("b200", False),
    "gb200": ("gb200-nvl72", True), "b300_sxm": ("b300", True), "gb300": ("gb300-nvl72", False),
    "rtx_pro_6000_server": ("rtx-pro-6000-server", False),
}  # fmt: skip
_LONG = 50e-6  # [s] kernels that images of a few hundred tokens and more run
_MILLI = 1e-3


def tables(wheel: str) -> Iterator[tuple[str, str, str, dict[str, np.ndarray]]]:
    """GPU, engine, its kernel, and the columns of each table."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith("encoder_attention_perf.parquet"):
                _, _, _, gpu, _, engine, version, _ = name.split("/")
                columns = pyarrow.parquet.read_table(io.BytesIO(archive.read(name))).to_pydict()
                kernel = columns["kernel_source"][0]
                yield gpu, f"{engine} {version}", kernel, {key: np.array(value) for key, value in columns.items()}


def ratios(gpu: str, rows: dict[str, np.ndarray]) -> np.ndarray:
    """Predicted over measured time of each row [1]."""
    limits = roof(rl.load_gpu(GPUS[gpu][0]), "calibrated", ENCODER_ATTENTION, "bf16", "bf16")
    shapes = zip(rows["batch_size"], rows["isl"], rows["num_heads"], rows["head_dim"], strict=True)
    times = []
    for batch, length, heads, width in shapes:
        tower = Tower(
            hidden=1, layers=1, heads=int(heads), head_dim=int(width), width=1, stem=(), projector=(), rule="fixed"
        )
        work = encoder_attention(tower, float(batch), float(length), float(length), 1)
        times.append(kernel_time(work, limits).total)
    return np.array(times) / (rows["latency"] * _MILLI)


def error(ratio: np.ndarray, quantile: float = 0.5) -> float:
    """Quantile of |ln ratio| as a percentage."""
    return 100.0 * float(np.expm1(np.quantile(np.abs(np.log(ratio)), quantile)))


def main(wheel: str) -> None:
    print("| GPU | engine | kernel | n | median | from 50 us: n | median | p90 | bias |")
    print("|---|---|---|---|---|---|---|---|---|")
    for gpu, engine, kernel, rows in tables(wheel):
        ratio = ratios(gpu, rows)
        long = ratio[rows["latency"] * _MILLI >= _LONG]
        bias = 100.0 * float(np.median(np.log(long)))
        held = " (held out)" if GPUS[gpu][1] else ""
        print(
            f"| {GPUS[gpu][0]}{held} | {engine} | {kernel} | {len(ratio)} | {error(ratio):.1f} | {len(long)} | "
            f"{error(long):.1f} | {error(long, 0.9):.1f} | {bias:+.1f} |"
        )


if __name__ == "__main__":
    main(sys.argv[1])
