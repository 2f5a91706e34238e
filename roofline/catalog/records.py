"""What the inner rings see of the catalogs: frozen records in SI units, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from roofline.catalog.layers import (
    Csa,
    DenseFfn,
    Ffn,
    Gdn,
    Gqa,
    Group,
    Indexer,
    Kda,
    Layer,
    Lightning,
    Linear,
    LinearFfn,
    Mamba1,
    Mamba2,
    Mixer,
    Mla,
    MoeFfn,
    NoFfn,
    NoMixer,
    Recurrent,
    Stage,
)
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
    "Stage",
    "Tuning",
]


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

    def stages(self, pp: int) -> tuple[Stage, ...]:
        """Pipeline stages: contiguous layers, the first stages one longer where pp does not divide.

        Args:
            pp: number of stages [1].

        Returns:
            The stages, in order.
        """
        if pp == 1:
            return (Stage(self.mixers, self.ffns),)
        layers = [layer for group in self.groups for _ in range(group.repeat) for layer in group.layers]
        short, longer = divmod(len(layers), pp)
        ends = list(accumulate(short + (stage < longer) for stage in range(pp)))
        return tuple(
            Stage.of(layers[start:end], is_first=start == 0, is_last=end == len(layers))
            for start, end in pairwise([0, *ends])
        )

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
