"""One pool for the same rent as two: its latencies, and when each of them serves more requests."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.analysis.goodput import largest_rate
from roofline.analysis.pool_goodput import Crossover, crossovers, pool_goodput
from roofline.ops import always
from roofline.physics.memory import memory
from roofline.physics.plan import Deployment
from roofline.quantity import rounded, to_text
from roofline.records import NamedTuple, dataclass, replace
from roofline.serving.disaggregation import Pools
from roofline.serving.latency import Workload
from roofline.serving.served import Served
from roofline.serving.targets import limited_latencies
from roofline.serving.traffic.load import served


class _RatesWithin(NamedTuple):
    """Largest request rates within an SLO."""

    apart: float  # [1/s] of the two pools
    together: float  # [1/s] of the one pool

    @property
    def sentence(self) -> str:
        """Which way of serving answers more."""
        if max(self.apart, self.together) == 0.0:
            return "neither two pools nor one pool meet the SLO at any rate"
        rates = f"two pools answer {rounded(self.apart)} requests/s, one pool {rounded(self.together)}"
        return f"within the SLO {rates}"


@dataclass(frozen=True, slots=True)
class OnePool:
    """One pool on one kind of GPU, for the rent of two."""

    gpu: str
    tp: int
    num_gpus: float  # for the same rent, in fractions
    ttft: float | None = None  # [s] under the same load; None where it is overloaded
    tpot: float | None = None  # [s]
    max_request_rate: float = 0.0  # [1/s]
    pools_max_request_rate: float = 0.0  # [1/s] of the two pools
    crossings: tuple[Crossover, ...] = ()  # limits on TPOT at which both answer equally many requests
    ttft_p99: float | None = None  # [s]; None too where it is not known
    within: _RatesWithin | None = None  # the SLO of the case
    reason: str | None = None  # why there is no comparison

    @property
    def sentence(self) -> str:
        name = f"one pool of {self.gpu}"
        if self.reason is not None:
            return f"{name}: {self.reason}"
        load = "cannot take this load"
        if self.ttft is not None:
            tpot = "" if self.tpot is None else f", TPOT {to_text(self.tpot, 's')}"
            load = f"TTFT {to_text(self.ttft, 's')}{tpot}"
        most = f"at most {rounded(self.max_request_rate)} requests/s against {rounded(self.pools_max_request_rate)}"
        where = f"{name} of the same rent ({rounded(self.num_gpus)} GPUs, tp {self.tp}): {load}; {most}"
        return f"{where}; {self.ranking if self.within is None else self.within.sentence}"

    @property
    def ranking(self) -> str:
        """Under which limits on the mean TPOT separate pools answer more."""
        if not self.crossings:
            is_apart = self.pools_max_request_rate > self.max_request_rate
            winner = "separate pools answer" if is_apart else "one pool answers"
            return f"{winner} more under practically any limit on TPOT"
        winner = "one pool answers" if self.crossings[0].to_pools else "separate pools answer"
        parts = []
        low: str | None = None
        for crossing in self.crossings:
            limit = to_text(crossing.tpot, "s")
            span = f"less than {limit}" if low is None else f"between {low} and {limit}"
            parts.append(f"{winner} more where TPOT is limited to {span}")
            winner, low = ("separate pools answer" if crossing.to_pools else "one pool answers"), limit
        return ", ".join([*parts, f"{winner.split()[0]} {winner.split()[1]} beyond"])


def one_pool(pools: Pools, workload: Workload, slo: Mapping[str, float], width: float = 1.0) -> tuple[OnePool, ...]:
    """One pool for the rent of two, on each of their GPUs, with the better of their plans.

    `width`: high over low end of the 80 % interval of TPOT [1].
    """
    kinds: dict[str, list[Deployment]] = {}
    for deployment in (pools.decode, pools.prefill):
        kinds.setdefault(deployment.gpu.name, []).append(deployment)
    answers = []
    for name, deployments in kinds.items():
        count = _gpus_of_rent(pools, deployments[0], is_single=len(kinds) == 1)
        if count is None:
            reason = "no price is known by which to compare; give prefill_gpu_price and decode_gpu_price"
            answers.append(OnePool(name, deployments[0].plan.tp, 0.0, reason=reason))
            continue
        length = workload.isl + workload.osl
        able = [deployment for deployment in deployments if always(memory(deployment, 1.0, length).fits)]
        if not able:
            answers.append(OnePool(name, deployments[0].plan.tp, count, reason="does not fit under these plans"))
            continue
        plans = {deployment.plan: replace(deployment, replicas=1) for deployment in able}
        candidates = [_compared(pools, replica, workload, slo, count, width) for replica in plans.values()]
        answers.append(max(candidates, key=_score))
    return tuple(answers)


def _score(answer: OnePool) -> float:
    """The rate within the SLO if there is one, else the largest rate [1/s]."""
    return answer.max_request_rate if answer.within is None else answer.within.together


def _gpus_of_rent(pools: Pools, replica: Deployment, *, is_single: bool) -> float | None:
    """GPUs of one kind for the rent of both pools, in fractions; None where a price is unknown."""
    prices = [(deployment.gpu.price, deployment.num_gpus) for deployment in (pools.prefill, pools.decode)]
    if replica.gpu.price is not None and all(price is not None for price, _ in prices):
        return sum(price.typical * gpus for price, gpus in prices if price is not None) / replica.gpu.price.typical
    return float(pools.num_gpus) if is_single else None


def _compared(
    pools: Pools, replica: Deployment, workload: Workload, slo: Mapping[str, float], count: float, width: float
) -> OnePool:
    """Both ways to serve, with `count` GPUs in replicas of one pool, whole or not."""
    replicas = count / replica.plan.num_gpus
    share = {
        name: None if getattr(workload, name) is None else getattr(workload, name) / replicas
        for name in ("request_rate", "concurrency", "num_prompts")
    }
    shared = replace(workload, **share)
    load = served(replica, shared)
    crossings, apart, together = crossovers(pools, replica, workload, replicas, width)
    within = None
    if slo:
        unit_load = replace(workload, concurrency=None, num_prompts=None, request_rate=1.0)
        rate = largest_rate(replica, unit_load, slo).rate * replicas
        within = _RatesWithin(pool_goodput(pools, workload, slo).rate, rate)
    is_there = always(load.is_stable)
    several = workload.osl > 1.0
    return OnePool(
        gpu=replica.gpu.name,
        tp=replica.plan.tp,
        num_gpus=count,
        ttft=float(load.ttft) if is_there else None,
        tpot=float(load.tpot) if is_there and several else None,
        max_request_rate=together,
        pools_max_request_rate=apart,
        crossings=tuple(crossings),
        ttft_p99=_ttft_p99(replica, shared, load) if is_there else None,
        within=within,
    )


def _ttft_p99(replica: Deployment, workload: Workload, load: Served) -> float | None:
    """The p99 of TTFT over requests, as in a prediction [s]; None where it is not known, and for a run."""
    if workload.num_prompts is not None:
        return None
    time = float(limited_latencies(replica, workload, ("ttft_p99",), load=load)["ttft_p99"])
    return None if time == float("inf") else time
