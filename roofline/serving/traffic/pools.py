"""Two pools under a load: prefill ranks, KV transfers, decode ranks.

The pools interact through the request rate alone: prompts never delay a decode step, and answers never delay a prompt.

"""

from __future__ import annotations

from roofline.ops import Real, comparable, maximum, minimum, never, where
from roofline.quantity import MICRO, NANO
from roofline.records import NamedTuple, replace
from roofline.roots import crossing
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

#: Share of a run of N requests by c users that arrives in bursts, over c / N: the start, and as many again in the waves
#: after it (chosen on development rows of GB200; docs/accuracy.md, "Separate pools").
BURST_WAVES = 2.0

_E = 2.718281828459045
_SAME = MICRO  # relative excess of requests in flight over users, beyond which a throughput was not found


@comparable
class Pooled(NamedTuple):
    """Mean figures of requests on two pools under a load; rates of the whole deployment."""

    ttft: Real  # [s]; infinite under overload
    tpot: Real  # [s]
    decode: Real  # [s] from the first token to the last
    prompt: Real  # [s] of the ttft: the request's own prompt on an idle rank
    prompt_wait: Real  # [s] of the ttft: other prompts
    transfer: Real  # [s] of the ttft: visible part of the KV transfer
    transfer_wait: Real  # [s] of the ttft: other transfers on the same links
    step_wait: Real  # [s] of the ttft: the end of the running decode step
    slot_wait: Real  # [s] of the ttft: a decode slot; under users, any remaining wait
    concurrency: Real  # [requests] in flight
    request_rate: Real  # [1/s] answered
    max_request_rate: Real  # [1/s] saturation
    max_prefill_rate: Real  # [1/s] of the prefill pool alone
    max_decode_rate: Real  # [1/s] of the decode pool alone
    max_link_rate: Real  # [1/s] of the links alone
    batch: Real  # [sequences] that a decode replica decodes together, as a request sees it
    slots: Real  # [sequences] that a decode rank runs at most
    waiting_share: Real  # share of requests that wait for a slot [1]
    is_stable: Real  # no overload, and a steady state was found
    queue: PromptQueue  # of a prefill rank
    others: Real  # other sequences on a decode rank

    @property
    def util(self) -> Real:
        """Request rate over the largest one [1]."""
        return self.request_rate / self.max_request_rate


class _Decode(NamedTuple):
    """Conditions on a decode rank."""

    others: Real
    met: Meeting
    share: Real  # share of requests that wait for a slot [1]
    wait: Real  # [s] mean over all requests


class _Link(NamedTuple):
    """Transfers from a prefill rank to a decode rank."""

    shown: Real  # [s]
    wait: Real  # [s]
    variance: Real  # [s^2] of the wait


class _Case(NamedTuple):
    """Everything that does not depend on the rate."""

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

    for random arrivals; for users X (TTFT + (O - 1) TPOT) = c.

    Args:
        pools: both deployments and the link.
        workload: lengths, and either `concurrency` or `request_rate`.

    Returns:
        Mean figures; times are infinite under overload.

    Valid:
        Requests go to a random prefill rank, and to a random decode rank under a rate or the emptiest one under users.
        The first token is computed with the prompt, and shown when the first decode step begins.

    Source:
        docs/method.md, "Separate pools"; the parts of TTFT as in Zhong et al., "DistServe", OSDI 2024.
    """
    case = _case(pools, workload)
    if workload.concurrency is None:
        return _open_pools(case)
    return _closed_pools(case)


def pool_tails(pools: Pools, workload: Workload, means: Pooled) -> Tails:
    """Distributions of TTFT, TPOT and E2EL over the requests of two pools.

    Args:
        pools: both deployments and the link.
        workload: lengths and load, without `num_prompts`.
        means: mean figures of the load.

    Returns:
        The distributions; meaningless for a load without a steady state.

    Valid:
        As for the means; waits of different parts are assumed independent.

    Source:
        docs/method.md, "Separate pools".
    """
    case = _case(pools, workload)
    rate = means.request_rate
    users = None
    if workload.concurrency is not None:
        rate = rate * (workload.concurrency - 1.0) / workload.concurrency
        users = maximum(workload.concurrency / case.receivers, 1.0)
    decoding = _decoding(case, rate, means.others)
    has_decode = workload.osl > 1.0
    link = _link(case, rate, means.queue)
    step = decoding.met.plain
    nobody = decoding.met.nobody
    delay = where(has_decode, (1.0 - nobody) * step / 2.0, 0.0)
    swing = where(has_decode, step**2 * ((1.0 - nobody) / 3.0 - ((1.0 - nobody) / 2.0) ** 2), 0.0)
    delay, swing = delay + link.wait, swing + link.variance
    share, wait = means.waiting_share, means.slot_wait / maximum(means.waiting_share, NANO)
    wait_swing = wait * wait
    if users is not None:
        share, wait = 1.0, means.slot_wait
        wait_swing = minimum(wait * wait, wait / maximum(means.request_rate, NANO))
    parts = []
    arrival = (1.0 - _idle_probability(case, means.request_rate)) * case.rank.server.engine.arrival
    for weight, least, mean, variance in _prompt_parts(case, means.queue, None if users is None else means):
        for slot_share, extra, extra_swing in ((1.0 - share, 0.0, 0.0), (share, wait, wait_swing)):
            if not never(slot_share * weight > NANO):
                spread = variance + swing + extra_swing
                parts.append(Component(slot_share * weight, least + arrival, mean + delay + extra, spread))
    met = decoding.met._replace(stage=means.ttft - case.decode.before)
    return decode_tails(case.decode, met, rate / case.receivers, means.others, users, parts)


def decode_capacity(server: Server) -> Saturation:
    """Saturation of a rank that only decodes."""
    slots = server.slots
    step = server.decode(slots).total
    _, decode = over_answers(server, step, 0.0, 0.0, step)
    rate = slots / maximum(decode, NANO)
    return Saturation(rate, slots, step, slots)


def _case(pools: Pools, workload: Workload) -> _Case:
    plain = replace(workload, batch=1.0, concurrency=None, num_prompts=None, request_rate=1.0)
    rank = prompt_rank(server_of(pools.prefill, replace(plain, osl=1.0)))
    decode = server_of(pools.decode, plain)
    transfer = where(workload.osl > 1.0, kv_transfer_time(pools, workload.isl), 0.0)
    senders, receivers = lanes(pools.prefill) * 1.0, lanes(pools.decode) * 1.0
    return _Case(pools, workload, rank, decode, decode_capacity(decode), senders, receivers, transfer)


def _limits(case: _Case) -> tuple[Real, Real, Real]:
    """Largest rates of the prefill pool, the decode pool and the links [1/s]."""
    idle = prompt_queue(case.rank, NANO)
    decode = where(case.workload.osl > 1.0, case.full.rate * case.receivers, float("inf"))
    free = case.transfer <= 0.0
    link = minimum(case.senders, case.receivers) / where(free, 1.0, case.transfer)
    return idle.max_rate * case.senders, decode, where(free, float("inf"), link)


def _decoding(case: _Case, rate: Real, others: Real | None = None) -> _Decode:
    """Decode ranks at a request rate of the whole pool: other sequences, step times, the wait for a slot."""
    server, rate_per_rank, slots = case.decode, rate / case.receivers, case.full.slots

    def step_at(others: Real) -> Real:
        return server.decode(minimum(1.0 + others, slots)).total

    if others is None:
        # The number that decode falls short of the number that arrive per answer, up to a rank of which all slots
        # are taken: that is saturation, so that below it there is a crossing.
        def surplus(others: Real) -> Real:
            step = step_at(others)
            return rate_per_rank * over_answers(server, step, 0.0, 0.0, step)[1] - others

        others = minimum(crossing(surplus, slots), slots)
    step = step_at(others)
    tpot, decode = over_answers(server, step, 0.0, 0.0, step)
    met = _without_prompts(server, step, tpot, decode, others)
    share, wait = slot_wait(server, case.full, met, rate_per_rank, others)
    has_decode = case.workload.osl > 1.0
    return _Decode(others, met, where(has_decode, share, 0.0), where(has_decode, wait, 0.0))


def _without_prompts(server: Server, step: Real, tpot: Real, decode: Real, others: Real) -> Meeting:
    """Conditions of a request where only decode steps run."""
    zero = 0.0 * step
    return Meeting(
        stage=zero, step=tpot, decode=decode, plain=step, mean_step=step, seen=step, prompt=zero, rho=zero,
        in_full=zero, rho_chunks=zero, nobody=_E ** (0.0 - others), idle=zero, wait=zero,
        room=server.budget, surge=zero, rounds=0.0, biased=step,
    )  # fmt: skip


def _link(case: _Case, rate: Real, queue: PromptQueue) -> _Link:
    """Transfers at a rate, and their waits for prompts of the same pass and for other ranks.

    A rank finishes prompts no faster than every `queue.each`, so its link is usually free when they end.
    """
    prompt = queue.alone
    shown = shown_transfer(case.pools.link, case.pools.prefill.model.layers * 1.0, case.transfer, prompt)
    shown = where(case.workload.osl > 1.0, shown, 0.0)
    receiver_wait, receiver_variance = _line_wait(rate / case.receivers, shown, 1.0 - 1.0 / case.senders)
    occupied = shown + receiver_wait  # a sender's link, while the receiver's is in use
    overlap = maximum(1.0 - queue.each / maximum(occupied, NANO), 0.0)
    sender_wait, sender_variance = _line_wait(rate / case.senders, occupied, overlap)
    pass_wait = (1.0 - queue.idle) * queue.mates / 2.0 * occupied
    variance = receiver_variance + sender_variance + pass_wait * occupied
    return _Link(shown, receiver_wait + sender_wait + pass_wait, variance)


def _line_wait(rate: Real, service_time: Real, share: Real) -> tuple[Real, Real]:
    """Wait of a share of the arrivals for others of equal service time, and its variance [s, s^2]."""
    wait = queue_wait(rate, service_time, service_time * service_time)
    square = 2.0 * wait * wait + rate * service_time**3 / (3.0 * (1.0 - minimum(rate * service_time, FULL)))
    return share * wait, share * square - (share * wait) ** 2


def _pooled_at(
    case: _Case, rate: Real, queue: PromptQueue, decoding: _Decode, limits: tuple[Real, Real, Real]
) -> Pooled:
    """The parts of a request's latency at a rate."""
    workload = case.workload
    link = _link(case, rate, queue)
    prompt = minimum(queue.alone, queue.stage)  # less where the host has launched kernels ahead
    prompt_wait = queue.stage - prompt
    busy = 1.0 - _idle_probability(case, rate)
    arrival = busy * case.rank.server.engine.arrival
    step_wait = where(workload.osl > 1.0, (1.0 - decoding.met.nobody) * decoding.met.plain / 2.0, 0.0)
    ttft = case.rank.server.before + arrival + prompt + prompt_wait + link.shown + link.wait
    ttft = ttft + step_wait + decoding.wait
    decode = where(workload.osl > 1.0, decoding.met.decode, 0.0)
    tpot = time_per_token(case.pools.decode, workload.osl, decoding.met.step)
    max_rate = minimum(minimum(limits[0], limits[1]), limits[2])
    batch = (1.0 + decoding.others) * case.pools.decode.plan.dp
    return Pooled(
        ttft=ttft, tpot=tpot, decode=decode, prompt=prompt, prompt_wait=prompt_wait,
        transfer=link.shown, transfer_wait=link.wait, step_wait=step_wait, slot_wait=decoding.wait,
        concurrency=rate * (ttft + decode), request_rate=rate, max_request_rate=max_rate, max_prefill_rate=limits[0],
        max_decode_rate=limits[1], max_link_rate=limits[2], batch=batch, slots=case.full.slots,
        waiting_share=decoding.share, is_stable=rate < max_rate, queue=queue, others=decoding.others,
    )  # fmt: skip


def _idle_probability(case: _Case, rate: Real) -> Real:
    """Probability that an arriving request finds no sequence on the decode pool."""
    server = case.decode
    step = server.decode(1.0).total
    decoding = rate * over_answers(server, step, 0.0, 0.0, step)[1]
    users = case.workload.concurrency
    if users is None:
        return _E ** (0.0 - decoding)
    others = maximum(users - 1.0, NANO)
    return maximum(1.0 - decoding / users, 0.0) ** others


def _open_pools(case: _Case) -> Pooled:
    """Poisson arrivals."""
    limits = _limits(case)
    offered = case.workload.request_rate
    max_rate = minimum(minimum(limits[0], limits[1]), limits[2])
    rate = minimum(offered, FULL * max_rate)
    result = _pooled_at(case, rate, prompt_queue(case.rank, rate / case.senders), _decoding(case, rate), limits)
    is_stable = offered < max_rate
    return result._replace(
        ttft=where(is_stable, result.ttft, float("inf")),
        request_rate=offered,
        concurrency=where(is_stable, result.concurrency, float("inf")),
        is_stable=is_stable,
    )


def _closed_pools(case: _Case) -> Pooled:
    """Users: the throughput at which all of them are in flight."""
    workload = case.workload
    users: Real = 1.0 if workload.concurrency is None else workload.concurrency
    limits = _limits(case)
    max_rate = FULL * minimum(minimum(limits[0], limits[1]), limits[2])
    others_share = (users - 1.0) / users
    share = 0.0
    if workload.num_prompts is not None:
        share = minimum(BURST_WAVES * users / workload.num_prompts, 1.0)
    burst = share * maximum(users - case.senders, 0.0) / (2.0 * limits[0])

    def at_rate(rate: Real) -> Pooled:
        trial_rate = maximum(rate, NANO * max_rate)
        queue = prompt_queue(case.rank, others_share * trial_rate / case.senders)
        result = _pooled_at(case, trial_rate, queue, _decoding_users(case, trial_rate, users), limits)
        wait = (1.0 - share) * result.prompt_wait * _closed_loop_factor(queue, users, case)
        ttft = result.ttft - result.prompt_wait + wait + burst
        return result._replace(ttft=ttft, prompt_wait=wait + burst, concurrency=trial_rate * (ttft + result.decode))

    throughput = minimum(crossing(lambda rate: 1.0 - at_rate(rate).concurrency / users, max_rate), max_rate)
    result = at_rate(throughput)
    left = maximum(users / throughput - result.ttft - result.decode, 0.0)  # the others wait for the full pool
    ttft = result.ttft + left
    is_found = (throughput > 0.0) & (throughput * (ttft + result.decode) <= (1.0 + _SAME) * users)
    return result._replace(
        ttft=where(is_found, ttft, float("inf")),
        slot_wait=result.slot_wait + left,
        concurrency=users,
        is_stable=is_found,
    )


def _closed_loop_factor(queue: PromptQueue, users: Real, case: _Case) -> Real:
    """Wait of this many users over that of random arrivals: fewer are left to arrive together."""
    users_per_rank = maximum(users / case.senders, 1.0)
    return 1.0 - minimum(queue.util, 1.0) / users_per_rank


def _decoding_users(case: _Case, rate: Real, users: Real) -> _Decode:
    """Decode ranks under users, whose answers go to the emptiest rank."""
    server = case.decode
    others_rate = rate * (users - 1.0) / users

    def others_at(state: Real) -> Real:
        step = server.decode(1.0 + state).total
        decode = over_answers(server, step, 0.0, 0.0, step)[1]
        decoding = minimum(others_rate * decode, users - 1.0)
        return minimum(maximum((1.0 + decoding) / case.receivers - 1.0, 0.0), case.full.slots - 1.0)

    others = crossing(lambda state: others_at(state) - state, case.full.slots - 1.0)
    step = server.decode(1.0 + others).total
    tpot, decode = over_answers(server, step, 0.0, 0.0, step)
    met = _without_prompts(server, step, tpot, decode, others)
    return _Decode(others, met, 0.0 * others_rate, 0.0 * others_rate)


def _prompt_parts(case: _Case, queue: PromptQueue, users: Pooled | None) -> list[tuple[Real, Real, Real, Real]]:
    """Weight, minimum, mean beyond it and variance of the time until the KV transfer ends, by prompt length [s]."""
    server = case.rank.server
    before = server.before - server.cold
    link = case.pools.link
    layers = case.pools.prefill.model.layers * 1.0
    parts = []
    mean = case.rank.prompt.length
    shared = maximum(queue.own - case.rank.prompt.attention, 0.0)
    wait, variance = queue.wait, queue.variance
    if users is not None:  # those not decoding wait: Poisson-like number, unevenly over ranks
        # so that all of them take the mean: prompts that follow others are quicker than those of an idle rank
        behind = (users.prompt + users.prompt_wait - queue.idle * queue.alone) / maximum(1.0 - queue.idle, NANO)
        wait = minimum(maximum(behind - queue.own, 0.0), wait)
        number_variance = (1.0 + users.request_rate * users.decode) / users.request_rate**2
        variance = minimum(variance, number_variance + (1.0 - 1.0 / case.senders) / 3.0 * wait * wait)
    for weight, share in server.lengths.prompts.slices:
        tokens = maximum(mean * share, 1.0)
        times = server.prompt(tokens, server.kinds[0].cached)
        alone = case.rank.alone(PromptNode(1.0, tokens, times.attention, times.alone), queue.busy)
        fixed = minimum(queue.fixed, shared)
        in_pass = fixed + (shared - fixed) * tokens / mean + times.attention
        transfer = case.transfer * (server.prefix + tokens) / (server.prefix + mean)
        shown = shown_transfer(link, layers, transfer, alone)
        parts.append((weight * queue.idle, before + alone + shown, 0.0 * alone, 0.0 * alone))
        least = before + in_pass + shown
        parts.append((weight * (1.0 - queue.idle), least, wait, variance))
    return parts
