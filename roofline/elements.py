"""Questions about the elements of a number, which may be an array, and their text for people."""

from __future__ import annotations

import math

from roofline.ops import Real
from roofline.quantity import rounded, to_text


def any_of(condition: Real) -> bool:
    """Whether a condition holds for any element.

    >>> any_of(1.0 < 2.0)
    True
    """
    return bool(condition.any()) if hasattr(condition, "any") else bool(condition)


def all_of(condition: Real) -> bool:
    """Whether a condition holds for every element.

    >>> all_of(1.0 < 2.0)
    True
    """
    return bool(condition.all()) if hasattr(condition, "all") else bool(condition)


def negated(condition: Real) -> Real:
    """Whether a condition fails, element by element.

    >>> negated(1.0 < 2.0)
    False
    """
    return not condition if type(condition) is bool else ~condition


def is_nan(number: Real) -> Real:
    """Whether a number is not known, element by element.

    >>> is_nan(float("nan")), is_nan(1.0)
    (True, False)
    """
    return number != number  # noqa: PLR0124


def largest_of(values: Real) -> float:
    """Largest element.

    >>> largest_of(2.0)
    2.0
    """
    return values if type(values) is float else float(values.max())


def smallest_of(values: Real) -> float:
    """Smallest element.

    >>> smallest_of(2.0)
    2.0
    """
    return values if type(values) is float else float(values.min())


def figure_text(value: Real, unit: str | None = None) -> str:
    """A number in three digits.

    >>> figure_text(0.0448, "s"), figure_text(None)
    ('44.8 ms', '-')
    """
    if not isinstance(value, (float, int)) or not math.isfinite(value):
        return "-" if value is None or isinstance(value, float) else str(value)
    return rounded(value) if unit is None else to_text(value, unit)


def span_text(value: Real, unit: str | None = None) -> str:
    """A number in three digits, or the range of an array; NaN is left out.

    >>> span_text(0.0448, "s")
    '44.8 ms'
    """
    if not getattr(value, "shape", ()):
        return figure_text(value, unit)
    known = sorted(item for item in value.ravel().tolist() if not math.isnan(item))
    return " to ".join(dict.fromkeys(figure_text(item, unit) for item in (*known[:1], *known[-1:]))) or "-"
