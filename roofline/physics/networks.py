"""Kernels of a layer's feed-forward network: dense, or experts with the exchange that spreads them."""

from __future__ import annotations

from roofline.catalog.records import DenseFfn, Ffn, LinearFfn, MoeFfn, NoFfn
from roofline.ops import Real
from roofline.physics import collectives, elementwise
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.ffn import experts
from roofline.physics.linear import gemm

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
    assembly.matrix("router", count, router, "router")
    assembly.elementwise("top-k", count, elementwise.top_k(tokens, ffn.experts))
    if ffn.latent is not None:
        assembly.gemm("to latent", count, ffn.latent, assembly.hidden, "shared")
    width = ffn.latent or assembly.hidden
    is_spread = plan.dp > 1
    if is_spread:
        _add_dispatch(assembly, count, ffn, width)
    scheme = sections["experts"]
    work = experts(ffn, width, tokens, assembly.pooled, plan, deployment.skew, scheme)
    assembly.kernels.append(assembly.kernel("experts", "moe", scheme.key, scheme.peak, count, work))
    if is_spread:
        _add_combine(assembly, count, ffn, width)
    if ffn.latent is not None:
        assembly.gemm("from latent", count, assembly.hidden, ffn.latent, "shared")
    if ffn.shared_width:
        _add_dense(assembly, "shared ", count, DenseFfn(ffn.shared_width, ffn.gated), "shared")
        assembly.elementwise("shared add", count, elementwise.add(tokens, assembly.hidden))
    if is_spread and plan.tp > 1:
        sent = collectives.all_gather_bytes(assembly.stream_bytes, plan.tp)
        assembly.collective("ffn all-gather", "all_gather", count, sent, plan.tp)
    if not is_spread:
        assembly.all_reduce("experts all-reduce", count)


def _add_dispatch(assembly: Assembly, count: Real, ffn: MoeFfn, width: int) -> None:
    """Send tokens to the ranks that hold their experts."""
    plan = assembly.plan
    if plan.ep > 1:
        nbytes = assembly.precision.sections["experts"].activation_nbytes
        held = assembly.tokens / plan.tp * ffn.top_k * width * nbytes
        sent = collectives.all_to_all_bytes(held, plan.ep)
        assembly.collective("dispatch", "moe_dispatch", count, sent, plan.ep)
    if plan.expert_tp > 1:
        sent = collectives.all_gather_bytes(_pooled_bytes(assembly, ffn, width), plan.expert_tp)
        assembly.collective("experts all-gather", "all_gather", count, sent, plan.expert_tp)


def _add_combine(assembly: Assembly, count: Real, ffn: MoeFfn, width: int) -> None:
    """Bring the experts' results back."""
    plan = assembly.plan
    if plan.expert_tp > 1:
        sent = collectives.reduce_scatter_bytes(_pooled_bytes(assembly, ffn, width), plan.expert_tp)
        assembly.collective("experts reduce-scatter", "reduce_scatter", count, sent, plan.expert_tp)
    if plan.ep > 1:
        held = assembly.tokens / plan.tp * ffn.top_k * width * ACTIVATION_NBYTES
        sent = collectives.all_to_all_bytes(held, plan.ep)
        assembly.collective("combine", "moe_combine", count, sent, plan.ep)


def _pooled_bytes(assembly: Assembly, ffn: MoeFfn, width: int) -> Real:
    """Size of the tokens that the ranks sharing one expert hold together [B]."""
    plan = assembly.plan
    copies = ffn.top_k / plan.ep if plan.ep > 1 else 1.0
    return ACTIVATION_NBYTES * assembly.pooled * width * copies
