"""Edges of what an answer rests on: pools outside of what was checked, equal requests, single tokens, refusals."""

import statistics
from dataclasses import replace

import pytest
from every_case import each

import roofline as rl
from roofline.physics.passes import eagle_head
from roofline.serving.knee import Knees
from roofline.serving.latency import UNIFORM, Correction, Workload, lengths_by_law
from roofline.serving.load.equations import server_of
from roofline.serving.load.limits import limited_latencies
from roofline.serving.load.mixtures import percentile
from roofline.serving.load.pools import KvLink, Pools, pool_tails, pooled, pools_outside
from roofline.serving.load.regions import restated
from roofline.serving.load.simulation import Arrivals, pools_simulated, simulated
from roofline.serving.load.steady import served
from roofline.serving.prompts import cached_prefixes, hit_rate
from roofline.serving.quantization import cache_scheme, resolved_quantization, scheme
from roofline.serving.shown import row
from roofline.specs.engine import PromptCache
from roofline.specs.formats import number_format
from roofline.specs.load import Burst, Rate, Users
from roofline.specs.model import DenseFfn, Group, Layer, Mamba1, NoFfn
from roofline.support.errors import BadInput, UnknownName

H100 = rl.predict("llama-3.1-8b", "h100:tp1", isl=1000, osl=100, request_rate=1e-3).deployment
POOLS = Pools(H100, H100, KvLink("rdma", 50e9))
CASE = Workload(1000.0, 100.0, Rate(1.0))
INSIDE = "under load: inside the validated range; "

# what is changed, of the means, the pools or the requests, and what is said; each is met exactly and then exceeded
EDGES = {
    "prefill": ({"request_rate": 0.8}, {"request_rate": 0.801}, "prefill pool above 80% of what it takes"),
    "decode": ({"max_decode_rate": 0.5 / 0.8}, {"max_decode_rate": 0.49 / 0.8}, "decode pool above 80%"),
    "link": ({"max_link_rate": 1.0}, {"max_link_rate": 0.99}, "link above 50%"),
    "slots": ({"waiting_share": 0.001}, {"waiting_share": 0.0011}, "requests wait for slots"),
}


def means(**changes):
    at = {"request_rate": 0.5, "max_prefill_rate": 1.0, "max_decode_rate": 2.0, "max_link_rate": 2.0}
    return pooled(POOLS, CASE)._replace(**{**at, "waiting_share": 0.0, **changes})


@pytest.mark.parametrize(("within", "outside", "said"), EDGES.values(), ids=EDGES)
def test_two_pools_were_checked_up_to_a_load_and_not_beyond(within, outside, said):
    assert pools_outside(POOLS, CASE, means(**within)).startswith(INSIDE)
    text = pools_outside(POOLS, CASE, means(**outside))
    assert text.startswith(f"under load: outside the validated range ({said}); closed form against")


def test_two_pools_were_checked_for_short_prompts_of_like_lengths_in_a_steady_state_of_one_stage():
    budget = H100.engine.max_num_batched_tokens
    half = replace(CASE, isl=budget / 2 + 200.0, prefix=200.0)
    assert pools_outside(POOLS, half, means()).startswith(INSIDE)
    assert "(prompts above half of the token budget)" in pools_outside(POOLS, replace(half, prefix=199.0), means())
    for cv, said in ((0.3, INSIDE), (0.31, "(prompt length cv above 0.3)")):
        assert said in pools_outside(POOLS, replace(CASE, lengths=lengths_by_law(UNIFORM, cv, 0.0)), means())
    run = replace(CASE, load=Users(4.0, 40.0))
    assert "(a run that includes its start)" in pools_outside(POOLS, run, means())
    staged = replace(POOLS, decode=replace(H100, plan=replace(H100.plan, pp=2)))
    assert "(pipeline parallelism)" in pools_outside(staged, CASE, means())
    both = pools_outside(staged, run, means(request_rate=0.9))
    assert "(prefill pool above 80% of what it takes, a run that includes its start, pipeline parallelism)" in both


def test_pools_have_the_gpus_of_both_and_answer_a_share_of_what_they_can():
    wide = rl.predict("llama-3.1-8b", "h100:tp2x3", isl=1000, osl=100, request_rate=1e-3).deployment
    assert Pools(wide, H100, KvLink("rdma", 50e9)).num_gpus == 7
    found = pooled(POOLS, CASE)
    assert found.util == found.request_rate / found.max_request_rate


def test_answers_of_one_token_are_sent_by_the_pool_of_prompts_alone():
    alone, slow = replace(CASE, osl=1.0), replace(POOLS, link=KvLink("rdma", 1e6))  # nothing is moved over it
    seen, over_slow = (pools_simulated(pools, alone, Arrivals(200, rate=1.0, seed=3)) for pools in (POOLS, slow))
    assert [each.e2el for each in seen] == [each.ttft for each in seen] == [each.ttft for each in over_slow]


def mean(seen, name):
    return statistics.fmean(getattr(each, name) for each in seen)


def test_requests_that_start_cold_wait_so_much_longer_in_a_simulation():
    late = replace(CASE, cold_start=(1.0, 5.0), load=Rate(1e-3))
    arrivals = Arrivals(60, rate=1e-3, seed=3)
    for run in (
        lambda case: simulated(server_of(H100, case), arrivals),
        lambda case: pools_simulated(POOLS, case, arrivals),
    ):
        warm, cold = (mean(run(case), "ttft") for case in (replace(late, cold_start=None), late))
        assert cold - warm == pytest.approx(5.0, abs=1e-3)


@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
def test_very_many_users_of_very_short_answers_take_as_long_as_in_a_simulation(engine):
    # prompts take nearly all of the time: what users meet is found by bracketing, not by rounds
    found = rl.predict("llama-3.1-8b", "h100:tp1", isl=100, osl=5, concurrency=300, engine=engine)
    seen = simulated(server_of(found.deployment, found.workload), Arrivals(3000, users=300, seed=3))
    assert found.e2el == pytest.approx(mean(seen, "e2el"), rel=0.05)
    assert found.request_rate * found.e2el == pytest.approx(300.0, rel=1e-9)
    assert found.util < 1.0


def test_a_simulation_tells_how_far_it_is():
    told = {"one": [], "two": []}
    simulated(server_of(H100, CASE), Arrivals(300, rate=1.0, seed=3), told["one"].append)
    pools_simulated(POOLS, CASE, Arrivals(300, rate=1.0, seed=3), told["two"].append)
    for counts in told.values():
        assert counts == sorted(counts)
        assert all(0 <= count <= 300 for count in counts)
    assert told["one"] or told["two"]


SMALL = replace(H100, gpu=replace(H100.gpu, memory=2.4e10))  # room for four requests of 8200 tokens beside the weights
LONG = Workload(8000.0, 200.0, Users(16.0))


def test_memory_that_holds_four_requests_makes_sixteen_users_wait_as_in_a_simulation():
    found, roomy = served(SMALL, LONG), served(H100, LONG)
    seen = simulated(server_of(SMALL, LONG), Arrivals(600, users=16, seed=3))
    assert found.slots == 4 < 16 < roomy.slots
    assert found.ttft == pytest.approx(mean(seen, "ttft"), rel=0.03)
    assert found.tpot == pytest.approx(mean(seen, "tpot"), rel=0.03)
    assert found.ttft > 10 * roomy.ttft
    pools = Pools(H100, SMALL, KvLink("rdma", 50e9))
    both = pooled(pools, LONG)
    apart = pools_simulated(pools, LONG, Arrivals(600, users=16, seed=3))
    assert both.ttft == pytest.approx(mean(apart, "ttft"), rel=0.01)
    assert both.tpot == pytest.approx(mean(apart, "tpot"), rel=0.01)


def test_ranks_of_data_parallelism_in_pools_are_met_as_in_a_simulation():
    ranks = rl.predict("llama-3.1-8b", "h100:tp1dp2", isl=1000, osl=100, request_rate=1e-3, engine="vllm").deployment
    pools, workload = Pools(ranks, ranks, KvLink("rdma", 50e9)), Workload(3000.0, 100.0, Rate(6.0))
    found, seen = pooled(pools, workload), pools_simulated(pools, workload, Arrivals(2000, rate=6.0, seed=3))
    assert found.ttft == pytest.approx(mean(seen, "ttft"), rel=0.03)
    assert found.tpot == pytest.approx(mean(seen, "tpot"), rel=0.01)


def test_percentiles_of_users_of_two_pools_have_the_median_that_a_simulation_sees():
    found, seen = pooled(POOLS, LONG), pools_simulated(POOLS, LONG, Arrivals(2000, users=16, seed=3))
    spread = pool_tails(POOLS, LONG, found)
    levels = [percentile(spread.ttft, level) for level in (10.0, 50.0, 90.0, 99.0)]
    assert levels == sorted(levels)
    assert levels[1] == pytest.approx(statistics.median(each.ttft for each in seen), rel=0.1)


def test_a_trace_of_requests_is_drawn_from_in_a_simulation():
    isls, osls = [500, 1500, 1000, 3000], [50, 150, 100, 20]
    found = rl.predict("llama-3.1-8b", "h100:tp1", lengths={"isl": isls, "osl": osls}, request_rate=0.5, engine="vllm")
    arrivals = Arrivals(3000, rate=0.5, lengths=found.workload.lengths, seed=3)
    seen = simulated(server_of(found.deployment, found.workload), arrivals)
    assert found.e2el == pytest.approx(mean(seen, "e2el"), rel=0.05)


def test_the_hit_rate_of_no_prefix_at_all_is_zero():
    cache = PromptCache(size=2e10, working_set=2e11, zipf=0.9)
    assert hit_rate(H100, 0.0, cache) == 0.0
    assert 0.0 < hit_rate(H100, 500.0, cache) < 1.0


def test_what_was_said_of_one_load_is_said_anew_of_another():
    found = rl.predict("llama-3.1-8b", "h100:tp1", isl=1000, osl=100, request_rate=1.0)
    warnings = ("a batch is large", "under load: outside of the validated range (old)")
    assert restated(warnings, found.deployment, found.workload, None) == ("a batch is large",)
    anew = restated(warnings, found.deployment, found.workload, found.served)
    assert anew[0] == "a batch is large"
    assert len(anew) == 2
    assert anew[1] in found.warnings


def test_how_far_a_single_token_reaches_above_its_median_is_a_matter_of_the_first():
    shares = {}
    for osl in (1.0, 100.0):
        case = rl.predict("llama-3.1-8b", "h100:tp1", isl=2000, osl=osl, request_rate=8.0, isl_cv=0.3, engine="vllm")
        keys = ("p99_within", "ttft_p99", "ttft_p50", "tpot_p99", "tpot_p50")
        shares[osl] = limited_latencies(case.deployment, case.workload, keys if osl > 1.0 else keys[:3])
    first = {osl: found["ttft_p99"] / found["ttft_p50"] for osl, found in shares.items()}
    assert shares[1.0]["p99_within"] == pytest.approx(first[1.0], rel=1e-12)
    steps = shares[100.0]["tpot_p99"] / shares[100.0]["tpot_p50"]
    assert shares[100.0]["p99_within"] == pytest.approx(max(first[100.0], steps), rel=1e-12)
    burst = rl.predict("llama-3.1-8b", "h100:tp1", isl=2000, osl=100)
    assert limited_latencies(burst.deployment, burst.workload, ["p99_within"]) == {"p99_within": 1.0}


def test_percentiles_of_a_burst_are_its_times_and_a_run_and_a_single_token_have_none():
    burst = rl.predict("llama-3.1-8b", "h100")
    assert [burst.latency(key) for key in ("ttft_p99", "ttft", "p99_within")] == [burst.ttft, burst.ttft, 1.0]
    run = rl.predict("llama-3.1-8b", "h100", concurrency=4, num_prompts=40)
    assert (run.latency("ttft_p99"), run.latency("ttft")) == (None, run.ttft)
    single = rl.predict("llama-3.1-8b", "h100", osl=1, slo={"tpot": 0.001})
    assert (single.latency("tpot"), single.slo_shares, single.slo_met) == (None, {}, None)  # there is nothing to limit


def test_limits_on_means_and_on_percentiles_are_looked_at_side_by_side():
    case = replace(CASE, load=Rate(8.0))
    means, both = served(H100, case), limited_latencies(H100, case, ("ttft", "ttft_p99", "tpot"))
    assert (both["ttft"], both["tpot"]) == (means.ttft, means.tpot)
    assert both["ttft_p99"] > both["ttft"]
    burst = replace(CASE, load=Burst())
    alone = limited_latencies(H100, burst, ("ttft", "ttft_p99"))
    assert alone["ttft_p99"] == pytest.approx(alone["ttft"], rel=1e-9)


@pytest.mark.parametrize("load", [{"concurrency": 2.0}, {"request_rate": 1.0}], ids=str)
def test_answers_of_a_single_token_were_not_checked(load):
    said = "under load: outside the validated range"
    for osl, is_outside in ((1, True), (100, False)):
        warnings = rl.predict("llama-3.1-8b", "h100:tp1", isl=1000, osl=osl, **load).warnings
        assert any(said in text and "single-token answers" in text for text in warnings) == is_outside


# --- in words, and refused -----------------------------------------------------------------------


SAID = [
    (Knees(300.0, 9.0, 50.0, None), "<Knees ridge 300, half 9, memory 50; smallest: half>"),
    (Knees(None, None, None, None), "<Knees none: the batch follows from the request rate>"),
    (Correction(), "<Correction none: nothing was measured>"),
    (Correction(2.0, 1.25, 0.25, 0.1), "<Correction TTFT x 2, TPOT x 1.25>"),
]


@pytest.mark.parametrize(("record", "line"), SAID)
def test_knees_and_corrections_are_said_in_a_line(record, line):
    assert repr(record) == line
    assert Knees(None, None, None, None).smallest == (None, None)


def test_a_line_begins_with_what_the_weights_are_stored_in():
    four_bits = rl.predict("llama-3.1-8b", "h100", quantization="awq", kv_cache_dtype="fp8")
    assert repr(four_bits).startswith("<Prediction llama-3.1-8b int4 on 1x h100-sxm: TTFT ")


def test_one_prediction_is_one_key_of_a_dictionary():
    one, same, other = (rl.predict("llama-3.1-8b", "h100", batch=batch) for batch in (1, 1, 2))
    assert {one: "a", same: "b"} == {one: "b"}
    assert one != other
    assert hash(one) == hash(same)


ROWS_REFUSED = [
    *(
        (keys, BadInput, "must be a list of keys of a row")
        for keys in ("ttft_ms", b"ttft_ms", {"ttft_ms"}, {"e2el": 1}, 5)
    ),
    *((["ttft_ms", key], UnknownName, r"unknown key .*; choose from model") for key in ("tftt_ms", 5)),
]


@each("keys, error, said", ROWS_REFUSED)
def test_keys_of_a_row_are_a_list_of_those_that_are(keys, error, said):
    with pytest.raises(error, match=said):
        row(rl.predict("llama-3.1-8b", "h100"), keys)


@each("name", ["w4a4", "fp6", "int3"])  # known words for what is not modelled, and none
def test_a_dtype_that_nothing_is_computed_in_and_an_unknown_law_are_refused_with_those_that_are(name):
    with pytest.raises(UnknownName, match=f"unknown compute dtype '{name}'; choose from "):
        rl.predict("llama-3.1-8b", "h100", compute=name)
    with pytest.raises(UnknownName, match=f"unknown length distribution '{name}'; choose from lognormal, uniform"):
        lengths_by_law(name, 0.1, 0.1)


def test_formats_of_whole_files_hold_embedding_and_head_too():
    found = resolved_quantization(rl.load_model("llama-3.1-8b"), rl.load_gpu("h100"), "q4_k_m").sections
    stored = {name for name, section in found.items() if section.format == "q4_k_m"}
    assert stored == {"linear", "attention", "embed", "head"}
    assert found["linear"].weight_nbytes == pytest.approx(4.8944 / 8)


def test_one_format_of_weights_or_of_a_cache_alone_has_its_scheme():
    h100, a100 = rl.load_gpu("h100"), rl.load_gpu("a100")
    assert scheme(number_format("fp8"), h100, asked=True).peak == "fp8"
    assert scheme(number_format("fp8"), a100, asked=False).peak == "bf16"
    with pytest.raises(rl.UnsupportedPrecision):
        scheme(number_format("fp8"), a100, asked=True)
    assert tuple(cache_scheme(number_format("fp8"), a100)) == ("fp8", 1.0, 2.0, "bf16", "fp8", False)


def test_rent_is_that_of_all_gpus_by_the_hour():
    found = rl.predict("llama-3.1-70b", "h100:tp4")
    low, high = (found.price.low * 3600 * 4, found.price.high * 3600 * 4)
    (line,) = (line for line in " ".join(str(found).split()).split("; ") if line.startswith("rent: "))
    assert line.partition(" basis")[0].endswith(
        f", {low:.3g}-{high:.3g} USD/h, {found.usd_per_hour * 730:,.0f} USD/month"
    )


def test_prefixes_that_a_cache_holds_are_its_size_over_what_all_ranks_keep_of_one():
    wide = rl.predict("llama-3.1-8b", "h100:tp2pp2", isl=1000, osl=100).deployment
    assert cached_prefixes(wide, 500.0, 2e10) == pytest.approx(2e10 / (500 * 131072))  # 131072 bytes a token in all


def test_a_head_over_hidden_states_attends_as_the_last_layer_does():
    deep = rl.load_model("gemma-3-27b")
    last = deep.groups[-1].layers[-1]
    head = eagle_head(deep).groups[0].layers[0]
    assert (head.mixer, head.ffn) == (last.mixer, last.ffn)
    first, second = Mamba1(64, 16, 6, 4), Mamba1(64, 8, 6, 4)
    bare = replace(deep, groups=(Group(1, (Layer(first, NoFfn()), Layer(second, NoFfn()))),))
    assert eagle_head(bare).groups[0].layers[0] == Layer(second, DenseFfn(4 * bare.hidden))
    assert eagle_head(bare).vocab == 32_000
