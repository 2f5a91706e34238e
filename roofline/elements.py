"""Questions about all elements of a number, which may be an array of them."""

from __future__ import annotations

from roofline.ops import Real

__all__ = ["all_of", "any_of", "largest_of"]


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
