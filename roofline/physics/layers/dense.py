"""Dense feed-forward network: gate (optional), up and down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roofline.ops import Real
from roofline.physics import elementwise
from roofline.physics.assembly import Assembly
from roofline.physics.layers.kind import NetworkKind
from roofline.physics.plan import Plan
from roofline.physics.projection import Matrices, Multiplication, Projection, Sharded
from roofline.specs.layers import DenseFfn


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
    activated = elementwise.activation(assembly.tokens, matrices[down].inner, ffn.gated)
    assembly.elementwise(prefix + "activation", count, activated)
    assembly.multiply(down, count, matrices[down])


def _up_name(ffn: DenseFfn, prefix: str) -> str:
    """Name of the first multiplication."""
    return prefix + ("gate, up" if ffn.gated else "up")


@Matrices
def _projections(ffn: DenseFfn, hidden: Real) -> Iterator[Projection]:
    return dense_projections(ffn, hidden)


def _inner_width(ffn: DenseFfn, hidden: Real, plan: Plan) -> Real:
    """Outputs of the first multiplication, and of the activation."""
    first, second = _projections.on_rank(ffn, hidden, plan.tp).values()
    return first.columns + second.inner


def _add_kernels(assembly: Assembly, count: Real, ffn: DenseFfn) -> None:
    add_dense(assembly, count, ffn, _projections.on_rank(ffn, assembly.hidden, assembly.tp))
    assembly.all_reduce("ffn all-reduce", count)


DENSE = NetworkKind(_projections, _inner_width, _add_kernels)
