"""What a kernel does and moves, how fast a roof lets it, and the one equation that divides them."""

from __future__ import annotations

import math

from roofline.ops import Real, comparable, maximum, minimum, norm, where
from roofline.records import NamedTuple
from roofline.specs.calibration import CollectiveEfficiency, Efficiency
from roofline.specs.kernels import HOST, KernelKind

__all__ = [
    "CHANGES_SIDES",
    "HOST_ROOF",
    "LIGHT",
    "LIGHT_LINK",
    "Kernel",
    "LinkRoof",
    "Roof",
    "Terms",
    "Work",
    "collective_time",
    "host_kernel",
    "kernel_time",
]

#: What the maximum of arithmetic and traffic means where both take the same time.
CHANGES_SIDES = "a kernel changes its bound"

#: The ideal roofline as parameters of the one equation: no latency, full rates, the larger of two.
LIGHT = Efficiency(p=math.inf)

#: A link at its full rate without latency.
LIGHT_LINK = CollectiveEfficiency()


@comparable
class Work(NamedTuple):
    """Arithmetic and traffic of one kernel on one GPU."""

    flop: Real = 0.0  # [FLOP] F, on the tensor cores
    weight_bytes: Real = 0.0  # [B] parameters read
    kv_bytes: Real = 0.0  # [B] KV cache and recurrent state read and written
    activation_bytes: Real = 0.0  # [B] activations read and written, overlapping
    serial_bytes: Real = 0.0  # [B] Q_s, traffic that does not overlap with arithmetic
    exponentials: Real = 0.0  # X, of the softmax
    depth: Real = 0.0  # d, length one tile walks alone, inside the norm
    serial_depth: Real = 0.0  # d_s, the same outside the norm
    items: Real = 0.0  # n, scheduled one by one
    link_bytes: Real = 0.0  # [B] V, sent over the link by one GPU in one direction

    @property
    def overlapped_bytes(self) -> Real:
        """HBM traffic that overlaps with arithmetic, Q [B]."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes

    @property
    def nbytes(self) -> Real:
        """All HBM traffic, Q + Q_s [B]."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes + self.serial_bytes

    def of_queries(self, queries: Real, written: Real = 0.0) -> Work:
        """The same for several tokens of each sequence at once, which read what it keeps together.

        Args:
            queries: tokens of each sequence [tokens].
            written: share of `kv_bytes` that each of them writes for itself [1].

        Returns:
            The work: arithmetic and activations of each token, the cache once.
        """
        return self._replace(
            flop=self.flop * queries,
            kv_bytes=self.kv_bytes * (1.0 + written * (queries - 1.0)),
            activation_bytes=self.activation_bytes * queries,
            exponentials=self.exponentials * queries,
        )


@comparable
class Roof(NamedTuple):
    """Rates of a GPU at one compute dtype, and the efficiency that one kind of kernel reaches."""

    peak: Real  # [FLOP/s]
    bandwidth: Real  # [B/s]
    exp_rate: Real  # [exp/s]
    efficiency: Efficiency = LIGHT

    @classmethod
    def ideal(cls, peak: Real, bandwidth: Real) -> Roof:
        """The speed-of-light roof: full rates, exponentials free.

        Args:
            peak: dense peak [FLOP/s].
            bandwidth: HBM bandwidth [B/s].

        Returns:
            The roof [record].
        """
        return cls(peak, bandwidth, math.inf)


@comparable
class LinkRoof(NamedTuple):
    """Rate of the link that a collective crosses, and the efficiency that it reaches."""

    bandwidth: Real  # [B/s] per direction
    ranks: Real
    efficiency: CollectiveEfficiency
    least: Real = 1.0  # share of `link_bytes` that must cross even at the hardware limit
    doublings: Real = 0.0  # of one rank that make them all, rounded up
    in_switch: Real = True  # whether a switch may reduce, where `efficiency` says how well


#: Where the host works, no rate of the GPU matters.
HOST_ROOF = Roof(math.inf, math.inf, math.inf)


@comparable
class Terms(NamedTuple):
    """Time of one kernel, and the terms of the equation it came from."""

    total: Real  # [s]
    compute: Real  # [s] arithmetic alone
    memory: Real  # [s] HBM traffic alone, serial traffic included
    latency: Real  # [s] launch, serial depth, items
    exponentials: Real = 0.0  # [s]
    link: Real = 0.0  # [s]
    serial_latency: Real = 0.0  # [s] of the latency: serial depth that hides behind traffic as arithmetic does
    serial: Real = 0.0  # [s] of the memory: traffic that hides behind nothing
    pipeline_latency: Real = 0.0  # [s] of the latency: the pipeline of a collective

    @property
    def overlapped(self) -> Real:
        """HBM traffic that overlaps with arithmetic [s]."""
        return self.memory - self.serial

    @property
    def bound(self) -> Real:
        """Name of the largest term: compute, memory, latency, exponentials or link."""
        name, largest = where(self.compute >= self.memory, "compute", "memory"), maximum(self.compute, self.memory)
        for other in ("exponentials", "link", "latency"):
            time = getattr(self, other)
            name, largest = where(largest >= time, name, other), maximum(largest, time)
        return name


@comparable
class Kernel(NamedTuple):
    """One kernel of a pass: what it does, on which roof, how often, how long."""

    name: str
    kind: KernelKind  # whose name is the first key of its calibration
    dtype: str  # dtype key of its calibration
    count: int  # type: ignore[assignment]  # times it runs in one pass (hides tuple.count)
    work: Work
    roof: Roof | LinkRoof
    terms: Terms  # of one run
    part: str = ""  # of the model that it serves, where that says more than its kind: the head, the router, ...

    @property
    def time(self) -> Real:
        """Time of all runs in the pass [s]."""
        return self.count * self.terms.total

    @property
    def label(self) -> str:
        """What people call the part of a pass that it belongs to."""
        return self.part if self.part and self.kind.goes_by_part else self.kind.label


def kernel_time(work: Work, roof: Roof) -> Terms:
    r"""Time that one kernel takes under a roof.

    .. math:: t = t_0 + \left\lVert \frac{F}{\eta_c P} + \kappa d,\ \frac{Q}{\eta_m W} \right\rVert_p
              + \frac{X}{\eta_x S} + \frac{Q_s}{\eta_s W} + \kappa_s d_s + \varepsilon n

    With `LIGHT` it is the textbook roofline max(F/P, (Q + Q_s)/W), exponentials free.

    Args:
        work: arithmetic [FLOP], HBM traffic [B], serial depth and items [1] of the kernel.
        roof: rates [FLOP/s, B/s, exp/s] and efficiencies [1] of the GPU at the kernel's dtype.

    Returns:
        Time and its terms [s]; with `LIGHT` a lower bound, else an estimate.

    Valid:
        One kernel at a time, at the clocks and shapes of the measurements; constants of one GPU generation.

    Source:
        Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009, for the maximum; the further
        terms and their measured parameters are explained in docs/method.md.

    >>> kernel_time(Work(flop=2e12, weight_bytes=1e9), Roof.ideal(peak=1e15, bandwidth=4e12)).total
    0.002
    """
    flop, weights, kv, activations, serial_bytes, exponentials, depth, serial_depth, items, _ = work
    peak, bandwidth, exp_rate, efficiency = roof
    overlapped = weights + kv + activations
    if efficiency is LIGHT:
        compute = flop / peak
        memory = (overlapped + serial_bytes) / bandwidth
        return Terms(maximum(compute, memory, CHANGES_SIDES), compute, memory, 0.0)
    compute = flop / (efficiency.eta_c * peak)
    serial_latency = efficiency.kappa * depth
    memory = overlapped / (efficiency.eta_m * bandwidth)
    serial = serial_bytes / (efficiency.eta_s * bandwidth)
    softmax = exponentials / (efficiency.eta_x * exp_rate)
    latency = efficiency.t0 + efficiency.kappa_s * serial_depth + efficiency.eps * items
    total = latency + norm(compute + serial_latency, memory, efficiency.p, CHANGES_SIDES) + softmax + serial
    return Terms(total, compute, memory + serial, latency + serial_latency, softmax, 0.0, serial_latency, serial)


def collective_time(work: Work, roof: LinkRoof) -> Terms:
    r"""Time that one collective takes over a link.

    .. math:: t = a_0 + a_1 (n - 1) + a_2 \lceil \log_2 n \rceil + \sqrt{q V / B}
              + \min\left(\frac{V}{\eta B},\ \frac{S}{\eta_{switch} B}\right)

    The second of the minimum holds where a switch reduces: a library takes the faster way. With
    `LIGHT_LINK` it is the least that must cross, over the link's rate: a switch that reduces carries S
    of the ring's V = 2 (n - 1)/n S.

    Args:
        work: `link_bytes` V sent by one GPU in one direction [B].
        roof: link rate [B/s], ranks [1] and parameters [s, 1].

    Returns:
        Time and its terms [s]; with `LIGHT_LINK` a lower bound, else an estimate.

    Valid:
        One collective at a time, without other work beside it.

    Source:
        The alpha-beta model (Hockney, Parallel Computing 20, 1994) with a square-root term for
        messages that are pipelined in chunks; parameters and fit in docs/method.md.
    """
    efficiency = roof.efficiency
    wire = work.link_bytes / roof.bandwidth
    if efficiency is LIGHT_LINK:
        return Terms(roof.least * wire, 0.0, 0.0, 0.0, 0.0, roof.least * wire)
    link = wire / efficiency.eta
    if efficiency.eta_switch is not None:
        reduced = minimum(link, roof.least * wire / efficiency.eta_switch, "ring and in-switch reduction swap")
        link = where(roof.in_switch, reduced, link)
    pipeline_latency = (efficiency.q * wire) ** 0.5
    latency = efficiency.a0 + efficiency.a1 * (roof.ranks - 1) + efficiency.a2 * roof.doublings + pipeline_latency
    return Terms(latency + link, 0.0, 0.0, latency, 0.0, link, pipeline_latency=pipeline_latency)


def host_kernel(name: str, time: Real, part: str = "") -> Kernel:
    """Time of the host during which the GPU waits, as a part of a pass like any kernel.

    Args:
        name: what the host does [text].
        time: how long [s].
        part: what is waited for, where it is not the host [text].

    Returns:
        The kernel, all of it latency.
    """
    return Kernel(name, HOST, "", 1, Work(), HOST_ROOF, Terms(time, 0.0, 0.0, time), part)
