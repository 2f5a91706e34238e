"""TTFT, TPOT, end-to-end latency and throughput, how they hang together, and how one measurement corrects them."""

import math
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import SAMPLE_GPUS, close, engines, faster, with_shorter_host_times, with_shorter_latencies
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.equation import Roof, Work, kernel_time
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.serving.latency import SIGMA_TPOT, SIGMA_TTFT, UNCORRECTED, Workload, e2el, prefill
from roofline.serving.prediction import predict_deployment
from roofline.specs.formats import number_format
from roofline.specs.load import Burst
from roofline.specs.model import DenseFfn, Gqa, Group, Layer

GROUPED = ("llama-3.1-8b", "gemma-3-27b", "gpt-oss-20b", "mixtral-8x7b", "qwen3-30b-a3b", "qwen3-32b")
isls, osls, batches = st.integers(1, 8000), st.integers(2, 600), st.integers(1, 64)
SERVER = {
    "model": st.sampled_from(GROUPED),
    "gpu": st.sampled_from(("h100-sxm", "a100-sxm-80gb", "b200", "h200-sxm")),
    "basis": st.sampled_from(("ideal", "calibrated")),
}
LATENT = st.sampled_from((*GROUPED, "deepseek-v3"))
CASE = {**SERVER, "isl": isls, "osl": osls, "batch": batches}

#: Every model but the one whose 71 heads two GPUs cannot share out.
SHAREABLE = sorted({*rl.models()} - {"falcon-7b"})


def predict(model, gpu, **options):
    return rl.predict(model, gpu, **{"tp": 2, "allow_oversize": True, **options})


@given(**CASE)
def test_latencies_and_rates_of_an_answer_hang_together(model, gpu, basis, isl, osl, batch):
    found = predict(model, gpu, basis=basis, isl=isl, osl=osl, batch=batch)
    assert close(found.e2el, found.ttft + (osl - 1) * found.tpot)
    assert close(found.tok_s_user, 1.0 / found.tpot)
    assert close(found.output_tok_s, batch * osl / found.e2el)
    assert close(found.output_tok_s_gpu, found.output_tok_s / 2)
    assert (found.ttft, found.tpot, found.itl) == (found.prefill.time, found.decode.time, found.tpot)


@given(**SERVER, isl=isls, batch=batches)
def test_a_single_output_token_has_no_time_per_further_token(model, gpu, basis, isl, batch):
    found = predict(model, gpu, basis=basis, isl=isl, osl=1, batch=batch)
    assert found.tpot is found.itl is found.tok_s_user is found.to_dict()["tpot_ms"] is None
    assert found.e2el == found.ttft
    assert close(found.output_tok_s, batch / found.ttft)
    assert rl.tpot(model, gpu, isl=isl, osl=1, tp=4) is None


@given(**{**CASE, "osl": st.integers(2, 120), "basis": st.just("ideal")})
def test_the_ideal_time_per_token_is_the_mean_of_the_steps_of_a_generation(model, gpu, basis, isl, osl, batch):
    found = predict(model, gpu, basis=basis, isl=isl, osl=osl, batch=batch)
    steps = [decode_pass(found.deployment, float(batch), float(isl + step)).time for step in range(osl - 1)]
    # Attention over the cache is bound by memory on these GPUs, hence affine in the context; 1e-9
    # is for the sum over the steps.
    assert close(found.tpot, sum(steps) / len(steps), 1e-9)


@given(**{**CASE, "model": LATENT})
def test_tpot_lies_between_the_first_step_and_the_last_and_longer_answers_take_no_less(
    model, gpu, basis, isl, osl, batch
):
    found, long = (predict(model, gpu, basis=basis, isl=isl, osl=n, batch=batch) for n in (osl, osl + 100))
    assert found.tpot_first * (1.0 - 1e-12) <= found.tpot <= found.tpot_last * (1.0 + 1e-12)
    steps = [decode_pass(found.deployment, float(batch), float(context)).time for context in (isl, isl + osl - 2)]
    assert [found.tpot_first, found.tpot_last] == steps
    assert long.tpot >= found.tpot * (1.0 - 1e-12)
    assert long.e2el > found.e2el
    assert long.ttft == found.ttft


@given(**CASE, replicas=st.integers(1, 8))
def test_replicas_multiply_throughput_and_leave_latency(model, gpu, basis, isl, osl, batch, replicas):
    case = {"basis": basis, "isl": isl, "osl": osl, "batch": batch}
    one, several = (predict(model, gpu, num_gpus=num_gpus, **case) for num_gpus in (None, 2 * replicas))
    assert several.deployment.replicas == replicas
    assert (several.ttft, several.tpot, several.e2el) == (one.ttft, one.tpot, one.e2el)
    assert close(several.output_tok_s, replicas * one.output_tok_s)
    assert close(several.output_tok_s_gpu, one.output_tok_s_gpu)
    assert close(several.usd_per_hour, replicas * one.usd_per_hour)


def test_pipeline_stages_keep_that_many_batches_in_flight():
    found = predict("llama-3.1-70b", "h100-sxm", pp=2, batch=8, osl=100)
    assert close(found.output_tok_s, 2 * 8 * 100 / found.e2el)
    assert close(found.output_tok_s_gpu, found.output_tok_s / 4)


@given(batch=st.integers(1, 100))
def test_data_parallel_ranks_run_their_share_of_the_batch(batch):
    spread = rl.predict("llama-3.1-8b", "h100-sxm", dp=4, batch=batch, tp=1)
    alone = rl.predict("llama-3.1-8b", "h100-sxm", batch=-(-batch // 4), tp=1)
    assert close(spread.ttft, alone.ttft)
    assert close(spread.tpot, alone.tpot)
    assert close(spread.output_tok_s, batch * 128 / spread.e2el)


@each("name", SHAREABLE)
@each("basis", ["ideal", "calibrated"])
def test_at_least_one_prompt_token_is_always_computed(name, basis):
    all_cached, all_but_one = (predict(name, "h200-sxm", isl=900, prefix=n, basis=basis) for n in (900, 899))
    assert all_cached.ttft == all_but_one.ttft > 0.0
    assert all_cached.prefill.flop == all_but_one.prefill.flop > 0.0


def test_a_prefix_leaves_the_rest_of_the_prompt_to_be_computed():
    found = predict("llama-3.1-8b", "h100-sxm", isl=1000, prefix=400, batch=3, engine="none")
    assert found.ttft == prefill_pass(found.deployment, 3.0, 600.0, 400.0).time


@given(**SERVER, isl=st.integers(2, 30_000), batch=batches, share=st.floats(0.0, 1.0))
def test_a_longer_cached_prefix_never_makes_the_first_token_later(model, gpu, basis, isl, batch, share):
    prefix = int(share * (isl - 1))
    longer, shorter, none = (
        predict(model, gpu, basis=basis, isl=isl, batch=batch, prefix=tokens).ttft for tokens in (prefix + 1, prefix, 0)
    )
    assert longer * (1.0 - 1e-12) <= shorter <= none * (1.0 + 1e-12)


@each("gpu", SAMPLE_GPUS)
@each("basis", ["ideal", "calibrated"])
@each("isl", [1024, 8192, 65536])
def test_a_longer_cached_prefix_never_makes_the_first_token_of_latent_attention_later(gpu, basis, isl):
    # Of the kernels: absorbed attention has one more a layer, which a host takes its time to launch.
    deployment = predict("deepseek-v3", gpu, basis=basis, tp=8, engine="none").deployment
    remaining = sorted({*range(1, 400, 6), *range(isl // 16, isl + 1, isl // 16)})
    times = [prefill(deployment, Workload(float(isl), 2.0, Burst(1.0), float(isl - new))).time for new in remaining]
    for before, after in pairwise(times):
        assert after >= before * (1.0 - 1e-12)


@given(**CASE, engine=engines, times=st.floats(0.1, 10.0))
def test_a_machine_and_host_k_times_as_fast_throughout_answer_k_times_as_fast(
    model, gpu, basis, engine, isl, osl, batch, times
):
    slow = predict(model, gpu, basis=basis, isl=isl, osl=osl, batch=batch)
    deployment = replace(slow.deployment, engine=engine)
    quick_gpu = with_shorter_latencies(faster(deployment.gpu, times), times)
    quick = replace(deployment, gpu=quick_gpu, engine=with_shorter_host_times(engine, times))
    before, after = (predict_deployment(one, slow.workload, allow_oversize=True) for one in (deployment, quick))
    for name, ratio in (("ttft", times), ("tpot", times), ("e2el", times), ("output_tok_s", 1.0 / times)):
        assert close(getattr(after, name) * ratio, getattr(before, name)), name


def assert_adds_up(found):
    assert close(sum(found.breakdown["prefill"].values()), found.ttft)
    assert close(sum(found.breakdown["decode"].values()), found.tpot)


@each("name", SHAREABLE)
def test_the_breakdown_adds_up_to_the_whole(name):
    assert_adds_up(predict(name, "h200-sxm", isl=700, prefix=20))


def test_the_breakdown_adds_up_though_two_groups_of_layers_have_kernels_of_the_same_name():
    model = rl.load_model("llama-3.1-8b")
    narrow = Layer(Gqa(heads=32, kv_heads=4, head_dim=64, v_head_dim=64), DenseFfn(width=2048))
    assert_adds_up(predict(replace(model, groups=(*model.groups, Group(8, (narrow,)))), "h100-sxm"))


def test_shorthands_and_rows_are_the_figures_of_a_prediction():
    options = {"isl": 500, "osl": 50, "batch": 4, "basis": "ideal"}
    found = rl.predict("llama-3.1-8b", "h100-sxm", **options)
    short = [ask("llama-3.1-8b", "h100-sxm", **options) for ask in (rl.ttft, rl.tpot, rl.knee)]
    assert short == [found.ttft, found.tpot, found.knees]
    found = rl.predict("gemma-3-27b", "h100-sxm", isl=500, osl=50, batch=4, slo={"tpot": 0.05})
    in_units = {
        "ttft_ms": found.ttft * 1e3,
        "tpot_ms": found.tpot * 1e3,
        "e2el_ms": found.e2el * 1e3,
        "weights_gb": found.memory.weights / 1e9,
        "kv_cache_gb": found.memory.kv_cache / 1e9,
        "output_tok_s": found.output_tok_s,
        "memory_knee": found.knees.memory,
        "slo_knee": found.knees.slo,
        "knee": found.knee,
    }
    assert found.to_dict(list(in_units)) == pytest.approx(in_units, rel=1e-12)
    assert found.to_dict()["knee_bound"] == found.knee_bound


# --- arithmetic that people in the field do in their heads ----------------------------------------

# Databricks is short for the MosaicML team's "LLM Inference Performance Engineering: Best Practices" of October 2023,
# https://www.databricks.com/blog/llm-inference-performance-engineering-best-practices
_WORDS_PER_TOKEN = 0.75  # the usual rule for English text, which the page's 450 words imply


def at_figure(figure, value, **options):
    """Prediction on a machine whose every rate is multiplied until a time has the value wanted."""
    gpu = rl.load_gpu("h100-sxm")
    first = rl.predict("llama-3.1-8b", gpu, basis="ideal", **options)
    return rl.predict("llama-3.1-8b", faster(gpu, getattr(first, figure) / value), basis="ideal", **options)


@pytest.mark.parametrize(("bandwidth", "mbu"), [(1e12, 1.0), (2e12, 0.5)])
def test_seven_billion_fp16_weights_in_14_ms_move_a_terabyte_a_second_half_of_a_peak_of_two(bandwidth, mbu):
    # Databricks, section on model bandwidth utilization: 7B at 16 bits, TPOT 14 ms: 14 GB in 14 ms is 1 TB/s; if the
    # peak is 2 TB/s, an MBU of 50 %.
    weights = Work(weight_bytes=7e9 * number_format("fp16").nbytes)
    assert close(kernel_time(weights, Roof.ideal(peak=1e15, bandwidth=bandwidth)).total, mbu * 0.014)


def test_100_ms_a_token_are_10_tokens_a_second_or_about_450_words_a_minute():
    # Databricks, definition of TPOT.
    found = at_figure("tpot", 0.1)
    assert close(found.tpot, 0.1)
    assert close(found.tok_s_user, 10.0)
    assert close(found.tok_s_user * 60.0 * _WORDS_PER_TOKEN, 450.0)


def test_488_tokens_a_second_over_64_users_are_7_6_each():
    # How reports of a total are read: 488 / 64 = 7.625.
    found = at_figure("e2el", 64 * 128 / 488.0, batch=64, osl=128, isl=128)
    assert close(found.output_tok_s, 488.0)
    assert abs(found.output_tok_s / found.workload.batch - 7.6) < 0.05


def test_250_ms_and_300_tokens_of_20_ms_take_about_six_seconds():
    # Databricks: latency is TTFT + TPOT x tokens; here the first token is in TTFT, which is 0.3 % less.
    assert abs(e2el(0.25, 0.02, 300.0) - 6.0) < 0.3
    assert close(e2el(0.25, 0.02, 300.0), 0.25 + 299 * 0.02)


@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm", "b200", "a100-sxm-80gb"])
def test_a_single_sequence_of_llama_8b_decodes_at_bytes_over_bandwidth(gpu):
    found = rl.predict("llama-3.1-8b", gpu, isl=1024, osl=2, batch=1, basis="ideal")
    weights = 2.0 * (8_030_261_248 - 128256 * 4096)  # all but the embedding, of which one row is read
    cache = 131072.0 * (1025 + 1)  # 1025 tokens read, one written
    # Activations and logits come on top: within a part in a thousand.
    assert close(found.tpot, (weights + cache) / found.deployment.gpu.bandwidth, 1e-3)
    assert found.bound["decode"] == "memory"


def test_prefill_takes_two_flops_a_weight_and_token_at_the_peak():
    # Kaplan et al., arXiv 2001.08361, section 2.1: 2N FLOP a token without attention over the context.
    found = rl.predict("llama-3.1-70b", "h100-sxm", isl=2048, tp=1, basis="ideal", allow_oversize=True)
    matrices = 70_553_706_496 - 2 * 128256 * 8192
    estimate = 2.0 * matrices * 2048 / 989.4e12
    # Attention adds 2 x 2 x 64 x 128 x 80 x 1024 FLOP a token, 2 %; norms and activations 3 %.
    assert 1.0 < found.ttft / estimate < 1.1
    assert found.bound["prefill"] == "compute"


def test_twice_the_prompt_takes_twice_the_first_token_time_and_somewhat_more():
    short, long = (rl.ttft("llama-3.1-8b", "h100-sxm", isl=isl, basis="ideal") for isl in (4096, 8192))
    assert 2.0 < long / short < 2.5


# --- one measurement, met exactly where it was taken and carried over to the other points ---------

SMALL = ("llama-3.1-8b", "h100-sxm")
AT = {"isl": 2000, "osl": 300}


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
    plain = rl.predict(*SMALL, **AT)
    first, step = (rl.predict(*SMALL, **AT, measured=measured) for measured in ({"ttft": 0.3}, {"tpot": 0.02}))
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
    plain = rl.predict(*SMALL, **AT, batch=16)
    measured = {"ttft": 2.0 * plain.ttft, "tpot": 1.1 * plain.tpot, "batch": 16}
    found = rl.calibrate_once(*SMALL, measured, **AT)
    assert (found.ttft, found.tpot) == pytest.approx((2.0, 1.1), rel=1e-12)
    predicted = rl.predict(*SMALL, **AT, measured=measured).correction
    assert tuple(predicted) == pytest.approx(tuple(found), rel=1e-12)


def test_the_slo_knee_is_that_of_the_times_that_the_answer_states():
    at = {**AT, "tp": 1}
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
    plain = rl.predict("llama-3.1-8b", gpu, batch=batch, tp=1, **AT)
    measured = {"ttft": 1.5 * plain.ttft, "tpot": 1.5 * plain.tpot}
    found = rl.predict("llama-3.1-8b", gpu, batch=batch, tp=1, measured=measured, **AT)
    for result in ("ttft", "tpot"):
        before, after = (width(getattr(answer, f"{result}_interval")) for answer in (plain, found))
        assert after <= before * (1.0 + 1e-12)
        low, high = getattr(found, f"{result}_interval")
        assert close(low * high, getattr(found, result) ** 2)


def test_on_a_gpu_that_nobody_timed_a_measurement_narrows_the_interval_much():
    plain = rl.predict("llama-3.1-8b", "mi300x", **AT)
    found = rl.predict("llama-3.1-8b", "mi300x", measured={"ttft": 0.2, "tpot": 0.01}, **AT)
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
        rl.predict(*SMALL, **AT, measured=measured)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "measured", [{"ttft": 1e-3}, {"tpot": 1e-4}, {"ttft": 0.1, "tpot": 1e-4}, {"tpot": 0.01, "batch": 10**5}]
)
def test_a_measurement_that_is_faster_than_the_hardware_limit_is_refused_with_the_time_at_that_limit(measured):
    said = r"measured t\w+ = .* is below the hardware limit of [\d.]+ m?s; check its unit, load, lengths"
    with pytest.raises(rl.BadInput, match=said):
        rl.predict(*SMALL, **AT, measured=measured)


@pytest.mark.parametrize("result", ["ttft", "tpot"])
def test_a_measurement_a_little_slower_than_the_hardware_limit_is_taken(result):
    light = getattr(rl.predict(*SMALL, **AT, basis="ideal"), result)
    found = rl.predict(*SMALL, **AT, measured={result: light * 1.000001})
    assert getattr(found, result) == pytest.approx(light, rel=1e-5)
    with pytest.raises(rl.BadInput, match=f"measured {result} = .* is below the hardware limit of "):
        rl.predict(*SMALL, **AT, measured={result: light * 0.999})


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
