"""What came, beside forecasts: servers, machines that nobody timed, sparse prompts, passes of Vera Rubin."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cases import options_of, published_cases, table_rows
from judge_vendors import asked_of
from serving_rows import serving_rows

import roofline as rl
from roofline.numbers.quantity import MICRO, MILLI

MEASURED = Path(__file__).parent.parent / "tests" / "measured"
#: Of the board of these passes, not of the announcement: vera_rubin.csv.
AS_RUN = {"bandwidth": 12.85e12, "link": 1476e9}
RUBIN = "glm-5.3-nvfp4"  # layers and formats are those of GLM-5.2-NVFP4
MODULE = ("q_a, kv_a", "q_b", "q latent norm", "kv latent norm", "rope, append", "index q", "index scores", "kv_b",
          "attention", "absorb k", "attention, absorbed", "absorb v", "o")  # fmt: skip
EXCHANGE = ("attention all-reduce", "ffn all-reduce", "experts all-reduce", "norm")
#: Wheel name -> catalog name, of GPUs that kernels are fitted on; engine -> version with modules of sparse attention.
TIMED = {"h100_sxm": "h100-sxm", "b200_sxm": "b200", "gb300": "gb300-nvl72"}
SPARSE = {"sglang": "0.5.14", "vllm": "0.24.0", "trtllm": "1.3.0rc20"}
LONG = (4096, 8192, 16384, 32768)  # beyond the 2048 tokens that the indexer keeps


class Came(NamedTuple):
    """A figure that came, and what was forecast of it; times in seconds, no range: nan."""

    of: str
    result: str
    measured: float
    forecast: float
    low: float
    high: float

    @property
    def off(self) -> float:
        """ln(forecast / result)."""
        return float(np.log(self.forecast / self.measured))

    @property
    def is_inside(self) -> bool:
        """Whether the range holds it."""
        return self.low <= self.measured <= self.high


def figures(rows: list[Came]) -> str:
    """Median and worst error, bias and share inside the range, as cells of a table."""
    off = np.asarray([row.off for row in rows])
    error = 100.0 * np.abs(np.expm1(off))
    inside = "-" if np.isnan(rows[0].low) else f"{100 * np.mean([row.is_inside for row in rows]):.0f}"
    return f"{np.median(error):.0f} | {np.max(error):.0f} | {100 * np.median(off):.0f} | {inside}"


def served(new: dict[str, rl.Gpu], servers: Path | None) -> Iterator[tuple[Came, Came]]:
    """Forecast and own constants beside each figure of a server, of the GPUs of `new`, each without its generation."""
    for row in serving_rows():
        if row.excluded is None and row.gpu in new:
            measured = {"ttft": row.ttft, "tpot": row.tpot}
            yield from _pairs(row.gpu, measured, row.model, new[row.gpu], options_of(row))
    for row in table_rows(servers) if servers is not None else ():
        if row["gpu"] in new:
            measured = {name: float(row[f"{name}_ms"] or "nan") * MILLI for name in ("ttft", "tpot")}
            asked = {"allow_oversize": True, **asked_of(row)}
            yield from _pairs(row["gpu"], measured, row["model"], new[row["gpu"]], asked)


def _pairs(
    name: str, measured: dict[str, float], model: str, new: rl.Gpu, asked: dict[str, Any]
) -> Iterator[tuple[Came, Came]]:
    try:
        told, own = rl.predict(model, new, **asked), rl.predict(model, name, **asked)
    except rl.RooflineError:
        return
    for result, time in measured.items():
        if time > 0.0:
            yield _came(name, result, time, told), _came(name, result, time, own)


def _came(of: str, result: str, time: float, prediction: rl.Prediction) -> Came:
    ends = getattr(prediction, f"{result}_interval")
    return Came(of, result, time, float(getattr(prediction, result)), float(ends[0]), float(ends[1]))


def untimed() -> Iterator[Came]:
    """Published figures of accelerators that nobody timed."""
    for case in published_cases():
        if case.basis == "generic":
            yield Came(case.gpu, case.metric, case.measured, case.predicted, case.low, case.high)
    with (MEASURED / "local.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == "unified"]
    for row in rows:
        options: dict[str, Any] = dict(part.split("=") for part in row["options"].split())
        if row["formats"]:
            options["quantization"] = row["formats"]
        lengths = {
            name: int(row[column]) for name, column in (("isl", "prompt"), ("osl", "answer"), ("batch", "batch"))
        }
        found = rl.predict(row["model"], row["gpu"], tp=1, **lengths, **options)
        yield _came(row["gpu"], "tpot", float(row["batch"]) / float(row["measured"]), found)


def rubin(*, as_run: bool) -> Iterator[Came]:
    """Passes of GLM-5.2 on Vera Rubin, as announced or with the rates of the board that ran them."""
    gpu = rl.load_gpu("vr200-nvl72")
    if as_run:
        link = replace(gpu.link, bandwidth=AS_RUN["link"])
        gpu = replace(gpu, bandwidth=AS_RUN["bandwidth"], link=link)
    for row in table_rows(MEASURED / "vera_rubin.csv"):
        batch, new, past = (int(row[name]) for name in ("batch", "new", "past"))
        time, common = float(row["time_ms"]) * MILLI, {"tp": 4, "batch": batch, "engine": "none"}
        if row["part"] == "step":
            yield _came("step", "tpot", time, rl.predict(RUBIN, gpu, isl=past, osl=2, **common))
            continue
        found = rl.predict(RUBIN, gpu, isl=new + past, prefix=past, osl=1, max_num_batched_tokens=batch * new, **common)
        if row["part"] == "prompt":
            yield _came("prompt", "ttft", time, found)
        else:
            names = MODULE if row["part"] == "attention" else EXCHANGE
            yield Came(row["part"], "ttft", time, _time_of(found, names), np.nan, np.nan)


def _time_of(prediction: rl.Prediction, names: tuple[str, ...]) -> float:
    return sum(float(kernel.time) for kernel in prediction.prefill.kernels if kernel.name in names)


def sparse() -> Iterator[Came]:
    """Timed modules of DeepSeek-V3.2: prompts each of whose tokens attends to its own choice of earlier ones."""
    import pyarrow.parquet as pq

    found = importlib.util.find_spec("aisimulate_core")
    if found is None or found.origin is None:
        raise SystemExit("modules of sparse attention are in the wheel aisimulate")
    data = Path(found.origin).parent / "systems" / "data"
    for name, gpu in TIMED.items():
        for engine, version in SPARSE.items():
            path = data / name / "sparse_attention" / engine / version / "dsa_context_module_perf.parquet"
            for row in pq.read_table(path).to_pylist():
                if not _is_sparse(row):
                    continue
                heads, kv = row["num_heads"], "fp8" if row["kv_cache_dtype"] == "fp8" else "bf16"
                prediction = rl.predict(
                    "deepseek-v3.2", gpu, tp=128 // heads, isl=row["isl"] + row["step"], prefix=row["step"], osl=1,
                    batch=row["batch_size"], kv_cache_dtype=kv, engine="none", allow_oversize=True,
                    max_num_batched_tokens=row["batch_size"] * row["isl"],
                )  # fmt: skip
                time = _time_of(prediction, MODULE) / prediction.deployment.model.layers
                of = f"{gpu} | {engine} | {'fewer than 64' if heads < 64 else '64 and more'}"
                yield Came(of, kv, row["latency"] * MILLI, time, np.nan, np.nan)


def _is_sparse(row: dict[str, Any]) -> bool:
    return bool(
        row["architecture"] == "DeepseekV32ForCausalLM"
        and row["gemm_type"] == "fp8_block"
        and row["op_name"] == "dsa_context_module"
        and row["isl"] in LONG
        and row["batch_size"] == 1
        and row["step"] in (0, 4096, 16384)
        and "dense" not in row["kernel_source"]
        and row["latency"] > MICRO
    )
