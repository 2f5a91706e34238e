"""The kernels of a prediction: flat rows, and the roofline equation with the numbers of each put in."""

from __future__ import annotations

from typing import Any

from roofline.physics.forward import Pass
from roofline.physics.one_equation import IDEAL, IDEAL_LINK, Kernel, LinkRoof, Roof, collective_time
from roofline.quantity import MICRO, to_text
from roofline.serving.prediction import Prediction
from roofline.serving.prompt_cache import prompt_kinds
from roofline.specs.kernels import HOST, the

__all__ = ["Kernel", "Pass", "Prediction", "computed_tokens", "equation", "kernel_rows", "prediction_passes"]


def kernel_rows(prediction: Prediction) -> list[dict[str, Any]]:
    """Kernels of both passes as flat rows, in SI units and microseconds."""
    model, gpu = prediction.deployment.model.short_name, prediction.deployment.gpu.name
    return [
        {
            "model": model,
            "gpu": gpu,
            "pass": name,
            "kernel": kernel.name,
            "kind": kernel.kind.name,
            "dtype": kernel.dtype,
            "count": kernel.count,
            "flop": kernel.work.flop,
            "nbytes": kernel.work.nbytes,
            "link_bytes": kernel.work.link_bytes,
            "time_us": kernel.terms.total / MICRO,
            "total_us": kernel.time / MICRO,
            "share": kernel.time / passed.time,
            "bound": kernel.terms.bound,
            "equation": equation(kernel),
        }
        for name, passed in prediction_passes(prediction)
        for kernel in passed.kernels
    ]


def computed_tokens(prediction: Prediction) -> tuple[float, ...]:
    """Prompt tokens that are computed; with a prompt cache those of a hit, then those of a miss [tokens]."""
    workload = prediction.workload
    kinds = prompt_kinds(prediction.deployment, workload.isl, workload.prefix, workload.cache)
    return tuple(float(kind.computed) for kind in kinds)


def prediction_passes(prediction: Prediction) -> tuple[tuple[str, Pass], ...]:
    """The prefill and, where there is more than one output token, the mean decode step, by name."""
    passes = (("prefill", prediction.prefill), ("decode", prediction.decode))
    return passes if prediction.tpot is not None else passes[:1]


def equation(kernel: Kernel) -> str:
    """Text such as ``3.33 us + || 1e+11/(0.8 x 9.89e+14) , 5e+07/(0.86 x 3.35e+12) ||_3 = 130 us``."""
    text = _link_terms(kernel, kernel.roof) if isinstance(kernel.roof, LinkRoof) else _terms(kernel, kernel.roof)
    return f"{text} = {to_text(kernel.terms.total, 's')}" + (f", {kernel.count} times" if kernel.count != 1 else "")


def _terms(kernel: Kernel, roof: Roof) -> str:
    work, used = kernel.work, roof.efficiency
    if kernel.kind is HOST:
        return f"time of {the(kernel.kind.label)}"
    if used is IDEAL:
        return f"max({_text(work.flop)}/{_text(roof.peak)}, {_text(work.nbytes)}/{_text(roof.bandwidth)})"
    compute = f"{_text(work.flop)}/({_text(used.eta_c)} x {_text(roof.peak)})"
    if used.kappa:
        compute += f" + {to_text(used.kappa, 's')} x {_text(work.depth)}"
    memory = f"{_text(work.overlapped_bytes)}/({_text(used.eta_m)} x {_text(roof.bandwidth)})"
    parts = [to_text(used.t0, "s"), f"|| {compute} , {memory} ||_{used.p:g}"]
    if work.exponentials:
        parts.append(f"{_text(work.exponentials)}/({_text(used.eta_x)} x {_text(roof.exp_rate)})")
    if work.serial_bytes:
        parts.append(f"{_text(work.serial_bytes)}/({_text(used.eta_s)} x {_text(roof.bandwidth)})")
    if used.kappa_s and work.serial_depth:
        parts.append(f"{to_text(used.kappa_s, 's')} x {_text(work.serial_depth)}")
    if used.eps and work.items:
        parts.append(f"{to_text(used.eps, 's')} x {_text(work.items)}")
    return " + ".join(parts)


def _link_terms(kernel: Kernel, roof: LinkRoof) -> str:
    used, sent = roof.efficiency, kernel.work.link_bytes
    if used is IDEAL_LINK:
        return f"{_text(roof.least * sent)}/{_text(roof.bandwidth)}"
    parts = [to_text(used.a0, "s")]
    if used.a1:
        parts.append(f"{to_text(used.a1, 's')} x {roof.ranks - 1:g}")
    if used.a2:
        parts.append(f"{to_text(used.a2, 's')} x {roof.doublings:g}")
    if used.q:
        parts.append(f"sqrt({to_text(used.q, 's')} x {_text(sent)}/{_text(roof.bandwidth)})")
    link = f"{_text(sent)}/({_text(used.eta)} x {_text(roof.bandwidth)})"
    if used.eta_switch is not None:
        link = f"min({link}, {_text(roof.least * sent)}/({_text(used.eta_switch)} x {_text(roof.bandwidth)}))"
    parts.append(link)
    beyond = kernel.terms.latency - collective_time(kernel.work, roof).latency
    if beyond > 0.0:
        parts.append(f"{to_text(beyond, 's')} of the engine")
    return " + ".join(parts)


def _text(value: float) -> str:
    return f"{value:.3g}"
