"""What would change a plan."""

import pytest

import roofline as rl
from roofline.questions.turning_points import next_measurement, turning_points

KINDS = ["h100-sxm", "h200-sxm", "b200"]
CASE = {"isl": 1155, "osl": 211, "request_rate": 12.0, "slo": "ttft:400@p95,tpot:25", "quantization": ["fp8", "nvfp4"]}


@pytest.fixture(scope="module")
def answer():
    return rl.plan("llama-3.3-70b", KINDS, **CASE)


def test_a_gpu_wins_below_its_break_even_rent_and_loses_above(answer):
    points = [point for point in turning_points(answer) if point.input == "gpu_price"]
    assert len(points) == 3
    rival = next(point for point in points if point.factor < 1.0)
    for factor, wins in ((0.99, True), (1.01, False)):
        priced = rl.plan("llama-3.3-70b", rival.gpu, gpu_price=rival.value * factor, **CASE)
        assert (priced.best.usd_per_hour < answer.best.usd_per_hour) == wins


def test_another_kind_leads_on_the_far_side_of_a_load_or_a_limit(answer):
    checked = 0
    for point in turning_points(answer):
        if point.input == "gpu_price":
            continue
        case = dict(CASE)
        if point.input == "request_rate":
            case["request_rate"] = point.value
        else:
            case["slo"] = {"ttft_p95": 0.4 * point.factor, "tpot": 0.025 * point.factor}
        assert rl.plan("llama-3.3-70b", KINDS, **case).best.gpu.name == point.plan.gpu.name != answer.best.gpu.name
        checked += 1
    assert checked


def test_a_measurement_is_worth_what_it_saves_on_average(answer):
    runs = next_measurement(answer)
    assert {run.plan.gpu.name for run in runs} == {plan.gpu.name for plan in answer.plans if plan.meets}
    assert [run.worth for run in runs] == sorted((run.worth for run in runs), reverse=True)
    least = min(run.expected for run in runs)
    for run in runs:
        others = min(other.expected for other in runs if other is not run)
        by_hand = least - sum(min(bill, others) for bill in run.bills) / 5.0
        assert run.worth == pytest.approx(max(by_hand, 0.0))
        assert list(run.bills) == sorted(run.bills)
        assert run.bills[2] == pytest.approx(run.plan.usd_per_hour)


def test_an_answer_about_several_cases_is_refused():
    both = rl.plan("llama-3.1-8b", "h100-sxm", slo="tpot:25", concurrency=[8, 16])
    with pytest.raises(rl.BadInput, match="several cases"):
        turning_points(both)
