"""From a deployment and its load to a prediction."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.physics.memory import Memory, memory
from roofline.physics.plan import Deployment
from roofline.serving.correction import UNCORRECTED, Correction
from roofline.serving.latency import BURST, Workload
from roofline.serving.prediction import Prediction
from roofline.serving.served import Served, request_passes
from roofline.specs.slo import Limits, check_limits

_SAMPLE = Workload(1000.0, 100.0)


def predict_deployment(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float] | None = None,
    warnings: tuple[str, ...] = (),
    *,
    allow_oversize: bool = False,
    correction: Correction = UNCORRECTED,
) -> Prediction:
    """The prediction; workload numbers may be arrays that broadcast together.

    `allow_oversize`: arrays have times for cases that do not fit too. `correction`: by a measurement of this
    deployment.
    """
    if slo:
        from roofline.serving.targets import check_percentiles

        check_limits(slo)
        check_percentiles(workload, slo)
    under_load = None
    if workload.load != BURST:
        from roofline.serving.traffic.load import served

        under_load = served(deployment, workload)
    prefill, step = request_passes(deployment, workload, under_load)
    if predict_deployment not in deployment.memo:  # errors surface here, not where a time is first read
        for passed in request_passes(deployment, _SAMPLE, None):
            passed.kernels  # noqa: B018  evaluated for its errors
        deployment.memo[predict_deployment] = True
    return Prediction(
        deployment=deployment,
        workload=workload,
        prefill=prefill,
        decode=step,
        memory=memory_of(deployment, workload, under_load),
        slo=Limits(slo or {}),
        said=warnings,
        allow_oversize=allow_oversize,
        correction=correction,
        served=under_load,
    )


def memory_of(deployment: Deployment, workload: Workload, under_load: Served | None) -> Memory:
    """Memory [B] of a burst at full length, or of the sequences that run under a load."""
    if under_load is None:
        return memory(deployment, workload.batch, workload.isl + workload.osl)
    return memory(deployment, under_load.batch, workload.isl + deployment.engine.reserve * workload.osl)
