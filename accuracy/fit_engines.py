"""Fits the engine profiles generic, trtllm, vllm and sglang, and prints what their files state.

    python accuracy/fit_engines.py [ENGINE ...] [--only NAME ... | --leave-out]

What an idle server takes: `request` and `launch` bring the TTFT of single requests (tests/measured/published.csv)
nearest to the measured ones. What users add: each row of the wheel's servers is predicted as users in a run with the
limits that its launch script set (serving_rows.py), and five constants bring TTFT and TPOT nearest. Each takes the other
as known, in turn, until both stay; priors are written here, so that the answer does not depend on what the files state.
With `--only` some of these constants are sought and all others taken as the profiles state them. With `--leave-out` the
constants that users add are sought without the rows of one GPU or of one model, which they are then judged by, each in
turn (slow versions and what an idle server takes as the profiles state them). Kernels are not touched. Rows of held-out GPUs and models are left out, and single requests to GPUs whose own kernels were not timed:
what remains there is not the server's alone.
Needs the extras `accuracy` and `calibrate`; takes some minutes an engine.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from cases import is_held_out, is_idle_evidence, is_impossible, predicted, published_prediction, table_rows
from scipy.optimize import least_squares
from serving_rows import ServingRow, serving_rows

import roofline as rl
from roofline.catalog.find import load_engine
from roofline.numbers.quantity import MILLI
from roofline.serving.latency import decode, prefill
from roofline.serving.load.steady import served

ENGINES = ("trtllm", "trtllm-1.0", "vllm", "sglang", "generic")
LOSS_SCALE = 0.1

#: Constants of an idle server: where their priors stand [s], and how wide those are, in logarithms.
IDLE = {"request": (8e-3, 0.5), "launch": (40e-6, 0.5)}

#: Constants of the profile `eager`.
EAGER = {"launch": (100e-6, 0.5), "launch_decode": (30e-6, 0.5), "compute": (0.7, 0.5)}

#: Constants that users add: where their priors stand [s], and how wide those are, in logarithms.
LOADED = {
    "arrival": (8e-3, 1.0),  # of one other that decodes
    "prefill": (8e-3, 1.5),
    "prefill_slowdown": (1.3, 0.3),
    "step": (0.1e-3, 1.5),
    "sequence": (5e-6, 1.5),
    "all_reduce": (2e-6, 1.5),  # of ranks that wait for the slowest
}
#: Constants of an idle server that servers with users tell better: the engine has too few single requests.
FROM_USERS = {"trtllm": ("launch",)}
#: Change of the logarithm of a constant, in a round, below which it has settled: SGLang's step is known to 6 % only.
STAYS = 0.08
MOST_ROUNDS = 15
LEAST_ROWS = 40  # to fit constants on
TTFT_WEIGHT = 0.5  # a first token scatters more than a step
#: Some runs take several times longer to a first token than any term explains: they must not pull.
LOADED_LOSS = "cauchy"


def has_constants(row: ServingRow, engine: str) -> bool:
    """Whether a profile holds for the version of the row's engine."""
    return load_engine(row.profile).versions == load_engine(engine).versions


def single_requests(engine: str) -> list[tuple[rl.Prediction, float, str]]:
    """Cases of single requests to an idle server, their TTFT [s] and the profile of their engine."""
    found = []
    for row in table_rows():
        if row["load"] != "concurrency-1" or not row["ttft_ms"]:
            continue
        case = published_prediction(row)
        name = case.deployment.engine.family
        if is_idle_evidence(row, case) and engine in (name, "generic"):
            found.append((case, float(row["ttft_ms"]) * MILLI, name))
    return found


def fitted_eager() -> dict[str, float]:
    """What the host adds where no CUDA graph is replayed, and the share of the peak that AWQ's GEMM keeps."""
    known = []
    for row in table_rows():
        case = published_prediction(row)
        if case.deployment.engine.name == "eager" and not is_held_out(case):
            for name in ("ttft", "tpot"):
                if row[f"{name}_ms"]:
                    known.append((case, name, float(row[f"{name}_ms"]) * MILLI, (row["engine"], name)))
    weight = _equal([program for *_, program in known])

    def off(constants: dict[str, float]) -> Any:
        tuning = replace(load_engine("eager").tunings[0], compute=constants["compute"])
        logs = []
        for case, name, measured, _ in known:
            own = replace(
                case.deployment.engine,
                launch=constants["launch"],
                launch_decode=constants["launch_decode"],
                tunings=(tuning,),
            )
            passed = (prefill if name == "ttft" else decode)(replace(case.deployment, engine=own), case.workload)
            logs.append(np.log(float(passed.time) / measured))
        return weight * np.asarray(logs)

    centre, width = np.asarray(list(EAGER.values())).T
    return _nearest(tuple(EAGER), np.log(centre), width, off, [-np.inf] * 3, [np.inf, np.inf, 0.0], LOSS_SCALE)


def fitted_idle(engine: str, loaded: dict[str, float]) -> dict[str, float]:
    """What an idle server takes, given what users add."""
    known = single_requests(engine)
    weight = _equal([name for _, _, name in known])

    def off(constants: dict[str, float]) -> Any:
        times = []
        for case, _, _ in known:
            own = replace(case.deployment.engine, **loaded, **constants)
            times.append(float(prefill(replace(case.deployment, engine=own), case.workload).time))
        return weight * np.log(np.asarray(times) / np.asarray([measured for _, measured, _ in known]))

    sought = [name for name in IDLE if name not in loaded]
    centre, width = np.asarray([IDLE[name] for name in sought]).T
    return _nearest(sought, np.log(centre), width, off, [-np.inf] * len(sought), [np.inf] * len(sought), LOSS_SCALE)


def fitted_loaded(
    rows: list[ServingRow], engine: str, idle: dict[str, float], start: dict[str, float]
) -> dict[str, float]:
    """What users add, by the names in `start`, given what an idle server takes; all else as the profile states."""
    known = [(row, predicted(row, engine if engine == "generic" else None)) for row in rows]
    known = [(row, found) for row, found in known if found.served and not _waits(found)]
    counts = Counter(row.engine for row, _ in known)
    weight = np.asarray(
        [(len(known) / 3.0 / counts[row.engine]) ** 0.5 if engine == "generic" else 1.0 for row, _ in known]
    )

    def off(constants: dict[str, float]) -> Any:
        first, step = [], []
        for row, found in known:
            own = replace(found.deployment.engine, **idle, **constants)
            again = served(replace(found.deployment, engine=own), found.workload, found.served.state)
            first.append(_off(again.ttft / row.ttft))
            step.append(_off(again.tpot / row.tpot))
        return np.concatenate([TTFT_WEIGHT * weight * np.asarray(first), weight * np.asarray(step)])

    centre, width = np.asarray([{**IDLE, **LOADED}[name] for name in start]).T
    low = [0.0 if name == "prefill_slowdown" else -np.inf for name in start]
    prior = LOSS_SCALE * len(known) ** 0.5 / 10.0
    return _nearest(
        tuple(start), np.log(centre), width, off, low, [np.inf] * len(start), prior, start, loss=LOADED_LOSS
    )


def left_out(rows: list[ServingRow], engine: str, field: str) -> Iterator[tuple[str, list[float], list[float]]]:
    """Each GPU or model, judged by constants that the others were fitted on: |error| [%] of TTFT and of TPOT."""
    stated = load_engine(engine)
    idle = {name: getattr(stated, name) for name in IDLE}
    start = {name: centre for name, (centre, _) in LOADED.items()}
    for name in sorted({getattr(row, field) for row in rows}):
        rest = [row for row in rows if getattr(row, field) != name]
        if len(rest) < LEAST_ROWS:
            continue
        constants = {**idle, **fitted_loaded(rest, engine, idle, start)}
        errors: tuple[list[float], list[float]] = [], []
        for row in rows:
            if getattr(row, field) == name:
                found = predicted(row)
                own = replace(found.deployment.engine, **constants)
                again = served(replace(found.deployment, engine=own), found.workload)
                for of, ratio in zip(errors, (again.ttft / row.ttft, again.tpot / row.tpot), strict=True):
                    of.append(100.0 * abs(float(ratio) - 1.0))
        yield name, *errors


def print_left_out(rows: list[ServingRow], engines: Sequence[str]) -> None:
    """Print the errors of all that was left out, and those of all rows together."""
    for field in ("gpu", "model"):
        every: tuple[list[float], list[float]] = [], []
        for engine in engines:
            mine = [row for row in rows if has_constants(row, engine)]
            for name, ttft, tpot in left_out(mine, engine, field):
                print(f"{engine} without {name}: {_errors(ttft, tpot)}", flush=True)
                every[0].extend(ttft)
                every[1].extend(tpot)
        print(f"each {field} left out: {_errors(*every)}", flush=True)


def _errors(ttft: list[float], tpot: list[float]) -> str:
    texts = [f"{name} {np.median(of):.1f} / {np.mean(of):.1f} %" for name, of in (("TTFT", ttft), ("TPOT", tpot)) if of]
    return f"{len(ttft)} rows, median / mean {', '.join(texts)}"


def fitted(rows: list[ServingRow], engine: str) -> dict[str, float]:
    """All constants of a profile, where those of an idle and of a loaded server agree."""
    loaded = {name: centre for name, (centre, _) in LOADED.items()}
    loaded |= {name: IDLE[name][0] for name in FROM_USERS.get(engine, ())}
    before: dict[str, float] = {}
    for _ in range(MOST_ROUNDS):
        idle = fitted_idle(engine, loaded)
        loaded = fitted_loaded(rows, engine, idle, loaded)
        now = {**idle, **loaded}
        if before and max(abs(np.log(now[name] / before[name])) for name in now) < STAYS:
            return now
        before = now
    raise SystemExit(f"{engine}: no fixed point in {MOST_ROUNDS} rounds: {before}")


def _off(ratio: float) -> float:
    """How far a prediction is off: between the logarithm, which minds neither direction, and the relative error."""
    return 2.0 * (ratio**0.5 - 1.0)


def _equal(names: Sequence[Any]) -> Any:
    """Weights of residuals that give everything named as much say, however many rows it has."""
    return np.asarray([(len(names) / len(set(names)) / names.count(name)) ** 0.5 for name in names])


def _nearest(
    names: Sequence[str],
    centre: Any,
    width: Any,
    off: Callable[[dict[str, float]], Any],
    low: Sequence[float],
    high: Sequence[float],
    prior: float,
    first: dict[str, float] | None = None,
    loss: str = "soft_l1",
) -> dict[str, float]:
    """Constants whose residuals are least, under a robust loss, with a prior in logarithms; sought from `first`."""

    def residuals(point: Any) -> Any:
        constants = dict(zip(names, map(float, np.exp(point)), strict=True))
        return np.concatenate([off(constants), prior * (point - centre) / np.asarray(width)])

    names = tuple(names)
    start = centre if first is None else np.log([first[name] for name in names])
    start = np.clip(start, np.asarray(low) + 1e-3, np.asarray(high) - 1e-3)
    found = least_squares(residuals, start, bounds=(low, high), loss=loss, f_scale=LOSS_SCALE, xtol=1e-4, ftol=1e-4)
    return dict(zip(names, map(float, np.exp(found.x)), strict=True))


def _waits(found: rl.Prediction) -> bool:
    """Whether requests wait for memory: their first tokens say nothing of the engine."""
    return bool(found.served and found.served.waiting_share > 0.0)


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description="Fits the engine profiles.")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", default=(*ENGINES, "eager"))
    parser.add_argument("--only", nargs="+", choices=LOADED, metavar="NAME", default=())
    parser.add_argument("--leave-out", action="store_true", help="judge by GPUs and models that the fit has not seen")
    options = parser.parse_args()
    rows = [row for row in serving_rows(impossible=is_impossible) if row.excluded is None and row.split == "fit"]
    print(f"{len(rows)} rows of servers with users")
    if options.leave_out:
        print_left_out(rows, [engine for engine in options.engines if engine not in ("eager", "generic")])
        return
    for engine in options.engines:
        if engine == "eager":
            for name, value in fitted_eager().items():
                print(f"eager.{name}: {value:.3g}")
            continue
        mine = [row for row in rows if engine == "generic" or has_constants(row, engine)]
        stated = {name: getattr(load_engine(engine), name) for name in options.only}
        found = fitted_loaded(mine, engine, {}, stated) if stated else fitted(mine, engine)
        for name, value in found.items():
            print(f"{engine}.{name}: {value:.3g}", flush=True)


if __name__ == "__main__":
    main()
