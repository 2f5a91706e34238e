"""What a rank can serve at most, and the wait for a slot where it admits no further sequence."""

from __future__ import annotations

from roofline.ops import Real, above, below, maximum, minimum, never, where
from roofline.records import NamedTuple
from roofline.roots import repeated
from roofline.serving.traffic.link import link_rate
from roofline.serving.traffic.prompts import Prompt, added
from roofline.serving.traffic.queueing import LEAST_BUDGET, Meeting
from roofline.serving.traffic.server import PROMPTS_FIRST, STABLE, Server

__all__ = ["Saturation", "saturation", "slot_wait"]

_MOST_SLOTS = 1 << 16  # that are looked at
_NEVER = 2.0**40  # times as likely as that all slots are taken


class Saturation(NamedTuple):
    """The most that one rank can serve."""

    rate: Real  # [1/s] requests
    slots: Real  # [sequences] that run at most
    step: Real  # [s] D at the sequences that run then
    sequences: Real  # that decode then


def saturation(server: Server, prompt: Prompt) -> Saturation:
    r"""The largest rate that a rank can serve.

    .. math:: X_{sat} = \frac{y}{D(b) + y\, P(b, n)},\quad
              y = \min\left(\frac{b_{max}}{O - 1}, \frac{C}{S + O - 1}\right)

    y requests begin with each step: as many as end, with all slots taken or all of the budget. The link over which
    prefixes are loaded may allow less (`link_rate`).

    Args:
        server: a rank.
        prompt: its mean prompt.

    Returns:
        The rate [1/s], and what runs then.

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
    r"""Wait for a slot, where `max_num_seqs` or the memory admits no further sequence.

    .. math:: \pi_n \sim \prod_{i \le n} \frac{l (O - 1) T_i}{i},\quad
              T_n = D(n) + \frac{(n - 1) p}{O - 1} + T(O) - E_1

    Beyond the last slot the tail is geometric. D(n) is taken to lie on the line from the mean step to the full one.

    Args:
        server: a rank.
        full: what it serves at most.
        met: what a request meets at this rate.
        rate: requests that come to the rank, at random [1/s].
        others: sequences that decode, on average [sequences].

    Returns:
        Share of the requests that wait [1], and mean wait of all of them [s].

    Valid:
        Poisson arrivals.

    Source:
        Birth and death of the number that decodes (Erlang's C with a service that slows down).
    """
    if never(rate > 0.0):  # one user, whom nobody makes wait
        return 0.0, 0.0
    steps, slots = server.steps, full.slots
    middle = 1.0 + others
    slope = (full.step - met.plain) / maximum(full.sequences - middle, 1.0)
    beside = met.decode / steps - met.mean_step

    def served(sequences: Real) -> Real:
        """Requests that end per second, with so many decoding."""
        decode = maximum(met.plain + slope * (sequences - middle), 0.1 * met.plain)
        each = maximum(decode + (sequences - 1.0) * met.prompt / steps + beside, 0.1 * decode)
        return maximum(sequences / (steps * each), full.rate * sequences / slots)  # with all slots taken, all it can

    last = served(slots)
    load = minimum(rate / last, STABLE)

    def one_less(state: tuple[Real, ...]) -> tuple[tuple[Real, ...], Real]:
        weight, total, number = state
        weight = where(number >= 1.0, minimum(weight * served(maximum(number, 1.0)) / rate, _NEVER), 0.0)
        total, number = total + weight, number - 1.0
        is_left = above(number, 0.0)
        return (weight, total, number), is_left if never(is_left) else is_left & below(total, _NEVER)

    one = 0.0 * rate + 1.0
    _, total, _ = repeated(one_less, (one, one, slots), _MOST_SLOTS, (last,))
    waiting = 1.0 / (1.0 - load)
    share = waiting / (total - 1.0 + waiting)
    share = where(total >= _NEVER, 0.0, share)
    return share, share * server.lengths.answers.biased / 2.0 / (last * (1.0 - load))
