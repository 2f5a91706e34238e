"""What a rank can serve, and the waits for a slot and for a link, at round numbers worked out by hand."""

from types import SimpleNamespace

import pytest
from every_case import each
from made_up_rank import PROMPTS_FIRST, prompt_of_length, rank

from roofline.physics.plan import Plan
from roofline.serving.latency import Lengths, PromptKind, Spread
from roofline.serving.load.equations import Saturation, meeting, saturation, slot_wait
from roofline.serving.load.server import link_rate, link_wait

exactly = lambda number: pytest.approx(number, rel=1e-12, abs=1e-12)  # noqa: E731


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
