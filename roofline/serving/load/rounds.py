"""One round of the equations of a server under a load: what a request meets, and what follows from it.

A round maps how many others decode, and how long a step is, to latencies and throughput;
`serving.load.equations` finds the numbers that a round leaves unchanged. Nothing here is fitted to servers.
docs/method.md, "A server under load", has the equations and their errors against a simulation of every step.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.numbers.operations import Real, comparable, maximum, minimum, never, outlined, where
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
_SURE = 12.0  # logarithm of the chance that nobody comes during a pass
_RANGE = 5.0  # of the lengths of answers that end in one run, over their standard deviation
_SOON = 0.1  # decode steps: who needs less is taken for one who waits for a slot, the more the less
_SHARPNESS = 4.0  # with which users gather
_LEAST_CV = 0.17  # of the answers of users, who would stay in step else
_LEAST_SEVERAL = 0.125  # share of answers of several tokens


class Run(NamedTuple):
    """Passes one after the other, as users meet them whose prompts come first; sequences decode between two runs."""

    quiet: Real  # decode steps after a run in which no other can begin
    phase: Real  # decode steps from one run of other users to the next
    time: Real  # [s]
    variance: Real  # [s^2] of it
    in_first: Real  # share of its prompts that its first pass computes [1]
    after_first: Real  # [s] passes that follow the first
    after_later: Real  # [s] passes that follow a later one
    after_variance: Real  # [s^2] of either
    rest_variance: Real  # [s^2] of the time before and with a request's own prompt


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
    run: Run | None = None  # prompts first, users
    late: Real = 0.0  # [s] host time of arrivals that find others decoding, over all requests


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


def meeting(
    server: Server, prompt: Prompt, rate: Real, others: Real, seen: Real, users: Real | None, spare: Real = 0.0
) -> Meeting:
    """One round: what a request meets with `others` decoding and `seen` from the last round.

    Args:
        server: a rank.
        prompt: its mean prompt.
        rate: arrivals at the rank [1/s].
        others: mean decoding sequences there [sequences].
        seen: `Meeting.seen` of the last round [s].
        users: requests in flight on the rank, closed loop; None for an open one [requests].
        spare: time in which another user takes over a slot at once, before none waits for one [s].

    Returns:
        The results of the round.

    Source:
        docs/method.md, "A server under load": M/G/1 with the length-biased step; the token budget as a second server.
    """

    def met(prompt: Prompt, rate: Real, others: Real, seen: Real, users: Real | None, spare: Real) -> Meeting:
        if server.engine.scheduler == PROMPTS_FIRST:
            if users is None:
                return _prompts_first(server, prompt, rate, others, seen)
            return _prompts_of_users_first(server, prompt, rate, others, seen, users, spare)
        return _decode_first(server, prompt, rate, others, seen, users, spare)

    found: Meeting = outlined("meeting", met, seen, prompt, rate, others, seen, users, spare)
    return found


def _decode_first(
    server: Server, prompt: Prompt, rate: Real, others: Real, seen: Real, users: Real | None, spare: Real
) -> Meeting:
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
    nobody = _nobody(others, users)
    arrival = server.arrival(others, users) + (1.0 - nobody) * prompt.lag
    if users is None:
        first = biased / 2.0 + own_step + extra
    else:
        way = maximum(server.before + arrival / maximum(1.0 - nobody, NANO) - spare, 0.0)
        rest, mates = _after_an_answer(way, rate, rho, plain, usual, mean_step)
        first = rest + plain + alone + mates * usual + extra
    idle = idle_time(prompt, rate, usual, squares[0] if prompt.nodes else None)
    next_seen = biased
    if users is None and not never(server.osl <= 1.0):
        passes = alone_passes(server, prompt, 1.0 + rate * seen, rate)
        singles, _, _, count = _idle(rate, passes, prompt, seen, second_moment(server, prompt, passes.each))
        idle = where(server.osl <= 1.0, singles, idle)
        next_seen = where(server.osl <= 1.0, _nearer(seen, rate, passes, count), biased)
    stage = arrival + (1.0 - nobody) * first + nobody * idle
    excess = rate * ((1.0 - nobody) * (own_step + extra) + nobody * idle) - rate * mean_step * (1.0 + extra / per_full)
    rounds = maximum(1.0, rate * first * length / room) / (1.0 - rho_chunks)
    surge = usual * excess / (1.0 - rho)
    step, decode = over_answers(server, mean_step, surge, rounds, plain, per_full)
    return Meeting(
        stage, step, decode, plain, mean_step, next_seen, usual, rho, in_full, rho_chunks, nobody, idle, wait, room,
        surge, rounds, biased, per_full, late=arrival,
    )  # fmt: skip


def step_of_answer(
    steps: Real,
    mean_step: Real,
    surge: Real,
    rounds: Real,
    plain: Real,
    longest: Real = float("inf"),
    run: Run | None = None,
) -> Real:
    r"""Mean decode step of an answer: prompts that arrived with its own lengthen its first steps.

    .. math:: T = E_1 + \frac{s}{N} \left(1 - e^{-N / r}\right)

    Users whose prompts come first decode for a steps before another run of passes can begin, of n between two runs;
    none begins after the last step:

    .. math:: T = E_1 + \frac{s}{N} + \frac{E_1 - D}{N} \left[\frac{a^2}{2 n}
              \left(1 - e^{-2 n \max(N - 1 - a, 0) / (a (n - a))}\right) - \min(N - 1, a) - 1\right]

    Args:
        steps: N, of the answer [1].
        mean_step: E1, over all steps of the server [s].
        surge: s, total excess of the steps after a first token [s].
        rounds: r, steps over which it decays; 0 for at once [1].
        plain: D, a decode step without a prompt, the lower bound [s].
        longest: a step that takes all of the budget, the upper bound [s].
        run: a, n.

    Returns:
        Time [s].

    Source:
        docs/method.md, "A server under load"; the latter with the asymptote of the renewal function, of a period with
        a constant and an exponential part.
    """
    settled = 1.0 if never(rounds > 0.0) else 1.0 - _E ** (-steps / rounds)
    excess = surge * settled
    if run is not None:
        quiet, phase, between = run.quiet, run.phase, steps - 1.0
        beyond = 2.0 * phase * maximum(between - quiet, 0.0) / maximum(quiet * (phase - quiet), _TINY)
        again = quiet * quiet / (2.0 * phase) * (1.0 - _E ** (0.0 - minimum(beyond, _LONGEST_RUN)))
        excess = excess + (mean_step - plain) * (again - minimum(between, quiet) - 1.0)
    return minimum(maximum(mean_step + excess / steps, plain), longest)


def over_answers(
    server: Server,
    mean_step: Real,
    surge: Real,
    rounds: Real,
    plain: Real,
    longest: Real = float("inf"),
    run: Run | None = None,
    *,
    finely: bool = False,
) -> tuple[Real, Real]:
    """Mean decode step of a request, averaged over requests of several tokens, and mean time of all its steps [s].

    `finely`: over as many lengths as the distributions have, instead of the few that means need.
    """
    answers = server.lengths.answers
    if answers.is_fixed:
        step = step_of_answer(server.steps, mean_step, surge, rounds, plain, longest, run)
        return step, server.steps_of() * step
    mean: Real = 0.0
    decode: Real = 0.0
    several: Real = 0.0
    total: Real = 0.0
    for weight, share in answers.slices if finely else answers.nodes:
        steps = maximum(server.steps_of(share), 1.0)
        step = step_of_answer(steps, mean_step, surge, rounds, plain, longest, run)
        counted = where(server.steps_of(share) >= SEVERAL, weight, 0.0)
        several, mean = several + counted, mean + counted * step
        total, decode = total + counted * steps, decode + counted * steps * step
    if finely:  # their mean length is not quite the mean one
        decode = decode / maximum(total, _TINY) * _steps_of_several(server)
    return where(several > 0.0, mean / maximum(several, _TINY), mean_step), decode


def over_all_answers(server: Server, met: Meeting) -> tuple[Real, Real]:
    """Mean decode step and mean time of all steps [s], from as many lengths as the distributions have."""
    return over_answers(
        server, met.mean_step, met.surge, met.rounds, met.plain, met.longest, met.run, finely=True
    )  # fmt: skip


def _steps_of_several(server: Server) -> Real:
    """Mean decode steps of a request, where an answer of less than one and a half tokens has none [1]."""
    total: Real = 0.0
    for weight, share in server.lengths.answers.nodes:
        steps = server.steps_of(share)
        total = total + where(steps >= SEVERAL, weight * maximum(steps, 1.0), 0.0)
    return total


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
    return rest * _on_the_way(before, plain), mates


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


def _prompts_first(server: Server, prompt: Prompt, rate: Real, others: Real, seen: Real) -> Meeting:
    length, decoding = prompt.length, 1.0 + others
    plain = server.decode(decoding).total

    def time(tokens: Real) -> Real:
        return added(server, prompt, decoding, 0.0, tokens, length, prompt.attention)

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
    late = server.arrival(others, None)
    stage = late + (1.0 - nobody) * first + nobody * idle
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
        gain, late=late,
    )  # fmt: skip


def _prompts_of_users_first(
    server: Server, prompt: Prompt, rate: Real, others: Real, seen: Real, users: Real, spare: Real
) -> Meeting:
    """Users: a run of passes computes those who come while it lasts, and no answer ends until it is over."""
    share = (users - 1.0) / users
    every = minimum(rate / maximum(share, NANO) * seen, users / maximum(server.steps_of(), NANO))  # prompts per step
    single = share_of_single_tokens(server)
    ended = every * (1.0 - single)  # answers of several tokens that end with a step
    decoding = 1.0 + every * server.steps_of() * share
    plain = server.decode(decoding).total

    def time(tokens: Real) -> Real:
        return added(server, prompt, decoding, 0.0, tokens, prompt.length, prompt.attention)

    gathered = _gathered(server, plain, users, spare)
    way, arrival, nobody = _way_back(server, others, users, spare, gathered)
    window = maximum(way / plain + 0.5, 1.0) * _on_the_way(way, plain)  # decode steps from the first end to the run
    bunch, further = _coming(ended, window, gathered, users)
    begin = bunch * time(minimum(bunch * prompt.length, server.budget))
    about = _in_run(bunch, further, begin, begin, way, users, gathered).later
    passes = _passes(server, prompt, time, about, rate)
    fixed, each = passes.fixed, passes.each
    found = _in_run(bunch, further, begin, fixed + each * about, way, users, gathered)
    prompts, more, count, full = found.prompts, found.passes - 1.0, found.later, found.full
    later = fixed + each * count
    # Who got a single token asks again within the run.
    others_in_run = maximum(prompts - 1.0, 0.0)
    again = sum(1.0 - _E ** (0.0 - others_in_run * single**turn) for turn in (1.0, 2.0, 3.0))
    extra = fixed * again + each * others_in_run * single / (1.0 - single)
    run = maximum(begin + more * later + extra, prompts / (1.0 - single) * passes.full)
    steps = prompts / maximum(ended, _TINY)
    quiet = minimum(gathered * steps + (1.0 - gathered) * window * full, steps)
    phase = steps / maximum(share, NANO)
    mean_step = plain + run / phase
    rho, second = minimum((mean_step - plain) / mean_step, STABLE), second_moment(server, prompt, each)
    # Of users who gather, the first is back while nobody decodes: a run of a round, which may take several.
    in_first, nobody = bunch / prompts, nobody + gathered * maximum(prompts / users - nobody, 0.0)
    mates = in_first * bunch + (1.0 - in_first) * count - 1.0
    # A prompt of the first pass comes during a decode step, others during a pass.
    running = where(more > 1.0, (begin + (more - 1.0) * later) / maximum(more, 1.0), begin)
    behind = maximum(running / 2.0, running - way / 2.0)
    in_one = minimum(1.0, passes.most / (1.0 + mates))
    after = each * mates * (1.0 - in_one) / 2.0  # prompts of the bunch behind one's own
    own = in_first * begin + (1.0 - in_first) * later + passes.own - after
    first = (in_first * plain / 2.0 + (1.0 - in_first) * behind) * _on_the_way(way, plain) + own
    sooner = prompt.alone - begin  # where nobody decodes
    # With the time before a run in which the server is idle: all are on their way, and come evenly.
    each_run = run + nobody * (maximum(server.before - spare, 0.0) * prompts / users + sooner)
    stage = arrival + first + nobody * in_first * (sooner - plain / 2.0 - passes.own)
    last, ends = maximum(more - 1.0, 0.0), after + extra / (1.0 + single)
    after_first = ends + more * later
    after_later = ends + ((1.0 - full) * more + full * last / 2.0) * later
    wide = (1.0 - full) * more * (1.0 + more)  # variance of the number of passes
    apart = plain / 2.0 + begin - behind - later
    rest_variance = in_first * (plain**2 / 12.0 + (1.0 - in_first) * apart**2)
    spread = minimum(running, way) ** 2 / 12.0 + after**2 / 3.0 + second * count
    surge = in_first * after_first + (1.0 - in_first) * after_later
    met = Run(
        quiet, phase, run, fixed**2 * wide + second * prompts, in_first, after_first, after_later,
        (wide + full * last * (last + 2.0) / 12.0) * later**2 + after**2 / 3.0 + extra**2 / 12.0,
        rest_variance + (1.0 - in_first) * spread,
    )  # fmt: skip
    step, decode = over_answers(server, mean_step, surge, 0.0, plain, run=met)
    usual, all_full = run * (1.0 - single) / prompts, minimum(rate * passes.full, STABLE)
    return Meeting(
        stage, step, decode, plain, mean_step, plain + each_run / steps, usual, rho, passes.full, all_full,
        nobody * in_first, prompt.alone, first - own, server.budget, surge, 0.0,
        in_first * plain + (1.0 - in_first) * running, float("inf"), each, fixed, prompts / found.passes, run=met,
        late=arrival,
    )  # fmt: skip


def share_of_single_tokens(server: Server) -> Real:
    """Share of the answers that are over with their first token [1]."""
    answers = server.lengths.answers
    if answers.is_fixed:
        return 0.0
    single = sum(where(server.steps_of(share) < SEVERAL, weight, 0.0) for weight, share in answers.slices)
    return minimum(single, 1.0 - _LEAST_SEVERAL)


def _gathered(server: Server, plain: Real, users: Real, spare: Real) -> Real:
    r"""How far users gather in one run [1].

    .. math:: g = \min\left(1, \frac{w_1}{5\, cv\, O\, (c - 1) / (c + 1)}\right)^4,\quad
              w_1 = \max\left(1, \frac{h_1}{D} + \frac{1}{2}\right)

    All users come with one run where the last answer ends before the first of them has come back; h_1 is his way, who
    left while all others decoded.

    Source:
        The range of c evenly spread lengths is 3.5 cv (c - 1)/(c + 1) times the mean one; how sharply users gather
        was chosen by simulation.
    """
    way = maximum(server.before + server.engine.arrival * (users - 1.0) ** 0.5 - spare, 0.0)
    window = maximum(way / plain + 0.5, 1.0) * _on_the_way(way, plain)
    lasting = _RANGE * maximum(server.lengths.answers.cv, _LEAST_CV) * server.osl * (users - 1.0) / (users + 1.0)
    return minimum(window / maximum(lasting, _TINY), 1.0) ** _SHARPNESS


def _way_back(server: Server, others: Real, users: Real, spare: Real, gathered: Real) -> tuple[Real, Real, Real]:
    """Way from an answer to the next request where others decode, mean host time of those who find others [s], nobody.

    The last is the chance that nobody decodes when a request arrives, by the mean number that does [1]. Of users who
    gather, the last leaves while nobody decodes.
    """
    nobody, arrival = _nobody(others, users), server.arrival(others, users)
    arrival = arrival + gathered * (_arrival_of_all(server, users) - arrival)
    found = nobody + gathered * (1.0 / users - nobody)  # nobody, by a request that is sent
    way = maximum(server.before + arrival / maximum(1.0 - found, NANO) - spare, 0.0)
    return way, arrival, nobody


def _arrival_of_all(server: Server, users: Real) -> Real:
    r"""Mean host time of users who gather: the first leaves while all others decode, the last while nobody does [s].

    .. math:: \frac{a}{c} \sum_{b=0}^{c-1} \sqrt{b} \approx
              \frac{a}{c} \left(\frac{2}{3} (c - 1)^{3/2} + \frac{1}{2} \sqrt{c - 1} - 0.2 \min(c - 1, 1)\right)

    Source:
        Euler and Maclaurin; within 3 % from 2 users on.
    """
    others = users - 1.0
    return server.engine.arrival * (others**1.5 / 1.5 + others**0.5 / 2.0 - 0.2 * minimum(others, 1.0)) / users


def _coming(ended: Real, window: Real, gathered: Real, users: Real) -> tuple[Real, Real]:
    """Prompts of the first pass of a run, and of those whose users are on their way when it begins.

    `ended`: answers that end with a decode step; `window`, `gathered`: as `_gathered` gives them.
    """
    bunches = maximum(1.0 - _E ** (0.0 - ended), ended / (1.0 + ended))  # the latter where the former rounds to 0
    bunch = minimum(maximum(ended / maximum(bunches, _TINY), 1.0), users)
    bunch = 1.0 + (bunch - 1.0) * (1.0 - gathered)  # the last to end comes back first, alone
    further = ended * window
    return bunch, further + gathered * (maximum(users - bunch, 0.0) - further)


def _on_the_way(before: Real, plain: Real) -> Real:
    """Share of the users who are on their way after an answer: none where others wait for the slot [1]."""
    return minimum(before / (_SOON * plain), 1.0)


class _InRun(NamedTuple):
    """What one run of passes computes."""

    prompts: Real
    passes: Real
    full: Real  # share of the runs after which nobody is on the way [1]
    later: Real  # prompts of a pass after the first


def _in_run(
    bunch: Real, further: Real, begin: Real, next_pass: Real, before: Real, users: Real, gathered: Real
) -> _InRun:
    r"""Prompts and passes of a run: a pass follows where anybody comes during the one before.

    .. math:: P_0 = (1 - g)\, e^{-f w} + g\, (1 - w)^f

    that nobody of f comes in a share w of the way.

    Args:
        bunch: prompts of the first pass [requests].
        further: answers that end before it begins, whose users are on their way, f [requests].
        begin: the first pass [s].
        next_pass: another one [s].
        before: h, from the end of an answer to the arrival of the next request [s].
        users: all of them [requests].
        gathered: how far all users come with one run, g [1].

    Returns:
        The numbers.

    Source:
        Users on their way arrive evenly over h, Poisson in number, or all of them; docs/method.md, "A server under
        load".
    """
    way = maximum(before, _TINY)

    def any_in(part: Real) -> Real:
        nobody = (1.0 - gathered) * _E ** (0.0 - minimum(further * part, _SURE))
        return 1.0 - nobody - gathered * maximum(1.0 - part, _E**-_SURE) ** further

    within = minimum(1.0, begin / way)  # of those on their way, who come during the first pass
    passes = maximum(before - begin, 0.0) / next_pass  # that the rest of the way lasts
    second, another = any_in(within), minimum(any_in(minimum(1.0 - within, next_pass / way)), 1.0 - _E**-_SURE)
    most = maximum(passes + 0.5, 1.0)
    follow = second * (1.0 + another * (1.0 - another**most) / (1.0 - another))
    full = second ** minimum(2.0 * passes, 1.0) * another ** maximum(passes - 0.5, 0.0)
    prompts = maximum(minimum(bunch + further * minimum(within + follow * next_pass / way, 1.0), users), bunch)
    return _InRun(prompts, 1.0 + follow, full, maximum((prompts - bunch) / maximum(follow, _TINY), 1.0))


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
