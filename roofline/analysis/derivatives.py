"""Derivatives of results as text for people and as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.analysis.sensitivity import Sensitivities, Sensitivity
from roofline.symbolic.expressions import written
from roofline.symbolic.formula_text import (
    align,
    latex_lines,
    tex,
    tex_name,
    tex_values,
    where_lines,
    with_lines,
    wrapped,
)

__all__ = ["latex_of_derivatives", "text_of_derivatives"]


def text_of_derivatives(found: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives of results for people, after the parts that they are made of.

    Args:
        found: sensitivities of a case.
        rows: those to write.

    Returns:
        Several lines [text].
    """
    expressions = [row.expression for row in rows]
    stages = found.closed.stages
    lines = [found.case.title, ""]
    for row, expression in zip(rows, expressions, strict=True):
        lines += [*wrapped(f"d {row.result} / d {row.input}", written(expression)), f"  = {row.derivative!r}"]
    return "\n".join(
        [*lines, *where_lines(stages.used(*expressions)), *with_lines(stages.symbols(found.case.inputs, *expressions))]
    )


def latex_of_derivatives(found: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives of results in LaTeX, after the parts that they are made of.

    Args:
        found: sensitivities of a case.
        rows: those to write.

    Returns:
        An ``align*`` of amsmath [text].
    """
    expressions = [row.expression for row in rows]
    stages = found.closed.stages
    lines = [
        rf"\frac{{\partial {tex_name(row.result)}}}{{\partial {tex_name(row.input)}}} &= {tex(expression)}"
        for row, expression in zip(rows, expressions, strict=True)
    ]
    lines += latex_lines(stages.used(*expressions))
    known = stages.symbols(found.case.inputs, *expressions)
    return align([*lines, *tex_values(known)])
