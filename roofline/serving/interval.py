"""How far a prediction may be off: 80 % intervals from the residuals of kernels, passes and hosts."""

from __future__ import annotations

from roofline.ops import Real, where
from roofline.physics.forward import Pass
from roofline.quantity import MILLI
from roofline.serving.served import Served
from roofline.specs.kernels import HOST, LOADING, NETWORK, KernelKind

__all__ = ["HALF_WIDTH", "load_sigma", "pass_sigma", "spread"]

#: Standard deviations of a normal from its middle to the end of its 80 % interval.
HALF_WIDTH = 1.2816

_E = 2.718281828459045

#: ln(predicted / measured) of kernels whose constants were assumed, or stand in for others.
_ASSUMED = 0.35
#: Of the host's time: request overheads of the engines fitted lie between 25 and 80 ms.
_HOST = 0.5
#: Factor where another GPU of the generation was timed, a judgement (docs/method.md): kernels of B200 under GB300's
#: sets and back are off a median of 1.05 times as far as under their own, 46 of 48 sets at most 1.25, the worst 1.38.
INHERITED = 1.25
#: Further sigma of whole passes with latent attention, recurrent state or sparse attention, whose modules hold more
#: small kernels than are counted.
_NOVEL = 0.1
#: Share of a kernel's residual that the other shapes of its kind in a pass have, too: sets are off less
#: for the sum of a layer's GEMMs than for one of them.
_SHARED = 0.6
#: Of ln(predicted / measured) of servers under a load (docs/accuracy.md), kernels apart: TPOT; the first token where
#: the engine's profile states none, by how much it is wider with many in flight, and where requests wait for memory.
_LOADED_TPOT, _LOADED_TTFT, _CROWDED, _LIMITED_TTFT = 0.09, 0.42, 1.7, 1.1
_CROWD = 64.0  # requests in flight
_WAITING = MILLI  # share of requests that wait for a slot
#: Sigma of kernels where no GPU of the generation was timed at all.
_GENERIC = 0.6


def pass_sigma(passed: Pass, basis: str, sigma: Real) -> Real:
    r"""Standard deviation of ln(predicted / measured) of a pass.

    .. math:: \sigma^2 = \sigma_0^2 + \sigma_{novel}^2
              + \sum_g \left(\frac{t_g}{t} \sigma_g\right)^2

    Kernels of one kind and dtype are off together; different kinds, and the whole pass, independently.

    Args:
        passed: the pass, its kernels with the residuals of their calibration.
        basis: calibrated, inherited or generic [text].
        sigma: of whole passes, kernels apart [1].

    Returns:
        Standard deviation [1].

    Source:
        docs/method.md, "Intervals"; coverage in docs/accuracy.md.
    """
    variance = passed.figures(_generic_variance if basis == "generic" else _variance)[0]
    return (sigma * sigma + variance) ** 0.5 * (INHERITED if basis == "inherited" else 1.0)


def _variance(passed: Pass, *, is_generic: bool = False) -> tuple[Real, ...]:
    """Of the logarithm of a pass, whole passes apart."""
    times: dict[tuple[KernelKind, str], Real] = {}
    sigmas: dict[tuple[KernelKind, str], float] = {}
    for kernel in passed.kernels:
        if kernel.part in (NETWORK, LOADING):  # the caller's figures
            continue
        key = kernel.kind, kernel.dtype
        times[key] = times.get(key, 0.0) + kernel.time
        sigmas[key] = _kernel_sigma(kernel.kind, kernel.roof.efficiency.sigma, is_generic=is_generic)
    whole: Real = 0.0
    for time in times.values():
        whole = whole + time
    total: Real = _NOVEL**2 if any(kind.is_novel for kind, _ in times) else 0.0
    for key, time in times.items():
        share = time / whole * sigmas[key]
        total = total + share * share
    return (total,)


def _generic_variance(passed: Pass) -> tuple[Real, ...]:
    return _variance(passed, is_generic=True)


def load_sigma(step: Pass, basis: str, result: str, found: Served, users: Real, stated: float | None) -> Real:
    """Standard deviation of ln(predicted / measured) of a latency under a load.

    Args:
        step: the decode step of a request among others, without a prompt.
        basis: calibrated, inherited or generic [text].
        result: ttft or tpot [text].
        found: what requests see.
        users: requests in flight on a replica [requests].
        stated: sigma of first tokens under a load that the engine's profile states, if it does [1].

    Returns:
        Standard deviation [1].

    Source:
        Residuals of measured servers, docs/accuracy.md, with their coverage.
    """
    if result == "tpot":
        return pass_sigma(step, basis, _LOADED_TPOT)
    loaded = _LOADED_TTFT if stated is None else stated
    crowded = where(users > _CROWD, _CROWDED * loaded, loaded)
    return pass_sigma(step, basis, where(found.waiting_share > _WAITING, _LIMITED_TTFT, crowded))


def spread(time: Real, sigma: Real) -> tuple[Real, Real]:
    """Ends of the 80 % interval of a log-normal.

    Args:
        time: its middle [s].
        sigma: of its logarithm [1].

    Returns:
        Low and high end [s].

    Valid:
        Residuals are log-normal; measured coverage is in docs/accuracy.md.

    Source:
        90th percentile of a normal distribution, 1.2816 standard deviations above its middle.
    """
    factor = _E ** (HALF_WIDTH * sigma)
    return time / factor, time * factor


def _kernel_sigma(kind: KernelKind, sigma: float | None, *, is_generic: bool) -> float:
    if kind is HOST:
        return _HOST
    if is_generic:
        return _GENERIC
    return _ASSUMED if sigma is None else _SHARED * sigma
