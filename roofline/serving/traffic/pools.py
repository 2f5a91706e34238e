"""Two pools under a load: prompts on their ranks, the way of their KV caches, answers on theirs.

The pools know each other by the rate alone: prompts never delay a decode step, and answers never hold up a prompt.
"""

from __future__ import annotations

from roofline.ops import Real, comparable, maximum, minimum, never, where
from roofline.quantity import NANO
from roofline.records import NamedTuple, replace
from roofline.roots import crossing, fixed_point
from roofline.serving.disaggregation import Pools, kv_transfer_time, shown_transfer
from roofline.serving.latency import Workload, time_per_token
from roofline.serving.served import lanes
from roofline.serving.traffic.load import FULL, server_of
from roofline.serving.traffic.mixture import Component
from roofline.serving.traffic.prompt_rank import PromptQueue, PromptRank, prompt_queue, prompt_rank
from roofline.serving.traffic.prompts import PromptNode
from roofline.serving.traffic.queueing import Meeting, over_answers, queue_wait
from roofline.serving.traffic.server import Server
from roofline.serving.traffic.slots import Saturation, slot_wait
from roofline.serving.traffic.tails import Tails, decode_tails

__all__ = ["BURST_WAVES", "Pooled", "decode_capacity", "pool_tails", "pooled"]

#: Requests of a run of N by c users that come in step with others, over c / N: the start, and as many again in the
#: waves that follow it (chosen on development rows of GB200; docs/accuracy.md, "Separate pools").
BURST_WAVES = 2.0

_E = 2.718281828459045


@comparable
class Pooled(NamedTuple):
    """What requests see of two pools; means over requests, rates of the whole deployment."""

    ttft: Real  # [s]; infinite where more come than can be served
    tpot: Real  # [s]
    decode: Real  # [s] from the first token to the last
    prompt: Real  # [s] of the ttft: one's own prompt on an idle rank
    prompt_wait: Real  # [s] of the ttft: other prompts
    transfer: Real  # [s] of the ttft: the KV cache on its way, as far as it shows
    transfer_wait: Real  # [s] of the ttft: the caches of others on the same links
    step_wait: Real  # [s] of the ttft: the end of the decode step that runs
    slot_wait: Real  # [s] of the ttft: a slot of the decode pool; of users, whatever else they wait for
    concurrency: Real  # [requests] in flight
    request_rate: Real  # [1/s] answered
    max_request_rate: Real  # [1/s] that can be answered at most
    max_prefill_rate: Real  # [1/s] of the prefill pool alone
    max_decode_rate: Real  # [1/s] of the decode pool alone
    max_link_rate: Real  # [1/s] of the links alone
    batch: Real  # sequences of a decode replica that decode together when a request does, itself included
    slots: Real  # [sequences] that a decode rank runs at most
    waiting_share: Real  # of requests that wait for a slot [1]
    is_stable: Real  # whether no more come than can be served [condition]
    queue: PromptQueue  # of a prefill rank
    others: Real  # sequences beside one's own on a decode rank

    @property
    def util(self) -> Real:
        """Answered over what can be answered at most [1]."""
        return self.request_rate / self.max_request_rate


class _Decode(NamedTuple):
    """What a decode rank does with its requests."""

    others: Real
    met: Meeting
    share: Real  # of the requests that wait for a slot [1]
    wait: Real  # [s] mean of all of them


class _Link(NamedTuple):
    """Transfers between a prefill rank and a decode rank."""

    shown: Real  # [s]
    wait: Real  # [s]
    variance: Real  # [s^2] of the wait


class _Case(NamedTuple):
    """What does not depend on the rate."""

    pools: Pools
    workload: Workload
    rank: PromptRank
    decode: Server
    full: Saturation
    senders: Real
    receivers: Real
    transfer: Real  # [s] of the whole cache


def pooled(pools: Pools, workload: Workload) -> Pooled:
    r"""Mean latencies of two pools under a load.

    .. math:: TTFT = h + W + A + t' + W_t + \frac{d}{2} + W_s,\quad b = \frac{l}{R_d} (O - 1) D(1 + b)

    of random arrivals; of users X (TTFT + (O - 1) TPOT) = c.

    Args:
        pools: both deployments and the link.
        workload: lengths, and either `concurrency` or `request_rate`.

    Returns:
        The latencies; times are infinite where more requests come than can be served.

    Valid:
        Requests go to prefill ranks at random, to decode ranks at random under a rate and to the emptiest of users.
        The first token is computed with the prompt, and shown when the first decode step begins.

    Source:
        docs/method.md, "Separate pools"; the parts of TTFT as Zhong et al., "DistServe", OSDI 2024, have them.
    """
    case = _case(pools, workload)
    if workload.concurrency is None:
        return _at_random(case)
    return _of_users(case)


def pool_tails(pools: Pools, workload: Workload, found: Pooled) -> Tails:
    """Distributions of TTFT, TPOT and E2EL over the requests of two pools.

    Args:
        pools: both deployments and the link.
        workload: lengths and load, without `num_prompts`.
        found: its means.

    Returns:
        The distributions; of a load without a steady state they mean nothing.

    Valid:
        As the means; waits of the parts are taken to be independent.

    Source:
        docs/method.md, "Separate pools".
    """
    case = _case(pools, workload)
    rate = found.request_rate
    users = None
    if workload.concurrency is not None:
        rate = rate * (workload.concurrency - 1.0) / workload.concurrency
        users = maximum(workload.concurrency / case.receivers, 1.0)
    decoding = _decoding(case, rate, found.others)
    several = workload.osl > 1.0
    link = _link(case, rate, found.queue)
    plain = decoding.met.plain
    nobody = decoding.met.nobody
    late = where(several, (1.0 - nobody) * plain / 2.0, 0.0)
    swing = where(several, plain**2 * ((1.0 - nobody) / 3.0 - ((1.0 - nobody) / 2.0) ** 2), 0.0)
    late, swing = late + link.wait, swing + link.variance
    share, wait = found.waiting_share, found.slot_wait / maximum(found.waiting_share, NANO)
    swings = wait * wait
    if users is not None:
        share, wait = 1.0, found.slot_wait
        swings = minimum(wait * wait, wait / maximum(found.request_rate, NANO))
    parts = []
    arrival = (1.0 - _nobody(case, found.request_rate)) * case.rank.server.engine.arrival
    for weight, least, mean, variance in _prompt_parts(case, found.queue, None if users is None else found):
        for of, beyond, more in ((1.0 - share, 0.0, 0.0), (share, wait, swings)):
            if not never(of * weight > NANO):
                parts.append(Component(of * weight, least + arrival, mean + late + beyond, variance + swing + more))
    met = decoding.met._replace(stage=found.ttft - case.decode.before)
    return decode_tails(case.decode, met, rate / case.receivers, found.others, users, parts)


def decode_capacity(server: Server) -> Saturation:
    """What a rank that decodes alone serves at most.

    Args:
        server: the rank.

    Returns:
        Its rate [1/s], with all slots taken.
    """
    slots = server.slots
    step = server.decode(slots).total
    _, whole = over_answers(server, step, 0.0, 0.0, step)
    rate = slots / maximum(whole, NANO)
    return Saturation(rate, slots, step, slots)


def _case(pools: Pools, workload: Workload) -> _Case:
    plain = replace(workload, batch=1.0, concurrency=None, num_prompts=None, request_rate=1.0)
    rank = prompt_rank(server_of(pools.prefill, replace(plain, osl=1.0)))
    decode = server_of(pools.decode, plain)
    transfer = where(workload.osl > 1.0, kv_transfer_time(pools, workload.isl), 0.0)
    senders, receivers = lanes(pools.prefill) * 1.0, lanes(pools.decode) * 1.0
    return _Case(pools, workload, rank, decode, decode_capacity(decode), senders, receivers, transfer)


def _limits(case: _Case) -> tuple[Real, Real, Real]:
    """Largest rates of the prefill pool, of the decode pool and of the links [1/s]."""
    idle = prompt_queue(case.rank, NANO)
    decode = where(case.workload.osl > 1.0, case.full.rate * case.receivers, float("inf"))
    free = case.transfer <= 0.0
    link = minimum(case.senders, case.receivers) / where(free, 1.0, case.transfer)
    return idle.max_rate * case.senders, decode, where(free, float("inf"), link)


def _decoding(case: _Case, rate: Real, others: Real | None = None) -> _Decode:
    """Decode ranks at a rate of all of them together: others who decode, steps, the wait for a slot."""
    server, each = case.decode, rate / case.receivers
    one = server.decode(1.0).total
    _, alone = over_answers(server, one, 0.0, 0.0, one)
    if others is None:

        def round_(state: tuple[Real, ...]) -> tuple[Real, ...]:
            step = server.decode(1.0 + minimum(state[0], case.full.slots)).total
            return (each * over_answers(server, step, 0.0, 0.0, step)[1],)

        others = fixed_point(round_, (maximum(each * alone, NANO),)).values[0]
    others = minimum(others, case.full.slots)
    step = server.decode(1.0 + others).total
    tpot, whole = over_answers(server, step, 0.0, 0.0, step)
    met = _without_prompts(server, step, tpot, whole, others)
    share, wait = slot_wait(server, case.full, met, each, others)
    several = case.workload.osl > 1.0
    return _Decode(others, met, where(several, share, 0.0), where(several, wait, 0.0))


def _without_prompts(server: Server, step: Real, tpot: Real, whole: Real, others: Real) -> Meeting:
    """What a request meets where nothing but decode steps runs."""
    nothing = 0.0 * step
    return Meeting(
        stage=nothing, step=tpot, decode=whole, plain=step, mean_step=step, seen=step, prompt=nothing, rho=nothing,
        in_full=nothing, rho_chunks=nothing, nobody=_E ** (0.0 - others), idle=nothing, wait=nothing,
        room=server.budget, surge=nothing, rounds=0.0, biased=step,
    )  # fmt: skip


def _link(case: _Case, rate: Real, queue: PromptQueue) -> _Link:
    """Transfers at a rate: those that wait for prompts of one's own pass, and for those from other ranks.

    A rank computes its next prompts no faster than `queue.each`, so that its link is seldom in use when they end.
    """
    prompt = queue.alone
    shown = shown_transfer(case.pools.link, case.pools.prefill.model.layers * 1.0, case.transfer, prompt)
    shown = where(case.workload.osl > 1.0, shown, 0.0)
    there, swing = _line(rate / case.receivers, shown, 1.0 - 1.0 / case.senders)
    held = shown + there  # a sender's link, while the receiver's is in use
    faster = maximum(1.0 - queue.each / maximum(held, NANO), 0.0)
    here, more = _line(rate / case.senders, held, faster)
    mates = (1.0 - queue.idle) * queue.mates / 2.0 * held
    return _Link(shown, there + here + mates, swing + more + mates * held)


def _line(rate: Real, each: Real, part: Real) -> tuple[Real, Real]:
    """Wait for others who take as long, and its variance, of a part of the requests that come [s, s^2]."""
    wait = queue_wait(rate, each, each * each)
    square = 2.0 * wait * wait + rate * each**3 / (3.0 * (1.0 - minimum(rate * each, FULL)))
    return part * wait, part * square - (part * wait) ** 2


def _parts(case: _Case, rate: Real, queue: PromptQueue, decoding: _Decode, limits: tuple[Real, Real, Real]) -> Pooled:
    """The parts of a request's time at a rate."""
    workload = case.workload
    link = _link(case, rate, queue)
    prompt = minimum(queue.alone, queue.stage)  # less where the host has launched kernels ahead
    prompt_wait = queue.stage - prompt
    busy = 1.0 - _nobody(case, rate)
    arrival = busy * case.rank.server.engine.arrival
    step_wait = where(workload.osl > 1.0, (1.0 - decoding.met.nobody) * decoding.met.plain / 2.0, 0.0)
    ttft = case.rank.server.before + arrival + prompt + prompt_wait + link.shown + link.wait
    ttft = ttft + step_wait + decoding.wait
    decode = where(workload.osl > 1.0, decoding.met.decode, 0.0)
    tpot = time_per_token(case.pools.decode, workload.osl, decoding.met.step)
    most = minimum(minimum(limits[0], limits[1]), limits[2])
    batch = (1.0 + decoding.others) * case.pools.decode.plan.dp
    return Pooled(
        ttft=ttft, tpot=tpot, decode=decode, prompt=prompt, prompt_wait=prompt_wait,
        transfer=link.shown, transfer_wait=link.wait, step_wait=step_wait, slot_wait=decoding.wait,
        concurrency=rate * (ttft + decode), request_rate=rate, max_request_rate=most, max_prefill_rate=limits[0],
        max_decode_rate=limits[1], max_link_rate=limits[2], batch=batch, slots=case.full.slots,
        waiting_share=decoding.share, is_stable=rate < FULL * most, queue=queue, others=decoding.others,
    )  # fmt: skip


def _nobody(case: _Case, rate: Real) -> Real:
    """Probability that a request finds nobody's answer being written on the decode pool."""
    server = case.decode
    one = server.decode(1.0).total
    writing = rate * over_answers(server, one, 0.0, 0.0, one)[1]
    users = case.workload.concurrency
    if users is None:
        return _E ** (0.0 - writing)
    rest = maximum(users - 1.0, NANO)
    return maximum(1.0 - writing / users, 0.0) ** rest


def _at_random(case: _Case) -> Pooled:
    """Requests that come at random."""
    limits = _limits(case)
    asked = case.workload.request_rate
    rate = minimum(asked, FULL * minimum(minimum(limits[0], limits[1]), limits[2]))
    found = _parts(case, rate, prompt_queue(case.rank, rate / case.senders), _decoding(case, rate), limits)
    is_stable = (asked <= rate) & (found.others < case.full.slots)
    return found._replace(
        ttft=where(is_stable, found.ttft, float("inf")),
        request_rate=asked,
        concurrency=where(is_stable, found.concurrency, float("inf")),
        is_stable=is_stable,
    )


def _of_users(case: _Case) -> Pooled:
    """Users who ask again as soon as they are answered: the throughput at which all of them are somewhere."""
    workload = case.workload
    users: Real = 1.0 if workload.concurrency is None else workload.concurrency
    limits = _limits(case)
    most = FULL * minimum(minimum(limits[0], limits[1]), limits[2])
    rest = (users - 1.0) / users
    share = 0.0
    if workload.num_prompts is not None:
        share = minimum(BURST_WAVES * users / workload.num_prompts, 1.0)
    burst = share * maximum(users - case.senders, 0.0) / (2.0 * limits[0])

    def at(rate: Real) -> Pooled:
        here = maximum(rate, NANO * most)
        queue = prompt_queue(case.rank, rest * here / case.senders)
        found = _parts(case, here, queue, _decoding_users(case, here, users), limits)
        wait = (1.0 - share) * found.prompt_wait * _bunched(queue, users, case)
        ttft = found.ttft - found.prompt_wait + wait + burst
        return found._replace(ttft=ttft, prompt_wait=wait + burst, concurrency=here * (ttft + found.decode))

    reached = minimum(crossing(lambda rate: 1.0 - at(rate).concurrency / users, most), most)
    found = at(reached)
    left = maximum(users / reached - found.ttft - found.decode, 0.0)  # all others wait for the pool that is full
    ttft = found.ttft + left
    return found._replace(ttft=ttft, slot_wait=found.slot_wait + left, concurrency=users, is_stable=reached > 0.0)


def _bunched(queue: PromptQueue, users: Real, case: _Case) -> Real:
    """Share of a wait of random arrivals that so many users cause: fewer of them are left to come together."""
    each = maximum(users / case.senders, 1.0)
    return 1.0 - minimum(queue.util, 1.0) / each


def _decoding_users(case: _Case, rate: Real, users: Real) -> _Decode:
    """Decode ranks of users, whose answers go to the emptiest one."""
    server = case.decode
    rest = rate * (users - 1.0) / users

    def others_at(state: Real) -> Real:
        step = server.decode(1.0 + state).total
        whole = over_answers(server, step, 0.0, 0.0, step)[1]
        among = minimum(rest * whole, users - 1.0)
        return minimum(maximum((1.0 + among) / case.receivers - 1.0, 0.0), case.full.slots - 1.0)

    begin = others_at(0.0 * rest)

    def round_(state: tuple[Real, ...]) -> tuple[Real, ...]:  # of positive numbers
        return (others_at(maximum(state[0] - NANO, 0.0)) + NANO,)

    others = maximum(fixed_point(round_, (begin + NANO,)).values[0] - NANO, 0.0)
    step = server.decode(1.0 + others).total
    tpot, whole = over_answers(server, step, 0.0, 0.0, step)
    met = _without_prompts(server, step, tpot, whole, others)
    return _Decode(others, met, 0.0 * rest, 0.0 * rest)


def _prompt_parts(case: _Case, queue: PromptQueue, users: Pooled | None) -> list[tuple[Real, Real, Real, Real]]:
    """Weight, least, mean beyond it and variance of the time until a KV cache has moved, by length of prompts [s]."""
    server = case.rank.server
    before = server.before - server.cold
    link = case.pools.link
    layers = case.pools.prefill.model.layers * 1.0
    parts = []
    mean = case.rank.prompt.length
    shared = maximum(queue.own - case.rank.prompt.attention, 0.0)
    wait, variance = queue.wait, queue.variance
    if users is not None:  # as many wait as do not decode, whose number swings like its root; ranks share them unevenly
        wait = minimum(users.prompt_wait / maximum(1.0 - queue.idle, NANO), wait)
        steady = (1.0 + users.request_rate * users.decode) / users.request_rate**2
        variance = minimum(variance, steady + (1.0 - 1.0 / case.senders) / 3.0 * wait * wait)
    for weight, share in server.lengths.prompts.slices:
        tokens = maximum(mean * share, 1.0)
        times = server.prompt(tokens, server.kinds[0].cached)
        alone = case.rank.alone(PromptNode(1.0, tokens, times.attention, times.alone), queue.busy)
        fixed = minimum(queue.fixed, shared)
        among = fixed + (shared - fixed) * tokens / mean + times.attention
        transfer = case.transfer * (server.prefix + tokens) / (server.prefix + mean)
        shown = shown_transfer(link, layers, transfer, alone)
        parts.append((weight * queue.idle, before + alone + shown, 0.0 * alone, 0.0 * alone))
        least = before + among + shown
        parts.append((weight * (1.0 - queue.idle), least, wait, variance))
    return parts
