"""Which roof a kernel stands under: the GPU's rates with the efficiencies of the chosen basis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from roofline.errors import BadInput, shown
from roofline.ops import Real, above, always, at_most, ceil, maximum, minimum, never, where
from roofline.physics.one_equation import LIGHT, LIGHT_LINK, LinkRoof, Roof
from roofline.physics.plan import Deployment
from roofline.specs.calibration import CollectiveEfficiency, Efficiency
from roofline.specs.engine import Engine, Tuning
from roofline.specs.gpu import Gpu
from roofline.specs.kernels import ALL_REDUCE, P2P, KernelKind

__all__ = [
    "BASES",
    "DOUBLING",
    "basis_of",
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
    parts = (calibration.name, fitted, known, calibration.year)
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


def _tuned(under: Roof, gpu: Gpu, tuning: Tuning) -> Roof:
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
    """Roof of one collective over the ranks of a GPU's scale-up domain, or over the network beyond it.

    Args:
        gpu: the GPU.
        basis: ``ideal``, ``calibrated`` or ``inherited`` [text].
        collective: its kind.
        ranks: GPUs that take part [1].

    Returns:
        Link rate [B/s] and parameters [s, 1].

    Raises:
        BadInput: the ranks exceed the scale-up domain and the GPU states no network, or the
            calibration lacks the collective.

    Valid:
        Beyond a domain, calibrated, both ways are taken one after the other; at the hardware limit both at once.

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
        beyond = _across_domains(gpu, collective, ranks, in_switch)
        bandwidth, least = where(inside, bandwidth, beyond[0]), where(inside, least, beyond[1])
    if basis == "ideal" or gpu.calibration is None:
        return LinkRoof(bandwidth, ranks, LIGHT_LINK, least)
    efficiency = link_efficiency(gpu, collective)
    beyond_switch = never(inside) or never(in_switch)
    if efficiency.eta_switch is not None and beyond_switch:
        efficiency = replace(efficiency, eta_switch=None)
    reduces = where(inside, in_switch, inside)
    return LinkRoof(bandwidth, ranks, efficiency, least, doublings(ranks), reduces)


def link_efficiency(gpu: Gpu, collective: KernelKind) -> CollectiveEfficiency:
    """Parameters of one collective on a GPU.

    Args:
        gpu: the GPU, with its generation's calibration.
        collective: its kind.

    Returns:
        The parameters [s, 1]; at the hardware limit without a calibration.

    Raises:
        BadInput: the calibration lacks the collective.
    """
    if gpu.calibration is None:
        return LIGHT_LINK
    efficiency = gpu.calibration.collectives.get(collective.name)
    if gpu.link.kind == "pcie" and gpu.calibration.link != "pcie":
        efficiency = gpu.calibration.collectives.get("pcie", efficiency)
    if efficiency is None:
        raise BadInput(f"calibration {gpu.calibration.name} has no {collective.name} parameters")
    return efficiency


def _across_domains(gpu: Gpu, collective: KernelKind, ranks: Real, in_switch: Real) -> tuple[Real, Real]:
    """Rate of a collective that leaves the scale-up domain, and the share of its time that light needs.

    Each GPU works through its domain over the scale-up link and through its peers in the other
    domains over its own network port; calibrated one after the other, at the hardware limit both at once.
    """
    if gpu.scale_out is None:
        raise BadInput(
            f"{ranks:g} ranks exceed the {gpu.link.domain}-GPU {gpu.link.kind} domain of {gpu.name}, whose "
            f"specification has no scale-out network; use at most {gpu.link.domain} ranks"
        )
    domain, nodes = gpu.link.domain, ceil(ranks / gpu.link.domain, "another scale-up domain is needed")
    if collective is P2P:
        return gpu.scale_out, 1.0
    if collective.is_exchange:  # every rank sends as much to every other
        inner, outer = (domain - 1) / (ranks - 1), (ranks - domain) / (ranks - 1)
        least_inner = inner
    else:
        whole = (ranks - 1) / ranks  # in units of the tensor, twice for an all-reduce
        inner, outer = (domain - 1) / domain / whole, (nodes - 1) / nodes / domain / whole
        least_inner = where(in_switch, where(domain > 1, 1.0 / (2.0 * whole), inner), inner)
    inside, outside = inner / gpu.link.bandwidth, outer / gpu.scale_out
    light = maximum(least_inner / gpu.link.bandwidth, outside, "scale-up link and network swap as bottleneck")
    return 1.0 / (inside + outside), light / (inside + outside)


def _short_version(engine: str) -> str:
    """Engine and the first two parts of its version, empty for those that the basis does not name."""
    name, _, version = engine.partition(" ")
    shown = _SHOWN.get(name)
    return "" if shown is None else f"{shown} {'.'.join(version.split('.')[:2])}"
