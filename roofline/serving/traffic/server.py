"""What the steps of a server take: the times that the equations of a load and the simulation share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from roofline.ops import Real, comparable, floor, maximum, minimum, never
from roofline.physics.forward import Pass, decode_pass, prefill_pass
from roofline.physics.memory import largest_batch
from roofline.physics.plan import Deployment
from roofline.quantity import BILLION
from roofline.serving.latency import chunks, computed, prompt_chunk
from roofline.serving.lengths import EQUAL, Lengths
from roofline.specs.engine import Engine
from roofline.specs.kernels import HEAD, HOST

__all__ = ["DECODE_FIRST", "PROMPTS_FIRST", "UNLIMITED", "PromptTimes", "Server", "StepParts"]

#: What a step computes first where sequences decode and prompts wait: a token of each sequence, the rest of its budget
#: for prompts (vLLM, TensorRT-LLM); or prompts alone, while decoding pauses (SGLang).
DECODE_FIRST, PROMPTS_FIRST = "decode first", "prompts first"

#: Tokens of a step where nothing limits them.
UNLIMITED = BILLION


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

    @property
    def computed(self) -> Real:
        """Tokens of the mean prompt that are computed [tokens]."""
        return computed(self.isl, self.prefix)

    @property
    def steps(self) -> Real:
        """Decode steps of the mean request [1]."""
        return maximum(self.osl - 1.0, 1.0, "a single step is left")

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
        """Mean time before a prompt may be computed: network, what the engine does first, cold starts [s]."""
        return self.engine.network + self.engine.request + self.cold

    @property
    def cold(self) -> Real:
        """Mean time of cold starts, over all requests [s]."""
        return 0.0 if self.cold_start is None else self.cold_start[0] * self.cold_start[1]

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
            return decode_pass(self.deployment, sequences, self.isl, self.steps)
        steps = maximum(self.osl * self.lengths.answers.biased - 1.0, 1.0, "a single step is left")
        prompt = self.isl + self.computed * (self.lengths.product - 1.0)
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
        return _parts(prefill_pass(self.deployment, ranks, sequences + prompt)).linear

    def prompt(self, tokens: Real) -> PromptTimes:
        """Times of a prompt, over all of its chunks.

        Args:
            tokens: of it that are computed [tokens].

        Returns:
            The times; the pass over a chunk is a mean one, in which what is cached grows evenly, so that pairs sum
            exactly.
        """
        count = chunks(tokens, self.engine.max_num_batched_tokens)
        chunk = prompt_chunk(self.deployment, 1.0, self.isl - self.computed + tokens, tokens)
        attention = count * sum(kernel.time for kernel in chunk.kernels if kernel.kind.is_per_sequence)
        head = sum(kernel.time for kernel in chunk.kernels if kernel.part == HEAD)
        launches = self.engine.launch * sum(kernel.count for kernel in chunk.kernels if kernel.kind is not HOST)
        return PromptTimes(attention, head, count * chunk.time, launches)


def _parts(passed: Pass) -> StepParts:
    """Kernels of a pass by what they share."""
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
    return StepParts(linear, apart, host)
