"""The GPUs of a case as a prefill and a decode pool: ways to divide them, and why that moves an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.analysis.goodput import Goodput
from roofline.api.inputs.pools import pool_of
from roofline.api.levers.pool_answer import Disaggregation
from roofline.grammar.pools import Pool, pool_text
from roofline.physics.plan import Plan
from roofline.quantity import rounded, to_text
from roofline.serving.prediction import Prediction
from roofline.specs.gpu import Gpu

#: Options of `disaggregate` that name its pools.
POOLS = ("prefill", "decode")

_MOST_SPLITS = 7
_NOT_OF_POOLS = ("gpu", "tp", "pp", "ep", "dp", "num_gpus", "gpu_price")
_HALF, _QUARTER = 2, 4


def split_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `disaggregate` for both pools, from those of `predict`."""
    shared = {name: value for name, value in options.items() if name not in _NOT_OF_POOLS}
    price = options.get("gpu_price")
    return shared if price is None else {**shared, **{f"{pool}_gpu_price": price for pool in POOLS}}


def splits(gpu: str | Gpu, plan: Plan, replicas: int) -> Iterator[tuple[str, dict[str, str]]]:
    """At most seven ways to divide the GPUs of a case into two pools of whole replicas: names and pools.

    A single replica is split into two or four with less tensor parallelism, if the plan has no other degree.

    >>> [name for name, _ in splits("h100", Plan(tp=2), 3)]
    ['pools of 1 + 2 at tp 2', 'pools of 2 + 1 at tp 2']
    """
    pool = pool_of(gpu)
    name = pool.gpu if pool is not None else gpu.name if isinstance(gpu, Gpu) else gpu
    degrees = {degree: getattr(plan, degree) for degree in ("pp", "ep", "dp") if getattr(plan, degree) > 1}
    divisions = [(plan.tp, int(replicas))]
    if replicas == 1:
        divisions = [] if degrees else [(plan.tp // less, less) for less in (_HALF, _QUARTER) if plan.tp % less == 0]
    ways = [(tp, first, count - first) for tp, count in divisions for first in range(1, count)]
    step = -(-len(ways) // _MOST_SPLITS) if ways else 1
    for tp, first, second in ways[::step]:
        pools = [
            pool_text(Pool(name, tp=tp, **degrees, replicas=copies if copies > 1 else None))
            for copies in (first, second)
        ]
        yield f"pools of {first} + {second} at tp {tp}", dict(zip(POOLS, pools, strict=True))


def reason_of_pools(
    goal: str, before: tuple[Prediction, Goodput | None], after: tuple[Disaggregation, Goodput | None]
) -> str:
    """Why two pools move a goal."""
    single, apart = before[0], after[0]
    then, plans = single.deployment.plan.tp, {pool: getattr(apart.pools, pool).plan.tp for pool in POOLS}
    if goal == "ttft":
        queue = f"queue {to_text(float(single.queue or 0.0), 's')} -> {to_text(apart.queue, 's')}"
        link = f"the KV cache adds {to_text(apart.transfer, 's')}"
        prompt = "" if plans["prefill"] == then else f"; a prompt runs at tp {plans['prefill']} instead of {then}"
        return f"{queue}; {link}{prompt}"
    if goal == "tpot":
        steps = "" if plans["decode"] == then else f"; they run at tp {plans['decode']} instead of {then}"
        return f"no prompt comes between decode steps{steps}"
    fullest = max(apart.utils, key=lambda part: apart.utils[part])
    part = fullest if fullest == "link" else f"{fullest} pool"
    if before[1] is None or after[1] is None:
        return f"the {part} is the fullest part, {100.0 * apart.util:.0f} % of what it can answer"
    rates = f"{rounded(after[1].rate)} requests/s within the SLO instead of {rounded(before[1].rate)}"
    return f"the {part} is the fullest part; {rates}"
