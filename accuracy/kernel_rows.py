"""Kernel measurements of the public wheel `aisimulate`, thinned, in the columns that `roofline calibrate` reads.

    python accuracy/kernel_rows.py kernels/        writes kernels/<gpu>/<engine>-<version>.csv
    python accuracy/kernel_rows.py kernels/ b60 --data aiconfigurator/aic-core/src/aiconfigurator_core/systems/data

The wheel (Apache-2.0, extra `accuracy`) holds some twenty million timed kernels of NVIDIA GPUs under
TensorRT-LLM, SGLang and vLLM. A few hundred rows a kind of kernel say the same; rows are chosen by a
hash of their shape, so the choice is the same on every machine and the same shapes are kept on all GPUs. `--data` reads
a checkout of github.com/ai-dynamo/aiconfigurator instead, in which older versions of engines remain.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import roofline as rl
from roofline.specs.gpu import KINDS
from roofline.specs.versions import place_of

Row = dict[str, Any]

COLUMNS = (
    "gpu", "kind", "dtype", "m", "n", "k", "batch", "seq", "heads", "kv_heads", "head_dim", "tokens", "hidden", "width",
    "top_k", "experts", "tp", "ep", "routing", "ranks", "nbytes", "latency_us", "engine", "engine_version", "date",
    "clock_mhz", "note",
)  # fmt: skip

GPUS = {
    "a100_sxm": "a100-sxm-80gb",
    "l40s": "l40s",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200",
    "gb200": "gb200-nvl72",
    "b300_sxm": "b300",
    "gb300": "gb300-nvl72",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
    "b60": "arc-pro-b60",
}
WHEEL = "aisimulate 0.13.0.dev202610270000000085"
DATE = "2026-10"  # upload of this version to PyPI
CHECKOUT, CHECKOUT_DATE = "github.com/ai-dynamo/aiconfigurator @095f58a51c4c", "2026-08"

#: Newest version of each engine whose tables span all GPUs, on which the engines are pooled; A100 has older ones only.
POOLED = {"trtllm": "1.3.0rc20", "sglang": "0.5.14", "vllm": "0.24.0", "nccl": "2.29.2"}
AMPERE_POOLED = {"trtllm": "1.0.0", "sglang": "0.5.10", "vllm": "0.14.0", "nccl": "2.27.3"}
#: A table of fewer rows than this, or of a development build, is no set of kernels of its own.
_LEAST_ROWS = 40

GEMM_DTYPES = {
    "bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4", "sq": "int8",
    "int4_wo": "int4", "int8_wo": "weight_only_8bit",
}  # fmt: skip
MOE_DTYPES = {
    "bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4", "int4_wo": "int4",
    "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4_fp8",
}  # fmt: skip
ROUTINGS = {"power_law_1.2": "skewed", "balanced": "balanced"}

#: Rows kept per GPU, kind, dtype and engine; of experts that are spread over ranks, as many again.
KEPT = {
    "gemm": 1200, "attention_prefill": 900, "attention_decode": 900, "mla_prefill": 500, "mla_decode": 500, "moe": 900,
    "all_reduce": 300, "all_gather": 200, "reduce_scatter": 200, "all_to_all": 200, "moe_dispatch": 200,
    "moe_combine": 200, "p2p": 100, "elementwise": 200,
}  # fmt: skip


def kernel_rows(gpu: str, data: Path | None = None) -> list[Row]:
    """Rows of one GPU, every kind of kernel, thinned.

    Args:
        gpu: name of the GPU in the wheel, e.g. ``h100_sxm`` [text].
        data: folder of the tables; None: that of the wheel [path].

    Returns:
        Rows of `COLUMNS`, times in microseconds.

    Raises:
        SystemExit: the wheel is not installed.
    """
    root = (tables() if data is None else data) / gpu
    record = rl.load_gpu(GPUS[gpu])
    groups: dict[tuple[str, str, str, str, bool], dict[tuple[Any, ...], Row]] = {}
    for path in sorted(root.glob("*/*/*/*.parquet")):
        engine, version = path.parts[-3:-1]
        if "dev" in version:
            continue
        for row in _read(path, engine):
            date = DATE if data is None else CHECKOUT_DATE
            row.update(gpu=GPUS[gpu], engine=engine, engine_version=version, date=date)
            if not row["latency_us"] > 0.0 or is_artefact(row, record):
                continue
            group = groups.setdefault((row["kind"], row["dtype"], engine, version, row.get("ep", 1) > 1), {})
            shape = tuple(row.get(name) for name in COLUMNS[3:21])
            if shape not in group or row["latency_us"] < group[shape]["latency_us"]:
                group[shape] = row  # several implementations of one shape: a tuned engine takes the fastest
    found: list[Row] = []
    for (kind, *_), group in sorted(groups.items()):
        chosen = sorted(group.items(), key=lambda item: crc32(repr(item[0]).encode()))
        if len(chosen) >= _LEAST_ROWS or kind in ("moe_dispatch", "moe_combine"):
            found += [row for _, row in chosen[: KEPT[kind]]]
    return found


def is_pooled(kind: str, engine: str, version: str, versions: Iterable[tuple[str, str]], gpu: str) -> bool:
    """Whether a version of an engine is the one that is pooled with other engines, for a kind of kernel.

    Collectives were timed under other versions than kernels: the newest up to the pooled one counts.

    Args:
        kind: kind of kernel [text].
        engine: its engine [text].
        version: its version [text].
        versions: engines and versions with rows of this kind [text].
        gpu: name of the GPU here [text].

    Returns:
        Whether it is.
    """
    pooled = (AMPERE_POOLED if gpu == GPUS["a100_sxm"] else POOLED)[engine]
    if not KINDS[kind].is_collective:
        return version == pooled
    known = [each for name, each in versions if name == engine and place_of(each) <= place_of(pooled)]
    return version == max(known, key=place_of, default=None)


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write rows as CSV.

    Args:
        path: file [path].
        rows: rows of `COLUMNS`.
    """
    with path.open("w", newline="") as file:
        file.write(
            f"# Extract of kernel tables of {CHECKOUT if rows[0]['date'] == CHECKOUT_DATE else WHEEL}, Apache-2.0, Copyright (c) 2025-2026 NVIDIA "
            "CORPORATION & AFFILIATES; rows chosen, columns renamed, milliseconds turned into microseconds.\n"
        )
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_tables(folder: Path, rows: list[Row]) -> None:
    """Write the rows of a GPU, one file for each version of each engine.

    Args:
        folder: of the GPU [path].
        rows: rows of `COLUMNS`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    versions: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        versions.setdefault((row["engine"], row["engine_version"]), []).append(row)
    for (engine, version), chosen in versions.items():
        write_rows(folder / f"{engine}-{version}.csv", chosen)


def tables() -> Path:
    found = importlib.util.find_spec("aisimulate_core")
    if found is None or found.origin is None:
        raise SystemExit('the measurements are in the wheel aisimulate: pip install "roofline[accuracy]"')
    return Path(found.origin).parent / "systems" / "data"


def _read(path: Path, engine: str) -> Iterator[Row]:
    reader = READERS.get(path.stem)
    if reader is None:
        return
    import pandas as pd

    table = pd.read_parquet(path)
    table = table.drop_duplicates([name for name in table.columns if name not in ("latency", "device")])
    yield from reader(table, engine)


def _gemms(table: Any, engine: str) -> Iterator[Row]:
    for row in table.itertuples():
        dtype = GEMM_DTYPES.get(row.gemm_dtype)
        if dtype is None or (engine == "vllm" and dtype == "fp8_block"):  # its collector adds 55-390 us of host work
            continue
        yield {"kind": "gemm", "dtype": dtype, "m": row.m, "n": row.n, "k": row.k, "latency_us": 1000.0 * row.latency}


def _attention(table: Any, engine: str) -> Iterator[Row]:
    table = table[table.beam_width == 1]
    if "window_size" in table:
        table = table[table.window_size == 0]
    for row in table.itertuples():
        decode = row.op_name.startswith("generation")
        yield {
            "kind": "attention_decode" if decode else "attention_prefill",
            "dtype": "fp8" if row.kv_cache_dtype == "fp8" else "bf16",
            "batch": row.batch_size,
            "seq": row.isl + row.step if decode else row.isl,
            "heads": row.num_heads,
            "kv_heads": row.num_key_value_heads or row.num_heads,
            "head_dim": row.head_dim,
            "note": f"attention in {row.attn_dtype}",
            "latency_us": 1000.0 * row.latency,
        }


def _mla(table: Any, engine: str) -> Iterator[Row]:
    for row in table.itertuples():
        decode = "generation" in row.op_name
        yield {
            "kind": "mla_decode" if decode else "mla_prefill",
            "dtype": "fp8" if row.kv_cache_dtype == "fp8" else "bf16",
            "batch": row.batch_size,
            "seq": row.isl + row.step if decode else row.isl,
            "heads": row.num_heads,
            "latency_us": 1000.0 * row.latency,
        }


def _moe(table: Any, engine: str) -> Iterator[Row]:
    table = table[table.distribution.isin(list(ROUTINGS))]
    for row in table.itertuples():
        dtype = MOE_DTYPES.get(row.moe_dtype)
        if dtype is None or "nongated" in row.kernel_source or "situ_as_silu" in row.kernel_source:
            continue
        yield {
            "kind": "moe",
            "dtype": dtype,
            "tokens": row.num_tokens,
            "hidden": row.hidden_size,
            "width": row.inter_size,
            "top_k": row.topk,
            "experts": row.num_experts,
            "tp": row.moe_tp_size,
            "ep": row.moe_ep_size,
            "routing": ROUTINGS[row.distribution],
            "latency_us": 1000.0 * row.latency,
        }


def _collectives(table: Any, engine: str) -> Iterator[Row]:
    table = table[table.nccl_dtype == "half"]
    for row in table.itertuples():
        if row.op_name in ("all_gather", "reduce_scatter", "alltoall", "all_reduce"):
            yield _collective(row, {"alltoall": "all_to_all"}.get(row.op_name, row.op_name))


def _all_reduces(table: Any, engine: str) -> Iterator[Row]:
    if "backend" in table:  # without CUDA graphs the host is timed
        table = table[~table.backend.fillna("").str.endswith("eager")]
    for row in table.itertuples():
        yield _collective(row, "all_reduce")


def _collective(row: Any, kind: str) -> Row:
    nbytes = 2 * row.message_size  # the tables count elements of 16 bits
    return {
        "kind": kind,
        "dtype": "bf16",
        "ranks": row.num_gpus,
        "nbytes": nbytes,
        "latency_us": 1000.0 * row.latency,
    }


def _exchanges(table: Any, engine: str) -> Iterator[Row]:
    for row in table[table.node_num == 1].itertuples():
        for kind, nbytes, time in (
            ("moe_dispatch", 1, row.dispatch_avg_t_us),
            ("moe_combine", 2, row.combine_avg_t_us),
        ):
            held = row.num_token * row.num_topk * row.hidden_size * nbytes
            yield {"kind": kind, "dtype": "bf16", "ranks": 8, "nbytes": held, "latency_us": time}


def _quantisations(table: Any, engine: str) -> Iterator[Row]:
    for row in table[table.quant_dtype == "fp8"].itertuples():
        nbytes = 3 * row.m * row.k
        yield {"kind": "elementwise", "dtype": "bf16", "nbytes": nbytes, "latency_us": 1000.0 * row.latency}


def is_artefact(row: Row, gpu: rl.Gpu) -> bool:
    """Rows that say nothing of the kernel in a server: a cache that replays keep in the L2, too small a shape."""
    kind = row["kind"]
    if kind in ("attention_decode", "mla_decode"):
        if row["seq"] < 128:
            return True  # below it the host's preparation of every row dominates
        width = 2 * row["kv_heads"] * row["head_dim"] if kind == "attention_decode" else 576
        held = row["batch"] * row["seq"] * width * (1 if row["dtype"] == "fp8" else 2)
        bandwidth = gpu.bandwidth / 1e6  # bytes per microsecond
        return held < 1.3 * (gpu.cache or 0.0) and held / bandwidth > 0.2 * row["latency_us"]
    if kind == "elementwise":  # their input was just written, and the L2 still has it
        return (
            row["nbytes"] < 3.0 * (gpu.cache or 0.0) and row["nbytes"] / (gpu.bandwidth / 1e6) > 0.2 * row["latency_us"]
        )
    return False


#: Stem of a table's file -> what reads its rows.
READERS = {
    "gemm_perf": _gemms,
    "context_attention_perf": _attention,
    "generation_attention_perf": _attention,
    "context_mla_perf": _mla,
    "generation_mla_perf": _mla,
    "moe_perf": _moe,
    "nccl_perf": _collectives,
    "custom_allreduce_perf": _all_reduces,
    "wideep_deepep_ll_perf": _exchanges,
    "scale_matrix_perf": _quantisations,
}


def main() -> None:
    """Write the rows of all GPUs, or of those named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("gpus", nargs="*", default=list(GPUS), help="names in the wheel, e.g. h100_sxm")
    parser.add_argument("--data", type=Path, help="systems/data of a checkout of ai-dynamo/aiconfigurator")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for gpu in options.gpus:
        rows = kernel_rows(gpu, options.data)
        write_tables(options.folder / GPUS[gpu], rows)
        print(f"{GPUS[gpu]}: {len(rows)} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
