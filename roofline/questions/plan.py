"""Deployments that meet latency limits under a load, ranked: GPUs, plans, formats and budgets, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack, overload

from roofline.numbers.operations import is_nan
from roofline.numbers.quantity import BILLION, HOUR, KIBI, counted
from roofline.physics.plan import Deployment, Plan
from roofline.questions import catalog
from roofline.questions.inputs import case
from roofline.questions.inputs.arguments import (
    COUNTS,
    all_values,
    each_case,
    flag,
    listed_names,
    number,
    one_case,
    plain_counts,
    plain_options,
    plain_value,
    required_limits,
    scalar,
    tokens_of_prefix,
    values_of,
    whole,
    without,
)
from roofline.questions.inputs.case import TRAFFIC, traffic
from roofline.questions.inputs.deployment import check_settings, choice, found_gpu, found_model, own_settings, pool_of
from roofline.questions.inputs.options import ALL, OBJECTIVES, understood
from roofline.questions.predict import DEFAULT_ENGINE, DEFAULTS, asked_case, meeting_first, predict
from roofline.questions.ranking import (
    MOST_GROWTH,
    GpuPlan,
    Plans,
    by_rent,
    contenders,
    growing,
    growth_factor,
    leading,
    month_text,
    rank,
)
from roofline.serving.fewest import (
    MOST_RANKS,
    Candidate,
    Degrees,
    Sized,
    fastest_plan,
    fewest_gpus,
    possible_plans,
    reason,
)
from roofline.serving.knee import MOST_GPUS, check_degrees, check_plan, does_not_fit
from roofline.serving.latency import Workload
from roofline.serving.load.limits import check_percentiles
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import canonical_preset
from roofline.serving.shown import degrees_text, gpus_text, plan_text
from roofline.serving.verdict import is_pressing
from roofline.specs.gpu import Gpu
from roofline.specs.load import LASTING, RUN, stated
from roofline.specs.model import Model
from roofline.specs.workload import BETWEEN_TOKENS, LATENCIES, Limits, key_text
from roofline.specs.written import Pool, price_of_text, read_as
from roofline.support.errors import BadInput, RooflineError, UnsupportedPrecision, check_known, shown
from roofline.support.progress import each
from roofline.support.records import NamedTuple, replace

if TYPE_CHECKING:
    from roofline.questions.disaggregate import Disaggregation
    from roofline.questions.inputs.signatures import Loaded, Many, PlanAims, PlanOptions, Slo


_DEGREES = ("tp", "pp", "ep", "dp", "cp", "dcp")
_LOADS_OF_REPLICAS = (*LASTING, RUN)  # loads that replicas share
_MOST_PLANS = 100  # of each kind of GPU
_MOST_SPEND = BILLION  # USD/h
_ROUNDING = 2.0**-30  # relative, of GPUs that a budget pays for
_POOLS = 3  # pairs of pools that are shown
_MOST_CHOICES = 1000  # combinations of values to try on each kind of GPU


@overload
def plan(
    model: Prediction,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    slo: Slo | None = None,
    **options: Unpack[PlanAims],
) -> Plans: ...
@overload
def plan(
    model: Many[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    slo: Slo,
    **options: Unpack[PlanOptions],
) -> Plans: ...
@understood
def plan(
    model: Many[str | Model] | Prediction,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    slo: Slo | None = None,
    objective: str = "cost",
    spend: float | str | None = None,
    have: str | Mapping[str, int] | None = None,
    growth: float | str | None = None,
    top: int = 1,
    disaggregate: bool = False,
    **options: Unpack[Loaded],
) -> Plans:
    """For every kind of GPU, the deployment that meets an SLO under a load, or for a burst on one replica; ranked.

    A load (`concurrency` or `request_rate`) is shared by as many replicas as it takes.

    The search covers tensor parallelism within the scale-up domain and, for mixtures of experts, data parallelism of
    the attention (powers of two, no more than sequences) and expert parallelism. Among plans with equally few GPUs the
    one with the smallest sum of times over their limits wins. Values of what a deployment may choose (formats,
    degrees, token and sequence budgets, draft tokens) compete the same way; the default is the checkpoint's own format.

    Args:
        model: name, alias or record, or several; or a prediction, in place of the options: its plan is searched anew
            but for the degrees that were stated, and its SLO holds where none is given.
        gpus: names, aliases or records; None for what `have` names, for the whole catalog, or for the kind of GPU of
            a prediction.
        slo: limits, at least one, that the central estimate must meet, as in `predict` [s].
        objective: ``cost`` ranks by rent, ``throughput`` by output tokens per GPU; both take the fewest GPUs of a kind.
            ``latency`` takes all GPUs that the budget allows, and ranks by the worst latency over its limit.
        spend: the most rent [USD/h], or a text such as ``40k/month``.
        have: GPUs that you have, such as ``16xh100,8xl40s``, or a mapping of names and counts; a plan uses one kind.
        growth: how much the load grows, such as ``2x``: `Plans.steps` says where one plan ends and the next begins;
            where only the load has several values, it is followed from the least to the largest [1].
        top: number of plans for each kind of GPU [1].
        disaggregate: also match prefill and decode pools, of the kinds of GPU that were named or of the three that
            lead: `Plans.pools`.
        options: keyword arguments of `predict`; tp, ep and dp fix degrees that are searched otherwise, pp is 1 by
            default. Where formats, degrees, budgets or draft tokens have several values, the best is taken; where
            lengths or loads do, every combination is a case of its own.

    Returns:
        GPUs that meet the SLO, by the objective (unknown prices last); then those for which it is not known, and the
        others, the nearest misses first, each with the reason.

    Raises:
        UnknownName: no such model, GPU, format, objective or SLO key.
        BadInput: no SLO, a number or plan that no GPU allows, arrays, or options that do not apply.
        BadSpec: a specification has faults.

    >>> import roofline as rl
    >>> rl.plan("llama-3.3-70b", "h100-sxm", slo="tpot:25", quantization="fp8", basis="ideal").best
    <GpuPlan 1x h100-sxm (tp 1, fp8): TTFT 79.8 ms, TPOT 21.1 ms, 3.99 USD/h; SLO pass?>
    """
    model, gpu, asked = asked_case("plan", model, None, options, ("num_gpus", "allow_oversize"), keeps_plan=False)
    of_case = asked.pop("slo", None)
    limits = required_limits("plan", of_case if slo is None else slo)
    aim = _aim(objective, spend, have, top, asked.get("specs"))
    grown = None if growth is None else growth_factor(growth)
    gpus = gpu if gpus is None else gpus
    gpus = [kind for kind, _ in aim.have.values()] if gpus is None and aim.have is not None else gpus
    cases = each_case("plan", model, without("plan", asked))
    growths = load_growths([{**case, "model": name} for name, case in cases], grown)
    answers = [
        _of_case(name, gpus, limits, aim, case, each_growth, with_pools=flag("disaggregate", disaggregate))
        for (name, case), each_growth in zip(cases, growths, strict=True)
    ]
    return together(answers)


def together(answers: Sequence[Plans]) -> Plans:
    """Answers of several cases as one."""
    if len(answers) == 1:
        return answers[0]
    plans = meeting_first((plan for answer in answers for plan in answer.plans), lambda plan: plan.verdict)
    return replace(
        answers[0],
        plans=tuple(plans),
        notes=tuple(note for answer in answers for note in answer.notes),
        steps=tuple(step for answer in answers for step in answer.steps),
        pools=tuple(pools for answer in answers for pools in answer.pools),
        question=None,
    )


#: The former name of `plan`: ``rl.size(...)`` is ``rl.plan(...)``.
size = plan


def load_growths(cases: Sequence[Mapping[str, Any]], growth: float | None) -> list[float | None]:
    """Growth of each case: the one asked for; of cases that differ in their load alone, from the least to the largest.

    >>> load_growths([{"concurrency": 20}, {"concurrency": 10}], None)
    [None, 2.0]
    """
    growths = [growth] * len(cases)
    load = next((name for name in LASTING if cases[0].get(name) is not None), None)
    if growth is not None or load is None or len(cases) == 1:
        return growths
    first = {name: value for name, value in cases[0].items() if name != load}
    if any({name: value for name, value in case.items() if name != load} != first for case in cases):
        return growths
    amounts = [float(case[load]) for case in cases]
    if max(amounts) > min(amounts) > 0.0 and max(amounts) <= MOST_GROWTH * min(amounts):
        growths[amounts.index(min(amounts))] = max(amounts) / min(amounts)
    return growths


class _Aim(NamedTuple):
    """What a plan is for, and what is available for it."""

    objective: str
    usd_per_hour: float | None  # the most rent
    have: Mapping[str, tuple[Gpu, int]] | None  # name -> GPUs that are there, and how many
    top: int  # plans of each kind of GPU

    def most(self, gpu: Gpu) -> int | None:
        """GPUs of a kind that are available; None without a limit, or where its rent is not known."""
        most = [] if self.have is None else [self.have[gpu.name][1] if gpu.name in self.have else 0]
        if self.usd_per_hour is not None and gpu.price is not None:
            most.append(int(self.usd_per_hour / (gpu.price.typical * HOUR) * (1.0 + _ROUNDING)))
        return min(most, default=None)


def _aim(objective: Any, spend: Any, have: Any, top: Any, specs: str | None) -> _Aim:
    """What is asked for, checked."""
    objective = plain_value("objective", scalar(objective))
    check_known("objective", objective, OBJECTIVES)
    rent = scalar(spend)
    if isinstance(rent, str):
        rent = read_as(f"spend = {shown(spend)}: ", price_of_text, rent)
    usd_per_hour = None if rent is None else number("spend", rent, 0.0, _MOST_SPEND)
    return _Aim(objective, usd_per_hour, _available(have, specs), int(number("top", whole("top", top), 1, _MOST_PLANS)))


def _available(have: Any, specs: str | None) -> Mapping[str, tuple[Gpu, int]] | None:
    """GPUs that are there, by their records."""
    if have is None:
        return None
    example = "16xh100,8xl40s"
    if isinstance(have, Mapping):
        named = [(name, scalar(count)) for name, count in have.items()]
    else:
        named = []
        for text in have.split(",") if isinstance(have, str) else listed_names("have", have):
            pool = pool_of(text, specs)
            if pool is None or pool.num_gpus is None or pool.options != {"num_gpus": pool.num_gpus} or pool.replicas:
                raise BadInput(f"have = {shown(text)} is not a number of GPUs; write it as {example}")
            named.append((pool.gpu, pool.num_gpus))
    available: dict[str, tuple[Gpu, int]] = {}
    for name, count in named:
        if type(count) is not int or count < 1:
            raise BadInput(f"have = {shown(count)} of {shown(name)} must be a whole number of GPUs, at least 1")
        gpu, _ = found_gpu(name, {"specs": specs})
        available[gpu.name] = gpu, count + (available[gpu.name][1] if gpu.name in available else 0)
    if not available:
        raise BadInput(f"have names no GPU; write it as {example}")
    return available


class _PlannedCase(NamedTuple):
    """One case, and what may be chosen for it."""

    model: Model
    limits: Mapping[str, float]
    aim: _Aim
    options: Mapping[str, Any]
    presets: tuple[str | None, ...]
    choices: tuple[tuple[Degrees, Mapping[str, Any]], ...]  # degrees that are fixed, and options to try with them

    def on(self, gpu: str | Gpu) -> tuple[GpuPlan, ...]:
        """The best plans on one kind of GPU, or the nearest miss."""
        plans: list[GpuPlan] = []
        refused: list[BadInput] = []
        for fixed, options in self.choices:
            case = {**self.options, **options}
            try:
                kind, formats, degrees = _with_pool(self.model, gpu, self.presets, fixed, case.get("specs"))
                plans += _on_gpu(
                    self.model, kind, formats, degrees, self.limits, self.aim, dict(own_settings(gpu, case))
                )
            except BadInput as error:
                refused.append(error)
        if not plans:
            raise refused[0]
        ranked = sorted(plans, key=lambda plan: rank(plan, self.aim.objective))
        meeting = tuple(plan for plan in ranked if plan.prediction is not None)
        return meeting[: self.aim.top] or (ranked[0],)

    def at(self, load: str, amount: float) -> _PlannedCase:
        """The same at another amount of its load."""
        return self._replace(options={**self.options, load: amount})

    def within(self, factors: Mapping[str, float]) -> _PlannedCase:
        """The same with limits scaled."""
        limits = {key: limit * factors.get(key, 1.0) for key, limit in self.limits.items()}
        return self._replace(limits=Limits(limits))


def _of_case(
    model: str | Model,
    gpus: str | Gpu | Sequence[str | Gpu] | None,
    limits: Mapping[str, float],
    aim: _Aim,
    options: Mapping[str, Any],
    growth: float | None,
    *,
    with_pools: bool,
) -> Plans:
    """Every kind of GPU for one case."""
    plain = {name: value for name, value in options.items() if value is not None}
    chosen = _choices(plain)
    plain = plain_options({name: value for name, value in plain.items() if name not in chosen})
    presets = _presets(chosen.pop("quantization", None))
    model, model_notes = found_model(model, plain)
    kinds: list[Any] = list(catalog.gpus(plain.get("specs"))) if gpus is None else listed_names("gpus", gpus)
    check_settings(kinds, plain)
    is_loaded = any(plain.get(name) is not None for name in _LOADS_OF_REPLICAS)
    if aim.objective == "latency" and is_loaded and aim.usd_per_hour is None and aim.have is None:
        raise BadInput("objective = latency takes all GPUs that it may: say how many, with spend or have")
    question = _PlannedCase(model, limits, aim, plain, presets, _combined(model, chosen))
    plans: list[GpuPlan] = []
    for kind in each(kinds, "GPUs"):
        plans += [found for found in question.on(kind) if not any(_is_same(found, plan) for plan in plans)]
    ranked = _with_rivals(sorted(plans, key=lambda plan: rank(plan, aim.objective)), is_named=gpus is not None)
    notes = (*model_notes, *_notes(ranked, limits, plain.get("osl", DEFAULTS["osl"])))
    first = leading([plan for plan in ranked if plan.meets], is_named=gpus is not None)
    if first is not None and is_loaded and _chooses_budgets(plain, chosen):
        tuned = _with_budget(question, first, chosen)
        ranked = [tuned if plan is first else plan for plan in ranked]
        first = tuned
    ranked = [replace(plan, leads=True) if plan is first else plan for plan in ranked]
    answer = Plans(tuple(ranked), notes, gpus is not None, aim.objective, question=question)
    if with_pools:
        kinds = [plan.gpu for plan in contenders(answer)] if gpus is None else kinds
        answer = replace(answer, pools=_pools(question, kinds, chosen))
    return answer if growth is None else replace(answer, steps=growing(answer, growth))


def _pools(question: _PlannedCase, kinds: Sequence[Any], chosen: Mapping[str, Any]) -> tuple[Disaggregation, ...]:
    """Prefill and decode pools within the budget, the least rent first."""
    if not any(question.options.get(name) is not None for name in LASTING):
        raise BadInput(f"two pools need a load; give {' or '.join(LASTING)}")
    odd = next((name for name in chosen if name in (*_DEGREES, "weights") or len(chosen[name]) > 1), None)
    if odd is not None:
        raise BadInput(f"two pools are searched in every plan, at one value of each other choice; leave out {odd}")
    from roofline.questions.pool_plans import pool_plans

    stated_options = {**question.options, "slo": question.limits}
    stated_options |= {name: values[0] for name, values in chosen.items()}
    found = pool_plans(question.model, kinds, question.presets, stated_options, question.aim.most)
    spend = question.aim.usd_per_hour
    within = [pools for pools in found if spend is None or (pools.usd_per_hour or 0.0) <= spend]
    return tuple(within[:_POOLS])


_NEAR = 0.02  # worst shares of a limit that differ by less are alike
#: Token budgets of a step that are tried for the first plan, beside the engine's default.
_BUDGETS = (KIBI, 2 * KIBI, 4 * KIBI, 8 * KIBI, 16 * KIBI)


def _chooses_budgets(plain: Mapping[str, Any], chosen: Mapping[str, Any]) -> bool:
    """Whether the token budget is open: of an engine that is named, where neither it nor the sequences are stated."""
    is_stated = any(name in plain or name in chosen for name in ("max_num_batched_tokens", "max_num_seqs"))
    return not is_stated and plain.get("engine") is not None


def _with_budget(question: _PlannedCase, first: GpuPlan, chosen: Mapping[str, Any]) -> GpuPlan:
    """The first plan, or a better one of the same GPU with another token budget, such as one of fewer GPUs."""
    opened = {**chosen, "max_num_batched_tokens": list(_BUDGETS)}
    tried = question._replace(choices=_combined(question.model, opened)).on(first.gpu)
    objective = question.aim.objective

    def place(plan: GpuPlan) -> tuple[Any, ...]:
        shares = {} if plan.prediction is None else plan.prediction.slo_shares
        worst = max((float(share) for share in shares.values() if not is_nan(share)), default=0.0)
        return (*rank(plan, objective)[:-2], round(worst / _NEAR))

    better = [plan for plan in tried if plan.meets and place(plan) < place(first)]
    best = min(better, key=place, default=first)
    return best if best is first else replace(best, rival=first.rival)


def _is_same(plan: GpuPlan, other: GpuPlan) -> bool:
    """Whether two names of a GPU led to the same answer."""
    return plan.gpu == other.gpu and str(plan) == str(other) and plan.asked == other.asked


def _choices(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of which a deployment may choose among several values, each with its values."""
    from roofline.questions.inputs.options import QUESTIONS

    names = [name for name in QUESTIONS["plan"].several if name in options]
    return {
        name: options[name] if name == "quantization" else all_values(name, options[name])
        for name in names
        if name == "quantization" or values_of(name, options[name]) != []
    }


def _combined(model: Model, chosen: Mapping[str, Sequence[Any]]) -> tuple[tuple[Degrees, Mapping[str, Any]], ...]:
    """Each combination of values, with its degrees apart; refused where no GPU allows any of them."""
    if math.prod(len(values) for values in chosen.values()) > _MOST_CHOICES:
        raise BadInput(f"{' x '.join(f'{len(values)} {name}' for name, values in chosen.items())} are too many choices")
    combined: list[tuple[Degrees, Mapping[str, Any]]] = []
    refused: list[BadInput] = []
    for values in product(*chosen.values()):
        options = {name: value for name, value in zip(chosen, values, strict=True) if value is not None}
        try:
            combined.append((_degrees(model, options), options))
        except BadInput as error:
            refused.append(error)
    if not combined:
        raise refused[0]
    return tuple(combined)


def _with_rivals(ranked: Sequence[GpuPlan], *, is_named: bool) -> list[GpuPlan]:
    """Plans with the best of another kind of GPU that has a rent: of the best, the next; of others, the best."""
    priced = [plan for plan in ranked if plan.meets and plan.usd_per_hour is not None]
    best = leading(priced, is_named=is_named)
    if best is None:
        return list(ranked)
    priced = [plan for plan in priced if plan.gpu.status not in catalog.ANNOUNCED]
    others = [plan for plan in priced if plan.gpu != best.gpu] or [plan for plan in priced if plan is not best]
    second = leading(sorted(others, key=lambda plan: by_rent(plan.usd_per_hour)), is_named=is_named)
    return [
        plan if plan.prediction is None else replace(plan, rival=second if plan is best else best) for plan in ranked
    ]


def _on_gpu(
    model: Model,
    name: str | Gpu,
    presets: tuple[str | None, ...],
    fixed: Degrees,
    slo: Mapping[str, float],
    aim: _Aim,
    options: Mapping[str, Any],
) -> list[GpuPlan]:
    wrong: BadInput | None = None
    try:
        gpu, notes = found_gpu(name, options)
    except BadInput as error:  # a figure that this GPU cannot have
        gpu, notes = found_gpu(name, {**options, "set": None})
        wrong = error
    load = {name: options[name] for name in _LOADS_OF_REPLICAS if options.get(name) is not None}
    shaping = {name: options[name] for name in TRAFFIC if name in options} if load else {}
    plain = {name: value for name, value in options.items() if name not in (*load, *shaping)}
    shaped = traffic(*(options.get(name, DEFAULTS[name]) for name in ("isl", "osl")), **shaping)
    plain["isl"], plain["osl"] = shaped.isl, shaped.osl
    plain["prefix"] = tokens_of_prefix(plain.get("prefix", DEFAULTS["prefix"]), plain["isl"])
    own_prefix = shaped.prefix(plain["prefix"])
    row = {
        **{length: plain.get(length, default) for length, default in DEFAULTS.items()},
        **({"batch": None} if load else {}),
        **load,
        "load": stated(load).name,
        **fixed._asdict(),
        "model": model.short_name,
        "model_id": model.name,
        "gpu": gpu.name,
        "gpu_status": gpu.status,
        "engine": options.get("engine", DEFAULT_ENGINE),
    }
    if wrong is not None:
        return [GpuPlan(model, gpu, None, reason=str(wrong), asked=row, warnings=notes)]
    stage = {"tp": 1, "pp": fixed.pp, "ep": 1, "dp": 1, "allow_oversize": True}
    alone: dict[str | None, Prediction] = {}
    refused: list[UnsupportedPrecision] = []
    for preset in presets:
        try:
            alone[preset] = predict(model, gpu, **{**plain, **stage, "quantization": preset})
        except UnsupportedPrecision as error:
            refused.append(error)
    notes += _texts(*refused)
    if not alone:
        why = f"{refused[0].short}: {str(refused[0]).partition(';')[0]}"
        return [GpuPlan(model, gpu, None, reason=why, asked=row, warnings=notes)]
    first = next(iter(alone.values()))
    workload = first.workload
    if load:
        workload = case.workload(
            workload.isl,
            workload.osl,
            options.get("batch"),
            own_prefix if shaped.sessions else workload.prefix,
            **load,
            **shaped.of_a_load,
            cache=shaped.cache(workload.cache if workload.prefix else None),
        )
    one_case("plan", sum(workload.numbers.values()), "lengths and load")
    check_percentiles(workload, slo)
    deployments = {preset: prediction.deployment for preset, prediction in alone.items()}
    row |= {"basis": first.basis, "basis_detail": first.basis_detail, "engine": first.engine}
    stated_options = {**options, "prefix": plain["prefix"]}
    return _Search(first, deployments, workload, slo, fixed, aim, stated_options, row, notes).plans()


class _Search(NamedTuple):
    """One kind of GPU, and what is searched on it."""

    first: Prediction  # on one GPU per pipeline stage, whether it fits or not
    deployments: Mapping[str | None, Deployment]  # the same in every quantization
    workload: Workload
    slo: Mapping[str, float]
    fixed: Degrees
    aim: _Aim
    options: Mapping[str, Any]  # of `predict`, without plan and quantization
    row: Mapping[str, Any]  # columns of an answer without a prediction
    notes: tuple[str, ...]

    @property
    def gpu(self) -> Gpu:
        return self.first.deployment.gpu

    @property
    def model(self) -> Model:
        return self.first.deployment.model

    def plans(self) -> list[GpuPlan]:
        """The best plans, or the nearest miss."""
        sized = self.search(count=self.aim.top, for_certain=False)
        return [self.answer(trial) for trial in sized.meeting] or [self.miss(sized)]

    def search(self, *, count: int = 1, for_certain: bool = True) -> Sized:
        case = self.deployments, self.workload, self.slo, self.fixed
        most, is_burst = self.aim.most(self.gpu), self.workload.load.is_burst
        if self.aim.objective == "latency" and (most is not None or is_burst):
            most = MOST_GPUS if most is None else most
            return fastest_plan(*case, most, for_certain=for_certain, count=count)
        return fewest_gpus(*case, for_certain=for_certain, count=count)

    def stating(self, trial: Candidate) -> dict[str, Any]:
        """Options of `predict` that make a candidate."""
        deployment = trial.deployment
        plan: dict[str, Any] = {degree: getattr(deployment.plan, degree) for degree in _DEGREES}
        if not self.workload.load.is_burst:
            plan["num_gpus"] = deployment.num_gpus
        stated_options = {**self.options, **plan, "quantization": trial.preset, "slo": self.slo}
        return {name: value for name, value in stated_options.items() if value is not None}

    def answer(self, trial: Candidate) -> GpuPlan:
        """A candidate that meets the SLO, or may."""
        options = self.stating(trial)
        prediction = predict(self.model, self.gpu, **options)
        preset = canonical_preset(trial.preset, self.gpu.vendor)
        over = _over_budget(prediction, preset, self.aim)
        if over is not None:
            needed, allowed = prediction.deployment.num_gpus, self.aim.most(self.gpu)
            share = needed / max(allowed or 0, 1)
            row = {**self.row, "fits": True}
            return GpuPlan(
                self.model, self.gpu, None, None, over, prediction, over_budget=share, asked=row, warnings=self.notes
            )
        why = None
        if prediction.verdict is None:
            why = _not_judged(prediction, None if trial.is_known else self.search().best)
        said = (*prediction.warnings, *self.notes)
        if self.aim.usd_per_hour is not None and self.gpu.price is None:
            said += (f"no rent of {self.gpu.name} is known, so it may be over the budget; gpu_price states it",)
        made = {"model": self.model, "gpu": self.gpu, **options}
        return GpuPlan(self.model, self.gpu, prediction, preset, why, options=made, warnings=said)

    def miss(self, sized: Sized) -> GpuPlan:
        """Why no plan meets the SLO."""
        nearest, notes, row = None, self.notes, dict(self.row)
        if sized.nearest is not None and self.workload.load.is_burst:
            nearest = predict(self.model, self.gpu, **self.stating(sized.nearest))
        if sized.tightest is not None:
            length = self.first.workload.isl + self.first.workload.osl
            notes += _texts(does_not_fit(sized.tightest.deployment, self.workload.batch, length))
        if sized != Sized():
            row["fits"] = sized.tightest is None
        why = reason(sized, self.slo, is_mean=self.workload.is_mean)
        why = why or _no_plan(self.gpu, self.fixed, self.aim.most(self.gpu))
        notes += tuple(text for text in self.first.warnings if is_pressing(text))
        closest = sized.nearest or sized.ideal
        excess, is_beyond = None if closest is None else closest.worst, sized.ideal is not None
        return GpuPlan(self.model, self.gpu, None, None, why, nearest, is_beyond, excess, asked=row, warnings=notes)


def _over_budget(prediction: Prediction, preset: str | None, aim: _Aim) -> str | None:
    """That a deployment takes more GPUs than are available, and how many; None where it does not."""
    deployment = prediction.deployment
    most = aim.most(deployment.gpu)
    if most is None or deployment.num_gpus <= most:
        return None
    rent = "" if prediction.usd_per_hour is None else f" for {month_text(prediction.usd_per_hour)}"
    gpus = gpus_text(deployment.gpu.name, deployment.num_gpus)
    plan_of_it = plan_text(deployment.plan, preset, deployment.replicas)
    return f"over budget: it takes {gpus} ({plan_of_it}){rent}"


def _not_judged(answer: Prediction, certain: Candidate | None) -> str:
    """Why it is not known whether the fewest GPUs that may meet the SLO do."""
    judged = answer.slo_verdict
    if judged is not None and judged.binding is None:
        return str(judged.reason)
    unknown = [key_text(key) for key, share in answer.slo_shares.items() if is_nan(share)]
    enough = "" if certain is None else f" below {certain.deployment.num_gpus} GPUs"
    why = "the closed form contradicts the mean there; `simulate` tells"
    return f"not known: {', '.join(unknown)} has no figure{enough}: {why}"


def _texts(*errors: RooflineError) -> tuple[str, ...]:
    return tuple(f"{type(error).__name__}: {error}" for error in errors)


def _no_plan(gpu: Gpu, fixed: Degrees, most: int | None = None) -> str:
    """The reason where the fixed degrees need more GPUs than the scale-up domain, or the budget, has."""
    if most is not None and most < gpu.node:
        return f"over budget: no plan of at most {counted(most, 'GPU')}"
    return f"misses: no plan with {degrees_text(fixed)} fits the {gpu.node}-GPU {gpu.node_link} domain"


def _notes(sizes: Sequence[GpuPlan], slo: Mapping[str, float], osl: float) -> list[str]:
    """Notes that hold for all answers."""
    notes = []
    if any(answer.meets_high is not None and answer.meets for answer in sizes):
        notes.append("the SLO is judged on the central estimate; where meets_high is no, the upper 80 % end misses it")
    is_loaded = any(answer.prediction and not answer.prediction.workload.load.is_burst for answer in sizes)
    if is_loaded and any(key in LATENCIES for key in slo):
        notes.append(
            "limits without a percentile are means here; write ttft:300@p95 for a percentile, or use goodput "
            "for a share of the requests"
        )
    for name in BETWEEN_TOKENS:
        if name in slo and osl == 1:
            notes.append(f"osl 1: a single token has no {name.upper()}; its limit is ignored")
    holding = [answer for answer in sizes if answer.meets or answer.asked.get("fits")]
    if holding and all(answer.misses_hardware_limit for answer in holding):
        notes.append("no GPU that holds the model can meet the SLO, even at the hardware limit")
    return notes


def _degrees(model: Model, options: dict[str, Any]) -> Degrees:
    """Degrees that the caller fixed, taken out of `options`; refused where no GPU allows them."""
    degrees = {name: options.pop(name) for name in _DEGREES if name in options}
    if degrees.get("ep") == ALL:
        raise BadInput(f"plan tries the degrees of experts itself; leave out ep = {ALL}, or give a number")
    if not COUNTS.issuperset(map(type, degrees.values())):
        degrees = dict(zip(degrees, plain_counts(**degrees), strict=True))
    fixed = Degrees(**degrees)
    degrees = {name: degree for name, degree in fixed._asdict().items() if degree is not None}
    check_degrees(model, Plan(**degrees))
    if fixed != Degrees(pp=fixed.pp, cp=fixed.cp) and not possible_plans(model, MOST_RANKS, MOST_RANKS, fixed):
        check_plan(model, Plan(**{"dp": fixed.ep or 1, **degrees}))
        raise BadInput(f"no plan of {model.short_name} has {degrees_text(fixed)}; leave one of them out")
    return fixed


def _presets(quantization: object) -> tuple[str | None, ...]:
    """Presets to try, each once; None is the checkpoint's own format."""
    presets = (
        []
        if quantization is None or values_of("quantization", quantization) == []
        else all_values("quantization", quantization)
    )
    for preset in presets:
        if not (preset is None or isinstance(preset, str)):
            raise BadInput(f"quantization = {shown(quantization)} must be a preset of formats, or several")
    return tuple(dict.fromkeys(canonical_preset(preset) for preset in presets)) or (None,)


def _with_pool(
    model: Model, gpu: str | Gpu, presets: tuple[str | None, ...], fixed: Degrees, specs: str | None
) -> tuple[str | Gpu, tuple[str | None, ...], Degrees]:
    """A GPU with the formats to try on it and the fixed degrees, including those its pool states."""
    options = {**fixed._asdict(), "quantization": None if presets == (None,) else presets, "specs": specs}
    pooled = choice(gpu, options, "plan finds the number of GPUs itself; have states how many are there")
    if pooled.pool is None or isinstance(pooled.gpu, Pool):
        return gpu, presets, fixed
    preset = pooled.pool.quantization
    degrees = {name: pooled.options[name] for name in _DEGREES if pooled.options[name] is not None}
    return pooled.gpu, presets if preset is None else (canonical_preset(preset),), _degrees(model, degrees)
