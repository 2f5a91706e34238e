"""The page's own engine answers as `predict` does: same figures, ranges, verdicts, bounds, kernels and refusals."""

import json
import random
from dataclasses import replace

import pytest
import tiers

import roofline as rl
from roofline.outputs.page.document import one_script
from roofline.questions.inputs.media import LEFT_OUT
from roofline.questions.page import _own_gpu, parts_of
from roofline.questions.predict import kernel_rows
from roofline.serving.latency import BENCHMARK
from roofline.serving.prompts import is_a_mixture

CASES = tiers.times(60, 500)
METRICS = ("ttft", "tpot", "itl", "e2el")
LEVELS = (50, 90, 95, 99)
SAME = 1e-9
# A percentile between two groups of requests moves with the last digits of their shares: of those that find the server
# idle, and, more so, of those that find their prefix.
LATE, BETWEEN, BETWEEN_HITS = 1e-8, 1e-6, (0.3, 0.8)


@pytest.fixture(scope="module")
def data_and_engine():
    """The data of a page of the whole catalog, and a function that calls its engine."""
    from py_mini_racer import MiniRacer

    parts, data = parts_of([rl.load_model(name) for name in rl.models()], [rl.load_gpu(name) for name in rl.gpus()])
    modules = {path: text for path, text in parts.modules.items() if path.startswith("engine/")}
    with MiniRacer() as engine:
        engine.eval(f"{one_script(modules)}\nvar page = openContents({json.dumps(data)}); 0")

        def call(function, *args):
            listed = ", ".join(["page", *map(json.dumps, args)])
            return json.loads(engine.eval(f"JSON.stringify({function}({listed}))"))

        yield data, call


def question_of(generator, data, place):
    """A random question; models, engines, loads and formats take turns so that each is asked about."""
    models, engines = data["models"], data["engines"]
    load = ("batch", "concurrency", "request_rate")[place % 3]
    tp, dp = generator.choice([None, None, 1, 2, 4, 8]), generator.choice([1, 1, 1, 2, 4])
    isl, osl = (round(10 ** generator.uniform(0.5, most)) for most in (4.5, 3.3))
    prefix = round(isl * generator.uniform(0.2, 0.9)) if generator.random() < 0.3 else 0
    amounts = {"batch": (0, 2), "concurrency": (0, 2.5), "request_rate": (-2, 1.3)}
    amount = 10 ** generator.uniform(*amounts[load])
    limits = {"ttft": (-1.5, 1.0), "tpot": (-2.5, -0.5), "e2el": (-1.0, 1.7)}
    slo = {
        metric: {"limit": 10 ** generator.uniform(*span), "level": generator.choice([None, *LEVELS])}
        for metric, span in limits.items()
        if generator.random() < 0.5
    }
    return {
        "model": models[place * 7 % len(models)]["name"], "gpu": generator.choice(data["gpus"])["name"],
        "quantization": generator.choice(["native", *data["presets"]]),
        "kv": generator.choice(["as quantization", "as quantization", "auto", *data["kvFormats"]]),
        "tp": tp, "pp": generator.choice([1, 1, 1, 2]), "ep": tp * dp if tp and generator.random() < 0.3 else 1,
        "dp": dp, "replicas": generator.choice([1, 1, 2]), "isl": isl, "osl": generator.choice([1, 2, osl, osl, osl]),
        "prefix": prefix, "cacheHit": generator.choice([None, 0, 1, 0.3, 0.8]) if prefix else None, "load": load,
        "amount": amount if load == "request_rate" else round(amount),
        "engine": engines[place % len(engines)]["name"], "network": generator.choice([0, 0, 0.05]),
        "basis": generator.choice(["calibrated"] * 4 + ["ideal"]), "slo": slo,
        "price": generator.choice([None, 2.5]), "ownGpu": None,
    }  # fmt: skip


def predicted(question, gpu=None):
    """What `predict` answers; the error that it raises."""
    gpu, options = gpu or question["gpu"], {}
    limits = {
        metric if limit["level"] is None else f"{metric}_p{limit['level']}": limit["limit"]
        for metric, limit in question["slo"].items()
    }
    if question["replicas"] > 1 and question["tp"] is None:
        gpu = f"{gpu}:x{question['replicas']}"
    elif question["replicas"] > 1:
        options["num_gpus"] = question["tp"] * question["pp"] * question["dp"] * question["replicas"]
    if question["quantization"] != "native":
        options["quantization"] = question["quantization"]
    if question["kv"] != "as quantization":
        options["kv_cache_dtype"] = question["kv"]
    names = ("tp", "pp", "ep", "dp", "isl", "osl", "prefix", "engine", "network", "basis")
    options |= {name: question[name] for name in names} | {question["load"]: question["amount"]}
    try:
        return rl.predict(
            question["model"], gpu, **options, cache_hit=question["cacheHit"], gpu_price=question["price"],
            slo=limits or None,
        )  # fmt: skip
    except rl.RooflineError as error:
        return error


def figures_of(answer, prediction):
    """Pairs of what the page says and what `predict` says, by name."""
    pairs = {}
    for metric in METRICS:
        shown, ends = answer["latencies"][metric], prediction.latency_interval(metric) or (None, None)
        pairs[metric] = shown["mean"], getattr(prediction, metric)
        pairs[f"{metric}_low"], pairs[f"{metric}_high"] = (shown["low"], ends[0]), (shown["high"], ends[1])
        for level in LEVELS:
            key = f"{metric}_p{level}"
            late, ends = shown[f"p{level}"] or {}, prediction.latency_interval(key) or (None, None)
            pairs[key] = late.get("value"), prediction.latency(key)
            if metric != "itl":
                pairs[f"{key}_low"], pairs[f"{key}_high"] = (late.get("low"), ends[0]), (late.get("high"), ends[1])
    return pairs | {
        "output_tok_s": (answer["outputTokS"], prediction.output_tok_s),
        "tok_s_user": (answer["tokSUser"], prediction.tok_s_user),
        "request_rate": (answer["requestRate"], prediction.request_rate),
        "max_request_rate": (answer["maxRequestRate"], prediction.max_request_rate),
        "util": (answer["util"], prediction.util),
        "queue": (answer["queue"], prediction.queue),
        "running": (answer["running"], prediction.running),
        "batch": (answer["batch"], prediction.decode_batch),
        "usd_per_hour": (answer["usdPerHour"], prediction.usd_per_hour),
        "usd_per_m_output_tok": (answer["usdPerMOutputTok"], prediction.usd_per_m_output_tok),
        "gpus": (answer["gpus"], prediction.deployment.num_gpus),
        "memory": (answer["memory"]["used"], prediction.memory.used),
        "usable": (answer["memory"]["usable"], prediction.memory.usable),
    }


def notes_of(prediction):
    """Warnings but those that a page leaves out: what a benchmark would report where some prompts are cached, and
    that images are left out, for which it has no control."""
    left_out = (BENCHMARK, *LEFT_OUT) if is_a_mixture(prediction.workload.cache) else LEFT_OUT
    return [text for text in prediction.warnings if not text.startswith(left_out)]


@tiers.has_more_cases
def test_the_page_answers_and_refuses_as_predict_does(data_and_engine):
    data, call = data_and_engine
    generator = random.Random("a page")
    codes, kinds, engines = set(), set(), set()
    for place in range(CASES):
        question = question_of(generator, data, place)
        answer, prediction = call("answer", question), predicted(question)
        is_refused = isinstance(prediction, rl.RooflineError)
        code = type(prediction).__name__ if is_refused else None
        assert (answer["refusal"] or {}).get("code") == code, (question, str(prediction), answer["refusal"])
        codes.add(code)
        if is_refused:
            assert answer["refusal"]["message"] == str(prediction), question
            assert answer["refusal"]["short"] == prediction.short
            continue
        kinds |= {(question["load"], type(layer).__name__) for _, layer in prediction.deployment.model.mixers}
        engines.add(question["engine"])
        for name, (shown, expected) in figures_of(answer, prediction).items():
            late = BETWEEN if question["cacheHit"] in BETWEEN_HITS else LATE
            close = late if "_p" in name else SAME
            same = None if expected is None else pytest.approx(expected, rel=close, abs=0.0)
            assert shown == same, (name, question)
        verdict, judged = answer["verdict"], prediction.slo_verdict
        shown = None if verdict is None else (verdict["word"], verdict["reason"], verdict["binding"])
        assert shown == (None if judged is None else tuple(judged)), question
        assert answer["notes"] == notes_of(prediction), question
        assert answer["bound"]["prefill"] == prediction.bound["prefill"]
        assert answer["basis"] == prediction.basis
        assert answer["basisDetail"] == prediction.basis_detail
    every_code = {None, "BadInput", "DoesNotFit", "Overloaded"}
    assert every_code - tiers.times({"Overloaded"}, set()) <= codes
    assert codes <= every_code | {"NoSteadyState", "UnsupportedPrecision"}
    assert len(engines) >= tiers.times(3, len(data["engines"]))
    mixers = {type(mixer) for name in rl.models() for _, mixer in rl.load_model(name).mixers}
    seldom = 2  # are of models that seldom fit: they are asked below
    assert len({mixer for _, mixer in kinds}) >= tiers.times(3, len(mixers) - seldom)


@pytest.mark.parametrize("gpu", ["gaudi3", "trainium2", "tpu-v7x"])
def test_a_page_scales_passes_as_servers_tell_as_predict_does(data_and_engine, gpu):
    _, call = data_and_engine
    for changes in (
        {"load": "batch", "amount": 8},
        {"amount": 24},
        {"load": "request_rate", "amount": 0.5, "engine": "sglang", "tp": 2},
        {"model": "qwen3-30b-a3b", "tp": 2, "dp": 2, "engine": "vllm"},
        {"basis": "ideal", "load": "batch"},
    ):
        slo = {"ttft": {"limit": 60.0, "level": None}, "tpot": {"limit": 5.0, "level": None}}
        question = plain(gpu=gpu, **changes, slo=slo)
        answer, prediction = call("answer", question), predicted(question)
        for name, (shown, expected) in figures_of(answer, prediction).items():
            close = LATE if "_p" in name else SAME
            same = None if expected is None else pytest.approx(expected, rel=close, abs=0.0)
            assert shown == same, (name, question)
        verdict = answer["verdict"]
        assert (verdict["word"], verdict["reason"], verdict["binding"]) == tuple(prediction.slo_verdict), question
        assert verdict["word"] == "pass?", question
        assert answer["notes"] == notes_of(prediction), question
        assert (answer["basis"], answer["basisDetail"]) == (prediction.basis, prediction.basis_detail)
        assert answer["mark"] == ("#" if prediction.basis == "served" else "")


def plain(**changes):
    """A question of the page, as it opens."""
    return {
        "model": "llama-3.1-8b", "gpu": "h100-sxm", "quantization": "native", "kv": "as quantization", "tp": None,
        "pp": 1, "ep": 1, "dp": 1, "replicas": 1, "isl": 2000, "osl": 300, "prefix": 0, "cacheHit": None,
        "load": "concurrency", "amount": 16, "engine": "generic", "network": 0, "basis": "calibrated", "slo": {},
        "price": None, "ownGpu": None, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model": "deepseek-v3", "gpu": "b200", "tp": 8, "engine": "sglang", "load": "batch", "amount": 4},
        {"model": "gpt-oss-120b", "gpu": "mi300x", "dp": 2, "tp": 1, "ep": 2, "load": "request_rate", "amount": 1},
        {
            "model": "deepseek-v4.1-flash",
            "gpu": "b200",
            "tp": 4,
            "ep": 4,
            "isl": 9000,
            "load": "concurrency",
            "amount": 40,
        },
        {"model": "deepseek-v4.1-flash", "gpu": "b300-sxm", "tp": 4, "dp": 2, "load": "request_rate", "amount": 3},
        {"model": "inkling-small", "gpu": "b200", "tp": 8, "isl": 4000, "load": "concurrency", "amount": 12},
        {"model": "qwen3-32b", "gpu": "a100-pcie-80gb", "tp": 4, "pp": 2, "prefix": 1500},
        {"basis": "ideal", "load": "batch", "amount": 1},
    ],
)
def test_the_kernels_of_the_page_are_those_of_the_prediction(data_and_engine, changes):
    _, call = data_and_engine
    question = plain(**changes)
    shown, prediction = call("details", question)["kernels"], predicted(question)
    expected = [row for row in kernel_rows(prediction) if row["count"] and row["total_us"]]

    def key(row):
        return row["pass"], row.get("kernel", row.get("name")), round(row["count"], 6), row["bound"]

    assert sorted(map(key, shown)) == sorted(map(key, expected))
    for one, other in zip(sorted(shown, key=key), sorted(expected, key=key), strict=True):
        assert one["kind"] == other["kind"]
        times = one["total"] * 1e6, one["flop"], one["nbytes"], one["linkBytes"], one["share"]
        named = (other[name] for name in ("total_us", "flop", "nbytes", "link_bytes", "share"))
        assert times == pytest.approx(tuple(named), rel=SAME)


def test_what_moves_an_answer_most_are_its_elasticities(data_and_engine):
    _, call = data_and_engine
    question = plain(load="batch", amount=8)
    rows = {row["name"]: row for row in call("details", question)["sensitivities"]}
    answer = rl.sensitivity("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=8)
    expected = {
        (row["input"], row["result"]): row["elasticity"] for row in answer.to_rows(["input", "result", "elasticity"])
    }
    for name, option in (("isl", "isl"), ("bandwidth", "bandwidth"), ("amount", "batch"), ("peak", "peak_bf16")):
        for metric in ("ttft", "tpot"):
            assert rows[name][metric] == pytest.approx(expected.get((option, metric), 0.0), abs=1e-4), (name, metric)


def test_a_planners_own_gpu_is_one_that_nobody_timed(data_and_engine):
    _, call = data_and_engine
    own = {"name": "mine", "peak": 5e14, "bandwidth": 4e12, "memory": 1.2e11, "link": 3e11, "price": 2.0}
    base = _own_gpu()
    for tp, load in ((1, "batch"), (4, "concurrency"), (None, "request_rate")):
        question = plain(gpu="mine", ownGpu=own, tp=tp, load=load, amount=2)
        gpu = replace(
            base, name="mine", peaks={"bf16": own["peak"]}, bandwidth=own["bandwidth"], memory=own["memory"],
            link=replace(base.link, bandwidth=own["link"]),
        )  # fmt: skip
        answer, prediction = call("answer", question), predicted({**question, "price": 2.0}, gpu)
        assert answer["basis"] == prediction.basis == "generic"
        for name, (shown, expected) in figures_of(answer, prediction).items():
            assert shown == (None if expected is None else pytest.approx(expected, rel=SAME, abs=0.0)), name
    refused = call("answer", plain(gpu="mine", ownGpu={**own, "bandwidth": 0}))
    assert refused["refusal"]["code"] == "BadInput"


def test_gpus_are_ranked_as_predict_ranks_them(data_and_engine):
    from roofline.questions.predict import predict_each_gpu

    _, call = data_and_engine
    question = plain(slo={"ttft": {"limit": 0.3, "level": 95}, "tpot": {"limit": 0.015, "level": None}})
    names = tuple(name for name in rl.gpus() if rl.load_gpu(name).peaks.keys() & {"bf16", "fp16"})
    options = {"isl": 2000, "osl": 300, "concurrency": 16, "slo": {"ttft_p95": 0.3, "tpot": 0.015}}
    predictions, refused = predict_each_gpu("llama-3.1-8b", names, **options)
    shown = call("ranked", question, list(names))
    assert [row["question"]["gpu"] for row in shown if row["refusal"] is None] == [
        prediction.deployment.gpu.name for prediction in predictions
    ]
    assert {row["question"]["gpu"] for row in shown if row["refusal"]} == set(refused)


def test_the_frontier_has_no_point_that_another_beats(data_and_engine):
    _, call = data_and_engine
    points = call("frontier", plain())
    best = [point for point in points if point["onFrontier"]]
    assert 5 < len(best) < len(points)
    for point in best:
        assert not any(other["x"] > point["x"] and other["y"] > point["y"] for other in points)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"isl": 0}, "BadInput"), ({"isl": -5}, "BadInput"), ({"osl": 1e10}, "BadInput"), ({"tp": 3}, "BadInput"),
        ({"prefix": 3000}, "BadInput"), ({"cacheHit": 0.5}, "BadInput"), ({"ep": 2, "tp": 2}, "BadInput"),
        ({"model": "no such"}, "UnknownName"), ({"gpu": "<img>"}, "UnknownName"),
        ({"quantization": "fp3"}, "UnknownName"),
        ({"gpu": "a100-sxm-80gb", "quantization": "nvfp4"}, "UnsupportedPrecision"),
        ({"model": "deepseek-v3", "gpu": "l4"}, "DoesNotFit"),
        ({"load": "request_rate", "amount": 500}, "Overloaded"),
    ],
)  # fmt: skip
def test_impossible_questions_have_the_code_of_the_error(data_and_engine, changes, code):
    _, call = data_and_engine
    question = plain(**changes)
    assert call("answer", question)["refusal"]["code"] == code
    assert type(predicted(question)).__name__ == code


def test_the_lines_to_copy_ask_the_same(data_and_engine, tmp_path):
    import shlex

    from cli.asking import ask

    _, call = data_and_engine
    question = plain(tp=2, slo={"ttft": {"limit": 0.25, "level": 95}}, prefix=500, cacheHit=0.8, engine="vllm")
    answer = call("answer", question)
    line = call("((_, question) => commandLine(question))", question)
    command, *words = shlex.split(line)
    assert command == "roofline"
    row = json.loads(ask(*words, "--format", "json").stdout)["rows"][0]
    assert row["ttft_ms"] == pytest.approx(1000 * answer["latencies"]["ttft"]["mean"], rel=SAME)
    prediction = eval(call("((_, question) => pythonLine(question))", question), {"rl": rl})
    assert prediction.ttft == pytest.approx(answer["latencies"]["ttft"]["mean"], rel=SAME)
    assert prediction.verdict == answer["verdict"]["word"] == row["slo_verdict"]


def test_the_file_of_an_own_gpu_gives_the_figures_of_the_page(data_and_engine, tmp_path, monkeypatch):
    import shlex

    from cli.asking import ask

    _, call = data_and_engine
    monkeypatch.chdir(tmp_path)
    for name, price in (("mine", 2.0), ("my <b>GPU: 2</b>", None), ("../dear", 5000.0)):
        own = {"name": name, "peak": 5.1234e14, "bandwidth": 4e12, "memory": 1.2e11, "link": 3e11, "price": price}
        question = plain(gpu=name, ownGpu=own, tp=2, slo={"ttft": {"limit": 0.3, "level": 99}})
        answer = call("answer", question)
        file, text, line = call(
            "((page, asked) => [ownFile(asked.ownGpu), ownSpecification(page, asked.ownGpu), commandLine(asked)])",
            question,
        )
        (tmp_path / file).write_text(text)
        row = json.loads(ask(*shlex.split(line)[1:], "--format", "json").stdout)["rows"][0]
        for metric in METRICS:
            shown = answer["latencies"][metric]["p95"]["value"]
            assert row[f"{metric}_p95_ms"] == pytest.approx(1000 * shown, rel=SAME), (name, metric)
        assert row["usd_per_hour"] == answer["usdPerHour"] == (None if price is None else 2 * price)
        assert (row["slo_verdict"], row["warnings"]) == (answer["verdict"]["word"], answer["notes"])


def test_an_own_gpu_answers_for_itself_alone(data_and_engine):
    _, call = data_and_engine
    own = {"name": "mine", "peak": 5e14, "bandwidth": 4e12, "memory": 1.2e11, "link": 3e11, "price": None}
    shown = {row["question"]["gpu"]: row for row in call("ranked", plain(gpu="mine", ownGpu=own), ["mine", "b200"])}
    assert shown["mine"]["basis"] == "generic"
    assert shown["b200"]["latencies"] == call("answer", plain(gpu="b200"))["latencies"]
