"""One case, one answer: figures, plan, verdict and reason are the same whichever door is asked."""

import json
import math
import random

import pytest
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli
from roofline.cli.tools import ask
from roofline.serving.prediction import Prediction
from roofline.serving.shown import ROW_KEYS

MODELS = ("llama-3.1-8b", "llama-3.3-70b", "gpt-oss-120b", "qwen3-32b", "mixtral-8x7b")
GPUS = ("h100-sxm", "h200-sxm", "b200", "l40s", "mi300x", "8xh100", "16xb200", "4xh200")
SLOS = (None, None, "ttft:500,tpot:30", "ttft:1s@p95,tpot:50", "e2el:10s", "ttft:300,p99:3x")
#: Answers; single tokens are seldom asked for, and take long.
LENGTHS = (1, *2 * (8, 64, 300, 1000))
#: Keys that one door leaves to its own words.
WORDS = ("warnings",)
#: What every question about a load says alike.
SHARED = ("tp", "num_gpus", "ttft_ms", "tpot_ms", "slo_met", "slo_verdict", "slo_reason", "slo_binding")
#: Keys of most comparisons: without the searches for knees, which take long, and with one percentile of each kind.
KEYS = tuple(
    key
    for key in ROW_KEYS
    if "knee" not in key
    and not any(level in key for level in ("_p50", "_p90", "_p99"))
    and not key.startswith("e2el_p")
)
#: Rounding of differences that vanish, by key.
NOISE = {"queue_ms": 1e-6, "waiting": 1e-9}


def drawn(draw):
    """A random question about one load, its plan open in nine of ten."""
    load = draw.choice(("batch", "batch", "concurrency", "request_rate"))
    amount = round(2.0 ** draw.uniform(-4, 5), 4) if load == "request_rate" else int(2.0 ** draw.uniform(0, 8))
    case = {"isl": int(2.0 ** draw.uniform(5, 14)), "osl": draw.choice(LENGTHS), load: amount}
    gpu, slo = draw.choice(GPUS), draw.choice(SLOS)
    options = {} if slo is None else {"slo": slo}
    if draw.random() < 0.3:
        options["quantization"] = "fp8"
    if draw.random() < 0.3:
        options["engine"] = draw.choice(("vllm", "sglang", "trtllm"))
    if draw.random() < 0.1 and "x" not in gpu.replace("mi300x", ""):
        options["tp"] = 8
    if load != "batch" and draw.random() < 0.2:
        options["osl_cv"] = 0.5
    if slo is not None and load == "batch" and "p99" in slo:
        options["slo"] = "ttft:300"
    return draw.choice(MODELS), gpu, case, options


def answer(ask):
    """The answer, or the error."""
    try:
        return ask()
    except rl.RooflineError as error:
        return error


def assert_same_row(door, one, other, case):
    for key in one:
        if key in WORDS:
            continue
        a, b = one[key], other[key]
        near = isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool)
        near = near and math.isclose(a, b, rel_tol=1e-9, abs_tol=NOISE.get(key, 0.0))
        assert near or a == b, (door, key, a, b, case)


def element(row, place):
    return {key: value[place] if isinstance(value, list) and key not in WORDS else value for key, value in row.items()}


def assert_same_in_the_shell(question, model, gpu, case, options, row):
    """The row of `predict` or `sweep --format json`."""
    names = {"concurrency": "--concurrency", "request_rate": "--request-rate", "osl_cv": "--osl-cv"}
    words = [f"{names.get(name, '--' + name)}={value}" for name, value in {**case, **options}.items()]
    result = CliRunner().invoke(cli, [question, "-m", model, "-g", gpu, *words, "--format", "json"])
    assert result.exit_code == 0, (result.output, case)
    assert_same_row(f"{question} in the shell", row, json.loads(result.stdout)["rows"][0], case)


@pytest.mark.parametrize("seed", range(4))
def test_every_door_gives_the_same_answer(seed):
    draw, answered, searched = random.Random(f"doors {seed}"), 0, 0
    for number in range(13):
        model, gpu, case, options = drawn(draw)
        load = next(iter({"batch", "concurrency", "request_rate"} & set(case)))
        cases = [case, *(drawn_again(draw, case, load) for _ in range(5))]
        keys = ROW_KEYS if number == seed == 0 else KEYS
        many = answer(lambda: rl.predict(model, gpu, **columns(cases), **options))  # noqa: B023  asked at once
        rows = None if isinstance(many, rl.RooflineError) else many.to_dict(keys)
        for place, each in enumerate(cases):
            asked = (model, gpu, each, options)
            single = answer(lambda: rl.predict(model, gpu, **each, **options))  # noqa: B023
            tabled = rl.table(model, gpu, **each, **options, keys=keys)[0] if place == 0 else None
            if not isinstance(single, Prediction):
                assert tabled is None or (tabled["reason"], tabled["ttft_ms"]) != (None, None), asked
                assert rows is None or rows["ttft_ms"][place] is None, asked
                continue
            answered += 1
            row = single.to_dict(keys)
            assert rows is not None, (many, asked)
            assert_same_row("array", row, element(rows, place), asked)
            if tabled is not None:
                assert_same_row("table", row, tabled, asked)
                assert rl.ttft(model, gpu, **each, **options) == single.ttft
                told = ask("predict", {"model": model, "gpu": gpu, **each, **options, "keys": list(keys)})
                assert told.content["rows"] == [row], asked
            if place == 0 and number % 4 == 0:
                question = "sweep" if number else "predict"
                assert_same_in_the_shell(question, model, gpu, each, options, single.to_dict())
            if place == 0 and "slo" in options and single.served is not None and searched < 2:
                searched += 1
                assert_searches_agree(model, gpu, each, options, single)
    assert answered > 40


def drawn_again(draw, case, load):
    """Other lengths and another amount of the same load."""
    factor = 2.0 ** draw.uniform(-2, 2)
    amount = case[load] * factor if load == "request_rate" else max(int(case[load] * factor), 1)
    return {"isl": int(2.0 ** draw.uniform(5, 14)), "osl": draw.choice(LENGTHS), load: amount}


def columns(cases):
    return {name: [each[name] for each in cases] for name in cases[0]}


def assert_searches_agree(model, gpu, case, options, single):
    """Cost answers this case as `predict` does; a goodput, asked as a rate, is met there and missed beyond."""
    row = single.to_dict(SHARED)
    if single.usd_per_hour is not None:
        (priced,) = rl.cost(model, gpu, **case, **options)
        assert_same_row("cost", {key: row[key] for key in SHARED}, priced.to_dict(SHARED), case)
    plan = {"tp": single.deployment.plan.tp, "num_gpus": single.deployment.num_gpus}
    name = single.deployment.gpu.name
    lengths = {key: case[key] for key in ("isl", "osl")}
    unloaded = {key: value for key, value in options.items() if key != "tp"}
    (found,) = rl.goodput(model, name, **lengths, **unloaded, **plan)
    if found.rate > 0.0 and found.found.binding != "saturation":
        again = [
            rl.predict(model, name, **lengths, **unloaded, **plan, request_rate=found.rate * factor).slo_met
            for factor in (1.0 - 1e-6, 1.0 + 1e-3)
        ]
        assert again == [True, False], (model, gpu, lengths, options)


def levers_agree(model, gpu, case, options, single):
    """The unchanged case of `levers` is the prediction."""
    start = rl.levers(model, gpu, **case, **options).to_records()[0]
    assert_same_row("levers", single.to_dict(SHARED), start, case)


def curves_agree(model, gpu, case, options, single):
    """A point of a curve is predicted again with the plan that it states."""
    plan = {"tp": single.deployment.plan.tp, "num_gpus": single.deployment.num_gpus}
    rest = {key: value for key, value in options.items() if key != "tp"}
    lengths = {key: case[key] for key in ("isl", "osl")}
    kind = "concurrency" if "concurrency" in case else "request_rate"
    drawn = rl.curve(model, single.deployment.gpu.name, against=kind, **lengths, **rest, **plan)
    for point in (drawn.rows[2], drawn.rows[-2]):
        again = rl.predict(model, single.deployment.gpu.name, **lengths, **rest, **plan, **{kind: point[kind]})
        keys = ("ttft_ms", "tpot_ms", "tpot_p99_ms", "slo_met", "slo_verdict", "slo_reason")
        assert_same_row("curve", again.to_dict(keys), point, case)


def comparisons_agree(model, gpu, case, options, single):
    """A row of `compare` is predicted again at the plan that all its GPUs share."""
    names = (single.deployment.gpu.name, "b300")
    rest = {key: value for key, value in options.items() if key != "tp"}
    plan = {"tp": single.deployment.plan.tp, "num_gpus": single.deployment.num_gpus}
    for entry in rl.compare(model, names, **case, **rest, **plan).gpus:
        again = rl.predict(model, entry.prediction.deployment.gpu.name, **case, **rest, **plan)
        assert_same_row("compare", again.to_dict(SHARED), entry.prediction.to_dict(SHARED), case)


@pytest.mark.parametrize("agree", [levers_agree, curves_agree, comparisons_agree])
def test_wider_questions_give_the_answer_of_their_case(agree):
    draw, asked = random.Random(agree.__name__), 0
    while asked < (1 if agree is levers_agree else 2):
        model, gpu, case, options = drawn(draw)
        single = answer(lambda: rl.predict(model, gpu, **case, **options))  # noqa: B023  asked at once
        if isinstance(single, Prediction) and single.served is not None:
            agree(model, gpu, case, options, single)
            asked += 1


def test_a_size_is_predicted_again_with_the_plan_that_it_states():
    draw, again = random.Random("sizes"), 0
    for _ in range(12):
        model, _, case, _ = drawn(draw)
        if "batch" in case:
            continue
        slo = draw.choice(("ttft:2s,tpot:60", "ttft:3s@p95"))
        (size,) = rl.size(model, "b200", **case, slo=slo, quantization="fp8").plans
        if not size.meets:
            continue
        plan = size.prediction.deployment.plan
        degrees = {"tp": plan.tp, "pp": plan.pp, "ep": plan.ep, "dp": plan.dp}
        stated = {**degrees, "num_gpus": size.prediction.deployment.num_gpus, "quantization": "fp8"}
        known = rl.predict(model, "b200", **case, **stated, slo=slo)
        row = known.to_dict(SHARED)
        assert known.slo_met, case
        assert_same_row("size", {key: row[key] for key in SHARED}, size.to_dict(SHARED), case)
        again += 1
    assert again >= 4
