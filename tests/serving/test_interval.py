"""The 80 % interval around an answer: as wide as the evidence is thin."""

import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import SAMPLE_GPUS, close, deploy
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.passes import Pass, decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.serving.verdict import HALF_WIDTH, pass_sigma, spread
from roofline.specs.gpu import ATTENTION_PREFILL

SMALL = ("llama-3.1-8b", "h100-sxm")
CASE = {"isl": 2000, "osl": 300, "batch": 8}
RESULTS = ("ttft", "tpot", "e2el")


def width(prediction, result="tpot"):
    """High end of an interval over its low end."""
    low, high = getattr(prediction, f"{result}_interval")
    return high / low


def sigma(deployment, basis="calibrated", whole=0.1):
    return pass_sigma(prefill_pass(deployment, 4.0, 1000.0), basis, whole)


def with_kernel_sigma(deployment, value):
    """The deployment with one residual for all measured kernels of its calibration."""
    calibration = deployment.gpu.calibration
    kernels = {key: replace(entry, sigma=value) for key, entry in calibration.kernels.items()}
    return replace(deployment, gpu=replace(deployment.gpu, calibration=replace(calibration, kernels=kernels)))


# --- ends --------------------------------------------------------------------------------------


def test_the_half_width_is_that_of_an_interval_which_holds_four_of_five():
    assert math.erf(HALF_WIDTH / math.sqrt(2.0)) == pytest.approx(0.8, abs=1e-4)


@given(time=st.floats(1e-6, 1e3), deviation=st.floats(0.0, 2.0))
def test_the_ends_lie_as_far_below_as_above_in_logarithms(time, deviation):
    low, high = spread(time, deviation)
    assert low <= time <= high
    assert close(low * high, time * time)
    assert math.log(high / time) == pytest.approx(HALF_WIDTH * deviation, abs=1e-12)


@each("gpu", SAMPLE_GPUS)
@each("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3.2"])
@each("engine", ["generic", "none", "trtllm-0.9"])
def test_an_answer_lies_inside_its_interval(model, gpu, engine):
    found = rl.predict(model, gpu, engine=engine, allow_oversize=True, **CASE)
    for result in RESULTS:
        low, high = getattr(found, f"{result}_interval")
        assert 0.0 < low < getattr(found, result) < high
    for result in ("ttft", "tpot"):
        low, high = getattr(found, f"{result}_interval")
        light = found.ideal[0 if result == "ttft" else 1].time  # no end is faster than the hardware limit
        assert low == light or close(low * high, getattr(found, result) ** 2)
        assert low >= light


def test_the_ends_of_a_request_are_those_of_its_first_token_and_of_all_others_and_a_row_has_them_in_ms():
    found = rl.predict(*SMALL, **CASE)
    for end, name in enumerate(("low", "high")):
        assert close(found.e2el_interval[end], found.ttft_interval[end] + 299 * found.tpot_interval[end])
        in_ms = {f"{result}_{name}_ms": getattr(found, f"{result}_interval")[end] * 1e3 for result in RESULTS}
        assert found.to_dict(list(in_ms)) == pytest.approx(in_ms, rel=1e-12)


# --- where there is none -----------------------------------------------------------------------


def test_light_speed_is_a_bound_and_has_no_interval():
    found = rl.predict(*SMALL, basis="ideal", **CASE)
    assert (found.ttft_interval, found.tpot_interval, found.e2el_interval) == (None, None, None)
    row = found.to_dict()
    assert all(row[f"{result}_{end}_ms"] is None for result in RESULTS for end in ("low", "high"))
    assert "[" not in str(found)


def test_a_single_token_has_an_interval_of_its_first_token_and_of_all_of_it():
    found = rl.predict(*SMALL, isl=2000, osl=1)
    assert found.tpot_interval is None
    assert found.e2el_interval == found.ttft_interval
    assert found.to_dict()["tpot_low_ms"] is None


# --- how wide ----------------------------------------------------------------------------------


@each("result", RESULTS)
@each("engine", ["none", "generic"])
def test_the_further_the_evidence_the_wider_the_interval(result, engine):
    calibrated, inherited, generic = (
        rl.predict("llama-3.1-8b", gpu, engine=engine, **CASE) for gpu in ("h100-sxm", "h200-sxm", "mi300x")
    )
    assert [p.basis for p in (calibrated, inherited, generic)] == ["calibrated", "inherited", "generic"]
    assert width(calibrated, result) < width(inherited, result) < width(generic, result)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"])
def test_the_same_pass_is_less_certain_on_another_gpu_of_the_generation_and_least_on_a_strange_one(model):
    deployment = deploy(model, "h100-sxm", Plan(tp=8))
    assert sigma(deployment) < sigma(deployment, "inherited") < sigma(deployment, "generic")


@given(first=st.floats(0.01, 1.0), more=st.floats(0.01, 1.0))
def test_kernels_further_off_their_measurements_make_a_pass_less_certain(first, more):
    deployment = deploy(*SMALL)
    near, far = (sigma(with_kernel_sigma(deployment, value)) for value in (first, first + more))
    assert 0.1 < near < far
    assert sigma(with_kernel_sigma(deployment, None)) > sigma(
        deployment
    )  # assumed constants, of which nothing is known


def test_whole_passes_and_kernels_are_off_independently():
    # Kernels that are never off leave what whole passes are off by; of both, the squares add up.
    exact, off = (with_kernel_sigma(deploy(*SMALL), value) for value in (0.0, 0.3))
    assert close(sigma(exact, whole=0.2), 0.2)
    assert close(sigma(off, whole=0.2) ** 2 - sigma(off, whole=0.1) ** 2, 0.2**2 - 0.1**2)


def test_kernels_of_two_kinds_are_off_independently_and_of_one_kind_together():
    passed = prefill_pass(with_kernel_sigma(deploy(*SMALL), 0.3), 4.0, 1000.0)
    (qkv,) = (kernel for kernel in passed.kernels if kernel.name == "qkv")
    twin = qkv._replace(name="twin")
    other = qkv._replace(name="other", kind=ATTENTION_PREFILL)
    alone, together, apart = (
        pass_sigma(Pass(kernels), "calibrated", 0.0) for kernels in ((qkv,), (qkv, twin), (qkv, other))
    )
    assert alone > 0.0
    assert close(together, alone)
    assert close(apart, alone / math.sqrt(2.0))


def test_latent_attention_is_less_certain_than_dense_layers_of_the_same_kernels():
    dense, latent = (
        decode_pass(with_kernel_sigma(deploy(model, "b200", Plan(tp=8)), 0.0), 8.0, 1000.0)
        for model in ("llama-3.1-70b", "deepseek-v3")
    )
    assert pass_sigma(dense, "calibrated", 0.1) < pass_sigma(latent, "calibrated", 0.1)


def test_an_answer_that_is_mostly_host_is_less_certain_than_its_kernels():
    served, kernels = (rl.predict(*SMALL, engine=name, isl=16, osl=2) for name in ("sglang", "none"))
    assert served.ttft > 5.0 * kernels.ttft
    assert width(served, "ttft") > width(kernels, "ttft")


# --- arrays ------------------------------------------------------------------------------------


def test_the_intervals_of_a_sweep_are_those_of_its_cases():
    isl, batch = np.array([[500], [4000]]), np.array([[1, 16, 64]])
    over = rl.predict(*SMALL, isl=isl, batch=batch, osl=100, tp=1)
    for place in np.ndindex(2, 3):
        single = rl.predict(*SMALL, isl=int(isl[place[0], 0]), batch=int(batch[0, place[1]]), osl=100, tp=1)
        for result in RESULTS:
            for end in (0, 1):
                found = np.broadcast_to(getattr(over, f"{result}_interval")[end], (2, 3))[place]
                assert close(found, getattr(single, f"{result}_interval")[end])


def test_the_interval_of_a_case_that_does_not_fit_or_has_no_further_token_is_no_number():
    over = rl.predict(*SMALL, isl=1000, osl=[1, 100, 100], batch=[1, 10**6, 4], tp=1)
    assert np.isnan(over.ttft_interval[0]).tolist() == [False, True, False]
    assert np.isnan(over.tpot_interval[1]).tolist() == [True, True, False]
    assert over.to_dict()["tpot_low_ms"][:2] == [None, None]


# --- the interval holds its value ----------------------------------------------------------------


@given(
    network=st.sampled_from([0.0, 1e-6, 0.08, 1.0]),
    share=st.floats(0.0, 1.0),
    isl=st.lists(st.integers(1, 200_000), min_size=1, max_size=3),
    osl=st.integers(1, 2000),
    engine=st.sampled_from(["none", "generic", "vllm"]),
    gpu=st.sampled_from(["h100-sxm", "mi300x"]),
)
def test_every_interval_holds_its_value_measured_or_not_at_one_case_or_many(network, share, isl, osl, engine, gpu):
    case = {"osl": osl, "engine": engine, "network": network, "allow_oversize": True}
    at = {"isl": 3000, "osl": 200, "batch": 1}
    one = rl.predict("llama-3.1-8b", gpu, **{**case, **at})
    light = one.ideal[0].time + network, one.ideal[1].time
    measured = {  # from the hardware limit to three times the prediction
        "ttft": light[0] * (1.0 + 1e-12) + share * 2.0 * one.ttft,
        "tpot": light[1] * (1.0 + 1e-12) + share * 2.0 * one.tpot,
        **at,
    }
    for lengths in (isl, isl[0]):
        for given_ in (None, measured):
            found = rl.predict("llama-3.1-8b", gpu, isl=lengths, measured=given_, **case)
            for result in ("ttft", "tpot", "e2el"):
                time, ends = getattr(found, result), getattr(found, f"{result}_interval")
                if time is not None:
                    assert np.all((ends[0] <= time) & (time <= ends[1])), (result, given_)
            assert np.all(found.ttft >= found.ideal[0].time + network)
            assert np.all(found.ttft_interval[0] >= found.ideal[0].time)


def test_a_measured_first_token_faster_than_the_network_is_refused():
    for ttft in (0.03, 0.08, 0.0801):
        with pytest.raises(rl.BadInput, match=r"measured ttft = .* less than the network's round trip of 80 ms"):
            rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, network=0.08, measured={"ttft": ttft})
    low, high = rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, network=0.08, measured={"ttft": 0.12}).ttft_interval
    assert 0.08 < low < 0.12 < high
