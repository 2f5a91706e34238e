"""What an engine profile must look like, stated once: it states the fields of its record."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from roofline.catalog.schema_parts import Count, Deviation, Document, Name, OneOf, Title, of_record
from roofline.specs.engine import Engine, Tuning
from roofline.specs.formats import PEAKS
from roofline.specs.kernels import CALIBRATED

__all__ = ["EngineSpec"]


def _check_year(value: object) -> object:
    if isinstance(value, bool) or not re.fullmatch(r"\d{4}", str(value), re.ASCII):
        raise PydanticCustomError("year", "{value} is no year such as 2026", {"value": repr(value)})
    return value


_TUNING: Any = of_record(
    Tuning,
    {
        "kind": (Annotated[str, OneOf(tuple(kind.name for kind in CALIBRATED))], ...),
        "peak": (Annotated[str, OneOf(PEAKS)], None),
    },
    nulls=False,
)

EngineSpec = of_record(
    Engine,
    {
        "aliases": (list[Name], []),
        "title": (Title, ""),
        "year": (Annotated[int | str, BeforeValidator(_check_year)], ""),
        "stretch": (Annotated[float, Field(ge=1.0, allow_inf_nan=False)], 1.0),
        "chunk": (Count | None, None),
        "tunings": (list[_TUNING], []),
        "sigma_ttft": (Deviation, None),
        "sigma_tpot": (Deviation, None),
    },
    base=Document,
    nulls=False,
)
