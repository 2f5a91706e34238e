"""Factors on whole passes of accelerators whose servers were measured, but not their kernels.

`factors` has what build_other_calibrations.py writes: a factor on prefill passes and one on decode steps, least squares
in the logarithm of the time of each run on the constants that the calibration assumes, and how uncertain each is for a
model that is not among them.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import roofline as rl
from roofline.support.records import replace

#: Sigma of a factor before any run is seen: that of kernels with assumed constants. It counts as so many models.
PRIOR_SIGMA, PRIOR_MODELS = 0.35, 2
#: Sigma of the logarithm of a factor around one, before any run is seen: that of kernels never timed.
PRIOR_FACTOR = 0.6
HALF_WIDTH = 1.2816  # of the 80 % range of a normal, in sigmas
_TELLS = 0.1  # least share of the time of a run at which a pass is told by it
_WITHIN = 0.15  # sigma of a single run around its model


class Timed(NamedTuple):
    """A measured run and the prediction for it."""

    row: Mapping[str, str]
    metric: str  # ttft, tpot or run
    measured: float  # [s]
    predicted: float  # [s]
    share: float  # of prefill in the predicted time


def read(table: Path) -> list[dict[str, str]]:
    """Rows of other_server_rows.py."""
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def asked(row: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of predict for a run."""
    numbers = ("tp", "isl", "batch", "concurrency", "num_prompts", "max_num_seqs", "max_num_batched_tokens")
    found: dict[str, Any] = {name: float(row[name]) for name in numbers if row[name]}
    found |= {name: row[name] for name in ("quantization", "kv_cache_dtype", "engine") if row[name]}
    whole = ("tp", "max_num_seqs", "max_num_batched_tokens", "num_prompts", "concurrency", "batch")
    found |= {name: int(found[name]) for name in whole if name in found}
    return {**found, "osl": max(float(row["osl"]), 2.0), "allow_oversize": True}


def predicted(row: Mapping[str, str], gpu: rl.Gpu) -> Any:
    """The prediction for a run."""
    return rl.predict(row["model"], gpu, **asked(row))


def timings(row: Mapping[str, str], gpu: rl.Gpu) -> Iterable[Timed]:
    """What a run says: its first token, its steps, or the time of the whole run over its tokens."""
    answer = predicted(row, gpu)
    first, later = float(answer.ttft), (max(float(row["osl"]), 2.0) - 1.0) * float(answer.tpot)
    if row["ttft_ms"]:
        yield Timed(row, "ttft", float(row["ttft_ms"]) / 1e3, first, 1.0)
    if row["tpot_ms"]:
        yield Timed(row, "tpot", float(row["tpot_ms"]) / 1e3, float(answer.tpot), 0.0)
    if row["output_tok_s"]:
        rate, share = float(answer.output_tok_s), first / (first + later)
        if row["concurrency"]:  # a request waits in its TTFT; of its rank's time prompts take
            share = float(answer.served.rho)
        yield Timed(row, "run", 1.0 / float(row["output_tok_s"]), 1.0 / rate, share)


def off(rows: Sequence[Mapping[str, str]], gpu: rl.Gpu) -> list[float]:
    """ln(predicted / measured) of runs."""
    return [log(each.predicted / each.measured) for row in rows for each in timings(row, gpu)]


def scaled(gpu: rl.Gpu, logarithms: Sequence[float]) -> rl.Gpu:
    """The GPU with factors on its passes."""
    return replace(gpu, passes=(exp(logarithms[0]), exp(logarithms[1])))


def fitted(rows: Sequence[Mapping[str, str]], gpu: rl.Gpu) -> tuple[float, float]:
    """Logarithms of both factors."""
    from scipy.optimize import least_squares

    def residuals(logarithms: Any) -> Any:
        return [*(each / _WITHIN for each in off(rows, scaled(gpu, logarithms))), *(logarithms / PRIOR_FACTOR)]

    found = least_squares(residuals, np.zeros(2), diff_step=1e-3).x
    return float(found[0]), float(found[1])


def left_out(rows: Sequence[Mapping[str, str]], gpu: rl.Gpu) -> list[tuple[Timed, float]]:
    """Each timing of a model with ln(predicted / measured) under factors of the other models; none of a single model."""
    models = sorted({row["model"] for row in rows})
    found = []
    for model in models if len(models) > 1 else ():
        of_others = fitted([row for row in rows if row["model"] != model], gpu)
        for row in (row for row in rows if row["model"] == model):
            found += [(each, log(each.predicted / each.measured)) for each in timings(row, scaled(gpu, of_others))]
    return found


def sigma_of(offs: Sequence[float], models: int) -> float:
    """Sigma of a log-normal whose 80 % range is that of Student's distribution for one more model.

    Args:
        offs: of models left out, ln(predicted / measured).
        models: whose runs there are.
    """
    from scipy.stats import t as student

    square = float(np.mean(np.square(offs))) if offs else 0.0
    freedom = PRIOR_MODELS + max(models - 1, 0)
    variance = (PRIOR_MODELS * PRIOR_SIGMA**2 + max(models - 1, 0) * square) / freedom
    predictive = (variance * (1.0 + 1.0 / models)) ** 0.5
    return float(predictive * student.ppf(0.9, freedom) / HALF_WIDTH)


def factors(rows: Sequence[Mapping[str, str]], gpu: rl.Gpu, source: str) -> dict[str, Any]:
    """Both factors as a calibration states them."""
    rows = [row for row in rows if row["gpu"] == gpu.name and row["fit"] == "1"]
    logarithms = fitted(rows, gpu)
    tested = left_out(rows, gpu)
    told = [each for row in rows for each in timings(row, scaled(gpu, logarithms))]
    answer = {}
    for place, name in enumerate(("prefill", "decode")):
        telling = [each for each in told if _share(each, place) >= _TELLS]
        models = len({each.row["model"] for each in telling})
        offs = [error for each, error in tested if _share(each, place) >= 0.5]
        runs = len({id(each.row) for each in telling})
        sigma = sigma_of(offs, models)
        answer[name] = {
            "factor": float(f"{exp(logarithms[place]):.3g}"), "sigma": float(f"{sigma:.2g}"), "runs": runs,
            "models": models, "source": source,
        }  # fmt: skip
        errors = 100 * np.abs(np.expm1(offs)) if offs else np.array([np.nan])
        print(
            f"{gpu.name} {name}: {answer[name]}; a model left out: n {len(offs)}, median {np.median(errors):.0f} %, "
            f"worst {errors.max():.0f} %",
            file=sys.stderr,
        )
    return answer


def _share(each: Timed, place: int) -> float:
    return 1.0 - each.share if place else each.share
