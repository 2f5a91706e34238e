"""An accelerator: rates, memory, links and price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from roofline.ops import Real
from roofline.specs.calibration import Calibration

__all__ = ["Gpu", "Link", "Price"]


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
