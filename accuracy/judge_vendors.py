"""How far predictions are off for accelerators that are not NVIDIA's; writes docs/vendors.md.

    python accuracy/judge_vendors.py kernels/ servers.csv

`kernels/` is what build_other_calibrations.py read, and tables of siblings beside it. `servers.csv` has a row for each
measured server: gpu, model, quantization (empty: the checkpoint's), tp, engine, isl, osl (means), concurrency,
num_prompts, ttft_ms, tpot_ms (means), held_out (1: no constant was set on it). The nightly dashboard of ROCm/ATOM states
all of these.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from prose import wrapped

import roofline as rl
from roofline.measurements.tables import kernel_groups
from roofline.questions.calibrate import judged

PAGE = Path(__file__).parent.parent / "docs" / "vendors.md"
LOADS = ((1, 4), (5, 16), (17, 64), (65, 128), (129, 4096))
LEAST = 10  # rows of a line


class Served(NamedTuple):
    """A server that was measured, and what is predicted of it [ms]."""

    row: dict[str, str]
    ttft: tuple[float, float, float, float]  # measured, predicted, both ends of its range
    tpot: tuple[float, float, float, float]


def kernel_lines(folder: Path) -> Iterable[str]:
    """A line for each kind and dtype of each GPU."""
    for path in sorted(folder.glob("*/*.csv")):
        gpu = rl.load_gpu(path.parent.name)
        calibration = gpu.calibration
        if calibration is None:
            continue
        for group in kernel_groups([str(path)]):
            found = judged(group, gpu, calibration)
            if found is None or len(group.engines) < LEAST:
                continue
            off = np.abs(np.expm1(found.log_ratios))
            split = "fit" if gpu.name in calibration.measured_on else "sibling"
            yield (
                f"| {gpu.name} | {group.kind} | {group.dtype} | {split} | {len(off)} | {100 * np.median(off):.1f} | "
                f"{100 * np.quantile(off, 0.9):.1f} | {100 * np.median(found.log_ratios):.1f} |"
            )


def asked_of(row: dict[str, str]) -> dict[str, Any]:
    """Options of `predict` for a measured server."""
    asked: dict[str, Any] = {"tp": int(row["tp"]), "isl": float(row["isl"]), "osl": float(row["osl"])}
    asked |= {"engine": row["engine"]}
    asked |= {name: float(row[name]) for name in ("concurrency", "num_prompts") if row[name]}
    if row["quantization"]:
        asked["quantization"] = row["quantization"]
    return asked


def served(row: dict[str, str]) -> Served:
    """The prediction for a measured server."""
    keys = ("ttft_ms", "ttft_low_ms", "ttft_high_ms", "tpot_ms", "tpot_low_ms", "tpot_high_ms")
    answer = rl.predict(row["model"], row["gpu"], allow_oversize=True, **asked_of(row)).to_dict(keys)
    ttft, tpot = (
        (float(row[f"{key}_ms"] or "nan"), *(answer[f"{key}{end}_ms"] for end in ("", "_low", "_high")))
        for key in ("ttft", "tpot")
    )
    return Served(row, ttft, tpot)


def server_line(name: str, split: str, rows: Iterable[Served]) -> str:
    """Errors of TPOT and TTFT of some servers."""
    rows = list(rows)
    cells = []
    for key in ("tpot", "ttft"):
        times = [time for time in (getattr(row, key) for row in rows) if time[0] > 0.0]
        offs = [log(predicted / measured) for measured, predicted, *_ in times]
        inside = sum(low <= measured <= high for measured, _, low, high in times)
        error = median(abs(exp(off) - 1.0) for off in offs)
        cells += [f"{100 * error:.1f}", f"{100 * median(offs):.1f}", f"{100 * inside / len(times):.0f}"]
    return f"| {name} | {split} | {len(rows)} | {' | '.join(cells)} |"


def server_lines(rows: list[Served]) -> Iterable[str]:
    """All servers, then by model and by load."""
    splits = {"fit": [row for row in rows if row.row["held_out"] != "1"],
              "held out": [row for row in rows if row.row["held_out"] == "1"]}  # fmt: skip
    for split, chosen in splits.items():
        yield server_line("**all**", split, chosen)
    for split, chosen in splits.items():
        names = sorted({(row.row["model"], row.row["quantization"]) for row in chosen})
        for name in names:
            of_name = [row for row in chosen if (row.row["model"], row.row["quantization"]) == name]
            if len(of_name) >= LEAST:
                yield server_line(" ".join(filter(None, name)), split, of_name)
        for least, most in LOADS:
            of_load = [row for row in chosen if least <= float(row.row["concurrency"]) <= most]
            if len(of_load) >= LEAST:
                yield server_line(f"{least} to {most} users", split, of_load)


def page(folder: Path, servers: Path) -> str:
    """The text of docs/vendors.md."""
    with servers.open(newline="") as file:
        rows = [served(row) for row in csv.DictReader(file)]
    return wrapped(PLAN.format(kernels="\n".join(kernel_lines(folder)), servers="\n".join(server_lines(rows))))


PLAN = """\
# Accuracy on AMD and Intel

Generated by `python accuracy/judge_vendors.py`. Errors are |predicted / measured - 1| in per cent, as on the page of
[accuracy](accuracy.md); bias is the median of ln(predicted / measured) in per cent: negative means predicted too fast.

## Kernels

Of AMD: the tables of tuned shapes of [ROCm/aiter](https://github.com/ROCm/aiter) (MIT), a sample: the best variant of
each shape, GPU time alone. They name a chip and its compute units: MI300X is also the MI325X, MI355X also the MI350X.
Of Intel: tables of the public wheel aisimulate (Apache-2.0), vLLM 0.28 on Arc Pro B60. `fit`: constants were fitted on
these rows; `sibling`: on those of another GPU of the generation.

| GPU | kind | dtype | split | n | median | p90 | bias |
|---|---|---|---|---|---|---|---|
{kernels}

Worst: experts of the MI308X, of which few rows exist in several kernels; prompt attention of the MI355X (40 rows of two
libraries). Nothing was timed of grouped-query decoding, of collectives on Infinity Fabric and of element-wise passes on
AMD: their constants are medians of other vendors', which start 3 us later, as servers show, and every answer that rests
on them says so.

## Servers

MI355X under ATOM, AMD's engine, alone or as plugin of vLLM or SGLang (`--engine atom`), without speculation: the nightly
dashboard of [ROCm/ATOM](https://github.com/ROCm/ATOM/tree/gh-pages/benchmark-dashboard), March to August 2026; closed
loops of ten times as many requests as users, lengths of 0.8 to 1 of 1024 or 8192 in and 1024 or 8192 out, means. Every
third of the rows `fit` under ATOM and vLLM set the seven constants of the profile; TPOT of DeepSeek-V3.2 and V4-Pro set
the start of index scores; GLM-5 and Qwen3.5-397B, of all versions, are held out: no constant was fitted to their rows. Their errors were printed
beside the others while two things were chosen by hand, that untimed kernels start 3 us later, and that an indexer has a
start of its own.

| servers | split | n | TPOT median | bias | in 80 % | TTFT median | bias | in 80 % |
|---|---|---|---|---|---|---|---|---|
{servers}

Why some are far off: which layers of an MXFP4 checkpoint stay in wider formats is not stated in every row, so that
Qwen3.5 in MXFP4 is predicted too fast; MiniMax-M3 has a kind of attention that nothing timed. MI300X servers are too few to judge: Llama-3.1-405B in FP8
under vLLM of 2024 (57 offline runs) takes 5 % longer than predicted with few requests and up to twice as long with many.
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("servers", type=Path)
    options = parser.parse_args()
    PAGE.write_text(page(options.kernels, options.servers))


if __name__ == "__main__":
    main()
