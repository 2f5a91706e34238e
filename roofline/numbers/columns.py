"""Columns of a table, filled a run of rows at a time: numbers, and words of which few differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from roofline.numbers.arrays import Array
from roofline.numbers.operations import same

#: Rows of a column: a run of them, or their places.
Places: TypeAlias = Any


class Numbers:
    """Numbers of one key, NaN where a row has none.

    `is_whole`: all of them are whole. `shows_whole`: those that are whole are plain integers in rows.
    """

    __slots__ = ("is_whole", "shows_whole", "values")

    def __init__(self, rows: int, *, is_whole: bool = False, shows_whole: bool = False) -> None:
        self.values: Array = np.full(rows, np.nan)
        self.is_whole, self.shows_whole = is_whole, shows_whole or is_whole

    def put(self, places: Places, value: Any) -> None:
        """Set a number, or an array with one for each place; what is not a finite number is left out."""
        if value is None or isinstance(value, str):
            return
        if hasattr(value, "dtype"):
            value = np.asarray(value, dtype=np.float64)
            value = np.where(np.isinf(value), np.nan, value)
        self.values[places] = value

    def listed(self, start: int, end: int) -> list[Any]:
        """Values of a run of rows, None where there is none."""
        values = self.values[start:end]
        missing = np.isnan(values)
        if self.shows_whole and not missing.any() and (values == np.floor(values)).all():
            whole: list[Any] = values.astype(np.int64).tolist()
            return whole
        plain: list[Any] = values.tolist()
        if missing.all():
            return [None] * len(plain)
        if self.shows_whole:
            plain = [int(value) if value.is_integer() else value for value in plain]
        for place in np.flatnonzero(missing).tolist():
            plain[place] = None
        return plain

    def texts(self) -> list[str]:
        """Numbers in full digits, empty where there is none; a single text where all rows have the same."""
        distinct, which = np.unique(self.values, return_inverse=True)
        numbers = ["" if number != number else repr(number) for number in distinct.tolist()]  # noqa: PLR0124 - NaN
        if self.shows_whole:
            numbers = [text.removesuffix(".0") for text in numbers]
        return numbers if len(numbers) == 1 else [numbers[place] for place in which.tolist()]

    def of_frame(self) -> Any:
        """The numbers as a column of a data frame: of integers where all are."""
        if not self.shows_whole or np.isnan(self.values).any() or (self.values != np.floor(self.values)).any():
            return self.values
        return self.values.astype(np.int64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and same(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]


class Words:
    """Words of one key: texts, flags, lists of texts or None; `codes` says which of the `words` a row has."""

    __slots__ = ("_code_of", "codes", "kind", "words")

    def __init__(self, rows: int, kind: str = "text") -> None:
        self.kind = kind  # text, flag, or texts
        self.codes = np.zeros(rows, dtype=np.int32)
        self.words: list[Any] = [None]
        self._code_of: dict[Any, int] = {None: 0}

    def code(self, word: Any) -> int:
        """The code of a word, which may be new."""
        known = self._code_of.get(word)
        if known is None:
            known = self._code_of[word] = len(self.words)
            self.words.append(word)
        return known

    def put(self, places: Places, value: Any) -> None:
        """Set a word, or an array with one for each place."""
        if not hasattr(value, "dtype"):
            self.codes[places] = self.code(tuple(value) if isinstance(value, list) else value)
        elif value.dtype.kind == "b":
            self.codes[places] = np.where(value, self.code(True), self.code(False))  # noqa: FBT003
        else:
            self.codes[places] = self._codes(value)

    def put_each(self, places: Places, words: Sequence[Any], which: Any) -> None:
        """Set one of several words for each place."""
        self.codes[places] = np.array([self.code(word) for word in words], dtype=np.int32)[which]

    def _codes(self, values: Any) -> Any:
        """Codes of an array of words, one distinct word after the other."""
        codes = np.full(values.shape, -1, dtype=np.int32)
        left = np.arange(values.size)
        while left.size:
            word = values[left[0]]
            codes[left[0]] = code = self.code(None if word is None else word if isinstance(word, bool) else str(word))
            codes[left[values[left] == word]] = code
            left = left[codes[left] < 0]
        return codes

    def listed(self, start: int, end: int) -> list[Any]:
        """Values of a run of rows; each has a list of texts of its own."""
        words, codes = self.words, self.codes[start:end].tolist()
        if self.kind == "texts":
            return [None if words[code] is None else list(words[code]) for code in codes]
        return [words[code] for code in codes]

    def texts(self, text_of: Callable[[Any], str]) -> list[str]:
        """Text of the word of each row; a single text where all rows have the same."""
        texts = [text_of(word) for word in self.words]
        codes = self.codes.tolist()
        return [texts[codes[0]]] if (self.codes == self.codes[0]).all() else [texts[code] for code in codes]

    def of_frame(self) -> list[Any]:
        """The words as a column of a data frame."""
        return self.listed(0, len(self.codes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Words) or len(self.codes) != len(other.codes):
            return False
        theirs = np.array([self._code_of.get(word, -1) for word in other.words], dtype=np.int32)
        return bool((theirs[other.codes] == self.codes).all())

    __hash__ = None  # type: ignore[assignment]


Column: TypeAlias = Numbers | Words


def rows_listed(columns: Mapping[str, Column], start: int, end: int) -> Iterator[dict[str, Any]]:
    """Rows of a run as dictionaries."""
    keys = tuple(columns)
    for values in zip(*(column.listed(start, end) for column in columns.values()), strict=True):
        yield dict(zip(keys, values, strict=True))


def combinations_of(conditions: Sequence[Any], rows: int) -> tuple[list[int], Any]:
    """Distinct combinations of conditions over rows: of each the first row that has it, and which one a row has.

    >>> combinations_of([np.array([True, False, True]), False], 3)
    ([1, 0], array([1, 0, 1]))
    """
    mixed = np.zeros(rows, dtype=np.int64)
    for condition in conditions:
        if not hasattr(condition, "dtype"):
            continue
        if condition.dtype.kind == "b":
            number = condition.astype(np.int64)
        else:
            words = Words(0)
            number = words._codes(condition)  # noqa: SLF001
        mixed = np.unique(mixed * (int(number.max()) + 1) + number, return_inverse=True)[1].reshape(-1)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    return first.tolist(), which.reshape(-1)


# The grid of a table: every combination of the values of its axes.


def grid_rows(axes: Mapping[str, Array], start: int, end: int, shares: Mapping[int, float]) -> dict[str, Any]:
    """Values of a run of rows of a grid, the last axis changing fastest; of axes with one value the value.

    `shares`: of the prompt [1], in place of tokens, by their places among the prefixes.

    >>> axes = {"isl": np.array([1.0, 2.0]), "osl": np.array([3.0]), "prefix": np.array([0.0, np.nan])}
    >>> grid_rows(axes, 1, 4, {1: 0.5})
    {'isl': array([1., 2., 2.]), 'osl': 3.0, 'prefix': array([0., 0., 1.])}
    """
    return grid_rows_at(axes, np.arange(start, end), shares)


def grid_rows_at(axes: Mapping[str, Array], places: Any, shares: Mapping[int, float]) -> dict[str, Any]:
    """The same of rows at some places."""
    values: dict[str, Any] = {}
    turns: dict[str, Any] = {}
    place = np.asarray(places)
    for name in reversed(tuple(axes)):
        axis = axes[name]
        values[name] = float(axis[0])
        if len(axis) > 1:
            place, turns[name] = np.divmod(place, len(axis))
            values[name] = axis[turns[name]]
    for turn, share in shares.items():
        tokens = np.round(values["isl"] * share)
        several = "prefix" in turns
        values["prefix"] = np.where(turns["prefix"] == turn, tokens, values["prefix"]) if several else tokens
    return {name: value if getattr(value, "shape", ()) else float(value) for name, value in reversed(values.items())}


def places_where(condition: Any, rows: int) -> Any:
    """Places of the rows for which a condition holds."""
    return np.flatnonzero(np.broadcast_to(condition, rows))


def shifted(places: Places, by: Any, rows: int) -> Places:
    """Places that count from the rows at `by`: a place, or places themselves."""
    if isinstance(by, int):
        by = slice(by, by + rows)
    if places is None:
        return by
    places = np.asarray(places)
    return places + by.start if isinstance(by, slice) else by[places]
