"""Power of kernels and passes, and what a power cap does to their times."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.equation import Roof, Terms, Work
from roofline.physics.passes import decode_pass, dynamic_energy, prefill_pass
from roofline.physics.power import (
    CLOCK_LAW,
    CONSTANTS,
    IDLE,
    LEAST_CAP,
    MOST,
    clock_under_cap,
    is_measured,
    power_share,
)
from roofline.specs.gpu import HOST

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
SHARES = st.floats(0.0, 1.0)


def deployed(power_cap=None, **options):
    return rl.predict(MODEL, GPU, power_cap=power_cap, **options).deployment


def test_power_by_hand():
    """Half of the tensor cores, a quarter of the HBM for weights, an eighth for a KV cache, a fifth of it launch."""
    roof = Roof.ideal(peak=1e15, bandwidth=4e12)
    work, terms = Work(flop=1e11, weight_bytes=2e8, kv_bytes=1e8), Terms(2e-4, 0.0, 0.0, 4e-5)
    busy, compute, memory, cache = CONSTANTS
    wanted = IDLE + 0.8 * busy + 0.5 * compute + 0.25 * memory + 0.125 * cache
    assert power_share(work, roof, terms) == pytest.approx(min(wanted, MOST), rel=1e-12)
    lighter = power_share(work._replace(flop=0.0), roof, terms)
    assert lighter == pytest.approx(wanted - 0.5 * compute, rel=1e-12)


@given(SHARES, SHARES, SHARES, SHARES)
def test_a_board_draws_between_idle_and_its_limit(compute, memory, cache, launch):
    roof = Roof.ideal(peak=1e15, bandwidth=4e12)
    work = Work(flop=1e12 * compute, weight_bytes=4e9 * memory, kv_bytes=4e9 * cache)
    terms = Terms(1e-3, 0.0, 0.0, 1e-3 * launch)
    share = power_share(work, roof, terms)
    assert IDLE <= share <= MOST < 1.0
    assert power_share(work._replace(flop=2.0 * work.flop), roof, terms) >= share


@pytest.mark.parametrize("cap", [None, "300W"])
def test_the_energy_of_a_pass_is_that_of_its_kernels(cap):
    deployment = deployed(cap)
    limit = MOST if cap is None else 300.0 / 700.0
    for passed in (prefill_pass(deployment, 4.0, 1000.0), decode_pass(deployment, 8.0, 2000.0)):
        total, host = 0.0, 0.0
        for kernel in passed.kernels:
            share = kernel.power
            if share is None:
                share = IDLE if kernel.kind is HOST else power_share(kernel.work, kernel.roof, kernel.terms)
            assert IDLE <= share <= limit
            total += kernel.time * share
            host += kernel.time if kernel.kind is HOST else 0.0
        assert IDLE * passed.time + dynamic_energy(passed)[0] == pytest.approx(total, rel=1e-12)
        assert 0.0 < host < passed.time


@given(SHARES, st.floats(LEAST_CAP, 1.0))
def test_clocks_fall_until_the_power_is_that_of_the_cap(share, cap):
    clock = clock_under_cap(share, cap)
    assert 0.0 < clock <= 1.0
    if share <= cap:
        assert clock == 1.0
    else:
        assert IDLE + (share - IDLE) * clock**CLOCK_LAW == pytest.approx(cap, rel=1e-9)


def test_a_lower_cap_is_never_faster_and_the_hardware_limit_does_not_move():
    caps = [None, 650, 500, 350, 175]
    for case in ({"batch": 8}, {"concurrency": 32}, {"batch": 1, "osl": 1}):
        predictions = [rl.predict(MODEL, GPU, isl=1500, **{"osl": 100, **case}, power_cap=cap) for cap in caps]
        for faster, slower in pairwise(predictions):
            assert slower.ttft >= faster.ttft
            assert slower.tpot is None or slower.tpot >= faster.tpot
            assert slower.ideal[0].time == pytest.approx(faster.ideal[0].time, rel=1e-12) or case == {"concurrency": 32}
            assert slower.ttft >= slower.ideal[0].time
        for prediction, cap in zip(predictions, caps, strict=True):
            energy = prediction.energy
            for power in (energy.power, energy.prefill_power, energy.decode_power, energy.power_range[1]):
                assert power <= (MOST * 700.0 if cap is None else cap) * (1.0 + 1e-12)
        assert predictions[-1].ttft > 1.2 * predictions[0].ttft


def test_a_cap_slows_arithmetic_and_hardly_decode():
    free, capped = (rl.predict(MODEL, GPU, isl=4000, osl=200, power_cap=cap) for cap in (None, "60%"))
    assert capped.ttft / free.ttft > 1.15
    assert capped.tpot / free.tpot < 1.02
    assert capped.energy.per_output_token < free.energy.per_output_token


@pytest.mark.parametrize("cap", ["700W", "100%", 700, 700.0, "0.7 kW"])
def test_a_cap_at_the_tdp_is_none_to_the_bit(cap):
    free = rl.predict(MODEL, GPU, isl=1000, osl=50, concurrency=8)
    assert rl.predict(MODEL, GPU, isl=1000, osl=50, concurrency=8, power_cap=cap).to_dict() == free.to_dict()


def test_programs_arrays_and_formulas_agree_under_a_cap():
    lengths = [200 + 10 * place for place in range(80)]  # enough for a program of arrays, and for one of floats
    rows = rl.predict(MODEL, GPU, isl=np.array(lengths, dtype=float), osl=50, batch=4, power_cap="45%", tp=1)
    for place in (0, 40, 79):
        alone = rl.predict(MODEL, GPU, isl=lengths[place], osl=50, batch=4, power_cap="45%", tp=1)
        assert rows.ttft[place] == pytest.approx(alone.ttft, rel=1e-12)
        assert rows.energy.power[place] == pytest.approx(alone.energy.power, rel=1e-12)
    for isl in lengths:
        alone = rl.predict(MODEL, GPU, isl=isl, osl=50, batch=4, power_cap="45%", tp=1)
    assert rows.ttft[-1] == pytest.approx(alone.ttft, rel=1e-12)
    assert rows.energy.per_request[-1] == pytest.approx(alone.energy.per_request, rel=1e-12)


def test_the_cap_of_a_target_meets_it():
    case = {"isl": 2000, "osl": 50}
    found = rl.solve(MODEL, GPU, "power_cap", ttft=0.06, power_cap="500W", **case)
    assert rl.predict(MODEL, GPU, power_cap=700.0 * found.value, **case).ttft == pytest.approx(0.06, rel=1e-6)


def test_boards_unlike_those_measured_are_bounded():
    names = {name: rl.load_gpu(name) for name in ("h100-sxm", "h200-sxm", "b200", "h20", "gh200-96gb", "mi300x", "l4")}
    assert [name for name, gpu in names.items() if is_measured(gpu)] == ["h100-sxm", "h200-sxm", "b200"]
    assert not is_measured(replace(names["b200"], power=None))
