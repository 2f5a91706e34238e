"""Whether plans are ranked as servers were measured, and whether the stated probability of an SLO comes true.

    python accuracy/judge_plans.py [--out FILE]       prints markdown; needs the wheel of serving_rows.py

Groups of six or more measured deployments: a *sweep* is one model, format and GPU under one engine at one pair of lengths,
over plans and users; a *choice* is one model at one pair of lengths and one number of users per GPU, over GPUs, formats, engines and
plans. Both are ranked by output tokens per second and GPU. Nothing is fitted here.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

from cases import is_impossible, predicted
from serving_rows import ServingRow, serving_rows

import roofline as rl

_FEWEST = 6
_NEAR = 0.9
_HALF_WIDTH = 1.2816
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
    normal = NormalDist()
    bands: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for each in timed:
        p = each.prediction
        times = {"ttft": (float(p.ttft), p.ttft_interval), "tpot": (float(p.tpot or 0.0), p.tpot_interval)}
        for factor in _LIMITS:
            shares, met = [], True
            for metric, (time, ends) in times.items():
                if ends is None or not ends[0] < time < ends[1]:
                    break
                end = ends[1] if factor >= 1.0 else ends[0]
                shares.append(normal.cdf(_HALF_WIDTH * math.log(factor) / abs(math.log(end / time))))
                met = met and getattr(each.row, metric) <= factor * time
            else:
                stated = math.prod(shares)  # as roofline.questions.ranking.probability
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


def measured_choice(found: Sequence[Sequence[Timed]], draws: int = 200) -> tuple[int, float, float, float]:
    """Mean throughput of the deployment chosen, over the best measured: with no run, one at random, the one worth most.

    Of each group the first deployment of each GPU by prediction competes. A run shows the true throughput of one; then
    the best of it and the predictions of the others is taken. The run worth most has the largest expected gain, from
    the intervals alone.
    """
    draw = random.Random("runs")
    normal = NormalDist()
    shares: list[tuple[float, float, float]] = []
    for group in found:
        by_gpu: dict[str, Timed] = {}
        for each in sorted(group, key=lambda each: -each.predicted):
            by_gpu.setdefault(f"{each.row.gpu} {each.row.quantization}", each)
        kinds = list(by_gpu.values())
        if len(kinds) < 2:
            continue
        best = max(each.measured for each in kinds)

        def after(run: Timed | None, kinds: Sequence[Timed] = kinds, best: float = best) -> float:
            known = {id(each): each.measured if each is run else each.predicted for each in kinds}
            return max(kinds, key=lambda each: known[id(each)]).measured / best

        def worth(run: Timed, kinds: Sequence[Timed] = kinds) -> float:
            others = max(each.predicted for each in kinds if each is not run)
            ends = run.prediction.e2el_interval
            spread = 0.0 if ends is None else math.log(ends[1] / float(run.prediction.e2el)) / _HALF_WIDTH
            fifths = [math.exp(spread * normal.inv_cdf(place / 10.0)) for place in (1, 3, 5, 7, 9)]
            gains = [max(run.predicted * factor, others) for factor in fifths]
            return sum(gains) / len(gains) - max(run.predicted, others)

        chosen = max(kinds, key=worth)
        blind = sum(after(draw.choice(kinds)) for _ in range(draws)) / draws
        shares.append((after(None), blind, after(chosen)))
    count = len(shares)
    none, blind, told = (sum(each[place] for each in shares) / count for place in range(3))
    return count, none, blind, told


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
    lines += ["", "| rows | groups | no run | a random run | the run worth most |", "|---|---|---|---|---|"]
    for split in ("fit", "held out"):
        found = groups([each for each in timed if each.row.split == split], choice)
        count, *shares = measured_choice(found)
        lines.append(f"| {split} | {count} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
    text = "\n".join(lines)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
