"""Serving measurements of the public wheel `aiconfigurator-core`, read in the terms of this project.

    python accuracy/serving_rows.py            counts per GPU, engine, split and reason of exclusion; writes nothing

The wheel (Apache-2.0) holds `systems/silicon_sample.csv`: 5,221 end-to-end runs on H100, H200, B200, B300,
GB200 and GB300 with TensorRT-LLM, SGLang and vLLM. Most are runs of InferenceX, printed by up to four exports
with different labels; the rest are sweeps of NVIDIA ("gap analysis"). What a label means was settled by joining
the exports on their times and by the public recipes of InferenceX (github.com/SemiAnalysisAI/InferenceX, its
master configurations and launch scripts as of the day of each run).
"""

from __future__ import annotations

import csv
import importlib.util
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

Raw = Mapping[str, str]

GPUS = {
    "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "b200_sxm": "b200", "b300_sxm": "b300",
    "gb200": "gb200-nvl72", "gb300": "gb300-nvl72",
}  # fmt: skip
HOPPER = ("h100-sxm", "h200-sxm")

#: Model and precision as printed -> model of the catalog and preset; None: the formats of the checkpoint.
MODELS: dict[tuple[str, str], tuple[str, str | None]] = {
    ("deepseek-ai/DeepSeek-R1", "fp8"): ("deepseek-r1", None),
    ("deepseek-ai/DeepSeek-R1", "fp4"): ("deepseek-r1", "nvfp4"),
    # One export prints DeepSeek-V3 for runs that the others, and the recipes, call R1.
    ("deepseek-ai/DeepSeek-V3", "fp8"): ("deepseek-r1", None),
    ("deepseek-ai/DeepSeek-V3", "fp4"): ("deepseek-r1", "nvfp4"),
    ("nvidia/DeepSeek-R1-NVFP4", "fp4"): ("deepseek-r1", "nvfp4"),
    ("nvidia/DeepSeek-V3.1-NVFP4", "fp4"): ("deepseek-v3.1-nvfp4", None),
    ("openai/gpt-oss-120b", "fp4"): ("gpt-oss-120b", None),
    ("openai/gpt-oss-120b", "fp8"): ("gpt-oss-120b", None),
    ("meta-llama/Llama-3.1-70B", "fp8"): ("llama-3.1-70b", "fp8_static"),
    ("meta-llama/Llama-3.1-70B", "fp4"): ("llama-3.1-70b", "nvfp4"),
    ("meta-llama/Llama-3.1-8B-Instruct", ""): ("llama-3.1-8b", None),
    ("meta-llama/Llama-3.1-8B-Instruct", "fp8"): ("llama-3.1-8b", "fp8_block"),
    ("nvidia/Llama-3.1-8B-Instruct-FP8", "fp8"): ("llama-3.1-8b", "fp8_static"),
    ("Qwen/Qwen3-32B", ""): ("qwen3-32b", None),
    ("Qwen/Qwen3-32B", "fp8"): ("qwen3-32b", "fp8_static"),
    ("Qwen/Qwen3-32B", "fp4"): ("qwen3-32b", "nvfp4"),
    ("nvidia/Qwen3-32B-NVFP4", "fp4"): ("qwen3-32b", "nvfp4"),
    ("Qwen/Qwen3-235B-A22B-FP8", "fp8"): ("qwen3-235b-a22b-fp8", None),
    ("Qwen/Qwen3.5-397B-A17B", "bf16"): ("qwen3.5-397b-a17b", None),
    ("Qwen/Qwen3.5-397B-A17B", "fp8"): ("qwen3.5-397b-a17b", "fp8_block"),
    ("Qwen/Qwen3.5-397B-A17B", "fp4"): ("qwen3.5-397b-a17b-nvfp4", None),
    ("MiniMaxAI/MiniMax-M2.5", "fp8"): ("minimax-m2.5", None),
    ("MiniMaxAI/MiniMax-M2.5", "fp4"): ("minimax-m2.5", "nvfp4"),
    ("moonshotai/Kimi-K2.5", "int4"): ("kimi-k2.5", None),
    ("moonshotai/Kimi-K2.5", "fp4"): ("kimi-k2.5", "nvfp4"),
    ("zhipuai/GLM-5", "fp8"): ("glm-5-fp8", None),
    ("zhipuai/GLM-5", "fp4"): ("glm-5", "nvfp4"),
}

#: Never fitted, so that accuracy can be told: GPUs, and models by the beginning of their name.
HELD_OUT_GPUS = ("h200-sxm", "b300", "gb300-nvl72")
HELD_OUT_MODELS = ("kimi-k2.5", "glm-5", "qwen3.5-397b", "minimax-m2.5")

#: Why a row is not to be used; the first that applies.
EXCLUSIONS = (
    "duplicate",  # the same run in another export, or printed twice
    "disaggregated",  # prefill and decode on GPUs of their own
    "unclear deployment",  # replicas and requests in flight are not stated
    "speculative",
    "speculation unknown",
    "overloaded",  # more requests than engines admit
    "impossible",  # as judged by the caller
)
OVERLOAD = 512  # requests

#: Exports of InferenceX, the one with the most trustworthy labels first.
EXPORTS = ("2026-03-25.csv", "db-dump/2026-04-27", "2026-04-06.csv", "qwen3.5-397b-gap-analysis.csv",
           "kimi-k2.5-gap-analysis.csv")  # fmt: skip
#: It holds no speculative run: of all pairs of configurations with and without MTP, only those without are in it.
PLAIN_EXPORT = "db-dump/2026-04-27"

MEAN_LENGTH = 0.9  # InferenceX draws lengths from [0.8, 1] of the nominal (--random-range-ratio 0.8)
#: Requests of a run for each in flight; those in flight begin together. InferenceX sends ten, and so a run is read that
#: states no number. NVIDIA's sweep of SGLang alone does not bear that out (`fit` rows: TTFT off by 14 % with one
#: request a user, 66 % with ten); it is read as one.
PROMPTS_PER_USER, PROMPTS_PER_USER_OF_SGLANG_SWEEPS = 10.0, 1.0

#: First run of a single-node configuration with multi-token prediction (MTP).
FIRST_MTP = "2026-01-14"
#: Models that MTP was run for; gpt-oss, Llama, Qwen3, Kimi-K2.5 and MiniMax-M2.5 were run plain only.
MTP_MODELS = ("deepseek", "glm-5", "qwen3.5")
#: Engine, model, tag of the image -> speculative or not. Same image, other model: plain.
TAGS = {
    ("trtllm", "deepseek-r1", "1.2.0rc6.post2"): "no",
    ("trtllm", "deepseek-r1", "1.2.0rc6.post3"): "yes",  # used by the configurations "-trt-mtp" alone
    ("sglang", "qwen3.5-397b-a17b", "v0.5.9-cu130"): "yes",  # the plain ones name "-amd64"
    ("sglang", "qwen3.5-397b-a17b", "v0.5.9-cu130-amd64"): "no",
    ("sglang", "qwen3.5-397b-a17b", "v0.5.9-cu129-amd64"): "no",  # MTP on H200 came with 2026-04-06
}
#: First MTP configuration of what TAGS does not name: engine, model -> day.
FIRST_MTP_OF = {
    ("sglang", "glm-5"): "2026-04-18",
    ("sglang", "glm-5-fp8"): "2026-04-18",
    ("sglang", "qwen3.5-397b-a17b"): "2026-04-06",
}

#: Before this day results did not record ep and attention data parallelism: the launch scripts chose both.
EP_RECORDED = "2025-11-03"
#: Engine, model, preset, GPU, tp -> per (isl, osl): concurrency above which ep = tp, and above which attention
#: is data-parallel. None: any tp, any shape, never.
SHORT, LONG_ANSWER, LONG_PROMPT = (1024, 1024), (1024, 8192), (8192, 1024)
CHOSEN_BY_SCRIPT: dict[tuple[str, str, str | None, str, int | None], dict[tuple[int, int], tuple[int, int | None]]] = {
    ("trtllm", "deepseek-r1", "nvfp4", "b200", 4): {SHORT: (32, 255), LONG_ANSWER: (32, 255), LONG_PROMPT: (32, 32)},
    ("trtllm", "deepseek-r1", "nvfp4", "b200", 8): {SHORT: (8, 255), LONG_ANSWER: (16, 255), LONG_PROMPT: (32, 32)},
    ("trtllm", "deepseek-r1", None, "b200", None): {SHORT: (0, 32), LONG_ANSWER: (0, 64), LONG_PROMPT: (0, 64)},
    ("trtllm", "deepseek-r1", None, "h200-sxm", None): {SHORT: (0, 64), LONG_ANSWER: (0, 64), LONG_PROMPT: (0, 32)},
    ("trtllm", "gpt-oss-120b", None, "h200-sxm", None): dict.fromkeys((SHORT, LONG_ANSWER, LONG_PROMPT), (0, None)),
    ("sglang", "deepseek-r1", "nvfp4", "b200", None): dict.fromkeys((SHORT, LONG_ANSWER, LONG_PROMPT), (0, None)),
}
#: From this day on, TensorRT-LLM's scripts for DeepSeek-R1 set at least 8,192 tokens a step.
TRTLLM_TAKES_MORE = "2026-01-21"
#: Configurations of vLLM whose label hides that attention is data-parallel: two share it, the later one is.
DATA_PARALLEL_CONFIGS = ("707", "727")


#: What runs without a version used, from a day on.
VERSIONS_USED = (
    ("vllm", "2025-10-02", "0.11.0"),
    ("sglang", "2025-10-06", "0.5.3"),
    ("sglang", "2025-11-06", "0.5.5"),
    ("trtllm", "2025-10-01", "1.1.0rc2"),
)


@dataclass(frozen=True, slots=True)
class ServingRow:
    """One run of one deployment under a closed loop of requests."""

    name: str  # as in the wheel
    source: str  # inferencex, gap (sweeps of NVIDIA), other (NVIDIA, deployed by Dynamo)
    export: str  # file that the row came from
    measured: str | None  # day
    gpu: str
    model: str
    quantization: str | None  # preset; None: the formats of the checkpoint
    precision_stated: bool  # else 16-bit, which the times agree with
    kv_cache_dtype: str
    kv_cache_known: bool  # from the recipe; else assumed
    engine: str  # trtllm, sglang, vllm
    engine_version: str | None
    tp: int  # of the decode replica where disaggregated
    pp: int
    ep: int
    dp: int
    label: str  # how tp, ep and dp were read: printed; product (of factors); recipe (the launch script)
    isl: int  # [tokens] nominal
    osl: int  # [tokens] nominal
    mean_isl: float  # [tokens]
    mean_osl: float  # [tokens]
    concurrency: int  # [requests] in flight on one replica
    prompts_per_user: float  # requests of the run for each in flight
    states_prompts: bool  # else as PROMPTS_PER_USER says
    ttft: float  # [s]
    tpot: float  # [s]
    disaggregated: bool
    speculative: str  # no, yes, unknown
    excluded: str | None  # one of EXCLUSIONS
    split: str  # fit, held out

    @property
    def profile(self) -> str:
        """Engine with its version: that of the row, or the one that the configurations of InferenceX named that day."""
        from roofline.catalog.find import profile_of  # the tools that are asked these rows need no roofline

        version = self.engine_version
        if version is None and self.measured is not None:
            used = [each for engine, first, each in VERSIONS_USED if engine == self.engine and first <= self.measured]
            version = used[-1] if used else None
        return profile_of(self.engine, version)

    @property
    def num_gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.dp

    @property
    def settings(self) -> dict[str, float]:
        """What the launch script of a run of InferenceX set; empty for the defaults of the engine."""
        if self.source != "inferencex":
            return {}
        tokens: float | None = None
        settings: dict[str, float] = {}
        if self.engine == "vllm":
            if self.model in ("gpt-oss-120b", "llama-3.1-70b"):
                tokens = 8192
            elif self.model == "minimax-m2.5" and (self.measured or "") >= "2026-04-03":
                tokens = 2 * self.isl
        elif self.engine == "sglang":
            if self.model == "deepseek-r1":
                small = self.quantization is None and self.tp == 4 and self.gpu not in HOPPER
                tokens = 8192 if small else 16_384 if self.quantization == "nvfp4" else 32_768
                if small:  # weights take nearly all of the memory
                    settings["gpu_memory_utilization"] = 0.95
            elif self.model.startswith("qwen3.5"):
                tokens = 32_768 if self.quantization is None and "nvfp4" not in self.model else 16_384
            elif self.model.startswith("glm-5") and self.gpu not in HOPPER:
                tokens = 32_768
        elif self.model == "deepseek-r1":
            tokens = math.ceil((self.concurrency + self.isl + 64) / 64) * 64
            tokens = max(tokens, 8192) if (self.measured or "") >= TRTLLM_TAKES_MORE else tokens
            settings["gpu_memory_utilization"] = 0.95
        elif self.model == "gpt-oss-120b":
            tokens = 20_000
        elif self.model == "llama-3.1-70b":
            tokens = 16_384
        return settings if tokens is None else {"max_num_batched_tokens": tokens, **settings}


def serving_rows(
    path: str | Path | None = None, impossible: Callable[[ServingRow], bool] | None = None
) -> list[ServingRow]:
    """All rows of the wheel, each with the reason why it is not to be used, if any.

    Args:
        path: the CSV; None: that of the installed wheel [path].
        impossible: whether a row contradicts physics, asked of rows that nothing else excludes;
            None: no row does [function].

    Returns:
        Rows in the order of the file.

    Raises:
        SystemExit: the wheel is not installed.
    """
    with Path(path or wheel_csv()).open(newline="", encoding="utf-8") as file:
        return read_rows(file, impossible)


def read_rows(lines: Iterable[str], impossible: Callable[[ServingRow], bool] | None = None) -> list[ServingRow]:
    """Rows of the text of a CSV in the wheel's columns.

    Args:
        lines: lines of the CSV, the header first [text].
        impossible: as in `serving_rows` [function].

    Returns:
        Rows in the order of the text.

    Raises:
        ValueError: a model or precision that `MODELS` lacks.
    """
    raws = list(csv.DictReader(lines))
    rows = [_read(raw) for raw in raws]
    runs: dict[tuple[object, ...], list[int]] = {}
    for index, (raw, row) in enumerate(zip(raws, rows, strict=True)):
        runs.setdefault(_run(raw, row), []).append(index)
    found: list[ServingRow] = list(rows)
    for indices in runs.values():
        plain = any(rows[index].export == PLAIN_EXPORT for index in indices)
        kept = min(indices, key=lambda index: (_trust(rows[index].export), index))
        for index in indices:
            row = replace(rows[index], speculative=_speculative(rows[kept], _tag(raws[kept]), plain=plain))
            reason = "duplicate" if index != kept else _reason(row)
            if reason is None and impossible is not None and impossible(row):
                reason = "impossible"
            found[index] = replace(row, excluded=reason)
    return found


def main() -> None:
    """Print how many rows there are per GPU, engine, split and reason of exclusion."""
    rows = serving_rows()
    counts = Counter((row.gpu, row.engine, row.split, row.excluded or "usable") for row in rows)
    print(f"{'GPU':12} {'engine':7} {'split':9} {'verdict':20} {'rows':>5}")
    for key, count in sorted(counts.items()):
        print(f"{key[0]:12} {key[1]:7} {key[2]:9} {key[3]:20} {count:5}")
    for split in ("fit", "held out"):
        usable = [row for row in rows if row.split == split and row.excluded is None]
        sources = Counter(row.source for row in usable)
        print(f"{split}: {len(usable)} usable rows, {', '.join(f'{n} {name}' for name, n in sorted(sources.items()))}")
    print(f"{len(rows)} rows in all")


def wheel_csv() -> Path:
    found = importlib.util.find_spec("aiconfigurator_core")
    if found is None or found.origin is None:
        sys.exit(
            "the serving measurements are in a wheel that is not installed: pip install aiconfigurator-core==0.12.0"
        )
    return Path(found.origin).parent / "systems" / "silicon_sample.csv"


def _read(raw: Raw) -> ServingRow:
    """What one line says, duplicates and speculation left open."""
    note = raw["silicon_data_source"]
    export = note.removeprefix("source_file=").split(";")[0]
    source = "inferencex" if export in EXPORTS else "other" if "dynamo_version=" in note else "gap"
    gpu, engine, isl, osl = GPUS[raw["system"]], raw["backend"], int(raw["isl"]), int(raw["osl"])
    if (raw["model_path"], raw["precision"]) not in MODELS:
        raise ValueError(f"{raw['id']}: {raw['model_path']} at precision {raw['precision']!r} is not in MODELS: add it")
    model, quantization = MODELS[raw["model_path"], raw["precision"]]
    stated = noted(note, r"silicon_concurrency=(\d+)") or raw["batch_size"] or raw["decode_batch_size"]
    scale = MEAN_LENGTH if source == "inferencex" else 1.0
    held_out = gpu in HELD_OUT_GPUS or model.startswith(HELD_OUT_MODELS)
    row = ServingRow(
        name=raw["id"], source=source, export=export, measured=noted(note, r"measured=(\d{4}-\d\d-\d\d)"),
        gpu=gpu, model=model, quantization=quantization, precision_stated=bool(raw["precision"]),
        kv_cache_dtype="bf16", kv_cache_known=False, engine=engine, engine_version=raw["backend_version"] or None,
        tp=1, pp=int(raw["pp_size"] or raw["decode_pp_size"]), ep=1, dp=1, label="printed",
        isl=isl, osl=osl, mean_isl=isl * scale, mean_osl=osl * scale, concurrency=int(stated or 0),
        prompts_per_user=PROMPTS_PER_USER_OF_SGLANG_SWEEPS if (source, engine) == ("gap", "sglang") else PROMPTS_PER_USER,
        states_prompts=source == "inferencex",
        ttft=float(raw["silicon_ttft_ms"]) * 1e-3, tpot=float(raw["silicon_tpot_ms"]) * 1e-3,
        # Runs of InferenceX on GB200 are all multi-node; labelled aggregated, tp counts the GPUs of both parts.
        disaggregated=raw["mode"] == "disagg" or (source == "inferencex" and gpu.startswith("gb")),
        speculative="unknown", excluded=None, split="held out" if held_out else "fit",
    )  # fmt: skip
    tp, ep, dp, label = _plan(raw, row)
    kv_cache_dtype, known = _kv_cache(row, raw["precision"])
    return replace(row, tp=tp, ep=ep, dp=dp, label=label, kv_cache_dtype=kv_cache_dtype, kv_cache_known=known)


def _plan(raw: Raw, row: ServingRow) -> tuple[int, int, int, str]:
    """Degrees tp, ep, dp, and how they were read."""
    part = "decode_" if raw["mode"] == "disagg" else ""
    tp, dp, moe_tp, moe_ep = (
        int(raw[part + name] or 0) or 1 for name in ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    )
    if row.source != "inferencex":  # experts are spread over tp x dp ranks, where dp is blank, too
        return tp, moe_ep, dp if raw[part + "attention_dp_size"] else max(1, moe_tp * moe_ep // tp), "printed"
    ep, label = moe_ep, "printed"
    if row.engine == "vllm" and tp == dp > 1 and moe_ep == tp * dp:
        tp, dp = (1, dp) if noted(raw["silicon_data_source"], r"config_id=(\d+)") in DATA_PARALLEL_CONFIGS else (tp, 1)
        ep, label = tp * dp, "product"
    elif moe_tp > 1 and moe_ep > 1 and tp * dp == moe_tp * moe_ep:
        # tp 8 with ep 8 is printed as 64 ranks; the configured tp went to moe_tp. InferenceX knows ep = 1 or tp only.
        tp, dp = (moe_tp, 1) if dp == 1 else (1, moe_tp)
        label = "product"
    scripts = CHOSEN_BY_SCRIPT.get((row.engine, row.model, row.quantization, row.gpu, tp)) or CHOSEN_BY_SCRIPT.get(
        (row.engine, row.model, row.quantization, row.gpu, None)
    )
    if scripts and row.measured and row.measured < EP_RECORDED:
        sharded, data_parallel = scripts[row.isl, row.osl]
        ep, label = tp if row.concurrency > sharded else 1, "recipe"
        if data_parallel is not None and row.concurrency > data_parallel:
            tp, dp = 1, tp
    elif row.engine == "vllm" and row.model == "kimi-k2.5" and not part and ep > 1:
        ep, label = 1, "recipe"  # the script never enabled expert parallelism, whatever the configuration said
    elif row.model == "minimax-m2.5" and row.gpu == "b200" and row.engine_version == "0.17.0":
        ep, label = tp, "recipe"  # this script always enabled it
    return tp, ep, dp, label


def _kv_cache(row: ServingRow, precision: str) -> tuple[str, bool]:
    """Format of the KV cache, and whether the recipe says so."""
    hopper = row.gpu in HOPPER
    if row.source != "inferencex":
        fp8 = precision == "fp4" or (precision == "fp8" and row.engine == "trtllm")
        return ("fp8" if fp8 and row.model != "gpt-oss-120b" else "bf16"), False
    if precision == "bf16":
        return "bf16", True
    if row.engine == "trtllm":
        return ("bf16" if row.model == "gpt-oss-120b" and hopper else "fp8"), True
    if row.engine == "sglang":
        return ("bf16" if hopper and not row.model.startswith("qwen3.5") else "fp8"), True
    if row.model == "kimi-k2.5":  # left to vLLM, which follows the checkpoint
        return ("fp8" if precision == "fp4" else "bf16"), precision != "fp4"
    plain = {"gpt-oss-120b": (None,), "minimax-m2.5": ("0.17.0",)}.get(row.model, ())
    return ("bf16" if row.model != "llama-3.1-70b" and (hopper or row.engine_version in plain) else "fp8"), True


def _speculative(row: ServingRow, tag: str | None, *, plain: bool) -> str:
    """Whether drafts were verified; no line says so."""
    if plain or not row.model.startswith(MTP_MODELS):
        return "no"
    if row.source == "other" or row.disaggregated or row.measured is None:
        return "unknown"
    if row.measured < FIRST_MTP:
        return "no"
    if (row.engine, row.model, tag) in TAGS:
        return TAGS[row.engine, row.model, tag or ""]
    if row.model == "deepseek-r1" and row.engine == "trtllm":
        # Version 1.1.0rc2.post2: the MTP configurations were added and run on 2026-01-14 (times halve); of two
        # runs on 2026-01-28 the one with data-parallel attention has a concurrency of MTP configurations only.
        return {"2026-01-14": "yes", "2026-01-28": "yes" if row.dp > 1 else "no"}.get(row.measured, "unknown")
    if row.model == "deepseek-r1" and row.engine == "sglang":
        # MTP was run for fp8 on Blackwell at tp 8 alone; there the plain export holds all plain runs of 0.5.9.
        if row.quantization == "nvfp4" or row.gpu in HOPPER or row.tp != 8 or row.engine_version == "0.5.6":
            return "no"
        return "yes" if row.engine_version == "0.5.9" else "unknown"
    return "no" if row.measured < FIRST_MTP_OF.get((row.engine, row.model), FIRST_MTP) else "unknown"


def _reason(row: ServingRow) -> str | None:
    reasons = {
        "disaggregated": row.disaggregated,
        "unclear deployment": row.source == "other" or not row.concurrency,
        "speculative": row.speculative == "yes",
        "speculation unknown": row.speculative == "unknown",
        "overloaded": row.concurrency >= OVERLOAD,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _run(raw: Raw, row: ServingRow) -> tuple[object, ...]:
    """What identifies a run: its times, to the 0.01 ms that the coarsest export prints."""
    times = tuple(round(float(raw[name]), 2) for name in ("silicon_ttft_ms", "silicon_tpot_ms"))
    return row.gpu, row.engine, raw["mode"], row.isl, row.osl, row.concurrency, times


def _trust(export: str) -> int:
    return EXPORTS.index(export) if export in EXPORTS else 0


def _tag(raw: Raw) -> str | None:
    """Tag of the container image."""
    return noted(raw["silicon_data_source"], r"(?:image=|; )[\w./#-]+:([\w.-]+)(?:;|$)")


def noted(note: str, pattern: str) -> str | None:
    match = re.search(pattern, note)
    return match[1] if match else None


if __name__ == "__main__":
    main()
