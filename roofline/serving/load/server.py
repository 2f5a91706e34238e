"""Step times of a rank, shared by the load equations and the simulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from roofline.numbers.operations import Real, always, ceil, comparable, floor, maximum, minimum, never, where
from roofline.numbers.quantity import BILLION, NANO
from roofline.physics.assembly import FEWER_THAN_LAST, absent
from roofline.physics.equation import Kernel
from roofline.physics.memory import largest_batch
from roofline.physics.passes import LAUNCHES, Pass, decode_pass, prefill_pass
from roofline.physics.plan import Deployment
from roofline.physics.programs import figures_of
from roofline.serving.latency import EQUAL, Lengths, chunks, prompt_chunk, steps_of_answer
from roofline.serving.prompts import PromptKind, computed, prompt_kinds
from roofline.specs.engine import Engine, PromptCache
from roofline.specs.gpu import CONTEXT, HEAD, HOST
from roofline.support.records import NamedTuple, dataclass

#: Schedulers: a step decodes all sequences and gives the rest of its budget to prompts (vLLM, TensorRT-LLM); or prompts
#: run alone while decoding pauses (SGLang).
DECODE_FIRST, PROMPTS_FIRST = "decode first", "prompts first"

#: Token budget of a step without a limit.
UNLIMITED = BILLION

#: Largest utilization in a round; the load is unstable beyond it.
STABLE = 0.9999

_E = 2.718281828459045
_SOON = 0.6  # of a mean number, in the mean of its square root; chosen on Poisson and binomial numbers


@comparable
class StepParts(NamedTuple):
    """Time of a decode step, by what it can share with a prompt."""

    linear: Real  # [s] matrices and other token-wise work, shared with prompts
    apart: Real  # [s] attention and head, which do not gain from batching
    host: Real  # [s]

    @property
    def total(self) -> Real:
        return self.linear + self.apart + self.host


class PromptTimes(NamedTuple):
    """Times of one prompt."""

    attention: Real  # [s] over all chunks, and of the encoders of images and audio
    head: Real  # [s] for one sequence
    alone: Real  # [s] on an idle server, without request time
    launches: Real  # [s] of the host to launch the kernels of a chunk
    lag: Real = 0.0  # [s] by which the launches of all chunks take longer than their kernels, part of `alone`


@dataclass(frozen=True)
class Server:
    """Times of steps and prompts on one data-parallel rank, in its pipeline turn."""

    deployment: Deployment
    isl: Real  # [tokens] mean prompt
    osl: Real  # [tokens] mean answer
    prefix: Real = 0.0  # [tokens] of the prompt that may be cached
    users: Real | None = None  # [requests] in flight on all dp ranks together; None: open loop
    lengths: Lengths = EQUAL  # spread of prompts beyond their prefix, and of answers
    cold_start: tuple[float, float] | None = None  # share of requests [1], start-up time [s]
    cache: PromptCache | None = None  # None: all prefixes are in GPU memory
    is_fed: bool = False  # requests always wait, so that steps that compute prompts are full of them

    @cached_property
    def kinds(self) -> tuple[PromptKind, ...]:
        """Prompts that hit the prefix cache, and prompts that miss it."""
        return prompt_kinds(self.deployment, self.isl, self.prefix, self.cache)

    @property
    def fresh(self) -> Real:
        """Tokens of the mean prompt beyond its prefix, which vary [tokens]."""
        return computed(self.isl, self.prefix)

    @property
    def computed(self) -> Real:
        """Computed tokens of the mean prompt, over hits and misses [tokens]."""
        first, *others = self.kinds
        return sum((kind.weight * kind.computed for kind in others), first.weight * first.computed)

    @property
    def loading(self) -> Real:
        """Mean time to load a prefix over an idle link, over all requests [s]."""
        first, *others = self.kinds
        return sum((kind.weight * kind.loading for kind in others), first.weight * first.loading)

    @property
    def steps(self) -> Real:
        """Decode steps of the mean request, at least one [1]."""
        return maximum(self.steps_of(), 1.0, "a single step is left")

    def steps_of(self, share: Real = 1.0) -> Real:
        """Decode steps of an answer of `share` times the mean length; none for a single token [1]."""
        steps = steps_of_answer(self.deployment, self.osl * share)
        return steps if type(share) is float and share == 1.0 else where(self.osl > 1.0, steps, 0.0)

    @property
    def engine(self) -> Engine:
        """Engine with its host times, budget and scheduler."""
        return self.deployment.effective_engine

    @property
    def slowdown(self) -> Real:
        """Factor on a prompt's passes while others decode; 1 in full steps, and where answers are single tokens [1]."""
        return 1.0 if self.is_fed else where(self.osl > 1.0, self.engine.prefill_slowdown, 1.0)

    @property
    def budget(self) -> Real:
        """Tokens per step at most [tokens]."""
        limit = self.engine.max_num_batched_tokens
        return UNLIMITED if limit is None else limit * 1.0

    @property
    def slots(self) -> Real:
        """Sequences per rank at most, by `max_num_seqs` and by memory."""
        engine, plan = self.deployment.engine, self.deployment.plan  # its limits hold on the ideal basis too
        length = self.isl + engine.reserve * self.osl * self.lengths.answers.biased  # long answers run longer
        held = maximum(floor(largest_batch(self.deployment, length) / plan.dp), 1.0)
        if engine.max_num_seqs is None:
            return held
        return minimum(held, maximum(floor(engine.max_num_seqs / plan.pp), 1.0))

    @property
    def before(self) -> Real:
        """Mean time before the prompt starts: network, request, cold starts, prefix load [s]."""
        return self.engine.network + self.engine.request + self.cold + self.loading

    def arrival(self, others: Real, users: Real | None) -> Real:
        r"""Mean extra host time of a request that arrives where so many others decode on average.

        .. math:: t = a\, E\left[\sqrt{B}\right] \approx
                  \frac{a\, b}{\sqrt{b + (1 - p) \left(1/4 + 3/4\, e^{-0.6 (b - p)}\right)}}

        The number B that decodes is Poisson (p = 0), or binomial over the other users, p = b/(c - 1).

        Args:
            others: b [sequences].
            users: c, in flight on the rank; None for an open loop [requests].

        Returns:
            Time [s], over all requests: none for those that find nobody decoding.

        Valid:
            Within 1.3 % of the mean over either distribution.

        Source:
            For large b the expansion of the square root; for small b and a single other user exact.
        """
        share = 0.0 if users is None else minimum(others / maximum(users - 1.0, NANO), 1.0)
        spread = (1.0 - share) * (0.25 + 0.75 * _E ** (-_SOON * (others - share)))
        return self.engine.arrival * others / (others + spread) ** 0.5

    @property
    def cold(self) -> Real:
        """Mean cold-start time over all requests [s]."""
        return 0.0 if self.cold_start is None else self.cold_start[0] * self.cold_start[1]

    @property
    def is_free_of_loads(self) -> bool:
        """Whether no prefix is ever loaded."""
        return not any(kind.is_loaded for kind in self.kinds)

    def decode_pass(self, sequences: Real) -> Pass:
        """Decode step of a rank among equally full ones, at the length-biased mean context; `sequences` are whole."""
        dp = self.deployment.plan.dp
        busy = 1.0 if self.users is None else minimum(dp * 1.0, self.users)
        sequences = busy + (sequences - 1.0) * dp
        if self.lengths.is_fixed:
            tokens = maximum(self.osl - 1.0, 1.0, "a single step is left")
            return decode_pass(self.deployment, sequences, self.isl, tokens)
        steps = maximum(self.osl * self.lengths.answers.biased - 1.0, 1.0, "a single step is left")
        prompt = self.isl + self.fresh * (self.lengths.product - 1.0)
        return decode_pass(self.deployment, sequences, prompt, steps)

    def decode(self, sequences: Real) -> StepParts:
        """Time of a decode step of a rank among equally full ones.

        With data parallelism, fractional `sequences` are interpolated linearly.
        """
        if never(self.deployment.plan.dp > 1):
            return _step_parts(self.decode_pass(sequences))
        below = where(self.deployment.plan.dp > 1, floor(sequences), sequences)
        share = sequences - below
        fewer, more = _step_parts(self.decode_pass(below)), _step_parts(self.decode_pass(below + 1.0))
        return StepParts(*(low + share * (high - low) for low, high in zip(fewer, more, strict=True)))

    def linear(self, sequences: Real, prompt: Real) -> Real:
        """Time of everything but attention, head and host in a step with `prompt` tokens on every busy rank [s]."""
        dp = self.deployment.plan.dp
        ranks: Real = 1.0
        if not always(dp == 1):
            total = 1.0 + (sequences - 1.0) * dp if self.users is None else self.users
            ranks = maximum(1.0, minimum(dp * 1.0, total))
        decoded, cp = sequences * self.deployment.queries, self.deployment.plan.cp
        tokens = (decoded if cp == 1 else decoded * cp) + prompt  # all ranks of a prompt compute each decode token
        if self.deployment.adapters is not None:  # whose kernels see the requests of a step, not its tokens alone
            requests = ceil(maximum(sequences + minimum(prompt, 1.0), 1.0))
            ranks, tokens = ranks * requests, tokens / requests
        if absent(self.deployment.model.late):
            return self.through(ranks, tokens)
        return figures_of(_mixed_time, self.deployment, ranks, tokens, decoded)[0]

    def through(self, ranks: Real, tokens: Real) -> Real:
        """Time of everything but attention, head and host for so many tokens of one prompt on each rank [s]."""
        return prefill_pass(self.deployment, ranks, tokens).figures(_linear_time)[0]

    def beside(self, sequences: Real, parts: StepParts) -> Real:
        """`linear` without a prompt [s]; `parts` are those of the step."""
        is_single = self.deployment.plan.dp == 1
        offload = self.deployment.offload
        if offload is not None and offload.cpu_bandwidth is not None:
            return parts.linear  # steps that compute prompts move the experts, others do not
        if self.deployment.draft is not None or never(is_single):
            return self.linear(sequences, 0.0)
        alone, factors = parts.linear, self.deployment.passes
        if factors is not None:  # of a decode step, where `linear` is of a pass over prompts
            alone = alone * (factors[0] / factors[1])
        return alone if always(is_single) else where(is_single, alone, self.linear(sequences, 0.0))

    def prompt(self, tokens: Real, cached: Real) -> PromptTimes:
        """Times of a prompt over all its chunks, from the mean chunk: the cache grows evenly."""
        return PromptTimes(*figures_of(_prompt_times, self.deployment, tokens, cached))


def _prompt_times(deployment: Deployment, tokens: Real, cached: Real) -> tuple[Real, ...]:
    engine = deployment.effective_engine
    count = chunks(tokens, engine.max_num_batched_tokens)
    times = times_of_chunks(engine, count, prompt_chunk(deployment, 1.0, cached + tokens, tokens))
    if deployment.media is None:
        return times
    from roofline.physics.encoders import encoder_time

    encoded = encoder_time(deployment, 1.0)  # batching it with other work saves next to nothing, as of attention
    return times[0] + encoded, times[1], times[2] + encoded, *times[3:]


def times_of_chunks(engine: Engine, count: Real, chunk: Pass) -> tuple[Real, ...]:
    """The numbers of `PromptTimes`, of so many chunks of which one is the mean."""
    attention = count * sum(kernel.time for kernel in chunk.kernels if _is_of_attention(kernel))
    head = sum(kernel.time for kernel in chunk.kernels if kernel.part == HEAD)
    lag = sum(kernel.time for kernel in chunk.kernels if kernel.name == LAUNCHES)
    return attention, head, count * chunk.time, engine.launch * chunk.launches, count * lag


def attention_time(deployment: Deployment, cached: Real, new: Real, prompts: Real = 1.0) -> Real:
    """Attention of chunks of `new` tokens after `cached` ones, of so many prompts on each rank in one call [s]."""
    return prefill_pass(deployment, prompts * deployment.plan.dp, new, cached).figures(_per_sequence)[0]


def _per_sequence(passed: Pass) -> tuple[Real, ...]:
    return (sum(kernel.time for kernel in passed.kernels if _is_of_attention(kernel)),)


def _is_of_attention(kernel: Kernel) -> bool:
    """Whether it reads the tokens of each sequence, or exchanges what attention needs of other ranks."""
    return kernel.kind.is_per_sequence or kernel.part == CONTEXT


def _step_parts(passed: Pass) -> StepParts:
    return StepParts(*passed.figures(_part_times))


def _mixed_time(deployment: Deployment, ranks: Real, tokens: Real, decoded: Real) -> tuple[Real, ...]:
    """Everything but attention, head and host for so many tokens on each rank, some of them decoded [s].

    Layers that compute only the last tokens of a prompt compute all that are decoded: what that adds is the difference
    between tokens of as many sequences and those of one prompt.
    """
    most = decoded + minimum(tokens - decoded, 1.0 * deployment.model.last, FEWER_THAN_LAST)
    one, through, few = (
        prefill_pass(deployment, *numbers).figures(_linear_time)[0]
        for numbers in ((ranks * most, 1.0), (ranks, tokens), (ranks, most))
    )
    return (through + one - few,)


def _linear_time(passed: Pass) -> tuple[Real, ...]:
    return _part_times(passed)[:1]


def _part_times(passed: Pass) -> tuple[Real, ...]:
    linear: Real = 0.0
    apart: Real = 0.0
    host: Real = 0.0
    for kernel in passed.kernels:
        time = kernel.time
        if kernel.kind is HOST:
            host = host + time
        elif _is_of_attention(kernel) or kernel.part == HEAD:
            apart = apart + time
        else:
            linear = linear + time
    return linear, apart, host


# Prompts under a load: their lengths, and the time that each adds to the steps of other requests.

_LEAST_BLUR = 0.002  # of the number of steps of a prompt


@comparable
class PromptNode(NamedTuple):
    """Prompts of one length, with their weight."""

    weight: Real  # share of prompts [1]
    length: Real  # [tokens] s, computed ones
    attention: Real  # [s] a(s), over all chunks
    alone: Real  # [s] on an idle server


@comparable
class Prompt(NamedTuple):
    """The mean prompt, and the nodes of its length distribution; independent of the load."""

    length: Real  # [tokens] S, computed ones
    attention: Real  # [s] a, over all chunks
    head: Real  # [s] of one sequence
    alone: Real  # [s] on an idle server
    launches: Real = 0.0  # [s] of the host to launch the kernels of a prefill-only pass
    lag: Real = 0.0  # [s] by which they delay a prompt where others decode; 0 for prompts first, whose passes wait
    nodes: tuple[PromptNode, ...] = ()  # empty where all prompts are equal, and all hits or all misses

    def mean(self, value: Callable[[PromptNode], Real]) -> Real:
        """Mean over prompts of a function of their length."""
        if not self.nodes:
            return value(PromptNode(1.0, self.length, self.attention, self.alone))
        return sum(node.weight * value(node) for node in self.nodes)


def prompt_of(server: Server) -> Prompt:
    """The mean prompt of a rank, with nodes where lengths or hits vary."""
    spread, kinds = server.lengths.prompts, server.kinds
    length = server.computed
    if spread.is_fixed and len(kinds) == 1:
        times = server.prompt(length, kinds[0].cached)
        return _lagging(server, Prompt(length, times.attention, times.head, times.alone, times.launches, times.lag))
    nodes: list[PromptNode] = []
    head: Real = 0.0
    launches: Real = 0.0
    lag: Real = 0.0
    for kind in kinds:
        for node_weight, share in spread.nodes:
            weight = kind.weight * node_weight
            tokens = prompt_tokens(server, kind, share)
            times = server.prompt(tokens, kind.cached)
            nodes.append(PromptNode(weight, tokens, times.attention, times.alone))
            head, launches = head + weight * times.head, launches + weight * times.launches
            lag = lag + weight * times.lag
    mean = _lagging(server, Prompt(length, 0.0, head, 0.0, launches, lag, tuple(nodes)))
    return mean._replace(attention=mean.mean(lambda node: node.attention), alone=mean.mean(lambda node: node.alone))


def _lagging(server: Server, prompt: Prompt) -> Prompt:
    return prompt._replace(lag=0.0) if server.engine.scheduler == PROMPTS_FIRST else prompt


def prompt_tokens(server: Server, kind: PromptKind, share: Real) -> Real:
    """Computed tokens; only what follows the prefix varies, `share` times its mean."""
    if len(server.kinds) == 1:
        return maximum(kind.computed * share, 1.0)
    return maximum(kind.computed + server.fresh * (share - 1.0), 1.0)


def added(
    server: Server, prompt: Prompt, sequences: Real, base: Real, tokens: Real, length: Real, attention: Real
) -> Real:
    r"""Time that a prompt adds to the steps of others.

    .. math:: P(b, n, s, a) = x \left[G(b + n) - G(b)\right] \frac{s}{n} + x a + h_{pre} \frac{s}{n}

    for decode-first schedulers. With prompts first, the bracket holds G(n) and the head, and the time is at least
    that of the host's kernel launches, as no CUDA graph replays the pass.

    Args:
        server: a rank.
        prompt: the mean prompt.
        sequences: b, decoding in the same steps [sequences].
        base: G(b), everything but attention, head and host of a step without a prompt [s].
        tokens: n, prompt tokens per step [tokens].
        length: s, of this prompt [tokens].
        attention: a, of the whole prompt [s].

    Returns:
        Time [s].

    Valid:
        Attention and head do not gain from batching; everything else in a step reads its weights once.

    Source:
        docs/method.md, "A server under load".
    """
    engine = server.engine
    if engine.scheduler == PROMPTS_FIRST:
        shared = server.linear(1.0, tokens - 1.0) + prompt.head
    else:
        shared = maximum(server.linear(sequences, tokens) - base, 0.0)
    time = server.slowdown * (shared * length / tokens + attention)
    if engine.scheduler == PROMPTS_FIRST:
        time = maximum(time, prompt.launches * length / tokens, "the host launches kernels as fast as they run")
    return time + engine.prefill * length / tokens


def added_by_node(server: Server, prompt: Prompt, usual: Real, node: PromptNode) -> Real:
    r"""Time that a prompt of some length adds, where the mean one adds `usual` in the same steps.

    .. math:: P(s) = x \left[\left(\frac{P}{x} - a\right) \frac{s}{S} + a(s)\right]

    Args:
        server: a rank.
        prompt: the mean prompt.
        usual: time that it adds, P [s].
        node: the length.

    Returns:
        Time [s].

    Source:
        `added` is linear in length and attention.
    """
    slowdown = server.slowdown
    shared = usual / slowdown - prompt.attention
    return slowdown * (shared * node.length / prompt.length + node.attention)


def turns(length: Real, room: Real, others: Real) -> Real:
    """Mean number of steps of a prompt, given the mean room for prompts in a step.

    Whole steps, and one more where decoding sequences, whose number varies by its square root, leave too little room.
    """
    exact = length / room
    whole = floor(exact)
    blur = minimum((others + 1.0) ** 0.5 / room * exact + _LEAST_BLUR, 1.0)
    return maximum(whole + minimum((exact - whole) / blur, 1.0), 1.0)


# The link over which cached prefixes are loaded, one after the other, in parallel with computation.


class LinkWait(NamedTuple):
    """Wait for the prefixes loaded before the request's own."""

    mean: Real  # [s] per request that loads
    variance: Real  # [s^2] of it
    over_all: Real  # [s] mean over all requests


_EIGHT_OVER_PI = 2.546
_FEWEST = 0.001  # lower bound on other users, against division by zero
_NO_WAIT = LinkWait(0.0, 0.0, 0.0)


def link_rate(server: Server) -> Real:
    """Request rate of a rank that saturates the link.

    Args:
        server: a rank that loads prefixes.

    Returns:
        Rate [1/s]; ranks that share a pipeline share its links.

    Source:
        Arithmetic.
    """
    return 1.0 / (server.deployment.plan.pp * server.loading)


def link_wait(server: Server, rate: Real, users: Real | None) -> LinkWait:
    r"""Wait for the link before a prefix is loaded.

    .. math:: w = \frac{u\, t}{1 - u + \sqrt{(1 - u)^2 + \frac{8}{\pi n}}},\quad
              \mathrm{Var}\, w = w^2 + \tfrac{2}{3} t\, w,\quad u = l\, h\, t

    n periodic sources bunch less than random arrivals: with c users, n is (c - 1)/h, and u counts c - 1 of c. For
    infinitely many sources the root is 1 - u, and w that of M/D/1.

    Args:
        server: a rank.
        rate: arrivals at the rank, l [1/s].
        users: requests in flight on the rank, c of a closed loop; None for an open one [requests].

    Returns:
        Mean and variance.

    Valid:
        Loads overlap with kernels and do not slow them down, as in LMCache and vLLM's KV connectors; random arrivals,
        or users whose answers are about equal.

    Source:
        M/D/1: Pollaczek, 1930, and Khinchine, 1932. Sources of equal periods: Norros, Roberts, Simonian and Virtamo,
        IEEE JSAC 9(3), 1991, whose tail exp(-2 x (x/n + 1 - u)) is integrated by the bound of erfc in Abramowitz and
        Stegun, 7.1.13.
    """
    if server.is_free_of_loads:
        return _NO_WAIT
    first, *others = (kind for kind in server.kinds if kind.is_loaded)
    mean = time = first.loading
    share = first.weight
    if others:  # of loads that differ, long ones are met more often
        share = sum((kind.weight for kind in others), share)
        total = sum((kind.weight * kind.loading for kind in others), first.weight * mean)
        square = sum((kind.weight * kind.loading**2 for kind in others), first.weight * mean**2)
        mean, time = total / maximum(share, NANO), square / maximum(total, NANO)
    arrivals = rate * server.deployment.plan.pp
    if users is not None:
        arrivals = arrivals * (users - 1.0) / users
    busy = minimum(arrivals * share * mean, STABLE)
    free = 1.0 - busy
    wait = busy * time / (2.0 * free)
    if users is not None:
        few = _EIGHT_OVER_PI * share / maximum(users - 1.0, _FEWEST)
        wait = busy * time / (free + (free * free + few) ** 0.5)
    return LinkWait(wait, wait * wait + 2.0 / 3.0 * time * wait, share * wait)
