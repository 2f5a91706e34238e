"""Asks other calculators for the serving rows that this project is judged by, so that all can be compared.

    pip install aiconfigurator==0.12.0 && python accuracy/peer_rows.py aiconfigurator
    pip install aisimulate==0.13.0.dev202610270000000085 aiconfigurator-core==0.12.0 && python accuracy/peer_rows.py aisimulate

writes accuracy/aiconfigurator.csv (some two minutes) or accuracy/aisimulate.csv (a quarter of an hour), without the network,
and prints how far the tool is off. Both are NVIDIA's, and AISimulate is the successor. Each pins what it depends on:
give it an environment of its own (this file needs no roofline; aiconfigurator-core holds the rows).

How each usable row is asked:

* aiconfigurator: one call of `cli_estimate`, the function behind `aiconfigurator cli estimate`, mode agg, the prompt
  tokens of one step left at its default (one prompt). An estimate of the steady state: it is not told how requests
  arrive.
* AISimulate: one call of `run_prediction`, the function behind `aisimulate predict`, mode aggregated. It replays the
  scheduler step by step over all requests of the run, those in flight beginning together. It gets the length of the
  run, the share of memory of a launch script that is known, as our predictions do, and room for every request in
  flight. The tokens of a step are left at its default of 8,192: on the `fit` rows whose launch script sets a budget,
  its TTFT is farther off with that (TensorRT-LLM 37 % in the median where it is 27 % with the default; the same for
  the other engines).

Plan, formats and mean lengths are the row's, tables those measured (SILICON, the default of both). What to know when
their figures stand beside others:

* Both answer for their newest complete tables only; the rows were measured with older engines.
* aiconfigurator's corrections for a loaded vLLM server (queue of prompts, 0.8 ms of host time per layer) were fitted by
  NVIDIA on a "silicon corpus" that the wheel's silicon_sample.csv, our source, appears to be a part of: what we hold
  out it may know. AISimulate ships the same file, and its replay is compiled: what was tuned on it cannot be read off.
* They take one length for all requests.
* Formats are those of the nearest checkpoint whose configuration the wheel ships.
* A row that a tool refuses is not counted against it.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.metadata
import json
import logging
import math
import os
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from serving_rows import ServingRow, serving_rows

FOLDER = Path(__file__).parent
COLUMNS = ("name", "ttft_ms", "tpot_ms", "error")

SYSTEMS = {"h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200": "b200_sxm", "b300": "b300_sxm",
           "gb200-nvl72": "gb200", "gb300-nvl72": "gb300"}  # fmt: skip
BLACKWELL = ("b200", "b300", "gb200-nvl72", "gb300-nvl72")
#: What AISimulate admits by default [requests]; engines admit more.
SEQUENCES = 256
KV_CACHE = {"fp8": "fp8", "bf16": "bfloat16"}

#: Model and preset -> a checkpoint whose configuration both tools ship, and formats that differ from the checkpoint's.
CHECKPOINTS: dict[tuple[str, str | None], tuple[str, dict[str, str]]] = {
    ("llama-3.1-8b", None): ("meta-llama/Meta-Llama-3.1-8B", {}),
    ("llama-3.1-8b", "fp8_block"): ("meta-llama/Meta-Llama-3.1-8B", {"gemm_quant_mode": "fp8_block"}),
    ("llama-3.1-8b", "fp8_static"): ("meta-llama/Meta-Llama-3.1-8B", {"gemm_quant_mode": "fp8_static"}),
    ("llama-3.1-70b", "fp8_static"): ("nvidia/Llama-3.1-70B-Instruct-FP8", {}),
    # No NVFP4 configuration ships; of the FP8 one it keeps FP8 attention and the 16-bit head.
    ("llama-3.1-70b", "nvfp4"): ("nvidia/Llama-3.1-70B-Instruct-FP8", {"gemm_quant_mode": "nvfp4"}),
    ("qwen3-32b", None): ("Qwen/Qwen3-32B", {}),
    ("qwen3-32b", "fp8_static"): ("Qwen/Qwen3-32B-FP8-Static-PerTensor", {}),
    ("qwen3-32b", "nvfp4"): ("Qwen/Qwen3-32B-FP8-Static-PerTensor", {"gemm_quant_mode": "nvfp4"}),
    ("qwen3-235b-a22b-fp8", None): ("Qwen/Qwen3-235B-A22B-FP8", {}),
    ("gpt-oss-120b", None): ("openai/gpt-oss-120b", {}),
    ("deepseek-r1", None): ("deepseek-ai/DeepSeek-R1", {}),
    # Runs were made with DeepSeek-R1-0528-FP4-V2: the same shapes, and the same projections left in 16 bits.
    ("deepseek-r1", "nvfp4"): ("nvidia/DeepSeek-V3.1-NVFP4", {}),
    ("deepseek-v3.1-nvfp4", None): ("nvidia/DeepSeek-V3.1-NVFP4", {}),
    ("minimax-m2.5", None): ("MiniMaxAI/MiniMax-M2.5", {}),
    ("minimax-m2.5", "nvfp4"): ("nvidia/MiniMax-M2.5-NVFP4", {}),
    ("kimi-k2.5", None): ("moonshotai/Kimi-K2.5", {}),
    ("kimi-k2.5", "nvfp4"): ("nvidia/Kimi-K2.5-NVFP4", {}),
    ("glm-5-fp8", None): ("zai-org/GLM-5-FP8", {}),
    ("glm-5", "nvfp4"): ("nvidia/GLM-5-NVFP4", {}),
    ("qwen3.5-397b-a17b", None): ("Qwen/Qwen3.5-397B-A17B", {}),
    ("qwen3.5-397b-a17b", "fp8_block"): (
        "Qwen/Qwen3.5-397B-A17B", {"gemm_quant_mode": "fp8_block", "moe_quant_mode": "fp8_block"},
    ),
    ("qwen3.5-397b-a17b-nvfp4", None): ("nvidia/Qwen3.5-397B-A17B-NVFP4", {}),
}  # fmt: skip

#: What a tool raises where it has no answer; anything else is a slip of this file.
REFUSALS = (RuntimeError, ValueError, AssertionError, LookupError)


@dataclass(frozen=True, slots=True)
class Peer:
    """A calculator, as it was asked."""

    name: str  # of the distribution, and of the table
    version: str
    date: str  # of the figures in the table
    how: str  # which function, in which mode
    core: str  # package that holds tables and configurations
    ask: Callable[[ServingRow, str], dict[str, float]]  # ttft and tpot [s] by tables of a version, or one of REFUSALS

    @property
    def path(self) -> Path:
        """The table of its answers."""
        return FOLDER / f"{self.name}.csv"


def answers(peer: Peer, rows: Iterable[ServingRow]) -> list[dict[str, Any]]:
    """What a tool answers: name, and ttft and tpot [s] or an error.

    Args:
        peer: the tool, installed in the version that it is asked in.
        rows: rows to ask for.

    Returns:
        One record per row, in order.

    Raises:
        SystemExit: the tool is not installed in that version.
    """
    _check_version(peer)
    return [{"name": row.name, **_answer(peer, row)} for row in rows]


def aiconfigurator_question(row: ServingRow) -> dict[str, Any]:
    """Arguments of `cli_estimate` for one row, the version of the tables left out.

    Args:
        row: a run.

    Returns:
        Keywords and values.
    """
    path, formats = checkpoint(row)
    return {
        "model_path": path, "system_name": SYSTEMS[row.gpu], "mode": "agg", "database_mode": "SILICON",
        "backend_name": row.engine, "isl": round(row.mean_isl), "osl": round(row.mean_osl),
        "batch_size": math.ceil(row.concurrency / row.dp),  # per rank of data-parallel attention
        "tp_size": row.tp, "pp_size": row.pp, "attention_dp_size": row.dp,
        "moe_tp_size": row.tp * row.dp // row.ep, "moe_ep_size": row.ep,
        "kvcache_quant_mode": KV_CACHE[row.kv_cache_dtype], **formats,
    }  # fmt: skip


def aisimulate_question(row: ServingRow) -> dict[str, Any]:
    """Configuration of `aisimulate predict` for one row, the version of the tables left at its default.

    Args:
        row: a run.

    Returns:
        What its YAML file would hold.
    """
    path, formats = checkpoint(row)
    memory = row.settings.get("gpu_memory_utilization")
    worker = {
        "parallelism": {
            "tensor": row.tp, "pipeline": row.pp, "attention_data": row.dp,
            "moe_tensor": row.tp * row.dp // row.ep, "moe_expert": row.ep,
        },
        "scheduler": {"max_sequences": max(SEQUENCES, math.ceil(row.concurrency / row.dp))},
        "kv_cache": {"capacity": {"memory_fraction": memory}} if memory else {},
    }  # fmt: skip
    return {
        "traffic": {
            "source": {
                "type": "synthetic",
                "input_tokens": round(row.mean_isl),
                "output_tokens": round(row.mean_osl),
            },
            "load": {"type": "concurrency", "concurrency": row.concurrency},
            "stop": {"requests": round(row.concurrency * row.prompts_per_user)},
        },
        "engine": {
            "mode": "aggregated", "model": path, "hardware": SYSTEMS[row.gpu], "backend": row.engine,
            "kvcache_quant_mode": KV_CACHE[row.kv_cache_dtype], **formats, "workers": {"aggregated": worker},
        },
    }  # fmt: skip


def checkpoint(row: ServingRow) -> tuple[str, dict[str, str]]:
    """The checkpoint that a tool is asked for, and formats that differ from the checkpoint's.

    Args:
        row: a run.

    Returns:
        Name on Hugging Face; formats by the names that both tools have for them.
    """
    path, formats = CHECKPOINTS[row.model, row.quantization]
    if row.model == "gpt-oss-120b" and row.engine == "trtllm" and row.gpu in BLACKWELL:
        # TensorRT-LLM feeds MXFP4 experts with MXFP8 there; the tools take 16-bit activations unless told.
        formats = {"moe_quant_mode": "w4a8_mxfp4_mxfp8"}
    return path, formats


def read_answers(path: str | Path) -> dict[str, dict[str, Any]]:
    """Answers of a file that `main` wrote, by the name of the row.

    Args:
        path: the CSV.

    Returns:
        ttft and tpot [s], or error where the tool refused.
    """
    with Path(path).open(newline="", encoding="utf-8") as file:
        return {
            line["name"]: {"error": line["error"]}
            if line["error"]
            else {"ttft": float(line["ttft_ms"]) * 1e-3, "tpot": float(line["tpot_ms"]) * 1e-3}
            for line in csv.DictReader(text for text in file if not text.startswith("#"))
        }


def write_answers(path: str | Path, found: Iterable[dict[str, Any]], comment: str) -> None:
    """Write answers as CSV, times in milliseconds.

    Args:
        path: the file.
        found: records of `answers`.
        comment: first line, without the mark.
    """
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {comment}\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for record in found:
            times = {f"{name}_ms": f"{record[name] * 1e3:.3f}" for name in ("ttft", "tpot") if name in record}
            writer.writerow({"name": record["name"], **times, "error": record.get("error", "")})


def main() -> None:
    """Ask a tool for every usable row, write its table, print the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--out", type=Path, help="default: the table of the tool in this folder")
    options = parser.parse_args()
    peer = PEERS[options.peer]
    out = options.out or peer.path
    logging.disable(logging.CRITICAL)  # the tools warn of every table that they borrow
    rows = [row for row in serving_rows() if row.excluded is None]
    found = answers(peer, rows)
    tables = sorted({f"{row.engine} {_tables(peer, row)}" for row in rows})
    write_answers(
        out,
        found,
        f"{peer.name} {peer.version} ({peer.how}, SILICON tables of {', '.join(tables)}), asked {peer.date} for the "
        "usable rows of accuracy/serving_rows.py; times as the tool gives them, an error where it refuses",
    )
    print_errors(rows, read_answers(out))


def print_errors(rows: list[ServingRow], found: dict[str, dict[str, Any]]) -> None:
    """Print coverage, median and mean absolute error and bias [%], and the reasons of refusal.

    Args:
        rows: what was asked.
        found: answers by name.
    """
    slices = {"all": rows} | {
        f"{field} {value}": [row for row in rows if getattr(row, field) == value]
        for field in ("split", "engine", "gpu", "model")
        for value in sorted({getattr(row, field) for row in rows})
    }
    print(
        f"{'slice':32} {'asked':>6} {'answered':>8}" + "".join(f" | {m}: median  mean   bias" for m in ("ttft", "tpot"))
    )
    for name, members in slices.items():
        answered = [row for row in members if "error" not in found[row.name]]
        line = f"{name:32} {len(members):6} {len(answered):8}"
        for metric in ("ttft", "tpot") if answered else ():
            ratios = [found[row.name][metric] / getattr(row, metric) for row in answered]
            errors = [100.0 * abs(ratio - 1.0) for ratio in ratios]
            bias = 100.0 * statistics.median(math.log(ratio) for ratio in ratios)
            line += f" |       {statistics.median(errors):6.1f} {statistics.fmean(errors):6.1f} {bias:+6.1f}"
        print(line)
    refused = Counter(
        (found[row.name]["error"], row.model, row.engine, row.gpu) for row in rows if "error" in found[row.name]
    )
    for (reason, *where), count in sorted(refused.items()):
        print(f"{count:5} {' '.join(where)}: {reason}")


def _answer(peer: Peer, row: ServingRow) -> dict[str, Any]:
    # A configuration that does not ship would be fetched from Hugging Face.
    if checkpoint(row)[0] not in importlib.import_module(f"{peer.core}.sdk.common").DefaultHFModels:
        return {"error": "no configuration"}
    try:
        return peer.ask(row, _tables(peer, row))
    except REFUSALS as error:
        return {"error": _reason(error)}


def _ask_aiconfigurator(row: ServingRow, tables: str) -> dict[str, float]:
    ask = importlib.import_module("aiconfigurator.cli.api").cli_estimate
    estimate = ask(backend_version=tables, **aiconfigurator_question(row))
    return {"ttft": float(estimate.ttft) * 1e-3, "tpot": float(estimate.tpot) * 1e-3}


def _ask_aisimulate(row: ServingRow, tables: str) -> dict[str, float]:
    _keep_models_open()
    predict = importlib.import_module("aisimulate.predict").run_prediction
    runner = importlib.import_module("aisimulate.runner").EngineReplayRunnerFactory()
    asked = aisimulate_question(row)
    asked["engine"]["backend_version"] = tables
    config = importlib.import_module("aisimulate.config.cli").CorePredictionConfig.model_validate(asked)
    summary = predict(config, stack="engine", runner_factory=runner).summary
    if summary["completed_requests"] < asked["traffic"]["stop"]["requests"]:
        raise RuntimeError("requests are not completed")
    return {"ttft": summary["mean_ttft_ms"] * 1e-3, "tpot": summary["mean_tpot_ms"] * 1e-3}


@lru_cache
def _keep_models_open() -> None:
    """Keep AISimulate's models of a step: it would read the tables anew for each row, which takes ten times as long."""
    model = importlib.import_module("aisimulate_core.sdk").RustForwardPassPerfModel
    read = model.best_available
    kept = lru_cache(maxsize=32)(lambda request: read(json.loads(request)))
    model.best_available = staticmethod(lambda request: kept(json.dumps(request, sort_keys=True)))
    model.close = lambda _: None


def _tables(peer: Peer, row: ServingRow) -> str:
    """Version of the tables: the row's where the tool has it, else the one that it takes by itself."""
    known, own = _versions(peer.core, SYSTEMS[row.gpu], row.engine)
    return row.engine_version if row.engine_version in known else own


@lru_cache
def _versions(core: str, system: str, engine: str) -> tuple[tuple[str, ...], str]:
    """Versions that a tool answers for, and the one that it takes by itself; each look-up takes it a second."""
    database = importlib.import_module(f"{core}.sdk.perf_database")
    known = database.get_supported_databases()[system][engine]
    return tuple(known), str(database.get_latest_database_version(system, engine))


def _reason(error: Exception) -> str:
    """Class of a refusal, and what was missing."""
    text = " ".join(str(error).split())
    if missing := re.search(r".*error: (.+?) data missing for \w+ \{(.*?)\}", text):
        formats = re.findall(r'\w*quant: "(\w+)"', missing[2])
        return f"no data: {missing[1]} {' '.join(dict.fromkeys(formats))}".strip()
    if text.startswith("OOM"):
        return "out of memory"
    if "Invalid quantized MoE configuration" in text:
        return "ValueError: Invalid quantized MoE configuration"
    return f"{type(error).__name__}: {text.split(': ')[0][:100]}"


def _check_version(peer: Peer) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        found = importlib.metadata.version(peer.name)
    except importlib.metadata.PackageNotFoundError:
        found = "not installed"
    if found != peer.version:
        sys.exit(f"{peer.name} is {found}, {peer.version} is asked for: pip install {peer.name}=={peer.version}")


PEERS = {
    peer.name: peer
    for peer in (
        Peer("aiconfigurator", "0.12.0", "2026-11-21", "cli_estimate, mode agg", "aiconfigurator", _ask_aiconfigurator),
        Peer(
            "aisimulate",
            "0.13.0.dev202610270000000085",
            "2026-11-27",
            "run_prediction, mode aggregated",
            "aisimulate_core",
            _ask_aisimulate,
        ),
    )
}

if __name__ == "__main__":
    main()
