"""Simulation of a server: every token of every request, with the step times of the closed forms.

The reference for the equations of `serving.load.equations`. A plain loop over steps: decoding sequences, waiting
prompts, a token budget, slots and memory; Poisson arrivals, or users who ask again as soon as they are answered.

"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count, pairwise

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
from roofline.support.records import NamedTuple, dataclass, field, replace

_NODES = 24  # of a step-time table
_GROWTH = 1.35  # ratio of neighbouring nodes
_ROUNDS = 3  # warm-up requests per user
_REPORT = 4096  # steps between two reports of progress


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrivals of requests at one rank, and their lengths."""

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
    wait: float  # [s] before the first chunk of its prompt


@dataclass(slots=True)
class _Request:
    arrival: float
    ready: float
    prompt: int
    answer: int
    left: int  # prompt tokens still to compute
    steps: int  # decode steps of its answer
    cached: int  # cached prompt tokens
    started: float = -1.0
    first: float = 0.0


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
class _StepTimes:
    """Tabulated step times of one rank [s]."""

    linear: Interpolation  # by tokens
    decode: Interpolation  # of a decode step, by sequences
    apart: Interpolation  # at the context `context`, by sequences
    growth: Interpolation  # of `apart`, per token of context and sequence
    attention: list[tuple[float, Interpolation]]  # cached tokens -> attention of a chunk by its tokens
    head: float
    context: float  # at which `apart` holds
    host: Interpolation
    launches: float  # lower bound of a prefill-only pass

    def prompt_attention(self, new: int, cached: int) -> float:
        """Attention of a chunk after cached tokens [s]."""
        (low, first), (high, last) = next(
            (pair for pair in pairwise(self.attention) if cached <= pair[1][0]), tuple(self.attention[-2:])
        )
        share = (cached - low) / (high - low)
        return (1.0 - share) * first(new) + share * last(new)


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
    return _Simulation(server, arrivals, progress).run()


class _Simulation:
    def __init__(self, server: Server, arrivals: Arrivals, progress: Callable[[int], None] | None) -> None:
        self.server, self.arrivals, self.progress = server, arrivals, progress
        self.random = random.Random(arrivals.seed)  # noqa: S311  # no secret
        engine, plan = server.engine, server.deployment.plan
        reserve = server.deployment.engine.reserve
        tokens_per_request = float(server.isl) + reserve * float(server.osl)
        self.reserve = reserve
        self.memory = float(largest_batch(server.deployment, tokens_per_request)) / plan.dp * tokens_per_request
        self.max_sequences = max(int(engine.max_num_seqs / plan.pp), 1) if engine.max_num_seqs else 1 << 60
        self.budget = int(server.budget)
        self.is_prompts_first = engine.scheduler == PROMPTS_FIRST
        longest = _longest(arrivals.lengths)
        self.times = _step_times(server, self.max_sequences, longest, self.memory / tokens_per_request)
        self.now = 0.0
        self.next = float("inf")  # next Poisson arrival
        self.coming: list[tuple[float, int, _Request]] = []  # sent, but not yet at the scheduler
        self.waiting: deque[_Request] = deque()
        self.partial: deque[_Request] = deque()  # admitted, prompt not finished
        self.order = count()  # of first tokens: breaks ties
        self.running: list[tuple[int, int, _Request]] = []  # by the decode step of their end
        self.clock = 0  # decode steps so far
        self.context = 0.0  # cached tokens of decoding sequences
        self.gain = 0.0  # tokens that they gain per step
        self.queries = float(server.deployment.queries)
        self.held = 0.0  # tokens of memory taken by admitted requests
        self.made = 0  # requests sent
        self.answered: list[Finished] = []
        self.link = 0.0  # when the link for prefix loads is free
        self.skipped = 0

    def run(self) -> list[Finished]:
        arrivals = self.arrivals
        warm = 0 if arrivals.is_burst else _ROUNDS * arrivals.users
        if arrivals.rate is not None:
            warm = max(arrivals.requests // 20, 50)
        self.limit = arrivals.requests if arrivals.is_burst else arrivals.requests + warm
        self.skipped = warm
        if arrivals.rate is None:
            users = min(arrivals.users, self.limit) if arrivals.is_burst else arrivals.users
            for number in range(users):
                # Users that began together would stay in step for long.
                delay = 0.0 if arrivals.is_burst else self._spread_start(number)
                self._send_request(delay)
        else:
            self._send_request(self.random.expovariate(arrivals.rate))
        steps = 0
        while len(self.answered) < arrivals.requests:
            self._admit()
            if not self._step():
                self.now = max(self.now, min(self.next, self.coming[0][0] if self.coming else self.next))
            steps += 1
            if self.progress is not None and steps % _REPORT == 0:
                self.progress(len(self.answered))
        return self.answered

    def _spread_start(self, number: int) -> float:
        """Start time of a user, spread over about one request on an idle server."""
        server = self.server
        decode = (float(server.osl) - 1.0) * float(server.decode(1.0).total)
        latency = float(server.prompt(server.computed, server.kinds[0].cached).alone) + decode
        return latency * number / max(self.arrivals.users, 1)

    def _send_request(self, at: float) -> None:
        """Send a request at time `at`; under a rate, draw the next arrival."""
        server = self.server
        # Integer lengths with the given mean; the cached prefix does not vary.
        prompts, answers = self.arrivals.lengths.draw(self.random)
        hit, *miss = server.kinds
        kind = miss[0] if miss and self.random.random() >= hit.weight else hit
        prompt = max(round(float(server.fresh * prompts + (kind.computed - server.fresh))), 1)
        answer = max(round(float(server.osl) * answers), 1)
        self.made += 1
        ready = at + float(server.engine.network + server.engine.request)
        if kind.loading:
            self.link = ready = max(ready, self.link) + float(kind.loading)
        if self.running:
            ready += float(server.engine.arrival)
        if server.cold_start is not None and self.random.random() < server.cold_start[0]:
            ready += server.cold_start[1]
        steps = drawn_steps(answer - 1, server.deployment, self.random)
        request = _Request(at, ready, prompt, answer, prompt, steps, int(float(kind.cached)))
        heappush(self.coming, (request.ready, self.made, request))
        if self.arrivals.rate is not None:
            self.next = at + self.random.expovariate(self.arrivals.rate)

    def _admit(self) -> None:
        """Queue the requests that have arrived; admit those for which there is room."""
        while self.next <= self.now:
            self._send_request(self.next)
        while self.coming and self.coming[0][0] <= self.now:
            self.waiting.append(heappop(self.coming)[2])
        while self.waiting and len(self.running) + len(self.partial) < self.max_sequences:
            request = self.waiting[0]
            needed = request.cached + request.prompt + self.reserve * request.answer
            if self.held + needed > self.memory * (1.0 + NANO) and (self.running or self.partial):
                break
            self.held += needed
            self.partial.append(self.waiting.popleft())

    def _step(self) -> bool:
        """Run one step; False if there is nothing to do."""
        if not self.running and not self.partial:
            return False
        decoding = 0 if self.is_prompts_first and self.partial else len(self.running)
        decoded = decoding * self.queries
        room = max(int(self.budget - decoded), self.budget // 50, 1)
        times, engine = self.times, self.server.engine
        slowdown = engine.prefill_slowdown if self.running else 1.0
        length, attention, finished_prompts = 0, 0.0, []
        while self.partial and length < room:
            request = self.partial[0]
            new = min(request.left, room - length)
            if request.started < 0.0:
                request.started = self.now
            attention += times.prompt_attention(new, request.cached + request.prompt - request.left)
            request.left -= new
            length += new
            if request.left == 0:
                finished_prompts.append(self.partial.popleft())
        if decoding:
            mean = self.context / decoding
            apart = times.apart(decoding) + decoding * (mean - times.context) * times.growth(decoding)
            time = times.decode(decoding) + apart + times.host(decoding)
            if length:
                time += max(slowdown * (times.linear(decoded + length) - times.linear(decoded)), 0.0)
        else:
            time = slowdown * (times.linear(length) + times.head)
        time += slowdown * attention
        if not decoding:
            time = max(time, times.launches)
        self.now += time + (float(engine.prefill) if length else 0.0)
        if decoding:
            self._advance_sequences()
        for request in finished_prompts:
            self._first_token(request)
        return True

    def _first_token(self, request: _Request) -> None:
        request.first = self.now
        if request.answer == 1:
            self._finish(request)
            return
        heappush(self.running, (self.clock + request.steps, next(self.order), request))
        self.context += request.cached + request.prompt
        self.gain += (request.answer - 1) / request.steps

    def _advance_sequences(self) -> None:
        """Every sequence gains tokens; some end."""
        self.clock += 1
        self.context += self.gain
        while self.running and self.running[0][0] <= self.clock:
            _, _, request = heappop(self.running)
            self.context -= request.cached + request.prompt + request.answer - 1
            self.gain -= (request.answer - 1) / request.steps
            self._finish(request)

    def _finish(self, request: _Request) -> None:
        self.held -= request.cached + request.prompt + self.reserve * request.answer
        if self.arrivals.rate is None and (not self.arrivals.is_burst or self.made < self.limit):
            self._send_request(self.now)
        if self.skipped:
            self.skipped -= 1
            return
        before = request.ready - request.arrival
        tokens = request.answer - 1
        tpot = (self.now - request.first) / tokens if tokens else float("nan")
        wait = request.started - request.arrival - before
        self.answered.append(Finished(request.first - request.arrival, tpot, self.now - request.arrival, wait))


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
    context = isl + osl / 2.0
    ends = [_table(lambda n, c=c: _apart_time(server, n, c), sequences) for c in (isl + 1.0, isl + osl + 1.0)]  # type: ignore[misc]
    growth = Interpolation(
        ends[0].nodes,
        [(b - a) / osl / n for a, b, n in zip(ends[0].values, ends[1].values, ends[0].nodes, strict=True)],
    )
    apart = Interpolation(ends[0].nodes, [(a + b) / 2.0 for a, b in zip(ends[0].values, ends[1].values, strict=True)])
    reach = float(server.prefix) + server.fresh * longest
    first = min(float(kind.cached) for kind in server.kinds)
    cached = [first + (reach - first) * share for share in (0.0, 0.25, 0.5, 1.0)]
    chunk = min(server.budget, reach - first)
    attention = [(c, _table(lambda n, c=c: _chunk_attention(server, n, c), int(chunk) + 1)) for c in cached]  # type: ignore[misc]
    host = _table(lambda n: server.decode(n).host, sequences)
    launches = float(engine.launch) * float(prefill_pass(deployment, 1.0, server.computed).launches)
    head = float(server.prompt(server.computed, server.kinds[0].cached).head)
    return _StepTimes(linear, decode, apart, growth, attention, head, context + 1.0, host, launches)


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


def _apart_time(server: Server, sequences: float, context: float) -> Real:
    """Attention and head of a decode step at a context [s]."""
    dp = server.deployment.plan.dp
    passed = decode_pass(server.deployment, sequences * dp, context)
    return sum(k.time for k in passed.kernels if k.kind.is_per_sequence or k.part == HEAD)


def _chunk_attention(server: Server, new: float, cached: float) -> Real:
    """Attention of a chunk [s]."""
    return sum(k.time for k in prefill_pass(server.deployment, 1.0, new, cached).kernels if k.kind.is_per_sequence)


# Simulation of two pools: every prefill pass, KV transfer and decode step of every rank.
#
# The reference for the equations of `serving.load.pools`, with the same times of passes, steps and transfers.

_POOL_NODES = 40  # of a step-time table
_POOL_GROWTH = 1.25  # ratio of neighbouring nodes
_WARM = 20  # one in so many requests is warm-up and not counted


@dataclass(slots=True)
class _PoolRequest:
    arrival: float
    prompt: int
    answer: int
    left: int  # prompt tokens still to compute
    started: float = -1.0
    first: float = 0.0
    alone: float = 0.0  # [s] time to compute its prompt
    sender: int = 0
    steps: int = 0  # decode steps of its answer


@dataclass(slots=True)
class _PrefillRank:
    queue: deque[_PoolRequest] = field(default_factory=deque)
    is_busy: bool = False
    free: float = 0.0  # [s] when its link is free


@dataclass(slots=True)
class _DecodeRank:
    waiting: deque[_PoolRequest] = field(default_factory=deque)
    running: list[tuple[int, int, _PoolRequest]] = field(default_factory=list)
    clock: int = 0  # steps so far
    gain: float = 0.0  # tokens that its sequences gain per step
    context: float = 0.0  # cached tokens of decoding sequences
    held: float = 0.0
    coming: int = 0  # requests in transfer
    is_busy: bool = False
    free: float = 0.0


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
    return _PoolSimulation(pools, workload, arrivals, progress).run()


class _PoolSimulation:
    def __init__(
        self, pools: Pools, workload: Workload, arrivals: Arrivals, progress: Callable[[int], None] | None
    ) -> None:
        self.arrivals, self.progress, self.pools = arrivals, progress, pools
        self.random = random.Random(arrivals.seed)  # noqa: S311  # no secret
        means = replace(workload, load=Burst(), lengths=arrivals.lengths)
        self.prefill = server_of(pools.prefill, replace(means, osl=1.0))
        self.decode = server_of(pools.decode, means)
        self.rank = prompt_rank(self.prefill)
        self.dp = pools.prefill.plan.dp
        self.senders = [_PrefillRank() for _ in range(int(lanes(pools.prefill)))]
        self.receivers = [_DecodeRank() for _ in range(int(lanes(pools.decode)))]
        self.budget = int(self.prefill.budget)
        self.prefix = float(self.prefill.prefix)
        self.computed = float(self.prefill.computed)
        engine = pools.decode.engine
        length = float(self.decode.isl) + engine.reserve * float(self.decode.osl)
        self.reserve = engine.reserve
        self.memory = float(largest_batch(pools.decode, length)) / pools.decode.plan.dp * length
        self.max_sequences = max(int(engine.max_num_seqs / pools.decode.plan.pp), 1) if engine.max_num_seqs else 1 << 60
        self.linear: dict[int, Interpolation] = {}
        cached = self.prefill.kinds[0].cached
        self.attention = _tabulated(lambda tokens: self.prefill.prompt(tokens, cached).attention, 64 * self.computed)
        most = min(self.max_sequences, int(self.memory / (self.prefix + 1.0)) + 2)
        self.mean = float(self.decode.isl) + float(self.decode.osl) / 2.0
        self.step = _tabulated(lambda number: self.decode.decode(number).total, most)
        self.growth = _tabulated(self._growth, most)
        self.network = float(pools.prefill.effective_engine.network)
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.order = count()  # of first steps: breaks ties
        self.made = self.skipped = 0
        self.answered: list[Finished] = []

    def run(self) -> list[Finished]:
        arrivals = self.arrivals
        if arrivals.rate is None:
            self.skipped = _ROUNDS * arrivals.users
            latency = self.rank.prompt.alone + self.decode.steps_of() * self.step(1.0)
            for number in range(arrivals.users):
                self._schedule(float(latency) * number / arrivals.users, self._send_request)
        else:
            self.skipped = max(arrivals.requests // _WARM, 50)
            self._schedule(self.random.expovariate(arrivals.rate), self._send_request)
        events = 0
        while len(self.answered) < arrivals.requests:
            now, _, action = heappop(self.events)
            action(now)
            events += 1
            if self.progress is not None and events % 4096 == 0:
                self.progress(len(self.answered))
        return self.answered

    def _schedule(self, time: float, action: Callable[[float], None]) -> None:
        self.made += 1
        heappush(self.events, (time, self.made, action))

    def _send_request(self, now: float) -> None:
        arrivals = self.arrivals
        prompts, answers = arrivals.lengths.draw(self.random)
        prompt = max(round(self.computed * prompts), 1)
        answer = max(round(float(self.decode.osl) * answers), 1)
        request = _PoolRequest(now, prompt, answer, prompt, sender=self.random.randrange(len(self.senders)))
        request.steps = drawn_steps(answer - 1, self.pools.decode, self.random)
        wait = float(self.prefill.before - self.prefill.cold)
        if any(rank.is_busy for rank in self.receivers):
            wait += float(self.prefill.engine.arrival)
        cold = self.prefill.cold_start
        if cold is not None and self.random.random() < cold[0]:
            wait += cold[1]
        self._schedule(now + wait, lambda time: self._enqueue(time, request))
        if arrivals.rate is not None:
            self._schedule(now + self.random.expovariate(arrivals.rate), self._send_request)

    def _enqueue(self, now: float, request: _PoolRequest) -> None:
        rank = self.senders[request.sender]
        rank.queue.append(request)
        if not rank.is_busy:
            self._start_pass(now, request.sender, is_first=True)

    def _start_pass(self, now: float, number: int, *, is_first: bool = False) -> None:
        """A pass over the prompts that wait at a rank."""
        rank = self.senders[number]
        rank.is_busy = bool(rank.queue)
        if not rank.queue:
            return
        tokens, attention, finished = 0, 0.0, []
        while rank.queue and tokens < self.budget:
            request = rank.queue[0]
            new = min(request.left, self.budget - tokens)
            if request.started < 0.0:
                request.started = now
            done = request.prompt - request.left
            attention += self._attention(request.prompt, done, done + new)
            request.left -= new
            tokens += new
            if request.left == 0:
                finished.append(rank.queue.popleft())
        worker = number - number % self.dp
        busy = sum(peer.is_busy for peer in self.senders[worker : worker + self.dp])
        time = self._pass_time(tokens, attention, busy)
        if is_first:  # after another pass, the host has launched the kernels ahead
            time = max(time, float(self.rank.prompt.launches) + float(self.prefill.engine.prefill))

        def end(at: float) -> None:
            for request in finished:
                request.alone = at - request.started
                self._transfer(at, request)
            self._start_pass(at, number)

        self._schedule(now + time, end)

    def _pass_time(self, tokens: int, attention: float, busy: int) -> float:
        if busy not in self.linear:
            server = replace(self.prefill, users=float(busy))
            most = min(self.budget, int(64 * self.computed))
            self.linear[busy] = _tabulated(lambda place: server.linear(1.0, place - 1.0), most)
        return self.linear[busy](tokens) + attention + float(self.rank.prompt.head) + float(self.prefill.engine.prefill)

    def _attention(self, prompt: int, start: int, end: int) -> float:
        """Attention of a chunk [s]: the prompt's share by query-key pairs."""
        pairs = ((end + self.prefix) ** 2 - (start + self.prefix) ** 2) / ((prompt + self.prefix) ** 2 - self.prefix**2)
        return self.attention(prompt) * pairs

    def _transfer(self, now: float, request: _PoolRequest) -> None:
        """Transfer the KV cache of a prompt; a single-token answer ends here."""
        if request.answer == 1:
            request.first = now
            self._finish(now, request)
            return
        number = self._receiver()
        sender, receiver = self.senders[request.sender], self.receivers[number]
        receiver.coming += 1
        model = self.pools.prefill.model
        time = kv_transfer_time(self.pools, self.prefix + request.prompt)
        shown = float(shown_transfer(self.pools.link, float(model.layers), time, request.alone))
        start = max(now, sender.free, receiver.free) if shown else now
        sender.free = receiver.free = start + shown

        def arrived(at: float) -> None:
            receiver.coming -= 1
            receiver.waiting.append(request)
            if not receiver.is_busy:
                self._start_step(at, number)

        self._schedule(start + shown, arrived)

    def _receiver(self) -> int:
        """Decode rank for the next answer."""
        if self.arrivals.rate is not None:
            return self.random.randrange(len(self.receivers))
        load = [len(rank.waiting) + len(rank.running) + rank.coming for rank in self.receivers]
        return load.index(min(load))

    def _start_step(self, now: float, number: int) -> None:
        """A decode step of a rank."""
        rank = self.receivers[number]
        while rank.waiting and len(rank.running) < self.max_sequences:
            request = rank.waiting[0]
            needed = self.prefix + request.prompt + self.reserve * request.answer
            if rank.held + needed > self.memory * (1.0 + NANO) and rank.running:
                break
            rank.waiting.popleft()
            rank.held += needed
            rank.context += self.prefix + request.prompt + 1.0
            request.first = now
            rank.gain += (request.answer - 1) / request.steps
            heappush(rank.running, (rank.clock + request.steps, next(self.order), request))
        running = len(rank.running)
        rank.is_busy = running > 0
        if not running:
            return
        off = rank.context / running - self.mean
        time = self.step(running) + running * off * self.growth(running)

        def end(at: float) -> None:
            rank.clock += 1
            rank.context += rank.gain
            while rank.running and rank.running[0][0] <= rank.clock:
                _, _, request = heappop(rank.running)
                rank.context -= self.prefix + request.prompt + request.answer
                rank.gain -= (request.answer - 1) / request.steps
                rank.held -= self.prefix + request.prompt + self.reserve * request.answer
                self._finish(at, request)
            self._start_step(at, number)

        self._schedule(now + time, end)

    def _growth(self, sequences: float) -> Real:
        """Growth of a decode step per token of context and sequence [s]."""
        deployment, osl = self.pools.decode, max(float(self.decode.osl), 2.0)
        ends = [decode_pass(deployment, sequences * deployment.plan.dp, float(self.decode.isl) + at).time
                for at in (0.0, osl)]  # fmt: skip
        return (ends[1] - ends[0]) / osl / sequences

    def _finish(self, now: float, request: _PoolRequest) -> None:
        if self.arrivals.rate is None:
            self._schedule(now, self._send_request)
        if self.skipped:
            self.skipped -= 1
            return
        tokens = request.answer - 1
        tpot = (now - request.first) / tokens if tokens else float("nan")
        wait = request.started - request.arrival
        self.answered.append(Finished(request.first - request.arrival, tpot, now - request.arrival, wait))


def _tabulated(function: Callable[[float], Real], most: float) -> Interpolation:
    """A function on [1, most], with denser nodes at small arguments."""
    nodes, node, growth = [1.0], 1.0, max(_POOL_GROWTH, max(most, 2.0) ** (1.0 / _POOL_NODES))
    while node < most:
        node = max(round(node * growth), node + 1.0)
        nodes.append(node)
    if len(nodes) == 1:
        nodes.append(2.0)
    return Interpolation(nodes, [float(function(node)) for node in nodes])
