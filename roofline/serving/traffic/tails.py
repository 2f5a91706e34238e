"""Latency distributions over the requests of a load, as mixtures of shifted gammas.

Means come from `serving.traffic.load`; this module adds their spread: the step running on arrival, prompts that arrive
together, lengths, waits for a slot, cold starts. docs/method.md, "Tails", has the equations, docs/load.md their errors
against a simulation of every step.

"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from roofline.elements import is_nan, negated
from roofline.ops import Real, maximum, minimum, never, where
from roofline.physics.plan import Deployment
from roofline.quantity import NANO
from roofline.records import NamedTuple, replace
from roofline.serving.latency import Workload, time_per_token
from roofline.serving.served import Served, lanes
from roofline.serving.traffic.link import link_wait
from roofline.serving.traffic.load import FULL, server_of
from roofline.serving.traffic.mixture import Component, by_prompt_length, mean_of, percentile
from roofline.serving.traffic.prompts import Prompt, PromptNode, added, added_by_node, prompt_of, prompt_tokens, turns
from roofline.serving.traffic.queueing import Meeting, meeting, step_of_answer
from roofline.serving.traffic.server import PROMPTS_FIRST, UNLIMITED, Server
from roofline.serving.traffic.slots import saturation, slot_wait
from roofline.specs.slo import LEVELS

__all__ = ["LEVELS", "Tails", "decode_tails", "latency_percentile", "tails"]

_E = 2.718281828459045
_TINY = 2.0**-200  # of a time or its square, against division by zero
_LEAST_REST = 0.001  # least random part of the TTFT, over a decode step
_STEADY = 0.98  # largest certain part of the mean decode step
_FAR = 4.0  # standard deviations of the decoding sequences: bound of the shortest step
_COUNT = 0.8  # variance of the prompts in a cycle, over their number and the cycle's cv: 2 / sqrt(2 pi)
_LEAST_FREE = 0.1
_SAME_MEAN = 0.05  # relative difference of a distribution's mean from the mean latency, up to which both hold
_EQUAL, _EXPONENTIAL = 0.612, 0.429  # (1/2) / sqrt(2/3), (1/e) / sqrt(2/e): correlations of `_stall_correlation`


class Tails(NamedTuple):
    """Latency distributions under a load."""

    ttft: tuple[Component, ...]
    tpot: tuple[Component, ...]
    e2el: tuple[Component, ...]


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


def tails(deployment: Deployment, workload: Workload, under_load: Served) -> Tails:
    """Distributions of TTFT, TPOT and E2EL over the requests of a load.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths and load, without `num_prompts`: of the steady state.
        under_load: its means.

    Returns:
        The distributions; meaningless for a load without a steady state.

    Valid:
        As for the means, with a coefficient of variation of prompts up to 0.3. TTFT and TPOT of a request are assumed
        independent, given its lengths.

    Source:
        docs/method.md, "Tails".
    """
    case = _settled(deployment, workload, under_load)
    first, step = _first_token(case), _decode_step(case)
    return Tails(first, step, _end_to_end(case, first, step))


def latency_percentile(spread: Tails, means: Mapping[str, Real], decode_steps: Real, metric: str, level: float) -> Real:
    """A percentile of a latency, where its distribution can hold.

    Args:
        spread: the distributions.
        means: `ttft`, `tpot` and `e2el`, which the distributions must agree with [s].
        decode_steps: tokens after the first where all answers are equal, else 0 [tokens].
        metric: which latency.
        level: percentile [%].

    Returns:
        Time [s]; NaN where the mean of the distribution is not the mean latency, or where the percentile lies well
        below one that bounds it: an E2EL is no shorter than its TTFT, nor than all its TPOTs, and not known without
        them.

    Source:
        Arithmetic; the closed forms of extreme loads do not always agree with each other.
    """
    parts, mean = getattr(spread, metric), means[metric]
    value = percentile(parts, level)
    is_known = abs(mean_of(parts) - mean) <= _SAME_MEAN * mean
    if metric == "e2el":
        bound = latency_percentile(spread, means, 0.0, "ttft", level)
        is_known = is_known & negated(is_nan(bound))
        if not never(decode_steps > 0.0):
            step = latency_percentile(spread, means, 0.0, "tpot", level)
            steps = where(decode_steps > 0.0, decode_steps * step, 0.0)
            is_known, bound = is_known & negated(is_nan(steps)), maximum(bound, steps)
        several = mean > means["ttft"]  # single tokens end with the first
        is_known = negated(several) | (is_known & (value >= (1.0 - _SAME_MEAN) * bound))
        value = where(several, maximum(value, bound), bound)
    return where(is_known, value, float("nan"))


def _settled(deployment: Deployment, workload: Workload, under_load: Served) -> _Settled:
    """A load at the fixed point of its means."""
    server = server_of(deployment, workload)
    prompt, ranks = prompt_of(server), lanes(deployment)
    full = saturation(replace(server, users=UNLIMITED), prompt)
    seen = under_load.state[1]
    if workload.concurrency is None:
        others = minimum(under_load.state[0], full.slots)
        rate = minimum(workload.request_rate / ranks, FULL * full.rate)
        met = meeting(server, prompt, rate, others, seen, None)
        share, wait = slot_wait(server, full, met, rate, others)
        wait = wait / maximum(share, NANO)
        ttft = where(under_load.is_stable, under_load.ttft, server.before + met.stage)
        return _Settled(server, prompt, met, ttft, rate, others, None, share, wait, wait * wait, rate)
    users = maximum(workload.concurrency / ranks, 1.0)
    inside = maximum(minimum(users, full.slots), 1.0)
    others, completions = minimum(under_load.state[0], inside - 1.0), under_load.state[2]
    rate = completions * (inside - 1.0) / inside
    met = meeting(server, prompt, rate, others, seen, inside)
    ttft = where(under_load.is_stable, under_load.ttft, server.before + met.stage)
    wait = (users - inside) / completions  # so many answers must end first
    even = minimum(_COUNT * server.lengths.answers.cv, 1.0)  # variance of the answers that end, over Poisson's
    return _Settled(server, prompt, met, ttft, rate, others, inside, 1.0, wait, even * wait / completions, completions)


def _first_token(case: _Settled) -> tuple[Component, ...]:
    """Distribution of the TTFT."""
    server, met, users = case.server, case.met, case.users
    nobody, in_slots = (where(share > NANO, share, 0.0) for share in (met.nobody, case.slot_share))
    before = server.engine.network + server.engine.request
    prompts = _prompt_slices(case)
    mean_prompt = sum(weight * time for weight, time, _, _ in prompts)
    slots = case.slot_share * case.slot_wait
    mean_before = server.before + link_wait(server, case.link_rate, users).over_all
    with_others = (case.ttft - mean_before - slots - nobody * met.idle) / maximum(1.0 - nobody, NANO)
    rest = maximum(with_others - server.engine.arrival - mean_prompt, _LEAST_REST * met.plain)
    variance = maximum(_rest_variance(case, rest), (_LEAST_REST * met.plain) ** 2)
    wait = maximum(met.idle - case.prompt.alone, 0.0)
    # Where no sequence decodes, some requests wait an exponential time for other prompts, the rest not at all.
    busy = maximum(minimum(case.rate * case.prompt.alone, 1.0 - NANO), NANO)
    idle_variance = wait * wait * (2.0 - busy) / busy
    parts: list[Component] = []
    for weight, time, alone, load_time in prompts:
        least, others_decode, first_new = before + server.engine.arrival + time, weight * (1.0 - nobody), len(parts)
        if users is None:
            if not never(in_slots > 0.0):
                spread = variance + case.slot_variance
                parts.append(Component(others_decode * in_slots, least, rest + case.slot_wait, spread))
            parts.append(Component(others_decode * (1.0 - in_slots), least, rest, variance))
        else:
            parts.append(_among_users(case, others_decode, least, rest, variance))
        if not never(nobody > 0.0):
            slot_delay, slot_variance = (0.0, 0.0) if users is None else (case.slot_wait, case.slot_variance)
            spread = idle_variance + slot_variance
            parts.append(Component(weight * nobody, before + alone, wait + slot_delay, spread))
        if load_time is not None:
            parts[first_new:] = [_with_load(case, part, load_time) for part in parts[first_new:]]
    return _with_cold_starts(server, parts)


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


def _among_users(case: _Settled, weight: Real, least: Real, rest: Real, variance: Real) -> Component:
    """TTFT where others decode: at most one prompt per other user precedes the request's own."""
    met, rho = case.met, maximum(case.met.rho, NANO)
    other_users = 0.0 if case.users is None else case.users - 1.0
    most = maximum(other_users * met.prompt + 2.0 * met.plain, rest)
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


def _rest_variance(case: _Settled, rest: Real) -> Real:
    """Variance of the time before and with a request's own prompt, given its mean [s^2]."""
    met, rate, rho = case.met, case.rate, case.met.rho
    plain, biased, mean = met.plain, met.biased, met.mean_step
    second, third = _moments(case)
    is_prompts_first = case.server.engine.scheduler == PROMPTS_FIRST
    if is_prompts_first:
        cube = rate * third + 3.0 * rate * second * rho * biased + plain**2 * (1.0 - rho)
    else:
        cube = plain**3 / mean + 3.0 * plain * rho * (plain + rho * biased)
        cube = cube + 3.0 * rate * second * (plain + rho * biased) + rate * third
    cube = cube / (1.0 - rho**3)
    marginal = _marginal_prompt(case)
    with_it = marginal * rho  # an additional prompt in a step adds less than the average one
    mean_wait = biased / 2.0 + with_it * biased
    variance = cube * (1.0 / 3.0 + with_it + with_it**2) - mean_wait * mean_wait
    variance = maximum(variance + marginal**2 * rate * second * biased, 0.0)
    wait = 0.0 if is_prompts_first else met.wait
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
    prompt = case.prompt

    def added_time(node: PromptNode) -> Real:
        return added_by_node(case.server, prompt, case.met.prompt, node)

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
    low = server.decode(maximum(1.0 + case.others - _FAR * crowd**0.5, 1.0)).total
    answers = server.lengths.answers
    cycle = server.before + link_wait(server, case.link_rate, case.users).over_all + met.stage + met.decode
    parts = []
    for weight, share in answers.slices:
        steps, span = maximum(server.steps_of(share), 1.0), maximum(server.osl * share, 2.0) / server.osl
        time = step_of_answer(steps, met.mean_step, met.surge, met.rounds, met.plain)
        least = minimum(low, _STEADY * time)
        crowd_part = crowd * slope**2 * _averaged_variance(case, span, slope)
        stalls = rate * second * met.mean_step / steps
        if case.users is None:
            # An arrival stalls the answer once, then decodes beside it: correlated. Slower answers meet more arrivals.
            covariance = 2.0 * _stall_correlation(answers.cv) * (crowd_part * stalls) ** 0.5
            variance = (crowd_part + stalls + covariance) / (1.0 - met.rho) ** 2
        else:  # about one prompt per user and cycle; slowed-down users send fewer
            cycles = steps * time / cycle
            randomness = minimum(1.0 - met.rho, _COUNT * answers.cv + maximum(cycles - 1.0, 1.0 - cycles))
            variance = crowd_part + randomness * stalls
        parts.append(_per_token(server, Component(weight, least, time - least, variance), share))
    return tuple(parts)


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
    return Component(part.weight, least * ratio, (time - least) * ratio, (part.variance + swing * time**2) * ratio**2)


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


def _end_to_end(case: _Settled, first: Sequence[Component], step: Sequence[Component]) -> tuple[Component, ...]:
    """Distribution of the E2EL: TTFT plus decode time, for each length of the answer."""
    if never(case.server.osl > 1.0):
        return tuple(first)
    parts = []
    prompts = case.server.lengths.prompts
    if not prompts.is_fixed:
        is_mixed = case.server.cold_start is not None and case.server.cold_start[0] < 1.0
        size = len(first) // (len(case.server.kinds) * (2 if is_mixed else 1))
        groups = [first[start : start + size] for start in range(0, len(first), size)]
        first = [ttft for group in groups for ttft in by_prompt_length(group, prompts)]
    for (_, share), step_time in zip(case.server.lengths.answers.slices, step, strict=True):
        steps = where(case.server.osl > 1.0, maximum(case.server.osl * share - 1.0, 0.0), 0.0)
        for ttft in first:
            least, mean = ttft.least + steps * step_time.least, ttft.mean + steps * step_time.mean
            variance = ttft.variance + steps**2 * step_time.variance
            parts.append(Component(ttft.weight * step_time.weight, least, mean, variance))
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
    return Tails(parts, step, _end_to_end(case, parts, step))
