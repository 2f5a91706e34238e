"""Correction of predictions by one measurement of the same deployment."""

from __future__ import annotations

from roofline.ops import comparable
from roofline.quantity import rounded
from roofline.records import NamedTuple

#: Standard deviation of ln(predicted / measured) that remains after one measurement: rows of one deployment scatter so
#: much around a constant factor (docs/accuracy.md, "One measurement").
SIGMA_TTFT, SIGMA_TPOT = 0.25, 0.1


@comparable
class Correction(NamedTuple):
    """Factors from one measurement, applied to all predictions of its deployment.

    >>> import roofline as rl
    >>> rl.Correction(tpot=1.25, sigma_tpot=0.1)
    <Correction TPOT x 1.25>
    """

    ttft: float = 1.0  # measured / predicted [1]
    tpot: float = 1.0
    sigma_ttft: float | None = None  # remaining uncertainty; None: nothing was measured
    sigma_tpot: float | None = None

    def __repr__(self) -> str:
        factors = {"TTFT": (self.ttft, self.sigma_ttft), "TPOT": (self.tpot, self.sigma_tpot)}
        known = [f"{name} x {rounded(factor)}" for name, (factor, sigma) in factors.items() if sigma is not None]
        return f"<Correction {', '.join(known) or 'none: nothing was measured'}>"


UNCORRECTED = Correction()
