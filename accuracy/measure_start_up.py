"""Starts vLLM once for each case on the GPU at hand, and keeps what it says of its memory.

python accuracy/measure_start_up.py CONFIGS OUT.jsonl    (needs vLLM; weights are dummies, so that only a config.json is)

CONFIGS is a JSON list of cases: a name, the folder of a config.json as model, and arguments of `vllm.LLM`. Each case
runs in a process of its own. tests/measured/start_up.csv has the rows of an H200 of 2026-11-27: vLLM 0.26.0, torch
2.11.0+cu130, driver 580.159.04, SM clock 1980 MHz, extensions for sm_90 alone, no DeepGEMM.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

_LIMIT = 240.0  # [s] of one start
_LINES = {
    "weights_gib": r"Model loading took ([\d.]+) GiB",
    "kv_cache_gib": r"Available KV cache memory: (-?[\d.]+) GiB",
    "kv_tokens": r"GPU KV cache size: ([\d,]+) tokens",
    "max_concurrency": r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x",
    "activations_gib": r"torch peak memory increase: ([\d.]+)GiB",
    "non_torch_gib": r"non-torch forward increase memory: ([\d.]+)GiB",
    "graphs_gib": r"Graph capturing finished in \d+ secs, took (-?[\d.]+) GiB",
}


def start(case: dict) -> None:
    """Start one case in this process."""
    from vllm import LLM

    arguments = {"load_format": "dummy", "skip_tokenizer_init": True, "disable_log_stats": True, **case["arguments"]}
    LLM(model=case["model"], **arguments)


def measure(case: dict) -> dict:
    """What one start says, in a process of its own."""
    command = [sys.executable, __file__, "--start", json.dumps(case)]
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    begun = time.monotonic()
    run = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, env=environment, check=False)
    text = run.stdout + run.stderr
    row: dict = {"name": case["name"], "starts": run.returncode == 0, "seconds": round(time.monotonic() - begun, 1)}
    for key, pattern in _LINES.items():
        found = re.search(pattern, text)
        row[key] = None if found is None else float(found[1].replace(",", ""))
    if run.returncode:
        errors = [line for line in text.splitlines() if "Error" in line]
        row["error"] = errors[-1][-300:] if errors else text[-300:]
    return row


def gpu() -> dict:
    """Name, memory, driver and clocks of the GPU."""
    names = ("name", "memory.total", "driver_version", "clocks.max.sm", "clocks.max.mem")
    command = ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader"]
    values = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    return dict(zip(names, values, strict=True))


def main(configs: str, out: str) -> None:
    """Measure every case, and write a row after each."""
    import torch
    import vllm

    versions = {"vllm": vllm.__version__, "torch": torch.__version__, "date": time.strftime("%Y-%m-%d"), **gpu()}
    with Path(out).open("w", encoding="utf-8") as file:
        for case in json.loads(Path(configs).read_text(encoding="utf-8")):
            try:
                row = measure(case)
            except subprocess.TimeoutExpired:
                row = {"name": case["name"], "starts": None, "error": f"no end within {_LIMIT:.0f} s"}
            file.write(json.dumps({**row, **versions, "arguments": case["arguments"]}) + "\n")
            file.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--start":
        start(json.loads(sys.argv[2]))
    else:
        main(sys.argv[1], sys.argv[2])
