"""Costs per hour, request and token, and the load from which self-hosting beats an API."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.numbers.operations import Json
from roofline.numbers.quantity import HOUR, KILO, MEGA, percent_figure, rounded
from roofline.questions.goodput import GOODPUT_KEYS, best_at_saturation, check_share
from roofline.questions.goodput import goodput as goodput_of
from roofline.questions.inputs.arguments import (
    each_case,
    number,
    one_case,
    plain_options,
    plain_value,
    scalar,
    slo_limits,
)
from roofline.questions.inputs.case import LEAST_RATE, LOADS, OPTIONS, api_prices_of, ownership_of
from roofline.questions.inputs.deployment import GpuChoice
from roofline.questions.inputs.flags import launch_flags
from roofline.questions.inputs.options import understood
from roofline.questions.inputs.rates import mean_rate, rates_of_day
from roofline.questions.predict import (
    OneGpu,
    answer_row,
    asked_case,
    at_load,
    meeting_first,
    on_each_gpu,
    predict,
    refused_row,
)
from roofline.serving.answers import Answer, Answers
from roofline.serving.capacity import largest_rate, share_verdict
from roofline.serving.cost import (
    ByPhase,
    Ownership,
    TokenPrices,
    break_even_rate,
    owning_rate,
    running_rate,
    token_bill,
    token_prices,
)
from roofline.serving.phases import full_server, tokens_by_phase
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import CostRow
from roofline.serving.shown import ENERGY_KEYS, gpus_text
from roofline.serving.shown import row as row_of
from roofline.specs.gpu import Gpu, Price
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.load import Rate
from roofline.specs.model import Model
from roofline.specs.written import Pool, pool_text
from roofline.support.errors import BadInput, RooflineError
from roofline.support.records import NamedTuple, dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import CostOptions, Many


# Break-even against an API: the load from which self-hosted GPUs cost less per request.


_DAY = 24.0 * HOUR


def _reached(util: float) -> float | None:
    return util if util <= 1.0 else None


def _even(comparison: BreakEven, *factors: float) -> float | None:
    """Break-even rate at the typical rent, times factors; None where it is beyond saturation."""
    return math.prod((comparison.request_rate, *factors)) if comparison.utils[1] <= 1.0 else None


#: Keys of a row that compare with an API; a break-even beyond saturation is None.
BREAK_EVEN_KEYS: Keys[BreakEven] = {
    "api_usd_per_request": Key.number("USD", "What the API asks for such a request.", lambda b: b.usd_per_request),
    "pays": Key.flag("Whether there is a load at which the GPUs cost less than the API, at the typical rent."),
    "break_even_util": Key.number(
        "1", "Share of the saturation at which both cost the same; null where never.", lambda b: _reached(b.utils[1])
    ),
    "break_even_util_low": Key.number("1", "The same at the low end of the rent.", lambda b: _reached(b.utils[0])),
    "break_even_util_high": Key.number("1", "The same at the high end of the rent.", lambda b: _reached(b.utils[2])),
    "break_even_request_rate": Key.number("1/s", "Requests per second at which both cost the same.", _even),
    "break_even_requests_day": Key.number(
        "1/day", "Requests a day at which both cost the same.", lambda b: _even(b, _DAY)
    ),
    "break_even_tok_day": Key.number(
        "tokens/day", "Tokens of any kind a day at which both cost the same.", lambda b: _even(b, _DAY, b.tokens)
    ),
    "break_even_factor": Key.number(
        "1", "Cost of a request at the largest load that is planned, over what the API asks.", lambda b: b.factor
    ),
    "break_even": Key.text("From which load on the GPUs pay, or that they never do.", str),
}

#: Keys of a row about GPUs that are owned.
OWN_KEYS: Keys[Owned] = {
    "own_usd_per_hour": Key.number("USD/h", "What owning and running all GPUs costs.", lambda o: o.usd_per_hour),
    "own_pays_after_months": Key.number(
        "1", "Months of rent after which owning has cost less; null where never within the years.", lambda o: o.months
    ),
    "own_usd_per_m_blended_tok": Key.number("USD", "usd_per_m_blended_tok of owned GPUs.", lambda o: o.blended),
    "own_break_even_util": Key.number(
        "1",
        "Share of the saturation at which owned GPUs cost what the API asks; null where never.",
        lambda o: None if o.api is None else _reached(o.api.utils[1]),
    ),
    "own_break_even_requests_day": Key.number(
        "1/day",
        "Requests a day at which both cost the same.",
        lambda o: None if o.api is None else _even(o.api, _DAY),
    ),
}


@dataclass(frozen=True, slots=True)
class Owned:
    """GPUs of a deployment that are owned, beside renting them and an API."""

    usd_per_hour: float  # of all GPUs
    months: float | None  # of rent after which owning has cost less; None where never within the years
    blended: float | None  # [USD per million tokens of any kind] at the planned load
    api: BreakEven | None

    def __str__(self) -> str:
        pays = (
            "never pays against renting" if self.months is None else f"pays after {rounded(self.months)} months of rent"
        )
        text = f"owned: {rounded(self.usd_per_hour)} USD/h, {pays}"
        return text if self.api is None else f"{text}; against the API it {self.api}"


def owned(own: Ownership, num_gpus: int, rent: float | None, blended: float | None, api: BreakEven | None) -> Owned:
    """Owned GPUs of a deployment; `rent` of all of them [USD/h], costs and break-even of rented ones."""
    total, running = owning_rate(own) * num_gpus, running_rate(own) * num_gpus
    months = None
    if rent is not None and rent > running:
        after = own.price * num_gpus / (rent - running) / _HOURS_OF_A_MONTH
        months = after if after <= _MONTHS * own.years else None
    cheaper = None if rent is None or blended is None else blended * total / rent
    even = None
    if api is not None and rent:
        rate = api.request_rate * total / rent
        even = replace(api, rates=(rate, rate, rate))
    return Owned(float(total), months, cheaper, even)


_SMALL = 0.1
_HOURS_OF_A_MONTH, _MONTHS = 730.0, 12.0


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The load at which self-hosted GPUs and an API cost the same."""

    usd_per_request: float  # of the API
    rates: tuple[float, float, float]  # [1/s] at which both cost the same: at the low, typical and high rent
    max_request_rate: float  # [1/s] saturation
    limit: float  # [1/s] largest rate within the SLO, and with the headroom
    tokens: float  # of a request, of all kinds [tokens]
    limited_by: str = ""  # what keeps the limit below saturation

    @property
    def request_rate(self) -> float:
        """Break-even request rate at the typical rent [1/s]."""
        return self.rates[1]

    @property
    def utils(self) -> tuple[float, float, float]:
        """Break-even over saturation rate [1] at the low, typical and high rent; above 1 where never reached."""
        low, typical, high = (rate / self.max_request_rate for rate in self.rates)
        return low, typical, high

    @property
    def pays(self) -> bool:
        """Whether some load within the limit costs less than the API, at the typical rent."""
        return self.request_rate <= self.limit

    @property
    def factor(self) -> float | None:
        """Cost of a request at the limit, over that of the API [1]; None where no request is answered."""
        return None if self.limit <= 0.0 else self.request_rate / self.limit

    def __str__(self) -> str:
        if self.pays:
            rate = f"{rounded(self.request_rate)} requests/s, {_short(self.request_rate * _DAY)} requests a day"
            return f"pays from {_percent(self.utils[1])} utilisation ({rate}){self._ends}"
        if self.factor is None:
            return f"never pays: no request is answered {self.limited_by}"
        costs = f"a request costs {rounded(self.factor)}x what the API asks"
        full = f"{rounded(self.limit)} requests/s"
        never = "does not pay" if self.rates[0] <= self.max_request_rate else "never pays"
        if not self.limited_by:
            return f"{never}: even when full ({full}) {costs}{self._ends}"
        share = _percent(self.limit / self.max_request_rate)
        return f"{never}: {self.limited_by} ({full} at most, {share} of the saturation) {costs}{self._ends}"

    @property
    def _ends(self) -> str:
        """The break-even at both ends of the range of the rent; empty where there is no range."""
        (low, _, high), (least, _, most) = self.utils, self.rates
        if least == most or least > self.limit:
            return ""
        at_high = f"from {_percent(high)}" if most <= self.limit else "never"
        return f"; at the lowest rent from {_percent(low)}, at the highest {at_high}"


def break_even(
    rents: tuple[float, float, float],
    api: ByPhase,
    tokens: ByPhase,
    max_request_rate: float,
    limit: float,
    limited_by: str = "",
) -> BreakEven:
    """Break-even load for rents [USD/s] and API prices [USD per million tokens] of requests with these tokens."""
    bill = float(token_bill(api, tokens))
    low, typical, high = (float(break_even_rate(rent, bill)) if bill > 0.0 else float("inf") for rent in rents)
    return BreakEven(bill, (low, typical, high), max_request_rate, limit, float(sum(tokens)), limited_by)


def _percent(share: float) -> str:
    return f"{percent_figure(share, 2)} %" if share < _SMALL else f"{100.0 * share:.0f} %"


def _short(number: float) -> str:
    """A large number: 164k, 1.2M."""
    for scale, letter in ((MEGA, "M"), (KILO, "k")):
        if number >= scale:
            return f"{rounded(number / scale)}{letter}"
    return rounded(number)


_BATCH, _RATE = LOADS[0], Rate.option
_LOAD_OPTIONS = (*LOADS, "num_prompts")

#: Values of `cost_at`.
_ASKED, _BURST, _GOODPUT, _FULL = "the load asked", "bursts back to back", "goodput", "saturation"
_DAY_MEAN = "the mean of the day"  # its latencies are those of the peak

_MOST_HEADROOM = 0.99
_NEARLY_FULL = 0.98  # of the saturation, at which requests have latencies: its power stands for that of all of it
_BELOW = 1.0 - 2.0**-20  # share of the goodput at which a prediction is certain to meet the SLO
_AT_SATURATION = "at saturation requests wait without end; an SLO, or headroom, makes it a load that has latencies"
_OF_A_LOAD = ("tp =", "under load:")  # beginnings of warnings that hold for one load only
_NO_PRICE = "has no rental price in the catalog; give one, such as `gpu_price` 2.5 (USD per GPU-hour)"


class CostAt(NamedTuple):
    """Costs at one load, at the typical rent."""

    request_rate: float  # [1/s] of the whole deployment
    util: float | None  # rate over the saturation rate [1]; None for bursts
    usd_per_request: float
    prices: TokenPrices  # [USD per million tokens]


#: Costs at the planned load, by their keys.
_PLANNED: Mapping[str, Callable[[CostAt], float]] = {
    "usd_per_m_input_tok": lambda at: at.prices.input,
    "usd_per_m_cached_tok": lambda at: at.prices.cached,
    "usd_per_m_decode_tok": lambda at: at.prices.output,
    "usd_per_m_blended_tok": lambda at: at.prices.blended,
    "usd_per_request": lambda at: at.usd_per_request,
}


def _at_rent(name: str, end: str) -> Callable[[GpuCost], float | None]:
    """A cost at the planned load, at the low, typical or high rent; None without one, or without such tokens."""

    def cost_at(answer: GpuCost) -> float | None:
        price = answer.gpu.price
        cost = math.nan if answer.planned is None or price is None else _PLANNED[name](answer.planned)
        return None if price is None or math.isnan(cost) else cost * (getattr(price, end) / price.typical)

    return cost_at


_OWN: Keys[GpuCost] = {
    "cost_at": Key.text(
        "Load at which the cost is stated: the one asked, bursts, goodput or saturation.",
        lambda c: None if c.planned is None else c.at,
    ),
    **{
        f"{name}_{end}": Key.number("USD", f"{name} at the {end} end of the rent.", _at_rent(name, end))
        for name in _PLANNED
        for end in ("low", "high")
    },
    "usd_per_m_blended_tok_saturation": Key.number(
        "USD", "usd_per_m_blended_tok at the saturation.", lambda c: None if c.full is None else c.full.prices.blended
    ),
    "usd_per_m_blended_tok_goodput": Key.number(
        "USD",
        "usd_per_m_blended_tok at the goodput.",
        lambda c: None if c.within_slo is None else c.within_slo.prices.blended,
    ),
    **taken(GOODPUT_KEYS, goodput_util=lambda c: None if c.within_slo is None else c.within_slo.util),
}
#: Keys of a row in addition to those of a prediction.
COST_KEYS: Keys[Any] = {
    **_OWN,
    **BREAK_EVEN_KEYS,
    **OWN_KEYS,
    "flags": SHARED["flags"],
    "reason": SHARED["reason"],
}


@dataclass(frozen=True, repr=False)
class GpuCost(Answer[CostRow]):
    """Costs on one kind of GPU.

    >>> import roofline as rl
    >>> (result,) = rl.cost("llama-3.1-8b", "h100-sxm", gpu_price=3.6, basis="ideal", request_rate=10)
    >>> result.to_dict(["gpu", "usd_per_hour", "usd_per_request"])
    {'gpu': 'h100-sxm', 'usd_per_hour': 3.6, 'usd_per_request': 0.0001}
    """

    model: Model = field(repr=False)
    gpu: Gpu = field(repr=False)
    at: str = ""  # name of the planned load
    planned: CostAt | None = None
    full: CostAt | None = None  # at saturation; None for bursts
    within_slo: CostAt | None = None  # at the goodput; None without an SLO
    api: BreakEven | None = None  # comparison with an API
    own: Owned | None = None  # comparison with owning the GPUs
    prediction: Prediction | None = field(default=None, repr=False)  # at the planned load; None at saturation
    reason: str | None = None  # why there is no answer
    warnings: tuple[str, ...] = ()
    asked: Mapping[str, Json] = field(default_factory=dict, repr=False)
    shared: Mapping[str, Json] = field(default_factory=dict, repr=False)  # verdict by a share of the requests

    def __str__(self) -> str:
        if self.planned is None:
            return f"{self.gpu.name}: {self.reason}"
        rent, prices = self.asked["usd_per_hour"], self.planned.prices
        figures = f"{rounded(prices.input)} in, {rounded(prices.output)} out, {rounded(prices.blended)} blended"
        against = "" if self.api is None else f"; {self.api}"
        against += "" if self.own is None else f"; {self.own}"
        where = f"{gpus_text(self.gpu.name, cast('int', self.asked['num_gpus']))} (tp {self.asked['tp']})"
        sure = "" if self.verdict is None else f"; SLO {self.verdict}"
        return f"{where}: {rent:.3g} USD/h, USD per million tokens {figures} at {self.at}{sure}{against}"

    def __repr__(self) -> str:
        return f"<GpuCost {self}>"

    @property
    def verdict(self) -> str | None:
        """Verdict on the SLO at the planned load; None without one, or without latencies there."""
        word = self.shared.get("slo_verdict", None if self.prediction is None else self.prediction.verdict)
        return None if word is None else str(word)

    def to_dict(self, keys: Iterable[str] | None = None) -> CostRow:
        """Flat row of the JSON contract: the prediction at the load, and its costs."""
        values = {
            **cells(_OWN, self),
            **{name: _at_rent(name, "typical")(self) for name in _PLANNED},
            **self.shared,
            **({} if self.api is None else cells(BREAK_EVEN_KEYS, self.api)),
            **({} if self.own is None else cells(OWN_KEYS, self.own)),
            "flags": [] if self.prediction is None else launch_flags(self.prediction.deployment),
            "gpu_status": self.gpu.status,
            "warnings": list(self.warnings),
            "reason": self.reason,
        }
        return cast("CostRow", answer_row(keys, COST_KEYS, self.prediction, self.asked, values))


@overload
def cost(
    model: Prediction,
    *,
    api_price: str | Mapping[str, float] | None = None,
    own: str | Mapping[str, float] | None = None,
    rate_by_hour: str | Mapping[float, float] | Sequence[float] | None = None,
    headroom: float | str | None = None,
    share: float | str | None = None,
) -> Answers[GpuCost, CostRow]: ...
@overload
def cost(
    model: Many[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    api_price: str | Mapping[str, float] | None = None,
    own: str | Mapping[str, float] | None = None,
    rate_by_hour: str | Mapping[float, float] | Sequence[float] | None = None,
    headroom: float | str | None = None,
    share: float | str | None = None,
    **options: Unpack[CostOptions],
) -> Answers[GpuCost, CostRow]: ...
@understood
def cost(
    model: Many[str | Model] | Prediction,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    api_price: str | Mapping[str, float] | None = None,
    own: str | Mapping[str, float] | None = None,
    rate_by_hour: str | Mapping[float, float] | Sequence[float] | None = None,
    headroom: float | str | None = None,
    share: float | str | None = None,
    **options: Unpack[CostOptions],
) -> Answers[GpuCost, CostRow]:
    """Costs of requests and tokens on every kind of GPU, and the load from which they are below those of an API.

    Costs hold at the given load; without one, at the goodput if there is an SLO, else at saturation, with the
    tensor parallelism that answers the most requests per GPU. GPUs are rented all the time, busy or not.

    Args:
        model: name, alias or record, or several; or a prediction, in place of GPUs and options: it keeps its plan, and
            the load that was stated, if one was.
        gpus: names, aliases or records; None for the whole catalog.
        api_price: token prices of an API to compare with: ``in:0.5,out:1.5,cached:0.05``, or a mapping
            [USD per million tokens].
        own: what owning a GPU costs, to compare with renting it: ``price:30k,years:4,power:1000,kwh:0.1,hosting:0.2``,
            or a mapping [USD, years, W, USD per kWh, USD per hour].
        rate_by_hour: requests per second by hour of a day, as `day` takes them, in place of a load: a fixed
            deployment is judged at the peak, and its costs are the mean over the day [1/s].
        headroom: share of the saturation rate, or of the goodput if there is an SLO, kept free; it sets the load [1].
        share: share of requests that must meet all limits without a percentile at once, as in `goodput` [1].
        options: keyword arguments of `predict`; its `gpu_price` replaces the catalog's. Where lengths, loads and the
            like are lists, every combination is a case of its own.

    Returns:
        One answer per GPU: those with costs by their price of tokens of all kinds, with an SLO first those that meet
        it at this load; then the others, with the reason.

    Raises:
        UnknownName: no such model, GPU, format or SLO key.
        BadInput: no price of any GPU, both headroom and a load, numbers that no GPU allows, or arrays.
        BadSpec: a specification has faults.

    >>> import roofline as rl
    >>> rl.cost("llama-3.1-8b", "h100-sxm", gpu_price=3.6, basis="ideal", request_rate=10, api_price="in:0.1,out:0.2")
    [<GpuCost 1x h100-sxm (tp 1): 3.6 USD/h, USD per million tokens 0.0122 in, 0.684 out, 0.0868 blended at the load \
asked; pays from 19 % utilisation (7.81 requests/s, 675k requests a day)>]
    """
    model, gpus, asked = asked_case("cost", model, gpus, options)
    api, required = api_prices_of(api_price), check_share(share)
    rates = None if rate_by_hour is None else rates_of_day(rate_by_hour)
    mean = None if rates is None else mean_rate(rates)
    free = plain_value("share", scalar(headroom))
    free = 0.0 if free is None else number("headroom", free, 0.0, _MOST_HEADROOM)
    answers: list[GpuCost] = []
    for name, case in each_case("cost", model, asked):
        plain = {name: value for name, value in plain_options(case).items() if value is not None}
        load = next((name for name in _LOAD_OPTIONS if plain.get(name) is not None), None)
        if rates is not None:
            if load is not None or free:
                raise BadInput(f"rate_by_hour is the load; leave out {load or 'headroom'}")
            load, plain["request_rate"] = _RATE, max(rate for _, rate in rates)
        if free and load is not None:
            raise BadInput(f"headroom sets the load itself; leave out {load}, or headroom")
        question = _Question(api, own, free, required, slo_limits(plain.get("slo")) or {}, load, mean)
        of_gpus = on_each_gpu(name, gpus, plain, partial(_on_gpu, question=question), _refused)
        answers += sorted(dict(of_gpus).values(), key=_rank)
    return Answers(meeting_first(answers, lambda answer: answer.verdict))


class _Unpriced(BadInput):
    """No rent is known for a GPU."""


class _Question(NamedTuple):
    api: ByPhase | None  # [USD per million tokens]
    own: Any  # what owning a GPU costs, as it was stated
    headroom: float
    share: float | None
    slo: Mapping[str, float]
    load: str | None
    mean: float | None = None  # of a day whose peak is the load [1/s]


def _on_gpu(one: OneGpu, question: _Question) -> GpuCost:
    """Costs on one kind of GPU: at the planned load, at saturation, and at the goodput."""
    model, chosen, notes = one.model, one.chosen, one.notes
    gpu, options = chosen.gpu, chosen.options
    start = predict(model, gpu, **(options if question.load else {**options, "request_rate": LEAST_RATE}))
    workload = start.workload
    one_case("cost", workload.isl + workload.osl + workload.prefix + start.e2el, "lengths and load")
    if workload.load.is_burst:
        return _answer(start, question, _Levels(_cost_at(start, None), None, None, start), notes)
    goodput = None
    if question.slo and not question.load:
        if isinstance(gpu, Pool):
            raise BadInput(
                f"{pool_text(gpu)} leaves the tp open, which an SLO without a load chooses: state one of them"
            )
        _cost_at(start, None)  # or there is no price
        unloaded = {name: value for name, value in options.items() if name not in (*OPTIONS, "allow_oversize")}
        (goodput,) = goodput_of(model, gpu, share=question.share, **unloaded)
        if goodput.prediction is None:
            return GpuCost(model, start.deployment.gpu, reason=goodput.reason, warnings=notes, asked=_case_row(start))
        start = goodput.prediction
    if not question.slo and not question.load:
        start = best_at_saturation(start, options)
    full = _at_saturation(start)
    within, there = None, None
    if question.slo:
        if goodput is not None:
            there = start if goodput.rate > 0.0 else None
        else:
            limited = largest_rate(start.deployment, workload, question.slo, question.share, start.correction)
            there = _at_rate(start, chosen, limited.rate * _BELOW) if limited.rate > 0.0 else None
        within = None if there is None else _cost_at(there, full.request_rate)
    if question.load:
        mean = start if question.mean is None else at_load(start, start.workload.load.at(question.mean))
        return _answer(start, question, _Levels(_cost_at(mean, full.request_rate), full, within, start, mean), notes)
    base = full if within is None else within
    if question.headroom:
        there = _at_rate(start, chosen, base.request_rate * (1.0 - question.headroom))
        base = _cost_at(there, full.request_rate)
    asked = start.deployment.gpu
    at = there
    if there is None and not (asked.electricity is None and asked.power_cap is None):
        at = _at_rate(start, chosen, full.request_rate * _NEARLY_FULL)
    return _answer(start, question, _Levels(base, full, within, there, at), notes)


class _Levels(NamedTuple):
    """Costs of a deployment at several loads, and the prediction at the planned one."""

    planned: CostAt
    full: CostAt | None
    within_slo: CostAt | None
    prediction: Prediction | None
    energy: Prediction | None = None  # whose energy is that of the planned load, if it is another one


def _answer(start: Prediction, question: _Question, levels: _Levels, name_notes: tuple[str, ...]) -> GpuCost:
    """Costs of a deployment, compared with an API."""
    deployment, prediction = start.deployment, levels.prediction
    most = levels.planned.request_rate if levels.full is None else levels.full.request_rate
    limit, why = most, []
    if question.slo and levels.full is not None:
        limit = 0.0 if levels.within_slo is None else levels.within_slo.request_rate
        why.append("within the SLO")
    if question.headroom:
        limit, why = limit * (1.0 - question.headroom), [*why, f"with {100.0 * question.headroom:g} % headroom"]
    api = None
    if question.api is not None and deployment.gpu.price is not None:
        low, typical, high = (rent * deployment.num_gpus for rent in deployment.gpu.price[:3])
        tokens = tokens_by_phase(start.deployment, start.workload)
        api = break_even((low, typical, high), question.api, tokens, most, limit, " and ".join(why))
    load_name = {None: _GOODPUT if question.slo else _FULL, _BATCH: _BURST}.get(question.load, _ASKED)
    load_name = f"{100.0 * (1.0 - question.headroom):g} % of the {load_name}" if question.headroom else load_name
    if prediction is None:
        notes = [*(text for text in start.warnings if not text.startswith(_OF_A_LOAD)), _AT_SATURATION]
    else:
        notes = [text for text in prediction.warnings if question.load or not text.startswith(_OF_A_LOAD[0])]
    row = _case_row(start)
    shared: dict[str, Json] = {}
    if prediction is not None and question.slo and question.share is not None and not start.workload.load.is_burst:
        share, slo = question.share, question.slo
        shared = share_verdict(prediction.deployment, prediction.workload, slo, share, prediction.correction)
    if prediction is None:
        answered = most * float(start.workload.osl)
        row |= {"util": 1.0, "request_rate": most, "max_request_rate": most, "output_tok_s": answered}
        row |= {"output_tok_s_gpu": answered / deployment.num_gpus}
        row |= {"usd_per_m_output_tok": levels.planned.usd_per_request / start.workload.osl * MEGA}
    if question.mean is not None:
        load_name = _DAY_MEAN
        shared["usd_per_m_output_tok"] = levels.planned.usd_per_request / float(start.workload.osl) * MEGA
    if levels.energy is not None and levels.energy is not prediction:
        shared |= cells(ENERGY_KEYS, levels.energy)
    notes = [*name_notes, *notes]
    ownership = ownership_of(question.own, deployment.gpu)
    own = None
    if ownership is not None:
        rent = None if deployment.gpu.price is None else deployment.gpu.price.typical * deployment.num_gpus * HOUR
        own = owned(ownership, int(deployment.num_gpus), rent, float(levels.planned.prices.blended), api)
    costs = (load_name, levels.planned, levels.full, levels.within_slo, api, own, prediction)
    return GpuCost(deployment.model, deployment.gpu, *costs, None, tuple(notes), row, shared)


def _at_rate(start: Prediction, chosen: GpuChoice, rate: float) -> Prediction:
    deployment = start.deployment
    options = {name: value for name, value in chosen.options.items() if name not in OPTIONS}
    options |= {"tp": deployment.plan.tp, "num_gpus": deployment.num_gpus, "request_rate": rate}
    return predict(deployment.model, chosen.gpu.gpu if isinstance(chosen.gpu, Pool) else chosen.gpu, **options)


def _at_saturation(start: Prediction) -> CostAt:
    deployment, price = start.deployment, _price(start)
    server = full_server(deployment, start.workload)
    rate = float(server.request_rate)
    per_request = price.typical * deployment.num_gpus / rate
    prices = token_prices(per_request, tokens_by_phase(deployment, start.workload), server.times)
    return CostAt(rate, 1.0, per_request, prices)


def _cost_at(prediction: Prediction, most: float | None) -> CostAt:
    """Costs at the load of a prediction; `most` is the saturation [1/s]."""
    _price(prediction)
    rate = float(prediction.output_tok_s / prediction.workload.osl)
    prices, per_request = cast("TokenPrices", prediction.token_prices), cast("float", prediction.usd_per_request)
    return CostAt(rate, None if most is None else rate / most, per_request, prices)


def _price(prediction: Prediction) -> Price:
    gpu = prediction.deployment.gpu
    if gpu.price is None:
        raise _Unpriced(f"{gpu.name} {_NO_PRICE}")
    return gpu.price


def _refused(one: OneGpu, error: RooflineError) -> GpuCost | None:
    """The reason, unless the question is at fault."""
    if isinstance(error, BadInput) and not isinstance(error, _Unpriced):
        return None
    reason = str(error) if isinstance(error, _Unpriced) else f"{error.short}: {error}"
    row = refused_row(one.model, one.gpu, error, **one.chosen.options)
    return GpuCost(one.model, one.gpu, reason=reason, warnings=one.notes, asked=row)


def _case_row(prediction: Prediction) -> dict[str, Any]:
    """Keys of a row that do not depend on the load."""
    keys = (
        "model", "model_id", "gpu", "num_gpus", "tp", "pp", "ep", "dp", "cp", "dcp", "isl", "osl", "prefix", "isl_cv",
        "osl_cv", "load", "weight_dtype", "kv_cache_dtype", "compute_dtype", "basis", "basis_detail", "engine", "fits",
        "weights_gb", "usd_per_hour", "usd_per_hour_low", "usd_per_hour_high", "price_source",
    )  # fmt: skip
    return dict(row_of(prediction, keys))


def _rank(answer: GpuCost) -> tuple[Any, ...]:
    """By the blended cost of tokens; then GPUs without one, by name."""
    return answer.planned is None, answer.planned.prices.blended if answer.planned else 0.0, answer.gpu.name
