"""What one GPU must hold, and the largest batch that fits."""

from dataclasses import replace

import pytest
from conftest import SAMPLE_GPUS, SAMPLE_MODELS, close, deploy, deployments
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.memory import kv_bytes_per_sequence, largest_batch, memory, parameters, weight_bytes
from roofline.physics.plan import Plan


def assert_largest(deployment, length):
    most = largest_batch(deployment, length)
    assert most >= 0.0
    assert most == int(most)
    if most:
        assert memory(deployment, most, length).fits
    assert not memory(deployment, most + 1.0, length).fits


@each("gpu", SAMPLE_GPUS)
@each("name", SAMPLE_MODELS)
@each("plan", [Plan(), Plan(tp=8), Plan(tp=4, pp=2), Plan(tp=2, dp=4), Plan(pp=3)], ids=str)
def test_the_largest_batch_fits_and_one_more_does_not(gpu, name, plan):
    for length in (1.0, 130.0, 2048.0, 9001.0, 131072.0):
        assert_largest(deploy(name, gpu, plan), length)


@each("quantization", ["fp8", "int4"])
@each("name", ["llama-3.1-70b", "gemma-3-27b", "mixtral-8x7b"])
def test_the_largest_batch_fits_in_other_formats_too(name, quantization):
    for length in (100.0, 4096.0):
        assert_largest(deploy(name, "h200-sxm", Plan(tp=2), quantization), length)


@given(deployment=deployments(), length=st.integers(1, 200_000), batch=st.integers(1, 500))
def test_memory_is_the_sum_of_its_shares_and_more_or_longer_sequences_never_need_less(deployment, length, batch):
    assert_largest(deployment, float(length))
    need = memory(deployment, float(batch), float(length))
    assert close(need.used, need.weights + need.kv_cache + need.activations + need.reserve)
    assert close(need.used_fraction, need.used / need.usable)
    assert need.fits == (need.used_fraction <= 1.0)
    for more in ((batch + 1.0, float(length)), (float(batch), length + 1.0)):
        assert memory(deployment, *more).used >= need.used


@each("name", rl.models())
def test_weights_of_one_gpu_are_the_parameters_at_their_formats(name):
    deployment = deploy(name, "h100-sxm")
    count, sections = parameters(deployment.model), deployment.quantization.sections
    expected = sum(getattr(count, section) * scheme.weight_nbytes for section, scheme in sections.items())
    assert close(weight_bytes(deployment.model, Plan(), deployment.quantization), expected)


@each(("name", "gib"), [("gpt-oss-120b", 60.8), ("gpt-oss-20b", 12.8)])
def test_checkpoint_sizes_are_the_published_ones(name, gib):
    # Model cards of gpt-oss (arXiv 2508.10925, table 1): checkpoints of 60.8 and 12.8 GiB.
    deployment = deploy(name, "h100-sxm")
    assert abs(weight_bytes(deployment.model, Plan(), deployment.quantization) / 2**30 - gib) < 0.05


@pytest.mark.parametrize("name", ["llama-3.1-70b", "mixtral-8x7b", "gemma-3-27b"])
def test_ranks_share_out_weights_and_cache(name):
    whole, shard = (deploy(name, "h200-sxm", Plan(tp=tp)) for tp in (1, 8))
    one, eighth = (memory(deployment, 4.0, 3000.0) for deployment in (whole, shard))
    assert close(8.0 * eighth.kv_cache, one.kv_cache)
    # Norms and routers are held by every rank: well under a part in a thousand.
    assert 0.0 <= 8.0 * eighth.weights / one.weights - 1.0 < 1e-3


def test_the_latent_cache_does_not_shrink_with_tensor_parallelism_but_with_data_parallelism():
    cached = {
        plan: memory(deploy("deepseek-v3", "h200-sxm", plan), 64.0, 4096.0).kv_cache
        for plan in (Plan(), Plan(tp=8), Plan(dp=8))
    }
    assert cached[Plan(tp=8)] == cached[Plan()]
    assert close(8.0 * cached[Plan(dp=8)], cached[Plan()])


@each("name", ["llama-3.1-405b", "gemma-3-27b", "deepseek-v3"])
@each("pp", [2, 3, 7])
def test_the_fullest_stage_holds_at_least_its_share_of_the_model(name, pp):
    deployment = deploy(name, "h200-sxm", Plan(tp=8))
    model, chosen = deployment.model, deployment.quantization
    whole, staged = (weight_bytes(model, Plan(tp=8, pp=stages), chosen) for stages in (1, pp))
    assert whole / pp <= staged < whole
    for length in (100.0, 30_000.0):
        all_layers, fullest = (
            kv_bytes_per_sequence(model, Plan(tp=8, pp=stages), chosen, length) for stages in (1, pp)
        )
        assert all_layers / pp * (1.0 - 1e-12) <= fullest < all_layers


def test_more_memory_never_fits_fewer_sequences():
    deployment = deploy("llama-3.1-8b", "h100-sxm")
    bigger = [replace(deployment.gpu, memory=deployment.gpu.memory * times) for times in (0.1, 0.5, 1.0, 1.3, 4.0)]
    fits = [largest_batch(replace(deployment, gpu=gpu), 2048.0) for gpu in bigger]
    assert fits == sorted(fits)
    assert fits[0] == 0.0
    assert fits[-1] > fits[2] > 0.0
