"""Schemas of the specification files of GPUs and calibrations."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from roofline.catalog.schema_parts import (
    Cited,
    Count,
    Date,
    Document,
    Fraction,
    Name,
    OneOf,
    Positive,
    Prose,
    Quantity,
    Strict,
    of_record,
)
from roofline.specs.calibration import CollectiveEfficiency, Efficiency
from roofline.specs.formats import PEAKS
from roofline.specs.kernels import CALIBRATED, COLLECTIVES


class _Rate(Cited):
    value: Annotated[str, Quantity("FLOP/s")]


class _Bytes(Cited):
    value: Annotated[str, Quantity("B")]


class _Bandwidth(Cited):
    value: Annotated[str, Quantity("B/s")]


class _Exponentials(Cited):
    value: Annotated[str, Quantity("exp/s")]


class _Power(Cited):
    value: Annotated[str, Quantity("W")]


class _Clock(Cited):
    value: Annotated[str, Quantity("Hz")]


class _Integer(Cited):
    value: Count


class _Flag(Cited):
    value: bool


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


class _HostLink(_Network):
    domain: _Integer | None = None


class _Ratio(Cited):
    value: Positive


class _Price(Cited):
    low: Annotated[str, Quantity("USD/s")]
    typical: Annotated[str, Quantity("USD/s")]
    high: Annotated[str, Quantity("USD/s")]


class GpuSpec(Document):
    """An accelerator."""

    aliases: list[Name] = Field(default=[])
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
    host_link: _HostLink | None = None
    sustained: _Ratio | None = None
    other_nodes: list[Name] = Field(default=[])
    power: _Power | None = None
    price: _Price | None = None

    @field_validator("peak", mode="before")
    @classmethod
    def _check_dtypes(cls, value: Any) -> Any:
        for dtype in value if isinstance(value, Mapping) else ():
            if "spars" in str(dtype):
                raise PydanticCustomError(
                    "peak", "{dtype}: sparse peaks are not accepted; give the dense peak", {"dtype": dtype}
                )
            if dtype not in PEAKS:
                near = ", ".join(get_close_matches(str(dtype), PEAKS, 3, 0.3) or PEAKS)
                raise PydanticCustomError(
                    "peak", "unknown dtype {dtype}; did you mean {near}?", {"dtype": dtype, "near": near}
                )
        return value


class _Fit(Strict):
    """Where the efficiencies of a set come from, and how well they fit."""

    source: Name
    note: Prose | None = None
    residual: Annotated[float, Field(ge=0.0, le=5.0)] | None = None
    sigma: Annotated[float, Field(ge=0.0, le=5.0)] | None = None
    measurements: Count | None = None


if TYPE_CHECKING:  # type checkers do not take a generated class for a type
    _Kernel: TypeAlias = Any
    _Collective: TypeAlias = Any
else:
    _UNSTATED = ("is_measured", "sigma")
    _LOOSER = {
        "eta_x": (Annotated[float, Field(gt=0.0, le=2.0)] | None, None),
        "p": (Annotated[float, Field(ge=1.0)] | None, None),
    }
    _Kernel = of_record(Efficiency, _LOOSER, base=_Fit, without=_UNSTATED, nulls=True)
    _Collective = of_record(CollectiveEfficiency, {"eta": (Fraction, ...)}, base=_Fit, without=_UNSTATED, nulls=True)


#: Kinds of kernel with constants in a calibration; `pcie` stands for all collectives over PCIe.
_KINDS = tuple(kind.name for kind in CALIBRATED)
_LINKS = (*(kind.name for kind in COLLECTIVES), "pcie")


class CalibrationSpec(Document):
    """Measured efficiencies of one GPU generation."""

    measured_on: list[Name]
    engines: list[Name] = Field(default=[])
    link: Literal["nvlink", "pcie"] = "nvlink"
    date: Date | None = None
    kernels: dict[Annotated[str, OneOf(_KINDS)], dict[Name, _Kernel]]
    collectives: dict[Annotated[str, OneOf(_LINKS)], _Collective]
