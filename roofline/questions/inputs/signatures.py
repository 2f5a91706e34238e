"""Types of keyword arguments, for editors and mypy; `predict` documents them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeAlias, TypedDict, TypeVar

from roofline.numbers.operations import Numbers
from roofline.specs.model import Model

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Length = TypeVarWithDefault("Length", default=float | str)
else:
    Length = TypeVar("Length")
_Item = TypeVar("_Item")

#: Limits: a text such as ``ttft:300@p95,tpot:25``, bare numbers in ms, or a mapping, bare numbers in seconds.
Slo: TypeAlias = str | Mapping[str, float | str]
#: One value of an option, or several to try.
Many: TypeAlias = _Item | Iterable[_Item]

_Trace: TypeAlias = str | Mapping[str, Iterable[float]]
_ColdStart: TypeAlias = str | tuple[float, float]
_Arrivals: TypeAlias = str | Mapping[float | str, float]
_Grow: TypeAlias = str | Mapping[str, float]
_ImageSize: TypeAlias = int | str | tuple[int, int]
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
    arrivals: _Arrivals | None
    router: str | None
    turns: int | str | None
    think: float | str | None
    grow: _Grow | None
    system: float | str | None
    lora: str | None
    max_loras: int | str | None
    max_lora_rank: int | str | None
    offload: float | str | None
    offload_bandwidth: float | str | None
    cpu_bandwidth: float | str | None
    images: int | str | None
    image_size: _ImageSize | None
    video_frames: int | str | None
    audio: float | str | None
    derate: _Derate | None
    eplb: int | str | None
    two_batch_overlap: bool
    all_to_all: str | None
    allow_oversize: bool
    compute: str | None
    routing: str | float
    basis: str
    engine: str
    network: float | str
    max_num_batched_tokens: int | str | None
    max_num_seqs: int | str | None
    gpu_memory_utilization: float | str | None
    max_model_len: int | str | None
    specs: str | None
    set: _Derate | None
    power_cap: float | str | None
    gpu_price: _GpuPrice | None
    price_file: str | None
    kwh_price: float | str | None
    pue: float | str | None
    assume: str | None


class _Plain(_Shared, total=False):
    tp: int | None
    pp: int
    ep: int
    dp: int
    cp: int
    dcp: int
    num_gpus: int | None
    weights: str | None
    kv_cache_dtype: str | None


class _Source(TypedDict, total=False):
    draft: str | Model | None
    acceptance: float | str | Iterable[float] | None


class _Drafts(_Source, total=False):
    draft_tokens: int | str | None


class _Lengths(TypedDict, Generic[Length], total=False):
    isl: Length
    osl: Length
    prefix: Length


class _Load(TypedDict, Generic[Length], total=False):
    batch: Length | None
    concurrency: Length | None
    request_rate: Length | None
    num_prompts: Length | None


class Unloaded(_Plain, _Lengths[Length], Generic[Length], total=False):
    """Options of a question that names load, drafts and limits itself."""

    quantization: str | None


class WithoutLoad(Unloaded[float | str], _Drafts, total=False):
    """Options of a question that finds or varies the load, and names its limits itself."""

    measured: str | Mapping[str, float | str] | None


class Unmeasured(Unloaded[Length], _Drafts, _Load[Length], Generic[Length], total=False):
    """Options of a question that names its measurement itself."""


class Unlimited(Unmeasured[Length], Generic[Length], total=False):
    """Options of a question that names its limits itself."""

    measured: str | Mapping[str, float | str] | None


class Case(Unlimited[Length], Generic[Length], total=False):
    """Keyword arguments of `predict`: ``Case`` of one case, ``Case[Numbers]`` of many."""

    slo: Slo | None


class SavedCase(Case[float | str], total=False):
    """A case from a file: keyword arguments of `predict`, model and GPU included."""

    model: str
    gpu: str


class _Plans(TypedDict, total=False):
    """Degrees and formats, of each one value or several."""

    tp: Many[int | str | None]
    pp: Many[int | str]
    ep: Many[int | str]
    dp: Many[int | str]
    cp: Many[int | str]
    dcp: Many[int | str]
    num_gpus: Many[int | str | None]
    quantization: Many[str | None]
    weights: Many[str | None]
    kv_cache_dtype: Many[str | None]
    draft_tokens: Many[int | str | None]


class _Each(_Plans, _Shared, _Source, _Lengths[Numbers], total=False):
    """Options of a question that answers a row for each of several values."""


class GoodputOptions(_Each, total=False):
    """Options of `goodput`, which finds the load, and names its limits itself."""

    measured: str | Mapping[str, float | str] | None


class Loaded(_Each, _Load[Numbers], total=False):
    """Options of a question that answers a row for each of several values and loads, and names its limits itself."""


class PlanAims(TypedDict, total=False):
    """What a plan is for, and what is available for it."""

    objective: str
    spend: float | str | None
    have: str | Mapping[str, int] | None
    growth: float | str | None
    top: int
    disaggregate: bool


class PlanOptions(Loaded, PlanAims, total=False):
    """Options of `plan`."""


class CostOptions(Loaded, total=False):
    """Options of `cost`."""

    measured: str | Mapping[str, float | str] | None
    slo: Slo | None


class ParetoOptions(_Plans, _Shared, _Source, _Lengths[float | str], _Load[Numbers], total=False):
    """Options of `pareto`, which is of one workload: load, degrees and formats take one value, or several."""

    slo: Slo | None


class Grid(_Plans, _Lengths[Numbers], _Load[Numbers], total=False):
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
    arrivals: Many[_Arrivals | None]
    router: Many[str | None]
    turns: Many[int | str | None]
    think: Many[float | str | None]
    grow: Many[_Grow | None]
    system: Many[float | str | None]
    images: Many[int | str | None]
    image_size: _ImageSize | Iterable[_ImageSize] | None
    video_frames: Many[int | str | None]
    audio: Many[float | str | None]
    derate: _Derate | Iterable[_Derate] | None
    eplb: Many[int | str | None]
    two_batch_overlap: bool
    all_to_all: Many[str | None]
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
    acceptance: Many[float | str | None]
    lora: Many[str | None]
    max_loras: Many[int | str | None]
    max_lora_rank: Many[int | str | None]
    offload: Many[float | str | None]
    offload_bandwidth: Many[float | str | None]
    cpu_bandwidth: Many[float | str | None]
    measured: str | Mapping[str, float | str] | None
    slo: Slo | Iterable[Slo] | None
    allow_oversize: bool
    specs: str | None
    set: _Derate | Iterable[_Derate] | None
    power_cap: Many[float | str | None]
    gpu_price: Many[_GpuPrice | None]
    price_file: str | None
    kwh_price: Many[float | str | None]
    pue: Many[float | str | None]
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


class FitOptions(TypedDict, total=False):
    """Options of `fits`: of a deployment, without a load."""

    tp: int | None
    pp: int
    ep: int
    dp: int
    cp: int
    dcp: int
    num_gpus: int | None
    quantization: str | None
    weights: str | None
    kv_cache_dtype: str | None
    compute: str | None
    engine: str
    max_num_batched_tokens: int | str | None
    max_num_seqs: int | str | None
    gpu_memory_utilization: float | str | None
    max_model_len: int | str | None
    draft: str | Model | None
    draft_tokens: int | str | None
    acceptance: float | str | Iterable[float] | None
    specs: str | None
    set: str | Mapping[str, float | str] | None
    assume: str | None


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
