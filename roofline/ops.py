"""The few operations beyond ``+ - * / **`` that a formula may use, over every kind of number.

A formula written with these runs unchanged on floats, numpy arrays, symbols and whatever kind of
number comes later. Each kind registers its operations from its own home (`register`), so that this
module imports none of them.

A choice may say what it means: what happens where its two sides are equal, such as ``a window is
filled``. Kinds that keep record of choices, as traced numbers do, keep it with them; others leave it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

from roofline.errors import BadInput
from roofline.records import NamedTuple

__all__ = [
    "Operations",
    "Real",
    "above",
    "always",
    "at_most",
    "below",
    "ceil",
    "comparable",
    "floor",
    "maximum",
    "minimum",
    "never",
    "norm",
    "operations_of",
    "plain",
    "register",
    "same",
    "where",
]

#: A number of any kind: float, numpy array, symbol, spreadsheet cell.
Real = Any
_Record = TypeVar("_Record")

_PLAIN = frozenset({float, int})
_CUBIC = 3.0


#: A calculation that gives the next of some numbers.
_Round = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def _compared(relation: Callable[[Real, Real], Real], a: Real, b: Real, _: str) -> Real:
    return relation(a, b)


class Operations(NamedTuple):
    """What one kind of number can do; the text is what a choice means, empty where it was not said."""

    maximum: Callable[[Real, Real, str], Real]
    minimum: Callable[[Real, Real, str], Real]
    ceil: Callable[[Real, str], Real]
    where: Callable[[Real, Real, Real], Real]
    compared: Callable[[Callable[[Real, Real], Real], Real, Real, str], Real] = _compared  # by a relation such as <
    cbrt: Callable[[Real], Real] | None = None  # cube root, where it is more than a power
    settled: Callable[[_Round, tuple[Any, ...], Any], tuple[Real, ...]] | None = None  # at a fixed point
    repeated: Callable[..., tuple[Real, ...]] | None = None  # of a loop whose end is open; `roots.repeated`


_REGISTRY: dict[type, Operations] = {}


def register(kind: type, operations: Operations) -> None:
    """Make a type a kind of number: its operations serve it and its subclasses.

    Args:
        kind: type of the numbers, or of the conditions that comparing them gives [type].
        operations: how to do each operation on them [record].
    """
    _REGISTRY[kind] = operations


def operations_of(*values: Real) -> Operations:
    """Operations of the kind of some numbers, of which those that are no floats are of one.

    Args:
        values: the numbers [any].

    Returns:
        The operations.
    """
    for value in values:
        for base in type(value).__mro__:
            found = _REGISTRY.get(base)
            if found is not None and base not in _PLAIN:
                return found
    if all(isinstance(value, (float, int)) for value in values):
        return _FLOATS
    kinds = ", ".join(type(value).__name__ for value in values)
    raise BadInput(
        f"no operations are registered for {kinds}; for numpy arrays import roofline.arrays, "
        "for sympy expressions roofline.formulas.symbols"
    )


def maximum(a: Real, b: Real, meaning: str = "") -> Real:
    """Larger of two numbers, element by element.

    Args:
        a: number [any].
        b: number [any].
        meaning: what happens where both are equal [text].

    Returns:
        The larger [any].

    >>> maximum(2.0, 3.0)
    3.0
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a if a >= b else b
    return operations_of(a, b).maximum(a, b, meaning)


def minimum(a: Real, b: Real, meaning: str = "") -> Real:
    """Smaller of two numbers, element by element.

    Args:
        a: number [any].
        b: number [any].
        meaning: what happens where both are equal [text].

    Returns:
        The smaller [any].

    >>> minimum(2.0, 3.0)
    2.0
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a if a <= b else b
    return operations_of(a, b).minimum(a, b, meaning)


def ceil(a: Real, meaning: str = "") -> Real:
    """Smallest whole number not below a number.

    Args:
        a: number [any].
        meaning: what happens where it is whole [text].

    Returns:
        The whole number, of the kind of `a` (a float for a float) [any].

    >>> ceil(2.1)
    3.0
    """
    if type(a) in _PLAIN:
        return float(math.ceil(a)) if math.isfinite(a) else a
    return operations_of(a).ceil(a, meaning)


def floor(a: Real, meaning: str = "") -> Real:
    """Largest whole number not above a number.

    Args:
        a: number [any].
        meaning: what happens where it is whole [text].

    Returns:
        The whole number [any].

    >>> floor(2.9)
    2.0
    """
    return 0.0 - ceil(-a, meaning)


def where(condition: Real, a: Real, b: Real) -> Real:
    """One of two numbers, by a condition, element by element.

    Args:
        condition: what a comparison of two numbers gives [condition].
        a: number where it holds [any].
        b: number where it does not [any].

    Returns:
        `a` or `b` [any].

    >>> where(1.0 < 2.0, 3.0, 4.0)
    3.0
    """
    if condition is True:
        return a
    if condition is False:
        return b
    return operations_of(condition).where(condition, a, b)


def above(a: Real, b: Real, meaning: str = "") -> Real:
    """Whether a number exceeds another: `a > b`, and what it means.

    Args:
        a: number [any].
        b: number [any].
        meaning: what happens where both are equal [text].

    Returns:
        The condition [condition].

    >>> above(3.0, 2.0, "the second rank begins")
    True
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a > b
    return operations_of(a, b).compared(operator.gt, a, b, meaning)


def below(a: Real, b: Real, meaning: str = "") -> Real:
    """Whether a number is less than another: `a < b`, and what it means.

    Args:
        a: number [any].
        b: number [any].
        meaning: what happens where both are equal [text].

    Returns:
        The condition [condition].

    >>> below(3.0, 2.0, "the second rank ends")
    False
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a < b
    return operations_of(a, b).compared(operator.lt, a, b, meaning)


def at_most(a: Real, b: Real, meaning: str = "") -> Real:
    """Whether a number is no more than another: `a <= b`, and what it means.

    Args:
        a: number [any].
        b: number [any].
        meaning: what happens where both are equal [text].

    Returns:
        The condition [condition].

    >>> at_most(2.0, 2.0, "the third rank begins")
    True
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a <= b
    return operations_of(a, b).compared(operator.le, a, b, meaning)


def never(condition: Real) -> bool:
    """Whether a condition is settled and fails: what depends on it need not be written down.

    Args:
        condition: what a comparison of two numbers gives [condition].

    Returns:
        True where a comparison of floats, or of traced numbers by their values, fails. Not where it is open: a cell
        may be asked another case, a symbol has no value yet, and the cases of an array share one list of kernels,
        whatever its elements say [bool].

    >>> never(1.0 > 2.0), never(1.0 < 2.0)
    (True, False)
    """
    return condition is False


def always(condition: Real) -> bool:
    """Whether a condition is settled and holds: what its failure would bring need not be written down.

    Args:
        condition: what a comparison of two numbers gives [condition].

    Returns:
        True where a comparison of floats, or of traced numbers by their values, holds; not where it is open, as with
        `never` [bool].

    >>> always(1.0 < 2.0), always(1.0 > 2.0)
    (True, False)
    """
    return condition is True


def plain(number: Any) -> float:
    """The value alone of a number that remembers more than it.

    Args:
        number: number [any].

    Returns:
        The value of a number that carries derivatives; any other number itself [any].

    >>> plain(2.0)
    2.0
    """
    value: float = number if type(number) in _PLAIN else getattr(number, "value", number)
    return number if value is None else value  # an open number has none


def norm(a: Real, b: Real, p: float, meaning: str = "") -> Real:
    r"""Smooth maximum :math:`\lVert a, b \rVert_p = (a^p + b^p)^{1/p}` of two non-negative numbers.

    Args:
        a: non-negative number [any].
        b: non-negative number [any].
        p: order: 1 is the sum, infinity the maximum [1].
        meaning: what happens where the maximum changes sides [text].

    Returns:
        A number between the maximum and the sum [any].

    >>> norm(3.0, 4.0, 2.0)
    5.0
    """
    if p == 1.0:
        return a + b
    if p == math.inf:
        return maximum(a, b, meaning)
    if type(a) in _PLAIN and a == 0.0:
        return b
    if type(b) in _PLAIN and b == 0.0:
        return a
    if p == _CUBIC:  # as programs compute it, to the bit
        root = math.cbrt if type(a) in _PLAIN and type(b) in _PLAIN else operations_of(a, b).cbrt
        if root is not None:
            return root(a * a * a + b * b * b)
    return (a**p + b**p) ** (1.0 / p)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, arrays of one shape element by element, and what does not apply (NaN) to itself.

    Args:
        a: number, text, or a collection of them [any].
        b: likewise [any].

    Returns:
        One answer, whatever the values hold [bool].

    >>> same((1.0, "fp8", float("nan")), (1, "fp8", float("nan")))
    True
    """
    if a is b:
        return True
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if getattr(a, "shape", ()) != getattr(b, "shape", ()):
        return False
    if getattr(a, "shape", ()):
        return bool(((a == b) | ((a != a) & (b != b))).all())  # noqa: PLR0124  # NaN alone differs from itself
    return bool(a == b) or (isinstance(a, float) and bool(a != a) and bool(b != b))  # noqa: PLR0124


def comparable(record: type[_Record]) -> type[_Record]:
    """Decorator of records that may hold arrays: they are equal where all fields are the `same`.

    Args:
        record: a named tuple, or a dataclass that is written with ``eq=False`` [type].

    Returns:
        The same class [type]. Its hash, where it states none, is that of its fields: one with an array has none.
    """
    names: tuple[str, ...] = getattr(record, "__match_args__", ())

    def equal(one: Any, other: Any) -> Any:
        if one is other:
            return True
        if type(one) is not type(other):
            return NotImplemented
        return all(same(getattr(one, name), getattr(other, name)) for name in names)

    def differs(one: Any, other: Any) -> Any:
        found = equal(one, other)
        return found if found is NotImplemented else not found

    def hashed(one: Any) -> int:
        return hash(tuple(getattr(one, name) for name in names))

    methods = {"__eq__": equal, "__ne__": differs, "__hash__": vars(record).get("__hash__") or hashed}
    for name, method in methods.items():
        setattr(record, name, method)
    return record


_FLOATS = Operations(
    maximum=lambda a, b, _: max(a, b),
    minimum=lambda a, b, _: min(a, b),
    ceil=lambda a, _: float(math.ceil(a)),
    where=lambda condition, a, b: a if condition else b,
)
