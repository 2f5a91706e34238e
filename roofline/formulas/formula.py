"""The closed form of a traced number in named stages, its derivatives, and its solution for an input."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import sympy

from roofline.formulas.expressions import Calculus, Printer, coefficients, exact, symbol_of, written
from roofline.formulas.inputs import Input
from roofline.ops import Real
from roofline.physics.forward import Pass
from roofline.records import NamedTuple
from roofline.symbolic.gradient import follows, gradient
from roofline.symbolic.graph import INPUT, Node

__all__ = ["Definition", "Stages"]

_NOTHING = 2.0**-44  # coefficients that contribute less are sums that cancel
_COEFFICIENTS = {-2: "over_square_of_{}", -1: "over_{}", 0: "without_{}", 1: "per_{}", 2: "per_square_of_{}"}
_FUNCTIONS = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}


class Definition(NamedTuple):
    """A named part of a formula."""

    name: str
    expression: Any  # sympy, of inputs and of earlier definitions
    value: float
    is_step: bool = False  # rounded up: flat between whole numbers
    inner: Any = None  # what was rounded


class Stages:
    """A traced number as a formula in stages: kernels and their two sides by name, everything else in inputs."""

    def __init__(self) -> None:
        self.definitions: dict[Any, Definition] = {}
        self._known: dict[int, Any] = {}  # by place in the graph
        self._slopes: dict[tuple[Any, Any], Any] = {}
        self._flat: dict[Any, str] = {}
        self._depends: dict[Any, set[Any]] = {}  # symbols that the value of a named one moves with
        self._results: dict[Any, Node] = {}
        self._inputs: dict[str, float] = {}
        self._label = "answer"
        self._printer, self._calculus = Printer(self._bracketed), Calculus()

    def name_kernels(self, passed: Pass, prefix: str = "") -> None:
        """Name the time of every kernel of a pass; numbers that another pass has, too, get names of their own.

        Args:
            passed: the pass, on traced numbers.
            prefix: before every name [text].
        """
        self._known = {number.place: symbol for symbol, number in self._results.items()}
        times = []
        for kernel in passed.kernels:
            if isinstance(kernel.terms.total, Node) and kernel.count:
                symbol = self._name_kernel(kernel.terms.total, prefix + _slug(kernel.name))
                times.append(self.expression(kernel.count) * symbol)
            else:
                times.append(exact(float(kernel.time)))
        if isinstance(passed.time, Node):  # by the names of all, also of kernels that take as long as another
            self._known[passed.time.place] = sympy.Add(*times)
        self._label = "answer"

    def name_result(self, name: str, number: Node) -> None:
        """Name a result that further ones build on; its derivatives get names, too.

        Args:
            name: of the result [text].
            number: the result, on traced numbers.
        """
        symbol = self._define(name, self.expression(number), number.value)
        self._known[number.place] = symbol
        self._results[symbol] = number

    def expression(self, number: Real) -> Any:
        """Formula of a number.

        Args:
            number: traced, or a plain float [any].

        Returns:
            The sympy expression, of inputs and of what was named.
        """
        if not isinstance(number, Node):
            return exact(float(number))
        found = self._known.get(number.place)
        if found is None:
            found = self._known[number.place] = self._built(number)
        return found

    def derivative(self, expression: Any, name: str) -> Any:
        """Derivative of a formula to an input, through everything it is built on.

        Args:
            expression: sympy expression of inputs and of what was named.
            name: of the input [text].

        Returns:
            The sympy expression.
        """
        return self._slope(expression, symbol_of(name))

    def flat(self, expression: Any) -> str:
        """A formula as one line of inputs alone, readable by Python and by `sympy.sympify`.

        Args:
            expression: sympy expression of inputs and of what was named.

        Returns:
            The text; it may use sqrt, log, ceiling and floor [text].
        """
        return self._printer.text(expression)

    def used(self, *expressions: Any) -> list[Definition]:
        """Definitions that formulas build on, in an order in which each needs only earlier ones.

        Args:
            expressions: sympy expressions.

        Returns:
            The definitions.
        """
        wanted: set[Any] = set()
        open_ = [symbol for expression in expressions for symbol in expression.free_symbols]
        while open_:
            symbol = open_.pop()
            if symbol in self.definitions and symbol not in wanted:
                wanted.add(symbol)
                open_ += self.definitions[symbol].expression.free_symbols
        return [definition for symbol, definition in self.definitions.items() if symbol in wanted]

    def symbols(self, known: Mapping[str, Input], *expressions: Any) -> dict[str, Input]:
        """Inputs that formulas depend on.

        Args:
            known: inputs by name.
            expressions: sympy expressions.

        Returns:
            Inputs by name, in the order in which they are known.
        """
        parts = [*expressions, *(definition.expression for definition in self.used(*expressions))]
        names = {symbol.name for part in parts for symbol in part.free_symbols}
        return {name: entry for name, entry in known.items() if name in names}

    def solved_for(self, expression: Any, name: str, target: float, near: float) -> tuple[Any, float] | None:
        """Closed form of the input at which a formula takes a value.

        Args:
            expression: sympy expression of inputs and of what was named.
            name: of the input [text].
            target: value of the expression [any].
            near: value of the input near which to take the solution [any].

        Returns:
            The sympy expression of other inputs, of the symbol ``target`` and of coefficients that get names, and its
            value; None where the formula is no quadratic or simpler function of the input or of its inverse.
        """
        symbol = symbol_of(name)
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
        sought = sum(part * symbol**power for power, part in parts.items()) - symbol_of("target")
        at = {parts[power]: value for power, value in values.items()} | {symbol_of("target"): target}
        solutions = [
            (solution, float(solution.evalf(17, subs=at)))
            for solution in sympy.solve(sympy.expand(sought * symbol ** -min(0, *parts)), symbol)
            if solution.evalf(17, subs=at).is_real
        ]
        return min(solutions, key=lambda solution: abs(solution[1] - near), default=None)

    def value_of(self, expression: Any) -> float:
        """Value of an expression at the present inputs.

        Args:
            expression: sympy expression of inputs and of what was named.

        Returns:
            The value [any].
        """
        return self.evaluated(written(expression), {part.name: part.value for part in self.definitions.values()})

    def evaluated(self, text: str, known: Mapping[str, float]) -> float:
        """Value of a formula's text.

        Args:
            text: of inputs and of what else is known [text].
            known: further values by name [any].

        Returns:
            The value [any].
        """
        return float(eval(text, {"__builtins__": {}, **_FUNCTIONS}, {**self._inputs, **known}))  # noqa: S307  our own text

    def _powers(self, expression: Any, symbol: Any) -> dict[int, Any] | None:
        """Coefficients of a formula by powers of a symbol; None where it is no sum of whole powers."""
        while True:
            through = {
                part: self.definitions[part].expression
                for part in self._calculus.symbols(expression)
                if symbol in self._depends.get(part, ())
            }
            if not through:
                break
            expression = expression.xreplace(through)
        found = coefficients(expression, symbol)
        return found if found is not None and set(found) <= set(_COEFFICIENTS) else None

    def _name_kernel(self, total: Node, name: str) -> Any:
        self._label = name
        known = self._known.get(total.place)
        symbol = self._define(f"t_{name}", self._built(total) if known is None else known, total.value)
        if known is None:
            self._known[total.place] = symbol
        return symbol

    def _built(self, number: Node) -> Any:
        """Expression of one operation on numbers."""
        operation, args = number.operation, number.args
        if operation == INPUT:
            self._inputs[args[0]] = number.value
            return symbol_of(args[0])
        if operation == "**":
            return self._power(number)
        if operation in ("ceil", "floor"):
            return self._rounded(number)
        parts = [self.expression(argument) for argument in args]
        match operation:
            case "+":
                return parts[0] + parts[1]
            case "-":
                return parts[0] - parts[1]
            case "neg":
                return -parts[0]
            case "*":
                return parts[0] * parts[1]
            case _:
                return parts[0] / parts[1]

    def _rounded(self, number: Node) -> Any:
        """A number rounded up, or down."""
        inner = self.expression(number.args[0])
        whole = (sympy.ceiling if number.operation == "ceil" else sympy.floor)(inner)
        followed = inner if follows(number) else None
        return self._define(f"whole_{self._label}", whole, number.value, is_step=True, inner=followed)

    def _power(self, number: Node) -> Any:
        """A power; what is raised gets a name, the two sides of a norm theirs."""
        base, order = number.args
        sides = _sides(base, order)
        if sides is not None:
            compute, memory, p = *sides[:2], exact(sides[2])
            one, other = self._named(f"compute_{self._label}", compute), self._named(f"memory_{self._label}", memory)
            return (one**p + other**p) ** (1 / p)
        return self._named(f"base_{self._label}", base) ** self.expression(order)

    def _named(self, name: str, number: Real) -> Any:
        """A part under a name, where it is more than one symbol or number."""
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
        symbol = symbol_of(unique)
        self.definitions[symbol] = Definition(unique, expression, value, is_step, inner)
        follows = inner if is_step else expression
        direct = set() if follows is None else self._calculus.symbols(follows)
        self._depends[symbol] = direct.union(*(self._depends.get(part, ()) for part in direct))
        return symbol

    def _slope(self, expression: Any, symbol: Any) -> Any:
        found = self._slopes.get((expression, symbol))
        if found is not None:
            return found
        terms = []
        for part in sorted(self._calculus.symbols(expression), key=lambda part: part.name):
            if part == symbol:
                terms.append(self._calculus.partial(expression, symbol))
            elif symbol in self._depends.get(part, ()):
                through = self._through(part, symbol)
                terms.append(self._calculus.partial(expression, part) * through)
        found = sympy.Add(*terms)
        self._slopes[expression, symbol] = found
        return found

    def _through(self, part: Any, symbol: Any) -> Any:
        """Derivative of a named part; of a named result under a name of its own."""
        definition = self.definitions[part]
        slope = self._slope(definition.inner if definition.is_step else definition.expression, symbol)
        if part not in self._results:
            return slope
        name = f"d_{part}_d_{symbol}"
        if symbol_of(name) in self.definitions:
            return symbol_of(name)
        return self._define(name, slope, gradient(self._results[part])[symbol.name])

    def _bracketed(self, symbol: Any) -> str | None:
        """What a symbol stands for, in inputs alone; None for an input."""
        if symbol not in self.definitions:
            return None
        found = self._flat.get(symbol)
        if found is None:
            expression = self.definitions[symbol].expression
            text = self.flat(expression)
            found = self._flat[symbol] = text if expression.is_Symbol else f"({text})"
        return found


def _sides(base: Real, order: Real) -> tuple[Node, Node, float] | None:
    """Both sides and p where (a^p + b^p)^(1/p) is taken, else None."""
    if getattr(base, "operation", "") != "+" or not all(getattr(side, "operation", "") == "**" for side in base.args):
        return None
    (one, p), (other, q) = (side.args for side in base.args)
    is_norm = not isinstance(p, Node) and p == q and order == 1.0 / p
    return (one, other, p) if is_norm and isinstance(one, Node) and isinstance(other, Node) else None


def _slug(name: str) -> str:
    """A kernel's name as part of a symbol."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
