"""Whether an engine profile fitted to five runs of a deployment predicts its other runs.

    python accuracy/judge_learning.py [TABLE] [--splits N] [--held-out] [--out FILE]

Deployments with six runs or more: model, GPU, engine and version, plan and formats. Five runs, drawn at random, are
fitted as `roofline calibrate` fits them, and the profile that it writes predicts the others, as `roofline check` does.
The servers are those of the wheel (serving_rows.py). TABLE adds others: a CSV, or CSV.GZ, with the columns source_id,
engine, engine_version, gpu, tp, ep, model, weight_dtype, kv_dtype, isl, osl, batch_or_concurrency, load_kind, metric,
statistic, value and notes, a figure a row. Prints markdown. Nothing is fitted here but the profiles; their priors
(roofline/questions/learn.py) were chosen on the development deployments.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import math
import random
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from cases import is_impossible, kind
from serving_rows import HELD_OUT_GPUS, HELD_OUT_MODELS, serving_rows

import roofline as rl
from roofline.catalog.find import profile_of
from roofline.measurements.results import results
from roofline.numbers.quantity import MILLI
from roofline.questions.check import MeasurementCheck, check_measurement
from roofline.questions.learn import fitted_engine
from roofline.specs.workload import Measurement

FITTED, FEWEST = 5, 6
METRICS = ("ttft", "tpot")
DEPLOYMENT = ("gpu", "model", "engine", "engine_version", "tp", "pp", "ep", "dp", "quantization", "kv_cache_dtype")
COLUMNS = (*DEPLOYMENT, "isl", "osl", "batch", "concurrency", "num_prompts", "ttft_ms", "tpot_ms", "statistic")
#: Sources of a table that are read: static batches of a course, a sweep of NIM, and the SGLang cookbook.
SOURCES = ("dli_static_a100", "dli_static_h100", "dli_static_l40s", "nim_dli", "sgl_cookbook")
#: Sources that do not say how many requests a run has, so that it is read as the steady state: its start is in the TTFT.
OPEN_RUNS = ("nim_dli",)
#: Models whose fake weights send every token to the same experts: no prediction is about that.
FAKE_ROUTING = ("mixtral-8x7b",)


class Run(NamedTuple):
    source: str
    measurement: Measurement
    settings: dict[str, float]  # of the launch script


class Figure(NamedTuple):
    """A time of a run that was not fitted, beside both predictions: logarithms of measured over predicted."""

    source: str
    kind: str  # of model
    deployment: str
    metric: str
    shipped: float
    fitted: float
    was_inside: bool  # the 80 % range of the shipped profile
    is_inside: bool


def server_rows(split: str) -> Iterator[tuple[str, dict[str, Any], dict[str, float]]]:
    """Rows of the wheel in the columns that users write."""
    for row in serving_rows(impossible=is_impossible):
        if row.excluded is None and row.split == split:
            cells = {name: getattr(row, name) for name in DEPLOYMENT if name not in ("engine_version", "quantization")}
            yield (
                f"servers of the wheel, {row.source}",
                {
                    **cells,
                    "engine_version": row.profile.partition("@")[2],
                    "quantization": row.quantization or "",
                    "isl": row.mean_isl,
                    "osl": row.mean_osl,
                    "concurrency": row.concurrency,
                    "num_prompts": row.prompts_per_user * row.concurrency,
                    "ttft_ms": row.ttft / MILLI,
                    "tpot_ms": row.tpot / MILLI,
                    "statistic": "mean",
                },
                row.settings,
            )


def table_rows(path: str) -> Iterator[tuple[str, dict[str, Any], dict[str, float]]]:
    """Rows of a table of published figures in the columns that users write."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else Path(path).open(encoding="utf-8") as file:
        for raw in csv.DictReader(file):
            source = raw["source_id"]
            metric = {"ttft_ms": "ttft_ms", "tpot_ms": "tpot_ms", "itl_ms": "tpot_ms"}.get(raw["metric"])
            if source not in SOURCES or metric is None or not raw["tp"]:
                continue
            is_cookbook = source == "sgl_cookbook"
            if is_cookbook and (_noted(raw, "spec_decode") != "no flag seen" or raw["statistic"] != "median"):
                continue
            load = "batch" if raw["load_kind"] == "static_batch" else "concurrency"
            eight_bit = "" if is_cookbook else "fp8_static"  # the cookbook runs checkpoints as they are
            weights = {"fp8": eight_bit, "fp16": "", "bf16": "", "checkpoint-native": ""}
            row = {
                "gpu": raw["gpu"],
                "model": raw["model"],
                "engine": raw["engine"],
                "engine_version": raw["engine_version"].rstrip("+"),
                "tp": int(float(raw["tp"])),
                "pp": 1,
                "ep": max(int(float(raw["ep"] or 1)), 1),
                "dp": 1,
                "quantization": weights.get(raw["weight_dtype"], raw["weight_dtype"]),
                "kv_cache_dtype": "fp8" if raw["kv_dtype"] == "fp8" else "",
                "isl": float(_noted(raw, "isl_actual_mean") or raw["isl"]),
                "osl": float(_noted(raw, "osl_actual_mean") or raw["osl"]),
                load: float(raw["batch_or_concurrency"]),
                "num_prompts": _noted(raw, "n_requests") if is_cookbook else "",
                "statistic": raw["statistic"],
            }
            found.setdefault((source, *row.items()), row)[metric] = raw["value"]
    for key, row in found.items():
        if "ttft_ms" in row and "tpot_ms" in row:
            yield key[0], row, {}


def _noted(raw: dict[str, str], name: str) -> str:
    match = re.search(rf"(?:^|; ){name}=([^;]*)", raw["notes"])
    return match[1] if match else ""


def deployments(rows: Iterable[tuple[str, dict[str, Any], dict[str, float]]]) -> Iterator[list[Run]]:
    """Runs of each deployment that has enough of them, read as a user's CSV is."""
    groups: dict[tuple[Any, ...], list[tuple[str, dict[str, Any], dict[str, float]]]] = {}
    for source, row, settings in rows:
        groups.setdefault((source, *(row[name] for name in DEPLOYMENT)), []).append((source, row, settings))
    for members in groups.values():
        if len(members) < FEWEST:
            continue
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS)
        writer.writeheader()
        writer.writerows(row for _, row, _ in members)
        reading = results(text.getvalue().encode(), members[0][0])
        assert not reading.faults, reading.faults
        yield [
            Run(source, measurement, settings)
            for measurement, (source, _, settings) in zip(reading.measurements, members, strict=True)
        ]


def checked(run: Run, engine: str | None = None) -> MeasurementCheck:
    """A run beside its prediction, with the profile of its engine or another one."""
    measured = run.measurement
    own = profile_of(measured.engine, measured.engine_version)
    return check_measurement(measured, engine=engine or own, **run.settings)


def judged(runs: Sequence[Run], splits: int, folder: Path) -> Iterator[Figure]:
    """Figures of the runs that were not fitted, over several draws of those that are."""
    shipped = [checked(run) for run in runs]
    named = " ".join(str(getattr(runs[0].measurement, name) or "-") for name in DEPLOYMENT)
    of_model = kind(shipped[0].expected.deployment.model)
    path = folder / "fitted.yaml"
    draw = random.Random(named)
    for _ in range(splits):
        order = draw.sample(range(len(runs)), len(runs))
        fit = fitted_engine([shipped[place] for place in order[:FITTED]], name="fitted")
        path.write_text(fit.text, encoding="utf-8")
        for place in order[FITTED:]:
            again = checked(runs[place], str(path))
            for metric in METRICS:
                before, after = shipped[place].ratio(metric), again.ratio(metric)
                if before is not None and after is not None:
                    yield Figure(
                        runs[place].source,
                        of_model,
                        named,
                        metric,
                        math.log(before),
                        math.log(after),
                        bool(shipped[place].inside(metric)),
                        bool(again.inside(metric)),
                    )


def is_held_out(runs: Sequence[Run]) -> bool:
    """Whether the GPU or the model of a deployment is held out."""
    deployment = checked(runs[0]).expected.deployment
    return deployment.gpu.name in HELD_OUT_GPUS or deployment.model.short_name.startswith(HELD_OUT_MODELS)


def is_judged(runs: Sequence[Run]) -> bool:
    """Whether the catalog has model and GPU, and the experts are chosen by real weights."""
    try:
        return checked(runs[0]).expected.deployment.model.short_name not in FAKE_ROUTING
    except rl.RooflineError:
        return False


def lines(figures: Sequence[Figure]) -> Iterator[str]:
    """Markdown: a row for each source, kind of model and metric, with the worst deployment of each."""
    yield "| runs | figure | deployments | figures | shipped | in 80 % | fitted | in 80 % | median of medians | worst |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    slices = {source: [each for each in figures if each.source == source] for source in _named(figures, "source")}
    others = [each for each in figures if each.source not in OPEN_RUNS]
    slices["all"] = list(figures)
    slices[f"all but {', '.join(OPEN_RUNS)}"] = others
    slices |= {f"{name}, of these": [each for each in others if each.kind == name] for name in _named(others, "kind")}
    for name, members in slices.items():
        for metric in METRICS:
            chosen = [each for each in members if each.metric == metric]
            by_deployment: dict[str, list[float]] = {}
            for each in chosen:
                by_deployment.setdefault(each.deployment, []).append(abs(each.fitted))
            medians = {deployment: median(errors) for deployment, errors in by_deployment.items()}
            worst = max(medians, key=medians.__getitem__)
            yield "| " + " | ".join(
                (
                    name, metric.upper(), str(len(medians)), str(len(chosen)),
                    _errors(each.shipped for each in chosen), _share(each.was_inside for each in chosen),
                    _errors(each.fitted for each in chosen), _share(each.is_inside for each in chosen),
                    f"{100.0 * median(medians.values()):.1f}", f"{100.0 * medians[worst]:.0f} {worst}",
                )
            ) + " |"  # fmt: skip


def _named(figures: Iterable[Figure], field: str) -> list[str]:
    return list(dict.fromkeys(getattr(figure, field) for figure in figures))


def _errors(logarithms: Iterable[float]) -> str:
    """Median and mean of |predicted / measured - 1| [%]."""
    errors = [100.0 * abs(math.expm1(-each)) for each in logarithms]
    return f"{median(errors):.1f} / {fmean(errors):.1f}"


def _share(flags: Iterable[bool]) -> str:
    known = list(flags)
    return f"{100.0 * sum(known) / len(known):.0f}"


def all_figures(table: str | None, splits: int, split: str = "fit") -> list[Figure]:
    """Figures of all deployments, or of the held-out ones."""
    rows = [*server_rows(split), *(() if table is None else table_rows(table))]
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for runs in deployments(rows):
            if is_judged(runs) and is_held_out(runs) == (split != "fit"):
                figures += judged(runs, splits, Path(folder))
    return figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", help="further published figures")
    parser.add_argument("--splits", type=int, default=4, help="draws of five runs for each deployment")
    parser.add_argument("--held-out", action="store_true", help="held-out GPUs and models instead")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = "\n".join(lines(all_figures(options.table, options.splits, "held out" if options.held_out else "fit")))
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
