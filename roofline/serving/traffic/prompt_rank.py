"""A rank that computes prompts and writes no answers: how long they wait for each other, and with each other.

Prompts that wait are computed together in one pass, up to the token budget, and end together. Where the budget takes no
second prompt, they are computed one by one. Between both the equations interpolate; docs/method.md, "Separate pools".
"""

from __future__ import annotations

from roofline.ops import Real, ceil, comparable, maximum, minimum
from roofline.quantity import NANO
from roofline.records import NamedTuple, dataclass, replace
from roofline.roots import fixed_point
from roofline.serving.latency import chunks
from roofline.serving.traffic.prompts import Prompt, PromptNode, prompt_of
from roofline.serving.traffic.queueing import queue_wait
from roofline.serving.traffic.server import STABLE, Server

__all__ = ["PromptQueue", "PromptRank", "prompt_queue", "prompt_rank"]

_E = 2.718281828459045
_ROUNDS = 40  # of the probability that nobody comes during a pass
_TWO = 2.0


@comparable
class PromptQueue(NamedTuple):
    """What a prompt meets at a rank that serves prompts alone."""

    alone: Real  # [s] a prompt that finds the rank idle, mean over the lengths
    wait: Real  # [s] of those that do not, until their own prompt is done, less their own part of the pass
    own: Real  # [s] what the mean prompt takes of it in a pass with others, fixed cost included
    each: Real  # [s] what a further prompt adds to a pass
    fixed: Real  # [s] what a pass takes beside that
    variance: Real  # [s^2] of `wait`
    idle: Real  # probability that a prompt finds the rank idle [1]
    mates: Real  # prompts of others in one's own pass, of those that find the rank busy [1]
    util: Real  # of what the rank can serve at most [1]
    max_rate: Real  # [1/s] prompts
    busy: Real  # ranks of a worker that compute prompts at a time [1]

    @property
    def stage(self) -> Real:
        """Mean time from the end of a request to the end of its prompt [s]."""
        return self.idle * self.alone + (1.0 - self.idle) * (self.own + self.wait)


@dataclass(frozen=True)
class PromptRank:
    """One rank of a prefill pool: a data-parallel rank, in its turn of the pipeline."""

    server: Server
    prompt: Prompt

    @property
    def room(self) -> Real:
        """Mean prompts that the token budget of a pass takes [1]."""
        return self.server.budget / self.prompt.length

    def alone(self, node: PromptNode, busy: Real) -> Real:
        """Time of a prompt in passes of its own, among `busy` ranks of its worker [s]."""
        if self.server.deployment.plan.dp == 1:
            return node.alone
        chunk = minimum(node.length, self.server.budget)
        more = self._linear(chunk, busy) - self._linear(chunk, 1.0)
        return node.alone + more * node.length / chunk

    def follow(self, node: PromptNode, busy: Real) -> Real:
        """Time of a prompt in passes that come right after others, whose kernels the host has launched ahead [s]."""
        count = chunks(node.length, self.server.engine.max_num_batched_tokens)
        return count * self.pass_time(node.length / count, node.attention / count, busy)

    def pass_time(self, tokens: Real, attention: Real, busy: Real) -> Real:
        """Time of one pass over prompts that comes right after another [s].

        Args:
            tokens: of the prompts in it [tokens].
            attention: of them [s].
            busy: ranks of the worker that compute as many [1].
        """
        return self._linear(tokens, busy) + attention + self.prompt.head + self.server.engine.prefill

    def _linear(self, tokens: Real, busy: Real) -> Real:
        """Everything but attention, head and host [s]."""
        return replace(self.server, users=busy).linear(1.0, tokens - 1.0)


def prompt_rank(server: Server) -> PromptRank:
    """A rank of a prefill pool.

    Args:
        server: with the lengths of the prompts.

    Returns:
        The rank.
    """
    return PromptRank(server, prompt_of(server))


def prompt_queue(rank: PromptRank, rate: Real, fewer: Real = 1.0) -> PromptQueue:
    r"""What a prompt meets at a rank that serves prompts alone and takes all that wait into its next pass.

    .. math:: E[Y] = \frac{\alpha + \beta \pi_0}{1 - \rho},\quad
              E[Y^2] = \frac{\alpha^2 + 2 \alpha \beta (l E[Y] + \pi_0) + E[\beta^2] (l E[Y] + \pi_0)}{1 - \rho^2},\quad
              w = \frac{m}{2} + \beta l m,\quad m = \frac{E[Y^2]}{E[Y]}

    A pass of k prompts takes alpha + beta k; pi_0 is the probability that nobody comes during one, rho = l beta. Where
    the budget takes one prompt only, w is that of M/G/1.

    Args:
        rank: of a prefill pool.
        rate: l, prompts that come to it at random [1/s].
        fewer: of the bunches of Poisson arrivals that can come: 1 for an open loop [1].

    Returns:
        The queue; beyond `STABLE` of what the rank can serve its times stand for more.

    Valid:
        A pass is affine in its prompts between one and as many as come together.

    Source:
        Bulk service without a limit: Bailey, J. Royal Statistical Society B 16(1), 1954, and Kleinrock, "Queueing
        Systems", 1975, volume 1, 4.5; queue_wait for one by one.
    """
    server, prompt = rank.server, rank.prompt
    dp, length = server.deployment.plan.dp, prompt.length
    full = _in_full(rank, dp * 1.0)
    rate = maximum(rate, NANO)
    bounded = minimum(rate, STABLE / full)

    def at(state: tuple[Real, ...]) -> tuple[_Passes, Real]:
        seen, share = state
        busy = 1.0 + (dp - 1.0) * minimum(share, 1.0)
        come = bounded * seen
        together = maximum(minimum(1.0 + come + come**0.5, rank.room), _TWO)  # passes may grow faster than evenly
        begin = prompt.mean(lambda node: rank.alone(node, busy))
        one = prompt.mean(lambda node: rank.follow(node, busy))
        first = rank.pass_time(length, prompt.attention, busy)
        many = rank.pass_time(together * length, together * prompt.attention, busy)
        slope = minimum((many - first) / (together - 1.0), STABLE / bounded)
        return _passes(rank, bounded, maximum(one - slope, 0.0), slope, begin), busy

    def round_(state: tuple[Real, ...]) -> tuple[Real, ...]:
        passes, _ = at(state)
        return passes.biased, 1.0 - passes.idle

    begin = prompt.alone
    passes, busy = at(fixed_point(round_, (begin, minimum(bounded * begin, 1.0))).values)
    each, second = passes.each[:2]
    beside = bounded * passes.biased  # prompts that come during the pass that one meets
    usual = fewer * (passes.biased / 2.0 + each * beside)
    spread = (
        passes.cube * (1.0 / 3.0 + bounded * each + (bounded * each) ** 2) - (passes.biased / 2.0 + each * beside) ** 2
    )
    spread = maximum(spread + bounded * second * passes.biased, 0.0)
    # one by one
    first = prompt.mean(lambda node: rank.alone(node, busy))
    alone = prompt.mean(lambda node: rank.follow(node, busy))
    square = prompt.mean(lambda node: rank.follow(node, busy) ** 2)
    cube = prompt.mean(lambda node: rank.follow(node, busy) ** 3)
    gain = minimum(_in_full(rank, busy) / alone, 1.0)  # passes that hold parts of several prompts
    used = minimum(rate * full, 1.0)
    gain = minimum(1.0 - (1.0 - gain) * used, gain * (1.0 + (1.0 - used) / 2.0))  # the more, the fuller they are
    taken = minimum(bounded * gain * alone, STABLE)
    line = queue_wait(bounded, gain * alone, gain**2 * square)
    more = first - gain * alone  # that a prompt takes which finds the rank idle
    empty = (1.0 - taken) / (1.0 + bounded * maximum(more, 0.0))
    line = line + bounded * maximum(first**2 - square, 0.0) / (2.0 * (1.0 + bounded * maximum(more, 0.0)))
    behind = fewer * line / (1.0 - empty)
    swing = (2.0 * line * line + bounded * gain**3 * cube / (3.0 * (1.0 - taken))) / (1.0 - empty) - behind**2
    swing = maximum(swing, 0.0)
    later = bounded * behind  # prompts that have come after one's own when its last pass begins
    left = minimum(minimum(ceil(1.0 / rank.room) * rank.room - 1.0, rank.room / 2.0), 1.0)  # of which it takes so many
    fill = later * left / maximum(later + left, NANO)
    behind, swing = behind + gain * alone * fill, swing + (gain * alone) ** 2 * fill
    share = minimum(maximum(rank.room - 1.0, 0.0) / maximum(beside + beside**0.5, NANO), 1.0)
    own = share * (passes.fixed + each) + (1.0 - share) * alone
    return PromptQueue(
        alone=first,
        wait=share * usual + (1.0 - share) * behind,
        own=own,
        each=each,
        fixed=passes.fixed,
        variance=share * spread + (1.0 - share) * swing + share * (1.0 - share) * (usual - behind) ** 2,
        idle=share * passes.idle + (1.0 - share) * empty,
        mates=share * beside,
        util=rate * full,
        max_rate=1.0 / full,
        busy=busy,
    )


class _Passes(NamedTuple):
    """Passes over prompts, one after the other."""

    fixed: Real  # [s] alpha
    each: tuple[Real, Real, Real]  # moments of beta, over the lengths [s, s^2, s^3]
    biased: Real  # [s] E[Y^2]/E[Y]
    cube: Real  # [s^2] E[Y^3]/E[Y]
    idle: Real  # probability that a prompt finds none running [1]


def _in_full(rank: PromptRank, busy: Real) -> Real:
    """What a prompt takes in passes that are as full as they can be, on all ranks of a worker [s]."""
    server, length = rank.server, rank.prompt.length
    tokens = server.budget
    several = rank.pass_time(tokens, rank.prompt.attention * tokens / length, busy) * length / tokens
    return minimum(several, rank.prompt.mean(lambda node: rank.follow(node, busy)))


def _passes(rank: PromptRank, rate: Real, fixed: Real, slope: Real, begin: Real) -> _Passes:
    """Moments of passes that take whatever has come during the last one."""
    prompt = rank.prompt

    def each(node: PromptNode) -> Real:
        shared = maximum(slope - prompt.attention, 0.0)
        return shared * node.length / prompt.length + node.attention

    one, two, three = slope, prompt.mean(lambda node: each(node) ** 2), prompt.mean(lambda node: each(node) ** 3)
    # Transform of a pass, which is linear in the probability that nobody comes during one.
    place, product, constant = rate, 1.0, 0.0
    for _ in range(_ROUNDS):
        last, product = product, product * _E ** (0.0 - place * fixed)
        constant = constant + last * _E ** (0.0 - place * begin) - product
        place = rate * (1.0 - _E ** (0.0 - place * one))
    nobody = product / (1.0 - constant)
    rho = rate * one
    longer = begin - fixed - one  # a pass that begins on an idle rank, whose kernels are launched while it waits
    mean = (fixed + (one + longer) * nobody) / (1.0 - rho)
    come = rate * mean
    square = fixed**2 + 2.0 * fixed * one * (come + nobody) + two * (come + nobody)
    square = (square + nobody * (begin**2 - (fixed + one) ** 2)) / (1.0 - rho**2)
    cube = fixed**3 + 3.0 * fixed**2 * one * (come + nobody)
    cube = cube + 3.0 * fixed * (two * (come + nobody) + rho**2 * square)
    cube = cube + three * (come + nobody) + 3.0 * rho * rate * two * square
    cube = (cube + nobody * (begin**3 - (fixed + one) ** 3)) / (1.0 - rho**3)
    return _Passes(fixed, (one, two, three), square / mean, cube / mean, nobody / (come + nobody))
