"""An accelerator (rates, memory, links, price), its kinds of kernels, and their measured efficiencies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Any

from roofline.numbers.operations import Real, span_text
from roofline.specs.names import Bytes, BytesPerSecond, Seconds, Share, Watts, fold
from roofline.support.records import NamedTuple, dataclass, replace

# An accelerator: rates, memory, links and price. In traced formulas, symbols take the place of the floats.

#: Kind of link between cards that communicate through the host.
PCIE = "pcie"
#: Kind of link of a machine that has none to another of its kind.
NO_LINK = "none"


@dataclass(frozen=True, slots=True)
class Link:
    """Scale-up fabric of a group of GPUs."""

    kind: str
    bandwidth: BytesPerSecond  # per direction and GPU
    domain: int  # GPUs that reach each other at this rate
    in_switch_reduction: bool = False
    peer_bandwidth: BytesPerSecond | None = None  # to one peer in a mesh


#: Statuses of GPUs that nobody can buy or rent yet.
ANNOUNCED = ("announced", "pre-release")
#: What a specification without `scale_up` means; nothing is sent at its rate.
UNLINKED = Link(NO_LINK, 1.0, 1)


class Price(NamedTuple):
    """Rental price per GPU."""

    low: float  # [USD/s]
    typical: float  # [USD/s]
    high: float  # [USD/s]
    source: str = ""  # "given", or the catalog with its date


class Electricity(NamedTuple):
    """What the energy of a GPU costs."""

    pue: float = 1.0  # energy of the data centre over that of its boards
    usd_per_kwh: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Gpu:
    """One accelerator as one rank sees it.

    >>> import roofline as rl
    >>> gpu = rl.load_gpu("h100")
    >>> gpu
    <Gpu h100-sxm: 989 TFLOP/s bf16, 3.35 TB/s, 85.5 GB>
    >>> round(gpu.peaks["bf16"] / gpu.bandwidth)  # FLOP per byte at the ridge
    295
    """

    name: str
    aliases: tuple[str, ...]
    vendor: str
    generation: str
    peaks: Mapping[str, float]  # dtype -> dense peak [FLOP/s]
    bandwidth: BytesPerSecond  # of the HBM
    memory: Bytes  # usable HBM
    memory_label: Bytes  # as sold
    link: Link = UNLINKED
    exp_rate: float | None = None  # [exp/s] special-function units
    scale_out: BytesPerSecond | None = None  # network per GPU and direction
    host_link: BytesPerSecond | None = None  # to the host, per direction
    host_domain: int | None = None  # GPUs that reach each other over it, if bridges join fewer
    power: Watts | None = None
    power_cap: Share | None = None  # of its power, to which it is limited; None: not limited below it
    electricity: Electricity | None = None
    cache: Bytes | None = None  # of the last level
    is_unified: bool = False  # whether the CPU shares the memory and its bandwidth
    price: Price | None = None
    sustained: float = 1.0  # share of its peaks under load, relative to the GPU of its calibration
    passes: tuple[float, float] | None = None  # factors on prefill passes and decode steps, where servers told them
    other_nodes: tuple[str, ...] = ()  # this GPU in nodes with another scale-up link
    status: str = "shipping"
    cautions: tuple[str, ...] = ()  # for readers of any figure of this GPU
    calibration: Calibration | None = None

    @property
    def node(self) -> int:
        """GPUs that reach each other without a network."""
        return self.link.domain if self.host_domain is None else self.host_domain

    @property
    def node_link(self) -> str:
        """Kind of the link that joins these GPUs."""
        return self.link.kind if self.host_domain is None else PCIE

    def __repr__(self) -> str:
        sixteen_bit = next((name for name in ("bf16", "fp16", *self.peaks) if name in self.peaks), None)
        peak = "" if sixteen_bit is None else f"{span_text(self.peaks[sixteen_bit], 'FLOP/s')} {sixteen_bit}, "
        return f"<Gpu {self.name}: {peak}{span_text(self.bandwidth, 'B/s')}, {span_text(self.memory, 'B')}>"


# Measured efficiencies of one generation of GPUs.


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Parameters of the one equation for one kind of kernel at one compute dtype.

    The defaults are the hardware limit: no latency, full rates, the classic maximum.
    """

    t0: Seconds = 0.0  # launch and fill
    eta_c: Share = 1.0  # share of the dense peak
    eta_m: Share = 1.0  # share of the HBM bandwidth
    eta_x: Real = 1.0  # share of the special-function rate
    eta_s: Share = 1.0  # share of the HBM bandwidth for traffic that does not overlap
    kappa: Seconds = 0.0  # per element of serial depth, inside the norm
    kappa_s: Seconds = 0.0  # per element of serial depth, outside the norm
    eps: Seconds = 0.0  # per item scheduled one by one
    t0_ep: Seconds | None = None  # t0 of experts spread over ranks; None: t0
    p: float = 3.0  # order of the norm
    is_measured: bool = True  # False: an assumption, explained in its file
    sigma: float | None = None  # of ln(predicted / measured); None where nothing was measured


@dataclass(frozen=True, slots=True)
class CollectiveEfficiency:
    """Alpha-beta parameters of one collective."""

    a0: Seconds = 0.0  # start-up
    a1: Seconds = 0.0  # per additional rank
    a2: Seconds = 0.0  # per doubling of the ranks (PCIe)
    q: Seconds = 0.0  # growth of the pipeline with message size
    eta: Share = 1.0  # share of the link bandwidth
    eta_switch: Share | None = None  # share of it for in-switch reduction, if there is one
    is_measured: bool = True
    sigma: float | None = None


class TimedEngine(NamedTuple):
    """A version of a serving engine whose kernels were timed apart."""

    engine: str  # name of its profile
    version: str
    path: str  # of its calibration, which holds what differs


#: Bases on which no kernel, or next to none, of a GPU's generation was timed.
ROUGH = ("generic", "served")


@dataclass(frozen=True, slots=True)
class PassFactor:
    """What runs of servers say of one kind of pass, where kernels were not timed."""

    factor: float  # on the time of every kernel of the pass [1]
    sigma: float  # of ln(predicted / measured) of a server whose model is not among them [1]
    runs: int  # of servers
    models: int  # that these served


@dataclass(frozen=True, slots=True)
class ServedPasses:
    """Factors on both kinds of passes."""

    prefill: PassFactor
    decode: PassFactor


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured efficiencies of one GPU generation, of all engines together or as one engine runs its kernels."""

    name: str
    measured_on: tuple[str, ...]
    kernels: Mapping[tuple[str, str], Efficiency]  # (kernel kind, dtype key)
    collectives: Mapping[str, CollectiveEfficiency]
    measurements: int = 0  # timed kernels behind the fits
    engines: tuple[str, ...] = ()  # source of the kernels, with versions
    year: str = ""  # of the measurements
    link: str = "nvlink"  # of the timed collectives: nvlink or pcie
    by_engine: tuple[TimedEngine, ...] = ()  # what engines run differently, each in a file of its own
    run_by: tuple[str, ...] = ()  # engines and versions whose kernels these are; empty: all engines together
    served: ServedPasses | None = None  # what servers say of whole passes; None: kernels were timed, or nothing was


# Kinds of kernels: their names, the terms of the equation that each has, and facts that hold for all of a kind.


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # one object per kind, hashed by identity
class KernelKind:
    """All kernels that share a form of the equation and, at one dtype, its constants."""

    name: str  # in calibrations, engine profiles, tables of kernels and rows
    label: str  # for people, without an article
    terms: tuple[str, ...] = ()  # constants that are fitted
    order: float = inf  # p of the norm; collectives and the host take the maximum
    depth: str = ""  # serial length of a tile: d (inside the norm) or d_s (outside)
    columns: tuple[str, ...] = ()  # of its shape in tables of timed kernels; empty if never timed
    launches: int = 1  # by the host, where no CUDA graph replays them: small kernels around it are not counted apart
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


def _untimed(name: str, label: str, depth: str, like: KernelKind, group: str = "", launches: int = 1) -> KernelKind:
    return KernelKind(
        name, label, like.terms, like.order, depth, launches=launches, stand_in=like, group=group, is_per_sequence=True,
        is_novel=True,
    )  # fmt: skip


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
    "mla_prefill", _ATTENTION, ("t0", "eta_c", "eta_m", "kappa_s"), 1.0, "length", _LATENT, launches=8,
    is_attention=True, is_per_sequence=True, is_novel=True,
)  # fmt: skip
MLA_DECODE = KernelKind(
    "mla_decode", _ATTENTION, ("t0", "eta_c", "eta_m", "kappa_s"), 3.0, "KV length", _LATENT,
    is_attention=True, is_per_sequence=True, is_novel=True,
)  # fmt: skip
MOE = KernelKind(
    "moe", "experts", ("t0", "t0_ep", "eta_c", "eta_m", "eta_s", "kappa_s", "eps"), 3.0, "H + I/t_e",
    ("tokens", "hidden", "width", "top_k", "experts", "tp", "ep"), launches=6, bears_weights=True,
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
STATE_PREFILL = _untimed("state_prefill", "recurrence", "length", ATTENTION_PREFILL, launches=10)
STATE_DECODE = _untimed("state_decode", "recurrence", "1", ELEMENTWISE)
INDEXER = _untimed("indexer", "index scores", "index width", GEMM, group=_ATTENTION, launches=4)
#: Attention without a mask: prompt attention's kernels and constants (docs/method/encoders.md compares them).
ENCODER_ATTENTION = KernelKind(
    "encoder_attention", _ATTENTION, ATTENTION_PREFILL.terms, ATTENTION_PREFILL.order, ATTENTION_PREFILL.depth,
    stand_in=ATTENTION_PREFILL, is_per_sequence=True, goes_by_part=True,
)  # fmt: skip
#: Prompts whose tokens choose: the work and the constants of decode steps, launched with what surrounds prompts.
MLA_CHOSEN = KernelKind(
    "mla_chosen", _ATTENTION, MLA_DECODE.terms, MLA_DECODE.order, MLA_DECODE.depth, launches=MLA_PREFILL.launches,
    stand_in=MLA_DECODE, is_attention=True, is_per_sequence=True, is_novel=True,
)  # fmt: skip
HOST = KernelKind("host", "host", goes_by_part=True)
HOST_LINK = KernelKind("host_link", "offloaded weights", launches=0)

#: All kinds by name.
KINDS: Mapping[str, KernelKind] = {
    kind.name: kind
    for kind in (
        GEMM, ATTENTION_PREFILL, ATTENTION_DECODE, MLA_PREFILL, MLA_DECODE, MOE, ELEMENTWISE,
        ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, MOE_DISPATCH, MOE_COMBINE, P2P,
        STATE_PREFILL, STATE_DECODE, INDEXER, ENCODER_ATTENTION, MLA_CHOSEN, HOST, HOST_LINK,
    )
}  # fmt: skip
#: Kinds that can be timed: by the one equation, and over a link.
CALIBRATED = tuple(kind for kind in KINDS.values() if kind.columns and not kind.is_collective)
COLLECTIVES = tuple(kind for kind in KINDS.values() if kind.is_collective)
#: Kinds of which no table exists, and which another stands in for.
UNTIMED = tuple(kind for kind in KINDS.values() if kind.stand_in is not None)

#: Parts of a model that kernels name.
HEAD, ROUTER, NETWORK, LOADING, ENCODER = "head", "router", "network", "prefix loading", "encoder"
ADAPTERS = "adapters"
#: What attention exchanges whose tokens are on several ranks.
CONTEXT = "context"


def the(label: str) -> str:
    """The label with its article, for use within a sentence.

    >>> the(MOE.label), the(MLA_DECODE.label)
    ('the experts', 'attention')
    """
    return label if label == _ATTENTION else f"the {label}"


# Timings of single kernels, as a table holds them.

#: Kind of kernel -> columns of its shape.
SHAPES: Mapping[str, tuple[str, ...]] = {kind.name: kind.columns for kind in KINDS.values() if kind.columns}


@dataclass(frozen=True)
class KernelGroup:
    """Timings of one kind of kernel at one dtype on one GPU."""

    gpu: str
    kind: str
    dtype: str
    columns: Mapping[str, list[float]]  # of `SHAPES`, and `latency` [s]
    routing: tuple[str, ...]  # per row; empty where it does not apply
    engines: tuple[str, ...]  # per row; may be empty texts
    versions: tuple[str, ...]  # engines with versions, sorted, unique
    dates: tuple[str, ...]  # sorted, unique


def of_gpu(groups: Iterable[KernelGroup], names: Collection[str], gpu: str) -> list[KernelGroup]:
    """Groups of one GPU (`names`: its folded names), one per kind and dtype."""
    merged: dict[tuple[str, str], KernelGroup] = {}
    for group in groups:
        if fold(group.gpu) not in names:
            continue
        other = merged.get((group.kind, group.dtype))
        merged[group.kind, group.dtype] = replace(group, gpu=gpu) if other is None else _joined(other, group)
    return list(merged.values())


def _joined(first: KernelGroup, second: KernelGroup) -> KernelGroup:
    return replace(
        first,
        columns={name: [*values, *second.columns[name]] for name, values in first.columns.items()},
        routing=(*first.routing, *second.routing),
        engines=(*first.engines, *second.engines),
        versions=tuple(sorted({*first.versions, *second.versions})),
        dates=tuple(sorted({*first.dates, *second.dates})),
    )
