"""Lengths that spread, traces that they are read from, and prompt caches: hits, misses, the link and the memory."""

import random
import statistics
from dataclasses import replace
from math import exp, inf, log
from statistics import fmean

import numpy as np
import pytest
from conftest import close
from every_case import each

import roofline as rl
from roofline.measurements.tables import read_trace
from roofline.physics.memory import kv_bytes_per_sequence, largest_batch
from roofline.serving.latency import EQUAL, MOST_CV, lengths_by_law, lengths_of_rows
from roofline.serving.load.equations import server_of
from roofline.serving.load.server import link_rate, link_wait
from roofline.serving.prompts import lru_hit_rate, uniform_hit_rate
from roofline.support.errors import BadInput, DoesNotFit, Overloaded, UnknownName

SMALL = ("llama-3.1-8b", "h100-sxm")
ROWS = [(100.0, 10.0), (300.0, 50.0), (200.0, 20.0), (1400.0, 120.0)]
SPREADS = [("lognormal", cv) for cv in (0.05, 0.3, 1.0, 2.0)] + [("uniform", cv) for cv in (0.05, 0.3, 0.577)]


def predicted(**options):
    return rl.predict(*SMALL, request_rate=2.0, **options)


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """Writes a trace into the working directory and gives its name."""
    monkeypatch.chdir(tmp_path)

    def written(text, name="trace.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return written


# --- laws --------------------------------------------------------------------------------------


@each(("law", "cv"), SPREADS)
def test_nodes_have_the_mean_and_the_variance_that_were_asked_for(law, cv):
    spread = lengths_by_law(law, cv, 0.0).prompts
    mean = sum(weight * length for weight, length in spread.nodes)
    square = sum(weight * length**2 for weight, length in spread.nodes)
    assert close(sum(weight for weight, _ in spread.nodes), 1.0, 1e-9)
    assert close(mean, 1.0, 1e-6)
    if law == "uniform":
        assert close(square - mean**2, cv**2, 1e-6)
    else:  # without the outermost two of nine nodes, which hardly any request has
        assert (1.0 - max(0.01, 0.025 * cv**2)) * cv**2 <= square - mean**2 < cv**2
    assert close(spread.biased, 1.0 + cv**2)


@each("cv", [0.3, 1.0, 3.0])
def test_lengths_that_fewer_than_one_in_ten_thousand_have_are_no_node(cv):
    points, weights = np.polynomial.hermite_e.hermegauss(9)
    sigma = log(1.0 + cv**2) ** 0.5
    kept = [(weight, exp(sigma * point)) for point, weight in zip(points, weights / weights.sum(), strict=True)]
    kept = [(weight, length) for weight, length in kept if weight >= 1e-4]
    assert len(kept) == 7
    total, mean = sum(weight for weight, _ in kept), sum(weight * length for weight, length in kept)
    expected = sorted((length * total / mean, weight / total) for weight, length in kept)
    found = sorted((length, weight) for weight, length in lengths_by_law("lognormal", cv, 0.0).prompts.nodes)
    assert np.allclose(found, expected, rtol=1e-9)


@each(("law", "cv"), SPREADS)
def test_slices_are_whole_and_hold_the_quantiles_of_the_law(law, cv):
    spread = lengths_by_law(law, 0.0, cv).answers
    assert close(sum(weight for weight, _ in spread.slices), 1.0, 1e-9)
    lengths = [length for _, length in spread.slices]
    assert lengths == sorted(lengths)
    assert lengths[0] > 0.0
    whole, generator = lengths_by_law(law, 0.0, cv), random.Random(4)
    draw = whole.drawn_by(generator)
    drawn = [draw()[1] for _ in range(20_000)]
    reached = 0.0
    for weight, length in spread.slices:
        share = sum(one <= length for one in drawn) / len(drawn)
        assert abs(share - (reached + weight / 2.0)) <= 0.015
        reached += weight
    assert abs(statistics.fmean(drawn) - 1.0) <= 0.02 * (1.0 + cv**2)


def test_prompts_and_answers_spread_each_by_its_own():
    found = lengths_by_law("lognormal", 0.5, 0.0)
    assert (found.prompts.is_fixed, found.answers.is_fixed, EQUAL.is_fixed, found.product) == (False, True, True, 1.0)


@each(
    ("options", "error", "said"),
    [
        ({"isl_cv": -0.1}, rl.BadInput, "isl_cv = -0.1 must be between 0 and 3"),
        ({"osl_cv": 3.5}, rl.BadInput, "osl_cv = 3.5 must be between 0 and 3"),
        ({"isl_cv": float("nan")}, rl.BadInput, "isl_cv = nan"),
        ({"isl_cv": "wide"}, rl.BadInput, "isl_cv = 'wide' is not a share such as 80% or 0.8"),
        ({"isl_cv": True}, rl.BadInput, "isl_cv = True"),
        ({"isl_cv": [0.1, 0.5]}, rl.BadInput, "isl_cv = .* must be a number"),
        ({"lengths": "uniform", "isl_cv": 0.6}, rl.BadInput, "between 0 and 0.577 for uniform lengths"),
        (
            {"lengths": "log-normal", "isl_cv": 0.6},
            rl.UnknownName,
            "distribution 'log-normal'; choose from lognormal, uni",
        ),
        ({"lengths": np.array([1, 2])}, rl.BadInput, "must be a distribution, the path of a trace, or columns"),
        ({"lengths": "gaussian"}, rl.UnknownName, "'gaussian'; choose from lognormal, uniform, or a trace"),
        ({"lengths": "uniform"}, rl.BadInput, "give isl_cv or osl_cv"),
        ({"lengths": 7}, rl.BadInput, "= 7 must be a distribution, the path of a trace, or columns isl and osl"),
        ({"lengths": {"isl": [100]}}, rl.BadInput, "columns isl and osl"),
        ({"lengths": {"isl": [100, 200], "osl": [10]}}, rl.BadInput, "have 2 isl and 1 osl"),
        ({"lengths": {"isl": [100, 0], "osl": [10, 10]}}, rl.BadInput, "isl"),
        ({"lengths": {"isl": [], "osl": []}}, rl.BadInput, "isl must not be an empty list"),
    ],
    ids=str,
)
def test_lengths_that_cannot_be_are_refused(options, error, said):
    with pytest.raises(error, match=said):
        predicted(**options)


def test_a_uniform_length_reaches_down_to_zero_and_no_further():
    assert close(MOST_CV["uniform"], 3.0**-0.5)
    spread = lengths_by_law("uniform", MOST_CV["uniform"], 0.0).prompts
    assert min(length for _, length in spread.slices) > 0.0


def test_longer_and_shorter_requests_of_one_mean_take_longer_at_the_end():
    plain, wide = predicted(isl=2000, osl=300), predicted(isl=2000, osl=300, isl_cv=0.5, osl_cv=0.8)
    for key in ("ttft_p99", "tpot_p99", "e2el_p99"):
        assert wide.latency(key) > plain.latency(key)
    assert "lognormal, cv 0.5 and 0.8" in str(wide)


# --- traces ------------------------------------------------------------------------------------


def test_a_trace_has_its_own_means_spread_and_product():
    isl, osl, lengths = lengths_of_rows(ROWS, "here")
    prompts, answers = zip(*ROWS, strict=True)
    assert (isl, osl) == (500.0, 50.0)
    assert close(lengths.prompts.cv, statistics.pstdev(prompts) / isl, 1e-9)
    assert close(lengths.answers.cv, statistics.pstdev(answers) / osl, 1e-9)
    assert close(lengths.product * isl * osl, statistics.fmean(a * b for a, b in ROWS), 1e-9)
    for spread in (lengths.prompts, lengths.answers):
        for pairs in (spread.nodes, spread.slices):
            assert close(sum(weight for weight, _ in pairs), 1.0, 1e-9)
        assert close(sum(weight * length for weight, length in spread.nodes), 1.0, 1e-9)
    draw = lengths.drawn_by(random.Random(1))
    assert {draw() for _ in range(200)} == {(a / isl, b / osl) for a, b in ROWS}
    assert str(lengths).startswith("4 requests of here, cv ")


def test_a_trace_is_a_file_or_columns_and_its_means_are_those_of_the_answer(trace):
    name = trace("isl,osl\n" + "".join(f"{a:g},{b:g}\n" for a, b in ROWS))
    one = predicted(lengths=name)
    other = predicted(lengths={"isl": [a for a, _ in ROWS], "osl": [b for _, b in ROWS]})
    assert (one.workload.isl, one.workload.osl) == (500.0, 50.0)
    assert (one.ttft, one.e2el) == (other.ttft, other.e2el)
    assert close(one.concurrency, one.request_rate * one.e2el, 1e-9)
    assert one.latency("ttft_p99") > 1.1 * predicted(isl=500, osl=50).latency("ttft_p99")


def test_a_trace_of_equal_requests_is_no_spread():
    same = predicted(lengths={"isl": [500, 500], "osl": [50, 50]})
    plain = predicted(isl=500, osl=50)
    for key in ("ttft", "tpot", "e2el", "ttft_p99", "e2el_p99"):
        assert close(same.latency(key), plain.latency(key), 1e-9)


def test_columns_may_be_named_as_public_traces_name_them(trace):
    azure = trace(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,374,44\n2023-11-16 18:17:04.03,396,109\n"
    )
    assert read_trace(azure) == [(374.0, 44.0), (396.0, 109.0)]
    burst = trace("Timestamp,Model,Request tokens,Response tokens,Total tokens\n5,ChatGPT,472,18,490\n", "burst.csv")
    assert read_trace(burst) == [(472.0, 18.0)]
    assert read_trace(trace("osl,isl\n1,2\n", "turned.csv")) == [(2.0, 1.0)]


@each(
    ("text", "said"),
    [
        ("isl,osl\n100,10\n-5,10\n", r"trace\.csv:3: isl = '-5' must be from 1 to a billion tokens"),
        *((f"isl,osl\n100,{osl}\n", rf"trace\.csv:2: osl = '{osl}'") for osl in ("many", "nan", "inf", "0", "")),
        ("isl,tokens\n100,10\n", r"trace\.csv: no column osl .* its columns are isl, tokens"),
        ("isl,osl\n", r"trace\.csv: has no requests"),
        ("", r"trace\.csv"),
    ],
)
def test_a_trace_with_a_fault_is_refused_with_file_and_line(trace, text, said):
    with pytest.raises(rl.BadInput, match=said):
        predicted(lengths=trace(text))


BESIDE = {"isl": [100, 200], "osl": [10, 20]}


@each(
    ("options", "said"),
    [
        ({"lengths": "no/such/trace.csv"}, r"no/such/trace\.csv"),
        ({"lengths": BESIDE, "isl": 2000}, "a trace has its own lengths; leave out isl = 2000"),
        ({"lengths": BESIDE, "osl": 300}, "leave out osl = 300"),
        ({"lengths": BESIDE, "isl_cv": 0.5}, "leave out isl_cv"),
    ],
)
def test_a_trace_that_is_not_there_and_lengths_beside_one_are_refused(options, said):
    with pytest.raises(rl.BadInput, match=said):
        predicted(**options)


# --- prompt caches --------------------------------------------------------------------------------

CACHED = {"isl": 4000, "osl": 300, "prefix": 3000, "tp": 1}
EACH_LOAD = (
    {},
    {"batch": 8},
    {"request_rate": 3.0},
    {"concurrency": 20},
    {"request_rate": 2.0, "isl_cv": 0.5, "osl_cv": 0.5},
    {"concurrency": 20, "num_prompts": 200},
)
each_load = each("load", EACH_LOAD, ids=[" ".join(load) or "one" for load in EACH_LOAD])
ABOUT_THE_CACHE = {"cache_hit", "cache_tier", "cache_load_ms"}


def row(**options):
    return rl.predict(*SMALL, **CACHED | options).to_dict()


# --- hits and misses ------------------------------------------------------------------------------


@each_load
@pytest.mark.parametrize(("hit", "prefix"), [(1.0, 3000), (0.0, 0)])
def test_hit_rates_of_one_and_zero_are_the_answers_with_and_without_the_prefix_to_the_last_bit(load, hit, prefix):
    cached, plain = row(**load, cache_hit=hit), row(**load, prefix=prefix)
    assert {key for key in plain if cached[key] != plain[key]} - {"warnings"} == ABOUT_THE_CACHE


def test_a_burst_is_the_mean_of_hits_and_misses_and_its_percentiles_are_both():
    found, missed = (rl.predict(*SMALL, **CACHED | {"prefix": prefix}).ttft for prefix in (3000, 0))
    mixed = rl.predict(*SMALL, **CACHED, cache_hit="60%", cache_tier="host")
    load = mixed.to_dict()["cache_load_ms"] / 1e3
    assert close(mixed.ttft, 0.6 * (found + load) + 0.4 * missed, 1e-12)
    assert close(mixed.latency("ttft_p50"), found + load, 1e-9)
    assert close(mixed.latency("ttft_p90"), missed, 1e-9)
    assert close(mixed.latency("tpot_p99"), mixed.tpot, 1e-9)
    assert close(sum(mixed.breakdown["prefill"].values()), mixed.ttft, 1e-12)


@pytest.mark.parametrize("load", [{"request_rate": 3.0}, {"concurrency": 20}], ids=["rate", "users"])
def test_more_hits_are_never_slower_and_lie_between_none_and_all(load):
    rows = [row(**load, cache_hit=hit) for hit in (0.0, 0.2, 0.5, 0.8, 1.0)]
    times, most = ([one[key] for one in rows] for key in ("ttft_ms", "max_request_rate"))
    assert (times, most) == (sorted(times, reverse=True), sorted(most))


@pytest.mark.parametrize(
    ("engine", "load", "cache"),
    [
        ("vllm", {"request_rate": 3.5}, {"cache_hit": 0.6, "cache_tier": "host"}),
        ("vllm", {"concurrency": 32}, {"cache_hit": 0.6, "cache_tier": "nvme", "cache_bandwidth": "2GB/s"}),
        ("sglang", {"request_rate": 3.0}, {"cache_hit": 0.7, "cache_tier": "nvme", "cache_bandwidth": "6GB/s"}),
    ],
)
def test_the_equations_meet_a_simulation_that_draws_hits_and_loads_one_by_one(engine, load, cache):
    found = rl.simulate(*SMALL, **CACHED, **load, **cache, engine=engine, requests=4000)
    assert all(close(found.ratio(name), 1.0, 0.05) for name in ("ttft", "tpot", "e2el")), str(found)
    assert close(found.ratio("ttft_p99"), 1.0, 0.15), str(found)


# --- the link -------------------------------------------------------------------------------------


def test_a_prefix_loads_at_the_rate_of_the_link_and_ranks_of_tensor_parallelism_load_at_once():
    for tp in (1, 4):
        one = rl.predict("llama-3.1-70b", "b200", isl=8000, prefix=6000, tp=tp, cache_tier="host", allow_oversize=True)
        where = one.deployment
        nbytes = kv_bytes_per_sequence(where.model, where.plan, where.quantization, 6000.0)
        assert close(one.to_dict()["cache_load_ms"], 1e3 * nbytes / where.gpu.host_link, 1e-12)
    plain = rl.predict(*SMALL, **CACHED)
    loaded = rl.predict(*SMALL, **CACHED, cache_tier="network")
    assert close(loaded.ttft - plain.ttft, loaded.to_dict()["cache_load_ms"] / 1e3, 1e-9)
    assert loaded.tpot == plain.tpot


def test_a_link_that_is_too_slow_is_a_limit_of_its_own():
    slow = CACHED | {"cache_hit": 0.5, "cache_tier": "nvme", "cache_bandwidth": "0.5GB/s"}
    found = rl.predict(*SMALL, **slow, request_rate=0.1)
    load = found.to_dict()["cache_load_ms"] / 1e3
    assert close(found.max_request_rate, 1.0 / (0.5 * load), 1e-12)
    with pytest.raises(Overloaded):
        rl.predict(*SMALL, **slow, request_rate=1.01 * found.max_request_rate)
    users = rl.predict(*SMALL, **slow, concurrency=64)
    assert users.request_rate <= found.max_request_rate * (1.0 + 1e-9)


def test_the_wait_for_the_link_is_that_of_a_queue_simulated():
    found = rl.predict(*SMALL, **CACHED, cache_hit=0.8, cache_tier="nvme", cache_bandwidth="1GB/s", request_rate=1.0)
    server = server_of(found.deployment, found.workload)
    rate = 0.6 * link_rate(server)
    generator, now, free, waits = random.Random(5), 0.0, 0.0, []
    time = float(server.kinds[0].loading)
    for _ in range(200_000):
        now += generator.expovariate(0.8 * rate)
        waits.append(max(free - now, 0.0))
        free = max(free, now) + time
    mean = fmean(waits)
    expected = link_wait(server, rate, None)
    assert close(expected.mean, mean, 0.02)
    assert close(expected.variance, fmean((wait - mean) ** 2 for wait in waits), 0.05)
    assert link_wait(replace(server, cache=None), rate, None) == (0.0, 0.0, 0.0)


# --- memory and hit rates -------------------------------------------------------------------------


def test_a_cache_in_the_gpus_takes_their_share_from_the_batch():
    plain, kept = (rl.predict(*SMALL, **CACHED | {"tp": 2}, **more) for more in ({}, {"cache_size": "40GB"}))
    assert close(kept.memory.used - plain.memory.used, 20e9, 1e-9)
    assert largest_batch(kept.deployment, 4300.0) < largest_batch(plain.deployment, 4300.0)
    elsewhere = rl.predict("llama-3.1-8b", "h100-sxm", **CACHED, cache_tier="host", cache_size="900GB")
    assert elsewhere.memory == rl.predict(*SMALL, **CACHED).memory
    with pytest.raises(DoesNotFit, match=r"cached prefixes 70\.0 GB"):
        rl.predict(*SMALL, **CACHED, cache_size="70GB")


def test_hit_rates_follow_from_a_size_and_a_working_set():
    assert uniform_hit_rate(500e9, 2e12) == row(cache_tier="host", cache_size="500GB", working_set="2TB")["cache_hit"]
    assert uniform_hit_rate(3.0, 2.0) == lru_hit_rate(3.0, 2.0, 0.9) == 1.0
    assert [lru_hit_rate(count, count, 1.0) for count in (10.0, 1000.0)] == [1.0, 1.0]  # to the last bit
    assert close(lru_hit_rate(250.0, 1000.0, 0.0), 0.25, 1e-9)  # all alike: Zipf's law with exponent 0
    (said,) = [text for text in row(cache_size="20GB", working_set="200GB:zipf0.9")["warnings"] if "hit rate" in text]
    assert "Che" in said and "Zipf 0.9" in said


def test_ches_approximation_is_that_of_an_exact_sum_and_meets_a_simulated_lru():
    count, held, exponent = 3000, 300, 0.9
    weights = [rank**-exponent for rank in range(1, count + 1)]
    shares = [weight / sum(weights) for weight in weights]
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if sum(1.0 - exp(-q * middle) for q in shares) < held else (low, middle)
    exact = sum(q * (1.0 - exp(-q * low)) for q in shares)
    found = lru_hit_rate(float(held), float(count), exponent)
    assert close(found, exact, 1e-3)
    generator, kept, hits, requests = random.Random(3), {}, 0, 60_000
    for number, asked in enumerate(generator.choices(range(count), weights, k=requests)):
        if asked in kept:
            hits += number >= requests // 6
            del kept[asked]
        kept[asked] = None
        if len(kept) > held:
            del kept[next(iter(kept))]
    assert close(found, hits / (requests - requests // 6), 0.02)


# --- what is refused, and what is said ------------------------------------------------------------


@each(
    ("options", "error", "says"),
    [
        ({"cache_hit": 1.5}, BadInput, "cache_hit = 1.5"),
        ({"cache_hit": "60%", "prefix": 0}, BadInput, "needs a prefix"),
        ({"cache_tier": "tape"}, UnknownName, "hbm, host, nvme, network"),
        ({"cache_tier": "nvme"}, BadInput, "give cache_bandwidth, such as 12GB/s"),
        ({"cache_bandwidth": "12GB/s"}, BadInput, "give cache_tier"),
        ({"working_set": "2TB"}, BadInput, "needs a cache_size"),
        ({"cache_size": "2TB", "working_set": "2TB", "cache_hit": 0.5}, BadInput, "leave out one"),
        ({"cache_size": "2TB", "working_set": "2TB:pareto"}, BadInput, "zipf0.9"),
        ({"cache_size": "5"}, BadInput, "no unit"),
    ],
)
def test_what_cannot_be_is_refused_in_one_message_that_says_what_to_write(options, error, says):
    with pytest.raises(error, match=says):
        rl.predict(*SMALL, **CACHED | options)


def test_a_gpu_without_the_link_is_asked_for_a_bandwidth():
    gpu = replace(rl.load_gpu("h100-sxm"), host_link=None)
    with pytest.raises(BadInput, match="h100-sxm states no host_link; give cache_bandwidth"):
        rl.predict("llama-3.1-8b", gpu, **CACHED, cache_tier="host")
    assert rl.predict("llama-3.1-8b", gpu, **CACHED, cache_tier="host", cache_bandwidth="63GB/s").ttft < inf


def test_a_reader_is_told_what_is_found_where_and_when_loading_does_not_pay():
    cache = {"cache_hit": 0.6, "cache_tier": "nvme"}
    fast, slow = (rl.predict(*SMALL, **CACHED, **cache, cache_bandwidth=rate) for rate in ("60GB/s", "2GB/s"))
    assert "3000 of 4000 cached on NVMe for 60 % of requests (loads in 6.55 ms)" in " ".join(str(fast).split())
    assert not any("recomputing would take" in text for text in fast.warnings)
    assert any("recomputing would take" in text for text in slow.warnings)


def test_the_derivative_along_the_hit_rate_is_a_difference_and_a_target_is_met_by_one():
    case = {**CACHED, "cache_tier": "host"}
    (found,) = [one for one in rl.sensitivity(*SMALL, **case, cache_hit=0.6, of="ttft") if one.input == "cache_hit"]
    low, high = (rl.predict(*SMALL, **case, cache_hit=hit).ttft for hit in (0.59, 0.61))
    assert close(found.elasticity, 0.6 / rl.predict(*SMALL, **case, cache_hit=0.6).ttft * (high - low) / 0.02, 1e-9)
    solved = rl.solve(*SMALL, "cache_hit", **case, cache_hit=0.6, ttft=0.06)
    assert close(rl.predict(*SMALL, **case, cache_hit=solved.value).ttft, 0.06, 1e-9)
