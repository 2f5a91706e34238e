"""A formula as text: for people, as LaTeX, as Python source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import sympy
from sympy.printing.latex import LatexPrinter

from roofline.errors import printable
from roofline.formulas.expressions import expression_text
from roofline.formulas.formula import Definition
from roofline.formulas.inputs import Input
from roofline.quantity import rounded

if TYPE_CHECKING:
    from roofline.formulas.closed_form import Formula


_DIGITS = 5
_FUNCTIONS = {"ceiling": "ceil as ceiling", "floor": "floor", "log": "log", "sqrt": "sqrt"}
_WORD = re.compile(r"[A-Za-z_]\w*")
_WIDTH = 100
_GREEK = {"eta": r"\eta", "kappa": r"\kappa", "eps": r"\varepsilon"}
_SIDES = {"compute": "C", "memory": "M", "t": "t", "base": "z", "whole": "n"}


def readable(formula: Formula) -> str:
    """A formula for people: in symbols, in numbers, and the values of its parts and symbols."""
    values = {name: entry.value for name, entry in formula.inputs.items()}
    values |= {part.name: part.value for part in formula.definitions}
    left = "0" if formula.is_implicit else formula.name
    lines = [
        *([printable(formula.title), ""] if formula.title else []),
        *equation_lines(left, formula.expression),
        *_wrapped(" " * len(left), _with_numbers(expression_text(formula.expression), values)),
        f"{formula.name} = {formula.value!r} {formula.unit}",
    ]
    if formula.regime:
        lines.append(f"regime: {printable(formula.regime)}")
    return "\n".join([*lines, *parts_lines(formula.definitions, formula.inputs, formula.ends)])


def latex(formula: Formula) -> str:
    """A formula as an ``align*`` of amsmath."""
    left = "0" if formula.is_implicit else _tex_name(formula.name)
    return equations_latex([(left, formula.expression)], formula.definitions, formula.inputs)


def equation_lines(left: str, expression: Any) -> list[str]:
    return _wrapped(left, expression_text(expression))


def parts_lines(
    definitions: Iterable[Definition], inputs: Mapping[str, Input], ends: Mapping[str, str] | None = None
) -> list[str]:
    """Lines below an equation: its parts, and its symbols with values, units, meanings and ends of the regime."""
    parts = [f"  {part.name} = {expression_text(part.expression)} = {part.value!r}" for part in definitions]
    width = max((len(name) for name in inputs), default=0)
    symbols = [
        f"  {name.ljust(width)} = {entry.value!r} {entry.unit if entry.unit != '1' else ''}".rstrip()
        + f"  ({printable(entry.meaning)})"
        + (f"  {printable(ends[name])}" if ends and name in ends else "")
        for name, entry in inputs.items()
    ]
    return [*(["", "where", *parts] if parts else []), "", "with", *symbols]


def equations_latex(
    equations: Iterable[tuple[str, Any]], definitions: Iterable[Definition], inputs: Mapping[str, Input]
) -> str:
    """An ``align*`` of equations (left side in LaTeX, right side in sympy), their parts and symbols."""
    lines = [f"{left} &= {_tex(expression)}" for left, expression in equations]
    lines += [f"{_tex_name(part.name)} &= {_tex(part.expression)}" for part in definitions]
    lines += [f"{_tex_name(name)} &= {_tex_number(entry.value, entry.unit)}" for name, entry in inputs.items()]
    joined = " \\\\\n".join(lines)
    return f"\\begin{{align*}}\n{joined}\n\\end{{align*}}"


def derivative_tex(result: str, quantity: str) -> str:
    return rf"\frac{{\partial {_tex_name(result)}}}{{\partial {_tex_name(quantity)}}}"


def python_source(formula: Formula) -> str:
    """Source of a Python function of the symbols, free of imports but math; run as a script, it prints the result."""
    parts = [(part.name, expression_text(part.expression)) for part in formula.definitions]
    final = expression_text(formula.expression)
    used = {word for _, expression in (*parts, ("", final)) for word in _WORD.findall(expression)}
    imports = sorted(source for name, source in _FUNCTIONS.items() if name in used)
    name = f"{formula.name}_residual" if formula.is_implicit else formula.name
    summary = (
        f"Residual, zero at the solution for {formula.name}"
        if formula.is_implicit
        else f"{formula.name} [{formula.unit}]"
    )
    arguments = [
        f"    {name}={entry.value!r},  # {printable(entry.meaning)}"
        + (f" [{entry.unit}]" if entry.unit != "1" else "")
        + (f"; {printable(formula.ends[name])}" if name in formula.ends else "")
        for name, entry in formula.inputs.items()
    ]
    lines = [
        *([f"from math import {', '.join(imports)}", "", ""] if imports else []),
        f"def {name}(",
        "    *,",
        *arguments,
        "):",
        f'    """{summary}{f" of {_in_docstring(formula.title)}" if formula.title else ""}.',
        "",
        f"    Valid only in this regime: {_in_docstring(formula.regime)}, while no kernel changes its bound.",
        '    """',
        *(f"    {part} = {expression}" for part, expression in parts),
        f"    return {final}",
        "",
        "",
        'if __name__ == "__main__":',
        f"    print({name}())",
    ]
    return "\n".join(lines)


def _in_docstring(text: str) -> str:
    """A text escaped so that it cannot end a docstring."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def _with_numbers(expression: str, values: dict[str, float]) -> str:
    """An expression with rounded numbers in place of its symbols."""
    return _WORD.sub(
        lambda word: _bracketed(rounded(values[word[0]], _DIGITS)) if word[0] in values else word[0],
        expression,
    )


def _bracketed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _wrapped(left: str, expression: str) -> list[str]:
    """``left = expression``, broken before a sign where it is long."""
    lines, rest = [], f"{left} = {expression}"
    indent = " " * (len(left) + 1)
    while len(rest) > _WIDTH:
        cut = max(rest.rfind(" + ", len(indent) + 1, _WIDTH), rest.rfind(" - ", len(indent) + 1, _WIDTH))
        if cut < 0:
            break
        lines.append(rest[:cut])
        rest = indent + rest[cut + 1 :]
    return [*lines, rest]


class _Tex(LatexPrinter):  # type: ignore[misc]  # sympy is untyped
    """LaTeX with short floats and the symbols of docs/method.md."""

    def _print_Float(self, expr: Any) -> str:  # noqa: N802  sympy's name
        return _tex_float(float(expr))

    def _print_Symbol(self, expr: Any, style: str = "plain") -> str:  # noqa: ARG002, N802  sympy's name
        return _tex_name(expr.name)


def _tex(expression: Any) -> str:
    return str(_Tex({"mul_symbol": "dot", "fold_short_frac": False}).doprint(sympy.sympify(expression, strict=True)))


def _tex_float(value: float) -> str:
    mantissa, _, exponent = repr(value).partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _tex_number(value: float, unit: str) -> str:
    return _tex_float(value) + (rf"\ \mathrm{{{unit}}}" if unit != "1" else "")


def _tex_name(name: str) -> str:
    """A symbol's name in LaTeX: its head as a letter, the rest as an index."""
    head, _, rest = name.partition("_")
    if head in _GREEK and rest:
        letter, _, kernel = rest.partition("_")
        index = (
            rf"{letter},\mathrm{{{_with_spaces(kernel)}}}"
            if len(letter) == 1 and kernel
            else rf"\mathrm{{{_with_spaces(rest)}}}"
        )
        return rf"{_GREEK[head]}_{{{index}}}"
    if head in _SIDES and rest:
        return rf"{_SIDES[head]}_{{\mathrm{{{_with_spaces(rest)}}}}}"
    return rf"\mathrm{{{_with_spaces(name)}}}"


def _with_spaces(name: str) -> str:
    return name.replace("_", r"\ ")
