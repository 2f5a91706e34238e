"""A server under a load: mean latencies of an open loop and of a closed one, as the fixed point of one round.

A round takes what a request would meet (how many others decode, how long a step is) and returns what follows from it.
`serving.load` finds where both agree. Nothing here was fitted to servers; docs/method.md, "A server under load", has
the equations, and how far they are from a simulation of every step.
"""

from __future__ import annotations

from typing import NamedTuple

from roofline.elements import any_of
from roofline.ops import Real, above, below, comparable, floor, maximum, minimum, where
from roofline.quantity import NANO
from roofline.serving.server import PROMPTS_FIRST, Server

__all__ = [
    "Meeting",
    "Prompt",
    "Saturation",
    "added",
    "idle_time",
    "meeting",
    "prompt_of",
    "queue_wait",
    "saturation",
    "slot_wait",
    "turns",
]

_E = 2.718281828459045
_LEAST_BUDGET = 0.02  # share of the budget that prompts get where sequences would take all of it
_LEAST_BLUR = 0.002  # of the steps that a prompt takes
_STABLE = 0.9999  # largest utilisation in a round: a fixed point beyond it is none
_MOST_SLOTS = 1 << 16  # that are looked at
_NEVER = 2.0**40  # times as likely as that all slots are taken
_HALF = 0.5  # of the time, at most, that a prompt saves by being the first


@comparable
class Prompt(NamedTuple):
    """What does not depend on the load: a prompt of the mean length."""

    length: Real  # [tokens] S, those that are computed
    attention: Real  # [s] a, over all chunks
    head: Real  # [s] of one sequence
    alone: Real  # [s] on an idle server


@comparable
class Meeting(NamedTuple):
    """What a request meets under a load, and what follows for the next round."""

    stage: Real  # [s] from the end of its request to its first token
    step: Real  # [s] T(O), mean over its decode steps, prompts of others included
    plain: Real  # [s] d, a decode step without a prompt
    mean_step: Real  # [s] E1, mean over all steps
    seen: Real  # m of decode-first, the step that a request arrives in [s]; p of prompts-first [s]
    prompt: Real  # [s] p, what a prompt adds to the steps of others
    rho: Real  # share of the time that prompts take [1]
    in_full: Real  # a prompt computed in full steps, those who decode included [s]
    rho_chunks: Real  # share of the time that prompts would take in full steps [1]


class Saturation(NamedTuple):
    """The most that one rank can serve."""

    rate: Real  # [1/s] requests
    slots: Real  # [sequences] that run at most
    step: Real  # [s] D at the sequences that run then
    sequences: Real  # that decode then


def prompt_of(server: Server) -> Prompt:
    """The mean prompt of a server.

    Args:
        server: a rank.

    Returns:
        Its length and times.
    """
    return Prompt(server.computed, server.prompt_attention(), server.head(), server.alone())


def added(
    server: Server, prompt: Prompt, sequences: Real, base: Real, tokens: Real, length: Real, attention: Real
) -> Real:
    r"""What a prompt adds to the time of others.

    .. math:: P(b, n, s, a) = x \left[G(b + n) - G(b)\right] \frac{s}{n} + x a + h_{pre}

    of decode-first schedulers; with prompts first G(n) and the head stand in the bracket.

    Args:
        server: a rank.
        prompt: the mean prompt.
        sequences: b that decode in the same steps [sequences].
        base: G(b), everything but attention, head and host of a step without a prompt [s].
        tokens: n of prompts that a step computes with them [tokens].
        length: s of this prompt [tokens].
        attention: a, of the whole prompt [s].

    Returns:
        Time [s].

    Valid:
        Attention and head do not gain from company; what else a step computes reads its weights once.

    Source:
        docs/method.md, "A server under load".
    """
    engine = server.engine
    if engine.scheduler == PROMPTS_FIRST:
        shared = server.linear(1.0, tokens - 1.0) + prompt.head
    else:
        shared = maximum(server.linear(sequences, tokens) - base, 0.0)
    return engine.stretch * (shared * length / tokens + attention) + engine.prefill


def turns(length: Real, room: Real, others: Real) -> Real:
    """Steps that a prompt takes, on average: whole ones, and one more where the sequences leave too little room.

    Args:
        length: tokens of the prompt [tokens].
        room: tokens that a step leaves for prompts, on average [tokens].
        others: sequences that decode, on average: they vary like their root [sequences].

    Returns:
        Steps, at least one [1].
    """
    exact = length / room
    whole = floor(exact)
    blur = minimum((others + 1.0) ** 0.5 / room * exact + _LEAST_BLUR, 1.0)
    return maximum(whole + minimum((exact - whole) / blur, 1.0), 1.0)


def queue_wait(rate: Real, mean: Real, square: Real) -> Real:
    r"""Mean wait before one server that takes its customers one by one.

    .. math:: w = \frac{l\, E[t^2]}{2 (1 - l\, E[t])}

    Args:
        rate: customers that come at random, l [1/s].
        mean: of their service time, E[t] [s].
        square: mean of its square, E[t^2] [s^2].

    Returns:
        Time; a share of `_STABLE` of the time stands for more [s].

    Source:
        Pollaczek, 1930, and Khinchine, 1932: M/G/1; with E[t^2] = 2 E[t]^2 it is M/M/1, with E[t]^2 M/D/1.

    >>> queue_wait(0.5, 1.0, 1.0), queue_wait(0.5, 1.0, 2.0)
    (0.5, 1.0)
    """
    return rate * square / (2.0 * (1.0 - minimum(rate * mean, _STABLE)))


def idle_time(prompt: Prompt, rate: Real, each: Real) -> Real:
    r"""Time to the first token of a request that finds nobody decoding: its prompt, behind other prompts.

    .. math:: t = A + \frac{l S^2}{2 (1 - l S)} + \frac{l (A^2 - S^2)}{2 (1 + l (A - S))}

    A prompt that finds the server idle takes A, those that follow it S.

    Args:
        prompt: the mean prompt.
        rate: requests of the rank [1/s].
        each: what a prompt adds to others, S [s].

    Returns:
        Time; with S = A that of an M/D/1 queue [s].

    Source:
        Welch, Operations Research 12(5), 1964: M/G/1 whose first service of a busy period is another.
    """
    alone = prompt.alone
    follow = queue_wait(rate, each, each * each)
    begin = rate * (alone * alone - each * each) / (2.0 * (1.0 + maximum(rate * (alone - each), -_HALF)))
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
    length, budget, steps = prompt.length, server.budget, server.steps
    decoding = 1.0 + others
    parts = server.decode(decoding)
    base = parts.linear if server.deployment.plan.dp == 1 else server.linear(decoding, 0.0)
    plain = parts.total
    room = maximum(budget - others, _LEAST_BUDGET * budget)
    together = minimum(room, length * (1.0 + rate * seen))
    mine = minimum(room, length)
    usual = added(server, prompt, decoding, base, together, length, prompt.attention)
    own = added(server, prompt, decoding, base, mine, length, prompt.attention)
    full = added(server, prompt, decoding, base, room, length, prompt.attention) - server.engine.prefill
    rho = minimum(rate * usual, _STABLE)
    mean_step = plain / (1.0 - rho)
    square = rate * usual * usual * (1.0 if users is None else 1.0 - rho)
    biased = (plain * plain / mean_step + 2.0 * plain * rho + square) / (1.0 - rho * rho)
    in_full = full + plain * length / room
    rho_chunks = minimum(rate * in_full, _STABLE)
    queue = queue_wait(rate, in_full, in_full * in_full) - square / (2.0 * (1.0 - rho))
    wait = maximum(queue, 0.0) * (1.0 if users is None else 1.0 - rho_chunks)
    extra = wait + (turns(length, room, others) - 1.0) * plain
    mine_step = plain + own + rate * biased * usual
    if users is None:
        first = biased / 2.0 + mine_step + extra
    else:
        rest, mates = _after_an_answer(server.before, rate, rho, plain, usual, mean_step)
        first = rest + plain + own + mates * usual + extra
    nobody = _nobody(others, users)
    idle = idle_time(prompt, rate, usual)
    stage = (1.0 - nobody) * first + nobody * idle
    per_full = in_full * room / length
    back = rate * ((1.0 - nobody) * (mine_step + extra) + nobody * idle) - rate * mean_step * (1.0 + extra / per_full)
    rounds = maximum(1.0, rate * first * length / room) / (1.0 - rho_chunks)
    settled = 1.0 - _E ** (-steps / rounds)
    step = maximum(mean_step + usual * back / (1.0 - rho) * settled / steps, plain)
    return Meeting(stage, step, plain, mean_step, biased, usual, rho, in_full, rho_chunks)


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
    length, budget, steps = prompt.length, server.budget, server.steps
    decoding = 1.0 + others
    plain = server.decode(decoding).total
    together = length * (1.0 + rate * seen)
    usual = added(server, prompt, decoding, 0.0, together / turns(together, budget, 0.0), length, prompt.attention)
    own = added(server, prompt, decoding, 0.0, length / turns(length, budget, 0.0), length, prompt.attention)
    rho = minimum(rate * usual, _STABLE)
    mean_step = plain / (1.0 - rho)
    square = rate * usual * usual
    if users is not None:
        # Answers end while nobody's prompt is computed, so that requests come in bunches where they take long on their
        # way, and wait for their turn to end where they do not: an interpolation between both, seen in simulations.
        square = square * (1.0 - rho) ** ((usual - server.before) / (usual + server.before))
    biased = (square + plain * (1.0 - rho)) / (1.0 - rho * rho)
    mine_step = own + rate * biased * usual
    in_one = minimum(1.0, budget / (length * (1.0 + rate * biased)))
    behind = own + square / (2.0 * (1.0 - rho)) + (1.0 - rho) * plain / 2.0
    first = in_one * (biased / 2.0 + mine_step) + (1.0 - in_one) * behind
    nobody = _nobody(others, users)
    stage = (1.0 - nobody) * first + nobody * idle_time(prompt, rate, usual)
    met = in_one * mine_step + (1.0 - in_one) * first
    step = mean_step + usual * rate * met / (1.0 - rho) / steps
    return Meeting(stage, step, plain, mean_step, usual, usual, rho, usual, rho)


def _nobody(others: Real, users: Real | None) -> Real:
    """Probability that nobody decodes when a request comes: Poisson, or binomial of the other users."""
    if users is None:
        return _E ** (0.0 - others)
    rest = maximum(users - 1.0, NANO)
    return maximum(1.0 - others / rest, 0.0) ** rest


def saturation(server: Server, prompt: Prompt) -> Saturation:
    r"""The largest rate that a rank can serve.

    .. math:: X_{sat} = \frac{y}{D(b) + y\, P(b, n)},\quad
              y = \min\left(\frac{b_{max}}{O - 1}, \frac{C}{S + O - 1}\right)

    y requests begin with each step: as many as end, with all slots taken or all of the budget.

    Args:
        server: a rank.
        prompt: its mean prompt.

    Returns:
        The rate [1/s], and what runs then.

    Source:
        docs/method.md, "A server under load".
    """
    slots, steps, length, budget = server.slots, server.osl - 1.0, prompt.length, server.budget
    is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
    begin = slots / maximum(steps, 1.0)
    if not is_prompts_first:
        begin = minimum(begin, budget / (length + steps))
    begin = where(steps > 0.0, begin, budget / length)
    sequences = minimum(maximum(begin * steps, 1.0), slots)
    parts = server.decode(sequences)
    base = parts.linear if server.deployment.plan.dp == 1 else server.linear(sequences, 0.0)
    room = budget if is_prompts_first else maximum(budget - sequences, _LEAST_BUDGET * budget)
    tokens = maximum(minimum(room, length * (1.0 + begin)), 1.0)
    usual = added(server, prompt, sequences, base, tokens, length, prompt.attention)
    return Saturation(begin / (parts.total + begin * usual), slots, parts.total, sequences)


def slot_wait(server: Server, full: Saturation, met: Meeting, rate: Real, others: Real) -> tuple[Real, Real]:
    r"""Wait for a slot, where `max_num_seqs` or the memory admits no further sequence.

    .. math:: \pi_n \sim \prod_{i \le n} \frac{l (O - 1) T_i}{i},\quad
              T_n = D(n) + \frac{(n - 1) p}{O - 1} + T(O) - E_1

    Beyond the last slot the tail is geometric. D(n) is taken to lie on the line from the mean step to the full one.

    Args:
        server: a rank.
        full: what it serves at most.
        met: what a request meets at this rate.
        rate: requests that come to the rank, at random [1/s].
        others: sequences that decode, on average [sequences].

    Returns:
        Share of the requests that wait [1], and mean wait of all of them [s].

    Valid:
        Poisson arrivals.

    Source:
        Birth and death of the number that decodes (Erlang's C with a service that slows down).
    """
    steps, slots = server.steps, full.slots
    middle = 1.0 + others
    slope = (full.step - met.plain) / maximum(full.sequences - middle, 1.0)
    beside = met.step - met.mean_step

    def served(sequences: Real) -> Real:
        """Requests that end per second, with so many decoding."""
        decode = maximum(met.plain + slope * (sequences - middle), 0.1 * met.plain)
        each = maximum(decode + (sequences - 1.0) * met.prompt / steps + beside, 0.1 * decode)
        return maximum(sequences / (steps * each), full.rate * sequences / slots)  # with all slots taken, all it can

    last = served(slots)
    load = minimum(rate / last, _STABLE)
    weight = total = 0.0 * rate + 1.0
    number = slots
    for _ in range(_MOST_SLOTS):
        weight = where(number >= 1.0, minimum(weight * served(maximum(number, 1.0)) / rate, _NEVER), 0.0)
        total = total + weight
        number = number - 1.0
        if not any_of(above(number, 0.0)) or not any_of(below(total, _NEVER)):
            break
    waiting = 1.0 / (1.0 - load)
    share = waiting / (total - 1.0 + waiting)
    share = where(total >= _NEVER, 0.0, share)
    return share, share * 0.5 / (last * (1.0 - load))
