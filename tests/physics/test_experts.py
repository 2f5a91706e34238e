"""How many experts a step touches."""

import random
import statistics

import pytest
from conftest import close, moe_ffns
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.layers.moe import distinct_experts, experts, fullest_rank
from roofline.physics.plan import Plan, Scheme
from roofline.specs.kernels import MOE
from roofline.specs.layers import MoeFfn

skews = st.none() | st.floats(0.1, 50.0)


@given(ffn=moe_ffns(), skew=skews)
def test_one_token_touches_exactly_its_top_k(ffn, skew):
    # The round trip (1 - k/E)^(-1/c) - 1 and back loses a few ulp, magnified by c.
    assert close(distinct_experts(ffn, 1.0, skew), ffn.top_k, 1e-11)


@given(ffn=moe_ffns(), skew=skews)
def test_no_token_touches_no_expert(ffn, skew):
    assert distinct_experts(ffn, 0.0, skew) == 0.0


@given(ffn=moe_ffns(), skew=skews, tokens=st.floats(1.0, 1e6), more=st.floats(1.0, 1e3))
def test_more_tokens_never_touch_fewer_experts(ffn, skew, tokens, more):
    few, many = distinct_experts(ffn, tokens, skew), distinct_experts(ffn, tokens * more, skew)
    assert few <= many * (1.0 + 1e-12)
    assert ffn.top_k * (1.0 - 1e-11) <= few
    assert many <= ffn.experts


@given(ffn=moe_ffns(), skew=st.none() | st.floats(0.5, 50.0))
def test_very_many_tokens_touch_all_experts(ffn, skew):
    # (T a/c)^-c at c = 0.5 and T = 1e15 leaves some 1e-7 of the experts idle.
    assert close(distinct_experts(ffn, 1e15, skew), ffn.experts, 1e-6)


@given(ffn=moe_ffns(), tokens=st.floats(1.0, 1e5))
def test_the_law_becomes_uniform_as_the_skew_parameter_grows(ffn, tokens):
    # The difference falls as 1/c; 1e-4 leaves room for the factor ln(1 - k/E)^2 T / 2 in front of it.
    assert close(distinct_experts(ffn, tokens, 1e6), distinct_experts(ffn, tokens, None), 1e-4)


@given(ffn=moe_ffns(), skew=st.floats(0.1, 50.0), tokens=st.floats(1.0, 1e5))
def test_skewed_routing_never_touches_more_experts_than_uniform_routing(ffn, skew, tokens):
    assert distinct_experts(ffn, tokens, skew) <= distinct_experts(ffn, tokens, None) * (1.0 + 1e-11)


@pytest.mark.parametrize("routing", [1e-4, 1e-3, 0.01, 0.66, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18])
@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_a_skew_is_refused_or_lets_one_token_touch_its_top_k(name, routing):
    def weights(skew):
        found = rl.predict(name, "h200-sxm", routing=skew)
        return next(kernel.work.weight_bytes for kernel in found.decode.kernels if kernel.kind is MOE)

    try:
        touched = weights(routing)
    except rl.BadInput:
        return
    assert close(touched, weights("uniform"), 1e-4)


@given(tokens=st.floats(1.0, 1e4), skew=skews)
def test_a_token_that_takes_all_experts_touches_all(tokens, skew):
    assert distinct_experts(MoeFfn(8, 8, 1), tokens, skew) == 8.0


@pytest.mark.parametrize(("tokens", "touched"), [(1, 8.0), (16, 101.96), (2, 256 * (1 - (31 / 32) ** 2))])
def test_uniform_routing_follows_the_occupancy_law(tokens, touched):
    # 256 experts, 8 a token: E (1 - (1 - k/E)^T); 16 tokens worked out by hand.
    assert close(distinct_experts(MoeFfn(256, 8, 1), float(tokens), None), touched, 1e-4)


@given(ffn=moe_ffns(), tokens=st.integers(1, 5000), skew=skews)
def test_expert_ranks_share_out_arithmetic_and_weights(ffn, tokens, skew):
    scheme = Scheme("bf16", 2.0, 2.0, "bf16", "bf16")
    whole = experts(ffn, 1024, float(tokens), float(tokens), Plan(), skew, scheme)
    for plan in (Plan(tp=8), Plan(tp=8, ep=8), Plan(tp=8, ep=2)):
        shard = experts(ffn, 1024, float(tokens), float(tokens), plan, skew, scheme)
        fullest = fullest_rank(ffn.experts, plan.ep, skew)
        assert close(8.0 * shard.flop, fullest * whole.flop)
        if not ffn.expert_bias:  # each rank adds the whole output bias
            assert close(8.0 * shard.weight_bytes, whole.weight_bytes)
    pooled = experts(ffn, 1024, tokens / 4.0, float(tokens), Plan(tp=2, dp=4, ep=8), skew, scheme)
    assert close(8.0 * pooled.flop, fullest_rank(ffn.experts, 8, skew) * whole.flop)
    assert close(8.0 * pooled.items, whole.items)


@given(number=st.sampled_from([8, 64, 128, 256, 384]), ep=st.sampled_from([1, 2, 3, 4, 6, 8, 16, 32]), skew=skews)
def test_the_fullest_rank_has_at_least_the_mean_and_at_most_everything(number, ep, skew):
    load = fullest_rank(number, ep, skew)
    assert 1.0 <= load <= ep
    assert (load == 1.0) == (ep == 1 or skew is None)
    assert load <= fullest_rank(number, ep + 1, skew) + 1e-12 or skew is None or load == ep


def test_the_fullest_rank_is_that_of_drawn_popularities():
    # 256 experts on 8 ranks, popularities drawn from a Gamma distribution of shape 0.66.
    draw = random.Random(0)
    ratios = []
    for _ in range(2000):
        ranks = [sum(draw.gammavariate(0.66, 1.0) for _ in range(32)) for _ in range(8)]
        ratios.append(max(ranks) / (sum(ranks) / 8))
    assert fullest_rank(256, 8, 0.66) == pytest.approx(statistics.fmean(ratios), rel=0.03)
