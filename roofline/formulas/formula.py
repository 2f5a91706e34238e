"""The closed form of a traced number in named parts, its derivatives, and its solution for an input."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import sympy

from roofline.formulas.expressions import Calculus, Printer, coefficients, exact, expression_text
from roofline.formulas.inputs import Input
from roofline.ops import Real
from roofline.physics.forward import Pass
from roofline.records import NamedTuple
from roofline.symbolic.gradient import follows, gradient
from roofline.symbolic.graph import INPUT, Node
from roofline.symbolic.values import OPERATIONS

_NOTHING = 2.0**-44  # a coefficient that contributes less is the residue of terms that cancel
_COEFFICIENTS = {-2: "over_square_of_{}", -1: "over_{}", 0: "without_{}", 1: "per_{}", 2: "per_square_of_{}"}
_FUNCTIONS = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}


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
        return float(eval(text, {"__builtins__": {}, **_FUNCTIONS}, {**self._inputs, **known}))  # noqa: S307  our own text

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
