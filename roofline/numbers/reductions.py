"""What is kept of many rows, by groups: the best, a frontier, counts in bins; of a block, and merged in any order.

Every function keeps rows by a total order, figures first and then their numbers, so that the same rows are kept however
they were divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.numbers.arrays import Array, Flags
from roofline.numbers.columns import Column, combinations_of

Whole: TypeAlias = NDArray[np.int64]  # counts, and places of rows

#: Edges of bins that hold for any figure: ten a decade, the preferred numbers R10 of ISO 3.
_R10 = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")
_DECADES = range(-9, 13)


def decimal_edges() -> tuple[float, ...]:
    """Ten edges a decade, from a billionth to nearly ten trillion.

    >>> [edge for edge in decimal_edges() if 1.0 <= edge <= 4.0]
    [1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0]
    """
    return tuple(float(f"{number}e{decade}") for decade in _DECADES for number in _R10)


def row_groups(columns: Mapping[str, Column], keys: Sequence[str], rows: int) -> tuple[list[tuple[Any, ...]], Whole]:
    """The groups of some rows by their values of keys, and which of them each row is in."""
    if not keys:
        return [()], np.zeros(rows, dtype=np.int64)
    listed: list[Any] = [columns[key] for key in keys]
    first, which = combinations_of([_codes(column) for column in listed], rows)
    return [tuple(column.listed(place, place + 1)[0] for column in listed) for place in first], which


def _codes(column: Any) -> Whole:
    """Whole numbers that tell the values of a column apart."""
    if hasattr(column, "codes"):
        codes: Whole = column.codes.astype(np.int64)
        return codes
    return np.unique(column.values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def rows_with(column: Any, word: Any) -> Flags:
    """Whether each row of a column of words has a word."""
    codes = [place for place, known in enumerate(column.words) if known is word or known == word]
    found: Flags = np.isin(column.codes, codes)
    return found


def points_of(figures: Sequence[Array], usable: Flags | None, start: int) -> tuple[Array, Whole]:
    """Rows of figures and their numbers, of those that have all of them; and their places."""
    known = np.logical_and.reduce([np.isfinite(figure) for figure in figures])
    places = np.flatnonzero(known if usable is None else known & usable).astype(np.int64)
    columns = [*(figure[places] for figure in figures), (places + start).astype(np.float64)]
    return np.stack(columns, axis=1), places


def divided(points: Array, which: Whole, count: int) -> list[Array]:
    """Points of each of so many groups."""
    if count == 1:
        return [points]
    order = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[order], np.arange(1, count))
    return np.split(points[order], ends)


def best(points: Array, sides: Sequence[float], count: int) -> Array:
    """The best points by their only figure; of equal ones those with the smallest number.

    Args:
        points: figure and number of a row each [any].
        sides: 1.0 where more is better, -1.0 where less is [1].
        count: how many are kept [1].

    >>> best(np.array([[2.0, 0], [1.0, 7], [1.0, 3]]), (-1.0,), 2).tolist()
    [[1.0, 3.0], [1.0, 7.0]]
    """
    worth = -sides[0] * points[:, 0]
    if len(points) > 4 * count:  # fewer to sort: what is no worse than the last that is kept
        within = worth <= np.partition(worth, count - 1)[count - 1]
        points, worth = points[within], worth[within]
    return points[np.lexsort((points[:, 1], worth))[:count]]


def frontier(points: Array, sides: Sequence[float]) -> Array:
    """The points that no other one beats in both figures, the best first figure first; of equal ones the first.

    Args:
        points: two figures and the number of a row each [any].
        sides: 1.0 where more is better, -1.0 where less is [1].

    Source:
        The maxima of Kung, Luccio and Preparata, "On finding the maxima of a set of vectors", JACM 22(4), 1975.

    >>> frontier(np.array([[1.0, 5.0, 0], [3.0, 2.0, 1], [2.0, 2.0, 2], [3.0, 2.0, 3]]), (1.0, 1.0)).tolist()
    [[3.0, 2.0, 1.0], [1.0, 5.0, 0.0]]
    """
    if not len(points):
        return points
    x, y = -sides[0] * points[:, 0], -sides[1] * points[:, 1]  # less is better
    order = np.lexsort((points[:, 2], y, x))
    lowest = np.minimum.accumulate(y[order])
    kept = np.ones(len(order), dtype=bool)
    kept[1:] = y[order][1:] < lowest[:-1]
    return points[order[kept]]


def counts_in_bins(values: Array, edges: Sequence[float], which: Whole, count: int) -> Whole:
    """Rows of each group in each bin: below the first edge, between two, from the last one on, and without a value.

    >>> counts_in_bins(np.array([0.5, 1.0, 7.0, np.nan]), (1.0, 5.0), np.zeros(4, dtype=int), 1).tolist()
    [[1, 1, 1, 1]]
    """
    bins = np.searchsorted(np.asarray(edges), values, side="right")
    bins = np.where(np.isnan(values), len(edges) + 1, bins)
    wide = len(edges) + 2
    return np.bincount(which * wide + bins, minlength=count * wide).reshape(count, wide).astype(np.int64)


def counts_of(flags: Sequence[Flags], which: Whole, count: int) -> Whole:
    """Rows of each group, and those of them that each flag is true of."""
    columns = [np.bincount(which, minlength=count)]
    columns += [np.bincount(which[flag], minlength=count) for flag in flags]
    return np.stack(columns, axis=1).astype(np.int64)


def joined(one: Array, other: Array) -> Array:
    """Rows of two arrays, one after the other."""
    return np.concatenate([one, other])


def points_of_lists(rows: Any) -> Array:
    """Rows of numbers as an array with a row each.

    Raises:
        ValueError: rows of different lengths.
    """
    points: Array = np.asarray(rows, dtype=np.float64)
    if points.ndim != 2:
        raise ValueError("not rows of numbers")
    return points


def counts_of_lists(counts: Any) -> Whole:
    """Counts as an array."""
    return np.asarray(counts, dtype=np.int64)
