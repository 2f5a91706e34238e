"""The validated range of the load equations, and their errors against a simulation of every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.quantity import MILLI, rounded, to_text
from roofline.records import replace
from roofline.serving.latency import Workload
from roofline.serving.prompt_cache import hit_rate, load_time
from roofline.serving.served import BENCHMARK, UNDER_LOAD, Served
from roofline.serving.traffic.load import served
from roofline.specs.prompt_cache import HBM

#: Bounds of the validated range (docs/method.md).
_MOST_UTIL, _MOST_RHO, _MOST_PROMPT, _MOST_WAITING, _MOST_CV = 0.8, 0.5, 0.5, MILLI, 0.3
_MOST_LOADS = 0.6
_PROMPTS_PER_USER = 10.0  # of the usual benchmark


def outside(deployment: Deployment, workload: Workload, under_load: Served) -> Iterator[tuple[Real, str]]:
    """Conditions of the validated range: whether a case fails each, and the words for it."""
    if workload.request_rate is not None:
        yield under_load.util > _MOST_UTIL, f"utilisation above {_MOST_UTIL:.0%}"
        yield under_load.waiting_share > _MOST_WAITING, "requests wait for memory or max_num_seqs"
    else:
        yield under_load.rho_chunks > _MOST_UTIL, "prefill near the token budget"
    if workload.num_prompts is not None:
        yield workload.osl > 0.0, "a run that includes its start"
    yield under_load.rho > _MOST_RHO, f"prefill over {_MOST_RHO:.0%} of the time"
    has_decode = workload.osl > 1.0
    yield (
        has_decode & (under_load.prompt_share > _MOST_PROMPT),
        "one prefill over half of a request's decode steps",
    )
    yield workload.osl <= 1.0, "single-token answers"
    if workload.lengths is not None and workload.lengths.prompts.cv > _MOST_CV:
        yield workload.osl > 0.0, f"prompt length cv above {_MOST_CV:g}"
    cache = workload.cache
    if cache is not None and cache.tier != HBM:
        loads = hit_rate(deployment, workload.prefix, cache) * load_time(deployment, workload.prefix, cache)
        busy = under_load.request_rate * loads / (deployment.replicas * deployment.plan.dp)
        yield busy > _MOST_LOADS, f"loads of prefixes over {_MOST_LOADS:.0%} of the time of their link"
    if deployment.plan.pp > 1:
        yield workload.osl > 0.0, "pipeline parallelism"


def domain(fails: Sequence[str]) -> str:
    """A sentence on whether one case is inside the validated range; `fails`: failed conditions."""
    if not fails:
        tpot, ttft, tpot_p99, ttft_p99 = map(rounded, _INSIDE)
        return (
            f"{UNDER_LOAD}: inside the validated range; mean error of the closed form against a simulation with the "
            f"same step times, not against GPUs: TPOT {tpot} %, TTFT {ttft} %, p99 {tpot_p99}/{ttft_p99} %"
        )
    return (
        f"{UNDER_LOAD}: outside the validated range ({', '.join(fails)}): the closed form may be far off there, and "
        "percentiles that contradict their mean are left out; compare with --simulate"
    )


def benchmark_note(deployment: Deployment, workload: Workload, under_load: Served) -> tuple[str, ...]:
    """What a benchmark of as many users would report: they begin together, and its mean TTFT holds that start."""
    if workload.concurrency is None or workload.num_prompts is not None or type(under_load.ttft) is not float:
        return ()
    if workload.concurrency <= 1.0 or under_load.is_stable is not True:
        return ()
    prompts = round(_PROMPTS_PER_USER * workload.concurrency)
    run = served(deployment, replace(workload, num_prompts=float(prompts)), under_load.state)
    report = f"would report a mean TTFT of {to_text(run.ttft, 's')} (--num-prompts {prompts})"
    return (f"{BENCHMARK} {prompts} requests that all {workload.concurrency:g} users begin together {report}",)


def restated(
    warnings: Sequence[str], deployment: Deployment, workload: Workload, under_load: Served | None
) -> tuple[str, ...]:
    """Warnings of a case, with those on its load replaced for another deployment and workload; None: a burst."""
    other_warnings = tuple(text for text in warnings if not text.startswith((UNDER_LOAD, BENCHMARK)))
    if under_load is None:
        return other_warnings
    return (*other_warnings, domain([text for fails, text in outside(deployment, workload, under_load) if fails]))


# Mean errors of TPOT, TTFT and their p99 [%] against the simulation inside the range (docs/load.md).
_INSIDE = (2.3, 2.4, 4.8, 5.5)
