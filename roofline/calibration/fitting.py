"""The home of scipy: parameters of the one equation, by robust least squares of log residuals of timed kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from roofline.errors import BadInput
from roofline.physics.one_equation import LinkRoof, Roof, Work, collective_time, kernel_time
from roofline.quantity import MICRO, NANO
from roofline.records import NamedTuple, dataclass
from roofline.serving.interval import HALF_WIDTH
from roofline.specs.calibration import CollectiveEfficiency, Efficiency
from roofline.specs.kernels import (
    ATTENTION_DECODE,
    ATTENTION_PREFILL,
    ELEMENTWISE,
    GEMM,
    MLA_DECODE,
    MLA_PREFILL,
    MOE,
    KernelKind,
)

_LOSS_SCALE = 0.1  # of a log residual: the loss is linear beyond 10 %
_PRIOR_WIDTH = 1.0  # of a log parameter: an ill-determined one stays within about a factor of e of its start
_PRIOR_WEIGHT = 0.1  # the prior of one parameter weighs as much as one row that is off by the loss scale
_STARTS = 3


class FittedTerms(NamedTuple):
    """Parameters of the one equation for a kind of kernel: start values of those to fit, and fixed ones."""

    start: Mapping[str, float]
    fixed: Mapping[str, float]


#: Bounds of the parameters: not beyond the hardware limit, not absurdly slow.
_BOUNDS = {
    "t0": (0.3 * MICRO, 200 * MICRO),
    "t0_ep": (0.3 * MICRO, 200 * MICRO),
    "eta_c": (0.02, 1.0),
    "eta_m": (0.02, 1.0),
    "eta_x": (0.05, 2.0),  # the rate of the special-function units is an estimate, and software can bypass them
    "eta_s": (0.02, 1.0),
    "kappa": (0.0001 * NANO, 20 * NANO),
    "kappa_s": (0.0001 * NANO, MICRO),
    "eps": (0.01 * NANO, 2 * MICRO),
    "a0": (0.5 * MICRO, 200 * MICRO),
    "a1": (NANO, 50 * MICRO),
    "q": (0.1 * NANO, 500 * MICRO),
    "eta": (0.02, 1.0),
    "eta_switch": (0.02, 1.0),
}

#: Start values: constants among the terms of the kind are fitted, others stay fixed.
_VALUES: Mapping[KernelKind, Mapping[str, float]] = {
    GEMM: {"t0": 4 * MICRO, "eta_c": 0.7, "eta_m": 0.8, "kappa": 0.6 * NANO, "eta_s": 0.4},
    ATTENTION_PREFILL: {"t0": 12 * MICRO, "eta_c": 0.9, "eta_x": 1.0, "eta_m": 0.3, "kappa_s": 5 * NANO},
    ATTENTION_DECODE: {"t0": 10 * MICRO, "eta_m": 0.85, "kappa_s": 0.07 * NANO, "eta_c": 0.8},
    MLA_PREFILL: {"t0": 15 * MICRO, "eta_c": 0.6, "eta_m": 0.6, "kappa_s": 1 * NANO},
    MLA_DECODE: {"t0": 12 * MICRO, "eta_c": 0.7, "eta_m": 0.8, "kappa_s": 0.1 * NANO},
    MOE: {
        "t0": 15 * MICRO,
        "t0_ep": 15 * MICRO,
        "eta_c": 0.6,
        "eta_m": 0.7,
        "eta_s": 0.3,
        "kappa_s": 2 * NANO,
        "eps": 150 * NANO,
    },
    ELEMENTWISE: {"t0": 2 * MICRO, "eta_m": 0.75},
}
_LINK_VALUES = {"a0": 5 * MICRO, "a1": 0.5 * MICRO, "q": 5 * MICRO, "eta": 0.75, "eta_switch": 0.6}


@dataclass(frozen=True)
class Sample:
    """Timed kernels of one kind and dtype on one GPU."""

    kind: KernelKind
    work: Work  # arrays with an element for each row
    roof: Roof | LinkRoof
    latency: Any  # [s] an element for each row
    weight: Any = 1.0  # of each row
    spread: Any = False  # whether experts are spread over ranks, for each row


@dataclass(frozen=True)
class Fit:
    """Fitted parameters of one kind of kernel, and the spread of the rows around them."""

    parameters: Mapping[str, float]
    residual: float  # median |ln(predicted/measured)|
    sigma: float  # standard deviation of a log-normal whose 80 % interval holds 80 % of the rows
    measurements: int


def form(kind: KernelKind) -> FittedTerms:
    """Parameters to fit and fixed parameters [s, 1] of a kind of kernel."""
    if kind.is_collective:
        return FittedTerms({name: _LINK_VALUES[name] for name in kind.terms}, {})
    values = _VALUES[kind]
    fixed = {name: value for name, value in values.items() if name not in kind.terms}
    return FittedTerms({name: values[name] for name in kind.terms}, {**fixed, "p": kind.order})


def log_ratio(sample: Sample, parameters: Mapping[str, float]) -> Any:
    """ln(predicted / measured) of every row, with fields of `Efficiency` or `CollectiveEfficiency` [s, 1]."""
    constants: Any = dict(parameters)
    if isinstance(sample.roof, LinkRoof):
        link = sample.roof._replace(efficiency=CollectiveEfficiency(**constants))
        return np.log(collective_time(sample.work, link).total / sample.latency)
    if constants.get("t0_ep") is not None:
        constants["t0"] = np.where(sample.spread, constants["t0_ep"], constants["t0"])
    roof = sample.roof._replace(efficiency=Efficiency(**constants))
    return np.log(kernel_time(sample.work, roof).total / sample.latency)


def fitted(sample: Sample, base: Mapping[str, float] | None = None) -> Fit:
    """Parameters that fit the timed kernels; `base` centres the prior where parameters are known [s, 1].

    The soft-L1 loss of log residuals keeps outliers from pulling more than linearly; a weak prior holds every
    parameter that the rows do not determine near its start.
    """
    least_squares = _least_squares()
    free, fixed = form(sample.kind)
    start = {name: value for name, value in free.items() if _matters(sample, name)}
    start.update({name: (base or {})[name] for name in start if (base or {}).get(name)})
    size = len(np.atleast_1d(sample.latency))
    if size < len(start):
        raise BadInput(
            f"{size} {sample.kind.name} rows are too few to fit {len(start)} parameters ({', '.join(start)})"
        )
    low, high = np.log([_BOUNDS[name] for name in start]).T
    centre = np.clip(np.log(list(start.values())), low, high)
    scale = np.sqrt(np.broadcast_to(sample.weight, size))

    def residuals(point: Any) -> Any:
        parameters = {**fixed, **dict(zip(start, np.exp(point), strict=True))}
        rows = scale * _softened(log_ratio(sample, parameters))
        return np.concatenate([rows, _PRIOR_WEIGHT * (point - centre) / _PRIOR_WIDTH])

    random = np.random.default_rng(0)
    best = None
    for attempt in range(_STARTS):
        first = centre + (random.normal(0.0, 0.4, len(start)) if attempt else 0.0)
        first = np.clip(first, low + MICRO * (high - low), high - MICRO * (high - low))
        solution = least_squares(residuals, first, bounds=(low, high))
        if best is None or solution.cost < best.cost:
            best = solution
    parameters = {**fixed, **_rounded(dict(zip(start, np.exp(best.x), strict=True)))}  # type: ignore[union-attr]
    off = np.abs(log_ratio(sample, parameters))
    return Fit(parameters, float(np.median(off)), float(np.quantile(off, 0.8)) / HALF_WIDTH, size)


def _softened(off: Any) -> Any:
    """Residuals whose squares are the soft-L1 loss: quadratic up to the loss scale, linear beyond.

    Weights then act on the loss of a row rather than on its residual, so engines count alike however far off they are.
    """
    scaled = off / _LOSS_SCALE
    return np.sign(off) * _LOSS_SCALE * np.sqrt(2.0 * (np.sqrt(1.0 + scaled * scaled) - 1.0))


def _matters(sample: Sample, name: str) -> bool:
    """Whether a parameter changes any predicted time."""
    if name == "eta_switch":
        return bool(np.any(np.asarray(sample.roof.least) < 1.0))  # type: ignore[union-attr]
    field = {"eta_s": "serial_bytes", "kappa": "depth", "eta_x": "exponentials"}.get(name)
    if name == "t0_ep":
        return bool(np.any(sample.spread))
    if name == "eta_x" and not np.isfinite(sample.roof.exp_rate):  # type: ignore[union-attr]
        return False
    return field is None or bool(np.any(np.asarray(getattr(sample.work, field)) > 0.0))


def _rounded(parameters: Mapping[str, float]) -> dict[str, float]:
    """Parameters in three digits, as a calibration file states them."""
    return {name: float(f"{value:.3g}") for name, value in parameters.items()}


def _least_squares() -> Any:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise BadInput('fitting needs scipy: pip install "roofline[calibrate]"') from None
    return least_squares
