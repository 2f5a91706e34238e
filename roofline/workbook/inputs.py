"""Inputs of a workbook: choices of a case, limits and engine times, with their cells and notes."""

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
from roofline.serving.quantization import AS_QUANTIZATION, AUTO, NATIVE, PRESETS
from roofline.specs.engine import Engine
from roofline.specs.formats import KV_FORMATS
from roofline.specs.slo import LATENCIES as SLO_KEYS
from roofline.workbook.case import CHOICES, Bound, CaseInputs
from roofline.workbook.cell import INFINITE, Cell, CellPool, scope
from roofline.workbook.lookups import is_number
from roofline.workbook.tables import Catalog

_SHORTEST = 2.0**-20  # of a limit [ms]
_DEGREES = (1, 2, 4, 8, 16, 32, 64)  # others may be typed
_UNDER_LOAD = ("arrival",)  # engine times that only matter under load; a workbook computes bursts

#: Notes on the choices, in the order of `CHOICES`.
CHOICE_NOTES: Mapping[str, str] = {
    "model": "from the sheet Models; my-model is yours to fill in",
    "gpu": "from the sheet GPUs; my-gpu is yours to fill in",
    "quantization": "native (the checkpoint's formats) or a preset",
    "kv_cache_dtype": "as quantization (set by it), auto (the checkpoint's) or a format",
    "tp": "tensor-parallel degree; blank: the smallest that holds the burst",
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

#: Entries of the drop-downs: texts, numbers, or the name of a column.
OFFERED: Mapping[str, Any] = {
    "model": "=m_name",
    "gpu": "=g_name",
    "quantization": [NATIVE, *PRESETS],
    "kv_cache_dtype": [AS_QUANTIZATION, AUTO, *KV_FORMATS],
    "basis": list(BASES),
    **{degree: list(_DEGREES) for degree in ("tp", "pp", "ep", "dp")},
}

#: Choices that are texts; only entries of the drop-down are valid.
TEXTS = ("model", "gpu", "quantization", "kv_cache_dtype", "basis")


@dataclass(frozen=True)
class Contents:
    """Contents of a workbook."""

    catalog: Catalog
    engine: Engine
    routing_skew: float | None  # c of the routing; None: uniform
    case: Mapping[str, Any]  # choices of the calculator, by `CHOICES`
    scenarios: Sequence[Mapping[str, Any]]  # choices of each row, likewise
    spare: int  # further rows, left blank
    slo: Mapping[str, float] = field(default_factory=dict)  # [s]
    figures: Sequence[Sequence[str]] = ()  # what, which figure, value, source, address, date, note
    about: Sequence[tuple[str, str]] = ()  # label and text


def name_of(choice: str) -> str:
    """Name of the cell of a choice in the calculator."""
    return f"in_{choice}"


def times_shown(engine: Engine) -> tuple[str, ...]:
    """Engine times that have a cell in the calculator: the network, and those above 0 that matter without a load."""
    return tuple(
        name for name in HOST_TIMES if name == "network" or (name not in _UNDER_LOAD and getattr(engine, name) > 0.0)
    )


@scope("asked")
def case_inputs(contents: Contents, pool: CellPool, cells: Mapping[str, Cell]) -> CaseInputs:
    """Inputs of a case; those that all cases share are cells of the calculator."""
    engine = contents.engine
    times: dict[str, Any] = {name: _time(pool, engine, name) * MILLI for name in times_shown(engine)}
    bounds = [Bound(_time(pool, engine, name), 0.0, HOUR / MILLI, f"{name} must be at least 0 ms") for name in times]
    routing_skew: Any = None
    if contents.routing_skew is not None:
        routing_skew = pool.input(name_of("routing"), np.array([contents.routing_skew]))
        message = f"routing skew must be a number from {LEAST_SKEW:g} to {MOST_SKEW:g}"
        bounds.append(Bound(routing_skew, LEAST_SKEW, MOST_SKEW, message))
    for key in SLO_KEYS:
        message = f"SLO {key} must be above 0 ms, or blank"
        bounds.append(Bound(_limit(contents, pool, key), _SHORTEST, INFINITE, message, may_be_blank=True))
    return CaseInputs(
        {name: cells[name] for name in CHOICES}, replace(engine, tunings=(), **times), routing_skew, tuple(bounds)
    )


@scope("limits")
def limits(contents: Contents, pool: CellPool) -> dict[str, Real]:
    """Limits of the SLO in the calculator [s]; infinite where blank."""
    bounds = {}
    for key in SLO_KEYS:
        cell = _limit(contents, pool, key)
        bounds[key] = where(is_number(cell), cell * MILLI, INFINITE)
    return bounds


def _time(pool: CellPool, engine: Engine, name: str) -> Cell:
    """Cell of an engine time in the calculator [ms]."""
    return pool.input(name_of(name), np.array([getattr(engine, name) / MILLI]))


def _limit(contents: Contents, pool: CellPool, key: str) -> Cell:
    """Cell of an SLO limit in the calculator [ms]."""
    limit = contents.slo.get(key)
    return pool.input(name_of(f"slo_{key}"), np.array([float("nan") if limit is None else limit / MILLI]))
