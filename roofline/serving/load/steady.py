"""Mean figures and distributions under any load: users, a queue, random arrivals, bunches, and turns of sessions."""

from __future__ import annotations

from roofline.numbers.operations import Real
from roofline.numbers.quantity import to_text
from roofline.physics.plan import Deployment
from roofline.serving.latency import BENCHMARK, Served, Workload, decode, prefill, time_per_token
from roofline.serving.load.bunching import served_of_arrivals, tails_of_arrivals
from roofline.serving.load.sessions import served_in_sessions, tails_in_sessions
from roofline.serving.load.tails import Tails
from roofline.specs.load import Users
from roofline.support.records import replace


def served(deployment: Deployment, workload: Workload, start: tuple[Real, ...] | None = None) -> Served:
    """Mean latencies of a deployment under a load.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths, and users or a rate.
        start: `Served.state` of a nearby case, as the initial guess [any].

    Returns:
        Mean figures; times are infinite under overload, and where no steady state is found.

    Source:
        `served_of_arrivals`, `served_in_sessions`.
    """
    if _has_sessions(workload):
        return served_in_sessions(deployment, workload)
    return served_of_arrivals(deployment, workload, start)


def tails(deployment: Deployment, workload: Workload, under_load: Served) -> Tails:
    """Distributions of TTFT, TPOT and E2EL over the requests of a load.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths and load, without `num_prompts`: of the steady state.
        under_load: its means.

    Returns:
        The distributions; meaningless for a load without a steady state.

    Source:
        `tails_of_arrivals`, `tails_in_sessions`.
    """
    if _has_sessions(workload):
        return tails_in_sessions(deployment, workload)
    return tails_of_arrivals(deployment, workload, under_load)


def _has_sessions(workload: Workload) -> bool:
    """Whether requests are turns, of which it is not known what they find of their context."""
    return workload.sessions is not None and workload.cache is not None and workload.cache.loaded is None


def mean_latencies(deployment: Deployment, workload: Workload) -> tuple[Real, Real]:
    """TTFT and TPOT [s] under any load."""
    if workload.load.is_burst:
        step = decode(deployment, workload).time
        return prefill(deployment, workload).time, time_per_token(deployment, workload.osl, step)
    under_load = served(deployment, workload)
    return under_load.ttft, under_load.tpot


def benchmark_note(deployment: Deployment, workload: Workload, under_load: Served) -> tuple[str, ...]:
    """What a benchmark of as many users would report: they begin together, and its mean TTFT holds that start."""
    prompts = workload.load.benchmark
    if prompts is None or type(under_load.ttft) is not float or under_load.is_stable is not True:
        return ()
    run = served(deployment, replace(workload, load=Users(workload.concurrency, prompts)), under_load.state)
    report = f"would report a mean TTFT of {to_text(run.ttft, 's')} (`num_prompts` {prompts:.0f})"
    return (f"{BENCHMARK} {prompts:.0f} requests that all {workload.concurrency:.12g} users begin together {report}",)
