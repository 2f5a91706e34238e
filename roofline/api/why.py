"""Public questions about one prediction: what moves it, what its formula is, what input would meet a target."""

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


#: What `formula` can be asked for.
FORMULAS = (*UNITS, "knee", "ridge_knee", "half_knee", "memory_knee")


def sensitivity(
    model: str | Model, gpu: str | Gpu, *, of: str | Sequence[str] = RESULTS, **options: Unpack[Case]
) -> Sensitivities:
    """Elasticities and derivatives of results to every quantity that they depend on.

    Args:
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        of: results: ttft, tpot, e2el, output_tok_s_gpu, output_tok_s, tok_s_user [text].
        options: keyword arguments of `predict`.

    Returns:
        Rows, most important first for each result; each has its derivative as a formula.

    Raises:
        UnknownName: a result that is none, or a name that `predict` refuses.
        BadInput: isl, osl, batch or prefix is an array, or what `predict` refuses.

    >>> import roofline as rl
    >>> rl.sensitivity("llama-3.1-8b", "h100-sxm", of="tpot", basis="ideal")[0]
    <Sensitivity of tpot to bandwidth: -1 % per +1 %>
    """
    return moving.sensitivities(predict(model, gpu, **options), _results(of))


def formula(model: str | Model, gpu: str | Gpu, of: str = "ttft", **options: Unpack[Case]) -> Formula:
    """Closed form of a result of one case, in the regime that holds there.

    Args:
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        of: one of `FORMULAS`, e.g. ttft, tpot or knee [text].
        options: keyword arguments of `predict`.

    Returns:
        The formula: a sympy expression in named parts, text, LaTeX and Python source.

    Raises:
        UnknownName: no such result, or a name that `predict` refuses.
        BadInput: the result does not apply, or what `predict` refuses.

    >>> import roofline as rl
    >>> rl.formula("llama-3.1-8b", "h100-sxm", "ridge_knee", basis="ideal")
    <Formula ridge_knee = 326 sequences: 5 parts of 4 inputs; decode memory-bound>
    """
    asked = scalar(of)
    of = asked.replace("-", "_") if isinstance(asked, str) else ""
    if of not in FORMULAS:
        raise UnknownName(f"no formula for {shown(asked)}; choose from {', '.join(FORMULAS)}")
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
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        unknown: bandwidth, peak, batch, isl, prefix, tp, weights, or any other input of `sensitivity` [text].
        ttft: target [s].
        tpot: target [s].
        e2el: target [s].
        slo: targets as of `predict`, of percentiles, too [s].
        options: keyword arguments of `predict`; that of the unknown does not matter.

    Returns:
        The value, which target decides, and the prediction there; or why no value meets them. Where the number of GPUs
        is given and the plan is not, the largest load over the plans of so many GPUs.

    Raises:
        UnknownName: no such input, or a name that `predict` refuses.
        BadInput: no target, one that is not positive or stated twice, or what `predict` refuses.

    >>> import roofline as rl
    >>> rl.solve("llama-3.1-8b", "h100-sxm", "bandwidth", tpot=0.0025, basis="ideal")
    <Solution bandwidth = 6.07 TB/s (now 3.35 TB/s) for TPOT <= 2.5 ms on h100-sxm>
    """
    targets = {"ttft": ttft, "tpot": tpot, "e2el": e2el}
    given = {name: target for name, time in targets.items() if (target := plain_value(name, scalar(time))) is not None}
    limits: Mapping[str, float] = slo_limits(slo) or {}
    twice = next((name for name in given if name in limits), None)
    if twice is not None:
        raise BadInput(f"{twice} is given twice; leave it out of the SLO")
    given |= limits
    unknown = scalar(unknown)
    if isinstance(unknown, str) and unknown == "tp" and choice(gpu, options).options.get("tp") is not None:
        raise BadInput("tp is solved for; leave it out")
    plans = _on_every_plan(model, gpu, _with_load(dict(options), unknown), unknown)
    solutions = [inverse.solve_for(plan, unknown, given) for plan in plans]
    return max(solutions, key=lambda solution: -1.0 if solution.value is None else solution.value)


def solve_each_gpu(
    model: str | Model, gpu_names: Sequence[str], unknown: str, targets: Mapping[str, float | None], **options: Any
) -> tuple[list[Solution], dict[str, RooflineError]]:
    """Solutions of one question on several GPUs.

    Args:
        model: name, alias or record [text].
        gpu_names: names or aliases [text].
        unknown: the input that is sought [text].
        targets: limits on ttft, tpot or e2el [s].
        options: keyword arguments of `predict`.

    Returns:
        Solutions in the order of the GPUs, and the error of each GPU that cannot run the case.

    Raises:
        RooflineError: what is wrong with the question on every GPU alike.
    """
    found: list[Solution] = []
    refused: dict[str, RooflineError] = {}
    limits = {name: time for name, time in targets.items() if time is not None}
    for name in gpu_names:
        try:
            found.append(solve(model, name, unknown, slo=limits, **options))
        except RooflineError as error:
            refused[name] = error
    if not found and refused:
        raise next(iter(refused.values()))
    return found, refused


def derivatives_text(found: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives of results for people, after the parts that they are made of.

    Args:
        found: sensitivities of a case.
        rows: those to write.

    Returns:
        Several lines [text].
    """
    from roofline.analysis import derivatives

    return derivatives.text_of_derivatives(found, rows)


def derivatives_latex(found: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives of results in LaTeX, after the parts that they are made of.

    Args:
        found: sensitivities of a case.
        rows: those to write.

    Returns:
        An ``align*`` of amsmath [text].
    """
    from roofline.analysis import derivatives

    return derivatives.latex_of_derivatives(found, rows)


def plot_sensitivities(found: Sensitivities, rows: Sequence[Sensitivity], path: str) -> None:
    """Write a tornado chart of elasticities.

    Args:
        found: sensitivities of a case.
        rows: those to draw.
        path: file, which is overwritten; its ending decides PNG, SVG or PDF [path].

    Raises:
        BadInput: matplotlib is not installed, or the file cannot be written.
    """
    from roofline.analysis.tornado import tornado

    form = Path(path).suffix[1:].lower() or ("png" if is_stream(path) else "")
    if not form:
        raise BadInput(f"{path}: the file name must end in .png, .svg or .pdf")
    try:
        write_whole(path, lambda beside: tornado(rows, found.case.title, beside, form), force=True)
    except BadInput as fault:
        raise BadInput(f"cannot write a chart: {fault}") from None


def _is_load(unknown: Any) -> bool:
    return isinstance(unknown, str) and unknown.strip().lower().replace("-", "_") in LOADS[1:]


def _on_every_plan(model: str | Model, gpu: str | Gpu, options: dict[str, Any], unknown: Any) -> list[Prediction]:
    """The case; at every tensor-parallel degree where a number of GPUs is given, and how they work together is not."""
    base = predict(model, gpu, **options)
    stated = choice(gpu, options).options
    if not _is_load(unknown) or stated.get("num_gpus") is None or stated.get("tp") is not None:
        return [base]
    plans = [base]
    for tp in possible_tp(base.deployment.model, widest_tp(base.deployment)):
        if tp != base.deployment.plan.tp:
            with suppress(RooflineError):  # it does not fit, or does not divide the GPUs
                plans.append(predict(model, gpu, **{**options, "tp": tp}))
    return plans


def _with_load(options: dict[str, Any], unknown: Any) -> dict[str, Any]:
    """Options with the load that is sought, of which any value will do, where none is given."""
    name = unknown.strip().lower().replace("-", "_") if isinstance(unknown, str) else ""
    stated = [load for load in LOADS if options.get(load) is not None]
    if name not in LOADS or stated == [name]:
        return options
    if stated:
        raise BadInput(f"{name} is solved for, but {', '.join(stated)} is given; a case has one load, leave it out")
    return {**options, name: LEAST_RATE if name == "request_rate" else 1}


def _results(of: Any) -> tuple[Any, ...]:
    """Names of results, one or several."""
    names = values_of("of", of)
    return (scalar(of),) if names is None else tuple(names)
