"""Options of experts: names of engines, refusals and notes, what is printed, levers, commands that are read."""

import re

import pytest
from cli.asking import ask, row
from every_case import each

import roofline as rl
from roofline.questions.commands import read_command
from roofline.questions.lever_choices import Start, candidates

CASE = ("predict", "qwen3-30b-a3b", "h100:tp1ep4dp4", "-b", "64")
ON = {"model": "qwen3-30b-a3b", "gpu": "h100-sxm", "tp": 1, "dp": 4, "ep": 4, "batch": 64}

OF_ENGINES = {
    "--enable-eplb": "--eplb 0",
    "--enable-eplb --ep-num-redundant-experts 32": "--eplb 32",
    "--enable-eplb --eplb-config.num_redundant_experts 32": "--eplb 32",
    "--enable-dbo --enable-two-batch-overlap": "--two-batch-overlap",
    "--all2all-backend deepep_high_throughput": "--all-to-all per-node",
    "--moe-a2a-backend deepep": "--all-to-all deepep",
    "--all2all-backend deepep_low_latency": "",
}


@each("theirs", list(OF_ENGINES))
def test_options_of_engines_mean_the_same(theirs):
    assert row(*CASE, *theirs.split()) == row(*CASE, *OF_ENGINES[theirs].split())


@each(
    ("more", "said"),
    [
        ({"eplb": -1}, "must be a whole number of slots"),
        ({"eplb": 2.5}, "must be a whole number of slots"),
        ({"eplb": 128 * 4}, "with 384 slots each of 4 ranks has all 128 experts"),
        ({"two_batch_overlap": 3}, "must be True or False"),
        ({"all_to_all": "direct:4"}, "must be direct, per-node or deepep"),
        ({"all_to_all": "per-node:0"}, "must be direct, per-node or deepep"),
        ({"all_to_all": 7}, "must be direct, per-node or deepep"),
        ({"model": "llama-3.1-8b", "ep": 1, "eplb": 2}, "eplb needs a mixture of experts"),
        (
            {"ep": 12, "dp": 12, "eplb": 3},
            "must divide the 128 experts of .*, or with eplb = 3 the 131 slots",
        ),
    ],
)
def test_what_cannot_be_is_refused(more, said):
    with pytest.raises(rl.BadInput, match=said):
        rl.predict(**{**ON, **more})


@each(
    ("more", "said"),
    [
        ({"eplb": 6}, "128 \\+ 6 do not divide by ep 4; use 8"),
        ({"eplb": 8, "ep": 1}, "eplb changes nothing: with ep 1"),
        ({"two_batch_overlap": True, "tp": 4, "dp": 1}, "two-batch overlap changes nothing: with ep 4 and dp 1"),
    ],
)
def test_what_has_no_effect_is_noted(more, said):
    prediction = rl.predict(**{**ON, **more})
    assert any(re.search(said, note) for note in prediction.warnings)


def test_copies_make_more_degrees_possible():
    case = {**ON, "batch": 36, "ep": 12, "dp": 12}
    assert rl.predict(**case, eplb=4).deployment.plan.ep == 12  # 132 slots on 12 ranks


def test_the_screen_says_what_balance_costs_and_where_two_batches_lose():
    shown = ask(*CASE, "--eplb", "32", "--two-batch-overlap", "--engine", "sglang").output
    assert "experts    balance" in shown
    assert "GB per rank" in shown
    assert "every 1,000 steps (SGLang)" in " ".join(shown.split())
    assert "slower than as one batch" in " ".join(shown.split())
    assert "balance" not in ask(*CASE).output


def test_levers_offer_what_the_plan_can_do():
    def kinds(**more):
        prediction = rl.predict(**{**ON, **more, "batch": None}, concurrency=64, slo="tpot:10")
        return {lever.kind: lever for lever in candidates(Start(prediction, {**ON, **more}))}

    plain = kinds()
    assert [choice.changes for choice in plain["expert balance"].choices] == [{"eplb": 0}, {"eplb": 16}]
    assert plain["two-batch overlap"].choices[0].changes == {"two_batch_overlap": True}
    assert not {"expert balance", "two-batch overlap"} & set(kinds(ep=1, dp=1))
    assert not kinds(eplb=0)["expert balance"].choices
    assert "expert balance" not in kinds(routing="uniform")


@each("engine", ["vllm", "sglang"])
def test_a_command_that_is_written_is_read_as_the_same_case(engine):
    exchange = "per-node" if engine == "vllm" else "deepep"
    asked = {"eplb": 32, "two_batch_overlap": True, "all_to_all": exchange}
    text = rl.launch(**ON, engine=engine, **asked, to=engine).command
    read = read_command(text).options
    assert {name: read[name] for name in asked} == asked
