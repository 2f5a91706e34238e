"""Attention: which tokens see which, loop by loop, and every kernel of small layers worked out by hand."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from conftest import SAMPLE_GPUS, close, deploy, deployments, gqas, mlas, models
from every_case import each
from hypothesis import assume, given
from hypothesis import strategies as st
from small_models import AFTER, PROMPT, STEP, assert_kernels, mixed, moved, multiplied, sent

import roofline as rl
import roofline.numbers.arrays  # arrays are numbers from here on
from roofline.physics.equation import Work
from roofline.physics.kernels import pairs, reach
from roofline.physics.layers.latent import mla_crossover
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.specs.gpu import ATTENTION_DECODE, MLA_DECODE, MLA_PREFILL
from roofline.specs.model import Csa, Gqa, Indexer, Mla


def attention(**limits):
    return Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1, **limits)


def sees(query, key, mixer):
    """Whether a token sees another, as the mask is defined."""
    near = mixer.window is None or query - key < mixer.window
    return key <= query and near and (mixer.chunk is None or query // mixer.chunk == key // mixer.chunk)


@each(
    "mixer",
    [attention(), *(attention(**{limit: n}) for limit in ("window", "chunk") for n in (1, 3, 8, 50))],
    ids=lambda mixer: f"window {mixer.window} chunk {mixer.chunk}",
)
def test_pairs_equal_a_loop_over_the_new_tokens_and_reach_bounds_what_the_last_one_sees(mixer):
    cases = [(new, 0) for new in range(41)] + [(new, cached) for cached in range(3, 30, 3) for new in range(12)]
    for new, cached in cases:
        ends = range(cached, cached + new), range(cached + new)
        assert pairs(float(new), float(cached), mixer) == sum(sees(query, key, mixer) for query, key in product(*ends))
    for tokens in range(1, 41):
        seen = sum(sees(tokens - 1, key, mixer) for key in range(tokens))
        assert seen <= reach(float(tokens), mixer) <= tokens
    assert mixer.chunk is not None or reach(40.0, mixer) == seen


def spans(chunks, start=0):
    """New and cached tokens of each chunk of a prompt."""
    ends = [start + sum(chunks[:place]) for place in range(len(chunks) + 1)]
    return [(float(end - begin), float(begin)) for begin, end in pairwise(ends)]


@given(mixer=gqas(), chunks=st.lists(st.integers(1, 5000), min_size=1, max_size=8), cached=st.integers(0, 10_000))
def test_pairs_over_the_chunks_of_a_prompt_sum_exactly_to_the_whole(mixer, chunks, cached):
    parts = sum(pairs(*span, mixer) for span in spans(chunks, cached))
    assert parts == pairs(float(sum(chunks)), float(cached), mixer)


@given(mixer=gqas(reach=("full", "window")), new=st.integers(1, 3000), cached=st.integers(0, 3000))
def test_more_tokens_see_more_pairs(mixer, new, cached):
    assert pairs(new + 1.0, float(cached), mixer) > pairs(float(new), float(cached), mixer)
    assert pairs(float(new), cached + 1.0, mixer) >= pairs(float(new), float(cached), mixer)


def exact_pairs(new, cached, mixer):
    """Pairs in whole numbers of any size: a ramp up to the window or of each chunk, and level beyond."""

    def from_start(tokens):
        whole, rest = divmod(tokens, mixer.chunk) if mixer.chunk else (0, tokens)
        ramp = min(rest, mixer.window or rest)
        return whole * triangle(mixer.chunk or 0) + triangle(ramp) + (rest - ramp) * (mixer.window or 0)

    def triangle(side):
        return side * (side + 1) // 2

    return from_start(cached + new) - from_start(cached)


@given(
    mixer=st.sampled_from(
        [
            attention(),
            *(attention(window=n) for n in (4096, 10**7, 10**9)),
            *(attention(chunk=n) for n in (8192, 10**6, 10**7)),
        ]
    ),
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
    parts = sum(flops(prefill_pass(deployment, float(batch), *span)) for span in spans(chunks))
    assert close(parts, flops(prefill_pass(deployment, float(batch), float(sum(chunks)))))


@given(deployment=deployments(models(mixers=mlas())), above=st.lists(st.integers(0, 900), min_size=2, max_size=4))
def test_latent_attention_in_chunks_pays_again_for_expanding_the_cached_latent_only(deployment, above):
    crossover = int(max(mla_crossover(mixer) for _, mixer in deployment.model.mixers))
    chunks = [crossover + 1 + more for more in above]  # at and above the crossover: expanded
    passes = [prefill_pass(deployment, 1.0, *span) for span in spans(chunks)]
    whole = prefill_pass(deployment, 1.0, float(sum(chunks)))
    assume(not any(kernel.count for passed in passes for kernel in passed.kernels if kernel.kind is MLA_DECODE))

    def expansion(passed):
        return sum(kernel.count * kernel.work.flop for kernel in passed.kernels if kernel.name == "kv_b")

    assert close(sum(flops(passed) - expansion(passed) for passed in passes), flops(whole) - expansion(whole))
    # Each chunk expands the latent of all tokens up to its end.
    expanded = sum(new + cached for new, cached in spans(chunks))
    assert close(sum(map(expansion, passes)), expansion(whole) * expanded / sum(chunks))


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
        run = {kernel.kind for kernel in prefill_pass(deployment, 1.0, new, cached).kernels if kernel.count}
        return run & {MLA_PREFILL, MLA_DECODE}

    assert kinds(4096.0, 0.0) == {MLA_PREFILL}
    assert basis != "ideal" or kinds(1.0, 30_000.0) == {MLA_DECODE}  # without the latencies of the one or the other


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

    singles = zip(*(seen(decode_pass(deployment, 4.0, float(context + step))) for step in range(steps)), strict=True)
    mean = seen(decode_pass(deployment, 4.0, float(context), float(steps)))
    assert all(close(value, sum(single) / steps) for value, single in zip(mean, singles, strict=True))


# --- kernels of small layers by hand, on one of two ranks -----------------------------------------

MLA = Mla(heads=8, kv_rank=64, nope=16, rope=8, v=16, q_rank=48, indexer=Indexer(heads=4, dim=32, top_k=8))
CSA = Csa(8, head_dim=32, q_rank=24, o_rank=12, o_groups=4, window=16, ratio=4, indexer=Indexer(4, dim=16, top_k=8))


def latents(tokens, scored, read):
    """What comes before latent attention; index keys take 33 bytes in fp8 with their scale."""
    scores = Work(2 * 4 * 32 * scored, 0, 33 * read, 2 * 4 * scored + 2 * 4 * 32 * tokens, depth=32)
    return {
        "q_a, kv_a": multiplied(tokens, 64 + 8 + 48 + 32 + 4, 100),
        "q_b": multiplied(tokens, 4 * 24, 48),
        "q latent norm": moved(2 * 2 * tokens * 48),
        "kv latent norm": moved(2 * 2 * tokens * 64),
        "rope, append": (1, Work(weight_bytes=2 * (48 + 64), kv_bytes=tokens * (72 * 2 + 33))),
        "index q": multiplied(tokens, 4 * 32, 48),
        "index scores": (1, scores),
    }


def test_kernels_of_latent_attention_over_a_prompt_are_those_worked_out_by_hand():
    seen, moved = 3 * 55, 2 * 4 * 40 * 3 * (2 * 10)
    attention = Work(2 * 4 * 40 * seen, activation_bytes=moved, exponentials=4 * seen, serial_depth=10)
    expected = {
        **latents(30, 3 * 55, 30),
        "kv_b": multiplied(30, 4 * 32, 64),
        "attention": (1, attention),
        "o": multiplied(30, 100, 64),
        "attention all-reduce": sent(2 * 30 * 100),
    }
    assert_kernels(mixed(replace(MLA, indexer=replace(MLA.indexer, top_k=10)), PROMPT), expected)


def test_tokens_of_a_prompt_that_choose_are_decode_steps_of_one_token_each():
    absorbed = Work(2 * 30 * 4 * 64 * 16, 2 * 4 * 64 * 16, 0, 2 * 30 * 4 * (64 + 16), depth=16)
    seen, width = 3 * (36 + 2 * 8), 2 * 64 + 8  # of ten tokens the first eight see all before them, the others eight
    attention = Work(
        2 * 4 * width * seen, 0, kv_bytes=seen * 72 * 2, activation_bytes=2 * 30 * 4 * width, serial_depth=seen / 30
    )
    expected = {
        **latents(30, 3 * 55, 30),
        "absorb k": (1, absorbed),
        "attention, absorbed": (1, attention),
        "absorb v": (1, absorbed),
        "o": multiplied(30, 100, 64),
        "attention all-reduce": sent(2 * 30 * 100),
    }
    runs = {name: kernel for name, kernel in mixed(MLA, PROMPT).items() if kernel[0]}
    assert_kernels(runs, expected)
    assert mixed(MLA, PROMPT)["attention"][0] == 0  # what runs instead where a prompt has less to choose from


def test_kernels_of_latent_attention_in_a_step_are_those_worked_out_by_hand():
    absorbed = Work(2 * 3 * 4 * 64 * 16, 2 * 4 * 64 * 16, 0, 2 * 3 * 4 * (64 + 16), depth=16)
    width = 2 * 64 + 8
    attention = Work(
        2 * 4 * width * 3 * 8, 0, kv_bytes=3 * 8 * 72 * 2, activation_bytes=2 * 3 * 4 * width, serial_depth=8
    )
    expected = {
        **latents(3, 3 * 22.5, 3 * 22.5),
        "absorb k": (1, absorbed),
        "attention, absorbed": (1, attention),
        "absorb v": (1, absorbed),
        "o": multiplied(3, 100, 64),
        "attention all-reduce": sent(2 * 3 * 100),
    }
    assert_kernels(mixed(MLA, STEP), expected)
    gated = mixed(replace(MLA, out_gate=True, head_gate=True), STEP)
    assert (gated["output gate"], gated["head gate"]) == (moved(3 * 2 * 3 * 64), moved(2 * 2 * 3 * 64))


@pytest.mark.parametrize("span", [AFTER, STEP], ids=["prompt", "step"])
def test_kernels_of_compressed_attention_are_those_worked_out_by_hand(span):
    # a window of 16 is full; of entries of 4 tokens, 8 are chosen: those of up to 32 tokens, which there are not yet
    tokens, length = (3, 22.5) if span.is_decode else (30, 255)
    near = 16 if span.is_decode else 160
    seen, kept = near + length / 4, 16 + 20 / 4
    scores = Work(
        flop=2 * 4 * 16 * 3 * length / 4,
        kv_bytes=16 * 2 / 4 * 3 * (length if span.is_decode else 30),
        activation_bytes=2 * 4 * 3 * length / 4 + 2 * 4 * 16 * tokens,
        depth=16,
    )
    attention = Work(
        flop=4 * 4 * 32 * 3 * seen,
        kv_bytes=3 * 32 * 2 * (seen if span.is_decode else kept),
        activation_bytes=4 * tokens * 4 * 32,
        exponentials=0 if span.is_decode else 4 * 3 * seen,
        serial_depth=seen if span.is_decode else kept + 10,
    )
    grouped = Work(2 * 2 * tokens * 12 * 64, 2 * 2 * 12 * 64, 0, 2 * 2 * tokens * (64 + 12), depth=64)
    expected = {
        "q_a, kv (1/4)": multiplied(tokens, 24 + 32 + 192 + 4, 100),
        "q_b (1/4)": multiplied(tokens, 4 * 32, 24),
        "q latent norm (1/4)": moved(2 * 2 * tokens * 24),
        "rope, append (1/4)": (1, Work(weight_bytes=2 * 24, kv_bytes=tokens * 2 * (32 + (32 + 16) / 4))),
        "compress (1/4)": moved(3 * 2 * tokens * 96),
        "index q (1/4)": multiplied(tokens, 64, 24),
        "index scores": (1, scores),
        "attention (1/4)": (1, attention),
        "o_a (1/4)": (1, grouped),
        "o_b (1/4)": multiplied(tokens, 100, 24),
        "attention all-reduce (1/4)": sent(2 * tokens * 100),
    }
    assert_kernels(mixed(CSA, span), expected)


def test_pairs_of_compressed_attention_without_a_choice_are_those_worked_out_by_hand():
    def seen(mixer):
        return mixed(mixer, AFTER)[f"attention ({'1/4' if mixer.ratio else 'window'})"][1].flop / (4 * 4 * 32 * 3)

    few = replace(CSA, indexer=Indexer(heads=4, dim=16, top_k=3))
    assert seen(few) == pytest.approx(160 + 10 * 12 / 4)  # 3 entries are 12 tokens
    assert seen(replace(CSA, indexer=None)) == pytest.approx(160 + 255 / 4)
    assert seen(replace(CSA, indexer=None, ratio=0)) == pytest.approx(160)


def test_kernels_of_grouped_attention_with_all_that_it_may_have_are_those_worked_out_by_hand():
    # 4 of 8 heads and 1 of 2 KV heads on a rank, 2 of 4 index heads; the best 8 of 20 and more tokens are seen
    indexer = Indexer(heads=4, dim=16, top_k=8)
    mixer = Gqa(8, 2, 16, 32, indexer=indexer, out_gate=True, head_gate=True, sinks=True, qk_norm="head")
    scored = 3 * 22.5
    scores = Work(2 * 2 * 16 * scored, 0, 16 * 2 * scored, 2 * 4 * scored + 2 * 2 * 16 * 3, depth=16)
    attention = Work(2 * 4 * 48 * 3 * 8, 0, 3 * 8 * 48 * 2, 2 * 3 * 4 * 48, serial_depth=8)
    expected = {
        "qkv (top 8)": multiplied(3, 64 + 16 + 32 + 128 + 4 + 32 + 16, 100),
        "rope, append (top 8)": (1, Work(weight_bytes=2 * (2 * 16 + 4), kv_bytes=3 * 2 * (48 + 16))),
        "index scores": (1, scores),
        "attention (top 8)": (1, attention),
        "output gate (top 8)": moved(3 * 2 * 3 * 128),
        "head gate (top 8)": moved(2 * 2 * 3 * 128),
        "o (top 8)": multiplied(3, 100, 128),
        "attention all-reduce (top 8)": sent(2 * 3 * 100),
    }
    assert_kernels(mixed(mixer, STEP), expected)
