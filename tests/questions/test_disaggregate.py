"""`rl.disaggregate`: pools in the one grammar, the link between them, one pool of the same rent, what is refused."""

import math
from dataclasses import replace

import pytest
from every_case import each

import roofline as rl
from roofline.questions.disaggregate import POOL_KEYS
from roofline.serving.capacity import crossovers

MODEL = "llama-3.3-70b"
CASE = {"isl": 4000, "osl": 400, "request_rate": 5, "quantization": "fp8"}


@pytest.fixture(scope="module")
def mixed():
    return rl.disaggregate(MODEL, "b200:tp2x2", "h200:tp4x3", slo="ttft:800@p99,tpot:20", **CASE)


def test_every_pool_has_its_own_gpus_plan_formats_and_engine():
    found = rl.disaggregate(MODEL, "b200:tp2:nvfp4x2", "h100:tp8pp1x3", engine="sglang", decode_engine="vllm", **CASE)
    first, second = found.pools.prefill, found.pools.decode
    assert (first.gpu.name, first.plan.tp, first.replicas, first.engine.name) == ("b200", 2, 2, "sglang")
    assert (second.gpu.name, second.plan.tp, second.replicas, second.engine.name) == ("h100-sxm", 8, 3, "vllm")
    assert first.quantization.sections["linear"].format != second.quantization.sections["linear"].format
    assert found.texts == {"prefill": "b200:tp2:nvfp4x2", "decode": "h100-sxm:tp8:fp8x3"}
    assert found.num_gpus == 28


def test_the_parts_of_a_first_token_add_up(mixed):
    assert sum(mixed.parts.values()) == pytest.approx(mixed.ttft, rel=1e-12)
    assert mixed.queue == pytest.approx(
        sum(mixed.parts[name] for name in ("prompts of others", "transfers of others", "slot"))
    )
    assert mixed.e2el == pytest.approx(mixed.ttft + 399 * mixed.tpot, rel=1e-12)


def test_a_row_has_declared_keys_alone(mixed):
    row = mixed.to_dict()
    assert list(row) == list(POOL_KEYS)
    assert row["num_gpus"] == 16
    assert row["output_tok_s_gpu"] == pytest.approx(5 * 400 / 16)
    assert mixed.to_dict(["ttft_ms"]) == {"ttft_ms": row["ttft_ms"]}
    with pytest.raises(rl.UnknownName):
        mixed.to_dict(["gpus"])


def test_rent_is_that_of_both_pools(mixed):
    b200, h200 = (rl.load_gpu(name).price.typical * 3600 for name in ("b200", "h200"))
    assert mixed.usd_per_hour == pytest.approx(4 * b200 + 12 * h200)
    priced = rl.disaggregate(MODEL, "b200:tp2x2", "h200:tp4x3", prefill_gpu_price=5, decode_gpu_price="2 USD/h", **CASE)
    assert priced.usd_per_hour == pytest.approx(4 * 5 + 12 * 2)
    h200_pool = priced.one_pool[0]
    assert h200_pool.num_gpus == pytest.approx((4 * 5 + 12 * 2) / 2)


def test_one_pool_of_the_same_rent_is_what_predict_says(mixed):
    one = next(each for each in mixed.one_pool if each.gpu == "b200")
    replicas = one.num_gpus / one.tp
    alone = rl.predict(MODEL, "b200", tp=one.tp, **{**CASE, "request_rate": 5 / replicas})
    assert one.ttft == pytest.approx(alone.ttft, rel=1e-12)
    assert one.tpot == pytest.approx(alone.tpot, rel=1e-12)
    assert one.max_request_rate == pytest.approx(alone.max_request_rate * replicas, rel=1e-12)


def test_a_crossing_is_a_limit_at_which_both_answer_as_much(mixed):
    one = next(each for each in mixed.one_pool if each.gpu == "b200")
    (crossing,) = one.crossings
    assert not crossing.to_pools  # strict limits on TPOT are where separate pools win
    together = rl.predict(MODEL, "b200", tp=one.tp, **{**CASE, "request_rate": crossing.rate / (one.num_gpus / one.tp)})
    assert together.tpot == pytest.approx(crossing.tpot, rel=0.05)
    assert f"{crossing.tpot * 1e3:.3g} ms" in one.ranking


def test_goodput_meets_the_limits_and_no_more(mixed):
    best = mixed.goodput()
    at = rl.disaggregate(
        MODEL, "b200:tp2x2", "h200:tp4x3", slo="ttft:800@p99,tpot:20", **{**CASE, "request_rate": best.rate}
    )
    assert best.binding == "ttft_p99"
    assert at.latency("ttft_p99") == pytest.approx(0.8, rel=1e-3)
    assert rl.disaggregate(MODEL, "b200:tp2x2", "h200:tp4x3", **CASE).goodput("ttft:1ms").rate == 0.0


def test_the_link_is_nvlink_in_one_domain_else_the_slower_network():
    same = rl.disaggregate(MODEL, "h100:tp4", "h100:tp4", **{**CASE, "request_rate": 1})
    assert (same.pools.link.kind, same.pools.link.bandwidth) == ("nvlink", rl.load_gpu("h100").link.bandwidth)
    apart = rl.disaggregate(MODEL, "h100:tp4x2", "h100:tp4", **{**CASE, "request_rate": 1})
    assert (apart.pools.link.kind, apart.pools.link.bandwidth) == ("rdma", rl.load_gpu("h100").scale_out)
    stated = rl.disaggregate(MODEL, "h100:tp4", "h100:tp4", kv_link="200 Gbit/s", **{**CASE, "request_rate": 1})
    assert stated.pools.link.bandwidth == 25e9
    free = rl.disaggregate(MODEL, "h100:tp4", "h100:tp4", kv_link=math.inf, **{**CASE, "request_rate": 1})
    assert free.ttft < same.ttft


@each("prefill, decode, options, error, said", [
    ("b200:tp2x0", "h200:tp4", {}, rl.BadInput, "prefill pool: 'b200:tp2x0' has no GPUs"),
    ("b200:tp2", "0xh200", {}, rl.BadInput, "decode pool: '0xh200' has no GPUs"),
    ("l40s:tp1", "h200:tp4", {}, rl.DoesNotFit, "prefill pool: llama-3.3-70b does not fit l40s"),
    ("h200:tp4", "l40s:tp1", {}, rl.DoesNotFit, "decode pool: llama-3.3-70b does not fit l40s"),
    ("h200:tp4", "h200:tp4", {"request_rate": None}, rl.BadInput, "needs a load; give concurrency or request_rate"),
    ("h200:tp4", "h200:tp4", {"batch": 4}, rl.BadInput, "a burst has no pools to fill"),
    ("h200:tp4", "h200:tp4", {"tp": 4}, rl.BadInput, "it belongs to a pool"),
    ("h200:tp4", "h200:tp4", {"kv_link": "ethernet"}, rl.BadInput, "neither nvlink, rdma, pcie nor a bandwidth"),
    ("h200:tp4", "h200:tp4", {"kv_link": 0}, rl.BadInput, "kv_link = 0 must be nvlink, rdma, pcie"),
    ("b200:tp2", "h200:tp4", {"kv_link": "nvlink"}, rl.BadInput, "needs both pools in one scale-up domain"),
    ("rtx-5090:tp8", "h200:tp4", {}, rl.BadInput, "rtx-5090 states no network per GPU; give the bandwidth"),
    ("h200:tp4", "h200:tp4", {"request_rate": 500}, rl.Overloaded, "the prefill pool answers at most"),
    ("h200:tp4", "h200:tp4", {"layerwise": "yes"}, rl.BadInput, "layerwise = 'yes' must be True or False"),
    ("h200:tp4", "h200:tp4", {"prefill_gpu_price": -1}, rl.BadInput, "prefill_gpu_price = -1 must be USD"),
])  # fmt: skip
def test_what_cannot_be_is_refused_by_name(prefill, decode, options, error, said):
    with pytest.raises(error, match=said.replace("(", r"\(")):
        rl.disaggregate(MODEL, prefill, decode, **{**CASE, **options})


def test_drafts_are_proposed_and_verified_where_answers_are_written():
    drafts = {"draft": "eagle", "draft_tokens": 3, "acceptance": 0.7}
    case = {"quantization": "fp8", "isl": 2000, "osl": 300}
    found = rl.disaggregate("llama-3.3-70b", "b200:tp2x2", "h200:tp4x2", request_rate=4, **case, **drafts)
    plain = rl.disaggregate("llama-3.3-70b", "b200:tp2x2", "h200:tp4x2", request_rate=4, **case)
    alone = [rl.predict("llama-3.3-70b", "h200:tp4", **case, **options).tpot for options in ({}, drafts)]
    assert found.tpot / plain.tpot == pytest.approx(alone[1] / alone[0], rel=0.05)
    seen = found.simulate(requests=1000, seed=1)
    assert all(low < seen.latencies[name] < high for name, (low, high) in seen.intervals.items())
    assert set(seen.intervals) == {"ttft", "tpot", "e2el"}
    assert seen.ratio("tpot") == pytest.approx(1.0, abs=0.05)
    assert seen.ratio("ttft") == pytest.approx(1.0, abs=0.05)


def test_a_simulation_stands_beside_the_closed_form():
    found = rl.disaggregate("llama-3.1-8b", "h100:tp1x2", "h100:tp1", isl=1000, osl=60, concurrency=8, engine="vllm")
    seen = found.simulate(requests=400, seed=1)
    assert seen.requests == 400
    assert seen.ratio("tpot") == pytest.approx(1.0, abs=0.05)
    with pytest.raises(rl.BadInput, match="seed"):
        found.simulate(seed=1.5)


L40S = ("gpt-oss-120b", "l40s:tp2x2", "l40s:tp2")


def l40s(**options):
    return rl.disaggregate(*L40S, isl=436, **{"osl": 128, "request_rate": 12.5627, **options})


def test_a_verdict_on_two_pools_is_earned():
    missed = l40s(slo="tpot:8")  # a mean of 39 ms, as the simulation has it
    assert (missed.verdict, missed.slo_met, missed.slo_verdict.reason) == ("fail", False, "mean TPOT exceeds its limit")
    near = l40s(slo="tpot:42")
    low, high = near.intervals["tpot"]
    assert low < near.tpot < 0.042 < high
    assert (near.verdict, near.slo_verdict.reason) == ("pass?", "the 80 % range includes the limit")
    clear = l40s(slo="tpot:90")
    assert (clear.verdict, clear.slo_verdict.reason, clear.slo_verdict.binding) == ("pass", None, "tpot")
    crowded = l40s(slo="tpot:9s", request_rate=0.9 * missed.max_request_rate)
    assert crowded.verdict == "pass?"
    assert crowded.slo_verdict.reason == "outside the validated range: decode pool above 80%"
    bound = l40s(slo="tpot:9s", basis="ideal")
    assert (bound.intervals, bound.verdict) == (None, "pass?")
    row = near.to_dict(["slo_met", "slo_binding", "slo_verdict", "slo_reason"])
    assert list(row.values()) == [True, "tpot", "pass?", "the 80 % range includes the limit"]
    assert "SLO: mean TPOT 39.6 ms <= 42 ms: pass? (the 80 % range includes the limit)" in str(near)
    assert (l40s().verdict, l40s().slo_met, l40s(osl=1, slo="tpot:8").verdict) == (None, None, None)


def test_an_interval_contains_its_figure_and_never_begins_below_the_hardware_limit():
    found, ideal = l40s(), l40s(basis="ideal")
    for name, (low, high) in found.intervals.items():
        assert low < getattr(found, name) < high
    assert found.intervals["ttft"][0] > float(ideal.found.prompt)
    assert found.intervals["tpot"][0] > rl.predict(L40S[0], L40S[2], isl=436, osl=128, basis="ideal").tpot


def test_a_percentile_that_contradicts_its_mean_is_not_known():
    found = rl.disaggregate(
        "lfm2-8b-a1b", "l4:x3", "h100-pcie:tp8", engine="none", isl=225, osl=2, osl_cv=1, kv_link="50 GB/s",
        draft="ngram", draft_tokens=1, acceptance=0.7, request_rate=47, slo="tpot:1s@p99",
    )  # fmt: skip
    assert found.tails is not None
    assert (found.latency("tpot_p99"), found.verdict, found.slo_met) == (None, None, False)
    assert "contradicts the mean" in found.slo_verdict.reason
    assert "TPOT p99 not known, against 1 s: not known" in str(found)


def test_a_limit_that_neither_way_of_serving_meets_is_said_to_be_one():
    (one,) = l40s(slo="ttft:1").one_pool
    assert one.within == (0.0, 0.0)
    assert "neither two pools nor one pool meet the SLO at any rate" in one.sentence


def test_a_range_of_limits_narrower_than_that_of_the_figure_is_left_out():
    found = l40s(max_num_seqs=256, max_num_batched_tokens=8192)
    low, high = found.intervals["tpot"]
    pools, replica = found.pools, replace(found.pools.decode, replicas=1)
    every, *_ = crossovers(pools, replica, found.workload, 3.0)
    assert 1.0 < every[1].tpot / every[0].tpot < high / low  # between 55 and 69 ms
    (one,) = found.one_pool
    assert one.crossings == ()
    assert one.ranking == "one pool answers more under practically any limit on TPOT"


def test_one_pool_of_the_same_rent_has_the_p99_of_its_prediction():
    case = {"isl": 1000, "osl": 200, "request_rate": 8}
    (single,) = rl.disaggregate("llama-3.1-8b", "2xh100:tp1", "6xh100:tp1", **case).one_pool
    whole = rl.predict("llama-3.1-8b", "8xh100:tp1", **case)
    assert single.ttft_p99 == pytest.approx(whole.latency("ttft_p99"), rel=1e-9)
    run = rl.disaggregate("llama-3.1-8b", "h100", "h100", isl=1000, osl=200, concurrency=8, num_prompts=80)
    assert {pool.ttft_p99 for pool in run.one_pool} == {None}
