"""Whether plans are ranked as servers were measured, and whether the stated probability of an SLO comes true.

    python accuracy/judge_plans.py [--out FILE]       prints markdown; needs the wheel of serving_rows.py

Groups of six or more measured deployments: a *sweep* is one model, format and GPU under one engine at one pair of lengths,
over plans and users; a *choice* is one model at one pair of lengths and one number of users per GPU, over GPUs, formats, engines and
plans. Both are ranked by output tokens per second and GPU. Nothing is fitted here.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from cases import is_impossible, predicted
from serving_rows import ServingRow, serving_rows

import roofline as rl
from roofline.questions.ranking import probability
from roofline.specs.workload import Limits
from roofline.support.records import replace

_FEWEST = 6
_NEAR = 0.9
_USERS = 64  # times the users per GPU of a group
_LIMITS = (0.6, 0.8, 0.9, 1.0, 1.1, 1.25, 1.6)  # over the predicted time
_BANDS = (0.0, 0.1, 0.25, 0.4, 0.6, 0.75, 0.9, 1.0)


class Timed:
    """A measured deployment beside its prediction."""

    def __init__(self, row: ServingRow) -> None:
        self.row = row
        self.prediction: rl.Prediction = predicted(row)
        users, gpus, gaps = row.concurrency, row.num_gpus, row.mean_osl - 1.0
        self.measured = users * row.mean_osl / (row.ttft + gaps * row.tpot) / gpus
        p = self.prediction
        self.predicted = users * row.mean_osl / (float(p.ttft) + gaps * float(p.tpot or 0.0)) / gpus


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from one, ties in the middle."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    place = 0
    while place < len(order):
        end = place
        while end + 1 < len(order) and values[order[end + 1]] == values[order[place]]:
            end += 1
        for each in order[place : end + 1]:
            found[each] = (place + end) / 2.0 + 1.0
        place = end + 1
    return found


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's, of two lists; NaN where one is constant."""
    one, other = ranks(left), ranks(right)
    mean = (len(one) + 1) / 2.0
    top = sum((a - mean) * (b - mean) for a, b in zip(one, other, strict=True))
    bottom = math.sqrt(sum((a - mean) ** 2 for a in one) * sum((b - mean) ** 2 for b in other))
    return top / bottom if bottom else math.nan


def groups(timed: Sequence[Timed], key: Callable[[ServingRow], Any]) -> list[list[Timed]]:
    """Groups of six or more deployments."""
    found: dict[Any, list[Timed]] = defaultdict(list)
    for each in timed:
        found[key(each.row)].append(each)
    return [group for group in found.values() if len(group) >= _FEWEST]


def sweep(row: ServingRow) -> tuple[Any, ...]:
    return row.model, row.quantization, row.gpu, row.engine, row.isl, row.osl, row.source


def choice(row: ServingRow) -> tuple[Any, ...]:
    return row.model, row.isl, row.osl, row.concurrency / row.num_gpus


def judged(found: Sequence[Sequence[Timed]]) -> tuple[int, float, float, float]:
    """Groups, median rank correlation, share in which the predicted best reaches 90 % of the best measured, worst share."""
    correlations, reached = [], []
    for group in found:
        known = rank_correlation([each.predicted for each in group], [each.measured for each in group])
        if not math.isnan(known):
            correlations.append(known)
        best = max(group, key=lambda each: each.predicted)
        reached.append(best.measured / max(each.measured for each in group))
    near = sum(share >= _NEAR for share in reached) / len(reached)
    return len(found), median(correlations), near, min(reached)


def reliability(timed: Sequence[Timed]) -> list[tuple[str, int, float, float]]:
    """Band of the stated probability, limits, mean probability, and share of them that the measurement met.

    Limits on TTFT and TPOT together, at factors of both predicted times.
    """
    bands: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for each in timed:
        times = {"ttft": float(each.prediction.ttft), "tpot": float(each.prediction.tpot or 0.0)}
        for factor in _LIMITS:
            limits = Limits({metric: factor * time for metric, time in times.items()})
            stated = probability(replace(each.prediction, slo=limits))
            if stated is None:
                continue
            met = all(getattr(each.row, metric) <= limit for metric, limit in limits.items())
            band = max(place for place, low in enumerate(_BANDS[:-1]) if stated >= low)
            bands[band].append((stated, met))
    return [
        (
            f"{_BANDS[band]:g} to {_BANDS[band + 1]:g}",
            len(pairs),
            sum(stated for stated, _ in pairs) / len(pairs),
            sum(met for _, met in pairs) / len(pairs),
        )
        for band, pairs in sorted(bands.items())
    ]


def kinds_of(timed: Sequence[Timed]) -> list[dict[str, list[Timed]]]:
    """Groups of one model, format, lengths and users per GPU, by GPU, where two kinds or more were measured."""
    found: dict[Any, dict[str, list[Timed]]] = defaultdict(lambda: defaultdict(list))
    for each in timed:
        key = (
            each.row.model,
            each.row.quantization,
            each.row.isl,
            each.row.osl,
            each.row.concurrency / each.row.num_gpus,
        )
        found[key][each.row.gpu].append(each)
    return [by_gpu for by_gpu in found.values() if len(by_gpu) > 1]


def decisions(timed: Sequence[Timed]) -> tuple[int, float, float, float, int]:
    """Rent of the kind of GPU chosen, over the least, with no run, a random run, and the first of `next_measurement`.

    In each group the GPUs are planned for 64 times its users per GPU, within 1.5 times the median predicted TTFT and 1.25
    times the median TPOT of the group. What a kind costs in truth is the fewest GPUs for limits divided by the median of
    measured over predicted time of its rows; where no number meets them, the most that any kind costs in the group. A run
    shows that bill for one kind. Last comes the number of groups in which a run could change the choice.
    """
    shares: list[tuple[float, float, float]] = []
    for by_gpu in kinds_of(timed):
        every = [each for rows in by_gpu.values() for each in rows]
        row = every[0].row
        limits = {
            "ttft": 1.5 * median(float(each.prediction.ttft) for each in every),
            "tpot": 1.25 * median(float(each.prediction.tpot or 0.0) for each in every),
        }
        case: dict[str, Any] = {
            "isl": row.mean_isl, "osl": max(row.mean_osl, 2.0), "quantization": row.quantization,
            "concurrency": max(round(_USERS * row.concurrency / row.num_gpus), 1),
        }  # fmt: skip
        try:
            runs = rl.next_measurement(rl.plan(row.model, list(by_gpu), slo=limits, **case))
        except rl.RooflineError:
            continue
        if len(runs) < 2:
            continue
        bills: dict[str, float | None] = {}
        for run in runs:
            rows = by_gpu[run.plan.gpu.name]
            factors = {
                metric: median(getattr(each.row, metric) / float(getattr(each.prediction, metric)) for each in rows)
                for metric in limits
            }
            truly = {metric: limit / factors[metric] for metric, limit in limits.items()}
            (plan, *_) = rl.plan(row.model, run.plan.gpu.name, slo=truly, **case).plans
            bills[run.plan.gpu.name] = plan.usd_per_hour
        known = [bill for bill in bills.values() if bill is not None]
        if not known:
            continue
        true = {gpu: max(known) if bill is None else bill for gpu, bill in bills.items()}
        expected = {run.plan.gpu.name: run.expected for run in runs}

        def after(
            measured: str | None, true: Mapping[str, float] = true, expected: Mapping[str, float] = expected
        ) -> float:
            seen = {gpu: true[gpu] if gpu == measured else bill for gpu, bill in expected.items()}
            return true[min(seen, key=seen.__getitem__)] / min(true.values())

        random_run = sum(after(gpu) for gpu in true) / len(true)
        shares.append((after(None), random_run, after(runs[0].plan.gpu.name)))
    count = len(shares)
    none, blind, told = (sum(each[place] for each in shares) / max(count, 1) for place in range(3))
    return count, none, blind, told, sum(len(set(each)) > 1 for each in shares)


def main() -> None:
    """Print tables of development and held-out rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    usable = [row for row in serving_rows(impossible=is_impossible) if row.excluded is None]
    usable = [row for row in usable if not row.disaggregated]
    timed = [Timed(row) for row in usable]
    lines = [
        "| rows | groups | how many | median rank correlation | best reaches 90 % | worst |",
        "|---|---|---|---|---|---|",
    ]
    for split in ("fit", "held out"):
        of_split = [each for each in timed if each.row.split == split]
        for name, key in (("sweep", sweep), ("choice", choice)):
            found = groups(of_split, key)
            if found:
                count, correlation, near, worst = judged(found)
                lines.append(f"| {split} | {name} | {count} | {correlation:.3f} | {near:.0%} | {worst:.0%} |")
    lines += ["", "| stated probability | limits | mean stated | came true |", "|---|---|---|---|"]
    for split in ("fit", "held out"):
        of_split = [each for each in timed if each.row.split == split]
        lines += [
            f"| {split}, {band} | {count:,} | {stated:.2f} | {met:.2f} |"
            for band, count, stated, met in reliability(of_split)
        ]
    lines += [
        "",
        "| rows | groups | no run | a random run | `next_measurement` | a run matters in |",
        "|---|---|---|---|---|---|",
    ]
    for split in ("fit", "held out"):
        count, *shares, matters = decisions([each for each in timed if each.row.split == split])
        lines.append(f"| {split} | {count} | " + " | ".join(f"{share:.4f}" for share in shares) + f" | {matters} |")
    text = "\n".join(lines)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
