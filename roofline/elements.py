"""Questions about all elements of a number, which may be an array of them, and their text for people."""

from __future__ import annotations

import math

from roofline.ops import Real
from roofline.quantity import rounded, to_text

__all__ = ["all_of", "any_of", "figure_text", "largest_of", "negated", "smallest_of", "span_text"]


def any_of(condition: Real) -> bool:
    """Whether a condition holds for any element.

    Args:
        condition: of a number, or of the elements of an array [condition].

    Returns:
        Whether it does [bool].

    >>> any_of(1.0 < 2.0)
    True
    """
    return bool(condition.any()) if hasattr(condition, "any") else bool(condition)


def all_of(condition: Real) -> bool:
    """Whether a condition holds for every element.

    Args:
        condition: of a number, or of the elements of an array [condition].

    Returns:
        Whether it does [bool].

    >>> all_of(1.0 < 2.0)
    True
    """
    return bool(condition.all()) if hasattr(condition, "all") else bool(condition)


def negated(condition: Real) -> Real:
    """Whether a condition fails, element by element.

    Args:
        condition: of a number, or of the elements of an array [condition].

    Returns:
        The condition that holds where it does not [condition].

    >>> negated(1.0 < 2.0)
    False
    """
    return not condition if type(condition) is bool else ~condition


def largest_of(values: Real) -> float:
    """Largest element.

    Args:
        values: a number, or an array of them [any].

    Returns:
        A float [any].

    >>> largest_of(2.0)
    2.0
    """
    return values if type(values) is float else float(values.max())


def smallest_of(values: Real) -> float:
    """Smallest element.

    Args:
        values: a number, or an array of them [any].

    Returns:
        A float [any].

    >>> smallest_of(2.0)
    2.0
    """
    return values if type(values) is float else float(values.min())


def figure_text(value: Real, unit: str | None = None) -> str:
    """A number at three digits.

    Args:
        value: number; None for what does not apply [any].
        unit: SI unit that takes a prefix; None for a bare number [text].

    Returns:
        Text; a dash for what does not apply or is not finite [text].

    >>> figure_text(0.0448, "s"), figure_text(None)
    ('44.8 ms', '-')
    """
    if not isinstance(value, (float, int)) or not math.isfinite(value):
        return "-" if value is None or isinstance(value, float) else str(value)
    return rounded(value) if unit is None else to_text(value, unit)


def span_text(value: Real, unit: str | None = None) -> str:
    """A number at three digits, or the range of the elements of an array; NaN is left out.

    Args:
        value: a number, or an array of them [any].
        unit: SI unit that takes a prefix; None for bare numbers [text].

    Returns:
        Text such as ``44.8 ms`` or ``500 to 1000`` [text].

    >>> span_text(0.0448, "s")
    '44.8 ms'
    """
    if not getattr(value, "shape", ()):
        return figure_text(value, unit)
    known = sorted(item for item in value.ravel().tolist() if not math.isnan(item))
    return " to ".join(dict.fromkeys(figure_text(item, unit) for item in (*known[:1], *known[-1:]))) or "-"
