"""Experts in balance, half batches, and exchanges over two tiers: limits, drawn loads, published figures, by hand."""

import heapq
import itertools
import random

import pytest
from every_case import each

import roofline as rl
from roofline.physics.equation import collective_time
from roofline.physics.exchange import direct_bytes, exchange_roof, per_node_bytes
from roofline.physics.layers.networks import balanced_rank, fullest_rank, heaviest_copy, touched_copies
from roofline.physics.two_batches import exposed
from roofline.specs.gpu import MOE_COMBINE, MOE_DISPATCH
from roofline.specs.model import MoeFfn


def exactly(figure):
    return pytest.approx(figure, rel=1e-10, abs=0.0)


SKEWS = (0.5, 0.66, 2.0, 10.0)
LAYOUTS = ((256, 8), (256, 32), (128, 16), (64, 4), (160, 16))


def eplb(loads, ranks, redundant):
    """DeepSeek's balancer: a copy of the busiest copy, until slots are full; then the busiest to the emptiest rank."""
    copies = [1] * len(loads)
    busiest = [(-load, expert) for expert, load in enumerate(loads)]
    heapq.heapify(busiest)
    for _ in range(redundant):
        _, expert = heapq.heappop(busiest)
        copies[expert] += 1
        heapq.heappush(busiest, (-loads[expert] / copies[expert], expert))
    items = sorted((loads[i] / n for i, n in enumerate(copies) for _ in range(n)), reverse=True)
    slots = len(items) // ranks
    open_ranks, full = [(0.0, rank, 0) for rank in range(ranks)], []
    for item in items:
        load, rank, held = heapq.heappop(open_ranks)
        if held + 1 == slots:
            full.append(load + item)
        else:
            heapq.heappush(open_ranks, (load + item, rank, held + 1))
    return max(full) * ranks / sum(loads)


def drawn(experts, skew, seed):
    draw = random.Random(seed)
    return [draw.gammavariate(skew / 5.0, 5.0 / skew) for _ in range(experts)]


@each(
    ("skew", "layout", "redundant"),
    [
        (0.66, (256, 32), 32), (0.66, (256, 8), 0), (0.66, (256, 32), 0), (0.66, (288 - 32, 72), 32),
        (0.66, (128, 16), 16), (2.0, (128, 16), 0), (2.0, (64, 8), 8), (10.0, (256, 16), 16), (0.5, (160, 16), 32),
    ],
)  # fmt: skip
def test_the_balance_is_that_of_the_balancer_on_drawn_loads(skew, layout, redundant):
    experts, ranks = layout
    loads = [eplb(drawn(experts, skew, seed), ranks, redundant) for seed in range(24)]
    mean = sum(loads) / len(loads)
    assert balanced_rank(experts, ranks, skew, redundant) == pytest.approx(mean, rel=0.1)


@each(("skew", "layout"), list(itertools.product((0.05, *SKEWS, 1e4), LAYOUTS)))
def test_more_copies_are_never_worse_and_all_of_them_are_even(skew, layout):
    experts, ranks = layout
    most = experts * (ranks - 1)
    slots = [*range(24), *range(32, most, max(most // 24, 1)), most]
    loads = [balanced_rank(experts, ranks, skew, redundant) for redundant in slots]
    before = max(fullest_rank(experts, ranks, skew), 1.0)
    assert all(1.0 - 1e-12 <= more <= less * (1.0 + 1e-9) for less, more in itertools.pairwise((before, *loads)))
    assert loads[-1] == exactly(1.0)


def test_extreme_skews_are_answered():
    for skew in (0.01, 0.1, 1e6):
        assert rl.predict(*ON, **SPREAD, routing=skew, eplb=32).tpot > 0.0


def test_uniform_routing_and_one_rank_need_no_balance():
    assert balanced_rank(256, 32, None, 32) == balanced_rank(256, 1, 0.66, 0) == 1.0
    assert heaviest_copy(64, 0, 1e5) == pytest.approx(1.0, abs=0.05)


@each("redundant", [0.0, 32.0, 256.0])
def test_a_token_touches_one_copy_of_each_of_its_experts(redundant):
    ffn = MoeFfn(experts=256, top_k=8, width=1)
    assert touched_copies(8.0, ffn, 1.0, redundant, 0.66) == 8.0
    assert touched_copies(256.0, ffn, 1e6, redundant, 0.66) == exactly(256.0 + redundant)


# Half batches.


def test_what_is_exposed_by_hand():
    assert exposed(3.0, 2.0, 4.0, 1.0) == (1.0 + 2.0, 0.0)
    assert exposed(0.0, 0.0, 4.0, 1.0) == (8.0, 2.0)  # nothing computes: both halves of both exchanges
    assert exposed(9.0, 9.0, 4.0, 1.0) == (0.0, 0.0)
    assert exposed(9.0, 3.9, 4.0, 1.0, 0.25) == (1.0 + 1.0, 0.25 + 0.25)  # a quarter of the computation stands still


def test_half_batches_take_at_least_their_computation_or_exchange_and_at_most_both():
    draw = random.Random(0)
    for _ in range(200):
        times = [draw.expovariate(1.0) for _ in range(4)]
        attention, experts, dispatch, combine = times
        taken = 2.0 * (attention + experts) + sum(exposed(*times, draw.random()))
        assert max(2.0 * (attention + experts), 2.0 * (dispatch + combine)) <= taken * (1.0 + 1e-12)
        assert taken <= 2.0 * sum(times) * (1.0 + 1e-12)


ON = ("qwen3-30b-a3b", "h100-sxm")
SPREAD = {"tp": 1, "dp": 4, "ep": 4, "isl": 2000, "osl": 100, "batch": 256}


def kernels_of(passed):
    return {kernel.name: kernel for kernel in passed.kernels}


def test_half_batches_do_the_same_arithmetic_and_hide_their_exchange():
    one, two = (rl.predict(*ON, **SPREAD, two_batch_overlap=both) for both in (False, True))
    assert two.prefill.flop == pytest.approx(one.prefill.flop, rel=1e-3)
    assert two.decode.nbytes > one.decode.nbytes  # weights are read twice
    whole, halves = kernels_of(one.decode), kernels_of(two.decode)
    assert halves["dispatch"].time < whole["dispatch"].time
    assert halves["experts"].count == 2 * whole["experts"].count
    assert halves["head"] == whole["head"]
    busy = sum(kernel.time for kernel in two.decode.kernels if not kernel.name.startswith(("dispatch", "combine")))
    assert two.decode.time >= busy


def test_one_sequence_of_a_rank_is_not_divided_to_decode():
    one, two = (rl.predict(*ON, **{**SPREAD, "batch": 4}, two_batch_overlap=both) for both in (False, True))
    assert two.tpot == one.tpot


# Exchanges over two tiers.


def test_bytes_of_an_exchange_by_hand():
    # 2 nodes of 2 ranks, 2 experts of a token: the other node has one of them with probability 3/4
    sent = per_node_bytes(1.0, 2, 4, 2, 2.0, 1.0, 1.0)
    assert sent.outside == exactly(0.75)
    assert sent.inside == exactly(4.0 / 2.0 * (1.0 - 0.75**2))  # of 4 ranks' tokens, those for the neighbour and me
    assert per_node_bytes(1.0, 8, 8, 8, 1.0, 1.0, 1.0).outside == 0.0
    assert per_node_bytes(1.0, 8, 64, 8, 4.0, 1.0, 1.0).outside < per_node_bytes(1.0, 8, 64, 8, 8.0, 1.0, 1.0).outside
    assert direct_bytes(1.0, 8, 16, 8, 1.0) == (3.5, 4.0)


#: Ranks -> latency of DeepEP's low-latency dispatch and combine [us], and bandwidth of its normal ones [GB/s]: H800,
#: InfiniBand 400 Gbit/s, hidden 7168, top 8, fp8 out and bf16 back; github.com/deepseek-ai/DeepEP, docs/legacy.md.
LATENCIES = {8: (77, 114), 16: (118, 195), 32: (155, 273), 64: (173, 314), 128: (192, 369), 256: (194, 360)}
BANDWIDTHS = {8: (153, 158), 16: (43, 43), 32: (58, 57), 64: (51, 50)}
SIDES = ((MOE_DISPATCH, 1.0 + 4.0 / 128.0), (MOE_COMBINE, 2.0))


def test_exchanges_take_what_deepep_publishes():
    gpu, errors = rl.load_gpu("h800"), []
    for ranks, published in LATENCIES.items():
        for (kind, nbytes), latency in zip(SIDES, published, strict=True):
            sent = direct_bytes(128.0 * 7168.0 * nbytes, 8, ranks, 8, 1.0)
            errors.append(collective_time(*exchange_roof(gpu, "calibrated", kind, ranks, sent)).total * 1e6 / latency)
    for ranks, published in BANDWIDTHS.items():
        for (kind, nbytes), rate in zip(SIDES, published, strict=True):
            token, nodes = 4096.0 * 7168.0 * nbytes, ranks / 8.0
            places = ranks if nodes == 1.0 else min(nodes, 4.0)  # what it counts: a token once to each rank, or node
            counted = token * places * (1.0 - (1.0 - 1.0 / places) ** 8)
            sent = per_node_bytes(token, 8, ranks, 8, min(nodes, 4.0), 1.0, 1.0)
            time = collective_time(*exchange_roof(gpu, "calibrated", kind, ranks, sent)).total
            errors.append(counted / time / 1e9 / rate)
    off = sorted(abs(ratio - 1.0) for ratio in errors)
    assert off[len(off) // 2] < 0.05
    assert off[-1] < 0.27


@each("kind", [MOE_DISPATCH, MOE_COMBINE])
def test_an_exchange_is_never_below_the_hardware_limit(kind):
    gpu = rl.load_gpu("h800")
    for ranks in (2, 8, 12, 16, 64):
        sent = per_node_bytes(1e8, 8, ranks, min(ranks, 8), max(ranks / 8.0, 1.0), 1.3, 1.1)
        real, ideal = (
            collective_time(*exchange_roof(gpu, basis, kind, ranks, sent)) for basis in ("calibrated", "ideal")
        )
        assert real.total > ideal.total > 0.0
        assert ideal.total == exactly(max(sent.inside / gpu.link.bandwidth, sent.outside / gpu.scale_out))


def test_an_all_reduce_over_nodes_reduces_inside_first():
    # reduce-scatter and all-gather among 8 GPUs of a node, an all-reduce of an eighth among the nodes
    one = rl.predict("llama-3.1-405b", "h100-sxm", tp=16, basis="ideal", allow_oversize=True)
    kernel = kernels_of(one.prefill)["ffn all-reduce"]
    gpu, tensor = one.deployment.gpu, 2.0 * 1024.0 * 16384.0
    within, between = 2.0 * 7.0 / 8.0 * tensor / gpu.link.bandwidth, 2.0 * 1.0 / 2.0 * tensor / 8.0 / gpu.scale_out
    assert kernel.terms.total <= within + between
    assert kernel.terms.total == exactly(max(tensor / gpu.link.bandwidth, between))  # in-switch inside, at once with it


# All of it in a prediction.


def test_nothing_asked_is_nothing_changed():
    plain = rl.predict(*ON, **SPREAD)
    assert rl.predict(*ON, **SPREAD, two_batch_overlap=False, all_to_all="direct", eplb=None) == plain
    assert plain.to_dict(["eplb", "expert_balance", "two_batch_decode", "all_to_all"]) == dict.fromkeys(
        ("eplb", "expert_balance", "two_batch_decode", "all_to_all")
    )


def test_uniform_routing_is_changed_by_no_placement():
    even = {**SPREAD, "routing": "uniform"}
    plain, placed = (rl.predict(*ON, **even, **more) for more in ({}, {"eplb": 0}))
    assert (placed.ttft, placed.tpot, placed.memory) == (plain.ttft, plain.tpot, plain.memory)
    copied = rl.predict(*ON, **even, eplb=32)
    assert copied.to_dict(["expert_balance", "expert_balance_after"]) == {
        "expert_balance": 1.0, "expert_balance_after": 1.0
    }  # fmt: skip
    assert copied.memory.weights > plain.memory.weights


def test_copies_take_the_memory_of_so_many_experts():
    plain, copied = (rl.predict(*ON, **SPREAD, eplb=slots) for slots in (0, 32))
    expert = 3 * 2048 * 768 * 2.0
    assert copied.memory.weights - plain.memory.weights == exactly(48 * 32 / 4 * expert)
    assert copied.to_dict(["expert_copies_gb"])["expert_copies_gb"] == exactly(48 * 32 / 4 * expert / 1e9)


def test_balance_makes_experts_and_their_exchange_quicker():
    case = {**SPREAD, "dp": 8, "ep": 8, "batch": 1024, "all_to_all": "per-node"}
    runs = [rl.predict(*ON, **case, eplb=slots) for slots in (None, 0, 32)]
    for name in ("experts", "dispatch", "combine"):
        order, placed, copied = (kernels_of(run.prefill)[name].time for run in runs)
        assert order > placed >= copied


def test_what_moving_experts_costs_by_hand():
    row = rl.predict(*ON, **SPREAD, eplb=32, engine="sglang").to_dict()
    held = 48 * (128 + 32) / 4 * 3 * 2048 * 768 * 2.0
    assert row["rearrange_gb"] == exactly(held * (1.0 - 160 / 128 / 4) / 1e9)
    gpu = rl.load_gpu("h100-sxm")
    assert row["rearrange_ms"] > row["rearrange_gb"] * 1e12 / gpu.link.bandwidth
    step = rl.predict(*ON, **SPREAD, eplb=32, engine="sglang").decode.time
    assert row["rearrange_lost"] == exactly(row["rearrange_ms"] / (1000.0 * step * 1e3))
    assert 0.0 < row["rearrange_prefills"] < 1e3
    assert row["rearrange_steps"] is None  # 64 tokens a rank: a decode step reads the copies too, and gains nothing


def test_an_array_is_its_cases():
    more = {**SPREAD, "eplb": 32, "two_batch_overlap": True, "all_to_all": "deepep:2", "dp": 16, "ep": 16}
    batches = [1, 16, 40, 512, 4000]
    many = rl.predict(*ON, **{**more, "batch": batches})
    for place, batch in enumerate(batches):
        one = rl.predict(*ON, **{**more, "batch": batch})
        assert (many.ttft[place], many.tpot[place]) == (exactly(one.ttft), exactly(one.tpot))
        for name in ("rearrange_steps", "two_batch_decode"):
            value = many.to_dict([name])[name][place]
            assert value == one.to_dict([name])[name] or value == exactly(one.to_dict([name])[name])


def test_derivatives_are_differences():
    case = {**SPREAD, "eplb": 32, "two_batch_overlap": True, "all_to_all": "per-node", "routing": 0.66}
    rows = rl.sensitivity(*ON, of="tpot", **case).to_rows(["input", "elasticity"])
    slope = next(row["elasticity"] for row in rows if row["input"] == "routing_skew")
    low, high = (rl.predict(*ON, **{**case, "routing": 0.66 * factor}).tpot for factor in (0.999, 1.001))
    assert slope == pytest.approx((high / low - 1.0) / 0.002, rel=0.02)
