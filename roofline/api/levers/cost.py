"""What a deployment costs: by the hour, the request and the token, and from which load on it beats an API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from roofline.analysis.goodput import largest_rate
from roofline.api import catalog
from roofline.api.goodput import DEFAULT_SHARE, check_share
from roofline.api.goodput import goodput as goodput_of
from roofline.api.inputs.arguments import number, scalar
from roofline.api.inputs.case import LEAST_RATE, LOADS
from roofline.api.inputs.money import api_prices_of
from roofline.api.inputs.pools import GpuChoice, choice
from roofline.api.inputs.slo import slo_limits
from roofline.api.inputs.texts import listed_names, plain_options, plain_value
from roofline.api.levers.break_even import BREAK_EVEN_KEYS, BreakEven, break_even, break_even_row
from roofline.api.predict import predict
from roofline.api.refused import refused_row
from roofline.errors import BadInput, DoesNotFit, Overloaded, RooflineError, UnknownName, UnsupportedPrecision
from roofline.grammar.pools import Pool, pool_text
from roofline.number_types import Json
from roofline.quantity import MEGA, rounded
from roofline.records import NamedTuple, dataclass, field, replace
from roofline.serving.cost import ByPhase, TokenPrices, token_prices
from roofline.serving.prediction import Prediction
from roofline.serving.priced import full_server, tokens_by_phase
from roofline.serving.row import ROW_KEYS, check_keys, listed_keys
from roofline.serving.row import row as row_of
from roofline.serving.row_types import CostRow
from roofline.serving.sizing import plan_fault, possible_tp, widest_tp
from roofline.specs.gpu import Gpu, Price
from roofline.specs.model import Model

if TYPE_CHECKING:
    from roofline.api.inputs.options import Case

__all__ = ["COST_KEYS", "CostAt", "GpuCost", "cost"]

_BATCH = LOADS[0]
_KINDS = ("input", "cached", "decode", "blended")

#: Keys of a row beside those of a prediction.
COST_KEYS = (
    "cost_at",
    *(f"usd_per_m_{kind}_tok_{end}" for kind in _KINDS for end in ("low", "high")),
    "usd_per_request_low", "usd_per_request_high", "usd_per_m_blended_tok_saturation",
    "usd_per_m_blended_tok_goodput", "goodput_util", *BREAK_EVEN_KEYS, "reason",
)  # fmt: skip

#: At which load a cost is stated.
_ASKED, _BURST, _GOODPUT, _FULL = "the load asked", "bursts back to back", "goodput", "saturation"

_MOST_HEADROOM = 0.99
_BELOW = 1.0 - 2.0**-20  # of the goodput, at which a prediction is certain to be within it
_AT_SATURATION = "at saturation requests wait without end; an SLO, or headroom, makes it a load that has latencies"
_OF_A_LOAD = ("tp =", "under load:")  # beginnings of warnings that are of no other load
_NO_PRICE = "has no rental price in the catalog; give one: --gpu-price 2.5 (gpu_price=2.5, USD per GPU-hour)"


class CostAt(NamedTuple):
    """What requests and tokens cost at one load, at the typical price of the GPUs."""

    request_rate: float  # [1/s] of the whole deployment
    util: float | None  # of what can be answered at most [1]; None for bursts
    usd_per_request: float
    prices: TokenPrices  # [USD per million tokens]


@dataclass(frozen=True, repr=False)
class GpuCost:
    """What a deployment of one kind of GPU costs.

    >>> import roofline as rl
    >>> (found,) = rl.cost("llama-3.1-8b", "h100-sxm", gpu_price=3.6, basis="ideal", request_rate=10)
    >>> found.to_dict(["gpu", "usd_per_hour", "usd_per_request"])
    {'gpu': 'h100-sxm', 'usd_per_hour': 3.6, 'usd_per_request': 0.0001}
    """

    model: Model = field(repr=False)
    gpu: Gpu = field(repr=False)
    at: str = ""  # which load the cost is stated at
    planned: CostAt | None = None  # at that load
    full: CostAt | None = None  # at the saturation; None for bursts
    within_slo: CostAt | None = None  # at the goodput; None without an SLO
    api: BreakEven | None = None  # against an API; None where none is named
    prediction: Prediction | None = field(default=None, repr=False)  # at that load; None at the saturation
    reason: str | None = None  # why there is no answer
    warnings: tuple[str, ...] = ()
    asked: Mapping[str, Json] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        """One line: GPUs, rent, tokens, and what an API has to do with it; or why there is none."""
        if self.planned is None:
            return f"{self.gpu.name}: {self.reason}"
        rent, prices = self.asked["usd_per_hour"], self.planned.prices
        figures = f"{rounded(prices.input)} in, {rounded(prices.output)} out, {rounded(prices.blended)} blended"
        against = "" if self.api is None else f"; {self.api}"
        where = f"{self.asked['num_gpus']} x {self.gpu.name} (tp {self.asked['tp']})"
        return f"{where}: {rent:.3g} USD/h, USD per million tokens {figures} at {self.at}{against}"

    def __repr__(self) -> str:
        """The same line, for lists of them."""
        return f"<GpuCost {self}>"

    def to_dict(self, keys: Sequence[str] | None = None) -> CostRow:
        """Flat row of the JSON contract: a prediction at the load, and what it costs."""
        wanted = (*ROW_KEYS, *COST_KEYS) if keys is None else listed_keys(keys)
        check_keys(wanted, (*ROW_KEYS, *COST_KEYS))
        row: dict[str, Any] = dict.fromkeys(wanted) | {key: self.asked.get(key) for key in wanted}
        if self.prediction is not None:
            row |= row_of(self.prediction, tuple(key for key in wanted if key in ROW_KEYS))
        found = {**_of_load(self), **break_even_row(self.api), "warnings": list(self.warnings), "reason": self.reason}
        return cast("CostRow", {key: found[key] if key in found else row[key] for key in wanted})


def cost(
    model: str | Model,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    api_price: str | Mapping[str, float] | None = None,
    headroom: float | str | None = None,
    share: float | str = DEFAULT_SHARE,
    **options: Unpack[Case],
) -> list[GpuCost]:
    """What requests and tokens cost on every kind of GPU, and from which load on that is less than an API asks.

    The cost is that at the load asked; without one, at the goodput where there is an SLO, else at the saturation, each
    with the tensor parallelism that answers most requests per GPU. GPUs are rented all the time, busy or not.

    Args:
        model: name, alias or record [text].
        gpus: names, aliases or records; None for the whole catalog [text].
        api_price: what an API asks for tokens, to compare with: ``in:0.5,out:1.5,cached:0.05``, or a mapping
            [USD per million tokens].
        headroom: share of the saturation, or of the goodput where there is an SLO, that stays free by plan; without a
            load the cost is that at the rest [1].
        share: of the requests that must meet limits without a percentile, as of `goodput` [1].
        options: keyword arguments of `predict`; its `gpu_price` replaces the catalog's.

    Returns:
        One answer a GPU: those with a cost by that of a million tokens of any kind, then the others, with the reason.

    Raises:
        UnknownName: no such model, GPU, format or SLO key.
        BadInput: no price of any GPU, headroom beside a load, numbers that cannot be on any of the GPUs, arrays.
        BadSpec: a specification has faults.

    >>> import roofline as rl
    >>> rl.cost("llama-3.1-8b", "h100-sxm", gpu_price=3.6, basis="ideal", request_rate=10, api_price="in:0.1,out:0.2")
    [<GpuCost 1 x h100-sxm (tp 1): 3.6 USD/h, USD per million tokens 0.0122 in, 0.684 out, 0.0868 blended at the load \
asked; pays from 19 % utilisation (7.81 requests/s, 675k requests a day)>]
    """
    plain = {name: value for name, value in plain_options(dict(options)).items() if value is not None}
    api, limits = api_prices_of(api_price), slo_limits(plain.get("slo"))
    kept = _headroom(headroom)
    load = next((name for name in LOADS if plain.get(name) is not None), None)
    if kept and load is not None:
        raise BadInput(f"headroom sets the load itself; leave out {load}, or headroom")
    wanted = _Question(api, kept, check_share(share), limits or {}, load)
    specs = plain.get("specs")
    names = catalog.gpus(specs) if gpus is None else listed_names("gpus", gpus)
    record, note = (model, None) if isinstance(model, Model) else catalog.find_model(model, specs, plain.get("assume"))
    answers: dict[str, GpuCost] = {}
    wrong: list[BadInput] = []
    for name in names:
        chosen = choice(name, plain)
        named = chosen.gpu.gpu if isinstance(chosen.gpu, Pool) else chosen.gpu
        gpu, gpu_note = (named, None) if isinstance(named, Gpu) else catalog.find_gpu(named, specs)
        key = gpu.name if chosen.pool is None else pool_text(replace(chosen.pool, gpu=gpu.name))
        said = tuple(text for text in (note, gpu_note) if text is not None)
        try:
            answers[key] = _on_gpu(record, chosen, wanted, said)
        except UnknownName:
            raise
        except _Unpriced as error:
            wrong.append(error)
            answers[key] = _refused(record, gpu, error, chosen.options, said)
        except BadInput as error:
            wrong.append(error)
        except RooflineError as error:
            answers[key] = _refused(record, gpu, error, chosen.options, said)
    if wrong and len(wrong) == len(names):
        raise BadInput(str(wrong[0]))
    return sorted(answers.values(), key=_place)


class _Unpriced(BadInput):
    """A GPU whose rent nobody stated."""


class _Question(NamedTuple):
    """What is asked of every GPU."""

    api: ByPhase | None  # [USD per million tokens]
    headroom: float
    share: float
    slo: Mapping[str, float]
    load: str | None


def _headroom(value: Any) -> float:
    """Share that stays free; none where nothing is said."""
    found = plain_value("share", scalar(value))
    return 0.0 if found is None else number("headroom", found, 0.0, _MOST_HEADROOM)


def _on_gpu(model: Model, chosen: GpuChoice, wanted: _Question, said: tuple[str, ...]) -> GpuCost:
    """The cost on one kind of GPU: at the load that is meant, at the saturation, and within the SLO."""
    gpu, options = chosen.gpu, chosen.options
    start = predict(model, gpu, **(options if wanted.load else {**options, "request_rate": LEAST_RATE}))
    _one_case(start)
    if wanted.load == _BATCH:
        first = _cost_at(start, None)
        return _answer(start, wanted, _Levels(first, None, None, start), said)
    found = None
    if wanted.slo and not wanted.load:
        if isinstance(gpu, Pool):
            raise BadInput(
                f"{pool_text(gpu)} leaves the tp open, which an SLO without a load chooses: state one of them"
            )
        _cost_at(start, None)  # or there is no price
        kept = {name: value for name, value in options.items() if name not in (*LOADS, "num_prompts", "allow_oversize")}
        (found,) = goodput_of(model, gpu, share=wanted.share, **kept)
        if found.prediction is None:
            return GpuCost(model, start.deployment.gpu, reason=found.reason, warnings=said, asked=_case(start))
        start = found.prediction
    if not wanted.slo and not wanted.load:
        start = _at_best_tp(start, options)
    full = _full(start)
    within, there = None, None
    if wanted.slo:
        rate = found.rate if found is not None else _goodput(start, wanted)
        there = None if rate <= 0.0 else start if found is not None else _at(start, chosen, rate * _BELOW)
        within = None if there is None else _cost_at(there, full.request_rate)
    if wanted.load:
        return _answer(start, wanted, _Levels(_cost_at(start, full.request_rate), full, within, start), said)
    base = full if within is None else within
    if wanted.headroom:
        there = _at(start, chosen, base.request_rate * (1.0 - wanted.headroom))
        base = _cost_at(there, full.request_rate)
    return _answer(start, wanted, _Levels(base, full, within, there), said)


def _at_best_tp(start: Prediction, options: Mapping[str, Any]) -> Prediction:
    """The deployment at the tensor-parallel degree that answers most requests per GPU, where none is stated."""
    deployment, count = start.deployment, options.get("num_gpus")
    if options.get("tp") is not None:
        return start
    best = start, 0.0
    for tp in possible_tp(deployment.model, widest_tp(deployment)):
        plan = replace(deployment.plan, tp=tp)
        copies, rest = (deployment.replicas, 0) if count is None else divmod(count, plan.num_gpus)
        if tp < deployment.plan.tp or rest or not copies or plan_fault(deployment.model, plan) is not None:
            continue
        one = replace(start, deployment=deployment.at(plan).copies(copies))
        each = float(full_server(one.deployment, one.workload).request_rate) / one.deployment.num_gpus
        if each > best[1]:
            best = one, each
    return best[0]


class _Levels(NamedTuple):
    """Loads of a deployment, and the prediction at the one that is meant."""

    planned: CostAt
    full: CostAt | None
    within_slo: CostAt | None
    prediction: Prediction | None


def _answer(start: Prediction, wanted: _Question, levels: _Levels, said: tuple[str, ...]) -> GpuCost:
    """What a deployment costs, and how that compares with an API."""
    deployment, prediction = start.deployment, levels.prediction
    most = levels.planned.request_rate if levels.full is None else levels.full.request_rate
    limit, why = most, []
    if wanted.slo and levels.full is not None:
        limit = 0.0 if levels.within_slo is None else levels.within_slo.request_rate
        why.append("within the SLO")
    if wanted.headroom:
        limit, why = limit * (1.0 - wanted.headroom), [*why, f"with {100.0 * wanted.headroom:g} % headroom"]
    api = None
    if wanted.api is not None and deployment.gpu.price is not None:
        low, typical, high = (rent * deployment.num_gpus for rent in deployment.gpu.price[:3])
        tokens = tokens_by_phase(start.deployment, start.workload)
        api = break_even((low, typical, high), wanted.api, tokens, most, limit, " and ".join(why))
    at = {None: _GOODPUT if wanted.slo else _FULL, _BATCH: _BURST}.get(wanted.load, _ASKED)
    at = f"{100.0 * (1.0 - wanted.headroom):g} % of the {at}" if wanted.headroom else at
    if prediction is None:
        notes = [*(text for text in start.warnings if not text.startswith(_OF_A_LOAD)), _AT_SATURATION]
    else:
        notes = [text for text in prediction.warnings if wanted.load or not text.startswith(_OF_A_LOAD[0])]
    asked = _case(start)
    if prediction is None:
        answered = most * float(start.workload.osl)
        asked |= {"util": 1.0, "request_rate": most, "max_request_rate": most, "output_tok_s": answered}
        asked |= {"output_tok_s_gpu": answered / deployment.num_gpus}
        asked |= {"usd_per_m_output_tok": levels.planned.usd_per_request / start.workload.osl * MEGA}
    return GpuCost(
        deployment.model, deployment.gpu, at, *levels[:3], api, prediction, None, (*said, *notes), asked
    )  # fmt: skip


def _one_case(prediction: Prediction) -> None:
    """Refuse arrays."""
    numbers = (prediction.workload.isl, prediction.workload.osl, prediction.workload.prefix, prediction.e2el)
    if any(type(value) is not float for value in numbers):
        raise BadInput("cost takes one case; lengths and load must be numbers, not arrays")


def _goodput(prediction: Prediction, wanted: _Question) -> float:
    """The largest rate of this deployment within the SLO [1/s]."""
    deployment, workload = prediction.deployment, prediction.workload
    return largest_rate(deployment, workload, wanted.slo, wanted.share, prediction.correction).rate


def _at(start: Prediction, chosen: GpuChoice, rate: float) -> Prediction:
    """The same deployment at another rate."""
    deployment = start.deployment
    kept = {name: value for name, value in chosen.options.items() if name not in (*LOADS, "num_prompts")}
    kept |= {"tp": deployment.plan.tp, "num_gpus": deployment.num_gpus, "request_rate": rate}
    return predict(deployment.model, chosen.gpu.gpu if isinstance(chosen.gpu, Pool) else chosen.gpu, **kept)


def _full(start: Prediction) -> CostAt:
    """The cost at the saturation."""
    price = _price(start)
    server = full_server(start.deployment, start.workload)
    rate = float(server.request_rate)
    each = price.typical * start.deployment.num_gpus / rate
    return CostAt(rate, 1.0, each, token_prices(each, tokens_by_phase(start.deployment, start.workload), server.times))


def _cost_at(prediction: Prediction, most: float | None) -> CostAt:
    """The cost at the load of a prediction."""
    _price(prediction)
    rate = float(prediction.output_tok_s / prediction.workload.osl)
    prices, each = cast("TokenPrices", prediction.token_prices), cast("float", prediction.usd_per_request)
    return CostAt(rate, None if most is None else rate / most, each, prices)


def _price(prediction: Prediction) -> Price:
    """The rent of a GPU; refused where nobody stated it."""
    gpu = prediction.deployment.gpu
    if gpu.price is None:
        raise _Unpriced(f"{gpu.name} {_NO_PRICE}")
    return gpu.price


def _refused(
    model: Model, gpu: Gpu, error: RooflineError, options: Mapping[str, Any], said: tuple[str, ...]
) -> GpuCost:
    """A GPU of which there is no cost."""
    short = {DoesNotFit: "does not fit", UnsupportedPrecision: "unsupported", Overloaded: "overloaded"}
    reason = f"{short.get(type(error), 'refused')}: {error}"
    reason = str(error) if isinstance(error, _Unpriced) else reason
    row = refused_row(model, gpu.name, error, **options)
    return GpuCost(model, gpu, reason=reason, warnings=said, asked=row)


def _case(prediction: Prediction) -> dict[str, Any]:
    """Keys of a row that hold at whatever load."""
    keys = (
        "model", "model_id", "gpu", "num_gpus", "tp", "pp", "ep", "dp", "isl", "osl", "prefix", "isl_cv", "osl_cv",
        "load", "weight_dtype", "kv_cache_dtype", "compute_dtype", "basis", "basis_detail", "engine", "fits",
        "weights_gb", "usd_per_hour", "usd_per_hour_low", "usd_per_hour_high", "price_source",
    )  # fmt: skip
    return dict(row_of(prediction, keys))


def _of_load(found: GpuCost) -> dict[str, Any]:
    """Keys that say what a load costs, and other loads beside it."""
    price = found.gpu.price
    if found.planned is None or price is None:
        return {}
    prices, each = found.planned.prices, found.planned.usd_per_request
    ends = {"low": price.low / price.typical, "high": price.high / price.typical}
    row: dict[str, Any] = {"cost_at": found.at, "usd_per_request": each}
    row |= {f"usd_per_request_{end}": each * factor for end, factor in ends.items()}
    for kind, value in zip(_KINDS, prices, strict=True):
        known = value if value == value else None  # noqa: PLR0124 - NaN where there are no such tokens
        row[f"usd_per_m_{kind}_tok"] = known
        row |= {f"usd_per_m_{kind}_tok_{end}": known and known * factor for end, factor in ends.items()}
    for name, level in (("saturation", found.full), ("goodput", found.within_slo)):
        row[f"usd_per_m_blended_tok_{name}"] = None if level is None else level.prices.blended
    row["goodput_util"] = None if found.within_slo is None else found.within_slo.util
    return row


def _place(found: GpuCost) -> tuple[Any, ...]:
    """Place of an answer: by the cost of a million tokens of any kind; then those without one, by name."""
    return found.planned is None, found.planned.prices.blended if found.planned else 0.0, found.gpu.name
