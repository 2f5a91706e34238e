"""Parts of a pass as measured: which share of the hardware they reach, and which factor on one explains a time."""

from __future__ import annotations

import math

from roofline.physics.equation import Kernel, Roof
from roofline.physics.passes import Pass
from roofline.questions.diagnosis import MOST_PLAUSIBLE
from roofline.serving.verdict import pass_sigma
from roofline.specs.gpu import HEAD, NETWORK
from roofline.support.records import NamedTuple

#: Part of a time beyond its kernels.
BESIDE = "queue and other prompts"
#: Relative error of a sum over kernels.
ROUNDING = 2.0**-30


class Part(NamedTuple):
    """A group of kernels, with the factor on its time that alone would explain a measured time."""

    name: str
    time: float  # [s] predicted
    share: float  # of the predicted pass
    factor: float | None  # None where no positive one would do
    sigma: float | None = None  # of ln(predicted / measured) of such kernels; None without residuals

    @property
    def is_plausible(self) -> bool:
        return self.factor is not None and 1.0 / MOST_PLAUSIBLE <= self.factor <= MOST_PLAUSIBLE


def mfu(pass_: Pass, time: float) -> float:
    r"""Share of the peak arithmetic rate that a pass reached, each kernel at the peak of its own compute dtype.

    .. math:: MFU = \frac{1}{t} \sum_k \frac{F_k}{P_k}

    With one dtype this is the usual F / (t P). With pipeline parallelism it is the share of the active stage.

    Args:
        pass_: the kernels of one GPU.
        time: measured time of the pass [s].

    Returns:
        The share [1]; above one, the time cannot belong to this pass.

    Source:
        Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B, here with the arithmetic of attention.
    """
    at_peak = sum(
        kernel.count * kernel.work.flop / kernel.roof.peak for kernel in pass_.kernels if isinstance(kernel.roof, Roof)
    )
    return float(at_peak) / time


def mbu(pass_: Pass, bandwidth: float, time: float) -> float:
    r"""Share of the HBM bandwidth that a pass reached.

    .. math:: MBU = \frac{Q}{t W}

    Args:
        pass_: the kernels of one GPU.
        bandwidth: HBM rate W [B/s].
        time: measured time of the pass [s].

    Returns:
        The share [1]; above one, the time cannot belong to this pass.

    Source:
        Databricks, "LLM Inference Performance Engineering: Best Practices", 2023, here with all traffic
        of the pass, including activations.

    >>> mbu(Pass(()), 1.0, 1.0)
    0.0
    """
    return float(pass_.nbytes) / (time * bandwidth)


def parts(pass_: Pass, expected: float, measured: float, basis: str = "calibrated") -> tuple[Part, ...]:
    r"""Groups of kernels of a pass, each with the factor on its time that alone would explain the measured time.

    .. math:: t - t_i + x_i t_i = t_{measured} \quad\Rightarrow\quad x_i = 1 + (t_{measured} - t) / t_i

    Args:
        pass_: the kernels of the pass.
        expected: its predicted time t; what exceeds the kernels forms a part of its own [s].
        measured: measured time [s].
        basis: of single kernels (`basis_of_kernels`), or ideal; sets how uncertain kernel times are.

    Returns:
        The groups, those with a factor nearest to one first and those without a positive factor last.
    """
    times = times_of(pass_)
    beside = expected - sum(times.values())
    if beside > ROUNDING * expected:
        times[BESIDE] = beside
    groups = [
        Part(name, time, time / expected, _factor(time, measured - expected), _sigma(pass_, name, basis))
        for name, time in times.items()
        if time > 0.0
    ]
    return tuple(sorted(groups, key=lambda part: math.inf if part.factor is None else abs(math.log(part.factor))))


def times_of(pass_: Pass) -> dict[str, float]:
    """Time by group of kernels [s]."""
    times: dict[str, float] = {}
    for kernel in pass_.kernels:
        name = _group(kernel)
        times[name] = times.get(name, 0.0) + float(kernel.time)
    return times


def _sigma(pass_: Pass, group: str, basis: str) -> float | None:
    """Sigma of ln(time) of a group of kernels; None for an empty group or the ideal basis."""
    kernels = tuple(kernel for kernel in pass_.kernels if _group(kernel) == group and kernel.part != NETWORK)
    if basis == "ideal" or not sum(float(kernel.time) for kernel in kernels) > 0.0:
        return None
    return float(pass_sigma(Pass(kernels), basis, 0.0))


def _factor(time: float, gap: float) -> float | None:
    factor = 1.0 + gap / time
    return factor if factor > 0.0 else None


def _group(kernel: Kernel) -> str:
    return HEAD if kernel.label == HEAD else kernel.kind.group or kernel.kind.label
