"""Two pools step by step: prompts on their ranks, KV caches on their links, every decode step of every rank.

The authority on the algebra of `traffic.pools`, with the same times of passes, steps and transfers.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

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
from roofline.serving.traffic.simulation import Arrivals, Finished, drawn_steps

__all__ = ["pools_simulated"]

_NODES = 40  # of a table
_GROWTH = 1.25  # from one of its nodes to the next
_WARM = 20  # one in so many requests is not counted, at the start
_ROUNDS = 3  # of users, likewise


@dataclass(slots=True)
class _Table:
    """A function of one number, read between nodes."""

    places: list[float]
    values: list[float]

    def __call__(self, place: float) -> float:
        right = min(max(bisect_right(self.places, place), 1), len(self.places) - 1)
        low, high = self.places[right - 1], self.places[right]
        share = (place - low) / (high - low)
        return self.values[right - 1] + share * (self.values[right] - self.values[right - 1])


@dataclass(slots=True)
class _PoolRequest:
    """A request."""

    arrival: float
    prompt: int
    answer: int
    left: int  # tokens of the prompt that are not computed
    started: float = -1.0
    first: float = 0.0
    alone: float = 0.0  # [s] in which its prompt was computed
    sender: int = 0
    steps: int = 0  # decode steps that its answer takes


@dataclass(slots=True)
class _PrefillRank:
    queue: deque[_PoolRequest] = field(default_factory=deque)
    is_busy: bool = False
    free: float = 0.0  # when its link is


@dataclass(slots=True)
class _DecodeRank:
    waiting: deque[_PoolRequest] = field(default_factory=deque)
    running: list[tuple[int, int, _PoolRequest]] = field(default_factory=list)
    clock: int = 0  # steps so far
    gain: float = 0.0  # tokens that its sequences gain in a step, together
    context: float = 0.0  # tokens in the cache of those that decode
    held: float = 0.0
    coming: int = 0  # requests on their way
    is_busy: bool = False
    free: float = 0.0


def pools_simulated(
    pools: Pools, workload: Workload, arrivals: Arrivals, progress: Callable[[int], None] | None = None
) -> list[Finished]:
    """Requests of two pools, each pass, transfer and step simulated.

    Args:
        pools: both deployments and the link.
        workload: mean lengths.
        arrivals: how requests come to all ranks together, and how many are counted.
        progress: told now and then how many were answered [function].

    Returns:
        The requests that are counted, in the order in which they were answered.

    Valid:
        Requests go to prefill ranks at random, to decode ranks at random under a rate and to the emptiest of users;
        data-parallel decode ranks are as full as each other.

    Source:
        Schedulers of Dynamo (components/router) and of SGLang's and vLLM's disaggregated modes, as of 2026-11.
    """
    return _PoolLoop(pools, workload, arrivals, progress).run()


class _PoolLoop:
    """State of the simulation."""

    def __init__(
        self, pools: Pools, workload: Workload, arrivals: Arrivals, progress: Callable[[int], None] | None
    ) -> None:
        self.arrivals, self.progress, self.pools = arrivals, progress, pools
        self.random = random.Random(arrivals.seed)  # noqa: S311  # no secret
        plain = replace(workload, concurrency=None, request_rate=None, num_prompts=None, lengths=arrivals.lengths)
        self.prefill = server_of(pools.prefill, replace(plain, osl=1.0))
        self.decode = server_of(pools.decode, plain)
        self.rank = prompt_rank(self.prefill)
        self.dp = pools.prefill.plan.dp
        self.senders = [_PrefillRank() for _ in range(int(lanes(pools.prefill)))]
        self.receivers = [_DecodeRank() for _ in range(int(lanes(pools.decode)))]
        self.budget = int(self.prefill.budget)
        self.prefix = float(self.prefill.prefix)
        self.computed = float(self.prefill.computed)
        engine = pools.decode.engine
        each = float(self.decode.isl) + engine.reserve * float(self.decode.osl)
        self.reserve = engine.reserve
        self.memory = float(largest_batch(pools.decode, each)) / pools.decode.plan.dp * each
        self.most = max(int(engine.max_num_seqs / pools.decode.plan.pp), 1) if engine.max_num_seqs else 1 << 60
        self.linear: dict[int, _Table] = {}
        cached = self.prefill.kinds[0].cached
        self.attention = _table(lambda tokens: self.prefill.prompt(tokens, cached).attention, 64 * self.computed)
        most = min(self.most, int(self.memory / (self.prefix + 1.0)) + 2)
        self.mean = float(self.decode.isl) + float(self.decode.osl) / 2.0
        self.step = _table(lambda number: self.decode.decode(number).total, most)
        self.growth = _table(self._growth, most)
        self.network = float(pools.prefill.host.network)
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.made = self.skipped = 0
        self.answered: list[Finished] = []

    def run(self) -> list[Finished]:
        """Answer as many requests as are to be counted."""
        arrivals = self.arrivals
        if arrivals.rate is None:
            self.skipped = _ROUNDS * arrivals.users
            one = self.rank.prompt.alone + self.decode.steps_of() * self.step(1.0)
            for number in range(arrivals.users):
                self._at(float(one) * number / arrivals.users, self._ask)
        else:
            self.skipped = max(arrivals.requests // _WARM, 50)
            self._at(self.random.expovariate(arrivals.rate), self._ask)
        done = 0
        while len(self.answered) < arrivals.requests:
            now, _, action = heappop(self.events)
            action(now)
            done += 1
            if self.progress is not None and done % 4096 == 0:
                self.progress(len(self.answered))
        return self.answered

    def _at(self, time: float, action: Callable[[float], None]) -> None:
        self.made += 1
        heappush(self.events, (time, self.made, action))

    def _ask(self, now: float) -> None:
        """A request is sent."""
        arrivals = self.arrivals
        prompts, answers = arrivals.lengths.draw(self.random)
        prompt = max(round(self.computed * prompts), 1)
        answer = max(round(float(self.decode.osl) * answers), 1)
        asked = _PoolRequest(now, prompt, answer, prompt, sender=self.random.randrange(len(self.senders)))
        asked.steps = drawn_steps(answer - 1, self.pools.decode, self.random)
        wait = float(self.prefill.before - self.prefill.cold)
        if any(rank.is_busy for rank in self.receivers):
            wait += float(self.prefill.engine.arrival)
        cold = self.prefill.cold_start
        if cold is not None and self.random.random() < cold[0]:
            wait += cold[1]
        self._at(now + wait, lambda at: self._come(at, asked))
        if arrivals.rate is not None:
            self._at(now + self.random.expovariate(arrivals.rate), self._ask)

    def _come(self, now: float, asked: _PoolRequest) -> None:
        rank = self.senders[asked.sender]
        rank.queue.append(asked)
        if not rank.is_busy:
            self._pass(now, asked.sender, is_first=True)

    def _pass(self, now: float, number: int, *, is_first: bool = False) -> None:
        """A pass over the prompts that wait at a rank."""
        rank = self.senders[number]
        rank.is_busy = bool(rank.queue)
        if not rank.queue:
            return
        tokens, attention, ended = 0, 0.0, []
        while rank.queue and tokens < self.budget:
            asked = rank.queue[0]
            new = min(asked.left, self.budget - tokens)
            if asked.started < 0.0:
                asked.started = now
            done = asked.prompt - asked.left
            attention += self._attention(asked.prompt, done, done + new)
            asked.left -= new
            tokens += new
            if asked.left == 0:
                ended.append(rank.queue.popleft())
        worker = number - number % self.dp
        busy = sum(each.is_busy for each in self.senders[worker : worker + self.dp])
        time = self._pass_time(tokens, attention, busy)
        if is_first:  # behind another pass the host has launched the kernels ahead
            time = max(time, float(self.rank.prompt.launches) + float(self.prefill.engine.prefill))

        def end(at: float) -> None:
            for asked in ended:
                asked.alone = at - asked.started
                self._send(at, asked)
            self._pass(at, number)

        self._at(now + time, end)

    def _pass_time(self, tokens: int, attention: float, busy: int) -> float:
        if busy not in self.linear:
            server = replace(self.prefill, users=float(busy))
            most = min(self.budget, int(64 * self.computed))
            self.linear[busy] = _table(lambda place: server.linear(1.0, place - 1.0), most)
        return self.linear[busy](tokens) + attention + float(self.rank.prompt.head) + float(self.prefill.engine.prefill)

    def _attention(self, whole: int, start: int, end: int) -> float:
        """Of a chunk: of the whole prompt, by the pairs of queries and keys."""
        pairs = ((end + self.prefix) ** 2 - (start + self.prefix) ** 2) / ((whole + self.prefix) ** 2 - self.prefix**2)
        return self.attention(whole) * pairs

    def _send(self, now: float, asked: _PoolRequest) -> None:
        """The KV cache of a prompt moves; a single token is sent to the user alone."""
        if asked.answer == 1:
            asked.first = now
            self._finished(now, asked)
            return
        number = self._receiver()
        sender, receiver = self.senders[asked.sender], self.receivers[number]
        receiver.coming += 1
        model = self.pools.prefill.model
        time = kv_transfer_time(self.pools, self.prefix + asked.prompt)
        shown = float(shown_transfer(self.pools.link, float(model.layers), time, asked.alone))
        start = max(now, sender.free, receiver.free) if shown else now
        sender.free = receiver.free = start + shown

        def arrived(at: float) -> None:
            receiver.coming -= 1
            receiver.waiting.append(asked)
            if not receiver.is_busy:
                self._steps(at, number)

        self._at(start + shown, arrived)

    def _receiver(self) -> int:
        """Rank that an answer goes to."""
        if self.arrivals.rate is not None:
            return self.random.randrange(len(self.receivers))
        load = [len(rank.waiting) + len(rank.running) + rank.coming for rank in self.receivers]
        return load.index(min(load))

    def _steps(self, now: float, number: int) -> None:
        """A decode step of a rank."""
        rank = self.receivers[number]
        while rank.waiting and len(rank.running) < self.most:
            asked = rank.waiting[0]
            needed = self.prefix + asked.prompt + self.reserve * asked.answer
            if rank.held + needed > self.memory * (1.0 + NANO) and rank.running:
                break
            rank.waiting.popleft()
            rank.held += needed
            rank.context += self.prefix + asked.prompt + 1.0
            asked.first = now
            rank.gain += (asked.answer - 1) / asked.steps
            heappush(rank.running, (rank.clock + asked.steps, id(asked), asked))
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
                _, _, asked = heappop(rank.running)
                rank.context -= self.prefix + asked.prompt + asked.answer
                rank.gain -= (asked.answer - 1) / asked.steps
                rank.held -= self.prefix + asked.prompt + self.reserve * asked.answer
                self._finished(at, asked)
            self._steps(at, number)

        self._at(now + time, end)

    def _growth(self, sequences: float) -> Real:
        """Of a step by token of context and sequence [s]."""
        deployment, osl = self.pools.decode, max(float(self.decode.osl), 2.0)
        ends = [decode_pass(deployment, sequences * deployment.plan.dp, float(self.decode.isl) + at).time
                for at in (0.0, osl)]  # fmt: skip
        return (ends[1] - ends[0]) / osl / sequences

    def _finished(self, now: float, asked: _PoolRequest) -> None:
        if self.arrivals.rate is None:
            self._at(now, self._ask)
        if self.skipped:
            self.skipped -= 1
            return
        tokens = asked.answer - 1
        tpot = (now - asked.first) / tokens if tokens else float("nan")
        wait = asked.started - asked.arrival
        self.answered.append(Finished(asked.first - asked.arrival, tpot, now - asked.arrival, wait))


def _table(function: Callable[[float], Real], most: float) -> _Table:
    """A function from one to the most that is asked, at nodes that are the closer the smaller."""
    places, place, growth = [1.0], 1.0, max(_GROWTH, max(most, 2.0) ** (1.0 / _NODES))
    while place < most:
        place = max(round(place * growth), place + 1.0)
        places.append(place)
    if len(places) == 1:
        places.append(2.0)
    return _Table(places, [float(function(each)) for each in places])
