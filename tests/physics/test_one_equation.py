"""The one equation: limits, bounds, and times that scale as times must."""

import math

import pytest
from conftest import calibrations, close, gpus
from hypothesis import given
from hypothesis import strategies as st

from roofline.physics.equation import IDEAL_LINK, LinkRoof, Roof, Work, collective_time, kernel_time
from roofline.physics.kernels import sent_bytes
from roofline.specs.gpu import (
    ALL_GATHER,
    ALL_REDUCE,
    MOE_COMBINE,
    MOE_DISPATCH,
    P2P,
    REDUCE_SCATTER,
    CollectiveEfficiency,
    Efficiency,
)

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
def test_ideal_time_is_the_larger_of_arithmetic_and_traffic_over_their_rates(work, roof):
    terms = kernel_time(work, Roof.ideal(roof.peak, roof.bandwidth))
    moved = work.weight_bytes + work.kv_bytes + work.activation_bytes + work.serial_bytes
    assert close(terms.total, max(work.flop / roof.peak, moved / roof.bandwidth))


@given(work=works, roof=roofs())
def test_time_lies_between_the_largest_of_its_terms_and_their_sum(work, roof):
    for terms in (kernel_time(work, roof), kernel_time(work, Roof.ideal(roof.peak, roof.bandwidth))):
        parts = (terms.compute, terms.memory, terms.latency, terms.exponentials, terms.link)
        assert max(parts) <= terms.total * (1.0 + 1e-12)
        assert terms.total <= sum(parts) * (1.0 + 1e-12)


@given(work=works, roof=roofs())
def test_calibrated_time_is_never_below_the_ideal_one(work, roof):
    light = kernel_time(work, Roof.ideal(roof.peak, roof.bandwidth)).total
    assert kernel_time(work, roof).total >= light * (1.0 - 1e-12)


@given(work=works, roof=roofs())
def test_the_bound_names_the_largest_term(work, roof):
    terms = kernel_time(work, roof)
    parts = {name: getattr(terms, name) for name in ("compute", "memory", "latency", "exponentials", "link")}
    assert parts[terms.bound] == max(parts.values())


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
    assert time(depth=7.0) == 1.0 + 2.0 * 7.0
    assert time(serial_depth=7.0) == 1.0 + 3.0 * 7.0
    assert time(items=7.0) == 1.0 + 5.0 * 7.0


def test_the_order_of_the_norm_joins_arithmetic_and_traffic():
    def time(p):
        return kernel_time(Work(flop=3.0, weight_bytes=4.0), Roof(1.0, 1.0, 1.0, Efficiency(p=p))).total

    assert time(1.0) == 7.0
    assert time(2.0) == 5.0
    assert close(time(3.0), 91.0 ** (1.0 / 3.0))
    assert time(math.inf) == 4.0


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


def test_a_switch_that_reduces_is_used_where_it_is_the_faster_way():
    # A ring at half of 10 B/s takes 4 s for 20 bytes; the switch needs 60 % of them to cross.
    def time(eta_switch):
        efficiency = CollectiveEfficiency(a0=1.0, eta=0.5, eta_switch=eta_switch)
        return collective_time(Work(link_bytes=20.0), LinkRoof(10.0, 5, efficiency, least=0.6)).total

    assert time(None) == 1 + 4
    assert close(time(0.6), 1 + 2)
    assert time(0.1) == 1 + 4


@pytest.mark.parametrize("ranks", [2, 3, 8, 72])
def test_a_ring_sends_what_its_definition_says(ranks):
    # Each of n ranks passes on n - 1 shards of size S/n; an all-reduce scatters, then gathers.
    shard = 840.0 / ranks
    for collective in (ALL_GATHER, REDUCE_SCATTER, MOE_DISPATCH, MOE_COMBINE):
        assert close(sent_bytes(collective, 840.0, ranks), (ranks - 1) * shard)
    assert close(sent_bytes(ALL_REDUCE, 840.0, ranks), 2.0 * (ranks - 1) * shard)
    assert sent_bytes(P2P, 840.0, ranks) == 840.0
