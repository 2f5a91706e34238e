"""A calibration from tables of timed kernels: one fit a kind of kernel and dtype."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC
from typing import Any

import numpy as np

from roofline.calibration.fitting import Fit, Sample, fitted, log_ratio
from roofline.calibration.kernel_work import compute_dtype, kernel_work
from roofline.calibration.text import parameter_texts
from roofline.errors import BadInput
from roofline.physics.efficiency import doublings, link_roof
from roofline.physics.one_equation import LIGHT, LIGHT_LINK, LinkRoof, Roof, collective_time, kernel_time
from roofline.records import NamedTuple
from roofline.specs.calibration import Calibration
from roofline.specs.gpu import Gpu
from roofline.specs.kernels import KINDS, MOE
from roofline.specs.timed_kernels import KernelGroup

__all__ = ["Judged", "calibrated_sets", "judged", "kernel_sample", "median_error"]


_SLACK, _MOST_FASTER = 0.1, 0.5  # of ln(ideal / measured); share of rows beyond it
#: Weight of a row of experts that are spread over ranks: ten of them shift the constants that all rows share, but for
#: t0_ep, as much as one row of a rank that holds all experts.
_SPREAD_WEIGHT = 0.1
_MOST_RESIDUAL = 1.2  # median |ln(predicted / measured)| of a fit


class Judged(NamedTuple):
    """Rows of one group against a calibration, as ln(predicted / measured)."""

    group: KernelGroup
    log_ratios: Any  # calibrated
    ideal_log_ratios: Any  # of the textbook roofline
    sigma: float | None  # that the calibration states


def kernel_sample(group: KernelGroup, gpu: Gpu) -> Sample:
    """Measured kernels of one group as a sample to fit.

    Args:
        group: measurements of one kind of kernel at one dtype.
        gpu: the GPU that they were measured on.

    Returns:
        The sample; collectives among more GPUs than one scale-up domain holds are refused.

    Raises:
        BadInput: a dtype that the kind or the GPU does not have, more ranks than the domain.
    """
    kind, latency = KINDS[group.kind], np.asarray(group.columns["latency"])
    under: Roof | LinkRoof
    if kind.is_collective:
        ranks = np.asarray(group.columns["ranks"])
        if ranks.max() > gpu.link.domain:
            raise BadInput(f"{ranks.max():.0f} ranks exceed the {gpu.link.domain}-GPU scale-up domain of {gpu.name}")
        roofs = {number: link_roof(gpu, "ideal", kind, int(number)) for number in set(ranks.tolist())}
        columns = zip(*((roofs[n].bandwidth, roofs[n].least, doublings(n)) for n in ranks.tolist()), strict=True)
        bandwidth, least, doubled = map(np.asarray, columns)
        under = LinkRoof(bandwidth, ranks, roofs[ranks[0]].efficiency, least, doubled)
    else:
        peak = gpu.peaks[compute_dtype(gpu, kind, group.dtype)]
        under = Roof(peak, gpu.bandwidth, math.inf if gpu.exp_rate is None else gpu.exp_rate)
    spread = np.asarray(group.columns["ep"]) > 1 if kind is MOE else np.zeros(len(latency), dtype=bool)
    weight = _equal_engines(group) * np.where(spread, _SPREAD_WEIGHT, 1.0)
    return Sample(kind, kernel_work(group, gpu), under, latency, weight, spread)


def calibrated_sets(
    groups: Iterable[KernelGroup], gpu: Gpu, base: Calibration | None, title: str, url: str | None = None
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Sets of a calibration file, fitted on measured kernels of one GPU.

    Args:
        groups: measurements of this GPU.
        gpu: the GPU.
        base: calibration that the priors are centred on; None for the built-in starts.
        title: what the tables are, for the sources [text].
        url: where they are public, if they are [text].

    Returns:
        kind -> dtype -> set (collectives have the one dtype ``bf16``), and the sources that the sets
        name: one for each combination of engines [record].

    Raises:
        BadInput: no rows of this GPU, fewer rows than parameters, no scipy.
    """
    found: dict[str, dict[str, Any]] = {}
    sources: dict[str, dict[str, Any]] = {}
    for group in groups:
        sample = kernel_sample(group, gpu)
        faster = float(np.mean(_ideal(sample) > _SLACK))
        if faster > _MOST_FASTER:
            raise BadInput(
                f"{faster:.0%} of the {group.dtype} {group.kind} rows are faster than the hardware limit; check the "
                "unit (latency_us is in microseconds), the GPU, and whether data stayed in the cache"
            )
        fit = fitted(sample, _known(base, group))
        if fit.residual > _MOST_RESIDUAL:
            raise BadInput(
                f"the {group.dtype} {group.kind} rows are {fit.residual:.0%} off the best fit; check the unit "
                "(latency_us is in microseconds) and what was timed"
            )
        engines = "-".join(dict.fromkeys(version.split()[0] for version in group.versions)) or "unnamed"
        key = f"kernels-{engines}"
        date = group.dates[-1] if group.dates else _today()
        public = {} if url is None else {"url": url}
        sources[key] = {"title": title, **public, "date": date, "engines": [*group.versions], "gpus": [gpu.name]}
        found.setdefault(group.kind, {})[group.dtype] = _set(fit, key)
    if not found:
        raise BadInput(f"no kernels of {gpu.name} in the tables; their gpu column must say {gpu.name}")
    return found, sources


def judged(group: KernelGroup, gpu: Gpu, calibration: Calibration) -> Judged | None:
    """Rows of a group against a calibration.

    Args:
        group: measurements.
        gpu: the GPU that they were measured on.
        calibration: parameters to judge.

    Returns:
        Their log ratios; None where the calibration has no set of this kind and dtype [1].

    Raises:
        BadInput: a dtype that the kind or the GPU does not have.
    """
    known = _known(calibration, group)
    if not known:
        return None
    sample = kernel_sample(group, gpu)
    stated = calibration.kernels.get((group.kind, group.dtype)) or calibration.collectives.get(group.kind)
    return Judged(group, log_ratio(sample, known), _ideal(sample), None if stated is None else stated.sigma)


def _ideal(sample: Sample) -> Any:
    """The same rows under the textbook roofline."""
    if isinstance(sample.roof, LinkRoof):
        return np.log(collective_time(sample.work, sample.roof._replace(efficiency=LIGHT_LINK)).total / sample.latency)
    return np.log(kernel_time(sample.work, sample.roof._replace(efficiency=LIGHT)).total / sample.latency)


def median_error(log_ratios: Any) -> float:
    """Median of |ln(predicted / measured)|.

    Args:
        log_ratios: logarithms, one a row [1].

    Returns:
        The median [1].
    """
    return float(np.median(np.abs(log_ratios)))


def _known(base: Calibration | None, group: KernelGroup) -> Mapping[str, float]:
    """Parameters that a calibration has for a group."""
    if base is None:
        return {}
    if KINDS[group.kind].is_collective:
        found: Any = base.collectives.get(group.kind)
    else:
        found = base.kernels.get((group.kind, group.dtype))
    kept = asdict(found) if found is not None else {}
    return {name: value for name, value in kept.items() if name not in ("is_measured", "sigma") and value is not None}


def _equal_engines(group: KernelGroup) -> Any:
    """Weights that give every engine as much say, however many rows it has."""
    engines = np.asarray(group.engines)
    names, counts = np.unique(engines, return_counts=True)
    share = dict(zip(names, len(engines) / (len(names) * counts), strict=True))
    return np.asarray([share[name] for name in engines])


def _today() -> str:
    from datetime import datetime

    return datetime.now(UTC).date().isoformat()


def _set(fit: Fit, source: str) -> dict[str, Any]:
    return {
        **parameter_texts(fit.parameters),
        "residual": max(float(f"{fit.residual:.2g}"), 0.001),
        "sigma": max(float(f"{fit.sigma:.2g}"), 0.001),
        "measurements": fit.measurements,
        "source": source,
    }
