"""Kinds of kernels: their names, the terms of the equation that each has, and facts that hold for all of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from roofline.records import dataclass


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # one object per kind, hashed by identity
class KernelKind:
    """All kernels that share a form of the equation and, at one dtype, its constants."""

    name: str  # in calibrations, engine profiles, tables of kernels and rows
    label: str  # for people, without an article
    terms: tuple[str, ...] = ()  # constants that are fitted
    order: float = inf  # p of the norm; collectives and the host take the maximum
    depth: str = ""  # serial length of a tile: d (inside the norm) or d_s (outside)
    columns: tuple[str, ...] = ()  # of its shape in tables of timed kernels; empty if never timed
    stand_in: KernelKind | None = None  # kind whose constants it takes if never timed
    group: str = ""  # label of the coarser part of a pass that it belongs to
    bears_weights: bool = False  # most traffic is weights: turns compute-bound as the batch grows
    is_attention: bool = False  # reads a KV cache
    is_per_sequence: bool = False  # reads per-sequence data: batching does not help
    is_novel: bool = False  # its module launches more small kernels than are counted
    is_minor: bool = False  # too short to warn about assumed constants
    is_collective: bool = False
    is_exchange: bool = False  # an all-to-all collective
    is_in_passes: bool = True  # False: timed only to inform other kinds
    goes_by_part: bool = False  # named after the part of the model that it serves, if any

    def __repr__(self) -> str:
        """The constant's name."""
        return self.name.upper()

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        """The constant, so that copies and other processes keep one object per kind."""
        return self.name.upper()


_HEADS = ("batch", "seq", "heads", "kv_heads", "head_dim")
_LATENT = ("batch", "seq", "heads")
_ATTENTION = "attention"


def _collective(name: str, label: str, *more: str, **facts: Any) -> KernelKind:
    terms, columns = ("a0", "a1", "q", "eta", *more), ("ranks", "nbytes")
    return KernelKind(name, label, terms, columns=columns, group="collectives", is_collective=True, **facts)


def _untimed(name: str, label: str, depth: str, like: KernelKind, group: str = "") -> KernelKind:
    return KernelKind(
        name, label, like.terms, like.order, depth, stand_in=like, group=group, is_per_sequence=True, is_novel=True
    )


GEMM = KernelKind(
    "gemm", "linear layers", ("t0", "eta_c", "eta_m", "kappa", "eta_s"), 3.0, "K", ("m", "n", "k"),
    bears_weights=True, goes_by_part=True,
)  # fmt: skip
ATTENTION_PREFILL = KernelKind(
    "attention_prefill", _ATTENTION, ("t0", "eta_c", "eta_x", "eta_m", "kappa_s"), 1.0,
    "length, at most the window, x head width / 128", _HEADS, is_attention=True, is_per_sequence=True,
)  # fmt: skip
ATTENTION_DECODE = KernelKind(
    "attention_decode", _ATTENTION, ("t0", "eta_m", "kappa_s"), 3.0, "KV length", _HEADS,
    is_attention=True, is_per_sequence=True,
)  # fmt: skip
MLA_PREFILL = KernelKind(
    "mla_prefill", _ATTENTION, ("t0", "eta_c", "eta_m", "kappa_s"), 1.0, "length", _LATENT,
    is_attention=True, is_per_sequence=True, is_novel=True,
)  # fmt: skip
MLA_DECODE = KernelKind(
    "mla_decode", _ATTENTION, ("t0", "eta_c", "eta_m", "kappa_s"), 3.0, "KV length", _LATENT,
    is_attention=True, is_per_sequence=True, is_novel=True,
)  # fmt: skip
MOE = KernelKind(
    "moe", "experts", ("t0", "t0_ep", "eta_c", "eta_m", "eta_s", "kappa_s", "eps"), 3.0, "H + I/t_e",
    ("tokens", "hidden", "width", "top_k", "experts", "tp", "ep"), bears_weights=True,
)  # fmt: skip
ELEMENTWISE = KernelKind("elementwise", "element-wise passes", ("t0", "eta_m"), 3.0, columns=("nbytes",), is_minor=True)
ALL_REDUCE = _collective("all_reduce", "all-reduces", "eta_switch")
ALL_GATHER = _collective("all_gather", "gathers")
REDUCE_SCATTER = _collective("reduce_scatter", "reduce-scatters")
ALL_TO_ALL = _collective("all_to_all", "expert exchange", is_exchange=True, is_in_passes=False)
MOE_DISPATCH = _collective("moe_dispatch", "expert exchange", is_exchange=True)
MOE_COMBINE = _collective("moe_combine", "expert exchange", is_exchange=True)
P2P = _collective("p2p", "stage hand-overs", is_minor=True)
#: Stand-ins: a chunked scan has attention's shape, streaming a state is element-wise, index scores are a GEMM.
STATE_PREFILL = _untimed("state_prefill", "recurrence", "length", ATTENTION_PREFILL)
STATE_DECODE = _untimed("state_decode", "recurrence", "1", ELEMENTWISE)
INDEXER = _untimed("indexer", "index scores", "index width", GEMM, group=_ATTENTION)
HOST = KernelKind("host", "host", goes_by_part=True)

#: All kinds by name.
KINDS: Mapping[str, KernelKind] = {
    kind.name: kind
    for kind in (
        GEMM, ATTENTION_PREFILL, ATTENTION_DECODE, MLA_PREFILL, MLA_DECODE, MOE, ELEMENTWISE,
        ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, MOE_DISPATCH, MOE_COMBINE, P2P,
        STATE_PREFILL, STATE_DECODE, INDEXER, HOST,
    )
}  # fmt: skip
#: Kinds that can be timed: by the one equation, and over a link.
CALIBRATED = tuple(kind for kind in KINDS.values() if kind.columns and not kind.is_collective)
COLLECTIVES = tuple(kind for kind in KINDS.values() if kind.is_collective)

#: Parts of a model that kernels name.
HEAD, ROUTER, NETWORK, LOADING = "head", "router", "network", "prefix loading"


def the(label: str) -> str:
    """The label with its article, for use within a sentence.

    >>> the(MOE.label), the(MLA_DECODE.label)
    ('the experts', 'attention')
    """
    return label if label == _ATTENTION else f"the {label}"
