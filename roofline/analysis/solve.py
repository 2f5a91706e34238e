"""Inverse questions: the value of one input at which a latency target is just met."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from roofline.analysis.goodput import MOST
from roofline.analysis.solution import COUNTED, LONGEST, MEMORY, MET, NOT_KNOWN, SATURATION, SEARCH, SLOTS, Solution
from roofline.errors import BadInput, RooflineError, UnknownName, did_you_mean, shown
from roofline.formulas.case_trace import CaseTrace
from roofline.formulas.inputs import Input, changed, inputs, refuse_arrays
from roofline.physics.forward import Pass
from roofline.quantity import BILLION, BITS_PER_BYTE, NANO, distinct_texts, rounded, to_text
from roofline.records import dataclass, replace
from roofline.roots import root
from roofline.serving.answer import predict_deployment
from roofline.serving.latency import RATE, USERS
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import PRESETS, summary
from roofline.serving.served import lanes
from roofline.serving.sizing import check_plan, possible_tp, widest_tp
from roofline.specs.formats import FORMATS, format_symbol
from roofline.specs.kernels import HOST
from roofline.specs.slo import LATENCIES as SLO_KEYS
from roofline.specs.slo import key_text, metric_and_level
from roofline.symbolic.traced import is_rational

if TYPE_CHECKING:
    from roofline.formulas.closed_form import Formula

__all__ = ["ALIASES", "Solution", "solve_for"]

#: Words for inputs whose names depend on the case.
ALIASES = ("peak", "weights", "kv", "tp")

_INFINITE = float("inf")
_HUGE = 2.0**60  # times the present value; as good as infinite
_MOST_USERS = 2.0**20
_JUST_ABOVE = 1.0 + NANO
_NO_FIGURE = "its closed form contradicts the mean; predict --simulate tells"
_LAST_DIGIT, _NUDGES = 2.0**-52, 20
_RISING = ("workload", "latency", "precision")  # kinds of input: more takes longer
_SAVING = ("prefix", "cache_hit")  # exceptions: more takes less time


@dataclass(frozen=True)
class _TargetAnswer:
    """The value that one target alone requires."""

    value: float | None
    method: str
    reason: str = ""
    formula: Formula | None = None
    limited_by: str | None = None  # what ends the value where the target does not; SEARCH: met to the end of the search
    is_jump: bool = False  # whether the target, or the steady state, is lost in a jump there


def solve_for(prediction: Prediction, unknown: str, targets: Mapping[str, float]) -> Solution:
    r"""The value of one input at which latency targets are just met: `x` with `result(x) = target`.

    The largest value that meets all targets where more of the input takes longer, else the smallest. In closed form
    where sympy can solve the active regime (at the hardware limit, or calibrated where the input is outside the norm),
    else a bracketed root of the prediction; `tp` is searched. Results are taken as monotonic in the input, which they
    are but for the sawtooth of chunked attention in `isl`.
    """
    refuse_arrays(prediction, "solve_for")
    limits = _checked_targets(prediction, targets)
    if isinstance(unknown, str) and unknown.lower() == "tp":
        return _smallest_tp(prediction, limits)
    entry = _input(prediction, unknown)
    answers = {name: _single_answer(prediction, entry, name, limit) for name, limit in limits.items()}
    found = {name: answer.value for name, answer in answers.items()}
    values = {name: None if answers[name].limited_by == SEARCH else value for name, value in found.items()}
    impossible = [name for name, value in found.items() if value is None]
    pick = min if _is_rising(entry) else max
    binding = impossible[0] if impossible else pick(found, key=lambda name: found[name] or 0.0)
    binding_answer = answers[binding]
    if binding_answer.value is not None:
        binding_answer = _held(prediction, entry, binding, binding_answer, limits)
    solved = None
    if binding_answer.value is not None:
        solved = replace(changed(prediction, {entry.name: binding_answer.value}), slo=limits)
    remarks = [binding_answer.reason, *_remarks(entry, solved, binding_answer.value)]
    reasons = [answers[name].reason for name in impossible] or remarks
    judged, value = None, binding_answer.value
    if solved is not None and value is not None:
        whole = float(math.floor(value * (1.0 + MET))) if entry.name in COUNTED else value
        judged = replace(changed(solved, {entry.name: whole}), slo=limits).slo_verdict
    return Solution(
        unknown=entry.name,
        unit=entry.unit,
        meaning=entry.meaning,
        targets=limits,
        value=None if impossible else binding_answer.value,
        binding=binding,
        values=values,
        method=binding_answer.method,
        reason="; ".join(text for text in reasons if text),
        regime="" if solved is None else CaseTrace(solved).regime(metric_and_level(binding)[0]),
        formula=binding_answer.formula,
        prediction=solved,
        base=prediction,
        limited_by=binding_answer.limited_by,
        judged=judged,
    )


def _held(
    prediction: Prediction, entry: Input, result: str, answer: _TargetAnswer, targets: Iterable[str]
) -> _TargetAnswer:
    """An answer within what can run: the memory, the engine's limits, the slots, the saturation.

    Users beyond the slots wait, which no TPOT shows: the slots end the value where no target does.
    """
    value = answer.value or 0.0
    workload, engine, is_open = prediction.workload, prediction.deployment.engine, answer.limited_by == SEARCH
    most, held_by, why = math.inf, MEMORY, ""
    if entry.name == "batch" and prediction.served is None and not prediction.allow_oversize:
        most = float(prediction.knees.memory or math.inf)
        why = f"the memory holds batch {most:g}"
    elif entry.name in ("isl", "osl"):
        other = float(workload.osl if entry.name == "isl" else workload.isl)
        if not prediction.allow_oversize:
            most = float(prediction.longest_context) - other
            why = f"the memory holds {most:g} tokens of {entry.name}"
        if engine.max_model_len is not None and engine.max_model_len - other < most:
            most, held_by = engine.max_model_len - other, LONGEST
            why = f"max_model_len is {engine.max_model_len} tokens"
    elif entry.name == USERS and is_open and all(metric_and_level(key)[0] == "tpot" for key in targets):
        most, held_by, why = _slots(prediction)
    elif entry.name == RATE and prediction.served is not None:
        edge = changed(prediction, {entry.name: value * _JUST_ABOVE}).served
        lost = answer.is_jump and edge is not None and not edge.is_stable
        if is_open or lost:
            rate = float(prediction.served.max_request_rate)
            most, held_by, why = value, SATURATION, f"saturation at {rounded(rate)} requests/s"
    if most < 1.0 or most > value or (most == value and held_by != SATURATION):
        return answer
    at_most = changed(prediction, {entry.name: most})
    time = at_most.latency(result)
    there = (
        ""
        if time is None
        else f": {key_text(result, is_mean=at_most.workload.is_mean)} is {to_text(float(time), 's')} there"
    )
    return _TargetAnswer(most, "bound", f"{why}{there}", limited_by=held_by)


def _slots(prediction: Prediction) -> tuple[float, str, str]:
    """Users that run at once, what allows no more, and words for it."""
    deployment, slots = prediction.deployment, float(prediction.served.slots) if prediction.served else math.inf
    ranks = float(lanes(deployment))
    limit = deployment.engine.max_num_seqs
    is_set = limit is not None and slots >= math.floor(limit / deployment.plan.pp)
    held_by = SLOTS if is_set else MEMORY
    by = f"max_num_seqs = {limit}" if is_set else "the memory"
    each = "" if ranks == 1.0 else f" on each of {ranks:g} ranks"
    return slots * ranks, held_by, f"{by} lets {slots:g} users run at once{each}, and more only wait"


def _checked_targets(prediction: Prediction, targets: Mapping[str, float]) -> dict[str, float]:
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
    """The input by its name or one of `ALIASES`."""
    known = inputs(prediction)
    model, quantization = prediction.deployment.model, prediction.deployment.quantization
    weights, _, compute = summary(model, quantization)
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
    if name == "routing_skew":
        raise BadInput(
            "routing_skew cannot be solved for: it belongs to the model and its prompts; roofline sensitivity shows "
            "its effect"
        )
    if name == "memory":
        raise BadInput("memory cannot be solved for: no latency depends on it; use roofline size for what fits")
    return known[name]


def _is_rising(entry: Input) -> bool:
    return entry.kind in _RISING and entry.name not in _SAVING


def _range(prediction: Prediction, entry: Input, result: str) -> tuple[float, float]:
    """Best and worst value of an input; a target missed at the best one cannot be met."""
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
        return NANO, MOST * float(prediction.served.max_request_rate)
    if entry.kind == "workload":
        return 1.0, (_MOST_USERS if entry.name == USERS else BILLION)
    if _is_rising(entry):
        return 0.0, _INFINITE
    is_share = entry.kind == "efficiency" and not entry.name.startswith(("eta_x", "tuning_"))
    return (1.0 if is_share else _INFINITE), 0.0


def _single_answer(prediction: Prediction, entry: Input, result: str, target: float) -> _TargetAnswer:
    """The value at which one target is met."""

    def time(value: float) -> float:
        changed_case = changed(prediction, {entry.name: value})
        if changed_case.served is not None and not changed_case.served.is_stable:
            return math.inf
        latency = changed_case.latency(result)
        return math.inf if latency is None else float(latency)

    def is_unknown(value: float) -> bool:
        return _lacks(changed(prediction, {entry.name: value}), result)

    scale = entry.value or 1.0
    best, worst = (min(end, scale * _HUGE) for end in _range(prediction, entry, result))
    far = scale / _HUGE if worst == 0.0 and entry.name not in _SAVING else worst
    at_best, at_far = time(best), time(far)
    is_met = at_best <= target * (1.0 + MET)
    if at_far == at_best:
        text = f"{result} does not depend on {entry.name}: always {to_text(at_best, 's')}"
        return _TargetAnswer(entry.value if is_met else None, "bound", text)
    if not is_met and is_unknown(best):
        text = f"{result} is not known even at {entry.name} = {rounded(best)}: {_NO_FIGURE}"
        return _TargetAnswer(None, "bound", text, limited_by=NOT_KNOWN)
    if not is_met:
        return _TargetAnswer(None, "bound", _unmet_reason(prediction, entry, best, result, target))
    if at_far <= target:
        if entry.name in _SAVING:
            without = "without a cached prefix" if entry.name == "prefix" else f"at {entry.name} = 0"
            return _TargetAnswer(far, "bound", f"{result} is met {without}: {to_text(at_far, 's')}")
        text = f"{result} is met to the end of the search, {entry.name} = {rounded(far)}: {to_text(at_far, 's')}"
        return _TargetAnswer(far, "bound", text, limited_by=SEARCH)
    value = root(lambda value: time(value) / target - 1.0, scale, best, far)
    if abs(time(value) / target - 1.0) > MET and is_unknown(value * (1.0 + math.copysign(NANO, far - best))):
        text = f"{result} is {to_text(time(value), 's')} there and not known beyond: {_NO_FIGURE}"
        return _TargetAnswer(value, "step", text, limited_by=NOT_KNOWN)
    if abs(time(value) / target - 1.0) > MET:
        text = f"{result} moves in steps there: {to_text(time(value), 's')}, above the target beyond"
        return _TargetAnswer(value, "step", text, limited_by=result, is_jump=True)
    formula = _closed_form(changed(prediction, {entry.name: value}), entry, result, target)
    if formula is not None and abs(time(formula.value) / target - 1.0) <= MET:
        met = _on_its_side(time, formula.value, best, target)
        return _TargetAnswer(met, "closed form", formula=formula, limited_by=result)
    return _TargetAnswer(_on_its_side(time, value, best, target), "root", limited_by=result)


def _lacks(case: Prediction, result: str) -> bool:
    """Whether a case has a steady state, but a percentile that is not known."""
    is_steady = case.workload.num_prompts is None and (case.served is None or bool(case.served.is_stable))
    return is_steady and case.latency(result) is None


def _on_its_side(time: Callable[[float], float], value: float, best: float, target: float) -> float:
    """A root moved towards the best value by as little as makes the target hold to the last digit."""
    towards, step = math.copysign(1.0, best - value), _LAST_DIGIT
    for _ in range(_NUDGES):
        if time(value) <= target:
            break
        value *= 1.0 + towards * step
        step *= 2.0
    return value


def _closed_form(prediction: Prediction, entry: Input, result: str, target: float) -> Formula | None:
    """Closed form in the regime of the prediction; None where there is none."""
    if prediction.served is not None:
        return None
    case, result = CaseTrace(prediction), metric_and_level(result)[0]  # all requests of a burst are alike
    if not is_rational(case.number(result), entry.name):
        return None
    from roofline.formulas.closed_form import ClosedForms

    return ClosedForms(case).solved(result, entry.name, target)


def _unmet_reason(prediction: Prediction, entry: Input, best: float, result: str, target: float) -> str:
    """Why a target is out of reach, and what remains at the best value."""
    best_case = changed(prediction, {entry.name: best})
    name = "infinite" if best >= (entry.value or 1.0) * _HUGE else rounded(best)
    ideal = {"ttft": best_case.ideal[0].time, "tpot": best_case.ideal[1].time}.get(result)
    target_text, best_text = distinct_texts(target, float(best_case.latency(result) or 0.0), "s")
    at_best = f"{best_text} at {entry.name} = {name} ({_times_text(best_case, result)})"
    limit = "" if ideal is None or ideal <= target else f"; the hardware limit is {to_text(float(ideal), 's')}"
    return f"{result} = {target_text} cannot be met: still {at_best}{limit}"


def _times_text(case: Prediction, result: str) -> str:
    """Times by bound, the largest first."""
    result = metric_and_level(result)[0]
    runs_of: dict[str, tuple[tuple[Pass, float], ...]] = {
        "ttft": ((case.prefill, 1.0),),
        "tpot": ((case.decode, 1.0),),
        "e2el": ((case.prefill, 1.0), (case.decode, case.workload.osl - 1.0)),
    }
    times: dict[str, float] = {}
    for pass_, runs in runs_of[result]:
        for kernel in pass_.kernels:
            what = kernel.kind.label if kernel.kind is HOST else str(kernel.terms.bound)
            times[what] = times.get(what, 0.0) + runs * kernel.time
    ranked = sorted(times.items(), key=lambda item: -item[1])
    return ", ".join(f"{what} {to_text(time, 's')}" for what, time in ranked if time > 0.0)


def _remarks(entry: Input, case: Prediction | None, value: float | None) -> list[str]:
    if case is None or value is None:
        return []
    remarks = []
    if entry.name == "prefix":
        remarks.append(f"{100.0 * value / case.workload.isl:.0f} % of the prompt")  # a share, not a unit
    if entry.name.startswith("weight_bits"):
        presets = [name for name in PRESETS if FORMATS[PRESETS[name][0]].nbytes * BITS_PER_BYTE <= value]
        names = "every format" if len(presets) == len(PRESETS) else ", ".join(presets) or "no format"
        remarks.append(f"{names} stays within that many bits; the compute dtype is unchanged")
    if not case.fits:
        most = case.knees.memory if entry.name == "batch" else case.longest_context  # kept with allow_oversize
        what = f"batch {most:g}" if entry.name == "batch" else f"{most:g} tokens"
        remarks.append(f"does not fit: the memory holds {what}")
    return remarks


def _smallest_tp(prediction: Prediction, limits: dict[str, float]) -> Solution:
    """Smallest tensor-parallel degree that meets every target."""
    deployment = prediction.deployment
    best: Prediction | None = None
    meeting: Prediction | None = None
    too_small, missed = False, False
    unknown: dict[str, list[int]] = {}  # target -> degrees at which it is not known
    for tp in possible_tp(deployment.model, widest_tp(deployment)):
        sharded = replace(deployment, plan=replace(deployment.plan, tp=tp))
        try:
            check_plan(sharded.model, sharded.plan)
            candidate = predict_deployment(sharded, prediction.workload, correction=prediction.correction)
        except RooflineError:
            continue
        if not candidate.fits and not prediction.allow_oversize:
            too_small = True
            continue
        lacking = [name for name in limits if _lacks(candidate, name)]
        if lacking:
            unknown.setdefault(lacking[0], []).append(tp)
            continue
        if best is None or _excess(candidate, limits)[0] < _excess(best, limits)[0]:
            best = candidate
        if _excess(candidate, limits)[0] <= 1.0:
            meeting = replace(candidate, slo=limits)
            break
        missed = True
    shown_case = meeting or best
    binding = next(iter(limits)) if shown_case is None else _excess(shown_case, limits)[1]
    reason = ""
    gaps = [
        f"{name} is not known at tp {', '.join(map(str, degrees))}: {_NO_FIGURE}" for name, degrees in unknown.items()
    ]
    if best is None and gaps:
        binding = next(iter(unknown))
    elif best is None:
        reason = "does not fit at any tp of the scale-up domain"
    elif meeting is None:
        target_text, best_text = distinct_texts(limits[binding], float(best.latency(binding) or 0.0), "s")
        reason = (
            f"{binding} = {target_text} cannot be met: still {best_text} at tp {best.deployment.plan.tp}, the best "
            f"({_times_text(best, binding)})"
        )
    value = None if meeting is None else float(meeting.deployment.plan.tp)
    reason = "; ".join([*([reason] if reason else []), *gaps])
    limited_by = None if meeting is None else binding if missed else MEMORY if too_small else None
    limited_by = NOT_KNOWN if gaps else limited_by
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
        regime="" if meeting is None else CaseTrace(meeting).regime(metric_and_level(binding)[0]),
        formula=None,
        prediction=meeting,
        base=prediction,
        limited_by=limited_by,
        judged=None if meeting is None else meeting.slo_verdict,
    )


def _excess(prediction: Prediction, limits: Mapping[str, float]) -> tuple[float, str]:
    """Largest ratio of a result over its target, and the name of that result."""
    return max((float(prediction.latency(name) or 0.0) / limit, name) for name, limit in limits.items())
