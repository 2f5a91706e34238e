"""Fits the engine profiles generic, trtllm, vllm and sglang to servers under load, and prints what their files state.

    python accuracy/fit_engines.py

Kernels are not touched: a closed loop of each row is predicted without a host, and the five constants of each engine
(with the two of each load generator that states nothing of its arrivals) bring it nearest to the measured TTFT and
TPOT. Rows of held-out GPUs and models are left out. `request` is bounded by what single requests to idle servers take
beyond their prefill (tests/measured/published.csv): the many first tokens that no term explains would drive it to half
a second. Needs the extras `accuracy` and `calibrate`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from cases import INFERENCEX_BURST
from scipy.optimize import least_squares
from serving_rows import ServingRow, serving_rows

import roofline as rl
import roofline.arrays  # arrays become a kind of number
from roofline.catalog.engines import load_engine
from roofline.serving.closed_loop import loop_times, steady_loop

START = {"request": 0.04, "prefill": 3e-3, "stretch": 1.2, "step": 2e-4, "sequence": 12e-6}
WIDTH = {"request": 0.5, "prefill": 1.5, "stretch": 0.3, "step": 1.5, "sequence": 1.5}  # of each prior, in logarithms
MOST_REQUEST = 0.08  # [s]
GAPS = ("trtllm", "vllm", "sglang")
TTFT_WEIGHT = 0.5  # a first token scatters more than a step
LOSS_SCALE = 0.1


def parts(row: ServingRow) -> dict[str, Any]:
    """Times of a row without any host."""
    one = rl.predict(
        row.model, row.gpu, isl=row.mean_isl, osl=max(row.mean_osl, 2.0), tp=row.tp, pp=row.pp, ep=row.ep, dp=row.dp,
        quantization=row.quantization, kv_cache_dtype=row.kv_cache_dtype, engine="none", allow_oversize=True,
    )  # fmt: skip
    shipped = load_engine(row.engine)
    bare = replace(load_engine("none"), chunk=shipped.chunk, reserve=shipped.reserve)
    loop = steady_loop(replace(one.deployment, engine=bare), one.workload.isl, one.workload.osl, float(row.concurrency))
    batch = loop.running * row.dp
    return {
        "engine": row.engine, "gap": row.burst_share is None, "isl": row.mean_isl, "osl": one.workload.osl,
        "step": loop.step.time, "other": loop.prefill_time, "own": loop.own_prefill_time, "running": loop.running,
        "waiting": max(row.concurrency / batch - 1.0, 0.0), "ttft": row.ttft, "tpot": row.tpot,
    }  # fmt: skip


def fitted(rows: list[dict[str, Any]], single: bool) -> dict[str, float]:
    """Constants, `engine.name` each, or `name` for the one profile of all engines."""
    column = {name: np.asarray([row[name] for row in rows]) for name in rows[0]}
    engines = [""] if single else sorted(set(column["engine"]))
    names = [(engine, name) for engine in engines for name in START]
    gaps = [engine for engine in GAPS if np.any((column["engine"] == engine) & column["gap"])]
    centre = np.log([START[name] for _, name in names] + [0.2] * len(gaps) + [8192.0] * len(gaps))
    width = np.asarray([WIDTH[name] for _, name in names] + [1.5] * len(gaps) + [3.0] * len(gaps))
    low = np.asarray([0.0 if name == "stretch" else -np.inf for _, name in names] + [-np.inf] * 2 * len(gaps))
    most = [np.log(MOST_REQUEST) if name == "request" else np.inf for _, name in names]
    high = np.asarray(most + [np.log(0.95)] * len(gaps) + [np.inf] * len(gaps))
    counts = {engine: np.sum(column["engine"] == engine) for engine in set(column["engine"])}
    weight = np.asarray([1.0 if not single else (len(rows) / len(counts) / counts[e]) ** 0.5 for e in column["engine"]])

    def residuals(point: Any) -> Any:
        value = np.exp(point)
        known = {key: value[i] for i, key in enumerate(names)}
        each = {
            name: np.asarray([known["" if single else engine, name] for engine in column["engine"]]) for name in START
        }
        burst, together = np.full(len(rows), INFERENCEX_BURST), np.ones(len(rows))
        for i, engine in enumerate(gaps):
            mine = (column["engine"] == engine) & column["gap"]
            burst[mine] = value[len(names) + i]
            tokens = value[len(names) + len(gaps) + i]
            lumps = (column["running"][mine] ** -4 + (tokens / column["isl"][mine]) ** -4) ** -0.25
            together[mine] = np.maximum(1.0, lumps)
        times = loop_times(
            column["step"] + each["step"] + each["sequence"] * column["running"],
            each["stretch"] * column["other"] + each["prefill"],
            (1.0 + (each["stretch"] - 1.0) * np.minimum(1.0, column["running"] - 1.0)) * column["own"]
            + each["prefill"],
            each["request"],
            column["running"],
            column["waiting"],
            column["osl"],
            burst,
            together,
        )
        first = TTFT_WEIGHT * np.log(times.ttft / column["ttft"]) * (column["waiting"] == 0.0)
        prior = LOSS_SCALE * (point - centre) / width * len(rows) ** 0.5 / 10.0
        return np.concatenate([weight * first, weight * np.log(times.tpot / column["tpot"]), prior])

    start = np.clip(centre, low + 1e-3, high - 1e-3)
    found = np.exp(least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=LOSS_SCALE).x)
    result = {f"{engine}.{name}" if engine else name: found[i] for i, (engine, name) in enumerate(names)}
    for i, engine in enumerate(gaps):
        result[f"arrivals of {engine}"] = (found[len(names) + i], found[len(names) + len(gaps) + i])  # type: ignore[assignment]
    return result


def main() -> None:
    """Fit and print."""
    rows = [parts(row) for row in serving_rows() if row.excluded is None and row.split == "fit"]
    rows = [row for row in rows if row["other"] > 0.0]
    print(f"{len(rows)} rows")
    for single in (False, True):
        for name, value in fitted(rows, single).items():
            print(
                f"{name or 'generic'}: {value[0]:.3g}, {value[1]:.4g} tokens"
                if isinstance(value, tuple)
                else f"{name}: {value:.3g}"
            )


if __name__ == "__main__":
    main()
