"""Which kinds of kernel a mixer has besides multiplications with weights, element-wise passes and collectives."""

from __future__ import annotations

from collections.abc import Iterable

from roofline.specs.kernels import (
    ATTENTION_DECODE,
    ATTENTION_PREFILL,
    INDEXER,
    KINDS,
    MLA_DECODE,
    MLA_PREFILL,
    STATE_DECODE,
    STATE_PREFILL,
    KernelKind,
)
from roofline.specs.layers import Csa, Gqa, Linear, Mixer, Mla, NoMixer

__all__ = ["mixer_kinds"]


def mixer_kinds(mixers: Iterable[Mixer]) -> tuple[KernelKind, ...]:
    """Kinds of kernel with which some mixers read what each sequence keeps.

    Args:
        mixers: of a model, or of several.

    Returns:
        Each kind once, in the order of `KINDS`.
    """
    found = {kind for mixer in mixers for kind in _kinds(mixer)}
    return tuple(kind for kind in KINDS.values() if kind in found)


def _kinds(mixer: Mixer) -> tuple[KernelKind, ...]:
    match mixer:
        case Gqa():
            own: tuple[KernelKind, ...] = (ATTENTION_PREFILL, ATTENTION_DECODE)
        case Mla():
            own = (MLA_PREFILL, MLA_DECODE)
        case Csa():
            own = (ATTENTION_PREFILL, MLA_DECODE)
        case Linear() | NoMixer():
            own = ()
        case _:
            own = (STATE_PREFILL, STATE_DECODE)
    return own if getattr(mixer, "indexer", None) is None else (*own, INDEXER)
