"""The batch at which decode stops being cheap, what fits, what is suggested where it does not, and what was timed."""

import math
import re
from dataclasses import replace

import pytest
from conftest import SAMPLE_GPUS, close, deploy, deployments, faster, models, with_shorter_latencies
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.numbers.arrays import as_array
from roofline.numbers.roots import largest_that_holds
from roofline.physics.memory import largest_batch, memory
from roofline.physics.passes import decode_pass
from roofline.physics.plan import Plan
from roofline.serving import knee
from roofline.serving.knee import (
    LARGEST_BATCH,
    LONGEST,
    Knees,
    check_plan,
    does_not_fit,
    half_knee,
    longest_context,
    plan_fault,
    possible_tp,
    ridge_knee,
    smallest_tp,
    widest_tp,
)
from roofline.serving.latency import Correction, Workload, load_text
from roofline.serving.load.limits import excess, limit_shares, limited_latencies
from roofline.serving.verdict import beyond, is_within
from roofline.specs.load import Burst, Rate, Users
from roofline.support.errors import BadInput

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
    _, half, _ = knee.knees_of_steps(deployment, 1000.0, 128.0, affine=True)  # `knees` may have a program by now
    assert half > 1.0
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
    error, said = (rl.UnknownName, "ttft, tpot, itl, e2el") if "flop" in slo else (rl.BadInput, "SLO")
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


# --- sizes by hand --------------------------------------------------------------------------------

CASE = {"isl": 600, "osl": 100}


def fits(deployment, batch, length, **degrees):
    return memory(replace(deployment, plan=replace(deployment.plan, **degrees)), batch, length).fits


def of_memory(deployment, share):
    """On GPUs that have a share of the memory."""
    return replace(deployment, gpu=replace(deployment.gpu, memory=deployment.gpu.memory * share))


def suggested(deployment, batch, length):
    """What an error says to try, as a list."""
    message = str(does_not_fit(deployment, batch, length))
    return message.partition("; try ")[2].split(", or ")


# --- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 0.8, 0.55, 0.3, 0.2, 0.1])
@pytest.mark.parametrize("name", ["llama-3.1-405b", "llama-3.1-70b", "qwen3-235b-a22b"])
def test_the_suggested_stages_are_the_fewest_that_fit_at_the_widest_tp(name, share):
    deployment = of_memory(deploy(name, "h100-sxm"), share)
    tps = [tp for tp in range(1, 9) if not plan_fault(deployment.model, Plan(tp=tp))]
    pps = [pp for pp in range(2, 17) if fits(deployment, 4.0, 3000.0, tp=max(tps), pp=pp)]
    no_stages = not pps or any(fits(deployment, 4.0, 3000.0, tp=tp) for tp in tps)
    found = [each for each in suggested(deployment, 4.0, 3000.0) if "pp =" in each]
    assert found == ([] if no_stages else [f"tp = {max(tps)}, pp = {pps[0]}"])


@pytest.mark.parametrize("share", [1.0, 0.6, 0.4, 0.25])
@pytest.mark.parametrize(("batch", "length"), [(1.0, 4000.0), (300.0, 4000.0), (2.0, 400_000.0), (2.0, 4e6)])
def test_suggestions_are_the_nearest_cases_that_fit(share, batch, length):
    deployment = of_memory(deploy("llama-3.1-70b", "h100-sxm", Plan(tp=2)), share)
    remedies = suggested(deployment, batch, length)
    tps = [tp for tp in (1, 2, 4, 8) if fits(deployment, batch, length, tp=tp)]
    expected = [f"tp = {tps[0]}"] if tps else []
    most = largest_batch(deployment, length)
    expected += [f"batch = {most:.0f}"] if 0 < most < batch else []
    longest = longest_context(deployment, batch)
    expected += [f"isl + osl = {longest:.0f}"] if 0 < longest < length and not expected else []
    assert remedies[: len(expected)] == expected
    assert longest == 0 or fits(deployment, batch, longest)
    assert not fits(deployment, batch, longest + 1.0)
    quantised = []
    for preset in ("fp8", "int4"):  # the first that needs fewer GPUs
        stored = deploy("llama-3.1-70b", "h100-sxm", quantization=preset).quantization
        fitting = [tp for tp in (1, 2, 4, 8) if fits(replace(deployment, quantization=stored), batch, length, tp=tp)]
        if fitting and (not tps or fitting[0] < tps[0]):
            quantised.append(f"`quantization` {preset} at tp = {fitting[0]}")
    assert [each for each in remedies if "`quantization`" in each] == quantised[:1]


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-27b", "llama-4-scout", "deepseek-v3", "nemotron-h-56b"])
@pytest.mark.parametrize("share", [1.0, 0.9])
def test_the_longest_context_is_the_last_that_fits_of_floats_and_arrays(model, share):
    deployment = of_memory(deploy(model, "h200-sxm", Plan(tp=8)), share)
    batches = (1.0, 2.0, 77.0, 3000.0)
    longest = [longest_context(deployment, batch) for batch in batches]
    for batch, length in zip(batches, longest, strict=True):
        assert length == largest_that_holds(lambda number, batch=batch: fits(deployment, batch, number), LONGEST)
    assert longest_context(deployment, as_array("batch", batches)).tolist() == longest


@pytest.mark.parametrize("length", [1.0, 9000.0, 131_072.0, 1_234_567.0])
@pytest.mark.parametrize(("more", "tokens"), [(0.0, 0.0), (-1.0, 1.0)])  # bytes of memory, tokens fewer
def test_a_context_that_fits_to_the_byte_is_the_longest(length, more, tokens):
    deployment = deploy("llama-3.1-8b", "h100-sxm")
    deployment = replace(deployment, engine=replace(deployment.engine, gpu_memory_utilization=1.0))
    exact = memory(deployment, 4.0, length)
    deployment = replace(deployment, gpu=replace(deployment.gpu, memory=exact.used + more))
    assert longest_context(deployment, 4.0) == length - tokens


def test_what_a_gpu_does_not_run_or_saves_nothing_is_not_suggested_and_where_nothing_helps_the_message_says_so():
    assert not [each for each in suggested(deploy("llama-3.1-405b", "a100-sxm-80gb"), 1.0, 1000.0) if "fp8" in each]
    stored = of_memory(deploy("llama-3.1-405b", "h100-sxm", quantization="int4"), 0.4)
    assert not [each for each in suggested(stored, 1.0, 1000.0) if "`quantization`" in each]
    tiny = of_memory(deploy("llama-3.1-405b", "h100-sxm"), 0.01)
    assert str(does_not_fit(tiny, 1.0, 1000.0)).endswith("; try a smaller model, or a GPU with more memory")


def test_the_message_adds_up():
    deployment = replace(deploy("llama-3.1-70b", "h100-sxm"), prefix_cache=2e9)
    need, message = memory(deployment, 2.0, 4000.0), str(does_not_fit(deployment, 2.0, 4000.0))
    parts = [float(each) for each in re.findall(r"([\d.]+) GB", message)]
    shown = (need.weights, need.kv_cache, need.activations, need.reserve, need.prefixes, need.usable)
    assert parts[:6] == [round(part / 1e9, 1) for part in shown]
    assert parts[6] == pytest.approx(sum(parts[:5]) - parts[5], abs=0.3)
    assert need.prefixes == 2e9


# --- plans ---------------------------------------------------------------------------------------


def test_degrees_that_divide_a_model_are_counted_by_hand():
    # 32 heads, 8 KV heads (split, or whole copies of them), width 14336 = 2^11 x 7
    assert possible_tp(rl.load_model("llama-3.1-8b"), 40) == [1, 2, 4, 8, 16, 32]
    # 64 heads of values, 8 KV heads, experts of 2880 = 2^6 x 45 in width
    model = rl.load_model("gpt-oss-120b")
    assert possible_tp(model, 70) == [1, 2, 4, 8, 16, 32, 64]
    assert plan_fault(model, Plan(tp=8, dp=2, ep=16)) is None
    assert "expert width 2880 of gpt-oss-120b does not divide over 128 ranks" in plan_fault(model, Plan(tp=8, dp=16))
    assert plan_fault(model, Plan(tp=2, ep=4)) == "ep = 4 must divide tp x dp = 2, the ranks that hold the experts"
    assert "ep = 3 must divide the 128 experts of gpt-oss-120b" in plan_fault(model, Plan(tp=1, dp=3, ep=3))
    assert [knee._in_model(*case) for case in ((0, True), (1, True), (1, False))] == [False, True, False]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(tp=3), r"tp = 3 does not divide llama-3.1-8b \(32 heads\); choose from 1, 2, 4, 8, 16, 32$"),
        (Plan(tp=2, ep=2), "ep = 2 needs a mixture of experts; llama-3.1-8b is dense"),
        (Plan(pp=33), "pp = 33 must not exceed the 32 layers"),
        (Plan(tp=0), "tp = 0 must be between 1 and 1000000"),
        (Plan(dp=1_000_001), "dp = 1000001 must be between 1 and 1000000"),
        (Plan(tp=8, dp=500_000), "tp x pp x dp = 4000000 must be between 1 and 1000000"),
        (Plan(tp=True), "tp = True must be a whole number"),
        (Plan(tp=2.0), "tp = 2.0 must be a whole number"),
    ],
)
def test_plans_that_cannot_be_are_refused(plan, message):
    with pytest.raises(BadInput, match=message):
        check_plan(rl.load_model("llama-3.1-8b"), plan)


def test_as_many_gpus_as_there_may_be_are_taken():
    check_plan(rl.load_model("llama-3.1-8b"), Plan(tp=1, dp=1_000_000))
    check_plan(rl.load_model("llama-3.1-8b"), Plan(pp=32))


def test_tensor_parallelism_takes_what_data_parallelism_leaves_of_a_node():
    widest = {dp: widest_tp(deploy("llama-3.1-8b", "h100-sxm", Plan(dp=dp))) for dp in (1, 2, 3, 8, 16)}
    assert widest == {1: 8, 2: 4, 3: 2, 8: 1, 16: 1}


def test_the_smallest_tp_is_the_first_that_divides_and_fits():
    deployment = deploy("llama-3.1-70b", "h100-sxm")
    fitting = [tp for tp in (1, 2, 4, 8) if fits(deployment, 8.0, 4000.0, tp=tp)]
    assert smallest_tp(deployment, 8.0, 4000.0) == fitting[0] > 1
    assert smallest_tp(deployment, 1e6, 4000.0) is None


# --- shapes that were timed ----------------------------------------------------------------------

LIMITS = [
    ((131_072.0, 0.0, 1.0), (131_073.0, 0.0, 1.0), Plan(), ["prompt tokens", "context beyond", "isl + osl"]),
    ((65_536.0, 65_536.0, 1.0), (65_536.0, 65_537.0, 1.0), Plan(), ["context beyond", "isl + osl"]),
    ((64.0, 8.0, 2048.0), (64.0, 8.0, 2049.0), Plan(), ["prompt tokens", "batch beyond"]),
    ((32.0, 8.0, 4096.0), (32.0, 8.0, 4097.0), Plan(dp=2), ["prompt tokens", "batch beyond"]),
]


@pytest.mark.parametrize(("within", "outside", "plan", "words"), LIMITS)
def test_limits_of_what_was_timed_are_met_exactly_and_exceeded_by_one(within, outside, plan, words):
    deployment = deploy("llama-3.1-8b", "h100-sxm", plan)  # of 131,072 tokens of context, without an engine's budget

    within, outside = (Workload(isl, osl, Burst(batch)) for isl, osl, batch in (within, outside))

    def said(workload):
        return [text for exceeded, text in beyond(deployment, workload) if exceeded]

    assert said(within) == []
    found = said(outside)
    assert len(found) == len(words)
    assert all(any(word in text for text in found) for word in words)
    assert is_within(deployment, within) == (plan == Plan())  # of one rank alone: then nothing need be asked
    assert not is_within(deployment, outside)


def test_light_has_no_shapes_and_a_model_without_a_context_no_end():
    deployment = deploy("llama-3.1-8b", "h100-sxm", basis="ideal")
    case = Workload(200_000.0, 1.0, Burst(5000.0))
    assert [text for exceeded, text in beyond(deployment, case) if exceeded] == [
        "isl + osl exceeds the 131072-token context of llama-3.1-8b"
    ]
    endless = replace(deployment, model=replace(deployment.model, max_context=None))
    assert list(beyond(endless, case)) == []
    assert is_within(endless, Workload(100.0, 1.0))
    short = replace(deployment, model=replace(deployment.model, max_context=120))
    assert [is_within(short, Workload(100.0, osl)) for osl in (20.0, 21.0)] == [True, False]


def test_a_cached_prefix_is_no_token_of_the_pass():
    deployment = deploy("llama-3.1-8b", "h100-sxm")
    several = Workload(60_000.0, 1.0, Burst(3.0))
    assert next(beyond(deployment, several))[0]
    assert not next(beyond(deployment, replace(several, prefix=20_000.0)))[0]
    budget = replace(deployment, engine=replace(deployment.engine, max_num_batched_tokens=30_000))
    assert not next(beyond(budget, several))[0]  # two steps of 30,000 x 3


# --- limits on latencies -------------------------------------------------------------------------


def test_a_correction_lowers_no_latency_below_the_hardware_limit_and_the_network():
    answer = rl.predict("llama-3.1-8b", "h100-sxm", **CASE, batch=8)
    deployment, workload = answer.deployment, answer.workload
    light = rl.predict("llama-3.1-8b", "h100-sxm", **CASE, batch=8, basis="ideal")
    tiny = Correction(1e-6, 1e-6, 0.1, 0.1)
    floor = light.ttft + deployment.engine.network
    found = limited_latencies(deployment, workload, ("ttft", "tpot", "e2el"), tiny)
    assert found == pytest.approx({"ttft": floor, "tpot": light.tpot, "e2el": floor + 99 * light.tpot}, rel=1e-12)
    doubled = limited_latencies(deployment, workload, ("ttft", "tpot"), Correction(2.0, 3.0, 0.1, 0.1))
    assert doubled == pytest.approx({"ttft": 2 * answer.ttft, "tpot": 3 * answer.tpot}, rel=1e-12)
    slo = {"ttft": 4 * floor, "tpot": 2 * light.tpot}
    assert limit_shares(deployment, workload, slo, tiny) == pytest.approx({"ttft": 0.25, "tpot": 0.5}, rel=1e-12)
    assert excess(deployment, workload, slo, tiny) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("key", ["ttft", "tpot"])
def test_the_slo_knee_of_a_deployment_at_the_hardware_limit_is_that_of_the_limit(key):
    def light(batch):
        found = rl.predict("llama-3.1-8b", "h100-sxm", **CASE, batch=batch, basis="ideal")
        return found.ttft + answer.deployment.engine.network if key == "ttft" else found.tpot

    answer = rl.predict("llama-3.1-8b", "h100-sxm", **CASE)
    limit = (light(6) + light(7)) / 2.0  # between the sixth and the seventh sequence
    plain = replace(answer, slo={key: limit})
    measured = replace(plain, correction=Correction(1e-6, 1e-6, 0.1, 0.1))
    assert measured.knees.slo == 6
    assert plain.knees.slo < 6


def test_loads_are_said_in_a_few_words():
    run = Workload(1.0, 1.0, Users(8.0, 80.0))
    texts = [load_text(case) for case in (Workload(1.0, 1.0, Burst(16.0)), run, Workload(1.0, 1.0, Rate(1.5)))]
    assert texts == ["batch 16", "8 users, a run of 80 requests", "1.5 requests/s"]
