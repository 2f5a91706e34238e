"""Judges the closed forms of two pools by a simulation of every pass, transfer and step: docs/method.md, "Separate pools".

    python accuracy/judge_pools.py [--first 401] [--cases 60] [--users]

Pools, lengths, links and loads are drawn at random by seed. Both sides read the same step times, so that what is judged
is the algebra alone. Prints closed form over simulation for every case, and means; takes a minute or two.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from dataclasses import replace
from typing import Any

import roofline as rl
from roofline.serving.latency import Workload, lengths_by_law
from roofline.serving.load.mixtures import percentile
from roofline.serving.load.pools import KvLink, Pools, pool_tails, pooled, pools_outside
from roofline.serving.load.simulation import Arrivals, pools_simulated
from roofline.specs.load import Rate, Users

POOLS = (
    ("llama-3.1-8b", "h100-sxm:tp1x2", "a100-sxm-80gb:tp1x3"),
    ("llama-3.3-70b", "b200:tp2:fp8x2", "h100-sxm:tp4:fp8x3"),
    ("llama-3.3-70b", "h100-sxm:tp4:fp8x3", "h100-sxm:tp4:fp8x1"),
    ("qwen3-32b", "b200:tp1:fp8x1", "l40s:tp4:fp8x4"),
    ("gpt-oss-120b", "b200:tp1x2", "h100-sxm:tp2x2"),
    ("deepseek-r1", "b200:tp8x2", "b200:tp8x2"),
    ("deepseek-r1", "b200:dp8ep8", "b200:dp8ep8"),
    ("llama-3.1-8b", "h100-sxm:tp1x1", "b200:tp1x1"),
    ("qwen3-235b-a22b", "b200:tp4:fp8x2", "h200:tp8:fp8x2"),
)
ENGINES = ("trtllm", "vllm", "generic", "sglang")
SPREADS = ((0.0, 0.0), (0.0, 0.0), (0.3, 0.3), (0.0, 1.0))  # of prompts and answers
LINKS = (50e9, 25e9, 6e9, math.inf)
UTILS = (0.2, 0.5, 0.7, 0.8)
USERS = (2, 4, 8, 16, 32, 64, 128)
USERS_CV = 0.17  # where none is drawn: equal lengths would keep users in step


def judged(seed: int, *, of_users: bool) -> tuple[str, bool, dict[str, float]]:
    """What a case is, whether it lies inside the domain, and closed form over simulation by latency."""
    draw = random.Random(seed)
    model, prefill, decode = draw.choice(POOLS)
    engine = draw.choice(ENGINES)
    isl = float(round(math.exp(draw.uniform(math.log(300), math.log(12_000)))))
    osl = float(round(math.exp(draw.uniform(math.log(50), math.log(800)))))
    spread = draw.choice(SPREADS)
    lengths = lengths_by_law("lognormal", *spread)
    first, second = (
        rl.predict(model, pool, isl=1000, osl=100, request_rate=1e-3, engine=engine).deployment
        for pool in (prefill, decode)
    )
    pools = Pools(first, second, KvLink("rdma", draw.choice(LINKS), draw.random() < 0.3))
    workload = Workload(isl, osl, Rate(1e-6), lengths=lengths)
    most = float(pooled(pools, workload).max_request_rate)
    if of_users:
        users = draw.choice(USERS)
        if lengths.answers.cv == 0.0:
            lengths = lengths_by_law("uniform", USERS_CV, USERS_CV)
        workload = Workload(isl, osl, Users(float(users)), lengths=lengths)
        arrivals = Arrivals(max(4000, 20 * users), users=users, lengths=lengths, seed=seed)
    else:
        rate = draw.choice(UTILS) * most
        workload = replace(workload, load=Rate(rate))
        arrivals = Arrivals(12_000, rate=rate, lengths=lengths, seed=seed)
    found = pooled(pools, workload)
    spreads = pool_tails(pools, workload, found)
    seen = pools_simulated(pools, workload, arrivals)
    ratios: dict[str, float] = {}
    for name in ("ttft", "tpot"):
        times = sorted(time for each in seen if not math.isnan(time := getattr(each, name)))
        ratios[name] = float(getattr(found, name)) / statistics.fmean(times)
        p99 = float(percentile(getattr(spreads, name), 99.0))
        ratios[f"{name}_p99"] = p99 / times[int(0.99 * len(times))]
    load = f"{workload.concurrency:g} users" if of_users else f"{float(found.request_rate) / most:.1f} of the most"
    what = f"{seed} {model} {prefill} {decode} {engine} {isl:g}/{osl:g} cv {spread} {load}"
    return what, "inside" in pools_outside(pools, workload, found).split(" the ")[0], ratios


def main() -> None:
    """Print every case, and how far all of them, and those inside the domain, are off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=401, help="first seed")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--users", action="store_true", help="users who ask again, instead of random arrivals")
    options = parser.parse_args()
    answers: list[tuple[bool, dict[str, float]]] = []
    for seed in range(options.first, options.first + options.cases):
        what, is_inside, ratios = judged(seed, of_users=options.users)
        answers.append((is_inside, ratios))
        shown = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
        print(f"{what}{'' if is_inside else ' (outside)'}: {shown}", flush=True)
    for title, chosen in (("all", answers), ("inside", [each for each in answers if each[0]])):
        print(title, len(chosen), *(_summary(name, [ratios[name] for _, ratios in chosen]) for name in answers[0][1]))


def _summary(name: Any, ratios: list[float]) -> str:
    off = [100.0 * abs(ratio - 1.0) for ratio in ratios]
    near = 15.0 if name.endswith("p99") else 5.0
    within = sum(each <= near for each in off)
    return (
        f"| {name} median {statistics.median(off):.1f} mean {statistics.fmean(off):.1f} %, {within} within {near:g} %"
    )


if __name__ == "__main__":
    main()
