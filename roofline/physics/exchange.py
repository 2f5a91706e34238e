"""Exchange of tokens with experts over two tiers of links: within a node, and between nodes."""

from __future__ import annotations

from collections.abc import Callable

from roofline.numbers.operations import Real, always, at_most, maximum, minimum, where
from roofline.physics.assembly import Assembly
from roofline.physics.equation import Kernel, LinkRoof, Work, collective_time, link_roof
from roofline.physics.plan import DEEPEP
from roofline.specs.gpu import Gpu, KernelKind
from roofline.support.records import NamedTuple

#: Share of the rate of a network port that DeepEP reaches: 44 of 50 GB/s over 4 and 8 nodes (H800, InfiniBand 400
#: Gbit/s; github.com/deepseek-ai/DeepEP, docs/legacy.md).
NETWORK_SHARE = 0.88

_LEAVES = "the ranks leave the node"
_SWAP = "links within and between nodes swap as bottleneck"


class Sent(NamedTuple):
    """What the busiest GPU receives in an exchange, by the link that it comes over."""

    inside: Real  # [B] from GPUs of its node
    outside: Real  # [B] from other nodes


def per_node_bytes(
    token: Real, chosen: Real, ranks: Real, node: Real, most_nodes: Real, rank_load: Real, node_load: Real
) -> Sent:
    r"""Bytes of an exchange that sends a token once to each node, where it goes on to the ranks of its experts.

    .. math:: V_{out} = \frac{t\, (N - 1)\, M}{N} \left(1 - \left(1 - \frac{\lambda_N}{M}\right)^k\right),\quad
              V_{in} = \frac{t\, n\, (g - 1)}{g} \left(1 - \left(1 - \frac{\lambda}{n}\right)^k\right),\quad
              N = \frac{n}{g}

    Args:
        token: tokens of a rank, times bytes t of each [B].
        chosen: experts k of a token [1].
        ranks: ranks n [1].
        node: ranks g of a node [1].
        most_nodes: nodes M that a token's experts are on at most, at most N [1].
        rank_load: tokens of the fullest rank over the mean, lambda [1].
        node_load: tokens of the fullest node over the mean, lambda_N [1].

    Returns:
        Bytes per GPU and direction [B].

    Valid:
        A token's experts are drawn one by one; those of one rank or node share what is sent.

    Source:
        DeepEP, normal kernels (github.com/deepseek-ai/DeepEP): over the network to the GPU of the same place in each
        node, then over NVLink, at once; DeepSeek-V3 report, arXiv:2412.19437, section 3.2.2: at most 4 nodes a token.

    >>> sent = per_node_bytes(1.0, 8, 16, 8, 2, 1.0, 1.0)
    >>> round(sent.inside, 3), round(sent.outside, 3)
    (5.646, 0.996)
    """
    nodes = ranks / node
    to_node = 1.0 - (1.0 - minimum(node_load / most_nodes, 1.0)) ** chosen
    to_rank = 1.0 - (1.0 - minimum(rank_load / ranks, 1.0)) ** chosen
    outside = token * (nodes - 1.0) * most_nodes / nodes * to_node
    return Sent(token * ranks * (node - 1.0) / node * to_rank, outside)


def direct_bytes(token: Real, chosen: Real, ranks: Real, node: Real, rank_load: Real) -> Sent:
    r"""Bytes of an exchange that sends every copy of a token straight to its expert's rank.

    .. math:: V_{out} = \lambda\, t\, k\, \frac{n - g}{n},\quad V_{in} = \lambda\, t\, k\, \frac{g - 1}{n}

    Args:
        token: tokens of a rank, times bytes t of each [B].
        chosen: experts k of a token [1].
        ranks: ranks n [1].
        node: ranks g of a node [1].
        rank_load: tokens of the fullest rank over the mean, lambda [1].

    Returns:
        Bytes per GPU and direction [B].

    Source:
        DeepEP, low-latency kernels (github.com/deepseek-ai/DeepEP): no copy is shared.

    >>> direct_bytes(1.0, 8, 16, 8, 1.0)
    Sent(inside=3.5, outside=4.0)
    """
    copies = token * chosen * rank_load
    return Sent(copies * (node - 1.0) / ranks, copies * (ranks - node) / ranks)


def exchange_roof(gpu: Gpu, basis: str, collective: KernelKind, ranks: Real, sent: Sent) -> tuple[Work, LinkRoof]:
    r"""Work and roof of an exchange whose two links work at once.

    .. math:: t = t_\alpha + \max\left(\frac{V_{in}}{\eta B_{link}},\ \frac{V_{out}}{0.88\, B_{net}}\right)

    Args:
        gpu: the GPU.
        basis: ``ideal``, ``calibrated`` or ``inherited`` [text].
        collective: dispatch or combine.
        ranks: ranks that take part [1].
        sent: bytes over both links [B].

    Returns:
        All bytes as work, and the roof at which they take this time: start and pipeline of the exchange within a node,
        and at the hardware limit full rates.

    Raises:
        BadInput: the ranks exceed the node and the GPU states no network.

    Valid:
        Ranks fill one node after the other. Median error 3 % over 20 published times and rates of DeepEP on H800; 15 %
        at most between nodes, 25 % within one.

    Source:
        github.com/deepseek-ai/DeepEP, docs/legacy.md; eta as for exchanges within a node, docs/method.md.
    """
    inside = at_most(ranks, gpu.node, _LEAVES)
    if not always(inside) and gpu.scale_out is None:
        link_roof(gpu, basis, collective, ranks)  # refuses it
    near = link_roof(gpu, basis, collective, minimum(ranks, gpu.node, _LEAVES))
    is_ideal = basis == "ideal" or gpu.calibration is None
    reached = 1.0 if is_ideal else near.efficiency.eta
    time = sent.inside / (reached * near.bandwidth)
    if gpu.scale_out is not None:
        over = sent.outside / ((1.0 if is_ideal else NETWORK_SHARE) * gpu.scale_out)
        time = maximum(time, over, _SWAP)
    total = sent.inside + sent.outside
    some = where(total > 0.0, total, 1.0)
    bandwidth = where(total > 0.0, some / where(total > 0.0, time * reached, 1.0), near.bandwidth)
    return Work(link_bytes=total), near._replace(bandwidth=bandwidth, least=1.0)


def add_exchange(
    assembly: Assembly,
    name: str,
    collective: KernelKind,
    count: Real,
    token: Real,
    chosen: Real,
    ranks: Real,
    load: Callable[[Real], Real],
) -> None:
    """Add an exchange over both tiers; `load` is that of the fullest of so many ranks over the mean."""
    spread, gpu = assembly.deployment.spread, assembly.gpu
    node = minimum(ranks, gpu.node, _LEAVES)
    nodes = ranks / node
    if spread.exchange == DEEPEP and assembly.decodes:
        sent = direct_bytes(token, chosen, ranks, node, load(ranks))
    else:
        most = nodes if spread.nodes is None else minimum(nodes, spread.nodes)
        sent = per_node_bytes(token, chosen, ranks, node, most, load(ranks), load(nodes))
    work, roof = exchange_roof(gpu, assembly.deployment.basis, collective, ranks, sent)
    roof = assembly.slowed_link(roof)
    kernel = Kernel(name, collective, "bf16", count, work, roof, collective_time(work, roof))
    assembly.kernels.append(assembly.within_power(kernel))
