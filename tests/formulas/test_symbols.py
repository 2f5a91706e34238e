"""Passes run on symbols; giving the symbols values gives the result in floats."""

import math
from functools import lru_cache

import pytest
import sympy
import tiers
from conftest import calibrations, deploy
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline.formulas.closed  # noqa: F401  registers sympy's numbers
from roofline.physics.equation import Roof, Work, kernel_time
from roofline.physics.kernels import pairs
from roofline.physics.layers.networks import distinct_experts
from roofline.physics.memory import largest_batch, memory
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.serving.latency import Workload, decode, e2el, prefill
from roofline.specs.load import Burst

ISL, OSL, BATCH, PREFIX = sympy.symbols("isl osl batch prefix", positive=True)
DEPLOYMENTS = {
    "dense": ("llama-3.1-70b", "b200", Plan(tp=4, pp=2)),
    "experts, windows": ("gpt-oss-120b", "b200", Plan()),
    "latent, spread": ("deepseek-v3", "h200-sxm", Plan(tp=2, dp=4, ep=8)),
}
CASES = ({ISL: 1000.0, OSL: 200.0, BATCH: 3.0, PREFIX: 17.0}, {ISL: 5000.0, OSL: 2.0, BATCH: 40.0, PREFIX: 4990.0})

every_deployment = pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)
every_basis = pytest.mark.parametrize("basis", ["ideal", "calibrated"])


@lru_cache(maxsize=32)
def compiled(expression, symbols):
    return sympy.lambdify(symbols, expression, "math")


def number(expression, values):
    """The value that an expression takes; compiled, which is quicker than `subs`."""
    return float(compiled(sympy.sympify(expression), tuple(values))(*values.values()))


def assert_same(symbolic, numeric, values):
    assert math.isclose(number(symbolic, values), float(numeric), rel_tol=1e-12)


@every_deployment
@every_basis
def test_passes_on_symbols_are_the_passes_on_floats_once_they_have_values(deployment, basis):
    model, gpu, plan = deployment
    where = deploy(model, gpu, plan, basis=basis)
    symbolic = decode_pass(where, BATCH, ISL, OSL)
    assert symbolic.time.free_symbols == {ISL, OSL, BATCH}
    for values in CASES:
        numeric = decode_pass(where, values[BATCH], values[ISL], values[OSL])
        assert_same(symbolic.time, numeric.time, values)
        assert_same(symbolic.flop, numeric.flop, values)
        assert_same(symbolic.nbytes, numeric.nbytes, values)
    symbolic, after_prefix = prefill_pass(where, BATCH, ISL), prefill_pass(where, BATCH, ISL - PREFIX, PREFIX)
    for values in CASES:
        assert_same(symbolic.time, prefill_pass(where, values[BATCH], values[ISL]).time, values)
        numeric = prefill_pass(where, values[BATCH], values[ISL] - values[PREFIX], values[PREFIX])
        assert_same(after_prefix.time, numeric.time, values)
        assert_same(after_prefix.flop, numeric.flop, values)


@every_deployment
def test_requests_and_memory_on_symbols_are_those_in_floats(deployment):
    where = deploy(*deployment)
    workload = Workload(ISL, OSL, Burst(BATCH), PREFIX)
    symbolic = e2el(prefill(where, workload).time, decode(where, workload).time, OSL)
    for values in CASES:
        plain = Workload(values[ISL], values[OSL], Burst(values[BATCH]), values[PREFIX])
        numeric = e2el(prefill(where, plain).time, decode(where, plain).time, plain.osl)
        assert_same(symbolic, numeric, values)
    used, most = memory(where, BATCH, ISL).used, largest_batch(where, ISL)
    for values in CASES:
        assert_same(used, memory(where, values[BATCH], values[ISL]).used, values)
        assert_same(most, largest_batch(where, values[ISL]), values)


FLOP, NBYTES, PEAK, BANDWIDTH = sympy.symbols("flop nbytes peak bandwidth", positive=True)
amounts = st.floats(1e3, 1e15)


@settings(max_examples=tiers.times(3, 8))  # compiling an expression takes a while
@given(
    calibration=calibrations(),
    flop=amounts,
    nbytes=amounts,
    peak=st.floats(1e13, 1e16),
    bandwidth=st.floats(1e11, 1e13),
)
def test_the_one_equation_runs_on_symbols_of_work_and_of_rates(calibration, flop, nbytes, peak, bandwidth):
    values = {FLOP: flop, NBYTES: nbytes, PEAK: peak, BANDWIDTH: bandwidth}
    for kind in ("gemm", "moe", "attention_prefill"):
        efficiency = calibration.kernels[kind, "bf16"]
        work = Work(flop=FLOP, weight_bytes=NBYTES, serial_bytes=NBYTES, exponentials=FLOP, depth=4096.0)
        plain = Work(flop=flop, weight_bytes=nbytes, serial_bytes=nbytes, exponentials=flop, depth=4096.0)
        symbolic = kernel_time(work, Roof(PEAK, BANDWIDTH, 4e12, efficiency))
        assert_same(symbolic.total, kernel_time(plain, Roof(peak, bandwidth, 4e12, efficiency)).total, values)
    light = kernel_time(Work(flop=FLOP, weight_bytes=NBYTES), Roof.ideal(PEAK, BANDWIDTH)).total
    assert_same(light, max(flop / peak, nbytes / bandwidth), values)


def test_sympy_differentiates_a_pass_and_forms_are_readable():
    where = deploy("llama-3.1-8b", "h100-sxm")
    slope = sympy.diff(decode_pass(where, BATCH, 1000.0).time, BATCH)
    step = 1e-3
    high, low = (decode_pass(where, 8.0 + change, 1000.0).time for change in (step, -step))
    # A central difference of a smooth function: off by the square of the step, and by rounding over it.
    assert math.isclose(number(slope, {BATCH: 8.0}), (high - low) / (2.0 * step), rel_tol=1e-6)
    full = deploy("llama-3.1-8b", "h100-sxm").model.groups[0].layers[0].mixer
    assert sympy.simplify(sympy.nsimplify(pairs(ISL, PREFIX, full)) - (ISL * PREFIX + ISL * (ISL + 1) / 2)) == 0
    sparse = deploy("mixtral-8x7b", "h100-sxm").model.groups[0].layers[0].ffn
    assert math.isclose(number(distinct_experts(sparse, BATCH, None), {BATCH: 2.0}), 8 * (1 - 0.75**2), rel_tol=1e-12)
