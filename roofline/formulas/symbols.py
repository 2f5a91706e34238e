"""Symbolic expressions (sympy) as a kind of number."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.logic.boolalg import Boolean

from roofline.ops import Operations, register


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
