"""Predictions of many cases that run at different plans: every figure is put together from those of one plan each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from roofline.serving.answers import check_keys, listed_keys
from roofline.serving.prediction import Prediction
from roofline.serving.shown import ROW_KEYS
from roofline.specs.load import Load

_FIELDS = (
    "deployment", "workload", "prefill", "decode", "memory", "slo", "allow_oversize", "correction", "served",
)  # fmt: skip


class MixedPlans(Prediction[Any, Any, Any]):
    """A `Prediction` of an array of cases whose tensor parallelism differs.

    `parts` are the predictions of one plan each, as flat arrays; `places` says which cases they are, in the order of
    the flattened array of `shape`.
    """

    def __init__(self, parts: Sequence[Prediction], places: Sequence[Any], shape: tuple[int, ...]) -> None:
        for name, value in (("parts", tuple(parts)), ("places", tuple(places)), ("shape", shape)):
            object.__setattr__(self, name, value)
        notes = dict.fromkeys(text for part in parts for text in part.warnings)
        for name, value in (("said", tuple(notes)), ("added", ())):
            object.__setattr__(self, name, value)

    parts: tuple[Prediction, ...]
    places: tuple[Any, ...]
    shape: tuple[int, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of all parts."""
        return self.said

    def latency(self, key: str) -> Any:
        """As of one plan."""
        return self.joined([part.latency(key) for part in self.parts])

    def latency_interval(self, key: str) -> Any:
        """As of one plan."""
        return self.joined([part.latency_interval(key) for part in self.parts])

    def to_dict(self, keys: Iterable[str] | None = None) -> Any:
        """Columns of the JSON contract, one value for each case."""
        chosen = ROW_KEYS if keys is None else listed_keys(keys)
        check_keys(chosen, ROW_KEYS)
        rows: list[Mapping[str, Any]] = [part.to_dict(chosen) for part in self.parts]
        sizes = [len(places) for places in self.places]
        return {
            key: list(self.warnings) if key == "warnings" else self._column([row[key] for row in rows], sizes)
            for key in chosen
        }

    def _column(self, values: Sequence[Any], sizes: Sequence[int]) -> Any:
        """Values of all cases as nested lists; one value where all parts have the same."""
        if not any(isinstance(value, list) for value in values) and all(value == values[0] for value in values):
            return values[0]
        spread = [
            value if isinstance(value, list) else [value] * size for value, size in zip(values, sizes, strict=True)
        ]
        return self._scattered(spread, object).tolist()

    def joined(self, values: Sequence[Any]) -> Any:
        """One value of all cases, from those of the parts."""
        first = values[0]
        if all(value is first for value in values):
            return first
        if any(value is None for value in values):
            values = [float("nan") if value is None else value for value in values]
        if isinstance(first, Mapping):
            return {key: self.joined([value[key] for value in values]) for key in first}
        if isinstance(first, tuple):
            fields = [self.joined(list(each)) for each in zip(*values, strict=True)]
            return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
        if isinstance(first, Load):
            return first.having({name: self.joined([getattr(load, name) for load in values]) for name in first.inputs})
        if all(isinstance(value, (str, int, float)) or hasattr(value, "dtype") for value in values):
            if not any(hasattr(value, "dtype") for value in values) and all(value == first for value in values):
                return first
            return self._scattered(values, None)
        return _Joined(self, values)

    def _scattered(self, values: Sequence[Any], dtype: Any) -> Any:
        """An array of all cases, from flat arrays or single values of the parts."""
        from roofline.numbers.arrays import scattered

        return scattered(values, self.places, self.shape, dtype)


class _Joined:
    """An object that each part has of its own, such as a deployment: its attributes are joined in turn."""

    def __init__(self, whole: MixedPlans, values: Sequence[Any]) -> None:
        self._whole, self._values = whole, values

    def __getattr__(self, name: str) -> Any:
        attributes = [getattr(value, name) for value in self._values]
        if all(callable(attribute) for attribute in attributes):
            return lambda *arguments, **options: self._whole.joined(
                [attribute(*arguments, **options) for attribute in attributes]
            )
        return self._whole.joined(attributes)


def _joined_property(name: str) -> property:
    return property(lambda self: self.joined([getattr(part, name) for part in self.parts]))


for _name in (*_FIELDS, *dir(Prediction)):
    _stated = getattr(Prediction, _name, None)
    _is_figure = _name in _FIELDS or isinstance(_stated, (property, cached_property))
    if _is_figure and not _name.startswith("_") and _name not in vars(MixedPlans):
        setattr(MixedPlans, _name, _joined_property(_name))
