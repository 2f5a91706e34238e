"""Prompts under a load: their lengths, and the time that each adds to the steps of other requests."""

from __future__ import annotations

from collections.abc import Callable

from roofline.ops import Real, comparable, floor, maximum, minimum
from roofline.records import NamedTuple
from roofline.serving.prompt_cache import PromptKind
from roofline.serving.traffic.server import PROMPTS_FIRST, Server

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
        return Prompt(length, times.attention, times.head, times.alone, times.launches)
    nodes: list[PromptNode] = []
    head: Real = 0.0
    launches: Real = 0.0
    for kind in kinds:
        for node_weight, share in spread.nodes:
            weight = kind.weight * node_weight
            tokens = prompt_tokens(server, kind, share)
            times = server.prompt(tokens, kind.cached)
            nodes.append(PromptNode(weight, tokens, times.attention, times.alone))
            head, launches = head + weight * times.head, launches + weight * times.launches
    mean = Prompt(length, 0.0, head, 0.0, launches, tuple(nodes))
    return mean._replace(attention=mean.mean(lambda node: node.attention), alone=mean.mean(lambda node: node.alone))


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
    time = engine.prefill_slowdown * (shared * length / tokens + attention)
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
    prefill_slowdown = server.engine.prefill_slowdown
    shared = usual / prefill_slowdown - prompt.attention
    return prefill_slowdown * (shared * node.length / prompt.length + node.attention)


def turns(length: Real, room: Real, others: Real) -> Real:
    """Mean number of steps of a prompt, given the mean room for prompts in a step.

    Whole steps, and one more where decoding sequences, whose number varies by its square root, leave too little room.
    """
    exact = length / room
    whole = floor(exact)
    blur = minimum((others + 1.0) ** 0.5 / room * exact + _LEAST_BLUR, 1.0)
    return maximum(whole + minimum((exact - whole) / blur, 1.0), 1.0)
