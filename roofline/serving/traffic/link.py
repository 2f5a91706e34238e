"""The link over which cached prefixes are loaded, one after the other, in parallel with computation."""

from __future__ import annotations

from roofline.ops import Real, maximum, minimum
from roofline.records import NamedTuple
from roofline.serving.traffic.server import STABLE, Server


class LinkWait(NamedTuple):
    """Wait for the prefixes loaded before the request's own."""

    mean: Real  # [s] per request that loads
    variance: Real  # [s^2] of it
    over_all: Real  # [s] mean over all requests


_EIGHT_OVER_PI = 2.546
_FEWEST = 0.001  # lower bound on other users, against division by zero
_NO_WAIT = LinkWait(0.0, 0.0, 0.0)


def link_rate(server: Server) -> Real:
    """Request rate of a rank that saturates the link.

    Args:
        server: a rank that loads prefixes.

    Returns:
        Rate [1/s]; ranks that share a pipeline share its links.

    Source:
        Arithmetic.
    """
    return 1.0 / (server.deployment.plan.pp * server.loading)


def link_wait(server: Server, rate: Real, users: Real | None) -> LinkWait:
    r"""Wait for the link before a prefix is loaded.

    .. math:: w = \frac{u\, t}{1 - u + \sqrt{(1 - u)^2 + \frac{8}{\pi n}}},\quad
              \mathrm{Var}\, w = w^2 + \tfrac{2}{3} t\, w,\quad u = l\, h\, t

    n periodic sources bunch less than random arrivals: with c users, n is (c - 1)/h, and u counts c - 1 of c. For
    infinitely many sources the root is 1 - u, and w that of M/D/1.

    Args:
        server: a rank.
        rate: arrivals at the rank, l [1/s].
        users: requests in flight on the rank, c of a closed loop; None for an open one [requests].

    Returns:
        Mean and variance.

    Valid:
        Loads overlap with kernels and do not slow them down, as in LMCache and vLLM's KV connectors; random arrivals,
        or users whose answers are about equal.

    Source:
        M/D/1: Pollaczek, 1930, and Khinchine, 1932. Sources of equal periods: Norros, Roberts, Simonian and Virtamo,
        IEEE JSAC 9(3), 1991, whose tail exp(-2 x (x/n + 1 - u)) is integrated by the bound of erfc in Abramowitz and
        Stegun, 7.1.13.
    """
    if server.is_free_of_loads:
        return _NO_WAIT
    hit = server.kinds[0]
    time, share = hit.loading, hit.weight
    arrivals = rate * server.deployment.plan.pp
    if users is not None:
        arrivals = arrivals * (users - 1.0) / users
    busy = minimum(arrivals * share * time, STABLE)
    free = 1.0 - busy
    wait = busy * time / (2.0 * free)
    if users is not None:
        few = _EIGHT_OVER_PI * share / maximum(users - 1.0, _FEWEST)
        wait = busy * time / (free + (free * free + few) ** 0.5)
    return LinkWait(wait, wait * wait + 2.0 / 3.0 * time * wait, share * wait)
