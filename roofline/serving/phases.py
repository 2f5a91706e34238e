"""What a request costs: server time and tokens by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.numbers.operations import Real, maximum, minimum
from roofline.physics.plan import Deployment
from roofline.serving.cost import ByPhase
from roofline.serving.latency import Workload, lanes
from roofline.serving.prompts import prompt_kinds
from roofline.support.records import NamedTuple, replace

if TYPE_CHECKING:
    from roofline.serving.load.server import Prompt, Server


class FullServer(NamedTuple):
    """A deployment at saturation."""

    request_rate: Real  # [1/s] saturation
    times: ByPhase  # [s] of a rank per request


def tokens_by_phase(deployment: Deployment, workload: Workload) -> ByPhase:
    """Mean tokens per request [tokens]; at least one prompt token is computed."""
    first, *others = prompt_kinds(deployment, workload.isl, workload.prefix, workload.cache)
    computed = sum((kind.weight * kind.computed for kind in others), first.weight * first.computed)
    return ByPhase(computed, workload.isl - computed, workload.osl)


def full_server(deployment: Deployment, workload: Workload) -> FullServer:
    """Saturation of a deployment, and the time that each phase of a request takes then.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths; its load is ignored.

    Returns:
        Request rate of the whole deployment [1/s], and rank time per request [s].

    Source:
        docs/method.md, "A server under load": of each step D, b / (O - 1) requests end.
    """
    from roofline.serving.load.equations import saturation, server_of
    from roofline.serving.load.server import UNLIMITED, prompt_of

    server = replace(server_of(deployment, workload), users=UNLIMITED)
    prompt = prompt_of(server)
    saturated = saturation(server, prompt)
    output = server.steps_of() * saturated.step / saturated.sequences
    output = minimum(output, 1.0 / saturated.rate)
    prefilled = 1.0 / saturated.rate - output
    cached = cached_time(server, prompt, 0.0, prefilled)
    return FullServer(saturated.rate * lanes(deployment), ByPhase(prefilled - cached, cached, output))


def cached_time(server: Server, prompt: Prompt, nobody: Real, prefilled: Real) -> Real:
    """Time of a prompt due to cached tokens [s]: attention to them.

    `nobody`: chance that no sequence decodes [1]; `prefilled`: time of the whole prompt [s].
    """
    from roofline.serving.load.server import prompt_of

    attention: Real = 0.0
    alone: Real = 0.0
    for kind in server.kinds:
        uncached = prompt_of(replace(server, isl=kind.computed, prefix=0.0, cache=None))
        attention, alone = attention + kind.weight * uncached.attention, alone + kind.weight * uncached.alone
    in_steps = server.engine.prefill_slowdown * (prompt.attention - attention)
    cached = (1.0 - nobody) * in_steps + nobody * (prompt.alone - alone)
    return minimum(maximum(cached, 0.0), prefilled)
