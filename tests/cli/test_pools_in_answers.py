"""Pools of GPUs in every question: the same answers as their options, and what contradicts them."""

import json
from pathlib import Path

import pytest
from asking import ask, row, rows
from click.shell_completion import BashComplete
from every_case import each

import roofline as rl
from roofline.cli.main import cli
from roofline.support.errors import BadInput

MODEL = "llama-3.1-8b"


@each("text, options", [
    ("8xh100", {"num_gpus": 8}),
    ("h100:tp2", {"tp": 2}),
    ("h100:tp2pp2", {"tp": 2, "pp": 2}),
    ("h100:fp8", {"quantization": "fp8"}),
    ("h100:tp2:fp8x2", {"tp": 2, "quantization": "fp8", "num_gpus": 4}),
    ("8xh100:tp4", {"tp": 4, "num_gpus": 8}),
    ("h100:x3", {"num_gpus": 3}),
])  # fmt: skip
def test_a_pool_answers_as_its_options_do(text, options):
    assert rl.predict(MODEL, text) == rl.predict(MODEL, "h100", **options)
    assert rl.predict(MODEL, text, concurrency=16) == rl.predict(MODEL, "h100", concurrency=16, **options)
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert row("predict", "-m", MODEL, "-g", text) == row("predict", "-m", MODEL, "-g", "h100", *words)


def test_every_gpu_of_a_table_has_its_own_plan_and_format():
    listed = rows("predict", "-m", "llama-3.3-70b", "-g", "4xb200:tp4,h100:tp8:fp8")
    plans = {(line["gpu"], line["tp"], line["num_gpus"], line["weight_dtype"]) for line in listed}
    assert plans == {("b200", 4, 4, "bf16"), ("h100-sxm", 8, 8, "fp8")}
    table = rl.table("llama-3.3-70b", "4xb200:tp4, h100:tp8:fp8", keys=["gpu", "tp", "num_gpus", "weight_dtype"])
    assert {tuple(line.values())[:4] for line in table} == plans


def test_every_question_takes_a_pool():
    case = {"isl": 500, "osl": 50}
    plain, pool = ("h100-sxm", {"tp": 2, "quantization": "fp8"}), "h100:tp2:fp8"
    assert rl.ttft(MODEL, pool, **case) == rl.ttft(MODEL, plain[0], **case, **plain[1])
    assert rl.knee(MODEL, pool, **case) == rl.knee(MODEL, plain[0], **case, **plain[1])
    for ask_one in (rl.formula, rl.sensitivity, lambda *a, **k: rl.solve(*a, "batch", tpot=0.02, **k)):
        assert str(ask_one(MODEL, pool, **case)) == str(ask_one(MODEL, plain[0], **case, **plain[1]))
    quantized = rl.quantize(MODEL, "h100:tp2", **case)
    assert quantized.formats[0].prediction.deployment.plan.tp == 2
    assert rl.curve(MODEL, pool, **case).rows == rl.curve(MODEL, plain[0], **case, **plain[1]).rows
    slo = "ttft:500,tpot:50"
    (sized,) = rl.size(MODEL, pool, slo=slo, **case).to_records()
    assert (sized["tp"], sized["quantization"]) == (2, "fp8")
    (good,) = rl.goodput(MODEL, "4xh100:tp2:fp8", slo=slo, **case)
    assert good.prediction.deployment.num_gpus == 4
    run = {"concurrency": 4, "requests": 20, **case}
    assert rl.simulate(MODEL, pool, **run).ttft == rl.simulate(MODEL, plain[0], **run, **plain[1]).ttft


def test_one_gpu_may_be_compared_with_itself_at_another_plan():
    found = rl.compare("llama-3.3-70b", ["h100:tp4:fp8", "h100:tp8:fp8", "b200:fp8"])
    assert [entry.label for entry in found.gpus] == ["h100-sxm:tp4:fp8", "h100-sxm:tp8:fp8", "b200:fp8"]
    assert [line["label"] for line in found.to_records()] == [entry.label for entry in found.gpus]
    assert {line["reference"] for line in found.to_records()} == {"h100-sxm:tp4:fp8"}
    first, second, _ = found.gpus
    ratio = first.prediction.tpot / second.prediction.tpot
    assert second.to_dict()["decode_speedup"] == pytest.approx(ratio)
    with pytest.raises(BadInput, match="h100-sxm:tp4 is named twice"):
        rl.compare(MODEL, ["h100:tp4", "h100_sxm:tp4"])
    done = ask("compare", "-m", "llama-3.3-70b", "-g", "h100:tp4:fp8,h100:tp8:fp8", "--format", "json")
    assert {line["label"] for line in json.loads(done.stdout)["kernels"]} == {"h100-sxm:tp8:fp8"}


@each("question, said", [
    (lambda: rl.predict(MODEL, "h100:tp4", tp=8), r"tp is stated twice: 4 in 'h100:tp4', and tp = 8"),
    (lambda: rl.predict(MODEL, "h100:pp2", pp=4), "pp is stated twice"),
    (lambda: rl.predict(MODEL, "8xh100", num_gpus=4), "num_gpus is stated twice"),
    (lambda: rl.predict(MODEL, "h100:tp2x2", num_gpus=8), "num_gpus is stated twice: 2 replicas of 2 GPUs"),
    (lambda: rl.predict(MODEL, "h100:x2", num_gpus=8), "state its tp, as in h100:tp4x2"),
    (lambda: rl.predict(MODEL, "h100:fp8", quantization="int8"), "quantization is stated twice"),
    (lambda: rl.table(MODEL, "h100:tp2", tp=[1, 2]), "tp is stated twice"),
    (lambda: rl.size(MODEL, "8xh100", slo="ttft:300"), "plan finds the number of GPUs itself"),
    (lambda: rl.size(MODEL, "h100:tp2x2", slo="ttft:300"), "leave x2 out of 'h100:tp2x2' and write h100:tp2"),
    (lambda: rl.goodput(MODEL, "h100:x2", slo="ttft:300"), "state it, as in h100:tp4x2"),
    (lambda: rl.quantize(MODEL, "h100:fp8"), "goes through the number formats itself: leave fp8 out"),
    (lambda: rl.sheet("a.xlsx", MODEL, "h100:tp2x2"), "leave x2 out"),
    (lambda: rl.solve(MODEL, "h100:tp2", "tp", ttft=0.1), "tp is .*for|tp is what"),
])  # fmt: skip
def test_what_a_question_or_an_option_contradicts_is_refused(question, said):
    with pytest.raises(BadInput, match=said):
        question()


@pytest.mark.parametrize("option", [{"tp": 4}, {"pp": 1}, {"num_gpus": 8}])
def test_an_option_that_agrees_is_no_contradiction(option):
    assert rl.predict(MODEL, "8xh100:tp4", **option) == rl.predict(MODEL, "h100", tp=4, num_gpus=8)


@pytest.mark.parametrize("text", ["h100x8", "h100 x 8", "h100-x8"])
def test_a_number_of_gpus_in_the_wrong_place_gets_both_right_spellings(text):
    with pytest.raises(rl.UnknownName, match=r"write 8xh100 for 8 GPUs in all, or h100:x8 for 8 replicas"):
        rl.predict(MODEL, text)
    assert "8xh100" in ask("ttft", "-m", MODEL, "-g", text).stderr


@pytest.mark.parametrize("name", ["mi300x", "gb200-nvl72", "rtx-5090", "MI300X"])
def test_a_name_of_the_catalog_is_never_a_pool(name):
    assert rl.predict(MODEL, name).deployment.gpu.name == name.lower()


def test_a_gpu_of_ones_own_may_be_called_like_a_pool(tmp_path):
    shipped = Path(__file__).parents[2] / "hardware_specs" / "nvidia" / "l40s.yaml"
    lines = shipped.read_text(encoding="utf-8").replace("name: l40s", "name: 2xl40s", 1).splitlines()
    own = [line for line in lines if not line.startswith("aliases:")]
    (tmp_path / "own.yaml").write_text("\n".join(own) + "\n", encoding="utf-8")
    assert rl.predict(MODEL, "2xl40s", specs=str(tmp_path)).deployment.num_gpus == 1
    assert rl.predict(MODEL, "2xl40s").deployment.num_gpus == 2


def test_the_shell_completes_a_name_behind_others_and_behind_a_number():
    completion = BashComplete(cli, {}, "roofline", "_ROOFLINE_COMPLETE")

    def completed(typed):
        return {item.value for item in completion.get_completions(["ttft", "-g"], typed)}

    assert {"h100-sxm", "h100-nvl"} <= completed("h1")
    assert "b200,h100-sxm" in completed("b200,h1")
    assert "8xh100-sxm" in completed("8xh1")
    assert "b200:tp4,8xh100-sxm" in completed("b200:tp4,8xh1")
    assert "mi300x" in completed("mi300")


def test_replicas_share_a_load_at_the_smallest_tp_that_takes_it():
    two = rl.predict("llama-3.3-70b", "h100:x2", concurrency=64)
    alike = rl.predict("llama-3.3-70b", "h100", tp=two.deployment.plan.tp, concurrency=32)
    assert two.deployment.replicas == 2
    assert two.tpot == pytest.approx(alike.tpot)


def test_a_knee_in_requests_at_once_is_that_of_each_replica():
    said = " ".join(ask("knee", "-m", MODEL, "-g", "8xh100:tp2").stdout.split())
    assert "requests at once on each replica of 8x h100-sxm" in said
    assert "each replica" not in ask("knee", "-m", MODEL, "-g", "h100:tp2").stdout
