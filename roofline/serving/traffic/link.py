"""The link over which cached prefixes are loaded: one after the other, beside whatever the GPU computes."""

from __future__ import annotations

from roofline.ops import Real, maximum, minimum
from roofline.records import NamedTuple
from roofline.serving.traffic.server import STABLE, Server

__all__ = ["LinkWait", "link_rate", "link_wait"]


class LinkWait(NamedTuple):
    """How long a prefix waits until those before it are loaded."""

    mean: Real  # [s] of a request that loads
    variance: Real  # [s^2] of the same
    over_all: Real  # [s] mean over all requests


_EIGHT_OVER_PI = 2.546
_FEWEST = 0.001  # other users, of whom there is a part at least
_NO_WAIT = LinkWait(0.0, 0.0, 0.0)


def link_rate(server: Server) -> Real:
    """Requests of a rank at which the link is busy all of the time.

    Args:
        server: a rank, which loads prefixes.

    Returns:
        Rate; ranks that share a pipeline share its links [1/s].

    Source:
        Arithmetic.
    """
    return 1.0 / (server.deployment.plan.pp * server.loading)


def link_wait(server: Server, rate: Real, users: Real | None) -> LinkWait:
    r"""Wait for the link, before a prefix is loaded.

    .. math:: w = \frac{u\, t}{1 - u + \sqrt{(1 - u)^2 + \frac{8}{\pi n}}},\quad
              \mathrm{Var}\, w = w^2 + \tfrac{2}{3} t\, w,\quad u = l\, h\, t

    n sources that each come once in a cycle bunch less than random arrivals do: of c users n is (c - 1)/h, and u counts
    c - 1 of c. Without an end of sources the root is 1 - u, and w that of M/D/1.

    Args:
        server: a rank.
        rate: requests that come to it, l [1/s].
        users: requests in flight on the rank, c of a closed loop; None of an open one [requests].

    Returns:
        Mean and variance.

    Valid:
        Loads run beside kernels and delay none of them, as LMCache and vLLM's KV connectors have it; random arrivals,
        or users whose answers are about equal.

    Source:
        M/D/1: Pollaczek, 1930, and Khinchine, 1932. Sources of equal periods: Norros, Roberts, Simonian and Virtamo,
        IEEE JSAC 9(3), 1991, whose tail exp(-2 x (x/n + 1 - u)) is integrated by the bound of erfc in Abramowitz and
        Stegun, 7.1.13.
    """
    if server.is_free_of_loads:
        return _NO_WAIT
    found = server.kinds[0]
    time, share = found.loading, found.weight
    come = rate * server.deployment.plan.pp
    if users is not None:
        come = come * (users - 1.0) / users
    busy = minimum(come * share * time, STABLE)
    free = 1.0 - busy
    wait = busy * time / (2.0 * free)
    if users is not None:
        few = _EIGHT_OVER_PI * share / maximum(users - 1.0, _FEWEST)
        wait = busy * time / (free + (free * free + few) ** 0.5)
    return LinkWait(wait, wait * wait + 2.0 / 3.0 * time * wait, share * wait)
