"""An accelerator: rates, memory, links and price. In traced formulas, symbols take the place of the floats."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.elements import span_text
from roofline.records import NamedTuple, dataclass
from roofline.specs.calibration import Calibration

#: Kind of link between cards that communicate through the host.
PCIE = "pcie"


@dataclass(frozen=True, slots=True)
class Link:
    """Scale-up fabric of a group of GPUs."""

    kind: str
    bandwidth: float  # [B/s] per direction and GPU
    domain: int  # GPUs that reach each other at this rate
    in_switch_reduction: bool = False
    peer_bandwidth: float | None = None  # [B/s] to one peer in a mesh


class Price(NamedTuple):
    """Rental price per GPU."""

    low: float  # [USD/s]
    typical: float  # [USD/s]
    high: float  # [USD/s]
    source: str = ""  # "given", or the catalog with its date


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
    bandwidth: float  # [B/s] HBM
    memory: float  # [B] usable HBM
    memory_label: float  # [B] as sold
    link: Link
    exp_rate: float | None = None  # [exp/s] special-function units
    scale_out: float | None = None  # [B/s] network per GPU and direction
    host_link: float | None = None  # [B/s] to the host, per direction
    host_domain: int | None = None  # GPUs that reach each other over it, if bridges join fewer
    power: float | None = None  # [W]
    cache: float | None = None  # [B] last-level cache
    price: Price | None = None
    sustained: float = 1.0  # share of its peaks under load, relative to the GPU of its calibration
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
