"""Parameters, caches and states to the unit: of checkpoints, mixers, whole models, and what one GPU must hold."""

from dataclasses import replace

import pytest
from conftest import SAMPLE_GPUS, SAMPLE_MODELS, close, deploy, deployments, models
from every_case import each
from hypothesis import given
from hypothesis import strategies as st
from small_models import model as small_model

import roofline as rl
from roofline.physics.layers.kinds import cache_bytes, mixer_parameters
from roofline.physics.memory import (
    active_parameters,
    kv_bytes_per_sequence,
    largest_batch,
    layer_parameters,
    memory,
    mtp_parameters,
    parameters,
    weight_bytes,
)
from roofline.physics.plan import Plan
from roofline.specs.model import (
    Csa,
    DenseFfn,
    Gdn,
    Gqa,
    Group,
    Indexer,
    Kda,
    Layer,
    Lightning,
    Mamba1,
    Mamba2,
    Mla,
    MoeFfn,
    ShortConv,
)

# Totals of the checkpoints' tensors: safetensors metadata on Hugging Face for the first seven, the
# model cards or reports (DeepSeek-V3 report, Qwen3 report, gpt-oss model card) for the others.
_EXACT = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "qwen3-32b": 32_762_123_264,
}
_PRINTED = {"gpt-oss-120b": "116.83", "gpt-oss-20b": "20.91", "deepseek-v3": "671.03", "qwen3-235b-a22b": "235.09"}

# bf16 bytes that one token leaves in the cache: 2 (key and value) x kv heads x head width x 2 x layers,
# (512 + 64) x 2 x 61 for DeepSeek; and those of them in layers without a window.
_KV = {
    "llama-3.1-8b": (2 * 8 * 128 * 2 * 32, 131072),
    "llama-3.1-70b": (2 * 8 * 128 * 2 * 80, 327680),
    "llama-3.1-405b": (2 * 8 * 128 * 2 * 126, 516096),
    "qwen3-235b-a22b": (2 * 4 * 128 * 2 * 94, 192512),
    "deepseek-v3": (576 * 2 * 61, 70272),
    "gpt-oss-120b": (2 * 8 * 64 * 2 * 36, 36864),
    "gemma-3-27b": (2 * 16 * 128 * 2 * 62, 81920),
}


@each(("name", "count"), _EXACT.items())
def test_parameters_equal_the_checkpoint_to_the_unit(name, count):
    assert parameters(rl.load_model(name)).total == count


@each(("name", "billions"), _PRINTED.items())
def test_parameters_equal_the_published_total_to_the_printed_digits(name, billions):
    assert f"{parameters(rl.load_model(name)).total / 1e9:.2f}" == billions


#: Published totals that mean something else, as the notes of their files say: rounded to one or two
#: digits, a vision tower, a draft module or a second copy of the tied head counted in.
EXCEPTIONS = {
    "deepseek-v4-pro", "falcon-40b", "falcon-7b", "kimi-k2-instruct", "kimi-k2.5", "llama-4-scout", "mimo-7b",
    "qwen3-vl-30b-a3b", "qwen3-vl-32b",
}  # fmt: skip


@each("name", sorted({*rl.models()} - EXCEPTIONS))
def test_every_model_of_the_catalog_is_within_a_percent_of_its_stated_total(name):
    model = rl.load_model(name)
    assert model.stated_total is not None
    assert abs(parameters(model).total / model.stated_total - 1.0) < 0.01


@pytest.mark.parametrize(
    ("name", "billions", "tolerance"),
    # Model cards and reports; "active" is counted in several ways, which differ by the embedding.
    [("gpt-oss-120b", 5.13, 0.005), ("gpt-oss-20b", 3.61, 0.005), ("deepseek-v3", 37.0, 0.02)],
)
def test_active_parameters_are_the_published_ones(name, billions, tolerance):
    assert abs(active_parameters(rl.load_model(name)) / 1e9 / billions - 1.0) < tolerance


@each(("name", "expected"), _KV.items())
def test_kv_bytes_per_token_are_the_published_ones(name, expected):
    deployment = deploy(name, "h100-sxm")
    model, beyond = deployment.model, 50_000.0
    cache = [kv_bytes_per_sequence(model, Plan(), deployment.quantization, n) for n in (1.0, beyond, beyond + 1.0)]
    of_mixers = sum(count * cache_bytes(mixer, 1.0, 2.0) for count, mixer in model.mixers)
    assert (of_mixers, cache[0], cache[2] - cache[1]) == (expected[0], *expected)


@each("name", ["llama-3.1-8b", "mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3"])
@each("tp", [2, 4, 8, 16, 32])
def test_shards_sum_to_the_whole_but_for_what_is_replicated(name, tp):
    model = rl.load_model(name)
    for group in model.groups:
        for layer in group.layers:
            whole, shard = layer_parameters(model, layer), layer_parameters(model, layer, tp, tp)
            mixer = layer.mixer
            if isinstance(mixer, Mla):
                replicated = (tp - 1) * model.hidden * (mixer.q_rank + mixer.kv_rank + mixer.rope)
            else:  # KV heads share out, but for Qwen3's four over eight ranks
                copies = max(tp / mixer.kv_heads, 1.0)
                replicated = (copies - 1) * model.hidden * mixer.kv_heads * (mixer.head_dim + mixer.v_head_dim)
            assert tp * shard.attention - replicated == whole.attention
            assert tp * (shard.linear + shard.shared) == whole.linear + whole.shared
            assert tp * shard.experts == whole.experts
            assert shard.router == whole.router


def test_kv_heads_are_replicated_where_tp_exceeds_them_and_the_latent_cache_is_the_same_on_every_rank():
    layer = rl.load_model("llama-3.1-8b").groups[0].layers[0]
    eight = cache_bytes(layer.mixer, 1.0, 2.0, layer.mixer.kv_heads)
    assert [cache_bytes(layer.mixer, 1.0, 2.0, tp) for tp in (16, 32)] == [eight, eight]
    mixer = rl.load_model("deepseek-v3").groups[0].layers[0].mixer
    assert [cache_bytes(mixer, 1.0, 1.0, tp) for tp in (1, 2, 8)] == [576.0, 576.0, 576.0]


@given(model=models())
def test_two_half_models_have_the_parameters_of_the_whole_with_the_ends_twice_and_no_more_are_active(model):
    def total(repeat):
        groups = tuple(Group(repeat, group.layers) for group in model.groups if repeat)
        return parameters(replace(model, groups=groups)).total

    assert close(total(3) + total(4), total(7) + total(0))
    assert 0.0 < active_parameters(model) <= parameters(model).total


# --- mixers by hand -------------------------------------------------------------------------------

HIDDEN = 100
INDEXER = Indexer(heads=4, dim=16, top_k=8)
MAMBA2 = Mamba2(heads=8, head_dim=8, groups=2, state=16, conv=4)
MAMBA1 = Mamba1(inner=64, state=16, dt_rank=6, conv=4, inner_norms=True)
GDN = Gdn(k_heads=4, v_heads=8, k_dim=16, v_dim=32, conv=4)
LIGHTNING = Lightning(heads=8, dim=16)
KDA = Kda(heads=8, dim=16, conv=4)
SHORT = ShortConv(width=64, conv=3)
CSA = Csa(heads=8, head_dim=32, q_rank=24, o_rank=12, o_groups=4, window=16, ratio=4, indexer=INDEXER)
MLA = Mla(heads=8, kv_rank=64, nope=16, rope=8, v=16, q_rank=48, indexer=replace(INDEXER, dim=32))
GQA = Gqa(heads=8, kv_heads=2, head_dim=16, v_head_dim=32)

#: What the whole model and one of four ranks have: heads and KV heads (each of two is on two ranks); heads and groups;
#: channels; heads of keys and of values; heads; heads and groups of outputs.
SHARES = {
    Gqa: ((8, 2), (2, 1)), Mamba2: ((8, 2), (2, 1)), Mamba1: ((64,), (16,)), Gdn: ((4, 8), (1, 2)), Kda: ((8,), (2,)),
    Lightning: ((8,), (2,)), ShortConv: ((64,), (16,)), Csa: ((8, 4), (2, 1)), Mla: ((8,), (2,)),
}  # fmt: skip


def gqa(h, g):
    """Matrices of q, k, v and output."""
    return 100 * (16 * h + 16 * g + 32 * g) + 32 * h * 100


def kda(h, rest):
    """Matrices, with those of gate and decay given; filters of 4, decay of a head, bias of every channel's, norm."""
    return 100 * 3 * 16 * h + rest + 100 * h + 16 * h * 100, 4 * 48 * h + h + 16 * h + 16


def mla(h):
    """KV latent of 64 and a rotated key of 8, query latent of 48, index key of 32 with 4 head weights, index queries
    of 4 heads: every rank has them all. 8 heads of 16 + 8, keys and values of 16 + 16, output."""
    return 100 * (72 + 48 + 32 + 4) + 48 * 128 + 48 * 24 * h + 64 * 32 * h + 16 * h * 100


# Matrices and vectors.
COUNTS = [
    (GQA, lambda h, g: (gqa(h, g), 0)),
    (replace(GQA, qkv_bias=True, o_bias=True, sinks=True), lambda h, g: (gqa(h, g), 16 * h + 48 * g + 100 + h)),
    (replace(GQA, qk_norm="head", qk_norm_bias=True), lambda h, g: (gqa(h, g), 2 * 2 * 16)),
    (replace(GQA, qk_norm="full"), lambda h, g: (gqa(h, g), h * 16 + g * 16)),
    (replace(GQA, out_gate=True, head_gate=True), lambda h, g: (gqa(h, g) + 100 * (32 * h + h), 0)),
    (replace(GQA, k_eq_v=True), lambda h, g: (gqa(h, g) - 100 * 32 * g, 0)),
    # keys and values of an earlier layer, a norm of all heads and of one head's width
    (replace(GQA, kv_shared=True, qk_norm="full"), lambda h, g: (gqa(h, g) - 100 * (16 + 32) * g, h * 16)),
    (replace(GQA, kv_shared=True, qk_norm="head"), lambda h, g: (gqa(h, g) - 100 * (16 + 32) * g, 16)),
    # index queries of 4 heads of 16 go where the KV heads go, one key of 16 to all ranks; a norm of each
    (replace(GQA, indexer=INDEXER), lambda h, g: (gqa(h, g) + 100 * (2 * g * 16 + 16), 2 * 16)),
    # gate and x of 8 heads of 8, B and C of 2 groups of 16 each, a time step a head; output. Filters of 4 and a bias of
    # every channel of x, B and C; decay, skip and step of a head; norm. Groups are on several of four ranks.
    (MAMBA2, lambda h, g: (100 * (17 * h + 2 * 16 * g) + 8 * h * 100, (8 * h + 2 * 16 * g) * (4 + 1) + 3 * h + 8 * h)),
    (replace(MAMBA2, no_norm=True), lambda h, g: (100 * (25 * h + 32 * g), (8 * h + 32 * g) * (4 + 1) + 3 * h)),
    # x and gate of 64 channels; 6 + 16 + 16 values from them; the step from 6; output. Filters of 4 and a bias, bias of
    # the step, 16 decays and a skip a channel; three norms, of 6, 16 and 16.
    (MAMBA1, lambda c: (100 * 2 * c + c * 38 + 6 * c + c * 100, c * (4 + 1 + 1 + 16 + 1) + 6 + 16 + 16)),
    (replace(MAMBA1, inner_norms=False), lambda c: (100 * 2 * c + c * 38 + 6 * c + c * 100, c * (4 + 1 + 1 + 16 + 1))),
    # q and k of 4 heads of 16, v and gate of 8 heads of 32, two values a value head; output. Filters of 4, without
    # bias, of q, k and v; decay and step of a value head; norm of one head's width.
    (GDN, lambda k, v: (100 * (2 * 16 * k + 66 * v) + 32 * v * 100, 4 * (2 * 16 * k + 32 * v) + 2 * v + 32)),
    # q, k and v of 8 heads of 16; gate and decay of rank 16, or one of full rank; a step a head; output
    (KDA, lambda h: kda(h, 2 * (100 * 16 + 16 * 16 * h))),
    (replace(KDA, full_rank_gate=True), lambda h: kda(h, 100 * 16 + 16 * 16 * h + 100 * 16 * h)),
    (replace(KDA, full_rank_decay=True), lambda h: kda(h, 100 * 16 + 16 * 16 * h + 100 * 16 * h)),
    # q, k, v and gate of 8 heads of 16, output; norm of it
    (LIGHTNING, lambda h: (5 * 100 * 16 * h, 16 * h)),
    # three streams of 64 channels in, one out; filters of 3, and biases of all where it has any
    (SHORT, lambda c: (4 * 100 * c, 3 * c)),
    (replace(SHORT, bias=True), lambda c: (4 * 100 * c, 4 * c + 3 * c + 100)),
    # Query latent of 24, key of 32, contents and gates of two overlapping entries and index keys (4 x 48), 4 index
    # weights: every rank has them all. Queries and index queries from the latent; 4 groups of 2 heads to 12 each, those
    # to the output. Norms of latent and key, a sink a head; norms of entry and index key, 4 positions of two entries.
    (CSA, lambda h, o: (
        100 * (24 + 32 + 192 + 4) + 24 * 32 * h + 24 * 64 + 12 * o * (64 + 100), 24 + 32 + h + 48 + 4 * 2 * 48,
    )),
    # all entries, which do not overlap; a window alone
    (replace(CSA, indexer=None), lambda h, o: (
        100 * (24 + 32 + 64) + 24 * 32 * h + 12 * o * (64 + 100), 24 + 32 + h + 32 + 4 * 32,
    )),
    (replace(CSA, ratio=0, indexer=None), lambda h, o: (
        100 * (24 + 32) + 24 * 32 * h + 12 * o * (64 + 100), 24 + 32 + h,
    )),
    # Norms: 48, 64, two of 32. An indexer that weighs the keys it pools; both gates; queries of full rank, no indexer
    (MLA, lambda h: (mla(h), 48 + 64 + 2 * 32)),
    (replace(MLA, indexer=Indexer(4, 32, 8, ratio=4, learned_pool=True)), lambda h: (mla(h) + 100 * 32, 176 + 4 * 32)),
    (replace(MLA, out_gate=True, head_gate=True), lambda h: (mla(h) + 100 * (16 * h + h), 176)),
    (replace(MLA, q_rank=None, indexer=None), lambda h: (100 * (72 + 24 * h) + 64 * 32 * h + 16 * h * 100, 64)),
]  # fmt: skip


@each(("mixer", "count"), COUNTS)
def test_parameters_of_a_mixer_are_those_counted_by_hand(mixer, count):
    whole, rank = SHARES[type(mixer)]
    assert mixer_parameters(mixer, HIDDEN) == count(*whole)
    assert mixer_parameters(mixer, HIDDEN, 4) == count(*rank)


# States in 4 bytes a value, the last 3 inputs of the convolution in 2; the same however long the sequence is.
STATES = [
    (MAMBA2, lambda h, g: 4 * 8 * h * 16 + 2 * 3 * (8 * h + 2 * 16 * g)),
    (MAMBA1, lambda c: 4 * c * 16 + 2 * 3 * c),
    (GDN, lambda k, v: 4 * v * 16 * 32 + 2 * 3 * (2 * 16 * k + 32 * v)),
    (LIGHTNING, lambda h: 4 * h * 16 * 16),
    (SHORT, lambda c: 2 * 2 * c),
    (KDA, lambda h: 4 * h * 16 * 16 + 2 * 3 * 48 * h),
]


@each(("mixer", "state"), STATES)
def test_states_are_those_counted_by_hand(mixer, state):
    whole, rank = SHARES[type(mixer)]
    assert [cache_bytes(mixer, tokens, 2.0) for tokens in (1.0, 5000.0)] == [state(*whole), state(*whole)]
    assert cache_bytes(mixer, 5000.0, 2.0, 4) == state(*rank)


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


# --- whole models by hand -------------------------------------------------------------------------

HIDDEN = 100
ATTENTION = Gqa(heads=4, kv_heads=2, head_dim=16, v_head_dim=16)
DENSE = Layer(ATTENTION, DenseFfn(200))
EXPERTS = Layer(ATTENTION, MoeFfn(experts=10, top_k=3, width=30, shared_width=50, shared_gate=True, expert_bias=True))
OF_ATTENTION = 100 * (64 + 32 + 32) + 64 * 100  # q, k, v, output
OF_DENSE = 3 * 100 * 200
OF_EXPERT = 3 * 100 * 30 + (30 + 30 + 100)  # with biases


def model(*layers, **changes):
    return small_model(*layers, stated_total=None, **changes)


def test_parameters_of_a_model_are_those_counted_by_hand():
    count = parameters(model(DENSE, EXPERTS))
    assert count._asdict() == {
        "linear": OF_DENSE,
        "attention": 2 * OF_ATTENTION,
        "shared": 3 * 100 * 50,
        "experts": 10 * 3 * 100 * 30,
        "router": 10 * 100 + 100,
        "norm": 2 * 2 * 100 + 100 + 10 * (30 + 30 + 100),
        "embed": 100_000,
        "head": 100_000,
    }
    assert count.total == sum(count)


def test_parameters_of_an_expert_layer_on_a_rank_are_those_counted_by_hand():
    count = layer_parameters(model(EXPERTS), EXPERTS, tp=2, expert_ranks=5)
    assert (count.attention, count.shared, count.experts) == (OF_ATTENTION / 2, 3 * 50 * 50, 3 * 100 * 30 * 10 / 5)
    assert (count.router, count.norm) == (1100, 200 + (30 + 30 + 100) * 10 / 5)


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"tied": True}, -100_000),
        ({"norm_bias": True}, 5 * 100),
        ({"norm_weights": False}, -5 * 100),
        ({"norms": 4}, 2 * 2 * 100),
        ({"final_norms": 2}, 100),
        ({"head_bias": True}, 1000),
        # of a layer two of 3 (3 + 2) weights from 3 x 100, as many biases and 3 scales; 3 x 300, 3, 1 before the head
        ({"streams": 3}, 2 * 2 * (15 * 300 + 15 + 3) + 3 * 300 + 3 + 1),
        ({"streams": 3, "stream_average": True}, 2 * 2 * (15 * 300 + 15 + 3)),
        # gates of rank 7, down and up, wider norms, and 3 x 300 in each of two places of a layer; a gate at the head
        ({"streams": 3, "stream_rank": 7}, 2 * 2 * (2 * 7 * 300 + 200 + 3 * 300) + 2 * 7 * 300 + 200),
    ],
)
def test_what_a_model_has_beside_its_layers_is_what_was_counted_by_hand(changes, more):
    plain = 2 * OF_ATTENTION + 2 * OF_DENSE + 5 * 100 + 200_000
    assert parameters(model(DENSE, DENSE, **changes)).total == plain + more


@pytest.mark.parametrize(
    ("tied", "convention", "left_out"),
    [
        (False, "all", 0),
        (False, "no-embedding", 100_000),
        (False, "no-embedding-no-head", 200_000),
        (True, "no-embedding", 0),  # the table is the head, too
        (True, "no-embedding-no-head", 100_000),
    ],
)
def test_active_parameters_leave_out_seven_of_ten_experts_and_what_a_convention_says(tied, convention, left_out):
    asked = model(DENSE, EXPERTS, tied=tied)
    assert active_parameters(asked, convention) == parameters(asked).total - 7 * OF_EXPERT - left_out


def test_draft_modules_have_a_last_layer_a_matrix_over_two_inputs_and_three_norms():
    layer = OF_ATTENTION + 3 * 100 * 50 + 1100 + 10 * OF_EXPERT
    module = layer + 2 * 100 + 200 * 100 + 3 * 100
    assert mtp_parameters(model(DENSE, EXPERTS, mtp_layers=2)) == 2 * module
    assert mtp_parameters(model(DENSE, EXPERTS, mtp_layers=1, norm_bias=True)) == module + 5 * 100
    assert mtp_parameters(model(DENSE, EXPERTS)) == 0


# --- memory ---------------------------------------------------------------------------------------


def assert_largest(deployment, length):
    most = largest_batch(deployment, length)
    assert most >= 0.0
    assert most == int(most)
    if most:
        assert memory(deployment, most, length).fits
    assert not memory(deployment, most + 1.0, length).fits


@each("gpu", SAMPLE_GPUS, few=2)
@each("name", SAMPLE_MODELS)
@each("plan", [Plan(), Plan(tp=8), Plan(tp=4, pp=2), Plan(tp=2, dp=4), Plan(pp=3)], ids=str, few=3)
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
    ngrams = deployment.model.ngrams
    if ngrams is not None and ngrams.packed:  # FP8 with a scale for each 32 values
        expected += ngrams.rows * ngrams.width * (33.0 / 32.0 - sections["embed"].weight_nbytes)
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


def test_an_engine_that_keeps_the_full_length_of_windowed_layers_holds_that_share_of_it_and_fewer_sequences():
    model, quantization = rl.load_model("gpt-oss-120b"), deploy("gpt-oss-120b", "h100-sxm").quantization
    full, windowed = 18, 18  # layers, the latter with 128 tokens
    each = 2 * 8 * 64 * 2.0  # bytes of a token in a layer
    for share, tokens in ((0.0, 128.0), (0.8, 800.0), (1.0, 1000.0)):
        kept = kv_bytes_per_sequence(model, Plan(), quantization, 1000.0, share)
        assert kept == each * (full * 1000.0 + windowed * tokens)
    assert kv_bytes_per_sequence(model, Plan(), quantization, 100.0, 0.8) == each * 36 * 100.0  # all is still read
    deployment = deploy("gpt-oss-120b", "b200")
    batches = [
        largest_batch(replace(deployment, engine=replace(deployment.engine, full_length_kv=share)), 9000.0)
        for share in (0.0, 0.8, 1.0)
    ]
    assert batches == sorted(batches, reverse=True)
    assert batches[0] > 1.7 * batches[2]
    whole = deploy("llama-3.1-8b", "h100-sxm")  # no windows: nothing changes
    keeping = replace(whole, engine=replace(whole.engine, full_length_kv=1.0))
    assert largest_batch(keeping, 9000.0) == largest_batch(whole, 9000.0)


def test_more_memory_never_fits_fewer_sequences():
    deployment = deploy("llama-3.1-8b", "h100-sxm")
    bigger = [replace(deployment.gpu, memory=deployment.gpu.memory * times) for times in (0.1, 0.5, 1.0, 1.3, 4.0)]
    fits = [largest_batch(replace(deployment, gpu=gpu), 2048.0) for gpu in bigger]
    assert fits == sorted(fits)
    assert fits[0] == 0.0
    assert fits[-1] > fits[2] > 0.0
