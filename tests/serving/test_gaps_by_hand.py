"""Gaps between tokens on a rank whose times are straight lines, and beside a simulation of every step."""

import math
import statistics
from itertools import pairwise
from math import exp

import pytest
from build_load_page import judged_rate, judged_users
from conftest import close
from every_case import each
from made_up_rank import PROMPTS_FIRST, rank

import roofline as rl
from roofline.serving.latency import Lengths, Spread, lengths_by_law, mean_steps
from roofline.serving.load.gaps import Case, gaps
from roofline.serving.load.mixtures import Component, mean_of, percentile, survival
from roofline.serving.load.rounds import meeting
from roofline.serving.load.server import prompt_of

SMALL = ("llama-3.1-8b", "h100:tp1")
D = 8.0  # of four sequences
RARE = 1e-7  # requests per second, of which no two meet
LONG = 1e6  # tokens of an answer of which the first gaps do not count


def case_of(server, rate, users=None, **met):
    found = meeting(server, prompt_of(server), rate, 3.0, D, users)._replace(**met)
    return Case(server, prompt_of(server), found, rate, 3.0, users, Component(1.0, found.plain, 0.0, 0.0), False)


def share_beyond(case, time):
    return survival(gaps(case), time)


def test_a_rare_prompt_stalls_the_steps_that_compute_it():
    # 50 tokens beside four sequences: 2 ((10 + 5) + 1) + 4 = 36 s, in one of the steps that a request begins
    case = case_of(rank(osl=LONG), RARE)
    assert close(percentile(gaps(case), 50.0), D, 1e-9)
    assert close(share_beyond(case, D + 35.0) / (RARE * D), 1.0, 1e-3)
    assert share_beyond(case, D + 37.0) < 1e-9 * share_beyond(case, D + 35.0) + RARE**2 * 1e4


def test_a_long_prompt_fills_steps_and_its_rest_is_in_one_more():
    # room for 203 - 3 tokens: 450 are two full steps and 50 in a third, with a ninth of the attention of 81 s
    server = rank(isl=450.0, osl=LONG)
    case = case_of(server, RARE)
    full, rest = 2 * (10 + 20 + 81 / 450 * 200) + 4, 2 * (10 + 5 + 81 / 9) + 4
    beyond = [share_beyond(case, D + time) for time in (rest - 1.0, rest + 1.0, full + 1.0)]
    assert close(beyond[0] / beyond[1], 1.5, 1e-3)
    assert beyond[1] > 0.0
    assert beyond[2] < 1e-6 * beyond[1]
    assert close(mean_of(gaps(case)), case.mean, 1e-12)


def test_where_prompts_come_first_the_whole_prompt_is_between_two_steps():
    # three passes of 150 tokens: 2 ((2.5 + 10 + 14.9 + 1.6) 3 + 81) + 4 x 3 = 348 s
    case = case_of(rank(isl=450.0, osl=LONG, scheduler=PROMPTS_FIRST), RARE)
    pass_time = 2 * ((2 + 0.5 + 10 + 14.9 + 1.6) * 3 + 81) + 4 * 3
    assert close(share_beyond(case, D + pass_time - 1.0) / (RARE * D), 1.0, 1e-3)
    assert share_beyond(case, D + pass_time + 1.0) < 1e-3 * RARE * D
    assert close(mean_of(gaps(case)), case.mean, 1e-12)


@each("scheduler", ["decode first", PROMPTS_FIRST])
@each("users", [None, 8.0])
@each("rate", [0.0005, 0.002, 0.01])
def test_gaps_have_the_mean_of_all_decode_time_over_all_steps(scheduler, users, rate):
    uneven = Lengths(
        prompts=Spread(cv=0.4, nodes=((0.5, 0.6), (0.5, 1.4)), slices=((0.5, 0.6), (0.5, 1.4))),
        answers=Spread(cv=0.5, nodes=((0.5, 0.5), (0.5, 1.5)), slices=((0.5, 0.5), (0.5, 1.5))),
    )
    for lengths, osl in ((None, 101.0), (uneven, 101.0), (uneven, 5.0)):
        case = case_of(rank(osl=osl, lengths=lengths, users=users, scheduler=scheduler), rate, users)
        found = gaps(case)
        assert sum(part.weight for part in found) == pytest.approx(1.0, rel=1e-12)
        assert all(part.weight >= 0.0 and part.variance >= 0.0 for part in found)
        assert close(mean_of(found), case.met.decode / case.steps, 1e-9)


def test_one_user_is_stalled_by_nobody():
    for scheduler in ("decode first", PROMPTS_FIRST):
        case = case_of(rank(users=1.0, scheduler=scheduler), 0.0, 1.0)
        assert close(percentile(gaps(case), 99.9), case.met.plain, 1e-9)


@each("way", [1.0, 40.0])
def test_a_gap_of_users_holds_a_whole_run_or_what_follows_the_own_pass_or_none(way):
    server = rank(users=8.0, request=way, scheduler=PROMPTS_FIRST)
    case = case_of(server, 0.01, 8.0)
    plain, run = case.met.plain, case.met.run
    alone = 2 * (2.5 + 10 + 4.9 + 1.6 + 1) + 4  # a pass of 50 tokens
    behind = run.in_first * run.after_first + (1.0 - run.in_first) * run.after_later
    often = (case.mean - plain - behind / 100) / 0.99 / run.time  # of the gaps but the first
    assert 0.04 < often < 0.5
    expected = [(0.99, often, run.time, run.variance)]
    for share, after in ((run.in_first, run.after_first), (1.0 - run.in_first, run.after_later)):
        expected.append((0.01 * share, after / max(after, alone), max(after, alone), run.after_variance))
    parts = iter(gaps(case))
    for weight, stalled, stall, variance in expected:
        assert tuple(next(parts)) == pytest.approx((weight * (1 - stalled), plain, 0.0, 0.0, math.inf))
        least = plain + min(alone, 0.98 * stall)
        spread = max(variance, (0.05 * stall) ** 2)
        found = next(parts)
        assert tuple(found) == pytest.approx((weight * stalled, least, plain + stall - least, spread, math.inf))
    assert next(parts, None) is None


def test_where_runs_do_not_explain_the_mean_gap_all_gaps_are_stalled_by_what_does():
    case = case_of(rank(users=8.0, scheduler=PROMPTS_FIRST), 0.01, 8.0)
    plain, run = case.met.plain, case.met.run
    behind = run.in_first * run.after_first + (1.0 - run.in_first) * run.after_later
    longer = case._replace(met=case.met._replace(decode=100 * (plain + 2 * run.time)))
    none, all_others, *_ = gaps(longer)
    assert (none.weight, all_others.weight) == pytest.approx((0.0, 0.99))
    assert all_others.least + all_others.mean == pytest.approx(plain + (2 * run.time - behind / 100) / 0.99)
    assert close(mean_of(gaps(longer)), plain + 2 * run.time, 1e-12)


def test_a_percentile_beyond_the_share_of_stalls_is_a_step_and_one_within_it_a_stall():
    case = case_of(rank(), 0.001)
    stalled = 1.0 - gaps(case)[0].weight
    below, above = 100.0 * (1.0 - 1.5 * stalled), 100.0 * (1.0 - 0.5 * stalled)
    assert percentile(gaps(case), below) < 1.01 * D < D + 30.0 < percentile(gaps(case), above)


def test_long_answers_weigh_more_in_the_mean_gap():
    even, spread = (rl.predict(*SMALL, isl=1000, osl=40, request_rate=10, osl_cv=cv) for cv in (None, 1.0))
    assert even.itl == even.tpot
    answers = lengths_by_law("lognormal", 0.0, 1.0).answers
    steps = mean_steps(spread.deployment, 40.0, answers)
    assert close(spread.itl, spread.served.decode / steps, 1e-12)
    assert spread.itl != pytest.approx(spread.tpot, rel=1e-4)


def test_a_step_with_drafts_ends_one_gap():
    found = rl.predict(*SMALL, isl=1000, osl=200, request_rate=4, draft="eagle", draft_tokens=3, acceptance=0.7)
    simulated = rl.simulate(found, requests=1500)
    tokens = found.deployment.tokens_per_step
    assert close(found.itl, tokens * found.tpot, 0.01)
    assert close(simulated.itl, tokens * simulated.tpot, 0.03)
    assert close(found.latency("itl_p50"), simulated.percentiles["itl_p50"], 0.03)


def test_ordered_and_above_the_mean_step_at_the_end():
    found = rl.predict(*SMALL, isl=2000, osl=100, request_rate=4)
    times = [found.latency(f"itl_p{level}") for level in (1, 10, 50, 90, 95, 99, 99.9)]
    assert all(high >= low * (1.0 - 1e-12) for low, high in pairwise(times))
    assert times[0] < found.itl < times[-1]


@each(("judge", "first"), [(judged_rate, "decode"), (judged_rate, "prompts"), (judged_users, "decode")])
def test_gaps_are_those_of_a_simulation(judge, first):
    cases = [judge((777_100 + place, 1000, first)) for place in range(7)]
    inside = [case for case in cases if case.inside and "itl_p99" in case.off]
    assert len(inside) >= 3
    off = {key: [abs(case.off[key]) for case in inside] for key in ("itl_p50", "itl_p99")}
    assert statistics.fmean(off["itl_p50"]) <= 0.05
    assert statistics.median(off["itl_p99"]) <= 0.10


def test_a_limit_on_gaps_is_judged_alike_at_every_door():
    slo = "itl:25@p99"
    one = rl.predict(*SMALL, isl=1000, osl=200, request_rate=2, slo=slo)
    column = rl.predict(*SMALL, isl=1000, osl=[200, 1], request_rate=2, slo=slo)
    assert close(column.latency("itl_p99")[0], one.latency("itl_p99"), 1e-12)
    assert column.verdict.tolist() == [one.verdict, None]
    assert one.to_dict(["itl_p99_ms"])["itl_p99_ms"] == pytest.approx(1e3 * one.latency("itl_p99"))
    low, high = one.latency_interval("itl_p99")
    assert low < one.latency("itl_p99") < high
    best = rl.goodput(*SMALL, isl=1000, osl=200, slo=slo)[0].found
    there = rl.predict(*SMALL, isl=1000, osl=200, request_rate=best.rate, slo=slo)
    assert there.latency("itl_p99") <= 0.025 * (1.0 + 1e-6)
    rate = rl.solve(*SMALL, "request_rate", isl=1000, osl=200, request_rate=1, slo=slo).value
    assert close(rate, best.rate, 0.01)


def test_burst_run_and_single_token_have_the_gaps_that_they_have():
    burst = rl.predict(*SMALL, isl=1000, osl=200, batch=8, slo="itl:10@p99")
    assert burst.latency("itl_p99") == burst.itl == burst.tpot
    assert burst.to_dict(["itl_p99_ms"])["itl_p99_ms"] is None
    run = rl.predict(*SMALL, isl=1000, osl=200, concurrency=8, num_prompts=80)
    assert run.latency("itl") == run.tpot
    assert run.latency("itl_p99") is None
    assert rl.predict(*SMALL, isl=1000, osl=1, request_rate=1).latency("itl_p99") is None


def test_a_share_of_requests_does_not_count_gaps():
    both = {"isl": 1000, "osl": 200, "share": 0.9}
    alone, limited = (rl.goodput(*SMALL, slo=slo, **both)[0].found for slo in ("ttft:300", "ttft:300,itl:1000"))
    assert close(alone.rate, limited.rate, 1e-6)
    assert limited.attained["itl"] == pytest.approx(1.0, abs=exp(-5.0))


def test_gaps_of_two_pools_are_decode_steps():
    found = rl.disaggregate("llama-3.1-8b", "h100", "h100", isl=1000, osl=200, request_rate=6)
    assert found.itl == found.tpot
    assert close(found.latency("itl_p50"), found.tpot, 0.05)
    assert found.latency("itl_p99") < 1.3 * found.tpot
    assert found.simulate(requests=1500).ratio("itl_p99") == pytest.approx(1.0, abs=0.05)
