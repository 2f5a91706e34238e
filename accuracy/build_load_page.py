"""Judges the closed forms of a server under a load by a simulation of every step, and writes docs/load.md.

    python accuracy/build_load_page.py [--cases 240] [--requests 20000]

Deployments, lengths, budgets and loads are drawn at random from seeds that were not used while the forms were written.
Both sides read the same step times, so that what is judged is the algebra alone. Takes some ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import math
import pickle
import random
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import roofline as rl
from roofline.questions.inputs.deployment import drafted
from roofline.serving.capacity import largest_rate
from roofline.serving.latency import Lengths, Workload, lengths_by_law
from roofline.serving.load.equations import outside, saturation, served, server_of
from roofline.serving.load.server import prompt_of
from roofline.serving.load.simulation import Arrivals, simulated, simulated_latencies
from roofline.serving.load.tails import limited_latencies
from roofline.specs.engine import PromptCache
from roofline.specs.load import Rate, Users
from roofline.specs.workload import key_text

PAGE = Path(__file__).parent.parent / "docs" / "load.md"
DEPLOYMENTS = (
    ("llama-3.1-8b", "h100-sxm", 1, None), ("llama-3.1-8b", "a100-sxm-80gb", 1, None),
    ("llama-3.1-70b", "a100-sxm-80gb", 4, None), ("llama-3.3-70b", "h100-sxm", 8, "fp8"),
    ("llama-3.3-70b", "h100-sxm", 4, "fp8"), ("qwen3-32b", "b200", 1, "fp8"), ("mixtral-8x7b", "h100-sxm", 2, None),
    ("gpt-oss-120b", "b200", 1, None), ("qwen3-235b-a22b", "b200", 8, "fp8"), ("deepseek-r1", "b200", 8, None),
)  # fmt: skip
SCHEDULERS = {"decode": ("vllm", "trtllm", "generic"), "prompts": ("sglang",)}
LOADS = (0.1, 0.3, 0.5, 0.7, 0.8)  # of the saturation
SPREADS = (0.0, 0.0, 0.3, 1.0)  # coefficients of variation of lengths
ANSWERS = {"one token": 0.15, "2 to 19 tokens": 0.25, "20 tokens and more": 0.6}  # shares of the cases
GOODPUT_SHARE, TINY = 0.9, 1e-6
NEAR_BEST = (0.9, 0.95, 1.0, 1.05)  # of a goodput, at which it is simulated
TAILS = (
    "ttft_p50", "ttft_p90", "ttft_p95", "ttft_p99", "tpot_p50", "tpot_p99", "itl_p50", "itl_p99", "e2el_p99"
)  # fmt: skip
USERS = (2, 4, 8, 16, 32, 64, 128)
USERS_SPREAD = 0.3 / 3**0.5  # cv of the lengths of users where none is drawn: equal ones would keep them in step


class Ranges(NamedTuple):
    """What cases are drawn from."""

    draw: Callable[[int, tuple[str, ...]], tuple[Any, Workload]]
    loads: tuple[float, ...]  # of the saturation
    spreads: tuple[float, ...]
    users: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """One case: how far its closed forms are off."""

    kind: str  # of scheduler and load
    inside: bool
    fails: tuple[str, ...]
    ttft: float  # closed form / simulation - 1
    tpot: float  # NaN for single tokens
    what: str
    tails: dict[str, float] = field(default_factory=dict)  # percentile -> closed form / simulation - 1
    util: float = 0.0
    answers: str = ""  # how long they are: one of `ANSWERS`
    goodput: float | None = None  # closed form / simulation - 1
    attained: float | None = None  # share of the requests of a simulation at that rate that meet the limits
    is_answered: bool = True  # whether the closed forms have a steady state where the simulation has one


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
        "one token": 1.0,
        "2 to 19 tokens": float(draw.randint(2, 19)),
        "20 tokens and more": float(round(math.exp(draw.uniform(math.log(20), math.log(4000))))),
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
WIDE = Ranges(drawn_widely, (*LOADS, 0.95), (*SPREADS, 1.5), (1, *USERS, 256, 512))


def judged_rate(task: tuple[int, int, str], ranges: Ranges = NEAR) -> Judged:
    """A case of random arrivals."""
    seed, requests, first = task
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    lengths = drawn_lengths(seed, 0.0, ranges.spreads)
    wanted = replace(wanted, lengths=lengths)
    server = server_of(deployment, replace(wanted, load=Rate(1.0)))
    share = random.Random(seed + 1).choice(ranges.loads)
    rate = share * saturation(server, prompt_of(server)).rate
    return _judged(
        deployment, replace(wanted, load=Rate(rate)), Arrivals(requests, rate=rate, seed=seed, lengths=lengths),
        f"{first} first, rate", f"u {share}",
    )  # fmt: skip


def judged_drafts(task: tuple[int, int, str], ranges: Ranges = NEAR) -> Judged:
    """A case of random arrivals with speculative decoding."""
    seed, requests, first = task
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    draw = random.Random(seed + 3)
    deployment = drafted(
        deployment, draw.choice(("ngram", "eagle")), draw.choice((1, 3, 5)), draw.choice((0.5, 0.7, 0.9))
    )
    lengths = drawn_lengths(seed, 0.0, ranges.spreads)
    wanted = replace(wanted, lengths=lengths)
    server = server_of(deployment, replace(wanted, load=Rate(1.0)))
    share = draw.choice(ranges.loads)
    rate = share * saturation(server, prompt_of(server)).rate
    return _judged(
        deployment, replace(wanted, load=Rate(rate)), Arrivals(requests, rate=rate, seed=seed, lengths=lengths),
        f"{first} first, drafts", f"{deployment.draft.method} of {deployment.draft.tokens}, u {share}",
    )  # fmt: skip


def judged_caches(task: tuple[int, int, str], ranges: Ranges = NEAR) -> Judged:
    """A case of random arrivals of which some find their prefix, in the GPU's memory or in the host's."""
    seed, requests, first = task
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    draw = random.Random(seed + 4)
    hit, part, tier = draw.choice((0.3, 0.6, 0.9)), draw.choice((0.3, 0.6, 0.9)), draw.choice(("hbm", "host"))
    lengths = drawn_lengths(seed, 0.0, ranges.spreads)
    wanted = replace(
        wanted, prefix=float(round(part * wanted.isl)), cache=PromptCache(hit=hit, tier=tier), lengths=lengths
    )
    server = server_of(deployment, replace(wanted, load=Rate(1.0)))
    share = draw.choice(ranges.loads)
    rate = share * saturation(server, prompt_of(server)).rate
    return _judged(
        deployment, replace(wanted, load=Rate(rate)), Arrivals(requests, rate=rate, seed=seed, lengths=lengths),
        f"{first} first, prompt cache", f"{hit:.0%} find {part:.0%} in {tier}, u {share}",
    )  # fmt: skip


def judged_users(task: tuple[int, int, str], ranges: Ranges = NEAR) -> Judged:
    """A case of users who ask again."""
    seed, requests, first = task
    deployment, wanted = ranges.draw(seed, SCHEDULERS[first])
    users = random.Random(seed + 1).choice(ranges.users)
    lengths = drawn_lengths(seed, USERS_SPREAD, ranges.spreads)
    return _judged(
        deployment, replace(wanted, load=Users(float(users)), lengths=lengths),
        Arrivals(max(requests // 3, 40 * users), users=users, lengths=lengths, seed=seed),
        f"{first} first, users", f"{users} users",
    )  # fmt: skip


def _judged(deployment: Any, workload: Workload, arrivals: Arrivals, kind: str, load: str) -> Judged:
    found = served(deployment, workload)
    real = simulated(server_of(deployment, workload), arrivals)
    fails = tuple(said for is_outside, said in outside(deployment, workload, found) if is_outside)
    measured = simulated_latencies(real)
    what = (
        f"{deployment.model.short_name} on {deployment.gpu.name}, {deployment.engine.name}, isl {workload.isl:g}, "
        f"osl {workload.osl:g}, budget {deployment.engine.max_num_batched_tokens}, {load}, lengths {workload.lengths}"
    )
    off = found.ttft / measured["ttft"] - 1.0, found.tpot / measured.get("tpot", math.nan) - 1.0
    tails = {}
    if found.is_stable:
        for key, closed in limited_latencies(deployment, workload, TAILS).items():
            tails[key] = closed / measured.get(key, math.nan) - 1.0
    length = min(math.ceil(math.log(workload.osl, 19.0)), 2) if workload.osl > 1.0 else 0
    return Judged(
        kind, not fails, fails, *off, what, tails, float(found.util), [*ANSWERS][length],
        is_answered=bool(found.is_stable),
    )  # fmt: skip


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
        return Judged(f"{first} first, goodput", inside=False, fails=(), ttft=math.nan, tpot=math.nan, what="not known")
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
    return Judged(
        f"{first} first, goodput", not fails, fails, off, off, what, util=best.util, goodput=off, attained=met[2]
    )


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
    kind = f"{first} first, saturation"
    return Judged(kind, inside=True, fails=(), ttft=off, tpot=off, what=deployment.model.short_name)


def line(name: str, cases: Iterable[Judged]) -> str:
    """A row of the table."""
    found = list(cases)
    if not found:
        return f"| {name} | 0 | - | - | - | - |"
    cells = []
    for metric in ("tpot", "ttft"):
        errors = sorted(100.0 * abs(off) for case in found if not math.isnan(off := getattr(case, metric)))
        if not errors:
            cells.append("-")
            continue
        p90 = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
        cells.append(f"{statistics.median(errors):.1f} / {statistics.fmean(errors):.1f} / {p90:.1f} / {errors[-1]:.1f}")
    near = [
        100.0 * sum(abs(getattr(case, metric)) <= limit for case in found) / len(found)
        for metric, limit in (("tpot", 0.05), ("ttft", 0.10))
    ]
    return f"| {name} | {len(found)} | {cells[0]} | {cells[1]} | {near[0]:.0f} % | {near[1]:.0f} % |"


def tail_line(name: str, cases: Iterable[Judged]) -> str:
    """A row of the table of percentiles."""
    found = [case for case in cases if case.tails]
    if not found:
        return f"| {name} | 0 |" + " - |" * (len(TAILS) + 2)
    cells = []
    for key in TAILS:
        errors = sorted(100.0 * abs(off) for case in found if math.isfinite(off := case.tails[key]))
        if not errors:
            cells.append("-")
            continue
        p90 = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
        missing = sum(math.isinf(case.tails[key]) for case in found)
        cells.append(
            f"{statistics.median(errors):.1f} / {statistics.fmean(errors):.1f} / {p90:.1f}"
            + (f" ({missing} not known)" if missing else "")
        )
    near = [
        f"{100.0 * sum(abs(case.tails[key]) <= 0.15 for case in found) / len(found):.0f} %"
        for key in ("ttft_p99", "tpot_p99")
    ]
    return f"| {name} | {len(found)} | {' | '.join([*cells, *near])} |"


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
    for kind in dict.fromkeys(case.kind for case in cases):
        mine = [case for case in cases if case.kind == kind]
        text.append(tail_line(f"{kind}, all", mine))
        text.append(tail_line(f"{kind}, inside the domain", (case for case in mine if case.inside)))
        text.append(tail_line(f"{kind}, outside", (case for case in mine if not case.inside)))
    text.append(tail_line("**all, inside the domain**", (case for case in cases if case.inside)))
    return text


def goodput_text(best: list[Judged]) -> list[str]:
    """The section on goodput."""
    best = [case for case in best if case.goodput is not None]
    inside = [case for case in best if case.inside]
    text = [
        "\n## Goodput\n",
        f"Limits on TTFT and TPOT that {100 * GOODPUT_SHARE:.0f} % of the requests must meet together; the rate of the closed "
        "form against that of simulations at 90 to 105 % of it, interpolated, in per cent.\n",
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
        'algebra of docs/method.md, "A server under load", alone; how far step times are from measured ones is in '
        "accuracy.md. Ten deployments from Llama-8B on one A100 to DeepSeek-R1 on eight B200, prompts of 32 to 32,000 "
        "tokens, answers of 1 to 4,000, budgets of 1,024 to 16,384 tokens, 64 to 1,024 sequences at most, at 10 to 95 % "
        f"of the saturation or with 1 to 512 users; {requests:,} requests a case at a rate, seeds from {seed}. Lengths "
        "spread log-normally or evenly, with coefficients of variation of 0 (0.17 with users), 0.3, 1 and 1.5.\n",
        "Errors are |closed form / simulation - 1| in per cent: median / mean / 90th percentile / worst.\n",
        "| cases | n | TPOT | TTFT | TPOT within 5 % | TTFT within 10 % |",
        "|---|---|---|---|---|---|",
    ]
    unanswered = [case for case in cases if not case.is_answered]
    cases = [case for case in cases if case.is_answered]
    kinds = list(dict.fromkeys(case.kind for case in cases))
    for kind in kinds:
        mine = [case for case in cases if case.kind == kind]
        text.append(line(f"{kind}, all", mine))
        text.append(line(f"{kind}, inside the domain", (case for case in mine if case.inside)))
        text += [line(f"{kind}, {words}", (case for case in mine if case.answers == words)) for words in ANSWERS]
        text.append(line(f"{kind}, util above 80 %", (case for case in mine if "rate" in kind and case.util > 0.8)))
        for fault in dict.fromkeys(said for case in mine for said in case.fails):
            text.append(line(f"{kind}, {fault}", (case for case in mine if fault in case.fails)))
    text.append(line("**all, inside the domain**", (case for case in cases if case.inside)))
    text.append(line("**all, outside**", (case for case in cases if not case.inside)))
    text.append(
        f"\nCases left out, in which the closed forms refuse a rate that the simulation answers, all of them outside the "
        f"domain: {len(unanswered)}.\n"
        if unanswered
        else ""
    )
    text.append("The saturation rate, against what a loop of three times as many users as slots answers:\n")
    text += ["| cases | n | median / mean / p90 / worst |", "|---|---|---|"]
    for kind in dict.fromkeys(case.kind for case in full):
        errors = sorted(100.0 * abs(case.tpot) for case in full if case.kind == kind)
        p90 = errors[math.ceil(0.9 * len(errors)) - 1]
        text.append(
            f"| {kind} | {len(errors)} | {statistics.median(errors):.1f} / {statistics.fmean(errors):.1f} / {p90:.1f} / "
            f"{errors[-1]:.1f} |"
        )
    text += [*tails_text(cases), *goodput_text(best)]
    text.append("\nThe worst inside the domain:\n")
    worst = sorted((case for case in cases if case.inside), key=lambda case: -max(abs(case.ttft) / 2.0, abs(case.tpot)))
    text += [
        f"- {case.kind}: {case.what}: TPOT {100 * case.tpot:+.1f} %, TTFT {100 * case.ttft:+.1f} %"
        for case in worst[:8]
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    """Draw, simulate, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=240, help="of the largest group")
    parser.add_argument("--requests", type=int, default=20_000, help="of a case at a rate")
    parser.add_argument("--keep", help="file for the cases themselves")
    parser.add_argument("--seed", type=int, default=20_270_000)
    options = parser.parse_args()
    groups: tuple[tuple[Callable[[Any], Judged], int, str], ...] = (
        (judged_rate, options.cases, "decode"), (judged_rate, options.cases // 2, "prompts"),
        (judged_users, options.cases // 2, "decode"), (judged_users, options.cases // 3, "prompts"),
        (judged_drafts, options.cases // 3, "decode"), (judged_caches, options.cases // 3, "decode"),
    )  # fmt: skip
    with ProcessPoolExecutor() as pool:
        cases = [
            case
            for place, (judge, count, first) in enumerate(groups)
            for case in pool.map(
                partial(judge, ranges=WIDE),
                [(options.seed + 10_000 * place + i, options.requests, first) for i in range(count)],
            )
        ]
        full = [
            case
            for first in SCHEDULERS
            for case in pool.map(
                judged_saturation, [(options.seed + 90_000 + i, 0, first) for i in range(options.cases // 6)]
            )
        ]
        best = [
            case
            for first in SCHEDULERS
            for case in pool.map(
                partial(judged_goodput, ranges=WIDE),
                [(options.seed + 120_000 + i, options.requests, first) for i in range(options.cases // 7)],
            )
        ]
    if options.keep:
        Path(options.keep).write_bytes(pickle.dumps((cases, full, best)))
    PAGE.write_text(page(cases, full, best, options.requests, options.seed), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
