"""Arrivals that are no Poisson process at a rank: they come in bunches, or a router spaces them out.

Two times tell what bunching does. Over about the time of an answer, a higher rate fills a rank with sequences: the
answer is that of Poisson arrivals at the rate of the moment, averaged over its distribution. Over about the time to a
first token, requests that come together wait for each other's prompts. docs/method/under-load.md, "Arrivals that
bunch", has the derivation, docs/load.md the errors against a simulation of every step.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.numbers.operations import Real, maximum, minimum, never, where
from roofline.numbers.quantity import MICRO, NANO
from roofline.physics.plan import Deployment
from roofline.serving.latency import EQUAL, Served, Workload, lanes, mean_steps, time_per_token
from roofline.serving.load.equations import served_at_random, server_of
from roofline.serving.load.mixtures import Component, gamma_survival, usual_time
from roofline.serving.load.rounds import Meeting, meeting, second_moment
from roofline.serving.load.server import PROMPTS_FIRST, Prompt, Server, prompt_of
from roofline.serving.load.tails import Tails, tails_at_random
from roofline.specs.arrivals import LEAST_BUSY, ROUND_ROBIN, Process
from roofline.specs.load import Rate
from roofline.support.records import NamedTuple, replace

#: Share of the requests that may find the rate of the moment above the saturation; beyond it no closed form holds.
MOST_OVERLOADED = 0.02

_E = 2.718281828459045
_TWO_OVER_PI = 0.6366197723675814  # of a normal variable's mean size, squared
_TINY = 2.0**-200  # of a time, against division by zero
_SHORT, _LONG = 2.0, 4.0  # times to a first token: the shorter time, and the least of the longer one
_LAG = 3.0  # standard deviations of the arrivals in an answer, by which a queue grows at most
_SLIGHT = 100.0 * MICRO  # of an index of dispersion
_FULLEST = 0.97  # of the saturation: the highest rate of the moment
_LEAST_LEFT = 0.02  # of a wait that is shortened
_FAR = 100.0  # times a wait: a bound that is never met
# Requests by the rate that they meet: shares, and the mean standard normal variable of each.
_NODES = (
    (0.2, -1.3998), (0.3, -0.3966), (0.25, 0.3247), (0.15, 0.9485), (0.07, 1.5351), (0.02, 2.0695), (0.01, 2.6652),
)  # fmt: skip


class _Bunching(NamedTuple):
    """What bunching does to the requests of a rank."""

    cases: tuple[_AtRate, ...]  # what requests meet
    overloaded: Real  # share of the requests that meet a rate above the saturation [1]
    mean: Served  # Poisson arrivals at the mean rate
    step: Real  # [s] longer decode steps, for the sequences of the same bunch
    swing: Real  # variance of the further wait, over its square [1]
    evenness: Real  # variance of the sequences that decode, over that of Poisson arrivals, where less [1]


class _AtRate(NamedTuple):
    """Requests that meet one rate."""

    share: float  # of the requests [1]
    workload: Workload  # Poisson arrivals at that rate
    means: Served  # of these
    lag: Real  # [s] by which the queue is shorter, as the rate does not last
    wait: Real  # [s] longer, for the prompts of the same bunch; negative where arrivals are spaced out


def index_at_rank(deployment: Deployment, process: Process, window: Real, rate: Real, *, is_even: bool) -> Real:
    r"""Index of dispersion of the arrivals at one rank.

    .. math:: I_r = 1 + \frac{I - 1}{R},\qquad I_r = \frac{I}{R}

    the former where each request gets to one of R ranks at random, the latter where every R-th request does. Within a
    replica, requests get to data-parallel ranks and pipeline turns at random.

    Args:
        deployment: with its replicas.
        process: of the arrivals at all of them.
        window: time in which they are counted [s].
        rate: of all arrivals [1/s].
        is_even: whether replicas get requests in turn [1].

    Returns:
        Index [1].

    Source:
        Thinned point processes: Cox and Isham, "Point Processes", 1980, section 4.3; Erlang interarrival times.
    """
    index, replicas, plan = process.index(window, rate), deployment.replicas * 1.0, deployment.plan
    index = index / replicas if is_even else 1.0 + (index - 1.0) / replicas
    return 1.0 + (index - 1.0) / (1.0 * plan.pp * plan.dp)


def spaced_wait(index: Real, variation: Real, load: Real) -> Real:
    r"""Wait of arrivals that are spaced out, over that of Poisson arrivals.

    .. math:: f = \frac{c_a^2 + c_s^2}{1 + c_s^2}\, e^{-\frac{2 (1 - u) (1 - c_a^2)^2}{3 u (c_a^2 + c_s^2)}}

    Args:
        index: squared coefficient of variation of the gaps between arrivals, at most 1 [1].
        variation: the same of service times [1].
        load: u, utilization [1].

    Returns:
        Factor [1].

    Source:
        Kraemer and Langenbach-Belz, "Approximate formulae for the delay in the queueing system GI/G/1", ITC 8, 1976.

    >>> round(spaced_wait(0.25, 0.1, 0.5), 3), spaced_wait(1.0, 0.1, 0.5)
    (0.109, 1.0)
    """
    both = maximum(index + variation, NANO)
    exponent = 2.0 * (1.0 - load) * (1.0 - index) ** 2 / (3.0 * maximum(load, NANO) * both)
    return both / (1.0 + variation) * _E ** (0.0 - minimum(exponent, _FAR))


def served_of_arrivals(deployment: Deployment, workload: Workload, start: tuple[Real, ...] | None = None) -> Served:
    """Mean latencies under users, a queue, random arrivals or bunches; `start` as of `served_at_random`."""
    if _is_bunched(workload):
        return served_in_bunches(deployment, workload)
    return served_at_random(deployment, workload, start)


def tails_of_arrivals(deployment: Deployment, workload: Workload, under_load: Served) -> Tails:
    """Distributions of the same; `under_load`: its means."""
    if _is_bunched(workload):
        return tails_in_bunches(deployment, workload)
    return tails_at_random(deployment, workload, under_load)


def _is_bunched(workload: Workload) -> bool:
    """Whether arrivals are stated that are no Poisson process, or that a router spaces out."""
    return workload.arrivals is not None and workload.load.is_open


def served_in_bunches(deployment: Deployment, workload: Workload) -> Served:
    """As `served_at_random`, of arrivals that are no Poisson process.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths and rate, with `arrivals`.

    Returns:
        Mean figures; times are infinite under overload, where more than `MOST_OVERLOADED` of the requests meet one for
        a while, and where no steady state is found.

    Valid:
        Where few requests meet a rate above the saturation. Lengths are independent of the arrivals.

    Source:
        docs/method/under-load.md, "Arrivals that bunch".
    """
    found = _bunching(deployment, workload)
    ttft = tpot = decode = queue = batch = waiting = 0.0
    is_stable: Real = found.mean.is_stable & (found.overloaded < MOST_OVERLOADED)
    for share, _, means, lag, wait in found.cases:
        ttft, queue = ttft + share * (means.ttft + lag + wait), queue + share * (means.queue + lag + wait)
        tpot, decode = tpot + share * means.tpot, decode + share * means.decode
        batch, waiting = batch + share * means.batch, waiting + share * means.waiting_share
        is_stable = is_stable & means.is_stable
    answers = (workload.lengths or EQUAL).answers
    decode = decode + found.step * mean_steps(deployment, workload.osl, answers)
    ttft = where(is_stable, ttft, float("inf"))
    return found.mean._replace(
        ttft=ttft,
        tpot=tpot + time_per_token(deployment, workload.osl, found.step),
        decode=decode,
        queue=where(is_stable, maximum(queue, 0.0), float("inf")),
        concurrency=workload.request_rate * (ttft + decode),
        batch=batch,
        waiting_share=waiting,
        is_stable=is_stable,
        overloaded=found.overloaded,
    )


def tails_in_bunches(deployment: Deployment, workload: Workload) -> Tails:
    """As `tails_at_random`, of arrivals that are no Poisson process."""
    found = _bunching(deployment, workload)
    tokens = time_per_token(deployment, workload.osl, found.step)
    longer = found.step * mean_steps(deployment, workload.osl, (workload.lengths or EQUAL).answers)
    mixed = []
    for share, poisson, means, lag, wait in found.cases:
        spread = tails_at_random(deployment, poisson, means)
        slices = [each._replace(tpot=_moved(_even((each.tpot,), found), tokens, found)[0]) for each in spread.answers]
        spread = Tails(
            _moved(_moved(spread.ttft, lag, found), wait, found),
            _moved(_even(spread.tpot, found), tokens, found),
            _moved(_moved(spread.e2el, lag, found), wait + longer, found),
            _moved(spread.itl, found.step, found),
            tuple(slices),
        )
        mixed.append((share, spread))
    if len(mixed) == 1:
        return mixed[0][1]

    def together(name: str) -> tuple[Component, ...]:
        return tuple(part._replace(weight=share * part.weight) for share, each in mixed for part in getattr(each, name))

    answers = tuple(each._replace(weight=share * each.weight) for share, spread in mixed for each in spread.answers)
    return Tails(together("ttft"), together("tpot"), together("e2el"), together("itl"), answers, tuple(mixed))


def _at(deployment: Deployment, workload: Workload, rate: Real) -> tuple[Workload, Served]:
    """Poisson arrivals at a rate of the deployment, and their means."""
    poisson = replace(workload, load=Rate(rate), arrivals=None)
    return poisson, served_at_random(deployment, poisson)


def _bunching(deployment: Deployment, workload: Workload) -> _Bunching:
    process, rate, ranks = workload.arrivals or Process(), workload.request_rate, lanes(deployment) * 1.0
    poisson, mean = _at(deployment, workload, rate)
    ttft = where(mean.is_stable, mean.ttft, 1.0)
    brief = _SHORT * ttft
    lasting = maximum(ttft + where(mean.is_stable, mean.decode, 1.0), _LONG * ttft)
    is_even = process.router == ROUND_ROBIN

    def indices(*, is_even: bool) -> tuple[Real, Real, Real]:
        """Of bunches, beyond a Poisson process; of rates that last, likewise; and in the longer time."""
        short, long = (index_at_rank(deployment, process, time, rate, is_even=is_even) for time in (brief, lasting))
        excess = maximum((long - short) / (1.0 - brief / lasting), 0.0)  # what is not there in the shorter time
        return short - 1.0 - excess * brief / lasting, excess, long

    bunch, excess, _ = indices(is_even=is_even)
    # The least busy replica has as many sequences as others; but those that just ended several get several at once.
    bunch_of_steps, _, in_lasting = indices(is_even=is_even or process.router == LEAST_BUSY)
    server, arriving = server_of(deployment, poisson), rate / ranks
    rates: tuple[tuple[float, Real], ...] = ((1.0, rate),)
    overloaded: Real = 0.0
    if not never(excess > _SLIGHT):
        varying, beyond = _rates(rate, maximum(excess, _SLIGHT), arriving * lasting, mean.max_request_rate)
        rates = tuple((share, where(excess > _SLIGHT, each, rate)) for share, each in varying)
        overloaded = where(excess > _SLIGHT, beyond, 0.0)
    prompt, cases = prompt_of(server), []
    for share, each in rates:
        poisson, means = (poisson, mean) if len(rates) == 1 else _at(deployment, workload, each)
        met = meeting(server, prompt, each / ranks, means.state[0], means.state[1], None)
        lag = 0.0 if len(rates) == 1 else _lag(mean.ttft, means, each / ranks * lasting)
        cases.append(_AtRate(share, poisson, means, lag, _wait_in_bunch(server, prompt, met, each / ranks, bunch, lag)))
    slope = server.decode(2.0 + mean.state[0]).total - server.decode(1.0 + mean.state[0]).total
    step = bunch_of_steps * (maximum(slope, 0.0) + mean.prompt / (2.0 * server.steps))
    alone = 1.0 + maximum(bunch, 0.0) / 2.0  # mean size of a bunch
    behind = 1.0 - (1.0 - mean.rho) / alone  # share of the requests that wait for others of their bunch, or before it
    swing = 2.0 / maximum(behind, NANO) - 1.0
    return _Bunching(tuple(cases), overloaded, mean, step, swing, minimum(maximum(in_lasting, 0.0), 1.0))


def _rates(rate: Real, excess: Real, arrivals: Real, most: Real) -> tuple[tuple[tuple[float, Real], ...], Real]:
    r"""Rates that requests meet, each for its share of them, and the share that meets a rate above the largest.

    .. math:: l' \sim \mathrm{Gamma}\left(k = 1 + a,\ \frac{l}{a}\right),\quad a = \frac{l_r\, w}{I - 1}

    Over time the rate has a gamma distribution of shape a; requests meet high rates more often than low ones.

    Args:
        rate: mean l [1/s].
        excess: I - 1, of the longer time [1].
        arrivals: mean number at a rank in that time, l_r w [1].
        most: saturation [1/s].

    Returns:
        The rates, and the share [1].

    Source:
        Arithmetic: the rate that has the variance of the counts in the longer time.
    """
    shape = arrivals / excess
    mean = rate * (1.0 + 1.0 / shape)
    law = Component(1.0, 0.0, mean, mean * mean / (1.0 + shape))
    rates = [usual_time(law, place) for _, place in _NODES]
    scale = mean / sum(share * each for (share, _), each in zip(_NODES, rates, strict=True))
    least = NANO * rate
    within = [maximum(minimum(scale * each, _FULLEST * most), minimum(least, most)) for each in rates]
    pairs = tuple((share, each) for (share, _), each in zip(_NODES, within, strict=True))
    return pairs, gamma_survival(most, law.mean, law.variance)


def _wait_in_bunch(server: Server, prompt: Prompt, met: Meeting, rate: Real, bunch: Real, lag: Real) -> Real:
    r"""Time to first token beyond that of Poisson arrivals [s].

    .. math:: \frac{c}{2} \frac{F}{1 - l F},\qquad -(1 - f)\, Q

    for bunches, c > 0, whose prompts fill steps, each taking F; and for arrivals that are spaced out, where f is
    `spaced_wait` and Q the wait for other prompts, shorter by the `lag` of the queue.

    Source:
        Batch arrivals, M^X/G/1: Burke, Operations Research 23(4), 1975; docs/method/under-load.md.
    """
    together = maximum(bunch, 0.0) / 2.0 * met.in_full / (1.0 - met.rho_chunks)
    if never(bunch < 0.0):
        return together
    is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
    each = met.each if is_prompts_first else met.prompt
    behind = maximum(met.biased - met.plain, 0.0) / 2.0 + rate * each * met.biased
    behind = behind if is_prompts_first else behind + met.wait
    waits = (1.0 - met.nobody) * behind + met.nobody * maximum(met.idle - prompt.alone, 0.0)
    variation = maximum(second_moment(server, prompt, met.in_full) / maximum(met.in_full, _TINY) ** 2 - 1.0, 0.0)
    waits = maximum(waits + lag, 0.0)
    factor = spaced_wait(maximum(1.0 + minimum(bunch, 0.0), 0.0), variation, met.rho_chunks)
    return where(bunch < 0.0, (factor - 1.0) * waits, together)


def _lag(ttft: Real, means: Served, arrivals: Real) -> Real:
    """What a queue at a rate of the moment still lacks, as it has had no more than the longer time to grow [s].

    `ttft`: at the mean rate [s]; `arrivals`: in the longer time [1].
    """
    longer = maximum(means.ttft - ttft, 0.0)
    most = maximum(_LAG * (_TWO_OVER_PI * arrivals) ** 0.5 * means.prompt, _TINY)
    return longer / (1.0 + longer / most) - longer


def _even(parts: Sequence[Component], found: _Bunching) -> tuple[Component, ...]:
    """Steps whose time varies less, as the sequences that decode do."""
    return tuple(part._replace(variance=found.evenness * part.variance) for part in parts)


def _moved(parts: Sequence[Component], time: Real, found: _Bunching) -> tuple[Component, ...]:
    """Requests that wait longer by a time that varies, or shorter, each by the same share of its wait."""
    weight, waits = sum(part.weight for part in parts), sum(part.weight * part.mean for part in parts)
    more, less = maximum(time, 0.0), minimum(time, 0.0)
    left = maximum(1.0 + less * weight / maximum(waits, _TINY), _LEAST_LEFT)
    return tuple(
        part._replace(
            mean=left * part.mean + more,
            variance=left * left * part.variance + found.swing * more * more,
            most=part.most + _FAR * more,
        )
        for part in parts
    )
