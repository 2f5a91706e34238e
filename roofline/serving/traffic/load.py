"""A server under a load: users who ask again, or requests that come at random; their mean latencies."""

from __future__ import annotations

from collections.abc import Callable

from roofline.elements import negated
from roofline.ops import Real, above, maximum, minimum, never, where
from roofline.physics.plan import Deployment
from roofline.records import replace
from roofline.roots import carried_crossing, fixed_point, repeated
from roofline.serving.latency import BURST, Workload, decode, prefill, time_per_token
from roofline.serving.lengths import EQUAL
from roofline.serving.served import Served, lanes
from roofline.serving.traffic.link import link_rate, link_wait
from roofline.serving.traffic.prompts import Prompt, added, prompt_of
from roofline.serving.traffic.queueing import Meeting, meeting
from roofline.serving.traffic.server import PROMPTS_FIRST, UNLIMITED, Server
from roofline.serving.traffic.slots import Saturation, saturation, slot_wait

__all__ = ["FULL", "mean_latencies", "served", "server_of"]

#: Share of a limit beyond which a rate is none that can be served.
FULL = 0.9999

_INNER = 12  # rounds for each throughput that is tried, where they do not find it by themselves
_LEAST = 2.0**-40  # of the largest throughput
_ORDER = 3.0  # of the interpolation between one user and many, where answers are single tokens
_ROOT = 0.5  # power of the step to the next throughput: a loop answers more load with less throughput each

_State = tuple[Real, ...]  # others who decode, `Meeting.seen`, requests per second of a rank


def server_of(deployment: Deployment, workload: Workload) -> Server:
    """One rank of a deployment under its load.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths and load.

    Returns:
        The rank.
    """
    users = None
    if workload.concurrency is not None:
        users = maximum(workload.concurrency / (deployment.replicas * deployment.plan.pp), 1.0)
    lengths = workload.lengths or EQUAL
    return Server(
        deployment, workload.isl, workload.osl, workload.prefix, users, lengths, workload.cold_start, workload.cache
    )


def served(
    deployment: Deployment, workload: Workload, start: tuple[Real, ...] | None = None, together: Real = 1.0
) -> Served:
    """Mean latencies of a deployment under a load.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths, and either `concurrency` or `request_rate`.
        start: `Served.state` of a case nearby, to begin at [any].
        together: prompts of equal requests that come at the same time, of users alone [requests].

    Returns:
        The latencies; times are infinite where more requests come than can be served.

    Valid:
        `domain` says what was checked. Lengths are those of the mean request; users' lengths differ a little, or they
        would stay in step (`together`). With pp, as many batches follow each other, evenly filled.

    Source:
        docs/method.md, "A server under load".
    """
    server = server_of(deployment, workload)
    prompt = prompt_of(server)
    full = saturation(replace(server, users=UNLIMITED), prompt)
    if workload.concurrency is None:
        return _open(server, prompt, full, workload, lanes(deployment), start)
    return _closed(server, prompt, full, workload, lanes(deployment), start, together)


def mean_latencies(deployment: Deployment, workload: Workload) -> tuple[Real, Real]:
    """TTFT and TPOT under whatever load.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths and load.

    Returns:
        Both [s].
    """
    if workload.load == BURST:
        step = decode(deployment, workload).time
        return prefill(deployment, workload).time, time_per_token(deployment, workload.osl, step)
    found = served(deployment, workload)
    return found.ttft, found.tpot


def _open(
    server: Server,
    prompt: Prompt,
    full: Saturation,
    workload: Workload,
    ranks: Real,
    start: tuple[Real, ...] | None,
) -> Served:
    """Requests that come at random."""
    deployment = server.deployment
    asked = workload.request_rate / ranks
    rate = minimum(asked, FULL * full.rate)  # beyond it there is no steady state to find
    steps, plan = server.steps_of(), server.deployment.plan
    plain = server.decode(1.0).total

    def round_(state: tuple[Real, ...]) -> tuple[Real, ...]:
        met = meeting(server, prompt, rate, minimum(state[0], full.slots), state[1], None)
        return rate * met.decode, met.seen

    settled = fixed_point(round_, start or (rate * steps * plain, plain))
    others, seen = minimum(settled.values[0], full.slots), settled.values[1]
    met = meeting(server, prompt, rate, others, seen, None)
    share, wait = slot_wait(server, full, met, rate, others)
    queue = maximum(met.stage - prompt.alone, 0.0) + wait + link_wait(server, rate, None).over_all
    ttft = server.before + prompt.alone + queue
    busiest = maximum(maximum(met.rho, met.rho_chunks), settled.values[0] / full.slots)
    is_stable = (asked < full.rate) & (busiest < FULL) & settled.is_found
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
        state=settled.values,
        prompt=met.prompt,
        nobody=met.nobody,
    )


def _closed(
    server: Server,
    prompt: Prompt,
    full: Saturation,
    workload: Workload,
    ranks: Real,
    start: tuple[Real, ...] | None,
    together: Real,
) -> Served:
    """Users who ask again as soon as they are answered."""
    deployment = server.deployment
    users = maximum(workload.concurrency / ranks, 1.0)  # of a rank that has any
    inside = maximum(minimum(users, full.slots), 1.0)
    plan = server.deployment.plan
    steps, before = server.steps_of(), server.before
    others = inside - 1.0
    plain = server.decode(1.0).total
    alone = before + prompt.alone + steps * plain
    fastest = float("inf") if server.is_free_of_loads else link_rate(server)

    def met_at(state: tuple[Real, ...]) -> Meeting:
        return meeting(server, prompt, state[2] * others / inside, minimum(state[0], others), state[1], inside)

    def round_(state: tuple[Real, ...]) -> tuple[Real, ...]:
        met = met_at(state)
        most = minimum(maximum(1.0 / met.in_full, 1.0 / alone), fastest)
        first = before + link_wait(server, state[2], inside).over_all + met.stage
        reached = minimum(inside / (first + met.decode), most)
        rate = state[2] * others / inside
        return minimum(rate * met.decode, others), met.seen, state[2] * (reached / state[2]) ** _ROOT

    begin = _guess(server, prompt, inside)
    settled = fixed_point(round_, start or begin)
    values = settled.values
    search = _narrowing(met_at, round_, inside / alone, inside, server)
    none = 0.0 * begin[2]
    narrowed = repeated(search, (none, plain + none, begin[2]), 1, values, begins=negated(settled.is_found))
    values = tuple(where(settled.is_found, one, other) for one, other in zip(values, narrowed, strict=True))
    met, rate = met_at(values), values[2]
    late = link_wait(server, rate, inside).over_all
    ttft = maximum(users / rate - met.decode, before + late + maximum(met.stage, prompt.alone))
    if not never(steps <= 0.0):  # nobody decodes: prompts wait for prompts alone
        ttft = where(steps <= 0.0, _prompts_alone(server, prompt, users), ttft)
    step, decode = met.step, met.decode
    if workload.num_prompts is not None or not never(above(together, 1.0)):
        ttft, step = _of_a_run(server, prompt, met, workload, (users, inside), (ttft, step), together)
        decode = decode * step / met.step
    answered = workload.concurrency / (ttft + decode)
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
        is_stable=met.rho < 1.0,
        state=values,
        prompt=met.prompt,
        nobody=met.nobody,
    )


def _prompts_alone(server: Server, prompt: Prompt, users: Real) -> Real:
    r"""Time to the first and only token where nobody decodes.

    .. math:: R = R_1 \left(1 + \frac{(c p)^k - p^k}{R_1^k}\right)^{1/k}

    Between one user's time and that of prompts which follow each other without a gap, those of all users together.

    Args:
        server: a rank.
        prompt: its mean prompt.
        users: of the rank [requests].

    Returns:
        Time, request and network included [s].

    Valid:
        Both ends; between them an interpolation that simulations gave its order k.

    Source:
        Asymptotic bounds of a closed queue: Denning and Buzen, ACM Computing Surveys 10(3), 1978.
    """
    alone = server.before + prompt.alone
    tokens = maximum(minimum(server.budget, prompt.length * users), 1.0)
    shared = (server.linear(1.0, tokens - 1.0) + prompt.head) * prompt.length / tokens
    each = shared + prompt.attention + server.engine.prefill * prompt.length / tokens
    each = minimum(each, prompt.alone)
    return alone * (1.0 + ((users * each) ** _ORDER - each**_ORDER) / alone**_ORDER) ** (1.0 / _ORDER)


def _guess(server: Server, prompt: Prompt, inside: Real) -> _State:
    """A state of users to begin at: every prompt of others falls between one's own steps."""
    steps, others = server.steps_of(), inside - 1.0
    parts = server.decode(inside)
    each = added(server, prompt, inside, server.beside(inside, parts), prompt.length, prompt.length, prompt.attention)
    decoding = steps * parts.total + each * others
    whole = server.before + prompt.alone + parts.total + decoding
    taken = minimum(each * others / whole, 0.9)
    seen = each if server.engine.scheduler == PROMPTS_FIRST else parts.total + taken * each
    return others * decoding / whole, seen, inside / whole


def _narrowing(
    met_at: Callable[[_State], Meeting],
    round_: Callable[[_State], _State],
    most: Real,
    inside: Real,
    server: Server,
) -> Callable[[_State], tuple[_State, bool]]:
    """The only turn of the search where rounds by themselves find no state: throughput by bracketing, rest by rounds.

    Prompts take nearly all of the time then, and the rounds lead away from where they meet.
    """
    before = server.before

    def averaged(state: _State, rate: Real, rounds: int) -> _State:
        slow = maximum(rate, _LEAST * most)

        def half_a_round(state: _State) -> tuple[_State, bool]:
            others, seen, _ = round_((*state, slow))
            return (0.5 * (state[0] + others), 0.5 * (state[1] + seen)), True

        return repeated(half_a_round, state, rounds, (slow,))

    def surplus(rate: Real, state: _State) -> tuple[Real, _State]:
        state = averaged(state, rate, _INNER)
        met = met_at((*state, rate))
        late = link_wait(server, rate, inside).over_all
        taken = maximum(rate * (before + late + met.stage + met.decode) / inside, rate * met.in_full)
        return 1.0 - (taken if server.is_free_of_loads else maximum(taken, rate / link_rate(server))), state

    def search(state: _State) -> tuple[_State, bool]:
        rate, state = carried_crossing(surplus, most, state[:2])
        rate = minimum(rate, most)
        return (*averaged(state, rate, _INNER * _INNER), rate), False

    return search


def _of_a_run(
    server: Server,
    prompt: Prompt,
    met: Meeting,
    workload: Workload,
    users: tuple[Real, Real],
    steady: tuple[Real, Real],
    together: Real,
) -> tuple[Real, Real]:
    r"""Means of a run of N requests that all users begin together.

    .. math:: TTFT = f\, TTFT_{burst} + (1 - f)\, TTFT_{steady},\quad f = \min(1, c / N)

    In the burst prompts follow each other, half of the others' before one's own, the other half between its steps.

    Args:
        server: a rank.
        prompt: its mean prompt.
        met: what a request meets in the steady state.
        workload: lengths, users and requests of the run.
        users: of the rank, and those of them for whom there is a slot [requests].
        steady: TTFT and mean decode step of the steady state [s].
        together: prompts of equal requests that come at the same time [requests].

    Returns:
        TTFT and mean decode step [s].
    """
    everyone, inside = users
    steps, others = server.steps_of(), inside - 1.0
    each = met.prompt
    if server.engine.scheduler == PROMPTS_FIRST:  # nobody decodes until all prompts are done
        each = each / server.engine.stretch
    step = server.decode(inside).total
    among = server.engine.arrival + step / 2.0
    ttft = server.before + prompt.alone + others / 2.0 * each + among * minimum(1.0, others)
    mean_step = step + each / (steps + 1.0) * others / 2.0
    ttft = ttft + (everyone / inside - 1.0) * (ttft + steps * mean_step)
    company = minimum(together, inside) - 1.0
    later = (
        steady[0] + company * met.prompt * everyone / inside,
        maximum(steady[1] - company * met.prompt / (steps + 1.0), minimum(mean_step, steady[1])),
    )
    share = 0.0 if workload.num_prompts is None else minimum(1.0, workload.concurrency / workload.num_prompts)
    return share * ttft + (1.0 - share) * later[0], share * mean_step + (1.0 - share) * later[1]
