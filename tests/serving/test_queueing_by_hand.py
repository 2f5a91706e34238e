"""One round of the equations of a load at round numbers, what a rank can serve, and waits for a slot and for a link.

Worked out from docs/method.md, "A server under load". The rank is made up: its times are straight lines in the
sequences that decode and in the tokens of prompts.
"""

from math import exp
from types import SimpleNamespace

import pytest
from every_case import each
from made_up_rank import PROMPTS_FIRST, prompt_of_length, rank

from roofline.physics.plan import Plan
from roofline.serving.latency import Lengths, PromptKind, Spread
from roofline.serving.load.equations import (
    Saturation,
    idle_time,
    meeting,
    over_answers,
    queue_wait,
    saturation,
    slot_wait,
    step_of_answer,
)
from roofline.serving.load.server import PromptNode, added, added_by_node, link_rate, link_wait, prompt_of, turns

exactly = lambda number: pytest.approx(number, rel=1e-12, abs=1e-12)  # noqa: E731


def matches(met, **expected):
    assert {name: getattr(met, name) for name in expected} == pytest.approx(expected, rel=1e-12, abs=1e-12)


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
    stage = (1 - nobody) * (0.5 + first) + nobody * idle
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
    matches(met, stage=(1 - nobody) * (0.5 + first) + nobody * idle, idle=idle)
    behind = ((1 - nobody) * (mine + extra) + nobody * idle) / 400
    back = behind - 8 / (1 - rho) / 400 * (1 + extra / (200 * 200 / 500))  # in a full step 80
    rounds = first / 400 * 2.5 / (1 - rho_chunks)
    assert rounds > 1 / (1 - rho_chunks)
    matches(met, rounds=rounds, surge=180 * back / (1 - rho))


def test_a_round_of_users_has_fewer_prompts_to_meet_and_begins_where_an_answer_ended():
    # 1.5 of 3 others decode: D(2.5) = 6.5, room 201.5; one in eight finds nobody
    met = meeting(rank(), prompt_of_length(50), 1 / 96, 1.5, 96.0, 4.0)
    usual, own = 24.0, 36.0
    square = 24 * 24 / 96 * 0.75
    m = (6.5 * 0.75 + 2 * 6.5 * 0.25 + square) * 16 / 15
    matches(met, plain=6.5, room=201.5, prompt=usual, rho=0.25, seen=m, nobody=1 / 8)
    before = 1.25 + 0.5  # network, request, arrival
    begun, longer = 6.5 / 0.75 / 96, 6.5 + 24
    window = begun + before / 96 / 0.75
    share = min(longer / 96, 1 - exp(-window))
    assert share < longer / 96
    rest = share * (longer - before / 2) + (1 - share) * 6.5 / 2
    mates = share * min(longer / 96, window) + (1 - share) * 6.5 / 96
    first = rest + 6.5 + own + mates * usual
    idle = idle_time(prompt_of_length(50), 1 / 96, 24.0)
    matches(met, stage=7 / 8 * (0.5 + first) + idle / 8)
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
    window = (8 + 1.75) / 500 / (1 - rho)  # 1.75 s after the end of an answer, prompts of a step and of that time
    share = 1 - exp(-window)
    mates = share * window + (1 - share) * 8 / 500
    rest = share * (188 - 1.75 / 2) + (1 - share) * 4
    extra = queue * 0.6 + 2 * 8
    idle = idle_time(long, 1 / 500, 180.0)
    stage = 0.5 + rest + 8 + 180 + mates * 180 + extra
    matches(met, stage=63 / 64 * stage + idle / 64)
    far = meeting(rank(request=1000.0), long, 1 / 500, 3.0, 96.0, 7.0)  # half of the step is left at least
    window = (8 / (1 - rho) + 1000.75 / (1 - rho)) / 500
    share = 188 / 500
    assert share < 1 - exp(-window)
    rest = share * 188 / 2 + (1 - share) * 4
    mates = share * 188 / 500 + (1 - share) * 8 / 500
    matches(far, stage=63 / 64 * (0.5 + rest + 188 + mates * 180 + extra) + idle / 64)


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
    matches(within, wait=queue, stage=(1 - nobody) * (0.5 + first) + nobody * idle)


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
    matches(met, idle=idle, stage=(1 - nobody) * (0.5 + first) + nobody * idle)


# --- one round, prompts first ----------------------------------------------------------------------


def test_a_round_of_random_arrivals_that_decoding_pauses_for():
    # 3 others: D = 8. n = 100: 2 (24/2 + 1) + 2 = 28 at 1/112; alone n = 50: 2 (17.4 + 1.6 + 1) + 4
    first_rank = rank(scheduler=PROMPTS_FIRST)
    met = meeting(first_rank, prompt_of_length(50), 1 / 112, 3.0, 112.0, None)
    usual, own, rho = 28.0, 44.0, 0.25
    square = 28 * 28 / 112  # 7
    m = (square + 8 * 0.75) / (1 - 1 / 16)
    mine = own + m / 4
    share = 1.0  # 50 (1 + m/112) tokens fit in 203
    assert 50 * (1 + m / 112) < 203
    first = share * (m / 2 + mine)
    idle, nobody = idle_time(prompt_of_length(50), 1 / 112, 28.0), exp(-3)
    matches(met, prompt=usual, seen=usual, in_full=usual, rho=rho, rho_chunks=rho, mean_step=8 / 0.75, biased=m)
    matches(met, stage=(1 - nobody) * (0.5 + first) + nobody * idle, wait=first - own, room=203, rounds=0)
    surge = 28 / 112 * mine / 0.75
    matches(met, surge=surge, step=8 / 0.75 + surge / 100)


def test_a_round_of_prompts_that_fill_their_passes():
    # 500 tokens, attention 10: 506.8 come together, in three passes of equal length or on average 2.5 of 203
    first_rank, long = rank(scheduler=PROMPTS_FIRST), prompt_of_length(500)._replace(attention=10.0)
    met = meeting(first_rank, long, 1 / 1000, 3.0, 120.0, None)
    passes = 3.0  # 560 tokens are 2.76 passes, 0.76 well beyond the blur
    shared = (2 + 0.5 + 10 + (560 / passes - 1) / 10 + 1.6) * 500 / (560 / passes)
    usual = 2 * (shared + 10) + 4 * 500 / (560 / passes)
    alone = (2 + 0.5 + 10 + (500 / 3 - 1) / 10 + 1.6) * 3  # 500 tokens are three passes, too
    own = 2 * (alone + 10) + 4 * 3
    rho = usual / 1000
    m = (usual**2 / 1000 + 8 * (1 - rho)) / (1 - rho * rho)
    mine, share = own + m * rho, 203 / (500 * (1 + m / 1000))
    assert share < 0.41
    behind = own + usual**2 / 1000 / (2 * (1 - rho)) + (1 - rho) * 8 / 2
    first = share * (m / 2 + mine) + (1 - share) * behind
    matches(met, prompt=usual, rho=rho, biased=m, wait=first - own)
    idle, nobody = idle_time(long, 1 / 1000, usual), exp(-3)
    matches(met, stage=(1 - nobody) * (0.5 + first) + nobody * idle)
    matches(met, surge=usual / 1000 * (share * mine + (1 - share) * first) / (1 - rho))


def test_a_prompt_that_hardly_exceeds_a_pass_takes_another_one_now_and_then():
    first_rank, long = rank(scheduler=PROMPTS_FIRST), prompt_of_length(203.203)
    met = meeting(first_rank, long, 1e-9, 3.0, 0.0, None)
    passes = 1 + 0.001 / (1 / 203 * 1.001 + 0.002)
    tokens = 203.203 / passes
    alone = 2 * ((12.5 + (tokens - 1) / 10 + 1.6) * passes + 1) + 4 * passes
    assert met.prompt == pytest.approx(alone, rel=1e-6)
    assert met.stage == pytest.approx(exp(-3) * met.idle + (1 - exp(-3)) * (0.5 + met.wait + alone), rel=1e-9)


@each(("before", "power"), [(28.0, 0.0), (0.0, 1.0), (84.0, -0.5)])
def test_users_come_in_bunches_where_they_take_longer_on_their_way_than_a_prompt(before, power):
    first_rank = rank(scheduler=PROMPTS_FIRST, network=before, request=0.0, arrival=0.0)
    met = meeting(first_rank, prompt_of_length(50), 1 / 112, 3.0, 112.0, 7.0)
    matches(met, biased=(7 * 0.75**power + 8 * 0.75) / (1 - 1 / 16), nobody=1 / 64)


# --- steps of an answer ----------------------------------------------------------------------------


def test_the_first_steps_of_an_answer_are_the_longer():
    assert step_of_answer(10.0, 3.0, 20.0, 5.0, 1.0) == exactly(3 + 2 * (1 - exp(-2)))
    assert step_of_answer(10.0, 3.0, 20.0, 0.0, 1.0) == exactly(3 + 2)  # at once
    assert step_of_answer(10.0, 3.0, -20.0, 0.0, 1.5) == 1.5  # never less than a step without prompts


def test_answers_that_differ_are_averaged_by_request_and_by_their_time():
    spread = Lengths(answers=Spread(cv=0.5, nodes=((0.5, 0.005), (0.5, 1.995))))
    # of 101 tokens: none to decode of half a token, 200.495 of the other half
    longest = 101 * 1.995 - 1
    step, decode = over_answers(rank(lengths=spread), 3.0, 20.0, 0.0, 1.0)
    assert step == exactly(((3 + 20) + (3 + 20 / longest)) / 2)
    assert decode == exactly((longest * 3 + 20) / 2)


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
    each_prompt = 2 * ((10 + 20.2) * 50 / 202 + 1) + 4 * 50 / 202
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
