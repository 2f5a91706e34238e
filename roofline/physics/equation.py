"""Work of a kernel, rates of a roof, and the one equation that divides them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from roofline.numbers.operations import (
    Real,
    above,
    always,
    at_most,
    ceil,
    comparable,
    floor,
    maximum,
    minimum,
    never,
    norm,
    where,
)
from roofline.numbers.quantity import counted, rounded
from roofline.physics.plan import Deployment
from roofline.specs.engine import Engine, KernelOverride
from roofline.specs.gpu import (
    ALL_REDUCE,
    ENCODER,
    HOST,
    KINDS,
    NO_LINK,
    P2P,
    PCIE,
    Calibration,
    CollectiveEfficiency,
    Efficiency,
    Gpu,
    KernelKind,
)
from roofline.support.errors import BadInput, shown
from roofline.support.records import NamedTuple, replace

CHANGES_SIDES = "a kernel changes its bound"

#: Terms that may be the largest of a kernel's time.
BOUNDS = ("compute", "memory", "exponentials", "link", "latency")

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
        return largest_of_terms(_bound_times(self))


_bound_times = attrgetter(*BOUNDS)


def largest_of_terms(times: Sequence[Real]) -> Any:
    """Name of the largest of times in the order of `BOUNDS`, the first of equal ones."""
    if set(map(type, times)) == {float}:
        return BOUNDS[times.index(max(times))]
    name, largest = BOUNDS[0], times[0]
    for other, time in zip(BOUNDS[1:], times[1:], strict=True):
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
    power: Real | None = None  # share of the GPU's power under a power cap; None without one

    @property
    def time(self) -> Real:
        """Time of all runs in the pass [s]."""
        return self.count * self.terms.total

    @property
    def label(self) -> str:
        """Name of the part of a pass that it belongs to, for people."""
        is_named = self.part and (self.kind.goes_by_part or self.part == ENCODER)
        return self.part if is_named else self.kind.label


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


# Roofs of kernels and collectives: the GPU's rates, with the efficiencies of the chosen basis.

BASES = ("calibrated", "ideal")

DOUBLING = "the ranks pass a power of two"

_MOST_DOUBLINGS = 20  # a million ranks
_REACHES_ONE = "an efficiency reaches 1"

#: Engines that `evidence` names; a calibration's file lists all.
_ENGINE_NAMES = {"trtllm": "TRT-LLM", "vllm": "vLLM"}
#: Engines that it names where they have kernels of their own.
_OWN_NAMES = {**_ENGINE_NAMES, "sglang": "SGLang"}

#: Dtypes whose parameters replace those of one that was never measured, nearest first.
_STAND_INS = {
    "fp8_static": ("fp8",),
    "fp8_block": ("fp8",),
    "fp16": ("bf16",),
    "fp32": ("bf16",),
    "int8": ("fp8",),
    "nvfp4": ("fp8",),
    "mxfp4": ("weight_only_4bit", "int4"),
    "mxfp4_fp8": ("nvfp4", "fp8"),
    "int4": ("weight_only_4bit",),
    "int4_fp8": ("fp8_block", "fp8"),
    "weight_only_4bit": ("int4",),
    "weight_only_8bit": ("bf16",),
}


def basis_of(gpu: Gpu, requested: str) -> str:
    """Basis of a GPU's figures.

    ``inherited``: kernels of another GPU of its generation were measured; ``served``: servers, but few kernels or none.
    """
    if requested not in BASES:
        raise BadInput(f"unknown basis {shown(requested)}; choose from {', '.join(BASES)}")
    if requested == "ideal" or gpu.calibration is None:
        return "ideal"
    if gpu.calibration.served is not None:
        return "served"
    if gpu.name in gpu.calibration.measured_on:
        return "calibrated"
    return "generic" if gpu.calibration.name == "generic" else "inherited"


def evidence(deployment: Deployment) -> str:
    """Basis and its evidence, e.g. ``calibrated: hopper, 1,840 kernels, TRT-LLM 1.3 / vLLM 0.24, 2026``."""
    calibration = deployment.gpu.calibration
    if deployment.basis == "ideal" or calibration is None:
        return "ideal: hardware limit"
    if deployment.basis == "generic":
        return f"generic: medians of other generations, {deployment.gpu.generation} not timed"
    if deployment.basis == "served":
        return served_evidence(calibration)
    fitted = f"{calibration.measurements:,} kernels" if calibration.measurements else "assumptions"
    engines = _short_versions(calibration.engines)
    if calibration.run_by:
        engines = f"{_short_versions(calibration.run_by, _OWN_NAMES)}, else {engines}"
    gpu = deployment.gpu
    clocks = f"eta_c x {gpu.sustained:g}" if deployment.basis == "inherited" and gpu.sustained != 1.0 else ""
    parts = (calibration.name, fitted, engines, calibration.year, clocks)
    return f"{deployment.basis}: {', '.join(filter(None, parts))}"


def served_evidence(calibration: Calibration) -> str:
    """What servers said of passes and in how many runs, and how many kernels were timed; empty where none did."""
    served = calibration.served
    if served is None:
        return ""
    timed = dict.fromkeys(KINDS[kind].label for (kind, _), each in calibration.kernels.items() if each.is_measured)
    passes = (
        f"{name} x {rounded(each.factor)} of {counted(each.runs, 'run')}"
        for name, each in (("prefill", served.prefill), ("decode", served.decode))
    )
    kernels = f"{calibration.measurements:,} kernels of {', '.join(timed)}" if timed else ""
    parts = (calibration.name, *passes, kernels, *calibration.engines, calibration.year)
    return f"served: {', '.join(filter(None, parts))}"


def measured_kind(sets: Mapping[tuple[str, str], Efficiency], kind: KernelKind) -> KernelKind:
    """Kind whose measured parameters a kind uses: its own, or its stand-in's."""
    if kind.stand_in is None or any(measured == kind.name for measured, _ in sets):
        return kind
    return kind.stand_in


def calibrated_set(sets: Mapping[tuple[str, str], Efficiency], kind: KernelKind, key: str) -> tuple[Efficiency, str]:
    """Parameters of a kind of kernel at a dtype key, or at the nearest measured one; and that key."""
    for candidate in (key, *_STAND_INS.get(key, ()), "bf16"):
        efficiency = sets.get((kind.name, candidate))
        if efficiency is not None:
            return efficiency, candidate
    if kind.stand_in is not None:
        return calibrated_set(sets, kind.stand_in, key)
    raise BadInput(f"the calibration has no parameters for {kind.name} kernels")


def roof(gpu: Gpu, basis: str, kind: KernelKind, key: str, peak: str) -> Roof:
    """Roof of a kind of kernel; `key` is its dtype key in the calibration, `peak` the dtype at which it multiplies."""
    exp_rate: Real = math.inf if gpu.exp_rate is None else gpu.exp_rate  # unknown: not charged
    if basis == "ideal" or gpu.calibration is None:
        return Roof(gpu.peaks[peak], gpu.bandwidth, exp_rate, IDEAL)
    efficiency, _ = calibrated_set(gpu.calibration.kernels, kind, key)
    is_stand_in = (kind.name, key) not in gpu.calibration.kernels
    if efficiency.sigma is not None and is_stand_in and gpu.calibration.served is None:
        efficiency = replace(efficiency, sigma=None)  # residuals of a stand-in say nothing about this kernel
    return Roof(gpu.peaks[peak], gpu.bandwidth, exp_rate, efficiency)


def tuned(base: Roof, gpu: Gpu, engine: Engine, kind: KernelKind, key: str) -> Roof:
    """A calibrated roof with the overrides of an engine, capped at the hardware limit."""
    for tuning in engine.tunings:
        is_kernel = tuning.kind == kind.name and tuning.dtype in (None, key)
        if is_kernel and tuning.generation in (None, gpu.generation):
            base = _overridden(base, gpu, tuning)
    return base


def _overridden(base: Roof, gpu: Gpu, tuning: KernelOverride) -> Roof:
    share = base.efficiency.eta_c if tuning.eta_c is None else tuning.eta_c
    start = {}
    if not (type(tuning.start) is float and tuning.start == 0.0):
        start = {name: getattr(base.efficiency, name) + tuning.start for name in ("t0", "t0_ep")
                 if getattr(base.efficiency, name) is not None}  # fmt: skip
    efficiency = replace(
        base.efficiency,
        **start,
        eta_c=minimum(share * tuning.compute, 1.0, _REACHES_ONE),
        eta_x=base.efficiency.eta_x * tuning.compute,
        eta_m=minimum(base.efficiency.eta_m * tuning.memory, 1.0, _REACHES_ONE),
    )
    peak = base.peak
    if tuning.peak is not None:
        peak = minimum(peak, gpu.peaks.get(tuning.peak, peak), "another peak applies")
    return base._replace(peak=peak, efficiency=efficiency)


def slowed(of: Efficiency, factor: Real) -> Efficiency:
    """Constants under which every kernel takes `factor` times as long, capped at the hardware limit.

    Args:
        of: those of a kind of kernel.
        factor: of the pass [1].

    Returns:
        Starts and depths times the factor, shares over it, at most 1.

    Source:
        The one equation: all its terms scale alike.
    """
    return replace(
        of, t0=of.t0 * factor, t0_ep=None if of.t0_ep is None else of.t0_ep * factor, eta_c=_share(of.eta_c, factor),
        eta_m=_share(of.eta_m, factor), eta_s=_share(of.eta_s, factor), eta_x=of.eta_x / factor,
        kappa=of.kappa * factor, kappa_s=of.kappa_s * factor, eps=of.eps * factor,
    )  # fmt: skip


def slowed_link(of: CollectiveEfficiency, factor: Real) -> CollectiveEfficiency:
    """The same of a collective."""
    switch = None if of.eta_switch is None else _share(of.eta_switch, factor)
    return replace(
        of, a0=of.a0 * factor, a1=of.a1 * factor, a2=of.a2 * factor, q=of.q * factor * factor,
        eta=_share(of.eta, factor), eta_switch=switch,
    )  # fmt: skip


def _share(share: Real, factor: Real) -> Real:
    return minimum(share / factor, 1.0, _REACHES_ONE)


def doublings(ranks: Real) -> Real:
    """Doublings from one rank to all ranks, rounded up.

    Args:
        ranks: GPUs that take part [1].

    Returns:
        Their number [1].

    Source:
        Arithmetic: the binary logarithm, rounded up.

    >>> doublings(6)
    3.0
    """
    number: Real = 0.0
    for power in range(_MOST_DOUBLINGS):
        more = above(ranks, 2.0**power, DOUBLING)
        if never(more):
            break
        number = number + where(more, 1.0, 0.0)
    return number


def link_roof(gpu: Gpu, basis: str, collective: KernelKind, ranks: Real) -> LinkRoof:
    """Roof of one collective over the ranks of a GPU's scale-up domain, or beyond it over the host and the network.

    Args:
        gpu: the GPU.
        basis: ``ideal``, ``calibrated`` or ``inherited`` [text].
        collective: its kind.
        ranks: GPUs that take part [1].

    Returns:
        Link rate [B/s] and parameters [s, 1].

    Raises:
        BadInput: the ranks exceed the node and the GPU states no network, or the calibration lacks the collective.

    Valid:
        Beyond a node, traffic inside and outside the node runs one after the other where calibrated, at once at the
        hardware limit. Cards beyond their bridge use PCIe alone where calibrated, the bridge too at the hardware limit.

    Source:
        docs/method.md, "Collectives"; ranks fill one domain after the other.
    """
    link, inside = gpu.link, at_most(ranks, gpu.link.domain, "the ranks leave the scale-up domain")
    in_switch = link.in_switch_reduction if collective is ALL_REDUCE else False
    bandwidth: Real = link.bandwidth
    # In a mesh only the links between participating ranks carry traffic.
    if link.peer_bandwidth is not None and not never(inside):
        peers = link.peer_bandwidth * (ranks - 1)
        bandwidth = where(inside, minimum(bandwidth, peers, "the links to all peers reach their full rate"), bandwidth)
    least = where(in_switch, ranks / (2.0 * (ranks - 1)), 1.0)
    if not always(inside):
        beyond = _beyond_domain(gpu, collective, ranks, in_switch)
        bandwidth, least = where(inside, bandwidth, beyond[0]), where(inside, least, beyond[1])
    if basis == "ideal" or gpu.calibration is None:
        return LinkRoof(bandwidth, ranks, IDEAL_LINK, least)
    efficiency = link_efficiency(gpu, collective)
    if gpu.host_domain is not None and not always(inside):
        efficiency = _either_link(inside, efficiency, link_efficiency(gpu, collective, PCIE))
    beyond_switch = never(inside) or never(in_switch)
    if efficiency.eta_switch is not None and beyond_switch:
        efficiency = replace(efficiency, eta_switch=None)
    reduces = where(inside, in_switch, inside)
    doubled = doublings(2 if collective is P2P else ranks)  # a hand-over is between two ranks
    return LinkRoof(bandwidth, ranks, efficiency, least, doubled, reduces)


def spread_out(gpu: Gpu, ranks: Real, stride: Real) -> Gpu:
    """The GPU as ranks see it that are so many GPUs apart: a node holds fewer of them, each with its own port.

    The GPU itself where all of them are in one node.
    """
    if type(gpu.node) is float and gpu.node == math.inf:  # of a program, within the domain
        return gpu
    leaves = above(ranks * stride, gpu.node, "ranks that are apart leave the node")
    if never(leaves):
        return gpu

    def held(domain: Real) -> Real:
        return maximum(floor(domain / stride, "ranks that are apart leave the node"), 1)

    link = replace(gpu.link, domain=where(leaves, held(gpu.link.domain), gpu.link.domain))
    host = None if gpu.host_domain is None else where(leaves, held(gpu.host_domain), gpu.host_domain)
    return replace(gpu, link=link, host_domain=host)


def link_efficiency(gpu: Gpu, collective: KernelKind, link: str | None = None) -> CollectiveEfficiency:
    """Parameters of a collective over a kind of link; None: that of the scale-up domain. Ideal without calibration."""
    if gpu.calibration is None:
        return IDEAL_LINK
    efficiency = gpu.calibration.collectives.get(collective.name)
    if (link or gpu.link.kind) == PCIE and gpu.calibration.link != PCIE:
        common = gpu.calibration.collectives.get(PCIE, efficiency)
        efficiency = gpu.calibration.collectives.get(beyond_bridge(collective), common)
    if efficiency is None:
        raise BadInput(f"calibration {gpu.calibration.name} has no {collective.name} parameters")
    return efficiency


def beyond_bridge(collective: KernelKind) -> str:
    """Name of a collective's own parameters over PCIe, where a calibration has more than common ones."""
    return f"{collective.name} over {PCIE}"


def _either_link(is_first: Real, first: CollectiveEfficiency, second: CollectiveEfficiency) -> CollectiveEfficiency:
    """Parameters of one of two links; only the first has in-switch reduction."""
    if never(is_first):
        return second
    names = ["a0", "a1", "a2", "q", "eta"]
    if first.sigma is not None and second.sigma is not None:
        names.append("sigma")
    return replace(first, **{name: where(is_first, getattr(first, name), getattr(second, name)) for name in names})


def _beyond_domain(gpu: Gpu, collective: KernelKind, ranks: Real, in_switch: Real) -> tuple[Real, Real]:
    """Rate [B/s] of a collective that leaves the scale-up domain, and the share of its time at the hardware limit.

    In a host whose bridges join only some of the cards, all traffic goes over PCIe: a ring is as fast as its slowest
    link. Beyond the node, calibrated, traffic within the node over the link and traffic between nodes over the GPU's
    network port follow each other; at the hardware limit all links work at once.
    """
    link, host = gpu.link, gpu.host_domain
    inner = _share_inside(collective, link.domain, ranks)
    ideal = _least_inside(inner, link.domain, ranks, in_switch) / link.bandwidth
    if host is None:
        return _across_nodes(gpu, collective, ranks, inner / link.bandwidth, ideal)
    over_host = _host_link(gpu)
    reach = minimum(ranks, host, "the ranks leave the host")
    ideal = maximum(ideal, _share_leaving(collective, link.domain, reach, ranks) / over_host, "bridge and PCIe swap")
    is_inside = at_most(ranks, host, "the ranks leave the host")
    if always(is_inside):
        return over_host, 1.0 if collective is P2P else ideal * over_host
    far = _across_nodes(gpu, collective, ranks, _share_inside(collective, host, ranks) / over_host, ideal)
    least = 1.0 if collective is P2P else where(is_inside, ideal * over_host, far[1])
    return where(is_inside, over_host, far[0]), least


def _across_nodes(gpu: Gpu, collective: KernelKind, ranks: Real, inside: Real, ideal: Real) -> tuple[Real, Real]:
    """`_beyond_domain` for several nodes; `inside`, `ideal` [s/B]: time in the node, calibrated and at the limit."""
    if gpu.scale_out is None and gpu.link.kind == NO_LINK:
        raise BadInput(
            f"{ranks:g} ranks: {gpu.name} works alone, as its specification has neither scale_up nor scale_out; use one"
        )
    if gpu.scale_out is None:
        raise BadInput(
            f"{ranks:g} ranks exceed the {gpu.node}-GPU {gpu.node_link} domain of {gpu.name}, whose "
            f"specification has no scale-out network; use at most {gpu.node} ranks"
        )
    if collective is P2P:
        return gpu.scale_out, 1.0
    outside = _share_leaving(collective, gpu.node, ranks, ranks) / gpu.scale_out
    ideal = maximum(ideal, outside, "scale-up link and network swap as bottleneck")
    return 1.0 / (inside + outside), ideal / (inside + outside)


def _share_inside(collective: KernelKind, group: Real, ranks: Real) -> Real:
    """Share of a rank's traffic that stays within its group."""
    if collective.is_exchange:  # every rank sends as much to every other
        return (group - 1) / (ranks - 1)
    return (group - 1) / group / _ring_share(ranks)


def _share_leaving(collective: KernelKind, group: Real, reach: Real, ranks: Real) -> Real:
    """Share of a rank's traffic that leaves its group, for other groups among `reach` ranks."""
    if collective.is_exchange:
        return (reach - group) / (ranks - 1)
    groups = ceil(reach / group, "another group is needed")
    return (groups - 1) / groups / group / _ring_share(ranks)


def _least_inside(inner: Real, group: Real, ranks: Real, in_switch: Real) -> Real:
    """Least share of a rank's traffic within its group; with in-switch reduction the tensor crosses once, not twice."""
    return where(in_switch, where(group > 1, 1.0 / (2.0 * _ring_share(ranks)), inner), inner)


def _ring_share(ranks: Real) -> Real:
    """Traffic of a rank on a ring over the tensor's size; an all-reduce sends twice that."""
    return (ranks - 1) / ranks


def _host_link(gpu: Gpu) -> Real:
    if gpu.host_link is None:
        raise BadInput(f"{gpu.name}: its specification has no host_link, over which cards beyond a bridge work")
    return gpu.host_link


def _short_versions(engines: Iterable[str], names: Mapping[str, str] = _ENGINE_NAMES) -> str:
    return " / ".join(filter(None, dict.fromkeys(_short_version(engine, names) for engine in engines)))


def _short_version(engine: str, names: Mapping[str, str]) -> str:
    """Engine and the first two parts of its version; empty for engines that are not named."""
    name, _, version = engine.partition(" ")
    shown = names.get(name)
    return "" if shown is None else f"{shown} {'.'.join(version.split('.')[:2])}"
