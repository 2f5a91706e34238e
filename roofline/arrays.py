"""numpy's home: arrays as a kind of number, and the door through which they enter as float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.errors import BadInput, shown
from roofline.ops import Operations, register

__all__ = ["as_array"]

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
        raise BadInput(f"{name} = {shown(value)} is neither a number nor an array of numbers")
    if numbers.size == 0:
        raise BadInput(f"{name} is an empty array")
    return float(numbers) if numbers.ndim == 0 else numbers
