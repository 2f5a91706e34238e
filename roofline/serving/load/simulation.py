"""Simulation of servers: every token of every request, with the step times of the closed forms.

The reference for the equations of `serving.load.equations` and `serving.load.pools`. Requests of Poisson arrivals, or
of users who ask again once they are answered, go through one loop of events. One pool and two pools differ in what a
step of a rank holds: prompts and answers under a token budget; or the prompts in one pool, the answers in the other.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count, pairwise
from math import isnan
from statistics import fmean

from roofline.numbers.operations import Real
from roofline.numbers.quantity import NANO
from roofline.physics.memory import largest_batch
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Deployment
from roofline.serving.latency import EQUAL, UNIFORM, Lengths, Workload, lanes
from roofline.serving.load.equations import server_of
from roofline.serving.load.pools import Pools, kv_transfer_time, prompt_rank, shown_transfer
from roofline.serving.load.server import PROMPTS_FIRST, Server
from roofline.specs.gpu import HEAD
from roofline.specs.load import Burst
from roofline.specs.workload import LATENCIES, LEVELS, key_of
from roofline.support.records import NamedTuple, dataclass, field, replace

_NODES, _GROWTH = 24, 1.35  # of a table of step times: how many, ratio of neighbours
_POOL_NODES, _POOL_GROWTH = 40, 1.25
_ROUNDS = 3  # warm-up requests per user
_WARM, _FEWEST_WARM = 20, 50  # under a rate one request in so many is warm-up, and at least so many are
_REPORT = 4096  # events between two reports of progress
_UNLIMITED = 1 << 60  # sequences


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrivals of requests, and their lengths."""

    requests: int  # counted ones
    rate: float | None = None  # [1/s] Poisson arrivals; None: users
    users: int = 1  # of a closed loop
    is_burst: bool = False  # all users begin at once, and these requests count
    lengths: Lengths = EQUAL  # spread around the server's means
    seed: int = 0


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
    sender: int  # rank that computes its prompt
    started: float = -1.0
    first: float = 0.0


@dataclass(slots=True)
class _Rank:
    """Prompts and sequences of one rank."""

    memory: float = float("inf")  # [tokens]
    reserve: float = 0.0  # share of an answer for which there must be room at its start
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
    is_busy: bool = False
    free: float = 0.0  # [s] when its link is free

    def tokens(self, request: _Request) -> float:
        """Memory of a request [tokens]."""
        return request.cached + request.prompt + self.reserve * request.answer

    def admitted(self) -> Iterator[_Request]:
        """The waiting requests for which there is room, in their order."""
        while self.waiting and len(self.running) + len(self.partial) < self.most:
            needed = self.tokens(self.waiting[0])
            if self.held + needed > self.memory * (1.0 + NANO) and (self.running or self.partial):
                break
            self.held += needed
            yield self.waiting.popleft()

    def chunks(self, now: float, room: int) -> Iterator[tuple[_Request, int, int]]:
        """Chunks of prompts that fill a step from `now` on: of which, from which token on, and how many."""
        while self.partial and room > 0:
            request = self.partial[0]
            if request.started < 0.0:
                request.started = now
            done, new = request.prompt - request.left, min(request.left, room)
            request.left -= new
            room -= new
            if request.left == 0:
                self.partial.popleft()
            yield request, done, new

    def join(self, request: _Request, now: float) -> None:
        """Decode a sequence from its first token on."""
        request.first = now
        self.order += 1
        heappush(self.running, (self.clock + request.steps, self.order, request))
        self.context += request.cached + request.prompt
        self.gain += (request.answer - 1) / request.steps

    def advance(self) -> Iterator[_Request]:
        """Every sequence gains tokens; those that end."""
        self.clock += 1
        self.context += self.gain
        while self.running and self.running[0][0] <= self.clock:
            _, _, request = heappop(self.running)
            self.context -= request.cached + request.prompt + request.answer - 1
            self.gain -= (request.answer - 1) / request.steps
            self.held -= self.tokens(request)
            yield request


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
    return _OnePool(server, arrivals, progress).run()


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
    return _TwoPools(pools, workload, arrivals, progress).run()


class _Simulator:
    """Requests from their arrival to their answer; subclasses serve them."""

    def __init__(
        self, server: Server, decode: Server, arrivals: Arrivals, progress: Callable[[int], None] | None
    ) -> None:
        # `server` computes prompts, `decode` answers
        self.server, self.decode, self.arrivals, self.progress = server, decode, arrivals, progress
        self.random = random.Random(arrivals.seed)  # noqa: S311  # no secret
        self.budget = int(server.budget)
        engine, plan = decode.deployment.engine, decode.deployment.plan  # its limits hold on the ideal basis too
        self.reserve = engine.reserve
        length = float(decode.isl) + self.reserve * float(decode.osl)
        self.batch = float(largest_batch(decode.deployment, length)) / plan.dp  # sequences in memory
        self.memory = self.batch * length
        self.most = max(int(engine.max_num_seqs / plan.pp), 1) if engine.max_num_seqs else _UNLIMITED
        self.events: list[tuple[float, bool, int, Callable[[float], None]]] = []
        self.order = count()  # of events: breaks ties
        self.sent = 0
        self.answered: list[Finished] = []
        self.link = 0.0  # when the link for prefix loads is free
        self.skipped = 0  # requests of the warm-up that are not answered

    def run(self) -> list[Finished]:
        """Simulate until enough requests are answered."""
        arrivals = self.arrivals
        if arrivals.rate is not None:
            self.skipped = max(arrivals.requests // _WARM, _FEWEST_WARM)
            self.schedule(self.random.expovariate(arrivals.rate), self.send)
        elif arrivals.is_burst:
            for _ in range(min(arrivals.users, arrivals.requests)):
                self.ask(0.0)
        else:
            self.skipped = _ROUNDS * arrivals.users
            # Users that began together would stay in step for long.
            for number in range(arrivals.users):
                self.ask(self.idle_latency() * number / arrivals.users)
        events = 0
        while len(self.answered) < arrivals.requests:
            now, _, _, action = heappop(self.events)
            action(now)
            events += 1
            if self.progress is not None and events % _REPORT == 0:
                self.progress(len(self.answered))
        return self.answered

    def schedule(self, time: float, action: Callable[[float], None], *, is_last: bool = False) -> None:
        """Let something happen at a time; if `is_last`, after all else that happens then."""
        heappush(self.events, (time, is_last, next(self.order), action))

    def send(self, now: float) -> None:
        """Send a request; under a rate, draw the next arrival."""
        server, arrivals = self.server, self.arrivals
        # Integer lengths with the given mean; the cached prefix does not vary.
        prompts, answers = arrivals.lengths.draw(self.random)
        hit, *miss = server.kinds
        kind = miss[0] if miss and self.random.random() >= hit.weight else hit
        prompt = max(round(float(server.fresh * prompts + (kind.computed - server.fresh))), 1)
        answer = max(round(float(self.decode.osl) * answers), 1)
        sender = self.sender()
        ready = now + float(server.engine.network + server.engine.request)
        if kind.loading:
            self.link = ready = max(ready, self.link) + float(kind.loading)
        if self.is_decoding():
            ready += float(server.engine.arrival)
        if server.cold_start is not None and self.random.random() < server.cold_start[0]:
            ready += server.cold_start[1]
        steps = drawn_steps(answer - 1, self.decode.deployment, self.random)
        request = _Request(now, ready, float(kind.cached), prompt, prompt, answer, steps, sender)
        self.sent += 1
        self.schedule(ready, lambda at: self.receive(at, request))
        if arrivals.rate is not None:
            self.schedule(now + self.random.expovariate(arrivals.rate), self.send)

    def finish(self, now: float, request: _Request) -> None:
        """Count an answered request; its user asks again."""
        arrivals = self.arrivals
        if arrivals.rate is None and (not arrivals.is_burst or self.sent < arrivals.requests):
            self.ask(now)
        if self.skipped:
            self.skipped -= 1
            return
        tokens = request.answer - 1
        tpot = (now - request.first) / tokens if tokens else float("nan")
        wait = request.started - request.ready
        self.answered.append(Finished(request.first - request.arrival, tpot, now - request.arrival, wait))

    def ask(self, at: float) -> None:
        """Let a user ask at a time."""
        self.schedule(at, self.send)

    def idle_latency(self) -> float:
        """Time of a request on idle ranks [s]."""
        raise NotImplementedError

    def is_decoding(self) -> bool:
        """Whether any rank decodes."""
        raise NotImplementedError

    def sender(self) -> int:
        """Rank that computes the next prompt."""
        raise NotImplementedError

    def receive(self, now: float, request: _Request) -> None:
        """Take in a request that reaches the scheduler."""
        raise NotImplementedError


class _OnePool(_Simulator):
    """A rank that computes prompts and answers."""

    def __init__(self, server: Server, arrivals: Arrivals, progress: Callable[[int], None] | None) -> None:
        super().__init__(server, server, arrivals, progress)
        self.is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
        self.times = _step_times(server, self.most, _longest(arrivals.lengths), self.batch)
        self.rank = _Rank(self.memory, self.reserve, self.most)
        self.queries = float(server.deployment.queries)

    def ask(self, at: float) -> None:
        self.send(at)

    def idle_latency(self) -> float:
        server = self.server
        decode = (float(server.osl) - 1.0) * float(server.decode(1.0).total)
        return float(server.prompt(server.computed, server.kinds[0].cached).alone) + decode

    def is_decoding(self) -> bool:
        return bool(self.rank.running)

    def sender(self) -> int:
        return 0

    def receive(self, now: float, request: _Request) -> None:
        self.rank.waiting.append(request)
        if not self.rank.is_busy:
            self.rank.is_busy = True
            self.schedule(now, self.step, is_last=True)

    def step(self, now: float) -> None:
        """Run a step, and start the next one at its end."""
        rank, times, engine = self.rank, self.times, self.server.engine
        rank.partial.extend(rank.admitted())
        rank.is_busy = bool(rank.running or rank.partial)
        if not rank.is_busy:
            return
        decoding = 0 if self.is_prompts_first and rank.partial else len(rank.running)
        decoded = decoding * self.queries
        room = max(int(self.budget - decoded), self.budget // 50, 1)
        slowdown = engine.prefill_slowdown if rank.running else 1.0
        length, attention, computed = 0, 0.0, []
        for request, done, new in rank.chunks(now, room):
            attention += times.prompt_attention(new, request.cached + done)
            length += new
            if request.left == 0:
                computed.append(request)
        if decoding:
            time = times.decode(decoding, rank.context)
            if length:
                time += max(slowdown * (times.linear(decoded + length) - times.linear(decoded)), 0.0)
        else:
            time = slowdown * (times.linear(length) + times.head)
        time += slowdown * attention
        if not decoding:
            time = max(time, times.launches)
        if length:
            time += float(engine.prefill)
        end = now + time
        for request in rank.advance() if decoding else ():
            self.finish(end, request)
        for request in computed:
            if request.answer > 1:
                rank.join(request, end)
            else:
                request.first = end
                rank.held -= rank.tokens(request)
                self.finish(end, request)
        self.schedule(end, self.step, is_last=True)


class _TwoPools(_Simulator):
    """Ranks that compute prompts, ranks that compute answers, and the link between them."""

    def __init__(
        self, pools: Pools, workload: Workload, arrivals: Arrivals, progress: Callable[[int], None] | None
    ) -> None:
        means = replace(workload, load=Burst(), lengths=arrivals.lengths)
        server = server_of(pools.prefill, replace(means, osl=1.0))
        super().__init__(server, server_of(pools.decode, means), arrivals, progress)
        self.pools = pools
        self.prompt = prompt_rank(server).prompt
        self.senders = [_Rank() for _ in range(int(lanes(pools.prefill)))]
        self.receivers = [_Rank(self.memory, self.reserve, self.most) for _ in range(int(lanes(pools.decode)))]
        self.linear: dict[int, Interpolation] = {}
        kind, computed = server.kinds[0], float(server.computed)
        self.cached = float(kind.cached)
        self.attention = _pool_table(lambda tokens: server.prompt(tokens, kind.cached).attention, 64 * computed)
        most = min(self.most, int(self.memory / (self.cached + 1.0)) + 2)
        self.times = _decode_times(self.decode, most)

    def idle_latency(self) -> float:
        return float(self.prompt.alone + self.decode.steps_of() * self.times.parts[0](1.0))

    def is_decoding(self) -> bool:
        return any(rank.is_busy for rank in self.receivers)

    def sender(self) -> int:
        return self.random.randrange(len(self.senders))

    def receive(self, now: float, request: _Request) -> None:
        rank = self.senders[request.sender]
        rank.waiting.append(request)
        if not rank.is_busy:
            self.start_pass(now, request.sender, is_first=True)

    def start_pass(self, now: float, number: int, *, is_first: bool = False) -> None:
        """A pass over the prompts that wait at a rank."""
        rank = self.senders[number]
        rank.partial.extend(rank.admitted())
        rank.is_busy = bool(rank.partial)
        if not rank.is_busy:
            return
        tokens, attention, computed = 0, 0.0, []
        for request, done, new in rank.chunks(now, self.budget):
            attention += self.prompt_attention(request.prompt, done, done + new)
            tokens += new
            if request.left == 0:
                computed.append(request)
        dp = self.pools.prefill.plan.dp
        worker = number - number % dp
        busy = sum(peer.is_busy for peer in self.senders[worker : worker + dp])
        time = self.pass_time(tokens, attention, busy)
        if is_first:  # after another pass, the host has launched the kernels ahead
            time = max(time, float(self.prompt.launches) + float(self.server.engine.prefill))

        def end(at: float) -> None:
            for request in computed:
                self.transfer(at, request)
            self.start_pass(at, number)

        self.schedule(now + time, end)

    def pass_time(self, tokens: int, attention: float, busy: int) -> float:
        """Time of a pass, with `busy` ranks of its worker active [s]."""
        if busy not in self.linear:
            server = replace(self.server, users=float(busy))
            most = min(self.budget, int(64 * float(server.computed)))
            self.linear[busy] = _pool_table(lambda place: server.linear(1.0, place - 1.0), most)
        return self.linear[busy](tokens) + attention + float(self.prompt.head) + float(self.server.engine.prefill)

    def prompt_attention(self, prompt: int, start: int, end: int) -> float:
        """Attention of a chunk [s]: the prompt's share by query-key pairs."""
        cached = self.cached
        pairs = ((end + cached) ** 2 - (start + cached) ** 2) / ((prompt + cached) ** 2 - cached**2)
        return self.attention(prompt) * pairs

    def transfer(self, now: float, request: _Request) -> None:
        """Transfer the KV cache of a prompt; a single-token answer ends here."""
        if request.answer == 1:
            request.first = now
            self.finish(now, request)
            return
        number = self.receiver()
        sender, receiver = self.senders[request.sender], self.receivers[number]
        receiver.coming += 1
        time = kv_transfer_time(self.pools, request.cached + request.prompt)
        layers = float(self.pools.prefill.model.layers)
        shown = float(shown_transfer(self.pools.link, layers, time, now - request.started))
        start = max(now, sender.free, receiver.free) if shown else now
        sender.free = receiver.free = start + shown

        def arrived(at: float) -> None:
            receiver.coming -= 1
            receiver.waiting.append(request)
            if not receiver.is_busy:
                self.start_step(at, receiver)

        self.schedule(start + shown, arrived)

    def receiver(self) -> int:
        """Decode rank for the next answer."""
        if self.arrivals.rate is not None:
            return self.random.randrange(len(self.receivers))
        load = [len(rank.waiting) + len(rank.running) + rank.coming for rank in self.receivers]
        return load.index(min(load))

    def start_step(self, now: float, rank: _Rank) -> None:
        """A decode step of a rank."""
        for request in rank.admitted():
            rank.join(request, now)
        rank.is_busy = bool(rank.running)
        if not rank.is_busy:
            return

        def end(at: float) -> None:
            for request in rank.advance():
                self.finish(at, request)
            self.start_step(at, rank)

        self.schedule(now + self.times(len(rank.running), rank.context), end)


def simulated_latencies(finished: list[Finished]) -> dict[str, float]:
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


@dataclass(slots=True)
class Interpolation:
    """A function of one number, linear between nodes."""

    nodes: list[float]
    values: list[float]

    def __call__(self, argument: float) -> float:
        right = min(max(bisect_right(self.nodes, argument), 1), len(self.nodes) - 1)
        low, high = self.nodes[right - 1], self.nodes[right]
        share = (argument - low) / (high - low)
        return self.values[right - 1] + share * (self.values[right] - self.values[right - 1])


@dataclass(slots=True)
class _DecodeTimes:
    """Time of a decode step [s], by sequences and their context."""

    parts: tuple[Interpolation, ...]  # by sequences, at the mean context; they add up
    growth: Interpolation  # per token of context and sequence, by sequences
    mean: float  # context

    def __call__(self, sequences: int, context: float) -> float:
        first, *others = self.parts
        time = first(sequences) + sequences * (context / sequences - self.mean) * self.growth(sequences)
        return sum((part(sequences) for part in others), time)


@dataclass(slots=True)
class _StepTimes:
    """Tabulated step times of a rank that computes prompts and answers [s]."""

    decode: _DecodeTimes
    linear: Interpolation  # by tokens
    attention: list[tuple[float, Interpolation]]  # cached tokens -> attention of a chunk by its tokens
    head: float
    launches: float  # lower bound of a prefill-only pass

    def prompt_attention(self, new: int, cached: float) -> float:
        """Attention of a chunk after cached tokens [s]."""
        (low, first), (high, last) = next(
            (pair for pair in pairwise(self.attention) if cached <= pair[1][0]), tuple(self.attention[-2:])
        )
        share = (cached - low) / (high - low)
        return (1.0 - share) * first(new) + share * last(new)


def _longest(lengths: Lengths) -> float:
    """Longest tabulated prompt, over the mean [1]."""
    if lengths.rows is not None:
        return max(prompt for prompt, _ in lengths.rows)
    if lengths.prompts.law == UNIFORM:
        return float(1.0 + lengths.prompts.cv * 3.0**0.5)
    return max(2.0, 2.0 * lengths.prompts.slices[-1][1])


def _step_times(server: Server, most: int, longest: float, room: float) -> _StepTimes:
    """Tabulated step times."""
    deployment, engine = server.deployment, server.engine
    isl, osl = float(server.isl), float(server.osl)
    sequences = min(most, int(room * 2.0) + 2)
    queries = float(deployment.queries)
    tokens = int(sequences * queries) + min(int(server.budget), int(isl * longest * (sequences + 1)))
    linear = _table(lambda n: server.linear(n / queries, 0.0), tokens)
    decode = linear if deployment.draft is None else _table(lambda n: server.decode(n).linear, sequences)
    ends = [_table(lambda n, c=c: _apart_time(server, n, c), sequences) for c in (isl + 1.0, isl + osl + 1.0)]  # type: ignore[misc]
    growth = Interpolation(
        ends[0].nodes,
        [(b - a) / osl / n for a, b, n in zip(ends[0].values, ends[1].values, ends[0].nodes, strict=True)],
    )
    apart = Interpolation(ends[0].nodes, [(a + b) / 2.0 for a, b in zip(ends[0].values, ends[1].values, strict=True)])
    host = _table(lambda n: server.decode(n).host, sequences)
    reach = float(server.prefix) + server.fresh * longest
    first = min(float(kind.cached) for kind in server.kinds)
    cached = [first + (reach - first) * share for share in (0.0, 0.25, 0.5, 1.0)]
    chunk = min(server.budget, reach - first)
    attention = [(c, _table(lambda n, c=c: _chunk_attention(server, n, c), int(chunk) + 1)) for c in cached]  # type: ignore[misc]
    launches = float(engine.launch) * float(prefill_pass(deployment, 1.0, server.computed).launches)
    head = float(server.prompt(server.computed, server.kinds[0].cached).head)
    decode_times = _DecodeTimes((apart, decode, host), growth, isl + osl / 2.0 + 1.0)
    return _StepTimes(decode_times, linear, attention, head, launches)


def _decode_times(server: Server, most: int) -> _DecodeTimes:
    """Tabulated times of decode steps without prompts."""
    isl, osl = float(server.isl), float(server.osl)
    long = max(osl, 2.0)

    def growth(sequences: float) -> Real:
        passes = [decode_pass(server.deployment, sequences * server.deployment.plan.dp, isl + at) for at in (0.0, long)]
        return (passes[1].time - passes[0].time) / long / sequences

    step = _pool_table(lambda number: server.decode(number).total, most)
    return _DecodeTimes((step,), _pool_table(growth, most), isl + osl / 2.0 - 1.0)


def _table(function: Callable[[float], Real], most: int) -> Interpolation:
    """A function on [1, most], with denser nodes at small arguments."""
    nodes = sorted(set(_nodes(most)))
    return Interpolation(nodes, [float(function(node)) for node in nodes])


def _nodes(most: int) -> Iterator[float]:
    yield 1.0
    node, growth = 1.0, max(_GROWTH, (max(most, 2)) ** (1.0 / _NODES))
    while node < most:
        yield float(round(node))
        node = max(node * growth, node + 1.0)
    yield float(max(most, 2))


def _pool_table(function: Callable[[float], Real], most: float) -> Interpolation:
    """The same with nodes of its own, of which the last may lie beyond."""
    nodes, node, growth = [1.0], 1.0, max(_POOL_GROWTH, max(most, 2.0) ** (1.0 / _POOL_NODES))
    while node < most:
        node = max(round(node * growth), node + 1.0)
        nodes.append(node)
    if len(nodes) == 1:
        nodes.append(2.0)
    return Interpolation(nodes, [float(function(node)) for node in nodes])


def _apart_time(server: Server, sequences: float, context: float) -> Real:
    """Attention and head of a decode step at a context [s]."""
    dp = server.deployment.plan.dp
    passed = decode_pass(server.deployment, sequences * dp, context)
    return sum(k.time for k in passed.kernels if k.kind.is_per_sequence or k.part == HEAD)


def _chunk_attention(server: Server, new: float, cached: float) -> Real:
    """Attention of a chunk [s]."""
    return sum(k.time for k in prefill_pass(server.deployment, 1.0, new, cached).kernels if k.kind.is_per_sequence)
