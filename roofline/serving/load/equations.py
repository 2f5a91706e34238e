"""A server under a load: mean latencies of users (closed loop) and of random arrivals (open loop)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from roofline.numbers.operations import Real, above, below, maximum, minimum, negated, never, where
from roofline.numbers.quantity import MICRO, MILLI, NANO
from roofline.numbers.roots import Settled, carried_crossing, fixed_point, repeated
from roofline.physics.plan import Deployment
from roofline.serving.latency import EQUAL, Served, Workload, lanes, time_per_token
from roofline.serving.load.programs import answered
from roofline.serving.load.rounds import LEAST_BUDGET, Meeting, alone_passes, meeting, over_all_answers
from roofline.serving.load.server import (
    PROMPTS_FIRST,
    STABLE,
    UNLIMITED,
    Prompt,
    Server,
    added,
    link_rate,
    link_wait,
    prompt_of,
)
from roofline.serving.load.waves import queue
from roofline.serving.prompts import hit_rate, load_time
from roofline.specs.arrivals import LEAST_BUSY, PREFIX
from roofline.specs.engine import HBM
from roofline.support.records import NamedTuple, replace

#: Share of the saturation rate beyond which times are those at this share.
FULL = 0.9999

_INNER = 12  # rounds per trial throughput, where plain iteration does not converge
_DAMPED = 0.25  # share of a round's `seen` that is taken there
_LEAST = 2.0**-40  # smallest trial throughput, over the largest
_SETTLED_WITHIN = MICRO  # relative change in another round, of what a search found
_NEEDED_WITHIN = 100.0 * _SETTLED_WITHIN  # of the users: they grow some ten times as fast as the throughput
_TINY = 2.0**-200  # of a time, against division by zero
_BUNCH_ROUNDS = 3
_ROOT = 0.5  # damping exponent of the throughput update: more load lowers each user's throughput

_State = tuple[Real, ...]  # other sequences that decode, `Meeting.seen`, request rate of a rank


def server_of(deployment: Deployment, workload: Workload) -> Server:
    """One rank of a deployment under its load."""
    users = workload.load.users_on(deployment.replicas * deployment.plan.pp)
    lengths = workload.lengths or EQUAL
    return Server(
        deployment, workload.isl, workload.osl, workload.prefix, users, lengths, workload.cold_start, workload.cache,
        workload.load.is_queue,
    )  # fmt: skip


def served_at_random(deployment: Deployment, workload: Workload, start: tuple[Real, ...] | None = None) -> Served:
    """`steady.served` of users, a queue or random arrivals.

    Args:
        deployment: the ranks that share the load.
        workload: without arrivals of its own.
        start: where to begin, as there [any].

    Returns:
        Mean figures.

    Valid:
        `domain` gives the validated range. Lengths are those of the mean request; users' lengths are assumed to
        differ a little, as equal ones would stay in step. With pp, as many batches take turns, evenly
        filled.

    Source:
        docs/method.md, "A server under load".
    """
    found: Served = answered(served_by_formulas, deployment, workload, start or ())
    return found


def served_by_formulas(deployment: Deployment, workload: Workload, start: Sequence[Real] = ()) -> Served:
    """As `served`, without a program."""
    server = server_of(deployment, workload)
    prompt = prompt_of(server)
    if workload.load.is_queue:
        return queue(server, prompt, workload)
    full = saturation(replace(server, users=UNLIMITED), prompt)
    loop = _open_loop if workload.load.is_open else _closed_loop
    return loop(server, prompt, full, workload, tuple(start) or None)


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
    slowest = all_slots_taken(server, full, rate)

    def unbounded(state: tuple[Real, ...]) -> Meeting:
        return meeting(server, prompt, rate, minimum(state[0], full.slots), state[1], None)

    def meeting_at(state: tuple[Real, ...]) -> Meeting:
        met = unbounded(state)
        within = minimum(slowest / maximum(met.decode, _TINY), 1.0)
        return met._replace(decode=within * met.decode, step=within * met.step)

    def next_state(state: tuple[Real, ...]) -> tuple[Real, ...]:
        met = meeting_at(state)
        return rate * met.decode, met.seen

    # Steps that grow evenly with the sequences, up to those at saturation.
    alone = rate * steps * plain
    several = alone / (1.0 - rate / full.rate + alone / full.sequences)
    is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
    initial = several, (plain if is_prompts_first else several / maximum(rate * steps, _TINY)) + 0.0 * rate
    settled = fixed_point(next_state, start or initial)
    values = _or_bracketed(settled, _bracketed_others(next_state, full.slots), initial)
    others, met = minimum(values[0], full.slots), unbounded(values)
    within = minimum(slowest / maximum(met.decode, _TINY), 1.0)
    is_found = _is_same(met.seen, values[1]) & _is_same(rate * within * met.decode, values[0])
    step, decode = over_all_answers(server, met)
    met = met._replace(decode=within * decode, step=within * step)
    share, wait = slot_wait(server, full, met, rate, others)
    if server.engine.scheduler == PROMPTS_FIRST:  # each free slot admits a prompt, which delays the answers
        wanted = maximum(rate * unbounded(values).decode, full.slots)
        kept = 1.0 - full.slots / wanted
        share, wait = maximum(share, kept), maximum(wait, kept / maximum(full.rate - rate, _TINY))
    own = minimum(prompt.alone, met.stage)
    queue = met.stage - own + wait + link_wait(server, rate, None).over_all
    ttft = server.before + own + queue
    is_stable = (offered < full.rate) & (settled.is_found | is_found)
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

    most = inside / maximum(steps, NANO)  # answers that end with a decode step, if all decode
    is_prompts_first = server.engine.scheduler == PROMPTS_FIRST

    def meeting_at(state: tuple[Real, ...]) -> Meeting:
        spare = (users - inside) / state[2]
        return meeting(server, prompt, state[2] * others / inside, minimum(state[0], others), state[1], inside, spare)

    def next_state(state: tuple[Real, ...]) -> tuple[Real, ...]:
        met = meeting_at(state)
        cycle = _in_slot(server, met, state, users, inside)
        now_decoding = minimum(state[2] * others / inside * met.decode, others)
        if is_prompts_first:  # where prompts take all of the time, throughput hardly changes
            ended = minimum(state[2] * state[1], most)
            ended = ended * (inside * met.seen / maximum(cycle, prompt.alone) / ended) ** _ROOT
            return now_decoding, met.seen, minimum(ended, most) / met.seen
        max_rate = minimum(maximum(1.0 / met.in_full, 1.0 / alone), max_link_rate)
        throughput = minimum(inside / cycle, max_rate)
        return now_decoding, met.seen, state[2] * (throughput / state[2]) ** _ROOT

    initial = _initial_state(server, prompt, inside)
    settled = fixed_point(next_state, start or initial)
    begin = initial
    search = _bracketed_ends(next_state, most)
    if not is_prompts_first:
        search = _bracketing(meeting_at, next_state, inside / alone, (users, inside), server)
        begin = 0.0 * initial[2], plain + 0.0 * initial[2], initial[2]
    values = _or_bracketed(settled, search, begin)
    met, rate = meeting_at(values), values[2]
    link_delay = link_wait(server, rate, inside).over_all
    *followed, ended = map(_is_same, next_state(values), values)
    if not is_prompts_first:
        ended = _is_same(_needed(server, met, values, users, inside), 1.0, _NEEDED_WITHIN)
    is_found = settled.is_found | (steps <= 0.0) | (followed[0] & followed[1] & ended)
    step, decode = over_all_answers(server, met)
    least = before + link_delay + met.stage
    ttft = where(users > 1.0, maximum(users / rate - decode, least), least)
    if not never(steps <= 0.0):  # single tokens: prompts wait for prompts only
        ttft = where(steps <= 0.0, _prompts_alone(server, prompt, users), ttft)
    if workload.load.is_run:
        steady_step = step
        ttft, step = _run_means(server, prompt, met, workload, (users, inside), (ttft, step))
        decode = decode * step / steady_step
    answered = workload.concurrency / (ttft + decode)
    ttft = where(is_found, ttft, float("inf"))
    queue = ttft - before - prompt.alone
    return Served(
        ttft=ttft,
        tpot=time_per_token(deployment, server.osl, step),
        decode=decode,
        queue=where(queue > NANO * ttft, queue, 0.0),
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


def _in_slot(server: Server, met: Meeting, state: _State, users: Real, inside: Real) -> Real:
    """Time from one request of a slot to the next [s]: while its user is away, another who waits takes it over."""
    away = server.before + link_wait(server, state[2], inside).over_all + met.late
    return maximum(away - (users - inside) / state[2], 0.0) + met.stage - met.late + met.decode


def _needed(server: Server, met: Meeting, state: _State, users: Real, inside: Real) -> Real:
    """Users that a throughput needs, over those inside; or the share of time of the fuller of prompts and link [1]."""
    needed = state[2] * maximum(_in_slot(server, met, state, users, inside) / inside, met.in_full)
    return needed if server.is_free_of_loads else maximum(needed, state[2] / link_rate(server))


def _is_same(one: Real, other: Real, within: float = _SETTLED_WITHIN) -> Real:
    return abs(one - other) <= within * maximum(one, other)


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


def _bracketed_ends(next_state: Callable[[_State], _State], most: Real) -> Callable[[_State], tuple[_State, bool]]:
    """Search for users whose prompts come first: answers that end per decode step by bracketing."""

    def averaged(state: _State, ended: Real, rounds: int) -> _State:
        trial = maximum(ended, _LEAST * most)

        def one(state: _State) -> tuple[_State, bool]:
            others, seen, _ = next_state((*state, trial / state[1]))
            return (0.5 * (state[0] + others), seen), True

        return repeated(one, state, rounds, (trial,))

    def surplus(ended: Real, state: _State) -> tuple[Real, _State]:
        state = averaged(state, ended, _INNER)
        trial = maximum(ended, _LEAST * most)
        _, seen, rate = next_state((*state, trial / state[1]))
        return rate * seen / trial - 1.0, state

    def search(state: _State) -> tuple[_State, bool]:
        ended, state = carried_crossing(surplus, most, state[:2])
        ended = minimum(ended, most)
        state = averaged(state, ended, _INNER * _INNER)
        return (*state, ended / state[1]), False

    return search


def _bracketing(
    meeting_at: Callable[[_State], Meeting],
    next_state: Callable[[_State], _State],
    max_rate: Real,
    users: tuple[Real, Real],
    server: Server,
) -> Callable[[_State], tuple[_State, bool]]:
    """Search where plain iteration diverges: throughput by bracketing, the rest of the state by iteration.

    This happens where prompts take nearly all of the time. `users`: of the rank, and those of them with a slot.
    """

    def averaged(state: _State, rate: Real, rounds: int) -> _State:
        trial_rate = maximum(rate, _LEAST * max_rate)

        def damped_round(state: _State) -> tuple[_State, bool]:
            others, seen, _ = next_state((*state, trial_rate))
            return (0.5 * (state[0] + others), 0.5 * (state[1] + seen)), True

        return repeated(damped_round, state, rounds, (trial_rate,))

    def surplus(rate: Real, state: _State) -> tuple[Real, _State]:
        state = averaged(state, rate, _INNER)
        trial = (*state, maximum(rate, _LEAST * max_rate))
        return 1.0 - _needed(server, meeting_at(trial), trial, *users), state

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
    ttft = server.before + prompt.alone + others / 2.0 * added_time + step / 2.0 * minimum(1.0, others)
    mean_step = step + added_time / (steps + 1.0) * others / 2.0
    ttft = ttft + (all_users / inside - 1.0) * (ttft + steps * mean_step)
    run: Real = workload.num_prompts
    share = minimum(1.0, workload.concurrency / run)
    return share * ttft + (1.0 - share) * steady[0], share * mean_step + (1.0 - share) * steady[1]


# Saturation of a rank, and the wait for a slot where no further sequence is admitted.

_MOST_SLOTS = 1 << 16  # in the sum over states
_STATES, _OUTWEIGHS = 16.0, 6.0  # whose power is beyond `_NEGLIGIBLE`
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


def capacity(deployment: Deployment, workload: Workload) -> Real:
    """The most that a deployment takes: users that run at once, or requests per second, whatever the load states."""
    return answered(_capacity, deployment, workload)


def _capacity(deployment: Deployment, workload: Workload, _: Sequence[Real] = ()) -> Real:
    server = server_of(deployment, workload)
    if not workload.load.is_open:
        return server.slots * lanes(deployment)
    return saturation(replace(server, users=UNLIMITED), prompt_of(server)).rate * lanes(deployment)


def all_slots_taken(server: Server, full: Saturation, rate: Real) -> Real:
    r"""Time of an answer with all slots taken, which no other answer exceeds.

    .. math:: \frac{b_{max}}{X_{sat}},\quad
              \frac{b_{max}}{l} \left(1 - \frac{\min(1, 2 - 2 u)^2}{2 + (O - 1) / 15}\right)

    The latter where prompts come first, which take each slot that is free as soon as a request comes; answers that
    begin together end together, and leave slots free for a while.

    Args:
        server: a rank.
        full: its saturation.
        rate: arrivals l at the rank [1/s]; u = l / X_sat.

    Returns:
        Time [s].

    Source:
        Little's law; the share of slots that stay free was chosen by simulation.
    """
    if server.engine.scheduler != PROMPTS_FIRST:
        return full.slots / full.rate
    together = minimum(1.0, 2.0 - 2.0 * minimum(rate / full.rate, 1.0)) ** 2
    return full.slots / rate * (1.0 - together / (2.0 + server.steps_of() / 15.0))


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
    # Where so many states below the last one each outweigh the next so much, full slots never occur.
    may_occur = (slots <= _STATES) | (completion_rate(maximum(slots - _STATES, 1.0)) < _OUTWEIGHS * rate)
    _, total, _ = repeated(next_state, (unit, unit, slots), _MOST_SLOTS, (last,), begins=may_occur)
    waiting = 1.0 / (1.0 - load)
    share = waiting / (total - 1.0 + waiting)
    share = where(may_occur & (total < _NEGLIGIBLE), share, 0.0)
    return share, share * server.lengths.answers.biased / 2.0 / (last * (1.0 - load))


# The validated range of the load equations; `regions` has their errors.

#: Bounds of the validated range (docs/method.md).
MOST_UTIL = 0.8
_MOST_RHO, _MOST_PROMPT, _MOST_WAITING, _MOST_CV = 0.5, 0.5, MILLI, 0.3
_MOST_LOADS = 0.6
_MOST_OVERLOADED = 0.002  # of the requests, where the queue of a bunch may last


def outside(deployment: Deployment, workload: Workload, under_load: Served) -> Iterator[tuple[Real, str]]:
    """Conditions of the validated range: whether a case fails each, and the words for it."""
    if workload.load.is_open:
        yield under_load.util > MOST_UTIL, f"utilisation above {MOST_UTIL:.0%}"
        yield under_load.waiting_share > _MOST_WAITING, "requests wait for memory or max_num_seqs"
        yield from _outside_of_arrivals(deployment, workload, under_load)
    elif not workload.load.is_queue:
        yield under_load.rho_chunks > MOST_UTIL, "prefill near the token budget"
    if workload.load.is_queue:
        if deployment.draft is not None:
            yield workload.osl > 0.0, "a queue with drafts, whose answers do not end together"
    else:
        yield from _outside_of_steady(workload, under_load)
    yield from _outside_of_sessions(deployment, workload, under_load)
    if workload.lengths is not None and workload.lengths.prompts.cv > _MOST_CV:
        yield workload.osl > 0.0, f"prompt length cv above {_MOST_CV:g}"
    cache = workload.cache
    if cache is not None and cache.tier != HBM and cache.turns is None:
        loads = hit_rate(deployment, workload.prefix, cache) * load_time(deployment, workload.prefix, cache)
        busy = under_load.request_rate * loads / (deployment.replicas * deployment.plan.dp)
        yield busy > _MOST_LOADS, f"loads of prefixes over {_MOST_LOADS:.0%} of the time of their link"
    if not never(deployment.plan.pp > 1):
        yield (workload.osl > 0.0) & (deployment.plan.pp > 1), "pipeline parallelism"
    for words in not_simulated(deployment):
        yield workload.osl > 0.0, words


def not_simulated(deployment: Deployment) -> Iterator[str]:
    """What of a deployment no simulation runs, in words."""
    if deployment.plan.cp > 1:
        yield "context parallelism of prompts"
    if deployment.adapters is not None:
        yield "adapters"
    if deployment.offload is not None and deployment.offload.cpu_bandwidth is not None:
        yield "experts on the CPU"


def _outside_of_arrivals(deployment: Deployment, workload: Workload, under_load: Served) -> Iterator[tuple[Real, str]]:
    """Conditions of arrivals that bunch, and of routers."""
    process, always = workload.arrivals, workload.osl > 0.0
    if process is None:
        return
    yield under_load.overloaded > _MOST_OVERLOADED, "more come at times than are answered"
    if deployment.draft is not None or workload.cache is not None:
        yield always, "arrivals of their own with drafts, a prompt cache or sessions"
    if process.router in (LEAST_BUSY, PREFIX) and not never(deployment.replicas > 1):
        yield always, f"router {process.router}"


def _outside_of_sessions(deployment: Deployment, workload: Workload, under_load: Served) -> Iterator[tuple[Real, str]]:
    """Conditions of sessions: half-full servers of turns without drafts were simulated."""
    if workload.sessions is None:
        return
    if not workload.load.is_open:
        yield under_load.util > MOST_UTIL, f"utilisation above {MOST_UTIL:.0%}"
    yield under_load.link > _MOST_LOADS, f"loads of contexts over {_MOST_LOADS:.0%} of the time of their link"
    if deployment.draft is not None:
        yield workload.osl > 0.0, "sessions with drafts"


def _outside_of_steady(workload: Workload, under_load: Served) -> Iterator[tuple[Real, str]]:
    """Conditions of loads that last."""
    if workload.load.is_run:
        yield workload.osl > 0.0, "a run that includes its start"
    yield under_load.rho > _MOST_RHO, f"prefill over {_MOST_RHO:.0%} of the time"
    has_decode = workload.osl > 1.0
    yield (
        has_decode & (under_load.prompt_share > _MOST_PROMPT),
        "one prefill over half of a request's decode steps",
    )
    yield workload.osl <= 1.0, "single-token answers"
