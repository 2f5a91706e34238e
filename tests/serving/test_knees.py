"""The batch at which decode stops being cheap."""

import math
from dataclasses import replace

import pytest
from conftest import SAMPLE_GPUS, close, deploy, deployments, faster, models, with_shorter_latencies
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.memory import largest_batch, memory
from roofline.physics.passes import decode_pass
from roofline.physics.plan import Plan
from roofline.serving import knee
from roofline.serving.knee import LARGEST_BATCH, Knees, half_knee, ridge_knee

DENSE = ("llama-3.1-8b", "llama-3.1-70b", "gemma-3-27b", "qwen3-32b", "llama-2-7b")
SPARSE = ("mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3")

# Roots are searched for to a few parts in 10^13.
ROOT = 2e-12


def step_of(deployment, context=1000.0, steps=127.0):
    return lambda batch: decode_pass(deployment, batch, context, steps)


def test_the_knees_of_a_case_compute_no_step_twice(monkeypatch):
    asked = []
    deployment = rl.predict("llama-3.1-8b", "h100-sxm").deployment
    monkeypatch.setattr(knee, "decode_pass", lambda *numbers: asked.append(numbers[1]) or decode_pass(*numbers))
    assert knee.knees(deployment, 1000.0, 128.0).half > 1.0
    assert len(asked) == len(set(asked)) > 5


def sides(passed):
    """Time of the weight-bearing kernels for arithmetic alone, and for HBM traffic alone."""
    bearing = [(kernel.count, kernel.terms) for kernel in passed.kernels if kernel.kind.bears_weights]
    return sum(count * terms.compute for count, terms in bearing), sum(count * terms.memory for count, terms in bearing)


# --- ridge --------------------------------------------------------------------------------------


@each("gpu", SAMPLE_GPUS)
@each("name", DENSE)
def test_at_the_ridge_knee_weights_take_as_long_to_read_as_to_multiply(name, gpu):
    step = step_of(deploy(name, gpu, basis="ideal"))
    assert close(*sides(step(ridge_knee(step, affine=True))), 1e-11)  # a difference of two nearly equal sums was solved


def assert_never_bound_by_compute(step):
    compute, memory_side = sides(step(LARGEST_BATCH))
    assert compute < memory_side


@each("gpu", ["h100-sxm", "h200-sxm", "b200"])
@each("name", SPARSE)
def test_at_the_ridge_knee_experts_take_as_long_to_move_as_to_multiply(name, gpu):
    step = step_of(deploy(name, gpu, basis="ideal", routing_skew=None))
    knee = ridge_knee(step, affine=False)
    if math.isfinite(knee):
        assert close(*sides(step(knee)), 1e-9)
    else:
        assert_never_bound_by_compute(step)


@given(deployment=deployments(models()))
def test_weight_bearing_kernels_turn_from_memory_to_compute_at_the_ridge_knee(deployment):
    step = step_of(replace(deployment, plan=Plan(tp=deployment.plan.tp), basis="ideal"))
    knee = ridge_knee(step, affine=not deployment.model.is_moe)
    if math.isfinite(knee) and knee > 1.0 / LARGEST_BATCH:
        below, above = sides(step(0.99 * knee)), sides(step(1.01 * knee))
        assert below[0] < below[1]
        assert above[0] > above[1]
    else:
        assert_never_bound_by_compute(step)


@each("basis", ["ideal", "calibrated"])
@each("gpu", SAMPLE_GPUS)
@each("name", DENSE)
def test_the_closed_form_of_the_ridge_knee_is_the_root_that_a_search_finds(name, gpu, basis):
    step = step_of(deploy(name, gpu, Plan(tp=2), basis=basis))
    assert close(ridge_knee(step, affine=True), ridge_knee(step, affine=False), ROOT)


def test_the_ridge_knee_of_pure_weights_is_the_ridge_of_the_machine():
    # bf16: 2 FLOP and 2 bytes a weight, so that b FLOP a byte meet peak / bandwidth = 989.4e12 / 3.35e12 = 295;
    # activations move it up: by 1/(1 - ridge (1/k + 1/n)), between 5 and 30 % for widths of 4096 to 28672.
    knee = ridge_knee(step_of(deploy("llama-3.1-8b", "h100-sxm", basis="ideal")), affine=True)
    assert 1.05 * 295.3 < knee < 1.30 * 295.3


# --- half ---------------------------------------------------------------------------------------


@each("gpu", SAMPLE_GPUS)
@each("name", DENSE)
def test_the_half_knee_of_a_memory_bound_step_is_its_fixed_part_over_its_slope(name, gpu):
    limitless = faster(rl.load_gpu(gpu), 1e9, ("peaks",))  # no arithmetic: D = D0 + D1 b exactly
    deployment = deploy(name, limitless, basis="ideal")
    step = step_of(deployment)
    moved = {batch: step(batch).nbytes / limitless.bandwidth for batch in (0.0, 1.0)}
    fixed, slope = moved[0.0], moved[1.0] - moved[0.0]
    knee = half_knee(step)
    assert close(knee, fixed / slope, 1e-9)  # the slope is a difference: 1e-16 of D0 over D1
    assert close(knee / step(knee).time, 0.5 / slope, 1e-9)


def test_the_half_knee_of_a_memory_bound_step_is_weights_over_what_a_sequence_reads():
    limitless = faster(rl.load_gpu("h100-sxm"), 1e9, ("peaks",))
    deployment = deploy("llama-3.1-8b", limitless, basis="ideal")
    knee = half_knee(step_of(deployment, context=8191.0, steps=1.0))
    weights = 2.0 * (8_030_261_248 - 128256 * 4096)  # the embedding is not read but for a row
    # Each sequence reads 8192 tokens of 131072 bytes; its activations and logits add under 1 %.
    assert abs(knee / (weights / (8192 * 131072)) - 1.0) < 0.01


@given(deployment=deployments(), context=st.integers(1, 20_000))
def test_throughput_at_the_half_knee_is_half_of_its_asymptote(deployment, context):
    deployment = replace(deployment, plan=Plan(tp=deployment.plan.tp))  # dp serves batches in whole steps
    step = step_of(deployment, float(context))
    knee = half_knee(step)
    asymptote = LARGEST_BATCH**2 / step(LARGEST_BATCH**2).time
    assert close(knee / step(knee).time, 0.5 * asymptote, 1e-9)


# --- SLO and memory -----------------------------------------------------------------------------

SLOS = ({"tpot": 0.02}, {"ttft": 0.5}, {"ttft": 0.2, "tpot": 0.03}, {"e2el": 3.0}, {"tpot": 1e-9}, {"tpot": 1e9})


@each("slo", SLOS, ids=str)
@each(
    ("name", "gpu", "options"),
    [
        ("llama-3.1-8b", "h100-sxm", {"tp": 1}),
        ("gemma-3-27b", "h200-sxm", {"tp": 1, "quantization": "fp8"}),
        ("mixtral-8x7b", "h100-sxm", {"tp": 4}),
        ("deepseek-v3", "b200", {"tp": 8}),
        ("llama-3.1-70b", "h100-sxm", {"tp": 2, "dp": 3, "basis": "ideal"}),
    ],
)
def test_the_slo_is_met_at_its_knee_and_missed_by_one_more(name, gpu, options, slo):
    def meets(batch):
        found = rl.predict(name, gpu, batch=batch, isl=600, osl=100, **options)
        return all(getattr(found, key) <= limit for key, limit in slo.items())

    found = rl.predict(name, gpu, isl=600, osl=100, slo=slo, **options).knees
    assert found.slo == int(found.slo) <= found.memory
    if found.slo:
        assert meets(found.slo)
    if found.slo < found.memory:
        assert not meets(found.slo + 1)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gemma-3-27b", "gpt-oss-120b", "deepseek-v3"])
def test_the_memory_knee_is_the_largest_batch_that_fits(name):
    for options in ({"tp": 8}, {"tp": 4, "pp": 2}, {"tp": 2, "dp": 4}):
        found = rl.predict(name, "b200", isl=3000, osl=500, **options)
        knee = found.knees.memory
        assert memory(found.deployment, knee, 3500.0).fits
        assert not memory(found.deployment, knee + 1.0, 3500.0).fits
        assert knee == largest_batch(found.deployment, 3500.0)


@each("name", ["llama-3.1-8b", "mixtral-8x7b", "gemma-3-27b"])
@each("slo", [None, {"tpot": 0.008}, {"ttft": 0.1}, {"tpot": 1.0}], ids=str)
@each("isl", [100, 8000])
def test_the_knee_is_the_smallest_and_its_bound_names_it(name, slo, isl):
    found = rl.predict(name, "h200-sxm", isl=isl, tp=1 if "8b" in name else 2, slo=slo)
    each = {bound: getattr(found.knees, bound) for bound in ("ridge", "half", "memory", "slo")}
    assert (each["slo"] is None) == (found.to_dict()["slo_knee"] is None) == (slo is None)
    assert found.knee == min(knee for knee in each.values() if knee is not None)
    assert each[found.knee_bound] == found.knee


def test_each_knee_can_be_the_one_that_binds():
    for bound in ("ridge", "half", "memory", "slo"):
        each = {name: 5.0 if name == bound else 9.0 for name in ("ridge", "half", "memory", "slo")}
        assert Knees(**each).smallest == (5.0, bound)
    assert Knees(ridge=None, half=None, memory=3.0, slo=None).smallest == (3.0, "memory")


@pytest.mark.parametrize("slo", [{"tpot": 0.0}, {"tpot": -1.0}, {"ttft": math.inf}, {"ttft": math.nan}, {"flop": 1.0}])
def test_an_slo_that_cannot_be_is_refused(slo):
    error, said = (rl.UnknownName, "ttft, tpot, e2el") if "flop" in slo else (rl.BadInput, "SLO")
    with pytest.raises(error, match=said):
        rl.predict("llama-3.1-8b", "h100-sxm", slo=slo)


@each("name", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"])
@each("basis", ["ideal", "calibrated"])
def test_knees_do_not_move_when_the_whole_machine_gets_faster(name, basis):
    slow = rl.predict(name, "b200", tp=8, basis=basis, engine="none", slo={"tpot": 0.03, "ttft": 0.3})
    quick_gpu = with_shorter_latencies(faster(slow.deployment.gpu, 3.0), 3.0)
    quick = rl.predict(name, quick_gpu, tp=8, basis=basis, engine="none", slo={"tpot": 0.01, "ttft": 0.1})
    for bound in ("ridge", "half", "memory", "slo"):
        assert close(getattr(quick.knees, bound), getattr(slow.knees, bound), ROOT)


def test_more_bandwidth_lowers_the_ridge_knee_and_more_peak_raises_it():
    gpu = rl.load_gpu("h100-sxm")

    def knee(machine):
        return ridge_knee(step_of(deploy("llama-3.1-8b", machine, basis="ideal")), affine=True)

    assert knee(faster(gpu, 1.2, ("bandwidth",))) < knee(gpu) < knee(faster(gpu, 1.2, ("peaks",)))
