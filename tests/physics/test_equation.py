"""The one equation: limits, bounds, times that scale as times must, and collectives worked out by hand."""

import math
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from conftest import calibrations, close, deploy, gpus
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline.numbers.arrays  # noqa: F401  ranks may be an array
from roofline.physics.assembly import Assembly
from roofline.physics.equation import (
    IDEAL_LINK,
    LinkRoof,
    Roof,
    Work,
    basis_of,
    calibrated_set,
    collective_time,
    doublings,
    kernel_time,
    link_efficiency,
    link_roof,
)
from roofline.physics.kernels import sent_bytes
from roofline.physics.passes import crossings, prefill_pass
from roofline.physics.plan import Plan
from roofline.specs.gpu import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    COLLECTIVES,
    GEMM,
    MOE_COMBINE,
    MOE_DISPATCH,
    P2P,
    REDUCE_SCATTER,
    Calibration,
    CollectiveEfficiency,
    Efficiency,
    Gpu,
    Link,
)
from roofline.support.errors import BadInput

amounts = st.just(0.0) | st.floats(1e3, 1e15)
works = st.builds(
    Work,
    flop=amounts,
    weight_bytes=amounts,
    kv_bytes=amounts,
    activation_bytes=amounts,
    serial_bytes=amounts,
    exponentials=amounts,
    depth=st.floats(0.0, 1e5),
    serial_depth=st.floats(0.0, 1e6),
    items=st.floats(0.0, 300.0),
    link_bytes=st.just(0.0),
)


@st.composite
def roofs(draw):
    gpu, calibration = draw(gpus()), draw(calibrations())
    efficiency = draw(st.sampled_from(sorted(calibration.kernels)))
    return Roof(gpu.peaks["bf16"], gpu.bandwidth, gpu.exp_rate or math.inf, calibration.kernels[efficiency])


@given(work=works, roof=roofs())
def test_time_lies_between_the_largest_term_which_bounds_it_and_their_sum_and_not_below_the_ideal(work, roof):
    ideal, calibrated = kernel_time(work, Roof.ideal(roof.peak, roof.bandwidth)), kernel_time(work, roof)
    moved = work.weight_bytes + work.kv_bytes + work.activation_bytes + work.serial_bytes
    assert close(ideal.total, max(work.flop / roof.peak, moved / roof.bandwidth))
    assert calibrated.total >= ideal.total * (1.0 - 1e-12)
    for terms in (ideal, calibrated):
        parts = {name: getattr(terms, name) for name in ("compute", "memory", "latency", "exponentials", "link")}
        assert parts[terms.bound] == max(parts.values()) <= terms.total * (1.0 + 1e-12)
        assert terms.total <= sum(parts.values()) * (1.0 + 1e-12)


def test_every_term_of_the_equation_adds_what_it_says():
    # Round figures, so that each term can be worked out in the head (p = 1: a plain sum).
    efficiency = Efficiency(t0=1.0, eta_c=0.5, eta_m=0.25, eta_x=0.2, eta_s=0.1, kappa=2.0, kappa_s=3.0, eps=5.0, p=1.0)
    roof = Roof(peak=10.0, bandwidth=4.0, exp_rate=5.0, efficiency=efficiency)

    def time(**work):
        return kernel_time(Work(**work), roof).total

    assert time() == 1.0
    assert time(flop=10.0) == 1.0 + 10.0 / (0.5 * 10.0)
    assert time(weight_bytes=1.0, kv_bytes=1.0, activation_bytes=1.0) == 1.0 + 3.0 / (0.25 * 4.0)
    assert close(time(serial_bytes=2.0), 1.0 + 2.0 / (0.1 * 4.0))
    assert time(exponentials=3.0) == 1.0 + 3.0 / (0.2 * 5.0)
    assert (time(depth=7.0), time(serial_depth=7.0), time(items=7.0)) == (
        1.0 + 2.0 * 7.0,
        1.0 + 3.0 * 7.0,
        1.0 + 5.0 * 7.0,
    )


@pytest.mark.parametrize(("p", "time"), [(1.0, 7.0), (2.0, 5.0), (3.0, 91.0 ** (1.0 / 3.0)), (math.inf, 4.0)])
def test_the_order_of_the_norm_joins_arithmetic_and_traffic(p, time):
    found = kernel_time(Work(flop=3.0, weight_bytes=4.0), Roof(1.0, 1.0, 1.0, Efficiency(p=p))).total
    assert found == pytest.approx(time, rel=1e-12)


@given(sent=amounts, bandwidth=st.floats(1e9, 1e12), ranks=st.integers(2, 64), calibration=calibrations())
def test_a_collective_takes_at_least_its_bytes_over_the_link(sent, bandwidth, ranks, calibration):
    work = Work(link_bytes=sent)
    light = collective_time(work, LinkRoof(bandwidth, ranks, IDEAL_LINK))
    assert close(light.total, sent / bandwidth)
    for efficiency in calibration.collectives.values():
        terms = collective_time(work, LinkRoof(bandwidth, ranks, efficiency))
        assert terms.total >= light.total * (1.0 - 1e-12)
        assert close(terms.total, terms.latency + terms.link)


def test_every_term_of_a_collective_adds_what_it_says():
    efficiency = CollectiveEfficiency(a0=1.0, a1=2.0, a2=3.0, q=8.0, eta=0.5)
    # 5 ranks: 1 + 2 x 4 + 3 x 3 doublings + sqrt(8 x 20/10) + 20/(0.5 x 10)
    under = LinkRoof(10.0, 5, efficiency, doublings=3.0)
    assert collective_time(Work(link_bytes=20.0), under).total == 1 + 8 + 9 + 4 + 4


@pytest.mark.parametrize(("eta_switch", "seconds"), [(None, 1 + 4), (0.6, 1 + 2), (0.1, 1 + 4)])
def test_a_switch_that_reduces_is_used_where_it_is_the_faster_way(eta_switch, seconds):
    # A ring at half of 10 B/s takes 4 s for 20 bytes; the switch needs 60 % of them to cross.
    efficiency = CollectiveEfficiency(a0=1.0, eta=0.5, eta_switch=eta_switch)
    found = collective_time(Work(link_bytes=20.0), LinkRoof(10.0, 5, efficiency, least=0.6)).total
    assert found == pytest.approx(seconds, rel=1e-12)


# --- collectives by hand --------------------------------------------------------------------------

SIZE = 8e6  # bytes of the tensor
EFFICIENCY = CollectiveEfficiency(a0=1e-6, a1=2e-7, a2=3e-7, q=1e-6, eta=0.8, eta_switch=0.5)
OVER_PCIE = CollectiveEfficiency(a0=5e-6, a1=4e-7, a2=6e-7, q=4e-6, eta=0.6)
NODE = Gpu(
    name="gpu", aliases=(), vendor="", generation="random", peaks={"bf16": 1e15}, bandwidth=1e12, memory=1e11,
    memory_label=1e11, link=Link("nvlink", 1e11, 4), scale_out=1e10, host_link=2.5e10,
    calibration=Calibration(
        "random", ("gpu",), {}, {**{kind.name: EFFICIENCY for kind in COLLECTIVES}, "pcie": OVER_PCIE}
    ),
)  # fmt: skip
SWITCH = replace(NODE, link=replace(NODE.link, in_switch_reduction=True))
MESH = replace(NODE, link=replace(NODE.link, peer_bandwidth=2e10))
#: Bridges join pairs; four of them are in a host, over PCIe.
BRIDGE = replace(NODE, link=replace(NODE.link, domain=2), host_domain=4)
QUICK = replace(NODE, scale_out=1e11)


def time(gpu, basis, kind, ranks):
    """Terms of one collective of a tensor of `SIZE`."""
    return collective_time(Work(link_bytes=sent_bytes(kind, SIZE, ranks)), link_roof(gpu, basis, kind, ranks))


def over(wire, ranks, doublings, efficiency=EFFICIENCY):
    """Alpha-beta time of a collective whose bytes take so long on the bare links."""
    start = efficiency.a0 + efficiency.a1 * (ranks - 1) + efficiency.a2 * doublings
    return start + sqrt(efficiency.q * wire) + wire / efficiency.eta


#: Each of n ranks passes on n - 1 shards of 1/n; an all-reduce scatters, then gathers: twice around a ring.
SENT = {
    **dict.fromkeys((ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, MOE_DISPATCH, MOE_COMBINE), lambda n: (n - 1) / n),
    ALL_REDUCE: lambda n: 2 * (n - 1) / n,
    P2P: lambda n: 1,
}


@each(("kind", "share"), SENT.items())
@each("ranks", [2, 3, 8, 72])
def test_ranks_send_what_was_counted_by_hand(kind, share, ranks):
    assert close(sent_bytes(kind, SIZE, ranks), share(ranks) * SIZE)


# A tensor of 8 MB; a link of 100 GB/s within 4 GPUs, a network of 10 GB/s a GPU: bare times [s] on 4 ranks, and on 8
# within a node and between two. A ring works in the node first: 3/4 of the tensor is sent there, each way of an
# all-reduce, and the quarter that is left is exchanged between the nodes. Of an exchange 3 of 7 peers are near.
KINDS = [
    (ALL_REDUCE, 12e6 / 1e11, 12e6 / 1e11, 2e6 / 1e10),
    (ALL_GATHER, 6e6 / 1e11, 6e6 / 1e11, 1e6 / 1e10),
    (REDUCE_SCATTER, 6e6 / 1e11, 6e6 / 1e11, 1e6 / 1e10),
    (MOE_DISPATCH, 6e6 / 1e11, 3e6 / 1e11, 4e6 / 1e10),
    (MOE_COMBINE, 6e6 / 1e11, 3e6 / 1e11, 4e6 / 1e10),
    (P2P, 8e6 / 1e11, 0.0, 8e6 / 1e10),
]


@pytest.mark.parametrize(("kind", "domain", "near", "far"), KINDS, ids=[str(kind) for kind, *_ in KINDS])
def test_one_collective_of_each_kind_takes_what_was_worked_out_by_hand(kind, domain, near, far):
    four, eight = (1, 1) if kind is P2P else (2, 3)  # doublings; a hand-over has two ends
    found = [time(NODE, basis, kind, ranks).total for ranks in (4, 8) for basis in ("ideal", "calibrated")]
    # beyond the domain ideal links work at once, calibrated ones one after the other
    assert found == pytest.approx([domain, over(domain, 4, four), max(near, far), over(near + far, 8, eight)])


def test_terms_of_a_collective_are_those_worked_out_by_hand():
    terms = time(NODE, "calibrated", ALL_REDUCE, 4)
    fill = sqrt(1e-6 * 120e-6)
    assert terms.pipeline_latency == pytest.approx(fill)
    assert terms.latency == pytest.approx(1e-6 + 3 * 2e-7 + 2 * 3e-7 + fill)
    assert terms.link == pytest.approx(120e-6 / 0.8)
    assert (terms.compute, terms.memory, terms.exponentials, terms.bound) == (0.0, 0.0, 0.0, "link")
    assert time(NODE, "ideal", ALL_REDUCE, 4).link == pytest.approx(120e-6)


def test_a_switch_that_reduces_carries_the_tensor_once():
    start = over(120e-6, 4, 2) - 120e-6 / 0.8
    assert time(SWITCH, "ideal", ALL_REDUCE, 4).total == pytest.approx(8e6 / 1e11)
    # ring 120 us / 0.8 = 150, switch 80 us / 0.5 = 160: the ring is the faster one; at 0.8 of the rate the switch is
    assert time(SWITCH, "calibrated", ALL_REDUCE, 4).total == pytest.approx(start + 150e-6)
    better = {**NODE.calibration.collectives, "all_reduce": replace(EFFICIENCY, eta_switch=0.8)}
    quick = replace(SWITCH, calibration=replace(NODE.calibration, collectives=better))
    assert time(quick, "calibrated", ALL_REDUCE, 4).total == pytest.approx(start + 100e-6)
    # beyond the domain calibrated as any other; at the hardware limit the node's part is one tensor
    assert time(quick, "calibrated", ALL_REDUCE, 8) == time(NODE, "calibrated", ALL_REDUCE, 8)
    assert time(replace(SWITCH, scale_out=1e11), "ideal", ALL_REDUCE, 8).total == pytest.approx(80e-6)
    assert time(QUICK, "ideal", ALL_REDUCE, 8).total == pytest.approx(120e-6)
    assert time(SWITCH, "ideal", ALL_GATHER, 4) == time(NODE, "ideal", ALL_GATHER, 4)  # there is nothing to reduce


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_of_a_mesh_the_links_to_the_ranks_that_take_part_carry_a_collective(ranks):
    for link, rate in ((2e10, 2e10 * (ranks - 1)), (9e10, min(9e10 * (ranks - 1), 1e11))):
        mesh = replace(NODE, link=replace(NODE.link, peer_bandwidth=link))
        assert time(mesh, "ideal", ALL_GATHER, ranks).total == pytest.approx((ranks - 1) / ranks * SIZE / rate)


@pytest.mark.parametrize(
    ("basis", "ranks", "expected"),
    [
        # 4 cards, 2 a bridge, PCIe of 25 GB/s: calibrated, all of the 12 MB of an all-reduce over PCIe
        ("calibrated", 4, over(12e6 / 2.5e10, 4, 2, OVER_PCIE)),
        (
            "ideal",
            4,
            4e6 / 2.5e10,
        ),  # at the hardware limit the bridge takes the tensor (80 us), PCIe half of it (160 us)
        # 8 cards in two hosts: 12 MB in a host, then a quarter of the tensor between them
        ("calibrated", 8, over(12e6 / 2.5e10 + 2e6 / 1e10, 8, 3, OVER_PCIE)),
        ("ideal", 8, 2e6 / 1e10),
        ("calibrated", 2, over(8e6 / 1e11, 2, 1)),  # a pair is joined by its bridge, and its parameters are those of it
    ],
)
def test_cards_beyond_their_bridge_work_over_pcie(basis, ranks, expected):
    assert time(BRIDGE, basis, ALL_REDUCE, ranks).total == pytest.approx(expected)


@pytest.mark.parametrize("basis", ["ideal", "calibrated"])
@pytest.mark.parametrize("gpu", [NODE, SWITCH, MESH, BRIDGE], ids=["node", "switch", "mesh", "bridge"])
def test_an_element_of_an_array_of_ranks_takes_what_so_many_ranks_take(gpu, basis):
    ranks = np.array([2, 3, 4, 6, 8])
    for kind in (ALL_REDUCE, ALL_GATHER, MOE_DISPATCH):
        each = [time(gpu, basis, kind, int(number)).total for number in ranks]
        assert time(gpu, basis, kind, ranks).total == pytest.approx(each, rel=1e-12)


def test_without_a_calibration_links_reach_their_full_rate():
    assert link_efficiency(replace(NODE, calibration=None), ALL_REDUCE) is IDEAL_LINK
    bare = time(replace(NODE, calibration=None), "calibrated", ALL_REDUCE, 4)
    assert bare.total == pytest.approx(120e-6)


@pytest.mark.parametrize(("ranks", "number"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (2**21, 20)])
def test_doublings_are_counted_to_a_million_ranks(ranks, number):
    assert doublings(ranks) == number


ALONE = replace(NODE, calibration=replace(NODE.calibration, collectives={}))
REFUSED = {
    "unknown basis 'fast'; choose from calibrated, ideal": lambda: basis_of(NODE, "fast"),
    "the calibration has no parameters for gemm kernels": lambda: calibrated_set({}, GEMM, "bf16"),
    "8 ranks exceed the 4-GPU nvlink domain of gpu": lambda: time(
        replace(NODE, scale_out=None), "ideal", ALL_REDUCE, 8
    ),
    "gpu: its specification has no host_link": lambda: time(replace(BRIDGE, host_link=None), "ideal", ALL_REDUCE, 4),
    "calibration random has no all_reduce parameters": lambda: time(ALONE, "calibrated", ALL_REDUCE, 4),
}


@each(("message", "asked"), REFUSED.items())
def test_what_was_never_timed_or_stated_is_refused_by_name(message, asked):
    with pytest.raises(BadInput, match=message):
        asked()


# --- in a pass -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "domain", "expected"),
    [
        (Plan(tp=4, pp=2), 8, 0),
        (Plan(tp=4, pp=3), 8, 1),
        (Plan(tp=4, pp=4), 8, 1),  # stages 1 and 2 | 3 and 4
        (Plan(tp=8, pp=4), 8, 3),
        (Plan(tp=2, pp=4, dp=2), 8, 1),
        (Plan(tp=1, pp=8), 8, 0),
        (Plan(tp=1, pp=9), 8, 1),
        (Plan(tp=16, pp=2), 8, 1),  # never more than there are hand-overs
        (Plan(tp=4), 8, 0),
    ],
)
def test_hand_overs_between_nodes_are_counted(plan, domain, expected):
    assert crossings(plan, domain) == expected


def of_kind(deployment, kind, tokens=10.0):
    kernels = prefill_pass(deployment, 1.0, tokens).kernels
    return {kernel.name: (kernel.count, kernel.work.link_bytes) for kernel in kernels if kernel.kind is kind}


def test_stages_hand_over_the_stream_of_their_tokens():
    # llama-3.1-8b: 10 tokens of 4096 values in 16 bits; of 3 hand-overs of stages of 4 GPUs one leaves a node of 8
    stream = 10 * 4096 * 2
    handed = of_kind(deploy("llama-3.1-8b", "h100-sxm", Plan(tp=4, pp=4)), P2P)
    assert sorted(handed.values()) == [(1.0, stream), (2.0, stream)]
    assert of_kind(deploy("llama-3.1-8b", "h100-sxm", Plan(tp=4)), P2P) == {}


def test_collectives_of_a_dense_layer_are_two_sums_of_the_stream_and_one_gather_of_the_logits():
    deployment = deploy("llama-3.1-8b", "h100-sxm", Plan(tp=4))
    ring = 2 * 3 / 4 * 10 * 4096 * 2
    reduced = of_kind(deployment, ALL_REDUCE)
    assert reduced == {"attention all-reduce": (32, ring), "ffn all-reduce": (32, ring)}
    assert of_kind(deployment, ALL_GATHER) == {"logits all-gather": (1, 3 / 4 * 128256 * 2)}
    assert of_kind(deploy("llama-3.1-8b", "h100-sxm"), ALL_REDUCE) == {}


def test_an_all_reduce_of_an_engine_takes_its_time_more():
    deployment = deploy("llama-3.1-8b", "h100-sxm", Plan(tp=4))
    slower = replace(deployment, engine=replace(deployment.engine, all_reduce=7e-6))

    def sums_and_gathers(one):
        assembly = Assembly(one, 1.0, 10.0)
        assembly.all_reduce("sum", 1)
        assembly.collective("gather", ALL_GATHER, 1, 8e6, 4)
        return [np.array((kernel.terms.total, kernel.terms.latency)) for kernel in assembly.kernels]

    plain, longer = sums_and_gathers(deployment), sums_and_gathers(slower)
    assert longer[0] - plain[0] == pytest.approx([7e-6, 7e-6])
    assert longer[1].tolist() == plain[1].tolist()
