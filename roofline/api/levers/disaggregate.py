"""Disaggregated serving: latencies with separate prefill and decode pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from roofline.api.inputs import case
from roofline.api.inputs.pools import pool_of
from roofline.api.inputs.shape import TRAFFIC, traffic
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
    from roofline.api.inputs.options import OnceOptions, Slo


_LOADS = ("concurrency", "request_rate")
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
    **options: Unpack[OnceOptions],
) -> Disaggregation:
    """Latencies of a model with separate prefill and decode pools.

    Args:
        model: name, alias or record.
        prefill: pool for prompts, such as ``b200:tp4x2``: GPU, plan, formats, replicas.
        decode: pool for answers, such as ``h200:tp8:fp8x3``.
        prefill_engine: engine profile of the prefill pool; None for `engine`.
        decode_engine: engine profile of the decode pool; None for `engine`.
        kv_link: link for KV caches: ``nvlink``, ``rdma``, ``pcie``, or its bandwidth per GPU and direction, such as
            ``50 GB/s``, bare numbers in B/s; None for NVLink where one scale-up domain holds both pools, else the
            network at the lower rate of both GPUs [B/s].
        layerwise: send each layer's KV cache while later layers are computed.
        prefill_gpu_price: of a GPU of the prefill pool; None for the catalog's [USD/h].
        decode_gpu_price: of a GPU of the decode pool; None for the catalog's [USD/h].
        slo: limits as in `predict` [s].
        options: `concurrency` or `request_rate`, lengths, formats and `engine` as in `predict`; formats in a pool's
            text take precedence.

    Returns:
        Latencies, their parts, and the utilization of pools and link.

    Raises:
        UnknownName: no such model, GPU, format, engine or SLO key.
        BadInput: no load, a burst, a link without a bandwidth, or an impossible pool.
        DoesNotFit: the plan of a pool needs more memory than its GPUs have.
        Overloaded: the request rate exceeds the saturation rate.

    >>> import roofline as rl
    >>> result = rl.disaggregate("llama-3.1-8b", "h100", "h100", isl=2000, osl=200, request_rate=4, basis="ideal")
    >>> round(result.transfer / (2000 * 131072 / 450e9), 6)  # 131 kB a token over NVLink
    1.0
    """
    stray = next((name for name in _NONE if options.get(name) is not None), None)
    if stray == "batch":
        raise BadInput("a burst has no pools to fill; give concurrency or request_rate")
    if stray is not None:
        raise BadInput(f"{stray} belongs to a pool here; write it there, as in prefill='b200:tp4x2'")
    plain = plain_options({"isl": DEFAULTS["isl"], "osl": DEFAULTS["osl"], "prefix": 0, **options})
    if all(plain.get(name) is None for name in _LOADS):
        raise BadInput("disaggregate needs a load; give concurrency or request_rate")
    loads = {name: plain.pop(name, None) for name in (*_LOADS, "num_prompts")}
    limits = None if slo is None else slo_limits(slo)
    catalog_options = plain.get("specs"), plain.get("assume")
    record, note = (model, None) if isinstance(model, Model) else find.find_model(model, *catalog_options)
    spreads = {name: plain.get(name) for name in TRAFFIC}
    isl, osl, lengths, cold_start = traffic(plain["isl"], plain["osl"], **spreads)
    workload = case.workload(isl, osl, None, plain["prefix"], **loads, lengths=lengths, cold_start=cold_start)
    if workload.load == BURST or type(workload.isl + workload.osl + sum(map(_number, loads.values()))) is not float:
        raise BadInput("disaggregate takes one case; lengths and load must be numbers, not arrays")
    if workload.num_prompts is not None and any(key not in LATENCIES for key in limits or ()):
        raise BadInput("percentiles need a steady state: leave out num_prompts, or limit the mean")
    plain["cold_start"] = None  # belongs to the load
    engine = plain.get("engine") or DEFAULT_ENGINE
    decode_options = {**plain, "engine": decode_engine or engine}
    prefill_options = {**plain, "engine": prefill_engine or engine}
    if lengths is None or lengths.rows is None:  # not a trace
        prefill_options |= {"osl": 1, "osl_cv": None}
    first, prefill_notes = deployment_of_pool("prefill", record, prefill, prefill_options, prefill_gpu_price)
    second, decode_notes = deployment_of_pool("decode", record, decode, decode_options, decode_gpu_price)
    pools = Pools(first, second, kv_link_between(first, second, kv_link, layerwise))
    pooled_load = pooled(pools, workload)
    if not pooled_load.is_stable:
        raise Overloaded(_overload_message(pooled_load, workload))
    notes = [] if note is None else [note]
    if first.quantization.kv_format != second.quantization.kv_format:
        both = f"{first.quantization.kv_format} and {second.quantization.kv_format}"
        notes.append(f"the pools keep KV caches as {both}: converting is taken to be free")
    formats = {}
    for role, text in (("prefill", prefill), ("decode", decode)):
        pool = pool_of(text, plain.get("specs"))
        chosen = None if pool is None else pool.quantization
        if chosen or plain.get("quantization"):
            formats[role] = chosen or plain["quantization"]
    warnings = (*notes, *prefill_notes, *decode_notes, pools_outside(pools, workload, pooled_load))
    return Disaggregation(pools, workload, pooled_load, limits or Limits(), warnings, formats)


def _number(value: Any) -> Any:
    return 0.0 if value is None else value * 1.0


def _overload_message(load: Pooled, workload: Workload) -> str:
    rates = {
        "the prefill pool": float(load.max_prefill_rate),
        "the decode pool": float(load.max_decode_rate),
        "the link between the pools": float(load.max_link_rate),
    }
    if workload.request_rate is None:
        return f"no steady state was found for {workload.concurrency:g} users; ask for fewer, or give more replicas"
    part = min(rates, key=lambda name: rates[name])
    remedy = "a faster link" if part.startswith("the link") else "more replicas"
    return (
        f"{part} answers at most {rounded(rates[part])} requests/s of this kind; request_rate = "
        f"{rounded(float(workload.request_rate or 0.0))} is too much for it: lower the rate, or give it {remedy}"
    )
