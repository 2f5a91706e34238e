"""Questions about one prediction: what moves it, what its formula is, which input would meet a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from roofline.analysis import sensitivity as moving
from roofline.analysis import solve as inverse
from roofline.analysis.sensitivity import Sensitivities, Sensitivity
from roofline.analysis.solve import Solution
from roofline.api.inputs.arguments import scalar, values_of
from roofline.api.inputs.case import LEAST_RATE
from roofline.api.inputs.pools import choice
from roofline.api.inputs.slo import slo_limits
from roofline.api.inputs.texts import plain_value
from roofline.api.predict import LOADS, predict
from roofline.api.ranking import meeting_first
from roofline.api.writing import is_stream, write_whole
from roofline.errors import BadInput, RooflineError, UnknownName, shown
from roofline.formulas.case_trace import NO_FORMULA, RESULTS, UNITS, CaseTrace
from roofline.serving.prediction import Prediction
from roofline.serving.sizing import possible_tp, widest_tp
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

if TYPE_CHECKING:
    from roofline.api.inputs.options import Case, Slo, SolveOptions
    from roofline.formulas.closed_form import Formula

__all__ = [
    "FORMULAS",
    "RESULTS",
    "UNITS",
    "Sensitivities",
    "Sensitivity",
    "Solution",
    "derivatives_latex",
    "derivatives_text",
    "formula",
    "plot_sensitivities",
    "sensitivity",
    "solve",
    "solve_each_gpu",
]


#: Results that have a formula.
FORMULAS = (*UNITS, "knee", "ridge_knee", "half_knee", "memory_knee")


def sensitivity(
    model: str | Model, gpu: str | Gpu, *, of: str | Sequence[str] = RESULTS, **options: Unpack[Case]
) -> Sensitivities:
    """Elasticities and derivatives of results with respect to every quantity they depend on.

    Args:
        model: name, alias or record.
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
    """
    prediction = predict(model, gpu, **options)
    names: Any = values_of("of", of)
    return moving.sensitivities(prediction, (scalar(of),) if names is None else tuple(names))


def formula(model: str | Model, gpu: str | Gpu, of: str = "ttft", **options: Unpack[Case]) -> Formula:
    """Closed form of a result of one case, in its regime.

    Args:
        model: name, alias or record.
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
    """
    name = scalar(of)
    of = name.replace("-", "_") if isinstance(name, str) else ""
    if of not in FORMULAS:
        raise UnknownName(f"no formula for {shown(name)}; choose from {', '.join(FORMULAS)}")
    from roofline.formulas.closed_form import ClosedForms
    from roofline.formulas.knee_form import knee_formula

    prediction = predict(model, gpu, **options)
    if prediction.served is not None:
        raise BadInput(NO_FORMULA)
    case = CaseTrace(prediction)
    return ClosedForms(case).formula(of) if of in UNITS else knee_formula(case, of)


def solve(
    model: str | Model,
    gpu: str | Gpu,
    unknown: str,
    *,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    e2el: float | str | None = None,
    slo: Slo | None = None,
    **options: Unpack[SolveOptions],
) -> Solution:
    """The value of one input at which latency targets are just met.

    Args:
        model: name, alias or record.
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
    unknown = scalar(unknown)
    if isinstance(unknown, str) and unknown == "tp" and choice(gpu, options).options.get("tp") is not None:
        raise BadInput("tp is solved for; leave it out")
    plans = _on_every_plan(model, gpu, _with_load(dict(options), unknown), unknown)
    solutions = [inverse.solve_for(plan, unknown, targets) for plan in plans]
    return max(solutions, key=lambda solution: -1.0 if solution.value is None else solution.value)


def solve_each_gpu(
    model: str | Model, gpu_names: Sequence[str], unknown: str, targets: Mapping[str, float | None], **options: Any
) -> tuple[list[Solution], dict[str, RooflineError]]:
    """Solutions, those that meet the targets first, and the errors of the GPUs that cannot run the case."""
    solutions: list[Solution] = []
    refused: dict[str, RooflineError] = {}
    limits = {name: time for name, time in targets.items() if time is not None}
    for name in gpu_names:
        try:
            solutions.append(solve(model, name, unknown, slo=limits, **options))
        except RooflineError as error:
            refused[name] = error
    if not solutions and refused:
        raise next(iter(refused.values()))
    return meeting_first(solutions, lambda solution: solution.verdict), refused


def derivatives_text(sensitivities: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives as several lines of text, after their named parts."""
    from roofline.analysis import derivatives

    return derivatives.text_of_derivatives(sensitivities, rows)


def derivatives_latex(sensitivities: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives as an ``align*`` of amsmath, after their named parts."""
    from roofline.analysis import derivatives

    return derivatives.latex_of_derivatives(sensitivities, rows)


def plot_sensitivities(sensitivities: Sensitivities, rows: Sequence[Sensitivity], path: str) -> None:
    """Write a tornado chart of elasticities; the suffix decides the format."""
    from roofline.analysis.tornado import tornado

    form = Path(path).suffix[1:].lower() or ("png" if is_stream(path) else "")
    if not form:
        raise BadInput(f"{path}: the file name must end in .png, .svg or .pdf")
    try:
        write_whole(path, lambda file: tornado(rows, sensitivities.case.title, file, form), force=True)
    except BadInput as fault:
        raise BadInput(f"cannot write a chart: {fault}") from None


def _input_name(unknown: Any) -> str:
    return unknown.strip().lower().replace("-", "_") if isinstance(unknown, str) else ""


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
    return {**options, name: LEAST_RATE if name == "request_rate" else 1}
