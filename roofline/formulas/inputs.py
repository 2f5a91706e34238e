"""Every quantity that a prediction depends on, as an input that can be named, changed or traced."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from roofline.errors import BadInput
from roofline.ops import Real, plain
from roofline.physics.plan import Deployment, ModelQuantization
from roofline.quantity import BITS_PER_BYTE
from roofline.records import NamedTuple, replace
from roofline.serving.answer import memory_of
from roofline.serving.latency import BURST, Workload
from roofline.serving.prediction import Prediction
from roofline.serving.prompt_cache import is_a_mixture
from roofline.serving.quantization import MATRICES
from roofline.serving.served import request_passes
from roofline.serving.traffic.load import served
from roofline.specs.calibration import Calibration
from roofline.specs.engine import Engine
from roofline.specs.formats import format_symbol
from roofline.specs.gpu import Gpu

#: Time is homogeneous of degree -1 in rates and 1 / latencies.
KINDS = ("rate", "latency", "efficiency", "workload", "precision", "plan", "capacity")

WORKLOAD = {
    "isl": ("tokens", "prompt length"),
    "osl": ("tokens", "answer length"),
    "batch": ("sequences", "sequences in the batch"),
    "prefix": ("tokens", "cached prompt tokens"),
    "concurrency": ("requests", "users of the deployment"),
    "request_rate": ("1/s", "requests that arrive at the deployment"),
    "num_prompts": ("requests", "requests in the run"),
}

#: Part of a prediction with the equations of a load, in addition to prefill and decode.
LOAD = ""

_KERNEL = {
    "t0": ("latency", "s", "kernel launch and pipeline fill"),
    "t0_ep": ("latency", "s", "kernel launch and pipeline fill, experts spread over ranks"),
    "kappa": ("latency", "s", "per tile step, overlapped with compute"),
    "kappa_s": ("latency", "s", "per tile step, not overlapped"),
    "eps": ("latency", "s", "per active expert"),
    "eta_c": ("efficiency", "1", "share of the peak"),
    "eta_m": ("efficiency", "1", "share of the HBM bandwidth"),
    "eta_x": ("efficiency", "1", "share of the special-function rate"),
    "eta_s": ("efficiency", "1", "share of the HBM bandwidth, traffic not overlapped"),
}
_COLLECTIVE = {
    "a0": ("latency", "s", "start-up"),
    "a1": ("latency", "s", "per additional rank"),
    "a2": ("latency", "s", "per doubling of the ranks"),
    "q": ("latency", "s", "pipeline ramp-up"),
    "eta": ("efficiency", "1", "share of the link's rate"),
    "eta_switch": ("efficiency", "1", "share of the link's rate, in-switch reduction"),
}
#: Meaning of every time of an engine.
HOST_TIMES = {
    "network": "round trip between client and server",
    "request": "host, per request",
    "arrival": "host, more per request that comes while others are decoded",
    "prefill": "host, per prefill pass",
    "launch": "host, per kernel of a pass over prompts",
    "launch_decode": "host, per kernel of a decode step",
    "step": "host, per decode step",
    "layer": "host, per layer of a decode step",
    "sequence": "host, per sequence of a decode step",
    "all_reduce": "engine, per all-reduce",
}
_TUNING = {
    "eta_c": "share of the peak",
    "compute": "factor on the share of the peak",
    "memory": "factor on the share of the bandwidth",
}


class Input(NamedTuple):
    name: str
    kind: str
    unit: str
    value: float
    meaning: str


Make = Callable[[Input], Real]


def with_inputs(
    prediction: Prediction, make: Make, part: Callable[[str], AbstractContextManager[Any]] = nullcontext
) -> Prediction:
    """The prediction of a single case computed again, every input replaced by `make(input)`; its `memory` stays.

    `part` gives the context in which the prefill, the decode pass and the load are computed, by name.
    """
    deployment, workload = prediction.deployment, prediction.workload
    plan = deployment.plan
    if plan.tp > 1:
        plan = replace(plan, tp=make(Input("tp", "plan", "1", float(plan.tp), "tensor-parallel degree")))
    deployment = replace(
        deployment,
        plan=plan,
        gpu=_gpu(deployment.gpu, make),
        quantization=_quantization(deployment, make),
        engine=_engine(deployment.engine, make),
        routing_skew=_input(
            make, "routing_skew", "workload", "1", deployment.routing_skew, "routing skew of the experts"
        ),
    )
    lengths = {
        name: make(Input(name, "workload", unit, float(getattr(workload, name)), meaning))
        for name, (unit, meaning) in WORKLOAD.items()
        if name in workload_inputs(workload)
    }
    workload = replace(workload, **lengths)
    cache = workload.cache
    if cache is not None and type(cache.hit) is float and is_a_mixture(cache):
        hit = make(Input("cache_hit", "workload", "1", cache.hit, "share of requests whose prefix is cached"))
        workload = replace(workload, cache=replace(cache, hit=hit))
    under_load = prediction.served
    if under_load is not None:
        with part(LOAD):
            under_load = served(deployment, workload, tuple(map(plain, under_load.state)))
    with part("prefill"):  # a new deployment per part: choices in its memo would belong to another part
        prefill, _ = request_passes(replace(deployment), workload, under_load)
    with part("decode"):
        _, decode = request_passes(replace(deployment), workload, under_load)
    factors = {
        name: value
        if value == 1.0
        else make(Input(f"correction_{name}", "efficiency", "1", value, "correction by a measurement"))
        for name, value in (("ttft", prediction.correction.ttft), ("tpot", prediction.correction.tpot))
    }
    correction = prediction.correction._replace(**factors)
    return replace(
        prediction,
        deployment=deployment,
        workload=workload,
        prefill=prefill,
        decode=decode,
        correction=correction,
        served=under_load,
    )


def workload_inputs(workload: Workload) -> tuple[str, ...]:
    """Names of a workload's lengths and load, among `WORKLOAD`."""
    load = "batch" if workload.load == BURST else workload.load
    run = () if workload.num_prompts is None else ("num_prompts",)
    return "isl", "osl", load, "prefix", *run


def inputs(prediction: Prediction) -> dict[str, Input]:
    """Inputs of a single case by name, whether or not a result depends on them."""
    entries: dict[str, Input] = {}

    def collect(entry: Input) -> float:
        entries[entry.name] = entry
        return entry.value

    with_inputs(prediction, collect)
    return entries


def changed(prediction: Prediction, changes: Mapping[str, Any]) -> Prediction:
    """The prediction of a single case with inputs at other values, its memory included."""
    if changes.keys() <= set(WORKLOAD):  # the deployment stays
        deployment, workload = prediction.deployment, replace(prediction.workload, **changes)
        under_load = None if prediction.served is None else served(deployment, workload)
        prefill, decode = request_passes(deployment, workload, under_load)
        result = replace(prediction, workload=workload, prefill=prefill, decode=decode, served=under_load)
    else:
        result = with_inputs(prediction, lambda entry: changes.get(entry.name, entry.value))
    return replace(result, memory=memory_of(result.deployment, result.workload, result.served))


def refuse_arrays(prediction: Prediction, question: str) -> None:
    """Refuse a prediction of several cases; `question` opens the message."""
    workload = prediction.workload
    for name in workload_inputs(workload):
        if not isinstance(getattr(workload, name), float):
            raise BadInput(f"{question} takes one case, but {name} is an array; call it once per element")


def _input(make: Make, name: str, kind: str, unit: str, value: Real | None, meaning: str) -> Any:
    """`make` of an input; a value that is absent or zero stays as it is."""
    if value is None or value == 0.0:
        return value
    return make(Input(name if name.isidentifier() else _identifier(name), kind, unit, float(value), meaning))


def _identifier(name: str) -> str:
    """A name, parts of which may come from a file, as an identifier."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII)


def _gpu(gpu: Gpu, make: Make) -> Gpu:
    link, per_s = gpu.link, "B/s"
    return replace(
        gpu,
        peaks={
            dtype: _input(make, f"peak_{dtype}", "rate", "FLOP/s", rate, f"dense {dtype} peak")
            for dtype, rate in gpu.peaks.items()
        },
        bandwidth=_input(make, "bandwidth", "rate", per_s, gpu.bandwidth, "HBM bandwidth"),
        memory=_input(make, "memory", "capacity", "B", gpu.memory, "usable HBM"),
        exp_rate=_input(make, "exp_rate", "rate", "exp/s", gpu.exp_rate, "special-function rate"),
        scale_out=_input(make, "scale_out", "rate", per_s, gpu.scale_out, "network per GPU"),
        host_link=gpu.host_link
        if gpu.host_domain is None
        else _input(make, "host_link", "rate", per_s, gpu.host_link, "PCIe per direction"),
        link=replace(
            link,
            bandwidth=_input(make, "link_bandwidth", "rate", per_s, link.bandwidth, f"{link.kind} per direction"),
            peer_bandwidth=_input(make, "peer_bandwidth", "rate", per_s, link.peer_bandwidth, "link to one peer"),
        ),
        calibration=None if gpu.calibration is None else _calibration(gpu.calibration, make),
    )


def _calibration(calibration: Calibration, make: Make) -> Calibration:
    kernels = {
        (kind, dtype): replace(
            entry,
            **{
                field: _input(
                    make, f"{field}_{kind}_{dtype}", what, unit, getattr(entry, field), f"{meaning}, {dtype} {kind}"
                )
                for field, (what, unit, meaning) in _KERNEL.items()
            },
        )
        for (kind, dtype), entry in calibration.kernels.items()
    }
    collectives = {
        name: replace(
            entry,
            **{
                field: _input(make, f"{field}_{name}", what, unit, getattr(entry, field), f"{meaning}, {name}")
                for field, (what, unit, meaning) in _COLLECTIVE.items()
            },
        )
        for name, entry in calibration.collectives.items()
    }
    return replace(calibration, kernels=kernels, collectives=collectives)


def _engine(engine: Engine, make: Make) -> Engine:
    times = {
        field: _input(
            make, field if field == "network" else f"host_{field}", "latency", "s", getattr(engine, field), meaning
        )
        for field, meaning in HOST_TIMES.items()
    }
    tunings = tuple(
        replace(
            tuning,
            **{
                field: _input(
                    make,
                    "_".join(filter(None, (f"tuning_{field}", tuning.kind, tuning.dtype, tuning.generation))),
                    "efficiency",
                    "1",
                    getattr(tuning, field),
                    f"{meaning} of {engine.name}'s kernels",
                )
                for field, meaning in _TUNING.items()
            },
        )
        for tuning in engine.tunings
    )
    return replace(engine, **times, tunings=tunings)


def _quantization(deployment: Deployment, make: Make) -> ModelQuantization:
    """Bits per weight are one input per format of the matrices, one for the head, one for the KV cache."""
    quantization = deployment.quantization
    weights = [name for name in MATRICES if deployment.model.is_moe or name in ("linear", "attention")]
    formats = dict.fromkeys(quantization.sections[name].format for name in weights)
    bits: dict[str, Real] = {}
    for name in formats:
        stored = next(scheme for scheme in quantization.sections.values() if scheme.format == name)
        key = "weight_bits" if len(formats) == 1 else f"weight_bits_{format_symbol(name)}"
        bits[name] = make(Input(key, "precision", "bit", stored.weight_nbytes * BITS_PER_BYTE, f"{name} weights"))
    sections = {
        name: scheme._replace(weight_nbytes=bits[scheme.format] / BITS_PER_BYTE) if name in weights else scheme
        for name, scheme in quantization.sections.items()
    }
    head = quantization.sections["head"]
    head_bits = make(Input("head_bits", "precision", "bit", head.weight_nbytes * BITS_PER_BYTE, "LM head weights"))
    sections["head"] = head._replace(weight_nbytes=head_bits / BITS_PER_BYTE)
    kv_bits = make(Input("kv_bits", "precision", "bit", quantization.kv_nbytes * BITS_PER_BYTE, "KV cache values"))
    return quantization._replace(sections=sections, kv_nbytes=kv_bits / BITS_PER_BYTE)
