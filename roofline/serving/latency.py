"""TTFT, TPOT and end-to-end latency of a static batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from roofline.ops import Real, above, ceil, comparable, maximum, never, where
from roofline.physics.assembly import rank_batch
from roofline.physics.forward import Pass, decode_pass, prefill_pass
from roofline.physics.one_equation import Kernel, host_kernel
from roofline.physics.plan import Deployment
from roofline.records import dataclass
from roofline.serving.prompt_cache import PromptKind, prompt_kinds
from roofline.specs.kernels import LOADING, NETWORK
from roofline.specs.prompt_cache import PromptCache

if TYPE_CHECKING:
    from roofline.serving.lengths import Lengths

__all__ = [
    "BURST",
    "RATE",
    "USERS",
    "Workload",
    "chunks",
    "decode",
    "e2el",
    "load_text",
    "prefill",
    "prefill_of_kinds",
    "prompt_chunk",
    "slo_excess",
    "steps_of_answer",
    "time_per_token",
]

#: Loads, by the field of a workload that states them; a burst is stated by its `batch`.
BURST, USERS, RATE = "burst", "concurrency", "request_rate"


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Requests under one load: a burst of them on an idle server, users who ask again, or random arrivals."""

    isl: Real  # [tokens] prompt
    osl: Real  # [tokens] answer
    batch: Real = 1.0  # [sequences] of a burst, on each replica
    prefix: Real = 0.0  # [tokens] of the prompt whose KV is cached already
    concurrency: Real | None = None  # [requests] in flight on the whole deployment, by users who ask again
    request_rate: Real | None = None  # [1/s] of Poisson arrivals at the whole deployment
    num_prompts: Real | None = None  # [requests] of a run that all users begin together; None: the steady state
    lengths: Lengths | None = None  # how isl and osl, then means, spread under a load; None: all requests are equal
    cold_start: tuple[float, float] | None = None  # share of requests that find no server warm [1], and its start [s]
    cache: PromptCache | None = None  # of prefixes; None: all requests find theirs in the memory of the GPU

    @property
    def load(self) -> str:
        """Which load it is: `BURST`, `USERS` or `RATE`."""
        if self.concurrency is not None:
            return USERS
        return BURST if self.request_rate is None else RATE


def load_text(workload: Workload) -> str:
    """The load of one case in a few words.

    Args:
        workload: of one case.

    Returns:
        Text such as ``batch 16``, ``64 users`` or ``1.5 requests/s`` [text].

    >>> load_text(Workload(1000.0, 100.0, concurrency=64.0))
    '64 users'
    """
    if workload.concurrency is not None:
        run = "" if workload.num_prompts is None else f", a run of {workload.num_prompts:g} requests"
        return f"{workload.concurrency:g} users{run}"
    if workload.request_rate is not None:
        return f"{workload.request_rate:g} requests/s"
    return f"batch {workload.batch:g}"


def prefill(deployment: Deployment, workload: Workload) -> Pass:
    """Prefill of one prompt or of a burst of them, after the engine has taken the request, on an idle server.

    At least one prompt token is computed. Prompts longer than the engine's budget are computed chunk by chunk. Where
    some requests find their prefix in a cache and others do not, kernels count by the share of the requests that run
    them.

    Args:
        deployment: model, GPU, plan, precision, basis and engine.
        workload: lengths, and the batch of a burst.

    Returns:
        The kernels; their time is the TTFT of an idle server, the mean of it over hits and misses.

    Valid:
        All prompts of a burst in the same passes, however many; with a cache the mean of bursts in which all hit or all
        miss, whose prefixes are loaded one after the other, before the first pass.

    Source:
        docs/method.md, "A pass" and "Engines".
    """
    if workload.cache is None:
        return Pass.of(_uncached_prompts, deployment, workload.isl, workload.batch, workload.prefix)
    return Pass(_all_prompts(deployment, workload))


def _uncached_prompts(deployment: Deployment, isl: Real, batch: Real, prefix: Real) -> tuple[Kernel, ...]:
    return _all_prompts(deployment, Workload(isl, 1.0, batch, prefix))


def _all_prompts(deployment: Deployment, workload: Workload) -> tuple[Kernel, ...]:
    """What precedes a prefill on the host, and the kernels of each kind of prompt."""
    engine = deployment.host
    before = (("network", engine.network, NETWORK), ("request", engine.request, ""))
    spent = (host_kernel(name, time, part) for name, time, part in before if type(time) is not float or time != 0.0)
    kinds = prompt_kinds(deployment, workload.isl, workload.prefix, workload.cache)
    return (*spent, *(kernel for kind in kinds for kernel in _prompts(deployment, workload, kind)))


def prefill_of_kinds(deployment: Deployment, workload: Workload) -> list[tuple[Real, Real]]:
    """Prefill of a burst whose requests find their prefix, and of one whose requests do not.

    Args:
        deployment: model, GPU, plan, precision, basis and engine.
        workload: lengths, and the batch of a burst.

    Returns:
        Share of each [1], and its time to first token [s].
    """
    kinds = prompt_kinds(deployment, workload.isl, workload.prefix, workload.cache)
    before = deployment.host.network + deployment.host.request
    alone = [(kind.weight, _prompts(deployment, workload, kind._replace(weight=1.0))) for kind in kinds]
    return [(weight, before + sum(kernel.time for kernel in kernels)) for weight, kernels in alone]


def _prompts(deployment: Deployment, workload: Workload, kind: PromptKind) -> tuple[Kernel, ...]:
    """Kernels of a burst of prompts of one kind, counted by their share of the requests, and what loads before them."""
    kernels = prompt_chunk(deployment, workload.batch, kind.cached + kind.computed, kind.computed).kernels
    count = kind.weight * chunks(kind.computed, deployment.host.max_num_batched_tokens)
    if type(count) is not float or count != 1.0:
        kernels = tuple(kernel._replace(count=count * kernel.count) for kernel in kernels)
    if not kind.is_loaded:
        return kernels
    loads = host_kernel("load prefix", rank_batch(workload.batch, deployment.plan.dp) * kind.loading, LOADING)
    return loads._replace(count=kind.weight), *kernels


def chunks(tokens: Real, budget: Real | None) -> Real:
    """Steps in which a prompt is computed.

    Args:
        tokens: of the prompt that are computed [tokens].
        budget: tokens that one step computes at most; None for no limit [tokens].

    Returns:
        Whole steps, of equal length [1].

    Source:
        Chunked prefill: Agrawal et al., "Sarathi-Serve", OSDI 2024.

    >>> chunks(10_000.0, 8192)
    2.0
    """
    if budget is None:
        return 1.0
    several = above(tokens, budget, "a prompt takes another step")
    return 1.0 if never(several) else where(several, ceil(tokens / budget, "a prompt takes another step"), 1.0)


def prompt_chunk(deployment: Deployment, prompts: Real, isl: Real, tokens: Real) -> Pass:
    """Mean pass over a chunk of equal prompts; there are `chunks` of them.

    Args:
        deployment: model, GPU, plan, precision, basis and engine, which may limit the tokens of a step.
        prompts: computed together [sequences].
        isl: length of each prompt [tokens].
        tokens: of it that are computed [tokens].

    Returns:
        The pass, with the host's time for one chunk.

    Valid:
        Chunks of equal length. What is cached grows evenly, so that pairs of queries and keys sum exactly but for
        layers with windows.

    Source:
        Arithmetic.
    """
    count = chunks(tokens, deployment.host.max_num_batched_tokens)
    if type(count) is float and count == 1.0:
        return prefill_pass(deployment, prompts, tokens, isl - tokens)
    new = tokens / count
    return prefill_pass(deployment, prompts, new, isl - tokens + (count - 1.0) / 2.0 * new)


def decode(deployment: Deployment, workload: Workload) -> Pass:
    """Mean decode step over the generation: attention at the mean KV length of its steps.

    Args:
        deployment: model, GPU, plan, precision and basis.
        workload: lengths and batch.

    Returns:
        The kernels; their time is the TPOT, or with drafts that of the tokens which a step gains.

    Valid:
        A static batch on an idle server.

    Source:
        docs/method.md, "A pass" and "Engines".
    """
    steps = maximum(workload.osl - 1.0, 1.0, "a single step is left")
    return decode_pass(deployment, workload.batch, workload.isl, steps)


def slo_excess(ttft: Real, tpot: Real, osl: Real, slo: Mapping[str, Real]) -> Real:
    """Largest share that a latency takes of its limit: within the SLO where it is at most one.

    Args:
        ttft: time to first token [s].
        tpot: mean time per output token after the first [s]; a single token has none to limit.
        osl: output tokens [tokens].
        slo: limits on ttft, tpot or e2el [s].

    Returns:
        The share [1].

    Source:
        Goodput of vLLM, benchmarks/serve.py: every stated limit must hold.

    >>> slo_excess(0.25, 0.02, 100.0, {"ttft": 0.5, "tpot": 0.08})
    0.5
    """
    times = {"ttft": ttft, "tpot": where(osl > 1.0, tpot, 0.0), "e2el": e2el(ttft, tpot, osl)}
    excess: Real = 0.0
    for key, limit in slo.items():
        excess = maximum(excess, times[key] / limit)
    return excess


def steps_of_answer(deployment: Deployment, tokens: Real) -> Real:
    r"""Decode steps of an answer.

    .. math:: N = \frac{O - 1}{\tau}

    Args:
        deployment: with what proposes tokens, if anything.
        tokens: O, of the answer [tokens].

    Returns:
        Steps: one at least after the first token, on average what all but the first need [1].

    Valid:
        Long answers: what the last step gains beyond the end is not counted, less than half a step on average.

    Source:
        Renewal theory; without drafts arithmetic.
    """
    after: Real = tokens - 1.0
    if deployment.draft is None:
        return after
    return where(after > 0.0, maximum(after / deployment.tokens_per_step, 1.0), 0.0)


def time_per_token(deployment: Deployment, osl: Real, step: Real) -> Real:
    r"""Mean time per output token after the first, from that of a step.

    .. math:: TPOT = \frac{D}{\tau}

    Args:
        deployment: with what proposes tokens, if anything.
        osl: output tokens [tokens].
        step: mean decode step D [s].

    Returns:
        Time [s]; that of the step itself where each gains one token.

    Source:
        Leviathan et al., arXiv:2211.17192: a step gains tau tokens.
    """
    if deployment.draft is None:
        return step
    return step * steps_of_answer(deployment, osl) / maximum(osl - 1.0, 1.0)


def e2el(ttft: Real, tpot: Real, osl: Real) -> Real:
    """End-to-end latency of a request.

    .. math:: e2el = ttft + (osl - 1)\\, tpot

    Args:
        ttft: time to first token [s].
        tpot: mean time per output token after the first [s].
        osl: output tokens [tokens].

    Returns:
        Time from request to last token [s].

    Source:
        vLLM, benchmarks/serve.py (TPOT = (E2EL - TTFT) / (output tokens - 1)).

    >>> e2el(0.25, 0.02, 300.0)
    6.23
    """
    return ttft + (osl - 1.0) * tpot
