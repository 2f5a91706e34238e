"""Prompts of a load: their lengths, and what one of them adds to the steps of others."""

from __future__ import annotations

from collections.abc import Callable

from roofline.ops import Real, comparable, floor, maximum, minimum
from roofline.records import NamedTuple
from roofline.serving.prompt_cache import PromptKind
from roofline.serving.traffic.server import PROMPTS_FIRST, Server

__all__ = ["Prompt", "PromptNode", "added", "added_by_node", "prompt_of", "prompt_tokens", "turns"]

_LEAST_BLUR = 0.002  # of the steps that a prompt takes


@comparable
class PromptNode(NamedTuple):
    """One length of prompts, which stands for a share of them."""

    weight: Real  # share of the prompts [1]
    length: Real  # [tokens] s, those that are computed
    attention: Real  # [s] a(s), over all chunks
    alone: Real  # [s] on an idle server


@comparable
class Prompt(NamedTuple):
    """What does not depend on the load: the mean prompt, and the lengths that make it up where they differ."""

    length: Real  # [tokens] S, those that are computed
    attention: Real  # [s] a, over all chunks
    head: Real  # [s] of one sequence
    alone: Real  # [s] on an idle server
    launches: Real = 0.0  # [s] of the host to launch the kernels of a pass over prompts alone
    nodes: tuple[PromptNode, ...] = ()  # none where all prompts are equal, and all found or none

    def mean(self, value: Callable[[PromptNode], Real]) -> Real:
        """Mean over the prompts of what depends on their length."""
        if not self.nodes:
            return value(PromptNode(1.0, self.length, self.attention, self.alone))
        return sum(node.weight * value(node) for node in self.nodes)


def prompt_of(server: Server) -> Prompt:
    """The mean prompt of a server.

    Args:
        server: a rank.

    Returns:
        Its length and times, means over the lengths where they spread.
    """
    spread, kinds = server.lengths.prompts, server.kinds
    length = server.computed
    if spread.is_fixed and len(kinds) == 1:
        times = server.prompt(length, kinds[0].cached)
        return Prompt(length, times.attention, times.head, times.alone, times.launches)
    nodes: list[PromptNode] = []
    head: Real = 0.0
    launches: Real = 0.0
    for kind in kinds:
        for share_of_kind, share in spread.nodes:
            weight = kind.weight * share_of_kind
            tokens = prompt_tokens(server, kind, share)
            times = server.prompt(tokens, kind.cached)
            nodes.append(PromptNode(weight, tokens, times.attention, times.alone))
            head, launches = head + weight * times.head, launches + weight * times.launches
    mean = Prompt(length, 0.0, head, 0.0, launches, tuple(nodes))
    return mean._replace(attention=mean.mean(lambda node: node.attention), alone=mean.mean(lambda node: node.alone))


def prompt_tokens(server: Server, kind: PromptKind, share: Real) -> Real:
    """Tokens that are computed of a prompt: what is beyond the prefix spreads, the prefix does not.

    Args:
        server: a rank.
        kind: whether its prefix is cached.
        share: of what is beyond the prefix, over its mean [1].

    Returns:
        Tokens [tokens].
    """
    if len(server.kinds) == 1:
        return maximum(kind.computed * share, 1.0)
    return maximum(kind.computed + server.fresh * (share - 1.0), 1.0)


def added(
    server: Server, prompt: Prompt, sequences: Real, base: Real, tokens: Real, length: Real, attention: Real
) -> Real:
    r"""What a prompt adds to the time of others.

    .. math:: P(b, n, s, a) = x \left[G(b + n) - G(b)\right] \frac{s}{n} + x a + h_{pre} \frac{s}{n}

    of decode-first schedulers; with prompts first G(n) and the head stand in the bracket, and the host launches every
    kernel of the pass, which is no CUDA graph: it takes at least that long.

    Args:
        server: a rank.
        prompt: the mean prompt.
        sequences: b that decode in the same steps [sequences].
        base: G(b), everything but attention, head and host of a step without a prompt [s].
        tokens: n of prompts that a step computes with them [tokens].
        length: s of this prompt [tokens].
        attention: a, of the whole prompt [s].

    Returns:
        Time [s].

    Valid:
        Attention and head do not gain from company; what else a step computes reads its weights once.

    Source:
        docs/method.md, "A server under load".
    """
    engine = server.engine
    if engine.scheduler == PROMPTS_FIRST:
        shared = server.linear(1.0, tokens - 1.0) + prompt.head
    else:
        shared = maximum(server.linear(sequences, tokens) - base, 0.0)
    time = engine.stretch * (shared * length / tokens + attention)
    if engine.scheduler == PROMPTS_FIRST:
        time = maximum(time, prompt.launches * length / tokens, "the host launches kernels as fast as they run")
    return time + engine.prefill * length / tokens


def added_by_node(server: Server, prompt: Prompt, usual: Real, node: PromptNode) -> Real:
    r"""What a prompt of some length adds, where the mean one adds `usual` in the same steps.

    .. math:: P(s) = x \left[\left(\frac{P}{x} - a\right) \frac{s}{S} + a(s)\right]

    Args:
        server: a rank.
        prompt: the mean prompt.
        usual: what it adds, P [s].
        node: the length.

    Returns:
        Time [s].

    Source:
        `added` is linear in length and attention.
    """
    stretch = server.engine.stretch
    shared = usual / stretch - prompt.attention
    return stretch * (shared * node.length / prompt.length + node.attention)


def turns(length: Real, room: Real, others: Real) -> Real:
    """Steps that a prompt takes, on average: whole ones, and one more where the sequences leave too little room.

    Args:
        length: tokens of the prompt [tokens].
        room: tokens that a step leaves for prompts, on average [tokens].
        others: sequences that decode, on average: they vary like their root [sequences].

    Returns:
        Steps, at least one [1].
    """
    exact = length / room
    whole = floor(exact)
    blur = minimum((others + 1.0) ** 0.5 / room * exact + _LEAST_BLUR, 1.0)
    return maximum(whole + minimum((exact - whole) / blur, 1.0), 1.0)
