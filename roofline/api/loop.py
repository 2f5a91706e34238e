"""Servers: a closed loop of requests, and predictions corrected by one measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.api import case
from roofline.api.arguments import number
from roofline.api.predict import predict
from roofline.errors import BadInput
from roofline.quantity import BILLION
from roofline.serving import closed_loop as loop
from roofline.serving.closed_loop import ClosedLoop
from roofline.serving.correction import Correction
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

__all__ = ["calibrate_once", "closed_loop"]


_NOT_OF_A_LOOP = {
    "batch": "it follows from concurrency and memory",
    "num_gpus": "concurrency is that of one replica",
    "slo": "compare the latencies with it",
    "measured": "scale its latencies by calibrate_once",
}


def closed_loop(
    model: str | Model,
    gpu: str | Gpu,
    concurrency: float,
    *,
    burst: float = 0.0,
    together: float = 1.0,
    **options: Any,
) -> ClosedLoop:
    """Latencies of a replica on which a fixed number of requests is always in flight.

    Args:
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        concurrency: requests in flight on one replica [requests].
        burst: share of the requests that come in the burst at the start, for means of short runs [1].
        together: prompts that come at the same time; 1 where lengths differ [requests].
        options: keyword arguments of `predict`; `isl` and `osl` are means, `batch` follows from the load.

    Returns:
        TTFT, TPOT and their parts [s].

    Raises:
        BadInput: a load that cannot be, or a batch given.
        RooflineError: as `predict` raises.
    """
    for name, why in _NOT_OF_A_LOOP.items():
        if options.get(name) is not None:
            raise BadInput(f"a closed loop takes no {name}: {why}")
    load = (
        number("concurrency", concurrency, 1.0, BILLION),
        number("burst", burst, 0.0, 1.0),
        number("together", together, 1.0, BILLION),
    )
    one = predict(model, gpu, **options)
    return loop.steady_loop(
        one.deployment,
        one.workload.isl,
        one.workload.osl,
        *load,
        one.workload.prefix,
    )


def calibrate_once(model: str | Model, gpu: str | Gpu, measured: Mapping[str, float], **options: Any) -> Correction:
    """Factors that one measurement of a deployment puts on every prediction for it.

    `predict(..., measured=...)` applies them itself; this says what they are.

    Args:
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        measured: `ttft`, `tpot` [s] or both, and the `isl`, `osl`, `batch`, `prefix` they were taken at.
        options: keyword arguments of `predict`.

    Returns:
        Measured / predicted of TTFT and TPOT [1], and what remains uncertain.

    Raises:
        BadInput: nothing measured, or faster than light.
        RooflineError: as `predict` raises.
    """
    prediction = predict(model, gpu, **options)
    return case.correction(prediction.deployment, prediction.workload, measured)
