"""A server under a closed loop: a fixed number of requests in flight, prompts computed between decode steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from roofline.ops import Real, ceil, maximum, minimum, where
from roofline.physics.assembly import rank_batch
from roofline.physics.forward import Pass, decode_pass, prefill_pass
from roofline.physics.memory import largest_batch
from roofline.physics.plan import NO_ENGINE, Deployment
from roofline.serving.interval import pass_sigma, spread
from roofline.serving.latency import e2el

__all__ = ["ClosedLoop", "LoopTimes", "closed_loop", "loop_times", "mixed_time"]

_RESIDUAL = 0.5  # of a decode step that an arriving prompt waits for, on average
# Of ln(predicted / measured), from servers that were fitted (docs/accuracy.md): the step with its prompts, kernels
# apart; the first token, with many in flight, and where memory holds back requests.
_LOADED_TPOT, _LOADED_TTFT, _CROWDED_TTFT, _LIMITED_TTFT = 0.1, 0.42, 0.7, 1.1
_CROWD = 64.0  # requests in flight
_ATTENTION = frozenset(
    {"attention_prefill", "attention_decode", "mla_prefill", "mla_decode", "state_prefill", "state_decode", "indexer"}
)


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """What each of `concurrency` requests in flight sees, and what it is made of."""

    ttft: Real  # [s]
    tpot: Real  # [s]
    e2el: Real  # [s]
    requests_per_s: Real  # [1/s] of the replica
    running: Real  # [sequences] decoding together on one data-parallel rank
    step: Pass  # a decode step without any prompt in it
    prefill_time: Real  # [s] what a prompt adds to the steps of the others
    own_prefill_time: Real  # [s] a prompt alone
    queue_time: Real  # [s] waiting behind other prompts and for the step that runs
    slot_time: Real  # [s] waiting for memory, where the cache does not hold all requests
    sigma_ttft: Real  # of ln(predicted / measured)
    sigma_tpot: Real

    @property
    def ttft_interval(self) -> tuple[Real, Real]:
        """Ends of the 80 % interval of `ttft` [s]."""
        return spread(self.ttft, self.sigma_ttft)

    @property
    def tpot_interval(self) -> tuple[Real, Real]:
        """Ends of the 80 % interval of `tpot` [s]."""
        return spread(self.tpot, self.sigma_tpot)


class LoopTimes(NamedTuple):
    """Latencies of a closed loop."""

    ttft: Real  # [s]
    tpot: Real  # [s]
    queue: Real  # [s] part of the ttft
    slots: Real  # [s] part of the ttft: waiting for memory


def closed_loop(
    deployment: Deployment,
    isl: Real,
    osl: Real,
    concurrency: Real,
    burst: Real = 0.0,
    together: Real = 1.0,
    prefix: Real = 0.0,
) -> ClosedLoop:
    r"""Latencies of a replica on which `concurrency` requests are always in flight.

    .. math:: TPOT = D + \frac{P}{O} \max\left(\frac{b - 1}{2},\ b - 1 - A_b\right),\quad
              TTFT = h + P_{own} + A P + \frac{D}{2} \min(1, b - 1) + \text{slots}

    D is a decode step of b sequences, P what one prompt adds to the steps of the others (chunk by
    chunk), A the prompts ahead of mine; slots is the wait where the cache holds fewer than all.

    Args:
        deployment: model, GPU, plan, precision, basis and engine.
        isl: mean prompt length S [tokens].
        osl: mean answer length O [tokens].
        concurrency: requests in flight on one replica [requests].
        burst: share f of the requests that come in the burst at the start; 0 for medians [1].
        together: prompts k that come at the same time, 1 where lengths differ [requests].
        prefix: tokens of each prompt whose KV is cached already [tokens].

    Returns:
        Latencies and their parts [s].

    Valid:
        Equal requests, no speculation; one stage at a time (pp adds no batches in flight); prompts shorter
        than some ten steps are better met than prefill-heavy loads.

    Source:
        docs/method.md, "A server under load".
    """
    engine = NO_ENGINE if deployment.basis == "ideal" else deployment.engine
    plan = deployment.plan
    held = largest_batch(deployment, isl + engine.reserve * osl)
    per_rank = rank_batch(held + 1.0, plan.dp) - 1.0 if plan.dp > 1 else held
    running = maximum(1.0, minimum(concurrency / plan.dp, maximum(per_rank, 1.0)))
    batch = running * plan.dp
    step = decode_pass(deployment, batch, isl, maximum(osl - 1.0, 1.0))
    computed = maximum(isl - prefix, 1.0)
    chunks = 1.0 if engine.chunk is None else ceil(computed / engine.chunk)
    new = computed / chunks
    cached = isl - computed + (chunks - 1.0) / 2.0 * new  # of the mean chunk: pairs are affine in it, so they sum exactly
    context = isl + (osl - 1.0) / 2.0
    host = engine.prefill
    alone = prefill_pass(deployment, plan.dp * 1.0, new, cached).time - host
    added = mixed_time(deployment, batch, context, new, cached) - _gpu_time(step)
    own, other = chunks * alone + host, chunks * engine.stretch * maximum(added, 0.0) + host
    waiting = maximum(concurrency / batch - 1.0, 0.0)
    before = engine.request + engine.network
    times = loop_times(step.time, other, own, before, running, waiting, osl, burst, together)
    return ClosedLoop(
        ttft=times.ttft,
        tpot=times.tpot,
        e2el=e2el(times.ttft, times.tpot, osl),
        requests_per_s=batch / (times.ttft - times.slots + (osl - 1.0) * times.tpot),
        running=running,
        step=step,
        prefill_time=other,
        own_prefill_time=own,
        queue_time=times.queue,
        slot_time=times.slots,
        sigma_ttft=pass_sigma(
            step,
            deployment.basis,
            where(waiting > 0.0, _LIMITED_TTFT, where(concurrency > _CROWD, _CROWDED_TTFT, _LOADED_TTFT)),
        ),
        sigma_tpot=pass_sigma(step, deployment.basis, _LOADED_TPOT),
    )


def loop_times(
    step: Real,
    other: Real,
    own: Real,
    before: Real,
    running: Real,
    waiting: Real,
    osl: Real,
    burst: Real,
    together: Real,
) -> LoopTimes:
    """Latencies of a closed loop from the times of its parts.

    Args:
        step: decode step D, host included [s].
        other: what a prompt adds to the steps of the others, P [s].
        own: a prompt alone, P_own [s].
        before: request and network [s].
        running: sequences b that decode together [sequences].
        waiting: requests that memory holds back, per running one [1].
        osl: mean answer length O [tokens].
        burst: share f of the requests that come in the burst at the start [1].
        together: prompts k that come at the same time [requests].

    Returns:
        TTFT, TPOT, queue and wait for memory [s].

    Source:
        docs/method.md, "A server under load".
    """
    ahead_in_burst = burst * (running - 1.0) / 2.0
    ahead_together = (1.0 - burst) * (together - 1.0)
    ahead = ahead_in_burst + (1.0 - burst) * maximum(together - 1.0, (running - 1.0) / osl)
    stalls = maximum((running - 1.0) / 2.0, running - 1.0 - ahead_in_burst - ahead_together)
    tpot = step + other / osl * stalls
    queue = ahead * other + _RESIDUAL * step * minimum(1.0, running - 1.0)
    first = before + own + queue
    slots = waiting * (first + (osl - 1.0) * tpot)
    return LoopTimes(first + slots, tpot, queue, slots)


def mixed_time(deployment: Deployment, batch: Real, context: Real, new: Real, cached: Real) -> Real:
    """Time on the GPU of a step that decodes a batch and computes a chunk of one prompt per rank.

    Weights are read once for both; attention, whose caches differ, works twice.

    Args:
        deployment: model, GPU, plan, precision, basis and engine.
        batch: sequences that decode on one replica [sequences].
        context: their tokens in the cache [tokens].
        new: tokens of the chunk [tokens].
        cached: tokens of the prompt before it [tokens].

    Returns:
        Time without the host's [s].
    """
    dp = deployment.plan.dp * 1.0
    together = prefill_pass(deployment, dp, new + batch / dp, cached)
    prompt = prefill_pass(deployment, dp, new, cached)
    step = decode_pass(deployment, batch, context)
    shared = sum(kernel.time for kernel in together.kernels if kernel.kind not in _ATTENTION and kernel.kind != "host")
    attended = sum(kernel.time for kernel in prompt.kernels if kernel.kind in _ATTENTION)
    return shared + attended + sum(kernel.time for kernel in step.kernels if kernel.kind in _ATTENTION)


def _gpu_time(passed: Pass) -> Real:
    """Time of a pass without the host's [s]."""
    return sum(kernel.time for kernel in passed.kernels if kernel.kind != "host")
