"""One round of the equations of a server under a load: what a request meets, and what follows from it.

A round maps how many others decode, and how long a step is, to latencies and throughput;
`serving.load.equations` finds the numbers that a round leaves unchanged. Nothing here is fitted to servers.
docs/method.md, "A server under load", has the equations and their errors against a simulation of every step.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.numbers.operations import Real, comparable, maximum, minimum, never, where
from roofline.numbers.quantity import NANO
from roofline.serving.load.server import (
    PROMPTS_FIRST,
    STABLE,
    Prompt,
    Server,
    added,
    added_by_node,
    turns,
)
from roofline.support.records import NamedTuple

_TINY = 2.0**-200  # of a time, against division by zero

#: Smallest share of the token budget that is left for prompts.
LEAST_BUDGET = 0.02

_E = 2.718281828459045
_HALF = 0.5  # bound on the share of time that a first prompt saves
SEVERAL = 0.5  # decode steps of an answer that is rounded to more than one token
_LONGEST_RUN = 40.0  # logarithm of the passes that follow each other
MERGED = 1.4  # time in which bunches of requests come into one pass, over a pass


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
    longest: Real = float("inf")  # [s] decode first: a step that takes all of the budget
    each: Real = 0.0  # [s] prompts first: beta, time that a further prompt adds to a pass
    fixed: Real = 0.0  # [s] alpha, of a pass
    together: Real = 1.0  # k, prompts of a pass
    stalls: Real = 0.0  # [s^2] variance of the time of all passes between two decode steps
    surges: Real = 0.0  # [s^2] variance of the time of those that follow the request's own pass
    gain: Real = 1.0  # growth of a mean step with a decode step [1]


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
    per_full = in_full * room / length  # no step takes longer
    mean_step = minimum(plain / (1.0 - rho), per_full)
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
    next_seen = biased
    if users is None and not never(server.osl <= 1.0):
        passes = alone_passes(server, prompt, 1.0 + rate * seen, rate)
        singles, _, _, count = _idle(rate, passes, prompt, seen, second_moment(server, prompt, passes.each))
        idle = where(server.osl <= 1.0, singles, idle)
        next_seen = where(server.osl <= 1.0, _nearer(seen, rate, passes, count), biased)
    stage = (1.0 - nobody) * (server.engine.arrival + first) + nobody * idle
    excess = rate * ((1.0 - nobody) * (own_step + extra) + nobody * idle) - rate * mean_step * (1.0 + extra / per_full)
    rounds = maximum(1.0, rate * first * length / room) / (1.0 - rho_chunks)
    surge = usual * excess / (1.0 - rho)
    step, decode = over_answers(server, mean_step, surge, rounds, plain, per_full)
    return Meeting(
        stage, step, decode, plain, mean_step, next_seen, usual, rho, in_full, rho_chunks, nobody, idle, wait, room,
        surge, rounds, biased, per_full,
    )  # fmt: skip


def step_of_answer(
    steps: Real, mean_step: Real, surge: Real, rounds: Real, plain: Real, longest: Real = float("inf")
) -> Real:
    r"""Mean decode step of an answer: prompts that arrived with its own lengthen its first steps.

    .. math:: T = E_1 + \frac{s}{N} \left(1 - e^{-N / r}\right)

    Args:
        steps: N, of the answer [1].
        mean_step: E1, over all steps of the server [s].
        surge: s, total excess of the steps after a first token [s].
        rounds: r, steps over which it decays; 0 for at once [1].
        plain: a decode step without a prompt, the lower bound [s].
        longest: a step that takes all of the budget, the upper bound [s].

    Returns:
        Time [s].

    Source:
        docs/method.md, "A server under load".
    """
    settled = 1.0 if never(rounds > 0.0) else 1.0 - _E ** (-steps / rounds)
    return minimum(maximum(mean_step + surge * settled / steps, plain), longest)


def over_answers(
    server: Server, mean_step: Real, surge: Real, rounds: Real, plain: Real, longest: Real = float("inf")
) -> tuple[Real, Real]:
    """Mean decode step of a request, averaged over requests of several tokens, and mean time of all its steps [s]."""
    if server.lengths.answers.is_fixed:
        step = step_of_answer(server.steps, mean_step, surge, rounds, plain, longest)
        return step, server.steps_of() * step
    mean: Real = 0.0
    decode: Real = 0.0
    several: Real = 0.0
    for weight, share in server.lengths.answers.nodes:
        steps = maximum(server.steps_of(share), 0.0)
        step = step_of_answer(maximum(steps, 1.0), mean_step, surge, rounds, plain, longest)
        counted = where(steps >= SEVERAL, weight, 0.0)
        several, mean, decode = several + counted, mean + counted * step, decode + weight * steps * step
    return where(several > 0.0, mean / maximum(several, _TINY), mean_step), decode


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


class Passes(NamedTuple):
    """Passes that compute all waiting prompts: time alpha + beta k for k of them."""

    fixed: Real  # [s] alpha
    each: Real  # [s] beta
    full: Real  # [s] of a prompt where every pass takes all of the budget
    most: Real  # prompts of a pass that takes all of the budget
    once: Real  # [s] the last pass of a run, which takes less than the budget, beyond that
    own: Real  # [s] of `once`, for a request's own prompt


def _passes(server: Server, prompt: Prompt, time: Callable[[Real], Real], count: Real, rate: Real) -> Passes:
    r"""Passes for about some number of prompts.

    .. math:: \beta = \frac{Y(k + \sqrt{k}) - Y(k - \sqrt{k})}{2 \sqrt{k}},\quad
              \alpha = Y(k - \sqrt{k}) - \beta\, (k - \sqrt{k})

    k - sqrt(k) is at least 1.

    Args:
        server: a rank.
        prompt: its mean prompt.
        time: of a prompt, by the tokens of its pass [function].
        count: k [1].
        rate: l, by which a run has a single pass [1/s].

    Returns:
        The times.
    """
    length, budget = prompt.length, server.budget

    full, least = time(budget), time(1.0) / length  # the latter: of a pass

    def together(number: Real) -> Real:
        tokens = number * length
        rest = minimum(tokens, budget)  # in the last pass
        return ((tokens - rest) * full + rest * time(rest)) / length

    swing = maximum(count, 1.0) ** 0.5  # standard deviation of a Poisson number
    few, more = maximum(count - swing, 1.0), maximum(count + swing, 2.0)
    at_few = together(few)
    each = minimum((together(more) - at_few) / (more - few), at_few / few)
    fixed = at_few - each * few
    most = budget / length
    single = turns(length, budget, 0.0) - 1.0
    rest = length - single * budget
    alone = single * most * full + rest / length * time(rest)
    partly = maximum(least * least / (2.0 * most * full) - fixed, 0.0)
    only = _E ** (0.0 - minimum(rate * (fixed + each), _LONGEST_RUN))
    once = only * maximum(alone - fixed - each, 0.0) + (1.0 - only) * partly
    return Passes(fixed, each, full, most, once, once * only)


def _prompts_first(server: Server, prompt: Prompt, rate: Real, others: Real, seen: Real, users: Real | None) -> Meeting:
    length, decoding = prompt.length, 1.0 + others
    plain = server.decode(decoding).total

    def time(tokens: Real) -> Real:
        return added(server, prompt, decoding, 0.0, tokens, length, prompt.attention)

    if users is not None:
        return _prompts_of_users_first(server, prompt, rate, others, seen, users, plain, time)
    passes = _passes(server, prompt, time, 1.0 + rate * seen, rate)
    follow = _following(rate, passes, plain, seen)
    fixed, each = passes.fixed, passes.each
    mean_step = plain + follow.busy
    rho = minimum(follow.busy / mean_step, STABLE)
    together = maximum(rate * mean_step / maximum(follow.number, _TINY), 1.0)
    second = second_moment(server, prompt, each)
    shared = rate * (fixed * fixed / together + 2.0 * fixed * each + second)
    biased = ((1.0 - rho) * plain + shared) / (1.0 - minimum(rate * each, STABLE) ** 2)
    mates = rate * biased
    in_one = minimum(1.0, passes.most / (1.0 + mates))
    own = fixed + each * (1.0 + mates) + passes.own
    first = biased / 2.0 + fixed + each * (1.0 + mates * (1.0 + in_one) / 2.0) + passes.own
    idle, window, more, count = _idle(rate, passes, prompt, seen, second)
    # Between passes, a share of the time in which nobody decodes: busy periods begin at the rate of requests.
    free = _E ** (0.0 - minimum(rate * server.steps_of() * plain, _LONGEST_RUN))
    nobody = free * more / (free * more + (1.0 - free) * mean_step / plain)
    stage = (1.0 - nobody) * (server.engine.arrival + first) + nobody * idle
    window = (1.0 - nobody) * (in_one * own + (1.0 - in_one) * first) + nobody * window
    surge = _following(rate, passes, window, seen).busy - follow.busy
    # Runs of passes begin after a share of the decode steps and have a geometric number of passes.
    begun, own_begun = 1.0 - _E ** (0.0 - rate * plain), 1.0 - _E ** (0.0 - rate * window)
    run = follow.number / maximum(begun, _TINY)
    free_of_prompts = 1.0 - minimum(rate * each, STABLE)
    stalls = _stalls(passes, second, rate * mean_step, _run_variance(begun, run)) / free_of_prompts**2
    window = window + surge + follow.busy
    surges = _stalls(passes, second, rate * window, _run_variance(own_begun, run)) / free_of_prompts**2
    gain = (1.0 + fixed * rate * (1.0 - begun) * run) / free_of_prompts
    step, decode = over_answers(server, mean_step, surge, 0.0, plain)
    return Meeting(
        stage, step, decode, plain, mean_step, _nearer(seen, rate, passes, where(server.osl > 1.0, together, count)),
        fixed / together + each, rho, passes.full, minimum(rate * passes.full, STABLE), nobody, idle, first - own,
        server.budget, surge, 0.0, biased, float("inf"), each, fixed, together, stalls, surges,
        gain,
    )  # fmt: skip


def _prompts_of_users_first(
    server: Server,
    prompt: Prompt,
    rate: Real,
    others: Real,
    seen: Real,
    users: Real,
    plain: Real,
    time: Callable[[Real], Real],
) -> Meeting:
    before = server.before + server.engine.arrival
    ended = rate * seen
    bunches = maximum(1.0 - _E ** (0.0 - ended), ended / (1.0 + ended))  # the latter where the former rounds to 0
    bunch = maximum(ended / maximum(bunches, _TINY), 1.0)
    number = _passes_of_users(bunches, bunch * time(minimum(bunch * prompt.length, server.budget)), before, plain)
    count = maximum(ended / maximum(number, _TINY), 1.0)
    passes = _passes(server, prompt, time, count, rate)
    fixed, each = passes.fixed, passes.each
    # Of the other users, those who share one's own pass stall nobody; the rest is computed outside of it.
    others_of_rank = maximum(users - 1.0, 1.0)
    shared_pass = minimum(count, maximum(passes.most, 1.0))
    own_share = minimum(rate * (fixed + each * shared_pass) / others_of_rank, _HALF)
    outside = rate * maximum(1.0 - (shared_pass - 1.0) / others_of_rank, 0.0) / (1.0 - own_share)
    busy = (outside * plain * each + fixed * number) / (1.0 - minimum(outside * each, STABLE))
    busy = maximum(busy, _full_passes(outside, passes, plain))
    mean_step = plain + busy
    rho = minimum(busy / mean_step, STABLE)
    together = maximum(outside * mean_step / maximum(number, _TINY), 1.0)
    usual = fixed / together + each
    second = second_moment(server, prompt, each)
    shared = outside * (fixed * fixed / together + 2.0 * fixed * each + second)
    # Prompts of a bunch that one pass holds; and prompts that the budget cuts, which follow one another.
    cut = 1.0 / maximum(passes.most, 1.0)
    square = outside * second * (1.0 - rho) ** ((usual - before) / (usual + before))
    in_turn = (square + plain * (1.0 - rho)) / (1.0 - rho * rho)
    biased = (1.0 - cut) * ((1.0 - rho) * plain + shared + outside * each * each * together) + cut * in_turn
    mates = (1.0 - cut) * (together - 1.0) + cut * outside * in_turn
    in_one = minimum(1.0, passes.most / (1.0 + mates))
    after = each * mates * (1.0 - in_one) / 2.0  # prompts of the bunch behind one's own
    own = fixed + each * (1.0 + mates) + passes.own - after
    # The next request comes after a step has ended: at once, or into what follows.
    first = where(before > 0.0, maximum(biased / 2.0, biased - before), 0.0) + own
    nobody = _nobody(others, users)
    idle = idle_time(prompt, outside, usual, second if prompt.nodes else None)
    stage = (1.0 - nobody) * (server.engine.arrival + first) + nobody * idle
    surge = after + _following(outside, passes, minimum(own, before), None).busy - busy
    stalls = _stalls(passes, second, outside * mean_step, number * maximum(1.0 - number, 0.0))
    step, decode = over_answers(server, mean_step, surge, 0.0, plain)
    return Meeting(
        stage, step, decode, plain, mean_step, mean_step, usual, rho, passes.full,
        minimum(outside * passes.full, STABLE), nobody, idle, first - own, server.budget, surge, 0.0, biased,
        float("inf"), each, fixed, together, stalls,
    )  # fmt: skip


def _run_variance(begun: Real, run: Real) -> Real:
    """Variance of the number of passes that follow a stage: none, or a geometric number [1].

    `begun`: probability of any [1]; `run`: mean number then [1].
    """
    return maximum(begun * run * (2.0 * run - 1.0 - begun * run), 0.0)


def _stalls(passes: Passes, second: Real, prompts: Real, spread: Real) -> Real:
    """Variance of the time of all passes between two decode steps [s^2].

    `prompts`: their mean number, Poisson [1]; `spread`: variance of the number of passes [1].
    """
    together = 2.0 * passes.fixed * passes.each * minimum(spread, prompts)  # more passes hold more prompts
    return passes.fixed**2 * spread + together + second * prompts


def second_moment(server: Server, prompt: Prompt, each: Real) -> Real:
    """Mean square of the time that a prompt adds to a pass [s^2]."""
    if not prompt.nodes:
        return each * each
    return prompt.mean(lambda node: added_by_node(server, prompt, each, node) ** 2)


class Following(NamedTuple):
    """Passes until no prompt waits."""

    busy: Real  # [s] of them all
    number: Real  # of passes


def _full_passes(rate: Real, passes: Passes, begin: Real) -> Real:
    """Time of the passes that follow a stage, if each takes all of the budget [s]."""
    return rate * begin * passes.full / (1.0 - minimum(rate * passes.full, STABLE))


def _following(rate: Real, passes: Passes, begin: Real, seen: Real | None) -> Following:
    r"""Passes after a stage until no prompt waits: each begins if a request arrived in the stage before.

    .. math:: n = (1 - e^{-l x})\, e^{l \alpha + \frac{Y - \alpha}{\beta} (1 - e^{-l \beta})},\quad
              B = \frac{l x \beta + \alpha n}{1 - l \beta}

    A run ends with a pass in which nobody asks: e^... is one over that chance, with a Poisson number of prompts in it.

    Args:
        rate: l [1/s].
        passes: alpha and beta.
        begin: x, the stage [s].
        seen: Y, of a mean pass; None: a single pass follows, as nobody asks meanwhile [s].

    Returns:
        B and n, at least as many as the budget needs.
    """
    runs = 1.0 - _E ** (0.0 - rate * begin)
    number = runs
    if seen is not None:
        prompts = rate * maximum(seen - passes.fixed, 0.0) * _share_of_none(rate * passes.each)
        number = runs * _E ** minimum(rate * passes.fixed + prompts, _LONGEST_RUN)
    work = rate * begin * passes.each + passes.fixed * number + passes.once * runs
    busy = work / (1.0 - minimum(rate * passes.each, STABLE))
    return Following(maximum(busy, _full_passes(rate, passes, begin)), number)


def _share_of_none(load: Real) -> Real:
    """(1 - e^-x)/x: a prompt more in a pass makes the next pass likelier by that part of its time over the gap [1]."""
    load = maximum(load, NANO)
    return (1.0 - _E ** (0.0 - load)) / load


def _nearer(seen: Real, rate: Real, passes: Passes, count: Real) -> Real:
    """Time of a mean pass for the next round, by a Newton step: longer passes are more, and hold fewer prompts [s]."""
    load = rate * passes.each
    falls = maximum(count - rate * passes.fixed / (1.0 - minimum(load, STABLE)), 0.0)
    found = passes.fixed + passes.each * count
    return seen + (found - seen) / (1.0 + load * _share_of_none(load) * falls)


def _idle(rate: Real, passes: Passes, prompt: Prompt, seen: Real, second: Real) -> tuple[Real, Real, Real, Real]:
    """A request that finds the server idle, and those who arrive until no prompt waits.

    Their mean time to first token, and its part in passes [s]; their number; prompts of a pass [1].
    """
    alone, fixed, each = prompt.alone, passes.fixed, passes.each
    follow = _following(rate, passes, alone, seen)
    busy = alone + follow.busy
    count = maximum(rate * busy / maximum(follow.number, _TINY), 1.0)
    square = alone * alone if not prompt.nodes else prompt.mean(lambda node: node.alone * node.alone)
    square = square + follow.number * fixed * (fixed + 2.0 * each * count) + second * rate * busy
    biased = square / (1.0 - minimum(rate * each, STABLE) ** 2) / busy
    in_one = minimum(1.0, passes.most / (1.0 + rate * biased))
    behind = biased / 2.0 + fixed + each * (1.0 + rate * biased * (1.0 + in_one) / 2.0)
    own = fixed + each * (1.0 + rate * biased)
    window = in_one * own + (1.0 - in_one) * behind
    more = rate * busy
    return (alone + more * behind) / (1.0 + more), (alone + more * window) / (1.0 + more), 1.0 + more, count


def _passes_of_users(most: Real, time: Real, before: Real, plain: Real) -> Real:
    r"""Passes per decode step where users ask again.

    .. math:: n = \frac{b}{1 + b\, (z - 1) / 2},\quad z = \max(1, \min(h, 1.4\, Y) / D)

    Answers end with a decode step, so that at most one bunch of requests follows it. Bunches that arrive during one
    pass share the next one.

    Args:
        most: b, share of the decode steps in which an answer ends [1].
        time: Y, of a pass [s].
        before: h, from the end of an answer to the arrival of the next request [s].
        plain: D, of a decode step [s].

    Returns:
        Number [1].

    Source:
        Both limits are derived; what lies between was chosen by a simulation of passes of constant length.
    """
    spans = maximum(minimum(before, MERGED * time) / plain, 1.0)
    return most / (1.0 + most * (spans - 1.0) / 2.0)


def alone_passes(server: Server, prompt: Prompt, count: Real, rate: Real = 0.0) -> Passes:
    """Passes for about so many prompts while no sequence decodes."""

    def time(tokens: Real) -> Real:
        share = prompt.length / tokens
        kernels = (server.linear(1.0, tokens - 1.0) + prompt.head) * share + prompt.attention
        kernels = maximum(kernels, prompt.launches * share, "the host launches kernels as fast as they run")
        return kernels + server.engine.prefill * share

    return _passes(server, prompt, time, count, rate)


def _nobody(others: Real, users: Real | None) -> Real:
    """Probability that no sequence decodes when a request arrives: Poisson, or binomial over the other users."""
    if users is None:
        return _E ** (0.0 - others)
    rest = maximum(users - 1.0, NANO)
    return maximum(1.0 - others / rest, 0.0) ** rest
