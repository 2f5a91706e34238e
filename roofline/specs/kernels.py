"""Kinds of kernel: what each is called, which terms of the one equation it has, and what else holds for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from roofline.records import dataclass

__all__ = [
    "ALL_GATHER",
    "ALL_REDUCE",
    "ALL_TO_ALL",
    "ATTENTION_DECODE",
    "ATTENTION_PREFILL",
    "CALIBRATED",
    "COLLECTIVES",
    "ELEMENTWISE",
    "GEMM",
    "HEAD",
    "HOST",
    "INDEXER",
    "KINDS",
    "LOADING",
    "MLA_DECODE",
    "MLA_PREFILL",
    "MOE",
    "MOE_COMBINE",
    "MOE_DISPATCH",
    "NETWORK",
    "P2P",
    "REDUCE_SCATTER",
    "ROUTER",
    "STATE_DECODE",
    "STATE_PREFILL",
    "KernelKind",
    "the",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # one object a kind, hashed by its identity
class KernelKind:
    """All kernels that share a form of the equation and, at one dtype, its constants."""

    name: str  # in calibrations, engine profiles, tables of kernels and rows
    label: str  # for people, without an article
    terms: tuple[str, ...] = ()  # constants that are fitted
    order: float = inf  # p of the norm; of collectives and the host, which have none, that of the larger of two
    depth: str = ""  # the length d (inside the norm) or d_s (outside) that a tile walks alone
    columns: tuple[str, ...] = ()  # of its shape in tables of timed kernels; none where it was never timed
    stand_in: KernelKind | None = None  # whose constants it takes where it was never timed
    group: str = ""  # label of a coarser part of a pass that it belongs to, where there is one
    bears_weights: bool = False  # most of its traffic is weights: it turns compute-bound as the batch grows
    is_attention: bool = False  # queries meet the keys of a KV cache
    is_per_sequence: bool = False  # reads what each sequence keeps for itself: it does not gain from company
    is_novel: bool = False  # of modules that hold more small kernels than are counted
    is_minor: bool = False  # too short for a warning where its constants are assumed
    is_collective: bool = False
    is_exchange: bool = False  # a collective in which every rank sends to every other
    is_in_passes: bool = True  # else it was timed for what it says of others
    goes_by_part: bool = False  # called by the part of the model that it serves, where it names one

    def __repr__(self) -> str:
        """The constant."""
        return self.name.upper()

    def __str__(self) -> str:
        """The name."""
        return self.name

    def __reduce__(self) -> str:
        """The constant, for copies and other processes: there is one object a kind."""
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
#: A chunked scan has attention's shape, streaming a state is an element-wise pass, index scores are a multiplication.
STATE_PREFILL = _untimed("state_prefill", "recurrence", "length", ATTENTION_PREFILL)
STATE_DECODE = _untimed("state_decode", "recurrence", "1", ELEMENTWISE)
INDEXER = _untimed("indexer", "index scores", "index width", GEMM, group=_ATTENTION)
HOST = KernelKind("host", "host", goes_by_part=True)

#: All kinds by their name.
KINDS: Mapping[str, KernelKind] = {
    kind.name: kind
    for kind in (
        GEMM, ATTENTION_PREFILL, ATTENTION_DECODE, MLA_PREFILL, MLA_DECODE, MOE, ELEMENTWISE,
        ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, MOE_DISPATCH, MOE_COMBINE, P2P,
        STATE_PREFILL, STATE_DECODE, INDEXER, HOST,
    )
}  # fmt: skip
#: Those that can be timed: with constants of the one equation, and of a link.
CALIBRATED = tuple(kind for kind in KINDS.values() if kind.columns and not kind.is_collective)
COLLECTIVES = tuple(kind for kind in KINDS.values() if kind.is_collective)

#: Parts of a model that a kernel may name.
HEAD, ROUTER, NETWORK, LOADING = "head", "router", "network", "prefix loading"


def the(label: str) -> str:
    """A part of a pass within a sentence.

    Args:
        label: of a kind of kernel, or a part of a model [text].

    Returns:
        The label with its article [text].

    >>> the(MOE.label), the(MLA_DECODE.label)
    ('the experts', 'attention')
    """
    return label if label == _ATTENTION else f"the {label}"
