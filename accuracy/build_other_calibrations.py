"""Fits the calibrations of accelerators that are not NVIDIA's, from timed kernels.

    python accuracy/amd_kernel_rows.py aiter kernels/
    python accuracy/kernel_rows.py kernels/ b60
    python accuracy/kernel_rows.py kernels/ b60 --data aiconfigurator/aic-core/src/aiconfigurator_core/systems/data
    python accuracy/tpu_kernel_rows.py tpu-recipes/microbenchmarks/ironwood/README.md kernels/
    python accuracy/other_server_rows.py sources/ other_servers.csv
    python accuracy/build_other_calibrations.py kernels/ other_servers.csv

rewrites hardware_specs/calibration/cdna*.yaml, xe2*.yaml, gaudi*.yaml, trainium2.yaml and tpu-v7.yaml, as far as their
rows are there. One GPU a generation is fitted: MI300X (CDNA3), MI355X (CDNA4), Arc Pro B60 (Xe2), and MI308X for itself:
with a quarter of the compute units it is never short of power, and a unit does half as much again. MI325X and MI350X
judge. Of AMD, GEMMs and experts are timed, and of attention one prompt kernel and latent decoding; of collectives and
element-wise passes nothing. What was not timed is the median of other vendors' generations, and stays marked. Versions of
an engine have sets of their own beside those of the newest. Of Gaudi and Trainium2 servers alone were measured, of TPU7x
servers and square multiplications: their passes have factors (fit_served.py). Needs the extra `calibrate`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from build_calibration import OUT, TITLE, TODAY, WHEEL_URL
from fit_served import factors, read
from kernel_rows import CHECKOUT, CHECKOUT_DATE, DATE
from other_server_rows import SOURCES

import roofline as rl
from roofline.measurements.tables import kernel_groups
from roofline.numbers.quantity import from_text
from roofline.questions.calibrate import (
    calibrated_sets,
    calibration_text,
    compute_dtype,
    kernel_sample,
    log_ratio,
    parameter_texts,
)
from roofline.specs.build import calibration_record
from roofline.specs.gpu import CALIBRATED, COLLECTIVES, KINDS, UNTIMED
from roofline.support.records import replace

Sets = dict[str, dict[str, dict[str, Any]]]


class Timed(NamedTuple):
    """Where the timed kernels of a generation are, and what is known of them."""

    gpu: str
    file: str  # in the folder of the GPU
    engine: str
    date: str
    title: str
    url: str
    gap: float = 0.0  # [us]
    indexer: bool = False  # whether servers told the start of index scores
    weight_only: bool = False  # FP8 weights are multiplied in 16 bits
    apart: tuple[str, ...] = ()  # versions of the engine that have sets of their own


_AITER = (
    "aiter",
    "2026-08",
    "ROCm/aiter (MIT), tables of tuned shapes aiter/configs/**/*.csv, a sample",
    ("https://github.com/ROCm/aiter/tree/e4048607a535ace3a2b51ded31b1c8c2d45c0879/aiter/configs"),
)
#: What kernels that were not timed start later than those of other vendors, as servers on MI355X show [us]: tables of
#: kernels leave out the gaps of a HIP graph, which are counted here.
_GAP = 3.0
#: What the choice of tokens by an indexer takes beyond its multiplication, as servers of DeepSeek-V3.2 show [us].
INDEXER_START = 53.0
LEAST_ROWS = 10  # of a set
GENERATIONS = {
    "cdna3": Timed("mi300x", "aiter.csv", *_AITER, gap=_GAP, indexer=True),
    "cdna3-80cu": Timed("mi308x", "aiter.csv", *_AITER, gap=_GAP, indexer=True),
    "cdna4": Timed("mi355x", "aiter.csv", *_AITER, gap=_GAP, indexer=True),
    "xe2": Timed(
        "arc-pro-b60", "vllm-0.28.0.csv", "vllm 0.28.0", DATE, TITLE, WHEEL_URL, weight_only=True,
        apart=("0.20.0", "0.26.0", "0.28.0"),
    ),
}  # fmt: skip
#: Versions that the wheel no longer has, or not whole.
_OLDER = ("0.20.0",)
_OLDER_TITLE = f"NVIDIA aiconfigurator (Apache-2.0), kernel tables of {CHECKOUT}, thinned"
_OLDER_URL = (
    "https://github.com/ai-dynamo/aiconfigurator/tree/095f58a51c4c/aic-core/src/aiconfigurator_core/systems/data/b60"
)
#: Generations whose servers were measured -> the GPU and its timed multiplications, if any.
SERVED = {"gaudi2": "gaudi2", "gaudi3": "gaudi3", "trainium2": "trainium2", "tpu-v7": "tpu-v7x"}
SERVERS = {
    "gaudi2": (
        "Intel, Model Performance Data for Gaudi 2 (SynapseAI 1.18.0)", "2024-10", "gaudi2.html", "SynapseAI 1.18",
    ),
    "gaudi3": (
        "Intel, Model Performance Data for Gaudi 3 (SynapseAI 1.18.0)", "2024-10", "gaudi3.html", "SynapseAI 1.18",
    ),
    "trainium2": (
        "AWS Neuron documentation, tutorial of Llama-3.1-405B on Trn2", "2026-08", "llama405b_perf_comparison.csv",
        "NxD Inference",
    ),
    "tpu-v7": ("Google, tpu-recipes: vLLM on Ironwood, Qwen3-32B (Apache-2.0)", "2026-04", "qwen3-32b.md", "vLLM TPU"),
}  # fmt: skip
_GEMM_TITLE = (
    "Google, tpu-recipes: matrix multiplications on Ironwood (Apache-2.0), eight square ones of one device, half a chip; "
    "they tell t0 and eta_c"
)
_GEMM_URL = "https://github.com/AI-Hypercomputer/tpu-recipes/blob/c8cfe2f68908/microbenchmarks/ironwood/README.md"
_DEVICES = 2  # of a chip
#: What that few rows tell; square ones cannot tell depth from size.
_TOLD = ("t0", "eta_c")
#: Dtypes whose inputs come quantised in the tables, which times the multiplication alone.
QUANTISED_BEFORE = {"fp8_block": "fp8_static"}
#: What was not timed: kind, dtype -> kind and dtype of this generation that it runs like, the first that was timed.
ALIKE = {
    ("gemm", "fp8_static"): ("int8",),
    ("gemm", "fp8"): ("fp8_static", "int8"),
    ("gemm", "int8"): ("fp8_static",),
    ("gemm", "mxfp4_fp8"): ("fp8_static",),
    ("moe", "fp8"): ("fp8_block",),
    ("moe", "fp8_static"): ("fp8", "fp8_block"),
    ("moe", "int8"): ("fp8", "fp8_block"),
    ("mla_decode", "bf16"): ("fp8",),
}
REASONS = {
    "medians": "assumption: medians of the generations of other vendors, as nothing of this kind was timed; starting "
    "3 us later, as servers on MI355X show",
    "plain-medians": "assumption: medians of the generations of other vendors, as nothing of this kind was timed",
    "indexer": "assumption: as a linear layer, and 53 us for keys, ranks and choice of tokens, set on TPOT of every third "
    "of 66 servers of DeepSeek-V3.2 and V4-Pro on MI355X (ROCm/ATOM, nightly dashboard, 2026-03 to 2026-08)",
    "alike": "assumption: runs like the nearest format of its kind that was timed on this generation",
}


def fitted_sets(folder: Path, timed: Timed, gpu: rl.Gpu) -> tuple[Sets, dict[str, Any]]:
    """Sets of what was timed on a GPU, and their sources."""
    sets: Sets = {}
    sources: dict[str, Any] = {}
    for group in kernel_groups([str(folder / gpu.name / timed.file)]):
        if len(group.engines) < LEAST_ROWS or (timed.weight_only and KINDS[group.kind].is_collective):
            continue
        dtype = group.dtype
        if timed.weight_only and dtype == "fp8" and group.kind in ("gemm", "moe"):
            dtype = "weight_only_8bit"
        before = QUANTISED_BEFORE.get(dtype) if group.kind == "gemm" else None
        chosen = replace(group, dtype=before or dtype)
        of_kind, cited = calibrated_sets([chosen], gpu, None, timed.title, timed.url)
        sets.setdefault(group.kind, {})[dtype] = of_kind[group.kind][chosen.dtype]
        sources |= cited
    return sets, sources


def document(name: str, folder: Path, medians: dict[str, Any]) -> dict[str, Any]:
    """The calibration of a generation."""
    timed = GENERATIONS[name]
    gpu = rl.load_gpu(timed.gpu)
    sets, sources = fitted_sets(folder, timed, gpu)
    measured = {kind: list(of_kind) for kind, of_kind in sets.items()}
    for kind in (kind.name for kind in CALIBRATED):
        known = medians["kernels"].get(kind, {})
        for dtype in dict.fromkeys((*known, *(of for each, of in ALIKE if each == kind))):
            if dtype in measured.get(kind, ()) or dtype == "nvfp4" or not _multiplies(gpu, kind, dtype):
                continue
            like = next((each for each in ALIKE.get((kind, dtype), ()) if each in measured.get(kind, ())), None)
            if like is None and dtype in known:
                sets.setdefault(kind, {})[dtype] = {**known[dtype], "source": "assumed-medians"}
            elif like is not None:
                sets[kind][dtype] = {**_unfitted(sets[kind][like]), "source": "assumed-alike"}
        for dtype, entry in sets[kind].items():
            if kind == "gemm" and "eta_s" in known.get(dtype, {}):  # its quantisation is a pass of its own
                entry["eta_s"] = known[dtype]["eta_s"]
            if entry["source"] == "assumed-medians":
                _start_later(entry, timed.gap)
    if timed.indexer:
        sets["indexer"] = {}
        for dtype, like in (("bf16", "bf16"), ("fp8", "fp8_static")):
            entry = {**_unfitted(sets["gemm"][like]), "source": "assumed-indexer"}
            _start_later(entry, INDEXER_START)
            sets["indexer"][dtype] = entry
    links = {kind: {**entry, "source": "assumed-medians"} for kind, entry in medians["collectives"].items()}
    used = {entry["source"] for of_kind in (*sets.values(), links) for entry in of_kind.values()}
    reasons = {**REASONS, "medians": REASONS["medians" if timed.gap else "plain-medians"]}
    sources |= {f"assumed-{reason}": {"title": title, "date": TODAY} for reason, title in reasons.items()}
    return {
        "name": name,
        "measured_on": [gpu.name],
        "engines": [timed.engine],
        **({"link": "pcie"} if gpu.link.kind == "pcie" else {}),
        "date": timed.date,
        "kernels": {kind.name: sets[kind.name] for kind in (*CALIBRATED, *UNTIMED) if kind.name in sets},
        "collectives": {kind.name: links[kind.name] for kind in COLLECTIVES if kind.name in links}
        | {"pcie": links["pcie"]},
        "sources": {key: source for key, source in sources.items() if key in used},
    }


def version_document(name: str, folder: Path, version: str) -> dict[str, Any]:
    """What a version of the engine was timed with."""
    timed = GENERATIONS[name]
    engine = timed.engine.partition(" ")[0]
    chosen = timed._replace(file=f"{engine}-{version}.csv", engine=f"{engine} {version}")
    if version in _OLDER:
        chosen = chosen._replace(title=_OLDER_TITLE, url=_OLDER_URL, date=CHECKOUT_DATE)
    sets, sources = fitted_sets(folder, chosen, rl.load_gpu(timed.gpu))
    return {
        "name": f"{name}-{engine}-{version}",
        "measured_on": [timed.gpu],
        "engines": [chosen.engine],
        "link": "pcie",
        "date": chosen.date,
        "kernels": {kind.name: sets[kind.name] for kind in CALIBRATED if kind.name in sets},
        "collectives": {},
        "sources": sources,
    }


def one_device(gpu: rl.Gpu) -> rl.Gpu:
    """One of the devices of a chip of which rows were timed; the GPU itself elsewhere."""
    if gpu.name != SERVED["tpu-v7"]:
        return gpu
    peaks = {dtype: peak / _DEVICES for dtype, peak in gpu.peaks.items()}
    return replace(gpu, peaks=peaks, bandwidth=gpu.bandwidth / _DEVICES)


def told_by_squares(sample: Any, median: dict[str, Any]) -> tuple[dict[str, float], Any]:
    """Constants of multiplications: start and share of the peak that a few rows tell, else medians; and ln of errors."""
    from scipy.optimize import least_squares

    known = {name: _seconds(value) if isinstance(value, str) else value
             for name, value in median.items() if name != "source"}  # fmt: skip

    def residuals(logarithms: Any) -> Any:
        return log_ratio(sample, {**known, **dict(zip(_TOLD, np.exp(logarithms), strict=True))})

    found = least_squares(residuals, np.log([known[name] for name in _TOLD]))
    return {**known, **dict(zip(_TOLD, map(float, np.exp(found.x)), strict=True))}, found.fun


def gemm_of_squares(path: Path, gpu: rl.Gpu, median: dict[str, Any]) -> dict[str, Any]:
    """The set of multiplications that square ones of one device tell."""
    (group,) = kernel_groups([str(path)])
    constants, off = told_by_squares(kernel_sample(group, one_device(gpu)), median)
    errors = np.abs(off)
    return {
        **median,
        **parameter_texts({name: constants[name] for name in _TOLD}),
        "residual": float(f"{np.median(errors):.2g}"),
        "sigma": float(f"{np.quantile(errors, 0.8) / 1.2816:.2g}"),
        "measurements": len(errors),
        "source": "kernels-xla",
    }


def _seconds(text: str) -> float:
    return from_text(text, "s")


def served_document(name: str, folder: Path, servers: list[dict[str, str]], medians: dict[str, Any]) -> dict[str, Any]:
    """The calibration of a generation whose servers were measured: medians, and factors on both kinds of passes."""
    gpu = rl.load_gpu(SERVED[name])
    reason = {"source": "assumed-medians"}
    kernels = {
        kind: {dtype: {**entry, **reason} for dtype, entry in of_kind.items() if _multiplies(gpu, kind, dtype)}
        for kind, of_kind in medians["kernels"].items()
    }
    title, date, key, engine = SERVERS[name]
    sources = {"servers": {"title": title, "url": SOURCES[key], "date": date, "gpus": [gpu.name]}}
    squares = folder / gpu.name / "xla.csv"
    if squares.is_file():
        kernels["gemm"]["bf16"] = gemm_of_squares(squares, gpu, medians["kernels"]["gemm"]["bf16"])
        sources["kernels-xla"] = {"title": _GEMM_TITLE, "url": _GEMM_URL, "date": CHECKOUT_DATE, "gpus": [gpu.name]}
    sources["assumed-medians"] = {"title": REASONS["plain-medians"], "date": TODAY}
    document = {
        "name": name,
        "measured_on": [gpu.name],
        "engines": [engine],
        "date": date,
        "served": {},
        "kernels": kernels,
        "collectives": {kind: {**entry, **reason} for kind, entry in medians["collectives"].items()},
        "sources": sources,
    }
    neutral = {each: {"factor": 1.0, "sigma": 1.0, "runs": 1, "models": 1} for each in ("prefill", "decode")}
    assumed = replace(gpu, calibration=calibration_record({**document, "served": neutral}))
    return {**document, "served": factors(servers, assumed, "servers")}


def _multiplies(gpu: rl.Gpu, kind: str, dtype: str) -> bool:
    """Whether a GPU has the units that kernels of a dtype need."""
    try:
        compute_dtype(gpu, KINDS[kind], dtype)
    except rl.RooflineError:
        return False
    return True


def _start_later(entry: dict[str, Any], time: float) -> None:
    if time:
        for start in {"t0", "t0_ep"} & set(entry):
            entry[start] = f"{float(entry[start].split()[0]) + time:.3g} us"


def _unfitted(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in ("residual", "sigma", "measurements", "source")}


def main() -> None:
    """Rewrite the calibrations whose timed kernels are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what amd_kernel_rows.py, kernel_rows.py, tpu_kernel_rows.py wrote")
    parser.add_argument("servers", type=Path, nargs="?", help="what other_server_rows.py wrote")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    medians = yaml.safe_load((OUT / "generic.yaml").read_text())
    for name, timed in GENERATIONS.items():
        if not (options.folder / timed.gpu / timed.file).is_file():
            continue
        title = f"Kernel-time and collective constants of the {name} generation, fitted on one GPU ({timed.gpu})."
        each = document(name, options.folder, medians)
        (options.out / f"{name}.yaml").write_text(calibration_text(each, title))
        print(f"{name}: {sum(len(sets) for sets in each['kernels'].values())} sets", file=sys.stderr)
        for version in timed.apart:
            each = version_document(name, options.folder, version)
            title = f"What {each['engines'][0]} runs differently on the {name} generation ({timed.gpu})."
            (options.out / f"{each['name']}.yaml").write_text(calibration_text(each, title))
    servers = [] if options.servers is None else read(options.servers)
    for name, gpu in SERVED.items() if servers else ():
        title = (
            f"Constants for {gpu}, whose servers were measured: medians of other generations, and factors on passes."
        )
        each = served_document(name, options.folder, servers, medians)
        (options.out / f"{name}.yaml").write_text(calibration_text(each, title))


if __name__ == "__main__":
    main()
