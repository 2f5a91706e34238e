"""TTFT, TPOT and end-to-end latency of a burst on an idle server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Json, Real, above, ceil, comparable, maximum, never, where
from roofline.numbers.quantity import NANO, percent_figure, rounded, to_text
from roofline.physics.assembly import rank_batch
from roofline.physics.equation import Kernel, host_kernel
from roofline.physics.passes import Pass, decode_pass, prefill_pass
from roofline.physics.plan import Deployment
from roofline.serving.answers import data_frame, html_of, picture_of, selected
from roofline.serving.prompts import PromptKind, is_a_mixture, prompt_kinds
from roofline.specs.engine import PromptCache
from roofline.specs.gpu import LOADING, NETWORK
from roofline.specs.load import Burst, Load
from roofline.specs.workload import LAWS
from roofline.support.errors import BadInput, check_known, percent_hint, shown
from roofline.support.records import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    from random import Random

    from roofline.numbers.arrays import DataFrame
    from roofline.specs.arrivals import Process
    from roofline.specs.sessions import Sessions


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Lengths and load of requests."""

    isl: Real  # [tokens] prompt
    osl: Real  # [tokens] answer
    load: Load = Burst()
    prefix: Real = 0.0  # [tokens] of the prompt that are in the KV cache
    lengths: Lengths | None = None  # spread of isl and osl under a load; None: none
    cold_start: tuple[float, float] | None = None  # share of requests [1], start-up time [s]
    cache: PromptCache | None = None  # None: all prefixes are in GPU memory
    arrivals: Process | None = None  # of a rate; None: Poisson arrivals, split at random
    media: float = 0.0  # [tokens] of the prompt that are images, video or audio

    @property
    def text(self) -> Real:
        """Prompt tokens that are text, `isl` as callers state it [tokens]."""
        return self.isl - self.media if self.media else self.isl

    @property
    def is_mean(self) -> bool:
        """Whether latencies are means over requests that differ: under a load, or with hits and misses of a cache."""
        return not self.load.is_burst or is_a_mixture(self.cache)

    @property
    def sessions(self) -> Sessions | None:
        """Of which requests are the turns."""
        return None if self.cache is None else self.cache.turns

    @property
    def think(self) -> float:
        """Mean time from an answer to its user's next request [s]."""
        return 0.0 if self.sessions is None else self.sessions.think

    @property
    def batch(self) -> Real:
        return self.load.batch

    @property
    def concurrency(self) -> Any:
        return self.load.concurrency

    @property
    def request_rate(self) -> Any:
        return self.load.request_rate

    @property
    def num_prompts(self) -> Any:
        return self.load.num_prompts

    @property
    def numbers(self) -> dict[str, Any]:
        """Its numbers by their names, for `at`."""
        lengths = {"isl": self.text, "osl": self.osl, self.load.option: self.load.amount, "prefix": self.prefix}
        return lengths | {name: getattr(self.load, name) for name in self.load.inputs}

    def at(self, numbers: Mapping[str, Any]) -> Workload:
        """The workload with other numbers, by their names among `numbers`."""
        own = {name: numbers[name] for name in self.load.options if name in numbers}
        lengths = {name: value for name, value in numbers.items() if name not in own}
        if self.media and "isl" in lengths:
            lengths["isl"] = lengths["isl"] + self.media
        return replace(self, load=self.load.having(own), **lengths)


def load_text(workload: Workload) -> str:
    """The load of one case in a few words.

    >>> from roofline.specs.load import Users
    >>> load_text(Workload(1000.0, 100.0, Users(64.0)))
    '64 users'
    """
    return workload.load.text("{:g}".format)


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
    return _all_prompts(deployment, Workload(isl, 1.0, Burst(batch), prefix))


def _all_prompts(deployment: Deployment, workload: Workload) -> tuple[Kernel, ...]:
    """Host time before a prefill, and the kernels of each kind of prompt."""
    engine = deployment.effective_engine
    before = (("network", engine.network, NETWORK), ("request", engine.request, ""))
    overheads = (host_kernel(name, time, part) for name, time, part in before if type(time) is not float or time != 0.0)
    kinds = prompt_kinds(deployment, workload.isl, workload.prefix, workload.cache)
    prompts = (kernel for kind in kinds for kernel in _prompts(deployment, workload, kind))
    if deployment.media is None:
        return (*overheads, *prompts)
    from roofline.physics.encoders import encoder_kernels

    return (*overheads, *encoder_kernels(deployment, rank_batch(workload.batch, deployment.plan.dp)), *prompts)


def prefill_of_kinds(deployment: Deployment, workload: Workload) -> list[tuple[Real, Real]]:
    """Share of hits and of misses [1], with the TTFT of a burst of each [s]."""
    kinds = prompt_kinds(deployment, workload.isl, workload.prefix, workload.cache)
    before = deployment.effective_engine.network + deployment.effective_engine.request
    budget, ranked = deployment.effective_engine.max_num_batched_tokens, rank_batch(workload.batch, deployment.plan.dp)
    if deployment.media is not None:
        from roofline.physics.encoders import encoder_time

        before = before + encoder_time(deployment, ranked)
    times = []
    for kind in kinds:
        chunk = prompt_chunk(deployment, workload.batch, kind.cached + kind.computed, kind.computed)
        times.append((kind.weight, before + ranked * kind.loading + chunks(kind.computed, budget) * chunk.time))
    return times


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
    return prefill_pass(deployment, prompts, *chunk_of(deployment, isl, tokens))


def chunk_of(deployment: Deployment, isl: Real, tokens: Real) -> tuple[Real, Real]:
    """Tokens that the mean chunk of a prompt computes, and those in the cache before them [tokens]."""
    count = chunks(tokens, deployment.effective_engine.max_num_batched_tokens)
    if type(count) is float and count == 1.0:
        return tokens, isl - tokens
    new = tokens / count
    return new, isl - tokens + (count - 1.0) / 2.0 * new


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
    return decode_pass(deployment, workload.batch, workload.isl, averaged_steps(workload.osl))


def averaged_steps(osl: Real) -> Real:
    """Steps over which the mean decode step of an answer is averaged, at least one [1]."""
    return maximum(osl - 1.0, 1.0, "a single step is left")


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


def mean_steps(deployment: Deployment, osl: Real, answers: Spread) -> Real:
    """Decode steps of a request, mean over answers [1].

    Args:
        deployment: with its draft, if any.
        osl: mean answer [tokens].
        answers: how lengths vary.

    Returns:
        Number [1].

    Source:
        Arithmetic.
    """
    if answers.is_fixed:
        return steps_of_answer(deployment, osl)
    nodes = ((weight, maximum(steps_of_answer(deployment, osl * share), 0.0)) for weight, share in answers.nodes)
    return sum(weight * steps for weight, steps in nodes)


def mean_gap(deployment: Deployment, workload: Workload, tpot: Real, decode: Real) -> Real:
    r"""Mean inter-token latency: between decode steps that hand out tokens of a request, over the gaps of all requests.

    .. math:: ITL = \frac{E[T]}{E[N]}

    Long answers have more gaps, and weigh more than in the mean TPOT, which is over requests.

    Args:
        deployment: with its draft, if any.
        workload: lengths.
        tpot: mean TPOT over requests [s].
        decode: mean time T from the first token to the last [s].

    Returns:
        Time [s]; the TPOT where answers are equal and nothing is drafted, longer by the tokens of a step with drafts.

    Source:
        "ITL" of vLLM, benchmarks/serve.py.
    """
    if workload.lengths is None or workload.lengths.answers.is_fixed:
        return tpot / time_per_token(deployment, workload.osl, 1.0)
    return decode / maximum(mean_steps(deployment, workload.osl, workload.lengths.answers), NANO)


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


# How request lengths vary around their means: not at all, by a law, or as in a trace.

#: Laws of lengths, and the name for a trace.
LOG_NORMAL, UNIFORM, TRACE = *LAWS, "trace"

#: Largest coefficients of variation: uniform lengths start at zero; log-normal ones are limited by the nodes below.
MOST_CV = {LOG_NORMAL: 3.0, UNIFORM: 3.0**-0.5}

_RARE = 1.0 / 10_000.0  # weight of a node, below which hardly any run of a benchmark has such a request
_NODES = {LOG_NORMAL: 9, UNIFORM: 3}  # Gauss nodes: third moments of a time that grows with the length squared
#: Ends of the slices of a length distribution for percentiles, finer towards long requests.
_ENDS = (0.0, 0.15, 0.3, 0.45, 0.55, 0.7, 0.8, 0.88, 0.92, 0.94, 0.96, 0.98, 0.988, 0.992, 0.997, 1.0)
_BINS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)  # bins of a trace, for its moments
_LEAST = 2.0**-30  # shortest length drawn, over the mean


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of one length; weights and lengths in multiples of the mean."""

    law: str = UNIFORM
    cv: float = 0.0  # standard deviation over mean [1]
    nodes: tuple[tuple[float, float], ...] = ((1.0, 1.0),)  # quadrature nodes with its moments
    slices: tuple[tuple[float, float], ...] = ((1.0, 1.0),)  # median of each slice

    @property
    def is_fixed(self) -> bool:
        return self.cv == 0.0

    @property
    def biased(self) -> float:
        """Length-biased mean over the mean [1]."""
        return 1.0 + self.cv * self.cv


@dataclass(frozen=True, slots=True)
class Lengths:
    """How prompts and answers vary around their means, independently except in a trace."""

    prompts: Spread = Spread()
    answers: Spread = Spread()
    product: float = 1.0  # mean of prompt times answer, over the product of their means [1]
    rows: tuple[tuple[float, float], ...] | None = None  # of a trace, in multiples of the means
    source: str = ""  # of a trace

    @property
    def is_fixed(self) -> bool:
        return self.prompts.is_fixed and self.answers.is_fixed

    def drawn_by(self, generator: Random) -> Callable[[], tuple[float, float]]:
        """A function that draws prompt and answer of a random request, in multiples of their means."""
        if self.rows is not None:
            rows, random = self.rows, generator.random
            return lambda: rows[int(random() * len(rows))]
        prompt, answer = _drawn_by(self.prompts, generator), _drawn_by(self.answers, generator)
        return lambda: (prompt(), answer())

    def __str__(self) -> str:
        if self.rows is not None:
            return f"{len(self.rows):,} requests of {self.source}, cv {self.prompts.cv:.2g} and {self.answers.cv:.2g}"
        if self.is_fixed:
            return "all equal"
        return f"{self.prompts.law}, cv {self.prompts.cv:.3g} and {self.answers.cv:.3g}"


EQUAL = Lengths()


def cold_start_text(share: float, time: float) -> str:
    """Cold starts in words: share of the requests [1] and their extra wait [s].

    >>> cold_start_text(0.01, 2.0)
    '1 % start cold, 2 s later'
    """
    return f"{percent_figure(share)} % start cold, {to_text(time, 's')} later"


def lengths_by_law(law: str, isl_cv: float, osl_cv: float) -> Lengths:
    """Lengths that follow a law.

    Args:
        law: one of `LAWS` [text].
        isl_cv: standard deviation of prompts over their mean [1].
        osl_cv: the same for answers [1].

    Returns:
        The lengths.

    Raises:
        UnknownName: no such law.
        BadInput: a coefficient below zero, or too large for the law.

    Source:
        Nodes of Gauss and Hermite, Gauss and Legendre: Abramowitz and Stegun, 25.4.46 and 25.4.29.
    """
    check_known("length distribution", law, LAWS, end=", or give the path of a trace")
    for name, cv in (("isl_cv", isl_cv), ("osl_cv", osl_cv)):
        if type(cv) not in (float, int) or not 0.0 <= cv <= MOST_CV[law] + _LEAST:
            bounds = f"between 0 and {MOST_CV[law]:.3g} for {law} lengths{percent_hint(cv)}"
            raise BadInput(f"{name} = {shown(cv)} must be {bounds}")
    return Lengths(_spread_by_law(law, float(isl_cv)), _spread_by_law(law, float(osl_cv)))


def lengths_of_rows(rows: Sequence[tuple[float, float]], source: str) -> tuple[float, float, Lengths]:
    """Mean prompt, mean answer [tokens] and lengths of a trace; `rows` are prompts and answers [tokens]."""
    from statistics import fmean

    isl, osl = fmean(prompt for prompt, _ in rows), fmean(answer for _, answer in rows)
    relative = tuple((prompt / isl, answer / osl) for prompt, answer in rows)
    prompts, answers = (_histogram(sorted(column)) for column in zip(*relative, strict=True))
    mean_product = fmean(prompt * answer for prompt, answer in relative)
    return isl, osl, Lengths(prompts, answers, mean_product, relative, source)


@lru_cache(maxsize=64)
def _spread_by_law(law: str, cv: float) -> Spread:
    if cv == 0.0:
        return Spread(law)
    from roofline.numbers.arrays import gauss_nodes

    width, sigma = cv * 3.0**0.5, _log_sigma(cv)
    points = gauss_nodes("hermite" if law == LOG_NORMAL else "legendre", _NODES[law])
    if law == LOG_NORMAL:
        nodes = tuple((weight, 2.718281828459045 ** (sigma * point - sigma * sigma / 2.0)) for weight, point in points)
        nodes = tuple((weight, length) for weight, length in nodes if weight >= _RARE)
        total = sum(weight for weight, _ in nodes)
        mean = sum(weight * length for weight, length in nodes) / total
        nodes = tuple((weight / total, length / mean) for weight, length in nodes)
    else:
        nodes = tuple((weight, 1.0 + width * point) for weight, point in points)
    middles = [((low + high) / 2.0, high - low) for low, high in pairwise(_ENDS)]
    return Spread(law, cv, nodes, tuple((weight, _quantile(law, cv, median)) for median, weight in middles))


def _log_sigma(cv: float) -> float:
    """Sigma of a log-normal distribution, from its coefficient of variation."""
    return float(log(1.0 + cv * cv) ** 0.5)


def _quantile(law: str, cv: float, share: float) -> float:
    """Length over the mean below which a share of the requests lies."""
    if law == UNIFORM:
        return float(max(1.0 + cv * 3.0**0.5 * (2.0 * share - 1.0), _LEAST))
    from statistics import NormalDist

    sigma = _log_sigma(cv)
    return float(2.718281828459045 ** (sigma * NormalDist().inv_cdf(share) - sigma * sigma / 2.0))


def _histogram(values: list[float]) -> Spread:
    """Nodes and slices of sorted values whose mean is one."""
    from statistics import fmean

    count = len(values)
    cv = (fmean(value * value for value in values) - 1.0) if count > 1 else 0.0
    if cv <= _LEAST:
        return Spread(TRACE)
    nodes = []
    for low, high in pairwise(dict.fromkeys(round(end * count) for end in _BINS)):
        nodes.append(((high - low) / count, fmean(values[low:high])))
    middles = [((low + high) / 2.0, high - low) for low, high in pairwise(_ENDS)]
    slices = tuple((weight, values[min(int(median * count), count - 1)]) for median, weight in middles)
    return Spread(TRACE, cv**0.5, tuple(nodes), slices)


def _drawn_by(spread: Spread, generator: Random) -> Callable[[], float]:
    """A function that draws a length, over the mean."""
    if spread.is_fixed:
        return lambda: 1.0
    random, sigma = generator.random, _log_sigma(spread.cv)
    if spread.law == UNIFORM:
        return lambda: _quantile(UNIFORM, spread.cv, random())
    median = -sigma * sigma / 2.0

    def log_normal() -> float:
        random()  # as for the other law: seeds keep their figures
        return generator.lognormvariate(median, sigma)

    return log_normal


# Figures of requests under a load, which `serving/load/equations.py` computes, and the passes in which they run.

#: Start of the note on whether a load is inside the validated range.
UNDER_LOAD = "under load"
#: Start of the note on what a benchmark of the usual length would report.
BENCHMARK = "a benchmark of"


@comparable
class Served(NamedTuple):
    """Mean figures of requests under a load; counts and rates of the whole deployment."""

    ttft: Real  # [s]; infinite under overload
    tpot: Real  # [s]
    decode: Real  # [s] from the first token to the last; (osl - 1) tpot where all answers are equal
    queue: Real  # [s] of the ttft, beyond request, network and the request's own prompt
    concurrency: Real  # [requests] in flight
    request_rate: Real  # [1/s] answered
    max_request_rate: Real  # [1/s] saturation
    batch: Real  # [sequences] that a replica decodes together, as a request sees it, itself included
    slots: Real  # [sequences] that a rank runs at most
    rho: Real  # share of time that prompts take [1]
    rho_chunks: Real  # the same if all prompts were computed in full steps [1]
    prompt_share: Real  # time that a prompt adds to others, over a request's decode time [1]
    waiting_share: Real  # share of requests that wait for a slot [1]
    is_stable: Real  # no overload, and a steady state was found
    state: tuple[Real, ...]  # fixed point of the equations, to start from for a nearby case
    prompt: Real = float("nan")  # [s] that a prompt adds to the steps of others
    nobody: Real = float("nan")  # probability that no sequence decodes when a request arrives [1]
    overloaded: Real = 0.0  # share of requests that meet a rate above the saturation for a while, as they bunch [1]
    link: Real = 0.0  # share of the time in which the link of a rank loads contexts of sessions [1]

    @property
    def util(self) -> Real:
        """Request rate over the largest one [1]."""
        return self.request_rate / self.max_request_rate


def lanes(deployment: Deployment) -> Real:
    """Ranks that share a load evenly: data-parallel ranks x pipeline turns x replicas."""
    plan = deployment.plan
    return deployment.replicas * plan.pp * plan.dp


def request_passes(deployment: Deployment, workload: Workload, under_load: Served | None) -> tuple[Pass, Pass]:
    """Prefill and mean decode step of a burst, or of one request under a load (without prefill in its steps)."""
    if under_load is None:
        return prefill(deployment, workload), decode(deployment, workload)
    single = replace(workload, load=Burst())
    return prefill(deployment, single), decode(deployment, replace(single, load=Burst(under_load.batch)))


# Correction of predictions by one measurement of the same deployment.

#: Standard deviation of ln(predicted / measured) that remains after one measurement: rows of one deployment scatter so
#: much around a constant factor (docs/accuracy.md, "One measurement").
SIGMA_TTFT, SIGMA_TPOT = 0.25, 0.1


@comparable
class Correction(NamedTuple):
    """Factors from one measurement, applied to all predictions of its deployment.

    >>> import roofline as rl
    >>> rl.Correction(tpot=1.25, sigma_tpot=0.1)
    <Correction TPOT x 1.25>
    >>> rl.Correction(tpot=1.25, sigma_tpot=0.1).to_dict(["ttft", "tpot"])
    {'ttft': 1.0, 'tpot': 1.25}
    """

    ttft: float = 1.0  # measured / predicted [1]
    tpot: float = 1.0
    sigma_ttft: float | None = None  # remaining uncertainty; None: nothing was measured
    sigma_tpot: float | None = None

    def __repr__(self) -> str:
        factors = {"TTFT": (self.ttft, self.sigma_ttft), "TPOT": (self.tpot, self.sigma_tpot)}
        known = [f"{name} x {rounded(factor)}" for name, (factor, sigma) in factors.items() if sigma is not None]
        return f"<Correction {', '.join(known) or 'none: nothing was measured'}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The factors and what remains uncertain, by their names.

        Args:
            keys: the keys to keep; None for all.
        """
        return selected(self._asdict(), keys)

    def to_rows(self, keys: Iterable[str] | None = None) -> list[dict[str, Json]]:
        """The same as a list of one row; `keys` as in `to_dict`."""
        return [self.to_dict(keys)]

    def to_pandas(self, keys: Iterable[str] | None = None) -> DataFrame:
        """The same as a data frame; `keys` as in `to_dict`."""
        return data_frame(self.to_rows(keys))

    def plot(self) -> object:
        """Refused: a correction has no picture."""
        return picture_of(self)

    def _repr_html_(self) -> str | None:
        return html_of(self)


UNCORRECTED = Correction()
