"""One measurement of a deployment, and what it says of the predictions for the same deployment."""

from __future__ import annotations

from roofline.ops import comparable
from roofline.quantity import rounded
from roofline.records import NamedTuple

__all__ = ["SIGMA_TPOT", "SIGMA_TTFT", "UNCORRECTED", "Correction"]

#: What remains of ln(predicted / measured) once a deployment was measured: within deployments, servers'
#: rows scatter so around one constant each (docs/accuracy.md, "One measurement").
SIGMA_TTFT, SIGMA_TPOT = 0.25, 0.1


@comparable
class Correction(NamedTuple):
    """Factors that one measurement puts on the predictions of its deployment.

    >>> import roofline as rl
    >>> rl.Correction(tpot=1.25, sigma_tpot=0.1)
    <Correction TPOT x 1.25>
    """

    ttft: float = 1.0  # measured / predicted [1]
    tpot: float = 1.0
    sigma_ttft: float | None = None  # what remains uncertain; None: nothing was measured
    sigma_tpot: float | None = None

    def __repr__(self) -> str:
        """Both factors in one line."""
        factors = {"TTFT": (self.ttft, self.sigma_ttft), "TPOT": (self.tpot, self.sigma_tpot)}
        known = [f"{name} x {rounded(factor)}" for name, (factor, sigma) in factors.items() if sigma is not None]
        return f"<Correction {', '.join(known) or 'none: nothing was measured'}>"


#: Nothing was measured.
UNCORRECTED = Correction()
