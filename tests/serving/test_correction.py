"""One measurement of a deployment: met exactly where it was taken, carried over to the other points."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import close
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.serving.latency import SIGMA_TPOT, SIGMA_TTFT, UNCORRECTED

SMALL = ("llama-3.1-8b", "h100-sxm")
CASE = {"isl": 2000, "osl": 300}


def width(interval):
    return math.log(interval[1] / interval[0])


# --- at its own point --------------------------------------------------------------------------


@given(
    isl=st.integers(1, 8000),
    osl=st.integers(2, 500),
    batch=st.integers(1, 64),
    prefix=st.floats(0.0, 1.0),
    slower=st.tuples(st.floats(1.0, 20.0), st.floats(1.0, 20.0)),
    engine=st.sampled_from(("none", "generic", "vllm")),
)
def test_a_measurement_is_met_exactly_where_it_was_taken(isl, osl, batch, prefix, slower, engine):
    at = {"isl": isl, "osl": osl, "batch": batch, "prefix": int(prefix * (isl - 1))}
    light = rl.predict(*SMALL, **at, basis="ideal", tp=1, allow_oversize=True)
    measured = {"ttft": light.ttft * slower[0] * 1.0001, "tpot": light.tpot * slower[1] * 1.0001}
    found = rl.predict(*SMALL, **at, engine=engine, measured=measured, tp=1, allow_oversize=True)
    assert close(found.ttft, measured["ttft"])
    assert close(found.tpot, measured["tpot"])
    assert close(found.e2el, measured["ttft"] + (osl - 1) * measured["tpot"])
    stated = rl.predict(*SMALL, **at, engine=engine, measured=measured | at, tp=1, allow_oversize=True)
    assert close(stated.ttft, found.ttft)  # where it was measured is said
    assert close(stated.tpot, found.tpot)


# --- elsewhere ---------------------------------------------------------------------------------


@each("batch", [1, 8, 64])
@each("isl", [100, 2000, 20_000])
def test_other_points_are_scaled_by_the_same_factors(isl, batch):
    plain = rl.predict(*SMALL, isl=2000, osl=300, batch=16, tp=1)
    measured = {"ttft": 1.5 * plain.ttft, "tpot": 1.2 * plain.tpot, "isl": 2000, "osl": 300, "batch": 16}
    before = rl.predict(*SMALL, isl=isl, osl=50, batch=batch, tp=1, allow_oversize=True)
    after = rl.predict(*SMALL, isl=isl, osl=50, batch=batch, tp=1, allow_oversize=True, measured=measured)
    assert after.ttft == pytest.approx(1.5 * before.ttft, rel=1e-12)
    assert after.tpot == pytest.approx(1.2 * before.tpot, rel=1e-12)


def test_what_was_not_measured_stays():
    plain = rl.predict(*SMALL, **CASE)
    first, step = (rl.predict(*SMALL, **CASE, measured=measured) for measured in ({"ttft": 0.3}, {"tpot": 0.02}))
    assert (first.ttft, first.tpot) == (pytest.approx(0.3), plain.tpot)
    assert (step.ttft, step.tpot) == (plain.ttft, pytest.approx(0.02))
    assert first.tpot_interval == plain.tpot_interval
    assert plain.correction == UNCORRECTED
    assert replace(step, correction=UNCORRECTED).tpot == plain.tpot  # it can be asked again without it
    assert "measured" not in str(plain)
    assert re.search(r"measured(.|\n)*TPOT x\s+[\d.]+", str(step))


def test_a_correction_never_makes_an_answer_faster_than_the_hardware_limit():
    # Measured at the hardware limit where the host weighs most, the same factor would be too much elsewhere.
    light = rl.predict(*SMALL, isl=16, osl=2, basis="ideal")
    measured = {"ttft": light.ttft * 1.001, "tpot": light.tpot * 1.001, "isl": 16, "osl": 2}
    for isl in (16, 500, 8000):
        found = rl.predict(*SMALL, isl=isl, osl=100, measured=measured)
        bound = rl.predict(*SMALL, isl=isl, osl=100, basis="ideal")
        assert found.ttft >= bound.ttft
        assert found.tpot >= bound.tpot
    assert found.ttft == bound.ttft  # 8000 tokens: the factor alone would be below


def test_the_factors_are_measured_over_predicted():
    plain = rl.predict(*SMALL, **CASE, batch=16)
    measured = {"ttft": 2.0 * plain.ttft, "tpot": 1.1 * plain.tpot, "batch": 16}
    found = rl.calibrate_once(*SMALL, measured, **CASE)
    assert (found.ttft, found.tpot) == pytest.approx((2.0, 1.1), rel=1e-12)
    predicted = rl.predict(*SMALL, **CASE, measured=measured).correction
    assert tuple(predicted) == pytest.approx(tuple(found), rel=1e-12)


def test_the_slo_knee_is_that_of_the_times_that_the_answer_states():
    at = {**CASE, "tp": 1}
    plain = rl.predict(*SMALL, **at, batch=8)
    measured = {"tpot": 1.5 * plain.tpot, "batch": 8}
    limit = {"tpot": 1.4 * plain.tpot}  # met at a batch of 8 before the measurement, and not after it
    assert rl.predict(*SMALL, **at, slo=limit).knees.slo >= 8
    knee = rl.predict(*SMALL, **at, slo=limit, measured=measured).knees.slo
    assert knee < 8
    if knee:
        assert rl.predict(*SMALL, **at, batch=int(knee), measured=measured).tpot <= limit["tpot"]


# --- intervals ---------------------------------------------------------------------------------


@each("gpu", ["h100-sxm", "h200-sxm", "mi300x", "l40s"])
@each("batch", [1, 64])
def test_a_measurement_narrows_the_interval_or_leaves_it(gpu, batch):
    plain = rl.predict("llama-3.1-8b", gpu, batch=batch, tp=1, **CASE)
    measured = {"ttft": 1.5 * plain.ttft, "tpot": 1.5 * plain.tpot}
    found = rl.predict("llama-3.1-8b", gpu, batch=batch, tp=1, measured=measured, **CASE)
    for result in ("ttft", "tpot"):
        before, after = (width(getattr(answer, f"{result}_interval")) for answer in (plain, found))
        assert after <= before * (1.0 + 1e-12)
        low, high = getattr(found, f"{result}_interval")
        assert close(low * high, getattr(found, result) ** 2)


def test_on_a_gpu_that_nobody_timed_a_measurement_narrows_the_interval_much():
    plain = rl.predict("llama-3.1-8b", "mi300x", **CASE)
    found = rl.predict("llama-3.1-8b", "mi300x", measured={"ttft": 0.2, "tpot": 0.01}, **CASE)
    assert width(found.tpot_interval) < 0.5 * width(plain.tpot_interval)
    assert width(found.ttft_interval) < width(plain.ttft_interval)
    assert 0.0 < SIGMA_TPOT < SIGMA_TTFT < 0.5


# --- refused -----------------------------------------------------------------------------------

NONSENSE = [
    {}, 5, "tpot:12", [("tpot", 0.012)], {"batch": 8}, {"e2el": 1.0}, {5: 0.02, "tpot": 0.02}, {"ttft": 0.1, "tpot": 0},
    *({"tpot": time} for time in (0, -0.02, math.nan, math.inf, True, "0.02", None, [0.02], 10**400)),
    *({"tpot": 0.02, **more} for more in ({"e2el": 1.0}, {"tp": 2}, {"isl": 0.5}, {"prefix": 5000}, {"prefix": 0.8})),
    *({"tpot": 0.02, "batch": batch} for batch in (0, -1, "eight")),
]  # fmt: skip


@each("measured", NONSENSE, ids=lambda value: repr(value)[:40])
def test_what_is_no_measurement_is_refused_in_one_message(measured):
    with pytest.raises(rl.BadInput) as caught:
        rl.predict(*SMALL, **CASE, measured=measured)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "measured", [{"ttft": 1e-3}, {"tpot": 1e-4}, {"ttft": 0.1, "tpot": 1e-4}, {"tpot": 0.01, "batch": 10**5}]
)
def test_a_measurement_that_is_faster_than_the_hardware_limit_is_refused_with_the_time_at_that_limit(measured):
    said = r"measured t\w+ = .* is below the hardware limit of [\d.]+ m?s; check its unit, load, lengths"
    with pytest.raises(rl.BadInput, match=said):
        rl.predict(*SMALL, **CASE, measured=measured)


@pytest.mark.parametrize("result", ["ttft", "tpot"])
def test_a_measurement_a_little_slower_than_the_hardware_limit_is_taken(result):
    light = getattr(rl.predict(*SMALL, **CASE, basis="ideal"), result)
    found = rl.predict(*SMALL, **CASE, measured={result: light * 1.000001})
    assert getattr(found, result) == pytest.approx(light, rel=1e-5)
    with pytest.raises(rl.BadInput, match=f"measured {result} = .* is below the hardware limit of "):
        rl.predict(*SMALL, **CASE, measured={result: light * 0.999})


# --- columns -----------------------------------------------------------------------------------


def test_a_measurement_scales_every_case_of_a_column():
    measured = {"ttft": 0.5, "tpot": 0.02, "isl": 2000, "osl": 300, "batch": 8}
    over = rl.predict(*SMALL, isl=np.array([500, 2000, 9000]), osl=300, batch=8, tp=1, measured=measured)
    for place, isl in enumerate((500, 2000, 9000)):
        single = rl.predict(*SMALL, isl=isl, osl=300, batch=8, tp=1, measured=measured)
        assert close(over.ttft[place], single.ttft)
        assert close(over.tpot[place], single.tpot)
        assert close(over.tpot_interval[1][place], single.tpot_interval[1])
    assert close(over.ttft[1], 0.5)
