"""LoRA adapters: bytes and kernels counted by hand, what tensor parallelism divides, and limits."""

import numpy as np
import pytest

import roofline as rl
from roofline.physics.adapters import adapter_bytes, distinct_adapters, expand, shrink
from roofline.physics.memory import memory, start_up_memory
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Adapters, Plan
from roofline.specs.gpu import ADAPTERS
from roofline.support.errors import BadInput
from roofline.support.records import replace

LLAMA_2 = rl.load_model("llama-2-7b")
LLAMA_3 = rl.load_model("llama-3.1-8b")


def of(number=1, rank=16, slots=None, slot_rank=None, targets="all"):
    return Adapters(number, rank, slots or number, slot_rank or rank, targets)


def deployed(model="llama-3.1-8b", gpu="h100-sxm", **options):
    return rl.predict(model, gpu, isl=1000, osl=100, **options).deployment


# q, k, v, o of 4096 x 4096; gate, up, down between 4096 and 11008; 32 layers, 2 bytes a value.
BY_HAND = 32 * 16 * (4 * (4096 + 4096) + 3 * (4096 + 11008)) * 2


def test_adapters_of_rank_16_and_64_are_as_large_as_published_ones():
    # github.com/vllm-project/vllm/issues/10062: adapters of Llama 2 7B of 160 MB (r 16) and 640 MB (r 64), in fp32
    assert adapter_bytes(LLAMA_2, Plan(), of(rank=16)) == BY_HAND == 79_953_920
    assert 2 * adapter_bytes(LLAMA_2, Plan(), of(rank=16)) == pytest.approx(160e6, rel=0.01)
    assert 2 * adapter_bytes(LLAMA_2, Plan(), of(rank=64)) == pytest.approx(640e6, rel=0.01)


def test_sixteen_requests_with_an_adapter_each_on_one_gpu():
    # The sum that github.com/vllm-project/vllm/issues/17003 asks for: Llama 7B, 16 requests of 16 adapters, one H100
    p = rl.predict("llama-2-7b", "h100-sxm", isl=1900, osl=148, batch=16, lora="16:16")
    weights = 2 * 6_738_415_616
    cache = 16 * 2048 * (2 * 32 * 4096 * 2)
    row = p.to_dict(["weights_gb", "kv_cache_gb", "lora_gb", "fits"])
    assert row["weights_gb"] == pytest.approx(weights / 1e9)
    assert row["kv_cache_gb"] == pytest.approx(cache / 1e9)
    assert row["lora_gb"] == pytest.approx(16 * BY_HAND / 1e9)
    assert row["fits"]
    without = rl.predict("llama-2-7b", "h100-sxm", isl=1900, osl=148, batch=16).memory
    assert p.memory.used - without.used == pytest.approx(16 * BY_HAND)


def test_tensor_parallelism_divides_b_of_columns_and_a_of_rows():
    # Column-parallel q, k, v, gate, up keep a whole A (4096 in); row-parallel o, down keep a whole B (4096 out).
    whole = 16 * 2 * 32
    columns = 5 * 4096 + (4096 + 2 * 1024 + 2 * 14336) / 4
    rows = (4096 + 14336) / 4 + 2 * 4096
    assert adapter_bytes(LLAMA_3, Plan(tp=4), of()) == whole * (columns + rows)


def test_targets_are_nested():
    moe = rl.load_model("qwen3-30b-a3b")
    sizes = [adapter_bytes(moe, Plan(), of(targets=targets)) for targets in ("attention", "dense", "all")]
    experts = 48 * 128 * 3 * (2048 + 768) * 16 * 2
    assert sizes[0] == sizes[1]  # no dense network, and the router has none
    assert sizes[2] - sizes[1] == experts
    dense = [adapter_bytes(LLAMA_3, Plan(), of(targets=targets)) for targets in ("attention", "dense", "all")]
    assert dense[0] < dense[1] == dense[2]


def test_expert_parallelism_divides_the_adapters_of_experts():
    moe = rl.load_model("qwen3-30b-a3b")
    whole, spread = (
        adapter_bytes(moe, plan, of()) - adapter_bytes(moe, plan, of(targets="dense"))
        for plan in (Plan(), Plan(tp=4, ep=4))
    )
    assert spread == whole / 4


@pytest.mark.parametrize("number", [1, 2, 8, 1000])
def test_distinct_adapters_are_one_at_one_request_and_all_at_many(number):
    assert distinct_adapters(number, 1.0) == pytest.approx(1.0)
    assert distinct_adapters(number, 1e6) == pytest.approx(number)
    rising = [distinct_adapters(number, float(batch)) for batch in (1, 2, 5, 50)]
    assert rising == sorted(rising)


def test_distinct_adapters_are_those_of_drawn_requests():
    drawn = np.random.default_rng(0).integers(0, 8, (4000, 6))
    mean = np.mean([len(set(row)) for row in drawn.tolist()])
    assert distinct_adapters(8, 6.0) == pytest.approx(mean, rel=0.01)


def test_work_of_a_fused_multiplication_by_hand():
    first, second = shrink(10.0, 4096.0, 3, 16, 2.5), expand(10.0, 6144.0, 3, 16, 2.5)
    assert first.flop == 2 * 10 * 16 * 3 * 4096
    assert first.weight_bytes == 2.5 * 3 * 16 * 4096 * 2
    assert first.activation_bytes == 10 * 4096 * 2 + 10 * 3 * 16 * 4
    assert second.flop == 2 * 10 * 16 * 6144
    assert second.weight_bytes == 2.5 * 16 * 6144 * 2
    assert second.activation_bytes == 10 * 3 * 16 * 4 + 2 * 10 * 6144 * 2


def test_a_pass_has_two_kernels_for_each_multiplication_and_reads_each_adapter_once():
    deployment = replace(deployed(), adapters=of())
    passed = decode_pass(deployment, 4.0, 1000.0)
    own = [kernel for kernel in passed.kernels if kernel.part == ADAPTERS]
    assert [kernel.name for kernel in own[:2]] == ["lora shrink, qkv", "lora expand, qkv"]
    assert len(own) == 8  # qkv; o; gate, up; down
    assert sum(kernel.count * kernel.work.weight_bytes for kernel in own) == adapter_bytes(LLAMA_3, Plan(), of())
    assert passed.launches == decode_pass(deployed(), 4.0, 1000.0).launches + 8 * 32


def test_flop_of_experts_are_those_of_the_routed_tokens():
    deployment = replace(deployed("qwen3-30b-a3b", routing="uniform"), adapters=of(4))
    own = [kernel for kernel in prefill_pass(deployment, 2.0, 500.0).kernels if "experts" in kernel.name]
    own = [kernel for kernel in own if kernel.part == ADAPTERS]
    assert sum(kernel.count * kernel.work.flop for kernel in own) == 48 * 2 * 1000 * 8 * 16 * 3 * (2048 + 768)


def test_more_adapters_ranks_and_slots_are_never_faster_nor_smaller():
    for changes in ("1:16", "4:16", "16:16"), ("4:8", "4:16", "4:64"), ("4:16:attention", "4:16:dense"):
        cases = [rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, osl=100, batch=8, lora=text) for text in changes]
        for figure in (lambda p: p.ttft, lambda p: p.tpot, lambda p: p.memory.used):
            assert sorted(map(figure, cases)) == [*map(figure, cases)]


def test_no_adapters_are_the_model_to_the_bit():
    options = {"isl": 1000, "osl": 100, "concurrency": 16}
    none = rl.predict("llama-3.1-8b", "h100-sxm", lora="0:16", **options)
    plain = rl.predict("llama-3.1-8b", "h100-sxm", **options)
    assert none.to_dict() == plain.to_dict()


def test_slots_and_their_rank_cost_memory_and_rank_alone_time():
    lean, slots, rank = (
        rl.predict("llama-3.1-8b", "h100-sxm", batch=8, lora="4:16", **more)
        for more in ({}, {"max_loras": 8}, {"max_lora_rank": 64})
    )
    assert slots.memory.adapters == 2 * lean.memory.adapters
    assert slots.tpot == lean.tpot
    assert rank.memory.adapters == 4 * lean.memory.adapters
    assert rank.tpot > lean.tpot


def test_adapters_leave_less_for_the_cache():
    with_slots = deployed(engine="vllm", lora="8:64")
    plain = deployed(engine="vllm")
    taken = adapter_bytes(LLAMA_3, Plan(), of(8, 64))
    assert start_up_memory(plain).kv_cache - start_up_memory(with_slots).kv_cache == pytest.approx(taken)
    assert memory(with_slots, 8.0, 1000.0).adapters == taken
    assert memory(with_slots, 8.0, 1000.0).weights == memory(plain, 8.0, 1000.0).weights
    assert rl.knee(rl.predict("llama-3.1-8b", "l40s", lora="32:64")).memory < rl.knee("llama-3.1-8b", "l40s").memory


def test_arrays_traces_and_programs_have_the_figures_of_single_cases():
    options = {"isl": 1000, "osl": 100, "lora": "8:16"}
    batches = np.array([1, 2, 7, 64] * 20)
    several = rl.predict("llama-3.1-8b", "h100-sxm", batch=batches, **options)
    for place in range(4):
        one = rl.predict("llama-3.1-8b", "h100-sxm", batch=int(batches[place]), **options)
        assert several.tpot[place] == pytest.approx(one.tpot, rel=1e-12)
        assert several.ttft[place] == pytest.approx(one.ttft, rel=1e-12)
    loaded = rl.predict("llama-3.1-8b", "h100-sxm", concurrency=np.array([4.0, 16.0]), **options)
    again = [rl.predict("llama-3.1-8b", "h100-sxm", concurrency=16, **options) for _ in range(3)][-1]
    assert loaded.tpot[1] == pytest.approx(again.tpot, rel=1e-9)


def test_steps_with_prompts_see_the_adapters_of_all_requests():
    options = {"isl": 1000, "osl": 100, "concurrency": 32, "request_rate": None}
    one, many = (rl.predict("llama-3.1-8b", "h100-sxm", lora=text, **options) for text in ("1:64", "64:64"))
    step = many.decode.time - one.decode.time
    assert step > 0.0
    assert many.tpot - one.tpot >= 0.9 * step  # the added prompt does not hide what the others read


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lora": "8"}, "must be 8:16"),
        ({"lora": "8:0"}, "rank 1 to"),
        ({"lora": "8:16:mlp"}, "none of all, attention, dense"),
        ({"lora": 8}, "must be 8:16"),
        ({"lora": "8:16", "max_loras": 7}, "less than the 8"),
        ({"lora": "8:16", "max_lora_rank": 8}, "less than the 16"),
        ({"max_loras": 2}, "state them as well"),
    ],
)
def test_what_makes_no_adapters_is_refused(options, said):
    with pytest.raises(BadInput, match=said):
        rl.predict("llama-3.1-8b", "h100-sxm", **options)
