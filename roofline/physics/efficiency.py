"""Which roof a kernel stands under: the GPU's rates with the efficiencies of the chosen basis."""

from __future__ import annotations

import math
from collections.abc import Mapping

from roofline.errors import BadInput, shown
from roofline.ops import Real, above, always, at_most, ceil, maximum, minimum, never, where
from roofline.physics.one_equation import LIGHT, LIGHT_LINK, LinkRoof, Roof
from roofline.physics.plan import Deployment
from roofline.records import replace
from roofline.specs.calibration import CollectiveEfficiency, Efficiency
from roofline.specs.engine import Engine, KernelOverride
from roofline.specs.gpu import PCIE, Gpu
from roofline.specs.kernels import ALL_REDUCE, P2P, KernelKind

__all__ = [
    "BASES",
    "DOUBLING",
    "basis_of",
    "beyond_bridge",
    "calibrated_set",
    "doublings",
    "evidence",
    "link_efficiency",
    "link_roof",
    "measured_kind",
    "roof",
    "tuned",
]

BASES = ("calibrated", "ideal")

#: What it means that ranks are a power of two.
DOUBLING = "the ranks pass a power of two"

_MOST_DOUBLINGS = 20  # a million ranks
_REACHES_ONE = "an efficiency reaches 1"

#: Engines that the basis names, whose kernels most sets were fitted on; a calibration's file lists them all.
_SHOWN = {"trtllm": "TRT-LLM", "vllm": "vLLM"}

#: Dtypes that stand in for one that was never measured, nearest first.
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
    """Basis on which a GPU's figures stand.

    Args:
        gpu: the GPU, with its generation's calibration or none.
        requested: ``calibrated`` or ``ideal`` [text].

    Returns:
        ``ideal``; ``calibrated`` where kernels of this very GPU were measured; ``inherited`` where
        those of another GPU of its generation were; ``generic`` where none of its generation were [text].

    Raises:
        BadInput: another word was requested.
    """
    if requested not in BASES:
        raise BadInput(f"unknown basis {shown(requested)}; choose from {', '.join(BASES)}")
    if requested == "ideal" or gpu.calibration is None:
        return "ideal"
    if gpu.name in gpu.calibration.measured_on:
        return "calibrated"
    return "generic" if gpu.calibration.name == "generic" else "inherited"


def evidence(deployment: Deployment) -> str:
    """Basis of a deployment with what it rests on.

    Args:
        deployment: model, GPU, plan, precision and basis.

    Returns:
        Text such as ``calibrated: hopper, 1,840 kernels, TRT-LLM 1.3 / vLLM 0.24, 2026`` [text].
    """
    calibration = deployment.gpu.calibration
    if deployment.basis == "ideal" or calibration is None:
        return "ideal: hardware limit"
    if deployment.basis == "generic":
        return f"generic: medians of other generations, {deployment.gpu.generation} not timed"
    fitted = f"{calibration.measurements:,} kernels" if calibration.measurements else "assumptions"
    engines = dict.fromkeys(_short_version(engine) for engine in calibration.engines)
    known = " / ".join(engine for engine in engines if engine)
    gpu = deployment.gpu
    clocks = f"eta_c x {gpu.sustained:g}" if deployment.basis == "inherited" and gpu.sustained != 1.0 else ""
    parts = (calibration.name, fitted, known, calibration.year, clocks)
    return f"{deployment.basis}: {', '.join(part for part in parts if part)}"


def measured_kind(sets: Mapping[tuple[str, str], Efficiency], kind: KernelKind) -> KernelKind:
    """Kind of kernel whose measured parameters a kind uses.

    Args:
        sets: parameters by name of the kind and dtype key.
        kind: kind of kernel.

    Returns:
        The kind itself, or the one that stands in.
    """
    if kind.stand_in is None or any(measured == kind.name for measured, _ in sets):
        return kind
    return kind.stand_in


def calibrated_set(sets: Mapping[tuple[str, str], Efficiency], kind: KernelKind, key: str) -> tuple[Efficiency, str]:
    """Measured parameters of a kind of kernel at a dtype, or of the nearest dtype that has some.

    Args:
        sets: parameters by name of the kind and dtype key.
        kind: kind of kernel.
        key: dtype key [text].

    Returns:
        The parameters, and the dtype key that they were measured at [record, text].

    Raises:
        BadInput: the calibration has nothing for this kind.
    """
    for candidate in (key, *_STAND_INS.get(key, ()), "bf16"):
        found = sets.get((kind.name, candidate))
        if found is not None:
            return found, candidate
    if kind.stand_in is not None:
        return calibrated_set(sets, kind.stand_in, key)
    raise BadInput(f"the calibration has no parameters for {kind.name} kernels")


def roof(gpu: Gpu, basis: str, kind: KernelKind, key: str, peak: str) -> Roof:
    """Roof of one kind of kernel on a GPU.

    Args:
        gpu: the GPU.
        basis: ``ideal``, ``calibrated`` or ``inherited`` [text].
        kind: kind of kernel.
        key: dtype key of its calibration [text].
        peak: dtype at which it multiplies [text].

    Returns:
        Rates [FLOP/s, B/s, exp/s] and efficiencies [1].

    Raises:
        BadInput: the calibration has nothing for this kind.
    """
    exp_rate: Real = math.inf if gpu.exp_rate is None else gpu.exp_rate  # unknown: not charged
    if basis == "ideal" or gpu.calibration is None:
        return Roof(gpu.peaks[peak], gpu.bandwidth, exp_rate, LIGHT)
    efficiency, _ = calibrated_set(gpu.calibration.kernels, kind, key)
    if efficiency.sigma is not None and (kind.name, key) not in gpu.calibration.kernels:
        efficiency = replace(efficiency, sigma=None)  # a stand-in's residuals say nothing of the kernel it stands for
    return Roof(gpu.peaks[peak], gpu.bandwidth, exp_rate, efficiency)


def tuned(under: Roof, gpu: Gpu, engine: Engine, kind: KernelKind, key: str) -> Roof:
    """A roof as the kernels of an engine meet it.

    Args:
        under: the calibrated roof.
        gpu: the GPU.
        engine: profile whose kernels may differ.
        kind: kind of kernel.
        key: dtype key of its calibration [text].

    Returns:
        Rates [FLOP/s, B/s, exp/s] and efficiencies [1], none beyond the hardware limit.
    """
    for tuning in engine.tunings:
        fits = tuning.kind == kind.name and tuning.dtype in (None, key)
        if fits and tuning.generation in (None, gpu.generation):
            under = _tuned(under, gpu, tuning)
    return under


def _tuned(under: Roof, gpu: Gpu, tuning: KernelOverride) -> Roof:
    """A roof as one tuning moves it."""
    share = under.efficiency.eta_c if tuning.eta_c is None else tuning.eta_c
    efficiency = replace(
        under.efficiency,
        eta_c=minimum(share * tuning.compute, 1.0, _REACHES_ONE),
        eta_x=under.efficiency.eta_x * tuning.compute,
        eta_m=minimum(under.efficiency.eta_m * tuning.memory, 1.0, _REACHES_ONE),
    )
    peak = under.peak
    if tuning.peak is not None:
        peak = minimum(peak, gpu.peaks.get(tuning.peak, peak), "another peak applies")
    return under._replace(peak=peak, efficiency=efficiency)


def doublings(ranks: Real) -> Real:
    """Doublings of one rank that make them all, rounded up.

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
        Beyond a node, calibrated, both ways are taken one after the other; at the hardware limit all at once. Cards
        beyond their bridge use PCIe alone, calibrated; at the hardware limit the bridge takes its share.

    Source:
        docs/method.md, "Collectives"; ranks fill one domain after the other.
    """
    link, inside = gpu.link, at_most(ranks, gpu.link.domain, "the ranks leave the scale-up domain")
    in_switch = link.in_switch_reduction if collective is ALL_REDUCE else False
    bandwidth: Real = link.bandwidth
    # Of a mesh only the links to the ranks that take part carry anything.
    if link.peer_bandwidth is not None and not never(inside):
        peers = link.peer_bandwidth * (ranks - 1)
        bandwidth = where(inside, minimum(bandwidth, peers, "the links to all peers reach their full rate"), bandwidth)
    least = where(in_switch, ranks / (2.0 * (ranks - 1)), 1.0)
    if not always(inside):
        beyond = _beyond_domain(gpu, collective, ranks, in_switch)
        bandwidth, least = where(inside, bandwidth, beyond[0]), where(inside, least, beyond[1])
    if basis == "ideal" or gpu.calibration is None:
        return LinkRoof(bandwidth, ranks, LIGHT_LINK, least)
    efficiency = link_efficiency(gpu, collective)
    if gpu.host_domain is not None and not always(inside):
        efficiency = _either(inside, efficiency, link_efficiency(gpu, collective, PCIE))
    beyond_switch = never(inside) or never(in_switch)
    if efficiency.eta_switch is not None and beyond_switch:
        efficiency = replace(efficiency, eta_switch=None)
    reduces = where(inside, in_switch, inside)
    doubled = doublings(2 if collective is P2P else ranks)  # a hand-over has two ends, wherever they lie
    return LinkRoof(bandwidth, ranks, efficiency, least, doubled, reduces)


def link_efficiency(gpu: Gpu, collective: KernelKind, link: str | None = None) -> CollectiveEfficiency:
    """Parameters of one collective on a GPU.

    Args:
        gpu: the GPU, with its generation's calibration.
        collective: its kind.
        link: kind of link that it crosses; None for that of the scale-up domain [text].

    Returns:
        The parameters [s, 1]; at the hardware limit without a calibration.

    Raises:
        BadInput: the calibration lacks the collective.
    """
    if gpu.calibration is None:
        return LIGHT_LINK
    efficiency = gpu.calibration.collectives.get(collective.name)
    if (link or gpu.link.kind) == PCIE and gpu.calibration.link != PCIE:
        of_all = gpu.calibration.collectives.get(PCIE, efficiency)
        efficiency = gpu.calibration.collectives.get(beyond_bridge(collective), of_all)
    if efficiency is None:
        raise BadInput(f"calibration {gpu.calibration.name} has no {collective.name} parameters")
    return efficiency


def beyond_bridge(collective: KernelKind) -> str:
    """Name of the parameters of one collective over PCIe, where a calibration has more than those of all.

    Args:
        collective: its kind.

    Returns:
        The name [text].
    """
    return f"{collective.name} over {PCIE}"


def _either(condition: Real, efficiency: CollectiveEfficiency, other: CollectiveEfficiency) -> CollectiveEfficiency:
    """Parameters on one of two links; a switch reduces on the first alone."""
    if never(condition):
        return other
    names = ("a0", "a1", "a2", "q", "eta")
    return replace(
        efficiency, **{name: where(condition, getattr(efficiency, name), getattr(other, name)) for name in names}
    )


def _beyond_domain(gpu: Gpu, collective: KernelKind, ranks: Real, in_switch: Real) -> tuple[Real, Real]:
    """Rate of a collective that leaves the scale-up domain, and the share of its time that light needs.

    Within a host whose cards bridges join in smaller groups all of it goes over PCIe: a ring is as fast as its slowest
    link. Beyond the node each GPU works through its node over the link, and through its peers in the other nodes over
    its own network port; calibrated one after the other. At the hardware limit every link carries its share at once.
    """
    link, host = gpu.link, gpu.host_domain
    inner = _within(collective, link.domain, ranks)
    light = _light_within(inner, link.domain, ranks, in_switch) / link.bandwidth
    if host is None:
        return _across_nodes(gpu, collective, ranks, inner / link.bandwidth, light)
    over_host = _host_link(gpu)
    reach = minimum(ranks, host, "the ranks leave the host")
    light = maximum(light, _leaving(collective, link.domain, reach, ranks) / over_host, "bridge and PCIe swap")
    stays = at_most(ranks, host, "the ranks leave the host")
    if always(stays):
        return over_host, 1.0 if collective is P2P else light * over_host
    far = _across_nodes(gpu, collective, ranks, _within(collective, host, ranks) / over_host, light)
    least = 1.0 if collective is P2P else where(stays, light * over_host, far[1])
    return where(stays, over_host, far[0]), least


def _across_nodes(gpu: Gpu, collective: KernelKind, ranks: Real, inside: Real, light: Real) -> tuple[Real, Real]:
    """The same beyond the node, where a byte takes so long inside it, and at the hardware limit [s/B]."""
    if gpu.scale_out is None:
        raise BadInput(
            f"{ranks:g} ranks exceed the {gpu.node}-GPU {gpu.node_link} domain of {gpu.name}, whose "
            f"specification has no scale-out network; use at most {gpu.node} ranks"
        )
    if collective is P2P:
        return gpu.scale_out, 1.0
    outside = _leaving(collective, gpu.node, ranks, ranks) / gpu.scale_out
    light = maximum(light, outside, "scale-up link and network swap as bottleneck")
    return 1.0 / (inside + outside), light / (inside + outside)


def _within(collective: KernelKind, group: Real, ranks: Real) -> Real:
    """Share of what a rank sends that stays within its group."""
    if collective.is_exchange:  # every rank sends as much to every other
        return (group - 1) / (ranks - 1)
    return (group - 1) / group / _whole(ranks)


def _leaving(collective: KernelKind, group: Real, reach: Real, ranks: Real) -> Real:
    """Share of what a rank sends that leaves its group, for other groups among `reach` ranks."""
    if collective.is_exchange:
        return (reach - group) / (ranks - 1)
    groups = ceil(reach / group, "another group is needed")
    return (groups - 1) / groups / group / _whole(ranks)


def _light_within(inner: Real, group: Real, ranks: Real, in_switch: Real) -> Real:
    """Share that a group cannot do without: half of the tensor's way where a switch reduces."""
    return where(in_switch, where(group > 1, 1.0 / (2.0 * _whole(ranks)), inner), inner)


def _whole(ranks: Real) -> Real:
    """What a rank sends on a ring, in units of the tensor; twice for an all-reduce."""
    return (ranks - 1) / ranks


def _host_link(gpu: Gpu) -> Real:
    """Rate of the link to the host."""
    if gpu.host_link is None:
        raise BadInput(f"{gpu.name}: its specification has no host_link, over which cards beyond a bridge work")
    return gpu.host_link


def _short_version(engine: str) -> str:
    """Engine and the first two parts of its version, empty for those that the basis does not name."""
    name, _, version = engine.partition(" ")
    shown = _SHOWN.get(name)
    return "" if shown is None else f"{shown} {'.'.join(version.split('.')[:2])}"
