"""A server step by step: every token of every request, with the step times that the closed forms use.

The authority on the algebra of `serving.queueing`, and a way not to believe it. A plain loop over steps: sequences that
decode, prompts that wait, a budget of tokens, slots and memory; requests that come at random or from users who ask
again as soon as they are answered.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import pairwise

from roofline.ops import Real
from roofline.physics.forward import decode_pass, prefill_pass
from roofline.physics.memory import largest_batch
from roofline.physics.plan import Deployment
from roofline.quantity import NANO
from roofline.records import NamedTuple, dataclass
from roofline.serving.lengths import EQUAL, UNIFORM, Lengths
from roofline.serving.traffic.server import PROMPTS_FIRST, Server
from roofline.specs.kernels import HEAD

__all__ = ["Arrivals", "Finished", "drawn_steps", "simulated"]

_NODES = 24  # of a table
_GROWTH = 1.35  # from one of its nodes to the next
_ROUNDS = 3  # of users who begin together, until their requests are spread out
_REPORT = 4096  # steps between two reports of progress


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests come to one rank, and how long they are."""

    requests: int  # that are counted
    rate: float | None = None  # [1/s] Poisson; None: users
    users: int = 1  # who ask again as soon as they are answered
    is_burst: bool = False  # whether the requests of the start, all users at once, are counted
    lengths: Lengths = EQUAL  # how they spread about the means of the server
    seed: int = 0


class Finished(NamedTuple):
    """A request that was answered."""

    ttft: float  # [s]
    tpot: float  # [s] mean over its tokens after the first; NaN of a single token
    e2el: float  # [s]
    wait: float  # [s] before anything of its prompt was computed


@dataclass(slots=True)
class _Request:
    arrival: float
    ready: float
    prompt: int
    answer: int
    left: int  # tokens of the prompt that are not computed
    steps: int  # decode steps that its answer takes
    cached: int  # tokens before them that are
    started: float = -1.0
    first: float = 0.0


@dataclass(slots=True)
class _Line:
    """A function of one number between nodes."""

    places: list[float]
    values: list[float]

    def __call__(self, place: float) -> float:
        right = min(max(bisect_right(self.places, place), 1), len(self.places) - 1)
        low, high = self.places[right - 1], self.places[right]
        share = (place - low) / (high - low)
        return self.values[right - 1] + share * (self.values[right] - self.values[right - 1])


@dataclass(slots=True)
class _Times:
    """Times of steps of one rank, tabulated."""

    linear: _Line  # of tokens
    decode: _Line  # the same part of a decode step, by sequences
    apart: _Line  # at the mean context
    growth: _Line  # of it, by token of context and sequence
    attention: list[tuple[float, _Line]]  # by tokens cached: of a chunk by its tokens
    head: float
    context: float  # at which `apart` holds
    host: _Line
    launches: float  # of a pass over prompts alone, at least

    def prompt_attention(self, new: int, cached: int) -> float:
        """Attention of a chunk after what is cached [s]."""
        (low, first), (high, last) = next(
            (pair for pair in pairwise(self.attention) if cached <= pair[1][0]), tuple(self.attention[-2:])
        )
        share = (cached - low) / (high - low)
        return (1.0 - share) * first(new) + share * last(new)


def simulated(server: Server, arrivals: Arrivals, progress: Callable[[int], None] | None = None) -> list[Finished]:
    """Requests of one rank, each step simulated.

    Args:
        server: the rank.
        arrivals: how requests come, and how many are counted.
        progress: told now and then how many were answered [function].

    Returns:
        The requests that are counted, in the order in which they were answered.

    Valid:
        One rank of data parallelism, whose others do the same at the same time.

    Source:
        The schedulers of vLLM (v1/core/sched/scheduler.py) and SGLang (srt/managers/scheduler.py), as of 2026-11.
    """
    return _Loop(server, arrivals, progress).run()


class _Loop:
    """State of the simulation."""

    def __init__(self, server: Server, arrivals: Arrivals, progress: Callable[[int], None] | None) -> None:
        self.server, self.arrivals, self.progress = server, arrivals, progress
        self.random = random.Random(arrivals.seed)  # noqa: S311  # no secret
        engine, plan = server.engine, server.deployment.plan
        reserve = server.deployment.engine.reserve
        each = float(server.isl) + reserve * float(server.osl)
        self.reserve = reserve
        self.memory = float(largest_batch(server.deployment, each)) / plan.dp * each
        self.most = max(int(engine.max_num_seqs / plan.pp), 1) if engine.max_num_seqs else 1 << 60
        self.budget = int(server.budget)
        self.is_prompts_first = engine.scheduler == PROMPTS_FIRST
        longest = _longest(arrivals.lengths)
        self.times = _times(server, self.most, longest, self.memory / each)
        self.now = 0.0
        self.next = float("inf")  # arrival of the next request at a rate
        self.coming: list[tuple[float, int, _Request]] = []  # users: requests on their way
        self.waiting: deque[_Request] = deque()
        self.partial: deque[_Request] = deque()  # admitted, prompts not computed to the end
        self.running: list[tuple[int, int, _Request]] = []  # by the decode step at which each ends
        self.clock = 0  # decode steps so far
        self.context = 0.0  # tokens in the cache of those that decode
        self.gain = 0.0  # tokens that they gain in a step, together
        self.queries = float(server.deployment.queries)
        self.held = 0.0
        self.made = 0
        self.answered: list[Finished] = []
        self.link = 0.0  # time at which the link is free to load a prefix
        self.skipped = 0

    def run(self) -> list[Finished]:
        """Answer as many requests as are to be counted."""
        arrivals = self.arrivals
        warm = 0 if arrivals.is_burst else min(_ROUNDS * arrivals.users, 8 * arrivals.users)
        if arrivals.rate is not None:
            warm = max(arrivals.requests // 20, 50)
        self.limit = arrivals.requests + warm if not arrivals.is_burst else arrivals.requests
        self.skipped = warm
        if arrivals.rate is None:
            begin = min(arrivals.users, self.limit) if arrivals.is_burst else arrivals.users
            for number in range(begin):
                # Without a burst users begin spread out, or they would stay together for a long time.
                delay = 0.0 if arrivals.is_burst else self._spread_start(number)
                self._ask(delay)
        else:
            self._ask(self.random.expovariate(arrivals.rate))
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
        """Time at which a user begins: over about one answer of an idle server."""
        server = self.server
        one = float(server.prompt(server.computed, server.kinds[0].cached).alone) + (float(server.osl) - 1.0) * float(
            server.decode(1.0).total
        )
        return one * number / max(self.arrivals.users, 1)

    def _ask(self, at: float) -> None:
        """A request that is sent at a time; at a rate, the next one is known then."""
        server = self.server
        # Whole lengths whose mean is that asked for; a cached prefix is the same for all.
        prompts, answers = self.arrivals.lengths.draw(self.random)
        found, *missed = server.kinds
        kind = missed[0] if missed and self.random.random() >= found.weight else found
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
        """Requests that have come join the queue; those for which there is room leave it."""
        while self.next <= self.now:
            self._ask(self.next)
        while self.coming and self.coming[0][0] <= self.now:
            _, _, request = heappop(self.coming)
            self.waiting.append(request)
        while self.waiting and len(self.running) + len(self.partial) < self.most:
            request = self.waiting[0]
            needed = request.cached + request.prompt + self.reserve * request.answer
            if self.held + needed > self.memory * (1.0 + NANO) and (self.running or self.partial):
                break
            self.held += needed
            self.partial.append(self.waiting.popleft())

    def _step(self) -> bool:
        """One step of the server; false where there is nothing to do."""
        if not self.running and not self.partial:
            return False
        decoding = 0 if self.is_prompts_first and self.partial else len(self.running)
        verified = decoding * self.queries
        room = max(int(self.budget - verified), self.budget // 50, 1)
        times, engine = self.times, self.server.engine
        stretch = engine.stretch if self.running else 1.0
        length, attention, done = 0, 0.0, []
        while self.partial and length < room:
            request = self.partial[0]
            new = min(request.left, room - length)
            if request.started < 0.0:
                request.started = self.now
            attention += times.prompt_attention(new, request.cached + request.prompt - request.left)
            request.left -= new
            length += new
            if request.left == 0:
                done.append(self.partial.popleft())
        if decoding:
            mean = self.context / decoding
            apart = times.apart(decoding) + decoding * (mean - times.context) * times.growth(decoding)
            time = times.decode(decoding) + apart + times.host(decoding)
            if length:
                time += max(stretch * (times.linear(verified + length) - times.linear(verified)), 0.0)
        else:
            time = stretch * (times.linear(length) + times.head)
        time += stretch * attention
        if not decoding:
            time = max(time, times.launches)
        self.now += time + (float(engine.prefill) if length else 0.0)
        if decoding:
            self._decoded()
        for request in done:
            self._first_token(request)
        return True

    def _first_token(self, request: _Request) -> None:
        request.first = self.now
        if request.answer == 1:
            self._finished(request)
            return
        heappush(self.running, (self.clock + request.steps, id(request), request))
        self.context += request.cached + request.prompt
        self.gain += (request.answer - 1) / request.steps

    def _decoded(self) -> None:
        """Every sequence has another token, or several; some are at their end."""
        self.clock += 1
        self.context += self.gain
        while self.running and self.running[0][0] <= self.clock:
            _, _, request = heappop(self.running)
            self.context -= request.cached + request.prompt + request.answer - 1
            self.gain -= (request.answer - 1) / request.steps
            self._finished(request)

    def _finished(self, request: _Request) -> None:
        self.held -= request.cached + request.prompt + self.reserve * request.answer
        if self.arrivals.rate is None and (not self.arrivals.is_burst or self.made < self.limit):
            self._ask(self.now)
        if self.skipped:
            self.skipped -= 1
            return
        before = request.ready - request.arrival
        tokens = request.answer - 1
        tpot = (self.now - request.first) / tokens if tokens else float("nan")
        wait = request.started - request.arrival - before
        self.answered.append(Finished(request.first - request.arrival, tpot, self.now - request.arrival, wait))


def drawn_steps(tokens: int, deployment: Deployment, generator: random.Random) -> int:
    """Decode steps in which so many tokens are gained: one each, or as many as are kept of what is proposed.

    Args:
        tokens: after the first [tokens].
        deployment: with what proposes tokens, if anything.
        generator: of random numbers.

    Returns:
        Steps [1].
    """
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
    """Prompts up to which step times are tabulated, over their mean [1]."""
    if lengths.rows is not None:
        return max(prompt for prompt, _ in lengths.rows)
    return (
        1.0 + lengths.prompts.cv * 3.0**0.5
        if lengths.prompts.law == UNIFORM
        else max(2.0, 2.0 * lengths.prompts.slices[-1][1])
    )


def _times(server: Server, most: int, longest: float, room: float) -> _Times:
    """Step times of a rank at nodes from which others are read."""
    deployment, engine = server.deployment, server.engine
    isl, osl = float(server.isl), float(server.osl)
    sequences = min(most, int(room * 2.0) + 2)
    queries = float(deployment.queries)
    tokens = int(sequences * queries) + min(int(server.budget), int(isl * longest * (sequences + 1)))
    linear = _line(lambda place: server.linear(place / queries, 0.0), tokens)
    decode = linear if deployment.draft is None else _line(lambda place: server.decode(place).linear, sequences)
    context = isl + osl / 2.0
    at = [_line(lambda n, c=c: _apart(server, n, c), sequences) for c in (isl + 1.0, isl + osl + 1.0)]  # type: ignore[misc]
    growth = _Line(
        at[0].places, [(b - a) / osl / n for a, b, n in zip(at[0].values, at[1].values, at[0].places, strict=True)]
    )
    apart = _Line(at[0].places, [(a + b) / 2.0 for a, b in zip(at[0].values, at[1].values, strict=True)])
    reach = float(server.prefix) + server.fresh * longest
    first = min(float(kind.cached) for kind in server.kinds)
    cached = [first + (reach - first) * share for share in (0.0, 0.25, 0.5, 1.0)]
    chunk = min(server.budget, reach - first)
    attention = [(c, _line(lambda n, c=c: _chunk_attention(server, n, c), int(chunk) + 1)) for c in cached]  # type: ignore[misc]
    host = _line(lambda place: server.decode(place).host, sequences)
    launches = float(engine.launch) * float(prefill_pass(deployment, 1.0, server.computed).launches)
    head = float(server.prompt(server.computed, server.kinds[0].cached).head)
    return _Times(linear, decode, apart, growth, attention, head, context + 1.0, host, launches)


def _line(function: Callable[[float], Real], most: int) -> _Line:
    """A function from one to the most that is asked, at nodes that are the closer the smaller."""
    places = sorted(set(_nodes(most)))
    return _Line(places, [float(function(place)) for place in places])


def _nodes(most: int) -> Iterator[float]:
    yield 1.0
    place, growth = 1.0, max(_GROWTH, (max(most, 2)) ** (1.0 / _NODES))
    while place < most:
        yield float(round(place))
        place = max(place * growth, place + 1.0)
    yield float(max(most, 2))


def _apart(server: Server, sequences: float, context: float) -> Real:
    """Attention and head of a decode step at a context [s]."""
    dp = server.deployment.plan.dp
    passed = decode_pass(server.deployment, sequences * dp, context)
    return sum(k.time for k in passed.kernels if k.kind.is_per_sequence or k.part == HEAD)


def _chunk_attention(server: Server, new: float, cached: float) -> Real:
    """Attention of a chunk [s]."""
    return sum(k.time for k in prefill_pass(server.deployment, 1.0, new, cached).kernels if k.kind.is_per_sequence)
