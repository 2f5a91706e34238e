"""Fits every shipped calibration anew from the kernel tables of the public wheel `aisimulate`.

    python accuracy/kernel_rows.py kernels/
    python accuracy/build_calibration.py kernels/            rewrites hardware_specs/calibration/*.yaml

One GPU a generation is fitted; its siblings (H200, GB200, B300) are left to judge how well a generation
shares its constants. A generation's file pools the engines; what one of them runs differently is in a file
of its own, one for each of its versions that differs from the newer ones. Needs the extras `accuracy` and
`calibrate`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from kernel_rows import DATE, POOLED, WHEEL, is_pooled

import roofline as rl
from roofline.measurements.tables import kernel_groups
from roofline.numbers.quantity import from_text
from roofline.questions.calibrate import calibrated_sets, calibration_text, kernel_sample, log_ratio
from roofline.serving.verdict import HALF_WIDTH
from roofline.specs.gpu import CALIBRATED, COLLECTIVES, ELEMENTWISE, KINDS, MOE, KernelGroup, of_gpu
from roofline.specs.versions import place_of

OUT = Path(__file__).parent.parent / "hardware_specs" / "calibration"
WHEEL_URL = "https://pypi.org/project/aisimulate/0.13.0.dev202610270000000085/"
TITLE = f"NVIDIA {WHEEL} (Apache-2.0), kernel tables systems/data/<gpu>/<op>/<backend>/<version>, thinned"
TODAY = "2026-11-27"
ENGINES = ("trtllm", "vllm", "sglang")

GENERATIONS = {
    "ampere": "a100-sxm-80gb",
    "ada": "l40s",
    "hopper": "h100-sxm",
    "blackwell": "b200",
    "blackwell-ultra": "gb300-nvl72",
    "blackwell-rtx": "rtx-pro-6000-server",
}

#: What is no set of an engine's own: engine, version, generation, kind, dtype ("*": all) -> why.
NOT_OWN = {
    (
        "sglang",
        "*",
        "*",
        "elementwise",
        "*",
    ): "its tables hold zeros where the pass is fused, and a slower pass elsewhere",
    ("trtllm", "*", "blackwell", "moe", "mxfp4"): "runs MXFP4 with 8-bit activations there, not this kernel",
    ("trtllm", "*", "blackwell-ultra", "moe", "mxfp4"): "likewise",
    ("trtllm", "*", "*", "gemm", "nvfp4"): "a floor of 22 us that servers do not have: as vLLM's instead",
    ("trtllm", "*", "ampere", "attention_decode", "*"): "2 GB of cache read at 1.65 times the memory bandwidth",
    ("vllm", "0.19.0", "blackwell", "moe", "mxfp4"): "three times slower than servers of that version",
    ("vllm", "0.19.0", "blackwell", "moe", "int4"): "weights at 9 % of the bandwidth: not the kernel of servers",
}
#: A set of its own: where the other set's median error is larger than that of the own fit by a tenth and this much, or
#: its sigma is so many times larger or smaller.
DIFFERS, DIFFERS_SIGMA = 0.01, 1.35
LEAST_ROWS = 60
MOST_RESIDUAL = 0.3  # of a set of its own: rows that fit no better are of several kernels
UNFITTED = ("residual", "sigma", "measurements", "source")

#: Engines left out of the fit of all engines together: generation ("*": all), kind, dtype ("*": all) -> engine, and why.
LEFT_OUT = {
    ("*", "gemm", "*"): ("sglang", "its per-tensor rows are timed without the amax pass: kept to judge"),
    ("*", "attention_prefill", "*"): ("sglang", "kept to judge"),
    ("*", "attention_decode", "*"): ("sglang", "kept to judge"),
    ("*", "moe", "*"): ("sglang", "kept to judge"),
    ("*", "elementwise", "*"): ("sglang", "its tables hold zeros where the pass is fused"),
    ("*", "all_reduce", "*"): ("nccl sglang", "engines use their own kernels for small messages"),
    ("hopper", "moe", "fp8"): ("sglang vllm", "vLLM's per-tensor FP8 experts take four times TensorRT-LLM's time"),
    ("hopper", "mla_prefill", "*"): ("sglang", "twice TensorRT-LLM's time"),
    ("hopper", "mla_decode", "fp8"): ("sglang", "a third of TensorRT-LLM's time: another kernel"),
    ("blackwell-rtx", "mla_prefill", "*"): ("sglang", "a quarter of TensorRT-LLM's rate"),
    ("blackwell-rtx", "mla_decode", "bf16"): ("sglang", "runs beyond the memory bandwidth at small batches"),
    ("ampere", "attention_decode", "*"): ("trtllm sglang", "2 GB of cache read at 1.65 times the memory bandwidth"),
    ("blackwell", "moe", "mxfp4"): ("sglang trtllm", "runs MXFP4 with 8-bit activations there, not this kernel"),
    ("blackwell-ultra", "moe", "mxfp4"): ("sglang trtllm", "likewise"),
    ("blackwell-ultra", "moe", "nvfp4"): ("sglang trtllm", "lacks the low-latency kernels that it has on B200"),
}

#: What was never timed: kind, dtype -> the set that it copies, changes, and why.
ASSUMED: dict[tuple[str, str], tuple[tuple[tuple[str, str], ...], str]] = {
    ("gemm", "fp8_static"): ((("gemm", "fp8"),), "static"),
    ("gemm", "int8"): ((("gemm", "fp8"),), "int8"),
    ("gemm", "int4"): ((("gemm", "bf16"),), "int4"),
    ("gemm", "mxfp4"): ((("gemm", "int4"),), "mxfp4"),
    ("gemm", "mxfp4_fp8"): ((("gemm", "nvfp4"),), "mxfp4-fp8"),
    ("gemm", "weight_only_8bit"): ((("gemm", "bf16"),), "weight-only-8bit"),
    ("gemm", "weight_only_4bit"): ((("gemm", "int4"),), "weight-only-4bit"),
    ("attention_prefill", "fp8"): ((("attention_prefill", "bf16"),), "fp8-attention"),
    ("attention_decode", "fp8"): ((("attention_decode", "bf16"),), "fp8-attention"),
    ("mla_prefill", "fp8"): ((("mla_prefill", "bf16"),), "fp8-attention"),
    ("mla_decode", "fp8"): ((("mla_decode", "bf16"),), "fp8-attention"),
    ("moe", "fp8_static"): ((("moe", "fp8"),), "moe-static"),
    ("moe", "int8"): ((("moe", "fp8"), ("moe", "bf16")), "moe-int8"),
    ("moe", "int4"): ((("moe", "mxfp4"), ("moe", "bf16")), "moe-4bit"),
    ("moe", "mxfp4"): ((("moe", "int4"), ("moe", "bf16")), "moe-4bit"),
    ("moe", "weight_only_8bit"): ((("moe", "bf16"),), "weight-only-8bit"),
    ("moe", "weight_only_4bit"): ((("moe", "int4"),), "weight-only-4bit"),
    ("elementwise", "bf16"): ((), "elementwise"),
}
REASONS = {
    "static": "assumption: FP8 with scales known beforehand quantises inside the previous kernel: the dynamic FP8 set "
    "without its quantisation pass, start-up 1 us above bf16, weights streamed as fast as in bf16",
    "nvfp4-of-vllm": "assumption: NVFP4 multiplications under TensorRT-LLM run as under vLLM; its own tables time a linear "
    "layer at 22 us on B200 from 1 to 256 tokens whatever its size, which its servers do not have",
    "int8": "assumption: INT8 runs like dynamic FP8 on the same generation",
    "int4": "assumption: bf16 set with eta_c and eta_m scaled by the ratio of INT4 weight-only to bf16 measured on Ampere",
    "mxfp4": "assumption: weight-only MXFP4 runs like weight-only INT4",
    "mxfp4-fp8": "assumption: MXFP4 weights with MXFP8 activations run like NVFP4, but at the FP8 peak with the eta_c of "
    "block-scaled FP8",
    "weight-only-8bit": "assumption: 8-bit weights computed at the 16-bit rate run like bf16",
    "weight-only-4bit": "assumption: 4-bit weights computed at the 16-bit rate run like the INT4 set",
    "fp8-attention": "assumption: no measurement of an FP8 KV cache for this kernel on this generation; bf16 set, its "
    "eta_c restated against the FP8 peak where the GPU has one",
    "moe-static": "assumption: MoE with static FP8 scales runs like MoE with dynamic ones",
    "moe-int8": "assumption: INT8 MoE runs like FP8 MoE, or like bf16 where there is none",
    "moe-4bit": "assumption: 4-bit weight-only MoE runs like the other 4-bit format, or like bf16 where neither was timed",
    "elementwise": "assumption: norms and activations, 2 us and 0.75 of the bandwidth, as quantisation passes take on "
    "Blackwell (1.4-2.6 us and 0.63-0.87)",
    "p2p": "assumption: point-to-point transfer, 10 us and 0.8 of the link rate",
    "pcie": "assumption: PCIe collectives, 22 us per doubling of the group and 0.525 of the link rate, which whole L40S "
    "forward passes suggest; the kernel tables do not follow any such form (rate falls from 0.6 on 2 GPUs to 0.05 on 8)",
    "dispatch": "assumption: no MoE dispatch rows on this generation; the all-to-all constants",
}
PCIE_ONLY = ("ada", "blackwell-rtx")
Sets = dict[str, dict[str, dict[str, Any]]]


def chosen(groups: list[KernelGroup], generation: str) -> list[KernelGroup]:
    """Groups without the rows of engines that are left out, where others remain."""
    found = []
    for group in groups:
        engines = {
            engine
            for (where, kind, dtype), (names, _) in LEFT_OUT.items()
            if where in ("*", generation) and kind == group.kind and dtype in ("*", group.dtype)
            for engine in names.split()
        }
        keep = [engine not in engines for engine in group.engines]
        if (group.kind == "gemm" and group.dtype in ("int4", "weight_only_8bit")) or not any(keep):
            keep = [True] * len(keep)
        found.append(kept(group, keep))
    return found


def kept(group: KernelGroup, keep: list[bool]) -> KernelGroup:
    """Some rows of a group."""

    def only(values: Any) -> Any:
        return type(values)(value for value, wanted in zip(values, keep, strict=True) if wanted)

    engines = only(group.engines)
    return replace(
        group,
        columns={name: only(values) for name, values in group.columns.items()},
        routing=only(group.routing) if group.routing else (),
        engines=engines,
        versions=tuple(version for version in group.versions if version.split()[0] in engines),
    )


def assume(sets: Sets, gpu: rl.Gpu, int4: Mapping[str, float]) -> set[str]:
    """Fill in what was not timed, and say from what.

    Returns:
        Keys of `REASONS` that were used.
    """
    used: set[str] = set()
    for (kind, dtype), (bases, reason) in ASSUMED.items():
        of_kind = sets.setdefault(kind, {})
        if dtype in of_kind or (dtype.startswith("fp8") and kind in ("gemm", "moe") and "fp8" not in gpu.peaks):
            continue
        base = next((sets[k][d] for k, d in bases if d in sets.get(k, {})), None)
        if base is None and kind != "elementwise":
            continue
        entry = {} if base is None else {k: v for k, v in base.items() if k not in ("residual", "measurements")}
        if reason == "elementwise":
            entry = {"t0": "2 us", "eta_m": 0.75}
        elif reason == "static":
            wide = sets["gemm"]["bf16"]
            entry.pop("eta_s", None)
            entry["t0"] = f"{float(wide['t0'].split()[0]) + 1.0:.3g} us"
            entry["eta_m"] = max(entry["eta_m"], wide["eta_m"])
        elif reason == "int4":
            entry.update({name: min(1.0, float(f"{entry[name] * int4[name]:.3g}")) for name in ("eta_c", "eta_m")})
        elif reason == "mxfp4-fp8":
            entry["eta_c"] = sets["gemm"]["fp8_block"]["eta_c"]
        elif reason == "fp8-attention" and "fp8" in gpu.peaks:
            wide = gpu.peaks["bf16"]
            entry["eta_c"] = float(f"{entry['eta_c'] * wide / gpu.peaks['fp8']:.3g}")
        of_kind[dtype] = {**entry, "source": f"assumed-{reason}"}
        used.add(reason)
    return used


def collectives(sets: Sets, generation: str) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Sets of the collectives, assumed ones where none were timed or where no form fits."""
    used: set[str] = set()
    found: dict[str, dict[str, Any]] = {}
    for name in (kind.name for kind in COLLECTIVES):
        if generation == "ada" and name != "p2p":
            found[name] = {"a2": "22 us", "eta": 0.525, "source": "assumed-pcie"}
            used.add("pcie")
        elif name in sets:
            found[name] = sets[name]["bf16"]
        elif name == "p2p":
            found[name] = {"a0": "10 us", "eta": 0.8, "source": "assumed-p2p"}
            used.add("p2p")
        else:
            base = {k: v for k, v in found["all_to_all"].items() if k not in ("residual", "sigma", "measurements")}
            found[name] = {**base, "source": "assumed-dispatch"}
            used.add("dispatch")
    if generation not in PCIE_ONLY:  # for the cards of the generation that have no NVLink
        found["pcie"] = {"a2": "22 us", "eta": 0.525, "source": "assumed-pcie"}
        used.add("pcie")
    return found, used


def timed(generation: str, folder: Path) -> list[KernelGroup]:
    """Timed kernels of a generation's GPU, a group for each kind, dtype and version of an engine."""
    gpu = rl.load_gpu(GENERATIONS[generation])
    groups = [group for path in sorted((folder / gpu.name).glob("*.csv")) for group in kernel_groups([str(path)])]
    groups = [group for group in groups if group.dtype != "fp8" or "fp8" in gpu.peaks or "attention" in group.kind]
    if generation == "ada":
        groups = [group for group in groups if not KINDS[group.kind].is_collective]
    return groups


def version_of(group: KernelGroup) -> tuple[str, str]:
    """Engine and version of a group of one."""
    engine, version = group.versions[0].split()
    return engine, version


def pooled(groups: list[KernelGroup], gpu: str) -> list[KernelGroup]:
    """Groups of all engines together, in the versions that are pooled."""
    versions: dict[str, list[tuple[str, str]]] = {}
    for group in groups:
        versions.setdefault(group.kind, []).append(version_of(group))
    chosen_ = [group for group in groups if is_pooled(group.kind, *version_of(group), versions[group.kind], gpu)]
    return of_gpu(chosen_, {gpu}, gpu)


def document(generation: str, groups: list[KernelGroup], int4: Mapping[str, float]) -> dict[str, Any]:
    """Calibration of one generation."""
    gpu = rl.load_gpu(GENERATIONS[generation])
    every = pooled(groups, gpu.name)
    sets, sources = calibrated_sets(chosen(every, generation), gpu, None, TITLE, WHEEL_URL)
    for whole in every:  # the interval of all engines together is that of all engines, fitted or not
        group = kept(whole, [(engine, whole.kind) != ("sglang", ELEMENTWISE.name) for engine in whole.engines])
        off = log_ratio(kernel_sample(group, gpu), parameters(sets[group.kind][group.dtype]))
        sets[group.kind][group.dtype]["sigma"] = float(f"{spread_of(off, group.engines):.2g}")
    used = assume(sets, gpu, int4)
    links, used_links = collectives(sets, generation)
    return written(generation, sets, links, sources, used | used_links, gpu)


def spread_of(off: Any, engines: Sequence[str]) -> float:
    """Sigma of a log-normal whose 80 % interval holds 80 % of the rows, if each engine has the same weight."""
    weight = np.asarray([1.0 / engines.count(engine) for engine in engines])
    order = np.argsort(np.abs(off))
    place = np.searchsorted(np.cumsum(weight[order]), 0.8 * weight.sum())
    return float(np.abs(off)[order][min(place, len(order) - 1)]) / HALF_WIDTH


def parameters(entry: Mapping[str, Any]) -> dict[str, float]:
    """Constants of a set in SI units."""
    stated = {name: value for name, value in entry.items() if name not in UNFITTED}
    return {name: from_text(value, "s") if isinstance(value, str) else float(value) for name, value in stated.items()}


def engine_documents(generation: str, groups: list[KernelGroup], base: dict[str, Any]) -> list[dict[str, Any]]:
    """Calibrations of what engines run differently, one for each version that differs from the newer ones."""
    gpu = rl.load_gpu(GENERATIONS[generation])
    found = []
    for engine in ENGINES:
        mine = [group for group in groups if version_of(group)[0] == engine and len(group.engines) >= LEAST_ROWS]
        mine = [group for group in mine if not is_left_out(engine, generation, group)]
        kinds: dict[tuple[str, str], list[KernelGroup]] = {}
        for group in sorted(mine, key=lambda group: place_of(version_of(group)[1]), reverse=True):
            kinds.setdefault((group.kind, group.dtype), []).append(group)
        kept: dict[str, list[KernelGroup]] = {}
        for (kind, dtype), versions in kinds.items():
            entry = base["collectives"].get(kind) or base["kernels"].get(kind, {}).get(dtype)
            if entry is None:
                continue
            newer, chosen_ = entry, []
            for group in versions:
                own = own_set(group, gpu)
                if own["residual"] <= MOST_RESIDUAL and differs(group, gpu, newer, own):
                    chosen_.append(group)
                    newer = own
            if chosen_ and chosen_[0] is not versions[0]:  # the newest is as all engines, an older one is not
                chosen_.insert(0, versions[0])
            for group in chosen_:
                kept.setdefault(version_of(group)[1], []).append(group)
        for version, chosen_ in kept.items():
            sets, sources = calibrated_sets(chosen_, gpu, None, TITLE, WHEEL_URL)
            links = {kind: sets.pop(kind)["bf16"] for kind in [kind for kind in sets if KINDS[kind].is_collective]}
            used = assume_own(sets, base["kernels"], gpu)
            if engine == "trtllm" and version == POOLED["trtllm"] and "nvfp4" in base["kernels"]["gemm"]:
                sets["gemm"] = {**sets.get("gemm", {}), "nvfp4": nvfp4_of_vllm(groups, gpu)}
                used.add("nvfp4-of-vllm")
            found.append(written(f"{generation}-{engine}-{version}", sets, links, sources, used, gpu))
    return found


def is_left_out(engine: str, generation: str, group: KernelGroup) -> bool:
    """Whether a group is no set of an engine's own."""
    here = engine, version_of(group)[1], generation, group.kind, group.dtype
    return any(all(part in ("*", own) for part, own in zip(known, here, strict=True)) for known in NOT_OWN)


def own_set(group: KernelGroup, gpu: rl.Gpu) -> dict[str, Any]:
    """A fit to one group, as a file states it."""
    sets, _ = calibrated_sets([group], gpu, None, TITLE, WHEEL_URL)
    return sets[group.kind][group.dtype]


def differs(group: KernelGroup, gpu: rl.Gpu, other: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether another set is off the rows of a group by more than their own fit is."""
    sample = kernel_sample(group, gpu)
    far, near = (np.abs(log_ratio(sample, parameters(each))) for each in (other, own))
    slices = [np.ones(len(far), dtype=bool)]
    if group.kind == MOE.name:
        spread = np.asarray(sample.spread)
        slices = [rows for rows in (spread, ~spread) if rows.sum() >= LEAST_ROWS // 2]
    if any(np.median(far[rows]) > 1.1 * np.median(near[rows]) + DIFFERS for rows in slices):
        return True
    ratio = other.get("sigma", own["sigma"]) / own["sigma"]
    return not 1.0 / DIFFERS_SIGMA < ratio < DIFFERS_SIGMA


def assume_own(sets: Sets, base: Sets, gpu: rl.Gpu) -> set[str]:
    """Fill in what an engine was not timed with, from its own sets where all engines together were not timed either."""
    merged = {
        kind: {dtype: entry for dtype, entry in entries.items() if "residual" in entry}
        for kind, entries in base.items()
    }
    for kind, entries in sets.items():
        merged.setdefault(kind, {}).update(entries)
    timed_ = {(kind, dtype) for kind, entries in merged.items() for dtype in entries}
    own = {(kind, dtype) for kind, entries in sets.items() for dtype in entries}
    assume(merged, gpu, {"eta_c": 1.0, "eta_m": 1.0} if "int4" not in base.get("gemm", {}) else ratio_of(base["gemm"]))
    used = set()
    for (kind, dtype), (bases, reason) in ASSUMED.items():
        if (kind, dtype) in timed_ or dtype not in merged.get(kind, {}):
            continue
        if next((key for key in bases if key[1] in merged.get(key[0], {})), None) in own:
            sets.setdefault(kind, {})[dtype] = merged[kind][dtype]
            own.add((kind, dtype))
            used.add(reason)
    return used


def nvfp4_of_vllm(groups: list[KernelGroup], gpu: rl.Gpu) -> dict[str, Any]:
    """NVFP4 multiplications in vLLM's newest timings, as another engine's."""
    timings = [group for group in groups if (group.kind, group.dtype) == ("gemm", "nvfp4")]
    timings = [group for group in timings if version_of(group)[0] == "vllm"]
    newest = own_set(max(timings, key=lambda group: place_of(version_of(group)[1])), gpu)
    entry = {name: value for name, value in newest.items() if name not in ("residual", "measurements")}
    return {**entry, "source": "assumed-nvfp4-of-vllm"}


def ratio_of(gemms: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Efficiencies of INT4 weight-only over those of bf16."""
    return {name: gemms["int4"][name] / gemms["bf16"][name] for name in ("eta_c", "eta_m")}


def written(
    name: str, sets: Sets, links: dict[str, dict[str, Any]], sources: dict[str, Any], used: set[str], gpu: rl.Gpu
) -> dict[str, Any]:
    """The document of sets, with the sources that they cite."""
    sources = dict(sources)
    named = {entry["source"] for kinds in sets.values() for entry in kinds.values()}
    named |= {entry["source"] for entry in links.values()}
    engines = sorted({engine for key in named & set(sources) for engine in sources[key]["engines"]})
    for reason in sorted(used):
        sources[f"assumed-{reason}"] = {"title": REASONS[reason], "date": TODAY}
    return {
        "name": name,
        "measured_on": [gpu.name],
        "engines": engines,
        **({"link": "pcie"} if gpu.link.kind == "pcie" else {}),
        "date": DATE,
        "kernels": {kind.name: sets[kind.name] for kind in CALIBRATED if kind.name in sets},
        "collectives": links,
        "sources": {key: source for key, source in sources.items() if key in named},
    }


def generic(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the generations, for GPUs of which nothing was timed."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for kind in (kind.name for kind in CALIBRATED):
        dtypes = dict.fromkeys(dtype for each in documents for dtype in each["kernels"].get(kind, {}))
        for dtype in dtypes:
            entries = [each["kernels"][kind][dtype] for each in documents if dtype in each["kernels"].get(kind, {})]
            found.setdefault(kind, {})[dtype] = {**median(entries), "source": "medians"}
    links = {
        name: {
            **median([each["collectives"][name] for each in documents if each["name"] != "ada"]),
            "source": "medians",
        }
        for name in (kind.name for kind in COLLECTIVES)
    }
    links["pcie"] = {**documents[0]["collectives"]["pcie"], "source": "medians"}
    names = ", ".join(each["name"] for each in documents)
    title = (
        f"medians of the sets of {names}: no GPU of this generation was timed; the figures are a guess with a wide band"
    )
    return {
        "name": "generic",
        "measured_on": [],
        "kernels": found,
        "collectives": links,
        "sources": {"medians": {"title": title, "date": TODAY}},
    }


def median(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Median of every parameter, over the sets that have it."""
    names = dict.fromkeys(name for entry in entries for name in entry if name[0] in "aekpqt" or name == "eps")
    found: dict[str, Any] = {}
    for name in names:
        values = [entry[name] for entry in entries if name in entry]
        texts = [str(value).split() for value in values]
        middle = float(f"{float(np.median([float(text[0]) for text in texts])):.3g}")
        found[name] = f"{middle:.12g} {texts[0][1]}" if len(texts[0]) > 1 else middle
    found.pop("eta_switch", None)
    return found


def main() -> None:
    """Rewrite the shipped calibrations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what kernel_rows.py wrote")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    documents: list[dict[str, Any]] = []
    ratio: dict[str, float] = {"eta_c": 1.0, "eta_m": 1.0}
    for generation, name in GENERATIONS.items():
        groups = timed(generation, options.folder)
        each = document(generation, groups, ratio)
        if generation == "ampere":
            ratio = ratio_of(each["kernels"]["gemm"])
        documents.append(each)
        for path in options.out.glob(f"{generation}-*.yaml"):
            if path.stem.removeprefix(f"{generation}-").split("-")[0] in ENGINES:
                path.unlink()
        for own in engine_documents(generation, groups, each):
            engine, version = own["name"].removeprefix(f"{generation}-").split("-")
            title = f"What {engine} {version} runs differently from all engines together on the {generation} generation ({name})."
            (options.out / f"{own['name']}.yaml").write_text(calibration_text(own, title))
        title = f"Kernel-time and collective constants of the {generation} generation, fitted on one GPU ({name})."
        (options.out / f"{generation}.yaml").write_text(calibration_text(each, title))
        print(f"{generation}: {sum(len(sets) for sets in each['kernels'].values())} sets", file=sys.stderr)
    title = "Constants for accelerators of which no kernel was timed: medians of the measured generations."
    (options.out / "generic.yaml").write_text(calibration_text(generic(documents), title))


if __name__ == "__main__":
    main()
