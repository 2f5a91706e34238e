"""Derivatives of results as text for people and as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.analysis.sensitivity import Sensitivities, Sensitivity
from roofline.errors import printable
from roofline.formulas.formula_text import derivative_tex, equation_lines, equations_latex, parts_lines


def text_of_derivatives(sensitivities: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives of results, followed by the expressions that they share."""
    lines = [printable(sensitivities.case.title), ""]
    stages, expressions = sensitivities.closed.stages, [row.expression for row in rows]
    for row, expression in zip(rows, expressions, strict=True):
        lines += [*equation_lines(f"d {row.result} / d {row.input}", expression), f"  = {row.derivative!r}"]
    symbols = stages.symbols(sensitivities.case.inputs, *expressions)
    return "\n".join([*lines, *parts_lines(stages.used(*expressions), symbols)])


def latex_of_derivatives(sensitivities: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """The same as an ``align*`` environment of amsmath."""
    stages, expressions = sensitivities.closed.stages, [row.expression for row in rows]
    lefts = [derivative_tex(row.result, row.input) for row in rows]
    symbols = stages.symbols(sensitivities.case.inputs, *expressions)
    return equations_latex(zip(lefts, expressions, strict=True), stages.used(*expressions), symbols)
