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
from collections.abc import Callable, Sequence
from functools import cache, partial
from heapq import heappop, heappush
from itertools import pairwise
from math import isnan
from statistics import fmean
from typing import Any

from roofline.numbers.operations import Real
from roofline.numbers.quantity import BILLION, NANO
from roofline.physics.memory import largest_batch
from roofline.physics.passes import decode_pass
from roofline.physics.plan import Deployment
from roofline.serving.latency import EQUAL, Lengths, Workload, lanes
from roofline.serving.load.equations import server_of
from roofline.serving.load.pools import Pools, kv_transfer_time, shown_transfer
from roofline.serving.load.server import PROMPTS_FIRST, Server, attention_time, prompt_of
from roofline.specs.load import Burst
from roofline.specs.workload import LATENCIES, LEVELS, key_of
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple, dataclass, field, replace

#: Half width of the 95 % intervals of mean latencies, over the means, at which enough requests are counted [1].
PRECISION = 0.05

_FEWEST, _PER_USER = 4000, 20  # requests, where nobody says how many
_MOST = 200_000  # requests, whatever their intervals
_MOST_EVENTS = 10_000_000  # some minutes
_EVENTS, _DRAWS = 5, 20  # events per request that are not passes; drawn decode steps that take as long as an event
_GROWTH = 1.25  # ratio of neighbouring nodes of a table of step times
_LARGEST = 10.0 * BILLION  # node
_REPORT = 1000  # events between two reports of progress
_UNLIMITED = 1 << 60  # sequences
_MEANS = 5  # requests of a batch in which the end of the warm-up is looked for
_START = 10  # at least one in so many requests is warm-up
_BATCHES, _QUANTILE = 20, 2.093  # batches of an interval, and Student's t of 19 degrees of freedom at 97.5 %
_CORRELATED = 0.9  # correlation of neighbouring batches at most


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrivals of requests, and their lengths."""

    requests: int | None = None  # counted ones; None: enough for the mean latencies to be known to within `PRECISION`
    rate: float | None = None  # [1/s] Poisson arrivals; None: users
    users: int = 1  # of a closed loop
    is_burst: bool = False  # all users begin at once, and these requests count
    lengths: Lengths = EQUAL  # spread around the server's means
    seed: int = 0

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
    """Means and percentiles over requests, by the keys of limits [s]; no TPOT of single tokens."""
    found = {}
    for name in LATENCIES:
        times = sorted(time for request in finished if not isnan(time := getattr(request, name)))
        if times:
            found[name] = fmean(times)
            found |= {
                key_of(name, level): times[min(int(level / 100.0 * len(times)), len(times) - 1)] for level in LEVELS
            }
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
    for name in LATENCIES:
        times = [time for request in finished if not isnan(time := getattr(request, name))]
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
    means = simulated_latencies(finished)
    return {name: (means[name] - width, means[name] + width) for name, width in half_widths(finished).items()}


def _is_precise(finished: Sequence[Finished]) -> bool:
    return all(high - low <= PRECISION * (low + high) for low, high in intervals(finished).values())


_Action = Callable[[float, Any], None]
_Event = tuple[float, bool, int, _Action, Any]  # time, whether after others, number, what happens to what


class _Simulation:
    """Requests from their arrival to their answer: one rank, or the ranks of two pools and the link between them."""

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
        self.is_fixed = arrivals.lengths.is_fixed
        self.fresh, self.osl = float(server.fresh), float(decode.osl)  # means of what varies
        self.kinds = [(float(k.cached), float(k.computed - server.fresh), float(k.loading)) for k in server.kinds]
        self.hits = float(server.kinds[0].weight)
        self.way = float(server.engine.network + server.engine.request)
        self.delay = 0.0 if pools else float(server.engine.arrival)  # who only computes prompts decodes nobody
        self.handover = float(decode.engine.handover)  # from one pool to the other
        self.cold = server.cold_start
        self.is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
        self.slowdown, self.prefill = float(server.engine.prefill_slowdown), float(server.engine.prefill)
        self.budget, self.queries = int(server.budget), float(decode.deployment.queries)
        engine, plan = decode.deployment.engine, decode.deployment.plan  # its limits hold on the ideal basis too
        self.reserve = engine.reserve  # share of an answer for which there must be room at its start
        length = float(decode.isl) + self.reserve * float(decode.osl)
        batch = float(largest_batch(decode.deployment, length)) / plan.dp  # sequences in memory
        most = max(int(engine.max_num_seqs / plan.pp), 1) if engine.max_num_seqs else _UNLIMITED
        ranks = 1 if pools is None else int(lanes(pools.decode))
        self.receivers = [_Rank(batch * length * (1.0 + NANO), most) for _ in range(ranks)]
        self.senders = self.receivers
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
        self.events: list[_Event] = []
        self.order = 0  # of events: breaks ties
        self.sent = 0  # requests
        self.answered: list[Finished] = []
        self.link = 0.0  # when the link for prefix loads is free

    def run(self) -> list[Finished]:
        """Simulate until enough requests are answered after the warm-up, or a run is over."""
        arrivals, most = self.arrivals, self.checked_most()
        if arrivals.rate is not None:
            self.schedule(self.random.expovariate(arrivals.rate), self.send)
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
        if events * (arrivals.least + start) > _MOST_EVENTS:
            users = "" if arrivals.rate is not None else f" of {arrivals.users:g} users"
            raise BadInput(
                f"a simulation of {arrivals.least:g} requests{users} takes about "
                f"{events * (arrivals.least + start):.1g} events, more than {_MOST_EVENTS:.0g}; give fewer requests "
                f"(`requests`){' or users, or more GPUs' if users else ''}"
            )
        return min(_MOST, int(_MOST_EVENTS / events))

    def first(self, requests: int) -> list[Finished]:
        """The first answered requests; simulates until there are so many."""
        events, answered, report = self.events, self.answered, self.progress
        happened = 0
        while len(answered) < requests:
            now, _, _, action, subject = heappop(events)
            action(now, subject)
            happened += 1
            if report is not None and happened % _REPORT == 0:
                report(min(len(answered), self.arrivals.least))
        return answered

    def schedule(self, time: float, action: _Action, subject: Any = None, *, is_last: bool = False) -> None:
        """Let something happen at a time; if `is_last`, after all else that happens then."""
        self.order += 1
        heappush(self.events, (time, is_last, self.order, action, subject))

    def send(self, now: float, _: None) -> None:
        """Send a request; under a rate, draw when the next one is sent."""
        # Integer lengths with the given mean; the cached prefix does not vary.
        prompts, answers = (1.0, 1.0) if self.is_fixed else self.arrivals.lengths.draw(self.random)
        is_hit = len(self.kinds) == 1 or self.random.random() < self.hits
        cached, more, loading = self.kinds[0 if is_hit else 1]
        prompt = max(round(self.fresh * prompts + more), 1)
        answer = max(round(self.osl * answers), 1) if self.osl > 1.0 else 1  # no answer is shorter
        rank = self.senders[0 if len(self.senders) == 1 else self.random.randrange(len(self.senders))]
        ready = now + self.way
        if loading:
            self.link = ready = max(ready, self.link) + loading
        ready += self.delay * len(rank.running) ** 0.5
        if self.cold is not None and self.random.random() < self.cold[0]:
            ready += self.cold[1]
        steps = drawn_steps(answer - 1, self.decode.deployment, self.random)
        tokens = cached + prompt + self.reserve * answer
        self.sent += 1
        self.schedule(ready, self.receive, _Request(now, ready, cached, prompt, prompt, answer, steps, tokens, rank))
        if self.arrivals.rate is not None:
            self.schedule(now + self.random.expovariate(self.arrivals.rate), self.send)

    def receive(self, now: float, request: _Request) -> None:
        """Let a request wait at its rank, which takes it in after the decode step that is running."""
        rank = request.rank
        rank.waiting.append(request)
        if not rank.is_busy:
            rank.is_busy = True
            self.schedule(now, self.begin, rank, is_last=True)
        elif rank.steps > 1 and len(rank.waiting) == 1 and rank.has_room(request):
            steps = rank.steps_until(now)
            if steps < rank.steps:
                rank.steps, rank.ends = steps, rank.begun + rank.time(steps)
                self.schedule(rank.ends, self.end, rank)

    def begin(self, now: float, rank: _Rank) -> None:
        """Begin a step that holds prompts, or decode steps until an answer ends."""
        waiting, running = rank.waiting, rank.running
        while waiting and rank.has_room(waiting[0]):
            request = waiting.popleft()
            rank.held += request.tokens
            if rank.computes_prompts:
                rank.partial.append(request)
            else:
                self.join(now, rank, request)
        if rank.partial:
            time = self.prompt_step(now, rank)
        elif running:
            fixed, per_token = self.steps[len(running)]
            rank.step, rank.growth = fixed + per_token * rank.context, per_token * rank.gain
            rank.steps = running[0][0] - rank.clock
            time = rank.time(rank.steps)
        else:
            rank.is_busy = False
            return
        rank.begun, rank.ends = now, now + time
        self.order += 1
        heappush(self.events, (rank.ends, False, self.order, self.end, rank))  # `schedule`, without the call

    def end(self, now: float, rank: _Rank) -> None:
        """End what a rank is at, and begin the next."""
        if now != rank.ends:  # it was cut short
            return
        rank.ends, rank.ended = float("inf"), now
        if rank.steps:
            running = rank.running
            rank.clock += rank.steps
            rank.context += rank.steps * rank.gain
            rank.steps = 0
            while running and running[0][0] <= rank.clock:
                _, _, request = heappop(running)
                rank.context -= request.cached + request.prompt + request.answer - 1
                rank.gain -= (request.answer - 1) / request.steps
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
            self.schedule(now, self.begin, rank, is_last=True)
        else:
            self.begin(now, rank)

    def join(self, now: float, rank: _Rank, request: _Request) -> None:
        """Decode a sequence from its first token on."""
        request.first = now
        rank.order += 1
        heappush(rank.running, (rank.clock + request.steps, rank.order, request))
        rank.context += request.cached + request.prompt
        rank.gain += (request.answer - 1) / request.steps

    def finish(self, now: float, request: _Request) -> None:
        """Count an answered request; its user asks again."""
        arrivals, arrival, first = self.arrivals, request.arrival, request.first
        tokens = request.answer - 1
        tpot = (now - first) / tokens if tokens else float("nan")
        self.answered.append(Finished(first - arrival, tpot, now - arrival, request.started - request.ready))
        if arrivals.rate is None and (not arrivals.is_burst or self.sent < arrivals.least):
            self.send(now, None)

    def prompt_step(self, now: float, rank: _Rank) -> float:
        """Time of a step that computes prompts, beside the sequences that decode or alone [s]."""
        prompts, partial = self.prompts, rank.partial
        decoding = 0 if self.is_prompts_first else len(rank.running)
        decoded = decoding * self.queries
        length, room, attention = 0, max(int(self.budget - decoded), self.budget // 50, 1), 0.0
        while partial and length < room:
            request = partial[0]
            if request.started < 0.0:
                request.started = now
            new = min(request.left, room - length)
            attention += prompts.attention[new, request.cached + (request.prompt - request.left)]
            length += new
            request.left -= new
            if not request.left:
                rank.computed.append(partial.popleft())
        linear = prompts.linear[sum(peer.is_busy for peer in rank.peers) if rank.peers else self.alike]
        slowdown = self.slowdown if rank.running else 1.0
        if decoding:
            rank.steps = 1
            fixed, per_token = self.steps[decoding]
            more = max(slowdown * (linear[decoded + length] - linear[decoded]), 0.0)
            return fixed + per_token * rank.context + more + slowdown * attention + self.prefill
        time = slowdown * (linear[length] + prompts.head + attention)
        if self.pools is None or rank.ended != now:  # right after a pass, the host has launched the kernels ahead
            time = max(time, prompts.launches)
        return time + self.prefill

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
        # everything but attention, head and host, by ranks of the worker that compute, then by tokens
        self.linear = _Tables(lambda busy: _Table(partial(_linear_time, replace(server, users=busy))))


def _linear_time(server: Server, tokens: float) -> Real:
    return server.linear(tokens / server.deployment.queries, 0.0)
