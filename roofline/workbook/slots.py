"""Kinds of layers that the models of a workbook have, and how pipeline stages share them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from roofline.errors import BadInput
from roofline.ops import Real, ceil, floor
from roofline.records import NamedTuple
from roofline.specs.layers import Ffn, Mixer
from roofline.specs.model import Model

__all__ = ["LayerKind", "fullest_stages", "number_of", "own_stages", "slots_of"]

_MOST_SLOTS = 24


class LayerKind(NamedTuple):
    """A kind of layer of which a model may have some: one mixer, or one feed-forward network."""

    name: str
    example: Any  # a record of its structure
    numbers: tuple[str, ...]  # fields that differ from model to model, those of an indexer with its name before


def slots_of(models: Sequence[Model]) -> tuple[tuple[LayerKind, ...], dict[str, dict[str, tuple[int, Any]]]]:
    """Kinds of layers of all models, and what each model has of them.

    Args:
        models: the models.

    Returns:
        The kinds; by model and kind the number of layers, and their record.

    Raises:
        BadInput: more kinds than a workbook holds.
    """
    slots: dict[tuple[Any, int], LayerKind] = {}
    held: dict[str, dict[str, tuple[int, Any]]] = {}
    numbers: dict[str, int] = {}
    for model in models:
        mine: dict[str, tuple[int, Any]] = {}
        seen: dict[Any, int] = {}
        for count, record in (*model.mixers, *model.ffns):
            structure, names = _structure(record)
            place = seen[structure] = seen.get(structure, 0) + 1
            slot = slots.get((structure, place))
            if slot is None:
                kind = type(record).__name__.lower()
                numbers[kind] = numbers.get(kind, 0) + 1
                slot = slots[structure, place] = LayerKind(f"{kind}_{numbers[kind]}", record, names)
            mine[slot.name] = count, record
        held[model.name] = mine
        if len(slots) > _MOST_SLOTS:
            raise BadInput(
                f"the models up to {model.short_name} have {len(slots)} kinds of layers; a workbook holds at most "
                f"{_MOST_SLOTS}: choose fewer models"
            )
    return tuple(slots.values()), held


def _structure(record: Mixer | Ffn) -> tuple[Any, tuple[str, ...]]:
    """What decides which kernels a layer has, and the names of the numbers beside it."""
    shape: list[Any] = [type(record)]
    names: list[str] = []
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            inner, more = _structure(value)  # type: ignore[arg-type]
            shape.append(inner)
            names += [f"{field.name}_{name}" for name in more]
        elif type(value) is int and value != 0:
            shape.append(field.name)
            names.append(field.name)
        else:
            shape.append((field.name, value))
    return tuple(shape), tuple(names)


def number_of(record: Any, name: str) -> Any:
    """A number of a layer.

    Args:
        record: the layer's record.
        name: one of the numbers of its slot [text].

    Returns:
        The number [any].
    """
    inner, _, rest = name.partition("_")
    return getattr(getattr(record, inner), rest) if inner == "indexer" else getattr(record, name)


def own_stages(counts: Sequence[Real], pp: int) -> list[tuple[Any, ...]]:
    """The first and the last stage of a model whose layers are all of one kind.

    Args:
        counts: layers by slot [1].
        pp: number of stages [1].

    Returns:
        Layers by slot, and which ends the stage holds.
    """
    alone = int(pp == 1)
    first, last = (ceil(count / pp) for count in counts), (floor(count / pp) for count in counts)
    return [(*first, 1, alone), (*last, alone, 1)]


def fullest_stages(rows: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Stages that no other one exceeds in everything: one of them is the fullest, whatever a layer weighs.

    Args:
        rows: layers by slot, and which ends the stage holds; a row each [1].

    Returns:
        Some of the rows, in their order.
    """
    different = list(dict.fromkeys(rows))
    return [row for row in different if not any(other != row and _exceeds(other, row) for other in different)]


def _exceeds(other: tuple[int, ...], row: tuple[int, ...]) -> bool:
    return all(mine <= theirs for mine, theirs in zip(row, other, strict=True))
