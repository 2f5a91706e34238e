"""The fewest GPUs that meet an SLO, and the fastest plan of so many: searches over plans and replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil, log

from roofline.numbers.quantity import GIGA, counted
from roofline.physics.memory import memory
from roofline.physics.plan import Deployment, Plan
from roofline.serving.knee import MOST_GPUS, plan_fault, possible_tp
from roofline.serving.latency import Workload
from roofline.serving.load.equations import capacity
from roofline.serving.load.limits import least_shares, limit_shares
from roofline.serving.shown import beside_limit, plan_text
from roofline.specs.load import Burst
from roofline.specs.model import Model
from roofline.specs.workload import LATENCIES
from roofline.support.records import NamedTuple, replace

#: Most ranks per pipeline stage that the search tries; larger domains (TPU pods) hold several replicas.
MOST_RANKS = 512

#: Most replicas that share a load.
MOST_REPLICAS = 1 << 16

_ROUNDING = 2.0**-40  # relative, of a rate over the saturation rate
_CROWDED = 0.5  # share of a limit that a plan takes without a load, beyond which it needs many replicas
_USUAL_USERS = 16.0  # of a replica: where the search begins
_LEAST_POWER, _MOST_GROWTH = 0.3, 4.0  # of a step of the search
_PER_HALVING = 4  # steps, of which one halves the range


class Degrees(NamedTuple):
    """Parallel degrees that the caller fixed; None where free."""

    tp: int | None = None
    pp: int = 1
    ep: int | None = None
    dp: int | None = None
    cp: int = 1
    dcp: int = 1


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

    meeting: tuple[Candidate, ...] = ()  # meet the SLO, the best first
    ideal: Candidate | None = None  # hardware limit of every plan that fits, where it misses the SLO
    nearest: Candidate | None = None  # comes nearest to the SLO
    tightest: Candidate | None = None  # lacks the least memory, where no plan fits

    @property
    def best(self) -> Candidate | None:
        return self.meeting[0] if self.meeting else None


def possible_plans(model: Model, domain: int, batch: float, fixed: Degrees) -> list[Plan]:
    """Plans of one replica within a scale-up domain, fewest GPUs first.

    tp takes every degree that divides the model. Mixtures of experts also try dp in powers of two up to the number of
    sequences, and every ep that divides tp x dp x cp. Pipeline stages and the ranks that split a prompt may lie in
    other domains. Fixed degrees may exceed the domain.
    """
    ranks = min(domain, MOST_RANKS)
    widest = max(ranks // (fixed.dp or 1), 1)
    plans = [
        Plan(tp, fixed.pp, ep, dp, fixed.cp, fixed.dcp)
        for tp in (possible_tp(model, widest) if fixed.tp is None else [fixed.tp])
        for dp in (_data_degrees(model, ranks // tp, batch) if fixed.dp is None else [fixed.dp])
        for ep in (_expert_degrees(model, tp * dp * fixed.cp) if fixed.ep is None else [fixed.ep])
    ]
    return sorted((plan for plan in plans if plan_fault(model, plan) is None), key=lambda plan: plan.num_gpus)


def fewest_gpus(
    by_preset: Mapping[str | None, Deployment],
    workload: Workload,
    slo: Mapping[str, float],
    fixed: Degrees,
    *,
    for_certain: bool = True,
    count: int = 1,
) -> Sized:
    """The fewest GPUs of one kind that meet an SLO: of one replica for a burst, of all replicas for users or a rate.

    Further plans up to `count` follow, each with the fewest GPUs that it takes.

    A percentile that is not known meets no limit `for_certain`; otherwise it meets those that its mean meets.

    Among plans and quantizations with equally few GPUs, the smallest sum of times relative to their limits wins. Memory
    is checked before time. Where nothing meets the SLO, the nearest plan has the smallest worst time relative to its
    limit. `by_preset` holds the model on one GPU per pipeline stage, whether it fits or not.
    """
    if not workload.load.is_burst:
        return _fewest_under_load(by_preset, workload, slo, fixed, for_certain=for_certain, count=count)
    ideal = {preset: _trial(deployment.on("ideal"), preset, workload, slo) for preset, deployment in by_preset.items()}
    nearest: Candidate | None = None
    tightest: Candidate | None = None
    slow: list[tuple[Candidate, Deployment]] = []
    meeting: list[Candidate] = []
    for _, candidates in groupby(_candidates(by_preset, workload, fixed), key=lambda pair: pair[1].plan.num_gpus):
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
        if len(meeting) >= count:
            break
    if meeting:
        return Sized(tuple(sorted(meeting, key=lambda trial: (trial.deployment.num_gpus, trial.total))[:count]))
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
    count: int,
) -> Sized:
    """`fewest_gpus` for users or a rate: each plan with as many replicas as it needs."""
    idle = replace(workload, load=Burst(), lengths=None, cold_start=None)
    bounded = slo if workload.lengths is None else {key: slo[key] for key in slo if key in LATENCIES}
    ideal = {preset: _trial(deployment.on("ideal"), preset, idle, bounded) for preset, deployment in by_preset.items()}
    meeting: list[Candidate] = []
    nearest: Candidate | None = None
    tightest: Candidate | None = None
    slow: Candidate | None = None

    def last() -> Candidate | None:
        """The one that a further plan must beat."""
        return meeting[count - 1] if len(meeting) >= count else None

    def search(by_itself: Candidate) -> None:
        nonlocal nearest
        trial = _fewest_replicas(by_itself, workload, slo, last(), for_certain=for_certain)
        if trial is None:
            return
        if trial.worst > 1.0:
            nearest = _nearer(trial, nearest)
        else:
            meeting.append(trial)
            meeting.sort(key=_cost)

    crowded: list[Candidate] = []  # they need many replicas: searched last, where one trial mostly excludes them
    for preset, plan in _candidates(by_preset, idle, fixed):
        best = last()
        if best is not None and plan.plan.num_gpus > best.deployment.num_gpus:
            break
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
        elif by_itself.worst > _CROWDED:
            crowded.append(by_itself)
        else:
            search(by_itself)
    for by_itself in crowded:
        search(by_itself)
    if meeting:
        return Sized(tuple(meeting[:count]))
    if nearest is None and slow is not None:
        return Sized(ideal=slow)
    return Sized(nearest=nearest) if nearest is not None else Sized(tightest=tightest)


def fastest_plan(
    by_preset: Mapping[str | None, Deployment],
    workload: Workload,
    slo: Mapping[str, float],
    fixed: Degrees,
    most: int,
    *,
    for_certain: bool = True,
    count: int = 1,
) -> Sized:
    """The plan of at most so many GPUs of one kind whose worst latency is the smallest share of its limit.

    Users or a rate are shared by as many replicas as the GPUs allow; a burst meets one replica. Further plans up to
    `count` follow. `by_preset` as in `fewest_gpus`.
    """
    is_burst = workload.load.is_burst
    idle = workload if is_burst else replace(workload, load=Burst(), lengths=None, cold_start=None)
    bounded = slo if workload.lengths is None else {key: slo[key] for key in slo if key in LATENCIES}
    found: list[Candidate] = []
    tightest: Candidate | None = None
    for preset, plan in _candidates(by_preset, idle, fixed):
        if plan.plan.num_gpus > most:
            break
        need = memory(plan, idle.batch, workload.isl + workload.osl)
        if not need.fits:
            tightest = _nearer(Candidate(plan, preset, {"memory": need.used_fraction}), tightest)
            continue
        trial = _trial(plan, preset, idle, bounded, for_certain=for_certain)
        if not is_burst:
            if len(found) >= count and trial.worst >= found[count - 1].worst:
                continue  # no faster under a load
            shared = plan.copies(most // plan.plan.num_gpus)
            trial = _trial(shared, preset, workload, slo, for_certain=for_certain)
        found.append(trial)
        found.sort(key=lambda trial: (trial.worst, trial.total))
    meeting = tuple(trial for trial in found[:count] if trial.worst <= 1.0)
    return Sized(meeting) if meeting else Sized(nearest=found[0]) if found else Sized(tightest=tightest)


def _cost(trial: Candidate) -> tuple[int, bool, float]:
    """Sort key: GPUs of all replicas, then whether all is known, then the sum of the shares."""
    return trial.deployment.num_gpus, not trial.is_known, trial.total


def _fewest_replicas(
    by_itself: Candidate,
    workload: Workload,
    slo: Mapping[str, float],
    best: Candidate | None,
    *,
    for_certain: bool,
) -> Candidate | None:
    """A plan with the fewest replicas that meet the SLO together; a miss where the most are too few.

    None where it needs more GPUs than the best so far, or as many and more time. `by_itself` is the plan without a
    load: no replica of it is faster.
    """
    replica, preset = by_itself.deployment, by_itself.preset
    most = _most_replicas(replica)
    if best is not None:
        is_slower = best.is_known and by_itself.total >= best.total
        most = (best.deployment.num_gpus - is_slower) // replica.plan.num_gpus
    too_few = _overloaded_replicas(replica, workload)
    if best is not None and too_few >= most:
        return None
    too_few = min(too_few, most - 1)
    count, met, tried = most, None, []
    if best is None:
        count = min(max(2 * too_few, ceil(workload.load.amount / _USUAL_USERS)), most)
    while True:
        trial = _trial(replica.copies(count), preset, workload, slo, for_certain=for_certain)
        tried.append((count, trial.worst - by_itself.worst))
        if trial.worst <= 1.0:
            met = trial
        elif count == most:
            return trial
        else:
            too_few = count
        enough = None if met is None else met.deployment.replicas
        if met is not None and enough == too_few + 1:
            return met
        count = _next_count(tried, 1.0 - by_itself.worst, too_few, most if enough is None else enough - 1)


def _most_replicas(replica: Deployment) -> int:
    return min(MOST_REPLICAS, MOST_GPUS // replica.plan.num_gpus)


def _overloaded_replicas(replica: Deployment, workload: Workload) -> int:
    """The most replicas that a request rate overloads; 0 for users, whom any number serves."""
    if not workload.load.is_open:
        return 0
    return int(workload.request_rate / capacity(replica, workload) * (1.0 - _ROUNDING))


def _next_count(tried: Sequence[tuple[int, float]], spare: float, too_few: int, most: int) -> int:
    """Replicas to try next, above `too_few` and up to `most`.

    `tried`: counts, and what the load added to the share of the limit there, which falls by about a power of the count;
    `spare`: what it may add.
    """
    count, over = tried[-1]
    if not 0.0 < over < float("inf") or spare <= 0.0:
        wanted = 2.0 * count if too_few == count else (too_few + most) / 2.0
    else:
        power = 1.0
        if len(tried) > 1:
            before, over_before = tried[-2]
            if 0.0 < over_before < float("inf") and over_before != over:
                power = log(over_before / over) / log(count / before)
        wanted = count * min((over / spare) ** (1.0 / min(max(power, _LEAST_POWER), 1.0)), _MOST_GROWTH)
    if len(tried) % _PER_HALVING == 0 and most - too_few > _PER_HALVING:
        wanted = min(wanted, (too_few + most) / 2.0)
    return min(max(ceil(wanted), too_few + 1), most)


def reason(sized: Sized, slo: Mapping[str, float], *, is_mean: bool) -> str | None:
    """Why no plan meets the SLO; None where one does or none is possible."""
    if sized.meeting:
        return None
    if sized.ideal is not None:
        least = _missed(sized.ideal, slo, ">= ", is_mean=is_mean)
        return f"misses at the hardware limit: {least} on {_gpus_text(sized.ideal)}"
    if sized.nearest is not None:
        most = _most_replicas(sized.nearest.deployment)
        if sized.nearest.deployment.replicas >= most:
            return f"misses: the load needs more than {most:,} replicas ({_plan_of(sized.nearest)})"
        least = "" if sized.nearest.is_known else ">= "
        return f"misses: {_missed(sized.nearest, slo, least, is_mean=is_mean)} at best ({_plan_of(sized.nearest)})"
    if sized.tightest is not None:
        usable = sized.tightest.deployment.gpu.memory
        used = f"{sized.tightest.worst * usable / GIGA:.1f} GB of {usable / GIGA:.1f} GB per GPU"
        return f"does not fit: {used} ({_plan_of(sized.tightest)})"
    return None


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
    missed = {key: share * slo[key] for key, share in trial.shares.items() if share > 1.0}
    return ", ".join(beside_limit(key, time, slo[key], is_mean=is_mean, least=least) for key, time in missed.items())


def _gpus_text(trial: Candidate) -> str:
    return counted(trial.deployment.plan.num_gpus, "GPU")


def _plan_of(candidate: Candidate) -> str:
    return plan_text(candidate.deployment.plan, candidate.preset)
