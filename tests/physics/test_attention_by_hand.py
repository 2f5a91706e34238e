"""Every kernel of small layers of attention worked out by hand: what one of two ranks multiplies, reads and writes."""

from dataclasses import replace

import pytest
from small_models import (
    AFTER,
    PROMPT,
    STEP,
    assert_kernels,
    mixed,
    moved,
    multiplied,
    sent,
)

from roofline.physics.equation import Work
from roofline.specs.model import Csa, Gqa, Indexer, Mla

MLA = Mla(heads=8, kv_rank=64, nope=16, rope=8, v=16, q_rank=48, indexer=Indexer(heads=4, dim=32, top_k=8))
CSA = Csa(
    heads=8,
    head_dim=32,
    q_rank=24,
    o_rank=12,
    o_groups=4,
    window=16,
    ratio=4,
    indexer=Indexer(heads=4, dim=16, top_k=8),
)


def latents(tokens, scored, read):
    """What comes before latent attention; index keys take 33 bytes in fp8 with their scale."""
    scores = Work(
        flop=2 * 4 * 32 * scored,
        kv_bytes=33 * read,
        activation_bytes=2 * 4 * scored + 2 * 4 * 32 * tokens,
        depth=32,
    )
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
    seen = 3 * (36 + 2 * 8)  # of ten tokens the first eight see all before them, the others the best eight
    attention = Work(
        flop=2 * 4 * 40 * seen,
        activation_bytes=2 * 4 * 40 * 3 * (2 * 10),
        exponentials=4 * seen,
        serial_depth=10,
    )
    expected = {
        **latents(30, 3 * 55, 30),
        "kv_b": multiplied(30, 4 * 32, 64),
        "attention": (1, attention),
        "o": multiplied(30, 100, 64),
        "attention all-reduce": sent(2 * 30 * 100),
    }
    assert_kernels(mixed(MLA, PROMPT), expected)


def test_kernels_of_latent_attention_in_a_step_are_those_worked_out_by_hand():
    absorbed = Work(2 * 3 * 4 * 64 * 16, 2 * 4 * 64 * 16, 0, 2 * 3 * 4 * (64 + 16), depth=16)
    attention = Work(
        flop=2 * 4 * (2 * 64 + 8) * 3 * 8,
        kv_bytes=3 * 8 * 72 * 2,
        activation_bytes=2 * 3 * 4 * (2 * 64 + 8),
        serial_depth=8,
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
