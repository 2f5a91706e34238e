"""TTFT, TPOT and end-to-end latency of a burst on an idle server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from roofline.ops import Real, above, ceil, comparable, maximum, never, where
from roofline.physics.assembly import rank_batch
from roofline.physics.forward import Pass, decode_pass, prefill_pass
from roofline.physics.one_equation import Kernel, host_kernel
from roofline.physics.plan import Deployment
from roofline.records import dataclass
from roofline.serving.prompt_cache import PromptKind, is_a_mixture, prompt_kinds
from roofline.specs.kernels import LOADING, NETWORK
from roofline.specs.prompt_cache import PromptCache

if TYPE_CHECKING:
    from roofline.serving.lengths import Lengths


#: Loads, by the field of a workload that states them; a burst is stated by its `batch`.
BURST, USERS, RATE = "burst", "concurrency", "request_rate"


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Lengths and load of requests: a burst on an idle server, users (closed loop), or Poisson arrivals (open loop)."""

    isl: Real  # [tokens] prompt
    osl: Real  # [tokens] answer
    batch: Real = 1.0  # [sequences] of a burst, per replica
    prefix: Real = 0.0  # [tokens] of the prompt that are in the KV cache
    concurrency: Real | None = None  # [requests] in flight on the whole deployment: closed loop
    request_rate: Real | None = None  # [1/s] Poisson arrivals at the whole deployment: open loop
    num_prompts: Real | None = None  # [requests] of a run that all users begin together; None: the steady state
    lengths: Lengths | None = None  # spread of isl and osl under a load; None: none
    cold_start: tuple[float, float] | None = None  # share of requests [1], start-up time [s]
    cache: PromptCache | None = None  # None: all prefixes are in GPU memory

    @property
    def is_mean(self) -> bool:
        """Whether latencies are means over requests that differ: under a load, or with hits and misses of a cache."""
        return self.load != BURST or is_a_mixture(self.cache)

    @property
    def load(self) -> str:
        """Which load it is: `BURST`, `USERS` or `RATE`."""
        if self.concurrency is not None:
            return USERS
        return BURST if self.request_rate is None else RATE


def load_text(workload: Workload) -> str:
    """The load of one case in a few words.

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
    """Prefill of a burst of prompts on an idle server, with request and network time.

    At least one prompt token is computed. Prompts beyond the engine's token budget run in chunks. Where only some
    requests find their prefix in a cache, kernels count by the share of requests that run them.

    Args:
        deployment: model, GPU, plan, quantization, basis and engine.
        workload: lengths, and the batch of a burst.

    Returns:
        The kernels; their time is the TTFT of an idle server, averaged over hits and misses.

    Valid:
        All prompts of a burst share their passes, however many. With a cache, the mean over bursts of hits alone and of
        misses alone; prefixes are loaded one after the other, before the first pass.

    Source:
        docs/method.md, "A pass" and "Engines".
    """
    if workload.cache is None:
        return Pass.of(_uncached_prompts, deployment, workload.isl, workload.batch, workload.prefix)
    return Pass(_all_prompts(deployment, workload))


def _uncached_prompts(deployment: Deployment, isl: Real, batch: Real, prefix: Real) -> tuple[Kernel, ...]:
    return _all_prompts(deployment, Workload(isl, 1.0, batch, prefix))


def _all_prompts(deployment: Deployment, workload: Workload) -> tuple[Kernel, ...]:
    """Host time before a prefill, and the kernels of each kind of prompt."""
    engine = deployment.effective_engine
    before = (("network", engine.network, NETWORK), ("request", engine.request, ""))
    overheads = (host_kernel(name, time, part) for name, time, part in before if type(time) is not float or time != 0.0)
    kinds = prompt_kinds(deployment, workload.isl, workload.prefix, workload.cache)
    return (*overheads, *(kernel for kind in kinds for kernel in _prompts(deployment, workload, kind)))


def prefill_of_kinds(deployment: Deployment, workload: Workload) -> list[tuple[Real, Real]]:
    """Share of hits and of misses [1], with the TTFT of a burst of each [s]."""
    kinds = prompt_kinds(deployment, workload.isl, workload.prefix, workload.cache)
    before = deployment.effective_engine.network + deployment.effective_engine.request
    kernels_by_kind = [(kind.weight, _prompts(deployment, workload, kind._replace(weight=1.0))) for kind in kinds]
    return [(weight, before + sum(kernel.time for kernel in kernels)) for weight, kernels in kernels_by_kind]


def _prompts(deployment: Deployment, workload: Workload, kind: PromptKind) -> tuple[Kernel, ...]:
    """Kernels of a burst of one kind of prompt, weighted by its share of requests, after the prefix loads."""
    kernels = prompt_chunk(deployment, workload.batch, kind.cached + kind.computed, kind.computed).kernels
    count = kind.weight * chunks(kind.computed, deployment.effective_engine.max_num_batched_tokens)
    if type(count) is not float or count != 1.0:
        kernels = tuple(kernel._replace(count=count * kernel.count) for kernel in kernels)
    if not kind.is_loaded:
        return kernels
    loading = host_kernel("load prefix", rank_batch(workload.batch, deployment.plan.dp) * kind.loading, LOADING)
    return loading._replace(count=kind.weight), *kernels


def chunks(tokens: Real, budget: Real | None) -> Real:
    """Number of chunks of a prompt.

    Args:
        tokens: computed tokens of the prompt [tokens].
        budget: tokens per step at most; None for no limit [tokens].

    Returns:
        Whole number of equal chunks [1].

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
    """Mean pass over a chunk of equal prompts, of which there are `chunks`.

    Args:
        deployment: model, GPU, plan, quantization, basis and engine, which may limit the tokens of a step.
        prompts: computed together [sequences].
        isl: length of each prompt [tokens].
        tokens: computed tokens of each [tokens].

    Returns:
        The pass, with the host time of one chunk.

    Valid:
        Chunks of equal length. The cache grows evenly, so that query-key pairs add up exactly, except in windowed
        layers.

    Source:
        Arithmetic.
    """
    count = chunks(tokens, deployment.effective_engine.max_num_batched_tokens)
    if type(count) is float and count == 1.0:
        return prefill_pass(deployment, prompts, tokens, isl - tokens)
    new = tokens / count
    return prefill_pass(deployment, prompts, new, isl - tokens + (count - 1.0) / 2.0 * new)


def decode(deployment: Deployment, workload: Workload) -> Pass:
    """Mean decode step of a generation: attention at the mean KV length of its steps.

    Args:
        deployment: model, GPU, plan, quantization and basis.
        workload: lengths and batch.

    Returns:
        The kernels; their time is the TPOT, or with drafts the time of `tokens_per_step` tokens.

    Valid:
        A static batch on an idle server.

    Source:
        docs/method.md, "A pass" and "Engines".
    """
    steps = maximum(workload.osl - 1.0, 1.0, "a single step is left")
    return decode_pass(deployment, workload.batch, workload.isl, steps)


def slo_excess(ttft: Real, tpot: Real, osl: Real, slo: Mapping[str, Real]) -> Real:
    """Largest ratio of a latency to its limit: the SLO is met where it is at most one.

    Args:
        ttft: time to first token [s].
        tpot: mean time per output token after the first [s]; ignored for single-token answers.
        osl: output tokens [tokens].
        slo: limits on ttft, tpot or e2el [s].

    Returns:
        Ratio [1].

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
        deployment: with its draft, if any.
        tokens: O, of the answer [tokens].

    Returns:
        Mean number of steps after the first token [1]; at least one, or none for a single token.

    Valid:
        Long answers: tokens beyond the end of the last step, less than half a step on average, are neglected.

    Source:
        Renewal theory; without drafts arithmetic.
    """
    after: Real = tokens - 1.0
    if deployment.draft is None:
        return after
    return where(after > 0.0, maximum(after / deployment.tokens_per_step, 1.0), 0.0)


def time_per_token(deployment: Deployment, osl: Real, step: Real) -> Real:
    r"""Mean time per output token after the first, from the time of a step.

    .. math:: TPOT = \frac{D}{\tau}

    Args:
        deployment: with its draft, if any.
        osl: output tokens; a single one has no next token, and counts as two [tokens].
        step: mean decode step D [s].

    Returns:
        Time [s]; the step time itself without drafts.

    Source:
        Leviathan et al., arXiv:2211.17192: a step gains tau tokens.
    """
    if deployment.draft is None:
        return step
    answer = maximum(osl, 2.0)
    return step * steps_of_answer(deployment, answer) / (answer - 1.0)


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
