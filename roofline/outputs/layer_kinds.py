"""Models whose layers are described by numbers: kinds of layers of several models, and the stages that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any

from roofline.specs.model import Ffn, Mixer, Model, Stage
from roofline.support.records import NamedTuple, dataclass, replace


class LayerKind(NamedTuple):
    """A mixer or feed-forward network of one structure, of which a model has some layers or none."""

    name: str
    example: Any  # a record of its structure
    numbers: tuple[str, ...]  # fields that differ between models; those of an indexer are prefixed


def layer_kinds_of(
    models: Sequence[Model],
) -> tuple[tuple[LayerKind, ...], dict[str, dict[str, tuple[int, Any]]]]:
    """Kinds of layers of all models; for each model, the number of layers and the record of each kind it has."""
    kinds: dict[tuple[Any, int], LayerKind] = {}
    held: dict[str, dict[str, tuple[int, Any]]] = {}
    numbers: dict[str, int] = {}
    for model in models:
        layers: dict[str, tuple[int, Any]] = {}
        seen: dict[Any, int] = {}
        for count, record in (*model.mixers, *model.ffns):
            structure, names = structure_of(record)
            place = seen[structure] = seen.get(structure, 0) + 1
            kind = kinds.get((structure, place))
            if kind is None:
                name = type(record).__name__.lower()
                numbers[name] = numbers.get(name, 0) + 1
                kind = kinds[structure, place] = LayerKind(f"{name}_{numbers[name]}", record, names)
            layers[kind.name] = count, record
        held[model.name] = layers
    return tuple(kinds.values()), held


def structure_of(record: Mixer | Ffn) -> tuple[Any, tuple[str, ...]]:
    """The structure that decides the kernels of a layer, and the names of its numbers."""
    shape: list[Any] = [type(record)]
    names: list[str] = []
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            inner, more = structure_of(value)  # type: ignore[arg-type]
            shape.append(inner)
            names += [f"{field.name}_{name}" for name in more]
        elif type(value) is int and value != 0:
            shape.append(field.name)
            names.append(field.name)
        else:
            shape.append((field.name, value))
    return tuple(shape), tuple(names)


def number_of(record: Any, name: str) -> Any:
    inner, _, rest = name.partition("_")
    return getattr(getattr(record, inner), rest) if inner == "indexer" else getattr(record, name)


def with_numbers(example: Any, numbers: Mapping[str, Any]) -> Any:
    """A layer like an example, with numbers by the names of its kind."""
    inner = {name.removeprefix("indexer_"): value for name, value in numbers.items() if name.startswith("indexer_")}
    outer = {name: value for name, value in numbers.items() if not name.startswith("indexer_")}
    if inner:
        outer["indexer"] = replace(example.indexer, **inner)
    return replace(example, **outer)


@dataclass(frozen=True, kw_only=True)
class StagedModel(Model):
    """A model without groups, whose layers may be a number of every kind: its stages are given, whatever the pp."""

    whole: Stage  # all of its layers
    fullest: tuple[Stage, ...]  # pipeline stages, one of which is the fullest
    count: Any  # of layers
    late_layers: Any = 0  # of them that compute the last tokens of a prompt alone
    late_tokens: int = 0  # how many

    @cached_property
    def layers(self) -> Any:
        return self.count

    @cached_property
    def late(self) -> Any:
        return self.late_layers

    @cached_property
    def last(self) -> int:
        return self.late_tokens

    @cached_property
    def mixers(self) -> tuple[tuple[Any, Mixer], ...]:
        return self.whole.mixers

    @cached_property
    def ffns(self) -> tuple[tuple[Any, Ffn], ...]:
        return self.whole.ffns

    def stages(self, pp: Any) -> tuple[Stage, ...]:  # noqa: ARG002  those that are given
        return self.fullest


def fullest_stages(rows: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Stages that no other stage exceeds in everything: one of them is the fullest, whatever a layer weighs."""
    different = list(dict.fromkeys(rows))
    return [row for row in different if not any(other != row and _exceeds(other, row) for other in different)]


def _exceeds(other: tuple[int, ...], row: tuple[int, ...]) -> bool:
    return all(one <= another for one, another in zip(row, other, strict=True))
