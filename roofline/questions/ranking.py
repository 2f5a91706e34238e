"""Plans in an order: what binds each, how sure it is, how much load it carries, and where another one takes over."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

from roofline.numbers.operations import Json, is_nan
from roofline.numbers.quantity import rounded, rounded_down
from roofline.questions import catalog
from roofline.questions.inputs.arguments import named_records, scalar
from roofline.questions.inputs.case import LENGTHS
from roofline.questions.inputs.flags import launch_flags
from roofline.questions.predict import answer_row, at_load
from roofline.serving.answers import Answer, listed_keys
from roofline.serving.comparison import latencies
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import PlanRow
from roofline.serving.shown import beside_limit, gpus_text, plan_text, rent_of_a_month
from roofline.serving.verdict import FAIL, HALF_WIDTH, PASS, UNLIKELY
from roofline.specs.gpu import ROUGH, Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.model import Model
from roofline.specs.workload import P99_WITHIN, metric_and_level
from roofline.specs.written import number_of_text, read_as
from roofline.support.errors import BadInput, RooflineError, shown
from roofline.support.records import dataclass, field

if TYPE_CHECKING:
    from roofline.questions.disaggregate import Disaggregation

_MOST_TIMES = 2.0**20  # of the load asked, up to which its largest is sought
_PER_HALVING = 4  # steps of a search, of which one halves the range
_LEAST_STEP = 0.05  # of the range
_CLOSE = 2.0**-12  # relative, of a load where nothing needs to be whole
MOST_GROWTH = 100.0
_MOST_STEPS = 200
_NO_SPARE = 0.005  # share of a load
_CONTENDERS = 3  # kinds of GPU that are followed along a load


# The answer.


class Searched(Protocol):
    """One case, which can be asked again."""

    def on(self, gpu: str | Gpu) -> tuple[GpuPlan, ...]:
        """The best plans on one kind of GPU, or the nearest miss."""

    def at(self, load: str, amount: float) -> Searched:
        """The same at another amount of its load."""

    def within(self, factors: Mapping[str, float]) -> Searched:
        """The same with limits scaled."""


@dataclass(frozen=True, repr=False)
class GpuPlan(Answer[PlanRow]):
    """A deployment on one kind of GPU that meets an SLO, or why none does.

    Where it is not known whether the fewest GPUs that may meet it do, their verdict is None, with the reason.

    >>> import roofline as rl
    >>> result = rl.plan("llama-3.1-8b", "h100-sxm", slo="tpot:25", basis="ideal").best
    >>> result
    <GpuPlan 1x h100-sxm (tp 1): TTFT 16.6 ms, TPOT 4.53 ms, 3.99 USD/h; SLO pass?>
    >>> result.to_dict(["gpu", "num_gpus", "meets"])
    {'gpu': 'h100-sxm', 'num_gpus': 1, 'meets': True}
    """

    model: Model = field(repr=False)
    gpu: Gpu = field(repr=False)
    prediction: Prediction | None  # of the deployment that meets the SLO, or may; None where none does
    quantization: str | None = None  # preset of the prediction; None for the checkpoint's own formats
    reason: str | None = None  # why no plan meets the SLO, or why it is not known
    nearest: Prediction | None = None  # the nearest miss, where no plan meets the SLO and one fits
    misses_hardware_limit: bool = False  # whether the GPUs miss the SLO even at the hardware limit
    excess: float | None = None  # worst latency of the nearest plan over its limit [1]; None where no plan fits
    over_budget: float | None = None  # GPUs that meet the SLO over those that the budget allows [1]; None within it
    asked: Mapping[str, Json] = field(default_factory=dict, repr=False)  # columns of a row without an answer
    options: Mapping[str, object] = field(default_factory=dict, repr=False)  # of `predict`, that make the prediction
    warnings: tuple[str, ...] = ()
    rival: GpuPlan | None = field(default=None, repr=False)  # the best of another kind of GPU, by rent
    leads: bool = False  # whether it is the first plan of its case

    def __str__(self) -> str:
        prediction = self.prediction
        if prediction is None:
            return f"{self.gpu.name}: {self.reason}"
        rent = "unknown rent" if self.usd_per_hour is None else f"{rounded(self.usd_per_hour)} USD/h"
        sure = "" if self.verdict == PASS else f"; SLO {self.verdict}" if self.verdict else f"; {self.reason}"
        return f"{self.text}: {latencies(prediction)}, {rent}{sure}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    @property
    def text(self) -> str:
        """GPUs and plan: text such as ``4x b200 (tp 1 x4, nvfp4)``; the kind of GPU alone without an answer."""
        if self.prediction is None:
            return self.gpu.name
        deployment = self.prediction.deployment
        plan = plan_text(deployment.plan, self.quantization, deployment.replicas)
        return f"{gpus_text(self.gpu.name, deployment.num_gpus)} ({plan})"

    @property
    def meets(self) -> bool | None:
        """Whether the central estimate meets the SLO with some number of GPUs; None where that is not known."""
        return None if self.verdict is None else self.prediction is not None

    @property
    def meets_high(self) -> bool | None:
        """Whether the upper ends of the 80 % intervals meet it too; None on the ideal basis, which has none."""
        if self.prediction is None:
            return False
        if self.prediction.basis == "ideal" or self.verdict is None:
            return None
        ends = {key: self.prediction.latency_interval(key) for key in self.prediction.slo}
        return all(end is None or end[1] <= self.prediction.slo[key] for key, end in ends.items())

    @property
    def verdict(self) -> str | None:
        """Verdict on the SLO: that of the prediction, None where it is not known.

        Else ``fail``, or ``fail?`` on a GPU that was never timed.
        """
        if self.prediction is not None:
            return self.prediction.verdict
        is_estimate = self.nearest is not None and self.nearest.basis in ROUGH and not self.misses_hardware_limit
        return UNLIKELY if is_estimate else FAIL

    @property
    def usd_per_hour(self) -> float | None:
        """Typical rent of the GPUs [USD/h]; None without an answer or a known price."""
        return None if self.prediction is None else self.prediction.usd_per_hour

    @cached_property
    def slo_probability(self) -> float | None:
        """Probability that the SLO holds, given the 80 % intervals [1]; None where they do not say."""
        return None if self.prediction is None else probability(self.prediction)

    @cached_property
    def largest_load(self) -> float | None:
        """The largest load of the kind asked for at which the deployment still meets the SLO, as `Load.option`."""
        return None if self.prediction is None or not self.meets else largest_load(self.prediction)

    @property
    def load_headroom(self) -> float | None:
        """By how much the load may grow before the deployment misses the SLO [1]."""
        if self.prediction is None or self.largest_load is None:
            return None
        return self.largest_load / float(self.prediction.workload.load.amount) - 1.0

    @cached_property
    def goodput(self) -> float | None:
        """Requests answered per second at the largest load within the SLO [1/s]; None for a burst."""
        if self.prediction is None or self.largest_load is None or self.prediction.served is None:
            return None
        rate = at_load(self.prediction, self.prediction.workload.load.at(self.largest_load)).request_rate
        return None if rate is None else float(rate)

    @property
    def break_even_gpu_price(self) -> float | None:
        """Rent of one GPU at which the deployment costs as much as its rival [USD/h]."""
        if self.prediction is None or self.rival is None or self.rival.usd_per_hour is None:
            return None
        return self.rival.usd_per_hour / self.prediction.deployment.num_gpus

    @property
    def why(self) -> str | None:
        """What binds, how far the load may grow, and how the deployment compares with its rival."""
        return None if self.prediction is None else why_text(self)

    @property
    def flags(self) -> list[str]:
        """Options of the engine that the plan states, as they are typed."""
        return [] if self.prediction is None else launch_flags(self.prediction.deployment)

    def to_dict(self, keys: Iterable[str] | None = None) -> PlanRow:
        """Flat row of a prediction and of `GPU_PLAN_KEYS`, or some of them; what does not apply is None."""
        columns = None if keys is None else listed_keys(keys)
        wanted = GPU_PLAN_KEYS
        if columns is not None:
            wanted = {key: GPU_PLAN_KEYS[key] for key in columns if key in GPU_PLAN_KEYS}
        values = {**cells(wanted, self), "slo_verdict": self.verdict, "warnings": list(self.warnings)}
        return cast("PlanRow", answer_row(columns, GPU_PLAN_KEYS, self.prediction, self.asked, values))


#: Keys of a row in addition to those of a prediction.
GPU_PLAN_KEYS: Keys[GpuPlan] = {
    "quantization": SHARED["quantization"],
    "meets": Key.flag("Whether the central estimate meets the SLO; null where that is not known."),
    "meets_high": Key.flag("Whether the upper ends of the 80 % intervals meet it as well."),
    "reason": SHARED["reason"],
    "flags": SHARED["flags"]._replace(of=lambda r: r.flags),
    "excess": Key.number("1", "Worst latency of the nearest plan over its limit."),
    "over_budget": Key.number("1", "GPUs that meet the SLO over those that the budget allows; null within it."),
    "slo_probability": Key.number("1", "Probability that the SLO holds, given the 80 % intervals of its latencies."),
    "largest_load": Key.number(
        "as the load", "The largest load (users, requests per second or batch) at which the plan still meets the SLO."
    ),
    "load_headroom": Key.number("1", "By how much the load may grow before the plan misses the SLO."),
    "goodput": SHARED["goodput"],
    "break_even_gpu_price": Key.number(
        "USD/h", "Rent of one GPU at which the plan costs as much as the best of another kind of GPU."
    ),
    "leads": Key.flag("Whether it is the plan that a screen names first.", is_open=False),
    "why": SHARED["why"],
    **taken(SHARED, options=lambda p: named_records(p.options) if p.options else None),
}


@dataclass(frozen=True, slots=True, repr=False)
class Plans(Answer[PlanRow]):
    """Deployments on several kinds of GPU: those that meet the SLO, best first; those that may; the others.

    Of several cases, those that meet the SLO come first, case by case.

    >>> import roofline as rl
    >>> result = rl.plan("llama-3.1-8b", ["h100-sxm", "l40s"], slo="tpot:10", basis="ideal")
    >>> result.best
    <GpuPlan 2x l40s (tp 2): TTFT 42 ms, TPOT 8.8 ms, 3.14 USD/h; SLO pass?>
    >>> [row["meets"] for row in result.to_rows()]  # two L40S read 7.5 GB each in 9 ms
    [True, True]
    >>> result.to_dict(["gpu"])["rows"]
    [{'gpu': 'l40s'}, {'gpu': 'h100-sxm'}]
    """

    plans: tuple[GpuPlan, ...]
    notes: tuple[str, ...] = ()  # on all of them
    is_named: bool = True  # whether the caller named the kinds of GPU
    objective: str = "cost"
    steps: tuple[Step, ...] = ()  # along a growing load, where one was asked for
    pools: tuple[Disaggregation, ...] = ()  # prefill and decode pools beside them, where they were asked for
    question: Searched | None = None  # of one case, to be asked again

    def __str__(self) -> str:
        cases = [_case_of(plan) for plan in self.plans]
        varied = [name for name in cases[0] if any(case[name] != cases[0][name] for case in cases)] if cases else []
        labels = [", ".join(f"{name} {case[name]}" for name in varied) + ": " if varied else "" for case in cases]
        lines = [f"{label}{plan}" for label, plan in zip(labels, self.plans, strict=True)]
        lines += [str(step) for step in self.steps]
        lines += [f"note: {note}" for note in dict.fromkeys(self.notes)]
        what = "the fewest GPUs" if self.objective != "latency" else "the fastest plans"
        return "\n".join([f"{self._models}: {what} that meet the SLO", *(f"  {line}" for line in lines)])

    def __repr__(self) -> str:
        met = sum(plan.meets is True for plan in self.plans)
        kinds = len({plan.gpu.name for plan in self.plans})
        what = "kinds of GPU" if kinds == len(self.plans) else "answers"
        first = "" if self.best is None else f"; first {self.best}"
        return f"<Plans {self._models}: {met} of {len(self.plans)} {what} meet the SLO{first}>"

    @property
    def _models(self) -> str:
        return ", ".join(dict.fromkeys(plan.model.short_name for plan in self.plans)) or "no GPU"

    @property
    def best(self) -> GpuPlan | None:
        """The first that meets the SLO, announced GPUs only where no other does; None where no GPU meets it.

        Over the whole catalog, GPUs that are shipping, with timed kernels and a known rent, come before all others.
        """
        return first_of(self, [plan for plan in self.plans if plan.meets])

    @property
    def cheapest(self) -> GpuPlan | None:
        """The one with the lowest rent of all that meet the SLO, timed or not; None where no GPU meets it."""
        meeting = [plan for plan in self.plans if plan.meets]
        return min(meeting, key=lambda plan: by_rent(plan.usd_per_hour), default=None)

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Rows, steps and notes as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        columns = None if keys is None else listed_keys(keys)
        rows: list[Any] = [plan.to_dict(columns) for plan in self.plans]
        return {
            "rows": rows,
            "steps": [step.to_dict() for step in self.steps],
            "pools": [dict(pair.to_dict()) for pair in self.pools],
            "notes": list(self.notes),
        }


def first_of(answer: Plans, plans: Sequence[GpuPlan]) -> GpuPlan | None:
    """The one of some plans that comes first by the objective of an answer."""
    return leading(sorted(plans, key=lambda plan: rank(plan, answer.objective)), is_named=answer.is_named)


def leading(meeting: Sequence[GpuPlan], *, is_named: bool) -> GpuPlan | None:
    """The plan that leads a ranking: the first, but announced GPUs, and of the catalog untimed ones, last."""
    sold = [plan for plan in meeting if plan.gpu.status not in catalog.ANNOUNCED] or list(meeting)
    known = [plan for plan in sold if _is_known(plan)]
    return next(iter(sold if is_named else known or sold), None)


def _is_known(plan: GpuPlan) -> bool:
    """Whether the GPUs can be bought, were timed, and have a rent."""
    is_timed = plan.prediction is not None and plan.prediction.basis not in ROUGH
    return is_timed and plan.gpu.status == "shipping" and plan.usd_per_hour is not None


def by_rent(rent: float | None) -> tuple[bool, float]:
    return rent is None, rent or 0.0


def rank(answer: GpuPlan, objective: str) -> tuple[Any, ...]:
    """By the objective, unknown rents last; misses by how far they are off, then by name."""
    prediction = answer.prediction
    if prediction is None:
        off = answer.over_budget is None, answer.over_budget or 0.0, answer.excess is None, answer.excess or 0.0
        return 2, *off, answer.gpu.name
    shares = [share for share in prediction.slo_shares.values() if not is_nan(share)]
    rent, gpus, name = by_rent(prediction.usd_per_hour), prediction.deployment.num_gpus, answer.gpu.name
    by: tuple[Any, ...] = rent
    if objective == "latency":
        by = (max(shares, default=0.0), *rent)
    elif objective == "throughput":
        by = (-float(prediction.output_tok_s_gpu), *rent)
    return answer.meets is None, *by, gpus, sum(shares), name


def _case_of(plan: GpuPlan) -> dict[str, str | None]:
    """Model, lengths and load of an answer, as text."""
    known: Mapping[str, Any] = plan.asked if plan.prediction is None else plan.prediction.workload.numbers
    numbers = {name: known.get(name) for name in LENGTHS}
    texts = {name: None if number is None else rounded(float(number)) for name, number in numbers.items()}
    return {"model": plan.model.short_name, **texts}


# How sure it is that limits are met.


def probability(prediction: Prediction) -> float | None:
    """Probability that every limit of the SLO holds, given the 80 % interval of each latency [1].

    .. math:: P = \\prod_m \\min_{i \\in m} \\Phi\\left(1.2816\\,\\frac{\\ln(L_i / t_i)}{\\ln(h_i / t_i)}\\right)

    Errors of TTFT and TPOT are taken as independent, those of limits on the same latency as fully dependent; a limit on
    E2EL, or on p99 over median, holds with the least of its own probability and of the others.

    Returns:
        None on the ideal basis, where a latency is not known, and where no limit applies.

    Source:
        Log-normal residuals, docs/method.md, "Intervals"; measured frequencies in "Plans".
    """
    if prediction.basis == "ideal" or prediction.verdict is None:
        return None
    by_metric: dict[str, list[float]] = {}
    for key, limit in prediction.slo.items():
        time, ends = prediction.latency(key), prediction.latency_interval(key)
        if time is None or is_nan(time):
            continue  # a limit that does not apply: of TPOT, to answers of one token
        if ends is None or not ends[0] < time < ends[1]:
            return None
        end = ends[1] if limit >= time else ends[0]
        share = _normal(HALF_WIDTH * math.log(limit / time) / abs(math.log(end / time)))
        metric = key if key == P99_WITHIN else metric_and_level(key)[0]
        by_metric.setdefault("tpot" if metric == "itl" else metric, []).append(share)
    least = {metric: min(shares) for metric, shares in by_metric.items()}
    if not least:
        return None
    together = math.prod(share for metric, share in least.items() if metric in ("ttft", "tpot"))
    return min(together, *(share for metric, share in least.items() if metric not in ("ttft", "tpot")), 1.0)


def _normal(deviations: float) -> float:
    """Share of a normal distribution below so many standard deviations (`statistics` takes longer to import)."""
    return 0.5 * (1.0 + math.erf(deviations / math.sqrt(2.0)))


# How much load a deployment carries.


def largest_load(prediction: Prediction) -> float:
    """The largest load, of the kind and in the unit of its own, at which a deployment still meets its SLO.

    Users and bursts are whole numbers.
    """
    load = prediction.workload.load
    asked = float(load.amount)
    is_whole = not load.is_open

    def over(amount: float) -> float:
        """By how much the worst latency exceeds its limit, at most 1; 1 too where the SLO is missed otherwise."""
        try:
            again = at_load(prediction, load.at(amount))
            is_met = bool(again.fits) and again.slo_met is True
            worst = max((share for share in again.slo_shares.values() if not is_nan(share)), default=0.0) - 1.0
        except RooflineError:  # overloaded, or more than fits
            return 1.0
        return min(worst, 0.0) if is_met else worst if 0.0 < worst < 1.0 else 1.0

    low, high = asked, 2.0 * asked
    under, above = 0.0, over(high)
    while above <= 0.0:
        low, under, high = high, above, 2.0 * high
        if low >= _MOST_TIMES * asked:
            return low
        above = over(high)
    steps = 0
    while high - low > (1.0 if is_whole else _CLOSE * low):
        steps += 1
        width = high - low
        place = low + 0.5 * width
        if above < 1.0 and under < 0.0 and steps % _PER_HALVING:
            secant = low - under * width / (above - under)
            place = min(max(secant, low + _LEAST_STEP * width), high - _LEAST_STEP * width)
        place = min(max(float(math.floor(place)), low + 1.0), high - 1.0) if is_whole else place
        there = over(place)
        if there <= 0.0:
            low, under = place, there
        else:
            high, above = place, there
    return low


def growth_factor(growth: Any, name: str = "growth") -> float:
    """A factor above one, of a load or of a claim, from a number or a text such as ``2x`` [1]."""
    value = scalar(growth)
    if isinstance(value, str):
        value = read_as(f"{name} = {shown(growth)}: ", number_of_text, value.strip().lower().removesuffix("x"))
    if type(value) not in (int, float) or isinstance(value, bool) or not 1.0 < value <= MOST_GROWTH:
        raise BadInput(f"{name} = {shown(growth)} must be above 1x and at most {MOST_GROWTH:g}x, such as 2x")
    return float(value)


@dataclass(frozen=True, slots=True, repr=False)
class Step:
    """A plan, and the loads that it serves with the least rent of all."""

    plan: GpuPlan
    start: float  # load at which it takes over, in the unit of the load
    end: float  # load that it carries at most

    def to_dict(self) -> dict[str, Json]:
        """Plain values: both loads, GPUs, plan and rent."""
        prediction = self.plan.prediction
        assert prediction is not None  # noqa: S101 - a step has a plan
        return {
            "from": self.start,
            "to": self.end,
            "load": prediction.workload.load.option,
            "gpu": self.plan.gpu.name,
            "num_gpus": prediction.deployment.num_gpus,
            "plan": self.plan.text,
            "usd_per_hour": self.plan.usd_per_hour,
            "usd_per_month": rent_of_a_month(self.plan.usd_per_hour),
        }

    def __str__(self) -> str:
        prediction = self.plan.prediction
        load = prediction.workload.load if prediction is not None else None
        words = "" if load is None else load.words(rounded_down(self.end))
        return f"up to {words}: {self.plan.text}{_bill(self.plan)}"

    def __repr__(self) -> str:
        return f"<Step {self}>"


def growing(answer: Plans, growth: float) -> tuple[Step, ...]:
    """Plans of the least rent while the load grows by a factor, each with the loads that it serves.

    The three kinds of GPU that lead at the first load are followed.
    """
    first = answer.best
    question = answer.question
    if first is None or first.prediction is None or question is None:
        return ()
    load = first.prediction.workload.load
    asked = float(load.amount)
    most = asked * growth if load.is_open else float(math.ceil(asked * growth))
    current = {plan.gpu.name: plan for plan in reversed(contenders(answer))}
    kinds = {name: plan.gpu for name, plan in current.items()}
    steps: list[Step] = []
    start = asked
    while len(steps) < _MOST_STEPS:
        for name, plan in tuple(current.items()):
            if (plan.largest_load or 0.0) < start:
                (again, *_) = question.at(load.option, start).on(kinds[name])
                if again.meets:
                    current[name] = again
                else:
                    del current[name]
        best = first_of(answer, [*current.values()])
        if best is None or best.largest_load is None:
            break
        end = min(max(best.largest_load, start), most)
        steps.append(Step(best, start, end))
        if end >= most:
            break
        start = end * (1.0 + _CLOSE) if load.is_open else end + 1.0
    return tuple(steps)


def contenders(answer: Plans) -> list[GpuPlan]:
    """The first plans of a ranking, of different kinds of GPU, with a rent where any has one."""
    meeting = [plan for plan in answer.plans if plan.meets and plan.gpu.status not in catalog.ANNOUNCED]
    best = answer.best
    kinds: dict[str, GpuPlan] = {} if best is None else {best.gpu.name: best}
    while len(kinds) < _CONTENDERS:
        following = first_of(answer, [plan for plan in meeting if plan.gpu.name not in kinds])
        if following is None:
            break
        kinds[following.gpu.name] = following
    return list(kinds.values())


def _bill(plan: GpuPlan) -> str:
    rent = rent_of_a_month(plan.usd_per_hour)
    return "" if rent is None else f", {month_text(plan.usd_per_hour)}"


def month_text(usd_per_hour: float | None) -> str:
    """A rent [USD/h] by the month: text such as ``20,878 USD/month``."""
    rent = rent_of_a_month(usd_per_hour)
    return "unknown rent" if rent is None else f"{rent:,.0f} USD/month"


# Why a plan is what it is.


def why_text(plan: GpuPlan) -> str:
    """What binds a plan, how far its load may grow, and what it costs beside the best of another kind of GPU."""
    prediction = plan.prediction
    if prediction is None:
        return str(plan.reason)
    binding = what_binds(prediction)
    parts = [part for part in (binding and f"binding: {binding}", _margin(plan), _beside(plan)) if part]
    return "; ".join(parts)


def what_binds(answer: Prediction | Disaggregation) -> str:
    """The latency that binds beside its limit; empty where no limit applies."""
    judged = answer.slo_verdict
    if judged is None or judged.binding is None:
        return ""
    key = str(judged.binding)
    time, limit = answer.latency(key), answer.slo[key]
    known = None if time is None or is_nan(time) else float(time)
    return beside_limit(key, known, limit, is_mean=answer.workload.is_mean)


def _margin(plan: GpuPlan) -> str:
    """How far the load may grow."""
    if plan.prediction is None or plan.largest_load is None or plan.load_headroom is None:
        return ""
    load = plan.prediction.workload.load
    spare = plan.load_headroom
    more = f"{100.0 * spare:.0f} % more" if spare < 1.0 else f"{1.0 + spare:.1f}x"
    more = "none to spare" if spare < _NO_SPARE else more
    return f"carries {load.words(rounded_down(plan.largest_load))} ({more})"


def _beside(plan: GpuPlan) -> str:
    """Its rent beside the rival's, why they differ, and the rent of a GPU at which both are equal."""
    rival, own, other = plan.rival, plan.prediction, None if plan.rival is None else plan.rival.prediction
    even = plan.break_even_gpu_price
    if rival is None or own is None or other is None or even is None or not plan.usd_per_hour or not rival.usd_per_hour:
        return ""
    ratio = rival.usd_per_hour / plan.usd_per_hour
    each = own.deployment.num_gpus / other.deployment.num_gpus
    price = plan.usd_per_hour / own.deployment.num_gpus
    now = f"(now {rounded(price)})"
    if ratio >= 1.0:
        because = f"{_times(1.0 / each)} the GPUs at {_times(each * ratio)} each"
        leads = f"leads while {own.deployment.gpu.name} rents below {rounded(even)} USD/h {now}"
        return f"next: {rival.text} at {_times(ratio)} the rent ({because}); {leads}"
    because = f"{_times(each)} the GPUs at {_times(1.0 / (each * ratio))} each"
    leads = f"leads where {own.deployment.gpu.name} rents below {rounded(even)} USD/h {now}"
    return f"{_times(1.0 / ratio)} the rent of {rival.text} ({because}); {leads}"


def _times(factor: float) -> str:
    return f"{rounded(factor)}x"
