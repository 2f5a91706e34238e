"""Distributions of latencies on a made-up rank, written out once more in the letters of docs/method.md, "Tails"."""

from math import exp, inf, isnan
from types import SimpleNamespace

import pytest
from every_case import each
from made_up_rank import PROMPTS_FIRST, rank

import roofline as rl
from roofline.serving.latency import Lengths, Spread, Workload
from roofline.serving.load import tails as module
from roofline.serving.load.mixtures import (
    Component,
    by_prompt_length,
    gamma_survival,
    mean_of,
    merged,
    percentile,
    survival,
)
from roofline.serving.load.rounds import meeting, step_of_answer
from roofline.serving.load.server import prompt_of
from roofline.specs.load import load_of

EVEN = Lengths()
#: Half of the prompts 30 and 70 tokens, half of the answers 51 and 151.
UNEVEN = Lengths(
    prompts=Spread(cv=0.4, nodes=((0.5, 0.6), (0.5, 1.4)), slices=((0.5, 0.6), (0.5, 1.4))),
    answers=Spread(cv=0.5, nodes=((0.5, 0.5), (0.5, 1.5)), slices=((0.5, 51 / 101), (0.5, 151 / 101))),
)
D = 8.0  # of four sequences, and a second more for each further one
SLOPE = 1.0
STEPS = 100.0
DECODE = 1500.0  # of the mean answer


def found_tails(monkeypatch, server, ttft, state, **load):
    """Tails of a load whose means are these."""
    monkeypatch.setattr(module, "server_of", lambda deployment, workload: server)
    found = SimpleNamespace(state=state, is_stable=True, ttft=ttft, decode=DECODE)
    return module.tails_at_random(server.deployment, Workload(server.isl, server.osl, load_of(load)), found)


def adds(server, tokens, together):
    """P of so many tokens of a prompt among others, in the steps of docs/method.md."""
    share = tokens / together
    if server.engine.scheduler == PROMPTS_FIRST:
        return 2 * ((2 + 0.5 + 10 + (together - 1) / 10 + 1.6) * share + tokens**2 / 2500) + 4 * share
    return 2 * ((10 + together / 10) * share + tokens**2 / 2500) + 4 * share


def approximate(part):
    return pytest.approx(tuple(part), rel=1e-9, abs=1e-12)


def assert_parts(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert tuple(one) == approximate(other)


def swing(others, free, met):
    """V_b and r of the number that decode."""
    returning = max(1 - others * free * (SLOPE + met.prompt / STEPS) / met.step, 0.1)
    return others * free / returning, returning


def moments(server, prompt, met):
    """p_2 and p_3; with prompts first of what a further prompt adds to a pass."""
    usual = met.each if server.engine.scheduler == PROMPTS_FIRST else met.prompt

    def whole(node):
        return 2 * ((usual / 2 - prompt.attention) * node.length / prompt.length + node.attention)

    nodes = [(node.weight, whole(node)) for node in prompt.nodes] or [(1.0, usual)]
    return tuple(sum(weight * time**power for weight, time in nodes) for power in (2, 3))


def variance_of_the_rest(server, prompt, met, rate, others, free, rest, users=None, long=(0.0, 0.0, 0.0)):
    """V; `long` prompts of others are apart: theirs of p_2, of p_3, and of the wait for the budget."""
    if users is not None and server.engine.scheduler == PROMPTS_FIRST:
        return met.run.rest_variance
    p2, p3 = moments(server, prompt, met)
    rho, m, plain = met.rho, met.biased, met.plain
    first = server.engine.scheduler == PROMPTS_FIRST
    m -= rate * long[0] / (1 - (rate * met.each if first else rho) ** 2)
    p2, p3 = p2 - long[0], p3 - long[1]
    if first:
        alpha, beta = met.fixed, met.each  # a pass of j prompts takes (alpha + beta j)^3, of k on average
        cube = plain**2 * (1 - rho) + rate * (alpha**3 / met.together + 3 * alpha**2 * beta)
        rho = rate * beta  # of the time that prompts take, what grows with their number
        cube += rate * (3 * alpha * p2 * (1 + rate * m) + p3 + 3 * p2 * rho * m)
    else:
        cube = plain**3 / met.mean_step + 3 * plain * rho * (plain + rho * m)
        cube += 3 * rate * p2 * (plain + rho * m) + rate * p3
    cube /= 1 - rho**3
    x = 1.0 if first else marginal(server, prompt, met, rate)
    k = x * rho
    variance = max(cube * (1 / 3 + k + k * k) - (m / 2 + k * m) ** 2 + x * x * rate * p2 * m, 0)
    wait = 0.0 if first else max(met.wait - long[2], 0)
    if first or users is not None:
        variance *= ((rest - wait) / (m / 2 + rho * m)) ** 2
    if users is not None:
        variance *= 1 - rho
    number, _ = swing(others, free, met)
    budget = wait**2 * (2 / met.rho_chunks - 1)
    return variance + budget + number * (SLOPE / (2 if first else 1)) ** 2


def marginal(server, prompt, met, rate):
    """x: what a further prompt adds to a step with prompts, over what they add on average."""
    few = min(met.room, 50 * (1 + rate * met.seen))
    more = min(met.room, few + 50)
    attention = prompt.attention - 1.0  # of lengths that differ, beyond that of the mean one
    one, other = adds(server, 50, few) + 2 * attention, adds(server, 50, more) + 2 * attention
    return (more * other - few * one) / ((more - few) * one) if more > few else 1.0


def share_kept(z, cv):
    """K(z)."""
    even = 1 - z / 3 if z <= 1 else 1 / z - 1 / (3 * z * z)
    y = z / max(1.0, (1 + cv * cv) / 2)
    spread = 2 * (y - 1 + exp(-y)) / y**2
    return (1 - min(1, cv * cv)) * even + min(1, cv * cv) * spread


def per_token(server, prompt, met, rate, others, free, users=None, cycle=None):
    """TPOT of each slice of the answers."""
    number, returning = swing(others, free, met)
    p2, _ = moments(server, prompt, met)
    cv, first = server.lengths.answers.cv, server.engine.scheduler == PROMPTS_FIRST
    grown = rate * met.each
    late = variance_of_the_rest(server, prompt, met, rate, others, free, met.biased / 2, users)
    for weight, share in server.lengths.answers.slices:
        steps = 101 * share - 1
        time = step_of_answer(steps, met.mean_step, met.surge, met.rounds, met.plain, met.longest)
        least = min(4 + max(1 + others - 4 * number**0.5, 1), 0.98 * time)
        company = number * SLOPE**2 * share_kept(returning * share, cv)
        stalls = (met.stalls if first else rate * p2 * met.mean_step) / steps
        if users is None:
            q = (1 - min(1, cv * cv)) * 0.612 + min(1, cv * cv) * 0.429
            if not first:
                stalls += met.surge * (1 - met.rho) / met.prompt * p2 / steps**2
            if first:
                company *= met.gain**2
                stalls += (met.surges + (grown / (1 - grown)) ** 2 * late) / steps**2
            variance = company + stalls + 2 * q * (company * stalls) ** 0.5
            if not first:
                variance = min(variance / (1 - met.rho) ** 2, company + (time - met.plain) * (met.longest - time))
        else:
            variance = company + min(1 - met.rho, 0.8 * cv + abs(steps * time / cycle - 1)) * stalls
        yield Component(weight, least, time - least, variance, met.longest - least + 2 * company**0.5)


def between_runs(server, met, others, free, cycle):
    """TPOT of each slice of the answers of users whose prompts come first, after the first pass of a run or another."""
    number, returning = swing(others, free, met)
    cv, run = server.lengths.answers.cv, met.run
    a, n, once = run.quiet, run.phase, run.time
    for weight, share in server.lengths.answers.slices:
        steps = 101 * share - 1
        between = steps - 1  # after the last nothing follows
        company = number * SLOPE**2 * share_kept(returning * share, cv)
        for chance, after in ((run.in_first, run.after_first), (1 - run.in_first, run.after_later)):
            # what follows the own pass, then a run for each period but the first
            settled = 1 - exp(-min(2 * n * max(between - a, 0) / (a * (n - a)), 40))
            runs = between - min(between, a) + a * a / (2 * n) * settled  # times n
            met_runs = max(after + (met.mean_step - D_of(met)) * runs, 0)
            runs = (met_runs - after) / once
            time = D_of(met) + met_runs / steps
            # the end of an answer begins a run, by a chance of 1/(n - a) in each step after the first a
            irregular = (1 - 1 / max(n - a, 1)) * (1 - a / n) ** 2
            g = min(1, 0.8 * cv + abs(steps * time / cycle - 1))
            stalls = g * runs * (once**2 * irregular + run.variance) + min(runs, 1 / 6) * a / n * once**2
            least = min(4 + max(1 + others - 4 * number**0.5, 1), 0.98 * time)
            yield Component(weight * chance, least, time - least, company + (stalls + run.after_variance) / steps**2)


def D_of(met):
    """A decode step."""
    return met.plain


def test_no_step_is_longer_than_a_full_one_nor_varies_more_than_between_that_and_a_plain_one():
    # prompts of four chunks, of which many fill the ten steps of an answer
    case = {"isl": 8000, "osl": 11, "engine": "vllm", "max_num_batched_tokens": 2048}
    found = rl.predict("llama-3.1-8b", "h100:tp1", request_rate=1.5, **case)
    case = module._settled(found.deployment, found.workload, found.served)
    (part,) = found.tails.tpot
    assert part.least + part.most < 1.1 * case.met.longest
    time = part.least + part.mean
    assert part.variance < 1.1 * (time - case.met.plain) * (case.met.longest - time)
    assert found.latency("tpot_p99") < 1.1 * case.met.longest


def both(first, step, lengths):
    """E2EL: each slice of the answers with each part of the first tokens."""
    return [
        Component(
            one.weight * part.weight,
            one.least + (101 * share - 1) * part.least,
            one.mean + (101 * share - 1) * part.mean,
            one.variance + (101 * share - 1) ** 2 * part.variance,
        )
        for (_, share), part in zip(lengths.answers.slices, step, strict=True)
        for one in first
    ]


@each("scheduler", ["decode first", PROMPTS_FIRST])
@each("lengths", [EVEN, UNEVEN])
def test_random_arrivals_wait_for_the_step_that_runs_or_for_nothing(scheduler, lengths):
    with pytest.MonkeyPatch.context() as monkeypatch:
        random_arrivals(monkeypatch, scheduler, lengths)


def root_of_those_who_decode(others, share=0.0):
    """Mean square root of their number, Poisson or of users who decode for a share of the time."""
    return others / (others + (1 - share) * (1 + 3 * exp(-0.6 * (others - share))) / 4) ** 0.5


def host_time(met, others, share=0.0, gathered=0.0):
    """Mean and variance, half a second for each root of the number that decodes where any do.

    Seven users who gather ask while six of them decode, five, and so on.
    """
    of_all = (2 / 3 * 6**1.5 + 1 / 2 * 6**0.5 - 0.2) / 7
    late = ((1 - gathered) * root_of_those_who_decode(others, share) + gathered * of_all) / 2 / (1 - met.nobody)
    return late, max(others / 4 / (1 - met.nobody) - late * late, 0)


def random_arrivals(monkeypatch, scheduler, lengths):
    server, rate, others = rank(scheduler=scheduler, lengths=lengths), 1 / 384, 3.0
    prompt = prompt_of(server)
    met = meeting(server, prompt, rate, others, 384.0, None)
    own = own_prompts(server, met, others)
    mean_own, rest = sum(weight * time for weight, time, _ in own), 40.0
    late, swing = host_time(met, 3.0)
    ttft = 1.25 + met.nobody * met.idle + (1 - met.nobody) * (late + mean_own + rest)
    found = found_tails(monkeypatch, server, ttft, (others, 384.0), request_rate=rate)
    variance = variance_of_the_rest(server, prompt, met, rate, others, 1.0, rest) + swing
    begin, rest = 1.25 + late - 2 * swing**0.5, rest + 2 * swing**0.5
    wait, busy = met.idle - prompt.alone, rate * prompt.alone
    expected = []
    for weight, time, alone in own:
        expected.append(Component(weight * (1 - met.nobody), begin + time, rest, variance))
        expected.append(Component(weight * met.nobody, 1.25 + alone, wait, wait * wait * (2 - busy) / busy))
    assert_parts(found.ttft, expected)
    step = list(per_token(server, prompt, met, rate, others, 1.0))
    assert_parts(found.tpot, step)
    if lengths is EVEN:
        assert_parts(found.e2el, both(expected, step, lengths))


@each(("osl", "counted"), [(101.0, (0.0, 0.3 / 0.8, 0.5 / 0.8)), (1.0, (1 / 3, 1 / 3, 1 / 3))])
def test_an_answer_of_less_than_half_a_step_has_no_time_per_token(osl, counted):
    # 1.4 tokens, 1.6 and 200.7; where no answer has a step, all stand for the mean one
    slices = ((0.2, 1.4 / 101), (0.3, 1.6 / 101), (0.5, 200.7 / 101))
    server = rank(osl=osl, lengths=Lengths(answers=Spread(cv=1.0, nodes=slices, slices=slices)))
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = found_tails(monkeypatch, server, 100.0, (3.0, 384.0), request_rate=1 / 384)
    assert [part.weight for part in found.tpot] == pytest.approx(counted)
    assert sum(part.weight for part in found.e2el) == pytest.approx(1.0)
    if osl > 1.0:
        of_each = [sum(part.weight for part in found.e2el[2 * place : 2 * place + 2]) for place in range(3)]
        assert of_each == pytest.approx([weight for weight, _ in slices])


def own_prompts(server, met, others):
    """Weight of each slice of the prompts, what it takes among others, and alone."""
    for_slices = []
    for weight, share in server.lengths.prompts.slices:
        tokens = 50 * share
        alone = 13.6 + tokens / 10 + tokens**2 / 2500
        time = adds(server, tokens, tokens)
        if server.engine.scheduler != PROMPTS_FIRST:
            time += 4 + 1 + others  # its only step
        for_slices.append((weight, time, alone))
    return for_slices


@each(
    ("scheduler", "others", "gap", "network"),
    [
        ("decode first", 3.0, 384.0, 0.25),
        (PROMPTS_FIRST, 3.0, 384.0, 0.25),
        (PROMPTS_FIRST, 3.0, 384.0, 999.0),  # who come back so late gather
        ("decode first", 5.7, 384.0, 0.25),
        ("decode first", 3.0, 26.0, 0.25),
    ],
)
def test_users_meet_no_more_prompts_than_there_are_others(scheduler, others, gap, network):
    with pytest.MonkeyPatch.context() as monkeypatch:
        users_meet(monkeypatch, scheduler, others, gap, network)


@each("scheduler", ["decode first", PROMPTS_FIRST])
@each("gap", [3000.0, 300.0])
def test_a_long_prompt_of_another_delays_those_who_come_while_it_is_computed(scheduler, gap):
    weight = 0.05
    # one in twenty has four times the tokens of the mean one, and more than four times its time
    lengths = ((1 - weight, (1 - 4 * weight) / (1 - weight)), (weight, 4.0))
    spread = Spread(cv=0.7, nodes=lengths, slices=lengths)
    server, rate, others = rank(scheduler=scheduler, lengths=Lengths(prompts=spread)), 1 / gap, 3.0
    prompt = prompt_of(server)
    met = meeting(server, prompt, rate, others, 384.0, None)
    first = scheduler == PROMPTS_FIRST
    usual = met.each if first else met.prompt
    # on average x [(P/x - a) + a(s)]; in full steps as much longer as the mean one is
    time = 2 * ((usual / 2 - prompt.attention) * 4 + 16)
    assert time > 4 * usual
    second, third = weight * time**2, weight * time**3
    busy = usual if first else met.in_full
    whole = time * busy / usual
    waiting = rate * weight * whole / (1 - rate * busy)  # while it is computed, and what came meanwhile
    assert waiting < 0.5
    crowded = SimpleNamespace(users=None, server=server, prompt=prompt, met=met, rate=0.9 / busy)
    assert module._long_prompts(crowded).share == 0.5  # of the requests at most
    assert module._long_prompts(crowded).mean == pytest.approx(whole / 2)
    queue = rate * weight * whole**2 / (2 * (1 - rate * busy))
    own = own_prompts(server, met, others)
    mean_own, rest = sum(weight * time for weight, time, _ in own), 300.0
    late, swing = host_time(met, 3.0)
    ttft = 1.25 + met.nobody * met.idle + (1 - met.nobody) * (late + mean_own + rest + waiting * whole / 2)
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = found_tails(monkeypatch, server, ttft, (others, 384.0), request_rate=rate)
    variance = variance_of_the_rest(server, prompt, met, rate, others, 1.0, rest, long=(second, third, queue)) + swing
    begin, rest = 1.25 + late - 2 * swing**0.5, rest + 2 * swing**0.5
    wait, nobody = met.idle - prompt.alone, met.nobody
    alone = rate * prompt.alone
    expected = []
    for part, time, by_itself in own:
        # evenly between none of it and all
        behind = Component(part * (1 - nobody) * waiting, begin + time, rest + whole / 2, variance + whole**2 / 12)
        expected += [behind, Component(part * (1 - nobody) * (1 - waiting), begin + time, rest, variance)]
        expected.append(Component(part * nobody, 1.25 + by_itself, wait, wait**2 * (2 - alone) / alone))
    assert_parts(found.ttft, expected)
    assert mean_of(found.ttft) == pytest.approx(ttft, rel=1e-9)


@each(
    ("cv", "users", "longest"),
    [(0.49, None, 4.0), (0.7, 7.0, 4.0), (0.7, None, 3.0)],  # hardly spread; users; not four times the mean
)
def test_no_prompt_is_long_where_lengths_hardly_differ_nor_among_users(cv, users, longest):
    lengths = ((0.95, (1 - 0.05 * longest) / 0.95), (0.05, longest))
    server = rank(lengths=Lengths(prompts=Spread(cv=cv, nodes=lengths, slices=lengths)))
    state = (3.0, 384.0) if users is None else (3.0, 384.0, 7 / 6 / 3000)
    load = {"request_rate": 1 / 3000} if users is None else {"concurrency": users}
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = found_tails(monkeypatch, server, 500.0, state, **load)
    assert len(found.ttft) == 2 * len(lengths)  # with others and without


def test_prompts_of_slices_take_on_an_idle_server_what_the_mean_one_does():
    # 25 and 65 tokens in the slices, 30 and 70 by the law, which are longer
    spread = Spread(cv=0.4, nodes=((0.5, 0.6), (0.5, 1.4)), slices=((0.5, 0.5), (0.5, 1.3)))
    server = rank(lengths=Lengths(prompts=spread))
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = found_tails(monkeypatch, server, 500.0, (3.0, 384.0), request_rate=1 / 384)
    short, long = 13.6 + 2.5 + 0.25, 13.6 + 6.5 + 1.69
    mean = (13.6 + 3.0 + 0.36 + 13.6 + 7.0 + 1.96) / 2
    idle = [part.least - 1.25 for part in found.ttft[1::2]]
    assert idle == pytest.approx([short * 2 * mean / (short + long), long * 2 * mean / (short + long)])


def halves(parts):
    """Parts of the shorter and of the longer answers."""
    return parts[: len(parts) // 2], parts[len(parts) // 2 :]


def users_meet(monkeypatch, scheduler, others, gap, network):
    server, users, rate, free = (
        rank(scheduler=scheduler, lengths=UNEVEN, network=network),
        7.0,
        7 / 6 / gap,
        1 - others / 6,
    )
    before = network + 1
    prompt = prompt_of(server)
    met = meeting(server, prompt, 1 / gap, others, gap, users)
    assert (met.step == met.longest) == (gap == 26.0)  # steps take all of the budget
    own = own_prompts(server, met, others)
    mean_own, rest = sum(weight * time for weight, time, _ in own), 40.0
    # the range of seven answers, over the steps until the first is back, who asked while six decoded
    back = (before + 0.5 * 6**0.5) / met.plain + 0.5
    gathered = (back / (5 * 0.5 * 101 * 6 / 8)) ** 4 if scheduler == PROMPTS_FIRST else 0.0
    assert (gathered > 0.01) == (network > 1)
    late, swing = host_time(met, others, others / 6, gathered)
    ttft = before + met.nobody * met.idle + (1 - met.nobody) * (late + mean_own + rest)
    found = found_tails(monkeypatch, server, ttft, (others, gap, rate), concurrency=users)
    variance = variance_of_the_rest(server, prompt, met, 1 / gap, others, free, rest, users) + swing
    begin, rest = before + late - 2 * swing**0.5, rest + 2 * swing**0.5
    end = 6 * met.prompt + 2 * met.plain + 4 * swing**0.5
    variance = min(variance * (1 - rest / end), rest * rest * max(1 / met.rho - 1, 1))
    wait, busy = met.idle - prompt.alone, prompt.alone / gap
    expected = []
    for weight, time, alone in own:
        expected.append(Component(weight * (1 - met.nobody), begin + time, rest, variance, end))
        expected.append(Component(weight * met.nobody, before + alone, wait, wait * wait * (2 - busy) / busy))
    assert_parts(found.ttft, expected)
    cycle = before + met.stage + met.decode
    if scheduler == PROMPTS_FIRST:
        step = list(between_runs(server, met, others, free, cycle))
        assert 0.05 < met.run.in_first < 0.95
    else:
        step = list(per_token(server, prompt, met, 1 / gap, others, free, users, cycle))
    assert_parts(found.tpot, step)
    # the whole: each part of the answers with each group of the prompts, by the weights of both
    assert sum(part.weight for part in found.e2el) == pytest.approx(1.0)
    mean_steps = sum(
        weight * (101 * share - 1) * sum(part.weight * (part.least + part.mean) for part in parts) / weight
        for (weight, share), parts in zip(server.lengths.answers.slices, halves(step), strict=True)
    )
    assert mean_of(found.e2el) == pytest.approx(mean_of(found.ttft) + mean_steps, rel=1e-9)


def test_users_beyond_the_slots_wait_until_as_many_answers_have_ended(monkeypatch):
    # nine users, seven slots: two answers end before one's own turn, 0.8 x 0.5 as unevenly as at random; of that time
    # a user is on the way for a part
    server, rate, others = rank(lengths=UNEVEN, slots=7.0), 7 / 6 / 384, 3.0
    prompt = prompt_of(server)
    met = meeting(server, prompt, 1 / 384, others, 384.0, 7.0, 2 / rate)
    late, rest = root_of_those_who_decode(3.0, 1 / 2) / 2, 40.0
    wait = 2 / rate - 1.25 - late
    own = own_prompts(server, met, others)
    mean_own = sum(weight * time for weight, time, _ in own)
    late, swing = host_time(met, 3.0, 1 / 2)
    ttft = wait + met.nobody * (1.25 + met.idle) + (1 - met.nobody) * (1.25 + late + mean_own + rest)
    found = found_tails(monkeypatch, server, ttft, (others, 384.0, rate), concurrency=9.0)
    variance = variance_of_the_rest(server, prompt, met, 1 / 384, others, 0.5, rest, 7.0) + swing
    begin, rest = 1.25 + late - 2 * swing**0.5, rest + 2 * swing**0.5
    end = 6 * met.prompt + 2 * D + 4 * swing**0.5
    variance = min(variance * (1 - rest / end), rest * rest * max(1 / met.rho - 1, 1))
    swing_of_slots = 0.8 * 0.5 * wait / rate
    weight, time, alone = own[0]
    assert tuple(found.ttft[0]) == approximate(
        (weight * (1 - met.nobody), begin + time, rest + wait, variance + swing_of_slots, inf)
    )
    usual, busy = met.idle - prompt.alone, prompt.alone / 384
    seldom = usual**2 * (2 - busy) / busy
    assert tuple(found.ttft[1]) == approximate(
        (weight * met.nobody, 1.25 + alone, usual + wait, seldom + swing_of_slots, inf)
    )
    assert_parts(
        found.tpot, list(per_token(server, prompt, met, 1 / 384, others, 0.5, 7.0, 1.25 + met.stage + met.decode))
    )


def test_random_arrivals_that_find_no_slot_wait_for_one_besides(monkeypatch):
    server, rate, others = rank(slots=4.0, prefill_slowdown=1.0), 1 / 400, 3.0
    prompt = prompt_of(server)
    full = module.saturation(server, prompt)
    assert rate < full.rate
    met = meeting(server, prompt, rate, others, 384.0, None)
    share, wait = module.slot_wait(server, full, met, rate, others)
    assert 0.05 < share < 0.95
    found = found_tails(monkeypatch, server, 500.0, (others, 384.0), request_rate=rate)
    late, soon, nobody = found.ttft
    each_wait = wait / share
    assert late.weight == pytest.approx(share)  # whoever waits for a slot finds others decoding
    assert soon.weight == pytest.approx(1 - met.nobody - share)
    assert (late.least, late.mean - soon.mean) == pytest.approx((soon.least, each_wait))
    assert late.variance - soon.variance == pytest.approx(each_wait**2)
    usual, busy = met.idle - prompt.alone, rate * prompt.alone
    assert tuple(nobody)[1:4] == approximate((1.25 + 19.6, usual, usual**2 * (2 - busy) / busy))
    mean = sum(part.weight * (part.least + part.mean) for part in found.ttft)
    assert mean == pytest.approx(500.0, rel=1e-9)


@each(("gap", "is_full"), [(255.0, True), (400.0, False)])
def test_where_all_slots_are_taken_every_answer_takes_as_long(gap, is_full):
    server, rate = rank(scheduler=PROMPTS_FIRST, slots=4.0), 1 / gap
    full, met = module.saturation(server, prompt_of(server)), meeting(server, prompt_of(server), rate, 4.0, 44.0, None)
    assert (rate * met.decode > 4.0) == is_full
    mean = 4 / rate / STEPS * (1 - (2 - 2 * rate / full.rate) ** 2 / (2 + STEPS / 15)) if is_full else met.step
    taken = met._replace(mean_step=met.mean_step * mean / met.step, decode=mean * STEPS)
    _, wait = module.slot_wait(server, full, taken, rate, 4.0)
    queue = wait + 900 * is_full  # some more wait for slots that prompts keep
    ttft = 1.25 + met.stage + queue
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = found_tails(monkeypatch, server, ttft, (4.0, 44.0), request_rate=rate)
    assert (found.tpot[0].variance == 0.0) == is_full
    if is_full:
        assert_parts(found.tpot, [Component(1.0, 5.0, mean - 5, 0.0)])  # 5 s where only one decodes
    assert mean_of(found.ttft) == pytest.approx(ttft, rel=1e-9)
    means = {"ttft": ttft, "tpot": mean, "e2el": ttft + mean * STEPS}
    slow, median = (module.latency_percentile(found, means, STEPS, "ttft", level) for level in (99.0, 50.0))
    assert slow > ttft > median


def test_a_percentile_whose_distribution_has_another_mean_is_not_known():
    parts = (Component(1.0, 1.0, 1.0, 0.5),)
    found = module.Tails(parts, parts, (Component(1.0, 3.0, 9.0, 40.0),), parts)
    means = {"ttft": 2.0, "tpot": 2.0, "itl": 2.0, "e2el": 12.0}
    steps = 5.0
    assert module.latency_percentile(found, means, steps, "ttft", 99.0) > 2.0
    assert module.latency_percentile(found, means, steps, "e2el", 99.0) > 12.0
    for metric, mean in (("ttft", 1.9), ("ttft", 2.11), ("tpot", 1.9), ("itl", 2.11)):
        off = {**means, metric: mean}
        known = {key: not isnan(module.latency_percentile(found, off, steps, key, 99.0)) for key in means}
        # the whole is not known without its parts
        assert known == {key: key != metric and not (key == "e2el" and metric in ("ttft", "tpot")) for key in means}
    assert isnan(module.latency_percentile(found, {**means, "e2el": 11.0}, steps, "e2el", 99.0))


@each(
    ("lengths", "spread"), [(EVEN, None), (Lengths(prompts=UNEVEN.prompts), (1.96 - 0.36 + 0.8 * 38.3 * 50 / 203) / 2)]
)
def test_single_tokens_of_users_end_with_a_round_of_the_prompts_of_all(lengths, spread):
    server = rank(osl=1.0, lengths=lengths)
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = found_tails(monkeypatch, server, 101.25, (0.0, 5.0, 9 / 101.25), concurrency=9.0)
    # full passes of 34.3 + 4 s and attention: 30 tokens or 70, nine users
    variance = 0.1**2 if spread is None else 9 * spread**2
    (one,) = found.ttft
    assert tuple(one) == approximate((1.0, 1.25, 100.0, variance, inf))
    assert found.e2el == found.ttft


def test_a_share_of_cold_starts_is_the_same_distribution_twice(monkeypatch):
    warm = found_tails(monkeypatch, rank(), 100.0, (3.0, 384.0), request_rate=1 / 384).ttft
    cold = found_tails(monkeypatch, rank(cold_start=(0.25, 8.0)), 102.0, (3.0, 384.0), request_rate=1 / 384).ttft
    expected = [part._replace(weight=0.75 * part.weight) for part in warm]
    expected += [part._replace(weight=0.25 * part.weight, least=part.least + 8.0) for part in warm]
    assert_parts(cold, expected)
    all_cold = found_tails(monkeypatch, rank(cold_start=(1.0, 8.0)), 108.0, (3.0, 384.0), request_rate=1 / 384).ttft
    assert_parts(all_cold, [part._replace(least=part.least + 8.0) for part in warm])


def test_prompts_of_several_lengths_are_three_groups_in_the_whole(monkeypatch):
    server = rank(lengths=Lengths(prompts=UNEVEN.prompts))
    found = found_tails(monkeypatch, server, 100.0, (3.0, 384.0), request_rate=1 / 384)
    assert len(found.ttft) == 4
    assert len(found.e2el) == 4  # the shorter half and the longer, each with and without others
    assert mean_of(found.itl) == pytest.approx(DECODE / STEPS)
    assert sum(part.weight for part in found.e2el) == pytest.approx(1.0)
    means = [sum(p.weight * (p.least + p.mean) for p in parts) for parts in (found.ttft, found.tpot, found.e2el)]
    assert means[2] == pytest.approx(means[0] + STEPS * means[1], rel=1e-9)


@each(("z", "cv", "share"), [
    (0.5, 0.0, 1 - 0.5 / 3), (1.0, 0.0, 2 / 3), (2.0, 0.0, 1 / 2 - 1 / 12), (2.0, 1.0, 2 * (1 + exp(-2)) / 4),
    (3.0, 2.0, 2 * (1.2 - 1 + exp(-1.2)) / 1.44),
])  # fmt: skip
def test_the_number_that_decode_is_forgotten_over_an_answer(z, cv, share):
    server = rank(lengths=Lengths(answers=Spread(cv=cv)))
    # nothing slows steps down, so that the number is forgotten as fast as answers end
    case = SimpleNamespace(server=server, met=SimpleNamespace(prompt=0.0, step=1.0), others=3.0, users=None)
    assert module._averaged_variance(case, z, -0.0) == pytest.approx(share, rel=1e-9)


def test_drafts_that_are_kept_by_luck_spread_the_time_per_token():
    # 100 tokens in steps of 2.5: 40 steps; of variance 1.25 a step, 1.25/(6.25 x 40) = 1/200 of an answer
    acceptance = SimpleNamespace(tokens=2.5, variance=1.25)
    server = rank(queries=3.0)
    vars(server.deployment).update(draft=SimpleNamespace(acceptance=acceptance), tokens_per_step=2.5)
    found = module._per_token(server, Component(0.5, 8.0, 2.0, 3.0), 1.0)
    least = 8 * (1 - 4 / 200**0.5)  # not below 2.5 of 3 tokens
    assert least < 8 * 2.5 / 3
    least = 8 * 2.5 / 3
    assert tuple(found) == approximate((0.5, least / 2.5, (10 - least) / 2.5, (3 + 100 / 200) / 2.5**2, inf))
    vars(server.deployment).update(queries=6.0)
    found = module._per_token(server, Component(0.5, 8.0, 2.0, 3.0), 1.0)
    assert found.least == pytest.approx(8 * (1 - 4 / 200**0.5) / 2.5)


# --- mixtures of gammas at numbers that can be worked out -----------------------------------------

exactly = lambda number: pytest.approx(number, rel=1e-12, abs=1e-12)  # noqa: E731


def test_where_waits_are_rare_a_share_waits_an_exponential_time():
    # mean 2, variance 12: k = 1/3, half of the requests wait, 4 on average
    assert gamma_survival(0.0, 2.0, 12.0) == exactly(0.5)
    assert gamma_survival(4.0, 2.0, 12.0) == exactly(0.5 * exp(-1))
    assert gamma_survival(-1e-9, 2.0, 12.0) == 1.0
    # k = 1: all wait exponentially
    assert gamma_survival(6.0, 2.0, 4.0) == exactly(exp(-3))


@each(
    ("place", "above"),
    [
        (0.0, 0.5), (1.0, 0.158655254), (2.0, 0.0227501319), (-1.0, 0.841344746), (3.0, 0.00134989803),
        (-3.0, 0.998650102),
    ],
)  # fmt: skip
def test_many_small_waits_follow_a_normal_in_their_cube_root(place, above):
    # k = 4, so that 3 k^0.5 = 6: t = mean (1 - 1/36 + place/6)^3; shares of a normal as tables have them
    time = 8.0 * (1 - 1 / 36 + place / 6) ** 3
    assert gamma_survival(time, 8.0, 16.0) == pytest.approx(above, abs=1e-7)


def test_a_survival_adds_its_parts_each_beyond_its_least_and_not_beyond_its_most():
    rare = Component(0.75, 1.0, 2.0, 12.0)
    ends = Component(0.25, 3.0, 2.0, 4.0, most=5.0)
    assert survival((rare, ends), 0.5) == exactly(1.0)
    assert survival((rare, ends), 5.0) == exactly(0.75 * 0.5 * exp(-1) + 0.25 * exp(-1))
    assert survival((rare, ends), 9.0) == exactly(0.75 * 0.5 * exp(-2))
    assert survival((ends,), 8.0) == 0.0  # its most is where it ends


def test_a_percentile_of_an_exponential_is_its_logarithm():
    part = Component(1.0, 5.0, 2.0, 4.0)
    assert survival((part,), percentile((part,), 90.0)) == pytest.approx(0.1, rel=2e-6)  # a millionth beyond, see below
    assert percentile((part,), 99.0) == pytest.approx(5 + 2 * 4.605170186, rel=1e-6)


def test_some_of_the_requests_take_longer():
    assert Component(0.5, 1.0, 2.0, 3.0, 4.0).later(10.0, 0.25) == Component(0.125, 11.0, 2.0, 3.0, 4.0)


def test_merged_parts_have_the_variance_within_and_between_them():
    parts = Component(0.1, 1.0, 2.0, 3.0), Component(0.3, 5.0, 2.0, 7.0)
    # 3 and 7 with weights 1 to 3: mean 6, within 6, between 3; the least is the first's
    assert merged(parts) == Component(exactly(0.4), 1.0, exactly(5.0), exactly(9.0))
    none = Component(0.0, 0.5, 0.0, 0.0)
    assert merged((none, *parts)).least == 1.0  # nobody has it
    assert merged((Component(0.5, 2.0, 0.0, 0.0),)) == Component(0.5, 2.0, 0.0, 0.0, inf)


def test_a_percentile_at_a_jump_is_on_its_slower_side():
    # 99 % take 1 to a little over 1 s, 1 % take 9 s: each time between leaves 1 %
    parts = Component(0.99, 1.0, 0.0, 0.0), Component(0.01, 9.0, 0.0, 0.0)
    assert percentile(parts, 99.0) == pytest.approx(9.0, rel=1e-6)
    assert percentile(parts, 98.9) == pytest.approx(1.0, rel=1e-6)
    level = 100.0 * (1.0 - 0.008)
    assert percentile((parts[0]._replace(weight=0.992), parts[1]._replace(weight=0.008)), level) == pytest.approx(9.0)
    cold = percentile((Component(0.99, 1.0, 0.2, 0.04), Component(0.01, 9.0, 0.2, 0.04)), 99.0)
    assert 8.999 < cold < 9.01


def test_the_mean_of_a_mixture_is_that_of_its_parts_by_weight():
    assert mean_of((Component(0.25, 1.0, 3.0, 5.0), Component(0.75, 2.0, 0.0, 0.0))) == exactly(2.5)


def test_prompts_are_grouped_into_the_shorter_half_most_of_the_longer_and_the_longest():
    prompts = Spread(cv=0.1, slices=((0.3, 0.8), (0.25, 0.9), (0.37, 1.1), (0.08, 1.5)))
    parts = [
        Component(share * weight, later + time, 0.0, 0.0)
        for weight, time in ((0.3, 1.0), (0.25, 2.0), (0.37, 4.0), (0.08, 8.0))
        for share, later in ((0.75, 10.0), (0.25, 0.0))  # with others, and on an idle server: not mixed
    ]
    found = by_prompt_length(parts, prompts)
    weights = [exactly(share * weight) for weight in (0.55, 0.37, 0.08) for share in (0.75, 0.25)]
    assert [each_part.weight for each_part in found] == weights
    mean = (0.3 + 0.5) / 0.55
    times = [exactly(later + time) for time in (mean, 4.0, 8.0) for later in (10.0, 0.0)]
    assert [each_part.least + each_part.mean for each_part in found] == times
    assert found[1].variance == exactly((0.3 * (1 - mean) ** 2 + 0.25 * (2 - mean) ** 2) / 0.55)
    assert found[0].variance == exactly(found[1].variance)
