"""Step times of a rank, shared by the load equations and the simulation."""

from __future__ import annotations

from functools import cached_property

from roofline.ops import Real, comparable, floor, maximum, minimum, never, where
from roofline.physics.forward import Pass, decode_pass, prefill_pass
from roofline.physics.memory import largest_batch
from roofline.physics.plan import Deployment
from roofline.physics.recurring import figures_of
from roofline.quantity import BILLION
from roofline.records import NamedTuple, dataclass
from roofline.serving.latency import chunks, prompt_chunk, steps_of_answer
from roofline.serving.lengths import EQUAL, Lengths
from roofline.serving.prompt_cache import PromptKind, computed, prompt_kinds
from roofline.specs.engine import Engine
from roofline.specs.kernels import HEAD, HOST
from roofline.specs.prompt_cache import PromptCache

#: Schedulers: a step decodes all sequences and gives the rest of its budget to prompts (vLLM, TensorRT-LLM); or prompts
#: run alone while decoding pauses (SGLang).
DECODE_FIRST, PROMPTS_FIRST = "decode first", "prompts first"

#: Token budget of a step without a limit.
UNLIMITED = BILLION

#: Largest utilization in a round; the load is unstable beyond it.
STABLE = 0.9999


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

    attention: Real  # [s] over all chunks
    head: Real  # [s] for one sequence
    alone: Real  # [s] on an idle server, without request time
    launches: Real  # [s] of the host to launch the kernels of a chunk


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
        below = floor(sequences)
        share = sequences - below
        fewer, more = _step_parts(self.decode_pass(below)), _step_parts(self.decode_pass(below + 1.0))
        return StepParts(*(low + share * (high - low) for low, high in zip(fewer, more, strict=True)))

    def linear(self, sequences: Real, prompt: Real) -> Real:
        """Time of everything but attention, head and host in a step with `prompt` tokens on every busy rank [s]."""
        dp = self.deployment.plan.dp
        total = 1.0 + (sequences - 1.0) * dp if self.users is None else self.users
        ranks = maximum(1.0, minimum(dp * 1.0, total))
        tokens = sequences * self.deployment.queries + prompt
        return _step_parts(prefill_pass(self.deployment, ranks, tokens)).linear

    def beside(self, sequences: Real, parts: StepParts) -> Real:
        """`linear` without a prompt [s]; `parts` are those of the step."""
        deployment = self.deployment
        return parts.linear if deployment.plan.dp == 1 and deployment.draft is None else self.linear(sequences, 0.0)

    def prompt(self, tokens: Real, cached: Real) -> PromptTimes:
        """Times of a prompt over all its chunks, from the mean chunk: the cache grows evenly."""
        return PromptTimes(*figures_of(_prompt_times, self.deployment, tokens, cached))


def _prompt_times(deployment: Deployment, tokens: Real, cached: Real) -> tuple[Real, ...]:
    engine = deployment.effective_engine
    count = chunks(tokens, engine.max_num_batched_tokens)
    chunk = prompt_chunk(deployment, 1.0, cached + tokens, tokens)
    attention = count * sum(kernel.time for kernel in chunk.kernels if kernel.kind.is_per_sequence)
    head = sum(kernel.time for kernel in chunk.kernels if kernel.part == HEAD)
    return attention, head, count * chunk.time, engine.launch * chunk.launches


def _step_parts(passed: Pass) -> StepParts:
    return StepParts(*passed.figures(_part_times))


def _part_times(passed: Pass) -> tuple[Real, ...]:
    linear: Real = 0.0
    apart: Real = 0.0
    host: Real = 0.0
    for kernel in passed.kernels:
        time = kernel.time
        if kernel.kind is HOST:
            host = host + time
        elif kernel.kind.is_per_sequence or kernel.part == HEAD:
            apart = apart + time
        else:
            linear = linear + time
    return linear, apart, host
