"""Arguments of the public functions as plain Python values: one coercion for all of them, refused by name.

A scalar of numpy, pandas or a library like them, a Decimal, a Fraction and the member of an enumeration stand for the
number or the text that they hold. None of those libraries is imported for it.
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

__all__ = [
    "COUNTS",
    "PLAIN",
    "flag",
    "folder",
    "name_or_record",
    "number",
    "path",
    "refuse_masked",
    "scalar",
    "scalars",
    "several",
    "values_of",
]

#: Types that need no coercion.
PLAIN = frozenset({int, float, str, bool, type(None)})
#: Types of numbers of GPUs that need none.
COUNTS = frozenset({int, type(None)})

_EXACT = 2.0**53
_MOST_VALUES = 2_000_000  # of a sequence that does not say how long it is
_NO_NUMBER = ("M", "m")  # kinds of numpy's dates and durations, which count units of their own
_BYTES = (bytes, bytearray, memoryview)


def scalar(value: Any) -> Any:
    """The plain value that a scalar stands for.

    Args:
        value: of any type [any].

    Returns:
        An int, float, bool, text or None where the value is one or stands for one; else the value itself.

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


def scalars(**given: Any) -> tuple[Any, ...]:
    """Scalars as the plain values that they stand for.

    Args:
        given: arguments that hold one value each, by their names [any].

    Returns:
        The values, in the order given.

    Raises:
        BadInput: an argument that is no scalar.
    """
    return tuple(_plain(name, value) for name, value in given.items())


def number(name: str, value: Any, least: float, most: float) -> float:
    """A number between two bounds.

    Args:
        name: of the argument, for the message [text].
        value: the number [any].
        least: smallest that can be [any].
        most: largest that can be [any].

    Returns:
        The number [any].

    Raises:
        BadInput: no number, or beyond the bounds.

    >>> number("burst", 1, 0.0, 1.0)
    1.0
    """
    found = scalar(value)
    if type(found) not in (float, int) or not least <= found <= most:
        raise BadInput(f"{name} = {shown(value)} must be a number between {least:g} and {most:g}")
    return float(found)


def flag(name: str, value: Any) -> bool:
    """A yes or no.

    Args:
        name: of the argument, for the message [text].
        value: the choice [any].

    Returns:
        The choice [bool].

    Raises:
        BadInput: neither.
    """
    found = scalar(value)
    if type(found) is not bool:
        raise BadInput(f"{name} = {shown(value)} must be True or False")
    return found


def path(name: str, value: Any) -> str:
    """A path of the file system.

    Args:
        name: of the argument, for the message [text].
        value: a text or a `pathlib.Path` [path].

    Returns:
        The path as a text [path].

    Raises:
        BadInput: neither, empty, or with a zero byte.
    """
    found = scalar(value)
    if not isinstance(found, str) or not found or "\0" in found:
        raise BadInput(f"{name} = {shown(value)} must be the path of a file")
    return found


def folder(specs: Any) -> str | None:
    """A folder of specifications of one's own.

    Args:
        specs: a text or a `pathlib.Path`; None for $ROOFLINE_SPECS [path].

    Returns:
        The path as a text [path].

    Raises:
        BadInput: neither.
    """
    found = scalar(specs)
    if not (found is None or isinstance(found, str)):
        raise BadInput(f"specs = {shown(specs)} must be the path of a folder, as text")
    return found


def name_or_record(name: str, value: Any) -> Any:
    """A name, or the record that it would stand for.

    Args:
        name: of the argument, for the message [text].
        value: a text, or a record [any].

    Returns:
        The text, or the record.

    Raises:
        UnknownName: neither.
    """
    if isinstance(value, (Model, Gpu)):
        return value
    found = scalar(value)
    if not isinstance(found, str):
        raise UnknownName(f"{name} = {shown(value)} must be a name, as text, or a record")
    return found


def several(name: str, value: Any) -> list[Any]:
    """Values of an argument that may be given once or several times.

    Args:
        name: of the argument, for the message [text].
        value: a single value; or a list, tuple, range, array, column or iterator of them [any].

    Returns:
        The values, scalars as plain ones [any].

    Raises:
        BadInput: none at all, a set, whose order is that of no one, masked elements, lists within lists.
    """
    values = values_of(name, value)
    if values is None:
        return [scalar(value)]
    if not values:
        raise BadInput(f"{name} must not be an empty list")
    return values


def values_of(name: str, value: Any) -> list[Any] | None:
    """Values of a sequence.

    Args:
        name: of the argument, for the message [text].
        value: of any type [any].

    Returns:
        The values, scalars as plain ones; None where it is a single value [any].

    Raises:
        BadInput: a set, masked elements, lists within lists, an iterator without end.
    """
    if type(value) in PLAIN or isinstance(value, (str, *_BYTES, Mapping, Model, Gpu)):
        return None
    if isinstance(value, Set) and not hasattr(value, "mapping"):  # keys of a mapping have an order
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
    found = [scalar(item) for item in values]
    nested = next((item for item in found if isinstance(item, (list, tuple)) or hasattr(item, "shape")), None)
    if nested is not None:
        raise BadInput(f"{name} = {shown(value)} contains a list, {shown(nested)}; use one flat list")
    return found


def refuse_masked(name: str, value: Any) -> None:
    """Refuse an array of which elements are masked: what they hide is no answer.

    Args:
        name: of the argument, for the message [text].
        value: of any type [any].

    Raises:
        BadInput: an element is masked.
    """
    mask = getattr(value, "mask", None) if hasattr(value, "filled") else None
    if mask is not None and getattr(mask, "any", bool)():
        raise BadInput(f"{name} has masked elements; use {name}.compressed() or fill them")


def _plain(name: str, value: Any) -> Any:
    found = scalar(value)
    if type(found) not in PLAIN:
        error = UnknownName if name == "engine" else BadInput
        raise error(f"{name} = {shown(value)} must be a single number or text")
    return found


def _item(value: Any) -> Any:
    """What an array without axes, or a scalar that behaves like one, holds."""
    refuse_masked("a number", value)
    if getattr(getattr(value, "dtype", None), "kind", "") in _NO_NUMBER:
        return value
    with suppress(AttributeError, TypeError, ValueError):
        found = value.item()
        return found if type(found) in PLAIN else value if found is value else _number(found)
    return value


def _number(value: Any) -> Any:
    """A whole number as an int, another one as a float; the value itself where it is none."""
    with suppress(TypeError, ValueError, OverflowError):
        return int(index(value))
    with suppress(AttributeError, TypeError, ValueError, OverflowError):
        found = float(value.__float__())
        is_exact = hasattr(value, "as_integer_ratio") and not isinstance(value, float)  # a Fraction, a Decimal
        return int(found) if is_exact and found.is_integer() and abs(found) < _EXACT else found
    return value
