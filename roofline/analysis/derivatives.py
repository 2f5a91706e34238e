"""Derivatives of results as text for people and as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.analysis.sensitivity import Sensitivities, Sensitivity
from roofline.errors import printable
from roofline.formulas.formula_text import derivative_tex, equation_lines, equations_latex, parts_lines

__all__ = ["latex_of_derivatives", "text_of_derivatives"]


def text_of_derivatives(found: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives of results for people, after the parts that they are made of.

    Args:
        found: sensitivities of a case.
        rows: those to write.

    Returns:
        Several lines [text].
    """
    lines, stages, expressions = (
        [printable(found.case.title), ""],
        found.closed.stages,
        [row.expression for row in rows],
    )
    for row, expression in zip(rows, expressions, strict=True):
        lines += [*equation_lines(f"d {row.result} / d {row.input}", expression), f"  = {row.derivative!r}"]
    symbols = stages.symbols(found.case.inputs, *expressions)
    return "\n".join([*lines, *parts_lines(stages.used(*expressions), symbols)])


def latex_of_derivatives(found: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives of results in LaTeX, after the parts that they are made of.

    Args:
        found: sensitivities of a case.
        rows: those to write.

    Returns:
        An ``align*`` of amsmath [text].
    """
    stages, expressions = found.closed.stages, [row.expression for row in rows]
    lefts = [derivative_tex(row.result, row.input) for row in rows]
    symbols = stages.symbols(found.case.inputs, *expressions)
    return equations_latex(zip(lefts, expressions, strict=True), stages.used(*expressions), symbols)
