"""Inverse questions: the value of one input at which a latency target is just met."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from roofline.analysis.solution import MET, Solution
from roofline.errors import BadInput, RooflineError, UnknownName, did_you_mean, shown
from roofline.formulas.case_trace import CaseTrace
from roofline.formulas.inputs import Input, changed, inputs, refuse_arrays
from roofline.physics.forward import Pass
from roofline.quantity import BILLION, BITS_PER_BYTE, NANO, rounded, to_text
from roofline.records import dataclass, replace
from roofline.roots import root
from roofline.serving import answer
from roofline.serving.latency import RATE, USERS
from roofline.serving.precision import PRESETS, summary
from roofline.serving.prediction import Prediction
from roofline.serving.sizing import check_plan, possible_tp, widest_tp
from roofline.specs.formats import FORMATS, format_symbol
from roofline.specs.kernels import HOST
from roofline.specs.slo import LATENCIES as SLO_KEYS
from roofline.specs.slo import metric_and_level
from roofline.symbolic.traced import is_rational

if TYPE_CHECKING:
    from roofline.formulas.closed_form import Formula

__all__ = ["ALIASES", "Solution", "solve_for"]

#: Words for inputs whose names depend on the case.
ALIASES = ("peak", "weights", "kv", "tp")

_INFINITE = float("inf")
_HUGE, _MOST_USERS = 2.0**60, 2.0**20  # times the present value, and users, that are looked at
_RISING = ("workload", "latency", "precision")  # kinds of input of which more takes longer
_SAVING = ("prefix", "cache_hit")  # inputs of these kinds of which more takes less


@dataclass(frozen=True)
class _Found:  # what one target alone asks for
    value: float | None
    method: str
    reason: str = ""
    formula: Formula | None = None


def solve_for(prediction: Prediction, unknown: str, targets: Mapping[str, float]) -> Solution:
    r"""The value of one input at which latency targets are just met: `x` with `result(x) = target`.

    In closed form where sympy can solve the active regime for the input: at the hardware limit, or calibrated where the
    input stands under no norm. Else a bracketed root of the prediction itself.

    Args:
        prediction: a single case; the input's present value does not matter.
        unknown: an input of `roofline.sensitivity`, such as ``bandwidth``, ``batch``, ``isl``, ``prefix``; ``peak`` for
            the peak of the compute dtype, ``weights`` for bits per weight, ``tp`` [text].
        targets: limits on ttft, tpot or e2el [s].

    Returns:
        The largest value that meets all targets of an input of which more takes longer, the smallest of others.

    Raises:
        UnknownName: no such input or target.
        BadInput: no target, or one that is not positive; several cases.

    Valid:
        Results that move one way with the input, as they do but for chunked attention's sawtooth in `isl`. `tp` is
        searched among the degrees that divide the model and fit the scale-up domain.
    """
    refuse_arrays(prediction, "solve_for")
    limits = _checked(prediction, targets)
    if isinstance(unknown, str) and unknown.lower() == "tp":
        return _searched(prediction, limits)
    entry = _input(prediction, unknown)
    found = {name: _one(prediction, entry, name, limit) for name, limit in limits.items()}
    values = {name: one.value for name, one in found.items()}
    impossible = [name for name, value in values.items() if value is None]
    pick = min if _is_rising(entry) else max
    binding = impossible[0] if impossible else pick(values, key=lambda name: values[name] or 0.0)
    one = found[binding]
    at = None if one.value is None else changed(prediction, {entry.name: one.value})
    said = [found[name].reason for name in impossible] or [one.reason, *_remarks(entry, at, one.value)]
    return Solution(
        unknown=entry.name,
        unit=entry.unit,
        meaning=entry.meaning,
        targets=limits,
        value=None if impossible else one.value,
        binding=binding,
        values=values,
        method=one.method,
        reason="; ".join(text for text in said if text),
        regime="" if at is None else CaseTrace(at).regime(metric_and_level(binding)[0]),
        formula=one.formula,
        prediction=at,
        base=prediction,
    )


def _checked(prediction: Prediction, targets: Mapping[str, float]) -> dict[str, float]:
    """Targets that can be asked for."""
    limits = {name: limit for name, limit in targets.items() if limit is not None}
    if not limits:
        raise BadInput(f"solve needs a target: a limit on {', '.join(SLO_KEYS)}, in seconds (--ttft 300ms)")
    for name, limit in limits.items():
        if metric_and_level(name)[0] not in SLO_KEYS:
            raise UnknownName(
                f"unknown target {name!r}; choose from {', '.join(SLO_KEYS)}, or a percentile such as ttft_p95"
            )
        if type(limit) not in (float, int) or not 0.0 < limit <= BILLION:
            raise BadInput(f"target {name} = {shown(limit)} must be a positive time in seconds")
    if any(name.startswith("tpot") for name in limits) and prediction.tpot is None:
        raise BadInput("tpot needs at least two output tokens; osl is 1: raise --osl, or limit ttft alone")
    return {name: float(limit) for name, limit in limits.items()}


def _input(prediction: Prediction, unknown: str) -> Input:
    """The input that a word stands for."""
    known = inputs(prediction)
    model, precision = prediction.deployment.model, prediction.deployment.precision
    weights, _, compute = summary(model, precision)
    name = unknown.strip().lower().replace("-", "_") if isinstance(unknown, str) else shown(unknown)
    if name == "peak":
        name = f"peak_{compute}"
    if name == "kv":
        name = "kv_bits"
    if name == "weights":
        name = "weight_bits" if "weight_bits" in known else f"weight_bits_{format_symbol(weights)}"
    if name not in known:
        near = get_close_matches(name, [*known, *ALIASES], 3, 0.4)
        raise UnknownName(
            f"unknown input {name!r} on {prediction.deployment.gpu.name}{did_you_mean(near)} (common: bandwidth, peak, "
            "batch, concurrency, request_rate, isl, prefix, tp, weights; all: roofline sensitivity)"
        )
    if name == "skew":
        raise BadInput(
            "skew cannot be solved for: it belongs to the model and its prompts; roofline sensitivity shows its effect"
        )
    if name == "memory":
        raise BadInput("memory cannot be solved for: no latency depends on it; use roofline size for what fits")
    return known[name]


def _is_rising(entry: Input) -> bool:
    return entry.kind in _RISING and entry.name not in _SAVING


def _range(prediction: Prediction, entry: Input, result: str) -> tuple[float, float]:
    """Best and worst value that an input can take: the target is met at the one if anywhere."""
    workload = prediction.workload
    if entry.name == "osl":
        return (2.0 if result.startswith("tpot") else 1.0), BILLION
    if entry.name == "isl":
        return max(float(workload.prefix) + 1.0, 1.0), BILLION
    if entry.name == "prefix":
        return max(float(workload.isl) - 1.0, 0.0), 0.0
    if entry.name == "cache_hit":
        return 1.0, 0.0
    if entry.name == RATE and prediction.served is not None:
        return NANO, float(prediction.served.max_request_rate)
    if entry.kind == "workload":
        return 1.0, (_MOST_USERS if entry.name == USERS else BILLION)
    if _is_rising(entry):
        return 0.0, _INFINITE
    is_share = entry.kind == "efficiency" and not entry.name.startswith(("eta_x", "tuning_"))
    return (1.0 if is_share else _INFINITE), 0.0


def _one(prediction: Prediction, entry: Input, result: str, target: float) -> _Found:
    """The value at which one target is met."""

    def time(value: float) -> float:
        at = changed(prediction, {entry.name: value})
        if at.served is not None and not at.served.is_stable:
            return math.inf
        found = at.latency(result)
        return math.inf if found is None else float(found)

    scale = entry.value or 1.0
    best, worst = (min(end, scale * _HUGE) for end in _range(prediction, entry, result))  # as good as infinite
    far = scale / _HUGE if worst == 0.0 and entry.name not in _SAVING else worst
    at_best, at_far = time(best), time(far)
    is_met = at_best <= target * (1.0 + MET)
    if at_far == at_best:
        text = f"{result} does not depend on {entry.name}: always {to_text(at_best, 's')}"
        return _Found(entry.value if is_met else None, "bound", text)
    if not is_met:
        return _Found(None, "bound", _cannot(prediction, entry, best, result, target))
    if at_far <= target:
        reach = "without a cached prefix" if entry.name == "prefix" else f"up to {entry.name} = {rounded(far)}"
        return _Found(far, "bound", f"{result} is met {reach}: {to_text(at_far, 's')}")
    value = root(lambda value: time(value) / target - 1.0, scale, best, far)
    if abs(time(value) / target - 1.0) > MET:
        text = f"{result} moves in steps there: {to_text(time(value), 's')}, above the target beyond"
        return _Found(value, "step", text)
    formula = _closed(changed(prediction, {entry.name: value}), entry, result, target)
    if formula is not None and abs(time(formula.value) / target - 1.0) <= MET:
        return _Found(formula.value, "closed form", formula=formula)
    return _Found(value, "root")


def _closed(prediction: Prediction, entry: Input, result: str, target: float) -> Formula | None:
    """Closed form of the solution, in the regime that holds there; None where there is none."""
    if prediction.served is not None:
        return None
    case, result = CaseTrace(prediction), metric_and_level(result)[0]  # of a burst all requests are alike
    if not is_rational(case.number(result), entry.name):
        return None
    from roofline.formulas.closed_form import ClosedForms

    return ClosedForms(case).solved(result, entry.name, target)


def _cannot(prediction: Prediction, entry: Input, best: float, result: str, target: float) -> str:
    """Why a target is out of reach, and the floor that remains."""
    at = changed(prediction, {entry.name: best})
    name = "infinite" if best >= (entry.value or 1.0) * _HUGE else rounded(best)
    light = {"ttft": at.ideal[0].time, "tpot": at.ideal[1].time}.get(result)
    asked, left = _apart(target, float(at.latency(result) or 0.0))
    floor = f"{result} = {asked} cannot be met: still {left} at {entry.name} = {name} ({_shares(at, result)})"
    if light is not None and light > target:
        floor += f"; the hardware limit is {to_text(float(light), 's')}"
    return floor


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two times with as many digits as it takes to tell them apart."""
    for digits in range(3, 10):
        texts = to_text(one, "s", digits), to_text(other, "s", digits)
        if texts[0] != texts[1]:
            break
    return texts


def _shares(at: Prediction, result: str) -> str:
    """What the remaining time is spent on, largest first."""
    result = metric_and_level(result)[0]
    runs_of: dict[str, tuple[tuple[Pass, float], ...]] = {
        "ttft": ((at.prefill, 1.0),),
        "tpot": ((at.decode, 1.0),),
        "e2el": ((at.prefill, 1.0), (at.decode, at.workload.osl - 1.0)),
    }
    times: dict[str, float] = {}
    for passed, runs in runs_of[result]:
        for kernel in passed.kernels:
            what = kernel.kind.label if kernel.kind is HOST else str(kernel.terms.bound)
            times[what] = times.get(what, 0.0) + runs * kernel.time
    ranked = sorted(times.items(), key=lambda item: -item[1])
    return ", ".join(f"{what} {to_text(time, 's')}" for what, time in ranked if time > 0.0)


def _remarks(entry: Input, at: Prediction | None, value: float | None) -> list[str]:
    """What else should be known of a solution."""
    if at is None or value is None:
        return []
    said = []
    if entry.name == "prefix":
        said.append(f"{100.0 * value / at.workload.isl:.0f} % of the prompt")  # a share, not a unit
    if entry.name.startswith("weight_bits"):
        held = [name for name in PRESETS if FORMATS[PRESETS[name][0]].nbytes * BITS_PER_BYTE <= value]
        names = "every format" if len(held) == len(PRESETS) else ", ".join(held) or "no format"
        said.append(f"{names} stays within that many bits; the compute dtype is unchanged")
    if not at.fits:
        most = at.knees.memory if entry.name == "batch" else at.longest_context
        what = f"batch {most:g}" if entry.name == "batch" else f"{most:g} tokens"
        said.append(f"does not fit: the memory holds {what}")
    return said


def _searched(prediction: Prediction, limits: dict[str, float]) -> Solution:
    """Smallest tensor-parallel degree that meets every target."""
    deployment = prediction.deployment
    best: Prediction | None = None
    met: Prediction | None = None
    for tp in possible_tp(deployment.model, widest_tp(deployment)):
        at = replace(deployment, plan=replace(deployment.plan, tp=tp))
        try:
            check_plan(at.model, at.plan)
            candidate = answer.predict_deployment(at, prediction.workload, correction=prediction.correction)
        except RooflineError:
            continue
        if not candidate.fits and not prediction.allow_oversize:
            continue
        if best is None or _excess(candidate, limits)[0] < _excess(best, limits)[0]:
            best = candidate
        if _excess(candidate, limits)[0] <= 1.0:
            met = candidate
            break
    shown_at = met or best
    binding = next(iter(limits)) if shown_at is None else _excess(shown_at, limits)[1]
    reason = ""
    if met is None:
        reason = "does not fit at any tp of the scale-up domain"
        if best is not None:
            asked, left = _apart(limits[binding], float(best.latency(binding) or 0.0))
            reason = (
                f"{binding} = {asked} cannot be met: still {left} at tp {best.deployment.plan.tp}, the best "
                f"({_shares(best, binding)})"
            )
    value = None if met is None else float(met.deployment.plan.tp)
    return Solution(
        unknown="tp",
        unit="1",
        meaning="tensor-parallel degree",
        targets=limits,
        value=value,
        binding=binding,
        values=dict.fromkeys(limits, value),
        method="search",
        reason=reason,
        regime="" if met is None else CaseTrace(met).regime(metric_and_level(binding)[0]),
        formula=None,
        prediction=met,
        base=prediction,
    )


def _excess(prediction: Prediction, limits: Mapping[str, float]) -> tuple[float, str]:
    """Largest ratio of a result over its target, and whose it is."""
    return max((float(prediction.latency(name) or 0.0) / limit, name) for name, limit in limits.items())
