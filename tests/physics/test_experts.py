"""How many experts a step touches."""

import random
import statistics

import pytest
from conftest import close, moe_ffns
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.layers.networks import distinct_experts, experts, fullest_rank, fullest_touched
from roofline.physics.plan import Plan, Scheme
from roofline.specs.gpu import MOE
from roofline.specs.model import MoeFfn

skews = st.none() | st.floats(0.1, 50.0)


@given(ffn=moe_ffns(), routing_skew=skews)
def test_one_token_touches_exactly_its_top_k(ffn, routing_skew):
    # The round trip (1 - k/E)^(-1/c) - 1 and back loses a few ulp, magnified by c.
    assert close(distinct_experts(ffn, 1.0, routing_skew), ffn.top_k, 1e-11)


@given(ffn=moe_ffns(), routing_skew=skews)
def test_no_token_touches_no_expert(ffn, routing_skew):
    assert distinct_experts(ffn, 0.0, routing_skew) == 0.0


@given(ffn=moe_ffns(), routing_skew=skews, tokens=st.floats(1.0, 1e6), more=st.floats(1.0, 1e3))
def test_more_tokens_never_touch_fewer_experts(ffn, routing_skew, tokens, more):
    few, many = distinct_experts(ffn, tokens, routing_skew), distinct_experts(ffn, tokens * more, routing_skew)
    assert few <= many * (1.0 + 1e-12)
    assert ffn.top_k * (1.0 - 1e-11) <= few
    assert many <= ffn.experts


@given(ffn=moe_ffns(), routing_skew=st.none() | st.floats(0.5, 50.0))
def test_very_many_tokens_touch_all_experts(ffn, routing_skew):
    # (T a/c)^-c at c = 0.5 and T = 1e15 leaves some 1e-7 of the experts idle.
    assert close(distinct_experts(ffn, 1e15, routing_skew), ffn.experts, 1e-6)


@given(ffn=moe_ffns(), tokens=st.floats(1.0, 1e5))
def test_the_law_becomes_uniform_as_the_skew_parameter_grows(ffn, tokens):
    # The difference falls as 1/c; 1e-4 leaves room for the factor ln(1 - k/E)^2 T / 2 in front of it.
    assert close(distinct_experts(ffn, tokens, 1e6), distinct_experts(ffn, tokens, None), 1e-4)


@given(ffn=moe_ffns(), routing_skew=st.floats(0.1, 50.0), tokens=st.floats(1.0, 1e5))
def test_skewed_routing_never_touches_more_experts_than_uniform_routing(ffn, routing_skew, tokens):
    assert distinct_experts(ffn, tokens, routing_skew) <= distinct_experts(ffn, tokens, None) * (1.0 + 1e-11)


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


@given(tokens=st.floats(1.0, 1e4), routing_skew=skews)
def test_a_token_that_takes_all_experts_touches_all(tokens, routing_skew):
    assert distinct_experts(MoeFfn(8, 8, 1), tokens, routing_skew) == 8.0


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


@given(
    number=st.sampled_from([8, 64, 128, 256, 384]),
    ep=st.sampled_from([1, 2, 4, 8, 16]),
    share=st.floats(0.001, 1.0),
    more=st.floats(1.0, 10.0),
)
def test_the_fullest_rank_touches_the_mean_at_least_and_all_of_its_experts_at_most(number, ep, share, more):
    some = share * number
    touched = fullest_touched(some, number, ep, 0.66)
    assert some / ep <= touched * (1.0 + 1e-12)
    assert touched <= number / ep
    assert touched <= fullest_touched(min(more * some, float(number)), number, ep, 0.66) * (1.0 + 1e-12)
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


@given(
    number=st.sampled_from([8, 64, 128, 256, 384]), ep=st.sampled_from([1, 2, 3, 4, 6, 8, 16, 32]), routing_skew=skews
)
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
