"""The GPUs of a case as a prefill pool and a decode pool: every way to divide them, and why an answer moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.analysis.goodput import Goodput
from roofline.api.inputs.pools import pool_of
from roofline.api.levers.disaggregate import disaggregate
from roofline.api.levers.pool_answer import Disaggregation
from roofline.grammar.pools import Pool, pool_text
from roofline.physics.plan import Plan
from roofline.quantity import rounded, to_text
from roofline.serving.prediction import Prediction
from roofline.specs.gpu import Gpu

__all__ = ["POOLS", "pooled_answer", "reason_of_pools", "split_options", "splits"]

#: Options of a disaggregated case that hold its pools.
POOLS = ("prefill", "decode")

_MOST_SPLITS = 7  # that are tried
_NOT_OF_POOLS = ("gpu", "tp", "pp", "ep", "dp", "num_gpus", "gpu_price")
_HALF, _QUARTER = 2, 4


def split_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `disaggregate` that both pools share, from those of `predict`.

    Args:
        options: of `predict`, model and GPU among them.

    Returns:
        The same without GPU and plan; a price of the GPU is that of both pools.
    """
    shared = {name: value for name, value in options.items() if name not in _NOT_OF_POOLS}
    price = options.get("gpu_price")
    return shared if price is None else {**shared, **{f"{pool}_gpu_price": price for pool in POOLS}}


def splits(gpu: str | Gpu, plan: Plan, replicas: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Ways to divide the GPUs of a case into two pools of whole replicas.

    One replica is divided into two, or four, of less tensor parallelism, where the plan has no other degree.

    Args:
        gpu: name, alias or record [text].
        plan: of a replica.
        replicas: of the case [1].

    Returns:
        What a way is called, and both pools in the one grammar, at most seven ways.

    >>> [name for name, _ in splits("h100", Plan(tp=2), 3)]
    ['pools of 1 + 2 at tp 2', 'pools of 2 + 1 at tp 2']
    """
    named = pool_of(gpu)
    name = named.gpu if named is not None else gpu.name if isinstance(gpu, Gpu) else gpu
    degrees = {degree: getattr(plan, degree) for degree in ("pp", "ep", "dp") if getattr(plan, degree) > 1}
    each = [(plan.tp, int(replicas))]
    if replicas == 1:
        each = [] if degrees else [(plan.tp // less, less) for less in (_HALF, _QUARTER) if plan.tp % less == 0]
    ways = [(tp, first, count - first) for tp, count in each for first in range(1, count)]
    step = -(-len(ways) // _MOST_SPLITS) if ways else 1
    for tp, first, second in ways[::step]:
        pools = [
            pool_text(Pool(name, tp=tp, **degrees, replicas=copies if copies > 1 else None))
            for copies in (first, second)
        ]
        yield f"pools of {first} + {second} at tp {tp}", dict(zip(POOLS, pools, strict=True))


def pooled_answer(options: Mapping[str, Any]) -> Disaggregation:
    """The answer of two pools.

    Args:
        options: keyword arguments of `disaggregate`.

    Returns:
        The answer.

    Raises:
        RooflineError: as `disaggregate` raises.
    """
    return disaggregate(**options)


def reason_of_pools(
    goal: str, before: tuple[Prediction, Goodput | None], after: tuple[Disaggregation, Goodput | None]
) -> str:
    """Why two pools move what is asked for.

    Args:
        goal: ttft, tpot, goodput or cost [text].
        before: the case as it is, and its goodput where there is an SLO.
        after: the pools likewise.

    Returns:
        A sentence [text].
    """
    one, two = before[0], after[0]
    then, plans = one.deployment.plan.tp, {pool: getattr(two.pools, pool).plan.tp for pool in POOLS}
    if goal == "ttft":
        queue = f"queue {to_text(float(one.queue or 0.0), 's')} -> {to_text(two.queue, 's')}"
        link = f"the KV cache adds {to_text(two.transfer, 's')}"
        prompt = "" if plans["prefill"] == then else f"; a prompt runs at tp {plans['prefill']} instead of {then}"
        return f"{queue}; {link}{prompt}"
    if goal == "tpot":
        steps = "" if plans["decode"] == then else f"; they run at tp {plans['decode']} instead of {then}"
        return f"no prompt comes between decode steps{steps}"
    fullest = max(two.utils, key=lambda part: two.utils[part])
    part = fullest if fullest == "link" else f"{fullest} pool"
    if before[1] is None or after[1] is None:
        return f"the {part} is the fullest part, {100.0 * two.util:.0f} % of what it can answer"
    rates = f"{rounded(after[1].rate)} requests/s within the SLO instead of {rounded(before[1].rate)}"
    return f"the {part} is the fullest part; {rates}"
