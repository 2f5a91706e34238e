"""Bytes that one GPU sends over the link in one direction, by collective."""

from __future__ import annotations

from roofline.ops import Real
from roofline.specs.kernels import ALL_REDUCE, P2P, REDUCE_SCATTER, KernelKind


def all_reduce_bytes(tensor: Real, ranks: Real) -> Real:
    r"""Bytes sent to sum a tensor over ranks, on a ring.

    .. math:: V = \frac{2 (n - 1)}{n} S

    In-switch reduction needs S only (`LinkRoof.least`).

    Args:
        tensor: size S of the tensor [B].
        ranks: GPUs n [1].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009 (a ring is bandwidth-optimal
        without a reducing switch); Klenk et al., ISCA 2020 (in-switch reduction).

    >>> all_reduce_bytes(8.0, 4)
    12.0
    """
    return 2.0 * (ranks - 1) / ranks * tensor


def all_gather_bytes(tensor: Real, ranks: Real) -> Real:
    """Bytes sent to collect the shards of a tensor on every rank.

    Args:
        tensor: size of the gathered tensor [B].
        ranks: GPUs [1].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        Chan et al., Concurrency and Computation 19, 2007: what must be sent whatever the algorithm.

    >>> all_gather_bytes(8.0, 4)
    6.0
    """
    return (ranks - 1) / ranks * tensor


def reduce_scatter_bytes(tensor: Real, ranks: Real) -> Real:
    """Bytes sent to sum a tensor and leave one shard on each rank.

    Args:
        tensor: size of the whole tensor [B].
        ranks: GPUs [1].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        Chan et al., Concurrency and Computation 19, 2007; the reverse of an all-gather.
    """
    return all_gather_bytes(tensor, ranks)


def all_to_all_bytes(tensor: Real, ranks: Real) -> Real:
    """Bytes sent when every rank sends a different part of its tensor to every other rank.

    Args:
        tensor: size of what one rank holds before the exchange [B].
        ranks: GPUs [1].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        Arithmetic: a rank sends all but its own part; parts are equally large.
    """
    return all_gather_bytes(tensor, ranks)


def p2p_bytes(tensor: Real) -> Real:
    """Bytes sent to hand a tensor to the next pipeline stage.

    Args:
        tensor: size of the tensor [B].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        Arithmetic.
    """
    return tensor


def sent_bytes(collective: KernelKind, tensor: Real, ranks: Real) -> Real:
    """Bytes that a collective sends.

    Args:
        collective: its kind.
        tensor: size of what is summed, gathered, scattered, exchanged or handed over [B].
        ranks: GPUs that take part [1].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        The function of the collective.

    >>> sent_bytes(ALL_REDUCE, 8.0, 4)
    12.0
    """
    if collective is P2P:
        return p2p_bytes(tensor)
    if collective is ALL_REDUCE:
        return all_reduce_bytes(tensor, ranks)
    if collective.is_exchange:
        return all_to_all_bytes(tensor, ranks)
    if collective is REDUCE_SCATTER:
        return reduce_scatter_bytes(tensor, ranks)
    return all_gather_bytes(tensor, ranks)
