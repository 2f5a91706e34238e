"""Kernels of a layer's feed-forward network: dense, or experts with the exchange that spreads them."""

from __future__ import annotations

from roofline.ops import Real, where
from roofline.physics import elementwise
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.ffn import experts
from roofline.physics.linear import gemm
from roofline.specs.kernels import ALL_GATHER, ALL_REDUCE, MOE, MOE_COMBINE, MOE_DISPATCH, REDUCE_SCATTER, ROUTER
from roofline.specs.layers import DenseFfn, Ffn, LinearFfn, MoeFfn, NoFfn

__all__ = ["add_network"]


def add_network(assembly: Assembly, count: Real, ffn: Ffn) -> None:
    """Add the kernels of one feed-forward network and its all-reduce or exchange.

    Args:
        assembly: the pass so far.
        count: layers that have it [1].
        ffn: the network.
    """
    match ffn:
        case DenseFfn():
            _add_dense(assembly, "", count, ffn, "linear")
            assembly.all_reduce("ffn all-reduce", count)
        case MoeFfn():
            _add_experts(assembly, count, ffn)
        case LinearFfn():
            assembly.gemm("linear", count, assembly.hidden, assembly.hidden / assembly.tp, "linear")
            assembly.all_reduce("linear all-reduce", count)
        case NoFfn():
            return


def _add_dense(assembly: Assembly, name: str, count: Real, ffn: DenseFfn, section: str) -> None:
    hidden, width = assembly.hidden, ffn.width / assembly.tp
    halves = 2 if ffn.gated else 1
    assembly.gemm(name + ("gate, up" if ffn.gated else "up"), count, halves * width, hidden, section, ffn.bias)
    assembly.elementwise(name + "activation", count, elementwise.activation(assembly.tokens, width, ffn.gated))
    assembly.gemm(name + "down", count, hidden, width, section, ffn.bias)


def _add_experts(assembly: Assembly, count: Real, ffn: MoeFfn) -> None:
    deployment, plan, tokens = assembly.deployment, assembly.plan, assembly.tokens
    sections = assembly.precision.sections
    scores = ffn.experts + (1 if ffn.shared_gate else 0)
    router = gemm(tokens, scores, assembly.hidden, sections["router"], ffn.router_bias)
    with assembly.serving(ROUTER):
        assembly.matrix("router", count, router, "router")
    assembly.elementwise("top-k", count, elementwise.top_k(tokens, ffn.experts))
    if ffn.latent is not None:
        assembly.gemm("to latent", count, ffn.latent, assembly.hidden, "shared")
    width = assembly.hidden if ffn.latent is None else ffn.latent
    is_spread = plan.dp > 1
    _add_dispatch(assembly, count, ffn, width, is_spread)
    scheme = sections["experts"]
    work = experts(ffn, width, tokens, assembly.pooled, plan, deployment.skew, scheme)
    assembly.kernels.append(assembly.kernel("experts", MOE, scheme.key, scheme.peak, count, work))
    _add_combine(assembly, count, ffn, width, is_spread)
    if ffn.latent is not None:
        assembly.gemm("from latent", count, assembly.hidden, ffn.latent, "shared")
    if ffn.shared_width:
        _add_dense(assembly, "shared ", count, DenseFfn(ffn.shared_width, ffn.gated), "shared")
        assembly.elementwise("shared add", count, elementwise.add(tokens, assembly.hidden))
    ranks = where(is_spread, plan.tp, 1)
    assembly.collective("ffn all-gather", ALL_GATHER, count, assembly.stream_bytes, ranks)
    together = where(is_spread, 1, plan.tp)
    assembly.collective("experts all-reduce", ALL_REDUCE, count, assembly.stream_bytes, together)


def _add_dispatch(assembly: Assembly, count: Real, ffn: MoeFfn, width: Real, is_spread: Real) -> None:
    """Send tokens to the ranks that hold their experts."""
    if is_spread is False:
        return
    plan, nbytes = assembly.plan, assembly.precision.sections["experts"].activation_nbytes
    held = assembly.tokens / plan.tp * ffn.top_k * width * nbytes
    assembly.collective("dispatch", MOE_DISPATCH, count, held, where(is_spread, plan.ep, 1))
    pooled, sharing = _pooled_bytes(assembly, ffn, width), where(is_spread, plan.expert_tp, 1)
    assembly.collective("experts all-gather", ALL_GATHER, count, pooled, sharing)


def _add_combine(assembly: Assembly, count: Real, ffn: MoeFfn, width: Real, is_spread: Real) -> None:
    """Bring the experts' results back."""
    if is_spread is False:
        return
    plan = assembly.plan
    pooled, sharing = _pooled_bytes(assembly, ffn, width), where(is_spread, plan.expert_tp, 1)
    assembly.collective("experts reduce-scatter", REDUCE_SCATTER, count, pooled, sharing)
    held = assembly.tokens / plan.tp * ffn.top_k * width * ACTIVATION_NBYTES
    assembly.collective("combine", MOE_COMBINE, count, held, where(is_spread, plan.ep, 1))


def _pooled_bytes(assembly: Assembly, ffn: MoeFfn, width: Real) -> Real:
    """Size of the tokens that the ranks sharing one expert hold together [B]."""
    plan = assembly.plan
    copies = where(plan.ep > 1, ffn.top_k / plan.ep, 1.0)
    return ACTIVATION_NBYTES * assembly.pooled * width * copies
