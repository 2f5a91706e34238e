"""Arrivals that bunch, and routers: limits, by hand, against every step, and the same answer from every door."""

import math
import random
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import tiers
from arrival_processes import batches, two_states, varying
from build_load_page import WIDE as RANGES
from build_load_page import bunched_case
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.cli.main import cli
from roofline.measurements.arrivals import dispersion
from roofline.serving.load.arriving import arriving
from roofline.serving.load.bunching import index_at_rank, served_in_bunches, spaced_wait
from roofline.serving.load.equations import server_of
from roofline.serving.load.limits import limited_latencies
from roofline.serving.load.rounds import meeting
from roofline.serving.load.server import prompt_of
from roofline.serving.load.simulation import Arrivals, simulated, simulated_latencies
from roofline.serving.load.steady import served
from roofline.specs.arrivals import LEAST_BUSY, RANDOM, ROUND_ROBIN, Point, Process
from roofline.support.errors import BadInput, OverloadedAtTimes

KEYS = ("ttft", "tpot", "ttft_p99", "tpot_p99")
CASE = {"isl": 1000, "osl": 200, "engine": "vllm"}


def one(rate=8.0, replicas=1, process=None, **options):
    """Deployment and workload of a rate."""
    found = rl.predict("llama-3.1-8b", "h100-sxm", **{**CASE, **options}, request_rate=rate)
    return found.deployment.copies(replicas), replace(found.workload, arrivals=process)


def flat(index, **more):
    """A process whose index is the same in every time."""
    return Process((Point(1e-9, index), Point(1e6, index)), **more)


def test_an_index_of_one_is_a_poisson_process_whose_figures_are_those_without_it():
    deployment, workload = one()
    bunched = served_in_bunches(deployment, replace(workload, arrivals=flat(1.0)))
    poisson = served(deployment, workload)
    for name in ("ttft", "tpot", "decode", "queue", "concurrency", "batch"):
        assert getattr(bunched, name) == pytest.approx(getattr(poisson, name), rel=1e-12)
    one_rank = limited_latencies(deployment, replace(workload, arrivals=flat(1.0)), KEYS)
    assert one_rank == pytest.approx(limited_latencies(deployment, workload, KEYS), rel=1e-12)


def test_the_index_at_a_rank_by_hand():
    deployment, _ = one(replicas=4)
    index = lambda process, is_even: index_at_rank(deployment, process, 2.0, 8.0, is_even=is_even)  # noqa: E731
    assert index(flat(5.0), False) == pytest.approx(2.0)  # 1 + 4/4
    assert index(flat(5.0), True) == pytest.approx(1.25)
    assert index(Process(), True) == pytest.approx(0.25)  # gaps of every fourth: Erlang
    assert index(Process(), False) == 1.0


def test_an_index_is_read_between_its_points_and_that_of_a_trace_at_another_rate():
    process = Process((Point(1.0, 2.0), Point(3.0, 6.0)))
    assert [process.index(time, 1.0) for time in (0.5, 1.0, 2.0, 3.0, 9.0)] == [1.5, 2.0, 4.0, 6.0, 6.0]
    assert replace(process, rate=2.0).index(1.0, 4.0) == 4.0  # twice as fast: what was 2 s is 1 s


def test_bunches_of_requests_wait_for_each_other_by_hand():
    deployment, workload = one()
    server = server_of(deployment, workload)
    poisson = served(deployment, workload)
    met = meeting(server, prompt_of(server), 8.0, *poisson.state[:2], None)
    bunched = served_in_bunches(deployment, replace(workload, arrivals=flat(3.0)))
    assert bunched.ttft - poisson.ttft == pytest.approx(2.0 / 2.0 * met.in_full / (1.0 - met.rho_chunks), rel=1e-9)
    slope = server.decode(2.0 + poisson.state[0]).total - server.decode(1.0 + poisson.state[0]).total
    assert bunched.tpot - poisson.tpot == pytest.approx(2.0 * (slope + met.prompt / (2.0 * 199.0)), rel=1e-9)
    assert bunched.concurrency == pytest.approx(8.0 * (bunched.ttft + bunched.decode), rel=1e-12)


def test_spaced_arrivals_wait_less_and_not_at_all_on_an_idle_server():
    assert spaced_wait(0.0, 0.0, 0.5) == pytest.approx(0.0, abs=1e-12)  # D/D/1
    assert spaced_wait(1.0, 0.3, 0.01) == 1.0
    assert spaced_wait(0.125, 1.0, 0.3) == pytest.approx(0.195, abs=1e-3)


@settings(max_examples=tiers.times(5, 15), deadline=None)
@given(
    rate=st.floats(1.0, 14.0),
    low=st.floats(1.0, 4.0),
    more=st.floats(1.05, 3.0),
    engine=st.sampled_from(["vllm", "sglang"]),
)
def test_more_dispersion_never_speeds_up_and_a_turn_never_slows_down(rate, low, more, engine):
    deployment, workload = one(rate, engine=engine)
    times = [served(deployment, replace(workload, arrivals=flat(index))).ttft for index in (1.0, low, more * low)]
    assert times == sorted(times)
    four, loaded = deployment.copies(4), replace(workload, load=workload.load.of(4.0 * rate))
    turns, any_of = (served(four, replace(loaded, arrivals=Process(router=router))) for router in (ROUND_ROBIN, RANDOM))
    assert turns.ttft <= any_of.ttft
    assert turns.tpot <= any_of.tpot


@tiers.has_more_cases
def test_all_cases_of_an_array_have_the_figures_of_each_alone():
    options = {**CASE, "arrivals": "idc:1s=1.4,10s=3.9,60s=16", "slo": "ttft:140@p99"}
    rates = tiers.some([2.0, 8.0, 12.0, 16.0, 30.0, 1e3], 2)
    many = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=np.array(rates), **options)
    for place, rate in enumerate(rates):
        try:
            alone = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=rate, **options)
        except rl.RooflineError as error:
            assert math.isnan(many.ttft[place])
            assert many.slo_verdict.reason[place] == error.short
            continue
        for key in (*KEYS, "e2el_p95", "itl_p99"):
            assert many.latency(key)[place] == pytest.approx(alone.latency(key), rel=1e-9)
        assert (many.verdict[place], many.slo_verdict.reason[place]) == (alone.verdict, alone.slo_verdict.reason)
    assert [row["reason"] is None for row in rl.table("llama-3.1-8b", "h100-sxm", request_rate=rates, **options)][
        :3
    ] == tiers.times([True, False], [True] * 3)


def test_a_rate_that_is_too_high_at_times_is_refused_with_the_share_of_the_requests():
    with pytest.raises(OverloadedAtTimes, match=r"% of the requests at request_rate = 18 come while more arrive"):
        rl.predict("llama-3.1-8b", "h100-sxm", request_rate=18.0, arrivals="idc:1s=3,10s=30", **CASE)
    deployment, workload = one(18.0, process=Process((Point(1.0, 3.0), Point(10.0, 30.0))))
    found = served(deployment, workload)
    assert not found.is_stable
    assert found.ttft == math.inf
    assert 0.02 < found.overloaded < 0.6


def test_verdicts_on_both_sides_of_a_figure_and_of_its_range():
    options = {**CASE, "request_rate": 6.0, "arrivals": "idc:1s=1.2,10s=2"}
    found = rl.predict("llama-3.1-8b", "h100-sxm", **options)
    time, (low, high) = found.latency("ttft_p99"), found.latency_interval("ttft_p99")
    for limit, word in (
        (1.0001 * high, "pass"),
        (0.9999 * high, "pass?"),
        (0.9999 * time, "fail?"),
        (0.9999 * low, "fail"),
    ):
        at = {**options, "slo": {"ttft_p99": limit}}
        assert rl.predict("llama-3.1-8b", "h100-sxm", **at).verdict == word
        assert rl.table("llama-3.1-8b", "h100-sxm", **at)[0]["slo_verdict"] == word


@tiers.has_more_cases
@pytest.mark.parametrize("seed", tiers.some([11, 14, 18, 23], 2))
def test_the_closed_forms_are_near_a_simulation_of_every_step(seed):
    draw = random.Random(seed)
    laws = batches(draw, 40.0, 2.0), varying(draw, 40.0, ((3.0, 0.1),)), two_states(draw, 40.0, 4.0)
    process, replicas = draw.choice(laws), 4
    router = draw.choice((RANDOM, ROUND_ROBIN))
    times = tuple(islice(process, 20_000))
    found = Process(dispersion(times), 40.0, times, "drawn", router)
    deployment, workload = one(40.0, replicas, found)
    closed = limited_latencies(deployment, workload, KEYS)
    finished = simulated(server_of(deployment, workload), Arrivals(6000, rate=40.0, process=found, replicas=replicas))
    real = simulated_latencies(finished)
    off = {key: closed[key] / real[key] - 1.0 for key in KEYS}
    assert abs(off["ttft"]) < 0.1, off
    assert abs(off["tpot"]) < 0.06, off
    assert abs(off["ttft_p99"]) < 0.3, off
    assert abs(off["tpot_p99"]) < 0.2, off


def test_cases_of_the_page_are_drawn_with_processes_and_routers():
    cases = [bunched_case(seed, 100, "any", RANGES) for seed in range(12)]
    assert {case.workload.arrivals.router for case in cases} == {RANDOM, ROUND_ROBIN, LEAST_BUSY}
    assert len({case.load.split(" at ")[0] for case in cases}) > 4


def test_arrivals_are_drawn_with_the_index_that_is_asked_for():
    process = Process((Point(1.0, 1.4), Point(10.0, 3.9), Point(60.0, 16.0)))
    times = list(islice(arriving(process, 20.0, random.Random(1)), 200_000))
    assert len(times) / times[-1] == pytest.approx(20.0, rel=0.06)
    for time, index in ((1.0, 1.4), (10.0, 3.9), (60.0, 16.0)):
        counts = np.bincount((np.array(times) / time).astype(int))[:-1]
        assert counts.var() / counts.mean() == pytest.approx(index, rel=0.2)
    bunches = list(islice(arriving(flat(5.0), 20.0, random.Random(1)), 60_000))
    counts = np.bincount((np.array(bunches) / 2.0).astype(int))[:-1]
    assert counts.var() / counts.mean() == pytest.approx(5.0, rel=0.1)


def test_a_trace_is_replayed_at_another_rate_again_and_again():
    times = (0.0, 1.0, 1.5, 4.0)
    process = Process((Point(1.0, 1.2),), 3 / 4, times, "a trace")
    got = list(islice(arriving(process, 1.5, random.Random(0)), 9))
    gaps = np.diff(got)
    assert got == sorted(got)
    assert gaps[:4] == pytest.approx(gaps[4:8])
    assert 4 / (got[4] - got[0]) == pytest.approx(1.5)


def test_routers_of_a_simulation():
    """Of as many requests that come evenly, turns share them evenly; the least busy replica is never crowded."""
    deployment, workload = one(30.0, 2)
    for router in (RANDOM, ROUND_ROBIN, LEAST_BUSY):
        arrivals = Arrivals(3000, rate=30.0, process=Process(router=router), replicas=2, seed=3)
        found = simulated_latencies(simulated(server_of(deployment, workload), arrivals))
        if router == RANDOM:
            usual = found
        else:
            assert found["ttft_p99"] < usual["ttft_p99"]
            assert found["tpot_p99"] < usual["tpot_p99"]


def test_a_router_by_prefix_pools_the_caches_of_replicas():
    options = {**CASE, "prefix": 500, "cache_size": "20GB", "working_set": "100GB", "request_rate": 8.0}
    apart = rl.predict("llama-3.1-8b", "h100-sxm", num_gpus=4, tp=1, **options)
    together = rl.predict("llama-3.1-8b", "h100-sxm", num_gpus=4, tp=1, router="prefix", **options)
    one_big = rl.predict("llama-3.1-8b", "h100-sxm", num_gpus=4, tp=1, **{**options, "working_set": "25GB"})
    assert together.ttft == pytest.approx(one_big.ttft, rel=1e-12)
    assert together.ttft < apart.ttft
    with pytest.raises(BadInput, match="give prefix, cache_size and working_set"):
        rl.predict("llama-3.1-8b", "h100-sxm", router="prefix", request_rate=8.0, **CASE)


def test_every_question_takes_arrivals_or_refuses_them_by_name():
    options, gpu = {**CASE, "arrivals": "idc:1s=1.4,10s=3.9,60s=16"}, ("llama-3.1-8b", "h100-sxm")
    limits = {"slo": "ttft:300@p99"}
    plain = rl.predict(*gpu, request_rate=8.0, **options)
    best, poisson = (rl.goodput(*gpu, **case, **limits)[0].rate for case in (options, CASE))
    assert best < poisson
    at = rl.predict(*gpu, request_rate=best, tp=1, **options)
    assert at.latency("ttft_p99") == pytest.approx(0.3, rel=1e-6)
    assert rl.levers(*gpu, request_rate=8.0, **options).start.answer.ttft == plain.ttft
    wanted = {**CASE, "request_rate": 60.0, "slo": "ttft:200@p99,tpot:25"}
    in_turn, at_random = (rl.plan(*gpu, **wanted, router=router).best.prediction for router in (ROUND_ROBIN, RANDOM))
    assert in_turn.deployment.num_gpus < at_random.deployment.num_gpus
    with pytest.raises(BadInput, match="disaggregate takes no arrivals"):
        rl.disaggregate("llama-3.1-8b", prefill="h100:tp1", decode="h100:tp1", request_rate=8.0, **options)
    with pytest.raises(BadInput, match="give request_rate"):
        rl.predict(*gpu, concurrency=8, **options)


@pytest.mark.parametrize("more", [{"arrivals": "idc:1s=1.4,10s=3.9"}, {"router": ROUND_ROBIN, "num_gpus": 4, "tp": 1}])
def test_slopes_are_those_of_differences(more):
    options, gpu = {**CASE, **more}, ("llama-3.1-8b", "h100-sxm")
    rows = rl.sensitivity(*gpu, request_rate=8.0, **options).to_rows()
    slopes = {(row["result"], row["input"]): row["elasticity"] for row in rows}
    here, less, more_of_it = (rl.predict(*gpu, request_rate=rate, **options) for rate in (8.0, 7.999, 8.001))
    for result in ("ttft", "tpot"):
        change = (getattr(more_of_it, result) - getattr(less, result)) / getattr(here, result)
        assert slopes[result, "request_rate"] == pytest.approx(change / (0.002 / 8.0), rel=1e-4)


@pytest.mark.parametrize("router", [LEAST_BUSY, "prefix"])
def test_no_router_passes_that_was_not_judged_or_is_rough(router):
    cached = {"prefix": 500, "cache_size": "20GB", "working_set": "100GB"} if router == "prefix" else {}
    options = {**CASE, "request_rate": 8.0, "num_gpus": 4, "tp": 1, "slo": "ttft:60s,tpot:6s", **cached}
    assert rl.predict("llama-3.1-8b", "h100-sxm", **options, router=router).verdict == "pass?"
    assert rl.predict("llama-3.1-8b", "h100-sxm", **options).verdict == "pass"


@pytest.mark.parametrize("more", [{"router": ROUND_ROBIN, "num_gpus": 4}, {"arrivals": "idc:1us=3,1000s=3"}])
def test_cases_without_rates_that_last_are_the_same_in_an_array(more):
    """Where one of the cases has such rates, the others are still at their own rate alone."""
    options = {**CASE, **more, "tp": 1, "engine": "sglang"}
    many = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=np.array([2.0, 6.0, 10.0]), **options)
    for place, rate in enumerate((2.0, 6.0, 10.0)):
        alone = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=rate, **options)
        for key in KEYS:
            assert many.latency(key)[place] == pytest.approx(alone.latency(key), rel=1e-10)


def test_what_is_refused_because_of_bunches_is_simulated():
    case = {**CASE, "arrivals": "idc:1s=3,10s=30", "request_rate": 18.0}
    found = rl.simulate("llama-3.1-8b", "h100-sxm", **case, requests=2000)
    assert found.ttft > 0.05
    assert found.ratio("ttft") is None
    assert found.to_dict()["ttft_ms"] is None
    assert found.to_dict()["simulated_ttft_ms"] == pytest.approx(1e3 * found.ttft)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in case.items()]
    said = CliRunner().invoke(
        cli, ["predict", "llama-3.1-8b", "h100-sxm", *options, "--simulate", "--requests", "2000"]
    )
    assert said.exit_code == 1
    assert "every step simulated" in said.stdout
    assert "come while more arrive" in said.stderr
