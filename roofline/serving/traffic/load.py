"""A server under a load: mean latencies of users (closed loop) and of random arrivals (open loop)."""

from __future__ import annotations

from collections.abc import Callable

from roofline.elements import negated
from roofline.ops import Real, maximum, minimum, never, where
from roofline.physics.plan import Deployment
from roofline.quantity import MICRO
from roofline.records import replace
from roofline.roots import Settled, carried_crossing, fixed_point, repeated
from roofline.serving.latency import BURST, Workload, decode, prefill, time_per_token
from roofline.serving.lengths import EQUAL
from roofline.serving.served import Served, lanes
from roofline.serving.traffic.link import link_rate, link_wait
from roofline.serving.traffic.prompts import Prompt, added, prompt_of
from roofline.serving.traffic.queueing import Meeting, meeting
from roofline.serving.traffic.server import PROMPTS_FIRST, UNLIMITED, Server
from roofline.serving.traffic.slots import Saturation, saturation, slot_wait

#: Share of the saturation rate beyond which times are those at this share.
FULL = 0.9999

_INNER = 12  # rounds per trial throughput, where plain iteration does not converge
_DAMPED = 0.25  # share of a round's `seen` that is taken there
_LEAST = 2.0**-40  # smallest trial throughput, over the largest
_SAME = MICRO  # relative change in another round, of what a search found
_ORDER = 3.0  # of the interpolation between one user and many, for single-token answers
_TINY = 2.0**-200  # of a time, against division by zero
_ROOT = 0.5  # damping exponent of the throughput update: more load lowers each user's throughput

_State = tuple[Real, ...]  # other sequences that decode, `Meeting.seen`, request rate of a rank


def server_of(deployment: Deployment, workload: Workload) -> Server:
    """One rank of a deployment under its load."""
    users = None
    if workload.concurrency is not None:
        users = maximum(workload.concurrency / (deployment.replicas * deployment.plan.pp), 1.0)
    lengths = workload.lengths or EQUAL
    return Server(
        deployment, workload.isl, workload.osl, workload.prefix, users, lengths, workload.cold_start, workload.cache
    )


def served(deployment: Deployment, workload: Workload, start: tuple[Real, ...] | None = None) -> Served:
    """Mean latencies of a deployment under a load.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths, and either `concurrency` or `request_rate`.
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
    if workload.concurrency is None:
        return _open_loop(server, prompt, full, workload, start)
    return _closed_loop(server, prompt, full, workload, start)


def mean_latencies(deployment: Deployment, workload: Workload) -> tuple[Real, Real]:
    """TTFT and TPOT [s] under any load."""
    if workload.load == BURST:
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
    slowest = full.slots / full.rate  # [s] of an answer with all slots taken, which no other answer exceeds

    def meeting_at(state: tuple[Real, ...]) -> Meeting:
        met = meeting(server, prompt, rate, minimum(state[0], full.slots), state[1], None)
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
    users = maximum(workload.concurrency / ranks, 1.0)  # of a rank that has any
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
    if workload.num_prompts is not None:
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

    .. math:: R = R_1 \left(1 + \frac{(c p)^k - p^k}{R_1^k}\right)^{1/k}

    Interpolates between one user and the prompts of all users back to back; `users` are those of the rank [requests].

    Valid:
        Exact at both ends; the order k of the interpolation was chosen by simulation.

    Source:
        Asymptotic bounds of a closed queue: Denning and Buzen, ACM Computing Surveys 10(3), 1978.
    """
    alone = server.before + prompt.alone
    tokens = maximum(minimum(server.budget, prompt.length * users), 1.0)
    shared = (server.linear(1.0, tokens - 1.0) + prompt.head) * prompt.length / tokens
    prompt_time = shared + prompt.attention + server.engine.prefill * prompt.length / tokens
    prompt_time = minimum(prompt_time, prompt.alone)
    return alone * (1.0 + ((users * prompt_time) ** _ORDER - prompt_time**_ORDER) / alone**_ORDER) ** (1.0 / _ORDER)


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
    return abs(one - other) <= _SAME * maximum(one, other)


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
