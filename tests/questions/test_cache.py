"""The question of a prompt cache: loading against recomputing, tier by tier, and where both are equal."""

import pytest
from conftest import close

import roofline as rl
from roofline.questions.cache import even_prefix, recompute
from roofline.specs.engine import PromptCache
from roofline.support.errors import BadInput, DoesNotFit

REST = 1000.0


def difference(model, gpu, prefix, **options):
    """By how much a prompt is later whose prefix is loaded, not computed."""
    case = {"isl": prefix + REST, "osl": 10, "batch": 1, **options}
    tier = {"cache_tier": "nvme", "cache_bandwidth": options.pop("rate")} if "rate" in options else {}
    case.pop("rate", None)
    return rl.predict(model, gpu, **case, prefix=prefix, **tier).ttft - rl.predict(model, gpu, **case).ttft


@pytest.mark.parametrize("model, gpu, tp, rate", [
    ("llama-3.1-8b", "h100-sxm", 1, 5.5e9), ("llama-3.1-70b", "b200", 4, 1.9e9), ("gpt-oss-120b", "h100-sxm", 2, 1e9),
])  # fmt: skip
def test_the_break_even_is_that_of_a_bisection_over_predictions(model, gpu, tp, rate):
    low, high = 1.0, 120_000.0
    assert difference(model, gpu, low, tp=tp, rate=rate) > 0.0 > difference(model, gpu, high, tp=tp, rate=rate)
    while high - low > 0.01:
        middle = (low + high) / 2.0
        low, high = (middle, high) if difference(model, gpu, middle, tp=tp, rate=rate) > 0.0 else (low, middle)
    deployment = rl.predict(model, gpu, tp=tp).deployment
    found = even_prefix(deployment, REST, PromptCache(tier="nvme", bandwidth=rate))
    assert close(found.prefix, low, 1e-5)
    if found.is_straight:  # then a and b of another length give it as well
        other = recompute(deployment, REST, 2.0 * found.prefix)
        assert close((found.load_per_token - other.per_token) / other.per_square, found.prefix, 0.35)


def test_at_the_break_even_the_closed_form_holds_exactly_and_b_is_that_of_any_length():
    deployment = rl.predict("llama-3.1-8b", "h100-sxm", tp=1).deployment
    found = even_prefix(deployment, REST, PromptCache(tier="nvme", bandwidth=5e9))
    assert found.is_straight
    formula = (found.load_per_token - found.recompute.per_token) / found.recompute.per_square
    assert close(formula, found.prefix, 1e-9)
    assert close(recompute(deployment, REST, 40_000.0).per_square, found.recompute.per_square, 1e-3)
    assert close(recompute(deployment, 50.0, 9000.0).per_square, found.recompute.per_square, 1e-3)  # of any rest


def test_short_prompts_read_the_weights_all_the_same_so_that_computing_them_again_is_free():
    deployment = rl.predict("llama-3.1-8b", "h100-sxm", tp=1).deployment
    assert recompute(deployment, 50.0, 50.0).time < 1e-9
    found = even_prefix(deployment, 50.0, PromptCache(tier="nvme", bandwidth=60e9))
    assert 100.0 < found.prefix < 1000.0
    assert not found.is_straight
    assert even_prefix(deployment, REST, PromptCache(tier="nvme", bandwidth=1e8)) is None  # a disk is never faster


def test_every_tier_with_a_bandwidth_is_weighed_and_rows_are_predictions():
    case = {"isl": 4000, "osl": 300, "prefix": 3000, "tp": 1}
    found = rl.prompt_cache("llama-3.1-8b", "h100-sxm", **case)
    assert [one.tier for one in found] == ["hbm", "host", "network"]
    for one in found:
        row = one.to_dict()
        alone = rl.predict("llama-3.1-8b", "h100-sxm", **case, cache_tier=one.tier).to_dict()
        assert row["ttft_ms"] == alone["ttft_ms"]
        assert row["faster"] == ("loading" if one.load <= one.again.time else "recomputing")
        assert set(row) >= {"break_even_prefix", "recompute_ms", "prefixes_held"}
    assert "nvme" not in {one.tier for one in found}
    (disk,) = rl.prompt_cache("llama-3.1-8b", "h100-sxm", **case, cache_tier="nvme", cache_bandwidth="6GB/s")
    assert disk.faster == "recomputing"
    assert disk.even.prefix > 3000.0


def test_the_memory_beside_the_batch_holds_as_many_prefixes_as_fit_it():
    case = {"isl": 4000, "osl": 300, "prefix": 3000, "tp": 1}
    memory = rl.prompt_cache("llama-3.1-8b", "h100-sxm", **case)[0]
    kept = memory.prefixes * 3000.0 * 131_072.0  # of 2 x 32 layers x 8 heads x 128 x 2 bytes
    rl.predict("llama-3.1-8b", "h100-sxm", **case, cache_size=kept)
    with pytest.raises(DoesNotFit):
        rl.predict("llama-3.1-8b", "h100-sxm", **case, cache_size=1.01 * kept + 3000.0 * 131_072.0)
    (asked, *_) = rl.prompt_cache("llama-3.1-8b", "h100-sxm", **case, working_set="200GB:zipf0.9")
    assert 0.5 < asked.hit < 1.0


def test_without_a_prefix_there_is_nothing_to_weigh():
    with pytest.raises(BadInput, match="needs a prefix"):
        rl.prompt_cache("llama-3.1-8b", "h100-sxm")
    refused = rl.prompt_cache("llama-3.1-70b", ["rtx-4090", "b200"], isl=4000, prefix=3000, tp=1)
    assert "does not fit" in refused[0].reason
    assert refused[1].reason is None
