"""Measured efficiencies of one generation of GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.ops import Real
from roofline.records import dataclass
from roofline.specs.figures import Seconds, Share


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


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured efficiencies of one GPU generation."""

    name: str
    measured_on: tuple[str, ...]
    kernels: Mapping[tuple[str, str], Efficiency]  # (kernel kind, dtype key)
    collectives: Mapping[str, CollectiveEfficiency]
    measurements: int = 0  # timed kernels behind the fits
    engines: tuple[str, ...] = ()  # source of the kernels, with versions
    year: str = ""  # of the measurements
    link: str = "nvlink"  # of the timed collectives: nvlink or pcie
