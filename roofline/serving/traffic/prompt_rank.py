"""A rank that only computes prompts: how long they wait for each other.

Waiting prompts share one pass, up to the token budget, and end together; where the budget holds a single prompt, they
run one by one. The equations interpolate between both; docs/method.md, "Separate pools".

"""

from __future__ import annotations

from roofline.ops import Real, ceil, comparable, maximum, minimum
from roofline.quantity import NANO
from roofline.records import NamedTuple, dataclass, replace
from roofline.roots import crossing
from roofline.serving.latency import chunks
from roofline.serving.traffic.prompts import Prompt, PromptNode, prompt_of
from roofline.serving.traffic.queueing import queue_wait
from roofline.serving.traffic.server import STABLE, Server

_E = 2.718281828459045
_ROUNDS = 40  # of the probability of no arrival during a pass


@comparable
class PromptQueue(NamedTuple):
    """Conditions of a prompt at a rank that only computes prompts."""

    alone: Real  # [s] of a prompt that finds the rank idle, mean over lengths
    wait: Real  # [s] of the others until their prompt is done, less its own part of the pass
    own: Real  # [s] of the mean prompt in a shared pass, fixed cost included
    each: Real  # [s] that an additional prompt adds to a pass
    fixed: Real  # [s] of a pass, whatever its prompts
    variance: Real  # [s^2] of `wait`
    idle: Real  # probability that a prompt finds the rank idle [1]
    mates: Real  # other prompts in the same pass, where the rank is busy [1]
    util: Real  # rate over the largest one [1]
    max_rate: Real  # [1/s] prompts
    busy: Real  # mean busy ranks of a worker [1]

    @property
    def stage(self) -> Real:
        """Mean time from the end of the host's request time to the end of the prompt [s]."""
        return self.idle * self.alone + (1.0 - self.idle) * (self.own + self.wait)


@dataclass(frozen=True)
class PromptRank:
    """One rank of a prefill pool: a data-parallel rank in its pipeline turn."""

    server: Server
    prompt: Prompt

    @property
    def room(self) -> Real:
        """Mean number of prompts that fit the token budget of a pass [1]."""
        return self.server.budget / self.prompt.length

    def alone(self, node: PromptNode, busy: Real) -> Real:
        """Time of a prompt in its own passes, with `busy` ranks of its worker active [s]."""
        if self.server.deployment.plan.dp == 1:
            return node.alone
        chunk = minimum(node.length, self.server.budget)
        contention = self._linear(chunk, busy) - self._linear(chunk, 1.0)
        return node.alone + contention * node.length / chunk

    def follow(self, node: PromptNode, busy: Real) -> Real:
        """Time of a prompt in passes right after others, whose kernels the host has launched ahead [s]."""
        count = chunks(node.length, self.server.engine.max_num_batched_tokens)
        return count * self.pass_time(node.length / count, node.attention / count, busy)

    def pass_time(self, tokens: Real, attention: Real, busy: Real) -> Real:
        """Time of a pass right after another [s], with `busy` ranks of the worker active; `attention` [s]."""
        return self._linear(tokens, busy) + attention + self.prompt.head + self.server.engine.prefill

    def _linear(self, tokens: Real, busy: Real) -> Real:
        """Everything but attention, head and host [s]."""
        return replace(self.server, users=busy).linear(1.0, tokens - 1.0)


def prompt_rank(server: Server) -> PromptRank:
    return PromptRank(server, prompt_of(server))


def prompt_queue(rank: PromptRank, rate: Real, fewer: Real = 1.0) -> PromptQueue:
    r"""Queue of prompts at a rank that takes all waiting prompts into its next pass.

    .. math:: E[Y] = \frac{\alpha + \beta \pi_0}{1 - \rho},\quad
              E[Y^2] = \frac{\alpha^2 + 2 \alpha \beta (l E[Y] + \pi_0) + E[\beta^2] (l E[Y] + \pi_0)}{1 - \rho^2},\quad
              w = \frac{m}{2} + \beta l m,\quad m = \frac{E[Y^2]}{E[Y]}

    A pass of k prompts takes alpha + beta k; pi_0 is the probability of no arrival during one, rho = l beta. Where the
    budget holds a single prompt, w is that of M/G/1.

    Args:
        rank: of a prefill pool.
        rate: l, Poisson arrivals of prompts [1/s].
        fewer: bunching of arrivals over that of Poisson arrivals: 1 for an open loop [1].

    Returns:
        The queue; beyond `STABLE` of the largest rate its times are those at `STABLE`.

    Valid:
        The time of a pass is affine in its prompts, from one to as many as arrive together.

    Source:
        Bulk service without a limit: Bailey, J. Royal Statistical Society B 16(1), 1954, and Kleinrock, "Queueing
        Systems", 1975, volume 1, 4.5; queue_wait for one by one.
    """
    server, prompt = rank.server, rank.prompt
    dp, length = server.deployment.plan.dp, prompt.length
    full = _full_pass_time(rank, dp * 1.0)
    rate = maximum(rate, NANO)
    bounded = minimum(rate, STABLE / full)

    def passes_with(busy: Real) -> _Passes:
        begin = prompt.mean(lambda node: rank.alone(node, busy))
        alone = prompt.mean(lambda node: rank.follow(node, busy))
        single = rank.pass_time(length, prompt.attention, busy)

        def passes_at(seen: Real) -> _Passes:
            arrivals = bounded * seen
            # Passes may grow faster than linearly, so that the slope is taken up to as many as arrive.
            together = maximum(minimum(1.0 + arrivals + arrivals**0.5, rank.room), 2.0)
            several = rank.pass_time(together * length, together * prompt.attention, busy)
            slope = minimum((several - single) / (together - 1.0), STABLE / bounded)
            return _passes(rank, bounded, maximum(alone - slope, 0.0), slope, begin)

        longest = rank.room / bounded  # while the prompts of a full pass arrive: beyond it, the slope stays the same
        longest = maximum(longest, passes_at(longest).biased)
        return passes_at(crossing(lambda seen: passes_at(seen).biased - seen, longest))

    busy = 1.0
    if dp > 1:  # the more ranks of a worker compute, the longer each pass, and the more of them compute
        busy = 1.0 + (dp - 1.0) * crossing(lambda share: 1.0 - passes_with(1.0 + (dp - 1.0) * share).idle - share, 1.0)
    passes = passes_with(busy)
    added, second = passes.each[:2]
    mates = bounded * passes.biased  # prompts that arrive during the running pass
    shared_wait = fewer * (passes.biased / 2.0 + added * mates)
    spread = (
        passes.cube * (1.0 / 3.0 + bounded * added + (bounded * added) ** 2)
        - (passes.biased / 2.0 + added * mates) ** 2
    )
    spread = maximum(spread + bounded * second * passes.biased, 0.0)
    # Prompts that run one by one.
    single = prompt.mean(lambda node: rank.alone(node, busy))
    alone = prompt.mean(lambda node: rank.follow(node, busy))
    square = prompt.mean(lambda node: rank.follow(node, busy) ** 2)
    cube = prompt.mean(lambda node: rank.follow(node, busy) ** 3)
    gain = minimum(_full_pass_time(rank, busy) / alone, 1.0)  # passes with parts of several prompts are fuller
    load = minimum(rate * full, 1.0)
    gain = minimum(1.0 - (1.0 - gain) * load, gain * (1.0 + (1.0 - load) / 2.0))  # and the more so, the higher the load
    used = minimum(bounded * gain * alone, STABLE)
    queue = queue_wait(bounded, gain * alone, gain**2 * square)
    extra = single - gain * alone  # extra time of a prompt that finds the rank idle
    empty = (1.0 - used) / (1.0 + bounded * maximum(extra, 0.0))
    queue = queue + bounded * maximum(single**2 - square, 0.0) / (2.0 * (1.0 + bounded * maximum(extra, 0.0)))
    line_wait = fewer * queue / (1.0 - empty)
    line_spread = (2.0 * queue * queue + bounded * gain**3 * cube / (3.0 * (1.0 - used))) / (1.0 - empty) - line_wait**2
    line_spread = maximum(line_spread, 0.0)
    followers = bounded * line_wait  # prompts behind this one when its last pass begins
    space = minimum(minimum(ceil(1.0 / rank.room) * rank.room - 1.0, rank.room / 2.0), 1.0)  # that fit into it
    fill = followers * space / maximum(followers + space, NANO)
    line_wait, line_spread = line_wait + gain * alone * fill, line_spread + (gain * alone) ** 2 * fill
    share = minimum(maximum(rank.room - 1.0, 0.0) / maximum(mates + mates**0.5, NANO), 1.0)
    own_time = share * (passes.fixed + added) + (1.0 - share) * alone
    return PromptQueue(
        alone=single,
        wait=share * shared_wait + (1.0 - share) * line_wait,
        own=own_time,
        each=added,
        fixed=passes.fixed,
        variance=share * spread + (1.0 - share) * line_spread + share * (1.0 - share) * (shared_wait - line_wait) ** 2,
        idle=share * passes.idle + (1.0 - share) * empty,
        mates=share * mates,
        util=rate * full,
        max_rate=1.0 / full,
        busy=busy,
    )


class _Passes(NamedTuple):
    """Consecutive passes over prompts."""

    fixed: Real  # [s] alpha
    each: tuple[Real, Real, Real]  # moments of beta over the lengths [s, s^2, s^3]
    biased: Real  # [s] E[Y^2]/E[Y]
    cube: Real  # [s^2] E[Y^3]/E[Y]
    idle: Real  # probability that a prompt finds no pass running [1]


def _full_pass_time(rank: PromptRank, busy: Real) -> Real:
    """Time per prompt in full passes on all `busy` ranks of a worker [s]."""
    server, length = rank.server, rank.prompt.length
    tokens = server.budget
    several = rank.pass_time(tokens, rank.prompt.attention * tokens / length, busy) * length / tokens
    return minimum(several, rank.prompt.mean(lambda node: rank.follow(node, busy)))


def _passes(rank: PromptRank, rate: Real, fixed: Real, slope: Real, begin: Real) -> _Passes:
    """Moments of passes that take all prompts that arrived during the last one."""
    prompt = rank.prompt

    def added_time(node: PromptNode) -> Real:
        shared = maximum(slope - prompt.attention, 0.0)
        return shared * node.length / prompt.length + node.attention

    first = slope
    second, third = prompt.mean(lambda node: added_time(node) ** 2), prompt.mean(lambda node: added_time(node) ** 3)
    # The transform of a pass is linear in the probability of no arrival during one.
    argument, product, constant = rate, 1.0, 0.0
    for _ in range(_ROUNDS):
        last, product = product, product * _E ** (0.0 - argument * fixed)
        constant = constant + last * _E ** (0.0 - argument * begin) - product
        argument = rate * (1.0 - _E ** (0.0 - argument * first))
    no_arrival = product / (1.0 - constant)
    rho = rate * first
    idle_extra = begin - fixed - first  # extra time of a pass on an idle rank, which waits for its launches
    mean = (fixed + (first + idle_extra) * no_arrival) / (1.0 - rho)
    arrivals = rate * mean
    square = fixed**2 + 2.0 * fixed * first * (arrivals + no_arrival) + second * (arrivals + no_arrival)
    square = (square + no_arrival * (begin**2 - (fixed + first) ** 2)) / (1.0 - rho**2)
    cube = fixed**3 + 3.0 * fixed**2 * first * (arrivals + no_arrival)
    cube = cube + 3.0 * fixed * (second * (arrivals + no_arrival) + rho**2 * square)
    cube = cube + third * (arrivals + no_arrival) + 3.0 * rho * rate * second * square
    cube = (cube + no_arrival * (begin**3 - (fixed + first) ** 3)) / (1.0 - rho**3)
    return _Passes(fixed, (first, second, third), square / mean, cube / mean, no_arrival / (arrivals + no_arrival))
