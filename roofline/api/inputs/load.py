"""A load on a deployment: the smallest degree at which it fits, replicas that share it, what to say of its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping

from roofline.api.inputs.shape import cold_start_warnings
from roofline.elements import all_of, any_of, largest_of
from roofline.errors import BadInput, Overloaded
from roofline.ops import Real, where
from roofline.physics.memory import largest_batch
from roofline.physics.plan import Deployment, Plan
from roofline.quantity import rounded
from roofline.records import replace
from roofline.serving.latency import BURST, USERS, Workload
from roofline.serving.prediction import Prediction
from roofline.serving.served import UNDER_LOAD, Served, lanes
from roofline.serving.sizing import (
    check_count,
    check_degrees,
    check_plan,
    does_not_fit,
    plan_fault,
    possible_tp,
    smallest_tp,
    widest_tp,
)

__all__ = ["UNDER_LOAD", "at_smallest_tp", "check_longest", "domains", "replicas", "under_load"]

_SAME = 0.01  # more that a wider plan takes and that is not worth its GPUs


def at_smallest_tp(
    deployment: Deployment,
    wanted: Workload,
    *,
    allow_oversize: bool,
    num_gpus: int | None = None,
    copies: int | None = None,
    slo: Mapping[str, float] | None = None,
) -> Deployment:
    """The deployment at the smallest tp at which its case fits, the largest one where there are several.

    Where the number of GPUs is stated and limits are, too, the smallest that meets them, or comes nearest, is taken.

    Users fit where memory and `max_num_seqs` hold all of them at once, requests that come at random where no more come
    than can be answered; where that is nowhere so, the smallest tp is taken that holds, or answers, the most.

    Args:
        deployment: model, GPU, precision and a plan whose other degrees hold.
        wanted: lengths and load.
        allow_oversize: take the largest tp of the scale-up domain where none fits [bool].
        num_gpus: GPUs of all replicas, which share the load; None for one replica [1].
        copies: replicas, where their number is stated and not that of the GPUs [1].
        slo: limits on latencies; None for none [s].

    Returns:
        The deployment, its replicas apart.

    Raises:
        BadInput: a plan that cannot be.
        DoesNotFit: a single case that fits at no tp.
    """
    plan = deployment.plan
    if num_gpus is not None:
        check_count("num_gpus", num_gpus)
    if check_degrees not in deployment.memo:
        check_degrees(deployment.model, plan)
        deployment.memo[check_degrees] = True
    length = wanted.isl + wanted.osl
    batch, longest = largest_of(wanted.batch), largest_of(length)
    tp = smallest_tp(deployment, batch, longest)
    if tp is None:
        widest = widest_tp(deployment)
        possible = [tp for tp in possible_tp(deployment.model, widest) if (tp * plan.dp) % plan.ep == 0] or [1]
        deployment = replace(deployment, plan=replace(plan, tp=possible[-1]))
        check_plan(deployment.model, deployment.plan)
        if not allow_oversize and type(wanted.batch + length) is float:
            raise does_not_fit(deployment, batch, longest)
        return deployment
    if (
        num_gpus is not None
        and slo
        and type(length + wanted.batch + (wanted.concurrency or wanted.request_rate or 0.0)) is float
    ):
        tp = _for_the_limits(deployment, tp, wanted, num_gpus, slo)
    elif wanted.load != BURST:
        tp = _for_the_load(deployment, tp, wanted, num_gpus, copies)
    return deployment if tp == plan.tp else deployment.at(replace(plan, tp=tp))


def _wider(deployment: Deployment, least: int) -> list[int]:
    """Tensor-parallel degrees that are possible, from the least on."""
    plan, model = deployment.plan, deployment.model
    degrees = possible_tp(model, widest_tp(deployment))
    return [tp for tp in degrees if tp >= least and plan_fault(model, replace(plan, tp=tp)) is None]


def _for_the_limits(
    deployment: Deployment, least: int, wanted: Workload, num_gpus: int, slo: Mapping[str, float]
) -> int:
    """Smallest degree that meets limits on so many GPUs; where none does, the one that comes nearest."""
    from roofline.serving.targets import excess

    best, nearest = least, math.inf
    for tp in _wider(deployment, least):
        one = deployment.at(replace(deployment.plan, tp=tp))
        copies, rest = divmod(num_gpus, one.plan.num_gpus)
        if rest or not copies:
            continue
        worst = float(excess(one.copies(copies), wanted, slo))
        if worst < nearest:
            best, nearest = tp, worst
        if worst <= 1.0:
            break
    return best


def _for_the_load(
    deployment: Deployment, least: int, wanted: Workload, num_gpus: int | None, stated: int | None
) -> int:
    """Smallest degree that takes all of a load; where none does, the smallest of those that take the most."""
    asked = wanted.concurrency if wanted.load == USERS else wanted.request_rate
    best, most = least, 0.0
    for tp in _wider(deployment, least):
        takes = _taken(deployment, tp, wanted, num_gpus, stated)
        if takes is None:
            continue
        enough = takes >= asked if wanted.load == USERS else takes > asked
        if all_of(enough):
            return tp
        if _least_of(takes) > most * (1.0 + _SAME):
            best, most = tp, _least_of(takes)
    return best


def _taken(deployment: Deployment, tp: int, wanted: Workload, num_gpus: int | None, stated: int | None) -> Real | None:
    """Users that a deployment of some tp holds at once, or requests per second it answers; None: no whole copy."""
    one = deployment.at(replace(deployment.plan, tp=tp))
    copies, rest = (stated or 1, 0) if type(num_gpus) is not int else divmod(num_gpus, one.plan.num_gpus)
    if rest or not copies:
        return None
    one = one.copies(copies)
    from roofline.serving.traffic.load import server_of
    from roofline.serving.traffic.prompts import prompt_of
    from roofline.serving.traffic.server import UNLIMITED
    from roofline.serving.traffic.slots import saturation

    server = server_of(one, wanted)
    if wanted.load == USERS:
        return server.slots * lanes(one)
    return saturation(replace(server, users=UNLIMITED), prompt_of(server)).rate * lanes(one)


def _least_of(values: Real) -> float:
    """Smallest element."""
    return float(values.min()) if hasattr(values, "min") else float(values)


def replicas(plan: Plan, num_gpus: int) -> int:
    """Replicas that a number of GPUs holds.

    Args:
        plan: parallel degrees of one replica.
        num_gpus: GPUs of all replicas [1].

    Returns:
        Replicas [1].

    Raises:
        BadInput: not a multiple of the GPUs of one replica.
    """
    check_count("num_gpus", num_gpus)
    whole, rest = divmod(num_gpus, plan.num_gpus)
    if rest or not whole:
        raise BadInput(
            f"num_gpus = {num_gpus} must be a multiple of {plan.num_gpus}, the GPUs that one replica needs "
            f"(tp {plan.tp} x pp {plan.pp} x dp {plan.dp}); give more GPUs, another plan, or smaller formats (-q fp8)"
        )
    return whole


def check_longest(deployment: Deployment, wanted: Workload, *, allow_oversize: bool) -> None:
    """Refuse requests that the engine's `max_model_len` does not serve, and one that no memory holds.

    Args:
        deployment: model, GPU, plan and engine.
        wanted: lengths.
        allow_oversize: whether a length that the memory does not hold is allowed [bool].

    Raises:
        BadInput: a request that is longer.
        DoesNotFit: the memory does not hold one request of that length, without which the engine does not start.
    """
    longest = deployment.engine.max_model_len
    if longest is None:
        return
    length = wanted.isl + wanted.osl
    if not all_of(length <= longest):
        raise BadInput(f"isl + osl = {largest_of(length):g} tokens exceed max_model_len = {longest}")
    if not allow_oversize and largest_batch(deployment, float(longest)) < 1.0:
        raise does_not_fit(deployment, 1.0, float(longest))


def under_load(prediction: Prediction) -> Prediction:
    """The prediction with what a reader should know of its load.

    Args:
        prediction: under users or a rate.

    Returns:
        The same, with a sentence more.

    Raises:
        Overloaded: a single case in which more requests come than can be answered.
    """
    found, deployment, wanted = prediction.served, prediction.deployment, prediction.workload
    if found is None:
        return prediction
    from roofline.serving.traffic.domain import domain, outside

    if type(found.ttft) is not float:
        said = f"{UNDER_LOAD}: {_share_outside(deployment, wanted, found)}"
        return replace(prediction, added=(*prediction.added, said))
    if found.ttft == math.inf:
        rate = float(wanted.request_rate or 0.0)
        why = "exceeds that"
        if rate < found.max_request_rate:
            why = "is too close to it for a steady queue"
        raise Overloaded(
            f"{deployment.model.short_name} on {deployment.num_gpus} x {deployment.gpu.name} answers at most "
            f"{rounded(found.max_request_rate)} requests/s of this kind; request_rate = {rounded(rate)} {why}: lower "
            "it, or add GPUs (--num-gpus)"
        )
    fails = [said for is_outside, said in outside(deployment, wanted, found) if is_outside]
    return replace(prediction, added=(*prediction.added, domain(fails), *cold_start_warnings(prediction)))


def domains(prediction: Prediction, size: int) -> list[list[str]]:
    """What a reader should know of the load of each element of an array.

    Args:
        prediction: of several cases.
        size: how many there are [1].

    Returns:
        One sentence each under a load, none for a burst [text].
    """
    found = prediction.served
    if found is None:
        return [[] for _ in range(size)]
    from roofline.serving.traffic.domain import domain, outside

    conditions = list(outside(prediction.deployment, prediction.workload, found))
    return [
        [domain([said for fails, said in conditions if (fails[place] if hasattr(fails, "shape") else fails)])]
        for place in range(size)
    ]


def _share_outside(deployment: Deployment, wanted: Workload, found: Served) -> str:
    """How many cases of an array lie outside the checked domain."""
    from roofline.serving.traffic.domain import outside

    conditions = outside(deployment, wanted, found)
    named = [said for fails, said in conditions if any_of(where(found.is_stable, fails, fails < 0))]
    said = "all cases are inside the validated range"
    if named:
        said = f"some cases are outside the validated range ({', '.join(named)})"
    if all_of(found.is_stable):
        return said
    return f"{said}; overloaded cases have no times (max_request_rate)"
