"""numpy's home: arrays as a kind of number, and the door through which they enter as float64."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.errors import BadInput, shown
from roofline.ops import Operations, register

__all__ = ["Array", "Flags", "Words", "as_array", "gauss_nodes"]

#: Arrays of an answer, one element a case: numbers, conditions and texts.
Array: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Words: TypeAlias = NDArray[np.str_]

_ARRAYS = Operations(
    maximum=lambda a, b, _: np.maximum(a, b),
    minimum=lambda a, b, _: np.minimum(a, b),
    ceil=lambda a, _: np.ceil(a),
    where=np.where,
)
register(np.ndarray, _ARRAYS)
register(np.generic, _ARRAYS)


def as_array(name: str, value: Any) -> Any:
    """A float, or a float64 array of any shape, from whatever numpy can read as numbers.

    Integers become float64: token counts times widths overflow int64 silently.

    Args:
        name: what the value is, for the message [text].
        value: number, sequence, array, pandas or polars column [any].

    Returns:
        A float for a scalar, else a float64 array of the same shape [as `value`].

    Raises:
        BadInput: not numbers, or an empty array.
    """
    try:
        array = np.asarray(value)
        numbers = array.astype(np.float64) if array.dtype.kind in "iuf" else None
    except (TypeError, ValueError):
        numbers = None
    if numbers is None:
        raise BadInput(f"{name} = {shown(value)} must be a number or an array of numbers")
    if numbers.size == 0:
        raise BadInput(f"{name} must not be an empty array")
    return float(numbers) if numbers.ndim == 0 else numbers


def gauss_nodes(law: str, count: int) -> list[tuple[float, float]]:
    """Weights and places that integrate against a law: a normal of unit variance, or an even one from -1 to 1.

    Args:
        law: ``hermite`` for the normal, ``legendre`` for the even one [text].
        count: of the nodes: polynomials up to twice as many less one are integrated exactly [1].

    Returns:
        Weights, which sum to one, and places [1].

    Source:
        Abramowitz and Stegun, Handbook of Mathematical Functions, 25.4.46 and 25.4.29.

    >>> [(round(weight, 12), round(place, 12)) for weight, place in gauss_nodes("hermite", 2)]
    [(0.5, -1.0), (0.5, 1.0)]
    """
    if law == "hermite":
        places, weights = np.polynomial.hermite_e.hermegauss(count)
    else:
        places, weights = np.polynomial.legendre.leggauss(count)
    total = float(weights.sum())
    return [(float(weight) / total, float(place)) for place, weight in zip(places, weights, strict=True)]
