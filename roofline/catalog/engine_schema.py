"""Schema of the file of an engine profile, which has the fields of its record."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from roofline.catalog.schema_parts import Count, Deviation, Document, Fraction, Name, OneOf, Title, of_record
from roofline.specs.engine import Engine, GpuDefault, KernelOverride
from roofline.specs.formats import PEAKS
from roofline.specs.kernels import CALIBRATED


def _check_year(value: object) -> object:
    if isinstance(value, bool) or not re.fullmatch(r"\d{4}", str(value), re.ASCII):
        raise PydanticCustomError("year", "{value} is not a year; write it as 2026", {"value": repr(value)})
    return value


_Factor = Annotated[float, Field(ge=0.001, le=1000.0)]
_TUNING: Any = of_record(
    KernelOverride,
    {
        "kind": (Annotated[str, OneOf(tuple(kind.name for kind in CALIBRATED))], ...),
        "peak": (Annotated[str, OneOf(PEAKS)], None),
        "compute": (_Factor, 1.0),
        "memory": (_Factor, 1.0),
    },
    nulls=False,
)


def _check_last(entries: list[Any]) -> list[Any]:
    """Every GPU has a default: the last entry is for those that no other is for."""
    if entries[-1].memory is not None or entries[-1].other_than:
        text = "the last entry is for all other GPUs; leave out its memory and other_than"
        raise PydanticCustomError("by_gpu", "{fault}", {"fault": text})
    return entries


class _OrByGpu:
    """Annotation: a number, or a list of defaults by GPU."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        entry = of_record(GpuDefault, {"value": (source, ...), "other_than": (list[Name], [])}, nulls=False)
        entries = Annotated[list[entry], Field(min_length=1, max_length=20), AfterValidator(_check_last)]  # type: ignore[valid-type]
        return core_schema.tagged_union_schema(
            {"[number]": handler(source), "[list]": handler.generate_schema(entries)},
            lambda value: "[list]" if isinstance(value, list) else "[number]",
        )


_SLOWDOWN = AliasChoices("prefill_slowdown", "stretch")  # the latter in older files

EngineSpec = of_record(
    Engine,
    {
        "aliases": (list[Name], []),
        "title": (Title, ""),
        "year": (Annotated[int | str, BeforeValidator(_check_year)], ""),
        "prefill_slowdown": (Annotated[float, Field(ge=1.0, allow_inf_nan=False, validation_alias=_SLOWDOWN)], 1.0),
        "scheduler": (Literal["decode first", "prompts first"], "decode first"),
        "max_num_batched_tokens": (Annotated[Count | None, _OrByGpu()], None),
        "max_num_seqs": (Annotated[Count | None, _OrByGpu()], None),
        "gpu_memory_utilization": (Annotated[Fraction, _OrByGpu()], 0.92),
        "max_model_len": (Count | None, None),
        "tunings": (list[_TUNING], []),
        "sigma_ttft": (Deviation, None),
        "sigma_tpot": (Deviation, None),
        "sigma_loaded_ttft": (Deviation, None),
    },
    base=Document,
    without=("by_gpu", "stated"),
    nulls=False,
)
