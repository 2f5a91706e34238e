"""Answers under a load by compiled programs: those of the formulas, to the bit of floats, to rounding of arrays."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import tiers

import roofline as rl
from roofline.physics.passes import _decode_kernels
from roofline.serving.load import mixtures, programs
from roofline.serving.load.equations import served_by_formulas
from roofline.serving.load.mixtures import percentile
from roofline.serving.load.steady import served, tails
from roofline.serving.load.tails import tails_by_formulas
from roofline.specs.load import Rate

SPREAD = {"isl_cv": 0.3, "osl_cv": 0.5}
HOST_CACHE = {"prefix": 500, "cache_hit": 0.6, "cache_tier": "host"}
#: Two deployments of most structures: what one leaves in a program must not be the other's.
CASES = (
    ("llama-3.1-8b", "h100-sxm", {}),
    ("llama-3.3-70b", "b200", {"tp": 2, "engine": "vllm"}),
    ("qwen3-32b", "h200-sxm", {"tp": 2, **SPREAD}),
    ("llama-3.1-8b", "a100-sxm-80gb", {"engine": "sglang"}),
    ("deepseek-v3", "h200-sxm", {"tp": 8, **HOST_CACHE}),
    ("llama-3.1-8b", "b200", {"tp": 1, **HOST_CACHE}),
    ("deepseek-r1", "b200", {"tp": 1, "dp": 8, "ep": 8, "engine": "sglang"}),
    ("gpt-oss-120b", "h100-sxm", {"tp": 2, "pp": 2, "engine": "trtllm"}),
    ("llama-3.1-8b", "h100-sxm", {"draft": "ngram", "draft_tokens": 3, "acceptance": 0.5, "max_num_seqs": 16}),
    ("llama-3.1-8b", "h100-sxm", {"cold_start": "1%:2s"}),
)


@pytest.fixture
def at_once(monkeypatch):
    """Programs are compiled at the first question."""
    for kept in (programs._SHARED, mixtures._PROGRAMS):
        monkeypatch.setattr(kept, "few", 0)


def drawn(draw, names):
    """Lengths and a load of any size."""
    lengths = {"isl": float(round(10 ** draw.uniform(1.5, 4.0))), "osl": float(round(10 ** draw.uniform(0.0, 3.0)))}
    load = next(name for name in names if name in ("concurrency", "request_rate"))
    amount = 10 ** draw.uniform(-1.0, 2.0)
    return {**lengths, load: amount if load == "request_rate" else float(round(amount) or 1)}


def numbers_of(answer):
    return [*programs._numbers_of(answer)]


@pytest.mark.parametrize("load", [{"request_rate": 1.0}, {"concurrency": 8}], ids=["rate", "users"])
@tiers.has_more_cases
@pytest.mark.parametrize(("model", "gpu", "options"), tiers.some(CASES, 4))
def test_a_program_gives_what_the_formulas_give_to_the_bit(model, gpu, options, load, at_once):
    one, draw = rl.predict(model, gpu, allow_oversize=True, **options, **load), random.Random(f"{model}{options}{load}")
    for _ in range(6):
        workload = one.workload.at(drawn(draw, one.workload.numbers))
        found, expected = served(one.deployment, workload), served_by_formulas(one.deployment, workload)
        assert programs.by_program(served_by_formulas, one.deployment, workload) is not None
        assert repr(found) == repr(expected)
        spread, plain = tails(one.deployment, workload, found), tails_by_formulas(one.deployment, workload, found)
        assert repr(numbers_of(spread.answers)) == repr(numbers_of(plain.answers))
        for metric in ("ttft", "tpot", "e2el", "itl"):
            by_program, by_formula = getattr(spread, metric), getattr(plain, metric)
            parts = [part for part in by_formula if metric == "tpot" or part.weight != 0.0] or by_formula
            assert repr(by_program) == repr(tuple(parts))
            if expected.is_stable:
                level = draw.choice((50.0, 95.0, 99.0))
                assert percentile(by_program, level) == mixtures._percentile(parts, mixtures._tail_of(level))


@tiers.has_more_cases
@pytest.mark.parametrize(("model", "gpu", "options"), tiers.some([*CASES[:2], CASES[3]], 1))
def test_elements_of_a_large_array_are_what_single_cases_are(model, gpu, options):
    size, draw = programs.LARGE + 5, np.random.default_rng(11)
    columns = {"isl": draw.integers(30, 9000, size), "osl": draw.integers(2, 600, size)}
    for load in ({"request_rate": draw.uniform(0.1, 3.0, size)}, {"concurrency": draw.integers(1, 60, size)}):
        many = rl.predict(model, gpu, **columns, **load, **{"tp": 1, **options})
        kinds = {metric: np.asarray(many.latency(f"{metric}@p99")) for metric in ("ttft", "tpot")}
        answered = np.flatnonzero(~np.isnan(many.ttft))
        assert answered.size > size / 3
        for place in answered[[0, answered.size // 2, -1]]:
            case = {name: float(column[place]) for name, column in {**columns, **load}.items()}
            one = rl.predict(model, gpu, **case, **{"tp": 1, "allow_oversize": True, **options})
            assert (many.ttft[place], many.tpot[place]) == pytest.approx((one.ttft, one.tpot), rel=1e-10)
            for metric, times in kinds.items():
                single = one.latency(f"{metric}@p99")
                assert np.isnan(times[place]) if single is None else times[place] == pytest.approx(single, rel=1e-8)


def test_threads_do_not_share_the_arrays_in_which_they_compute():
    rates = [np.linspace(0.1, top, programs.LARGE + 100) for top in (1.0, 2.0, 3.0, 4.0)]

    def answer(rate):
        return rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=200, request_rate=rate).ttft

    alone = [answer(rate) for rate in rates]
    with ThreadPoolExecutor(len(rates)) as pool:
        together = list(pool.map(answer, rates))
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(alone, together, strict=True))


def test_what_a_program_cannot_hold_is_left_to_the_formulas(at_once):
    one = rl.predict(
        "llama-3.1-8b", "h100-sxm", prefix=500, cache_size="500GB", working_set="2TB:zipf0.9", concurrency=4
    )
    assert programs.by_program(served_by_formulas, one.deployment, one.workload) is None
    assert served(one.deployment, one.workload) == served_by_formulas(one.deployment, one.workload)
    mixed = replace(one.workload, cache=None, prefix=0.0, osl=np.array([1.0, 30.0]), load=Rate(0.5))
    found = served(one.deployment, mixed)
    for place, osl in enumerate((1.0, 30.0)):
        alone = served(one.deployment, replace(mixed, osl=osl))
        assert (found.ttft[place], found.decode[place]) == pytest.approx((alone.ttft, alone.decode), rel=1e-10)


def test_an_answer_that_holds_kernels_of_its_model_is_no_program(at_once):
    def step_time(deployment, workload, more):
        return sum(kernel.time for kernel in _decode_kernels(deployment, 1.0, workload.isl, workload.isl))

    for model in ("llama-3.1-8b", "qwen3-32b"):
        one = rl.predict(model, "h100-sxm", tp=1, request_rate=0.1)
        assert programs.answered(step_time, one.deployment, one.workload) == step_time(one.deployment, one.workload, ())


def test_models_whose_last_layers_skip_most_of_a_prompt_share_no_program_with_others(at_once):
    for name, gpu, tp in (("deepseek-v3", "b200", 8), ("deepseek-v4.1-flash", "b200", 8)):  # the first makes a program
        found = rl.predict(name, gpu, tp=tp, isl=9000, concurrency=6)
        alone = served_by_formulas(found.deployment, found.workload)
        assert served(found.deployment, found.workload).ttft == pytest.approx(alone.ttft, rel=1e-12)
