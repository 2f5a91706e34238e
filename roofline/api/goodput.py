"""Goodput of every kind of GPU: the largest rate at which requests meet an SLO, and what a token costs there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from roofline.analysis.goodput import LEAST, SATURATION, Goodput, largest_rate
from roofline.api import catalog
from roofline.api.inputs.arguments import number, scalar
from roofline.api.inputs.case import LEAST_RATE, LOADS
from roofline.api.inputs.load import replicas
from roofline.api.inputs.pools import choice
from roofline.api.inputs.slo import slo_limits
from roofline.api.inputs.texts import listed_names, plain_options, plain_value
from roofline.api.predict import DEFAULTS, predict
from roofline.api.refused import refused_row
from roofline.errors import BadInput, DoesNotFit, RooflineError, UnknownName, UnsupportedPrecision, shown
from roofline.grammar.pools import Pool, pool_text
from roofline.number_types import Json
from roofline.quantity import rounded, to_text
from roofline.records import dataclass, field, replace
from roofline.serving.prediction import Prediction
from roofline.serving.row import ROW_KEYS, check_keys, listed_keys
from roofline.serving.row import row as row_of
from roofline.serving.row_types import GoodputRow
from roofline.serving.sizing import possible_tp, widest_tp
from roofline.serving.targets import limited_latencies
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.slo import LATENCIES, P99_WITHIN, key_text, limits_text, metric_and_level

if TYPE_CHECKING:
    from roofline.api.inputs.options import Slo, Unloaded

__all__ = [
    "DEFAULT_SHARE",
    "GOODPUT_KEYS",
    "LATENCIES",
    "LEAST_RATE",
    "GpuGoodput",
    "cause_of_tails",
    "check_measured",
    "check_share",
    "goodput",
    "headroom",
    "limits_text",
]

#: Share of the requests that must meet every limit that names no percentile: SLO attainment as DistServe measures it
#: (Zhong et al., OSDI 2024).
DEFAULT_SHARE = 0.9

#: Keys of a row beside those of a prediction.
GOODPUT_KEYS = (
    "goodput", "goodput_gpu", "goodput_util", "headroom", "goodput_binding", "goodput_share", "attained_share",
    "reason",
)  # fmt: skip

_OWN = ("batch", "concurrency", "request_rate", "num_prompts")
_BELOW = 1.0 - 2.0**-20  # of the largest rate, at which a prediction is certain to be within it


@dataclass(frozen=True, repr=False)
class GpuGoodput:
    """What GPUs of one kind answer within an SLO.

    >>> import roofline as rl
    >>> (found,) = rl.goodput("llama-3.1-8b", "h100-sxm", slo="tpot:25", basis="ideal", tp=1)
    >>> found.to_dict(["gpu", "goodput_binding"])
    {'gpu': 'h100-sxm', 'goodput_binding': 'tpot'}
    """

    model: Model = field(repr=False)
    gpu: Gpu = field(repr=False)
    share: float  # of the requests that must meet every limit that names no percentile [1]
    found: Goodput | None = field(default=None, repr=False)
    prediction: Prediction | None = field(default=None, repr=False)  # at the goodput
    reason: str | None = None  # why there is none
    warnings: tuple[str, ...] = ()
    asked: Mapping[str, Json] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        """One line: GPUs, rate, what binds, and the cost; or why there is none."""
        answer, known = self.prediction, self.found
        if answer is None or known is None:
            return f"{self.gpu.name}: {self.reason}"
        deployment, cost = answer.deployment, answer.usd_per_m_output_tok
        price = "unknown price" if cost is None else f"{rounded(cost)} USD per million output tokens"
        binding = known.binding if known.binding == SATURATION else key_text(known.binding)
        where = f"{deployment.num_gpus} x {self.gpu.name} (tp {deployment.plan.tp})"
        return f"{where}: {rounded(self.rate)} requests/s, set by {binding}; {price}"

    def __repr__(self) -> str:
        """The same line, for lists of them."""
        return f"<GpuGoodput {self}>"

    @property
    def rate(self) -> float:
        """Requests per second of the deployment [1/s]; 0 where there are none within the SLO."""
        return 0.0 if self.found is None else self.found.rate

    @property
    def rate_per_gpu(self) -> float:
        """The same of one GPU [1/s]."""
        return 0.0 if self.prediction is None else self.rate / self.prediction.deployment.num_gpus

    @property
    def headroom(self) -> float | None:
        """Share of what can be answered at most that must stay free [1]."""
        return None if self.prediction is None or self.found is None else 1.0 - self.found.util

    def to_dict(self, keys: Sequence[str] | None = None) -> GoodputRow:
        """Flat row of the JSON contract: a prediction at the goodput, and the goodput itself."""
        wanted = (*ROW_KEYS, *GOODPUT_KEYS) if keys is None else listed_keys(keys)
        check_keys(wanted, (*ROW_KEYS, *GOODPUT_KEYS))
        of_row = tuple(key for key in wanted if key not in GOODPUT_KEYS)
        row: dict[str, Any] = dict.fromkeys(of_row) | {key: self.asked.get(key) for key in of_row}
        if self.prediction is not None:
            row = row_of(self.prediction, of_row)
        if "warnings" in row:
            row["warnings"] = list(self.warnings)
        known = self.found
        if self.prediction is not None and known is not None:  # of shares of the requests, not of their mean
            row |= {key: value for key, value in (("slo_met", True), ("slo_binding", known.binding)) if key in row}
        row |= {
            "goodput": self.rate,
            "goodput_gpu": self.rate_per_gpu,
            "goodput_util": None if known is None else known.util,
            "headroom": self.headroom,
            "goodput_binding": None if known is None else known.binding,
            "goodput_share": self.share,
            "attained_share": None if known is None else known.joint,
            "reason": self.reason,
        }
        return cast("GoodputRow", {key: row[key] for key in wanted})


def goodput(
    model: str | Model,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    slo: Slo,
    share: float | str = DEFAULT_SHARE,
    **options: Unpack[Unloaded],
) -> list[GpuGoodput]:
    """For every kind of GPU, the largest request rate at which enough requests meet an SLO, and what binds there.

    Without `tp`, the degree is taken that answers most requests per GPU, and so costs the least per token.

    Args:
        model: name, alias or record [text].
        gpus: names, aliases or records; None for the whole catalog [text].
        slo: limits as of `predict`. One on a percentile is met where as many requests keep within it; those that name
            none must be met together by a `share` of the requests [s].
        share: of the requests [1].
        options: keyword arguments of `predict` without a load, which is what is looked for.

    Returns:
        One answer a GPU: those with a goodput by their cost per output token (unknown prices last), then the others,
        each with the reason.

    Raises:
        UnknownName: no such model, GPU, format or SLO key.
        BadInput: no SLO, a share that is none, a load, numbers that cannot be on any of the GPUs, arrays.
        BadSpec: a specification has faults.

    >>> import roofline as rl
    >>> rl.goodput("llama-3.1-8b", ["h100-sxm"], slo="tpot:25", basis="ideal", tp=1)
    [<GpuGoodput 1 x h100-sxm (tp 1): 37 requests/s, set by TPOT; 0.173 USD per million output tokens>]
    """
    limits = slo_limits(slo)
    if not limits:
        raise BadInput("goodput needs an SLO: --slo ttft:300,tpot:25, slo='ttft:300ms@p95,tpot:25ms'")
    given = next((name for name in _OWN if scalar(options.get(name)) is not None), None)
    if given is not None:
        raise BadInput(f"goodput finds the rate itself; leave out {given}, or use predict for a known load")
    wanted = check_share(share)
    plain = plain_options({**{name: DEFAULTS[name] for name in ("isl", "osl")}, **options})
    check_measured(plain)
    specs = plain.get("specs")
    names = catalog.gpus(specs) if gpus is None else listed_names("gpus", gpus)
    record, note = (model, None) if isinstance(model, Model) else catalog.find_model(model, specs, plain.get("assume"))
    answers: dict[str, GpuGoodput] = {}
    wrong = []
    for name in names:
        pooled = choice(name, plain)
        if isinstance(pooled.gpu, Pool):
            raise BadInput(
                f"{pooled.text} leaves the tp open, and goodput tries all of them: state it, as in "
                f"{pooled.gpu.gpu}:tp4x{pooled.gpu.replicas}, or the GPUs of all replicas, as in 8x{pooled.gpu.gpu}"
            )
        gpu, gpu_note = (pooled.gpu, None) if isinstance(pooled.gpu, Gpu) else catalog.find_gpu(pooled.gpu, specs)
        key = gpu.name if pooled.pool is None else pool_text(replace(pooled.pool, gpu=gpu.name))
        said = tuple(text for text in (note, gpu_note) if text is not None)
        try:
            answers[key] = _on_gpu(record, gpu, limits, wanted, pooled.options, said)
        except UnknownName:
            raise
        except BadInput as error:
            wrong.append(error)
        except RooflineError as error:
            answers[key] = _refused(record, gpu, wanted, error, pooled.options, said)
    if not answers and wrong:
        raise wrong[0]
    return sorted(answers.values(), key=_place)


def check_share(share: Any) -> float:
    """A share of requests that an SLO may ask for.

    Args:
        share: of the requests [1].

    Returns:
        The share [1].

    Raises:
        BadInput: none between 0 and 1.
    """
    wanted = number("share", plain_value("share", scalar(share)), 0.0, 1.0)
    if not 0.0 < wanted < 1.0:
        raise BadInput(f"share = {shown(share)} must be above 0 and below 1, such as 0.9")
    return wanted


def check_measured(options: Mapping[str, Any]) -> None:
    """Refuse a measurement that does not say its load, where the question has none of its own.

    Args:
        options: keyword arguments of `predict`.

    Raises:
        BadInput: such a measurement.
    """
    measured = options.get("measured")
    if isinstance(measured, Mapping) and not set(LOADS) & set(measured):
        raise BadInput(f"a measurement needs its load here; add {' or '.join(LOADS)} to measured")


def headroom(prediction: Prediction) -> Goodput | None:
    """The largest rate at which the p99 stays within the multiple of the median that an SLO states.

    Args:
        prediction: of one case, with `p99_within` among its limits.

    Returns:
        The rate, and its share of what can be answered at most; None where the SLO states no multiple.
    """
    within = prediction.slo.get(P99_WITHIN)
    if within is None or type(prediction.workload.isl + prediction.workload.osl) is not float:
        return None
    return largest_rate(
        prediction.deployment, prediction.workload, {P99_WITHIN: within}, DEFAULT_SHARE, prediction.correction
    )


def cause_of_tails(prediction: Prediction) -> str:
    """What makes latencies differ on an idle server.

    Args:
        prediction: of one case.

    Returns:
        A few words [text].
    """
    workload = prediction.workload
    causes = [] if workload.lengths is None else ["lengths"]
    causes += [] if workload.cold_start is None else ["cold starts"]
    return " and ".join(causes) or "steps"


def _on_gpu(
    model: Model, gpu: Gpu, slo: Mapping[str, float], share: float, options: Mapping[str, Any], said: tuple[str, ...]
) -> GpuGoodput:
    """The best plan of one kind of GPU."""
    plain = {name: value for name, value in options.items() if value is not None and name not in ("slo", "num_gpus")}
    start = predict(model, gpu, **{**plain, "request_rate": LEAST_RATE, "num_gpus": options.get("num_gpus")})
    if type(start.workload.isl + start.workload.osl + start.workload.prefix) is not float:
        raise BadInput("goodput takes one case; lengths must be numbers, not arrays")
    best: tuple[float, Goodput, Prediction] | None = None
    nearest: tuple[Goodput, Prediction] | None = None
    for one in _plans(start, options):
        found = largest_rate(one.deployment, one.workload, slo, share, one.correction)
        each = found.rate / one.deployment.num_gpus
        if nearest is None or found.rate == 0.0:
            nearest = found, one
        if best is not None and each < best[0]:
            break  # wider plans answer less per GPU from here on
        if each > 0.0 and (best is None or each > best[0]):
            best = each, found, one
    if best is None:
        found_none, one = nearest if nearest is not None else (None, start)
        asked = {
            **row_of(one, ("model", "model_id", "gpu", "isl", "osl", "prefix", "load", "basis", "num_gpus")),
        }
        asked |= {"basis_detail": one.basis_detail, "engine": one.engine, "tp": one.deployment.plan.tp}
        reason = None if found_none is None else _why_none(one, found_none, slo, share)
        return GpuGoodput(model, gpu, share, found_none, None, reason, said, asked)
    _, found, one = best
    plan = one.deployment.plan
    answer = predict(
        model, gpu,
        **{**plain, "tp": plan.tp, "num_gpus": options.get("num_gpus"), "slo": slo},
        request_rate=found.rate * _BELOW,
    )  # fmt: skip
    notes = [text for text in answer.warnings if not text.startswith("tp =")]
    return GpuGoodput(model, gpu, share, found, answer, None, (*said, *notes))


def _plans(start: Prediction, options: Mapping[str, Any]) -> Iterator[Prediction]:
    """Deployments to try: the plan given, or every tp that divides the model, its domain, and the GPUs given."""
    deployment, count = start.deployment, options.get("num_gpus")
    if options.get("tp") is not None:
        yield start
        return
    for tp in possible_tp(deployment.model, widest_tp(deployment)):
        plan = replace(deployment.plan, tp=tp)
        if tp < deployment.plan.tp:
            continue
        try:
            shared = 1 if count is None else replicas(plan, count)
        except BadInput:
            continue
        yield replace(start, deployment=deployment.at(plan).copies(shared))


def _why_none(one: Prediction, found: Goodput, slo: Mapping[str, float], share: float) -> str:
    """Why not even a single request meets the SLO."""
    if found.binding == SATURATION:
        return "misses: no steady state at any rate"
    key = found.binding
    where = f"an idle server of {one.deployment.num_gpus} {one.deployment.gpu.name}"
    if key == P99_WITHIN:
        multiple = rounded(found.attained[key])
        return (
            f"misses: {cause_of_tails(one)} alone put the p99 at {multiple}x the median on {where}, above "
            f"{rounded(slo[key])}x"
        )
    metric = metric_and_level(key)[0]
    workload = replace(one.workload, concurrency=None, request_rate=found.max_request_rate * LEAST)
    mean = float(limited_latencies(one.deployment, workload, (metric,), one.correction)[metric])
    level = metric_and_level(key)[1]
    asked = f"{100.0 * share if level is None else level:g} %"
    within = f"{100.0 * found.attained[key]:.4g} % of the requests"
    limit = f"{metric.upper()} {to_text(slo[key], 's')}"
    if mean <= slo[key]:
        return f"misses: {within} meet {limit} on {where} (mean {to_text(mean, 's')}), {asked} required"
    return f"misses: {metric.upper()} {to_text(mean, 's')} even on {where}; {within} meet {limit}, {asked} required"


def _refused(
    model: Model, gpu: Gpu, share: float, error: RooflineError, options: Mapping[str, Any], said: tuple[str, ...]
) -> GpuGoodput:
    """A GPU that cannot run the case at all."""
    row = refused_row(model, gpu.name, error, **options)
    short = {DoesNotFit: "does not fit", UnsupportedPrecision: "unsupported"}.get(type(error), "refused")
    return GpuGoodput(model, gpu, share, reason=f"{short}: {error}", warnings=said, asked=row)


def _place(found: GpuGoodput) -> tuple[Any, ...]:
    """Place of an answer: by cost per output token, unknown prices last by rate per GPU; then those without one."""
    if found.prediction is None:
        return True, found.gpu.name
    cost = found.prediction.usd_per_m_output_tok
    return False, cost is None, cost or 0.0, -found.rate_per_gpu
