"""One measurement of a deployment, and what it says of the predictions for the same deployment."""

from __future__ import annotations

from typing import NamedTuple

from roofline.ops import Real, comparable

__all__ = ["SIGMA_TPOT", "SIGMA_TTFT", "UNCORRECTED", "Correction"]

#: What remains of ln(predicted / measured) once a deployment was measured: within deployments, servers'
#: rows scatter so around one constant each (docs/accuracy.md, "One measurement").
SIGMA_TTFT, SIGMA_TPOT = 0.25, 0.1


@comparable
class Correction(NamedTuple):
    """Factors that one measurement puts on the predictions of its deployment."""

    ttft: Real = 1.0  # measured / predicted [1]
    tpot: Real = 1.0
    sigma_ttft: float | None = None  # what remains uncertain; None: nothing was measured
    sigma_tpot: float | None = None


#: Nothing was measured.
UNCORRECTED = Correction()
