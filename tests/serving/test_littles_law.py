"""Little's law: as many requests are in flight as arrive while one is answered, whatever the load and the server."""

import math
import random
from dataclasses import replace

import pytest

import roofline as rl
from roofline.serving.latency import LOG_NORMAL, Workload, lanes, lengths_by_law
from roofline.serving.load.pools import pooled
from roofline.specs.load import Rate, Users

SERVERS = (
    ("llama-3.1-8b", "h100"),
    ("gpt-oss-120b", "l40s:tp2"),
    ("deepseek-v3.2", "b200:dp8ep8"),
    ("qwen3-30b-a3b", "a100-sxm-80gb:tp2"),
)
UTILS = (0.05, 0.4, 0.8, 0.95, 0.999)


def spread_between(draw, low, high):
    return float(round(math.exp(draw.uniform(math.log(low), math.log(high)))))


def drawn(seed):
    """Model and pool, options without a load, a share of the largest rate, and users."""
    draw = random.Random(seed)
    server = draw.choice(SERVERS)
    options = {"engine": draw.choice(("vllm", "sglang", "trtllm", "generic", "none")),
               "isl": spread_between(draw, 20, 16_000), "osl": spread_between(draw, 1, 2000)}  # fmt: skip
    for share, more in (
        (0.2, {"prefix": float(int(options["isl"] * 0.7))}),
        (0.3, {"isl_cv": draw.choice((0.3, 1.0))}),
        (0.3, {"osl_cv": draw.choice((0.3, 1.0))}),
        (0.2, {"draft": "ngram", "draft_tokens": draw.choice((1, 3)), "acceptance": 0.7}),
        (0.1, {"max_num_seqs": draw.choice((4, 64))}),
        (0.1, {"cold_start": "5%:2s"}),
    ):
        if draw.random() < share:
            options |= more
    return server, options, draw.choice(UTILS), spread_between(draw, 1, 1000), draw


def loads(draw, users):
    run = {} if draw.random() < 0.5 else {"num_prompts": users * draw.choice((1, 10, 100))}
    return {"concurrency": users, **run}


def broken(concurrency, rate, time):
    return concurrency != pytest.approx(rate * time, rel=1e-6)


def test_one_pool_holds_as_many_requests_as_arrive_while_one_is_answered():
    answers, refused, breaks = 0, [], []
    for seed in range(100):
        (model, gpu), options, util, users, draw = drawn(seed)
        if "prefix" in options and draw.random() < 0.5:
            options |= {"cache_hit": draw.choice((0.3, 0.8)), "cache_tier": "host", "cache_bandwidth": "20 GB/s"}
        if seed % 2:
            options |= loads(draw, users)
        else:
            options["request_rate"] = util * rl.predict(model, gpu, **options, request_rate=1e-5).max_request_rate
        try:
            found = rl.predict(model, gpu, **options)
        except rl.Overloaded:
            refused += [seed] if "request_rate" in options else []
            continue
        answers += 1
        time = found.ttft + found.served.decode
        if broken(found.concurrency, found.request_rate, time) or broken(found.e2el, 1.0, time):
            breaks.append((seed, model, gpu, options))
    assert (breaks, refused) == ([], [])  # a rate below the largest is never refused
    assert answers > 90


def test_two_pools_hold_as_many_requests_as_arrive_while_one_is_answered():
    answers, breaks, refused = 0, [], []
    for seed in range(1000, 1012):
        (model, pool), options, _, _, draw = drawn(seed)
        other = pool if "dp" in pool else f"{pool}x2" if ":" in pool else f"{pool}:x2"
        link = {"layerwise": draw.random() < 0.3, "kv_link": draw.choice((None, 6e9, 50e9))}
        pools = rl.disaggregate(model, pool, other, **link, **options, request_rate=1e-5).pools
        for number in range(4 if "dp" in pool else 14):
            lengths = lengths_by_law(LOG_NORMAL, draw.choice((0.0, 0.3, 1.0)), draw.choice((0.0, 0.3, 1.0)))
            workload = Workload(
                spread_between(draw, 20, 16_000), spread_between(draw, 1, 2000), Rate(1e-5),
                lengths=draw.choice((None, lengths)), cold_start=draw.choice((None, (0.05, 2.0))),
            )  # fmt: skip
            if number % 2:
                workload = replace(workload, load=Users(**loads(draw, spread_between(draw, 1, 1000))))
            else:
                rate = draw.choice(UTILS) * float(pooled(pools, workload).max_request_rate)
                workload = replace(workload, load=Rate(rate))
            found = pooled(pools, workload)
            if not found.is_stable:
                refused.append((seed, workload))
                continue
            answers += 1
            if broken(float(found.concurrency), float(found.request_rate), float(found.ttft + found.decode)):
                breaks.append((seed, workload))
            if workload.request_rate is not None and workload.osl > 1.0:  # as on each decode rank, where nobody waits
                rate = workload.request_rate / float(lanes(pools.decode))
                if broken(float(found.others), rate, float(found.decode)) or found.others > found.slots:
                    breaks.append((seed, "decode", workload))
    assert breaks == []
    assert refused == []  # below the largest rate, and with any number of users, there is a steady state
    assert answers > 100


def test_a_burst_answers_as_many_requests_as_are_in_it_in_the_time_of_one():
    for seed in range(2000, 2100):
        (model, gpu), options, *_, draw = drawn(seed)
        for name in ("isl_cv", "osl_cv", "cold_start"):
            options.pop(name, None)
        batch = draw.choice((1, 3, 17))
        found = rl.predict(model, gpu, **options, batch=batch)
        in_flight = batch * found.deployment.plan.pp * found.deployment.replicas
        assert found.output_tok_s * found.e2el == pytest.approx(in_flight * options["osl"], rel=1e-9), seed
