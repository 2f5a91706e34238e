"""A server under a closed loop: a fixed number of requests in flight, prompts computed between decode steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from roofline.ops import Real, ceil, comparable, floor, maximum, minimum, where
from roofline.physics.forward import Pass, decode_pass, prefill_pass
from roofline.physics.memory import largest_batch
from roofline.physics.one_equation import Kernel
from roofline.physics.plan import Deployment
from roofline.serving.interval import pass_sigma, spread
from roofline.serving.latency import e2el
from roofline.specs.kernels import HEAD, HOST

__all__ = ["ClosedLoop", "LoopTimes", "loop_times", "mixed_time", "steady_loop"]

_RESIDUAL = 0.5  # of a decode step that an arriving prompt waits for, on average
# Of ln(predicted / measured), from servers that were fitted (docs/accuracy.md): the step with its prompts, kernels
# apart; the first token, with many in flight, and where memory holds back requests.
_LOADED_TPOT, _LOADED_TTFT, _CROWDED_TTFT, _LIMITED_TTFT = 0.1, 0.42, 0.7, 1.1
_CROWD = 64.0  # requests in flight


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoop:
    """What each of `concurrency` requests in flight sees, and what it is made of."""

    ttft: Real  # [s]
    tpot: Real  # [s]
    e2el: Real  # [s]
    requests_per_s: Real  # [1/s] of the replica
    running: Real  # [sequences] decoding together on one data-parallel rank
    step: Pass = field(repr=False)  # a decode step without any prompt in it
    prefill_time: Real  # [s] what a prompt adds to the steps of the others
    own_prefill_time: Real  # [s] a prompt alone
    queue_time: Real  # [s] waiting behind other prompts and for the step that runs
    slot_time: Real  # [s] waiting for memory, where the cache does not hold all requests
    sigma_ttft: Real | None  # of ln(predicted / measured); None at light speed
    sigma_tpot: Real | None

    @property
    def ttft_interval(self) -> tuple[Real, Real] | None:
        """Ends of the 80 % interval of `ttft` [s]; None at light speed."""
        return None if self.sigma_ttft is None else spread(self.ttft, self.sigma_ttft)

    @property
    def tpot_interval(self) -> tuple[Real, Real] | None:
        """Ends of the 80 % interval of `tpot` [s]; None at light speed."""
        return None if self.sigma_tpot is None else spread(self.tpot, self.sigma_tpot)


@comparable
class LoopTimes(NamedTuple):
    """Latencies of a closed loop."""

    ttft: Real  # [s]
    tpot: Real  # [s]
    queue: Real  # [s] part of the ttft
    slots: Real  # [s] part of the ttft: waiting for memory


def steady_loop(
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
        Equal requests, no speculation; prompts shorter than some ten steps are better met than prefill-heavy
        loads; with pp, as many batches follow each other through the stages, evenly filled.

    Source:
        docs/method.md, "A server under load".
    """
    engine, plan, is_light = deployment.host, deployment.plan, deployment.basis == "ideal"
    held = largest_batch(deployment, isl + deployment.engine.reserve * osl)  # light needs no host, but room
    in_flight = maximum(concurrency / plan.pp, 1.0)  # of each of the pp batches that follow each other
    running = maximum(1.0, minimum(in_flight / plan.dp, maximum(floor(held / plan.dp), 1.0)))
    batch = minimum(in_flight, running * plan.dp)  # fewer requests than ranks leave some without any
    step = decode_pass(deployment, batch, isl, maximum(osl - 1.0, 1.0))
    computed = maximum(isl - prefix, 1.0)
    chunks = 1.0 if engine.chunk is None else ceil(computed / engine.chunk)
    new = computed / chunks
    # Of the mean chunk: without windows pairs are affine in what is cached, so they sum exactly.
    cached = isl - computed + (chunks - 1.0) / 2.0 * new
    host = engine.prefill
    prompts = minimum(in_flight, plan.dp * 1.0)  # one a rank
    alone = prefill_pass(deployment, prompts, new, cached).time - host
    decoding = _time(step, lambda kernel: kernel.kind is not HOST)
    added = mixed_time(deployment, step, batch, prompts, new, cached) - decoding
    shares = 1.0 + (engine.stretch - 1.0) * minimum(1.0, running - 1.0)  # nothing delays a prompt that is alone
    own, other = chunks * shares * alone + host, chunks * engine.stretch * maximum(added, 0.0) + host
    waiting = maximum(in_flight / batch - 1.0, 0.0)
    before = engine.request + engine.network
    crowded = where(waiting > 0.0, _LIMITED_TTFT, where(concurrency > _CROWD, _CROWDED_TTFT, _LOADED_TTFT))
    together = minimum(together, running)
    times = loop_times(step.time, other, own, before, running, waiting, osl, burst, together)
    return ClosedLoop(
        ttft=times.ttft,
        tpot=times.tpot,
        e2el=e2el(times.ttft, times.tpot, osl),
        requests_per_s=plan.pp * batch / (times.ttft - times.slots + (osl - 1.0) * times.tpot),
        running=running,
        step=step,
        prefill_time=other,
        own_prefill_time=own,
        queue_time=times.queue,
        slot_time=times.slots,
        sigma_ttft=None if is_light else pass_sigma(step, deployment.basis, crowded),
        sigma_tpot=None if is_light else pass_sigma(step, deployment.basis, _LOADED_TPOT),
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

    Valid:
        Equal requests in a steady state, prompts of at most some ten steps.

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


def mixed_time(deployment: Deployment, step: Pass, batch: Real, prompts: Real, new: Real, cached: Real) -> Real:
    """Time on the GPU of a step that decodes a batch and computes a chunk of one prompt per rank.

    Weights are read once for both; attention, whose caches differ, works twice; the head works for the
    sequences that decode.

    Args:
        deployment: model, GPU, plan, precision, basis and engine.
        step: the decode step without a prompt.
        batch: sequences that decode on one replica [sequences].
        prompts: prompts, one on each rank that has any [sequences].
        new: tokens of the chunk [tokens].
        cached: tokens of the prompt before it [tokens].

    Returns:
        Time without the host's [s].

    Valid:
        Head and attention do not gain from working together.

    Source:
        docs/method.md, "A server under load" (mixed step).
    """
    together = prefill_pass(deployment, prompts, new + batch / prompts, cached)
    prompt = prefill_pass(deployment, prompts, new, cached)
    return (
        _time(together, lambda kernel: not (_is_apart(kernel) or kernel.kind is HOST))
        + _time(prompt, lambda kernel: kernel.kind.is_per_sequence)
        + _time(step, _is_apart)
    )


def _is_apart(kernel: Kernel) -> bool:
    """Whether a kernel works for the sequences that decode as it does without a prompt."""
    return kernel.kind.is_per_sequence or kernel.part == HEAD


def _time(passed: Pass, counts: Callable[[Kernel], bool]) -> Real:
    """Time of some kernels of a pass [s]."""
    return sum(kernel.time for kernel in passed.kernels if counts(kernel))
