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
from typing import Any, NamedTuple

import roofline as rl
from roofline.questions.disaggregate import Disaggregation
from roofline.serving.latency import Workload, lengths_by_law
from roofline.serving.load.pools import KvLink, Pooled, Pools, outside_pools, pooled
from roofline.serving.load.simulation import Arrivals, pools_simulated, simulated_latencies
from roofline.specs.load import Rate, Users
from roofline.specs.workload import JUDGED

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


class Ranges(NamedTuple):
    """What lengths and loads are drawn from."""

    isl: tuple[float, float]  # [tokens] least and most
    osl: tuple[float, float]
    spreads: tuple[tuple[float, float], ...]  # of prompts and answers
    utils: tuple[float, ...]
    users: tuple[int, ...]


#: Near the validated range; and of docs/load.md.
NEAR = Ranges((300, 12_000), (50, 800), SPREADS, UTILS, USERS)
WIDE = Ranges((32, 32_000), (1, 4000), (*SPREADS, (1.0, 0.3), (1.5, 1.5)), (0.1, *UTILS, 0.9), (1, *USERS, 256, 512))


class Case(NamedTuple):
    """Two pools, what comes to them, and their closed forms."""

    what: str
    pools: Pools
    workload: Workload
    arrivals: Arrivals
    found: Pooled

    @property
    def is_outside(self) -> bool:
        """Whether it lies outside the validated range."""
        return any(fails for fails, _ in outside_pools(self.pools, self.workload, self.found))


def drawn(seed: int, *, of_users: bool, ranges: Ranges = NEAR) -> Case:
    """A case at random."""
    draw = random.Random(seed)
    model, prefill, decode = draw.choice(POOLS)
    engine = draw.choice(ENGINES)
    isl, osl = (
        float(round(math.exp(draw.uniform(math.log(least), math.log(most)))))
        for least, most in (ranges.isl, ranges.osl)
    )
    spread = draw.choice(ranges.spreads)
    lengths = lengths_by_law("lognormal", *spread)
    first, second = (rl.predict(model, pool, isl=1000, osl=100, engine=engine).deployment for pool in (prefill, decode))
    pools = Pools(first, second, KvLink("rdma", draw.choice(LINKS), draw.random() < 0.3))
    workload = Workload(isl, osl, Rate(1e-6), lengths=lengths)
    most = float(pooled(pools, workload).max_request_rate)
    if of_users:
        users = draw.choice(ranges.users)
        if lengths.answers.cv == 0.0:
            lengths = lengths_by_law("uniform", USERS_CV, USERS_CV)
        workload = Workload(isl, osl, Users(float(users)), lengths=lengths)
        arrivals = Arrivals(max(4000, 20 * users), users=users, lengths=lengths, seed=seed)
    else:
        rate = draw.choice(ranges.utils) * most
        workload = replace(workload, load=Rate(rate))
        arrivals = Arrivals(12_000, rate=rate, lengths=lengths, seed=seed)
    found = pooled(pools, workload)
    load = f"{workload.concurrency:g} users" if of_users else f"{float(found.request_rate) / most:.1f} of the most"
    what = f"{seed} {model} {prefill} {decode} {engine} {isl:g}/{osl:g} cv {spread} {load}"
    return Case(what, pools, workload, arrivals, found)


def judged(case: Case, keys: tuple[str, ...] = JUDGED) -> dict[str, float]:
    """Closed form over simulation by latency; infinite where the closed form is refused or not known."""
    seen = simulated_latencies(pools_simulated(case.pools, case.workload, case.arrivals))
    closed = Disaggregation(case.pools, case.workload, case.found)
    return {
        key: (math.inf if not case.found.is_stable or (time := closed.latency(key)) is None else time / seen[key])
        for key in keys
        if key in seen
    }


def main() -> None:
    """Print every case, and how far all of them, and those inside the domain, are off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=401, help="first seed")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--users", action="store_true", help="users who ask again, instead of random arrivals")
    options = parser.parse_args()
    answers: list[tuple[bool, dict[str, float]]] = []
    for seed in range(options.first, options.first + options.cases):
        case = drawn(seed, of_users=options.users)
        ratios = judged(case)
        answers.append((not case.is_outside, ratios))
        shown = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
        print(f"{case.what}{' (outside)' if case.is_outside else ''}: {shown}", flush=True)
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
