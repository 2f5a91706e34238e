"""Causes that may explain why two runs of a server differ, each with one number for its size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from roofline.formulas.inputs import HOST_TIMES
from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.quantity import rounded, to_text
from roofline.records import NamedTuple, replace
from roofline.serving.latency import BURST, RATE, USERS, Workload, e2el
from roofline.serving.served import lanes
from roofline.serving.traffic.load import mean_latencies, served
from roofline.specs.engine import Engine

#: Causes that a diagnosis can name.
CAUSES = ("kernels", "host", "batch limit", "cache", "load")
#: Figures of a run: times [s] and answered requests [1/s].
METRICS = ("ttft", "tpot", "e2el", "answered_rate")

#: Engine times that a faster GPU does not shorten: all but the all-reduces, which run on the GPU.
_HOST = tuple(name for name in HOST_TIMES if name != "all_reduce")
# Sizes that are tried.
_SLOWER = (0.25, 0.45, 0.65, 0.82, 0.93, 1.08, 1.22, 1.55, 2.2, 4.0)
_HOSTS = (0.1, 0.35, 0.7, 1.3, 2.1, 3.5, 6.0, 10.0)
_MORE = (-1.0, -0.4, -0.15, -0.05, 0.05, 0.12, 0.25, 0.5, 1.0, 3.0)  # of the shortest predicted TPOT
_SHARES = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.88, 0.97)
_REQUESTS = (0.3, 0.5, 0.7, 0.88, 1.12, 1.35, 1.8, 3.3)
_ANSWERS = (0.35, 0.55, 0.75, 0.9, 1.12, 1.35, 1.8, 2.9)
_LIMITS = (0.03, 0.08, 0.16, 0.27, 0.4, 0.53, 0.66, 0.8, 0.93)  # of the sequences that run


class Observed(NamedTuple):
    deployment: Deployment
    workload: Workload
    measured: Mapping[str, float]  # of `METRICS`
    kernels: float = 1.0  # factor on predicted GPU time [1]
    near: tuple[Real, ...] | None = None  # steady state of a similar run, where the solver starts


class Figures(NamedTuple):
    values: Mapping[str, float]  # predicted, by `METRICS`
    state: tuple[Real, ...] | None = None  # steady state of the load


class Cause(NamedTuple):
    """One possible change, parametrized by its size."""

    name: str  # one of `CAUSES`
    sizes: Callable[[list[Observed]], tuple[float, ...]]  # to try on these runs; ascending
    moved: Callable[[Observed, float], Observed | None]  # the run with this change; None where it cannot have it
    text: Callable[[list[Observed], float], str]
    is_before: bool = False  # the run before had it, the run after lost it


def predicted_figures(run: Observed) -> Figures | None:
    """Figures of a run; None where there is no steady state.

    Kernels k times slower are computed as a host k times faster and a request rate k times higher, times scaled by k.
    """
    factor = run.kernels
    deployment, workload = run.deployment, run.workload
    if factor != 1.0:
        engine = replace(deployment.engine, **{name: getattr(deployment.engine, name) / factor for name in _HOST})
        deployment = replace(deployment, engine=engine)
        if workload.request_rate is not None:
            workload = replace(workload, request_rate=workload.request_rate * factor)
    if workload.load == BURST:
        ttft, tpot = (float(time) for time in mean_latencies(deployment, workload))
        total = float(e2el(ttft, tpot, workload.osl))
        return Figures(_scaled(factor, ttft, tpot, total, None))
    means = served(deployment, workload, run.near)
    if not means.is_stable or not math.isfinite(means.ttft):
        return None
    total = float(means.ttft + means.decode)
    values = _scaled(factor, float(means.ttft), float(means.tpot), total, float(means.request_rate))
    return Figures(values, means.state)


def in_flight(run: Observed) -> float:
    """Most sequences that one data-parallel rank runs at once, as predicted."""
    workload, ranks = run.workload, float(lanes(run.deployment))
    if workload.load == USERS:
        return max(float(workload.concurrency or 1.0) / ranks, 1.0)
    figures = predicted_figures(run)
    mean = 1.0 if figures is None else float(workload.request_rate or 0.0) * figures.values["e2el"] / ranks
    return mean + 2.0 * math.sqrt(mean) + 1.0  # Poisson: rarely more


def _scaled(factor: float, ttft: float, tpot: float, e2e: float, rate: float | None) -> dict[str, float]:
    times = {"ttft": factor * ttft, "tpot": factor * tpot, "e2el": factor * e2e}
    return times if rate is None else {**times, "answered_rate": rate / factor}


def _with_engine(run: Observed, **changes: float) -> Observed:
    engine: Engine = replace(run.deployment.engine, **changes)  # type: ignore[arg-type]
    return run._replace(deployment=replace(run.deployment, engine=engine))


def _with_workload(run: Observed, **changes: Real) -> Observed:
    return run._replace(workload=replace(run.workload, **changes))


def _slower_kernels(run: Observed, size: float) -> Observed:
    return run._replace(kernels=run.kernels * size)


def _slower_rates(run: Observed, size: float) -> Observed:
    gpu = run.deployment.gpu
    link = replace(gpu.link, bandwidth=gpu.link.bandwidth / size)
    slower = replace(
        gpu,
        bandwidth=gpu.bandwidth / size,
        peaks={name: peak / size for name, peak in gpu.peaks.items()},
        exp_rate=None if gpu.exp_rate is None else gpu.exp_rate / size,
        link=link,
    )
    return run._replace(deployment=replace(run.deployment, gpu=slower))


def _slower_host(run: Observed, size: float) -> Observed:
    engine = run.deployment.engine
    return _with_engine(run, **{name: getattr(engine, name) * size for name in _HOST if name != "network"})


def _longer_steps(run: Observed, size: float) -> Observed | None:
    step = run.deployment.engine.step + size
    return None if step < 0.0 else _with_engine(run, step=step)


def _step_sizes(runs: list[Observed]) -> tuple[float, ...]:
    shortest = min(
        (figures.values["tpot"] for figures in map(predicted_figures, runs) if figures is not None), default=0.0
    )
    least = -min(float(run.deployment.engine.step) for run in runs)
    sizes = {max(share * shortest, least) for share in _MORE}
    return tuple(sorted(sizes))


def _limited(run: Observed, size: float) -> Observed | None:
    if run.workload.load == BURST:
        return None
    stages = float(run.deployment.plan.pp)
    present = run.deployment.engine.max_num_seqs
    limit = max(size, 1.0) * stages
    return run if present is not None and present <= limit else _with_engine(run, max_num_seqs=limit)


def _limits(runs: list[Observed]) -> tuple[float, ...]:
    most = max(map(in_flight, runs))
    return tuple(sorted({max(share * most, 1.0) for share in _LIMITS}))


def _cached(run: Observed, size: float) -> Observed:
    workload = run.workload
    return _with_workload(run, prefix=workload.prefix + size * (workload.isl - workload.prefix))


def _uncached(run: Observed, size: float) -> Observed | None:
    prefix = run.workload.prefix
    return _with_workload(run, prefix=(1.0 - size) * prefix) if prefix else None


def _more_requests(run: Observed, size: float) -> Observed | None:
    workload = run.workload
    if workload.request_rate is not None:
        return _with_workload(run, request_rate=workload.request_rate * size)
    if workload.concurrency is None:
        return _with_workload(run, batch=max(workload.batch * size, 1.0))
    users = max(workload.concurrency * size, 1.0)
    if workload.num_prompts is not None:
        run = _with_workload(run, num_prompts=max(workload.num_prompts, users))
    return _with_workload(run, concurrency=users)


def _longer_answers(run: Observed, size: float) -> Observed:
    return _with_workload(run, osl=max(run.workload.osl * size, 1.0))


def _always(*sizes: float) -> Callable[[list[Observed]], tuple[float, ...]]:
    return lambda _: sizes


def _percent(factor: float) -> str:
    return f"{rounded(abs(factor - 1.0) * 100.0, 2)} %"


def _kernels_text(_: list[Observed], size: float) -> str:
    return f"kernels {_percent(size)} {'slower' if size > 1.0 else 'faster'}"


def _host_text(runs: list[Observed], size: float) -> str:
    engine, layers = runs[0].deployment.engine, runs[0].deployment.model.layers
    word = "more" if size > 1.0 else "less"
    step = abs(float(engine.step + engine.layer * layers) * (size - 1.0))
    request = abs(float(engine.request + engine.arrival + engine.prefill) * (size - 1.0))
    return f"host: {to_text(step, 's', 2)} {word} a step, {to_text(request, 's', 2)} {word} a request"


def _step_text(_: list[Observed], size: float) -> str:
    return f"host: {to_text(abs(size), 's', 2)} {'more' if size > 0.0 else 'less'} a step"


def _shorter_step_text(runs: list[Observed], size: float) -> str:
    return _step_text(runs, -size)


def _cached_text(runs: list[Observed], size: float) -> str:
    share = max(size * (1.0 - run.workload.prefix / run.workload.isl) for run in runs)
    return f"cache: about {_percent(1.0 + share)} of the prompt was newly cached"


def _uncached_text(runs: list[Observed], size: float) -> str:
    share = max(size * run.workload.prefix / run.workload.isl for run in runs)
    return f"cache: about {_percent(1.0 + share)} of the prompt was no longer cached"


def _cached_before_text(runs: list[Observed], size: float) -> str:
    return _cached_text(runs, size).replace("newly", "no longer")


def _requests_text(runs: list[Observed], size: float) -> str:
    if runs[0].workload.load == RATE:
        return f"load: {rounded(size, 2)} x the request rate that is stated"
    return f"load: {rounded(size, 2)} x the requests in flight that are stated"


def _answers_text(_: list[Observed], size: float) -> str:
    return f"load: answers {_percent(size)} {'longer' if size > 1.0 else 'shorter'} than stated"


def _limit_text(runs: list[Observed], size: float) -> str:
    return f"batch limited to about {_sequences(runs, size)}"


def _lifted_text(runs: list[Observed], size: float) -> str:
    return f"batch no longer limited to about {_sequences(runs, size)}"


def _sequences(runs: list[Observed], size: float) -> str:
    plan = runs[0].deployment.plan
    return rounded(max(size, 1.0) * float(plan.dp * plan.pp), 2)


SLOWER_KERNELS = Cause("kernels", _always(*_SLOWER), _slower_kernels, _kernels_text)
SLOWER_HOST = Cause("host", _always(*_HOSTS), _slower_host, _host_text)
SUSPECTED = (
    SLOWER_KERNELS,
    Cause("kernels", _always(*_SLOWER), _slower_rates, _kernels_text),
    Cause("host", _step_sizes, _longer_steps, _step_text),
    Cause("host", _step_sizes, _longer_steps, _shorter_step_text, is_before=True),
    SLOWER_HOST,
    Cause("batch limit", _limits, _limited, _limit_text),
    Cause("batch limit", _limits, _limited, _lifted_text, is_before=True),
    Cause("cache", _always(*_SHARES), _cached, _cached_text),
    Cause("cache", _always(*_SHARES), _uncached, _uncached_text),
    Cause("cache", _always(*_SHARES), _cached, _cached_before_text, is_before=True),
    Cause("load", _always(*_REQUESTS), _more_requests, _requests_text),
    Cause("load", _always(*_ANSWERS), _longer_answers, _answers_text),
)
