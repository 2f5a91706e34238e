"""From a deployment and its load to the answer."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.physics.memory import Memory, memory
from roofline.physics.plan import Deployment
from roofline.serving.correction import UNCORRECTED, Correction
from roofline.serving.latency import BURST, Workload
from roofline.serving.prediction import Prediction
from roofline.serving.served import Served, request_passes
from roofline.specs.slo import Limits, check_limits

__all__ = ["memory_of", "predict_deployment"]

_PROOF = Workload(1000.0, 100.0)


def predict_deployment(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float] | None = None,
    warnings: tuple[str, ...] = (),
    *,
    allow_oversize: bool = False,
    correction: Correction = UNCORRECTED,
) -> Prediction:
    """Latencies of one deployment under one load.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths and load; numbers may be arrays that broadcast together.
        slo: limits on latencies by their keys, such as ``ttft`` or ``ttft_p95`` [s].
        warnings: what the reader should know [text].
        allow_oversize: whether arrays have times for cases that do not fit, too [bool].
        correction: by a measurement of this very deployment.

    Returns:
        The prediction.

    Raises:
        UnknownName: an SLO key that is none.
        BadInput: an SLO limit that is not positive.

    Valid:
        A burst is alone on the server; `roofline.serving.traffic.load` says what was checked of the other loads.
    """
    if slo:
        from roofline.serving.targets import check_percentiles

        check_limits(slo)
        check_percentiles(workload, slo)
    found = None
    if workload.load != BURST:
        from roofline.serving.traffic.load import served

        found = served(deployment, workload)
    first, step = request_passes(deployment, workload, found)
    if predict_deployment not in deployment.memo:  # what a deployment lacks is refused now, not where a time is read
        for passed in request_passes(deployment, _PROOF, None):
            passed.kernels  # noqa: B018  made for its errors
        deployment.memo[predict_deployment] = True
    return Prediction(
        deployment=deployment,
        workload=workload,
        prefill=first,
        decode=step,
        memory=memory_of(deployment, workload, found),
        slo=Limits(slo or {}),
        said=warnings,
        allow_oversize=allow_oversize,
        correction=correction,
        served=found,
    )


def memory_of(deployment: Deployment, workload: Workload, found: Served | None) -> Memory:
    """Memory of a burst at its full length, or of the sequences that run under a load as the engine admits them.

    Args:
        deployment: model, GPU, plan, precision and engine.
        workload: lengths, and the batch of a burst.
        found: what requests see under the load; None for a burst.

    Returns:
        The shares [B].
    """
    if found is None:
        return memory(deployment, workload.batch, workload.isl + workload.osl)
    return memory(deployment, found.batch, workload.isl + deployment.engine.reserve * workload.osl)
