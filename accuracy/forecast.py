"""Forecasts each generation of GPUs from those before it, and writes docs/forecasts.md.

    python accuracy/kernel_rows.py kernels/
    python accuracy/forecast.py kernels/ --servers servers.csv

A GPU that nobody has timed is predicted with the medians of the generations that were. Here every timed generation was
new once: it is predicted with the medians of those that came before it, and compared with its own kernels, with forward
passes as its own constants give them, and with its servers: those of the wheel `aiconfigurator-core`, and those of
`servers.csv`, which judge_vendors.py describes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from build_calibration import GENERATIONS, OUT, generic, pooled, timed
from forecast_rows import Came, figures, rubin, served, sparse, untimed
from prose import wrapped

import roofline as rl
from roofline.physics.passes import Pass
from roofline.questions.calibrate import judged
from roofline.serving.verdict import HALF_WIDTH, LEFT_OVER, NEXT_GENERATION, OTHER_VENDOR, kernel_sigma
from roofline.specs.build import calibration_record
from roofline.specs.gpu import KINDS

PAGE = Path(__file__).parent.parent / "docs" / "forecasts.md"
COMMON = 0.6  # of a kernel's residual, what shapes of its kind have in common: roofline/serving/verdict.py

#: Generations in the order in which they came, and those that each is forecast from.
ORDER = ("ampere", "ada", "hopper", "blackwell", "blackwell-ultra", "blackwell-rtx", "cdna3", "cdna4", "xe2")
FITTED = {**GENERATIONS, "cdna3": "mi300x", "cdna4": "mi355x", "xe2": "arc-pro-b60"}
MODELS = ("llama-3.1-8b", "llama-3.3-70b", "qwen3-32b", "qwen3-30b-a3b", "gpt-oss-120b", "mixtral-8x7b", "deepseek-r1")
#: GPUs whose servers were measured, and their generation.
SERVED = {"h100-sxm": "hopper", "h200-sxm": "hopper", "b200": "blackwell", "gb200-nvl72": "blackwell",
          "b300": "blackwell-ultra", "gb300-nvl72": "blackwell-ultra", "mi355x": "cdna4"}  # fmt: skip
CASES = ({"isl": 1000, "batch": 1}, {"isl": 8000, "batch": 1}, {"isl": 1000, "batch": 16}, {"isl": 2000, "batch": 64})


def document_of(generation: str) -> dict[str, Any]:
    """The shipped calibration of a generation."""
    content: dict[str, Any] = yaml.safe_load((OUT / f"{generation}.yaml").read_text())
    return content


def unseen(generation: str, name: str | None = None) -> rl.Gpu:
    """A GPU of a generation, by default the fitted one, with the medians of the NVIDIA generations before it."""
    before = [name for name in ORDER[: ORDER.index(generation)] if name in GENERATIONS]
    gpu = rl.load_gpu(name or FITTED[generation])
    record = calibration_record(generic([document_of(name) for name in before]))
    return replace(gpu, name=f"{gpu.name}, new", calibration=record)  # no profile was fitted on servers of that name


def is_next(generation: str) -> bool:
    """Whether it is of the vendor whose generations it is forecast from."""
    return generation in GENERATIONS


class Kernels(NamedTuple):
    """How far kernels of one kind are off, and the share within the range of one."""

    generation: str
    kind: str
    off: np.ndarray
    inside: float

    @property
    def line(self) -> str:
        """A row of the table."""
        error, bias = 100 * np.median(np.abs(np.expm1(self.off))), 100 * np.median(self.off)
        return f"| {self.generation} | {self.kind} | {len(self.off)} | {error:.0f} | {bias:.0f} | {100 * self.inside:.0f} |"


def kernels_of(folder: Path) -> Iterator[Kernels]:
    """Kernels of each kind of each generation; the range of one is that of its kind, and its own residual."""
    for generation in ORDER[1:]:
        if not is_next(generation):
            continue
        gpu = unseen(generation)
        assert gpu.calibration is not None
        kinds: dict[str, list[np.ndarray]] = {}
        for group in pooled(timed(generation, folder), gpu.name.removesuffix(", new")):
            found = judged(group, gpu, gpu.calibration)
            if found is not None:
                kinds.setdefault(group.kind, []).append(np.asarray(found.log_ratios))
        sigma = kernel_sigma(KINDS["gemm"], None, "generic") / COMMON
        for kind, parts in kinds.items():
            off = np.concatenate(parts)
            yield Kernels(generation, kind, off, float(np.mean(np.abs(off) <= HALF_WIDTH * sigma)))


class Passed(NamedTuple):
    """A pass: ln(forecast / own constants), its sigma where kinds of kernels have one of 1, and what its range holds."""

    generation: str
    result: str
    off: float
    unit: float
    is_held: bool  # by the whole range

    @property
    def is_inside(self) -> bool:
        """Whether constants that differ as those of generations do explain it."""
        return abs(self.off) <= HALF_WIDTH * self.unit * (NEXT_GENERATION if is_next(self.generation) else OTHER_VENDOR)


def passes(generation: str) -> Iterator[Passed]:
    """Passes of several models, of kernels alone."""
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
                for result, each in (("ttft", told.prefill), ("tpot", told.decode)):
                    figure, ends = getattr(came, result), getattr(told, f"{result}_interval")
                    off = float(np.log(getattr(told, result) / figure))
                    yield Passed(generation, result, off, unit_of(each), bool(ends[0] <= figure <= ends[1]))


def unit_of(passed: Pass) -> float:
    """Sigma of a pass whose kinds of kernels all have a sigma of 1: docs/method.md, "Intervals"."""
    times: dict[tuple[str, str], float] = {}
    for kernel in passed.kernels:
        key = kernel.kind.name, kernel.dtype
        times[key] = times.get(key, 0.0) + float(kernel.time)
    return float(np.linalg.norm(list(times.values())) / sum(times.values()))


def spread_of(found: list[Passed]) -> float:
    """Sigma of kinds of kernels at which 80 % of passes lie inside."""
    return float(np.quantile([abs(each.off) / each.unit for each in found], 0.8) / HALF_WIDTH)


def left_over() -> float:
    """What shapes have in common of the residuals of a generation's own constants: the mean of the NVIDIA sets."""
    sets = [rl.load_gpu(FITTED[generation]).calibration for generation in GENERATIONS]
    sigmas = [each.sigma for one in sets if one is not None for each in one.kernels.values() if each.sigma is not None]
    return COMMON * float(np.mean(sigmas))


def pass_lines(found: list[Passed]) -> Iterator[str]:
    """A line for each generation and result."""
    for generation in ORDER[1:]:
        for result in ("ttft", "tpot"):
            chosen = [each for each in found if (each.generation, each.result) == (generation, result)]
            off = np.asarray([each.off for each in chosen])
            error, inside = 100 * np.abs(np.expm1(off)), 100 * np.mean([each.is_inside for each in chosen])
            vendor = "same" if is_next(generation) else "other"
            yield (
                f"| {generation} | {vendor} | {result.upper()} | {len(off)} | {np.median(error):.0f} | "
                f"{np.max(error):.0f} | {100 * np.median(off):.0f} | {inside:.0f} |"
            )


def server_lines(pairs: list[tuple[Came, Came]]) -> Iterator[str]:
    """A line for each GPU and figure, and for each vendor: forecast, and the constants of its own generation."""
    groups = {"**NVIDIA**": lambda name: name != "mi355x", "**AMD**": lambda name: name == "mi355x"}
    groups |= {name: (lambda of, name=name: of == name) for name in SERVED}
    for title, chooses in groups.items():
        for result in ("ttft", "tpot"):
            chosen = [pair for pair in pairs if chooses(pair[0].of) and pair[0].result == result]
            if chosen:
                told, own = ([pair[place] for pair in chosen] for place in (0, 1))
                yield f"| {title} | {result.upper()} | {len(chosen)} | {figures(told)} | {figures(own)} |"


def grouped(rows: Iterable[Came], *, by_result: bool = True) -> Iterator[str]:
    """A line for each thing of which figures came."""
    groups: dict[str, list[Came]] = {}
    for row in rows:
        groups.setdefault(f"{row.of} | {row.result.upper()}" if by_result else row.of, []).append(row)
    for title, chosen in groups.items():
        yield f"| {title} | {len(chosen)} | {figures(chosen)} |"


def rubin_lines() -> Iterator[str]:
    """A line for each part of the passes on Vera Rubin: as announced, and with the rates of the board."""
    announced, as_run = list(rubin(as_run=False)), list(rubin(as_run=True))
    names = {"prompt": "prompts, whole", "attention": "their attention modules", "exchange": "their all-reduces, norms",
             "step": "decode steps"}  # fmt: skip
    for part, title in names.items():
        told, run = ([row for row in rows if row.of == part] for rows in (announced, as_run))
        yield f"| {title} | {len(told)} | {figures(told)} | {figures(run)} |"


def page(folder: Path, servers: Path | None) -> str:
    """The text of docs/forecasts.md."""
    kernels = list(kernels_of(folder))
    of_passes = [each for generation in ORDER[1:] for each in passes(generation)]
    near, far = ([each for each in of_passes if is_next(each.generation) is same] for same in (True, False))
    pairs = list(served({name: unseen(generation, name) for name, generation in SERVED.items()}, servers))
    modules = list(sparse())
    return wrapped(
        PLAN.format(
            passes=_joined(pass_lines(of_passes)),
            count=len(of_passes),
            near=f"{spread_of(near):.2f}",
            far=f"{spread_of(far):.2f}",
            left=f"{left_over():.2f}",
            used=f"{NEXT_GENERATION}, {OTHER_VENDOR} and {LEFT_OVER}",
            near_held=f"{100 * np.mean([each.is_inside for each in near]):.0f}",
            far_held=f"{100 * np.mean([each.is_inside for each in far]):.0f}",
            near_whole=f"{100 * np.mean([each.is_held for each in near]):.0f}",
            far_whole=f"{100 * np.mean([each.is_held for each in far]):.0f}",
            servers=_joined(server_lines(pairs)),
            untimed=_joined(grouped(untimed())),
            rubin=_joined(rubin_lines()),
            sparse=_joined(grouped(modules, by_result=False)),
            modules=len(modules),
            kernels=_joined(each.line for each in kernels),
            kernel_share=f"{100 * np.mean([each.inside for each in kernels]):.0f}",
        )
    )


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines)


PLAN = """\
# Forecasts before silicon

Generated by `python accuracy/forecast.py`. A GPU that nobody has timed (`?`) is predicted from its data sheet with the
medians of the NVIDIA generations that were. Every generation was such a GPU once: here each is forecast from those that
came before it, and compared with what came. Errors are |forecast / result - 1| in per cent: median and worst; bias is
the median of ln(forecast / result) in per cent: negative means that the forecast was too fast.

## What a range is made of

Three numbers, none of them set on a server. By how much constants of generations differ, as sigma of each kind of
kernel: {near} where a generation is of the vendor of the medians, {far} where it is of another, each such that 80 % of
the passes below lie inside. And what constants of a generation's own leave over: {left}, the mean residual of the
NVIDIA sets times the share of it that shapes have in common. The code has {used}. To their sum in squares comes what
every pass or server has beside its kernels, as on timed GPUs ([Intervals](method.md)).

## Passes

TTFT and TPOT of seven models, in their own format and in FP8, at four loads, kernels alone, against the same with the
constants of the generation itself: {count} cases. Both sides share what constants leave over and what a pass has beside
its kernels, so `in 80 %` counts what the first number alone explains: {near_held} % of passes on generations of the same
vendor, {far_held} % of those on another's. The whole range of `--engine none`, made for measured passes, also covers the
other two, 0.18 and 0.15: it holds {near_whole} and {far_whole} % of these. Boards in PCIe slots (ada, blackwell-rtx) are
further from their forecast than the rest.

| generation | vendor | result | n | median | worst | bias | in 80 % |
|---|---|---|---|---|---|---|---|
{passes}

## Servers

Whole ranges, on measured servers under load: those of [accuracy](accuracy.md) and of [other vendors](vendors.md). Beside
each forecast, the same with the constants of the generation itself. Profiles of engines are today's: what a new
generation changes in the host is not in this comparison. Worst are those of H200, whose own constants are H100's at 1.4
times the bandwidth.

| GPU | figure | n | median | worst | bias | in 80 % | own: median | worst | bias | in 80 % |
|---|---|---|---|---|---|---|---|---|---|---|
{servers}

## Accelerators that nobody has timed yet

Every published figure that the tests have of such a machine. Gaudi under its vendor's own program and machines with
unified memory are as far off as left-out generations. Trainium2 under a port of vLLM is not: mixtures of experts take
up to ten times what their active weights need, and first tokens seconds. No constant of a generation explains that, and
no range is made for it: a range is that of mature software. All rows of GB10 and Strix Halo outside are files of
gpt-oss that hold in 8 bits or fewer what the checkpoint, which is predicted, has in 16: faster than the hardware limit
that is computed, below which no range goes.

| machine | figure | n | median | worst | bias | in 80 % |
|---|---|---|---|---|---|---|
{untimed}

## Vera Rubin

Public forward passes of GLM-5.2 (NVFP4 experts, tp 4, SGLang, no server) on four pre-production GPUs, by NVIDIA's
AISimulate (tests/measured/vera_rubin.csv). Nothing is fitted to them. As announced: 22 TB/s and 1,800 GB/s per direction
of NVLink. As run: the repository reads a memory clock of 12.85 TB/s and links of 1,476 GB/s.

| part | n | announced: median | worst | bias | in 80 % | as run: median | worst | bias | in 80 % |
|---|---|---|---|---|---|---|---|---|---|
{rubin}

Prompts were predicted twice too fast, 53 % off in the median. Of the 204 ms that one of 16,384 tokens took longer than
forecast, 61 were a form: its attention was counted as expanded and shared by all tokens (next section). 100 are the
rates of this board beside the announced ones, most of them felt by attention. What remains, 43 ms, is a tenth: the
choice of the best keys, which is not counted, and experts. Steps hide the slower memory, as starts of kernels take most
of their time. A range covers kernels that nobody timed, not a board that runs below its data sheet: while a GPU is
announced (`~`), plan with its lower rates too.

## Prompts over chosen tokens

With sparse attention (DeepSeek-V3.2, GLM-5) each token of a prompt attends to its own 2,048 earlier ones: nothing can be
expanded for all of them, and none reads what another has read, so the prompt costs what as many decode steps cost. Until
2026-11 it was counted as expanded attention over a window, and modules of timed GPUs were predicted 1.6 to 8 times too
fast. {modules} timed modules of DeepSeek-V3.2 in FP8 (wheel aisimulate, one prompt of 4k to 32k tokens, projections and
indexer included), which no constant was fitted to, by heads on a GPU:

| GPU | engine | heads | n | median | worst | bias | in 80 % |
|---|---|---|---|---|---|---|---|
{sparse}

What remains too fast: the choice of the best keys, and TensorRT-LLM of few heads. Servers with prompts of 7,400 tokens
say the same: first tokens of DeepSeek-V3.2, GLM-5 and GLM-5.1 on MI355X (47 runs) were 30 to 40 % too fast and are
5 to 19 % off, those of GLM-5-FP8 under NVIDIA's (15 runs, held out) 27 % and now 5 %. But those of GLM-5.2 on MI355X (25
runs, the newest) are now 37 to 45 % too slow: its software is ahead of these constants.

## Kernels

Against timed kernels, of all engines together; in the mean over these lines {kernel_share} % lie inside the range of a
single kernel. Worst are latent attention, which each generation writes anew, and element-wise passes, of which the small
ones run from the cache. A pass is many kernels, whose errors partly cancel.

| generation | kind | n | median | bias | in 80 % |
|---|---|---|---|---|---|
{kernels}
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what kernel_rows.py wrote")
    parser.add_argument("--servers", type=Path, help="servers of other vendors, as for judge_vendors.py")
    options = parser.parse_args()
    PAGE.write_text(page(options.folder, options.servers))


if __name__ == "__main__":
    main()
