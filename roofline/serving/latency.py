"""TTFT, TPOT and end-to-end latency of a static batch."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.ops import Real, maximum
from roofline.physics.forward import Pass, decode_pass, prefill_pass
from roofline.physics.plan import Deployment
from roofline.physics.work import host_kernel

__all__ = ["SLO_KEYS", "Workload", "decode", "e2el", "prefill"]

SLO_KEYS = ("ttft", "tpot", "e2el")


@dataclass(frozen=True, slots=True)
class Workload:
    """One static batch: equal requests that start together on one replica."""

    isl: Real  # [tokens] prompt
    osl: Real  # [tokens] answer
    batch: Real = 1.0  # [sequences]
    prefix: Real = 0.0  # [tokens] of the prompt whose KV is cached already


def prefill(deployment: Deployment, workload: Workload) -> Pass:
    """Prefill pass of the batch, after the engine has taken the request; at least one prompt token is computed.

    Args:
        deployment: model, GPU, plan, precision and basis.
        workload: lengths and batch.

    Returns:
        The kernels; their time is the TTFT of an idle server.

    Valid:
        All prompts in one pass on an idle server, however long.

    Source:
        docs/method.md, "A pass" and "Engines".
    """
    new = maximum(workload.isl - workload.prefix, 1.0)
    passed = prefill_pass(deployment, workload.batch, new, workload.isl - new)
    engine = deployment.host
    before = (host_kernel("network", engine.network), host_kernel("request", engine.request))
    return Pass((*(kernel for kernel in before if kernel.terms.total != 0.0), *passed.kernels))


def decode(deployment: Deployment, workload: Workload) -> Pass:
    """Mean decode step over the generation: attention at the mean KV length of its steps.

    Args:
        deployment: model, GPU, plan, precision and basis.
        workload: lengths and batch.

    Returns:
        The kernels; their time is the TPOT.

    Valid:
        A static batch on an idle server.

    Source:
        docs/method.md, "A pass" and "Engines".
    """
    return decode_pass(deployment, workload.batch, workload.isl, maximum(workload.osl - 1.0, 1.0))


def e2el(ttft: Real, tpot: Real, osl: Real) -> Real:
    """End-to-end latency of a request.

    .. math:: e2el = ttft + (osl - 1)\\, tpot

    Args:
        ttft: time to first token [s].
        tpot: mean time per output token after the first [s].
        osl: output tokens [tokens].

    Returns:
        Time from request to last token [s].

    Source:
        vLLM, benchmarks/serve.py (TPOT = (E2EL - TTFT) / (output tokens - 1)).

    >>> e2el(0.25, 0.02, 300.0)
    6.23
    """
    return ttft + (osl - 1.0) * tpot
