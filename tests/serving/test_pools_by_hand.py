"""Two pools of made-up ranks: passes over prompts as a chain of Markov, one-by-one queues, links, and their sum."""

from math import exp, factorial
from types import SimpleNamespace

import numpy as np
import pytest
from made_up_rank import Rank, rank

from roofline.physics.plan import Plan
from roofline.serving.latency import Lengths, Spread, Workload
from roofline.serving.load import pools as module
from roofline.serving.load.equations import queue_wait
from roofline.serving.load.pools import KvLink, PromptRank, prompt_queue
from roofline.serving.load.server import Prompt, PromptNode
from roofline.specs.load import Rate, Users

#: A pass takes 18 and 0.12 a token: 18 and 6 for each prompt of 50; 30 on an idle rank, where the host launches it.
PROMPT = Prompt(50.0, attention=1.0, head=1.6, alone=30.0)
HALF_AND_HALF = PROMPT._replace(nodes=(PromptNode(0.5, 25.0, 0.5, 27.0), PromptNode(0.5, 75.0, 1.5, 33.0)))


def prefill_rank(budget=203, prompt=PROMPT, **options):
    return PromptRank(rank(max_num_batched_tokens=budget, **options), prompt)


def chain(rate, lengths=(6.0,)):
    """Moments of passes that take all that came during the last one, and the share of prompts that find none running.

    Prompts take one of the lengths, alike; the states are their numbers in a pass, up to forty.
    """
    most = 40
    times = [18.0 + 6.0 * max(number, 1) for number in range(most)]
    times[0] = 30.0  # nobody came: the next prompt finds the rank idle
    come = np.array([[exp(-rate * time) * (rate * time) ** k / factorial(k) for k in range(most)] for time in times])
    share = np.ones(most) / most
    for _ in range(200):
        share = share @ come
    mean = share @ times
    idle = share[0] / (rate * mean + share[0])
    return mean, share @ np.square(times), share @ np.power(times, 3), idle


@pytest.mark.parametrize("rate", [1 / 100, 1 / 40])
def test_prompts_that_wait_are_computed_together_as_a_chain_of_markov_has_it(rate):
    found = prompt_queue(prefill_rank(2030), rate)
    mean, square, cube, idle = chain(rate)
    m, load = square / mean, 6 * rate
    assert found.idle == pytest.approx(idle, rel=1e-9)
    assert found.wait == pytest.approx(m / 2 + load * m, rel=1e-9)  # the pass that runs, and who came before in it
    moment = cube / mean * (1 / 3 + load + load**2) - (m / 2 + load * m) ** 2 + rate * 36 * m
    assert found.variance == pytest.approx(moment, rel=1e-9)
    assert found.mates == pytest.approx(rate * m, rel=1e-9)
    assert (found.alone, found.own, found.each, found.fixed) == pytest.approx((30.0, 24.0, 6.0, 18.0))
    assert found.stage == pytest.approx(idle * 30 + (1 - idle) * (24 + m / 2 + load * m), rel=1e-9)
    full = (18 + 0.12 * 2030) * 50 / 2030
    assert (found.util, found.max_rate) == pytest.approx((rate * full, 1 / full))
    half = prompt_queue(prefill_rank(2030), rate, 0.5)
    assert (half.wait, half.idle) == pytest.approx((0.5 * found.wait, found.idle))


def test_prompts_of_two_lengths_make_passes_of_the_same_mean_and_a_larger_square():
    even, uneven = (prompt_queue(prefill_rank(2030, prompt), 1 / 100) for prompt in (PROMPT, HALF_AND_HALF))
    # 3 or 9 each: a mean square of 45 in the place of 36, so that E[Y^2] grows by 9 (l E[Y] + pi_0)/(1 - rho^2)
    mean, square, _, idle = chain(1 / 100)
    nobody = idle * mean / 100 / (1 - idle)
    more = 9 * (mean / 100) / (1 - 0.06**2)  # one on an idle rank takes 30 in either case
    assert uneven.idle == pytest.approx(even.idle, rel=1e-12)
    m = (square + more + 9 * nobody / (1 - 0.06**2)) / mean
    assert uneven.wait == pytest.approx(m / 2 + 0.06 * m, rel=1e-9)


def test_where_a_pass_takes_one_prompt_they_wait_as_in_m_g_1_whose_first_service_is_another():
    rate = 1 / 40
    found = prompt_queue(prefill_rank(50), rate)
    empty = (1 - 24 * rate) / (1 + 6 * rate)
    line = queue_wait(rate, 24.0, 576.0) + rate * (900 - 576) / (2 * (1 + 6 * rate))
    behind = line / (1 - empty)
    square = (2 * line**2 + rate * 24**3 / (3 * (1 - 24 * rate))) / (1 - empty)
    assert (found.idle, found.own, found.mates) == pytest.approx((empty, 24.0, 0.0))
    assert (found.wait, found.variance) == pytest.approx((behind, square - behind**2))
    assert found.max_rate == pytest.approx(1 / 24)
    half = prompt_queue(prefill_rank(50), rate, 0.5)
    assert (half.wait, half.idle) == pytest.approx((behind / 2, empty))
    uneven = prompt_queue(prefill_rank(100, HALF_AND_HALF), rate)
    assert uneven.alone == pytest.approx(30.0)


def test_between_both_prompts_that_find_room_share_a_pass_and_others_end_in_the_next():
    # room for a prompt and a half; a full pass of 75 tokens takes 27, 18 a prompt: 3/4 of one by one
    rate = 1 / 40
    found = prompt_queue(prefill_rank(75), rate)
    used = 18 * rate
    gain = min(1 - used / 4, 0.75 * (1 + (1 - used) / 2))
    each = 24 * gain
    empty = (1 - each * rate) / (1 + rate * (30 - each))
    line = queue_wait(rate, each, each**2) + rate * (900 - 576) / (2 * (1 + rate * (30 - each)))
    behind = line / (1 - empty)
    later = rate * behind  # prompts behind one's own, for which half a prompt of room is left
    fill = later * 0.5 / (later + 0.5)
    square = (2 * line**2 + rate * each**3 / (3 * (1 - each * rate))) / (1 - empty)
    mean, second, cube, idle = chain(rate)
    m, load = second / mean, 6 * rate
    share = 0.5 / (rate * m + (rate * m) ** 0.5)
    assert 0 < share < 1
    together, alone = m / 2 + load * m, behind + each * fill
    assert found.wait == pytest.approx(share * together + (1 - share) * alone, rel=1e-9)
    assert found.idle == pytest.approx(share * idle + (1 - share) * empty, rel=1e-9)
    assert (found.own, found.mates) == pytest.approx((24.0, share * rate * m))
    swing = square - behind**2 + each**2 * fill
    moment = cube / mean * (1 / 3 + load + load**2) - together**2 + rate * 36 * m
    variance = share * moment + (1 - share) * swing + share * (1 - share) * (together - alone) ** 2
    assert found.variance == pytest.approx(variance, rel=1e-9)
    assert found.max_rate == pytest.approx(1 / 18)


def test_a_prompt_of_two_passes_shares_none_of_them():
    # 25 tokens a pass, 21 s: a prompt takes two, and no second one finds room
    rate = 1 / 80
    found = prompt_queue(prefill_rank(25), rate)
    assert (found.own, found.mates, found.max_rate) == pytest.approx((42.0, 0.0, 1 / 42))
    assert found.idle == pytest.approx((1 - 42 * rate) / (1 + rate * max(30 - 42, 0)))


def test_what_a_further_prompt_adds_is_taken_over_as_many_as_come_together():
    class Curved(Rank):
        def linear(self, sequences, prompt):
            return 10.0 + prompt**2 / 10_000

    found = prompt_queue(PromptRank(Curved(rank(max_num_batched_tokens=2030).deployment, 50.0, 101.0), PROMPT), 1 / 40)
    together = 1 + found.mates + found.mates**0.5
    assert together > 2
    one, many = (10 + (tokens - 1) ** 2 / 10_000 + tokens / 50 for tokens in (50, 50 * together))
    assert found.each == pytest.approx((many - one) / (together - 1), rel=1e-9)


def test_ranks_of_a_worker_that_compute_together_slow_each_other_down():
    class Together(Rank):
        def linear(self, sequences, prompt):
            return super().linear(sequences, prompt) * self.users

    base = rank()
    deployment = SimpleNamespace(**{**vars(base.deployment), "plan": Plan(dp=2)})
    both = PromptRank(Together(deployment, 50.0, 101.0), PROMPT)
    # 12.4 and a tenth of each token for one rank, twice as much for two
    assert both.pass_time(50.0, 1.0, 1.0) == pytest.approx(17.4 + 1 + 1.6 + 4)
    assert both.pass_time(50.0, 1.0, 2.0) == pytest.approx(34.8 + 1 + 1.6 + 4)
    node = PromptNode(1.0, 406.0, 3.0, 100.0)  # two chunks of 203, of 32.7 each
    assert both.alone(node, 2.0) == pytest.approx(100 + 2 * 32.7)
    assert both.alone(node, 1.0) == 100.0
    assert both.follow(node, 2.0) == pytest.approx(2 * (2 * 32.7 + 1.5 + 1.6 + 4))
    assert prefill_rank().alone(node, 2.0) == 100.0


# --- both pools ------------------------------------------------------------------------------------

SENDERS, RECEIVERS = 3, 2


@pytest.fixture
def made_up(monkeypatch):
    """Three ranks that compute prompts, two that decode; a prompt of 50 tokens moves in 10 s."""
    model, lengths = SimpleNamespace(layers=4), []
    prefill, decode = (
        SimpleNamespace(**{**vars(rank().deployment), "replicas": replicas, "model": model})
        for replicas in (SENDERS, RECEIVERS)
    )

    def server_of(deployment, workload):
        others = {"lengths": (lengths or [Lengths()])[0], "cold_start": workload.cold_start}
        return Rank(deployment, workload.isl, workload.osl, **others)

    monkeypatch.setattr(module, "server_of", server_of)
    monkeypatch.setattr(module, "kv_transfer_time", lambda pools, tokens: tokens / 5.0)
    monkeypatch.setattr(module, "prompt_rank", lambda server: PromptRank(server, PROMPT))
    return SimpleNamespace(prefill=prefill, decode=decode, link=KvLink("rdma", 1.0), lengths=lengths)


def line(rate, each_time, part):
    """Mean and variance of the wait of a part of the requests for others that take as long."""
    wait = rate * each_time**2 / (2 * (1 - rate * each_time))
    square = 2 * wait**2 + rate * each_time**3 / (3 * (1 - rate * each_time))
    return part * wait, part * square - (part * wait) ** 2


def transfer(rate, queue):
    """Wait for the links and its variance, of 10 s each."""
    there, swing = line(rate / RECEIVERS, 10.0, 1 - 1 / SENDERS)
    held = 10 + there
    here, more = line(rate / SENDERS, held, max(1 - queue.each / held, 0))
    mates = (1 - queue.idle) * queue.mates / 2 * held
    return there + here + mates, swing + more + mates * held


def test_the_time_to_first_token_of_random_arrivals_is_the_sum_of_its_parts(made_up):
    rate = 1 / 500
    found = module.pooled(made_up, Workload(50.0, 101.0, Rate(rate)))
    others = 0.5 / 0.9  # b = 100 (5 + b)/1000
    step = 5 + others
    queue = prompt_queue(prefill_rank(), rate / SENDERS)
    wait, _ = transfer(rate, queue)
    assert (found.others, found.tpot, found.decode) == pytest.approx((others, step, 100 * step))
    assert (found.batch, found.slots, found.waiting_share, found.slot_wait) == pytest.approx((1 + others, 64, 0, 0))
    assert found.prompt == pytest.approx(min(30.0, queue.stage))
    assert found.prompt_wait == pytest.approx(queue.stage - found.prompt)
    assert (found.transfer, found.transfer_wait) == pytest.approx((10.0, wait))
    assert found.step_wait == pytest.approx((1 - exp(-others)) * step / 2)
    busy = 1 - exp(-rate * 500)  # that anybody's answer is written
    assert found.ttft == pytest.approx(1.25 + 0.5 * busy + queue.stage + 10 + wait + found.step_wait)
    full = (18 + 0.12 * 203) * 50 / 203
    limits = SENDERS / full, 64 / 6800 * RECEIVERS, 2 / 10
    assert (found.max_prefill_rate, found.max_decode_rate, found.max_link_rate) == pytest.approx(limits)
    assert found.max_request_rate == pytest.approx(min(limits))
    assert found.concurrency == pytest.approx(rate * (found.ttft + found.decode))
    assert found.is_stable


def test_answers_of_one_token_are_prompts_alone(made_up):
    found = module.pooled(made_up, Workload(50.0, 1.0, Rate(1 / 500)))
    assert found.ttft == pytest.approx(1.25 + prompt_queue(prefill_rank(), 1 / 1500).stage)
    assert (found.transfer, found.step_wait, found.decode) == (0, 0, 0)
    assert found.max_link_rate == found.max_decode_rate == float("inf")


def test_users_are_all_somewhere_and_answers_go_to_the_emptiest_rank(made_up):
    users = 6.0
    found = module.pooled(made_up, Workload(50.0, 101.0, Users(users)))
    rate = found.request_rate
    assert rate * (found.ttft + found.decode) == pytest.approx(users, rel=1e-9)
    rest = rate * 5 / 6
    # b = (1 + l 100 (5 + b))/2 - 1, where l 100 (5 + b) others decode on both ranks
    others = max(((1 + rest * 500) / 2 - 1) / (1 - rest * 50), 0.0)
    assert found.others == pytest.approx(others, abs=1e-9)
    step = 5 + others
    queue = prompt_queue(prefill_rank(), rest / SENDERS)
    wait, _ = transfer(rate, queue)
    prompt_wait = (queue.stage - found.prompt) * (1 - queue.util / 2)  # two users a rank
    assert found.prompt_wait == pytest.approx(prompt_wait, rel=1e-9)
    busy = 1 - (1 - rate * 500 / 6) ** 5
    expected = 1.25 + 0.5 * busy + found.prompt + prompt_wait + 10 + wait + (1 - exp(-others)) * step / 2
    assert found.ttft == pytest.approx(expected, rel=1e-9)


def test_users_who_are_fewer_than_the_ranks_never_wait_for_each_other_as_random_arrivals_do(made_up):
    found = module.pooled(made_up, Workload(50.0, 101.0, Users(2.0)))
    queue = prompt_queue(prefill_rank(), found.request_rate / 2 / SENDERS)
    assert found.prompt_wait == pytest.approx((queue.stage - found.prompt) * (1 - queue.util), rel=1e-9)


def test_a_run_counts_its_burst_twice_over(made_up):
    # 60 of 240 requests begin together: half of them come in step, of whom half of 57 are before one's own prompt
    steady, run = (module.pooled(made_up, Workload(50.0, 101.0, Users(60.0, number))) for number in (None, 240.0))
    burst = 0.5 * 57 / (2 * steady.max_prefill_rate)
    queue = prompt_queue(prefill_rank(), run.request_rate * 59 / 60 / SENDERS)
    wait = (queue.stage - run.prompt) * (1 - queue.util / 20)
    assert run.prompt_wait == pytest.approx(0.5 * wait + burst, rel=1e-9)
    assert run.request_rate < steady.request_rate


def test_distributions_of_random_arrivals_add_the_waits_of_their_parts(made_up):
    made_up.lengths.append(Lengths(prompts=Spread(cv=0.4, slices=((0.25, 0.6), (0.75, 1.4)))))
    rate = 1 / 500
    workload = Workload(50.0, 101.0, Rate(rate), cold_start=(0.5, 8.0))
    means = module.pooled(made_up, workload)
    found = module.pool_tails(made_up, workload, means)
    others = 0.5 / 0.9
    step, nobody = 5 + others, exp(-others)
    queue = prompt_queue(prefill_rank(), rate / SENDERS)
    wait, swing = transfer(rate, queue)
    late = (1 - nobody) * step / 2 + wait
    swing += step**2 * ((1 - nobody) / 3 - ((1 - nobody) / 2) ** 2)
    arrival = 0.5 * (1 - exp(-rate * 500))
    expected = []
    for weight, tokens in ((0.25, 30.0), (0.75, 70.0)):
        attention = tokens**2 / 2500
        alone = 13.6 + tokens / 10 + attention
        among = 18 + 5 * tokens / 50 + attention
        before = 1.25 + arrival + tokens / 5
        expected.append((weight * queue.idle, before + alone, late, swing))
        expected.append((weight * (1 - queue.idle), before + among, late + queue.wait, swing + queue.variance))
    warm, cold = found.ttft[:4], found.ttft[4:]
    for one, other, values in zip(warm, cold, expected, strict=True):
        assert tuple(one)[:4] == pytest.approx((0.5 * values[0], *values[1:]), rel=1e-9)
        assert tuple(other)[:4] == pytest.approx((0.5 * values[0], values[1] + 8, *values[2:]), rel=1e-9)
    (answers,) = found.tpot
    number = others / (1 - others / step)
    assert answers.least == pytest.approx(min(4 + max(1 + others - 4 * number**0.5, 1), 0.98 * step))
    company = number * (1 - (1 - others / step) / 3)
    assert (answers.least + answers.mean, answers.variance) == pytest.approx((step, company), rel=1e-9)


def test_distributions_of_users_swing_no_further_than_those_who_do_not_decode(made_up):
    users = 6.0
    workload = Workload(50.0, 101.0, Users(users))
    means = module.pooled(made_up, workload)
    found = module.pool_tails(made_up, workload, means)
    rate = means.request_rate
    rest = rate * 5 / 6
    queue = prompt_queue(prefill_rank(), rest / SENDERS)
    wait, swing = transfer(rest, queue)
    step, nobody = 5 + means.others, exp(-means.others)
    late = (1 - nobody) * step / 2 + wait
    swing += step**2 * ((1 - nobody) / 3 - ((1 - nobody) / 2) ** 2)
    # prompts behind others take 24 and their wait, those of an idle rank 30; all of them the mean
    waited = min((means.prompt + means.prompt_wait - queue.idle * 30) / (1 - queue.idle) - 24, queue.wait)
    variance = min(queue.variance, (1 + rate * means.decode) / rate**2 + (2 / 3) / 3 * waited**2)
    arrival = 0.5 * (1 - (1 - rate * 500 / 6) ** 5)
    idle, among = found.ttft
    own = 1.25 + arrival + 10
    assert tuple(idle)[:4] == pytest.approx((queue.idle, own + 13.6 + 5 + 1, late, swing), rel=1e-9)
    assert tuple(among)[:4] == pytest.approx((1 - queue.idle, own + 24, late + waited, swing + variance), rel=1e-9)
