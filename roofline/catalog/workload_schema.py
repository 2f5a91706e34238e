"""Schema of the file of a named workload, which has the fields of its record."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from roofline.catalog.schema_parts import Document, Name, OneOf, Prose, Title, WholeNumber, of_record
from roofline.errors import RooflineError
from roofline.specs.slo import SLO_EXAMPLE, limits_of_text
from roofline.specs.workload import ARRIVALS, AWAITED, LAWS, UNIFORM_CV, NamedWorkload


def _check_slo(value: str) -> str:
    try:
        limits_of_text(value)
    except RooflineError as fault:
        raise PydanticCustomError("slo", "{fault}", {"fault": str(fault)}) from None
    return value


def _check_prefix(value: int, info: ValidationInfo) -> int:
    """Refuse a prefix longer than the prompt; a faulty isl is reported by itself."""
    isl = info.data.get("isl", value)
    if value > isl:
        fault = f"must not exceed the prompt, isl = {isl}"
        raise PydanticCustomError("prefix", "{fault}", {"fault": fault})
    return value


def _check_lengths(value: str, info: ValidationInfo) -> str:
    """Refuse a uniform law for lengths that vary more than it can."""
    widest = max(info.data.get(name, 0.0) for name in ("isl_cv", "osl_cv"))
    if value == "uniform" and widest > UNIFORM_CV:
        fault = f"a uniform law allows a cv of at most {UNIFORM_CV}, not {widest:g}; use lognormal"
        raise PydanticCustomError("lengths", "{fault}", {"fault": fault})
    return value


#: Standard deviation over mean; above 10, the mean of a thousand requests is meaningless.
_Variation = Annotated[float, Field(ge=0.0, le=10.0)]
_LIMIT = r"[\w\-]+(@([pP][\d.]+|mean))?\s*:\s*[+]?[\d.][^,:]*"
_SHAPE = {"pattern": rf"^\s*{_LIMIT}([,\s]\s*{_LIMIT})*$"}  # for editors; `limits_of_text` is stricter
_Slo = Annotated[
    str, Field(max_length=200, examples=[SLO_EXAMPLE], json_schema_extra=_SHAPE), AfterValidator(_check_slo)
]

WorkloadSpec = of_record(
    NamedWorkload,
    {
        "aliases": (list[Name], []),
        "title": (Title, ""),
        "isl_cv": (_Variation, 0.0),
        "osl_cv": (_Variation, 0.0),
        "lengths": (Annotated[str, OneOf(LAWS), AfterValidator(_check_lengths)], "lognormal"),
        "prefix": (Annotated[WholeNumber, AfterValidator(_check_prefix)], 0),
        "slo": (_Slo | None, None),
        "arrivals": (Annotated[str, OneOf(ARRIVALS)], "rate"),
        "waits_for": (Annotated[str, OneOf(AWAITED)] | None, None),
        "notes": (list[Prose], []),
    },
    base=Document,
    without=("source", "url", "date"),
    nulls=False,
)
