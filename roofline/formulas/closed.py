"""The closed form of an answer in sympy: its definitions, its text, its LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import sympy
from sympy.logic.boolalg import Boolean
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from roofline.formulas.case import UNITS, CaseTrace, Input
from roofline.numbers.operations import Json, Operations, Real, maximum, register
from roofline.numbers.quantity import percent_figure, rounded, to_text
from roofline.physics.memory import largest_batch
from roofline.physics.passes import Pass, decode_pass
from roofline.serving.answers import Answer, selected
from roofline.serving.knee import asymptotic_time, half_surplus, is_affine, ridge_knee, ridge_surplus
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.support.errors import BadInput, check_known, printable
from roofline.support.records import NamedTuple
from roofline.symbolic.graph import INPUT, OPERATIONS, Node, depends, follows, gradient

# Symbolic expressions (sympy) as a kind of number.


def _where(condition: Any, a: Any, b: Any) -> Any:
    return sympy.Piecewise((a, condition), (b, True))


_SYMBOLS = Operations(
    maximum=lambda a, b, _: sympy.Max(a, b),
    minimum=lambda a, b, _: sympy.Min(a, b),
    ceil=lambda a, _: sympy.ceiling(a),
    where=_where,
)
register(sympy.Basic, _SYMBOLS)
register(Boolean, _SYMBOLS)


# The closed form of a traced number in named parts, its derivatives, and its solution for an input.

_NOTHING = 2.0**-44  # a coefficient that contributes less is the residue of terms that cancel
_COEFFICIENTS = {-2: "over_square_of_{}", -1: "over_{}", 0: "without_{}", 1: "per_{}", 2: "per_square_of_{}"}
_FLOAT_FUNCTIONS = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}


class Definition(NamedTuple):
    """A named part of a formula."""

    name: str
    expression: Any  # sympy, of inputs and of earlier definitions
    value: float
    is_step: bool = False  # rounded: flat between whole numbers
    inner: Any = None  # what was rounded, where the result moves with it


class Stages:
    """Traced numbers as formulas: kernels and their compute and memory sides have names, the rest is in inputs."""

    def __init__(self) -> None:
        self.definitions: dict[Any, Definition] = {}
        self._known: dict[int, Any] = {}  # by place in the graph
        self._slopes: dict[tuple[Any, Any], Any] = {}
        self._flat: dict[Any, str] = {}
        self._depends: dict[Any, set[Any]] = {}  # symbols that a named one moves with
        self._results: dict[Any, Node] = {}
        self._inputs: dict[str, float] = {}
        self._label = "answer"
        self._printer, self._calculus = Printer(self._bracketed), Calculus()

    def name_kernels(self, passed: Pass, prefix: str = "") -> None:
        """Name the time of every kernel of a pass, apart from those of other passes."""
        self._known = {number.place: symbol for symbol, number in self._results.items()}
        times = []
        for kernel in passed.kernels:
            if isinstance(kernel.terms.total, Node) and kernel.count:
                symbol = self._name_kernel(kernel.terms.total, prefix + _slug(kernel.name))
                times.append(self.expression(kernel.count) * symbol)
            else:
                times.append(exact(float(kernel.time)))
        if isinstance(passed.time, Node):  # kernels of equal time share a node, not a name
            self._known[passed.time.place] = sympy.Add(*times)
        self._label = "answer"

    def name_result(self, name: str, number: Node) -> None:
        """Name a result that others build on, and its derivatives."""
        symbol = self._define(name, self.expression(number), number.value)
        self._known[number.place] = symbol
        self._results[symbol] = number

    def expression(self, number: Real) -> Any:
        """Expression of a traced or plain number."""
        if not isinstance(number, Node):
            return exact(float(number))
        expression = self._known.get(number.place)
        if expression is None:
            expression = self._known[number.place] = self._operation(number)
        return expression

    def derivative(self, expression: Any, name: str) -> Any:
        """Derivative of a formula to an input, through all its named parts."""
        return self._slope(expression, sympy.Symbol(name))

    def flat(self, expression: Any) -> str:
        """A formula in inputs alone, on one line; Python and `sympy.sympify` can read it."""
        return self._printer.text(expression)

    def used(self, *expressions: Any) -> list[Definition]:
        """Definitions that formulas need, each after those it needs itself."""
        needed: set[Any] = set()
        pending = [symbol for expression in expressions for symbol in expression.free_symbols]
        while pending:
            symbol = pending.pop()
            if symbol in self.definitions and symbol not in needed:
                needed.add(symbol)
                pending += self.definitions[symbol].expression.free_symbols
        return [definition for symbol, definition in self.definitions.items() if symbol in needed]

    def symbols(self, known: Mapping[str, Input], *expressions: Any) -> dict[str, Input]:
        """Inputs that formulas depend on, in the order of `known`."""
        parts = [*expressions, *(definition.expression for definition in self.used(*expressions))]
        names = {symbol.name for part in parts for symbol in part.free_symbols}
        return {name: entry for name, entry in known.items() if name in names}

    def solved_for(self, expression: Any, name: str, target: float, near: float) -> tuple[Any, float] | None:
        """Expression and value of the input at which a formula takes the value `target`: the solution nearest `near`.

        None where the formula is not at most quadratic in the input or its inverse.
        """
        symbol = sympy.Symbol(name)
        powers = self._powers(expression, symbol)
        if powers is None:
            return None
        values = {power: self.value_of(coefficient) for power, coefficient in powers.items()}
        values = {power: value for power, value in values.items() if abs(value) * near**power > _NOTHING * target}
        if not set(values) - {0} or max(values) - min(values) > 2:
            return None
        parts = {
            power: self._define(_COEFFICIENTS[power].format(name), powers[power], value)
            for power, value in values.items()
        }
        sought = sum(part * symbol**power for power, part in parts.items()) - sympy.Symbol("target")
        substitutions = {parts[power]: value for power, value in values.items()} | {sympy.Symbol("target"): target}
        solutions = [
            (solution, float(solution.evalf(17, subs=substitutions)))
            for solution in sympy.solve(sympy.expand(sought * symbol ** -min(0, *parts)), symbol)
            if solution.evalf(17, subs=substitutions).is_real
        ]
        return min(solutions, key=lambda solution: abs(solution[1] - near), default=None)

    def value_of(self, expression: Any) -> float:
        """Value of an expression at the present inputs."""
        return self.evaluated(
            expression_text(expression), {part.name: part.value for part in self.definitions.values()}
        )

    def evaluated(self, text: str, known: Mapping[str, float]) -> float:
        """Value of a formula's text; `known` adds values by name."""
        return float(eval(text, {"__builtins__": {}, **_FLOAT_FUNCTIONS}, {**self._inputs, **known}))  # noqa: S307  our own text

    def _powers(self, expression: Any, symbol: Any) -> dict[int, Any] | None:
        """Coefficients of a formula by power of a symbol, through named parts; None where a power is out of range."""
        while True:
            through = {
                part: self.definitions[part].expression
                for part in self._calculus.symbols(expression)
                if symbol in self._depends.get(part, ())
            }
            if not through:
                break
            expression = expression.xreplace(through)
        powers = coefficients(expression, symbol)
        return powers if powers is not None and set(powers) <= set(_COEFFICIENTS) else None

    def _name_kernel(self, total: Node, name: str) -> Any:
        self._label = name
        known = self._known.get(total.place)
        symbol = self._define(f"t_{name}", self._operation(total) if known is None else known, total.value)
        if known is None:
            self._known[total.place] = symbol
        return symbol

    def _operation(self, number: Node) -> Any:
        operation, args = number.operation, number.args
        if operation == INPUT:
            self._inputs[args[0]] = number.value
            return sympy.Symbol(args[0])
        if operation == "**":
            return self._power(number)
        if operation in ("ceil", "floor"):
            return self._rounded(number)
        parts = [self.expression(argument) for argument in args]
        return OPERATIONS[operation](*parts)

    def _rounded(self, number: Node) -> Any:
        inner = self.expression(number.args[0])
        whole = (sympy.ceiling if number.operation == "ceil" else sympy.floor)(inner)
        moving = inner if follows(number) else None
        return self._define(f"whole_{self._label}", whole, number.value, is_step=True, inner=moving)

    def _power(self, number: Node) -> Any:
        """A power, with a name for the base; the two sides of a norm have names of their own."""
        base, order = number.args
        sides = _norm_sides(base, order)
        if sides is not None:
            compute, memory, p = *sides[:2], exact(sides[2])
            left, right = (
                self._symbol_for(f"compute_{self._label}", compute),
                self._symbol_for(f"memory_{self._label}", memory),
            )
            return (left**p + right**p) ** (1 / p)
        return self._symbol_for(f"base_{self._label}", base) ** self.expression(order)

    def _symbol_for(self, name: str, number: Real) -> Any:
        """The symbol of a new definition, unless the number is a single symbol or constant."""
        expression = self.expression(number)
        if expression.is_Atom:
            return expression
        symbol = self._define(name, expression, number.value)
        self._known[number.place] = symbol
        return symbol

    def _define(self, name: str, expression: Any, value: float, *, is_step: bool = False, inner: Any = None) -> Any:
        taken = {definition.name for definition in self.definitions.values()}
        unique, number = name, 2
        while unique in taken:
            unique, number = f"{name}_{number}", number + 1
        symbol = sympy.Symbol(unique)
        self.definitions[symbol] = Definition(unique, expression, value, is_step, inner)
        depends_on = inner if is_step else expression
        direct = set() if depends_on is None else self._calculus.symbols(depends_on)
        self._depends[symbol] = direct.union(*(self._depends.get(part, ()) for part in direct))
        return symbol

    def _slope(self, expression: Any, symbol: Any) -> Any:
        known = self._slopes.get((expression, symbol))
        if known is not None:
            return known
        terms = []
        for part in sorted(self._calculus.symbols(expression), key=lambda part: part.name):
            if part == symbol:
                terms.append(self._calculus.partial(expression, symbol))
            elif symbol in self._depends.get(part, ()):
                through = self._part_derivative(part, symbol)  # first: it may define symbols
                terms.append(self._calculus.partial(expression, part) * through)
        slope = self._slopes[expression, symbol] = sympy.Add(*terms)
        return slope

    def _part_derivative(self, part: Any, symbol: Any) -> Any:
        """Derivative of a named part; that of a named result has a name too."""
        definition = self.definitions[part]
        slope = self._slope(definition.inner if definition.is_step else definition.expression, symbol)
        if part not in self._results:
            return slope
        name = f"d_{part}_d_{symbol}"
        if sympy.Symbol(name) in self.definitions:
            return sympy.Symbol(name)
        return self._define(name, slope, gradient(self._results[part])[symbol.name])

    def _bracketed(self, symbol: Any) -> str | None:
        """A named part in inputs alone; None for an input."""
        if symbol not in self.definitions:
            return None
        bracketed = self._flat.get(symbol)
        if bracketed is None:
            expression = self.definitions[symbol].expression
            text = self.flat(expression)
            bracketed = self._flat[symbol] = text if expression.is_Symbol else f"({text})"
        return bracketed


def _norm_sides(base: Real, order: Real) -> tuple[Node, Node, float] | None:
    """a, b and p of a norm (a^p + b^p)^(1/p); None for any other power."""
    if getattr(base, "operation", "") != "+" or not all(getattr(side, "operation", "") == "**" for side in base.args):
        return None
    (a, p), (b, q) = (side.args for side in base.args)
    is_norm = not isinstance(p, Node) and p == q and order == 1.0 / p
    return (a, b, p) if is_norm and isinstance(a, Node) and isinstance(b, Node) else None


def _slug(name: str) -> str:
    """A kernel's name as part of a symbol."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()


# The closed form of a result and of its derivatives, for one case.

#: An expression of inputs and named parts.
Expression: TypeAlias = "sympy.Expr"


class Formula(Answer[dict[str, Json]]):
    """A number as an expression of inputs and named parts; each part is one of inputs and earlier parts.

    >>> import roofline as rl
    >>> formula = rl.formula("llama-3.1-8b", "h100-sxm", "tpot", basis="ideal")
    >>> formula
    <Formula tpot = 4.53 ms: 12 parts of 7 inputs; decode memory-bound>
    >>> "bandwidth" in formula.flat, "frac" in formula.to_latex(), "def " in formula.to_python()
    (True, True, True)
    >>> formula.to_dict()["unit"]
    's'
    """

    def __init__(
        self,
        name: str,
        value: float,
        unit: str,
        expression: Expression,
        stages: Stages,
        known: Mapping[str, Input],
        regime: str = "",
        *,
        title: str = "",
        is_implicit: bool = False,
        ends: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.title = title  # of the case
        self.value = value
        self.unit = unit
        self.expression = expression  # sympy
        self.regime = regime
        self.is_implicit = is_implicit  # the result is one of the symbols, at whose value the expression is zero
        self.ends = dict(ends or {})  # of the regime, by input
        self.definitions: list[Definition] = stages.used(expression)
        self.inputs: dict[str, Input] = stages.symbols(known, expression)
        self._stages = stages

    def __repr__(self) -> str:
        value = to_text(self.value, self.unit) if self.unit == "s" else f"{rounded(self.value)} {self.unit}"
        parts = f"{len(self.definitions)} parts of {len(self.inputs)} inputs"
        return f"<Formula {self.name} = {value}: {parts}; {self.regime}>"

    @property
    def flat(self) -> str:
        """The whole formula in inputs alone, on one line; Python and `sympy.sympify` can read it."""
        return self._stages.flat(self.expression)

    def __str__(self) -> str:
        """For people: in symbols, in numbers, and the values of parts and symbols."""
        return readable(self)

    def to_latex(self) -> str:
        """LaTeX, as an ``align*`` of amsmath."""
        return latex(self)

    def to_python(self) -> str:
        """Source of a Python function of the symbols; run as a script, it prints the result."""
        return python_source(self)

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The result, its formula, and the values of its symbols.

        Args:
            keys: the keys to keep; None for all.
        """
        return cells(selected(FORMULA_KEYS, keys), self)


#: Keys of a row.
FORMULA_KEYS: Keys[Formula] = {
    **taken(SHARED, result=lambda f: f.name, value=None, unit=None, formula=lambda f: f.flat),
    "is_implicit": Key.flag("Whether the result is where the formula is zero.", is_open=False),
    **taken(SHARED, symbols=lambda f: {name: entry.value for name, entry in f.inputs.items()}, regime=None),
    "regime_ends": Key(
        "mapping", None, "Inputs whose change ends the regime, and what then bounds the case.", lambda f: f.ends
    ),
}


class ClosedForms:
    """Formulas of the results of one case."""

    def __init__(self, case: CaseTrace) -> None:
        self.case = case
        self.stages = Stages()
        self._expressions: dict[str, Any] = {}
        for result, (name, passed) in zip(("ttft", "tpot"), case.passes("e2el"), strict=False):
            self.stages.name_kernels(passed, f"{name}_")
            number: Any = case.number(result)
            self.stages.name_result(result, number)
            self._expressions[result] = self.stages.definitions[self.stages.expression(number)].expression

    def expression(self, result: str) -> Any:
        """Expression of a result, of inputs and the named parts in `stages`."""
        expression = self._expressions.get(result)
        if expression is None:
            number = self.case.number(result)
            if number is None:
                raise BadInput(f"{result} needs at least two output tokens; osl is 1")
            expression = self._expressions[result] = self.stages.expression(number)
        return expression

    def formula(self, result: str) -> Formula:
        """Closed form of a result."""
        return Formula(
            result,
            getattr(self.case.prediction, result),
            UNITS[result],
            self.expression(result),
            self.stages,
            self.case.inputs,
            self.case.regime(result),
            title=self.case.title,
            ends={name: text for name in self.case.inputs if (text := self._end(result, name))},
        )

    def _end(self, result: str, name: str) -> str:
        """Where the regime ends along an input; empty where it does not."""
        if not depends(self.case.number(result), name):
            return ""
        change, label = self.case.margin(result, name)
        return "" if change is None else f"regime ends at {'+' * (change > 0.0)}{percent_figure(change)} %: {label}"

    def derivative(self, result: str, name: str) -> Any:
        return self.stages.derivative(self.expression(result), name)

    def derivative_text(self, result: str, name: str) -> str:
        """The derivative in inputs alone, on one line."""
        return self.stages.flat(self.derivative(result, name))

    def solved(self, result: str, name: str, target: float) -> Formula | None:
        """Closed form of the input at which a result [s] meets a target in this regime; None where there is none."""
        solution = self.stages.solved_for(self.expression(result), name, target, self.case.inputs[name].value)
        if solution is None:
            return None
        expression, _ = solution
        value = self.stages.evaluated(self.stages.flat(expression), {"target": target})
        known = {
            **self.case.inputs,
            "target": Input("target", "target", UNITS[result], target, f"target of {result}"),
        }
        unit, regime = self.case.inputs[name].unit, self.case.regime(result)
        return Formula(name, value, unit, expression, self.stages, known, regime, title=self.case.title)


# A formula as text: for people, as LaTeX, as Python source.

_DIGITS = 5
_FIGURES, _MOST_COUNTED = 6, 2**40
_MATH_IMPORTS = {"ceiling": "ceil as ceiling", "floor": "floor", "log": "log", "sqrt": "sqrt"}
_WORD = re.compile(r"[A-Za-z_]\w*")
_WIDTH = 80
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
        f"{formula.name} = {_figure(formula.value)} {formula.unit}",
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
    parts = [f"  {part.name} = {expression_text(part.expression)} = {_figure(part.value)}" for part in definitions]
    width = max((len(name) for name in inputs), default=0)
    symbols = [
        f"  {name.ljust(width)} = {_figure(entry.value)} {entry.unit if entry.unit != '1' else ''}".rstrip()
        + f"  ({printable(entry.meaning)})"
        + (f"  {printable(ends[name])}" if ends and name in ends else "")
        for name, entry in inputs.items()
    ]
    return [*(["", "where", *parts] if parts else []), "", "with", *symbols]


def _figure(value: Any) -> str:
    """A number in full where it is a count, else in six digits."""
    is_count = float(value).is_integer() and abs(value) < _MOST_COUNTED
    return f"{value:.0f}" if is_count else f"{value:.{_FIGURES}g}"


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
    imports = sorted(source for name, source in _MATH_IMPORTS.items() if name in used)
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


# sympy numbers, symbols, derivatives and texts of expressions.

_MOST_EXACT = 2**53  # a float is not exact for larger whole numbers
_MOST_DENOMINATOR = 64


class Calculus:
    """Derivatives of many expressions that share most of their parts."""

    def __init__(self) -> None:
        self._partials: dict[tuple[Any, Any], Any] = {}
        self._symbols: dict[Any, set[Any]] = {}

    def symbols(self, expression: Any) -> set[Any]:
        symbols = self._symbols.get(expression)
        if symbols is None:
            symbols = self._symbols[expression] = expression.free_symbols
        return symbols

    def partial(self, expression: Any, symbol: Any) -> Any:
        """Partial derivative, term by term: ten times faster than sympy on a whole sum or product."""
        known = self._partials.get((expression, symbol))
        if known is not None:
            return known
        moving = [part for part in expression.args if symbol in self.symbols(part)]
        if expression.is_Add:
            slope = sympy.Add(*(self.partial(part, symbol) for part in moving))
        elif expression.is_Mul and len(moving) == 1:
            rest = [part for part in expression.args if part is not moving[0]]
            slope = sympy.Mul(*rest, self.partial(moving[0], symbol))
        else:
            slope = self._by_sympy(expression, symbol)
        self._partials[expression, symbol] = slope
        return slope

    def _by_sympy(self, expression: Any, symbol: Any) -> Any:
        """Derivative by sympy, shared by expressions that differ only in the names of their symbols."""
        others = sorted(self.symbols(expression) - {symbol}, key=lambda other: other.name)
        names = dict(zip((symbol, *others), sympy.symbols(f"x:{len(others) + 1}"), strict=True))
        slope = _diff(expression.xreplace(names), names[symbol])
        return slope.xreplace({name: original for original, name in names.items()})


class Printer(StrPrinter):  # type: ignore[misc]  # sympy is untyped
    """Text that Python and sympy read back to the same number; it may use sqrt, log, ceiling and floor.

    `named` gives the text of a symbol that stands for an expression, None for any other symbol.
    """

    def __init__(self, named: Callable[[Any], str | None] = lambda _: None) -> None:
        super().__init__()
        self._texts: dict[Any, str] = {}
        self._named = named

    def text(self, expression: Any) -> str:
        return str(self.doprint(expression))

    def _print(self, expr: Any, **kwargs: Any) -> str:
        text = self._texts.get(expr)
        if text is None:
            text = self._texts[expr] = str(super()._print(expr, **kwargs))
        return text

    def _print_Symbol(self, expr: Any) -> str:  # noqa: N802  sympy's name
        return self._named(expr) or str(expr.name)

    def _print_Float(self, expr: Any) -> str:  # noqa: N802  sympy's name
        return repr(float(expr))


def expression_text(expression: Any) -> str:
    return Printer().text(expression)


def coefficients(expression: Any, symbol: Any) -> dict[int, Any] | None:
    """Coefficients by power of a symbol, other factors unexpanded; None where there is a power that is not whole."""
    if symbol not in expression.free_symbols:
        return {0: expression}
    base, order = expression.as_base_exp()
    if base == symbol and order.is_Integer:
        return {int(order): sympy.Integer(1)}
    if not (expression.is_Add or expression.is_Mul):
        return None
    total: dict[int, Any] = {} if expression.is_Add else {0: sympy.Integer(1)}
    for part in (coefficients(part, symbol) for part in expression.args):
        if part is None:
            return None
        if expression.is_Add:
            total = {power: total.get(power, 0) + part.get(power, 0) for power in (*total, *part)}
        else:
            products = [(i + j, a * b) for i, a in total.items() for j, b in part.items()]
            total = {power: sum(value for order, value in products if order == power) for power, _ in products}
    return total


def exact(value: float) -> Any:
    """A sympy number: an exact integer or simple fraction where the float is one, else a Float."""
    if value.is_integer() and abs(value) < _MOST_EXACT:
        return sympy.Integer(int(value))
    near = Fraction(value).limit_denominator(_MOST_DENOMINATOR)
    return sympy.Rational(near.numerator, near.denominator) if float(near) == value else sympy.Float(value)


_diff = cache(sympy.diff)


# The knees of the decode batch as formulas: a closed form, or the equation that the knee solves.

_ZERO = 2.0**-30

#: `knee` is the one that binds, the smallest.
KNEES = ("knee", "ridge_knee", "half_knee", "memory_knee")


def knee_formula(case: CaseTrace, which: str = "knee") -> Formula:
    """Formula of a knee; implicit but for the memory's and, without experts, the ridge's."""
    check_known("knee", which, KNEES)
    prediction = case.prediction
    if which == "knee":
        if prediction.knee_bound == "slo":
            raise BadInput(
                f"the knee ({rounded(float(prediction.knee or 0.0))}) is set by the SLO and has no formula; use "
                "solve for batch says the batch at which a limit is just met"
            )
        which = f"{prediction.knee_bound}_knee"
    value = getattr(prediction.knees, which.removesuffix("_knee"))
    if value is None or value in (0.0, float("inf")):
        raise BadInput(f"{which} has no formula here: {'there is none' if not value else 'no batch reaches it'}")
    stages = Stages()
    deployment, workload = case.traced.deployment, case.traced.workload
    steps = maximum(workload.osl - 1.0, 1.0)

    passes: list[tuple[str, Pass]] = []

    def step(batch: Real) -> Pass:
        passed = decode_pass(deployment, batch, workload.isl, steps)
        passes.append(("" if isinstance(batch, Node) else "asymptote_", passed))
        return passed

    slope: Real | None = None
    known = {**case.inputs, which: Input(which, "result", "sequences", value, "the knee")}
    if which == "memory_knee":
        number, is_implicit = largest_batch(deployment, workload.isl + workload.osl), False
    elif which == "ridge_knee" and is_affine(prediction.deployment):
        number, is_implicit = ridge_knee(step, affine=True), False
    else:
        slope = None if which == "ridge_knee" else asymptotic_time(step)
        surplus = ridge_surplus(step) if slope is None else half_surplus(step, slope)
        number, is_implicit = surplus(case.trace.input(which, value)), True
    if is_implicit and abs(number.value) > _ZERO * prediction.decode.time:
        raise BadInput(f"{which} = {rounded(value)} has no formula here: with dp, the batch per rank moves in steps")
    for name, passed in passes:
        stages.name_kernels(passed, name)
    if isinstance(slope, Node):
        stages.name_result("time_per_sequence", slope)
    if not isinstance(number, Node):
        raise BadInput(f"{which} = {rounded(value)} has no formula here: it is a bound")
    return Formula(
        which,
        value,
        "sequences",
        stages.expression(number),
        stages,
        known,
        case.regime("tpot"),
        title=case.title,
        is_implicit=is_implicit,
    )
