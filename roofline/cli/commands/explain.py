"""Kernels of a pass with work, time and bound, and their equations with numbers."""

from __future__ import annotations

from roofline.api.explain import Kernel, Pass, Prediction, computed_tokens, equation, prediction_passes
from roofline.cli.render import echo, print_table
from roofline.cli.screen import cell_text, prose
from roofline.quantity import MICRO, rounded, to_text

_HEADINGS = ("kernel", "runs", "FLOP", "bytes", "one us", "all us", "share", "bound by")


def print_explanation(prediction: Prediction, output_format: str) -> None:
    for name, passed in prediction_passes(prediction):
        echo(f"\n{_title(prediction, name)}: {to_text(passed.time, 's')}, bound: {passed.bound}\n")
        print_table(_HEADINGS, [_cells(kernel, passed) for kernel in passed.kernels], output_format)
        echo("\n" + prose(_FORMULA if prediction.basis != "ideal" else _IDEAL_FORMULA, indent="      "))
        for kernel in passed.kernels:
            echo(prose(f"  {kernel.name}: {equation(kernel)}", indent="      "))


_FORMULA = "t = t0 + || F/(eta_c P) + kappa d , Q/(eta_m W) ||_p + X/(eta_x S) + Q_s/(eta_s W) + kappa_s d_s + eps n"
_IDEAL_FORMULA = "t = max(F/P, Q/W)"


def _cells(kernel: Kernel, passed: Pass) -> list[str]:
    return [
        kernel.name,
        f"{kernel.count:g}",
        f"{kernel.work.flop:.3g}",
        f"{kernel.work.nbytes or kernel.work.link_bytes:.3g}",
        cell_text(kernel.terms.total / MICRO),
        cell_text(kernel.time / MICRO),
        f"{100.0 * kernel.time / passed.time:.1f}%",
        str(kernel.terms.bound),
    ]


def _title(prediction: Prediction, name: str) -> str:
    workload = prediction.workload
    where = f"{prediction.deployment.model.short_name} on {prediction.deployment.gpu.name}"
    if name == "prefill":
        tokens = " or ".join(f"{kind:g}" for kind in computed_tokens(prediction))
        return f"{where}, prefill of {workload.batch:g} x {tokens} tokens"
    size = rounded(prediction.decode_batch)
    return f"{where}, mean decode step of {size} sequence{'' if size == '1' else 's'}"
