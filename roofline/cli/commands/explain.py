"""Why: every kernel of a pass with its work, time and bound, and the equation with the numbers put in."""

from __future__ import annotations

from roofline.api.explain import Kernel, Pass, Prediction, computed_tokens, equation, prediction_passes
from roofline.cli.render import digits, echo, print_table
from roofline.cli.screen import prose
from roofline.quantity import MICRO, rounded, to_text

__all__ = ["print_explanation"]

_HEADINGS = ("kernel", "runs", "FLOP", "bytes", "one us", "all us", "share", "bound by")


def print_explanation(prediction: Prediction, output_format: str) -> None:
    """Print the kernels of both passes and their equations.

    Args:
        prediction: a single case.
        output_format: table or markdown [text].
    """
    for name, passed in prediction_passes(prediction):
        echo(f"\n{_title(prediction, name)}: {to_text(passed.time, 's')}, bound: {passed.bound}\n")
        print_table(_HEADINGS, [_cells(kernel, passed) for kernel in passed.kernels], output_format)
        echo("\n" + prose(_FORMULA if prediction.basis != "ideal" else _LIGHT_FORMULA, indent="      "))
        for kernel in passed.kernels:
            echo(prose(f"  {kernel.name}: {equation(kernel)}", indent="      "))


_FORMULA = "t = t0 + || F/(eta_c P) + kappa d , Q/(eta_m W) ||_p + X/(eta_x S) + Q_s/(eta_s W) + kappa_s d_s + eps n"
_LIGHT_FORMULA = "t = max(F/P, Q/W)"


def _cells(kernel: Kernel, passed: Pass) -> list[str]:
    return [
        kernel.name,
        f"{kernel.count:g}",
        _n(kernel.work.flop),
        _n(kernel.work.nbytes or kernel.work.link_bytes),
        digits(kernel.terms.total / MICRO),
        digits(kernel.time / MICRO),
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


def _n(value: float) -> str:
    """Amount or rate at three significant digits."""
    return f"{value:.3g}"
