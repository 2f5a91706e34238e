"""LoRA adapters beside the matrices of a model: their bytes on one GPU, and the gathered multiplications of a pass.

An adapter of rank r adds B A x to a matrix's W x: A shrinks x to r values, B expands these. One batch has requests of
several adapters; two kernels for each multiplication of a layer gather those of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

from roofline.numbers.operations import Real, maximum, minimum
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly, Projection, local
from roofline.physics.equation import Work
from roofline.physics.layers.kinds import MIXER_KINDS, NETWORK_KINDS
from roofline.physics.plan import ALL_LINEAR, OF_ATTENTION, Adapters, Plan
from roofline.specs.gpu import ADAPTERS, GEMM
from roofline.specs.model import Ffn, Mixer, Model, MoeFfn, Stage
from roofline.support.records import NamedTuple

_NBYTES = 2.0  # adapters are 16-bit, whatever the format of the weights
_SHRUNK_NBYTES = 4.0  # what A makes of a token is kept in fp32
#: Sections of the matrices that have adapters; routers and norms have none.
_SECTIONS = ("attention", "linear", "shared")
_ROUTER = "router"
_LEAST = 2.0**-20  # adapters that a batch of no requests is divided by


class Adapted(NamedTuple):
    """Matrices with the same input whose adapters two kernels compute."""

    name: str
    inner: Real  # [1] values of the input on this GPU
    columns: Real  # [1] outputs of all matrices on this GPU
    matrices: int


def distinct_adapters(loaded: int, sequences: Real) -> Real:
    r"""Adapters that some request of a batch asks for.

    .. math:: D = N \left(1 - \left(1 - \frac{1}{N}\right)^b\right)

    Args:
        loaded: adapters N [1].
        sequences: requests b of the batch [sequences].

    Returns:
        Mean number of different ones [1].

    Valid:
        Each request asks for any of them with equal probability, whatever the others ask for. Popular adapters are
        touched together more often, so that fewer are read.

    Source:
        Arithmetic: an adapter is not asked for by b requests with probability (1 - 1/N)^b.

    >>> distinct_adapters(8, 1.0)
    1.0
    >>> distinct_adapters(2, 2.0)
    1.5
    """
    if loaded == 1:
        return 1.0
    return loaded * (1.0 - (1.0 - 1.0 / loaded) ** sequences)


def shrink(tokens: Real, inner: Real, matrices: int, rank: Real, touched: Real) -> Work:
    r"""Work of the first kernel: each token times the A of its adapter.

    .. math:: F = 2 T r m k,\quad Q = 2 D r m k + 2 T k + 4 T r m,\quad d = k

    Args:
        tokens: tokens T of the pass on this rank [tokens].
        inner: values k of a token on this GPU [1].
        matrices: matrices m with this input, each of which has an A of its own [1].
        rank: rank r that the kernel computes, that of the slots [1].
        touched: different adapters D of the batch [1].

    Returns:
        The work [FLOP, B].

    Valid:
        Adapters in 16 bits; the tokens of one adapter follow each other, so that each A is read once.

    Source:
        Chen et al., Punica, arXiv:2310.18547, section 4; `lora_shrink` of vLLM, whose result is fp32.

    >>> shrink(1.0, 4096.0, 3, 16, 1.0).weight_bytes
    393216.0
    """
    return Work(
        flop=2.0 * tokens * rank * matrices * inner,
        weight_bytes=_NBYTES * touched * rank * matrices * inner,
        activation_bytes=ACTIVATION_NBYTES * tokens * inner + _SHRUNK_NBYTES * tokens * rank * matrices,
        depth=inner,
    )


def expand(tokens: Real, columns: Real, matrices: int, rank: Real, touched: Real) -> Work:
    r"""Work of the second kernel: what the first left times B, added to the output of the matrices.

    .. math:: F = 2 T r n,\quad Q = 2 D r n + 4 T r m + 4 T n,\quad d = r

    Args:
        tokens: tokens T of the pass on this rank [tokens].
        columns: outputs n of all matrices on this GPU [1].
        matrices: matrices m with the same input [1].
        rank: rank r that the kernel computes, that of the slots [1].
        touched: different adapters D of the batch [1].

    Returns:
        The work [FLOP, B]; outputs are read and written.

    Source:
        Chen et al., Punica, arXiv:2310.18547, section 4; `lora_expand` of vLLM.

    >>> expand(1.0, 6144.0, 3, 16, 1.0).flop
    196608.0
    """
    return Work(
        flop=2.0 * tokens * rank * columns,
        weight_bytes=_NBYTES * touched * rank * columns,
        activation_bytes=_SHRUNK_NBYTES * tokens * rank * matrices + 2.0 * ACTIVATION_NBYTES * tokens * columns,
        depth=1.0 * rank,
    )


def adapter_bytes(model: Model, plan: Plan, adapters: Adapters) -> Real:
    r"""Memory that is set aside for adapters on one GPU of the fullest pipeline stage.

    .. math:: Q = 2 s r \sum (k + n)

    over the matrices with adapters, of k inputs and n outputs on this GPU: the side that tensor parallelism divides is
    divided in A or B as in the matrix, the other side is on every rank.

    Args:
        model: the model.
        plan: parallel degrees.
        adapters: slots s, the rank r of each, and which matrices have them.

    Returns:
        Bytes [B].

    Valid:
        No `fully_sharded_loras`; none on embeddings and LM head.

    Source:
        vLLM, lora/layers: `create_lora_weights` allocates all slots at the largest rank when the model is loaded;
        column-parallel layers keep a whole A, row-parallel layers a whole B.
    """
    values = (sum(count * each for count, each in _stage_values(stage, model, plan, adapters))
              for stage in model.stages(plan.pp))  # fmt: skip
    return _NBYTES * adapters.slots * adapters.slot_rank * reduce(maximum, values)


def _stage_values(stage: Stage, model: Model, plan: Plan, adapters: Adapters) -> Iterator[tuple[Real, Real]]:
    """Layers of each kind, and the values per rank of their adapters: inputs and outputs of all matrices."""
    for count, mixer in stage.mixers:
        yield count, _values(_of_mixer(mixer, model.hidden, plan.tp))
    for count, ffn in stage.ffns:
        yield count, _values(_of_network(ffn, model.hidden, plan.tp, adapters))
        if isinstance(ffn, MoeFfn) and _has_expert_adapters(ffn, adapters):
            yield count, ffn.experts / plan.ep * _values(expert_matrices(ffn, model.hidden, plan))


def _values(adapted: Iterable[Adapted]) -> Real:
    return sum(each.matrices * each.inner + each.columns for each in adapted)


def _of_mixer(mixer: Mixer, hidden: Real, tp: Real) -> tuple[Adapted, ...]:
    return _fused(MIXER_KINDS[type(mixer)].matrices.whole(mixer, hidden), tp)


def _of_network(ffn: Ffn, hidden: Real, tp: Real, adapters: Adapters) -> tuple[Adapted, ...]:
    if adapters.targets == OF_ATTENTION:
        return ()
    return _fused(NETWORK_KINDS[type(ffn)].matrices.whole(ffn, hidden), tp)


def _fused(matrices: Iterable[Projection], tp: Real) -> tuple[Adapted, ...]:
    """Matrices by the multiplication that they are part of, on one rank."""
    fused: dict[str, Adapted] = {}
    for matrix in matrices:
        if matrix.section not in _SECTIONS or matrix.kernel == _ROUTER:
            continue
        known = fused.get(matrix.kernel, Adapted(matrix.kernel, local(matrix.inner, tp), 0.0, 0))
        columns = known.columns + local(matrix.columns, tp)
        fused[matrix.kernel] = known._replace(columns=columns, matrices=known.matrices + 1)
    return tuple(fused.values())


def _has_expert_adapters(ffn: Ffn, adapters: Adapters) -> bool:
    return isinstance(ffn, MoeFfn) and adapters.targets == ALL_LINEAR


def expert_matrices(ffn: Ffn, hidden: Real, plan: Plan) -> tuple[Adapted, ...]:
    """The matrices of one routed expert on one of the ranks that share it."""
    assert isinstance(ffn, MoeFfn)  # noqa: S101  # as who calls has seen
    width, into = ffn.width / plan.expert_tp, 2 if ffn.gated else 1
    outer = hidden if ffn.latent is None else ffn.latent
    return Adapted("experts", outer, into * width, into), Adapted("experts, down", width, outer, 1)


def add_adapters(assembly: Assembly, adapters: Adapters) -> None:
    """Add both kernels of every multiplication whose matrices have adapters."""
    model, plan, rank = assembly.model, assembly.plan, adapters.slot_rank
    touched = distinct_adapters(adapters.number, assembly.sequences)
    with assembly.serving(ADAPTERS):
        for count, mixer in model.mixers:
            if not MIXER_KINDS[type(mixer)].is_idle:
                _add(assembly, count, _of_mixer(mixer, model.hidden, plan.tp), rank, touched)
        for count, ffn in model.ffns:
            _add(assembly, count, _of_network(ffn, model.hidden, plan.tp, adapters), rank, touched)
            if _has_expert_adapters(ffn, adapters):
                _add_of_experts(assembly, count, ffn, adapters)


def _add(assembly: Assembly, count: Real, adapted: Iterable[Adapted], rank: Real, touched: Real) -> None:
    for each in adapted:
        _add_pair(assembly, count, each, assembly.tokens, rank, touched)


def _add_pair(assembly: Assembly, count: Real, each: Adapted, tokens: Real, rank: Real, touched: Real) -> None:
    first = shrink(tokens, each.inner, each.matrices, rank, touched)
    second = expand(tokens, each.columns, each.matrices, rank, touched)
    assembly.sixteen_bit(f"lora shrink, {each.name}", count, GEMM, first)
    assembly.sixteen_bit(f"lora expand, {each.name}", count, GEMM, second)


def _add_of_experts(assembly: Assembly, count: Real, ffn: Ffn, adapters: Adapters) -> None:
    """Add those of routed experts, of which each adapter of the batch touches its own."""
    from roofline.physics.layers.networks import distinct_experts, fullest_rank, fullest_touched

    assert isinstance(ffn, MoeFfn)  # noqa: S101  # as who calls has seen
    plan, skew, tokens = assembly.plan, assembly.deployment.routing_skew, assembly.pooled
    asked = maximum(distinct_adapters(adapters.number, assembly.batch), _LEAST)
    different = tokens if assembly.different is None else assembly.different
    experts = fullest_touched(distinct_experts(ffn, different / asked, skew), ffn.experts, plan.ep, skew)
    routed = tokens * ffn.chosen / plan.ep * fullest_rank(ffn.experts, plan.ep, skew)
    pairs = minimum(asked * experts, routed, "every routed token has an expert and an adapter of its own")
    for each in expert_matrices(ffn, assembly.hidden, plan):
        _add_pair(assembly, count, each, routed, adapters.slot_rank, pairs)
