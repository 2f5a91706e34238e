"""Saturation of a rank, and the wait for a slot where no further sequence is admitted."""

from __future__ import annotations

from roofline.ops import Real, above, below, maximum, minimum, never, where
from roofline.records import NamedTuple
from roofline.roots import repeated
from roofline.serving.traffic.link import link_rate
from roofline.serving.traffic.prompts import Prompt, added
from roofline.serving.traffic.queueing import LEAST_BUDGET, Meeting
from roofline.serving.traffic.server import PROMPTS_FIRST, STABLE, Server

_MOST_SLOTS = 1 << 16  # in the sum over states
_NEGLIGIBLE = 2.0**40  # weight over that of full slots, beyond which full slots never occur


class Saturation(NamedTuple):
    """The most that one rank can serve."""

    rate: Real  # [1/s] requests
    slots: Real  # [sequences] at most
    step: Real  # [s] D at saturation
    sequences: Real  # [sequences] decoding then


def saturation(server: Server, prompt: Prompt) -> Saturation:
    r"""Largest request rate of a rank.

    .. math:: X_{sat} = \frac{y}{D(b) + y\, P(b, n)},\quad
              y = \min\left(\frac{b_{max}}{O - 1}, \frac{C}{S + O - 1}\right)

    y requests start with each step, as many as end, with all slots or all of the token budget taken. The link for
    prefix loads may allow less (`link_rate`).

    Args:
        server: a rank.
        prompt: its mean prompt.

    Returns:
        Rate [1/s], and the state of the rank then.

    Source:
        docs/method.md, "A server under load".
    """
    slots, steps, length, budget = server.slots, server.steps_of(), prompt.length, server.budget
    queries = server.deployment.queries
    is_prompts_first = server.engine.scheduler == PROMPTS_FIRST
    begin = slots / maximum(steps, 1.0)
    if not is_prompts_first:
        begin = minimum(begin, budget / (length + steps * queries))
    begin = where(steps > 0.0, begin, budget / length)
    sequences = minimum(maximum(begin * steps, 1.0), slots)
    parts = server.decode(sequences)
    base = server.beside(sequences, parts)
    room = budget if is_prompts_first else maximum(budget - sequences * queries, LEAST_BUDGET * budget)
    tokens = maximum(minimum(room, length * (1.0 + begin)), 1.0)
    usual = added(server, prompt, sequences, base, tokens, length, prompt.attention)
    rate = begin / (parts.total + begin * usual)
    if not server.is_free_of_loads:
        rate = minimum(rate, link_rate(server))
    return Saturation(rate, slots, parts.total, sequences)


def slot_wait(server: Server, full: Saturation, met: Meeting, rate: Real, others: Real) -> tuple[Real, Real]:
    r"""Wait for a slot, where `max_num_seqs` or memory admits no further sequence.

    .. math:: \pi_n \sim \prod_{i \le n} \frac{l (O - 1) T_i}{i},\quad
              T_n = D(n) + \frac{(n - 1) p}{O - 1} + T(O) - E_1

    The tail beyond the last slot is geometric; D(n) is linear from the mean step to the full one.

    Args:
        server: a rank.
        full: its saturation.
        met: conditions of a request at this rate.
        rate: Poisson arrivals at the rank [1/s].
        others: mean decoding sequences [sequences].

    Returns:
        Share of requests that wait [1], and mean wait over all requests [s].

    Valid:
        Poisson arrivals.

    Source:
        Birth-death process of the decoding sequences (Erlang C with state-dependent service).
    """
    if never(rate > 0.0):  # a single user never waits
        return 0.0, 0.0
    steps, slots = server.steps, full.slots
    middle = 1.0 + others
    slope = (full.step - met.plain) / maximum(full.sequences - middle, 1.0)
    excess = met.decode / steps - met.mean_step

    def completion_rate(sequences: Real) -> Real:
        """Requests that end per second with `sequences` decoding."""
        plain = maximum(met.plain + slope * (sequences - middle), 0.1 * met.plain)
        step = maximum(plain + (sequences - 1.0) * met.prompt / steps + excess, 0.1 * plain)
        return maximum(sequences / (steps * step), full.rate * sequences / slots)  # saturation with all slots taken

    last = completion_rate(slots)
    load = minimum(rate / last, STABLE)

    def next_state(state: tuple[Real, ...]) -> tuple[tuple[Real, ...], Real]:
        weight, total, number = state
        weight = where(number >= 1.0, minimum(weight * completion_rate(maximum(number, 1.0)) / rate, _NEGLIGIBLE), 0.0)
        total, number = total + weight, number - 1.0
        is_left = above(number, 0.0)
        return (weight, total, number), is_left if never(is_left) else is_left & below(total, _NEGLIGIBLE)

    unit = 0.0 * rate + 1.0
    _, total, _ = repeated(next_state, (unit, unit, slots), _MOST_SLOTS, (last,))
    waiting = 1.0 / (1.0 - load)
    share = waiting / (total - 1.0 + waiting)
    share = where(total >= _NEGLIGIBLE, 0.0, share)
    return share, share * server.lengths.answers.biased / 2.0 / (last * (1.0 - load))
