"""Figures of requests under a load, which `serving/traffic/load.py` computes, and the passes in which they run."""

from __future__ import annotations

from roofline.ops import Real, comparable
from roofline.physics.forward import Pass
from roofline.physics.plan import Deployment
from roofline.records import NamedTuple, replace
from roofline.serving.latency import Workload, decode, prefill

#: Start of the note on whether a load is inside the validated range.
UNDER_LOAD = "under load"
#: Start of the note on what a benchmark of the usual length would report.
BENCHMARK = "a benchmark of"


@comparable
class Served(NamedTuple):
    """Mean figures of requests under a load; counts and rates of the whole deployment."""

    ttft: Real  # [s]; infinite under overload
    tpot: Real  # [s]
    decode: Real  # [s] from the first token to the last; (osl - 1) tpot where all answers are equal
    queue: Real  # [s] of the ttft, beyond request, network and the request's own prompt
    concurrency: Real  # [requests] in flight
    request_rate: Real  # [1/s] answered
    max_request_rate: Real  # [1/s] saturation
    batch: Real  # [sequences] that a replica decodes together, as a request sees it, itself included
    slots: Real  # [sequences] that a rank runs at most
    rho: Real  # share of time that prompts take [1]
    rho_chunks: Real  # the same if all prompts were computed in full steps [1]
    prompt_share: Real  # time that a prompt adds to others, over a request's decode time [1]
    waiting_share: Real  # share of requests that wait for a slot [1]
    is_stable: Real  # no overload, and a steady state was found
    state: tuple[Real, ...]  # fixed point of the equations, to start from for a nearby case
    prompt: Real = float("nan")  # [s] that a prompt adds to the steps of others
    nobody: Real = float("nan")  # probability that no sequence decodes when a request arrives [1]

    @property
    def util(self) -> Real:
        """Request rate over the largest one [1]."""
        return self.request_rate / self.max_request_rate


def lanes(deployment: Deployment) -> Real:
    """Ranks that share a load evenly: data-parallel ranks x pipeline turns x replicas."""
    plan = deployment.plan
    return deployment.replicas * plan.pp * plan.dp


def request_passes(deployment: Deployment, workload: Workload, under_load: Served | None) -> tuple[Pass, Pass]:
    """Prefill and mean decode step of a burst, or of one request under a load (without prefill in its steps)."""
    if under_load is None:
        return prefill(deployment, workload), decode(deployment, workload)
    single = replace(workload, batch=1.0)
    return prefill(deployment, single), decode(deployment, replace(single, batch=under_load.batch))
