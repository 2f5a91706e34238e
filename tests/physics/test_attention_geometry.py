"""Which tokens see which: closed forms against explicit loops, and sums over chunks."""

from itertools import pairwise

import numpy as np
from conftest import SAMPLE_GPUS, close, deploy, deployments, gqas, mlas, models
from every_case import each
from hypothesis import assume, given
from hypothesis import strategies as st

import roofline as rl
import roofline.numbers.arrays  # arrays are numbers from here on
from roofline.physics.kernels import pairs, reach
from roofline.physics.layers.latent import mla_crossover
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.specs.gpu import ATTENTION_DECODE, MLA_DECODE, MLA_PREFILL
from roofline.specs.model import Gqa


def attention(**limits):
    return Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1, **limits)


def sees(query, key, mixer):
    """Whether a token sees another, as the mask is defined."""
    if key > query:
        return False
    if mixer.window is not None:
        return query - key < mixer.window
    if mixer.chunk is not None:
        return query // mixer.chunk == key // mixer.chunk
    return True


every_mask = each(
    "mixer",
    [attention(), *(attention(window=n) for n in (1, 3, 8, 50)), *(attention(chunk=n) for n in (1, 3, 8, 50))],
    ids=lambda mixer: f"window {mixer.window} chunk {mixer.chunk}",
)


@every_mask
def test_pairs_of_a_whole_sequence_equal_a_loop_over_its_tokens(mixer):
    for tokens in range(41):
        counted = sum(sees(query, key, mixer) for query in range(tokens) for key in range(tokens))
        assert pairs(float(tokens), 0.0, mixer) == counted


@every_mask
def test_pairs_equal_a_loop_over_the_new_tokens(mixer):
    for cached in range(0, 30, 3):
        for new in range(12):
            counted = sum(
                sees(query, key, mixer) for query in range(cached, cached + new) for key in range(cached + new)
            )
            assert pairs(float(new), float(cached), mixer) == counted


@every_mask
def test_reach_bounds_what_the_last_token_sees(mixer):
    for tokens in range(1, 41):
        seen = sum(sees(tokens - 1, key, mixer) for key in range(tokens))
        assert seen <= reach(float(tokens), mixer) <= tokens
    if mixer.chunk is None:
        assert reach(40.0, mixer) == sum(sees(39, key, mixer) for key in range(40))


@given(mixer=gqas(), chunks=st.lists(st.integers(1, 5000), min_size=1, max_size=8), cached=st.integers(0, 10_000))
def test_pairs_over_the_chunks_of_a_prompt_sum_exactly_to_the_whole(mixer, chunks, cached):
    ends = [cached + sum(chunks[:position]) for position in range(len(chunks) + 1)]
    parts = sum(pairs(float(end - start), float(start), mixer) for start, end in pairwise(ends))
    assert parts == pairs(float(sum(chunks)), float(cached), mixer)


@given(mixer=gqas(reach=("full", "window")), new=st.integers(1, 3000), cached=st.integers(0, 3000))
def test_more_tokens_see_more_pairs(mixer, new, cached):
    assert pairs(new + 1.0, float(cached), mixer) > pairs(float(new), float(cached), mixer)
    assert pairs(float(new), cached + 1.0, mixer) >= pairs(float(new), float(cached), mixer)


def exact_pairs(new, cached, mixer):
    """Pairs in whole numbers of any size: every term of the sum over tokens, counted block by block."""
    window, chunk = mixer.window, mixer.chunk

    def from_start(tokens):
        if window is not None:
            ramp = min(tokens, window)
            return ramp * (ramp + 1) // 2 + (tokens - ramp) * window
        if chunk is not None:
            return tokens // chunk * (chunk * (chunk + 1) // 2) + (tokens % chunk) * (tokens % chunk + 1) // 2
        return tokens * (tokens + 1) // 2

    return from_start(cached + new) - from_start(cached)


@given(
    mixer=st.sampled_from([attention(), *(attention(window=n) for n in (4096, 10**7, 10**9))])
    | st.builds(lambda chunk: attention(chunk=chunk), st.sampled_from([8192, 10**6, 10**7])),
    new=st.integers(1, 10**9) | st.integers(1, 1000),
    cached=st.integers(0, 10**9) | st.integers(10**9 - 1000, 10**9),
)
def test_a_few_tokens_after_very_many_see_as_many_pairs_as_counting_says(mixer, new, cached):
    exact = exact_pairs(new, cached, mixer)
    assert abs(pairs(float(new), float(cached), mixer) - exact) <= 1e-15 * exact
    both = pairs(np.array([1.0, new]), np.array([2.0, cached]), mixer)
    assert both[1] == pairs(float(new), float(cached), mixer)


def test_no_step_gets_faster_as_very_long_contexts_grow():
    lengths = np.unique(np.concatenate([np.geomspace(1e8, 1e9, 200).round(), np.arange(1e9 - 100.0, 1e9 + 1.0)]))
    for model in ("llama-3.1-8b", "deepseek-v3", "gpt-oss-120b", "deepseek-v4-flash", "deepseek-v3.2"):
        for osl in (2, 3, 300):
            found = rl.predict(model, "gb300-nvl72", isl=lengths, osl=osl, tp=1, allow_oversize=True)
            steps = np.diff(found.tpot) / found.tpot[1:]
            assert steps.min() > -1e-14  # rounding; a difference of two squares made it -1e-7
    plain = rl.predict("llama-3.1-8b", "gb300-nvl72", isl=lengths[-50:], osl=3, tp=1, allow_oversize=True)
    assert (np.diff(plain.tpot) > 0.0).all()


def flops(passed):
    return sum(kernel.count * kernel.work.flop for kernel in passed.kernels if kernel.name != "head")


@given(
    deployment=deployments(models(mixers=gqas())),
    chunks=st.lists(st.integers(1, 3000), min_size=2, max_size=5),
    batch=st.integers(1, 64),
)
def test_flops_over_the_chunks_of_a_prompt_sum_to_the_whole_but_for_the_head(deployment, chunks, batch):
    ends = [sum(chunks[:position]) for position in range(len(chunks) + 1)]
    parts = sum(
        flops(prefill_pass(deployment, float(batch), float(end - start), float(start))) for start, end in pairwise(ends)
    )
    assert close(parts, flops(prefill_pass(deployment, float(batch), float(ends[-1]))))


@given(deployment=deployments(models(mixers=mlas())), above=st.lists(st.integers(0, 900), min_size=2, max_size=4))
def test_latent_attention_in_chunks_pays_again_for_expanding_the_cached_latent_only(deployment, above):
    crossover = max(mla_crossover(mixer) for _, mixer in deployment.model.mixers)
    chunks = [int(crossover) + 1 + more for more in above]  # at and above the crossover: expanded
    ends = [sum(chunks[:position]) for position in range(len(chunks) + 1)]
    passes = [prefill_pass(deployment, 1.0, float(end - start), float(start)) for start, end in pairwise(ends)]
    whole = prefill_pass(deployment, 1.0, float(ends[-1]))
    assume(not any(kernel.count for passed in passes for kernel in passed.kernels if kernel.kind is MLA_DECODE))

    def without_expansion(passed):
        return flops(passed) - expansion(passed)

    def expansion(passed):
        return sum(kernel.count * kernel.work.flop for kernel in passed.kernels if kernel.name == "kv_b")

    assert close(sum(without_expansion(passed) for passed in passes), without_expansion(whole))
    # Each chunk expands the latent of all tokens up to its end.
    assert close(sum(expansion(passed) for passed in passes), expansion(whole) * sum(ends) / ends[-1])


@given(mixer=mlas(), cached=st.integers(20_000, 200_000))
def test_a_few_tokens_after_a_long_prefix_take_less_arithmetic_than_expanding_it(mixer, cached):
    expand_prefix = 2.0 * mixer.kv_rank * mixer.heads * (mixer.nope + mixer.v) * cached

    def extra(new):
        """Scores and outputs in the latent, over those in expanded keys and values."""
        return 2.0 * mixer.heads * (2.0 * mixer.kv_rank - mixer.nope - mixer.v) * new * cached

    crossover = mla_crossover(mixer)
    assert extra(0.99 * crossover) < expand_prefix < extra(1.01 * crossover)


@each("gpu", SAMPLE_GPUS)
@each("basis", ["ideal", "calibrated"])
def test_one_token_after_a_long_prefix_is_computed_in_the_latent_and_a_whole_prompt_is_not(gpu, basis):
    deployment = deploy("deepseek-v3", gpu, plan=Plan(tp=8), basis=basis)

    def kinds(new, cached):
        return {kernel.kind for kernel in prefill_pass(deployment, 1.0, new, cached).kernels if kernel.count}

    assert MLA_PREFILL in kinds(4096.0, 0.0)
    assert MLA_DECODE not in kinds(4096.0, 0.0)
    if basis == "ideal":  # without the latencies of the one kernel or the other
        assert MLA_DECODE in kinds(1.0, 30_000.0)
        assert MLA_PREFILL not in kinds(1.0, 30_000.0)


def test_the_crossover_of_deepseek_is_171_tokens():
    # r (nope + v) / (2 r - nope - v) = 512 x 256 / (1024 - 256) = 170.67
    mixer = deploy("deepseek-v3", "h200-sxm").model.groups[0].layers[0].mixer
    assert close(mla_crossover(mixer), 512 * 256 / 768)


@given(mixer=gqas(reach=("full", "window")), steps=st.integers(1, 400), context=st.integers(1, 5000))
def test_the_mean_length_of_a_generation_is_that_of_its_steps_one_by_one(mixer, steps, context):
    one_by_one = sum(pairs(1.0, float(context + step), mixer) for step in range(steps))
    assert pairs(float(steps), float(context), mixer) == one_by_one


@given(deployment=deployments(models(mixers=gqas())), steps=st.integers(2, 50), context=st.integers(1, 3000))
def test_attention_of_the_mean_step_does_the_mean_work_of_the_steps(deployment, steps, context):
    def seen(passed):
        return [kernel.work.flop + kernel.work.kv_bytes for kernel in passed.kernels if kernel.kind is ATTENTION_DECODE]

    singles = [seen(decode_pass(deployment, 4.0, float(context + step))) for step in range(steps)]
    mean = seen(decode_pass(deployment, 4.0, float(context), float(steps)))
    for position, value in enumerate(mean):
        assert close(value, sum(single[position] for single in singles) / steps)
