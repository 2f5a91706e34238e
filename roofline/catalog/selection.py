"""GPUs by vendor, generation and status; models by family, size and kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from roofline.errors import BadInput, UnknownName, shown
from roofline.physics.parameters import parameters
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.names import LABELS, fold

_Entry = TypeVar("_Entry", Gpu, Model)
_UNBOUNDED = float("inf")


def chosen_gpus(
    gpus: Iterable[Gpu], vendor: str | None = None, generation: str | None = None, status: str | None = None
) -> list[Gpu]:
    """GPUs whose vendor, generation and status begin with these words: ``blackwell`` includes ``blackwell-ultra``."""
    listed = chosen = list(gpus)
    criteria: tuple[tuple[str, str | None, Callable[[Gpu], str]], ...] = (
        ("vendor", vendor, lambda gpu: gpu.vendor),
        ("generation", generation, lambda gpu: gpu.generation),
        ("status", status, lambda gpu: gpu.status),
    )
    for criterion in criteria:
        names = {gpu.name for gpu in _matching(listed, "gpu", *criterion)}
        chosen = [gpu for gpu in chosen if gpu.name in names]
    return chosen


def chosen_models(
    models: Iterable[Model],
    family: str | None = None,
    min_parameters: float | None = None,
    max_parameters: float | None = None,
    moe: bool | None = None,
) -> list[Model]:
    """Models whose family begins with a word, by number of parameters, idle experts included, and by kind."""
    least, most = _bound("min_parameters", min_parameters, 0.0), _bound("max_parameters", max_parameters, _UNBOUNDED)
    if least > most:
        raise BadInput(
            f"min_parameters = {shown(min_parameters)} must not exceed max_parameters = {shown(max_parameters)}"
        )
    chosen = list(_matching(list(models), "model", "family", family, lambda model: model.family))
    if moe is not None:
        chosen = [model for model in chosen if model.is_moe == moe]
    if min_parameters is None and max_parameters is None:
        return chosen
    return [model for model in chosen if least <= parameters(model).total <= most]


def _bound(name: str, value: float | None, default: float) -> float:
    if value is None:
        return default
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if isinstance(value, (bool, str)) or not number >= 0.0:
        raise BadInput(f"{name} = {shown(value)} must be a number of parameters")
    return number


def _matching(
    entries: Sequence[_Entry], kind: str, what: str, word: str | None, property_of: Callable[[_Entry], str]
) -> Sequence[_Entry]:
    """Entries with a property that begins with the word; all entries where it is None."""
    if word is None:
        return entries
    prefix = fold(word) if isinstance(word, str) else ""
    matching = [entry for entry in entries if prefix and fold(property_of(entry)).startswith(prefix)]
    if not matching:
        known = ", ".join(sorted({property_of(entry) for entry in entries} - {""}, key=str.lower)) or "none"
        raise UnknownName(f"no {LABELS[kind]} has {what} {shown(word)}; choose from {known}")
    return matching
