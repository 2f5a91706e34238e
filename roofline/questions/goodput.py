"""Goodput of every kind of GPU: the largest request rate within an SLO, and the cost of a token there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.numbers.operations import Json, is_nan
from roofline.numbers.quantity import percent_figure, rounded, to_text
from roofline.questions.inputs.arguments import (
    each_case,
    number_if_given,
    one_case,
    plain_options,
    required_limits,
    without,
)
from roofline.questions.inputs.case import LEAST_RATE, LOADS, OPTIONS
from roofline.questions.inputs.deployment import GpuChoice
from roofline.questions.inputs.load import replicas
from roofline.questions.inputs.options import understood
from roofline.questions.predict import DEFAULTS, OneGpu, answer_row, asked_case, on_each_gpu, predict, refused_row
from roofline.serving.answers import Answer, Answers
from roofline.serving.capacity import (
    IDLE,
    LEAST,
    NOT_KNOWN,
    SATURATION,
    Goodput,
    Rates,
    largest_rate,
    misses_alone,
    rates,
)
from roofline.serving.knee import plan_fault, possible_tp, widest_tp
from roofline.serving.load.limits import limited_latencies
from roofline.serving.phases import full_server
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import GoodputRow
from roofline.serving.shown import beside_limit, gpus_text
from roofline.serving.shown import row as row_of
from roofline.serving.verdict import IN_RANGE, LIKELY, UNKNOWN, is_pressing
from roofline.specs.gpu import Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells
from roofline.specs.load import Rate
from roofline.specs.model import Model
from roofline.specs.workload import OF_REQUESTS, P99_WITHIN, binding_text, is_on_mean, key_text, limits_text
from roofline.specs.written import Pool
from roofline.support.errors import BadInput, RooflineError, shown
from roofline.support.records import dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import GoodputOptions, Many, Slo

__all__ = ["IDLE", "limits_text"]


#: Keys of a row in addition to those of a prediction.
GOODPUT_KEYS: Keys[GpuGoodput] = {
    "goodput": SHARED["goodput"]._replace(of=lambda g: g.rate, is_open=False),
    "goodput_gpu": Key.number("1/s", "The same per GPU.", lambda g: g.rate_per_gpu, is_open=False),
    "goodput_util": Key.number(
        "1", "The same over the largest rate that can be answered.", lambda g: None if g.found is None else g.found.util
    ),
    "headroom": Key.number("1", "1 - goodput_util."),
    "goodput_binding": Key.text(
        "Key of the limit that is just met, saturation, or that one is not known beyond.",
        lambda g: None if g.found is None else g.found.binding,
    ),
    "goodput_share": Key.number(
        "1",
        "Share of the requests that must meet all limits without a percentile together; null for limits on means.",
        lambda g: g.share,
    ),
    "attained_share": Key.number(
        "1",
        "Share of the requests that meet all limits without a percentile together.",
        lambda g: None if g.found is None or is_nan(g.found.joint) else g.found.joint,
    ),
    "reason": SHARED["reason"],
}

_BELOW = 1.0 - 2.0**-20  # share of the largest rate at which a prediction is certain to meet the SLO


@dataclass(frozen=True, repr=False)
class GpuGoodput(Answer[GoodputRow]):
    """Request rate of GPUs of one kind within an SLO.

    >>> import roofline as rl
    >>> (result,) = rl.goodput("llama-3.1-8b", "h100-sxm", slo="tpot:25", basis="ideal", tp=1)
    >>> result.to_dict(["gpu", "goodput_binding"])
    {'gpu': 'h100-sxm', 'goodput_binding': 'tpot'}
    """

    model: Model = field(repr=False)
    gpu: Gpu = field(repr=False)
    share: float | None  # of the requests that must meet all limits without a percentile together [1]; None: on means
    found: Goodput | None = field(default=None, repr=False)
    prediction: Prediction | None = field(default=None, repr=False)  # at the goodput
    reason: str | None = None  # why there is no goodput, or why it is not known whether more is
    warnings: tuple[str, ...] = ()
    asked: Mapping[str, Json] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        answer, known = self.prediction, self.found
        if answer is None or known is None:
            return f"{self.gpu.name}: {self.reason}"
        deployment, cost = answer.deployment, answer.usd_per_m_output_tok
        price = "unknown price" if cost is None else f"{rounded(cost)} USD per million output tokens"
        price = f"next to none, {percent_figure(known.util, 2)} % of the saturation" if known.is_idle else price
        binding = binding_text(known.binding, is_mean=is_on_mean(known.binding, self.share))
        binding = binding if known.binding == NOT_KNOWN else f"set by {binding}"
        where = f"{gpus_text(self.gpu.name, deployment.num_gpus)} (tp {deployment.plan.tp})"
        return f"{where}: {rounded(self.rate)} requests/s, {binding}; {price}"

    def __repr__(self) -> str:
        return f"<GpuGoodput {self}>"

    @property
    def rate(self) -> float:
        """Requests per second of the deployment [1/s]; 0 where the SLO cannot be met."""
        return 0.0 if self.found is None else self.found.rate

    @property
    def rate_per_gpu(self) -> float:
        """Requests per second and GPU [1/s]."""
        return 0.0 if self.prediction is None else self.rate / self.prediction.deployment.num_gpus

    @property
    def headroom(self) -> float | None:
        """Share of the saturation rate that must stay free to meet the SLO [1]."""
        return None if self.prediction is None or self.found is None else 1.0 - self.found.util

    def to_dict(self, keys: Iterable[str] | None = None) -> GoodputRow:
        """Flat row of the JSON contract: the prediction at the goodput, and the goodput itself."""
        known = self.found
        values = {**cells(GOODPUT_KEYS, self), "warnings": list(self.warnings)}
        judged = None if self.prediction is None else self.prediction.slo_verdict
        if judged is not None and judged.binding is not None and known is not None and self.share is not None:
            values |= {"slo_met": True, "slo_binding": known.binding, "slo_verdict": LIKELY, "slo_reason": IN_RANGE}
        return cast("GoodputRow", answer_row(keys, GOODPUT_KEYS, self.prediction, self.asked, values))


@overload
def goodput(
    model: Prediction, *, slo: Slo | None = None, share: float | str | None = None
) -> Answers[GpuGoodput, GoodputRow]: ...
@overload
def goodput(
    model: Many[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    slo: Slo,
    share: float | str | None = None,
    **options: Unpack[GoodputOptions],
) -> Answers[GpuGoodput, GoodputRow]: ...
@understood
def goodput(
    model: Many[str | Model] | Prediction,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    slo: Slo | None = None,
    share: float | str | None = None,
    **options: Unpack[GoodputOptions],
) -> Answers[GpuGoodput, GoodputRow]:
    """For every kind of GPU, the largest request rate at which an SLO is met, and the limit that binds.

    Without `tp`, the degree with the most requests per GPU, and so the lowest cost per token, is used.

    Args:
        model: name, alias or record, or several; or a prediction, in place of GPUs and options: it keeps its plan, its
            load is what is found, and its SLO holds where none is given.
        gpus: names, aliases or records; None for the whole catalog.
        slo: limits as in `predict`: on the mean, or on the percentile that each names [s].
        share: share of requests that must meet all limits without a percentile at once, as SLO attainment counts them
            (Zhong et al., "DistServe", OSDI 2024); None for limits on means [1].
        options: keyword arguments of `predict` without a load, which is the unknown. Where lengths, degrees and the
            like are lists, every combination is a case of its own.

    Returns:
        One answer per GPU: those with a goodput by their cost per output token (unknown prices last), then the others,
        each with the reason.

    Raises:
        UnknownName: no such model, GPU, format or SLO key.
        BadInput: no SLO, an invalid share, a load, numbers that no GPU allows, or arrays.
        BadSpec: a specification has faults.

    >>> import roofline as rl
    >>> rl.goodput("llama-3.1-8b", ["h100-sxm"], slo="tpot:25", basis="ideal", tp=1)
    [<GpuGoodput 1x h100-sxm (tp 1): 38.7 requests/s, set by mean TPOT; 0.224 USD per million output tokens>]
    """
    model, gpus, asked = asked_case("goodput", model, gpus, options, OPTIONS)
    of_case = asked.pop("slo", None)
    limits = required_limits("goodput", of_case if slo is None else slo)
    required = check_share(share, limits)

    def refused(one: OneGpu, error: RooflineError) -> GpuGoodput | None:
        return None if isinstance(error, BadInput) else _refused(one, required, error)

    answers: list[GpuGoodput] = []
    for name, case in each_case("goodput", model, without("goodput", asked)):
        plain = plain_options({**{name: DEFAULTS[name] for name in ("isl", "osl")}, **case})
        check_measured(plain)
        of_gpus = on_each_gpu(
            name, gpus, plain, lambda one: _on_gpu(one, limits, required), refused, check=_check_plan_is_stated
        )
        answers += sorted(dict(of_gpus).values(), key=_rank)
    return Answers(sorted(answers, key=lambda answer: not answer.rate))


def _check_plan_is_stated(chosen: GpuChoice) -> None:
    if isinstance(chosen.gpu, Pool):
        raise BadInput(
            f"{chosen.text} leaves the tp open, and goodput tries all of them: state it, as in "
            f"{chosen.gpu.gpu}:tp4x{chosen.gpu.replicas}, or the GPUs of all replicas, as in 8x{chosen.gpu.gpu}"
        )


def check_share(share: Any, limits: Mapping[str, float] | None = None) -> float | None:
    """A share of requests, as a number between 0 and 1; None where none is asked for.

    It needs a limit that it can be of, where there are limits.
    """
    value = number_if_given("share", share, 0.0, 1.0)
    if value in (0.0, 1.0):
        raise BadInput(f"share = {shown(share)} must be above 0 and below 1, such as 0.9")
    if value is not None and limits and not any(key in OF_REQUESTS for key in limits):
        raise BadInput(
            f"share = {shown(share)} is of requests that meet limits on TTFT, TPOT or E2EL without a percentile; "
            "add one, e.g. slo='ttft:300,tpot:25'"
        )
    return value


def check_measured(options: Mapping[str, Any]) -> None:
    """Refuse a measurement that does not state its load, where the question has none."""
    measured = options.get("measured")
    if isinstance(measured, Mapping) and not set(LOADS) & set(measured):
        raise BadInput(f"a measurement needs its load here; add {' or '.join(LOADS)} to measured")


def headroom(prediction: Prediction) -> Goodput | None:
    """The largest rate at which the p99 stays within the SLO's multiple of the median; None without such a limit."""
    within = prediction.slo.get(P99_WITHIN)
    if within is None or type(prediction.workload.isl + prediction.workload.osl) is not float:
        return None
    return largest_rate(
        prediction.deployment, prediction.workload, {P99_WITHIN: within}, correction=prediction.correction
    )


def cause_of_tails(prediction: Prediction) -> str:
    """What makes latencies differ between requests on an idle server."""
    workload = prediction.workload
    causes = [] if workload.lengths is None else ["lengths"]
    causes += [] if workload.cold_start is None else ["cold starts"]
    return " and ".join(causes) or "steps"


def _on_gpu(one: OneGpu, slo: Mapping[str, float], share: float | None) -> GpuGoodput:
    model, gpu, options = one.model, one.gpu, one.chosen.options
    plain = {name: value for name, value in options.items() if value is not None and name not in ("slo", "num_gpus")}
    start = predict(model, gpu, **{**plain, "request_rate": LEAST_RATE, "num_gpus": options.get("num_gpus")})
    one_case("goodput", start.workload.isl + start.workload.osl + start.workload.prefix)
    missed, candidate = best_within(start, options, slo, share)
    if missed is None or missed.rate == 0.0:
        row = {
            **row_of(candidate, ("model", "model_id", "gpu", "isl", "osl", "prefix", "load", "basis", "num_gpus")),
            "basis_detail": candidate.basis_detail,
            "engine": candidate.engine,
            "tp": candidate.deployment.plan.tp,
        }
        reason = None if missed is None else _why_none(candidate, missed, slo, share)
        pressing = tuple(text for text in candidate.warnings if is_pressing(text))
        return GpuGoodput(model, gpu, share, missed, None, reason, (*one.notes, *pressing), row)
    plan = candidate.deployment.plan
    answer = predict(
        model, gpu,
        **{**plain, "tp": plan.tp, "num_gpus": options.get("num_gpus"), "slo": slo},
        request_rate=missed.rate * _BELOW,
    )  # fmt: skip
    notes = [text for text in answer.warnings if not text.startswith("tp =")]
    reason = UNKNOWN.replace("for this load", "beyond this rate") if missed.binding == NOT_KNOWN else None
    return GpuGoodput(model, gpu, share, missed, answer, reason, (*one.notes, *notes))


def best_within(
    start: Prediction, options: Mapping[str, Any], slo: Mapping[str, float], share: float | None
) -> tuple[Goodput | None, Prediction]:
    """The goodput of a deployment, and the deployment: where no tp is stated, at the one with most requests per GPU.

    Where none meets the SLO, the last that was tried; None for the goodput where there is nothing to try.
    """
    best: tuple[Rates, Prediction] | None = None
    last: tuple[Rates, Prediction] | None = None
    for candidate in _plans(start, options):
        case = candidate.deployment, candidate.workload, slo, share, candidate.correction
        last = rates(*case), candidate
        is_met = not misses_alone(*case)
        if best is None:
            is_met = is_met and last[0].is_positive
        else:
            is_met = is_met and last[0].exceeds(best[0], candidate.deployment.num_gpus / best[1].deployment.num_gpus)
            if not is_met:
                break  # wider plans serve fewer requests per GPU from here on
        best = last if is_met else best
    found = best or last
    return (None, start) if found is None else (found[0].largest(), found[1])


def best_at_saturation(start: Prediction, options: Mapping[str, Any]) -> Prediction:
    """The deployment, where no tp is stated at the one that answers most requests per GPU without an SLO."""
    deployment, count = start.deployment, options.get("num_gpus")
    if options.get("tp") is not None:
        return start
    best = start, 0.0
    for tp in possible_tp(deployment.model, widest_tp(deployment)):
        plan = replace(deployment.plan, tp=tp)
        copies, rest = (deployment.replicas, 0) if count is None else divmod(count, plan.num_gpus)
        fault = plan_fault(deployment.model, plan, deployment.spread.redundant)
        if tp < deployment.plan.tp or rest or not copies or fault is not None:
            continue
        candidate = replace(start, deployment=deployment.at(plan).copies(copies))
        per_gpu = float(full_server(candidate.deployment, candidate.workload).request_rate)
        per_gpu /= candidate.deployment.num_gpus
        if per_gpu > best[1]:
            best = candidate, per_gpu
    return best[0]


def _plans(start: Prediction, options: Mapping[str, Any]) -> Iterator[Prediction]:
    """Deployments to try: the given plan, or every tp that divides the model, the scale-up domain and `num_gpus`."""
    deployment, count = start.deployment, options.get("num_gpus")
    if options.get("tp") is not None:
        yield start
        return
    for tp in possible_tp(deployment.model, widest_tp(deployment)):
        plan = replace(deployment.plan, tp=tp)
        if tp < deployment.plan.tp:
            continue
        try:
            copies = 1 if count is None else replicas(plan, count)
        except BadInput:
            continue
        yield replace(start, deployment=deployment.at(plan).copies(copies))


def _why_none(prediction: Prediction, nearest: Goodput, slo: Mapping[str, float], share: float | None) -> str:
    """Why not even a single request meets the SLO."""
    if nearest.binding == SATURATION:
        return "misses: no steady state at any rate"
    key = nearest.binding
    where = f"an idle server of {gpus_text(prediction.deployment.gpu.name, prediction.deployment.num_gpus)}"
    if key == P99_WITHIN:
        multiple = rounded(nearest.attained[key])
        return (
            f"misses: {cause_of_tails(prediction)} alone put the p99 at {multiple}x the median on {where}, above "
            f"{rounded(slo[key])}x"
        )
    workload = replace(prediction.workload, load=Rate(nearest.max_request_rate * LEAST))
    time = float(limited_latencies(prediction.deployment, workload, (key,), prediction.correction)[key])
    if time == float("inf") or (share is not None and is_nan(nearest.attained[key])):
        return UNKNOWN
    if key not in OF_REQUESTS or share is None:
        return f"misses: {beside_limit(key, time, slo[key])} even on {where}"
    attained = (
        f"{percent_figure(nearest.attained[key], 4)} % of the requests meet {key_text(key)} {to_text(slo[key], 's')}"
    )
    return f"misses: {attained} on {where} (mean {to_text(time, 's')}), {100.0 * share:g} % required"


def _refused(one: OneGpu, share: float | None, error: RooflineError) -> GpuGoodput:
    row = refused_row(one.model, one.gpu, error, **one.chosen.options)
    return GpuGoodput(one.model, one.gpu, share, reason=f"{error.short}: {error}", warnings=one.notes, asked=row)


def _rank(answer: GpuGoodput) -> tuple[Any, ...]:
    """By cost per output token, unknown prices last by rate per GPU; then GPUs without a goodput."""
    if answer.prediction is None:
        return True, answer.gpu.name
    cost = answer.prediction.usd_per_m_output_tok
    return False, cost is None, cost or 0.0, -answer.rate_per_gpu
