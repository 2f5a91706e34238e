"""The fewest GPUs and the plan with the largest rate: a search leaves out nothing better than what it finds."""

from random import Random

import pytest
from every_case import each

import roofline as rl
from roofline.physics.memory import memory
from roofline.physics.plan import Plan
from roofline.questions.inputs.case import LEAST_RATE
from roofline.serving.capacity import largest_rate
from roofline.serving.fewest import Degrees, fewest_gpus, possible_plans
from roofline.serving.knee import check_plan, possible_tp
from roofline.serving.load.limits import least_shares
from roofline.serving.load.steady import served
from roofline.support.errors import BadInput

GPUS = ("h100-sxm", "l40s", "mi300x")
MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "llama-3.3-70b")


def cases(seed, number):
    """Random cases: model, GPU and options."""
    random = Random(seed)
    return [
        (
            random.choice(MODELS),
            random.choice(GPUS),
            {
                "isl": random.choice((200, 1000, 4000)),
                "osl": random.choice((1, 30, 300)),
                "engine": random.choice(("vllm", "sglang")),
                **random.choice(({}, {"isl_cv": 0.3, "osl_cv": 0.5}, {"max_num_seqs": 8}, {"quantization": "fp8"})),
                **random.choice(({"concurrency": random.choice((4, 20, 60))}, {"request_rate": random.choice((1, 8))})),
            },
            random.choice(
                ("ttft:200", "ttft:1000@p95", "tpot:20", "tpot:40@p99,ttft:2s", "e2el:5s,tpot:30", "itl:60@p99")
            ),
        )
        for _ in range(number)
    ]


def share_of_limits(deployment, workload, slo):
    """GPUs, whether a figure is unknown, and the sum of the latencies over their limits; None where one is missed."""
    if not served(deployment, workload).is_stable and workload.load.is_open:
        return None
    shares, is_known = least_shares(deployment, workload, slo)
    return None if max(shares.values()) > 1.0 else (deployment.num_gpus, not is_known, sum(shares.values()))


@each("model, gpu, options, slo", lambda: cases(35, 14))
def test_no_plan_with_any_number_of_replicas_needs_fewer_gpus_than_the_one_found(model, gpu, options, slo):
    start = rl.predict(model, gpu, **options, slo=slo, allow_oversize=True, tp=1, num_gpus=10_000)
    stage, workload = start.deployment.copies(1), start.workload
    limits = dict(start.slo)
    found = fewest_gpus({None: stage}, workload, limits, Degrees(), for_certain=False).best
    most = 16 if found is None else found.deployment.num_gpus
    meeting = [
        cost
        for plan in possible_plans(stage.model, stage.gpu.node, 1.0, Degrees())
        if memory(stage.at(plan), 1.0, workload.isl + workload.osl).fits
        for count in range(1, most // plan.num_gpus + 1)
        if (cost := share_of_limits(stage.at(plan).copies(count), workload, limits)) is not None
    ]
    if found is None:
        assert not meeting
        return
    assert (most, not found.is_known, found.total) == pytest.approx(min(meeting), rel=1e-12)


@each("model, gpu, options, slo", lambda: [case for case in cases(53, 12) if case[2]["osl"] > 1])
@each("more", ["", ",p99:3x"])
def test_the_degree_found_is_the_one_at_which_rates_that_are_searched_to_the_end_cease_to_grow(
    model, gpu, options, slo, more
):
    case = {name: value for name, value in options.items() if name not in ("concurrency", "request_rate")}
    limits = slo + more
    (answer,) = rl.goodput(model, gpu, slo=limits, **case)
    start = rl.predict(model, gpu, **case, slo=limits, request_rate=LEAST_RATE)
    best = 0.0, None
    for tp in possible_tp(start.deployment.model, start.deployment.gpu.node):
        if tp < start.deployment.plan.tp:
            continue
        deployment = start.deployment.at(Plan(tp=tp))
        rate = largest_rate(deployment, start.workload, dict(start.slo)).rate / tp
        if rate < best[0]:
            break
        best = max(best, (rate, tp), key=lambda pair: pair[0])
    assert answer.rate_per_gpu == pytest.approx(best[0], rel=1e-9)
    if best[0]:
        assert answer.prediction.deployment.plan.tp == best[1]


def test_a_rate_gets_the_replicas_that_sustain_it_where_no_limit_of_the_slo_grows_with_the_load():
    answer = (
        rl.size("llama-3.1-8b", "h100-sxm", isl=1000, osl=1, request_rate=200, slo="tpot:20@p99").plans[0].prediction
    )
    count, most = answer.deployment.num_gpus, answer.max_request_rate
    assert count > 1
    assert most * (count - 1) / count <= 200 < most


@each("model", ["llama-3.1-8b", "gpt-oss-120b", "qwen3-next-80b-a3b", "deepseek-r1"])
def test_possible_degrees_are_those_that_a_plan_may_have(model):
    record = rl.load_model(model)

    def is_possible(tp):
        try:
            check_plan(record, Plan(tp=tp, ep=tp if record.is_moe else 1))
        except BadInput as error:
            return "does not divide" not in str(error)
        return True

    assert possible_tp(record, 200) == [tp for tp in range(1, 201) if is_possible(tp)]


def test_a_load_beyond_the_most_replicas_is_called_so():
    (size,) = rl.size("llama-3.1-8b", "h100-sxm", request_rate=1e7, slo="ttft:1s").plans
    assert size.reason == "misses: the load needs more than 65,536 replicas (tp 1)"
