"""Kinds of layers: matrices, every kernel of small layers by hand on one of two ranks, experts that are touched."""

import random
import statistics
from dataclasses import replace

import pytest
from conftest import close, deploy, moe_ffns
from every_case import each
from hypothesis import given
from hypothesis import strategies as st
from small_models import (
    ATTENTION,
    EXPERTS,
    PROMPT,
    SPREAD,
    STEP,
    assert_kernels,
    counted,
    deployed,
    mixed,
    moved,
    multiplied,
    sent,
)

import roofline as rl
from roofline.physics.assembly import Assembly
from roofline.physics.equation import Work
from roofline.physics.kernels import Span
from roofline.physics.layers.kinds import MIXER_KINDS, NETWORK_KINDS, cache_bytes, mixer_parameters
from roofline.physics.layers.networks import distinct_experts, experts, fullest_rank, fullest_touched
from roofline.physics.memory import layer_parameters
from roofline.physics.plan import Plan, Scheme
from roofline.specs.gpu import GEMM, INDEXER, MOE
from roofline.specs.model import (
    FFNS,
    MIXERS,
    Csa,
    DenseFfn,
    Gdn,
    Gqa,
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

HIDDEN = 4096
#: Attention with an indexer, and the same over what another layer's indexer chose.
OWN, REUSED = Indexer(heads=4, dim=128, top_k=512), Indexer(heads=4, dim=128, top_k=512, own=False)
GROUPED = {indexer: Gqa(64, 4, 128, 128, indexer=indexer) for indexer in (OWN, REUSED)}
COMPRESSED = {indexer: Csa(64, 512, 1024, 1024, 8, 128, ratio=4, indexer=indexer) for indexer in (OWN, REUSED)}
LATENT = {indexer: Mla(64, 512, 128, 64, 128, q_rank=1536, indexer=indexer) for indexer in (OWN, REUSED)}
SPANS = {"prompt": Span(700.0, 0.0), "decode": Span(1.0, 3000.0, is_decode=True)}


def every_layer():
    """The distinct layers of the catalog."""
    found = {}
    for name in rl.models():
        model = rl.load_model(name)
        for group in model.groups:
            for layer in group.layers:
                found.setdefault((layer, model.hidden), model)
    return found


def assembled(deployment, mixer=None, network=None, span=SPANS["decode"]):
    """Kernels of one layer's mixer or network."""
    assembly = Assembly(deployment, 2.0, 1.0 if span.is_decode else span.new)
    if mixer is not None:
        MIXER_KINDS[type(mixer)].add_kernels(assembly, 1, mixer, span)
    if network is not None:
        NETWORK_KINDS[type(network)].add_kernels(assembly, 1, network)
    return assembly.kernels


def on_16_bit_weights(model, tp):
    """A model with every section in 16 bits, whatever its checkpoint has."""
    return replace(deploy("llama-3.1-8b", "h100-sxm", Plan(tp=tp)), model=model)


@pytest.mark.parametrize("tp", [1, 2])
def test_the_weights_that_kernels_read_are_the_matrices_that_parameters_count(tp):
    """In 16 bits, of a decode step: every matrix is read once. Biases are vectors; of experts, those touched."""

    def read(model, kind=GEMM, **of_layer):
        kernels = assembled(on_16_bit_weights(model, tp), **of_layer)
        return sum(kernel.work.weight_bytes for kernel in kernels if kernel.kind is kind)

    for (layer, hidden), model in every_layer().items():
        matrices, _ = mixer_parameters(layer.mixer, hidden, tp)
        whole = MIXER_KINDS[type(layer.mixer)].matrices.whole(layer.mixer, hidden)
        most = 2.02 if any(matrix.bias for matrix in whole) else 2.0
        found = read(model, mixer=layer.mixer)
        assert 2.0 * matrices <= found <= most * matrices, layer.mixer
        assert most == 2.0 or found > 2.0 * matrices, layer.mixer
        if isinstance(layer.ffn, DenseFfn) and not layer.ffn.bias:
            assert read(model, network=layer.ffn) == 2.0 * layer_parameters(model, layer, tp).linear
    network, model = MoeFfn(experts=4, top_k=4, width=1024), rl.load_model("mixtral-8x7b")  # all are touched
    count = layer_parameters(model, Layer(model.groups[0].layers[0].mixer, network), tp)
    assert read(model, MOE, network=network) == 2.0 * count.experts / tp == 2.0 * 4 * 3 * model.hidden * 1024 / tp


def test_every_record_of_a_specification_has_a_kind():
    assert all(MIXER_KINDS[mixer].matrices for mixer in MIXERS.values())
    assert all(NETWORK_KINDS[network].matrices for network in FFNS.values())


# --- a selection that another layer made ---------------------------------------------------------


@pytest.mark.parametrize(
    ("mixers", "matrices", "vectors", "cached"),
    [
        # queries of 4 heads and one key of 128; two norms of it; a key of 128 in the cache's format
        (GROUPED, HIDDEN * (4 + 1) * 128, 2 * 128, 2 * 128),
        # queries of 4 heads from the latent of 1536, a key and 4 head weights from the stream; keys in fp8 with scales
        (LATENT, 1536 * 4 * 128 + HIDDEN * (128 + 4), 2 * 128, 128 + 4),
        # queries from the latent of 1024, 4 head weights, contents and gates of overlapping index keys of 128; their
        # norm and two position biases for each of 4 tokens; a key of 128 for every 4 tokens
        (COMPRESSED, 1024 * 4 * 128 + HIDDEN * (4 + 4 * 128), 128 + 2 * 4 * 128, 2 * 128 / 4),
    ],
)
def test_a_layer_that_reuses_a_selection_has_no_index_matrices_and_no_index_keys(mixers, matrices, vectors, cached):
    own, reused = (mixer_parameters(mixers[indexer], HIDDEN) for indexer in (OWN, REUSED))
    assert (own[0] - reused[0], own[1] - reused[1]) == (matrices, vectors)
    assert cache_bytes(mixers[OWN], 100.0, 2.0) - cache_bytes(mixers[REUSED], 100.0, 2.0) == pytest.approx(100 * cached)


@each("span", SPANS.values(), ids=SPANS)
@each("mixers", [GROUPED, LATENT, COMPRESSED], ids=["gqa", "mla", "csa"])
def test_a_layer_that_reuses_a_selection_multiplies_and_scores_nothing_for_it_and_is_quicker(mixers, span):
    deployment = deploy("llama-3.1-8b", "h100-sxm")
    own, reused = (assembled(deployment, mixers[indexer], span=span) for indexer in (OWN, REUSED))
    assert INDEXER in {kernel.kind for kernel in own}
    assert INDEXER not in {kernel.kind for kernel in reused}
    assert not [kernel.name for kernel in reused if kernel.name.startswith("index")]
    few, many = (sum(kernel.work.flop for kernel in one if kernel.kind is GEMM) for one in (reused, own))
    assert few < many
    seen = [[kernel.work for kernel in one if kernel.kind.is_attention] for one in (own, reused)]
    assert seen[0] == seen[1]  # what was chosen is attended to all the same
    assert sum(kernel.time for kernel in reused) < sum(kernel.time for kernel in own)


# --- recurrent mixers ----------------------------------------------------------------------------

RECURRENT = {
    # columns read from the stream, channels of the convolution, width, and per token: of a prompt 4 s and products of a
    # chunk of 64, or of Mamba-1 a scan; of a step 5 or 7 operations a value; values read and written; decays
    "gdn": (
        Gdn(k_heads=4, v_heads=8, k_dim=16, v_dim=32, conv=4),
        {"in": (328, 100)}, 192, 128, 4 * 2048 + 3 * 64 * 4 * 48, 7, 2048, 128 + 192, 0,
    ),
    "kda": (
        Kda(heads=8, dim=16, conv=4),
        {"in": (3 * 64 + 16 + 16 + 4, 100), "decay": (64, 16), "gate": (64, 16)},
        192, 64, 4 * 1024 + 3 * 64 * 4 * 32, 7, 1024, 64 + 192, 0,
    ),
    "mamba2": (
        Mamba2(heads=8, head_dim=8, groups=2, state=16, conv=4),
        {"in": (32 + 32 + 32 + 4, 100)}, 64, 32, 4 * 512 + 64 * 4 * 24, 5, 512, 32 + 64, 0,
    ),
    "mamba1": (
        Mamba1(inner=64, state=16, dt_rank=6, conv=4),
        {"in": (64, 100), "x_proj": (38, 32), "dt_proj": (32, 6)}, 32, 32, 7 * 512, 7, 512, 2 * 32, 512 + 2 * 32,
    ),
    # no convolution; 4 heads of 16 x 16; products of a chunk of 64 with keys and with values
    "lightning": (
        Lightning(heads=8, dim=16), {"in": (4 * 64, 100)}, 0, 64, 4 * 1024 + 64 * 4 * 2 * 16, 5, 1024, 4 * 64, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("span", [PROMPT, STEP], ids=["prompt", "step"])
@pytest.mark.parametrize("tag", RECURRENT)
def test_kernels_of_a_recurrent_mixer_are_those_worked_out_by_hand(tag, span):
    mixer, matrices, channels, width, prompt, step, values, touched, decays = RECURRENT[tag]
    tokens = 3 if span.is_decode else 30
    conv = Work(2 * 4 * channels * tokens, 2 * 4 * channels, 0, 4 * channels * tokens)
    carried = Work(
        flop=tokens * (step * values if span.is_decode else prompt),
        weight_bytes=2 * decays,
        kv_bytes=2 * 3 * (4 * values + 2 * 3 * channels),  # read and written
        activation_bytes=2 * tokens * touched,
        serial_depth=1 if span.is_decode else 10,
    )
    expected = {
        **{f"{name} ({tag})": multiplied(tokens, *shape) for name, shape in matrices.items()},
        **({f"conv ({tag})": (1, conv)} if channels else {}),
        f"recurrence ({tag})": (1, carried),
        f"gated norm ({tag})": moved(3 * 2 * tokens * width),
        f"out ({tag})": multiplied(tokens, 100, width),
        f"mixer all-reduce ({tag})": sent(2 * tokens * 100),
    }
    assert_kernels(mixed(mixer, span), expected)


def test_kernels_of_a_gated_short_convolution_are_those_worked_out_by_hand():
    # 32 channels, filters of 3: two gates beside; three inputs, an output, the last two inputs read and written
    conv = Work((2 * 3 + 2) * 32 * 30, 2 * 3 * 32, kv_bytes=2 * 3 * 2 * 2 * 32, activation_bytes=4 * 2 * 32 * 30)
    expected = {
        "in (short conv)": multiplied(30, 3 * 32, 100),
        "conv (short conv)": (1, conv),
        "out (short conv)": multiplied(30, 100, 32),
        "mixer all-reduce (short conv)": sent(2 * 30 * 100),
    }
    assert_kernels(mixed(ShortConv(width=64, conv=3), PROMPT), expected)


def test_kernels_of_experts_spread_over_ranks_are_those_worked_out_by_hand():
    # 6 sequences, 3 on each of 2 data-parallel ranks: 30 tokens, 60 pooled; 4 of 8 experts, half of each, on a rank
    assembly = Assembly(deployed(Layer(ATTENTION, EXPERTS), plan=SPREAD), 6.0, 10.0)
    NETWORK_KINDS[MoeFfn].add_kernels(assembly, 1, EXPERTS)
    touched = 4 * (1 - (1 - 2 / 8) ** 60)
    experts = Work(
        flop=2 * 3 * 60 * 100 * 15,
        weight_bytes=touched * 3 * 100 * 15 * 2,
        serial_bytes=2 * (2 * 60 * 100 + 2 * 30 * 100 + 3 * 60 * 15),
        serial_depth=100 + 15,
        items=touched,
    )
    expected = {
        "router": multiplied(30, 8, 100),
        "top-k": moved(4 * 30 * 8),
        "dispatch": sent(1 / 2 * 30 / 2 * 2 * 100 * 2),
        "experts all-gather": sent(1 / 2 * 60 * 100 * 2),
        "experts": (1, experts),
        "experts reduce-scatter": sent(1 / 2 * 60 * 100 * 2),
        "combine": sent(1 / 2 * 30 / 2 * 2 * 100 * 2),
        "shared gate, up": multiplied(30, 2 * 25, 100),
        "shared activation": moved(3 * 2 * 30 * 25),
        "shared down": multiplied(30, 100, 25),
        "shared add": moved(3 * 2 * 30 * 100),
        "ffn all-gather": sent(1 / 2 * 2 * 30 * 100),
    }
    assert_kernels(counted(assembly.kernels), expected)


# --- experts --------------------------------------------------------------------------------------

skews = st.none() | st.floats(0.1, 50.0)


@given(ffn=moe_ffns(), routing_skew=skews, tokens=st.floats(1.0, 1e6), more=st.floats(1.0, 1e3))
def test_no_token_touches_none_one_its_top_k_and_more_tokens_never_fewer(ffn, routing_skew, tokens, more):
    none, one, few, many = (distinct_experts(ffn, n, routing_skew) for n in (0.0, 1.0, tokens, tokens * more))
    assert none == 0.0
    # The round trip (1 - k/E)^(-1/c) - 1 and back loses a few ulp, magnified by c.
    assert close(one, ffn.top_k, 1e-11)
    assert ffn.top_k * (1.0 - 1e-11) <= few <= many * (1.0 + 1e-12)
    assert many <= ffn.experts
    assert close(distinct_experts(MoeFfn(8, 8, 1), tokens, routing_skew), 8.0, 0.0)  # a token may take all


@given(ffn=moe_ffns(), routing_skew=st.none() | st.floats(0.5, 50.0))
def test_very_many_tokens_touch_all_experts(ffn, routing_skew):
    # (T a/c)^-c at c = 0.5 and T = 1e15 leaves some 1e-7 of the experts idle.
    assert close(distinct_experts(ffn, 1e15, routing_skew), ffn.experts, 1e-6)


@given(ffn=moe_ffns(), tokens=st.floats(1.0, 1e5), routing_skew=st.floats(0.1, 50.0))
def test_skewed_routing_touches_no_more_experts_than_uniform_which_it_becomes_as_the_parameter_grows(
    ffn, tokens, routing_skew
):
    uniform = distinct_experts(ffn, tokens, None)
    assert distinct_experts(ffn, tokens, routing_skew) <= uniform * (1.0 + 1e-11)
    # The difference falls as 1/c; 1e-4 leaves room for the factor ln(1 - k/E)^2 T / 2 in front of it.
    assert close(distinct_experts(ffn, tokens, 1e6), uniform, 1e-4)


@each("routing", [1e-4, 1e-3, 0.01, 0.66, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18])
@each("name", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_a_skew_is_refused_or_lets_one_token_touch_its_top_k(name, routing):
    def weights(routing_skew):
        found = rl.predict(name, "h200-sxm", routing=routing_skew)
        return next(kernel.work.weight_bytes for kernel in found.decode.kernels if kernel.kind is MOE)

    try:
        touched = weights(routing)
    except rl.BadInput:
        return
    assert close(touched, weights("uniform"), 1e-4)


@pytest.mark.parametrize(("tokens", "touched"), [(1, 8.0), (16, 101.96), (2, 256 * (1 - (31 / 32) ** 2))])
def test_uniform_routing_follows_the_occupancy_law(tokens, touched):
    # 256 experts, 8 a token: E (1 - (1 - k/E)^T); 16 tokens worked out by hand.
    assert close(distinct_experts(MoeFfn(256, 8, 1), float(tokens), None), touched, 1e-4)


@given(ffn=moe_ffns(), tokens=st.integers(1, 5000), routing_skew=skews)
def test_expert_ranks_share_out_arithmetic_and_weights(ffn, tokens, routing_skew):
    scheme = Scheme("bf16", 2.0, 2.0, "bf16", "bf16")
    whole = experts(ffn, 1024, float(tokens), float(tokens), Plan(), routing_skew, scheme)
    for plan in (Plan(tp=8), Plan(tp=8, ep=8), Plan(tp=8, ep=2), Plan(tp=2, dp=4, ep=8)):
        shard = experts(ffn, 1024, tokens / plan.dp, float(tokens), plan, routing_skew, scheme)
        touched = fullest_touched(whole.items, ffn.experts, plan.ep, routing_skew)
        # The fullest of ep ranks, each of which shares an expert with 8/ep others; a touched expert has a token.
        routed = max(tokens * ffn.top_k / plan.ep * fullest_rank(ffn.experts, plan.ep, routing_skew), touched)
        assert close(shard.flop, whole.flop / (tokens * ffn.top_k) * routed / plan.expert_tp)
        assert close(shard.items, touched)
        if not ffn.expert_bias:  # each rank adds the whole output bias
            assert close(shard.weight_bytes * plan.expert_tp, touched / whole.items * whole.weight_bytes)
        assert 8.0 * shard.flop >= whole.flop * (1.0 - 1e-12)
        assert 8.0 * shard.weight_bytes >= whole.weight_bytes * (1.0 - 1e-12)
        row = whole.flop / (tokens * ffn.top_k)
        assert plan.ep == 1 or shard.flop * plan.expert_tp >= row * shard.items * (1.0 - 1e-12)


numbers = st.sampled_from([8, 64, 128, 256, 384])


@given(number=numbers, ep=st.sampled_from([1, 2, 4, 8, 16]), share=st.floats(0.001, 1.0), more=st.floats(1.0, 10.0))
def test_the_fullest_rank_touches_the_mean_at_least_and_all_of_its_experts_at_most(number, ep, share, more):
    some = share * number
    touched, further = (fullest_touched(n, number, ep, 0.66) for n in (some, min(more * some, float(number))))
    assert some / ep <= touched * (1.0 + 1e-12)
    assert touched <= min(number / ep, further * (1.0 + 1e-12))
    assert fullest_touched(some, number, ep, None) == some / ep


@pytest.mark.parametrize(("touched", "ep"), [(32, 8), (100, 8), (200, 8), (100, 32)])
def test_the_fullest_rank_touches_as_many_experts_as_draws_do(touched, ep):
    # So many of 256 experts, whichever: the rank of ep with the most of them.
    draw, most = random.Random(0), []
    for _ in range(2000):
        ranks = [0] * ep
        for expert in draw.sample(range(256), touched):
            ranks[expert % ep] += 1
        most.append(max(ranks))
    assert fullest_touched(float(touched), 256, ep, 0.66) == pytest.approx(statistics.fmean(most), rel=0.05)


@given(number=numbers, ep=st.sampled_from([1, 2, 3, 4, 6, 8, 16, 32]), routing_skew=skews)
def test_the_fullest_rank_has_at_least_the_mean_and_at_most_everything(number, ep, routing_skew):
    load = fullest_rank(number, ep, routing_skew)
    assert 1.0 <= load <= ep
    assert (load == 1.0) == (ep == 1 or routing_skew is None)
    assert load <= fullest_rank(number, ep + 1, routing_skew) + 1e-12 or routing_skew is None or load == ep


def test_the_fullest_rank_is_that_of_drawn_loads():
    # 256 experts on 8 ranks, loads drawn from a Gamma distribution of variance 10, shape 0.1.
    draw = random.Random(0)
    ratios = []
    for _ in range(2000):
        ranks = [sum(draw.gammavariate(0.1, 1.0) for _ in range(32)) for _ in range(8)]
        ratios.append(max(ranks) / (sum(ranks) / 8))
    # The tail of such loads is longer than the normal's: some 6 % here, more with fewer experts a rank.
    assert 0.92 * statistics.fmean(ratios) < fullest_rank(256, 8, 0.66) < statistics.fmean(ratios)
