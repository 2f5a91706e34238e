"""Judges the closed forms of a load by a simulation of every step, and writes docs/load.md and what answers state of it.

    python accuracy/build_load_page.py [--cases 240] [--requests 20000]

Deployments, lengths, budgets and loads are drawn at random from seeds that were not used while the forms were written.
Both sides read the same step times, so that what is judged is the algebra alone. Takes some ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import math
import pickle
import random
import re
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import arrival_processes
import judge_pools
from prose import wrapped

import roofline as rl
from roofline.measurements.arrivals import dispersion
from roofline.physics.plan import Deployment
from roofline.questions.inputs.deployment import drafted
from roofline.serving.capacity import largest_rate
from roofline.serving.latency import EQUAL, Lengths, Workload, lengths_by_law
from roofline.serving.load.equations import MOST_UTIL, outside, saturation, server_of
from roofline.serving.load.limits import limited_latencies
from roofline.serving.load.pools import outside_pools
from roofline.serving.load.regions import (
    BEYOND,
    INSIDE,
    LEAST,
    LONG,
    OUTSIDE,
    POOLS,
    SHORT,
    SINGLE,
    Errors,
    Off,
    by_region,
    leaves,
    pool_region,
)
from roofline.serving.load.server import prompt_of
from roofline.serving.load.simulation import Arrivals, simulated, simulated_latencies
from roofline.serving.load.steady import served
from roofline.specs.arrivals import LEAST_BUSY, RANDOM, ROUND_ROBIN, Process
from roofline.specs.engine import PromptCache
from roofline.specs.load import Rate, Users
from roofline.specs.sessions import Sessions
from roofline.specs.workload import JUDGED, key_text

PAGE = Path(__file__).parent.parent / "docs" / "load.md"
DEPLOYMENTS = (
    ("llama-3.1-8b", "h100-sxm", 1, None), ("llama-3.1-8b", "a100-sxm-80gb", 1, None),
    ("llama-3.1-70b", "a100-sxm-80gb", 4, None), ("llama-3.3-70b", "h100-sxm", 8, "fp8"),
    ("llama-3.3-70b", "h100-sxm", 4, "fp8"), ("qwen3-32b", "b200", 1, "fp8"), ("mixtral-8x7b", "h100-sxm", 2, None),
    ("gpt-oss-120b", "b200", 1, None), ("qwen3-235b-a22b", "b200", 8, "fp8"), ("deepseek-r1", "b200", 8, None),
)  # fmt: skip
GUIDE = PAGE.with_name("howto") / "read-a-screen.md"
MEANS_IN_GUIDE = r"mean of [\d.]+ % \(TPOT\) and [\d.]+ % \(TTFT\)"
TAILS_IN_GUIDE = r"their p99 by [\d.]+ to [\d.]+ % and [\d.]+ to [\d.]+ %"
TABLE = Path(rl.__file__).parent / "serving" / "load" / "region_errors.py"
SCHEDULERS = {"decode": ("vllm", "trtllm", "generic"), "prompts": ("sglang",), "any": ("vllm", "sglang")}
ORDERS = ("decode", "prompts")
LOADS = (0.1, 0.3, 0.5, 0.7, 0.8)  # of the saturation
SPREADS = (0.0, 0.0, 0.3, 1.0)  # coefficients of variation of lengths
ANSWERS = {SINGLE: 0.15, SHORT: 0.25, LONG: 0.6}  # shares of the cases
GOODPUT_SHARE, TINY = 0.9, 1e-6
NEAR_BEST = (0.9, 0.95, 1.0, 1.05)  # of a goodput, at which it is simulated
TAILS = (
    "ttft_p50", "ttft_p90", "ttft_p95", "ttft_p99", "tpot_p50", "tpot_p99", "itl_p50", "itl_p99", "e2el_p99"
)  # fmt: skip
USERS = (2, 4, 8, 16, 32, 64, 128)
RUN_PER_USER, RUNS = 10, 5  # requests of a run per user, simulated so many times
FULL_REQUESTS = 3  # times as many above the validated utilization
DRAWS = 20  # at most, for each case that is wanted of a region
SLOW_TURN = 20.0  # [s] of a turn whose rate is too high for closed forms
USERS_SPREAD = 0.3 / 3**0.5  # cv of the lengths of users where none is drawn: equal ones would keep them in step


class Ranges(NamedTuple):
    """What cases are drawn from."""

    draw: Callable[[int, tuple[str, ...]], tuple[Any, Workload]]
    loads: tuple[float, ...]  # of the saturation
    spreads: tuple[float, ...]
    users: tuple[int, ...]


class Case(NamedTuple):
    """A server under a load, to be judged."""

    deployment: Deployment
    workload: Workload
    arrivals: Arrivals
    load: str  # in words

    @property
    def what(self) -> str:
        one, wanted = self.deployment, self.workload
        return (
            f"{one.model.short_name} on {one.gpu.name}, {one.engine.name}, isl {wanted.isl:g}, osl {wanted.osl:g}, "
            f"budget {one.engine.max_num_batched_tokens}, {self.load}, lengths {wanted.lengths or EQUAL}"
        )

    def region(self) -> str:
        """Name of its region, also where the closed forms refuse it."""
        found = served(self.deployment, self.workload)
        return str(by_region(self.deployment, self.workload, found._replace(is_stable=True), str))


@dataclass(frozen=True)
class Judged:
    """One case: how far its closed forms are off; 1 where they refuse it, or do not know a percentile."""

    region: str
    what: str
    inside: bool = True  # the validated range
    fails: tuple[str, ...] = ()  # conditions of it
    off: dict[str, float] = field(default_factory=dict)  # closed form / simulation - 1, by latency
    unknown: tuple[str, ...] = ()  # latencies of them that the closed forms do not give
    goodput: float | None = None  # closed form / simulation - 1
    attained: float | None = None  # share of the requests of a simulation at that rate that meet the limits

    @property
    def ttft(self) -> float:
        return self.off["ttft"]

    @property
    def tpot(self) -> float:
        """NaN for single tokens."""
        return self.off.get("tpot", math.nan)


def drawn(seed: int, engines: tuple[str, ...]) -> tuple[Any, Workload]:
    """A deployment and lengths at random."""
    draw = random.Random(seed)
    model, gpu, tp, quantization = draw.choice(DEPLOYMENTS)
    isl = float(round(math.exp(draw.uniform(math.log(128), math.log(12_000)))))
    osl = float(round(math.exp(draw.uniform(math.log(32), math.log(1500)))))
    one = rl.predict(
        model, gpu, isl=isl, osl=osl, tp=tp, quantization=quantization, engine=draw.choice(engines),
        max_num_batched_tokens=draw.choice((1024, 2048, 8192, 16_384)), max_num_seqs=draw.choice((64, 256, 1024)),
    )  # fmt: skip
    return one.deployment, one.workload


def drawn_widely(seed: int, engines: tuple[str, ...]) -> tuple[Any, Workload]:
    """A deployment at random, with lengths that people may ask about."""
    deployment, wanted = drawn(seed, engines)
    draw = random.Random(seed + 11)
    isl = float(round(math.exp(draw.uniform(math.log(32), math.log(32_000)))))
    osl = {
        SINGLE: 1.0,
        SHORT: float(draw.randint(2, 19)),
        LONG: float(round(math.exp(draw.uniform(math.log(20), math.log(4000))))),
    }[draw.choices([*ANSWERS], [*ANSWERS.values()])[0]]
    return deployment, replace(wanted, isl=isl, osl=osl)


def drawn_lengths(seed: int, least: float, spreads: tuple[float, ...] = SPREADS) -> Lengths:
    """How lengths spread, at random: two of so many equal, or as little as users need."""
    draw = random.Random(seed + 7)
    isl_cv, osl_cv = draw.choice(spreads) or least, draw.choice(spreads) or least
    law = draw.choice(("lognormal", "lognormal", "uniform"))
    if law == "uniform":
        isl_cv, osl_cv = min(isl_cv, 0.5), min(osl_cv, 0.5)
    return lengths_by_law(law, isl_cv, osl_cv)


#: Of the tests, near the domain; and of the page.
NEAR = Ranges(drawn, LOADS, SPREADS, USERS)
WIDE = Ranges(drawn_widely, (0.1, 0.3, 0.5, 0.7, 0.79, 0.9, 0.95), (*SPREADS, 1.5), (1, *USERS, 256, 512))


Make = Callable[[int, int, str, Ranges], Case]  # a case by seed, requests and what its scheduler computes first


def rate_case(seed: int, requests: int, first: str, ranges: Ranges) -> Case:
    """Random arrivals."""
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    wanted = replace(wanted, lengths=drawn_lengths(seed, 0.0, ranges.spreads))
    return _at_share(deployment, wanted, (seed, requests), random.Random(seed + 1).choice(ranges.loads))


def drafts_case(seed: int, requests: int, first: str, ranges: Ranges) -> Case:
    """Random arrivals with speculative decoding."""
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    draw = random.Random(seed + 3)
    deployment = drafted(
        deployment, draw.choice(("ngram", "eagle")), draw.choice((1, 3, 5)), draw.choice((0.5, 0.7, 0.9))
    )
    wanted = replace(wanted, lengths=drawn_lengths(seed, 0.0, ranges.spreads))
    words = f"{deployment.draft.method} of {deployment.draft.tokens}, "
    return _at_share(deployment, wanted, (seed, requests), draw.choice(ranges.loads), words)


def cache_case(seed: int, requests: int, first: str, ranges: Ranges) -> Case:
    """Random arrivals of which some find their prefix, in the GPU's memory or in the host's."""
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    draw = random.Random(seed + 4)
    hit, part, tier = draw.choice((0.3, 0.6, 0.9)), draw.choice((0.3, 0.6, 0.9)), draw.choice(("hbm", "host"))
    prefix = float(round(part * wanted.isl))
    lengths = drawn_lengths(seed, 0.0, ranges.spreads)
    wanted = replace(wanted, prefix=prefix, cache=PromptCache(hit=hit, tier=tier), lengths=lengths)
    words = f"{hit:.0%} find {part:.0%} in {tier}, "
    return _at_share(deployment, wanted, (seed, requests), draw.choice(ranges.loads), words)


def bunched_case(seed: int, requests: int, first: str, ranges: Ranges) -> Case:
    """Arrivals of a process drawn at random, at one replica or at several behind a router."""
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    draw = random.Random(seed + 5)
    replicas = draw.choice((1, 2, 4, 8))
    wanted = replace(wanted, lengths=drawn_lengths(seed, 0.0, ranges.spreads))
    case = _at_share(deployment, wanted, (seed, requests), draw.choice(ranges.loads))
    rate, means = case.arrivals.rate * replicas, served(case.deployment, case.workload)
    router = draw.choice((RANDOM, ROUND_ROBIN, LEAST_BUSY)) if replicas > 1 else RANDOM
    law, times = arrival_processes.drawn(draw, rate, means.ttft, means.ttft + means.decode)
    process = Process(router=router) if law is None else Process(dispersion(times), rate, times, law, router)
    arrivals = replace(case.arrivals, rate=rate, process=process, replicas=replicas)
    workload = replace(case.workload, load=Rate(rate), arrivals=process)
    words = f"{law or 'random arrivals'} at {replicas} replicas, {router}, {case.load}"
    return Case(deployment.copies(replicas), workload, arrivals, words)


def sessions_case(seed: int, requests: int, first: str, ranges: Ranges) -> Case:
    """Sessions drawn at random, of users or at a rate, whose contexts wait in memory that may not do."""
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    draw = random.Random(seed + 6)
    sessions = Sessions(
        draw.choice((2, 4, 8, 20)), draw.choice((1.0, 5.0, 20.0, 60.0)), _round(draw, 50.0, 2000.0),
        _round(draw, 40.0, 600.0), draw.choice((0.0, 500.0, 2000.0)),
    )  # fmt: skip
    cache = PromptCache(tier=draw.choice(("hbm", "hbm", "host")), turns=sessions)
    spread = lengths_by_law("lognormal", draw.choice((0.0, 0.3)), draw.choice((0.0, 0.3)))
    wanted = replace(
        wanted, isl=sessions.isl, osl=sessions.answer, prefix=sessions.prefix, cache=replace(cache, hit=1.0),
        lengths=None if spread.is_fixed else spread,
    )  # fmt: skip
    share = draw.choice((0.2, 0.4, 0.6))
    server = server_of(deployment, replace(wanted, load=Rate(1.0)))
    rate = share * saturation(server, prompt_of(server)).rate
    workload = replace(wanted, cache=cache, load=Rate(rate))
    tier = math.inf if cache.tier == "host" else 0.0
    arrivals = Arrivals(requests, rate=rate, lengths=spread, seed=seed, sessions=sessions, tier=tier)
    words = f"{sessions}, in {cache.tier}, u {share}"
    if draw.random() < 0.5:
        found = served(deployment, workload)
        turn = found.ttft + found.decode if found.is_stable else SLOW_TURN
        users = max(round(rate * (turn + sessions.think)), 2)
        workload = replace(workload, load=Users(float(users)))
        arrivals = replace(arrivals, rate=None, users=users)
        words = f"{sessions}, in {cache.tier}, {users} users"
    return Case(deployment, workload, arrivals, words)


def _round(draw: random.Random, low: float, high: float) -> float:
    return float(round(math.exp(draw.uniform(math.log(low), math.log(high)))))


def users_case(seed: int, requests: int, first: str, ranges: Ranges) -> Case:
    """Users who ask again."""
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    users = random.Random(seed + 1).choice(ranges.users)
    lengths = drawn_lengths(seed, USERS_SPREAD, ranges.spreads)
    arrivals = Arrivals(max(requests // 3, 40 * users), users=users, lengths=lengths, seed=seed)
    return Case(deployment, replace(wanted, load=Users(float(users)), lengths=lengths), arrivals, f"{users} users")


def run_case(seed: int, requests: int, first: str, ranges: Ranges) -> Case:
    """Ten requests for each of some users, who begin together."""
    case = users_case(seed, requests, first, ranges)
    users = case.arrivals.users
    arrivals = replace(case.arrivals, requests=RUN_PER_USER * users, is_burst=True)
    load = Users(float(users), float(RUN_PER_USER * users))
    return Case(case.deployment, replace(case.workload, load=load), arrivals, f"a run of {users} users")


def _at_share(
    deployment: Deployment, wanted: Workload, drawn_with: tuple[int, int], share: float, words: str = ""
) -> Case:
    """A case at a share of its saturation; above what was validated, waits need more requests."""
    seed, requests = drawn_with
    server = server_of(deployment, replace(wanted, load=Rate(1.0)))
    rate = share * saturation(server, prompt_of(server)).rate
    requests *= 1 if share <= MOST_UTIL else FULL_REQUESTS
    arrivals = Arrivals(requests, rate=rate, seed=seed, lengths=wanted.lengths)
    return Case(deployment, replace(wanted, load=Rate(rate)), arrivals, f"{words}u {share}")


def judged_rate(task: tuple[int, int, str], ranges: Ranges = NEAR) -> Judged:
    """A case of random arrivals."""
    return judged(rate_case(*task, ranges))


def judged_users(task: tuple[int, int, str], ranges: Ranges = NEAR) -> Judged:
    """A case of users who ask again."""
    return judged(users_case(*task, ranges))


def judged(case: Case) -> Judged:
    """A case beside its simulation."""
    deployment, workload, arrivals, _ = case
    found = served(deployment, workload)
    server = server_of(deployment, workload)
    again = RUNS if arrivals.is_burst else 1  # a run is short
    real = [each for n in range(again) for each in simulated(server, replace(arrivals, seed=arrivals.seed + 17 * n))]
    fails = tuple(said for is_outside, said in outside(deployment, workload, found) if is_outside)
    measured = simulated_latencies(real)
    keys = ("ttft", "tpot", *(() if workload.load.is_run else TAILS))
    closed = dict.fromkeys(keys, math.inf)
    if found.is_stable:
        closed = limited_latencies(deployment, workload, keys)
    off = {key: time / measured[key] - 1.0 for key, time in closed.items() if key in measured}
    unknown = tuple(key for key, error in off.items() if not math.isfinite(error))
    return Judged(case.region(), case.what, not fails, fails, off | dict.fromkeys(unknown, 1.0), unknown)


def judged_pools(seed: int, *, of_users: bool) -> Judged:
    """Two pools beside their simulation."""
    case = judge_pools.drawn(seed, of_users=of_users, ranges=judge_pools.WIDE)
    off = {key: ratio - 1.0 for key, ratio in judge_pools.judged(case, ("ttft", "tpot", *TAILS)).items()}
    fails = tuple(said for is_outside, said in outside_pools(case.pools, case.workload, case.found) if is_outside)
    unknown = tuple(key for key, error in off.items() if not math.isfinite(error))
    return Judged(
        pool_region(is_outside=bool(fails)), case.what, not fails, fails, off | dict.fromkeys(unknown, 1.0), unknown
    )


def judged_goodput(task: tuple[int, int, str], ranges: Ranges = NEAR) -> Judged:
    """A goodput beside the rate at which as many requests of simulations meet the limits."""
    seed, requests, first = task
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    lengths = drawn_lengths(seed, 0.0, ranges.spreads)
    lengths = lengths if lengths.prompts.cv <= 0.3 else lengths_by_law("lognormal", 0.3, lengths.answers.cv)
    wanted = replace(wanted, lengths=lengths, osl=max(wanted.osl, 2.0))  # single tokens have no TPOT to limit
    server = server_of(deployment, replace(wanted, load=Rate(1.0)))
    full = saturation(server, prompt_of(server)).rate
    at = replace(wanted, load=Rate(random.Random(seed + 1).choice((0.2, 0.4, 0.6)) * full))
    times = limited_latencies(deployment, at, ("ttft_p95", "tpot_p95"))
    if not all(map(math.isfinite, times.values())):
        return Judged(f"{first} first, goodput", "not known", inside=False)
    slo = {"ttft": times["ttft_p95"], "tpot": times["tpot_p95"]}
    best = largest_rate(deployment, wanted, slo, GOODPUT_SHARE)
    met = []
    for factor in NEAR_BEST:
        rate = factor * best.rate
        real = simulated(
            server_of(deployment, replace(wanted, load=Rate(rate))),
            Arrivals(requests, rate=rate, seed=seed, lengths=lengths),
        )
        met.append(sum(r.ttft <= slo["ttft"] and not r.tpot > slo["tpot"] for r in real) / len(real))
    pairs = list(zip(NEAR_BEST, met, strict=True))
    (low, above), (high, below) = next(
        ((one, other) for one, other in pairwise(pairs) if other[1] < GOODPUT_SHARE), tuple(pairs[-2:])
    )
    place = low + (above - GOODPUT_SHARE) / max(above - below, TINY) * (high - low)
    off = 1.0 / max(place, 0.1) - 1.0
    found = served(deployment, replace(wanted, load=Rate(best.rate)))
    fails = tuple(
        said for is_outside, said in outside(deployment, replace(wanted, load=Rate(best.rate)), found) if is_outside
    )
    what = f"{deployment.model.short_name} on {deployment.gpu.name}, isl {wanted.isl:g}, osl {wanted.osl:g}"
    return Judged(f"{first} first, goodput", what, not fails, fails, goodput=off, attained=met[2])


def judged_saturation(task: tuple[int, int, str]) -> Judged:
    """The saturation rate beside what a loop of three times the slots answers."""
    seed, _, first = task
    deployment, lengths = drawn(seed, SCHEDULERS[first])
    deployment = replace(deployment, engine=replace(deployment.engine, max_num_seqs=64))
    server = server_of(deployment, replace(lengths, load=Users(192.0)))
    most = saturation(server, prompt_of(server)).rate
    real = simulated(
        server, Arrivals(2000, users=192, lengths=lengths_by_law("uniform", USERS_SPREAD, USERS_SPREAD), seed=seed)
    )
    off = most / (192.0 / statistics.fmean(r.e2el for r in real)) - 1.0
    return Judged(f"{first} first, saturation", deployment.model.short_name, off={"tpot": off})


def sized(cases: Iterable[Judged], key: str) -> list[float]:
    """Sizes of the errors of a latency, in order [1]."""
    return sorted(abs(case.off[key]) for case in cases if key in case.off)


def ninth(errors: list[float]) -> float:
    """What nine in ten stay within."""
    return errors[math.ceil(0.9 * len(errors)) - 1]


def spread_text(errors: list[float]) -> str:
    """Median / mean / 90th percentile / worst of errors [%]."""
    if not errors:
        return "-"
    figures = (statistics.median(errors), statistics.fmean(errors), ninth(errors), errors[-1])
    return " / ".join(f"{100.0 * figure:.1f}" for figure in figures)


def errors_by_region(cases: list[Judged]) -> dict[str, Errors]:
    """Errors of each region of enough cases, and of the wider ones that stand for the others."""
    known = leaves()
    members: dict[str, list[Judged]] = {}
    for case in cases:
        for name in (case.region, *known[case.region]):
            members.setdefault(name, []).append(case)
    stated = {
        next((name for name in (leaf, *wider) if len(members.get(name, ())) >= LEAST), wider[-1]): None
        for leaf, wider in known.items()
    }
    return {name: _errors(members[name]) for name in stated}


def _errors(cases: list[Judged]) -> Errors:
    offs = []
    for key in JUDGED:
        errors = sized(cases, key)
        offs.append(Off(round(statistics.fmean(errors), 3), round(ninth(errors), 3)) if errors else None)
    return Errors(len(cases), *offs)


def table(stated: dict[str, Errors]) -> str:
    """The module that answers read."""
    lines = []
    for name, (cases, *offs) in stated.items():
        figures = ", ".join(f"{each}" for off in offs for each in (off or (None, None)))
        lines.append(f'    "{name}":\n        ({cases}, {figures}),\n')
    return f'''"""Errors of the closed forms by region. Written by accuracy/build_load_page.py with docs/load.md: not to be edited."""

from __future__ import annotations

#: Cases of a region, then mean and 90th percentile of |closed form / simulation - 1| of TTFT, TPOT and the p99 of both.
ERRORS: dict[str, tuple[int, *tuple[float | None, ...]]] = {{
{"".join(lines)}}}  # fmt: skip
'''


def regions_text(stated: dict[str, Errors], cases: list[Judged]) -> list[str]:
    """The section on regions."""
    text = [
        "\n## By region\n",
        "What each answer under a load states of its own region: mean / 90th percentile of |closed form / simulation - 1| "
        "in per cent. What the closed forms refuse or do not know, but the simulation has, counts as 100. A region of "
        f"fewer than {LEAST} cases is merged with its neighbours.\n",
        "| region | n | TTFT | TPOT | TTFT p99 | TPOT p99 | refused or not known |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in stated.items():
        cells = ["-" if off is None else f"{100 * off.mean:.1f} / {100 * off.most:.1f}" for off in found[1:]]
        mine = [case for case in cases if name in (case.region, *leaves()[case.region])]
        missing = sum(bool({*case.unknown} & {*JUDGED}) for case in mine)
        text.append(f"| {name} | {found.cases} | {' | '.join(cells)} | {missing} |")
    return text


def line(name: str, cases: Iterable[Judged]) -> str:
    """A row of the table of means."""
    found = list(cases)
    tpot, ttft = (sized(found, key) for key in ("tpot", "ttft"))
    near = [
        f"{100.0 * sum(error <= limit for error in errors) / len(errors):.0f} %" if errors else "-"
        for errors, limit in ((tpot, 0.05), (ttft, 0.10))
    ]
    return f"| {name} | {len(found)} | {spread_text(tpot)} | {spread_text(ttft)} | {' | '.join(near)} |"


def tail_line(name: str, cases: Iterable[Judged]) -> str:
    """A row of the table of percentiles."""
    found = [case for case in cases if TAILS[0] in case.off]
    if not found:
        return f"| {name} | 0 |" + " - |" * (len(TAILS) + 2)
    cells = []
    for key in TAILS:
        missing = sum(key in case.unknown for case in found)
        text = spread_text(sized(found, key)).rpartition(" / ")[0] or "-"
        cells.append(f"{text} ({missing} not known)" if missing else text)
    near = [
        f"{100.0 * sum(error <= 0.15 for error in errors) / len(errors):.0f} %" if errors else "-"
        for errors in (sized(found, key) for key in ("ttft_p99", "tpot_p99"))
    ]
    return f"| {name} | {len(found)} | {' | '.join([*cells, *near])} |"


def head(case: Judged) -> str:
    """Its region without the length of answers and the range: what comes, and to what."""
    return ", ".join(
        part for part in case.region.split(", ") if part not in (SINGLE, SHORT, LONG, INSIDE, OUTSIDE, BEYOND)
    )


def tails_text(cases: list[Judged]) -> list[str]:
    """The section on percentiles."""
    heads = [key_text(key) for key in TAILS]
    text = [
        "\n## Percentiles\n",
        "The same cases: median / mean / 90th percentile of |closed form / simulation - 1| in per cent, and the share of "
        "the cases within 15 %.\n",
        f"| cases | n | {' | '.join(heads)} | TTFT p99 within 15 % | TPOT p99 within 15 % |",
        "|---|---|" + "---|" * (len(TAILS) + 2),
    ]
    for kind in dict.fromkeys(head(case) for case in cases if TAILS[0] in case.off):
        mine = [case for case in cases if head(case) == kind]
        text.append(tail_line(f"{kind}, inside the domain", (case for case in mine if case.inside)))
        text.append(tail_line(f"{kind}, outside", (case for case in mine if not case.inside)))
    return text


def goodput_text(best: list[Judged]) -> list[str]:
    """The section on goodput."""
    best = [case for case in best if case.goodput is not None]
    inside = [case for case in best if case.inside]
    text = [
        "\n## Goodput\n",
        f"Limits on TTFT and TPOT that {100 * GOODPUT_SHARE:.0f} % of the requests must meet together; the rate of the "
        "closed form against that of simulations at 90 to 105 % of it, interpolated, in per cent.\n",
        "| cases | n | median / mean / p90 / worst | within 5 % | share attained there [%]: mean, least, most |",
        "|---|---|---|---|---|",
    ]
    for name, cases in (("inside the domain", inside), ("outside", [case for case in best if not case.inside])):
        errors = sorted(100.0 * abs(case.goodput or 0.0) for case in cases)
        if errors:
            p90 = errors[math.ceil(0.9 * len(errors)) - 1]
            near = 100.0 * sum(error <= 5.0 for error in errors) / len(errors)
            text.append(
                f"| {name} | {len(errors)} | {statistics.median(errors):.1f} / {statistics.fmean(errors):.1f} / {p90:.1f} / "
                f"{errors[-1]:.1f} | {near:.0f} % | {shares_text(cases)} |"
            )
    return text


def shares_text(cases: list[Judged]) -> str:
    """Shares of the requests that meet their limits at the goodput."""
    shares = [100.0 * case.attained for case in cases if case.attained is not None]
    return f"{statistics.fmean(shares):.1f}, {min(shares):.1f}, {max(shares):.1f}"


def page(cases: list[Judged], full: list[Judged], best: list[Judged], requests: int, seed: int) -> str:
    """The Markdown of docs/load.md."""
    text = [
        "# Closed forms of a server under a load, and a simulation of every step\n",
        "Generated by `python accuracy/build_load_page.py`. Both sides read the same step times, so this judges the "
        "algebra of [A server under load](method/under-load.md) and "
        "[Separate pools](method/features.md#separate-pools) alone; how far step times are from measured ones is in "
        "[Accuracy](accuracy.md). Ten deployments from Llama-8B on one A100 to DeepSeek-R1 on eight B200 and nine "
        "pairs of pools, prompts of 32 to 32,000 tokens, answers of 1 to 4,000, budgets of 1,024 to 16,384 tokens, 64 to "
        f"1,024 sequences at most, at 10 to 95 % of the saturation or with 1 to 512 users; {requests:,} requests a case at "
        f"a rate and {FULL_REQUESTS} times as many above {100 * MOST_UTIL:.0f} % of the saturation, seeds from {seed}. "
        "Lengths spread log-normally or evenly, with a coefficient of variation of 0 (0.17 with users), 0.3, 1 and 1.5. "
        "Cases of one server are drawn at random until every region has equally many, or until one has come up too rarely.",
        *regions_text(errors_by_region(cases), cases),
        "\n## By condition\n",
        "One server; median / mean / 90th percentile / worst of the same errors, by the condition of the validated range "
        "that fails.\n",
        "| cases | n | TPOT | TTFT | TPOT within 5 % | TTFT within 10 % |",
        "|---|---|---|---|---|---|",
    ]
    single = [case for case in cases if not case.region.startswith(POOLS)]
    text.append(line("**all, inside the domain**", (case for case in single if case.inside)))
    text.append(line("**all, outside**", (case for case in single if not case.inside)))
    for fault in sorted({said for case in single for said in case.fails}):
        text.append(line(fault, (case for case in single if fault in case.fails)))
    text.append("\nThe saturation rate, against what a closed loop with three times as many users as slots answers:\n")
    text += ["| cases | n | median / mean / p90 / worst |", "|---|---|---|"]
    for kind in dict.fromkeys(case.region for case in full):
        errors = sized((case for case in full if case.region == kind), "tpot")
        text.append(f"| {kind} | {len(errors)} | {spread_text(errors)} |")
    text += [*tails_text(cases), *goodput_text(best)]
    text.append("\nThe worst inside the domain:\n")
    worst = sorted(
        (case for case in single if case.inside), key=lambda case: -max(abs(case.ttft) / 2.0, abs(case.tpot))
    )
    text += [
        f"- {head(case)}: {case.what}: TPOT {100 * case.tpot:+.1f} %, TTFT {100 * case.ttft:+.1f} %"
        for case in worst[:8]
    ]
    return "\n".join(text) + "\n"


def guide(text: str, cases: list[Judged]) -> str:
    """The guide with the errors inside the domain."""
    single = [case for case in cases if case.inside and not case.region.startswith(POOLS)]
    tpot, ttft = (100.0 * statistics.fmean(sized(single, key)) for key in ("tpot", "ttft"))
    ends = []
    for key in ("tpot_p99", "ttft_p99"):
        kinds = {head(case): None for case in cases if case.inside and key in case.off}
        means = [
            100.0 * statistics.fmean(sized((case for case in cases if case.inside and head(case) == kind), key))
            for kind in kinds
        ]
        ends.append(f"{min(means):.1f} to {max(means):.1f} %")
    text = re.sub(MEANS_IN_GUIDE, f"mean of {tpot:.1f} % (TPOT) and {ttft:.1f} % (TTFT)", text)
    return re.sub(TAILS_IN_GUIDE, f"their p99 by {' and '.join(ends)}", text)


def chosen(pool: Executor, make: Make, first: str, seed: int, requests: int, count: int) -> list[Case]:
    """Cases of a group, as many of each region, as far as enough of them come up."""
    draws = [(seed + n, requests, first) for n in range(DRAWS * count)]
    kept: dict[str, list[Case]] = {}
    for case, name in pool.map(partial(_placed, make), draws, chunksize=20):
        if len(mine := kept.setdefault(name, [])) < count:
            mine.append(case)
    return [case for cases in kept.values() for case in cases]


def _placed(make: Make, draw: tuple[int, int, str]) -> tuple[Case, str]:
    case = make(*draw, WIDE)
    return case, case.region()


def all_cases(wanted: int, requests: int, seed: int) -> tuple[list[Judged], list[Judged], list[Judged]]:
    """Cases by region, at saturation, and at a goodput."""
    count = max(wanted // 5, LEAST + 2)
    groups: tuple[tuple[Make, str], ...] = (
        (rate_case, "decode"), (rate_case, "prompts"), (users_case, "decode"), (users_case, "prompts"),
        (run_case, "any"), (drafts_case, "any"), (cache_case, "any"), (bunched_case, "any"),
        (sessions_case, "any"),
    )  # fmt: skip
    with ProcessPoolExecutor() as pool:
        drawn_cases = [
            case
            for place, (make, first) in enumerate(groups)
            for case in chosen(pool, make, first, seed + 10_000 * place, requests, count)
        ]
        cases = list(pool.map(judged, drawn_cases))
        for of_users in (False, True):
            seeds = range(seed + 150_000, seed + 150_000 + 2 * count)
            cases += pool.map(partial(judged_pools, of_users=of_users), seeds)
        full = [
            case
            for first in ORDERS
            for case in pool.map(judged_saturation, [(seed + 90_000 + i, 0, first) for i in range(wanted // 6)])
        ]
        best = [
            case
            for first in ORDERS
            for case in pool.map(
                partial(judged_goodput, ranges=WIDE),
                [(seed + 120_000 + i, requests, first) for i in range(wanted // 7)],
            )
        ]
    return cases, full, best


def main() -> None:
    """Draw, simulate, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=240, help="a fifth of them for each region, and at least 12")
    parser.add_argument("--requests", type=int, default=20_000, help="of a case at a rate")
    parser.add_argument("--keep", help="file for the cases themselves")
    parser.add_argument("--kept", help="such a file, of which the pages are written anew")
    parser.add_argument("--seed", type=int, default=20_270_000)
    options = parser.parse_args()
    if options.kept:
        cases, full, best = pickle.loads(Path(options.kept).read_bytes())
    else:
        cases, full, best = all_cases(options.cases, options.requests, options.seed)
    if options.keep:
        Path(options.keep).write_bytes(pickle.dumps((cases, full, best)))
    TABLE.write_text(table(errors_by_region(cases)), encoding="utf-8")
    PAGE.write_text(wrapped(page(cases, full, best, options.requests, options.seed)), encoding="utf-8")
    GUIDE.write_text(guide(GUIDE.read_text(encoding="utf-8"), cases), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
