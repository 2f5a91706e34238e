"""Arguments of the public functions, coerced to plain Python values; errors name the argument.

Scalars of numpy, pandas and similar libraries, Decimals, Fractions and enumeration members become the number or text
that they hold, without importing those libraries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set, Sized
from contextlib import suppress
from itertools import islice
from operator import index
from typing import Any

from roofline.errors import BadInput, UnknownName, shown
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

#: Types that need no coercion.
PLAIN = frozenset({int, float, str, bool, type(None)})
#: Types of parallel degrees and numbers of GPUs that need none.
COUNTS = frozenset({int, type(None)})

_EXACT = 2.0**53
_MOST_VALUES = 2_000_000
_NO_NUMBER = ("M", "m")  # numpy kinds of dates and durations, which count in their own units
_BYTES = (bytes, bytearray, memoryview)


def scalar(value: Any) -> Any:
    """The plain value that a scalar stands for.

    >>> from fractions import Fraction
    >>> scalar(Fraction(4, 2)), scalar(Fraction(1, 2)), scalar([2])
    (2, 0.5, [2])
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value).__name__ == "NAType" or isinstance(value, (*_BYTES, Mapping, Set)):
        return None if type(value).__name__ == "NAType" else value
    if getattr(value, "ndim", None) == 0:
        return _item(value)
    return value if isinstance(value, Sized) else _number(value)


def scalars(**arguments: Any) -> tuple[Any, ...]:
    """Plain values of arguments that hold one value each, in the order given."""
    return tuple(_plain(name, value) for name, value in arguments.items())


def number(name: str, value: Any, least: float, most: float) -> float:
    """A number between two bounds, as a float.

    >>> number("burst", 1, 0.0, 1.0)
    1.0
    """
    plain = scalar(value)
    if type(plain) not in (float, int) or not least <= plain <= most:
        raise BadInput(f"{name} = {shown(value)} must be a number between {least:g} and {most:g}")
    return float(plain)


def flag(name: str, value: Any) -> bool:
    plain = scalar(value)
    if type(plain) is not bool:
        raise BadInput(f"{name} = {shown(value)} must be True or False")
    return plain


def path(name: str, value: Any) -> str:
    """A text or a `pathlib.Path`, as text."""
    plain = scalar(value)
    if not isinstance(plain, str) or not plain or "\0" in plain:
        raise BadInput(f"{name} = {shown(value)} must be the path of a file")
    return plain


def folder(specs: Any) -> str | None:
    """A folder of specifications, as text; None for $ROOFLINE_SPECS."""
    plain = scalar(specs)
    if not (plain is None or isinstance(plain, str)):
        raise BadInput(f"specs = {shown(specs)} must be the path of a folder, as text")
    return plain


def name_or_record(name: str, value: Any) -> Any:
    if isinstance(value, (Model, Gpu)):
        return value
    plain = scalar(value)
    if not isinstance(plain, str):
        raise UnknownName(f"{name} = {shown(value)} must be a name, as text, or a record")
    return plain


def several(name: str, value: Any) -> list[Any]:
    """Values of an argument given once or as a sequence, which must not be empty."""
    values = values_of(name, value)
    if values is None:
        return [scalar(value)]
    if not values:
        raise BadInput(f"{name} must not be an empty list")
    return values


def values_of(name: str, value: Any) -> list[Any] | None:
    """Values of a sequence, at most two million; None for a single value."""
    if type(value) in PLAIN or isinstance(value, (str, *_BYTES, Mapping, Model, Gpu)):
        return None
    if isinstance(value, Set) and not hasattr(value, "mapping"):  # dict.keys() is an ordered set
        raise BadInput(f"{name} = {shown(value)} is an unordered set; use a list")
    refuse_masked(name, value)
    many = False
    if isinstance(value, Iterator):
        values = list(islice(value, _MOST_VALUES + 1))
    elif getattr(value, "ndim", None) == 0 or not isinstance(value, Sized):
        return None
    else:
        try:
            many = len(value) > _MOST_VALUES
            items: Any = value.tolist() if hasattr(value, "tolist") and not many else value
            values = [] if many else list(items)
        except TypeError:
            raise BadInput(f"{name} = {shown(value)} must be a list of values") from None
    if many or len(values) > _MOST_VALUES:
        raise BadInput(f"{name} has more than {_MOST_VALUES} values; use fewer at a time")
    plain = [scalar(item) for item in values]
    nested = next((item for item in plain if isinstance(item, (list, tuple)) or hasattr(item, "shape")), None)
    if nested is not None:
        raise BadInput(f"{name} = {shown(value)} contains a list, {shown(nested)}; use one flat list")
    return plain


def refuse_masked(name: str, value: Any) -> None:
    mask = getattr(value, "mask", None) if hasattr(value, "filled") else None
    if mask is not None and getattr(mask, "any", bool)():
        raise BadInput(f"{name} has masked elements; use {name}.compressed() or fill them")


def _plain(name: str, value: Any) -> Any:
    plain = scalar(value)
    if type(plain) not in PLAIN:
        error = UnknownName if name == "engine" else BadInput
        raise error(f"{name} = {shown(value)} must be a single number or text")
    return plain


def _item(value: Any) -> Any:
    """The element of a zero-dimensional array, or of a scalar that behaves like one."""
    refuse_masked("a number", value)
    if getattr(getattr(value, "dtype", None), "kind", "") in _NO_NUMBER:
        return value
    with suppress(AttributeError, TypeError, ValueError):
        item = value.item()
        return item if type(item) in PLAIN else value if item is value else _number(item)
    return value


def _number(value: Any) -> Any:
    """An int where the value is whole, else a float; the value itself where it is not a number."""
    with suppress(TypeError, ValueError, OverflowError):
        return int(index(value))
    with suppress(AttributeError, TypeError, ValueError, OverflowError):
        number = float(value.__float__())
        is_exact = hasattr(value, "as_integer_ratio") and not isinstance(value, float)  # a Fraction, a Decimal
        return int(number) if is_exact and number.is_integer() and abs(number) < _EXACT else number
    return value
