"""What requests see under a load, and the passes in which they run; `serving/traffic/load.py` finds it."""

from __future__ import annotations

from roofline.ops import Real, comparable
from roofline.physics.forward import Pass
from roofline.physics.plan import Deployment
from roofline.records import NamedTuple, replace
from roofline.serving.latency import Workload, decode, prefill

__all__ = ["UNDER_LOAD", "Served", "lanes", "request_passes"]

#: How sentences begin that say whether a load lies inside the checked domain.
UNDER_LOAD = "under load"


@comparable
class Served(NamedTuple):
    """What requests see under a load; means over requests, counts and rates of the whole deployment."""

    ttft: Real  # [s]; infinite where more come than can be served
    tpot: Real  # [s]
    decode: Real  # [s] from the first token to the last; (osl - 1) tpot where all answers are equal
    queue: Real  # [s] of the ttft: all but request, network and one's own prompt
    concurrency: Real  # [requests] in flight
    request_rate: Real  # [1/s] answered
    max_request_rate: Real  # [1/s] that can be answered at most
    batch: Real  # sequences of a replica that decode together when a request does, itself included
    slots: Real  # [sequences] that a rank runs at most
    rho: Real  # share of the time that prompts take [1]
    rho_chunks: Real  # share of the time that prompts would take, were they computed in full steps [1]
    prompt_share: Real  # what a prompt adds to others, over the decode steps of a request [1]
    waiting_share: Real  # of requests that wait for a slot [1]
    is_stable: Real  # whether no more come than can be served [condition]
    state: tuple[Real, ...]  # where the equations agree, for whoever asks for a case nearby
    prompt: Real = float("nan")  # [s] that a prompt adds to the steps of others
    nobody: Real = float("nan")  # probability that nobody decodes when a request comes [1]

    @property
    def util(self) -> Real:
        """Answered over what can be answered at most [1]."""
        return self.request_rate / self.max_request_rate


def lanes(deployment: Deployment) -> Real:
    """Ranks that share a load evenly: of data parallelism, in each turn of the pipeline, on every replica.

    Args:
        deployment: plan and replicas.

    Returns:
        How many [1].
    """
    plan = deployment.plan
    return deployment.replicas * plan.pp * plan.dp


def request_passes(deployment: Deployment, workload: Workload, found: Served | None) -> tuple[Pass, Pass]:
    """Prefill and mean decode step of a request: those of a burst, or what one among others runs in.

    Args:
        deployment: model, GPU, plan, precision, basis and engine.
        workload: lengths and load.
        found: what requests see under the load; None for a burst.

    Returns:
        Prefill of the burst, or of one prompt; the decode step without any prompt beside it.
    """
    if found is None:
        return prefill(deployment, workload), decode(deployment, workload)
    one = replace(workload, batch=1.0)
    return prefill(deployment, one), decode(deployment, replace(one, batch=found.batch))
