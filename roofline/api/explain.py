"""The kernels of a prediction: rows for programs, and the one equation with the numbers of each put in."""

from __future__ import annotations

from typing import Any

from roofline.physics.forward import Pass
from roofline.physics.one_equation import LIGHT, LIGHT_LINK, Kernel, LinkRoof, Roof, collective_time
from roofline.quantity import MICRO, to_text
from roofline.serving.prediction import Prediction
from roofline.serving.prompt_cache import prompt_kinds
from roofline.specs.kernels import HOST, the

__all__ = ["Kernel", "Pass", "Prediction", "computed_tokens", "equation", "kernel_rows", "prediction_passes"]


def kernel_rows(prediction: Prediction) -> list[dict[str, Any]]:
    """Kernels of both passes as flat rows.

    Args:
        prediction: a single case.

    Returns:
        Rows with SI amounts and microseconds.
    """
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
    """Tokens of a prompt that are computed: with a prompt cache those of a hit, then those of a miss.

    Args:
        prediction: a single case.

    Returns:
        One or two numbers [tokens].
    """
    workload = prediction.workload
    kinds = prompt_kinds(prediction.deployment, workload.isl, workload.prefix, workload.cache)
    return tuple(float(kind.computed) for kind in kinds)


def prediction_passes(prediction: Prediction) -> tuple[tuple[str, Pass], ...]:
    """Passes that a prediction is made of.

    Args:
        prediction: a single case.

    Returns:
        Name and kernels of the prefill and, where there is more than one output token, of the mean decode step.
    """
    passes = (("prefill", prediction.prefill), ("decode", prediction.decode))
    return passes if prediction.tpot is not None else passes[:1]


def equation(kernel: Kernel) -> str:
    """The one equation with the numbers of a kernel put in.

    Args:
        kernel: the kernel.

    Returns:
        Text such as ``3.33 us + || 1e+11/(0.8 x 9.89e+14) , 5e+07/(0.86 x 3.35e+12) ||_3 = 130 us`` [text].
    """
    text = _link_terms(kernel, kernel.roof) if isinstance(kernel.roof, LinkRoof) else _terms(kernel, kernel.roof)
    return f"{text} = {to_text(kernel.terms.total, 's')}" + (f", {kernel.count} times" if kernel.count != 1 else "")


def _terms(kernel: Kernel, roof: Roof) -> str:
    work, used = kernel.work, roof.efficiency
    if kernel.kind is HOST:
        return f"time of {the(kernel.kind.label)}"
    if used is LIGHT:
        return f"max({_n(work.flop)}/{_n(roof.peak)}, {_n(work.nbytes)}/{_n(roof.bandwidth)})"
    compute = f"{_n(work.flop)}/({_n(used.eta_c)} x {_n(roof.peak)})"
    if used.kappa:
        compute += f" + {to_text(used.kappa, 's')} x {_n(work.depth)}"
    memory = f"{_n(work.overlapped_bytes)}/({_n(used.eta_m)} x {_n(roof.bandwidth)})"
    parts = [to_text(used.t0, "s"), f"|| {compute} , {memory} ||_{used.p:g}"]
    if work.exponentials:
        parts.append(f"{_n(work.exponentials)}/({_n(used.eta_x)} x {_n(roof.exp_rate)})")
    if work.serial_bytes:
        parts.append(f"{_n(work.serial_bytes)}/({_n(used.eta_s)} x {_n(roof.bandwidth)})")
    if used.kappa_s and work.serial_depth:
        parts.append(f"{to_text(used.kappa_s, 's')} x {_n(work.serial_depth)}")
    if used.eps and work.items:
        parts.append(f"{to_text(used.eps, 's')} x {_n(work.items)}")
    return " + ".join(parts)


def _link_terms(kernel: Kernel, roof: LinkRoof) -> str:
    used, sent = roof.efficiency, kernel.work.link_bytes
    if used is LIGHT_LINK:
        return f"{_n(roof.least * sent)}/{_n(roof.bandwidth)}"
    parts = [to_text(used.a0, "s")]
    if used.a1:
        parts.append(f"{to_text(used.a1, 's')} x {roof.ranks - 1:g}")
    if used.a2:
        parts.append(f"{to_text(used.a2, 's')} x {roof.doublings:g}")
    if used.q:
        parts.append(f"sqrt({to_text(used.q, 's')} x {_n(sent)}/{_n(roof.bandwidth)})")
    link = f"{_n(sent)}/({_n(used.eta)} x {_n(roof.bandwidth)})"
    if used.eta_switch is not None:
        link = f"min({link}, {_n(roof.least * sent)}/({_n(used.eta_switch)} x {_n(roof.bandwidth)}))"
    parts.append(link)
    beyond = kernel.terms.latency - collective_time(kernel.work, roof).latency
    if beyond > 0.0:
        parts.append(f"{to_text(beyond, 's')} of the engine")
    return " + ".join(parts)


def _n(value: float) -> str:
    """Amount or rate at three significant digits."""
    return f"{value:.3g}"
