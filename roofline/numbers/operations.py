"""The few operations beyond ``+ - * / **`` that a formula may use, for every kind of number.

A formula written with them runs unchanged on floats, numpy arrays, symbols, traced numbers and spreadsheet cells.
Each kind registers its operations from its own module (`register`), so this module imports none of them.

A choice may carry a meaning: what happens where its two sides are equal, such as ``a window is filled``. Kinds that
record choices, as traced numbers do, keep it; the others ignore it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from roofline.numbers.quantity import rounded, to_text
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple

#: A number of any kind: float, numpy array, symbol, spreadsheet cell.
Real = Any
_Record = TypeVar("_Record")

_PLAIN = frozenset({float, int})
_CUBIC = 3.0

#: One round of a fixed-point iteration.
_Round = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def _compared(relation: Callable[[Real, Real], Real], a: Real, b: Real, _: str) -> Real:
    return relation(a, b)


class Operations(NamedTuple):
    """What one kind of number can do; texts are the meanings of choices, empty where none is given."""

    maximum: Callable[[Real, Real, str], Real]
    minimum: Callable[[Real, Real, str], Real]
    ceil: Callable[[Real, str], Real]
    where: Callable[[Real, Real, Real], Real]
    compared: Callable[[Callable[[Real, Real], Real], Real, Real, str], Real] = _compared  # by a relation such as <
    cbrt: Callable[[Real], Real] | None = None  # cube root, where it is more than a power
    settled: Callable[[_Round, tuple[Any, ...], Any], tuple[Real, ...]] | None = None  # derivatives at a fixed point
    repeated: Callable[..., tuple[Real, ...]] | None = None  # a loop that ends on a condition; `roots.repeated`
    outlined: Callable[..., Any] | None = None  # a part of a calculation as a function of its own


_REGISTRY: dict[type, Operations] = {}


def register(kind: type, operations: Operations) -> None:
    """Make a type and its subclasses a kind of number."""
    _REGISTRY[kind] = operations


def operations_of(*values: Real) -> Operations:
    """Operations of the one kind that the values have, floats apart."""
    for value in values:
        for base in type(value).__mro__:
            operations = _REGISTRY.get(base)
            if operations is not None and base not in _PLAIN:
                return operations
    if all(isinstance(value, (float, int)) for value in values):
        return _FLOATS
    kinds = ", ".join(type(value).__name__ for value in values)
    raise BadInput(
        f"no operations are registered for {kinds}; for numpy arrays import roofline.numbers.arrays, "
        "for sympy expressions roofline.formulas.closed"
    )


def maximum(a: Real, b: Real, meaning: str = "") -> Real:
    """Larger of two numbers, element by element.

    >>> maximum(2.0, 3.0)
    3.0
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a if a >= b else b
    return operations_of(a, b).maximum(a, b, meaning)


def minimum(a: Real, b: Real, meaning: str = "") -> Real:
    """Smaller of two numbers, element by element.

    >>> minimum(2.0, 3.0)
    2.0
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a if a <= b else b
    return operations_of(a, b).minimum(a, b, meaning)


def ceil(a: Real, meaning: str = "") -> Real:
    """Smallest whole number not below a number.

    >>> ceil(2.1)
    3.0
    """
    if type(a) in _PLAIN:
        return float(math.ceil(a)) if math.isfinite(a) else a
    return operations_of(a).ceil(a, meaning)


def floor(a: Real, meaning: str = "") -> Real:
    """Largest whole number not above a number.

    >>> floor(2.9)
    2.0
    """
    return 0.0 - ceil(-a, meaning)


def where(condition: Real, a: Real, b: Real) -> Real:
    """One of two numbers, by a condition, element by element.

    >>> where(1.0 < 2.0, 3.0, 4.0)
    3.0
    """
    if condition is True:
        return a
    if condition is False:
        return b
    return operations_of(condition).where(condition, a, b)


def above(a: Real, b: Real, meaning: str = "") -> Real:
    """`a > b`, with a meaning.

    >>> above(3.0, 2.0, "the second rank begins")
    True
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a > b
    return operations_of(a, b).compared(operator.gt, a, b, meaning)


def below(a: Real, b: Real, meaning: str = "") -> Real:
    """`a < b`, with a meaning.

    >>> below(3.0, 2.0, "the second rank ends")
    False
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a < b
    return operations_of(a, b).compared(operator.lt, a, b, meaning)


def at_most(a: Real, b: Real, meaning: str = "") -> Real:
    """`a <= b`, with a meaning.

    >>> at_most(2.0, 2.0, "the third rank begins")
    True
    """
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a <= b
    return operations_of(a, b).compared(operator.le, a, b, meaning)


def never(condition: Real) -> bool:
    """Whether a condition is known to fail for every case, so that what depends on it can be left out.

    Known are comparisons of floats, and of traced numbers by their values. Cells, symbols and arrays stay open: they
    stand for other cases, have no value yet, or share one list of kernels.

    >>> never(1.0 > 2.0), never(1.0 < 2.0)
    (True, False)
    """
    return condition is False


def always(condition: Real) -> bool:
    """Whether a condition is known to hold for every case; see `never`.

    >>> always(1.0 < 2.0), always(1.0 > 2.0)
    (True, False)
    """
    return condition is True


def plain(number: Any) -> float:
    """The value of a number that carries derivatives or its trace; any other number itself.

    >>> plain(2.0)
    2.0
    """
    stays = type(number) in _PLAIN or getattr(number, "stands_for_others", False)  # as cells do, whose numbers change
    value: float = number if stays else getattr(number, "value", number)
    return number if value is None else value  # a symbol without a value


def norm(a: Real, b: Real, p: float, meaning: str = "") -> Real:
    r"""Smooth maximum :math:`\lVert a, b \rVert_p = (a^p + b^p)^{1/p}` of two non-negative numbers.

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
    if p == _CUBIC and ((type(a) in _PLAIN and type(b) in _PLAIN) or operations_of(a, b).cbrt):
        return cube_root(a * a * a + b * b * b)
    return (a**p + b**p) ** (1.0 / p)


def cube_root(a: Real) -> Real:
    """Cube root of a number that is not negative, to the bit as programs compute it.

    >>> round(cube_root(27.0), 12)  # the last bit is the C library's
    3.0
    """
    if type(a) in _PLAIN:
        return math.cbrt(a)
    root = operations_of(a).cbrt
    return a ** (1.0 / _CUBIC) if root is None else root(a)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal: arrays element by element, NaN to NaN.

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
    """Decorator of records that may hold arrays: equal where all fields are the `same`.

    A dataclass must be written with ``eq=False``. A record with an array has no hash.
    """
    names: tuple[str, ...] = getattr(record, "__match_args__", ())

    def equal(one: Any, other: Any) -> Any:
        if one is other:
            return True
        if type(one) is not type(other):
            return NotImplemented
        return all(same(getattr(one, name), getattr(other, name)) for name in names)

    def differs(one: Any, other: Any) -> Any:
        is_equal = equal(one, other)
        return is_equal if is_equal is NotImplemented else not is_equal

    def hashed(one: Any) -> int:
        return hash(tuple(getattr(one, name) for name in names))

    methods = {"__eq__": equal, "__ne__": differs, "__hash__": vars(record).get("__hash__") or hashed}
    for name, method in methods.items():
        setattr(record, name, method)
    return record


def outlined(name: str, compute: Callable[..., Any], among: Real, *values: Any) -> Any:
    """`compute(*values)`; a graph that is printed may hold it as a function, once for all places that use it.

    Args:
        name: of such a function.
        compute: the calculation, of numbers and records of numbers.
        among: one of the numbers.
        values: what it takes; all else that it reads is the same in all places.

    Returns:
        Its results.
    """
    if type(among) is float:
        return compute(*values)
    operations = operations_of(among)
    return compute(*values) if operations.outlined is None else operations.outlined(name, compute, among, values)


_FLOATS = Operations(
    maximum=lambda a, b, _: max(a, b),
    minimum=lambda a, b, _: min(a, b),
    ceil=lambda a, _: float(math.ceil(a)),
    where=lambda condition, a, b: a if condition else b,
)


# Questions about the elements of a number, which may be an array, and their text for people.


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


def element(values: Any, place: Any) -> Any:
    """Elements of an array by their places, or the single value that stands for all of them.

    >>> element(3.0, 7)
    3.0
    """
    return values[place] if getattr(values, "shape", ()) else values


def largest_of(values: Real) -> float:
    """Largest element.

    >>> largest_of(2.0)
    2.0
    """
    return float(values.max()) if hasattr(values, "max") else values


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


# Types of the numbers in an answer: floats for one case, arrays for many.

if TYPE_CHECKING:  # at run time neither numpy nor the defaults of PEP 696 are there
    from typing_extensions import TypeVar as TypeVarWithDefault

    Number = TypeVarWithDefault("Number", bound=Any, default=float)
    Flag = TypeVarWithDefault("Flag", bound=Any, default=bool)
    Word = TypeVarWithDefault("Word", bound=Any, default=str)
else:
    Number, Flag, Word = (TypeVar(name) for name in ("Number", "Flag", "Word"))

#: A number, or a text such as 4k, for one case; a list, an array or a column with one for each of many.
Numbers: TypeAlias = float | str | Iterable[float | str]

#: What JSON holds.
Json: TypeAlias = "str | float | Sequence[Json] | Mapping[str, Json] | None"
