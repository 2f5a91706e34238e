"""Questions about one prediction: what moves it, what its formula is, which input would meet a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.formulas import sensitivity as moving
from roofline.formulas.case import NO_FORMULA, RESULTS, UNITS, CaseTrace, Input, changed, inputs, refuse_arrays
from roofline.formulas.sensitivity import Sensitivities, Sensitivity
from roofline.numbers.operations import Json
from roofline.numbers.quantity import BILLION, BITS_PER_BYTE, MILLI, NANO, distinct_texts, rounded, to_text
from roofline.numbers.roots import root
from roofline.physics.passes import Pass
from roofline.questions.inputs.arguments import plain_value, scalar, slo_limits, values_of
from roofline.questions.inputs.case import LOADS
from roofline.questions.inputs.deployment import check_settings, choice, own_settings
from roofline.questions.inputs.options import SPELLINGS, understood
from roofline.questions.predict import asked_case, given_gpu, meeting_first, predict, predicted, states_load
from roofline.serving.answers import Answer, selected
from roofline.serving.capacity import MOST
from roofline.serving.knee import check_plan, possible_tp, widest_tp
from roofline.serving.latency import lanes
from roofline.serving.load.regions import restated
from roofline.serving.prediction import Prediction, predict_deployment
from roofline.serving.quantization import PRESETS, summary
from roofline.serving.shown import KEYS, deployed_text, row
from roofline.serving.verdict import FAIL, Verdict
from roofline.specs.formats import FORMATS, format_symbol
from roofline.specs.gpu import ANNOUNCED, HOST, Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.load import KIND_OF, LASTING
from roofline.specs.model import Model
from roofline.specs.workload import BETWEEN_TOKENS, P99_WITHIN, Limits, key_text, limits_words, metric_and_level
from roofline.specs.workload import LATENCIES as SLO_KEYS
from roofline.support.errors import BadInput, RooflineError, UnknownName, did_you_mean, shown
from roofline.support.progress import each
from roofline.support.records import dataclass, field, replace
from roofline.symbolic.graph import is_rational

if TYPE_CHECKING:
    from roofline.formulas.closed import Formula
    from roofline.outputs.pictures import Picture
    from roofline.questions.inputs.signatures import Case, Slo, Unlimited

__all__ = ["RESULTS", "UNITS", "Sensitivities", "Sensitivity", "sensitivity"]


#: Results that have a formula.
FORMULAS = (*UNITS, "knee", "ridge_knee", "half_knee", "memory_knee")


@overload
def sensitivity(model: Prediction, *, of: str | Sequence[str] = RESULTS) -> Sensitivities: ...
@overload
def sensitivity(
    model: str | Model, gpu: str | Gpu, *, of: str | Sequence[str] = RESULTS, **options: Unpack[Case]
) -> Sensitivities: ...
@understood
def sensitivity(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    of: str | Sequence[str] = RESULTS,
    **options: Unpack[Case],
) -> Sensitivities:
    """Elasticities and derivatives of results with respect to every quantity they depend on.

    Args:
        model: name, alias or record; or a prediction, in place of GPU and options.
        gpu: name, alias or record.
        of: results: ttft, tpot, e2el, output_tok_s_gpu, output_tok_s, tok_s_user.
        options: keyword arguments of `predict`.

    Returns:
        Rows, most important first for each result; each has its derivative as a formula.

    Raises:
        UnknownName: no such result, or a name that `predict` refuses.
        BadInput: isl, osl, batch or prefix is an array, or as `predict` raises.

    >>> import roofline as rl
    >>> rl.sensitivity("llama-3.1-8b", "h100-sxm", of="tpot", basis="ideal")[0]
    <Sensitivity of tpot to bandwidth: -1 % per +1 %>
    >>> rl.sensitivity(rl.predict("llama-3.1-8b", "h100-sxm", basis="ideal"), of="tpot").to_rows(["input", "kind"])[0]
    {'input': 'bandwidth', 'kind': 'rate'}
    """
    prediction = predicted("sensitivity", model, gpu, options)
    names: Any = values_of("of", of)
    return moving.sensitivities(prediction, (scalar(of),) if names is None else tuple(names))


@overload
def formula(model: Prediction, of: str = "ttft", /) -> Formula: ...
@overload
def formula(model: str | Model, gpu: str | Gpu, of: str = "ttft", **options: Unpack[Case]) -> Formula: ...
@understood
def formula(
    model: str | Model | Prediction, gpu: str | Gpu | None = None, of: str = "ttft", **options: Unpack[Case]
) -> Formula:
    """Closed form of a result of one case, in its regime.

    Args:
        model: name, alias or record; or a prediction, in place of GPU and options: ``formula(prediction, "tpot")``.
        gpu: name, alias or record.
        of: e.g. ttft, tpot, e2el, output_tok_s or knee; any other word raises an error that lists all.
        options: keyword arguments of `predict`.

    Returns:
        The formula: a sympy expression in named parts, text, LaTeX and Python source.

    Raises:
        UnknownName: no such result, or a name that `predict` refuses.
        BadInput: the result does not apply, or as `predict` raises.

    >>> import roofline as rl
    >>> rl.formula("llama-3.1-8b", "h100-sxm", "ridge_knee", basis="ideal")
    <Formula ridge_knee = 326 sequences: 5 parts of 4 inputs; decode memory-bound>
    >>> rl.formula(rl.predict("llama-3.1-8b", "h100-sxm", basis="ideal"), "ridge_knee").to_rows(["unit"])
    [{'unit': 'sequences'}]
    """
    if isinstance(model, Prediction) and gpu is not None:
        gpu, of = None, cast("str", gpu)
    name = scalar(of)
    of = name.replace("-", "_") if isinstance(name, str) else ""
    if of not in FORMULAS:
        raise UnknownName(f"no formula for {shown(name)}; choose from {', '.join(FORMULAS)}")
    from roofline.formulas.closed import ClosedForms, knee_formula

    prediction = predicted("formula", model, gpu, options)
    if prediction.served is not None:
        raise BadInput(NO_FORMULA)
    case = CaseTrace(prediction)
    return ClosedForms(case).formula(of) if of in UNITS else knee_formula(case, of)


@overload
def solve(
    model: Prediction,
    unknown: str,
    /,
    *,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    e2el: float | str | None = None,
    slo: Slo | None = None,
) -> Solution: ...
@overload
def solve(
    model: str | Model,
    gpu: str | Gpu,
    unknown: str,
    *,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    e2el: float | str | None = None,
    slo: Slo | None = None,
    **options: Unpack[Unlimited],
) -> Solution: ...
@understood
def solve(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    unknown: str | None = None,
    *,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    e2el: float | str | None = None,
    slo: Slo | None = None,
    **options: Unpack[Unlimited],
) -> Solution:
    """The value of one input at which latency targets are just met.

    Args:
        model: name, alias or record; or a prediction, in place of GPU and options: ``solve(prediction, "bandwidth")``.
            It keeps its plan, and its SLO is the target where none is given.
        gpu: name, alias or record.
        unknown: bandwidth, peak, batch, isl, prefix, tp, weights, or any other input of `sensitivity`.
        ttft: target [s].
        tpot: target [s].
        e2el: target [s].
        slo: targets as in `predict`, percentiles included [s].
        options: keyword arguments of `predict`; the value of the unknown is ignored.

    Returns:
        The value, the target that decides, and the prediction there; or why no value meets the targets. A load is the
        largest over all tp where `num_gpus` is given and `tp` is not.

    Raises:
        UnknownName: no such input, or a name that `predict` refuses.
        BadInput: no target, one that is not positive or given twice, or as `predict` raises.

    >>> import roofline as rl
    >>> rl.solve("llama-3.1-8b", "h100-sxm", "bandwidth", tpot=0.0025, basis="ideal")
    <Solution bandwidth = 6.07 TB/s (now 3.35 TB/s) for TPOT <= 2.5 ms on h100-sxm>
    """
    times = {name: plain_value(name, scalar(time)) for name, time in (("ttft", ttft), ("tpot", tpot), ("e2el", e2el))}
    targets = {name: time for name, time in times.items() if time is not None}
    limits: Mapping[str, float] = slo_limits(slo) or {}
    repeated = next((name for name in targets if name in limits), None)
    if repeated is not None:
        raise BadInput(f"{repeated} is given twice; leave it out of the SLO")
    targets |= limits
    if isinstance(model, Prediction):
        if unknown is None:
            gpu, unknown = None, cast("str", gpu)
        case = predicted("solve", model, gpu, options)
        varied, name = case.workload.load.option, _input_name(scalar(unknown))
        if name not in LOADS or name == varied:
            return solve_for(replace(case, slo=Limits()), scalar(unknown), targets or case.slo)
        if states_load(case):
            raise BadInput(f"{name} is solved for, but the prediction has a {varied}; give {name} to predict instead")
        targets = targets or dict(case.slo)
    asked, unknown = asked_case("solve", model, gpu, options, ("slo",)), scalar(unknown)
    on = given_gpu("solve", asked.gpu)
    if isinstance(unknown, str) and unknown == "tp" and choice(on, asked.options).options.get("tp") is not None:
        raise BadInput("tp is solved for; leave it out")
    plans = _on_every_plan(asked.model, on, _with_load(asked.options, unknown), unknown)
    solutions = [solve_for(plan, unknown, targets) for plan in plans]
    return max(solutions, key=lambda solution: -1.0 if solution.value is None else solution.value)


def solve_each_gpu(
    model: str | Model, gpu_names: Sequence[str], unknown: str, targets: Mapping[str, float | None], **options: Any
) -> tuple[list[Solution], dict[str, RooflineError]]:
    """Solutions, those that meet the targets first, and the errors of the GPUs that cannot run the case."""
    solutions: list[Solution] = []
    refused: dict[str, RooflineError] = {}
    limits = {name: time for name, time in targets.items() if time is not None}
    check_settings(gpu_names, options)
    for name in each(gpu_names, "GPUs"):
        try:
            solutions.append(solve(model, name, unknown, slo=limits, **own_settings(name, options)))
        except RooflineError as error:
            refused[name] = error
    if not solutions and refused:
        raise next(iter(refused.values()))
    solutions.sort(key=lambda solution: solution.base.deployment.gpu.status in ANNOUNCED)
    return meeting_first(solutions, lambda solution: solution.verdict), refused


def derivatives_text(sensitivities: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives as several lines of text, after their named parts."""
    from roofline.formulas import sensitivity

    return sensitivity.text_of_derivatives(sensitivities, rows)


def derivatives_latex(sensitivities: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives as an ``align*`` of amsmath, after their named parts."""
    from roofline.formulas import sensitivity

    return sensitivity.latex_of_derivatives(sensitivities, rows)


def tornado_picture(sensitivities: Sensitivities, rows: Sequence[Sensitivity]) -> Picture:
    """Elasticities as bars, a panel for each result, in the order of the rows; inputs have their names in words."""
    from roofline.outputs.footer import case_footer
    from roofline.outputs.panels import Bar, Bars
    from roofline.outputs.pictures import Picture

    kinds = list(dict.fromkeys(entry.kind for entry in rows))
    panels = []
    for result in dict.fromkeys(entry.result for entry in rows):
        bars = [
            Bar(entry.words, [entry.elasticity if kind == entry.kind else 0.0 for kind in kinds])
            for entry in rows
            if entry.result == result
        ]
        name = (
            result.upper()
            if UNITS[result] == "s"
            else result.replace("_", " ").replace("tok s", "tokens/s").replace("/s gpu", "/s per GPU")
        )
        panels.append(Bars(name, "% change per 1 % more", kinds, bars))
    prediction = sensitivities.prediction
    return Picture(f"What moves {deployed_text(prediction.deployment)}", panels, case_footer([prediction]))


def input_named(text: str) -> str:
    """The name of an input as people may write it.

    >>> input_named("users"), input_named("request-rate"), input_named("Bandwidth")
    ('concurrency', 'request_rate', 'bandwidth')
    """
    name = text.strip().lower().replace("-", "_")
    return SPELLINGS.get(name, name)


def _input_name(unknown: Any) -> str:
    return input_named(unknown) if isinstance(unknown, str) else ""


def _on_every_plan(model: str | Model, gpu: str | Gpu, options: dict[str, Any], unknown: Any) -> list[Prediction]:
    """The case; at every tp where a load is sought for a given number of GPUs and the plan is open."""
    base = predict(model, gpu, **options)
    case = choice(gpu, options).options
    if _input_name(unknown) not in LOADS[1:] or case.get("num_gpus") is None or case.get("tp") is not None:
        return [base]
    plans = [base]
    for tp in possible_tp(base.deployment.model, widest_tp(base.deployment)):
        if tp != base.deployment.plan.tp:
            with suppress(RooflineError):  # it does not fit, or does not divide the GPUs
                plans.append(predict(model, gpu, **{**options, "tp": tp}))
    return plans


def _with_load(options: dict[str, Any], unknown: Any) -> dict[str, Any]:
    """Options with a placeholder for the load that is sought, where none is given."""
    name = _input_name(unknown)
    loads = [load for load in LOADS if options.get(load) is not None]
    if name not in LOADS or loads == [name]:
        return options
    if loads:
        raise BadInput(f"{name} is solved for, but {', '.join(loads)} is given; a case has one load, leave it out")
    return {**options, name: KIND_OF[name].start}


# Answer of an inverse question: the value of one input at which latency targets are just met.

#: Relative tolerance of a target.
MET = NANO

#: What limits a value where no target does: full slots or a full memory, no steady state, or the end of the search.
SLOTS, MEMORY, LONGEST, SATURATION, SEARCH = "max_num_seqs", "memory", "max_model_len", "saturation", "search range"

#: What limits a value beyond which a target's percentile is not known.
NOT_KNOWN = "not known beyond"

#: Inputs of which there are whole numbers.
COUNTED = ("isl", "osl", *(name for name, kind in KIND_OF.items() if not kind.is_open))
_PREFIXED = ("B/s", "FLOP/s", "exp/s", "B", "s")  # units that take a prefix


def solution_keys(targets: Iterable[str] = ()) -> Keys[Solution]:
    """Keys of a row: of the limits on means, and of further targets."""
    limited = tuple(dict.fromkeys((*SLO_KEYS, *targets)))
    return {
        **taken(
            KEYS,
            model=lambda s: s.base.deployment.model.short_name,
            gpu=lambda s: s.base.deployment.gpu.name,
            num_gpus=lambda s: int((s.prediction or s.base).deployment.num_gpus),
            tp=lambda s: int((s.prediction or s.base).deployment.plan.tp),
            gpu_status=lambda s: s.base.deployment.gpu.status,
        ),
        "unknown": Key.text("Input that is sought.", is_open=False),
        **taken(SHARED, unit=None, value=None),
        "present": Key("value", "as `unit`", "Value of the input now."),
        "binding": Key.text("Target that decides."),
        **{f"target_{name}_ms": _target(name) for name in limited},
        **{f"value_for_{name}": _value_for(name) for name in limited},
        **taken(KEYS, **{f"{name}_ms": _solved(f"{name}_ms") for name in SLO_KEYS}, fits=_solved("fits")),
        "method": Key.text("How the value was found."),
        **taken(
            SHARED,
            formula=lambda s: None if s.formula is None else s.formula.flat,
            symbols=lambda s: None if s.formula is None else s.formula.to_dict()["symbols"],
            regime=None,
            reason=None,
        ),
        "limited_by": Key.text(
            "What ends the value: a target, max_num_seqs, memory, max_model_len, saturation, the search range, beyond "
            "which it lies, or that a target is not known beyond; null where any value will do."
        ),
        **taken(
            KEYS,
            slo_binding=lambda s: None if s.judged is None else s.judged.binding,
            slo_verdict=lambda s: s.verdict,
            slo_reason=lambda s: s.reason if s.judged is None else s.judged.reason,
            basis=lambda s: s.base.basis,
            warnings=lambda s: list(s.warnings),
        ),
    }


def _target(name: str) -> Key[Solution]:
    meaning = f"Target for the mean of {name.upper()}."
    return Key.number("ms", meaning, lambda s: _milliseconds(s.targets.get(name)))


def _value_for(name: str) -> Key[Solution]:
    meaning = f"Value of the input at which the target for {name.upper()} is met; null where none or all do."
    return Key.number("as `unit`", meaning, lambda s: s.values.get(name))


def _solved(key: str) -> Callable[[Solution], Any]:
    return lambda s: None if s.prediction is None else row(s.prediction, (key,))[key]


@dataclass(frozen=True, repr=False)
class Solution(Answer[dict[str, Json]]):
    """The value of an input at which all targets are met, one of them exactly.

    >>> import roofline as rl
    >>> result = rl.solve("llama-3.1-8b", "h100-sxm", "tp", tpot=0.003, basis="ideal")
    >>> result
    <Solution tp = 2 (now 1) for TPOT <= 3 ms on h100-sxm>
    >>> result.to_dict()["value"]
    2.0
    """

    unknown: str  # name of the input
    unit: str
    meaning: str
    targets: Mapping[str, float]  # [s] by result
    value: float | None  # SI; None where no value meets the targets
    binding: str  # result whose target binds
    values: Mapping[str, float | None]  # required by each target alone
    method: str  # closed form, root, step, bound or search
    reason: str  # why no value meets the targets, or a remark on the one that does; may be empty
    regime: str  # at the solution
    formula: Formula | None = field(repr=False)  # closed form of the value, where there is one
    prediction: Prediction | None = field(repr=False)  # at the solution
    base: Prediction = field(repr=False)  # the case as asked
    limited_by: str | None = None  # target, or one of the limits below; None where any value will do
    judged: Verdict | None = field(default=None, repr=False)  # on the targets, at the value or its whole part

    @property
    def is_met(self) -> bool:
        return self.value is not None

    @property
    def is_open(self) -> bool:
        """Whether the search ended before it reached the target: the value that just meets it lies beyond."""
        return self.limited_by == SEARCH

    @property
    def is_known(self) -> bool:
        """Whether the targets are known to be missed beyond the value; otherwise a percentile is not known there."""
        return self.limited_by != NOT_KNOWN

    @property
    def verdict(self) -> str | None:
        """Verdict on the targets at the solution: fail where no value meets them, None where that is not known."""
        if self.judged is None:
            return FAIL if self.is_known else None
        return None if self.judged.word is None else str(self.judged.word)

    @property
    def whole(self) -> int | None:
        """Largest whole batch, number of users or length that meets the targets; None for other inputs."""
        if self.value is None or self.unknown not in COUNTED:
            return None
        return math.floor(self.value * (1.0 + MET))

    @property
    def present(self) -> float:
        """Value of the input in the case as asked, SI."""
        return float(self.base.deployment.plan.tp) if self.unknown == "tp" else inputs(self.base)[self.unknown].value

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the case; under a load, of the domain of its equations at the solution."""
        solved = self.prediction
        return (
            self.base.warnings
            if solved is None
            else restated(self.base.warnings, solved.deployment, solved.workload, solved.served)
        )

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Flat row of the JSON contract.

        Args:
            keys: the keys to keep; None for all.
        """
        return cells(selected(solution_keys(self.targets), keys), self)

    @property
    def is_mean(self) -> bool:
        """Whether a target without a percentile is on the mean over requests."""
        return self.unknown in LASTING or self.base.workload.is_mean

    def __repr__(self) -> str:
        if self.value is None:
            return f"<Solution {self.unknown}: {self.reason.partition(';')[0]}>"
        targets = limits_words(self.targets, is_mean=self.is_mean)
        value, present = (_with_unit(number, self.unit) for number in (self.value, self.present))
        sign = "beyond" if self.is_open else "="
        end = "" if self.is_known else f", {NOT_KNOWN}"
        gpu = self.base.deployment.gpu.name
        return f"<Solution {self.unknown} {sign} {value} (now {present}) for {targets} on {gpu}{end}>"

    def __str__(self) -> str:
        gpu = self.base.deployment.gpu.name
        if self.value is None:
            return f"{gpu}: {self.reason}"
        unit = "" if self.unit == "1" else f" {self.unit}"
        sign = "beyond" if self.is_open else "="
        text = f"{gpu}: {self.unknown} {sign} {self.value:.6g}{unit} (now {self.present:.6g}), by {self.method}"
        whole = (
            ""
            if self.whole is None or self.is_open or self.limited_by == NOT_KNOWN
            else f"; at most {self.whole} whole"
        )
        whole += "" if self.verdict is None else f"; SLO {self.verdict}"
        return text + whole + (f"; {self.reason}" if self.reason else "")


def _with_unit(number: float, unit: str) -> str:
    if unit == "1":
        return rounded(number)
    return to_text(number, unit) if unit in _PREFIXED else f"{rounded(number)} {unit}"


def _milliseconds(time: float | None) -> float | None:
    return None if time is None else time / MILLI


# Inverse questions: the value of one input at which a latency target is just met.

#: Words for inputs whose names depend on the case.
ALIASES = ("peak", "weights", "kv", "tp")

_INFINITE = float("inf")
_HUGE = 2.0**60  # times the present value; as good as infinite
_MOST_USERS = 2.0**20
_JUST_ABOVE = 1.0 + NANO
_NO_FIGURE = "its closed form contradicts the mean; `simulate` tells"
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
    else a bracketed root of the prediction; `tp` is searched. A limit on the p99 over its median is not solved for, but
    judged at the value. Results are taken as monotonic in the input, which they
    are but for the sawtooth of chunked attention in `isl`.
    """
    refuse_arrays(prediction, "solve")
    limits = _checked_targets(prediction, {name: limit for name, limit in targets.items() if name != P99_WITHIN})
    judging = Limits({name: limit for name, limit in targets.items() if limit is not None})
    if isinstance(unknown, str) and unknown.lower() == "tp":
        return _smallest_tp(prediction, limits, judging)
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
        judged = replace(changed(solved, {entry.name: whole}), slo=judging).slo_verdict
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
    most, held_by, why, kind = math.inf, MEMORY, "", LASTING.get(entry.name)
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
    elif (
        kind is not None
        and not kind.is_open
        and is_open
        and all(metric_and_level(key)[0] in BETWEEN_TOKENS for key in targets)
    ):
        most, held_by, why = _slots(prediction)
    elif kind is not None and kind.is_open and prediction.served is not None:
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
        raise BadInput(f"solve needs a target: a limit on {', '.join(SLO_KEYS)}, in seconds, such as `ttft` 300ms")
    for name, limit in limits.items():
        if metric_and_level(name)[0] not in SLO_KEYS:
            raise UnknownName(
                f"unknown target {name!r}; choose from {', '.join(SLO_KEYS)}, or a percentile such as ttft_p95"
            )
        if type(limit) not in (float, int) or not 0.0 < limit <= BILLION:
            raise BadInput(f"target {name} = {shown(limit)} must be a positive time in seconds")
    metric = next((found for key in limits if (found := metric_and_level(key)[0]) in BETWEEN_TOKENS), None)
    if metric is not None and prediction.tpot is None:
        raise BadInput(f"{metric} needs at least two output tokens; osl is 1: raise `osl`, or limit ttft alone")
    return {name: float(limit) for name, limit in limits.items()}


def _input(prediction: Prediction, unknown: str) -> Input:
    """The input by its name or one of `ALIASES`."""
    known = inputs(prediction)
    model, quantization = prediction.deployment.model, prediction.deployment.quantization
    weights, _, compute = summary(model, quantization)
    name = input_named(unknown) if isinstance(unknown, str) else shown(unknown)
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
        raise BadInput("memory cannot be solved for: no latency depends on it; use roofline plan for what fits")
    return known[name]


def _is_rising(entry: Input) -> bool:
    return entry.kind in _RISING and entry.name not in _SAVING


def _range(prediction: Prediction, entry: Input, result: str) -> tuple[float, float]:
    """Best and worst value of an input; a target missed at the best one cannot be met."""
    workload = prediction.workload
    if entry.name == "osl":
        return (2.0 if result.startswith(BETWEEN_TOKENS) else 1.0), BILLION
    if entry.name == "isl":
        return max(float(workload.prefix) + 1.0, 1.0), BILLION
    if entry.name == "prefix":
        return max(float(workload.isl) - 1.0, 0.0), 0.0
    if entry.name == "cache_hit":
        return 1.0, 0.0
    kind = LASTING.get(entry.name)
    if kind is not None and kind.is_open and prediction.served is not None:
        return kind.least, workload.load.amount_at(MOST * float(prediction.served.max_request_rate))
    if entry.kind == "workload":
        return 1.0, (BILLION if kind is None else _MOST_USERS)
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
    is_steady = not case.workload.load.is_run and (case.served is None or bool(case.served.is_stable))
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
    if result == "itl":
        if prediction.deployment.draft is not None:
            return None
        result = "tpot"
    if not is_rational(case.number(result), entry.name):
        return None
    from roofline.formulas.closed import ClosedForms

    return ClosedForms(case).solved(result, entry.name, target)


def _unmet_reason(prediction: Prediction, entry: Input, best: float, result: str, target: float) -> str:
    """Why a target is out of reach, and what remains at the best value."""
    best_case = changed(prediction, {entry.name: best})
    name = "infinite" if best >= (entry.value or 1.0) * _HUGE else rounded(best)
    step = best_case.ideal[1].time
    ideal = {"ttft": best_case.ideal[0].time, "tpot": step, "itl": step}.get(result)
    target_text, best_text = distinct_texts(target, float(best_case.latency(result) or 0.0), "s")
    at_best = f"{best_text} at {entry.name} = {name} ({_times_text(best_case, result)})"
    limit = "" if ideal is None or ideal <= target else f"; the hardware limit is {to_text(float(ideal), 's')}"
    return f"{result} = {target_text} cannot be met: still {at_best}{limit}"


def _times_text(case: Prediction, result: str) -> str:
    """Times by bound, the largest first."""
    result = metric_and_level(result)[0]
    runs_of: dict[str, tuple[tuple[Pass, float], ...]] = {
        "ttft": ((case.prefill, 1.0),),
        **dict.fromkeys(BETWEEN_TOKENS, ((case.decode, 1.0),)),
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


def _smallest_tp(prediction: Prediction, limits: dict[str, float], judging: Limits) -> Solution:
    """Smallest tensor-parallel degree that meets every target."""
    deployment = prediction.deployment
    best: Prediction | None = None
    meeting: Prediction | None = None
    too_small, missed = False, False
    unknown: dict[str, list[int]] = {}  # target -> degrees at which it is not known
    for tp in possible_tp(deployment.model, widest_tp(deployment)):
        sharded = replace(deployment, plan=replace(deployment.plan, tp=tp))
        try:
            check_plan(sharded.model, sharded.plan, sharded.spread.redundant)
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
        judged=None if meeting is None else replace(meeting, slo=judging).slo_verdict,
    )


def _excess(prediction: Prediction, limits: Mapping[str, float]) -> tuple[float, str]:
    """Largest ratio of a result over its target, and the name of that result."""
    return max((float(prediction.latency(name) or 0.0) / limit, name) for name, limit in limits.items())
