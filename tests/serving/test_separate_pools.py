"""Two pools: their equations against limits that are known, and against a simulation of every step."""

import math
import random
import statistics
from dataclasses import replace

import pytest

import roofline as rl
from roofline.serving.latency import EQUAL, UNIFORM, Workload, lanes, lengths_by_law
from roofline.serving.load.equations import server_of
from roofline.serving.load.pools import (
    KvLink,
    Pools,
    best_pool_ratio,
    kv_transfer_time,
    matched_rate_per_gpu,
    pool_tails,
    pooled,
    prompt_queue,
    prompt_rank,
    shown_transfer,
)
from roofline.serving.load.simulation import Arrivals, pools_simulated
from roofline.serving.load.tails import mean_of, percentile
from roofline.specs.load import Rate, Users

INFINITE, RDMA = KvLink("given", math.inf), KvLink("rdma", 50e9)


def deployment(model, pool, engine="vllm", **options):
    return rl.predict(model, pool, isl=1000, osl=100, request_rate=1e-3, engine=engine, **options).deployment


H100 = deployment("llama-3.1-8b", "h100:tp1")
PAIR = Pools(H100, H100, RDMA)


def floats(found, *names):
    """Figures of an answer as a list of floats."""
    return [float(getattr(found, name)) for name in names]


def means(seen):
    """Mean TTFT and TPOT of simulated requests."""
    return [statistics.fmean(getattr(each, name) for each in seen) for name in ("ttft", "tpot")]


def test_an_idle_pair_of_pools_takes_what_an_idle_server_does_and_the_transfer():
    alone = rl.predict("llama-3.1-8b", "h100:tp1", isl=2000, osl=200, engine="vllm")
    found = pooled(PAIR, Workload(2000.0, 200.0, Rate(1e-6)))
    transfer = 2000 * 131072 / 50e9  # 32 layers, 8 heads of 128, keys and values of 2 bytes
    assert float(found.transfer) == pytest.approx(transfer, rel=1e-12)
    assert floats(found, "ttft", "tpot") == pytest.approx([alone.ttft + transfer, alone.tpot], rel=1e-4)


def test_an_infinite_link_is_disaggregation_without_a_transfer():
    workload = Workload(4000.0, 200.0, Rate(3.0))
    links = INFINITE, KvLink("rdma", 25e9), KvLink("rdma", 25e9, is_layerwise=True)
    free, slow, layerwise = (pooled(Pools(H100, H100, link), workload) for link in links)
    assert floats(free, "transfer", "transfer_wait") == [0.0, 0.0]
    assert float(slow.ttft - slow.transfer - slow.transfer_wait) == pytest.approx(float(free.ttft), rel=1e-12)
    assert float(slow.tpot) == float(free.tpot)
    assert float(layerwise.transfer) == pytest.approx(float(slow.transfer) / 32, rel=1e-12)
    assert float(free.ttft) < float(layerwise.ttft) < float(slow.ttft)


def test_layers_that_are_slower_to_send_than_to_compute_show_what_exceeds_the_prompt():
    link = KvLink("rdma", 1.0, is_layerwise=True)
    assert shown_transfer(link, 10.0, 5.0, 2.0) == pytest.approx(5.0 - 0.9 * 2.0)
    assert shown_transfer(KvLink("rdma", 1.0), 10.0, 5.0, 2.0) == 5.0


def test_the_slower_side_of_a_transfer_counts():
    narrow, wide = (deployment("llama-3.1-8b", f"h100:tp{tp}") for tp in (1, 4))
    spread, rank = (deployment("deepseek-r1", pool, kv_cache_dtype="bf16") for pool in ("b200:tp8", "b200:dp8ep8"))
    whole, latent = 1000 * 131072, 1000 * 61 * 576 * 2  # the latent of R1, which every tensor-parallel rank keeps
    for prefill, decode, nbytes in (
        (narrow, wide, whole),  # one GPU sends all
        (wide, narrow, whole),  # one GPU receives all
        (wide, wide, whole / 4),
        (spread, rank, latent),
        (rank, spread, 8 * latent),
    ):
        assert float(kv_transfer_time(Pools(prefill, decode, KvLink("rdma", 1.0)), 1000.0)) == pytest.approx(nbytes)


def test_a_prompt_of_the_whole_budget_waits_as_in_m_d_1():
    isl = float(H100.engine.max_num_batched_tokens)
    rank = prompt_rank(server_of(H100, Workload(isl, 1.0, Rate(1.0))))
    rate = 0.5 / float(rank.prompt.alone)
    found = prompt_queue(rank, rate)
    assert floats(found, "stage", "idle") == pytest.approx([1.5 * float(rank.prompt.alone), 0.5], rel=1e-3)


def test_whole_replicas_never_beat_the_exact_ratio():
    draw = random.Random(1)
    for _ in range(200):
        prefill, decode = draw.uniform(0.1, 20.0), draw.uniform(0.1, 20.0)
        gpus = draw.choice((1, 2, 4, 8)), draw.choice((1, 2, 4, 8))
        found = best_pool_ratio(prefill, decode, *gpus, 64)
        bound = matched_rate_per_gpu(prefill, decode, *gpus)
        assert found.rate_per_gpu <= bound
        total = found.prefill * gpus[0] + found.decode * gpus[1]
        assert total <= 64
        whole = ((n, m, n * gpus[0] + m * gpus[1]) for m in range(1, 64) for n in range(1, 64))
        every = max(min(n * prefill, m * decode) / used for n, m, used in whole if used <= 64)
        assert found.rate_per_gpu == pytest.approx(every, rel=1e-9)


def test_users_are_somewhere():
    for users in (1.0, 7.0, 64.0, 2000.0):  # the last are more than there are slots
        found = pooled(PAIR, Workload(2000.0, 200.0, Users(users)))
        assert float(found.request_rate * (found.ttft + found.decode)) == pytest.approx(users, rel=1e-9)
        assert found.request_rate < found.max_request_rate


def test_the_start_of_a_run_is_only_in_a_run():
    pools = Pools(H100, H100, INFINITE)
    steady, run, endless = (pooled(pools, Workload(2000.0, 200.0, Users(64.0, n))) for n in (None, 640.0, 64e9))
    burst = 0.2 * 63.0 / (2.0 * float(run.max_prefill_rate))  # of 640 requests 64 begin together, and as many later
    assert burst < float(run.prompt_wait) < burst + 0.8 * float(steady.prompt_wait)
    assert float(endless.ttft) == pytest.approx(float(steady.ttft), rel=1e-6)


def test_more_than_a_pool_takes_has_no_steady_state():
    most = float(pooled(PAIR, Workload(2000.0, 200.0, Rate(1.0))).max_request_rate)
    over = pooled(PAIR, Workload(2000.0, 200.0, Rate(1.01 * most)))
    assert not over.is_stable
    assert over.ttft == math.inf
    slow = pooled(Pools(H100, H100, KvLink("pcie", 1e8)), Workload(2000.0, 200.0, Rate(1.0)))
    assert float(slow.max_request_rate) == pytest.approx(1e8 / (2000 * 131072))  # the link is full first


CASES = {
    "two kinds of GPU": ("llama-3.3-70b", "b200:tp2:fp8x2", "h100:tp4:fp8x3", 3000.0, 300.0, 0.6, 0.0, 50e9),
    "three to two": ("llama-3.1-8b", "h100:tp1x2", "a100:tp1x3", 1500.0, 100.0, 0.7, 0.3, 25e9),
    "experts": ("gpt-oss-120b", "b200:tp1x2", "h100:tp2x2", 6000.0, 200.0, 0.5, 0.0, 12e9),
}


@pytest.mark.parametrize("name", CASES)
def test_random_arrivals_see_what_the_simulation_sees(name):
    model, prefill, decode, isl, osl, util, cv, bandwidth = CASES[name]
    pools = Pools(deployment(model, prefill), deployment(model, decode), KvLink("rdma", bandwidth))
    lengths = lengths_by_law(UNIFORM, cv, cv) if cv else EQUAL
    workload = Workload(isl, osl, Rate(1.0), lengths=lengths)
    rate = util * float(pooled(pools, workload).max_request_rate)
    workload = replace(workload, load=Rate(rate))
    found = pooled(pools, workload)
    seen = pools_simulated(pools, workload, Arrivals(8000, rate=rate, lengths=lengths, seed=3))
    spread = pool_tails(pools, workload, found)
    for name, mean, near, near_p99 in zip(("ttft", "tpot"), means(seen), (0.05, 0.03), (0.15, 0.1), strict=True):
        assert float(getattr(found, name)) == pytest.approx(mean, rel=near)
        last = sorted(getattr(each, name) for each in seen)[int(0.99 * len(seen))]
        assert float(percentile(getattr(spread, name), 99.0)) == pytest.approx(last, rel=near_p99)


def test_users_see_what_the_simulation_sees():
    prefill, decode = (deployment("llama-3.1-8b", pool) for pool in ("h100:tp1x2", "a100:tp1x3"))
    pools = Pools(prefill, decode, KvLink("rdma", 25e9))
    lengths = lengths_by_law(UNIFORM, 0.17, 0.17)
    workload = Workload(2000.0, 150.0, Users(32.0), lengths=lengths)
    found = pooled(pools, workload)
    seen = pools_simulated(pools, workload, Arrivals(3000, users=32, lengths=lengths, seed=5))
    first, step = means(seen)
    assert float(found.request_rate) == pytest.approx(32.0 / statistics.fmean(each.e2el for each in seen), rel=0.03)
    assert float(found.ttft) == pytest.approx(first, rel=0.06)
    assert float(found.tpot) == pytest.approx(step, rel=0.03)
    assert float(lanes(pools.prefill)) == 2.0


def test_a_decode_pool_of_experts_whose_steps_grow_fast_is_where_its_answers_leave_it():
    """Plain iteration diverges here, and once left a TPOT of 7.75 ms; every step simulated takes 39."""
    found = rl.disaggregate("gpt-oss-120b", "l40s:tp2x2", "l40s:tp2", isl=436, osl=128, request_rate=12.5627)
    seen = found.simulate(requests=1500, seed=4)
    assert seen.ratio("tpot") == pytest.approx(1.0, abs=0.03)
    assert seen.ratio("ttft") == pytest.approx(1.0, abs=0.03)


def test_a_pool_is_answered_up_to_its_largest_rate():
    workload = Workload(200.0, 400.0, Rate(1.0))
    most = float(pooled(PAIR, workload).max_request_rate)
    last = 0.0
    for util in (0.9, 0.99, 0.999, 0.99999):
        found = pooled(PAIR, replace(workload, load=Rate(util * most)))
        assert found.is_stable
        assert last <= float(found.tpot) < math.inf
        last = float(found.tpot)
    full = server_of(H100, workload)
    assert last == pytest.approx(float(full.decode(full.slots).total), rel=1e-3)  # a rank with all slots taken


def test_prompts_of_users_take_the_mean_that_is_stated():
    """Prompts that follow others are quicker than those that find a rank idle, so that their wait makes up for it."""
    pools = Pools(deployment("gpt-oss-120b", "h200:tp2"), deployment("gpt-oss-120b", "b200:tp1"), INFINITE)
    for users in (2.0, 4.0, 16.0):
        workload = Workload(828.0, 49.0, Users(users))
        found = pooled(pools, workload)
        assert mean_of(pool_tails(pools, workload, found).ttft) == pytest.approx(float(found.ttft), rel=0.02)
