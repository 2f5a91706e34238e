"""Latencies, costs, knees and loads on numbers that carry dimensions (tests/physics/test_dimensions.py does passes)."""

import inspect
import re
from dataclasses import replace
from itertools import chain

import pytest
from conftest import deploy
from dimensions import BYTE, SECOND, STATED, USD, altered, check_units, dimension, dimensions_of, measured
from every_case import each

import roofline as rl
from roofline.physics import passes, programs
from roofline.physics.plan import Plan
from roofline.serving import cost, latency, prompts
from roofline.serving.cost import ByPhase
from roofline.serving.knee import half_knee, ridge_knee, ridge_surplus
from roofline.serving.latency import Workload, decode, lengths_by_law, prefill
from roofline.serving.load import equations, rounds, server, steady, tails
from roofline.serving.load.pools import KvLink, Pools, kv_transfer_time, matched_rate_per_gpu, prompt_queue, prompt_rank
from roofline.serving.phases import full_server
from roofline.serving.prediction import Prediction, predict_deployment
from roofline.specs.engine import PromptCache
from roofline.specs.load import Burst, Rate, Users

DENSE = deploy("llama-3.1-8b", "h100-sxm", engine="vllm")
#: Deployments that answer under a load by other equations, in part.
DEPLOYMENTS = {
    "the hardware limit": replace(DENSE, basis="ideal"),
    "experts over ranks": deploy("mixtral-8x7b", "h100-sxm", Plan(tp=2, dp=2, ep=4), engine="trtllm"),
    "stages": deploy("llama-3.1-70b", "h100-sxm", Plan(tp=4, pp=2), engine="vllm"),
    "states": deploy("qwen3-next-80b-a3b", "h100-sxm", Plan(tp=4), engine="vllm"),
    "prompts first": deploy("llama-3.1-8b", "h100-sxm", engine="sglang"),
    "drafts": rl.predict("llama-3.1-8b", "h100", engine="vllm", draft="eagle", acceptance="0.7,0.6").deployment,
}
RATE = Rate(2.0 / SECOND)
SLICES = ((0.5, 0.8), (0.5, 1.2))
SPREAD = lengths_by_law("lognormal", 0.3, 0.5)
SPREAD = replace(SPREAD, **{of: replace(getattr(SPREAD, of), slices=SLICES) for of in ("prompts", "answers")})
CACHE = PromptCache(0.7, "host", 50e9 * BYTE / SECOND)
LOADS = {
    "users": Workload(1000.0, 200.0, Users(16.0)),
    "a rate": Workload(1000.0, 200.0, RATE),
    "more users than slots": Workload(30_000.0, 2000.0, Users(500.0)),
    "a run": Workload(1000.0, 200.0, Users(16.0, 80.0)),
    "lengths that differ": Workload(1000.0, 200.0, RATE, lengths=SPREAD),
    "single tokens": Workload(1000.0, 1.0, Users(16.0)),
    "cold starts": Workload(1000.0, 200.0, RATE, cold_start=(0.01, 5.0 * SECOND)),
    "cached prefixes": Workload(2000.0, 200.0, RATE, 1500.0, cache=CACHE),
}


def under_load(deployment, workload):
    """Means and distributions under a load, and what they are computed from."""
    rank, means = equations.server_of(deployment, workload), steady.served(deployment, workload)
    prompt = server.prompt_of(rank)
    full = equations.saturation(replace(rank, users=1e9), prompt)
    spread = () if workload.load.is_run else steady.tails(deployment, workload, means)
    return means, prompt, full, *chain(*spread)


@each("load, workload", LOADS.items())
def test_figures_under_a_load_have_the_units_that_their_comments_state(load, workload):
    answer = measured(under_load, DENSE, workload)
    check_units(*answer)
    assert dimensions_of((answer[0].ttft, answer[0].tpot)) == {"s"}


@each("name", DEPLOYMENTS)
def test_so_have_those_of_other_deployments(name):
    check_units(*measured(under_load, DEPLOYMENTS[name], LOADS["a rate"]))


#: Figures of a prediction by name -> their units, as the first line of their docstrings states them.
STATED_FIGURES = {
    name: STATED.get(unit[1], unit[1])
    for name, figure in vars(Prediction).items()
    if (unit := re.search(r"\[([^\]]+)\]", (inspect.getdoc(figure) or "").split("\n")[0])) and not callable(figure)
}


BURST = Workload(1000.0, 200.0, Burst(8.0), 300.0)


def figures(deployment, workload):
    """Figures of a prediction that state a unit."""
    prediction = predict_deployment(deployment, workload)
    return [getattr(prediction, name) for name in STATED_FIGURES]


@each("workload", [BURST, LOADS["users"], LOADS["a rate"], LOADS["cold starts"]])
def test_figures_of_a_prediction_have_the_units_that_they_state(workload):
    answer = measured(figures, DENSE, workload)
    assert {"s", "1/s", "USD", "USD/s", "1"} == set(STATED_FIGURES.values())
    for (name, unit), figure in zip(STATED_FIGURES.items(), answer, strict=True):
        assert dimensions_of(figure) <= {unit}, f"{name} is {figure}"


def phases(deployment, workload):
    full = full_server(deployment, workload)
    return full, prefill(deployment, workload).time, decode(deployment, workload).time


def test_a_request_takes_time_on_a_full_server_and_costs_money():
    full, first, step = measured(phases, DENSE, BURST)
    assert (dimension(full.request_rate), dimensions_of(full.times)) == ("1/s", {"s"})
    assert dimension(latency.e2el(first, step, 200.0)) == "s"
    assert dimension(latency.slo_excess(first, step, 200.0, {"ttft": SECOND, "tpot": SECOND, "e2el": SECOND})) == "1"
    rent = 0.002 * USD / SECOND
    assert dimension(cost.usd_per_m_output_tok(rent, 1000.0 / SECOND)) == "USD"
    assert dimension(cost.break_even_rate(rent, 0.001 * USD)) == "1/s"
    assert dimensions_of(cost.token_prices(3.0 * USD, ByPhase(1e6, 0.0, 1e6), full.times)) == {"USD"}
    assert dimension(cost.token_bill(ByPhase(0.5 * USD, 0.05 * USD, 1.5 * USD), ByPhase(1e6, 2e6, 1e6))) == "USD"


def knees(deployment, isl):
    def step(batch):
        return passes.decode_pass(deployment, batch, isl)

    return ridge_knee(step, affine=True), ridge_knee(step, affine=False), half_knee(step), ridge_surplus(step)(1.0)


def test_knees_are_sequences_where_times_are_equal():
    ridge, found, half, surplus = measured(knees, DENSE, 1000.0)
    assert dimensions_of((ridge, found, half)) == {"1"}
    assert dimension(surplus) == "s"


def prompts_of_a_pool(deployment, link, workload):
    pools = Pools(deployment, deployment, link)
    rank = equations.server_of(deployment, workload)
    return kv_transfer_time(pools, workload.isl), prompt_queue(prompt_rank(rank), workload.request_rate)


def test_prompts_of_a_pool_wait_and_are_sent_for_seconds():
    transfer, queue = measured(prompts_of_a_pool, DENSE, KvLink("rdma", 50e9 * BYTE / SECOND), LOADS["a rate"])
    assert dimension(transfer) == "s"
    check_units(queue)
    assert dimension(matched_rate_per_gpu(2.0 / SECOND, 3.0 / SECOND, 1.0, 2.0)) == "1/s"


MISTAKES = [
    (equations, "_open_loop", "workload.request_rate / ranks", "ranks / workload.request_rate"),
    (rounds, "queue_wait", "rate * square", "rate * mean"),
    (server, "times_of_chunks", "engine.launch * chunk.launches", "chunk.launches"),
    (tails, "_recovery_rate", "(slope + met.prompt / case.server.steps)", "(slope + met.prompt * case.rate)"),
    (prompts, "load_time", "prefix_bytes(deployment, prefix) / rate", "prefix_bytes(deployment, prefix)"),
]


@each("module, name, right, wrong", MISTAKES)
def test_a_mistake_under_a_load_is_found(module, name, right, wrong):
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match=r"\[\S+\] \S+ \[\S+\]|, not \["):
        altered(patch, module, name, right, wrong)
        patch.setattr(programs, "_TEMPLATES", {})  # of the formulas as they were
        patch.setattr(programs, "_ASKED", {})
        check_units(*measured(under_load, DENSE, LOADS["cached prefixes"]))
