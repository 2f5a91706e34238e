"""Weights in host memory: bytes are moved, not lost; time over the link by hand; limits and refusals."""

import pytest

import roofline as rl
from roofline.formulas.case import inputs
from roofline.physics.memory import offloadable_bytes, offloaded_bytes, start_up_memory
from roofline.physics.offload import REACHED, REACHED_BY_CPU, READ
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Offload
from roofline.support.errors import BadInput, DoesNotFit
from roofline.support.records import replace

GB = 1e9


def deployed(model="llama-3.1-8b", gpu="h100-sxm", **options):
    return rl.predict(model, gpu, isl=1000, osl=100, **options).deployment


def link_of(passed):
    (kernel,) = (kernel for kernel in passed.kernels if kernel.name == READ)
    return kernel


def read_bytes(passed):
    return sum(kernel.count * (kernel.work.weight_bytes + kernel.work.link_bytes) for kernel in passed.kernels)


@pytest.mark.parametrize(("model", "is_experts"), [("llama-3.1-8b", False), ("qwen3-30b-a3b", True)])
@pytest.mark.parametrize("size", [1 * GB, 5 * GB, None])
def test_each_weight_is_read_once_from_either_memory(model, is_experts, size):
    plain = deployed(model)
    apart = replace(plain, offload=Offload(size, is_experts))
    for make in (lambda one: decode_pass(one, 8.0, 1000.0), lambda one: prefill_pass(one, 2.0, 1000.0)):
        assert read_bytes(make(apart)) == pytest.approx(read_bytes(make(plain)), rel=1e-12)


def test_what_leaves_the_gpu_is_what_is_read_over_the_link():
    apart = replace(deployed(), offload=Offload(5 * GB))
    kernel = link_of(decode_pass(apart, 8.0, 1000.0))
    assert kernel.work.link_bytes == pytest.approx(5 * GB, rel=1e-4)  # norms leave too, and are read from HBM
    assert kernel.time == pytest.approx(kernel.work.link_bytes / (REACHED * 63e9))
    assert kernel.terms.bound == "link"
    assert link_of(decode_pass(apart.on("ideal"), 8.0, 1000.0)).time == kernel.work.link_bytes / 63e9


def test_memory_is_smaller_by_what_is_offloaded():
    plain = rl.predict("llama-3.1-8b", "h100-sxm")
    apart = rl.predict("llama-3.1-8b", "h100-sxm", offload="4GB")
    assert plain.memory.weights - apart.memory.weights == 4 * GB
    assert apart.to_dict(["offload_gb"]) == {"offload_gb": 4.0}
    vllm = [rl.predict("llama-3.1-8b", "h100-sxm", engine="vllm", **more).deployment for more in ({}, {"offload": 4e9})]
    before, after = map(start_up_memory, vllm)
    assert after.kv_cache - before.kv_cache == pytest.approx(4 * GB)


def test_no_more_is_offloaded_than_there_is():
    plain = deployed()
    everything = offloadable_bytes(plain, Offload(None))
    assert everything == 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336 + 2 * 4096) * 2
    assert offloaded_bytes(replace(plain, offload=Offload(1e15))) == everything
    experts = offloaded_bytes(replace(deployed("qwen3-30b-a3b"), offload=Offload(None, is_experts=True)))
    assert experts == 48 * 128 * 3 * 2048 * 768 * 2


def test_more_offload_is_never_faster():
    cases = [rl.predict("llama-3.1-8b", "h100-sxm", batch=4, offload=f"{size}GB") for size in (1, 2, 5, 14, 50)]
    for figure in (lambda p: p.ttft, lambda p: p.tpot, lambda p: -p.memory.weights):
        assert sorted(map(figure, cases)) == [*map(figure, cases)]
    plain = rl.predict("llama-3.1-8b", "h100-sxm", batch=4)
    assert plain.tpot < cases[0].tpot


def test_nothing_offloaded_is_the_model_to_the_bit():
    plain = rl.predict("llama-3.1-8b", "h100-sxm", concurrency=16).to_dict()
    for nothing in (0, "0"):
        assert rl.predict("llama-3.1-8b", "h100-sxm", concurrency=16, offload=nothing).to_dict() == plain


def test_a_plan_that_does_not_fit_does_with_weights_in_host_memory():
    with pytest.raises(DoesNotFit):
        rl.predict("llama-3.1-70b", "h100-sxm", tp=1)
    assert rl.predict("llama-3.1-70b", "h100-sxm", tp=1, offload="80GB").fits
    assert rl.predict("llama-3.1-70b", "h100-sxm", offload="80GB").deployment.plan.tp == 1  # the smallest that fits


def test_experts_read_what_a_step_touches():
    options = {"isl": 1000, "osl": 100, "offload": "experts"}
    one, many = (rl.predict("qwen3-30b-a3b", "h100-sxm", batch=batch, **options) for batch in (1, 64))
    touched = 8 * 3 * 2048 * 768 * 2 * 48
    assert link_of(one.decode).work.link_bytes == pytest.approx(touched)
    assert touched * 64 > link_of(many.decode).work.link_bytes > 4 * touched


def test_a_bare_number_is_gib_as_in_vllm_in_text_and_bytes_in_python():
    sizes = [deployed(offload=offload).offload.size for offload in ("4", "4GiB", 4 * 1024**3)]
    assert sizes == 3 * [4.0 * 1024**3]


def test_a_stated_bandwidth_is_taken_as_it_is():
    p = rl.predict("llama-3.1-8b", "tpu-v6e", offload="4GB", offload_bandwidth="30GB/s", allow_oversize=True)
    assert link_of(p.decode).time == pytest.approx(link_of(p.decode).work.link_bytes / 30e9)


def test_where_the_cpu_multiplies_decode_reads_host_memory_and_prompts_the_link():
    options = {"isl": 1000, "osl": 100, "offload": "experts"}
    moved = rl.predict("gpt-oss-120b", "rtx-5090", **options)
    stays = rl.predict("gpt-oss-120b", "rtx-5090", cpu_bandwidth="120GB/s", **options)
    assert stays.prefill.time == moved.prefill.time
    nbytes, ideal = link_of(stays.decode).work.link_bytes, replace(stays.deployment, basis="ideal")
    assert link_of(stays.decode).time == pytest.approx(nbytes / (REACHED_BY_CPU * 120e9))
    assert link_of(decode_pass(ideal, 1.0, 1000.0)).time == pytest.approx(nbytes / 120e9)
    assert stays.tpot < moved.tpot


def test_the_host_link_is_an_input_where_weights_cross_it():
    apart = rl.predict("llama-3.1-8b", "h100-sxm", offload="4GB")
    assert {"host_link", "offload"} <= set(inputs(apart))
    assert not {"host_link", "offload"} & set(inputs(rl.predict("llama-3.1-8b", "h100-sxm")))
    slope = rl.sensitivity("llama-3.1-8b", "h100-sxm", offload="4GB").to_rows()
    (link,) = (row for row in slope if row["input"] == "host_link" and row["result"] == "tpot")
    assert -1.0 < link["elasticity"] < -0.8


@pytest.mark.parametrize("gpu", ["gb10", "strix-halo", "m4-max"])
def test_memory_that_the_cpu_shares_cannot_be_offloaded_to(gpu):
    with pytest.raises(BadInput, match=f"CPU and GPU of {gpu} share one memory"):
        rl.predict("llama-3.1-8b", gpu, offload="4GB")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"offload": "experts"}, "has no experts"),
        ({"offload": "lots"}, "must be 40GB"),
        ({"offload": "-4GB"}, "must be 40GB"),
        ({"offload": 4}, "number of bytes"),
        ({"offload": float("nan")}, "must be 40GB"),
        ({"offload": "4GB", "offload_bandwidth": "9TB/s"}, "exceeds the 3.35 TB/s"),
        ({"offload": "4GB", "cpu_bandwidth": "fast"}, "must be a bandwidth"),
        ({"offload_bandwidth": "50GB/s"}, "state them as well"),
    ],
)
def test_what_cannot_be_offloaded_is_refused(options, said):
    with pytest.raises(BadInput, match=said):
        rl.predict("llama-3.1-8b", "h100-sxm", **options)


def test_a_gpu_without_a_known_link_needs_a_bandwidth():
    with pytest.raises(BadInput, match="states no host_link"):
        rl.predict("llama-3.1-8b", "tpu-v6e", offload="4GB")
