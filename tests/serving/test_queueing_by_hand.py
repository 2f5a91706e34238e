"""One round of the equations of a load at round numbers, what a rank can serve, and waits for a slot and for a link.

Worked out from docs/method.md, "A server under load". The rank is made up: its times are straight lines in the
sequences that decode and in the tokens of prompts.
"""

from math import comb, exp, expm1, fsum, lgamma, log
from types import SimpleNamespace

import pytest
from every_case import each
from made_up_rank import PROMPTS_FIRST, prompt_of_length, rank

from roofline.physics.plan import Plan
from roofline.serving.latency import Lengths, Spread
from roofline.serving.load.equations import Saturation, saturation, slot_wait
from roofline.serving.load.rounds import (
    Run,
    _arrival_of_all,
    _gathered,
    _way_back,
    idle_time,
    meeting,
    over_all_answers,
    over_answers,
    queue_wait,
    step_of_answer,
)
from roofline.serving.load.server import PromptNode, added, added_by_node, link_rate, link_wait, prompt_of, turns
from roofline.serving.prompts import PromptKind

exactly_each = lambda numbers: pytest.approx(tuple(numbers), rel=1e-12, abs=1e-12)  # noqa: E731
exactly = lambda number: pytest.approx(number, rel=1e-12, abs=1e-12)  # noqa: E731


def matches(met, **expected):
    assert {name: getattr(met, name) for name in expected} == pytest.approx(expected, rel=1e-12, abs=1e-12)


def late(others, share=0.0):
    """Half a second for the root of the number that decodes, whose mean this is: each of them with a chance `share`."""
    return 0.5 * others / (others + (1 - share) * (1 / 4 + 3 / 4 * exp(-0.6 * (others - share)))) ** 0.5


# --- what a prompt adds, and in how many steps ---------------------------------------------------


def test_a_prompt_adds_its_part_of_the_matrices_its_attention_and_its_part_of_what_a_pass_costs():
    # 50 of 100 tokens: half of 10 + 100/10, and 1 of attention, twice as slow among others; half of the 4 a pass costs
    assert added(rank(), prompt_of_length(50), 4.0, 4.0, 100.0, 50.0, 1.0) == exactly(2 * (10 + 1) + 2)
    first = rank(scheduler=PROMPTS_FIRST)
    # alone: half of 2 + 1/2 + 10 + 99/10 and of a head of 1.6, and 1 of attention
    shared = 22.4 + 1.6
    assert added(first, prompt_of_length(50), 4.0, 0.0, 100.0, 50.0, 1.0) == exactly(2 * (shared / 2 + 1) + 2)
    # the host launches kernels for 60 of every pass
    slow = prompt_of_length(50)._replace(launches=60.0)
    assert added(first, slow, 4.0, 0.0, 100.0, 50.0, 1.0) == exactly(60 / 2 + 2)


def test_a_prompt_of_another_length_adds_its_share_of_the_tokens_and_its_own_attention():
    mean, node = prompt_of_length(50), PromptNode(0.5, 75.0, 3.0, 1.0)
    # the mean one adds 24: 12 where nothing is slowed down, of which 1 is attention; 11 x 75/50 + 3, twice as slow
    assert added_by_node(rank(), mean, 24.0, node) == exactly(2 * (16.5 + 3))


@each(
    ("length", "room", "others", "steps"),
    [
        (50.0, 200.0, 3.0, 1.0),  # a quarter of a step is a whole one
        (500.0, 200.0, 3.0, 3.0),  # what is left over is well beyond the blur, (4^0.5/200) 2.5 + 0.002
        (402.0, 200.0, 3.0, 2.0 + 0.01 / (0.01 * 2.01 + 0.002)),  # and here within it
        (400.0, 200.0, 0.0, 2.0),
        (300.0, 200.0, 1e9, 1.5),  # the blur is a whole step at most
    ],
)
def test_a_prompt_takes_whole_steps_and_one_more_for_what_is_left_over(length, room, others, steps):
    assert turns(length, room, others) == exactly(steps)


def test_the_mean_prompt_is_the_mean_over_the_lengths():
    spread = Lengths(prompts=Spread(cv=0.5, nodes=((0.25, 0.5), (0.75, 1.5))))
    found = prompt_of(rank(isl=100.0, lengths=spread))
    # 50 and 150 tokens: attention 50^2/2500 = 1 and 9, alone 13.6 + 1 and 13.6 + 9 and a tenth of each token
    assert found.length == 100.0
    assert [tuple(node) for node in found.nodes] == [(0.25, 50.0, 1.0, 19.6), (0.75, 150.0, 9.0, 37.6)]
    assert found.attention == exactly((1 + 3 * 9) / 4)
    assert found.alone == exactly((19.6 + 3 * 37.6) / 4)
    assert found.mean(lambda node: node.length) == 125.0


def test_a_prompt_that_finds_nobody_waits_behind_other_prompts_by_welchs_queue():
    mean = prompt_of_length(50)  # 20 alone
    # 24 behind others, at 1/96: 24^2/96 / (2 (1 - 1/4)); the first of a busy period takes 20
    follow, begin = 6 / 1.5, (400 - 576) / 96 / (2 * (1 - 4 / 96))
    assert idle_time(mean, 1 / 96, 24.0) == exactly(20 + follow + begin)
    assert idle_time(mean, 1 / 96, 24.0, 600.0) == exactly(20 + 6.25 / 1.5 + (400 - 600) / 96 / (2 * (1 - 4 / 96)))
    # saved is half of the time at most: 1/10 of 20 - 30 is -1
    assert idle_time(mean, 1 / 40, 60.0) == exactly(
        20 + queue_wait(1 / 40, 60.0, 3600.0) + (400 - 3600) / 40 / (2 * (1 - 0.5))
    )
    nodes = (PromptNode(0.5, 25.0, 0.0, 10.0), PromptNode(0.5, 75.0, 0.0, 30.0))
    uneven = mean._replace(nodes=nodes)  # mean square 500 alone
    assert idle_time(uneven, 1 / 96, 24.0, 600.0) == exactly(20 + 6.25 / 1.5 + (500 - 600) / 96 / (2 * (1 - 4 / 96)))


# --- what the host adds while others decode ---------------------------------------------------------


@each("others", [0.01, 0.1, 0.3, 1.0, 2.0, 5.0, 30.0, 500.0])
def test_a_request_begins_late_by_the_mean_root_of_a_poisson_number(others):
    counts = range(1, int(others + 12 * others**0.5 + 20))
    chances = [exp(count * log(others) - others - lgamma(count + 1)) for count in counts]
    mean = fsum(chance * count**0.5 for chance, count in zip(chances, counts, strict=True))
    assert rank().arrival(others, None) == pytest.approx(0.5 * mean, rel=0.004)


@each("users", [2, 3, 4, 8, 64])
@each("share", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_a_request_of_one_of_some_users_begins_late_by_the_mean_root_of_a_binomial_number(users, share):
    rest = users - 1
    chances = (comb(rest, count) * share**count * (1 - share) ** (rest - count) for count in range(users))
    mean = fsum(chance * count**0.5 for count, chance in enumerate(chances))
    assert rank().arrival(rest * share, float(users)) == pytest.approx(0.5 * mean, rel=0.013)


def test_who_finds_nobody_decoding_begins_at_once():
    assert (rank().arrival(0.0, None), rank().arrival(0.0, 1.0), rank().arrival(0.0, 8.0)) == (0.0, 0.0, 0.0)
    assert rank().arrival(1.0, 2.0) == exactly(0.5)  # the other user always decodes


# --- one round, decode first -----------------------------------------------------------------------


def test_a_round_of_random_arrivals_whose_prompts_leave_room():
    # D(4) = 8; room 203 - 3; 1/96 a second, 96 seen: with one more prompt n = 100 tokens
    met = meeting(rank(), prompt_of_length(50), 1 / 96, 3.0, 96.0, None)
    usual = 2 * ((10 + 10) / 2 + 1) + 4 / 2  # 24
    own = 2 * (10 + 5 + 1) + 4  # 36, in a step without others
    in_full = 2 * ((10 + 20) / 4 + 1) + 4 / 4 + 8 / 4  # 20, a quarter of full steps
    m = (8 * 8 * 0.75 / 8 + 2 * 8 * 0.25 + 24 * 24 / 96) / (1 - 1 / 16)  # (6 + 4 + 6) 16/15
    matches(met, plain=8, room=200, prompt=usual, in_full=in_full, rho=1 / 4, rho_chunks=20 / 96)
    matches(met, mean_step=8 / 0.75, seen=m, biased=m, wait=0.0)  # the budget's queue is shorter than the step's
    mine = 8 + own + m / 4
    first = m / 2 + mine
    idle = idle_time(prompt_of_length(50), 1 / 96, 24.0)
    nobody = exp(-3)
    stage = late(3) + (1 - nobody) * first + nobody * idle
    matches(met, nobody=nobody, idle=idle, stage=stage)
    back = ((1 - nobody) * mine + nobody * idle - 8 / 0.75) / 96
    matches(met, rounds=1 / (1 - 20 / 96), surge=24 * back / 0.75)
    step = 8 / 0.75 + 24 * back / 0.75 / 100 * (1 - exp(-100 * (1 - 20 / 96)))
    matches(met, step=step, decode=100 * step)


def test_a_round_of_random_arrivals_whose_prompts_take_several_steps():
    # 500 tokens and 10 of attention: 200 tokens of room, two steps and a half
    long = prompt_of_length(500)._replace(attention=10.0)
    met = meeting(rank(), long, 1 / 400, 3.0, 96.0, None)
    usual = 2 * ((10 + 20) * 2.5 + 10) + 4 * 2.5  # 180, however many come
    in_full = 180 + 8 * 2.5  # 200
    rho, rho_chunks = 180 / 400, 200 / 400
    m = (8 * (1 - rho) + 2 * 8 * rho + 180**2 / 400) / (1 - rho * rho)
    wait = 200**2 / 400 / (2 * (1 - rho_chunks)) - 180**2 / 400 / (2 * (1 - rho))  # 100 - 73.6
    matches(met, prompt=usual, in_full=in_full, rho=rho, rho_chunks=rho_chunks, seen=m, wait=wait)
    mine, extra = 8 + 180 + m * rho, wait + 2 * 8  # its third step is the last
    first = m / 2 + mine + extra
    idle, nobody = idle_time(long, 1 / 400, 180.0), exp(-3)
    matches(met, stage=late(3) + (1 - nobody) * first + nobody * idle, idle=idle)
    behind = ((1 - nobody) * (mine + extra) + nobody * idle) / 400
    back = behind - 8 / (1 - rho) / 400 * (1 + extra / (200 * 200 / 500))  # in a full step 80
    rounds = first / 400 * 2.5 / (1 - rho_chunks)
    assert rounds > 1 / (1 - rho_chunks)
    matches(met, rounds=rounds, surge=180 * back / (1 - rho))


def test_no_step_is_longer_than_one_that_takes_all_of_the_budget():
    # 24 of 26 seconds are prompts: 8 s would be 104, but 80 s compute the four prompts that a step has room for
    met = meeting(rank(), prompt_of_length(50), 1 / 26, 3.0, 26.0, None)
    rho = 24 / 26
    m = (8 * 8 / 80 + 2 * 8 * rho + 24 * 24 / 26) / (1 - rho * rho)
    matches(met, plain=8, prompt=24, rho=rho, mean_step=80, biased=m, longest=80)
    back = ((1 - exp(-3)) * (8 + 36 + m * rho + met.wait) + exp(-3) * met.idle - 80 * (1 + met.wait / 80)) / 26
    matches(met, surge=24 * back / (1 - rho), step=80, decode=8000)


def test_a_round_of_users_has_fewer_prompts_to_meet_and_begins_where_an_answer_ended():
    # 1.5 of 3 others decode: D(2.5) = 6.5, room 201.5; one in eight finds nobody
    met = meeting(rank(), prompt_of_length(50), 1 / 96, 1.5, 96.0, 4.0)
    usual, own = 24.0, 36.0
    square = 24 * 24 / 96 * 0.75
    m = (6.5 * 0.75 + 2 * 6.5 * 0.25 + square) * 16 / 15
    matches(met, plain=6.5, room=201.5, prompt=usual, rho=0.25, seen=m, nobody=1 / 8)
    begins_late = late(1.5, 1 / 2)  # a half of three; seven in eight find any
    before = 1.25 + begins_late * 8 / 7  # network, request, arrival
    begun, longer = 6.5 / 0.75 / 96, 6.5 + 24
    window = begun + before / 96 / 0.75
    share = min(longer / 96, 1 - exp(-window))
    assert share < longer / 96
    rest = share * (longer - before / 2) + (1 - share) * 6.5 / 2
    mates = share * min(longer / 96, window) + (1 - share) * 6.5 / 96
    first = rest + 6.5 + own + mates * usual
    idle = idle_time(prompt_of_length(50), 1 / 96, 24.0)
    matches(met, stage=begins_late + 7 / 8 * first + idle / 8)
    back = (7 / 8 * (6.5 + own + m / 4) + idle / 8 - 6.5 / 0.75) / 96
    matches(met, surge=24 * back / 0.75)


def test_a_user_who_asks_at_once_joins_the_next_step():
    at_once = rank(network=0.0, request=0.0, arrival=0.0)
    met = meeting(at_once, prompt_of_length(50), 1 / 96, 1.5, 96.0, 4.0)
    share = 1 - exp(-6.5 / 0.75 / 96)
    mates = share * 6.5 / 0.75 / 96 + (1 - share) * 6.5 / 96
    idle = idle_time(prompt_of_length(50), 1 / 96, 24.0)
    matches(met, stage=7 / 8 * (6.5 + 36 + 24 * mates) + idle / 8)


def test_users_wait_for_the_budget_as_seldom_as_prompts_leave_it():
    long = prompt_of_length(500)._replace(attention=10.0)
    met = meeting(rank(), long, 1 / 500, 3.0, 96.0, 7.0)
    rho, rho_chunks = 180 / 500, 200 / 500
    queue = 200**2 / 500 / (2 * 0.6) - 180**2 / 500 * (1 - rho) / (2 * (1 - rho))
    matches(met, rho_chunks=rho_chunks, wait=queue * 0.6, nobody=1 / 64)
    begins_late = late(3, 1 / 2)
    before = 1.25 + begins_late * 64 / 63  # after the end of an answer; prompts of a step and of that time
    window = (8 + before) / 500 / (1 - rho)
    share = 1 - exp(-window)
    mates = share * window + (1 - share) * 8 / 500
    rest = share * (188 - before / 2) + (1 - share) * 4
    extra = queue * 0.6 + 2 * 8
    idle = idle_time(long, 1 / 500, 180.0)
    stage = rest + 8 + 180 + mates * 180 + extra
    matches(met, stage=begins_late + 63 / 64 * stage + idle / 64)
    far = meeting(rank(request=1000.0), long, 1 / 500, 3.0, 96.0, 7.0)  # half of the step is left at least
    window = (8 / (1 - rho) + (before + 999) / (1 - rho)) / 500
    share = 188 / 500
    assert share < 1 - exp(-window)
    rest = share * 188 / 2 + (1 - share) * 4
    mates = share * 188 / 500 + (1 - share) * 8 / 500
    matches(far, stage=begins_late + 63 / 64 * (rest + 188 + mates * 180 + extra) + idle / 64)


def test_sequences_take_as_many_tokens_of_a_step_as_they_verify():
    checked = meeting(rank(queries=3.0), prompt_of_length(500)._replace(attention=10.0), 1 / 500, 3.0, 96.0, None)
    matches(checked, room=203 - 9)
    # 500 tokens are 2.577 steps of 194; of 388.97 the rest lies within the blur of 27 sequences
    within = meeting(rank(queries=3.0), prompt_of_length(388.97), 1 / 500, 3.0, 96.0, None)
    exact = 388.97 / 194
    taken = 2 + (exact - 2) / (28**0.5 / 194 * exact + 0.002)
    queue = within.in_full**2 / 500 / (2 * (1 - within.rho_chunks)) - within.prompt**2 / 500 / (2 * (1 - within.rho))
    m, idle, nobody = within.seen, within.idle, exp(-3)
    first = m / 2 + 8 + within.prompt + m * within.rho + queue + (taken - 1) * 8
    matches(within, wait=queue, stage=late(3) + (1 - nobody) * first + nobody * idle)


def test_sequences_that_take_the_whole_budget_leave_a_fiftieth_of_it():
    matches(meeting(rank(), prompt_of_length(2), 1e-6, 300.0, 1.0, None), room=203 / 50)


def test_lengths_that_differ_count_by_their_squares():
    spread = Lengths(prompts=Spread(cv=0.5, nodes=((0.5, 0.5), (0.5, 1.5))))
    uneven = rank(isl=500.0, lengths=spread)
    nodes = (PromptNode(0.5, 250.0, 5.0, 10.0), PromptNode(0.5, 750.0, 15.0, 30.0))
    mean = prompt_of_length(500)._replace(attention=10.0, nodes=nodes)
    met = meeting(uneven, mean, 1 / 400, 3.0, 96.0, None)
    # half of 180 and half as much again: attention is even here; in full steps 200 likewise
    rho, second = 0.45, (90**2 + 270**2) / 2
    m = (8 * (1 - rho) + 2 * 8 * rho + second / 400) / (1 - rho * rho)
    wait = (100**2 + 300**2) / 2 / 400 / (2 * 0.5) - second / 400 / (2 * (1 - rho))
    matches(met, prompt=180, rho=rho, seen=m, wait=wait)
    # 250 tokens take two steps, 750 four: exactly 1.25 and 3.75
    extra = wait + (3 - 1) * 8
    idle, nobody = idle_time(mean, 1 / 400, 180.0, second), exp(-3)
    first = m / 2 + 8 + 180 + m * rho + extra
    matches(met, idle=idle, stage=late(3) + (1 - nobody) * first + nobody * idle)


# --- one round, prompts first ----------------------------------------------------------------------
#
# k prompts of 50 tokens and 1 s of attention are a pass of 2 (14 + 5 k + k) + 4 = 32 + 12 k seconds, up to the 4.06
# prompts of the budget, 80.72 s.


def pass_of(prompt, tokens, slow=2):
    """Time of a pass; a single token reads no matrices here."""
    matrices = 12.4 + tokens / 10 if tokens > 1 else 2.5
    return max(slow * (matrices + 1.6 + prompt.attention * tokens / prompt.length), prompt.launches) + 4


def line_of_passes(prompt, count, slow=2):
    """alpha and beta: the line through passes of a standard deviation of a Poisson number less, and more."""
    room = 203 / prompt.length
    few, many = max(count - count**0.5, 1), max(count + count**0.5, 2)
    low, high = (
        pass_of(prompt, min(k, room) * prompt.length, slow) * max(k / room, 1) for k in (few, many)
    )  # beyond the budget full ones
    beta = min((high - low) / (many - few), low / few)
    return low - beta * few, beta


def passes_of_a_run(rate, alpha, beta, seen):
    """Until none arrived in the last one, where the prompts of a mean pass are Poisson."""
    prompts = (seen - alpha) / beta if seen > alpha else 0.0
    return exp(rate * alpha + prompts * (1 - exp(-rate * beta)))


def passes_after(rate, x, alpha, beta, run, once, full):
    """B and n, of which some request arrives in x before the first."""
    begun = 1 - exp(-rate * x)
    busy = (rate * x * beta + alpha * begun * run + begun * once) / (1 - rate * beta)
    return max(busy, rate * x * full / (1 - rate * full)), begun * run


def last_pass(prompt, rate, alpha, beta, alone, slow=2):
    """Time of the last pass of a run beyond that of full ones, over all and for one's own prompt."""
    only = exp(-rate * (alpha + beta))  # nobody else came
    partly = pass_of(prompt, 1, slow) ** 2 / (2 * pass_of(prompt, 203, slow)) - alpha
    once = only * max(alone - alpha - beta, 0) + (1 - only) * max(partly, 0)
    return once, only * once


def nearer(seen, rate, alpha, beta, k):
    """A mean pass of the next round: a longer one makes passes more, and takes so many prompts from each."""
    fewer = (1 - exp(-rate * beta)) * max(k - rate * alpha / (1 - rate * beta), 0)
    return seen + (alpha + beta * k - seen) / (1 + fewer)


def behind_a_stage(m, rate, alpha, beta, most, own):
    """From an arrival to the end of its pass, and of that the time of its passes."""
    q = min(1, most / (1 + rate * m))
    first = m / 2 + alpha + beta * (1 + rate * m * (1 + q) / 2) + own
    return first, q * (alpha + beta * (1 + rate * m) + own) + (1 - q) * first


def behind_who_finds_nobody(prompt, alone, rate, alpha, beta, run, once, full, square):
    """Mean over the first and those who come until no prompt waits: to the first token, and in passes; how many."""
    after, passes = passes_after(rate, alone, alpha, beta, run, once, full)
    both, k = alone + after, max(rate * (alone + after) / passes, 1)
    squares = sum(node.weight * node.alone**2 for node in prompt.nodes) or alone**2
    squares = squares + passes * alpha * (alpha + 2 * beta * k) + square * rate * both
    m = squares / both / (1 - (rate * beta) ** 2)
    first, window = behind_a_stage(m, rate, alpha, beta, 203 / prompt.length, 0)
    more = rate * both
    return (alone + more * first) / (1 + more), (alone + more * window) / (1 + more), 1 + more, k


def variance_of_passes(alpha, beta, square, prompts, begun, run):
    spread = max(begun * run * (2 * run - 1) - (begun * run) ** 2, 0)
    return alpha**2 * spread + 2 * alpha * beta * min(spread, prompts) + square * prompts


LONG = prompt_of_length(500)._replace(attention=10.0)
#: Half of 25 tokens, half of 75: 6 and 18 s of the 12, of which 1 and 3 of 2 x 2 are attention.
BOTH = prompt_of_length(50)._replace(nodes=(PromptNode(0.5, 25.0, 0.5, 10.0), PromptNode(0.5, 75.0, 1.5, 30.0)))
NEARLY = prompt_of_length(203.203)
SOME = 0.001 / (1 / 203 * 1.001 + 0.002)  # of a second pass, by the blur


@each(
    ("prompt", "rate", "seen", "line", "alone", "square"),
    [
        (prompt_of_length(50), 1 / 112, 50.0, (32, 12), 44, None),
        (prompt_of_length(50), 1 / 900, 44.0, (32, 12), 44, None),
        (prompt_of_length(50), 1 / 900, 900.0, (32, 12), 44, None),  # more passes than prompts
        (prompt_of_length(50), 1 / 40, 100.0, None, 44, None),  # the budget cuts the longer ones
        (prompt_of_length(50), 1 / 40, 300.0, (0, 80.72 / 4.06), 44, None),  # 8.5 are full passes only
        (prompt_of_length(50), 1 / 20.5, 20.0, (32, 12), 44, None),  # no fewer passes than the budget needs
        (BOTH, 1 / 112, 50.0, (32, 12), 44, (36 + 324) / 2),
        # 500 tokens: two full passes, and 94 tokens
        (LONG, 1 / 1000, 120.0, (0, 80.72 * 500 / 203), 2 * 80.72 + pass_of(LONG, 94), None),
        # 203.203 tokens now and then take another pass, for what is left
        (NEARLY, 1 / 1000, 0.0, (0, pass_of(NEARLY, 203) * 1.001),
         SOME * pass_of(NEARLY, 203) + pass_of(NEARLY, 203.203 - 203 * SOME), None),
    ],
)  # fmt: skip
def test_a_round_of_random_arrivals_that_decoding_pauses_for(prompt, rate, seen, line, alone, square):
    met = meeting(rank(scheduler=PROMPTS_FIRST), prompt, rate, 3.0, seen, None)
    alpha, beta = line or line_of_passes(prompt, 1 + rate * seen)
    assert (alpha, beta) == exactly_each(line_of_passes(prompt, 1 + rate * seen))
    square, most = square or beta**2, 203 / prompt.length
    full, (once, own) = pass_of(prompt, 203) / most, last_pass(prompt, rate, alpha, beta, alone)
    run = passes_of_a_run(rate, alpha, beta, seen)
    busy, n = passes_after(rate, 8, alpha, beta, run, once, full)
    mean, k = 8 + busy, max(rate * (8 + busy) / n, 1)
    m = (8 * 8 / mean + rate * (alpha**2 / k + 2 * alpha * beta + square)) / (1 - (rate * beta) ** 2)
    matches(met, plain=8, mean_step=mean, rho=busy / mean, together=k, fixed=alpha, each=beta, biased=m, room=203)
    matches(
        met,
        prompt=alpha / k + beta,
        seen=nearer(seen, rate, alpha, beta, k),
        in_full=full,
        rho_chunks=rate * full,
        rounds=0,
    )
    first, window = behind_a_stage(m, rate, alpha, beta, most, own)
    matches(met, wait=first - (alpha + beta * (1 + rate * m) + own))
    idle, later, number, _ = behind_who_finds_nobody(prompt, 20, rate, alpha, beta, run, once, full, square)
    nobody = exp(-rate * 800) * number
    nobody = nobody / (nobody + (1 - exp(-rate * 800)) * mean / 8)
    matches(met, idle=idle, nobody=nobody, stage=late(3) + (1 - nobody) * first + nobody * idle)
    window = (1 - nobody) * window + nobody * later
    others, _ = passes_after(rate, window, alpha, beta, run, once, full)
    matches(met, surge=others - busy, step=max(mean + (others - busy) / 100, 8))
    begun, followed = 1 - exp(-rate * 8), 1 - exp(-rate * window)
    matches(met, stalls=variance_of_passes(alpha, beta, square, rate * mean, begun, run) / (1 - rate * beta) ** 2)
    window = window + others
    surges = variance_of_passes(alpha, beta, square, rate * window, followed, run) / (1 - rate * beta) ** 2
    matches(met, surges=surges, gain=(1 + alpha * rate * exp(-rate * 8) * run) / (1 - rate * beta))


@each(
    ("matrices", "alpha", "beta"),
    [
        (lambda tokens: tokens**2 / 10, 0, 2 * (240.1 + 1.6 + 1)),  # the more, the longer for each: no part is fixed
        # beyond 55 tokens all but attention is free: the line through 2 and 6 prompts is above a prompt alone
        (lambda tokens: min(tokens, 54) / 5, 2 * (10.8 + 1.6), 2),
    ],
)
def test_passes_whose_matrices_do_not_grow_on_a_line(matrices, alpha, beta):
    bent = type("Bent", (type(rank()),), {"linear": lambda self, sequences, prompt: matrices(prompt)})
    few = rank(scheduler=PROMPTS_FIRST, prefill=0.0, max_num_batched_tokens=1000)
    rate, seen = (1e-9, 0.0) if alpha == 0 else (1 / 50, 150.0)
    met = meeting(bent(few.deployment, 50.0, 101.0), prompt_of_length(50), rate, 3.0, seen, None)
    matches(met, fixed=alpha, each=beta)
    if alpha:
        busy, _ = passes_after(rate, 8, alpha, beta, passes_of_a_run(rate, alpha, beta, seen), 0, 0)
        matches(met, mean_step=8 + busy)


# --- one round of users, prompts first -------------------------------------------------------------
#
# A step of b sequences is 4 + b; answers take a hundred steps unless they are said to be shorter.


def steps_of_a_way(h, plain):
    """w."""
    return max(1, h / plain + 1 / 2) * min(1, 10 * h / plain)


def late_of_all(a, c):
    """Of c users who ask one after the other: while all others decode, while one less does, and so on."""
    return a * (2 / 3 * (c - 1) ** 1.5 + 1 / 2 * (c - 1) ** 0.5 - 0.2 * min(c - 1, 1)) / c


def run_of(c, ended, plain, h, g, prompt, rate):
    """What a run of passes of users computes: w, its first pass and prompts, Y of another, and the line of Y."""
    room, w = 203 / prompt.length, steps_of_a_way(h, plain)
    bunch = 1 + (min(max(ended / max(-expm1(-ended), ended / (1 + ended)), 1), c) - 1) * (1 - g)
    coming = ended * w * (1 - g) + g * (c - bunch)
    begin = pass_of(prompt, min(bunch, room) * prompt.length) * max(bunch / room, 1)

    def nobody_in(part):
        """A Poisson number, and all of them; no surer than e^-12 that anybody comes."""
        return (1 - g) * exp(-min(coming * part, 12)) + g * max(1 - part, exp(-12)) ** coming

    def computed(later):
        soon = min(1, begin / h) if h > 0 else 1.0  # of those on their way, who are there at the end of the first pass
        some = 1 - nobody_in(soon)
        still = 1 - max(nobody_in(min(1 - soon, later / h if h > 0 else 0)), exp(-12))
        fit = max(0, h - begin) / later  # passes in the rest of the way
        more = some * (1 + still * (1 - still ** max(1, fit + 1 / 2)) / (1 - still))
        lasts = some ** min(1, 2 * fit) * still ** max(0, fit - 1 / 2)  # as long as the way
        prompts = min(c, bunch + coming * min(1, soon + more * later / h if h > 0 else 1))
        return prompts, more, lasts, max(1, (prompts - bunch) / more) if more else 1.0

    alpha, beta = line_of_passes(prompt, computed(begin)[3])
    prompts, more, lasts, _ = computed(alpha + beta * computed(begin)[3])
    k = max(1, (prompts - bunch) / more) if more else 1.0
    return SimpleNamespace(
        w=w, g=g, bunch=bunch, coming=coming, begin=begin, alpha=alpha, beta=beta, prompts=prompts, more=more,
        lasts=lasts, k=k, later=alpha + beta * k,
    )  # fmt: skip


def answer_between_runs(steps, mean, surge, plain, a, n):
    """Mean step of an answer: no run begins in its first a steps nor after its last, then they settle to one in n."""
    between = steps - 1
    settles = 1 - exp(-2 * n * max(between - a, 0) / (a * (n - a))) if a > 0 else 0.0
    runs = between - min(between, a) + a * a / (2 * n) * settles  # times n
    return plain + (surge + (mean - plain) * runs) / steps


#: A quarter of the answers are single tokens.
SINGLES = Spread(cv=0.6, nodes=((0.25, 0.01), (0.75, 1.33)), slices=((0.25, 0.01), (0.75, 1.33)))


@each(
    ("prompt", "rate", "seen", "before", "users", "osl", "answers", "is_met"),
    [
        # who ends one answer comes back within the first pass, or finds no pass
        (prompt_of_length(50), 1 / 112, 60.0, 28.0, 7.0, 101.0, Spread(), lambda run: run.more < run.lasts == 1),
        (prompt_of_length(50), 1 / 112, 60.0, 0.0, 7.0, 101.0, Spread(), lambda run: run.more == 0),  # or asks at once
        (prompt_of_length(50), 1 / 112, 60.0, 2.0, 7.0, 101.0, Spread(), lambda run: run.w == 1),  # within a step
        (prompt_of_length(50), 1 / 112, 60.0, 0.5, 7.0, 101.0, Spread(), lambda run: 0 < run.w < 1),  # nearly at once
        (prompt_of_length(50), 1 / 112, 60.0, 400.0, 7.0, 101.0, Spread(), lambda run: run.lasts < 1e-3 < 0.1 < run.g),
        (prompt_of_length(50), 1e-20, 60.0, 28.0, 7.0, 101.0, Spread(), lambda run: run.bunch == 1),  # hardly any ends
        (prompt_of_length(50), 1 / 80, 60.0, 28.0, 2.0, 101.0, Spread(), lambda run: run.prompts < 2),
        (prompt_of_length(50), 1 / 2, 22.0, 0.0, 2000.0, 101.0, Spread(), lambda run: run.bunch > 10),  # a bunch is cut
        # all come back before the first of them ends another answer
        (prompt_of_length(50), 1 / 112, 60.0, 28.0, 7.0, 6.0, Spread(), lambda run: run.g == 1 and run.prompts == 7),
        (prompt_of_length(50), 1 / 15, 120.0, 400.0, 24.0, 21.0, Spread(), lambda run: run.more > 5 and run.lasts < 1),
        (prompt_of_length(50), 1 / 112, 60.0, 28.0, 7.0, 9.0, Spread(), lambda run: 0.1 < run.g < 0.3),
        (prompt_of_length(50), 1 / 112, 60.0, 28.0, 7.0, 101.0, SINGLES, lambda run: run.prompts > 1),
        (BOTH, 1 / 112, 60.0, 28.0, 7.0, 101.0, Spread(), lambda run: run.k > 1),
        (LONG, 1 / 1000, 120.0, 28.0, 7.0, 101.0, SINGLES, lambda run: run.prompts > 1),  # full passes, one by one
        (LONG, 1 / 1000, 120.0, 28.0, 7.0, 101.0, Spread(), lambda run: run.alpha == pytest.approx(0, abs=1e-9)),
    ],
)  # fmt: skip
@each("host", [0.0, 0.3])
def test_users_who_ask_again_are_computed_in_runs_of_passes(
    prompt, rate, seen, before, users, osl, answers, is_met, host
):
    lengths = Lengths(answers=answers)
    # three seconds of the way another user has the slot
    server = rank(scheduler=PROMPTS_FIRST, network=before + 3.0, request=0.0, arrival=host, osl=osl, lengths=lengths)
    others, single = 0.5 * (users - 1), 0.25 * (answers is SINGLES)
    met = meeting(server, prompt, rate, others, seen, users, 3.0)
    steps, s = osl - 1, (users - 1) / users
    every = min(rate / s * seen, users / steps)
    ended = every * (1 - single)
    plain = 5 + every * steps * s
    lasting = 5 * max(0.17, answers.cv) * osl * (users - 1) / (users + 1)
    g = min(1, steps_of_a_way(before + host * (users - 1) ** 0.5, plain) / lasting) ** 4
    # each other decodes with a chance of a half; who gather ask one by one, the last where nobody decodes any more
    nobody = 0.5 ** (users - 1)
    begins_late = (1 - g) * 2 * host * late(others, 1 / 2) + g * late_of_all(host, users)
    way = before + begins_late / (1 - (1 - g) * nobody - g / users)
    run = run_of(users, ended, plain, way, g, prompt, rate)
    assert is_met(run) or host
    most, full = 203 / prompt.length, pass_of(prompt, 203) * prompt.length / 203
    alone = pass_of(prompt, prompt.length) if prompt.length <= 203 else 2 * pass_of(prompt, 203) + pass_of(prompt, 94)
    _, once = last_pass(prompt, rate, run.alpha, run.beta, alone)
    # who got a single token asks again in the same run, some of them three times
    z, more = run.prompts, run.more
    again = sum(1 - exp(-(z - 1) * single**turn) for turn in (1, 2, 3))
    extra = run.alpha * again + run.beta * (z - 1) * single / (1 - single)
    time = max(run.begin + more * run.later + extra, z / (1 - single) * full)
    n = z / ended
    a = min(run.g * n + (1 - run.g) * run.w * run.lasts, n)
    mean = plain + time * s / n
    nobody = (1 - g) * nobody + g * max(nobody, z / users)  # when a run begins: the first of a round, if all gather
    # with its part of the time in which the server waits for prompts, the first of which has a shorter pass then
    idle = nobody * (before * z / users + prompt.alone - run.begin)
    matches(met, plain=plain, mean_step=mean, seen=plain + (time + idle) / n, rho=min(1 - plain / mean, 0.9999))
    matches(met, fixed=run.alpha, each=run.beta, together=z / (1 + more), prompt=time * (1 - single) / z)
    # of the prompts, a share y is in the first pass
    y = run.bunch / z
    mates = y * run.bunch + (1 - y) * run.k - 1
    running = (run.begin + (more - 1) * run.later) / more if more > 1 else run.begin
    behind = max(running / 2, running - way / 2)
    after = run.beta * mates * (1 - min(1, most / (1 + mates))) / 2
    own = y * run.begin + (1 - y) * run.later + once - after
    first = own + (y * plain / 2 + (1 - y) * behind) * min(1, 10 * way / plain)
    nobody *= y
    stage = begins_late + first + nobody * (prompt.alone - plain / 2 - run.begin - once)
    matches(met, nobody=nobody, wait=first - own, stage=stage, late=begins_late, biased=y * plain + (1 - y) * running)
    # passes that follow mine
    ends, last = after + extra / (1 + single), max(more - 1, 0)
    of_first, of_later = ends + more * run.later, ends + ((1 - run.lasts) * more + run.lasts * last / 2) * run.later
    surge = y * of_first + (1 - y) * of_later
    matches(met, surge=surge)
    if answers is not SINGLES:
        matches(met, step=max(answer_between_runs(steps, mean, surge, plain, a, n / s), plain))
    square = sum(node.weight * added_by_node(server, prompt, run.beta, node) ** 2 for node in prompt.nodes)
    square = square or run.beta**2
    wide = (1 - run.lasts) * more * (1 + more)  # a geometric number of passes, unless they last as long as the way
    between = (plain / 2 + run.begin - behind - run.later) ** 2
    rest = y * (plain**2 / 12 + (1 - y) * between)
    rest += (1 - y) * (min(running, way) ** 2 / 12 + after**2 / 3 + square * run.k)
    found = met.run
    assert tuple(found) == exactly_each(
        (
            a, n / s, time, run.alpha**2 * wide + square * z, y, of_first, of_later,
            (wide + run.lasts * last * (last + 2) / 12) * run.later**2 + after**2 / 3 + extra**2 / 12, rest,
        )
    )  # fmt: skip


@each("spare", [0.0, 1.0, 9.0])
def test_users_gather_by_the_way_of_the_first_who_is_back_while_all_others_decode(spare):
    # six others decode: half a second for the root of their number
    server = rank(osl=20.0, lengths=Lengths(answers=Spread(cv=0.2)))
    way = max(1.25 + 0.5 * 6**0.5 - spare, 0)
    g = min(1, steps_of_a_way(way, 4) / (5 * 0.2 * 20 * 6 / 8)) ** 4
    assert (g > 0) == (spare < 9)
    assert _gathered(server, 4.0, 7.0, spare) == exactly(g)


@each("users", [1, 2, 3, 4, 7, 30, 500])
def test_users_who_gather_ask_one_after_the_other_the_last_while_nobody_decodes(users):
    roots = 0.5 * fsum(others**0.5 for others in range(users)) / users
    assert _arrival_of_all(rank(), float(users)) == exactly(late_of_all(0.5, users))
    assert late_of_all(0.5, users) == pytest.approx(roots, rel=0.035)
    way, begins_late, nobody = _way_back(rank(), 2 / 3 * (users - 1), float(users), 1.0, 1.0)
    assert (begins_late, nobody) == exactly_each((late_of_all(0.5, users), 1 / 3 ** (users - 1)))
    if users > 1:
        assert way == exactly(0.25 + late_of_all(0.5, users) * users / (users - 1))


# --- answers of one token --------------------------------------------------------------------------


@each("scheduler", ["decode first", PROMPTS_FIRST])
@each(
    ("launches", "rate", "seen", "line"),
    [
        (0.0, 1 / 30, 30.0, (18, 6)),  # nothing decodes that a prompt could slow down: 14 + 5 k + k + 4
        (0.0, 1 / 12, 90.0, (0, 42.36 / 4.06)),  # more than the budget come together
        (60.0, 1 / 96, 0.0, (64, 0)),  # the host launches a pass
    ],
)
def test_prompts_of_single_tokens_wait_for_prompts_alone(scheduler, launches, rate, seen, line):
    prompt, (alpha, beta) = prompt_of_length(50)._replace(launches=launches), line
    assert line == exactly_each(line_of_passes(prompt, 1 + rate * seen, slow=1))
    met = meeting(rank(scheduler=scheduler, osl=1.0), prompt, rate, 0.0, seen, None)
    run = passes_of_a_run(rate, alpha, beta, seen)
    once, _ = last_pass(prompt, rate, alpha, beta, pass_of(prompt, 50, slow=1), slow=1)
    full = pass_of(prompt, 203, slow=1) * 50 / 203
    idle, *_, k = behind_who_finds_nobody(prompt, 20, rate, alpha, beta, run, once, full, beta**2)
    matches(met, nobody=1.0, idle=idle, stage=idle, seen=nearer(seen, rate, alpha, beta, k), decode=0.0)


# --- steps of an answer ----------------------------------------------------------------------------


def test_the_first_steps_of_an_answer_are_the_longer():
    assert step_of_answer(10.0, 3.0, 20.0, 5.0, 1.0) == exactly(3 + 2 * (1 - exp(-2)))
    assert step_of_answer(10.0, 3.0, 20.0, 0.0, 1.0) == exactly(3 + 2)  # at once
    assert step_of_answer(10.0, 3.0, -20.0, 0.0, 1.5) == 1.5  # never less than a step without prompts
    assert step_of_answer(10.0, 3.0, 20.0, 0.0, 1.5, 4.5) == 4.5  # nor more than one that takes all of the budget


@each(
    ("steps", "quiet", "phase", "runs"),
    [
        (11.0, 4.0, 10.0, 0.8 * (1 - exp(-2 * 10 * 6 / 24)) - 4 + 10),  # after six of eleven steps one may begin
        (4.0, 4.0, 10.0, 0.0),  # over before another can begin
        (5.0, 4.0, 10.0, 0.0),  # which would begin after the last step
        (101.0, 4.0, 10.0, 100 - 3.2),  # a^2/(2 n) are made up for in the long run
        (11.0, 0.0, 10.0, 10.0),  # the next may begin at once
        (1.0, 0.0, 10.0, 0.0),  # a single step
        (26.0, 10.0, 10.0, 20.0),  # as regular as a clock: after 10, and after 20
    ],
)
def test_no_run_begins_in_the_first_steps_of_an_answer_nor_after_its_last(steps, quiet, phase, runs):
    # 3 s of which 1 is a decode step: a run adds 2 s to a mean step, and twenty what follows the own pass
    run = Run(quiet, phase, 2 * phase, 0.0, 1.0, 20.0, 20.0, 0.0, 0.0)
    found = step_of_answer(steps, 3.0, 20.0, 0.0, 1.0, run=run)
    assert found == exactly(1 + (20 + 2 * runs) / steps)


@each(("short", "is_counted"), [(0.005, False), (1.4 / 101, False), (1.6 / 101, True)])
def test_answers_that_differ_are_averaged_by_request_and_by_their_time(short, is_counted):
    spread = Lengths(answers=Spread(cv=0.5, nodes=((0.5, short), (0.5, 1.995))))
    # of 101 tokens: of the one half none to decode, 0.4 or 0.6; 200.495 of the other half. Half a step is rounded to
    # one, less to none: that answer has no time per token
    longest = 101 * 1.995 - 1
    step, decode = over_answers(rank(lengths=spread), 3.0, 20.0, 0.0, 1.0)
    long_step = 3 + 20 / longest
    assert step == exactly((3 + 20 + long_step) / 2 if is_counted else long_step)
    assert decode == exactly((longest * 3 + 20 + 23 * is_counted) / 2)
    assert over_answers(rank(lengths=spread), 3.0, 200.0, 0.0, 1.0, 3.5)[0] == exactly(3.5)  # in full steps


def test_the_answer_is_averaged_over_as_many_lengths_as_the_distributions_have():
    # a quarter are single tokens, the others 121.2 by the slices: 120.2 steps; 49.5 and 150.5 steps by the nodes
    spread = Spread(cv=0.5, nodes=((0.5, 0.5), (0.5, 1.5)), slices=((0.25, 0.01), (0.75, 1.2)))
    server = rank(lengths=Lengths(answers=spread))
    met = meeting(server, prompt_of_length(50), 1 / 96, 3.0, 96.0, None)
    met = met._replace(mean_step=3.0, surge=20.0, rounds=0.0, plain=1.0, longest=9.0)
    step, decode = over_all_answers(server, met)
    assert step == exactly(3 + 20 / 120.2)
    assert decode == exactly(step * (49.5 + 150.5) / 2)  # of whose steps the number is known better
    assert over_all_answers(rank(), met) == exactly_each((3.2, 320))


def test_where_no_answer_has_a_step_it_would_be_the_mean_one():
    spread = Lengths(answers=Spread(cv=0.5, nodes=((0.5, 0.5), (0.5, 1.4))))
    assert over_answers(rank(osl=1.0, lengths=spread), 3.0, 20.0, 0.0, 1.0) == (3.0, 0.0)


# --- saturation ------------------------------------------------------------------------------------


def test_as_many_requests_begin_with_a_step_as_end_with_it():
    # 64 slots, 100 steps each: 0.64 requests a step, 68 s; 82 tokens of prompts beside 64 sequences
    found = saturation(rank(), prompt_of_length(50))
    tokens = 50 * 1.64
    each_prompt = 2 * ((10 + tokens / 10) * 50 / tokens + 1) + 4 * 50 / tokens
    assert found == Saturation(exactly(0.64 / (68 + 0.64 * each_prompt)), 64, 68, exactly(64))


def test_no_more_requests_begin_than_the_budget_has_room_for():
    # a prompt and its hundred steps are 1100 tokens, and a step computes 203: 18.5 sequences run
    begin = 203 / 1100
    found = saturation(rank(), prompt_of_length(1000))
    tokens = 203 - 100 * begin  # all that they leave
    each_prompt = 2 * ((10 + tokens / 10) * 1000 / tokens + 1) + 4 * 1000 / tokens
    step = 4 + 100 * begin
    assert found == Saturation(exactly(begin / (step + begin * each_prompt)), 64, exactly(step), exactly(100 * begin))
    # with three tokens of each sequence a step
    begin = 203 / 1300
    thrice = saturation(rank(queries=3.0), prompt_of_length(1000))
    tokens = 203 - 300 * begin
    each_prompt = 2 * ((10 + tokens / 10) * 1000 / tokens + 1) + 4 * 1000 / tokens
    assert thrice.sequences == exactly(100 * begin)
    assert thrice.rate == exactly(begin / (4 + 100 * begin + begin * each_prompt))


def test_where_prompts_come_first_the_budget_is_theirs_alone():
    found = saturation(rank(scheduler=PROMPTS_FIRST), prompt_of_length(1000))
    each_prompt = 2 * ((2.5 + 10 + 202 / 10 + 1.6) * 1000 / 203 + 1) + 4 * 1000 / 203
    assert found == Saturation(exactly(0.64 / (68 + 0.64 * each_prompt)), 64, 68, exactly(64))


def test_answers_of_one_token_leave_the_budget_to_prompts():
    found = saturation(rank(osl=1.0), prompt_of_length(50))
    # 203/50 prompts a step; one sequence stands for the step itself, 5 s; 202 tokens
    each_prompt = (10 + 20.2) * 50 / 202 + 1 + 4 * 50 / 202
    assert found.rate == exactly(203 / 50 / (5 + 203 / 50 * each_prompt))
    assert found.sequences == 1


# --- the wait for a slot ---------------------------------------------------------------------------


def test_the_wait_for_one_of_two_slots_is_a_birth_and_death_worked_out_by_hand():
    # a step of n takes 4 + n, and (n - 1) of the prompts' 10 over its 100 steps; nothing beside
    full = Saturation(1e-9, 2.0, 6.0, 2.0)
    met = meeting(rank(), prompt_of_length(50), 1e-9, 0.0, 0.0, None)
    met = met._replace(plain=5.0, mean_step=5.0, decode=500.0, prompt=10.0)
    one, two = 1 / (100 * 5), 2 / (100 * (6 + 0.1))  # that end a second
    rate = 1 / 1000
    chances = [1, rate / one, rate / one * rate / two]
    load = rate / two
    waiting = chances[2] / (1 - load)  # two run, and any number waits
    share = waiting / (chances[0] + chances[1] + waiting)
    found = slot_wait(rank(), full, met, rate, 0.0)
    assert found == (exactly(share), exactly(share / 2 / (two * (1 - load))))
    uneven = rank(lengths=Lengths(answers=Spread(cv=0.5)))
    assert slot_wait(uneven, full, met, rate, 0.0)[1] == exactly(share * 1.25 / 2 / (two * (1 - load)))
    assert slot_wait(rank(), full, met, 0.0, 0.0) == (0.0, 0.0)


def test_a_full_server_ends_no_fewer_requests_than_it_can_serve():
    # two slots at 1/100 a second, though steps alone would end fewer: one slot is worth half of it
    full = Saturation(1 / 100, 2.0, 6.0, 2.0)
    met = meeting(rank(), prompt_of_length(50), 1e-9, 0.0, 0.0, None)
    met = met._replace(plain=5.0, mean_step=5.0, decode=500.0, prompt=10.0)
    rate, one, two = 1 / 500, 1 / 200, 1 / 100
    chances = [1, rate / one, rate / one * rate / two]
    waiting = chances[2] / (1 - rate / two)
    share = waiting / (chances[0] + chances[1] + waiting)
    assert slot_wait(rank(), full, met, rate, 0.0) == (exactly(share), exactly(share / 2 / (two * (1 - rate / two))))


def test_steps_shrink_with_fewer_sequences_to_a_tenth_at_least_and_grow_by_what_came_with_an_answer():
    # three slots; 9 s with two that decode and 30 with three: 21 more for each, 0.9 with one;
    # answers take 2 s a step longer than the mean step, 11 instead of 9
    full = Saturation(1e-9, 3.0, 30.0, 3.0)
    met = meeting(rank(), prompt_of_length(50), 1e-9, 1.0, 0.0, None)
    met = met._replace(plain=9.0, mean_step=9.0, decode=1100.0, prompt=10.0)
    served = [1 / (100 * (0.9 + 2)), 2 / (100 * (9 + 0.1 + 2)), 3 / (100 * (30 + 0.2 + 2))]
    rate = 1 / 2000
    chances = [1.0]
    for each_rate in served:
        chances.append(chances[-1] * rate / each_rate)
    load = rate / served[2]
    waiting = chances[3] / (1 - load)
    share = waiting / (sum(chances[:3]) + waiting)
    found = slot_wait(rank(), full, met, rate, 1.0)
    assert found == (exactly(share), exactly(share / 2 / (served[2] * (1 - load))))


# --- the link --------------------------------------------------------------------------------------


def loading(time, share, pp=1):
    """A rank whose prefixes take so long to load, of a share of its requests."""
    kinds = (PromptKind(share, 50.0, 50.0, time), PromptKind(1.0 - share, 100.0, 0.0, 0.0))
    return SimpleNamespace(
        kinds=kinds, is_free_of_loads=False, loading=share * time, deployment=SimpleNamespace(plan=Plan(pp=pp))
    )


@each("pp", [1, 2])
def test_prefixes_wait_for_the_link_as_in_m_d_1_or_as_sources_of_one_period(pp):
    # 3/4 of the requests load for 2 s; at a third of a request a second the link is half busy, u = 1/2
    rank_ = loading(2.0, 0.75, pp)
    rate = 1 / 3 / pp
    assert link_rate(rank_) == exactly(1 / 1.5 / pp)
    wait = 0.5 * 2 / (2 * 0.5)
    assert link_wait(rank_, rate, None) == tuple(map(exactly, (wait, wait * wait + 4 / 3 * wait, 0.75 * wait)))
    # of five users four are others: u = 2/5, and 8 h/(pi (c - 1)) = 2.546 x 0.75/4
    wait = 0.4 * 2 / (0.6 + (0.36 + 2.546 * 0.75 / 4) ** 0.5)
    assert link_wait(rank_, rate, 5.0) == tuple(map(exactly, (wait, wait * wait + 4 / 3 * wait, 0.75 * wait)))
    assert link_wait(rank_, rate, 1.0) == (0.0, 0.0, 0.0)
