"""Latency distributions over the requests of a load, as mixtures of shifted gammas.

Means come from `serving.load.equations`; this module adds their spread: the step running on arrival, prompts that
arrive
together, lengths, waits for a slot, cold starts. docs/method.md, "Tails", has the equations, docs/load.md their
errors
against a simulation of every step.

"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from roofline.numbers.operations import Real, any_of, is_nan, maximum, minimum, negated, never, where
from roofline.numbers.quantity import BILLION, NANO
from roofline.physics.plan import Deployment
from roofline.serving.latency import (
    Served,
    Workload,
    lanes,
    mean_steps,
    time_per_token,
)
from roofline.serving.load.equations import FULL, all_slots_taken, saturation, server_of, slot_wait
from roofline.serving.load.gaps import Case as Gaps
from roofline.serving.load.gaps import gaps
from roofline.serving.load.mixtures import Component, by_prompt_length, mean_of, percentile
from roofline.serving.load.programs import by_program
from roofline.serving.load.rounds import SEVERAL, Meeting, Run, alone_passes, meeting, second_moment, step_of_answer
from roofline.serving.load.server import (
    PROMPTS_FIRST,
    STABLE,
    UNLIMITED,
    Prompt,
    PromptNode,
    Server,
    added,
    added_by_node,
    link_wait,
    prompt_of,
    prompt_tokens,
    turns,
)
from roofline.support.records import NamedTuple, replace

_E = 2.718281828459045
_TINY = 2.0**-200  # of a time or its square, against division by zero
_LEAST_REST = 0.001  # least random part of the TTFT, over a decode step
_STEADY = 0.98  # largest certain part of the mean decode step
_TWO = 2.0  # [tokens]
_CROWDED = 2.0  # standard deviations of a full step, where none is longer
_EARLIER = 2.0  # standard deviations of the host's time that lie before its mean
_FAR = 4.0  # standard deviations of the decoding sequences: bound of the shortest step
_COUNT = 0.8  # variance of the prompts in a cycle, over their number and the cycle's cv: 2 / sqrt(2 pi)
_LEAST_FREE = 0.1
_LATTICE = 1.0 / 6.0  # mean variance of the number of regular events in a time
_SAME_MEAN = 0.05  # relative difference of a distribution's mean from the mean latency, up to which both hold
_UNKNOWN: Any = float("nan")
_MEANS = Served(*(_UNKNOWN for _ in Served._fields))
_EQUAL, _EXPONENTIAL = 0.612, 0.429  # (1/2) / sqrt(2/3), (1/e) / sqrt(2/e): correlations of `_stall_correlation`


class AnswerSlice(NamedTuple):
    """Answers of one length."""

    weight: Real  # share of requests [1]
    tokens: Real  # after the first
    tpot: Component  # over these requests


class Tails(NamedTuple):
    """Latency distributions under a load."""

    ttft: tuple[Component, ...]
    tpot: tuple[Component, ...]
    e2el: tuple[Component, ...]
    itl: tuple[Component, ...]  # over the gaps of all requests
    answers: tuple[AnswerSlice, ...] = ()  # of which TPOT and E2EL are made; empty where requests differ in TTFT alone
    mixed: tuple[tuple[float, Tails], ...] = ()  # of which it is a mixture, with their shares; empty where it is none


class _Settled(NamedTuple):
    """A load with known means."""

    server: Server
    prompt: Prompt
    met: Meeting
    ttft: Real  # [s] mean
    rate: Real  # [1/s] arrivals at the rank while a request is there
    others: Real  # mean other decoding sequences
    users: Real | None  # of the rank, with a slot; None for an open loop
    slot_share: Real  # share of requests that wait for a slot [1]
    slot_wait: Real  # [s] mean wait of these
    slot_variance: Real  # [s^2] of it
    link_rate: Real  # [1/s] requests of the rank
    is_full: Real = False  # prompts that come first keep all slots taken


def tails_at_random(deployment: Deployment, workload: Workload, under_load: Served) -> Tails:
    """`steady.tails` of users or random arrivals.

    Args:
        deployment: the ranks that share the load.
        workload: without arrivals of its own.
        under_load: its means.

    Returns:
        The distributions.

    Valid:
        As for the means, with a coefficient of variation of prompts up to 0.3. TTFT and TPOT of a request are assumed
        independent, given its lengths.

    Source:
        docs/method.md, "Tails".
    """
    is_stable = where(under_load.is_stable, 1.0, 0.0)
    means = under_load.ttft, under_load.decode, is_stable, *under_load.state
    known: Tails | None = by_program(_of_means, deployment, workload, means) if any_of(under_load.is_stable) else None
    if known is None:
        known = tails_by_formulas(deployment, workload, under_load)
    return known._replace(ttft=_present(known.ttft), e2el=_present(known.e2el), itl=_present(known.itl))


def _present(parts: Sequence[Component]) -> tuple[Component, ...]:
    """Components without those that a case does not have, which a program of all cases has."""
    return tuple(part for part in parts if type(part.weight) is not float or part.weight != 0.0) or tuple(parts)


def _of_means(deployment: Deployment, workload: Workload, means: Sequence[Real]) -> Tails:
    ttft, step, stable, *state = means
    under_load = _MEANS._replace(ttft=ttft, decode=step, is_stable=stable > 0.0, state=tuple(state))
    return tails_by_formulas(deployment, workload, under_load)


def tails_by_formulas(deployment: Deployment, workload: Workload, under_load: Served) -> Tails:
    """As `tails`, without a program."""
    case = _settled(deployment, workload, under_load)
    first, step = _first_token(case), _decode_step(case)
    if case.users is not None and not never(case.server.osl <= 1.0):
        first = _single_tokens(case, workload.load.users_on(lanes(deployment)), first)
    answers = _answers(case, step)
    gaps_case = case._replace(met=case.met._replace(decode=under_load.decode))
    between = _of_two_tokens(case.server, _gaps(gaps_case), step)
    return Tails(first, step, _end_to_end(case, first, answers), between, answers)


def _of_two_tokens(server: Server, gaps: Sequence[Component], step: Sequence[Component]) -> tuple[Component, ...]:
    """Distribution of the gaps: where all answers are of two tokens, that of the TPOT."""
    if not server.lengths.answers.is_fixed or server.deployment.draft is not None or never(server.osl <= _TWO):
        return tuple(gaps)
    is_two = server.osl <= _TWO
    return (
        *(part._replace(weight=where(is_two, 0.0, part.weight)) for part in gaps),
        *(part._replace(weight=where(is_two, part.weight, 0.0)) for part in step),
    )


def latency_percentile(spread: Tails, means: Mapping[str, Real], decode_steps: Real, metric: str, level: float) -> Real:
    """A percentile of a latency, where its distribution can hold.

    Args:
        spread: the distributions.
        means: `ttft`, `tpot`, `itl` and `e2el`, which the distributions must agree with [s].
        decode_steps: tokens after the first where all answers are equal, else 0 [tokens].
        metric: which latency.
        level: percentile [%].

    Returns:
        Time [s]; NaN where the mean of the distribution is not the mean latency, or where the percentile lies well
        below one that bounds it: an E2EL is no shorter than its TTFT, nor than all its TPOTs, and not known without
        them. Prompts are merged in it, so that of short answers to prompts that spread it may be that of the TTFT.

    Source:
        Arithmetic; the closed forms of extreme loads do not always agree with each other.
    """
    parts, mean = getattr(spread, metric), means[metric]
    value = percentile(parts, level)
    is_known = abs(mean_of(parts) - mean) <= _SAME_MEAN * mean
    if metric == "e2el":
        bound = latency_percentile(spread, means, 0.0, "ttft", level)
        is_known = is_known & negated(is_nan(bound))
        value = maximum(value, bound)
        if not never(decode_steps > 0.0):
            step = latency_percentile(spread, means, 0.0, "tpot", level)
            steps = where(decode_steps > 0.0, decode_steps * step, 0.0)
            is_known = is_known & negated(is_nan(steps)) & (value >= (1.0 - _SAME_MEAN) * steps)
            value = maximum(value, steps)
        several = mean > means["ttft"]  # single tokens end with the first
        is_known, value = negated(several) | is_known, where(several, value, bound)
    return where(is_known, value, float("nan"))


def _settled(deployment: Deployment, workload: Workload, under_load: Served) -> _Settled:
    """A load at the fixed point of its means."""
    server = server_of(deployment, workload)
    prompt, ranks = prompt_of(server), lanes(deployment)
    full = saturation(replace(server, users=UNLIMITED), prompt)
    seen = under_load.state[1]
    users = workload.load.users_on(ranks)
    if users is None:
        others = minimum(under_load.state[0], full.slots)
        rate = minimum(workload.request_rate / ranks, FULL * full.rate)
        met, is_full = meeting(server, prompt, rate, others, seen, None), False
        if server.engine.scheduler == PROMPTS_FIRST:  # with all slots taken, every answer takes as long
            within = minimum(all_slots_taken(server, full, rate) / maximum(met.decode, _TINY), 1.0)
            is_full = within < 1.0
            varies = where(is_full, 0.0, 1.0)
            met = met._replace(
                mean_step=within * met.mean_step, surge=within * met.surge, step=within * met.step,
                decode=within * met.decode, stalls=varies * met.stalls, surges=varies * met.surges,
                gain=varies * met.gain, each=varies * met.each,
            )  # fmt: skip
        share, wait = slot_wait(server, full, met, rate, others)
        wait = wait / maximum(share, NANO)
        ttft = where(under_load.is_stable, under_load.ttft, server.before + met.stage)
        return _Settled(server, prompt, met, ttft, rate, others, None, share, wait, wait * wait, rate, is_full)
    inside = maximum(minimum(users, full.slots), 1.0)
    others, completions = minimum(under_load.state[0], inside - 1.0), under_load.state[2]
    rate = completions * (inside - 1.0) / inside
    wait = (users - inside) / completions  # so many answers must end first
    met = meeting(server, prompt, rate, others, seen, inside, wait)
    ttft = where(under_load.is_stable, under_load.ttft, server.before + met.stage)
    away = server.before + link_wait(server, completions, inside).over_all + met.late
    wait = maximum(wait - away, 0.0)
    even = minimum(_COUNT * server.lengths.answers.cv, 1.0)  # variance of the answers that end, over Poisson's
    return _Settled(server, prompt, met, ttft, rate, others, inside, 1.0, wait, even * wait / completions, completions)


def _first_token(case: _Settled) -> tuple[Component, ...]:
    """Distribution of the TTFT."""
    server, met, users = case.server, case.met, case.users
    nobody, in_slots = (where(share > NANO, share, 0.0) for share in (met.nobody, case.slot_share))
    in_slots = minimum(in_slots / maximum(1.0 - nobody, NANO), 1.0)  # who waits for a slot finds others who decode
    before = server.engine.network + server.engine.request
    prompts = _prompt_slices(case)
    mean_prompt = sum(weight * time for weight, time, _, _ in prompts)
    evenly = case.prompt.alone / sum(
        weight * alone for weight, _, alone, _ in prompts
    )  # slices have not quite its mean
    slots = case.slot_share * case.slot_wait
    mean_before = server.before + link_wait(server, case.link_rate, users).over_all
    with_others = (case.ttft - mean_before - slots - nobody * met.idle) / maximum(1.0 - nobody, NANO)
    arrival, swing = _arrival(case, maximum(1.0 - nobody, NANO))
    rest = maximum(with_others - arrival - mean_prompt, _LEAST_REST * met.plain)
    long = _long_prompts(case)
    earlier = minimum(_EARLIER * swing**0.5, arrival)
    rest = maximum(rest - long.share * long.mean, _LEAST_REST * met.plain)
    variance = maximum(_rest_variance(case, rest, long), (_LEAST_REST * met.plain) ** 2) + swing
    rest = rest + earlier
    wait = maximum(met.idle - case.prompt.alone, 0.0)
    # Where no sequence decodes, some requests wait an exponential time for other prompts, the rest not at all.
    busy = maximum(minimum(case.rate * case.prompt.alone, 1.0 - NANO), NANO)
    idle_variance = wait * wait * (2.0 - busy) / busy
    parts: list[Component] = []
    for weight, time, alone, load_time in prompts:
        least, others_decode, first_new = before + arrival - earlier + time, weight * (1.0 - nobody), len(parts)
        if users is None:
            if not never(in_slots > 0.0):
                spread = variance + case.slot_variance
                parts.append(Component(others_decode * in_slots, least, rest + case.slot_wait, spread))
            others_decode = others_decode * (1.0 - in_slots)
            if not never(long.share > 0.0):
                spread = variance + long.variance
                parts.append(Component(others_decode * long.share, least, rest + long.mean, spread))
            parts.append(Component(others_decode * (1.0 - long.share), least, rest, variance))
        else:
            parts.append(_among_users(case, others_decode, least, rest, variance, 2.0 * earlier))
        if not never(nobody > 0.0):
            slot_delay, slot_variance = (0.0, 0.0) if users is None else (case.slot_wait, case.slot_variance)
            spread = idle_variance + slot_variance
            parts.append(Component(weight * nobody, before + evenly * alone, wait + slot_delay, spread))
        if load_time is not None:
            parts[first_new:] = [_with_load(case, part, load_time) for part in parts[first_new:]]
    return _with_cold_starts(server, parts)


def _arrival(case: _Settled, busy: Real) -> tuple[Real, Real]:
    """Host time of requests that arrive while others decode, a share `busy`: its mean [s] and variance [s^2].

    It goes with the square root of their number, so that its mean square goes with their mean number.
    """
    mean = case.met.late / busy
    by_others = mean - case.prompt.lag
    return mean, maximum(case.server.engine.arrival**2 * case.others / busy - by_others * by_others, 0.0)


def _single_tokens(case: _Settled, users: Real, first: Sequence[Component]) -> tuple[Component, ...]:
    """TTFT of users whose answers are single tokens: a round of everybody's prompts, whose lengths vary."""
    server, is_single = case.server, case.server.osl <= 1.0
    passes = alone_passes(server, case.prompt, 1.0)
    spread = maximum(second_moment(server, case.prompt, passes.full) - passes.full**2, 0.0)
    least = server.engine.network + server.engine.request
    rest = maximum(case.ttft - least, _TINY)
    one = Component(1.0, least, rest, maximum(users * spread, (_LEAST_REST * rest) ** 2))
    return (
        *(part._replace(weight=where(is_single, 0.0, part.weight)) for part in first),
        one._replace(weight=where(is_single, 1.0, 0.0)),
    )


def _with_load(case: _Settled, part: Component, time: Real) -> Component:
    """Add the load of a prefix, behind the loads of others."""
    wait = link_wait(case.server, case.link_rate, case.users)
    others = float("inf") if case.users is None else (case.users - 1.0) * time
    return part._replace(
        least=part.least + time,
        mean=part.mean + wait.mean,
        variance=part.variance + wait.variance,
        most=part.most + others,
    )


def _among_users(case: _Settled, weight: Real, least: Real, rest: Real, variance: Real, host: Real) -> Component:
    """TTFT where others decode: at most one prompt per other user precedes the request's own, and `host` of it [s]."""
    met, rho = case.met, maximum(case.met.rho, NANO)
    other_users = 0.0 if case.users is None else case.users - 1.0
    most = maximum(other_users * met.prompt + 2.0 * met.plain + host, rest)
    spread = variance * (1.0 - rest / most)  # as for a binomial number of prompts
    spread = minimum(spread, rest * rest * maximum(1.0 / rho - 1.0, 1.0))
    most = where(case.slot_wait > 0.0, float("inf"), most)
    return Component(weight, least, rest + case.slot_wait, spread + case.slot_variance, most)


def _with_cold_starts(server: Server, parts: Sequence[Component]) -> tuple[Component, ...]:
    """Add the requests that meet a cold start."""
    if server.cold_start is None:
        return tuple(parts)
    share, time = server.cold_start
    if share == 1.0:
        return tuple(part.later(time, share) for part in parts)
    warm = [part.later(0.0, 1.0 - share) for part in parts]
    return (*warm, *(part.later(time, share) for part in parts))


def _prompt_slices(case: _Settled) -> list[tuple[Real, Real, Real, Real | None]]:
    """Per slice of prompts, hits before misses: weight, time among others and alone, load of the prefix [s].

    Time among others includes its decode steps; the load is None where nothing is loaded.
    """
    server, prompt, met = case.server, case.prompt, case.met
    decoding = 1.0 + case.others
    base = _step_base(case)
    slices: list[tuple[Real, Real, Real, Real | None]] = []
    for kind, (weight, share) in product(server.kinds, server.lengths.prompts.slices):
        tokens = prompt_tokens(server, kind, share)
        times = server.prompt(tokens, kind.cached)
        if server.engine.scheduler == PROMPTS_FIRST:
            step = tokens / turns(tokens, server.budget, 0.0)
            time = added(server, prompt, decoding, base, step, tokens, times.attention)
        else:
            time = added(server, prompt, decoding, base, minimum(met.room, tokens), tokens, times.attention)
            time = time + met.plain * turns(tokens, met.room, case.others * server.deployment.queries**2)
        slices.append((weight * kind.weight, time, times.alone, kind.loading if kind.is_loaded else None))
    return slices


class _Long(NamedTuple):
    """Prompts of others that take several times as long as the mean one, and the wait behind one."""

    share: Real = 0.0  # of the requests that wait behind one [1]
    mean: Real = 0.0  # [s] of their wait
    variance: Real = 0.0  # [s^2]
    second: Real = 0.0  # [s^2] their part in the mean square of the time that a prompt adds, and in its cube [s^3]
    third: Real = 0.0
    queue: Real = 0.0  # [s] their part in the wait for the token budget


_LONG = 4.0  # times of a mean prompt
_MOST_LONG = 0.5  # share of the requests behind a long one
_LEAST_CV = 0.5  # of prompts, for any to be long


def _long_prompts(case: _Settled) -> _Long:
    r"""The wait of random arrivals behind long prompts, which a gamma distribution of all waits would spread too far.

    .. math:: q = \sum \frac{l\, w_i\, t_i}{1 - l\, E[t]}

    Whoever arrives while one is computed, or before what has gathered meanwhile is, waits between 0 and t, evenly.

    Source:
        The work of an M/G/1 queue after the arrival of a long service falls from t at 1 - rho.
    """
    server, prompt, met = case.server, case.prompt, case.met
    if case.users is not None or server.lengths.prompts.cv < _LEAST_CV:
        return _Long()
    is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
    usual = met.each if is_prompts_first else met.prompt
    slower = 1.0 if is_prompts_first else met.in_full / maximum(usual, _TINY)  # in full steps
    load = minimum(case.rate * usual * slower, STABLE)
    share: Real = 0.0
    waits: Real = 0.0
    squares: Real = 0.0
    second: Real = 0.0
    third: Real = 0.0
    for node in prompt.nodes:
        added_time = added_by_node(server, prompt, usual, node)
        weight = where((usual > 0.0) & (added_time > _LONG * usual), node.weight, 0.0)
        second, third = second + weight * added_time**2, third + weight * added_time**3
        time = added_time * slower
        here = case.rate * weight * time / (1.0 - load)
        share, waits, squares = share + here, waits + here * time / 2.0, squares + here * time**2 / 3.0
    kept = minimum(1.0, _MOST_LONG / maximum(share, _TINY))
    mean = waits / maximum(share, _TINY)
    variance = maximum(squares / maximum(share, _TINY) - mean**2, 0.0)
    queue = case.rate * second * slower**2 / (2.0 * (1.0 - load))
    return _Long(share * kept, mean, variance, second, third, queue)


def _rest_variance(case: _Settled, rest: Real, long: _Long = _Long()) -> Real:  # noqa: B008  # without any
    """Variance of the time before and with one's own prompt, given its mean, without long prompts of others [s^2]."""
    met, rate, rho = case.met, case.rate, case.met.rho
    if met.run is not None:
        return met.run.rest_variance
    is_prompts_first = case.server.engine.scheduler == PROMPTS_FIRST
    plain, mean = met.plain, met.mean_step
    follow = minimum(rate * met.each, 1.0 - NANO) if is_prompts_first else rho
    biased = maximum(met.biased - rate * long.second / (1.0 - follow**2), plain / 2.0)
    second, third = _moments(case)
    second, third = second - long.second, third - long.third
    if is_prompts_first:
        rho, fixed, each = minimum(rate * met.each, 1.0 - NANO), met.fixed, met.each
        count = 1.0 + rate * biased  # prompts of a pass, over passes times prompts
        cube = fixed**3 / met.together + 3.0 * each * fixed**2 + 3.0 * fixed * second * count
        cube = rate * (cube + third + 3.0 * second * rho * biased) + plain**2 * (1.0 - met.rho)
    else:
        cube = plain**3 / mean + 3.0 * plain * rho * (plain + rho * biased)
        cube = cube + 3.0 * rate * second * (plain + rho * biased) + rate * third
    cube = cube / (1.0 - rho**3)
    marginal = _marginal_prompt(case)
    with_it = marginal * rho  # an additional prompt in a step adds less than the average one
    mean_wait = biased / 2.0 + with_it * biased
    variance = cube * (1.0 / 3.0 + with_it + with_it**2) - mean_wait * mean_wait
    variance = maximum(variance + marginal**2 * rate * second * biased, 0.0)
    wait = 0.0 if is_prompts_first else maximum(met.wait - long.queue, 0.0)
    if is_prompts_first or case.users is not None:  # rescaled to their mean
        variance = variance * ((rest - wait) / (biased / 2.0 + rho * biased)) ** 2
    if case.users is not None:  # fewer prompts can arrive together, as in the means
        variance = variance * (1.0 - rho)
    slope = _slope(case)
    per_sequence = slope / 2.0 if is_prompts_first else slope  # the request's own prompt runs without decoding
    wait_variance = wait**2 * maximum(2.0 / maximum(met.rho_chunks, NANO) - 1.0, 0.0)
    return variance + wait_variance + _crowd_variance(case, slope) * per_sequence**2


def _marginal_prompt(case: _Settled) -> Real:
    """Time that an additional prompt adds to a step with prompts, over the mean one [1]."""
    server, prompt, met = case.server, case.prompt, case.met
    if server.engine.scheduler == PROMPTS_FIRST:
        return 1.0
    decoding, base = 1.0 + case.others, _step_base(case)
    few = minimum(met.room, prompt.length * (1.0 + case.rate * met.seen))
    more = minimum(met.room, few + prompt.length)
    few_added = added(server, prompt, decoding, base, few, prompt.length, prompt.attention)
    more_added = added(server, prompt, decoding, base, more, prompt.length, prompt.attention)
    return where(more > few, (more * more_added - few * few_added) / (maximum(more - few, 1.0) * few_added), 1.0)


def _step_base(case: _Settled) -> Real:
    """Step time without a prompt, except attention, head and host [s]; 0 for prompts first, which decode separately."""
    is_prompts_first = case.server.engine.scheduler == PROMPTS_FIRST
    return 0.0 if is_prompts_first else case.server.linear(1.0 + case.others, 0.0)


def _moments(case: _Settled) -> tuple[Real, Real]:
    """Mean square and cube of the time that a prompt adds to others [s^2, s^3]."""
    prompt, met = case.prompt, case.met
    usual = met.each if case.server.engine.scheduler == PROMPTS_FIRST else met.prompt

    def added_time(node: PromptNode) -> Real:
        return added_by_node(case.server, prompt, usual, node)

    return prompt.mean(lambda node: added_time(node) ** 2), prompt.mean(lambda node: added_time(node) ** 3)


def _slope(case: _Settled) -> Real:
    """Growth of a decode step per additional sequence [s]."""
    low = maximum(0.5 + case.others, 1.0)
    step: Callable[[Real], Real] = lambda sequences: case.server.decode(sequences).total  # noqa: E731
    return maximum(step(low + 1.0) - step(low), 0.0)


def _recovery_rate(case: _Settled, slope: Real) -> Real:
    """Rate at which the number of decoding sequences returns to its mean, over that with constant step times [1]."""
    met, others = case.met, case.others
    longer = (slope + met.prompt / case.server.steps) / maximum(met.step, _TINY)
    return maximum(1.0 - others * _free_share(case) * longer, _LEAST_FREE)


def _free_share(case: _Settled) -> Real:
    """Share of the other users who do not decode [1]; 1 for an open loop."""
    return 1.0 if case.users is None else maximum(1.0 - case.others / maximum(case.users - 1.0, NANO), 0.0)


def _crowd_variance(case: _Settled, slope: Real) -> Real:
    """Variance of the number of decoding sequences: above Poisson's, as steps grow with it."""
    return case.others * _free_share(case) / _recovery_rate(case, slope)


def _decode_step(case: _Settled) -> tuple[Component, ...]:
    """Distribution of a request's TPOT."""
    server, met, rate = case.server, case.met, case.rate
    slope = _slope(case)
    crowd = _crowd_variance(case, slope)
    second, _ = _moments(case)
    first_variance = _rest_variance(case, met.biased / 2.0)
    low = server.decode(maximum(1.0 + case.others - _FAR * crowd**0.5, 1.0)).total
    answers = server.lengths.answers
    cycle = server.before + link_wait(server, case.link_rate, case.users).over_all + met.stage + met.decode
    parts = []
    for weight, share in answers.slices:
        steps, span = maximum(server.steps_of(share), 1.0), maximum(server.osl * share, 2.0) / server.osl
        counted = weight if answers.is_fixed else where(server.steps_of(share) >= SEVERAL, weight, 0.0)
        crowd_part = crowd * slope**2 * _averaged_variance(case, span, slope)
        if met.run is not None:
            for part in _steps_between_runs(case, met.run, steps, crowd_part, low, cycle):
                parts.append(_per_token(server, part._replace(weight=counted * part.weight), share))
            continue
        time = step_of_answer(steps, met.mean_step, met.surge, met.rounds, met.plain, met.longest)
        least = minimum(low, _STEADY * time)
        is_bulk = server.engine.scheduler == PROMPTS_FIRST
        stalls = met.stalls / steps if is_bulk else rate * second * met.mean_step / steps
        if case.users is None and is_bulk:
            crowd_part, follow = crowd_part * met.gain**2, minimum(rate * met.each, 1.0 - NANO)
            late = (follow / (1.0 - follow)) ** 2 * first_variance
            stalls = stalls + (met.surges + late) / steps**2
            variance = crowd_part + stalls + 2.0 * _stall_correlation(answers.cv) * (crowd_part * stalls) ** 0.5
        elif case.users is None:
            # An arrival stalls the answer once, then decodes beside it: correlated. Slower answers meet more arrivals.
            behind = met.surge * (1.0 - met.rho) / maximum(met.prompt, _TINY)  # prompts behind one's own
            stalls = stalls + maximum(behind, 0.0) * second / steps**2
            covariance = 2.0 * _stall_correlation(answers.cv) * (crowd_part * stalls) ** 0.5
            variance = (crowd_part + stalls + covariance) / (1.0 - met.rho) ** 2
            longest = minimum(met.longest, BILLION * met.plain)  # infinite where there are no prompts
            variance = minimum(variance, crowd_part + (time - met.plain) * maximum(longest - time, 0.0))
        else:  # about one prompt per user and cycle; slowed-down users send fewer
            cycles = steps * time / cycle
            randomness = minimum(1.0 - met.rho, _COUNT * answers.cv + maximum(cycles - 1.0, 1.0 - cycles))
            variance = crowd_part + randomness * stalls
        # No step is longer than a full one, but for the sequences that decode.
        most = maximum(met.longest - least, time - least) + _CROWDED * crowd_part**0.5
        parts.append(_per_token(server, Component(counted, least, time - least, variance, most), share))
    if answers.is_fixed:
        return tuple(parts)
    several = sum(part.weight for part in parts)  # single tokens have no TPOT
    return tuple(
        part._replace(weight=where(several > 0.0, part.weight / maximum(several, _TINY), 1.0 / len(parts)))
        for part in parts
    )


def _steps_between_runs(
    case: _Settled, run: Run, steps: Real, crowd: Real, low: Real, cycle: Real
) -> Iterable[Component]:
    """Decode step of an answer of some steps, for prompts in the first pass of a run and in later ones.

    `crowd`: its variance from the number of sequences [s^2]; `low`: its least value; `cycle`: of a user [s].
    """
    met, answers = case.met, case.server.lengths.answers
    regular = run.quiet / run.phase
    # Runs begin with the end of an answer, with a chance of 1/(n - a) per step.
    by_chance = maximum(1.0 - 1.0 / maximum(run.phase - run.quiet, 1.0), 0.0) * (1.0 - regular) ** 2
    for weight, after in ((run.in_first, run.after_first), (1.0 - run.in_first, run.after_later)):
        time = step_of_answer(steps, met.mean_step, after, 0.0, met.plain, met.longest, run)
        number = maximum(time - met.plain - after / steps, 0.0) * steps / maximum(run.time, _TINY)
        cycles = steps * time / cycle
        randomness = minimum(1.0, _COUNT * answers.cv + maximum(cycles - 1.0, 1.0 - cycles))
        stalls = randomness * number * (run.time**2 * by_chance + run.variance)
        stalls = stalls + minimum(number, _LATTICE) * regular * run.time**2
        least = minimum(low, _STEADY * time)
        yield Component(weight, least, time - least, crowd + (stalls + run.after_variance) / steps**2)


def _plain_step(case: _Settled, mean: Real) -> Component:
    """Distribution of a decode step without prompts."""
    slope = _slope(case)
    crowd = _crowd_variance(case, slope)
    low = case.server.decode(maximum(1.0 + case.others - _FAR * crowd**0.5, 1.0)).total
    least = minimum(low, _STEADY * mean)
    return Component(1.0, least, mean - least, crowd * slope**2)


def _gaps(case: _Settled) -> tuple[Component, ...]:
    """Distribution of the gaps between tokens."""
    is_full = case.is_full if case.users is None else case.slot_wait > 0.0
    plain = _plain_step(case, case.met.plain)
    return gaps(Gaps(case.server, case.prompt, case.met, case.rate, case.others, case.users, plain, is_full))


def _per_token(server: Server, part: Component, share: float) -> Component:
    """Distribution of TPOT from that of step times, with a random number of tokens per step."""
    draft = server.deployment.draft
    if draft is None:
        return part
    steps = maximum(server.steps_of(share), 1.0)
    ratio = time_per_token(server.deployment, server.osl * share, 1.0)
    # Relative variance of the number of steps of an answer.
    swing = draft.acceptance.variance / (draft.acceptance.tokens**2 * steps)
    time = part.least + part.mean
    least = part.least * maximum(1.0 - _FAR * swing**0.5, draft.acceptance.tokens / server.deployment.queries)
    most = (part.least + part.most) * (1.0 + _FAR * swing**0.5) - least
    variance = (part.variance + swing * time**2) * ratio**2
    return Component(part.weight, least * ratio, (time - least) * ratio, variance, most * ratio)


def _averaged_variance(case: _Settled, span: Real, slope: Real) -> Real:
    r"""Variance of the number of decoding sequences averaged over an answer, over its instantaneous variance.

    .. math:: 1 - \frac{z}{3}\ (z \le 1),\quad \frac{1}{z} - \frac{1}{3 z^2}\ (z > 1),\qquad
              \frac{2 (z - 1 + e^{-z})}{z^2}

    for equal and for exponential answer lengths; in between, interpolated by the square of their cv.

    z is `span`, the answer over the mean one [1]; `slope` the growth of a step per additional sequence [s].

    Source:
        M/G/infinity: the autocorrelation at a lag is the share of answers still running after it.
    """
    answers = case.server.lengths.answers
    lasting = span * _recovery_rate(case, slope)
    long = maximum(lasting, 1.0)
    equal = where(lasting <= 1.0, 1.0 - lasting / 3.0, 1.0 / long - 1.0 / (3.0 * long * long))
    z = maximum(lasting / maximum(answers.biased / 2.0, 1.0), NANO**0.5)
    exponential = 2.0 * (z - 1.0 + _E ** (0.0 - z)) / (z * z)
    share = min(answers.cv**2, 1.0)
    return (1.0 - share) * equal + share * exponential


def _stall_correlation(cv: float) -> float:
    """Correlation of stalls and crowd over a mean answer, between those of equal and of exponential answers."""
    share = min(cv**2, 1.0)
    return (1.0 - share) * _EQUAL + share * _EXPONENTIAL


def _answers(case: _Settled, step: Sequence[Component]) -> tuple[AnswerSlice, ...]:
    """Answers by their length, each with its TPOT: for prompts in the first pass of a run, and in later ones."""
    osl, run, slices = case.server.osl, case.met.run, case.server.lengths.answers.slices
    shares = (1.0,) if run is None else (run.in_first, 1.0 - run.in_first)
    lengths = [(weight * part, share) for weight, share in slices for part in shares]
    return tuple(
        AnswerSlice(weight, where(osl > 1.0, maximum(osl * share - 1.0, 0.0), 0.0), part)
        for (weight, share), part in zip(lengths, step, strict=True)
    )


def _end_to_end(case: _Settled, first: Sequence[Component], answers: Sequence[AnswerSlice]) -> tuple[Component, ...]:
    """Distribution of the E2EL: TTFT plus decode time, for each length of the answer."""
    if never(case.server.osl > 1.0):
        return tuple(first)
    parts = []
    prompts = case.server.lengths.prompts
    if not (prompts.is_fixed or case.server.lengths.answers.is_fixed):  # of both there are too many
        is_mixed = case.server.cold_start is not None and case.server.cold_start[0] < 1.0
        size = len(first) // (len(case.server.kinds) * (2 if is_mixed else 1))
        groups = [first[start : start + size] for start in range(0, len(first), size)]
        first = [ttft for group in groups for ttft in by_prompt_length(group, prompts)]
    for weight, tokens, tpot in answers:
        for ttft in first:
            least, mean = ttft.least + tokens * tpot.least, ttft.mean + tokens * tpot.mean
            variance = ttft.variance + tokens**2 * tpot.variance
            parts.append(Component(ttft.weight * weight, least, mean, variance))
    return tuple(parts)


def decode_tails(
    server: Server, met: Meeting, rate: Real, others: Real, users: Real | None, first: Sequence[Component]
) -> Tails:
    """Latency distributions where a rank only decodes and first tokens come from elsewhere.

    Args:
        server: the rank that decodes.
        met: conditions of a request there, without prompts.
        rate: arrivals at the rank while a request is there [1/s].
        others: mean other decoding sequences [sequences].
        users: of the rank; None for an open loop [requests].
        first: distribution of the TTFT, without cold starts.

    Returns:
        The distributions.

    Source:
        docs/method.md, "Tails".
    """
    no_prompt = Prompt(server.computed, 0.0, 0.0, 0.0)
    case = _Settled(server, no_prompt, met, met.stage, rate, others, users, 0.0, 0.0, 0.0, 0.0)
    step, parts = _decode_step(case), _with_cold_starts(server, first)
    mean = met.decode / maximum(mean_steps(server.deployment, server.osl, server.lengths.answers), NANO)
    answers = _answers(case, step)
    return Tails(parts, step, _end_to_end(case, parts, answers), (_plain_step(case, mean),), answers)
