"""sympy numbers, symbols, derivatives and texts of expressions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import sympy
from sympy.printing.str import StrPrinter

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
