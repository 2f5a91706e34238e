"""A day of a plan: replicas that follow the rate, and the bill."""

import pytest
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli
from roofline.questions.day import day
from roofline.questions.inputs.rates import rates_of_day

CASE = {"isl": 1000, "osl": 200, "quantization": "fp8", "slo": "ttft:300,tpot:25", "gpu_price": 2.0}
RATES = {0.0: 1.0, 8.0: 10.0, 12.0: 40.0, 20.0: 8.0}


@pytest.fixture(scope="module")
def best():
    return rl.plan("qwen3-32b", "h100-sxm", request_rate=40.0, **CASE).best


def test_each_hour_has_the_fewest_replicas_that_meet_the_slo_at_its_rate(best):
    plan = best.prediction.deployment.plan
    for span in day(best, RATES).spans:
        assert span.rate == RATES[span.start]
        assert span.prediction.slo_met
        count = span.prediction.deployment.replicas
        if count > 1:
            fewer = {**CASE, "request_rate": span.rate, "tp": plan.tp, "num_gpus": plan.tp * (count - 1)}
            try:
                assert not rl.predict("qwen3-32b", "h100-sxm", **fewer).slo_met
            except rl.Overloaded:
                continue


def test_gpu_hours_and_bills_add_up(best):
    answer = day(best, RATES, start_up="6m")
    gpus = {span.start: span.num_gpus for span in answer.spans}
    by_hand = 8 * gpus[0.0] + 4 * gpus[8.0] + 8 * gpus[12.0] + 4 * gpus[20.0]
    assert answer.gpu_hours == pytest.approx(by_hand)
    assert answer.fixed_gpu_hours == 24 * max(gpus.values())
    assert answer.bill(by_hand) == pytest.approx(2.0 * by_hand)
    added = max(gpus[8.0] - gpus[0.0], 0) + max(gpus[12.0] - gpus[8.0], 0)
    assert answer.gpu_hours_ahead == pytest.approx(by_hand + 0.1 * added)
    assert day(best, {0.0: 40.0}).gpu_hours == day(best, [40.0] * 24).gpu_hours == 24 * gpus[12.0]


def test_replicas_that_start_late_leave_a_backlog_that_drains(best):
    answer = day(best, RATES, start_up="10m")
    spans = {span.start: span for span in answer.spans}
    before, after = (float(spans[hour].prediction.max_request_rate) for hour in (8.0, 12.0))
    backlog = max(40.0 - before, 0.0) * 600.0
    assert backlog > 0.0
    assert spans[12.0].backlog == pytest.approx(backlog)
    assert spans[12.0].late == pytest.approx(600.0 + backlog / (after - 40.0))
    assert spans[20.0].late == 0.0
    assert 0.0 < answer.late_share < 1.0
    assert "requests wait" in str(answer)


def test_a_file_has_all_hours(best, tmp_path):
    file = tmp_path / "rates.csv"
    lines = [f"{hour},{60 * (1 + hour % 12)}/min" for hour in range(24)]
    file.write_text("hour,rate\n" + "\n".join(lines))
    assert rates_of_day(str(file))[13] == (13.0, 2.0)
    file.write_text("hour,rate\n" + "\n".join(lines[:7] + lines[9:]))
    with pytest.raises(rl.BadInput, match="no rate for hour 7, 8"):
        day(best, str(file))


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ("8:5,8:6", "8 h twice"),
        ("25:3", "hour"),
        ("8", "has no hour"),
        ("8:fast", "is not an hour and a rate"),
        ("8:-1", "must be a number between 0"),
        ("0:0", "no requests all day"),
        ([1.0, 2.0], "2 numbers"),
        (7, "rate_by_hour"),
        ("missing.csv", "missing.csv"),
    ],
)
def test_rates_with_gaps_or_faults_are_refused(best, rates, words):
    with pytest.raises(rl.BadInput, match=words):
        day(best, rates)


def test_a_day_needs_a_plan_for_a_rate_and_a_time_to_start(best):
    users = rl.plan("qwen3-32b", "h100-sxm", concurrency=8, **CASE).best
    with pytest.raises(rl.BadInput, match="request rate"):
        day(users, "0:1")
    with pytest.raises(rl.BadInput, match="start_up"):
        day(best, "0:1", start_up="soon")
    none = rl.plan("qwen3-32b", "h100-sxm", request_rate=40.0, **{**CASE, "slo": {"ttft": 1e-6}}).plans[0]
    with pytest.raises(rl.BadInput, match="no plan for the day"):
        day(none, "0:1")


def test_the_command_plans_for_the_peak_and_prints_the_day(best):
    words = ["plan", "-m", "qwen3-32b", "-g", "h100-sxm", "--isl", "1000", "--osl", "200", "-q", "fp8"]
    words += ["--slo", "ttft:300,tpot:25", "--gpu-price", "2"]
    shown = CliRunner().invoke(cli, [*words, "--rate-by-hour", "0:1,8:10,12:40,20:8", "--start-up", "10m"])
    assert shown.exit_code == 0
    text = " ".join(shown.stdout.split())
    assert "40 requests/s" in text
    assert " ".join(str(day(best, RATES, start_up="10m")).split()) in text
    refused = CliRunner().invoke(cli, [*words, "--rate-by-hour", "0:1", "--rate", "3"])
    assert (refused.exit_code, "leave out --request-rate" in refused.stderr) == (2, True)
    assert CliRunner().invoke(cli, [*words, "--rate", "3", "--start-up", "10m"]).exit_code == 2
