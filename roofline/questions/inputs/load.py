"""A load on a deployment: the smallest tp that fits it, the replicas that share it, and notes on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from roofline.numbers.operations import Real, all_of, any_of, element, largest_of, maximum, never, where
from roofline.numbers.quantity import NANO, percent_figure, rounded
from roofline.physics.memory import largest_batch, memory
from roofline.physics.plan import Deployment, Plan
from roofline.questions.inputs.case import cold_start_notes
from roofline.serving.knee import (
    Score,
    candidates_of,
    check_count,
    check_degrees,
    check_plan,
    does_not_fit,
    least_enough,
    plan_fault,
    possible_tp,
    score_of_load,
    widest_tp,
)
from roofline.serving.latency import BENCHMARK, UNDER_LOAD, Workload
from roofline.serving.prediction import Prediction
from roofline.serving.shown import deployed_text
from roofline.specs.load import Burst
from roofline.support.errors import BadInput, DoesNotFit, NoSteadyState, Overloaded, OverloadedAtTimes
from roofline.support.records import replace

__all__ = ["BENCHMARK", "UNDER_LOAD"]


MOST_USERS = 4096.0  # of a load that is varied
_GROWTH = 2.0**0.5  # factor on the users from one point to the next
_LEAST_EXCESS = NANO
_QUEUED = (
    "all requests wait from the start and are equally long: they take the slots in waves, and steps with prompts are "
    "full of them"
)


def user_counts(end: float) -> list[float]:
    """Numbers of users from one to an end, evenly spaced on a log scale."""
    end, counts, users = min(end, MOST_USERS), [], 1.0
    while round(users) <= end:
        counts.append(float(round(users)))
        users *= _GROWTH
    return list(dict.fromkeys(counts))


def open_tp(
    deployment: Deployment,
    workload: Workload,
    *,
    num_gpus: int | None = None,
    copies: int | None = None,
    slo: Mapping[str, float] | None = None,
) -> Real:
    """The tensor-parallel degree of each case where none is stated; 0 where no degree of a node fits.

    The one rule for every question, element by element:

    1. a burst takes the smallest degree that holds its batch;
    2. users take the smallest that holds all of them at once, in memory and in `max_num_seqs`, a request rate the
       smallest with a saturation above it; where none does, the smallest of those that take the most;
    3. where the number of GPUs and an SLO are given, the smallest that meets the SLO, else the nearest miss.

    With a number of GPUs, degrees that divide it come first.
    """
    _check_counts(deployment, num_gpus)
    length = workload.isl + workload.osl
    if num_gpus is None and workload.load.is_burst:
        is_one = type(length + workload.batch) is float
        for candidate in candidates_of(deployment):
            if memory(candidate, largest_of(workload.batch), largest_of(length)).fits:
                return 1.0 * candidate.plan.tp
            if not is_one:
                break  # some of the cases may fit
        if is_one and type(workload.prefix) is float:
            return 0.0
    candidates = _possible(deployment)
    whole = [each for each in candidates if num_gpus is None or num_gpus % each.plan.num_gpus == 0]
    zero: Real = sum(0.0 * number for number in workload.numbers.values())
    limits = slo if num_gpus is not None else None

    def scored() -> Iterator[tuple[float, Real, Score]]:
        for candidate in whole or candidates:
            served_by = candidate.copies(copies or (num_gpus or 1) // candidate.plan.num_gpus or 1)
            fits = memory(candidate, workload.batch, length).fits
            yield 1.0 * candidate.plan.tp, fits, _score(served_by, workload, limits)

    return least_enough(scored(), zero)


def _score(deployment: Deployment, workload: Workload, slo: Mapping[str, float] | None) -> Score:
    if slo:
        from roofline.serving.load.limits import excess

        worst = excess(deployment, workload, slo)
        return Score(1.0 / maximum(worst, _LEAST_EXCESS), 0.0, worst <= 1.0)
    if workload.load.is_burst:
        return Score(value=1.0, gain=0.0, is_enough=True)
    load = workload.load
    if workload.think and not load.is_open:  # those who think need no slot
        from roofline.serving.load.steady import mean_latencies

        alone = sum(mean_latencies(deployment, replace(workload, load=Burst(), cache=None)))
        load = load.scaled(alone / (alone + workload.think))
    return score_of_load(_capacity(deployment, workload), load)


def _possible(deployment: Deployment) -> list[Deployment]:
    """`candidates_of` the deployment, kept."""
    known: list[Deployment] | None = deployment.memo.get(open_tp)
    if known is None:
        known = deployment.memo[open_tp] = list(candidates_of(deployment))
    return known


def _check_counts(deployment: Deployment, num_gpus: int | None) -> None:
    """Refuse an impossible number of GPUs, and degrees that are not whole numbers."""
    if num_gpus is not None:
        check_count("num_gpus", num_gpus)
    if check_degrees not in deployment.memo:
        check_degrees(deployment.model, deployment.plan)
        deployment.memo[check_degrees] = True


def at_tp(deployment: Deployment, tp: float, num_gpus: int | None = None) -> Deployment:
    """The deployment at a degree from `open_tp`; where none fits, at the widest of a node that divides the GPUs."""
    plan = deployment.plan
    if tp:
        return deployment.at(replace(plan, tp=int(tp)))
    possible = [
        tp for tp in possible_tp(deployment.model, widest_tp(deployment)) if (tp * plan.token_ranks) % plan.ep == 0
    ]
    if plan.splits_context:
        possible = [tp for tp in possible if plan_fault(deployment.model, replace(plan, tp=tp)) is None]
    whole = [degree for degree in possible if num_gpus is None or num_gpus % replace(plan, tp=degree).num_gpus == 0]
    widest = deployment.at(replace(plan, tp=(whole or possible or [1])[-1]))
    check_plan(widest.model, widest.plan, widest.spread.redundant)
    return widest


def _capacity(deployment: Deployment, workload: Workload) -> Real:
    """Users that fit at once, or requests answered [1/s]."""
    from roofline.serving.load.equations import capacity

    return capacity(deployment, workload)


def replicas(plan: Plan, num_gpus: int) -> int:
    check_count("num_gpus", num_gpus)
    whole, rest = divmod(num_gpus, plan.num_gpus)
    if rest or not whole:
        of_prompts = f" x cp {plan.cp}" if plan.cp != 1 else ""
        raise BadInput(
            f"num_gpus = {num_gpus} must be a multiple of {plan.num_gpus}, the GPUs that one replica needs "
            f"(tp {plan.tp} x pp {plan.pp} x dp {plan.dp}{of_prompts}); give more GPUs, another plan, or smaller "
            "formats (-q fp8)"
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


def noted(prediction: Prediction) -> Prediction:
    """The prediction with notes on its load and on times of what does not fit; refused where it is overloaded."""
    load = prediction.served
    if load is not None and type(load.ttft) is not float:
        return replace(prediction, added=(*prediction.added, _share_outside))
    if load is not None and not load.is_stable:
        stated, what = prediction.workload.load, deployed_text(prediction.deployment)
        if stated.is_open and stated.request_rate >= load.max_request_rate:
            raise Overloaded(
                f"{what} answers at most {rounded(load.max_request_rate)} requests/s of this kind; {stated.asked} "
                "exceeds that: lower it, or add GPUs (`num_gpus`)"
            )
        if prediction.workload.arrivals is not None:
            refusal = OverloadedAtTimes(
                f"{what}: {percent_figure(load.overloaded)} % of the requests at {stated.asked} come while more arrive "
                f"than it answers ({rounded(load.max_request_rate)} requests/s), so that no closed form holds; "
                "lower the rate, add GPUs (`num_gpus`), or `simulate` it"
            )
            refusal.prediction = prediction
            raise refusal
        raise NoSteadyState(
            f"{what}: {NoSteadyState.short} for {stated.asked}; ask for a lower load, or add GPUs (`num_gpus`)"
        )
    has_notes = load is not None or never(prediction.fits)
    return replace(prediction, added=(*prediction.added, _of_one_case)) if has_notes else prediction


def _of_one_case(prediction: Prediction) -> list[str]:
    return notes_of_cases(prediction)[1](0)


def notes_of_cases(prediction: Prediction) -> tuple[list[Real], Callable[[int], list[str]]]:
    """Arrays on which notes on the load and the size of each case depend, and the notes by the place of a case."""
    load, fits = prediction.served, prediction.fits
    conditions: list[tuple[Real, str]] = []
    region: Any = None
    depends: list[Real] = []
    if prediction.allow_oversize:
        depends.append(where(fits, 0.0, prediction.memory.used_fraction))
    cold, on_cold = cold_start_notes(prediction)
    if load is not None:
        from roofline.serving.load.equations import outside
        from roofline.serving.load.regions import domain

        conditions, region = list(outside(prediction.deployment, prediction.workload, load)), prediction.load_region
        depends += [*(fails for fails, _ in conditions), region, *cold]

    def notes(place: int) -> list[str]:
        texts = []
        if load is not None:
            fails = [note for is_outside, note in conditions if element(is_outside, place)]
            texts = [domain(fails, element(region, place)), *on_cold(place)]
            if prediction.workload.load.is_queue:
                texts.append(_QUEUED)
        if prediction.allow_oversize and not element(fits, place):
            texts.append(f"{oversize_text(prediction, place)}; times are hypothetical")
        return texts

    return depends, notes


def oversize_text(prediction: Prediction, place: int) -> str:
    """That a case does not fit, and how much memory it would take."""
    return f"{DoesNotFit.short}: {element(prediction.memory.used_fraction, place):.0%} of the usable memory"


def _share_outside(prediction: Prediction) -> list[str]:
    """Note on how many cases of an array lie outside the validated range."""
    from roofline.serving.load.equations import outside

    load: Any = prediction.served
    conditions = outside(prediction.deployment, prediction.workload, load)
    reasons = [reason for fails, reason in conditions if any_of(where(load.is_stable, fails, fails < 0))]
    note = "all cases are inside the validated range"
    if reasons:
        note = f"some cases are outside the validated range ({', '.join(reasons)})"
    if not all_of(load.is_stable):
        note = f"{note}; overloaded cases have no times (max_request_rate)"
    return [f"{UNDER_LOAD}: {note}", *([_QUEUED] if prediction.workload.load.is_queue else [])]
