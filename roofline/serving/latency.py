"""TTFT, TPOT and end-to-end latency of a static batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.ops import Real, comparable, maximum, where
from roofline.physics.forward import Pass, decode_pass, prefill_pass
from roofline.physics.one_equation import host_kernel
from roofline.physics.plan import Deployment
from roofline.specs.kernels import NETWORK

__all__ = ["SLO_KEYS", "Limits", "Workload", "decode", "e2el", "prefill", "slo_excess"]

SLO_KEYS = ("ttft", "tpot", "e2el")


class Limits(dict[str, float]):
    """Limits by `SLO_KEYS` whose unit is known to be seconds: none is a slip of milliseconds."""


@comparable
@dataclass(frozen=True, slots=True, eq=False)
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
    new = maximum(workload.isl - workload.prefix, 1.0, "a single prompt token is left to compute")
    passed = prefill_pass(deployment, workload.batch, new, workload.isl - new)
    engine = deployment.host
    before = (("network", engine.network, NETWORK), ("request", engine.request, ""))
    spent = (host_kernel(name, time, part) for name, time, part in before if type(time) is not float or time != 0.0)
    return Pass((*spent, *passed.kernels))


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
    steps = maximum(workload.osl - 1.0, 1.0, "a single step is left")
    return decode_pass(deployment, workload.batch, workload.isl, steps)


def slo_excess(ttft: Real, tpot: Real, osl: Real, slo: Mapping[str, Real]) -> Real:
    """Largest share that a latency takes of its limit: within the SLO where it is at most one.

    Args:
        ttft: time to first token [s].
        tpot: mean time per output token after the first [s]; a single token has none to limit.
        osl: output tokens [tokens].
        slo: limits by `SLO_KEYS` [s].

    Returns:
        The share [1].

    Source:
        Goodput of vLLM, benchmarks/serve.py: every stated limit must hold.

    >>> slo_excess(0.25, 0.02, 100.0, {"ttft": 0.5, "tpot": 0.08})
    0.5
    """
    times = {"ttft": ttft, "tpot": where(osl > 1.0, tpot, 0.0), "e2el": e2el(ttft, tpot, osl)}
    excess: Real = 0.0
    for key, limit in slo.items():
        excess = maximum(excess, times[key] / limit)
    return excess


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
