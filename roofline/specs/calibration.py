"""Measured efficiencies of one generation of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.ops import Real

__all__ = ["Calibration", "CollectiveEfficiency", "Efficiency"]


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
