"""The closed forms of a load beside a simulation of every step; docs/load.md has the full grid."""

import math
import statistics
from dataclasses import replace

import pytest
from build_load_page import judged_rate, judged_saturation, judged_users
from conftest import close, deploy
from every_case import each

import roofline as rl
from roofline.catalog.find import load_engine
from roofline.serving.latency import Workload
from roofline.serving.load.equations import server_of
from roofline.serving.load.simulation import Arrivals, simulated
from roofline.serving.prediction import predict_deployment
from roofline.specs.load import Rate

SMALL = ("llama-3.1-8b", "h100-sxm")
CASE = {"isl": 800, "osl": 150, "tp": 1}


def errors(judge, count, requests, first):
    """Cases inside the domain, from seeds that docs/load.md does not use."""
    cases = [judge((777_000 + place, requests, first)) for place in range(count)]
    found = [case for case in cases if case.inside]
    assert len(found) >= count // 3
    return found


def worst(cases, metric):
    return max(abs(getattr(case, metric)) for case in cases)


def mean(cases, metric):
    return statistics.fmean(abs(getattr(case, metric)) for case in cases)


def test_random_arrivals_are_met_as_a_simulation_meets_them():
    found = errors(judged_rate, 9, 1200, "decode")
    assert mean(found, "tpot") <= 0.03
    assert mean(found, "ttft") <= 0.05
    assert worst(found, "tpot") <= 0.10
    assert worst(found, "ttft") <= 0.20


def test_random_arrivals_where_prompts_go_first_are_met_as_well():
    found = errors(judged_rate, 6, 1000, "prompts")
    assert mean(found, "tpot") <= 0.05
    assert mean(found, "ttft") <= 0.05


@pytest.mark.parametrize("first", ["decode", "prompts"])
def test_users_are_met_as_a_simulation_meets_them(first):
    found = errors(judged_users, 6, 900, first)
    assert mean(found, "tpot") <= (0.03 if first == "decode" else 0.035)
    assert mean(found, "ttft") <= 0.08
    assert worst(found, "tpot") <= (0.10 if first == "decode" else 0.125)


@pytest.mark.parametrize(("first", "most"), [("decode", 0.02), ("prompts", 0.03)])
def test_the_saturation_is_what_many_users_reach(first, most):
    found = [judged_saturation((777_000 + place, 0, first)) for place in range(3)]
    assert mean(found, "tpot") <= 2.0 * most  # of three; docs/load.md has the mean of many


def test_a_simulation_is_the_same_for_the_same_seed_and_another_for_another():
    one, again, other = (rl.simulate(*SMALL, request_rate=8.0, requests=300, seed=n, **CASE) for n in (1, 1, 2))
    assert one == again
    assert one.ttft != other.ttft


@each("engine", ["vllm", "sglang", "none"])
@each("load", [{"concurrency": 8}, {"request_rate": 6.0}], ids=str)
def test_requests_in_a_simulation_are_counted_and_obey_little(engine, load):
    found = rl.simulate(*SMALL, engine=engine, requests=400, **load, **CASE)
    assert found.requests >= 400
    assert close(found.concurrency, found.request_rate * found.e2el, 1e-9)
    assert found.prediction.ttft > 0.0
    assert 0.0 <= found.queue < found.ttft
    assert abs(found.ratio("tpot") - 1.0) < 0.1


@pytest.mark.parametrize(
    ("engine", "isl"),
    [("generic", 800), ("sglang", 60), ("vllm", 20_000), ("eager", 60)],  # launches of the host, three chunks
)
def test_a_user_alone_takes_the_times_of_the_idle_server_in_a_simulation_too(engine, isl):
    case = {**CASE, "isl": isl, "engine": engine}
    found = rl.simulate(*SMALL, concurrency=1, requests=20, spread=0.0, **case)
    idle = rl.predict(*SMALL, **case)
    assert close(found.ttft, idle.ttft, 3e-3 if isl > 8192 else 1e-3)  # read from tables; chunks are full or equal
    assert close(found.tpot, idle.tpot, 2e-3)


@pytest.mark.parametrize("scheduler", ["decode first", "prompts first"])
@pytest.mark.parametrize("rate", [0.5, 4.0])
def test_a_request_that_arrives_waits_as_long_in_a_simulation_as_in_the_equations(rate, scheduler):
    closed, stepped = [], []
    for arrival in (0.0, 0.05):  # of a single other sequence
        engine = replace(load_engine("generic"), arrival=arrival, scheduler=scheduler)
        case = predict_deployment(deploy(*SMALL, engine=engine), Workload(1000.0, 200.0, Rate(rate)))
        closed.append(case.ttft)
        requests = simulated(server_of(case.deployment, case.workload), Arrivals(500, rate=rate, seed=3))
        stepped.append(statistics.fmean(request.ttft for request in requests))
    others = rate * case.served.decode
    assert 0.05 * others / (others + 1.0) ** 0.5 <= closed[1] - closed[0] <= 0.05 * others**0.5  # Jensen
    assert close(closed[1] - closed[0], stepped[1] - stepped[0], 0.05)


@each("engine", ["trtllm", "vllm", "sglang", "generic"])
@each("rate", [0.2, 0.5, 2.0])
def test_prompts_whose_launches_take_longest_wait_for_them_in_a_simulation_as_in_the_equations(engine, rate):
    # experts in FP8 on eight GPUs: the host launches a prompt for longer than it is computed
    case = {"quantization": "fp8", "tp": 8, "engine": engine, "isl": 211, "osl": 383, "request_rate": rate}
    found = rl.simulate("qwen3-235b-a22b", "b200", requests=2000, seed=3, **case)
    assert (found.prediction.ttft, found.prediction.tpot) == pytest.approx((found.ttft, found.tpot), rel=0.03)


def test_a_run_counts_every_request_from_the_burst_on():
    found = rl.simulate(*SMALL, concurrency=16, num_prompts=16, spread=0.0, **CASE)
    assert found.requests == 16
    assert found.ttft > 1.3 * rl.simulate(*SMALL, concurrency=16, requests=200, **CASE).ttft


def test_no_more_run_at_once_than_there_are_slots_and_memory():
    case = rl.predict(*SMALL, concurrency=40, max_num_seqs=4, **CASE)
    held = simulated(server_of(case.deployment, case.workload), Arrivals(200, users=40))
    free = rl.predict(*SMALL, concurrency=4, max_num_seqs=4, **CASE)
    assert close(statistics.fmean(r.tpot for r in held), free.tpot, 0.1)
    assert statistics.fmean(r.ttft for r in held) > 5.0 * free.ttft


def test_limits_of_the_engine_hold_in_a_simulation_at_the_hardware_limit_too():
    found = rl.simulate(*SMALL, concurrency=40, max_num_seqs=4, basis="ideal", requests=200, **CASE)
    assert found.ttft > 5.0 * found.tpot * CASE["osl"]
    assert found.ratio("ttft") == pytest.approx(1.0, abs=0.1)


def test_progress_is_told_and_single_tokens_have_no_tpot():
    told = []
    found = rl.simulate(*SMALL, request_rate=20.0, requests=3000, progress=told.append, isl=500, osl=20)
    assert told == sorted(told)
    assert told
    assert found.tpot is not None
    assert rl.simulate(*SMALL, request_rate=5.0, requests=50, isl=500, osl=1).tpot is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a burst is exact without simulation; give concurrency or request_rate"),
        ({"concurrency": [1, 2]}, "one case"),
        ({"concurrency": 2, "seed": 0.5}, "seed"),
        ({"concurrency": 2, "spread": 2.0}, "spread"),
        ({"concurrency": 2, "requests": 0}, "requests"),
    ],
)
def test_what_cannot_be_simulated_is_refused(options, said):
    with pytest.raises(rl.BadInput, match=said):
        rl.simulate(*SMALL, **options)


def test_a_simulation_prints_its_means_beside_the_closed_forms():
    found = rl.simulate(*SMALL, request_rate=4.0, requests=100, **CASE)
    assert "closed form" in str(found)
    row = found.to_dict()
    assert close(row["simulated_ttft_ms"], 1e3 * found.ttft)
    assert row["simulated_requests"] == found.requests
    assert math.isfinite(row["simulated_request_rate"])
