"""Mean latencies of a server under a load, as the fixed point of one round.

A round maps what a request meets (how many others decode, how long a step is) to what follows from it;
`serving.traffic.load` finds the fixed point. Nothing here is fitted to servers. docs/method.md, "A server under load",
has the equations and their errors against a simulation of every step.

"""

from __future__ import annotations

from roofline.ops import Real, comparable, maximum, minimum, never, where
from roofline.quantity import NANO
from roofline.records import NamedTuple
from roofline.serving.traffic.prompts import Prompt, added, added_by_node, turns
from roofline.serving.traffic.server import PROMPTS_FIRST, STABLE, Server

#: Smallest share of the token budget that is left for prompts.
LEAST_BUDGET = 0.02

_E = 2.718281828459045
_HALF = 0.5  # bound on the share of time that a first prompt saves


@comparable
class Meeting(NamedTuple):
    """What a request meets under a load, and the results of the round."""

    stage: Real  # [s] from the end of the host's request time to the first token
    step: Real  # [s] mean decode step of a request, averaged over requests, with others' prompts in it
    decode: Real  # [s] mean over requests from the first token to the last
    plain: Real  # [s] d, a decode step without a prompt
    mean_step: Real  # [s] E1, mean over all steps
    seen: Real  # [s] decode first: m, the step that a request arrives in; prompts first: p
    prompt: Real  # [s] p, time that a prompt adds to the steps of others
    rho: Real  # share of time that prompts take [1]
    in_full: Real  # [s] of a prompt in full steps, decoding included
    rho_chunks: Real  # share of time that prompts would take in full steps [1]
    nobody: Real  # probability that no sequence decodes when a request arrives [1]
    idle: Real  # [s] `stage` in that case
    wait: Real  # [s] W_e, added by the token budget otherwise; 0 for prompts first
    room: Real  # [tokens] C_e, left for prompts in a step
    surge: Real  # [s] total excess of the first steps of an answer, from prompts that arrived with it
    rounds: Real  # n_r, steps over which that excess decays [1]
    biased: Real  # [s] m, length-biased mean step


def queue_wait(rate: Real, mean: Real, square: Real) -> Real:
    r"""Mean wait in a single-server queue with Poisson arrivals.

    .. math:: w = \frac{l\, E[t^2]}{2 (1 - l\, E[t])}

    Args:
        rate: arrivals l [1/s].
        mean: service time, E[t] [s].
        square: its mean square, E[t^2] [s^2].

    Returns:
        Time [s]; the utilization is capped at `STABLE`.

    Source:
        Pollaczek, 1930, and Khinchine, 1932: M/G/1; with E[t^2] = 2 E[t]^2 it is M/M/1, with E[t]^2 M/D/1.

    >>> queue_wait(0.5, 1.0, 1.0), queue_wait(0.5, 1.0, 2.0)
    (0.5, 1.0)
    """
    return rate * square / (2.0 * (1.0 - minimum(rate * mean, STABLE)))


def idle_time(prompt: Prompt, rate: Real, each: Real, square: Real | None = None) -> Real:
    r"""Time to first token of a request that finds no sequence decoding: its prompt, behind other prompts.

    .. math:: t = A + \frac{l\, E[S^2]}{2 (1 - l S)} + \frac{l (E[A^2] - E[S^2])}{2 (1 + l (A - S))}

    A prompt that finds the server idle takes A, those behind it S.

    Args:
        prompt: the mean prompt.
        rate: arrivals at the rank [1/s].
        each: time S that a prompt adds to others [s].
        square: its mean square; None where all prompts are equal [s^2].

    Returns:
        Time [s]; with S = A that of M/D/1.

    Source:
        Welch, Operations Research 12(5), 1964: M/G/1 with an exceptional first service of each busy period.
    """
    alone = prompt.alone
    second = each * each if square is None else square
    first = alone * alone if square is None else prompt.mean(lambda node: node.alone * node.alone)
    follow = queue_wait(rate, each, second)
    begin = rate * (first - second) / (2.0 * (1.0 + maximum(rate * (alone - each), -_HALF)))
    return alone + follow + begin


def meeting(server: Server, prompt: Prompt, rate: Real, others: Real, seen: Real, users: Real | None) -> Meeting:
    """One round: what a request meets with `others` decoding and `seen` from the last round.

    Args:
        server: a rank.
        prompt: its mean prompt.
        rate: arrivals at the rank [1/s].
        others: mean decoding sequences there [sequences].
        seen: `Meeting.seen` of the last round [s].
        users: requests in flight on the rank, closed loop; None for an open one [requests].

    Returns:
        The results of the round.

    Source:
        docs/method.md, "A server under load": M/G/1 with the length-biased step; the token budget as a second server.
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
    alone_tokens = minimum(room, length)
    usual = added(server, prompt, decoding, base, together, length, prompt.attention)
    alone = added(server, prompt, decoding, base, alone_tokens, length, prompt.attention)
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
    own_step = plain + alone + rate * biased * usual
    if users is None:
        first = biased / 2.0 + own_step + extra
    else:
        rest, mates = _after_an_answer(server.before + server.engine.arrival, rate, rho, plain, usual, mean_step)
        first = rest + plain + alone + mates * usual + extra
    nobody = _nobody(others, users)
    idle = idle_time(prompt, rate, usual, squares[0] if prompt.nodes else None)
    stage = (1.0 - nobody) * (server.engine.arrival + first) + nobody * idle
    per_full = in_full * room / length
    excess = rate * ((1.0 - nobody) * (own_step + extra) + nobody * idle) - rate * mean_step * (1.0 + extra / per_full)
    rounds = maximum(1.0, rate * first * length / room) / (1.0 - rho_chunks)
    surge = usual * excess / (1.0 - rho)
    step, decode = over_answers(server, mean_step, surge, rounds, plain)
    return Meeting(
        stage, step, decode, plain, mean_step, biased, usual, rho, in_full, rho_chunks, nobody, idle, wait, room, surge,
        rounds, biased,
    )  # fmt: skip


def step_of_answer(steps: Real, mean_step: Real, surge: Real, rounds: Real, plain: Real) -> Real:
    r"""Mean decode step of an answer: prompts that arrived with its own lengthen its first steps.

    .. math:: T = E_1 + \frac{s}{N} \left(1 - e^{-N / r}\right)

    Args:
        steps: N, of the answer [1].
        mean_step: E1, over all steps of the server [s].
        surge: s, total excess of the steps after a first token [s].
        rounds: r, steps over which it decays; 0 for at once [1].
        plain: a decode step without a prompt, the lower bound [s].

    Returns:
        Time [s].

    Source:
        docs/method.md, "A server under load".
    """
    settled = 1.0 if never(rounds > 0.0) else 1.0 - _E ** (-steps / rounds)
    return maximum(mean_step + surge * settled / steps, plain)


def over_answers(server: Server, mean_step: Real, surge: Real, rounds: Real, plain: Real) -> tuple[Real, Real]:
    """Mean decode step of a request, averaged over requests, and mean time of all its steps [s]."""
    if server.lengths.answers.is_fixed:
        step = step_of_answer(server.steps, mean_step, surge, rounds, plain)
        return step, server.steps_of() * step
    mean: Real = 0.0
    decode: Real = 0.0
    for weight, share in server.lengths.answers.nodes:
        steps = maximum(server.steps_of(share), 0.0)
        step = step_of_answer(maximum(steps, 1.0), mean_step, surge, rounds, plain)
        mean, decode = mean + weight * step, decode + weight * steps * step
    return mean, decode


def _after_an_answer(
    before: Real, rate: Real, rho: Real, plain: Real, usual: Real, mean_step: Real
) -> tuple[Real, Real]:
    """Rest of the running step [s] and prompts of others in the same step, for a user who asks again.

    Answers end with a step, so that the next request arrives `before` after the end of one.
    """
    prompts = rate * mean_step  # prompts per step
    free = rate / (1.0 - rho)  # per time in which answers can end: not while prompts are computed
    longer = plain + usual * maximum(prompts, 1.0)  # a step with prompts
    window = prompts + free * before
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
    alone = added(server, prompt, decoding, 0.0, length / turns(length, budget, 0.0), length, prompt.attention)
    rho = minimum(rate * usual, STABLE)
    mean_step = plain / (1.0 - rho)
    second = usual * usual
    if prompt.nodes:
        second = prompt.mean(lambda node: added_by_node(server, prompt, usual, node) ** 2)
    square = rate * second
    if users is not None:
        # Answers end while no prompt is computed. Requests with a long round trip then arrive in bunches; with a
        # short one they wait for the running step. The interpolation between both was chosen by simulation.
        before = server.before + server.engine.arrival
        square = square * (1.0 - rho) ** ((usual - before) / (usual + before))
    biased = (square + plain * (1.0 - rho)) / (1.0 - rho * rho)
    own_step = alone + rate * biased * usual
    in_one = minimum(1.0, budget / (length * (1.0 + rate * biased)))
    behind = alone + square / (2.0 * (1.0 - rho)) + (1.0 - rho) * plain / 2.0
    first = in_one * (biased / 2.0 + own_step) + (1.0 - in_one) * behind
    nobody = _nobody(others, users)
    idle = idle_time(prompt, rate, usual, second if prompt.nodes else None)
    stage = (1.0 - nobody) * (server.engine.arrival + first) + nobody * idle
    met = in_one * own_step + (1.0 - in_one) * first
    surge = usual * rate * met / (1.0 - rho)
    step, decode = over_answers(server, mean_step, surge, 0.0, plain)
    return Meeting(
        stage, step, decode, plain, mean_step, usual, usual, rho, usual, rho, nobody, idle, first - alone, budget,
        surge, 0.0, biased,
    )  # fmt: skip


def _nobody(others: Real, users: Real | None) -> Real:
    """Probability that no sequence decodes when a request arrives: Poisson, or binomial over the other users."""
    if users is None:
        return _E ** (0.0 - others)
    rest = maximum(users - 1.0, NANO)
    return maximum(1.0 - others / rest, 0.0) ** rest
