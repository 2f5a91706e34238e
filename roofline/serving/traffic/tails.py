"""How latencies are distributed over the requests of a load: mixtures of gammas, each above what it takes at least.

Means are those of `serving.load`; here is what spreads them: the step that runs on arrival, prompts that come together,
lengths that differ, waits for a slot, cold starts. docs/method.md, "Tails", has the equations, docs/load.md how far
they are from a simulation of every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from roofline.ops import Real, maximum, minimum, never, where
from roofline.physics.plan import Deployment
from roofline.quantity import NANO
from roofline.records import NamedTuple, replace
from roofline.serving.latency import Workload, time_per_token
from roofline.serving.served import Served, lanes
from roofline.serving.traffic.link import link_wait
from roofline.serving.traffic.load import FULL, server_of
from roofline.serving.traffic.mixture import Component, by_prompt_length
from roofline.serving.traffic.prompts import Prompt, PromptNode, added, added_by_node, prompt_of, prompt_tokens, turns
from roofline.serving.traffic.queueing import Meeting, meeting, step_of_answer
from roofline.serving.traffic.server import PROMPTS_FIRST, UNLIMITED, Server
from roofline.serving.traffic.slots import saturation, slot_wait
from roofline.specs.slo import LEVELS

__all__ = ["LEVELS", "Tails", "decode_tails", "tails"]

_E = 2.718281828459045
_TINY = 2.0**-200  # of a time or its square: as good as none, and no division by zero
_LEAST_REST = 0.001  # of a decode step, that is left to chance at least
_STEADY = 0.98  # of the mean decode step that is certain at most
_FAR = 4.0  # standard deviations of the number that decodes, below which a step is not looked for
_COUNT = 0.8  # variance of the prompts begun in a cycle, over their number and the cv of the cycle: 2 / sqrt(2 pi)
_LEAST_FREE = 0.1
_EQUAL, _EXPONENTIAL = 0.612, 0.429  # (1/2) / sqrt(2/3), (1/e) / sqrt(2/e): correlations of `_together`


class Tails(NamedTuple):
    """Distributions of the latencies of a load."""

    ttft: tuple[Component, ...]
    tpot: tuple[Component, ...]
    e2el: tuple[Component, ...]


class _Settled(NamedTuple):
    """A load whose means are known."""

    server: Server
    prompt: Prompt
    met: Meeting
    ttft: Real  # [s] mean
    rate: Real  # [1/s] that come to the rank while a request is there
    others: Real  # sequences that decode beside it, on average
    users: Real | None  # of the rank for whom there is a slot; None of an open loop
    slot_share: Real  # of the requests that wait for a slot [1]
    slot_wait: Real  # [s] that those wait
    slot_variance: Real  # [s^2] of that
    link_rate: Real  # [1/s] of requests of the rank, whose prefixes are loaded


def tails(deployment: Deployment, workload: Workload, found: Served) -> Tails:
    """Distributions of TTFT, TPOT and E2EL over the requests of a load.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths and load, without `num_prompts`: of the steady state.
        found: its means.

    Returns:
        The distributions; of a load that finds no steady state they mean nothing.

    Valid:
        As the means, and prompts whose coefficient of variation is 0.3 at most. TTFT and TPOT of a request are taken
        to be independent but for its lengths.

    Source:
        docs/method.md, "Tails".
    """
    case = _settled(deployment, workload, found)
    first, step = _first_token(case), _decode_step(case)
    return Tails(first, step, _whole(case, first, step))


def _settled(deployment: Deployment, workload: Workload, found: Served) -> _Settled:
    """A load where its means left it."""
    server = server_of(deployment, workload)
    prompt, ranks = prompt_of(server), lanes(deployment)
    full = saturation(replace(server, users=UNLIMITED), prompt)
    seen = found.state[1]
    if workload.concurrency is None:
        others = minimum(found.state[0], full.slots)
        rate = minimum(workload.request_rate / ranks, FULL * full.rate)
        met = meeting(server, prompt, rate, others, seen, None)
        share, wait = slot_wait(server, full, met, rate, others)
        wait = wait / maximum(share, NANO)
        ttft = where(found.is_stable, found.ttft, server.before + met.stage)
        return _Settled(server, prompt, met, ttft, rate, others, None, share, wait, wait * wait, rate)
    users = maximum(workload.concurrency / ranks, 1.0)
    inside = maximum(minimum(users, full.slots), 1.0)
    others = minimum(found.state[0], inside - 1.0)
    met = meeting(server, prompt, found.state[2] * (inside - 1.0) / inside, others, seen, inside)
    wait = (users - inside) / found.state[2]  # as many answers must end before one's own turn
    rate = found.state[2] * (inside - 1.0) / inside
    even = minimum(_COUNT * server.lengths.answers.cv, 1.0)  # of the answers that end, over that of a Poisson number
    return _Settled(
        server, prompt, met, found.ttft, rate, others, inside, 1.0, wait, even * wait / found.state[2], found.state[2]
    )


def _first_token(case: _Settled) -> tuple[Component, ...]:
    """Distribution of the time to first token."""
    server, met, users = case.server, case.met, case.users
    before = server.engine.network + server.engine.request
    own = _own_prompts(case)
    mean_own = sum(weight * time for weight, time, _, _ in own)
    slots = case.slot_share * case.slot_wait
    usual = server.before + link_wait(server, case.link_rate, users).over_all
    among = (case.ttft - usual - slots - met.nobody * met.idle) / maximum(1.0 - met.nobody, NANO)
    rest = maximum(among - server.engine.arrival - mean_own, _LEAST_REST * met.plain)
    variance = maximum(_rest_variance(case, rest), (_LEAST_REST * met.plain) ** 2)
    wait = maximum(met.idle - case.prompt.alone, 0.0)
    # A share of those who find nobody decoding wait an exponential time for other prompts, the rest of them not at all.
    busy = maximum(minimum(case.rate * case.prompt.alone, 1.0 - NANO), NANO)
    seldom = wait * wait * (2.0 - busy) / busy
    parts: list[Component] = []
    for weight, time, alone, loads in own:
        least, many, fresh = before + server.engine.arrival + time, weight * (1.0 - met.nobody), len(parts)
        if users is None:
            if not never(case.slot_share > NANO):
                late = variance + case.slot_variance
                parts.append(Component(many * case.slot_share, least, rest + case.slot_wait, late))
            parts.append(Component(many * (1.0 - case.slot_share), least, rest, variance))
        else:
            parts.append(_among_users(case, many, least, rest, variance))
        if not never(met.nobody > NANO):
            late, swing = (0.0, 0.0) if users is None else (case.slot_wait, case.slot_variance)
            parts.append(Component(weight * met.nobody, before + alone, wait + late, seldom + swing))
        if loads is not None:
            parts[fresh:] = [_loaded(case, part, loads) for part in parts[fresh:]]
    return _with_cold_starts(server, parts)


def _loaded(case: _Settled, part: Component, time: Real) -> Component:
    """The same requests, whose prefix is loaded before: the others' before it, then their own."""
    wait = link_wait(case.server, case.link_rate, case.users)
    others = float("inf") if case.users is None else (case.users - 1.0) * time
    return part._replace(
        least=part.least + time,
        mean=part.mean + wait.mean,
        variance=part.variance + wait.variance,
        most=part.most + others,
    )


def _among_users(case: _Settled, weight: Real, least: Real, rest: Real, variance: Real) -> Component:
    """Time to first token where others decode: no more prompts can be before one's own than there are other users."""
    met, rho = case.met, maximum(case.met.rho, NANO)
    rest_of_them = 0.0 if case.users is None else case.users - 1.0
    most = maximum(rest_of_them * met.prompt + 2.0 * met.plain, rest)
    spread = variance * (1.0 - rest / most)  # as of a binomial number of them
    spread = minimum(spread, rest * rest * maximum(1.0 / rho - 1.0, 1.0))
    most = where(case.slot_wait > 0.0, float("inf"), most)
    return Component(weight, least, rest + case.slot_wait, spread + case.slot_variance, most)


def _with_cold_starts(server: Server, parts: Sequence[Component]) -> tuple[Component, ...]:
    """The same, with the requests that find no server warm."""
    if server.cold_start is None:
        return tuple(parts)
    share, time = server.cold_start
    if share == 1.0:
        return tuple(part.later(time, share) for part in parts)
    warm = [part.later(0.0, 1.0 - share) for part in parts]
    return (*warm, *(part.later(time, share) for part in parts))


def _own_prompts(case: _Settled) -> list[tuple[Real, Real, Real, Real | None]]:
    """Weight of each slice of the prompts, hits before misses; what one takes of it among others and alone [s].

    Its steps are included; the time to load its prefix [s] is apart, None where nothing is loaded.
    """
    server, prompt, met = case.server, case.prompt, case.met
    decoding = 1.0 + case.others
    base = _base(case)
    found: list[tuple[Real, Real, Real, Real | None]] = []
    for kind, (weight, share) in product(server.kinds, server.lengths.prompts.slices):
        tokens = prompt_tokens(server, kind, share)
        times = server.prompt(tokens, kind.cached)
        if server.engine.scheduler == PROMPTS_FIRST:
            step = tokens / turns(tokens, server.budget, 0.0)
            time = added(server, prompt, decoding, base, step, tokens, times.attention)
        else:
            time = added(server, prompt, decoding, base, minimum(met.room, tokens), tokens, times.attention)
            time = time + met.plain * turns(tokens, met.room, case.others * server.deployment.queries**2)
        found.append((weight * kind.weight, time, times.alone, kind.loading if kind.is_loaded else None))
    return found


def _rest_variance(case: _Settled, rest: Real) -> Real:
    """Variance of what comes before a request's own prompt, and with it, given its mean [s^2]."""
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
    one_more = _one_more(case)
    with_it = one_more * rho  # prompts that come in a step do not add their average, but what one more adds
    usual = biased / 2.0 + with_it * biased
    variance = cube * (1.0 / 3.0 + with_it + with_it**2) - usual * usual
    variance = maximum(variance + one_more**2 * rate * second * biased, 0.0)
    wait = 0.0 if is_prompts_first else met.wait
    if is_prompts_first or case.users is not None:  # whose mean is another
        variance = variance * ((rest - wait) / (biased / 2.0 + rho * biased)) ** 2
    if case.users is not None:  # fewer prompts can come together, as in the means
        variance = variance * (1.0 - rho)
    slope = _slope(case)
    longer = slope / 2.0 if is_prompts_first else slope  # one's own prompt runs without those that decode
    late = wait**2 * maximum(2.0 / maximum(met.rho_chunks, NANO) - 1.0, 0.0)
    return variance + late + _crowd(case, slope) * longer**2


def _one_more(case: _Settled) -> Real:
    """What a further prompt adds to a step that computes some, over what each of them adds [1]."""
    server, prompt, met = case.server, case.prompt, case.met
    decoding, base = 1.0 + case.others, _base(case)
    few = minimum(met.room, prompt.length * (1.0 + case.rate * met.seen))
    more = minimum(met.room, few + prompt.length)
    one = added(server, prompt, decoding, base, few, prompt.length, prompt.attention)
    other = added(server, prompt, decoding, base, more, prompt.length, prompt.attention)
    return where(more > few, (more * other - few * one) / (maximum(more - few, 1.0) * one), 1.0)


def _base(case: _Settled) -> Real:
    """Everything but attention, head and host of a step without a prompt [s]; prompts-first computes none of it."""
    is_prompts_first = case.server.engine.scheduler == PROMPTS_FIRST
    return 0.0 if is_prompts_first else case.server.linear(1.0 + case.others, 0.0)


def _moments(case: _Settled) -> tuple[Real, Real]:
    """Mean square and cube of what a prompt adds to others [s^2, s^3]."""
    prompt = case.prompt

    def each(node: PromptNode) -> Real:
        return added_by_node(case.server, prompt, case.met.prompt, node)

    return prompt.mean(lambda node: each(node) ** 2), prompt.mean(lambda node: each(node) ** 3)


def _slope(case: _Settled) -> Real:
    """By how much a decode step is longer with a further sequence [s]."""
    low = maximum(0.5 + case.others, 1.0)
    step: Callable[[Real], Real] = lambda sequences: case.server.decode(sequences).total  # noqa: E731
    return maximum(step(low + 1.0) - step(low), 0.0)


def _returning(case: _Settled, slope: Real) -> Real:
    """How fast the number that decode returns to its mean, over how fast it would with steps of one length [1]."""
    met, others = case.met, case.others
    longer = (slope + met.prompt / case.server.steps) / maximum(met.step, _TINY)
    return maximum(1.0 - others * _free(case) * longer, _LEAST_FREE)


def _free(case: _Settled) -> Real:
    """Share of the other users who do not decode [1]; of an open loop there is no end of them."""
    return 1.0 if case.users is None else maximum(1.0 - case.others / maximum(case.users - 1.0, NANO), 0.0)


def _crowd(case: _Settled, slope: Real) -> Real:
    """Variance of the number that decode: steps grow with it, so that it swings further than a Poisson number."""
    return case.others * _free(case) / _returning(case, slope)


def _decode_step(case: _Settled) -> tuple[Component, ...]:
    """Distribution of a request's mean time per output token."""
    server, met, rate = case.server, case.met, case.rate
    slope = _slope(case)
    crowd = _crowd(case, slope)
    second, _ = _moments(case)
    low = server.decode(maximum(1.0 + case.others - _FAR * crowd**0.5, 1.0)).total
    answers = server.lengths.answers
    cycle = server.before + link_wait(server, case.link_rate, case.users).over_all + met.stage + met.decode
    parts = []
    for weight, share in answers.slices:
        steps, span = maximum(server.steps_of(share), 1.0), maximum(server.osl * share, 2.0) / server.osl
        time = step_of_answer(steps, met.mean_step, met.surge, met.rounds, met.plain)
        least = minimum(low, _STEADY * time)
        company = crowd * slope**2 * _kept(case, span, slope)
        stalls = rate * second * met.mean_step / steps
        if case.users is None:
            # Who comes meanwhile stalls once and decodes beside it: both swing together. Whoever is slowed down by them
            # meets more.
            together = 2.0 * _together(answers.cv) * (company * stalls) ** 0.5
            variance = (company + stalls + together) / (1.0 - met.rho) ** 2
        else:  # nearly one prompt of every user in a cycle; users who are slowed down ask for fewer
            turned = steps * time / cycle
            chance = minimum(1.0 - met.rho, _COUNT * answers.cv + maximum(turned - 1.0, 1.0 - turned))
            variance = company + chance * stalls
        parts.append(_per_token(server, Component(weight, least, time - least, variance), share))
    return tuple(parts)


def _per_token(server: Server, each: Component, share: float) -> Component:
    """Time per token of answers from that of their steps, of which some gain more tokens than others."""
    draft = server.deployment.draft
    if draft is None:
        return each
    steps = maximum(server.steps_of(share), 1.0)
    ratio = time_per_token(server.deployment, server.osl * share, 1.0)
    swing = draft.acceptance.variance / (draft.acceptance.tokens**2 * steps)  # of the steps of an answer, relative
    time = each.least + each.mean
    least = each.least * maximum(1.0 - _FAR * swing**0.5, draft.acceptance.tokens / server.deployment.queries)
    return Component(each.weight, least * ratio, (time - least) * ratio, (each.variance + swing * time**2) * ratio**2)


def _kept(case: _Settled, span: Real, slope: Real) -> Real:
    r"""Variance of the number that decode, averaged over an answer, over its variance at a time.

    .. math:: 1 - \frac{z}{3}\ (z \le 1),\quad \frac{1}{z} - \frac{1}{3 z^2}\ (z > 1),\qquad
              \frac{2 (z - 1 + e^{-z})}{z^2}

    of equal answers, and of such whose lengths are exponential; between both by the square of their cv.

    Args:
        case: a load.
        span: z, the answer over the mean one [1].
        slope: by how much a step is longer with a further sequence [s].

    Returns:
        Share [1].

    Source:
        M/G/infinity: the correlation of the number over a time is the share of answers that still run after it.
    """
    answers = case.server.lengths.answers
    lasting = span * _returning(case, slope)
    long = maximum(lasting, 1.0)
    equal = where(lasting <= 1.0, 1.0 - lasting / 3.0, 1.0 / long - 1.0 / (3.0 * long * long))
    z = maximum(lasting / maximum(answers.biased / 2.0, 1.0), NANO**0.5)
    exponential = 2.0 * (z - 1.0 + _E ** (0.0 - z)) / (z * z)
    share = min(answers.cv**2, 1.0)
    return (1.0 - share) * equal + share * exponential


def _together(cv: float) -> float:
    """Correlation of both over an answer as long as the mean: of equal answers, and of exponential ones."""
    share = min(cv**2, 1.0)
    return (1.0 - share) * _EQUAL + share * _EXPONENTIAL


def _whole(case: _Settled, first: Sequence[Component], step: Sequence[Component]) -> tuple[Component, ...]:
    """Distribution of the end-to-end latency: both added, for each length of the answer."""
    parts = []
    prompts = case.server.lengths.prompts
    if not prompts.is_fixed:
        is_mixed = case.server.cold_start is not None and case.server.cold_start[0] < 1.0
        size = len(first) // (len(case.server.kinds) * (2 if is_mixed else 1))
        groups = [first[start : start + size] for start in range(0, len(first), size)]
        first = [one for group in groups for one in by_prompt_length(group, prompts)]
    for (_, share), each in zip(case.server.lengths.answers.slices, step, strict=True):
        steps = maximum(case.server.osl * share - 1.0, 0.0)
        for one in first:
            least, mean = one.least + steps * each.least, one.mean + steps * each.mean
            variance = one.variance + steps**2 * each.variance
            parts.append(Component(one.weight * each.weight, least, mean, variance))
    return tuple(parts)


def decode_tails(
    server: Server, met: Meeting, rate: Real, others: Real, users: Real | None, first: Sequence[Component]
) -> Tails:
    """Distributions of the latencies where a rank decodes alone and first tokens come from elsewhere.

    Args:
        server: the rank that decodes.
        met: what a request meets there, without prompts.
        rate: requests that come to the rank while a request is there [1/s].
        others: sequences that decode beside it, on average [sequences].
        users: of the rank; None of an open loop [requests].
        first: distribution of the time to first token, cold starts apart.

    Returns:
        The distributions.

    Source:
        docs/method.md, "Tails".
    """
    nothing = Prompt(server.computed, 0.0, 0.0, 0.0)
    case = _Settled(server, nothing, met, met.stage, rate, others, users, 0.0, 0.0, 0.0, 0.0)
    step, parts = _decode_step(case), _with_cold_starts(server, first)
    return Tails(parts, step, _whole(case, parts, step))
