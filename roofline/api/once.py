"""What one measurement of a deployment says about every prediction for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from roofline.api.inputs import measured_case
from roofline.api.predict import predict
from roofline.serving.correction import Correction
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

if TYPE_CHECKING:
    from roofline.api.inputs.options import OnceOptions


def calibrate_once(
    model: str | Model, gpu: str | Gpu, measured: str | Mapping[str, float | str], **options: Unpack[OnceOptions]
) -> Correction:
    """Correction factors from one measurement of a deployment, which `predict(..., measured=...)` applies.

    Args:
        model: name, alias or record.
        gpu: name, alias or record.
        measured: `ttft`, `tpot` [s] or both, and the lengths and load of the measurement.
        options: keyword arguments of `predict`.

    Returns:
        Measured over predicted TTFT and TPOT [1], and the uncertainty that remains.

    Raises:
        BadInput: nothing measured, or faster than the hardware limit.
        RooflineError: as `predict` raises.

    >>> import roofline as rl
    >>> rl.calibrate_once("llama-3.1-8b", "h100-sxm", {"ttft": 2.0 * rl.ttft("llama-3.1-8b", "h100-sxm")})
    <Correction TTFT x 2>
    """
    prediction = predict(model, gpu, **options)
    return measured_case.correction(prediction.deployment, prediction.workload, measured)
