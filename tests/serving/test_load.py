"""A server under a load: users who ask again, and requests that come at random."""

import math
from itertools import pairwise

import numpy as np
import pytest
import tiers
from conftest import close
from every_case import each

import roofline as rl
from roofline.catalog.find import engine_names
from roofline.formulas.case import changed, inputs
from roofline.serving.load import equations
from roofline.serving.load.equations import server_of
from roofline.serving.load.rounds import idle_time, queue_wait
from roofline.serving.load.server import Prompt

SMALL = ("llama-3.1-8b", "h100-sxm")
SERVERS = {
    "dense": ("llama-3.1-8b", "h100-sxm", {"tp": 1}),
    "fp8": ("llama-3.1-70b", "h100-sxm", {"tp": 4, "quantization": "fp8"}),
    "experts": ("mixtral-8x7b", "h200-sxm", {"tp": 2}),
    "latent": ("deepseek-v3", "b200", {"tp": 8}),
    "ranks": ("deepseek-v3", "b200", {"tp": 1, "dp": 8, "ep": 8}),
    "replicas": ("llama-3.1-8b", "h100-sxm", {"tp": 1, "num_gpus": 4}),
    "strange": ("qwen3-32b", "mi300x", {"tp": 1}),
}
LENGTHS = ((200, 1000), (1024, 1024), (8000, 300))
SHORT = {"isl": 1000, "osl": 500}
USERS = np.array([1, 1.5, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512])
SHARES = np.array([1e-3, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])

every_server = each("server", SERVERS.values(), ids=SERVERS)
schedulers = each("engine", ["vllm", "sglang"])


def answer(server, **options):
    model, gpu, plan = server
    return rl.predict(model, gpu, **plan, **options)


def most(server, **options):
    return float(answer(server, request_rate=1e-6, **options).max_request_rate)


# --- one load ----------------------------------------------------------------------------------


@each(
    "loads",
    [{"batch": 2, "concurrency": 2}, {"batch": 1, "request_rate": 1.0}, {"concurrency": 2, "request_rate": 1.0}],
    ids=str,
)
@each("ask", [rl.predict, rl.ttft, rl.tpot, rl.knee, rl.sensitivity, rl.table])
def test_a_case_has_one_load(ask, loads):
    with pytest.raises(rl.BadInput, match="a case has one load"):
        ask(*SMALL, **loads)


def test_no_load_at_all_is_a_burst_of_one():
    plain, one = rl.predict(*SMALL), rl.predict(*SMALL, batch=1)
    assert plain == one
    assert plain.load == "burst"
    keys = ["util", "running", "waiting", "queue_ms", "max_request_rate"]
    assert plain.to_dict(keys) == dict.fromkeys(keys)


@each(
    ("options", "said"),
    [
        *(({load: value}, load) for load in ("concurrency", "request_rate") for value in (0, -3)),
        *(({"concurrency": 4, "max_num_batched_tokens": n}, "whole number of tokens") for n in (0, 0.5)),
        ({"concurrency": 4, "max_num_seqs": 0}, "whole number of sequences"),
        ({"concurrency": 4, "gpu_memory_utilization": 1.5}, "share of the memory"),
        ({"concurrency": 4, "max_model_len": 100}, "exceed max_model_len = 100"),
        ({"concurrency": 32, "num_prompts": 31}, "num_prompts"),  # a run has at least as many requests as users
        ({"batch": 2, "num_prompts": 8}, "num_prompts"),
    ],
)
def test_loads_and_settings_of_the_engine_that_cannot_be_are_refused(options, said):
    with pytest.raises(rl.BadInput, match=said):
        rl.predict(*SMALL, **options)


def test_a_row_states_its_load_and_nothing_of_the_others():
    users, rate = (
        rl.predict(*SMALL, **load, **SHORT).to_dict() for load in ({"concurrency": 8}, {"request_rate": 2.0})
    )
    assert (users["load"], users["batch"], users["concurrency"]) == ("concurrency", None, 8)
    assert (rate["load"], rate["batch"], rate["request_rate"]) == ("request_rate", None, 2.0)
    assert list(users) == list(rate) == list(rl.predict(*SMALL).to_dict())


# --- nobody else -------------------------------------------------------------------------------


@every_server
@tiers.has_more_cases
@pytest.mark.parametrize("engine", tiers.some(engine_names(), 4))
def test_one_user_sees_the_idle_server(server, engine):
    case = {"engine": engine, "network": 0.02, "isl": 9000, "osl": 300}
    user, idle = answer(server, concurrency=1, **case), answer(server, batch=1, **case)
    for name in ("ttft", "tpot", "e2el"):
        assert close(getattr(user, name), getattr(idle, name), 1e-11)
    assert np.allclose(user.ttft_interval, idle.ttft_interval, rtol=1e-9)
    assert np.allclose(user.tpot_interval, idle.tpot_interval, rtol=1e-9)
    assert abs(user.queue) < 1e-9


@every_server
@schedulers
def test_where_hardly_anybody_asks_the_server_is_idle(server, engine):
    rare, idle = answer(server, request_rate=1e-7, engine=engine, **SHORT), answer(server, engine=engine, **SHORT)
    assert close(rare.ttft, idle.ttft, 1e-5)
    assert close(rare.tpot, idle.tpot, 1e-5)


def test_a_prompt_longer_than_the_budget_is_computed_in_chunks_on_an_idle_server_too():
    whole, chunked = (rl.predict(*SMALL, isl=32_000, max_num_batched_tokens=n) for n in (40_000, 4000))
    assert chunked.ttft > 1.01 * whole.ttft  # weights and cache are read again
    assert close(chunked.tpot, whole.tpot)


# --- more, and faster --------------------------------------------------------------------------


@every_server
@schedulers
@pytest.mark.parametrize("lengths", tiers.some(LENGTHS, 1), ids="{0[0]}-{0[1]}".format)
@tiers.has_more_cases
def test_more_load_never_answers_sooner(server, engine, lengths):
    case = {"isl": lengths[0], "osl": lengths[1], "engine": engine}
    users = answer(server, concurrency=USERS, **case)
    rates = answer(server, request_rate=SHARES * most(server, **case), **case)
    # Where prompts that come first keep all slots taken, answers take slots/rate, which falls with the rate.
    has_room = rates.served.waiting_share < 0.01
    for found in (users.ttft, users.tpot, rates.ttft[has_room], rates.tpot[has_room]):
        known = found[~np.isnan(found)]
        assert len(known) >= len(found) - 2  # near the saturation of some there is no steady state
        assert all(more >= fewer * (1.0 - 1e-9) for fewer, more in pairwise(known))


@every_server
@schedulers
@pytest.mark.parametrize("rate", ["bandwidth", "peaks"])
def test_a_faster_gpu_never_answers_later(server, engine, rate):
    loads = ({"concurrency": 24.0}, {"request_rate": 0.5 * most(server, engine=engine, **SHORT)})
    for load in loads:
        base = answer(server, engine=engine, **load, **SHORT)
        names = ["bandwidth"] if rate == "bandwidth" else [f"peak_{dtype}" for dtype in base.deployment.gpu.peaks]
        gpu = base.deployment.gpu
        fast = changed(
            base, {name: 1.3 * (gpu.bandwidth if name == "bandwidth" else gpu.peaks[name[5:]]) for name in names}
        )
        # Users who are answered sooner ask again sooner, and may meet more of each other's prompts.
        # Where prompts come first, a pass that begins sooner holds fewer of them.
        assert fast.ttft <= base.ttft * (1.03 if "concurrency" in load or engine == "sglang" else 1.0 + 1e-9)
        more_passes = 1.01 if engine == "sglang" else 1.0 + 1e-9
        assert fast.e2el <= base.e2el * more_passes
        assert fast.tpot <= base.tpot * more_passes
        assert fast.served.max_request_rate >= base.served.max_request_rate * (1.0 - 1e-9)


@every_server
@schedulers
@pytest.mark.parametrize("load", [{"concurrency": 48}, {"request_rate": 0.4}], ids=str)
def test_requests_in_flight_are_their_rate_times_their_latency(server, engine, load):
    found = answer(server, engine=engine, **load, **SHORT)
    assert close(found.request_rate * found.e2el, found.concurrency, 1e-9)
    assert close(found.running + found.waiting, found.concurrency, 1e-9)
    assert close(found.waiting, found.request_rate * found.queue, 1e-9)
    assert close(found.util, found.request_rate / found.max_request_rate, 1e-12)
    assert close(found.output_tok_s, found.request_rate * 500, 1e-12)


@every_server
@schedulers
def test_an_element_of_an_array_is_the_scalar(server, engine):
    columns = {"concurrency": USERS[[0, 3, 7, 10]], "request_rate": np.array([0.01, 0.2, 1.0])}
    for load, values in columns.items():
        many = answer(server, engine=engine, **{load: values}, **SHORT)
        for place, value in enumerate(values):
            one = answer(server, engine=engine, **{load: float(value)}, **SHORT)
            assert close(many.ttft[place], one.ttft, 1e-9)
            assert close(many.tpot[place], one.tpot, 1e-9)


# --- sharing -----------------------------------------------------------------------------------


def test_replicas_and_ranks_share_the_users_evenly():
    alone = rl.predict(*SMALL, tp=1, concurrency=8, **SHORT)
    for plan in ({"num_gpus": 4}, {"dp": 4}):
        shared = rl.predict(*SMALL, tp=1, concurrency=32, **plan, **SHORT)
        for name in ("ttft", "tpot", "output_tok_s_gpu"):  # between whole sequences, ranks take the line
            assert close(getattr(shared, name), getattr(alone, name), 1e-6), name
        assert close(shared.max_request_rate, 4.0 * alone.max_request_rate)


def test_replicas_share_the_requests_evenly():
    alone, shared = (rl.predict(*SMALL, tp=1, request_rate=3.0 * n, num_gpus=n, **SHORT) for n in (1, 4))
    assert all(close(getattr(shared, name), getattr(alone, name)) for name in ("ttft", "tpot", "util"))


def test_stages_of_a_pipeline_were_not_checked_and_say_so():
    found = rl.predict("llama-3.1-70b", "h100-sxm", tp=2, pp=2, concurrency=8, **SHORT)
    assert any("outside the validated range" in text and "pipeline" in text for text in found.warnings)


# --- limits ------------------------------------------------------------------------------------


def test_more_requests_than_can_be_answered_are_refused_with_the_most():
    rate = most(SERVERS["dense"], **SHORT)
    assert rate == pytest.approx(13.2, rel=0.1)  # an H100 decodes some 1,900 tokens/s of answers of 150
    with pytest.raises(rl.Overloaded, match=rf"at most {rate:.1f} requests/s"):
        rl.predict(*SMALL, tp=1, request_rate=2.0 * rate, **SHORT)


def test_in_an_array_what_cannot_be_answered_is_nan_and_a_row_says_why():
    rate = most(SERVERS["dense"], **SHORT)
    found = rl.predict(*SMALL, tp=1, request_rate=np.array([0.5, 2.0]) * rate, **SHORT)
    assert np.isnan(found.ttft).tolist() == np.isnan(found.tpot).tolist() == [False, True]
    rows = rl.table(*SMALL, tp=1, request_rate=[0.5 * rate, 2.0 * rate], **SHORT)
    assert rows[0]["reason"] is None
    assert rows[1]["reason"].startswith("overloaded: at most ")
    assert rows[1]["ttft_ms"] is None
    assert close(rows[1]["request_rate"], 2.0 * rate)


def test_slots_hold_requests_back():
    free, held = (rl.predict(*SMALL, concurrency=64, max_num_seqs=n, **SHORT) for n in (256, 8))
    assert held.tpot < free.tpot  # eight decode together
    assert held.ttft > 10.0 * free.ttft
    assert held.waiting > 50.0
    few, many = (rl.predict(*SMALL, request_rate=1e-6, max_num_seqs=n, **SHORT).max_request_rate for n in (8, 64))
    assert few < many


def test_less_memory_holds_fewer():
    roomy, tight = (
        rl.predict("llama-3.1-70b", "h100-sxm", tp=2, concurrency=1, gpu_memory_utilization=n, max_num_seqs=10_000)
        for n in (0.95, 0.92)
    )
    assert tight.knees.memory < roomy.knees.memory
    with pytest.raises(rl.DoesNotFit):  # an engine does not start without room for its longest request
        rl.predict("llama-3.1-70b", "h100-sxm", tp=2, concurrency=1, max_model_len=130_000)


def test_the_wait_of_the_prefill_stage_is_that_of_the_textbook():
    mean, rate = 0.04, 15.0
    load = rate * mean
    assert close(queue_wait(rate, mean, 2.0 * mean**2), load * mean / (1.0 - load))  # M/M/1
    assert close(queue_wait(rate, mean, mean**2), load * mean / (2.0 * (1.0 - load)))  # M/D/1
    uneven = 1.7 * mean**2
    assert close(queue_wait(rate, mean, uneven), rate * uneven / (2.0 * (1.0 - load)))  # M/G/1
    assert close(idle_time(Prompt(1000.0, 0.0, 0.0, mean), rate, mean), mean + queue_wait(rate, mean, mean**2))


# --- a run with a start ------------------------------------------------------------------------


def test_a_run_of_a_benchmark_lies_between_its_burst_and_the_steady_state():
    steady = rl.predict(*SMALL, concurrency=32, **SHORT)
    runs = [rl.predict(*SMALL, concurrency=32, num_prompts=n, **SHORT) for n in (32, 64, 320, 3200, 10**9)]
    assert all(longer.ttft < shorter.ttft for shorter, longer in pairwise(runs))
    assert close(runs[-1].ttft, steady.ttft, 1e-6)
    assert close(runs[-1].tpot, steady.tpot, 1e-6)
    share = 32 / 320
    assert close(runs[2].ttft, share * runs[0].ttft + (1.0 - share) * steady.ttft, 1e-9)


# --- questions ---------------------------------------------------------------------------------


@schedulers
@tiers.has_more_cases
@pytest.mark.parametrize(
    "load", tiers.some([{"request_rate": 4.0}, {"concurrency": 48}, {"concurrency": 16, "num_prompts": 160}], 1)
)
def test_slopes_through_the_fixed_point_are_those_of_differences(engine, load):
    base = rl.predict(*SMALL, engine=engine, **load, **SHORT)
    rows = {(row.result, row.input): row for row in rl.sensitivity(*SMALL, engine=engine, **load, **SHORT)}
    for result in ("ttft", "tpot", "e2el"):
        for name in ("bandwidth", "peak_bf16", "isl", "osl", next(iter(load)), "host_request", "host_step", "kv_bits"):
            value = inputs(base)[name].value
            elasticity = rows[result, name].elasticity if (result, name) in rows else 0.0  # does not depend on it
            step = 1e-4 * value
            ends = [getattr(changed(base, {name: value + side * step}), result) for side in (1.0, -1.0)]
            slope = (ends[0] - ends[1]) / (2.0 * step) * value / getattr(base, result)
            assert abs(elasticity - slope) < 1e-6, (result, name)


def test_sensitivities_under_a_load_have_no_formula():
    rows = rl.sensitivity(*SMALL, of="tpot", concurrency=8)
    assert rows.to_records()[0]["formula"] is None
    with pytest.raises(rl.BadInput, match="fixed point"):
        rl.formula(*SMALL, "tpot", concurrency=8)


@pytest.mark.parametrize("unknown", ["concurrency", "request_rate", "bandwidth"])
def test_solving_for_a_load_is_predicting_backwards(unknown):
    load = {} if unknown != "bandwidth" else {"concurrency": 64}
    found = rl.solve(*SMALL, unknown, tpot=0.02, **load, **SHORT)
    assert found.is_met
    assert close(found.prediction.tpot, 0.02, 1e-8)
    if unknown != "bandwidth":
        assert close(rl.predict(*SMALL, **{unknown: found.value}, **SHORT).tpot, 0.02, 1e-8)


def test_what_no_load_reaches_is_said_with_the_floor():
    found = rl.solve(*SMALL, "concurrency", ttft=0.01, **SHORT)
    assert not found.is_met
    assert "cannot be met" in found.reason


def test_two_loads_at_once_are_no_question():
    with pytest.raises(rl.BadInput, match="concurrency is solved for, but batch is given; a case has one load"):
        rl.solve(*SMALL, "concurrency", ttft=0.3, batch=4)


def test_the_knee_of_users_is_the_most_that_meet_the_slo():
    found = rl.predict(*SMALL, concurrency=8, slo={"ttft": 0.12}, **SHORT)
    most_users = found.knees.slo
    assert rl.predict(*SMALL, concurrency=most_users, **SHORT).ttft <= 0.12
    assert rl.predict(*SMALL, concurrency=most_users + 1, **SHORT).ttft > 0.12
    with pytest.raises(rl.BadInput, match="request_rate"):
        rl.knee(*SMALL, request_rate=1.0)


@pytest.mark.parametrize("load", [{"concurrency": 200}, {"request_rate": 40.0}], ids=str)
def test_a_size_meets_the_slo_and_one_replica_fewer_does_not(load):
    slo = {"ttft": 0.15, "tpot": 0.012}
    found = rl.size("llama-3.1-8b", "h100-sxm", slo=slo, **load, **SHORT).cheapest.prediction
    assert found.ttft <= slo["ttft"]
    assert found.tpot <= slo["tpot"]
    plan, replicas = found.deployment.plan, found.deployment.replicas
    assert replicas > 1
    fewer = {"tp": plan.tp, "num_gpus": plan.num_gpus * (replicas - 1), **load, **SHORT}
    try:
        less = rl.predict("llama-3.1-8b", "h100-sxm", **fewer)
    except rl.Overloaded:
        return
    assert less.ttft > slo["ttft"] or less.tpot > slo["tpot"]


def test_the_commonest_question_has_an_answer():
    case = {"isl": 4096, "osl": 500, "concurrency": 64, "quantization": "fp8", "slo": {"ttft": "300 ms"}}
    found = rl.size("llama-3.3-70b", "h100-sxm", **case).cheapest
    assert found.prediction.ttft <= 0.3
    assert found.usd_per_hour > 0.0


def test_compare_quantize_and_table_take_users_and_rates():
    compared = rl.compare("llama-3.1-8b", ["h100-sxm", "b200"], concurrency=32, **SHORT).to_records()
    assert compared[1]["ttft_ms"] < compared[0]["ttft_ms"]
    formats = {row["quantization"]: row for row in rl.quantize(*SMALL, request_rate=6.0, **SHORT).to_records()}
    assert formats["fp8"]["tpot_ms"] < formats["bf16"]["tpot_ms"]
    rows = rl.table("llama-3.1-8b", "h100-sxm", concurrency=range(1, 101), **SHORT)
    assert len({row["tpot_ms"] for row in rows}) == 100
    assert all("under load" in " ".join(row["warnings"]) for row in rows)


def test_a_measurement_under_a_load_scales_answers_under_a_load():
    plain = rl.predict(*SMALL, concurrency=32, **SHORT)
    scaled = rl.predict(*SMALL, concurrency=32, measured={"ttft": 1.2 * plain.ttft, "tpot": 1.1 * plain.tpot}, **SHORT)
    assert close(scaled.ttft, 1.2 * plain.ttft)
    assert close(scaled.tpot, 1.1 * plain.tpot)
    assert close(scaled.request_rate * scaled.e2el, 32.0)


def test_intervals_hold_the_means_and_begin_at_the_hardware_limit():
    found = rl.predict(*SMALL, request_rate=6.0, **SHORT)
    for name, limit in zip(("ttft", "tpot"), found.ideal, strict=True):
        low, high = getattr(found, f"{name}_interval")
        assert limit.time <= low <= getattr(found, name) <= high


def test_every_answer_under_a_load_says_whether_it_was_checked():
    inside, outside = (rl.predict(*SMALL, request_rate=rate, **SHORT).warnings for rate in (2.0, 11.0))
    assert any("inside the validated range" in text for text in inside)
    assert any("outside the validated range (utilisation above 80%" in text for text in outside)


def test_a_batch_of_64_gives_much_throughput_for_some_latency():
    # Databricks, "LLM inference performance engineering" (2023): MPT-7B on one A100-40GB, 512 in, 64 out: up to 14
    # times the throughput at some 4 times the latency from batch 1 to 64.
    one, many = (rl.predict("mpt-7b", "a100-sxm-40gb", isl=512, osl=64, batch=n, engine="none") for n in (1, 64))
    assert 0.75 * 14.0 <= many.output_tok_s / one.output_tok_s <= 1.25 * 14.0
    assert 0.75 * 4.0 <= many.e2el / one.e2el <= 1.25 * 4.0


def test_users_share_the_output():
    found = rl.predict(*SMALL, concurrency=64, **SHORT)
    assert close(found.output_tok_s / 64.0, 500 / found.e2el)
    assert math.isfinite(found.usd_per_m_output_tok)
    assert server_of(found.deployment, found.workload).users == 64.0


def test_a_rate_far_below_the_largest_is_answered_where_the_equations_have_no_steady_state_of_their_own():
    """SGLang's prompts, taken one by one, fill this server at 40 requests/s; in bulk it answers 139 (a simulation)."""
    found = rl.predict("llama-3.1-8b", "h100", engine="sglang", isl=100, osl=64, request_rate=40, slo="tpot:10s")
    assert found.max_request_rate > 130
    assert found.verdict == "pass?"
    assert found.ttft == pytest.approx(0.513, rel=0.1)  # a simulation of 20,000 requests
    assert found.e2el == pytest.approx(4.44, rel=0.1)
    full = rl.predict("qwen3-32b", "b200", engine="sglang", isl=80, osl=39, tp=1, quantization="fp8", request_rate=58)
    # a turn of all slots, less those that are free for a while: 57 s, and 2.2 s to the first token, in a simulation
    assert full.served.decode == pytest.approx(full.served.slots / 58 * (1 - 1 / (2 + 38 / 15)), rel=1e-9)
    assert full.served.decode == pytest.approx(57.1, rel=0.1)
    assert full.ttft == pytest.approx(2.22, rel=0.1)
    assert full.latency("tpot_p99") == pytest.approx(full.tpot, rel=0.02)


def test_users_whose_throughput_was_not_found_have_no_times(monkeypatch):
    settled, same = equations.fixed_point, equations._is_same

    def lost(round_, start):
        found = settled(round_, start)
        return found._replace(is_found=found.is_found & (found.values[0] < 100.0))

    # neither by iteration nor by search where a hundred decode
    monkeypatch.setattr(equations, "answered", lambda ask, *case: ask(*case))  # by formulas
    monkeypatch.setattr(equations, "fixed_point", lost)
    monkeypatch.setattr(equations, "_is_same", lambda one, other: same(one, other) & (other < 100.0))
    case = {"engine": "sglang", "isl": 100, "osl": 1700, "tp": 1}
    with pytest.raises(rl.Overloaded, match=r"no steady state was found for 256 users.*ask for a lower load"):
        rl.predict("llama-3.1-8b", "h100", concurrency=256, **case)
    found, missing = rl.table("llama-3.1-8b", ["h100"], concurrency=[4, 256], **case)
    assert (found["reason"], missing["reason"]) == (None, "no steady state was found")
    assert found["ttft_ms"] == pytest.approx(1e3 * rl.predict("llama-3.1-8b", "h100", concurrency=4, **case).ttft)
    assert [missing[key] for key in ("ttft_ms", "tpot_ms", "e2el_ms", "ttft_p99_ms")] == [None] * 4
