"""What every answer can do: plain values by key, flat rows, a data frame of pandas, one line, a picture."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar, cast, overload

from roofline.numbers.quantity import counted
from roofline.support.errors import BadInput, UnknownName, shown

if TYPE_CHECKING:
    from roofline.numbers.arrays import DataFrame
    from roofline.plot import Picture


_MOST_KEYS = 1000  # guards against endless iterables
_LONGEST = 300  # characters of the line that shows a list of answers

_Row = TypeVar("_Row", bound="Mapping[str, object]")
_One = TypeVar("_One")


class Answer(Generic[_Row]):
    """An answer of any question: `to_dict` has all of it, `to_rows` and `to_pandas` its rows, `plot` its picture.

    >>> import roofline as rl
    >>> p = rl.predict("llama-3.1-8b", "h100-sxm", isl=2000)
    >>> p.to_dict(["gpu", "isl"]), p.to_rows(["gpu"]), p.to_pandas(["gpu", "isl"]).shape
    ({'gpu': 'h100-sxm', 'isl': 2000}, [{'gpu': 'h100-sxm'}], (1, 2))
    >>> p.to_records(["gpu"]) == p.to_rows(["gpu"])
    True
    >>> p.plot().title
    'llama-3.1-8b on 1x h100-sxm: where the time goes'
    """

    __slots__ = ()

    def to_dict(self, keys: Iterable[str] | None = None) -> Mapping[str, object]:
        """The row of an answer that has one; for several rows, all that ``--format json`` prints.

        Args:
            keys: the keys to keep; None for all.
        """
        raise NotImplementedError  # pragma: no cover - of each answer

    def to_rows(self, keys: Iterable[str] | None = None) -> list[_Row]:
        """Flat rows, with the keys and in the order of ``--format json``.

        Args:
            keys: the keys to keep; None for all.
        """
        whole: Mapping[str, Any] = self.to_dict(keys)
        return cast("list[_Row]", whole.get("rows", [whole]))

    def to_records(self, keys: Iterable[str] | None = None) -> list[_Row]:
        """The former name of `to_rows`."""
        return self.to_rows(keys)

    def to_pandas(self, keys: Iterable[str] | None = None) -> DataFrame:
        """The rows as a data frame, a column for each key.

        Args:
            keys: the keys to keep; None for all.

        Raises:
            BadInput: pandas is not installed.
        """
        return data_frame(self.to_rows(keys))

    def plot(self) -> Picture:
        """The picture of this answer, as `rl.plot.of` draws it: notebooks show it, its `save` writes it to a file.

        Raises:
            BadInput: answers of this type have no picture, or there is nothing to draw.
        """
        return picture_of(self)

    def _repr_html_(self) -> str | None:
        """A small table, which notebooks show: the first rows, or what is known of the only case."""
        return html_of(self)


class Answers(list[_One], Answer[_Row]):
    """Answers of one question, or rows, as a list that shows itself on one line.

    >>> Answers([{"gpu": "h100-sxm", "tp": tp} for tp in range(1, 65)])[62:]
    [{'gpu': 'h100-sxm', 'tp': 63}, {'gpu': 'h100-sxm', 'tp': 64}]
    >>> len(repr(Answers(range(10**6)))) < 400, Answers([3, 1, 2]) == [3, 1, 2]
    (True, True)
    >>> Answers([{"gpu": "l40s", "tp": 2}]).to_dict(["tp"])
    {'rows': [{'tp': 2}]}
    """

    def to_dict(self, keys: Iterable[str] | None = None) -> Mapping[str, object]:
        """The rows under the key ``rows``, as in ``--format json``.

        Args:
            keys: the keys to keep; None for all.
        """
        return {"rows": self.to_rows(keys)}

    def to_rows(self, keys: Iterable[str] | None = None) -> list[_Row]:
        """Flat rows, with the keys and in the order of ``--format json``.

        Args:
            keys: the keys to keep; None for all.
        """
        columns = None if keys is None else listed_keys(keys)
        rows: list[Any] = []
        for each in self:
            rows += each.to_rows(columns) if isinstance(each, Answer) else [selected(cast("Any", each), columns)]
        return rows

    @overload
    def __getitem__(self, index: SupportsIndex) -> _One: ...
    @overload
    def __getitem__(self, index: slice) -> Answers[_One, _Row]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> _One | Answers[_One, _Row]:
        return Answers(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    def _repr_html_(self) -> str | None:
        return html_of(self, f"{counted(f'{len(self):,}', 'answer')}{self._further()}")

    def _further(self) -> str:
        """What there is to say of all of them together."""
        return ""

    def __repr__(self) -> str:
        """The first answers, as many as fit on a line, and how many more there are."""
        line = ""
        for place, each in enumerate(self):
            text = " ".join(repr(each).splitlines())
            if place and len(line) + len(text) > _LONGEST:
                return f"[{line}, ... {len(self) - place} more]{self._further()}"
            line += (", " if place else "") + (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")
        return f"[{line}]{self._further()}"


def html_of(answer: object, heading: str = "", *, both_ends: bool = False) -> str | None:
    """An answer as a small table of HTML, with its last rows beside the first where `both_ends` are asked for."""
    from roofline.serving.notebook import html_table

    return html_table(answer, heading or repr(answer).removeprefix("<").removesuffix(">"), both_ends=both_ends)


def picture_of(answer: object) -> Picture:
    """The picture of an answer by its type."""
    from roofline.plot import of

    return of(answer)


def data_frame(rows: Iterable[Mapping[str, object]]) -> DataFrame:
    """A data frame of flat rows."""
    from roofline.numbers.arrays import data_frame_of

    return data_frame_of(rows)


def rows_of_cases(columns: Mapping[str, Any], shape: tuple[int, ...]) -> list[dict[str, Any]]:
    """A row for each case of an array: columns of its shape, or of one that broadcasts to it, taken apart.

    >>> rows_of_cases({"gpu": "h100-sxm", "isl": [1000.0, 2000.0]}, (2,))
    [{'gpu': 'h100-sxm', 'isl': 1000.0}, {'gpu': 'h100-sxm', 'isl': 2000.0}]
    """
    from roofline.numbers.arrays import elements

    cells = {key: elements(values, shape) for key, values in columns.items() if key != "warnings"}
    return [
        {key: list(values) if key == "warnings" else cells[key][place] for key, values in columns.items()}
        for place in range(prod(shape))
    ]


# Keys that a caller chooses.


def selected(row: Mapping[str, Any], keys: Iterable[str] | None) -> dict[str, Any]:
    """Some keys of a row, in their order; None for all.

    >>> selected({"gpu": "h100-sxm", "tp": 2, "pp": 1}, ["tp", "gpu"])
    {'tp': 2, 'gpu': 'h100-sxm'}
    """
    columns = tuple(row) if keys is None else listed_keys(keys)
    check_keys(columns, row)
    return {key: row[key] for key in columns}


def selected_rows(rows: Iterable[Mapping[str, Any]], keys: Iterable[str] | None) -> list[Any]:
    """Some keys of every row; None for all."""
    columns = None if keys is None else listed_keys(keys)
    return [selected(row, columns) for row in rows]


def check_keys(keys: Iterable[str], known: Collection[str]) -> None:
    """Refuse unknown keys of a row."""
    for key in keys:
        if not isinstance(key, str) or key not in known:
            raise UnknownName(f"unknown key {shown(key)}; choose from {', '.join(known)}")


def listed_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """Keys as a tuple; BadInput for a single text, a set, a mapping or what cannot be iterated over."""
    listed: tuple[str, ...] | None = None
    if not isinstance(keys, (str, bytes, AbstractSet, Mapping)):
        with suppress(TypeError):
            listed = tuple(islice(keys, _MOST_KEYS))
    if listed is None:
        raise BadInput(f"keys = {shown(keys)} must be a list of keys of a row, such as ['ttft_ms', 'tpot_ms']")
    return listed
