"""Tokens of one sequence on several GPUs: amounts by hand, and what holds for any degree."""

from functools import partial

import pytest

import roofline as rl
from roofline.numbers.operations import minimum
from roofline.physics.context import zigzag_pairs
from roofline.physics.kernels import pairs
from roofline.physics.memory import largest_batch, memory, weight_bytes
from roofline.physics.passes import Pass, decode_pass, prefill_pass
from roofline.physics.plan import Deployment
from roofline.serving.context_gains import paying_context, paying_prompt
from roofline.serving.contexts import possible_dcp
from roofline.specs.gpu import CONTEXT, HOST
from roofline.specs.model import Gqa
from roofline.support.errors import BadInput
from roofline.support.records import replace


def deployed(model: str, gpu: str = "b200", **degrees: object) -> Deployment:
    return rl.predict(model, gpu, allow_oversize=True, **degrees).deployment


def without(passed: Pass) -> dict:
    return {kernel.name: kernel for kernel in passed.kernels if kernel.part != CONTEXT}


def without_host(passed: Pass) -> list:
    return [kernel for kernel in passed.kernels if kernel.kind is not HOST]


@pytest.mark.parametrize("window", [None, 1000])
@pytest.mark.parametrize(("new", "cached", "ranks"), [(4096.0, 0.0, 2), (8192.0, 30_000.0, 4), (640.0, 100.0, 5)])
def test_the_pairs_of_all_ranks_sum_to_those_of_the_prompt(new, cached, ranks, window):
    mixer = Gqa(heads=8, kv_heads=2, head_dim=64, v_head_dim=64, window=window)
    shares = [zigzag_pairs(new, cached, ranks, rank, mixer) for rank in range(ranks)]
    assert sum(shares) == pytest.approx(pairs(new, cached, mixer), rel=1e-12)
    if window is None:
        assert max(shares) == pytest.approx(min(shares), rel=1e-12)


@pytest.mark.parametrize("cached", [0.0, 20_000.0])
@pytest.mark.parametrize("model", ["llama-3.1-70b", "gpt-oss-120b"])
def test_the_arithmetic_of_ranks_that_share_a_prompt_sums_to_that_of_one(model, cached):
    whole = prefill_pass(deployed(model, tp=2), 1.0, 16_384.0, cached)
    shared = prefill_pass(deployed(model, tp=2, cp=4, ep=1), 1.0, 16_384.0, cached)
    before, after = without(whole), without(shared)
    assert before.keys() - after.keys() <= {"experts all-reduce"}
    for name, kernel in before.items():
        if name not in {"head", "experts", "experts all-reduce"} and kernel.work.flop:
            assert 4.0 * after[name].work.flop == pytest.approx(kernel.work.flop, rel=1e-12), name


def test_decode_over_shards_has_the_arithmetic_of_the_whole_and_reads_a_share_of_the_cache():
    steps = (decode_pass(deployed("deepseek-r1", tp=8, dcp=dcp), 8.0, 50_000.0) for dcp in (1, 8))
    before, after = (without(step)["attention, absorbed"].work for step in steps)
    assert after.flop == pytest.approx(before.flop, rel=1e-12)
    assert 8.0 * after.kv_bytes == pytest.approx(before.kv_bytes, rel=1e-12)
    assert after.activation_bytes == pytest.approx(8.0 * before.activation_bytes, rel=1e-12)


def test_the_exchanges_of_a_step_are_as_counted_by_hand():
    step = decode_pass(deployed("deepseek-r1", tp=8, dcp=4), 8.0, 50_000.0)
    sent = {kernel.name: kernel.work.link_bytes for kernel in step.kernels if kernel.part == CONTEXT}
    heads = 128 / 8  # of a rank
    assert sent["queries all-gather"] == 0.75 * 2 * 8 * 4 * heads * (512 + 64)
    assert sent["outputs reduce-scatter"] == 0.75 * 2 * 8 * 4 * heads * 512
    assert sent["sums all-gather"] == 0.75 * 4 * 8 * 4 * 4 * heads


def test_a_prompt_gathers_keys_and_values_of_its_layers():
    prompt = prefill_pass(deployed("llama-3.1-70b", "h100-sxm", tp=4, cp=4), 1.0, 8192.0, 4096.0)
    (gather,) = [kernel for kernel in prompt.kernels if kernel.part == CONTEXT]
    assert gather.count == 80
    assert gather.work.link_bytes == 0.75 * 2 * (8192 + 4096) * 2 * (128 + 128)


@pytest.mark.parametrize(
    ("model", "degrees"),
    [("deepseek-r1", {"dcp": 8}), ("deepseek-v3.2", {"dcp": 4, "cp": 2}), ("llama-3.1-70b", {"cp": 2})],
)
@pytest.mark.parametrize(("batch", "length"), [(1.0, 1000.0), (32.0, 100_000.0)])
def test_no_kernel_is_faster_than_the_hardware(model, degrees, batch, length):
    split = deployed(model, tp=8, **degrees)
    for make, number in ((decode_pass, length), (partial(prefill_pass, cached=length), 500.0)):
        limits = without_host(make(split.on("ideal"), batch, number))
        kernels = without_host(make(split, batch, number))
        assert any(kernel.part == CONTEXT for kernel in kernels)
        for kernel, ideal in zip(kernels, limits, strict=True):
            assert kernel.name == ideal.name
            assert kernel.terms.total >= ideal.terms.total * (1.0 - 1e-12), kernel.name


@pytest.mark.parametrize("model", ["deepseek-r1", "deepseek-v3.2", "qwen3-next-80b-a3b", "gpt-oss-120b", "gemma-3-27b"])
def test_memory_never_grows_and_more_fits(model):
    plain = deployed(model, tp=8)
    held = memory(plain, 4.0, 60_000.0)
    for dcp in possible_dcp(plain.model, 8):
        split = plain.at(replace(plain.plan, dcp=dcp))
        assert memory(split, 4.0, 60_000.0).kv_cache <= held.kv_cache
        assert memory(split, 4.0, 60_000.0).weights == held.weights
        assert largest_batch(split, 60_000.0) >= largest_batch(plain, 60_000.0)


def test_windows_and_index_keys_are_whole_on_each_rank():
    for model, tp in (("deepseek-v3.2", 8), ("gpt-oss-120b", 16)):
        plain = deployed(model, tp=tp)
        split = plain.at(replace(plain.plan, dcp=2))
        before, after = (memory(each, 1.0, 100_000.0).kv_cache for each in (plain, split))
        assert 0.5 * before < after < 0.8 * before


def test_weights_are_those_of_tp_and_gpus_multiply():
    alone, split = deployed("llama-3.1-70b", tp=4), deployed("llama-3.1-70b", tp=4, cp=4)
    assert split.num_gpus == 16
    assert weight_bytes(split.model, split.plan, split.quantization) == weight_bytes(
        alone.model, alone.plan, alone.quantization
    )
    assert 4.0 * memory(split, 1.0, 1e5).kv_cache == memory(alone, 1.0, 1e5).kv_cache


def test_ranks_beyond_a_node_gather_over_their_own_ports():
    times = {}
    for cp in (2, 4):
        prompt = prefill_pass(deployed("llama-3.1-70b", "h100-sxm", tp=4, cp=cp), 1.0, 32_768.0)
        times[cp] = next(kernel for kernel in prompt.kernels if kernel.name == "KV all-gather")
    wire = times[4].work.link_bytes / 50e9  # two ranks of each prompt are in a node, so half of their ring is not
    assert times[2].terms.total < times[4].terms.total
    assert times[4].terms.total > wire / 3.0


@pytest.mark.parametrize(
    ("model", "degrees", "message"),
    [
        ("llama-3.1-70b", {"tp": 8, "dcp": 2}, "use dcp = 1, or tp = 16"),
        ("qwen3-235b-a22b", {"tp": 8, "dcp": 4}, "use one of dcp = 1, 2, or tp = 16"),
        ("deepseek-r1", {"tp": 8, "dcp": 3}, "use one of dcp = 1, 2, 4, 8"),
        ("qwen3-next-80b-a3b", {"tp": 2, "cp": 2}, "recurrent layers"),
        ("deepseek-v4-flash", {"tp": 4, "dcp": 2}, "compressed attention"),
        ("deepseek-v4-flash", {"tp": 4, "cp": 2}, "compressed attention"),
        ("llama-3.1-8b", {"tp": 1, "cp": 0}, "cp = 0 must be between"),
        ("llama-3.1-8b", {"tp": 1, "dcp": 10**7}, "dcp = 10000000 must be between"),
    ],
)
def test_degrees_that_no_engine_allows_are_refused_with_those_allowed(model, degrees, message):
    with pytest.raises(BadInput, match=message):
        rl.predict(model, "b200", **degrees)


def test_degrees_of_one_are_the_plan_without_them_to_the_bit():
    plain = rl.predict("deepseek-r1", "b200", tp=8, isl=4096, concurrency=16).to_dict()
    assert rl.predict("deepseek-r1", "b200", tp=8, cp=1, dcp=1, isl=4096, concurrency=16).to_dict() == plain


@pytest.mark.parametrize("degrees", [{"tp": 8, "dcp": 8}, {"tp": 4, "cp": 2}, {"tp": 4, "cp": 2, "dcp": 4, "ep": 8}])
def test_arrays_and_programs_answer_as_cases_do(degrees):
    lengths = [2000.0, 9000.0, 70_000.0]
    together = rl.predict("deepseek-r1", "b200", isl=lengths, batch=4, osl=64, allow_oversize=True, **degrees)
    for place, isl in enumerate(lengths):
        alone = rl.predict("deepseek-r1", "b200", isl=isl, batch=4, osl=64, allow_oversize=True, **degrees)
        assert together.ttft[place] == pytest.approx(alone.ttft, rel=1e-12)
        assert together.tpot[place] == pytest.approx(alone.tpot, rel=1e-12)
    many = [decode_pass(together.deployment, float(batch), 9000.0).time for batch in range(1, 60)]
    again = sum(kernel.time for kernel in decode_pass(together.deployment, 59.0, 9000.0).kernels)
    assert many[-1] == pytest.approx(again, rel=1e-12)
    assert many == sorted(many)


def test_under_a_load_longer_contexts_answer_faster_with_shards():
    plain, split = (
        rl.predict("deepseek-r1", "b200", tp=8, dcp=dcp, isl=30_000, osl=500, concurrency=16) for dcp in (1, 8)
    )
    assert split.tpot < plain.tpot
    assert split.served.slots > 4.0 * plain.served.slots


def test_lengths_from_which_it_pays_are_where_both_are_equal():
    split = deployed("deepseek-r1", tp=8, dcp=8)
    context = paying_context(split, 16.0)
    whole = split.at(replace(split.plan, dcp=1))
    assert decode_pass(split, 16.0, context).time == pytest.approx(decode_pass(whole, 16.0, context).time, rel=1e-6)
    assert decode_pass(split, 16.0, 2.0 * context).time < decode_pass(whole, 16.0, 2.0 * context).time
    assert paying_prompt(deployed("llama-3.1-70b", "h100-sxm", tp=8, cp=16)) is None
    assert minimum(paying_prompt(deployed("llama-3.1-405b", "h100-sxm", tp=8, cp=4)), 8192.0) < 8192.0
