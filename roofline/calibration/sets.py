"""A calibration from tables of timed kernels: a fit for each kind of kernel and dtype."""

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
from roofline.physics.one_equation import IDEAL, IDEAL_LINK, LinkRoof, Roof, collective_time, kernel_time
from roofline.records import NamedTuple
from roofline.specs.calibration import Calibration
from roofline.specs.gpu import Gpu
from roofline.specs.kernels import KINDS, MOE
from roofline.specs.timed_kernels import KernelGroup

_SLACK, _MOST_FASTER = 0.1, 0.5  # of ln(ideal / measured); share of rows beyond it
#: Weight of a row of experts that are spread over ranks: ten of them shift the constants that all rows share, but for
#: t0_ep, as much as one row of a rank that holds all experts.
_SPREAD_WEIGHT = 0.1
_MOST_RESIDUAL = 1.2  # median |ln(predicted / measured)| of a fit


class Judged(NamedTuple):
    """ln(predicted / measured) of the rows of one group."""

    group: KernelGroup
    log_ratios: Any  # calibrated
    ideal_log_ratios: Any  # under the textbook roofline
    sigma: float | None  # of the calibration


def kernel_sample(group: KernelGroup, gpu: Gpu) -> Sample:
    """A group as a sample to fit; collectives beyond one scale-up domain are refused."""
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
    """Fitted sets of a calibration file by kind and dtype (collectives: ``bf16``), and their sources.

    `base` centres the priors of the fits; None for the built-in start values.
    """
    sets: dict[str, dict[str, Any]] = {}
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
        sets.setdefault(group.kind, {})[group.dtype] = _set(fit, key)
    if not sets:
        raise BadInput(f"no kernels of {gpu.name} in the tables; their gpu column must say {gpu.name}")
    return sets, sources


def judged(group: KernelGroup, gpu: Gpu, calibration: Calibration) -> Judged | None:
    """A group judged by a calibration; None where it has no set of this kind and dtype."""
    known = _known(calibration, group)
    if not known:
        return None
    sample = kernel_sample(group, gpu)
    efficiency = calibration.kernels.get((group.kind, group.dtype)) or calibration.collectives.get(group.kind)
    return Judged(group, log_ratio(sample, known), _ideal(sample), None if efficiency is None else efficiency.sigma)


def _ideal(sample: Sample) -> Any:
    """ln(predicted / measured) under the textbook roofline."""
    if isinstance(sample.roof, LinkRoof):
        return np.log(collective_time(sample.work, sample.roof._replace(efficiency=IDEAL_LINK)).total / sample.latency)
    return np.log(kernel_time(sample.work, sample.roof._replace(efficiency=IDEAL)).total / sample.latency)


def median_error(log_ratios: Any) -> float:
    """Median of |ln(predicted / measured)|."""
    return float(np.median(np.abs(log_ratios)))


def _known(base: Calibration | None, group: KernelGroup) -> Mapping[str, float]:
    """Parameters of a calibration for a group; empty where it has none."""
    if base is None:
        return {}
    if KINDS[group.kind].is_collective:
        efficiency: Any = base.collectives.get(group.kind)
    else:
        efficiency = base.kernels.get((group.kind, group.dtype))
    fields = asdict(efficiency) if efficiency is not None else {}
    return {name: value for name, value in fields.items() if name not in ("is_measured", "sigma") and value is not None}


def _equal_engines(group: KernelGroup) -> Any:
    """Row weights that give every engine the same total."""
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
