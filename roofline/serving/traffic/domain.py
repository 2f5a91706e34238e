"""Where the equations of a load were checked against a simulation of every step, and how far off they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.quantity import MILLI, rounded
from roofline.serving.latency import Workload
from roofline.serving.prompt_cache import hit_rate, load_time
from roofline.serving.served import UNDER_LOAD, Served
from roofline.specs.prompt_cache import HBM

__all__ = ["domain", "outside", "restated"]

#: Within them the equations were checked against a simulation of every step (docs/method.md).
_MOST_UTIL, _MOST_RHO, _MOST_PROMPT, _MOST_WAITING, _MOST_CV = 0.8, 0.5, 0.5, MILLI, 0.3
_MOST_LOADS = 0.6


def outside(deployment: Deployment, workload: Workload, found: Served) -> Iterator[tuple[Real, str]]:
    """Conditions under which the equations were checked, and whether a case fails them.

    Args:
        deployment: model, GPU, plan and engine.
        workload: lengths and load.
        found: what requests see.

    Returns:
        Whether each fails, and the sentence that says so [condition, text].
    """
    if workload.request_rate is not None:
        yield found.util > _MOST_UTIL, f"utilisation above {_MOST_UTIL:.0%}"
        yield found.waiting_share > _MOST_WAITING, "requests wait for memory or max_num_seqs"
    else:
        yield found.rho_chunks > _MOST_UTIL, "prefill near the token budget"
    if workload.num_prompts is not None:
        yield workload.osl > 0.0, "a run that includes its start"
    yield found.rho > _MOST_RHO, f"prefill over {_MOST_RHO:.0%} of the time"
    several = workload.osl > 1.0
    yield (
        several & (found.prompt_share > _MOST_PROMPT),
        "one prefill over half of a request's decode steps",
    )
    yield workload.osl <= 1.0, "single-token answers"
    if workload.lengths is not None and workload.lengths.prompts.cv > _MOST_CV:
        yield workload.osl > 0.0, f"prompt length cv above {_MOST_CV:g}"
    cache = workload.cache
    if cache is not None and cache.tier != HBM:
        loads = hit_rate(deployment, workload.prefix, cache) * load_time(deployment, workload.prefix, cache)
        busy = found.request_rate * loads / (deployment.replicas * deployment.plan.dp)
        yield busy > _MOST_LOADS, f"loads of prefixes over {_MOST_LOADS:.0%} of the time of their link"
    if deployment.plan.pp > 1:
        yield workload.osl > 0.0, "pipeline parallelism"


def domain(fails: Sequence[str]) -> str:
    """Whether one case lies inside the domain in which the equations were checked, and how far off such cases were.

    Args:
        fails: what `outside` says of the conditions that fail [text].

    Returns:
        A sentence [text].
    """
    tpot, ttft, tpot_p99, ttft_p99 = map(rounded, _OUTSIDE if fails else _INSIDE)
    off = f"mean error TPOT {tpot} %, TTFT {ttft} %, p99 {tpot_p99}/{ttft_p99} %"
    if not fails:
        return f"{UNDER_LOAD}: inside the validated range; {off}"
    return f"{UNDER_LOAD}: outside the validated range ({', '.join(fails)}); {off}; see --simulate"


def restated(
    warnings: Sequence[str], deployment: Deployment, workload: Workload, found: Served | None
) -> tuple[str, ...]:
    """What a reader should know of a case, with what is said of its load said of another.

    Args:
        warnings: of the case [text].
        deployment: model, GPU, plan and engine of the other.
        workload: lengths and load of the other.
        found: what requests see there; None for a burst.

    Returns:
        One sentence each [text].
    """
    said = tuple(text for text in warnings if not text.startswith(UNDER_LOAD))
    if found is None:
        return said
    return (*said, domain([text for fails, text in outside(deployment, workload, found) if fails]))


# Mean errors of TPOT and TTFT, and of their p99 [%], against the simulation, inside and outside the domain
# (docs/load.md).
_INSIDE, _OUTSIDE = (2.3, 2.4, 4.8, 5.5), (5.8, 7.8, 13.7, 15.7)
