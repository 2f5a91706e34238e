"""A plan judged by a run of one of its replicas."""

import json
import shlex

import pytest
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli
from roofline.questions.plan_check import check_plan, is_plan

CASE = {"isl": 1000, "osl": 200, "quantization": "fp8", "request_rate": 20.0, "slo": "ttft:300@p95,tpot:25"}


@pytest.fixture(scope="module")
def best():
    return rl.plan("llama-3.3-70b", ["h100-sxm", "b200"], **CASE).best


def run_of(best, ttft=1.0, tpot=1.0, **stated):
    """A result of one replica with latencies a factor longer than predicted."""
    prediction = best.prediction
    return {"mean_ttft_ms": 1e3 * prediction.ttft * ttft, "mean_tpot_ms": 1e3 * prediction.tpot * tpot, **stated}


def test_a_run_as_predicted_leaves_the_plan_as_it_is(best):
    (judged,) = check_plan(best.to_dict(), run_of(best))
    assert judged.meets
    assert judged.needed is None
    for key, time in judged.latencies.items():
        assert time == pytest.approx(best.prediction.latency(key), rel=1e-9)
    assert "the plan holds" in str(judged)


@pytest.mark.parametrize("factor", [1.15, 1.3])
def test_a_slower_run_needs_the_gpus_that_meet_limits_as_much_tighter(best, factor):
    (judged,) = check_plan(best.to_dict(), run_of(best, factor, factor))
    assert judged.meets is False
    limits = {key: limit / factor for key, limit in best.prediction.slo.items()}
    plan = best.prediction.deployment.plan
    case = {**CASE, "slo": limits, "tp": plan.tp}
    again = rl.plan("llama-3.3-70b", best.gpu.name, **case).plans[0]
    assert judged.needed.prediction.deployment.num_gpus == again.prediction.deployment.num_gpus
    assert again.prediction.deployment.num_gpus > best.prediction.deployment.num_gpus


def test_the_load_of_all_replicas_is_shared_and_other_plans_are_said(best):
    replicas = best.prediction.deployment.replicas
    assert replicas > 1
    (whole,) = check_plan(best.to_dict(), run_of(best, request_rate=20.0))
    (one,) = check_plan(best.to_dict(), run_of(best, request_rate=20.0 / replicas))
    assert whole.latencies == pytest.approx(one.latencies)
    assert "all" in whole.notes[0]
    (other,) = check_plan(best.to_dict(), run_of(best), tp=8)
    assert f"the plan has tp {best.prediction.deployment.plan.tp}, the run tp 8" in other.notes


def test_the_command_reads_a_plan_and_a_result(best, tmp_path):
    words = shlex.split(
        "-m llama-3.3-70b -g h100-sxm,b200 --isl 1000 --osl 200 -q fp8 --rate 20 --slo ttft:300@p95,tpot:25"
    )
    plan = CliRunner().invoke(cli, ["plan", *words, "--format", "json"])
    file, good, bad = (tmp_path / name for name in ("plan.json", "good.json", "bad.json"))
    file.write_text(plan.stdout)
    good.write_text(json.dumps(run_of(best)))
    bad.write_text(json.dumps(run_of(best, 1.0, 2.0)))
    assert is_plan(str(file))
    assert not is_plan(str(good))
    held = CliRunner().invoke(cli, ["check", str(file), str(good)])
    assert (held.exit_code, "the plan holds" in held.stdout) == (0, True)
    missed = CliRunner().invoke(cli, ["check", str(file), str(bad)])
    assert (missed.exit_code, "the plan misses its SLO" in missed.stdout) == (1, True)


def test_of_several_rows_that_of_the_measured_gpu_counts():
    plans = rl.plan("llama-3.3-70b", ["h100-sxm", "b200"], **CASE)
    document = plans.to_dict()
    for each in plans.plans:
        (judged,) = check_plan(document, run_of(each, gpu=each.gpu.name))
        assert judged.plan.deployment.gpu.name == each.gpu.name
    assert [row["leads"] for row in document["rows"]] == [True, False]
    document["rows"].reverse()
    (judged,) = check_plan(document, run_of(plans.best))
    assert judged.plan.deployment.gpu.name == plans.best.gpu.name


def test_a_limit_that_was_not_measured_is_not_said_to_hold(best):
    row = best.to_dict()
    (half,) = check_plan(row, {"mean_tpot_ms": 1e3 * best.prediction.tpot})
    assert half.meets is None
    assert "holds as far as it was measured" in str(half)
    assert "not measured: TTFT p95" in str(half)
    (missed,) = check_plan(row, {"mean_tpot_ms": 2e3 * best.prediction.tpot})
    assert missed.meets is False
    within = {**CASE, "slo": "ttft:400,tpot:30,p99:3x"}
    tails = rl.plan("llama-3.3-70b", "b200", **within).best
    (judged,) = check_plan(tails.to_dict(), run_of(tails))
    assert judged.meets is None
    assert "not measured: p99/median" in str(judged)


def test_every_run_of_a_file_is_judged_and_the_command_reads_a_pipe(best, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(rl.plan("llama-3.3-70b", ["h100-sxm", "b200"], **CASE).to_dict()))
    runs = tmp_path / "runs.csv"
    lines = [
        f"{best.gpu.name},{2.0 + place},{1e3 * best.prediction.ttft:g},{1e3 * best.prediction.tpot:g}"
        for place in (0, 1)
    ]
    runs.write_text("gpu,request_rate,ttft_ms,tpot_ms\n" + "\n".join(lines))
    assert len(check_plan(str(plan), str(runs))) == 2
    piped = CliRunner().invoke(cli, ["check", str(plan), "-", "-f", "json"], input=runs.read_text())
    assert len(json.loads(piped.stdout)["rows"]) == 2, piped.output


@pytest.mark.parametrize("text", ["{}", "[]", "{", '{"rows": []}', '{"rows": [{"options": {}, "meets": false}]}'])
def test_a_file_that_is_no_plan_is_refused(text, tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(rl.BadInput, match="plan"):
        check_plan(str(file), {"mean_ttft_ms": 30.0})
