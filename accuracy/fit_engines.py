"""Fits the engine profiles generic, trtllm, vllm and sglang to servers with users, and prints what their files state.

    python accuracy/fit_engines.py [ENGINE ...]

Kernels are not touched: each row is predicted as users in a run (cases.py says how they came), and five constants of an
engine bring TTFT and TPOT nearest to the measured ones, not far from those that its file states today. Rows of held-out
GPUs and models are left out. `request` is bounded by what single requests to idle servers take beyond their prefill
(tests/measured/published.csv): the many first tokens that no term explains would drive it to half a second. Needs the
extras `accuracy` and `calibrate`; takes some ten minutes an engine.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from cases import arrivals
from scipy.optimize import least_squares
from serving_rows import ServingRow, serving_rows

import roofline as rl
from roofline.catalog.engines import load_engine
from roofline.serving.traffic.load import served

NAMES = ("request", "prefill", "stretch", "step", "sequence")
WIDTH = (0.5, 1.5, 0.3, 1.5, 1.5)  # of each prior, in logarithms
MOST_REQUEST = 0.08  # [s]
ENGINES = ("trtllm", "vllm", "sglang", "generic")
TTFT_WEIGHT = 0.5  # a first token scatters more than a step
LOSS_SCALE = 0.1


def case_of(row: ServingRow) -> tuple[rl.Prediction, float]:
    """A row as a case, and its prompts that stay together."""
    prompts, together = arrivals(row)
    found = rl.predict(
        row.model, row.gpu, isl=row.mean_isl, osl=max(row.mean_osl, 2.0), tp=row.tp, pp=row.pp, ep=row.ep, dp=row.dp,
        quantization=row.quantization, kv_cache_dtype=row.kv_cache_dtype, engine=row.engine,
        concurrency=row.concurrency, num_prompts=prompts, max_num_seqs=max(row.concurrency, 256), allow_oversize=True,
    )  # fmt: skip
    return found, together


def fitted(rows: list[ServingRow], engine: str) -> dict[str, float]:
    """Constants of an engine."""
    known = [(row, *case_of(row)) for row in rows]
    known = [(row, found, together) for row, found, together in known if found.served and not _waits(found)]
    counts = {name: sum(row.engine == name for row, _, _ in known) for name in ENGINES}
    weight = np.asarray(
        [(len(known) / 3.0 / counts[row.engine]) ** 0.5 if engine == "generic" else 1.0 for row, _, _ in known]
    )
    shipped = load_engine(engine)
    centre = np.log([float(getattr(shipped, name)) for name in NAMES])
    low = np.asarray([0.0 if name == "stretch" else -np.inf for name in NAMES])
    high = np.asarray([np.log(MOST_REQUEST) if name == "request" else np.inf for name in NAMES])

    def residuals(point: Any) -> Any:
        constants = dict(zip(NAMES, map(float, np.exp(point)), strict=True))
        first, step = [], []
        for row, found, together in known:
            own = replace(found.deployment.engine, **constants)
            again = served(replace(found.deployment, engine=own), found.workload, found.served.state, together)
            first.append(np.log(again.ttft / row.ttft))
            step.append(np.log(again.tpot / row.tpot))
        prior = LOSS_SCALE * (point - centre) / np.asarray(WIDTH) * len(known) ** 0.5 / 10.0
        return np.concatenate([TTFT_WEIGHT * weight * np.asarray(first), weight * np.asarray(step), prior])

    start = np.clip(centre, low + 1e-3, high - 1e-3)
    found = least_squares(
        residuals, start, bounds=(low, high), loss="soft_l1", f_scale=LOSS_SCALE, xtol=1e-4, ftol=1e-4
    )
    return dict(zip(NAMES, np.exp(found.x), strict=True))


def _waits(found: rl.Prediction) -> bool:
    """Whether requests wait for memory: their first tokens say nothing of the engine."""
    return bool(found.served and found.served.waiting_share > 0.0)


def main() -> None:
    """Fit and print."""
    rows = [row for row in serving_rows() if row.excluded is None and row.split == "fit"]
    print(f"{len(rows)} rows")
    for engine in sys.argv[1:] or ENGINES:
        mine = [row for row in rows if engine in ("generic", row.engine)]
        for name, value in fitted(mine, engine).items():
            print(f"{engine}.{name}: {value:.3g}")


if __name__ == "__main__":
    main()
