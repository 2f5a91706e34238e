"""A prediction over arrays is, element by element, the prediction of each case."""

import math

import numpy as np
import pytest
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.numbers.arrays import as_array

DEPLOYMENTS = {
    "dense": ("llama-3.1-8b", "h100-sxm", {}),
    "dense, ideal": ("llama-3.1-70b", "b200", {"tp": 2, "basis": "ideal"}),
    "windows": ("gemma-3-27b", "h200-sxm", {"tp": 2}),
    "experts": ("mixtral-8x7b", "h200-sxm", {"tp": 2, "quantization": "fp8"}),
    "experts, uniform, windows": ("gpt-oss-120b", "b200", {"tp": 1, "routing": "uniform"}),
    "latent": ("deepseek-v3", "b200", {"tp": 8}),
    "latent, spread": ("deepseek-v3", "b200", {"tp": 2, "dp": 4, "ep": 8, "basis": "ideal"}),
    "stages": ("llama-3.1-405b", "h200-sxm", {"tp": 8, "pp": 2}),
}
WORKLOADS = {
    "isl": {"isl": [1, 128, 1000, 8192, 30000]},
    "osl": {"osl": [1, 2, 129, 4000]},
    "batch": {"batch": [1, 2, 17, 64, 300]},
    "prefix": {"isl": 4096, "prefix": [0, 1, 2048, 4000, 4096]},
    "broadcast": {"isl": [[200], [3000]], "batch": [1, 8, 40], "osl": 64},
    "together": {"isl": [4, 900, 2000], "osl": [1, 20, 300], "batch": [3, 2, 1], "prefix": [4, 100, 1999]},
}
SLO = {"ttft": 0.5, "tpot": 0.02, "e2el": 20.0}

every_deployment = each("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)
every_workload = each("lengths", WORKLOADS.values(), ids=WORKLOADS)


def swept(deployment, lengths, slo):
    """The prediction over arrays, and the one of each case where it fits."""
    model, gpu, options = deployment
    arrays = {name: np.array(values) for name, values in lengths.items()}
    shape = np.broadcast_shapes(*(values.shape for values in arrays.values()))
    over = rl.predict(model, gpu, slo=slo, **arrays, **options)
    cases = {}
    for index in np.ndindex(shape):
        single = {name: float(np.broadcast_to(values, shape)[index]) for name, values in arrays.items()}
        try:
            cases[index] = rl.predict(model, gpu, slo=slo, **single, **options)
        except rl.DoesNotFit:
            cases[index] = None
    assert any(found is not None for found in cases.values())
    return over, shape, cases


def same(element, single):
    if isinstance(single, str):
        return element == single
    if single is None:
        return math.isnan(element)
    return math.isclose(element, single, rel_tol=1e-12)


FIGURES = ("ttft", "tpot", "itl", "e2el", "output_tok_s", "output_tok_s_gpu", "tok_s_user")


@every_deployment
@every_workload
def test_figures_memory_bounds_knees_and_kernels_of_a_sweep_are_those_of_its_cases(deployment, lengths):
    over, shape, cases = swept(deployment, lengths, SLO)
    for figure in FIGURES:
        values = np.broadcast_to(getattr(over, figure), shape)
        for index, single in cases.items():
            assert same(values[index], None if single is None else getattr(single, figure)), (figure, index)
    for index, single in cases.items():
        assert np.broadcast_to(over.fits, shape)[index] == (single is not None)
        if single is None:
            continue
        for share in ("weights", "kv_cache", "activations", "reserve", "usable", "used", "used_fraction"):
            assert same(np.broadcast_to(getattr(over.memory, share), shape)[index], getattr(single.memory, share))
        for phase, bound in single.bound.items():
            assert np.broadcast_to(over.bound[phase], shape)[index] == bound
        for knee in ("ridge", "half", "memory", "slo"):
            element = np.broadcast_to(getattr(over.knees, knee), shape)[index]
            # Roots are searched for to a few parts in 10^13.
            assert math.isclose(element, getattr(single.knees, knee), rel_tol=2e-12), (knee, index)
        assert same(np.broadcast_to(over.knee_bound, shape)[index], single.knee_bound)
        for phase, kernels in single.breakdown.items():
            for name, time in kernels.items():
                assert same(np.broadcast_to(over.breakdown[phase][name], shape)[index], time), (phase, name)


@given(
    isl=st.lists(st.integers(1, 20_000), min_size=1, max_size=5),
    osl=st.integers(1, 3000),
    batch=st.integers(1, 64),
    basis=st.sampled_from(("ideal", "calibrated")),
)
def test_any_sweep_over_prompts_is_that_of_its_cases(isl, osl, batch, basis):
    options = {"osl": osl, "batch": batch, "basis": basis, "tp": 2}
    over = rl.predict("gpt-oss-20b", "h200-sxm", isl=np.array(isl), **options)
    for position, length in enumerate(isl):
        single = rl.predict("gpt-oss-20b", "h200-sxm", isl=length, **options)
        assert same(over.ttft[position], single.ttft)
        assert same(over.e2el[position], single.e2el)


def test_a_scalar_is_a_single_case_whole_numbers_become_floats_and_what_does_not_fit_is_no_number():
    over = rl.predict("llama-3.1-8b", "h100-sxm", isl=np.array([1000, 100_000]), batch=64, tp=1)
    assert over.fits.tolist() == [True, False]
    assert math.isfinite(over.ttft[0])
    assert math.isnan(over.ttft[1])
    assert math.isnan(over.e2el[1])
    whole = as_array("isl", np.array([2**40]))
    assert whole.dtype == np.float64
    assert (whole * whole)[0] == 2.0**80
    over = rl.predict("llama-3.1-8b", "h100-sxm", isl=np.array([100, 200], dtype=np.int16))
    assert same(over.ttft[1], rl.predict("llama-3.1-8b", "h100-sxm", isl=200).ttft)
    found = rl.predict("llama-3.1-8b", "h100-sxm", isl=np.int64(700), batch=np.float32(4))
    assert type(found.ttft) is float
    assert found.ttft == rl.predict("llama-3.1-8b", "h100-sxm", isl=700, batch=4).ttft


def test_what_is_no_array_of_numbers_is_refused():
    for value in [np.array([]), np.array(["a"]), np.array([None]), [[1], [2, 3]], object()]:
        with pytest.raises(rl.BadInput, match="isl"):
            rl.predict("llama-3.1-8b", "h100-sxm", isl=value)
    for value in [[1.0, math.nan], [0.0], [-1.0, 5.0], [math.inf]]:
        with pytest.raises(rl.BadInput, match="isl"):
            rl.predict("llama-3.1-8b", "h100-sxm", isl=np.array(value))
    with pytest.raises(rl.BadInput, match="broadcast"):
        rl.predict("llama-3.1-8b", "h100-sxm", isl=np.array([1, 2, 3]), batch=np.array([1, 2]))
