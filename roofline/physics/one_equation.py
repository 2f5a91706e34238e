"""Work of a kernel, rates of a roof, and the one equation that divides them."""

from __future__ import annotations

import math

from roofline.ops import Real, comparable, maximum, minimum, norm, where
from roofline.records import NamedTuple
from roofline.specs.calibration import CollectiveEfficiency, Efficiency
from roofline.specs.kernels import HOST, KernelKind

CHANGES_SIDES = "a kernel changes its bound"

#: The ideal roofline as parameters of the one equation: no latency, full rates, the larger of both sides.
IDEAL = Efficiency(p=math.inf)
IDEAL_LINK = CollectiveEfficiency()


@comparable
class Work(NamedTuple):
    """Arithmetic and traffic of one kernel on one GPU."""

    flop: Real = 0.0  # [FLOP] F, on the tensor cores
    weight_bytes: Real = 0.0  # [B] parameters read
    kv_bytes: Real = 0.0  # [B] KV cache and recurrent state read and written
    activation_bytes: Real = 0.0  # [B] activations read and written, overlapping
    serial_bytes: Real = 0.0  # [B] Q_s, traffic that does not overlap with arithmetic
    exponentials: Real = 0.0  # X, of the softmax
    depth: Real = 0.0  # d, length that one tile walks serially, inside the norm
    serial_depth: Real = 0.0  # d_s, the same outside the norm
    items: Real = 0.0  # n, such as experts, scheduled one by one
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
        """The work for several tokens per sequence, which read the cache once; each writes a share `written`."""
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
    efficiency: Efficiency = IDEAL

    @classmethod
    def ideal(cls, peak: Real, bandwidth: Real) -> Roof:
        """The hardware-limit roof: full rates, exponentials free."""
        return cls(peak, bandwidth, math.inf)


@comparable
class LinkRoof(NamedTuple):
    """Rate of the link that a collective crosses, and the efficiency that it reaches."""

    bandwidth: Real  # [B/s] per direction
    ranks: Real
    efficiency: CollectiveEfficiency
    least: Real = 1.0  # share of `link_bytes` that crosses at the hardware limit
    doublings: Real = 0.0  # from one rank to all, rounded up
    in_switch: Real = True  # whether in-switch reduction is possible, where `efficiency` has `eta_switch`


#: Host time depends on no rate of the GPU.
HOST_ROOF = Roof(math.inf, math.inf, math.inf)


@comparable
class Terms(NamedTuple):
    """Time of one kernel, and its terms in the equation."""

    total: Real  # [s]
    compute: Real  # [s] arithmetic alone
    memory: Real  # [s] HBM traffic alone, serial traffic included
    latency: Real  # [s] launch, serial depth, items
    exponentials: Real = 0.0  # [s]
    link: Real = 0.0  # [s]
    serial_latency: Real = 0.0  # [s] part of latency: serial depth, which overlaps with traffic like arithmetic
    serial: Real = 0.0  # [s] part of memory: traffic that does not overlap
    pipeline_latency: Real = 0.0  # [s] part of latency: the pipeline of a collective

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
    """One kernel of a pass."""

    name: str
    kind: KernelKind  # its name is the first key of the calibration
    dtype: str  # dtype key of the calibration
    count: int  # type: ignore[assignment]  # runs in one pass (hides tuple.count)
    work: Work
    roof: Roof | LinkRoof
    terms: Terms  # of one run
    part: str = ""  # part of the model, where that says more than the kind: the head, the router, ...

    @property
    def time(self) -> Real:
        """Time of all runs in the pass [s]."""
        return self.count * self.terms.total

    @property
    def label(self) -> str:
        """Name of the part of a pass that it belongs to, for people."""
        return self.part if self.part and self.kind.goes_by_part else self.kind.label


def kernel_time(work: Work, roof: Roof) -> Terms:
    r"""Time of one kernel under a roof.

    .. math:: t = t_0 + \left\lVert \frac{F}{\eta_c P} + \kappa d,\ \frac{Q}{\eta_m W} \right\rVert_p
              + \frac{X}{\eta_x S} + \frac{Q_s}{\eta_s W} + \kappa_s d_s + \varepsilon n

    With `IDEAL` it is the textbook roofline max(F/P, (Q + Q_s)/W); exponentials are free.

    Args:
        work: arithmetic [FLOP], HBM traffic [B], serial depth and items [1] of the kernel.
        roof: rates [FLOP/s, B/s, exp/s] and efficiencies [1] of the GPU at the kernel's dtype.

    Returns:
        Time and its terms [s]; with `IDEAL` a lower bound, else an estimate.

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
    if efficiency is IDEAL:
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
    r"""Time of one collective over a link.

    .. math:: t = a_0 + a_1 (n - 1) + a_2 \lceil \log_2 n \rceil + \sqrt{q V / B}
              + \min\left(\frac{V}{\eta B},\ \frac{S}{\eta_{switch} B}\right)

    The second term of the minimum is in-switch reduction: a library takes the faster way. With `IDEAL_LINK` the time is
    the least that must cross over the link's rate: S with in-switch reduction, V = 2 (n - 1)/n S on a ring.

    Args:
        work: `link_bytes` V sent by one GPU in one direction [B].
        roof: link rate [B/s], ranks [1] and parameters [s, 1].

    Returns:
        Time and its terms [s]; with `IDEAL_LINK` a lower bound, else an estimate.

    Valid:
        One collective at a time, with no other work alongside.

    Source:
        The alpha-beta model (Hockney, Parallel Computing 20, 1994) with a square-root term for
        messages that are pipelined in chunks; parameters and fit in docs/method.md.
    """
    efficiency = roof.efficiency
    wire = work.link_bytes / roof.bandwidth
    if efficiency is IDEAL_LINK:
        return Terms(roof.least * wire, 0.0, 0.0, 0.0, 0.0, roof.least * wire)
    link = wire / efficiency.eta
    if efficiency.eta_switch is not None:
        reduced = minimum(link, roof.least * wire / efficiency.eta_switch, "ring and in-switch reduction swap")
        link = where(roof.in_switch, reduced, link)
    pipeline_latency = (efficiency.q * wire) ** 0.5
    latency = efficiency.a0 + efficiency.a1 * (roof.ranks - 1) + efficiency.a2 * roof.doublings + pipeline_latency
    return Terms(latency + link, 0.0, 0.0, latency, 0.0, link, pipeline_latency=pipeline_latency)


def host_kernel(name: str, time: Real, part: str = "") -> Kernel:
    """Time [s] during which the GPU waits for the host, or for `part`, as a kernel of the pass."""
    return Kernel(name, HOST, "", 1, Work(), HOST_ROOF, Terms(time, 0.0, 0.0, time), part)
