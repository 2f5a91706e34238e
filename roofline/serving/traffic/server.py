"""What the steps of a server take: the times that the equations of a load and the simulation share."""

from __future__ import annotations

from functools import cached_property

from roofline.ops import Real, comparable, floor, maximum, minimum, never
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

__all__ = ["DECODE_FIRST", "PROMPTS_FIRST", "STABLE", "UNLIMITED", "PromptTimes", "Server", "StepParts"]

#: What a step computes first where sequences decode and prompts wait: a token of each sequence, the rest of its budget
#: for prompts (vLLM, TensorRT-LLM); or prompts alone, while decoding pauses (SGLang).
DECODE_FIRST, PROMPTS_FIRST = "decode first", "prompts first"

#: Tokens of a step where nothing limits them.
UNLIMITED = BILLION

#: Largest utilisation in a round: a fixed point beyond it is none.
STABLE = 0.9999


@comparable
class StepParts(NamedTuple):
    """Time of a decode step, by what a prompt beside it may share."""

    linear: Real  # [s] matrices and whatever else works token by token
    apart: Real  # [s] attention and head, which do not gain from company
    host: Real  # [s]

    @property
    def total(self) -> Real:
        """Time of the step [s]."""
        return self.linear + self.apart + self.host


class PromptTimes(NamedTuple):
    """Times of one prompt."""

    attention: Real  # [s] over all chunks
    head: Real  # [s] for one sequence
    alone: Real  # [s] on an idle server, its request apart
    launches: Real  # [s] of the host to launch the kernels of one chunk


@dataclass(frozen=True)
class Server:
    """What steps and prompts take on one rank of a server: a rank of data parallelism, in its turn of the pipeline."""

    deployment: Deployment
    isl: Real  # [tokens] mean prompt
    osl: Real  # [tokens] mean answer
    prefix: Real = 0.0  # [tokens] of the prompt whose KV is cached already
    users: Real | None = None  # requests that all ranks together have in flight; None where they come and go
    lengths: Lengths = EQUAL  # how prompts, but for their prefix, and answers spread about their means
    cold_start: tuple[float, float] | None = (
        None  # share of the requests that find no server warm [1], and its start [s]
    )
    cache: PromptCache | None = None  # where prefixes lie, and how often; None: always in the memory of the GPU

    @cached_property
    def kinds(self) -> tuple[PromptKind, ...]:
        """Prompts whose prefix is cached, and those whose prefix is not."""
        return prompt_kinds(self.deployment, self.isl, self.prefix, self.cache)

    @property
    def fresh(self) -> Real:
        """Tokens of the mean prompt beyond its prefix, whose number spreads [tokens]."""
        return computed(self.isl, self.prefix)

    @property
    def computed(self) -> Real:
        """Tokens of the mean prompt that are computed, over hits and misses [tokens]."""
        return sum(
            (kind.weight * kind.computed for kind in self.kinds[1:]), self.kinds[0].weight * self.kinds[0].computed
        )

    @property
    def loading(self) -> Real:
        """Mean time to load a prefix, over all requests, the link being free [s]."""
        return sum(
            (kind.weight * kind.loading for kind in self.kinds[1:]), self.kinds[0].weight * self.kinds[0].loading
        )

    @property
    def steps(self) -> Real:
        """Decode steps of the mean request, one at least [1]."""
        return maximum(self.steps_of(), 1.0, "a single step is left")

    def steps_of(self, share: Real = 1.0) -> Real:
        """Decode steps of an answer: all of its tokens but the first, by those that a step gains.

        Args:
            share: of the answer in the mean one [1].

        Returns:
            Steps, none of a single token [1].
        """
        return steps_of_answer(self.deployment, self.osl * share)

    @property
    def engine(self) -> Engine:
        """Engine whose host, budget and scheduler count."""
        return self.deployment.host

    @property
    def budget(self) -> Real:
        """Tokens that a step computes at most [tokens]."""
        given = self.engine.max_num_batched_tokens
        return UNLIMITED if given is None else given * 1.0

    @property
    def slots(self) -> Real:
        """Sequences that a rank runs at most: by `max_num_seqs`, and by the memory that each must find to start."""
        engine, plan = self.deployment.engine, self.deployment.plan  # light speed needs no host, but room
        length = self.isl + engine.reserve * self.osl * self.lengths.answers.biased  # long answers stay longer
        held = maximum(floor(largest_batch(self.deployment, length) / plan.dp), 1.0)
        if engine.max_num_seqs is None:
            return held
        return minimum(held, maximum(floor(engine.max_num_seqs / plan.pp), 1.0))

    @property
    def before(self) -> Real:
        """Mean time before a prompt may be computed: network, engine, cold starts, the load of a prefix [s]."""
        return self.engine.network + self.engine.request + self.cold + self.loading

    @property
    def cold(self) -> Real:
        """Mean time of cold starts, over all requests [s]."""
        return 0.0 if self.cold_start is None else self.cold_start[0] * self.cold_start[1]

    @property
    def is_free_of_loads(self) -> bool:
        """Whether no prefix is loaded at all."""
        return not any(kind.is_loaded for kind in self.kinds)

    def decode_pass(self, sequences: Real) -> Pass:
        """Decode step of a rank among others as full, at the mean length of sequences: long ones run longer.

        Args:
            sequences: whole ones, of this rank [sequences].

        Returns:
            The pass.
        """
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
        """Time of a decode step of a rank among others as full.

        Args:
            sequences: of this rank, whole or not: between whole ones, which data parallelism asks for, the time is
                that on the line [sequences].

        Returns:
            Parts of the step [s].
        """
        if never(self.deployment.plan.dp > 1):
            return _parts(self.decode_pass(sequences))
        below = floor(sequences)
        share = sequences - below
        fewer, more = _parts(self.decode_pass(below)), _parts(self.decode_pass(below + 1.0))
        return StepParts(*(low + share * (high - low) for low, high in zip(fewer, more, strict=True)))

    def linear(self, sequences: Real, prompt: Real) -> Real:
        """Time of everything but attention, head and host in a step that computes prompts on every busy rank.

        Args:
            sequences: of one rank, that decode in the step [sequences].
            prompt: tokens of prompts on one rank [tokens].

        Returns:
            Time [s].
        """
        dp = self.deployment.plan.dp
        total = 1.0 + (sequences - 1.0) * dp if self.users is None else self.users
        ranks = maximum(1.0, minimum(dp * 1.0, total))
        tokens = sequences * self.deployment.queries + prompt
        return _parts(prefill_pass(self.deployment, ranks, tokens)).linear

    def beside(self, sequences: Real, parts: StepParts) -> Real:
        """What `linear` is without a prompt.

        Args:
            sequences: of one rank, that decode in the step [sequences].
            parts: of that step.

        Returns:
            Time [s]: a part of the step itself but for what proposes tokens, which prompts run beside, and for ranks.
        """
        deployment = self.deployment
        return parts.linear if deployment.plan.dp == 1 and deployment.draft is None else self.linear(sequences, 0.0)

    def prompt(self, tokens: Real, cached: Real) -> PromptTimes:
        """Times of a prompt, over all of its chunks.

        Args:
            tokens: of it that are computed [tokens].
            cached: tokens before them whose KV is cached [tokens].

        Returns:
            The times; the pass over a chunk is a mean one, in which what is cached grows evenly, so that pairs sum
            exactly.
        """
        return PromptTimes(*figures_of(_prompt_times, self.deployment, tokens, cached))


def _prompt_times(deployment: Deployment, tokens: Real, cached: Real) -> tuple[Real, ...]:
    engine = deployment.host
    count = chunks(tokens, engine.max_num_batched_tokens)
    chunk = prompt_chunk(deployment, 1.0, cached + tokens, tokens)
    attention = count * sum(kernel.time for kernel in chunk.kernels if kernel.kind.is_per_sequence)
    head = sum(kernel.time for kernel in chunk.kernels if kernel.part == HEAD)
    return attention, head, count * chunk.time, engine.launch * chunk.launches


def _parts(passed: Pass) -> StepParts:
    """Kernels of a pass by what they share."""
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
