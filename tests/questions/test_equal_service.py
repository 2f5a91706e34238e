"""Costs on several GPUs at the same SLO."""

import math

import pytest
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli
from roofline.questions.equal_service import equal_service

CASE = {"isl": 2000, "osl": 300, "slo": "ttft:800"}
GPUS = ["h100:tp4:fp8", "b200:tp2:fp8"]


@pytest.fixture(scope="module")
def answer():
    return equal_service("llama-3.3-70b", GPUS, claim=1.2, **CASE)


def test_every_point_meets_its_limits_with_as_many_users_as_it_can(answer):
    known = 0
    for point in answer.points:
        if point.prediction is None:
            continue
        known += 1
        again = rl.predict(**point.options)
        assert again.slo_met
        assert again.tpot <= point.limit
        assert again.ttft <= 0.8
        assert again.usd_per_m_output_tok == pytest.approx(point.cost, rel=1e-12)
        more = {**point.options, "concurrency": point.options["concurrency"] + 1}
        assert not rl.predict(**more).slo_met
    assert known > 12


def test_no_other_number_of_users_costs_less_at_the_plan(answer):
    for point in answer.at(answer.limits[3]):
        case = {name: value for name, value in point.options.items() if name != "concurrency"}
        costs = [
            prediction.usd_per_m_output_tok
            for users in range(1, int(point.options["concurrency"]) + 40)
            if (prediction := rl.predict(**case, concurrency=users)).slo_met
        ]
        assert point.cost == pytest.approx(min(costs), rel=1e-9)


def test_the_ratio_is_of_the_costs_and_a_tighter_limit_costs_no_less(answer):
    for limit in answer.limits:
        first, last = answer.at(limit)
        if first.cost and last.cost:
            assert last.ratio == pytest.approx(first.cost / last.cost)
        else:
            assert last.ratio is None
    for gpu in answer.gpus:
        costs = [point.cost if point.cost else math.inf for point in answer.points if point.gpu == gpu]
        assert costs == sorted(costs)


def test_a_claim_is_true_at_its_limit_and_not_above(answer):
    if answer.claim_limit is None:
        assert all((answer.at(limit)[-1].ratio or 0.0) < 1.2 for limit in answer.limits)
        return
    again = equal_service("llama-3.3-70b", GPUS, **{**CASE, "slo": {"ttft": 0.8, "tpot": answer.claim_limit * 1.0001}})
    assert again.points[-1].gpu == GPUS[-1]
    assert (again.at(again.limits[0])[-1].ratio or 0.0) >= 1.19


def test_the_command_prints_and_draws_the_same(answer, tmp_path):
    words = [
        "compare",
        "-m",
        "llama-3.3-70b",
        "-g",
        ",".join(GPUS),
        "--isl",
        "2000",
        "--osl",
        "300",
        "--slo",
        "ttft:800",
    ]
    picture = tmp_path / "cost.svg"
    shown = CliRunner().invoke(cli, [*words, "--at-slo", "tpot", "--claim", "1.2x", "-o", str(picture)])
    assert shown.exit_code == 0, shown.output
    assert " ".join(str(answer).split()) in " ".join(shown.stdout.split())
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("gpus", "options", "words"),
    [
        (["h100"], {}, "two GPUs"),
        (GPUS, {"concurrency": 4}, "leave out concurrency"),
        (GPUS, {"claim": "0.5x"}, "claim"),
        (GPUS, {"slo": {"ttft": 1e-6}}, "h100"),
    ],
)
def test_what_cannot_be_asked_is_refused(gpus, options, words):
    with pytest.raises(rl.BadInput, match=words):
        equal_service("llama-3.3-70b", gpus, **{"isl": 2000, "osl": 300, **options})


def test_an_unknown_limit_is_refused():
    with pytest.raises(rl.UnknownName, match="not a latency"):
        equal_service("llama-3.3-70b", GPUS, limit="speed")
