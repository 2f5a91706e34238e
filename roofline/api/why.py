"""Public questions about one prediction: what moves it, what its formula is, what input would meet a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.analysis import sensitivity as moving
from roofline.analysis import solve as inverse
from roofline.analysis.sensitivity import Sensitivities, Sensitivity
from roofline.analysis.solve import Solution
from roofline.api.inputs.arguments import scalar, values_of
from roofline.api.inputs.case import LEAST_RATE
from roofline.api.inputs.slo import slo_limits
from roofline.api.predict import LOADS, predict
from roofline.api.writing import is_stream, write_whole
from roofline.errors import BadInput, RooflineError, UnknownName, shown
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.symbolic.case_trace import NO_FORMULA, RESULTS, UNITS, CaseTrace

if TYPE_CHECKING:
    from roofline.symbolic.closed_form import Formula

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


def sensitivity(model: str | Model, gpu: str | Gpu, *, of: Sequence[str] = RESULTS, **options: Any) -> Sensitivities:
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
    """
    return moving.sensitivities(predict(model, gpu, **options), _results(of))


def formula(model: str | Model, gpu: str | Gpu, of: str = "ttft", **options: Any) -> Formula:
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
    """
    asked = scalar(of)
    of = asked.replace("-", "_") if isinstance(asked, str) else ""
    if of not in FORMULAS:
        raise UnknownName(f"no formula of {shown(asked)}; it may be of {', '.join(FORMULAS)}")
    from roofline.symbolic.closed_form import ClosedForms
    from roofline.symbolic.knee_form import knee_formula

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
    ttft: float | None = None,
    tpot: float | None = None,
    e2el: float | None = None,
    slo: str | Mapping[str, float | str] | None = None,
    **options: Any,
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
        The value, which target decides, and the prediction there; or why no value meets them.

    Raises:
        UnknownName: no such input, or a name that `predict` refuses.
        BadInput: no target, one that is not positive or stated twice, or what `predict` refuses.
    """
    targets = {"ttft": ttft, "tpot": tpot, "e2el": e2el}
    given = {name: target for name, time in targets.items() if (target := scalar(time)) is not None}
    limits: Mapping[str, float] = slo_limits(slo) or {}
    twice = next((name for name in given if name in limits), None)
    if twice is not None:
        raise BadInput(f"{twice} is a target twice: leave it out of the SLO")
    given |= limits
    unknown = scalar(unknown)
    if isinstance(unknown, str) and unknown == "tp" and options.get("tp") is not None:
        raise BadInput("tp is what is sought: leave out --tp")
    return inverse.solve_for(predict(model, gpu, **_with_load(options, unknown)), unknown, given)


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
        raise BadInput(f"{path} needs a suffix that says the format, such as .png, .svg or .pdf")
    try:
        write_whole(path, lambda beside: tornado(rows, found.case.title, beside, form), force=True)
    except BadInput as fault:
        raise BadInput(f"cannot write a chart: {fault}") from None


def _with_load(options: dict[str, Any], unknown: Any) -> dict[str, Any]:
    """Options with the load that is sought, of which any value will do, where none is given."""
    name = unknown.strip().lower().replace("-", "_") if isinstance(unknown, str) else ""
    stated = [load for load in LOADS if options.get(load) is not None]
    if name not in LOADS or stated == [name]:
        return options
    if stated:
        raise BadInput(f"{name} is sought, and {', '.join(stated)} given: a case has one load; leave it out")
    return {**options, name: LEAST_RATE if name == "request_rate" else 1}


def _results(of: Any) -> tuple[Any, ...]:
    """Names of results, one or several."""
    names = values_of("of", of)
    return (scalar(of),) if names is None else tuple(names)
