"""Replacements of a mixer or a network: one square matrix (Puzzle), or nothing."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real
from roofline.physics.assembly import Assembly
from roofline.physics.geometry import Span
from roofline.physics.layers.kind import MixerKind, NetworkKind
from roofline.physics.plan import Plan
from roofline.physics.projection import Matrices, Projection, Sharded
from roofline.specs.layers import Linear, LinearFfn, NoFfn, NoMixer

_NAME = "linear"


@Matrices
def _mixer_projections(mixer: Linear, hidden: Real) -> Iterator[Projection]:  # noqa: ARG001  it has no fields
    yield Projection(_NAME, _NAME, hidden, Sharded(hidden, 1, "columns"))


@Matrices
def _network_projections(ffn: LinearFfn, hidden: Real) -> Iterator[Projection]:  # noqa: ARG001  it has no fields
    yield Projection(_NAME, _NAME, hidden, Sharded(hidden, 1, "columns"), "linear")


@Matrices
def _nothing(part: NoMixer | NoFfn, hidden: Real) -> tuple[Projection, ...]:  # noqa: ARG001
    return ()


def _no_vectors(mixer: Linear | NoMixer, tp: Real) -> Real:  # noqa: ARG001
    return 0.0


def _no_cache(mixer: Linear | NoMixer, tokens: Real, kv_nbytes: Real, tp: Real) -> Real:  # noqa: ARG001
    return 0.0 * tokens


def _add_mixer(assembly: Assembly, count: Real, mixer: Linear, span: Span) -> None:  # noqa: ARG001
    _add(assembly, count, _mixer_projections, mixer)


def _add_network(assembly: Assembly, count: Real, ffn: LinearFfn) -> None:
    _add(assembly, count, _network_projections, ffn)


def _add(assembly: Assembly, count: Real, matrices: Matrices, record: Linear | LinearFfn) -> None:
    assembly.multiply(_NAME, count, matrices.on_rank(record, assembly.hidden, assembly.tp)[_NAME])
    assembly.all_reduce("linear all-reduce", count)


def _add_no_mixer(assembly: Assembly, count: Real, mixer: NoMixer, span: Span) -> None:
    """Nothing: the layer is only a feed-forward network."""


def _add_no_network(assembly: Assembly, count: Real, ffn: NoFfn) -> None:
    """Nothing: the layer is only a mixer."""


def _model_width(ffn: LinearFfn | NoFfn, hidden: Real, plan: Plan) -> Real:  # noqa: ARG001
    return 1.0 * hidden


LINEAR = MixerKind(_mixer_projections, _no_vectors, _no_cache, _add_mixer)
NO_MIXER = MixerKind(_nothing, _no_vectors, _no_cache, _add_no_mixer)
LINEAR_NETWORK = NetworkKind(_network_projections, _model_width, _add_network)
NO_NETWORK = NetworkKind(_nothing, _model_width, _add_no_network)
