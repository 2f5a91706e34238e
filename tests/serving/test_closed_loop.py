"""A server on which a fixed number of requests is always in flight."""

import math
from itertools import pairwise

import numpy as np
import pytest
from conftest import close, deploy
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.catalog.engines import engine_names
from roofline.physics.forward import decode_pass, prefill_pass
from roofline.physics.memory import largest_batch
from roofline.physics.plan import Plan
from roofline.serving.closed_loop import mixed_time, steady_loop
from roofline.specs.engine import Engine

SMALL = ("llama-3.1-8b", "h100-sxm")
SERVERS = {
    "dense": ("llama-3.1-8b", "h100-sxm", {"tp": 1}),
    "fp8": ("llama-3.1-70b", "h100-sxm", {"tp": 4, "quantization": "fp8"}),
    "experts": ("mixtral-8x7b", "h200-sxm", {"tp": 2}),
    "latent": ("deepseek-v3", "b200", {"tp": 8}),
    "full memory": ("llama-3.1-70b", "h100-sxm", {"tp": 2}),
    "strange": ("qwen3-32b", "mi300x", {"tp": 1}),
}
LOADS = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 2000)
LENGTHS = ((200, 1000), (1024, 1024), (8000, 300), (20_000, 100))
SHORT = {"isl": 1000, "osl": 500}

every_server = pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)


def loop(server, concurrency, **options):
    model, gpu, plan = server
    return rl.closed_loop(model, gpu, concurrency, **plan, **options)


# --- one request -------------------------------------------------------------------------------


@every_server
@pytest.mark.parametrize("engine", engine_names())
def test_a_request_alone_takes_the_times_of_a_static_batch_of_one(server, engine):
    model, gpu, plan = server
    found = loop(server, 1, engine=engine, network=0.02, **SHORT)
    alone = rl.predict(model, gpu, engine=engine, network=0.02, **plan, **SHORT)
    assert close(found.ttft, alone.ttft, 1e-11)
    assert close(found.tpot, alone.tpot, 1e-11)
    assert close(found.e2el, alone.e2el, 1e-11)
    assert (found.running, found.queue_time, found.slot_time) == (1.0, 0.0, 0.0)
    assert close(found.step.time, alone.tpot, 1e-11)


def test_a_request_alone_waits_for_nobody_however_many_might_come():
    plain = rl.closed_loop(*SMALL, 1, **SHORT)
    for load in ({"burst": 1.0}, {"together": 8.0}, {"burst": 0.5, "together": 4.0}):
        assert close(rl.closed_loop(*SMALL, 1, **SHORT, **load).ttft, plain.ttft)


def test_a_long_prompt_is_computed_chunk_by_chunk():
    deployment = deploy(*SMALL, engine=Engine("chunked", prefill=0.003, stretch=1.2, chunk=2000))
    found = steady_loop(deployment, 8000.0, 100.0, 1.0)
    chunks = [prefill_pass(deployment, 1.0, 2000.0, cached).time - 0.003 for cached in (0.0, 2000.0, 4000.0, 6000.0)]
    assert close(found.ttft, sum(chunks) + 0.003)
    whole = steady_loop(deploy(*SMALL, engine=Engine("whole", prefill=0.003, stretch=1.2)), 8000.0, 100.0, 1.0)
    assert found.ttft > whole.ttft  # weights are read four times


def test_a_cached_prefix_leaves_the_rest_of_the_prompt():
    plain, cached = (rl.closed_loop(*SMALL, 8, isl=4000, osl=100, prefix=prefix) for prefix in (0, 3000))
    alone = rl.predict(*SMALL, isl=4000, osl=100, prefix=3000)
    assert close(rl.closed_loop(*SMALL, 1, isl=4000, osl=100, prefix=3000).ttft, alone.ttft, 1e-11)
    assert cached.ttft < plain.ttft
    assert cached.tpot < plain.tpot


# --- many --------------------------------------------------------------------------------------


@every_server
@pytest.mark.parametrize("lengths", LENGTHS, ids="{0[0]}-{0[1]}".format)
@pytest.mark.parametrize("load", [{}, {"burst": 1.0}, {"burst": 0.5, "together": 4.0}], ids=str)
def test_more_requests_in_flight_never_answer_sooner_and_never_do_less(server, lengths, load):
    isl, osl = lengths
    answers = [loop(server, concurrency, isl=isl, osl=osl, **load) for concurrency in LOADS]
    for fewer, more in pairwise(answers):
        assert more.ttft >= fewer.ttft * (1.0 - 1e-12)
        assert more.tpot >= fewer.tpot * (1.0 - 1e-12)
        assert more.requests_per_s >= fewer.requests_per_s * (1.0 - 1e-9)
    assert answers[-1].tpot > answers[0].tpot
    assert answers[-1].ttft > answers[0].ttft


@every_server
@pytest.mark.parametrize("concurrency", [1, 4, 100, 2000])
@pytest.mark.parametrize("load", [{}, {"burst": 1.0}], ids=str)
def test_requests_in_flight_are_their_rate_times_their_latency(server, concurrency, load):
    found = loop(server, concurrency, **SHORT, **load)
    assert close(found.requests_per_s * found.e2el, concurrency)
    assert close(found.e2el, found.ttft + 499 * found.tpot)
    assert found.running <= concurrency


@pytest.mark.parametrize("concurrency", [1, 3, 8, 64])
def test_requests_in_flight_on_data_parallel_ranks_are_their_rate_times_their_latency(concurrency):
    found = rl.closed_loop("deepseek-v3", "b200", concurrency, tp=1, dp=8, ep=8, **SHORT)
    assert close(found.requests_per_s * found.e2el, concurrency)


def test_data_parallel_ranks_share_the_requests_evenly():
    spread = rl.closed_loop(*SMALL, 32, tp=1, dp=4, **SHORT)
    alone = rl.closed_loop(*SMALL, 8, tp=1, **SHORT)
    assert spread.running == alone.running == 8.0
    assert close(spread.tpot, alone.tpot)
    assert close(spread.ttft, alone.ttft)
    assert close(spread.requests_per_s, 4.0 * alone.requests_per_s)


def test_a_step_among_others_is_one_of_all_of_them():
    deployment = rl.predict(*SMALL, tp=1).deployment
    found = rl.closed_loop(*SMALL, 16, tp=1, **SHORT)
    assert found.running == 16.0
    assert close(found.step.time, decode_pass(deployment, 16.0, 1000.0, 499.0).time)
    assert found.tpot > found.step.time  # prompts of the others come between


def test_answers_take_longer_where_prompts_are_longer():
    short, long = (rl.closed_loop(*SMALL, 32, isl=isl, osl=300) for isl in (200, 4000))
    assert long.prefill_time > short.prefill_time
    assert long.tpot - long.step.time > 5.0 * (short.tpot - short.step.time)


def test_a_prompt_adds_less_to_a_step_than_it_takes_alone():
    # Weights are read once for both, so a prompt that is bound by memory rides along almost free, and a long one,
    # whose arithmetic fills the GPU, hides the step's at most.
    short, long = (rl.closed_loop(*SMALL, 64, isl=isl, osl=300, engine="none") for isl in (100, 8000))
    assert 0.0 < short.prefill_time < 0.3 * short.own_prefill_time
    assert long.own_prefill_time - long.step.time < long.prefill_time < long.own_prefill_time


@given(batch=st.integers(1, 200), new=st.integers(1, 8000), context=st.integers(1, 8000))
def test_a_mixed_step_takes_at_least_each_of_its_parts_and_at_most_both(batch, new, context):
    deployment = deploy(*SMALL)
    step, prompt = decode_pass(deployment, float(batch), float(context)), prefill_pass(deployment, 1.0, float(new))
    mixed = mixed_time(deployment, step, float(batch), 1.0, float(new), 0.0)
    assert mixed <= (step.time + prompt.time) * (1.0 + 1e-12)
    attention = sum(kernel.time for kernel in step.kernels if kernel.kind.is_attention)
    assert mixed >= max(prompt.time - 0.001, attention)  # the head multiplies fewer rows in a prompt


def test_a_burst_lets_the_first_token_wait_and_spares_the_others():
    steady, burst = (rl.closed_loop(*SMALL, 64, burst=share, **SHORT) for share in (0.0, 1.0))
    assert burst.ttft > 2.0 * steady.ttft
    assert burst.tpot < steady.tpot


# --- memory ------------------------------------------------------------------------------------


def test_requests_that_memory_does_not_hold_wait_for_a_place():
    server, lengths = SERVERS["full memory"], {"isl": 4000, "osl": 1000}
    deployment = rl.predict("llama-3.1-70b", "h100-sxm", tp=2, **lengths).deployment
    held = largest_batch(deployment, 4000.0 + deployment.engine.reserve * 1000.0)
    at, beyond = (loop(server, concurrency, **lengths) for concurrency in (int(held), 4 * int(held)))
    assert at.slot_time == 0.0
    assert at.running == beyond.running == held
    assert close(beyond.slot_time, 3.0 * at.e2el)  # three generations of requests before mine
    assert close(beyond.ttft - beyond.slot_time, at.ttft)
    assert close(beyond.tpot, at.tpot)
    assert close(beyond.requests_per_s, at.requests_per_s)


def test_an_engine_that_reserves_less_of_an_answer_runs_more_requests():
    def running(reserve):
        deployment = deploy("llama-3.1-70b", "h100-sxm", Plan(tp=2), engine=Engine("own", reserve=reserve))
        return steady_loop(deployment, 1000.0, 4000.0, 1000.0).running

    assert running(0.1) > running(0.5) > running(1.0)


# --- intervals and light -----------------------------------------------------------------------


@every_server
@pytest.mark.parametrize("concurrency", [1, 64, 1000])
def test_the_intervals_of_a_loaded_server_hold_its_times(server, concurrency):
    found = loop(server, concurrency, **SHORT)
    for time, (low, high) in ((found.ttft, found.ttft_interval), (found.tpot, found.tpot_interval)):
        assert low < time < high
        assert close(low * high, time * time)


def test_waiting_makes_the_first_token_less_certain():
    few, crowd, limited = (loop(SERVERS["dense"], n, isl=1000, osl=500).sigma_ttft for n in (4, 65, 5000))
    assert few < crowd < limited


@every_server
@pytest.mark.parametrize("engine", ["none", "generic", "trtllm"])
def test_no_loaded_server_is_faster_than_light(server, engine):
    for concurrency in (1, 32, 500):
        real, light = (
            loop(server, concurrency, basis=basis, engine=engine, **SHORT) for basis in ("calibrated", "ideal")
        )
        assert real.ttft >= light.ttft
        assert real.tpot >= light.tpot


@pytest.mark.parametrize("engine", ["sglang", "none"])
def test_light_speed_needs_no_engine(engine):
    plain = rl.closed_loop(*SMALL, 16, basis="ideal", **SHORT)
    found = rl.closed_loop(*SMALL, 16, basis="ideal", engine=engine, network=0.1, **SHORT)
    assert (found.ttft, found.tpot) == (plain.ttft, plain.tpot)


# --- refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [0, 0.5, -1, math.nan, math.inf, True, None, "8", [8], 10**400], ids=lambda v: repr(v)[:20]
)
def test_a_concurrency_that_cannot_be_is_refused(value):
    with pytest.raises(rl.BadInput, match="concurrency"):
        rl.closed_loop(*SMALL, value)


@pytest.mark.parametrize(
    ("name", "value"), [("burst", -0.1), ("burst", 1.1), ("burst", "1"), ("together", 0), ("together", math.inf)]
)
def test_a_load_that_cannot_be_is_refused(name, value):
    with pytest.raises(rl.BadInput, match=name):
        rl.closed_loop(*SMALL, 8, **{name: value})


def test_a_batch_is_no_part_of_a_closed_loop():
    with pytest.raises(rl.BadInput, match="it follows from concurrency"):
        rl.closed_loop(*SMALL, 8, batch=4)


def test_what_a_prediction_refuses_a_closed_loop_refuses():
    with pytest.raises(rl.DoesNotFit):
        rl.closed_loop("llama-3.1-405b", "h100-sxm", 8, tp=1)
    with pytest.raises(rl.UnknownName):
        rl.closed_loop("lama", "h100-sxm", 8)
    with pytest.raises(rl.UnknownName):
        rl.closed_loop(*SMALL, 8, engine="vllm2")


# --- columns -----------------------------------------------------------------------------------


def test_a_column_of_lengths_gives_what_its_cases_give():
    isl = np.array([200, 3000, 20_000])
    over = rl.closed_loop(*SMALL, 64, isl=isl, osl=200, tp=1)
    for place, length in enumerate(isl):
        single = rl.closed_loop(*SMALL, 64, isl=int(length), osl=200, tp=1)
        for figure in ("ttft", "tpot", "e2el", "requests_per_s", "running", "sigma_ttft", "sigma_tpot"):
            assert close(np.broadcast_to(getattr(over, figure), (3,))[place], getattr(single, figure)), figure
