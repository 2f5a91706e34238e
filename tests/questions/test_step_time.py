"""Time of one step: what a burst takes of it, many steps at once, and what is no step."""

import math

import numpy as np
import pytest
from every_case import each

import roofline as rl
from roofline.physics.passes import decode_pass

CASES = {
    "dense": ("llama-3.1-8b", "h100-sxm", {"tp": 1}),
    "windows": ("gemma-3-27b", "h100-sxm", {"tp": 2}),
    "experts on two ranks": ("qwen3-235b-a22b", "h100-sxm", {"tp": 4, "dp": 2, "ep": 8}),
    "latent attention": ("deepseek-r1", "b200", {"tp": 8}),
}
NAN = math.nan


@each("name", CASES)
def test_steps_of_a_burst_take_what_predict_says(name):
    model, gpu, options = CASES[name]
    ranks = options.get("dp", 1)
    p = rl.predict(model, gpu, isl=1000, osl=2, batch=8 * ranks, **options)
    assert rl.step_time(p, decode=[1000] * 8) == pytest.approx(decode_pass(p.deployment, 8.0 * ranks, 1000.0).time)
    assert rl.step_time(model, gpu, decode=[1000.5] * 8, **options) == pytest.approx(p.tpot, rel=1e-4)
    one = rl.predict(model, gpu, isl=1000, osl=2, batch=ranks, **options)
    engine = one.deployment.effective_engine
    first = one.ttft - engine.network - engine.request
    assert rl.step_time(one, prefill=[(1000, 0)]) == pytest.approx(first, rel=1e-9)
    later = rl.predict(model, gpu, isl=1000, prefix=600, osl=2, batch=ranks, **options)
    assert rl.step_time(one, prefill=[(400, 600)]) == pytest.approx(
        later.ttft - engine.network - engine.request, rel=1e-9
    )


@each("name", CASES)
def test_prompts_of_one_step_share_a_call_of_attention_as_those_of_a_burst_do(name):
    model, gpu, options = CASES[name]
    four = rl.predict(model, gpu, isl=1000, prefix=400, osl=2, batch=4 * options.get("dp", 1), **options)
    engine = four.deployment.effective_engine
    first = four.ttft - engine.network - engine.request
    assert rl.step_time(four, prefill=[(600, 400)] * 4) == pytest.approx(first, rel=1e-9)
    beside, alone = ({"decode": [500] * 8}, {})
    for others in (beside, alone):
        long, both = (rl.step_time(four, prefill=chunks, **others) for chunks in ([(600, 400)], [(600, 400), (9, 0)]))
        assert long < both < 1.05 * long
        assert both == pytest.approx(rl.step_time(four, prefill=[(9, 0), (600, 400)], **others), rel=1e-12)


@each("name", CASES)
def test_many_steps_are_each_of_them(name):
    model, gpu, options = CASES[name]
    p = rl.predict(model, gpu, **options)
    steps = [
        ([(512, 0)], [1000.0]), ([(100, 50), (7, 0)], [1000.0, 30_000.0, 2.0]), ([], [10.0, 20.0]), ([(300, 4)], []),
        ([], []),
    ]  # fmt: skip
    chunks = [[*pairs, *[(0, 0)] * (2 - len(pairs))] for pairs, _ in steps]
    contexts = [[*some, *[NAN] * (3 - len(some))] for _, some in steps]
    alone = [rl.step_time(p, prefill=pairs, decode=some) for pairs, some in steps]
    assert rl.step_time(p, prefill=chunks, decode=contexts) == pytest.approx(alone, rel=1e-9)
    assert alone[-1] == 0.0
    grid = rl.step_time(p, prefill=chunks[0], decode=np.array(contexts)[:3, None])
    assert grid.shape == (3, 1)
    assert grid[0, 0] == pytest.approx(alone[0], rel=1e-9)


def test_unequal_contexts_are_the_mean_of_equal_ones_where_windows_bend_attention():
    p = rl.predict("gemma-3-27b", "h100-sxm", tp=2)
    mixed = rl.step_time(p, decode=[100, 40_000])
    ends = [rl.step_time(p, decode=[context] * 2) for context in (100, 40_000)]
    assert mixed == pytest.approx(sum(ends) / 2.0, rel=1e-12)
    assert abs(mixed / rl.step_time(p, decode=[20_050] * 2) - 1.0) > 1e-4


def test_a_prompt_beside_sequences_costs_less_than_a_step_of_its_own_and_the_factor_of_the_engine_holds():
    p = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, engine="vllm")
    step, alone = rl.step_time(p, decode=[500] * 32), rl.step_time(p, prefill=[(256, 0)])
    both = rl.step_time(p, prefill=[(256, 0)], decode=[500] * 32)
    assert max(step, alone) < both < step + alone
    longer = [rl.step_time(p, prefill=[(new, 0)], decode=[500] * 32) for new in (1, 64, 256, 1024)]
    assert longer == sorted(longer)
    slower = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, engine="sglang")
    assert rl.step_time(slower, decode=[500] * 32) > 0.0


REFUSED = {
    "a load": ({"decode": [1], "request_rate": 2}, "leave out request_rate"),
    "lengths": ({"decode": [1], "isl": 2}, "leave out isl"),
    "no pairs": ({"prefill": [512]}, "pairs of numbers"),
    "three numbers": ({"prefill": [(1, 2, 3)]}, "pairs of new and cached tokens"),
    "ragged": ({"prefill": [(1, 2), (1,)]}, "alike in every step"),
    "negative": ({"decode": [-1]}, "none negative"),
    "infinite": ({"decode": [math.inf]}, "none negative"),
    "no chunk": ({"prefill": [(NAN, 0)]}, "none negative"),
    "words": ({"decode": ["many"]}, "decode needs numbers"),
    "a number": ({"decode": 3.0}, "decode needs numbers"),
    "passes of their own": ({"engine": "sglang", "prefill": [(8, 0)], "decode": [1]}, "passes of their own"),
}


@each("name", REFUSED)
def test_what_is_no_step_is_refused(name):
    options, words = REFUSED[name]
    with pytest.raises(rl.BadInput, match=words):
        rl.step_time("llama-3.1-8b", "h100-sxm", **options)
