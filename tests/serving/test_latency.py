"""TTFT, TPOT, end-to-end latency and throughput, and how they hang together."""

from dataclasses import replace
from itertools import pairwise

from conftest import SAMPLE_GPUS, close, engines, faster, with_shorter_host_times, with_shorter_latencies
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.serving import prediction
from roofline.serving.latency import Workload, prefill
from roofline.specs.load import Burst
from roofline.specs.model import DenseFfn, Gqa, Group, Layer

GROUPED = ("llama-3.1-8b", "gemma-3-27b", "gpt-oss-20b", "mixtral-8x7b", "qwen3-30b-a3b", "qwen3-32b")
MODELS = st.sampled_from(GROUPED)
GPUS = st.sampled_from(("h100-sxm", "a100-sxm-80gb", "b200", "h200-sxm"))
BASES = st.sampled_from(("ideal", "calibrated"))
isls, osls, batches = st.integers(1, 8000), st.integers(2, 600), st.integers(1, 64)

#: Every model but the one whose 71 heads two GPUs cannot share out.
SHAREABLE = sorted({*rl.models()} - {"falcon-7b"})


def predict(model, gpu, **options):
    return rl.predict(model, gpu, **{"tp": 2, "allow_oversize": True, **options})


@given(model=MODELS, gpu=GPUS, basis=BASES, isl=isls, osl=osls, batch=batches)
def test_end_to_end_latency_is_the_first_token_and_all_others(model, gpu, basis, isl, osl, batch):
    found = predict(model, gpu, basis=basis, isl=isl, osl=osl, batch=batch)
    assert close(found.e2el, found.ttft + (osl - 1) * found.tpot)
    assert found.itl == found.tpot
    assert close(found.tok_s_user, 1.0 / found.tpot)
    assert close(found.output_tok_s, batch * osl / found.e2el)
    assert close(found.output_tok_s_gpu, found.output_tok_s / 2)
    assert found.ttft == found.prefill.time
    assert found.tpot == found.decode.time


@given(model=MODELS, gpu=GPUS, basis=BASES, isl=isls, batch=batches)
def test_a_single_output_token_has_no_time_per_further_token(model, gpu, basis, isl, batch):
    found = predict(model, gpu, basis=basis, isl=isl, osl=1, batch=batch)
    assert found.tpot is None
    assert found.itl is None
    assert found.tok_s_user is None
    assert found.e2el == found.ttft
    assert close(found.output_tok_s, batch / found.ttft)
    assert rl.tpot(model, gpu, isl=isl, osl=1, tp=4) is None
    assert found.to_dict()["tpot_ms"] is None


@given(model=MODELS, gpu=GPUS, isl=isls, osl=st.integers(2, 120), batch=batches)
def test_the_ideal_time_per_token_is_the_mean_of_the_steps_of_a_generation(model, gpu, isl, osl, batch):
    found = predict(model, gpu, basis="ideal", isl=isl, osl=osl, batch=batch)
    steps = [decode_pass(found.deployment, float(batch), float(isl + step)).time for step in range(osl - 1)]
    # Attention over the cache is bound by memory on these GPUs, hence affine in the context; 1e-9
    # is for the sum over the steps.
    assert close(found.tpot, sum(steps) / len(steps), 1e-9)


@given(model=MODELS | st.just("deepseek-v3"), gpu=GPUS, basis=BASES, isl=isls, osl=osls, batch=batches)
def test_the_time_per_token_lies_between_the_first_step_and_the_last(model, gpu, basis, isl, osl, batch):
    found = predict(model, gpu, basis=basis, isl=isl, osl=osl, batch=batch)
    assert found.tpot_first * (1.0 - 1e-12) <= found.tpot <= found.tpot_last * (1.0 + 1e-12)
    assert found.tpot_first == decode_pass(found.deployment, float(batch), float(isl)).time
    assert found.tpot_last == decode_pass(found.deployment, float(batch), float(isl + osl - 2)).time


@given(model=MODELS | st.just("deepseek-v3"), gpu=GPUS, basis=BASES, isl=isls, osl=osls, batch=batches)
def test_longer_answers_never_take_less_time_a_token_or_in_all(model, gpu, basis, isl, osl, batch):
    short, long = (predict(model, gpu, basis=basis, isl=isl, osl=n, batch=batch) for n in (osl, osl + 100))
    assert long.tpot >= short.tpot * (1.0 - 1e-12)
    assert long.e2el > short.e2el
    assert long.ttft == short.ttft


@given(model=MODELS, gpu=GPUS, basis=BASES, isl=isls, osl=osls, batch=batches, replicas=st.integers(1, 8))
def test_replicas_multiply_throughput_and_leave_latency(model, gpu, basis, isl, osl, batch, replicas):
    one, several = (
        predict(model, gpu, basis=basis, isl=isl, osl=osl, batch=batch, num_gpus=num_gpus)
        for num_gpus in (None, 2 * replicas)
    )
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


@given(model=MODELS, gpu=GPUS, basis=BASES, isl=st.integers(2, 30_000), batch=batches, share=st.floats(0.0, 1.0))
def test_a_longer_cached_prefix_never_makes_the_first_token_later(model, gpu, basis, isl, batch, share):
    prefix = int(share * (isl - 1))
    shorter, longer = (
        predict(model, gpu, basis=basis, isl=isl, batch=batch, prefix=tokens).ttft for tokens in (prefix, prefix + 1)
    )
    assert longer <= shorter * (1.0 + 1e-12)
    assert predict(model, gpu, basis=basis, isl=isl, batch=batch).ttft >= shorter * (1.0 - 1e-12)


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


@given(
    model=MODELS,
    gpu=GPUS,
    basis=BASES,
    engine=engines,
    isl=isls,
    osl=osls,
    batch=batches,
    times=st.floats(0.1, 10.0),
)
def test_a_machine_and_host_k_times_as_fast_throughout_answer_k_times_as_fast(
    model, gpu, basis, engine, isl, osl, batch, times
):
    slow = predict(model, gpu, basis=basis, isl=isl, osl=osl, batch=batch)
    slow = prediction.predict_deployment(replace(slow.deployment, engine=engine), slow.workload, allow_oversize=True)
    quick_gpu = with_shorter_latencies(faster(slow.deployment.gpu, times), times)
    quick_deployment = replace(slow.deployment, gpu=quick_gpu, engine=with_shorter_host_times(engine, times))
    quick = prediction.predict_deployment(quick_deployment, slow.workload, allow_oversize=True)
    assert close(quick.ttft * times, slow.ttft)
    assert close(quick.tpot * times, slow.tpot)
    assert close(quick.e2el * times, slow.e2el)
    assert close(quick.output_tok_s, slow.output_tok_s * times)


@each("name", SHAREABLE)
def test_the_breakdown_adds_up_to_the_whole(name):
    found = predict(name, "h200-sxm", isl=700, prefix=20)
    assert close(sum(found.breakdown["prefill"].values()), found.ttft)
    assert close(sum(found.breakdown["decode"].values()), found.tpot)


def test_the_breakdown_adds_up_though_two_groups_of_layers_have_kernels_of_the_same_name():
    model = rl.load_model("llama-3.1-8b")
    narrow = Layer(Gqa(heads=32, kv_heads=4, head_dim=64, v_head_dim=64), DenseFfn(width=2048))
    found = predict(replace(model, groups=(*model.groups, Group(8, (narrow,)))), "h100-sxm")
    assert close(sum(found.breakdown["prefill"].values()), found.ttft)
    assert close(sum(found.breakdown["decode"].values()), found.tpot)


def test_the_shorthands_are_the_figures_of_a_prediction():
    options = {"isl": 500, "osl": 50, "batch": 4, "basis": "ideal"}
    found = rl.predict("llama-3.1-8b", "h100-sxm", **options)
    assert rl.ttft("llama-3.1-8b", "h100-sxm", **options) == found.ttft
    assert rl.tpot("llama-3.1-8b", "h100-sxm", **options) == found.tpot
    assert rl.knee("llama-3.1-8b", "h100-sxm", **options) == found.knees


def test_a_row_states_the_same_figures_in_the_units_of_its_keys():
    found = rl.predict("gemma-3-27b", "h100-sxm", isl=500, osl=50, batch=4, slo={"tpot": 0.05})
    row = found.to_dict()
    for key, value in (("ttft_ms", found.ttft), ("tpot_ms", found.tpot), ("e2el_ms", found.e2el)):
        assert close(row[key], value * 1e3)
    assert close(row["weights_gb"], found.memory.weights / 1e9)
    assert close(row["kv_cache_gb"], found.memory.kv_cache / 1e9)
    assert row["output_tok_s"] == found.output_tok_s
    assert row["memory_knee"] == found.knees.memory
    assert row["slo_knee"] == found.knees.slo
    assert (row["knee"], row["knee_bound"]) == (found.knee, found.knee_bound)
