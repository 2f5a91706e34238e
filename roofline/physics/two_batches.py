"""A step as two half batches, one of which computes while the other exchanges tokens with the experts."""

from __future__ import annotations

from roofline.numbers.operations import Real, above, maximum, where
from roofline.physics.assembly import Assembly
from roofline.physics.equation import Kernel, Terms
from roofline.physics.kernels import Span
from roofline.physics.layers.kinds import MIXER_KINDS, NETWORK_KINDS
from roofline.specs.gpu import MOE, MOE_COMBINE, MOE_DISPATCH
from roofline.specs.model import MoeFfn
from roofline.support.records import NamedTuple

_SPLITS = "a step is divided into two batches"
_HIDES = "the other half computes for as long as the exchange takes"
_HALVES = 2
#: Share of the multiprocessors that exchange the tokens of prompts: 24 of the 132 of an H100 (DeepEP's normal kernels,
#: `Buffer.set_num_sms(24)` of its README; vLLM's dual batch overlap leaves them 20). Those of decode steps take none.
_TAKEN = 24.0 / 132.0


class Exposed(NamedTuple):
    """Parts of the exchanges of both halves that no computation hides."""

    dispatching: Real  # [s]
    combining: Real  # [s]


def exposed(attention: Real, experts: Real, dispatch: Real, combine: Real, taken: Real = 0.0) -> Exposed:
    r"""Exchange that remains where each half computes while the other exchanges.

    .. math:: t = u(a, d) + u(m, d) + u(m, c) + u(a, c) = 2 a + 2 m + x_d + x_c,\quad
              u(a, d) = \max(a + \sigma d,\ d),\\
              x_d = \max(d - a, \sigma d) + \max(d - m, \sigma d),\quad
              x_c = \max(c - m, \sigma c) + \max(c - a, \sigma c)

    Half B computes its attention while A dispatches; A's experts run while B dispatches, and B's while A combines; A's
    next attention runs while B combines.

    Args:
        attention: time a of one half in all MoE layers, but for experts and exchange [s].
        experts: time m of the routed experts, likewise [s].
        dispatch: time d of the exchange that sends tokens to experts [s].
        combine: time c of the exchange that returns results [s].
        taken: share sigma of the multiprocessors that an exchange takes from the computation beside it [1].

    Returns:
        What remains of both exchanges, for both halves [s].

    Valid:
        Never more than the exchanges take, never less than they exceed all computation by. Both share the bandwidth of
        the memory without loss; a step begins and ends like any layer.

    Source:
        The order of operations of SGLang (`operations_strategy.py`, DeepSeek layers, prefill) and of vLLM's dual batch
        overlap; DeepSeek, "Profiling Data in DeepSeek Infra" (github.com/deepseek-ai/profile-data).

    >>> exposed(3.0, 2.0, 4.0, 1.0)
    Exposed(dispatching=3.0, combining=0.0)
    """
    kept, held = taken * dispatch, taken * combine
    over = maximum(dispatch - attention, kept, _HIDES) + maximum(dispatch - experts, kept, _HIDES)
    after = maximum(combine - experts, held, _HIDES) + maximum(combine - attention, held, _HIDES)
    return Exposed(over, after)


def add_layers(assembly: Assembly, span: Span) -> None:
    """Add all layers, twice at half the batch; of the exchanges what remains. One sequence is not divided to decode."""
    model, first = assembly.model, len(assembly.kernels)
    whole, different = (assembly.sequences, assembly.tokens, assembly.pooled), assembly.different
    splits = above(assembly.sequences if span.is_decode else assembly.tokens, 1.0, _SPLITS)
    halves = where(splits, _HALVES, 1)
    assembly.sequences, assembly.tokens, assembly.pooled = (number / halves for number in whole)
    assembly.different = None if different is None else different / halves
    for count, mixer in model.mixers:
        MIXER_KINDS[type(mixer)].add_kernels(assembly, count, mixer, span)
    mixed, layers = _time(assembly.kernels[first:]), 0
    beside: Real = 0.0
    times: dict[str, Real] = dict.fromkeys((MOE.name, MOE_DISPATCH.name, MOE_COMBINE.name), 0.0)
    for count, ffn in model.ffns:
        start = len(assembly.kernels)
        NETWORK_KINDS[type(ffn)].add_kernels(assembly, count, ffn)
        if isinstance(ffn, MoeFfn):
            layers += count
            for kernel in assembly.kernels[start:]:
                if kernel.kind.name in times:
                    times[kernel.kind.name] = times[kernel.kind.name] + kernel.time
                else:
                    beside = beside + kernel.time
    assembly.sequences, assembly.tokens, assembly.pooled = whole
    assembly.different = different
    attention = mixed * layers / model.layers + beside
    experts, dispatch, combine = times.values()
    taken = 0.0 if span.is_decode or assembly.deployment.basis == "ideal" else _TAKEN
    left = exposed(attention, experts, dispatch, combine, taken)
    shares = {
        kind.name: where(splits, rest / _HALVES / where(time > 0.0, time, 1.0), 1.0)
        for kind, time, rest in ((MOE_DISPATCH, dispatch, left.dispatching), (MOE_COMBINE, combine, left.combining))
    }
    assembly.kernels[first:] = [_repeated(kernel, halves, shares) for kernel in assembly.kernels[first:]]


def _repeated(kernel: Kernel, halves: Real, shares: dict[str, Real]) -> Kernel:
    """A kernel of both halves; of an exchange the part of its time that nothing hides."""
    share = shares.get(kernel.kind.name)
    terms = kernel.terms if share is None else Terms(*(share * term for term in kernel.terms))
    return kernel._replace(count=halves * kernel.count, terms=terms)


def _time(kernels: list[Kernel]) -> Real:
    total: Real = 0.0
    for kernel in kernels:
        total = total + kernel.time
    return total
