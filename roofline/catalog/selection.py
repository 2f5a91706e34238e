"""Which GPUs and models of a catalog are meant by a vendor, a generation, a family or a size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from roofline.errors import BadInput, UnknownName, shown
from roofline.physics.parameters import parameters
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.names import LABELS, fold

__all__ = ["chosen_gpus", "chosen_models"]

_Entry = TypeVar("_Entry", Gpu, Model)
_UNBOUNDED = float("inf")


def chosen_gpus(
    gpus: Iterable[Gpu], vendor: str | None = None, generation: str | None = None, status: str | None = None
) -> list[Gpu]:
    """GPUs of a vendor, a generation and a status.

    Args:
        gpus: to choose from.
        vendor: its name or the beginning of it; None for all [text].
        generation: likewise; ``blackwell`` takes in ``blackwell-ultra`` [text].
        status: likewise; shipping, announced, pre-release or end-of-life [text].

    Returns:
        Those that meet all of it, in their order.

    Raises:
        UnknownName: no GPU at all is of such a vendor, generation or status.
    """
    found = left = list(gpus)
    asked: tuple[tuple[str, str | None, Callable[[Gpu], str]], ...] = (
        ("vendor", vendor, lambda gpu: gpu.vendor),
        ("generation", generation, lambda gpu: gpu.generation),
        ("status", status, lambda gpu: gpu.status),
    )
    for question in asked:
        kept = {gpu.name for gpu in _beginning(found, "gpu", *question)}
        left = [gpu for gpu in left if gpu.name in kept]
    return left


def chosen_models(
    models: Iterable[Model],
    family: str | None = None,
    min_parameters: float | None = None,
    max_parameters: float | None = None,
    moe: bool | None = None,
) -> list[Model]:
    """Models of a family, a size and a kind.

    Args:
        models: to choose from.
        family: its name or the beginning of it; None for all [text].
        min_parameters: fewest parameters, counted from the layers [1].
        max_parameters: most parameters [1].
        moe: mixtures of experts alone, dense models alone, or both where None [bool].

    Returns:
        Those that meet all of it, in their order.

    Raises:
        UnknownName: no model at all is of such a family.
        BadInput: bounds that are no numbers or leave nothing between them.
    """
    found = list(models)
    least, most = _bound("min_parameters", min_parameters, 0.0), _bound("max_parameters", max_parameters, _UNBOUNDED)
    if least > most:
        raise BadInput(
            f"min_parameters = {shown(min_parameters)} must not exceed max_parameters = {shown(max_parameters)}"
        )
    kept = list(_beginning(found, "model", "family", family, lambda model: model.family))
    if moe is not None:
        kept = [model for model in kept if model.is_moe == moe]
    if min_parameters is None and max_parameters is None:
        return kept
    return [model for model in kept if least <= parameters(model).total <= most]


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


def _beginning(
    found: Sequence[_Entry], kind: str, what: str, asked: str | None, stated: Callable[[_Entry], str]
) -> Sequence[_Entry]:
    """Entries whose stated word begins like the one that was asked for."""
    if asked is None:
        return found
    wanted = fold(asked) if isinstance(asked, str) else ""
    kept = [entry for entry in found if wanted and fold(stated(entry)).startswith(wanted)]
    if not kept:
        known = ", ".join(sorted({stated(entry) for entry in found} - {""}, key=str.lower)) or "none"
        raise UnknownName(f"no {LABELS[kind]} has {what} {shown(asked)}; choose from {known}")
    return kept
