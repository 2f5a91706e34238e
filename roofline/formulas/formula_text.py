"""A formula written down: text for people, LaTeX for papers, Python source for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import sympy
from sympy.printing.latex import LatexPrinter

from roofline.errors import printable
from roofline.formulas.expressions import written
from roofline.formulas.formula import Definition
from roofline.formulas.inputs import Input
from roofline.quantity import rounded

if TYPE_CHECKING:
    from roofline.formulas.closed_form import Formula

__all__ = [
    "derivative_tex",
    "equation_lines",
    "equations_latex",
    "latex",
    "parts_lines",
    "python_source",
    "readable",
]

_DIGITS = 5
_FUNCTIONS = {"ceiling": "ceil as ceiling", "floor": "floor", "log": "log", "sqrt": "sqrt"}
_WORD = re.compile(r"[A-Za-z_]\w*")
_WIDTH = 100
_GREEK = {"eta": r"\eta", "kappa": r"\kappa", "eps": r"\varepsilon"}
_SIDES = {"compute": "C", "memory": "M", "t": "t", "base": "z", "whole": "n"}


def readable(formula: Formula) -> str:
    """A formula for people: symbolic, with numbers, and the values of its parts and symbols.

    Args:
        formula: the formula.

    Returns:
        Several lines [text].
    """
    known = _values(formula)
    left = "0" if formula.is_implicit else formula.name
    lines = [
        *([printable(formula.title), ""] if formula.title else []),
        *equation_lines(left, formula.expression),
        *_wrapped(" " * len(left), _with_numbers(written(formula.expression), known)),
        f"{formula.name} = {formula.value!r} {formula.unit}",
    ]
    if formula.regime:
        lines.append(f"regime: {printable(formula.regime)}")
    return "\n".join([*lines, *parts_lines(formula.definitions, formula.inputs, formula.ends)])


def latex(formula: Formula) -> str:
    """A formula in LaTeX, in the environment ``align*`` of amsmath.

    Args:
        formula: the formula.

    Returns:
        Several lines [text].
    """
    left = "0" if formula.is_implicit else _tex_name(formula.name)
    return equations_latex([(left, formula.expression)], formula.definitions, formula.inputs)


def equation_lines(left: str, expression: Any) -> list[str]:
    """One equation for people, broken before a sign where it is long.

    Args:
        left: what stands left of the equal sign [text].
        expression: the sympy expression right of it [any].

    Returns:
        The lines [text].
    """
    return _wrapped(left, written(expression))


def parts_lines(
    definitions: Iterable[Definition], inputs: Mapping[str, Input], ends: Mapping[str, str] | None = None
) -> list[str]:
    """What stands below an equation: the parts that it is made of, and its symbols.

    Args:
        definitions: the parts, each with its value.
        inputs: the symbols, each with its value, unit and meaning.
        ends: where the regime ends, by symbol [text].

    Returns:
        The lines [text].
    """
    parts = [f"  {part.name} = {written(part.expression)} = {part.value!r}" for part in definitions]
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
    """Equations in LaTeX, then the parts that they are made of and the values of their symbols.

    Args:
        equations: what stands left, in LaTeX, and the sympy expression right of the sign [text, any].
        definitions: the parts.
        inputs: the symbols.

    Returns:
        An ``align*`` of amsmath [text].
    """
    lines = [f"{left} &= {_tex(expression)}" for left, expression in equations]
    lines += [f"{_tex_name(part.name)} &= {_tex(part.expression)}" for part in definitions]
    lines += [f"{_tex_name(name)} &= {_tex_number(entry.value, entry.unit)}" for name, entry in inputs.items()]
    joined = " \\\\\n".join(lines)
    return f"\\begin{{align*}}\n{joined}\n\\end{{align*}}"


def derivative_tex(result: str, quantity: str) -> str:
    """A derivative as it stands left of an equation.

    Args:
        result: what is derived [text].
        quantity: by what [text].

    Returns:
        LaTeX [text].
    """
    return rf"\frac{{\partial {_tex_name(result)}}}{{\partial {_tex_name(quantity)}}}"


def python_source(formula: Formula) -> str:
    """A formula as a Python function of its symbols; run, the file prints the result.

    Args:
        formula: the formula.

    Returns:
        Source text, without any dependency [text].
    """
    parts = [(part.name, written(part.expression)) for part in formula.definitions]
    final = written(formula.expression)
    used = {word for _, expression in (*parts, ("", final)) for word in _WORD.findall(expression)}
    imports = sorted(source for name, source in _FUNCTIONS.items() if name in used)
    name = f"{formula.name}_residual" if formula.is_implicit else formula.name
    what = (
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
        f'    """{what}{f" of {_in_docstring(formula.title)}" if formula.title else ""}.',
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
    """A text inside a docstring as `repr` would write it in these quotes: it never ends them."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def _values(formula: Formula) -> dict[str, float]:
    return {
        **{name: entry.value for name, entry in formula.inputs.items()},
        **{part.name: part.value for part in formula.definitions},
    }


def _with_numbers(expression: str, values: dict[str, float]) -> str:
    """An expression with rounded numbers in the place of its symbols."""
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
    """LaTeX in which floats are short and names read as in the method."""

    def _print_Float(self, expr: Any) -> str:  # noqa: N802  sympy's name
        return _tex_float(float(expr))

    def _print_Symbol(self, expr: Any, style: str = "plain") -> str:  # noqa: ARG002, N802  sympy's name
        return _tex_name(expr.name)


def _tex(expression: Any) -> str:
    """An expression in LaTeX."""
    return str(_Tex({"mul_symbol": "dot", "fold_short_frac": False}).doprint(sympy.sympify(expression, strict=True)))


def _tex_float(value: float) -> str:
    mantissa, _, exponent = repr(value).partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _tex_number(value: float, unit: str) -> str:
    return _tex_float(value) + (rf"\ \mathrm{{{unit}}}" if unit != "1" else "")


def _tex_name(name: str) -> str:
    """A symbol's name: its head as a letter, the rest as an index."""
    head, _, rest = name.partition("_")
    if head in _GREEK and rest:
        which, _, kernel = rest.partition("_")
        index = (
            rf"{which},\mathrm{{{_spaced(kernel)}}}" if len(which) == 1 and kernel else rf"\mathrm{{{_spaced(rest)}}}"
        )
        return rf"{_GREEK[head]}_{{{index}}}"
    if head in _SIDES and rest:
        return rf"{_SIDES[head]}_{{\mathrm{{{_spaced(rest)}}}}}"
    return rf"\mathrm{{{_spaced(name)}}}"


def _spaced(name: str) -> str:
    return name.replace("_", r"\ ")
