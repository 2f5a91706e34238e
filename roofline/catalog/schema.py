"""What a GPU's and a calibration's specification file must look like, stated once.

pydantic lives here and in `model_schema`, and is imported only for files that are not shipped, and in the tests.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
)
from pydantic_core import PydanticCustomError

from roofline.errors import BadInput
from roofline.quantity import BILLION, count_from_text, from_text
from roofline.specs.formats import PEAKS
from roofline.specs.kernels import CALIBRATED, COLLECTIVES

__all__ = ["CalibrationSpec", "Confidence", "Count", "Document", "GpuSpec", "Name", "Parameters", "Strict"]

Confidence = Literal["high", "medium", "low"]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=1, le=int(BILLION))]


class Strict(BaseModel):
    """No silent conversion, no unknown key."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Figure(Strict):
    """A value with its source."""

    source: Name
    note: str | None = None
    confidence: Confidence | None = None


def _reads(dimension: str) -> BeforeValidator:
    """Validator of a text that must hold a quantity of one dimension."""

    def check(value: object) -> object:
        return _told(from_text, value, dimension)

    return BeforeValidator(check)


def _told(read: Callable[..., object], value: object, *arguments: str) -> object:
    """The value itself where it can be read, else the reason in pydantic's terms."""
    try:
        read(value, *arguments)
    except BadInput as fault:
        raise PydanticCustomError("quantity", "{fault}", {"fault": str(fault)}) from None
    return value


_Usd = Annotated[str, _reads("USD/s")]
_Seconds = Annotated[str, _reads("s")]


class _Rate(_Figure):
    value: Annotated[str, _reads("FLOP/s")]


class _Bytes(_Figure):
    value: Annotated[str, _reads("B")]


class _Bandwidth(_Figure):
    value: Annotated[str, _reads("B/s")]


class _Exponentials(_Figure):
    value: Annotated[str, _reads("exp/s")]


class _Power(_Figure):
    value: Annotated[str, _reads("W")]


class _Clock(_Figure):
    value: Annotated[str, _reads("Hz")]


class _Integer(_Figure):
    value: Count


class _Flag(_Figure):
    value: bool


class Parameters(_Figure):
    """A number of parameters with its source."""

    value: Annotated[int | str, BeforeValidator(lambda value: _told(count_from_text, value))]


def _check_date(value: object) -> object:
    """A day, a month or a year, as YAML reads it."""
    if isinstance(value, dt.datetime) or not isinstance(value, (dt.date, str)):
        raise PydanticCustomError("date", "a date is a text such as 2026-11-21, 2026-11 or '2026'", {})
    if isinstance(value, str) and not re.fullmatch(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?", value):
        raise PydanticCustomError("date", "{value} is no date such as 2026-11-21, 2026-11 or '2026'", {"value": value})
    return str(value)


class _Source(Strict):
    title: Annotated[str, Field(min_length=1, max_length=2000)]
    url: str | None = None
    date: Annotated[str, BeforeValidator(_check_date)]
    engines: list[Name] | None = None
    gpus: list[Name] | None = None


class Document(Strict):
    """What every file has."""

    name: Name
    sources: dict[str, _Source] = Field(min_length=1)
    notes: list[str] = []


class _Memory(Strict):
    kind: Name | None = None
    label: _Bytes
    usable: _Bytes
    bandwidth: _Bandwidth


class _ScaleUp(Strict):
    kind: Name
    topology: Literal["switch", "mesh", "torus", "ring", "pcie"] | None = None
    bandwidth: _Bandwidth
    peer_bandwidth: _Bandwidth | None = None
    domain: _Integer
    in_switch_reduction: _Flag | None = None


class _Network(Strict):
    bandwidth: _Bandwidth


class _Price(Strict):
    low: _Usd
    typical: _Usd
    high: _Usd
    source: Name
    note: str | None = None
    confidence: Confidence | None = None


class GpuSpec(Document):
    """An accelerator."""

    aliases: list[Name] = []
    vendor: Name
    generation: Name
    status: Literal["shipping", "announced", "pre-release", "end-of-life"] = "shipping"
    form_factor: Name | None = None
    compute_capability: Name | None = None
    peak: dict[str, _Rate] = Field(min_length=1)
    exp_per_s: _Exponentials | None = None
    cores: _Integer | None = None
    clock: _Clock | None = None
    cache: _Bytes | None = None
    memory: _Memory
    scale_up: _ScaleUp
    scale_out: _Network | None = None
    host_link: _Network | None = None
    power: _Power | None = None
    price: _Price | None = None

    @field_validator("peak", mode="before")
    @classmethod
    def _check_dtypes(cls, value: Any) -> Any:
        for dtype in value if isinstance(value, Mapping) else ():
            if "spars" in str(dtype):
                raise PydanticCustomError(
                    "peak", "{dtype}: sparse peaks are never stored; give dense ones", {"dtype": dtype}
                )
            if dtype not in PEAKS:
                near = ", ".join(get_close_matches(str(dtype), PEAKS, 3, 0.3) or PEAKS)
                raise PydanticCustomError(
                    "peak", "no peak of dtype {dtype}; nearest: {near}", {"dtype": dtype, "near": near}
                )
        return value


def _number(value: object) -> object:
    """Whole numbers are numbers; texts and truth values are not."""
    return float(value) if type(value) is int else value


_Number = Annotated[float, BeforeValidator(_number)]
_Eta = Annotated[_Number, Field(gt=0.0, le=1.0)]


class _Set(Strict):
    """Parameters of one kind of kernel at one dtype."""

    source: Name
    note: str | None = None
    residual: Annotated[_Number, Field(ge=0.0)] | None = None
    sigma: Annotated[_Number, Field(ge=0.0)] | None = None
    measurements: Count | None = None
    t0: _Seconds | None = None
    eta_c: _Eta | None = None
    eta_m: _Eta | None = None
    eta_x: Annotated[_Number, Field(gt=0.0, le=2.0)] | None = None
    eta_s: _Eta | None = None
    kappa: _Seconds | None = None
    kappa_s: _Seconds | None = None
    eps: _Seconds | None = None
    p: Annotated[_Number, Field(ge=1.0)] | None = None


class _CollectiveSet(Strict):
    """Parameters of one collective."""

    source: Name
    note: str | None = None
    residual: Annotated[_Number, Field(ge=0.0)] | None = None
    sigma: Annotated[_Number, Field(ge=0.0)] | None = None
    measurements: Count | None = None
    a0: _Seconds | None = None
    a1: _Seconds | None = None
    a2: _Seconds | None = None
    q: _Seconds | None = None
    eta: _Eta
    eta_switch: _Eta | None = None


#: Kinds of kernel that a calibration has constants of; `pcie` are those of all collectives over PCIe.
_Kind: TypeAlias = Literal[tuple(kind.name for kind in CALIBRATED)]  # type: ignore[valid-type]
_Collective: TypeAlias = Literal[(*(kind.name for kind in COLLECTIVES), "pcie")]  # type: ignore[valid-type]


class CalibrationSpec(Document):
    """Measured efficiencies of one GPU generation."""

    measured_on: list[Name]
    engines: list[Name] = []
    link: Literal["nvlink", "pcie"] = "nvlink"
    date: Annotated[str, BeforeValidator(_check_date)] | None = None
    kernels: dict[_Kind, dict[str, _Set]]
    collectives: dict[_Collective, _CollectiveSet]
