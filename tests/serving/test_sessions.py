"""Sessions: their turns by hand, what turns find of their context, every step, and the same answer from every door."""

import math

import numpy as np
import pytest
import tiers
from build_load_page import WIDE, judged, sessions_case

import roofline as rl
from roofline.serving.load.equations import server_of
from roofline.serving.load.sessions import found_of, served_in_sessions
from roofline.serving.load.simulation import NOWHERE, TIER, Arrivals, simulated
from roofline.serving.load.steady import served
from roofline.serving.prompts import prompt_kinds
from roofline.specs.engine import HBM
from roofline.specs.sessions import Sessions
from roofline.support.errors import BadInput
from roofline.support.records import replace

AGENTS = {"turns": 20, "think": "5s", "grow": "in:800,out:300", "system": 2000}
ON = ("llama-3.1-8b", "h100-sxm")


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 20, 97])
def test_groups_of_turns_have_the_mean_context_of_all(turns):
    sessions = Sessions(turns, 1.0, 800.0, 300.0, 2000.0)
    contexts = [2000.0 + 1100.0 * turn for turn in range(turns)]
    assert sessions.prefix == pytest.approx(np.mean(contexts))
    assert sessions.isl == pytest.approx(np.mean(contexts) + 800.0)
    assert sum(group.weight for group in sessions.groups) == pytest.approx(1.0)
    assert sum(group.weight * group.cached for group in sessions.groups) == pytest.approx(sessions.prefix)
    assert sessions.cached(turns) == contexts[-1]


def test_turns_compute_what_is_new_load_their_context_or_compute_all_of_it_again():
    deployment = rl.predict(*ON).deployment
    sessions = Sessions(2, 5.0, 800.0, 300.0, 2000.0)
    cache = rl.predict(*ON, **{**AGENTS, "turns": 2}, request_rate=1.0, cache_tier="host").workload.cache
    kinds = prompt_kinds(deployment, sessions.isl, sessions.prefix, replace(cache, hit=0.5, loaded=0.3, turns=sessions))
    assert [(kind.weight, kind.computed, kind.cached) for kind in kinds] == [
        (0.5, 800.0, 2000.0),
        (0.25, 800.0, 3100.0),
        (0.15, 800.0, 3100.0),
        (pytest.approx(0.1), 1900.0, 2000.0),
    ]
    assert [kind.is_loaded for kind in kinds] == [False, False, True, False]


def test_single_turns_without_a_context_are_requests_of_these_lengths():
    options = {"turns": 1, "grow": {"in": 800, "out": 300}, "request_rate": 3.0, "engine": "vllm"}
    one, plain = rl.predict(*ON, **options), rl.predict(*ON, isl=800, osl=300, request_rate=3.0, engine="vllm")
    for key in ("ttft", "tpot", "e2el", "ttft_p99", "tpot_p99"):
        assert one.latency(key) == plain.latency(key)


def test_all_that_is_found_is_a_prefix_of_the_mean_length_but_for_how_prompts_spread():
    many = rl.predict(*ON, **AGENTS, request_rate=1.0)
    plain = rl.predict(*ON, isl=13250, osl=300, prefix=12450, request_rate=1.0)
    assert many.session_times.found.hit == pytest.approx(1.0, abs=1e-6)
    assert many.tpot == pytest.approx(plain.tpot, rel=0.01)
    assert many.ttft == pytest.approx(plain.ttft, rel=0.02)


def test_contexts_that_wait_fill_what_running_requests_leave_by_hand():
    found = rl.predict(*ON, **{**AGENTS, "think": "60s"}, request_rate=1.2, tp=1)
    workload = found.workload
    rate, e2el = 1.2, float(found.served.ttft + found.served.decode)
    share = found_of(found.deployment, workload, e2el, rate)
    assert 0.05 < share.hit < 0.95
    stay = -60.0 * math.log(1.0 - share.hit)
    assert stay == pytest.approx(share.stay, rel=1e-9)
    waiting = rate * 19 / 20 * (10 * 1100.0) * 60.0 * share.hit  # mean context of turns 1 to 19, after their answers
    ended = rate / 20 * 20 * 1100.0 * stay
    assert waiting + ended == pytest.approx(share.room, rel=1e-6)


def test_users_who_think_are_in_flight_by_littles_law():
    found = rl.predict(*ON, **AGENTS, concurrency=30)
    assert found.request_rate * (found.e2el + 5.0) == pytest.approx(30.0, rel=1e-9)
    assert found.concurrency == pytest.approx(found.request_rate * found.e2el, rel=1e-9)
    times = found.session_times
    assert len(times.turns) == 20
    assert np.mean([turn.ttft for turn in times.turns]) == pytest.approx(found.ttft, rel=0.01)
    assert times.duration == pytest.approx(20 * found.e2el + 19 * 5.0, rel=1e-9)
    ttft = [turn.ttft for turn in times.turns]
    assert ttft == sorted(ttft)


def test_longer_pauses_find_less_and_host_memory_loads_what_was_dropped():
    hits = [
        rl.predict(*ON, **{**AGENTS, "think": think}, request_rate=1.5, tp=1).session_times.found.hit
        for think in (1.0, 20.0, 60.0, 300.0)
    ]
    assert hits == sorted(hits, reverse=True)
    dropped = {**AGENTS, "think": 60.0, "request_rate": 1.5, "tp": 1}
    again, loaded = rl.predict(*ON, **dropped), rl.predict(*ON, **dropped, cache_tier="host")
    some = rl.predict(*ON, **dropped, cache_tier="host", cache_size="20GB")
    assert loaded.ttft < some.ttft < again.ttft
    assert loaded.session_times.found.loaded == pytest.approx(1.0 - loaded.session_times.found.hit)
    lever = next(lever for lever in rl.levers(*ON, **dropped).alone if lever.kind == "prompt cache")
    assert lever.answer.ttft == pytest.approx(loaded.ttft, rel=1e-12)


def test_a_session_finds_its_context_at_its_own_replica_alone():
    options = {**AGENTS, "request_rate": 4.0, "num_gpus": 4, "tp": 1}
    own, any_of = rl.predict(*ON, **options), rl.predict(*ON, **options, router="round-robin")
    assert own.session_times.found.hit == pytest.approx(1.0, abs=1e-6)
    assert any_of.session_times.found.hit == pytest.approx(0.25, abs=1e-6)
    assert own.ttft < any_of.ttft


@tiers.has_more_cases
@pytest.mark.parametrize("seed", tiers.some([20_360_007, 20_360_003, 20_360_013, 20_360_021], 1))
def test_closed_forms_of_sessions_are_near_every_step(seed):
    case = judged(sessions_case(seed, 12_000, "any", WIDE))
    if case.inside:
        assert abs(case.off["ttft"]) < 0.12, case
        assert abs(case.off["tpot"]) < 0.09, case
        assert abs(case.off["ttft_p99"]) < 0.3, case


def test_turns_of_a_simulation_go_on_and_find_what_memory_keeps():
    sessions = Sessions(4, 30.0, 800.0, 300.0, 0.0)
    found = rl.predict(*ON, turns=4, think=30.0, grow="in:800,out:300", request_rate=8.0, tp=1, engine="vllm")
    server = server_of(found.deployment, found.workload)
    for tier, ways in ((0.0, {HBM, NOWHERE}), (math.inf, {HBM, TIER})):
        turns = simulated(server, Arrivals(4000, rate=8.0, sessions=sessions, tier=tier, seed=4))
        shares = [sum(one.turn == turn for one in turns) / len(turns) for turn in (1, 2, 3, 4)]
        assert shares == pytest.approx([0.25] * 4, abs=0.04)
        assert {one.found for one in turns if one.turn > 1} == ways
        assert {one.found for one in turns if one.turn == 1} == {""}
        if not tier:
            hits = sum(one.found == HBM for one in turns) / sum(one.turn > 1 for one in turns)
            assert hits == pytest.approx(float(found.session_times.found.hit), abs=0.08)


def test_cases_of_an_array_are_those_of_each_alone_with_verdict_and_reason():
    options = {**AGENTS, "slo": "ttft:120@p99,tpot:25", "engine": "vllm", "tp": 1}
    rates = [0.5, 1.0, 2.0, 3.0, 9.0]
    many = rl.predict(*ON, request_rate=np.array(rates), **options)
    rows = rl.table(*ON, request_rate=rates, **options)
    for place, rate in enumerate(rates):
        try:
            alone = rl.predict(*ON, request_rate=rate, **options)
        except rl.RooflineError as error:
            assert math.isnan(many.ttft[place])
            assert many.slo_verdict.reason[place] == error.short
            continue
        assert many.latency("ttft_p99")[place] == pytest.approx(alone.latency("ttft_p99"), rel=1e-6)
        assert (many.verdict[place], many.slo_verdict.reason[place]) == (alone.verdict, alone.slo_verdict.reason)
        assert rows[place]["ttft_ms"] == pytest.approx(1e3 * alone.ttft, rel=1e-6)
        assert rows[place]["slo_verdict"] == alone.verdict


def test_questions_take_sessions():
    slo = {"slo": "ttft:300@p99,tpot:25", "engine": "vllm"}
    best = rl.goodput(*ON, **AGENTS, **slo, tp=1)[0].rate
    at = rl.predict(*ON, **AGENTS, **slo, tp=1, request_rate=best)
    assert max(at.slo_shares.values()) == pytest.approx(1.0, rel=1e-4)
    plan = rl.plan(*ON, **AGENTS, **slo, request_rate=20.0).best.prediction
    alone = rl.predict(
        *ON, **AGENTS, **slo, request_rate=20.0, tp=plan.deployment.plan.tp, num_gpus=plan.deployment.num_gpus
    )
    assert plan.ttft == pytest.approx(alone.ttft, rel=1e-9)
    curve = rl.curve(*ON, **AGENTS, engine="vllm", tp=1)
    assert curve.to_rows()
    means = served(at.deployment, at.workload)
    assert served_in_sessions(at.deployment, at.workload).ttft == means.ttft


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"turns": 20}, "need turns and grow"),
        ({"grow": "in:1,out:2"}, "need turns and grow"),
        ({"turns": 0, "grow": "in:1,out:2"}, "whole number from 1"),
        ({"turns": 2.5, "grow": "in:1,out:2"}, "whole number from 1"),
        ({"turns": 2, "grow": "in:1"}, "must state in"),
        ({"turns": 2, "grow": "in:1,in:2"}, "twice"),
        ({"turns": 2, "grow": "in:0,out:2"}, "between 1 and"),
        ({"turns": 2, "grow": 7}, "must say what a turn adds"),
        ({**AGENTS, "think": -1.0}, "think = -1.0"),
        ({**AGENTS, "isl": 100}, "leave out isl"),
        ({**AGENTS, "prefix": 100}, "leave out prefix"),
        ({**AGENTS, "cache_size": "20GB"}, "leave out cache_size"),
        ({**AGENTS, "num_prompts": 100, "concurrency": 4}, "leave out num_prompts"),
    ],
)
def test_what_is_wrong_with_sessions_is_said(options, message):
    loads = {} if "concurrency" in options else {"request_rate": 1.0}
    with pytest.raises(BadInput, match=message):
        rl.predict(*ON, **options, **loads)


def test_sessions_need_a_load_and_pools_refuse_them():
    with pytest.raises(BadInput, match="sessions need a load"):
        rl.predict(*ON, **AGENTS)
    with pytest.raises(BadInput, match="disaggregate takes no"):
        rl.disaggregate("llama-3.1-8b", prefill="h100:tp1", decode="h100:tp1", request_rate=1.0, **AGENTS)


def test_a_stated_share_of_hits_is_that_of_later_turns_and_users_still_pause():
    options = {**AGENTS, "engine": "vllm", "tp": 1, "concurrency": 20}
    found, all_found = rl.predict(*ON, **options, cache_hit=0.5), rl.predict(*ON, **options, cache_hit=1.0)
    assert found.session_times.found.hit == 0.5
    assert found.ttft > all_found.ttft
    assert all_found.ttft == pytest.approx(rl.predict(*ON, **options).ttft, rel=1e-6)
    assert found.request_rate * (found.e2el + 5.0) == pytest.approx(20.0, rel=1e-9)
    assert rl.predict(*ON, **options, cache_hit=0.5, cache_tier="host").session_times.found.loaded == 0.5
    with pytest.raises(BadInput, match="leave out cache_hit"):
        rl.simulate(found, requests=50)


@pytest.mark.parametrize(
    "more",
    [
        {"concurrency": 60},  # a full server
        {"request_rate": 1.0, "router": "round-robin", "num_gpus": 2},
        {"request_rate": 1.0, "arrivals": "idc:1s=2"},
        {"request_rate": 1.0, "draft": "ngram", "draft_tokens": 3, "acceptance": 0.6},
    ],
)
def test_nothing_passes_where_no_simulation_was(more):
    found = rl.predict(*ON, **AGENTS, engine="vllm", tp=1, slo="ttft:600s,tpot:60s", **more)
    assert found.verdict == "pass?"
    assert str(found.slo_verdict.reason).startswith("outside the validated range")


def test_users_who_think_have_no_knee_of_users_in_flight():
    assert rl.predict(*ON, **AGENTS, concurrency=20, slo="ttft:300@p99").knee is None
    assert rl.predict(*ON, **{**AGENTS, "think": None}, concurrency=4).knee is not None
