"""Distribution of single gaps between tokens under a load (ITL): decode steps, and the prompts that stall them.

The gaps of all requests are pooled, as in the benchmarks of vLLM and SGLang. Tokens that one step hands out together,
with drafts, end one gap. docs/method.md, "Gaps between tokens", has the equations.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.numbers.operations import Real, floor, maximum, minimum, where
from roofline.numbers.quantity import NANO
from roofline.serving.latency import mean_steps
from roofline.serving.load.mixtures import Component, by_prompt_length, mean_of
from roofline.serving.load.rounds import Meeting, Run, share_of_single_tokens
from roofline.serving.load.server import PROMPTS_FIRST, STABLE, Prompt, Server, added, prompt_tokens, turns
from roofline.support.records import NamedTuple

_E = 2.718281828459045
_TINY = 2.0**-200  # of a time, against division by zero
_FARTHEST = 40.0  # exponent of a probability
_SWALLOWED = 0.25  # of the steps that fit into a stall, or into the way of a request: answers ending there ask together
_HALF = 0.5  # fill of the last step of several prompts, on average
_STEADY = 0.98  # largest certain part of a stall
_LEAST_SPREAD = 0.05  # standard deviation of several stalls, over their mean


class Case(NamedTuple):
    """A rank under a load with known means."""

    server: Server
    prompt: Prompt
    met: Meeting
    rate: Real  # [1/s] arrivals of others
    others: Real  # mean other decoding sequences
    users: Real | None  # of the rank; None for an open loop
    plain: Component  # a decode step without prompts
    is_full: Real  # whether requests wait for slots, so that an answer that ends admits a prompt at once

    @property
    def steps(self) -> Real:
        """Mean gaps of a request [1]."""
        server = self.server
        return maximum(mean_steps(server.deployment, server.osl, server.lengths.answers), NANO)

    @property
    def mean(self) -> Real:
        """Mean gap [s]."""
        return self.met.decode / self.steps


def gaps(case: Case) -> tuple[Component, ...]:
    """Distribution of the gaps between the tokens of all requests.

    Args:
        case: a rank under a load.

    Returns:
        The distribution; its mean is that of the gaps, where stalls can explain it.

    Valid:
        As for the mean latencies. Stalls are independent of the number of sequences that decode.

    Source:
        docs/method.md, "Gaps between tokens".
    """
    if case.server.engine.scheduler == PROMPTS_FIRST:
        return _between_passes(case)
    return _of_steps(case)


def _stalled(case: Case, stalls: Sequence[Component], weight: Real) -> list[Component]:
    """Decode steps with a stall each: independent, so that least times, means and variances add."""
    plain = case.plain
    return [
        Component(
            weight * stall.weight, plain.least + stall.least, plain.mean + stall.mean, plain.variance + stall.variance
        )
        for stall in stalls
    ]


def _of_a_single_prompt(case: Case) -> tuple[list[Component], Real]:
    """Stall in the last step of a prompt, or in all of its passes: shares that sum to one; steps before it [1]."""
    server, prompt, met = case.server, case.prompt, case.met
    prompts, decoding = server.lengths.prompts, 1.0 + case.others
    is_bulk = server.engine.scheduler == PROMPTS_FIRST
    base = 0.0 if is_bulk else server.linear(decoding, 0.0)
    stalls: list[Component] = []
    before: Real = 0.0
    for kind in server.kinds:
        parts = []
        for weight, share in prompts.slices:
            tokens = prompt_tokens(server, kind, share)
            attention = server.prompt(tokens, kind.cached).attention
            if is_bulk:
                last = tokens / turns(tokens, server.budget, 0.0)
                time = added(server, prompt, decoding, base, last, tokens, attention)
            else:
                full = floor(tokens / met.room * (1.0 - NANO))  # steps that the prompt fills
                last = tokens - full * met.room
                time = added(server, prompt, decoding, base, last, last, attention * last / tokens)
                before = before + kind.weight * weight * full
            parts.append(Component(kind.weight * weight, time, 0.0, 0.0))
        stalls += parts if prompts.is_fixed else by_prompt_length(parts, prompts)
    return stalls, before


def _none(number: Real, users: Real | None = None) -> Real:
    """Probability that nobody asks: of a Poisson number, or a binomial one over the other users [1]."""
    if users is None:
        return _E ** (0.0 - minimum(number, _FARTHEST))
    rest = maximum(users - 1.0, 1.0)
    return maximum(1.0 - number / rest, NANO) ** rest


def _alone(number: Real) -> Real:
    """Share of those with any who are alone, given their mean number: one, whom a Poisson number joins [1]."""
    return _none(maximum(number - 1.0, 0.0))


def _moments(parts: Sequence[Component]) -> tuple[Real, Real]:
    """Mean and variance of components whose weights sum to one [s, s^2]."""
    mean = mean_of(parts)
    square = sum(part.weight * (part.variance + (part.least + part.mean) ** 2) for part in parts)
    return mean, maximum(square - mean * mean, 0.0)


# Prompts that run beside decode steps.


def _of_steps(case: Case) -> tuple[Component, ...]:
    r"""Decode first: a gap is a step, empty, partly filled by the last tokens of prompts, or full.

    .. math:: \pi e_1 = \epsilon (1 - e_0),\quad \epsilon + \pi + \phi = 1

    A step with prompts follows one in which somebody asked: a plain one, with probability 1 - e_0, or one with prompts.
    """
    server, prompt, met, users = case.server, case.prompt, case.met, case.users
    decoding, base, room = 1.0 + case.others, server.linear(1.0 + case.others, 0.0), met.room
    single, full_steps = _of_a_single_prompt(case)
    _, variance = _moments(single)
    longest = maximum(met.longest - met.plain, 0.0)
    expected = case.rate * met.mean_step  # prompts per step
    if users is None:
        quiet = case.rate * met.plain
        busy = case.rate * (met.plain + met.prompt * maximum(expected, 1.0))
        begins, follows = 1.0 - _none(quiet), 1.0 - _none(busy)
    else:  # answers end with steps, however long these are
        way = where(case.is_full, 0.0, server.before + server.arrival(case.others, users) + prompt.lag)
        asked = 1.0 - _none(expected, users)
        begins = follows = asked / (1.0 + _SWALLOWED * asked * minimum(way, met.prompt) / met.plain)
        quiet = busy = expected
    begins, follows = maximum(begins, NANO), maximum(follows, NANO)
    share = begins / (begins + 1.0 - follows)  # with prompts, of the steps that are not full
    number = (1.0 - share) * quiet + share * busy  # of those who ask in a step
    number = maximum(number / ((1.0 - share) * begins + share * follows), 1.0)  # in those with any
    alone = _alone(number)
    more = maximum((number - alone) / maximum(1.0 - alone, NANO), 2.0)  # prompts, where there are several
    fits = more * prompt.length <= room
    # Full steps: those of single prompts, those of several, and as many as the tokens of all prompts need.
    several = maximum(more * prompt.length / room - _HALF, 0.0)
    filled = share * (alone * full_steps + (1.0 - alone) * several)
    fill = where(prompt.length > room, sum(s.weight * s.least for s in single) / maximum(longest, _TINY), 1.0)
    taken = share * minimum(fill, 1.0)
    work = minimum(expected * prompt.length / room, STABLE)
    full = maximum(filled / (1.0 + filled), (work - taken) / maximum(1.0 - taken, NANO))
    # Stalls of several prompts that share a step.
    tokens = minimum(more * prompt.length, room)
    each = added(server, prompt, decoding, base, tokens, prompt.length, prompt.attention)
    mean = where(fits, minimum(more * each, longest), _HALF * longest)
    spread = where(fits, more * variance + (more - 2.0) * each**2, longest**2 / 12.0)
    least = where(fits, _HALF * mean, 0.0)
    crowd = Component(1.0 - alone, least, mean - least, spread)
    partly = [stall._replace(weight=alone * stall.weight) for stall in single] + [crowd]
    usual = mean_of(partly)
    # What comes with a request's own prompt stalls its first steps: the same stalls, more often; or, where each step
    # holds one, more full steps.
    target = maximum(case.mean - met.plain, 0.0)
    full_share = full / (full + (1.0 - full) * share)  # of the steps with prompts
    stalled = target / maximum(full_share * longest + (1.0 - full_share) * usual, _TINY)
    enough = minimum(maximum((target - usual) / maximum(longest - usual, _TINY), 0.0), 1.0)
    full_share = where(stalled > 1.0, enough, full_share)
    stalled = minimum(stalled, 1.0)
    in_full = Component(1.0, longest, 0.0, 0.0)
    parts = [
        case.plain._replace(weight=1.0 - stalled),
        *_stalled(case, partly, stalled * (1.0 - full_share)),
        *_stalled(case, [in_full], stalled * full_share),
    ]
    end = case.plain.mean + longest - least
    parts[-2] = parts[-2]._replace(most=maximum(end, parts[-2].mean))
    return tuple(parts)


# Prompts that run between decode steps.


def _between_passes(case: Case) -> tuple[Component, ...]:
    r"""Prompts first: a gap is a decode step and the passes of all prompts until none waits.

    A run of passes begins after a share of the decode steps. The first gap of a request holds what follows its own
    pass instead.
    """
    met, rate = case.met, case.rate
    single, _ = _of_a_single_prompt(case)
    time, variance = _moments(single)
    of_first = minimum((1.0 - share_of_single_tokens(case.server)) / case.steps, 1.0)  # share of the gaps
    if met.run is not None:
        return _between_runs(case, met.run, time, of_first)
    busy = maximum(met.mean_step - met.plain, 0.0)
    behind = maximum(busy + (case.mean - met.mean_step) / of_first, 0.0)
    within = where(case.is_full, met.mean_step, met.plain)  # answers end with decode steps, then admit a prompt
    own = met.fixed + met.each * (1.0 + rate * met.biased)  # pass of the request's own prompt
    begun, begun_behind = 1.0 - _none(rate * within), 1.0 - _none(rate * own)
    parts: list[Component] = []
    runs = ((1.0 - of_first, within, begun, busy, met.stalls), (of_first, own, begun_behind, behind, met.surges))
    for weight, stage, likely, mean, spread in runs:
        share = minimum(likely, mean / maximum(time, _TINY))  # no run is shorter than a prompt
        run = mean / maximum(share, _TINY)
        joined = maximum(run / maximum(time, _TINY) - 1.0, 0.0)  # prompts that join the first
        nobody_else = rate * stage * _none(rate * (stage + time))
        alone = minimum(where(case.is_full, _none(joined), nobody_else / maximum(share, _TINY)), 1.0)
        square = run * run + joined * time * time + (1.0 + joined) * variance
        square = where(case.is_full, square, (spread + mean * mean) / maximum(share, _TINY))
        more = maximum(1.0 - alone, NANO)
        crowd = maximum((run - alone * time) / more, time)
        rest = (square - alone * (variance + time * time)) / more - crowd * crowd
        least = minimum(time, _STEADY * crowd)
        several = Component(1.0 - alone, least, crowd - least, maximum(rest, (_LEAST_SPREAD * crowd) ** 2))
        stalls = [stall._replace(weight=alone * stall.weight) for stall in single]
        parts.append(case.plain._replace(weight=weight * (1.0 - share)))
        parts += _stalled(case, [*stalls, several], weight * share)
    return tuple(parts)


def _between_runs(case: Case, run: Run, time: Real, of_first: Real) -> tuple[Component, ...]:
    """Users: the first gap of a request holds the passes that follow its own, another one a whole run, or none.

    `time`: of a prompt [s]; `of_first`: share of the gaps.
    """
    own = run.in_first * run.after_first + (1.0 - run.in_first) * run.after_later
    rest = maximum(case.mean - case.met.plain - of_first * own, 0.0) / maximum(1.0 - of_first, NANO)
    runs = (
        (1.0 - of_first, rest, maximum(run.time, rest), run.variance),
        (of_first * run.in_first, run.after_first, maximum(run.after_first, time), run.after_variance),
        (of_first * (1.0 - run.in_first), run.after_later, maximum(run.after_later, time), run.after_variance),
    )
    parts: list[Component] = []
    for weight, mean, stall, spread in runs:
        share = mean / maximum(stall, _TINY)
        least = minimum(time, _STEADY * stall)
        one = Component(1.0, least, stall - least, maximum(spread, (_LEAST_SPREAD * stall) ** 2))
        parts.append(case.plain._replace(weight=weight * (1.0 - share)))
        parts += _stalled(case, [one], weight * share)
    return tuple(parts)
