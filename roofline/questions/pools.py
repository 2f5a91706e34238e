"""Two pools as callers write them, and the one pool for the same rent beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from roofline.numbers.operations import always
from roofline.numbers.quantity import MEGA, from_text, rounded, to_text
from roofline.physics.memory import memory
from roofline.physics.plan import Deployment
from roofline.questions.inputs.arguments import flag, one_case, scalar
from roofline.questions.inputs.case import CACHE, LEAST_RATE, price_of
from roofline.questions.inputs.deployment import POOLED, choice, own_settings, pool_of
from roofline.questions.inputs.media import LEFT_OUT
from roofline.questions.predict import predict
from roofline.serving.capacity import Crossover, crossovers, largest_rate, pool_goodput
from roofline.serving.latency import BENCHMARK, UNDER_LOAD, Served, Workload
from roofline.serving.load.limits import limited_latencies
from roofline.serving.load.pools import KV_LINKS, NVLINK, PCIE_LINK, RDMA, KvLink, Pools
from roofline.serving.load.steady import served
from roofline.specs.gpu import PCIE, Gpu, Price
from roofline.specs.load import Rate
from roofline.specs.model import Model
from roofline.specs.written import read_as
from roofline.support.errors import BadInput, DoesNotFit, RooflineError, shown
from roofline.support.records import NamedTuple, dataclass, replace

# The two pools as callers write them: their deployments, the link between them, and GPU prices.

_NO_GPUS = r"^0+\s*[x*\u00d7]|[x*\u00d7]0+$|:(?:tp|pp|dcp|dp|cp)0"
_MOST_PRICE = 1000.0  # USD per GPU-hour
_LEAST_LINK = MEGA  # [B/s]


def deployment_of_pool(
    role: str, model: str | Model, pool: Any, options: Mapping[str, Any], price: Any = None
) -> tuple[Deployment, tuple[str, ...]]:
    """Deployment of one pool, and notes; its text overrides `options`, `price` is that of a GPU [USD/h]."""
    stated_options = {name: value for name, value in options.items() if value is not None}
    cached = next((name for name in CACHE if name in stated_options), None)
    if cached is not None:
        raise BadInput(f"separate pools take a prefix that is always there (prefix); leave out {cached}")
    try:
        text = scalar(pool)
        if isinstance(text, str) and re.search(_NO_GPUS, text.strip(), re.IGNORECASE):
            raise BadInput(f"{shown(text)} has no GPUs; write at least one replica, such as b200:tp4x1")
        parsed = pool_of(pool, options.get("specs"))
        if parsed is not None:
            stated_options = {
                name: value
                for name, value in stated_options.items()
                if name not in POOLED or name not in parsed.options
            }
        if parsed is None and not isinstance(pool, Gpu) and not isinstance(scalar(pool), str):
            raise BadInput(f"{shown(pool)} is not a pool; write a GPU with its plan and replicas, such as b200:tp4x2")
        stated_options = dict(own_settings(pool, stated_options))
        choice(pool, stated_options)
        prediction = predict(model, pool, **{**stated_options, "request_rate": LEAST_RATE})
    except RooflineError as error:
        raise type(error)(f"{role} pool: {error}") from None
    one_case("disaggregate", prediction.workload.isl + prediction.workload.osl + prediction.workload.prefix)
    if not prediction.fits:
        raise DoesNotFit(f"{role} pool: does not fit")
    deployment = prediction.deployment
    if price is not None:
        usd_per_s = _price(f"{role}_gpu_price", price)
        deployment = replace(deployment, gpu=replace(deployment.gpu, price=Price(usd_per_s, usd_per_s, usd_per_s)))
    notes = [text for text in prediction.warnings if not text.startswith((UNDER_LOAD, BENCHMARK, "tp =", *LEFT_OUT))]
    return deployment, tuple(f"{role}: {text}" for text in notes)


def kv_link_between(prefill: Deployment, decode: Deployment, link: Any, layerwise: Any) -> KvLink:
    """The KV transfer link; None: NVLink where one scale-up domain holds both pools, else RDMA."""
    is_layerwise = flag("layerwise", layerwise)
    near, far = prefill.gpu, decode.gpu
    fits_domain = near.name == far.name and prefill.num_gpus + decode.num_gpus <= near.link.domain
    fits_domain = fits_domain and near.link.kind != PCIE
    kind = scalar(link)
    if kind is None:
        kind = NVLINK if fits_domain else RDMA
    if isinstance(kind, str) and kind.strip().lower() in KV_LINKS:
        kind = kind.strip().lower()
        if kind == NVLINK and not fits_domain:
            raise BadInput(
                f"kv_link = nvlink needs both pools in one scale-up domain: {prefill.num_gpus} {near.name} and "
                f"{decode.num_gpus} {far.name} are not; write rdma, or a bandwidth such as '50 GB/s'"
            )
        rates = []
        for gpu in (near, far):
            rate = {NVLINK: gpu.link.bandwidth, RDMA: gpu.scale_out, PCIE_LINK: gpu.host_link}[kind]
            if rate is None:
                what = "network per GPU" if kind == RDMA else "link to its host"
                raise BadInput(f"{gpu.name} states no {what}; give the bandwidth of a GPU, such as kv_link='50 GB/s'")
            rates.append(float(rate))
        return KvLink(kind, min(rates), is_layerwise)
    if type(kind) in (int, float) and not isinstance(kind, bool):
        rate = float(kind)
    elif isinstance(kind, str):
        start = f"kv_link = {shown(kind)} is neither nvlink, rdma, pcie nor a bandwidth: "
        rate = read_as(start, partial(from_text, dimension="B/s"), kind)
    else:
        rate = 0.0
    if not rate >= _LEAST_LINK:
        raise BadInput(f"kv_link = {shown(link)} must be nvlink, rdma, pcie or a bandwidth such as '50 GB/s'")
    return KvLink("given", rate, is_layerwise)


def link_text(link: KvLink) -> str:
    """A link in a few words.

    >>> link_text(KvLink("rdma", 5e10))
    'rdma at 50 GB/s per GPU'
    """
    if link.bandwidth == float("inf"):
        return "an infinite link"
    name = "a link" if link.kind == "given" else link.kind
    return f"{name} at {to_text(float(link.bandwidth), 'B/s')} per GPU{', layer by layer' if link.is_layerwise else ''}"


def _price(name: str, value: Any) -> float:
    """Price of a GPU [USD/s], typical of a range."""
    try:
        price = price_of(value)
    except BadInput as error:
        raise BadInput(str(error).replace("gpu_price", name)) from None
    if price is None:
        raise BadInput(f"{name} = {shown(value)} must be a price in USD per GPU and hour, such as 3.5")
    return price.typical


# One pool for the same rent as two: its latencies, and when each of them serves more requests.


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
    shared = replace(workload, load=workload.load.shared(replicas))
    load = served(replica, shared)
    crossings, apart, together = crossovers(pools, replica, workload, replicas, width)
    within = None
    if slo:
        unit_load = replace(workload, load=Rate(1.0))
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
    if workload.load.is_run:
        return None
    time = float(limited_latencies(replica, workload, ("ttft_p99",), load=load)["ttft_p99"])
    return None if time == float("inf") else time
