"""The home of numpy: arrays as a kind of number, which enter here as float64."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.numbers.operations import Operations, element, register
from roofline.support.errors import BadInput, shown

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame  # noqa: PLC0414 - the type of an answer elsewhere

#: Arrays of an answer, one element for each case: numbers, conditions and texts.
Array: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Words: TypeAlias = NDArray[np.str_]

_ARRAYS = Operations(
    maximum=lambda a, b, _: np.maximum(a, b),
    minimum=lambda a, b, _: np.minimum(a, b),
    ceil=lambda a, _: np.ceil(a),
    where=np.where,
    cbrt=np.cbrt,
)
register(np.ndarray, _ARRAYS)
register(np.generic, _ARRAYS)

_Run = Callable[..., tuple[Any, ...]]
_BLOCK = 1 << 14  # elements whose buffers stay in the cache of a core


def as_array(name: str, value: Any) -> Any:
    """A float or a float64 array from anything numpy reads as numbers; `name` is for the error message.

    Integers become float64: token counts times widths would silently overflow int64.
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
    """Gauss quadrature against a standard normal, or a uniform density from -1 to 1: weights and places.

    Args:
        law: ``hermite`` for the normal, ``legendre`` for the uniform density.
        count: n nodes, exact for polynomials up to degree 2n - 1 [1].

    Returns:
        Pairs of a weight and a place; weights sum to one [1].

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


def block_functions() -> dict[str, Callable[..., Any]]:
    """Functions of numpy by name that array programs call, with the buffer for the result as the last argument."""
    named = (
        "add", "subtract", "multiply", "divide", "negative", "power", "mod", "absolute", "maximum", "minimum", "ceil",
        "floor", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or",
        "logical_not", "sqrt", "cbrt", "exp", "copyto",
    )  # fmt: skip
    return {name: getattr(np, name) for name in named} | {"turned": turned_by_element}


def groups_of(numbers: Any) -> list[tuple[float, Any]]:
    """Distinct numbers of an array in ascending order, with the places of each in the flattened array."""
    flat = np.ravel(numbers)
    return [(float(number), np.flatnonzero(flat == number)) for number in np.unique(flat)]


def taken(value: Any, shape: tuple[int, ...], places: Any) -> Any:
    """Elements of an array, broadcast to a shape and flattened; a single number stays one."""
    return np.broadcast_to(value, shape).reshape(-1)[places] if getattr(value, "shape", ()) else value


def cases_of(values: tuple[Any, ...], most: int) -> tuple[tuple[int, ...], list[tuple[float, ...]]]:
    """Shape of numbers and arrays that broadcast, and the numbers of each case; none where there are too many."""
    shape = np.broadcast_shapes(*(getattr(value, "shape", ()) for value in values))
    if np.prod(shape) > most:
        return shape, []
    columns = (np.broadcast_to(value, shape).ravel().tolist() for value in values)
    return shape, list(zip(*columns, strict=True))


def stacked(answers: list[Any], shape: tuple[int, ...]) -> Any:
    """Arrays of a shape from nested tuples of numbers, one for each element."""
    first = answers[0]
    if not isinstance(first, tuple):
        return np.array(answers).reshape(shape)
    parts = [stacked(list(part), shape) for part in zip(*answers, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def scattered(values: Any, places: Any, shape: tuple[int, ...], dtype: Any = None) -> Any:
    """An array of a shape from flat parts or single values, each with its places in the flattened array."""
    kind = np.result_type(*(np.asarray(value).dtype for value in values)) if dtype is None else dtype
    whole = np.empty(int(np.prod(shape)), kind)
    for value, where in zip(values, places, strict=True):
        whole[where] = value
    return whole.reshape(shape)


def elements(values: Any, shape: tuple[int, ...]) -> list[Any]:
    """Elements of nested lists, or of one value for all, in the order of the flattened array of a shape."""
    return list(np.broadcast_to(np.array(values, dtype=object), shape).ravel().tolist())


def first_elements(values: Any, shape: tuple[int, ...], most: int) -> list[Any]:
    """The first elements of an array, or of one value for all, in the order of the flattened array of a shape.

    >>> first_elements([[1.0], [2.0]], (2, 3), 4), first_elements("fp8", (2, 3), 2)
    ([1.0, 1.0, 1.0, 2.0], ['fp8', 'fp8'])
    """
    first: list[Any] = np.broadcast_to(np.asarray(values), shape).flat[:most].tolist()
    return first


def listed(values: Any) -> list[Any]:
    """An array as nested lists; None in place of numbers that are not finite."""
    if values.dtype.kind == "f":
        values = np.where(np.isfinite(values), values, None)
    elif values.dtype.kind == "O":
        flat = (None if isinstance(one, float) and not isfinite(one) else one for one in values.ravel().tolist())
        values = np.fromiter(flat, object, values.size).reshape(values.shape)
    whole: list[Any] = values.tolist()
    return whole


def data_frame_of(rows: Iterable[Mapping[str, object]]) -> DataFrame:
    """A data frame of flat rows; pandas is optional, and imported here alone."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise BadInput(
            "to_pandas needs pandas: pip install pandas; to_rows gives the same rows as dictionaries"
        ) from None
    return DataFrame(rows)


class in_blocks:  # noqa: N801  a function with a part that other programs call
    """A program over blocks as a function of floats and of arrays that broadcast together.

    Memory holds one block and the results. `run` takes the length of a block, its values, then `floats` buffers for
    numbers and `flags` buffers for conditions; `is_array` says which values are arrays.
    """

    def __init__(self, run: _Run, is_array: tuple[bool, ...], floats: int, flags: int) -> None:
        self._run = run
        self._is_array = is_array
        self._buffers = floats, flags

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        is_array = self._is_array
        arrays = np.broadcast_arrays(*(value for value, varies in zip(values, is_array, strict=True) if varies))
        shape, size = arrays[0].shape, arrays[0].size
        flat = iter([np.ascontiguousarray(array, dtype=np.float64).reshape(-1) for array in arrays])
        inputs = [next(flat) if varies else value for value, varies in zip(values, is_array, strict=True)]
        results: list[Any] = []
        with np.errstate(all="ignore"), _ARENA.lent(*self._buffers) as buffers:
            for start in range(0, size, _BLOCK):
                end = min(start + _BLOCK, size)
                blocks = (value[start:end] if varies else value for value, varies in zip(inputs, is_array, strict=True))
                parts = self._run(end - start, *blocks, *_cut(buffers, end - start))
                if not results:
                    results = [np.empty(size, part.dtype) if hasattr(part, "dtype") else part for part in parts]
                for result, part in zip(results, parts, strict=True):
                    if hasattr(part, "dtype"):
                        result[start:end] = part
        return tuple(result.reshape(shape) if hasattr(result, "dtype") else result for result in results)

    def block(self, length: int, *values: Any) -> list[Any]:
        """The results of one block, for another program."""
        with _ARENA.lent(*self._buffers) as buffers:
            parts = self._run(length, *values, *_cut(buffers, length))
            return [part.copy() if hasattr(part, "dtype") else part for part in parts]


class _Arena(threading.local):
    """Arrays of a block that programs of a thread lend each other: whoever is called last gives back first."""

    def __init__(self) -> None:
        self._arrays: dict[Any, list[Any]] = {np.float64: [], np.bool_: []}
        self._lent: dict[Any, int] = {np.float64: 0, np.bool_: 0}

    @contextmanager
    def lent(self, floats: int, flags: int) -> Iterator[list[Any]]:
        """Arrays for so many numbers and conditions."""
        counts = {np.float64: floats, np.bool_: flags}
        lent: list[Any] = []
        for kind, count in counts.items():
            arrays, start = self._arrays[kind], self._lent[kind]
            arrays += [np.empty(_BLOCK, kind) for _ in range(start + count - len(arrays))]
            lent += arrays[start : start + count]
            self._lent[kind] += count
        try:
            yield lent
        finally:
            for kind, count in counts.items():
                self._lent[kind] -= count


_ARENA = _Arena()


def _cut(arrays: list[Any], length: int) -> list[Any]:
    return arrays if length == _BLOCK else [array[:length] for array in arrays]


_SPARSE = 0.8  # share of elements that go on, below which the others are left behind


def turned_by_element(
    turn: _Run,
    buffers: tuple[int, int],
    most: int,
    length: int,
    begins: Any,
    start: tuple[Any, ...],
    known: tuple[Any, ...],
) -> list[Any]:
    """A loop over the elements of a block: each takes its own number of turns.

    Args:
        turn: a function of the length, what turns, what does not, and buffers; the new numbers and which go on.
        buffers: how many it takes, for numbers and conditions.
        most: turns.
        length: elements.
        begins: whether there is a first turn.
        start: numbers before it.
        known: what a turn reads and does not change.

    Returns:
        The numbers after the last turn of each element.
    """
    whole = [np.array(np.broadcast_to(value, length), dtype=_kind(value)) for value in start]
    places = None  # of the elements that go on; None: all
    if begins is not True:
        places = np.flatnonzero(np.broadcast_to(begins, length))
        if places.size == length:
            places = None
    state = whole if places is None else [value[places] for value in whole]
    fixed = known if places is None else [element(value, places) for value in known]
    count, stopped = length if places is None else places.size, None
    for _ in range(most if count else 0):
        with _ARENA.lent(*buffers) as room:
            *after, goes_on = turn(count, *state, *fixed, *_cut(room, count))
            after = [np.array(np.broadcast_to(value, count), dtype=_kind(value)) for value in after]
        going = np.array(np.broadcast_to(goes_on, count))
        if stopped is not None:
            for value, before in zip(after, state, strict=True):
                np.copyto(value, before, where=stopped)
            going &= ~stopped
        state, left = after, int(np.count_nonzero(going))
        if left == 0:
            break
        stopped = None if left == count else ~going
        if left < _SPARSE * count:
            _put(whole, state, places)
            kept = np.flatnonzero(going)
            places = kept if places is None else places[kept]
            state, fixed = [value[kept] for value in state], [element(value, kept) for value in fixed]
            count, stopped = left, None
    _put(whole, state, places)
    return whole


def _put(whole: list[Any], parts: list[Any], places: Any) -> None:
    for place, part in enumerate(parts):
        if places is None:
            whole[place] = part
        else:
            whole[place][places] = part


def _kind(value: Any) -> Any:
    return getattr(value, "dtype", np.bool_ if type(value) is bool else np.float64)
