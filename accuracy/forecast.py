"""Forecasts each generation of GPUs from those before it, and writes docs/forecasts.md.

    python accuracy/kernel_rows.py kernels/
    python accuracy/forecast.py kernels/

A GPU that nobody has timed is predicted with the medians of the generations that were. Here every timed generation was
new once: it is predicted with the medians of those that came before it, and compared with its own kernels, and with
forward passes as its own constants give them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from build_calibration import GENERATIONS, OUT, generic, pooled, timed
from prose import wrapped

import roofline as rl
from roofline.questions.calibrate import judged
from roofline.serving.verdict import HALF_WIDTH
from roofline.specs.build import calibration_record

PAGE = Path(__file__).parent.parent / "docs" / "forecasts.md"
SIGMA = 0.6  # of kernels of a generation that was never timed: roofline/serving/verdict.py

#: Generations in the order in which they came, and those that each is forecast from.
ORDER = ("ampere", "ada", "hopper", "blackwell", "blackwell-ultra", "blackwell-rtx", "cdna3", "cdna4", "xe2")
FITTED = {**GENERATIONS, "cdna3": "mi300x", "cdna4": "mi355x", "xe2": "arc-pro-b60"}
MODELS = ("llama-3.1-8b", "llama-3.3-70b", "qwen3-32b", "qwen3-30b-a3b", "gpt-oss-120b", "mixtral-8x7b", "deepseek-r1")
CASES = ({"isl": 1000, "batch": 1}, {"isl": 8000, "batch": 1}, {"isl": 1000, "batch": 16}, {"isl": 2000, "batch": 64})


def document_of(generation: str) -> dict[str, Any]:
    """The shipped calibration of a generation."""
    content: dict[str, Any] = yaml.safe_load((OUT / f"{generation}.yaml").read_text())
    return content


def unseen(generation: str) -> rl.Gpu:
    """The fitted GPU of a generation, with the medians of the NVIDIA generations that came before it."""
    before = [name for name in ORDER[: ORDER.index(generation)] if name in GENERATIONS]
    gpu = rl.load_gpu(FITTED[generation])
    return replace(gpu, calibration=calibration_record(generic([document_of(name) for name in before])))


def kernel_lines(folder: Path) -> Iterator[tuple[str, float]]:
    """A line for each kind of kernel of each generation, and the share of its rows within the range."""
    for generation in ORDER[1:]:
        if generation not in GENERATIONS:
            continue
        gpu = unseen(generation)
        assert gpu.calibration is not None
        kinds: dict[str, list[np.ndarray]] = {}
        for group in pooled(timed(generation, folder), gpu.name):
            found = judged(group, gpu, gpu.calibration)
            if found is not None:
                kinds.setdefault(group.kind, []).append(np.asarray(found.log_ratios))
        for kind, parts in kinds.items():
            off = np.concatenate(parts)
            inside = float(np.mean(np.abs(off) <= HALF_WIDTH * SIGMA))
            yield (
                f"| {generation} | {kind} | {len(off)} | {100 * np.median(np.abs(np.expm1(off))):.0f} | "
                f"{100 * np.median(off):.0f} | {100 * inside:.0f} |",
                inside,
            )


def passes(generation: str) -> Iterator[tuple[str, float, bool]]:
    """Result, ln(forecast / own constants) and whether the range holds it, of passes of several models."""
    own, forecast = rl.load_gpu(FITTED[generation]), unseen(generation)
    for model in MODELS:
        for options in CASES:
            for extra in ({}, {"quantization": "fp8"}):
                try:
                    came, told = (
                        rl.predict(model, gpu, osl=200, engine="none", **options, **extra) for gpu in (own, forecast)
                    )
                except rl.RooflineError:
                    continue
                for result in ("ttft", "tpot"):
                    figure = came.to_dict([f"{result}_ms"])[f"{result}_ms"]
                    keys = [f"{result}{end}_ms" for end in ("", "_low", "_high")]
                    middle, low, high = told.to_dict(keys).values()
                    yield result, float(np.log(middle / figure)), low <= figure <= high


def pass_lines() -> Iterator[tuple[str, list[bool]]]:
    """A line for each generation and result, and whether the range held each case."""
    for generation in ORDER[1:]:
        cases = list(passes(generation))
        for result in ("ttft", "tpot"):
            chosen = [case for case in cases if case[0] == result]
            off = np.asarray([case[1] for case in chosen])
            inside = [case[2] for case in chosen]
            yield (
                f"| {generation} | {result.upper()} | {len(off)} | {100 * np.median(np.abs(np.expm1(off))):.0f} | "
                f"{100 * np.max(np.abs(np.expm1(off))):.0f} | {100 * np.median(off):.0f} | {100 * np.mean(inside):.0f} |",
                inside,
            )


def page(folder: Path) -> str:
    """The text of docs/forecasts.md."""
    kernels, of_passes = list(kernel_lines(folder)), list(pass_lines())
    held = [case for _, cases in of_passes for case in cases]
    return wrapped(
        PLAN.format(
            passes=_joined(line for line, _ in of_passes),
            kernels=_joined(line for line, _ in kernels),
            held=f"{100 * np.mean(held):.0f}",
            count=len(held),
            kernel_share=f"{100 * np.mean([inside for _, inside in kernels]):.0f}",
        )
    )


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines)


PLAN = """\
# Forecasts before silicon

Generated by `python accuracy/forecast.py`. A GPU that nobody has timed (`?`) is predicted from its data sheet with the
medians of the NVIDIA generations that were. Every generation was such a GPU once: here each is forecast from those that
came before it, and compared with what its kernels turned out to take. Errors are |forecast / result - 1| in per cent,
bias is the median of ln(forecast / result) in per cent: negative means that the forecast was too fast.

## Passes

TTFT and TPOT of seven models, in their own format and in FP8, at four loads, kernels alone, against the same with the
constants of the generation itself: {count} cases, of which {held} % lie inside the 80 % range of the forecast.

| generation | result | n | median | worst | bias | in 80 % |
|---|---|---|---|---|---|---|
{passes}

## Kernels

Against timed kernels, of all engines together; in the mean over these lines {kernel_share} % lie inside the range of a
single kernel. Worst are latent attention, which each generation writes anew, and element-wise passes, of which the small
ones run from the cache. A pass is many kernels, whose errors partly cancel: its range is wider than it need be on
another GPU of this kind, and is kept for accelerators that are further from it.

| generation | kind | n | median | bias | in 80 % |
|---|---|---|---|---|---|
{kernels}
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what kernel_rows.py wrote")
    PAGE.write_text(page(parser.parse_args().folder))


if __name__ == "__main__":
    main()
