"""Parameters, caches and states of each mixer counted by hand, to the unit, whole and on one of four ranks.

The widths are small and unlike each other, so that no term hides behind another. The shapes are those of the published
implementations: mamba_ssm (Mamba-1, Mamba-2), flash-linear-attention and transformers (GDN, KDA), DeepSeek-V3.2
and V4 (MLA with an indexer, CSA).
"""

from dataclasses import replace

import pytest

from roofline.physics.layers.kinds import cache_bytes, mixer_parameters
from roofline.specs.model import Csa, Gdn, Gqa, Indexer, Kda, Lightning, Mamba1, Mamba2, Mla, ShortConv

HIDDEN = 100
INDEXER = Indexer(heads=4, dim=16, top_k=8)
MAMBA2 = Mamba2(heads=8, head_dim=8, groups=2, state=16, conv=4)
MAMBA1 = Mamba1(inner=64, state=16, dt_rank=6, conv=4, inner_norms=True)
GDN = Gdn(k_heads=4, v_heads=8, k_dim=16, v_dim=32, conv=4)
LIGHTNING = Lightning(heads=8, dim=16)
KDA = Kda(heads=8, dim=16, conv=4)
CSA = Csa(heads=8, head_dim=32, q_rank=24, o_rank=12, o_groups=4, window=16, ratio=4, indexer=INDEXER)
MLA = Mla(heads=8, kv_rank=64, nope=16, rope=8, v=16, q_rank=48, indexer=replace(INDEXER, dim=32))
GQA = Gqa(heads=8, kv_heads=2, head_dim=16, v_head_dim=32)

COUNTS = {
    # q, k and v of 8, 2 and 2 heads, output; on four ranks each of two KV heads is on two
    "gqa": (GQA, (100 * (128 + 32 + 64) + 256 * 100, 0), (100 * (32 + 16 + 32) + 64 * 100, 0)),
    "gqa with biases and sinks": (
        replace(GQA, qkv_bias=True, o_bias=True, sinks=True),
        (48_000, 128 + 32 + 64 + 100 + 8),
        (14_400, 32 + 16 + 32 + 100 + 2),
    ),
    "gqa with norms of a head's width, and their biases": (
        replace(GQA, qk_norm="head", qk_norm_bias=True),
        (48_000, 2 * 2 * 16),
        (14_400, 2 * 2 * 16),
    ),
    "gqa with norms over all heads": (
        replace(GQA, qk_norm="full"),
        (48_000, 8 * 16 + 2 * 16),
        (14_400, 2 * 16 + 16),
    ),
    "gqa with both gates": (
        replace(GQA, out_gate=True, head_gate=True),
        (48_000 + 100 * (256 + 8), 0),
        (14_400 + 100 * (64 + 2), 0),
    ),
    "gqa whose keys are values": (replace(GQA, k_eq_v=True), (48_000 - 6_400, 0), (14_400 - 3_200, 0)),
    "gqa whose keys and values are an earlier layer's": (
        replace(GQA, kv_shared=True, qk_norm="full"),
        (48_000 - 9_600, 8 * 16),
        (14_400 - 4_800, 2 * 16),
    ),
    "gqa that shares keys, with a norm of a head's width": (
        replace(GQA, kv_shared=True, qk_norm="head"),
        (48_000 - 9_600, 16),
        (14_400 - 4_800, 16),
    ),
    # index queries of 4 heads of 16 go where the KV heads go, one key of 16 to all ranks; a norm of each
    "gqa with an indexer": (
        replace(GQA, indexer=INDEXER),
        (48_000 + 100 * (64 + 16), 2 * 16),
        (14_400 + 100 * (32 + 16), 2 * 16),
    ),
    # gate and x of 8 heads of 8, B and C of 2 groups of 16 each, a time step a head; output. Filters of 4 and a bias of
    # every channel of x, B and C; decay, skip and step of a head; norm. Groups are on several of four ranks.
    "mamba-2": (
        MAMBA2,
        (100 * (64 + 64 + 64 + 8) + 64 * 100, (64 + 64) * (4 + 1) + 3 * 8 + 64),
        (100 * (16 + 16 + 32 + 2) + 16 * 100, (16 + 32) * (4 + 1) + 3 * 2 + 16),
    ),
    "mamba-2 without a norm": (
        replace(MAMBA2, no_norm=True),
        (26_400, 640 + 24),
        (8_200, 240 + 6),
    ),
    # x and gate; 6 + 16 + 16 values from the channels; the step from 6; output. Filters of 4 and a bias, bias of the
    # step, 16 decays and a skip a channel; three norms, of 6, 16 and 16.
    "mamba-1": (
        MAMBA1,
        (100 * 2 * 64 + 64 * 38 + 6 * 64 + 64 * 100, 64 * (4 + 1 + 1 + 16 + 1) + 38),
        (100 * 2 * 16 + 16 * 38 + 6 * 16 + 16 * 100, 16 * (4 + 1 + 1 + 16 + 1) + 38),
    ),
    "mamba-1 without inner norms": (
        replace(MAMBA1, inner_norms=False),
        (22_016, 64 * 23),
        (5_504, 16 * 23),
    ),
    # q and k of 4 heads of 16, v and gate of 8 heads of 32, two values a value head; output. Filters of 4, without
    # bias, of q, k and v; decay and step of a value head; norm of one head's width.
    "gdn": (
        GDN,
        (100 * (64 + 64 + 256 + 256 + 16) + 256 * 100, 4 * (64 + 64 + 256) + 2 * 8 + 32),
        (100 * (16 + 16 + 64 + 64 + 4) + 64 * 100, 4 * (16 + 16 + 64) + 2 * 2 + 32),
    ),
    # q, k and v of 8 heads of 16; gate and decay of rank 16; a step a head; output. Filters of 4, decay of a head,
    # bias of every channel's decay, norm of one head's width.
    "kda": (
        KDA,
        (100 * 3 * 128 + 2 * (100 * 16 + 16 * 128) + 100 * 8 + 128 * 100, 4 * 384 + 8 + 128 + 16),
        (100 * 3 * 32 + 2 * (100 * 16 + 16 * 32) + 100 * 2 + 32 * 100, 4 * 96 + 2 + 32 + 16),
    ),
    "kda with a gate of full rank": (
        replace(KDA, full_rank_gate=True),
        (59_296 - (100 * 16 + 16 * 128) + 100 * 128, 1_688),
        (17_224 - (100 * 16 + 16 * 32) + 100 * 32, 434),
    ),
    "kda with a decay of full rank": (
        replace(KDA, full_rank_decay=True),
        (59_296 - (100 * 16 + 16 * 128) + 100 * 128, 1_688),
        (17_224 - (100 * 16 + 16 * 32) + 100 * 32, 434),
    ),
    # q, k, v and gate of 8 heads of 16, output; norm of it
    "lightning": (LIGHTNING, (5 * 100 * 128, 128), (5 * 100 * 32, 32)),
    # three streams of 64 channels in, one out; filters of 3, and biases of all where it has any
    "short convolution": (ShortConv(width=64, conv=3), (4 * 100 * 64, 3 * 64), (4 * 100 * 16, 3 * 16)),
    "short convolution with biases": (
        ShortConv(width=64, conv=3, bias=True),
        (4 * 100 * 64, 4 * 64 + 3 * 64 + 100),
        (4 * 100 * 16, 4 * 16 + 3 * 16 + 100),
    ),
    # Query latent of 24, key of 32, contents and gates of two overlapping entries and index keys (4 x 48), 4 index
    # weights: every rank has them all. Queries and index queries from the latent; 4 groups of 2 heads to 12 each, those
    # to the output. Norms of latent and key, a sink a head; norms of entry and index key, 4 positions of two entries.
    "csa": (
        CSA,
        (100 * (24 + 32 + 192 + 4) + 24 * 256 + 24 * 64 + 48 * 64 + 48 * 100, 24 + 32 + 8 + 48 + 4 * 2 * 48),
        (100 * (24 + 32 + 192 + 4) + 24 * 64 + 24 * 64 + 12 * 64 + 12 * 100, 24 + 32 + 2 + 48 + 4 * 2 * 48),
    ),
    "csa that sees all entries, which do not overlap": (
        replace(CSA, indexer=None),
        (100 * (24 + 32 + 64) + 24 * 256 + 48 * 64 + 48 * 100, 24 + 32 + 8 + 32 + 4 * 32),
        (100 * (24 + 32 + 64) + 24 * 64 + 12 * 64 + 12 * 100, 24 + 32 + 2 + 32 + 4 * 32),
    ),
    "csa of a window alone": (
        replace(CSA, ratio=0, indexer=None),
        (100 * (24 + 32) + 24 * 256 + 48 * 64 + 48 * 100, 24 + 32 + 8),
        (100 * (24 + 32) + 24 * 64 + 12 * 64 + 12 * 100, 24 + 32 + 2),
    ),
    # KV latent of 64 and a rotated key of 8, query latent of 48, index key of 32 with 4 head weights, index queries
    # of 4 heads: every rank has them all. 8 heads of 16 + 8, keys and values of 16 + 16, output. Norms: 48, 64, two
    # of 32.
    "mla with an indexer": (
        MLA,
        (100 * (72 + 48 + 32 + 4) + 48 * 192 + 48 * 128 + 64 * 256 + 128 * 100, 48 + 64 + 2 * 32),
        (100 * (72 + 48 + 32 + 4) + 48 * 48 + 48 * 128 + 64 * 64 + 32 * 100, 48 + 64 + 2 * 32),
    ),
    "mla with an indexer that weighs the keys it pools": (
        replace(MLA, indexer=Indexer(heads=4, dim=32, top_k=8, ratio=4, learned_pool=True)),
        (60_144 + 100 * 32, 176 + 4 * 32),
        (31_344 + 100 * 32, 176 + 4 * 32),
    ),
    "mla with both gates": (
        replace(MLA, out_gate=True, head_gate=True),
        (60_144 + 100 * (128 + 8), 176),
        (31_344 + 100 * (32 + 2), 176),
    ),
    "mla with queries of full rank": (
        replace(MLA, q_rank=None, indexer=None),
        (100 * (72 + 192) + 64 * 256 + 128 * 100, 64),
        (100 * (72 + 48) + 64 * 64 + 32 * 100, 64),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("mixer", "whole", "rank"), COUNTS.values(), ids=COUNTS)
def test_parameters_of_a_mixer_are_those_counted_by_hand(mixer, whole, rank):
    assert mixer_parameters(mixer, HIDDEN) == whole
    assert mixer_parameters(mixer, HIDDEN, 4) == rank


# States in 4 bytes a value, the last 3 inputs of the convolution in 2; the same however long the sequence is.
STATES = {
    "mamba-2": (MAMBA2, 4 * 64 * 16 + 2 * 3 * 128, 4 * 16 * 16 + 2 * 3 * 48),
    "mamba-1": (MAMBA1, 4 * 64 * 16 + 2 * 3 * 64, 4 * 16 * 16 + 2 * 3 * 16),
    "gdn": (GDN, 4 * 8 * 16 * 32 + 2 * 3 * 384, 4 * 2 * 16 * 32 + 2 * 3 * 96),
    "lightning": (LIGHTNING, 4 * 8 * 16 * 16, 4 * 2 * 16 * 16),
    "short convolution": (ShortConv(width=64, conv=3), 2 * 2 * 64, 2 * 2 * 16),
    "kda": (KDA, 4 * 8 * 16 * 16 + 2 * 3 * 384, 4 * 2 * 16 * 16 + 2 * 3 * 96),
}


@pytest.mark.parametrize(("mixer", "whole", "rank"), STATES.values(), ids=STATES)
def test_states_are_those_counted_by_hand(mixer, whole, rank):
    assert [cache_bytes(mixer, tokens, 2.0) for tokens in (1.0, 5000.0)] == [whole, whole]
    assert cache_bytes(mixer, 5000.0, 2.0, 4) == rank


@pytest.mark.parametrize(
    ("mixer", "tokens", "expected"),
    [
        (CSA, 100.0, 2 * (16 * 32 + (32 + 16) / 4 * 100)),  # a full window; entries and index keys of 4 tokens each
        (CSA, 10.0, 2 * (10 * 32 + (32 + 16) / 4 * 10)),
        (replace(CSA, indexer=None), 100.0, 2 * (16 * 32 + 32 / 4 * 100)),
        (replace(CSA, ratio=0, indexer=None), 100.0, 2 * 16 * 32),
        (MLA, 100.0, 2 * 72 * 100 + 33 * 100),  # index keys of 32 in fp8, with 4 bytes of scale for 128
        (replace(MLA, indexer=replace(MLA.indexer, ratio=4)), 100.0, 2 * 72 * 100 + 33 / 4 * 100),
    ],
)
def test_caches_are_those_counted_by_hand_on_every_rank(mixer, tokens, expected):
    assert cache_bytes(mixer, tokens, 2.0) == cache_bytes(mixer, tokens, 2.0, 4) == expected


def test_caches_of_grouped_heads_are_those_counted_by_hand():
    one = 2 * (16 + 32) * 2  # two KV heads in 16 bits
    assert cache_bytes(GQA, 100.0, 2.0) == 100 * one
    assert cache_bytes(GQA, 100.0, 2.0, 4) == 100 * one / 2
    assert cache_bytes(replace(GQA, window=16), 100.0, 2.0) == 16 * one
    assert cache_bytes(replace(GQA, kv_shared=True), 100.0, 2.0) == 0
    assert cache_bytes(replace(GQA, indexer=INDEXER), 100.0, 2.0, 4) == 100 * (one / 2 + 16 * 2)
    assert cache_bytes(replace(GQA, indexer=replace(INDEXER, ratio=4)), 100.0, 2.0) == 100 * (one + 16 * 2 / 4)
