"""What would change a plan: the inputs at which another kind of GPU leads, and the measurement that is worth most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from roofline.numbers.operations import Json
from roofline.numbers.quantity import rounded
from roofline.questions.ranking import GpuPlan, Plans, Searched, contenders, first_of, month_text
from roofline.serving.answers import Answer, Answers, selected
from roofline.serving.shown import rent_of_a_month
from roofline.serving.verdict import HALF_WIDTH
from roofline.specs.workload import P99_WITHIN
from roofline.support.errors import BadInput
from roofline.support.records import dataclass

_GROWING = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # factors on the load and on the limits that are tried
_HALVINGS = 4  # of the range in which the leader changes
#: Standard deviations from the prediction in the middle of each fifth of a normal distribution.
_FIFTHS = (-HALF_WIDTH, -0.5244, 0.0, 0.5244, HALF_WIDTH)


@dataclass(frozen=True, slots=True, repr=False)
class TurningPoint(Answer[dict[str, Json]]):
    """A value of one input at which another kind of GPU leads.

    >>> import roofline as rl
    >>> answer = rl.plan("llama-3.1-8b", ["h100-sxm", "l40s"], slo="tpot:10", basis="ideal")
    >>> point = rl.turning_points(answer)[0]
    >>> point, point.to_dict(["input", "gpu"])
    (<TurningPoint h100-sxm wins below 3.14 USD/h>, {'input': 'gpu_price', 'gpu': 'h100-sxm'})
    """

    input: str  # gpu_price, the option of the load, or slo
    factor: float  # value there over the value asked [1]
    value: float | None  # in the unit of the input; None for limits, all of which are scaled
    plan: GpuPlan  # that leads there
    gpu: str  # whose price it is; else of the plan

    def __repr__(self) -> str:
        return f"<TurningPoint {self}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Plain values, or some of them."""
        values: dict[str, Json] = {
            "input": self.input,
            "factor": self.factor,
            "value": self.value,
            "gpu": self.gpu,
            "plan": self.plan.text,
        }
        return selected(values, keys)

    def __str__(self) -> str:
        if self.input == "gpu_price":
            side = "below" if self.factor < 1.0 else "above"
            wins = f"{self.plan.gpu.name} wins" if self.plan.gpu.name != self.gpu else f"{self.gpu} wins"
            whose = "" if self.plan.gpu.name == self.gpu else f" for {self.gpu}"
            return f"{wins} {side} {rounded(self.value or 0.0)} USD/h{whose}"
        side = "from" if self.factor > 1.0 else "up to"
        of = "the limits" if self.input == "slo" else "this load"
        return f"{self.plan.gpu.name} wins {side} {rounded(self.factor)}x {of}"


def turning_points(answer: Plans) -> Answers[TurningPoint, dict[str, Json]]:
    """The nearest values of rent, load and limits at which another kind of GPU leads a ranking.

    Only the three leading kinds of GPU are compared; loads and limits up to a factor of eight either way.

    Args:
        answer: the answer of `plan` for one case.

    Returns:
        For each input the nearest values below and above, where there are any.

    Raises:
        BadInput: the answer is about several cases.

    >>> import roofline as rl
    >>> answer = rl.plan("llama-3.1-8b", ["h100-sxm", "l40s"], slo="tpot:10", basis="ideal")
    >>> rl.turning_points(answer)[:2]
    [<TurningPoint h100-sxm wins below 3.14 USD/h>, <TurningPoint h100-sxm wins above 2 USD/h for l40s>]
    """
    kinds, question = contenders(answer), _asked(answer)
    if not kinds:
        return Answers()
    best = kinds[0]
    points = _of_rent(answer, kinds)
    prediction = best.prediction
    if prediction is None or len(kinds) == 1:
        return Answers(points)
    load = prediction.workload.load
    asked = float(load.amount)

    def at_load(factor: float) -> GpuPlan | None:
        amount = asked * factor if load.is_open else max(float(round(asked * factor)), load.least)
        return _lead(answer, [question.at(load.option, amount).on(plan.gpu)[0] for plan in kinds])

    def at_limits(factor: float) -> GpuPlan | None:
        return _lead(answer, [question.within(dict.fromkeys(answer_limits, factor)).on(plan.gpu)[0] for plan in kinds])

    answer_limits = [key for key in prediction.slo if key != P99_WITHIN]
    if not load.is_burst:
        points += _nearest(at_load, best, load.option, asked)
    return Answers([*points, *_nearest(at_limits, best, "slo", None)])


def _of_rent(answer: Plans, kinds: Sequence[GpuPlan]) -> list[TurningPoint]:
    """Rents of a GPU at which the others win, and that of the best at which it loses."""
    if answer.objective != "cost":
        return []
    points = []
    best, *others = kinds
    for plan in (*others, best):
        even, own = plan.break_even_gpu_price, plan.usd_per_hour
        if even is None or own is None or plan.prediction is None:
            continue
        price = own / plan.prediction.deployment.num_gpus
        winner = plan if plan is not best else plan.rival
        if winner is not None:
            points.append(TurningPoint("gpu_price", even / price, even, winner, plan.gpu.name))
    return points


def _nearest(
    leader: Callable[[float], GpuPlan | None], best: GpuPlan, name: str, asked: float | None
) -> Answers[TurningPoint, dict[str, Json]]:
    """The nearest factors below and above one at which another kind of GPU leads."""
    points = []
    for growing in (False, True):
        same = 1.0
        for factor in _GROWING:
            other = factor if growing else 1.0 / factor
            there = leader(other)
            if there is None:
                break
            if there.gpu.name == best.gpu.name:
                same = other
                continue
            for _ in range(_HALVINGS):
                middle = math.sqrt(same * other)
                between = leader(middle)
                if between is not None and between.gpu.name != best.gpu.name:
                    other, there = middle, between
                else:
                    same = middle
            points.append(TurningPoint(name, other, None if asked is None else asked * other, there, there.gpu.name))
            break
    return Answers(points)


def _lead(answer: Plans, plans: Sequence[GpuPlan]) -> GpuPlan | None:
    return first_of(answer, [plan for plan in plans if plan.meets])


def _asked(answer: Plans) -> Searched:
    if answer.question is None:
        raise BadInput("this is an answer about several cases; ask plan about each")
    return answer.question


# Which measurement is worth most.


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(Answer[dict[str, Json]]):
    """One run of one replica, and what knowing its result is worth.

    >>> import roofline as rl
    >>> answer = rl.plan("llama-3.1-8b", ["h100-sxm", "l40s"], slo="tpot:10", concurrency=16)
    >>> run = rl.next_measurement(answer)[0]
    >>> run.to_dict(["gpu", "num_gpus", "load"]), min(run.bills) <= run.expected <= max(run.bills)
    ({'gpu': 'h100-sxm', 'num_gpus': 2, 'load': 'concurrency'}, True)
    """

    plan: GpuPlan  # whose replica is measured
    worth: float  # expected saving of rent [USD/h]
    bills: tuple[float, ...]  # rent of the fewest GPUs in the middle of each fifth of the outcomes [USD/h]
    expected: float  # mean of the bills [USD/h]

    @property
    def load(self) -> float:
        """Load of the one replica, in the unit of the load."""
        prediction = self.plan.prediction
        assert prediction is not None  # noqa: S101 - a contender has a plan
        return float(prediction.workload.load.amount) / prediction.deployment.replicas

    def __repr__(self) -> str:
        return f"<Measurement {self}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Plain values, or some of them."""
        prediction = self.plan.prediction
        assert prediction is not None  # noqa: S101 - as above
        values: dict[str, Json] = {
            "gpu": self.plan.gpu.name,
            "num_gpus": prediction.deployment.plan.num_gpus,
            "plan": self.plan.text,
            "load": prediction.workload.load.option,
            "amount": self.load,
            "worth_usd_per_month": rent_of_a_month(self.worth),
            "expected_usd_per_month": rent_of_a_month(self.expected),
            "usd_per_month": [rent_of_a_month(bill) for bill in self.bills],
        }
        return selected(values, keys)

    def __str__(self) -> str:
        prediction = self.plan.prediction
        assert prediction is not None  # noqa: S101 - as above
        load, workload = prediction.workload.load, prediction.workload
        case = f"{rounded(float(workload.text))} in, {rounded(float(workload.osl))} out"
        what = f"one replica of {self.plan.text} at {load.words(rounded(self.load))}, {case}"
        bills = f"{month_text(min(self.bills))} to {month_text(max(self.bills))}"
        if self.worth <= 0.0:
            return f"{what}: whatever it shows, the choice stays ({bills})"
        return f"{what}: worth {month_text(self.worth)} on average; the bill lies at {bills}"


def next_measurement(answer: Plans) -> Answers[Measurement, dict[str, Json]]:
    """Measurements of the leading kinds of GPU, the one worth most to this decision first.

    The bill is that of the deployment as it turns out: where latencies are some factor longer than predicted, that of
    the fewest GPUs that then meet the SLO. Without a measurement the kind with the least expected bill is taken. A run
    on one kind shows its factor, and the better of its own bill and the least expected bill of the others is taken: the
    expected saving is what the run is worth (expected value of perfect information).

    Args:
        answer: the answer of `plan` for one case with a rent.

    Returns:
        A measurement for each of the three leading kinds of GPU, by its worth.

    Raises:
        BadInput: the answer is about several cases, or no plan has a rent and an interval.

    Valid:
        Errors of kinds of GPU are independent, those of latencies of one kind fully dependent and log-normal; each
        is represented by the middle of five equally likely parts. Where no number of GPUs meets the SLO, the bill
        is the largest of the others.

    Source:
        Raiffa and Schlaifer, "Applied Statistical Decision Theory", 1961, chapter 4.

    >>> import roofline as rl
    >>> answer = rl.plan("llama-3.1-8b", ["h100-sxm", "l40s"], slo="tpot:10", concurrency=16)
    >>> [run.plan.gpu.name for run in rl.next_measurement(answer)]
    ['h100-sxm', 'l40s']
    """
    question = _asked(answer)
    kinds = [plan for plan in contenders(answer) if plan.usd_per_hour is not None and _spreads(plan)]
    if not kinds:
        raise BadInput("no plan has both a rent and an 80 % interval, so that no measurement has a worth")
    found: dict[str, list[float | None]] = {}
    for plan in kinds:
        spreads = _spreads(plan)
        found[plan.gpu.name] = []
        for place in _FIFTHS:
            factors = {key: math.exp(-place * spread) for key, spread in spreads.items()}
            (again, *_) = question.within(factors).on(plan.gpu)
            found[plan.gpu.name].append(again.usd_per_hour if again.meets is not False else None)
    most = max(bill for bills in found.values() for bill in bills if bill is not None)
    bills = {name: [most if bill is None else bill for bill in each] for name, each in found.items()}
    expected = {name: sum(each) / len(each) for name, each in bills.items()}
    least = min(expected.values())
    measured = []
    for plan in kinds:
        own = bills[plan.gpu.name]
        others = min((expected[name] for name in expected if name != plan.gpu.name), default=math.inf)
        informed = sum(min(bill, others) for bill in own) / len(own)
        measured.append(Measurement(plan, max(least - informed, 0.0), tuple(own), expected[plan.gpu.name]))
    return Answers(sorted(measured, key=lambda each: -each.worth))


def _spreads(plan: GpuPlan) -> dict[str, float]:
    """Standard deviation of the logarithm of each limited latency; empty where one has no range."""
    prediction = plan.prediction
    spreads: dict[str, float] = {}
    if prediction is None:
        return spreads
    for key in prediction.slo:
        if key == P99_WITHIN:
            continue  # a ratio
        time, ends = prediction.latency(key), prediction.latency_interval(key)
        if time is not None and ends is not None and ends[1] > time:
            spreads[key] = math.log(ends[1] / time) / HALF_WIDTH
    return spreads
