"""sympy's home: numbers, symbols, derivatives and texts of expressions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import sympy
from sympy.printing.str import StrPrinter

__all__ = ["Calculus", "Printer", "coefficients", "exact", "symbol_of", "written"]

_MOST_EXACT = 2**53  # larger whole numbers are not exact in a float
_MOST_DENOMINATOR = 64


class Calculus:
    """Derivatives of many expressions that share most of their parts."""

    def __init__(self) -> None:
        self._partials: dict[tuple[Any, Any], Any] = {}
        self._symbols: dict[Any, set[Any]] = {}

    def symbols(self, expression: Any) -> set[Any]:
        """Symbols of an expression.

        Args:
            expression: sympy expression.

        Returns:
            The symbols.
        """
        found = self._symbols.get(expression)
        if found is None:
            found = expression.free_symbols
            self._symbols[expression] = found
        return found

    def partial(self, expression: Any, symbol: Any) -> Any:
        """Partial derivative: of sums and products by the part that holds the symbol, ten times quicker than whole.

        Args:
            expression: sympy expression.
            symbol: the symbol.

        Returns:
            The sympy expression.
        """
        found = self._partials.get((expression, symbol))
        if found is not None:
            return found
        held = [part for part in expression.args if symbol in self.symbols(part)]
        if expression.is_Add:
            found = sympy.Add(*(self.partial(part, symbol) for part in held))
        elif expression.is_Mul and len(held) == 1:
            rest = [part for part in expression.args if part is not held[0]]
            found = sympy.Mul(*rest, self.partial(held[0], symbol))
        else:
            found = self._leaf(expression, symbol)
        self._partials[expression, symbol] = found
        return found

    def _leaf(self, expression: Any, symbol: Any) -> Any:
        """Derivative by sympy, once for all expressions that differ in the names of their symbols alone."""
        others = sorted(self.symbols(expression) - {symbol}, key=_name)
        names = dict(zip((symbol, *others), sympy.symbols(f"x:{len(others) + 1}"), strict=True))
        slope = _diff(expression.xreplace(names), names[symbol])
        return slope.xreplace({name: own for own, name in names.items()})


class Printer(StrPrinter):  # type: ignore[misc]  # sympy is untyped
    """Texts in which every float has all of its digits; parts that expressions share are written once.

    Args:
        named: text of a symbol that stands for more; None for others, whose names are written.
    """

    def __init__(self, named: Callable[[Any], str | None] = lambda _: None) -> None:
        super().__init__()
        self._texts: dict[Any, str] = {}
        self._named = named

    def text(self, expression: Any) -> str:
        """An expression as text that Python and sympy read back to the same number.

        Args:
            expression: sympy expression.

        Returns:
            The text; it may use sqrt, log, ceiling and floor [text].
        """
        return str(self.doprint(expression))

    def _print(self, expr: Any, **kwargs: Any) -> str:
        text = self._texts.get(expr)
        if text is None:
            text = str(super()._print(expr, **kwargs))
            self._texts[expr] = text
        return text

    def _print_Symbol(self, expr: Any) -> str:  # noqa: N802  sympy's name
        return self._named(expr) or str(expr.name)

    def _print_Float(self, expr: Any) -> str:  # noqa: N802  sympy's name
        return repr(float(expr))


def written(expression: Any) -> str:
    """An expression as text that Python and sympy read back to the same number.

    Args:
        expression: sympy expression.

    Returns:
        The text; it may use sqrt, log, ceiling and floor [text].
    """
    return Printer().text(expression)


def coefficients(expression: Any, symbol: Any) -> dict[int, Any] | None:
    """Coefficients of a sum of whole powers of a symbol, without expanding what does not hold it.

    Args:
        expression: sympy expression.
        symbol: the symbol.

    Returns:
        Coefficients by power; None where it is no such sum.
    """
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
            products = [(one + other, a * b) for one, a in total.items() for other, b in part.items()]
            total = {power: sum(value for found, value in products if found == power) for power, _ in products}
    return total


def exact(value: float) -> Any:
    """A number for sympy: whole numbers and simple fractions as they are, else the float.

    Args:
        value: the number [any].

    Returns:
        The sympy number.
    """
    if value.is_integer() and abs(value) < _MOST_EXACT:
        return sympy.Integer(int(value))
    near = Fraction(value).limit_denominator(_MOST_DENOMINATOR)
    return sympy.Rational(near.numerator, near.denominator) if float(near) == value else sympy.Float(value)


def symbol_of(name: str) -> Any:
    """The symbol of a name.

    Args:
        name: of an input or of a part of a formula [text].

    Returns:
        The sympy symbol.
    """
    return sympy.Symbol(name)


def _name(symbol: Any) -> str:
    return str(symbol.name)


@cache
def _diff(expression: Any, symbol: Any) -> Any:
    return sympy.diff(expression, symbol)
