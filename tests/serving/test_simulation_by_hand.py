"""A few requests step by step on a GPU so fast that the host alone takes time: 1 s a decode step, 3 s a prompt's pass.

A request is 0.75 s on its way, 2 s more where somebody decodes when it is sent. Times are worked out on paper.
"""

from dataclasses import replace
from math import exp, inf, isnan, nan
from random import Random
from types import SimpleNamespace

import pytest
from conftest import deploy, faster
from every_case import each

import roofline as rl
from roofline.physics.memory import largest_batch
from roofline.physics.passes import prefill_pass
from roofline.serving.latency import TRACE, UNIFORM, Lengths, Spread, Workload, lengths_by_law
from roofline.serving.load.equations import server_of
from roofline.serving.load.pools import KvLink, Pools
from roofline.serving.load.server import PROMPTS_FIRST
from roofline.serving.load.simulation import (
    Arrivals,
    Finished,
    _Simulation,
    _Table,
    drawn_steps,
    half_widths,
    pools_simulated,
    simulated,
    simulated_latencies,
    warm_up,
)
from roofline.specs.engine import Engine, PromptCache
from roofline.specs.load import Users

GPU = replace(faster(rl.load_gpu("h100"), 1e15), calibration=None, memory=1e15)
ENGINE = Engine("paper", request=0.5, network=0.25, arrival=2.0, step=1.0, prefill=3.0, max_num_batched_tokens=100)


def deployment(**engine):
    return deploy("llama-3.1-8b", GPU, engine=replace(ENGINE, **engine))


def seen(arrivals, engine=None, osl=4.0, isl=50.0, gpu=GPU, **workload):
    """(wait, TTFT, TPOT, E2EL) of each request, in the order in which they were answered."""
    on = replace(deployment(**(engine or {})), gpu=gpu)
    found = simulated(server_of(on, Workload(isl, osl, Users(1.0), **workload)), arrivals)
    return [(one.wait, one.ttft, one.tpot, one.e2el) for one in found]


def assert_seen(found, expected):
    """Requests whose answers end in the same step are in no order."""
    assert len(found) == len(expected)
    for one, other in zip(sorted(found), sorted(expected), strict=True):
        assert one == pytest.approx(other, abs=1e-9)


def test_two_prompts_of_a_burst_fill_a_pass_and_the_next_prompts_interrupt_an_answer():
    # both: 0.75 on their way, 3 of a pass, 3 steps. Who asks again first finds the other one still there: ready at
    # 6.75 + 2.75, the other at 7.5. That one's pass ends at 10.5; the next step holds the other's prompt, 1 + 3.
    expected = [(0, 3.75, 1, 6.75), (0, 3.75, 1, 6.75), (0, 3.75, 2, 9.75), (1, 7.75, 1, 10.75)]
    assert_seen(seen(Arrivals(4, users=2, is_burst=True)), expected)


def test_who_asks_again_is_late_by_the_root_of_those_who_still_decode():
    # three prompts fill no pass of 200. At 6.75 two others still decode, then one, then none: ready at 7.5 and
    # 2 x 2^0.5, at 9.5, at 7.5. The last one's pass ends at 10.5; its next step holds both prompts, 1 + 3.
    start = [(0, 3.75, 1, 6.75)] * 3
    again = [(0, 3.75, 2, 9.75), (1, 7.75, 1, 10.75), (3 - 2 * 2**0.5, 7.75, 1, 10.75)]
    assert_seen(seen(Arrivals(6, users=3, is_burst=True), {"max_num_batched_tokens": 200}), start + again)


def test_where_prompts_come_first_the_answer_that_runs_pauses():
    # from 10.5 to 13.5 the second prompt alone: both answers end their three steps at 16.5
    expected = [(0, 3.75, 1, 6.75), (0, 3.75, 1, 6.75), (0, 3.75, 2, 9.75), (1, 6.75, 1, 9.75)]
    assert_seen(seen(Arrivals(4, users=2, is_burst=True), {"scheduler": PROMPTS_FIRST}), expected)


def test_a_gap_between_tokens_is_a_step_or_a_step_that_prompts_stall():
    # of twelve gaps, one holds the second user's next prompt: beside a step, or between two
    for scheduler in ("decode first", PROMPTS_FIRST):
        on = deployment(scheduler=scheduler)
        found = simulated(server_of(on, Workload(50.0, 4.0, Users(1.0))), Arrivals(4, users=2, is_burst=True))
        assert [one.steps for one in found] == [3, 3, 3, 3]
        assert sum(sum(one.gaps.values()) for one in found) == 12.0
        times = simulated_latencies(found)
        assert times["itl"] == times["tpot"] == pytest.approx(15.0 / 12.0)
        assert times["itl_p90"] == pytest.approx(1.0, rel=0.002)
        assert times["itl_p95"] == times["itl_p99"] == pytest.approx(4.0, rel=0.002)


def test_long_answers_weigh_more_in_the_mean_gap_and_single_tokens_not_at_all():
    found = [Finished(1.0, 2.0, 3.0, 0.0, 1, {0: 1.0}), Finished(1.0, 1.0, 10.0, 0.0, 9, {-400: 9.0})]
    assert simulated_latencies(found)["itl"] == pytest.approx(11.0 / 10.0)
    assert simulated_latencies(found)["tpot"] == pytest.approx(1.5)
    assert simulated_latencies(found)["itl_p50"] == pytest.approx(exp(-0.799))
    assert simulated_latencies(found)["itl_p99"] == pytest.approx(exp(0.001))
    assert "itl" not in simulated_latencies([Finished(1.0, nan, 1.0, 0.0)])


def test_prompts_are_cut_where_the_budget_of_a_pass_ends():
    # 60 tokens a pass: 50 and 10 until 3.75, then 1 decodes and 40 are left: 1 + 3, 7.75
    expected = [(0, 3.75, 2, 9.75), (0, 7.75, 1, 10.75)]
    assert_seen(seen(Arrivals(2, users=2, is_burst=True), {"max_num_batched_tokens": 60}), expected)
    # of 51 one is left to the second prompt beside 50 of the first; then 50 beside a sequence: all but the last one's
    # 49 fit, so that it is done at 7.75, too; of 50 nothing is left: 49 at 7.75, and one more at 11.75
    assert_seen(seen(Arrivals(2, users=2, is_burst=True), {"max_num_batched_tokens": 51}), expected)
    later = [(0, 3.75, (4 + 4 + 1) / 3, 12.75), (3, 11.75, 1, 14.75)]
    assert_seen(seen(Arrivals(2, users=2, is_burst=True), {"max_num_batched_tokens": 50}), later)


def test_one_slot_serves_one_after_the_other():
    expected = [(0, 3.75, 1, 6.75), (6, 9.75, 1, 12.75)]
    assert_seen(seen(Arrivals(2, users=2, is_burst=True), {"max_num_seqs": 1}), expected)


def test_memory_that_holds_one_request_serves_one_after_the_other():
    tight = replace(GPU, memory=float(memory_of(1)))
    expected = [(0, 3.75, 1, 6.75), (6, 9.75, 1, 12.75)]
    assert_seen(seen(Arrivals(2, users=2, is_burst=True), gpu=tight), expected)
    answer = replace(GPU, memory=float(memory_of(1, 50.0)))  # most of which is the memory of an answer
    found = seen(Arrivals(2, users=2, is_burst=True), gpu=answer, isl=10.0, osl=40.0)
    assert_seen(found, [(0, 3.75, 1, 42.75), (42, 45.75, 1, 84.75)])
    roomy = replace(GPU, memory=float(memory_of(2)))
    assert_seen(seen(Arrivals(2, users=2, is_burst=True), gpu=roomy), [(0, 3.75, 1, 6.75)] * 2)


def memory_of(requests, length=54.0):
    """Just enough for so many of them [B], by halving."""
    low, high = 1e9, 1e12
    for _ in range(60):
        middle = (low + high) / 2
        fits = largest_batch(replace(deployment(), gpu=replace(GPU, memory=middle)), length) >= requests
        low, high = (low, middle) if fits else (middle, high)
    return high


def test_a_single_token_is_answered_by_its_pass():
    found = seen(Arrivals(3, users=1, is_burst=True), osl=1.0)
    assert [(wait, ttft, e2el) for wait, ttft, _, e2el in found] == [(0, 3.75, 3.75)] * 3
    assert all(isnan(tpot) for _, _, tpot, _ in found)


def test_one_user_is_counted_once_the_start_is_over():
    # three requests are the start; nobody else decodes when the user asks again
    assert_seen(seen(Arrivals(2, users=1)), [(0, 3.75, 1, 6.75)] * 2)


def test_a_prompt_of_several_passes_is_computed_between_the_steps_of_an_answer():
    # alone: 250 tokens are three passes of 100
    assert_seen(seen(Arrivals(1, users=1, is_burst=True), isl=250.0), [(0, 9.75, 1, 12.75)])


def test_the_host_launches_kernels_of_a_prompt_alone_and_while_others_decode():
    # ten seconds for the launches of a pass, and 3 for the pass itself
    engine = {"launch": 10.0 / float(prefill_pass(deployment(), 1.0, 50.0).launches)}
    # burst: 0.75 + 13; the second prompts: one alone, from 17.5 to 30.5; the other, launched
    # by 29.5 (2 of them since it arrives as another still decodes), beside its decode, 1 + 3
    expected = [(0, 13.75, 1, 16.75), (0, 13.75, 1, 16.75), (0, 13.75, 2, 19.75), (1, 17.75, 1, 20.75)]
    assert_seen(seen(Arrivals(4, users=2, is_burst=True), engine), expected)


def test_prefixes_load_one_after_the_other_before_their_prompts():
    # 25 of 50 tokens are loaded in 4 s: two users' one after the other, at 4.75 and 8.75
    nbytes = 25 * 131072
    cache = PromptCache(tier="nvme", bandwidth=nbytes / 4.0, hit=1.0)
    found = seen(Arrivals(2, users=2, is_burst=True), prefix=25.0, cache=cache)
    # the first: 4.75 + 3, three steps until 10.75, of which the second at 8.75 holds the other's prompt
    assert_seen(found, [(0, 7.75, 2, 13.75), (0, 12.75, 1, 15.75)])


def test_trace_and_law_are_drawn_as_they_are():
    rows = Lengths(Spread(TRACE, 0.5), Spread(TRACE, 0.5), rows=((2.0, 0.25), (2.0, 0.25)))
    found = seen(Arrivals(2, users=1, is_burst=True, lengths=rows))
    assert [(ttft, e2el) for _, ttft, _, e2el in found] == [(3.75, 3.75)] * 2  # a single token; 100 fill the pass
    long = Lengths(Spread(TRACE, 0.5), Spread(TRACE, 0.5), rows=((2.02, 0.5), (2.02, 0.5)))
    assert_seen(seen(Arrivals(1, users=1, is_burst=True, lengths=long)), [(0, 6.75, 1, 7.75)])
    uniform = lengths_by_law(UNIFORM, 0.5, 0.5)
    assert len(seen(Arrivals(50, users=1, is_burst=True, lengths=uniform), isl=1.0)) == 50  # no prompt is empty


def test_steps_of_an_answer_are_drawn_by_what_is_kept_of_the_proposals():
    def on(*rates):
        return SimpleNamespace(draft=SimpleNamespace(acceptance=SimpleNamespace(rates=rates)))

    never, always = Random(1), Random(1)
    assert drawn_steps(7, on(1.0, 1.0), always) == 3  # three tokens a step, and one is left
    assert drawn_steps(7, on(1.0, 0.0), never) == 4
    assert drawn_steps(7, on(0.0, 1.0), never) == 7  # what follows a refused one counts for nothing
    assert drawn_steps(7, SimpleNamespace(draft=None), never) == 7
    # half of the steps gain two: 10,000 tokens take two thirds as many steps, to 1 %
    assert drawn_steps(10_000, on(0.5), Random(1)) == pytest.approx(10_000 / 1.5, rel=0.01)


def test_users_begin_spread_over_an_answer_of_an_idle_server():
    # three seconds of a prompt and three steps: four users begin a second and a half apart
    server = server_of(deployment(), Workload(50.0, 4.0, Users(4.0)))
    sent = []

    class Beginning(_Simulation):
        def schedule(self, time, action, subject=None):
            sent.append(time)

        def first(self, requests):
            return []  # nothing else happens

    Beginning(server, server, Arrivals(1, users=4)).run()
    assert sent == pytest.approx([0, 1.5, 3, 4.5])


def test_tables_read_a_line_exactly_and_ask_for_nothing_but_nodes_once():
    asked = []
    table = _Table(lambda place: asked.append(place) or 3 * place + 2)
    assert [table[place] for place in (1.0, 37.3, 100.0, 1e6, 0.5)] == pytest.approx([5, 113.9, 302, 3e6 + 2, 3.5])
    assert [table[place] for place in (37.0, 5, 5.0)] == pytest.approx([113, 17, 17])
    assert len(asked) == len(set(asked))
    assert all(place == round(place) for place in asked)


# --- two pools -------------------------------------------------------------------------------------


def pooled(arrivals, bandwidth, layerwise=False, isl=50.0, osl=4.0, **engine):
    on = deployment(**engine)
    found = pools_simulated(Pools(on, on, KvLink("rdma", bandwidth, layerwise)), Workload(isl, osl), arrivals)
    return [(one.wait, one.ttft, one.tpot, one.e2el) for one in found]


def test_one_user_of_two_pools_waits_for_prompt_and_transfer_and_decodes_alone():
    whole = 50 * 131072
    # 0.75, 3 for the prompt, 2 for its cache
    assert_seen(pooled(Arrivals(2, users=1), whole / 2.0), [(0, 5.75, 1, 8.75)] * 2)
    # layer by layer a 32nd, or what is longer than the prompt but for its last layer: 4 - 31/32 of 3
    assert_seen(pooled(Arrivals(2, users=1), whole / 2.0, layerwise=True), [(0, 3.75 + 2 / 32, 1, 6.75 + 2 / 32)] * 2)
    shown = 4 - 31 / 32 * 3
    assert_seen(pooled(Arrivals(1, users=1), whole / 4.0, layerwise=True), [(0, 3.75 + shown, 1, 6.75 + shown)])
    later = pooled(Arrivals(1, users=1), whole / 2.0, handover=5.0)  # once the cache is there
    assert_seen(later, [(0, 10.75, 1, 13.75)])
    single = pooled(Arrivals(2, users=1), whole / 2.0, osl=1.0, handover=5.0)
    assert [(wait, ttft, e2el) for wait, ttft, _, e2el in single] == [(0, 3.75, 3.75)] * 2


def test_a_prompt_of_several_passes_is_computed_before_its_cache_moves():
    assert_seen(pooled(Arrivals(1, users=1), 250 * 131072 / 2.0, isl=250.0), [(0, 11.75, 1, 14.75)])


def test_users_of_two_pools_whose_decode_rank_has_one_slot_take_turns():
    # two users of an infinite link: a request decodes for 60 s, 3.75 s after it is sent, or behind the other one.
    # Who asks again while the other decodes waits until those 60 s are over.
    for limits in ({"max_num_seqs": 1}, {}):
        on = deployment(**limits)
        small = on if limits else replace(on, gpu=replace(GPU, memory=memory_of(1, 81.0)))
        found = pools_simulated(Pools(on, small, KvLink("given", inf)), Workload(20.0, 61.0), Arrivals(4, users=2))
        assert [one.e2el for one in found] == pytest.approx([120.0] * 4)
        assert [one.ttft for one in found] == pytest.approx([60.0] * 4)
        assert [one.wait for one in found] == pytest.approx([0.0] * 4)


def test_answers_of_two_pools_that_decode_together_take_as_long_as_alone():
    # steps of one second whoever runs; a request that comes within a step waits for its end
    on = deployment()
    found = pools_simulated(Pools(on, on, KvLink("given", inf)), Workload(50.0, 31.0), Arrivals(6, users=2))
    assert [one.tpot for one in found] == pytest.approx([1.0] * 6)
    assert all(3.75 <= one.ttft < 4.75 for one in found)  # who only computes prompts decodes nobody


def test_no_prompt_of_two_pools_is_empty():
    uniform = lengths_by_law(UNIFORM, 0.5, 0.0)
    found = pooled(Arrivals(40, users=1, lengths=uniform), 131072.0, isl=1.0)
    # one or two tokens, of which each moves in a second
    assert {round(ttft, 6) for _, ttft, _, _ in found} <= {4.75, 5.75}


# --- many steps at once, the start, and how sure a mean is ------------------------------------------


class Counting(_Simulation):
    """Counts what ranks begin."""

    begun = 0

    def begin(self, now, rank):
        self.begun += 1
        super().begin(now, rank)


class Stepping(Counting):
    """One decode step after the other."""

    def begin(self, now, rank):
        super().begin(now, rank)
        if rank.steps > 1:
            rank.steps, rank.ends = 1, now + rank.time(1)
            if self.pools is not None:
                self.schedule(rank.ends, self.end, rank)


def assert_alike(found, expected):
    """Requests to the last digits, gaps to the width of a bin; how many, but for those of who still runs."""
    for one, other in zip(found, expected, strict=True):
        assert one[:5] == pytest.approx(other[:5], rel=1e-9, abs=1e-9)
    gaps, steps = (sum(sum(one.gaps.values()) for one in each) for each in (found, expected))
    assert gaps == pytest.approx(steps, rel=0.01)
    times, each = simulated_latencies(found), simulated_latencies(expected)
    assert times["itl"] == pytest.approx(each["itl"], rel=1e-9)
    for level in ("itl_p50", "itl_p90", "itl_p95", "itl_p99"):
        assert times[level] == pytest.approx(each[level], rel=0.003)


CASES = {
    "random": {"request_rate": 8.0, "isl_cv": 0.5, "osl_cv": 0.8, "engine": "vllm"},
    "prompts first": {"request_rate": 8.0, "engine": "sglang"},
    "users": {"concurrency": 12, "max_num_seqs": 5, "engine": "vllm"},
    "drafts": {"request_rate": 8.0, "draft": "eagle", "draft_tokens": 3, "acceptance": 0.7},
}


@each("load", CASES.values(), ids=CASES.keys())
def test_many_decode_steps_at_once_end_when_one_after_the_other_does(load):
    found = rl.predict("llama-3.1-8b", "h100:tp1", isl=900, osl=120, **load)
    server, workload = server_of(found.deployment, found.workload), found.workload
    arrivals = Arrivals(200, workload.load.rate_on(1.0), int(load.get("concurrency", 1)), seed=3)
    at_once, stepped = (loop(server, server, arrivals) for loop in (Counting, Stepping))
    assert_alike(at_once.run(), stepped.run())
    assert at_once.begun < stepped.begun / 2.0  # events


def test_answers_of_two_pools_end_when_one_step_after_the_other_does():
    on = rl.predict("llama-3.1-8b", "h100:tp1", isl=900, osl=120, request_rate=1e-3).deployment
    pools, workload = Pools(on, replace(on, replicas=2), KvLink("rdma", 2e10)), Workload(900.0, 120.0)
    servers = (server_of(on, replace(workload, osl=1.0)), server_of(pools.decode, workload))
    arrivals = Arrivals(200, 8.0, seed=3)
    at_once, stepped = (loop(*servers, arrivals, None, pools) for loop in (Counting, Stepping))
    assert_alike(at_once.run(), stepped.run())
    assert at_once.begun < stepped.begun / 2.0


def answered(*times, answer=2.0):
    return [Finished(time, answer, time + answer, 0.0) for time in times]


def test_the_start_is_what_is_unlike_the_rest():
    noise = Random(1)
    steady = [1.0 + noise.random() for _ in range(400)]
    assert warm_up(answered(*steady)) <= 40
    assert 60 <= warm_up(answered(*[9.0] * 60, *steady)) <= 80
    assert warm_up(answered(*[1.0] * 100)) == 0
    assert warm_up(answered(*[1.0] * 100), 30) == 30
    assert warm_up(answered(*[1.0] * 4)) == 0  # no batch
    assert warm_up(answered(*[9.0] * 90, *[1.0] * 10)) <= 50  # at most half


def test_the_interval_of_a_mean_is_that_of_batches_of_requests():
    noise = Random(1)
    independent = [noise.gauss(1.0, 0.2) for _ in range(4000)]
    widths = half_widths(answered(*independent))
    assert widths["ttft"] == pytest.approx(1.96 * 0.2 / 4000**0.5, rel=0.4)
    assert widths["e2el"] == pytest.approx(widths["ttft"])
    assert widths["tpot"] == 0.0
    slow = [independent[place // 400] for place in range(4000)]  # two batches are alike
    assert half_widths(answered(*slow))["ttft"] > 10 * widths["ttft"]
    assert half_widths(answered(*independent[:39])) == {}
    assert set(half_widths(answered(*independent, answer=float("nan")))) == {"ttft"}
    assert simulated_latencies(answered(1.0, 2.0, 6.0))["ttft"] == pytest.approx(3.0)
    assert simulated_latencies(answered(1.0, 2.0, 6.0))["ttft_p50"] == 2.0


def test_near_saturation_more_requests_are_counted_until_means_are_known():
    case = {"isl": 1000, "osl": 20, "tp": 1}
    most = rl.predict("llama-3.1-8b", "h100", request_rate=1.0, **case).max_request_rate
    calm, busy = (rl.simulate("llama-3.1-8b", "h100", request_rate=share * most, **case) for share in (0.3, 0.75))
    assert calm.requests == 4000 < busy.requests
    for found in (calm, busy):
        for name, (low, high) in found.intervals.items():
            assert low < getattr(found, name) < high <= 1.06 * getattr(found, name)
    assert busy.to_dict()["simulated_ttft_low_ms"] == 1e3 * busy.intervals["ttft"][0]
    assert "95 % intervals of means: TTFT +-" in str(busy)
    run = rl.simulate("llama-3.1-8b", "h100", concurrency=8, num_prompts=80, **case)
    assert run.intervals == {}
    assert run.to_dict()["simulated_ttft_low_ms"] is None


@each(("case", "said"), [
    ({"concurrency": 1e6}, "a simulation of 2e+07 requests of 1e+06 users takes about 1.1e+08 events"),
    ({"concurrency": 1e6}, " events, more than 1e+07; give fewer requests"),
    ({"concurrency": 1e6}, "; give fewer requests (`requests`) or users, or more GPUs"),
    ({"request_rate": 1.0, "requests": 10_000_000}, "of 1e+07 requests takes about 5.1e+07 events"),
    ({"request_rate": 0.001, "isl": 100_000, "max_num_batched_tokens": 8, "osl": 5}, "give fewer requests"),
])  # fmt: skip
def test_what_would_take_too_long_is_refused_before_it_starts(case, said):
    with pytest.raises(rl.BadInput) as refused:
        rl.simulate("llama-3.1-8b", "h100:tp1", **case)
    assert said in str(refused.value)


def test_very_long_answers_are_no_more_work():
    found = rl.simulate("llama-3.1-8b", "h100", isl=1000, osl=100_000, request_rate=1e-4, requests=100)
    assert found.ratio("tpot") == pytest.approx(1.0, abs=0.03)
