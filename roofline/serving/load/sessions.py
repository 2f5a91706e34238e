"""Sessions under a load: the KV cache of a context waits for the next turn, or is dropped and computed again.

What is left of the memory beside running requests keeps contexts until they are the least recently used ones. How long
they stay there follows from how many come per second (Che's approximation); what a turn finds of them sets the work,
and so the time, of turns. docs/method/features.md, "Sessions", has the equations, docs/load.md the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roofline.numbers.operations import Real, always, maximum, minimum, where
from roofline.numbers.quantity import KILO, MILLI, NANO
from roofline.numbers.roots import crossing, fixed_point
from roofline.physics.memory import largest_batch
from roofline.physics.plan import Deployment
from roofline.serving.latency import Served, Workload, lanes
from roofline.serving.load.bunching import served_of_arrivals, tails_of_arrivals
from roofline.serving.load.equations import server_of
from roofline.serving.load.server import added, prompt_of
from roofline.serving.load.tails import Tails
from roofline.serving.prompts import PromptKind, kinds_of_turn, prefix_bytes
from roofline.specs.arrivals import PREFIX
from roofline.specs.engine import HBM, PromptCache
from roofline.specs.load import Rate, Users
from roofline.specs.sessions import Sessions
from roofline.support.records import NamedTuple, replace

_E = 2.718281828459045
_TINY = 2.0**-200  # of a time, against division by zero
_MOST_TURNS = 100  # whose times are found
_STEPS = 16  # of Newton's method, for the time that contexts stay
_SLOWEST = 10.0 * KILO  # times an idle server's time: the longest turn that is looked for
_NEAR = MILLI  # of it, to which it must agree with itself
_FULLEST = 0.97  # of the saturation, at which users who think are still taken for random arrivals
_RAMP = 0.1  # of it, below it, in which that ends
_MOST_TIMES = 700.0  # of the mean pause: a context that stays so long is found


class Found(NamedTuple):
    """What turns find of their context."""

    stay: Real  # [s] for which a context stays in GPU memory
    hit: Real  # share of later turns that find theirs there [1]
    loaded: Real  # share of them that load it from the tier [1]
    waiting: Real  # [tokens] of contexts that wait in the memory of a rank, for a turn that comes
    room: Real  # [tokens] of a rank, beside running requests


class Turn(NamedTuple):
    """One turn of a session, over all sessions."""

    turn: int
    isl: Real  # [tokens] of its prompt
    context: Real  # [tokens] of it that were said before
    ttft: Real  # [s] mean
    e2el: Real  # [s] mean


class SessionTimes(NamedTuple):
    """Sessions under a load: what their turns find, and how long they take."""

    found: Found
    turns: tuple[Turn, ...]  # all of up to a hundred; of more as many, evenly spaced
    duration: Real  # [s] of a session with its pauses, mean


def served_in_sessions(deployment: Deployment, workload: Workload) -> Served:
    """As `served_of_arrivals`, of the turns of sessions.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: mean lengths of turns, and users or a rate; its cache has the sessions.

    Returns:
        Mean figures over turns.

    Valid:
        Pauses are exponential. Sessions stay at their replica where the router follows prefixes, else only by chance.

    Source:
        docs/method/features.md, "Sessions".
    """
    return _settled(deployment, workload)[0]


def tails_in_sessions(deployment: Deployment, workload: Workload) -> Tails:
    """As `tails_of_arrivals`, of the turns of sessions."""
    _, parts = _settled(deployment, workload)
    mixed = tuple((share, tails_of_arrivals(deployment, one, means)) for share, one, means in parts)
    if len(mixed) == 1:
        return mixed[0][1]

    def together(name: str) -> tuple[Any, ...]:
        return tuple(part._replace(weight=share * part.weight) for share, each in mixed for part in getattr(each, name))

    return Tails(together("ttft"), together("tpot"), together("e2el"), together("itl"), together("answers"), mixed)


def found_of(deployment: Deployment, workload: Workload, e2el: Real, rate: Real) -> Found:
    r"""What turns find of their context, in the memory that running requests leave and in a tier.

    .. math:: M - A = l \left[(1 - \tfrac{1}{n})\, \bar c\, z\, (1 - e^{-T / z}) + \tfrac{1}{n}\, c_n\, T\right],\quad
              h = 1 - e^{-T / z}

    T is the time for which a context stays before newer ones have taken its place; contexts of ended sessions wait for
    nobody, and take memory all the same. A tier of S tokens keeps what the memory drops: the same with M - A + S.

    Args:
        deployment: model, GPU, plan, quantization and replicas.
        workload: mean lengths of turns; its cache has the sessions, tier and size.
        e2el: mean time of a turn [s].
        rate: turns per second of the deployment [1/s].

    Returns:
        Times and shares.

    Valid:
        Least recently used contexts are dropped first, each as a whole; exponential pauses of mean z.

    Source:
        Che, Tung and Wang, IEEE JSAC 20(7), 2002.
    """
    cache, engine = _cache(workload), deployment.engine
    sessions = _sessions(cache)
    arriving = rate / lanes(deployment)
    length = workload.isl + engine.reserve * workload.osl
    held = largest_batch(deployment, length) / deployment.plan.dp * length
    effective = deployment.effective_engine
    running = arriving * maximum(e2el - effective.network - effective.request, 0.0) * length
    room = maximum(held - running, 0.0)
    stay = _stay(sessions, arriving, room)
    hit = _share(sessions, stay)
    loaded: Real = 0.0
    if cache.hit is not None:  # as stated: in GPU memory, or in the tier
        hit, loaded = (cache.hit, 0.0) if cache.tier == HBM else (0.0, cache.hit)
    elif cache.tier != HBM:
        beyond = tier_tokens(deployment, workload)
        has_end = cache.size is not None
        loaded = (_share(sessions, _stay(sessions, arriving, room + beyond)) if has_end else 1.0) - hit
    finds = _at_its_replica(deployment, workload) if cache.hit is None else 1.0
    waiting = arriving * (1.0 - 1.0 / sessions.turns) * sessions.kept(-sessions.system) * sessions.think * hit
    return Found(stay, finds * hit, finds * loaded, minimum(waiting, room), room)


def session_times(deployment: Deployment, workload: Workload, means: Served) -> SessionTimes:
    """What turns find of their context, and their times.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: mean lengths of turns, and users or a rate; its cache has the sessions.
        means: of all turns.

    Returns:
        Shares, and the times of each turn and of a session.

    Source:
        docs/method/features.md, "Sessions".
    """
    sessions = _sessions(_cache(workload))
    e2el = means.ttft + means.decode
    found = found_of(deployment, workload, e2el, means.request_rate)
    known = replace(workload, cache=replace(_cache(workload), hit=found.hit, loaded=found.loaded))
    apart = max(sessions.turns - 1, 1) / (min(sessions.turns, _MOST_TURNS) - 1 or 1)
    numbers = [round(1.0 + apart * place) for place in range(min(sessions.turns, _MOST_TURNS))]
    ttfts = _ttfts(deployment, known, means, [sessions.cached(number) for number in numbers])
    turns = []
    for number, ttft in zip(numbers, ttfts, strict=True):
        context = workload.prefix + (sessions.cached(number) - sessions.prefix)
        turns.append(Turn(number, context + (workload.isl - workload.prefix), context, ttft, ttft + means.decode))
    whole = sessions.turns * e2el + (sessions.turns - 1) * sessions.think
    return SessionTimes(found, tuple(turns), whole)


def tier_tokens(deployment: Deployment, workload: Workload) -> Real:
    """Context that the tier of one rank keeps; infinite where its size is not known [tokens]."""
    cache, plan = _cache(workload), deployment.plan
    if cache.tier == HBM or cache.size is None:
        return 0.0 if cache.tier == HBM else float("inf")
    whole = prefix_bytes(deployment, workload.prefix) * plan.sequence_gpus  # of a context, on all GPUs that hold it
    return cache.size / (plan.dp * plan.pp) / whole * workload.prefix


def _ttfts(deployment: Deployment, workload: Workload, means: Served, contexts: Sequence[float]) -> list[Real]:
    """Mean time to first token of turns, whatever they find of their contexts [s].

    The mean one, with the prompt of each in place of the mean one: queues do not know turns.
    """
    server, cache = server_of(deployment, workload), _cache(workload)
    prompt = prompt_of(server)

    def own(kinds: tuple[PromptKind, ...]) -> Real:
        """Time with one's own prompt: alone where nobody decodes, in steps of others else."""
        total: Real = 0.0
        for kind in kinds:
            times = server.prompt(kind.computed, kind.cached)
            beside = added(
                server, prompt, maximum(means.batch, 1.0), 0.0, minimum(server.budget, kind.computed), kind.computed,
                times.attention,
            )  # fmt: skip
            shared = means.nobody * times.alone + (1.0 - means.nobody) * maximum(beside, 0.0)
            total = total + kind.weight * (kind.loading + shared)
        return total

    others = means.ttft - own(server.kinds)
    each = (kinds_of_turn(deployment, workload.isl, workload.prefix, cache, context) for context in contexts)
    return [maximum(others + own(kinds), server.before) for kinds in each]


def _settled(deployment: Deployment, workload: Workload) -> tuple[Served, list[tuple[Real, Workload, Served]]]:
    """Means over turns, and the loads of which they are a mixture, each with its share."""
    sessions = _sessions(_cache(workload))
    start = server_of(deployment, replace(workload, load=Rate(1.0), cache=None))
    prompt = prompt_of(start)
    alone = start.before + prompt.alone + start.steps_of() * start.decode(1.0).total
    find: Callable[[Real], list[tuple[Real, Workload, Served]]] = lambda e2el: _parts(  # noqa: E731
        deployment, workload, sessions, e2el
    )

    def next_state(state: tuple[Real, ...]) -> tuple[Real, ...]:
        return (sum(share * _time(means) for share, _, means in find(state[0])),)

    settled = fixed_point(next_state, (alone,))
    e2el, is_found = settled.values[0], settled.is_found
    if not always(is_found):  # a full server, or one that drops contexts because it is slow
        searched = crossing(lambda time: next_state((time,))[0] - time, _SLOWEST * alone, low=alone)
        is_near = abs(next_state((searched,))[0] - searched) <= _NEAR * searched
        e2el, is_found = where(is_found, e2el, searched), is_found | is_near
    parts = find(e2el)
    (_, _, first), *others = parts
    means = first
    if others:
        ((share, _, open_means),) = others
        both = zip(first, open_means, strict=True)
        means = Served(*(one if name in ("state", "is_stable") else (1.0 - share) * one + share * other
                         for name, (one, other) in zip(Served._fields, both, strict=True)))  # fmt: skip
        means = means._replace(is_stable=first.is_stable & open_means.is_stable)
    is_stable = means.is_stable & is_found
    users = workload.load.concurrency
    e2el = means.ttft + means.decode
    rate = workload.request_rate if users is None else users / (e2el + sessions.think)
    return (
        means._replace(
            ttft=where(is_stable, means.ttft, float("inf")),
            concurrency=rate * e2el,
            request_rate=rate,
            link=rate / lanes(deployment) * deployment.plan.pp * server_of(deployment, parts[0][1]).loading,
            max_request_rate=maximum(means.max_request_rate, rate) if users is not None else means.max_request_rate,
            is_stable=is_stable,
        ),
        parts,
    )


def _time(means: Served) -> Real:
    """Mean time of a turn; of an unstable load the time of its answer, for another round to start from [s]."""
    return where(means.is_stable, means.ttft, 0.0) + means.decode


def _parts(
    deployment: Deployment, workload: Workload, sessions: Sessions, e2el: Real
) -> list[tuple[Real, Workload, Served]]:
    """Loads of which turns are a mixture, at a mean time of a turn.

    Of users who think, those in flight are a binomial number: between the closed loop of as many, and random arrivals.
    """
    cache = _cache(workload)
    users = workload.load.concurrency
    rate = workload.request_rate if users is None else users / (e2el + sessions.think)
    found = found_of(deployment, workload, e2el, rate)
    known = replace(workload, cache=replace(cache, hit=found.hit, loaded=found.loaded))
    if users is None:
        return [(1.0, known, served_of_arrivals(deployment, known))]
    away = sessions.think / (e2el + sessions.think)
    closed = replace(known, load=Users(maximum(users * (1.0 - away), 1.0)))
    means = served_of_arrivals(deployment, closed)
    if sessions.think == 0.0:
        return [(1.0, closed, means)]
    most = _FULLEST * means.max_request_rate
    opened = replace(known, load=Rate(minimum(rate, most)))
    share = away * minimum(maximum(most - rate, 0.0) / (_RAMP * most), 1.0)  # a full server keeps its users
    return [(1.0 - share, closed, means), (share, opened, served_of_arrivals(deployment, opened))]


def _stay(sessions: Sessions, rate: Real, room: Real) -> Real:
    """Time for which a context stays in so much room [s]: Newton's method from below, on a concave function."""
    later = 1.0 - 1.0 / sessions.turns
    pause = max(sessions.think, NANO)
    waits = rate * later * sessions.kept(-sessions.system) * pause
    ended = maximum(rate / sessions.turns * (sessions.cached(sessions.turns + 1) - sessions.system), _TINY)
    stay = room / maximum(waits / pause + ended, _TINY)
    for _ in range(_STEPS):
        gone = _E ** (0.0 - minimum(stay / pause, _MOST_TIMES))
        missing = room - waits * (1.0 - gone) - ended * stay
        stay = stay + maximum(missing, 0.0) / (waits / pause * gone + ended)
    return stay


def _share(sessions: Sessions, stay: Real) -> Real:
    """Share of the pauses that are shorter than a context stays [1]."""
    return 1.0 - _E ** (0.0 - minimum(stay / max(sessions.think, NANO), _MOST_TIMES))


def _at_its_replica(deployment: Deployment, workload: Workload) -> Real:
    """Chance that a turn gets to the replica and the rank that have its context [1]."""
    router = PREFIX if workload.arrivals is None else workload.arrivals.router
    return 1.0 if router == PREFIX else 1.0 / deployment.replicas


def _cache(workload: Workload) -> PromptCache:
    assert workload.cache is not None  # noqa: S101  # sessions are in it
    return workload.cache


def _sessions(cache: PromptCache) -> Sessions:
    assert cache.turns is not None  # noqa: S101  # as who calls has seen
    return cache.turns
