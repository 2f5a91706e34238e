"""A load on a deployment: the smallest tp that fits it, the replicas that share it, and notes on it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from roofline.api.inputs.shape import cold_start_warnings
from roofline.elements import all_of, any_of, largest_of, smallest_of
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

_SAME = 0.01  # relative gain in capacity that does not justify a wider plan


def at_smallest_tp(
    deployment: Deployment,
    workload: Workload,
    *,
    allow_oversize: bool,
    num_gpus: int | None = None,
    copies: int | None = None,
    slo: Mapping[str, float] | None = None,
) -> Deployment:
    """The deployment at the smallest tp that fits its case, or the largest of its cases; replicas are not set.

    With `num_gpus` and `slo`, the smallest tp that meets the limits, or the nearest miss. Users fit where memory and
    `max_num_seqs` hold all of them at once, a request rate where it is below saturation; where no tp is enough, the
    smallest with the largest capacity is used.
    """
    plan = deployment.plan
    if num_gpus is not None:
        check_count("num_gpus", num_gpus)
    if check_degrees not in deployment.memo:
        check_degrees(deployment.model, plan)
        deployment.memo[check_degrees] = True
    length = workload.isl + workload.osl
    batch, longest = largest_of(workload.batch), largest_of(length)
    tp = smallest_tp(deployment, batch, longest)
    if tp is None:
        widest = widest_tp(deployment)
        possible = [tp for tp in possible_tp(deployment.model, widest) if (tp * plan.dp) % plan.ep == 0] or [1]
        deployment = replace(deployment, plan=replace(plan, tp=possible[-1]))
        check_plan(deployment.model, deployment.plan)
        if not allow_oversize and type(workload.batch + length) is float:
            raise does_not_fit(deployment, batch, longest)
        return deployment
    if (
        num_gpus is not None
        and slo
        and type(length + workload.batch + (workload.concurrency or workload.request_rate or 0.0)) is float
    ):
        tp = _tp_for_limits(deployment, tp, workload, num_gpus, slo)
    elif workload.load != BURST:
        tp = _tp_for_load(deployment, tp, workload, num_gpus, copies)
    return deployment if tp == plan.tp else deployment.at(replace(plan, tp=tp))


def _possible_tp(deployment: Deployment, least: int) -> list[int]:
    """Valid tensor-parallel degrees, from `least` on."""
    plan, model = deployment.plan, deployment.model
    degrees = possible_tp(model, widest_tp(deployment))
    return [tp for tp in degrees if tp >= least and plan_fault(model, replace(plan, tp=tp)) is None]


def _tp_for_limits(
    deployment: Deployment, least: int, workload: Workload, num_gpus: int, slo: Mapping[str, float]
) -> int:
    """Smallest tp that meets the limits on `num_gpus`; the nearest miss where none does."""
    from roofline.serving.targets import excess

    best, nearest = least, math.inf
    for tp in _possible_tp(deployment, least):
        candidate = deployment.at(replace(deployment.plan, tp=tp))
        copies, rest = divmod(num_gpus, candidate.plan.num_gpus)
        if rest or not copies:
            continue
        worst = float(excess(candidate.copies(copies), workload, slo))
        if worst < nearest:
            best, nearest = tp, worst
        if worst <= 1.0:
            break
    return best


def _tp_for_load(
    deployment: Deployment, least: int, workload: Workload, num_gpus: int | None, copies: int | None
) -> int:
    """Smallest tp that takes all of a load; where none does, the smallest of those that take the most."""
    needed = workload.concurrency if workload.load == USERS else workload.request_rate
    best, most = least, 0.0
    for tp in _possible_tp(deployment, least):
        takes = _capacity(deployment, tp, workload, num_gpus, copies)
        if takes is None:
            continue
        enough = takes >= needed if workload.load == USERS else takes > needed
        if all_of(enough):
            return tp
        if smallest_of(takes) > most * (1.0 + _SAME):
            best, most = tp, smallest_of(takes)
    return best


def _capacity(
    deployment: Deployment, tp: int, workload: Workload, num_gpus: int | None, copies: int | None
) -> Real | None:
    """Users that fit at once, or requests answered [1/s], at some tp; None: replicas would not be whole."""
    candidate = deployment.at(replace(deployment.plan, tp=tp))
    count, rest = (copies or 1, 0) if type(num_gpus) is not int else divmod(num_gpus, candidate.plan.num_gpus)
    if rest or not count:
        return None
    candidate = candidate.copies(count)
    from roofline.serving.traffic.load import server_of
    from roofline.serving.traffic.prompts import prompt_of
    from roofline.serving.traffic.server import UNLIMITED
    from roofline.serving.traffic.slots import saturation

    server = server_of(candidate, workload)
    if workload.load == USERS:
        return server.slots * lanes(candidate)
    return saturation(replace(server, users=UNLIMITED), prompt_of(server)).rate * lanes(candidate)


def replicas(plan: Plan, num_gpus: int) -> int:
    check_count("num_gpus", num_gpus)
    whole, rest = divmod(num_gpus, plan.num_gpus)
    if rest or not whole:
        raise BadInput(
            f"num_gpus = {num_gpus} must be a multiple of {plan.num_gpus}, the GPUs that one replica needs "
            f"(tp {plan.tp} x pp {plan.pp} x dp {plan.dp}); give more GPUs, another plan, or smaller formats (-q fp8)"
        )
    return whole


def check_longest(deployment: Deployment, workload: Workload, *, allow_oversize: bool) -> None:
    """Refuse requests beyond the engine's `max_model_len`, and a `max_model_len` that no memory holds."""
    longest = deployment.engine.max_model_len
    if longest is None:
        return
    length = workload.isl + workload.osl
    if not all_of(length <= longest):
        raise BadInput(f"isl + osl = {largest_of(length):g} tokens exceed max_model_len = {longest}")
    if not allow_oversize and largest_batch(deployment, float(longest)) < 1.0:
        raise does_not_fit(deployment, 1.0, float(longest))


def under_load(prediction: Prediction) -> Prediction:
    """The prediction with a note on its load; refused where it is overloaded."""
    load, deployment, workload = prediction.served, prediction.deployment, prediction.workload
    if load is None:
        return prediction
    from roofline.serving.traffic.domain import domain, outside

    if type(load.ttft) is not float:
        note = f"{UNDER_LOAD}: {_share_outside(deployment, workload, load)}"
        return replace(prediction, added=(*prediction.added, note))
    if not load.is_stable:
        rate = float(workload.request_rate or 0.0)
        what = f"{deployment.model.short_name} on {deployment.num_gpus} x {deployment.gpu.name}"
        if rate >= load.max_request_rate:
            raise Overloaded(
                f"{what} answers at most {rounded(load.max_request_rate)} requests/s of this kind; request_rate = "
                f"{rounded(rate)} exceeds that: lower it, or add GPUs (--num-gpus)"
            )
        asked = f"request_rate = {rounded(rate)}" if rate else f"{workload.concurrency:g} users"
        raise Overloaded(
            f"{what}: no steady state was found for {asked}; ask for a lower load, or add GPUs (--num-gpus)"
        )
    fails = [note for is_outside, note in outside(deployment, workload, load) if is_outside]
    return replace(prediction, added=(*prediction.added, domain(fails), *cold_start_warnings(prediction)))


def domains(prediction: Prediction, size: int) -> list[list[str]]:
    """Notes on the load of each element of an array; none for a burst."""
    load = prediction.served
    if load is None:
        return [[] for _ in range(size)]
    from roofline.serving.traffic.domain import domain, outside

    conditions = list(outside(prediction.deployment, prediction.workload, load))
    return [
        [domain([note for fails, note in conditions if (fails[place] if hasattr(fails, "shape") else fails)])]
        for place in range(size)
    ]


def _share_outside(deployment: Deployment, workload: Workload, load: Served) -> str:
    """Note on how many cases of an array lie outside the validated range."""
    from roofline.serving.traffic.domain import outside

    conditions = outside(deployment, workload, load)
    reasons = [reason for fails, reason in conditions if any_of(where(load.is_stable, fails, fails < 0))]
    note = "all cases are inside the validated range"
    if reasons:
        note = f"some cases are outside the validated range ({', '.join(reasons)})"
    if all_of(load.is_stable):
        return note
    return f"{note}; overloaded cases have no times (max_request_rate)"
