"""Fits the calibrations of AMD's generations from timed kernels of AITER.

    python accuracy/amd_kernel_rows.py aiter kernels/
    python accuracy/build_amd_calibration.py kernels/        rewrites hardware_specs/calibration/cdna*.yaml

One GPU a generation is fitted: MI300X (CDNA3) and MI355X (CDNA4); MI308X and MI325X judge. GEMMs and experts are timed;
of attention, one prompt kernel and latent decoding; of collectives and element-wise passes nothing, so that their sets
are the medians of other vendors' generations and stay marked. Needs the extra `calibrate`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from build_calibration import OUT, TODAY

import roofline as rl
from roofline.measurements.tables import kernel_groups
from roofline.questions.calibrate import calibrated_sets, calibration_text
from roofline.specs.gpu import CALIBRATED, COLLECTIVES, UNTIMED

Sets = dict[str, dict[str, dict[str, Any]]]

GENERATIONS = {"cdna3": "mi300x", "cdna4": "mi355x"}
TITLE = "ROCm/aiter (MIT), tables of tuned shapes aiter/configs/**/*.csv, a sample"
URL = "https://github.com/ROCm/aiter/tree/e4048607a535ace3a2b51ded31b1c8c2d45c0879/aiter/configs"

#: Time between the end of a kernel and the start of the next in a HIP graph, which the tables leave out [us].
GAP = 1.5
#: What the choice of tokens by an indexer takes beyond its multiplication, as servers of DeepSeek-V3.2 show [us].
INDEXER_START = 53.0
LEAST_ROWS = 10  # of a set
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
    "medians": "assumption: medians of the generations of other vendors, as nothing of this kind was timed; with the gap "
    "between kernels of this generation",
    "indexer": "assumption: as a linear layer, and 53 us for keys, ranks and choice of tokens, set on TPOT of 66 servers of "
    "DeepSeek-V3.2 and V4-Pro on MI355X (ROCm/ATOM, nightly dashboard, 2026-03 to 2026-08)",
    "alike": "assumption: runs like the nearest format of its kind that was timed on this generation",
}


def fitted_sets(folder: Path, gpu: rl.Gpu) -> tuple[Sets, dict[str, Any]]:
    """Sets of what was timed on a GPU, with the gap between kernels, and their sources."""
    groups = []
    for group in kernel_groups([str(folder / gpu.name / "aiter.csv")]):
        known = QUANTISED_BEFORE.get(group.dtype) if group.kind == "gemm" else None
        groups.append((group.dtype, group if known is None else replace(group, dtype=known)))
    sets: Sets = {}
    sources: dict[str, Any] = {}
    for dtype, group in groups:
        if len(group.engines) < LEAST_ROWS:
            continue
        of_kind, cited = calibrated_sets([group], gpu, None, TITLE, URL)
        sets.setdefault(group.kind, {})[dtype] = of_kind[group.kind][group.dtype]
        sources |= cited
    return sets, sources


def document(name: str, folder: Path, medians: dict[str, Any]) -> dict[str, Any]:
    """The calibration of a generation."""
    gpu = rl.load_gpu(GENERATIONS[name])
    sets, sources = fitted_sets(folder, gpu)
    timed = {kind: list(of_kind) for kind, of_kind in sets.items()}
    for kind in (kind.name for kind in CALIBRATED):
        known = medians["kernels"].get(kind, {})
        for dtype in dict.fromkeys((*known, *(of for each, of in ALIKE if each == kind))):
            if dtype in timed.get(kind, ()) or dtype == "nvfp4":
                continue
            like = next((each for each in ALIKE.get((kind, dtype), ()) if each in timed.get(kind, ())), None)
            if like is None:
                sets.setdefault(kind, {})[dtype] = {**known[dtype], "source": "assumed-medians"}
            else:
                sets[kind][dtype] = {**_unfitted(sets[kind][like]), "source": "assumed-alike"}
        for dtype, entry in sets[kind].items():
            if kind == "gemm" and "eta_s" in known.get(dtype, {}):  # its quantisation is a pass of its own
                entry["eta_s"] = known[dtype]["eta_s"]
            for start in ("t0", "t0_ep"):
                if start in entry:
                    entry[start] = f"{float(entry[start].split()[0]) + GAP:.3g} us"
    sets["indexer"] = {}
    for dtype, like in (("bf16", "bf16"), ("fp8", "fp8_static")):
        entry = _unfitted(sets["gemm"][like])
        entry["t0"] = f"{float(entry['t0'].split()[0]) + INDEXER_START:.3g} us"
        sets["indexer"][dtype] = {**entry, "source": "assumed-indexer"}
    links = {kind: {**entry, "source": "assumed-medians"} for kind, entry in medians["collectives"].items()}
    used = {entry["source"] for of_kind in (*sets.values(), links) for entry in of_kind.values()}
    sources |= {f"assumed-{reason}": {"title": title, "date": TODAY} for reason, title in REASONS.items()}
    return {
        "name": name,
        "measured_on": [gpu.name],
        "engines": ["aiter"],
        "date": "2026-08",
        "kernels": {kind.name: sets[kind.name] for kind in (*CALIBRATED, *UNTIMED) if kind.name in sets},
        "collectives": {kind.name: links[kind.name] for kind in COLLECTIVES if kind.name in links},
        "sources": {key: source for key, source in sources.items() if key in used},
    }


def _unfitted(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in ("residual", "sigma", "measurements", "source")}


def main() -> None:
    """Rewrite the calibrations of AMD."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what amd_kernel_rows.py wrote")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    medians = yaml.safe_load((OUT / "generic.yaml").read_text())
    for name, gpu in GENERATIONS.items():
        title = f"Kernel-time and collective constants of the {name} generation, fitted on one GPU ({gpu})."
        each = document(name, options.folder, medians)
        (options.out / f"{name}.yaml").write_text(calibration_text(each, title))
        print(f"{name}: {sum(len(sets) for sets in each['kernels'].values())} sets", file=sys.stderr)


if __name__ == "__main__":
    main()
