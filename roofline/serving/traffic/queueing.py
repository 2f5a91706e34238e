"""A server under a load: mean latencies of an open loop and of a closed one, as the fixed point of one round.

A round takes what a request would meet (how many others decode, how long a step is) and returns what follows from it.
`serving.load` finds where both agree. Nothing here was fitted to servers; docs/method.md, "A server under load", has
the equations, and how far they are from a simulation of every step.
"""

from __future__ import annotations

from roofline.ops import Real, comparable, maximum, minimum, never, where
from roofline.quantity import NANO
from roofline.records import NamedTuple
from roofline.serving.traffic.prompts import Prompt, added, added_by_node, turns
from roofline.serving.traffic.server import PROMPTS_FIRST, STABLE, Server

__all__ = [
    "LEAST_BUDGET",
    "Meeting",
    "idle_time",
    "meeting",
    "over_answers",
    "queue_wait",
    "step_of_answer",
]

#: Share of the budget that prompts get where sequences would take all of it.
LEAST_BUDGET = 0.02

_E = 2.718281828459045
_HALF = 0.5  # of the time, at most, that a prompt saves by being the first


@comparable
class Meeting(NamedTuple):
    """What a request meets under a load, and what follows for the next round."""

    stage: Real  # [s] from the end of its request to its first token
    step: Real  # [s] mean over requests of the mean of their decode steps, prompts of others included
    decode: Real  # [s] mean over requests from the first token to the last
    plain: Real  # [s] d, a decode step without a prompt
    mean_step: Real  # [s] E1, mean over all steps
    seen: Real  # m of decode-first, the step that a request arrives in [s]; p of prompts-first [s]
    prompt: Real  # [s] p, what a prompt adds to the steps of others
    rho: Real  # share of the time that prompts take [1]
    in_full: Real  # a prompt computed in full steps, those who decode included [s]
    rho_chunks: Real  # share of the time that prompts would take in full steps [1]
    nobody: Real  # probability that nobody decodes when a request comes [1]
    idle: Real  # [s] its stage then
    wait: Real  # [s] W_e, what the budget adds to it otherwise; 0 of prompts-first
    room: Real  # [tokens] C_e that a step leaves for prompts
    surge: Real  # [s] P back / (1 - rho), by which the first steps of an answer are longer in all
    rounds: Real  # n_r, steps in which that is over [1]
    biased: Real  # [s] m, the length-biased step


def queue_wait(rate: Real, mean: Real, square: Real) -> Real:
    r"""Mean wait before one server that takes its customers one by one.

    .. math:: w = \frac{l\, E[t^2]}{2 (1 - l\, E[t])}

    Args:
        rate: customers that come at random, l [1/s].
        mean: of their service time, E[t] [s].
        square: mean of its square, E[t^2] [s^2].

    Returns:
        Time; a share of `STABLE` of the time stands for more [s].

    Source:
        Pollaczek, 1930, and Khinchine, 1932: M/G/1; with E[t^2] = 2 E[t]^2 it is M/M/1, with E[t]^2 M/D/1.

    >>> queue_wait(0.5, 1.0, 1.0), queue_wait(0.5, 1.0, 2.0)
    (0.5, 1.0)
    """
    return rate * square / (2.0 * (1.0 - minimum(rate * mean, STABLE)))


def idle_time(prompt: Prompt, rate: Real, each: Real, square: Real | None = None) -> Real:
    r"""Time to the first token of a request that finds nobody decoding: its prompt, behind other prompts.

    .. math:: t = A + \frac{l\, E[S^2]}{2 (1 - l S)} + \frac{l (E[A^2] - E[S^2])}{2 (1 + l (A - S))}

    A prompt that finds the server idle takes A, those that follow it S.

    Args:
        prompt: the mean prompt.
        rate: requests of the rank [1/s].
        each: what a prompt adds to others, S [s].
        square: mean of its square; None where all prompts are equal [s^2].

    Returns:
        Time; with S = A that of an M/D/1 queue [s].

    Source:
        Welch, Operations Research 12(5), 1964: M/G/1 whose first service of a busy period is another.
    """
    alone = prompt.alone
    second = each * each if square is None else square
    first = alone * alone if square is None else prompt.mean(lambda node: node.alone * node.alone)
    follow = queue_wait(rate, each, second)
    begin = rate * (first - second) / (2.0 * (1.0 + maximum(rate * (alone - each), -_HALF)))
    return alone + follow + begin


def meeting(server: Server, prompt: Prompt, rate: Real, others: Real, seen: Real, users: Real | None) -> Meeting:
    """One round: what a request meets where `others` decode and `seen` is as the last round found it.

    Args:
        server: a rank.
        prompt: its mean prompt.
        rate: requests that come to the rank [1/s].
        others: sequences that decode there, on average [sequences].
        seen: `Meeting.seen` of the last round [s].
        users: requests in flight on the rank, of a closed loop; None of an open one [requests].

    Returns:
        What follows.

    Source:
        docs/method.md, "A server under load": M/G/1 with the length-biased step, the budget as a second server.
    """
    if server.engine.scheduler == PROMPTS_FIRST:
        return _prompts_first(server, prompt, rate, others, seen, users)
    return _decode_first(server, prompt, rate, others, seen, users)


def _decode_first(server: Server, prompt: Prompt, rate: Real, others: Real, seen: Real, users: Real | None) -> Meeting:
    length, budget = prompt.length, server.budget
    decoding = 1.0 + others
    parts = server.decode(decoding)
    base = server.beside(decoding, parts)
    plain = parts.total
    queries = server.deployment.queries
    room = maximum(budget - others * queries, LEAST_BUDGET * budget)
    together = minimum(room, length * (1.0 + rate * seen))
    mine = minimum(room, length)
    usual = added(server, prompt, decoding, base, together, length, prompt.attention)
    own = added(server, prompt, decoding, base, mine, length, prompt.attention)
    full = added(server, prompt, decoding, base, room, length, prompt.attention)
    in_full = full + plain * length / room
    squares = usual * usual, in_full * in_full
    taken = turns(length, room, others * queries**2)
    if prompt.nodes:
        squares = (
            prompt.mean(lambda node: added_by_node(server, prompt, usual, node) ** 2),
            prompt.mean(lambda node: (added_by_node(server, prompt, full, node) + plain * node.length / room) ** 2),
        )
        taken = prompt.mean(lambda node: turns(node.length, room, others * queries**2))
    rho = minimum(rate * usual, STABLE)
    mean_step = plain / (1.0 - rho)
    square = rate * squares[0] * (1.0 if users is None else 1.0 - rho)
    biased = (plain * plain / mean_step + 2.0 * plain * rho + square) / (1.0 - rho * rho)
    rho_chunks = minimum(rate * in_full, STABLE)
    queue = queue_wait(rate, in_full, squares[1]) - square / (2.0 * (1.0 - rho))
    wait = maximum(queue, 0.0) * (1.0 if users is None else 1.0 - rho_chunks)
    extra = wait + (taken - 1.0) * plain
    mine_step = plain + own + rate * biased * usual
    if users is None:
        first = biased / 2.0 + mine_step + extra
    else:
        rest, mates = _after_an_answer(server.before + server.engine.arrival, rate, rho, plain, usual, mean_step)
        first = rest + plain + own + mates * usual + extra
    nobody = _nobody(others, users)
    idle = idle_time(prompt, rate, usual, squares[0] if prompt.nodes else None)
    stage = (1.0 - nobody) * (server.engine.arrival + first) + nobody * idle
    per_full = in_full * room / length
    back = rate * ((1.0 - nobody) * (mine_step + extra) + nobody * idle) - rate * mean_step * (1.0 + extra / per_full)
    rounds = maximum(1.0, rate * first * length / room) / (1.0 - rho_chunks)
    surge = usual * back / (1.0 - rho)
    step, decode = over_answers(server, mean_step, surge, rounds, plain)
    return Meeting(
        stage, step, decode, plain, mean_step, biased, usual, rho, in_full, rho_chunks, nobody, idle, wait, room, surge,
        rounds, biased,
    )  # fmt: skip


def step_of_answer(steps: Real, mean_step: Real, surge: Real, rounds: Real, plain: Real) -> Real:
    r"""Mean decode step of an answer: the prompts that came with its own make its first steps the longer.

    .. math:: T = E_1 + \frac{s}{N} \left(1 - e^{-N / r}\right)

    Args:
        steps: N, of the answer [1].
        mean_step: E1, over all steps of the server [s].
        surge: s, by which the steps after a first token are longer in all [s].
        rounds: r, steps in which that is over; 0 for at once [1].
        plain: a decode step without a prompt, the least [s].

    Returns:
        Time [s].

    Source:
        docs/method.md, "A server under load".
    """
    settled = 1.0 if never(rounds > 0.0) else 1.0 - _E ** (-steps / rounds)
    return maximum(mean_step + surge * settled / steps, plain)


def over_answers(server: Server, mean_step: Real, surge: Real, rounds: Real, plain: Real) -> tuple[Real, Real]:
    """Mean over requests of their mean decode step, and of the time of all of their steps.

    Args:
        server: a rank.
        mean_step: as of `step_of_answer` [s].
        surge: as of `step_of_answer` [s].
        rounds: as of `step_of_answer` [1].
        plain: as of `step_of_answer` [s].

    Returns:
        Both [s].
    """
    if server.lengths.answers.is_fixed:
        step = step_of_answer(server.steps, mean_step, surge, rounds, plain)
        return step, server.steps_of() * step
    mean: Real = 0.0
    whole: Real = 0.0
    for weight, share in server.lengths.answers.nodes:
        steps = maximum(server.steps_of(share), 0.0)
        step = step_of_answer(maximum(steps, 1.0), mean_step, surge, rounds, plain)
        mean, whole = mean + weight * step, whole + weight * steps * step
    return mean, whole


def _after_an_answer(
    before: Real, rate: Real, rho: Real, plain: Real, usual: Real, mean_step: Real
) -> tuple[Real, Real]:
    """What a user who asks again meets: answers end with a step, so that the next request comes `before` after one.

    Returns:
        Rest of the step that runs then [s], and prompts of others that come in the same step.
    """
    begun = rate * mean_step  # prompts of a step
    free = rate / (1.0 - rho)  # of the time in which answers end: not while prompts are computed
    longer = plain + usual * maximum(begun, 1.0)  # a step with prompts
    window = begun + free * before
    share = minimum(rate * longer, 1.0 - _E ** (0.0 - window))
    rest = share * maximum(longer - before / 2.0, longer / 2.0) + (1.0 - share) * plain / 2.0
    mates = share * minimum(rate * longer, window) + (1.0 - share) * rate * plain
    return where(before > 0.0, rest, 0.0), mates


def _prompts_first(server: Server, prompt: Prompt, rate: Real, others: Real, seen: Real, users: Real | None) -> Meeting:
    length, budget = prompt.length, server.budget
    decoding = 1.0 + others
    plain = server.decode(decoding).total
    together = length * (1.0 + rate * seen)
    usual = added(server, prompt, decoding, 0.0, together / turns(together, budget, 0.0), length, prompt.attention)
    own = added(server, prompt, decoding, 0.0, length / turns(length, budget, 0.0), length, prompt.attention)
    rho = minimum(rate * usual, STABLE)
    mean_step = plain / (1.0 - rho)
    second = usual * usual
    if prompt.nodes:
        second = prompt.mean(lambda node: added_by_node(server, prompt, usual, node) ** 2)
    square = rate * second
    if users is not None:
        # Answers end while nobody's prompt is computed, so that requests come in bunches where they take long on their
        # way, and wait for their turn to end where they do not: an interpolation between both, seen in simulations.
        before = server.before + server.engine.arrival
        square = square * (1.0 - rho) ** ((usual - before) / (usual + before))
    biased = (square + plain * (1.0 - rho)) / (1.0 - rho * rho)
    mine_step = own + rate * biased * usual
    in_one = minimum(1.0, budget / (length * (1.0 + rate * biased)))
    behind = own + square / (2.0 * (1.0 - rho)) + (1.0 - rho) * plain / 2.0
    first = in_one * (biased / 2.0 + mine_step) + (1.0 - in_one) * behind
    nobody = _nobody(others, users)
    idle = idle_time(prompt, rate, usual, second if prompt.nodes else None)
    stage = (1.0 - nobody) * (server.engine.arrival + first) + nobody * idle
    met = in_one * mine_step + (1.0 - in_one) * first
    surge = usual * rate * met / (1.0 - rho)
    step, decode = over_answers(server, mean_step, surge, 0.0, plain)
    return Meeting(
        stage, step, decode, plain, mean_step, usual, usual, rho, usual, rho, nobody, idle, first - own, budget, surge,
        0.0, biased,
    )  # fmt: skip


def _nobody(others: Real, users: Real | None) -> Real:
    """Probability that nobody decodes when a request comes: Poisson, or binomial of the other users."""
    if users is None:
        return _E ** (0.0 - others)
    rest = maximum(users - 1.0, NANO)
    return maximum(1.0 - others / rest, 0.0) ** rest
