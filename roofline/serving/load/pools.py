"""Two pools under a load: prefill ranks, KV transfers, decode ranks.

The pools interact through the request rate alone: prompts never delay a decode step, and answers never delay a
prompt.

"""

from __future__ import annotations

from collections.abc import Iterator

from roofline.numbers.operations import Real, ceil, comparable, maximum, minimum, never, where
from roofline.numbers.quantity import MICRO, MILLI, NANO
from roofline.numbers.roots import crossing
from roofline.physics.memory import kv_bytes_per_sequence
from roofline.physics.plan import Deployment
from roofline.serving.latency import Workload, chunks, lanes, steps_of_answer, time_per_token
from roofline.serving.load.equations import FULL, Saturation, server_of, slot_wait
from roofline.serving.load.mixtures import Component
from roofline.serving.load.regions import domain, pool_region
from roofline.serving.load.rounds import Meeting, over_answers, queue_wait
from roofline.serving.load.server import STABLE, Prompt, PromptNode, Server, prompt_of
from roofline.serving.load.tails import Tails, decode_tails
from roofline.specs.load import Rate
from roofline.support.records import NamedTuple, dataclass, replace

# Disaggregated serving: separate pools for prefill and decode, and the KV transfer between them.

#: Links for KV transfers: the scale-up fabric, the network, the host's bus.
NVLINK, RDMA, PCIE_LINK = KV_LINKS = ("nvlink", "rdma", "pcie")

_SAME_RATE = 2.0**-40  # relative difference of rates that counts as none


@dataclass(frozen=True, slots=True)
class KvLink:
    """How KV caches move between the pools."""

    kind: str  # one of `KV_LINKS`, or `given`
    bandwidth: Real  # [B/s] per GPU and direction; infinite for instant transfers
    is_layerwise: bool = False  # each layer's KV is sent as soon as it is computed


@dataclass(frozen=True, slots=True)
class Pools:
    """A prefill deployment, a decode deployment and the link between them."""

    prefill: Deployment
    decode: Deployment
    link: KvLink

    @property
    def num_gpus(self) -> int:
        return self.prefill.num_gpus + self.decode.num_gpus


def kv_transfer_time(pools: Pools, tokens: Real) -> Real:
    r"""Time to move the KV cache of one sequence from a prefill rank to a decode rank.

    .. math:: t = \frac{1}{W} \max\left(k_d, \frac{g_d\, k_d}{g_p}\right)

    Every GPU of a decode rank receives the share k that it stores, replicated heads and latents included; the GPUs of
    the prefill rank share the sending evenly.

    Args:
        pools: both deployments and the link.
        tokens: of the sequence, its cached prefix included [tokens].

    Returns:
        Time [s]; with a pipeline, that of the fullest stage.

    Valid:
        Rates add over the GPUs of a rank; no compression, no message latency.

    Source:
        Patel et al., "Splitwise", ISCA 2024, section 4.3; Zhong et al., "DistServe", OSDI 2024, section 4.
    """
    sender, receiver = pools.prefill, pools.decode
    received = kv_bytes_per_sequence(receiver.model, receiver.plan, receiver.quantization, tokens)
    gpus = receiver.plan.sequence_gpus
    sent = received * gpus / sender.plan.sequence_gpus
    return maximum(received, sent) / pools.link.bandwidth


def shown_transfer(link: KvLink, layers: Real, transfer: Real, prompt: Real) -> Real:
    r"""Transfer time that remains visible in the TTFT.

    .. math:: t' = \max\left(\frac{t}{L},\ t - \left(1 - \frac{1}{L}\right) A\right)

    where layers are sent while later ones are computed; otherwise all of it.

    Args:
        link: between the pools.
        layers: L, of the model [1].
        transfer: time t of the whole cache [s].
        prompt: time A to compute the prompt [s].

    Returns:
        Time [s].

    Valid:
        Layers of equal size.

    Source:
        Arithmetic of two stages that overlap; layer-wise transfer of Patel et al., "Splitwise", ISCA 2024, section 4.3.

    >>> shown_transfer(KvLink("rdma", 1e9, is_layerwise=True), 10.0, 0.5, 1.0)
    0.05
    """
    if not link.is_layerwise:
        return transfer
    return maximum(transfer / layers, transfer - (1.0 - 1.0 / layers) * prompt)


class PoolRatio(NamedTuple):
    """Numbers of replicas of both pools that keep each other busy."""

    prefill: int  # replicas
    decode: int  # replicas
    rate: float  # [1/s] at most
    rate_per_gpu: float  # [1/s]
    exact: float  # prefill replicas per decode replica at which neither pool waits for the other [1]
    exact_rate_per_gpu: float  # [1/s] at the exact ratio: an upper bound for whole numbers


def matched_ratio(prefill: Real, decode: Real) -> Real:
    r"""Prefill replicas per decode replica at which neither pool waits for the other.

    .. math:: \frac{n_p}{n_d} = \frac{X_d}{X_p}

    Args:
        prefill: capacity X_p of a prefill replica [1/s].
        decode: capacity X_d of a decode replica [1/s].

    Returns:
        Ratio [1].

    Source:
        Rate matching of the two phases: Zhong et al., "DistServe", OSDI 2024, section 4.1.

    >>> matched_ratio(2.0, 3.0)
    1.5
    """
    return decode / prefill


def matched_rate_per_gpu(prefill: Real, decode: Real, prefill_gpus: Real, decode_gpus: Real) -> Real:
    r"""Largest request rate per GPU at the matched ratio.

    .. math:: x = \frac{1}{g_p / X_p + g_d / X_d}

    Args:
        prefill: capacity X_p of a prefill replica [1/s].
        decode: capacity X_d of a decode replica [1/s].
        prefill_gpus: GPUs of a prefill replica, g_p [1].
        decode_gpus: GPUs of a decode replica, g_d [1].

    Returns:
        Upper bound of the rate with whole replicas [1/s].

    Source:
        `matched_ratio`.

    >>> matched_rate_per_gpu(2.0, 2.0, 1.0, 3.0)
    0.5
    """
    return 1.0 / (prefill_gpus / prefill + decode_gpus / decode)


def best_pool_ratio(prefill: float, decode: float, prefill_gpus: int, decode_gpus: int, most: int) -> PoolRatio | None:
    """Whole replicas within `most` GPUs with the highest rate per GPU; ties go to fewer GPUs; None if none fit.

    >>> best_pool_ratio(2.0, 3.0, 1, 1, 5)[:3]
    (3, 2, 6.0)
    """
    exact = matched_ratio(prefill, decode)
    bound = matched_rate_per_gpu(prefill, decode, prefill_gpus, decode_gpus)
    best: PoolRatio | None = None
    for receivers in range(1, (most - prefill_gpus) // decode_gpus + 1):
        room = (most - receivers * decode_gpus) // prefill_gpus
        for senders in {max(min(int(exact * receivers), room), 1), max(min(int(exact * receivers) + 1, room), 1)}:
            gpus = senders * prefill_gpus + receivers * decode_gpus
            rate = min(senders * prefill, receivers * decode)
            candidate = PoolRatio(senders, receivers, rate, min(rate / gpus, bound), exact, bound)
            if best is None or candidate.rate_per_gpu > best.rate_per_gpu * (1.0 + _SAME_RATE):
                best = candidate
    return best


#: Share of a run of N requests by c users that arrives in bursts, over c / N: the start, and as many again in the waves
#: after it (chosen on development rows of GB200; docs/accuracy.md, "Separate pools").
BURST_WAVES = 2.0

_E = 2.718281828459045
_FOUND_WITHIN = MICRO  # relative excess of requests in flight over users, beyond which a throughput was not found


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


class _PooledCase(NamedTuple):
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
        workload: lengths, and users or a rate.

    Returns:
        Mean figures; times are infinite under overload.

    Valid:
        Requests go to a random prefill rank, and to a random decode rank under a rate or the emptiest one under users.
        The first token is computed with the prompt, and shown when the first decode step begins.

    Source:
        docs/method.md, "Separate pools"; the parts of TTFT as in Zhong et al., "DistServe", OSDI 2024.
    """
    case = _case(pools, workload)
    return _open_pools(case) if workload.load.is_open else _closed_pools(case)


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
    users = workload.load.users_on(case.receivers)
    if users is not None:
        rate = rate * (workload.concurrency - 1.0) / workload.concurrency
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
    for weight, least, mean, variance in _prompt_parts(case, means.queue, None if users is None else means):
        for slot_share, extra, extra_swing in ((1.0 - share, 0.0, 0.0), (share, wait, wait_swing)):
            if not never(slot_share * weight > NANO):
                spread = variance + swing + extra_swing
                parts.append(Component(slot_share * weight, least, mean + delay + extra, spread))
    met = decoding.met._replace(stage=means.ttft - case.decode.before)
    return decode_tails(case.decode, met, rate / case.receivers, means.others, users, parts)


def decode_capacity(server: Server) -> Saturation:
    """Saturation of a rank that only decodes."""
    slots = server.slots
    step = server.decode(slots).total
    _, decode = over_answers(server, step, 0.0, 0.0, step)
    rate = slots / maximum(decode, NANO)
    return Saturation(rate, slots, step, slots)


def _case(pools: Pools, workload: Workload) -> _PooledCase:
    plain = replace(workload, load=Rate(1.0))
    rank = prompt_rank(server_of(pools.prefill, replace(plain, osl=1.0)))
    decode = server_of(pools.decode, plain)
    transfer = where(workload.osl > 1.0, kv_transfer_time(pools, workload.isl), 0.0)
    senders, receivers = lanes(pools.prefill) * 1.0, lanes(pools.decode) * 1.0
    return _PooledCase(pools, workload, rank, decode, decode_capacity(decode), senders, receivers, transfer)


def _limits(case: _PooledCase) -> tuple[Real, Real, Real]:
    """Largest rates of the prefill pool, the decode pool and the links [1/s]."""
    idle = prompt_queue(case.rank, NANO)
    decode = where(case.workload.osl > 1.0, case.full.rate * case.receivers, float("inf"))
    free = case.transfer <= 0.0
    link = minimum(case.senders, case.receivers) / where(free, 1.0, case.transfer)
    return idle.max_rate * case.senders, decode, where(free, float("inf"), link)


def _decoding(case: _PooledCase, rate: Real, others: Real | None = None) -> _Decode:
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


def _link(case: _PooledCase, rate: Real, queue: PromptQueue) -> _Link:
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
    case: _PooledCase, rate: Real, queue: PromptQueue, decoding: _Decode, limits: tuple[Real, Real, Real]
) -> Pooled:
    """The parts of a request's latency at a rate."""
    workload = case.workload
    link = _link(case, rate, queue)
    prompt = minimum(queue.alone, queue.stage)  # less where the host has launched kernels ahead
    prompt_wait = queue.stage - prompt
    step_wait = where(workload.osl > 1.0, (1.0 - decoding.met.nobody) * decoding.met.plain / 2.0, 0.0)
    ttft = case.rank.server.before + _handover(case) + prompt + prompt_wait + link.shown + link.wait
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


def _handover(case: _PooledCase) -> Real:
    """Time from one engine to the other, beyond the transfer; single tokens stay [s]."""
    return where(case.workload.osl > 1.0, case.decode.engine.handover, 0.0)


def _open_pools(case: _PooledCase) -> Pooled:
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


def _closed_pools(case: _PooledCase) -> Pooled:
    """Users: the throughput at which all of them are in flight."""
    workload = case.workload
    users: Real = workload.concurrency
    limits = _limits(case)
    max_rate = FULL * minimum(minimum(limits[0], limits[1]), limits[2])
    others_share = (users - 1.0) / users
    share = 0.0
    if workload.load.is_run:
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
    is_found = (throughput > 0.0) & (throughput * (ttft + result.decode) <= (1.0 + _FOUND_WITHIN) * users)
    return result._replace(
        ttft=where(is_found, ttft, float("inf")),
        slot_wait=result.slot_wait + left,
        concurrency=users,
        is_stable=is_found,
    )


def _closed_loop_factor(queue: PromptQueue, users: Real, case: _PooledCase) -> Real:
    """Wait of this many users over that of random arrivals: fewer are left to arrive together."""
    users_per_rank = maximum(users / case.senders, 1.0)
    return 1.0 - minimum(queue.util, 1.0) / users_per_rank


def _decoding_users(case: _PooledCase, rate: Real, users: Real) -> _Decode:
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


def _prompt_parts(case: _PooledCase, queue: PromptQueue, users: Pooled | None) -> list[tuple[Real, Real, Real, Real]]:
    """Weight, minimum, mean beyond it and variance of the time until the KV transfer ends, by prompt length [s]."""
    server = case.rank.server
    before = server.before - server.cold + _handover(case)
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


# A rank that only computes prompts: how long they wait for each other.
#
# Waiting prompts share one pass, up to the token budget, and end together; where the budget holds a single prompt,
# they run one by one. The equations interpolate between both; docs/method.md, "Separate pools".

_ROUNDS = 40  # of the probability of no arrival during a pass


@comparable
class PromptQueue(NamedTuple):
    """Conditions of a prompt at a rank that only computes prompts."""

    alone: Real  # [s] of a prompt that finds the rank idle, mean over lengths
    wait: Real  # [s] of the others until their prompt is done, less its own part of the pass
    own: Real  # [s] of the mean prompt in a shared pass, fixed cost included
    each: Real  # [s] that an additional prompt adds to a pass
    fixed: Real  # [s] of a pass, whatever its prompts
    variance: Real  # [s^2] of `wait`
    idle: Real  # probability that a prompt finds the rank idle [1]
    mates: Real  # other prompts in the same pass, where the rank is busy [1]
    util: Real  # rate over the largest one [1]
    max_rate: Real  # [1/s] prompts
    busy: Real  # mean busy ranks of a worker [1]

    @property
    def stage(self) -> Real:
        """Mean time from the end of the host's request time to the end of the prompt [s]."""
        return self.idle * self.alone + (1.0 - self.idle) * (self.own + self.wait)


@dataclass(frozen=True)
class PromptRank:
    """One rank of a prefill pool: a data-parallel rank in its pipeline turn."""

    server: Server
    prompt: Prompt

    @property
    def room(self) -> Real:
        """Mean number of prompts that fit the token budget of a pass [1]."""
        return self.server.budget / self.prompt.length

    def alone(self, node: PromptNode, busy: Real) -> Real:
        """Time of a prompt in its own passes, with `busy` ranks of its worker active [s]."""
        if self.server.deployment.plan.dp == 1:
            return node.alone
        chunk = minimum(node.length, self.server.budget)
        contention = self._linear(chunk, busy) - self._linear(chunk, 1.0)
        return node.alone + contention * node.length / chunk

    def follow(self, node: PromptNode, busy: Real) -> Real:
        """Time of a prompt in passes right after others, whose kernels the host has launched ahead [s]."""
        count = chunks(node.length, self.server.engine.max_num_batched_tokens)
        return count * self.pass_time(node.length / count, node.attention / count, busy)

    def pass_time(self, tokens: Real, attention: Real, busy: Real) -> Real:
        """Time of a pass right after another [s], with `busy` ranks of the worker active; `attention` [s]."""
        return self._linear(tokens, busy) + attention + self.prompt.head + self.server.engine.prefill

    def _linear(self, tokens: Real, busy: Real) -> Real:
        """Everything but attention, head and host [s]."""
        return replace(self.server, users=busy).linear(1.0, tokens - 1.0)


def prompt_rank(server: Server) -> PromptRank:
    return PromptRank(server, prompt_of(server))


def prompt_queue(rank: PromptRank, rate: Real, fewer: Real = 1.0) -> PromptQueue:
    r"""Queue of prompts at a rank that takes all waiting prompts into its next pass.

    .. math:: E[Y] = \frac{\alpha + \beta \pi_0}{1 - \rho},\quad
              E[Y^2] = \frac{\alpha^2 + 2 \alpha \beta (l E[Y] + \pi_0) + E[\beta^2] (l E[Y] + \pi_0)}{1 - \rho^2},\quad
              w = \frac{m}{2} + \beta l m,\quad m = \frac{E[Y^2]}{E[Y]}

    A pass of k prompts takes alpha + beta k; pi_0 is the probability of no arrival during one, rho = l beta. Where the
    budget holds a single prompt, w is that of M/G/1.

    Args:
        rank: of a prefill pool.
        rate: l, Poisson arrivals of prompts [1/s].
        fewer: bunching of arrivals over that of Poisson arrivals: 1 for an open loop [1].

    Returns:
        The queue; beyond `STABLE` of the largest rate its times are those at `STABLE`.

    Valid:
        The time of a pass is affine in its prompts, from one to as many as arrive together.

    Source:
        Bulk service without a limit: Bailey, J. Royal Statistical Society B 16(1), 1954, and Kleinrock, "Queueing
        Systems", 1975, volume 1, 4.5; queue_wait for one by one.
    """
    server, prompt = rank.server, rank.prompt
    dp, length = server.deployment.plan.dp, prompt.length
    full = _full_pass_time(rank, dp * 1.0)
    rate = maximum(rate, NANO)
    bounded = minimum(rate, STABLE / full)

    def passes_with(busy: Real) -> _Passes:
        begin = prompt.mean(lambda node: rank.alone(node, busy))
        alone = prompt.mean(lambda node: rank.follow(node, busy))
        single = rank.pass_time(length, prompt.attention, busy)

        def passes_at(seen: Real) -> _Passes:
            arrivals = bounded * seen
            # Passes may grow faster than linearly, so that the slope is taken up to as many as arrive.
            together = maximum(minimum(1.0 + arrivals + arrivals**0.5, rank.room), 2.0)
            several = rank.pass_time(together * length, together * prompt.attention, busy)
            slope = minimum((several - single) / (together - 1.0), STABLE / bounded)
            return _passes(rank, bounded, maximum(alone - slope, 0.0), slope, begin)

        longest = rank.room / bounded  # while the prompts of a full pass arrive: beyond it, the slope stays the same
        longest = maximum(longest, passes_at(longest).biased)
        return passes_at(crossing(lambda seen: passes_at(seen).biased - seen, longest))

    busy = 1.0
    if dp > 1:  # the more ranks of a worker compute, the longer each pass, and the more of them compute
        busy = 1.0 + (dp - 1.0) * crossing(lambda share: 1.0 - passes_with(1.0 + (dp - 1.0) * share).idle - share, 1.0)
    passes = passes_with(busy)
    added, second = passes.each[:2]
    mates = bounded * passes.biased  # prompts that arrive during the running pass
    shared_wait = fewer * (passes.biased / 2.0 + added * mates)
    spread = (
        passes.cube * (1.0 / 3.0 + bounded * added + (bounded * added) ** 2)
        - (passes.biased / 2.0 + added * mates) ** 2
    )
    spread = maximum(spread + bounded * second * passes.biased, 0.0)
    # Prompts that run one by one.
    single = prompt.mean(lambda node: rank.alone(node, busy))
    alone = prompt.mean(lambda node: rank.follow(node, busy))
    square = prompt.mean(lambda node: rank.follow(node, busy) ** 2)
    cube = prompt.mean(lambda node: rank.follow(node, busy) ** 3)
    gain = minimum(_full_pass_time(rank, busy) / alone, 1.0)  # passes with parts of several prompts are fuller
    load = minimum(rate * full, 1.0)
    gain = minimum(1.0 - (1.0 - gain) * load, gain * (1.0 + (1.0 - load) / 2.0))  # and the more so, the higher the load
    used = minimum(bounded * gain * alone, STABLE)
    queue = queue_wait(bounded, gain * alone, gain**2 * square)
    extra = single - gain * alone  # extra time of a prompt that finds the rank idle
    empty = (1.0 - used) / (1.0 + bounded * maximum(extra, 0.0))
    queue = queue + bounded * maximum(single**2 - square, 0.0) / (2.0 * (1.0 + bounded * maximum(extra, 0.0)))
    line_wait = fewer * queue / (1.0 - empty)
    line_spread = (2.0 * queue * queue + bounded * gain**3 * cube / (3.0 * (1.0 - used))) / (1.0 - empty) - line_wait**2
    line_spread = maximum(line_spread, 0.0)
    followers = bounded * line_wait  # prompts behind this one when its last pass begins
    space = minimum(minimum(ceil(1.0 / rank.room) * rank.room - 1.0, rank.room / 2.0), 1.0)  # that fit into it
    fill = followers * space / maximum(followers + space, NANO)
    line_wait, line_spread = line_wait + gain * alone * fill, line_spread + (gain * alone) ** 2 * fill
    share = minimum(maximum(rank.room - 1.0, 0.0) / maximum(mates + mates**0.5, NANO), 1.0)
    own_time = share * (passes.fixed + added) + (1.0 - share) * alone
    return PromptQueue(
        alone=single,
        wait=share * shared_wait + (1.0 - share) * line_wait,
        own=own_time,
        each=added,
        fixed=passes.fixed,
        variance=share * spread + (1.0 - share) * line_spread + share * (1.0 - share) * (shared_wait - line_wait) ** 2,
        idle=share * passes.idle + (1.0 - share) * empty,
        mates=share * mates,
        util=rate * full,
        max_rate=1.0 / full,
        busy=busy,
    )


class _Passes(NamedTuple):
    """Consecutive passes over prompts."""

    fixed: Real  # [s] alpha
    each: tuple[Real, Real, Real]  # moments of beta over the lengths [s, s^2, s^3]
    biased: Real  # [s] E[Y^2]/E[Y]
    cube: Real  # [s^2] E[Y^3]/E[Y]
    idle: Real  # probability that a prompt finds no pass running [1]


def _full_pass_time(rank: PromptRank, busy: Real) -> Real:
    """Time per prompt in full passes on all `busy` ranks of a worker [s]."""
    server, length = rank.server, rank.prompt.length
    tokens = server.budget
    several = rank.pass_time(tokens, rank.prompt.attention * tokens / length, busy) * length / tokens
    return minimum(several, rank.prompt.mean(lambda node: rank.follow(node, busy)))


def _passes(rank: PromptRank, rate: Real, fixed: Real, slope: Real, begin: Real) -> _Passes:
    """Moments of passes that take all prompts that arrived during the last one."""
    prompt = rank.prompt

    def added_time(node: PromptNode) -> Real:
        shared = maximum(slope - prompt.attention, 0.0)
        return shared * node.length / prompt.length + node.attention

    first = slope
    second, third = prompt.mean(lambda node: added_time(node) ** 2), prompt.mean(lambda node: added_time(node) ** 3)
    # The transform of a pass is linear in the probability of no arrival during one.
    argument, product, constant = rate, 1.0, 0.0
    for _ in range(_ROUNDS):
        last, product = product, product * _E ** (0.0 - argument * fixed)
        constant = constant + last * _E ** (0.0 - argument * begin) - product
        argument = rate * (1.0 - _E ** (0.0 - argument * first))
    no_arrival = product / (1.0 - constant)
    rho = rate * first
    idle_extra = begin - fixed - first  # extra time of a pass on an idle rank, which waits for its launches
    mean = (fixed + (first + idle_extra) * no_arrival) / (1.0 - rho)
    arrivals = rate * mean
    square = fixed**2 + 2.0 * fixed * first * (arrivals + no_arrival) + second * (arrivals + no_arrival)
    square = (square + no_arrival * (begin**2 - (fixed + first) ** 2)) / (1.0 - rho**2)
    cube = fixed**3 + 3.0 * fixed**2 * first * (arrivals + no_arrival)
    cube = cube + 3.0 * fixed * (second * (arrivals + no_arrival) + rho**2 * square)
    cube = cube + third * (arrivals + no_arrival) + 3.0 * rho * rate * second * square
    cube = (cube + no_arrival * (begin**3 - (fixed + first) ** 3)) / (1.0 - rho**3)
    return _Passes(fixed, (first, second, third), square / mean, cube / mean, no_arrival / (arrivals + no_arrival))


# The validated range of the equations of two pools.

#: Bounds of the validated range (docs/method.md, "Separate pools").
_MOST_PREFILL, _MOST_DECODE, _MOST_LINK, _MOST_WAITING, _MOST_CV = 0.8, 0.8, 0.5, MILLI, 0.3
_FEWEST_STEPS = 10.0  # prompts of one pass begin to decode together, so that short answers meet each other
_MOST_OF_BUDGET = 0.5  # prompt tokens over the token budget: beyond it, passes hold parts of prompts


def outside_pools(pools: Pools, workload: Workload, means: Pooled) -> Iterator[tuple[Real, str]]:
    """Conditions of the validated range: whether a case fails each, and the words for it."""
    lengths = workload.lengths
    rate, budget = means.request_rate, pools.prefill.effective_engine.max_num_batched_tokens or float("inf")
    yield rate > _MOST_PREFILL * means.max_prefill_rate, f"prefill pool above {_MOST_PREFILL:.0%} of what it takes"
    yield rate > _MOST_DECODE * means.max_decode_rate, f"decode pool above {_MOST_DECODE:.0%}"
    yield rate > _MOST_LINK * means.max_link_rate, f"link above {_MOST_LINK:.0%}"
    yield workload.isl - workload.prefix > _MOST_OF_BUDGET * budget, "prompts above half of the token budget"
    yield means.waiting_share > _MOST_WAITING, "requests wait for slots"
    yield lengths is not None and lengths.prompts.cv > _MOST_CV, f"prompt length cv above {_MOST_CV:g}"
    yield (
        steps_of_answer(pools.decode, workload.osl) < _FEWEST_STEPS,
        f"answers of fewer than {_FEWEST_STEPS:g} decode steps",
    )
    yield workload.load.is_run, "a run that includes its start"
    yield pools.prefill.plan.pp * pools.decode.plan.pp > 1, "pipeline parallelism"


def pools_outside(pools: Pools, workload: Workload, means: Pooled) -> str:
    """A sentence on whether one case is inside the validated range, and on errors in its region."""
    fails = [reason for is_outside, reason in outside_pools(pools, workload, means) if is_outside]
    return domain(fails, pool_region(is_outside=bool(fails)))
