"""Simulation of two pools: every prefill pass, KV transfer and decode step of every rank.

The reference for the equations of `traffic.pools`, with the same times of passes, steps and transfers.

"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from roofline.ops import Real
from roofline.physics.forward import decode_pass
from roofline.physics.memory import largest_batch
from roofline.quantity import NANO
from roofline.records import dataclass, field, replace
from roofline.serving.disaggregation import Pools, kv_transfer_time, shown_transfer
from roofline.serving.latency import Workload
from roofline.serving.served import lanes
from roofline.serving.traffic.load import server_of
from roofline.serving.traffic.prompt_rank import prompt_rank
from roofline.serving.traffic.simulation import Arrivals, Finished, Interpolation, drawn_steps

_NODES = 40  # of a step-time table
_GROWTH = 1.25  # ratio of neighbouring nodes
_WARM = 20  # one in so many requests is warm-up and not counted
_ROUNDS = 3  # warm-up requests per user


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
        means = replace(workload, concurrency=None, request_rate=None, num_prompts=None, lengths=arrivals.lengths)
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
    nodes, node, growth = [1.0], 1.0, max(_GROWTH, max(most, 2.0) ** (1.0 / _NODES))
    while node < most:
        node = max(round(node * growth), node + 1.0)
        nodes.append(node)
    if len(nodes) == 1:
        nodes.append(2.0)
    return Interpolation(nodes, [float(function(node)) for node in nodes])
