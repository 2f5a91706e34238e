"""Every quantity that an answer depends on, as an input that can be named, changed or traced."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from roofline.errors import BadInput
from roofline.ops import Real, plain
from roofline.physics.plan import Deployment, Precision
from roofline.quantity import BITS_PER_BYTE
from roofline.records import NamedTuple, replace
from roofline.serving.answer import memory_of
from roofline.serving.latency import BURST, Workload
from roofline.serving.precision import MATRICES
from roofline.serving.prediction import Prediction
from roofline.serving.prompt_cache import is_a_mixture
from roofline.serving.served import request_passes
from roofline.serving.traffic.load import served
from roofline.specs.calibration import Calibration
from roofline.specs.engine import Engine
from roofline.specs.formats import format_symbol
from roofline.specs.gpu import Gpu

__all__ = [
    "HOST_TIMES",
    "KINDS",
    "LOAD",
    "WORKLOAD",
    "Input",
    "changed",
    "inputs",
    "refuse_arrays",
    "stated",
    "with_inputs",
]

#: Kinds of input. Time is homogeneous of degree -1 in rates and 1 / latencies.
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

#: Part of an answer that a load makes, for choices that belong to no pass of a request.
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
#: Times of an engine, with what they are.
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
    """A quantity that an answer depends on."""

    name: str
    kind: str
    unit: str
    value: float
    meaning: str


Make = Callable[[Input], Real]


def with_inputs(
    prediction: Prediction, make: Make, part: Callable[[str], AbstractContextManager[Any]] = nullcontext
) -> Prediction:
    """The prediction made again by the same functions, every input replaced by what `make` gives for it.

    Its `memory` stays that of the prediction given.

    Args:
        prediction: a single case.
        make: number of any kind for an input, e.g. its value.
        part: context in which the prefill and the decode pass are made, called with their names.

    Returns:
        The prediction on these numbers.
    """
    deployment, workload = prediction.deployment, prediction.workload
    own = deployment.plan
    if own.tp > 1:
        own = replace(own, tp=make(Input("tp", "plan", "1", float(own.tp), "tensor-parallel degree")))
    deployment = replace(
        deployment,
        plan=own,
        gpu=_gpu(deployment.gpu, make),
        precision=_precision(deployment, make),
        engine=_engine(deployment.engine, make),
        skew=_made(make, "skew", "workload", "1", deployment.skew, "routing skew of the experts"),
    )
    lengths = {
        name: make(Input(name, "workload", unit, float(getattr(workload, name)), meaning))
        for name, (unit, meaning) in WORKLOAD.items()
        if name in stated(workload)
    }
    again = replace(workload, **lengths)
    cache = workload.cache
    if cache is not None and type(cache.hit) is float and is_a_mixture(cache):
        found_by = make(Input("cache_hit", "workload", "1", cache.hit, "share of requests whose prefix is cached"))
        again = replace(again, cache=replace(cache, hit=found_by))
    found = prediction.served
    if found is not None:
        with part(LOAD):
            found = served(deployment, again, tuple(map(plain, found.state)))
    with part("prefill"):  # each part makes choices of its own: none is remembered from another one
        first, _ = request_passes(replace(deployment), again, found)
    with part("decode"):
        _, step = request_passes(replace(deployment), again, found)
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
        workload=again,
        prefill=first,
        decode=step,
        correction=correction,
        served=found,
    )


def stated(workload: Workload) -> tuple[str, ...]:
    """Names of the lengths and of the load that a workload states.

    Args:
        workload: lengths and load.

    Returns:
        Some of `WORKLOAD` [text].
    """
    load = "batch" if workload.load == BURST else workload.load
    run = () if workload.num_prompts is None else ("num_prompts",)
    return "isl", "osl", load, "prefix", *run


def inputs(prediction: Prediction) -> dict[str, Input]:
    """Inputs of a prediction by name.

    Args:
        prediction: a single case.

    Returns:
        Every quantity that can be named, whether or not an answer depends on it.
    """
    found: dict[str, Input] = {}

    def noted(entry: Input) -> float:
        found[entry.name] = entry
        return entry.value

    with_inputs(prediction, noted)
    return found


def changed(prediction: Prediction, changes: Mapping[str, Any]) -> Prediction:
    """The prediction with some inputs at other values, its memory included.

    Args:
        prediction: a single case.
        changes: values by name of the input [any].

    Returns:
        The prediction.
    """
    if changes.keys() <= set(WORKLOAD):  # nothing else need be made again
        deployment, workload = prediction.deployment, replace(prediction.workload, **changes)
        found = None if prediction.served is None else served(deployment, workload)
        first, step = request_passes(deployment, workload, found)
        again = replace(prediction, workload=workload, prefill=first, decode=step, served=found)
    else:
        again = with_inputs(prediction, lambda entry: changes.get(entry.name, entry.value))
    return replace(again, memory=memory_of(again.deployment, again.workload, again.served))


def refuse_arrays(prediction: Prediction, question: str) -> None:
    """Refuse a prediction of several cases.

    Args:
        prediction: the prediction.
        question: what was asked, for the message [text].

    Raises:
        BadInput: a length or the load is an array.
    """
    workload = prediction.workload
    for name in stated(workload):
        if not isinstance(getattr(workload, name), float):
            raise BadInput(f"{question} takes one case, but {name} is an array; call it once per element")


def _made(make: Make, name: str, kind: str, unit: str, value: Real | None, meaning: str) -> Any:
    """An input where there is a quantity: what is absent or zero stays as it is."""
    if value is None or value == 0.0:
        return value
    return make(Input(name if name.isidentifier() else _symbol(name), kind, unit, float(value), meaning))


def _symbol(name: str) -> str:
    """A name of which a part comes from a file, as formulas and programs can write it."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII)


def _gpu(gpu: Gpu, make: Make) -> Gpu:
    link = gpu.link
    per_s = "B/s"
    return replace(
        gpu,
        peaks={
            dtype: _made(make, f"peak_{dtype}", "rate", "FLOP/s", rate, f"dense {dtype} peak")
            for dtype, rate in gpu.peaks.items()
        },
        bandwidth=_made(make, "bandwidth", "rate", per_s, gpu.bandwidth, "HBM bandwidth"),
        memory=_made(make, "memory", "capacity", "B", gpu.memory, "usable HBM"),
        exp_rate=_made(make, "exp_rate", "rate", "exp/s", gpu.exp_rate, "special-function rate"),
        scale_out=_made(make, "scale_out", "rate", per_s, gpu.scale_out, "network per GPU"),
        host_link=gpu.host_link
        if gpu.host_domain is None
        else _made(make, "host_link", "rate", per_s, gpu.host_link, "PCIe per direction"),
        link=replace(
            link,
            bandwidth=_made(make, "link_bandwidth", "rate", per_s, link.bandwidth, f"{link.kind} per direction"),
            peer_bandwidth=_made(make, "peer_bandwidth", "rate", per_s, link.peer_bandwidth, "link to one peer"),
        ),
        calibration=None if gpu.calibration is None else _calibration(gpu.calibration, make),
    )


def _calibration(calibration: Calibration, make: Make) -> Calibration:
    kernels = {
        (kind, dtype): replace(
            entry,
            **{
                field: _made(
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
                field: _made(make, f"{field}_{name}", what, unit, getattr(entry, field), f"{meaning}, {name}")
                for field, (what, unit, meaning) in _COLLECTIVE.items()
            },
        )
        for name, entry in calibration.collectives.items()
    }
    return replace(calibration, kernels=kernels, collectives=collectives)


def _engine(engine: Engine, make: Make) -> Engine:
    times = {
        field: _made(
            make, field if field == "network" else f"host_{field}", "latency", "s", getattr(engine, field), meaning
        )
        for field, meaning in HOST_TIMES.items()
    }
    tunings = tuple(
        replace(
            tuning,
            **{
                field: _made(
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


def _precision(deployment: Deployment, make: Make) -> Precision:
    """Bits of the weights, one input for each format of the matrices; of the head; of the KV cache."""
    precision = deployment.precision
    held = [name for name in MATRICES if deployment.model.is_moe or name in ("linear", "attention")]
    formats = dict.fromkeys(precision.sections[name].format for name in held)
    bits: dict[str, Real] = {}
    for name in formats:
        stored = next(scheme for scheme in precision.sections.values() if scheme.format == name)
        key = "weight_bits" if len(formats) == 1 else f"weight_bits_{format_symbol(name)}"
        bits[name] = make(Input(key, "precision", "bit", stored.weight_nbytes * BITS_PER_BYTE, f"{name} weights"))
    sections = {
        name: scheme._replace(weight_nbytes=bits[scheme.format] / BITS_PER_BYTE) if name in held else scheme
        for name, scheme in precision.sections.items()
    }
    head = precision.sections["head"]
    width = make(Input("head_bits", "precision", "bit", head.weight_nbytes * BITS_PER_BYTE, "LM head weights"))
    sections["head"] = head._replace(weight_nbytes=width / BITS_PER_BYTE)
    kv = make(Input("kv_bits", "precision", "bit", precision.kv_nbytes * BITS_PER_BYTE, "KV cache values"))
    return precision._replace(sections=sections, kv_nbytes=kv / BITS_PER_BYTE)
