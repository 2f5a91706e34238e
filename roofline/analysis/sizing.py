"""The fewest GPUs that meet an SLO: a search over plans, and over replicas that share a load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from roofline.physics.memory import memory
from roofline.physics.plan import Deployment, Plan
from roofline.quantity import GIGA, distinct_texts
from roofline.records import NamedTuple, replace
from roofline.serving.latency import BURST, Workload
from roofline.serving.sizing import MOST_GPUS, plan_fault, possible_tp
from roofline.serving.targets import least_shares, limit_shares
from roofline.specs.model import Model
from roofline.specs.slo import LATENCIES, P99_WITHIN, key_text

#: Most ranks per pipeline stage that the search tries; larger domains (TPU pods) hold several replicas.
MOST_RANKS = 512

#: Most replicas that share a load.
MOST_REPLICAS = 1 << 16


class Degrees(NamedTuple):
    """Parallel degrees that the caller fixed; None where free."""

    tp: int | None = None
    pp: int = 1
    ep: int | None = None
    dp: int | None = None


class Candidate(NamedTuple):
    """A deployment with its latencies relative to their limits."""

    deployment: Deployment
    preset: str | None  # formats; None for the checkpoint's own
    shares: Mapping[str, float]  # SLO key -> time / limit, or memory -> used / usable [1]
    is_known: bool = True  # whether no share is the mean in place of a percentile

    @property
    def worst(self) -> float:
        """Largest share [1]; at most 1 where the SLO is met."""
        return max(self.shares.values(), default=0.0)

    @property
    def total(self) -> float:
        """Sum of the shares, which ranks plans with equal numbers of GPUs [1]."""
        return sum(self.shares.values())


class Sized(NamedTuple):
    """Outcome of a search: one of these, or none where no plan is possible."""

    fewest: Candidate | None = None  # meets the SLO with the fewest GPUs
    ideal: Candidate | None = None  # hardware limit of every plan that fits, where it misses the SLO
    nearest: Candidate | None = None  # comes nearest to the SLO
    tightest: Candidate | None = None  # lacks the least memory, where no plan fits


def possible_plans(model: Model, domain: int, batch: float, fixed: Degrees) -> list[Plan]:
    """Plans of one replica within a scale-up domain, fewest GPUs first.

    tp takes every degree that divides the model. Mixtures of experts also try dp in powers of two up to the number of
    sequences, and every ep that divides tp x dp. Pipeline stages may lie in other domains. Fixed degrees may exceed the
    domain.
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
    by_preset: Mapping[str | None, Deployment],
    workload: Workload,
    slo: Mapping[str, float],
    fixed: Degrees,
    *,
    for_certain: bool = True,
) -> Sized:
    """The fewest GPUs of one kind that meet an SLO: of one replica for a burst, of all replicas for users or a rate.

    A percentile that is not known meets no limit `for_certain`; otherwise it meets those that its mean meets.

    Among plans and quantizations with equally few GPUs, the smallest sum of times relative to their limits wins. Memory
    is checked before time. Where nothing meets the SLO, the nearest plan has the smallest worst time relative to its
    limit. `by_preset` holds the model on one GPU per pipeline stage, whether it fits or not.
    """
    if workload.load != BURST:
        return _fewest_under_load(by_preset, workload, slo, fixed, for_certain=for_certain)
    ideal = {preset: _trial(deployment.on("ideal"), preset, workload, slo) for preset, deployment in by_preset.items()}
    nearest: Candidate | None = None
    tightest: Candidate | None = None
    slow: list[tuple[Candidate, Deployment]] = []
    for _, candidates in groupby(_candidates(by_preset, workload, fixed), key=lambda pair: pair[1].plan.num_gpus):
        meeting = []
        for preset, candidate in candidates:
            need = memory(candidate, workload.batch, workload.isl + workload.osl)
            if not need.fits:
                tightest = _nearer(Candidate(candidate, preset, {"memory": need.used_fraction}), tightest)
                continue
            bound = _shared_bound(ideal[preset], candidate)
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
        return Sized(ideal=min((bound for bound, _ in slow), key=lambda bound: bound.worst))
    if nearest is None:
        return Sized(tightest=tightest)
    for bound, candidate in sorted(slow, key=lambda pair: pair[0].worst):
        if bound.worst >= nearest.worst:
            break
        nearest = _nearer(_trial(candidate, bound.preset, workload, slo), nearest)
    return Sized(nearest=nearest)


def _fewest_under_load(
    by_preset: Mapping[str | None, Deployment],
    workload: Workload,
    slo: Mapping[str, float],
    fixed: Degrees,
    *,
    for_certain: bool,
) -> Sized:
    """`fewest_gpus` for users or a rate: each plan with as many replicas as it needs."""
    idle = replace(
        workload, batch=1.0, concurrency=None, request_rate=None, num_prompts=None, lengths=None, cold_start=None
    )
    bounded = slo if workload.lengths is None else {key: slo[key] for key in slo if key in LATENCIES}
    ideal = {preset: _trial(deployment.on("ideal"), preset, idle, bounded) for preset, deployment in by_preset.items()}
    best: Candidate | None = None
    nearest: Candidate | None = None
    tightest: Candidate | None = None
    slow: Candidate | None = None
    for preset, plan in _candidates(by_preset, idle, fixed):
        most_by_gpus = MOST_GPUS // plan.plan.num_gpus
        most = min(MOST_REPLICAS, most_by_gpus) if best is None else best.deployment.num_gpus // plan.plan.num_gpus
        if most < 1:
            continue
        need = memory(plan, 1.0, workload.isl + workload.osl)
        if not need.fits:
            tightest = _nearer(Candidate(plan, preset, {"memory": need.used_fraction}), tightest)
            continue
        bound = _shared_bound(ideal[preset], plan)
        if bound.worst > 1.0:
            slow = _nearer(bound, slow)
            continue
        by_itself = _trial(plan, preset, idle, bounded, for_certain=for_certain)  # the limit of many replicas
        if by_itself.worst > 1.0:
            nearest = _nearer(by_itself, nearest)
            continue
        trial = _fewest_replicas(plan, preset, workload, slo, most, for_certain=for_certain)
        if trial is None:
            nearest = _nearer(_trial(plan.copies(most), preset, workload, slo, for_certain=for_certain), nearest)
        if trial is not None and (best is None or _cost(trial) < _cost(best)):
            best = trial
    if best is not None:
        return Sized(fewest=best)
    if nearest is None and slow is not None:
        return Sized(ideal=slow)
    return Sized(nearest=nearest) if nearest is not None else Sized(tightest=tightest)


def _cost(trial: Candidate) -> tuple[int, bool, float]:
    """Sort key: GPUs of all replicas, then whether all is known, then the sum of the shares."""
    return trial.deployment.num_gpus, not trial.is_known, trial.total


def _fewest_replicas(
    replica: Deployment,
    preset: str | None,
    workload: Workload,
    slo: Mapping[str, float],
    most: int,
    *,
    for_certain: bool,
) -> Candidate | None:
    """A plan with the fewest replicas that meet the SLO together; None where `most` are too few."""

    def trial(count: int) -> Candidate:
        return _trial(replica.copies(count), preset, workload, slo, for_certain=for_certain)

    count, too_few = 1, 0
    while (met := trial(count)).worst > 1.0:
        if count >= most:
            return None
        too_few, count = count, min(2 * count, most)
    while count - too_few > 1:
        middle = (count + too_few) // 2
        candidate = trial(middle)
        if candidate.worst <= 1.0:
            count, met = middle, candidate
        else:
            too_few = middle
    return met


def reason(sized: Sized, slo: Mapping[str, float], *, is_mean: bool) -> str | None:
    """Why no plan meets the SLO; None where one does or none is possible."""
    if sized.fewest is not None:
        return None
    if sized.ideal is not None:
        least = _missed(sized.ideal, slo, ">= ", is_mean=is_mean)
        return f"misses at the hardware limit: {least} on {_gpus_text(sized.ideal)}"
    if sized.nearest is not None:
        if sized.nearest.worst <= 1.0:
            return f"misses: the load needs more than {MOST_REPLICAS:,} replicas"
        least = "" if sized.nearest.is_known else ">= "
        return f"misses: {_missed(sized.nearest, slo, least, is_mean=is_mean)} at best ({_plan_of(sized.nearest)})"
    if sized.tightest is not None:
        usable = sized.tightest.deployment.gpu.memory
        used = f"{sized.tightest.worst * usable / GIGA:.1f} GB of {usable / GIGA:.1f} GB per GPU"
        return f"does not fit: {used} ({_plan_of(sized.tightest)})"
    return None


def plan_text(plan: Plan, preset: str | None, replicas: int = 1) -> str:
    """Text such as ``tp 8, ep 8, fp8``: tp always, other degrees and replicas only above 1.

    >>> plan_text(Plan(tp=8, ep=8), "fp8")
    'tp 8, ep 8, fp8'
    """
    degrees = {"tp": plan.tp, "pp": plan.pp, "ep": plan.ep, "dp": plan.dp}
    words = [f"{name} {degree}" for name, degree in degrees.items() if name == "tp" or degree > 1]
    copies = [f"{replicas} replicas"] if replicas > 1 else []
    return ", ".join([*words, *([] if preset is None else [preset]), *copies])


def _candidates(
    by_preset: Mapping[str | None, Deployment], workload: Workload, fixed: Degrees
) -> Iterator[tuple[str | None, Deployment]]:
    """Every plan in every quantization, fewest GPUs first."""
    deployment = next(iter(by_preset.values()))
    for plan in possible_plans(deployment.model, deployment.gpu.node, workload.batch, fixed):
        for preset, stage in by_preset.items():
            yield preset, stage.at(plan)


def _trial(
    deployment: Deployment,
    preset: str | None,
    workload: Workload,
    slo: Mapping[str, float],
    *,
    for_certain: bool = True,
) -> Candidate:
    if for_certain:
        return Candidate(deployment, preset, limit_shares(deployment, workload, slo))
    return Candidate(deployment, preset, *least_shares(deployment, workload, slo))


def _shared_bound(ideal: Candidate, candidate: Deployment) -> Candidate:
    """Hardware limit of one GPU divided evenly over the ranks of a plan, which no plan can beat."""
    ranks = candidate.plan.expert_ranks
    return Candidate(candidate, ideal.preset, {key: share / ranks for key, share in ideal.shares.items()})


def _nearer(trial: Candidate, nearest: Candidate | None) -> Candidate:
    return trial if nearest is None or trial.worst < nearest.worst else nearest


def _data_degrees(model: Model, most: int, batch: float) -> list[int]:
    """Powers of two, no more ranks than sequences; 1 for dense models."""
    degrees = [1]
    while model.is_moe and 2 * degrees[-1] <= min(most, batch):
        degrees.append(2 * degrees[-1])
    return degrees


def _expert_degrees(model: Model, ranks: int) -> list[int]:
    return [ep for ep in range(1, ranks + 1) if ranks % ep == 0] if model.is_moe else [1]


def _missed(trial: Candidate, slo: Mapping[str, float], least: str = "", *, is_mean: bool) -> str:
    misses = []
    for key, share in trial.shares.items():
        if key == P99_WITHIN and share > 1.0:
            multiple, most = distinct_texts(share * slo[key], slo[key], None)
            misses.append(f"p99 {multiple} the median > {most}")
        elif share > 1.0:
            misses.append(f"{key_text(key, is_mean=is_mean)} {least}{above_limit(share * slo[key], slo[key])}")
    return ", ".join(misses)


def above_limit(time: float, limit: float) -> str:
    """A time and the limit it misses, with enough digits to tell them apart."""
    return " > ".join(distinct_texts(time, limit, "s"))


def _gpus_text(trial: Candidate) -> str:
    count = trial.deployment.plan.num_gpus
    return f"{count} GPU{'' if count == 1 else 's'}"


def _plan_of(candidate: Candidate) -> str:
    return plan_text(candidate.deployment.plan, candidate.preset)
