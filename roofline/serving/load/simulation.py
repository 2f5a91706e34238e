"""Simulation of servers: every step of every request, with the step times of the closed forms.

The reference for the equations of `serving.load.equations` and `serving.load.pools`. Requests of Poisson arrivals, or
of users who ask again once they are answered, go through one loop of events. One pool and two pools differ in what a
step of a rank holds: prompts and answers under a token budget; or the prompts in one pool, the answers in the other.

While the same sequences decode, each step takes longer than the one before by the same time. So decode steps up to the
next answer that ends, or the next request that comes, are one event.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from heapq import heappop, heappush
from itertools import pairwise
from math import exp, floor, isnan, log
from operator import attrgetter
from statistics import fmean
from typing import Any

from roofline.numbers.operations import Real
from roofline.numbers.quantity import BILLION, NANO
from roofline.physics.memory import largest_batch
from roofline.physics.passes import decode_pass
from roofline.physics.plan import Deployment
from roofline.serving.latency import EQUAL, Lengths, Workload, lanes
from roofline.serving.load.arriving import arriving
from roofline.serving.load.equations import server_of
from roofline.serving.load.pools import Pools, kv_transfer_time, shown_transfer
from roofline.serving.load.server import PROMPTS_FIRST, Server, attention_time, prompt_of
from roofline.serving.prompts import load_time
from roofline.specs.arrivals import LEAST_BUSY, PREFIX, ROUND_ROBIN, Process
from roofline.specs.engine import HBM
from roofline.specs.load import Burst
from roofline.specs.sessions import Sessions
from roofline.specs.workload import LEVELS, OF_REQUESTS, key_of
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple, dataclass, field, replace

#: Events of a simulation at most, some minutes; and of one that nobody asked for, about a second.
MOST_EVENTS, QUICK = 10_000_000, 200_000
#: Where a turn finds its context, but for GPU memory.
TIER, NOWHERE = "tier", "nowhere"
#: Half width of the 95 % intervals of mean latencies, over the means, at which enough requests are counted [1].
PRECISION = 0.05

_FEWEST, _PER_USER = 4000, 20  # requests, where nobody says how many
_MOST = 200_000  # requests, whatever their intervals
_EVENTS, _DRAWS = 5, 20  # events per request that are not passes; drawn decode steps that take as long as an event
_GROWTH = 1.25  # ratio of neighbouring nodes of a table of step times
_LARGEST = 10.0 * BILLION  # node
_REPORT = 1000  # events between two reports of progress
_UNLIMITED = 1 << 60  # sequences
_NEVER, _NONE = float("inf"), float("nan")  # [s] what a rank is at ends; TPOT of a single token
_LAST = 1 << 60  # added to the number of an event that comes after all others of its time
_MEANS = 5  # requests of a batch in which the end of the warm-up is looked for
_START = 10  # at least one in so many requests is warm-up
_BATCHES, _QUANTILE = 20, 2.093  # batches of an interval, and Student's t of 19 degrees of freedom at 97.5 %
_CORRELATED = 0.9  # correlation of neighbouring batches at most
_ALL = 1 << 62  # tokens, more than any prompt has
_BINS = 500.0  # of gaps between tokens, per factor of e: 0.2 % wide


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrivals of requests, and their lengths."""

    requests: int | None = None  # counted ones; None: enough for the mean latencies to be known to within `PRECISION`
    rate: float | None = None  # [1/s] Poisson arrivals; None: users
    users: int = 1  # of a closed loop
    is_burst: bool = False  # all users begin at once, and these requests count
    lengths: Lengths = EQUAL  # spread around the server's means
    seed: int = 0
    events: int = MOST_EVENTS  # of the simulation, at most
    process: Process | None = None  # of a rate; None: Poisson arrivals, split at random, of which one rank has its own
    replicas: int = 1  # of a process, each simulated as one rank
    ranks: int = 1  # of a replica, of which a request finds one at random
    sessions: Sessions | None = None  # of which requests are the turns
    tier: float = 0.0  # [tokens] of contexts that a rank keeps beside its memory

    @property
    def least(self) -> int:
        """Counted requests at least."""
        return self.requests or max(_FEWEST, _PER_USER * self.users)


class Finished(NamedTuple):
    """An answered request."""

    ttft: float  # [s]
    tpot: float  # [s] mean over tokens after the first; NaN for a single token
    e2el: float  # [s]
    wait: float  # [s] at the server, before the first chunk of its prompt
    steps: int = 0  # decode steps, and as many gaps before them
    gaps: Mapping[int, float] = {}  # of all requests, since the one answered before: number by `_bin`
    turn: int = 1  # of its session
    found: str = ""  # where a later turn found its context: `HBM`, `TIER`, `NOWHERE`; empty for a first one


@dataclass(slots=True)
class _Request:
    arrival: float
    ready: float  # at the scheduler
    cached: float  # cached prompt tokens
    prompt: int  # tokens to compute
    left: int  # of them, still to compute
    answer: int
    steps: int  # decode steps of its answer
    tokens: float  # of memory that it takes
    rank: _Rank  # computes its prompt, then its answer
    started: float = -1.0
    first: float = 0.0
    turn: int = 1
    key: int = 0  # of its session
    found: str = ""


@dataclass(slots=True)
class _Rank:
    """Prompts and sequences of one rank, and what it is at."""

    memory: float = float("inf")  # [tokens]
    most: int = _UNLIMITED  # sequences
    waiting: deque[_Request] = field(default_factory=deque)
    partial: deque[_Request] = field(default_factory=deque)  # admitted, prompt not finished
    running: list[tuple[int, int, _Request]] = field(default_factory=list)  # by the decode step of their end
    order: int = 0  # of first tokens: breaks ties
    clock: int = 0  # decode steps so far
    context: float = 0.0  # cached tokens of decoding sequences
    gain: float = 0.0  # tokens that they gain per step
    held: float = 0.0  # tokens of memory taken by admitted requests
    coming: int = 0  # requests in transfer
    free: float = 0.0  # [s] when its link is free
    loads: float = 0.0  # [s] when its link for prefix loads is free
    sent: int = 0  # requests that it has got
    done: int = 0  # of them, answered
    kept: dict[int, float] = field(default_factory=dict)  # [tokens] of contexts by session, the oldest first
    kept_tokens: float = 0.0
    dropped: dict[int, float] = field(default_factory=dict)  # likewise in the tier
    dropped_tokens: float = 0.0
    computes_prompts: bool = True
    peers: list[_Rank] = field(default_factory=list)  # of its worker, itself included: their passes slow each other
    # what it is at
    is_busy: bool = False
    begun: float = 0.0
    ends: float = float("inf")
    ended: float = -1.0  # what it was at before
    steps: int = 0  # decode steps
    step: float = 0.0  # [s] the first of them
    growth: float = 0.0  # [s] of each over the one before
    stepped: float = 0.0  # [s] when it last ended a decode step
    joined: list[float] = field(default_factory=list)  # [s] first tokens since then
    computed: list[_Request] = field(default_factory=list)  # prompts that are finished then

    def has_room(self, request: _Request) -> bool:
        """Whether a request can be admitted."""
        taken = len(self.running) + len(self.partial)
        if not taken:
            return True
        return taken < self.most and self.held + request.tokens <= self.memory

    def time(self, steps: int) -> float:
        """Time of the first decode steps [s]."""
        return steps * (self.step + self.growth * (steps - 1) / 2.0)

    def steps_until(self, now: float) -> int:
        """Decode steps, at least one, that have ended or will be running at `now`: `time` is a parabola."""
        elapsed, slope = now - self.begun, self.step - self.growth / 2.0
        root = (slope * slope + 2.0 * self.growth * elapsed) ** 0.5
        steps = max(int(2.0 * elapsed / (slope + root)), 1)
        while self.time(steps) < elapsed:
            steps += 1
        return steps


def simulated(server: Server, arrivals: Arrivals, progress: Callable[[int], None] | None = None) -> list[Finished]:
    """Simulate the requests of one rank, step by step.

    Args:
        server: the rank.
        arrivals: when requests arrive, and how many are counted.
        progress: called now and then with the number of answered requests [function].

    Returns:
        The counted requests, in the order of completion.

    Valid:
        One data-parallel rank, while the others do the same.

    Source:
        The schedulers of vLLM (v1/core/sched/scheduler.py) and SGLang (srt/managers/scheduler.py), as of 2026-11.
    """
    return _Simulation(server, server, arrivals, progress).run()


def pools_simulated(
    pools: Pools, workload: Workload, arrivals: Arrivals, progress: Callable[[int], None] | None = None
) -> list[Finished]:
    """Simulate the requests of two pools: every pass, transfer and step.

    Args:
        pools: both deployments and the link.
        workload: mean lengths.
        arrivals: when requests arrive at all ranks together, and how many are counted.
        progress: called now and then with the number of answered requests [function].

    Returns:
        The counted requests, in the order of completion.

    Valid:
        Requests go to a random prefill rank, and to a random decode rank under a rate or the emptiest one under users;
        data-parallel decode ranks are equally full.

    Source:
        Schedulers of Dynamo (components/router) and of SGLang's and vLLM's disaggregated modes, as of 2026-11.
    """
    means = replace(workload, load=Burst(), lengths=arrivals.lengths)
    server = server_of(pools.prefill, replace(means, osl=1.0))
    return _Simulation(server, server_of(pools.decode, means), arrivals, progress, pools).run()


def simulated_latencies(finished: Sequence[Finished]) -> dict[str, float]:
    """Means and percentiles over requests, those of ITL over gaps, by the keys of limits [s].

    No TPOT and no ITL of single tokens; percentiles of ITL to within 0.2 %.
    """
    found = {}
    for name in OF_REQUESTS:
        times = sorted(_times(finished, name))
        if times:
            found[name] = fmean(times)
            found |= {
                key_of(name, level): times[min(int(level / 100.0 * len(times)), len(times) - 1)] for level in LEVELS
            }
    return found | _gaps_between_tokens(finished)


def _gaps_between_tokens(finished: Sequence[Finished]) -> dict[str, float]:
    """Mean and percentiles of the gaps between the tokens of all requests [s]."""
    steps = sum(request.steps for request in finished)
    if not steps:
        return {}
    counts: dict[int, float] = {}
    for request in finished:
        for place, count in request.gaps.items():
            counts[place] = counts.get(place, 0.0) + count
    found = {"itl": sum(request.e2el - request.ttft for request in finished) / steps}
    places, total = sorted(counts), sum(counts.values())
    for level in LEVELS if total else ():
        left = level / 100.0 * total
        for place in places:
            left -= counts[place]
            if left < 0.0:
                break
        found[key_of("itl", level)] = exp((place + 0.5) / _BINS)
    return found


def warm_up(answered: Sequence[Finished], least: int = 0) -> int:
    r"""Number of first requests that belong to the start of a server, at most half.

    .. math:: \min_d \frac{1}{(n - d)^2} \sum_{i > d} (y_i - \bar y_d)^2

    over batches of five requests: leaving out fewer keeps those that are unlike the others, leaving out more keeps too
    few.

    Args:
        answered: requests, in the order of completion.
        least: number to leave out in any case [requests].

    Returns:
        The larger number of those for TTFT and for E2EL [requests].

    Source:
        MSER-5: White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics for simulation", WSC
        2000.
    """
    most = least
    for times in ([one.ttft for one in answered], [one.e2el for one in answered]):
        last = sum(times[-_MEANS:])  # differences from it, lest squares cancel
        means = [sum(times[at : at + _MEANS]) - last for at in range(0, len(times) - _MEANS + 1, _MEANS)]
        total = squares = 0.0
        best, cut = float("inf"), 0
        for count, mean in enumerate(reversed(means), 1):
            total, squares = total + mean, squares + mean * mean
            kept = len(means) - count
            spread = (squares - total * total / count) / (count * count)
            if 2 * kept <= len(means) and spread <= best:
                best, cut = spread, kept
        most = max(most, cut * _MEANS)
    return most


def half_widths(finished: Sequence[Finished]) -> dict[str, float]:
    r"""Half widths of the 95 % intervals of means over requests, by latency [s]; none of few requests.

    .. math:: t \sqrt{\frac{s^2}{k} \frac{1 + r}{1 - r}}

    with the variance of the means of k batches. Queues that outlast a batch show in r, the correlation of neighbouring
    batches, and widen the interval.

    Args:
        finished: requests in steady state, in the order of completion.

    Returns:
        Half widths; without TPOT where answers are single tokens.

    Source:
        Batch means: Law, "Simulation Modeling and Analysis", 5th edition, 2015, section 9.5.3.
    """
    found = {}
    for name in OF_REQUESTS:
        times = _times(finished, name)
        size = len(times) // _BATCHES
        if size < 2:
            continue
        times = times[-size * _BATCHES :]
        means = [sum(times[at : at + size]) / size for at in range(0, len(times), size)]
        off = [mean - sum(means) / _BATCHES for mean in means]
        squares = sum(each * each for each in off)
        together = sum(one * other for one, other in pairwise(off))
        correlation = min(max(together / squares, 0.0), _CORRELATED) if squares else 0.0
        variance = squares / (_BATCHES - 1) / _BATCHES * (1.0 + correlation) / (1.0 - correlation)
        found[name] = _QUANTILE * variance**0.5
    return found


def intervals(finished: Sequence[Finished]) -> dict[str, tuple[float, float]]:
    """95 % intervals of mean latencies in steady state [s]."""
    ends = {}
    for name, width in half_widths(finished).items():
        mean = fmean(_times(finished, name))
        ends[name] = mean - width, mean + width
    return ends


def _times(finished: Sequence[Finished], name: str) -> list[float]:
    """A latency of all requests that have it [s]."""
    return [time for time in map(attrgetter(name), finished) if not isnan(time)]


def _is_precise(finished: Sequence[Finished]) -> bool:
    return all(high - low <= PRECISION * (low + high) for low, high in intervals(finished).values())


_Action = Callable[[float, Any], None]
_Event = tuple[float, int, _Action, Any]  # time, number, what happens to what


class _Simulation:
    """Requests from their arrival to their answer: one rank, or the ranks of two pools and the link between them."""

    # Objects with more than thirty attributes find each of them in half of the time if they are listed.
    __slots__ = (
        "alike", "answer", "answered", "arrivals", "budget", "cold", "coming", "decode", "delay", "drafting", "draw",
        "events", "follows", "fresh", "gaps", "handover", "hits", "is_prompts_first", "kinds", "lags", "last", "layers",
        "linear", "next", "only", "order", "osl", "pools", "prefill", "progress", "prompts", "queries", "random",
        "rate", "receivers", "reserve", "room_beside", "senders", "sent", "server", "sessions", "slowdown", "steps",
        "transfer_time", "way",
    )  # fmt: skip

    def __init__(
        self,
        server: Server,  # computes prompts
        decode: Server,  # computes answers
        arrivals: Arrivals,
        progress: Callable[[int], None] | None = None,
        pools: Pools | None = None,
    ) -> None:
        self.server, self.decode, self.arrivals, self.progress, self.pools = server, decode, arrivals, progress, pools
        self.random = random.Random(arrivals.seed)  # noqa: S311  # no secret
        self.fresh, self.osl = float(server.fresh), float(decode.osl)  # means of what varies
        starts = 1.0 if arrivals.sessions is None else 1.0 / arrivals.sessions.turns  # of a session, per turn
        self.rate = None if arrivals.rate is None else starts * arrivals.rate
        self.drafting = decode.deployment.draft is not None
        self.draw = None if arrivals.lengths.is_fixed else arrivals.lengths.drawn_by(self.random)
        self.answer = self.answer_of(1.0)
        self.kinds = []  # cached tokens, computed ones beyond the mean, load time, computed ones where all are equal
        for kind in server.kinds:
            more = float(kind.computed - server.fresh)
            self.kinds.append((float(kind.cached), more, float(kind.loading), self.prompt_of(1.0, more)))
        self.hits = float(server.kinds[0].weight)
        self.way = float(server.engine.network + server.engine.request)
        # Who only computes prompts decodes nobody.
        self.delay = 0.0 if pools else float(server.engine.arrival)
        is_late = pools is None and server.engine.scheduler != PROMPTS_FIRST
        self.lags = _Tables(lambda cached: _Table(lambda tokens: server.prompt(tokens, cached).lag if is_late else 0.0))
        self.handover = float(decode.engine.handover)  # from one pool to the other
        self.cold = server.cold_start
        self.is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
        self.slowdown, self.prefill = float(server.slowdown), float(server.engine.prefill)
        self.budget, self.queries = int(server.budget), float(decode.deployment.queries)
        engine, plan = decode.deployment.engine, decode.deployment.plan  # its limits hold on the ideal basis too
        self.reserve = engine.reserve  # share of an answer for which there must be room at its start
        length = float(decode.isl) + self.reserve * float(decode.osl)
        batch = float(largest_batch(decode.deployment, length)) / plan.dp  # sequences in memory
        most = max(int(engine.max_num_seqs / plan.pp), 1) if engine.max_num_seqs else _UNLIMITED
        process = arrivals.process
        self.coming = None  # of the requests at all replicas
        self.follows = process is None or process.router == PREFIX  # a session stays at its replica
        if process is not None and self.rate is not None:
            self.coming = arriving(process, self.rate, random.Random(arrivals.seed + 1))  # noqa: S311
        self.next = 0  # replica of round robin
        self.sessions = arrivals.sessions
        ranks = arrivals.replicas if pools is None else int(lanes(pools.decode))
        self.receivers = [_Rank(batch * length * (1.0 + NANO), most) for _ in range(ranks)]
        self.senders = self.receivers
        self.only = self.receivers[0] if pools is None and ranks == 1 else None  # what it is at ends beside `events`
        if pools is not None:
            for rank in self.receivers:
                rank.computes_prompts = False
            self.senders = [_Rank() for _ in range(int(lanes(pools.prefill)))]
            dp, self.layers = pools.prefill.plan.dp, float(pools.prefill.model.layers)
            self.transfer_time = cache(partial(kv_transfer_time, pools))
            for number, rank in enumerate(self.senders):
                rank.peers = self.senders[number - number % dp :][:dp]
        # Of one pool, the ranks beside the simulated one do the same; those of two pools are simulated, and differ.
        self.alike = 1 if pools is not None else int(min(plan.dp, server.users or plan.dp))
        self.prompts, self.steps = _PromptTimes(server), _DecodeTimes(decode, self.alike)
        self.linear, self.room_beside = self.prompts.linear[self.alike], cache(self.room_of)
        self.events: list[_Event] = []
        # Number of the last event, which breaks ties, requests, and tokens of a prompt that every layer computes.
        self.order, self.sent, self.last = 0, 0, server.deployment.model.last or _ALL
        self.answered: list[Finished] = []
        self.gaps: dict[int, float] = {}  # since the last answered request: number by `_bin`

    def run(self) -> list[Finished]:
        """Simulate until enough requests are answered after the warm-up, or a run is over."""
        arrivals, most = self.arrivals, self.checked_most()
        if self.rate is not None:
            first = self.random.expovariate(self.rate) if self.coming is None else next(self.coming)
            self.schedule(first, self.send)
        elif arrivals.is_burst:
            for _ in range(min(arrivals.users, arrivals.least)):
                self.schedule(0.0, self.send)
            return self.first(arrivals.least)[: arrivals.least]
        else:
            # Users that began together would stay in step for long.
            latency = float(self.prompts.alone + self.decode.steps_of() * self.decode.decode(1.0).total)
            for number in range(arrivals.users):
                self.schedule(latency * number / arrivals.users, self.send)
        least = 0 if arrivals.rate is not None else arrivals.users
        wanted = arrivals.least
        while True:
            warm = warm_up(self.first(wanted), max(least, wanted // _START))
            counted = self.first(warm + wanted)[warm : warm + wanted]
            if arrivals.requests is not None or wanted >= most or _is_precise(counted):
                return counted
            wanted = min(2 * wanted, most)

    def checked_most(self) -> int:
        """Requests that are counted at most where nobody says how many; refuses what would take too long."""
        arrivals = self.arrivals
        passes = float(self.server.computed) / self.budget
        draws = 0.0 if self.decode.deployment.draft is None else float(self.decode.steps_of())
        events = _EVENTS + passes + draws / _DRAWS  # per request
        start = 0 if arrivals.rate is not None or arrivals.is_burst else arrivals.users
        needed = events * (arrivals.least + start)
        if needed > arrivals.events:
            users = "" if arrivals.rate is not None else f" of {arrivals.users:g} users"
            remedy = f"give fewer requests (`requests`){' or users, or more GPUs' if users else ''}"
            raise BadInput(
                f"a simulation of {arrivals.least:g} requests{users} takes about {needed:.2g} events, more than "
                f"{arrivals.events:.0g}; {remedy if needed > MOST_EVENTS else 'ask for it with `simulate`'}"
            )
        return min(_MOST, int(arrivals.events / events))

    def first(self, requests: int) -> list[Finished]:
        """The first answered requests; simulates until there are so many."""
        events, answered, report, only = self.events, self.answered, self.progress, self.only
        while len(answered) < requests:
            for _ in range(_REPORT):
                if only is None or (events and events[0][0] <= only.ends):
                    now, _, action, subject = heappop(events)
                    action(now, subject)
                else:
                    self.end(only.ends, only)
                if len(answered) >= requests:
                    break
            if report is not None:
                report(min(len(answered), self.arrivals.least))
        return answered

    def schedule(self, time: float, action: _Action, subject: Any = None) -> None:
        """Let something happen at a time."""
        self.order = order = self.order + 1
        heappush(self.events, (time, order, action, subject))

    def start(self, now: float, rank: _Rank) -> None:
        """Begin after all else that happens at the same time."""
        if self.events and self.events[0][0] == now:
            self.order += 1
            heappush(self.events, (now, _LAST + self.order, self.begin, rank))
        else:
            self.begin(now, rank)

    def prompt_of(self, share: float, more: float = 0.0) -> int:
        """Tokens to compute of a prompt, at least one."""
        return max(round(self.fresh * share + more), 1)

    def answer_of(self, share: float) -> int:
        """Tokens of an answer; where the mean is a single one, none is shorter."""
        return max(round(self.osl * share), 1) if self.osl > 1.0 else 1

    def send(self, now: float, turn: tuple[int, int, float, _Rank] | None = None) -> None:
        """Send a request; under a rate, draw when the next one is sent."""
        rank = self.only
        if self.coming is not None and turn is None:
            self.schedule(next(self.coming), self.send)
        if rank is None:
            rank = self.senders[0 if len(self.senders) == 1 else self.routed()]
        if self.coming is not None and self.arrivals.ranks > 1 and self.random.random() * self.arrivals.ranks >= 1.0:
            return  # another rank of the replica has it
        # Integer lengths with the given mean; the cached prefix does not vary.
        shares = None if self.draw is None else self.draw()
        is_hit = len(self.kinds) == 1 or self.random.random() < self.hits
        cached, more, loading, prompt = self.kinds[0 if is_hit else 1]
        answer, number, key = self.answer, 1, 0
        if self.sessions is not None:
            first = 1, self.sent + 1, self.sessions.system, rank
            number, key, cached, at = first if turn is None else turn
            prompt, more, loading = self.prompt_of(1.0), 0.0, 0.0
            if self.follows:
                rank = at
        if shares is not None:
            prompt, answer = self.prompt_of(shares[0], more), self.answer_of(shares[1])
        ready = now + self.way
        if loading:
            rank.loads = ready = max(ready, rank.loads) + loading
        if rank.running:
            ready += self.delay * len(rank.running) ** 0.5 + self.lags[cached][prompt]
        if self.cold is not None and self.random.random() < self.cold[0]:
            ready += self.cold[1]
        steps = drawn_steps(answer - 1, self.decode.deployment, self.random) if self.drafting else answer - 1
        tokens = cached + prompt + self.reserve * answer
        request = _Request(now, ready, cached, prompt, prompt, answer, steps, tokens, rank, -1.0, 0.0, number, key)
        self.sent += 1
        rank.sent += 1
        order = self.order + 1
        heappush(self.events, (ready, order, self.receive, request))  # `schedule`, without the call
        if self.rate is not None and self.coming is None and turn is None:
            order += 1
            gap = -log(1.0 - self.random.random()) / self.rate  # `expovariate`, likewise
            heappush(self.events, (now + gap, order, self.send, None))
        self.order = order

    def next_turn(self, now: float, request: _Request, sessions: Sessions) -> None:
        """Keep the context of an answered turn; its session goes on after a pause, or ends."""
        rank, context = request.rank, request.cached + request.prompt + request.answer
        own = context - sessions.system
        rank.kept[request.key] = own
        rank.kept_tokens += own
        self.drop(rank)
        goes_on = request.turn < sessions.turns
        if goes_on or self.rate is None:
            pause = self.random.expovariate(1.0 / sessions.think) if sessions.think else 0.0
            turn = (request.turn + 1, request.key, context, rank) if goes_on else None
            self.schedule(now + pause, self.send, turn)

    def drop(self, rank: _Rank) -> None:
        """Drop contexts that were not used for the longest time, where memory lacks; a tier keeps them for a while."""
        tier = self.arrivals.tier
        while rank.kept and rank.held + rank.kept_tokens > rank.memory:
            key = next(iter(rank.kept))
            tokens = rank.kept.pop(key)
            rank.kept_tokens -= tokens
            if tier:
                rank.dropped[key] = tokens
                rank.dropped_tokens += tokens
        while rank.dropped and rank.dropped_tokens > tier:
            rank.dropped_tokens -= rank.dropped.pop(next(iter(rank.dropped)))

    def find(self, now: float, rank: _Rank, request: _Request, sessions: Sessions) -> bool:
        """Look for the context of a turn that may start; False where it is loaded first."""
        if request.turn > 1 and not request.found:
            own = request.cached - sessions.system
            if request.key in rank.kept:
                request.found = HBM
                rank.kept_tokens -= rank.kept.pop(request.key)
            elif request.key in rank.dropped:
                request.found = TIER
                rank.dropped_tokens -= rank.dropped.pop(request.key)
                cache = self.server.cache
                time = 0.0 if cache is None else float(load_time(self.server.deployment, own, cache))
                rank.loads = ready = max(now, rank.loads) + time
                self.schedule(ready, self.receive, request)
                return False
            else:
                request.found = NOWHERE
                request.cached = sessions.system
                request.prompt = request.left = request.prompt + round(own)
        rank.held += request.tokens
        self.drop(rank)
        rank.held -= request.tokens  # as it is counted when it starts
        return True

    def routed(self) -> int:
        """Place of the rank that a request goes to."""
        router = None if self.arrivals.process is None else self.arrivals.process.router
        if router == ROUND_ROBIN:
            self.next = (self.next + 1) % len(self.senders)
            return self.next
        if router == LEAST_BUSY:
            fewest = min(rank.sent - rank.done for rank in self.senders)
            return self.random.choice([at for at, rank in enumerate(self.senders) if rank.sent - rank.done == fewest])
        return self.random.randrange(len(self.senders))

    def receive(self, now: float, request: _Request) -> None:
        """Let a request wait at its rank, which takes it in after the decode step that is running."""
        rank = request.rank
        rank.waiting.append(request)
        if not rank.is_busy:
            rank.is_busy = True
            self.start(now, rank)
        elif rank.steps > 1 and len(rank.waiting) == 1 and rank.has_room(request):
            steps = rank.steps_until(now)
            if steps < rank.steps:
                rank.steps, rank.ends = steps, rank.begun + rank.time(steps)
                if self.only is None:
                    self.schedule(rank.ends, self.end, rank)

    def begin(self, now: float, rank: _Rank) -> None:
        """Begin a step that holds prompts, or decode steps until an answer ends."""
        waiting, running, only = rank.waiting, rank.running, self.only
        while waiting and rank.has_room(waiting[0]):
            request = waiting.popleft()
            if self.sessions is not None and not self.find(now, rank, request, self.sessions):
                continue
            rank.held += request.tokens
            if rank.computes_prompts:
                rank.partial.append(request)
            else:
                self.join(now, rank, request)
        if rank.partial:
            time = self.prompt_step(now, rank)
        elif running:
            fixed, per_token = self.steps[len(running)]
            rank.step = step = fixed + per_token * rank.context
            rank.growth = growth = per_token * rank.gain
            rank.steps = steps = running[0][0] - rank.clock
            time = steps * (step + growth * (steps - 1) / 2.0)
        else:
            rank.is_busy = False
            return
        rank.begun = now
        rank.ends = ends = now + time
        if only is None:
            self.schedule(ends, self.end, rank)

    def end(self, now: float, rank: _Rank) -> None:
        """End what a rank is at, and begin the next."""
        if now != rank.ends:  # it was cut short
            return
        rank.ends, rank.ended = _NEVER, now
        if rank.steps:
            self.count_gaps(now, rank)
            running, steps = rank.running, rank.steps
            rank.clock = clock = rank.clock + steps
            rank.context += steps * rank.gain
            rank.steps = 0
            while running and running[0][0] <= clock:
                request = heappop(running)[2]
                tokens = request.answer - 1
                rank.context -= request.cached + request.prompt + tokens
                rank.gain -= tokens / request.steps
                rank.held -= request.tokens
                self.finish(now, request)
        if rank.computed:
            for request in rank.computed:
                if request.answer == 1:
                    request.first = now
                    rank.held -= request.tokens
                    self.finish(now, request)
                elif self.pools is None:
                    self.join(now, rank, request)
                else:
                    self.transfer(now, request, self.pools)
            rank.computed = []
        if self.events and self.events[0][0] == now:
            self.start(now, rank)
        else:
            self.begin(now, rank)

    def count_gaps(self, now: float, rank: _Rank) -> None:
        """Count the gaps between tokens that decode steps have ended; drafted tokens come with their step."""
        gaps, running, steps, before = self.gaps, len(rank.running), rank.steps, rank.joined
        stepped = now if steps == 1 else rank.begun + rank.step
        counts = running
        if before:
            counts -= len(before)
            for first in before:
                place = _bin(stepped - first)
                gaps[place] = gaps.get(place, 0.0) + 1.0
            rank.joined = []
        place = floor(log(stepped - rank.stepped) * _BINS)  # `_bin`, without the call
        gaps[place] = gaps.get(place, 0.0) + counts
        if steps > 1:
            step, growth = rank.step, rank.growth
            low, high = floor(log(step + growth) * _BINS), floor(log(step + growth * (steps - 1)) * _BINS)
            each = running * (steps - 1) / (high - low + 1)
            for place in range(low, high + 1):
                gaps[place] = gaps.get(place, 0.0) + each
        rank.stepped = now

    def join(self, now: float, rank: _Rank, request: _Request) -> None:
        """Decode a sequence from its first token on."""
        request.first = now
        rank.joined.append(now)
        rank.order = order = rank.order + 1
        steps = request.steps
        heappush(rank.running, (rank.clock + steps, order, request))
        rank.context += request.cached + request.prompt
        rank.gain += (request.answer - 1) / steps

    def finish(self, now: float, request: _Request) -> None:
        """Count an answered request; its user asks again."""
        arrival, first, tokens = request.arrival, request.first, request.answer - 1
        request.rank.done += 1
        tpot = (now - first) / tokens if tokens else _NONE
        waited, gaps, self.gaps = request.started - request.ready, self.gaps, {}
        times = first - arrival, tpot, now - arrival, waited, request.steps, gaps, request.turn, request.found
        self.answered.append(tuple.__new__(Finished, times))  # in half of the time of `Finished(...)`
        if self.sessions is not None:
            self.next_turn(now, request, self.sessions)
        elif self.rate is None and (not self.arrivals.is_burst or self.sent < self.arrivals.least):
            self.send(now)

    def prompt_step(self, now: float, rank: _Rank) -> float:
        """Time of a step that computes prompts, beside the sequences that decode or alone [s]."""
        prompts, partial, running = self.prompts, rank.partial, len(rank.running)
        decoding = 0 if self.is_prompts_first else running
        decoded = decoding * self.queries
        length, room, attention, kept = 0, self.room_beside(decoding), 0.0, 0
        while partial and length < room:
            request = partial[0]
            if request.started < 0.0:
                request.started = now
            if request.left == request.prompt:
                attention += prompts.encoder
            left = request.left
            new = left if left <= room - length else room - length
            attention += prompts.attention[new, request.cached + (request.prompt - left)]
            length += new
            kept += min(new, self.last)
            request.left = left - new
            if new == left:
                rank.computed.append(partial.popleft())
        busy = self.alike if self.pools is None else sum(peer.is_busy for peer in rank.peers)
        linear = self.linear if self.pools is None else prompts.linear[busy]
        slowdown = self.slowdown if running else 1.0
        if decoding:
            rank.steps = 1
            fixed, per_token = self.steps[decoding]
            together = prompts.step(linear, busy, decoded + length, decoded + kept)
            more = max(slowdown * (together - linear[decoded]), 0.0)
            return fixed + per_token * rank.context + more + slowdown * attention + self.prefill
        time = slowdown * (prompts.step(linear, busy, length, kept) + prompts.head + attention)
        if self.pools is None or rank.ended != now:  # right after a pass, the host has launched the kernels ahead
            time = max(time, prompts.launches)
        return time + self.prefill

    def room_of(self, decoding: int) -> int:
        """Prompt tokens of a step beside so many sequences that decode."""
        return max(int(self.budget - decoding * self.queries), self.budget // 50, 1)

    def transfer(self, now: float, request: _Request, pools: Pools) -> None:
        """Move the KV cache of a prompt to a rank that decodes: a random one, or under users the emptiest."""
        if self.arrivals.rate is not None:
            receiver = self.receivers[self.random.randrange(len(self.receivers))]
        else:
            receiver = min(self.receivers, key=lambda rank: len(rank.waiting) + len(rank.running) + rank.coming)
        sender = request.rank
        time = self.transfer_time(request.cached + request.prompt)
        shown = float(shown_transfer(pools.link, self.layers, time, now - request.started))
        start = max(now, sender.free, receiver.free) if shown else now
        sender.free = receiver.free = start + shown
        receiver.coming += 1
        request.rank = receiver
        self.schedule(start + shown + self.handover, self.take_over, request)

    def take_over(self, now: float, request: _Request) -> None:
        """Take in a request whose KV cache has arrived."""
        request.rank.coming -= 1
        self.receive(now, request)


def _bin(gap: float) -> int:
    return floor(log(gap) * _BINS)


def drawn_steps(tokens: int, deployment: Deployment, generator: random.Random) -> int:
    """Random number of decode steps for `tokens` tokens: one each, or fewer with drafts."""
    if deployment.draft is None:
        return tokens
    steps = gained = 0
    while gained < tokens:
        steps, gained = steps + 1, gained + 1
        for rate in deployment.draft.acceptance.rates:
            if generator.random() >= rate:
                break
            gained += 1
    return steps


# Tables of step times.

_GRID = [1.0]
while _GRID[-1] < _LARGEST:
    _GRID.append(max(float(round(_GRID[-1] * _GROWTH)), _GRID[-1] + 1.0))


class _Table(dict[float, float]):
    """A function of one number, linear between the nodes of a grid; values are found when they are first needed."""

    def __init__(self, function: Callable[[float], Real]) -> None:
        super().__init__()
        self.function = function

    def __missing__(self, argument: float) -> float:
        place = min(max(bisect_right(_GRID, argument), 1), len(_GRID) - 1)
        low, high = _GRID[place - 1], _GRID[place]
        if argument in (low, high):
            value = float(self.function(argument))
        else:
            value = self[low] + (argument - low) / (high - low) * (self[high] - self[low])
        self[argument] = value
        return value


class _DecodeTimes(dict[int, tuple[float, float]]):
    """Decode steps by sequences: time without context, and time per token of context of all together [s]."""

    def __init__(self, server: Server, alike: int) -> None:
        super().__init__()
        self.contexts = float(server.isl) + 1.0, float(server.isl) + float(server.osl) + 1.0
        self.tables = [_Table(partial(_decode_time, server.deployment, alike, context)) for context in self.contexts]

    def __missing__(self, sequences: int) -> tuple[float, float]:
        (short, long), (low, high) = self.contexts, (table[sequences] for table in self.tables)
        per_context = (high - low) / (long - short)
        self[sequences] = times = low - per_context * short, per_context / sequences
        return times


def _decode_time(deployment: Deployment, alike: int, context: float, sequences: float) -> Real:
    """Time of a decode step of a rank [s], with `alike` ranks in step with it; on others a sequence fewer decodes."""
    return decode_pass(deployment, alike + (sequences - 1.0) * deployment.plan.dp, context).time


class _Attention(dict[tuple[int, float], float]):
    """Attention of chunks [s], by their tokens and the cached ones before them."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__()
        self.after = _Tables(lambda cached: _Table(partial(attention_time, deployment, cached)))

    def __missing__(self, chunk: tuple[int, float]) -> float:
        new, cached = chunk
        self[chunk] = time = _Table(lambda place: self.after[place - 1.0][new])[cached + 1.0]
        return time


class _Tables(dict[float, _Table]):
    """Tables by one more number."""

    def __init__(self, table: Callable[[float], _Table]) -> None:
        super().__init__()
        self.table = table

    def __missing__(self, number: float) -> _Table:
        self[number] = table = self.table(number)
        return table


class _PromptTimes:
    """Times of parts of a step that computes prompts [s]."""

    def __init__(self, server: Server) -> None:
        mean = prompt_of(server)
        self.alone, self.head, self.launches = float(mean.alone), float(mean.head), float(mean.launches)
        self.attention = _Attention(server.deployment)
        self.encoder = 0.0  # of a request's images and audio
        if server.deployment.media is not None:
            from roofline.physics.encoders import encoder_time

            self.encoder = float(encoder_time(server.deployment, 1.0))
        # everything but attention, head and host, by ranks of the worker that compute, then by tokens
        self.linear = _Tables(lambda busy: _Table(partial(_linear_time, replace(server, users=busy))))
        self.through = _Tables(lambda busy: _Table(partial(_prompt_time, replace(server, users=busy))))

    def step(self, linear: _Table, busy: float, tokens: float, late: float) -> float:
        """The same of a step, of whose tokens the late layers compute fewer."""
        if late == tokens:
            return linear[tokens]
        through = self.through[busy]
        return through[tokens] + linear[late] - through[late]


def _linear_time(server: Server, tokens: float) -> Real:
    return server.linear(tokens / server.deployment.queries, 0.0)


def _prompt_time(server: Server, tokens: float) -> Real:
    ranks = max(min(1.0 * server.deployment.plan.dp, float(server.users or 1)), 1.0)
    return server.through(ranks, tokens)
