"""A run whose requests all wait from the start: waves of as many as find a slot."""

from __future__ import annotations

from roofline.numbers.operations import Real, ceil, maximum, minimum, where
from roofline.serving.latency import Served, Workload, lanes, time_per_token
from roofline.serving.load.rounds import LEAST_BUDGET
from roofline.serving.load.server import PROMPTS_FIRST, Prompt, Server, added
from roofline.support.records import NamedTuple


class Wave(NamedTuple):
    """Requests of a rank that take the slots of those before them, and end as these did: one after the other."""

    requests: Real  # k [requests]
    prompt: Real  # [s] P, that a prompt adds to a full step
    passes: Real  # [1] full steps that hold all prompts
    decoding: Real  # [sequences] on average
    step: Real  # [s] D
    own: Real  # [1] steps of a prompt, in which its slot decodes nothing
    full: Real  # [s] step that is full of prompts
    cycle: Real  # [s] until the slots are taken again

    @property
    def prompts(self) -> Real:
        """Time that all prompts add [s]."""
        return self.requests * self.prompt

    @property
    def groups(self) -> Real:
        """Prompts of a pass end together; of longer ones, one after the other [1]."""
        return minimum(self.passes, self.requests)

    def middle(self, time: Real) -> Real:
        """Mean end of the prompts, where all of them take a time [s]."""
        return time * (1.0 + 1.0 / self.groups) / 2.0

    def behind(self, steps: Real) -> Real:
        """Mean time of the wave's prompts that are computed during an answer's steps [s]."""
        seen = minimum(steps * self.groups / self.passes, self.groups - 1.0)
        return seen * (1.0 - (seen + 1.0) / (2.0 * self.groups)) * self.prompts / self.groups


def wave(server: Server, prompt: Prompt, requests: Real) -> Wave:
    r"""A wave of requests on one rank.

    .. math:: cycle = k P + \frac{k}{y} D(y N),\quad y = \min\left(\frac{k}{N + s}, \frac{C}{S + N}\right),\quad
              s = \max\left(1, \frac{S}{C}\right)

    for decode-first schedulers: y requests start with each step, as many as end. Prompts first: k P + N D(k), as
    nobody decodes before all prompts are computed.

    Args:
        server: a rank.
        prompt: the mean prompt.
        requests: k, no more than slots [requests].

    Returns:
        The times of the wave.

    Valid:
        Requests of about equal length.

    Source:
        docs/method.md, "A run of requests that all wait".
    """
    steps, length, budget, queries = server.steps_of(), prompt.length, server.budget, server.deployment.queries
    is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
    own: Real = 0.0 if is_prompts_first else maximum(1.0, length / budget)
    begin = requests / maximum(steps + own, 1.0)
    if not is_prompts_first:
        begin = minimum(begin, budget / (length + steps * queries))
    decoding = maximum(minimum(begin * steps, requests), 1.0)
    parts = server.decode(decoding)
    room = budget if is_prompts_first else maximum(budget - decoding * queries, LEAST_BUDGET * budget)
    tokens = maximum(minimum(room, length * requests), 1.0)
    each = added(server, prompt, decoding, server.beside(decoding, parts), tokens, length, prompt.attention)
    count = steps if is_prompts_first else requests / begin
    return Wave(
        requests=requests,
        prompt=each,
        passes=requests * length / tokens,
        decoding=decoding,
        step=parts.total,
        own=own,
        full=parts.total + tokens / length * each,
        cycle=requests * each + count * parts.total,
    )


def queue(server: Server, prompt: Prompt, workload: Workload) -> Served:
    r"""Mean figures of a run whose requests all wait from the start.

    .. math:: T = h + w\, cycle(b) + k P + N D(k) + B_1 + (p - 1) D(1),\quad
              w = \left\lceil \frac{M}{b} \right\rceil - 1,\quad k = M - w b

    for decode-first schedulers: full waves, the last one of k requests, the pass in which nobody decodes yet (B_1,
    beyond what its prompts add), and the steps until all p passes of prompts have begun. Prompts first: the last two
    are not there.

    Args:
        server: a rank, whose steps with prompts are full of them (`Server.is_fed`).
        prompt: its mean prompt.
        workload: with the number of requests.

    Returns:
        Means over the requests; `request_rate` is their number over the time T.

    Valid:
        Requests of about equal length, shared evenly by the ranks.

    Source:
        docs/method.md, "A run of requests that all wait".
    """
    deployment, plan = server.deployment, server.deployment.plan
    ranks = lanes(deployment)
    is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
    steps, slots = server.steps_of(), server.slots
    requests = maximum(workload.num_prompts / ranks, 1.0)
    inside = minimum(slots, requests)
    earlier = ceil(requests / inside, "one more wave of requests") - 1.0
    last = requests - earlier * inside
    many, rest = wave(server, prompt, inside), wave(server, prompt, last)

    start, idle = _start(server, prompt, inside)
    first = many.prompts + start  # until the prompts of the first wave are computed
    ends = rest.prompts + steps * rest.step
    if not is_prompts_first:  # where answers are short, prompts take the steps of all of them
        first = first + (many.passes - 1.0) * server.decode(maximum(many.decoding / 2.0, 1.0)).total
        ends = maximum(ends, rest.cycle - rest.own * rest.step)
        start = start + maximum(minimum(rest.passes, steps + 1.0) - 1.0, 0.0) * idle
    total = server.before + earlier * many.cycle + ends + start
    if not server.is_free_of_loads:
        total = maximum(total, server.before + requests * plan.pp * server.loading)

    # Means over requests: of the first wave, of those between, of the last, which may be the first.
    share, later, between = inside / requests, where(earlier > 0.0, 1.0, 0.0), maximum(earlier - 1.0, 0.0)
    begun = many.cycle * (share * earlier * (earlier - 1.0) / 2.0 + earlier * last / requests)
    fills = share * (many.middle(first) + between * many.middle(_fill(many, is_prompts_first)))
    fills = fills + later * last / requests * rest.middle(_fill(rest, is_prompts_first))
    ttft = server.before + begun + fills

    at_end = steps * rest.step
    if is_prompts_first:  # nobody decodes before all prompts of the wave are computed
        at_end = at_end + rest.prompts - rest.middle(rest.prompts)
        spans = (between + later) * (steps * many.step + many.prompts - many.middle(many.prompts))
    else:  # the others of my wave, then those of the next that come before my slot's
        at_end = at_end + rest.behind(steps)
        apart = 1.0 - 1.0 / many.groups  # all that are computed in one pass end together
        mates, most = apart * many.prompts, steps * (many.full - many.step)
        before_last = mates / 2.0 + apart * rest.prompts * (1.0 - last / inside / 2.0)
        spans = between * minimum(mates, most) + later * minimum(before_last, most)
        spans = spans + (between + later) * steps * many.step
    decode = where(steps > 0.0, share * spans + last / requests * at_end, 0.0)

    prompts = requests * many.prompt
    rate = workload.num_prompts / total
    queued = ttft - server.before - prompt.alone
    return Served(
        ttft=ttft,
        tpot=time_per_token(deployment, server.osl, decode / server.steps),
        decode=decode,
        queue=maximum(queued, 0.0),
        concurrency=rate * (ttft + decode),
        request_rate=rate,
        max_request_rate=maximum(inside / many.cycle * ranks, rate),
        batch=minimum(1.0 if server.users is None else server.users, inside * plan.dp),
        slots=slots,
        rho=prompts / total,
        rho_chunks=prompts / total,
        prompt_share=many.prompt / (server.steps * many.step),
        waiting_share=1.0 - share,
        is_stable=total > 0.0,
        state=(),
        prompt=many.prompt,
        nobody=0.0,
    )


def _start(server: Server, prompt: Prompt, inside: Real) -> tuple[Real, Real]:
    """Time of the first pass beyond what its prompts add to a step, and of a step of a single sequence [s]."""
    if server.engine.scheduler == PROMPTS_FIRST:
        return 0.0, 0.0
    tokens = minimum(server.budget, prompt.length * inside)
    parts = server.decode(1.0)
    mixed = maximum(server.linear(1.0, tokens) - server.beside(1.0, parts), 0.0)
    attention = prompt.attention * tokens / prompt.length
    alone = maximum(server.linear(1.0, tokens - 1.0) + prompt.head + attention, prompt.launches)
    return alone - attention - mixed, parts.total


def _fill(of: Wave, is_prompts_first: bool) -> Real:
    """Time in which all prompts of a wave that follows another are computed [s]."""
    return of.prompts if is_prompts_first else of.prompts + of.passes * of.step
