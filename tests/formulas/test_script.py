"""Whole answers as programs: JavaScript and Python give what the formulas give, loads included."""

import random
from dataclasses import replace

import pytest
import tiers

import roofline as rl
from roofline.formulas.case import latency_graph, latency_script
from roofline.serving.load import equations
from roofline.serving.load.equations import served_by_formulas
from roofline.serving.load.mixtures import percentile
from roofline.serving.load.steady import mean_latencies, served, tails
from roofline.specs.engine import PromptCache
from roofline.specs.load import Users
from roofline.support.errors import BadInput
from roofline.symbolic.graph import Graph
from roofline.symbolic.programs import SPREADSHEET, javascript_source, python_program, text_of

SPREAD = {"isl_cv": 0.3, "osl_cv": 0.5}
HOST_CACHE = {"prefix": 100, "cache_hit": 0.6, "cache_tier": "host", "cache_bandwidth": "20GB/s"}

#: One deployment and kind of load a line; each is asked at lengths and loads of all sizes.
BURSTS = (
    ("llama-3.1-8b", "h100-sxm", {"tp": 1}),
    ("gemma-3-27b", "b200", {"tp": 2, "basis": "ideal"}),
    ("llama-3.3-70b", "h200-sxm", {"tp": 4, "pp": 2, "engine": "vllm"}),
    ("mixtral-8x7b", "h100-sxm", {"tp": 4, "engine": "trtllm"}),
    ("deepseek-v3", "b200", {"tp": 8, "draft": "mtp", "acceptance": 0.8}),
    ("deepseek-v3.2", "gb200-nvl72", {"dp": 8, "ep": 8, "tp": 1}),
    ("jamba-v0.1", "h100-sxm", {"tp": 2}),
    ("qwen3-next-80b-a3b", "mi300x", {"tp": 4, "engine": "sglang"}),
    ("kimi-linear-48b-a3b", "h200-sxm", {"tp": 2, "ep": 2, **HOST_CACHE, "batch": 1}),
    ("gpt-oss-120b", "l40s", {"tp": 8}),
)
LOADS = (
    ("llama-3.1-8b", "h100-sxm", {"tp": 1, "concurrency": 8}),
    ("llama-3.1-8b", "a100-sxm-80gb", {"tp": 1, "engine": "sglang", "request_rate": 1.0}),
    ("qwen3-32b", "h200-sxm", {"tp": 2, "request_rate": 1.0, **SPREAD}),
    ("llama-3.3-70b", "b200", {"tp": 4, "engine": "vllm", "max_num_seqs": 16, "concurrency": 8, **HOST_CACHE}),
    ("deepseek-r1", "b200", {"tp": 1, "dp": 8, "ep": 8, "engine": "sglang", "concurrency": 8}),
    ("gpt-oss-120b", "h100-sxm", {"tp": 2, "dp": 2, "ep": 4, "request_rate": 1.0}),
    ("jamba-v0.1", "h100-sxm", {"tp": 4, "concurrency": 8, **SPREAD}),
    ("kimi-linear-48b-a3b", "b300", {"tp": 2, "request_rate": 1.0, "engine": "trtllm"}),
)
EACH = {"burst": 12, "load": 8}  # questions: 184 in all
SIZES = {"batch": 200.0, "concurrency": 500.0, "request_rate": 20.0}


def name_of(case):
    model, gpu, options = case
    return f"{model}-{gpu}-{'-'.join(map(str, options.values()))}"


def asked(case):
    """A deployment under a kind of load, and what its programs are asked at: isl, osl, load, prefix."""
    model, gpu, options = case
    found = rl.predict(model, gpu, **options)
    generator = random.Random(name_of(case))
    names = [node.args[0] for node in latency_graph(found.deployment, found.workload)[0].inputs]
    most = 1.0 if options.get("batch") == 1 else SIZES[names[2]]
    questions = []
    for _ in range(EACH["burst" if case in BURSTS else "load"]):
        isl, osl = (float(round(length ** generator.random())) for length in (20_000.0, 2_000.0))
        size = most ** (generator.uniform(-0.5, 1.0) if names[2] == "request_rate" else generator.random())
        size = size if names[2] == "request_rate" else float(round(size))
        prefix = float(round(isl * generator.random() * 0.9)) if generator.random() < 0.5 else 0.0
        questions.append((isl, osl, size, max(prefix, 1.0) if "cache_hit" in options else prefix))
    return found, names, questions


def answers(found, names, questions):
    """What the formulas give on floats."""
    workloads = [found.workload.at(dict(zip(names, question, strict=True))) for question in questions]
    return [mean_latencies(found.deployment, workload) for workload in workloads]


@tiers.has_more_cases
@pytest.mark.parametrize("case", tiers.some([*BURSTS, *LOADS], 6), ids=name_of)
def test_javascript_gives_what_the_formulas_give(case, javascript):
    found, names, questions = asked(case)
    source = latency_script(found.deployment, found.workload)
    given = [javascript(source, "latencies", question) for question in questions]
    expected = answers(found, names, questions)
    assert given == [pytest.approx(each, rel=1e-9 if case in BURSTS else 1e-6, abs=0.0) for each in expected]
    here = [getattr(found.workload, name) for name in names]
    assert javascript(source, "latencies", here) == pytest.approx((found.ttft, found.tpot), rel=1e-9)


@tiers.has_more_cases
@pytest.mark.parametrize("case", tiers.some([BURSTS[4], *LOADS[:5]], 2), ids=name_of)
def test_a_program_of_python_gives_what_the_formulas_give(case):
    found, names, questions = asked(case)
    graph, latencies = latency_graph(found.deployment, found.workload)
    run = python_program(latencies, graph.inputs)
    expected = answers(found, names, questions)
    assert [run(*question) for question in questions] == [pytest.approx(each, rel=1e-9, abs=0.0) for each in expected]


def test_programs_search_where_rounds_do_not_meet_and_say_what_none_can(monkeypatch, javascript):
    found = rl.predict("deepseek-r1", "b200", isl=14184, osl=102, dp=8, ep=8, tp=1, concurrency=8)
    graph, latencies = latency_graph(found.deployment, found.workload)
    source, run = latency_script(found.deployment, found.workload), python_program(latencies, graph.inputs)
    searches, search = [], equations.carried_crossing
    monkeypatch.setattr(equations, "carried_crossing", lambda *args: searches.append(args) or search(*args))
    for concurrency, searched in ((32.0, 0), (552.0, 1)):
        searches.clear()
        answer = served_by_formulas(found.deployment, replace(found.workload, load=Users(concurrency)))
        expected = answer.ttft, answer.tpot
        assert len(searches) == searched
        assert run(14184.0, 102.0, concurrency, 0.0) == pytest.approx(expected, rel=1e-9)
        assert javascript(source, "latencies", (14184.0, 102.0, concurrency, 0.0)) == pytest.approx(expected, rel=1e-6)
    found = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=1.0)
    ttft, tpot = javascript(latency_script(found.deployment, found.workload, "f"), "f", (4000.0, 500.0, 90.0, 0.0))
    assert ttft == float("inf")
    assert 0.0 < tpot < 1.0
    found = rl.predict("llama-3.1-8b", "h100-sxm", concurrency=8)
    _, (ttft, _) = latency_graph(found.deployment, found.workload)
    with pytest.raises(BadInput, match="a spreadsheet has no formula for an iteration"):
        text_of(ttft, SPREADSHEET)
    burst = rl.predict("llama-3.1-8b", "h100-sxm")
    assert "POWER(" in text_of(latency_graph(burst.deployment, burst.workload)[1][1], SPREADSHEET)
    found = rl.predict("llama-3.1-8b", "h100-sxm", prefix=500)
    cache = PromptCache(tier="hbm", size=1e9, working_set=1e11, zipf=1.0)
    with pytest.raises(BadInput, match="give cache_hit"):
        latency_script(found.deployment, replace(found.workload, cache=cache))


@pytest.mark.parametrize("case", LOADS[:2], ids=name_of)
def test_percentiles_are_programs_too(case, javascript):
    found, names, questions = asked(case)

    def late(workload):
        parts = tails(found.deployment, workload, served(found.deployment, workload))
        return percentile(parts.ttft, 95.0), percentile(parts.tpot, 50.0), percentile(parts.e2el, 99.0)

    graph = Graph()
    inputs = {name: graph.input(name) for name in names}
    outputs = late(found.workload.at(inputs))
    run, source = python_program(outputs, graph.inputs), javascript_source("late", outputs, graph.inputs)
    for question in questions[:4]:
        expected = late(found.workload.at(dict(zip(names, question, strict=True))))
        assert run(*question) == pytest.approx(expected, rel=1e-9)
        assert javascript(source, "late", question) == pytest.approx(expected, rel=1e-6)
