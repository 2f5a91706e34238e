"""The fewest GPUs that meet limits on latency: a search over plans, and over replicas that share a load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from roofline.physics.memory import memory
from roofline.physics.plan import Deployment, Plan
from roofline.quantity import GIGA, to_text
from roofline.records import NamedTuple, replace
from roofline.serving.latency import BURST, Workload
from roofline.serving.sizing import MOST_GPUS, plan_fault, possible_tp
from roofline.serving.targets import limit_shares
from roofline.specs.model import Model
from roofline.specs.slo import LATENCIES, P99_WITHIN, key_text

__all__ = [
    "MOST_RANKS",
    "MOST_REPLICAS",
    "Candidate",
    "Degrees",
    "Sized",
    "fewest_gpus",
    "plan_text",
    "possible_plans",
    "reason",
]

#: Ranks of a replica's stage that are searched at most: larger domains (pods of TPUs) are shared by several replicas.
MOST_RANKS = 512

#: Replicas that share a load at most.
MOST_REPLICAS = 1 << 16

_FEWEST_DIGITS, _MOST_DIGITS = 3, 6


class Degrees(NamedTuple):
    """Parallel degrees that the caller fixed; None where they are free."""

    tp: int | None = None
    pp: int = 1
    ep: int | None = None
    dp: int | None = None


class Candidate(NamedTuple):
    """A deployment, and what it takes relative to what it may."""

    deployment: Deployment
    preset: str | None  # of its formats; None for the checkpoint's own
    shares: Mapping[str, float]  # SLO key -> time / limit, or memory -> used / usable [1]

    @property
    def worst(self) -> float:
        """Largest share [1]; at most 1 where the SLO is met."""
        return max(self.shares.values(), default=0.0)

    @property
    def total(self) -> float:
        """Sum of the shares, by which plans of as many GPUs are ranked [1]."""
        return sum(self.shares.values())


class Sized(NamedTuple):
    """What a search found: one of these, or none where no plan is possible."""

    fewest: Candidate | None = None  # best of the plans with the fewest GPUs that meet the SLO
    light: Candidate | None = None  # bound on the times of every plan that fits, at light speed, which misses the SLO
    nearest: Candidate | None = None  # plan that comes nearest to the SLO
    tightest: Candidate | None = None  # plan that lacks the least memory, where none fits


def possible_plans(model: Model, domain: int, batch: float, fixed: Degrees) -> list[Plan]:
    """Plans of one replica within a scale-up domain, fewest GPUs first.

    Tensor parallelism takes every degree that divides the model. Mixtures of experts may also share out the batch: over
    data-parallel ranks in powers of two, no more than sequences, and their experts over every ep that divides tp x dp.
    Stages (pp) may lie in other domains.

    Args:
        model: the model.
        domain: GPUs of one scale-up domain [1].
        batch: sequences of the replica [sequences].
        fixed: degrees that are not searched; what they need may exceed the domain.

    Returns:
        The plans; none where none is possible.
    """
    ranks = min(domain, MOST_RANKS)
    widest = max(ranks // (fixed.dp or 1), 1)
    plans = [
        Plan(tp, fixed.pp, ep, dp)
        for tp in (possible_tp(model, widest) if fixed.tp is None else [fixed.tp])
        for dp in (_data_degrees(model, ranks // tp, batch) if fixed.dp is None else [fixed.dp])
        for ep in (_expert_degrees(model, tp * dp) if fixed.ep is None else [fixed.ep])
    ]
    return sorted((plan for plan in plans if plan_fault(model, plan) is None), key=lambda plan: plan.num_gpus)


def fewest_gpus(
    alone: Mapping[str | None, Deployment], workload: Workload, slo: Mapping[str, float], fixed: Degrees
) -> Sized:
    """The fewest GPUs of one kind that meet an SLO: of one replica for a burst, of all replicas for users or a rate.

    Among plans and precisions with as few GPUs, which cost the same, the one with the smallest sum of times relative to
    their limits wins. Memory is checked before time. Where nothing meets the SLO, the plan comes nearest whose worst
    time is the smallest relative to its limit.

    Args:
        alone: by preset of formats the model on one GPU of the kind, or on one for each stage; it need not fit.
        workload: lengths, and the batch of one replica or the load of all.
        slo: limits on ttft, tpot or e2el, at least one [s].
        fixed: degrees that are not searched.

    Returns:
        What was found.
    """
    if workload.load != BURST:
        return _fewest_under_load(alone, workload, slo, fixed)
    light = {preset: _trial(one.on("ideal"), preset, workload, slo) for preset, one in alone.items()}
    nearest: Candidate | None = None
    tightest: Candidate | None = None
    slow: list[tuple[Candidate, Deployment]] = []
    for _, candidates in groupby(_candidates(alone, workload, fixed), key=lambda pair: pair[1].plan.num_gpus):
        meeting = []
        for preset, candidate in candidates:
            need = memory(candidate, workload.batch, workload.isl + workload.osl)
            if not need.fits:
                tightest = _nearer(Candidate(candidate, preset, {"memory": need.used_fraction}), tightest)
                continue
            bound = _shared_out(light[preset], candidate)
            if bound.worst > 1.0:
                slow.append((bound, candidate))
                continue
            trial = _trial(candidate, preset, workload, slo)
            nearest = _nearer(trial, nearest)
            if trial.worst <= 1.0:
                meeting.append(trial)
        if meeting:
            return Sized(fewest=min(meeting, key=lambda trial: trial.total))
    if nearest is None and slow:
        return Sized(light=min((bound for bound, _ in slow), key=lambda bound: bound.worst))
    if nearest is None:
        return Sized(tightest=tightest)
    for bound, candidate in sorted(slow, key=lambda pair: pair[0].worst):
        if bound.worst >= nearest.worst:
            break
        nearest = _nearer(_trial(candidate, bound.preset, workload, slo), nearest)
    return Sized(nearest=nearest)


def _fewest_under_load(
    alone: Mapping[str | None, Deployment], workload: Workload, slo: Mapping[str, float], fixed: Degrees
) -> Sized:
    """The same for users or a rate, which replicas share: each plan with as many of them as it needs."""
    idle = replace(
        workload, batch=1.0, concurrency=None, request_rate=None, num_prompts=None, lengths=None, cold_start=None
    )
    bounded = slo if workload.lengths is None else {key: slo[key] for key in slo if key in LATENCIES}
    light = {preset: _trial(one.on("ideal"), preset, idle, bounded) for preset, one in alone.items()}
    best: Candidate | None = None
    nearest: Candidate | None = None
    tightest: Candidate | None = None
    slow: Candidate | None = None
    for preset, plan in _candidates(alone, idle, fixed):
        room = MOST_GPUS // plan.plan.num_gpus
        most = min(MOST_REPLICAS, room) if best is None else best.deployment.num_gpus // plan.plan.num_gpus
        if most < 1:
            continue
        need = memory(plan, 1.0, workload.isl + workload.osl)
        if not need.fits:
            tightest = _nearer(Candidate(plan, preset, {"memory": need.used_fraction}), tightest)
            continue
        bound = _shared_out(light[preset], plan)
        if bound.worst > 1.0:
            slow = _nearer(bound, slow)
            continue
        by_itself = _trial(plan, preset, idle, bounded)  # no number of replicas is faster
        if by_itself.worst > 1.0:
            nearest = _nearer(by_itself, nearest)
            continue
        trial = _fewest_replicas(plan, preset, workload, slo, most)
        if trial is None:
            nearest = _nearer(_trial(plan.copies(most), preset, workload, slo), nearest)
        if trial is not None and (best is None or _cost(trial) < _cost(best)):
            best = trial
    if best is not None:
        return Sized(fewest=best)
    if nearest is None and slow is not None:
        return Sized(light=slow)
    return Sized(nearest=nearest) if nearest is not None else Sized(tightest=tightest)


def _cost(trial: Candidate) -> tuple[int, float]:
    """GPUs of all replicas, then the sum of the shares: the less, the better."""
    return trial.deployment.num_gpus, trial.total


def _fewest_replicas(
    one: Deployment, preset: str | None, workload: Workload, slo: Mapping[str, float], most: int
) -> Candidate | None:
    """A plan with the fewest replicas that meet the SLO together; None where more than `most` would."""

    def trial(count: int) -> Candidate:
        return _trial(one.copies(count), preset, workload, slo)

    count, before = 1, 0
    while (meets := trial(count)).worst > 1.0:
        if count >= most:
            return None
        before, count = count, min(2 * count, most)
    while count - before > 1:
        middle = (count + before) // 2
        here = trial(middle)
        if here.worst <= 1.0:
            count, meets = middle, here
        else:
            before = middle
    return meets


def reason(sized: Sized, slo: Mapping[str, float]) -> str | None:
    """Why no plan of a GPU meets an SLO.

    Args:
        sized: what a search found.
        slo: limits on ttft, tpot or e2el [s].

    Returns:
        Some words; None where a plan meets it or none is possible [text].
    """
    if sized.fewest is not None:
        return None
    if sized.light is not None:
        return f"misses at the hardware limit: {_missed(sized.light, slo, '>= ')} on {_gpus(sized.light)}"
    if sized.nearest is not None:
        if sized.nearest.worst <= 1.0:
            return f"misses: the load needs more than {MOST_REPLICAS:,} replicas"
        return f"misses: {_missed(sized.nearest, slo)} at best ({_said(sized.nearest)})"
    if sized.tightest is not None:
        usable = sized.tightest.deployment.gpu.memory
        used = f"{sized.tightest.worst * usable / GIGA:.1f} GB of {usable / GIGA:.1f} GB per GPU"
        return f"does not fit: {used} ({_said(sized.tightest)})"
    return None


def plan_text(plan: Plan, preset: str | None, replicas: int = 1) -> str:
    """A plan in a few words.

    Args:
        plan: degrees; tp is always said, the others where they are not 1.
        preset: of the formats; None for the checkpoint's own [text].
        replicas: of the plan, said where there are several [1].

    Returns:
        Text such as ``tp 8, ep 8, fp8`` [text].

    >>> plan_text(Plan(tp=8, ep=8), "fp8")
    'tp 8, ep 8, fp8'
    """
    degrees = {"tp": plan.tp, "pp": plan.pp, "ep": plan.ep, "dp": plan.dp}
    said = [f"{name} {degree}" for name, degree in degrees.items() if name == "tp" or degree > 1]
    copies = [f"{replicas} replicas"] if replicas > 1 else []
    return ", ".join([*said, *([] if preset is None else [preset]), *copies])


def _candidates(
    alone: Mapping[str | None, Deployment], workload: Workload, fixed: Degrees
) -> Iterator[tuple[str | None, Deployment]]:
    """Every plan in every precision, fewest GPUs first."""
    one = next(iter(alone.values()))
    for plan in possible_plans(one.model, one.gpu.node, workload.batch, fixed):
        for preset, stage in alone.items():
            yield preset, stage.at(plan)


def _trial(deployment: Deployment, preset: str | None, workload: Workload, slo: Mapping[str, float]) -> Candidate:
    """A deployment's times relative to their limits; a single token has no tpot to limit."""
    return Candidate(deployment, preset, limit_shares(deployment, workload, slo))


def _shared_out(light: Candidate, candidate: Deployment) -> Candidate:
    """Light speed on one GPU, as if the ranks of a plan shared it out evenly: a bound that no plan can beat.

    What each rank repeats, collectives and idle ranks come on top of it.
    """
    ranks = candidate.plan.expert_ranks
    return Candidate(candidate, light.preset, {key: share / ranks for key, share in light.shares.items()})


def _nearer(trial: Candidate, nearest: Candidate | None) -> Candidate:
    return trial if nearest is None or trial.worst < nearest.worst else nearest


def _data_degrees(model: Model, most: int, batch: float) -> list[int]:
    """Data-parallel degrees worth a trial: more ranks than sequences would idle."""
    degrees = [1]
    while model.is_moe and 2 * degrees[-1] <= min(most, batch):
        degrees.append(2 * degrees[-1])
    return degrees


def _expert_degrees(model: Model, ranks: int) -> list[int]:
    """Degrees of expert parallelism that divide the ranks."""
    return [ep for ep in range(1, ranks + 1) if ranks % ep == 0] if model.is_moe else [1]


def _missed(trial: Candidate, slo: Mapping[str, float], least: str = "") -> str:
    """The limits that a trial misses, and by how much."""
    said = []
    for key, share in trial.shares.items():
        if key == P99_WITHIN and share > 1.0:
            said.append(f"p99 {share * slo[key]:.3g}x the median > {slo[key]:.3g}x")
        elif share > 1.0:
            said.append(f"{key_text(key)} {least}{_against(share * slo[key], slo[key])}")
    return ", ".join(said)


def _against(time: float, limit: float) -> str:
    """A time and the limit it misses, with as many digits as it takes to tell them apart."""
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS):
        said = to_text(time, "s", digits)
        if said != to_text(limit, "s", digits):
            break
    return f"{said} > {to_text(limit, 's', digits)}"


def _gpus(trial: Candidate) -> str:
    count = trial.deployment.plan.num_gpus
    return f"{count} GPU{'' if count == 1 else 's'}"


def _said(candidate: Candidate) -> str:
    return plan_text(candidate.deployment.plan, candidate.preset)
