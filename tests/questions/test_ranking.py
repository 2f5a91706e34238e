"""Plans in an order: budgets, objectives, what a plan carries, how sure it is, where the next one begins."""

import contextlib
import json
import math
import random
from itertools import product
from statistics import NormalDist

import pytest
import tiers
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli
from roofline.questions.plan import plan, size

LIMITS = "ttft:500@p95,tpot:30"
CHAT = {"isl": 1155, "osl": 211, "isl_cv": 0.3, "osl_cv": 0.77}
KINDS = ["h100-sxm", "h200-sxm", "b200", "l40s"]


def drawn(seed, count):
    """Cases of small models under loads that one to a dozen replicas serve."""
    draw = random.Random(seed)
    for _ in range(count):
        model = draw.choice(["llama-3.1-8b", "qwen3-32b", "gpt-oss-20b", "llama-3.3-70b"])
        load = draw.choice([{"request_rate": draw.uniform(1.0, 20.0)}, {"concurrency": draw.randint(4, 150)}])
        slo = f"ttft:{draw.choice([300, 600, 1200])}@p95,tpot:{draw.choice([15, 25, 50])}"
        yield model, {"isl": draw.choice([500, 2000]), "osl": draw.choice([100, 400]), **load, "slo": slo}


@tiers.has_more_cases
def test_the_first_plan_is_the_cheapest_of_all_that_brute_force_finds():
    met = 0
    for model, case in drawn("brute", tiers.times(2, 6)):
        answer = plan(model, ["h100-sxm", "b200"], quantization=["bf16", "fp8"], tp=[1, 2, 4], **case)
        prices = {}
        for gpu, preset, tp in product(["h100-sxm", "b200"], ["bf16", "fp8"], [1, 2, 4]):
            for replicas in range(1, 40):
                options = {**case, "tp": tp, "quantization": preset, "num_gpus": tp * replicas}
                try:
                    prediction = rl.predict(model, gpu, **options)
                except rl.RooflineError:
                    continue
                if prediction.slo_met:
                    rent = prediction.usd_per_hour
                    prices[gpu] = min(prices.get(gpu, rent), rent)
                    break
        few = [each for each in answer.plans if each.meets and each.prediction.deployment.replicas < 40]
        assert {each.gpu.name: each.usd_per_hour for each in few} == pytest.approx(prices)
        if prices:
            met += 1
            assert answer.best.usd_per_hour == pytest.approx(min(prices.values()))
    assert met >= tiers.times(1, 4)


def test_a_row_is_what_predict_says_for_the_options_that_it_states():
    seen = 0
    for model, case in drawn("rows", 5):
        for each in plan(model, KINDS, quantization=["bf16", "fp8"], top=2, **case).plans:
            if each.prediction is None:
                continue
            seen += 1
            row = each.to_dict()
            again = rl.predict(**row["options"]).to_dict()
            for key, value in again.items():
                if isinstance(value, float):
                    assert row[key] == pytest.approx(value, rel=1e-12, nan_ok=True), key
                elif key != "warnings":
                    assert row[key] == value, key
    assert seen > 15


def test_a_larger_budget_a_looser_limit_and_one_more_kind_never_hurt():
    for model, case in drawn("monotone", 6):
        everything = plan(model, KINDS, **case)
        fewer = plan(model, KINDS[:2], **case)
        rent = {
            name: answer.best.usd_per_hour if answer.best else math.inf
            for name, answer in {"all": everything, "some": fewer}.items()
        }
        assert rent["all"] <= rent["some"]
        if everything.best is None:
            continue
        limits = {key: 1.3 * value for key, value in everything.best.prediction.slo.items()}
        loose = plan(model, KINDS, **{**case, "slo": limits})
        assert loose.best.usd_per_hour <= rent["all"]
        spends = [0.5 * rent["all"], rent["all"], 3.0 * rent["all"]]
        cheapest = [plan(model, KINDS, spend=spend, **case).best for spend in spends]
        assert cheapest[0] is None
        assert cheapest[1].usd_per_hour == cheapest[2].usd_per_hour == rent["all"]
        shares = [
            max(best.prediction.slo_shares.values())
            for spend in spends[1:]
            if (best := plan(model, KINDS, objective="latency", spend=spend, **case).best)
        ]
        assert shares == sorted(shares, reverse=True)


def test_a_plan_over_the_budget_says_what_it_would_take():
    case = {**CHAT, "request_rate": 20.0, "slo": LIMITS, "quantization": "fp8"}
    free = plan("llama-3.3-70b", "h100-sxm", **case).best
    needed = free.prediction.deployment.num_gpus
    (over,) = plan("llama-3.3-70b", "h100-sxm", have={"h100": needed - 1}, **case).plans
    assert (over.meets, over.verdict) == (False, "fail")
    assert over.over_budget == pytest.approx(needed / (needed - 1))
    assert f"it takes {needed}x h100-sxm" in over.reason
    (within,) = plan("llama-3.3-70b", have=f"{needed}xh100", **case).plans
    assert within.to_dict()["num_gpus"] == needed


def test_the_fastest_plan_takes_all_gpus_of_the_budget_and_beats_every_other():
    case = {**CHAT, "request_rate": 6.0, "slo": LIMITS}
    answer = plan("llama-3.3-70b", "h100-sxm", objective="latency", have="16xh100", top=3, **case)
    best = answer.best.prediction
    assert best.deployment.num_gpus == 16
    by_hand = {
        tp: max(rl.predict("llama-3.3-70b", "h100-sxm", tp=tp, num_gpus=16, **case).slo_shares.values())
        for tp in (4, 8)
    }
    assert max(best.slo_shares.values()) == pytest.approx(min(by_hand.values()), rel=1e-12)
    with pytest.raises(rl.BadInput, match="spend or have"):
        plan("llama-3.3-70b", "h100-sxm", objective="latency", **case)


def test_throughput_ranks_by_tokens_per_gpu():
    case = {**CHAT, "request_rate": 20.0, "slo": LIMITS, "quantization": "fp8"}
    rates = [
        each.prediction.output_tok_s_gpu
        for each in plan("qwen3-32b", KINDS, objective="throughput", **case).plans
        if each.meets
    ]
    assert len(rates) > 1
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("load", [{"request_rate": 8.0}, {"concurrency": 64}, {"batch": 8}])
def test_a_plan_carries_its_largest_load_and_no_more(load):
    best = plan("qwen3-32b", "h100-sxm", isl=1000, osl=200, slo="ttft:800,tpot:30", **load).best
    most = best.largest_load
    (name,) = load
    options = {key: value for key, value in best.options.items() if key not in ("model", "gpu")}
    assert rl.predict("qwen3-32b", "h100-sxm", **{**options, name: most}).slo_met
    beyond = {**options, name: most * 1.001 + (name != "request_rate")}
    with contextlib.suppress(rl.Overloaded, rl.DoesNotFit):
        assert not rl.predict("qwen3-32b", "h100-sxm", **beyond).slo_met
    assert best.load_headroom == pytest.approx(most / load[name] - 1.0)
    assert (best.goodput is None) == (name == "batch")


def test_several_values_of_what_may_be_chosen_compete():
    case = {**CHAT, "request_rate": 10.0, "slo": "ttft:400@p95,tpot:25"}
    alone = [
        plan("qwen3-32b", "h100-sxm", max_num_batched_tokens=tokens, **case).best.prediction.deployment.num_gpus
        for tokens in (512, 2048, 8192)
    ]
    together = plan("qwen3-32b", "h100-sxm", max_num_batched_tokens=[512, 2048, 8192], **case)
    (best,) = together.plans
    assert best.prediction.deployment.num_gpus == min(alone)
    assert best.options["max_num_batched_tokens"] in (512, 2048, 8192)


def test_plans_along_a_growing_load_follow_each_other_without_a_gap():
    answer = plan("qwen3-32b", KINDS, concurrency=60, growth="3x", slo="ttft:500,tpot:25", isl=1000, osl=200)
    steps = answer.steps
    assert steps[0].start == 60.0
    assert steps[-1].end == 180.0
    assert [after.start for after in steps[1:]] == [before.end + 1.0 for before in steps[:-1]]
    rents = [step.plan.usd_per_hour for step in steps]
    assert rents == sorted(rents)
    for step in steps:
        again = plan("qwen3-32b", KINDS, concurrency=int(step.end), slo="ttft:500,tpot:25", isl=1000, osl=200)
        assert again.best.usd_per_hour == step.plan.usd_per_hour


def test_several_loads_alone_say_where_one_plan_ends_and_the_next_begins():
    case = {"isl": 1000, "osl": 200, "slo": "ttft:500,tpot:25"}
    listed = plan("qwen3-32b", KINDS, concurrency=[180, 60], **case)
    grown = plan("qwen3-32b", KINDS, concurrency=60, growth=3, **case)
    assert [str(step) for step in listed.steps] == [str(step) for step in grown.steps]
    assert len(listed.steps) > 1
    words = ["plan", "-m", "qwen3-32b", "-g", ",".join(KINDS), "--isl", "1000", "--osl", "200"]
    shown = CliRunner().invoke(cli, [*words, "--slo", "ttft:500,tpot:25", "-c", "60,180", "-f", "json"])
    assert json.loads(shown.stdout)["steps"] == [step.to_dict() for step in grown.steps]
    assert plan("qwen3-32b", "h100-sxm", concurrency=[4, 8], osl=[100, 200], isl=1000, slo="tpot:25").steps == ()
    assert plan("qwen3-32b", "h100-sxm", concurrency=[1, 1000], isl=1000, osl=200, slo="tpot:25").steps == ()


def test_the_probability_is_the_product_of_what_both_latencies_meet():
    words = set()
    for limit in (30, 60, 100, 200, 400):
        best = plan("llama-3.1-8b", "h100-sxm", isl=1000, osl=200, slo=f"ttft:{limit},tpot:{limit}").best
        if best is None:
            continue
        words.add(best.verdict)
        assert 0.25 <= best.slo_probability <= 1.0
        by_hand = 1.0
        for key, most in best.prediction.slo.items():
            time, (_, high) = best.prediction.latency(key), best.prediction.latency_interval(key)
            by_hand *= NormalDist().cdf(1.2816 * math.log(most / time) / math.log(high / time))
        assert best.slo_probability == pytest.approx(by_hand)
        assert best.slo_probability >= 0.81 or best.verdict == "pass?"
    assert words == {"pass", "pass?"}
    assert plan("llama-3.1-8b", "h100-sxm", slo="tpot:25", basis="ideal").best.slo_probability is None


def test_the_best_of_the_catalog_is_the_one_that_the_screen_names():
    case = {"isl": 1000, "osl": 200, "concurrency": 48, "slo": "tpot:25"}
    answer = plan("qwen3-8b", **case)
    words = ["plan", "-m", "qwen3-8b", "--isl", "1000", "--osl", "200", "-c", "48", "--slo", "tpot:25"]
    shown = CliRunner().invoke(cli, words)
    best = answer.best.prediction.deployment
    assert f"{best.num_gpus}x {best.gpu.name} meets it" in shown.stdout
    assert answer.best.gpu.status == "shipping"
    assert answer.cheapest.usd_per_hour <= answer.best.usd_per_hour


def test_size_is_the_former_name_of_plan():
    assert size is plan
    assert rl.size is rl.plan


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"spend": "40k"}, "add the period"),
        ({"spend": -1}, "spend"),
        ({"have": "h100"}, "not a number of GPUs"),
        ({"have": {"h100": 0}}, "at least 1"),
        ({"have": ""}, "have"),
        ({"growth": "0.5x"}, "growth"),
        ({"growth": "fast"}, "growth"),
        ({"top": 0}, "top"),
        ({"tp": list(range(1, 200)), "max_num_seqs": list(range(1, 200))}, "too many choices"),
    ],
)
def test_what_cannot_be_read_is_refused(options, words):
    with pytest.raises(rl.BadInput, match=words):
        plan("llama-3.1-8b", "h100-sxm", slo="tpot:25", **options)


def test_an_unknown_objective_is_refused_with_those_there_are():
    with pytest.raises(rl.UnknownName, match="cost, latency, throughput"):
        plan("llama-3.1-8b", "h100-sxm", slo="tpot:25", objective="speed")
