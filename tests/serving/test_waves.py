"""A run whose requests all wait from the start."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.cli.main import cli
from roofline.serving.load.equations import capacity

SMALL = ("llama-3.1-8b", "h100-sxm")
CASE = {"isl": 1000, "osl": 200}
WIDE = ("deepseek-v3", "b200")
RANKS = {"dp": 8, "ep": 8, "quantization": "fp8"}


def run(num_prompts, **options):
    return rl.predict(*SMALL, num_prompts=num_prompts, **{**CASE, **options})


@each(
    ("case", "options"),
    [
        (SMALL, {"num_prompts": 100, "engine": "vllm"}),  # all find a slot
        (SMALL, {"num_prompts": 2000, "engine": "vllm"}),  # four waves and a rest
        (SMALL, {"num_prompts": 2000, "engine": "sglang"}),  # prompts first
        (SMALL, {"num_prompts": 1000, "engine": "sglang", "max_num_seqs": 200}),
        (SMALL, {"num_prompts": 300, "engine": "trtllm", "isl": 20_000}),  # a prompt takes several steps
        (SMALL, {"num_prompts": 500, "engine": "trtllm", "isl": 4000, "osl": 10}),  # the budget limits
        (WIDE, {"num_prompts": 2400, "engine": "generic", "osl": 1000, **RANKS}),
        (SMALL, {"num_prompts": 64, "engine": "vllm", "osl": 1}),
    ],
)
def test_waves_take_the_time_that_a_simulation_of_every_step_takes(case, options):
    found = rl.predict(*case, **{**CASE, **options})
    simulated = rl.simulate(found)
    assert found.request_rate == pytest.approx(simulated.request_rate, rel=0.02)
    assert found.ttft == pytest.approx(simulated.ttft, rel=0.03)
    assert found.e2el == pytest.approx(simulated.e2el, rel=0.03)
    assert found.tpot is None or found.tpot == pytest.approx(simulated.tpot, rel=0.08)
    assert simulated.ratio("request_rate") == found.request_rate / simulated.request_rate


@each("engine", ["none", "vllm", "sglang", "trtllm"])
def test_a_single_request_is_one_on_an_idle_server(engine):
    alone, queued = rl.predict(*SMALL, **CASE, engine=engine), run(1, engine=engine)
    assert queued.ttft == pytest.approx(alone.ttft, rel=5e-3)
    assert queued.tpot == pytest.approx(alone.tpot, rel=1e-9)
    assert queued.duration == pytest.approx(alone.e2el, rel=2e-3)
    assert queued.output_tok_s == pytest.approx(alone.output_tok_s, rel=2e-3)


@each("engine", ["vllm", "sglang"])
def test_many_requests_are_answered_at_the_rate_of_full_slots(engine):
    runs = [run(number, engine=engine) for number in (100, 10_000, 1_000_000)]
    rates = [each.request_rate / each.max_request_rate for each in runs]
    assert rates[2] == pytest.approx(1.0, rel=1e-3)
    assert rates == sorted(rates)
    slots = capacity(runs[2].deployment, runs[2].workload)
    full = run(slots, engine=engine)
    assert full.waiting == pytest.approx(full.request_rate * full.queue)
    assert run(2 * slots, engine=engine).duration < 2.0 * full.duration  # the second wave is no start from nothing


def test_two_waves_take_twice_the_steps_and_a_request_more_begins_the_next():
    one, two, more = (run(number, engine="sglang", max_num_seqs=64) for number in (64, 128, 129))
    before = one.deployment.engine.request
    assert two.duration - before == pytest.approx(2.0 * (one.duration - before), rel=1e-9)
    assert more.duration > two.duration + CASE["osl"] * 0.9 * run(1, engine="sglang").tpot


def test_full_steps_know_no_slowdown_and_the_duration_is_what_the_requests_take(tmp_path):
    profile = (
        "name: {name}\nprefill_slowdown: {factor}\nmax_num_batched_tokens: 8192\n"
        "sources:\n  own: {{title: own, date: 2026-01-01}}\n"
    )
    times = []
    for name, factor in (("slow", 1.9), ("fast", 1.0)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(profile.format(name=name, factor=factor))
        found = run(3000, engine=str(path))
        times.append(found.duration)
        assert found.duration == pytest.approx(3000 / found.request_rate)
        assert found.output_tok_s == pytest.approx(3000 * CASE["osl"] / found.duration)
        assert found.concurrency == pytest.approx(found.request_rate * found.e2el)
    assert times[0] == times[1]


def test_every_door_gives_the_same_answer():
    numbers = [1, 50, 3000]
    scalars = [run(number) for number in numbers]
    arrays = run(np.array(numbers))
    rows = rl.table(SMALL[0], SMALL[1], num_prompts=numbers, **CASE)
    for name in ("ttft", "tpot", "e2el", "request_rate", "duration"):
        of_each = [getattr(one, name) for one in scalars]
        assert list(getattr(arrays, name)) == pytest.approx(of_each, rel=1e-12)
    assert [row["duration_s"] for row in rows] == pytest.approx([one.duration for one in scalars], rel=1e-12)
    assert [row["num_prompts"] for row in rows] == numbers
    words = ["predict", *SMALL, "--isl", "1000", "--osl", "200", "--num-prompts", "3000", "--format", "json"]
    (row,) = json.loads(CliRunner().invoke(cli, words).stdout)["rows"]
    assert (row["load"], row["num_prompts"]) == ("num_prompts", 3000)
    assert row["duration_s"] == pytest.approx(scalars[2].duration, rel=1e-12)
    large = run(np.linspace(1.0, 5000.0, 1 << 15))  # by a program
    assert large.duration[-1] == pytest.approx(run(5000).duration, rel=1e-12)


def test_an_answer_says_that_all_requests_wait_and_how_long_they_take():
    found = run(3000)
    assert "3000 requests queued at once" in repr(found)
    assert f"answered in {found.duration:.3g} s" in str(found)
    assert any("take the slots in waves" in note for note in found.warnings)
    assert found.latency("ttft_p95") is None
    assert found.load_region is None
    assert (rl.predict(*SMALL).duration, rl.predict(*SMALL, concurrency=4).duration) == (None, None)
    assert rl.predict(*SMALL, concurrency=4, num_prompts=40).duration > 0.0


@each(
    ("options", "words"),
    [
        ({"batch": 2}, "leave out batch"),
        ({"request_rate": 2}, "leave out request_rate"),
        ({"slo": "ttft:300@p95"}, "leave out num_prompts"),
        ({"isl_cv": 0.3}, "for lengths that spread give concurrency"),
    ],
)
def test_what_a_queue_cannot_have_is_refused_in_a_sentence(options, words):
    with pytest.raises(rl.BadInput, match=words):
        run(100, **options)
    for question in (rl.curve, rl.goodput):
        with pytest.raises(rl.BadInput, match="takes no num_prompts"):
            question(*SMALL, num_prompts=100, slo="ttft:300")
