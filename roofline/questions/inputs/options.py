"""Keyword arguments of the public functions, as TypedDicts; `predict` documents them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import new_class
from typing import TYPE_CHECKING, Generic, TypeAlias, TypedDict, TypeVar

from roofline.numbers.operations import Numbers
from roofline.specs.load import OPTIONS
from roofline.specs.model import Model

if TYPE_CHECKING:
    from roofline.specs.load import Length, LoadOptions
else:  # every answer imports `load`, and making this class takes longer than all the rest of that module
    Length = TypeVar("Length")
    _BODY = {"__module__": __name__, "__annotations__": dict.fromkeys(OPTIONS, "Length | None")}
    LoadOptions = new_class(
        "LoadOptions", (TypedDict, Generic[Length]), {"total": False}, lambda body: body.update(_BODY)
    )
_Value = TypeVar("_Value")

#: Limits: a text such as ``ttft:300@p95,tpot:25``, bare numbers in ms, or a mapping, bare numbers in seconds.
Slo: TypeAlias = str | Mapping[str, float | str]
#: One value of an option, or several to try.
Many: TypeAlias = _Value | Iterable[_Value]

_Trace: TypeAlias = str | Mapping[str, Iterable[float]]
_ColdStart: TypeAlias = str | tuple[float, float]
_Derate: TypeAlias = str | Mapping[str, float | str]
_GpuPrice: TypeAlias = float | str | tuple[float, float]


class _Shared(TypedDict, total=False):
    cache_hit: float | str | None
    cache_tier: str | None
    cache_bandwidth: float | str | None
    cache_size: float | str | None
    working_set: float | str | None
    isl_cv: float | str | None
    osl_cv: float | str | None
    lengths: _Trace | None
    cold_start: _ColdStart | None
    derate: _Derate | None
    tp: int | None
    pp: int
    ep: int
    dp: int
    routing: str | float
    basis: str
    engine: str
    network: float | str
    max_num_batched_tokens: int | str | None
    max_num_seqs: int | str | None
    gpu_memory_utilization: float | str | None
    max_model_len: int | str | None
    specs: str | None
    gpu_price: _GpuPrice | None
    assume: str | None


class _Drafts(TypedDict, total=False):
    draft: str | Model | None
    draft_tokens: int | str | None
    acceptance: float | str | Iterable[float] | None


class _Formats(TypedDict, total=False):
    weights: str | None
    kv_cache_dtype: str | None
    compute: str | None


class _Lengths(TypedDict, Generic[Length], total=False):
    isl: Length
    osl: Length
    prefix: Length


class _Undrafted(_Shared, _Formats, total=False):
    quantization: str | None
    num_gpus: int | None
    allow_oversize: bool


class _Deployed(_Undrafted, _Drafts, total=False):
    pass


class Case(_Deployed, _Lengths[Length], LoadOptions[Length], Generic[Length], total=False):
    """Keyword arguments of `predict`: ``Case`` of one case, ``Case[Numbers]`` of many."""

    measured: str | Mapping[str, float | str] | None
    slo: Slo | None


class Unloaded(_Deployed, _Lengths[float | str], total=False):
    """Options of `goodput` and `curve`, which vary the load."""

    measured: str | Mapping[str, float | str] | None


class SpeculationOptions(_Undrafted, _Lengths[float | str], total=False):
    """Options of `speculate`, which has its own load and draft arguments."""

    slo: Slo | None


class OnceOptions(_Deployed, _Lengths[float | str], LoadOptions[float | str], total=False):
    """Options of `calibrate_once`, whose measurement is a separate argument."""


class CheckOptions(TypedDict, total=False):
    """What `check` takes of a run in place of what its result states."""

    model: str | None
    gpu: str | None
    engine: str | None
    engine_version: str | None
    tp: int | None
    pp: int | None
    ep: int | None
    dp: int | None
    quantization: str | None
    kv_cache_dtype: str | None
    isl: float | str | None
    osl: float | str | None
    prefix: float | str | None
    batch: float | str | None
    concurrency: float | str | None
    request_rate: float | str | None
    num_prompts: float | str | None


class SolveOptions(OnceOptions, total=False):
    """Options of `solve`, which has its own limits."""

    measured: str | Mapping[str, float | str] | None


class CompareOptions(_Deployed, _Lengths[float | str], LoadOptions[float | str], total=False):
    """Options of `compare` and `levers`, which take no measurement of a single deployment."""

    slo: Slo | None


class QuantizeOptions(_Shared, _Drafts, _Lengths[float | str], LoadOptions[float | str], total=False):
    """Options of `quantize`, which varies the formats."""

    num_gpus: int | None
    slo: Slo | None


class SizeOptions(_Shared, _Drafts, _Formats, _Lengths[float | str], LoadOptions[float | str], total=False):
    """Options of `size`, which searches the number of GPUs."""

    quantization: Many[str | None]


class SheetOptions(TypedDict, total=False):
    """Options of `sheet`; lists make a row of every combination."""

    isl: Numbers
    osl: Numbers
    batch: Numbers
    prefix: Numbers
    tp: Many[int | str | None]
    pp: Many[int | str]
    ep: Many[int | str]
    dp: Many[int | str]
    quantization: Many[str | None]
    kv_cache_dtype: Many[str | None]
    basis: Many[str]
    engine: str
    network: float | str
    routing: str | float
    slo: Slo | None
    specs: str | None
    assume: str | None


class Grid(_Lengths[Numbers], LoadOptions[Numbers], total=False):
    """Options of `table`: each option takes one value, or several."""

    cache_hit: Many[float | str | None]
    cache_tier: Many[str | None]
    cache_bandwidth: Many[float | str | None]
    cache_size: Many[float | str | None]
    working_set: Many[float | str | None]
    isl_cv: Many[float | str | None]
    osl_cv: Many[float | str | None]
    lengths: _Trace | Iterable[_Trace] | None
    cold_start: _ColdStart | None
    derate: _Derate | Iterable[_Derate] | None
    tp: Many[int | str | None]
    pp: Many[int | str]
    ep: Many[int | str]
    dp: Many[int | str]
    num_gpus: Many[int | str | None]
    quantization: Many[str | None]
    weights: Many[str | None]
    kv_cache_dtype: Many[str | None]
    compute: Many[str | None]
    routing: Many[str | float]
    basis: Many[str]
    engine: Many[str]
    network: Many[float | str]
    max_num_batched_tokens: Many[int | str | None]
    max_num_seqs: Many[int | str | None]
    gpu_memory_utilization: Many[float | str | None]
    max_model_len: Many[int | str | None]
    draft: Many[str | None]
    draft_tokens: Many[int | str | None]
    acceptance: Many[float | str | None]
    measured: str | Mapping[str, float | str] | None
    slo: Slo | Iterable[Slo] | None
    allow_oversize: bool
    specs: str | None
    gpu_price: Many[_GpuPrice | None]
    assume: str | None


class WorkloadOptions(TypedDict, total=False):
    """Options of `predict` for a named workload."""

    isl: int
    osl: int
    prefix: int
    slo: Mapping[str, float]
    isl_cv: float
    osl_cv: float
    lengths: str
