"""80 % intervals of predictions, from the residuals of kernels, passes and hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.ops import Real, where
from roofline.physics.forward import Pass
from roofline.quantity import MILLI
from roofline.serving.served import Served
from roofline.specs.kernels import HOST, LOADING, NETWORK, KernelKind

if TYPE_CHECKING:
    from roofline.serving.traffic.pools import Pooled

#: Half width of the 80 % interval of a normal distribution, in standard deviations.
HALF_WIDTH = 1.2816

_E = 2.718281828459045

#: Sigma of kernels whose constants are assumed or borrowed from another kind.
_ASSUMED = 0.35
#: Sigma of host time: request overheads of the fitted engines range from 25 to 80 ms.
_HOST = 0.5
#: Factor for constants measured on another GPU of the generation, a judgement (docs/method.md): between B200 and GB300,
#: swapping sets raises errors by a median factor of 1.05, in 46 of 48 sets by at most 1.25, at worst by 1.38.
INHERITED = 1.25
#: Extra sigma of passes with latent attention, recurrent state or sparse attention, whose modules launch more small
#: kernels than are counted.
_NOVEL = 0.1
#: Share of a kernel's residual that other shapes of its kind have in common: the sum of a layer's GEMMs is predicted
#: better than a single one.
_SHARED = 0.6
#: Sigma of servers under a load beyond the kernels' own (docs/accuracy.md): of TPOT; of TTFT where the engine profile
#: states none; factor on it with many requests in flight; of TTFT where requests wait for memory.
_LOADED_TPOT, _LOADED_TTFT, _CROWDED, _LIMITED_TTFT = 0.09, 0.42, 1.7, 1.1
#: Sigma of TPOT on a decode pool, beyond the kernels' own: its median error over measured pools (docs/accuracy.md,
#: "Separate pools", not fitted), over that of a normal distribution.
POOLED_TPOT = 0.146 / 0.6745
_CROWD = 64.0  # requests in flight
_WAITING = MILLI  # share of requests that wait for a slot
#: Sigma of kernels of a generation that was never timed.
_GENERIC = 0.6


def pass_sigma(passed: Pass, basis: str, sigma: Real) -> Real:
    r"""Standard deviation of ln(predicted / measured) of a pass.

    .. math:: \sigma^2 = \sigma_0^2 + \sigma_{novel}^2
              + \sum_g \left(\frac{t_g}{t} \sigma_g\right)^2

    Errors are fully correlated within a kind and dtype, independent between kinds and of the error of the whole pass.

    Args:
        passed: kernels with the residuals of their calibration.
        basis: calibrated, inherited or generic [text].
        sigma: of whole passes, beyond the kernels' own [1].

    Returns:
        Standard deviation [1].

    Source:
        docs/method.md, "Intervals"; coverage in docs/accuracy.md.
    """
    variance = passed.figures(_generic_variance if basis == "generic" else _variance)[0]
    return (sigma * sigma + variance) ** 0.5 * (INHERITED if basis == "inherited" else 1.0)


def _variance(passed: Pass, *, is_generic: bool = False) -> tuple[Real, ...]:
    """Variance of the logarithm of a pass, from its kernels alone."""
    times: dict[tuple[KernelKind, str], Real] = {}
    sigmas: dict[tuple[KernelKind, str], float] = {}
    for kernel in passed.kernels:
        if kernel.part in (NETWORK, LOADING):  # stated by the user
            continue
        key = kernel.kind, kernel.dtype
        times[key] = times.get(key, 0.0) + kernel.time
        sigmas[key] = _kernel_sigma(kernel.kind, kernel.roof.efficiency.sigma, is_generic=is_generic)
    pass_time: Real = 0.0
    for time in times.values():
        pass_time = pass_time + time
    total: Real = _NOVEL**2 if any(kind.is_novel for kind, _ in times) else 0.0
    for key, time in times.items():
        share = time / pass_time * sigmas[key]
        total = total + share * share
    return (total,)


def _generic_variance(passed: Pass) -> tuple[Real, ...]:
    return _variance(passed, is_generic=True)


def load_sigma(
    step: Pass, basis: str, result: str, under_load: Served | Pooled, users: Real, stated: float | None
) -> Real:
    """Standard deviation of ln(predicted / measured) of a latency under a load.

    Args:
        step: decode step at the batch of the load, without a prompt.
        basis: calibrated, inherited or generic [text].
        result: ttft or tpot [text].
        under_load: mean figures of the load.
        users: requests in flight on a replica [requests].
        stated: sigma of TTFT under a load in the engine profile, if any [1].

    Returns:
        Standard deviation [1].

    Source:
        Residuals of measured servers, docs/accuracy.md, with their coverage.
    """
    if result == "tpot":
        return pass_sigma(step, basis, _LOADED_TPOT)
    loaded = _LOADED_TTFT if stated is None else stated
    crowded = where(users > _CROWD, _CROWDED * loaded, loaded)
    return pass_sigma(step, basis, where(under_load.waiting_share > _WAITING, _LIMITED_TTFT, crowded))


def spread(time: Real, sigma: Real) -> tuple[Real, Real]:
    """Ends of the 80 % interval of a log-normal distribution.

    Args:
        time: its median [s].
        sigma: of its logarithm [1].

    Returns:
        Low and high end [s].

    Valid:
        Residuals are log-normal; the measured coverage is in docs/accuracy.md.

    Source:
        90th percentile of a normal distribution, 1.2816 standard deviations above its mean.
    """
    factor = _E ** (HALF_WIDTH * sigma)
    return time / factor, time * factor


def _kernel_sigma(kind: KernelKind, sigma: float | None, *, is_generic: bool) -> float:
    if kind is HOST:
        return _HOST
    if is_generic:
        return _GENERIC
    return _ASSUMED if sigma is None else _SHARED * sigma
