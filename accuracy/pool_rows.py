"""Measured servers whose prompts and answers ran on pools of their own, where the row states both pools.

    python accuracy/pool_rows.py            errors of every row, and the engines' `handover`; writes nothing

From the same wheel as serving_rows.py. Only one of its exports of InferenceX states how many workers either pool had; the
others print the same runs without. That export holds no speculative run.

How a label is read: `moe_tp = dp, moe_ep = 1` beside data-parallel attention is a slip of the export. The recipes of
InferenceX (github.com/SemiAnalysisAI/InferenceX) know two kinds of these deployments: workers of up to four ranks that
share every matrix (tp), and wider ones that spread the experts (ep = dp). Rows of the same deployment under later
configurations print it so.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cases import Case, kind
from serving_rows import (
    GPUS,
    HELD_OUT_GPUS,
    HELD_OUT_MODELS,
    MEAN_LENGTH,
    MODELS,
    OVERLOAD,
    PLAIN_EXPORT,
    PROMPTS_PER_USER,
    Raw,
    noted,
    serving_rows,
    wheel_csv,
)

import roofline as rl
from roofline.catalog.find import load_engine

SPREAD_BEYOND = 4  # ranks of a worker; see above
LOSS_SCALE, HANDOVER_STEP = 0.1, 5e-3
FITTED = "gb200-nvl72", "deepseek-r1"  # TTFT, for the engines' `handover` alone


@dataclass(frozen=True, slots=True)
class Workers:
    """One pool: so many workers of a plan."""

    count: int
    tp: int
    pp: int
    dp: int
    ep: int

    def text(self, gpu: str) -> str:
        """In the grammar of pools."""
        return f"{gpu}:tp{self.tp}pp{self.pp}dp{self.dp}ep{self.ep}:x{self.count}"


@dataclass(frozen=True, slots=True)
class PoolRow:
    """One run of two pools under a closed loop of requests."""

    name: str
    source: str  # inferencex, gap
    gpu: str
    model: str
    quantization: str | None
    engine: str
    prefill: Workers
    decode: Workers
    label: str  # printed, or read as the recipes have it
    isl: int  # [tokens] nominal
    osl: int  # [tokens] nominal
    prefill_batch: int  # prompts of a pass
    concurrency: int
    ttft: float  # [s]
    tpot: float  # [s]
    is_overloaded: bool
    split: str

    @property
    def answered(self) -> float:
        """Requests that the run answered [1/s]."""
        return self.concurrency / (self.ttft + (self.osl * self.mean - 1.0) * self.tpot)

    @property
    def mean(self) -> float:
        """Mean length over nominal."""
        return MEAN_LENGTH if self.source == "inferencex" else 1.0


def pool_rows(path: str | Path | None = None, *, is_unique: bool = False) -> list[PoolRow]:
    """Rows that state both pools, each run once.

    Args:
        path: the CSV; None: that of the installed wheel [path].
        is_unique: leave out runs that a more trusted export prints, too, without the pools [bool].
    """
    with Path(path or wheel_csv()).open(newline="", encoding="utf-8") as file:
        raws = [raw for raw in csv.DictReader(file) if raw["mode"] == "disagg"]
    if is_unique:
        kept = {row.name for row in serving_rows(path) if row.excluded == "disaggregated"}
        raws = [raw for raw in raws if raw["id"] in kept]
    found: dict[tuple[Any, ...], PoolRow] = {}
    for raw in raws:
        row = _read(raw)
        if row is not None:
            found.setdefault((row.gpu, row.engine, row.isl, row.osl, row.concurrency, row.ttft, row.tpot), row)
    return list(found.values())


def _read(raw: Raw) -> PoolRow | None:
    """A row; None where it does not state both pools."""
    if not all(
        int(raw[f"{part}_{name}"] or 0) for part in ("prefill", "decode") for name in ("num_workers", "tp_size")
    ):
        return None
    note = raw["silicon_data_source"]
    source = "inferencex" if note.startswith(PLAIN_EXPORT) else "gap"
    model, quantization = MODELS[raw["model_path"], raw["precision"]]
    gpu = GPUS[raw["system"]]
    prefill, decode = (_workers(raw, part) for part in ("prefill", "decode"))
    label = "printed"
    if any(_is_slip(raw, part) for part in ("prefill", "decode")):
        label = "recipe"
        is_wide = decode.tp * decode.dp > SPREAD_BEYOND
        prefill, decode = (
            _as_run(workers, is_wide=is_wide) if _is_slip(raw, part) else workers
            for part, workers in (("prefill", prefill), ("decode", decode))
        )
    stated = noted(note, r"silicon_concurrency=(\d+)")
    concurrency = int(stated or int(raw["decode_batch_size"] or 0) * decode.count * decode.dp)
    held_out = gpu in HELD_OUT_GPUS or model.startswith(HELD_OUT_MODELS)
    is_fitted = (gpu, model) == FITTED and raw["backend"] in ("trtllm", "sglang")
    return PoolRow(
        name=raw["id"], source=source, gpu=gpu, model=model, quantization=quantization, engine=raw["backend"],
        prefill=prefill, decode=decode, label=label, isl=int(raw["isl"]), osl=int(raw["osl"]), prefill_batch=int(raw["prefill_batch_size"] or 1),
        concurrency=concurrency, ttft=float(raw["silicon_ttft_ms"]) * 1e-3, tpot=float(raw["silicon_tpot_ms"]) * 1e-3,
        is_overloaded=concurrency >= OVERLOAD, split="held out" if held_out else "fit" if is_fitted else "not fitted",
    )  # fmt: skip


def _workers(raw: Raw, part: str) -> Workers:
    count, tp, pp, dp, ep = (
        int(raw[f"{part}_{name}"] or 0) or 1
        for name in ("num_workers", "tp_size", "pp_size", "attention_dp_size", "moe_ep_size")
    )
    return Workers(count, tp, pp, dp, ep)


def _is_slip(raw: Raw, part: str) -> bool:
    """Whether a label is one that no deployment has."""
    dp, moe_tp, moe_ep = (
        int(raw[f"{part}_{name}"] or 0) or 1 for name in ("attention_dp_size", "moe_tp_size", "moe_ep_size")
    )
    return dp > 1 and moe_tp == dp and moe_ep == 1


def _as_run(workers: Workers, *, is_wide: bool) -> Workers:
    """What such a worker was."""
    if is_wide:
        return replace(workers, ep=workers.dp * workers.tp)
    return replace(workers, tp=workers.tp * workers.dp, dp=1, ep=1)


def predicted(row: PoolRow, **changes: Any) -> rl.Disaggregation:
    """A row as `disaggregate` has it: users of a run, with its start.

    A pass takes as many prompts as the row states, one; as many as the engine's budget takes where the run answered more
    than passes of one prompt can.
    """
    kv_cache = "fp8" if row.quantization in ("nvfp4", "fp8_block", None) and row.engine != "vllm" else None
    options = {
        "isl": row.isl * row.mean, "osl": row.osl * row.mean, "concurrency": row.concurrency,
        "num_prompts": PROMPTS_PER_USER * row.concurrency, "quantization": row.quantization, "engine": row.engine,
        "max_num_seqs": max(row.concurrency, 256), "kv_cache_dtype": kv_cache if "deepseek" in row.model else None,
        **changes,
    }  # fmt: skip
    if (
        row.source == "inferencex" and row.model == "deepseek-r1"
    ):  # its weights leave little: as runs of one pool set it
        options["gpu_memory_utilization"] = 0.95
    pools = row.prefill.text(row.gpu), row.decode.text(row.gpu)
    stated = round(row.isl * row.mean * row.prefill_batch)
    found = rl.disaggregate(row.model, *pools, **options, max_num_batched_tokens=stated)
    if row.answered > found.found.max_prefill_rate:
        return rl.disaggregate(row.model, *pools, **options)
    return found


def pool_cases(rows: Iterable[PoolRow]) -> Iterator[Case]:
    """Rows beside their predictions."""
    for row in rows:
        found = predicted(row)
        ideal = predicted(row, basis="ideal")
        model = found.model
        for metric in ("ttft", "tpot"):
            low, high = (found.intervals or {}).get(metric, (float("nan"), float("nan")))
            yield Case(
                dataset="pools", split=row.split, metric=metric, measured=getattr(row, metric),
                predicted=getattr(found, metric), ideal=getattr(ideal, metric), low=low, high=high,
                gpu=row.gpu, model=row.model, kind=kind(model),
                dtype=found.pools.decode.quantization.sections["experts" if model.is_moe else "linear"].format,
                engine=row.engine, tp=row.decode.tp * row.decode.dp, batch=row.concurrency,
                basis=found.pools.decode.basis, load="overloaded" if row.is_overloaded else "loaded",
                source=row.source, ep=row.decode.ep,
            )  # fmt: skip


def fitted_handover(engine: str) -> float:
    """Time per request that brings the TTFT of the fitted rows nearest, under the loss of fit_engines.py [s]."""
    rows = [row for row in pool_rows(is_unique=True) if row.split == "fit" and row.engine == engine]
    stated = load_engine(engine).handover
    pairs = [(row.ttft, predicted(row).ttft - stated) for row in rows]

    def loss(handover: float) -> float:
        ratios = [(rest + handover) / measured for measured, rest in pairs]
        return sum(math.log1p((2.0 * (ratio**0.5 - 1.0) / LOSS_SCALE) ** 2) for ratio in ratios)

    return min((place * HANDOVER_STEP for place in range(100)), key=loss)


def main() -> None:
    """Print every row beside its prediction."""
    for engine in ("trtllm", "sglang"):
        print(f"{engine}.handover: {fitted_handover(engine):.3g}")
    errors: dict[str, list[float]] = {}
    for row in sorted(pool_rows(), key=lambda row: (row.gpu, row.model, row.engine, row.isl, row.concurrency)):
        if row.split == "held out":
            continue
        try:
            found = predicted(row)
        except rl.RooflineError as error:
            print(row.name, str(error)[:120])
            continue
        off = [100.0 * (getattr(found, name) / getattr(row, name) - 1.0) for name in ("ttft", "tpot")]
        share = found.transfer / row.ttft
        print(
            f"{row.gpu:12} {row.model:12} {row.engine:7} {row.quantization or '-':7} {row.isl:5}/{row.osl:4} "
            f"c {row.concurrency:5} {row.prefill.text('P'):24} {row.decode.text('D'):24} {row.label:8} "
            f"TTFT {1e3 * row.ttft:7.0f} {off[0]:+6.0f} % TPOT {1e3 * row.tpot:6.2f} {off[1]:+6.1f} % transfer {share:.1%}"
        )
        for name, value in zip(("ttft", "tpot"), off, strict=True):
            errors.setdefault(f"{row.gpu} {row.model} {'overloaded ' if row.is_overloaded else ''}{name}", []).append(
                abs(value)
            )
    for name, values in sorted(errors.items()):
        print(
            f"{name:50} n {len(values):3} median {statistics.median(values):5.1f} mean {statistics.fmean(values):6.1f}"
        )


if __name__ == "__main__":
    main()
