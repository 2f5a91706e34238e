"""A server under a load: mean latencies of users (closed loop) and of random arrivals (open loop)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from roofline.numbers.operations import Real, above, below, comparable, maximum, minimum, negated, never, where
from roofline.numbers.quantity import MICRO, MILLI, NANO, rounded, to_text
from roofline.numbers.roots import Settled, carried_crossing, fixed_point, repeated
from roofline.physics.plan import Deployment
from roofline.serving.latency import (
    BENCHMARK,
    EQUAL,
    UNDER_LOAD,
    Served,
    Workload,
    decode,
    hit_rate,
    lanes,
    load_time,
    prefill,
    time_per_token,
)
from roofline.serving.load.server import (
    PROMPTS_FIRST,
    STABLE,
    UNLIMITED,
    Prompt,
    Server,
    added,
    added_by_node,
    link_rate,
    link_wait,
    prompt_of,
    turns,
)
from roofline.specs.engine import HBM
from roofline.specs.load import Users
from roofline.support.records import NamedTuple, replace

#: Share of the saturation rate beyond which times are those at this share.
FULL = 0.9999

_INNER = 12  # rounds per trial throughput, where plain iteration does not converge
_DAMPED = 0.25  # share of a round's `seen` that is taken there
_LEAST = 2.0**-40  # smallest trial throughput, over the largest
_SETTLED_WITHIN = MICRO  # relative change in another round, of what a search found
_TINY = 2.0**-200  # of a time, against division by zero
_ROOT = 0.5  # damping exponent of the throughput update: more load lowers each user's throughput

_State = tuple[Real, ...]  # other sequences that decode, `Meeting.seen`, request rate of a rank


def server_of(deployment: Deployment, workload: Workload) -> Server:
    """One rank of a deployment under its load."""
    users = workload.load.users_on(deployment.replicas * deployment.plan.pp)
    lengths = workload.lengths or EQUAL
    return Server(
        deployment, workload.isl, workload.osl, workload.prefix, users, lengths, workload.cold_start, workload.cache
    )


def served(deployment: Deployment, workload: Workload, start: tuple[Real, ...] | None = None) -> Served:
    """Mean latencies of a deployment under a load.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths, and users or a rate.
        start: `Served.state` of a nearby case, as the initial guess [any].

    Returns:
        Mean figures; times are infinite under overload, and where no steady state is found.

    Valid:
        `domain` gives the validated range. Lengths are those of the mean request; users' lengths are assumed to
        differ a little, as equal ones would stay in step. With pp, as many batches take turns, evenly
        filled.

    Source:
        docs/method.md, "A server under load".
    """
    server = server_of(deployment, workload)
    prompt = prompt_of(server)
    full = saturation(replace(server, users=UNLIMITED), prompt)
    loop = _open_loop if workload.load.is_open else _closed_loop
    return loop(server, prompt, full, workload, start)


def mean_latencies(deployment: Deployment, workload: Workload) -> tuple[Real, Real]:
    """TTFT and TPOT [s] under any load."""
    if workload.load.is_burst:
        step = decode(deployment, workload).time
        return prefill(deployment, workload).time, time_per_token(deployment, workload.osl, step)
    under_load = served(deployment, workload)
    return under_load.ttft, under_load.tpot


def _open_loop(
    server: Server, prompt: Prompt, full: Saturation, workload: Workload, start: tuple[Real, ...] | None
) -> Served:
    """Poisson arrivals."""
    deployment = server.deployment
    ranks = lanes(deployment)
    offered = workload.request_rate / ranks
    rate = minimum(offered, FULL * full.rate)
    steps, plan = server.steps_of(), server.deployment.plan
    plain = server.decode(1.0).total
    # [s] of an answer with all slots taken, which no other answer exceeds
    slowest = full.slots / (rate if server.engine.scheduler == PROMPTS_FIRST else full.rate)

    def unbounded(state: tuple[Real, ...]) -> Meeting:
        return meeting(server, prompt, rate, minimum(state[0], full.slots), state[1], None)

    def meeting_at(state: tuple[Real, ...]) -> Meeting:
        met = unbounded(state)
        within = minimum(slowest / maximum(met.decode, _TINY), 1.0)
        return met._replace(decode=within * met.decode, step=within * met.step)

    def next_state(state: tuple[Real, ...]) -> tuple[Real, ...]:
        met = meeting_at(state)
        return rate * met.decode, met.seen

    initial = (rate * steps * plain, plain + 0.0 * rate)
    settled = fixed_point(next_state, start or initial)
    values = _or_bracketed(settled, _bracketed_others(next_state, full.slots), initial)
    others, met = minimum(values[0], full.slots), meeting_at(values)
    share, wait = slot_wait(server, full, met, rate, others)
    if server.engine.scheduler == PROMPTS_FIRST:  # each free slot admits a prompt, which delays the answers
        wanted = maximum(rate * unbounded(values).decode, full.slots)
        share = maximum(share, 1.0 - full.slots / wanted)
        wait = maximum(wait, (wanted / full.slots - 1.0) / maximum(full.rate - rate, _TINY))
    queue = maximum(met.stage - prompt.alone, 0.0) + wait + link_wait(server, rate, None).over_all
    ttft = server.before + prompt.alone + queue
    is_found = settled.is_found | (_is_same(met.seen, values[1]) & _is_same(rate * met.decode, values[0]))
    is_stable = (offered < full.rate) & is_found
    ttft = where(is_stable, ttft, float("inf"))
    return Served(
        ttft=ttft,
        tpot=time_per_token(deployment, server.osl, met.step),
        decode=met.decode,
        queue=where(is_stable, queue, float("inf")),
        concurrency=workload.request_rate * (ttft + met.decode),
        request_rate=workload.request_rate,
        max_request_rate=full.rate * ranks,
        batch=maximum(minimum(1.0 + others * plan.dp, full.slots * plan.dp), 1.0),
        slots=full.slots,
        rho=met.rho,
        rho_chunks=met.rho_chunks,
        prompt_share=met.prompt / (server.steps * met.mean_step),
        waiting_share=share,
        is_stable=is_stable,
        state=values,
        prompt=met.prompt,
        nobody=met.nobody,
    )


def _closed_loop(
    server: Server, prompt: Prompt, full: Saturation, workload: Workload, start: tuple[Real, ...] | None
) -> Served:
    """Users who send the next request as soon as the last is answered."""
    deployment = server.deployment
    ranks = lanes(deployment)
    users = workload.load.users_on(ranks)
    inside = maximum(minimum(users, full.slots), 1.0)
    plan = server.deployment.plan
    steps, before = server.steps_of(), server.before
    others = inside - 1.0
    plain = server.decode(1.0).total
    alone = before + prompt.alone + steps * plain
    max_link_rate = float("inf") if server.is_free_of_loads else link_rate(server)

    def meeting_at(state: tuple[Real, ...]) -> Meeting:
        return meeting(server, prompt, state[2] * others / inside, minimum(state[0], others), state[1], inside)

    def next_state(state: tuple[Real, ...]) -> tuple[Real, ...]:
        met = meeting_at(state)
        max_rate = minimum(maximum(1.0 / met.in_full, 1.0 / alone), max_link_rate)
        first = before + link_wait(server, state[2], inside).over_all + met.stage
        throughput = minimum(inside / (first + met.decode), max_rate)
        rate = state[2] * others / inside
        return minimum(rate * met.decode, others), met.seen, state[2] * (throughput / state[2]) ** _ROOT

    initial = _initial_state(server, prompt, inside)
    settled = fixed_point(next_state, start or initial)
    zero = 0.0 * initial[2]
    search = _bracketing(meeting_at, next_state, inside / alone, inside, server)
    values = _or_bracketed(settled, search, (zero, plain + zero, initial[2]))
    met, rate = meeting_at(values), values[2]
    link_delay = link_wait(server, rate, inside).over_all
    needed = _needed(server, met, rate, inside)
    is_found = (
        settled.is_found
        | (steps <= 0.0)
        | (
            _is_same(minimum(rate * others / inside * met.decode, others), values[0])
            & _is_same(met.seen, values[1])
            & _is_same(needed, 1.0)
        )
    )
    ttft = maximum(users / rate - met.decode, before + link_delay + maximum(met.stage, prompt.alone))
    if not never(steps <= 0.0):  # single tokens: prompts wait for prompts only
        ttft = where(steps <= 0.0, _prompts_alone(server, prompt, users), ttft)
    step, decode = met.step, met.decode
    if workload.load.is_run:
        ttft, step = _run_means(server, prompt, met, workload, (users, inside), (ttft, step))
        decode = decode * step / met.step
    answered = workload.concurrency / (ttft + decode)
    ttft = where(is_found, ttft, float("inf"))
    return Served(
        ttft=ttft,
        tpot=time_per_token(deployment, server.osl, step),
        decode=decode,
        queue=maximum(ttft - before - prompt.alone, 0.0),
        concurrency=workload.concurrency,
        request_rate=answered,
        max_request_rate=maximum(full.rate * ranks, answered),
        batch=minimum(1.0 if server.users is None else server.users, (1.0 + minimum(values[0], others)) * plan.dp),
        slots=full.slots,
        rho=met.rho,
        rho_chunks=met.rho_chunks,
        prompt_share=met.prompt / (server.steps * met.mean_step),
        waiting_share=1.0 - inside / users,
        is_stable=is_found,
        state=values,
        prompt=met.prompt,
        nobody=met.nobody,
    )


def _prompts_alone(server: Server, prompt: Prompt, users: Real) -> Real:
    r"""TTFT of users whose answers are single tokens.

    .. math:: R = g\, Y(c / g),\quad g = \max(\min(2, c), 1 + h / Y)

    Prompts of one pass end together, so that their users stay together. Users come in bunches: one is computed while
    others wait, or are on their way for h; there are no more than the passes that fit into the way, and one.

    `users` are those of the rank [requests].

    Valid:
        Prompts of about equal length; the rank is never idle but for a single user.

    Source:
        Arithmetic; docs/method.md, "A server under load".
    """
    before = server.before
    bunches = minimum(users, 2.0)
    for _ in range(_BUNCH_ROUNDS):
        count = users / bunches
        passes = alone_passes(server, prompt, count)
        time = passes.fixed + passes.each * count
        bunches = minimum(maximum(bunches, 1.0 + before / time), users)
    count = users / bunches
    passes = alone_passes(server, prompt, count)
    time = passes.fixed + passes.each * count
    return maximum(maximum(bunches * time, users * passes.full), before + prompt.alone)


def _initial_state(server: Server, prompt: Prompt, inside: Real) -> _State:
    """Initial state for users: every prompt of others falls within the request's own decode steps."""
    steps, others = server.steps_of(), inside - 1.0
    step = server.decode(inside)
    base = server.beside(inside, step)
    added_time = added(server, prompt, inside, base, prompt.length, prompt.length, prompt.attention)
    decoding = steps * step.total + added_time * others
    latency = server.before + prompt.alone + step.total + decoding
    occupied = minimum(added_time * others / latency, 0.9)
    seen = added_time if server.engine.scheduler == PROMPTS_FIRST else step.total + occupied * added_time
    return others * decoding / latency, seen, inside / latency


def _or_bracketed(settled: Settled, search: Callable[[_State], tuple[_State, bool]], start: _State) -> _State:
    """The fixed point, or what a search finds from a start where plain iteration diverges."""
    bracketed = repeated(search, start, 1, settled.values, begins=negated(settled.is_found))
    pairs = zip(settled.values, bracketed, strict=True)
    return tuple(where(settled.is_found, plain, better) for plain, better in pairs)


def _needed(server: Server, met: Meeting, rate: Real, inside: Real) -> Real:
    """Users that a throughput needs, over those inside; or the share of time of the fuller of prompts and link [1]."""
    link_delay = link_wait(server, rate, inside).over_all
    needed = maximum(rate * (server.before + link_delay + met.stage + met.decode) / inside, rate * met.in_full)
    return needed if server.is_free_of_loads else maximum(needed, rate / link_rate(server))


def _is_same(one: Real, other: Real) -> Real:
    return abs(one - other) <= _SETTLED_WITHIN * maximum(one, other)


def _bracketed_others(next_state: Callable[[_State], _State], slots: Real) -> Callable[[_State], tuple[_State, bool]]:
    """Search for random arrivals: sequences that decode by bracketing, `Meeting.seen` by iteration.

    Below saturation, fewer than all slots are taken, so that there is a crossing.
    """

    def averaged(others: Real, seen: Real, rounds: int) -> Real:
        def damped_round(state: _State) -> tuple[_State, bool]:
            return (state[0] + _DAMPED * (next_state((others, state[0]))[1] - state[0]),), True

        return repeated(damped_round, (seen,), rounds, (others,))[0]

    def surplus(others: Real, state: _State) -> tuple[Real, _State]:
        seen = averaged(others, state[0], _INNER)
        return next_state((others, seen))[0] - others, (seen,)

    def search(state: _State) -> tuple[_State, bool]:
        others, (seen,) = carried_crossing(surplus, slots, state[1:])
        others = minimum(others, slots)
        return (others, averaged(others, seen, _INNER * _INNER)), False

    return search


def _bracketing(
    meeting_at: Callable[[_State], Meeting],
    next_state: Callable[[_State], _State],
    max_rate: Real,
    inside: Real,
    server: Server,
) -> Callable[[_State], tuple[_State, bool]]:
    """Search where plain iteration diverges: throughput by bracketing, the rest of the state by iteration.

    This happens where prompts take nearly all of the time.
    """

    def averaged(state: _State, rate: Real, rounds: int) -> _State:
        trial_rate = maximum(rate, _LEAST * max_rate)

        def damped_round(state: _State) -> tuple[_State, bool]:
            others, seen, _ = next_state((*state, trial_rate))
            return (0.5 * (state[0] + others), 0.5 * (state[1] + seen)), True

        return repeated(damped_round, state, rounds, (trial_rate,))

    def surplus(rate: Real, state: _State) -> tuple[Real, _State]:
        state = averaged(state, rate, _INNER)
        return 1.0 - _needed(server, meeting_at((*state, rate)), rate, inside), state

    def search(state: _State) -> tuple[_State, bool]:
        rate, state = carried_crossing(surplus, max_rate, state[:2])
        rate = minimum(rate, max_rate)
        return (*averaged(state, rate, _INNER * _INNER), rate), False

    return search


def _run_means(
    server: Server,
    prompt: Prompt,
    met: Meeting,
    workload: Workload,
    users: tuple[Real, Real],
    steady: tuple[Real, Real],
) -> tuple[Real, Real]:
    r"""Means of a run of N requests that all users begin at once.

    .. math:: TTFT = f\, TTFT_{burst} + (1 - f)\, TTFT_{steady},\quad f = \min(1, c / N)

    In the initial burst, half of the other prompts precede the request's own, half fall between its decode steps.

    `users`: of the rank, and those of them with a slot [requests]; `steady`: TTFT and mean decode step [s], like the
    result.
    """
    all_users, inside = users
    steps, others = server.steps_of(), inside - 1.0
    added_time = met.prompt
    if server.engine.scheduler == PROMPTS_FIRST:  # decoding starts after all prompts
        added_time = added_time / server.engine.prefill_slowdown
    step = server.decode(inside).total
    arrival = server.engine.arrival + step / 2.0
    ttft = server.before + prompt.alone + others / 2.0 * added_time + arrival * minimum(1.0, others)
    mean_step = step + added_time / (steps + 1.0) * others / 2.0
    ttft = ttft + (all_users / inside - 1.0) * (ttft + steps * mean_step)
    run: Real = workload.num_prompts
    share = minimum(1.0, workload.concurrency / run)
    return share * ttft + (1.0 - share) * steady[0], share * mean_step + (1.0 - share) * steady[1]


# Mean latencies of a server under a load, as the fixed point of one round.
#
# A round maps what a request meets (how many others decode, how long a step is) to what follows from it;
# `serving.load.equations` finds the fixed point. Nothing here is fitted to servers. docs/method.md, "A server under
# load", has the equations and their errors against a simulation of every step.

#: Smallest share of the token budget that is left for prompts.
LEAST_BUDGET = 0.02

_E = 2.718281828459045
_HALF = 0.5  # bound on the share of time that a first prompt saves
_BUNCH_ROUNDS = 3
SEVERAL = 0.5  # decode steps of an answer that is rounded to more than one token
_LONGEST_RUN = 40.0  # logarithm of the passes that follow each other
_MERGED = 1.4  # time in which bunches of requests come into one pass, over a pass


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
    spans = maximum(minimum(before, _MERGED * time) / plain, 1.0)
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


# Saturation of a rank, and the wait for a slot where no further sequence is admitted.

_MOST_SLOTS = 1 << 16  # in the sum over states
_NEGLIGIBLE = 2.0**40  # weight over that of full slots, beyond which full slots never occur


class Saturation(NamedTuple):
    """The most that one rank can serve."""

    rate: Real  # [1/s] requests
    slots: Real  # [sequences] at most
    step: Real  # [s] D at saturation
    sequences: Real  # [sequences] decoding then


def saturation(server: Server, prompt: Prompt) -> Saturation:
    r"""Largest request rate of a rank.

    .. math:: X_{sat} = \frac{y}{D(b) + y\, P(b, n)},\quad
              y = \min\left(\frac{b_{max}}{O - 1}, \frac{C}{S + O - 1}\right)

    y requests start with each step, as many as end, with all slots or all of the token budget taken. The link for
    prefix loads may allow less (`link_rate`).

    Args:
        server: a rank.
        prompt: its mean prompt.

    Returns:
        Rate [1/s], and the state of the rank then.

    Source:
        docs/method.md, "A server under load".
    """
    slots, steps, length, budget = server.slots, server.steps_of(), prompt.length, server.budget
    queries = server.deployment.queries
    is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
    begin = slots / maximum(steps, 1.0)
    if not is_prompts_first:
        begin = minimum(begin, budget / (length + steps * queries))
    begin = where(steps > 0.0, begin, budget / length)
    sequences = minimum(maximum(begin * steps, 1.0), slots)
    parts = server.decode(sequences)
    base = server.beside(sequences, parts)
    room = budget if is_prompts_first else maximum(budget - sequences * queries, LEAST_BUDGET * budget)
    tokens = maximum(minimum(room, length * (1.0 + begin)), 1.0)
    usual = added(server, prompt, sequences, base, tokens, length, prompt.attention)
    rate = begin / (parts.total + begin * usual)
    if not server.is_free_of_loads:
        rate = minimum(rate, link_rate(server))
    return Saturation(rate, slots, parts.total, sequences)


def slot_wait(server: Server, full: Saturation, met: Meeting, rate: Real, others: Real) -> tuple[Real, Real]:
    r"""Wait for a slot, where `max_num_seqs` or memory admits no further sequence.

    .. math:: \pi_n \sim \prod_{i \le n} \frac{l (O - 1) T_i}{i},\quad
              T_n = D(n) + \frac{(n - 1) p}{O - 1} + T(O) - E_1

    The tail beyond the last slot is geometric; D(n) is linear from the mean step to the full one.

    Args:
        server: a rank.
        full: its saturation.
        met: conditions of a request at this rate.
        rate: Poisson arrivals at the rank [1/s].
        others: mean decoding sequences [sequences].

    Returns:
        Share of requests that wait [1], and mean wait over all requests [s].

    Valid:
        Poisson arrivals.

    Source:
        Birth-death process of the decoding sequences (Erlang C with state-dependent service).
    """
    if never(rate > 0.0):  # a single user never waits
        return 0.0, 0.0
    steps, slots = server.steps, full.slots
    middle = 1.0 + others
    slope = (full.step - met.plain) / maximum(full.sequences - middle, 1.0)
    excess = met.decode / steps - met.mean_step

    def completion_rate(sequences: Real) -> Real:
        """Requests that end per second with `sequences` decoding."""
        plain = maximum(met.plain + slope * (sequences - middle), 0.1 * met.plain)
        step = maximum(plain + (sequences - 1.0) * met.prompt / steps + excess, 0.1 * plain)
        return maximum(sequences / (steps * step), full.rate * sequences / slots)  # saturation with all slots taken

    last = completion_rate(slots)
    load = minimum(rate / last, STABLE)

    def next_state(state: tuple[Real, ...]) -> tuple[tuple[Real, ...], Real]:
        weight, total, number = state
        weight = where(number >= 1.0, minimum(weight * completion_rate(maximum(number, 1.0)) / rate, _NEGLIGIBLE), 0.0)
        total, number = total + weight, number - 1.0
        is_left = above(number, 0.0)
        return (weight, total, number), is_left if never(is_left) else is_left & below(total, _NEGLIGIBLE)

    unit = 0.0 * rate + 1.0
    _, total, _ = repeated(next_state, (unit, unit, slots), _MOST_SLOTS, (last,))
    waiting = 1.0 / (1.0 - load)
    share = waiting / (total - 1.0 + waiting)
    share = where(total >= _NEGLIGIBLE, 0.0, share)
    return share, share * server.lengths.answers.biased / 2.0 / (last * (1.0 - load))


# The validated range of the load equations, and their errors against a simulation of every step.

#: Bounds of the validated range (docs/method.md).
_MOST_UTIL, _MOST_RHO, _MOST_PROMPT, _MOST_WAITING, _MOST_CV = 0.8, 0.5, 0.5, MILLI, 0.3
_MOST_LOADS = 0.6


def outside(deployment: Deployment, workload: Workload, under_load: Served) -> Iterator[tuple[Real, str]]:
    """Conditions of the validated range: whether a case fails each, and the words for it."""
    if workload.load.is_open:
        yield under_load.util > _MOST_UTIL, f"utilisation above {_MOST_UTIL:.0%}"
        yield under_load.waiting_share > _MOST_WAITING, "requests wait for memory or max_num_seqs"
    else:
        yield under_load.rho_chunks > _MOST_UTIL, "prefill near the token budget"
    if workload.load.is_run:
        yield workload.osl > 0.0, "a run that includes its start"
    yield under_load.rho > _MOST_RHO, f"prefill over {_MOST_RHO:.0%} of the time"
    has_decode = workload.osl > 1.0
    yield (
        has_decode & (under_load.prompt_share > _MOST_PROMPT),
        "one prefill over half of a request's decode steps",
    )
    yield workload.osl <= 1.0, "single-token answers"
    if workload.lengths is not None and workload.lengths.prompts.cv > _MOST_CV:
        yield workload.osl > 0.0, f"prompt length cv above {_MOST_CV:g}"
    cache = workload.cache
    if cache is not None and cache.tier != HBM:
        loads = hit_rate(deployment, workload.prefix, cache) * load_time(deployment, workload.prefix, cache)
        busy = under_load.request_rate * loads / (deployment.replicas * deployment.plan.dp)
        yield busy > _MOST_LOADS, f"loads of prefixes over {_MOST_LOADS:.0%} of the time of their link"
    if deployment.plan.pp > 1:
        yield workload.osl > 0.0, "pipeline parallelism"


def domain(fails: Sequence[str]) -> str:
    """A sentence on whether one case is inside the validated range; `fails`: failed conditions."""
    if not fails:
        tpot, ttft, tpot_p99, ttft_p99 = map(rounded, _INSIDE)
        return (
            f"{UNDER_LOAD}: inside the validated range; mean error of the closed form against a simulation with the "
            f"same step times, not against GPUs: TPOT {tpot} %, TTFT {ttft} %, p99 {tpot_p99}/{ttft_p99} %"
        )
    return (
        f"{UNDER_LOAD}: outside the validated range ({', '.join(fails)}): the closed form may be far off there, and "
        "percentiles that contradict their mean are left out; compare with `simulate`"
    )


def benchmark_note(deployment: Deployment, workload: Workload, under_load: Served) -> tuple[str, ...]:
    """What a benchmark of as many users would report: they begin together, and its mean TTFT holds that start."""
    prompts = workload.load.benchmark
    if prompts is None or type(under_load.ttft) is not float or under_load.is_stable is not True:
        return ()
    run = served(deployment, replace(workload, load=Users(workload.concurrency, prompts)), under_load.state)
    report = f"would report a mean TTFT of {to_text(run.ttft, 's')} (`num_prompts` {prompts:.0f})"
    return (f"{BENCHMARK} {prompts:.0f} requests that all {workload.concurrency:g} users begin together {report}",)


def restated(
    warnings: Sequence[str], deployment: Deployment, workload: Workload, under_load: Served | None
) -> tuple[str, ...]:
    """Warnings of a case, with those on its load replaced for another deployment and workload; None: a burst."""
    other_warnings = tuple(text for text in warnings if not text.startswith((UNDER_LOAD, BENCHMARK)))
    if under_load is None:
        return other_warnings
    return (*other_warnings, domain([text for fails, text in outside(deployment, workload, under_load) if fails]))


# Mean errors of TPOT, TTFT and their p99 [%] against the simulation inside the range (docs/load.md).
_INSIDE = (2.3, 2.4, 4.8, 5.5)
