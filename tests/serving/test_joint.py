"""Limits on several latencies of one request: its lengths drive TTFT, TPOT and E2EL together."""

from itertools import pairwise
from math import inf

import pytest
from conftest import close
from every_case import each

import roofline as rl
from roofline.serving.capacity import attained, shares_within
from roofline.serving.load.equations import server_of
from roofline.serving.load.joint import _quantile, joint_share, share_within
from roofline.serving.load.mixtures import Component, survival
from roofline.serving.load.simulation import Arrivals, simulated
from roofline.serving.load.tails import AnswerSlice, Tails

SMALL = ("llama-3.1-8b", "h100:tp1")
LEVELS = (1, 5, 25, 50, 75, 90, 95, 99, 99.9)


def certain(weight, time):
    return Component(weight, time, 0.0, 0.0)


def made_up():
    """TTFT of 1 or 3 s; a quarter single tokens, a quarter two further tokens of 1 s, half of them four of 2 s."""
    first, quick, slow = (certain(0.5, 1.0), certain(0.5, 3.0)), certain(1.0, 1.0), certain(1.0, 2.0)
    answers = (AnswerSlice(0.25, 0.0, certain(0.0, 1.0)), AnswerSlice(0.25, 2.0, quick), AnswerSlice(0.5, 4.0, slow))
    whole = [
        certain(one.weight * each.weight, one.least + each.tokens * each.tpot.least)
        for each in answers
        for one in first
    ]
    return Tails(first, (quick._replace(weight=1 / 3), slow._replace(weight=2 / 3)), tuple(whole), (), answers)


def test_requests_that_meet_all_limits_are_counted_one_by_one():
    spread = made_up()
    assert close(share_within(spread, "tpot", 1.5), 0.5, 1e-9)  # single tokens have none
    assert close(share_within(spread, "ttft", 2.0), 0.5, 1e-9)
    # E2EL: 1 and 3 of single tokens, 3 and 5, 9 and 11
    assert close(share_within(spread, "e2el", 4.0), 0.375, 1e-9)
    assert close(joint_share(spread, {"ttft": 2.0, "tpot": 1.5}), 0.25, 1e-9)
    assert close(joint_share(spread, {"ttft": 2.0, "e2el": 4.0}), 0.25, 1e-9)
    assert close(joint_share(spread, {"ttft": 2.0, "e2el": 10.0}), 0.5, 1e-9)
    assert close(joint_share(spread, {"tpot": 1.5, "e2el": 4.0}), 0.375, 1e-9)
    assert close(joint_share(spread, {"ttft": 4.0, "tpot": 3.0, "e2el": 10.0}), 0.75, 1e-9)
    assert joint_share(spread, {}) == 1.0
    assert joint_share(spread, {"ttft": 0.5, "e2el": 10.0}) == 0.0


@each("part", [Component(1.0, 2.0, 1.0, 0.2), Component(1.0, 2.0, 1.0, 3.0), Component(1.0, 0.5, 2.0, 0.0)])
def test_a_node_of_a_distribution_is_its_quantile(part):
    for share in (0.1, 0.5, 0.9, 0.99):
        time = _quantile(part, share)
        assert 1.0 - survival((part,), time * (1.0 + 1e-9)) == pytest.approx(share, abs=1e-4) or time in (2.0, 2.5)
    assert _quantile(part._replace(most=0.1), 0.99) <= max(
        part.least + 0.1, part.least + part.mean * (part.variance == 0.0)
    )


@each("engine", ["vllm", "sglang"])
@each("cv", [None, 1.0])
def test_as_many_requests_meet_limits_together_as_in_a_simulation(engine, cv):
    case = rl.predict(*SMALL, isl=2000, osl=100, request_rate=4, engine=engine, osl_cv=cv)
    names = ("ttft", "tpot", "e2el")
    limits = {name: case.latency(f"{name}_p90") for name in names}
    arrivals = Arrivals(5000, rate=4.0, seed=2, lengths=case.workload.lengths or Arrivals().lengths)
    requests = simulated(server_of(case.deployment, case.workload), arrivals)

    def met(*limited):
        return sum(all(not getattr(one, name) > limits[name] for name in limited) for one in requests) / len(requests)

    alone = {name: share_within(case.tails, name, limits[name]) - met(name) for name in names}
    for limited in (names[:2], names[1:], names[::2], names):
        joint = joint_share(case.tails, {name: limits[name] for name in limited})
        assert joint <= min(share_within(case.tails, name, limits[name]) for name in limited) + 1e-12
        margin = 0.015 + sum(abs(alone[name]) for name in limited)  # what is off of each alone is not of the joint
        assert joint == pytest.approx(met(*limited), abs=margin)


def test_limits_on_first_token_and_answer_are_missed_by_different_requests():
    # lengths of answers decide the E2EL, prompts and queues the TTFT: nearly a product
    case = rl.predict(*SMALL, isl=2000, osl=100, request_rate=2, osl_cv=1.0)
    limits = {name: case.latency(f"{name}_p90") for name in ("ttft", "e2el")}
    assert joint_share(case.tails, limits) == pytest.approx(0.81, abs=0.01)
    within = attained(case.deployment, case.workload, limits, case.served)
    assert within.joint == pytest.approx(joint_share(case.tails, limits), rel=1e-12)


def test_a_looser_limit_is_met_by_no_fewer():
    case = rl.predict(*SMALL, isl=2000, osl=40, request_rate=4, osl_cv=1.0, isl_cv=0.3)
    first, step = case.latency("ttft_p90"), case.latency("tpot_p90")
    shares = [
        joint_share(case.tails, {"ttft": first, "tpot": step, "e2el": time}) for time in (0.1, 0.3, 1.0, 3.0, 10.0, inf)
    ]
    assert all(high >= low - 1e-12 for low, high in pairwise(shares))
    assert shares[0] < 0.2
    assert shares[-1] == pytest.approx(joint_share(case.tails, {"ttft": first, "tpot": step}), rel=1e-9)


CASES = {
    "spread": {"isl": 6000, "osl": 2, "isl_cv": 1.5, "request_rate": 0.5},
    "both spread": {"isl": 3000, "osl": 10, "isl_cv": 1.5, "osl_cv": 1.5, "request_rate": 1.0},
    "prompts first": {"isl": 3000, "osl": 5, "isl_cv": 1.0, "osl_cv": 1.0, "request_rate": 1.0, "engine": "sglang"},
    "single tokens": {"isl": 3000, "osl": 1, "isl_cv": 1.0, "concurrency": 8},
    "users": {"isl": 9000, "osl": 3, "isl_cv": 1.5, "concurrency": 8},
    "cold": {"isl": 900, "osl": 30, "isl_cv": 0.3, "request_rate": 2.0, "cold_start": "2%:3s"},
    "cache": {"isl": 9000, "osl": 3, "prefix": 6000, "cache_hit": 0.5, "request_rate": 0.5},
    "drafts": {"isl": 900, "osl": 300, "request_rate": 2.0, "draft": "eagle", "draft_tokens": 3, "acceptance": 0.7},
}


@each("case", CASES.values(), ids=CASES.keys())
def test_no_answer_ends_before_its_first_token_at_any_level(case):
    found = rl.predict(*SMALL, **case)
    known = 0
    for name in ("ttft", "tpot", "itl", "e2el"):
        times = [time for level in LEVELS if (time := found.latency(f"{name}_p{level}")) is not None]
        known += len(times)
        assert all(high >= low * (1.0 - 1e-12) for low, high in pairwise(times))
    assert known >= 2 * len(LEVELS)
    means = {name: getattr(found, name) for name in ("ttft", "tpot", "itl", "e2el")}
    for level in LEVELS:
        first, whole = found.latency(f"ttft_p{level}"), found.latency(f"e2el_p{level}")
        assert first is None or whole is None or whole >= first * (1.0 - 1e-12)
        if first is not None:
            within = shares_within(found.tails, {"ttft": first, "e2el": first}, found.workload, means)
            assert within.shares["e2el"] <= within.shares["ttft"] + 1e-12


def test_an_answer_of_one_token_meets_any_limit_on_what_follows_the_first():
    case = rl.predict(*SMALL, isl=1000, osl=2, request_rate=1, osl_cv=1.0)
    single = sum(each.weight for each in case.tails.answers if each.tpot.weight == 0.0)
    assert 0.2 < single < 0.8
    assert share_within(case.tails, "tpot", 1e-6) == pytest.approx(single)
    alone = rl.predict(*SMALL, isl=1000, osl=1, request_rate=1)
    limits = {"ttft": alone.latency("ttft_p90"), "tpot": 1e-6}
    within = attained(alone.deployment, alone.workload, limits, alone.served)
    assert within.joint == within.shares["ttft"] >= 0.9
