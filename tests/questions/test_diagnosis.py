"""What changed between two runs: each cause is found at its size; docs/diagnosis.md has 200 simulations."""

import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from build_diagnosis_page import HIDDEN, SEED, case, hosted, page

import roofline as rl
from roofline.questions.diagnosis import (
    CAUSES,
    METRICS,
    NOISE,
    NOTHING,
    UNCLEAR,
    Observed,
    Pair,
    diagnosis,
    paired_runs,
    predicted_figures,
)
from roofline.specs.load import Rate, Users

pytestmark = pytest.mark.usefixtures("_figures_predicted_once")

PAGE = Path(__file__).parents[2] / "docs" / "diagnosis.md"
USERS = (2, 96)


@pytest.fixture(name="server", scope="module")
def fixture_server():
    return rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, engine="vllm", concurrency=1).deployment


def workloads(**more):
    case = {"tp": 1, "isl": 2000, "osl": 300, **more}
    return [rl.predict("llama-3.1-8b", "h100-sxm", **case, concurrency=users).workload for users in USERS]


def told(stated, before, after, loads=None, real=(None, None), seed=None):
    """The diagnosis of runs whose figures the closed forms make, with the noise of a seed."""
    draw = random.Random(seed)
    loads = loads or workloads()
    sides = []
    for deployment, own in zip((before, after), real, strict=True):
        side = []
        for workload, known in zip(own or loads, loads, strict=True):
            values = predicted_figures(Observed(deployment, workload, {})).values
            noise = {name: 0.0 if seed is None else draw.gauss(0.0, NOISE) for name in METRICS}
            side.append(Observed(stated, known, {name: values[name] * math.exp(noise[name]) for name in METRICS}))
        sides.append(side)
    return diagnosis(paired_runs(*sides))


def with_engine(deployment, **changes):
    return replace(deployment, engine=replace(deployment.engine, **changes))


def test_a_host_that_takes_longer_a_step_is_found_at_its_size(server):
    found = told(server, server, with_engine(server, step=server.engine.step + 0.004))
    assert found.answer == "host"
    assert found.best.size == pytest.approx(0.004, rel=0.05)
    assert re.fullmatch(r"host: (4|3\.[89]) ms more a step", found.best.text)


def test_what_was_there_before_and_is_gone_is_found_as_well(server):
    found = told(server, with_engine(server, step=server.engine.step + 0.004), server)
    assert (found.answer, found.best.text.endswith("less a step")) == ("host", True)


def test_a_host_that_takes_twice_as_long_is_found(server):
    found = told(server, server, hosted(server, 3.0))
    assert found.answer == "host"
    assert found.best.size == pytest.approx(3.0, rel=0.15)


def test_slower_rates_of_a_gpu_are_kernels(server):
    gpu = server.gpu
    slower = replace(gpu, bandwidth=gpu.bandwidth / 1.3, peaks={key: peak / 1.3 for key, peak in gpu.peaks.items()})
    found = told(server, server, replace(server, gpu=slower))
    assert found.answer == "kernels"
    assert found.best.size == pytest.approx(1.3, rel=0.1)
    assert re.fullmatch(r"kernels (2\d|3\d) % slower", found.best.text)


def test_a_limited_batch_is_found_at_its_limit(server):
    found = told(server, server, with_engine(server, max_num_seqs=48))
    assert found.answer == "batch limit"
    assert found.best.size == pytest.approx(48.0, rel=0.1)


def test_a_prefix_that_is_no_longer_cached_is_found_at_its_share(server):
    stated, lost = workloads(prefix=1200), workloads()
    found = told(server, server, server, stated, (None, lost))
    assert found.answer == "cache"
    assert re.fullmatch(r"cache: about (5[7-9]|6[0-3]) % of the prompt was no longer cached", found.best.text)


@pytest.mark.parametrize("prefix", [700, 900])
def test_where_two_causes_cannot_be_told_apart_the_load_that_is_named_tells(server, prefix):
    def at(users, cached):
        case = {"tp": 1, "isl": 2000, "osl": 300, "prefix": cached}
        return rl.predict("llama-3.1-8b", "h100-sxm", **case, concurrency=users).workload

    def answer(*users):
        stated, lost = ([at(each, cached) for each in users] for cached in (prefix, 0))
        return told(server, server, server, stated, (None, lost))

    alone = answer(16)
    assert alone.answer == UNCLEAR
    assert alone.text.endswith("; both sides measured at 64 users would tell")
    assert {each.cause for each in alone.explanations[:2]} == {"cache", "host"}
    both = answer(16, 64)
    assert (both.answer, both.telling) == ("cache", None)


def test_other_loads_than_stated_are_found(server):
    longer = [replace(each, osl=1.4 * each.osl) for each in workloads()]
    found = told(server, server, server, None, (None, longer))
    assert found.answer == "load"
    assert re.fullmatch(r"load: answers (3[7-9]|4[0-3]) % longer than stated", found.best.text)


def test_noise_and_what_is_off_before_and_after_alike_are_no_change(server):
    slow = hosted(server, 1.5)
    found = told(server, slow, slow, seed=1)
    assert found.answer in (NOTHING, UNCLEAR)
    assert found.best is None


def test_what_the_results_state_is_no_change():
    """Other users and another GPU: the two predictions differ as the runs do."""
    runs = []
    for gpu, users in (("h100-sxm", 16), ("h200-sxm", 48)):
        found = rl.predict("llama-3.1-8b", gpu, tp=1, isl=2000, osl=300, engine="vllm", concurrency=users)
        values = predicted_figures(Observed(found.deployment, found.workload, {})).values
        runs.append(Observed(found.deployment, found.workload, values))
    assert diagnosis([Pair(*runs)]).answer == NOTHING


def test_a_run_is_compared_with_the_one_whose_load_is_nearest(server):
    low, high = (Observed(server, each, {}) for each in workloads())
    near = Observed(server, replace(high.workload, load=Users(80.0)), {})
    assert paired_runs([low, high], [near]) == [Pair(high, near)]
    rate = Observed(server, replace(low.workload, load=Rate(1.0)), {})
    assert paired_runs([low, high], [rate]) == []


def test_times_with_slower_kernels_are_those_of_slower_kernels(server):
    """k times the kernels: the same as every rate over k and every constant of a kernel times k."""
    bare = with_engine(server, request=0.0, arrival=0.0, prefill=0.0, launch=0.0, step=0.0, sequence=0.0)
    plain, slow = (predicted_figures(Observed(bare, workloads()[1], {}, factor)) for factor in (1.0, 2.0))
    for name in ("ttft", "tpot", "e2el"):
        assert slow.values[name] == pytest.approx(2.0 * plain.values[name], rel=1e-9)
    assert slow.values["answered_rate"] == pytest.approx(plain.values["answered_rate"] / 2.0, rel=1e-9)


@pytest.fixture(name="judged", scope="module")
def fixture_judged():
    """A simulation of the kind of docs/diagnosis.md, of another seed and in shorter runs."""
    return case((7_000_004, 400))


def test_a_simulation_with_a_hidden_cause_is_told_right(judged):
    assert judged.found.answer == judged.cause == "batch limit"
    assert judged.is_right


# --- the page ------------------------------------------------------------------------------------


def matrix():
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    heading, *table = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[: len(HIDDEN) + 1])
    return {(row[0], answer): int(cell) for row in table for answer, cell in zip(heading[1:], row[1:], strict=True)}


def test_the_page_counts_200_seeds_and_nine_answers_in_ten_are_right():
    counts = matrix()
    assert {cause for cause, _ in counts} == {*CAUSES, NOTHING}
    assert sum(counts.values()) >= 200
    given = {key: count for key, count in counts.items() if key[1] != UNCLEAR}
    assert sum(count for (cause, answer), count in given.items() if cause == answer) >= 0.9 * sum(given.values())
    assert sum(given.values()) >= 0.6 * sum(counts.values())


def test_the_page_says_which_seeds_it_used_and_counts_what_it_was_told(judged):
    assert f"seeds from {SEED}, which were not used while the method was written" in PAGE.read_text("utf-8")
    text = page([judged], 400, SEED)
    assert "| batch limit | 0 | 0 | 1 | 0 | 0 | 0 | 0 |" in text
    assert "answered: 1 of 1 (100 %)" in text
