"""What a specification file must look like, stated once.

pydantic lives here alone and is imported only for files that are not shipped, and in the tests.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from roofline.catalog.formats import FORMATS, KV_FORMATS, PEAKS
from roofline.errors import BadInput
from roofline.quantity import BILLION, count_from_text, from_text

__all__ = ["CalibrationSpec", "Document", "GpuSpec", "ModelSpec"]

_Confidence = Literal["high", "medium", "low"]
_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Count = Annotated[int, Field(ge=1, le=int(BILLION))]


class _Strict(BaseModel):
    """No silent conversion, no unknown key."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Figure(_Strict):
    """A value with its source."""

    source: _Name
    note: str | None = None
    confidence: _Confidence | None = None


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
    value: _Count


class _Flag(_Figure):
    value: bool


class _Parameters(_Figure):
    value: Annotated[int | str, BeforeValidator(lambda value: _told(count_from_text, value))]


def _check_date(value: object) -> object:
    """A day, a month or a year, as YAML reads it."""
    if isinstance(value, dt.datetime) or not isinstance(value, (dt.date, str)):
        raise PydanticCustomError("date", "a date is a text such as 2026-11-21, 2026-11 or '2026'", {})
    if isinstance(value, str) and not re.fullmatch(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?", value):
        raise PydanticCustomError("date", "{value} is no date such as 2026-11-21, 2026-11 or '2026'", {"value": value})
    return str(value)


class _Source(_Strict):
    title: Annotated[str, Field(min_length=1, max_length=2000)]
    url: str | None = None
    date: Annotated[str, BeforeValidator(_check_date)]


class Document(_Strict):
    """What every file has."""

    name: _Name
    sources: dict[str, _Source] = Field(min_length=1)
    notes: list[str] = []


class _Memory(_Strict):
    kind: _Name | None = None
    label: _Bytes
    usable: _Bytes
    bandwidth: _Bandwidth


class _ScaleUp(_Strict):
    kind: _Name
    topology: Literal["switch", "mesh", "torus", "ring", "pcie"] | None = None
    bandwidth: _Bandwidth
    peer_bandwidth: _Bandwidth | None = None
    domain: _Integer
    in_switch_reduction: _Flag | None = None


class _Network(_Strict):
    bandwidth: _Bandwidth


class _Price(_Strict):
    low: _Usd
    typical: _Usd
    high: _Usd
    source: _Name
    note: str | None = None
    confidence: _Confidence | None = None


class GpuSpec(Document):
    """An accelerator."""

    aliases: list[_Name] = []
    vendor: _Name
    generation: _Name
    status: Literal["shipping", "announced", "pre-release", "end-of-life"] = "shipping"
    form_factor: _Name | None = None
    compute_capability: _Name | None = None
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


class _Gqa(_Strict):
    kind: Literal["gqa"]
    heads: _Count
    kv_heads: _Count
    head_dim: _Count
    v_head_dim: _Count | None = None
    window: _Count | None = None
    chunk: _Count | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False

    @model_validator(mode="after")
    def _check(self) -> _Gqa:
        if self.heads % self.kv_heads:
            raise PydanticCustomError(
                "mixer", "{kv} kv_heads do not divide {q} heads", {"kv": self.kv_heads, "q": self.heads}
            )
        if self.window is not None and self.chunk is not None:
            raise PydanticCustomError("mixer", "a layer has a window or a chunk, not both", {})
        return self


class _Mla(_Strict):
    kind: Literal["mla"]
    heads: _Count
    q_rank: _Count | None = None
    kv_rank: _Count
    nope: _Count
    rope: _Count
    v: _Count


class _Dense(_Strict):
    kind: Literal["dense"]
    width: _Count
    gated: bool = True
    bias: bool = False


class _Moe(_Strict):
    kind: Literal["moe"]
    experts: _Count
    top_k: _Count
    width: _Count
    gated: bool = True
    shared_width: Annotated[int, Field(ge=0, le=int(BILLION))] = 0
    router_bias: bool = False
    expert_bias: bool = False

    @model_validator(mode="after")
    def _check(self) -> _Moe:
        if self.top_k > self.experts:
            raise PydanticCustomError("ffn", "top_k {k} exceeds {e} experts", {"k": self.top_k, "e": self.experts})
        return self


_Mixer = Annotated[_Gqa | _Mla, Field(discriminator="kind")]
_Ffn = Annotated[_Dense | _Moe, Field(discriminator="kind")]


class _Layer(_Strict):
    mixer: _Mixer
    ffn: _Ffn


class _Group(_Strict):
    repeat: Annotated[int, Field(ge=1, le=10_000)]
    mixer: _Mixer | None = None
    ffn: _Ffn | None = None
    pattern: list[_Layer] | None = Field(default=None, min_length=1, max_length=1000)

    @model_validator(mode="after")
    def _check(self) -> _Group:
        single = self.mixer is not None and self.ffn is not None
        if single == (self.pattern is not None) or (self.mixer is None) != (self.ffn is None):
            raise PydanticCustomError("group", "a group has either a mixer and an ffn, or a pattern of layers", {})
        return self


def _one_of(names: Iterable[str]) -> Any:
    """Field that holds one of some names."""
    return Field(pattern=f"^({'|'.join(names)})$")


_FormatName = Annotated[str, _one_of(FORMATS)]
_KvFormatName = Annotated[str, _one_of(KV_FORMATS)]


class _Native(_Strict):
    linear: _FormatName = "bf16"
    experts: _FormatName | None = None
    embed: _FormatName = "bf16"
    head: _FormatName = "bf16"
    router: _FormatName = "bf16"
    norm: _FormatName = "bf16"
    kv: _KvFormatName = "bf16"


class _Stated(_Strict):
    total: _Parameters | None = None
    active: _Parameters | None = None


class _Cited(_Strict):
    source: _Name
    note: str | None = None
    confidence: _Confidence | None = None


class _Mtp(_Strict):
    layers: _Count


class ModelSpec(Document):
    """A language model."""

    aliases: list[_Name] = Field(min_length=1)
    family: str = ""
    hidden: _Count
    vocab: _Count
    tied: bool
    norms: Annotated[int, Field(ge=0, le=16)] = 2
    max_context: _Count | None = None
    groups: list[_Group] = Field(min_length=1, max_length=1000)
    native: _Native = _Native()
    parameters: _Stated = _Stated()
    architecture: _Cited
    mtp: _Mtp | None = None


def _number(value: object) -> object:
    """Whole numbers are numbers; texts and truth values are not."""
    return float(value) if type(value) is int else value


_Number = Annotated[float, BeforeValidator(_number)]
_Eta = Annotated[_Number, Field(gt=0.0, le=1.0)]


class _Set(_Strict):
    """Parameters of one kind of kernel at one dtype."""

    source: _Name
    note: str | None = None
    residual: Annotated[_Number, Field(ge=0.0)] | None = None
    measurements: _Count | None = None
    t0: _Seconds | None = None
    eta_c: _Eta | None = None
    eta_m: _Eta | None = None
    eta_x: Annotated[_Number, Field(gt=0.0, le=2.0)] | None = None
    eta_s: _Eta | None = None
    kappa: _Seconds | None = None
    kappa_s: _Seconds | None = None
    eps: _Seconds | None = None
    p: Annotated[_Number, Field(ge=1.0)] | None = None


class _CollectiveSet(_Strict):
    """Parameters of one collective."""

    source: _Name
    note: str | None = None
    residual: Annotated[_Number, Field(ge=0.0)] | None = None
    measurements: _Count | None = None
    a0: _Seconds | None = None
    a1: _Seconds | None = None
    a2: _Seconds | None = None
    q: _Seconds | None = None
    eta: _Eta


class CalibrationSpec(Document):
    """Measured efficiencies of one GPU generation."""

    measured_on: list[_Name]
    kernels: dict[
        Literal[
            "gemm",
            "attention_prefill",
            "attention_decode",
            "mla_prefill",
            "mla_decode",
            "moe",
            "elementwise",
        ],
        dict[str, _Set],
    ]
    collectives: dict[
        Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p", "moe_dispatch", "moe_combine"],
        _CollectiveSet,
    ]
