"""Percentiles under a load: gammas, their order, their growth with the load, and a simulation of every request."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import tiers
from build_load_page import SCHEDULERS, drawn, drawn_lengths
from conftest import close
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.serving.load.equations import saturation, server_of
from roofline.serving.load.limits import limited_latencies
from roofline.serving.load.mixtures import Component, gamma_survival, merged, percentile, survival
from roofline.serving.load.server import prompt_of
from roofline.serving.load.steady import served
from roofline.specs.load import Rate

SMALL = ("llama-3.1-8b", "h100-sxm")
CASE = {"isl": 1000, "osl": 300, "tp": 1}
SPREAD = {"isl_cv": 0.5, "osl_cv": 0.8}
LEVELS = (50, 90, 95, 99)
METRICS = ("ttft", "tpot", "e2el")
KEYS = tuple(f"{metric}_p{level}" for metric in METRICS for level in LEVELS)
SEEDS = range(888_000, 888_007)  # those of docs/load.md are others
UTILS = (0.05, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9)

each_scheduler = pytest.mark.parametrize("first", ["decode", "prompts"])


def at_rates(first, seed, lengths):
    """Percentiles of a random deployment along its load, as far as they are known."""
    deployment, workload = drawn(seed, SCHEDULERS[first])
    if lengths is not None:
        workload = replace(workload, lengths=lengths)
    server = server_of(deployment, replace(workload, load=Rate(1.0)))
    full = saturation(server, prompt_of(server)).rate
    for util in UTILS:
        asked = replace(workload, load=Rate(util * full))
        means = served(deployment, asked)
        # Where prompts that come first keep all slots taken, answers take slots/rate, which falls with the rate.
        has_room = first == "decode" or means.waiting_share < 0.01
        found = limited_latencies(deployment, asked, KEYS) if means.is_stable and has_room else {}
        if found and max(found.values()) < math.inf:
            yield util, found


# --- gammas ------------------------------------------------------------------------------------


@each("shape", [1.0, 1.001, 1.5, 2.0, 4.0, 12.0, 80.0])
def test_the_survival_of_a_gamma_is_that_of_scipy(shape):
    from scipy.stats import gamma  # a second to import, in every worker

    times = [share * 6.0 / 60 * (1.0 + 1.0 / shape) for share in range(1, 61)]
    off = [abs(gamma_survival(time, 1.0, 1.0 / shape) - float(gamma.sf(time * shape, shape))) for time in times]
    assert max(off) <= 0.012  # Wilson and Hilferty at their worst, k just above 1 and short times
    assert max(off[10:]) <= 0.01


@pytest.mark.parametrize("shape", [0.95, 0.5, 0.1, 0.02])
def test_where_waits_are_rare_mean_and_variance_are_kept(shape):
    variance = 1.0 / shape
    times = np.linspace(0.0, 40.0 * (1.0 + variance), 40_001)
    left = np.array([gamma_survival(float(time), 1.0, variance) for time in times])
    width = times[1] - times[0]
    mean, square = (width * (values.sum() - (values[0] + values[-1]) / 2.0) for values in (left, 2.0 * times * left))
    assert close(mean, 1.0, 1e-4)
    assert close(square - mean**2, variance, 1e-4)


parts = st.builds(
    Component,
    weight=st.just(0.25),
    least=st.floats(0.0, 2.0),
    mean=st.floats(0.01, 3.0),
    variance=st.floats(1e-4, 4.0),
    most=st.just(math.inf),
)


@given(mixture=st.lists(parts, min_size=4, max_size=4), level=st.floats(1.0, 99.5))
def test_a_percentile_is_where_the_survival_leaves_that_much(mixture, level):
    left = 1.0 - level / 100.0
    time = percentile(mixture, level)
    nearly = 1e-9 * max(time, 1e-3)
    assert survival(mixture, time + nearly) <= left + 1e-9  # it jumps where a part begins
    assert time == 0.0 or survival(mixture, time - nearly) >= left * (1.0 - 2e-6)  # the slower side of a jump


@given(mixture=st.lists(parts, min_size=4, max_size=4))
def test_parts_that_are_merged_keep_weight_mean_and_variance(mixture):
    one = merged(mixture)
    mean = sum(part.least + part.mean for part in mixture) / 4.0
    variance = sum(part.variance + (part.least + part.mean - mean) ** 2 for part in mixture) / 4.0
    assert close(one.weight, 1.0)
    assert close(one.least + one.mean, mean)
    assert close(one.variance, variance, 1e-9)


# --- along the load ----------------------------------------------------------------------------


@each_scheduler
@pytest.mark.parametrize("spread", [False, True], ids=["equal", "spread"])
def test_percentiles_are_ordered_and_more_requests_lower_none(first, spread):
    looked_at = 0
    for seed in SEEDS:
        lengths = drawn_lengths(seed, 0.0) if spread else None
        if lengths is not None and lengths.is_fixed:
            continue
        points = list(at_rates(first, seed, lengths))
        for _, found in points:
            for metric in METRICS:
                for lower, upper in pairwise(found[f"{metric}_p{level}"] for level in LEVELS):
                    assert 0.0 < lower <= upper * (1.0 + 1e-9)
                    assert math.isfinite(upper)
        for (_, fewer), (util, more) in pairwise(points):
            fallen = [key for key in KEYS if more[key] < 0.98 * fewer[key]]
            assert not fallen, (seed, util)
        looked_at += len(points)
    assert looked_at >= 3 * len(UTILS)


@each(("engine", "shape"), [("vllm", {"cold_start": "2%:1.5s"}), ("sglang", SPREAD)], ids=str, few=1)
def test_an_element_of_an_array_has_the_percentiles_of_the_scalar(engine, shape):
    case = {**CASE, "engine": engine, "max_num_seqs": 64, **shape}
    users = tiers.times([24, 100], [1, 24, 100])  # the last with fewer slots than users
    rates = tiers.times([5.0, 60.0], [0.5, 5.0, 8.5, 60.0])  # the last is more than can be answered
    columns = rl.predict(*SMALL, concurrency=users, **case), rl.predict(*SMALL, request_rate=rates, **case)
    for column, load, values in ((columns[0], "concurrency", users), (columns[1], "request_rate", rates[:-1])):
        for place, value in enumerate(values):
            one = rl.predict(*SMALL, **{load: value}, **case)
            for key in KEYS:
                assert close(column.latency(key)[place], one.latency(key), 1e-9), (key, value)
    row = columns[1].to_dict()
    for key in KEYS:
        assert np.isnan(columns[1].latency(key)[-1])
        assert row[f"{key}_ms"][-1] is row[f"{key}_low_ms"][-1] is row[f"{key}_high_ms"][-1] is None
    with pytest.raises(rl.Overloaded):
        rl.predict(*SMALL, request_rate=rates[-1], **case)


@each(
    "load",
    [
        {"request_rate": 1.0},
        {"request_rate": 15.0, "isl_cv": 0.0},
        {"request_rate": 8.0, "engine": "sglang"},
        {"concurrency": 1},
        {"concurrency": 12, "max_num_seqs": 16},
        {"concurrency": 40, "max_num_seqs": 16},
        {"concurrency": 2, "max_num_seqs": 1},
        {"request_rate": 4.0, "cold_start": "5%:2s"},
    ],
    ids=str,
)
def test_the_mean_of_the_distribution_is_the_mean(load):
    found = rl.predict(*SMALL, **CASE, **load)
    for parts_of_it, mean in ((found.tails.ttft, found.ttft), (found.tails.tpot, found.tpot)):
        assert close(sum(part.weight for part in parts_of_it), 1.0, 1e-6)
        assert close(sum(part.weight * (part.least + part.mean) for part in parts_of_it), mean, 1e-3)


def test_a_burst_and_a_run_with_its_start_have_no_percentiles():
    for load in ({"batch": 4}, {"concurrency": 16, "num_prompts": 160}):
        found = rl.predict(*SMALL, **CASE, **load)
        row = found.to_dict()
        assert found.tails is None
        assert not [key for key in row if "_p9" in key or "_p50" in key if row[key] is not None]
    with pytest.raises(rl.BadInput, match="percentiles need a steady state"):
        rl.predict(*SMALL, **CASE, concurrency=16, num_prompts=160, slo="ttft:300@p95")


def test_lengths_that_do_not_differ_are_no_lengths_at_all():
    plain = rl.predict(*SMALL, **CASE, request_rate=6.0)
    for none in ({"isl_cv": 0.0}, {"isl_cv": 0.0, "osl_cv": 0.0, "lengths": "uniform"}):
        assert rl.predict(*SMALL, **CASE, request_rate=6.0, **none) == plain
    row = plain.to_dict()
    assert all(row[f"{key}_ms"] is not None for key in KEYS)


def test_an_interval_of_a_percentile_holds_it_as_that_of_the_mean_holds_the_mean():
    found = rl.predict(*SMALL, **CASE, request_rate=6.0)
    for key in KEYS:
        metric = key.partition("_")[0]
        ends, of_mean = found.latency_interval(key), getattr(found, f"{metric}_interval")
        time, mean = found.latency(key), getattr(found, metric)
        assert ends[0] <= time <= ends[1]
        assert all(close(end / time, other / mean) for end, other in zip(ends, of_mean, strict=True))


@pytest.mark.parametrize("load", [{"request_rate": 5.0}, {"concurrency": 24}], ids=str)
def test_requests_in_flight_are_their_rate_times_their_latency_where_lengths_differ_too(load):
    for engine in ("vllm", "sglang"):
        found = rl.predict(*SMALL, **CASE, engine=engine, **load, **SPREAD, cold_start="1%:500ms")
        assert close(found.concurrency, found.request_rate * found.e2el, 1e-9)
        parts_of_it = found.tails.e2el
        mean = sum(part.weight * (part.least + part.mean) for part in parts_of_it)
        assert close(sum(part.weight for part in parts_of_it), 1.0, 1e-9)
        assert abs(mean / found.e2el - 1.0) <= 0.05  # slices of lengths stand for their medians


# --- a simulation ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_percentiles_are_those_of_a_simulation(engine):
    lengths = {"isl_cv": 0.3, "osl_cv": 0.3}
    found = rl.simulate(*SMALL, **CASE, **lengths, engine=engine, request_rate=7.5, requests=8000, seed=11)
    assert 0.4 <= found.prediction.util <= 0.6
    for key in ("ttft_p50", "ttft_p90", "ttft_p99", "tpot_p99", "e2el_p99"):
        assert abs(found.ratio(key) - 1.0) <= 0.12, key


# --- cold starts -------------------------------------------------------------------------------


def test_a_share_of_cold_starts_that_the_p99_just_leaves_out_or_takes_in():
    case = {**CASE, "request_rate": 8.5}
    warm = rl.predict(*SMALL, **case)
    few, open_, many = (rl.predict(*SMALL, **case, cold_start=f"{share}%:2s") for share in (0.5, 1, 2))
    assert 0.15 <= warm.latency("ttft_p99") <= few.latency("ttft_p99") <= 0.21
    assert 2.0 < many.latency("ttft_p99") <= 2.0 + warm.latency("ttft_p99")
    said = [text for text in open_.warnings if "exactly 1 %" in text]
    assert len(said) == 1
    ends = "p99 of TTFT, like that of E2EL, is any time from ", "ms (slowest warm one) to 2.", "s (fastest cold one)"
    assert all(word in said[0] for word in ends)
    assert not [text for found in (warm, few, many) for text in found.warnings if "cold" in text]
    assert close(many.ttft, warm.ttft + 0.02 * 2.0, 1e-9)
    assert close(rl.predict(*SMALL, **case, cold_start=(0.02, 2.0)).ttft, many.ttft)


def test_all_requests_may_start_cold():
    case = {**CASE, "request_rate": 8.5, "isl_cv": 0.3}
    warm, cold = rl.predict(*SMALL, **case), rl.predict(*SMALL, **case, cold_start="100%:2s")
    for key in ("ttft_p50", "ttft_p99"):
        assert close(cold.latency(key), warm.latency(key) + 2.0, 1e-9)
    assert cold.latency("e2el_p99") > warm.latency("e2el_p99") + 1.0


@each(
    ("value", "said"),
    [
        ("1%", "a share and a time"),
        ("1%:soon", "'soon' is not a time such as 300ms"),
        ("often:2s", "'often' is not a share such as 80%"),
        ("101%:2s", "between 0 and 1"),
        ("nan:2s", "'nan' is not a share such as 80%"),
        ("1%:-2s", "'-2s' is not a time such as 300ms"),
        ((0.1, 2.0, 3.0), "a share and a time"),
        (0.1, "a share and a time"),
    ],
)
def test_what_is_no_cold_start_is_refused(value, said):
    with pytest.raises(rl.BadInput, match=said):
        rl.predict(*SMALL, **CASE, request_rate=1.0, cold_start=value)


@pytest.mark.parametrize("shape", [{"isl_cv": 0.3}, {"cold_start": "1%:2s"}], ids=str)
def test_requests_of_a_burst_neither_differ_nor_start_cold(shape):
    with pytest.raises(rl.BadInput, match="give concurrency or request_rate"):
        rl.predict(*SMALL, **CASE, **shape)
