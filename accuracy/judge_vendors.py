"""How far predictions are off for accelerators that are not NVIDIA's; writes docs/vendors.md.

    python accuracy/judge_vendors.py kernels/ servers.csv other_servers.csv

`kernels/` is what build_other_calibrations.py read, and tables of siblings beside it. `servers.csv` has a row for each
measured server: gpu, model, quantization (empty: the checkpoint's), tp, engine, isl, osl (means), concurrency,
num_prompts, ttft_ms, tpot_ms (means), held_out (1: no constant was set on it). The nightly dashboard of ROCm/ATOM states
all of these. `other_servers.csv` is what other_server_rows.py wrote.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Mapping
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import yaml
from build_calibration import OUT
from build_other_calibrations import SERVED, one_device, told_by_squares
from fit_served import Timed, predicted, read, timings
from fit_served import left_out as models_left_out
from prose import wrapped

import roofline as rl
from roofline.catalog.find import load_engine, run_by
from roofline.measurements.tables import kernel_groups
from roofline.questions.calibrate import fitted, judged, kernel_sample, log_ratio
from roofline.specs.gpu import KernelGroup
from roofline.support.records import replace

PAGE = Path(__file__).parent.parent / "docs" / "vendors.md"
LOADS = ((1, 4), (5, 16), (17, 64), (65, 128), (129, 4096))
LEAST = 10  # rows of a line
FOLDS = 5  # in which families of shapes are left out
#: What makes kernels of one family, by kind.
_FAMILIES = {
    "gemm": ("n", "k"),
    "attention_prefill": ("heads", "kv_heads", "head_dim"),
    "attention_decode": ("heads", "kv_heads", "head_dim"),
    "moe": ("hidden", "width", "top_k", "experts"),
    "all_reduce": ("ranks",),
}


class Served(NamedTuple):
    """A server that was measured, and what is predicted of it [ms]."""

    row: dict[str, str]
    ttft: tuple[float, float, float, float]  # measured, predicted, both ends of its range
    tpot: tuple[float, float, float, float]


def kernel_lines(folder: Path) -> Iterable[str]:
    """A line for each kind and dtype of each GPU, and of each version that was timed."""
    medians = yaml.safe_load((OUT / "generic.yaml").read_text())["kernels"]["gemm"]["bf16"]
    for path in sorted(folder.glob("*/*.csv")):
        gpu = rl.load_gpu(path.parent.name)
        library, _, version = path.stem.partition("-")
        if gpu.calibration is None or (library, version) == ("vllm", "0.12.0"):
            continue
        if version and any(timed.version == version for timed in gpu.calibration.by_engine):
            gpu = run_by(gpu, load_engine(f"{library}@{version}"))
        calibration = gpu.calibration
        few = calibration.served is not None
        for group in map(of_weights, kernel_groups([str(path)])):
            found = judged(group, one_device(gpu), calibration)
            if found is None or (len(group.engines) < LEAST and not few):
                continue
            off = np.abs(np.expm1(found.log_ratios))
            split = "fit" if gpu.name in calibration.measured_on else "sibling"
            others = "" if not (version or few) else f"{left_out(group, one_device(gpu), medians if few else None):.1f}"
            name = f"{library} {version}".strip()
            yield (
                f"| {gpu.name} | {name} | {group.kind} | {group.dtype} | {split} | {len(off)} | "
                f"{100 * np.median(off):.1f} | {100 * np.quantile(off, 0.9):.1f} | "
                f"{100 * np.median(found.log_ratios):.1f} | {others} |"
            )


def of_weights(group: KernelGroup) -> KernelGroup:
    """A group of a part without FP8 units, whose FP8 weights are multiplied in 16 bits, by that name."""
    is_own = group.gpu == "arc-pro-b60" and group.dtype == "fp8" and group.kind in ("gemm", "moe")
    return replace(group, dtype="weight_only_8bit") if is_own else group


def left_out(group: KernelGroup, gpu: rl.Gpu, median: Mapping[str, Any] | None) -> float:
    """Median error of families of shapes under constants that were fitted without them [%]; of every row, if few."""
    names = [name for name in _FAMILIES.get(group.kind, ()) if name in group.columns]
    rows = range(len(group.engines))
    families = [tuple(group.columns[name][row] for name in names) for row in rows]
    fold_of = [crc32(repr(family).encode()) % FOLDS for family in families] if median is None else [*rows]
    errors: list[float] = []
    for fold in sorted(set(fold_of)):
        kept, out = (_chosen(group, [row for row in rows if (fold_of[row] == fold) is is_out])
                     for is_out in (False, True))  # fmt: skip
        sample, others = kernel_sample(kept, gpu), kernel_sample(out, gpu)
        constants = fitted(sample, {}).parameters if median is None else told_by_squares(sample, dict(median))[0]
        errors += [*np.abs(np.expm1(log_ratio(others, constants)))]
    return 100.0 * float(np.median(errors))


def _chosen(group: KernelGroup, rows: list[int]) -> KernelGroup:
    columns = {name: [values[row] for row in rows] for name, values in group.columns.items()}
    routing = tuple(group.routing[row] for row in rows) if group.routing else ()
    return replace(group, columns=columns, routing=routing, engines=tuple(group.engines[row] for row in rows))


def told_lines(rows: list[dict[str, str]]) -> Iterable[str]:
    """Errors of servers on whose runs passes stand: of models left out of the fit, and of models never in it."""
    for name in SERVED.values():
        gpu = rl.load_gpu(name)
        mine = [row for row in rows if row["gpu"] == name]
        inside = [row for row in mine if row["fit"] == "1"]
        yield told_line(name, "fit", [(each, gpu) for row in inside for each in timings(row, gpu)])
        yield told_line(name, "model left out", [(each, gpu) for each, _ in models_left_out(inside, gpu)])
        outside = [row for row in mine if row["fit"] != "1"]
        yield told_line(name, "held out", [(each, gpu) for row in outside for each in timings(row, gpu)])
        for model in sorted({row["model"] for row in outside}):
            of_model = [row for row in outside if row["model"] == model]
            yield told_line(name, f"held out: {model}", [(each, gpu) for row in of_model for each in timings(row, gpu)])


def told_line(name: str, split: str, found: list[tuple[Timed, rl.Gpu]]) -> str:
    """Errors of some timings."""
    if not found:
        return f"| {name} | {split} | 0 | - | - | - | - |"
    offs = [log(each.predicted / each.measured) for each, _ in found]
    errors = [100.0 * abs(exp(off) - 1.0) for off in offs]
    held = sum(_is_inside(each, gpu) for each, gpu in found)
    return (
        f"| {name} | {split} | {len(found)} | {median(errors):.0f} | {max(errors):.0f} | {100 * median(offs):.0f} | "
        f"{100 * held / len(found):.0f} |"
    )


def _is_inside(each: Timed, gpu: rl.Gpu) -> bool:
    """Whether a measured time lies in the 80 % range around its prediction; of a run, ranges of its passes by their shares."""
    answer = predicted(each.row, gpu)
    first, later = ([end / time for end in ends] for time, ends in (
        (answer.ttft, answer.ttft_interval), (answer.tpot, answer.tpot_interval)))  # fmt: skip
    low, high = (each.share * one + (1.0 - each.share) * other for one, other in zip(first, later, strict=True))
    return bool(low * each.predicted <= each.measured <= high * each.predicted)


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


def page(folder: Path, servers: Path, others: Path) -> str:
    """The text of docs/vendors.md."""
    told = "\n".join(told_lines(read(others)))
    with servers.open(newline="") as file:
        rows = [served(row) for row in csv.DictReader(file)]
    return wrapped(
        PLAN.format(kernels="\n".join(kernel_lines(folder)), servers="\n".join(server_lines(rows)), told=told)
    )


PLAN = """\
# Accuracy on AMD, Intel, Google and AWS

Generated by `python accuracy/judge_vendors.py`. Errors are |predicted / measured - 1| in per cent, as on the page of
[accuracy](accuracy.md); bias is the median of ln(predicted / measured) in per cent: negative means predicted too fast.

## Kernels

Of AMD: the tables of tuned shapes of [ROCm/aiter](https://github.com/ROCm/aiter) (MIT), a sample: the best variant of
each shape, GPU time alone. They name a chip and its compute units: MI300X is also the MI325X, MI355X also the MI350X.
Of Intel: vLLM on Arc Pro B60, 0.26 and 0.28 of the public wheel aisimulate, 0.20 of a checkout of
[aiconfigurator](https://github.com/ai-dynamo/aiconfigurator/tree/095f58a51c4c) (both Apache-2.0). Of Google: square
multiplications on one device of a TPU7x chip, of [tpu-recipes](https://github.com/AI-Hypercomputer/tpu-recipes)
(Apache-2.0). `fit`: constants were fitted on these rows; `sibling`: on those of another GPU of the generation. Last:
the median error of families of shapes (of TPU7x: of each row) under constants that were fitted without them.

| GPU | library | kind | dtype | split | n | median | p90 | bias | left out |
|---|---|---|---|---|---|---|---|---|---|
{kernels}

Worst: experts of the MI308X, of which few rows exist in several kernels; prompt attention of the MI355X (40 rows of two
libraries). Nothing was timed of grouped-query decoding, of collectives on Infinity Fabric and of element-wise passes on
AMD: their constants are medians of other vendors', which start 3 us later, as servers show, and every answer that rests
on them says so.

Why versions of vLLM on Intel have sets of their own: up to 0.26 a multiplication starts after 18 to 28 us and decode
attention after 57 to 68 us, which is what the host takes to launch them; in the tables of 0.28 it is 2 to 3 and 9 to
16 us. Their shares of peak and bandwidth hardly differ. Under the set of 0.28, decode attention of 0.20 would be 19 %
off (with FP8 caches 60 %), multiplications 15 %. `--engine vllm@0.20` takes the older set; `vllm` alone and other
engines that of 0.28. Decoding below 128 tokens of context is left out, as elsewhere, and so are windows.

Eight square multiplications tell two constants of a TPU7x, start and share of the peak; depth cannot be told from size
by squares. All its other constants are medians.

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

## Where servers alone were measured

Gaudi 2, Gaudi 3 and Trainium2, and TPU7x but for its multiplications: [`served`](method/calibration.md#servers-alone)
answers, in which a factor scales each kind of pass. `fit`: the factors rest on these runs; `model left out`: the same
runs, each model under factors of the others; `held out`: other models of the same sources, on which nothing rests. Of a
run with a throughput its time is judged, of others the first token or the time per token. Sources: Intel's
performance data for [Gaudi 2](https://www.intel.com/content/www/us/en/developer/platform/gaudi/model-performance-gaudi2-inference.html)
and [Gaudi 3](https://www.intel.com/content/www/us/en/developer/platform/gaudi/model-performance.html) (static batches
in FP8 under SynapseAI 1.18, October 2024), tutorials of
[AWS Neuron](https://github.com/aws-neuron/aws-neuron-sdk/tree/81ce03ae261e/libraries/nxd-inference/tutorials) (one user,
2026) and recipes of [tpu-recipes](https://github.com/AI-Hypercomputer/tpu-recipes/tree/c8cfe2f68908/inference/ironwood/vLLM)
(vLLM, 2026).

| GPU | split | n | median | worst | bias | in 80 % |
|---|---|---|---|---|---|---|
{told}

Worst: Llama-2-70B on eight Gaudi 2 with a prompt of 128 tokens and on four with 327 sequences, which take 1.7 times as
long; Llama-3.3-70B on 16 Trainium2, which takes 1.6 times as long: a single, larger model told the factors there.

Not in the table: four servers of
[optimum-neuron](https://github.com/huggingface/optimum-neuron/tree/213224e6aae42e570b88b3a5e6f2716112823469/benchmark/vllm)
on Trainium2, with one user (page [accuracy](accuracy.md), single requests). Their graphs are compiled for 2 to 32
sequences of 4096 tokens, which is what they compute whatever is asked: first tokens of dense models take 2.5 times as
long as predicted for 1500 tokens, of which the padding accounts for 2.7. Experts take 3 to 8 times as long per token, and
20 to 45 times for the first, all of which lie outside the range.
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("servers", type=Path)
    parser.add_argument("others", type=Path)
    options = parser.parse_args()
    PAGE.write_text(page(options.kernels, options.servers, options.others))


if __name__ == "__main__":
    main()
