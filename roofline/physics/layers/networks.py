"""Feed-forward networks: dense, and mixtures of experts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from roofline.numbers.operations import Real, maximum, minimum, never, norm, where
from roofline.physics import kernels
from roofline.physics.assembly import (
    ACTIVATION_NBYTES,
    Assembly,
    Matrices,
    Multiplication,
    NetworkKind,
    Projection,
    Sharded,
    absent,
)
from roofline.physics.equation import Work
from roofline.physics.plan import DIRECT, Plan, Scheme
from roofline.specs.engine import SHARED_EXPERTS
from roofline.specs.gpu import ALL_GATHER, ALL_REDUCE, MOE_COMBINE, MOE_DISPATCH, REDUCE_SCATTER, ROUTER, KernelKind
from roofline.specs.gpu import MOE as MOE_KERNEL
from roofline.specs.model import DenseFfn, MoeFfn

# Dense feed-forward network: gate (optional), up and down.


def dense_projections(
    ffn: DenseFfn, hidden: Real, prefix: str = "", section: str = "linear", width: str = "ffn width"
) -> Iterator[Projection]:
    """Matrices of a dense FFN or of shared experts; `prefix` is that of kernels, `width` names the inner width."""
    inner, up = Sharded(ffn.width, 1, width), _up_name(ffn, prefix)
    if ffn.gated:
        yield Projection("gate", up, inner, hidden, section, ffn.bias)
    yield Projection("up", up, inner, hidden, section, ffn.bias)
    yield Projection("down", prefix + "down", hidden, inner, section, ffn.bias)


def add_dense(
    assembly: Assembly, count: Real, ffn: DenseFfn, matrices: Mapping[str, Multiplication], prefix: str = ""
) -> None:
    """Add the kernels of a dense FFN, whose multiplications are among `matrices`."""
    up, down = _up_name(ffn, prefix), prefix + "down"
    assembly.multiply(up, count, matrices[up])
    activated = kernels.activation(assembly.tokens, matrices[down].inner, ffn.gated)
    assembly.elementwise(prefix + "activation", count, activated)
    assembly.multiply(down, count, matrices[down])


def _up_name(ffn: DenseFfn, prefix: str) -> str:
    """Name of the first multiplication."""
    return prefix + ("gate, up" if ffn.gated else "up")


@Matrices
def _dense_projections(ffn: DenseFfn, hidden: Real) -> Iterator[Projection]:
    return dense_projections(ffn, hidden)


def _dense_inner_width(ffn: DenseFfn, hidden: Real, plan: Plan) -> Real:
    """Outputs of the first multiplication, and of the activation."""
    first, second = _dense_projections.on_rank(ffn, hidden, plan.tp).values()
    return first.columns + second.inner


def _dense_add_kernels(assembly: Assembly, count: Real, ffn: DenseFfn) -> None:
    if absent(ffn.last):
        _add_whole(assembly, count, ffn)
        return
    with assembly.last_tokens(ffn.last):
        _add_whole(assembly, count, ffn)


def _add_whole(assembly: Assembly, count: Real, ffn: DenseFfn) -> None:
    add_dense(assembly, count, ffn, _dense_projections.on_rank(ffn, assembly.hidden, assembly.tp))
    assembly.all_reduce("ffn all-reduce", count)


DENSE = NetworkKind(_dense_projections, _dense_inner_width, _dense_add_kernels)


# Mixture of experts: how many a step touches, what they cost, and their dispatch and combine.

#: Means of the largest of 2^i standard normals, of its square and of its cube, i = 0..9.
_LARGEST_NORMAL = (
    (0.0, 0.5642, 1.0294, 1.4236, 1.7660, 2.0697, 2.3437, 2.5946, 2.8269, 3.0439),
    (1.0, 1.0, 1.5513, 2.3995, 3.4137, 4.5251, 5.6966, 6.9072, 8.1448, 9.4020),
    (0.0, 1.4105, 2.7004, 4.5636, 7.1464, 10.4314, 14.3619, 18.8801, 23.9362, 29.4892),
)

#: Variance of an expert's load over its mean, times the routing skew c.
_LOAD_VARIANCE = 5.0


def distinct_experts(ffn: MoeFfn, tokens: Real, routing_skew: Real | None) -> Real:
    r"""Experts of one layer that a step of `tokens` tokens touches.

    .. math:: D = E \left(1 - \left(1 + \frac{T a}{c}\right)^{-c}\right),\quad
              a = c \left(\left(1 - \frac{k}{E}\right)^{-1/c} - 1\right)

    Exactly k at one token. As c grows it becomes the uniform law E (1 - (1 - k/E)^T).

    Args:
        ffn: experts E, of which each token takes top_k k.
        tokens: tokens T of the step [tokens].
        routing_skew: c, how unevenly experts are chosen; None for uniform [1].

    Returns:
        Experts [1].

    Valid:
        Tokens choose independently of each other, with the same popularities at every step.

    Source:
        Gamma-Poisson (negative-binomial) occupancy, scaled to be exact at one token; c fitted on
        MoE kernels timed with power-law routing, docs/method.md.

    >>> round(distinct_experts(MoeFfn(experts=256, top_k=8, width=1), 1.0, 0.66), 9)
    8.0
    """
    idle = 1.0 - ffn.chosen / ffn.experts
    is_sparse = idle > 0.0  # else every token takes all experts
    if never(is_sparse):
        return 1.0 * ffn.experts
    idle = where(is_sparse, idle, 1.0)
    if routing_skew is None:
        still_idle = idle**tokens
    else:
        rate = idle ** (-1.0 / routing_skew) - 1.0  # a / c
        still_idle = (1.0 + tokens * rate) ** (-routing_skew)
    return where(is_sparse, ffn.experts * (1.0 - still_idle), 1.0 * ffn.experts)


def fullest_rank(number: Real, ep: Real, routing_skew: Real | None) -> Real:
    r"""Tokens of the fullest expert-parallel rank, for which the step waits, over the mean.

    .. math:: \lambda = \min\left(a^3 + 3 a^2 b\, z_1 + 3 a b^2 z_2 + b^3 z_3,\ ep\right),\quad
              a = 1 - \frac{1}{9 \alpha},\ b = \frac{1}{3 \sqrt{\alpha}},\ \alpha = \frac{c\,E}{5\,ep}

    A rank's load is the sum of the Gamma loads of its E/ep experts, a Gamma variable of shape alpha, whose cube root is
    nearly normal; z_1, z_2 and z_3 are the means of the largest of ep standard normals, of its square and of its cube.

    Args:
        number: experts E of a layer [1].
        ep: expert-parallel degree [1].
        routing_skew: c of the routing; None for uniform: even load [1].

    Returns:
        The ratio [1].

    Valid:
        Within 1.5 % of drawn loads of 128 or 256 experts over 2 to 32 ranks. ep a power of two, else the means are
        interpolated.

    Source:
        Wilson and Hilferty, PNAS 17, 1931 (the cube root); order statistics of the normal distribution (Tippett,
        Biometrika 17, 1925). The variance 5/c of an expert's load over its mean, 7.6 by default, was fitted on MoE
        kernels of expert-parallel ranks timed with power-law routing, docs/method.md: the tokens of popular experts
        vary more than the number of touched experts implies.

    >>> round(fullest_rank(256, 8, 0.66), 3)
    1.784
    """
    is_spread = ep > 1
    if never(is_spread) or routing_skew is None:
        return 1.0
    shape = routing_skew * number / (_LOAD_VARIANCE * ep)
    centre, width = 1.0 - 1.0 / (9.0 * shape), 1.0 / (3.0 * shape**0.5)
    first, second, third = (_largest_normal(ep, power) for power in (1, 2, 3))
    ratio = centre**3 + 3.0 * centre**2 * width * first + 3.0 * centre * width**2 * second + width**3 * third
    return where(is_spread, minimum(ratio, 1.0 * ep, "one rank receives every token"), 1.0)


def fullest_touched(distinct: Real, number: Real, ep: Real, routing_skew: Real | None) -> Real:
    r"""Experts touched on the expert-parallel rank with the most of them.

    .. math:: D' = \min\left(\frac{E}{ep},\ \frac{D}{ep} + z \sqrt{\frac{D}{ep} \left(1 - \frac{D}{E}\right)}\right)

    Args:
        distinct: experts D that the step touches on all ranks [1].
        number: experts E of a layer [1].
        ep: expert-parallel degree [1].
        routing_skew: c of the routing; None for uniform: equally many on every rank [1].

    Returns:
        Experts [1].

    Valid:
        Which experts are touched does not depend on the rank that holds them; z as in `fullest_rank`.

    Source:
        A rank's number is binomial, E/ep trials with probability D/E; the largest of ep of them as if normal (Tippett,
        Biometrika 17, 1925).

    >>> round(fullest_touched(64.0, 256, 8, 0.66), 2)
    11.49
    """
    mean, rank_experts = distinct / ep, number / ep
    if never(ep > 1) or routing_skew is None:
        return mean
    spread = (mean * maximum(1.0 - distinct / number, 0.0)) ** 0.5
    return minimum(mean + _largest_normal(ep) * spread, 1.0 * rank_experts, "every expert of a rank is touched")


# Experts in balance: copies of the popular ones, and all of them packed so that every rank gets as many tokens.

#: Means of a standard normal, of its square and of its cube over its largest 2^-i, i = 1..12.
_TOP_NORMALS = (
    (0.7979, 1.2711, 1.6468, 1.9677, 2.2522, 2.5102, 2.7478, 2.9691, 3.1770, 3.3737, 3.5606, 3.7392),
    (1.0, 1.8573, 2.8944, 4.0188, 5.1953, 6.4066, 7.6429, 8.8980, 10.1677, 11.4491, 12.7401, 14.0391),
    (1.5958, 3.1205, 5.4729, 8.5666, 12.3191, 16.6656, 21.5553, 26.9474, 32.8087, 39.1110, 45.8306, 52.9471),
)

_WHOLE_COPIES = 0.4  # excess of the heaviest copy over that of a split into any parts; drawn loads
_SHARPNESS = 6.0  # of the maximum of an even share and the heaviest copy; drawn loads
_PACKING = 0.5  # what remains of the variance of the loads with one slot a rank; drawn loads
_LEAST_TOP = 2.0  # experts of whom means over a share of the normal hold; of one it is that of the largest
_E = 2.718281828459045


def heaviest_copy(number: Real, redundant: Real, routing_skew: Real) -> Real:
    r"""Tokens of the busiest copy of an expert over those of a mean expert, once the popular ones have copies.

    .. math:: \tau = \min\left(S_1,\ \left(1 + \frac{0.4 R}{R + 1}\right) \max_m \frac{S_m}{m + R}\right),\quad
              S_m = m \left(a^3 + 3 a^2 b\, y_1 + 3 a b^2 y_2 + b^3 y_3\right),\quad
              a = 1 - \frac{1}{9 \alpha},\ b = \frac{1}{3 \sqrt{\alpha}},\ \alpha = \frac{c}{5}

    The m busiest experts have S_m tokens, which at most m + R copies share. The maximum is taken over the busiest
    expert, all E of them and E/2, E/4, ...; y_1, y_2 and y_3 are the means of the m largest of E standard normals, of
    their squares and of their cubes.

    Args:
        number: experts E of a layer [1].
        redundant: slots R beyond them, on all ranks together [1].
        routing_skew: c of the routing [1].

    Returns:
        The ratio [1].

    Valid:
        c from 0.5. With drawn loads of 64 to 256 experts the algorithm has 3 % more or less in the median, within 10 %
        in nine of ten layouts, 17 % at worst.

    Source:
        DeepSeek, EPLB (github.com/deepseek-ai/EPLB, `replicate_experts`: each slot in turn to the expert with the
        busiest copy). S_m/(m + R) is the bound for copies in any parts; that copies are whole costs 1.4 of it.

    >>> round(heaviest_copy(256, 32, 0.66), 2)
    3.87
    """
    shape = routing_skew / _LOAD_VARIANCE
    centre, width = 1.0 - 1.0 / (9.0 * shape), 1.0 / (3.0 * shape**0.5)

    def tokens(first: Real, second: Real, third: Real) -> Real:
        return centre**3 + 3.0 * centre**2 * width * first + 3.0 * centre * width**2 * second + width**3 * third

    busiest = maximum(minimum(tokens(*(_largest_normal(number, power) for power in (1, 2, 3))), 1.0 * number), 1.0)
    heaviest = maximum(busiest / (1.0 + redundant), number / (number + redundant))
    for halvings, means in enumerate(zip(*_TOP_NORMALS, strict=True), start=1):
        experts = number / 2.0**halvings
        share = minimum(experts * tokens(*means), 1.0 * number) / (experts + redundant)
        heaviest = maximum(heaviest, where(experts >= _LEAST_TOP, share, 0.0))
    return minimum(busiest, (1.0 + _WHOLE_COPIES * redundant / (redundant + 1.0)) * heaviest)


def balanced_rank(number: Real, ep: Real, routing_skew: Real | None, redundant: Real) -> Real:
    r"""Tokens of the fullest rank over the mean, with experts packed by their load; `fullest_rank` is without that.

    .. math:: \lambda' = \min\left(\lambda,\ 1 + \frac{E - s}{E - E/ep} \left(
              \left\lVert 1 + \frac{(5/c)^{3/4}}{2 s^2},\ \frac{\tau\, ep}{E} \right\rVert_6 - 1\right)\right),
              \quad s = \frac{E + R}{ep}

    No rank has fewer tokens than its busiest copy (tau, `heaviest_copy`); where that is little, packing s slots a rank
    leaves the rest. Where every rank has all experts (s = E) the load is even.

    Args:
        number: experts E of a layer [1].
        ep: expert-parallel degree [1].
        routing_skew: c of the routing; None for uniform: even load [1].
        redundant: slots R beyond them, on all ranks together [1].

    Returns:
        The ratio [1].

    Valid:
        c from 0.5. Loads are those that were counted: of prompts or answers like the last ones, and of so many tokens
        that chance does not matter.

    Source:
        DeepSeek, EPLB (github.com/deepseek-ai/EPLB, `balanced_packing`: the busiest first, each to the rank with the
        fewest tokens and a free slot). Constants on drawn loads of 32 to 256 experts over 2 to 64 ranks; the tests draw
        others.

    >>> round(balanced_rank(256, 32, 0.66, 32), 2)
    1.03
    """
    if never(ep > 1) or routing_skew is None:
        return 1.0
    slots = (number + redundant) / ep
    left = _PACKING * (_LOAD_VARIANCE / routing_skew) ** 0.75 / slots**2
    heaviest = heaviest_copy(number, redundant, routing_skew) * ep / number
    packed = norm(1.0 + left, heaviest, _SHARPNESS, "the busiest expert fills a rank")
    is_spread = ep > 1
    split = where(is_spread, ep, 2.0)
    spare = maximum((number - slots) / (number - number / split), 0.0)
    ratio = 1.0 + spare * (packed - 1.0)
    return where(is_spread, maximum(minimum(fullest_rank(number, ep, routing_skew), ratio), 1.0), 1.0)


def touched_copies(distinct: Real, ffn: MoeFfn, tokens: Real, redundant: Real, routing_skew: Real | None) -> Real:
    r"""Copies of experts that a step touches on all ranks, where some experts have several.

    .. math:: D_R = \min\left(D + R \left(1 - e^{-T k \tau/E}\right),\ T k\right)

    Args:
        distinct: experts D that the step touches [1].
        ffn: experts E, of which each token takes k.
        tokens: tokens T of the step [tokens].
        redundant: slots R beyond the experts [1].
        routing_skew: c of the routing; None for uniform: tau is 1/2, as copies halve an expert [1].

    Returns:
        Copies [1].

    Valid:
        Tokens of an expert go to its copies in turn or at random (vLLM, SGLang), which share them evenly.

    Source:
        Arithmetic: copies are of popular experts, so that a step touches nearly all of them.
    """
    heaviest = 0.5 if routing_skew is None else heaviest_copy(ffn.experts, redundant, routing_skew)
    routed = tokens * ffn.chosen
    return minimum(distinct + redundant * (1.0 - _E ** (-routed * heaviest / ffn.experts)), routed)


def _largest_normal(ep: Real, power: int = 1) -> Real:
    """Mean of a power of the largest of ep standard normals, interpolated between powers of two."""
    means = _LARGEST_NORMAL[power - 1]
    largest: Real = means[0]
    for doublings, (below, above) in enumerate(pairwise(means)):
        largest = largest + (above - below) * minimum(maximum(ep / 2.0**doublings - 1.0, 0.0), 1.0)
    return largest


def experts(
    ffn: MoeFfn,
    hidden: int,
    tokens: Real,
    pooled: Real,
    plan: Plan,
    routing_skew: Real | None,
    scheme: Scheme,
    redundant: Real | None = None,
    different: Real | None = None,
) -> Work:
    r"""Work of the routed experts of one layer on one GPU.

    .. math:: R = \max(\lambda T k / ep, D'),\quad F = 6 R H I / tp_e,\quad Q = 3 D' H I w / tp_e,\quad
              Q_s = 4 R H + 4 t H + 6 R I / tp_e,\quad d_s = H + I / tp_e,\quad n = D'

    for gated experts; without a gate 4, 2 and 4 in place of 6, 3 and 6.

    Args:
        ffn: the experts.
        hidden: width H of the experts' input, the model's or a latent's [1].
        tokens: tokens t of one data-parallel rank [tokens].
        pooled: tokens T of all data-parallel ranks [tokens].
        plan: parallel degrees; dp ranks pool their tokens, ep x tp_e ranks share the experts.
        routing_skew: c of the routing, None for uniform [1].
        scheme: how the experts are stored and multiplied.
        redundant: slots for copies of popular experts, on all ranks; None where nothing balances their load [1].
        different: tokens of `pooled` that are not copies of each other; None for all [tokens].

    Returns:
        The work [FLOP, B].

    Valid:
        The rank with the most tokens (lambda, `fullest_rank`) is the one with the most experts touched (D',
        `fullest_touched`), each of which has at least one token. In balance lambda is that of `balanced_rank`, and D'
        counts copies (`touched_copies`).

    Source:
        docs/method.md, "Experts"; permutation and activations do not overlap with the multiplication.
    """
    different = pooled if different is None else different
    distinct = distinct_experts(ffn, different, routing_skew)
    if redundant is None:
        touched = fullest_touched(distinct, ffn.experts, plan.ep, routing_skew)
        routed = pooled * ffn.chosen / plan.ep * fullest_rank(ffn.experts, plan.ep, routing_skew)
    else:
        redundant = where(plan.ep > 1, redundant, 0.0)  # one rank has no use for copies
        copies = touched_copies(distinct, ffn, different, redundant, routing_skew)
        touched = fullest_touched(copies, ffn.experts + redundant, plan.ep, routing_skew)
        routed = pooled * ffn.chosen / plan.ep * balanced_rank(ffn.experts, plan.ep, routing_skew, redundant)
    if not never(plan.ep > 1):
        routed = maximum(routed, touched, "more tokens than experts are on the fullest rank")
    width = ffn.width / plan.expert_tp
    count = len(_expert_matrices(ffn))
    bias = ACTIVATION_NBYTES * ((count - 1) * width + hidden) if ffn.expert_bias else 0.0
    return Work(
        flop=2.0 * count * routed * hidden * width,
        weight_bytes=touched * (count * hidden * width * scheme.weight_nbytes + bias),
        serial_bytes=ACTIVATION_NBYTES * (2.0 * routed * hidden + 2.0 * tokens * hidden + count * routed * width),
        serial_depth=hidden + width,
        items=touched,
    )


@Matrices
def _moe_projections(ffn: MoeFfn, hidden: Real) -> Iterator[Projection]:
    yield Projection("router", "router", ffn.experts + ffn.zero_experts, hidden, "router", ffn.router_bias)
    if ffn.shared_gate:
        yield Projection("shared gate", "router", 1, hidden, "router")
    if not absent(ffn.shared_scores):
        yield Projection("shared scores", "router", ffn.shared_scores, hidden, "router")
    width = _expert_width(ffn, hidden)
    if ffn.latent is not None:
        yield Projection("to latent", "to latent", ffn.latent, hidden, "shared")
        if ffn.latent_norms:  # vectors, side by side
            yield Projection("latent norms", "latent norms", ffn.latent_norms, ffn.latent, "norm")
    *into, down = _expert_matrices(ffn)
    for name in into:
        yield Projection(name, "experts", ffn.width, width, "experts", ffn.expert_bias, ffn.experts)
    yield Projection(down, "experts, down", width, ffn.width, "experts", ffn.expert_bias, ffn.experts)
    if ffn.latent is not None:
        yield Projection("from latent", "from latent", hidden, ffn.latent, "shared")
    if ffn.shared_width:
        yield from dense_projections(_shared_network(ffn), hidden, "shared ", "shared", "shared expert width")


def _expert_matrices(ffn: MoeFfn) -> tuple[str, ...]:
    """Matrices of one expert, the one for its output last."""
    return ("gate", "up", "down") if ffn.gated else ("up", "down")


def _expert_width(ffn: MoeFfn, hidden: Real) -> Real:
    """Width of the experts' input: the model's, or a latent's."""
    return hidden if ffn.latent is None else ffn.latent


def _shared_network(ffn: MoeFfn) -> DenseFfn:
    """The shared experts as one dense FFN."""
    return DenseFfn(ffn.shared_width, ffn.gated)


def _moe_inner_width(ffn: MoeFfn, hidden: Real, plan: Plan) -> Real:
    """Routed copies of a token and their activations, and the shared experts' width."""
    copies = ffn.chosen * plan.token_ranks / plan.ep
    inside = len(_expert_matrices(ffn)) * ffn.width / plan.expert_tp
    return copies * (2.0 * _expert_width(ffn, hidden) + inside) + ffn.shared_width / plan.tp


def _moe_add_kernels(assembly: Assembly, count: Real, ffn: MoeFfn) -> None:
    if absent(ffn.last):
        _add_experts(assembly, count, ffn)
        return
    with assembly.last_tokens(ffn.last):
        _add_experts(assembly, count, ffn)


def _add_experts(assembly: Assembly, count: Real, ffn: MoeFfn) -> None:
    plan, tokens = assembly.plan, assembly.tokens
    matrices = _moe_projections.on_rank(ffn, assembly.hidden, assembly.tp)
    with assembly.serving(ROUTER):
        assembly.multiply("router", count, matrices["router"])
    assembly.elementwise("top-k", count, kernels.top_k(tokens, ffn.experts + ffn.zero_experts))
    if ffn.latent is not None:
        assembly.multiply("to latent", count, matrices["to latent"])
    width, is_spread = _expert_width(ffn, assembly.hidden), plan.token_ranks > 1
    _add_dispatch(assembly, count, ffn, width, is_spread)
    scheme = assembly.quantization.sections["experts"]
    skew, redundant = assembly.deployment.routing_skew, assembly.deployment.spread.redundant
    work = experts(ffn, width, tokens, assembly.pooled, plan, skew, scheme, redundant, assembly.different)
    assembly.kernels.append(assembly.kernel("experts", MOE_KERNEL, scheme.key, scheme.peak, count, work))
    _add_combine(assembly, count, ffn, width, is_spread)
    if ffn.latent is not None:
        if ffn.latent_norms:
            assembly.elementwise("latent norm", ffn.latent_norms * count, kernels.latent_norm(tokens, ffn.latent))
        assembly.multiply("from latent", count, matrices["from latent"])
    if ffn.shared_width:
        with assembly.beside(SHARED_EXPERTS):
            add_dense(assembly, count, _shared_network(ffn), matrices, "shared ")
        assembly.elementwise("shared add", count, kernels.add(tokens, assembly.hidden))
    ranks = where(is_spread, plan.tp, 1)
    assembly.collective("ffn all-gather", ALL_GATHER, count, assembly.stream_bytes, ranks)
    together = where(is_spread, 1, plan.tp)
    assembly.collective("experts all-reduce", ALL_REDUCE, count, assembly.stream_bytes, together)


def _add_dispatch(assembly: Assembly, count: Real, ffn: MoeFfn, width: Real, is_spread: Real) -> None:
    """Add the exchange that sends tokens to the ranks of their experts."""
    if never(is_spread):
        return
    plan, nbytes = assembly.plan, assembly.quantization.sections["experts"].activation_nbytes
    _add_exchange(assembly, "dispatch", MOE_DISPATCH, count, ffn, width, nbytes, is_spread)
    pooled, sharing = _pooled_bytes(assembly, ffn, width), where(is_spread, plan.expert_tp, 1)
    assembly.collective("experts all-gather", ALL_GATHER, count, pooled, sharing)


def _add_combine(assembly: Assembly, count: Real, ffn: MoeFfn, width: Real, is_spread: Real) -> None:
    """Add the exchange that returns the experts' results."""
    if never(is_spread):
        return
    plan = assembly.plan
    pooled, sharing = _pooled_bytes(assembly, ffn, width), where(is_spread, plan.expert_tp, 1)
    assembly.collective("experts reduce-scatter", REDUCE_SCATTER, count, pooled, sharing)
    _add_exchange(assembly, "combine", MOE_COMBINE, count, ffn, width, ACTIVATION_NBYTES, is_spread)


def _add_exchange(
    assembly: Assembly,
    name: str,
    collective: KernelKind,
    count: Real,
    ffn: MoeFfn,
    width: Real,
    nbytes: Real,
    is_spread: Real,
) -> None:
    """Add an exchange of all tokens of a rank, of a width and bytes per value, with the ranks of their experts."""
    plan, deployment = assembly.plan, assembly.deployment
    skew, spread = deployment.routing_skew, deployment.spread
    if spread.exchange == DIRECT or never(plan.ep > 1):
        held_nbytes = assembly.tokens / plan.tp * ffn.chosen * width * nbytes
        assembly.collective(name, collective, count, held_nbytes, where(is_spread, plan.ep, 1))
        return
    from roofline.physics.exchange import add_exchange

    def load(ranks: Real) -> Real:
        if spread.redundant is None:
            return maximum(fullest_rank(ffn.experts, ranks, skew), 1.0)
        return balanced_rank(ffn.experts, ranks, skew, spread.redundant)

    add_exchange(
        assembly, name, collective, count, assembly.tokens / plan.tp * width * nbytes, ffn.chosen, plan.ep, load
    )


def _pooled_bytes(assembly: Assembly, ffn: MoeFfn, width: Real) -> Real:
    """Activations of all tokens of the ranks that share one expert [B]."""
    plan = assembly.plan
    copies = where(plan.ep > 1, ffn.chosen / plan.ep, 1.0)
    return ACTIVATION_NBYTES * assembly.pooled * width * copies


MOE = NetworkKind(_moe_projections, _moe_inner_width, _moe_add_kernels)
