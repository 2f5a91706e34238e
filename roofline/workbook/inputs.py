"""What a workbook is asked: choices of a case, limits, constants of the engine; where each stands and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roofline.formulas.inputs import HOST_TIMES
from roofline.ops import Real, where
from roofline.physics.efficiency import BASES
from roofline.physics.plan import LEAST_SKEW, MOST_SKEW
from roofline.quantity import HOUR, MILLI
from roofline.records import dataclass, field, replace
from roofline.serving.precision import AS_PRECISION, AUTO, NATIVE, PRESETS
from roofline.specs.engine import Engine
from roofline.specs.formats import KV_FORMATS
from roofline.specs.slo import LATENCIES as SLO_KEYS
from roofline.workbook.case import CHOICES, Asked, Bound
from roofline.workbook.cell import INFINITE, Cell, CellPool, scope
from roofline.workbook.lookups import is_number
from roofline.workbook.tables import Catalog

__all__ = ["CHOICE_NOTES", "OFFERED", "TEXTS", "Contents", "asked", "limits", "name_of", "times_shown"]

_SHORTEST = 2.0**-20  # of a limit [ms]
_DEGREES = (1, 2, 4, 8, 16, 32, 64)  # others may be typed
_UNDER_LOAD = ("arrival",)  # times of an engine that matter under a load alone, and a workbook computes bursts

#: Choices with what they are, in the order of `CHOICES`.
CHOICE_NOTES: Mapping[str, str] = {
    "model": "from the sheet Models; my-model is yours to fill in",
    "gpu": "from the sheet GPUs; my-gpu is yours to fill in",
    "precision": "native (the checkpoint's formats) or a preset",
    "kv_cache_dtype": "as precision (set by it), auto (the checkpoint's) or a format",
    "tp": "tensor-parallel degree; blank: 1",
    "pp": "pipeline-parallel degree",
    "ep": "expert-parallel degree; divides tp x dp",
    "dp": "data-parallel degree of the attention",
    "replicas": "replicas of tp x pp x dp GPUs",
    "isl": "prompt length [tokens]",
    "osl": "answer length [tokens]",
    "batch": "sequences started together on one replica",
    "prefix": "cached prompt tokens",
    "basis": "calibrated or ideal (hardware limit)",
}

#: What drop-downs offer: texts, numbers, or the name of a column.
OFFERED: Mapping[str, Any] = {
    "model": "=m_name",
    "gpu": "=g_name",
    "precision": [NATIVE, *PRESETS],
    "kv_cache_dtype": [AS_PRECISION, AUTO, *KV_FORMATS],
    "basis": list(BASES),
    **{degree: list(_DEGREES) for degree in ("tp", "pp", "ep", "dp")},
}

#: Choices that are texts; nothing but what is offered may stand there.
TEXTS = ("model", "gpu", "precision", "kv_cache_dtype", "basis")


@dataclass(frozen=True)
class Contents:
    """What goes into a workbook."""

    catalog: Catalog
    engine: Engine
    skew: float | None  # c of the routing; None: uniform
    case: Mapping[str, Any]  # choices of the calculator, by `CHOICES`
    scenarios: Sequence[Mapping[str, Any]]  # choices of each row, likewise
    spare: int  # further rows, left blank
    slo: Mapping[str, float] = field(default_factory=dict)  # [s]
    figures: Sequence[Sequence[str]] = ()  # what, which figure, value, source, address, date, note
    about: Sequence[tuple[str, str]] = ()  # label and text


def name_of(choice: str) -> str:
    """Name of the cell of the calculator that holds a choice.

    Args:
        choice: one of `CHOICES`, a limit, a time of the engine, or the routing [text].

    Returns:
        The name [text].
    """
    return f"in_{choice}"


def times_shown(engine: Engine) -> tuple[str, ...]:
    """Times of an engine that have a cell in the calculator: the network, and what the engine takes without a load.

    Args:
        engine: profile of the workbook.

    Returns:
        Their names, in the order of `HOST_TIMES` [text].
    """
    return tuple(
        name for name in HOST_TIMES if name == "network" or (name not in _UNDER_LOAD and getattr(engine, name) > 0.0)
    )


@scope("asked")
def asked(contents: Contents, pool: CellPool, cells: Mapping[str, Cell]) -> Asked:
    """A case whose constants stand in the calculator.

    Args:
        contents: of the workbook.
        pool: cells of the sheet.
        cells: the choices.

    Returns:
        The case: times of the engine that `times_shown` names are cells.
    """
    engine = contents.engine
    times: dict[str, Any] = {name: _time(pool, engine, name) * MILLI for name in times_shown(engine)}
    bounds = [Bound(_time(pool, engine, name), 0.0, HOUR / MILLI, f"{name} must be at least 0 ms") for name in times]
    skew: Any = None
    if contents.skew is not None:
        skew = pool.input(name_of("routing"), np.array([contents.skew]))
        said = f"routing skew must be a number from {LEAST_SKEW:g} to {MOST_SKEW:g}"
        bounds.append(Bound(skew, LEAST_SKEW, MOST_SKEW, said))
    for key in SLO_KEYS:
        said = f"SLO {key} must be above 0 ms, or blank"
        bounds.append(Bound(_limit(contents, pool, key), _SHORTEST, INFINITE, said, may_be_blank=True))
    return Asked({name: cells[name] for name in CHOICES}, replace(engine, tunings=(), **times), skew, tuple(bounds))


@scope("limits")
def limits(contents: Contents, pool: CellPool) -> dict[str, Real]:
    """Limits of the SLO as they stand in the calculator; a blank limits nothing.

    Args:
        contents: of the workbook.
        pool: cells of the sheet.

    Returns:
        Limits by key [s].
    """
    found = {}
    for key in SLO_KEYS:
        cell = _limit(contents, pool, key)
        found[key] = where(is_number(cell), cell * MILLI, INFINITE)
    return found


def _time(pool: CellPool, engine: Engine, name: str) -> Cell:
    """Cell of the calculator that holds a time of the engine [ms]."""
    return pool.input(name_of(name), np.array([getattr(engine, name) / MILLI]))


def _limit(contents: Contents, pool: CellPool, key: str) -> Cell:
    """Cell of the calculator that holds a limit of the SLO [ms]."""
    limit = contents.slo.get(key)
    return pool.input(name_of(f"slo_{key}"), np.array([float("nan") if limit is None else limit / MILLI]))
