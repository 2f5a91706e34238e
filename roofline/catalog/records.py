"""What the inner rings see of the catalogs: frozen records in SI units, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from roofline.ops import Real

__all__ = [
    "Calibration",
    "CollectiveEfficiency",
    "Csa",
    "DenseFfn",
    "Efficiency",
    "Engine",
    "Ffn",
    "Gdn",
    "Gpu",
    "Gqa",
    "Group",
    "Indexer",
    "Kda",
    "Layer",
    "Lightning",
    "Linear",
    "LinearFfn",
    "Link",
    "Mamba1",
    "Mamba2",
    "Mixer",
    "Mla",
    "Model",
    "MoeFfn",
    "NoFfn",
    "NoMixer",
    "Price",
    "Recurrent",
    "Tuning",
]


@dataclass(frozen=True, slots=True)
class Indexer:
    """Small attention that scores what is cached and keeps the best for the attention proper.

    DeepSeek Sparse Attention scores tokens; MiniMax-M3 scores tokens and keeps whole blocks.
    """

    heads: int
    dim: int
    top_k: int  # [tokens], of compressed attention [entries], that a token attends to at most
    block: int = 1  # [tokens] kept or dropped together
    own: bool = True  # False: the layer attends to what another layer's indexer chose


@dataclass(frozen=True, slots=True)
class Gqa:
    """Grouped-query attention (MHA with kv_heads = heads, MQA with one), full, windowed or chunked."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None  # [tokens] a token sees the last `window` tokens, itself included
    chunk: int | None = None  # [tokens] a token sees its own chunk only
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: str | None = None  # head: one vector for all heads; full: over all of them
    sinks: bool = False  # one learnt logit per head
    out_gate: bool = False  # the output is multiplied with a gate as wide as itself
    k_eq_v: bool = False  # keys are values: no projection of values, both are cached
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: one latent of kv_rank + rope values per token, shared by all heads."""

    heads: int
    kv_rank: int
    nope: int
    rope: int
    v: int
    q_rank: int | None = None  # None: queries are projected directly
    out_gate: bool = False  # the output is multiplied with a gate as wide as itself
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True)
class Csa:
    """Compressed attention of DeepSeek-V4: a window of shared key-values, and entries that stand for `ratio` tokens."""

    heads: int
    head_dim: int
    q_rank: int
    o_rank: int  # rank of the output projection of each group of heads
    o_groups: int
    window: int  # [tokens]
    ratio: int = 0  # [tokens] that one compressed entry stands for; 0: the window alone
    indexer: Indexer | None = None  # chooses among the compressed entries


@dataclass(frozen=True, slots=True)
class Gdn:
    """Gated delta net: a state of k_dim x v_dim per value head."""

    k_heads: int
    v_heads: int
    k_dim: int
    v_dim: int
    conv: int  # [tokens] width of the short convolution


@dataclass(frozen=True, slots=True)
class Kda:
    """Kimi delta attention: a state of dim x dim per head, forgotten channel by channel."""

    heads: int
    dim: int
    conv: int  # [tokens] width of the short convolution
    full_rank_gate: bool = False  # the output gate is one matrix, not two of rank `dim`


@dataclass(frozen=True, slots=True)
class Lightning:
    """Lightning attention: linear attention with a state of dim x dim per head and a fixed decay."""

    heads: int
    dim: int


@dataclass(frozen=True, slots=True)
class Mamba2:
    """State-space duality layer: a state of head_dim x state per head."""

    heads: int
    head_dim: int
    groups: int  # of heads that share their input and output matrices
    state: int
    conv: int  # [tokens] width of the short convolution


@dataclass(frozen=True, slots=True)
class Mamba1:
    """Selective state space: `state` values per channel."""

    inner: int  # channels
    state: int
    dt_rank: int
    conv: int  # [tokens] width of the short convolution
    inner_norms: bool = False  # time step, input and output matrices are normalised (Jamba)


@dataclass(frozen=True, slots=True)
class Linear:
    """One square matrix in the place of attention (Puzzle)."""


@dataclass(frozen=True, slots=True)
class NoMixer:
    """No mixer: the layer is a feed-forward network alone."""


@dataclass(frozen=True, slots=True)
class DenseFfn:
    """Feed-forward network: three matrices when gated, two otherwise."""

    width: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True)
class MoeFfn:
    """Mixture of experts with optional shared experts."""

    experts: int
    top_k: int
    width: int
    gated: bool = True
    shared_width: int = 0  # summed over the shared experts
    router_bias: bool = False
    expert_bias: bool = False
    shared_gate: bool = False  # the shared experts' result is weighted by a gate of its own
    latent: int | None = None  # width in which the routed experts work, where it is not the model's


@dataclass(frozen=True, slots=True)
class LinearFfn:
    """One square matrix in the place of a feed-forward network (Puzzle)."""


@dataclass(frozen=True, slots=True)
class NoFfn:
    """No feed-forward network: the layer is a mixer alone."""


Recurrent = Gdn | Kda | Lightning | Mamba1 | Mamba2
Mixer = Gqa | Mla | Csa | Recurrent | Linear | NoMixer
Ffn = DenseFfn | MoeFfn | LinearFfn | NoFfn


class Layer(NamedTuple):
    """One mixer and one feed-forward network."""

    mixer: Mixer
    ffn: Ffn


class Group(NamedTuple):
    """A run of identical blocks of layers."""

    repeat: int
    layers: tuple[Layer, ...]


@dataclass(frozen=True)
class Model:
    """A language model as an ordered list of layer groups."""

    name: str  # Hugging Face id
    short_name: str
    aliases: tuple[str, ...]
    family: str
    hidden: int
    vocab: int  # as stored, padding included
    tied: bool  # the head shares the embedding matrix
    norms: int  # norm layers over the hidden width per layer
    max_context: int | None  # [tokens]
    groups: tuple[Group, ...]
    native: Mapping[str, str]  # section (attention linear shared experts embed head router norm kv) -> format name
    stated_total: float | None = None  # parameters, as published
    stated_active: float | None = None
    norm_bias: bool = False  # norms have a bias vector beside their weights
    head_bias: bool = False
    streams: int = 1  # residual streams that hyper-connections mix
    parallel: bool = False  # mixer and network read the same input; one all-reduce sums both
    mtp_layers: int = 0  # draft modules, in no total; they work under speculative decoding only
    cautions: tuple[str, ...] = ()  # what a reader of any figure of this model should know

    @cached_property
    def layers(self) -> int:
        """Number of layers."""
        return sum(group.repeat * len(group.layers) for group in self.groups)

    @cached_property
    def mixers(self) -> tuple[tuple[int, Mixer], ...]:
        """Distinct mixers, each with the number of layers that have it."""
        counts: dict[Mixer, int] = {}
        for group in self.groups:
            for layer in group.layers:
                counts[layer.mixer] = counts.get(layer.mixer, 0) + group.repeat
        return tuple((count, mixer) for mixer, count in counts.items())

    @cached_property
    def ffns(self) -> tuple[tuple[int, Ffn], ...]:
        """Distinct feed-forward networks, each with the number of layers that have it."""
        counts: dict[Ffn, int] = {}
        for group in self.groups:
            for layer in group.layers:
                counts[layer.ffn] = counts.get(layer.ffn, 0) + group.repeat
        return tuple((count, ffn) for ffn, count in counts.items())

    @cached_property
    def is_moe(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(isinstance(ffn, MoeFfn) for _, ffn in self.ffns)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Parameters of the one equation for one kind of kernel at one compute dtype.

    The defaults are the speed of light: no latency, full rates, the classic maximum.
    """

    t0: Real = 0.0  # [s] launch and fill
    eta_c: Real = 1.0  # share of the dense peak
    eta_m: Real = 1.0  # share of the HBM bandwidth
    eta_x: Real = 1.0  # share of the special-function rate
    eta_s: Real = 1.0  # share of the HBM bandwidth reached by traffic that does not overlap
    kappa: Real = 0.0  # [s] per element of serial depth, inside the norm
    kappa_s: Real = 0.0  # [s] per element of serial depth, outside the norm
    eps: Real = 0.0  # [s] per item scheduled one by one
    p: float = 3.0  # order of the norm
    is_measured: bool = True  # fitted on measurements; else an assumption that its file explains
    sigma: float | None = None  # of ln(predicted / measured); None where nothing was measured


@dataclass(frozen=True, slots=True)
class CollectiveEfficiency:
    """Alpha-beta parameters of one collective."""

    a0: Real = 0.0  # [s]
    a1: Real = 0.0  # [s] per further rank
    a2: Real = 0.0  # [s] per doubling of the ranks (PCIe)
    q: Real = 0.0  # [s] growth of the pipeline with the message
    eta: Real = 1.0  # share of the link bandwidth
    eta_switch: Real | None = None  # share of it that a reduction in the switch reaches, where there is one
    is_measured: bool = True
    sigma: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured efficiencies of one GPU generation."""

    name: str
    measured_on: tuple[str, ...]
    kernels: Mapping[tuple[str, str], Efficiency]  # (kernel kind, dtype key)
    collectives: Mapping[str, CollectiveEfficiency]
    measurements: int = 0  # timed kernels that the sets were fitted on
    engines: tuple[str, ...] = ()  # whose kernels they are, with versions
    year: str = ""  # of the measurements
    link: str = "nvlink"  # that the collectives were timed on, or pcie


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the kernels of an engine differ from those that the calibrations were measured on."""

    kind: str  # of kernel
    dtype: str | None = None  # key of its calibration; None: all of them
    generation: str | None = None  # of the GPU; None: all of them
    peak: str | None = None  # dtype of the units that multiply, where they are not the tensor cores
    eta_c: Real | None = None  # share of that peak, instead of the calibration's
    compute: Real = 1.0  # factor on the shares of peak and special-function rate
    memory: Real = 1.0  # factor on the share of the HBM bandwidth


@dataclass(frozen=True, slots=True)
class Engine:
    """What a serving engine adds to the kernels: time of the host, chunks of prompts, kernels of its own."""

    name: str
    request: Real = 0.0  # [s] per request, before its prompt is computed
    network: Real = 0.0  # [s] round trip between client and server
    prefill: Real = 0.0  # [s] per prefill pass
    stretch: Real = 1.0  # of a prompt's steps while others decode
    step: Real = 0.0  # [s] per decode step
    layer: Real = 0.0  # [s] per layer of a decode step, where no CUDA graph replays it
    sequence: Real = 0.0  # [s] per sequence of a decode step
    all_reduce: Real = 0.0  # [s] more per all-reduce than its calibration has
    chunk: int | None = None  # [tokens] of prompts that one step computes at most; None: whole prompts
    reserve: Real = 1.0  # share of the answer for which a request must find memory before it starts
    tunings: tuple[Tuning, ...] = ()
    sigma_ttft: float | None = None  # of ln(predicted / measured) of whole passes, kernels apart
    sigma_tpot: float | None = None
    versions: str = ""  # of the engine that the constants were fitted on
    year: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """The scale-up fabric that one group of GPUs shares."""

    kind: str
    bandwidth: Real  # [B/s] per direction and GPU
    domain: int  # GPUs that reach each other at this rate
    in_switch_reduction: bool = False
    peer_bandwidth: Real | None = None  # [B/s] to one peer, where a mesh splits the rate over its links


class Price(NamedTuple):
    """Rental price per GPU."""

    low: Real  # [USD/s]
    typical: Real  # [USD/s]
    high: Real  # [USD/s]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator as one rank sees it."""

    name: str
    aliases: tuple[str, ...]
    vendor: str
    generation: str
    peaks: Mapping[str, Real]  # dtype -> dense peak [FLOP/s]
    bandwidth: Real  # [B/s] HBM
    memory: Real  # [B] usable HBM
    memory_label: Real  # [B] as sold
    link: Link
    exp_rate: Real | None = None  # [exp/s] special-function units
    scale_out: Real | None = None  # [B/s] network per GPU and direction
    host_link: Real | None = None  # [B/s] to the host, per direction
    power: Real | None = None  # [W]
    cache: Real | None = None  # [B] last-level cache
    price: Price | None = None
    status: str = "shipping"
    cautions: tuple[str, ...] = ()  # what a reader of any figure of this GPU should know
    calibration: Calibration | None = field(default=None, repr=False)
