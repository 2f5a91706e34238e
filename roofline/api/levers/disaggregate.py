"""Prompts and answers on GPUs of their own: what requests see of two pools, and whether one pool would do better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from roofline.api.inputs import case
from roofline.api.inputs.pools import pool_of
from roofline.api.inputs.shape import traffic
from roofline.api.inputs.slo import Limits, slo_limits
from roofline.api.inputs.texts import plain_options
from roofline.api.levers.pool_answer import Disaggregation
from roofline.api.levers.pool_inputs import deployment_of_pool, kv_link_between
from roofline.api.predict import DEFAULT_ENGINE, DEFAULTS
from roofline.catalog import find
from roofline.errors import BadInput, Overloaded
from roofline.quantity import rounded
from roofline.serving.disaggregation import Pools
from roofline.serving.latency import BURST, Workload
from roofline.serving.traffic.pool_domain import pools_outside
from roofline.serving.traffic.pools import Pooled, pooled
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.slo import LATENCIES

if TYPE_CHECKING:
    from roofline.api.inputs.options import Slo
    from roofline.api.levers.pool_options import PoolCase

__all__ = ["disaggregate"]

_LOADS = ("concurrency", "request_rate")
_OF_LOADS = ("isl", "osl", "prefix", "isl_cv", "osl_cv", "lengths", "cold_start")
_NONE = ("batch", "num_gpus", "measured", "tp", "pp", "ep", "dp")


def disaggregate(
    model: str | Model,
    prefill: str | Gpu,
    decode: str | Gpu,
    *,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    kv_link: str | float | None = None,
    layerwise: bool = False,
    prefill_gpu_price: float | str | None = None,
    decode_gpu_price: float | str | None = None,
    slo: Slo | None = None,
    **options: Unpack[PoolCase],
) -> Disaggregation:
    """Latencies of a model whose prompts and answers are computed on pools of their own.

    Args:
        model: name, alias or record [text].
        prefill: pool that computes prompts, such as ``b200:tp4x2``: GPU, plan, formats, replicas [text].
        decode: pool that writes answers, such as ``h200:tp8:fp8x3`` [text].
        prefill_engine: profile of the engine of the prefill pool, where it is not that of both (`engine`) [text].
        decode_engine: the same of the decode pool [text].
        kv_link: what KV caches move over: ``nvlink``, ``rdma``, ``pcie``, or the bandwidth of a GPU and direction, such
            as ``50 GB/s``, bare numbers in B/s; None for NVLink where one scale-up domain holds both pools, else the
            network at the lower rate of both GPUs [text].
        layerwise: send each layer's part while later layers are computed [bool].
        prefill_gpu_price: of a GPU of the prefill pool; None for that of the catalog [USD/h].
        decode_gpu_price: of a GPU of the decode pool; None for that of the catalog [USD/h].
        slo: limits as of `predict` [s].
        options: `concurrency` or `request_rate`, lengths, formats and `engine` as of `predict`; where a pool states a
            format itself, that one counts.

    Returns:
        The answer.

    Raises:
        UnknownName: no such model, GPU, format, engine or SLO key.
        BadInput: no load, a burst, a link without a bandwidth, a pool that cannot be.
        DoesNotFit: the plan of a pool needs more memory than its GPUs have.
        Overloaded: more requests come than can be answered.

    >>> import roofline as rl
    >>> found = rl.disaggregate("llama-3.1-8b", "h100", "h100", isl=2000, osl=200, request_rate=4, basis="ideal")
    >>> round(found.transfer / (2000 * 131072 / 450e9), 6)  # 131 kB a token over NVLink
    1.0
    """
    stray = next((name for name in _NONE if options.get(name) is not None), None)
    if stray == "batch":
        raise BadInput("a burst has no pools to fill; give concurrency or request_rate")
    if stray is not None:
        raise BadInput(f"{stray} belongs to a pool here; write it there, as in prefill='b200:tp4x2'")
    plain = plain_options({"isl": DEFAULTS["isl"], "osl": DEFAULTS["osl"], "prefix": 0, **options})
    given = [name for name in _LOADS if plain.get(name) is not None]
    if not given:
        raise BadInput("disaggregate needs a load; give concurrency or request_rate")
    loads = {name: plain.pop(name, None) for name in (*_LOADS, "num_prompts")}
    shape = {name: plain.get(name) for name in _OF_LOADS}
    limits = None if slo is None else slo_limits(slo)
    asked = plain.get("specs"), plain.get("assume")
    record, note = (model, None) if isinstance(model, Model) else find.find_model(model, *asked)
    isl, osl, spread, start = traffic(
        shape["isl"], shape["osl"],
        lengths=shape["lengths"], isl_cv=shape["isl_cv"], osl_cv=shape["osl_cv"], cold_start=shape["cold_start"],
    )  # fmt: skip
    workload = case.workload(isl, osl, None, shape["prefix"], **loads, lengths=spread, cold_start=start)
    if workload.load == BURST or type(workload.isl + workload.osl + sum(map(_number, loads.values()))) is not float:
        raise BadInput("disaggregate takes one case; lengths and load must be numbers, not arrays")
    if workload.num_prompts is not None and any(key not in LATENCIES for key in limits or ()):
        raise BadInput("percentiles need a steady state: leave out num_prompts, or limit the mean")
    is_trace = spread is not None and spread.rows is not None
    prompts = plain if is_trace else {**plain, "osl": 1, "osl_cv": None}
    engine = plain.get("engine") or DEFAULT_ENGINE
    plain, prompts = ({**each, "cold_start": None} for each in (plain, prompts))  # of the load, not of a pool
    first, said = deployment_of_pool(
        "prefill", record, prefill, {**prompts, "engine": prefill_engine or engine}, prefill_gpu_price
    )
    second, more = deployment_of_pool(
        "decode", record, decode, {**plain, "engine": decode_engine or engine}, decode_gpu_price
    )
    pools = Pools(first, second, kv_link_between(first, second, kv_link, layerwise))
    found = pooled(pools, workload)
    if not found.is_stable:
        raise Overloaded(_too_many(found, workload))
    notes = [] if note is None else [note]
    if first.precision.kv_format != second.precision.kv_format:
        notes.append(
            f"the pools keep KV caches as {first.precision.kv_format} and {second.precision.kv_format}: converting is "
            "taken to be free"
        )
    formats = {}
    for role, text in (("prefill", prefill), ("decode", decode)):
        stated = pool_of(text, plain.get("specs"))
        chosen = None if stated is None else stated.quantization
        if chosen or plain.get("quantization"):
            formats[role] = chosen or plain["quantization"]
    warnings = (*notes, *said, *more, pools_outside(pools, workload, found))
    return Disaggregation(pools, workload, found, limits or Limits(), warnings, formats)


def _number(value: Any) -> Any:
    return 0.0 if value is None else value * 1.0


def _too_many(found: Pooled, workload: Workload) -> str:
    """Which part is full."""
    rates = {
        "the prefill pool": float(found.max_prefill_rate),
        "the decode pool": float(found.max_decode_rate),
        "the link between the pools": float(found.max_link_rate),
    }
    part = min(rates, key=lambda name: rates[name])
    remedy = "a faster link" if part.startswith("the link") else "more replicas"
    return (
        f"{part} answers at most {rounded(rates[part])} requests/s of this kind; request_rate = "
        f"{rounded(float(workload.request_rate or 0.0))} is too much for it: lower the rate, or give it {remedy}"
    )
