"""Passes and memory of a case in cells, whose parts are called after the records that hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.ops import Real, where
from roofline.physics.assembly import rank_batch
from roofline.physics.forward import Pass
from roofline.physics.memory import Memory, memory
from roofline.physics.one_equation import LinkRoof, Terms
from roofline.physics.plan import Deployment
from roofline.records import replace
from roofline.serving.latency import Workload, decode, prefill
from roofline.specs.kernels import HOST
from roofline.workbook.cell import named, scope, unmarked

__all__ = ["held_memory", "passes"]


@scope("")
def passes(is_ideal: Any, deployment: Deployment, workload: Workload) -> tuple[Pass, Pass]:
    """Prefill and mean decode step on the basis that is asked for.

    Args:
        is_ideal: whether light speed is [condition].
        deployment: on the calibrated basis.
        workload: lengths and batch.

    Returns:
        Both passes.
    """
    light = replace(deployment, basis="ideal")

    def part(of: Callable[[Deployment, Workload], Pass]) -> Pass:
        both = of(light, workload), of(deployment, workload)
        named("rank batch", rank_batch(workload.batch, deployment.plan.dp))  # the cell that is there by now
        for passed in both:
            _name_kernels(passed)
        return _either(is_ideal, *both)

    return part(prefill), part(decode)


@scope("")
def held_memory(deployment: Deployment, batch: Real, length: Real) -> Memory:
    """Memory of the fullest GPU, each share named.

    Args:
        deployment: model, GPU, plan and formats.
        batch: sequences in a step [sequences].
        length: tokens that each reaches [tokens].

    Returns:
        The shares.
    """
    need = memory(deployment, batch, length)
    named("weight bytes", need.weights)
    named("cache bytes", need.kv_cache)
    named("activation bytes", need.activations)
    return need


def _name_kernels(passed: Pass) -> None:
    """Call the work of a pass after its kernels, and their times after the equation that they come from."""
    for kernel in passed.kernels:
        is_collective = isinstance(kernel.roof, LinkRoof)
        for number in (*kernel.work, kernel.count):
            named(unmarked(kernel.name), number)
        for number in kernel.roof if is_collective else ():
            named("link roof", number)
        for number in kernel.terms:
            named("collective time" if is_collective else "kernel time", number)


@scope("either")
def _either(is_light: Any, light: Pass, real: Pass) -> Pass:
    """A pass at light speed or on the calibrated basis; the host works on the latter alone."""
    others = iter(light.kernels)
    kernels = []
    for kernel in real.kernels:
        other = kernel._replace(terms=Terms(*[0.0] * len(kernel.terms))) if kernel.kind is HOST else next(others)
        terms = Terms(*(where(is_light, *pair) for pair in zip(other.terms, kernel.terms, strict=True)))
        kernels.append(kernel._replace(count=where(is_light, other.count, kernel.count), terms=terms))
    return Pass(tuple(kernels))
