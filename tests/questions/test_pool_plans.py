"""Plans with a prefill and a decode pool."""

from itertools import product

import pytest
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli

CASE = {"isl": 2000, "osl": 300, "request_rate": 12.0, "slo": "ttft:400,tpot:22"}
GPUS = ["h100-sxm", "b200"]


@pytest.fixture(scope="module")
def answer():
    return rl.plan("qwen3-32b", GPUS, quantization="fp8", disaggregate=True, **CASE)


def test_the_pools_are_what_disaggregate_says_and_meet_the_slo(answer):
    assert answer.pools
    for pools in answer.pools:
        again = rl.disaggregate("qwen3-32b", pools.texts["prefill"], pools.texts["decode"], **CASE)
        assert again.slo_met
        assert pools.to_dict(["ttft_ms", "tpot_ms", "usd_per_hour", "slo_verdict"]) == again.to_dict(
            ["ttft_ms", "tpot_ms", "usd_per_hour", "slo_verdict"]
        )
    rents = [pools.usd_per_hour for pools in answer.pools]
    assert rents == sorted(rents)
    assert answer.to_dict(["gpu"])["pools"][0]["usd_per_hour"] == rents[0]


def test_no_pools_of_a_small_space_cost_less(answer):
    best = answer.pools[0].usd_per_hour
    for one, other, tp, width in product(GPUS, GPUS, (1, 2), (1, 2)):
        for prefills, decodes in product(range(1, 7), range(1, 7)):
            try:
                pools = rl.disaggregate(
                    "qwen3-32b", f"{one}:tp{tp}:fp8x{prefills}", f"{other}:tp{width}:fp8x{decodes}", **CASE
                )
            except (rl.Overloaded, rl.DoesNotFit):
                continue
            if pools.slo_met:
                assert pools.usd_per_hour >= best * (1.0 - 1e-12), pools.texts
                break


def test_a_budget_holds_for_both_pools_together(answer):
    best = answer.pools[0]
    within = rl.plan("qwen3-32b", GPUS, quantization="fp8", disaggregate=True, spend=best.usd_per_hour * 1.0001, **CASE)
    assert within.pools[0].usd_per_hour == pytest.approx(best.usd_per_hour)
    less = rl.plan("qwen3-32b", GPUS, quantization="fp8", disaggregate=True, spend=best.usd_per_hour * 0.99, **CASE)
    assert less.pools == ()
    few = rl.plan("qwen3-32b", quantization="fp8", disaggregate=True, have="1xh100,1xb200", **CASE)
    assert all(pools.num_gpus <= 2 for pools in few.pools)


def test_the_command_prints_the_pools_below_the_plans(answer):
    words = ["plan", "-m", "qwen3-32b", "-g", ",".join(GPUS), "-q", "fp8", "--isl", "2000", "--osl", "300"]
    shown = CliRunner().invoke(cli, [*words, "--rate", "12", "--slo", "ttft:400,tpot:22", "--disaggregate"])
    assert shown.exit_code == 0
    texts = answer.pools[0].texts
    assert f"{texts['prefill']} + {texts['decode']}: mean TTFT" in shown.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"request_rate": None}, "two pools need a load"),
        ({"tp": 2}, "leave out tp"),
        ({"max_num_seqs": [32, 64]}, "leave out max_num_seqs"),
    ],
)
def test_what_two_pools_cannot_take_is_refused(options, words):
    with pytest.raises(rl.BadInput, match=words):
        rl.plan("qwen3-32b", "h100-sxm", disaggregate=True, **{**CASE, **options})
